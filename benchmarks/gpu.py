"""Results and figures of the zoo on a GPU: one command for a machine that may have no network and no compilers.

    python benchmarks/gpu.py [--models NAME ...] [--size small|large|N ...] [--batch N ...] [--json FILE]
    python benchmarks/gpu.py --compile 9.0          only compile, for a GPU of this compute capability; needs none

In this order, until the time is up (`--minutes`):

1. what the GPU can do at most (`acronumba_bench.gpu.floors`), the cycles of instructions by its clock
   (`acronumba_bench.gpu.instructions`), and kernels of some models alone (`acronumba_bench.gpu.alone`; by Nsight
   Compute, too, where it is installed), beside the estimates of `benchmarks/results/cycles-sm90a.json`, which
   `benchmarks/cubins.py --cycles` has made;
2. mini-batches of a few models, back to back, after pauses, and with each value of the option `persistent`, and their
   stages on the processor (`timeline`);
3. every model's results are compared with the plain calls, several at the same time; so are the gradients of its
   parameters, with those of the processor, from random cotangents of its results;
4. mini-batches take turns with PyTorch one by one, by hand, and by hand in a CUDA graph, where PyTorch is installed,
   and, of the small size, with our kernels on the processor. What differs is not timed;
5. steps of training (loss, gradients, update) of the losses of `acronumba_bench.lessons`, in turns with inference,
   with the same steps on the processor, and with PyTorch by hand, where it is installed;
6. compute-sanitizer, where it is installed, watches one model's memory and its races, there and back; and what
   PyTorch's libraries reach.

`--only inference` or `--only training` leaves the other half out, `--only kernels` all but the first step.

Everything runs in child processes, which may crash or hang. The file is written again after every step; what there was
no time for is listed. The exit status is 1 if results were wrong or something failed. What is compiled is kept in the
cache directory: a machine without compilers needs a copy of it (`make gpu-carry`), and a driver.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from acronumba.api.dispatch import bind, specialise
from relay import Request, answer, relay, serve

HEAVY = {"berxit", "berxit_emulated"}  # of these, few instances are compared: the plain calls take long
DIFFERS = 1e-3  # relative to the largest number: what differs by more is not timed
WATCHED = "tree_lstm"  # by compute-sanitizer
TIMELINES = ("tree_lstm", "birnn", "stack_rnn")  # models of which a mini-batch is looked at closely
ALONE = ("tree_lstm", "birnn", "mv_rnn", "listops", "child_sum_lstm", "bilstm_tagger")  # whose kernels run alone
ROWS = (1, 8, 16, 64, 256, 700)  # nodes of a batch of these
LAUNCHES = 3  # of each of these for the profiler
ESTIMATES = Path(__file__).resolve().parent / "results" / "cycles-sm90a.json"
PAUSES = (0.0, 1e-4, 1e-2)  # seconds before a mini-batch
PERSISTENT = (None, True, "graph", False)  # values of this option
FEW = 8  # instances from which on PyTorch one by one takes no turn: it takes as much longer as there are more
PACKAGES = ("numpy", "numba", "llvmlite", "numba-cuda", "cuda-core", "cuda-bindings", "torch")
KINDS = {"check": "checks", "gradients": "gradients"}  # of comparisons: where the report has them
SELF = [sys.executable, str(Path(__file__).resolve())]


# ---------------------------------------------------------------------------------------- what the child processes do


def about(device: str) -> dict[str, Any]:
    """Return what figures depend on."""
    from acronumba.bench.measure import machine

    out: dict[str, Any] = {"machine": machine(), "versions": versions(), "device": device}
    if device.startswith("cuda"):
        from acronumba.runtime.devices.driver import gpu

        one = gpu(ordinal(device))
        out |= {"gpu": one.name, "capability": one.capability, "driver": driver()}
    return out


def versions() -> dict[str, str]:
    """Return the versions of what is installed; of PyTorch also those of what comes with it."""
    out = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            out[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            out[name] = "none"
    return out


def driver() -> str:
    """Return the version of the driver."""
    try:
        command = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.split()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return "unknown: no nvidia-smi"


def ordinal(device: str) -> int:
    """Return a GPU's number from "cuda" or "cuda:1"."""
    return int(device.partition(":")[2] or 0)


def check(model: str, size: str | int, device: str, batch: int = 8) -> dict[str, Any]:
    """Compare a model's results with those of the plain calls."""
    from acronumba.bench.agreement import agreement, in_float64, plain
    from acronumba.bench.workloads import inputs
    from acronumba_bench.workloads import WORKLOADS

    workload = WORKLOADS[model]
    xs, p = inputs(workload, size, batch, None)
    begun = time.perf_counter()
    got = workload.model.on(device).batch(xs, p=p)
    first = time.perf_counter() - begun
    some = xs[: 1 if model in HEAVY else batch]
    expected = plain(workload.model, some, p)
    exact = plain(workload.model, some, in_float64(p))
    verdict, error = agreement(list(got)[: len(some)], expected, exact)
    if compared_here(model, size):
        workload.model.on("cpu").batch(xs, p=p)  # compiled here, where it does not cost the figures their time
    out: dict[str, Any] = {"verdict": verdict, "error": error, "first": first}
    return {**out, "functions": functions(model, size, device)} if device.startswith("cuda") else out


def gradients(model: str, size: str | int, device: str, batch: int = 8) -> dict[str, Any]:
    """Compare the gradients of a model's parameters with those of the processor."""
    import numpy as np

    from acronumba import vjp
    from acronumba.api.shadow import BOUNDS, FACTOR
    from acronumba.api.structures import float_arrays, structured
    from acronumba.bench.workloads import inputs
    from acronumba_bench.workloads import WORKLOADS

    workload = WORKLOADS[model]
    xs, p = inputs(workload, size, 1 if model in HEAVY else batch, None)
    rng = np.random.default_rng(0)
    results, here = vjp(workload.model, wrt="p").batch(xs, p=p)
    given = [structured(r, lambda x: rng.standard_normal(np.shape(x)).astype(np.asarray(x).dtype)) for r in results]
    exact = float_arrays(here(given))
    begun = time.perf_counter()
    _, there = vjp(workload.model.on(device), wrt="p").batch(xs, p=p)
    mine = float_arrays(there(given))
    first = time.perf_counter() - begun
    error = 0.0
    for g, e in zip(mine, exact, strict=True):
        largest = float(np.abs(e).max(initial=0.0))
        apart = float(np.abs(g - e).max(initial=0.0))
        error = max(error, apart / largest if largest else apart)
    verdict = "close" if error <= FACTOR * BOUNDS["float32"] else "different"
    return {"verdict": verdict, "error": error, "first": first, "arrays": len(exact)}


def compared_here(model: str, size: str | int) -> bool:
    """Return whether our kernels on the processor take part: where that takes no seconds."""
    return size != "large" and model not in HEAVY


def functions(model: str, size: str | int, device: str) -> dict[str, Any]:
    """Return what each function of a model's kernels needs, and how many of its blocks a multiprocessor runs."""
    from acronumba.kernels.cuda.cubins import machines
    from acronumba.kernels.cuda.tiles import THREADS
    from acronumba_bench.gpu.meter import Meter

    meter = Meter(ordinal(device))
    out = {}
    for code in codes(model, size):
        suffix = "a" if meter.capability == (9, 0) else ""
        (handles,) = meter.load([code])
        for entry, handle, made in zip(code.entries, handles, machines(code, meter.capability, suffix), strict=True):
            out[entry] = {
                "registers": made.registers, "spills": made.spills, "shared": made.shared,
                "resident blocks": meter.resident(handle, THREADS),
            }  # fmt: skip
    return out


def training_codes(model: str, size: str | int) -> list[Any]:
    """Return the kernels of a model's pullback there and back, of sums, and of updates, as they are generated for GPUs.

    With them come nodes of graphs, and the one kernel that runs all those of the forward pass.
    """
    from acronumba.analysis.backward.program import plan_backward
    from acronumba.bench.workloads import inputs
    from acronumba.ir.types import TensorT
    from acronumba.kernels.cuda import sums
    from acronumba.kernels.cuda.graphs import nodes_of
    from acronumba.pipeline.link_device import back_codes, device_codes, once_codes
    from acronumba.runtime.devices import steps
    from acronumba_bench.lessons import LESSONS
    from acronumba_bench.workloads import WORKLOADS

    workload = WORKLOADS[model]
    xs, p = inputs(workload, size, 2, None)
    given: list[tuple[Any, tuple[Any, ...], int | None]] = [(workload.model, (xs,), None)]
    if model in LESSONS:
        given.append((LESSONS[model].loss, LESSONS[model].columns(xs), 1))
    out: list[Any] = []
    for on_processor, columns, width in given:
        f = on_processor.on(some_device())  # devices have options of their own
        one = specialise(f, bind(f, columns, {"p": p}))[0]
        tensors = [(k, s.type) for k, s in enumerate(one.program.shared)]
        wanted = {k for k, t in tensors if isinstance(t, TensorT) and t.dtype.startswith("float")}
        back = plan_backward(one.plan, wanted, width, cheap=True)
        those = back_codes(back, one.options)
        out += [*forms([*device_codes(back.plan, one.options).values()]), *those, *map(nodes_of, those)]
        out += once_codes(back.plan, one.options)
    return [*out, sums.code("float32"), steps.code("float32")]


def forms(codes: list[Any]) -> list[Any]:
    """Return kernels in each form that they are launched in: by themselves, as nodes of graphs, and all as one."""
    from acronumba.kernels.cuda.graphs import nodes_of
    from acronumba.kernels.cuda.persistent import persistent

    return [*codes, *map(nodes_of, codes), *([persistent(codes)] if codes else [])]


def some_device() -> str:
    """Return a device of this machine, to generate code for: a GPU, or else the simulator, which needs greenlet."""
    from acronumba.runtime.devices.driver import missing

    return "simulator" if missing() else "cuda"


def codes(model: str, size: str | int) -> list[Any]:
    """Return the kernels of a model, as they are generated for GPUs."""
    from acronumba.bench.workloads import inputs
    from acronumba.pipeline.link_device import device_codes
    from acronumba_bench.workloads import WORKLOADS

    workload = WORKLOADS[model]
    xs, p = inputs(workload, size, 2, None)
    f = workload.model.on(some_device())  # devices have options of their own
    one = specialise(f, bind(f, (xs,), {"p": p}))[0]
    return [*device_codes(one.plan, one.options).values()]


def compiled(model: str, size: str | int, capability: list[int]) -> int:
    """Compile all kernels of a model; return how many functions they have."""
    import cubins
    from acronumba.kernels.cuda.cubins import machines
    from acronumba.kernels.cuda.persistent import persistent

    major, minor = capability
    suffix = "a" if (major, minor) == (9, 0) else ""
    every = [*forms(codes(model, size)), *training_codes(model, size)]
    if model in ALONE:
        those = [code for _, code in cubins.different(model, size)]
        every += [*those, *(persistent([code]) for code in those)]
        every += [persistent([code], 0) for code in those] if model in ALONE[:2] else []
    return sum(len(machines(code, (major, minor), suffix)) for code in every)


def floor(part: str, device: str) -> dict[str, Any]:
    """Measure a part of what the GPU can do at most."""
    from acronumba_bench.gpu import floors
    from acronumba_bench.gpu.meter import Meter

    return floors.PARTS[part](floors.Floors(Meter(ordinal(device))))


def clock(part: str, device: str) -> dict[str, Any]:
    """Measure a part of the cycles of instructions; of those that are estimated, say so, too."""
    from acronumba_bench.gpu.floors import Floors
    from acronumba_bench.gpu.instructions import PARTS, Clocks, constants
    from acronumba_bench.gpu.meter import Meter

    found = PARTS[part](Clocks(Floors(Meter(ordinal(device)))))
    thought = estimates(part) or {}
    return {"measured": found, "estimated": thought, "constants": constants(found, thought)}


def alone(model: str, size: str | int, device: str, rows: Sequence[int], how: str) -> list[dict[str, Any]]:
    """Time the kernels of a model alone: "functions" as they are launched, "steps" of the persistent kernel, or such
    whose weights are "copied" in each.

    Each row has cycles by the clock of that moment (GHz), those that were estimated, and how far off that was.
    """
    import cubins
    from acronumba.kernels.cuda.persistent import persistent
    from acronumba_bench.gpu.alone import Alone
    from acronumba_bench.gpu.floors import Floors, tried
    from acronumba_bench.gpu.instructions import Clocks
    from acronumba_bench.gpu.meter import Meter

    meter = Meter(ordinal(device))
    made = cubins.different(model, size)
    room = () if how == "steps" else (0,)
    meter.load([code if how == "functions" else persistent([code], *room) for _, code in made])  # several at a time
    there = Alone(Clocks(Floors(meter)))
    out: list[dict[str, Any]] = []
    for spec, code in made:
        found = tried(partial(listed, getattr(there, how), spec, code, rows))
        out += [{"function": spec.name, "failed": found}] if isinstance(found, str) else found
    thought = estimated_cycles()
    for row in out:
        if row.get("warm us", 0) > 0:
            row["cycles"] = row["warm us"] * row["GHz"] * 1000
            if cycles := thought.get((model, size, row["function"], row["rows"])):
                row |= {"estimated cycles": cycles, "off": cycles / row["cycles"] - 1}
    return out


def once(models: Sequence[str], size: str | int, device: str, rows: Sequence[int]) -> list[dict[str, Any]]:
    """Launch the kernels of models, `LAUNCHES` times each, and nothing else, for the profiler."""
    import cubins
    from acronumba_bench.gpu.alone import launched
    from acronumba_bench.gpu.meter import Meter

    meter, out = Meter(ordinal(device)), list[dict[str, Any]]()
    for model in models:
        for spec, code in cubins.different(model, size):
            out += [{"model": model, **row} for row in launched(meter, spec, code, rows, LAUNCHES)]
    return out


def listed(make: Callable[..., Iterator[Any]], *args: Any) -> list[Any]:
    return list(make(*args))


def estimates(part: str) -> Any:
    """Return a part of what `benchmarks/cubins.py --cycles` has estimated."""
    return json.loads(ESTIMATES.read_text(encoding="utf-8")).get(part) if ESTIMATES.exists() else None


def estimated_cycles() -> dict[tuple[Any, ...], int]:
    """Return estimated cycles by model, size, function and rows."""
    keys = ("model", "size", "function", "rows")
    return {tuple(r[k] for k in keys): r["cycles"] for r in estimates("estimates") or () if "cycles" in r}


def library(part: str, device: str) -> dict[str, Any]:
    """Measure what PyTorch's libraries reach."""
    import libraries
    from acronumba_bench.baselines.by_torch import sees_gpus

    if not sees_gpus():
        return {**libraries.versions(), "not measured": "PyTorch sees no GPU"}
    return {**libraries.versions(), **getattr(libraries, part)(device)}


def row(
    model: str, size: str | int, batch: int, device: str, rounds: int, floors: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Time a model, in turns with what it is compared with."""
    from acronumba.bench import speed
    from acronumba.bench.instruments import Instruments
    from acronumba_bench import baselines
    from acronumba_bench.baselines import TORCH_EACH
    from acronumba_bench.gpu.floors import of_gpu
    from acronumba_bench.instruments import limits
    from acronumba_bench.workloads import WORKLOADS

    without = [TORCH_EACH] if batch > FEW or model in HEAVY else []
    without += [] if compared_here(model, size) else [speed.HERE]
    compared = 1 if model in HEAVY else FEW
    without_joules = Instruments(makers=baselines.makers, ceiling=limits)
    given: dict[str, Any] = {"rounds": rounds, "device": device, "compared": compared, "without": without}
    found = speed.row(WORKLOADS[model], without_joules, size, batch, **given)
    out = dataclasses.asdict(found)
    if floors and "rates" in floors and "chains" in floors:
        out["floors"] = found.floors(of_gpu(floors["rates"], floors["chains"]))
    return out


def timeline(model: str, size: str | int, batch: int, device: str, rounds: int) -> dict[str, Any]:
    """Return the milliseconds of a mini-batch of packed data, back to back, after pauses and in other launches, and of
    its stages.
    """
    import statistics

    from acronumba import pack
    from acronumba.bench.workloads import inputs
    from acronumba_bench.workloads import WORKLOADS

    workload = WORKLOADS[model]
    xs, p = inputs(workload, size, batch, None)
    ours, packed, shared = workload.model.on(device), pack(xs), pack(p)
    ways = [(ours, f"{pause * 1e3:g} ms", pause) for pause in PAUSES]
    ways += [(ours.with_options(persistent=how), str(how), 0.0) for how in PERSISTENT]
    taken: dict[str, list[float]] = {name: [] for _, name, _ in ways}
    for k in range(rounds + 3):
        for its, name, pause in ways:
            time.sleep(pause)
            begun = time.perf_counter()
            list(its.batch(packed, p=shared))
            taken[name] += [time.perf_counter() - begun] if k >= 3 else []
    median = {name: 1e3 * statistics.median(times) for name, times in taken.items()}
    stages = [ours.trace(packed, p=shared).data.seconds for _ in range(3)]
    return {
        "model": model, "size": size, "instances": batch,
        "after a pause of": {name: median[name] for _, name, _ in ways[: len(PAUSES)]},
        "persistent": {name: median[name] for _, name, _ in ways[len(PAUSES) :]},
        "stages": {name: 1e3 * statistics.median(s[name] for s in stages) for name in stages[0]},
    }  # fmt: skip


def step(lesson: str, size: str | int, batch: int, device: str, rounds: int) -> dict[str, Any]:
    """Time steps of training."""
    from acronumba_bench import training
    from acronumba_bench.lessons import LESSONS

    return dataclasses.asdict(training.row(LESSONS[lesson], size, batch, rounds=rounds, device=device))


CHILD: dict[str, Callable[..., Any]] = {
    "about": about, "check": check, "gradients": gradients, "compiled": compiled, "floor": floor, "clock": clock,
    "alone": alone, "once": once, "library": library, "row": row, "step": step, "timeline": timeline,
}  # fmt: skip


# ------------------------------------------------------------------------------------------------------ what asks them


class Report:
    """What is known so far: printed, and written anew after every step."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.begun = time.monotonic()
        self.data: dict[str, Any] = {
            "checks": {}, "gradients": {}, "sanitizer": {}, "floors": {}, "clocks": {}, "alone": {}, "libraries": {},
            "rows": [], "steps": [], "timelines": [],
        }  # fmt: skip
        self.data |= {"failed": {}, "left out": []}

    def take(self, request: Request, reply: dict[str, Any]) -> None:
        """Note a reply."""
        result: Any = reply.get("result")
        if "error" in reply:
            self.data["failed"][request.name] = reply
        elif request.do == "about":
            self.data |= result
        elif request.do in KINDS:
            self.data[KINDS[request.do]][f"{request.args['model']} {request.args['size']}"] = result
        elif request.do == "floor":
            self.data["floors"][request.args["part"]] = result
        elif request.do == "clock":
            self.data["clocks"][request.args["part"]] = result
        elif request.do == "alone":
            self.data["alone"][f"{request.args['model']} {request.args['how']}"] = result
        elif request.do == "library":
            self.data["libraries"][request.args["part"]] = result
        elif request.do in ("row", "step", "timeline"):
            self.data[f"{request.do}s"].append(result)
        if "error" in reply:
            shown = reply["error"]
        elif request.do == "row":
            shown = in_short(result)
        elif request.do == "step":
            shown = f"ms: {times_of(result)}; largest error {max(result['errors'].values()):.1e}"
        elif request.do == "alone":
            shown = beside(result)
        else:
            shown = json.dumps({name: value for name, value in result.items() if name != "functions"})
        print(f"{request.name}: {shown}", flush=True)
        self.write()

    def write(self) -> None:
        """Write the file, if one is wanted: as a whole."""
        self.data["seconds"] = time.monotonic() - self.begun
        if self.file:
            part = self.file.with_name(self.file.name + ".part")
            part.write_text(json.dumps(self.data, indent=1) + "\n", encoding="utf-8")
            os.replace(part, self.file)

    def differs(self, model: str, size: str | int, kind: str = "checks") -> bool:
        """Return whether a model's results, or gradients, are too far from what they should be to be worth a time."""
        found = self.data[kind].get(f"{model} {size}")
        return found is None or (found["verdict"] == "different" and not 0 < found["error"] <= DIFFERS)

    @property
    def wrong(self) -> list[str]:
        """What must not be."""
        out = [f"{'gradients of ' if kind == 'gradients' else ''}{name}: {c['verdict']}, {c['error']:.1e}"
               for kind in KINDS.values() for name, c in self.data[kind].items()
               if c["verdict"] == "different"]  # fmt: skip
        out += [f"compute-sanitizer {tool}: {said}" for tool, said in self.data["sanitizer"].items() if "found" in said]
        out += [f"{r['workload']} {r['size']} {r['instances']}: {name}" for r in self.data["rows"]
                for name, verdict in r["verdicts"].items() if verdict == "different"]  # fmt: skip
        out += [f"steps of {r['workload']} {r['size']} {r['instances']}" for r in self.data["steps"] if r["wrong"]]
        return out + [f"{name}: {reply['error']}" for name, reply in self.data["failed"].items()]


def times_of(r: dict[str, Any]) -> str:
    """Return the medians of a row in milliseconds."""
    return ", ".join(f"{name} {q['median'] * 1e3:.3f}" for name, q in r["seconds"].items())


def in_short(r: dict[str, Any]) -> str:
    """Return the medians of a row in milliseconds, and what it takes at least."""
    least = ", ".join(f"{name} {seconds * 1e3:.3f}" for name, seconds in r.get("floors", {}).items())
    return f"ms: {times_of(r)}; floors: {least or 'not measured'}; {r['launches']} launches, {r['nodes']} nodes"


def beside(rows: list[dict[str, Any]]) -> str:
    """Return the microseconds of kernels alone, and how far off their estimates are."""
    return "; ".join(
        f"{r['function']} {r['failed']}" if "failed" in r
        else f"{r['function']} {r['rows']}: {r['warm us']:.2f} us, off {r.get('off', float('nan')):+.0%}"
        for r in rows
    )  # fmt: skip


def slowest(rows: list[dict[str, Any]], count: int = 5) -> list[dict[str, Any]]:
    """Return the rows that lose most against their best baseline, or win least, and what their time is made of."""
    out = []
    for r in rows:
        others = {name: q["median"] for name, q in r["seconds"].items() if name.startswith("PyTorch")}
        if others:
            best = min(others, key=others.__getitem__)
            own = r["seconds"]["ours, packed"]["median"]
            keys = (
                "workload",
                "size",
                "instances",
                "launches",
                "nodes",
                "product_flops",
                "bytes",
                "stages",
                "ways",
                "floors",
            )
            out.append({"times": own / others[best], "of": best, **{key: r.get(key) for key in keys}})
    return sorted(out, key=lambda r: -r["times"])[:count]


def sanitize(report: Report, device: str, size: str | int, end: float) -> None:
    """Let compute-sanitizer watch one model, if it is installed."""
    program = shutil.which("compute-sanitizer") or "/usr/local/cuda/bin/compute-sanitizer"
    there = Path(program).is_file()
    what = {"do": "check", "args": {"model": WATCHED, "size": size, "device": device, "batch": 2}}
    for tool, request in (("memcheck", what), ("racecheck", what), ("memcheck back", {**what, "do": "gradients"})):
        left = min(40.0, end - time.monotonic())
        if not there or left < 10:
            said = "no time left" if there else "compute-sanitizer is not installed"
        else:
            command = [program, "--tool", tool.split()[0], "--error-exitcode", "77", *SELF, "--do", json.dumps(request)]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=left, check=False)
                summary = [line for line in (done.stdout + done.stderr).splitlines() if "SUMMARY" in line]
                said = (summary or [f"no summary: {(done.stdout + done.stderr)[-500:]}"])[-1].strip("= ")
                said = f"found: {done.stdout[-2000:]}" if done.returncode == 77 else said
            except subprocess.TimeoutExpired:
                said = f"took longer than {left:.0f} s"
        report.data["sanitizer"][tool] = said
        print(f"compute-sanitizer {tool}: {said}", flush=True)
        report.write()


def profiled(report: Report, device: str, models: Sequence[str], size: str | int, end: float) -> None:
    """Let Nsight Compute count the cycles of kernels alone, if it is installed."""
    from acronumba_bench.gpu.profiler import profile

    args = {"models": list(models), "size": size, "device": device, "rows": list(ROWS)}
    found = profile([*SELF, "--do", json.dumps({"do": "once", "args": args})], min(60.0, end - time.monotonic()))
    for row in found if isinstance(found, list) else ():
        if cycles := estimated_cycles().get((row["model"], size, row["function"], row["rows"])):
            row |= {"estimated cycles": cycles, "off": cycles / max(row.get("cycles", 0.0), 1.0) - 1}
    report.data["profiled"] = found
    print(f"profiled: {found if isinstance(found, str) else f'{len(found)} launches'}", flush=True)
    report.write()


def measure(args: argparse.Namespace, sizes: list[str | int], report: Report) -> None:
    """Do everything, the most valuable first."""
    from acronumba_bench.baselines import BATCHED
    from acronumba_bench.lessons import LESSONS

    device, on_gpu = args.device, args.device.startswith("cuda")
    end = report.begun + 60 * args.minutes
    child = [*SELF, "--serve"]

    def ask(requests: list[Request], at_once: int = 1) -> None:
        left = relay(requests, child, report.take, end=end, at_once=at_once)
        report.data["left out"] += [request.name for request in left]

    ask([Request(do="about", args={"device": device})])
    if on_gpu:
        from acronumba_bench.gpu.floors import PARTS

        ask([Request(do="floor", args={"part": part, "device": device}, cap=30.0) for part in PARTS])
        by_clock = ("instructions", "copies", "code")
        ask([Request(do="clock", args={"part": part, "device": device}, cap=30.0) for part in by_clock])
        lonely = [m for m in args.models if m in ALONE and args.only != "training"]
        own: dict[str, Any] = {"size": sizes[0], "device": device, "rows": list(ROWS)}
        ask([Request(do="alone", args={"model": m, **own, "how": how}, cap=45.0)
             for how, those in (("functions", lonely), ("steps", lonely), ("copied", lonely[:2]))
             for m in those])  # fmt: skip
        if lonely:
            profiled(report, device, lonely, sizes[0], end)
    given = {"device": device, "rounds": args.rounds}
    if args.only == "kernels":
        return
    if args.only != "training":
        closely = [m for m in args.models if m in TIMELINES] or args.models[:1]
        ask([Request(do="timeline", args={"model": m, "size": sizes[0], "batch": b, **given}, cap=30.0)
             for m in closely for b in args.batch])  # fmt: skip
    pairs = [(model, size) for size in sizes for model in args.models]
    for do in [do for do, half in (("check", "inference"), ("gradients", "training")) if args.only in (None, half)]:
        ask([Request(do=do, args={"model": m, "size": s, "device": device}, cap=120.0) for m, s in pairs], args.jobs)
    rows = []
    for size in sizes if args.only != "training" else ():
        for batch in args.batch:
            for model in args.models:
                if not report.differs(model, size):
                    those = {"model": model, "size": size, "batch": batch, **given, "floors": report.data["floors"]}
                    rows.append(Request(do="row", args=those, cap=45.0))
    rows.sort(key=lambda request: request.args["model"] not in BATCHED)  # what has baselines first
    ask(rows)
    if args.only != "inference":
        steps = [(m, s, b) for s in sizes for b in args.batch for m in args.models if m in LESSONS]
        steps = [(m, s, b) for m, s, b in steps if not report.differs(m, s, "gradients")]
        ask([Request(do="step", args={"lesson": m, "size": s, "batch": b, **given}, cap=45.0) for m, s, b in steps])
    if on_gpu:
        sanitize(report, device, sizes[0], end)
        if report.data.get("versions", {}).get("torch", "none") != "none":
            ask([Request(do="library", args={"part": part, "device": device}, cap=40.0)
                 for part in ("recurrent", "products")])  # fmt: skip
    report.data["slowest"] = slowest(report.data["rows"])
    report.write()


def compile_all(args: argparse.Namespace, sizes: list[str | int]) -> int:
    """Compile the kernels of all models; return the exit status."""
    capability = [int(part) for part in args.compile.split(".")]
    failed: list[str] = []

    def take(request: Request, reply: dict[str, Any]) -> None:
        print(f"{request.name}: {reply.get('error') or str(reply['result']) + ' functions'}", flush=True)
        failed.extend([request.name] if "error" in reply else [])

    wanted = [{"model": m, "size": s, "capability": capability} for s in sizes for m in args.models]
    relay([Request(do="compiled", args=a, cap=1800.0) for a in wanted], [*SELF, "--serve"], take, at_once=args.jobs)
    return int(bool(failed))


def main(argv: list[str] | None = None) -> int:
    """Run; return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="*")
    parser.add_argument("--size", nargs="*", default=["small", "large"])
    parser.add_argument("--batch", nargs="*", type=int, default=[64, 8])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--minutes", type=float, default=6.5, help="begin nothing new after so many")
    parser.add_argument("--jobs", type=int, default=max(1, min(12, (os.cpu_count() or 1) - 1)), help="at the same time")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1; simulator to rehearse with --models and --size")
    parser.add_argument("--only", choices=["inference", "training", "kernels"], help="leave the rest out")
    parser.add_argument("--compile", metavar="X.Y")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--do", help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.serve:
        serve(CHILD)
        return 0
    if args.do:
        reply = answer(CHILD, json.loads(args.do))
        print(json.dumps(reply))
        return int("error" in reply)
    from acronumba_bench.workloads import WORKLOADS

    if args.models is None:
        args.models = sorted(WORKLOADS, key=lambda name: name in HEAVY)
    if wrong := [name for name in args.models if name not in WORKLOADS]:
        parser.error(f"no model {wrong[0]!r}; there are: {', '.join(WORKLOADS)}")
    sizes = [int(s) if s.isdigit() else s for s in args.size]
    if args.compile:
        return compile_all(args, sizes)
    if args.device.startswith("cuda"):
        from acronumba.runtime.devices.driver import missing

        if why := missing(ordinal(args.device)):
            print(f"no GPU to measure: {why}", file=sys.stderr)
            return 1
    for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
        os.environ.setdefault(name, "1")  # of the plain calls, several of which run at the same time
    report = Report(args.json)
    measure(args, sizes, report)
    for line in [f"wrong: {line}" for line in report.wrong] + [f"left out: {line}" for line in report.data["left out"]]:
        print(line)
    return int(bool(report.wrong))


if __name__ == "__main__":
    sys.exit(main())
