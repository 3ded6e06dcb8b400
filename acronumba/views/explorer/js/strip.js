// @ts-check
// Strips of bars on a canvas: a bar is a batch, its height the number of its nodes, its colour the kernel.
import { compact, many, thousands } from "./columns.js";
import { again, byId, colour, css, data, kernels, make, panel, state } from "./frame.js";
import { stripPlaces } from "./layout.js";

/** @typedef {import("./columns.js").Schedule} Schedule */

export const LEFT = 42;  // pixels for words
export const HEIGHT = 74;  // of a strip alone

/** A canvas as wide as its place, sharp on any screen. @param {HTMLCanvasElement} canvas @param {number} height */
export function fresh(canvas, height) {
  const width = canvas.clientWidth || canvas.parentElement?.clientWidth || 600;
  const scale = window.devicePixelRatio || 1;
  canvas.width = width * scale;
  canvas.height = height * scale;
  canvas.style.height = `${height}px`;
  const g = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  g.scale(scale, scale);
  return { g, width };
}

/** Draw the sizes of batches as bars. @param {CanvasRenderingContext2D} g @param {Schedule} s
 * @param {Float64Array} x @param {{height: number, lit?: Set<number> | null, upTo?: number}} how */
export function drawBars(g, s, x, { height, lit = null, upTo = Infinity }) {
  const most = s.size.reduce((a, b) => Math.max(a, b), 1);
  const ink = css("--ink");
  g.font = "11px system-ui, sans-serif";
  g.textAlign = "center";
  for (let b = 0; b < s.size.length;) {
    let end = b + 1;  // batches that share a pixel are one bar, as high as the highest
    while (end < s.size.length && x[end] - x[b] < 1) end++;
    let top = b;
    for (let c = b; c < end; c++) if (s.size[c] > s.size[top]) top = c;
    const tall = Math.max(2, (s.size[top] / most) * (height - 20));
    const wide = barWidth(x, b, end);
    const y = height - 1 - tall;
    g.globalAlpha = !lit || anyOf(lit, b, end) ? (b <= upTo ? 1 : 0.35) : 0.18;
    g.fillStyle = colour(s.kernel[top]);
    g.fillRect(x[b], y, wide, tall);
    if (again(s.kernel[top])) hatch(g, x[b], y, wide, tall);
    const label = [thousands(s.size[top]), compact(s.size[top])].find((t) => g.measureText(t).width <= wide - 1);
    if (label) {
      g.fillStyle = ink;
      g.fillText(label, x[b] + wide / 2, y - 4);
    }
    b = end;
  }
  g.globalAlpha = 1;
}

/** @param {Float64Array} x @param {number} from @param {number} to */
export const barWidth = (x, from, to) => Math.max(1, x[to] - x[from] - (x[to] - x[from] > 4 ? 2 : 0));

/** @param {Set<number>} of @param {number} from @param {number} to */
function anyOf(of, from, to) {
  for (let k = from; k < to; k++) if (of.has(k)) return true;
  return false;
}

/** Stripes, for the second turn of the colours.
 * @param {CanvasRenderingContext2D} g @param {number} x @param {number} y @param {number} w @param {number} h */
function hatch(g, x, y, w, h) {
  g.save();
  g.beginPath();
  g.rect(x, y, w, h);
  g.clip();
  g.strokeStyle = "#ffffffaa";
  g.lineWidth = 2;
  for (let k = -h; k < w; k += 6) g.beginPath(), g.moveTo(x + k, y + h), g.lineTo(x + k + h, y), g.stroke();
  g.restore();
}

/** Of gradients: the batches of the way back, in the colours of the kernels that they go back through. */
export function buildBack() {
  byId("backroom").hidden = !data.back.length;
  if (!data.back.length) return;
  const of = new Map(kernels.map(({ name }, k) => [`${name}_back`, k]));
  const strip = /** @type {any} */ ({ size: Int32Array.from(data.back, (/** @type {any} */ b) => b[2]), nanoseconds: new Int32Array(data.back.length) });
  strip.kernel = Int32Array.from(data.back, (/** @type {any} */ b) => of.get(b[0]) ?? -1);
  const added = data.back.filter((/** @type {any} */ b) => b[1] !== "nodes").length;
  byId("backwords").textContent = `Backward pass: ${many(data.back.length, "batch")}, of which ${thousands(added)} add up adjoints and gradients (grey).`;
  const canvas = make("canvas", { role: "img", "aria-label": byId("backwords").textContent });
  byId("backroom").append(canvas);
  panel(["mode", "look"], () => {
    if (state.mode !== "run") return;
    const { g, width } = fresh(canvas, 60);
    drawBars(g, strip, stripPlaces(strip, LEFT, width - LEFT - 2, false), { height: 60 });
  });
}
