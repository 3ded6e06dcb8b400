// On a page of a lesson: "Run this page". Nothing is loaded before it is pressed; then each cell has Run and Edit.
import { edit, make, Python, Shown } from "./live.js";

const state = make("span", { role: "status" });
const python = new Python((text) => {
  state.textContent = text;
});
const pages = new Map();
// Cells that measure are not run when the site is made, either.
const cells = [...document.querySelectorAll("div.cell:not(.tag_skip-execution)")].filter((cell) => cell.querySelector(".cell_input pre"));
/** @type {(() => Promise<boolean>)[]} */
const runs = [];

/** Give a cell its buttons, and a place for what it shows. @param {Element} cell */
function enliven(cell) {
  const input = /** @type {HTMLElement} */ (cell.querySelector(".cell_input"));
  const stored = /** @type {HTMLElement | null} */ (cell.querySelector(".cell_output"));
  const code = input.querySelector("pre")?.textContent ?? "";
  const area = /** @type {HTMLTextAreaElement} */ (make("textarea", { value: code.trimEnd(), hidden: true, spellcheck: false, ariaLabel: "the cell's code" }));
  area.rows = area.value.split("\n").length;
  const out = make("div", { className: "live-out", hidden: true });
  const run = () => {
    out.hidden = false;
    if (stored) stored.hidden = true;
    return python.run(area.value, new Shown(out, pages).hear);
  };
  const change = () => {
    area.hidden = false;
    for (const at of input.children) if (at.querySelector("pre")) /** @type {HTMLElement} */ (at).hidden = true;
    area.focus();
  };
  edit(area, run);
  input.append(area, make("p", { className: "live-tools" },
    make("button", { type: "button", onclick: run }, "Run"), make("button", { type: "button", onclick: change }, "Edit")));
  cell.append(out);
  if (!cell.classList.contains("tag_solution")) runs.push(run);
}

async function all() {
  const said = make("p", { className: "live-tools" }, make("button", { type: "button", onclick: () => python.end("stopped; run the page's cells again, from the first on") }, "Stop"), state,
    " Interpreted here: compiled code is about 100 times as fast.");
  button.replaceWith(said);
  cells.forEach(enliven);
  for (const run of runs) if (!(await run())) return;
}

const size = new URL(import.meta.url).searchParams.get("mb");
const label = `Run this page in your browser (loads ${size} MB once)`;
const button = make("button", { type: "button", onclick: all, className: "live-start" }, label);
document.querySelector("article h1, h1")?.after(button);
document.documentElement.dataset.ready = "true";
