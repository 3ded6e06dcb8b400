"""Special methods of objects, as called by operators and builtins: looked up in the class alone, as in Python."""

from __future__ import annotations

import collections
import types
from collections.abc import Sequence

from acronumba.foreign import OfParts
from acronumba.frontend.attributes import attribute, class_attribute, is_exception
from acronumba.frontend.exceptions import Restart
from acronumba.frontend.kinds.iterators import SliceVal
from acronumba.frontend.kinds.numbers import NoneVal, Num, number
from acronumba.frontend.kinds.objects import MutableObject, ObjectValue, Ref
from acronumba.frontend.kinds.unions import UnionVal
from acronumba.frontend.kinds.value import Index, Val
from acronumba.frontend.walker import Walker
from acronumba.ir import nodes as ir
from acronumba.ir.types import BOOL, TEXT, StrT, TextT

_OF_NAMED_TUPLES = collections.namedtuple.__code__.co_filename


def object_class(val: Val) -> type | None:
    """Return the class of an object of a dataclass or plain class."""
    cls = _class_of(val)
    return None if cls is None or issubclass(cls, tuple) else cls


def _class_of(val: Val) -> type | None:
    classes = val.object_classes()
    return classes[0] if len(classes) == 1 else None


def is_derived(w: Walker, a: Val, b: Val, overriding: str = "") -> bool:
    """Whether the class of `b` is derived from that of `a`, both objects, and overrides a method, if one is given."""
    one, other = _class_of(a), _class_of(b)
    if one is None or other is None or one is other or not issubclass(other, one):
        return False
    return not overriding or w.source_guard.attribute(one, overriding) != w.source_guard.attribute(other, overriding)


def has_method(w: Walker, val: Val, name: str) -> bool:
    """Whether the class of an object has a special method written in Python, and not one that `NamedTuple` writes."""
    cls = _class_of(val)
    method = None if cls is None else w.source_guard.attribute(cls, name)
    return isinstance(method, types.FunctionType) and method.__code__.co_filename != _OF_NAMED_TUPLES


def is_array_like(val: Val) -> bool:
    """Whether a value is an object that NumPy converts to an array: a compressed weight."""
    cls = object_class(val)
    return cls is not None and issubclass(cls, OfParts)


def call_special(w: Walker, val: Val, name: str, args: Sequence[Val]) -> Val:
    """Call a special method of an object."""
    cls = _class_of(val)
    assert cls is not None
    return w.call(class_attribute(w, val, cls, name), args, {})


def index_value(where: Index) -> Val:
    """Return an index as a value, as which it is part of a tuple, and the argument of an object's `__getitem__`."""
    if not isinstance(where, slice):
        return where
    start, stop = (NoneVal() if bound is None else bound for bound in (where.start, where.stop))
    return SliceVal(start, stop, NoneVal() if where.step is None else number(where.step))


def iterated(w: Walker, val: Val) -> Val:
    """Return `iter(val)` for an object with `__iter__`; any other value as it is."""
    return call_special(w, val, "__iter__", ()) if has_method(w, val, "__iter__") else val


def one_string(w: Walker, val: Val) -> Val:
    """Return a union of strings as one run-time string; any other value as it is."""
    if isinstance(val, UnionVal) and all(isinstance(t, StrT | TextT) for t in val.possible):
        return w.from_words(TEXT, w.to_words(val, TEXT))
    return val


def text_of(w: Walker, val: Val, shown: bool = False) -> Val:
    """Return `str(val)`, `repr(val)` if `shown`, of an object with such a method; any other value as it is."""
    names = ("__repr__",) if shown else ("__str__",) if is_exception(val) else ("__str__", "__repr__")
    name = next((n for n in names if has_method(w, val, n)), "")
    if name:
        return one_string(w, call_special(w, val, name, ()))
    return _text_of_exception(w, val) if is_exception(val) and not shown else val


def _text_of_exception(w: Walker, val: Val) -> Val:
    """Return `str(val)` for an exception of one class with at most one argument."""
    items = w.items_of(attribute(w, val, "args"))
    classes = val.object_classes()
    owners = {w.source_guard.owner(c, "__str__") for c in classes}
    if items is None or len(items) > 1 or len(owners) != 1 or not owners <= {BaseException, KeyError}:
        raise w.reject("ACR116", seen=f"the text of {w.describe(val)}")
    return w.call(w.constant(repr if KeyError in owners else str), items, {}) if items else w.constant("")


def same_reference(w: Walker, a: ir.Var, b: ir.Var) -> Num:
    """Return whether two references are to the same object, list or dict, as a bool."""
    out = w.var("", BOOL)
    w.emit(ir.Scalar(out=out, op="same", args=(a, b), site=-1, loc=w.loc))
    return Num(BOOL, var=out)


def same_object(w: Walker, a: Val, b: Val) -> Num | None:
    """Return whether two values are the same object, as a bool; None for values without a known identity."""
    kinds = (Ref, MutableObject, ObjectValue)
    if not isinstance(a, kinds) or not isinstance(b, kinds):
        return None
    if isinstance(a, Ref) and isinstance(b, Ref):
        return same_reference(w, a.var, b.var)
    for v in (a, b):
        if isinstance(v, ObjectValue):
            if issubclass(v.cls, tuple) or not v.own:
                return None
            w.note(w.facts.changing, v.cls)  # its identity matters
            raise Restart
        if isinstance(v, MutableObject):
            v.must_exist(w)
    return number(isinstance(a, MutableObject) and isinstance(b, MutableObject) and a.key == b.key)
