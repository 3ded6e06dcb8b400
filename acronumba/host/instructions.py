"""Instructions of the host program: values, rows, and records of nodes.

In: an instruction. Out: its code, written with a `Writer`.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from acronumba.analysis.plan import Plan
from acronumba.data.words import MADE, RECORD
from acronumba.emit.tree import (
    I32,
    I64,
    Builder,
    Call,
    Expr,
    Function,
    Local,
    call_address,
    const,
    convert,
    intrinsic,
    load,
    select,
)  # fmt: skip
from acronumba.host.lists import list_operation
from acronumba.host.numbers import scalar
from acronumba.host.sets import is_ordered
from acronumba.host.sets import new as new_set
from acronumba.host.texts import constant
from acronumba.host.writer import Maker, Writer
from acronumba.ir import nodes as ir
from acronumba.ir.spec import KernelOp
from acronumba.ir.types import ListT, TensorT
from acronumba.kernels.own import may_fail
from acronumba.operations import OwnCall
from acronumba.runtime.library.records import deeper, group_of, halves, memo_of, node_of
from acronumba.runtime.state import AT, KERNEL, TABLE

_ODD = 6364136223846793005  # whose powers are factors of a hash


def instruction(w: Writer, instr: ir.Instr) -> None:
    b, reg = w.b, w.reg
    match instr:
        case ir.Const():
            value = 0 if instr.value is None else instr.value
            if instr.out not in w.constants:
                w.assign(instr.out, constant(w, value) if isinstance(value, str) else const(value, w[instr.out].type))
        case ir.Copy():
            w.assign(instr.out, w[instr.src])
        case ir.Scalar():
            scalar(w, instr)
        case ir.IsNull():
            w.assign(instr.out, w[instr.ref].eq(0))
        case ir.ClassTag():
            w.assign(instr.out, load(w[instr.ref]) & (MADE - 1))
        case ir.IsMade():
            w.assign(instr.out, load(w[instr.ref]) >= MADE)
        case ir.Check():
            with b.when(~w[instr.cond]):
                w.fail(instr.site, instr.args)
        case ir.Load():
            _, layout = w.layouts[instr.cls]
            (place,) = [f for f in layout.fields if f.name == instr.field]
            for k, v in enumerate(instr.outs):
                w.assign(v, w.read_word(w[instr.ref], place.offset + k, v.type))
        case ir.New():
            _new(w, instr)
        case ir.Store():
            _, layout = w.layouts[instr.cls]
            (place,) = [f for f in layout.fields if f.name == instr.field]
            for k, v in enumerate(instr.args):
                w.write_word(w[instr.ref], place.offset + k, w[v])
        case ir.ListNew() if is_ordered(instr.out.type):
            new_set(w, instr.out)
        case ir.ListNew():
            top = reg["top"]
            b.store(top, 0, top + 24)
            b.store(top, 1, instr.count)
            b.store(top, 2, instr.count)
            for k, v in enumerate(instr.args):
                w.write_word(top, 3 + k, w[v])
            w.assign(instr.out, top)
            b.set(top, top + 8 * (3 + instr.count * instr.width))
        case ir.ListOp():
            list_operation(w, instr)
        case ir.ExtentOf():
            # A variable that is bound later, or on another path only, may hold no tensor here: its extents are 0.
            w.assign(instr.out, const(0, I64))
            with b.when(w[instr.tensor].ne(0)):
                w.assign(instr.out, load(load(w[instr.tensor], 2), instr.axis))
        case ir.Shared():
            w.assign(instr.out, w.read_word(w.word("shared"), instr.index, instr.out.type))
        case ir.Emit():
            _emit(w, instr)
        case _:
            raise TypeError(f"{type(instr).__name__} has no place in a host program")


def _new(w: Writer, new: ir.New) -> None:
    """Make a row at the top of the heap."""
    b, top = w.b, w.reg["top"]
    number, layout = w.layouts[new.cls]
    b.store(top, 0, number if new.given else number + MADE)
    at = [f.offset + k for f in layout.fields for k in range(f.width)]
    for k, v in zip(at, new.args, strict=True):
        w.write_word(top, k, w[v])
    w.assign(new.out, top)
    b.set(top, top + 8 * layout.size)


def emit_words(emit: ir.Emit) -> int:
    """Return the number of words of a node's row: given words, a record for each result, extents of results."""
    return len(_given(emit)) + RECORD.count * len(emit.outs) + len(_extents(emit))


def _given(emit: ir.Emit) -> tuple[ir.Var, ...]:
    """Return the first words of a node's row: arguments and run-time extents."""
    return (*emit.args, *emit.dims)


def _extents(emit: ir.Emit) -> tuple[ir.Extent, ...]:
    """Return the last words of a node's row: the extents of each result that has run-time extents."""
    return tuple(x for shape in emit.shapes if any(isinstance(x, ir.Var) for x in shape) for x in shape)


class _Position:
    """Where a node comes in the order of execution: its `depth`, and its `place` among the nodes of its component."""

    def __init__(self, w: Writer, kernel: int) -> None:
        self.w, self.kernel, b = w, kernel, w.b
        self.depth = b.let("d", 0)
        if w.groups:
            self.component = b.let("component", load(w.word("component"), kernel, I32))
            self.place = b.let("place", convert(self.component, I64) << 48)
            self.marks = 8 * kernel * ((w.groups >> 6) + 1)  # where the row of the kernel begins in `adjacent`

    def read(self, head: Expr, maker: Maker | None = None) -> None:
        """Come after an operand; `maker` says which nodes compute it, if that is known.

        The place of an operand of another component is not read: components are numbered in order of execution, or else
        the graph is not the expected one, and places are measured.
        """
        w, b = self.w, self.w.b
        d = b.let("d", convert(convert(head, I32), I64) + 1)
        b.set(self.depth, select(d > self.depth, d, self.depth))
        if not w.groups:
            return
        if maker is None:
            p = b.let("p", load(w.word("place"), node_of(head)))
            self._mark(group_of(p))
            self._come_after(p)
        else:
            self._mark(const(maker.kernel, I64))
            same = load(w.word("component"), maker.kernel, I32).eq(self.component)
            with contextlib.nullcontext() if maker.kernel == self.kernel else b.when(same):
                self._come_after(b.let("p", load(w.word("place"), node_of(head))))

    def _mark(self, group: Expr) -> None:
        """Note that the kernel reads results of a group."""
        w, b = self.w, self.w.b
        reads = b.let("reads", w.word("adjacent") + self.marks)
        word = group >> 6 if w.groups >> 6 else const(0, I64)
        marked = b.let("marked", load(reads, word))
        with b.when(((marked >> (group & 63)) & 1).eq(0)):
            b.store(reads, word, marked | (const(1, I64) << (group & 63)))

    def _come_after(self, place: Local) -> None:
        b = self.w.b
        b.set(place, deeper(place))
        b.set(self.place, select(place > self.place, place, self.place))

    def read_list(self, it: Expr) -> None:
        """Come after all tensors of a list."""
        b = self.w.b
        items = b.let("items", load(it))
        with b.loop("k", 0, load(it, 1)) as k:
            self.read(b.let("head", load(load(items, k), RECORD.at["head"])))

    def end(self) -> None:
        """Complete the place, when all operands have been read."""
        if self.w.groups and self.kernel:
            self.w.b.set(self.place, self.place | self.kernel)

    def use(self, record: Expr, head: Expr, maker: Maker | None = None) -> None:
        """Note that a node at this place reads an operand: in its value record or, where one batch has all, once."""
        w, b = self.w, self.w.b
        if maker is not None and maker.leaf:
            record = b.let("uses", w.word("leaf_uses") + 8 * (w.word("most") * maker.kernel + maker.result))
        known = contextlib.nullcontext() if maker is not None else b.when(head >= 0)
        with known, b.when(self.place > load(record)):
            b.store(record, 0, self.place)

    def use_list(self, it: Expr) -> None:
        """Note in the value records of all tensors of a list that a node at this place reads them."""
        b = self.w.b
        items = b.let("items", load(it))
        with b.loop("k", 0, load(it, 1)) as k:
            item = b.let("item", load(items, k))
            self.use(item, load(item, RECORD.at["head"]))


def never_fails(op: KernelOp) -> bool:
    """Whether an operation with a site is a pure one of the user's own whose kernel raises nothing."""
    call = op.attrs[0] if op.op == "own" else None
    return isinstance(call, OwnCall) and call.operation.pure and not may_fail(call, op.loc)


def once_if_equal(plan: Plan) -> frozenset[int]:
    """Return the kernels whose equal nodes are recorded once.

    Excluded are kernels that may fail (see `never_fails`), as failures belong to one instance, and kernels with list
    arguments, as equal addresses of lists do not mean equal elements. Rows of nodes of one kernel must have the same
    layout, wherever the nodes are recorded.
    """
    forms: dict[int, set[tuple[int, ...]]] = defaultdict(set)
    for function in plan.program.functions:
        for block in function.blocks:
            for emit in block.instrs:
                if isinstance(emit, ir.Emit):
                    forms[emit.kernel].add(tuple(map(len, (emit.args, emit.dims, emit.outs, _extents(emit)))))
    return frozenset(
        k
        for k, spec in enumerate(plan.kernels)
        if len(forms[k]) < 2
        and not any(op.site >= 0 and not never_fails(op) for op in spec.body)
        and not any(o.kind in ("list", "numbers") for o in spec.operands)
    )


def _emit(w: Writer, emit: ir.Emit) -> None:
    b, reg = w.b, w.reg
    row = b.let("node", reg["top"])
    for v in emit.args:
        if isinstance(v.type, TensorT):
            w.head(v)
    if w.equal:
        b.store(w.word("reader"), reg["n"], -1)
    given, extents = _given(emit), _extents(emit)
    for k, v in enumerate(given):
        w.write_word(row, k, w[v])
    behind = len(given) + RECORD.count * len(emit.outs)
    for k, x in enumerate(extents):
        b.store(row, behind + k, w[x] if isinstance(x, ir.Var) else x)
    if emit.kernel not in w.equal:
        _record(w, emit, row)
        return
    known = _Known(b.let("found", -1), b.let("other", 0), b.let("head", 0))
    key = [(0, len(given)), (behind, len(extents))]  # all words that the row has by now
    _look(w, emit, row, known, key)
    with b.when(known.node >= 0):
        b.set(reg["nroom"], reg["nroom"] - 1)
        b.store(w.word("sharer"), reg["nroom"], halves(known.node, reg["inst"]))
        if w.doubles:
            b.store(w.word("double"), reg["nroom"], halves(known.node, reg["n"]))
            _record(w, emit, row)
        for k, v in enumerate(emit.outs):
            w.assign(v, known.row + (8 * len(given) + RECORD.size * k))
    with b.otherwise():
        b.set(known.head, _record(w, emit, row))
    _computed(w, emit, known.head)


class _Known(NamedTuple):
    """The recorded node that is equal to one that is about to be recorded; negative: there is none."""

    node: Local
    row: Local
    head: Local  # of its value records


def _look(w: Writer, emit: ir.Emit, row: Local, known: _Known, key: list[tuple[int, int]]) -> None:
    """Set `known` to the node that is equal to that of a row, unless these are not looked for at present.

    A node whose newest operand nobody has read has no equal. `key` says which words of the row are compared.
    """
    b, n = w.b, w.reg["n"]
    newest: Expr = const(-1, I64)
    for k, v in enumerate(v for v in emit.args if isinstance(v.type, TensorT)):
        node = b.let("reads", node_of(w.head(v)))
        newest = node if k == 0 else b.let("newest", select(node > newest, node, newest))
    alone = not isinstance(newest, Local)  # whether it reads no results
    last = 2 * newest  # where `reader` has the last node that reads it
    with contextlib.nullcontext() if alone else b.when(load(w.word("reader"), last, I32) >= 0):
        words = [start + k for start, count in key for k in range(count)]
        with b.when(intrinsic("seldom", n >= w.look(emit.kernel))):
            recalled = alone and len(words) == 1
            if recalled:
                _recall(w, emit, load(row, words[0]), known)
            with b.when(known.node < 0) if recalled else contextlib.nullcontext():
                counts = (const(x, I64) for start, count in key for x in (start, count))
                about = w.st, const(emit.kernel, I64), row, *counts, hash_of(row, words, emit.kernel), newest, n
                b.set(known.node, call_address(w.word("find_equal"), *about, result=I64))
                with b.when(known.node >= 0):
                    b.set(known.row, load(w.word("row"), known.node))
                    b.set(known.head, load(known.row, len(_given(emit)) + RECORD.at["head"]))
    if not alone:
        with b.otherwise():
            b.store(w.word("reader"), last, convert(n, I32))


def _recall(w: Writer, emit: ir.Emit, word: Expr, known: _Known) -> None:
    """Set `known` if the memo has the node whose row has this word alone."""
    if "recall" not in w.helpers:
        w.helpers["recall"] = _recaller()
    b = w.b
    place = b.let("place", Call("recall", (w.st, const(emit.kernel, I64), word), I64))
    with b.when(place.ne(0)):
        b.set(known.node, load(place, 2))
        b.set(known.row, load(place, 3))
        b.set(known.head, halves(known.node, const(0, I64)))  # it reads no results: its depth is 0


def _recaller() -> Function:
    """Return the function that finds a node in the memo, with the effect of the library's search."""
    doc = "Return the memo's entry for a node of a kernel whose row has one word to compare; 0: there is none."
    b = Builder("recall", [("ST", I64), ("kernel", I64), ("word", I64)], result=I64, inline="always", doc=doc)
    st, kernel, word = b["ST"], b["kernel"], b["word"]
    place = b.let("place", memo_of(load(st, AT["memo"]), word, kernel))
    known = load(place).eq(word) & load(place, 1).eq(load(st, AT["memo_tag"]) + kernel)
    with b.when(known & load(st, AT["equal_found"]).ne(0)):
        credit = b.let("credit", load(st, AT["credit"]) + 16 * kernel)
        row = b.let("row", load(st, AT["table"]) + KERNEL.size * kernel)
        more, most = b.let("more", load(credit) + load(row, TABLE["equal_gain"])), load(row, TABLE["equal_tries"])
        b.store(credit, 0, select(more < most, more, most))
        b.ret(place)
    b.ret(const(0, I64))
    return b.function()


def hash_of(row: Expr, words: Sequence[int], kernel: int) -> Expr:
    """Return 31 bits that some words of a row and the number of a kernel make: the upper ones of a sum of products.

    The multiplications do not wait for one another. What tells two rows apart reaches the upper bits of their sum.
    """
    total: Expr = const(_wrapped(_ODD * (kernel + 1)), I64)
    factor = _ODD
    for k in words:
        factor = factor * _ODD
        total = total + load(row, k) * _wrapped(factor)
    return (total >> 33) & ((1 << 31) - 1)


def _wrapped(number: int) -> int:
    """Return the number of 64 bits with the same lower bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def _record(w: Writer, emit: ir.Emit, row: Local) -> Local:
    """Record a node whose row has all words but the records of its results; return their head."""
    b, reg = w.b, w.reg
    n, top = reg["n"], reg["top"]
    position = _Position(w, emit.kernel)
    for v in emit.args:
        if isinstance(v.type, TensorT):
            position.read(w.head(v), w.makers.get(v))
        elif _tensors(v):
            position.read_list(w[v])
    position.end()
    if w.noting and any(map(_tensors, emit.args)):
        with b.when(w.word("noting").ne(0)):
            for v in emit.args:
                if isinstance(v.type, TensorT):
                    position.use(w[v], w.head(v), w.makers.get(v))
                elif _tensors(v):
                    position.use_list(w[v])
    head = b.let("value", halves(n, position.depth))
    at = len(_given(emit))
    moving = at + RECORD.count * len(emit.outs)
    for v, shape in zip(emit.outs, emit.shapes, strict=True):
        if w.noting:
            b.store(row, at, 0)
        b.store(row, at + 1, head)
        if any(isinstance(x, ir.Var) for x in shape):
            b.store(row, at + 2, row + 8 * moving)
            moving += len(shape)
        else:
            b.store(row, at + 2, reg["shapes"] + 8 * w.shape(tuple(x for x in shape if isinstance(x, int))))
        w.assign(v, row + 8 * at)
        at += RECORD.count
    b.store(reg["kind"], n, emit.kernel, I32)
    b.store(reg["depth"], n, convert(position.depth, I32))
    b.store(reg["instance"], n, convert(reg["inst"], I32))
    b.store(reg["row"], n, row)
    if w.groups:
        b.store(w.word("place"), n, position.place)
    b.set(n, n + 1)
    b.set(top, row + 8 * emit_words(emit))
    _computed(w, emit, head)
    return head


def _computed(w: Writer, emit: ir.Emit, head: Local) -> None:
    """Note what the rest of the segment knows of the results of a node."""
    leaf = not any(map(_tensors, emit.args))
    w.heads |= dict.fromkeys(emit.outs, head)
    w.makers |= {v: Maker(emit.kernel, j, leaf) for j, v in enumerate(emit.outs)}


def _tensors(v: ir.Var) -> bool:
    """Whether an argument is a tensor or a list of tensors."""
    return isinstance(v.type, TensorT) or (isinstance(v.type, ListT) and isinstance(v.type.item, TensorT))
