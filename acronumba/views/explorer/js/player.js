// @ts-check
// The player: steps through the batches and says what is ready; and the batches as a table.
import { bytesText, many, thousands, timeText } from "./columns.js";
import { byId, count, derived, kernels, linked, make, order, panel, run, schedule, set, state, swatch } from "./frame.js";
import { readyCounts } from "./ready.js";

const ICONS = {
  first: ["To the start", "M2 2h2v10H2zM12 2v10L5 7z"], back: ["One batch back", "M10 2v10L3 7z"],
  play: ["Play or pause", "M3 2l9 5-9 5z"], next: ["One batch on", "M4 2v10l7-5z"], last: ["To the end", "M10 2h2v10h-2zM2 2v10l7-5z"],
};
const MOST_ROWS = 2000;  // of the table
const STILL = "Press play, or step with the arrow keys. Nodes whose operands are computed are outlined; running nodes have a ring.";

/** Go so many batches on. @param {number} by */
export const step = (by) => set({ step: Math.max(0, Math.min(count(), state.step + by)) });

/** The buttons, the slider, and what is ready now. */
export function buildPlayer() {
  const act = { first: () => set({ step: 0 }), back: () => step(-1), play: togglePlay, next: () => step(1), last: () => set({ step: count() }) };
  for (const [name, [title, path]] of Object.entries(ICONS)) {
    const icon = make("svg", { viewBox: "0 0 14 14", "aria-hidden": "true" }, make("path", { d: path }));
    byId("buttons").append(make("button", { type: "button", id: name, "aria-label": title, title, onclick: act[/** @type {keyof typeof act} */ (name)] }, icon));
  }
  const widen = (/** @type {number} */ by) => () => set({ wide: Math.max(1, Math.min(16, state.wide * by)) });
  byId("narrower").addEventListener("click", widen(0.5));
  byId("wider").addEventListener("click", widen(2));
  byId("step").addEventListener("input", (/** @type {any} */ e) => set({ step: Number(e.target.value) }));
  byId("bytime").addEventListener("change", (/** @type {any} */ e) => set({ byTime: e.target.checked }));
  byId("bytime").parentElement.hidden = !schedule().nanoseconds.some((n) => n > 0);
  panel(["step", "schedule", "playing"], showPlayer);
  byId("tableroom").addEventListener("toggle", showTable);
  panel(["schedule"], showTable);
}

/** Play, or stop. */
export function togglePlay() {
  if (state.playing) {
    clearInterval(state.playing);
    set({ playing: 0 });
    return;
  }
  if (state.step >= count()) set({ step: 0 });
  const pace = Math.max(60, Math.min(700, 20000 / Math.max(1, count())));
  const playing = window.setInterval(() => (state.step >= count() ? togglePlay() : step(1)), pace);
  set({ playing });
}

function showPlayer() {
  const s = schedule();
  byId("step").max = String(count());
  byId("step").value = String(state.step);
  const over = state.step >= count();
  byId("where").textContent = over ? `${many(count(), "batch")} done` : `batch ${state.step} of ${thousands(count())}`;
  byId("step").setAttribute("aria-valuetext", byId("where").textContent);
  byId("play").setAttribute("aria-pressed", String(!!state.playing));
  if (over) {
    byId("ready").replaceChildren(make("span", {}, count() ? STILL : "No batch: there are no tensor operations."));
    return;
  }
  const now = s.kernel[state.step];
  const size = s.size[state.step];
  const ready = readyCounts(run, s, derived.ready, state.step);
  const words = (/** @type {number} */ k) => {
    if (k !== now) return ` ${thousands(ready[k])} ready`;
    return ready[k] > size ? ` runs ${thousands(size)} of ${thousands(ready[k])} ready` : ` runs ${thousands(size)}`;
  };
  const items = order.filter((k) => ready[k] || k === now);
  byId("ready").replaceChildren(make("span", {}, "Ready now:"), ...items.map((k) => make("span", { class: k === now ? "now" : "" }, swatch(k), words(k))));
}

/** The batches as a table, which says in words what the strip shows; it is made when it is opened. */
function showTable() {
  const room = byId("tableroom");
  room.querySelector("table")?.remove();
  if (!room.open) return;
  const s = schedule();
  const heads = ["batch", "kernel", "nodes", "phase", "depth", "round", "moved", "time"];
  const rows = Array.from({ length: Math.min(count(), MOST_ROWS) }, (_, b) => {
    const time = s.nanoseconds[b] ? timeText(s.nanoseconds[b] / 1e9) : "";
    const name = `${kernels[s.kernel[b]].letter} ${kernels[s.kernel[b]].name}`;
    const cells = [b, name, thousands(s.size[b]), s.phase[b], s.depth[b], s.round[b], bytesText(s.bytes[b]), time];
    return linked(make("tr", {}, ...cells.map((text) => make("td", {}, text))), "batch", b);
  });
  if (count() > MOST_ROWS) rows.push(make("tr", {}, make("td", { colspan: 8 }, `and ${thousands(count() - MOST_ROWS)} more`)));
  room.append(make("table", {}, make("thead", {}, make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)))), make("tbody", {}, ...rows)));
}
