"""The base of the walker: its frames, and the methods that its parts call on each other.

`Walker` is the emitter with the state of a walk. The statements, control flow, expressions, lists and functions of
the language are written in modules of their own, as classes on top of it; `lower.Lowerer` puts them together.
"""

from __future__ import annotations

import ast
import dataclasses
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from acronumba.data.shared import Shared, SharedConst, is_itself
from acronumba.data.witness import Witness
from acronumba.errors import Loc
from acronumba.frontend.emitter import (
    FunctionCode,
    Knowledge,
    Point,
    Template,
)  # fmt: skip
from acronumba.frontend.tensors import TensorOps
from acronumba.frontend.values import (
    EnumVal,
    Func,
    ListVal,
    Num,
    Range,
    Ref,
    StaticList,
    UnionVal,
    Val,
)  # fmt: skip
from acronumba.ir.types import (
    Type,
)  # fmt: skip

UNROLL = 16  # loops over a constant range up to this long are unrolled where they index something known,
MOST_OPERATIONS = 64  # or where all turns together are a straight line of so many operations on tensors


@dataclass(frozen=True, slots=True, kw_only=True)
class GlobalRead:
    """A global or closure variable that the program depends on, read anew at each mini-batch."""

    path: str  # its name, the root of the paths of its leaves
    # A dict, module or class that has it by its name, a closure cell, defaults of a function, a field of a dataclass.
    holder: Any = field(repr=False)
    name: Any  # in the holder
    shared: Shared  # its structure when the program was compiled

    @property
    def fixed(self) -> bool:
        """Whether it must stay the very object that it is: a witness sees to that."""
        return isinstance(self.shared, SharedConst) and is_itself(self.shared.value)

    def read(self) -> Any:
        """Return the present value; raise `KeyError` if there is none."""
        if isinstance(self.holder, types.CellType):
            return self.holder.cell_contents
        if isinstance(self.holder, dataclasses.Field):
            return getattr(self.holder, self.name)
        return (self.holder if isinstance(self.holder, dict | tuple) else vars(self.holder))[self.name]


@dataclass
class Loop:
    """An enclosing loop: where `break` and `continue` lead."""

    breaks: list[Point] = field(default_factory=list)
    continues: list[Point] = field(default_factory=list)


@dataclass
class Frame:
    """A function being walked."""

    func: Func
    scope: tuple[Any, ...]  # names of this call in the state
    path: tuple[Any, ...]  # the same in every sweep: for what is kept about places in the source
    locals: frozenset[str]
    returns: list[tuple[Point, Val, Loc]] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    overlays: list[tuple[tuple[Any, ...], frozenset[str]]] = field(default_factory=list)  # scopes of comprehensions


@dataclass
class Instance:
    """A function that is called, for one set of argument types."""

    key: Any
    kind: Any  # the key but for which shared tensors are given
    index: int
    func: Func
    templates: tuple[Template, ...]
    walking: bool = True


class Walker(TensorOps):
    """What all parts of the walker share: the calls being walked and what one topic needs of another."""

    roots: frozenset[str] = frozenset()

    def __init__(self, knowledge: Knowledge) -> None:
        super().__init__(knowledge)
        self.frames: list[Frame] = []
        self.functions: list[FunctionCode | None] = []
        self.instances: dict[Any, Instance] = {}
        self.globals: dict[tuple[int, str], GlobalRead] = {}
        self.scopes: dict[Any, tuple[frozenset[str], Func]] = {}
        self.counter = 0
        self.scanned: set[Any] = set()
        self.taken: set[str] = set()  # names of functions
        self.witness = Witness()  # what of Python was read
        self.inherited: dict[tuple[type, str], Loc] = {}  # what was read of classes through their objects, and where

    @property
    def frame(self) -> Frame:
        return self.frames[-1]

    def has(self, cls: type, name: str) -> bool:
        """Whether objects of a class have an attribute by their class."""
        return self.witness.owner(cls, name) is not None

    def deciding(self, cls: type, *names: str) -> str:
        """Return the first of some special methods that an enum has, if it is the user's own; else nothing."""
        for name in names:
            if self.has(cls, name):
                own = isinstance(self.witness.attribute(cls, name), types.FunctionType)
                return name if own and self.witness.owner(cls, name).__module__ != "enum" else ""
        return ""

    # ---- in the modules of the topics

    def body(self, stmts: Sequence[ast.stmt]) -> None:
        raise NotImplementedError

    def nested(self, node: ast.FunctionDef | ast.Lambda, name: str, args: ast.arguments) -> Func:
        raise NotImplementedError

    def assign(self, target: ast.expr, val: Val) -> None:
        raise NotImplementedError

    def bind(self, name: str, val: Val) -> None:
        raise NotImplementedError

    def forget(self, scope: Any, name: str) -> None:
        raise NotImplementedError

    def alias(self, val: Val) -> None:
        raise NotImplementedError

    def items_of(self, val: Val) -> tuple[Val, ...] | None:
        raise NotImplementedError

    def path_of(self, node: ast.expr) -> tuple[Any, ...] | None:
        raise NotImplementedError

    def branch(self, test: ast.expr) -> tuple[list[Point], list[Point]]:
        raise NotImplementedError

    def narrow(self, node: ast.expr, val: Val, wanted: Callable[[Type], bool]) -> tuple[list[Point], list[Point]]:
        raise NotImplementedError

    def truth(self, val: Val, node: ast.AST | None) -> Num:
        raise NotImplementedError

    def host_value(self, val: Val, node: ast.AST | None, what: str, index: bool = False) -> Num:
        raise NotImplementedError

    def slice_bound(self, val: Val, node: ast.AST | None) -> Num | UnionVal | None:
        raise NotImplementedError

    def snapshot(self) -> tuple[Any, ...]:
        raise NotImplementedError

    def rollback(self, snap: tuple[Any, ...]) -> None:
        raise NotImplementedError

    def while_loop(self, stmt: ast.While) -> None:
        raise NotImplementedError

    def for_loop(self, stmt: ast.For) -> None:
        raise NotImplementedError

    def iterate(
        self,
        iterable: Val,
        node: ast.AST,
        target: ast.expr,
        body: Callable[[], None],
        inner: Sequence[ast.AST],
        extra: Sequence[tuple[Any, str]] = (),
    ) -> None:
        raise NotImplementedError

    def unrolled_range(
        self, r: Range, target: ast.expr, inner: Sequence[ast.AST], body: Callable[[], None] | None = None
    ) -> tuple[Val, ...] | None:
        raise NotImplementedError

    def note_turns(self, count: int, over: ast.AST) -> None:
        raise NotImplementedError

    def at_run_time(self, val: Val) -> Val:
        raise NotImplementedError

    def match_statement(self, stmt: ast.Match) -> None:
        raise NotImplementedError

    def expr(self, node: ast.expr) -> Val:
        raise NotImplementedError

    def part(self, node: ast.expr) -> Val:
        raise NotImplementedError

    def new_list(self, items: Sequence[Val], node: ast.AST) -> Val:
        raise NotImplementedError

    def behind(self, value: Any) -> types.FunctionType | None:
        raise NotImplementedError

    def function(self, fn: types.FunctionType, node: ast.AST | Loc | None) -> Val:
        raise NotImplementedError

    def attribute_owner(self, node: ast.Attribute) -> Val:
        raise NotImplementedError

    def attribute_of(self, owner: Val, node: ast.Attribute) -> Val:
        raise NotImplementedError

    def not_none(self, val: UnionVal, node: ast.AST | None) -> Val:
        raise NotImplementedError

    def attribute(self, owner: Val, name: str, node: ast.AST | None) -> Val:
        raise NotImplementedError

    def class_attribute(self, owner: Val, cls: type, name: str, node: ast.AST | None) -> Val:
        raise NotImplementedError

    def default_value(self, value: Any, holder: Any, name: Any, path: str) -> Val:
        raise NotImplementedError

    def by_member(self, owner: EnumVal, value: Callable[[Any], Any]) -> Num:
        raise NotImplementedError

    def enum_attribute(self, owner: EnumVal, name: str, node: ast.AST | None) -> Val:
        raise NotImplementedError

    def load(self, ref: Ref, name: str, node: ast.AST | None) -> Val:
        raise NotImplementedError

    def truth_value(self, node: ast.expr) -> Val:
        raise NotImplementedError

    def binary(self, op: ast.operator, a: Val, b: Val, node: ast.AST) -> Val:
        raise NotImplementedError

    def compare(self, op: ast.cmpop, a: Val, b: Val, node: ast.AST) -> Val:
        raise NotImplementedError

    def subscript(self, base: Val, index: ast.expr, node: ast.AST) -> Val:
        raise NotImplementedError

    def list_get(self, base: ListVal, index: Num, node: ast.AST | None) -> Val:
        raise NotImplementedError

    def list_slice(self, base: ListVal, start: Num, step: int, count: Num, node: ast.AST) -> ListVal:
        raise NotImplementedError

    def static(self, val: Any, node: ast.AST | None) -> Any:
        raise NotImplementedError

    def place_of(self, target: ast.Subscript) -> tuple[ListVal, Any]:
        raise NotImplementedError

    def get_item(self, base: Val, where: Any, node: ast.AST) -> Val:
        raise NotImplementedError

    def set_item(self, base: ListVal, where: Any, target: ast.Subscript, val: Val) -> None:
        raise NotImplementedError

    def append(self, base: ListVal, val: Val, node: ast.AST, op: str = "append", index: Num | None = None) -> None:
        raise NotImplementedError

    def extend(self, base: ListVal, val: Val, node: ast.AST) -> None:
        raise NotImplementedError

    def to_list(self, val: Val, node: ast.AST) -> ListVal:
        raise NotImplementedError

    def list_concat(self, a: Val, b: Val, node: ast.AST) -> ListVal:
        raise NotImplementedError

    def list_repeat(self, seq: StaticList | ListVal, times: Num, node: ast.AST) -> Val:
        raise NotImplementedError

    def comprehend(self, node: ast.ListComp | ast.GeneratorExp) -> Val:
        raise NotImplementedError

    def call_expr(self, node: ast.Call) -> Val:
        raise NotImplementedError

    def call(self, func: Val, args: Sequence[Val], kwargs: Mapping[str, Val], node: ast.AST | None) -> Val:
        raise NotImplementedError
