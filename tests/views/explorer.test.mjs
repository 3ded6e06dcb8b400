// What the explorer computes without a page: run by `test_explorer_page.py` under `node --test`.
import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import test from "node:test";
import { pathToFileURL } from "node:url";

const script = (name) => import(pathToFileURL(join(process.env.SCRIPTS, `${name}.js`)));
const { read, operands, takers, many, bytesText, rank } = await script("columns");
const { links, cone, kernelsOfLine } = await script("links");
const { readiness, readyCounts, levels, matrix } = await script("ready");
const { placeGraph, batchEdges, stripPlaces, instanceRows } = await script("layout");
const { Game } = await script("game");
const { tokens } = await script("tokens");

const load = async (name) => read(JSON.parse(await readFile(join(process.env.DATA, `${name}.json`), "utf8")));
const runs = { trees: await load("trees"), waits: await load("waits") };

/** Random numbers that are the same in each run. */
function random(seed) {
  return (n) => {
    seed = (seed * 1103515245 + 12345) % 2147483648;
    return Math.floor((seed / 2147483648) * n);
  };
}

/** A run of random nodes: each reads up to three before it; batches are levels of kernels. */
function randomRun(seed) {
  const below = random(seed);
  const n = 1 + below(60);
  const kinds = 1 + below(4);
  const kernel = Int32Array.from({ length: n }, () => below(kinds));
  const start = [0];
  const list = [];
  for (let v = 0; v < n; v++) {
    for (let j = below(4); j > 0 && v; j--) list.push(below(v));
    start.push(list.length);
  }
  const instance = new Int32Array(n);
  const nodes = { n, kernel, instance, operands: Int32Array.from(start), operand: Int32Array.from(list) };
  nodes.byInstance = new Map([[0, [...kernel.keys()]]]);
  const users = Array.from({ length: n }, () => []);
  for (let v = 0; v < n; v++) for (const u of list.slice(start[v], start[v + 1])) users[u].push(v);
  nodes.users = Int32Array.from([0, ...users.map(((sum) => (u) => (sum += u.length))(0))]);
  nodes.user = Int32Array.from(users.flat());
  const run = { nodes, kernels: Array.from({ length: kinds }, () => ({ places: [] })) };
  const depth = levels(run);
  const names = [...new Set([...kernel.keys()].map((v) => depth[v] * kinds + kernel[v]))].sort((a, b) => a - b);
  const batch = Int32Array.from(kernel.keys(), (v) => names.indexOf(depth[v] * kinds + kernel[v]));
  const size = Int32Array.from(names, (_, b) => batch.filter((x) => x === b).length);
  const of = Int32Array.from(names, (x) => x % kinds);
  return { run, s: { batch, size, kernel: of, key: of, round: new Int32Array(names.length), nanoseconds: new Int32Array(names.length) } };
}

test("columns are those that Python wrote", () => {
  for (const { data, nodes, schedules } of Object.values(runs)) {
    assert.equal(nodes.n, data.summary.nodes);
    assert.equal(schedules[0].size.reduce((a, b) => a + b, 0), nodes.n);
    data.kernels.forEach((kernel, k) => assert.equal(nodes.kernel.filter((x) => x === k).length, kernel.nodes));
    for (let v = 0; v < nodes.n; v++) for (const u of operands(nodes, v)) assert.ok(u < v && nodes.byInstance.get(nodes.instance[v]).includes(u));
  }
});

test("a node is ready when all that it reads is done", () => {
  for (let seed = 0; seed < 200; seed++) {
    const { run, s } = randomRun(seed);
    const ready = readiness(run, s);
    for (let b = 0; b < s.size.length; b++) {
      const counts = new Int32Array(run.kernels.length);
      for (let v = 0; v < run.nodes.n; v++) {
        const able = operands(run.nodes, v).every((u) => s.batch[u] < b);
        assert.equal(able, ready[v] <= b, `node ${v} at batch ${b} of graph ${seed}`);
        if (able && s.batch[v] >= b) counts[run.nodes.kernel[v]]++;
      }
      assert.deepEqual(readyCounts(run, s, ready, b), counts);
      assert.ok(counts[s.kernel[b]] >= s.size[b]);
    }
  }
});

test("the game played as the schedule has it takes as many batches", () => {
  for (const run of Object.values(runs)) {
    for (const s of run.schedules.filter((x) => x.batch)) {
      const game = new Game(run, s);
      for (let b = 0; b < s.size.length && game.left; b++) {
        assert.ok(game.ready().has(s.key[b]), `batch ${b} of ${s.name}`);
        game.take(s.key[b]);
      }
      assert.equal(game.left, 0);
      assert.ok(game.taken.length <= s.size.length);
      if (s.optimal) assert.equal(game.taken.length, s.size.length);
    }
  }
});

test("the game takes no node before its operands, and ends", () => {
  for (let seed = 0; seed < 50; seed++) {
    const { run, s } = randomRun(seed);
    const below = random(seed + 1000);
    const game = new Game(run, s);
    let turns = 0;
    while (game.left) {
      const choices = [...game.ready()];
      const [key, mine] = choices[below(choices.length)];
      for (const v of mine) assert.ok(operands(run.nodes, v).every((u) => game.done[u]));
      game.take(key);
      assert.ok(++turns <= run.nodes.n);
    }
    assert.equal(game.taken.reduce((sum, t) => sum + t.size, 0), run.nodes.n);
  }
});

test("a forced game asks only where there is a choice", () => {
  for (let seed = 0; seed < 50; seed++) {
    const { run, s } = randomRun(seed);
    const [asked, forced] = [new Game(run, s), new Game(run, s, true)];
    while (asked.left) {
      const before = asked.ready().size;
      const [key] = asked.ready().keys();
      if (before > 1) {
        assert.deepEqual([...forced.ready().keys()], [...asked.ready().keys()]);
        forced.take(key);
      }
      asked.take(key);
    }
    assert.equal(forced.left, 0);
    assert.deepEqual(forced.taken, asked.taken);
  }
});

test("no two nodes are drawn at one place, and operands stand to the left", () => {
  const apart = (run, s, shown) => {
    const { x, y, columns, height } = placeGraph(run, s.batch, shown);
    const seen = new Map();
    for (const v of shown) {
      for (const other of seen.get(x.get(v)) ?? []) assert.ok(Math.abs(other - y.get(v)) > 0.999);
      seen.set(x.get(v), [...(seen.get(x.get(v)) ?? []), y.get(v)]);
      assert.ok(y.get(v) >= 0 && y.get(v) < height && x.get(v) < columns.length);
      for (const u of operands(run.nodes, v)) if (x.has(u)) assert.ok(x.get(u) < x.get(v));
    }
  };
  for (let seed = 0; seed < 60; seed++) {
    const { run, s } = randomRun(seed);
    apart(run, s, [...run.nodes.kernel.keys()]);
  }
  for (const mine of runs.trees.nodes.byInstance.values()) apart(runs.trees, runs.trees.schedules[0], mine);
});

test("links lead from lines to kernels, batches and nodes, and back", () => {
  for (const run of Object.values(runs)) {
    const s = run.schedules[0];
    for (const [line, kernels] of run.lineKernels) {
      const found = links(run, s, { kind: "line", value: line });
      assert.deepEqual(found.kernels, kernels);
      for (const b of found.batches) assert.ok(kernels.has(s.kernel[b]));
      assert.equal(found.nodes.size, [...kernels].reduce((sum, k) => sum + run.kernels[k].nodes, 0));
    }
    for (let b = 0; b < s.size.length; b++) {
      const found = links(run, s, { kind: "batch", value: b });
      assert.equal(found.nodes.size, s.size[b]);
      assert.deepEqual(found.lines, run.kernelLines[s.kernel[b]]);
    }
    const v = run.nodes.n - 1;
    const { before } = cone(run, v);
    for (const u of before) assert.ok(cone(run, u).after.has(v));
    assert.equal(links(run, s, null), null);
  }
});

test("an instance has a cell wherever it takes a node, also one that another instance recorded", () => {
  const { trees } = runs;
  assert.ok([...trees.nodes.takers.values()].some((all) => all.size > 1));
  for (const run of Object.values(runs)) {
    const s = run.schedules[0];
    const cells = matrix(run, s);
    for (const [i, mine] of run.nodes.byInstance) {
      const row = s.size.reduce((sum, _, b) => sum + (cells.get(i * s.size.length + b) ?? 0), 0);
      assert.equal(row, mine.length);
    }
    for (const [v, all] of run.nodes.takers) {
      assert.ok(all.has(run.nodes.instance[v]));
      assert.deepEqual(links(run, s, { kind: "node", value: v }).instances, new Set(takers(run.nodes, v)));
    }
  }
});

test("matrix, edges, strips, rows, words", () => {
  const { run, s } = randomRun(7);
  assert.equal([...matrix(run, s).values()].reduce((a, b) => a + b, 0), run.nodes.n);
  assert.equal(batchEdges(run, s).reduce((a, { count }) => a + count, 0), run.nodes.operand.length);
  const x = stripPlaces(s, 42, 600, false);
  assert.ok(x[0] === 42 && x.at(-1) <= 642 && x.every((at, k) => !k || at > x[k - 1]));
  const rows = instanceRows(runs.trees, 5);
  assert.ok(Math.max(...rows.rowOf.values()) < 5 && rows.perRow === 3);
  assert.deepEqual([many(1, "batch"), many(2, "batch"), many(1500, "node")], ["1 batch", "2 batches", "1,500 nodes"]);
  assert.deepEqual([bytesText(12), bytesText(1536)], ["12 bytes", "1.50 KiB"]);
  assert.ok(rank("A") < rank("Z") && rank("Z") < rank("AA"));
  assert.equal(tokens("    return p.w @ x  # why 3").map(([text]) => text).join(""), "    return p.w @ x  # why 3");
  assert.deepEqual(tokens("return 3").filter(([, kind]) => kind), [["return", "keyword"], ["3", "number"]]);
});

test("an expression is of the kernel of its innermost operation", () => {
  const places = [[0, 3, 0, 3, 10], [0, 3, 4, 3, 6]];
  const run = { kernels: places.map((place) => ({ places: [place] })) };
  assert.deepEqual([...kernelsOfLine(run, 0, 3, "0123456789")], [0, 0, 0, 0, 1, 1, 0, 0, 0, 0]);
  assert.deepEqual([...kernelsOfLine(run, 1, 3, "01")], [-1, -1]);
});
