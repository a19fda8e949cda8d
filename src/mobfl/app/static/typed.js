// Numbers as they are being typed: what a field holds, or a sentence in the page's words about what is wrong with it.

const MOST_STEPS = 8; // that one figure can show

/** `{ value }`, or `{ mistake }` if it is not what `rule` says; the field is marked too. */
function read(field, name, isRight, rule) {
  const value = field.valueAsNumber;
  const right = Number.isFinite(value) && isRight(value);
  field.setAttribute("aria-invalid", !right);
  if (right) return { value };
  const got = field.validity.badInput ? "something else" : field.value || "nothing";
  return { mistake: `${name} must be ${rule}, got ${got}` };
}

export function wholeIn(field, name, least) {
  const rule = `a whole number of at least ${least}`;
  return read(field, name, (value) => Number.isInteger(value) && value >= least, rule);
}

export function aboveZeroIn(field, name) {
  return read(field, name, (value) => value > 0, "a number above 0");
}

/** Several H in one field; none if nothing is typed, or with a sentence about the first that is wrong. */
export function stepsIn(text, field) {
  const words = text.split(/[ ,;]+/).filter(Boolean);
  const wrong = words.find((word) => !/^[1-9]\d{0,6}$/.test(word));
  const steps = [...new Set(words.map(Number))];
  let mistake = null;
  if (wrong !== undefined) mistake = `H to compare must be whole numbers of at least 1, got ${wrong}.`;
  else if (steps.length > MOST_STEPS) mistake = `H to compare must be at most ${MOST_STEPS} numbers, got ${steps.length}.`;
  field.setAttribute("aria-invalid", mistake !== null);
  return { steps: mistake || !steps.length ? null : steps, mistake };
}

/** H and T as two fields have them, or the sentences. */
export function planIn(hField, tField) {
  const [h, t] = [wholeIn(hField, "H", 1), aboveZeroIn(tField, "T")];
  const mistakes = [h.mistake, t.mistake].filter(Boolean);
  return mistakes.length ? { mistakes } : { plan: { h: h.value, t: t.value }, mistakes };
}

/** Fields that nobody has typed into yet have no mistakes. */
export function unmarked(...fields) {
  for (const field of fields) field.removeAttribute("aria-invalid");
}
