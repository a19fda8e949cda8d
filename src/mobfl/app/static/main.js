// The page: one scenario, three views of it, and the address that holds them all.

import { buildControls } from "./controls.js";
import { ask, byId, element, whenAtRest } from "./page.js";
import { PlanView } from "./plan.js";
import { ScenarioState } from "./scenario.js";

const VIEWS = ["plan", "road", "runs"];

const start = await ask("/api/start").catch((error) => {
  byId("main").replaceChildren(element("p", { className: "note bad" }, error.message));
  throw error;
});
byId("version").textContent = `mobfl ${start.version}`;
const state = new ScenarioState(start);
const plan = new PlanView(state, whenAtRest(writeAddress, 250));
const views = { plan };
read();
buildControls(state, start.presets);
plan.changed();
show();

/** The view, the scenario, and what is asked about: #plan?from=urban&traffic.speed_mps=8&at=20,25.5 */
function address() {
  const parameters = state.toParameters();
  if (plan.asked) parameters.set("at", `${plan.asked.h},${Number(plan.asked.t.toPrecision(8))}`);
  if (plan.compared) parameters.set("h", plan.compared.join());
  if (plan.knows !== "nothing") parameters.set("knows", plan.knows);
  const text = parameters.toString().replaceAll("%2C", ",");
  return `#${viewInAddress()}${text ? `?${text}` : ""}`;
}

function viewInAddress() {
  const name = location.hash.slice(1).split("?")[0];
  return VIEWS.includes(name) ? name : "plan";
}

function writeAddress() {
  if (location.hash !== address()) history.replaceState(null, "", address());
  for (const link of document.querySelectorAll('a[href^="#"]')) {
    const view = link.getAttribute("href").slice(1).split("?")[0];
    link.setAttribute("href", address().replace(/^#\w+/, `#${view}`));
  }
}

function read() {
  const parameters = new URLSearchParams(location.hash.split("?")[1] ?? "");
  state.fromParameters(parameters);
  const [h, t] = (parameters.get("at") ?? "").split(",").map(Number);
  plan.asked = Number.isInteger(h) && h > 0 && t > 0 && t < Infinity ? { h, t } : null;
  plan.know(parameters.get("knows"));
  const compared = parameters.get("h") ?? "";
  byId("compared").value = compared;
  plan.compare(compared);
}

async function show() {
  const name = viewInAddress();
  for (const view of VIEWS) byId(`view-${view}`).hidden = view !== name;
  for (const link of byId("views").children) {
    const chosen = link.getAttribute("href").slice(1).split("?")[0] === name;
    if (chosen) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `mobfl: ${name}`;
  if (name === "road") views.road ??= new (await import("./road.js")).RoadView(state, plan, start);
  if (name === "runs") views.runs ??= new (await import("./runs.js")).RunsView(start);
  redraw();
}

function redraw() {
  views[viewInAddress()]?.draw();
}

addEventListener("hashchange", () => {
  if (location.hash.replace(/^#\w*/, "") !== address().replace(/^#\w*/, "")) {
    read();
    state.changed();
  }
  show();
});
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
byId("copy-link").addEventListener("click", async () => {
  writeAddress();
  const copied = await navigator.clipboard?.writeText(location.href).then(
    () => true,
    () => false,
  );
  byId("copied").textContent = copied ? "copied" : "copy it from the address bar: the browser does not let us";
});

// For tests and benchmarks: how often the plan was drawn.
window.mobfl = { plan };
