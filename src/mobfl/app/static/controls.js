// A slider and a number field for every value of the scenario, made from the server's list of fields, and a line for every
// class of vehicles.

import { brief, byId, element } from "./page.js";

const POSITIONS = 1000;
const TITLES = { road: "Road", traffic: "Traffic", link: "Link", radio: "Radio", compute: "Computing", training: "Training" };
const CLOSED = ["training"];
const CLASS_COLUMNS = [
  { key: "share", label: "share", title: "of the vehicles that arrive" },
  { key: "min_step_s", label: "α", title: "least time of a local step, s; empty: as above" },
  { key: "extra_step_s", label: "β", title: "mean random time on top, s; empty: as above" },
];

/** Fills the form, and keeps it in step with the state. */
export function buildControls(state, presets) {
  const preset = byId("preset");
  preset.append(...Object.keys(presets).map((name) => element("option", { value: name }, name)));
  preset.addEventListener("change", () => {
    state.use(preset.value);
    state.changed();
  });
  let shown = null;
  const refresh = () => {
    preset.value = state.preset;
    byId("preset-summary").textContent = presets[state.preset].summary;
    const keys = [...state.fields.keys()].filter((key) => state.values.has(key)).join() + state.fleet.length;
    if (keys !== shown) byId("fields").replaceChildren(...tables(state));
    shown = keys;
    state.mark();
  };
  state.mark = () => {
    for (const control of byId("fields").querySelectorAll("[data-key]")) control.refresh();
  };
  state.watch(refresh);
  refresh();
}

function tables(state) {
  const open = new Map([...byId("fields").querySelectorAll("details")].map((each) => [each.dataset.table, each.open]));
  const there = Object.entries(TITLES).filter(([table]) => table !== "radio" || state.hasRadio);
  return there.map(([table, title]) => {
    const fields = [...state.fields.values()].filter(({ key }) => key.startsWith(`${table}.`) && state.values.has(key));
    const body = fields.map((field) => control(state, field));
    if (table === "link") body.unshift(linkChoice(state));
    if (table === "compute") body.push(...fleetEntries(state));
    const details = element(
      "details",
      { open: open.get(table) ?? !CLOSED.includes(table) },
      element("summary", {}, title),
      ...body,
    );
    details.dataset.table = table;
    return details;
  });
}

function linkChoice(state) {
  const choice = (link, text) => {
    const button = element("input", { type: "radio", name: "link", value: link, checked: state.link === link });
    button.addEventListener("change", () => state.giveLink(link));
    return element("label", {}, button, ` ${text}`);
  };
  const choices = [choice("seconds", "in seconds"), choice("rates", "size and rates"), choice("radio", "size and a radio")];
  return element("div", { className: "row" }, ...choices);
}

// ---- the classes of vehicles: a name, a share and the times of a local step -------------------------

/** A line per class, and a button for another. */
function fleetEntries(state) {
  const add = element("button", { type: "button", id: "add-class" }, "Add a class of vehicles");
  add.addEventListener("click", () => state.addClass());
  return [...state.fleet.map((_, place) => classEntry(state, place)), element("div", { className: "row" }, add)];
}

function classEntry(state, place) {
  const name = element("input", { type: "text", className: "class-name", "aria-label": `name of class ${place + 1}` });
  name.addEventListener("input", () => state.setClass(place, "name", name.value || null));
  const numbers = CLASS_COLUMNS.map((column) => numberOf(state, place, column));
  const remove = element("button", { type: "button", "aria-label": `remove class ${place + 1}` }, "×");
  remove.addEventListener("click", () => state.removeClass(place));
  const made = element("div", { className: "row class" }, name, ...numbers.map(({ label }) => label), remove);
  made.dataset.key = `fleet.${place}`;
  made.refresh = () => {
    if (document.activeElement !== name) name.value = state.fleet[place]?.name ?? `class ${place + 1}`;
    for (const { refresh } of numbers) refresh();
  };
  return made;
}

function numberOf(state, place, { key, label, title }) {
  const input = element("input", { id: `fleet-${place}-${key}`, type: "number", step: "any", min: 0, title });
  input.addEventListener("input", () => state.setClass(place, key, typedIn(input)));
  const refresh = () => {
    input.placeholder = state.values.get(`compute.${key}`) ?? "";
    write(input, state.fleet[place]?.[key]);
    input.setAttribute("aria-invalid", state.isWrongInClass(place, key));
  };
  return { label: element("label", { title }, `${label} `, input), refresh };
}

// ---- a value -------------------------------------------------------------------------------------------

function control(state, field) {
  const { key, kind } = field;
  const build = { choice: choiceEntry, range: rangeEntry }[kind] ?? numberEntry;
  const { inputs, refresh } = build(state, field);
  const made = element("div", { className: "field" }, nameOf(field), inputs, ...sliderOf(state, field));
  made.dataset.key = key;
  made.refresh = () => {
    refresh();
    for (const input of made.querySelectorAll("input:not([type=range])")) input.setAttribute("aria-invalid", state.isWrong(key));
    made.querySelector("input[type=range]")?.refresh();
  };
  return made;
}

function nameOf({ key, letter, meaning }) {
  const label = element("label", { htmlFor: `field-${key}`, title: key }, meaning);
  const [symbol, below] = letter.split("_");
  if (symbol) label.append(" ", element("i", {}, symbol, ...(below ? [element("sub", {}, below)] : [])));
  return label;
}

function unitOf({ unit }) {
  return element("span", { className: "unit" }, unit);
}

/** A field that a person is typing in is left alone, and so is what is no number. */
function write(input, value) {
  if (document.activeElement !== input && !Number.isNaN(value)) input.value = value ?? "";
}

/** What is typed: null if nothing, NaN if it is no number. */
function typedIn(input) {
  if (input.validity.badInput) return NaN;
  return input.value === "" ? null : Number(input.value);
}

function numberEntry(state, field) {
  const { key } = field;
  const input = element("input", { id: `field-${key}`, type: "number", step: "any", inputMode: "decimal" });
  input.addEventListener("input", () => state.set(key, typedIn(input)));
  input.addEventListener("blur", () => write(input, state.values.get(key)));
  const inputs = element("span", { className: "entry" }, input, unitOf(field));
  return { inputs, refresh: () => write(input, state.values.get(key)) };
}

/** A whole number, or two of them for the least and the most. */
function rangeEntry(state, field) {
  const { key, meaning } = field;
  const input = (id, label) =>
    element("input", {
      id,
      className: "pair",
      type: "number",
      step: 1,
      inputMode: "numeric",
      "aria-label": `${meaning}, ${label}`,
    });
  const [least, most] = [input(`field-${key}`, "least"), input(`field-${key}-most`, "most")];
  const read = () => {
    const ends = [least, most].map(typedIn).filter((end) => end !== null);
    state.set(key, ends.length === 2 && ends[0] !== ends[1] ? ends : (ends[0] ?? null));
  };
  for (const each of [least, most]) each.addEventListener("input", read);
  const refresh = () =>
    [state.values.get(key)]
      .flat()
      .concat("")
      .slice(0, 2)
      .forEach((end, i) => write([least, most][i], end));
  return { inputs: element("span", { className: "entry" }, least, "–", most), refresh };
}

function choiceEntry(state, { key, choices }) {
  const select = element("select", { id: `field-${key}` }, ...choices.map((choice) => element("option", {}, choice)));
  select.addEventListener("change", () => state.set(key, select.value));
  return { inputs: select, refresh: () => (select.value = state.values.get(key)) };
}

function sliderOf(state, field) {
  const { key, slider, kind, unit, meaning } = field;
  if (!slider) return [];
  const range = element("input", { type: "range", min: 0, max: POSITIONS, step: 1, "aria-label": meaning });
  const whole = kind === "whole" || kind === "range";
  range.addEventListener("input", () => state.set(key, valueAt(slider, range.valueAsNumber, whole)));
  range.refresh = () => {
    const value = [state.values.get(key)].flat()[0];
    const position = positionOf(slider, value);
    if (valueAt(slider, range.valueAsNumber, whole) !== value) range.value = position;
    range.setAttribute("aria-valuetext", `${brief(value)} ${unit}`);
  };
  return [range];
}

/** A number of three digits for every place of the slider. */
function valueAt({ low, high, log }, position, whole) {
  const share = position / POSITIONS;
  const value = log ? low * (high / low) ** share : low + (high - low) * share;
  const rounded = log
    ? Number(value.toPrecision(3))
    : Number(value.toFixed(Math.max(0, 3 - Math.floor(Math.log10(high)))));
  return whole ? Math.round(rounded) : rounded;
}

function positionOf({ low, high, log }, value) {
  const share = log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
  return Math.round(POSITIONS * Math.min(Math.max(share, 0), 1)) || 0;
}
