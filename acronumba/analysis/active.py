"""What a gradient goes through: from the arrays that it is wanted of to the loss.

In: a `Program` that is not planned, and what is wanted. Out: an `Active`: the operations that depend on it, and where
it gets lost. A tensor that is read as a number of Python (`float(x)`, `math.sqrt(x)`) has no derivative any more: where
such a number is a decision that is meant (comparisons, `int`), where it flows on as a float into a tensor that the loss
depends on, the gradient would be wrong without a word, so it is refused (ACR602).

The flow is that of `analysis.value_flow`, which over-approximates: nothing that is lost is overlooked.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial

from acronumba.analysis.value_flow import Inclusion
from acronumba.errors import NOWHERE, AcronumbaError
from acronumba.errors.codes import refuse
from acronumba.ir import nodes as ir
from acronumba.ir.types import FLOAT, FloatT, ListT, RefT, TensorT, words
from acronumba.ir.vjp import differentiable


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What gradients are wanted of, in a program."""

    shared: frozenset[int]  # entries of `Program.shared` that are tensors
    packed: frozenset[int]  # ... that are objects or lists which hold some
    params: frozenset[int]  # parameters of the program that hold some


@dataclass(frozen=True, slots=True, kw_only=True)
class Active:
    """What depends on what is wanted."""

    ops: frozenset[int]  # operations by their number in program order
    needed: frozenset[int]  # operations that the loss depends on by derivatives
    stops: tuple[ir.Read, ...]  # where a tensor that depends on it is read as a float
    lost: tuple[ir.Read, ...]  # those whose number flows on into the loss

    def refusal(self) -> AcronumbaError | None:
        """Return the error that names the first place where a gradient is lost."""
        if not self.lost:
            return None
        first = min(self.lost, key=lambda r: (r.loc.line, r.loc.column))
        seen = f"{first.why} of a tensor that the parameters decide" if first.why else "a float of such a tensor"
        return refuse("ACR602", first.loc, seen=seen)


def active(program: ir.Program, wanted: Wanted, width: int) -> Active:
    """Return what gradients go through.

    Parameters
    ----------
    program
        A typed program.
    wanted
        What gradients are wanted of.
    width
        How many words of the result are the loss.
    """
    return _Activity(program, wanted).solved(width)


_LEAF = ir.Op(
    out=ir.Var("wanted", TensorT("float32", ())), op="const", args=(), attrs=(0.0,), shape=(), site=-1, loc=NOWHERE
)
_DATA = ir.ListNew(out=ir.Var("data", ListT(FLOAT)), width=1, args=(), count=0, loc=NOWHERE)
_GIVEN = 0  # the allocation that stands for objects and lists that hold what is wanted


class _Activity(Inclusion):
    """Follows tensors to operations, and what is read of them through floats. A `Read` as a float is a node."""

    def __init__(self, program: ir.Program, wanted: Wanted) -> None:
        super().__init__(program)
        self.wanted = wanted
        self.numbers = False
        self.reads: dict[int, ir.Read] = {}  # by number of the node
        self.number_of: dict[int, int] = {}  # of each operation in program order: its node

    def _matters(self, v: ir.Var) -> bool:
        return isinstance(v.type, FloatT) or super()._matters(v)

    def _collect(self) -> None:
        ops = 0
        for f, function in enumerate(self.program.functions):
            for k, block in enumerate(function.blocks):
                for instr in block.instrs:
                    if isinstance(instr, ir.Read) and isinstance(instr.out.type, FloatT):
                        self.reads[len(self.nodes)] = instr
                    elif isinstance(instr, ir.Op):
                        self.number_of[ops] = len(self.nodes)
                        ops += 1
                    else:
                        continue
                    self.nodes.append(instr)  # type: ignore[arg-type]
                    self.places.append((f, k))
        self.leaf = 1 << len(self.nodes)
        self.nodes.append(_LEAF)
        self.data = 1 << len(self.nodes)
        self.made.append(_DATA)
        entry = self.program.functions[0]
        given = iter(entry.params)
        for k, t in enumerate(self.program.params):
            for _, v in zip(words(t), given, strict=False):
                if k in self.wanted.params:
                    self._give(v)

    def _give(self, v: ir.Var) -> None:
        """Let a variable hold data that a gradient is wanted of."""
        if isinstance(v.type, TensorT):
            self.add(self.slot(v), self.leaf)
        elif isinstance(v.type, RefT | ListT):
            self.add(self.slot(v), self.data)

    def _instruction(self, instr: ir.Instr) -> None:
        match instr:
            case ir.Read():
                return
            case ir.Shared() if instr.index in self.wanted.shared | self.wanted.packed:
                self._give(instr.out)
            case ir.Scalar():
                for v in instr.args if isinstance(instr.out.type, FloatT) else ():
                    self._move(v, instr.out)
            case _:
                super()._instruction(instr)

    def _from(self, ref: ir.Var, field: str, word: int, v: ir.Var) -> None:
        if self._matters(v):
            self.at(ref, partial(self._take, v, word, field))

    def _take(self, v: ir.Var, word: int, field: str, site: int) -> None:
        if site == _GIVEN:
            self._give(v)
        else:
            self.include(self.slot((site, field, word)), self.slot(v))

    def _elements(self, source: int, target: int, width: int) -> None:
        if source == _GIVEN:
            for j in range(width):
                self.add(self.slot((target, "", j)), self.leaf | self.data)
        else:
            super()._elements(source, target, width)

    # ---- what it leads to

    def _held(self, a: ir.Var | ir.SharedArg) -> int:
        """Return the nodes whose results an argument may be, or may hold as a list."""
        if isinstance(a, ir.SharedArg):
            return self.leaf if a.index in self.wanted.shared else 0
        mask, out = 2 * self.leaf - 1, self.sets[self.slots[a]] if a in self.slots else 0
        if isinstance(a.type, ListT):
            sites = out >> len(self.nodes)
            out = self.leaf if sites >> _GIVEN & 1 else 0
            for site in _bits(sites):
                out |= self.sets[self.slot((site, "", 0))]
        return out & mask

    def solved(self, width: int) -> Active:
        self.fill()
        sources: list[int] = []  # per node: those that it depends on by derivatives
        for k, node in enumerate(self.nodes):
            if k in self.reads:
                sources.append(self._held(self.reads[k].tensor))
            else:
                assert isinstance(node, ir.Op)
                places = [a for j, a in enumerate(node.args) if differentiable(node.op, j)]
                stopped = node.op == "scale_gradient" and node.attrs == (0.0,)
                bits = 0
                for a in places if not stopped and _is_float(node) else ():
                    bits |= self._held(a)
                sources.append(bits)
        reads = sum(1 << k for k in self.reads)
        on = self._closed(self.leaf, sources, reads)
        loss = 0
        for block in self.program.functions[0].blocks:
            if isinstance(block.end, ir.Return):
                for v in block.end.args[:width]:
                    loss |= self._held(v)
        needed, todo = 0, loss
        while todo:
            k = todo.bit_length() - 1
            todo &= ~(1 << k)
            needed |= 1 << k
            if k not in self.reads:
                todo |= sources[k] & ~needed
        return Active(
            ops=frozenset(n for n, k in self.number_of.items() if on >> k & 1),
            needed=frozenset(n for n, k in self.number_of.items() if needed >> k & 1),
            stops=tuple(r for k, r in self.reads.items() if on >> k & 1),
            lost=tuple(r for k, r in self.reads.items() if on & needed & 1 << k),
        )

    @staticmethod
    def _closed(start: int, sources: Collection[int], reads: int) -> int:
        """Return the nodes that depend on some by derivatives; a number that is read has none."""
        out, before = start, -1
        while out != before:
            before = out
            for k, bits in enumerate(sources):
                if bits & out & ~reads:
                    out |= 1 << k
        return out


def _is_float(op: ir.Op) -> bool:
    return isinstance(op.out.type, TensorT) and op.out.type.dtype.startswith("float")


def _bits(number: int) -> list[int]:
    out = []
    while number:
        out.append((number & -number).bit_length() - 1)
        number &= number - 1
    return out
