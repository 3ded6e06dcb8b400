"""Options of models and the environment.

`Options` control how a model is compiled and run; a model holds one, `Model.with_options` makes another. The
environment is read on each use, never at import:

    ACRONUMBA_DEBUG=0..6        log to standard error: 1 compilations and their times, 2 the program,
                                3 the plan, 4 the host program, 5 the kernels, 6 every mini-batch
    ACRONUMBA_VERIFY=0..3       checks: 0 none, 1 (default) the program after each stage, 2 also against that
                                of a complete walk, every mini-batch against the plain call, and operands marked as
                                shared, by their addresses; 3 also nodes that were merged as equal: each is computed
                                again, and its bits are compared
    ACRONUMBA_QUIET=0..1        1: no line on standard error where compiling takes more than two seconds
    ACRONUMBA_LESSONS=0..1      1: a check of a lesson (`acronumba.learn`) that fails raises; else it prints the hint
    ACRONUMBA_ENGINE            "compiled", or "interpreted": plain Python and NumPy in the place of machine code
    ACRONUMBA_CACHE_DIR         folder of the cache of compiled code
    ACRONUMBA_DEVICE            default device of models: "cpu"
"""

from __future__ import annotations

import dataclasses
import difflib
import functools
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypedDict, Unpack

from acronumba.errors.codes import reject
from acronumba.strategy import DEFAULT, Strategy

VERSION = "0.1.0"
SCHEDULES = ("lookahead", "depth", "agenda")
COPIES = 32  # of a function or kernel: each costs code of the host program, and two contexts share no batch
STATES = ("written", "initial")
# bits of a factor; those of tf32 are of GPUs
PRECISIONS = {"float32": 24, "tf32x3": 24, "tf32": 11, "bf16": 8}


def _switch(*, serves: str = "", bits: bool = False, memory: bool = False) -> bool:
    """Return the field of an optimisation, which can be switched off.

    Parameters
    ----------
    serves : str
        The only schedule that the optimisation is for, or "".
    bits : bool
        Whether it changes the order of summation in matrix products.
    memory : bool
        Whether it changes only memory layout and the time of computation, and neither kernels nor recorded nodes.
    """
    facts = {"switch": True, "serves": serves, "bits": bits, "memory": memory}
    made: bool = field(default=True, metadata=facts)
    return made


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a model is compiled and run.

    The options in `SWITCHES` are optimisations. No option changes a result's bits, except `reuse` and `duplicate`,
    which change the order of summation in matrix products, and `precision`, which rounds the factors of matrix
    products.
    """

    reuse: bool = _switch(bits=True)  # operands that are the same for all instances are not gathered
    duplicate: bool = _switch(bits=True)  # code whose matrix products read other weights elsewhere is copied
    hoist: bool = _switch()  # operators that do not depend on earlier steps are kernels of their own; rows too
    phases: bool = _switch(serves="depth")  # components of the kernel graph run one after the other
    blocks: bool = _switch()  # static blocks: straight-line tensor code is one node
    fuse: bool = _switch()  # vertical fusion inside a block
    horizontal: bool = _switch()  # matrix products with one left operand or one weight become one
    gather_fusion: bool = _switch()  # kernels read scattered operands directly
    forkjoin: bool = _switch()  # independent calls of one instance are fibers
    ragged: bool = _switch()  # nodes of different dynamic dimensions are one batch
    equal: bool = _switch()  # nodes of one kernel with equal operands are one node
    recycle: bool = _switch(memory=True)  # the place of a result is used again once nothing reads it
    parts: bool = _switch(memory=True)  # a mini-batch with more values than fit into a cache runs as micro-batches
    schedule: str | Callable[..., Any] = "lookahead"  # one of SCHEDULES, or from DFG columns to batch numbers
    effort: int | None = None  # 0..3: how far "lookahead" searches; None: as it pays, not above "depth", "agenda"
    threads: int | None = None  # None: all CPUs of the process
    memory_limit: int | None = None  # bytes; None: half of the free memory
    max_steps: int = 10**8  # host steps of one instance, after which it fails
    precision: str = "float32"  # of the factors of float32 matrix products: one of PRECISIONS
    persistent: bool | str | None = None  # GPU: one launch for all batches of a mini-batch; None: where that is faster
    state: str = "written"  # assigned attributes of given objects: read as "written" by the instance; or from "initial"
    strategy: Strategy | None = None  # how code is generated; None: as `acronumba tune` has found, else the default

    def __post_init__(self) -> None:
        for f in dataclasses.fields(self):
            value = getattr(self, f.name)
            if problem := _problem(f.name, value, f.default):
                raise reject("ACR705", message=f"option {f.name}: {problem}", seen=repr(value))

    @property
    def decisions(self) -> Strategy:
        """The strategy, with the parts that these options switch off."""
        chosen = self.strategy or DEFAULT
        if self.fuse and self.horizontal and self.gather_fusion:
            return chosen
        return dataclasses.replace(chosen, vertical=self.fuse, horizontal=self.horizontal, gather=self.gather_fusion)

    def precision_on(self, device: str) -> str:
        """Return the precision to which factors of matrix products are rounded on a device."""
        whole = self.precision == "tf32x3" or (device == "cpu" and self.precision == "tf32")
        return "float32" if whole else self.precision

    def replace(self, **changes: Unpack[Changes]) -> Options:
        """Return options that differ in the given ones."""
        names = [f.name for f in dataclasses.fields(self)]
        for name in changes:
            if name not in names:
                near = difflib.get_close_matches(name, names, 1)
                rewrite = f"did you mean `{near[0]}`?" if near else f"one of: {', '.join(names)}"
                raise reject("ACR705", message=f"there is no option `{name}`", rewrite=rewrite)
        return dataclasses.replace(self, **changes)


@functools.lru_cache(maxsize=256)
def without_refactoring(options: Options) -> Options:
    """Return the options with callers that compute the products of the results of their calls."""
    if not options.decisions.refactor:
        return options
    return dataclasses.replace(options, strategy=dataclasses.replace(options.strategy or DEFAULT, refactor=False))


class Changes(TypedDict, total=False):
    """The fields of `Options`, for type checkers: what `model` and `Model.with_options` take by name."""

    reuse: bool
    duplicate: bool
    hoist: bool
    phases: bool
    blocks: bool
    fuse: bool
    horizontal: bool
    gather_fusion: bool
    forkjoin: bool
    ragged: bool
    equal: bool
    recycle: bool
    parts: bool
    schedule: str | Callable[..., Any]
    effort: int | None
    threads: int | None
    memory_limit: int | None
    max_steps: int
    precision: str
    persistent: bool | str | None
    state: str
    strategy: Strategy | None


def _switches(**facts: Any) -> tuple[str, ...]:
    """Return the names of the optimisations with these facts (metadata of `_switch`), in order."""
    found = ((f.name, f.metadata) for f in dataclasses.fields(Options) if f.metadata.get("switch"))
    return tuple(name for name, of in found if all(of[k] == v for k, v in facts.items()))


SWITCHES = _switches()  # the optimisations
OPTIMISATIONS = _switches(memory=False)  # those that change the number of nodes, batches or stages
OF_DEPTH = _switches(serves="depth")  # those that serve the schedule "depth" alone
BITWISE = _switches(bits=False)  # those without which every bit of a result is the same


def _problem(name: str, value: Any, default: Any) -> str:
    """Return the reason why the value of an option is invalid, or ""."""
    if isinstance(default, bool):
        return "" if isinstance(value, bool) else "must be True or False"
    if name == "strategy":
        return "" if value is None or isinstance(value, Strategy) else "must be a Strategy or None"
    if name == "schedule":
        known = callable(value) or value in SCHEDULES
        return "" if known else f"must be one of {', '.join(SCHEDULES)}, or a function"
    if name == "precision":
        return "" if value in PRECISIONS else f"must be one of {', '.join(PRECISIONS)}"
    if name == "state":
        return "" if value in STATES else f"must be one of {', '.join(STATES)}"
    if name == "persistent":
        return (
            ""
            if value in (True, False, None, "graph") and not _is_int(value)
            else 'must be True, False, "graph" or None'
        )
    if name == "effort":
        return "" if value is None or (_is_int(value) and 0 <= value <= 3) else "must be 0, 1, 2, 3 or None"
    optional = name in ("threads", "memory_limit")
    if (optional and value is None) or (_is_int(value) and value >= 1):
        return ""
    return "must be a positive int" + " or None" * optional


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def debug_level() -> int:
    """Return ACRONUMBA_DEBUG, 0 to 6 (default 0)."""
    return _level("ACRONUMBA_DEBUG", 6, 0)


def verify_level() -> int:
    """Return ACRONUMBA_VERIFY, 0 to 3 (default 1)."""
    return _level("ACRONUMBA_VERIFY", 3, 1)


def interpreted() -> bool:
    """Return whether models are interpreted: ACRONUMBA_ENGINE, by default only where llvmlite is not installed."""
    engine = os.environ.get("ACRONUMBA_ENGINE", "") or ("compiled" if _can_compile() else "interpreted")
    if engine not in ("compiled", "interpreted"):
        raise reject("ACR705", message="ACRONUMBA_ENGINE must be compiled or interpreted", seen=repr(engine))
    return engine == "interpreted"


@functools.cache
def _can_compile() -> bool:
    try:
        return importlib.util.find_spec("llvmlite") is not None
    except ImportError:  # what keeps a module from being found may say so by an exception
        return False


def is_quiet() -> bool:
    """Return whether ACRONUMBA_QUIET is 1 (default 0; in a browser, where no thread can start, 1)."""
    return bool(_level("ACRONUMBA_QUIET", 1, int(sys.platform == "emscripten")))


def is_strict_lesson() -> bool:
    """Return whether ACRONUMBA_LESSONS is 1 (default 0)."""
    return bool(_level("ACRONUMBA_LESSONS", 1, 0))


def is_open(stream: Any) -> bool:
    """Whether a standard stream can be written to: a service may have none, or a closed one."""
    return stream is not None and not getattr(stream, "closed", False)


def at_terminal(stream: Any) -> bool:
    """Whether a standard stream is a terminal; False for a replacement without `isatty`."""
    return is_open(stream) and hasattr(stream, "isatty") and bool(stream.isatty())


def cache_limit() -> int:
    """Return the limit of the disk cache in bytes: `ACRONUMBA_CACHE_LIMIT` megabytes, by default 1024."""
    return _level("ACRONUMBA_CACHE_LIMIT", 10**6, 1024) << 20


def variable(name: str) -> str:
    """Return a variable of the environment, "" if it is not set, in less time than `os.environ.get`."""
    held = getattr(os.environ, "_data", None)  # CPython's table, encoded; a test may put a dict in the place of environ
    return "" if held is not None and _encoded(name) not in held else os.environ.get(name, "")


@functools.cache
def _encoded(name: str) -> object:
    return os.environ.encodekey(name)


def _level(name: str, highest: int, default: int) -> int:
    held = getattr(os.environ, "_data", None)  # see `variable`; most variables are not set
    text = "" if held is not None and _encoded(name) not in held else os.environ.get(name, "")
    if not text:
        return default
    if text.isdecimal() and int(text) <= highest:
        return int(text)
    raise reject("ACR705", message=f"{name} must be a number from 0 to {highest}", seen=repr(text))
