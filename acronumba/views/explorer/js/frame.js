// @ts-check
// The state of the page, how it changes, and what every panel is made with.
// Panels add themselves with `panel`; every string of the user's goes through `textContent`, never through markup.
import { rank, read } from "./columns.js";
import { links } from "./links.js";
import { matrix, readiness } from "./ready.js";

/** An element of the page. @param {string} id */
export const byId = (id) => /** @type {any} */ (document.getElementById(id));

export const run = await read(JSON.parse(byId("data").textContent));
export const { data, nodes, kernels } = run;
export const DRAWN = 1500;  // nodes that are drawn one by one
const FEW = 40;  // nodes of all instances that are drawn together at first
export const order = kernels.map((_, k) => k).sort((a, b) => rank(kernels[a].letter) - rank(kernels[b].letter));

export const state = {
  schedule: 0,
  step: run.schedules[0].size.length,
  playing: 0,
  /** @type {any} */ pinned: null,
  /** @type {any} */ hover: null,
  stage: "ir",
  kernel: order[0] ?? 0,
  side: "cpu",
  mode: "run",
  graph: nodes.n <= FEW ? "nodes" : "instance",
  instance: middling(),
  zoom: 1,
  wide: 1,
  byTime: false,
  look: 0,  // counts changes of the theme and of the window
};

/** The schedule that is shown. */
export const schedule = () => run.schedules[state.schedule];
/** How many batches it has. */
export const count = () => schedule().size.length;
/** What is selected, or pointed at. */
export const chosen = () => state.hover ?? state.pinned;

/** @type {{of: any, s: any, found: import("./links.js").Links | null}} */
let last = { of: null, s: null, found: null };

/** What belongs to what is selected, or pointed at. */
export function linksNow() {
  if (last.of !== chosen() || last.s !== schedule()) last = { of: chosen(), s: schedule(), found: links(run, schedule(), chosen()) };
  return last.found;
}

export const derived = { ready: readiness(run, schedule()), cells: matrix(run, schedule()) };

/** The instance of median size. */
function middling() {
  const sizes = [...nodes.byInstance].sort((a, b) => a[1].length - b[1].length);
  return sizes.length ? sizes[Math.floor(sizes.length / 2)][0] : 0;
}

const SVG = ["svg", "g", "path", "rect", "circle", "text", "line", "title"];

/** Make an element; "on..." are listeners. @param {string} name @param {Record<string, any>} [attributes]
 * @param {...any} children */
export function make(name, attributes = {}, ...children) {
  const out = SVG.includes(name) ? document.createElementNS("http://www.w3.org/2000/svg", name) : document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) out.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) out.setAttribute(key, value === true ? "" : value);
  }
  out.append(...children.filter((c) => c !== null && c !== undefined));
  return /** @type {any} */ (out);
}

const COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#f0e442", "#8d959d"];

/** The class with a kernel's colour. @param {number} k */
export const hue = (k) => `k${order.indexOf(k) % 8}`;
/** @param {number} k */
export const colour = (k) => (k < 0 ? "#8d959d" : COLOURS[order.indexOf(k) % 8]);
/** Whether the colours have been used up, so that this one is hatched. @param {number} k */
export const again = (k) => order.indexOf(k) > 7;
/** The letter of a kernel on its colour. @param {number} k */
export const swatch = (k) => make("span", { class: `swatch ${hue(k)}${again(k) ? " again" : ""}` }, kernels[k].letter);

const probe = make("span", { hidden: true, class: "probe" });
document.body.append(probe);

/** A colour of the style sheet, as a canvas takes it. @param {string} name */
export function css(name) {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
}

/** @type {{keys: (keyof typeof state)[], show: () => void}[]} */
const panels = [];
/** @type {typeof state | null} */
let onScreen = null;  // the state that is shown, if it is not this one

/** Show something now and whenever one of the keys of the state has changed.
 * @param {(keyof typeof state)[]} keys @param {() => void} show */
export function panel(keys, show) {
  panels.push({ keys, show });
  show();
}

/** Change the state; it is shown with the next frame. @param {Partial<typeof state>} changes */
export function set(changes) {
  if (!onScreen) {
    onScreen = { ...state };
    requestAnimationFrame(refresh);
  }
  Object.assign(state, changes);
}

/** Show the state now. */
export function refresh() {
  const old = onScreen;
  if (!old) return;
  onScreen = null;
  if (old.schedule !== state.schedule) {
    derived.ready = readiness(run, schedule());
    derived.cells = matrix(run, schedule());
    state.step = Math.min(state.step, count());
  }
  for (const { keys, show } of panels) if (keys.some((key) => old[key] !== state[key])) show();
}

/** Select, or take back what is selected. @param {string} kind @param {any} value */
export function pin(kind, value) {
  const same = state.pinned?.kind === kind && state.pinned.value === value;
  set({ pinned: same ? null : { kind, value }, kernel: kernelOf(kind, value) ?? state.kernel, hover: null });
}

/** The kernel that a selection is of. @param {string} kind @param {any} value @returns {number | undefined} */
function kernelOf(kind, value) {
  if (kind === "kernel") return value;
  if (kind === "node") return nodes.kernel[value];
  if (kind === "batch") return schedule().kernel[value];
  return kind === "line" ? [...(run.lineKernels.get(value) ?? [])][0] : undefined;
}

/** Show for now what something leads to. @param {string} kind "" for nothing @param {any} value */
export function hover(kind, value) {
  if (state.hover?.kind === kind && state.hover.value === value) return;
  if (kind || state.hover) set({ hover: kind ? { kind, value } : null });
}

/** Make an element select something, and show what it leads to while the pointer is on it.
 * @param {any} element @param {string} kind @param {any} value */
export function linked(element, kind, value) {
  element.addEventListener("click", () => pin(kind, value));
  element.addEventListener("pointerenter", () => hover(kind, value));
  element.addEventListener("pointerleave", () => hover("", null));
  return element;
}

/** Buttons of which one is chosen. @param {string} id @param {string[][]} names @param {"stage" | "mode"} key */
export function tabs(id, names, key) {
  const buttons = names.map(([value, title]) =>
    make("button", { type: "button", role: "tab", "data-value": value, onclick: () => set({ [key]: value }) }, title));
  byId(id).append(...buttons);
  byId(id).addEventListener("keydown", (/** @type {KeyboardEvent} */ e) => {
    const at = buttons.indexOf(/** @type {any} */ (document.activeElement));
    const to = buttons[at + (e.key === "ArrowRight" ? 1 : e.key === "ArrowLeft" ? -1 : 0)];
    if (at >= 0 && to && e.key.startsWith("Arrow")) to.focus(), to.click(), e.stopPropagation(), e.preventDefault();
  });
  panel([key], () => {
    for (const b of buttons) {
      b.setAttribute("aria-selected", String(b.dataset.value === state[key]));
      b.tabIndex = b.dataset.value === state[key] ? 0 : -1;
    }
  });
}
