// What charts are made of: series, axes, legends. They are drawn with the pens of figure.js.

/** Colours that differ in lightness too and that the colour-blind can tell apart (Okabe and Ito). */
export const SERIES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d00", "#7f7f7f"];
export const DASHES = [[], [7, 3], [2, 3], [8, 3, 2, 3], [12, 4], [1, 4], [5, 5], [10, 2, 2, 2, 2, 2]];

export function straight(pen, x0, y0, x1, y1, style) {
  const from = [x0, y0];
  const to = [x1, y1];
  pen.line([from, to], style);
}

/** From values to places and back. */
export class Axis {
  constructor(low, high, from, to) {
    Object.assign(this, { low, high, from, to });
  }

  at(value) {
    return this.from + ((value - this.low) / (this.high - this.low)) * (this.to - this.from);
  }

  value(place) {
    return this.low + ((place - this.from) / (this.to - this.from)) * (this.high - this.low);
  }

  /** Round numbers within, about so many. */
  ticks(about = 6) {
    const step = niceStep((this.high - this.low) / about);
    const first = Math.ceil(this.low / step - 1e-9);
    const count = Math.floor(this.high / step + 1e-9) - first + 1;
    return Array.from({ length: Math.max(count, 0) }, (_, i) => Number(((first + i) * step).toPrecision(12)));
  }
}

export function niceStep(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 2.5, 5, 10].find((each) => each * power >= least * (1 - 1e-9)) * power;
}

/** The next number that reads well and is not below: axes that do not tremble while a slider moves. */
export function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.25, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10].find((each) => each * power >= value * (1 - 1e-9)) * power;
}

/** Grid, numbers and names of two axes. */
export function drawAxes(pen, x, y, { xName, yName, colours, wholeX = false, wholeY = false }) {
  const bottom = Math.max(y.from, y.to);
  const number = (value) => String(Number(value.toPrecision(6))).replace("-", "−");
  for (const value of x.ticks(Math.max(3, Math.abs(x.to - x.from) / 80))) {
    if (wholeX && !Number.isInteger(value)) continue;
    straight(pen, x.at(value), y.from, x.at(value), y.to, { stroke: colours.line, width: 0.6 });
    pen.text(number(value), x.at(value), bottom + 15, { fill: colours.soft, align: "center" });
  }
  for (const value of y.ticks(Math.max(3, Math.abs(y.to - y.from) / 45))) {
    if (wholeY && !Number.isInteger(value)) continue;
    straight(pen, x.from, y.at(value), x.to, y.at(value), { stroke: colours.line, width: 0.6 });
    pen.text(number(value), x.from - 6, y.at(value), { fill: colours.soft, align: "right", baseline: "middle" });
  }
  pen.text(xName, (x.from + x.to) / 2, bottom + 33, { fill: colours.text, align: "center", size: 13 });
  pen.text(yName, x.from - 44, (y.from + y.to) / 2, {
    fill: colours.text,
    align: "center",
    size: 13,
    turn: -Math.PI / 2,
  });
}

/** Where the entries of a legend stand: from left to right with room for a sign each, in as many lines as it takes. */
export function legendPlaces(texts, from, to) {
  let [x, y] = [from + 4, 14];
  return texts.map((text) => {
    const wide = 38 + 7.2 * text.length;
    if (x + wide > to && x > from + 4) [x, y] = [from + 4, y + 17];
    const place = { text, x, y };
    x += wide;
    return place;
  });
}
