// @ts-check
// When nodes can run. No DOM.
import { operands, takers } from "./columns.js";

/** @typedef {import("./columns.js").Run} Run @typedef {import("./columns.js").Schedule} Schedule */

/** The first step at which each node could run: its operands are there, and its round has begun.
 * @param {Run} run @param {Schedule} s @returns {Int32Array} */
export function readiness(run, s) {
  const { nodes } = run;
  const { batch } = s;
  const out = new Int32Array(nodes.n);
  if (!batch) return out;
  const roundStart = new Int32Array((s.round.at(-1) ?? 0) + 2);
  for (let b = s.round.length - 1; b >= 0; b--) roundStart[s.round[b]] = b;
  for (let v = 0; v < nodes.n; v++) {
    let first = roundStart[s.round[batch[v]]];
    for (let j = nodes.operands[v]; j < nodes.operands[v + 1]; j++) {
      const u = nodes.operand[j];
      if (u >= 0) first = Math.max(first, batch[u] + 1);
    }
    out[v] = first;
  }
  return out;
}

/** How many nodes of each kernel are ready at a step. @param {Run} run @param {Schedule} s @param {Int32Array} ready
 * @param {number} step */
export function readyCounts(run, s, ready, step) {
  const out = new Int32Array(run.kernels.length);
  const { batch } = s;
  if (!batch) return out;
  for (let v = 0; v < run.nodes.n; v++) if (ready[v] <= step && step <= batch[v]) out[run.nodes.kernel[v]]++;
  return out;
}

/** The length of the longest way to each node from what reads no node. @param {Run} run @returns {Int32Array} */
export function levels(run) {
  const out = new Int32Array(run.nodes.n);  // operands are recorded before what reads them
  for (let v = 0; v < run.nodes.n; v++) for (const u of operands(run.nodes, v)) out[v] = Math.max(out[v], out[u] + 1);
  return out;
}

/** Nodes per instance and batch: a sparse matrix, by instance * batches + batch. @param {Run} run @param {Schedule} s */
export function matrix(run, s) {
  const width = s.size.length;
  /** @type {Map<number, number>} */
  const out = new Map();
  const { batch } = s;
  if (!batch) return out;
  for (let v = 0; v < run.nodes.n; v++) {
    for (const i of takers(run.nodes, v)) {
      const key = i * width + batch[v];
      out.set(key, (out.get(key) ?? 0) + 1);
    }
  }
  return out;
}
