// A map of a network or of recorded positions, on which a section is drawn with the mouse; the text field is its other form.

import { Figure, resized } from "./figure.js";
import { ask, brief, byId, linesOf, megabytes, oncePerFrame, say } from "./page.js";

const MARGIN = 14; // pixels around all of it
const NEAR = 12; // pixels at which an edge is meant
const LEAST_DRAG = 4;
const MOST_ZOOM = 500;
const CLOSER = 1.25;
const SCALE_PX = 120;
const STEP = 8; // of the width or height that an arrow moves the map by
const AROUND = 4; // of the height that a section from the keyboard reaches

export class MapView {
  constructor({ most_upload_bytes }) {
    Object.assign(this, { mostBytes: most_upload_bytes, map: null, view: null, drag: null });
    this.background = document.createElement("canvas"); // the map alone: a section is drawn over it many times
    const canvas = byId("map");
    this.figure = new Figure(canvas, (...given) => this.#draw(...given));
    this.show = oncePerFrame(() => this.figure.show());
    byId("map-show").addEventListener("click", () => this.#load());
    byId("map-all").addEventListener("click", () => this.#look(null));
    byId("trace-section").addEventListener("input", () => this.show());
    canvas.addEventListener("pointerdown", (event) => this.#begin(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", () => this.#end());
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("keydown", (event) => this.#key(event));
    for (const change of ["focus", "blur"]) canvas.addEventListener(change, () => this.show());
    byId("map-closer").addEventListener("click", () => this.#zoom(CLOSER));
    byId("map-farther").addEventListener("click", () => this.#zoom(1 / CLOSER));
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
      const [count, thing] = this.map.edges.length ? [this.map.edges.length, "edge"] : [this.map.points.length, "position"];
      const what = `${count} ${thing}${count === 1 ? "" : "s"}`;
      say(byId("map-says"), [`${file.name}: ${what}. Drag to draw a section; the wheel zooms.`], false);
    } catch (error) {
      this.map = null;
      say(byId("map-says"), linesOf(error));
    }
    byId("map-shown").hidden = !this.map;
    byId("map-edge").disabled = !this.map?.edges.length;
    if (byId("map-edge").disabled && byId("map-edge").checked) byId("map-circle").checked = true;
    byId("map-section").textContent = "";
    this.painted = null;
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
    this.drag = { from: pixel, to: pixel, view: this.view ?? { ...this.#middle(), zoom: 1 } };
  }

  #move(event) {
    if (!this.drag) return;
    this.drag.to = this.#pixel(event);
    const { from, to } = this.drag;
    if (this.#tool === "move") return this.#moveTo(from, to);
    if (Math.hypot(to[0] - from[0], to[1] - from[1]) >= LEAST_DRAG) this.#write(this.#drawnSection());
  }

  #end() {
    this.drag = null;
  }

  /** What was under the pointer stays there. */
  #moveTo(from, to) {
    const { scale } = this.#here();
    const { x, y, zoom } = this.drag.view;
    this.#look({ x: x - (to[0] - from[0]) / scale, y: y + (to[1] - from[1]) / scale, zoom });
  }

  #key(event) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    const zooms = { "+": CLOSER, "-": 1 / CLOSER };
    if (!this.map || !(event.key in moves || event.key in zooms || event.key === "Enter" || event.key === "Escape")) return;
    event.preventDefault();
    if (event.key === "Escape") this.#look(null);
    else if (event.key === "Enter") this.#drawInTheMiddle();
    else if (event.key in zooms) this.#zoom(zooms[event.key]);
    else this.#step(moves[event.key]);
  }

  #step([right, up]) {
    const { clientWidth, clientHeight } = byId("map");
    const { scale } = this.#here();
    const { x, y, zoom } = this.view ?? { ...this.#middle(), zoom: 1 };
    this.#look({ x: x + (right * clientWidth) / STEP / scale, y: y + (up * clientHeight) / STEP / scale, zoom });
  }

  /** With the tool that is chosen: a circle or a box around the cross, or the edge that is nearest to it. */
  #drawInTheMiddle() {
    const { clientWidth, clientHeight } = byId("map");
    const [middle, reach] = [[clientWidth / 2, clientHeight / 2], clientHeight / AROUND];
    if (this.#tool === "edge") return this.#chooseEdge(middle, Infinity);
    const from = this.#tool === "box" ? [middle[0] - reach, middle[1] - reach] : middle;
    this.#write(this.#drawnSection(from, [middle[0] + reach, middle[1] + (this.#tool === "box" ? reach : 0)]));
  }

  #drawnSection(from = this.drag.from, to = this.drag.to) {
    const { back } = this.#here();
    const [[x0, y0], [x1, y1]] = [back(from), back(to)];
    if (this.#tool !== "box") return `circle:${[x0, y0, Math.hypot(x1 - x0, y1 - y0)].map(metres)}`;
    return `box:${[Math.min(x0, x1), Math.min(y0, y1), Math.max(x0, x1), Math.max(y0, y1)].map(metres)}`;
  }

  #chooseEdge(pixel, most = NEAR) {
    const { at } = this.#here();
    const far = ({ shape }) => distance(pixel, shape.map(at));
    const nearest = this.map.edges.map((edge) => [far(edge), edge.id]).reduce((a, b) => (b[0] < a[0] ? b : a));
    if (nearest[0] <= most) this.#write(`edge:${nearest[1]}`);
  }

  #write(section) {
    byId("trace-section").value = section;
    byId("map-section").textContent = `section: ${section}`;
    this.show();
  }

  #wheel(event) {
    if (!this.map) return;
    event.preventDefault();
    this.#zoom(event.deltaY < 0 ? CLOSER : 1 / CLOSER, this.#here().back(this.#pixel(event)));
  }

  /** Around a place, or the middle of what is seen. */
  #zoom(factor, place = null) {
    if (!this.map) return;
    const before = this.view ?? { ...this.#middle(), zoom: 1 };
    const [x, y] = place ?? [before.x, before.y];
    const zoom = Math.min(Math.max(before.zoom * factor, 1), MOST_ZOOM);
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
    pen.image(this.#painted(width, height, colours), 0, 0, width, height);
    this.#drawSection(pen, at, scale, colours);
    if (document.activeElement === byId("map")) drawCross(pen, width / 2, height / 2, colours);
    drawScale(pen, scale, height, colours);
  }

  /** The map without a section, painted only when another part of it is seen: a network may have 100,000 edges. */
  #painted(width, height, colours) {
    const density = window.devicePixelRatio || 1;
    const wanted = JSON.stringify([this.view, width, height, density, colours.soft]);
    if (this.painted === wanted) return this.background;
    this.painted = wanted;
    const on = resized(this.background, Math.round(width * density), Math.round(height * density)).getContext("2d");
    on.setTransform(density, 0, 0, density, 0, 0);
    on.clearRect(0, 0, width, height);
    Object.assign(on, { fillStyle: colours.soft, strokeStyle: colours.soft, lineWidth: this.map.edges.length > 5000 ? 0.8 : 1.6 });
    const { at } = this.#places(width, height);
    const isSeen = ([x, y]) => x > -width && x < 2 * width && y > -height && y < 2 * height;
    for (const point of this.map.points) {
      const [x, y] = at(point);
      on.fillRect(x - 0.8, y - 0.8, 1.6, 1.6);
    }
    on.beginPath();
    for (const { shape } of this.map.edges) {
      const places = shape.map(at);
      if (places.some(isSeen)) places.forEach(([x, y], i) => (i ? on.lineTo(x, y) : on.moveTo(x, y)));
    }
    on.stroke();
    return this.background;
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

/** Where the keyboard draws. */
function drawCross(pen, x, y, { bad: stroke }) {
  pen.line([[x - 8, y], [x + 8, y], null, [x, y - 8], [x, y + 8]], { stroke, width: 1.5 });
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
