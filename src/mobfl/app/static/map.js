// A map of a network or of recorded positions, on which a section is drawn with the mouse; the text field is its other form.

import { Figure } from "./figure.js";
import { ask, brief, byId, linesOf, megabytes, oncePerFrame, say } from "./page.js";

const MARGIN = 14; // pixels around all of it
const NEAR = 12; // pixels at which an edge is meant
const LEAST_DRAG = 4;
const MOST_ZOOM = 200;
const SCALE_PX = 120;

export class MapView {
  constructor({ most_upload_bytes }) {
    Object.assign(this, { mostBytes: most_upload_bytes, map: null, view: null, drag: null });
    const canvas = byId("map");
    this.figure = new Figure(canvas, (...given) => this.#draw(...given));
    this.show = oncePerFrame(() => this.figure.show());
    byId("map-show").addEventListener("click", () => this.#load());
    byId("map-all").addEventListener("click", () => this.#look(null));
    byId("trace-section").addEventListener("input", () => this.show());
    canvas.addEventListener("pointerdown", (event) => this.#begin(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", () => this.#end());
    canvas.addEventListener("wheel", (event) => this.#zoom(event), { passive: false });
    addEventListener("resize", () => this.show());
  }

  /** The file that was chosen for the map, or else the trace itself. */
  async #load() {
    const file = byId("map-file").files[0] ?? byId("trace-file").files[0];
    const refuse = (line) => say(byId("map-says"), [line]);
    if (!file) return refuse("Choose a network or a trace with positions first.");
    if (file.size > this.mostBytes)
      return refuse(`A map must be at most ${megabytes(this.mostBytes)}, got ${megabytes(file.size)}.`);
    say(byId("map-says"), [`Reading ${file.name} …`], false);
    try {
      const name = new URLSearchParams({ name: file.name });
      this.map = await ask(`/api/map?${name}`, { method: "POST", body: file });
      const what = this.map.edges.length ? `${this.map.edges.length} edges` : `${this.map.points.length} positions`;
      say(byId("map-says"), [`${file.name}: ${what}. Drag to draw a section; the wheel zooms.`], false);
    } catch (error) {
      this.map = null;
      say(byId("map-says"), linesOf(error));
    }
    byId("map-shown").hidden = !this.map;
    byId("map-edge").disabled = !this.map?.edges.length;
    if (byId("map-edge").disabled && byId("map-edge").checked) byId("map-circle").checked = true;
    this.#look(null);
  }

  get #tool() {
    return document.querySelector("input[name=map-tool]:checked").value;
  }

  // ---- from metres to pixels ------------------------------------------------------------------------

  /** `view` is the middle in metres and how far it is magnified; null shows all. */
  #look(view) {
    this.view = view;
    byId("map-all").disabled = !view;
    this.show();
  }

  #places(width, height) {
    const [x0, y0, x1, y1] = this.map.bounds;
    const fit = Math.min((width - 2 * MARGIN) / (x1 - x0 || 1), (height - 2 * MARGIN) / (y1 - y0 || 1));
    const { x, y, zoom } = this.view ?? { x: (x0 + x1) / 2, y: (y0 + y1) / 2, zoom: 1 };
    const scale = fit * zoom;
    return {
      scale,
      at: (metres) => [width / 2 + (metres[0] - x) * scale, height / 2 - (metres[1] - y) * scale],
      back: ([left, top]) => [x + (left - width / 2) / scale, y - (top - height / 2) / scale],
    };
  }

  #here() {
    return this.#places(byId("map").clientWidth, byId("map").clientHeight);
  }

  #pixel(event) {
    const { clientLeft, clientTop } = byId("map"); // its border
    const box = byId("map").getBoundingClientRect();
    return [event.clientX - box.left - clientLeft, event.clientY - box.top - clientTop];
  }

  // ---- hands ----------------------------------------------------------------------------------------

  #begin(event) {
    if (!this.map) return;
    byId("map").setPointerCapture(event.pointerId);
    const pixel = this.#pixel(event);
    if (this.#tool === "edge") return this.#chooseEdge(pixel);
    this.drag = { from: pixel, to: pixel };
  }

  #move(event) {
    if (!this.drag) return;
    this.drag.to = this.#pixel(event);
    const { from, to } = this.drag;
    if (Math.hypot(to[0] - from[0], to[1] - from[1]) >= LEAST_DRAG) this.#write(this.#drawnSection());
  }

  #end() {
    this.drag = null;
  }

  #drawnSection() {
    const { back } = this.#here();
    const [[x0, y0], [x1, y1]] = [back(this.drag.from), back(this.drag.to)];
    if (this.#tool === "circle") return `circle:${[x0, y0, Math.hypot(x1 - x0, y1 - y0)].map(metres)}`;
    return `box:${[Math.min(x0, x1), Math.min(y0, y1), Math.max(x0, x1), Math.max(y0, y1)].map(metres)}`;
  }

  #chooseEdge(pixel) {
    const { at } = this.#here();
    const far = ({ shape }) => distance(pixel, shape.map(at));
    const nearest = this.map.edges.map((edge) => [far(edge), edge.id]).reduce((a, b) => (b[0] < a[0] ? b : a));
    if (nearest[0] <= NEAR) this.#write(`edge:${nearest[1]}`);
  }

  #write(section) {
    byId("trace-section").value = section;
    this.show();
  }

  #zoom(event) {
    if (!this.map) return;
    event.preventDefault();
    const { back } = this.#here();
    const [x, y] = back(this.#pixel(event));
    const before = this.view ?? { ...this.#middle(), zoom: 1 };
    const zoom = Math.min(Math.max(before.zoom * (event.deltaY < 0 ? 1.25 : 0.8), 1), MOST_ZOOM);
    const share = before.zoom / zoom; // what is under the pointer stays there
    const view = { x: x + (before.x - x) * share, y: y + (before.y - y) * share, zoom };
    this.#look(zoom === 1 ? null : view);
  }

  #middle() {
    const [x0, y0, x1, y1] = this.map.bounds;
    return { x: (x0 + x1) / 2, y: (y0 + y1) / 2 };
  }

  // ---- the picture ----------------------------------------------------------------------------------

  #draw(pen, width, height, colours) {
    if (!this.map) return;
    const { at, scale } = this.#places(width, height);
    for (const point of this.map.points) pen.rect(at(point)[0] - 0.8, at(point)[1] - 0.8, 1.6, 1.6, colours.soft);
    for (const { shape } of this.map.edges) pen.line(shape.map(at), { stroke: colours.soft, width: 1.6 });
    this.#drawSection(pen, at, scale, colours);
    drawScale(pen, scale, height, colours);
  }

  #drawSection(pen, at, scale, colours) {
    const [kind, rest] = splitAt(byId("trace-section").value.trim(), ":");
    const numbers = rest.split(",").map(Number);
    const stroke = { stroke: colours.bad, width: 3 };
    if (kind === "edge") {
      const edge = this.map.edges.find(({ id }) => id === rest || rest.startsWith(`${id}:`));
      if (edge) pen.line(edge.shape.map(at), { ...stroke, width: 5 });
    } else if (!numbers.every(Number.isFinite)) return;
    else if (kind === "circle" && numbers.length === 3) {
      const place = at(numbers);
      const rim = Array.from({ length: 73 }, (_, i) => turned(place, numbers[2] * scale, (i * Math.PI) / 36));
      drawArea(pen, rim, stroke);
    } else if (kind === "box" && numbers.length === 4) {
      const [x0, y0, x1, y1] = numbers;
      drawArea(pen, [[x0, y0], [x1, y0], [x1, y1], [x0, y1], [x0, y0]].map(at), stroke);
    }
  }
}

const metres = (value) => Math.round(10 * value) / 10;
const turned = ([x, y], radius, angle) => [x + radius * Math.cos(angle), y + radius * Math.sin(angle)];

function splitAt(text, mark) {
  const place = text.indexOf(mark);
  return place < 0 ? [text, ""] : [text.slice(0, place), text.slice(place + 1)];
}

function drawArea(pen, rim, stroke) {
  pen.area(rim, stroke.stroke, 0.14);
  pen.line(rim, stroke);
}

/** How long a metre is here. */
function drawScale(pen, scale, height, colours) {
  const power = 10 ** Math.floor(Math.log10(SCALE_PX / scale));
  const long = [5, 2, 1].find((each) => each * power * scale <= SCALE_PX) * power;
  const y = height - 12;
  pen.line([[14, y - 4], [14, y], [14 + long * scale, y], [14 + long * scale, y - 4]], { stroke: colours.text });
  pen.text(`${brief(long)} m`, 20 + long * scale, y, { fill: colours.text, halo: colours.page });
}

/** From a point to a line through points. */
function distance([x, y], points) {
  let least = Infinity;
  for (let i = 0; i + 1 < points.length; i++) {
    const [[ax, ay], [bx, by]] = [points[i], points[i + 1]];
    const length = (bx - ax) ** 2 + (by - ay) ** 2;
    const share = length ? Math.min(Math.max(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length, 0), 1) : 0;
    least = Math.min(least, Math.hypot(x - ax - share * (bx - ax), y - ay - share * (by - ay)));
  }
  return least;
}
