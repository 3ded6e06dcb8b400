// @ts-check
// The schedule as bars, and below it, on the same axis, the timeline: rows are instances, cells their nodes.
import { many, thousands } from "./columns.js";
import { byId, colour, count, css, data, derived, hover, linksNow, order, panel, pin, run, schedule, set, state } from "./frame.js";
import { instanceRows, stripPlaces } from "./layout.js";
import { LEFT, barWidth, buildBack, drawBars, fresh } from "./strip.js";

/** @typedef {import("./columns.js").Schedule} Schedule */

const STRIP = 92;  // height of the bars
const ROWS = 170;  // pixels for the rows of instances
const grid = { x: new Float64Array(1), top: 0, tall: 14, ...instanceRows(run, ROWS) };

function showSchedule() {
  if (state.mode !== "run") return;
  const s = schedule();
  const found = linksNow();
  const rows = Math.max(1, Math.ceil(grid.names.length / grid.perRow));
  grid.tall = Math.max(1, Math.min(15, Math.floor(ROWS / rows)));
  const rounds = s.rounds > 1 ? 16 : 0;
  grid.top = STRIP + rounds + 4;
  byId("schedule").style.width = `${100 * state.wide}%`;
  const { g, width } = fresh(byId("schedule"), grid.top + rows * grid.tall + 4);
  const x = stripPlaces(s, LEFT, width - LEFT - 2, state.byTime);
  grid.x = x;
  drawBars(g, s, x, { height: STRIP, lit: found?.batches, upTo: state.step });
  drawNames(g, rows);
  if (rounds) drawRounds(g, s, x, STRIP + 2, rounds);
  drawCells(g, s, x, found);
  drawWaits(g, s, x);
  follow(byId("scroller"), x[Math.min(state.step, count())]);
  if (state.step < count()) {
    g.strokeStyle = css("--accent");
    g.lineWidth = 2;
    g.strokeRect(x[state.step] - 1, 1, Math.max(3, x[state.step + 1] - x[state.step]), grid.top + rows * grid.tall);
  }
}

/** What stands left of the bars and of the rows. @param {CanvasRenderingContext2D} g @param {number} rows */
function drawNames(g, rows) {
  const { top, tall, perRow, names } = grid;
  g.fillStyle = css("--dim");
  g.font = "11px system-ui, sans-serif";
  g.textAlign = "right";
  g.fillText("nodes", LEFT - 6, STRIP - 4);
  const below = Math.max(9, tall - 4);
  const words = rows * tall < 40 ? ["large"] : ["large", "small"];
  if (perRow > 1) words.forEach((word, k) => g.fillText(word, LEFT - 6, top + 10 + k * (rows * tall - 12)));
  else for (let r = 0; r * tall + below <= rows * tall + 4 && r < names.length; r += Math.ceil(13 / tall)) g.fillText(thousands(names[r]), LEFT - 6, top + r * tall + below);
}

/** Scroll sideways, if need be, to what runs now. @param {any} room @param {number} x */
export function follow(room, x) {
  if (state.hover || state.step >= count()) return;
  if (x < room.scrollLeft + 40 || x > room.scrollLeft + room.clientWidth - 60) room.scrollLeft = x - room.clientWidth / 3;
}

/** Names of the rounds, where there is room. @param {CanvasRenderingContext2D} g @param {Schedule} s
 * @param {Float64Array} x @param {number} y @param {number} h */
function drawRounds(g, s, x, y, h) {
  g.textAlign = "center";
  for (let b = 0; b < s.round.length;) {
    let end = b;
    while (end < s.round.length && s.round[end] === s.round[b]) end++;
    const wide = x[end] - x[b];
    g.fillStyle = css(s.round[b] % 2 ? "--faint" : "--band");
    g.fillRect(x[b], y, Math.max(1, wide - 1), h - 2);
    g.fillStyle = css("--dim");
    if (b) g.fillRect(x[b] - 1, y, 1, h - 2);
    g.fillStyle = css("--ink");
    if (wide > 16) g.fillText(wide > 62 ? `round ${s.round[b]}` : String(s.round[b]), x[b] + wide / 2, y + 11);
    b = end;
  }
}

/** @type {{of: any, all: Map<number, {n: number, instances: number, lit: boolean}>}} */
let unlit = { of: null, all: new Map() };

/** Nodes by row and batch: how many, and of how many instances. @param {any} lit */
function rowCells(lit) {
  if (!lit && unlit.of === derived.cells) return unlit.all;
  const width = count();
  /** @type {Map<number, {n: number, instances: number, lit: boolean}>} */
  const out = new Map();
  for (const [key, n] of derived.cells) {
    const i = Math.floor(key / width);
    const b = key % width;
    const at = /** @type {number} */ (grid.rowOf.get(i)) * width + b;
    const on = !lit || ((lit.batches?.has(b) ?? true) && (lit.instances?.has(i) ?? true));
    const cell = out.get(at);
    if (cell) cell.n += n, cell.instances++, cell.lit ||= on;
    else out.set(at, { n, instances: 1, lit: on });
  }
  if (!lit) unlit = { of: derived.cells, all: out };
  return out;
}

/** @param {CanvasRenderingContext2D} g @param {Schedule} s @param {Float64Array} x @param {any} lit */
function drawCells(g, s, x, lit) {
  const { top, tall, perRow } = grid;
  const width = count();
  const all = rowCells(lit);
  let most = 1;
  for (const { n } of all.values()) most = Math.max(most, n);
  g.textAlign = "center";
  const ink = css("--ink");
  for (const [key, cell] of all) {
    const b = key % width;
    const wide = barWidth(x, b, b + 1);
    const y = top + Math.floor(key / width) * tall;
    const strength = perRow > 1 ? cell.instances / perRow : Math.log2(1 + cell.n) / Math.log2(1 + most);
    g.globalAlpha = (cell.lit ? 1 : 0.15) * (0.35 + 0.65 * strength) * (b <= state.step ? 1 : 0.3);
    g.fillStyle = colour(s.kernel[b]);
    g.fillRect(x[b], y, wide, Math.max(1, tall - (tall > 3 ? 1 : 0)));
    if (wide < 14 || tall < 12 || !cell.lit) continue;
    g.fillStyle = strength < 0.55 || b > state.step ? ink : order.indexOf(s.kernel[b]) % 8 ? "#111" : "#fff";
    g.globalAlpha = 1;
    g.fillText(String(cell.n), x[b] + wide / 2, y + tall - 4);
  }
  g.globalAlpha = 1;
}

/** A mark where an instance waits at the end of a round.
 * @param {CanvasRenderingContext2D} g @param {Schedule} s @param {Float64Array} x */
function drawWaits(g, s, x) {
  const last = new Map();
  s.round.forEach((r, b) => last.set(r, b));
  g.fillStyle = css("--ink");
  for (const [round, instance] of data.waits) {
    const b = last.get(round);
    const row = grid.rowOf.get(instance);
    if (b === undefined || row === undefined || x[b + 1] - x[b] < 3) continue;
    g.fillRect(x[b + 1] - 3, grid.top + row * grid.tall, 2.5, Math.max(1, grid.tall - 1));
  }
}

/** Which batch and instance are at a point. @param {MouseEvent} e */
function under(e) {
  const { x, top, tall, perRow, names } = grid;
  let b = -1;
  for (let k = 0; k < count(); k++) if (e.offsetX >= x[k] && e.offsetX < x[k + 1]) b = k;
  const row = Math.floor((e.offsetY - top) / tall);
  return { b, i: row >= 0 ? names[row * perRow] ?? -1 : -1 };
}

/** The strip, the timeline, and the strip of the way back. */
export function buildSchedule() {
  const canvas = byId("schedule");
  canvas.addEventListener("pointermove", (/** @type {MouseEvent} */ e) => {
    const { b, i } = under(e);
    hover(b >= 0 ? "batch" : i >= 0 ? "instance" : "", b >= 0 ? b : i);
  });
  canvas.addEventListener("pointerleave", () => hover("", null));
  canvas.addEventListener("click", (/** @type {MouseEvent} */ e) => {
    const { b, i } = under(e);
    if (i >= 0) set({ instance: i, graph: "instance" });
    if (b >= 0) set({ step: b }), pin("batch", b);
    else if (i >= 0) pin("instance", i);
  });
  panel(["step", "schedule", "pinned", "hover", "wide", "byTime", "mode", "look"], showSchedule);
  panel(["schedule"], () => canvas.setAttribute("aria-label",
    `${many(count(), "batch")} of ${many(grid.names.length, "instance")}; left and right step through them. The table of batches says the same.`));
  buildBack();
}
