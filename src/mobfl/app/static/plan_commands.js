// The commands for a plan: to find it again, to train with it, and a sweep of the plans that are drawn beside it.

import { showCommands } from "./commands.js";
import { byId, save } from "./page.js";

export class PlanCommands {
  constructor(plan) {
    this.plan = plan;
    byId("train-task").addEventListener("change", () => this.show());
    byId("save-sweep").addEventListener("click", () =>
      save("sweep.toml", new Blob([this.#sweep()], { type: "application/toml" })),
    );
  }

  get #task() {
    return byId("train-task").value;
  }

  show() {
    const { words, told, knows, anytime, state } = this.plan;
    byId("plan-commands").hidden = !words;
    if (!words) return;
    byId("plan-commands-file").hidden = Boolean(told.command);
    const schedule = knows === "nothing" ? "anytime" : `anytime:knows=${knows}`;
    const { hasRadio } = state;
    const noise = state.values.get("training.noise_uploads") > 0;
    const searches = hasRadio ? "which searches by simulation; the plan above is the quick one" : "";
    const only = hasRadio ? "which searches by simulation, the only way to plan them on a radio" : "";
    showCommands(byId("plan-command"), [
      [`mobfl plan ${words}`, searches],
      ...(anytime || (hasRadio && !noise) ? [[`mobfl plan ${words} --for ${schedule}`, only]] : []),
      [`mobfl train ${this.#task} ${words} --plan mobfl --seed 1 --out run`],
      ["mobfl sweep sweep.toml --out sweep", "the file is below"],
    ]);
  }

  /** MOB-FL's plan against the best T of every H in the lower figure, three seeds each. */
  #sweep() {
    const { best, shownSteps, told, words } = this.plan;
    const others = shownSteps.filter((h) => h !== best?.local_steps).map((h) => `${h},best`);
    const { scenario, set } = told.command ?? { scenario: words, set: "{}" };
    return [
      "[[runs]]",
      `tasks = ${JSON.stringify([this.#task])}`,
      `scenarios = ${JSON.stringify([scenario])}`,
      `set = ${set}`,
      `plans = ${JSON.stringify(["mobfl", ...others])}`,
      "seeds = [1, 2, 3]",
      "",
    ].join("\n");
  }
}
