"""Seeded errors: each is one wrong sign, index, order, wait or address in the package, which some test must catch.

    python tests/mutants.py                  all that have no verdict in the file of `--log` yet
    python tests/mutants.py --only waits     those whose name has this in it
    python tests/mutants.py --list           the table

Each error is made in a copy of the package, and the tests of its part run there; where they pass, random programs
(`fuzz`) run for the rest of the time. The output says for each what caught it, and after how many seconds. It is a
command, not a part of the suite; `test_mutants` proves that every entry still fits the source.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Mutant:
    """One error."""

    name: str
    file: str  # under `acronumba`
    old: str  # occurs once in the file
    new: str
    tests: str  # of its part: words for pytest; "": random programs alone must catch it
    through: str = "interpreter"  # how random programs run
    of: str = "all"  # who draws them
    also: tuple[str, str, str] = ("", "", "")  # file, old and new: what has to change with it

    @property
    def changes(self) -> list[tuple[str, str, str]]:
        """Return files with what is replaced in each, and by what."""
        return [(self.file, self.old, self.new), *([self.also] if self.also[0] else [])]


MUTANTS = (
    # The frontend
    Mutant(
        "frontend: or of conditions leaves where it should go on", "frontend/conditions.py",
        "rest, leave = (yes, no) if isinstance(test.op, ast.And) else (no, yes)",
        "rest, leave = (yes, no) if isinstance(test.op, ast.And) else (yes, no)",
        "tests/frontend/test_frontend.py",
    ),
    Mutant(
        "frontend: tuples of keys are sorted by the first part first", "frontend/calls/of_order.py",
        "for k in reversed(range(len(keys.item.items))):", "for k in range(len(keys.item.items)):",
        "tests/whole/test_differential.py -k found",
    ),
    Mutant(
        "frontend: a step of a loop is two", "frontend/loops.py",
        'w.state[index_key] = w.scalar("add", index(), number(1))',
        'w.state[index_key] = w.scalar("add", index(), number(2))',
        "tests/frontend/test_frontend.py",
    ),
    # The passes
    Mutant(
        "invariant: what the loop writes counts as ready", "analysis/grouping/invariant.py",
        "if all((v in ready and v not in written) or v in known for v in reads(instr)):",
        "if all(v in ready or v in known for v in reads(instr)):",
        "tests/analysis/test_hoist.py",
    ),
    Mutant(
        "invariant: what may be None leaves its loop", "analysis/grouping/invariant.py",
        "return all(a in present and None not in _extents(a) for a in tensors)",
        "return all(None not in _extents(a) for a in tensors)",
        "tests/analysis/test_hoist.py",
    ),
    Mutant(
        "hoist: what the kernels of a cycle read is put behind it", "analysis/grouping/hoist.py",
        "least += least % 2 == 0\n            elif", "least += least % 2\n            elif",
        "tests/analysis/test_hoist.py",
    ),
    Mutant(
        "blocks: a check no longer comes before what relies on it", "analysis/grouping/blocks.py",
        "needs |= set(guards)", "needs |= set()",
        "tests/whole/test_promises.py tests/whole/test_pitfalls_of_other_systems.py",
    ),
    Mutant(
        "blocks: lists are read and changed in any order", "analysis/grouping/blocks.py",
        "needs |= {*checks, *calls, *lists}\n", "needs |= {*checks, *calls}\n",
        "tests/host/test_host.py",
    ),
    Mutant(
        "blocks: a call does not wait for lists before it", "analysis/grouping/blocks.py",
        "needs |= {*checks, *calls, *lists, *waits}", "needs |= {*checks, *calls, *waits}",
        "tests/whole/test_differential.py -k found",
    ),
    Mutant(
        "blocks: a name is given another value before all have read the old one", "analysis/grouping/blocks.py",
        "needs |= set(readers[v])", "needs |= set()",
        "tests/analysis/test_hoist.py",
    ),
    Mutant(
        "sharing: what a list is given is not met", "analysis/sharing/facts.py",
        'store(place, [of(v) for v in instr.args[1:]], "tail" if', 'store(place, [], "tail" if',
        "tests/analysis/test_sharing.py",
    ),
    Mutant(
        "sharing: what moves in a list stays where it was", "analysis/sharing/facts.py",
        'if instr.op in ("pop", "insert", "sort", "reverse", "remove", "narrow", "exclude", "toggle"):',
        'if instr.op in ("pop", "insert", "reverse", "remove", "narrow", "exclude", "toggle"):',
        "tests/analysis/test_sharing.py",
    ),
    Mutant(
        "tables: the matrix of a table is not turned", "analysis/sharing/projected_tables.py",
        'op="transpose", args=(x,), attrs=((1, 0),)', 'op="transpose", args=(x,), attrs=((0, 1),)',
        "tests/analysis/test_products_of_tables.py",
    ),
    Mutant(
        "copies: merged kernels read the weight of the first", "analysis/sharing/variants.py",
        "k = spec.operands[v].index\n                    t =",
        "k = kernels[min(opened)].operands[v].index\n                    t =",
        "tests/whole/test_combinations.py tests/analysis/test_sharing.py",
    ),
    Mutant(
        "bypass: the way past a loop is taken where there are steps", "analysis/sharing/loop_exits.py",
        "yes, no = (alone, head) if end.yes == after else (head, alone)",
        "yes, no = (head, alone) if end.yes == after else (alone, head)",
        "tests/analysis/test_loop_exits.py",
    ),
    Mutant(
        "once: an element of an array is that of another", "analysis/sharing/per_batch.py",
        "index = {value: len(program.shared) + k for k, value in enumerate(order)}",
        "index = {value: len(program.shared) + max(k - 1, 0) for k, value in enumerate(order)}",
        "tests/analysis/test_sharing.py tests/analysis/test_hoist.py",
    ),
    Mutant(
        "mutation: a function does not change what those that it calls change", "analysis/fibers/mutation.py",
        "new |= out[c]", "new |= 0",
        "tests/whole/test_differential.py -k found",
    ),
    Mutant(
        "forks: what two calls do to one list is in any order", "analysis/fibers/calls.py",
        "needs |= {j for j in range(k) if changes[j] & touches[k] or touches[j] & changes[k]}",
        "needs |= {j for j in range(k) if changes[j] & changes[k]}",
        "tests/analysis/test_forks.py",
    ),
    Mutant(
        "forks: a join forgets a call that it waits for", "analysis/fibers/calls.py",
        "awaited.add(k)\n                continue", "continue",
        "tests/analysis/test_forks.py",
    ),
    # The host program
    Mutant(
        "host: a wait goes on before the value is there", "host/machine.py",
        'with b.when(node_of(load(record, RECORD.at["head"])) >= 0):',
        'with b.when(node_of(load(record, RECORD.at["head"])) > 0):',
        "tests/analysis/test_waits.py", "compiled",
    ),
    Mutant(
        "host: what lives across a call is not all loaded again", "host/writer.py",
        "for v in segment.live:\n            self.assign(", "for v in segment.live[:-1]:\n            self.assign(",
        "tests/whole/test_differential.py -k found", "compiled",
    ),
    Mutant(
        "host: a fiber ends its caller too early", "host/machine.py",
        'left = b.let("left", load(up, FRAME) - 1)', 'left = b.let("left", load(up, FRAME) - 2)',
        "tests/analysis/test_forks.py", "compiled",
    ),
    # Schedule and memory
    Mutant(
        "schedule: operands in lists do not count", "runtime/library/components.py",
        "if ld32(component, j) < 0:", "if ld32(component, j) < -1:",
        "tests/runtime/test_schedule.py tests/runtime/test_lookahead.py", "compiled",
    ),
    Mutant(
        "schedule: the machine leaves nodes at the depth of their operands", "host/instructions.py",
        "b.set(place, deeper(place))", "b.set(place, place | 0)",
        "tests/runtime/test_schedule.py",
    ),
    Mutant(
        "lookahead: a path of a kind loses its last node", "runtime/library/lookahead.py",
        "st32(longest, block + mine, max(ld32(longest, block + mine), d))",
        "st32(longest, block + mine, max(ld32(longest, block + mine), d - 1))",
        "tests/runtime/test_lookahead.py", "compiled",
    ),
    Mutant(
        "liveness: readers in lists keep nothing alive", "runtime/library/liveness.py",
        "for j in range(tensors, tensors + ld(table, k + K_LISTS)):", "for j in range(tensors, tensors):",
        "tests/runtime/test_memory.py", "compiled",
    ),
    Mutant(
        "liveness: the place of a result is given away while it is read", "runtime/library/liveness.py",
        "x = ld32(dying, b) - 1\n        while x >= 0:\n            give_place",
        "x = ld32(dying, min(b + 1, batches - 1)) - 1\n        while x >= 0:\n            give_place",
        "tests/runtime/test_memory.py", "compiled",
    ),
    Mutant(
        "layout: results of rows are a row too near", "runtime/library/places.py",
        "data = data + size * count_rows(ST, k, i, i + 1)",
        "data = data + size * max(count_rows(ST, k, i, i + 1) - 1, 1)",
        "tests/analysis/test_rows.py", "compiled",
    ),
    Mutant(
        "layout: a failure of a later batch is lost", "runtime/library/execute.py",
        "failures = failures | ld(fail, i)", "failures = ld(fail, i)",
        "tests/whole/test_promises.py tests/whole/test_pitfalls_of_other_systems.py", "compiled",
    ),
    # The kernels
    Mutant(
        "element: the quotient of a negative number is rounded up", "kernels/write/element.py",
        "down = (a - quotient * safe).ne(like(0, a)) & ((a < 0) ^ (b < 0))",
        "down = (a - quotient * safe).ne(like(0, a)) & (b < 0)",
        "tests/kernels/test_kernels_cpu.py", "compiled",
    ),
    Mutant(
        "element: NaN of the left side does not win", "kernels/write/element.py",
        'return select((a > b) | a.ne(a) if t.kind == "f" else a > b, a, b)', "return select(a > b, a, b)",
        "tests/whole/test_differential.py -k found", "compiled",
    ),
    Mutant(
        "orders: of equal elements the last one counts", "kernels/write/orders.py",
        "first = top.eq(NOWHERE) | better(x, most) | (equal(x, most) & (place < top))",
        "first = top.eq(NOWHERE) | better(x, most) | (equal(x, most) & (place > top))",
        "tests/kernels/test_kernels_cpu.py", "compiled",
    ),
    Mutant(
        "tiles: a chunk of a sum is not added to those before", "kernels/tiles.py",
        "f.set(begun, 1)", "f.set(begun, 0)",
        "tests/kernels/test_tiles.py", "compiled",
    ),
    Mutant(
        "tiles: the last panel has the columns of the one before", "kernels/tiles.py",
        "by_gate[:, :, full * self.columns :]", "by_gate[:, :, : self.n - full * self.columns]",
        "tests/kernels/test_tiles.py", "compiled",
    ),
    Mutant(
        "math: tanh of large negative numbers is positive", "kernels/write/math.py",
        "return copysign(select(a < 0.625, near, far), x)", "return select(a < 0.625, near, far)",
        "tests/kernels/test_math.py", "compiled",
    ),
    Mutant(
        "gpu: nobody waits for the oldest copies", "kernels/cuda/tiles.py",
        "            {wait}()\n            cuda.syncthreads()", "            cuda.syncthreads()",
        "tests/kernels/test_simt.py", "simulator",
    ),
    Mutant(
        "gpu: blocks do not wait for each other", "kernels/cuda/persistent.py",
        "if wanted > 0 and cuda.threadIdx.x == 0:", "if wanted > 4 and cuda.threadIdx.x == 0:",
        "tests/runtime/test_persistent.py", "simulator",
    ),
    Mutant(
        "gpu: rows are read in front of the gate", "kernels/cuda/streamed.py",
        '        f.do(device("gate"))\n        self.front', "        self.front",
        "tests/runtime/test_persistent.py", "simulator",
    ),
    Mutant(
        "gpu: a panel stays for another function", "kernels/cuda/stream.py",
        'return f"{number << 16} + ({panel})"', "return panel", "tests/runtime/test_persistent.py", "simulator",
    ),
    Mutant(
        "gpu: launches of a level have one scratch", "runtime/library/launch_steps.py",
        "place = (place + ld(row, ROW_BATCH) + 255) & -256", "place = 0",
        "tests/runtime/test_persistent.py", "simulator",
    ),
    Mutant(
        "gpu: a launch does not wait for what it reads", "kernels/cuda/marshal.py",
        "select(mark > self.level, mark, self.level)", "select(mark > self.level + 1, mark, self.level)",
        "tests/runtime/test_persistent.py", "simulator",
    ),
    # What optimisations that are on by default leave out: each must be caught by `tests.support.extents` alone
    Mutant(
        "equal: the first argument is no part of the key", "host/instructions.py",
        "key = [(0, len(given)), (behind, len(extents))]",
        "key = [(1, max(len(given) - 1, 0)), (behind, len(extents))]",
        "", "compiled", "extents",
    ),
    Mutant(
        "equal: the last argument or extent is no part of the key", "host/instructions.py",
        "key = [(0, len(given)), (behind, len(extents))]",
        "key = [(0, max(len(given) - 1, 0)), (behind, len(extents))]",
        "", "compiled", "extents",
    ),
    Mutant(
        "equal: run-time extents are no part of the key", "host/instructions.py",
        "key = [(0, len(given)), (behind, len(extents))]", "key = [(0, len(emit.args)), (behind, 0)]",
        "", "compiled", "extents",
    ),
    Mutant(
        "equal: the extents of results are no part of the key", "host/instructions.py",
        "key = [(0, len(given)), (behind, len(extents))]", "key = [(0, len(given)), (behind, 0)]",
        "", "compiled", "extents",
    ),
    Mutant(
        "equal: the number of rows is no part of the key", "host/instructions.py",
        "key = [(0, len(given)), (behind, len(extents))]",
        "key = [(0, len(given)), (behind + 1, max(len(extents) - 1, 0))]",
        "", "compiled", "extents",
    ),
    Mutant(
        "equal: the kernel is no part of the key", "runtime/library/equal.py",
        "if ld32(kind, v) == k:", "if ld32(kind, v) >= 0:",
        "", "compiled", "extents",
        ("host/instructions.py", "const(_wrapped(_ODD * (kernel + 1)), I64)", "const(_ODD, I64)"),
    ),
    Mutant(
        "equal: entries of the memo outlive their round", "host/instructions.py",
        'load(place, 1).eq(load(st, AT["memo_tag"]) + kernel)', '(load(place, 1) <= load(st, AT["memo_tag"]) + kernel)',
        "tests/runtime/test_equal.py", "compiled",
    ),
    Mutant(
        "hoist: what depends on a loop is computed before it", "analysis/grouping/invariant.py",
        "if all((v in ready and v not in written) or v in known for v in reads(instr)):",
        "if all(v in ready or v in known for v in reads(instr)):",
        "", "compiled", "extents",
    ),
    Mutant(
        "reuse: one of two shared tensors is taken for both", "analysis/sharing/facts.py",
        'if a == b or b.kind == "nothing":', 'if a.kind == b.kind == "shared" or a == b or b.kind == "nothing":',
        "", "compiled", "extents",
    ),
    Mutant(
        "once: attributes are no part of the key", "analysis/sharing/per_batch.py",
        "tuple(g.key for g in given), repr(attrs), shape,", "tuple(g.key for g in given), shape,",
        "", "compiled", "extents",
    ),
    Mutant(
        "once: operands are no part of the key", "analysis/sharing/per_batch.py",
        "tuple(g.key for g in given), repr(attrs), shape,", "len(given), repr(attrs), shape,",
        "", "compiled", "extents",
    ),
    Mutant(
        "tables: rows of two indices are one", "analysis/sharing/projected_tables.py",
        "if len({(r.index, r.rows) for r in rows}) != 1", "if len({r.rows for r in rows}) != 1",
        "", "compiled", "extents",
    ),
    Mutant(
        "ragged: the last extent of a node is that of the node before", "runtime/library/extents.py",
        "if same_words(at, known, ld(table, k + K_DIMS)) != 0:",
        "if same_words(at, known, ld(table, k + K_DIMS) - 1) != 0:",
        "", "compiled", "extents",
    ),
    Mutant(
        "recycle: a place is given away before the last node that reads it", "runtime/library/liveness.py",
        "st32(last, ld(it, RECORD_DATA), b)\n        for j in range(tensors,",
        "st32(last, ld(it, RECORD_DATA), max(b - 1, ld32(last, ld(it, RECORD_DATA))))\n"
        "        for j in range(tensors,",
        "", "compiled", "extents",
    ),
    Mutant(
        "fuse: what is read at other places of a panel is computed with it", "kernels/stages/products.py",
        "elif u in tail:\n            if index != here:", "elif u in tail:\n            if index is None:",
        "", "compiled", "extents",
    ),
    Mutant(
        "kept: constants are no part of the key of a kernel", "ir/spec.py",
        'replace(op, name="", loc=op.loc if lines else NOWHERE) for op',
        'replace(op, name="", attrs=() if op.op == "const" else op.attrs, loc=op.loc if lines else NOWHERE) for op',
        "", "compiled", "extents",
    ),
    Mutant(
        "kept: shapes are no part of the key of a kernel", "ir/spec.py",
        'replace(op, name="", loc=op.loc if lines else NOWHERE) for op',
        'replace(op, name="", shape=(), loc=op.loc if lines else NOWHERE) for op',
        "", "compiled", "extents",
    ),
    Mutant(
        "parts: the results of a part lie where those of the part before do", "runtime/library/drive.py",
        "st(ST, ARENA, ld(ST, ARENA) + used)", "st(ST, ARENA, ld(ST, ARENA) + used // 128 * 64)",
        "", "compiled", "extents",
    ),
    Mutant(
        "gradients: two adjoints have one place", "runtime/library/adjoints.py",
        "st(W, B_PLACE, place + ((size + 63) & -64))", "st(W, B_PLACE, place + (size // 128) * 64)",
        "", "gradients", "extents",
    ),
    # Data, code, and random numbers
    Mutant(
        "pack: roots of good instances go to others", "data/pack.py",
        "roots[good] = some", "roots[: len(good)] = some",
        "tests/data/test_pack.py tests/whole/test_robustness.py", "compiled",
    ),
    Mutant(
        "unpack: a case of a union begins a word too early", "data/codecs.py",
        "codec(case).read(case, at + of.start)", "codec(case).read(case, at + of.start - 1)",
        "tests/data/test_pack.py", "compiled",
    ),
    Mutant(
        "llvm: bools are widened with their sign", "emit/llvm_values.py",
        'unsigned = how == "unsigned" or old.bits == 1', 'unsigned = how == "unsigned"',
        "tests/emit/test_emit.py", "compiled",
    ),
    Mutant(
        "cache: code that was changed on disk is loaded", "emit/cache.py",
        "if data is None or hashlib.sha256(data).hexdigest() != digest:", "if data is None:",
        "tests/emit/test_cache.py",
    ),
    Mutant(
        "random: the numbers of two kinds of draws are the same", "random.py",
        "own = np.broadcast_to(key.bits ^ kind, shape)", "own = np.broadcast_to(key.bits, shape)",
        "tests/test_random.py",
    ),
)  # fmt: skip


def problem(mutant: Mutant, root: Path = ROOT) -> str:
    """Return why an entry does not fit the source; nothing if it does."""
    for file, old, _ in mutant.changes:
        if (count := (root / "acronumba" / file).read_text(encoding="utf-8").count(old)) != 1:
            return f"{mutant.name}: acronumba/{file} has {count} times: {old}"
    if not mutant.tests and mutant.of == "all":
        return f"{mutant.name}: nothing is to catch it"
    missing = [word for word in mutant.tests.split() if word.startswith("tests/") and not (root / word).exists()]
    return f"{mutant.name}: there is no {', '.join(missing)}" if missing else ""


def _run(command: list[str], folder: Path, seconds: float, cache: Path) -> tuple[int | None, str]:
    """Return exit status (None: it took too long) and the end of the output."""
    env = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "ACRONUMBA_CACHE_DIR": str(cache),
        "CI": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=env,
            stdout=out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            status: int | None = process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            status = None
        out.seek(0)
        return status, out.read()[-3000:]


def _caught_by(text: str) -> str:
    """Return the line of pytest's summary that says which test failed."""
    found = [line for line in text.splitlines() if line.startswith(("FAILED", "ERROR", "E  "))]
    return (found[-1] if found else text.strip().splitlines()[-1] if text.strip() else "")[:160]


def verdict(mutant: Mutant, seconds: float, jobs: int) -> dict[str, object]:
    """Make the error in a copy and run what should catch it."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as place:
        folder, cache = Path(place) / "copy", Path(place) / "cache"
        cache.mkdir(mode=0o700)
        ignore = shutil.ignore_patterns("__pycache__", ".*")
        for name in ("acronumba", "tests", "docs", "examples", "benchmarks"):
            shutil.copytree(ROOT / name, folder / name, ignore=ignore)
        for name in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / name, folder / name)
        for file, old, new in mutant.changes:
            path = folder / "acronumba" / file
            path.write_text(path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
        out: dict[str, object] = {"name": mutant.name, "caught": False, "by": "nothing"}
        tests = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *mutant.tests.split()]
        status, text = _run(tests, folder, seconds, cache) if mutant.tests else (0, "")
        if status is None or status in (1, 2) or status < 0:
            out |= {"caught": True, "by": "time" if status is None else f"test: {_caught_by(text)}"}
        elif status != 0:
            raise RuntimeError(f"{mutant.name}: pytest ends with {status}:\n{text}")
        else:
            left = seconds - (time.monotonic() - start)
            fuzz = [sys.executable, "tests/fuzz.py", "--minutes", f"{left / 60:.2f}", "--jobs", str(jobs), "--stop",
                    "--through", mutant.through, "--of", mutant.of, "--limit", f"{left:.0f}", "--shrink",
                    "0"]  # fmt: skip
            status, text = _run(fuzz, folder, left + 60, cache)
            if status != 0:
                found = [line for line in text.splitlines() if re.match(r"  \d+ .*: \[", line)]
                out |= {"caught": True, "by": f"random program: {' '.join(found[-1:]).strip() or text.strip()[-160:]}"}
    return out | {"seconds": round(time.monotonic() - start, 1)}


def main() -> int:
    parser = argparse.ArgumentParser(
        description="Make errors in the package, one at a time; something must catch each."
    )
    parser.add_argument("--only", default="", help="those with this in their name")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each, at most")
    parser.add_argument("--jobs", type=int, default=1, help="processes that run random programs")
    parser.add_argument(
        "--log", type=Path, help="a file of verdicts, a line of JSON each: those in it are not run again"
    )
    parser.add_argument("--list", action="store_true", help="print the table and end")
    given = parser.parse_args()
    stale = [p for p in map(problem, MUTANTS) if p]
    if stale:
        print(*stale, sep="\n")
        return 2
    chosen = [m for m in MUTANTS if given.only in m.name]
    if given.list:
        for m in chosen:
            print(f"{m.name}\n    acronumba/{m.file}: {' '.join(m.old.split())}\n    -> {' '.join(m.new.split())}")
        return 0
    known: dict[str, dict[str, object]] = {}
    if given.log is not None and given.log.exists():
        known = {entry["name"]: entry for entry in map(json.loads, given.log.read_text().splitlines())}
    survived = 0
    for m in chosen:
        entry = known.get(m.name) or verdict(m, given.seconds, given.jobs)
        if given.log is not None and m.name not in known:
            with given.log.open("a") as f:
                f.write(json.dumps(entry) + "\n")
        survived += not entry["caught"]
        print(
            f"{entry['seconds']:>6} s  {'caught' if entry['caught'] else 'SURVIVED'}  {m.name}: {entry['by']}",
            flush=True,
        )
    print(f"{len(chosen) - survived} of {len(chosen)} caught")
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
