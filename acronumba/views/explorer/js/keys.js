// @ts-check
// Keys, help, light and dark, bars that move, and the state in the address.
import { byId, count, kernels, make, nodes, order, panel, pin, refresh, run, set, state, tabs } from "./frame.js";
import { step, togglePlay } from "./player.js";
import { STAGES } from "./stages.js";

const KEYS = [
  ["← →", "one batch back, one batch on"], ["space", "play or pause"], ["Home End", "to the start, to the end"],
  ["↑ ↓", "instance before, next instance; in the source: line before, next line"], ["[ ]", "kernel before, next kernel"],
  ["1 … 5", "IR, plan, host program, kernel, analyses"], ["r c p", "step through, compare, predict"],
  ["/", "search; also \"batch 3\", \"node 17\", \"instance 5\""], ["Esc", "forget what is selected"], ["d", "light or dark"], ["?", "this help"],
];
const LEGEND = "Colours say the kernel, and so do the letters. An outlined node is ready to run, a ring marks those that run now. A dark mark at the right of a cell: the instance waits there for a computed value.";
const numbers = [...nodes.byInstance.keys()];

/** @param {number} by */
const otherInstance = (by) => numbers.length && set({ instance: numbers[(numbers.indexOf(state.instance) + by + numbers.length) % numbers.length], graph: "instance" });
/** @param {number} by */
const otherKernel = (by) => order.length && pin("kernel", order[(order.indexOf(state.kernel) + by + order.length) % order.length]);

/** @type {Record<string, () => void>} */
const ACTIONS = {
  ArrowLeft: () => step(-1), ArrowRight: () => step(1), ArrowUp: () => otherInstance(-1), ArrowDown: () => otherInstance(1),
  " ": togglePlay, Home: () => set({ step: 0 }), End: () => set({ step: count() }), "[": () => otherKernel(-1), "]": () => otherKernel(1),
  r: () => set({ mode: "run" }), c: () => set({ mode: "compare" }), p: () => set({ mode: "predict" }),
  "/": () => byId("search").focus(), Escape: () => set({ pinned: null, hover: null }), "?": () => byId("helptext").showModal(), d: turnTheme,
  ...Object.fromEntries(STAGES.map(([id], k) => [String(k + 1), () => set({ stage: id })])),
};

/** The modes, the help, and what keys do. */
export function buildKeys() {
  tabs("modes", [["run", "Step through"], ["compare", "Compare"], ["predict", "Predict"]], "mode");
  const help = byId("helptext");
  help.append(make("b", {}, "Keys"), make("dl", {}, ...KEYS.flatMap(([key, text]) => [make("dt", {}, key), make("dd", {}, text)])),
    make("p", { class: "note" }, LEGEND), make("form", { method: "dialog" }, make("button", {}, "Close")));
  byId("help").addEventListener("click", () => help.showModal());
  byId("theme").addEventListener("click", turnTheme);
  addEventListener("resize", () => set({ look: state.look + 1 }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => set({ look: state.look + 1 }));
  addEventListener("keydown", onKey);
  addEventListener("beforeprint", () => printed(true));
  addEventListener("afterprint", () => printed(false));
  for (const bar of document.querySelectorAll(".splitter")) movable(/** @type {HTMLElement} */ (bar));
}

/** @param {KeyboardEvent} e */
function onKey(e) {
  const target = /** @type {HTMLElement} */ (e.target);
  const arrow = e.key.startsWith("Arrow");
  if (e.ctrlKey || e.metaKey || e.altKey || target.closest("input:not([type=range]):not([type=checkbox]), select, dialog")) return;
  if (target.closest("button, summary, input[type=checkbox]") && (e.key === " " || e.key === "Enter")) return;
  if (target.closest(".splitter, #text, #graph, .gamegraph") && arrow) return;
  if (target.id === "source" && ["ArrowUp", "ArrowDown"].includes(e.key)) return e.preventDefault(), nextLine(e.key === "ArrowDown" ? 1 : -1);
  if (!Object.hasOwn(ACTIONS, e.key)) return;
  e.preventDefault();
  ACTIONS[e.key]();
}

/** Select the next line of the source that something is known of. @param {number} by */
function nextLine(by) {
  const rows = [...document.querySelectorAll("#source .row.linked")].map((row) => /** @type {any} */ (row).dataset.line);
  const at = rows.indexOf(state.pinned?.kind === "line" ? state.pinned.value : "");
  const to = rows[Math.max(0, Math.min(rows.length - 1, at + by))];
  if (to !== undefined && to !== rows[at]) pin("line", to);
}

let theme = "";  // while the page is printed: that of the screen

/** Paper is white: what is drawn on canvases, too. @param {boolean} now */
function printed(now) {
  const root = document.documentElement;
  if (now) theme = root.dataset.theme ?? "";
  root.dataset.theme = now ? "light" : theme;
  set({ look: state.look + 1 });
  refresh();
}

function turnTheme() {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  set({ look: state.look + 1 });
}

/** Let a bar between two panels move. @param {HTMLElement} bar */
function movable(bar) {
  const upright = bar.classList.contains("vertical");
  const program = byId("program");
  const room = upright ? program.parentElement : program;
  const now = () => (upright ? program.offsetWidth / room.offsetWidth : byId("sourcepanel").offsetHeight / room.offsetHeight) * 100;
  const move = (/** @type {number} */ share) => {
    const value = Math.max(12, Math.min(85, share));
    bar.setAttribute("aria-valuenow", String(Math.round(value)));
    room.style.setProperty(upright ? "--left" : "--top", `${value.toFixed(1)}%`);
    set({ look: state.look + 1 });
  };
  bar.addEventListener("pointerdown", (e) => {
    bar.setPointerCapture(e.pointerId);
    const box = room.getBoundingClientRect();
    const drag = (/** @type {PointerEvent} */ m) => move(upright ? ((m.clientX - box.left) / box.width) * 100 : ((m.clientY - box.top) / box.height) * 100);
    bar.addEventListener("pointermove", drag);
    bar.addEventListener("pointerup", () => bar.removeEventListener("pointermove", drag), { once: true });
  });
  bar.addEventListener("keydown", (e) => {
    const by = { ArrowLeft: -3, ArrowUp: -3, ArrowRight: 3, ArrowDown: 3 }[e.key];
    if (by) e.preventDefault(), move(now() + by);
  });
}

const SELECTED = ["kernel", "batch", "node", "line"];

/** Take the state from the address, so that a lesson can link to a moment. */
export function recall() {
  const given = new URLSearchParams(location.hash.slice(1));
  const most = /** @type {Record<string, number>} */ ({ kernel: kernels.length, batch: count(), node: nodes.n });
  for (const kind of SELECTED) {
    const value = given.get(kind);
    if (value === null) continue;
    if (kind === "line" ? /^\d+:\d+$/.test(value) : Number.isInteger(Number(value)) && Number(value) >= 0 && Number(value) < most[kind]) {
      state.pinned = { kind, value: kind === "line" ? value : Number(value) };
    }
  }
  const moment = Number(given.get("step") ?? NaN);
  if (Number.isInteger(moment)) state.step = Math.max(0, Math.min(moment, count()));
  if (given.has("instance") && nodes.byInstance.has(Number(given.get("instance")))) state.instance = Number(given.get("instance"));
  const mode = given.get("mode") ?? "";
  if (["run", "compare", "predict"].includes(mode)) state.mode = mode;
  if (state.pinned?.kind === "kernel") state.kernel = state.pinned.value;
  if (state.pinned?.kind === "line") state.kernel = [...(run.lineKernels.get(state.pinned.value) ?? [])][0] ?? state.kernel;
}

/** Keep the state in the address. */
export function remember() {
  panel(["pinned", "step", "instance", "mode"], () => {
    const { pinned: p } = state;
    const parts = [p && p.kind !== "instance" && `${p.kind}=${p.value}`, state.step < count() && `step=${state.step}`, `instance=${state.instance}`, state.mode !== "run" && `mode=${state.mode}`];
    try {
      history.replaceState(null, "", `#${parts.filter(Boolean).join("&")}`);
    } catch {
      // in a frame without an address of its own
    }
  });
}
