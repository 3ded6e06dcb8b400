// @ts-check
// Reading the data of a page: columns of integers become typed arrays, and what is asked often is indexed.
// In: the JSON of `schema.json`. Out: a `Run`, which all else reads. No DOM, so that node can test it.

/**
 * @typedef {{n: number, zlib: string}} Column
 * @typedef {{name: string, lower_bound: number, optimal: boolean, rounds: number, batch: Int32Array | null,
 *   kernel: Int32Array, size: Int32Array, rows: Int32Array, phase: Int32Array, depth: Int32Array, round: Int32Array,
 *   key: Int32Array, nanoseconds: Int32Array, bytes: Int32Array}} Schedule
 * @typedef {{name: string, letter: string, expression: string, calls: string[], nodes: number, batches: number, phases: number[],
 *   once: boolean, seconds: number, stages: string[], shared: string[], varying: string[], results: string[],
 *   shapes: string[], sites: number[][], places: number[][]}} Kernel
 * @typedef {{number: Int32Array, kernel: Int32Array, instance: Int32Array, depth: Int32Array, operands: Int32Array,
 *   operand: Int32Array, place: Int32Array, shared?: Int32Array, sharer?: Int32Array, users: Int32Array, user: Int32Array, n: number,
 *   takers?: Map<number, Set<number>>,
 *   byInstance: Map<number, number[]>}} Nodes
 * @typedef {[text: string, file: number, line: number, kernel: number]} TextLine
 * @typedef {{data: any, nodes: Nodes, schedules: Schedule[], kernels: Kernel[],
 *   lineKernels: Map<string, Set<number>>, kernelLines: Set<string>[]}} Run
 */

/** Decode a column: base64 of zlib of little-endian int32 first differences. @param {Column} column */
export async function decode(column) {
  const packed = Uint8Array.from(atob(column.zlib), (x) => x.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const out = new Int32Array(await new Response(stream).arrayBuffer());
  for (let k = 1; k < out.length; k++) out[k] += out[k - 1];
  return out;
}

/** Decode every column of an object. @param {Record<string, any>} of @returns {Promise<any>} */
async function decoded(of) {
  const entries = Object.entries(of).map(async ([k, v]) => [k, v && v.zlib !== undefined ? await decode(v) : v]);
  return Object.fromEntries(await Promise.all(entries));
}

/** Read the data of a page. @param {any} data @returns {Promise<Run>} */
export async function read(data) {
  const nodes = await decoded(data.nodes);
  nodes.n = nodes.kernel.length;
  [nodes.users, nodes.user] = turned(nodes.operands, nodes.operand, nodes.n);
  nodes.byInstance = new Map();
  const took = (/** @type {number} */ v, /** @type {number} */ i) => {
    const mine = nodes.byInstance.get(i);
    if (mine) mine.push(v);
    else nodes.byInstance.set(i, [v]);
  };
  for (let v = 0; v < nodes.n; v++) took(v, nodes.instance[v]);
  nodes.takers = new Map();
  if (nodes.shared?.length) {
    nodes.shared.forEach((/** @type {number} */ v, /** @type {number} */ k) => {
      took(v, nodes.sharer[k]);
      nodes.takers.set(v, (nodes.takers.get(v) ?? new Set([nodes.instance[v]])).add(nodes.sharer[k]));
    });
    for (const [i, mine] of nodes.byInstance) nodes.byInstance.set(i, [...new Set(mine)].sort((a, b) => a - b));
  }
  /** @type {Map<string, Set<number>>} */
  const lineKernels = new Map();
  const kernelLines = data.kernels.map((/** @type {Kernel} */ kernel, /** @type {number} */ k) => {
    const lines = new Set(kernel.places.map(([file, line]) => `${file}:${line}`));
    for (const line of lines) lineKernels.set(line, (lineKernels.get(line) ?? new Set()).add(k));
    return lines;
  });
  const schedules = await Promise.all(data.schedules.map(decoded));
  return { data, nodes, schedules, kernels: data.kernels, lineKernels, kernelLines };
}

/** Turn lists of operands into lists of users. @param {Int32Array} start @param {Int32Array} list @param {number} n */
function turned(start, list, n) {
  const first = new Int32Array(n + 1);
  for (const v of list) if (v >= 0) first[v + 1]++;
  for (let v = 0; v < n; v++) first[v + 1] += first[v];
  const at = first.slice();
  const out = new Int32Array(first[n]);
  for (let v = 0; v < n; v++) for (let j = start[v]; j < start[v + 1]; j++) if (list[j] >= 0) out[at[list[j]]++] = v;
  return [first, out];
}

/** The nodes that a node reads. @param {Nodes} nodes @param {number} v */
export const operands = (nodes, v) =>
  [...nodes.operand.subarray(nodes.operands[v], nodes.operands[v + 1])].filter((u) => u >= 0);

/** The instances that take a node: the one that recorded it, and those for which it is equal.
 * @param {Nodes} nodes @param {number} v @returns {Iterable<number>} */
export const takers = (nodes, v) => nodes.takers?.get(v) ?? [nodes.instance[v]];

/** The nodes that read a node. @param {Nodes} nodes @param {number} v */
export const users = (nodes, v) => [...nodes.user.subarray(nodes.users[v], nodes.users[v + 1])];

/** @param {number} n */
export const thousands = (n) => n.toLocaleString("en");

const COMPACT = new Intl.NumberFormat("en", { notation: "compact" });

/** 2791: "2.8K". @param {number} n */
export const compact = (n) => COMPACT.format(n);

/** "1 batch", "2 batches". @param {number} n @param {string} what */
export const many = (n, what) => `${thousands(n)} ${n === 1 ? what : what.endsWith("ch") ? `${what}es` : `${what}s`}`;

/** @param {number} n */
export function bytesText(n) {
  const units = ["bytes", "KiB", "MiB", "GiB", "TiB"];
  let k = 0;
  while (n >= 1024 && k < 4) n /= 1024, k++;
  return k ? `${n.toFixed(n < 10 ? 2 : 1)} ${units[k]}` : `${n} bytes`;
}

/** @param {number} seconds */
export function timeText(seconds) {
  if (seconds >= 1) return `${seconds.toPrecision(3)} s`;
  return seconds >= 1e-3 ? `${(seconds * 1e3).toPrecision(3)} ms` : `${(seconds * 1e6).toPrecision(3)} µs`;
}

/** The place of a kernel's letter in the alphabet: A is 1, Z 26, AA 27. @param {string} letters */
export const rank = (letters) => [...letters].reduce((n, c) => n * 26 + c.charCodeAt(0) - 64, 0);
