"""Activity analysis: the operations between the arrays with requested gradients and the loss.

In: a `Program` that is not planned, and the arrays whose gradients are requested. Out: an `Active`: the operations that
depend on these arrays, and the reads at which a gradient gets lost. A tensor that is read as a Python number
(`float(x)`, `math.sqrt(x)`) has no derivative any more. That is intended for a decision (comparisons, `int`). Where the
number flows on as a float into a tensor that the loss depends on, the gradient would be silently wrong, so the program
is rejected (ACR602).

The flow is that of `analysis.value_flow`, which over-approximates: no lost gradient is overlooked.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_

from acronumba.analysis.backward.derive import depends
from acronumba.analysis.value_flow import Inclusion
from acronumba.errors import NOWHERE, AcronumbaError
from acronumba.errors.codes import reject
from acronumba.ir import nodes as ir
from acronumba.ir.spec import KernelSpec
from acronumba.ir.types import FLOAT, FloatT, ListT, RefT, TensorT, words
from acronumba.ir.visit import writes
from acronumba.ir.vjp import differentiable
from acronumba.records import record


@record(kw_only=True)
class RequestedValues:
    """The values of a program whose gradients are requested."""

    shared: frozenset[int]  # entries of `Program.shared` that are tensors
    packed: frozenset[int]  # ... that are objects or lists which hold some
    params: frozenset[int]  # parameters of the program that hold some


@record(kw_only=True)
class Active:
    """Operations and reads that depend on values with requested gradients."""

    ops: frozenset[int]  # operations by their number in program order
    needed: frozenset[int]  # operations that the loss depends on by derivatives
    ends: tuple[ir.Op, ...]  # operations that read an active value, and have no derivative
    stops: tuple[ir.Read, ...]  # reads of an active tensor as a float
    lost: tuple[ir.Read, ...]  # those whose number flows on into the loss
    unseen: tuple[ir.Op, ...]  # writes through detached names of values that the loss then reads through these names
    constant: frozenset[int]  # words of the result whose tensors depend on no value with a requested gradient

    def rejection(self) -> AcronumbaError | None:
        """Return the error for the first position in the source at which a gradient is lost, or None."""
        if not self.lost:
            return None
        first = min(self.lost, key=lambda r: (r.loc.line, r.loc.column))
        seen = f"{first.why} of a tensor computed from the parameters" if first.why else "a float of such a tensor"
        whole = first.why in ("float()", ".item()")
        rewrite = f"leave out {first.why}, or stop the gradient: `nn.stop_gradient(x)`" if whole else ""
        return reject("ACR602", first.loc, seen=seen, rewrite=rewrite)

    def rejection_of_writes(self) -> AcronumbaError | None:
        """Return the error for the first write through a detached name that loses a gradient, or None."""
        if not self.unseen:
            return None
        first = min(self.unseen, key=lambda op: (op.loc.line, op.loc.column))
        return reject(
            "ACR602", first.loc, seen="a value computed from the parameters, and read through `.data` or `.detach()`",
            message="a write through a detached name of a tensor loses its gradient",
            rewrite="d = v.detach().clone(); or call the model under torch.no_grad() if no gradient is needed",
        )  # fmt: skip


def active(program: ir.Program, wanted: RequestedValues, width: int | None) -> Active:
    """Return the operations and reads that gradients go through.

    Parameters
    ----------
    program
        A typed program.
    wanted
        The values whose gradients are requested.
    width
        Number of words of the result that are the loss; None: all tensors in the result have adjoints. Python numbers
        in the result have none, so no gradient is lost in them.
    """
    return _Activity(program, wanted).solved(width)


@record(kw_only=True)
class ActiveOperands:
    """The operands and results of a kernel that take part in the backward pass."""

    wanted: frozenset[int]  # operands that gradients go on to
    results: frozenset[int]  # results that have an adjoint
    shared: frozenset[int]  # subset of `wanted` that no node computes: at run time they are shared tensors


def parts(
    program: ir.Program, kernels: Sequence[KernelSpec], wanted: RequestedValues, width: int | None
) -> tuple[ActiveOperands, ...]:
    """Return the `ActiveOperands` of each kernel of a plan.

    A per-batch constant has a gradient if a shared tensor that it is computed from has one.
    """
    shared = set(wanted.shared)
    for once in program.once:
        spec = kernels[once.kernel]
        if any(spec.operands[v].index in shared for v in depends(spec, 0) if spec.operands[v].kind == "shared"):
            shared.add(once.index)
    return _Activity(program, replace(wanted, shared=frozenset(shared)), kernels).parts(width)


_DATA = ir.ListNew(out=ir.Var("data", ListT(FLOAT)), width=1, args=(), count=0, loc=NOWHERE)
_GIVEN = 0  # the allocation that stands for objects and lists with requested gradients


class _Activity(Inclusion):
    """Follows tensors, and floats that are read from them, to operations and records of kernels.

    A node is an operation, a result of a record, or a `Read` as a float; the last node is all data with requested
    gradients.
    """

    def __init__(self, program: ir.Program, wanted: RequestedValues, kernels: Sequence[KernelSpec] = ()) -> None:
        super().__init__(program)
        self.wanted = wanted
        self.kernels = kernels
        self.numbers = False
        self.what: list[tuple[ir.Op | ir.Emit | ir.Read, int]] = []  # per node, with the number of the result
        self.depends = [[depends(spec, j) for j in range(len(spec.results))] for spec in kernels]

    def _matters(self, v: ir.Var) -> bool:
        return isinstance(v.type, FloatT) or super()._matters(v)

    def fill(self) -> None:
        """Take in the whole program."""
        instrs = [i for f in self.program.functions for block in f.blocks for i in block.instrs]
        nodes = {id(i): i for i in instrs if isinstance(i, ir.Op | ir.Emit) or _reads_float(i)}
        self.what = [(i, j) for i in nodes.values() for j in range(len(writes(i)))]  # type: ignore[misc]
        leaf = len(self.what)
        self.nodes = [_NODE] * (leaf + 1)  # bits behind them are allocations
        self.leaf, self.data = 1 << leaf, 1 << (leaf + 1)
        self.made.append(_DATA)
        given = iter(self.program.functions[0].params)
        for k, t in enumerate(self.program.params):
            for _, v in zip(words(t), given, strict=False):
                if k in self.wanted.params:
                    self._give(v)
        number = 0
        for instr in instrs:
            if id(instr) in nodes:
                for v in writes(instr):
                    self.add(self.slot(v), 1 << number)
                    number += 1
            else:
                self._instruction(instr)
        self.solve()

    def _give(self, v: ir.Var) -> None:
        """Let a variable hold data with a requested gradient."""
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

    def held_by(self, a: ir.Var | ir.SharedArg) -> int:
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

    def _reached_from(self, v: ir.Var) -> int:
        """Return the nodes, as bits, whose results a variable holds, directly or through rows and lists."""
        inside: dict[int, list[int]] = {}
        for key, slot in self.slots.items():
            if isinstance(key, tuple):
                inside.setdefault(key[0], []).append(slot)
        mask, out = 2 * self.leaf - 1, self.sets[self.slots[v]] if v in self.slots else 0
        todo, seen = set(_bits(out >> len(self.nodes))), set()
        while todo:
            site = todo.pop()
            seen.add(site)
            held = self.leaf if site == _GIVEN else 0
            for slot in inside.get(site, ()):
                held |= self.sets[slot]
            todo |= set(_bits(held >> len(self.nodes))) - seen
            out |= held
        return out & mask

    def _sources(self, instr: ir.Op | ir.Emit | ir.Read, j: int) -> int:
        """Return the nodes that one depends on by derivatives; for a `Read`, by its value."""
        out = 0
        match instr:
            case ir.Read():
                return self.held_by(instr.tensor)
            case ir.Op():
                if not isinstance(instr.out.type, TensorT) or not instr.out.type.dtype.startswith("float"):
                    return 0
                for k, a in enumerate(instr.args):
                    out |= self.held_by(a) if differentiable(instr.op, k, instr.attrs) else 0
            case ir.Emit():
                for v in self.depends[instr.kernel][j]:
                    out |= self._operand(instr, v)
        return out

    def _operand(self, instr: ir.Emit, v: int) -> int:
        o = self.kernels[instr.kernel].operands[v]
        if o.kind not in ("shared", "tensor", "list"):
            return 0  # a number of Python has no adjoint, also one that was read from a tensor
        return self.held_by(ir.SharedArg(o.index) if o.kind == "shared" else instr.args[o.index])

    def _closed(self, width: int | None) -> tuple[int, int]:
        """Return two sets of nodes, as bits: active ones, and those that the loss depends on. Reads end both."""
        self.fill()
        sources = [self._sources(*one) for one in self.what]
        reads = sum(1 << k for k, (i, _) in enumerate(self.what) if isinstance(i, ir.Read))
        on, before = self.leaf, -1
        while on != before:
            before = on
            for k, bits in enumerate(sources):
                if bits & on & ~reads:
                    on |= 1 << k
        needed, todo = 0, 0
        for block in self.program.functions[0].blocks:
            if isinstance(block.end, ir.Return):
                for v in block.end.args[:width]:
                    todo |= self._reached_from(v)
        if width is None:
            todo &= ~reads
        while todo:
            k = todo.bit_length() - 1
            todo &= ~(1 << k)
            needed |= 1 << k
            if k < len(sources) and not reads >> k & 1:
                todo |= sources[k] & ~needed
        return on, needed

    def solved(self, width: int | None) -> Active:
        on, needed = self._closed(width)
        ops = [k for k, (i, _) in enumerate(self.what) if isinstance(i, ir.Op)]
        reads = {k: i for k, (i, _) in enumerate(self.what) if isinstance(i, ir.Read)}
        dead = [i for k in ops if not on >> k & 1 and isinstance(i := self.what[k][0], ir.Op)]
        read = sum(1 << k for k in reads)
        return Active(
            ends=tuple(i for i in dead if any(self.held_by(a) & on & ~read for a in i.args if _is_tensor(a))),
            ops=frozenset(n for n, k in enumerate(ops) if on >> k & 1),
            needed=frozenset(n for n, k in enumerate(ops) if needed >> k & 1),
            stops=tuple(r for k, r in reads.items() if on >> k & 1),
            lost=tuple(r for k, r in reads.items() if on & needed & 1 << k),
            unseen=self._unseen(on, needed, ~read),
            constant=self._constant(on),
        )

    def _unseen(self, on: int, needed: int, mask: int) -> tuple[ir.Op, ...]:
        """Return the writes of active values through detached names through which the loss reads."""
        stops = [(k, i, name) for k, (i, _) in enumerate(self.what) if isinstance(i, ir.Op) and (name := _name(i))]
        if not stops:
            return ()
        written = [(i, -name, self.held_by(i.args[0]) & mask) for _, i, name in stops if name < 0]
        read = {k: _union(bits for _, name, bits in written if name == of) for k, _, of in stops if of > 0}
        sources = [read.get(k, 0) or self._sources(*one) for k, one in enumerate(self.what)]
        before = -1
        while on != before:
            before = on
            for k, bits in enumerate(sources):
                if bits & on & mask:
                    on |= 1 << k
        found = {of for k, _, of in stops if of > 0 and on & needed & 1 << k}
        return tuple(i for i, name, bits in written if name in found and bits & on)

    def _constant(self, on: int) -> frozenset[int]:
        """Return the words of the result that hold nothing but results of nodes that are not active."""
        found: dict[int, bool] = {}
        for block in self.program.functions[0].blocks:
            for k, v in enumerate(block.end.args if isinstance(block.end, ir.Return) else ()):
                of = self._reached_from(v)
                found[k] = found.get(k, True) and of != 0 and not of & on
        return frozenset(k for k, constant in found.items() if constant)

    def parts(self, width: int | None) -> tuple[ActiveOperands, ...]:
        on, needed = self._closed(width)
        wanted: list[set[int]] = [set() for _ in self.kernels]
        results: list[set[int]] = [set() for _ in self.kernels]
        computed: list[set[int]] = [set() for _ in self.kernels]
        for k, (instr, j) in enumerate(self.what):
            if isinstance(instr, ir.Emit) and on & needed & 1 << k:
                results[instr.kernel].add(j)
                for v in self.depends[instr.kernel][j]:
                    of = self._operand(instr, v) & on
                    if of:
                        wanted[instr.kernel].add(v)
                    if of & ~self.leaf or self.wanted.params or self.wanted.packed:
                        computed[instr.kernel].add(v)
        return tuple(
            ActiveOperands(wanted=frozenset(w), results=frozenset(r), shared=frozenset(w - c))
            for w, r, c in zip(wanted, results, computed, strict=True)
        )


def _is_tensor(a: ir.Var | ir.SharedArg) -> bool:
    return isinstance(a, ir.SharedArg) or isinstance(a.type, TensorT)


def _name(op: ir.Op) -> int:
    """Return the detached name of an array that is read through or, if negative, written through; 0: none."""
    name = op.attrs[1] if op.op == "scale_gradient" and len(op.attrs) > 1 else 0
    return name if isinstance(name, int) else 0


def _union(sets: Iterable[int]) -> int:
    return reduce(or_, sets, 0)


def _reads_float(instr: ir.Instr) -> bool:
    return isinstance(instr, ir.Read) and isinstance(instr.out.type, FloatT)


_NODE = ir.Op(
    out=ir.Var("node", TensorT("float32", ())), op="const", args=(), attrs=(0.0,), shape=(), site=-1, loc=NOWHERE
)


def _bits(number: int) -> list[int]:
    out = []
    while number:
        out.append((number & -number).bit_length() - 1)
        number &= number - 1
    return out
