"""The float64 run that notes how near the values are which it compares.

In: a program, as for `ir.interpret`. Out: besides its result, for each kind of number the least distance of two values
whose order decided something: a comparison, the largest or smallest element, an order of sorting, a number rounded to
a whole one. Where it is smaller than errors of rounding, another decision is as right. Values that are exactly equal
do not count: the first wins everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, cast

import numpy as np

from acronumba.ir.interpret import Interpreter
from acronumba.ir.nodes import ListOp, Op, Scalar, SharedArg, Var
from acronumba.ir.ops import COMPARISONS, Array
from acronumba.ir.types import TensorT

_BEST: Mapping[str, Callable[..., Array]] = {"argmax": np.max, "argmin": np.min}
_COMPARED = COMPARISONS - {"isnan"}
_DECIDE = _COMPARED | set(_BEST)
_WHOLE = frozenset(("trunc", "floor", "ceil", "round"))
NUMBER = "number"  # the kind of Python's floats


class Exact(Interpreter):
    """The reference interpreter, with every float32 read as float64.

    Attributes
    ----------
    nearest : dict of str to float
        Of the last run, by dtype ("float32" as the program has it) or `NUMBER`: the least distance of two values that
        are not equal, in parts of the largest magnitude compared with them; infinity without.
    """

    nearest: dict[str, float]

    def run(self, args: Any) -> Any:
        """Return the result for one instance, or raise `InstanceFailure`."""
        self.nearest = {"float32": np.inf, "float64": np.inf, NUMBER: np.inf}
        return super().run(args)

    def _note(self, kind: str, distances: Array, *magnitudes: Array) -> None:
        found = np.abs(distances)
        found = found[np.isfinite(found) & (found > 0)]
        if found.size:
            sizes = (np.abs(m[np.isfinite(m)]).max(initial=0.0) for m in map(np.asarray, magnitudes))
            self.nearest[kind] = min(self.nearest[kind], float(found.min()) / (max(sizes) or 1.0))

    def _op(self, i: Op, env: dict[Var, Any]) -> None:
        super()._op(i, env)
        if i.op not in _DECIDE:
            return
        args = [self._shared[a.index] if isinstance(a, SharedArg) else self._tensor(a, env[a]) for a in i.args]
        if args[0].dtype.kind != "f":
            return
        dtypes = (a.type.dtype for a in i.args if isinstance(a, Var) and isinstance(a.type, TensorT))
        kind = next(dtypes, NUMBER)
        if i.op in _BEST:
            (x,), axis = args, cast(int, i.attrs[0])
            self._note(kind, _BEST[i.op](x, axis=axis, keepdims=True) - x, x)
        else:
            self._note(kind, np.asarray(args[0] - args[1]), *args)

    def _scalar(self, i: Scalar, env: dict[Var, Any]) -> None:
        super()._scalar(i, env)
        numbers = [env[a] for a in i.args]
        if any(isinstance(n, float) for n in numbers):
            if i.op in _COMPARED:
                self._note(NUMBER, *_numbers([numbers[0] - numbers[1]], numbers))
            elif i.op in _WHOLE:
                halves = 0.5 if i.op == "round" else 0.0
                self._note(NUMBER, *_numbers([numbers[0] - halves - np.round(numbers[0] - halves)], numbers))

    def _list_op(self, i: ListOp, env: dict[Var, Any]) -> None:
        if i.op == "sort":
            keys = env[i.args[1]].words
            if any(isinstance(key, float) for key in keys):
                self._note(NUMBER, *_numbers(np.diff(np.sort(np.asarray(keys, np.float64))), keys))
        super()._list_op(i, env)


def _numbers(*lists: Iterable[float]) -> list[Array]:
    return [np.asarray(list(numbers), np.float64) for numbers in lists]
