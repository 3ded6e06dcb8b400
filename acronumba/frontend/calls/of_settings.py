"""Settings of warnings and of printing, which change no value."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.frontend.calls.arguments import bind
from acronumba.frontend.calls.signatures import signature_of
from acronumba.frontend.kinds.errors import ErrorValue
from acronumba.frontend.kinds.numbers import NoneVal
from acronumba.frontend.kinds.value import Val

if TYPE_CHECKING:
    from acronumba.frontend.walker import Walker


_SAID: dict[str, tuple[Any, ...]] = dict.fromkeys(
    ("all", "divide", "over", "under", "invalid"), (None, "ignore", "warn")
)
_ACTION: dict[str, tuple[Any, ...]] = {"action": (None, "ignore", "default", "always", "all", "module", "once")}
# By function and parameter: the values that affect nothing but the messages shown.
_ALLOWED: dict[Any, dict[str, tuple[Any, ...]]] = {
    np.errstate: _SAID,
    np.seterr: _SAID,
    np.printoptions: {},
    np.set_printoptions: {},
    warnings.catch_warnings: {**_ACTION, "record": (False,)},
    warnings.simplefilter: _ACTION,
    warnings.filterwarnings: _ACTION,
    warnings.resetwarnings: {},
}
CONTEXTS = (np.errstate, np.printoptions, warnings.catch_warnings)
SETTINGS = tuple(what for what in _ALLOWED if what not in CONTEXTS)


def check_setting(w: Walker, what: Any, given: Mapping[str, Val]) -> None:
    """Reject a setting that may raise, call or record something: a batch raises no warnings."""
    for name, val in given.items():
        allowed = _ALLOWED[what].get(name, () if what in (np.errstate, np.seterr) else None)
        if allowed is not None and w.static(val) not in allowed:
            seen = f"{name}={w.describe(val)} of {what.__name__}, by which something is raised, called or kept"
            raise w.reject("ACR102", seen=seen, rewrite="remove it, or ignore the warnings")


def change_setting(w: Walker, what: Any, args: Sequence[Val], kwargs: Mapping[str, Val]) -> Val:
    """Call one of `SETTINGS`, which changes no value; the previous settings that `np.seterr` returns are unknown."""
    given, _ = bind(w, what.__name__, signature_of(what).parameters, args, kwargs)
    check_setting(w, what, given)
    return ErrorValue("the settings before", "ACR202") if what is np.seterr else NoneVal()
