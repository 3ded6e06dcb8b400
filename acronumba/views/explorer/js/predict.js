// @ts-check
// Prediction: first a guess, then the reader schedules, then what the compiler found. Until then nothing tells it.
import { many, thousands } from "./columns.js";
import { DRAWN, byId, data, hue, kernels, make, nodes, order, panel, run, schedule, set, state, swatch } from "./frame.js";
import { Game } from "./game.js";
import { nodeGraph } from "./graph.js";
import { stripPlaces } from "./layout.js";
import { levels } from "./ready.js";
import { HEIGHT, LEFT, drawBars, fresh } from "./strip.js";

const MOST = 20_000;  // nodes of a game
const ASKED = 3;  // kernels from which on a batch is not asked for if it is the only one that can run
const title = document.title;

/** @type {{guess: string, game: Game | null}} */
const exercise = { guess: "", game: null };

/** Whether the answer is to be found out, so that nothing may show it. */
export const asking = () => state.mode === "predict" && playable() && (!exercise.game || exercise.game.left > 0);

/** Which mode is shown, and this one of them. */
export function buildPredict() {
  panel(["mode", "instance", "look"], () => {
    for (const id of ["run", "compare", "predict"]) byId(id).hidden = id !== state.mode;
    if (state.mode === "predict") showPredict();
    hideAnswer();
  });
}

const used = () => order.filter((k) => kernels[k].nodes);

const playable = () => {
  const s = data.summary;
  return !!schedule().batch && s.shown === s.nodes && s.nodes > 0 && s.nodes <= MOST;
};

function hideAnswer() {
  document.body.classList.toggle("asking", asking());
  document.title = asking() ? data.model : title;
}

function showPredict() {
  const out = byId("predict");
  const s = data.summary;
  if (!playable()) {
    const why = s.nodes ? "This mini-batch is too large to be played; make the page with fewer instances." : "There is nothing to schedule.";
    out.replaceChildren(make("p", { class: "note" }, why));
  } else if (exercise.game) {
    playGame(out, exercise.game);
  } else {
    const input = make("input", { type: "number", min: 1, required: true, id: "guess", "aria-label": "Your guess" });
    const guessed = (/** @type {Event} */ e) => {
      e.preventDefault();
      exercise.guess = input.value;
      begin();
    };
    const words = `The graph of ${many(s.instances, "instance")} has ${many(s.nodes, "node")} of ${many(used().length, "kernel")}. Nodes of one kernel can run as one batch once their operands are computed. What is the least number of batches?`;
    out.replaceChildren(make("h3", {}, "Before you look"), make("p", { class: "note" }, words),
      make("form", { onsubmit: guessed }, input, " ", make("button", {}, "Start")));
  }
}

/** Begin to play, or once more. */
function begin() {
  exercise.game = new Game(run, schedule(), used().length > ASKED);
  showPredict();
}

/** @param {any} out @param {Game} game */
function playGame(out, game) {
  const bars = make("canvas", { role: "img", "aria-label": "Your batches" });
  const head = [make("h3", {}, "Your schedule"), make("p", { class: "note" }, `Choose what runs next: all ready nodes of the kernel run together.${game.forced ? " Where only one kernel has ready nodes, it has run already." : ""}`), bars];
  out.replaceChildren(...head, ...(game.left ? turn(game) : verdict(game)));
  hideAnswer();
  if (game.left) drawState(out.querySelector(".gamegraph"), game);
  const s = schedule();
  const mine = { ...s, kernel: Int32Array.from(game.taken, (t) => t.kernel), size: Int32Array.from(game.taken, (t) => t.size), nanoseconds: new Int32Array(game.taken.length) };
  const { g, width } = fresh(bars, HEIGHT);
  drawBars(g, mine, stripPlaces(mine, LEFT, width - LEFT - 2, false, Math.max(20, game.taken.length)), { height: HEIGHT });
}

/** What the reader can choose. @param {Game} game */
function turn(game) {
  const choices = [...game.ready()].map(([key, mine]) => {
    const k = nodes.kernel[mine[0]];
    return make("button", { type: "button", "data-choice": k, onclick: () => (game.take(key), showPredict()) }, swatch(k), `${kernels[k].name} `, make("code", {}, kernels[k].expression), ` ${thousands(mine.length)} ready`);
  });
  return [
    make("p", { class: "score" }, `${many(game.taken.length, "batch")} so far, ${many(game.left, "node")} left`),
    make("div", { class: "choices" }, ...choices),
    make("p", { class: "note" }, `Instance ${state.instance}: a column has the nodes with equally long paths to them. Outlined nodes are ready. ↑ and ↓ show another instance.`),
    make("div", { class: "gamegraph", tabindex: 0, "aria-label": "Dataflow of the instance" }),
  ];
}

/** How it went. @param {Game} game */
function verdict(game) {
  const s = schedule();
  const mine = game.taken.length;
  const best = s.size.length;
  const words = mine < best ? "fewer than the compiler found!" : mine === best ? "as few as the compiler found." : `the compiler found ${many(best, "batch")}.`;
  const all = run.schedules.map((o) => `${o.name}: ${thousands(o.size.length)}`).join(", ");
  const bound = `No schedule has fewer than ${thousands(s.lower_bound)}${s.optimal ? ", so this one is proved optimal" : ""}.`;
  return [
    make("p", { class: `score ${mine <= best ? "right" : "wrong"}` }, `You: ${many(mine, "batch")}, ${words}`),
    make("p", { class: "note" }, `Your guess was ${thousands(Number(exercise.guess))}. ${bound} ${all}.`),
    make("button", { type: "button", onclick: begin }, "Once more"), " ",
    make("button", { type: "button", onclick: () => set({ mode: "run", step: 0 }) }, "Step through the compiler's schedule"),
  ];
}

/** @param {any} room @param {Game} game */
function drawState(room, game) {
  const { svg, drawn } = nodeGraph(levels(run), (nodes.byInstance.get(state.instance) ?? []).slice(0, DRAWN), room);
  room.append(svg);
  const able = new Set([...game.ready().values()].flat());
  for (const [v, g] of drawn) g.setAttribute("class", `${hue(nodes.kernel[v])} ${game.done[v] ? "done" : able.has(v) ? "ready" : "pending"}`);
}
