"""Random numbers that code draws without a key: the key of the instance, and the number of its draws so far.

In: the hidden last parameter of a program, of class `InstanceKey`. Out: a `Draws` object, made where the call begins
and passed to every recursive function.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acronumba.data.draws import Draws, InstanceKey, NeedsNumbers
from acronumba.frontend.attributes import attribute
from acronumba.frontend.calls.arguments import Args
from acronumba.frontend.exceptions import Restart
from acronumba.frontend.kinds.functions import Static
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.library.decorators import primitive
from acronumba.frontend.walker import Walker
from acronumba.ir.types import StructT, Type

_PLACE = ("draws", 0), "draws"  # key of the object in the state
plain: list[Draws] = []  # those of the instance whose plain call is running


def has_key(params: Sequence[Type]) -> bool:
    """Whether the last parameter of a program is the key of an instance."""
    return bool(params) and params[-1] == StructT(InstanceKey)


def begin_draws(w: Walker, key: Val) -> None:
    """Make the object that numbers the draws of an instance."""
    w.state[_PLACE] = w.call(Static(Draws), (attribute(w, key, "bits"),), {})


def draws_in(w: Walker) -> Mapping[Any, Val]:
    """Return the arguments by which a recursive function draws random numbers."""
    found = w.state.get(_PLACE)
    return {} if found is None or Draws not in w.facts.changing else {_PLACE: found}


def _draws(w: Walker, a: Args) -> Val:
    found = w.state.get(_PLACE)
    if found is not None:
        return found
    if InstanceKey not in w.facts.came:
        raise NeedsNumbers
    w.note(w.facts.changing, Draws)  # a recursive function gets the object from now on: see `draws_in`
    w.facts.begin_again()
    raise Restart


@primitive(rule=_draws, rank0="any")
def draws() -> Draws:
    """Return the object that numbers the draws of the instance."""
    return plain[-1]
