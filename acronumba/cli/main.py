"""The command line: ``acronumba`` and ``python -m acronumba``.

acronumba demo [--train]                    run a model plainly and batched, or train it
acronumba error CODE                        print the page of an error code
acronumba explain FILE.py:MODEL             explain the compiler's decisions for a model
acronumba show FILE.py:MODEL [--stage NAME] print what the compiler generated for a model
acronumba check FILE.py:MODEL               compare the batched results of a model with its plain call
acronumba trace FILE.py:MODEL               print the batches and times of a mini-batch
acronumba explore FILE.py:MODEL             write a page that shows how a model is compiled and batched
acronumba picture FILE.py:MODEL             draw the schedule or the dataflow graph of a mini-batch as SVG
acronumba bench [--train | --ragged]        measure the models of the zoo, and what each option saves
acronumba tune [FILE.py:MODEL]              measure this machine, or which strategy suits a model
acronumba lessons FOLDER                    write the lessons as notebooks
acronumba doctor                            check the installation and the machine
acronumba cache clear                       delete compiled code
acronumba completion SHELL                  print a script for bash, zsh or fish that completes all of these
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import NoReturn

from acronumba.cli.completion import SHELLS, script
from acronumba.cli.doctor import doctor
from acronumba.cli.explore import explore
from acronumba.cli.lessons import lessons
from acronumba.cli.picture import picture
from acronumba.cli.reports import check, explain, show, trace
from acronumba.cli.tune import add_arguments as add_tune_arguments
from acronumba.cli.tune import tune
from acronumba.config import interpreted
from acronumba.errors import AcronumbaError

MEASURE = ("bench", "demo", "tune")  # the commands that measure compiled code
MODEL = "a file, and a model in it; the file says what to call it with: acronumba error ACR710"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit status (0: well, 1: an error, 2: wrong usage)."""
    args = parser().parse_args(argv)
    args.argv = list(sys.argv[1:] if argv is None else argv)
    try:
        if args.command in MEASURE and interpreted():
            needs = "llvmlite, and ACRONUMBA_ENGINE not set to interpreted"
            print(f"acronumba {args.command} measures compiled code. It needs {needs}.", file=sys.stderr)
            return 1
        return int(args.run(args) or 0)
    except AcronumbaError as error:
        print(error, file=sys.stderr)
        return 1
    except BrokenPipeError:  # `acronumba show ... | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


class _Parser(argparse.ArgumentParser):
    """A parser that suggests the command that was meant."""

    def error(self, message: str) -> NoReturn:
        if wrong := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            near = difflib.get_close_matches(wrong[1], re.findall(r"[\w-]+", wrong[2]), 1)
            message += f": did you mean {near[0]}?" if near else ""
        super().error(message)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    from acronumba import __version__
    from acronumba.bench.run import add_arguments

    parser = _Parser(prog="acronumba", description="Automatic batching of dynamic deep learning models.")
    parser.add_argument("--version", action="version", version=f"acronumba {__version__}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def add(name: str, run: Callable[[argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        command = commands.add_parser(name, help=text, description=text)
        command.set_defaults(run=run, command=name)
        return command

    def of_a_model(name: str, run: Callable[[argparse.Namespace], int | None], text: str) -> argparse.ArgumentParser:
        command = add(name, run, text)
        command.add_argument("model", metavar="FILE.py:MODEL", help=MODEL)
        command.add_argument("-n", type=int, metavar="N", help="number of instances")
        return command

    demo = add("demo", _demo, "run a model plainly and batched, or train it")
    demo.add_argument(
        "--train", action="store_true", help="train a Tree-LSTM to tell modules of Python's library apart"
    )
    demo.add_argument("--seed", type=int, default=0, metavar="N", help="seed of weights and mini-batches (default 0)")
    demo.add_argument("--plot", metavar="FILE.svg", help="with --train: draw the loss and the accuracy to a file")
    error = add("error", _error, "print the page of an error code")
    error.add_argument("code", nargs="?", metavar="CODE", help="such as ACR101; without it, list all codes")
    of_a_model("explain", explain, "explain the compiler's decisions for a model")
    shown = of_a_model("show", show, "print what the compiler generated for a model")
    shown.add_argument("--stage", metavar="NAME", help="such as ir, plan, host; without it, list the stages")
    of_a_model("check", check, "compare the batched results of a model with its plain call and float64")
    of_a_model("trace", trace, "print the batches and times of a mini-batch")
    explored = of_a_model("explore", explore, "write a page that shows how a model is compiled and batched")
    explored.add_argument("-o", dest="out", metavar="FILE", help="file to write (default: MODEL.html)")
    explored.add_argument("--json", action="store_true", help="write the data instead of the page")
    explored.add_argument("--open", action="store_true", help="show the page in a browser")
    drawn = of_a_model("picture", picture, "draw a mini-batch, or measurements of `bench --json` (FILE.json), as SVG")
    drawn.add_argument("-o", dest="out", metavar="FILE.svg", help="file to write (default: MODEL.svg)")
    drawn.add_argument("--open", action="store_true", help="show the picture in a browser")
    drawn.add_argument(
        "--graph", type=int, metavar="K", help="draw the dataflow graph of instance K instead of the schedule"
    )
    add_arguments(add("bench", _bench, "measure the models of the zoo, and what each option saves"))
    add_tune_arguments(add("tune", tune, "measure this machine, or which strategy suits a model"))
    taught = add("lessons", lessons, "write the lessons and the README as notebooks; those that exist are kept")
    taught.add_argument("folder", metavar="FOLDER", help="folder to write to, made if there is none")
    taught.add_argument("--solutions", action="store_true", help="with the solutions, folded, below the exercises")
    examined = add("doctor", doctor, "check the installation and the machine")
    examined.add_argument("--prepare", action="store_true", help="compile the library that all models share")
    cache = add("cache", _cache, "show or clear the disk cache of compiled code")
    cache.add_argument("action", choices=["clear", "path"])
    text = "print a script with which a shell completes commands, options and models"
    add("completion", _completion, text).add_argument("shell", choices=list(SHELLS))
    return parser


def _demo(args: argparse.Namespace) -> int:
    from acronumba.bench import demo, demo_training

    if args.train:
        return demo_training.run(seed=args.seed, plot=args.plot)
    if args.plot:
        print("--plot needs --train", file=sys.stderr)
        return 2
    return int(demo.main() or 0)


def _error(args: argparse.Namespace) -> int:
    from acronumba.errors.codes import CODES, page_text

    if args.code is None:
        for code in CODES.values():
            print(f"{code.code}  {code.title}")
        return 0
    name = str(args.code).upper()
    name = name if name.startswith("ACR") else f"ACR{name}"
    if name not in CODES:
        near = difflib.get_close_matches(name, CODES, 3)
        print(f"There is no code {args.code}." + (f" Close to it: {', '.join(near)}." if near else ""), file=sys.stderr)
        return 2
    print(page_text(name), end="")
    return 0


def _bench(args: argparse.Namespace) -> int:
    from acronumba.bench.run import run

    return run(args, args.argv[1:])


def _completion(args: argparse.Namespace) -> None:
    print(script(args.shell, parser()), end="")


def _cache(args: argparse.Namespace) -> int:
    from acronumba.emit import cache

    if args.action == "path":
        print(cache.directory())
        return 0
    cache.clear()
    print("The cache is empty.")
    return 0
