"""Texts of values that only run time knows: `str(x)`, `repr(x)`, `f"{n:03d}"`, `"%.2f" % x`, `"{:,}".format(n)`.

In: a value, and a format. Out: the string. Floats have an operation of the IR; all other texts are made by functions of
the library.
"""

from __future__ import annotations

import ast
import collections
import dataclasses
import enum
import functools
import inspect
import operator
import re
import string as string_module
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from acronumba.data.classes import field_names
from acronumba.frontend.attributes import attribute
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.handlers import METHODS, OPERANDS, handles
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.functions import method_of
from acronumba.frontend.kinds.numbers import EnumVal, Num, members_of, number
from acronumba.frontend.kinds.strings import StringValue, constant, joined, known, made
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.library import texts as library
from acronumba.frontend.library.decorators import primitive
from acronumba.frontend.magic import call_special, has_method, one_string, text_of
from acronumba.ir import nodes as ir
from acronumba.ir.types import BOOL, FLOAT, INT, TEXT, MapT

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

_SPEC = re.compile(r"(?:(.)?([<>=^]))?([-+ ]?)(#?)(0?)([0-9]*)([,_]?)(?:\.([0-9]+))?([bdoxXeEfFgG%s]?)", re.DOTALL)
_BASES = {"b": 2, "o": 8, "d": 10, "": 10, "x": 16, "X": 16}
_CONTAINERS = ((list, library.list_text), (tuple, library.tuple_text), (dict, library.dict_text))
MOST_PLACES = 5000  # digits after the point


def text(w: Walker, val: Val, shown: bool = False) -> StringValue:
    """Return `str(val)`; `repr(val)` if it is `shown`."""
    if val.is_several:
        each = w.each(val, lambda v: text(w, v if v.nests else w.whole(v), shown), itself=True)
        return _string(w, one_string(w, each))
    if isinstance(val, StringValue):
        if val.num.const is not NOT_CONST:
            return constant(repr(val.num.const)) if shown else val
        return _string(w, w.call(w.constant(library.quoted), (val,), {})) if shown else val
    num = _number(w, val)
    if num is not None:
        return _number_text(w, val, num, shown)
    for cls, code in _CONTAINERS if val.shown is None else ():
        if _class_of(val) is cls:
            return _string(w, w.call(w.constant(library.nested_text if val.nests else code), (val,), {}))
    if _generated(w, val, shown) is not None:
        return _string(w, w.call(w.constant(library.object_text), (val,), {}))
    if isinstance(val, EnumVal) and val.const is NOT_CONST:
        return _member_text(w, val, repr if shown else str)
    own = text_of(w, val, shown)
    if own is not val:
        return _string(w, own)
    return constant((repr if shown else str)(known(w, val)))


def _class_of(val: Val) -> object:
    """Return the class of a value; of a dict that came in, it may be `defaultdict`."""
    t = val.word_type()
    return t.python if isinstance(t, MapT) else val.python_class


def _generated(w: Walker, val: Val, shown: bool) -> tuple[str, Sequence[str]] | None:
    """Return the name and the fields in the text of an object whose class is a dataclass or NamedTuple; else None."""
    classes = val.object_classes()
    if len(classes) != 1 or not (shown or w.source_guard.owner(classes[0], "__str__") in (object, tuple)):
        return None
    cls = classes[0]
    method, owner = w.source_guard.attribute(cls, "__repr__"), w.source_guard.owner(cls, "__repr__")
    code = getattr(inspect.unwrap(method), "__code__", None) if callable(method) else None
    if code is not None and code.co_filename == "<string>" and dataclasses.is_dataclass(owner):
        return cls.__qualname__, [f.name for f in dataclasses.fields(owner) if f.repr]
    named = code is not None and code.co_filename == collections.namedtuple.__code__.co_filename
    return (cls.__name__, field_names(cls)) if named and issubclass(cls, tuple) else None


def _object_text(w: Walker, a: Args) -> Val:
    """Make the text of an object by the fields of its class."""
    val = a["x"]
    found = _generated(w, val, True)
    assert found is not None
    name, fields = found
    parts = [joined(w, [constant(f"{f}="), text(w, attribute(w, val, f), True)]) for f in fields]
    between = [p for part in parts for p in (constant(", "), part)][1:]
    return joined(w, [constant(f"{name}("), *between, constant(")")])


primitive(rule=_object_text, whole=True)(library.shown_fields)


def _member_text(w: Walker, val: EnumVal, make: Callable[[enum.Enum], str]) -> StringValue:
    """Return the text of a member of an enum by a table of those of all members."""
    if w.deciding(val.cls, "__str__") or w.deciding(val.cls, "__repr__") or w.deciding(val.cls, "__format__"):
        raise w.reject("ACR116", seen=f"the text of {w.describe(val)}, whose class makes it", rewrite=".name")
    out = constant("").num
    for k, member in enumerate(members_of(val.cls)):
        out = w.select(w.scalar("eq", Num(INT, var=w.word(val)), number(k)), constant(make(member)).num, out)
    return StringValue(out)


def formatted(w: Walker, val: Val, spec: str = "") -> StringValue:
    """Return `format(val, spec)`."""
    if val.is_several:
        return _string(w, one_string(w, w.each(val, lambda v: formatted(w, v, spec))))
    if has_method(w, val, "__format__"):
        return _string(w, one_string(w, call_special(w, val, "__format__", (constant(spec),))))
    num = _number(w, val)
    if num is not None:
        return _number_formatted(w, num, spec)
    if isinstance(val, EnumVal) and val.const is NOT_CONST:
        return _member_text(w, val, lambda m: format(m, spec))
    if not spec:
        return text(w, val)
    found = _SPEC.fullmatch(spec)
    if isinstance(val, StringValue) and val.num.const is NOT_CONST and found is not None:
        made(w, lambda: format("", spec))
        fill, align, _, _, zero, width, _, size, _ = found.groups()
        val = val if size is None else val.part(w, slice(None, number(int(size)), 1))
        return _filled(w, val, width, fill or ("0" if zero else " "), align or "<")
    return constant(made(w, lambda: format(known(w, val), spec)))


def _number_text(w: Walker, val: Val, num: Num, shown: bool) -> StringValue:
    """Return `str` or `repr` of a number or NumPy scalar of run time."""
    dtype = val.type.dtype if isinstance(val, Tensor) else ""
    if dtype == "bool" and shown:
        truth = w.cond(num, lambda: constant("np.True_"), lambda: constant("np.False_"))
        return _string(w, one_string(w, truth))
    out = _decimal(w, num, "s", exponent_of_float32()) if dtype == "float32" else _number_formatted(w, num, "")
    return joined(w, [constant(f"np.{dtype}("), out, constant(")")]) if dtype and shown else out


def _number_formatted(w: Walker, num: Num, spec: str) -> StringValue:
    """Return `format(num, spec)` of a number of run time."""
    if num.type == BOOL and not spec:
        return _string(w, one_string(w, w.cond(num, lambda: constant("True"), lambda: constant("False"))))
    sample = 1.5 if num.type == FLOAT else 1
    made(w, lambda: format(sample, spec))
    found = _SPEC.fullmatch(spec)
    fill, align, sign, special, zero, width, group, digits, kind = found.groups() if found else ("?",) * 9
    floats = num.type == FLOAT or kind in ("e", "E", "f", "F", "g", "G", "%")
    zeros = fill == "0" or (not fill and zero and not align)
    if not found or (special and floats) or (group and width and zeros) or int(digits or 0) > MOST_PLACES:
        raise w.reject("ACR116", seen=f"the format {spec!r} of a number known only at run time")
    if floats:
        letter = {"": "r" if digits is None else "p", "%": "f"}.get(kind, kind.lower())
        x = w.scalar("mul", w.as_float(num), number(100.0)) if kind == "%" else num
        out: Val = _decimal(w, x, letter, 6 if digits is None else int(digits))
    else:
        out = w.call(w.constant(library.int_text), (w.as_int(num), number(_BASES[kind])), {})
    if kind in ("X", "E", "F", "G"):
        out = w.call(method_of(out, "upper"), (), {})
    if kind == "%":
        out = joined(w, [out, constant("%")])
    if group:
        size = number(4 if kind in ("b", "o", "x", "X") else 3)
        out = w.call(w.constant(library.grouped), (out, constant(group), size, number(not floats)), {})
    if special and kind in ("b", "o", "x", "X"):
        out = w.call(w.constant(library.prefixed), (out, constant(f"0{kind}")), {})
    if sign in ("+", " ") and sign:
        out = w.call(w.constant(library.signed), (out, constant(sign)), {})
    return _filled(w, out, width, fill or ("0" if zero else " "), align or ("=" if zero else ">"))


def _decimal(w: Walker, num: Num, letter: str, places: int) -> StringValue:
    """Return the text of a float by the operation of the IR."""
    out = w.var("text", TEXT)
    args = (w.word(w.as_float(num)), w.word(number(ord(letter))), w.word(number(places)))
    w.emit(ir.ListOp(outs=(out,), op="decimal", width=1, args=args, loc=w.loc))
    return StringValue(Num(TEXT, var=out))


@functools.cache
def exponent_of_float32() -> int:
    """Return the power of ten from which on NumPy writes a float32 with an exponent."""
    return next(k for k in range(39) if "e" in str(np.float32(10.0**k)))


def _filled(w: Walker, out: Val, width: str, fill: str, align: str) -> StringValue:
    """Return a text filled up to a width, if one is given."""
    if width:
        out = w.call(w.constant(library.placed), (out, number(int(width)), constant(fill), constant(align)), {})
    return _string(w, out)


def _number(w: Walker, val: Val) -> Num | None:
    """Return a number of run time; None for a constant, or what is none."""
    if isinstance(val, Tensor):
        plain = not val.type.rank and (val.array0 is None or val.array0.const is False)
        return val.host_number(w, "the text of a number", False) if plain else None
    return val if isinstance(val, Num) and w.decided(val) is NOT_CONST else None


def _string(w: Walker, val: Val) -> StringValue:
    if w.block is None:
        raise Dead
    if isinstance(val, ErrorValue):
        raise val.rejection(w)
    assert isinstance(val, StringValue)
    return val


_CONVERSION = re.compile(r"%(?:%|(?:\(([^()]*)\))?([-#0 +]*)([0-9]*)(?:\.([0-9]*))?([a-zA-Z]))")


@handles(OPERANDS, StringValue)
def _percent(w: Walker, op: ast.operator, left: StringValue, val: Val) -> Val:
    """`text % val`, of constants, strings by `%s`, and numbers."""
    template = left.num.const
    given = val.items if isinstance(val, TupleVal) else (val,)
    found = [m for m in _CONVERSION.finditer(template) if m.group() != "%%"]
    if found and all(m[1] is not None for m in found) and val.python_class is dict:
        given = tuple(w.call(w.constant(operator.getitem), (val, constant(m[1])), {}) for m in found)
    elif any(m[1] is not None for m in found):
        found = []
    if template.count("%") == sum(m.group().count("%") for m in _CONVERSION.finditer(template)) and len(found) == len(
        given
    ):
        parts: list[Val] = []
        end = 0
        for m, v in zip(found, given, strict=True):
            parts += [constant(template[end : m.start()].replace("%%", "%")), _converted(w, m, v)]
            end = m.end()
        return joined(w, [*parts, constant(template[end:].replace("%%", "%"))])
    values = tuple(known(w, v) for v in val.items) if isinstance(val, TupleVal) else known(w, val)
    return constant(made(w, lambda: template % values))


def _converted(w: Walker, conversion: re.Match[str], val: Val) -> StringValue:
    """Return the text of a value by one conversion of `%`."""
    if val.is_several:
        return _string(w, one_string(w, w.each(val, lambda v: _converted(w, conversion, v))))
    _, flags, width, places, letter = conversion.groups()
    align = "<" if "-" in flags else ">"
    if letter in ("s", "r"):
        out = text(w, val, letter == "r")
        if places is not None:
            out = _string(w, out.part(w, slice(None, number(int(places or 0)), 1)))
        return _filled(w, out, width, " ", align)
    whole = "%" + conversion.group()[conversion.end(1) - conversion.start() + 1 if conversion[1] is not None else 1 :]
    if letter == "c" and (val.python_class is str or w.static(val) is NOT_CONST):
        return _filled(w, _string(w, w.call(w.constant(library.character), (val,), {})), width, " ", align)
    found = _number(w, val)
    if found is None:
        return constant(made(w, lambda: whole % known(w, val)))
    num = found
    if letter == "a":
        return _filled(w, text(w, val, True), width, " ", align)
    made(w, lambda: whole % (1.5 if num.type == FLOAT else 1))
    if letter not in "diueEfFgGxXo" or (letter in "diuxXo" and places is not None):
        raise w.reject("ACR116", seen=f"{whole} of a number known only at run time")
    if letter in "diu":
        converted = w.call(w.constant(int), (num,), {}) if num.type == FLOAT else num
        assert isinstance(converted, Num)
        num, letter = converted, "d"
    sign = "+" if "+" in flags else " " if " " in flags else ""
    zero = "0" if "0" in flags and "-" not in flags else ""
    special = "#" if "#" in flags and letter != "d" else ""
    ends = f".{places or 0}" if places is not None else ""
    return _number_formatted(w, num, f"{'<' if '-' in flags else ''}{sign}{special}{zero}{width}{ends}{letter}")


@handles(METHODS, StringValue)
def _format(w: Walker, base: StringValue, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """`text.format(*args, **kwargs)`: fields are names or numbers of arguments."""
    template = base.num.const
    given: dict[str, Val] = {**{str(k): v for k, v in enumerate(args)}, **kwargs}
    fields = list(made(w, lambda: list(string_module.Formatter().parse(template))))
    names = [field or str(k) for k, field in enumerate(f[1] for f in fields if f[1] is not None)]
    simple = given.keys() >= {*names} and not any("{" in (f[2] or "") or f[3] == "a" for f in fields)
    if not simple:
        constants = {k: known(w, v) for k, v in given.items()}
        positional = [constants.pop(str(k)) for k in range(len(args))]
        return constant(made(w, lambda: template.format(*positional, **constants)))
    made(w, lambda: template.format(*[_Any()] * len(args), **dict.fromkeys(kwargs, _Any())))
    parts: list[Val] = []
    for before, field, spec, conversion in fields:
        parts.append(constant(before))
        if field is not None:
            parts.append(converted(w, given[names.pop(0)], conversion or "", spec or ""))
    return joined(w, parts)


class _Any:
    """A value that has a text by any format."""

    def __format__(self, spec: str) -> str:
        return ""


def converted(w: Walker, val: Val, conversion: str, spec: str) -> StringValue:
    """Return the text of a field of an f-string: `!s` and `!r` come before the format."""
    if conversion == "a" and _number(w, val) is not None:
        val = text(w, val, True)
    elif conversion == "a":
        val = constant(made(w, lambda: ascii(known(w, val))))
    elif conversion:
        val = text(w, val, conversion == "r")
    return formatted(w, val, spec)
