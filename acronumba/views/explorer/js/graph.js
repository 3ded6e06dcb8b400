// @ts-check
// The dataflow graph: one instance or all of them node by node, or the batches and the values that flow between them.
import { compact, many, operands, takers, thousands } from "./columns.js";
import { DRAWN, byId, chosen, count, data, derived, hue, kernels, linked, linksNow, make, nodes, order, panel, run, schedule, set, state } from "./frame.js";
import { batchEdges, placeGraph } from "./layout.js";
import { follow } from "./schedule.js";

/** @typedef {{svg: any, drawn: Map<number, any>, edges: {element: any, from: number, to: number}[]}} Drawing */

/** @type {Drawing} */
let drawing = { svg: null, drawn: new Map(), edges: [] };  // what stands for a node or a batch
const MOST_EDGES = 6000;
const LETTER = 7;  // pixels of a digit

const byBatch = () => state.graph === "batches" || !schedule().batch;

/** The graph, its tools, and the states of nodes in it. */
export function buildGraph() {
  panel(["graph", "instance", "zoom", "schedule", "mode", "look"], () => {
    if (state.mode !== "run") return;
    const mine = state.graph === "nodes" ? [...nodes.kernel.keys()] : nodes.byInstance.get(state.instance) ?? [];
    const shown = mine.slice(0, DRAWN);
    const { batch } = schedule();
    drawing = byBatch() || !batch ? batchGraph() : nodeGraph(batch, shown, byId("graph"));
    byId("graph").replaceChildren(drawing.svg);
    buildTools(shown.length, mine.length);
  });
  panel(["graph", "instance", "zoom", "schedule", "mode", "look", "step", "pinned", "hover"], () => {
    if (state.mode === "run") paintGraph();
  });
}

/** @param {number} shown @param {number} all */
function buildTools(shown, all) {
  const numbers = [...nodes.byInstance.keys()];
  const at = numbers.indexOf(state.instance);
  const go = (/** @type {number} */ by) => () => set({ instance: numbers[Math.max(0, Math.min(numbers.length - 1, at + by))], graph: "instance" });
  const choose = (/** @type {any} */ e) => {
    const instance = Number(e.target.value);
    set(Number.isNaN(instance) ? { graph: e.target.value } : { graph: "instance", instance });
  };
  const pick = make("select", { "aria-label": "What is drawn", onchange: choose },
    make("option", { value: "batches" }, "all instances, by batch"),
    nodes.n <= DRAWN ? make("option", { value: "nodes" }, "all instances, node by node") : null,
    ...numbers.slice(0, 2000).map((i) => make("option", { value: i }, `instance ${thousands(i)}`)));
  pick.value = byBatch() ? "batches" : state.graph === "instance" ? String(state.instance) : state.graph;
  const drawnWords = `${shown < all ? `${thousands(shown)} of ` : ""}${many(all, "node")}, one column per batch`;
  const note = byBatch() ? "circle: a batch, its area the number of nodes" : drawnWords;
  const left = data.summary.shown < data.summary.nodes ? data.summary.instances - nodes.byInstance.size : 0;
  const button = (/** @type {string} */ label, /** @type {string} */ sign, /** @type {() => void} */ onclick) =>
    make("button", { type: "button", "aria-label": label, title: label, onclick }, sign);
  byId("graphtools").replaceChildren(
    button("Instance before", "‹", go(-1)), pick, button("Next instance", "›", go(1)),
    button("Smaller", "−", () => set({ zoom: state.zoom / 1.25 })), button("Larger", "+", () => set({ zoom: state.zoom * 1.25 })),
    make("span", {}, left > 0 ? `${note}; ${many(left, "instance")} of ${thousands(data.summary.instances)} left out` : note));
}

/** Nodes as circles, a column for each number in `column`. @param {Int32Array} column @param {number[]} shown
 * @param {any} room @returns {Drawing} */
export function nodeGraph(column, shown, room) {
  const { x, y, columns, height } = placeGraph(run, column, shown);
  const wide = Math.max(14, Math.min(64, (room.clientWidth - 60) / Math.max(1, columns.length))) * state.zoom;
  const tall = Math.max(9, Math.min(27, (room.clientHeight - 50) / Math.max(1, height))) * state.zoom;
  const r = Math.max(3, Math.min(11, tall / 2 - 1.5, wide / 2 - 3));
  const px = (/** @type {number} */ v) => 28 + (x.get(v) ?? 0) * wide;
  const py = (/** @type {number} */ v) => 34 + (y.get(v) ?? 0) * tall;
  const words = state.graph === "nodes" ? "Dataflow of all instances" : `Dataflow of instance ${state.instance}`;
  /** @type {Drawing} */
  const out = { svg: graphSvg(56 + columns.length * wide, 48 + height * tall, `${words}: ${many(shown.length, "node")}`), drawn: new Map(), edges: [] };
  const every = Math.ceil(26 / wide);
  columns.forEach((b, k) => k % every === 0 && out.svg.append(make("text", { class: "axis", x: 28 + k * wide, y: 12 }, b)));
  for (const v of shown) {
    for (const u of operands(nodes, v)) if (x.has(u)) edge(out, u, v, curve(px(u), py(u), px(v), py(v)), {});
  }
  for (const v of shown) {
    const k = nodes.kernel[v];
    const label = r >= 7 ? make("text", { x: px(v), y: py(v) }, kernels[k].letter) : null;
    const g = make("g", { class: hue(k) }, make("circle", { class: "node", cx: px(v), cy: py(v), r }), label, make("title", {}, nodeText(v)));
    out.drawn.set(v, linked(g, "node", v));
    out.svg.append(g);
  }
  return out;
}

/** Batches as circles, in one lane per kernel. @returns {Drawing} */
function batchGraph() {
  const s = schedule();
  const lanes = order.filter((k) => s.kernel.includes(k));
  const n = s.size.length;
  const wide = Math.max(5, Math.min(52, (byId("graph").clientWidth - 180) / Math.max(1, n))) * state.zoom;
  const tall = Math.max(34, Math.min(64, (byId("graph").clientHeight - 60) / Math.max(1, lanes.length))) * state.zoom;
  const most = Math.sqrt(s.size.reduce((a, b) => Math.max(a, b), 1));
  const px = (/** @type {number} */ b) => 160 + b * wide;
  const py = (/** @type {number} */ b) => 40 + lanes.indexOf(s.kernel[b]) * tall;
  /** @type {Drawing} */
  const out = { svg: graphSvg(190 + n * wide, 40 + lanes.length * tall, "Batches and the values between them"), drawn: new Map(), edges: [] };
  for (let b = 0; b < n; b += Math.ceil(26 / wide)) out.svg.append(make("text", { class: "axis", x: px(b), y: 10 }, b));
  lanes.forEach((k, row) => {
    const name = kernels[k].name.length > 18 ? `${kernels[k].name.slice(0, 17)}…` : kernels[k].name;
    out.svg.append(make("text", { class: "lane", x: 4, y: 40 + row * tall }, `${kernels[k].letter} ${name}`, make("title", {}, kernels[k].name)));
  });
  const flow = s.batch ? batchEdges(run, s) : [];
  for (const { from, to, count: values } of flow.sort((a, b) => b.count - a.count).slice(0, MOST_EDGES)) {
    const bend = py(from) === py(to) ? Math.min(tall * 0.42, 4 + (to - from) * 3) : 0;
    const d = bend ? `M${px(from)} ${py(from)}Q${(px(from) + px(to)) / 2} ${py(from) + 2 * bend} ${px(to)} ${py(to)}` : curve(px(from), py(from), px(to), py(to));
    const strength = { "stroke-width": Math.min(7, 0.6 + Math.log2(1 + values) / 2) };
    edge(out, from, to, d, strength, make("title", {}, `${many(values, "value")} from batch ${from} to batch ${to}`));
  }
  for (let b = 0; b < n; b++) {
    const r = Math.max(2.5, (Math.sqrt(s.size[b]) / most) * Math.min(17, tall / 2.6));
    const words = r > 10 ? [thousands(s.size[b]), compact(s.size[b])].find((t) => t.length * LETTER < 2 * r) : undefined;
    const label = words ? make("text", { x: px(b), y: py(b) }, words) : null;
    const g = make("g", { class: hue(s.kernel[b]) }, make("circle", { class: "node", cx: px(b), cy: py(b), r }), label,
      make("title", {}, `batch ${b}: ${kernels[s.kernel[b]].name}, ${many(s.size[b], "node")}`));
    out.drawn.set(b, linked(g, "batch", b));
    out.svg.append(g);
  }
  return out;
}

/** @param {number} width @param {number} height @param {string} label */
const graphSvg = (width, height, label) => make("svg", { width, height, role: "img", "aria-label": label });

/** @param {number} a @param {number} b @param {number} c @param {number} d */
const curve = (a, b, c, d) => `M${a} ${b}C${(a + c) / 2} ${b} ${(a + c) / 2} ${d} ${c} ${d}`;

/** @param {Drawing} to @param {number} from @param {number} into @param {string} d @param {Record<string, any>} more
 * @param {any} [title] */
function edge(to, from, into, d, more, title) {
  const element = make("path", { class: "edge", d, ...more }, title);
  to.edges.push({ element, from, to: into });
  to.svg.append(element);
}

/** A node in words. @param {number} v */
export function nodeText(v) {
  const k = kernels[nodes.kernel[v]];
  const given = [...new Set(operands(nodes, v))].map((u) => `#${nodes.number[u]}`);
  const reads = given.length > 12 ? `${given.slice(0, 12).join(", ")} and ${given.length - 12} more` : given.join(", ");
  const batch = schedule().batch;
  const others = [...takers(nodes, v)].length - 1;
  const equal = others ? ` (and ${many(others, "other")}: equal operands)` : "";
  return `node #${nodes.number[v]}: ${k.name}, instance ${nodes.instance[v]}${equal}, ${batch ? `batch ${batch[v]}, ` : ""}depth ${nodes.depth[v]}; reads ${reads || "no node"}; gives ${k.shapes.join(", ")}`;
}

/** Show what has run, what runs, what is ready, and what belongs to the selection. */
function paintGraph() {
  const s = schedule();
  const selection = chosen();
  const found = linksNow();
  const batches = byBatch();
  const over = state.step >= count();
  for (const [v, g] of drawing.drawn) {
    const b = batches ? v : /** @type {Int32Array} */ (s.batch)[v];
    const stage = over || b < state.step ? "done" : b === state.step ? "running" : !batches && derived.ready[v] <= state.step ? "ready" : "pending";
    const on = !found || (batches ? (found.batches?.has(v) ?? true) : (found.nodes?.has(v) ?? true) || found.before.has(v) || found.after.has(v));
    if (stage === "running") follow(byId("graph"), Number(g.firstChild.getAttribute("cx")));
    const pinned = state.pinned?.kind === (batches ? "batch" : "node") && state.pinned.value === v;
    g.setAttribute("class", `${hue(batches ? s.kernel[v] : nodes.kernel[v])} ${stage} ${on ? "" : "dim"} ${pinned ? "chosen" : ""}`);
  }
  const near = (/** @type {number} */ v) => found?.nodes?.has(v) || found?.before.has(v) || found?.after.has(v);
  for (const { element, from, to } of drawing.edges) {
    let on = "";
    if (!batches && selection?.kind === "node") on = near(from) && near(to) ? "on" : "off";
    if (batches && selection?.kind === "batch") on = found?.batches?.has(from) || found?.batches?.has(to) ? "on" : "off";
    element.setAttribute("class", `edge ${on}`);
  }
}
