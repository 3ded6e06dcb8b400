"""The results of rejected expressions, and values that cannot be used."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from acronumba.frontend.exceptions import Rejected, Restart
from acronumba.frontend.join_shapes import ErrorShape, JoinShape
from acronumba.frontend.kinds.value import StateKey, Val, Value
from acronumba.ir.functions import function_advice
from acronumba.records import record

if TYPE_CHECKING:
    from acronumba.frontend.block import Blocks
    from acronumba.frontend.merge import Merge
    from acronumba.frontend.walker import Walker


READ_AGAIN = "an iterator that is read again"
GROWS = "a tuple that grows, whose length is known only at run time"


# Why a module of PyTorch cannot be read, and what to do.
MODULES = {
    "a module with hooks": "call the function of the hook in `forward`; of weight_norm: remove_weight_norm(module)",
    "a module with parametrizations": "torch.nn.utils.parametrize.remove_parametrizations(module, name)",
    "a module of TorchScript": "the module itself, not what torch.jit made of it",
    "a module of several devices": "its .module",
}


_DATA = {  # by a pattern of the kind of data
    r"of class frozenset": "a set: `set(x)`",
    r"an array of dtype complex": "two arrays, of the real and the imaginary parts",
    r"of class MaskedArray": "two arrays: `x.filled(0)` and the mask, `np.ma.getmaskarray(x)`",
    r"of class (date|datetime|time|timedelta)\b": "a number: `d.toordinal()`, `t.timestamp()`, `t.total_seconds()`",
    r"an array of dtype \W*(datetime64|timedelta64|[Mm]8)": "an array of ints: `x.astype(np.int64)`",
    r"an array of dtype (void|\[)": "a dict of its fields: `{n: x[n].copy() for n in x.dtype.names}`",
}


def conversion(what: str) -> str:
    """Return the rewrite for an unsupported kind of data (`OpaqueT.what`); "" if none is known."""
    if what == READ_AGAIN:
        return "make it a list: list(...)"
    if what == GROWS:
        return "keep a list; as the key of a dict, a number made of its elements: k * n + i"
    if what in MODULES:
        return MODULES[what]
    for pattern, rewrite in _DATA.items():
        if re.search(pattern, what):
            return rewrite
    if "Use Tensor.to_dense()" in what:
        return "x.to_dense(), before the batch"
    if re.search(r"an array of dtype \S*float16", what):
        return "convert it before the batch: `x.astype(np.float32)`, `x.float()` of a tensor"
    if advice := function_advice(what):
        return advice
    floating = re.search(r"an array of dtype [<>]f", what)  # not in the CPU's byte order
    return "convert it before the batch: `x.astype(np.float32)`" if floating else ""


@record(eq=False, frozen=False)
class ErrorValue(Value):
    """The result of a rejected expression; or an unusable value, for the reason `why`: merged without a common type."""

    why: str = ""
    code: str = ""  # of the rejection where it is used
    for_now: bool = False  # rejected while the result type of a recursive function was not known yet

    immutable = True

    def describe(self, w: Blocks) -> str:
        w.check_poison(self)  # rejected where it was made, or now: its use is no further error
        return "errorvalue"

    def rejection(self, w: Blocks, name: str = "") -> Rejected:
        """Return the exception to raise where it is used, or where a name that is bound to it is read."""
        if not self.why:
            return Rejected(None)  # rejected elsewhere
        code, seen = self.code or ("ACR303" if name else "ACR206"), f"{name}: {self.why}" if name else self.why
        return w.reject(code, seen=seen, rewrite=conversion(self.why))

    def bound_as(self, w: Walker, name: str, key: StateKey) -> Val:
        if self.why == READ_AGAIN and key[0] in w.scopes:
            site = (w.scopes[key[0]][1].code, name)
            if site not in w.facts.waiting:  # from now on it is asked for items
                w.facts.waiting.add(site)
                raise Restart
        raise self.rejection(w, name)

    def shared_by_calls(self) -> Value:
        return self

    def join_shape(self, w: Merge) -> JoinShape:
        return ErrorShape(self.why, self.code)
