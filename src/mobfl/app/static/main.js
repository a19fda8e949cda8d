// The page: one scenario, three views of it, and the address that holds them all.

import { copied } from "./commands.js";
import { buildControls } from "./controls.js";
import { ask, byId, element, whenAtRest } from "./page.js";
import { PlanView } from "./plan.js";
import { ScenarioState } from "./scenario.js";

const VIEWS = ["plan", "road", "compare", "runs"];
const OF_ROAD = ["round", "seed"];
const OF_RUNS = ["by", "column", "values", "smooth", "time", "show"];
const MOST_PINS = 6;
const pins = []; // what is compared, as texts
let came = new URLSearchParams(); // with the address

const start = await ask("/api/start").catch((error) => {
  byId("main").replaceChildren(element("p", { className: "note bad" }, error.message));
  throw error;
});
byId("version").textContent = `mobfl ${start.version}`;
const state = new ScenarioState(start);
const rest = whenAtRest(writeAddress, 250);
const plan = new PlanView(state, rest);
const views = { plan };
read();
buildControls(state, start.presets);
plan.changed();
show();

/** The view, the scenario, and what is asked about: #plan?from=urban&traffic.speed_mps=8&at=20,25.5 */
function address() {
  const parameters = state.toParameters();
  views.runs ? views.runs.toParameters(parameters) : kept(parameters, OF_RUNS);
  views.road ? views.road.toParameters(parameters) : kept(parameters, OF_ROAD);
  if (plan.asked) parameters.set("at", `${plan.asked.h},${Number(plan.asked.t.toPrecision(8))}`);
  if (plan.compared) parameters.set("h", plan.compared.join());
  if (plan.knows !== "nothing") parameters.set("knows", plan.knows);
  for (const pin of pins) parameters.append("pin", pin);
  const text = parameters.toString().replaceAll("%2C", ",");
  return `#${viewInAddress()}${text ? `?${text}` : ""}`;
}

/** What belongs to a view that is not there yet stays as it came. */
function kept(parameters, names) {
  for (const name of names) for (const value of came.getAll(name)) parameters.append(name, value);
}

function viewInAddress() {
  const name = location.hash.slice(1).split("?")[0];
  return VIEWS.includes(name) ? name : "plan";
}

function writeAddress() {
  if (location.hash !== address()) history.replaceState(null, "", address());
  for (const link of document.querySelectorAll('a[href^="#"]:not([data-fixed])')) {
    const view = link.getAttribute("href").slice(1).split("?")[0];
    link.setAttribute("href", address().replace(/^#\w+/, `#${view}`));
  }
}

function read() {
  const parameters = (came = new URLSearchParams(location.hash.split("?")[1] ?? ""));
  state.fromParameters(parameters);
  const [h, t] = (parameters.get("at") ?? "").split(",").map(Number);
  plan.asked = Number.isInteger(h) && h > 0 && t > 0 && t < Infinity ? { h, t } : null;
  pins.splice(0, pins.length, ...new Set(parameters.getAll("pin").slice(0, MOST_PINS)));
  showPins();
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
  if (name === "road") views.road ??= new (await import("./road.js")).RoadView(state, plan, start, came, rest);
  if (name === "compare") views.compare ??= new (await import("./compare.js")).CompareView(start, pins, pinned);
  if (name === "runs") views.runs ??= new (await import("./runs.js")).RunsView(start, came, rest);
  redraw();
}

function redraw() {
  views[viewInAddress()]?.draw();
}

addEventListener("hashchange", () => {
  if (location.hash.replace(/^#\w*/, "") !== address().replace(/^#\w*/, "")) {
    read();
    state.changed();
    views.road?.read(came);
    views.runs?.read(came);
  }
  show();
});
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
byId("copy-link").addEventListener("click", async () => {
  writeAddress();
  byId("copied").textContent = (await copied(location.href)) ? "copied" : "copy it from the address bar: the browser does not let us";
});

/** The road with its best plan, or with the H and T that are asked about; the oldest goes if there are too many. */
function pin(at) {
  const parameters = state.toParameters();
  if (at) parameters.set("at", `${at.h},${at.t}`);
  const text = parameters.toString();
  if (pins.includes(text)) return pinned();
  if (pins.length >= MOST_PINS) pins.shift();
  pins.push(text);
  pinned();
}

function pinned() {
  showPins();
  writeAddress();
}

function showPins() {
  const link = byId("views").querySelector('[href^="#compare"]');
  link.textContent = pins.length ? `Compare (${pins.length})` : "Compare";
}

byId("pin-road").addEventListener("click", () => pin(null));
byId("pin-plan").addEventListener("click", () => plan.asked && pin(plan.asked));

// For tests and benchmarks: how often the plan was drawn.
window.mobfl = views;
