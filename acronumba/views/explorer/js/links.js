// @ts-check
// What belongs together: lines of source, kernels, batches, nodes, instances. Every panel shows a selection by this.
// No DOM.
import { takers } from "./columns.js";

/** @typedef {import("./columns.js").Run} Run @typedef {import("./columns.js").Schedule} Schedule */
/**
 * @typedef {{kind: "line" | "kernel" | "batch" | "node" | "instance", value: any}} Selection
 * @typedef {{kernels: Set<number> | null, lines: Set<string>, batches: Set<number> | null, nodes: Set<number> | null,
 *   instances: Set<number> | null, before: Set<number>, after: Set<number>}} Links
 */

/** All nodes that lead to a node, and all that it leads to. @param {Run} run @param {number} node */
export function cone(run, node) {
  /** @param {Int32Array} start @param {Int32Array} list @returns {Set<number>} */
  const reach = (start, list) => {
    const seen = new Set();
    const stack = [node];
    while (stack.length) {
      const v = /** @type {number} */ (stack.pop());
      for (let j = start[v]; j < start[v + 1]; j++) {
        if (list[j] >= 0 && !seen.has(list[j])) stack.push(list[j]), seen.add(list[j]);
      }
    }
    return seen;
  };
  return { before: reach(run.nodes.operands, run.nodes.operand), after: reach(run.nodes.users, run.nodes.user) };
}

/** What belongs to a selection, everywhere. @param {Run} run @param {Schedule} s @param {Selection | null} selection
 * @returns {Links | null} */
export function links(run, s, selection) {
  if (!selection) return null;
  const { kind, value } = selection;
  const out = begun(run, s, kind, value);
  if (out.kernels && kind !== "line") {
    for (const k of out.kernels) for (const line of run.kernelLines[k]) out.lines.add(line);
  }
  const { kernels } = out;
  if (!out.batches && kernels) out.batches = where(s.kernel.length, (b) => kernels.has(s.kernel[b]));
  if (!out.nodes && kernels) out.nodes = where(run.nodes.n, (v) => kernels.has(run.nodes.kernel[v]));
  if (!out.instances && out.nodes) out.instances = new Set([...out.nodes].flatMap((v) => [...takers(run.nodes, v)]));
  return out;
}

/** What a selection says itself. @param {Run} run @param {Schedule} s @param {string} kind @param {any} value
 * @returns {Links} */
function begun(run, s, kind, value) {
  const { nodes } = run;
  const { batch } = s;
  /** @type {Links} */
  const out = { kernels: null, lines: new Set(), batches: null, nodes: null, instances: null, before: new Set(), after: new Set() };
  if (kind === "line") {
    out.kernels = run.lineKernels.get(value) ?? new Set();
    out.lines.add(value);
  } else if (kind === "kernel") {
    out.kernels = new Set([value]);
  } else if (kind === "batch") {
    out.batches = new Set([value]);
    out.kernels = new Set([s.kernel[value]]);
    if (batch) out.nodes = where(nodes.n, (v) => batch[v] === value);
  } else if (kind === "node") {
    Object.assign(out, cone(run, value), { nodes: new Set([value]), kernels: new Set([nodes.kernel[value]]) });
    if (batch) out.batches = new Set([batch[value]]);
  } else if (kind === "instance") {
    const mine = nodes.byInstance.get(value) ?? [];
    out.nodes = new Set(mine);
    out.instances = new Set([value]);
    if (batch) out.batches = new Set(mine.map((v) => batch[v]));
  }
  return out;
}

/** The numbers below n that pass a test. @param {number} n @param {(k: number) => boolean} test @returns {Set<number>} */
function where(n, test) {
  const out = new Set();
  for (let k = 0; k < n; k++) if (test(k)) out.add(k);
  return out;
}

/** For each character of a source line, the kernel of the innermost operation that it belongs to, or -1.
 * @param {Run} run @param {number} file @param {number} line @param {string} text */
export function kernelsOfLine(run, file, line, text) {
  const out = new Int32Array(text.length).fill(-1);
  const width = new Int32Array(text.length).fill(1 << 30);
  run.kernels.forEach((kernel, k) => {
    for (const [f, first, from, last, to] of kernel.places) {
      if (f !== file || line < first || line > last) continue;
      const a = line === first ? from : text.search(/\S|$/);
      const b = line === last ? Math.min(to, text.length) : text.length;
      const size = first === last ? to - from : 1 << 20;
      for (let c = a; c < b; c++) if (size < width[c]) out[c] = k, width[c] = size;
    }
  });
  return out;
}
