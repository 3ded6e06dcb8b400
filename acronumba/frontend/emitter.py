"""Writing IR while the user's code is walked: blocks, scalars, conversions, merges.

The `Emitter` holds the point of emission (`block`, None where the code cannot be reached) and the state of all
names in scope (`state`). It turns abstract values into words and back, and merges states where control flow joins.
The walker in `lower` is built on it.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

from acronumba.data.shared import SharedConst, SharedLeaf, SharedNode, SharedOpaque
from acronumba.errors import NOWHERE, AcronumbaError, Loc
from acronumba.errors.codes import refuse
from acronumba.frontend.source import Source
from acronumba.frontend.values import (
    NOT_CONST,
    Bound,
    Cell,
    Choice,
    DictVal,
    Enumerate,
    EnumVal,
    Func,
    ListVal,
    Maybe,
    Method,
    NoneVal,
    Num,
    Poison,
    Range,
    Record,
    Ref,
    Reversed,
    SharedVal,
    Static,
    StaticList,
    StrVal,
    Tensor,
    TupleVal,
    UnionVal,
    Val,
    Zip,
    case_slices,
    held,
    holding,
    number,
    type_of,
)  # fmt: skip
from acronumba.ir import nodes as ir
from acronumba.ir.nodes import Extent, SharedArg, Var
from acronumba.ir.notes import Note
from acronumba.ir.ops import SCALARS
from acronumba.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NEVER,
    NONE,
    Array0T,
    BoolT,
    DictT,
    EnumT,
    FloatT,
    IntT,
    ListT,
    NeverT,
    NoneT,
    OpaqueT,
    RefT,
    StrT,
    StructT,
    TensorT,
    TupleT,
    Type,
    UnionT,
    Word,
    members,
    type_text,
    union,
    union_word,
    words,
)  # fmt: skip

State = dict[Any, Val]  # by (scope, name); also facts: (scope, name, part, ...)
Point = tuple[int, State]  # a place from which control flow goes on


def conversion(what: str) -> str:
    """Return the rewrite for an array of a dtype that is not in the language, or nothing."""
    floating = re.search(r"an array of dtype [<>]?f", what)  # float16, or not in the processor's byte order
    return "convert it before the batch: `x.astype(np.float32)`" if floating else ""


class Refused(Exception):
    """An expression is refused; caught at the statement, which is then skipped."""

    def __init__(self, error: AcronumbaError | None):
        super().__init__(error)
        self.error = error


class Dead(Exception):
    """The rest of an expression cannot be reached; caught where control flow goes on."""


class Abandoned(Exception):
    """What is only tried does more than what it is tried for; caught where it is tried."""


class Resweep(Exception):
    """What was assumed about the program proved too narrow: walk everything again."""


@dataclass
class FunctionCode:
    """The IR of one function while it is written."""

    name: str
    loc: Loc
    params: tuple[Var, ...] = ()
    results: tuple[Word, ...] = ()
    blocks: list[list[ir.Instr]] = field(default_factory=list)
    ends: list[ir.End | None] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    given: dict[Var, str] = field(default_factory=dict)  # the user's names of what was bound

    def note_name(self, val: Val, name: str) -> None:
        """Note the name that the user gives to a value."""
        var = val.ref if isinstance(val, Tensor) else val.var if isinstance(val, Num) else None
        if isinstance(var, Var) and not name.startswith("#"):
            self.given.setdefault(var, name)


class Knowledge:
    """What outlives a sweep: it only grows, until a sweep changes nothing."""

    def __init__(self) -> None:
        self.cells: dict[Any, Cell] = {}
        self.fields: dict[type, dict[str, Type]] = {}  # of every class that has rows
        self.built: set[type] = set()  # classes that the program makes rows of
        self.recursive: set[Any] = set()  # code of functions that are called, not inlined
        self.results: dict[Any, Type | None] = {}  # of called functions, by key; None: not known to return yet
        self.plain: dict[Any, set[int]] = {}  # parameters of called functions whose constants are dropped
        self.loose: set[Any] = set()  # called functions whose tensor extents are dropped
        self.carried: dict[
            Any, set[type]
        ] = {}  # called functions to which shared tensors are passed; classes in pieces
        self.changed = False


class Emitter:
    """Emission of typed IR; see the module's text."""

    def __init__(self, knowledge: Knowledge) -> None:
        self.know = knowledge
        self.code = FunctionCode("", NOWHERE)
        self.block: int | None = None
        self.state: State = {}
        self.loc: Loc = NOWHERE
        self.trying = False  # whether what is walked is only tried, as a straight line
        self.outer_loc: Loc | None = None  # where the user called the library function that is being walked
        self.source: Source | None = None
        self.sites: dict[ir.Site, int] = {}
        self.shared_index: dict[str, int] = {}
        self.shared_params: list[ir.SharedParam] = []
        self.reads: dict[type, set[str]] = {}  # fields that are loaded
        self.stored: dict[type, set[str]] = {}  # fields of what is made here
        self.demanded: set[str] = set()
        self.constants: dict[str, Any] = {}
        self.errors: list[AcronumbaError] = []
        self.notes: list[Note] = []  # for `explain`
        self.widenings: dict[Loc, None] = {}  # where float32 becomes float64 by NumPy's rules
        self.lengths: dict[int, Var] = {}  # variables that are extents of some array, by identity
        self.data_lists: set[ListT] = set()  # types of lists that instances or shared parameters hold

    # ---- refusing

    def at(self, node: ast.AST | Loc | None) -> Loc:
        """Return the position of a node of the function being walked (in a library function: of the user's call)."""
        if self.outer_loc is not None:
            return self.outer_loc
        if isinstance(node, Loc):
            return node
        if node is None or self.source is None or not hasattr(node, "lineno"):
            return self.loc
        return self.source.loc(node)

    def refuse(
        self, code: str, node: ast.AST | Loc | None = None, seen: str = "", rewrite: str = "", message: str = ""
    ) -> Refused:
        """Return the exception to raise for something that is not in the language."""
        return Refused(refuse(code, self.at(node), seen, rewrite, message))

    def check_poison(self, *vals: Val, node: ast.AST | None = None) -> None:
        for v in vals:
            if isinstance(v, Poison):
                raise (
                    self.refuse(v.code or "ACR206", node, seen=v.why, rewrite=conversion(v.why))
                    if v.why
                    else Refused(None)
                )

    # ---- blocks

    def new_block(self) -> int:
        if self.trying:
            raise Abandoned
        self.code.blocks.append([])
        self.code.ends.append(None)
        return len(self.code.blocks) - 1

    def emit(self, instr: ir.Instr) -> None:
        if self.block is not None:
            self.code.blocks[self.block].append(instr)

    def end(self, end: ir.End) -> None:
        """End the current block; what follows cannot be reached until a block is entered."""
        if self.block is not None:
            assert self.code.ends[self.block] is None
            self.code.ends[self.block] = end
            self.block = None

    def var(self, name: str, type: Word) -> Var:
        """Return a new variable, named after the user's where there is a name; "#fold(...)" is named fold."""
        names = self.code.names
        if name.startswith("#") and "(" in name:
            name = name[1:].partition("(")[0]
        base = name or "v"
        out = base
        while out in names or not name:
            names[base] = names.get(base, 0) + 1
            out = f"{base}_{names[base]}"
            if out not in names:
                break
        names.setdefault(out, 0)
        return Var(out, type)

    def point(self) -> Point:
        if self.block is None:
            raise Dead
        return self.block, self.state

    def enter(self, point: Point) -> None:
        """Go on from a point, with a state of its own."""
        self.block, self.state = point[0], dict(point[1])

    def fork(self, cond: Num) -> tuple[Point | None, Point | None]:
        """Branch on a bool: return the points where it is true and false (None: cannot be)."""
        if self.block is None:
            return None, None
        if cond.const is not NOT_CONST:
            here = self.point()
            self.block = None
            return (here, None) if cond.const else (None, here)
        yes, no = self.new_block(), self.new_block()
        state = self.state
        self.end(ir.Branch(cond=self.word(cond), yes=yes, no=no, loc=self.loc))
        return (yes, dict(state)), (no, dict(state))

    def site(self, error: str, text: str, node: ast.AST | Loc | None = None) -> int:
        return self.sites.setdefault(ir.Site(error, text, self.at(node)), len(self.sites))

    def check(
        self, cond: Num, error: str, text: str, args: Sequence[Num] = (), node: ast.AST | Loc | None = None
    ) -> None:
        """Let the instance fail unless a bool holds."""
        if self.block is None or (cond.const is not NOT_CONST and cond.const):
            return
        site = self.site(error, text, node)
        values = tuple(self.word(a) for a in args)
        if cond.const is not NOT_CONST:
            self.end(ir.Fail(site=site, args=values, loc=self.at(node)))
            return
        self.emit(ir.Check(cond=self.word(cond), site=site, args=values, loc=self.at(node)))

    def fail(self, error: str, text: str, node: ast.AST | Loc | None = None) -> None:
        if self.block is not None:
            self.end(ir.Fail(site=self.site(error, text, node), args=(), loc=self.at(node)))

    # ---- scalars

    def never(self, node: ast.AST | Loc | None = None) -> Dead:
        """Return the exception to raise where a value is needed that there never is: a list's that stays empty."""
        self.fail("IndexError", "list index out of range", node)
        return Dead()

    def const(self, value: Any) -> Num:
        return number(value)

    def word(self, num: Num | EnumVal) -> Var:
        """Return the variable of a number, emitting a constant or the read of a shared number if need be."""
        if num.var is None:
            if isinstance(num, EnumVal):
                value: Any = members_of(num.cls).index(num.const)
                num = Num(INT, const=value)
            if num.const is NOT_CONST:
                assert num.shared is not None
                out = self.var(_last_name(num.shared.path), num.type)
                self.emit(ir.Shared(out=out, index=self.shared(num.shared), loc=self.loc))
                return out
            out = self.var("", num.type)
            value = num.const
            if num.type == INT and not -(2**63) <= value < 2**63:
                self.fail("OverflowError", "int too large for 64 bits")
                raise Refused(None)
            self.emit(ir.Const(out=out, value=value, loc=self.loc))
            return out
        return num.var

    def shared(self, leaf: SharedLeaf) -> int:
        if leaf.path not in self.shared_index:
            self.shared_index[leaf.path] = len(self.shared_params)
            word = leaf.type.scalar if isinstance(leaf.type, Array0T) else leaf.type
            self.shared_params.append(ir.SharedParam(path=leaf.path, type=word))
        return self.shared_index[leaf.path]

    def known(self, num: Num) -> Any:
        """Return the constant value of a number, or NOT_CONST; a shared int becomes a constant by this."""
        if num.const is NOT_CONST and num.shared is not None and num.shared.path in self.constants:
            self.demanded.add(num.shared.path)
        return self.present(num)

    def present(self, num: Num) -> Any:
        """Return the same, for a decision that does not depend on it: a shared int stays a value of run time."""
        if num.const is NOT_CONST and num.shared is not None:
            return self.constants.get(num.shared.path, NOT_CONST)
        return num.const

    def scalar(self, op: str, *args: Num, node: ast.AST | Loc | None = None) -> Num:
        """Apply an operation of `SCALARS`, folding constants."""
        row = SCALARS[op]
        result: Any = {"i": INT, "f": FLOAT, "b": BOOL}.get(row.result) or args[-1].type
        if all(a.const is not NOT_CONST for a in args):
            try:
                if _endless(op, [a.const for a in args]):
                    raise OverflowError(TOO_LARGE)
                value = row.reference(*(a.const for a in args))
            except (ArithmeticError, ValueError) as error:
                self.fail(type(error).__name__, str(error), node)
                return Num(result, var=self.var("", result))
            if not isinstance(value, complex):
                return Num(result, const=value)
        if self.block is None:
            return Num(result, var=self.var("", result))
        vars = tuple(self.word(a) for a in args)
        site = -1
        if row.fails:
            site = self.site(*_scalar_failure(op, result), node)
        out = self.var("", result)
        self.emit(ir.Scalar(out=out, op=op, args=vars, site=site, loc=self.at(node)))
        return Num(result, var=out)

    def as_int(self, num: Num) -> Num:
        if num.type != BOOL:
            return num
        num = self.read(num)
        return number(int(num.const)) if num.const is not NOT_CONST else self.scalar("int", num)

    def as_float(self, num: Num) -> Num:
        num = self.read(num)
        if num.type == FLOAT:
            return num
        if num.const is not NOT_CONST:
            try:
                return number(float(num.const))
            except OverflowError as error:
                self.fail("OverflowError", str(error))
                return Num(FLOAT, var=self.var("", FLOAT))
        return self.scalar("float", self.as_int(num))

    def float_power(self, a: Num, b: Num, error: str, text: str, node: ast.AST | Loc | None = None) -> Num:
        """Return a power of Python floats; `error` and `text` say what zero to a negative power is."""
        x, y, zero = self.as_float(a), self.as_float(b), number(0.0)
        finite = self.scalar("isfinite", y)
        below = self.both(finite, self.scalar("lt", y, zero))
        if below.const is NOT_CONST or below.const:
            self.check(self.negate(self.both(below, self.scalar("eq", x, zero))), error, text, (), node)
        broken = finite
        if y.const is NOT_CONST or math.isfinite(y.const):
            broken = self.both(finite, self.scalar("ne", self.scalar("mod", y, number(1.0)), zero))
        if broken.const is NOT_CONST or broken.const:
            negative = self.both(self.scalar("lt", x, zero), self.scalar("isfinite", x))
            domain = "math domain error" if error == "ValueError" else "a root of a negative number is complex"
            self.check(self.negate(self.both(broken, negative)), "ValueError", domain, (), node)
        return self.scalar("pow", x, y, node=node)

    def read(self, num: Num) -> Num:
        """Return the number with a variable if it is shared (constants stay)."""
        if num.var is None and num.const is NOT_CONST and self.block is not None:
            return Num(num.type, var=self.word(num))
        return num

    def select(self, cond: Num, a: Num, b: Num) -> Num:
        if cond.const is not NOT_CONST:
            return a if cond.const else b
        return self.scalar("select", cond, a, b)

    def both(self, a: Num, b: Num) -> Num:
        if a.const is not NOT_CONST:
            return b if a.const else a
        if b.const is not NOT_CONST:
            return a if b.const else b
        return self.scalar("both", a, b)

    def either(self, a: Num, b: Num) -> Num:
        if a.const is not NOT_CONST:
            return a if a.const else b
        if b.const is not NOT_CONST:
            return b if b.const else a
        return self.scalar("either", a, b)

    def negate(self, a: Num) -> Num:
        return number(not a.const) if a.const is not NOT_CONST else self.scalar("not", a)

    # ---- extents

    def extent(self, e: Extent) -> Num:
        return number(e) if isinstance(e, int) else Num(INT, var=e)

    def as_extent(self, num: Num) -> Extent:
        value = self.known(num)
        return value if value is not NOT_CONST else self.word(num)

    # ---- values and words

    def tensor(self, ref: Var, fresh: bool = False) -> Tensor:
        """Return the abstract value of a tensor variable, reading the extents that are run-time."""
        assert isinstance(ref.type, TensorT)
        dims: list[Extent] = []
        for axis, n in enumerate(ref.type.shape):
            if n is None:
                out = self.var(f"n{axis}", INT)
                self.emit(ir.ExtentOf(out=out, tensor=ref, axis=axis, loc=self.loc))
                dims.append(out)
                self.lengths[id(out)] = out
            else:
                dims.append(n)
        return Tensor(ref.type, ref, tuple(dims), fresh=fresh)

    def shared_value(self, node: SharedLeaf | SharedConst | SharedNode | SharedOpaque) -> Val:
        """Return the abstract value of a part of the shared parameters."""
        match node:
            case SharedLeaf(type=TensorT() as t):
                dims = tuple(n for n in t.shape if n is not None)
                return Tensor(t, SharedArg(self.shared(node)), dims, aliased=True)
            case SharedLeaf(type=Array0T() as t):
                return Tensor(t.scalar, SharedArg(self.shared(node)), (), aliased=True, array0=number(True))
            case SharedLeaf(type=IntT() | FloatT() as t):
                return Num(t, shared=node)
            case SharedLeaf(type=t):
                return self.from_words(t, tuple(self._shared_word(node, w) for w in words(t)))
            case SharedConst(value=value):
                return self.constant(value)
            case SharedNode():
                return SharedVal(node)
            case SharedOpaque(path=path, what=what):
                raise self.refuse("ACR501", seen=f"{path}: {what}", rewrite=conversion(what))

    def _shared_word(self, leaf: SharedLeaf, word: Word) -> Var:
        out = self.var(_last_name(leaf.path), word)
        self.emit(ir.Shared(out=out, index=self.shared(leaf), loc=self.loc))
        return out

    def constant(self, value: Any) -> Val:
        """Return the abstract value of a compile-time constant."""
        import enum

        if value is None:
            return NoneVal()
        if isinstance(value, enum.Enum):
            return EnumVal(type(value), const=value)
        if isinstance(value, bool | int | float) and type(value) in (bool, int, float):
            return number(value)
        if isinstance(value, str):
            return StrVal(value)
        return Static(value)

    def shared_items(self, val: SharedVal) -> tuple[Val, ...]:
        return tuple(self.shared_value(item) for item in val.node.items)

    def materialise(self, val: SharedVal) -> Val:
        """Return a shared structure as an ordinary value made of its leaves."""
        items = self.shared_items(val)
        match val.node.kind:
            case "object":
                return Record(val.node.cls, val.node.names, items)
            case "tuple":
                return TupleVal(items)
            case "dict":
                return DictVal(val.node.names, items)
            case _:
                cell = self.cell(("shared", val.node.path))
                return StaticList(items, cell)

    def cell(self, key: Any) -> Cell:
        return self.know.cells.setdefault(key, Cell()).find()

    def widen_cell(self, cell: Cell, item: Type) -> None:
        """Note a type of elements."""
        cell = cell.find()
        wider = union(cell.item, item)
        if wider != cell.item:
            if cell.fixed:
                raise self.refuse("ACR303", seen=f"list[{type_text(cell.item)}] and an element {type_text(item)}")
            if endless(wider):
                raise self.refuse("ACR303", seen=type_text(wider)[:200])
            cell.item = wider
            self.know.changed = True

    def make_real(self, cell: Cell) -> None:
        cell = cell.find()
        if not cell.real:
            cell.real = True
            self.know.changed = True

    def stays_empty(self, a: Cell, b: Cell) -> bool:
        """Whether the lists of a cell stay empty, or hold lists that do, by a given type, and not those of another.

        The two are not unified: such a list may stand where another type is expected if it is not changed there.
        """
        a, b = a.find(), b.find()
        return a.fixed and emptier(a.item, b.item)

    def unify_cells(self, a: Cell, b: Cell) -> Cell:
        a, b = a.find(), b.find()
        if a is b:
            return a
        for one, other in ((a, b), (b, a)):
            if self.stays_empty(one, other):
                self.mix(other, one.item == NEVER)  # the lists in it have other types elsewhere
                return other
        self.mix(a, not b.mixed)
        self.mix(b, not a.mixed)
        if a.fixed and b.fixed:
            if a.item != b.item:
                raise self.refuse("ACR303", seen=f"list[{type_text(a.item)}] and list[{type_text(b.item)}]")
            return a
        if b.fixed:
            a, b = b, a
        before, self.know.changed = self.know.changed, True
        self.widen_cell(a, b.item)
        a.real = a.real or b.real
        if not a.fixed:
            b.link = a
        elif b.item != a.item:
            self.widen_cell(b, a.item)
        else:
            self.know.changed = before or b.item != a.item
        return a

    def mix(self, cell: Cell, own: bool) -> None:
        """Note that an element goes into the lists of a cell, which may be a list that was not made in the call."""
        cell = cell.find()
        if not own and not cell.mixed:
            cell.mixed = True
            self.know.changed = True

    def list_of(self, t: ListT, var: Var, own: bool = False) -> ListVal:
        """Return a list of unknown origin: it must not be changed if lists of its type may be instance data."""
        cell = self.cells_by_type(t)
        return ListVal(cell, var, own or not (cell.data or t.item == NEVER))

    def cells_by_type(self, t: ListT) -> Cell:
        key = ("type", t)
        cell = self.know.cells.get(key)
        if cell is None:
            cell = self.know.cells[key] = Cell(item=t.item, real=True, fixed=True, data=t in self.data_lists)
            cell.unsure = t.item in self.data_lists
        return cell

    def realise(self, val: StaticList) -> ListVal:
        """Make the run-time list of a static one."""
        cell = val.cell.find()
        for v in val.items:
            t = self.type_of(v)
            self.widen_cell(cell, t)
            self.mix(cell, is_own(v))
        item = cell.item
        flat = tuple(w for v in val.items for w in self.to_words(v, item))
        out = self.var("list", ListT(item))
        self.emit(ir.ListNew(out=out, width=len(words(item)), args=flat, count=len(val.items), loc=self.loc))
        return ListVal(cell, out)

    def type_of(self, val: Val) -> Type:
        """Return the run-time type of a value, or refuse what exists only at compile time."""
        self.check_poison(val)
        if isinstance(val, Maybe):
            return self.type_of(val.value)
        if isinstance(val, SharedVal):
            return self.type_of(self.materialise(val))
        if isinstance(val, StaticList):
            cell = val.cell.find()
            for v in val.items:
                self.widen_cell(cell, self.type_of(v))
        if isinstance(val, TupleVal | DictVal | Record):
            for v in val.items:
                self.type_of(v)
        t = type_of(val) if not isinstance(val, TupleVal | DictVal) else None
        if isinstance(val, TupleVal):
            t = TupleT(tuple(self.type_of(v) for v in val.items))
        elif isinstance(val, DictVal):
            t = DictT(val.keys, tuple(self.type_of(v) for v in val.items))
        if t is None:
            code = "ACR206" if isinstance(val, Func | Bound | Choice) else "ACR308"
            raise self.refuse(code, seen=self.describe(val))
        return t

    def to_words(self, val: Val, t: Type) -> tuple[Var, ...]:
        """Emit what is needed to hold the value as the words of a type that includes its own."""
        self.check_poison(val)
        if isinstance(val, SharedVal):
            val = self.materialise(val)
        if isinstance(val, Maybe):
            val = val.value
        if isinstance(t, UnionT) and not (isinstance(val, UnionVal) and val.type == t):
            return self._to_union(val, t)
        match t, val:
            case (IntT() | FloatT() | BoolT(), Num()) if val.type == t:
                return (self.word(val),)
            case (EnumT(), EnumVal()) if val.cls is t.cls:
                return (self.word(val),)
            case (NoneT(), NoneVal()) | (StrT(), StrVal()):
                return ()
            case (TensorT(), Tensor()) if val.array0 is None and (val.type.dtype, val.type.rank) == (t.dtype, t.rank):
                return (self.tensor_var(val),)
            case (Array0T(), Tensor()) if union(t, val.python_type) == t:
                flag = () if t.sure else (self.word(val.array0 or number(False)),)
                return (*flag, self.tensor_var(val))
            case (StructT(), Ref()):
                return (val.var,)
            case (StructT(), Record()) if val.cls is t.cls:
                return (self.store_record(val),)
            case (TupleT(), TupleVal()) if len(t.items) == len(val.items):
                return tuple(w for v, u in zip(val.items, t.items, strict=True) for w in self.to_words(v, u))
            case (DictT(), DictVal()) if t.keys == val.keys:
                return tuple(w for v, u in zip(val.items, t.items, strict=True) for w in self.to_words(v, u))
            case (ListT(), ListVal()):
                by_type = self.cells_by_type(t)
                self.check_unchanged(val, t)
                if val.item != t.item:
                    self.unify_cells(val.cell, by_type)
                self.mix(val.cell, not by_type.mixed)  # it may be changed through a name of this type
                return (val.var,)
            case (ListT(), StaticList()):
                if val.stored or self.cells_by_type(t).touched:  # it is one list under two names, or may be changed
                    self.make_real(val.cell)
                val.stored = True
                self.widen_cell(val.cell, t.item)
                return (self.realise(val).var,)
            case (_, UnionVal()) if val.type == t:
                return val.vars
            case (_, UnionVal()):
                return self._cases_to_words(val, t)
        raise self.refuse("ACR301", seen=f"{self.describe(val)} where {type_text(t)} is expected")

    def check_unchanged(self, val: ListVal, t: ListT) -> None:
        """See to it that a list that stays empty by its type is not changed under another type, or refuse it.

        Where the instances have such lists, those of the other type cannot be changed from now on.
        """
        empty = self.stays_empty(val.cell, self.cells_by_type(t))
        if t.item == NEVER or (val.own and not empty):
            return
        given = not val.own and any(emptier(d.item, t.item) for d in self.data_lists)
        inner: Type = val.item
        outer: Type = t
        while isinstance(outer, ListT):
            by_type = self.cells_by_type(outer)
            if given and not by_type.data:
                by_type.data = True
                self.know.changed = True
            elif not given and by_type.touched and (val.own or not by_type.data):
                raise self.refuse("ACR303", seen=f"{self.describe(val)} where {type_text(t)} is expected")
            if not empty or not isinstance(inner, ListT):
                return
            inner, outer = inner.item, outer.item

    def _to_union(self, val: Val, t: UnionT) -> tuple[Var, ...]:
        single = union_word(t)
        if isinstance(val, UnionVal):
            if single is not None and union_word(val.type) is not None:
                return val.vars
            return self._cases_to_words(val, t)
        if single is not None:
            if isinstance(val, NoneVal):
                return (self.null(single),)
            if isinstance(single, RefT):
                if isinstance(val, Ref):
                    return (val.var,)
                if isinstance(val, Record):
                    return (self.store_record(val),)
            else:
                return self.to_words(val, single)
        mine = self.type_of(val)
        out: list[Var] = []
        tag = -1
        for k, (case, _) in enumerate(case_slices(t)):
            fits = tag < 0 and union(case, mine) == case
            if fits:
                tag = k
                out += self.to_words(val, case)
            else:
                out += [self.zero(w) for w in words(case)]
        if tag < 0:
            raise self.refuse("ACR301", seen=f"{self.describe(val)} where {type_text(t)} is expected")
        return (self.word(number(tag)), *out)

    def _cases_to_words(self, val: UnionVal, t: Type) -> tuple[Var, ...]:
        """Convert a union to another layout: case by case, merged into fresh variables."""
        outs = tuple(self.var("", w) for w in words(t))

        def one(case: Val) -> None:
            for out, src in zip(outs, self.to_words(case, t), strict=True):
                self.emit(ir.Copy(out=out, src=src, loc=self.loc))

        points: list[Point] = []
        for case in self.alternatives(val):
            one(case)
            if self.block is not None:
                points.append(self.point())
                self.block = None
        self.join(points)
        return outs

    def null(self, word: Word) -> Var:
        out = self.var("none", word)
        self.emit(ir.Const(out=out, value=None, loc=self.loc))
        return out

    def zero(self, word: Word) -> Var:
        if isinstance(word, IntT | FloatT | BoolT):
            return self.word(number({INT: 0, FLOAT: 0.0, BOOL: False}[word]))
        return self.null(word)

    def tensor_var(self, val: Tensor) -> Var:
        """Return the tensor as a variable; a shared one becomes an ordinary value."""
        val.seen()
        return self.variable(val)

    def variable(self, val: Tensor) -> Var:
        """Return the variable of a tensor that is only looked at."""
        if isinstance(val.ref, Var):
            return val.ref
        param = self.shared_params[val.ref.index]
        out = self.var(_last_name(param.path), param.type)  # type: ignore[arg-type]
        self.emit(ir.Shared(out=out, index=val.ref.index, loc=self.loc))
        return out

    def store_record(self, val: Record) -> Var:
        """Make the row of an object."""
        table = self.know.fields.setdefault(val.cls, {})
        self.know.built.add(val.cls)
        flat: list[Var] = []
        self.stored.setdefault(val.cls, set()).update(val.names)
        for name, v in zip(val.names, val.items, strict=True):
            t = self.type_of(v)
            old = table.get(name)
            wider = t if old is None or isinstance(old, OpaqueT) else union(old, t)
            if wider != old:
                if endless(wider):
                    raise self.refuse("ACR303", seen=type_text(wider)[:200])
                table[name] = wider
                self.know.changed = True
            flat += self.to_words(v, wider)
        out = self.var(val.cls.__name__.lower(), RefT((val.cls,)))
        self.emit(ir.New(out=out, cls=val.cls, args=tuple(flat), loc=self.loc))
        return out

    def from_words(self, t: Type, vars: tuple[Var, ...]) -> Val:
        """Return the abstract value that lies in the words of a type."""
        match t:
            case IntT() | FloatT() | BoolT():
                return Num(t, var=vars[0])
            case EnumT():
                return EnumVal(t.cls, var=vars[0])
            case NoneT():
                return NoneVal()
            case NeverT():
                raise self.never()
            case StrT():
                return StrVal(t.value)
            case TensorT():
                return self.tensor(vars[0])
            case Array0T():
                return Tensor(t.scalar, vars[-1], (), array0=number(True) if t.sure else Num(BOOL, var=vars[0]))
            case StructT():
                return Ref((t.cls,), vars[0])
            case TupleT() | DictT():
                items: list[Val] = []
                at = 0
                for u in t.items:
                    width = len(words(u))
                    if isinstance(u, OpaqueT):  # refused where it is read
                        items.append(Poison(u.what, "ACR304"))
                        continue
                    items.append(self.from_words(u, vars[at : at + width]))
                    at += width
                return TupleVal(tuple(items)) if isinstance(t, TupleT) else DictVal(t.keys, tuple(items))
            case ListT():
                return self.list_of(t, vars[0])
            case UnionT():
                return self.narrowed(UnionVal(t, vars, t.members))
            case OpaqueT():
                raise self.refuse("ACR304", seen=t.what, rewrite=conversion(t.what))

    # ---- unions

    def narrowed(self, val: UnionVal) -> Val:
        """Return a union as an ordinary value where only one kind is left."""
        rest = val.possible
        single = union_word(val.type)
        if all(isinstance(m, StructT) for m in rest):
            classes = tuple(m.cls for m in rest if isinstance(m, StructT))
            return Ref(classes, val.vars[0] if single is not None else self._struct_word(val))
        if len(rest) > 1:
            return val
        only = rest[0]
        if single is not None:
            return NoneVal() if isinstance(only, NoneT) else self.from_words(only, val.vars)
        for case, where in case_slices(val.type):
            if case == only:
                return self.from_words(case, val.vars[where])
        raise AssertionError(only)

    def _struct_word(self, val: UnionVal) -> Var:
        case, where = case_slices(val.type)[0]
        assert all(isinstance(m, StructT) for m in members(case))
        return val.vars[where][0]

    def keep(self, val: UnionVal, wanted: Callable[[Type], bool]) -> UnionVal:
        return UnionVal(val.type, val.vars, tuple(m for m in val.possible if wanted(m)))

    def is_case(self, val: UnionVal, wanted: Callable[[Type], bool]) -> Num:
        """Return the bool whether the value is one of the wanted members."""
        yes = [m for m in val.possible if wanted(m)]
        if not yes or len(yes) == len(val.possible):
            return number(bool(yes))
        if union_word(val.type) is not None:
            null = self.var("", BOOL)
            self.emit(ir.IsNull(out=null, ref=val.vars[0], loc=self.loc))
            is_null = Num(BOOL, var=null)
            if any(isinstance(m, NoneT) for m in val.possible):
                if all(isinstance(m, NoneT) for m in yes):
                    return is_null
                structs = [m for m in val.possible if not isinstance(m, NoneT)]
                if len(yes) == len(structs) and not any(isinstance(m, NoneT) for m in yes):
                    return self.negate(is_null)
                # some classes only: the tag may be read only where the reference is not None
                return self._guarded_class_test(val.vars[0], is_null, yes)
            return self.class_test(val.vars[0], tuple(m.cls for m in yes if isinstance(m, StructT)))
        tag = Num(INT, var=val.vars[0])
        out: Num = number(False)
        for k, (case, where) in enumerate(case_slices(val.type)):
            kinds = [m for m in members(case) if m in val.possible]
            chosen = [m for m in kinds if m in yes]
            if not chosen:
                continue
            here = self.scalar("eq", tag, number(k))
            if len(chosen) < len(kinds):  # one case holds several classes
                ref = val.vars[where][0]
                here = self._guarded_class_test(ref, self.negate(here), chosen)
            out = self.either(out, here)
        return out

    def _guarded_class_test(self, ref: Var, absent: Num, yes: Sequence[Type]) -> Num:
        out = self.var("", BOOL)
        no, here = self.fork(absent)
        points = []
        for point, test in ((no, False), (here, True)):
            if point is None:
                continue
            self.enter(point)
            found = self.class_test(ref, tuple(m.cls for m in yes if isinstance(m, StructT))) if test else number(False)
            if not test and any(isinstance(m, NoneT) for m in yes):
                found = number(True)
            self.emit(ir.Copy(out=out, src=self.word(found), loc=self.loc))
            points.append(self.point())
            self.block = None
        self.join(points)
        return Num(BOOL, var=out)

    def class_test(self, ref: Var, classes: tuple[type, ...]) -> Num:
        tag = self.var("", INT)
        self.emit(ir.ClassTag(out=tag, ref=ref, loc=self.loc))
        out: Num = number(False)
        for cls in classes:
            out = self.either(out, self.scalar("eq", Num(INT, var=tag), Num(INT, var=self.class_number(cls))))
        return out

    def class_number(self, cls: type) -> Var:
        """Return the tag of a class as a constant; it is put in when the layouts are known."""
        out = self.var(cls.__name__, INT)
        self.emit(ir.Const(out=out, value=_ClassNumber(cls), loc=self.loc))  # type: ignore[arg-type]
        return out

    def alternatives(self, val: Val) -> Iterable[Val]:
        """Yield the alternatives of a value in turn, each with the point of emission where it holds.

        The caller leaves each alternative by `end` or by keeping `point()`.
        """
        rest: Point | None = None
        match val:
            case UnionVal():
                groups = list(val.possible)
                for k, member in enumerate(groups):
                    if rest is not None:
                        self.enter(rest)
                    if k == len(groups) - 1:
                        yield self.narrowed(self.keep(val, partial(operator.eq, member)))
                        return
                    left = UnionVal(val.type, val.vars, tuple(groups[k:]))
                    yes, rest = self.fork(self.is_case(left, partial(operator.eq, member)))
                    if yes is None:
                        continue
                    self.enter(yes)
                    yield self.narrowed(self.keep(val, partial(operator.eq, member)))
                    self.block = None
                    if rest is None:
                        return
            case Ref() if len(val.classes) > 1:
                for k, cls in enumerate(val.classes):
                    if rest is not None:
                        self.enter(rest)
                    if k == len(val.classes) - 1:
                        yield Ref((cls,), val.var)
                        return
                    yes, rest = self.fork(self.class_test(val.var, (cls,)))
                    assert yes is not None and rest is not None
                    self.enter(yes)
                    yield Ref((cls,), val.var)
                    self.block = None
            case Choice():
                for k, option in enumerate(val.options):
                    if rest is not None:
                        self.enter(rest)
                    if k == len(val.options) - 1:
                        yield option
                        return
                    yes, rest = self.fork(self.scalar("eq", val.index, number(k)))
                    if yes is None:
                        assert rest is not None
                        continue
                    self.enter(yes)
                    yield option
                    self.block = None
                    if rest is None:
                        return
            case _:
                yield val

    def each(self, val: Val, f: Callable[[Val], Val], node: ast.AST | Loc | None = None) -> Val:
        """Apply `f` to each alternative of a value and merge the results.

        An alternative whose type does not fit fails at run time, as the plain call would; if none fits, the first
        refusal stands. What the language does not have is refused.
        """
        if not is_several(val):
            return f(val)
        points: list[Point] = []
        results: list[Val] = []
        refused: list[Refused] = []
        for case in self.alternatives(val):
            try:
                result = f(case)
            except Dead:
                self.block = None
                continue
            except Refused as error:
                if error.error is not None and not _fails_plainly(error.error.code):
                    raise
                refused.append(error)
                self._fail_as(error, case, node)
                self.block = None
                continue
            if self.block is not None:
                points.append(self.point())
                results.append(result)
                self.block = None
        if not points:
            if refused:
                raise refused[0]
            return Poison()
        return self.join_values(points, results)

    def _fail_as(self, error: Refused, case: Val, node: ast.AST | Loc | None) -> None:
        what = self.describe(case)
        name = "AttributeError" if error.error is not None and error.error.code == "ACR307" else "TypeError"
        self.fail(name, f"this value is {what} here", node)

    # ---- merging

    def join(self, points: Sequence[Point]) -> None:
        """Go on where control flow from several points meets."""
        self.join_values(points, None)

    def join_values(self, points: Sequence[Point], values: Sequence[Val] | None) -> Val:
        """Merge the states of several points, and one value of each; the current block is where they meet."""
        if not points:
            self.block = None
            return Poison()
        if len(points) == 1:
            self.block, self.state = points[0]
            return values[0] if values is not None else NoneVal()
        keys = dict.fromkeys(k for _, s in points for k in s)
        ends = [p[0] for p in points]
        states = [p[1] for p in points]
        merged: State = {}
        for key in keys:
            if key == "refined":
                continue
            vals = [s.get(key) for s in states]
            if all(v is vals[0] for v in vals):
                merged[key] = vals[0]  # type: ignore[assignment]
                continue
            if len(key) > 2:  # a fact about a part of a name: kept only if it is the same everywhere
                continue
            merged[key] = self._merge(vals, ends, states, str(key[1]))
        result: Val = NoneVal()
        for v in values or ():
            _share(v)
        if values is not None:
            result = self._merge(list(values), ends, states, "")
        target = self.new_block()
        for k in ends:
            assert self.code.ends[k] is None
            self.code.ends[k] = ir.Jump(block=target, loc=self.loc)
        self.block, self.state = target, merged
        self.settle_all()
        return self.settle(result)

    def settle_all(self) -> None:
        """Read the extents that merges left open, now that the merged block is current."""
        for key, val in list(self.state.items()):
            self.state[key] = self.settle(val)
            _name(self.state[key])

    def settle(self, val: Val) -> Val:
        if not _has_pending(val):
            return val
        match val:
            case _Pending(type=TensorT()):
                return self.tensor(val.vars[0], val.fresh)
            case _Pending():
                return self.from_words(val.type, val.vars)
            case TupleVal():
                return TupleVal(tuple(map(self.settle, val.items)))
            case DictVal():
                return DictVal(val.keys, tuple(map(self.settle, val.items)))
            case Record():
                return Record(val.cls, val.names, tuple(map(self.settle, val.items)))
            case Maybe():
                return Maybe(self.settle(val.value), val.bound)
            case Choice():
                return Choice(tuple(map(self.settle, val.options)), val.index)
        return holding(val, tuple(map(self.settle, held(val))))

    def _merge(self, vals: list[Val | None], ends: list[int], states: list[State], name: str) -> Val:
        """Merge one name: find the least template of its values, and store each at the end of its point."""
        shape: Template = TStatic(vals[0]) if vals[0] is not None else TAbsent()
        for v in vals[1:]:
            shape = self.join_templates(shape, TStatic(v) if v is not None else TAbsent())
        out, vars = self.instantiate(shape, name)
        for k, v in enumerate(vals):
            if vars:
                self._in(ends, states, k, partial(self.store, shape, vars, v))
        result: Val = out
        return result

    def _in(self, ends: list[int], states: list[State], k: int, f: Callable[[], None]) -> None:
        """Emit at the end of the k-th point."""
        saved = self.block, self.state
        self.block, self.state = ends[k], states[k]
        try:
            f()
            assert self.block is not None
            ends[k] = self.block
        finally:
            self.block, self.state = saved

    def template(self, val: Val) -> Template:
        """Return what is kept of a value where others may take its place: its parts and types, not its constants."""
        match val:
            case TupleVal():
                return TParts("tuple", len(val.items), tuple(map(self.template, val.items)))
            case DictVal():
                return TParts("dict", val.keys, tuple(map(self.template, val.items)))
            case Record():
                return TParts("record", (val.cls, val.names), tuple(map(self.template, val.items)))
            case Tensor():
                if isinstance(val.python_type, Array0T) and not val.python_type.sure:
                    return TType(val.python_type)
                return TTensor(val.type, val.dims, val.own, val.array0 is not None)
            case ListVal():
                return TList(val.cell, val.own)
            case StaticList():
                self.make_real(val.cell)
                self.type_of(val)
                return TList(val.cell, True)
            case Maybe():
                return TMaybe(self.template(val.value))
            case Poison():
                return TPoison(val.why, val.code)
            case SharedVal():
                return self.template(self.materialise(val))
            case Choice():
                return TChoice(tuple(map(self.template, val.options)))
        if held(val):
            return TParts("holder", val, tuple(map(self.template, held(val))))
        t = type_of(val)
        return TStatic(val) if t is None else TType(t)

    def loop_template(self, val: Val) -> Template:
        """Return the first assumption about a name that a loop assigns."""
        match val:
            case Num() | EnumVal():
                return self.template(val)
            case TupleVal():
                return TParts("tuple", len(val.items), tuple(map(self.loop_template, val.items)))
            case Record():
                return TParts("record", (val.cls, val.names), tuple(map(self.loop_template, val.items)))
        return TStatic(val)

    def join_templates(self, a: Template, b: Template) -> Template:
        match a, b:
            case (TPoison(), _):
                return a
            case (_, TPoison()):
                return b
            case (TAbsent(), TAbsent()):
                return a
            case (TAbsent(), TStatic()):
                return TMaybe(self.template(b.val) if not isinstance(b.val, Maybe) else self.template(b.val.value))
            case (TAbsent(), TMaybe()):
                return b
            case (TAbsent(), _):
                return TMaybe(b)
            case (_, TAbsent()):
                return self.join_templates(b, a)
            case (TStatic(), TStatic()) if same(a.val, b.val):
                return TStatic(_loosest([a.val, b.val]))
            case (TStatic(), _) | (_, TStatic()):
                x, y = (self.template(t.val) if isinstance(t, TStatic) else t for t in (a, b))
                if not isinstance(x, TStatic) and not isinstance(y, TStatic):
                    return self.join_templates(x, y)
                options = _options(x), _options(y)
                if options[0] and options[1]:
                    return self.join_templates(TChoice(options[0]), TChoice(options[1]))
                seen = [self.describe(t.val) if isinstance(t, TStatic) else "something else" for t in (a, b)]
                return TPoison(f"{seen[0]} in one branch, {seen[1]} in another")
            case (TParts(kind="holder"), TParts(kind="holder")) if alike(a.meta, b.meta):
                return TParts("holder", a.meta, tuple(map(self.join_templates, a.items, b.items)))
            case (TChoice(), TChoice()):
                joined = list(a.options)
                for option in b.options:
                    k = next((k for k, other in enumerate(joined) if alike(_only(other), _only(option))), None)
                    if k is None:
                        joined.append(option)
                    else:
                        joined[k] = self.join_templates(joined[k], option)
                return TChoice(tuple(joined))
            case (TParts(kind="holder") | TChoice(), TParts(kind="holder") | TChoice()) if _options(a) and _options(b):
                return self.join_templates(TChoice(_options(a)), TChoice(_options(b)))
            case (TMaybe(), TMaybe()):
                return TMaybe(self.join_templates(a.inner, b.inner))
            case (TMaybe(), _):
                return TMaybe(self.join_templates(a.inner, b))
            case (_, TMaybe()):
                return TMaybe(self.join_templates(a, b.inner))
            case (TParts(), TParts()) if (a.kind, a.meta) == (b.kind, b.meta):
                return TParts(a.kind, a.meta, tuple(map(self.join_templates, a.items, b.items)))
            case (TTensor(), TTensor()) if (a.type.dtype, a.type.rank, a.array0) == (
                b.type.dtype,
                b.type.rank,
                b.array0,
            ):
                dims = tuple(x if x is not None and x == y else None for x, y in zip(a.dims, b.dims, strict=True))
                t = union(a.type, b.type)
                assert isinstance(t, TensorT)
                return TTensor(t, dims, a.fresh and b.fresh, a.array0)
            case (TList(), TList()):
                self.make_real(a.cell)
                self.make_real(b.cell)
                kept = self.stays_empty(a.cell, b.cell) or self.stays_empty(b.cell, a.cell)
                return TList(self.unify_cells(a.cell, b.cell), a.own and b.own and not kept)
        try:
            t = union(self.template_type(a), self.template_type(b))
        except Refused as error:
            return TPoison(error.error.seen if error.error is not None else "")
        if endless(t):
            return TPoison(f"it has types without end: {type_text(t)[:100]}")
        return TType(t)

    def template_type(self, a: Template) -> Type:
        """Return the type of what a template holds."""
        match a:
            case TType():
                return a.type
            case TTensor():
                return Array0T(a.type.dtype) if a.array0 else a.type
            case TList():
                return ListT(a.cell.find().item)
            case TParts(kind="holder"):
                raise self.refuse("ACR206", seen=self.describe(a.meta))
            case TParts(kind="tuple"):
                return TupleT(tuple(map(self.template_type, a.items)))
            case TParts(kind="dict"):
                return DictT(a.meta, tuple(map(self.template_type, a.items)))
            case TParts():
                return StructT(a.meta[0])
            case TStatic():
                return self.type_of(a.val)
            case TChoice():
                raise self.refuse("ACR206", seen=" or ".join(self.describe(_only(option)) for option in a.options))
        raise self.refuse("ACR308", seen="a value that may be missing")

    def instantiate(self, a: Template, name: str) -> tuple[Any, tuple[Var, ...]]:
        """Return fresh variables for a template, and the value they hold (to be settled in the merged block)."""
        match a:
            case TStatic():
                return a.val, ()
            case TPoison():
                return Poison(a.why, a.code), ()
            case TAbsent():
                return None, ()
            case TMaybe():
                bound = self.var(f"{name}_bound", BOOL)
                inner, vars = self.instantiate(a.inner, name)
                return Maybe(inner, Num(BOOL, var=bound)), (bound, *vars)
            case TParts():
                parts = [self.instantiate(item, name) for item in a.items]
                items = tuple(p[0] for p in parts)
                flat = tuple(v for p in parts for v in p[1])
                if a.kind == "tuple":
                    return TupleVal(items), flat
                if a.kind == "dict":
                    return DictVal(a.meta, items), flat
                if a.kind == "holder":
                    return holding(a.meta, items), flat
                return Record(a.meta[0], a.meta[1], items), flat
            case TTensor():
                var = self.var(name, a.type)
                if all(isinstance(d, int) for d in a.dims):
                    dims: Any = a.dims
                    flag = number(True) if a.array0 else None
                    return Tensor(a.type, var, dims, fresh=a.fresh, aliased=not a.fresh, array0=flag), (var,)
                return _Pending(a.type, (var,), a.fresh), (var,)
            case TList():
                var = self.var(name, ListT(a.cell.find().item))
                return ListVal(a.cell.find(), var, a.own), (var,)
            case TChoice():
                var = self.var(name, INT)
                parts = [self.instantiate(option, name) for option in a.options]
                choice = Choice(tuple(p[0] for p in parts), Num(INT, var=var))
                return choice, (var, *(v for p in parts for v in p[1]))
            case TType():
                vars = tuple(self.var(name, w) for w in words(a.type))
                return _Pending(a.type, vars), vars

    def template_width(self, a: Template) -> int:
        match a:
            case TMaybe():
                return 1 + self.template_width(a.inner)
            case TParts():
                return sum(map(self.template_width, a.items))
            case TStatic() | TPoison() | TAbsent():
                return 0
            case TChoice():
                return 1 + sum(map(self.template_width, a.options))
            case TList():
                return 1
        return len(words(self.template_type(a)))

    def store(self, a: Template, vars: tuple[Var, ...], val: Val | None) -> None:
        """Assign a value to the variables of a template, at the point of emission."""
        match a:
            case TStatic() | TPoison() | TAbsent():
                return
            case TMaybe():
                flag = val.bound if isinstance(val, Maybe) else number(val is not None)
                self.emit(ir.Copy(out=vars[0], src=self.word(flag), loc=self.loc))
                inner = val.value if isinstance(val, Maybe) else val
                if inner is not None:
                    self.store(a.inner, vars[1:], inner)
                else:
                    for out in vars[1:]:
                        self.emit(ir.Copy(out=out, src=self.zero(out.type), loc=self.loc))
            case TParts():
                if isinstance(val, SharedVal):
                    val = self.materialise(val)
                assert val is not None
                at = 0
                parts = val.items if isinstance(val, TupleVal | DictVal | Record) else held(val)
                for item, v in zip(a.items, parts, strict=True):
                    width = self.template_width(item)
                    self.store(item, vars[at : at + width], v)
                    at += width
            case TTensor() if isinstance(val, Tensor):  # under the same name as before: no other sees it
                src = self.variable(val)
                if vars[0] is not src:
                    self.emit(ir.Copy(out=vars[0], src=src, loc=self.loc))
            case TList() if isinstance(val, ListVal):
                if vars[0] is not val.var:
                    self.emit(ir.Copy(out=vars[0], src=val.var, loc=self.loc))
            case TChoice():
                assert val is not None
                self.emit(ir.Copy(out=vars[0], src=self.word(a.index_of(val, self)), loc=self.loc))
                at = 1
                for option in a.options:
                    outs = vars[at : at + self.template_width(option)]
                    at += len(outs)
                    given = next((v for v in options_of(val) if alike(v, _only(option))), None)
                    if given is not None:
                        self.store(option, outs, given)
                        continue
                    for out in outs:
                        self.emit(ir.Copy(out=out, src=self.zero(out.type), loc=self.loc))
            case _:
                assert val is not None
                srcs = self.to_words(val, self.template_type(a))
                for out, src in zip(vars, srcs, strict=True):
                    if out is not src:
                        self.emit(ir.Copy(out=out, src=src, loc=self.loc))

    # ---- words for people

    def describe(self, val: Val) -> str:
        """Return what a value is, in the user's terms."""
        match val:
            case Static(value=value):
                return getattr(value, "__name__", None) or repr(value)[:60]
            case Func():
                return f"function {val.source.name}"
            case Bound():
                return f"method {val.func.source.name}"
            case Poison():
                return "something refused"
            case SharedVal(node=node):
                return f"{node.path}, a {node.cls.__name__}"
            case StrVal(value=value):
                return f"the string {value!r}"
            case NoneVal():
                return "None"
            case TupleVal(items=items):
                return f"tuple[{', '.join(self.describe(v) for v in items)}]"
            case Maybe(value=value):
                return self.describe(value)
            case Choice(options=options):
                return " or ".join(map(self.describe, options))
            case StaticList(items=items):
                return f"list[{' | '.join(sorted({type_text(type_of(v) or NONE) for v in items}))}]"
            case Num() if val.const is not NOT_CONST:
                return f"{type_text(val.type)} {val.const}"
            case Tensor() if val.array0 is None:
                dims = ", ".join(str(d) if isinstance(d, int) else "?" for d in val.dims)
                return f"{val.type.dtype}[{dims}]"
        t = type_of(val)
        return type_text(t) if t is not None else type(val).__name__.lower()


@dataclass(slots=True, eq=False)
class _Pending:
    """A merged value whose extents have not been read yet."""

    type: Type
    vars: tuple[Var, ...]
    fresh: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class TStatic:
    """The very same value on every path."""

    val: Val


@dataclass(frozen=True, slots=True, eq=False)
class TParts:
    """A tuple, dict or object in pieces, or a function, method or range with what it holds."""

    kind: str  # "tuple" | "dict" | "record" | "holder"
    meta: Any
    items: tuple[Template, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TTensor:
    type: TensorT
    dims: tuple[Extent | None, ...]
    fresh: bool
    array0: bool  # whether it is an array of rank 0


@dataclass(frozen=True, slots=True, eq=False)
class TList:
    cell: Cell
    own: bool


@dataclass(frozen=True, slots=True, eq=False)
class TChoice:
    """One of several functions or classes."""

    options: tuple[Template, ...]  # TStatic or a holder

    def index_of(self, val: Val, emitter: Emitter) -> Num:
        """Return the number of a value among the options."""
        if not isinstance(val, Choice):
            return number(next(k for k, option in enumerate(self.options) if alike(_only(option), val)))
        places = [self.index_of(v, emitter) for v in val.options]
        out = places[-1]
        for k in range(len(places) - 1):
            out = emitter.select(emitter.scalar("eq", val.index, number(k)), places[k], out)
        return out


@dataclass(frozen=True, slots=True, eq=False)
class TType:
    type: Type


@dataclass(frozen=True, slots=True, eq=False)
class TMaybe:
    """Bound on some paths only."""

    inner: Template


@dataclass(frozen=True, slots=True, eq=False)
class TAbsent:
    pass


@dataclass(frozen=True, slots=True, eq=False)
class TPoison:
    why: str
    code: str = ""


Template: TypeAlias = TStatic | TParts | TTensor | TList | TType | TMaybe | TAbsent | TPoison | TChoice


def equal_templates(a: Template, b: Template) -> bool:
    """Whether two templates assume the same."""
    match a, b:
        case (TStatic(), TStatic()):
            return same(a.val, b.val)
        case (TParts(), TParts()):
            kind = a.kind == b.kind and (alike(a.meta, b.meta) if a.kind == "holder" else a.meta == b.meta)
            return kind and all(map(equal_templates, a.items, b.items))
        case (TTensor(), TTensor()):
            return (a.type, a.dims, a.fresh, a.array0) == (b.type, b.dims, b.fresh, b.array0)
        case (TList(), TList()):
            return a.cell.find() is b.cell.find() and a.own == b.own
        case (TChoice(), TChoice()):
            return len(a.options) == len(b.options) and all(map(equal_templates, a.options, b.options))
        case (TType(), TType()):
            return a.type == b.type
        case (TMaybe(), TMaybe()):
            return equal_templates(a.inner, b.inner)
        case (TPoison(), TPoison()) | (TAbsent(), TAbsent()):
            return True
    return False


@dataclass(frozen=True, slots=True)
class _ClassNumber:
    """Placeholder of a class's tag."""

    cls: type


def _has_pending(val: Any) -> bool:
    if isinstance(val, TupleVal | DictVal | Record):
        return any(_has_pending(v) for v in val.items)
    if isinstance(val, Maybe):
        return _has_pending(val.value)
    if isinstance(val, Choice):
        return any(map(_has_pending, val.options))
    return isinstance(val, _Pending) or any(_has_pending(v) for v in held(val))


def _name(val: Val) -> None:
    """Note that a value, which may have been merged of others, has a name."""
    match val:
        case Tensor():
            val.named = True
        case TupleVal() | DictVal() | Record() | StaticList():
            for v in val.items:
                _name(v)


def _share(val: Val) -> None:
    """Note that what a value consists of, and has a name, is seen by another way, too."""
    match val:
        case Tensor():
            if val.named or (val.base is not None and not val.own):
                val.seen()
        case TupleVal() | DictVal() | Record() | StaticList():
            for v in val.items:
                _share(v)
        case _:
            for v in held(val):
                _share(v)


def same(a: Any, b: Any) -> bool:
    """Whether two abstract values are certainly the same value."""
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    match a:
        case Num():
            if a.const is not NOT_CONST or b.const is not NOT_CONST:
                return type(a.const) is type(b.const) and (a.const == b.const) and repr(a.const) == repr(b.const)
            return a.var is b.var and (a.var is not None or a.shared == b.shared)
        case EnumVal():
            return a.cls is b.cls and a.var is b.var and a.const is b.const
        case NoneVal():
            return True
        case StrVal():
            return bool(a.value == b.value)
        case Tensor():
            kinds = a.array0 is b.array0 or (a.array0 is not None and b.array0 is not None and same(a.array0, b.array0))
            return bool(a.ref == b.ref and a.type == b.type and kinds)
        case Ref():
            return a.var is b.var and a.classes == b.classes
        case TupleVal():
            return len(a.items) == len(b.items) and all(map(same, a.items, b.items))
        case DictVal():
            return a.keys == b.keys and all(map(same, a.items, b.items))
        case Record():
            return a.cls is b.cls and all(map(same, a.items, b.items))
        case ListVal():
            return a.var is b.var
        case UnionVal():
            return bool(a.vars == b.vars and a.possible == b.possible)
        case SharedVal():
            return bool(a.node.path == b.node.path)
        case Static():
            return a.value is b.value or (
                type(a.value) is type(b.value) and isinstance(a.value, type) is False and _equal(a.value, b.value)
            )
        case Func() | Bound() | Method() | Range() | Zip() | Enumerate() | Reversed():
            return alike(a, b) and all(map(same, held(a), held(b)))
        case Maybe():
            return same(a.value, b.value) and same(a.bound, b.bound)
        case Choice():
            return len(a.options) == len(b.options) and all(map(same, a.options, b.options)) and same(a.index, b.index)
    return False


def alike(a: Val, b: Val) -> bool:
    """Whether two values are the same but for what they hold."""
    match a, b:
        case (Func(), Func()):
            return a.key == b.key
        case (Bound(), Bound()):
            return alike(a.func, b.func)
        case (Method(), Method()):
            return a.name == b.name
        case (Zip(), Zip()):
            return a.strict == b.strict and len(a.parts) == len(b.parts)
        case (Range(), Range()) | (Enumerate(), Enumerate()) | (Reversed(), Reversed()):
            return True
    return same(a, b)


def _only(option: Template) -> Val:
    """Return the value of an option of a choice."""
    assert isinstance(option, TStatic | TParts)
    return option.val if isinstance(option, TStatic) else option.meta


def _options(a: Template) -> tuple[Template, ...]:
    """Return the functions and classes that a template is one of; none if it is something else."""
    if isinstance(a, TChoice):
        return a.options
    holds = isinstance(a, TStatic) or (isinstance(a, TParts) and a.kind == "holder")
    return (a,) if holds and is_choosable(_only(a)) else ()


def members_of(cls: Any) -> list[Any]:
    """Return the members of an enum, in the order of their numbers at run time."""
    return list(cls)


def _fails_plainly(code: str) -> bool:
    """Whether the plain call, too, fails where an operation on one of several types is refused with a code."""
    return (code[3] in "346" and code not in ("ACR310", "ACR403")) or code == "ACR203"


def is_several(val: Val) -> bool:
    """Whether a value has alternatives that must be told apart at run time."""
    return isinstance(val, UnionVal | Choice) or (isinstance(val, Ref) and len(val.classes) > 1)


def is_choosable(val: Val) -> bool:
    """Whether a value is a function or class, of which a number can choose one at run time."""
    return isinstance(val, Func | Bound | Choice) or (isinstance(val, Static) and callable(val.value))


def options_of(val: Val) -> tuple[Val, ...]:
    return val.options if isinstance(val, Choice) else (val,)


def is_own(val: Val) -> bool:
    """Whether a value, if it is a list, was certainly made in the call."""
    return not isinstance(val, ListVal) or val.own


def _equal(a: Any, b: Any) -> bool:
    try:
        return bool(a == b)
    except Exception:  # objects of other people may raise anything when compared
        return False


def _loosest(vals: list[Val]) -> Val:
    """Return one of several equal values, aliased if any is."""
    for v in vals:
        if isinstance(v, Tensor) and v.aliased:
            return v
    return vals[0]


def _last_name(path: str) -> str:
    out = "".join(c if c.isalnum() else "_" for c in path.rsplit(".", 1)[-1]).strip("_")
    return out or "shared"


def emptier(a: Type, b: Type) -> bool:
    """Whether two types of elements differ only in that lists of the first stay empty."""
    if a == NEVER:
        return b != NEVER
    return isinstance(a, ListT) and isinstance(b, ListT) and emptier(a.item, b.item)


def endless(t: Type) -> bool:
    """Whether a type is so large that it would go on growing."""
    if isinstance(t, UnionT):
        tensors = sum(isinstance(m, TensorT | Array0T) for m in t.members)
        tuples = sum(isinstance(m, TupleT | DictT) for m in t.members)
        if tensors > 6 or tuples > 12:
            return True
    return _depth(t) > 12


def _depth(t: Type) -> int:
    match t:
        case TupleT() | DictT():
            return 1 + max((_depth(u) for u in t.items), default=0)
        case ListT():
            return 1 + _depth(t.item)
        case UnionT():
            return max(_depth(u) for u in t.members)
    return 0


TOO_LARGE = "the result does not fit 64 bits"
ZERO_DIVISION = "integer division or modulo by zero"
_RANGE = frozenset("add sub mul neg abs exp expm1 sinh cosh hypot pow".split())  # of floats: what can only be too large
_WHOLE = frozenset("trunc round floor ceil".split())


def _scalar_failure(op: str, result: Type) -> tuple[str, str]:
    """Return the exception of an operation on Python's numbers, and its message."""
    if op in ("div", "quotient", "mod") or (op == "floordiv" and result == FLOAT):
        return "ZeroDivisionError", "division by zero" if result == FLOAT else ZERO_DIVISION
    if result == INT:
        return "OverflowError", TOO_LARGE
    return ("OverflowError", "math range error") if op in _RANGE else ("ValueError", "math domain error")


def _endless(op: str, args: Sequence[Any]) -> bool:
    """Whether a constant power or shift has so many digits that no program wants it."""
    if op not in ("pow", "lshift") or not all(isinstance(a, int) for a in args):
        return False
    base, by = args
    return bool(by > 0 and by * (base.bit_length() if op == "pow" else 1) > 1 << 14)
