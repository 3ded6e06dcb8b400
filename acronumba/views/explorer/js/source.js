// @ts-check
// The head of the page, the bar of kernels, and the user's source.
import { bytesText, many, thousands, timeText } from "./columns.js";
import { byId, data, hue, kernels, linked, linksNow, make, order, panel, run, state, swatch } from "./frame.js";
import { kernelsOfLine } from "./links.js";
import { tokens } from "./tokens.js";

/** The title, and what the run came to. */
export function buildHeader() {
  const s = data.summary;
  byId("title").textContent = data.model;
  const bound = s.optimal ? "proved optimal" : `at least ${thousands(s.lower_bound)}`;
  const facts = [
    many(s.instances, "instance"), many(s.nodes, "node"), many(s.batches, "batch"),
    `${(s.nodes / Math.max(1, s.batches)).toFixed(1)} nodes per batch`, `${bytesText(data.now.bytes)} moved`, `${timeText(s.seconds.execute ?? 0)} to execute${data.made.runs > 1 ? ` (fastest of ${data.made.runs} runs)` : ""}`,
  ];
  if (s.rounds > 1) facts.splice(3, 0, many(s.rounds, "round"));
  facts.forEach((text, k) => {
    const [n, ...rest] = text.split(" ");
    const proof = k === 2 ? make("span", { class: "proof" }, bound) : "";
    byId("facts").append(make("span", { class: k > 1 ? "answer" : "" }, k ? " · " : "", make("b", {}, n), ` ${rest.join(" ")} `, proof));
  });
  const failed = Object.keys(data.errors).length;
  if (failed) byId("facts").append(" · ", make("b", {}, thousands(failed)), " failed");
}

/** The kernels: their letters and colours, which mean the same everywhere, and what each of them did. */
export function buildKernels() {
  const total = kernels.reduce((sum, k) => sum + k.seconds, 0);
  byId("kernels").append(...order.map((k) => {
    const { name, expression, nodes, batches, seconds, once, calls } = kernels[k];
    const text = once ? "once" : many(nodes, "node");
    const answer = once ? "" : `, ${many(batches, "batch")}${total ? `, ${Math.round(seconds / total * 100)}% of the time` : ""}`;
    const button = make("button", { type: "button", "data-kernel": k, "aria-pressed": "false", title: calls.join("; ") || null },
      swatch(k), name, expression && make("code", {}, expression), make("small", {}, text, make("span", { class: "answer" }, answer)));
    return linked(button, "kernel", k);
  }));
  panel(["pinned", "hover", "schedule"], () => {
    const found = linksNow();
    for (const button of byId("kernels").children) {
      button.setAttribute("aria-pressed", String(!!found?.kernels?.has(Number(button.dataset.kernel))));
    }
  });
}

/** The line's text with colours; expressions of different kernels are underlined in theirs.
 * @param {number} file @param {number} line @param {string} text */
function sourceCode(file, line, text) {
  const of = kernelsOfLine(run, file, line, text);
  const several = new Set([...of].filter((k) => k >= 0)).size > 1;
  const out = make("span");
  let at = 0;
  for (const [piece, kind] of tokens(text)) {
    for (let c = 0; c < piece.length;) {
      const k = several ? of[at] : -1;
      let end = c;
      while (end < piece.length && (several ? of[at + end - c] : -1) === k) end++;
      out.append(make("span", { class: `${kind}${k >= 0 ? ` of ${hue(k)}` : ""}` }, piece.slice(c, end)));
      at += end - c;
      c = end;
    }
  }
  return out;
}

/** A row of the source. @param {any} source @param {number} line @param {string} text */
function sourceRow(source, line, text) {
  const key = `${source.file}:${line}`;
  const mine = order.filter((n) => run.lineKernels.get(key)?.has(n));
  const remarks = source.remarks.filter((/** @type {any} */ r) => r[0] === line);
  const kinds = [...new Set(remarks.map((/** @type {any} */ r) => r[1]))];
  const more = mine.length > 3 ? make("small", {}, `+${mine.length - 2}`) : null;
  const row = make("div", { class: `row ${mine.length ? `linked ${hue(mine[0])}` : ""}`, "data-line": key, role: "option", "aria-selected": "false" },
    make("i", {}, line), make("em", {}, ...mine.slice(0, more ? 2 : 3).map(swatch), more), sourceCode(source.file, line, text),
    make("span", { class: "tags" }, ...kinds.map((kind) => make("span", { class: "tag", title: data.meanings[/** @type {string} */ (kind)] }, kind))));
  row.style.setProperty("--wide", `calc(${text.length}ch + 112px)`);  // of the code, which never wraps
  return mine.length || kinds.length ? linked(row, "line", key) : row;
}

/** Every function of the user that is compiled, the model's file first. */
export function buildSource() {
  const out = byId("source");
  let last = -1;
  for (const source of data.sources) {
    out.append(make("div", { class: "file" }, source.file === last ? "\u00a0" : data.files[source.file]));
    last = source.file;
    source.lines.forEach((/** @type {string} */ text, /** @type {number} */ k) => out.append(sourceRow(source, source.first + k, text)));
  }
  if (!data.sources.length) out.append(make("p", { class: "note" }, "This trace was saved without its program: only the run is shown."));
  const rows = out.querySelectorAll(".row");
  panel(["pinned", "hover", "schedule"], () => {
    const found = linksNow();
    for (const row of rows) {
      const pinned = state.pinned?.kind === "line" && state.pinned.value === row.dataset.line;
      row.classList.toggle("hit", !!found?.lines.has(row.dataset.line));
      row.classList.toggle("pinned", pinned);
      row.setAttribute("aria-selected", String(pinned));
    }
  });
  panel(["pinned"], () => reveal(out));
}

/** Scroll what is selected into view. @param {any} room */
export function reveal(room) {
  if (!state.pinned) return;
  const hit = room.querySelector(".row.pinned") ?? room.querySelector(".row.hit");
  if (!hit) return;
  const { top, bottom } = room.getBoundingClientRect();
  const at = hit.getBoundingClientRect();
  if (at.top < top || at.bottom > bottom) room.scrollTop += at.top - top - room.clientHeight / 3;
}
