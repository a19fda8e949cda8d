// A figure on the page: one function draws it, on a canvas to be seen and into an SVG to be saved.

import { save } from "./page.js";

const FONT = "system-ui, sans-serif";

/** The page's colours as they are now, light or dark, or those of an element. */
export function look(of = document.documentElement) {
  const style = getComputedStyle(of);
  const names = ["text", "soft", "line", "page", "note", "accent", "second", "bad", "asphalt"];
  return Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

/** For paper: light, whatever the page is. */
function lightLook() {
  const sheet = document.createElement("div");
  sheet.className = "light";
  document.body.append(sheet);
  const colours = look(sheet);
  sheet.remove();
  return colours;
}

/** Only if it has to be: a canvas that is resized is a new one, and costs as much. */
export function resized(canvas, width, height) {
  if (canvas.width !== width) canvas.width = width;
  if (canvas.height !== height) canvas.height = height;
  return canvas;
}

class CanvasPen {
  constructor(canvas, width, height, scale) {
    resized(canvas, Math.round(width * scale), Math.round(height * scale));
    this.on = canvas.getContext("2d");
    this.on.setTransform(scale, 0, 0, scale, 0, 0);
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
    this.parts = [
      `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}">`,
    ];
    this.clips = 0;
  }

  rect(x, y, width, height, fill) {
    this.parts.push(
      `<rect x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}" fill="${fill}"/>`,
    );
  }

  line(points, { stroke, width = 1.5, dash = [] }) {
    const dashes = dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "";
    this.parts.push(
      `<path d="${path(points)}" fill="none" stroke="${stroke}" stroke-width="${width}" stroke-linejoin="round"${dashes}/>`,
    );
  }

  area(points, fill, opacity = 1) {
    this.parts.push(`<path d="${path(points)}Z" fill="${fill}" fill-opacity="${opacity}"/>`);
  }

  circle(x, y, radius, { fill = "none", stroke = "none", width = 1.5 }) {
    this.parts.push(
      `<circle cx="${round(x)}" cy="${round(y)}" r="${radius}" fill="${fill}" stroke="${stroke}" stroke-width="${width}"/>`,
    );
  }

  text(text, x, y, { fill, size = 12, align = "left", baseline = "alphabetic", turn = 0, halo = null }) {
    const anchor = { left: "start", center: "middle", right: "end" }[align];
    const drop = { alphabetic: 0, middle: 0.35 * size, top: 0.8 * size, bottom: -0.2 * size }[baseline];
    const turned = turn ? ` transform="rotate(${round((180 * turn) / Math.PI)} ${round(x)} ${round(y)})"` : "";
    const edge = halo ? ` stroke="${halo}" stroke-width="3" paint-order="stroke" stroke-linejoin="round"` : "";
    const place = `x="${round(x)}" y="${round(y + drop)}" text-anchor="${anchor}"${turned}`;
    const look = `fill="${fill}" font-family="${FONT}" font-size="${size}"${edge}`;
    this.parts.push(`<text ${place} ${look}>${escaped(text)}</text>`);
  }

  image(picture, x, y, width, height) {
    const box = `x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"`;
    this.parts.push(`<image ${box} preserveAspectRatio="none" href="${picture.toDataURL("image/png")}"/>`);
  }

  within(x, y, width, height, draw) {
    const id = `box${this.clips++}`;
    const box = `x="${round(x)}" y="${round(y)}" width="${round(width)}" height="${round(height)}"`;
    this.parts.push(`<clipPath id="${id}"><rect ${box}/></clipPath>`);
    this.parts.push(`<g clip-path="url(#${id})">`);
    draw();
    this.parts.push("</g>");
  }

  toString() {
    return [...this.parts, "</svg>\n"].join("\n");
  }
}

/** Buttons that save figures by name, as SVG or PNG. */
export function bindSaves(figures) {
  for (const button of document.querySelectorAll("[data-save]")) {
    const { save: which, as } = button.dataset;
    if (!figures[which]) continue;
    const content = () => (as === "svg" ? figures[which].toSvg() : figures[which].toPng());
    button.addEventListener("click", async () => save(`mobfl-${which}.${as}`, await content()));
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
    if (width > 0) this.#on(this.canvas, width, height, window.devicePixelRatio || 1, look());
  }

  #on(canvas, width, height, scale, colours) {
    const pen = new CanvasPen(canvas, width, height, scale);
    pen.rect(0, 0, width, height, colours.page);
    this.draw(pen, width, height, colours);
  }

  toSvg() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    const [pen, colours] = [new SvgPen(width, height), lightLook()];
    pen.rect(0, 0, width, height, colours.page);
    this.draw(pen, width, height, colours);
    return new Blob([pen.toString()], { type: "image/svg+xml" });
  }

  async toPng() {
    const canvas = document.createElement("canvas");
    this.#on(canvas, this.canvas.clientWidth, this.canvas.clientHeight, 3, lightLook());
    return new Promise((done) => canvas.toBlob(done, "image/png"));
  }
}
