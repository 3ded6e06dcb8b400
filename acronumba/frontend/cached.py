"""`functools.cached_property`: computed where it is read, and stored in an object that was made in the call.

An object that is an input does not change in a call: there the value is computed at each read, and must not be
mutated.
"""

from __future__ import annotations

import functools

from acronumba.frontend.attributes import own_method
from acronumba.frontend.functions import shared_by_calls
from acronumba.frontend.handlers import DESCRIPTORS, handles
from acronumba.frontend.kinds.objects import MutableObject, Ref
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.made import set_attribute
from acronumba.frontend.walker import Walker


@handles(DESCRIPTORS, functools.cached_property)
def _cached(w: Walker, owner: Val, cls: type, name: str, raw: functools.cached_property[object]) -> Val:
    func = own_method(w, raw.func)
    if isinstance(owner, Ref) and owner.own:
        seen = f"{cls.__name__}.{name}, a cached property of an object that was made in the call"
        raise w.reject("ACR210", seen=seen, rewrite="@property")
    w.inside_cached += not isinstance(owner, MutableObject)
    try:
        val: Val = w.call(func, (owner,), {})
    finally:
        w.inside_cached -= not isinstance(owner, MutableObject)
    if not isinstance(owner, MutableObject):
        return shared_by_calls(w, val, w.describe(func).removeprefix("function "))
    set_attribute(w, owner, name, val)
    return val
