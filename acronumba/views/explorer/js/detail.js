// @ts-check
// The lines at the bottom: what is selected, in words.
import { bytesText, many, thousands, timeText } from "./columns.js";
import { byId, chosen, count, data, derived, kernels, make, nodes, order, panel, run, schedule, swatch } from "./frame.js";
import { nodeText } from "./graph.js";

const MOST_REMARKS = 6;

/** Say what is selected. */
export function buildDetail() {
  panel(["pinned", "hover", "schedule"], () => {
    const selection = chosen();
    const p = (/** @type {any[]} */ ...parts) => make("p", {}, ...parts);
    byId("detail").replaceChildren(...(selection ? WORDS[selection.kind](selection.value, p)
      : [p("Point at a line, a kernel, a batch or a node to see what belongs to it everywhere; click to keep it. ", make("b", {}, "?"), " shows the keys.")]));
  });
}

/** @typedef {(...parts: any[]) => any} Paragraph */

/** @type {Record<string, (value: any, p: Paragraph) => any[]>} */
const WORDS = {
  /** @param {string} line @param {Paragraph} p */
  line(line, p) {
    const [file, number] = line.split(":").map(Number);
    const mine = order.filter((k) => run.lineKernels.get(line)?.has(k));
    const total = mine.reduce((sum, k) => sum + kernels[k].nodes, 0);
    const words = mine.length ? ` is computed by ${mine.map((k) => `${kernels[k].letter} ${kernels[k].name}`).join(", ")}: ${many(total, "node")}.` : ": control flow, compiled into the host program.";
    return [p(make("b", {}, `Line ${number} of ${data.files[file]}`), words), ...remarks(file, number, p)];
  },
  /** @param {number} b @param {Paragraph} p */
  batch(b, p) {
    const s = schedule();
    const k = s.kernel[b];
    const instances = [...derived.cells.keys()].filter((key) => key % count() === b).length;
    const of = instances ? ` of ${many(instances, "instance")}` : "";
    const round = s.rounds > 1 ? `, round ${s.round[b]}` : "";
    const time = s.nanoseconds[b] ? `, ${timeText(s.nanoseconds[b] / 1e9)}` : "";
    return [p(make("b", {}, `Batch ${b}`), ": ", swatch(k), ` ${kernels[k].name}, ${many(s.size[b], "node")}${of}; phase ${s.phase[b]}, depth ${s.depth[b]}${round}; ${bytesText(s.bytes[b])} moved${time}.`), ...kernelWords(k, p)];
  },
  /** @param {number} k @param {Paragraph} p */
  kernel(k, p) {
    return kernelWords(k, p);
  },
  /** @param {number} v @param {Paragraph} p */
  node(v, p) {
    const site = kernels[nodes.kernel[v]].sites[nodes.place[v]];
    const from = site?.length ? `Recorded at ${data.files[site[0]]}, line ${site[1]}.` : "";
    return [p(make("b", {}, nodeText(v)), " ", from), ...kernelWords(nodes.kernel[v], p)];
  },
  /** @param {number} i @param {Paragraph} p */
  instance(i, p) {
    const mine = nodes.byInstance.get(i) ?? [];
    return [p(make("b", {}, `Instance ${thousands(i)}`), `: ${many(mine.length, "node")}${data.errors[i] ? `; failed: ${data.errors[i]}` : ""}.`)];
  },
};

/** What the analyses found on a line. @param {number} file @param {number} number @param {Paragraph} p */
function remarks(file, number, p) {
  const all = data.sources.filter((/** @type {any} */ f) => f.file === file).flatMap((/** @type {any} */ f) => f.remarks.filter((/** @type {any} */ r) => r[0] === number));
  return all.slice(0, MOST_REMARKS).map((/** @type {any} */ [, kind, text, option, expression]) =>
    p(make("span", { class: "tag" }, kind), expression ? make("code", {}, expression) : "", expression ? ": " : "", text, option ? ` (option ${option})` : ""));
}

/** The lines that a kernel computes: " tree.py 12 to 15, nn.py 40". @param {number} k */
function linesOf(k) {
  /** @type {Map<string, number[]>} */
  const found = new Map();
  for (const line of run.kernelLines[k]) {
    const [file, number] = line.split(":");
    found.set(file, [...(found.get(file) ?? []), Number(number)]);
  }
  const words = [...found].map(([file, lines]) => {
    const [low, high] = [Math.min(...lines), Math.max(...lines)];
    return `${data.files[Number(file)]} ${low === high ? low : `${low} to ${high}`}`;
  });
  return words.length ? ` ${words.join(", ")}` : "";
}

/** @param {number} k @param {Paragraph} p */
function kernelWords(k, p) {
  const kernel = kernels[k];
  const where = linesOf(k);
  const calls = kernel.calls.length ? ` (${kernel.calls.slice(0, 3).join("; ")}${kernel.calls.length > 3 ? "; ..." : ""})` : "";
  const used = kernel.once ? "once per mini-batch" : make("span", {}, many(kernel.nodes, "node"), make("span", { class: "answer" }, ` in ${many(kernel.batches, "batch")}`));
  const stages = kernel.stages.map((text, n) => ` Stage ${n + 1}: ${text}.`).join("");
  const gives = kernel.results.length ? kernel.results : kernel.shapes;
  return [
    p(swatch(k), " ", make("b", {}, kernel.name), " ", make("code", {}, kernel.expression), `${where}${calls}: `, used, `.${stages}`),
    p(`Reads ${kernel.varying.join(", ") || "nothing of its own"}; the same for all: ${kernel.shared.join(", ") || "nothing"}; gives ${gives.join(", ")}.`),
  ];
}
