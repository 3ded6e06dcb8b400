// @ts-check
// The stages of the compiler as text; each line is linked to the source that it was made of.
import { byId, chosen, data, hue, kernels, linked, linksNow, make, order, panel, run, set, state, tabs } from "./frame.js";
import { reveal } from "./source.js";
import { tokens } from "./tokens.js";

export const STAGES = [["ir", "IR"], ["plan", "Plan"], ["host", "Host program"], ["kernel", "Kernel"], ["analyses", "Analyses"]];

/** @type {any[]} */
let shownRows = [];

/** The tabs, and the text below them. */
export function buildStages() {
  tabs("texttabs", STAGES, "stage");
  const choose = (/** @type {any} */ e) => {
    const [side, k] = e.target.value.split(":");
    set({ side, kernel: Number(k), stage: "kernel" });
  };
  const options = order.flatMap((k) => ["cpu", "cuda"].map((side) =>
    make("option", { value: `${side}:${k}` }, `${kernels[k].letter} ${kernels[k].name}, ${side.toUpperCase()}`)));
  byId("texttabs").after(make("select", { id: "which", "aria-label": "Kernel and device", onchange: choose }, ...options));
  panel(["stage", "kernel", "side"], showStage);
  panel(["pinned", "hover", "schedule", "stage", "kernel", "side"], markRows);
  panel(["pinned", "stage", "kernel", "side"], () => reveal(byId("text")));
}

function showStage() {
  const id = state.stage === "kernel" ? `${state.side}:${state.kernel}` : state.stage;
  const text = data.texts.find((/** @type {any} */ t) => t.id === id) ?? { lines: [] };
  shownRows = text.lines.map(stageRow);
  byId("text").replaceChildren(...shownRows);
  byId("text").scrollTop = 0;
  byId("which").value = `${state.side}:${state.kernel}`;
  byId("which").hidden = state.stage !== "kernel";
}

/** @param {import("./columns.js").TextLine} line */
function stageRow([text, file, number, kernel]) {
  const key = number >= 0 ? `${file}:${number}` : "";
  const of = kernel >= 0 ? kernel : [...(run.lineKernels.get(key) ?? [])][0] ?? -1;
  const row = make("div", { class: `row ${of >= 0 ? hue(of) : ""} ${key ? "linked" : ""}`, "data-line": key, "data-kernel": kernel },
    make("i", { title: key ? `${data.files[file]}, line ${number}` : null }, key ? `:${number}` : ""),
    make("span", {}, ...tokens(text).map(([t, c]) => (c ? make("span", { class: c }, t) : t))));
  return key ? linked(row, "line", key) : kernel >= 0 ? linked(row, "kernel", kernel) : row;
}

/** Mark the rows of what is selected: by their line and kernel; by the kernel alone where there is no line. */
function markRows() {
  const selection = chosen();
  const found = linksNow();
  for (const row of shownRows) {
    const { line } = row.dataset;
    const kernel = Number(row.dataset.kernel);
    const mine = kernel < 0 || selection?.kind === "line" || !!found?.kernels?.has(kernel);
    const hit = line ? found?.lines.has(line) && mine : kernel >= 0 && state.stage !== "kernel" && selection?.kind !== "line" && found?.kernels?.has(kernel);
    row.classList.toggle("hit", !!hit);
  }
}
