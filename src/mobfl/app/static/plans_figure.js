// The paper's Fig. 3, to be touched: what runs reached over T, a sign per H, with g(H, ·) behind.

import { Axis, DASHES, SERIES, drawAxes, legendPlaces, niceTop } from "./chart.js";
import { Figure } from "./figure.js";
import { brief, byId, element, seconds } from "./page.js";
import { reachOf } from "./overlay.js";
import { reached } from "./series.js";
import { conditions, forPictures, minDelay, promise } from "./theory.js";

const MARGIN = 62; // left and right, in pixels
const NEAR = 18; // pixels at which a point is meant
const SIGNS = [
  (x, y) => circle(x, y, 5),
  (x, y) => [
    [x - 5, y - 5],
    [x + 5, y - 5],
    [x + 5, y + 5],
    [x - 5, y + 5],
  ],
  (x, y) => [
    [x, y - 6],
    [x + 6, y + 5],
    [x - 6, y + 5],
  ],
  (x, y) => [
    [x, y - 7],
    [x + 6, y],
    [x, y + 7],
    [x - 6, y],
  ],
  (x, y) => [
    [x, y + 6],
    [x + 6, y - 5],
    [x - 6, y - 5],
  ],
];

export class PlansFigure {
  /** `choose` is called with the run of a point that is clicked. */
  constructor(choose) {
    Object.assign(this, { choose, points: [], near: null, offered: "" });
    this.figure = new Figure(byId("fig3"), (...given) => this.#draw(...given));
    const canvas = byId("fig3");
    byId("fig3-setting").addEventListener("change", () => this.#look());
    canvas.addEventListener("pointermove", (event) => this.#point(event));
    canvas.addEventListener("click", () => this.near && this.choose(this.near.row.run));
    canvas.addEventListener("keydown", (event) => this.#key(event));
  }

  show(rows, column, label) {
    Object.assign(this, {
      rows: rows.filter(({ policy }) => policy === "rounds"),
      column,
      label,
    });
    this.#offerSettings();
    this.#look();
  }

  /** Runs that differ in plan and seed only. */
  #offerSettings() {
    const settings = new Map();
    for (const row of this.rows)
      (settings.get(row.setting) ?? settings.set(row.setting, []).get(row.setting)).push(row);
    const offered = [...settings].map(([setting, rows]) => [
      setting,
      `${rows[0].task}${rows[0].study ? `, ${rows[0].study}` : ""}: ${rows.length} runs`,
    ]);
    const select = byId("fig3-setting");
    if (JSON.stringify(offered) === this.offered) return;
    this.offered = JSON.stringify(offered);
    const before = select.value;
    select.replaceChildren(...offered.map(([value, text]) => element("option", { value }, text)));
    const largest = [...settings].sort(([, a], [, b]) => b.length - a.length)[0]?.[0];
    select.value = settings.has(before) ? before : (largest ?? "");
  }

  #look() {
    this.rowsShown = (this.rows ?? []).filter(({ setting }) => setting === byId("fig3-setting").value);
    this.points = this.rowsShown
      .map((row) => ({ row, h: row.local_steps, t: row.round_s, value: reached(row, this.column) }))
      .filter(({ value }) => value !== null && value !== undefined)
      .sort((a, b) => a.h - b.h || a.t - b.t);
    this.steps = [...new Set(this.points.map(({ h }) => h))];
    if (!this.points.some(({ row }) => row.run === this.near?.row.run)) this.near = null;
    this.figure.show();
  }

  #axes(width, height) {
    const x = new Axis(0, niceTop(1.05 * Math.max(...this.points.map(({ t }) => t), 1)), MARGIN, width - MARGIN);
    const [low, high] = reachOf(this.points.map(({ value }) => value));
    const lessIsBetter = this.column === "loss" || this.rowsShown[0]?.kpis?.[this.column]?.more_is_better === false;
    const [bottom, top] = [height - 44, this.#legend(width).at(-1).y + 18];
    return [x, lessIsBetter ? new Axis(high, low, bottom, top) : new Axis(low, high, bottom, top)];
  }

  #draw(pen, width, height, colours) {
    if (!this.points.length) {
      pen.text("No finished plans to compare yet.", width / 2, height / 2, { fill: colours.soft, align: "center" });
      return;
    }
    const [x, y] = this.#axes(width, height);
    drawAxes(pen, x, axisUpwards(y), { xName: "round length T (s)", yName: `${this.label}, best`, colours });
    this.#drawBehind(pen, x, y, colours);
    for (const point of this.points) this.#drawPoint(pen, x, y, point, colours);
    for (const [i, { text, x: left, y: middle }] of this.#legend(width).entries()) {
      pen.area(SIGNS[i % SIGNS.length](left + 12, middle), SERIES[i % SERIES.length]);
      pen.text(text, left + 24, middle, { fill: colours.text, baseline: "middle" });
    }
  }

  /** g(H, ·) on an axis of its own, at the right; of recorded traffic and of a radio there is no formula of it. */
  #drawBehind(pen, x, y, colours) {
    const objectives = this.points.map(({ row }) => row.objective);
    if (objectives.includes(null)) return;
    const road = conditions(this.rowsShown[0].tables);
    if (!road.known) return; // its law is the server's to compute
    const seen = forPictures(road);
    const most = Math.max(...objectives);
    const g = new Axis(0, niceTop(1.1 * most), y.from, y.to);
    this.steps.forEach((h, i) => {
      const least = minDelay(road, h);
      const places = Array.from({ length: 120 }, (_, k) => least + ((x.high - least) * k * k) / 119 ** 2).filter(
        (t) => t > 0 && t <= x.high,
      );
      pen.line(
        places.map((t) => [x.at(t), g.at(promise(seen, h, t).objective)]),
        { stroke: SERIES[i % SERIES.length], width: 1, dash: DASHES[2] },
      );
    });
    for (const value of g.ticks(4))
      pen.text(brief(value, 3), x.to + 6, g.at(value), { fill: colours.soft, baseline: "middle" });
    pen.text(road.noise ? "g_ν (1/s), dotted" : "g (1/s), dotted", x.to + 48, (y.from + y.to) / 2, {
      fill: colours.soft,
      align: "center",
      turn: -Math.PI / 2,
    });
  }

  #drawPoint(pen, x, y, { row, h, t, value }, colours) {
    const i = this.steps.indexOf(h);
    const shape = SIGNS[i % SIGNS.length](x.at(t), y.at(value));
    pen.area(shape, SERIES[i % SERIES.length], row.status === "done" ? 1 : 0.45);
    pen.line([...shape, shape[0]], { stroke: colours.page, width: 1 });
    if (row.run === this.near?.row.run) pen.circle(x.at(t), y.at(value), 10, { stroke: colours.text, width: 2 });
  }

  #legend(width) {
    return legendPlaces(
      this.steps.map((h) => `H = ${h}`),
      MARGIN,
      width - MARGIN,
    );
  }

  #point(event) {
    const box = byId("fig3").getBoundingClientRect();
    if (!this.points.length) return;
    const [x, y] = this.#axes(box.width, box.height);
    const far = ({ t, value }) =>
      Math.hypot(x.at(t) - (event.clientX - box.left), y.at(value) - (event.clientY - box.top));
    const nearest = this.points.reduce((a, b) => (far(b) < far(a) ? b : a));
    this.#say(far(nearest) < NEAR ? nearest : null);
  }

  #key(event) {
    const move = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Enter" && this.near) this.choose(this.near.row.run);
    if (!move || !this.points.length) return;
    event.preventDefault();
    const now = this.points.findIndex(({ row }) => row.run === this.near?.row.run);
    this.#say(this.points[(now + move + this.points.length) % this.points.length]);
  }

  #say(point) {
    this.near = point;
    byId("fig3-says").textContent = point
      ? this.#sentence(point)
      : "Hover a point, or use the arrow keys, to see its run.";
    this.figure.show();
  }

  #sentence({ row, h, t, value }) {
    const g = row.objective === null ? "" : `, g = ${brief(row.objective)} /s`;
    return `${row.run}: H = ${h}, T = ${seconds(t)}, seed ${row.seed}${g}, ${this.label} ${brief(value, 5)}, ${row.status}. Click to show or hide its curve.`;
  }
}

/** An axis whose numbers may fall upwards, with ticks that know it. */
function axisUpwards(y) {
  if (y.low < y.high) return y;
  return new Axis(y.high, y.low, y.to, y.from);
}

function circle(x, y, radius) {
  return Array.from({ length: 16 }, (_, i) => [
    x + radius * Math.cos((i * Math.PI) / 8),
    y + radius * Math.sin((i * Math.PI) / 8),
  ]);
}
