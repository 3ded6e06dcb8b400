"""Sharing (taint): which operands are the same tensor for all instances of a mini-batch.

In: a typed `Program`, before its operations are grouped. Out: the program in which every operand that was proved to
be one shared tensor is a `SharedArg` (`share`), and what was found, as text and notes. The front end knows shared
tensors as long as they are values of its own; it loses them where they travel through rows, lists, and the results
of functions. Here they are found again, by one fact for each variable of each context:

    nothing                 no value reaches the variable
    shared k                the tensor (or number) `Program.shared[k]`
    choice of k, l, ...     one of several shared tensors: which one is known at run time only
    row of k, l, ...        a row of one of these shared tables
    varying                 anything
    objects                 rows and lists: the places in the program that make them

The facts of a place's fields and elements are those of all that is ever put there (elements of a list at a constant
index are told apart while the list only grows). A context of a function is the facts of its arguments: contexts that
agree in them are analysed once, so a chain of calls of any length, and mutual recursion, keep what they were given.
Source: value contexts (Sharir & Pnueli 1981, "functional approach"; Padhye & Khedker, SOAP 2013), which contain the
1-call-site sensitivity of ACRoBat (arXiv 2305.10611, section 5); places as in Andersen's points-to analysis (1994).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from acronumba.config import COPIES, Options
from acronumba.ir.graph import definitions
from acronumba.ir.nodes import (
    Block,
    Call,
    Check,
    Const,
    Copy,
    ExtentOf,
    Function,
    Instr,
    Join,
    ListNew,
    ListOp,
    Load,
    New,
    Op,
    Program,
    Return,
    Scalar,
    Shared,
    SharedArg,
    Site,
    Spawn,
    Var,
)
from acronumba.ir.notes import Note
from acronumba.ir.ops import TENSORS
from acronumba.ir.types import BOOL, ListT, RefT, TensorT, Word, words
from acronumba.ir.visit import Names, writes

CONTEXTS = 64  # of a function; those beyond are analysed as one


@dataclass(frozen=True, slots=True)
class Fact:
    """What is known of a variable's value; see the module's text."""

    kind: str  # "nothing" | "shared" | "choice" | "row" | "varying" | "objects"
    which: frozenset[int] = frozenset()  # entries of `Program.shared`; of "objects": places
    listed: bool = False  # of "choice" and "objects": they are elements of one list

    @property
    def label(self) -> str:
        """What it means for an operand: "shared", "row" (of a shared table, or element of a shared list), "varying"."""
        if self.kind == "choice":
            return "row" if self.listed else "varying"
        return self.kind if self.kind in ("shared", "row") else "varying"


NOTHING, VARYING = Fact("nothing"), Fact("varying")
DATA = -1  # the place of instances and of packed shared objects
OUTSIDE = Fact("objects", frozenset((DATA,)))


def join(a: Fact, b: Fact, listed: bool = False) -> Fact:
    """Return what holds of both: of two tensors that meet in a variable, or (`listed`) in the elements of a list."""
    if a == b or b.kind == "nothing":
        return a
    if a.kind == "nothing":
        return b
    kinds = {a.kind, b.kind}
    if kinds == {"row"}:
        return Fact("row", a.which | b.which)
    if kinds <= {"shared", "choice"} or kinds == {"objects"}:
        which = a.which | b.which
        # A smaller choice may be an earlier finding about the same list.
        whole = [f.listed for f in (a, b) if f.which == which]
        return Fact("objects" if kinds == {"objects"} else "choice", which, all(whole) if whole else listed)
    return VARYING


def outside(word: Word, escaped: Iterable[int] = ()) -> Fact:
    """Return what is known of a word of instance data."""
    return Fact("objects", frozenset((DATA, *escaped))) if isinstance(word, RefT | ListT) else VARYING


@dataclass(slots=True)
class _List:
    """The lists made at one place; one fact per word of an element."""

    width: int
    items: list[list[Fact]] = field(default_factory=list)  # the first elements, as long as none moves
    tail: list[Fact] = field(default_factory=list)  # what is appended
    anywhere: list[Fact] = field(default_factory=list)
    moved: bool = False  # elements have other indices than at first

    def at(self, index: int | None) -> list[Fact]:
        """Return what may be at a constant index, or anywhere."""
        if index is None or self.moved:
            parts = [*self.items, self.tail, self.anywhere]
        else:
            parts = [self.items[index] if index < len(self.items) else self.tail, self.anywhere]
        out = [NOTHING] * self.width
        for part in parts:
            out = [join(a, b, listed=True) for a, b in zip(out, part, strict=True)]
        return out


Context: TypeAlias = tuple[int, tuple[Fact, ...] | None]  # number of the function, facts of its arguments; None: others


class Sharing:
    """The facts of a program, found by going round until nothing changes.

    Attributes
    ----------
    facts : dict of Context to dict of Var to Fact
        Of the contexts that occur; variables that are missing hold nothing.
    calls : dict of Context to dict of int to Context
        What each call leads to, by the identity of the instruction.
    """

    def __init__(self, program: Program) -> None:
        self.program = program
        self.facts: dict[Context, dict[Var, Fact]] = {}
        self.results: dict[Context, list[Fact]] = {}
        self.calls: dict[Context, dict[int, Context]] = defaultdict(dict)
        self.rows: dict[int, list[Fact]] = {}
        self.lists: dict[int, _List] = {}
        self.classes: dict[int, type] = {}
        self.escaped: set[int] = set()  # places whose objects were put into lists of the data
        self.places: dict[int, int] = {}  # by the identity of the instruction that makes objects
        self.changed = False
        self.constants: dict[int, Mapping[Var, Instr]] = {}
        self.number: dict[int, int] = defaultdict(int)  # contexts of each function
        self.offsets = {(s.cls, f.name): f.offset - 1 for s in program.layouts for f in s.fields}
        entry = program.functions[0]
        self.entry = self._context(0, tuple(outside(v.type) for v in entry.params))
        while True:
            self.changed = False
            for context in list(self.facts):
                self._function(context)
            if not self.changed:
                break
        self._keep_reached()

    # ---- contexts

    def _context(self, function: int, given: tuple[Fact, ...]) -> Context:
        key: Context = (function, given)
        params = self.program.functions[function].params
        if key not in self.facts:
            if self.number[function] >= CONTEXTS:
                key = (function, None)
            if key not in self.facts:
                self.number[function] += 1
                self.facts[key] = dict.fromkeys(params, NOTHING)
                self.results[key] = [NOTHING] * len(self.program.functions[function].results)
                self.changed = True
        for v, fact in zip(params, given, strict=True):
            self._meet(self.facts[key], v, fact)
        return key

    def _keep_reached(self) -> None:
        """Forget contexts of arguments of which more became known later."""
        seen, work = {self.entry}, [self.entry]
        while work:
            for to in self.calls[work.pop()].values():
                if to not in seen:
                    seen.add(to)
                    work.append(to)
        self.facts = {c: f for c, f in self.facts.items() if c in seen}

    def contexts(self, function: int) -> list[Context]:
        """Return the contexts of a function, in the order in which they were found."""
        return [c for c in self.facts if c[0] == function]

    def fact(self, contexts: Sequence[Context], v: Var) -> Fact:
        """Return what holds of a variable in several contexts."""
        out = NOTHING
        for c in contexts:
            out = join(out, self.facts[c].get(v, NOTHING))
        return out

    # ---- one rule per instruction

    def _meet(self, facts: dict[Var, Fact], v: Var, fact: Fact, listed: bool = False) -> None:
        old = facts.get(v, NOTHING)
        new = join(old, fact, listed)
        if new != old:
            facts[v] = new
            self.changed = True

    def _put(self, facts: list[Fact], given: Sequence[Fact], listed: bool = False) -> None:
        for k, fact in enumerate(given):
            new = join(facts[k], fact, listed)
            if new != facts[k]:
                facts[k] = new
                self.changed = True

    def _function(self, context: Context) -> None:
        number, _ = context
        function = self.program.functions[number]
        if number not in self.constants:
            single = definitions(function)
            self.constants[number] = {v: i for v, i in single.items() if isinstance(i, Const)}
        facts = self.facts[context]
        for block in function.blocks:
            for instr in block.instrs:
                self._instruction(context, instr, facts)
            if isinstance(block.end, Return):
                self._put(self.results[context], [facts.get(v, NOTHING) for v in block.end.args])

    def _instruction(self, context: Context, instr: Instr, facts: dict[Var, Fact]) -> None:
        def of(v: Var) -> Fact:
            return facts.get(v, NOTHING)

        match instr:
            case Const():
                self._meet(facts, instr.out, NOTHING if instr.value is None else VARYING)
            case Copy():
                self._meet(facts, instr.out, of(instr.src))
            case Scalar() if instr.op == "select":
                self._meet(facts, instr.out, join(of(instr.args[1]), of(instr.args[2])))
            case Shared():
                kept = (
                    OUTSIDE if isinstance(instr.out.type, RefT | ListT) else Fact("shared", frozenset((instr.index,)))
                )
                self._meet(facts, instr.out, kept)
            case Op():
                self._meet(facts, instr.out, self._operation(instr, facts))
            case New():
                place = self._place(instr)
                self.classes[place] = instr.cls
                row = self.rows.setdefault(place, [NOTHING] * len(instr.args))
                self._put(row, [of(v) for v in instr.args])
                self._meet(facts, instr.out, Fact("objects", frozenset((place,))))
            case Load():
                first, rows = self.offsets[instr.cls, instr.field], of(instr.ref)
                for k, v in enumerate(instr.outs):
                    fact = NOTHING
                    for place in sorted(rows.which):
                        if place == DATA:
                            fact = join(fact, outside(v.type, self.escaped))
                        elif self.classes.get(place) is instr.cls:
                            fact = join(fact, self.rows[place][first + k], rows.listed)
                    self._meet(facts, v, fact)
            case ListNew():
                made = self._list(instr, instr.width)
                given = [of(v) for v in instr.args]
                for k in range(instr.count):
                    if k == len(made.items):
                        made.items.append([NOTHING] * instr.width)
                    self._put(made.items[k], given[k * instr.width : (k + 1) * instr.width])
                self._meet(facts, instr.out, Fact("objects", frozenset((self._place(instr),))))
            case ListOp():
                self._list_op(context, instr, facts)
            case Call():
                to = self._context(instr.function, tuple(of(v) for v in instr.args))
                self.calls[context][id(instr)] = to
                for v, fact in zip(instr.outs, self.results[to], strict=True):
                    self._meet(facts, v, fact)
            case Spawn():
                to = self._context(instr.function, tuple(of(v) for v in instr.args))
                self.calls[context][id(instr)] = to
                if instr.into is not None:
                    for place in sorted(of(instr.into[0]).which - {DATA}):
                        self._put(self.lists[place].anywhere, self.results[to], listed=True)
                for v, fact in zip(instr.outs, self.results[to], strict=False):
                    self._meet(facts, v, fact)
            case Join():
                pass  # its results are those of the calls
            case _:
                for v in writes(instr):
                    self._meet(facts, v, VARYING)

    def _place(self, instr: Instr) -> int:
        return self.places.setdefault(id(instr), len(self.places))

    def _list(self, instr: Instr, width: int) -> _List:
        place = self._place(instr)
        if place not in self.lists:
            self.lists[place] = _List(width, tail=[NOTHING] * width, anywhere=[NOTHING] * width)
        return self.lists[place]

    def _elements(self, v: Var, facts: Mapping[Var, Fact], types: Sequence[Word], index: int | None) -> list[Fact]:
        """Return what may be read from the lists that a variable holds."""
        out = [NOTHING] * len(types)
        for place in sorted(facts.get(v, NOTHING).which):
            part = [outside(w, self.escaped) for w in types] if place == DATA else self.lists[place].at(index)
            out = [join(a, b, listed=True) for a, b in zip(out, part, strict=True)]
        return out

    def _list_op(self, context: Context, instr: ListOp, facts: dict[Var, Fact]) -> None:
        def of(v: Var) -> Fact:
            return facts.get(v, NOTHING)

        def constant(v: Var) -> int | None:
            by = self.constants[context[0]].get(v)
            return by.value if isinstance(by, Const) and isinstance(by.value, int) else None

        def store(place: int, given: Sequence[Fact], to: str, index: int | None = None) -> None:
            if place == DATA:
                new = {p for f in given if f.kind == "objects" for p in f.which} - {DATA} - self.escaped
                self.escaped |= new
                self.changed |= bool(new)
                return
            lists = self.lists[place]
            if index is not None and index < len(lists.items):
                self._put(lists.items[index], given)
            else:
                self._put(lists.tail if to == "tail" else lists.anywhere, given, listed=True)

        held = sorted(of(instr.args[0]).which) if instr.op != "fill" else []
        match instr.op:
            case "get" | "pop":
                types = [v.type for v in instr.outs]
                index = constant(instr.args[1]) if instr.op == "get" else None
                for v, fact in zip(instr.outs, self._elements(instr.args[0], facts, types, index), strict=True):
                    self._meet(facts, v, fact)
            case "set":
                for place in held:
                    store(place, [of(v) for v in instr.args[2:]], "anywhere", constant(instr.args[1]))
            case "append":
                for place in held:
                    store(place, [of(v) for v in instr.args[1:]], "tail")
            case "insert":
                for place in held:
                    store(place, [of(v) for v in instr.args[2:]], "anywhere")
            case "extend":
                given = self._elements(instr.args[1], facts, _words(instr.args[1].type), None)
                for place in held:
                    store(place, given, "tail")
            case "slice" | "fill":
                made = self._list(instr, instr.width)
                if instr.op == "fill":
                    given = [of(v) for v in instr.args[1:]]
                else:
                    given = self._elements(instr.args[0], facts, _words(instr.args[0].type), None)
                self._put(made.anywhere, given, listed=True)
                self._meet(facts, instr.outs[0], Fact("objects", frozenset((self._place(instr),))))
            case "len":
                self._meet(facts, instr.outs[0], VARYING)
        if instr.op in ("pop", "insert", "sort"):
            for place in held:
                if place != DATA and not self.lists[place].moved:
                    self.lists[place].moved = True
                    self.changed = True

    def operand(self, facts: Mapping[Var, Fact], a: Var | SharedArg) -> Fact:
        """Return what is known of an operand."""
        return Fact("shared", frozenset((a.index,))) if isinstance(a, SharedArg) else facts.get(a, NOTHING)

    def _operation(self, op: Op, facts: Mapping[Var, Fact]) -> Fact:
        if op.op == "take" and op.args:
            table = self.operand(facts, op.args[0])
            if table.kind in ("shared", "choice", "row", "nothing"):
                return Fact("row", table.which) if table.kind != "nothing" else NOTHING
        return VARYING


def _words(word: Word) -> tuple[Word, ...]:
    """Return the words of an element of a list."""
    assert isinstance(word, ListT)
    return words(word.item)


def matrices(function: Function) -> set[tuple[int, int]]:
    """Return the matrices that a product reads, itself or through views, by operation (identity) and place."""
    single = definitions(function)
    out: set[tuple[int, int]] = set()
    work = [op for b in function.blocks for op in b.instrs if isinstance(op, Op) and op.op == "matmul"]
    seen = {id(op) for op in work}
    while work:
        op = work.pop()
        every = op.op in ("matmul", "concat")
        for k, a in enumerate(op.args if every else op.args[:1]):
            by = single.get(a) if isinstance(a, Var) else None
            if isinstance(by, Op) and TENSORS[by.op].kind == "address":
                if id(by) not in seen:
                    seen.add(id(by))
                    work.append(by)
            elif isinstance(a, SharedArg) or (isinstance(a.type, TensorT) and a.type.rank > 1):
                out.add((id(op), k))
    return out


class _Copies:
    """Which contexts of a function are one function: those in which the same weights are shared."""

    def __init__(self, sharing: Sharing, options: Options) -> None:
        self.sharing = sharing
        self.functions = sharing.program.functions
        self.group: dict[Context, int] = {}
        signatures: dict[object, int] = {}
        for number, function in enumerate(self.functions):
            weights = matrices(function)
            used = [
                a
                for b in function.blocks
                for op in b.instrs
                if isinstance(op, Op)
                for k, a in enumerate(op.args)
                if isinstance(a, Var) and (id(op), k) in weights
            ]
            used = list(dict.fromkeys(used)) if options.duplicate else []
            for c in sharing.contexts(number):
                facts = sharing.facts[c]
                shared = tuple(f if (f := facts.get(a, NOTHING)).kind == "shared" else None for a in used)
                self.group[c] = signatures.setdefault((number, shared), len(signatures))
        if options.duplicate:
            self._refine()
        self._bound()

    def _refine(self) -> None:
        """Split groups whose calls lead to different groups."""
        count = 0
        while count < (count := len(set(self.group.values()))):
            keys = {
                c: (g, tuple(self.group[to] for to in self.sharing.calls[c].values())) for c, g in self.group.items()
            }
            numbers = {key: n for n, key in enumerate(dict.fromkeys(keys.values()))}
            self.group = {c: numbers[key] for c, key in keys.items()}

    def _bound(self) -> None:
        """Unite the groups of functions that would have too many copies, and with them those that they call."""
        for number in range(len(self.functions)):
            contexts = self.sharing.contexts(number)
            if len({self.group[c] for c in contexts}) > COPIES:
                self._unite(contexts)
        changed = True
        while changed:
            changed = False
            led: dict[tuple[int, int], list[Context]] = defaultdict(list)
            for c, calls in self.sharing.calls.items():
                if c in self.group:
                    for instr, to in calls.items():
                        led[self.group[c], instr].append(to)
            for found in led.values():
                if len({self.group[c] for c in found}) > 1:
                    self._unite(found)
                    changed = True

    def _unite(self, contexts: Sequence[Context]) -> None:
        old = {self.group[c] for c in contexts}
        first = min(old)
        self.group = {c: first if g in old else g for c, g in self.group.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Shares:
    """What `share` returns."""

    program: Program
    sharing: Sharing | None  # the facts of the program that was given
    text: str
    notes: tuple[Note, ...]


def share(program: Program, options: Options, *, check: bool = False) -> Shares:
    """Return the program with every operand that is one shared tensor as a `SharedArg`.

    A function that is given different weights in different contexts becomes several, one for each set of weights that
    its products read: a product with a shared weight reads it packed, once for all nodes of a batch. Contexts that
    differ in other operands stay one function, and so do all where there would be more than `COPIES`: these operands
    are then tensors like any other.

    Parameters
    ----------
    program
        Before grouping.
    options
        `reuse`: if off, shared operands become ordinary tensors; `duplicate`: if off, no function is copied.
    check
        Compare the addresses at run time: instances for which an operand is not what was proved fail.
    """
    if not options.reuse:
        return Shares(program=_as_varying(program), sharing=None, text="reuse is off: nothing is shared\n", notes=())
    sharing = Sharing(program)
    copies = _Copies(sharing, options)
    groups: dict[int, list[Context]] = defaultdict(list)
    for c, g in copies.group.items():
        groups[g].append(c)
    order = sorted(groups, key=lambda g: (groups[g][0][0], g))
    index = {g: k for k, g in enumerate(order)}
    rewrite = _Rewriter(program, sharing, check)
    functions: list[Function] = []
    text: list[str] = []
    first: dict[int, int] = {}
    taken = {f.name for f in program.functions}
    for g in order:
        contexts = groups[g]
        number = contexts[0][0]
        old = program.functions[number]
        to = {instr: index[copies.group[c]] for instr, c in sharing.calls[contexts[0]].items()}
        made = rewrite.function(number, contexts, to)
        if number in first:
            name, n = f"{old.name}_2", 2
            while name in taken:
                n += 1
                name = f"{old.name}_{n}"
            made = copied(made, name)
        else:
            first[number] = len(functions)
        taken.add(made.name)
        functions.append(made)
        text.append(_text(program, sharing, contexts, made.name))
    notes = list(rewrite.notes)
    for number, old in enumerate(program.functions):
        count = len({copies.group[c] for c in sharing.contexts(number)})
        if count > 1:
            told = f"{old.name} has {count} copies, as its products read other weights in each"
            notes.append(Note(loc=old.loc, kind="duplicated", text=told, option="duplicate"))
    new = replace(program, functions=tuple(functions), sites=(*program.sites, *rewrite.sites))
    return Shares(program=new, sharing=sharing, text="\n".join(text), notes=tuple(dict.fromkeys(notes)))


class _Rewriter:
    """Puts what was proved into the operations of a function."""

    def __init__(self, program: Program, sharing: Sharing, check: bool) -> None:
        self.program, self.sharing, self.check = program, sharing, check
        self.sites: list[Site] = []
        self.notes: dict[Note, None] = {}

    def function(self, number: int, contexts: Sequence[Context], to: Mapping[int, int]) -> Function:
        """Return the function for some contexts, its calls led to the functions `to`, by identity."""
        function = self.program.functions[number]
        single = definitions(function)
        self.names = Names(function)
        blocks = []
        for block in function.blocks:
            out: list[Instr] = []
            self.numbers: dict[int, Var] = {}
            for instr in block.instrs:
                if isinstance(instr, Call | Spawn):
                    out.append(replace(instr, function=to[id(instr)]))
                elif isinstance(instr, Op):
                    args = tuple(self._operand(instr, a, contexts, single, out) for a in instr.args)
                    out.append(replace(instr, args=args))
                elif isinstance(instr, ExtentOf):
                    out.append(self._extent(instr, contexts))
                else:
                    out.append(instr)
            blocks.append(Block(instrs=tuple(out), end=block.end))
        return replace(function, blocks=tuple(blocks))

    def _operand(
        self,
        op: Op,
        a: Var | SharedArg,
        contexts: Sequence[Context],
        single: Mapping[Var, Instr],
        out: list[Instr],
    ) -> Var | SharedArg:
        fact = Fact("shared", frozenset((a.index,))) if isinstance(a, SharedArg) else self.sharing.fact(contexts, a)
        if fact.label == "varying" or (isinstance(a, Var) and isinstance(a.type, ListT)):
            return a
        paths = " or ".join(f"`{self.program.shared[k].path}`" for k in sorted(fact.which)[:4])
        paths += " or another" * (len(fact.which) > 4)
        if fact.label == "row":
            what = "one of the shared tensors" if fact.kind == "choice" else "a row of the shared table"
            self._note(op, "row", f"{what} {paths}")
            if self.check and isinstance(a, Var) and fact.kind == "choice":
                self._compare(op, a, sorted(fact.which), out)
            return a
        (k,) = fact.which
        if isinstance(a, SharedArg):
            self._note(op, "shared", f"{paths} is the same tensor for all instances")
            return a
        if not isinstance(a.type, TensorT):
            if isinstance(single.get(a), Shared):
                return a
            if k not in self.numbers:
                self.numbers[k] = self.names.var(a.name, a.type)
                out.append(Shared(out=self.numbers[k], index=k, loc=op.loc))
            return self.numbers[k]
        self._note(op, "shared", f"{paths} is the same tensor for all instances, wherever it comes from")
        if self.check:
            self._compare(op, a, [k], out)
        return SharedArg(k)

    def _extent(self, instr: ExtentOf, contexts: Sequence[Context]) -> Instr:
        """Return the extent of a shared tensor as a constant."""
        fact = self.sharing.fact(contexts, instr.tensor)
        if fact.kind != "shared":
            return instr
        (k,) = fact.which
        t = self.program.shared[k].type
        assert isinstance(t, TensorT)
        return Const(out=instr.out, value=t.shape[instr.axis], loc=instr.loc)

    def _note(self, op: Op, kind: str, text: str) -> None:
        self.notes.setdefault(Note(loc=op.loc, kind=kind, text=text, option="reuse"))

    def _compare(self, op: Op, a: Var, which: Sequence[int], out: list[Instr]) -> None:
        """Let the instance fail unless the operand is, by address, one of these shared tensors."""
        paths = ", ".join(self.program.shared[k].path for k in which)
        site = Site("AssertionError", f"the sharing analysis is wrong: {a.name} is not {paths}", op.loc)
        found: Var | None = None
        for k in which:
            tensor, same = self.names.var(a.name, a.type), self.names.var("same", BOOL)
            out.append(Shared(out=tensor, index=k, loc=op.loc))
            out.append(Scalar(out=same, op="same", args=(a, tensor), site=-1, loc=op.loc))
            if found is not None:
                either = self.names.var("same", BOOL)
                out.append(Scalar(out=either, op="either", args=(found, same), site=-1, loc=op.loc))
                same = either
            found = same
        assert found is not None
        out.append(Check(cond=found, site=len(self.program.sites) + len(self.sites), args=(), loc=op.loc))
        self.sites.append(site)


def _as_varying(program: Program) -> Program:
    """Return the program in which operations read shared tensors like any other."""
    functions = []
    for function in program.functions:
        names = Names(function)
        blocks = []
        for block in function.blocks:
            made: dict[int, Var] = {}
            out: list[Instr] = []
            for instr in block.instrs:
                if isinstance(instr, Op):
                    for a in instr.args:
                        if isinstance(a, SharedArg) and a.index not in made:
                            param = program.shared[a.index]
                            assert isinstance(param.type, TensorT)
                            made[a.index] = names.var(re.sub(r"\W+", "_", param.path).strip("_"), param.type)
                            out.append(Shared(out=made[a.index], index=a.index, loc=instr.loc))
                    instr = replace(
                        instr, args=tuple(made[a.index] if isinstance(a, SharedArg) else a for a in instr.args)
                    )
                out.append(instr)
            blocks.append(replace(block, instrs=tuple(out)))
        functions.append(replace(function, blocks=tuple(blocks)))
    return replace(program, functions=tuple(functions))


def copied(function: Function, name: str) -> Function:
    """Return the function under another name, with variables of its own."""
    to: dict[Var, Var] = {}

    def copy(x: Any) -> Any:
        match x:
            case Var():
                return to.setdefault(x, Var(x.name, x.type))
            case tuple():
                return tuple(map(copy, x))
        return x

    def instruction(i: Any) -> Any:
        return replace(i, **{f.name: copy(getattr(i, f.name)) for f in fields(i)})

    blocks = tuple(Block(instrs=tuple(map(instruction, b.instrs)), end=instruction(b.end)) for b in function.blocks)
    return replace(function, name=name, params=copy(function.params), blocks=blocks)


def _text(program: Program, sharing: Sharing, contexts: Sequence[Context], name: str) -> str:
    """Return what was found for the operands of one function, one line per line of the source and operation."""

    def fact_text(f: Fact) -> str:
        paths = ", ".join(program.shared[k].path for k in sorted(f.which)) if f.kind != "objects" else ""
        match f.kind:
            case "shared":
                return f"shared {paths}"
            case "row":
                return f"row of {paths}"
            case "choice":
                return f"one of {paths}" + ("" if f.listed else " (varying)")
        return "varying"

    function = program.functions[contexts[0][0]]
    plural = "contexts" if len(contexts) > 1 else "context"
    lines = [f"{name}: {len(contexts)} {plural}"]
    given = [(v, sharing.fact(contexts, v)) for v in function.params]
    lines += [
        f"    given {v.name}: {fact_text(f)}" for v, f in given if f.kind not in ("objects", "varying", "nothing")
    ]
    for block in function.blocks:
        for op in block.instrs:
            if isinstance(op, Op):
                parts = []
                for a in op.args:
                    fact = sharing.fact(contexts, a) if isinstance(a, Var) else sharing.operand({}, a)
                    if isinstance(a, Var) and (fact.label == "varying" or not isinstance(a.type, TensorT)):
                        if isinstance(a.type, TensorT):
                            parts.append(f"{a.name} {fact_text(fact)}")
                    else:
                        parts.append(fact_text(fact) if isinstance(a, SharedArg) else f"{a.name} {fact_text(fact)}")
                if any(not p.endswith(" varying") for p in parts):
                    lines.append(f"    line {op.loc.line}: {op.out.name} = {op.op}: {'; '.join(parts)}")
    return "\n".join(dict.fromkeys(lines)) + "\n"
