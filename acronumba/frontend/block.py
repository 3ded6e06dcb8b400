"""Emission of IR during the walk over the user's code: blocks, points, failure sites, and scalars.

`Blocks` has the point of emission (`block`, None in unreachable code) and the state of all names in scope (`state`).
`Cells`, `Words`, `Merge` and the walker derive from it.
"""

from __future__ import annotations

import ast
import math
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from acronumba.data.schema import NODES
from acronumba.data.shared import Shared, SharedLeaf
from acronumba.errors import NOWHERE, AcronumbaError, Loc
from acronumba.errors.codes import reject
from acronumba.foreign import AWAY
from acronumba.frontend.exceptions import Abandoned, Dead, Hopeless, Rejected, Restart
from acronumba.frontend.facts import Facts
from acronumba.frontend.kinds.arrays import ArrayRef
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.numbers import ALWAYS, EnumVal, Num, members_of, number
from acronumba.frontend.kinds.objects import ObjectValue
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Constant, Val
from acronumba.frontend.naming import note_named
from acronumba.frontend.numbering import Key, Naturals, Numbering, fits, gives_natural
from acronumba.frontend.raised import TOO_LARGE, ZERO_DIVISION, Catching, is_endless, scalar_failure
from acronumba.frontend.source import Source, spot
from acronumba.ir import nodes as ir
from acronumba.ir.notes import Note
from acronumba.ir.ops import SCALARS
from acronumba.ir.types import BOOL, FLOAT, INT, TEXT, Array0T, FloatT, IntT, ListT, Type, Word
from acronumba.ir.visit import writes

B = TypeVar("B")
T = TypeVar("T")
if TYPE_CHECKING:
    from acronumba.frontend.tensor_math import TensorMath

State = dict[Any, Val]  # by (scope, name); also narrowed parts of a name: (scope, name, part, ...)
Point = tuple[int, State]  # a block, and the state in which control flow continues there
Fork = tuple[list[Point], list[Point]]  # where a condition is true, and where it is false
Cases: TypeAlias = Iterable[tuple[Num, B]]  # tests and branches; each test is emitted where all before it are false


@dataclass
class FunctionCode:
    """The IR of one function while it is written."""

    name: str
    loc: Loc
    params: tuple[ir.Var, ...] = ()
    results: tuple[Word, ...] = ()
    blocks: list[list[ir.Instr]] = field(default_factory=list)
    ends: list[ir.End | None] = field(default_factory=list)
    names: dict[str, int] = field(default_factory=dict)
    given: dict[ir.Var, str] = field(default_factory=dict)  # the user's names of variables
    numbering: Numbering = field(default_factory=Numbering)  # value numbering

    def note_name(self, val: Val, name: str) -> None:
        """Note the name that the user gives to a value."""
        var = val.variable()
        if var is not None and not name.startswith("#"):
            self.given.setdefault(var, name)


WAYS_ON = (
    Rejected,
    Dead,
    Abandoned,
    Restart,
)  # exceptions after which the walk continues; after any other, `loc` stays at the position of the failure


class _AtNode:
    """Context manager that sets the current node for the body of a `with` statement."""

    __slots__ = ("_blocks", "_node", "_saved")

    def __init__(self, blocks: Blocks, node: ast.AST | None) -> None:
        self._blocks, self._node = blocks, node

    def __enter__(self) -> None:
        self._saved = self._blocks.here, self._blocks.loc
        self._blocks.move_to(self._node)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None or issubclass(kind, WAYS_ON):
            self._blocks.here, self._blocks.loc = self._saved


class Blocks(Catching):
    """The point of emission: blocks, failure sites, scalars; see the module docstring."""

    ops: TensorMath  # operations on tensors

    def __init__(self, knowledge: Facts) -> None:
        self.facts = knowledge
        self.code = FunctionCode("", NOWHERE)
        self.block: int | None = None
        self.state: State = {}
        self.here: ast.AST | None = None  # the current node,
        self.loc: Loc = NOWHERE  # and its position, for instructions and errors
        self.trying = False  # whether this is a trial walk, in which a new block raises `Abandoned`
        self.steps = 0  # expressions that were walked, and alternatives of values
        self.outer_loc: Loc | None = None  # where the user called the library function that is being walked
        self.source: Source | None = None
        self.caller: Loc | None = None  # the call that is replaced by the body of the function (inlining)
        self.written_before = frozenset(knowledge.changing)  # classes that an earlier iteration has found to be mutated
        self.building: set[tuple[str, int]] = set()  # objects whose `__init__` is being walked
        self.sealed: dict[tuple[str, int], ir.Var] | None = None  # rows of objects that are mutated no more
        self.sites: dict[ir.Site, int] = {}
        self.shared_index: dict[str, int] = {}
        self.shared_roots: list[Shared] = []  # structures of the shared values that were read
        self.shared_params: list[ir.SharedParam] = []
        self.reads: dict[type, set[str]] = {}  # fields that are loaded
        self.stored: dict[type, set[str]] = {}  # fields of objects that are made here
        self.demanded: set[str] = set()
        self.used: set[int] = set()  # ids of the parts of shared values that were read
        self.constants: dict[str, Any] = {}
        self.errors: list[AcronumbaError] = []
        # The calls of functions that are not the user's around the current node, the outermost first: see `impossible`.
        self.asked: list[tuple[Callable[..., Constant], Sequence[Val]]] = []
        self.certain: list[AcronumbaError] = []  # failures of all instances that get there: see `fails`
        self.notes: list[Note] = []  # for `explain`
        self.left_out: dict[Loc, None] = {}  # calls that only tell
        self.widenings: dict[Loc, None] = {}  # where float32 becomes float64 by NumPy's rules
        self.unwrapped: set[Callable[..., Constant]] = set()  # functions of models and of cached functions
        self.naturals = Naturals(lambda: self.block, lambda: self.code)
        # exclusive upper bounds of variables of loops over a range that starts at 0
        self.below: dict[ir.Var, Num] = {}
        self.came_in: set[ir.Var] = set()  # variables of values that were certainly not made in the call
        self.data_lists: set[ListT] = set()  # types of lists that instances or shared parameters hold
        self.handlers = []

    # ---- rejecting

    def at(self, node: ast.AST | Loc | None) -> Loc:
        """Return the position of a node of the current function; in a library function, that of the user's call."""
        if self.outer_loc is not None:
            return self.outer_loc
        if isinstance(node, Loc):
            return node
        if node is None or self.source is None or not hasattr(node, "lineno"):
            return self.loc
        return self.source.loc(node, self.caller)

    def move_to(self, node: ast.AST | None) -> None:
        """Make a node the current one; a node without a position changes nothing."""
        if node is not None and hasattr(node, "lineno"):
            self.here = node
            if self.outer_loc is not None:
                self.loc = self.outer_loc
            elif self.source is not None:
                self.loc = self.source.loc(node, self.caller)

    def at_node(self, node: ast.AST | None) -> _AtNode:
        """Make a node the current one for the body of a `with` statement, so that the caret is under it."""
        return _AtNode(self, node)

    @property
    def site(self) -> tuple[int | str, ...]:
        """The key of an allocation site at the current node, the same in every walk of its function."""
        return spot(self.here)

    def beside(self, name: str) -> ast.AST | None:
        """Return a synthetic node at the position of the current one, with another allocation site."""
        return self.here if self.here is None else ast.copy_location(ast.Name(name), self.here)

    def reject(
        self, code: str, node: ast.AST | Loc | None = None, seen: str = "", rewrite: str = "", message: str = ""
    ) -> Rejected:
        """Return the exception to raise for unsupported code; raise `Hopeless` if the walk has to end."""
        if code == "ACR202" and self.facts.tensors:
            message = message or "this function or argument is not supported"
        if code in ("ACR111", "ACR112") and self.facts.tensors:
            message = "this tensor cannot be written to" if code == "ACR111" else message
            rewrite = rewrite.replace(".copy()", ".clone()")
        if code == "ACR501" and self.facts.tensors:
            message = message or "this value cannot be read in a batch"
            rewrite = rewrite or "a tensor, number, string or module, or a list or dict of them, as the attribute"
        if AWAY in seen:
            rewrite = "net.cpu() and x.cpu(), then results.stack().to(device)"
        error = reject(code, self.at(node), seen, rewrite, message)
        if code == "ACR304" and rewrite == NODES:
            raise Hopeless(error)
        return Rejected(error)

    def fails(self, error: str, rejection: Rejected, text: str = "") -> Exception:
        """Return the exception to raise where Python raises `error`, whatever the values: it is the instance's failure.

        The code behind it is unreachable. If no instance can get past it, the program is rejected instead.
        """
        if rejection.error is None or self.block is None:
            return Dead()
        here, self.loc = self.loc, rejection.error.loc
        text = text or rejection.error.seen
        caught = self.catches(error)
        self.fail(error, text.replace("{", "{{").replace("}", "}}"))
        if caught:
            self.loc = here
            return Dead()
        self.certain.append(rejection.error)
        self.notes.append(
            Note(loc=self.loc, kind="fails", text=f"{error} where an instance gets here: {text}", option="")
        )
        self.loc = here
        return Dead()

    # ---- descriptions in errors

    def describe(self, val: Val) -> str:
        """Return a description of a value in the user's terms, for errors."""
        return val.describe(self)

    def check_poison(self, *vals: Val) -> None:
        for v in vals:
            if isinstance(v, ErrorValue):
                raise Dead if self.block is None and not v.why else v.rejection(self)

    # ---- blocks

    def new_block(self, *over: int) -> int:
        """Return the number of a new block; every path to it passes one of the blocks `over`, if any are given."""
        if self.trying:
            raise Abandoned
        self.code.blocks.append([])
        self.code.ends.append(None)
        made = len(self.code.blocks) - 1
        self.code.numbering.begin(made, over)
        return made

    def emit(self, instr: ir.Instr) -> None:
        if self.block is not None:
            self.code.blocks[self.block].append(instr)

    def once(self, key: Key, make: Callable[[], ir.Instr], far: bool = True) -> ir.Instr:
        """Emit an instruction, or reuse an equal one that every path to this point has passed; return the instruction.

        Without `far`, only the current block is searched: for cheap instructions, as blocks may become functions of
        their own.
        """
        assert self.block is not None
        blocks, numbering = self.code.blocks, self.code.numbering
        instr = numbering.find(blocks, self.block, key, far)
        if instr is None:
            instr = make()
            numbering.note(self.block, key, len(blocks[self.block]), instr)
            self.emit(instr)
        return instr

    def end(self, end: ir.End) -> None:
        """End the current block; the code that follows is unreachable until a block is entered."""
        if self.block is not None:
            assert self.code.ends[self.block] is None
            self.code.ends[self.block] = end
            self.block = None

    def var(self, name: str, type: Word) -> ir.Var:
        """Return a new variable with a unique name based on `name`; "#fold(...)" becomes `fold`."""
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
        return ir.Var(out, type.word if isinstance(type, ListT) else type)

    def point(self) -> Point:
        if self.block is None:
            raise Dead
        return self.block, self.state

    def enter(self, points: Sequence[Point]) -> None:
        """Continue at a point, with a copy of its state; without one, the code that follows is unreachable."""
        self.block = None
        for block, state in points:
            self.block, self.state = block, dict(state)

    def leave(self) -> list[Point]:
        """Return the current point, if it is reachable; the code that follows is not, until a point is entered."""
        points = [(self.block, self.state)] if self.block is not None else []
        self.block = None
        return points

    def meet(self, ends: Sequence[int], state: State) -> None:
        """Let several blocks jump to a new one, with a state that is valid at the end of each."""
        target = self.new_block(*ends)
        for k in ends:
            assert self.code.ends[k] is None
            self.code.ends[k] = ir.Jump(block=target, loc=self.loc)
        self.block, self.state = target, state

    def meet_again(self, points: Sequence[Point]) -> None:
        """Join the paths of a dispatch over the cases of one value, in which no name is bound."""
        if len(points) > 1:
            self.meet([block for block, _ in points], dict(points[0][1]))
            for val in self.state.values():
                note_named(val)
        elif points:
            self.block, self.state = points[0]
        else:
            self.block = None

    def fork(self, cond: Num) -> Fork:
        """Branch on a bool: return the points where it is true and false; none where it cannot be."""
        if self.block is None:
            return [], []
        if cond.const is not NOT_CONST:
            here = self.leave()
            return (here, []) if cond.const else ([], here)
        yes, no = self.new_block(self.block), self.new_block(self.block)
        state = self.state
        self.end(ir.Branch(cond=self.word(cond), yes=yes, no=no, loc=self.loc))
        return [(yes, dict(state))], [(no, dict(state))]

    def along(self, cases: Cases[B], evaluate: Callable[[B], T]) -> tuple[list[Point], list[T]]:
        """Evaluate the branch of the first test that holds; return the points where the branches end, and results."""
        points: list[Point] = []
        results: list[T] = []
        for test, branch in cases:
            yes, no = self.fork(test)
            self.enter(yes)
            if yes:
                try:
                    result = evaluate(branch)
                except Dead:
                    self.block = None
                if self.block is not None:
                    results.append(result)
                points += self.leave()
            self.enter(no)
            if not no:
                break
        return points, results

    def failure_site(self, error: str, text: str) -> int:
        loc = replace(self.loc, caller=None)  # one failure site for all calls of the function
        return self.sites.setdefault(ir.Site(error, text, loc), len(self.sites))

    def throw(self, error: str, told: Sequence[Val] | None) -> None:
        """Continue in the clause that catches a failure; `told` are the arguments of its exception, if known."""
        cls = self.raised_class(error)
        assert cls is not None
        clause = self.catcher(cls)
        assert clause is not None
        known = told is not None and self.outer_loc is None and "args" in self.facts.asked
        val = ObjectValue(cls, ("args",), (TupleVal(tuple(told or ())),)) if known else ObjectValue(cls, (), ())
        clause.note(self.leave(), val)

    def check(
        self, cond: Num, error: str, text: str, args: Sequence[Num] = (), told: Sequence[Val] | None = None,
        ours: bool = False
    ) -> None:  # fmt: skip
        """Let the instance fail unless a bool holds, or branch to the clause that catches the exception.

        `told` are the arguments of Python's exception, if they are known. A failure that is `ours` is none of the plain
        call, and nothing catches it.
        """
        if self.block is None or (cond.const is not NOT_CONST and cond.const):
            return
        if self.handlers and not ours and self.catches(error):
            numbering, var = self.code.numbering, self.word(cond) if cond.const is NOT_CONST else None
            if var is not None and numbering.holds(self.block, var):
                return
            cases = [(cond, lambda: None), (ALWAYS, lambda: self.throw(error, told))]
            self.meet_again(self.along(cases, operator.call)[0])
            if var is not None and self.block is not None:
                numbering.true[self.block] = var
            return
        site = self.failure_site(error, text)
        values = tuple(self.word(a) for a in args)
        if cond.const is not NOT_CONST:
            self.end(ir.Fail(site=site, args=values, loc=self.loc))
            return
        var = self.word(cond)
        self.once(("check", var), lambda: ir.Check(cond=var, site=site, args=values, loc=self.loc))

    def fail(self, error: str, text: str, told: Sequence[Val] | None = None, ours: bool = False) -> None:
        """Let the instance fail, or jump to the clause that catches the exception (see `check`)."""
        if self.handlers and not ours and self.catches(error):
            self.throw(error, told)
        if self.block is not None:
            self.end(ir.Fail(site=self.failure_site(error, text), args=(), loc=self.loc))

    # ---- scalars

    def never(self) -> Dead:
        """Return the exception to raise where an element of an always empty list is read."""
        self.fail("IndexError", "list index out of range")
        return Dead()

    def const(self, value: Any) -> Num:
        return number(value)

    def word(self, num: Num | EnumVal) -> ir.Var:
        """Return the variable of a number; emit a constant, or the read of a shared number, if it has none."""
        if num.var is None:
            if isinstance(num, EnumVal):
                value: Any = members_of(num.cls).index(num.const)
                num = Num(INT, const=value)
            if num.const is NOT_CONST:
                assert num.shared is not None
                index, name = self.shared(num.shared), last_name(num.shared.path)
                return self._known_word(
                    ("shared", index), num.type, name, lambda out: ir.Shared(out=out, index=index, loc=self.loc)
                )
            value = num.const
            if num.type == INT and not -(2**63) <= value < 2**63:
                self.fail("OverflowError", "int too large for 64 bits", ours=True)
                self.block, value = self.new_block(), 0  # unreachable
            return self._known_word(
                ("const", num.type, repr(value)), num.type, "",
                lambda out: ir.Const(out=out, value=value, loc=self.loc),
            )  # fmt: skip
        return num.var

    def _known_word(self, key: Key, type: Word, name: str, make: Callable[[ir.Var], ir.Instr]) -> ir.Var:
        """Return the variable of a constant or shared number, whose instruction can be emitted anywhere."""
        if self.block is None:
            return self.var(name, type)
        (out,) = writes(self.once(key, lambda: make(self.var(name, type)), far=False))
        return out

    def shared(self, leaf: SharedLeaf) -> int:
        if leaf.path not in self.shared_index:
            self.shared_index[leaf.path] = len(self.shared_params)
            word = leaf.type.scalar if isinstance(leaf.type, Array0T) else leaf.type
            self.shared_params.append(ir.SharedParam(path=leaf.path, type=word))
        return self.shared_index[leaf.path]

    def shared_number(self, leaf: SharedLeaf, type: IntT | FloatT) -> Num:
        """Return a shared int or float; an int that has been folded is a constant in all its uses."""
        if leaf.path in self.facts.folded and leaf.path in self.constants:
            return number(self.constants[leaf.path])
        return Num(type, shared=leaf)

    def known(self, num: Num) -> Any:
        """Return the constant value of a number, or NOT_CONST; a shared int thereby becomes a constant."""
        if num.const is NOT_CONST and num.shared is not None and num.shared.path in self.constants:
            self.demanded.add(num.shared.path)
        return self.present(num) if num.given is None else NOT_CONST

    def present(self, num: Num) -> Any:
        """Return the constant value of a number, or NOT_CONST; unlike `known`, a shared int stays a run-time value."""
        if num.const is NOT_CONST and num.shared is not None:
            return self.constants.get(num.shared.path, NOT_CONST)
        if num.given is not None:
            op, a, b = num.given
            values = self.present(a), self.present(b)
            return NOT_CONST if NOT_CONST in values else SCALARS[op].reference(*values)
        return num.const

    def decided(self, num: Num) -> Any:
        """Return the value of a number on which the compiled program depends; its shared ints become constants."""
        if num.given is None:
            return self.known(num)
        value = self.present(num)
        if value is not NOT_CONST:
            for part in num.given[1:]:
                self.decided(part)
        return value

    def scalar(self, op: str, *args: Num) -> Num:
        """Apply an operation of `SCALARS`, folding constants."""
        row = SCALARS[op]
        result: Any = {"i": INT, "f": FLOAT, "b": BOOL, "t": TEXT}.get(row.result) or args[-1].type
        if all(a.const is not NOT_CONST for a in args):
            try:
                if is_endless(op, [a.const for a in args]):
                    raise OverflowError(TOO_LARGE)
                value = row.reference(*(a.const for a in args))
            except (ArithmeticError, ValueError) as error:
                self.fail(type(error).__name__, str(error), ours=str(error) == TOO_LARGE)
                return Num(result, var=self.var("", result))
            if not isinstance(value, complex):
                return Num(result, const=value)
        if self.block is None:
            return Num(result, var=self.var("", result))
        args = tuple(map(self.read, args))
        known = self.code.numbering.simplified(op, args, self.naturals)
        if known is not None:
            return known
        vars = tuple(map(self.word, args))

        key = (op, *(a.var if a.const is NOT_CONST else (a.type, repr(a.const)) for a in args))
        if self.handlers and row.fails and self.code.numbering.find(self.code.blocks, self.block, key, True) is None:
            self._check_defined(op, args, result)
            if self.block is None:
                return Num(result, var=self.var("", result))

        def made() -> ir.Instr:
            fails = row.fails and not fits(op, args, self.naturals)
            site = self.failure_site(*scalar_failure(op, result)) if fails else -1
            return ir.Scalar(out=self.var("", result), op=op, args=vars, site=site, loc=self.loc)

        (out,) = writes(self.once(key, made))
        self.code.numbering.made[out] = op, args
        if result == INT and gives_natural(op, args, self.naturals):
            self.naturals.add(out)
        return Num(result, var=out)

    def _check_defined(self, op: str, args: Sequence[Num], result: Type) -> None:
        """Check that an operation has a result, where a `try` statement catches its exception."""
        if SCALARS[op].divides:
            zero = number(0.0 if args[1].type == FLOAT else 0)
            self.check(self.scalar("ne", args[1], zero), "ZeroDivisionError", ZERO_DIVISION)
        elif f"defined_{op}" in SCALARS and args[0].type == FLOAT:
            error, text = scalar_failure(op, result)
            if self.catches(error):
                self.check(self.scalar(f"defined_{op}", *args), error, text)

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

    def float_power(self, a: Num, b: Num, error: str, text: str) -> Num:
        """Return a power of Python floats; `error` and `text` are the exception for zero to a negative power."""
        x, y, zero = self.as_float(a), self.as_float(b), number(0.0)
        finite = self.scalar("isfinite", y)
        below = self.both(finite, self.scalar("lt", y, zero))
        if below.const is NOT_CONST or below.const:
            self.check(self.negate(self.both(below, self.scalar("eq", x, zero))), error, text)
        broken = finite
        if y.const is NOT_CONST or math.isfinite(y.const):
            broken = self.both(finite, self.scalar("ne", self.scalar("mod", y, number(1.0)), zero))
        if broken.const is NOT_CONST or broken.const:
            negative = self.both(self.scalar("lt", x, zero), self.scalar("isfinite", x))
            domain = "math domain error" if error == "ValueError" else "a root of a negative number is complex"
            self.check(self.negate(self.both(broken, negative)), "ValueError", domain, ours=error != "ValueError")
        return self.scalar("pow", x, y)

    def read(self, num: Num) -> Num:
        """Return a number with its shared value read into a variable; constants stay constants."""
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

    def extent(self, e: ir.Extent) -> Num:
        return number(e) if isinstance(e, int) else Num(INT, var=e)

    def as_extent(self, num: Num) -> ir.Extent:
        value = self.known(num)
        return value if value is not NOT_CONST else self.word(num)

    def extent_of(self, ref: ir.Var, axis: int) -> ir.Var:
        """Return the variable of an extent that is known only at run time."""
        name = f"n{axis}"
        if self.block is None:
            return self.var(name, INT)

        def made() -> ir.Instr:
            return ir.ExtentOf(out=self.var(name, INT), tensor=ref, axis=axis, loc=self.loc)

        (out,) = writes(self.once(("extent", ref, axis), made))
        self.naturals.add(out)
        return out

    def note_extents(self, ref: ArrayRef) -> ArrayRef:
        """Note that the variable extents of an array are not negative."""
        extents = (*(a.extent for a in ref.axes), *(n for c in ref.cuts for n in (c.extent, c.count)))
        self.naturals.tested(extents)
        return ref


def last_name(path: str) -> str:
    out = "".join(c if c.isalnum() else "_" for c in path.rsplit(".", 1)[-1]).strip("_")
    return out or "shared"
