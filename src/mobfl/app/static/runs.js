// The view of runs: a table that follows the folder, chosen runs over virtual time, and what plans reached.

import { Axis, DASHES, SERIES, drawAxes, niceTop } from "./chart.js";
import { Figure } from "./figure.js";
import { PlansFigure } from "./plans_figure.js";
import { ask, brief, byId, element, linesOf, oncePerFrame, seconds } from "./page.js";

const MOST_CHOSEN = SERIES.length;
const FIRST_CHOSEN = 4;
const COLUMNS = [
  { name: "run", key: "run", text: true },
  { name: "status", key: "status", text: true },
  { name: "plan", key: "plan", text: true },
  { name: "H", key: "local_steps" },
  { name: "T (s)", key: "round_s" },
  { name: "g (1/s)", key: "objective" },
  { name: "seed", key: "seed" },
  { name: "rounds", key: "rounds" },
  { name: "uploads", key: "uploads" },
  { name: "time (s)", key: "virtual_s" },
  { name: "L_min", key: "min_loss" },
  { name: "study", key: "study", text: true },
];

export class RunsView {
  constructor({ has_runs }) {
    Object.assign(this, { rows: new Map(), chosen: [], curves: new Map(), sort: null, down: false, near: null });
    byId("runs-shown").hidden = !has_runs;
    byId("runs-lead").textContent = has_runs
      ? "The runs and sweeps of the folder, read again as they train."
      : "No folder was given: start with mobfl app --runs FOLDER, where mobfl train and mobfl sweep write their runs.";
    if (!has_runs) return;
    this.overlay = new Figure(byId("overlay"), (...given) => this.#drawOverlay(...given));
    this.plans = new PlansFigure((run) => this.toggle(run));
    this.draw = oncePerFrame(() => this.#draw());
    this.#listen();
    this.#followWhileSeen();
    addEventListener("hashchange", () => this.#followWhileSeen());
    document.addEventListener("visibilitychange", () => this.#followWhileSeen());
  }

  draw() {}

  // ---- what comes in --------------------------------------------------------------------------------

  /** A browser keeps few connections to one server: those that nobody looks at are given back. */
  #followWhileSeen() {
    const seen = !document.hidden && !byId("view-runs").hidden;
    if (seen && !this.events) this.events = this.#follow();
    if (!seen) this.events?.close();
    if (!seen) this.events = null;
  }

  #follow() {
    const events = new EventSource("/api/live");
    const live = byId("runs-live");
    live.textContent = "reading the folder …";
    events.addEventListener("message", ({ data }) => {
      live.textContent = "live";
      this.#take(JSON.parse(data));
    });
    events.addEventListener("error", () => (live.textContent = "the server does not answer; trying again"));
    return events;
  }

  /** Rows that are new or have changed, names that are gone; the first of a connection has all. */
  #take({ rows, gone, all }) {
    const first = this.rows.size === 0;
    if (all) this.rows.clear();
    for (const name of gone) this.rows.delete(name);
    for (const row of rows) this.rows.set(row.run, row);
    this.chosen = this.chosen.filter((name) => this.rows.has(name));
    if (first) this.chosen = firstChosen([...this.rows.values()]);
    this.#offerColumns();
    for (const { run } of rows) if (this.chosen.includes(run)) this.#fetchCurve(run);
    this.#showTable();
    this.draw();
  }

  /** The loss and every KPI that some run has. */
  #offerColumns() {
    const select = byId("runs-column");
    const kpis = new Map([["loss", "validation loss"]]);
    for (const row of this.rows.values())
      for (const [kpi, { label }] of Object.entries(row.kpis ?? {})) kpis.set(kpi, label);
    if (select.options.length === kpis.size) return;
    const before = select.value;
    select.replaceChildren(...[...kpis].map(([value, label]) => element("option", { value }, label)));
    select.value = kpis.has(before) ? before : "loss";
  }

  get column() {
    return byId("runs-column").value;
  }

  async #fetchCurve(run) {
    const column = this.column;
    try {
      const curve = await ask(`/api/curve?${new URLSearchParams({ run, column })}`);
      if (column === this.column) this.curves.set(run, curve);
    } catch (error) {
      this.curves.delete(run);
      byId("overlay-says").textContent = linesOf(error).join(" ");
    }
    this.draw();
  }

  toggle(run) {
    if (this.chosen.includes(run)) this.chosen = this.chosen.filter((name) => name !== run);
    else this.chosen = [...this.chosen, run].slice(-MOST_CHOSEN);
    if (this.chosen.includes(run) && !this.curves.has(run)) this.#fetchCurve(run);
    this.#showTable();
    this.draw();
  }

  #listen() {
    byId("runs-column").addEventListener("change", () => {
      this.curves.clear();
      this.chosen.forEach((run) => this.#fetchCurve(run));
      this.#showTable();
      this.draw();
    });
    byId("runs-best").addEventListener("change", () => this.draw());
    byId("runs-filter").addEventListener("input", () => this.#showTable());
    byId("runs-none").addEventListener("click", () => {
      this.chosen = [];
      this.#showTable();
      this.draw();
    });
    byId("overlay").addEventListener("pointermove", (event) => this.#hover(event));
    byId("overlay").addEventListener("pointerleave", () => this.#hover(null));
  }

  // ---- the table ------------------------------------------------------------------------------------

  #columns() {
    const kpi = this.column;
    const label = byId("runs-column").selectedOptions[0]?.textContent;
    if (kpi === "loss" || !kpi) return COLUMNS;
    return [
      ...COLUMNS.slice(0, -1),
      { name: `best ${label}`, key: "best", of: (row) => row.kpis?.[kpi]?.best },
      ...COLUMNS.slice(-1),
    ];
  }

  #showTable() {
    const columns = this.#columns();
    const wanted = byId("runs-filter").value.toLowerCase();
    const found = [...this.rows.values()].filter((row) => textOf(row).includes(wanted));
    const sorted = this.sort
      ? sortedBy(found, columns.find(({ key }) => key === this.sort) ?? columns[0], this.down)
      : found;
    const table = byId("runs-table");
    const held = document.activeElement?.dataset.held; // whoever is in the table with a keyboard stays where they are
    table.tHead.replaceChildren(
      element("tr", {}, element("th", { scope: "col" }, "show"), ...columns.map((column) => this.#head(column))),
    );
    table.tBodies[0].replaceChildren(...sorted.map((row) => this.#line(row, columns)));
    if (held) table.querySelector(`[data-held="${CSS.escape(held)}"]`)?.focus();
    const done = [...this.rows.values()].filter(({ status }) => status === "done").length;
    byId("runs-count").textContent = `${found.length} of ${this.rows.size} runs, ${done} done`;
  }

  #head({ name, key, text }) {
    const sorted = this.sort === key;
    const arrow = sorted ? (this.down ? " ▼" : " ▲") : "";
    const button = element("button", { type: "button", onclick: () => this.#sortBy(key) }, name + arrow);
    const head = element("th", { scope: "col", className: text ? "text" : "" }, button);
    head.setAttribute("aria-sort", sorted ? (this.down ? "descending" : "ascending") : "none");
    button.dataset.held = key;
    return head;
  }

  #sortBy(key) {
    this.down = this.sort === key ? !this.down : false;
    this.sort = key;
    this.#showTable();
  }

  #line(row, columns) {
    const chosen = this.chosen.includes(row.run);
    const box = element("input", {
      type: "checkbox",
      checked: chosen,
      disabled: !row.setting,
      "aria-label": `show ${row.run}`,
    });
    box.addEventListener("change", () => this.toggle(row.run));
    box.dataset.held = `show ${row.run}`;
    const cells = columns.map((column) => {
      const text = cellOf(row, column);
      return element("td", column.text ? { className: "text name", title: text } : {}, text);
    });
    return element("tr", { className: chosen ? "chosen" : "" }, element("td", {}, box), ...cells);
  }

  // ---- chosen runs ----------------------------------------------------------------------------------

  #draw() {
    this.#showLegend();
    this.overlay.show();
    this.plans.show([...this.rows.values()], this.column, byId("runs-column").selectedOptions[0]?.textContent ?? "");
  }

  #showLegend() {
    const entries = this.chosen.map((run, i) => {
      const line = element("canvas", { width: 60, height: 10 });
      const on = line.getContext("2d");
      Object.assign(on, { strokeStyle: SERIES[i], lineWidth: 4 });
      on.setLineDash(DASHES[i].map((length) => 2 * length));
      on.beginPath();
      on.moveTo(0, 5);
      on.lineTo(60, 5);
      on.stroke();
      line.style.width = "30px";
      return element("span", {}, line, run);
    });
    byId("overlay-legend").replaceChildren(...entries);
    if (!this.near)
      byId("overlay-says").textContent = this.chosen.length ? "Hover a line to read it." : "Choose runs in the table.";
  }

  #shown() {
    const values = byId("runs-best").checked ? "best" : "now";
    return this.chosen.map((run) => {
      const curve = this.curves.get(run);
      return {
        run,
        points: curve
          ? curve.time_s.map((time_s, i) => [time_s, curve[values][i]]).filter(([, value]) => value !== null)
          : [],
      };
    });
  }

  #axes(width, height) {
    const points = this.#shown().flatMap(({ points }) => points);
    const [low, high] = reachOf(points.map(([, value]) => value));
    const last = points.reduce((most, [time_s]) => Math.max(most, time_s), 1);
    return [new Axis(0, niceTop(last), 62, width - 20), new Axis(low, high, height - 44, 12)];
  }

  #drawOverlay(pen, width, height, colours) {
    const [x, y] = this.#axes(width, height);
    drawAxes(pen, x, y, {
      xName: "virtual time (s)",
      yName: byId("runs-column").selectedOptions[0]?.textContent ?? "",
      colours,
    });
    this.#shown().forEach(({ points }, i) => {
      pen.line(
        points.map(([time_s, value]) => [x.at(time_s), y.at(value)]),
        { stroke: SERIES[i], width: 2, dash: DASHES[i] },
      );
    });
    if (this.near)
      pen.circle(x.at(this.near.point[0]), y.at(this.near.point[1]), 5, { stroke: colours.text, width: 2 });
  }

  #hover(event) {
    const box = byId("overlay").getBoundingClientRect();
    const [x, y] = this.#axes(box.width, box.height);
    const all = this.#shown().flatMap(({ run, points }) => points.map((point) => ({ run, point })));
    const far = ({ point }) =>
      Math.hypot(x.at(point[0]) - (event.clientX - box.left), y.at(point[1]) - (event.clientY - box.top));
    const nearest = event && all.length ? all.reduce((a, b) => (far(b) < far(a) ? b : a)) : null;
    this.near = nearest && far(nearest) < 40 ? nearest : null;
    if (this.near)
      byId("overlay-says").textContent =
        `${this.near.run}: ${brief(this.near.point[1], 5)} after ${seconds(this.near.point[0])}`;
    this.draw();
  }
}

/** What is being trained now, else the first ones, of one task and scale of loss. */
function firstChosen(rows) {
  const readable = rows.filter(({ setting }) => setting);
  const running = readable.filter(({ status }) => status === "running");
  const found = running.length ? running : readable;
  const alike = (row) =>
    row.task === found[0].task && row.tables.training.loss_scale === found[0].tables.training.loss_scale;
  return found
    .filter(alike)
    .slice(0, FIRST_CHOSEN)
    .map(({ run }) => run);
}

/** From the least to the greatest, with a little room. */
export function reachOf(values) {
  if (!values.length) return [0, 1];
  const low = values.reduce((a, b) => Math.min(a, b));
  const high = values.reduce((a, b) => Math.max(a, b));
  const room = 0.06 * (high - low) || 0.1 * Math.abs(high) || 1;
  return [low >= 0 ? Math.max(0, low - room) : low - room, high + room];
}

const textOf = (row) => [row.run, row.study, row.plan, row.task, row.status].join(" ").toLowerCase();
const valueOf = (row, { key, of }) => (of ? of(row) : row[key]);

/** What is missing comes last, whichever way. */
function sortedBy(rows, column, down) {
  const compare = (a, b) => {
    const [x, y] = [valueOf(a, column), valueOf(b, column)];
    if (x === y) return 0;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return (x < y ? -1 : 1) * (down ? -1 : 1);
  };
  return [...rows].sort(compare);
}

function cellOf(row, column) {
  if (column.key === "status") return statusOf(row);
  const value = valueOf(row, column);
  return typeof value === "number" ? brief(value, 5) : String(value ?? "–");
}

function statusOf({ status, virtual_s, duration_s, reason, notices }) {
  const warned = notices?.length ? ` – ${notices.join(" ")}` : "";
  if (status === "running" || status === "interrupted")
    return `${status}, ${Math.round((100 * virtual_s) / duration_s)} %${warned}`;
  return (reason ? `${status}: ${reason}` : status) + warned;
}
