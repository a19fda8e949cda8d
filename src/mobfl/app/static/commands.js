// Commands to copy: what the terminal would do of what is on the screen.

import { element } from "./page.js";

/** A command with a button that copies it; `note` says what is not the same, if anything. */
export function commandLine(text, note = "") {
  const said = element("span", { role: "status", className: "soft" });
  const copy = async () => (said.textContent = (await copied(text)) ? "copied" : "the browser does not let us: mark it");
  const button = element("button", { type: "button", "aria-label": `Copy ${text.split(" ", 2).join(" ")}` }, "Copy");
  button.addEventListener("click", copy);
  const code = element("code", { className: "command" }, text);
  const remarks = note ? [remark(note, "span")] : [];
  return element("div", { className: "row command-line" }, code, button, said, ...remarks);
}

export function copied(text) {
  const written = navigator.clipboard?.writeText(text) ?? Promise.reject();
  return written.then(
    () => true,
    () => false,
  );
}

/** Text instead of a command, where there is none. */
const remark = (text, tag = "p") => element(tag, { className: "soft" }, text);

/** Shows commands in a box, a line without one as a remark, unless they are there already: a button that has the focus stays. */
export function showCommands(box, lines) {
  const wanted = JSON.stringify(lines);
  if (box.dataset.shown === wanted) return;
  box.dataset.shown = wanted;
  box.replaceChildren(...lines.map(([text, note]) => (text ? commandLine(text, note) : remark(note))));
}
