"""Speed of a layer of the zoo's encoder on sentences of different lengths, against PyTorch's methods.

In: sets of lengths, hidden sizes, numbers of sentences. Out: a `Ragged` of plain numbers: of the layer on the first
sentences of each set, and of attention alone on sentences of one length. All competitors run in this process, in turns,
after their results have been compared. With one thread, seconds are CPU time, without that of other programs; with
more, the fastest of all turns counts.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from acronumba import model, nn, pack
from acronumba.api.effects import accounts
from acronumba.api.model import Model
from acronumba.api.shadow import BOUNDS
from acronumba.bench.agreement import agreement, in_float64
from acronumba.bench.by_hand.program import Program
from acronumba.bench.ceiling import burst
from acronumba.bench.measure import SLOW, machine, quartiles, timed
from acronumba.bench.speed import WRONG, kernel_seconds
from acronumba.zoo import encoder
from acronumba.zoo.data import Array

OURS, BURST, TORCH = "ours", "multiply and add", "PyTorch"
CAUSAL, TORCH_CAUSAL = "ours, causal", "PyTorch, causal"
WINDOW, CAUSAL_WINDOW = "ours, window", "ours, causal window"  # of `SEEN` words
BURST_ROUNDS = 10**6  # about two milliseconds
WAYS = ("padded", "nested", "sorted", "packed")  # of PyTorch: `baselines.ragged_torch.WAYS`
APART = 4 * BOUNDS["float32"]  # largest difference of two results that are both close to the exact numbers
ALONE = "attention"  # listed beside the names of sets of lengths
LENGTHS = (14, 44, 117, 192, 364, 512, 1024)  # of attention alone
ROWS = 3000  # words of it in a mini-batch
WIDTH = 64  # of a head of it
SEEN = 64  # words to either side, its own one included, that a word sees in a window
TRACES = 3


@model
def layer(x: np.ndarray, *, p: encoder.Params) -> Array:
    """Return the words after a layer, float32[n, H], from float32[n, H]."""
    return encoder.apply(x, p.layers[0], p.heads, p.causal)


@model
def attend(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, *, heads: int, causal: bool, window: int | None = None
) -> Array:
    """Return attention of heads of `WIDTH`, float32[n, heads * WIDTH], of as much each."""
    split = [np.transpose(np.reshape(x, (x.shape[0], heads, WIDTH)), (1, 0, 2)) for x in (q, k, v)]
    y = nn.attention(split[0], split[1], split[2], causal=causal, window=window)
    return np.reshape(np.transpose(y, (1, 0, 2)), (q.shape[0], heads * WIDTH))


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """The seconds of competitors that took turns."""

    threads: int
    flops: int  # of the products of a run
    burst_flops: int
    seconds: dict[str, tuple[float, ...]]  # of each turn; `BURST` is one of the competitors
    errors: dict[str, float]  # of results: the largest, in parts of the largest number
    wrong: tuple[str, ...]  # those whose errors are larger than rounding explains; only we are timed all the same

    def best(self, name: str) -> float:
        """Return the seconds that count: the median of the CPU time of one thread, or the least for several threads."""
        return statistics.median(self.seconds[name]) if self.threads == 1 else min(self.seconds[name])

    def times(self, name: str, of: str = OURS) -> float:
        """Return the ratio of the times of two competitors; with one thread, turns are compared pairwise."""
        if self.threads > 1:
            return self.best(name) / self.best(of)
        return statistics.median(a / b for a, b in zip(self.seconds[name], self.seconds[of], strict=True))

    @property
    def spread(self) -> float:
        """Half the interquartile range of our turns, relative to the median."""
        q = quartiles(self.seconds[OURS])
        return (q.high - q.low) / q.median / 2

    def share(self, name: str = OURS) -> float:
        """Return the fraction of the ceiling that products reach."""
        return self.flops / self.burst_flops / self.times(name, BURST) / self.threads


@dataclass(frozen=True, slots=True, kw_only=True)
class Layer(Turns):
    """The layer on the first sentences of a set of lengths."""

    lengths_of: str  # name of the set
    width: int  # H
    sentences: int
    words: int
    lengths: int  # that are different
    attention: float  # part of the flops that are not products with weights
    padded: float  # flops if all sentences were as long as the longest, in parts of `flops`
    batches: int
    batches_unragged: int  # with `ragged=False`
    kernels: dict[str, float]  # seconds of the batches of each kernel, in the fastest of some traces
    kernel_flops: dict[str, int]
    fastest: dict[str, str]  # by method of PyTorch: its fastest form
    reasons: dict[str, str]  # by method that could not be run: the reason

    @property
    def title(self) -> str:
        """Title of the row."""
        return f"{self.lengths_of}, {self.width}, {self.sentences}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Attention(Turns):
    """Attention alone on sentences of one length; `flops` are of `OURS`, where all words see all."""

    length: int
    sentences: int
    heads: int

    @property
    def title(self) -> str:
        """Title of the row."""
        return f"attention, {self.length}"

    @property
    def causal_share(self) -> float:
        """The fraction of the ceiling that `CAUSAL` reaches, counting only the products that it needs."""
        return self.share(CAUSAL) * (self.length + 1) / (2 * self.length)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ragged:
    """Everything that was measured."""

    rounds: int
    threads: int
    machine: dict[str, Any]
    torch: str  # version; "" if it is not installed
    layers: tuple[Layer, ...]
    attention: tuple[Attention, ...]

    @property
    def rows(self) -> tuple[Layer | Attention, ...]:
        """All that was measured."""
        return (*self.layers, *self.attention)


def measure(
    sets: Mapping[str, Sequence[int]],
    *,
    sizes: Sequence[str | int] = ("small",),
    batches: Sequence[int] = (32,),
    attention: bool = True,
    rounds: int = 5,
    threads: int = 1,
    step: Callable[[int, str], None] = lambda n, text: None,
) -> Ragged:
    """Measure the layer on each set, size and number of sentences, then attention alone.

    Parameters
    ----------
    sets
        Lengths by the name of their set; a mini-batch has the first ones, from the start again if there are too few.
    sizes
        Hidden sizes: "small", "large" or a multiple of 8.
    batches
        Sentences per mini-batch.
    attention
        Whether to measure attention alone, too.
    rounds
        Turns of each competitor.
    threads
        Number of threads, ours and PyTorch's.
    step
        Called with 1 and a text before each row.
    """
    layers, alone = [], []
    for size in sizes:
        for batch in batches:
            for name, lengths in sets.items():
                step(1, f"{name}, {size}, {batch}")
                first = [lengths[k % len(lengths)] for k in range(batch)]
                layers.append(layer_row(name, first, size, rounds=rounds, threads=threads))
    for length in LENGTHS if attention else ():
        step(1, f"attention, {length}")
        alone.append(attention_row(length, rounds=rounds, threads=threads))
    version = importlib.util.find_spec("torch") and importlib.import_module("torch").__version__
    return Ragged(
        rounds=rounds,
        threads=threads,
        machine=machine(),
        torch=version or "",
        layers=tuple(layers),
        attention=tuple(alone),
    )


def layer_row(
    name: str, lengths: Sequence[int], size: str | int, *, rounds: int = 5, threads: int = 1, seed: int = 0
) -> Layer:
    """Measure the layer on sentences of these lengths."""
    p = encoder.params(size, seed, vocabulary=1, layers=1)
    width, rng = p.embed.shape[1], np.random.default_rng(seed)
    xs = [rng.standard_normal((n, width)).astype(np.float32) for n in lengths]
    ours = layer.with_options(threads=threads)
    packed, shared = pack(xs), pack(p)
    results = {OURS: [np.array(y) for y in ours.batch(packed, p=shared)]}
    programs, by_torch, reasons = _ways(p, xs, threads)
    results |= by_torch
    errors, wrong = _compared(partial(layer, p=p), partial(layer, p=in_float64(p)), [xs], results)
    fastest = _fastest({name: program for name, program in programs.items() if name not in wrong}, threads)
    one = burst(BURST_ROUNDS)
    runs: dict[str, Callable[[], Any]] = {BURST: one.run, OURS: partial(ours.batch, packed, p=shared)}
    seconds = _turns(runs | {way: programs[name].run for way, name in fastest.items()}, rounds, threads)
    kernels, kernel_flops, batches = _traced(ours, TRACES, packed, p=shared)
    longest = max(lengths, default=0)
    flops = _flops(lengths, width)
    return Layer(
        lengths_of=name,
        width=width,
        sentences=len(lengths),
        words=sum(lengths),
        lengths=len(set(lengths)),
        attention=flops[1] / sum(flops),
        padded=sum(_flops([longest] * len(lengths), width)) / sum(flops),
        batches=batches,
        batches_unragged=_traced(ours.with_options(ragged=False), 1, packed, p=shared)[2],
        kernels=kernels,
        kernel_flops=kernel_flops,
        fastest=fastest,
        reasons=reasons,
        errors=errors,
        wrong=wrong,
        threads=threads,
        flops=sum(flops),
        burst_flops=one.flops,
        seconds=seconds,
    )


def attention_row(length: int, *, rounds: int = 5, threads: int = 1, heads: int = 8) -> Attention:
    """Measure attention on sentences of one length."""
    rng, many = np.random.default_rng(0), max(1, ROWS // length)
    columns = [[rng.standard_normal((length, heads * WIDTH)).astype(np.float32) for _ in range(many)] for _ in "qkv"]
    packed, ours, one = [pack(column) for column in columns], attend.with_options(threads=threads), burst(BURST_ROUNDS)
    runs: dict[str, Callable[[], Any]] = {BURST: one.run}
    errors: dict[str, float] = {}
    wrong: tuple[str, ...] = ()
    for name, by_torch, causal, window in (
        (OURS, TORCH, False, None), (CAUSAL, TORCH_CAUSAL, True, None),
        (WINDOW, "", False, SEEN), (CAUSAL_WINDOW, "", True, SEEN),
    ):  # fmt: skip
        form: dict[str, Any] = {"heads": heads, "causal": causal, "window": window}
        plain = partial(attend, **form)
        runs[name] = partial(ours.batch, *packed, **form)
        results = {name: [np.array(y) for y in runs[name]()]}
        program = _torch_attention(columns, threads, heads, causal) if by_torch else None
        if program is not None:
            results[by_torch] = program.results(program.run())
        near, far = _compared(plain, lambda *x, f=plain: f(*(a.astype(np.float64) for a in x)), columns, results)
        if program is not None and by_torch not in far:
            runs[by_torch] = program.run
        errors, wrong = errors | near, wrong + far
    return Attention(
        length=length,
        sentences=many,
        heads=heads,
        threads=threads,
        flops=many * 4 * length * length * heads * WIDTH,
        burst_flops=one.flops,
        seconds=_turns(runs, rounds, threads),
        errors=errors,
        wrong=wrong,
    )


def _torch_attention(columns: Any, threads: int, heads: int, causal: bool) -> Program | None:
    if importlib.util.find_spec("torch") is None:
        return None
    from acronumba_bench.baselines import by_torch, ragged_torch

    by_torch.use_threads(threads)
    return by_torch.inferring(lambda _, xs: ragged_torch.attention(*xs, heads=heads, causal=causal))(None, columns)


def _ways(
    p: encoder.Params, xs: Sequence[Any], threads: int
) -> tuple[dict[str, Program], dict[str, list[Any]], dict[str, str]]:
    """Return the programs of PyTorch for the layer, if it is installed, their results, and reasons for missing ones."""
    programs: dict[str, Program] = {}
    results: dict[str, list[Any]] = {}
    reasons: dict[str, str] = {}
    if importlib.util.find_spec("torch") is None:
        return programs, results, reasons
    from acronumba_bench.baselines import by_torch, ragged_torch

    by_torch.use_threads(threads)
    for name, make in ragged_torch.ways():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # nested tensors are a prototype there
                program = by_torch.inferring(make)(p, xs)
                results[name] = program.results(program.run())
        except RuntimeError as error:
            reasons[name] = str(error).partition("\n")[0]
        else:
            programs[name] = program
    return programs, results, reasons


def _fastest(programs: Mapping[str, Program], threads: int) -> dict[str, str]:
    """Return the fastest program of each method, by two runs."""
    clock = _clock(threads)
    first = {name: min(timed(program.run, clock)[0] for _ in range(2)) for name, program in programs.items()}
    of = {way: [name for name in first if name.startswith(f"{way}, ")] for way in WAYS}
    return {way: min(names, key=first.__getitem__) for way, names in of.items() if names}


def _clock(threads: int) -> Callable[[], float]:
    return time.thread_time if threads == 1 else time.perf_counter


def _turns(runs: Mapping[str, Callable[[], Any]], rounds: int, threads: int) -> dict[str, tuple[float, ...]]:
    """Return the seconds of each turn; before a short run there is an untimed one, to fill the caches."""
    clock = _clock(threads)
    seconds: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            if not seconds[name] or seconds[name][-1] < SLOW:
                run()
            seconds[name].append(timed(run, clock)[0])
    return {name: tuple(of) for name, of in seconds.items()}


def _compared(
    plain: Callable[..., Any],
    exact: Callable[..., Any],
    columns: Sequence[Sequence[Any]],
    results: Mapping[str, Sequence[Any]],
) -> tuple[dict[str, float], tuple[str, ...]]:
    """Return the largest errors of results, and the names with errors larger than rounding explains.

    Three sentences, the shortest, the longest and one between, are compared with the plain call, in the precision of
    the instances and in float64; the others with the first results, which are ours.
    """
    ours = next(iter(results.values()))
    order = sorted(range(len(columns[0])), key=lambda k: len(columns[0][k]))
    few = sorted({order[0], order[len(order) // 2], order[-1]})
    instances = [[column[k] for column in columns] for k in few]
    expected, true = [plain(*x) for x in instances], [exact(*x) for x in instances]
    errors, wrong = {}, []
    for name, found in results.items():
        verdict, error = agreement([found[k] for k in few], expected, true, alone=found is ours)
        apart = max(map(_apart, found, ours))
        errors[name] = max(error, apart)
        if verdict == WRONG or apart > APART:
            wrong.append(name)
    return errors, tuple(wrong)


def _apart(a: Any, b: Any) -> float:
    """Return the largest difference of two arrays relative to the largest number; infinity if it is NaN."""
    out = float(np.abs(a - b).max(initial=0.0) / max(np.abs(b).max(initial=0.0), 1e-30))
    return out if out < np.inf else np.inf


def _flops(lengths: Sequence[int], width: int) -> tuple[int, int]:
    """Return the flops of products of a layer: those with weights, and those of attention."""
    return sum(24 * n * width * width for n in lengths), sum(4 * n * n * width for n in lengths)


def _traced(ours: Model, times: int, *columns: Any, **shared: Any) -> tuple[dict[str, float], dict[str, int], int]:
    """Return seconds and product flops of each kernel in the fastest of some traces, and the number of batches."""
    traces = [ours.trace(*columns, **shared).data for _ in range(times)]
    best = min(traces, key=lambda t: t.seconds["execute"])
    flops: dict[str, int] = dict.fromkeys(kernel_seconds(best), 0)
    for b, parts in zip(best.batches, accounts(best, ours.options), strict=True):
        flops[b.kernel] += sum(a.product_flops * many for a, many in parts)
    return kernel_seconds(best), flops, len(best.batches)
