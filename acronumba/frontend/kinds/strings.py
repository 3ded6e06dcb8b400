"""Strings: constants, and strings of run time, which are words.

In: the operations of `Value`. Out: operations of `SCALARS` on strings, which compute constants at compile time. The
other methods of strings are made of these, in `library.strings`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from acronumba.frontend.calls.tables import row_of
from acronumba.frontend.comprehensions import as_iterable, built
from acronumba.frontend.conditions import host_value
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.handlers import CONSTANTS, WORDS, handles
from acronumba.frontend.join_shapes import JoinShape, Parameter, TypeShape
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.iterators import Range
from acronumba.frontend.kinds.lists import ListVal
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Constant, Index, Turns, Val, Value
from acronumba.frontend.lists import checked_index, new_list
from acronumba.frontend.magic import one_string
from acronumba.frontend.subscripts import cut, list_index
from acronumba.ir import nodes as ir
from acronumba.ir.ops import PREDICATES
from acronumba.ir.types import FLOAT, NEVER, TEXT, ListT, StrT, TextT, Type
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker
    from acronumba.frontend.words import Words

T = TypeVar("T")


@record(eq=False, frozen=False)
class StringValue(Value):
    """A string, as an operand of `w.scalar`: a constant, or a variable."""

    num: Num  # of type TEXT

    python_class = str
    family = "str"
    immutable = True
    iterable = True
    operand_rewrite = "compute with numbers; make the text from the results"

    def describe(self, w: Blocks) -> str:
        return Value.describe(self, w) if self.num.const is NOT_CONST else f"the string {self.num.const!r}"

    def static(self, w: Words) -> Constant:
        return self.num.const

    def word_type(self) -> Type:
        return TEXT if self.num.const is NOT_CONST else StrT(self.num.const)

    def parameter_shape(self, w: Merge, parameter: Parameter) -> JoinShape:
        return TypeShape(TEXT) if parameter.texts else self.join_shape(w)

    def variable(self) -> ir.Var | None:
        return self.num.var

    def _same(self, other: Val) -> bool:
        assert isinstance(other, StringValue)
        return self.num.const == other.num.const and self.num.var is other.num.var

    def to_words(self, w: Words, t: Type) -> tuple[ir.Var, ...] | None:
        if isinstance(t, TextT):
            return (w.word(self.num),)
        return () if isinstance(t, StrT) and self.num.const is not NOT_CONST else None

    def truth(self, w: Walker) -> Num:
        return w.scalar("gt", self.length(w), number(0))

    def known_items(self, w: Walker) -> tuple[Val, ...] | None:
        return None if self.num.const is NOT_CONST else tuple(map(constant, self.num.const))

    def length(self, w: Walker) -> Num:
        return w.scalar("text_len", self.num)

    def turns(self, w: Walker) -> Turns:
        n = self.length(w)
        return lambda: n, lambda i: self.item_at(w, i)

    def item_at(self, w: Walker, index: Num) -> StringValue:
        """Return the character at an index that is known to be in range."""
        return StringValue(w.scalar("text_at", self.num, w.read(index)))

    def contains(self, w: Walker, element: Val) -> Num:
        def one(v: Val) -> Val:
            part = string(w, v, "{} in a string")
            return w.scalar("ge", w.scalar("text_find", self.num, part.num, number(0)), number(0))

        out = w.each(element, one)
        assert isinstance(out, Num)
        return out

    def get_item(self, w: Walker, index: Index) -> Val:
        if isinstance(index, slice):
            return self.part(w, index)
        index = list_index(w, index, "an index of a string")
        if self.num.const is not NOT_CONST and w.known(w.as_int(index)) is not NOT_CONST:
            index = number(w.known(w.as_int(index)))
        at = checked_index(w, index, self.length(w), "string index out of range")
        return ErrorValue() if w.block is None else self.item_at(w, at)

    def part(self, w: Walker, where: slice) -> Val:
        """`self[start:stop:step]`."""
        if self.num.const is not NOT_CONST:
            ends = [None if v is None else w.static(v) for v in (where.start, where.stop)]
            if NOT_CONST not in ends:
                return constant(self.num.const[ends[0] : ends[1] : where.step])
        start, step, count = cut(w, w.word(w.read(self.length(w))), where)
        first, n = w.extent(start), w.extent(count)
        places = Range(first, w.scalar("add", first, w.scalar("mul", n, number(step))), number(step))

        def character(k: Val) -> Val:
            assert isinstance(k, Num)
            return at_run_time(w, self.item_at(w, k))

        return joined(w, built(w, places, character, "part"))

    def binary(self, w: Walker, op: ast.operator, left: Val, right: Val) -> Val | None:
        if isinstance(op, ast.Mod) and left is self and self.num.const is not NOT_CONST:
            return Value.binary(self, w, op, left, right)
        if isinstance(op, ast.Add) and isinstance(left, StringValue) and isinstance(right, StringValue):
            return joined(w, [left, right])
        times = right if left is self else left
        if isinstance(op, ast.Mult) and isinstance(times, Num) and times.type != FLOAT:
            return self.repeated(w, w.as_int(times))
        return None

    def repeated(self, w: Walker, times: Num) -> Val:
        """`self * times`."""
        known = w.known(times)
        if self.num.const is not NOT_CONST and known is not NOT_CONST:
            return constant(self.num.const * known)
        word = at_run_time(w, self)
        return joined(w, built(w, Range(number(0), times, number(1)), lambda _: word, "repeated"))

    def compare(self, w: Walker, op: ast.cmpop, left: Val, right: Val) -> Num | None:
        if not isinstance(left, StringValue) or not isinstance(right, StringValue):
            return None
        a, b = left.num, right.num
        if isinstance(op, ast.Is | ast.IsNot) and NOT_CONST in (a.const, b.const):
            raise w.reject("ACR117", seen=f"{left.describe(w)} is {right.describe(w)}", rewrite="==")
        match op:
            case ast.Lt() | ast.GtE():
                found, negated = w.scalar("text_lt", a, b), isinstance(op, ast.GtE)
            case ast.Gt() | ast.LtE():
                found, negated = w.scalar("text_lt", b, a), isinstance(op, ast.LtE)
            case _:
                found, negated = w.scalar("text_eq", a, b), isinstance(op, ast.NotEq | ast.IsNot)
        return w.negate(found) if negated else found

    def as_key(self, w: Walker) -> Val:
        return self

    # ---- methods

    def method(self, w: Walker, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val | None:
        args = [as_iterable(w, v) if v.is_iterator else v for v in args]
        constants = self.num.const is not NOT_CONST and NOT_CONST not in map(w.static, args)
        if constants or (self.num.const is not NOT_CONST and name == "format"):
            return self._method_of_constant(w, name, args, kwargs)
        match name, args:
            case "join", [val] if not kwargs:
                return self._join(w, val)
            case "startswith" | "endswith", [ends] if not kwargs:
                return w.each(ends, lambda v: self._has_end(w, name, v))
            case "find" | "index", [val, *start] if len(start) < 2 and not kwargs:
                return self._find(w, name, val, start)
            case _, [] if name in PREDICATES and not kwargs:
                out = w.scalar(f"text_{name}", self.num)
                return w.either(out, w.negate(self.truth(w))) if name == "isprintable" else out
            case "upper" | "lower" | "swapcase" | "casefold", [] if not kwargs:
                return self._in_case(w, name)
            case "removeprefix" | "removesuffix", [StringValue() as end] if not kwargs:
                return self._without(w, name, end)
        if row_of(getattr(str, name, None)) is None:
            seen = f"the method .{name} of {self.describe(w)}"
            raise w.reject("ACR209", seen=seen, rewrite="do it before the batch")
        return None  # it is in the library

    def _method_of_constant(self, w: Walker, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
        """Call Python's own method with constant arguments."""
        if name.startswith("_") or not hasattr(str, name) or name == "format_map":
            raise w.reject("ACR209", seen=f"the method .{name} of {self.describe(w)}")
        if name == "format":
            return Value.method(self, w, name, args, kwargs) or self
        values = [_argument(w, v) for v in args]
        named = {k: _argument(w, v) for k, v in kwargs.items()}
        out = made(w, lambda: getattr(self.num.const, name)(*values, **named))
        if isinstance(out, list):
            return new_list(w, [w.constant(v) for v in out])
        return TupleVal(tuple(map(w.constant, out))) if isinstance(out, tuple) else w.constant(out)

    def _in_case(self, w: Walker, name: str) -> Val:
        """`self.upper()` and the like, by character; `lower` of a capital sigma, which depends on others, fails."""
        if name in ("lower", "swapcase"):
            sigma = w.scalar("text_find", self.num, constant("\u03a3").num, number(0))
            none = w.scalar("lt", sigma, number(0))
            w.check(none, "ValueError", f"a capital sigma: call .{name}() before the batch", ours=True)
            if w.block is None:
                raise Dead
        return joined(w, strings(w, self, lambda v: StringValue(w.scalar(f"text_{name}", v.num))))

    def _join(self, w: Walker, val: Val) -> Val:
        """`self.join(strings)`."""
        val = as_iterable(w, val)
        items = w.items_of(val)
        if items is not None:
            return joined(w, [v for item in items for v in (self, item)][1:])
        if self.num.const == "":
            return joined(w, strings(w, val))
        longer = joined(w, strings(w, val, lambda v: joined(w, [self, v])))
        return longer.part(w, slice(self.length(w), None, 1))

    def _has_end(self, w: Walker, name: str, ends: Val) -> Num:
        """Return whether it begins or ends with another string, or with one in a tuple."""
        several = None if isinstance(ends, StringValue) else w.items_of(ends)
        if several is not None:
            out = number(False)
            for v in several:
                out = w.either(out, self._has_end(w, name, v))
            return out
        end = string(w, ends, f".{name} of {{}}")
        at = number(0) if name == "startswith" else w.scalar("sub", self.length(w), end.length(w))
        return w.scalar("text_starts", self.num, end.num, at)

    def _find(self, w: Walker, name: str, val: Val, start: Sequence[Val]) -> Num:
        """`self.find(val)`, `self.index(val)`, from an index on."""
        part = string(w, val, f".{name} of {{}}")
        at = number(0)
        if start:
            at = w.read(w.as_int(host_value(w, start[0], f".{name}()", index=True)))
            behind = w.scalar("max", w.scalar("add", at, self.length(w)), number(0))
            at = w.select(w.scalar("lt", at, number(0)), behind, at)
        out = w.scalar("text_find", self.num, part.num, at)
        if name == "index":
            w.check(w.scalar("ge", out, number(0)), "ValueError", "substring not found")
        return out

    def _without(self, w: Walker, name: str, end: StringValue) -> Val:
        """`self.removeprefix(end)`, `self.removesuffix(end)`."""
        front = name == "removeprefix"
        there = self._has_end(w, "startswith" if front else "endswith", end)
        size = w.select(there, end.length(w), number(0))
        if front:
            return self.part(w, slice(size, None, 1))
        return self.part(w, slice(None, w.scalar("sub", self.length(w), size), 1))


@handles(CONSTANTS, str)
def constant(value: str) -> StringValue:
    """Return a constant string."""
    return StringValue(Num(TEXT, const=value))


@handles(WORDS, StrT, TextT)
def _of_words(w: Walker, t: StrT | TextT, vars: Sequence[ir.Var]) -> StringValue:
    return constant(t.value) if isinstance(t, StrT) else StringValue(Num(TEXT, var=vars[0]))


def at_run_time(w: Walker, val: StringValue) -> StringValue:
    """Return a string as one of run time."""
    return StringValue(Num(TEXT, var=w.word(val.num)))


def string(w: Walker, val: Val, seen: str = "{} where a string is expected") -> StringValue:
    """Return a value that has to be a string; `seen` is the text of the rejection of any other."""
    if not isinstance(val, StringValue):
        raise w.reject("ACR301", seen=seen.format(w.describe(val)))
    return val


def joined(w: Walker, parts: Val | Sequence[Val]) -> StringValue:
    """Return the concatenation of the strings of a list."""
    items = w.items_of(parts) if not isinstance(parts, Sequence) else tuple(parts)
    if items is not None:
        texts = [string(w, one_string(w, v)) for v in items]
        if all(v.num.const is not NOT_CONST for v in texts):
            return constant("".join(v.num.const for v in texts))
        if len(texts) == 1:
            return texts[0]
        made = w.var("list", ListT(TEXT))
        words = tuple(w.word(v.num) for v in texts)
        w.emit(ir.ListNew(out=made, width=1, args=words, count=len(texts), loc=w.loc))
        return _join(w, made)
    assert isinstance(parts, ListVal)
    if parts.item == NEVER:
        return constant("")
    return _join(w, (parts if parts.item == TEXT else strings(w, parts)).var)


def _join(w: Walker, texts: ir.Var) -> StringValue:
    out = w.var("text", TEXT)
    w.emit(ir.ListOp(outs=(out,), op="join", width=1, args=(texts,), loc=w.loc))
    return StringValue(Num(TEXT, var=out))


def strings(w: Walker, iterable: Val, f: Callable[[StringValue], StringValue] = lambda v: v) -> ListVal:
    """Return the run-time list of f(v) for the strings v of an iterable."""

    def turn(item: Val) -> Val:
        return w.each(item, lambda v: at_run_time(w, f(string(w, v))))

    return built(w, iterable, turn, "strings")


# ---- texts of constants: run-time values have none (ACR116)


def known(w: Walker, val: Val) -> Constant:
    """Return a constant string, number, bool, None or class to be converted to text; reject any other value."""
    value = w.decided(val) if isinstance(val, Num) else w.static(val)
    if value is NOT_CONST or not (isinstance(value, str | int | float | bool | None) or type(value) is type):
        raise w.reject("ACR116", seen=f"the text of {w.describe(val)}, known only at run time")
    return value


def made(w: Walker, make: Callable[[], T]) -> T:
    """Return the result of `make()`; the instance fails where it raises."""
    try:
        return make()
    except (TypeError, ValueError, LookupError) as error:
        w.fail(type(error).__name__, str(error).replace("{", "{{").replace("}", "}}"))
        raise Dead from None


def _argument(w: Walker, val: Val) -> Constant:
    """Return an argument of a method: a constant, or a tuple of constants."""
    if val.compound:
        return tuple(known(w, v) for v in val.children())
    value = w.static(val)
    return value if isinstance(value, tuple) else known(w, val)
