// The figures of a plan: g over H and T with the optimum and the feasible border, and g(H, ·) for several H beside v.

import { longestSteps } from "./anytime.js";
import { Axis, DASHES, SERIES, drawAxes, legendPlaces, niceTop, straight } from "./chart.js";
import { resized } from "./figure.js";
import { brief } from "./page.js";
import { fits, forPictures, maxLocalSteps, minDelay, promise } from "./theory.js";

const SHARES = [0.25, 0.5, 0.75, 0.9, 0.97]; // of the best g, for the contour lines
const LABEL_PX = 15; // of a contour line, with the room around it
const CIVIDIS = "00224e 123570 3b496c 575d6d 707173 8a8678 a59c74 c3b369 e1cc55 fee838"
  .split(" ")
  .map((colour) => [0, 2, 4].map((at) => parseInt(colour.slice(at, at + 2), 16)));

export const BOX = { left: 58, right: 74, top: 14, bottom: 44 };

/** Where a plan's figures begin and end: to a little beyond all that matters. */
export function extent(road, best, anytime) {
  const most = Math.min(maxLocalSteps(road), 4 * best.local_steps + 4);
  const round_s = Math.max(2.6 * best.round_s, 1.2 * (anytime?.round_s ?? 0));
  return { steps: Math.max(most, 2), round_s: niceTop(round_s) };
}

export function surfaceAxes(size, { steps, round_s }) {
  return {
    t: new Axis(0, round_s, BOX.left, size.width - BOX.right),
    h: new Axis(1, steps, size.height - BOX.bottom, BOX.top),
  };
}

/** g on a grid; coarser where every value takes a quadrature. */
export function surfaceOf(road, { steps, round_s }) {
  const seen = forPictures(road);
  const [columns, rows] = road.spreads ? [80, 60] : [140, 100];
  const g = new Float64Array(columns * rows);
  for (let row = 0; row < rows; row++) {
    const h = 1 + ((steps - 1) * row) / (rows - 1);
    for (let column = 0; column < columns; column++) {
      const t = (round_s * (column + 0.5)) / columns;
      g[row * columns + column] = t < minDelay(road, h) ? 0 : promise(seen, h, t).objective;
    }
  }
  return { g, columns, rows };
}

/** Draws what `plan.js` knows: the road, its best plan, the grid, and the point that was asked about. */
export function drawSurface({ road, best, grid, reach, asked, symbol }) {
  return (pen, width, height, colours) => {
    const { t, h } = surfaceAxes({ width, height }, reach);
    drawAxes(pen, t, h, { xName: "round length T (s)", yName: "local steps H", colours, wholeY: true });
    pen.within(t.from, h.to, t.to - t.from, h.from - h.to, () => {
      pen.image(coloured(grid, best.objective), t.from, h.to, t.to - t.from, h.from - h.to);
      const contours = SHARES.map((share) => ({ share, points: contour(grid, share * best.objective, t, h) }));
      for (const { share, points } of contours)
        pen.line(points, { stroke: share < 0.5 ? "#ffffff" : "#000000", width: 0.8 });
      drawShares(pen, contours, t.at((best.round_s + reach.round_s) / 2), h.from);
      drawBorder(pen, road, t, h, reach, colours);
    });
    drawScale(pen, width, height, best.objective, symbol, colours);
    if (asked) drawMark(pen, t.at(asked.round_s), h.at(asked.local_steps), colours);
    pen.circle(t.at(best.round_s), h.at(best.local_steps), 6, { fill: "#ffffff", stroke: "#000000", width: 2 });
    const right = t.at(best.round_s) < (t.from + t.to) / 2;
    pen.text(
      `H = ${best.local_steps}, T = ${brief(best.round_s)} s`,
      t.at(best.round_s) + (right ? 11 : -11),
      h.at(best.local_steps),
      {
        fill: "#000000",
        halo: "#ffffff",
        size: 13,
        align: right ? "left" : "right",
        baseline: "middle",
      },
    );
  };
}

const small = document.createElement("canvas"); // used again and again

/** The colours of the grid as a small picture, H upwards. */
function coloured({ g, columns, rows }, most) {
  const canvas = resized(small, columns, rows);
  const on = canvas.getContext("2d");
  const pixels = on.createImageData(columns, rows);
  for (let row = 0; row < rows; row++) {
    for (let column = 0; column < columns; column++) {
      const colour = PALETTE[Math.round(255 * Math.min(Math.max(g[row * columns + column] / most, 0), 1))];
      pixels.data.set(colour, 4 * ((rows - 1 - row) * columns + column));
    }
  }
  on.putImageData(pixels, 0, 0);
  return canvas;
}

function colourOf(share) {
  const place = Math.min(Math.max(share, 0), 1) * (CIVIDIS.length - 1);
  const i = Math.min(Math.floor(place), CIVIDIS.length - 2);
  return CIVIDIS[i].map((low, k) => low + (CIVIDIS[i + 1][k] - low) * (place - i));
}

const PALETTE = Array.from({ length: 256 }, (_, i) => Uint8ClampedArray.of(...colourOf(i / 255), 255));

/** Where g crosses a level, by marching squares: points of short lines with gaps between. */
function contour({ g, columns, rows }, level, t, h) {
  const lines = [];
  const x = (column) => t.from + ((t.to - t.from) * (column + 0.5)) / columns;
  const y = (row) => h.from + ((h.to - h.from) * row) / (rows - 1);
  for (let row = 0; row + 1 < rows; row++) {
    for (let column = 0; column + 1 < columns; column++) {
      const at = row * columns + column;
      const [low, next] = [g[at] >= level, g[at + 1] >= level];
      const [above, across] = [g[at + columns] >= level, g[at + columns + 1] >= level];
      if (low === next && low === above && low === across) continue; // most cells
      const cuts = cutsOf([g[at], g[at + 1], g[at + columns + 1], g[at + columns]], level);
      for (const [i, [right, up]] of cuts.entries()) {
        lines.push([x(column + right), y(row + up)]);
        if (i % 2) lines.push(null);
      }
    }
  }
  return lines;
}

/** What share of the best g a contour line is, where it is lowest near `x`; what would lie over another is left out. */
function drawShares(pen, contours, x, bottom) {
  const taken = [];
  for (const { share, points } of contours.toReversed()) {
    const seen = points.filter((point) => point && point[1] < bottom - LABEL_PX / 2);
    if (!seen.length) continue;
    const nearest = Math.min(...seen.map((point) => Math.abs(point[0] - x)));
    const place = seen
      .filter((point) => Math.abs(point[0] - x) <= nearest + LABEL_PX)
      .reduce((a, b) => (b[1] > a[1] ? b : a));
    if (taken.some((other) => Math.abs(other - place[1]) < LABEL_PX)) continue;
    taken.push(place[1]);
    const style = { fill: "#000000", halo: "#ffffff", size: 11, align: "center", baseline: "middle" };
    pen.text(`${Math.round(100 * share)} %`, place[0], place[1], style);
  }
}

const CORNERS = [0, 1, 1, 0].map((right, k) => [right, Number(k > 1)]); // of a cell, all around

/** Where the sides of a cell with these corners cross the level. */
function cutsOf(values, level) {
  const cuts = [];
  for (let k = 0; k < 4; k++) {
    const [a, b] = [values[k], values[(k + 1) % 4]];
    if (a >= level === b >= level) continue;
    const [from, to] = [CORNERS[k], CORNERS[(k + 1) % 4]];
    const share = (level - a) / (b - a);
    cuts.push([0, 1].map((axis) => from[axis] + share * (to[axis] - from[axis])));
  }
  return cuts;
}

/** T_min(H): to its left no vehicle can upload. */
function drawBorder(pen, road, t, h, { steps }, colours) {
  const border = [
    [t.at(minDelay(road, 1)), h.at(1)],
    [t.at(minDelay(road, steps)), h.at(steps)],
  ];
  pen.area([...border, [t.from, h.at(steps)], [t.from, h.at(1)]], colours.note);
  pen.line(border, { stroke: colours.text, width: 1.6, dash: [6, 4] });
  pen.text("T too short for H steps", t.from + 10, h.to + 18, { fill: colours.text, size: 12, halo: colours.note });
}

function drawScale(pen, width, height, most, symbol, colours) {
  const [x, top, bottom] = [width - BOX.right + 14, BOX.top, height - BOX.bottom];
  const axis = new Axis(0, most, bottom, top);
  for (let k = 0; k < 50; k++) {
    const [from, to] = [axis.at((most * k) / 50), axis.at((most * (k + 1)) / 50)];
    const [red, green, blue] = colourOf((k + 0.5) / 50).map(Math.round);
    pen.rect(x, to, 12, from - to + 0.5, `rgb(${red} ${green} ${blue})`);
  }
  for (const value of axis.ticks(5))
    pen.text(brief(value, 3), x + 16, axis.at(value), { fill: colours.soft, baseline: "middle", size: 11 });
  pen.text(`${symbol} (1/s)`, x + 56, (top + bottom) / 2, { fill: colours.text, align: "center", turn: -Math.PI / 2 });
}

function drawMark(pen, x, y, colours) {
  for (const [stroke, width] of [
    [colours.page, 5],
    [colours.bad, 2.4],
  ]) {
    pen.line([[x - 8, y], [x + 8, y], null, [x, y - 8], [x, y + 8]], { stroke, width });
  }
}

// ---- g(H, ·) --------------------------------------------------------------------------------------

/** Up to five numbers of local steps around the best. */
export function comparedSteps(road, best) {
  const most = maxLocalSteps(road);
  const steps = [0.25, 0.5, 1, 1.6, 2.4].map((factor) => Math.min(Math.max(1, Math.round(best * factor)), most));
  return [...new Set(steps)].sort((a, b) => a - b);
}

export function drawCurves(shown) {
  const { best, anytime, reach, asked, symbol } = shown;
  return (pen, width, height, colours) => {
    const t = new Axis(0, reach.round_s, BOX.left, width - 20);
    const series = seriesOf(shown, colours);
    const names = [...series.map(({ name }) => name), ...(anytime ? ["an average of it"] : [])];
    const legend = legendPlaces(names, t.from, t.to);
    const most = Math.max(best.objective, anytime?.objective ?? 0);
    const g = new Axis(0, niceTop(1.12 * most), height - BOX.bottom, legend.at(-1).y + 16);
    drawAxes(pen, t, g, { xName: "round length T (s)", yName: `${symbol}${anytime ? " and v" : ""} (1/s)`, colours });
    pen.within(t.from, g.to - 2, t.to - t.from, g.from - g.to + 4, () => {
      for (const { points, stroke } of series) pen.line(points(t, g), stroke);
    });
    for (const [i, { text, x, y }] of legend.entries()) {
      if (series[i]) straight(pen, x, y, x + 24, y, series[i].stroke);
      else drawAverage(pen, x + 12, y, colours);
      pen.text(text, x + 28, y, { fill: colours.text, baseline: "middle" });
    }
    for (const plan of anytime ? [best, anytime] : [best])
      pen.circle(t.at(plan.round_s), g.at(plan.objective), 5, { fill: colours.text });
    if (anytime) drawAverage(pen, t.at(anytime.round_s), g.at(anytime.averaged_objective), colours);
    if (asked) drawMark(pen, t.at(asked.round_s), g.at(asked.objective), colours);
  };
}

/** The curves with their names: g(H, ·) of every H, and v behind them. */
function seriesOf({ road, best, anytime, knows, compared, asked }, colours) {
  const seen = forPictures(road);
  const steps = asked && !compared.includes(asked.local_steps) ? [...compared, asked.local_steps] : compared;
  const series = steps.map((h, i) => ({
    name: `H = ${h}`,
    stroke: strokeOf(h, i, best),
    points: (t, g) => curve(road, seen, h, t, g),
  }));
  const points = (t, v) => anytimeCurve(seen, knows, t, v);
  if (anytime) series.push({ name: "anytime, v", stroke: { stroke: colours.text, width: 3.4 }, points });
  return series;
}

function drawAverage(pen, x, y, colours) {
  pen.circle(x, y, 5, { fill: colours.page, stroke: colours.text, width: 2 });
}

/** v(T), which is nothing until one step fits. */
function anytimeCurve(seen, knows, t, v) {
  const least = minDelay(seen, 1);
  const points = [0, Math.min(least, t.high)].map((round_s) => [t.at(round_s), v.at(0)]);
  const count = seen.spreads ? 100 : 240;
  for (let k = 1; k <= count; k++) {
    const round_s = least + ((t.high - least) * k) / count;
    if (round_s > least) points.push([t.at(round_s), v.at(longestSteps(seen, round_s, knows) / round_s)]);
  }
  return points;
}

/** The best H is the line that is drawn through. */
function strokeOf(h, i, best) {
  const isBest = h === best.local_steps;
  return {
    stroke: SERIES[i % SERIES.length],
    width: isBest ? 2.6 : 1.6,
    dash: isBest ? [] : DASHES[1 + (i % (DASHES.length - 1))],
  };
}

function curve(road, seen, h, t, g) {
  const least = minDelay(road, h);
  const points = [0, fits(road, h) ? least : t.high].map((round_s) => [t.at(round_s), g.at(0)]);
  if (!fits(road, h)) return points;
  const count = road.spreads ? 120 : 240;
  for (let k = 1; k <= count; k++) {
    const round_s = least + ((t.high - least) * k * k) / (count * count); // closer together where g rises
    if (round_s > least) points.push([t.at(round_s), g.at(promise(seen, h, round_s).objective)]);
  }
  return points;
}
