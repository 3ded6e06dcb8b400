// @ts-check
// Where things stand in drawings. No DOM.
import { operands, users } from "./columns.js";

/** @typedef {import("./columns.js").Run} Run @typedef {import("./columns.js").Schedule} Schedule */

/** Places of nodes: a column for each batch that they are in; rows such that operands lie beside what reads them.
 * @param {Run} run @param {Int32Array} batch @param {number[]} shown
 * @returns {{x: Map<number, number>, y: Map<number, number>, columns: number[], height: number}} */
export function placeGraph(run, batch, shown) {
  const columns = [...new Set(shown.map((v) => batch[v]))].sort((a, b) => a - b);
  const at = new Map(columns.map((b, k) => [b, k]));
  const x = new Map(shown.map((v) => [v, /** @type {number} */ (at.get(batch[v]))]));
  const y = rows(run, shown);
  /** @type {number[][]} */
  const stacks = columns.map(() => []);
  for (const v of shown) stacks[/** @type {number} */ (x.get(v))].push(v);
  for (const stack of stacks) spread(stack, y);
  const top = Math.min(...y.values());
  for (const [v, row] of y) y.set(v, row - top);
  return { x, y, columns, height: shown.length ? Math.max(...y.values()) + 1 : 0 };
}

/** A row for each node: those that read nothing one below the other, others in the middle of what they read.
 * @param {Run} run @param {number[]} shown */
function rows(run, shown) {
  const { nodes } = run;
  const mine = new Set(shown);
  /** @type {Map<number, number>} */
  const y = new Map();
  let next = 0;
  for (const root of shown.filter((v) => !users(nodes, v).some((u) => mine.has(u)))) {
    /** @type {[number, number[]][]} */
    const stack = [[root, operands(nodes, root).filter((u) => mine.has(u))]];  // depth first; chains are long
    while (stack.length) {
      const [v, left] = stack[stack.length - 1];
      const u = left.pop();
      if (u !== undefined) {
        if (!y.has(u)) stack.push([u, operands(nodes, u).filter((w) => mine.has(w))]);
        continue;
      }
      const given = operands(nodes, v).filter((w) => mine.has(w));
      if (!y.has(v)) y.set(v, given.length ? given.reduce((sum, w) => sum + (y.get(w) ?? 0), 0) / given.length : next++);
      stack.pop();
    }
  }
  return y;
}

/** Push the nodes of a column apart, to a distance of at least 1, moving them as little as possible together.
 * @param {number[]} column @param {Map<number, number>} y */
function spread(column, y) {
  const get = (/** @type {number} */ v) => /** @type {number} */ (y.get(v));
  column.sort((a, b) => get(a) - get(b) || a - b);
  /** @type {{first: number, count: number, sum: number}[]} */
  const blocks = [];  // neighbours that touch; `sum` of the places that their first node would have alone
  column.forEach((v, k) => {
    let block = { first: k, count: 1, sum: get(v) };
    for (let last = blocks.at(-1); last && last.sum / last.count + last.count > block.sum / block.count; last = blocks.at(-1)) {
      blocks.pop();
      block = { first: last.first, count: last.count + block.count, sum: last.sum + block.sum - last.count * block.count };
    }
    blocks.push(block);
  });
  for (const { first, count, sum } of blocks) {
    for (let k = 0; k < count; k++) y.set(column[first + k], sum / count + k);
  }
}

/** Edges between batches, with how many values go along each. @param {Run} run @param {Schedule} s */
export function batchEdges(run, s) {
  const batch = /** @type {Int32Array} */ (s.batch);
  const width = s.size.length;
  /** @type {Map<number, number>} */
  const found = new Map();
  for (let v = 0; v < run.nodes.n; v++) {
    for (const u of operands(run.nodes, v)) {
      const key = batch[u] * width + batch[v];
      found.set(key, (found.get(key) ?? 0) + 1);
    }
  }
  return [...found].map(([key, count]) => ({ from: Math.floor(key / width), to: key % width, count }));
}

/** Where batches begin and end in a strip: equally wide, or as wide as their times.
 * @param {Schedule} s @param {number} left @param {number} width @param {boolean} byTime @param {number} [most] */
export function stripPlaces(s, left, width, byTime, most = s.size.length) {
  const n = s.size.length;
  const out = new Float64Array(n + 1).fill(left);
  const total = s.nanoseconds.reduce((a, b) => a + b, 0);
  const pitch = Math.min(56, width / Math.max(1, most));
  for (let b = 0; b < n; b++) out[b + 1] = out[b] + (byTime && total ? (s.nanoseconds[b] / total) * width : pitch);
  return out;
}

/** Rows of instances: one each, or, of many, several in a row, sorted by size. @param {Run} run @param {number} most */
export function instanceRows(run, most) {
  const names = [...run.nodes.byInstance.keys()].sort((a, b) => a - b);
  const perRow = Math.max(1, Math.ceil(names.length / most));
  const size = (/** @type {number} */ i) => run.nodes.byInstance.get(i)?.length ?? 0;
  if (perRow > 1) names.sort((a, b) => size(b) - size(a) || a - b);
  return { names, perRow, rowOf: new Map(names.map((i, k) => [i, Math.floor(k / perRow)])) };
}
