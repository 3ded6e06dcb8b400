"""Runs random programs for as long as one likes, and makes a test of the first of each kind that is wrong.

    python tests/fuzz.py --minutes 10                          through the reference interpreter
    python tests/fuzz.py --minutes 10 --through compiled       machine code, with random options and threads, and then
                                                               the same bits in another order, with other options
    python tests/fuzz.py --count 500 --through simulator       kernels for GPUs, in plain Python
    python tests/fuzz.py --count 200 --through gradients       gradients by five routes, see `tests.support.routes`
    python tests/fuzz.py --count 500 --of extents --through compiled     programs of `tests.support.extents`, aimed at
                                                               what optimisations leave out, in poisoned memory
    python tests/fuzz.py --from 5000 --count 1 --through all   the program 5000 alone, each way
    python tests/fuzz.py --from 5000 --show                    its text

Program number n is the same always; a campaign goes on where another has ended by `--from`. Each program runs in a
process that may die or take too long: that is a finding like any other. At the end it says how many programs were
equal to the plain call, how many were rejected with which code, how many instances failed (as the plain call does), and
prints for each kind of difference the shrunken program as a file for pytest. The exit status is 1 if there are any.
"""

from __future__ import annotations

import argparse
import collections
import gc
import json
import linecache
import multiprocessing
import os
import random
import signal
import statistics
import sys
import tempfile
import time
import traceback
import types
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import numpy as np

from acronumba.api import dispatch
from acronumba.api.dispatch import bind, specialise
from acronumba.config import BITWISE
from tests.support import extents, generate, habits, shrink
from tests.support.modules import import_file
from tests.support.poison import poison
from tests.support.same_bits import bits

WAYS = ("interpreter", "compiled", "simulator", "gradients")
INSTANCES = {"interpreter": 8, "compiled": 16, "simulator": 4, "gradients": 4}
STEPS = 10**6  # of one instance: what is drawn takes a few thousand
RECYCLE = 400  # programs of one process


@dataclass
class Outcome:
    """What one program has shown one way."""

    number: int
    way: str
    options: dict[str, Any]
    kind: str = ""  # of its first difference; "rejected ACR..." if it is rejected; "" if it is equal
    text: str = ""
    instances: int = 0
    failures: int = 0
    errors: dict[str, float] = field(default_factory=dict)  # of gradients, by route

    @property
    def wrong(self) -> bool:
        return bool(self.kind) and not self.rejected

    @property
    def rejected(self) -> bool:
        return self.kind.startswith("rejected ")


# ---- one program


def case_of(number: int, of: str = "all") -> generate.Case | extents.ExtentsCase:
    """Return program number n; of "all", two of three are of `habits`, the others of `generate`."""
    rng = random.Random(f"case {number}")
    seed, size = rng.getrandbits(32), rng.choice([1, 2, 2, 3, 3, 4, 5, 6, 8, 10])
    if of == "extents":
        return extents.generate(seed, size)
    return (habits if number % 3 else generate).generate(seed, size)


def options_of(number: int, way: str) -> dict[str, Any]:
    """Return the options of program number n: every other has some that are not the default."""
    rng = random.Random(f"options {number}")
    options: dict[str, Any] = {"max_steps": STEPS}
    if rng.random() < 0.5:
        for name in (*BITWISE, "reuse", "duplicate"):
            if rng.random() < 0.25:
                options[name] = False
        if rng.random() < 0.3:
            options["schedule"] = rng.choice(["depth", "agenda"])
        elif rng.random() < 0.3:
            options["effort"] = rng.randrange(4)
    if way != "interpreter":
        options["threads"] = rng.choice([1, 2, 3, 9])
    if way in ("simulator", "gradients") and rng.random() < 0.3:
        options["persistent"] = True
    return options


def others_of(number: int, options: dict[str, Any]) -> dict[str, Any]:
    """Return options that must give the same bits."""
    rng = random.Random(f"others {number}")
    out = {**options, "threads": rng.choice([1, 2, 3]), "schedule": rng.choice(["lookahead", "depth", "agenda"])}
    for name in BITWISE:
        if rng.random() < 0.2:
            out[name] = not out.get(name, True)
    return out


def load(text: str, folder: Path) -> types.ModuleType:
    """Import a text from a file of its own."""
    load.count += 1  # type: ignore[attr-defined]
    name = f"fuzz_{os.getpid()}_{load.count}"  # type: ignore[attr-defined]
    path = folder / f"{name}.py"
    path.write_text(text, encoding="utf-8")
    module = import_file(path)
    path.unlink()
    linecache.cache[str(path)] = (len(text), None, text.splitlines(True), str(path))  # the compiler reads it here
    return module


load.count = 0  # type: ignore[attr-defined]


def forget(module: types.ModuleType) -> None:
    sys.modules.pop(module.__name__, None)
    linecache.cache.pop(str(module.__file__), None)


def run(
    module: types.ModuleType, columns: Sequence[Sequence[Any]], shared: dict[str, Any], way: str, number: int,
    options: dict[str, Any], sure: bool = True,
) -> Outcome:  # fmt: skip
    """Run a program one way, and once more with other options where these may change no bit."""
    out = Outcome(number, way, options)
    try:
        model = module.main.with_options(**options)
        if way == "gradients":
            return gradients(out, model, columns, shared)
        if way == "simulator":
            model = model.on("simulator")
        report = generate.examine(model, columns, shared, compiled=way != "interpreter", sure=sure)
        out.instances, out.failures = report.instances, report.failures
        if report.rejected is not None:
            code = report.rejected.code
            out.kind, out.text = f"rejected {code}", str(report.rejected)
            if code in ("ACR798", "ACR799"):
                out.kind = "a mistake of acronumba"
        elif report.differences:
            out.kind, out.text = report.differences[0].kind, "\n".join(map(str, report.differences))
        elif way == "compiled":
            out.kind, out.text = same_bits(module, columns, shared, number, options, report)
            if not out.kind:
                out.kind, out.text = changed_in_place(model, columns, shared, sure)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        out.kind = f"{type(error).__name__} in {Path(frames[-1].filename).name}, {frames[-1].name}"
        out.text = "".join(traceback.format_exception(error)[-6:])
    return out


def gradients(out: Outcome, model: Any, columns: Sequence[Sequence[Any]], shared: dict[str, Any]) -> Outcome:
    """Note how far gradients by each route are from the definition."""
    from acronumba import AcronumbaError
    from tests.support.routes import BOUNDS, PROMISED, errors_by_route

    try:
        others = others_of(out.number, out.options)
        given = {name: others[name] for name in PROMISED if name in others}
        out.errors, out.instances = errors_by_route(model, columns, shared, given)
    except AcronumbaError as error:
        out.kind = "a mistake of acronumba" if error.code in ("ACR798", "ACR799") else f"rejected {error.code}"
        out.text = str(error)
        return out
    wrong = [name for name, error in out.errors.items() if not error <= BOUNDS[name]]
    if wrong:
        out.kind, out.text = f"gradients differ: {', '.join(wrong)}", str(out.errors)
    return out


def same_bits(
    module: types.ModuleType, columns: Sequence[Sequence[Any]], shared: dict[str, Any], number: int,
    options: dict[str, Any], report: generate.Report,
) -> tuple[str, str]:  # fmt: skip
    """Return a kind and a text if an instance has other bits in another mini-batch with other options."""
    rng = random.Random(f"order {number}")
    count = len(columns[0])
    order = [rng.randrange(count) for _ in range(rng.randrange(1, 2 * count + 1))]
    others = others_of(number, options)
    model = module.main.with_options(**options)
    specialise(model, bind(model, columns, shared), packed=False)  # for the types of all instances
    again = module.main.with_options(**others)
    specialise(again, bind(again, columns, shared), packed=False)
    done = dispatch.batch(again, [[column[k] for k in order] for column in columns], shared)
    for at, k in enumerate(order):
        mine, first = done.errors.get(at), report.errors.get(k)
        text = f"[{k}] at {at} of {order} with {others}: "
        if (mine is None) != (first is None):
            return "fails elsewhere", f"{text}{mine!r}, not {first!r}"
        if mine is None and bits(done.results[at]) != bits(report.results[k]):
            return "other bits elsewhere", f"{text}{done.results[at]!r}\nnot\n{report.results[k]!r}"
    return "", ""


def changed_in_place(
    model: Any, columns: Sequence[Sequence[Any]], shared: dict[str, Any], sure: bool
) -> tuple[str, str]:
    """Return a kind and a text if a change of shared arrays is not seen: nothing is left of what they were."""
    from acronumba.api.structures import float_arrays

    arrays = [a for a in float_arrays(shared) if isinstance(a, np.ndarray) and a.ndim and a.flags.writeable]
    for a in arrays:
        a[...] = -a[::-1]
    report = generate.examine(model, columns, shared, compiled=True, sure=sure)
    for a in arrays:
        a[...] = -a[::-1]
    if report.differences:
        return f"{report.differences[0].kind} after a change in place", "\n".join(map(str, report.differences))
    return "", ""


def outcome_of(number: int, way: str, folder: Path, of: str = "all") -> Outcome:
    """Run program number n."""
    case = case_of(number, of)
    module = load(case.source, folder)
    try:
        return run(
            module,
            case.instances(module, INSTANCES[way]),
            case.shared_values(module),
            way,
            number,
            options_of(number, way),
        )
    finally:
        forget(module)


# ---- many programs, each in a process that may die


def _serve(pipe: Connection, folder: str, of: str) -> None:
    _quiet()
    if of == "extents":
        poison()
    gc.disable()  # what a program leaves behind is collected after every few: a sixth of the time
    ran = 0
    while True:
        try:
            job = pipe.recv()
        except EOFError:  # the command has ended
            return
        if job is None:
            return
        if of == "extents":
            _small_parts(job[0])
        pipe.send(outcome_of(*job, Path(folder), of))
        ran += 1
        if ran % 20 == 0:
            gc.collect()


def _small_parts(number: int) -> None:
    """Let mini-batches of program number n run in small parts, and equal nodes be looked for without end; or not."""
    from acronumba.runtime import driver, kernel_table

    rng = random.Random(f"parts {number}")
    driver._AIM, driver._LEAST = rng.choice([(1 << 9, 1), (1 << 12, 3), (32 << 20, 128)])
    kernel_table._TRIES = rng.choice([1 << 40, 32])


def _quiet() -> None:
    import warnings

    warnings.simplefilter("ignore")
    np.seterr(all="ignore")


class Worker:
    """A process that runs programs, one at a time."""

    def __init__(self, folder: Path, of: str) -> None:
        self.folder, self.of = folder, of
        self.job: tuple[int, str] | None = None
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=_serve, args=(other, str(self.folder), self.of), daemon=True)
        self.process.start()
        other.close()
        self.ran = 0

    def give(self, job: tuple[int, str]) -> None:
        if self.ran >= RECYCLE:
            self.stop()
            self.start()
        self.job, self.since = job, time.monotonic()
        self.ran += 1
        self.pipe.send(job)

    def take(self) -> Outcome:
        """Return what the job has shown; the process may have died of it."""
        assert self.job is not None
        job, self.job = self.job, None
        try:
            out: Outcome = self.pipe.recv()
            return out
        except EOFError:
            self.process.join()
            code = self.process.exitcode
            self.start()
            return Outcome(*job, options_of(*job), kind=f"the process dies ({code})", text=f"exit status {code}")

    def kill(self, limit: float) -> Outcome:
        assert self.job is not None
        job, self.job = self.job, None
        self.process.kill()
        self.process.join()
        self.start()
        return Outcome(*job, options_of(*job), kind="takes too long", text=f"more than {limit:.0f} s")

    def stop(self) -> None:
        try:
            self.pipe.send(None)
            self.process.join(5)
        except OSError:
            pass
        if self.process.is_alive():
            self.process.kill()


@dataclass
class Tally:
    """What a campaign has shown so far."""

    programs: collections.Counter[str] = field(default_factory=collections.Counter)  # by way
    rejected: collections.Counter[str] = field(default_factory=collections.Counter)  # by code
    examples: dict[str, int] = field(default_factory=dict)  # one number for each code
    instances: int = 0
    failures: int = 0
    wrong: list[Outcome] = field(default_factory=list)
    errors: dict[str, list[float]] = field(default_factory=dict)  # of gradients, by route

    def add(self, out: Outcome) -> None:
        self.programs[out.way] += 1
        self.instances += out.instances
        self.failures += out.failures
        for route, error in out.errors.items():
            self.errors.setdefault(route, []).append(error)
        if out.rejected:
            code = out.kind.removeprefix("rejected ")
            self.rejected[code] += 1
            self.examples.setdefault(code, out.number)
        elif out.wrong:
            self.wrong.append(out)

    def __str__(self) -> str:
        ways = ", ".join(f"{n:,} {way}" for way, n in sorted(self.programs.items())) or "none"
        codes = ", ".join(f"{code} {n} (as {self.examples[code]})" for code, n in sorted(self.rejected.items()))
        kinds = collections.Counter(o.kind for o in self.wrong)
        wrong = "".join(
            f"\n  {n} {kind}: {[o.number for o in self.wrong if o.kind == kind][:8]}" for kind, n in kinds.most_common()
        )
        routes = "".join(
            f"\n  gradients by {route}: {len(of)} programs, median {statistics.median(of):.1e}, largest {max(of):.1e}"
            for route, of in self.errors.items()
        )
        return (
            f"programs: {ways}; rejected: {codes or 'none'}; instances: {self.instances:,}, of which the plain call "
            f"fails {self.failures:,}; differences: {len(self.wrong)}{routes}{wrong}"
        )


def campaign(
    first: int, count: int | None, minutes: float | None, ways: Sequence[str], jobs: int, limit: float,
    log: Path | None, stop: bool = False, of: str = "all",
) -> Tally:  # fmt: skip
    """Run programs from `first` on, until there are so many, the time is over, or Ctrl-C."""
    tally, number, end = Tally(), first, time.monotonic() + 60 * (minutes or 1e9)
    todo = [(number, way) for way in ways]
    start = shown = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        workers = [Worker(Path(folder), of) for _ in range(jobs)]
        try:
            while True:
                for worker in workers:
                    if worker.job is None and time.monotonic() < end and (count is None or number < first + count):
                        worker.give(todo.pop(0))
                        if not todo:
                            number += 1
                            todo = [(number, way) for way in ways]
                busy = {w.pipe: w for w in workers if w.job is not None}
                if not busy:
                    return tally
                outs = [busy[pipe].take() for pipe in wait(list(busy), timeout=1.0)]  # type: ignore[index]
                outs += [w.kill(limit) for w in workers if w.job is not None and time.monotonic() - w.since > limit]
                for out in outs:
                    tally.add(out)
                    if out.kind and log is not None:
                        with log.open("a") as f:
                            f.write(json.dumps(vars(out)) + "\n")
                    if out.wrong:
                        end = 0.0 if stop else end
                        print(f"\n{out.way} {out.number}: {out.kind}\n{out.text[:600]}", flush=True)
                if time.monotonic() - shown > 20:
                    shown = time.monotonic()
                    done = sum(tally.programs.values())
                    print(
                        f"[{shown - start:.0f} s, {(shown - start) / max(done, 1):.3f} s each, next {number}] {tally}",
                        flush=True,
                    )
        except KeyboardInterrupt:
            print(f"\nended before program {number}")
            return tally
        finally:
            for worker in workers:
                worker.stop()


# ---- what is wrong, made small


def _symptom(pipe: Connection, text: str, way: str, number: int, options: dict[str, Any], folder: str) -> None:
    """Send what is wrong with the module of a text (see `shrink.text_of`)."""
    _quiet()
    try:
        module = load(text, Path(folder))
        columns = [list(column) for column in zip(*module.INSTANCES, strict=True)]
        plain = generate.plain_results(module.main.__wrapped__, columns, module.SHARED)
    except Exception:
        pipe.send("")
        return
    if not columns or any(isinstance(p, NameError | TypeError | AttributeError) for p in plain):
        pipe.send("")
        return
    pipe.send(run(module, columns, module.SHARED, way, number, options, sure=False).kind)


def symptom(text: str, way: str, number: int, options: dict[str, Any], folder: Path, limit: float = 60.0) -> str:
    """Return what is wrong with the module of a text, found in a process of its own; "" if nothing is."""
    context = multiprocessing.get_context("fork" if way == "interpreter" else "spawn")
    pipe, other = context.Pipe()
    process = context.Process(target=_symptom, args=(other, text, way, number, options, str(folder)), daemon=True)
    process.start()
    other.close()
    try:
        if not pipe.poll(limit):
            return "takes too long"
        answer: str = pipe.recv()
        return answer
    except EOFError:
        process.join()
        return f"the process dies ({process.exitcode})"
    finally:
        process.kill()
        process.join()


def small_test(out: Outcome, seconds: float, of: str = "all") -> str:
    """Return the program of an outcome, shrunken, as a file for pytest."""
    case = case_of(out.number, of)
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        _quiet()
        outcome_of(0, "interpreter", place)  # what is imported here is imported in what is forked
        module = load(case.source, place)
        columns, shared = case.instances(module, INSTANCES[out.way]), case.shared_values(module)
        text = shrink.text_of(case.source, module, columns, shared)
        way, options = out.way, dict(out.options)
        limit = 60.0 if out.kind == "takes too long" else 180.0
        # The interpreter is fastest: what it shows, too, is shrunk there. An option that does nothing to it is dropped.
        wanted = symptom(text, way, out.number, options, place, limit)
        if not wanted:
            return f"# program {out.number}: once more it shows nothing\n"
        if way != "interpreter" and symptom(text, "interpreter", out.number, options, place) == wanted:
            way = "interpreter"
        for name in [n for n in options if n != "max_steps"]:
            fewer = {k: v for k, v in options.items() if k != name}
            if symptom(text, way, out.number, fewer, place, limit) == wanted:
                options = fewer
        text = shrink.shrunk(text, lambda t: symptom(t, way, out.number, options, place, limit), seconds)
        final = load(text, place)
        columns = [list(column) for column in zip(*final.INSTANCES, strict=True)]
        expected = [
            repr(p).replace("\n", " ") for p in generate.plain_results(final.main.__wrapped__, columns, final.SHARED)
        ]
        if way == "simulator":
            expected.append('run with .on("simulator")')
        if way == "gradients":
            expected.append("see what `tests.support.routes.errors_by_route` says of it")
    note = f"# Program {out.number} of tests/fuzz.py, through the {way}: {wanted}\n"
    return note + shrink.test_text(text, f"program_{out.number}", options, way != "interpreter", expected)


def main() -> int:
    parser = argparse.ArgumentParser(description="Random programs against the plain call.")
    parser.add_argument("--minutes", type=float, help="end after so long")
    parser.add_argument("--count", type=int, help="end after so many programs")
    parser.add_argument(
        "--from", type=int, default=0, dest="first", metavar="N", help="the number of the first program"
    )
    parser.add_argument("--through", choices=[*WAYS, "all"], default="interpreter")
    parser.add_argument("--of", choices=["all", "extents"], default="all", help="who draws the programs")
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for one program")
    parser.add_argument("--shrink", type=float, default=120.0, help="seconds for making one failure small; 0: leave it")
    parser.add_argument("--log", type=Path, help="append rejections and differences to this file, a line of JSON each")
    parser.add_argument("--stop", action="store_true", help="end at the first difference")
    parser.add_argument("--show", action="store_true", help="print the text of the first program and end")
    given = parser.parse_args()
    if given.show:
        print(case_of(given.first, given.of).source)
        return 0
    if given.minutes is None and given.count is None:
        parser.error("say --minutes or --count")
    ways = WAYS if given.through == "all" else (given.through,)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)  # also in the background
    with tempfile.TemporaryDirectory() as cache:
        os.environ.setdefault("ACRONUMBA_CACHE_DIR", cache)
        for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
            os.environ.setdefault(variable, "1")
        tally = campaign(
            given.first, given.count, given.minutes, ways, given.jobs, given.limit, given.log, given.stop, given.of
        )
        print(tally, flush=True)
        kinds: dict[str, Outcome] = {}
        for out in tally.wrong:
            kinds.setdefault(f"{out.way} {out.kind}", out)
        if given.shrink:
            for out in kinds.values():
                print(f"\n{small_test(out, given.shrink, given.of)}", flush=True)
    return 1 if tally.wrong else 0
