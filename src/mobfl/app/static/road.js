// The view of the rounds: vehicles pass as the server's rows say, and the counters run beside the theory's expectation.

import { showCommands } from "./commands.js";
import { Figure } from "./figure.js";
import { brief, byId, linesOf, percent, post, say, whenAtRest } from "./page.js";
import { MapView } from "./map.js";
import { drawConvergence, drawSection, stageLegend } from "./road_picture.js";
import { TraceView } from "./trace.js";
import { planIn, unmarked, wholeIn } from "./typed.js";

const AT_ONCE = 100; // rounds per question
const AHEAD = 60; // rounds that are known before they are needed
const FLASH = 0.08; // of a round: how long a failure is shown

export class RoadView {
  constructor(state, plan, start, parameters, onChange) {
    Object.assign(this, { state, plan, mostRounds: start.most_rounds, onChange, typed: false, playing: false, stale: true });
    this.#forget();
    this.figures = [
      new Figure(byId("section"), (...given) => drawSection(...given, this.#moment())),
      new Figure(byId("convergence"), (...given) => drawConvergence(...given, this.means, this.expected)),
    ];
    this.beginSoon = whenAtRest(() => this.#begin(), 200);
    this.#listen();
    this.read(parameters);
    state.watch(() => {
      this.typed = false;
      if (byId("view-road").hidden) this.stale = true;
      else this.beginSoon();
    });
    this.trace = new TraceView(state, plan, start);
    this.map = new MapView(start);
  }

  /** H, T and the seed, unless they are the usual ones. */
  toParameters(parameters) {
    if (this.typed && this.round_s > 0) parameters.set("round", `${this.local_steps},${this.round_s}`);
    if (this.seed) parameters.set("seed", this.seed);
  }

  /** Takes over what an address says. */
  read(parameters) {
    const [h, t] = (parameters.get("round") ?? "").split(",");
    this.typed = t !== undefined;
    if (this.typed) [byId("road-h").value, byId("road-t").value] = [h, t];
    byId("road-seed").value = parameters.get("seed") ?? "0";
    this.stale = true;
  }

  draw() {
    if (this.stale) this.#begin();
    for (const figure of this.figures) figure.show();
  }

  // ---- time -----------------------------------------------------------------------------------------

  #forget() {
    Object.assign(this, {
      now_s: 0,
      rounds: [],
      vehicles: [],
      known: 0,
      asking: null,
      expected: null,
      means: [],
      uploads: 0,
      empty: 0,
      lost: { clock: 0, radio: 0 },
      done: 0,
      round_s: 0,
    });
  }

  #begin() {
    this.stale = false;
    this.begun = this.#beginWithPlan();
  }

  /** From the first round on, with the plan that was typed or the best one. */
  async #beginWithPlan() {
    const beginning = (this.beginning = {});
    const { wanted, mistakes } = await this.#wantedPlan(beginning);
    if (this.beginning !== beginning) return;
    this.#forget();
    this.#showLegend();
    [this.local_steps, this.round_s] = wanted ?? [0, 0];
    say(byId("road-says"), mistakes);
    this.#showCounters();
    this.draw();
    this.onChange();
    if (!wanted) return this.#pause();
    await this.#fetch();
    this.draw();
  }

  /** None on a road of which a value is wrong, whatever H and T are. */
  async #wantedPlan(beginning) {
    const mistake = this.state.mistake();
    const found = this.typed ? this.#typedPlan() : await this.#bestPlan(beginning);
    return mistake ? { mistakes: [`${mistake}: see Plan.`] } : found;
  }

  /** Only the best plan is written into the fields; what a person types there is left alone. */
  async #bestPlan(beginning) {
    const best = await this.plan.settled();
    const wanted = best && [best.local_steps, best.round_s];
    if (this.beginning !== beginning) return {};
    const fields = [byId("road-h"), byId("road-t")];
    unmarked(...fields);
    fields.forEach((field, i) => (field.value = wanted ? Number(wanted[i].toPrecision(6)) : ""));
    const { value: seed, mistake } = wholeIn(byId("road-seed"), "seed", 0);
    this.seed = seed;
    if (mistake) return { mistakes: [`${mistake}.`] };
    return { wanted, mistakes: wanted ? [] : ["There is no plan for this road: see Plan, or give H and T."] };
  }

  #typedPlan() {
    const { plan, mistakes } = planIn(byId("road-h"), byId("road-t"));
    const { value: seed, mistake } = wholeIn(byId("road-seed"), "seed", 0);
    this.seed = seed;
    const lines = [...mistakes, ...(mistake ? [mistake] : [])].map((line) => `${line}.`);
    return { wanted: lines.length ? null : [plan.h, plan.t], mistakes: lines };
  }

  /** The next rounds; of questions that were overtaken by a new beginning the answers are left. */
  async #fetch() {
    const first = this.known;
    const count = Math.min(AT_ONCE, this.mostRounds - first);
    if (this.asking || count <= 0) return;
    const asking = (this.asking = {});
    let waiting = first === 0; // for what stands there, or is said while it takes long
    const slow = setTimeout(() => {
      waiting = true;
      say(byId("road-says"), ["Simulating … the first time this takes a while, kernels are compiled."], false);
    }, 1000);
    const asked = {
      tables: this.state.tables(),
      local_steps: this.local_steps,
      round_s: this.round_s,
      seed: this.seed,
      first,
      count,
    };
    try {
      const came = await post("/api/road", asked);
      if (this.asking !== asking) return;
      this.rounds.push(...came.rounds);
      for (const row of came.vehicles) (this.vehicles[row.round] ??= []).push(row);
      this.known = first + count;
      if (waiting) say(byId("road-says"), []);
      if (first === 0) this.expected = { uploads: came.expected_uploads, reach: came.reach };
      this.#showCounters();
    } catch (error) {
      if (this.asking !== asking) return;
      this.#pause();
      say(byId("road-says"), linesOf(error).map(this.state.worded));
    } finally {
      clearTimeout(slow);
    }
    this.asking = null;
  }

  #play() {
    this.playing = true;
    this.last_ms = performance.now();
    byId("road-play").textContent = "Pause";
    byId("road-play").setAttribute("aria-pressed", "true");
    requestAnimationFrame((ms) => this.#tick(ms));
  }

  #pause() {
    this.playing = false;
    byId("road-play").textContent = "Play";
    this.#showCommand();
    byId("road-play").setAttribute("aria-pressed", "false");
  }

  #tick(ms) {
    if (!this.playing) return;
    const passed_s = (Math.min(ms - this.last_ms, 100) / 1000) * Number(byId("road-speed").value);
    this.last_ms = ms;
    if (this.round_s > 0) this.#advanceTo(this.now_s + passed_s);
    requestAnimationFrame((next) => this.#tick(next));
  }

  /** As far as the rounds are known; those that end on the way are counted. */
  #advanceTo(now_s) {
    this.now_s = Math.min(now_s, this.known * this.round_s);
    const ended = Math.min(Math.floor(this.now_s / this.round_s + 1e-9), this.known);
    for (; this.done < ended; this.done++) {
      this.uploads += this.rounds[this.done].uploads;
      this.empty += this.rounds[this.done].uploads === 0;
      this.means.push(this.uploads / (this.done + 1));
      this.#countLost(this.vehicles[this.done] ?? []);
      delete this.vehicles[this.done - 1]; // the last one is still needed for its failures
    }
    if (this.known - this.done < AHEAD) this.#fetch();
    if (this.done >= this.mostRounds) this.#end();
    this.#showCounters();
    this.draw();
  }

  #countLost(rows) {
    this.lost.radio += rows.filter(({ outcome }) => outcome === "radio").length;
    this.lost.clock += rows.filter(({ outcome }) => outcome === "left_early" || outcome === "round_over").length;
  }

  #end() {
    this.#pause();
    say(
      byId("road-says"),
      [`These are ${this.mostRounds} rounds; mobfl simulate --rounds runs as many as you like.`],
      false,
    );
  }

  async #nextRound() {
    this.#pause();
    await this.begun;
    if (this.round_s <= 0) return;
    if (this.done >= this.known) await this.#fetch();
    this.#advanceTo((this.done + 1) * this.round_s);
  }

  #listen() {
    byId("road-play").addEventListener("click", () => (this.playing ? this.#pause() : this.#play()));
    byId("road-step").addEventListener("click", () => this.#nextRound());
    byId("road-again").addEventListener("click", () => this.#begin());
    byId("road-best").addEventListener("click", () => {
      this.typed = false;
      this.#begin();
    });
    for (const id of ["road-h", "road-t", "road-seed"]) {
      byId(id).addEventListener("input", () => {
        this.typed ||= id !== "road-seed";
        this.beginSoon();
      });
    }
    document.addEventListener("visibilitychange", () => document.hidden && this.#pause());
    addEventListener("hashchange", () => byId("view-road").hidden && this.#pause());
  }

  // ---- what is seen ---------------------------------------------------------------------------------

  #showCounters() {
    const mean = this.done ? this.uploads / this.done : null;
    byId("road-uploads").textContent = this.uploads;
    byId("road-rounds").textContent = this.done;
    byId("road-mean").textContent = brief(mean);
    byId("road-expected").textContent = brief(this.expected?.uploads);
    byId("road-empty").textContent = this.done ? percent(this.empty / this.done) : "–";
    byId("road-expected-empty").textContent = this.expected ? percent(Math.exp(-this.expected.uploads)) : "–";
    byId("road-lost-clock").textContent = this.lost.clock;
    byId("road-lost-radio").textContent = this.lost.radio;
    if (!this.playing) this.#showCommand();
    const inRound_s = this.now_s - this.done * this.round_s;
    byId("road-clock").textContent =
      this.round_s > 0 ? `round ${this.done + 1}, ${inRound_s.toFixed(1)} of ${brief(this.round_s)} s` : "";
  }

  /** As many rounds as have passed here, so that the counters can be compared. */
  #showCommand() {
    const { words } = this.plan;
    byId("road-commands").hidden = !words || this.round_s <= 0;
    if (byId("road-commands").hidden) return;
    const asked = `--plan ${this.local_steps},${this.round_s} --rounds ${this.done || 10_000} --seed ${this.seed}`;
    showCommands(byId("road-command"), [[`mobfl simulate ${words} ${asked}`]]);
  }

  /** What there is to see with a radio, or without one. */
  #showLegend() {
    const { hasRadio } = this.state;
    byId("stages").replaceChildren(...stageLegend(hasRadio));
    for (const each of byId("view-road").querySelectorAll(".of-radio")) each.hidden = !hasRadio;
    for (const each of byId("view-road").querySelectorAll(".of-seconds")) each.hidden = hasRadio;
  }

  /** All that the picture of the section shows. */
  #moment() {
    const length_m = this.state.values.get("road.length_m");
    const share = this.round_s > 0 ? this.now_s / this.round_s - this.done : null; // of the round that has passed
    const along_m = this.state.values.get("radio.station_along_m") ?? length_m / 2;
    const vehicles = this.#shown().map(([row, stage]) => [row, stage, rateAt(row, stage, this.now_s)]);
    return { length_m, station: along_m / length_m, now_s: this.now_s, round: this.done + 1, share, vehicles };
  }

  /** Who is to be seen now, and how: those of this round, and those who have just failed. */
  #shown() {
    const flash_s = FLASH * this.round_s;
    const current = this.vehicles[this.done] ?? [];
    const seen = current.map((row) => [row, stageAt(row, this.now_s, flash_s)]);
    const before = (this.vehicles[this.done - 1] ?? []).filter(
      (row) => row.outcome !== "uploaded" && this.now_s < row.end_s + flash_s,
    );
    const failed = new Set(before.map((row) => row.vehicle));
    return [
      ...before.map((row) => [row, lossOf(row)]),
      ...seen.filter(([row, stage]) => stage !== null && !failed.has(row.vehicle)),
    ];
  }
}

/** The stage of a vehicle in its round; null when it is not there. */
function stageAt(row, now_s, flash_s) {
  if (now_s < row.download_s || now_s >= row.leave_s + flash_s) return null;
  if (now_s >= row.end_s) return row.outcome === "uploaded" ? (now_s < row.leave_s ? "done" : null) : lossOf(row);
  if (row.upload_s !== null && now_s >= row.upload_s) return "upload";
  if (row.ready_s && now_s >= row.ready_s) return "wait";
  return row.train_s !== null && now_s >= row.train_s ? "train" : "download";
}

/** Whether the clock or the radio was to blame. */
function lossOf(row) {
  return row.outcome === "radio" ? "radio" : "failed";
}

/** Bits per second that a vehicle sends or gets; null where nobody knows or nothing travels. */
function rateAt(row, stage, now_s) {
  if (stage === "download") return row.download_bps ?? null;
  if (stage !== "upload" || !row.upload_bps) return null;
  const place = Math.floor((row.upload_bps.length * (now_s - row.upload_s)) / (row.end_s - row.upload_s));
  return row.upload_bps[Math.min(place, row.upload_bps.length - 1)];
}
