// @ts-check
// The game of prediction: the reader says which kernel runs next, and all its nodes that are ready run. No DOM.
import { operands, users } from "./columns.js";

/** @typedef {import("./columns.js").Run} Run @typedef {import("./columns.js").Schedule} Schedule */

export class Game {
  /** @param {Run} run @param {Schedule} s a schedule that knows the batch of each node
   * @param {boolean} forced whether the only key that is ready runs without being taken */
  constructor(run, s, forced = false) {
    const batch = /** @type {Int32Array} */ (s.batch);
    this.run = run;
    this.key = Int32Array.from(batch, (b) => s.key[b]);  // what can share a batch
    this.round = Int32Array.from(batch, (b) => s.round[b]);
    this.missing = Int32Array.from({ length: run.nodes.n }, (_, v) => operands(run.nodes, v).length);
    this.done = new Uint8Array(run.nodes.n);
    this.left = run.nodes.n;
    this.current = 0;  // the round
    this.forced = forced;
    /** @type {{kernel: number, size: number}[]} */
    this.taken = [];
    this.begin();
  }

  /** Ready nodes by key. @returns {Map<number, number[]>} */
  ready() {
    /** @type {Map<number, number[]>} */
    const out = new Map();
    for (let v = 0; v < this.run.nodes.n; v++) {
      if (this.done[v] || this.missing[v] || this.round[v] > this.current) continue;
      const mine = out.get(this.key[v]);
      if (mine) mine.push(v);
      else out.set(this.key[v], [v]);
    }
    return out;
  }

  /** Go on to the first round in which something is ready, and, if `forced`, to the first choice. */
  begin() {
    for (;;) {
      while (this.left && !this.ready().size) this.current++;
      const keys = [...this.ready().keys()];
      if (!this.forced || keys.length !== 1) return;
      this.batch(keys[0]);
    }
  }

  /** Run all ready nodes of a key. @param {number} key */
  take(key) {
    this.batch(key);
    this.begin();
  }

  /** @param {number} key */
  batch(key) {
    const mine = this.ready().get(key) ?? [];
    if (!mine.length) return;
    for (const v of mine) {
      this.done[v] = 1;
      for (const u of users(this.run.nodes, v)) this.missing[u]--;
    }
    this.left -= mine.length;
    this.taken.push({ kernel: this.run.nodes.kernel[mine[0]], size: mine.length });
  }
}
