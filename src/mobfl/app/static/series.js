// What is drawn of runs: each by itself, or all seeds of a plan as their mean with a band from the least to the most.

import { brief, seconds } from "./page.js";

const MOST_TIMES = 400; // of a mean: more than a screen can tell apart

/** A plan as a person reads it; MOB-FL's own is marked. */
export function planOf({ label, plan, policy, local_steps, round_s, own }) {
  const numbers = policy === "rounds" ? `H = ${local_steps}, T = ${seconds(round_s)}` : plan;
  const named = label && label !== plan && !/^[\d.,\s]+$/.test(label) ? `${label}: ` : "";
  return `${named}${numbers ?? "?"}${own ? " (MOB-FL’s)" : ""}`;
}

/** What rows are shown as: by plan, the seeds of one together, or each run. Those that cannot be read stand alone. */
export function itemsOf(rows, byPlan) {
  const items = new Map();
  for (const row of rows) {
    const id = byPlan && row.group ? row.group : row.run;
    if (!items.has(id)) items.set(id, { id, rows: [], single: !byPlan || !row.group });
    items.get(id).rows.push(row);
  }
  return items;
}

/** For legends: the plan, its seed or how many there are, and whatever else differs between those that are shown. */
export function legendOf(item, shown) {
  const differs = (key) => new Set(shown.map(({ rows }) => rows[0][key])).size > 1;
  const more = ["task", "study", "rule", "local", "codec"].filter((key) => differs(key) && item.rows[0][key]);
  const seeds = item.rows.length > 1 ? `${item.rows.length} seeds` : `seed ${item.rows[0].seed}`;
  return [planOf(item.rows[0]), ...more.map((key) => item.rows[0][key]), seeds].join(", ");
}

export function better(row, column) {
  return column !== "loss" && row.kpis?.[column]?.more_is_better !== false ? -1 : 1;
}

/** What an item reached: the mean over its runs; null if none has come so far. */
export function reachedBy(item, column) {
  const values = item.rows.map((row) => reached(row, column)).filter((value) => value !== null && value !== undefined);
  return values.length ? values.reduce((a, b) => a + b, 0) / values.length : null;
}

export function reached(row, column) {
  return column === "loss" ? row.min_loss : row.kpis?.[column]?.best;
}

/** Points `[time_s, value, least, most]` of an item from its runs' curves; none before all of them are there. */
export function pointsOf(curves, values, window) {
  if (!curves.length || curves.some((curve) => !curve)) return [];
  const smoothed = curves.map((curve) => ({ time_s: curve.time_s, values: smooth(curve[values], window) }));
  return smoothed.length === 1 ? alone(smoothed[0]) : meanOf(smoothed);
}

function alone({ time_s, values }) {
  return time_s.map((time, i) => [time, values[i], values[i], values[i]]).filter(([, value]) => value !== null);
}

/** For as long as all of them last. */
function meanOf(curves) {
  const last = Math.min(...curves.map(({ time_s }) => time_s.at(-1)));
  const longest = curves.reduce((a, b) => (b.time_s.length > a.time_s.length ? b : a));
  const within = longest.time_s.filter((time) => time <= last);
  const every = Math.max(1, Math.ceil(within.length / MOST_TIMES));
  const times = within.filter((_, i) => i % every === 0 || i === within.length - 1);
  const walks = curves.map(walk);
  return times.flatMap((time) => {
    const found = walks.map((at) => at(time));
    if (found.some((value) => value === null)) return [];
    const mean = found.reduce((a, b) => a + b, 0) / found.length;
    return [[time, mean, Math.min(...found), Math.max(...found)]];
  });
}

/** The value that holds at a time; times are asked in their order. */
function walk({ time_s, values }) {
  let place = 0;
  return (time) => {
    while (place + 1 < time_s.length && time_s[place + 1] <= time) place++;
    return values[place];
  };
}

/** The mean over so many values around each; what is missing stays missing. */
function smooth(values, window) {
  if (window <= 1) return values;
  const half = Math.floor(window / 2);
  return values.map((value, i) => {
    if (value === null) return null;
    const near = values.slice(Math.max(0, i - half), i + half + 1).filter((each) => each !== null);
    return near.reduce((a, b) => a + b, 0) / near.length;
  });
}

/** As a table for other programs; names in quotes. */
export function csvOf(series, column) {
  const quoted = (text) => `"${String(text).replaceAll('"', '""')}"`;
  const lines = series.flatMap(({ name, item, points }) =>
    points.map((point) => [quoted(name), quoted(item.rows.map(({ run }) => run).join(" ")), ...point].join(",")),
  );
  return [`series,runs,time_s,${column},least,most`, ...lines, ""].join("\n");
}

export const sentenceOf = (name, [time_s, value, least, most]) =>
  `${name}: ${brief(value, 5)}${least === most ? "" : ` (${brief(least, 4)} to ${brief(most, 4)})`} after ${seconds(time_s)}`;
