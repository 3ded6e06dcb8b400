"""Hoisting: separates operations of a basic block that must not share a kernel.

In: the `Flow` of a program. Out: a number for each operation: only operations of one block and one number become one
kernel. No code moves. A product that does not depend on loop-carried values stays in its block, but as a separate
kernel: its nodes do not wait for each other, and all steps of all instances are one batch (a separate phase, see
`runtime.library.schedule`). In the kernel of the step it would wait for the step before. The same holds for operations
after the loop-carried ones, such as the classifier of each state, which feeds nothing back.

An operation that is split off costs a node, and the storing and reloading of values that would stay in registers
(`cost`). A product is worth that: it reads its matrix once for all steps and not once per step, which dominates the
time of a step of few rows, and does k multiplications for each element it stores. So is every operation that takes
`Strategy.split_worth` times as long as it costs. Element-wise operations alone are not: they stay with the products
that they lead to or come from, on the side of the split where less is stored.

If each step waits for the value of a tensor, the steps are not recorded together, and one kernel is best.

An operation on the path from one cycle to another of the same block stays with them, such as the product between the
two cells of a stacked RNN: split off, the cells would run one after the other, in twice as many batches.

The numbers. Split as little as possible: with all operations of a block together, an operation that is worth it and
in no cycle of operations (`value_flow.in_cycles`) may be in a cycle of kernels; only these operations are set free.
Numbers grow along all paths, from an operation that a cycle needs, to a step of the cycle, to an operation that reads
it: even for free operations, odd for carried ones. Then every cycle of kernels has one number, and it is odd.
Neighbouring kernels of a block are merged again if that puts no free operation in a cycle.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from acronumba.analysis.value_flow import Flow, components, in_cycles
from acronumba.analysis.waits import waiting_functions
from acronumba.ir.graph import dominators, loops, successors
from acronumba.ir.nodes import Call, Op, Program, Read, SharedArg, Var
from acronumba.ir.notes import Note
from acronumba.ir.ops import TENSORS
from acronumba.ir.types import ListT, TensorT
from acronumba.ir.visit import reads
from acronumba.records import record
from acronumba.strategy import DEFAULT, Strategy

UNKNOWN = 16  # stands for a run-time extent
SLOW = 5  # `TensorOp.cost` of a function from which on it takes as long as exp, about


def work(op: Op, s: Strategy) -> float:
    """Estimate the nanoseconds that an operation takes."""
    kind = TENSORS[op.op].kind
    if kind == "product":
        inner = next((_elements(_shape(a)[-1:]) for a in op.args if isinstance(a, Var)), UNKNOWN)
        return s.split_multiply * inner * _elements(_shape(op.out))
    if TENSORS[op.op].folds:
        return s.split_element * max((_elements(_shape(a)) for a in op.args if isinstance(a, Var)), default=0)
    return (s.split_function if TENSORS[op.op].cost >= SLOW else s.split_element) * _elements(_shape(op.out))


def cost(op: Op, s: Strategy) -> float:
    """Estimate the nanoseconds that it costs to make an operation's result the result of a separate kernel."""
    return s.split_node + s.split_byte * stored(op)


def stored(op: Op) -> int:
    """Estimate the bytes of the result."""
    assert isinstance(op.out.type, TensorT)
    return _elements(op.out.type.shape) * np.dtype(op.out.type.dtype).itemsize


def is_worth(op: Op, s: Strategy) -> bool:
    """Whether an operation may be worth a separate kernel."""
    return TENSORS[op.op].kind == "product" or work(op, s) >= s.split_worth * cost(op, s)


def _shape(v: Var) -> tuple[int | None, ...]:
    match v.type:
        case TensorT():
            return v.type.shape
        case ListT(item=TensorT() as item):
            return (None, *item.shape)
    return ()


def _elements(shape: Sequence[int | None]) -> int:
    return math.prod(UNKNOWN if n is None else n for n in shape)


@record(kw_only=True)
class Split:
    """Decisions of `split`."""

    numbers: Mapping[int, int]  # `id` of an operation -> its number; default: 0
    again: frozenset[int]  # `id`s of operations that every kernel computes which reads them
    free: tuple[tuple[Op, bool], ...]  # operations set free, and whether each comes after a cycle

    def notes(self) -> tuple[Note, ...]:
        """Return a note for each hoisted operation."""
        out: dict[Note, None] = {}
        for op, after in self.free:
            if after:
                text = "no later step depends on it: separate kernel, one batch for all steps"
            else:
                text = "does not depend on earlier steps: separate kernel, one batch for all steps"
            out[Note(loc=op.loc, kind="hoisted", text=text, option="hoist")] = None
        return tuple(out)


NO_SPLIT = Split(numbers={}, again=frozenset(), free=())


def split(program: Program, flow: Flow, strategy: Strategy = DEFAULT) -> Split:
    """Split the operations of blocks into kernels so that no free operation waits for a cycle."""
    return _Numbers(program, flow, strategy).run()


class _Numbers:
    """Finds the numbers of all operations."""

    def __init__(self, program: Program, flow: Flow, strategy: Strategy) -> None:
        self.flow = flow
        self.ops = [op for op in flow.nodes if isinstance(op, Op)]
        assert len(self.ops) == len(flow.nodes)
        self.operands = [flow.operands(k) for k in range(len(self.ops))]
        self.parts = components(self.operands)
        self.cycle = in_cycles(self.operands)
        self.fixed: list[bool] = []  # computed from shared tensors alone, by whoever reads it
        made: set[Var] = set()
        for op in self.ops:
            self.fixed.append(op.site < 0 and all(isinstance(a, SharedArg) or a in made for a in op.args))
            if self.fixed[-1]:
                made.add(op.out)
        self.ahead, self.behind = self.reached()
        self.steps: dict[tuple[int, int], int] = defaultdict(int)  # the cycles that have operations in each block
        for k, c in enumerate(self.cycle):
            if c >= 0:
                self.steps[flow.places[k]] |= 1 << c
        waiting = _waiting_steps(program)
        self.heavy = [
            k
            for k, op in enumerate(self.ops)
            if self.cycle[k] < 0 and not self.fixed[k] and is_worth(op, strategy) and not self.between(k)
            if flow.places[k] not in waiting and strategy.takes("hoisted", op.loc)
        ]
        self.near: list[list[int]] = [[] for _ in self.ops]  # who reads it in the same run of the block
        self.kept = [False] * len(self.ops)  # stored whatever the numbers are
        for k in range(len(self.ops)):
            for u in flow.near[k]:
                self.near[u].append(k)
            for u in flow.far[k]:
                self.kept[u] = True
        others = {
            v
            for f in program.functions
            for b in f.blocks
            for i in (*b.instrs, b.end)
            if not isinstance(i, Op)
            for v in reads(i)
        }
        for k, op in enumerate(self.ops):
            self.kept[k] |= op.out in others

    def reached(self) -> tuple[list[int], list[int]]:
        """Return for each operation two sets of cycles, as bits: those it depends on, and those that depend on it."""
        ahead, behind = [0] * len(self.ops), [0] * len(self.ops)
        for part in self.parts:
            own = 1 << self.cycle[part[0]] if self.cycle[part[0]] >= 0 else 0
            for u in {u for k in part for u in self.operands[k]}:
                own |= ahead[u]
            for k in part:
                ahead[k] = own
        for part in reversed(self.parts):
            own = 1 << self.cycle[part[0]] if self.cycle[part[0]] >= 0 else 0
            for k in part:
                own |= behind[k]
            for k in part:
                behind[k] = own
                for u in self.operands[k]:
                    behind[u] |= own
        return ahead, behind

    def between(self, k: int) -> bool:
        """Whether the operation leads from one cycle to another of the same block."""
        return any(self.ahead[k] & c and self.behind[k] & c for c in self.steps.values())

    def run(self) -> Split:
        numbers = [0] * len(self.ops)
        free: set[int] = set()
        apart = False
        while bad := self.caught(numbers):
            if bad <= free and apart:
                break
            apart = bad <= free
            free |= bad
            numbers = self.levels(free, apart)
        if not free:
            return NO_SPLIT
        self.settle(numbers)
        self.merge(numbers, self.caught(numbers))
        free -= self.caught(numbers)
        return Split(
            numbers={id(op): numbers[k] for k, op in enumerate(self.ops) if numbers[k]},
            again=frozenset(id(self.ops[k]) for k in self.again(numbers)),
            free=tuple((self.ops[k], self.ahead[k] != 0) for k in sorted(free)),
        )

    def caught(self, numbers: Sequence[int]) -> set[int]:
        """Return the operations that are worth a kernel and are in a cycle of kernels, but in none of operations."""
        graph, group = self.groups(numbers)
        cycle = in_cycles(graph.operands())
        return {k for k in self.heavy if cycle[group[k]] >= 0}

    def levels(self, free: set[int], apart: bool) -> list[int]:
        """Return numbers that grow along all paths: even for free operations, odd for carried ones.

        With `apart`, they also grow from one run of a block to the next where nothing is carried: for a value that the
        next step reads and does not pass on.
        """
        out = [0] * len(self.ops)
        for part in self.parts:
            inside = set(part)
            least = 0
            for k in part:
                for u in self.operands[k] - inside:
                    step = 2 if apart and u in self.flow.far[k] and out[u] % 2 == 0 else 0
                    least = max(least, out[u] + step)
            carried = self.cycle[part[0]] >= 0
            if carried:
                least += least % 2 == 0
            elif part[0] in free:
                least += least % 2
            for k in part:
                out[k] = least
        return out

    def settle(self, numbers: list[int]) -> None:
        """Give operations that are neither carried nor worth a kernel their readers' numbers, if less is stored."""
        heavy = set(self.heavy)
        for k in reversed(range(len(self.ops))):
            if self.cycle[k] >= 0 or k in heavy or self.kept[k] or not self.near[k]:
                continue
            to = min(numbers[r] for r in self.near[k])
            if to <= numbers[k]:
                continue
            together = [k]
            sources = [u for u in self.flow.near[k] if not self.fixed[u]]
            if TENSORS[self.ops[k].op].moves and len(sources) == 1:
                together = [r for r in self.near[sources[0]] if self.moves(r, numbers)]
            new = {
                u
                for r in together
                for u in self.flow.near[r]
                if not self.fixed[u] and not self.kept[u] and all(numbers[x] <= numbers[u] for x in self.near[u])
            }
            more = sum(stored(self.ops[u]) for u in new) - sum(stored(self.ops[r]) for r in together)
            if more < 0 or (more == 0 and (numbers[k] % 2 or len(together) > 1)):
                numbers[k] = to

    def moves(self, k: int, numbers: Sequence[int]) -> bool:
        """Whether an operation that only moves elements is read by later kernels alone."""
        return (
            TENSORS[self.ops[k].op].moves
            and self.cycle[k] < 0
            and not self.kept[k]
            and bool(self.near[k])
            and min(numbers[r] for r in self.near[k]) > numbers[k]
        )

    def again(self, numbers: Sequence[int]) -> set[int]:
        """Return the views that another kernel multiplies by: their layout decides the order of summation."""
        out: set[int] = set()
        work = [
            (k, u)
            for k, op in enumerate(self.ops)
            if TENSORS[op.op].kind == "product" and not any(isinstance(a, SharedArg) for a in op.args)
            for u in self.flow.near[k]
        ]
        while work:
            k, u = work.pop()
            if TENSORS[self.ops[u].op].moves and not self.fixed[u]:
                if numbers[u] != numbers[k]:
                    out.add(u)
                work += [(k, x) for x in self.flow.near[u]]
        return out

    def merge(self, numbers: list[int], already: set[int]) -> None:
        """Merge neighbours in a block if that puts no free operation in a cycle, except operations of `already`."""
        graph, group = self.groups(numbers)
        for k in self.heavy:
            graph.heavy[group[k]] |= k not in already
        blocks: dict[tuple[int, int], dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for k, place in enumerate(self.flow.places):
            blocks[place][numbers[k]].append(k)
        for members in blocks.values():
            for low, high in itertools.pairwise(sorted(members)):
                if graph.merge(group[members[low][0]], group[members[high][0]]):
                    for k in members[low]:
                        numbers[k], group[k] = high, group[members[high][0]]
                    members[high] += members[low]

    def groups(self, numbers: Sequence[int]) -> tuple[_Groups, list[int]]:
        """Return the graph of the kernels that the numbers stand for, and the kernel of each operation."""
        of: dict[tuple[tuple[int, int], int], int] = {}
        group = [of.setdefault((place, numbers[k]), len(of)) for k, place in enumerate(self.flow.places)]
        graph = _Groups(len(of))
        for k, g in enumerate(group):
            if not self.fixed[k]:
                for u in self.flow.far[k]:
                    if not self.fixed[u]:
                        graph.far[g].add(group[u])
                for u in self.flow.near[k]:
                    if group[u] != g and not self.fixed[u]:
                        graph.near[g].add(group[u])
        return graph, group


def _waiting_steps(program: Program) -> set[tuple[int, int]]:
    """Return the blocks (function, number) of the loops of which each step may wait, in all that they run."""
    waiting = waiting_functions(program)
    out: set[tuple[int, int]] = set()
    for number in waiting:
        blocks = program.functions[number].blocks
        waits = {
            k
            for k, b in enumerate(blocks)
            if any(isinstance(i, Read) or (isinstance(i, Call) and i.function in waiting) for i in b.instrs)
        }
        over = dominators(blocks)
        for head, body in loops(blocks).items():
            ends = [k for k in body if head in successors(blocks[k].end)]
            if any(all(w in over[k] for k in ends) for w in waits & body):
                out |= {(number, k) for k in body}
    return out


class _Groups:
    """Kernels, and which feed which; two of one block can be made one."""

    def __init__(self, count: int) -> None:
        self.near: list[set[int]] = [set() for _ in range(count)]  # read in the same run of the block
        self.far: list[set[int]] = [set() for _ in range(count)]  # read in another: may be the kernel itself
        self.heavy = [False] * count  # whether it holds something that must be in no cycle

    def operands(self) -> list[set[int]]:
        return [a | b for a, b in zip(self.near, self.far, strict=True)]

    def merge(self, low: int, high: int) -> bool:
        """Merge `low` into `high`, unless that puts a heavy kernel in a cycle; return whether it was done."""
        both = {low, high}
        first = (self.near[low] | self.near[high]) - both | self.far[low] | self.far[high]
        reached = self._reach(first, self.operands())
        if both & reached:
            readers: list[set[int]] = [set() for _ in self.near]
            for g, sources in enumerate(self.operands()):
                for u in sources:
                    readers[u].add(g)
            cycle = reached & (self._reach(both, readers) | both) | both
            if any(self.heavy[g] for g in cycle):
                return False
        self.near[high] = (self.near[low] | self.near[high]) - both
        self.far[high] |= self.far[low]
        self.heavy[high] |= self.heavy[low]
        self.near[low], self.far[low], self.heavy[low] = set(), set(), False
        for sources in (*self.near, *self.far):
            if low in sources:
                sources.remove(low)
                sources.add(high)
        return True

    @staticmethod
    def _reach(start: set[int], graph: Sequence[set[int]]) -> set[int]:
        """Return the kernels that can be reached from some kernels, these included."""
        out: set[int] = set()
        work = list(start)
        while work:
            g = work.pop()
            if g not in out:
                out.add(g)
                work += graph[g]
        return out
