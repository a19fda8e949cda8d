// Chosen runs over virtual time: lines with bands, a part of the time by dragging, and what is under the pointer.

import { Axis, DASHES, SERIES, drawAxes, niceTop } from "./chart.js";
import { Figure } from "./figure.js";
import { byId, oncePerFrame } from "./page.js";
import { sentenceOf } from "./series.js";

const NEAR = 40; // pixels at which a line is meant
const LEAST_DRAG = 6;
const BOX = { left: 62, right: 20, top: 12, bottom: 44 };

export class Overlay {
  /** `onZoom` is called when another part of the time is looked at. */
  constructor(canvas, onZoom) {
    Object.assign(this, { canvas, onZoom, series: [], label: "", zoom: null, near: null, drag: null });
    this.figure = new Figure(canvas, (...given) => this.#draw(...given));
    this.show = oncePerFrame(() => this.figure.show());
    canvas.addEventListener("pointerdown", (event) => this.#begin(event));
    canvas.addEventListener("pointermove", (event) => this.#move(event));
    canvas.addEventListener("pointerup", (event) => this.#end(event));
    canvas.addEventListener("pointerleave", () => this.#point(null));
    canvas.addEventListener("dblclick", () => this.zoomTo(null));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  /** `series` are `{ name, item, points }`. */
  draw(series, label) {
    Object.assign(this, { series, label });
    if (!series.some(({ name }) => name === this.near?.name)) this.near = null;
    this.show();
  }

  zoomTo(range) {
    this.zoom = range;
    this.onZoom();
    this.show();
  }

  get reach() {
    return this.zoom ?? [0, niceTop(this.#points().reduce((most, [time_s]) => Math.max(most, time_s), 1))];
  }

  #points() {
    return this.series.flatMap(({ points }) => points);
  }

  #axes(width, height) {
    const [from, to] = this.reach;
    const seen = this.#points().filter(([time_s]) => time_s >= from && time_s <= to);
    const [low, high] = reachOf(seen.flatMap(([, , least, most]) => [least, most]));
    return [
      new Axis(from, to, BOX.left, width - BOX.right),
      new Axis(low, high, height - BOX.bottom, BOX.top),
    ];
  }

  #draw(pen, width, height, colours) {
    const [x, y] = this.#axes(width, height);
    drawAxes(pen, x, y, { xName: "virtual time (s)", yName: this.label, colours });
    const place = (time_s, value) => [x.at(time_s), y.at(value)];
    pen.within(x.from, y.to, x.to - x.from, y.from - y.to, () => {
      this.series.forEach(({ points, item }, i) => {
        if (item.rows.length > 1) pen.area(bandOf(points, place), SERIES[i], 0.16);
      });
      this.series.forEach(({ points }, i) => {
        const line = points.map(([time_s, value]) => place(time_s, value));
        pen.line(line, { stroke: SERIES[i], width: 2, dash: DASHES[i] });
      });
      if (this.near) pen.circle(...place(...this.near.point), 5, { stroke: colours.text, width: 2 });
      if (this.drag) pen.area(boxOf(this.drag, y), colours.accent, 0.2);
    });
  }

  // ---- hands ----------------------------------------------------------------------------------------

  #x(event) {
    return event.clientX - this.canvas.getBoundingClientRect().left;
  }

  #begin(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.drag = [this.#x(event), this.#x(event)];
  }

  #move(event) {
    if (!this.drag) return this.#point(event);
    this.drag[1] = this.#x(event);
    this.show();
  }

  #end() {
    const [from, to] = (this.drag ?? [0, 0]).toSorted((a, b) => a - b);
    this.drag = null;
    const [x] = this.#axes(this.canvas.clientWidth, this.canvas.clientHeight);
    const within = (place) => Math.min(Math.max(x.value(place), this.reach[0]), this.reach[1]);
    if (to - from >= LEAST_DRAG) this.zoomTo([within(from), within(to)]);
    else this.show();
  }

  /** + and − change how much is seen, the arrows which part; Escape shows all. */
  #key(event) {
    const [from, to] = this.reach;
    const wide = to - from;
    const moves = {
      "+": [wide / 4, -wide / 4],
      "-": [-wide / 2, wide / 2],
      ArrowLeft: [-wide / 4, -wide / 4],
      ArrowRight: [wide / 4, wide / 4],
    };
    if (event.key === "Escape") this.zoomTo(null);
    if (!(event.key in moves)) return;
    event.preventDefault();
    const start = Math.max(0, from + moves[event.key][0]);
    this.zoomTo([start, Math.max(to + moves[event.key][1], start + wide / 2)]);
  }

  #point(event) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = this.#axes(box.width, box.height);
    const far = ({ point }) =>
      Math.hypot(x.at(point[0]) - (event.clientX - box.left), y.at(point[1]) - (event.clientY - box.top));
    const all = event ? this.series.flatMap(({ name, points }) => points.map((point) => ({ name, point }))) : [];
    const nearest = all.length ? all.reduce((a, b) => (far(b) < far(a) ? b : a)) : null;
    this.near = nearest && far(nearest) < NEAR ? nearest : null;
    byId("overlay-says").textContent = this.near ? `${sentenceOf(this.near.name, this.near.point)}.` : this.usual;
    this.show();
  }

  get usual() {
    if (!this.series.length) return "Choose runs in the table.";
    return "Hover a line to read it; drag over a part of the time, or press + and −, to see it larger.";
  }
}

const bandOf = (points, place) => [
  ...points.map(([time_s, , least]) => place(time_s, least)),
  ...points.map(([time_s, , , most]) => place(time_s, most)).reverse(),
];

const boxOf = ([from, to], y) => [
  [from, y.from],
  [to, y.from],
  [to, y.to],
  [from, y.to],
];

/** From the least to the greatest, with a little room. */
export function reachOf(values) {
  if (!values.length) return [0, 1];
  const low = values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  const room = 0.06 * (high - low) || 0.1 * Math.abs(high) || 1;
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}
