"""``acronumba bench``: speed of the models of the zoo, effect of each option, scaling, start-up, training steps,
sentences of different lengths, and accuracy of cost estimates.

In: arguments of the command line. Out: a table, and files if asked for. Comparisons with NumPy run in a child process,
because NumPy reads its number of threads only once, when it is imported.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acronumba.bench.ragged import Ragged

_CHILD = "ACRONUMBA_BENCH_CHILD"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--ablate", action="store_true", help="measure with each option off, all off, all on")
    what.add_argument("--scaling", action="store_true", help="measure mini-batches of 1 to 4,096 instances")
    what.add_argument("--starts", action="store_true", help="measure the first mini-batch of new processes")
    what.add_argument(
        "--costs", action="store_true", help="compare what the cost model says of kernels with their time"
    )
    what.add_argument("--train", action="store_true", help="measure a training step: loss, gradients and update")
    what.add_argument("--ragged", action="store_true", help="measure a Transformer layer on sentences of any lengths")
    parser.add_argument("--models", nargs="+", metavar="NAME", help="names of models; `list` prints them")
    size, batch = (
        "hidden sizes (default small)",
        "instances per mini-batch (default 64; --ragged 32; --starts 8; --scaling 1 to 4096)",
    )
    parser.add_argument("--size", nargs="+", default=["small"], metavar="small|large|N", help=size)
    parser.add_argument("--batch", nargs="+", type=_positive, metavar="N", help=batch)
    parser.add_argument("--trees", metavar="FILE", help="file with trees of the Stanford Sentiment Treebank")
    lengths = "folder with *.txt files of sentence lengths for --ragged (default: docstrings of Python's library)"
    parser.add_argument("--lengths", metavar="FOLDER", help=lengths)
    parser.add_argument(
        "--sets", nargs="+", metavar="NAME", help="which of those files, or attention alone; `list` prints them"
    )
    parser.add_argument("--rounds", type=_positive, metavar="N", help="interleaved runs (default 15; --ragged 5)")
    parser.add_argument("--threads", type=_positive, metavar="N", help="threads that run kernels (default 1)")
    parser.add_argument(
        "--device", default="cpu", metavar="NAME", help="cpu, cuda or simulator (default cpu; not for the modes above)"
    )
    parser.add_argument("--json", metavar="FILE", help="write the measurements to a file")
    parser.add_argument("--plot", metavar="FILE", help="plot them to a file (--ablate, --scaling; needs matplotlib)")


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def main(argv: Sequence[str]) -> int:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="acronumba bench", description="measurements")
    add_arguments(parser)
    return run(parser.parse_args(argv), list(argv))


def run(args: argparse.Namespace, argv: Sequence[str]) -> int:
    """Run a benchmark; return the exit status: 1 if results are wrong or an option costs too much, 2 for bad usage."""
    from acronumba.runtime.devices.names import check_device
    from acronumba.zoo.encoder import HEADS

    if wrong := _wrong_together(args):
        print(wrong, file=sys.stderr)
        return 2
    known, every = _known(args)
    names = (args.sets if args.ragged else args.models) or every
    if names == ["list"]:
        for name, why in known.items():
            print(f"{name:24}{why}")
        return 0
    unknown = [name for name in names if name not in known]
    if unknown:
        what = "set of lengths" if args.ragged else "model"
        print(f"no {what} {unknown[0]!r}; there are: {', '.join(known)}", file=sys.stderr)
        return 2
    sizes = [int(size) if size.isdecimal() else size for size in args.size]
    for size in sizes:
        if size == 0 or (isinstance(size, str) and size not in ("small", "large")):
            print(f"no size {size!r}", file=sys.stderr)
            return 2
        if args.ragged and isinstance(size, int) and size % HEADS:
            print(f"size {size} is not a multiple of {HEADS} heads", file=sys.stderr)
            return 2
    _fill_in(args)
    check_device(args.device)
    for file in filter(None, (args.json, args.plot)):
        if not Path(file).absolute().parent.is_dir():  # say so before minutes of measuring
            print(f"no folder for {file!r}", file=sys.stderr)
            return 2
    if args.plot:
        from acronumba.bench.view import need_matplotlib

        try:
            need_matplotlib()  # before, not after minutes of measuring
        except ImportError as error:
            print(error, file=sys.stderr)
            return 1
    if not (args.ablate or args.scaling or args.starts or args.costs) and _CHILD not in os.environ:
        return _in_child(argv, args.threads)
    if args.train and _CHILD in os.environ:
        _confine(args.threads)
    return _measure(args, names, sizes)


def _wrong_together(args: argparse.Namespace) -> str:
    """Return the reason why the combination of arguments is invalid, or ""."""
    if args.ablate and len(args.size) * len(args.batch or [64]) > 1:
        return "--ablate takes one --size and one --batch"
    if args.starts and (len(args.batch or [8]) > 1 or args.trees or args.rounds or args.threads):
        return "--starts takes one --batch, and no --trees, --rounds, --threads"
    modes = ("ablate", "scaling", "starts", "costs", "train", "ragged")
    if args.device != "cpu" and any(getattr(args, mode) for mode in modes):
        return f"--device is not for {', '.join('--' + mode for mode in modes)}, which measure the CPU"
    if args.costs and args.threads:
        return "--costs takes no --threads: it measures one"
    if args.ragged and (args.models or args.trees):
        return "--ragged takes --lengths and --sets, and no --models, --trees"
    if not args.ragged and (args.lengths or args.sets):
        return "--lengths and --sets are for --ragged"
    if args.plot and not (args.ablate or args.scaling):
        return "--plot needs --ablate or --scaling; `acronumba picture FILE.json` draws other measurements"
    if args.trees and not os.path.isfile(args.trees):
        return f"no file {args.trees!r}"
    if args.lengths and not any(Path(args.lengths).glob("*.txt")):
        return f"no files *.txt in {args.lengths!r}"
    return ""


def _fill_in(args: argparse.Namespace) -> None:
    """Fill in the defaults of missing arguments."""
    from acronumba.bench.scaling import BATCHES

    batch = list(BATCHES) if args.scaling else [32] if args.ragged else [8] if args.starts else [64]
    args.batch = args.batch or batch
    args.rounds = args.rounds or (5 if args.ragged else 15)
    args.threads = args.threads or 1


def _confine(threads: int) -> None:
    """Restrict the process to `threads` cores, since our updates have no setting for it."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[-threads:])


def _known(args: argparse.Namespace) -> tuple[dict[str, str], list[str]]:
    """Return the measurable workloads or sets, each with its purpose, and the names of the default ones."""
    from acronumba.bench import lengths, ragged
    from acronumba.bench.lessons import LESSONS
    from acronumba.bench.workloads import WAITING, WORKLOADS, ZOO

    if args.ragged:
        known = {name: f"lengths of {path or 'docstrings'}" for name, path in lengths.sets(args.lengths).items()}
        known[ragged.ALONE] = "attention alone, sentences of one length"
        return known, list(known)
    if args.train:
        known = {name: lesson.workload.why for name, lesson in LESSONS.items()}
        return known, list(known)
    every = [w for w in WORKLOADS.values() if not w.waits] if args.ablate else [*ZOO, *WAITING]
    return {w.name: w.why for w in WORKLOADS.values()}, [w.name for w in every]


def _in_child(argv: Sequence[str], threads: int) -> int:
    from acronumba.bench.openblas import best_setting

    environment = {**os.environ, **best_setting(threads=threads), _CHILD: "1"}
    sys.stdout.flush()
    program = [sys.executable, "-m", "acronumba.bench.run", *argv]
    return subprocess.run(program, env=environment, check=False).returncode


def _measure(args: argparse.Namespace, names: Sequence[str], sizes: Sequence[str | int]) -> int:
    from rich.console import Console

    from acronumba.bench import ablate, costs, ragged, scaling, speed, starts, training
    from acronumba.bench import view as views
    from acronumba.bench.lessons import LESSONS
    from acronumba.bench.workloads import WORKLOADS
    from acronumba.views.progress import progress

    console = Console() if sys.stdout.isatty() else Console(width=120)
    every: Mapping[str, Any] = {} if args.ragged else LESSONS if args.train else WORKLOADS
    workloads = [every[name] for name in names if name in every]
    given = {"trees": args.trees, "threads": args.threads}
    result: (
        ablate.Ablation | costs.Costs | scaling.Scaling | speed.Speeds | starts.Starts | training.Steps | ragged.Ragged
    )
    if args.ablate:
        with progress("ablation", len(workloads) * len(ablate.variants())) as step:
            result = ablate.ablate(workloads, size=sizes[0], batch=args.batch[0], count=args.rounds, step=step, **given)
        console.print(views.ablation_view(result, console.width))
    elif args.scaling:
        with progress("scaling", len(workloads) * len(sizes)) as step:
            result = scaling.measure(workloads, sizes=sizes, batches=args.batch, rounds=args.rounds, step=step, **given)
        console.print(views.scaling_view(result))
    elif args.starts:
        with progress("starts", len(workloads) * len(sizes)) as step:
            result = starts.measure(workloads, sizes=sizes, batch=args.batch[0], step=step)
        console.print(views.starts_view(result))
    elif args.costs:
        with progress("costs", len(workloads) * len(sizes)) as step:
            given = {"trees": args.trees, "rounds": args.rounds}
            result = costs.measure(workloads, sizes=sizes, batches=args.batch, step=step, **given)
        console.print(views.costs_view(result))
    elif args.train:
        with progress("training", len(workloads) * len(sizes) * len(args.batch)) as step:
            given |= {"rounds": args.rounds}
            result = training.measure(workloads, sizes=sizes, batches=args.batch, step=step, **given)
        console.print(views.training_view(result))
    elif args.ragged:
        result = _ragged(args, names, sizes)
        console.print(views.ragged_view(result))
    else:
        with progress("speed", len(workloads) * len(sizes) * len(args.batch)) as step:
            given |= {"rounds": args.rounds, "device": args.device}
            result = speed.measure(workloads, sizes=sizes, batches=args.batch, step=step, **given)
        console.print(views.speeds_view(result))
    if args.json:
        Path(args.json).write_text(json.dumps(views.numbers(result), indent=2) + "\n", encoding="utf-8")
    if isinstance(result, ablate.Ablation):
        if args.plot:
            views.plot(result, args.plot)
        return int(any(o.verdict == "costs" for o in result.options))
    if isinstance(result, scaling.Scaling) and args.plot:
        views.plot_scaling(result, args.plot)
    if isinstance(result, speed.Speeds | training.Steps | ragged.Ragged):
        return int(any(row.wrong for row in result.rows))
    return 0


def _ragged(args: argparse.Namespace, names: Sequence[str], sizes: Sequence[str | int]) -> Ragged:
    """Return the result of `ragged.measure` for sets of lengths."""
    from acronumba.bench import lengths, ragged
    from acronumba.views.progress import progress

    sets = lengths.load(args.lengths, [name for name in names if name != ragged.ALONE])
    alone = ragged.ALONE in names
    with progress("ragged", len(sets) * len(sizes) * len(args.batch) + alone * len(ragged.LENGTHS)) as step:
        given = {"attention": alone, "rounds": args.rounds, "threads": args.threads}
        return ragged.measure(sets, sizes=sizes, batches=args.batch, step=step, **given)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
