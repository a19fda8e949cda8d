// The view of a plan: computed here while a slider moves, said by the server once it rests.

import { KNOWLEDGE } from "./anytime.js";
import { bestAnytime, plansAnytime } from "./anytime_optimum.js";
import { Figure, bindSaves } from "./figure.js";
import { PlanCommands } from "./plan_commands.js";
import { MOST_STEPS, bestPlan } from "./optimum.js";
import { brief, byId, linesOf, oncePerFrame, percent, post, save, say, seconds, whenAtRest } from "./page.js";
import { comparedSteps, drawCurves, drawSurface, extent, surfaceAxes, surfaceOf } from "./surface.js";
import { planIn, stepsIn, unmarked } from "./typed.js";
import { conditions, fits, maxLocalSteps, minDelay, promise } from "./theory.js";

const AT_REST_MS = 150;
const PAUSE_MS = 400; // before rounds are simulated: many plans pass while a slider moves
const ONLY_SERVER =
  "Steps of this law are planned by the server, once a value rests; the pictures show exponential steps only.";

export class PlanView {
  /** `asked` and `compared` are what a person wants to see besides the optimum; `knows` is of anytime rounds. */
  constructor(state, onChange) {
    Object.assign(this, { state, onChange, asked: null, typing: false, compared: null, knows: KNOWLEDGE[0], redraws: 0 });
    Object.assign(this, { told: null, toldAnytime: null, delivered: null });
    this.figures = { surface: new Figure(byId("surface"), () => {}), curves: new Figure(byId("curves"), () => {}) };
    this.commands = new PlanCommands(this);
    this.draw = oncePerFrame(() => this.#draw());
    this.settle = whenAtRest(() => this.#askServer(), AT_REST_MS);
    state.watch(() => this.changed());
    this.#listen();
  }

  changed() {
    this.asking?.abort(); // what it answers is about another road
    this.told = this.toldAnytime = this.delivered = null;
    Object.assign(byId("results").dataset, { settled: false, anytime: false });
    this.draw();
    this.settle();
    this.onChange();
  }

  /** What vehicles know of their leaving; what nobody can know is nothing. */
  know(knows) {
    this.knows = KNOWLEDGE.includes(knows) ? knows : KNOWLEDGE[0];
    byId("knows").value = this.knows;
  }

  /** The server's plan once it has answered; null if there is none. */
  async settled() {
    while (!this.told && !this.state.mistake()) await new Promise((done) => setTimeout(done, 30));
    return this.told?.best?.local_steps ? this.told.best : null;
  }

  /** Looks at another H and T, or at none. */
  askAbout(h, t) {
    unmarked(byId("ask-h"), byId("ask-t"));
    this.typing = false;
    this.asked = h > 0 && t > 0 ? { h: Math.max(1, Math.round(h)), t } : null;
    this.draw();
    this.onChange();
  }

  /** What is typed stays as it is, also while it is no plan yet. */
  #askTyped() {
    this.typing = true;
    this.asked = planIn(byId("ask-h"), byId("ask-t")).plan ?? null;
    this.draw();
    this.onChange();
  }

  /** The H of the lower figure, as they are typed; under a mistake they are chosen as if nothing were typed. */
  compare(text) {
    const { steps, mistake } = stepsIn(text, byId("compared"));
    this.compared = steps;
    byId("compared-says").textContent = mistake ?? "";
    this.draw();
    this.onChange();
  }

  // ---- numbers --------------------------------------------------------------------------------------

  #draw() {
    const mistake = this.state.mistake();
    if (!mistake && this.state.hasRadio) return this.#drawOnRadio();
    this.road = mistake ? null : conditions(this.state.tables());
    this.best = this.road && this.#optimum();
    this.anytime = this.road && this.#anytimeOptimum();
    const onlyServer = this.road && !this.road.known;
    if (onlyServer) this.road = null; // its law is the server's to compute
    this.#showNumbers();
    if (mistake) say(byId("plan-says"), [mistake]);
    else if (onlyServer && !this.told?.lines.length) say(byId("plan-says"), [ONLY_SERVER, ...this.#linesOfAnytime()]);
    else if (this.told) say(byId("plan-says"), [...this.told.lines, ...this.#linesOfAnytime()]);
    else if (this.best) say(byId("plan-says"), []);
    this.#showFigures();
    this.#showAsked();
    this.redraws++;
  }

  /** What the server has told; the pictures are for constant seconds of the same mean, and stay until it tells anew. */
  #drawOnRadio() {
    const { transfers, lines } = this.told ?? {};
    this.best = transfers ? this.told.best : null;
    this.anytime = null;
    if (this.told) this.road = transfers ? conditions({ ...this.state.tables(), link: transfers }) : null;
    this.#showNumbers();
    say(byId("plan-says"), lines ?? []);
    if (this.told) {
      this.#showFigures();
      this.#showAsked();
    }
    this.redraws++;
  }

  /** The server's plan where it has answered: it is the one that `mobfl plan` gives. */
  #optimum() {
    if (this.told?.lines.length) return null;
    if (this.told) return this.told.best;
    if (!this.road.known) return null;
    return maxLocalSteps(this.road) <= MOST_STEPS ? bestPlan(this.road) : null;
  }

  /** The server's too; it may have taken too long, and then ours stays. */
  #anytimeOptimum() {
    if (this.toldAnytime?.best?.round_s) return this.toldAnytime.best;
    return plansAnytime(this.road) ? bestAnytime(this.road, this.knows) : null;
  }

  /** Why there are no anytime rounds, unless the other plan says so already. */
  #linesOfAnytime() {
    if (this.anytime || !this.toldAnytime) return [];
    return this.toldAnytime.lines.filter((line) => !this.told?.lines.includes(line));
  }

  async #askServer() {
    if (this.state.mistake()) return;
    this.asking?.abort();
    this.asking = new AbortController();
    const { signal } = this.asking;
    const tables = this.state.tables();
    if (this.state.hasRadio) return this.#askOnRadio(tables, signal);
    await Promise.all([
      this.#ask(this.#planPath(), tables, signal, (told) => this.#keep(told)),
      this.#ask(`/api/anytime?knows=${this.knows}`, tables, signal, (told) => (this.toldAnytime = told)),
    ]);
  }

  /** First the quick plan; then what rounds make of it. Anytime rounds have no such plan. */
  async #askOnRadio(tables, signal) {
    this.toldAnytime = { lines: [] };
    await this.#ask(this.#planPath(), tables, signal, (told) => this.#keep(told));
    await new Promise((done) => setTimeout(done, PAUSE_MS));
    const { local_steps, round_s } = this.told?.best ?? {};
    if (signal.aborted || !local_steps) return;
    try {
      const delivered = await post("/api/delivered", { tables, local_steps, round_s }, signal);
      if (!signal.aborted) this.delivered = delivered;
    } catch (error) {
      if (error.name === "AbortError") return;
      this.delivered = { lines: this.#linesOf(error) };
    }
    this.draw();
  }

  #keep(told) {
    this.told = told;
    this.state.refuse(told.refused ?? []);
  }

  #planPath() {
    return `/api/plan?${new URLSearchParams({ from: this.state.preset })}`;
  }

  /** Keeps what is answered, unless it is about another road by then. */
  async #ask(path, tables, signal, keep) {
    try {
      const { plan, contributing_visit_prob: visits, toml, command, transfers } = await post(path, tables, signal);
      if (signal.aborted) return;
      const best = { ...plan, uploads: plan.expected_uploads, valid: plan.valid_round_prob };
      keep({ best, visits, toml, command, transfers, lines: plan.reason ? [this.state.worded(`No plan is possible: ${plan.reason}.`)] : [] });
    } catch (error) {
      if (error.name === "AbortError") return;
      keep({ lines: this.#linesOf(error), refused: error.lines, toml: null });
    }
    this.draw();
  }

  #linesOf(error) {
    return linesOf(error).map(this.state.worded);
  }

  #showNumbers() {
    this.#showPlan();
    this.#showAnytime();
    this.#showRadio();
    byId("beside").textContent = this.#besideThem();
    this.commands.show();
    Object.assign(byId("results").dataset, { settled: this.told !== null, anytime: this.toldAnytime !== null });
  }

  #showPlan() {
    const best = this.best;
    byId("best-h").textContent = best ? best.local_steps : "–";
    byId("best-t").textContent = seconds(best?.round_s);
    byId("best-g").textContent = best ? `${brief(best.objective)} /s` : "–";
    byId("best-uploads").textContent = brief(best?.uploads);
    byId("best-valid").textContent = percent(best?.valid);
    // All uploads have H steps, so an average is as far as the longest training.
    byId("best-average").textContent = best && !this.#noise() ? `${brief(best.objective)} /s` : "–";
    byId("objective-name").textContent = this.#noise()
      ? "g_ν, steps per second × M/(M + ν)"
      : "g or v, steps per second";
  }

  #showAnytime() {
    const best = this.anytime;
    byId("anytime-steps").textContent = brief(best?.local_steps, 3);
    byId("anytime-t").textContent = seconds(best?.round_s);
    byId("anytime-v").textContent = best ? `${brief(best.objective)} /s` : "–";
    byId("anytime-average").textContent = best ? `${brief(best.averaged_objective)} /s` : "–";
    byId("anytime-uploads").textContent = brief(best?.uploads);
    byId("anytime-valid").textContent = percent(best?.valid);
  }

  /** Λ and g with constant seconds, and on the radio itself. */
  #showRadio() {
    const { best, delivered } = this;
    byId("on-radio").hidden = !this.state.hasRadio || Boolean(this.state.mistake());
    byId("constant-uploads").textContent = brief(best?.uploads);
    byId("constant-g").textContent = best ? `${brief(best.objective)} /s` : "–";
    byId("radio-uploads").textContent = around(delivered?.uploads, delivered?.uploads_interval);
    byId("radio-g").textContent = delivered?.objective === undefined ? "…" : `${around(delivered.objective, delivered.objective_interval)} /s`;
    byId("radio-says").textContent = this.#radioSentence();
    if (!best) for (const id of ["radio-uploads", "radio-g"]) byId(id).textContent = "–";
  }

  #radioSentence() {
    const { best, told, delivered } = this;
    if (delivered?.lines) return delivered.lines.join(" ");
    if (!best || !told?.transfers) return "";
    const { download_s, upload_s, senders } = told.transfers;
    const times = `a download takes ${seconds(download_s)} and an upload ${seconds(upload_s)} on average, ${brief(senders, 3)} sending at once`;
    const rounds = delivered ? ` Simulated are ${delivered.rounds} rounds, with 95 % intervals.` : " Rounds are being simulated …";
    return `Planner: ${best.planner}. With this H and T ${times}. The pictures are for constant seconds of that mean.${rounds}`;
  }

  /** What stands behind a command's name for this scenario; null until the server has told it. */
  get words() {
    if (!this.told?.toml) return null;
    return this.told.command?.words ?? `${this.state.preset}.toml`;
  }

  /** The H of the lower figure. */
  get shownSteps() {
    return this.compared ?? (this.best && this.road ? comparedSteps(this.road, this.best.local_steps) : []);
  }

  #noise() {
    return this.state.values.get("training.noise_uploads") > 0;
  }

  #besideThem() {
    const { best, anytime, told } = this;
    const visits = best && `Of all visits ${told ? percent(told.visits) : "…"} contribute at least once with MOB-FL's plan.`;
    const times = (value) => `${brief(value / best.objective, 3)} times MOB-FL's steps`;
    const gain = best && anytime && `Anytime rounds take ${times(anytime.objective)}, an average of them ${times(anytime.averaged_objective)}.`;
    return [visits, gain].filter(Boolean).join(" ");
  }

  #showFigures() {
    const { road, best } = this;
    byId("pictures").hidden = !this.road || Boolean(this.told?.lines.length) || best?.objective === 0;
    for (const figure of Object.values(this.figures)) figure.draw = () => {};
    if (best?.objective > 0 && road) {
      this.reach = extent(road, best, this.anytime);
      const compared = this.shownSteps;
      const shown = {
        road,
        best,
        anytime: this.anytime,
        knows: this.knows,
        reach: this.reach,
        asked: this.#answer(),
        compared,
        symbol: road.noise ? "g_ν" : "g",
      };
      this.figures.surface.draw = drawSurface({ ...shown, grid: surfaceOf(road, this.reach) });
      this.figures.curves.draw = drawCurves(shown);
      byId("surface").setAttribute(
        "aria-label",
        `g over local steps and round length, greatest at H = ${best.local_steps}, T = ${brief(best.round_s)} seconds`,
      );
    }
    for (const figure of Object.values(this.figures)) figure.show();
  }

  #answer() {
    if (!this.asked || !this.road) return null;
    const { h, t } = this.asked;
    return { local_steps: h, round_s: t, ...promise(this.road, h, t) };
  }

  #showAsked() {
    if (!this.typing) {
      byId("ask-h").value = this.asked?.h ?? "";
      byId("ask-t").value = this.asked ? Number(this.asked.t.toPrecision(5)) : "";
    }
    byId("asked-says").textContent = this.#sentence();
    byId("pin-plan").disabled = !this.asked;
  }

  #sentence() {
    const answer = this.#answer();
    const fields = [byId("ask-h"), byId("ask-t")];
    if (this.typing && !this.asked && fields.some(({ value, validity }) => value || validity.badInput))
      return `${planIn(...fields).mistakes.join(". ")}.`;
    if (!answer) return "Choose a point to see what it would give.";
    const { local_steps: h, round_s: t } = answer;
    const takes = `${h} steps take at least ${seconds(minDelay(this.road, h))} with both transfers`;
    if (!fits(this.road, h)) return `${takes}, longer than any vehicle stays.`;
    if (answer.uploads === 0) return `No upload: ${takes}, longer than the round.`;
    const share = this.best ? `, ${percent(answer.objective / this.best.objective)} of the best` : "";
    const rounds = `${percent(answer.valid)} of the rounds valid, ${brief(3600 / t, 3)} rounds per hour`;
    return `g = ${brief(answer.objective)} /s${share}; ${brief(answer.uploads)} uploads per round, ${rounds}.`;
  }

  // ---- hands ----------------------------------------------------------------------------------------

  #listen() {
    const surface = byId("surface");
    surface.addEventListener("pointerdown", (event) => {
      surface.setPointerCapture(event.pointerId);
      this.#point(event);
    });
    surface.addEventListener("pointermove", (event) => event.buttons && this.#point(event));
    surface.addEventListener("keydown", (event) => this.#key(event));
    for (const id of ["ask-h", "ask-t"]) {
      byId(id).addEventListener("input", () => this.#askTyped());
    }
    byId("ask-nothing").addEventListener("click", () => this.askAbout(0, 0));
    byId("compared").addEventListener("input", (event) => this.compare(event.target.value));
    byId("knows").addEventListener("change", (event) => {
      this.know(event.target.value);
      this.changed();
    });
    bindSaves(this.figures);
    byId("save-toml").addEventListener("click", () => this.#saveToml());
  }

  #point(event) {
    if (!this.best || !this.road) return;
    const box = byId("surface").getBoundingClientRect();
    const { t, h } = surfaceAxes(box, this.reach);
    const within = (axis, place) => Math.min(Math.max(axis.value(place), axis.low), axis.high);
    this.askAbout(
      within(h, event.clientY - box.top),
      Math.max(within(t, event.clientX - box.left), this.reach.round_s / 1000),
    );
  }

  #key(event) {
    const moves = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowRight: [0, 1], ArrowLeft: [0, -1] };
    if (event.key === "Escape") this.askAbout(0, 0);
    if (!(event.key in moves) || !this.best || !this.road) return;
    event.preventDefault();
    const [dh, dt] = moves[event.key].map((move) => move * (event.shiftKey ? 10 : 1));
    const { h, t } = this.asked ?? { h: this.best.local_steps, t: this.best.round_s };
    const step = this.reach.round_s / 200;
    this.askAbout(Math.max(1, h + dh), Math.max(step / 5, t + dt * step));
  }

  /** The scenario's own TOML; of one that is not valid there is none. */
  async #saveToml() {
    if (!this.told) await this.#askServer();
    if (this.told?.toml) save(`${this.state.preset}.toml`, new Blob([this.told.toml], { type: "application/toml" }));
  }
}

/** A value and how far its interval reaches; only the value where there is no interval. */
function around(value, ends) {
  if (value === undefined) return "…";
  const known = ends?.every((end) => end !== null);
  return known ? `${brief(value)} ± ${brief((ends[1] - ends[0]) / 2, 2)}` : brief(value);
}
