"""Base of the writers of the machine's code.

In: the `Program`. Out: a `Writer`, which holds the blocks written so far. It knows the registers and the table of
`state`, the local of each variable, and how to leave and re-enter a block and to fail an instance.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

from acronumba.data.hashing import hash_count
from acronumba.data.words import RECORD
from acronumba.emit import tree
from acronumba.emit.tree import F64, I1, I64, Builder, Expr, Local, convert, load
from acronumba.host.segments import Segment
from acronumba.ir.nodes import Program, Scalar, Var
from acronumba.ir.types import BoolT, FloatT, Type, Word
from acronumba.runtime import state
from acronumba.runtime.state import AT


class Maker(NamedTuple):
    """The kernel whose nodes compute a tensor."""

    kernel: int
    result: int  # number of the tensor among its results
    leaf: bool  # whether it reads no results of nodes


class Writer:
    """Writes code of the host program: registers, variables of functions, blocks, and returns to the caller."""

    REGISTERS = ("fp", "inst", "n", "nroom", "top", "fuel")
    FIXED = ("end", "kind", "depth", "instance", "row", "shapes")

    def __init__(
        self,
        program: Program,
        equal: frozenset[int] = frozenset(),
        doubles: bool = False,
        groups: int = 0,
        noting: bool = False,
    ) -> None:
        self.program = program
        self.equal = equal  # kernels whose equal nodes are recorded once
        self.doubles = doubles  # whether a node that is equal to another is recorded, too, to be compared with it
        self.groups = groups  # of nodes, by kernel, whose places are recorded; 0: they are not
        self.noting = noting and groups > 0  # whether it is noted which place reads a result last
        self.layouts = {layout.cls: (k, layout) for k, layout in enumerate(program.layouts)}
        self.numbers = itertools.count(state.LEAVE + 1)  # of blocks
        self.shapes: list[int] = []
        self.shape_at: dict[tuple[int, ...], int] = {}
        self.types: dict[int, tuple[Word, ...]] = {}
        self.locals: dict[Var, Local] = {}
        self.constants: dict[Var, Expr] = {}
        self.heads: dict[Var, Local] = {}  # of the value records of tensors that this segment has read or computed
        self.makers: dict[Var, Maker] = {}  # of the tensors that this segment has computed
        self.blocks: list[tuple[int, str, tree.Body]] = []
        self.entries = {state.SCHEDULER}
        self.reloads: dict[Segment, int] = {}
        self.helpers: dict[str, tree.Function] = {}
        self.hashes: dict[Type, str] = {}  # names of functions that compute hashes, see `host.sets`
        self.hash_types: dict[Type, int] = {}  # constants and enumerations, with the place of their hashes in a table
        b = self.b = Builder("machine", [("ST", I64)], result=I64, doc="Run the instances; see `acronumba.host`.")
        self.st = b["ST"]
        self.reg: dict[str, Local] = {}

    def word(self, name: str) -> Expr:
        return load(self.st, AT[name])

    def look(self, kernel: int) -> Expr:
        """Return the number of recorded nodes from which on equal nodes of a kernel are searched for."""
        return load(self.st, AT["free"] + len(self.program.functions) + kernel)

    def put(self, name: str, value: Expr | int) -> None:
        self.b.store(self.st, AT[name], value)

    def leave(self, status: Expr | int, need: Expr | int, back: int) -> None:
        """Return to the caller, which resumes at block `back`."""
        b = self.b
        self.put("status", status)
        self.put("need", need)
        self.put("pc", back)
        b.goto(state.LEAVE)

    @staticmethod
    def read_word(base: Expr, index: Expr | int, word: Word) -> Expr:
        if isinstance(word, FloatT):
            return load(base, index, F64)
        value = load(base, index)
        return value.ne(0) if isinstance(word, BoolT) else value

    def write_word(self, base: Expr, index: Expr | int, value: Expr) -> None:
        self.b.store(base, index, convert(value, I64, "unsigned") if value.type == I1 else value)

    def __getitem__(self, v: Var) -> Expr:
        known = self.constants.get(v)
        return self.locals[v] if known is None else known

    def head(self, v: Var) -> Local:
        """Return the head of a tensor's value record."""
        if v not in self.heads:
            self.heads[v] = self.b.let("head", load(self[v], RECORD.at["head"]))
        return self.heads[v]

    def forget_heads(self) -> None:
        """Begin a segment, which other segments may precede."""
        self.heads.clear()
        self.makers.clear()

    def assign(self, v: Var, value: Expr) -> None:
        self.heads.pop(v, None)
        self.makers.pop(v, None)
        self.b.set(self.locals[v], value)

    def reload(self, segment: Segment) -> None:
        for v in segment.live:
            self.assign(v, self.read_word(self.reg["fp"], segment.frame.slots[v], v.type))

    def spill(self, segment: Segment) -> int:
        """Save the variables that are live at the start of the segment; return the block that reloads them."""
        if segment.resumes is not None:
            return segment.number
        assert segment.clean is not None
        for v in segment.live:
            if v not in segment.clean:
                self.write_word(self.reg["fp"], segment.frame.slots[v], self[v])
        if segment not in self.reloads:
            number = self.reloads[segment] = next(self.numbers)
            with self.b.nested() as body:
                self.reload(segment)
                self.b.goto(segment.number)
            self.blocks.append((number, f"{segment.frame.function.name}: go on at {segment.number}", body))
            self.entries.add(number)
        return self.reloads[segment]

    def room(self, segment: Segment, size: Expr) -> None:
        """Return to the caller unless the chunk has `size` more bytes."""
        b, reg = self.b, self.reg
        with b.when(size > reg["end"] - reg["top"]):
            self.leave(state.GROW_HEAP, size, self.spill(segment))

    def fail(self, site: int, args: tuple[Var, ...]) -> None:
        b = self.b
        self.types.setdefault(site, tuple(v.type for v in args))
        record = b.let("record", self.word("etop"))
        b.store(record, 0, self.reg["inst"])
        b.store(record, 1, site)
        b.store(record, 2, self.reg["fp"])
        for k, v in enumerate(args):
            self.write_word(record, 3 + k, self[v])
        b.goto(state.FAILED)

    def unless(self, bad: Expr, instr: Scalar) -> None:
        """Fail where `bad` holds."""
        with self.b.when(bad):
            self.fail(instr.site, instr.args[:2])

    def shape(self, shape: tuple[int, ...]) -> int:
        """Return the offset of a shape in the table of constant shapes."""
        if shape not in self.shape_at:
            self.shape_at[shape] = len(self.shapes)
            self.shapes += shape
        return self.shape_at[shape]

    def hashed(self, t: Type) -> int:
        """Return the place of the hash of a constant, or of those of the members of an enumeration."""
        return self.hash_types.setdefault(t, 2 + sum(map(hash_count, self.hash_types)))

    def helper(self, name: str, text: str) -> None:
        if name not in self.helpers:
            from acronumba.emit.parse import parse

            for function in parse(text, functions=tuple(self.helpers.values())):
                self.helpers[function.name] = function
