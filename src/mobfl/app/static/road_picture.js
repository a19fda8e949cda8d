// The pictures of a road: the section from above at one moment, and the mean of its uploads as rounds pass.

import { Axis, drawAxes, niceTop, straight } from "./chart.js";
import { brief, element } from "./page.js";

/** A colour and a sign each: Okabe and Ito's colours, and the signs do without them. */
const STAGES = {
  download: { colour: "#56b4e9", sign: "↓", meaning: "downloads" },
  train: { colour: "#e69f00", sign: "H", meaning: "trains" },
  upload: { colour: "#0072b2", sign: "↑", meaning: "uploads" },
  done: { colour: "#009e73", sign: "✓", meaning: "has uploaded" },
  failed: { colour: "#d55e00", sign: "×", meaning: "was too late", edge: 3 },
};
/** Only where transfers share a radio. */
const ON_RADIO = {
  wait: { colour: "#f0e442", sign: "…", meaning: "waits to send" },
  radio: { colour: "#cc79a7", sign: "!", meaning: "was too late by the radio: its steps were in time", edge: 3 },
};
const LABEL_PX = 34;
const LANES = 3;
const MOST_POINTS = 600; // of a curve

/** A sign each; below a vehicle on a radio is its rate. */
export function stageLegend(onRadio) {
  const stages = onRadio ? { ...STAGES, failed: { ...STAGES.failed, meaning: "was too late by the clock" }, ...ON_RADIO } : STAGES;
  const entries = Object.values(stages).map(({ colour, sign, meaning }) => {
    const swatch = element("span", { className: "swatch" });
    swatch.style.background = colour;
    return element("span", {}, swatch, ` ${sign} ${meaning}`);
  });
  const rates = element("span", { id: "rates-legend" }, "Below who sends: its rate now, below who downloads: its mean rate, in Mbit/s");
  return onRadio ? [...entries, rates] : entries;
}

export function drawSection(pen, width, height, colours, { length_m, station, now_s, round, share, vehicles }) {
  const [top, bottom] = [0.42 * height, 0.9 * height];
  const x = new Axis(0, 1, 30, width - 60);
  const lane = (number) => top + ((bottom - top) * number) / LANES;
  pen.rect(0, top, width, bottom - top, colours.asphalt);
  for (let k = 1; k < LANES; k++)
    straight(pen, 0, lane(k), width, lane(k), { stroke: colours.soft, width: 1, dash: [14, 12] });
  for (const end of [0, 1]) straight(pen, x.at(end), top - 8, x.at(end), bottom + 4, { stroke: colours.text });
  pen.text(`${brief(length_m)} m`, x.at(0.5), height - 2, { fill: colours.soft, align: "center" });
  drawStation(pen, x.at(station), top, colours);
  if (share !== null) drawClock(pen, 34, 34, round, share, colours);
  const labels = [];
  for (const [row, stage, bps] of vehicles) {
    const along = (now_s - row.enter_s) / (row.leave_s - row.enter_s);
    const place = { x: x.at(along), y: lane((row.vehicle % LANES) + 0.5) };
    drawVehicle(pen, place.x, place.y, STAGES[stage] ?? ON_RADIO[stage], colours.text);
    if (bps !== null) labels.push({ ...place, text: brief(bps / 1e6, 2) });
  }
  drawRates(pen, labels, colours);
}

/** Those that would lie over another are left out. */
function drawRates(pen, labels, colours) {
  const drawn = [];
  for (const { x, y, text } of labels) {
    if (drawn.some((other) => other.y === y && Math.abs(other.x - x) < LABEL_PX)) continue;
    pen.text(text, x, y + 20, { fill: colours.text, align: "center", size: 11, halo: colours.asphalt });
    drawn.push({ x, y });
  }
}

function drawStation(pen, x, top, colours) {
  const mast = [[x, top - 2], [x, top - 30], null, [x - 6, top - 2], [x, top - 16], [x + 6, top - 2]];
  pen.line(mast, { stroke: colours.text, width: 2 });
  for (const radius of [6, 12]) {
    const place = (side, angle) => [x + side * radius * Math.cos(angle), top - 32 + radius * Math.sin(angle)];
    const arc = (side) => Array.from({ length: 9 }, (_, i) => place(side, (i - 4) / 5));
    pen.line([...arc(1), null, ...arc(-1)], { stroke: colours.accent, width: 2 });
  }
}

function drawClock(pen, x, y, round, share, colours) {
  const place = (angle) => [x + 24 * Math.sin(angle), y - 24 * Math.cos(angle)];
  const rim = Array.from({ length: 61 }, (_, i) => place((2 * Math.PI * Math.min(Math.max(share, 0), 1) * i) / 60));
  pen.circle(x, y, 24, { stroke: colours.line, width: 5 });
  pen.line(rim, { stroke: colours.accent, width: 5 });
  pen.text(String(round), x, y + 1, { fill: colours.text, align: "center", baseline: "middle", size: 14 });
}

function drawVehicle(pen, x, y, { colour, sign, edge = 0 }, rim) {
  pen.rect(x - 15 - edge, y - 8 - edge, 30 + 2 * edge, 16 + 2 * edge, rim);
  pen.rect(x - 15, y - 8, 30, 16, colour);
  pen.rect(x + 8, y - 6, 4, 12, "#ffffff99"); // the windscreen: it drives to the right
  pen.text(sign, x - 3, y + 1, { fill: "#000000", align: "center", baseline: "middle", size: 13 });
}

/** The mean over the first n rounds for every n, with Λ and the band around it. */
export function drawConvergence(pen, width, height, colours, means, expected) {
  const top = niceTop(1.3 * Math.max(expected?.uploads ?? 0, ...means.slice(10, 400), 0.1));
  const n = new Axis(0, niceTop(Math.max(means.length, 20)), 58, width - 20);
  const y = new Axis(0, top, height - 44, 14);
  drawAxes(pen, n, y, { xName: "rounds", yName: "uploads per round", colours });
  if (!expected) return;
  pen.within(n.from, y.to, n.to - n.from, y.from - y.to, () => {
    drawBand(pen, n, y, expected, colours);
    const every = Math.max(1, Math.ceil(means.length / MOST_POINTS));
    const points = means.map((mean, i) => [n.at(i + 1), y.at(mean)]);
    const shown = points.filter((_, i) => i % every === 0 || i === points.length - 1);
    pen.line(shown, { stroke: colours.second, width: 2 });
  });
  const style = { fill: colours.text, align: "right", halo: colours.page };
  pen.text(`Λ = ${brief(expected.uploads)}`, n.to - 4, y.at(expected.uploads) - 6, style);
}

function drawBand(pen, n, y, { uploads, reach }, colours) {
  straight(pen, n.from, y.at(uploads), n.to, y.at(uploads), { stroke: colours.accent, dash: [6, 4] });
  if (reach === null) return; // too few rounds to tell
  const rounds = Array.from({ length: 81 }, (_, i) => n.high ** (i / 80));
  const edge = (side) => rounds.map((k) => [n.at(k), y.at(uploads + (side * reach) / Math.sqrt(k))]);
  pen.area([...edge(1), ...edge(-1).reverse()], colours.accent, 0.16);
}
