"""Programs written by hand, for tests of what comes after the front end, and their inputs."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from acronumba.errors import Loc
from acronumba.ir import nodes as n
from acronumba.ir.ops import SCALARS
from acronumba.ir.types import BOOL, FLOAT, INT, FloatT, ListT, NoneT, RefT, StructT, TensorT, Type, Word, union, words

F32 = "float32"


def loc(line: int, function: str = "f") -> Loc:
    return Loc("hand.py", function, line, 0, line, 1)


@dataclass
class Tree:
    left: Any
    right: Any
    word: int


REF = RefT((Tree,))
TREE = StructT(Tree)
LAYOUT = n.StructLayout(
    cls=Tree,
    fields=(
        n.FieldLayout(name="left", type=union(TREE, NoneT()), offset=1, width=1),
        n.FieldLayout(name="right", type=union(TREE, NoneT()), offset=2, width=1),
        n.FieldLayout(name="word", type=INT, offset=3, width=1),
    ),
    size=4,
)


class Hand:
    """Builds one function, block by block."""

    def __init__(
        self, name: str, params: Sequence[tuple[str, Word]], results: Sequence[Word], sites: list[n.Site]
    ) -> None:
        self.name, self.results, self.sites = name, tuple(results), sites
        self.names: set[str] = set()
        self.params = tuple(self.var(a, t) for a, t in params)
        self.blocks: dict[int, n.Block] = {}
        self.instrs: list[n.Instr] = []
        self.line = 0

    def var(self, name: str, type: Word) -> n.Var:
        k, out = 0, name
        while out in self.names:
            k += 1
            out = f"{name}{k}"
        self.names.add(out)
        return n.Var(out, type)

    @property
    def at(self) -> Loc:
        self.line += 1
        return loc(self.line, self.name)

    def site(self, error: str, text: str = "") -> int:
        self.sites.append(n.Site(error, text, loc(len(self.sites), self.name)))
        return len(self.sites) - 1

    def _add(self, instr: n.Instr) -> None:
        self.instrs.append(instr)

    def const(self, value: Any, type: Word | None = None) -> n.Var:
        if type is None:
            type = BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT
        v = self.var("c", type)
        self._add(n.Const(out=v, value=value, loc=self.at))
        return v

    def copy(self, out: n.Var, src: n.Var) -> None:
        self._add(n.Copy(out=out, src=src, loc=self.at))

    def scalar(self, op: str, *args: n.Var, site: int | None = None) -> n.Var:
        row = SCALARS[op]
        kind = {"i": INT, "f": FLOAT, "b": BOOL}.get(row.result) or args[-1].type
        v = self.var("s", kind)
        if site is None:
            site = self.site("ArithmeticError", op + " {0}") if row.fails else -1
        self._add(n.Scalar(out=v, op=op, args=args, site=site, loc=self.at))
        return v

    def null(self, ref: n.Var) -> n.Var:
        v = self.var("none", BOOL)
        self._add(n.IsNull(out=v, ref=ref, loc=self.at))
        return v

    def check(self, cond: n.Var, error: str, text: str, *args: n.Var) -> None:
        self._add(n.Check(cond=cond, site=self.site(error, text), args=args, loc=self.at))

    def load(self, ref: n.Var, field: str, type: Word, cls: type = Tree) -> n.Var:
        v = self.var(field, type)
        self._add(n.Load(outs=(v,), ref=ref, cls=cls, field=field, loc=self.at))
        return v

    def new(self, cls: type, *args: n.Var) -> n.Var:
        v = self.var("row", RefT((cls,)))
        self._add(n.New(out=v, cls=cls, args=args, loc=self.at))
        return v

    def list_new(self, item: Type, *args: n.Var) -> n.Var:
        v = self.var("xs", ListT(item))
        width = len(words(item))
        self._add(n.ListNew(out=v, width=width, args=args, count=len(args) // width, loc=self.at))
        return v

    def list_op(self, op: str, *args: n.Var, outs: Sequence[Word] = (), width: int = 1) -> Any:
        made = tuple(self.var(op, t) for t in outs)
        self._add(n.ListOp(outs=made, op=op, width=width, args=args, loc=self.at))
        return made[0] if len(made) == 1 else made

    def extent(self, tensor: n.Var, axis: int) -> n.Var:
        v = self.var("extent", INT)
        self._add(n.ExtentOf(out=v, tensor=tensor, axis=axis, loc=self.at))
        return v

    def shared(self, index: int, type: Word) -> n.Var:
        v = self.var("shared", type)
        self._add(n.Shared(out=v, index=index, loc=self.at))
        return v

    def op(
        self,
        op: str,
        *args: Any,
        shape: Sequence[Any] = (),
        dtype: str = F32,
        attrs: tuple[Any, ...] = (),
        site: int = -1,
    ) -> n.Var:
        v = self.var(op, TensorT(dtype, tuple(x if isinstance(x, int) else None for x in shape)))
        given = tuple(n.SharedArg(a) if isinstance(a, int) else a for a in args)
        self._add(n.Op(out=v, op=op, args=given, attrs=attrs, shape=tuple(shape), site=site, loc=self.at))
        return v

    def row(self, table: Any, index: n.Var, size: int, shape: Sequence[Any] = (), text: str = "no entry") -> n.Var:
        """Emit `table[index]` of a table of `size` rows."""
        at = self.op("index", index, self.const(size), dtype="int64", site=self.site("IndexError", text))
        return self.op("take", table, at, shape=shape, attrs=(0,))

    def call(self, function: int, *args: n.Var, outs: Sequence[Word] = ()) -> Any:
        made = tuple(self.var("r", t) for t in outs)
        self._add(n.Call(outs=made, function=function, args=args, loc=self.at))
        return made[0] if len(made) == 1 else made

    def read(self, tensor: n.Var) -> n.Var:
        dtype = tensor.type.dtype if isinstance(tensor.type, TensorT) else ""
        v = self.var("value", BOOL if dtype == "bool" else FLOAT if dtype.startswith("float") else INT)
        self._add(n.Read(out=v, tensor=tensor, loc=self.at))
        return v

    def spawn(
        self, function: int, *args: n.Var, outs: Sequence[Word] = (), into: tuple[n.Var, n.Var] | None = None
    ) -> tuple[n.Var, ...]:
        made = tuple(self.var("r", t) for t in outs)
        self._add(n.Spawn(outs=made, into=into, function=function, args=args, loc=self.at))
        return made

    def join(self, *outs: n.Var) -> None:
        self._add(n.Join(outs=outs, loc=self.at))

    @contextmanager
    def block(self, number: int) -> Any:
        self.instrs, self.end = [], None
        yield self
        assert self.end is not None
        self.blocks[number] = n.Block(instrs=tuple(self.instrs), end=self.end)

    def jump(self, block: int) -> None:
        self.end = n.Jump(block=block, loc=self.at)

    def branch(self, cond: n.Var, yes: int, no: int) -> None:
        self.end = n.Branch(cond=cond, yes=yes, no=no, loc=self.at)

    def ret(self, *args: n.Var) -> None:
        self.end = n.Return(args=args, loc=self.at)

    def fail(self, error: str, text: str, *args: n.Var) -> None:
        self.end = n.Fail(site=self.site(error, text), args=args, loc=self.at)

    def function(self) -> n.Function:
        return n.Function(
            name=self.name,
            params=self.params,
            results=self.results,
            blocks=tuple(self.blocks[k] for k in range(len(self.blocks))),
            loc=loc(0, self.name),
        )


def program(
    functions: Sequence[Hand],
    sites: list[n.Site],
    params: Sequence[Type],
    result: Type,
    shared: Sequence[tuple[str, Type]] = (),
    layouts: Sequence[n.StructLayout] = (LAYOUT,),
) -> n.Program:
    return n.Program(
        name=functions[0].name,
        functions=tuple(f.function() for f in functions),
        sites=tuple(sites),
        layouts=tuple(layouts),
        shared=tuple(n.SharedParam(path=p, type=t) for p, t in shared),
        params=tuple(params),
        result=result,
    )


def straight(
    make: Any, params: Sequence[tuple[str, Word]], results: Sequence[Word], result: Type, **more: Any
) -> n.Program:
    """A program of one block: make(hand, *params) returns the results."""
    sites: list[n.Site] = []
    f = Hand("f", params, results, sites)
    with f.block(0):
        out = make(f, *f.params)
        f.ret(*(out if isinstance(out, tuple) else (out,)))
    return program([f], sites, [t for _, t in params], result, **more)  # type: ignore[misc]


# ----------------------------------------------------------------------------------------------------- Tree-LSTM


def tree_lstm(hidden: int = 4, words_: int = 10, classes: int = 3) -> n.Program:
    """A binary Tree-LSTM (one gate of each kind, small) with a classifier."""
    vec = TensorT(F32, (hidden,))
    sites: list[n.Site] = []
    main = Hand("sentiment", [("t", REF)], [TensorT(F32, (classes,))], sites)
    with main.block(0) as f:
        h, _ = f.call(1, f.params[0], outs=[vec, vec])
        y = f.op("matmul", h, 2, shape=(classes,))
        f.ret(f.op("tanh", y, shape=(classes,)))
    enc = Hand("encode", [("t", REF)], [vec, vec], sites)
    (t,) = enc.params
    with enc.block(0) as f:
        left = f.load(t, "left", REF)
        f.branch(f.null(left), 1, 2)
    with enc.block(1) as f:
        word = f.load(t, "word", INT)
        c = f.row(0, word, words_, (hidden,), "no word {0}")
        f.ret(f.op("tanh", c, shape=(hidden,)), c)
    with enc.block(2) as f:
        hl, cl = f.call(1, left, outs=[vec, vec])
        right = f.load(t, "right", REF)
        ok = f.scalar("not", f.null(right))
        f.check(ok, "AttributeError", "'NoneType' object has no attribute 'left'")
        hr, cr = f.call(1, right, outs=[vec, vec])
        x = f.op("concat", hl, hr, shape=(2 * hidden,), attrs=(0,))
        g = f.op("matmul", x, 1, shape=(2 * hidden,))
        i = f.op("slice", g, shape=(hidden,), attrs=((0,), (1,)))
        o = f.op("slice", g, shape=(hidden,), attrs=((hidden,), (1,)))
        c = f.op("add", f.op("mul", f.op("sigmoid", i, shape=(hidden,)), cl, shape=(hidden,)), cr, shape=(hidden,))
        f.ret(f.op("mul", f.op("tanh", c, shape=(hidden,)), o, shape=(hidden,)), c)
    return program(
        [main, enc],
        sites,
        [TREE],
        TensorT(F32, (classes,)),
        shared=[
            ("p.embed", TensorT(F32, (words_, hidden))),
            ("p.w", TensorT(F32, (2 * hidden, 2 * hidden))),
            ("p.out", TensorT(F32, (hidden, classes))),
        ],
    )


def tree_lstm_plain(t: Tree, embed: Any, w: Any, out: Any) -> Any:
    """What it computes, for a tree of any depth."""
    hidden = embed.shape[1]
    done: dict[int, tuple[Any, Any]] = {}
    stack = [t]
    while stack:
        x = stack[-1]
        if x.left is None:
            done[id(x)] = (np.tanh(embed[x.word]), embed[x.word])
        elif id(x.left) in done and id(x.right) in done:
            (hl, cl), (hr, cr) = done[id(x.left)], done[id(x.right)]
            g = np.concatenate([hl, hr]) @ w
            c = 1 / (1 + np.exp(-g[:hidden])) * cl + cr
            done[id(x)] = (np.tanh(c) * g[hidden:], c)
        else:
            stack += [x.right, x.left]
            continue
        stack.pop()
    return np.tanh(done[id(t)][0] @ out)


def random_tree(rng: np.random.Generator, leaves: int, words_: int = 10) -> Tree:
    parts = [Tree(None, None, int(rng.integers(words_))) for _ in range(leaves)]
    while len(parts) > 1:
        k = int(rng.integers(len(parts) - 1))
        parts[k : k + 2] = [Tree(parts[k], parts[k + 1], -1)]
    return parts[0]


def pack_trees(trees: Sequence[Tree]) -> tuple[Any, Any]:
    """Return the words of all trees and their roots, int64[batch, 1]."""
    order: list[Tree] = []
    stack = list(trees)
    while stack:
        x = stack.pop()
        order.append(x)
        stack += [y for y in (x.left, x.right) if y is not None]
    rows = np.zeros((len(order), 4), np.int64)
    at = {id(x): rows.ctypes.data + 32 * k for k, x in enumerate(order)}
    for k, x in enumerate(order):
        rows[k] = 0, at[id(x.left)] if x.left else 0, at[id(x.right)] if x.right else 0, x.word
    return rows, np.array([[at[id(t)]] for t in trees], np.int64)


def bits(value: float | int | bool) -> int:
    return int(struct.unpack("q", struct.pack("d", value))[0]) if isinstance(value, float) else int(value)


def number(word: int, type: Word) -> Any:
    if isinstance(type, FloatT):
        return struct.unpack("d", struct.pack("q", int(word)))[0]
    return bool(word) if type == BOOL else int(word)


def read_tensor(word: int, dtype: str, shape: tuple[int, ...]) -> Any:
    """Return a copy of the tensor whose value record is at the address."""
    import ctypes

    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    data = ctypes.c_int64.from_address(int(word)).value
    return np.frombuffer((ctypes.c_char * size).from_address(data), dtype).reshape(shape).copy()
