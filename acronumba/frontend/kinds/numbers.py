"""Numbers and other scalars of Python: `int`, `float`, `bool`, None, members of enums."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from acronumba.data.shared import SharedLeaf
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.join_shapes import JoinShape, Parameter, StaticShape, TypeShape
from acronumba.frontend.kinds.value import NOT_CONST, Constant, Index, PythonClass, Val, Value
from acronumba.ir import nodes as ir
from acronumba.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    BoolT,
    EnumT,
    FloatT,
    IntT,
    NoneT,
    ScalarT,
    TextT,
    Type,
    type_text,
)
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.kinds.arrays import Tensor
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words


@record(eq=False, frozen=False)
class Num(Value):
    """A Python int, float or bool: a constant, a shared number, or a variable. Also a NumPy integer as a key."""

    type: IntT | FloatT | BoolT | TextT  # TextT only as an argument or result of `scalar`, see `StringValue`
    var: ir.Var | None = None
    const: Any = NOT_CONST
    shared: SharedLeaf | None = None  # a shared number, not yet read
    # Of an int computed from shared ints and constants: the operation of `SCALARS`, and its operands.
    given: tuple[str, Num, Num] | None = None
    dtype: str = ""  # of a NumPy integer that is the key of a dict

    family = "number"
    immutable = True
    is_own = True
    numeric = True

    @property
    def python_class(self) -> PythonClass:
        return {IntT: int, FloatT: float, BoolT: bool}.get(type(self.type), str)

    def describe(self, w: Blocks) -> str:
        text = type_text(self.word_type())
        return text if self.const is NOT_CONST else f"{text} {self.const}"

    def static(self, w: Words) -> Constant:
        return w.known(self)

    def static_key(self, w: Walker, which: bool) -> object:
        return self.type, repr(self.const), self.shared and self.shared.path

    def word_type(self) -> Type:
        return ScalarT(self.dtype) if self.dtype else self.type

    def variable(self) -> ir.Var | None:
        return self.var

    def _same(self, other: Value) -> bool:
        assert isinstance(other, Num)
        if self.dtype != other.dtype:
            return False
        if self.const is not NOT_CONST or other.const is not NOT_CONST:
            a, b = self.const, other.const
            return type(a) is type(b) and bool(a == b) and repr(a) == repr(b)
        return self.var is other.var and (self.var is not None or self.shared == other.shared)

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        return (w.word(self),) if self.word_type() == t else None

    def loop_shape(self, w: Merge) -> JoinShape:
        return self.join_shape(w)

    def promotes_as(self) -> tuple[int, str]:
        return 2, "float32" if self.type == FLOAT else "bool" if self.type == BOOL else "int64"

    def unary(self, w: Walker, op: ast.unaryop) -> Val | None:
        if isinstance(op, ast.USub):
            return w.scalar("neg", w.as_int(self) if self.type != FLOAT else w.read(self))
        if isinstance(op, ast.Invert):
            return None if self.type == FLOAT else w.scalar("invert", w.as_int(self))
        return w.as_int(self) if isinstance(op, ast.UAdd) else None

    def truth(self, w: Walker) -> Num:
        val = w.read(self)
        if val.type == BOOL:
            return val
        return number(bool(val.const)) if val.const is not NOT_CONST else w.scalar("bool", val)

    def as_key(self, w: Walker) -> Val:
        return self

    def array(self, w: Merge, dtype: str | None) -> Tensor:
        return w.ops.from_number(self, dtype or w.ops.natural(self))

    def axis_index(self, w: Walker) -> Num | Tensor | None:
        return self if self.type == INT else Value.axis_index(self, w)

    def host_number(self, w: Walker, what: str, index: bool) -> Num | None:
        return None if index and self.type == FLOAT else self

    def attribute(self, w: Walker, name: str) -> Val | None:
        return w.as_int(self) if name == "real" else None

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        known = self.const is not NOT_CONST and not parameter.plain
        return StaticShape(self) if known else TypeShape(self.type)


@record(eq=False, frozen=False)
class EnumVal(Value):
    cls: type[enum.Enum]
    var: ir.Var | None = None
    const: Any = NOT_CONST  # a member

    immutable = True
    compares_first = 3

    @property
    def python_class(self) -> PythonClass:
        return self.cls

    def static(self, w: Words) -> Constant:
        return self.const

    def static_key(self, w: Walker, which: bool) -> object:
        return self.cls, self.const

    def word_type(self) -> Type:
        return EnumT(self.cls)

    def _same(self, other: Value) -> bool:
        assert isinstance(other, EnumVal)
        return self.cls is other.cls and self.var is other.var and self.const is other.const

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        return (w.word(self),) if isinstance(t, EnumT) and t.cls is self.cls else None

    def loop_shape(self, w: Merge) -> JoinShape:
        return self.join_shape(w)

    def by_member(self, w: Words, value: Callable[[Any], Constant]) -> Num:
        """Return `value(member)`: a constant, or a chain of selects if the member is known only at run time."""
        if self.const is not NOT_CONST:
            return number(value(self.const))
        values = [value(member) for member in members_of(self.cls)]
        out: Num = number(values[-1])
        if all(v == values[-1] for v in values):
            return out
        for k, v in list(enumerate(values))[-2::-1]:
            out = w.select(w.scalar("eq", Num(INT, var=w.word(self)), number(k)), number(v), out)
        return out

    def truth(self, w: Walker) -> Num | None:
        decides = w.deciding(self.cls, "__bool__", "__len__")
        if decides == "__len__":
            raise w.reject("ACR209", seen=f"{decides} as a condition")
        if decides:
            method = self.attribute(w, decides)
            return None if method is None else w.call(method, (), {}).truth(w)
        return self.by_member(w, bool)

    def axis_index(self, w: Walker) -> Num | Tensor | None:
        return self.by_member(w, int) if issubclass(self.cls, int) else Value.axis_index(self, w)

    def host_number(self, w: Walker, what: str, index: bool) -> Num | None:
        return self.by_member(w, int) if issubclass(self.cls, int) else None

    def as_key(self, w: Walker) -> Val:
        if w.deciding(self.cls, "__eq__") or w.deciding(self.cls, "__hash__"):
            raise w.reject("ACR309", seen=f"a key {w.describe(self)}, whose class has a user-defined comparison")
        return self

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        known = self.const is not NOT_CONST and not parameter.plain
        return StaticShape(self) if known else self.join_shape(w)


@record(eq=False, frozen=False)
class NoneVal(Value):
    given: bool = False  # read from the data: in another mini-batch it may be another value

    family = "None"
    immutable = True
    is_own = True
    compares_first = 2
    operand_rewrite = "test it first: `if x is not None`"

    def describe(self, w: Blocks) -> str:
        return "None"

    def static(self, w: Words) -> Constant:
        return None

    def example(self, w: Words) -> Constant:
        return None

    def static_key(self, w: Walker, which: bool) -> object:
        return None

    def word_type(self) -> Type:
        return NONE

    def _same(self, other: Value) -> bool:
        return True

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        return () if isinstance(t, NoneT) else None

    def as_key(self, w: Walker) -> Val:
        return self

    def truth(self, w: Walker) -> Num:
        return number(False)

    def axis_index(self, w: Walker) -> None:
        return None

    def array(self, w: Merge, dtype: str | None) -> Tensor | None:
        if dtype is None:
            return None
        if dtype[0] in "fb":
            return w.ops.from_number(number(float("nan") if dtype[0] == "f" else False), dtype)
        w.fail("TypeError", "int() argument must be a string, a bytes-like object or a real number, not 'NoneType'")
        raise Dead

    def attribute(self, w: Walker, name: str) -> Val:
        if not self.given:
            rejection = w.reject("ACR307", seen=f"None has no attribute {name!r}")
            raise w.fails("AttributeError", rejection, f"'NoneType' object has no attribute '{name}'")
        w.fail("AttributeError", f"'NoneType' object has no attribute '{name}'")
        raise Dead

    def get_item(self, w: Walker, index: Index) -> Val | None:
        if not self.given:
            return None
        w.fail("TypeError", "'NoneType' object is not subscriptable")
        raise Dead


def as_number(e: ir.Extent) -> Num:
    """Return an extent as a number."""
    return number(e) if isinstance(e, int) else Num(INT, var=e)


def number(value: Any) -> Num:
    """Return a constant."""
    kind = BOOL if isinstance(value, bool) else INT if isinstance(value, int) else FLOAT
    return Num(kind, const=value)


ALWAYS = number(True)  # the last test of a dispatch


def members_of(cls: type[enum.Enum]) -> list[enum.Enum]:
    """Return the members of an enum, in the order of their numbers at run time."""
    return list(cls)
