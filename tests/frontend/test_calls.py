"""Calls and subscripts read their arguments as NumPy and Python do, or reject them under the argument.

The calls are generated: every function and method with a handler, with every parameter of its signature set to values
that are not the default. A call is as the plain call, or rejected with the caret under that argument.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import math
import re
import statistics
import sys
import warnings
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import acronumba.frontend.calls.call  # noqa: F401 -- its handlers
from acronumba import AcronumbaError, InstanceErrors, compressed, nn, random
from acronumba.api.check import compare
from acronumba.api.results import equal
from acronumba.frontend.calls.signatures import UNSET, signature_of
from acronumba.frontend.calls.tables import ROWS, Row
from tests.support.chosen import one_in
from tests.support.enums import Part

HEADER = """
import collections
import itertools
import math
import re
import statistics

import numpy as np
from tests.support.enums import Part, Plain

from dataclasses import dataclass, field, replace
from typing import NamedTuple

from acronumba import compressed, model, nn, random


def pair(a, /, b, *, c=1):
    return a - b + 10 * c


def many(a, /, *rest, k=2, **others):
    return (a, *rest, k)


def put(values, where, value):
    out = [q for q in values]
    out[where] = value
    return out


@dataclass
class Some:
    n: int = 1
    m: int = field(default=5, kw_only=True)


class Two(NamedTuple):
    a: int
    b: int = 4
"""

# ---- what is given: texts of arguments, of `x` float32[2, 4], `v` float64[4], `i` int64[2, 4], `n` int, `y` float

X = "x"
SQUARE = "x[:, :2] @ x[:, :2].T + np.eye(2)"
CROSSED = "x[:, :3], v[:3]"
REQUIRED: dict[Any, str] = {  # the arguments of a call that is in the language
    np.matmul: "x, x.T", np.dot: "x, x.T", np.outer: "v, v", np.inner: "x, x", np.vdot: "x, x",
    np.einsum: "'ij->ji', x", np.where: "x > 1, x, 0.0", np.clip: "x, 1, 3", np.invert: "i", np.bitwise_and: "i, i",
    np.bitwise_or: "i, i", np.bitwise_xor: "i, i", np.left_shift: "i, 2", np.right_shift: "i, 1",
    np.concatenate: "[x, x]", np.stack: "[x, x]", np.hstack: "[x, x]", np.vstack: "[x, x]", np.split: "x, 2",
    np.reshape: "x, (4, 2)", np.swapaxes: "x, 0, 1", np.moveaxis: "x, 0, 1", np.expand_dims: "x, 0",
    np.squeeze: "np.ones((1, 3))", np.broadcast_to: "v, (2, 4)", np.take: "x, 1", np.tile: "v, 2", np.zeros: "3",
    np.empty: "3", np.ones: "3", np.full: "3, 2.5", np.full_like: "x, 2.5", np.eye: "3", np.identity: "3",
    np.arange: "1, 4", np.result_type: "x, n", np.promote_types: "np.float32, np.int64", np.finfo: "np.float32",
    np.iinfo: "np.int32", np.atleast_1d: "x, y", random.threefry: "np.array([n, 2], np.uint64), np.uint64(3)",
    np.ndarray.dot: "x.T", np.ndarray.reshape: "4, 2", np.ndarray.swapaxes: "0, 1", np.ndarray.take: "1",
    np.ndarray.astype: "np.int64", np.ndarray.item: "3", np.apply_along_axis: "np.sum, 0, x",
    nn.scale_gradient: "x, 0.5", nn.segment_sum: "x, i[:, 0] % 2, 2",
    np.lib.stride_tricks.sliding_window_view: "x, (1, 2)",
    compressed.sums: "x.astype(np.int8), i.astype(np.int8)",
    compressed.rows_of: "np.zeros((256, 8), np.int8), i.astype(np.uint8)",
    **dict.fromkeys((f.reduceat for f in (np.add, np.multiply, np.maximum, np.minimum)), "x, [0, 1]"),
    int: "y", float: "n", bool: "n", len: "x", round: "y", range: "1, 7, n", zip: "[1, 2], [3, 4]",
    enumerate: "[n, 2]", reversed: "[n, 2]", list: "(n, 2)", tuple: "[n, 2]", sum: "[n, 2]", any: "[n > 9, True]",
    all: "[n > 9, True]", min: "[n, -6]", max: "[n, -6]", sorted: "[n, -6, 2]", iter: "[n, 2]", pow: "y, 2.0",
    divmod: "n, 3", type: "n", getattr: "x, 'shape'", hasattr: "x, 'shape'", setattr: "Some(), 'n', n",
    np.piecewise: "v, [v > 0], [1, 2]", bin: "n", oct: "n", hex: "n",
    map: "abs, [n, -6]", filter: "None, [n, 0]", abs: "y", math.fsum: "[y, 0.5]",
    math.acosh: "y + 1.0", math.hypot: "y, 2.0", math.gcd: "n, 6", math.lcm: "n, 6", math.factorial: "n",
    math.isqrt: "n", math.comb: "n, 2", math.perm: "n, 2", math.prod: "[n, 2]", math.floor: "y", math.ceil: "y",
    math.trunc: "y", math.isclose: "y, 0.5", next: "(q for q in [n, 2])", slice: "1, 2",
    dict: "a=n", callable: "abs", deque: "[n, 2]", defaultdict: "int", OrderedDict: "a=n", Counter: "[n, 2]",
    nn.sigmoid: "x", nn.erf: "x", math.dist: "[y, 1.0], [0.0, y]",
    chr: "97", ord: "'a'", str: "'a'", vars: "math", statistics.mean: "[y, 2.0]", statistics.fmean: "[n, 2]",
    statistics.median: "[n, 2]", statistics.median_low: "[n, 2]", statistics.median_high: "[n, 2]",
    **dict.fromkeys((statistics.stdev, statistics.pstdev, statistics.variance, statistics.pvariance), "[n, 2]"),
    math.ldexp: "y, 3", np.can_cast: "np.int32, np.float32", np.isdtype: "x.dtype, 'integral'",
    np.issubdtype: "x.dtype, np.floating", np.astype: "x, np.int64", np.isscalar: "y", np.iterable: "x", np.real: "x",
    np.imag: "x", np.angle: "x", np.isclose: "x, x + 1e-6", np.allclose: "x, x + 1e-6", np.array_equal: "x, x + y",
    np.select: "[x > 3, x > 1], [x, -x]", np.choose: "i % 2, [x, -x]", np.tri: "3", np.diag: "v", np.diagflat: "v",
    np.linspace: "y, 2.0", np.logspace: "y, 2.0", np.geomspace: "y, 2.0", np.tril_indices: "3", np.triu_indices: "3",
    np.hanning: "5", np.hamming: "5", np.repeat: "x, 2", np.roll: "x, 1", np.rollaxis: "x, 1", np.append: "x, x",
    np.insert: "v, 1, 2.0", np.delete: "v, 1", np.resize: "x, (3, 3)", np.take_along_axis: "x, i % 2",
    np.unravel_index: "n, (3, 4)", np.ravel_multi_index: "(1, n % 4), (3, 4)", np.interp: "x, [0.0, 2.0], [1.0, 5.0]",
    np.fft.fftfreq: "5", np.fft.rfftfreq: "5", np.unwrap: "v", np.pad: "x, 1", np.indices: "(2, n)",
    np.fromfunction: "lambda a, b: a + b, (2, 3)", np.diag_indices: "3", np.column_stack: "[v, v]",
    np.dstack: "[x, x]", np.block: "[[x, x], [x, x]]", np.array_split: "x, 3", np.hsplit: "x, 2", np.vsplit: "x, 2",
    np.dsplit: "np.ones((2, 2, 2)), 2", np.tensordot: "x, x", np.linalg.tensordot: "x, x",
    np.linalg.solve: f"{SQUARE}, v[:2]", np.linalg.inv: SQUARE, np.linalg.det: SQUARE, np.linalg.slogdet: SQUARE,
    np.linalg.cholesky: SQUARE, np.linalg.matrix_power: f"{SQUARE}, 2", np.linalg.eigvalsh: SQUARE,
    np.linalg.pinv: SQUARE, np.linalg.qr: SQUARE, np.linalg.svd: f"{SQUARE}, True, False",
    np.linalg.multi_dot: "[x, x.T]", np.linalg.matmul: "x, x.T", np.linalg.outer: "v, v", np.linalg.cross: CROSSED,
    np.cross: CROSSED, np.partition: "x, 1", np.argpartition: "x, 1", np.ndarray.argpartition: "1",
    np.ndarray.searchsorted: "x", np.ndarray.repeat: "2", np.lexsort: "(v, -v)", np.searchsorted: "v, x",
    np.digitize: "x, v", np.extract: "x > 2, x", np.compress: "v > 1, x", np.trim_zeros: "v", np.unique: "x",
    np.isin: "i, [1, 2]", np.union1d: "x, v", np.intersect1d: "x, v", np.setdiff1d: "x, v", np.setxor1d: "x, v",
    np.quantile: "x, 0.3", np.percentile: "x, 30", np.ediff1d: "v", np.trapezoid: "x", np.kron: "x, x",
    np.convolve: "v, v", np.correlate: "v, v", np.diagonal: "x", np.bincount: "i[0]", np.matvec: "x, v",
    np.vecmat: "v, x.T", np.corrcoef: "v", np.cov: "v", np.bitwise_or.reduce: "i", np.bitwise_xor.reduce: "i",
    np.gcd: "i, 4", np.lcm: "i, 4", np.ldexp: "x, 2", np.cumulative_sum: "v", np.cumulative_prod: "v",
    np.unstack: "np.stack([v, v])", np.conjugate: "x", np.broadcast_shapes: "(2, 1), (3,)", np.ix_: "[0, 1], [1]",
    np.bitwise_and.outer: "i, i", np.bitwise_or.outer: "i, i", np.bitwise_xor.outer: "i, i", np.gcd.outer: "i, i",
    np.left_shift.outer: "i, i", np.right_shift.outer: "i, i", np.lcm.outer: "i, i", np.ldexp.outer: "x, i",
    np.meshgrid: "v, v", np.nanargmax: "x", np.vander: "v", np.r_: "v, v", np.linalg.matrix_rank: SQUARE,
    np.linalg.matrix_norm: "x", np.linalg.vector_norm: "v", np.from_dlpack: "x", np.polyval: "v, x",
    format: "2", repr: "2", sys.exit: "2", re.compile: "'a'",
    **dict.fromkeys((re.match, re.search, re.fullmatch, re.finditer, re.findall, re.split), "'a', 'a'"),
    str.maketrans: "'ab', 'bc'", re.escape: "'a.'", re.sub: "'a', 'b', 'cac'", re.subn: "'a', 'b', 'cac'",
}  # fmt: skip
SELF: dict[Any, str] = {np.ndarray.searchsorted: "v", np.ndarray.squeeze: "np.ones((1, 3))", np.ndarray.tolist: "v"}
WRAPPED: dict[Any, str] = {  # what cannot be a result, or is not determined
    np.empty: "np.zeros_like({})", np.empty_like: "np.zeros_like({})", np.result_type: "np.zeros(2, {})",
    np.promote_types: "np.zeros(2, {})", np.finfo: "np.zeros({}.bits)", np.iinfo: "np.zeros({}.bits)",
    vars: "len({})", range: "list({})", zip: "list({})", enumerate: "list({})", reversed: "list({})", iter: "list({})",
    map: "list({})", filter: "list({})", type: "{}(7)", slice: "x[:, {}]", deque: "list({})", defaultdict: "dict({})",
    OrderedDict: "dict({})", Counter: "dict({})", itertools.count: "list(zip({}, [n, 2]))", re.compile: "{}.pattern",
    **dict.fromkeys((re.match, re.search, re.fullmatch), "{}.end()"), re.finditer: "len(list({}))",
}  # fmt: skip
OTHER: dict[str, tuple[str, ...]] = {  # values of a parameter, of which one at least is not its default
    "object": ("3",), "encoding": ("'ascii'",), "errors": ("'strict'",), "memo": ("{}",), "format_spec": ("'d'",),
    "axis": ("1", "-1", "0", "(0,)", "None", "(0, 1)", "True", "1.0"), "dtype": ("np.float64", "'int32'", "int"),
    "out": ("x",), "keepdims": ("True", "1"), "initial": ("2.0",), "where": ("x > 1",),
    "casting": ("'unsafe'", "'no'"), "order": ("'F'", "'A'", "'K'", "'C'"), "subok": ("True", "False"),
    "writeable": ("True",),
    "signature": ("'f->f'",), "axes": ("(1, 0)", "[0, 1]", "(-1, 0)", "(0, 5)", "(0, 0)"), "ddof": ("1", "0.5"),
    "mean": ("1.0",), "correction": ("1",), "ord": ("1", "2", "'fro'", "np.inf"), "optimize": ("True",),
    "device": ("'cpu'",), "like": ("x",), "copy": ("True", "False", "None"), "ndmin": ("2",), "ndmax": ("1",),
    "shape": ("(4, 2)", "8", "[2, 4]", "(n, 2)"), "mode": ("'clip'",), "M": ("2",), "k": ("1", "-1", "1.0"),
    "start": ("1",), "stop": ("5",), "step": ("2",), "min": ("1",), "max": ("2",), "a_min": ("1",), "a_max": ("2",),
    "x": ("y",), "y": ("0.5",), "base": ("10",), "ndigits": ("1",), "strict": ("True",), "key": ("abs",),
    "default": ("7",), "reverse": ("True",), "mod": ("3",), "sentinel": ("1",), "bases": ("(int,)",), "dict": ("{}",),
    "deg": ("True",), "decimals": ("1", "-1"), "nan": ("1.0",), "posinf": ("2.0",), "neginf": ("3.0",),
    "rtol": ("0.1",), "atol": ("0.5",), "equal_nan": ("True", "False"), "N": ("3",), "increasing": ("True",),
    "num": ("4", "1", "0"), "endpoint": ("False",), "retstep": ("True",), "m": ("4",), "offset": ("1", "-1"),
    "axis1": ("1",), "axis2": ("0",), "left": ("7.0",), "right": ("True",), "period": ("3.0",), "d": ("0.5",),
    "discont": ("4.0",), "constant_values": ("2",), "stat_length": ("1",), "end_values": ("1",),
    "reflect_type": ("'odd'",), "sparse": ("True",), "ndim": ("3",), "indexing": ("'ij'",), "kind": ("'stable'",),
    "stable": ("True",), "sorter": ("i",), "side": ("'right'",), "trim": ("'f'", "'b'"), "return_index": ("True",),
    "return_inverse": ("True",), "return_counts": ("True",), "sorted": ("True",), "assume_unique": ("True",),
    "invert": ("True",), "return_indices": ("True",), "overwrite_input": ("True",), "method": ("'lower'",),
    "weights": ("x + 1",), "to_end": ("1.0",), "to_begin": ("1.0",), "dx": ("0.5",), "axisa": ("0",), "axisb": ("0",),
    "axisc": ("0",), "include_initial": ("True",), "n": ("2", "0"), "prepend": ("x",), "append": ("x",),
    "rowvar": ("False",), "bias": ("True",), "fweights": ("i",), "aweights": ("v",), "minlength": ("9",),
    "returned": ("True",), "upper": ("True",), "UPLO": ("'U'",), "rcond": ("0.1",), "hermitian": ("True",),
    "tol": ("0.5",), "full_matrices": ("False",), "compute_uv": ("False",), "max_rank": ("1",), "out1": ("x",),
    "out2": ("x",), "to": ("np.int8",), "xi": ("v",),
    "rel_tol": ("0.1",), "abs_tol": ("0.5",), "iterable": ("(1, 2)",), "iterables": ("[3, 4]",),
    "maxlen": ("1",), "status": ("2",), "bins": ("3",), "range": ("(0, 4)",), "density": ("True",), "pyfunc": ("abs",),
    "flags": ("2",), "count": ("1",), "maxsplit": ("1",), "z": ("'c'",),
    "newshape": ("(4, 2)",), "interpolation": ("'lower'",),  # of NumPy before 2.4
}  # fmt: skip
PLACED: dict[str, str] = {"operands": "x", "shape": "2", "axes": "0", "args": "1", "arrays_and_dtypes": "y",
                          "arys": "v", "bounds": "1", "iterables": "[1, 2]", "coordinates": "1.0",
                          "integers": "4", "xi": "v", "parts": "v"}  # fmt: skip


@dataclass
class Line:
    """A call in a model, and the argument that it is about."""

    call: str
    argument: str = ""
    wrapped: str = "{}"
    allowed: bool = False  # it must not be rejected: the argument is the default

    @property
    def text(self) -> str:
        return self.wrapped.format(self.call)


def calls_of(row: Row) -> list[Line]:
    """Return calls with each parameter of a function or method set to other values, by name and by place."""
    function = row.function
    parameters = signature_of(row.signature).parameters
    method = row.what.startswith(".")
    name, wrapped = row.what, WRAPPED.get(function, "{}")
    shown = list(parameters.values())[1:] if method else list(parameters.values())
    if method:
        name = f"{SELF.get(function, X)}{row.what}"
    given = [ast.unparse(e) for e in ast.parse(f"f({base_of(row, shown)})", mode="eval").body.args]  # type: ignore[attr-defined]
    out = [Line(f"{name}({', '.join(given)})", wrapped=wrapped, allowed=True)]

    def add(arguments: list[str], about: str, allowed: bool = False) -> None:
        out.append(Line(f"{name}({', '.join(arguments)})", about, wrapped, allowed))

    for k, p in enumerate(shown):
        if p.kind == p.VAR_POSITIONAL:
            add([*given, PLACED[p.name]], PLACED[p.name])
            continue
        if p.default is p.empty or p.kind == p.VAR_KEYWORD:
            continue
        spare = [*given[: k if p.kind != p.KEYWORD_ONLY else None]]
        for value in OTHER[p.name]:
            if p.kind != p.POSITIONAL_ONLY:
                add([*spare, f"{p.name}={value}"], f"{p.name}={value}")
            between = shown[len(spare) : k]
            if p.kind != p.KEYWORD_ONLY and all(q.default not in (q.empty, UNSET) for q in between):
                add([*spare, *map(default_text, between), value], value)
        if p.default is not UNSET and p.kind != p.POSITIONAL_ONLY:
            text = f"{p.name}={default_text(p)}"
            add([*spare, text], text, allowed=True)
    add([*given, "nonsense=1"], "nonsense=1")
    if not any(p.kind == p.VAR_POSITIONAL for p in shown):
        plain = [p for p in shown if p.kind != p.KEYWORD_ONLY]
        rest = [p for p in plain[len(given) :] if p.kind != p.VAR_KEYWORD]
        if all(p.default is not UNSET for p in rest):
            add([*given, *map(default_text, rest), "None"], "None")
    return out


def base_of(row: Row, shown: list[inspect.Parameter]) -> str:
    """Return the arguments that a call needs."""
    if row.function in REQUIRED:
        return REQUIRED[row.function]
    required = [p for p in shown if p.default is p.empty and p.kind != p.VAR_POSITIONAL]
    if row.what.startswith("math."):
        return ", ".join(["y", "0.5"][: len(required)])
    assert all(p.name in ("a", "x", "m", "x1", "x2", "prototype", "object", "A", "B", "array") for p in required), (
        f"{row.what}{signature_of(row.signature)}: which arguments does a call need? Say so in REQUIRED."
    )
    return ", ".join(X for _ in required)


def default_text(p: inspect.Parameter) -> str:
    return p.default.__name__ if isinstance(p.default, type) else repr(p.default)


# ---- running


@pytest.fixture
def program(module_of):
    """From the lines of a model's body to its module, imported from a file."""

    def load(lines: list[str], parameters: str = "x, v, i, n, y"):
        returned = ", ".join(f"r{k}" for k in range(len(lines)))
        body = "".join(f"    r{k} = {line}\n" for k, line in enumerate(lines))
        return module_of(f"{HEADER}\n\n@model\ndef f({parameters}):\n{body}    return ({returned},)\n")

    return load


def columns() -> list[list[Any]]:
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    return [[x, x[::-1] * 2], [np.arange(4.0), np.ones(4)], [x.astype(np.int64) * 3, x.astype(np.int64)], [4, 5],
            [0.5, 0.75]]  # fmt: skip


def rejections(module: Any, given: list[list[Any]]) -> list[AcronumbaError]:
    """Return what is rejected when a model is compiled."""
    try:
        module.f._interpret(*given)
    except InstanceErrors:
        return []
    except AcronumbaError as error:
        return [error, *error.others]
    return []


def plain(text: str, module: Any, given: list[list[Any]], names: list[str]) -> list[Any]:
    """Return what an expression gives for each instance, or how it fails."""
    out: list[Any] = []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for row in zip(*given, strict=True):
            own = [np.copy(v) if isinstance(v, np.ndarray) else v for v in row]
            try:
                out.append(eval(text, vars(module) | dict(zip(names, own, strict=True))))
            except Exception as error:
                out.append(error)
    return out


def check(lines: list[Line], program: Any, given: list[list[Any]], parameters: str = "x, v, i, n, y") -> None:
    """Fail unless each line gives what the plain call gives, or is rejected under its argument."""
    names = parameters.split(", ")
    module = program(["0"], parameters)
    expected = [plain(line.text, module, given, names) for line in lines]
    working = [k for k, each in enumerate(expected) if not any(isinstance(e, Exception) for e in each)]
    source = module.f.__wrapped__.__code__.co_firstlineno + 2  # behind the decorator and the `def`
    rejected = set()
    for error in rejections(program([lines[k].text for k in working], parameters), given) if working else ():
        line = lines[working[error.line - source]]
        rejected.add(line.text)
        assert not line.allowed, f"{line.text} is in the language:\n{error}"
        good = under(error, line, f"    r{error.line - source} = ")
        assert good, f"the caret is not under {line.argument!r}:\n{error}"
    runs = [k for k in working if lines[k].text not in rejected]
    if runs:
        results = program([lines[k].text for k in runs], parameters).f._interpret(*given)
        for j, result in enumerate(results):
            for mine, k in zip(result, runs, strict=True):
                theirs = expected[k][j]
                same = equal(mine, theirs) or compare(mine, theirs, theirs)[0] == "close"
                assert same, f"{lines[k].text} gives {mine!r}, not {theirs!r}"
    for k in set(range(len(lines))) - set(working):  # the plain call fails: so must each instance, or it is rejected
        failed: AcronumbaError | None = None
        try:
            program([lines[k].text], parameters).f._interpret(*given)
        except AcronumbaError as error:
            failed = error
        assert failed is not None, f"{lines[k].text}: the plain call raises {expected[k]!r}"
        if isinstance(failed, InstanceErrors):
            assert list(failed.errors) == [j for j, e in enumerate(expected[k]) if isinstance(e, Exception)], failed
        else:
            assert failed.line == source, failed
            good = failed.code != "ACR202" or under(failed, lines[k], "    r0 = ")
            assert good, f"the caret is not under {lines[k].argument!r}:\n{failed}"


def under(error: AcronumbaError, line: Line, before: str) -> bool:
    """Whether the caret is under the argument in its line, where it is written last, or under the call."""
    start = len(before) + (line.text.rindex(line.argument) if line.argument else 0)
    end = start + len(line.argument or line.text)
    return start <= error.loc.column and error.loc.end_column <= end and error.loc.end_line == error.line


PAIRS = [r for r in ROWS.values() if r.what.endswith(".outer") and r.what != "np.subtract.outer"]
OTHERS = ("frontend.", "itertools.", "functools.", "operator.", "heapq.", "bisect.")
EVERY = [r for r in ROWS.values() if not r.what.startswith(OTHERS) and r not in PAIRS]
EVERY = [r for r in EVERY if getattr(r.function, "__objclass__", np.ndarray) is np.ndarray]
INTO = ("np.put_along_axis", "np.fill_diagonal", "np.copyto", ".sort")  # arrays that were made in the call
EVERY = [r for r in EVERY if not r.what.endswith((*INTO, ".at", "np.linalg.svd"))]  # svd is rejected by its defaults
EVERY = [r for r in EVERY if callable(r.function)]  # and not `np.r_`


def test_every_call_is_given_the_arguments_it_needs() -> None:
    """A function that is added needs an entry in REQUIRED, and a value for each further argument: said at once."""
    assert all(calls_of(row) for row in EVERY)


def first_of_each_kind(rows: Sequence[Row]) -> list[Any]:
    """Parameters for all rows; slow are those with a handler of the same code and the same parameters as one before."""
    seen: set[Any] = set()
    params = []
    for row in rows:
        code = getattr(row.handler, "__code__", row.handler)
        kind = (code, row.honoured, row.whole, row.rank0, str(signature_of(row.signature)))
        params.append(pytest.param(row, id=row.what, marks=pytest.mark.slow if kind in seen else ()))
        seen.add(kind)
    return params


@pytest.mark.parametrize("row", one_in(4, one_in(4, first_of_each_kind(EVERY), mark="slow")))
def test_every_parameter_is_honoured_or_rejected_under_the_argument(row: Row, program: Any) -> None:
    check(calls_of(row), program, columns())


# ---- by hand: `honoured` gives what the plain call gives, of `either` a rejection is right too

MORE = "x, v, i, n, y, e, o, b, k, xs, m, key"


def more() -> list[list[Any]]:
    return [*columns(), [Part.HEAD, Part.BODY], [None, 2], [True, False], [np.int64(1), np.int64(-2)],
            [[1, 2, 3, 4], [5, 6, 7]], [0, 1], random.keys(1, 2)]  # fmt: skip


SUBSCRIPTS = {
    "honoured": """
x[-1]  x[0, -1]  x[:, None]  x[None]  x[..., 0]  x[0, ...]  x[..., None, 1]  x[:, ..., 1]  x[()]  x[...]  v[::-1]
v[::-2]  v[-1::-1]  v[2::-1]  v[:1:-1]  v[1:100]  v[-100:2]  v[100:]  v[3:1]  v[100::-1]  v[-2:]  v[:-2]  v[None:2]
v[1:None]  v[::None]  v[None:None:None]  v[True:]  v[:True]  v[b:]  v[k:]  v[:k]  v[k]  x[:, k:]  v[np.int64(1):]
v[np.array(1):]  v[i[0, 1]:]  v[Part.BODY:]  v[:Part.BODY]  v[Part.HEAD]  x[:, Part.BODY]  v[e]  v[e:]  v[:e]  v[:e:-1]
v[o:]  v[:o]  v[o::-1]  v[:o:-1]  v[o::2]  x[:, o:]  x[:, :o, None]  x[o:, :o]  v[m:o]  v[m:-1]  v[n:]  v[-n:]
x[[0, 1, 0]]  x[(0, 1)]  x[(0, 1),]  x[[True, False][0]:]  v[[0, -1]]  v[i[0] // 9]  x[:, [1, 0]]  v[m]  v[::Part.HEAD]
xs[o:]  xs[:o]  xs[:o:-1]  xs[1:]  xs[::-1]  xs[-100:2]  xs[e]  xs[e:]  xs[k]  xs[k:]  xs[True]  xs[b]  xs[None:2]
[n, 2, 3][o:]  [n, 2, 3][e:]  [n, 2, 3][e]  [n, 2, 3][:2]  [n, 2, 3][m]  (n, 2, 3)[1:]  (n, 2, 3)[-1]  (n, 2, 3)[::-1]
""",
    "either": """
v[1.0:]  v[:2.0]  v[::1.0]  v[y:]  v[1.0]  v[y]  v[np.float64(1):]  v[np.True_:]  v[i > 3]  x[i > 3]  x[True]  x[b]
x[[True, False]]  v[np.array([True, False, True, False])]  v[np.array([1]):]  v[i[0]:]  v[Plain.ONE]  v[Plain.ONE:]
v['a']  v['a':]  x[0, 0, 0]  x[..., ...]  x[[0, 1], [1, 0]]  x[i, i]  v[9]  v[-9]  v[::0]  v[::n]  x[[5]]  v[(1, 2):]
xs[1.0]  xs[y]  xs['a']  xs[None]  xs[1.0:]  xs[::0]  xs[9]  xs[-9]  xs[np.True_]  xs[Plain.ONE]  xs[1, 2]  xs[y:]
(n, 2)[y]  (n, 2)[5]  (n, 2)[m:]  [n, 2][y]  [n, 2][9]  x[o]  x[o, 0]  x[0, o]  x[np.float64(1)]  x[y, 0]
v[None, 1.0:]  x[:, 1.0:]  x[0.0:, 1:]  x[1:, 'a':]
""",
}


@pytest.mark.parametrize("kind", SUBSCRIPTS)
def test_subscripts_read_their_bounds(kind: str, program: Any) -> None:
    texts = [t for line in SUBSCRIPTS[kind].strip().splitlines() for t in line.split("  ")]
    given = more()
    check([Line(t, allowed=kind == "honoured") for t in texts], program, given, MORE)


CALLS = {
    "honoured": """
np.sum(x, -1) | np.sum(x, axis=(0, -1)) | np.sum(x, axis=()) | np.sum(axis=0, a=x) | x.sum(-1, keepdims=True)
np.sum(x, **{"axis": 1}) | np.sum(*[x, 1]) | np.sum(*(x,), 1) | np.sum(x, Part.HEAD) | np.max(x, (1,))
x.mean((0, 1)) | np.argmax(x, -1) | np.argmin(x, axis=None, keepdims=True) | np.any(x > 2, 0) | np.sum([n, 2])
np.sum([x, x], 0) | np.stack([x, x], -1) | np.stack((v, v), axis=1) | np.stack([v for _ in range(2)])
np.stack([n, 2]) | np.hstack([n, 2]) | np.vstack([n, 2]) | np.hstack([v, [1.0]]) | np.vstack((v, v))
np.hstack([x, x]) | np.concatenate((x, x), -1) | np.concatenate([x, x], axis=None)
np.concatenate([n, y], axis=None) | np.concatenate([v, v], dtype="float32") | np.concatenate([i, i], dtype=float)
np.vstack([v, v], dtype=np.float32) | np.vstack([v * k for k in xs]) | np.hstack([v * k for k in xs])
np.concatenate([v * k for k in xs], axis=None) | np.stack([v * k for k in xs], -1)
np.concatenate([x * k for k in xs], 1, dtype=np.float64) | np.vstack([k for k in xs]) | np.hstack([k for k in xs])
np.concatenate([k for k in xs], axis=None) | np.stack([v * k for k in xs], dtype="float32")
np.vstack([x * k for k in xs]) | np.hstack([x * k for k in xs]) | np.array([v * k for k in xs])
np.array(xs, float) | np.reshape(x, 8) | np.reshape(x, [4, 2]) | np.reshape(x, (2, -1))
np.reshape(x, -1, order="F") | x.reshape(-1) | x.reshape([2, 4]) | x.reshape((4, 2), order="F")
x.reshape(2, 2, 2, order="F") | np.reshape(x, (-1, 2), "F") | np.zeros(5) | np.zeros((n,)) | np.zeros([2, n])
np.zeros(n) | np.zeros(()) | np.zeros(k * k) | np.ones(shape=2) | np.zeros((np.int64(2), 1)) | np.full((n, 2), y)
np.full(3, v[:3]) | np.full(2, n, dtype=float) | np.zeros(Part.BODY) | np.transpose(x) | np.transpose(x, (-1, 0))
np.transpose(x, [1, 0]) | x.transpose(1, 0) | x.transpose((1, 0)) | x.transpose([-1, 0]) | x.transpose(None)
np.transpose(v, 0) | v.transpose(0) | np.swapaxes(x, -1, -2) | np.moveaxis(x, -1, 0)
np.moveaxis(x, (0, 1), (1, 0)) | np.moveaxis(np.stack([x, x]), [0, 2], [2, 0]) | np.flip(x, (0, 1))
np.moveaxis(np.stack([x, x]), (-1,), (0,)) | np.expand_dims(x, (0, -1)) | np.expand_dims(v, [1])
np.expand_dims(x, -1) | np.squeeze(x[:1, :, None], (0, 2)) | np.squeeze(x[None], 0) | x[None].squeeze(-3)
np.split(x, 2)[1] | x.flatten("F") | np.split(v, [1, 3])[2] | np.split(v, (n,))[0] | np.split(x, [1], axis=-1)[0]
np.split(v, [-1])[0] | np.ravel(x, "F") | np.take(x, [1, 0], axis=-1) | np.take(x, -1) | np.take(x, True)
x.take(1, 0) | x.take(indices=[0], axis=1) | np.broadcast_to(v, [2, 4]) | np.broadcast_to(y, 3)
np.broadcast_to(v, (n, 4)) | np.tile(v, 0) | v.item(-1) | x.item(1, 2) | np.eye(2, 3, -1) | np.eye(n, k=1)
np.arange(5) | np.arange(stop=3) | np.arange(n, 9, 2) | np.arange(1, stop=4) | np.arange(0, 4, 1, np.float32)
np.arange(3, dtype="float32") | np.array(x, np.float64) | np.array([x, x]) | np.array(n) | np.ascontiguousarray(y)
np.ascontiguousarray(v[0]) | np.ascontiguousarray(x, "float64") | np.asarray([n, y]) | np.zeros_like(x, shape=3)
np.full_like(x, n, shape=(n, 2)) | np.ones_like(x, int) | np.zeros_like(x, shape=()) | np.linalg.norm(x)
np.linalg.norm(x, axis=-1) | np.linalg.norm(v, 2) | np.linalg.norm(x, "fro") | np.linalg.norm(x, None, 0)
np.linalg.norm(x, axis=(0, 1), keepdims=True) | np.linalg.norm(np.stack([x, x]), axis=(1, 2)) | np.linalg.norm(y)
np.clip(x, None, 2) | np.clip(x, 1, None) | np.clip(x, min=1) | np.clip(x, a_max=2, a_min=0) | x.clip(1)
np.clip(x, o, 5.0) | np.clip(v, o, o) | np.where(x > 1, x, 0) | np.where(b, 1.0, x) | np.atleast_1d(y, v)
x.astype("float64") | x.astype(int) | x.astype(np.float64, casting="safe") | x.astype(np.float32, copy=False)
np.float32(y) | np.int64() | np.bool_(n) | np.var(x, 0, ddof=1) | np.std(x, ddof=0.5) | np.mean(x, dtype=np.float64)
np.prod(x, 1, np.float64) | np.dot(x, v) | np.einsum("ij,kj->ik", x, x) | np.einsum("ij->j", x, optimize=True)
np.outer(a=v, b=v) | np.inner(v, v) | np.shape(a=x) | np.sum(np.array([x, x]), axis=(0, 2))
np.mean(x, axis=None, dtype=None, out=None, keepdims=False) | np.add(x, 1, None) | sum([n, 2], 3)
sum([n, 2], start=y) | sum(xs, start=1) | min(xs, default=7) | max([n, -6], key=abs) | max(n, -6, key=abs)
min(n, 2, 3) | sorted(xs, reverse=True) | sorted([n, -9], key=abs) | list(enumerate(xs, 2))
list(enumerate(xs, start=k)) | list(zip(xs, xs, strict=True)) | list(range(n)) | list(range(9, 1, -n))
list(range(np.int64(3))) | list(map(abs, xs)) | list(reversed(xs)) | round(y) | round(y, None) | round(number=y)
int(y) | int() | float() | bool() | list() | tuple() | pow(base=y, exp=2.0) | pow(n, 2) | divmod(n, 3) | abs(-n)
len(x) | getattr(x, "nothing", 3) | getattr(x, "shape", 3) | math.log(y, 2) | math.perm(n) | math.perm(n, 2)
math.prod(xs) | math.prod(xs, start=2) | math.gcd(n, 6, 4) | math.gcd() | math.lcm(n)
math.isclose(y, 0.6, rel_tol=0.5) | math.isclose(y, 0.6, abs_tol=0.3) | math.atan2(y, n) | math.hypot(y, n)
xs.count(3) | xs.copy() | [n, 2].copy() | [n, 2, n].count(n) | (n, 2).count(2) | {"a": n}.get("a")
{"a": n}.get("b", 3) | [n, 2].pop() | [n, 2, 3].pop(0) | [n, 2, 3].pop(-2) | [n, 2].pop(k % 2) | [n, 2].pop(b)
[y].append(2.0) | [n, 2].insert(0, 3) | [n, 2].insert(b, 3) | [n, 2].sort(key=abs, reverse=True)
[n, 2].extend((1, 2)) | [n, 2].sort(reverse=n) | pair(n, 2) | pair(n, b=2, c=3) | pair(n, **{"b": 2, "c": n})
pair(*(n, 2)) | pair(n, *(2,), c=1) | many(n) | many(n, 1, 2, k=3) | many(n, *(), b=1, z=2)
many(*(n, 2), **{"k": 3, "q": y}) | Some(n).n | Some(n=n, m=2).m | Some(m=n).m | Two(n, 2).b | Two(b=n, a=2).a
Two(n).b | Two(n, 2)._replace(b=7).b | replace(Some(n, m=1), m=2).m | Part(2) | Part(value=1)
list(enumerate(xs, b)) | list(range(b, 3)) | list(range(e)) | x.shape[b] | x[o:, o:] | v[o:][::-1] | np.sum(v[o:])
[r * 2 for r in xs[o:]] | list(zip(xs[:o], xs)) | len(xs[o:]) | max(v[:o]) | np.reshape(x, (2, n * 0 + 4))
np.eye(b) | np.reshape(x, (x.shape[0], -1)) | x[m:n:2] | xs[m:n:2] | v[np.argmax(v) :] | np.arange(b)
np.split(v, [b, n])[1] | np.take(v, b) | np.take(v, e) | v.item(e) | np.zeros((e, 2)) | math.sqrt(e)
math.gcd(e, 4) | int(e) | round(b) | np.reshape(x, -1 * (n > 0))
np.reshape(x, (2, (n - 4) * -1 + 1 - 2 * (n < 9))) | np.reshape(x, (m - 1, 4 * m + 2 - 2 * m)) | put(xs, e, 7)
put(xs, b, 7) | put(xs, k, 7) | put(xs, -1, 7) | put(xs, True, 7) | nn.softmax(x, axis=0) | nn.softmax(x, -1)
nn.sigmoid(x=v) | nn.logsumexp(x, axis=(0, 1)) | isinstance(n, (int, float))
""",
    "either": """
np.transpose(x, (0, 5)) | np.transpose(x, (0, 0)) | np.transpose(x, (0,)) | x.transpose(0) | np.transpose(x, 1.0)
np.reshape(x, (n - 5, 8)) | np.reshape(x, (n - 6, n - 6)) | np.reshape(x, (n - 9, n - 9, -1))
np.reshape(x[:0], (0, 3 - n)) | v.item(b) | v[b] | xs * b | v.reshape(e - e + 4) | np.tile(v, b) | np.sum(x, 2)
np.sum(x, -3) | np.sum(x, (0, 0)) | np.sum(x, (0, -2)) | np.sum(x, [0]) | np.sum(x, "0") | np.sum(x, n)
np.sum(x, o) | np.sum(x, np.int64(1)) | np.argmax(x, (0,)) | np.argmax(x, 2) | np.mean(x, True) | np.sum()
np.sum(x, 0, axis=1) | np.sum(x, keepdims="a") | np.sum(x, keepdims=None) | np.stack([x, x], 3)
np.stack([x, x], -4) | np.stack([x, v]) | np.stack([]) | np.stack([x], 0.5) | np.concatenate([x, x], 2)
np.concatenate([n, n]) | np.concatenate([]) | np.hstack([]) | np.vstack([]) | np.concatenate([x], (0,))
np.concatenate([x, v]) | np.concatenate([x, x], dtype=int) | np.concatenate([i], dtype="f4", casting="no")
np.concatenate([x * k for k in xs], 2) | np.stack([x * k for k in xs], 3) | np.vstack([v, x[:, :3]])
np.hstack([x, v]) | np.split(x, 3) | np.split(v, 3) | np.split(x, 0) | np.split(x, -1) | np.split(x, 2.0)
np.split(x, n, 1) | np.split(v, [1.0]) | np.split(x, 2, 5) | np.split(x, 2, (0,)) | np.expand_dims(x, 4)
np.expand_dims(x, (0, 0)) | np.expand_dims(x, 1.0) | np.squeeze(x, 0) | np.squeeze(x[None], (0, 0))
np.squeeze(x, 7) | np.squeeze(x[None], [0]) | np.moveaxis(x, 2, 0) | np.moveaxis(x, (0, 0), (0, 1))
np.moveaxis(x, (0, 1), (0, 0)) | np.moveaxis(x, 0, (0, 1)) | np.moveaxis(x, 0.0, 1) | np.swapaxes(x, 0, 2)
np.swapaxes(x, (0,), 1) | np.flip(x, 2) | np.flip(x, (0, 0)) | x.swapaxes(axis1=0, axis2=1) | np.reshape(x, (3, 3))
np.reshape(x, (-1, -1)) | np.reshape(x, (-2, 4)) | np.reshape(x, 8.0) | np.reshape(x, (8, 1.0))
np.reshape(x, (-1, 3)) | np.reshape(x, True) | np.reshape(x, None) | np.reshape(x, 8, order="A")
np.reshape(x, 8, "Z") | x.reshape() | x.reshape((2,), (4,)) | x.reshape("8") | np.reshape(x, (8,), copy=False)
np.ravel(x, "K") | x.T.ravel("A") | np.zeros(-1) | np.zeros((2, -1)) | np.zeros(2.0) | np.zeros(True)
np.zeros(None) | np.zeros((2, None)) | np.zeros("3") | np.zeros(y) | np.zeros(-n) | np.zeros(v)
np.zeros(3, order="Z") | np.full(3, "a") | np.eye(2.0) | np.eye(2, k=y) | np.eye(3, k=n) | np.arange()
np.arange(start=1) | np.arange(0, 1, 0) | np.arange(1, 2, 3, 4, 5) | np.arange(None) | np.broadcast_to(v, 3)
np.broadcast_to(x, (4,)) | np.broadcast_to(v, (-1, 4)) | np.broadcast_to(v, (2, 4.0)) | np.tile(v, 1.0)
np.tile(v, (2, 2)) | np.tile(x, 2) | np.tile(v, -1) | np.take(x, 9) | np.take(x, 1.0) | np.take(x, 1, 2)
np.take(x, y) | np.take(x, i > 3) | np.take(x, [9], mode="wrap") | x.take(1, axis=(0,)) | x.item(9)
x.item(0, 0, 0) | x.item() | x.item(1.0) | x.item((0, 1)) | np.linalg.norm(x, 2) | np.linalg.norm(x, 2, (0, 1))
np.linalg.norm(x, 1) | np.linalg.norm(v, "fro") | np.linalg.norm(v, np.inf) | np.linalg.norm(x, axis=(0, 0))
np.linalg.norm(x, "fro", 0) | np.linalg.norm(y, 2) | np.linalg.norm(np.stack([x, x]), axis=(0, 1, 2))
np.linalg.norm(x, axis=[0, 1]) | np.clip(x, 1, max=3) | np.clip(x, 1) | np.clip(x, 1, 2, min=0) | np.clip(x)
np.clip(x, [1], 2) | np.where(x > 1) | np.where(x > 1, x) | np.where(x=x, y=x) | np.stack(x) | np.vstack(v)
np.concatenate(x) | np.add(x1=x, x2=x) | np.add(x) | np.add(x, x, x, x) | np.add(x, x, out=(None,))
np.exp(x, where=b) | np.add(x, x, dtype="f8") | np.add(x, i, casting="no") | x.astype()
x.astype(int, casting="safe") | x.astype("float16") | x.astype(dtype=None) | x.astype("nothing")
np.mean(x, dtype=int) | np.var(x, ddof="a") | np.sum(x, dtype="float16") | np.einsum(x, [0, 1])
np.einsum("ij->ij", x, out=x) | np.einsum("ij,jk", x, x) | np.einsum("ii->i", x) | np.einsum("...i", x)
np.array(x, ndmin=3) | np.array(x, copy=False) | np.asarray(x, copy=False) | np.zeros_like(x, shape=-1)
np.dot(x, x) | np.outer(v) | np.matmul(x, y) | np.matmul(v, v, keepdims=True) | np.sum(x, **{"nonsense": 1})
np.sum(*[x, 0, None, None, True, 3]) | np.sum(x, axis=0, **{"axis": 0}) | np.sum(*x) | x.sum(a=0) | x.sum(0, axis=0)
np.float32(1, 2) | np.float32(x=1) | sum(xs, 1, 2) | sum(iterable=xs) | min(n, 2, default=3) | min() | min(n)
min(xs, 1) | max(xs, key=abs, reverse=True) | sorted(xs, abs) | sorted(xs, key=None, reverse="yes")
enumerate(xs, 1.0) | list(enumerate(xs, y)) | list(range(1.0)) | list(range()) | list(range(1, 2, 3, 4))
list(range(0, 3, 0)) | list(range(stop=3)) | list(range(None)) | list(range(0, n, None))
list(zip(xs, [1], strict=True)) | list(zip(xs, strict=0)) | list(map(abs)) | list(map(pow, xs, xs)) | list(xs, xs)
round(y, 1) | round(y, ndigits=2) | int(y, 10) | int("12", 16) | int(x=y) | float(y, 1) | float(x) | bool(n, n)
len(x, 1) | len(n) | pow(n, 2, 5) | pow(n) | divmod(n) | abs(x=n) | getattr(x, "nothing") | getattr(x)
math.sqrt(y, 2) | math.sqrt(x=y) | math.sqrt() | math.log(y, 2, 3) | math.log(y, None) | math.hypot(y, 1.0, 2.0)
math.hypot() | math.perm(n, -1) | math.prod(xs, 2) | math.gcd(y) | math.gcd(n, k=1) | math.isclose(y, 1.0, 0.1)
math.isclose(y, 0.5, rel_tol=-1.0) | math.floor(y, 1) | math.comb(n) | math.trunc() | xs.count() | xs.count(1, 2)
xs.copy(1) | xs.index(3) | xs.index(3, 1) | {"a": n}.get() | {"a": n}.get("b", default=1) | {"a": n}.keys(1)
(n, 2).count(x=2) | (n, 2).index(2) | nn.softmax(x, axis=5) | nn.softmax(x, 0, 1) | nn.softmax(x, dim=0)
[n, 2].pop(index=0) | [n, 2].pop(1.0) | [n, 2].pop(9) | [n, 2].pop(0, 1) | [n, 2].append() | [n, 2].append(1, 2)
[].pop() | [n, 2].append(object=1) | [n, 2].insert(1.0, 2) | [n, 2].insert(0) | [n, 2].sort(abs)
[n, 2].sort(reverse="a") | [n, 2].extend(1) | [n, 2].sort(reverse=np.True_) | [n, 2].sort(cmp=abs) | [n, 2].clear(1)
[n, 2].nothing() | "a b".split(x=1) | "ab".upper(1) | pair(a=n, b=2) | pair(n, 2, 3) | pair(n) | pair(n, 2, d=3)
pair(n, 2, b=3) | pair(n, **{"b": 2}, b=3) | pair(n, **x) | pair(*n) | many() | many(n, k=1, **{"k": 2})
pair(n, 2, **{"c": 1}, **{"c": 2}) | Some(n, 2) | Some(n=1, q=2) | Some(n, n=2) | Two() | Two(1, 2, 3) | Two(1, a=2)
Two(1, 2)._replace(3) | Two(1, 2)._replace(q=3) | replace(Some(n), 1) | replace(n=1) | replace(Some(n), q=1)
nn.softmax(x, axis=(0, 1)) | nn.softmax(x, None) | nn.log_softmax(x, axis=0) | nn.logsumexp(x, axis=None)
nn.logsumexp(x, 1, True) | nn.relu(n) | nn.sigmoid(n) | nn.gelu(y) | nn.leaky_relu(x, 0.3) | nn.elu(x, alpha=2.0)
nn.layer_norm(x, v, v, eps=0.1) | nn.rms_norm(x, v, None, 0.1) | nn.one_hot(i % 3, n=3) | nn.embedding(x, [0, 1])
nn.linear(v, x, v[:2]) | nn.attention(x, x, x, mask=None) | nn.sigmoid([1.0, 2.0]) | nn.sigmoid(xs)
sorted([v, v * 0], key=np.linalg.norm) | list(map(np.sum, [v, v])) | max([n, -9], key=np.abs)
max([v, v * 2], key=np.sum) | sorted(xs, key=lambda q, /: -q) | (lambda q, /, r=2: q + r)(n)
(lambda q, /, r=2: q + r)(q=n) | (lambda *a, **k: a[0] + k["z"])(n, z=2) | random.uniform(key, (2, n))
random.uniform(key, [2, 3]) | random.uniform(key, 2.0) | random.uniform(key, dtype=np.float64)
random.uniform(key, 3, int) | random.uniform(key, e) | random.uniform(key, b) | random.normal(key, shape=n)
random.normal(key, -1) | random.integers(key, 0, 5, (n,)) | random.integers(key, 5) | random.integers(key, 5, 0)
random.integers(key, 0, 5.0) | random.bernoulli(key, v / 8) | random.bernoulli(key, v / 8, (2, 4))
random.choice(key, v + 1, 3) | random.choice(key, x) | random.choice(key, n, shape=(2,))
random.uniform(key.child(1.0)) | random.uniform(key.child(k)) | random.uniform(key.child(b))
random.gumbel(key, (np.int64(2), 1)) | random.gumbel(key, None) | random.uniform() | random.uniform(key, 2, size=3)
nn.sigmoid() | nn.sigmoid(v, 1) | nn.sigmoid(z=v) | nn.softmax(x, axis=1.0) | Part(1, 2) | Part(9) | Part()
""",
}


LINES = [(kind, n) for kind in CALLS for n in range(len(CALLS[kind].strip().splitlines()))]


@pytest.mark.parametrize(("kind", "line"), one_in(3, LINES))
def test_calls_that_numpy_allows_are_as_the_plain_call(kind: str, line: int, program: Any) -> None:
    texts = CALLS[kind].strip().splitlines()[line].split(" | ")
    check([Line(t, allowed=kind == "honoured") for t in texts], program, more(), MORE)


MATRIX = np.arange(6, dtype=np.float32).reshape(2, 3) - 2
REJECTED_CALLS = [
    'x.astype(">f4")', 'np.zeros(2, ">f4")', 'np.full(2, 1, ">f4")', 'np.array([1, 2], ">i4")',
    'np.arange(3, dtype=">f4")', 'np.eye(2, dtype=">f4")', 'np.zeros_like(x, dtype=">f4")',
    'np.concatenate([x, x], dtype=">f4")', 'np.sum(x, dtype=">f4")', "np.arange(None, 3)", "np.arange(None, 3, 1)",
    "np.arange(start=None, stop=3)", "np.split([1, 2], 2)", "np.split((1, 2), 2)", 'np.einsum("i1,1k", x, x)',
    'np.einsum("ij->i1", x)', 'np.einsum("i_", x)', 'np.einsum("ij->i->j", x)',
]  # fmt: skip


def _model_of(text: str, module_of: Callable[[str], Any]) -> Any:
    """Return a model of x that returns an expression."""
    header = "import numpy as np\nfrom acronumba import model\n\n\n"
    return module_of(f"{header}@model\ndef m(x):\n    return {text}\n").m


@pytest.mark.parametrize("text", REJECTED_CALLS)
def test_byte_orders_and_what_numpy_does_not_take_are_rejected(text: str, module_of: Callable[[str], Any]) -> None:
    m = _model_of(text, module_of)
    with pytest.raises(AcronumbaError, match=r"ACR[1-6]"):
        m._interpret([MATRIX])


@pytest.mark.parametrize("text", ["np.inner(x.sum(), x)", "np.inner(x, x.sum())", "np.inner(2, x)", "np.inner(x, 2)",
                                  "np.inner(x, x)", "np.dot(2, x)", "np.dot(x.sum(), x)", "np.outer(x.sum(), x)",
                                  "np.vdot(x, x)"])  # fmt: skip
def test_products_with_scalars_keep_the_axes(text: str, module_of: Callable[[str], Any]) -> None:
    m = _model_of(text, module_of)
    (got,), want = m._interpret([MATRIX]), m(MATRIX)
    assert got.dtype == want.dtype and np.array_equal(got, want)
