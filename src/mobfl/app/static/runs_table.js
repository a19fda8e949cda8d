// The table of runs or plans. A line is made when it is first seen and changed where it changes: a thousand stay fluent.

import { brief, element } from "./page.js";
import { planOf, reachedBy } from "./series.js";

const first = ({ rows }) => rows[0];
const mean = (key) => (item) => {
  const values = item.rows.map((row) => row[key]).filter((value) => typeof value === "number");
  return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
};

const MOST_LINES = 200; // that are there at first; more come as one scrolls

/** `of` is what is sorted by, `text` marks words; `as` is what is written, if not the value. */
const COMMON = [
  { name: "L_min", key: "min_loss", of: mean("min_loss"), as: (item) => spread(item, (row) => row.min_loss) },
  { name: "H", key: "local_steps", of: (item) => first(item).local_steps },
  { name: "T (s)", key: "round_s", of: (item) => first(item).round_s },
  { name: "g (1/s)", key: "objective", of: (item) => first(item).objective },
];
const SUMS = [
  { name: "rounds", key: "rounds", of: mean("rounds") },
  { name: "uploads", key: "uploads", of: mean("uploads") },
  { name: "time (s)", key: "virtual_s", of: mean("virtual_s") },
  { name: "study", key: "study", of: (item) => first(item).study, text: true },
];
const STATUS = { name: "status", key: "status", of: statusOf, text: true };
const OF_RUNS = [
  { name: "run", key: "run", of: (item) => item.id, text: true },
  STATUS,
  ...COMMON,
  { name: "seed", key: "seed", of: (item) => first(item).seed },
  ...SUMS,
];
const OF_PLANS = [
  { name: "plan", key: "plan", of: (item) => (first(item).plan ? planOf(first(item)) : item.id), text: true },
  STATUS,
  ...COMMON,
  { name: "seeds", key: "seed", of: (item) => item.rows.length },
  ...SUMS,
];

export class RunsTable {
  /** `toggle` is called with what is to be shown or hidden. */
  constructor(table, toggle) {
    Object.assign(this, { table, toggle, lines: new Map(), order: [], items: new Map(), sort: null, down: false });
    Object.assign(this, { byPlan: true, column: "loss", label: "", wanted: "", chosen: new Set() });
    Object.assign(this, { texts: new Map(), placed: [], most: MOST_LINES });
    this.table.parentElement.addEventListener("scroll", () => this.#grow());
    this.table.tBodies[0].addEventListener("change", (event) => this.toggle(event.target.dataset.id));
  }

  get columns() {
    const all = this.byPlan ? OF_PLANS : OF_RUNS;
    const columns = this.inStudies ? all : all.filter(({ key }) => key !== "study");
    if (this.column === "loss") return columns;
    const kpi = {
      name: `best ${this.label}`,
      key: "best",
      of: (item) => reachedBy(item, this.column),
      as: (item) => spread(item, (row) => row.kpis?.[this.column]?.best),
    };
    return [...columns.slice(0, 3), kpi, ...columns.slice(3)];
  }

  /** Other columns or another way of grouping: everything is made anew. */
  reshape(items, { byPlan, column, label }) {
    Object.assign(this, { byPlan, column, label, inStudies: isInStudies(items) });
    this.lines.clear();
    this.texts.clear();
    this.#showHead();
    this.update(items, [...items.keys()]);
  }

  /** These items have changed or are new; what is not among `items` any more goes. */
  update(items, changed) {
    if (isInStudies(items) !== this.inStudies) return this.reshape(items, this);
    this.items = items;
    for (const id of this.texts.keys()) {
      if (items.has(id)) continue;
      this.texts.delete(id);
      this.lines.delete(id);
    }
    for (const id of changed) if (items.has(id)) this.#change(items.get(id));
    this.#arrange();
  }

  /** Ticks what is drawn; nothing else is touched. */
  mark(chosen) {
    const next = new Set(chosen);
    for (const id of new Set([...this.chosen, ...next])) {
      if (this.chosen.has(id) !== next.has(id)) this.#tick(id, next.has(id));
    }
    this.chosen = next;
  }

  find(text) {
    this.wanted = text.toLowerCase();
    this.#arrange();
  }

  get found() {
    return this.order.length;
  }

  /** More lines when the last ones come into sight. */
  #grow() {
    const { scrollTop, clientHeight, scrollHeight } = this.table.parentElement;
    if (scrollTop + 2 * clientHeight < scrollHeight || this.most >= this.order.length) return;
    this.most += MOST_LINES;
    this.#arrange();
  }

  // ---- lines ----------------------------------------------------------------------------------------

  #change(item) {
    this.texts.set(item.id, textOf(item));
    const line = this.lines.get(item.id);
    if (line) this.#write(line, item);
  }

  #write(line, item) {
    this.columns.forEach((column, i) => {
      const text = cellOf(item, column);
      const cell = line.cells[i + 1];
      if (cell.textContent === text) return;
      cell.textContent = text;
      if (column.text) cell.title = text;
    });
    line.cells[0].firstChild.disabled = !first(item).setting;
    line.cells[0].firstChild.setAttribute("aria-label", `show ${line.cells[1].textContent}`);
  }

  #made(item) {
    const box = element("input", { type: "checkbox", checked: this.chosen.has(item.id) });
    box.dataset.id = item.id;
    const cells = this.columns.map(({ text }) => element("td", text ? { className: "text name" } : {}));
    const line = element("tr", { className: this.chosen.has(item.id) ? "chosen" : "" }, element("td", {}, box), ...cells);
    this.lines.set(item.id, line);
    this.#write(line, item);
    return line;
  }

  #tick(id, on) {
    const line = this.lines.get(id);
    if (!line) return;
    line.classList.toggle("chosen", on);
    line.cells[0].firstChild.checked = on;
  }

  /** Lines are moved only if their order has changed; whoever is in the table with a keyboard stays where they are. */
  #arrange() {
    const shown = [...this.items.values()].filter(({ id }) => this.texts.get(id).includes(this.wanted));
    const column = this.columns.find(({ key }) => key === this.sort);
    this.order = column ? sortedBy(shown, column, this.down) : shown;
    const placed = this.order.slice(0, this.most).map((item) => this.lines.get(item.id) ?? this.#made(item));
    if (placed.length === this.placed.length && placed.every((line, i) => line === this.placed[i])) return;
    this.placed = placed;
    const held = document.activeElement;
    this.table.tBodies[0].replaceChildren(...this.placed);
    if (this.table.contains(held)) held.focus();
  }

  // ---- the head -------------------------------------------------------------------------------------

  #showHead() {
    const heads = this.columns.map((column) => this.#head(column));
    this.table.tHead.replaceChildren(element("tr", {}, element("th", { scope: "col" }, "show"), ...heads));
  }

  #head({ name, key, text }) {
    const button = element("button", { type: "button", onclick: () => this.#sortBy(key) }, name + this.#arrow(key));
    const head = element("th", { scope: "col", className: text ? "text" : "" }, button);
    head.dataset.key = key;
    head.setAttribute("aria-sort", this.#direction(key));
    return head;
  }

  #arrow(key) {
    return this.sort === key ? (this.down ? " ▼" : " ▲") : "";
  }

  #direction(key) {
    return this.sort === key ? (this.down ? "descending" : "ascending") : "none";
  }

  #sortBy(key) {
    this.down = this.sort === key ? !this.down : false;
    this.sort = key;
    for (const head of this.table.tHead.rows[0].cells) {
      const column = this.columns.find((each) => each.key === head.dataset.key);
      if (!column) continue;
      head.setAttribute("aria-sort", this.#direction(column.key));
      head.firstChild.textContent = column.name + this.#arrow(column.key);
    }
    this.#arrange();
  }
}

const isInStudies = (items) => [...items.values()].some((item) => first(item).study);

/** The mean, with the standard deviation where there are several. */
function spread(item, of) {
  const values = item.rows.map(of).filter((value) => typeof value === "number");
  if (!values.length) return "–";
  const middle = values.reduce((a, b) => a + b, 0) / values.length;
  if (values.length === 1) return brief(middle, 5);
  const variance = values.reduce((sum, value) => sum + (value - middle) ** 2, 0) / (values.length - 1);
  return `${brief(middle, 4)} ± ${brief(Math.sqrt(variance), 2)}`;
}

const textOf = (item) =>
  item.rows
    .flatMap((row) => [row.run, row.study, row.plan, planOf(row), row.task, row.status, row.label])
    .join(" ")
    .toLowerCase();

/** What is missing comes last, whichever way. */
function sortedBy(items, { of }, down) {
  const sign = down ? -1 : 1;
  const compare = (a, b) => {
    const [x, y] = [of(a), of(b)];
    if (x === y) return 0;
    if (x === null || x === undefined) return 1;
    if (y === null || y === undefined) return -1;
    return (x < y ? -1 : 1) * sign;
  };
  return items.toSorted(compare);
}

function cellOf(item, { of, as }) {
  const value = as ? as(item) : of(item);
  return typeof value === "number" ? brief(value, 5) : String(value ?? "–");
}

function statusOf(item) {
  if (item.rows.length === 1) return statusOfRun(first(item));
  const counts = new Map();
  for (const { status } of item.rows) counts.set(status, (counts.get(status) ?? 0) + 1);
  return counts.size === 1 ? [...counts.keys()][0] : [...counts].map(([status, n]) => `${n} ${status}`).join(", ");
}

function statusOfRun({ status, virtual_s, duration_s, reason, notices }) {
  const warned = notices?.length ? ` – ${notices.join(" ")}` : "";
  if (status === "running" || status === "interrupted")
    return `${status}, ${Math.round((100 * virtual_s) / duration_s)} %${warned}`;
  return (reason ? `${status}: ${reason}` : status) + warned;
}
