"""Facts about variables: whether each holds one shared tensor, through calls, rows and lists.

In: a typed `Program`, before its operations are grouped. Out: `Sharing`, one fact for each variable of each context:

    nothing                 no value reaches the variable
    shared k                the tensor (or number) `Program.shared[k]`
    choice of k, l, ...     one of several shared tensors: which one is known at run time only
    row of k, l, ...        a row of one of these shared tables
    varying                 anything
    objects                 rows and lists, by their allocation sites

The fact of a site's field or element is the join over all values ever stored there (elements of a list at a constant
index are told apart while the list only grows). A context of a function is the facts of its arguments: contexts with
equal facts are analysed once, so facts survive a chain of calls of any length, and mutual recursion. Source: value
contexts (Sharir & Pnueli 1981, "functional approach"; Padhye & Khedker, SOAP 2013), which contain the 1-call-site
sensitivity of ACRoBat (arXiv 2305.10611, section 5); sites as in Andersen's points-to analysis (1994).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field
from typing import TypeAlias

from acronumba.ir import nodes as ir
from acronumba.ir.graph import definitions
from acronumba.ir.types import ListT, RefT, Word, words
from acronumba.ir.visit import writes
from acronumba.records import record

CONTEXTS = 64  # of a function; those beyond are analysed as one


@record()
class Fact:
    """Fact about a variable's value; see the module's text."""

    kind: str  # "nothing" | "shared" | "choice" | "row" | "varying" | "objects"
    which: frozenset[int] = frozenset()  # entries of `Program.shared`; of "objects": allocation sites
    listed: bool = False  # of "choice" and "objects": they are elements of one list

    @property
    def label(self) -> str:
        """Kind of an operand: "shared", "row" (of a shared table, or element of a shared list) or "varying"."""
        if self.kind == "choice":
            return "row" if self.listed else "varying"
        return self.kind if self.kind in ("shared", "row") else "varying"


NOTHING = Fact("nothing")
VARYING = Fact("varying")
DATA = -1  # the place of instances and of packed shared objects
OUTSIDE = Fact("objects", frozenset((DATA,)))


def join(a: Fact, b: Fact, listed: bool = False) -> Fact:
    """Return the join of two facts, which meet in a variable or, with `listed`, in the elements of a list."""
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
    """Return the fact about a word of instance data."""
    return Fact("objects", frozenset((DATA, *escaped))) if isinstance(word, RefT | ListT) else VARYING


@record(frozen=False)
class _List:
    """The lists of one allocation site; one fact per word of an element."""

    width: int
    items: list[list[Fact]] = field(default_factory=list)  # the first elements, as long as none moves
    tail: list[Fact] = field(default_factory=list)  # appended elements
    anywhere: list[Fact] = field(default_factory=list)
    moved: bool = False  # elements have other indices than at first

    def at(self, index: int | None) -> list[Fact]:
        """Return the facts about the element at a constant index, or about any element if it is None."""
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
    """The facts of a program, at a fixed point.

    Attributes
    ----------
    facts : dict of Context to dict of Var to Fact
        Of the contexts that occur; variables that are missing hold nothing.
    calls : dict of Context to dict of int to Context
        What each call leads to, by the identity of the instruction.
    """

    def __init__(self, program: ir.Program) -> None:
        self.program = program
        self.facts: dict[Context, dict[ir.Var, Fact]] = {}
        self.results: dict[Context, list[Fact]] = {}
        self.calls: dict[Context, dict[int, Context]] = defaultdict(dict)
        self.rows: dict[int, list[Fact]] = {}
        self.lists: dict[int, _List] = {}
        self.classes: dict[int, type] = {}
        self.escaped: set[int] = set()  # places whose objects were put into lists of the data
        self.places: dict[int, int] = {}  # by the identity of the instruction that makes objects
        self.changed = False
        self.constants: dict[int, Mapping[ir.Var, ir.Instr]] = {}
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
        """Forget contexts that no call leads to any more: more became known of its arguments later."""
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

    def fact(self, contexts: Sequence[Context], v: ir.Var) -> Fact:
        """Return the join of the facts about a variable in several contexts."""
        out = NOTHING
        for c in contexts:
            out = join(out, self.facts[c].get(v, NOTHING))
        return out

    # ---- one rule per instruction

    def _meet(self, facts: dict[ir.Var, Fact], v: ir.Var, fact: Fact, listed: bool = False) -> None:
        old = facts.get(v, NOTHING)
        new = join(old, fact, listed)
        if new != old:
            facts[v] = new
            self.changed = True

    def _put(self, facts: list[Fact], given: Sequence[Fact], listed: bool = False, first: int = 0) -> None:
        for k, fact in enumerate(given, first):
            new = join(facts[k], fact, listed)
            if new != facts[k]:
                facts[k] = new
                self.changed = True

    def _function(self, context: Context) -> None:
        number, _ = context
        function = self.program.functions[number]
        if number not in self.constants:
            single = definitions(function)
            self.constants[number] = {v: i for v, i in single.items() if isinstance(i, ir.Const)}
        facts = self.facts[context]
        for block in function.blocks:
            for instr in block.instrs:
                self._instruction(context, instr, facts)
            if isinstance(block.end, ir.Return):
                self._put(self.results[context], [facts.get(v, NOTHING) for v in block.end.args])

    def _instruction(self, context: Context, instr: ir.Instr, facts: dict[ir.Var, Fact]) -> None:
        def of(v: ir.Var) -> Fact:
            return facts.get(v, NOTHING)

        match instr:
            case ir.Const():
                self._meet(facts, instr.out, NOTHING if instr.value is None else VARYING)
            case ir.Copy():
                self._meet(facts, instr.out, of(instr.src))
            case ir.Scalar() if instr.op == "select":
                self._meet(facts, instr.out, join(of(instr.args[1]), of(instr.args[2])))
            case ir.Shared():
                kept = (
                    OUTSIDE if isinstance(instr.out.type, RefT | ListT) else Fact("shared", frozenset((instr.index,)))
                )
                self._meet(facts, instr.out, kept)
            case ir.Op():
                self._meet(facts, instr.out, self._operation(instr, facts))
            case ir.New():
                place = self._place(instr)
                self.classes[place] = instr.cls
                row = self.rows.setdefault(place, [NOTHING] * len(instr.args))
                self._put(row, [of(v) for v in instr.args])
                self._meet(facts, instr.out, Fact("objects", frozenset((place,))))
            case ir.Load():
                self._load(instr, facts)
            case ir.Store():
                first = self.offsets[instr.cls, instr.field]
                for place in sorted(of(instr.ref).which - {DATA}):
                    if self.classes.get(place) is instr.cls:
                        self._put(self.rows[place], [of(v) for v in instr.args], first=first)
            case ir.ListNew():
                made = self._list(instr, instr.width)
                given = [of(v) for v in instr.args]
                for k in range(instr.count):
                    if k == len(made.items):
                        made.items.append([NOTHING] * instr.width)
                    self._put(made.items[k], given[k * instr.width : (k + 1) * instr.width])
                self._meet(facts, instr.out, Fact("objects", frozenset((self._place(instr),))))
            case ir.ListOp():
                self._list_op(context, instr, facts)
            case ir.Call() | ir.Spawn():
                self._call(context, instr, facts)
            case ir.Join():
                pass  # its results are those of the calls
            case _:
                for v in writes(instr):
                    self._meet(facts, v, VARYING)

    def _load(self, instr: ir.Load, facts: dict[ir.Var, Fact]) -> None:
        first, rows = self.offsets[instr.cls, instr.field], facts.get(instr.ref, NOTHING)
        for k, v in enumerate(instr.outs):
            fact = NOTHING
            for place in sorted(rows.which):
                if place == DATA:
                    fact = join(fact, outside(v.type, self.escaped))
                elif self.classes.get(place) is instr.cls:
                    fact = join(fact, self.rows[place][first + k], rows.listed)
            self._meet(facts, v, fact)

    def _call(self, context: Context, instr: ir.Call | ir.Spawn, facts: dict[ir.Var, Fact]) -> None:
        to = self._context(instr.function, tuple(facts.get(v, NOTHING) for v in instr.args))
        self.calls[context][id(instr)] = to
        if isinstance(instr, ir.Spawn) and instr.into is not None:  # the results go into a list
            for place in sorted(facts.get(instr.into[0], NOTHING).which - {DATA}):
                self._put(self.lists[place].anywhere, self.results[to], listed=True)
            return
        for v, fact in zip(instr.outs, self.results[to], strict=True):
            self._meet(facts, v, fact)

    def _place(self, instr: ir.Instr) -> int:
        return self.places.setdefault(id(instr), len(self.places))

    def _list(self, instr: ir.Instr, width: int) -> _List:
        place = self._place(instr)
        if place not in self.lists:
            self.lists[place] = _List(width, tail=[NOTHING] * width, anywhere=[NOTHING] * width)
        return self.lists[place]

    def _elements(
        self, v: ir.Var, facts: Mapping[ir.Var, Fact], types: Sequence[Word], index: int | None
    ) -> list[Fact]:
        """Return the facts about elements of the lists that a variable holds."""
        out = [NOTHING] * len(types)
        for place in sorted(facts.get(v, NOTHING).which):
            part = [outside(w, self.escaped) for w in types] if place == DATA else self.lists[place].at(index)
            if len(part) == len(types):  # else it is a list that stays empty, of no type
                out = [join(a, b, listed=True) for a, b in zip(out, part, strict=True)]
        return out

    def _list_op(self, context: Context, instr: ir.ListOp, facts: dict[ir.Var, Fact]) -> None:
        def of(v: ir.Var) -> Fact:
            return facts.get(v, NOTHING)

        def constant(v: ir.Var) -> int | None:
            by = self.constants[context[0]].get(v)
            return by.value if isinstance(by, ir.Const) and isinstance(by.value, int) else None

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

        held = sorted(of(instr.args[0]).which) if instr.op not in ir.OF_NUMBERS else []
        match instr.op:
            case "get" | "pop":
                types = [v.type for v in instr.outs]
                index = constant(instr.args[1]) if instr.op == "get" else None
                for v, fact in zip(instr.outs, self._elements(instr.args[0], facts, types, index), strict=True):
                    self._meet(facts, v, fact)
            case "set":
                for place in held:
                    store(place, [of(v) for v in instr.args[2:]], "anywhere", constant(instr.args[1]))
            case "append" | "put":
                for place in held:
                    store(place, [of(v) for v in instr.args[1:]], "tail" if instr.op == "append" else "anywhere")
            case "insert":
                for place in held:
                    store(place, [of(v) for v in instr.args[2:]], "anywhere")
            case "extend" | "update" | "meet" | "minus" | "narrow" | "toggle":
                for v in instr.args[1:]:
                    given = self._elements(v, facts, _words(v.type), None)[: instr.width]
                    for place in held:
                        store(place, given, "tail" if instr.op == "extend" else "anywhere")
            case "slice" | "fill" | "match" | "clone" | "order":
                made = self._list(instr, instr.width)
                if instr.op == "match":
                    given = [VARYING]
                elif instr.op == "fill":
                    given = [of(v) for v in instr.args[1:]]
                else:
                    given = self._elements(instr.args[0], facts, _words(instr.args[0].type), None)
                self._put(made.anywhere, given, listed=True)
                self._meet(facts, instr.outs[0], Fact("objects", frozenset((self._place(instr),))))
            case "len" | "find" | "join" | "decimal" | "pattern" | "next":
                self._meet(facts, instr.outs[0], VARYING)
        if instr.op in ("pop", "insert", "sort", "reverse", "remove", "narrow", "exclude", "toggle"):
            for place in held:
                if place != DATA and not self.lists[place].moved:
                    self.lists[place].moved = True
                    self.changed = True

    def operand(self, facts: Mapping[ir.Var, Fact], a: ir.Var | ir.SharedArg) -> Fact:
        """Return the fact about an operand."""
        return Fact("shared", frozenset((a.index,))) if isinstance(a, ir.SharedArg) else facts.get(a, NOTHING)

    def _operation(self, op: ir.Op, facts: Mapping[ir.Var, Fact]) -> Fact:
        if op.op == "take" and op.args:
            table = self.operand(facts, op.args[0])
            if table.kind in ("shared", "choice", "row", "nothing"):
                return Fact("row", table.which) if table.kind != "nothing" else NOTHING
        return VARYING


def _words(word: Word) -> tuple[Word, ...]:
    """Return the words of an element of a list."""
    assert isinstance(word, ListT)
    return words(word.item)
