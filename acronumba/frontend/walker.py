"""The walker: the state of a walk over the user's code, and the dispatch by the type of a node or value.

`Walker` emits IR and has a stack of frames. Handlers of statements, expressions, loops and calls are functions of a
walker in files of their own; they are registered for types of nodes and values in `handlers`.
"""

from __future__ import annotations

import ast
import dataclasses
import types
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from acronumba.data.shared import Shared, SharedConst, is_itself
from acronumba.data.source_guard import SourceGuard
from acronumba.errors import NOWHERE, AcronumbaError, Loc
from acronumba.frontend.block import WAYS_ON, Fork, FunctionCode, Point, State
from acronumba.frontend.exceptions import Dead, Rejected
from acronumba.frontend.facts import Facts
from acronumba.frontend.handlers import CALLS, CONDITIONS, EXPRESSIONS, MADE, STATEMENTS, TARGETS
from acronumba.frontend.impossible import impossible, not_iterable
from acronumba.frontend.join_shapes import JoinShape
from acronumba.frontend.kinds.arrays import AllocationSite, Lent
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.functions import Func
from acronumba.frontend.kinds.lists import ElementInfo
from acronumba.frontend.kinds.numbers import Num
from acronumba.frontend.kinds.torch_tensors import unfollowed
from acronumba.frontend.kinds.value import StateKey, Turns, Val
from acronumba.frontend.merge import Merge
from acronumba.frontend.source import assigned_names, is_forbidden
from acronumba.frontend.tensor_math import TensorMath
from acronumba.ir import nodes as ir
from acronumba.ir.notes import Note
from acronumba.ir.types import BOOL
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.boxes import NonlocalCell

UNROLL = 16  # length up to which loops over a constant range are unrolled if their variable is an index,
MOST_INSTRUCTIONS = 512  # up to this number of instructions in all,
MOST_OPERATIONS = 64  # or if all iterations are straight-line code of up to this number of operations on tensors


@record(kw_only=True)
class GlobalRead:
    """A global or closure variable that the program depends on, read anew at each mini-batch."""

    path: str  # its name, the root of the paths of its leaves
    # The dict, module or class that contains it by name, a closure cell, defaults of a function, a dataclass field.
    holder: Any = field(repr=False)
    name: Any  # in the holder
    shared: Shared  # its structure when the program was compiled

    @property
    def fixed(self) -> bool:
        """Whether it must stay the same object, which is checked by a source guard."""
        return isinstance(self.shared, SharedConst) and is_itself(self.shared.value)

    def read(self) -> Any:
        """Return the current value; raise `KeyError` if there is none."""
        if isinstance(self.holder, types.CellType):
            return self.holder.cell_contents
        if isinstance(self.holder, dataclasses.Field):
            return getattr(self.holder, self.name)
        return (self.holder if isinstance(self.holder, dict | tuple) else vars(self.holder))[self.name]


@dataclass(eq=False)
class Loop:
    """An enclosing loop: the points of its `break` and `continue` statements, and those where another iterable ends."""

    breaks: list[Point] = field(default_factory=list)
    ends: list[Point] = field(default_factory=list)
    continues: list[Point] = field(default_factory=list)


@record(kw_only=True)
class Event:
    """An event of an array that is written to, in the order of the walk."""

    kind: Literal["made", "written", "kept"]  # kept: a copy that was read has a name, and would miss writes
    place: AllocationSite
    parts: ir.Var | None  # of the array; None: it may be one of several that the site has made
    loops: tuple[Loop, ...]  # the loops around it
    loc: Loc
    whole: bool = False  # whether the copy could be the array itself, passed by reference
    frame: Frame | None = None  # the function of the library that stores a copy, until it returns


@dataclass
class Consumer:
    """A loop over the values that a generator function yields."""

    frame: Frame  # that contains the loop
    loop: Loop
    names: Sequence[tuple[Any, str]]  # state keys that its iterations assign
    turn: Callable[[Val], None]
    place: tuple[Any, ...]  # the source position
    handlers: int  # how many `try` statements are around it


@dataclass
class Frame:
    """A function being walked."""

    func: Func
    scope: tuple[Any, ...]  # names of this call in the state
    path: tuple[Any, ...]  # the same in every iteration: part of the keys of allocation sites
    locals: frozenset[str]
    returns: list[tuple[Point, Val, Loc]] = field(default_factory=list)
    last: Loc = NOWHERE  # the position of the last statement that was walked
    loops: list[Loop] = field(default_factory=list)
    # Of comprehensions: the scope, its names, and the names that an iteration may read before it binds them.
    overlays: list[tuple[tuple[Any, ...], frozenset[str], frozenset[str]]] = field(default_factory=list)
    consumer: Consumer | None = None  # of a generator function
    lent: list[Lent] | None = None  # the arrays to which it gives names, if these end with it
    of_library: bool = False  # a function of the library that is inlined
    calls_user: bool = False  # ... and calls a function of the user


@dataclass
class Instance:
    """A recursive function, compiled for one set of argument types."""

    key: Any
    kind: int  # the number of the key, up to the shared tensors passed
    index: int
    func: Func
    templates: tuple[JoinShape, ...]
    walking: bool = True
    relied: bool = False  # whether a call has read its result while it was walked
    told: tuple[Sequence[AcronumbaError], Sequence[Note]] = ((), ())  # errors and notes of its code


# Attributes of a walker that belong to the code being walked.
PLACE = ("source", "here", "loc", "outer_loc", "caller", "trying", "asked", "unclear", "before")


@record(kw_only=True, eq=False)
class Mark:
    """The state of a walk before a trial: everything that the trial may change."""

    block: int | None
    state: State
    sizes: tuple[int, ...]  # of the blocks
    ends: tuple[ir.End | None, ...]
    names: dict[str, int]
    widenings: dict[Loc, None]
    lengths: tuple[tuple[list[Any], int], ...]  # lists that only grow, and their lengths
    place: list[object]  # the attributes `PLACE`


class Walker(Merge):
    """The state of a walk; the handler of a node or value is found by its type (see `handlers`)."""

    roots: frozenset[str] = frozenset()

    def __init__(self, knowledge: Facts) -> None:
        super().__init__(knowledge)
        self.ops = TensorMath(self)
        self.frames: list[Frame] = []
        self.functions: list[FunctionCode | None] = []
        self.instances: dict[Any, Instance] = {}
        self._numbers: dict[Any, int] = {}  # numbers of large keys, for fast comparison
        self.structures: dict[int, tuple[Shared, int]] = {}  # by id: a shared value, the number of its structure
        self.globals: dict[tuple[int, str], GlobalRead] = {}
        self.boxes: dict[Hashable, NonlocalCell] = {}  # cells of names that nested functions bind, by state key
        self.scopes: dict[Any, tuple[frozenset[str], Func]] = {}
        self.counter = 0
        self.inlined: dict[Any, tuple[int, int]] = {}  # by code of a helper: its copies, and the expressions in them
        self.scanned: set[Any] = set()
        self.fitting: dict[Any, bool] = {}  # whether loops are unrolled, by frame path, site and length
        self.displays: set[Any] = set()  # key tuples of dict displays
        self.comparisons: list[ast.AST | None] = []  # the stack of nested comparisons,
        self.compared = 0  # the number of deeply nested ones inside the outermost,
        self.paired = 0  # and the number of pairs of element types in it
        self.comparing: list[Any] = []  # the pairs of classes whose objects are being compared
        self.asking = 0  # generators that wait and are asked for an item around the current node
        self.picked = 0  # number of reads of items of unlike types by a computed index that is constant
        self.taken: set[str] = set()  # names of functions
        self.source_guard = SourceGuard()  # the functions, classes and names that were read
        # Of the dicts and deques over which the enclosing loops iterate; the state key of a loop that is set where an
        # entry was taken out, so that the loop must not go on; and the rejection if it does.
        self.walked: list[tuple[ElementInfo, StateKey]] = []
        self.taken_out: dict[StateKey, Rejected] = {}
        # Functions under `functools.lru_cache`, their code or their definitions: whether it has a finite size.
        self.cached: dict[object, bool] = {}
        self.keys: dict[object, list[tuple[Any, object]]] = {}  # types and constants of their arguments
        self.forms: dict[object, list[object]] = {}  # and numbers of positional arguments and names of the others
        self.by_source = False  # whether a function of Numba was walked
        self.surely_written: set[tuple[type, str]] = set()  # attributes of the data that are certainly written
        self.inside_cached = 0  # calls of such functions around the current node
        self.events: list[Event] = []  # events of arrays that are written to, in order
        self.inherited: dict[tuple[type, str], Loc] = {}  # class attributes read through objects, and their positions
        self.early = False  # a function whose result type is not known yet was called
        self.apart: dict[tuple[str, ...], Loc] = {}  # paths of shared values that reach no object twice
        self.following = True  # whether gradients of tensors of PyTorch are followed here
        self.silent: list[Loc] = []  # positions of code skipped because of a rejection elsewhere
        self.undone: list[AcronumbaError] = []  # rejections in walks that were undone
        # Values of expressions that were evaluated as parts of others, which are not complete; of these, the first
        # `before` belong to nodes around the current one, the others are its own parts.
        self.parts: list[Val] = []
        self.before = 0
        self.handling: list[Val] = []  # the exceptions of the clauses around the current node, the innermost last
        # By id: an item of a name of several shapes, the name's state key and value, and the index of the item.
        self.items_read: dict[int, tuple[Val, StateKey, Val, Val]] = {}
        self.rebound: set[Any] = set()  # state keys of tensors that were changed in place, by a new value

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    @property
    def loops_around(self) -> tuple[Loop, ...]:
        """The loops around the current node, the outermost first."""
        return tuple(loop for frame in self.frames for loop in frame.loops)

    def number(self, key: Any) -> int:
        """Return a number that is the same for equal keys."""
        return self._numbers.setdefault(key, len(self._numbers))

    def has(self, cls: type, name: str) -> bool:
        """Whether a class, or a base of it, has an attribute."""
        return self.source_guard.owner(cls, name) is not None

    def deciding(self, cls: type, *names: str) -> str:
        """Return the first of `names` that an enum has, if it is a method of the user; else ""."""
        for name in names:
            if self.has(cls, name):
                own = isinstance(self.source_guard.attribute(cls, name), types.FunctionType)
                return name if own and self.source_guard.owner(cls, name).__module__ != "enum" else ""
        return ""

    # ---- found by type

    def expr(self, node: ast.expr) -> Val:
        """Evaluate an expression as an operand: an array that is written to is read."""
        return self.whole(self.value(node))

    def value(self, node: ast.expr) -> Val:
        """Evaluate an expression; an array that is written to stays an `ArrayRef`, and may be aliased."""
        saved = self.here, self.loc
        before, mine = self.before, len(self.parts)
        self.before = mine
        self.steps += 1
        self.move_to(node)
        try:
            handler = EXPRESSIONS.get(type(node))
            if handler is None:
                raise self.unknown(node, "ACR117")
            val: Val = handler(self, node)
            if self.block is not None:
                if not self.following and isinstance(node, ast.UnaryOp | ast.Subscript):
                    val = unfollowed(self, val)
                val = self.made(val)
        except WAYS_ON:
            self.here, self.loc = saved
            self.before = before
            del self.parts[mine:]
            raise
        self.here, self.loc = saved
        self.before = before
        del self.parts[mine:]
        self.parts.append(val)
        if self.block is None:
            raise Dead
        return val

    def made(self, val: Val) -> Val:
        """Note the allocation site of a new value; return the value that represents it from then on."""
        handler = MADE.get(type(val))
        return val if handler is None else handler(self, val)

    def branch(self, test: ast.expr) -> Fork:
        """Evaluate a condition; return the points where it is true and false, with tested names narrowed."""
        handler = CONDITIONS.get(type(test)) or CONDITIONS[ast.expr]
        mine = len(self.parts)
        fork: Fork = handler(self, test)
        del self.parts[mine:]
        return fork

    def body(self, stmts: Sequence[ast.stmt]) -> None:
        """Walk statements one after the other, as far as they are reachable."""
        frame, loops = self.frame, self.frame.loops
        around = len(loops)
        saved = self.here, self.loc
        before, mine = self.before, len(self.parts)
        for stmt in stmts:
            if self.block is None:
                break
            del self.parts[mine:]
            self.before = mine
            self.move_to(stmt)
            frame.last = self.loc
            try:
                handler = STATEMENTS.get(type(stmt))
                if handler is None:
                    raise self.unknown(stmt, "ACR108")
                handler(self, stmt)
            except Dead:
                del loops[around:]  # this leaves a loop whose first condition fails
                self.block = None
            except Rejected as error:
                del loops[around:]
                self.recover(error, stmt)
        del self.parts[mine:]
        self.before = before
        self.here, self.loc = saved

    def unknown(self, node: ast.stmt | ast.expr, code: str) -> Rejected:
        """Return the exception to raise for a node that is not supported."""
        if is_forbidden(node):  # noted when its function was read
            return Rejected(None)
        return self.reject(code, seen=type(node).__name__)

    def recover(self, error: Rejected, stmt: ast.stmt) -> None:
        """Note a rejection, and continue after the statement, with an `ErrorValue` for each name that it binds."""
        self.note_rejection(error)
        outer = stmt.names if isinstance(stmt, ast.Global | ast.Nonlocal) else ()
        for name in (*assigned_names([stmt]), *outer):
            self.state[(self.frame.scope, name)] = ErrorValue(for_now=self.early)
        if isinstance(stmt, ast.Raise):
            self.block = None
            return
        self.go_on()
        # The caller continues with an `ErrorValue`. In a library function no further error is the user's.
        if isinstance(stmt, ast.Return) or self.outer_loc is not None:
            self.end_call(ErrorValue(), self.loc)

    def end_call(self, val: Val, loc: Loc) -> None:
        """Return a value from the current function; nothing if this point is unreachable."""
        self.frame.returns += [(point, val, loc) for point in self.leave()]

    def part(self, node: ast.expr) -> Val:
        """Evaluate one of several expressions; its rejection is noted, so that the others are evaluated, too."""
        try:
            return self.value(node)
        except Rejected as error:
            self.note_rejection(error)
            self.go_on()
            return ErrorValue()

    def go_on(self) -> None:
        """Open a new block after a rejection, unless the current block is still open."""
        if self.block is None or self.code.ends[self.block] is not None:
            self.block = self.new_block()

    @property
    def told(self) -> frozenset[Any]:
        """Codes, positions and texts of all rejections: equal in two iterations if new facts have not affected them."""
        return frozenset((e.code, e.loc, e.seen) for e in self.errors)

    def note_rejection(self, error: Rejected) -> None:
        """Note a rejection, or the position of code skipped because of another one."""
        if error.error is not None:
            self.errors.append(error.error)
        else:
            self.silent.append(self.loc)

    def unknown_bool(self) -> Num:
        """Return a bool in place of a rejected condition."""
        return Num(BOOL, var=self.var("", BOOL))

    def assign(self, target: ast.expr, val: Val) -> None:
        """Assign a value to a target."""
        with self.at_node(target):
            TARGETS[type(target)](self, target, val)

    def call(self, func: Val, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
        """Call a value."""
        handler = CALLS.get(type(func))
        if handler is None:
            rejection = self.reject("ACR301", seen=f"{self.describe(func)} cannot be called")
            raise impossible(self, lambda f: f(), (func,), rejection)
        return handler(self, func, args, kwargs)  # type: ignore[no-any-return]

    def items_of(self, val: Val) -> tuple[Val, ...] | None:
        """Return the items of an iterable that are known one by one, else None."""
        self.check_items(val, "__iter__")
        return val.known_items(self)

    def check_items(self, val: Val, *methods: str) -> None:
        """Reject a NamedTuple whose class has one of these methods of its own, where it is taken as a plain tuple."""
        for cls in val.object_classes():
            for name in methods if issubclass(cls, tuple) else ():
                if isinstance(self.source_guard.attribute(cls, name), types.FunctionType):
                    raise self.reject("ACR209", seen=f"{name} of {self.describe(val)}", rewrite="name its fields")

    def turns(self, val: Val) -> Turns:
        """Return functions for the iteration over a value at run time (see `Value.turns`)."""
        found = val.turns(self)
        if found is None:
            raise not_iterable(self, val)
        return found

    # ---- frames

    def push(self, func: Func, path: tuple[Any, ...]) -> Frame:
        """Begin to walk a function."""
        a = func.source.node.args
        stars = [p for p in (a.vararg, a.kwarg) if p is not None]
        names = func.source.facts.assigned | {p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs, *stars)}
        self.counter += 1
        scope = (self.counter, func.source.name)
        frame = Frame(func, scope, path, names)
        self.scopes[scope] = (names, func)
        self.frames.append(frame)
        return frame

    # ---- trials

    def mark(self) -> Mark:
        """Return a mark of the current state, for `go_back` after a trial."""
        grows: list[list[Any]] = [
            self.errors, self.certain, self.notes, self.walked, self.frames, self.events, self.silent, self.parts,
            self.handlers, self.handling,
            *(clause.raised for handler in self.handlers for clause in handler.clauses),
        ]  # fmt: skip
        for frame in self.frames:
            grows += [frame.returns, frame.loops, frame.overlays]
            grows += [x for loop in frame.loops for x in (loop.breaks, loop.continues, loop.ends)]
        return Mark(
            block=self.block, state=dict(self.state), sizes=tuple(map(len, self.code.blocks)),
            ends=tuple(self.code.ends), names=dict(self.code.names), widenings=dict(self.widenings),
            lengths=tuple((x, len(x)) for x in grows), place=[getattr(self, name) for name in PLACE],
        )  # fmt: skip

    def go_back(self, mark: Mark) -> None:
        """Undo everything emitted and noted since a mark."""
        del self.code.blocks[len(mark.sizes) :]
        for instrs, size in zip(self.code.blocks, mark.sizes, strict=True):
            del instrs[size:]
        for x, n in mark.lengths:
            if x is self.errors:
                self.undone += x[n:]
            del x[n:]
        self.code.ends, self.code.names = list(mark.ends), dict(mark.names)
        self.block, self.state, self.widenings = mark.block, dict(mark.state), dict(mark.widenings)
        for name, val in zip(PLACE, mark.place, strict=True):
            setattr(self, name, val)
