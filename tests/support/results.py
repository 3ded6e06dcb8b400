"""Numbers of `benchmarks/results`, by what they are of: what expressions in pages are made of.

See `tests.support.figures`. Every function here may be used in a page.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

from acronumba.bench.measure import Quartiles
from acronumba.bench.speed import PACKED, Speed
from acronumba.bench.view import ONE_STRUCTURE
from acronumba_bench import chart
from acronumba_bench.ragged import Attention, Layer

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
BY_HAND = ("NumPy by hand", "PyTorch by hand")


@cache
def result(name: str) -> Any:
    """Return what a file of `benchmarks/results` holds."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


# ------------------------------------------------------------------------------------------------ models of the zoo


@cache
def speeds(name: str = "models-znver4-2cores") -> tuple[Speed, ...]:
    """Return the rows of a comparison of models with baselines."""
    rows = [{**row} for row in result(name)["rows"]]
    return tuple(Speed(seconds={k: Quartiles(**q) for k, q in row.pop("seconds").items()}, **row) for row in rows)


def zoo(size: str, instances: int) -> list[Speed]:
    """Return the rows of a size and number of instances."""
    return [row for row in speeds() if (row.size, row.instances) == (size, instances)]


def times(size: str, instances: int, baseline: str, processor: str = "znver4") -> float:
    """Return how many times longer a baseline takes: the geometric mean over the models that have it."""
    found = chart.ratios(result(f"models-{processor}-2cores"), size, instances).values()
    return geometric_mean([row[baseline] for row in found if baseline in row])


def by_hand() -> list[float]:
    """Return how many times longer a baseline that is batched by hand takes, over all of them and all rows."""
    return [x for name in BY_HAND for x in of_all(name)]


def of_all(baseline: str) -> list[float]:
    """Return how many times longer a baseline takes, over all models, sizes and numbers of instances."""
    rows = [row for size in ("small", "large") for n in (8, 64)
            for row in chart.ratios(result("models-znver4-2cores"), size, n).values()]  # fmt: skip
    return [row[baseline] for row in rows if baseline in row]


def of(model: str, size: str, instances: int, baseline: str) -> float:
    """Return how many times longer a baseline takes for a model."""
    return chart.ratios(result("models-znver4-2cores"), size, instances)[model][baseline]


def peaks(size: str, instances: int) -> list[float]:
    """Return what part of the rate of multiply-adds each model reaches."""
    return [row.peak for row in zoo(size, instances)]


def differences(model: str) -> list[float]:
    """Return our largest differences from a float64 run, relative to the largest number, of all rows of a model."""
    return [row.difference for row in speeds() if row.workload == model]


def hosts() -> list[float]:
    """Return what part of the time recording, scheduling and layout take, of all rows."""
    return [row.host_share for row in speeds()]


def row(model: str, size: str, instances: int) -> Speed:
    """Return what was measured of a model."""
    (found,) = [one for one in zoo(size, instances) if one.workload == model]
    return found


def starts(which: str) -> list[float]:
    """Return the seconds of a core that the first mini-batch of each model takes: "cold", "second", "warm" ..."""
    return [row[which] for row in result("starts-emeraldrapids-2cores")["rows"] if row[which] is not None]


def ablated(model: str, variant: str) -> float:
    """Return how many times longer a model takes with a variant of the options."""
    (table,) = [table for table in result("ablation-icelake-2cores")["tables"] if table["workload"] == model]
    (row,) = [row for row in table["rows"] if row["variant"] == variant]
    found: float = row["ratio"]["median"]
    return found


# ---------------------------------------------------------------------------------------------- cost model and tuning


def costs(instances: int, share: float = 0.0) -> list[float]:
    """Return estimated over measured seconds, of kernels that take more than a share of their mini-batch."""
    rows = [row for row in result("costs-znver4-2cores")["rows"] if row["instances"] == instances]
    total: dict[tuple[str, str], float] = {}
    for row in rows:
        key = row["workload"], row["size"]
        total[key] = total.get(key, 0.0) + row["measured"]
    return [r["estimated"] / r["measured"] for r in rows if r["measured"] > share * total[r["workload"], r["size"]]]


def within(values: Iterable[float], factor: float) -> int:
    """Return how many values are within a factor of 1."""
    return sum(1 / factor <= v <= factor for v in values)


def searched(kernels: bool, which: str = "default", share: float = 0.01) -> list[float]:
    """Return how many times longer kernels, or whole mini-batches, take than the best that brute force finds.

    Of kernels, those that take more than a share of a mini-batch.
    """
    rows = [row for row in result("exhaustive-znver4-2cores")["rows"] if bool(row["kernel"]) == kernels]
    return [row[which]["median"] for row in rows if row["share"] > share and row[which] is not None]


def up_to(values: Iterable[float], most: float) -> int:
    """Return how many values are no larger."""
    return sum(v <= most for v in values)


def tuning(which: str) -> float:
    """Return the seconds of measuring that tuning takes: "together" or "apart"."""
    found: float = result("exhaustive-znver4-2cores")["tuning"][which]
    return found


# ---------------------------------------------------------------------------------------------------------------- GPU

GPU = {"PyTorch": "PyTorch by hand", "CUDA graph": "PyTorch by hand in a CUDA graph", "CPU": "ours, on the processor"}


def gpu_rows(instances: int, of: str = "gpu-h200") -> dict[str, dict[str, float]]:
    """Return for each model the seconds of a mini-batch of size small, and how many times longer others take."""
    out = {}
    for row in result(of)["rows"]:
        if (row["size"], row["instances"]) == ("small", instances):
            s = {name: q["median"] for name, q in row["seconds"].items()}
            ours = s["ours, packed"]
            out[row["workload"]] = {"s": ours} | {k: s[name] / ours for k, name in GPU.items() if name in s}
    return out


def gpu(instances: int, other: str) -> float:
    """Return how many times longer another takes: the geometric mean over the models that have it."""
    return geometric_mean([row[other] for row in gpu_rows(instances).values() if other in row])


def gpu_present_table() -> str:
    """Return the table of models with the present kernels."""
    rows = gpu_rows(64, STREAMED)
    ways = {row["workload"]: 1e3 * row["ways"]["one launch"] for row in result(STREAMED)["rows"]}
    lines = [[f"`{name}`", f"{1e3 * row['s']:.2f}", f"{ways[name]:.2f}", *(f"{row[k]:.2f}" for k in GPU)]
             for name, row in rows.items()]  # fmt: skip
    return markdown(["model", "ms", "ms of kernels", *GPU], lines)


def gpu_table() -> str:
    """Return the table of models on a GPU."""
    rows = [gpu_rows(n) for n in (64, 8)]
    heads = ["model", *(head for n in (64, 8) for head in (f"ms, {n}", *GPU))]
    lines = [
        [f"`{name}`", *(cell for of in rows for cell in _gpu_cells(of.get(name, {})))]
        for name in rows[0]
        if name in rows[1]
    ]
    return markdown(heads, lines)


def _gpu_cells(row: Mapping[str, float]) -> list[str]:
    return [f"{1e3 * row['s']:.1f}", *(f"{row[k]:.2f}" if k in row else "–" for k in GPU)]


STREAMED = "gpu-h200-streamed"  # the present kernels, without other programs in turns


def gpu_step(who: str, model: str = "tree_lstm", of: str = "steps") -> float:
    """Return the milliseconds of a training step of 64 instances on the GPU; `of`: the list of measurements."""
    (row,) = [row for row in result(STREAMED)[of] if row["workload"] == model]
    return 1e3 * float(row["seconds"][who]["median"])


def gpu_errors(which: str, of: str = "gpu-h200") -> list[float]:
    """Return the errors of what agrees, relative to the largest number, in order: "checks" or "gradients"."""
    return sorted(row["error"] for row in result(of)[which].values() if "error" in row)


def gpu_batch(model: str, instances: int, what: str = "kernel us") -> float:
    """Return the microseconds of the one launch of a mini-batch, or of all of it ("us")."""
    (found,) = [r for r in result(STREAMED)["levels"] if (r["model"], r["instances"]) == (model, instances)]
    return float(found[what])


def gpu_before(model: str) -> float:
    """Return the microseconds of the one launch of 64 instances with the earlier kernels."""
    (row,) = [r for r in result("gpu-h200")["rows"] if (r["workload"], r["instances"]) == (model, 64)]
    return 1e6 * float(row["ways"]["one launch"])


def gpu_levels() -> list[dict[str, Any]]:
    """Return the measurements of levels of the one launch, each of a function and a number of rows."""
    return [row for model in ("tree_lstm", "birnn", "mv_rnn") for row in result(STREAMED)["alone"][f"{model} steps"]]


def gpu_levels_table() -> str:
    """Return the table of functions by the microseconds of a level, with the errors of the estimates."""
    rows = (1, 16, 64, 256, 700)
    lines: list[list[str]] = []
    for name in dict.fromkeys(row["function"] for row in gpu_levels()):
        found = {row["rows"]: row for row in gpu_levels() if row["function"] == name}
        cells = [f"{found[n]['warm us']:.1f} ({100 * found[n]['off']:+.0f}%)" for n in rows]
        lines.append([f"`{name.removeprefix('a step of ')}`", *cells])
    return markdown(["function", "1 row", *(f"{n} rows" for n in rows[1:])], lines)


def gpu_cold() -> float:
    """Return the microseconds that the median function launched alone takes longer after other code has run."""
    rows = [row for name, own in result(STREAMED)["alone"].items() if name.endswith("functions") for row in own]
    return median([row["after other code us"] - row["warm us"] for row in rows])


def gpu_estimates(new: bool) -> list[float]:
    """Return how far off estimates of functions launched alone are, in order: those made before the run, or the new."""
    keys = ("model", "function", "rows")
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in result(STREAMED)["profiled"]:
        found.setdefault(tuple(row[k] for k in keys), []).append(row)
    made = {tuple(row[k] for k in keys): row.get("cycles") for row in result("cycles-sm90a")["estimates"]}
    out = []
    for key, rows in found.items():
        thought = made.get(key) if new else rows[0].get("estimated cycles")
        if thought and made.get(key):
            out.append(abs(thought / median([row["cycles"] for row in rows]) - 1))
    return sorted(out)


# ------------------------------------------------------------------------------------------------------------ threads


def shares_table() -> str:
    """Return how busy threads would be: 64 instances on 2, 16 and 64 threads; 8 instances on two."""
    many, few = result("shares-znver4-2cores")["shares"], result("shares-8-znver4-2cores")["shares"]
    lines = [
        f"{'':24} 2 threads    16 threads    64 threads   batches of 8, 2 threads",
        f"{'model':20}   share times   share times   share times   small large",
    ]
    for name in few["small"]:
        cells = [f"   {two(many['small'].get(name, {}).get(n))}" for n in ("2", "16", "64")]
        both = [f"{few[size][name]['2']['times']:.1f}" if name in few[size] else "-" for size in ("small", "large")]
        lines.append(f"{name:21}{''.join(cells)}   {both[0]:>5} {both[1]:>5}")
    lines += ["", f"{'sentences':20}   share times   share times   share times"]
    for name, row in many["512"].items():
        lines.append(f"{name:21}" + "".join(f"   {two(row.get(n))}" for n in ("2", "16", "64")))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def two(of: Mapping[str, float] | None) -> str:
    return f"{of['share']:5.2f} {of['times']:5.1f}" if of else "    -     -"


def shared(size: str) -> dict[str, float]:
    """Return how many times as fast two threads would be with 8 instances, by model."""
    return {name: row["2"]["times"] for name, row in result("shares-8-znver4-2cores")["shares"][size].items()}


# ---------------------------------------------------------------------------------------- equal nodes and schedules


def equal_table() -> str:
    """Return what looking for equal nodes is worth."""
    rows = result("equal-emeraldrapids-2cores")["rows"]
    names = {row["name"].rsplit(" ", 1)[0]: None for row in rows}
    lines = [
        f"{'':24} 64 instances         1,024 instances",
        f"{'':20}  H   saved  times as fast   saved  times as fast",
    ]
    for name in names:
        for size in (64, 256):
            found = {row["instances"]: row for row in rows if (row["name"], row["size"]) == (f"{name} {size}", size)}
            cells = []
            for n in (64, 1024):
                row = found[n]
                share = row["saved"] / (row["nodes"] + row["saved"])
                cells.append(f"   {share:5.0%}       {row['ratio']:.2f}  ")
            lines.append(f"{name:20}{size:4}" + "".join(cells))
    return "\n".join(line.rstrip() for line in lines) + "\n"


def schedules_table() -> str:
    """Return batches and times of the schedules."""
    rows = result("schedules-znver4-2cores")["rows"]
    labels = list(rows[0]["batches"])
    lines = [
        f"{'':20}   at" + "".join(f"{label:>13}" for label in labels),
        f"{'model':10}  H inst least" + f"{'batches':>11}  " + "".join(f"{'batches time':>13}" for _ in labels[1:]),
    ]
    for row in rows:
        cells = [f"{row['batches'][label]:8} {row['times'][label]:4.2f}" for label in labels[1:]]
        lines.append(
            f"{row['model']:9}{row['size']:4}{row['instances']:5}{row['at least']:6}"
            f"{row['batches']['default']:11}  " + "".join(cells)
        )
    return "\n".join(line.rstrip() for line in lines) + "\n"


def schedule_times(label: str) -> list[float]:
    """Return how many times as long a schedule takes as the default."""
    return [row["times"][label] for row in result("schedules-znver4-2cores")["rows"]]


def fewer(label: str) -> int:
    """Return in how many cases a schedule has fewer batches than the default."""
    rows = result("schedules-znver4-2cores")["rows"]
    return sum(row["batches"][label] < row["batches"]["default"] for row in rows)


def exact_schedules() -> list[dict[str, int]]:
    """Return, by number of expressions, in how many of some small graphs a schedule or the bound is the optimum."""
    found: list[dict[str, int]] = result("schedules-znver4-2cores")["exact"]
    return found


def unrefactored(leaves: str) -> list[float]:
    """Return how many times as long trees with such leaves take without refactoring, for all sizes and counts."""
    return [row["times"] for row in result("refactor-znver4-2cores")["rows"] if row["leaves"] == leaves]


def tuned_models() -> list[dict[str, Any]]:
    """Return the choices of `tune` for models of the zoo, with the seconds of the search."""
    found: list[dict[str, Any]] = result("decisions-znver5-2cores")["rows"]
    return found


def left_out() -> list[float]:
    """Return the times of the models of which a decision is left out, relative to the default."""
    rows = [row for row in tuned_models() if "without" in row["changes"]]
    return [next(t["ratio"] for t in row["tried"] if t["name"] == row["name"]) for row in rows]


# -------------------------------------------------------------------------------------------------- small passes


def without(name: str, model: str, instances: int) -> float:
    """Return how many times longer a mini-batch of a model takes without a pass of the analysis."""
    rows = result("small-passes-emeraldrapids-2cores")["rows"]
    return next(r["times"] for r in rows if (r["pass"], r["model"], r["instances"]) == (name, model, instances))


# ------------------------------------------------------------------------- one structure, the fixed cost of a call


STRUCTURES = "one-structure-znver4-2cores"  # of `bench --size 32 64 256 --batch 4 8`


def step_cost(model: str, size: int, which: str) -> float:
    """Return the "calls" or "milliseconds" of a step, or how many times longer "NumPy by hand" takes."""
    (row,) = [r for r in result("steps-znver5-2cores")["rows"] if (r["model"], r["size"]) == (model, size)]
    found: float = row[which]
    return found


def steps_table() -> str:
    """Return the fixed costs of a step, with the goal of each figure that has one."""
    lines = ["model         H   instances   calls  goal      ms  goal   NumPy by hand  goal"]
    for row in result("steps-znver5-2cores")["rows"]:
        goals = row["goals"]
        calls, ms, times = (f"{goals[n]:g}" if n in goals else "" for n in ("calls", "milliseconds", "NumPy by hand"))
        lines.append(
            f"{row['model']:10}{row['size']:5}{row['instances']:12}{row['calls']:8}{calls:>6}"
            f"{row['milliseconds']:8.2f}{ms:>6}{row['NumPy by hand']:16.2f}{times:>6}".rstrip()
        )
    return "\n".join(lines) + "\n"


def one_structure_table() -> str:
    """Return the times of others relative to ours, in Markdown."""
    lines = [
        f"| | H | instances | ours, us | {' | '.join(ONE_STRUCTURE)} |\n",
        f"|---|---:|---:|---:|{'---:|' * len(ONE_STRUCTURE)}\n",
    ]
    for row in sorted(speeds(STRUCTURES), key=lambda row: (row.workload, row.size, row.instances)):
        ours = f"{1e6 * row.seconds[PACKED].median:,.0f}"
        times = " | ".join(f"{row.times(name):.2f}" for name in ONE_STRUCTURE)
        lines.append(f"| {row.workload} | {row.size} | {row.instances} | {ours} | {times} |\n")
    return "".join(lines)


def calls(model: str, what: str, when: str = "now") -> float:
    """Return the microseconds, or number, of a part of a forward call."""
    rows = result("calls-znver4-2cores")["rows"]
    (found,) = [row[when] for row in rows if (row["model"], row["what"]) == (model, what)]
    return float(found)


# ---------------------------------------------------------------------------------------------- lesson 1, sentences


def lesson(matrix: str, n: int, which: str) -> float:
    """Return the seconds of "plain" calls, or of a "batch", of lesson 1."""
    rows = result("first-lesson-emeraldrapids-2cores")["rows"]
    (row,) = [row for row in rows if (row["matrix"], row["n"]) == (matrix, n)]
    found: float = row[which]
    return found


def lesson_table() -> str:
    """Return the times of lesson 1."""
    lines = ["matrix     n   plain calls       batch   speed-up"]
    for row in result("first-lesson-emeraldrapids-2cores")["rows"]:
        a, b = row["plain"], row["batch"]
        lines.append(f"{row['matrix']:6}{row['n']:6d}{a * 1e3:11.2f} ms{b * 1e3:9.2f} ms{a / b:9.2f} x")
    return "\n".join(lines) + "\n"


def layers(name: str, width: int) -> list[Layer]:
    """Return the measurements of a layer of the encoder, of a file and a hidden size."""
    return [Layer(**row) for row in result(name)["layers"] if row["width"] == width]


def torch_takes(name: str, width: int, way: str) -> float:
    """Return how many times longer PyTorch takes one way: the geometric mean over the sets of lengths."""
    return geometric_mean([row.times(way) for row in layers(name, width)])


def reached(name: str, width: int, way: str = "ours") -> float:
    """Return what part of the rate of multiply-adds one way reaches: the geometric mean over the sets of lengths."""
    return geometric_mean([row.share(way) for row in layers(name, width)])


def attention(length: int, which: str) -> float:
    """Return the time of attention "ours, causal", "ours, window", ... relative to that of all words."""
    rows = [Attention(**row) for row in result("attention-znver4-2cores")["attention"]]
    (row,) = [row for row in rows if row.length == length]
    return row.times(which)


# ------------------------------------------------------------------------------------------------- weights, treebank

COMPRESSED = ("birnn", "listops", "bilstm_tagger", "stack_rnn_emulated")
CPUS = {
    "as it is": "Zen 4 (VNNI, AVX-512)",
    "without VNNI": "the same without VNNI",
    "AVX2": "the same without AVX-512",
}


def faster(file: str, cpu: str, model: str, instances: int, kind: str) -> float:
    """Return how many times faster than float32 a kind of weights is."""
    (row,) = [row for row in result(file)["zoo"] if (row["CPU"], row["model"]) == (cpu, model)]
    found: float = row["times faster"][str(instances)][kind]
    return found


def int8_table() -> str:
    """Return how many times faster than float32 int8 is."""
    file, lines = "compressed-zoo-znver4-2cores", []
    for cpu, name in CPUS.items():
        for n in (1, 8, 64):
            cells = [f"{faster(file, cpu, model, n, 'int8'):.1f}" for model in COMPRESSED]
            lines.append([f"{name}: 1" if n == 1 else str(n), *cells])
    return markdown(["instances", *COMPRESSED], lines)


def pools_table() -> str:
    """Return how many times faster than float32 pools of 64 vectors are, and int8 in the same turns."""
    file, lines = "compressed-pools-znver4-2cores", []
    kinds = {"int8": "`int8`", **{f"pool of 64, {b} bits": f"{'pool of 64, ' * (b == 8)}{b} bits" for b in (8, 6, 4)}}
    for n in (1, 8, 64):
        for kind, name in kinds.items():
            cells = [f"{faster(file, 'as it is', model, n, kind):.1f}" for model in COMPRESSED]
            lines.append([str(n) if kind == "int8" else "", name, *cells])
    return markdown(["instances", "weights", *COMPRESSED], lines)


def bf16_slower() -> list[float]:
    """Return how many times longer than float32 bf16 takes."""
    rows = result("compressed-zoo-znver4-2cores")["zoo"]
    return [1 / found["bf16"] for row in rows for found in row["times faster"].values()]


def halves_table() -> str:
    """Return how many times faster matrix products in bf16 make models, and their errors."""
    lines = []
    for row in result("halves-znver4-2cores")["forward"]:
        torch = min(row["PyTorch in bf16 / bf16"].values())
        cells = [f"{row['float32 / bf16']:.2f}", f"{torch:.2f}", f"{row['error']:.0e}"]
        lines.append([f"`{row['model']}`", f"{row['size']:,}", *cells])
    return markdown(["model", "H", "float32 / bf16", "PyTorch in bf16 / bf16", "error"], lines)


def halves_training_table() -> str:
    """Return how many times faster matrix products in bf16 make losses with gradients."""
    lines = []
    for row in result("halves-training-znver4-2cores")["training"]:
        lines.append([f"`{row['model']}`", f"{row['size']:,}", f"{row['float32 / bf16']:.2f}", f"{row['error']:.0e}"])
    return markdown(["model", "H", "float32 / bf16", "error"], lines)


def halves_trained_table() -> str:
    """Return what matrix products in bf16 cost trained models."""
    lines = []
    for row in result("halves-trained-znver4-2cores")["trained"]:
        cells = [f"{row['instances']:,}", f"{row['float32']:.2%}", f"{row['bf16']:.2%}", f"{row['other classes']:.2%}"]
        lines.append([{"SST": "Treebank"}.get(row["model"], row["model"]), *cells])
    return markdown(["model", "instances", "float32", "bf16", "other classes"], lines)


def looked_up(bits: int, columns: Sequence[int]) -> list[float]:
    """Return how many times as fast as int8 one product is whose sums are looked up."""
    rows = result("compressed-products-znver4-2cores")["products"]
    return [row["times faster"][f"{bits} bits"] for row in rows if row["columns"] in columns]


def trained_table(model: str) -> str:
    """Return what kinds of weights cost a trained model."""
    lines = []
    for row in result("compressed-znver4-2cores")["models"]:
        if row["model"] == model:
            plain = row["weights"].startswith("float32")
            smaller = f"{row['smaller']:.{int(row['smaller'] < 10)}f} times fewer"
            speeds = ["", "", ""] if plain else [f"{row['times faster'][n]:.1f}" for n in ("1", "8", "64")]
            size = [f"{row['bytes']:,}", "" if plain else smaller]
            lines.append([row["weights"], f"{row['accuracy']:.1%}", *size, *speeds])
    return markdown([{"SST": "Treebank"}.get(model, model), "accuracy", "bytes", "", "1", "8", "64"], lines)


def smaller() -> list[float]:
    """Return how many times fewer bytes each kind of weights of the trained models takes."""
    return [row["smaller"] for row in result("compressed-znver4-2cores")["models"]]


def sst(who: str) -> Any:
    """Return what training on the treebank came to: of "acronumba", or of "PyTorch by hand"."""
    return result("sst")[who]


def launches(which: str) -> list[float]:
    """Return the microseconds that preparing launches takes: "added", or in "steps" of one kernel."""
    return [row[which] for name in ("icelake", "rocketlake") for row in result(f"launches-{name}-2cores")["rows"]]


def constant(module: str, name: str) -> Any:
    """Return a constant of the code."""
    return getattr(import_module(module), name)


# -------------------------------------------------------------------------------------------------------------- tables


def markdown(heads: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    """Return a table."""
    rows = [heads, ["---"] * len(heads), *lines]
    out = []
    for k, row in enumerate(rows):
        out.append("|" + "|".join(row) + "|" if k == 1 else re.sub(r"\|  (?=\|)", "| ", "| " + " | ".join(row) + " |"))
    return "\n".join(out) + "\n"


TEXTS: dict[str, Callable[[], str]] = {
    "shares-znver4-2cores": shares_table,
    "equal-emeraldrapids-2cores": equal_table,
    "schedules-znver4-2cores": schedules_table,
    "first-lesson-emeraldrapids-2cores": lesson_table,
    "steps-znver5-2cores": steps_table,
}
