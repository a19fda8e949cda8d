// The classes of vehicles: a name, a share and the times of a local step, each a number to type.

import { element } from "./page.js";

const COLUMNS = [
  { key: "share", label: "share", title: "of the vehicles that arrive" },
  { key: "min_step_s", label: "α", title: "least time of a local step, s; empty: as above" },
  { key: "extra_step_s", label: "β", title: "mean random time on top, s; empty: as above" },
];

/** A line per class, and a button for another. */
export function fleetEntries(state) {
  const add = element("button", { type: "button", id: "add-class" }, "Add a class of vehicles");
  add.addEventListener("click", () => state.addClass());
  return [...state.fleet.map((_, place) => classEntry(state, place)), element("div", { className: "row" }, add)];
}

function classEntry(state, place) {
  const name = element("input", { type: "text", className: "class-name", "aria-label": `name of class ${place + 1}` });
  name.addEventListener("input", () => state.setClass(place, "name", name.value || null));
  const numbers = COLUMNS.map((column) => numberOf(state, place, column));
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
  input.addEventListener("input", () => state.setClass(place, key, input.value === "" ? null : Number(input.value)));
  const refresh = () => {
    const given = state.fleet[place]?.[key];
    input.placeholder = state.values.get(`compute.${key}`) ?? "";
    if (document.activeElement !== input) input.value = given ?? "";
  };
  return { label: element("label", { title }, `${label} `, input), refresh };
}
