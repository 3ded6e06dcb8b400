"""Results of recursive functions under `functools.cache` or `lru_cache`, so that each is computed once in a call.

A function of a module has a dict of results from where the call begins, and a nested function a new one at each
definition. Keys are the arguments, if these are ints, strings and tuples of them; other calls are computed anew, which
nobody can see, as no result may be mutated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from acronumba.frontend.exceptions import Restart
from acronumba.frontend.keyed import filled, find, present, put
from acronumba.frontend.kinds.functions import Func
from acronumba.frontend.kinds.maps import MapVal
from acronumba.frontend.kinds.tuples import TupleVal
from acronumba.frontend.kinds.value import Val
from acronumba.frontend.walker import Walker
from acronumba.ir.types import (
    NEVER,
    BoolT,
    EnumT,
    FloatT,
    IntT,
    ListT,
    NeverT,
    NoneT,
    StrT,
    TensorT,
    TextT,
    TupleT,
    Type,
    UnionT,
    all_parts,
    union,
    wrong_key,
)

# Types of results that are kept: of values that cannot be mutated.
_KEPT = (IntT, FloatT, BoolT, NoneT, StrT, TextT, EnumT, TensorT, TupleT, ListT, UnionT, NeverT)

Place = tuple[Any, str]  # key of the dict in the state


def memo_name(name: str) -> str:
    """Return the name of the dict of a nested function, in the scope of its definition."""
    return f"{name} (results)"


def _place(func: Func) -> Place:
    if func.scope is None:
        return ("overlay", ("results", func.code)), "results"  # every recursive function gets it: `overlays_of`
    return func.scope, memo_name(func.source.name.rpartition(".")[2])


def _begin(w: Walker, place: Place, site: tuple[Any, ...]) -> None:
    cell = w.cell(("results", *site))
    cell.real = True
    w.state[place] = filled(w, cell, ())


def begin_memos(w: Walker) -> None:
    """Begin a call: make the dicts of the functions of modules."""
    for code, place in w.facts.memos.items():
        if place[0][0] == "overlay":
            _begin(w, place, (code,))


def begin_memo(w: Walker, func: Func) -> None:
    """Make the dict of a nested function where it is defined."""
    if func.code in w.facts.memos:
        _begin(w, _place(func), (func.code, w.frame.path))


def _may_be_mutated(t: Type) -> bool:
    lists = (isinstance(t, ListT) and not t.tupled) or (isinstance(t, TupleT) and t.listed)
    return lists or not isinstance(t, _KEPT)


def _forget(w: Walker, func: Func) -> NoReturn:
    """Compute the results of a function anew from now on."""
    w.facts.forgetful.add(func.code)
    w.facts.begin_again()
    raise Restart


def remembered(w: Walker, func: Func, params: Mapping[str, Val], compute: Callable[[], Val]) -> Val:
    """Return the result of a call, computed unless it is known."""
    types = [v.word_type() for v in params.values()]
    known = [t for t in types if t is not None]
    if not types or len(known) < len(types) or func.code in w.facts.forgetful:
        return compute()
    if wrong_key(TupleT(tuple(known))):
        return compute()
    memo = w.state.get(_place(func))
    if memo is None and func.code in w.facts.memos:
        return compute()
    if memo is None:
        w.facts.memos[func.code] = _place(func)
        w.facts.begin_again()
        raise Restart
    assert isinstance(memo, MapVal)
    key = TupleVal(tuple(params.values()))
    kept = memo.type.key
    if kept != NEVER and wrong_key(union(kept, TupleT(tuple(known)))):  # of several types that may be equal
        _forget(w, func)
    index = find(w, memo, key)

    def computed() -> Val:
        out = compute()
        if w.block is not None:
            if any(_may_be_mutated(u) for u in all_parts(w.type_of(out))):
                _forget(w, func)
            put(w, memo, key, out)
        return out

    return w.cond(present(w, index), lambda: memo.value_at(w, index), computed)
