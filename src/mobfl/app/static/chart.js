// Drawing with a pen that writes on a canvas or into an SVG: a figure is drawn by one function, seen and saved alike.

/** Colours that differ in lightness too and that the colour-blind can tell apart (Okabe and Ito). */
export const SERIES = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8a6d00", "#7f7f7f"];
export const DASHES = [[], [7, 3], [2, 3], [8, 3, 2, 3], [12, 4], [1, 4], [5, 5], [10, 2, 2, 2, 2, 2]];

const FONT = "system-ui, sans-serif";

/** The page's colours as they are now, light or dark. */
export function look() {
  const style = getComputedStyle(document.documentElement);
  const names = ["text", "soft", "line", "page", "note", "accent", "second", "bad", "asphalt"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

class CanvasPen {
  constructor(canvas, width, height, scale) {
    [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
    this.on = canvas.getContext("2d");
    this.on.scale(scale, scale);
  }

  rect(x, y, width, height, fill) {
    this.on.fillStyle = fill;
    this.on.fillRect(x, y, width, height);
  }

  /** Lines through points, with gaps at null. */
  line(points, { stroke, width = 1.5, dash = [] }) {
    this.#trace(points);
    this.on.strokeStyle = stroke;
    this.on.lineWidth = width;
    this.on.lineJoin = "round";
    this.on.setLineDash(dash);
    this.on.stroke();
  }

  area(points, fill, opacity = 1) {
    this.#trace(points);
    this.on.globalAlpha = opacity;
    this.on.fillStyle = fill;
    this.on.fill();
    this.on.globalAlpha = 1;
  }

  circle(x, y, radius, { fill, stroke, width = 1.5 }) {
    this.on.beginPath();
    this.on.arc(x, y, radius, 0, 2 * Math.PI);
    this.on.setLineDash([]);
    if (fill) Object.assign(this.on, { fillStyle: fill }).fill();
    if (stroke) Object.assign(this.on, { strokeStyle: stroke, lineWidth: width }).stroke();
  }

  text(text, x, y, { fill, size = 12, align = "left", baseline = "alphabetic", turn = 0, halo = null }) {
    this.on.save();
    this.on.translate(x, y);
    this.on.rotate(turn);
    Object.assign(this.on, { font: `${size}px ${FONT}`, textAlign: align, textBaseline: baseline, fillStyle: fill });
    if (halo) {
      Object.assign(this.on, { strokeStyle: halo, lineWidth: 3, lineJoin: "round" });
      this.on.setLineDash([]);
      this.on.strokeText(text, 0, 0);
    }
    this.on.fillText(text, 0, 0);
    this.on.restore();
  }

  image(picture, x, y, width, height) {
    this.on.imageSmoothingEnabled = true;
    this.on.drawImage(picture, x, y, width, height);
  }

  /** Draws only within a box. */
  within(x, y, width, height, draw) {
    this.on.save();
    this.on.beginPath();
    this.on.rect(x, y, width, height);
    this.on.clip();
    draw();
    this.on.restore();
  }

  #trace(points) {
    this.on.beginPath();
    let begun = false;
    for (const point of points) {
      if (point === null) begun = false;
      else if (begun) this.on.lineTo(point[0], point[1]);
      else {
        this.on.moveTo(point[0], point[1]);
        begun = true;
      }
    }
  }
}

class SvgPen {
  constructor(width, height) {
    this.parts = [`<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`];
    this.clips = 0;
  }

  rect(x, y, width, height, fill) {
    this.parts.push(`<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" fill="${fill}"/>`);
  }

  line(points, { stroke, width = 1.5, dash = [] }) {
    const dashes = dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "";
    this.parts.push(`<path d="${path(points)}" fill="none" stroke="${stroke}" stroke-width="${width}" stroke-linejoin="round"${dashes}/>`);
  }

  area(points, fill, opacity = 1) {
    this.parts.push(`<path d="${path(points)}Z" fill="${fill}" fill-opacity="${opacity}"/>`);
  }

  circle(x, y, radius, { fill = "none", stroke = "none", width = 1.5 }) {
    this.parts.push(`<circle cx="${round(x)}" cy="${round(y)}" r="${radius}" fill="${fill}" stroke="${stroke}" stroke-width="${width}"/>`);
  }

  text(text, x, y, { fill, size = 12, align = "left", baseline = "alphabetic", turn = 0, halo = null }) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const drop = { alphabetic: 0, middle: 0.35 * size, top: 0.8 * size, bottom: -0.2 * size }[baseline];
    const turned = turn ? ` transform="rotate(${round((180 * turn) / Math.PI)} ${round(x)} ${round(y)})"` : "";
    const edge = halo ? ` stroke="${halo}" stroke-width="3" paint-order="stroke" stroke-linejoin="round"` : "";
    this.parts.push(
      `<text x="${round(x)}" y="${round(y + drop)}" fill="${fill}" font-family="${FONT}" font-size="${size}" text-anchor="${anchor}"${edge}${turned}>${escaped(text)}</text>`,
    );
  }

  image(picture, x, y, width, height) {
    const box = `x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"`;
    this.parts.push(`<image ${box} preserveAspectRatio="none" href="${picture.toDataURL("image/png")}"/>`);
  }

  within(x, y, width, height, draw) {
    const id = `box${this.clips++}`;
    this.parts.push(`<clipPath id="${id}"><rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"/></clipPath>`);
    this.parts.push(`<g clip-path="url(#${id})">`);
    draw();
    this.parts.push("</g>");
  }

  toString() {
    return [...this.parts, "</svg>\n"].join("\n");
  }
}

const round = (value) => Math.round(100 * value) / 100;
const escaped = (text) => String(text).replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);

function path(points) {
  let begun = false;
  return points
    .map((point) => {
      const letter = point === null ? "" : begun ? "L" : "M";
      begun = point !== null;
      return point === null ? "" : `${letter}${round(point[0])} ${round(point[1])}`;
    })
    .join("");
}

/** A canvas with a function that draws on it: `draw(pen, width, height, colours)`. */
export class Figure {
  constructor(canvas, draw) {
    [this.canvas, this.draw] = [canvas, draw];
  }

  show() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (width > 0) this.#on(this.canvas, width, height, window.devicePixelRatio || 1);
  }

  #on(canvas, width, height, scale) {
    const colours = look();
    const pen = new CanvasPen(canvas, width, height, scale);
    pen.rect(0, 0, width, height, colours.page);
    this.draw(pen, width, height, colours);
  }

  toSvg() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const [pen, colours] = [new SvgPen(width, height), look()];
    pen.rect(0, 0, width, height, colours.page);
    this.draw(pen, width, height, colours);
    return new Blob([pen.toString()], { type: "image/svg+xml" });
  }

  async toPng() {
    const canvas = document.createElement("canvas");
    this.#on(canvas, this.canvas.clientWidth, this.canvas.clientHeight, 3);
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }
}

// ---- axes -----------------------------------------------------------------------------------------

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
export function drawAxes(pen, x, y, { xName, yName, colours, whole = false }) {
  const bottom = Math.max(y.from, y.to);
  const number = (value) => String(Number(value.toPrecision(6))).replace("-", "−");
  for (const value of x.ticks(Math.max(3, Math.abs(x.to - x.from) / 80))) {
    pen.line([[x.at(value), y.from], [x.at(value), y.to]], { stroke: colours.line, width: 0.6 });
    pen.text(number(value), x.at(value), bottom + 15, { fill: colours.soft, align: "center" });
  }
  for (const value of y.ticks(Math.max(3, Math.abs(y.to - y.from) / 45))) {
    if (whole && !Number.isInteger(value)) continue;
    pen.line([[x.from, y.at(value)], [x.to, y.at(value)]], { stroke: colours.line, width: 0.6 });
    pen.text(number(value), x.from - 6, y.at(value), { fill: colours.soft, align: "right", baseline: "middle" });
  }
  pen.text(xName, (x.from + x.to) / 2, bottom + 33, { fill: colours.text, align: "center", size: 13 });
  pen.text(yName, x.from - 44, (y.from + y.to) / 2, { fill: colours.text, align: "center", size: 13, turn: -Math.PI / 2 });
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
