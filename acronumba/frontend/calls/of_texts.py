"""Handlers of `ord`, `chr`, `str`, `repr` and `format`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.calls.tables import row
from acronumba.frontend.conditions import host_value
from acronumba.frontend.exceptions import Dead
from acronumba.frontend.kinds.numbers import number
from acronumba.frontend.kinds.strings import StringValue, known, string
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.texts import formatted, text
from acronumba.ir.ops import LAST_CHARACTER

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


@row("c", ord, whole=True)
def _ord(w: Walker, a: Args) -> Val:
    def one(v: Val) -> Val:
        with w.at_node(a.where["c"]):
            text = string(w, v, "ord of {}")
        single = w.scalar("eq", text.length(w), number(1))
        w.check(single, "TypeError", "ord() expected a character, but string of another length found")
        if w.block is None:
            raise Dead
        return w.scalar("text_code", text.num)

    return w.each(a["c"], one)


@row("i", chr, whole=True)
def _chr(w: Walker, a: Args) -> Val:
    code = w.read(w.as_int(host_value(w, a["i"], "chr()", index=True)))
    inside = w.both(w.scalar("ge", code, number(0)), w.scalar("le", code, number(LAST_CHARACTER)))
    w.check(inside, "ValueError", "chr() arg not in range(0x110000)")
    if w.block is None:
        raise Dead
    return StringValue(w.scalar("text_of_code", code))


@row("object", str, whole=True)
def _str(w: Walker, a: Args) -> Val:
    return text(w, a["object"])


@row("x", repr, whole=True)
def _repr(w: Walker, a: Args) -> Val:
    return text(w, a["x"], True)


@row("x spec", format, whole=True)
def _format(w: Walker, a: Args) -> Val:
    return formatted(w, a["x"], known(w, a["spec"]))
