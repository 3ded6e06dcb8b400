// @ts-check
// Comparison: the same mini-batch under each schedule, and with each option switched alone.
import { bytesText, many, thousands } from "./columns.js";
import { byId, data, make, panel, run, set, state } from "./frame.js";
import { stripPlaces } from "./layout.js";
import { HEIGHT, LEFT, drawBars, fresh } from "./strip.js";

/** The modes, and this one of them. */
export function buildCompare() {
  panel(["mode", "schedule", "look"], () => {
    if (state.mode === "compare") showCompare();
  });
}

function showCompare() {
  const most = Math.max(...run.schedules.map((s) => s.size.length));
  const canvases = run.schedules.map((s) => make("canvas", { role: "img", "aria-label": `${s.name}: ${many(s.size.length, "batch")}` }));
  const blocks = run.schedules.flatMap((s, k) => {
    const label = k === 0 ? "step through (this ran)" : s.batch ? "step through" : "recorded otherwise";
    const proof = s.optimal ? "proved optimal" : `at least ${thousands(s.lower_bound)}`;
    const nodes = s.size.reduce((a, b) => a + b, 0);
    const bound = s.batch ? proof : `${proof} for the ${many(nodes, "node")} that it records`;
    const moved = s.bytes.reduce((a, b) => a + b, 0);
    const button = make("button", { type: "button", disabled: !s.batch, "aria-pressed": String(k === state.schedule), onclick: () => set({ schedule: k, mode: "run", step: 0 }) }, label);
    return [make("div", { class: "schedule" }, make("b", {}, s.name), make("span", {}, `${many(s.size.length, "batch")}, ${bound}; ${bytesText(moved)} moved`), button), canvases[k]];
  });
  const title = run.schedules.length > 1 ? "The same mini-batch under each schedule" : "The schedule that ran";
  const options = data.options.length ? [make("h3", {}, "Each option switched alone"), optionTable()] : [];
  byId("compare").replaceChildren(make("h3", {}, title), ...blocks, ...options);
  run.schedules.forEach((s, k) => {
    const { g, width } = fresh(canvases[k], HEIGHT);
    drawBars(g, s, stripPlaces(s, LEFT, width - LEFT - 2, false, most), { height: HEIGHT });
  });
}

const FIELDS = /** @type {[string, string, (n: number) => string][]} */ ([
  ["nodes", "nodes", thousands], ["batches", "batches", thousands], ["launches", "kernel stages", thousands], ["bytes", "bytes moved", bytesText],
]);

function optionTable() {
  const { now } = data;
  const changed = data.options.filter((/** @type {any} */ o) => o.option !== "schedule");
  const differs = (/** @type {any} */ o) => FIELDS.some(([f]) => o[f] !== now[f]);
  const setting = (/** @type {any} */ o) => `${o.option}: ${{ True: "on", False: "off" }[/** @type {"True" | "False"} */ (o.value)] ?? o.value}`;
  const rows = changed.filter(differs).map((/** @type {any} */ o) =>
    make("tr", {}, make("th", { scope: "row" }, setting(o)), ...FIELDS.map(([f, , text]) => changedCell(o[f], now[f], text))));
  const table = make("table", {},
    make("thead", {}, make("tr", {}, ...["option", ...FIELDS.map(([, title]) => title)].map((t) => make("th", { scope: "col" }, t)))),
    make("tbody", {}, make("tr", {}, make("th", { scope: "row" }, "as it ran"), ...FIELDS.map(([f, , text]) => make("td", {}, text(now[f])))), ...rows));
  for (const bar of table.querySelectorAll(".bar")) bar.style.width = `${bar.dataset.width}px`;
  const same = changed.filter((/** @type {any} */ o) => !differs(o)).map((/** @type {any} */ o) => o.option);
  const words = same.length ? `No difference in this mini-batch: ${same.join(", ")}. ` : "";
  return make("div", {}, table, make("p", { class: "note" }, `${words}A bar of 12 pixels is a factor of two. Bytes are those that kernel stages read and write, as if there were no caches.`));
}

/** A number beside the one that it was. @param {number} is @param {number} was @param {(n: number) => string} text */
function changedCell(is, was, text) {
  const times = is / Math.max(1, was);
  const shown = is === was ? make("span", { class: "none" }, "same") : make("span", { class: times > 1.2 ? "much" : "" }, text(is));
  return make("td", {}, shown, times > 1.01 ? make("span", { class: "bar", "data-width": Math.min(60, 12 * Math.log2(times)) }) : "");
}
