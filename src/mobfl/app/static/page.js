// What the views share: elements, questions to the server, numbers as people read them. Text is always set as text.

export const byId = (id) => document.getElementById(id);

/** An element with attributes, listeners (on…) and children; strings become text. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name in made) made[name] = value;
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

/** The server's answer; what it refuses is thrown with its sentences as `lines`. */
export async function ask(path, options = {}) {
  let [response, answer] = [null, null];
  try {
    response = await fetch(path, options);
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw refusal(["the server does not answer: is mobfl app still running?"]);
  }
  if (!response.ok) throw refusal(answer.errors);
  return answer;
}

export function post(path, content, signal) {
  return ask(path, {
    method: "POST",
    body: JSON.stringify(content),
    headers: { "Content-Type": "application/json" },
    signal,
  });
}

function refusal(lines) {
  return Object.assign(new Error(lines.join("\n")), { lines });
}

/** Shows sentences in a box, or hides it if there are none. */
export function say(box, lines, bad = true) {
  box.hidden = lines.length === 0;
  box.classList.toggle("bad", bad);
  box.replaceChildren(...lines.map((line) => element("p", {}, line)));
}

/** The lines of a refusal; what is no refusal is a mistake of ours and goes on. */
export function linesOf(error) {
  if (!error.lines) throw error;
  return error.lines;
}

export function save(name, blob) {
  const address = URL.createObjectURL(blob);
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** Four digits that matter: 11.78, 0.09064, 1.2e+7. */
export function brief(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  const text = value.toPrecision(digits);
  return text.includes("e") ? String(Number(text)) : text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

export const percent = (value) => (value === null || value === undefined ? "–" : `${(100 * value).toFixed(1)} %`);
export const megabytes = (bytes) => `${brief(bytes / 1e6, 3)} MB`;
export const seconds = (value) => (value === null || value === undefined ? "–" : `${brief(value)} s`);

/** Calls `draw` before the next frame, once however often it is asked. */
export function oncePerFrame(draw) {
  let asked = false;
  return () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      draw();
    });
  };
}

/** Calls `act` when nobody has asked for it for a moment. */
export function whenAtRest(act, ms) {
  let timer = 0;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(act, ms);
  };
}
