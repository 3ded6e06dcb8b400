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
    from acronumba.bench.modes import Mode

CHILD = "ACRONUMBA_BENCH_CHILD"
MODES = (
    "ablate",
    "scaling",
    "starts",
    "costs",
    "train",
    "ragged",
    "torch",
)  # options for another measurement than speed


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--ablate", action="store_true", help="measure with each option off, all off, all on")
    what.add_argument("--scaling", action="store_true", help="measure mini-batches of 1 to 4,096 instances")
    what.add_argument("--starts", action="store_true", help="measure the first mini-batch of new processes")
    what.add_argument(
        "--costs", action="store_true", help="compare the cost model's estimates with measured times of kernels"
    )
    what.add_argument("--train", action="store_true", help="measure a training step: loss, gradients and update")
    what.add_argument("--ragged", action="store_true", help="measure a Transformer layer on sentences of any lengths")
    what.add_argument("--torch", action="store_true", help="measure modules of PyTorch against their plain calls")
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
    from acronumba.bench import checkout, modes

    if wrong := _wrong_together(args):
        print(wrong, file=sys.stderr)
        return 2
    there = checkout.find("modes")
    table: Mapping[str, Mode[Any]] = modes.MODES if there is None else there.MODES
    name = next((name for name in MODES if getattr(args, name)), "speed")
    if name not in table:
        print(f"--{name} needs {checkout.NEEDED}", file=sys.stderr)
        return 2
    mode = table[name]
    known = mode.subjects(args)
    names = (args.sets if args.ragged else args.models) or mode.default(args)
    if names == ["list"]:
        for name, why in known.items():
            print(f"{name:24}{why}")
        return 0
    args.size = [int(size) if size.isdecimal() else size for size in args.size]
    if wrong := _wrong_names(args, names, known) or _wrong_sizes(args) or _wrong_files(args):
        print(wrong, file=sys.stderr)
        return 2
    args.batch, args.rounds, args.threads = args.batch or mode.batches, args.rounds or mode.rounds, args.threads or 1
    return _start(args, argv, mode, names, complete=there is not None)


def _start(args: argparse.Namespace, argv: Sequence[str], mode: Mode[Any], names: Sequence[str], complete: bool) -> int:
    """Run a measurement, here or in a child; `complete`: whether the copy is that of a checkout."""
    from acronumba.bench import checkout
    from acronumba.runtime.devices.names import check_device

    check_device(args.device)
    if args.plot:
        from acronumba.bench.view import need_matplotlib

        try:
            need_matplotlib()  # before, not after minutes of measuring
        except ImportError as error:
            print(error, file=sys.stderr)
            return 1
    if mode.in_child and CHILD not in os.environ:
        status = _in_child(argv, args.threads)
        if not complete:
            print(f"\nOther baselines and measurements need {checkout.NEEDED}")
        return status
    return _measure(args, mode, names)


def _wrong_together(args: argparse.Namespace) -> str:
    """Return the reason why the combination of arguments is invalid, or ""."""
    if args.ablate and len(args.size) * len(args.batch or [64]) > 1:
        return "--ablate takes one --size and one --batch"
    if args.starts and (len(args.batch or [8]) > 1 or args.trees or args.rounds or args.threads):
        return "--starts takes one --batch, and no --trees, --rounds, --threads"
    if args.device != "cpu" and any(getattr(args, mode) for mode in MODES):
        return f"--device is not for {', '.join('--' + mode for mode in MODES)}, which measure the CPU"
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


def _wrong_names(args: argparse.Namespace, names: Sequence[str], known: Mapping[str, str]) -> str:
    """Return which named subject is not among those that are known, or ""."""
    unknown = [name for name in names if name not in known]
    what = "set of lengths" if args.ragged else "model"
    return f"no {what} {unknown[0]!r}; there are: {', '.join(known)}" if unknown else ""


def _wrong_sizes(args: argparse.Namespace) -> str:
    """Return the reason why a size is invalid, or ""."""
    from acronumba.zoo.encoder import HEADS

    for size in args.size:
        if size == 0 or (isinstance(size, str) and size not in ("small", "large")):
            return f"no size {size!r}"
        if args.ragged and isinstance(size, int) and size % HEADS:
            return f"size {size} is not a multiple of {HEADS} heads"
    return ""


def _wrong_files(args: argparse.Namespace) -> str:
    """Return which file cannot be written, or ""."""
    files = (file for file in (args.json, args.plot) if file and not Path(file).absolute().parent.is_dir())
    return next((f"no folder for {file!r}" for file in files), "")


def _in_child(argv: Sequence[str], threads: int) -> int:
    from acronumba.bench.openblas import best_setting

    environment = {**os.environ, **best_setting(threads=threads), CHILD: "1"}
    sys.stdout.flush()
    program = [sys.executable, "-m", "acronumba.bench.run", *argv]
    return subprocess.run(program, env=environment, check=False).returncode


def _measure(args: argparse.Namespace, mode: Mode[Any], names: Sequence[str]) -> int:
    """Run a measurement in this process, print its table, and write its files; return the exit status."""
    from rich.console import Console

    from acronumba.bench.view import numbers
    from acronumba.views.progress import progress

    console = Console() if sys.stdout.isatty() else Console(width=120)
    with progress("measuring", mode.steps(args, names)) as step:
        result = mode.measure(args, names, step)
    console.print(mode.view(result, console.width))
    if args.json:
        Path(args.json).write_text(json.dumps(numbers(result), indent=2) + "\n", encoding="utf-8")
    if args.plot and mode.plot is not None:
        mode.plot(result, args.plot)
    return int(mode.failed(result))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
