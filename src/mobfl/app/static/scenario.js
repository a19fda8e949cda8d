// The scenario that is being looked at: its values by dotted key, and the address that holds it.

import { conditions } from "./theory.js";
import { wordsOf } from "./words.js";

const SECONDS = ["link.download_s", "link.upload_s"];
const SHARE_ROUNDING = 1e-9;
const SHARE_RULES = { gt: 0, le: 1 };
const CLASS_KEYS = ["share", "min_step_s", "extra_step_s"];
const SIZES = ["link.model_bytes", "link.downlink_bps", "link.uplink_bps"];
const RATES = SIZES.slice(1);
const USUAL_RADIO = "paper-radio"; // whose radio a road gets that had none
const LIDAR2D_BYTES = 62_632; // in float32

export class ScenarioState {
  constructor({ fields, presets, labels, units }) {
    this.worded = wordsOf(labels);
    this.units = units;
    this.fields = new Map(fields.map((field) => [field.key, field]));
    this.presets = new Map(Object.entries(presets).map(([name, { tables }]) => [name, flat(tables)]));
    this.listeners = [];
    this.refused = new Set();
    this.mark = () => {}; // what shows which fields are wrong
    this.use("paper");
  }

  /** Calls back on every change. */
  watch(listener) {
    this.listeners.push(listener);
  }

  changed() {
    this.refused = new Set();
    for (const listener of this.listeners) listener();
  }

  /** Values that the server does not take, by the keys with which its sentences begin. */
  refuse(lines) {
    this.refused = new Set(lines.map((line) => line.split(" ", 1)[0]));
    this.mark();
  }

  use(preset) {
    this.preset = preset;
    this.values = new Map(this.presets.get(preset));
  }

  set(key, value) {
    this.values.set(key, value);
    this.changed();
  }

  /** The classes of vehicles; none where all are alike. */
  get fleet() {
    return this.values.get("fleet") ?? [];
  }

  /** The first class added makes two, the second quicker; then each new one takes half of the last one's share. */
  addClass() {
    const quicker = (key) => Number((this.values.get(key) / 2).toPrecision(3));
    const before = this.fleet.length ? this.fleet : [{ name: "class 1", share: 1 }];
    const last = before[before.length - 1];
    const half = last.share / 2;
    const added = {
      name: `class ${before.length + 1}`,
      share: half,
      min_step_s: quicker("compute.min_step_s"),
      extra_step_s: quicker("compute.extra_step_s"),
    };
    this.set("fleet", [...before.slice(0, -1), { ...last, share: half }, added]);
  }

  /** Its share goes to the one before it; a class alone is no fleet. */
  removeClass(place) {
    const share = this.fleet[place].share;
    const left = this.fleet.filter((_, i) => i !== place);
    const heir = Math.max(place - 1, 0);
    const grown = left.map((each, i) => (i === heir ? { ...each, share: each.share + share } : each));
    this.set("fleet", grown.length > 1 ? grown : []);
  }

  /** `value` null: what compute says. */
  setClass(place, key, value) {
    const { [key]: _, ...others } = this.fleet[place];
    const changed = value === null ? others : { ...others, [key]: value };
    this.set("fleet", this.fleet.map((each, i) => (i === place ? changed : each)));
  }

  get hasRadio() {
    return this.values.has("radio.path_loss");
  }

  /** How transfers are given: "seconds", "rates" or "radio". */
  get link() {
    if (this.hasRadio) return "radio";
    return this.values.has(SIZES[0]) ? "rates" : "seconds";
  }

  /** Gives the link another way: in seconds or rates that take as long as before, or as long as in the paper. */
  giveLink(link) {
    if (link === this.link) return;
    const { download_s, upload_s } = this.hasRadio ? { download_s: 1, upload_s: 1 } : conditions(this.tables());
    const size = this.values.get(SIZES[0]) ?? LIDAR2D_BYTES;
    const rate = (transfer_s) => (transfer_s > 0 ? Number(((8 * size) / transfer_s).toPrecision(6)) : 6e6);
    this.#forgetLink();
    if (link === "seconds") this.#give(SECONDS, [download_s, upload_s]);
    else if (link === "rates") this.#give(SIZES, [size, rate(download_s), rate(upload_s)]);
    else this.#giveRadio(size);
    this.changed();
  }

  #give(keys, values) {
    keys.forEach((key, i) => this.values.set(key, values[i]));
  }

  #giveRadio(size) {
    this.values.set(SIZES[0], size);
    for (const [key, value] of this.presets.get(USUAL_RADIO)) if (isOfRadio(key)) this.values.set(key, value);
  }

  #forgetLink() {
    for (const key of [...this.values.keys()]) {
      if (isOfRadio(key) || key.startsWith("link.")) this.values.delete(key);
    }
  }

  /** As TOML has it. */
  tables() {
    const tables = {};
    for (const [key, value] of this.values) {
      const [table, name] = key.split(".");
      if (name === undefined) tables[table] = value;
      else (tables[table] ??= {})[name] = value;
    }
    return tables;
  }

  /** The first value that cannot be computed with, as a sentence; the server knows the other rules. */
  mistake() {
    const found = this.#mistake();
    return found && this.worded(found);
  }

  #mistake() {
    for (const [key, value] of this.values) {
      const rule = this.brokenRule(key, value);
      if (rule) return `${key} must be ${rule}, got ${got(value)}`;
    }
    const ofClasses = this.#mistakeOfClasses();
    if (ofClasses) return ofClasses;
    const [sd, speed] = [this.values.get("traffic.speed_sd_mps"), this.values.get("traffic.speed_mps")];
    return sd > speed ? `traffic.speed_sd_mps must be <= traffic.speed_mps (${speed}), got ${sd}` : null;
  }

  #mistakeOfClasses() {
    for (const [place, each] of this.fleet.entries()) {
      for (const key of CLASS_KEYS) {
        const rule = this.brokenClassRule(place, key);
        if (rule) return `fleet.${place}.${key} must be ${rule}, got ${got(each[key])}`;
      }
    }
    const shares = this.#shares;
    return this.#sharesAddUp ? null : `the shares of fleet must add up to 1, got ${Number(shares.toPrecision(10))}`;
  }

  get #shares() {
    return this.fleet.reduce((sum, { share }) => sum + share, 0);
  }

  get #sharesAddUp() {
    return this.fleet.length === 0 || Math.abs(this.#shares - 1) <= SHARE_ROUNDING;
  }

  /** Of a number of a class; what it does not give is that of `compute`. */
  brokenClassRule(place, key) {
    const value = this.fleet[place]?.[key];
    if (key === "share") return brokenNumberRule(value, SHARE_RULES);
    return value === undefined ? null : this.brokenRule(`compute.${key}`, value);
  }

  /** Whether a field of a class is marked; all shares are if they do not add up. */
  isWrongInClass(place, key) {
    if (this.brokenClassRule(place, key) !== null || this.refused.has(`fleet.${place}.${key}`)) return true;
    return key === "share" && !this.#sharesAddUp;
  }

  /** Whether a value's field is marked. */
  isWrong(key) {
    return this.brokenRule(key, this.values.get(key)) !== null || this.refused.has(key);
  }

  brokenRule(key, value) {
    if (!this.fields.has(key)) return null; // the fleet, which has rules of its own, and what only the server reads
    const { kind, rules, choices } = this.fields.get(key);
    if (kind === "choice") return choices.includes(value) ? null : `one of ${choices.join(", ")}`;
    if (kind === "range") return brokenRangeRule([value].flat());
    return brokenNumberRule(value, rules) ?? (kind === "whole" && !Number.isInteger(value) ? "a whole number" : null);
  }

  // ---- the address --------------------------------------------------------------------------------

  /** What differs from the preset, as parameters of an address. */
  toParameters() {
    const parameters = new URLSearchParams();
    if (this.preset !== "paper") parameters.set("from", this.preset);
    const before = this.presets.get(this.preset);
    for (const [key, value] of this.values) {
      if (JSON.stringify(value) !== JSON.stringify(before.get(key))) parameters.set(key, JSON.stringify(value));
    }
    return parameters;
  }

  /** The reverse; what is not a value of a scenario is left alone. */
  fromParameters(parameters) {
    this.use(this.presets.has(parameters.get("from")) ? parameters.get("from") : "paper");
    const given = [...parameters].filter(([key]) => this.fields.has(key));
    const fleet = parsed(parameters.get("fleet") ?? "null");
    if (Array.isArray(fleet) && fleet.every((each) => each && typeof each === "object")) this.values.set("fleet", fleet);
    const keys = given.map(([key]) => key);
    const link = linkOf(keys) ?? this.link;
    if (link !== this.link) {
      const size = this.values.get(SIZES[0]) ?? LIDAR2D_BYTES;
      this.#forgetLink();
      if (link === "radio") this.#giveRadio(size);
    }
    for (const [key, text] of given) this.values.set(key, parsed(text));
  }
}

function brokenNumberRule(value, rules) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "a number";
  if (rules.gt !== undefined && !(value > rules.gt)) return `> ${rules.gt}`;
  if (rules.ge !== undefined && !(value >= rules.ge)) return `>= ${rules.ge}`;
  if (rules.lt !== undefined && !(value < rules.lt)) return `< ${rules.lt}`;
  if (rules.le !== undefined && !(value <= rules.le)) return `<= ${rules.le}`;
  return null;
}

/** One whole number, or the least and the most. */
function brokenRangeRule(ends) {
  if (!ends.every((end) => Number.isInteger(end) && end > 0)) return "a whole number > 0, or two of them";
  return ends.length > 1 && ends[0] > ends[1] ? "such that the first is not above the second" : null;
}

/** What a person typed, for a sentence: what is no number is NaN here. */
function got(value) {
  const texts = [value].flat().map((each) => (Number.isNaN(each) ? "something else" : (each ?? "nothing")));
  return texts.join(" to ");
}

function isOfRadio(key) {
  return key.startsWith("radio.");
}

/** What the keys of an address say of how transfers are given; undefined if nothing. */
function linkOf(keys) {
  if (keys.some(isOfRadio)) return "radio";
  if (keys.some((key) => RATES.includes(key))) return "rates";
  return keys.some((key) => SECONDS.includes(key)) ? "seconds" : undefined;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

export function flat(tables) {
  return new Map(
    Object.entries(tables).flatMap(([table, values]) =>
      Array.isArray(values)
        ? [[table, values]] // the fleet
        : Object.entries(values).map(([name, value]) => [`${table}.${name}`, value]),
    ),
  );
}
