// A deployment as it goes on: who is there and what each does, how rounds went, and what was refused and why.

import { ask, brief, byId, element, linesOf, say, seconds } from "./page.js";

const EVERY_MS = 1000;
/** What an event means to a person; the signs and colours are those of the road. */
const STATES = {
  began: { text: "trains", colour: "#e69f00", sign: "H" },
  uploaded: { text: "has uploaded", colour: "#009e73", sign: "✓" },
  rejected: { text: "was rejected", colour: "#cc79a7", sign: "!" },
  gave_up: { text: "would be late", colour: "#d55e00", sign: "×" },
  late: { text: "came late", colour: "#d55e00", sign: "×" },
  cut_off: { text: "was too late", colour: "#d55e00", sign: "×" },
  failed: { text: "failed", colour: "#7f7f7f", sign: "?" },
  sat_out: { text: "sits out", colour: "#56b4e9", sign: "–" },
  dropped: { text: "answered another order", colour: "#7f7f7f", sign: "?" },
};
const LATE = ["late", "gave_up", "cut_off"];
const TITLES = { refused: "uploads were not merged", taken_back: "a model was taken back", broke: "the server has ended" };
const VEHICLES = ["vehicle", "now", "there for", "uploads", "late", "rejected"];
const ROUNDS = ["round", "began", "uploads", "late", "rejected", "left", "failed"];

export class DeploymentView {
  constructor() {
    this.timer = null;
    byId("deployment-run").addEventListener("change", () => this.#look());
  }

  /** Which of the folder's runs are deployments; those that train now come first. */
  offer(rows) {
    const found = rows.filter(({ deployed }) => deployed);
    const names = found.toSorted((a, b) => (b.status === "running") - (a.status === "running")).map(({ run }) => run);
    byId("deployment").hidden = names.length === 0;
    this.statuses = new Map(found.map(({ run, status }) => [run, status]));
    const select = byId("deployment-run");
    if (JSON.stringify(names) === this.offered) return;
    this.offered = JSON.stringify(names);
    const before = select.value;
    select.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
    if (names.includes(before)) select.value = before;
    this.follow(names.length > 0);
  }

  /** Looks every second while somebody sees it. */
  follow(seen) {
    clearInterval(this.timer);
    this.timer = null;
    if (!seen || byId("deployment").hidden) return;
    this.timer = setInterval(() => this.#look(), EVERY_MS);
    this.#look();
  }

  /** One question at a time: the first one may take long, and each of the others is answered by what it has read. */
  async #look() {
    if (this.looking) return;
    this.looking = true;
    await this.#ask().finally(() => (this.looking = false));
  }

  async #ask() {
    const run = byId("deployment-run").value;
    try {
      const came = await ask(`/api/deployment?${new URLSearchParams({ run })}`);
      if (run !== byId("deployment-run").value) return;
      say(byId("deployment-says"), this.#remarks(came), false);
      this.#show(came);
    } catch (error) {
      say(byId("deployment-says"), linesOf(error));
    }
  }

  #remarks({ damaged, more }) {
    const status = this.statuses?.get(byId("deployment-run").value);
    const lines = damaged === 1 ? "One line of events.jsonl is" : `${brief(damaged, 9)} lines of events.jsonl are`;
    return [
      ...(more ? ["Reading what has happened so far …"] : []),
      ...(status && status !== "running" ? [`This deployment does not go on (${status}): below is how it ended.`] : []),
      ...(damaged ? [`${lines} damaged, and left out.`] : []),
    ];
  }

  #show({ round, over, present, states, totals, vehicles, rounds, last, now_s }) {
    const count = (kinds) => kinds.reduce((sum, kind) => sum + (totals[kind] ?? 0), 0);
    byId("deployment-round").textContent = round < 0 ? "–" : `${round + 1}${over ? ", over" : ""}`;
    byId("deployment-present").textContent = present;
    byId("deployment-trains").textContent = states.began ?? 0;
    byId("deployment-uploads").textContent = count(["uploaded"]);
    byId("deployment-late").textContent = count(LATE);
    byId("deployment-rejected").textContent = count(["rejected"]);
    const clock = over ? Math.max(...vehicles.map(({ at_s }) => at_s), 0) : now_s;
    fill("deployment-vehicles", VEHICLES, vehicles.map((each) => vehicleCells(each, clock)));
    fill("deployment-rounds", ROUNDS, rounds.toReversed().map((each) => [each.round + 1, ...ROUNDS.slice(1).map((name) => each[name])]));
    byId("deployment-last").replaceChildren(...last.map((event) => element("li", {}, sentenceOf(event))));
    byId("deployment-nothing").hidden = last.length > 0;
  }
}

function vehicleCells({ node, name, state, since_s, uploads, late, rejected }, clock) {
  const { text, colour, sign } = STATES[state] ?? { text: state, colour: "#7f7f7f", sign: "?" };
  const swatch = element("span", { className: "swatch signed" }, sign);
  swatch.style.background = colour;
  const there = clock === null || clock < since_s ? "–" : seconds(clock - since_s);
  return [name || node, element("span", {}, swatch, ` ${text}`), there, uploads, late, rejected];
}

/** Rounds count from 1 for people. */
function sentenceOf({ round, at_s, kind, who, reason }) {
  const what = TITLES[kind] ?? `${who} ${(STATES[kind] ?? { text: kind }).text}`;
  return `Round ${round + 1}, ${brief(at_s)} s: ${what}${reason ? ` – ${reason}` : ""}.`;
}

function fill(id, heads, rows) {
  const table = byId(id);
  const head = heads.map((name, i) => element("th", { scope: "col", className: i < 2 ? "text" : "" }, name));
  if (!table.tHead.rows.length) table.tHead.replaceChildren(element("tr", {}, ...head));
  const line = (cells) => element("tr", {}, ...cells.map((cell, i) => element("td", { className: i < 2 ? "text" : "" }, asNode(cell))));
  table.tBodies[0].replaceChildren(...rows.map(line));
}

const asNode = (cell) => (cell instanceof Node ? cell : String(cell));
