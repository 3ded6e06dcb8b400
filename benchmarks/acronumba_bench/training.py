"""Time of a training step: loss, gradients and update, against inference and against hand-written steps.

In: lessons, sizes, numbers of instances. Out: a `Steps` of plain numbers. All competitors run in this process, in
turns, after their losses and gradients have been compared: with hand-written NumPy in float64 if it exists, else with
the reference.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from acronumba import leaves, model, on_device, optim, pack
from acronumba.api.effects import count
from acronumba.api.shadow import BOUNDS, FACTOR
from acronumba.api.structures import structured
from acronumba.bench.agreement import in_float64
from acronumba.bench.by_hand import BY_NUMPY
from acronumba.bench.ceiling import burst
from acronumba.bench.measure import Quartiles, interleaved, machine, timed
from acronumba.bench.workloads import inputs
from acronumba_bench.baselines import BY_DYNET, BY_TORCH, TORCH_EACH
from acronumba_bench.baselines import training_numpy as numpy_steps
from acronumba_bench.baselines.cells import Step
from acronumba_bench.energy import Counter, counters, joules
from acronumba_bench.lessons import Lesson

OURS, OBJECTS, BARE, INFERENCE = "ours, packed", "ours, objects", "ours, no update", "ours, no gradients"
HERE = "ours, on the processor"  # packed: of steps on another device
RESIDENT = "ours, parameters on the device"  # packed: of steps within `on_device`
BURST = "multiply and add"  # peak rate of multiply-adds, measured in turns with the competitors
PRODUCTS = 3  # products of a step per product of the loss: itself, and the gradients of both operands
RATE = 1e-6  # so small that the weights hardly change
COMPARED = 4  # number of instances compared with the reference

Gradient = tuple[float, Mapping[str, Any]]
Made = Callable[[Any, Sequence[Any], float], Step]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingStep:
    """One lesson, at one size and number of instances."""

    workload: str
    size: str | int
    instances: int
    threads: int
    seconds: dict[str, Quartiles]  # of a step, per competitor; of parts of it (`BARE`, `INFERENCE`); of `BURST`
    product_flops: int  # of the products of the loss, two for each term
    burst_flops: int  # of a turn of `BURST`
    errors: dict[str, float]  # the largest of the loss and of each gradient, in parts of its largest number
    wrong: tuple[str, ...]  # competitors with errors larger than rounding explains, which are not timed
    reasons: dict[str, str]  # reasons for missing baselines
    joules: dict[str, dict[str, float]]  # of a step, per competitor and counter
    first: float  # seconds of our first step in this process, which compiles, or loads what was compiled before

    def times(self, competitor: str) -> float | None:
        """Return the ratio of a competitor's time to that of our step from packed data; None if it was not run."""
        found = self.seconds.get(competitor)
        return None if found is None else found.median / self.seconds[OURS].median

    @property
    def of_inference(self) -> float:
        """Ratio of the time of loss and gradients to that of the loss alone."""
        return self.seconds[BARE].median / self.seconds[INFERENCE].median

    @property
    def of_ideal(self) -> float:
        """Ratio of the time of loss and gradients to that of their products at the peak rate."""
        ideal = PRODUCTS * self.product_flops / self.burst_flops * self.seconds[BURST].median
        return self.seconds[BARE].median / ideal * self.threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps:
    """Everything that was measured."""

    rounds: int
    threads: int
    machine: dict[str, Any]
    unmeasured: tuple[str, ...]  # reasons for missing energy counters
    rows: tuple[TrainingStep, ...]


def measure(
    lessons: Sequence[Lesson],
    *,
    sizes: Sequence[str | int] = ("small",),
    batches: Sequence[int] = (64,),
    trees: str | None = None,
    rounds: int = 15,
    threads: int = 1,
    step: Callable[[int, str], None] = lambda n, text: None,
) -> Steps:
    """Measure lessons; the arguments are as of `speed.measure`."""
    found, reasons = counters()
    rows = []
    for size in sizes:
        for batch in batches:
            for lesson in lessons:
                step(1, f"{lesson.name}, {size}, {batch}")
                rows.append(row(lesson, size, batch, trees=trees, rounds=rounds, threads=threads, by=found))
    return Steps(rounds=rounds, threads=threads, machine=machine(), unmeasured=reasons, rows=tuple(rows))


def row(
    lesson: Lesson,
    size: str | int,
    batch: int,
    *,
    trees: str | None = None,
    rounds: int = 15,
    threads: int = 1,
    by: Mapping[str, Counter] | None = None,
    device: str = "cpu",
) -> TrainingStep:
    """Measure one lesson; `by`: counters of energy.

    On another device than the CPU, the competitors are hand-written PyTorch there, our own steps on the CPU, and our
    steps with parameters that stay on the device.
    """
    with ExitStack() as stack:
        return _row(stack, lesson, size, batch, trees, rounds, threads, by, device)


def _row(
    stack: ExitStack,
    lesson: Lesson,
    size: str | int,
    batch: int,
    trees: str | None,
    rounds: int,
    threads: int,
    by: Mapping[str, Counter] | None,
    device: str,
) -> TrainingStep:
    xs, p = inputs(lesson.workload, size, batch, trees)
    columns = lesson.columns(xs)
    here = device == "cpu"
    steps, reasons = _by_hand(lesson.name, p, columns, threads, device)
    ours = lesson.loss.with_options(threads=threads).on(device)
    trained = ours.value_and_grad
    first, _ = timed(lambda: trained.batch(*columns, p=p))
    mine = {OURS: p}
    if not here:
        there = structured(p, np.copy)
        stack.enter_context(on_device(there, device=device))
        mine[RESIDENT] = there
    results = {name: s.gradients() for name, s in steps.items()}
    errors, wrong = _compared(lesson, mine, columns, results, trained)
    packed = tuple(pack(column) for column in columns)
    one = burst()
    competitors: dict[str, Callable[[], Any]] = {
        OURS: _ours(trained, packed, p),
        OBJECTS: _ours(trained, columns, p),
        BARE: partial(trained.batch, *packed, p=p),
        INFERENCE: partial(ours.batch, *packed, p=p) if here else lambda: list(ours.batch(*packed, p=p)),
        BURST: one.run,
    }
    if not here:
        competitors[HERE] = _ours(ours.on("cpu").value_and_grad, packed, p)
        competitors[RESIDENT] = _ours(trained, packed, there)
    competitors |= {name: s.run for name, s in steps.items() if name not in wrong}
    seconds = interleaved(competitors, rounds)
    used = {name: joules(run, by) for name, run in competitors.items() if name != BURST} if by else {}
    counted = count(ours.trace(*packed, p=p).data, ours.options)
    return TrainingStep(
        workload=lesson.name,
        size=size,
        instances=batch,
        threads=threads,
        seconds=seconds,
        product_flops=counted.product_flops,
        burst_flops=one.flops,
        errors=errors,
        wrong=wrong,
        reasons=reasons,
        joules=used,
        first=first,
    )


def _ours(trained: Any, columns: Sequence[Any], p: Any) -> Callable[[], None]:
    opt = optim.SGD(RATE)

    def run() -> None:
        value, grads = trained.batch(*columns, p=p)
        opt.update(p, grads)
        float(value)  # what a device computes is done then

    return run


def _gradients(trained: Any, columns: Sequence[Any], p: Any) -> Gradient:
    value, grads = trained.batch(*columns, p=p)
    return float(value), {name: np.array(g) for name, g in leaves(grads)}


def makers(workload: str, threads: int = 1, device: str = "cpu") -> tuple[dict[str, Made], dict[str, str]]:
    """Return functions that prepare the hand-written steps, and reasons for missing ones."""
    if workload not in numpy_steps.TRAINED:
        return {}, {}
    if device != "cpu":
        return _on_gpu(workload, device)
    found: dict[str, Made] = {BY_NUMPY: numpy_steps.TRAINED[workload]}
    reasons: dict[str, str] = {}
    if importlib.util.find_spec("torch") is None:
        reasons |= {BY_TORCH: "PyTorch is not installed", TORCH_EACH: "PyTorch is not installed"}
    else:
        from acronumba_bench.baselines import by_torch, training_torch

        by_torch.use_threads(threads)
        found |= {BY_TORCH: training_torch.TRAINED[workload], TORCH_EACH: training_torch.TRAINED_EACH[workload]}
    if importlib.util.find_spec("dynet") is None:
        reasons[BY_DYNET] = "DyNet is not installed"
    else:
        from acronumba_bench.baselines import training_dynet

        found[BY_DYNET] = training_dynet.TRAINED[workload]
    return found, reasons


def _on_gpu(workload: str, device: str) -> tuple[dict[str, Made], dict[str, str]]:
    """Return the same on a GPU."""
    if importlib.util.find_spec("torch") is None:
        return {}, {BY_TORCH: "PyTorch is not installed"}
    from acronumba_bench.baselines import by_torch, training_torch

    if device == "simulator" or not by_torch.sees_gpus():
        return {}, {BY_TORCH: "PyTorch sees no GPU"}
    return {BY_TORCH: by_torch.learning(training_torch.TRAINED[workload], device)}, {}


def _by_hand(
    name: str, p: Any, columns: Sequence[Any], threads: int, device: str
) -> tuple[dict[str, Step], dict[str, str]]:
    made, reasons = makers(name, threads, device)
    return {kind: make(p, columns, RATE) for kind, make in made.items()}, reasons


def _compared(
    lesson: Lesson, mine: Mapping[str, Any], columns: Sequence[Any], results: Mapping[str, Gradient], trained: Any
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the errors of losses and gradients, and the names with errors larger than rounding explains.

    The bound is that of the compiler: 1e-5 of the largest number, or 4 times the error of hand-written NumPy in
    float32, which is careful code. `mine`: the parameters of our own steps, by competitor.
    """
    p, found = mine[OURS], dict(results)
    if BY_NUMPY in found:
        exact = numpy_steps.TRAINED[lesson.name](in_float64(p), columns, RATE).gradients()
        bound = max(BOUNDS["float32"], FACTOR * error(found[BY_NUMPY], exact))
    else:  # a few instances, since the reference takes one after the other
        few = [column[:COMPARED] for column in columns]
        plain = model(lesson.loss.__wrapped__)
        each = [plain.value_and_grad(*instance, p=p) for instance in zip(*few, strict=True)]
        grads = [dict(leaves(one.grads)) for one in each]
        mean = {name: np.mean([np.asarray(g[name], np.float64) for g in grads], axis=0) for name in grads[0]}
        exact = float(np.mean([one.value for one in each])), mean
        found, columns = {}, few
        bound = FACTOR * BOUNDS["float32"]
    found |= {name: _gradients(trained, columns, own) for name, own in mine.items()}
    errors = {name: error(one, exact) for name, one in found.items()}
    return errors, tuple(name for name, e in errors.items() if not e <= bound)


def error(found: Gradient, exact: Gradient) -> float:
    """Return the largest error of a loss and of gradients, each relative to the largest number of its array."""
    if found[1].keys() != exact[1].keys():
        return float("inf")
    out = abs(found[0] - exact[0]) / abs(exact[0])
    for name, e in exact[1].items():
        largest = float(np.abs(e).max())
        out = max(out, float(np.abs(found[1][name] - e).max()) / largest if largest else 0.0)
    return out
