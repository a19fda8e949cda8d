// The view of runs: what comes from the folder, what is chosen of it, and the address that holds the choice.

import { DASHES, SERIES } from "./chart.js";
import { showCommands } from "./commands.js";
import { bindSaves } from "./figure.js";
import { DeploymentView } from "./deployment.js";
import { Overlay } from "./overlay.js";
import { PlansFigure } from "./plans_figure.js";
import { ask, byId, element, linesOf, oncePerFrame, post, save, whenAtRest } from "./page.js";
import { RunsTable } from "./runs_table.js";
import { better, csvOf, itemsOf, legendOf, pointsOf, reachedBy } from "./series.js";

const MOST_CHOSEN = SERIES.length;
const FIRST_CHOSEN = 4;
const MOST_COMMANDS = 8;
const AT_ONCE = 4; // curves that are asked for
const WINDOWS = ["1", "5", "15", "51"];

export class RunsView {
  constructor({ has_runs }, parameters, onChange) {
    Object.assign(this, { rows: new Map(), items: new Map(), chosen: [], curves: new Map(), waiting: [], asking: 0 });
    this.onChange = onChange;
    byId("runs-shown").hidden = !has_runs;
    byId("runs-lead").textContent = has_runs
      ? "The runs and sweeps of the folder, read again as they train."
      : "No folder was given: start with mobfl app --runs FOLDER, where mobfl train and mobfl sweep write their runs.";
    if (!has_runs) return;
    this.overlay = new Overlay(byId("overlay"), () => this.#zoomed());
    this.plans = new PlansFigure((run) => this.toggle(this.#idOf(run)));
    this.deployment = new DeploymentView();
    this.table = new RunsTable(byId("runs-table"), (id) => this.toggle(id));
    bindSaves({ overlay: this.overlay.figure, fig3: this.plans.figure });
    this.draw = oncePerFrame(() => this.#draw());
    this.askAgain = whenAtRest(() => this.#again(), 200);
    this.#listen();
    this.read(parameters);
    this.#followWhileSeen();
    addEventListener("hashchange", () => this.#followWhileSeen());
    document.addEventListener("visibilitychange", () => this.#followWhileSeen());
  }

  draw() {}

  get column() {
    return byId("runs-column").value || this.wantedColumn || "loss";
  }

  get label() {
    return byId("runs-column").selectedOptions[0]?.textContent ?? "";
  }

  get byPlan() {
    return byId("runs-by").value === "plan";
  }

  // ---- the address ----------------------------------------------------------------------------------

  /** What is chosen, unless it is what anybody sees first. */
  toParameters(parameters) {
    if (!this.table) return;
    if (!this.byPlan) parameters.set("by", "run");
    if (this.column !== "loss") parameters.set("column", this.column);
    if (!byId("runs-best").checked) parameters.set("values", "now");
    if (byId("runs-smooth").value !== "1") parameters.set("smooth", byId("runs-smooth").value);
    if (this.overlay.zoom) parameters.set("time", this.overlay.zoom.map((time_s) => Number(time_s.toPrecision(5))));
    if (this.touched) for (const id of this.chosen.length ? this.chosen : [""]) parameters.append("show", id);
  }

  /** Takes over what an address says. */
  read(parameters) {
    if (!this.table) return;
    byId("runs-by").value = parameters.get("by") === "run" ? "run" : "plan";
    byId("runs-best").checked = parameters.get("values") !== "now";
    byId("runs-smooth").value = WINDOWS.includes(parameters.get("smooth")) ? parameters.get("smooth") : "1";
    this.wantedColumn = parameters.get("column");
    this.touched = parameters.has("show");
    this.wanted = this.touched ? parameters.getAll("show").filter(Boolean).slice(0, MOST_CHOSEN) : null;
    const time = (parameters.get("time") ?? "").split(",").map(Number);
    if (time.length === 2 && time[0] < time[1]) this.overlay.zoom = time;
    this.#offerSmoothing();
    this.#zoomed();
    if (this.rows.size) this.#readAgain();
  }

  #readAgain() {
    byId("runs-column").value = this.wantedColumn ?? "loss";
    this.curves.clear();
    this.items = itemsOf(this.rows.values(), this.byPlan);
    this.chosen = this.wanted?.filter((id) => this.items.has(id)) ?? firstChosen(this.items, this.column);
    this.#reshape();
    this.#chose();
  }

  // ---- what comes in --------------------------------------------------------------------------------

  /** A browser keeps few connections to one server: those that nobody looks at are given back. */
  #followWhileSeen() {
    const seen = !document.hidden && !byId("view-runs").hidden;
    if (seen && !this.events) this.events = this.#follow();
    if (!seen) this.events?.close();
    if (!seen) this.events = null;
    this.deployment.follow(seen);
  }

  #follow() {
    const events = new EventSource("/api/live");
    const live = byId("runs-live");
    live.textContent = "reading the folder …";
    events.addEventListener("message", ({ data }) => {
      this.#take(JSON.parse(data));
      live.textContent = this.loading ? "reading the folder …" : "live";
    });
    events.addEventListener("error", () => (live.textContent = "the server does not answer; trying again"));
    return events;
  }

  /** Rows that are new or have changed, names that are gone; the first of a connection has all. */
  #take({ rows, gone, all, more }) {
    const first = this.rows.size === 0 || this.loading;
    this.loading = more;
    if (all) this.rows.clear();
    for (const name of gone) this.rows.delete(name);
    for (const row of rows) this.rows.set(row.run, row);
    const reshaped = this.#offerColumns();
    this.items = itemsOf(this.rows.values(), this.byPlan);
    if (first) this.chosen = this.wanted ?? firstChosen(this.items, this.column);
    this.chosen = this.chosen.filter((id) => this.items.has(id));
    if (reshaped) this.#reshape();
    else this.table.update(this.items, new Set(rows.map(({ run }) => this.#idOf(run))));
    this.table.mark(this.chosen);
    this.#fetchCurves(rows.map(({ run }) => run));
    this.#count();
    this.deployment.offer([...this.rows.values()]);
    this.draw();
  }

  #idOf(run) {
    const row = this.rows.get(run);
    return this.byPlan && row?.group ? row.group : run;
  }

  /** The loss and every KPI that some run has; whether there are others than before. */
  #offerColumns() {
    const select = byId("runs-column");
    const kpis = new Map([["loss", "validation loss"]]);
    for (const row of this.rows.values())
      for (const [kpi, { label }] of Object.entries(row.kpis ?? {})) kpis.set(kpi, label);
    if (select.options.length === kpis.size) return false;
    const before = select.value || this.wantedColumn;
    select.replaceChildren(...[...kpis].map(([value, label]) => element("option", { value }, label)));
    select.value = kpis.has(before) ? before : "loss";
    return true;
  }

  /** The curves of what is chosen that are missing, or of runs that have changed. */
  #fetchCurves(changed = []) {
    const runs = this.chosen.flatMap((id) => this.items.get(id).rows.map(({ run }) => run));
    const wanted = runs.filter((run) => !this.curves.has(run) || changed.includes(run));
    this.waiting = [...new Set([...this.waiting, ...wanted])].filter((run) => runs.includes(run));
    while (this.asking < AT_ONCE && this.waiting.length) this.#fetchCurve(this.waiting.shift());
  }

  async #fetchCurve(run) {
    const { column } = this;
    this.asking++;
    try {
      const curve = await ask(`/api/curve?${new URLSearchParams({ run, column })}`);
      if (column === this.column) this.curves.set(run, curve);
    } catch (error) {
      this.curves.delete(run);
      byId("overlay-says").textContent = linesOf(error).join(" ");
    }
    this.asking--;
    this.#fetchCurves();
    this.draw();
  }

  // ---- what is chosen -------------------------------------------------------------------------------

  toggle(id) {
    if (!this.items.has(id)) return;
    this.#touch();
    if (this.chosen.includes(id)) this.chosen = this.chosen.filter((other) => other !== id);
    else this.chosen = [...this.chosen, id].slice(-MOST_CHOSEN);
    this.#chose();
  }

  /** From now on what is chosen is what a person chose, also if runs are still being read. */
  #touch() {
    this.touched = true;
    this.loading = false;
  }

  #chose() {
    this.table.mark(this.chosen);
    this.#fetchCurves();
    this.askAgain();
    this.draw();
    this.onChange();
  }

  /** The same runs in the other way: by plan, or each by itself. */
  #regroup() {
    const before = this.chosen.flatMap((id) => this.items.get(id)?.rows ?? []);
    this.items = itemsOf(this.rows.values(), this.byPlan);
    this.chosen = [...new Set(before.map(({ run }) => this.#idOf(run)))].slice(0, MOST_CHOSEN);
    this.#reshape();
    this.#chose();
  }

  #reshape() {
    this.table.reshape(this.items, { byPlan: this.byPlan, column: this.column, label: this.label });
    byId("runs-name").textContent = this.byPlan ? "Plans" : "Runs";
  }

  #count() {
    const done = [...this.rows.values()].filter(({ status }) => status === "done").length;
    const runs = `${this.rows.size} runs, ${done} done`;
    const { found, items } = { found: this.table.found, items: this.items.size };
    byId("runs-count").textContent = this.byPlan ? `${found} of ${items} plans, ${runs}` : `${found} of ${runs}`;
  }

  #listen() {
    byId("runs-column").addEventListener("change", () => {
      this.curves.clear();
      this.#reshape();
      this.#chose();
    });
    byId("runs-by").addEventListener("change", () => this.#regroup());
    byId("runs-best").addEventListener("change", () => {
      this.#offerSmoothing();
      this.draw();
      this.onChange();
    });
    byId("runs-smooth").addEventListener("change", () => {
      this.draw();
      this.onChange();
    });
    byId("runs-filter").addEventListener("input", () => {
      this.table.find(byId("runs-filter").value);
      this.#count();
    });
    byId("runs-none").addEventListener("click", () => {
      this.#touch();
      this.chosen = [];
      this.#chose();
    });
    byId("runs-all-time").addEventListener("click", () => this.overlay.zoomTo(null));
    byId("runs-commands").addEventListener("toggle", () => this.askAgain());
    byId("save-again").addEventListener("click", () =>
      save("shown.toml", new Blob([this.shownToml], { type: "application/toml" })),
    );
    byId("runs-csv").addEventListener("click", () => this.#saveCsv());
  }

  /** The best so far only falls or rises: there is nothing to smooth. */
  #offerSmoothing() {
    byId("runs-smooth").disabled = byId("runs-best").checked;
  }

  #zoomed() {
    byId("runs-all-time").disabled = !this.overlay.zoom;
    this.onChange();
  }

  // ---- what is seen ---------------------------------------------------------------------------------

  #draw() {
    const series = this.series();
    this.#showLegend(series);
    this.overlay.draw(series, this.label);
    if (!this.overlay.near) byId("overlay-says").textContent = this.overlay.usual;
    this.plans.show([...this.rows.values()], this.column, this.label);
  }

  /** `{ name, item, points }` of what is chosen. */
  series() {
    const values = byId("runs-best").checked ? "best" : "now";
    const window = byId("runs-best").checked ? 1 : Number(byId("runs-smooth").value);
    const items = this.chosen.map((id) => this.items.get(id)).filter(Boolean);
    return items.map((item) => ({
      item,
      name: legendOf(item, items),
      points: pointsOf(item.rows.map(({ run }) => this.curves.get(run)), values, window),
    }));
  }

  #showLegend(series) {
    const entries = series.map(({ name, item }, i) => {
      const runs = item.rows.map(({ run }) => run).join("\n");
      return element("span", { title: runs }, sampleOf(i), name);
    });
    byId("overlay-legend").replaceChildren(...entries);
  }

  /** The commands for what is shown, while somebody looks at them. */
  async #again() {
    const runs = this.chosen.flatMap((id) => this.items.get(id)?.rows ?? []).map(({ run }) => run);
    if (!byId("runs-commands").open) return;
    const came = await post("/api/again", { runs }).catch((error) => ({ train: [], toml: null, lines: linesOf(error) }));
    this.shownToml = came.toml;
    byId("save-again").disabled = !came.toml;
    const sweep = came.toml ? [["mobfl sweep shown.toml --out again", "the file is below"]] : [];
    const remarks = [...(came.lines ?? []), ...reasonsOf(came.train)].map((line) => [null, line]);
    showCommands(byId("runs-command"), [...sweep, ...trainLines(came.train), ...remarks]);
  }

  #saveCsv() {
    save("mobfl-runs.csv", new Blob([csvOf(this.series(), this.column)], { type: "text/csv" }));
  }
}

/** The first few; a sweep has them all. */
function trainLines(train) {
  const commands = train.filter(({ command }) => command).map(({ command }) => [command]);
  const more = commands.length - MOST_COMMANDS;
  return more > 0 ? [...commands.slice(0, MOST_COMMANDS), [null, `And ${more} more: the sweep has them all.`]] : commands;
}

/** Why runs have no command, each reason once. */
function reasonsOf(train) {
  const reasons = new Map();
  for (const { reason } of train) if (reason) reasons.set(reason, (reasons.get(reason) ?? 0) + 1);
  return [...reasons].map(([reason, runs]) => `No command for ${runs === 1 ? "one run" : `${runs} runs`}: ${reason}.`);
}

/** A piece of the line that a series has. */
function sampleOf(i) {
  const line = element("canvas", { width: 60, height: 10 });
  const on = line.getContext("2d");
  Object.assign(on, { strokeStyle: SERIES[i], lineWidth: 4 });
  on.setLineDash(DASHES[i].map((length) => 2 * length));
  on.beginPath();
  on.moveTo(0, 5);
  on.lineTo(60, 5);
  on.stroke();
  line.style.width = "30px";
  line.ariaHidden = "true";
  return line;
}

/** The best of what is being trained now, else of all, among those that differ in plan and seed only. */
function firstChosen(items, column) {
  const readable = [...items.values()].filter(({ rows }) => rows[0].setting);
  const running = readable.filter(({ rows }) => rows.some(({ status }) => status === "running"));
  const found = running.length ? running : readable;
  const settings = new Map();
  for (const { rows } of found) settings.set(rows[0].setting, (settings.get(rows[0].setting) ?? 0) + rows.length);
  const [largest] = [...settings].toSorted(([, a], [, b]) => b - a)[0] ?? [];
  const reachedIt = found.filter(({ rows }) => rows[0].setting === largest);
  const value = (item) => (reachedBy(item, column) ?? Infinity) * better(item.rows[0], column);
  return reachedIt
    .toSorted((a, b) => value(a) - value(b))
    .slice(0, FIRST_CHOSEN)
    .map(({ id }) => id);
}
