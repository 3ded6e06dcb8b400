"""Texts of numbers that only run time knows: `str(n)`, `f"{n:03d}"`, `f"{x:.2f}"`, `"%d" % n`, `"{}".format(n)`.

In: a number, and a format. Out: the string, made by functions of the library. Formats whose digits depend on the
value, as in `str(x)` of a float, are rejected.
"""

from __future__ import annotations

import ast
import re
import string as string_module
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from acronumba.frontend.handlers import METHODS, OPERANDS, handles
from acronumba.frontend.kinds.arrays import Tensor
from acronumba.frontend.kinds.functions import method_of
from acronumba.frontend.kinds.numbers import Num, number
from acronumba.frontend.kinds.strings import StringValue, constant, joined, known, made
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import NOT_CONST, Val
from acronumba.frontend.library.math import MOST_DIGITS
from acronumba.frontend.library.strings import float_text, int_text, placed, signed
from acronumba.frontend.magic import one_string
from acronumba.ir.types import BOOL, FLOAT

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker

_SPEC = re.compile(r"(?:(.)?([<>=^]))?([-+ ]?)(0?)([0-9]*)(?:\.([0-9]+))?([bdoxXf%]?)")
_BASES = {"b": 2, "o": 8, "d": 10, "": 10, "x": 16, "X": 16}


def number_text(w: Walker, val: Val, spec: str = "") -> StringValue | None:
    """Return `format(val, spec)` of a number or string of run time; None of a constant, or if it is not supported."""
    if val.is_several:
        return _string(w, one_string(w, w.each(val, lambda v: _of_one(w, v, spec))))
    found = _SPEC.fullmatch(spec)
    if found is None:
        return None
    fill, align, sign, zero, width, digits, kind = found.groups()
    if isinstance(val, StringValue) and val.num.const is NOT_CONST:
        if sign or zero or digits or kind or align == "=":
            return None
        return _filled(w, val, width, fill or " ", align or "<")
    num = _number(w, val)
    if num is None:
        return None
    fixed = kind in ("f", "%")
    if not fixed and (num.type == FLOAT or digits is not None):
        return None
    if num.type == BOOL and not spec:
        return _string(w, one_string(w, w.cond(num, lambda: w.constant("True"), lambda: w.constant("False"))))
    if fixed:
        places = int(digits or 6)
        if places > MOST_DIGITS:
            return None
        x = w.as_float(num)
        x = w.scalar("mul", x, number(100.0)) if kind == "%" else x
        text = w.call(w.constant(float_text), (x, number(places), number(10.0**places)), {})
    else:
        text = w.call(w.constant(int_text), (w.as_int(num), number(_BASES[kind])), {})
    if kind == "X":
        text = w.call(method_of(text, "upper"), (), {})
    if kind == "%":
        text = joined(w, [text, w.constant("%")])
    if sign in ("+", " ") and sign:
        text = w.call(w.constant(signed), (text, w.constant(sign)), {})
    return _filled(w, text, width, fill or ("0" if zero else " "), align or ("=" if zero else ">"))


def _of_one(w: Walker, val: Val, spec: str) -> Val:
    """Return `format(val, spec)` of one alternative of a value."""
    if isinstance(val, StringValue) and not spec:
        return val
    return number_text(w, val, spec) or constant(made(w, lambda: format(known(w, val), spec)))


def _filled(w: Walker, text: Val, width: str, fill: str, align: str) -> StringValue:
    """Return a text filled up to a width, if one is given."""
    if width:
        text = w.call(w.constant(placed), (text, number(int(width)), w.constant(fill), w.constant(align)), {})
    return _string(w, text)


def _number(w: Walker, val: Val) -> Num | None:
    """Return a number of run time; None for a constant, or what is none."""
    if isinstance(val, Tensor):
        plain = not val.type.rank and (val.array0 is None or val.array0.const is False)
        return val.host_number(w, "the text of a number", False) if plain else None
    return val if isinstance(val, Num) and w.decided(val) is NOT_CONST else None


def _string(w: Walker, val: Val) -> StringValue:
    assert isinstance(val, StringValue)
    return val


_CONVERSION = re.compile(r"%(?:%|[-#0 +]*[0-9]*(?:\.[0-9]+)?[a-zA-Z])")


@handles(OPERANDS, StringValue)
def _percent(w: Walker, op: ast.operator, left: StringValue, val: Val) -> Val:
    """`text % val`, of constants, strings by `%s`, and numbers."""
    text = left.num.const
    given = val.items if isinstance(val, TupleVal) else (val,)
    found = [m for m in _CONVERSION.finditer(text) if m.group() != "%%"]
    if text.count("%") == sum(m.group().count("%") for m in _CONVERSION.finditer(text)) and len(found) == len(given):
        parts: list[Val] = []
        end = 0
        for m, v in zip(found, given, strict=True):
            one = v if isinstance(v, StringValue) and m.group() == "%s" else number_text(w, v, _spec(m.group()))
            parts.append(constant(text[end : m.start()].replace("%%", "%")))
            parts.append(one or constant(made(w, lambda: m.group() % known(w, v))))  # noqa: B023
            end = m.end()
        return joined(w, [*parts, constant(text[end:].replace("%%", "%"))])
    values = tuple(known(w, v) for v in val.items) if isinstance(val, TupleVal) else known(w, val)
    return constant(made(w, lambda: text % values))


@handles(METHODS, StringValue)
def _format(w: Walker, base: StringValue, name: str, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """`text.format(*args, **kwargs)` of constants, strings and numbers."""
    text = base.num.const
    given: dict[str, Val] = {**{str(k): v for k, v in enumerate(args)}, **kwargs}
    values = {k: w.decided(v) if isinstance(v, Num) else w.static(v) for k, v in given.items()}
    fields = list(made(w, lambda: string_module.Formatter().parse(text)))
    names = [field or str(k) for k, field in enumerate(f[1] for f in fields if f[1] is not None)]
    if NOT_CONST not in values.values() or not given.keys() >= {*names} or any(f[3] for f in fields):
        constants = {k: known(w, v) for k, v in given.items()}
        positional = [constants.pop(str(k)) for k in range(len(args))]
        return constant(made(w, lambda: text.format(*positional, **constants)))
    parts: list[Val] = []
    for before, field, spec, _ in fields:
        parts.append(constant(before))
        if field is not None:
            val, spec = given[names.pop(0)], spec or ""
            own = val if isinstance(val, StringValue) and not spec else number_text(w, val, spec)
            parts.append(own or constant(made(w, lambda: format(known(w, val), spec))))  # noqa: B023
    return joined(w, parts)


def _spec(conversion: str) -> str:
    """Return the format of `format` that means what one of `%` does; one that is not supported if there is none."""
    flags, rest = re.fullmatch(r"%([-#0 +]*)(.*)", conversion).groups()  # type: ignore[union-attr]
    kind = rest[-1] if rest[-1] in "doxXf" else "d" if rest[-1] in "iu" else "" if rest == "s" else "?"
    align = "<" if "-" in flags else ""
    sign = "+" if "+" in flags else " " if " " in flags else ""
    return f"{align}{sign}{'0' if '0' in flags and not align else ''}{'?' if '#' in flags else ''}{rest[:-1]}{kind}"
