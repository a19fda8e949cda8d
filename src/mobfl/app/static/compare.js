// Roads and plans side by side: what was pinned under Plan, each with its numbers, held by the address.

import { Axis, DASHES, SERIES, drawAxes, legendPlaces, niceTop, straight } from "./chart.js";
import { Figure, bindSaves } from "./figure.js";
import { brief, byId, element, linesOf, oncePerFrame, percent, post, say, seconds } from "./page.js";
import { ScenarioState } from "./scenario.js";
import { conditions, fits, forPictures, minDelay, promise } from "./theory.js";

const POINTS = 200;

/** A pin is a text: the parameters of a scenario, and `at=H,T` if it is a plan of one's own. */
export class CompareView {
  constructor(start, pins, onChange) {
    Object.assign(this, { start, pins, onChange, found: new Map() });
    this.figure = new Figure(byId("compared-figure"), (...given) => this.#drawFigure(...given));
    this.show = oncePerFrame(() => this.figure.show());
    bindSaves({ "compared-figure": this.figure });
  }

  draw() {
    for (const pin of this.pins) if (!this.found.has(pin)) this.#find(pin);
    for (const pin of this.found.keys()) if (!this.pins.includes(pin)) this.found.delete(pin);
    this.#showTable();
    this.show();
  }

  /** What the server plans for the road of a pin; of a plan of one's own what theory promises there. */
  async #find(pin) {
    const parameters = new URLSearchParams(pin);
    const state = new ScenarioState(this.start);
    state.fromParameters(parameters);
    const [h, t] = (parameters.get("at") ?? "").split(",").map(Number);
    const entry = { state, own: h > 0 && t > 0 ? { h, t } : null, lines: [], waiting: true };
    this.found.set(pin, entry);
    const mistake = state.mistake();
    try {
      if (mistake) entry.lines = [mistake];
      else Object.assign(entry, await numbersOf(entry));
    } catch (error) {
      entry.lines = linesOf(error).map(state.worded);
    }
    entry.waiting = false;
    this.draw();
  }

  remove(pin) {
    this.pins.splice(this.pins.indexOf(pin), 1);
    this.draw();
    this.onChange();
  }

  get #entries() {
    return this.pins.map((pin, i) => ({ pin, name: nameOf(i), ...this.found.get(pin) })).filter(({ state }) => state);
  }

  // ---- the table: a column for each -----------------------------------------------------------------

  #showTable() {
    const entries = this.#entries;
    byId("compare-nothing").hidden = entries.length > 0;
    byId("compare-shown").hidden = entries.length === 0;
    const heads = entries.map((entry) => element("th", { scope: "col" }, ...this.#head(entry)));
    say(byId("compare-says"), entries.flatMap(({ name, lines }) => lines.map((text) => `${name}: ${text}`)));
    const table = byId("compare-table");
    table.tHead.replaceChildren(element("tr", {}, element("td", {}), ...heads));
    table.tBodies[0].replaceChildren(...ROWS.map(([name, of]) => line(name, entries.map((entry) => of(entry) ?? (entry.waiting ? "…" : null)))), ...differences(entries));
  }

  #head({ pin, name, own }) {
    const pins = new URLSearchParams(this.pins.map((other) => ["pin", other]));
    const open = element("a", { href: `#plan?${pin}&${pins}`, title: "open it under Plan", "data-fixed": "" }, name);
    const remove = element("button", { type: "button", "aria-label": `remove ${name}` }, "×");
    remove.addEventListener("click", () => this.remove(pin));
    return [open, own ? " (a plan of your own) " : " (the best plan) ", remove];
  }

  // ---- the figure -----------------------------------------------------------------------------------

  #drawFigure(pen, width, height, colours) {
    const drawn = this.#entries.filter(({ road, plan }) => road && plan);
    if (!drawn.length) return;
    const t = new Axis(0, niceTop(2.2 * Math.max(...drawn.map(({ plan }) => plan.t))), 58, width - 20);
    const legend = legendPlaces(drawn.map(({ name, plan }) => `${name}: H = ${plan.h}`), t.from, t.to);
    const curves = drawn.map(({ road, plan }) => curveOf(road, plan.h, t.high));
    const most = Math.max(...curves.flatMap((points) => points.map(([, value]) => value)), 1e-9);
    const g = new Axis(0, niceTop(1.1 * most), height - 44, legend.at(-1).y + 16);
    drawAxes(pen, t, g, { xName: "round length T (s)", yName: "g (1/s)", colours });
    drawn.forEach(({ plan }, i) => {
      const stroke = { stroke: SERIES[i], width: 2, dash: DASHES[i] };
      pen.line(curves[i].map(([round_s, value]) => [t.at(round_s), g.at(value)]), stroke);
      pen.circle(t.at(plan.t), g.at(plan.g), 5, { fill: SERIES[i], stroke: colours.text });
      straight(pen, legend[i].x, legend[i].y, legend[i].x + 24, legend[i].y, stroke);
      pen.text(legend[i].text, legend[i].x + 28, legend[i].y, { fill: colours.text, baseline: "middle" });
    });
  }
}

const nameOf = (i) => String.fromCharCode(65 + i); // A, B, C, …

const ROWS = [
  ["start from", ({ state }) => state.preset],
  ["local steps H", ({ plan }) => plan?.h],
  ["round T", ({ plan }) => plan && seconds(plan.t)],
  ["g, steps per second", ({ plan }) => plan && `${brief(plan.g)} /s`],
  ["uploads per round", ({ plan }) => plan && brief(plan.uploads)],
  ["valid rounds", ({ plan }) => plan && percent(plan.valid)],
  ["best g of this road", ({ best }) => best?.local_steps && `${brief(best.objective)} /s`],
];

async function numbersOf({ state, own }) {
  const { plan: best, transfers } = await post("/api/plan", state.tables());
  const reason = best.reason ? [state.worded(`No plan is possible: ${best.reason}.`)] : [];
  const seen = conditions(transfers ? { ...state.tables(), link: transfers } : state.tables());
  const road = (transfers || !state.hasRadio) && seen.known ? seen : null;
  if (!own) {
    const { local_steps: h, round_s: t, objective: g, expected_uploads: uploads, valid_round_prob: valid } = best;
    return { best, road, lines: reason, plan: h ? { h, t, g, uploads, valid } : null };
  }
  if (!road) return { best, road, lines: [...reason, "mobfl simulate shows what a plan of your own gives on this road."] };
  const { uploads, valid, objective: g } = promise(road, own.h, own.t);
  return { best, road, lines: reason, plan: { ...own, g, uploads, valid } };
}

/** Every value in which the roads differ. */
function differences(entries) {
  const keys = new Set(entries.flatMap(({ state }) => [...state.values.keys()]));
  const texts = (key) => entries.map(({ state }) => JSON.stringify(state.values.get(key) ?? null));
  return [...keys]
    .filter((key) => new Set(texts(key)).size > 1)
    .map((key) => line(key === "fleet" ? "classes of vehicles" : entries[0].state.worded(key), entries.map(({ state }) => valueOf(state, key))));
}

function valueOf(state, key) {
  const [value, unit] = [state.values.get(key), state.units[key] ?? ""];
  if (value === undefined || value === null) return null;
  if (key === "fleet") return value.map(classOf).join("; ");
  return `${[value].flat().map(grouped).join(" to ")} ${unit}`.trim();
}

/** A class of vehicles in a few words: its share, and what of it is its own. */
function classOf({ name, share, min_step_s, extra_step_s }, place) {
  const own = [["α", min_step_s], ["β", extra_step_s]].filter(([, value]) => value !== undefined);
  const times = own.map(([letter, value]) => `${letter} = ${brief(value)} s`);
  return `${name ?? `class ${place + 1}`}: ${[percent(share), ...times].join(", ")}`;
}

/** 14,804,644: long numbers in groups of three. */
const grouped = (value) => (Number.isInteger(value) ? value.toLocaleString("en-US") : String(value));

const line = (name, cells) =>
  element(
    "tr",
    {},
    element("th", { scope: "row", className: "text" }, name),
    ...cells.map((text) => element("td", { className: "text words" }, String(text ?? "–"))),
  );

/** g(H, ·) from T_min on. */
function curveOf(road, h, most) {
  const least = minDelay(road, h);
  const start = [0, Math.min(least, most)].map((round_s) => [round_s, 0]);
  if (!fits(road, h) || least >= most) return start;
  const seen = forPictures(road);
  const places = Array.from({ length: POINTS }, (_, k) => least + ((most - least) * (k + 1) ** 2) / POINTS ** 2);
  return [...start, ...places.map((round_s) => [round_s, promise(seen, h, round_s).objective])];
}
