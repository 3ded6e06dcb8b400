"""Programs that are not in the language: what is in it, changed at random places; and data of odd kinds.

In: a number. Out: a `Program`, always the same one for the number: the text of a module, columns and shared values.
What may come of it: the right results, rejections with a line of the program, failures of instances, or what the plain
call raises. Anything else is a fault of acronumba; `python tests/outside.py --help` looks for some.
"""

from __future__ import annotations

import argparse
import ast
import collections
import contextlib
import copy
import datetime
import decimal
import fractions
import gc
import io
import os
import random
import sys
import tempfile
import time
import traceback
import types
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from acronumba import AcronumbaError, InstanceErrors, InternalError, model
from acronumba.api.dispatch import bind, specialise
from tests.support import fuzz
from tests.support.outside_programs import DATA, HEAD, PROGRAMS

# What takes the place of an expression: `e` is the expression itself, `f` and `g` are others of the same function.
EXPRESSIONS = """
e.nosuch; e.nosuch(); e.T; e.sum(1, 2, 3); e(); e(f); e(*f); e(**f); e(f, nosuch=g); len(e); e[0]; e[-1]; e[::2]; e[None]; e[..., 0]
e['k']; e[1:2, None]; e[f]; e[f:g]; e[f, g]; e[f:g:-1]; e[::0]; e[()]; e[1.5]; e[True]; e[[0, 0]]; e[e > 0]; e[:, f]; e[None, :, ..., f]
e + 's'; e + None; e + f; e - f; e * f; e / f; e // 0; e % f; e ** f; e @ f; e << f; e >> 2; e & f; e | f; e ^ f; ~e; -e; +e; not e
e < f; e < f < g; e == f != g; e is f; e is not None; e in f; e not in f; e and f; e or f; e if f else g; e if f else None
None; 'text'; b'bytes'; 3j; 10**30; {}; []; (); {1: 2}; {1, 2}; ...; True; 1.5; -0.0; float('nan'); lambda v: v; lambda: e; NotImplemented
{'a': e}; {e: f}; {e}; [e]; [e, f]; (e,); (e, f, g); [e, None]; {**e}; [*e]; (*e, *f); {*e}; [e] * f; (e,) * 3; {e: f, **g}
f'{e}'; f'{e!r:>10}'; f'{e:.3f}'; f'{e=}'; '%s' % e; '{}'.format(e); str(e); repr(e); int(e); float(e); bool(e); complex(e); bytes(e)
list(e); tuple(e); set(e); dict(e); frozenset(e); sorted(e); reversed(e); sum(e); sum(e, f); max(e); min(e, f); max(e, key=f); abs(e); round(e)
round(e, f); divmod(e, f); pow(e, f, g); any(e); all(e); zip(e, f); zip(*e); enumerate(e); enumerate(e, f); map(f, e); map(len, e); filter(None, e)
iter(e); next(e); next(iter(e), None); range(e); range(e, f, g); slice(e, f); isinstance(e, f); isinstance(e, int); type(e); type(e)(f); id(e); hash(e)
getattr(e, 'x'); getattr(e, f); getattr(e, 'x', None); hasattr(e, 'x'); setattr(e, 'x', f); callable(e); print(e); open('nosuch'); eval('1')
globals(); locals(); vars(e); dir(e); super(); chr(e); ord(e); bin(e); hex(e); e.__class__; e.__dict__; e.__class__.__name__; e.__len__(); object()
[i for i in e]; [i for i in e if i]; [i for i in e for j in i]; [(i, f) for i in e]; {i: f for i in e}; {i for i in e}; sum(i for i in e)
any(i == f for i in e); (i for i in e); [f for _ in range(e)]; [i async for i in e]; list(map(lambda i: i + f, e)); [(v := i) for i in e]; (v := e)
sorted(e, key=lambda i: i, reverse=f); sorted(e, reverse=True); sorted(e, key=f); functools.reduce(f, e); functools.partial(f, e); functools.partial(f, e)(g)
itertools.chain(e, f); list(itertools.product(e, f)); list(itertools.accumulate(e)); list(itertools.groupby(e)); itertools.count(e); list(itertools.islice(e, f))
math.sqrt(e); math.floor(e); math.nosuch(e); math.fsum(e); math.gcd(e, f); operator.add(e, f); operator.itemgetter(e)(f); Counter(e); deque(e)
defaultdict(e); defaultdict(list, e); e.append(f); e.extend(f); e.pop(); e.pop(f); e.get(f); e.get(f, g); e.items(); e.keys(); e.values(); e.update(f)
e.setdefault(f, g); e.insert(f, g); e.remove(f); e.index(f); e.count(f); e.sort(); e.reverse(); e.copy(); e.clear(); e.add(f); e.union(f); e.join(f)
e.split(f); e.split(); e.strip(); e.replace(f, g); e.format(f); e.encode(); e.upper(); e.isdigit(); e.zfill(f); e.partition(f); e.splitlines()
np.nosuch(e); np.array(e); np.array([e, f]); np.array([e, None]); np.array(e, dtype=object); np.array(e, dtype=f); np.asarray(e); np.zeros(e); np.zeros((e, f))
np.ones((e, 2), dtype=f); np.full(e, f); np.arange(e); np.arange(e, f, g); np.linspace(e, f, g); np.eye(e); np.empty(e); np.zeros_like(e); np.sum(e)
np.sum(e, axis=f); np.mean(e, f); np.max(e, axis=(0, 1)); np.argmax(e, axis=f); np.sort(e); np.sort(e, kind='heapsort'); np.argsort(e, f); np.where(e)
np.where(e, f, g); np.where(e, f, None); np.concatenate([e, f]); np.concatenate(e); np.stack([e, f], axis=g); np.stack(e); np.vstack((e, f)); np.split(e, f)
np.dot(e, f); np.matmul(e, f); np.einsum('ij,jk', e, f); np.einsum(e, f); np.tensordot(e, f); np.linalg.svd(e); np.linalg.norm(e); np.linalg.inv(e); np.outer(e, f)
np.exp(e); np.exp(e, out=f); np.exp(e, where=f); np.add(e, f, dtype=g); np.maximum(e, f); np.add.reduce(e); np.add.outer(e, f); np.cumsum(e); np.diff(e)
np.unique(e); np.nonzero(e); np.any(e); np.allclose(e, f); np.isnan(e); np.clip(e, f, g); np.pad(e, f); np.roll(e, f); np.tile(e, f); np.repeat(e, f)
np.take(e, f); np.random.rand(3); np.float32(e); np.int64(e); np.bool_(e); np.vectorize(f)(e); np.apply_along_axis(f, 0, e); np.fft.fft(e); np.matrix(e)
np.expand_dims(e, f); np.squeeze(e, f); np.transpose(e, f); np.broadcast_to(e, f); np.meshgrid(e, f); np.searchsorted(e, f); np.bincount(e); np.ix_(e, f)
e.shape; e.shape[f]; e.ndim; e.size; e.dtype; e.dtype.name; e.reshape(f); e.reshape(-1, f); e.reshape(f, g); e.astype(f); e.astype('float16'); e.tolist(); e.item()
e.sum(axis=f); e.mean(f); e.max(); e.argmax(f); e.flatten(); e.ravel(); e.T[f]; e.transpose(f); e.fill(f); e.real; e.flat; e.flat[0]; e.view(f); e.dot(f)
e.copy().sort(); e.cumsum(f); e.std(ddof=f); e.any(); e.clip(f, g); e.repeat(f); e.squeeze(); e.swapaxes(f, g); e.take(f); e.tobytes(); e.data; e.strides
dataclasses.replace(e, x=f); dataclasses.astuple(e); dataclasses.asdict(e); copy.copy(e); copy.deepcopy(e); e._replace(a=f); e.value; e.name; e._asdict()
(lambda *a, k=1: a)(e, f); (lambda **k: k)(a=e); (lambda v=e: v)(); (lambda v: v.nosuch)(e); (yield e); (yield from e); (await e); (lambda v: (yield v))(e)
main(e); main(e, f); main; np; math; Exception(e); ValueError; int; np.float32; print; type; e if e is None else f; e and e[0]; e or []; [e][f]; (e, f)[g]; {0: e}[f]
"""  # noqa: E501

# What takes the place of a statement `S`, or comes before it.
STATEMENTS = r"""
try:\n    S\nexcept ValueError:\n    pass
try:\n    S\nexcept (KeyError, IndexError) as err:\n    raise RuntimeError('x') from err
try:\n    S\nfinally:\n    n = 1
try:\n    S\nexcept* ValueError:\n    pass
with open('nosuch') as n:\n    S
with np.errstate(all='ignore'):\n    S
with e as n, f:\n    S
async def n():\n    S
for n in e:\n    S
for n, v in e:\n    S
for n in e:\n    S\nelse:\n    n = f
for e[0] in f:\n    S
for n.x in f:\n    S
for n, *v in zip(e, f):\n    S
while e:\n    S
while True:\n    S\n    break
while e < f:\n    S\n    continue
if e:\n    S
if e:\n    pass\nelif f:\n    S
if (n := e):\n    S
global n\nn = e
nonlocal n
del n
del e[0]
del e.x
del e[f:g], n
import math
from math import sqrt as n
class n:\n    v = e
class n(Exception):\n    pass
class n:\n    def __init__(self, v):\n        self.v = v\nn = n(e)
@dataclass\nclass n:\n    v: int
def n(v, w=e, *r, k=f, **o):\n    return v\nn = n(f)
def n(v):\n    return n(v)\nn(e)
def n(v):\n    yield v\n    return e\nn = list(n(f))
def n(v):\n    global main\n    main = v
@functools.lru_cache\ndef n(v):\n    return v\nn = n(e)
@property\ndef n(v):\n    return v
raise e
raise ValueError(e)
raise
assert e, f
assert False
return
return e
return e, f, g
yield e
n = yield
n = e
n: int = e
n: 'nosuch'
n = v = e
n, v = e
n, *v = e
[n, (v, w)] = e
*n, = e
e[0] = f
e[f] = g
e[f, g] = 1
e[f:g] = []
e[:, f] = g
e[...] = f
e[e > 0] = f
e[None] = f
e[[0, 1]] += f
e.x = f
e.x.y = f
e.x += f
n = e\nn += f
n = e\nn @= f
n = e\nn **= f
n = e\nn //= f
n = e\nn |= f
n = [e]\nn[0] = f\nn.append(n)
n = {}\nn[e] = n
n = []\nn.append(f)\nn[0] = None
e[0] += f
e[f] *= g
e += f
match e:\n    case 1 | 2:\n        S
match e:\n    case [n, *v]:\n        S\n    case _:\n        n = f
match e:\n    case {'k': n, **v}:\n        S
match e:\n    case int(n) if n > f:\n        S
match e:\n    case main(x=n):\n        S
match (e, f):\n    case (n, 0) as v:\n        S
match e:\n    case None | 'a' | -1.5:\n        S
match e:\n    case str() | bytes():\n        S
print(e)
e.sort()
e.append(f)
e
...
pass
break
continue
S\nS
exec('n = 1')
n = lambda v=e: v + f\nn = n()
S\ndel n
if f:\n    n = e\nS
if f:\n    n = None\nelse:\n    n = e\nn = n + 1
n = 0\nfor v in e:\n    n = (n, v)
n = None\nfor v in e:\n    n = [n, v]
n = e\nwhile n:\n    n = n[0]
n = e\nfor v in range(f):\n    n = {'a': n}
"""


@dataclass
class Program:
    """A program that may be outside of the language."""

    number: int
    text: str
    make: Callable[[types.ModuleType], tuple[list[Any], dict[str, Any]]]
    changes: list[str] = field(default_factory=list)


class _Replace(ast.NodeTransformer):
    """Puts something in the place of one node."""

    def __init__(self, old: ast.AST, new: Any) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        return self.new if node is self.old else super().visit(node)


def _parsed(lines: str, mode: str) -> list[tuple[str, Any]]:
    texts = [t.strip() for line in lines.strip().splitlines() for t in (line.split("; ") if mode == "eval" else [line])]
    return [(t, t.replace("\\n", "\n")) for t in texts]


_EXPRESSIONS = _parsed(EXPRESSIONS, "eval")
_STATEMENTS = _parsed(STATEMENTS, "exec")


class Changer:
    """Changes the text of a module at random places in its functions."""

    def __init__(self, text: str, rng: random.Random) -> None:
        self.tree, self.rng = ast.parse(text), rng
        self.changes: list[str] = []

    def functions(self) -> list[ast.FunctionDef]:
        return [n for n in ast.walk(self.tree) if isinstance(n, ast.FunctionDef) and n.name != "make"]

    def change(self) -> None:
        """Make one change."""
        ways = [*[self.expression] * 3, *[self.statement] * 2, self.call, self.moved, self.parameters]
        fn = self.rng.choice(self.functions())
        self.rng.choice(ways)(fn)

    def text(self) -> str:
        try:
            return ast.unparse(ast.fix_missing_locations(self.tree))
        except ValueError:  # a tree that no text of Python has
            return "no program of Python"

    def _expressions(self, fn: ast.FunctionDef) -> list[ast.expr]:
        found = [n for s in fn.body for n in ast.walk(s) if isinstance(n, ast.expr) and not hasattr(n, "conversion")]
        stores = {id(n) for n in found if isinstance(getattr(n, "ctx", None), ast.Store | ast.Del)}
        return [n for n in found if id(n) not in stores and not isinstance(n, ast.Slice | ast.Starred | ast.JoinedStr)]

    def _fill(self, text: str, fn: ast.FunctionDef, itself: ast.expr | None, stmt: ast.stmt | None = None) -> list[Any]:
        """Return the nodes of a template."""
        some = self._expressions(fn) or [ast.Constant(1)]
        names = [a.arg for a in (*fn.args.args, *fn.args.kwonlyargs)] or ["x"]
        stored = {n.id for n in ast.walk(fn) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        bound = sorted(stored) or ["x"]
        parts: dict[str, Any] = {}
        for name in "efg":
            given = itself if name == "e" and itself is not None else self.rng.choice(some)
            easy = self.rng.random() < 0.4 and not (name == "e" and itself is not None)
            parts[name] = ast.Name(self.rng.choice(names + bound), ast.Load()) if easy else given
        name = self.rng.choice(names + bound)
        tree = ast.parse(text)

        class Fill(ast.NodeTransformer):
            def visit_Name(self, node: ast.Name) -> Any:
                if node.id in parts and isinstance(node.ctx, ast.Load):
                    return copy.deepcopy(parts[node.id])
                return ast.Name(name, node.ctx) if node.id == "n" else node

            def visit_Expr(self, node: ast.Expr) -> Any:
                if isinstance(node.value, ast.Name) and node.value.id == "S":
                    return copy.deepcopy(stmt)
                return self.generic_visit(node)

            def visit_Global(self, node: ast.Global) -> Any:
                return ast.Global([name if x == "n" else x for x in node.names])

            def visit_Nonlocal(self, node: ast.Nonlocal) -> Any:
                return ast.Nonlocal([name])

        return Fill().visit(tree).body  # type: ignore[no-any-return]

    def expression(self, fn: ast.FunctionDef) -> None:
        some = self._expressions(fn)
        if some:
            old, (label, text) = self.rng.choice(some), self.rng.choice(_EXPRESSIONS)
            (new,) = self._fill(text, fn, old)
            self.changes.append(label)
            _Replace(old, new.value).visit(fn)

    def _blocks(self, fn: ast.FunctionDef) -> list[list[ast.stmt]]:
        lists = (getattr(n, name, None) for n in ast.walk(fn) for name in ("body", "orelse", "finalbody"))
        return [b for b in lists if isinstance(b, list) and b]

    def statement(self, fn: ast.FunctionDef) -> None:
        block, (label, text) = self.rng.choice(self._blocks(fn)), self.rng.choice(_STATEMENTS)
        k = self.rng.randrange(len(block))
        new = self._fill(text, fn, None, block[k])
        self.changes.append(label)
        block[k : k + 1] = new if "S" in text else [*new, block[k]]

    def call(self, fn: ast.FunctionDef) -> None:
        """Give a call other arguments."""
        calls = [n for n in ast.walk(fn) if isinstance(n, ast.Call)]
        if not calls:
            return
        call, some = self.rng.choice(calls), self._expressions(fn)
        way = self.rng.randrange(6)
        extra = copy.deepcopy(self.rng.choice(some))
        if way == 0 and call.args:
            call.args.pop(self.rng.randrange(len(call.args)))
        elif way == 1:
            call.args.append(extra)
        elif way == 2:
            call.keywords.append(ast.keyword(self.rng.choice(["nosuch", "axis", "out", "key", "dtype", "k"]), extra))
        elif way == 3:
            call.args = [ast.Starred(a, ast.Load()) for a in call.args]
        elif way == 4:
            call.keywords.append(ast.keyword(None, extra))
        else:
            self.rng.shuffle(call.args)
        self.changes.append(f"call {way}")

    def moved(self, fn: ast.FunctionDef) -> None:
        """Leave a statement out, write it twice, or elsewhere."""
        block, other = self.rng.choice(self._blocks(fn)), self.rng.choice(self._blocks(fn))
        k = self.rng.randrange(len(block))
        stmt = block[k]
        if self.rng.random() < 0.6:
            block[k] = ast.Pass()
        other.insert(self.rng.randrange(len(other) + 1), copy.deepcopy(stmt))
        self.changes.append("moved")

    def parameters(self, fn: ast.FunctionDef) -> None:
        """Change what a function takes, or how it is decorated."""
        way = self.rng.randrange(5 if fn.name != "main" else 1)
        if way == 0:
            names = ["functools.lru_cache", "staticmethod", "nosuch", "functools.wraps(len)", "property", "classmethod"]
            if fn.name != "main":
                fn.decorator_list.append(ast.parse(self.rng.choice(names), mode="eval").body)
        elif way == 1:
            fn.args.vararg = ast.arg("rest")
        elif way == 2:
            fn.args.kwarg = ast.arg("named")
        elif way == 3 and fn.args.args:
            fn.args.args.pop()
            fn.args.defaults = fn.args.defaults[: len(fn.args.args)]
        else:
            fn.args.args.append(ast.arg("more"))
            fn.args.defaults.append(ast.parse("[]", mode="eval").body)
        self.changes.append(f"parameters {way}")


class Rude:
    """An object with which everything fails."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("==")

    def __hash__(self) -> int:
        raise RuntimeError("hash")


class Bare:
    """An object of a plain class."""

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)


def _nested(d: int, kind: int) -> Any:
    out: Any = 1.0
    for k in range(d):
        out = ([out], {"a": out, "b": 1.0}, (out, "x"), {"v": k, "kids": [out, {"v": 0, "kids": []}]})[kind]
    return out


def odd_value(rng: random.Random, given: Any) -> Any:
    """Return a value that nobody expects."""
    cycle: list[Any] = [1.0]
    cycle.append(cycle)
    ring: dict[str, Any] = {"a": 1}
    ring["me"] = ring
    knot = Bare(x=1.0)
    knot.me = [knot]
    makers: list[Callable[[], Any]] = [
        lambda: None, lambda: "text", lambda: b"bytes", lambda: 3j, lambda: 10**40, lambda: -(2**63), lambda: 2**63,
        lambda: True, lambda: float("nan"), lambda: float("inf"), lambda: np.array([1, "a", None], object),
        lambda: np.array(["a", "b"]), lambda: np.array([1j]), lambda: np.zeros((0, 4)), lambda: np.array(1.5),
        lambda: np.zeros((2, 3, 4), np.float16), lambda: np.zeros(3, "f8,i4"), lambda: np.arange(4.0).astype(">f8"),
        lambda: np.datetime64("2020-01-01"), lambda: np.ma.masked_array([1.0, 2.0], [True, False]),
        lambda: np.float32(1.5), lambda: np.bool_(True), lambda: (v for v in [1, 2]), lambda: cycle, lambda: ring,
        lambda: knot, lambda: datetime.datetime(2020, 1, 1), lambda: decimal.Decimal("1.5"), lambda: len, lambda: np,
        lambda: fractions.Fraction(1, 3), lambda: int, lambda: lambda v: v, lambda: {1, 2}, lambda: frozenset({"a"}),
        lambda: range(4), lambda: slice(1), lambda: memoryview(b"ab"), lambda: bytearray(b"ab"), lambda: Rude(),
        lambda: {(1, 2): 3.0}, lambda: {1: "a", "b": 2}, lambda: {None: 1}, lambda: {1.5: 2}, list, dict,
        lambda: (), lambda: [1, "a", None], lambda: [[1], [2.0, "a"]], lambda: (1, (2, (3, (4,)))), lambda: Bare(),
        lambda: Bare(x=[Bare(x=1)], y=None), lambda: types.SimpleNamespace(a=1), lambda: collections.OrderedDict(a=1),
        lambda: collections.defaultdict(list, {1: [2]}), lambda: collections.deque([1, 2]), lambda: [given],
        lambda: collections.Counter("aab"), lambda: {"a": given}, lambda: (given, given), lambda: iter([1]),
        lambda: Exception("x"), lambda: sys.stdout, lambda: np.nditer(np.zeros(2)), lambda: array_of(),
        lambda: object(), lambda: ..., lambda: NotImplemented, lambda: type("K", (list,), {})([1.0]),
        lambda: type("F", (float,), {})(1.5), lambda: type("D", (dict,), {})(a=1), lambda: type("S", (str,), {})("a"),
        lambda: _nested(rng.choice([5, 13, 40, 300]), rng.randrange(4)),
        lambda: _nested(rng.choice([2, 3, 7]), rng.randrange(4)), lambda: [_nested(k, 3) for k in range(5)],
    ]  # fmt: skip
    return rng.choice(makers)()


def array_of() -> Any:
    import array

    return array.array("d", [1.0, 2.0])


def _odd_data(rng: random.Random, columns: list[Any], shared: dict[str, Any]) -> None:
    """Change some of the data."""
    if shared and rng.random() < 0.3:
        name = rng.choice(list(shared))
        shared[name] = odd_value(rng, shared[name])
        return
    k = rng.randrange(len(columns))
    column = list(columns[k])
    same = rng.random() < 0.5
    value = odd_value(rng, column[0])
    for j in range(len(column)):
        if same or rng.random() < 0.5:
            column[j] = value if same else odd_value(rng, column[j])
    columns[k] = column


def program(number: int) -> Program:
    """Return program number n; of one in eight the text is one of `fuzz`."""
    rng = random.Random(f"outside {number}")
    if number % 8:
        name = rng.choice(list(PROGRAMS))
        text, (columns, shared) = HEAD + "import copy\n" + PROGRAMS[name], DATA[name]
        make = lambda module: (columns(module), shared())
    else:
        case = fuzz.case_of(rng.randrange(10**6))
        text, make = case.source, lambda module: (case.instances(module, 3), case.shared_values(module))
    seed, odd = rng.random(), rng.random() < 0.25
    changer = Changer(text, rng)
    for _ in range(rng.choice([1, 1, 1, 2, 2, 3]) - (odd and rng.random() < 0.7)):
        changer.change()

    def made(module: types.ModuleType) -> tuple[list[Any], dict[str, Any]]:
        given, named = make(module)
        if odd:
            _odd_data(random.Random(seed), given, named)
        return given, named

    return Program(number, changer.text(), made, [*changer.changes, *["data"] * odd])


# ---- running them


@dataclass
class Told:
    """What came of a program."""

    number: int
    kind: str  # "taken", "rejected ACR...", "python" (no program of Python), or the name of a fault
    seconds: float = 0.0
    text: str = ""

    @property
    def fault(self) -> bool:
        return self.kind.startswith("fault ")


def tell(number: int, folder: Path, whole: bool = False) -> Told:
    """Return what comes of a program: of its front end alone, or, with `whole`, of a mini-batch."""
    made = program(number)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module = fuzz.load(made.text, folder)
    except Exception:  # it is none
        return Told(number, "python")
    try:
        columns, shared = made.make(module)
        run = model(module.main)
        begin = time.process_time()
        found = _outcome(run, columns, shared, whole, str(module.__file__))
        return Told(number, found[0], time.process_time() - begin, found[1])
    finally:
        fuzz.forget(module)


def _outcome(run: Any, columns: list[Any], shared: dict[str, Any], whole: bool, file: str) -> tuple[str, str]:
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            if not whole:
                specialise(run, bind(run, columns, shared), packed=False)
                return "taken", ""
            return _compare(run.with_options(max_steps=10**5), columns, shared)
    except Exception as error:
        return judged(error, file)


def judged(error: BaseException, file: str) -> tuple[str, str]:
    """Return whether an exception of a mini-batch is a rejection, and else what fault it is."""
    trace = "".join(traceback.format_exception(error))
    cause = error.__cause__ if isinstance(error, InternalError) else error
    if not isinstance(error, AcronumbaError) or isinstance(error, InternalError):
        frames = traceback.extract_tb(cause.__traceback__ if cause else None)
        if not isinstance(error, InternalError) and any(f.filename in (file, __file__) for f in frames[-1:]):
            return "rejected by the user's code", trace
        mine = [f for f in frames if "acronumba" in f.filename] or list(frames)
        where = f"{Path(mine[-1].filename).name}, {mine[-1].name}" if mine else "?"
        return f"fault {type(cause).__name__} in {where}", trace
    if error.code in ("ACR798", "ACR799"):
        return f"fault {error.code}", trace
    if not error.line and error.code < "ACR7":
        return f"fault {error.code} without a line", trace
    return f"rejected {error.code}", str(error)


def _compare(run: Any, columns: list[Any], shared: dict[str, Any]) -> tuple[str, str]:
    """Run a mini-batch and compare it with the plain call."""
    from acronumba.api.check import compare
    from acronumba.api.meter import Endless
    from acronumba.api.plain import PlainCall
    from acronumba.api.results import equal

    errors: dict[int, BaseException] = {}
    try:
        results: Any = run.batch(*columns, **shared)
    except InstanceErrors as error:
        results, errors = error.results, error.errors
    faults = [e for e in errors.values() if isinstance(e, InternalError)]
    if faults:
        raise faults[0]
    plain = PlainCall.of(run.__wrapped__, shared, run.options)
    for k in range(len(columns[0])):
        try:
            want = plain.run([c[k] for c in columns])
        except Endless:
            continue
        except Exception as error:
            if k not in errors:
                return "fault a result where Python raises", f"{error!r}, not {results[k]!r}"
            continue
        if k not in errors and not equal(results[k], want) and compare(results[k], want, want)[0] != "close":
            return "fault a wrong result", f"{results[k]!r}\nnot\n{want!r}"
    return "taken", ""


def campaign(numbers: Iterator[int], whole: bool, minutes: float = 1e9) -> list[Told]:
    """Tell of many programs, in one process."""
    out, end = [], time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory() as folder:
        for k, number in enumerate(numbers):
            if time.monotonic() > end:
                break
            out.append(tell(number, Path(folder), whole))
            if k % 200 == 199:
                gc.collect()
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--from", dest="first", type=int, default=0, metavar="NUMBER")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--whole", action="store_true", help="run the mini-batches, not the front end alone")
    parser.add_argument("--show", action="store_true", help="print the first program, and what comes of it")
    args = parser.parse_args()
    os.environ["ACRONUMBA_QUIET"] = "1"
    os.environ.setdefault("ACRONUMBA_VERIFY", "1")
    if args.show:
        print(program(args.first).text, program(args.first).changes)
    found = campaign(iter(range(args.first, args.first + args.count)), args.whole, args.minutes)
    kinds = collections.Counter(t.kind for t in found)
    for kind, count in kinds.most_common():
        first = next(t for t in found if t.kind == kind)
        print(f"{count:6} {kind}  (program {first.number})")
        if first.fault or args.show:
            print("    " + "\n    ".join(first.text.strip().splitlines()[-14:]))
    rejected = [t for t in found if t.kind.startswith("rejected")]
    slow = max(rejected, key=lambda t: t.seconds, default=None)
    if slow:
        print(f"slowest rejection: {slow.seconds:.2f} s of CPU (program {slow.number})")
    faults = sum(t.fault for t in found)
    print(f"{len(found)} programs, {faults} faults")
    return faults > 0
