// A trace of one's own: what its rounds look like beside Poisson's, with its own plan and Theorem 1's.

import { Axis, drawAxes, niceTop } from "./chart.js";
import { showCommands } from "./commands.js";
import { Figure } from "./figure.js";
import { ask, brief, byId, element, linesOf, megabytes, percent, say, seconds } from "./page.js";

const KNOWN = {
  nothing: "leaving unknown",
  mean: "mean stay known",
  predicted: "leaving predicted",
  leaving: "leaving known",
};

export class TraceView {
  constructor(state, plan, { most_upload_bytes, most_trace_s }) {
    Object.assign(this, { state, plan, mostBytes: most_upload_bytes, mostSeconds: most_trace_s, figures: [], job: null });
    byId("trace-limit").textContent = `At most ${megabytes(most_upload_bytes)}, packed or not.`;
    addEventListener("resize", () => this.#draw());
    byId("trace").addEventListener("submit", (event) => {
      event.preventDefault();
      this.#compare();
    });
    byId("trace-cancel").addEventListener("click", () => this.#cancel());
  }

  async #compare() {
    const [file] = byId("trace-file").files;
    if (!file) return say(byId("trace-says"), ["Choose a file first."]);
    if (file.size > this.mostBytes)
      return say(byId("trace-says"), [`A trace must be at most ${megabytes(this.mostBytes)}, got ${megabytes(file.size)}.`]);
    byId("trace-result").replaceChildren();
    say(byId("trace-says"), [`Comparing ${file.name} with Poisson traffic …`], false);
    const job = this.#begin();
    const asked = new URLSearchParams({
      name: file.name,
      section: byId("trace-section").value.trim(),
      tables: JSON.stringify(this.state.tables()),
      knows: this.plan.knows,
      from: this.state.preset,
      job: job.name,
    });
    const { signal } = job.call;
    try {
      const came = await ask(`/api/trace?${asked}`, { method: "POST", body: file, signal });
      this.#show(file.name, came);
    } catch (error) {
      const lines = signal.aborted ? [`Cancelled after ${job.seconds()} s.`] : linesOf(error).map(this.state.worded);
      say(byId("trace-says"), lines, !signal.aborted);
    } finally {
      this.#end();
    }
  }

  /** A new job, with its clock and the button that calls it off. */
  #begin() {
    const since = performance.now();
    const name = Array.from(crypto.getRandomValues(new Uint32Array(4)), (number) => number.toString(36)).join("-");
    const seconds = () => Math.floor((performance.now() - since) / 1000);
    const tick = () => {
      byId("trace-clock").textContent = `${seconds()} s, at most ${this.mostSeconds} s`;
      this.#follow(name);
    };
    this.#showStage({ done: null, stage: "sending the file" });
    this.job = { name, seconds, call: new AbortController(), clock: setInterval(tick, 1000) };
    tick();
    byId("trace-go").disabled = true;
    byId("trace-cancel").hidden = false;
    return this.job;
  }

  /** How far the server is. */
  async #follow(name) {
    const came = await ask(`/api/trace?${new URLSearchParams({ job: name })}`).catch(() => null);
    if (came?.stage && this.job?.name === name) this.#showStage(came);
  }

  #showStage({ done, of, stage }) {
    const bar = byId("trace-progress");
    byId("trace-far").hidden = false;
    if (done === null) bar.removeAttribute("value");
    else Object.assign(bar, { max: of, value: done });
    byId("trace-stage").textContent = done === null ? `${stage} …` : `step ${done + 1} of ${of}: ${stage} …`;
  }

  #end() {
    clearInterval(this.job.clock);
    byId("trace-clock").textContent = "";
    byId("trace-go").disabled = false;
    byId("trace-far").hidden = true;
    byId("trace-cancel").hidden = true;
    this.job = null;
  }

  /** The server is told by name too: what is between us and it may not notice that nobody waits any more. */
  #cancel() {
    const { name, call } = this.job;
    fetch(`/api/trace?${new URLSearchParams({ job: name })}`, { method: "DELETE" }).catch(() => {});
    call.abort();
    byId("trace-go").focus();
  }

  #show(name, came) {
    const stays = `${seconds(came.dwell_s)} (standard deviation ${seconds(came.dwell_sd_s)})`;
    say(
      byId("trace-says"),
      [
        `${name}: ${came.crossings} crossings, ${brief(came.arrivals_per_s)} per second, stays of ${stays}.`,
        ...(came.plan.reason ? [`No plan is possible: ${came.plan.reason}.`] : []),
        ...(came.plan.notices ?? []).map((sentence) => `${sentence}.`),
        ...came.simulations
          .map(({ warning }) => warning)
          .filter(Boolean)
          .slice(0, 1),
      ],
      came.plan.reason !== null,
    );
    if (came.plan.reason) return;
    const scale = scaleOf(came.simulations);
    const histograms = came.simulations.map((each) => histogram(each, scale));
    const boxes = histograms.map(({ box }) => box);
    byId("trace-result").replaceChildren(this.#takeOver(came), table(came), ...boxes, commands(came));
    this.figures = histograms.map(({ figure }) => figure);
    this.#draw();
  }

  /** To Plan and Road with a road like the trace, and the trace's own plan. */
  #takeOver({ road, plan: { local_steps, round_s } }) {
    const go = (view, more) => () => {
      for (const [key, value] of Object.entries(road)) this.state.values.set(key, value);
      const parameters = this.state.toParameters();
      for (const [name, value] of Object.entries(more)) parameters.set(name, value);
      location.hash = `${view}?${parameters}`;
    };
    const own = `${local_steps},${round_s}`;
    const note = "Poisson arrivals as frequent, stays as long and as spread as in the trace; the length of the section stays.";
    return element(
      "p",
      { className: "row" },
      element("button", { type: "button", id: "trace-plan", onclick: go("#plan", { at: own }) }, "Plan this road"),
      element("button", { type: "button", id: "trace-road", onclick: go("#road", { round: own }) }, "Watch its rounds"),
      element("span", { className: "soft" }, note),
    );
  }

  #draw() {
    for (const figure of this.figures) figure.show();
  }
}

/** What does the same where the file is: a browser does not tell its folder. */
function commands({ commands: { needs_file, lines } }) {
  const [plan, ...others] = lines.map((text) => [text]);
  const box = element("div", { id: "trace-command" });
  showCommands(box, [[...plan, "in the folder of the trace"], ...others]);
  const reads = needs_file ? [element("p", { className: "soft" }, "These read the file that Download TOML under Plan gives.")] : [];
  const summary = element("summary", {}, "The same on the command line");
  return element("details", { className: "commands" }, summary, ...reads, box);
}

/** The plans: what they promise, and what they give on the trace. */
function table({ plan, anytime, simulations }) {
  const other = plan.poisson_plan;
  const promised = [plan.objective, other?.promised_objective];
  const real = [plan.objective, other?.real_objective];
  const header = [
    "plan",
    "H",
    "T",
    "g or v promised",
    "on the trace",
    "uploads per round",
    "empty rounds",
    "promised",
    "Poisson says",
    "variance/mean",
  ];
  const rows = simulations.map((each, i) => [
    each.title,
    each.local_steps,
    seconds(each.round_s),
    `${brief(promised[i])} /s`,
    `${brief(real[i])} /s`,
    brief(each.mean_uploads),
    percent(each.empty_prob),
    promisedEmpty(each, i ? null : plan.valid_round_prob_interval),
    percent(each.poisson_empty_prob),
    brief(each.variance_to_mean, 3),
  ]);
  if (anytime && !anytime.reason) rows.push(anytimeRow(anytime));
  return element(
    "div",
    { className: "wide", tabIndex: 0, role: "region", "aria-label": "plans for the trace" },
    element(
      "table",
      {},
      element("thead", {}, element("tr", {}, ...header.map((name) => element("th", { scope: "col" }, name)))),
      element(
        "tbody",
        {},
        ...rows.map((row) =>
          element("tr", {}, ...row.map((cell, i) => element("td", { className: i ? "" : "text" }, String(cell)))),
        ),
      ),
    ),
  );
}

/** The trace's own chance of an empty round, with its 95 % interval where there is one. */
function promisedEmpty({ expected_empty_prob }, valid) {
  const said = percent(expected_empty_prob);
  return valid ? `${said} (${percent(1 - valid[1])} to ${percent(1 - valid[0])})` : said;
}

/** Planned on the trace itself, so that is what it gives there. */
function anytimeRow(plan) {
  const { knows, local_steps, round_s, objective, averaged_objective, expected_uploads, valid_round_prob } = plan;
  const average = averaged_objective === null ? "" : `, an average ${brief(averaged_objective)} /s`;
  return [
    `anytime rounds, ${KNOWN[knows]}`,
    `${brief(local_steps, 3)} (the longest)`,
    seconds(round_s),
    `${brief(objective)} /s`,
    `${brief(objective)} /s${average}`,
    brief(expected_uploads),
    percent(1 - valid_round_prob),
    promisedEmpty({ expected_empty_prob: 1 - valid_round_prob }, plan.valid_round_prob_interval),
    "–",
    "–",
  ];
}

/** One for all, so that they can be compared. */
function scaleOf(simulations) {
  const most = Math.max(...simulations.flatMap(({ histogram: shares, poisson }) => [...shares, ...poisson]));
  const counts = Math.max(4, ...simulations.map(({ histogram: shares }) => shares.length));
  return { counts, most: niceTop(1.05 * most) };
}

function histogram(came, scale) {
  const canvas = element("canvas", {
    className: "plot",
    role: "img",
    "aria-label": `uploads per round with ${came.title}`,
  });
  const caption = `${came.title}: bars are the trace's ${came.rounds} rounds, circles are Poisson's with the same mean.`;
  return {
    box: element("figure", {}, canvas, element("figcaption", {}, caption)),
    figure: new Figure(canvas, drawHistogram(came, scale)),
  };
}

function drawHistogram({ histogram: shares, poisson }, { counts, most }) {
  return (pen, width, height, colours) => {
    const x = new Axis(-0.5, counts - 0.5, 58, width - 20);
    const y = new Axis(0, most, height - 44, 14);
    drawAxes(pen, x, y, { xName: "uploads in a round", yName: "share of rounds", colours, wholeX: true });
    const wide = Math.min(0.7 * (x.at(1) - x.at(0)), 60);
    shares.forEach((share, i) => pen.rect(x.at(i) - wide / 2, y.at(share), wide, y.from - y.at(share), colours.accent));
    poisson.forEach((share, i) =>
      pen.circle(x.at(i), y.at(share), 5, { fill: colours.page, stroke: colours.second, width: 2.5 }),
    );
  };
}
