// @ts-check
// Search: kernels, lines of source and of stages; "batch 3", "node 17", "instance 5".
import { byId, count, data, kernels, make, nodes, order, pin, set } from "./frame.js";
import { asking } from "./predict.js";

/** @typedef {{label: string, text: string, go: () => void}} Hit */

const MOST_HITS = 40;
const KINDS = /** @type {Record<string, string>} */ ({ b: "batch", i: "instance", "#": "node", batch: "batch", node: "node", instance: "instance" });

/** All that is found by its words. @returns {Hit[]} */
function everything() {
  const lines = data.sources.flatMap((/** @type {any} */ f) => f.lines.map((/** @type {string} */ text, /** @type {number} */ n) =>
    ({ label: `line ${f.first + n}`, text: text.trim(), go: () => pin("line", `${f.file}:${f.first + n}`) })));
  const stages = data.texts.filter((/** @type {any} */ t) => ["ir", "plan"].includes(t.id)).flatMap((/** @type {any} */ t) =>
    t.lines.filter((/** @type {any} */ l) => l[2] >= 0).map((/** @type {any} */ l) =>
      ({ label: t.title, text: l[0].trim(), go: () => (set({ stage: t.id }), pin("line", `${l[1]}:${l[2]}`)) })));
  const names = order.map((k) => ({ label: "kernel", text: `${kernels[k].letter} ${kernels[k].name}`, go: () => pin("kernel", k) }));
  return [...names, ...lines, ...stages];
}

/** A batch, node or instance by its number. @param {string} words @returns {Hit[]} */
function numbered(words) {
  const found = words.match(/^(batch|node|instance|b|i|#)\s*(\d+)$/);
  if (!found || (KINDS[found[1]] === "batch" && asking())) return [];
  const kind = KINDS[found[1]];
  const value = kind === "node" ? nodes.number.indexOf(Number(found[2])) : Number(found[2]);
  const there = kind === "batch" ? value < count() : kind === "node" ? value >= 0 : nodes.byInstance.has(value);
  if (!there) return [];
  const go = () => {
    if (kind === "batch") set({ step: value, mode: "run" });
    else set({ instance: kind === "node" ? nodes.instance[value] : value, graph: "instance" });
    pin(kind, value);
  };
  return [{ label: kind, text: found[2], go }];
}

/** The field, and the list below it. */
export function buildSearch() {
  const input = byId("search");
  const list = byId("found");
  const all = everything();
  /** @type {Hit[]} */
  let hits = [];
  let at = 0;
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const choose = (/** @type {Hit} */ hit) => {
    hit.go();
    input.value = "";
    input.blur();
    close();
  };
  const mark = () => {
    [...list.children].forEach((item, k) => item.setAttribute("aria-selected", String(k === at)));
    input.setAttribute("aria-activedescendant", `found${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  input.addEventListener("input", () => {
    const words = input.value.trim().toLowerCase();
    hits = words ? [...numbered(words), ...all.filter((h) => `${h.label} ${h.text}`.toLowerCase().includes(words)).slice(0, MOST_HITS)] : [];
    at = 0;
    list.replaceChildren(...hits.map((h, k) => make("li", { role: "option", id: `found${k}`, onpointerdown: () => choose(h) }, make("small", {}, h.label), h.text)));
    if (!hits.length) return close();
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark();
  });
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => {
    if (e.key === "Enter" && hits[at] && !list.hidden) choose(hits[at]);
    if (e.key === "Escape") close(), input.blur();
    if (!hits.length || !["ArrowDown", "ArrowUp"].includes(e.key)) return;
    e.preventDefault();
    at = (at + (e.key === "ArrowDown" ? 1 : -1) + hits.length) % hits.length;
    mark();
  });
}
