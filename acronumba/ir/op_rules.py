"""Rules of the verifier for tensor operations: one per kind, or per operation.

In: an `Op`, with the dtypes and shapes of its arguments and of its result. Out: nothing, or `Wrong`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from acronumba.ir.agree import Wrong, demand
from acronumba.ir.nodes import Op, Var
from acronumba.ir.ops import TENSORS, Attrs, Takes
from acronumba.ir.types import ListT
from acronumba.operations import OwnCall

_Shape = tuple[int | None, ...]

TAKES: Mapping[Takes, Callable[[str], bool]] = {
    "any": lambda dtype: True,
    "float": lambda dtype: dtype.startswith("float"),
    "logical": lambda dtype: not dtype.startswith("float"),
    "integer": lambda dtype: dtype.startswith(("int", "uint")),
    "int64": lambda dtype: dtype == "int64",
}


def _agree(shape: _Shape, wanted: _Shape, what: str = "the result") -> None:
    text = f"{what} has shape {list(shape)}, not {list(wanted)}".replace("None", "?")
    demand(len(shape) == len(wanted), text)
    demand(all(n is None or m is None or n == m for n, m in zip(shape, wanted, strict=True)), text)


def _attrs(i: Op, count: int) -> Attrs:
    demand(len(i.attrs) == count, f"{len(i.attrs)} static arguments, not {count}")
    return i.attrs


def _axis(i: Op, axis: object, rank: int) -> int:
    if not isinstance(axis, int) or not 0 <= axis < rank:
        raise Wrong(f"no axis {axis!r} of {rank}")
    return axis


def _broadcast(shapes: Sequence[_Shape], shape: _Shape) -> None:
    """The shapes may broadcast to `shape`. A run-time extent may turn out to be 1."""
    demand(
        max(map(len, shapes), default=0) == len(shape), f"shapes of ranks {[*map(len, shapes)]} to rank {len(shape)}"
    )
    for axis in range(-len(shape), 0):
        extents = [s[axis] for s in shapes if len(s) >= -axis]
        fixed = {n for n in extents if n not in (None, 1)}
        demand(len(fixed) <= 1, f"extents {sorted(map(str, fixed))} do not broadcast")
        n = shape[axis]
        if fixed:
            demand(n is None or n in fixed, f"extents {extents} to {n}".replace("None", "?"))
        elif None not in extents:
            demand(n in (None, 1), f"extents {extents} to {n}")


def _element(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    _broadcast(shapes, shape)
    if i.op == "cast":
        return
    if i.op == "where":
        demand(dtypes[0] == "bool", f"a condition of dtype {dtypes[0]}")
        dtypes = dtypes[1:]
    demand(len(set(dtypes)) == 1, f"dtypes {', '.join(dtypes)} in one operation")
    demand(TAKES[TENSORS[i.op].takes](dtypes[0]), f"{i.op} of {dtypes[0]}")
    wanted = "bool" if TENSORS[i.op].gives == "bool" else dtypes[0]
    demand(dtype == wanted, f"the result is {dtype}, not {wanted}")


def _reduce(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (axes,) = _attrs(i, 1)
    demand(isinstance(axes, tuple) and list(axes) == sorted(set(axes)), f"axes {axes!r} are not a sorted tuple")
    for axis in axes:
        _axis(i, axis, len(shapes[0]))
    _agree(shape, tuple(n for k, n in enumerate(shapes[0]) if k not in axes))
    wanted = {"same": dtypes[0], "bool": "bool", "any": dtype}[TENSORS[i.op].gives]
    demand(dtype == wanted, f"{i.op} of {dtypes[0]} to {dtype}")


def _arg(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (axis,) = _attrs(i, 1)
    _axis(i, axis, len(shapes[0]))
    _agree(shape, tuple(n for k, n in enumerate(shapes[0]) if k != axis))
    demand(dtype == "int64", f"{i.op} to {dtype}")


def _scan(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (axis,) = _attrs(i, 1)
    _axis(i, axis, len(shapes[0]))
    _agree(shape, shapes[0])
    _same_dtype(dtypes, dtype)


def _matmul(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    x, y = shapes
    demand(x and y, "a matrix product of a number")
    wide = "int32" if dtypes[0] == "int8" and dtype == "int32" else dtypes[0]  # sums of products of codes
    demand(dtypes[0] == dtypes[1] and dtype == wide, f"{' @ '.join(dtypes)} to {dtype}")
    inner = y[-2] if len(y) > 1 else y[-1]
    demand(x[-1] is None or inner is None or x[-1] == inner, f"inner extents {x[-1]} and {inner}")
    tail = (*x[-2:-1], *(y[-1:] if len(y) > 1 else ()))
    lead = [s[:-2] for s in (x, y)]
    rank = max(map(len, lead))
    demand(len(shape) == rank + len(tail), f"rank {len(shape)}, not {rank + len(tail)}")
    _agree(shape[rank:], tail)
    _broadcast(lead, shape[:rank])


def _same_dtype(dtypes: Sequence[str], dtype: str) -> None:
    demand(set(dtypes) == {dtype}, f"{', '.join(dtypes)} to {dtype}")


def _reshape(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    _same_dtype(dtypes, dtype)
    if None not in shape and None not in shapes[0]:
        sizes = [_product(shapes[0]), _product(shape)]
        demand(sizes[0] == sizes[1], f"{sizes[0]} elements to {sizes[1]}")


def _product(shape: _Shape) -> int:
    out = 1
    for n in shape:
        out *= n or 0
    return out


def _transpose(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (order,) = _attrs(i, 1)
    _same_dtype(dtypes, dtype)
    demand(isinstance(order, tuple) and sorted(order) == list(range(len(shapes[0]))), f"{order!r} is no permutation")
    _agree(shape, tuple(shapes[0][k] for k in order))


def _broadcast_to(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    _same_dtype(dtypes, dtype)
    x = shapes[0]
    demand(len(x) <= len(shape), f"rank {len(x)} to rank {len(shape)}")
    for n, m in zip(x, shape[len(shape) - len(x) :], strict=True):
        demand(n in (None, 1) or m is None or n == m, f"an extent {n} to {m}")


def _slice(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    starts, steps = _attrs(i, 2)
    _same_dtype(dtypes, dtype)
    x = shapes[0]
    demand(len(starts) == len(steps) == len(x) == len(shape), "not one start, step and extent per axis")
    for start, step, n, count in zip(starts, steps, x, shape, strict=True):
        demand(isinstance(step, int) and step != 0, f"step {step!r}")
        if isinstance(start, Var) or count == 0:
            continue
        demand(start >= 0 and (n is None or start < n or count is None), f"start {start} of {n}")
        if n is not None and count is not None:
            demand(0 <= start + step * (count - 1) < n, f"elements {start} + {step} * {count - 1} of {n}")


def _take(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (axis,) = _attrs(i, 1)
    _same_dtype(dtypes[:1], dtype)
    demand(dtypes[1].startswith(("int", "uint")), f"an index of dtype {dtypes[1]}")
    x = shapes[0]
    axis = _axis(i, axis, len(x))
    _agree(shape, (*x[:axis], *shapes[1], *x[axis + 1 :]))


def _windows(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (axis,) = _attrs(i, 1)
    _same_dtype(dtypes, dtype)
    x = shapes[0]
    axis = _axis(i, axis, len(x))
    many, size = shape[axis : axis + 2]
    _agree(shape, (*x[:axis], many, size, *x[axis + 1 :]))
    n = x[axis]
    if n is not None and many is not None and size is not None:
        demand(not many or not size or many + size - 1 <= n, f"{many} windows of {size} of {n}")


def _scale_gradient(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    factor, alias = (*i.attrs, 0)[:2] if len(i.attrs) == 2 else (*_attrs(i, 1), 0)
    _same_dtype(dtypes, dtype)
    demand(isinstance(alias, int), f"{alias!r} for a detached name")
    demand(isinstance(factor, float) and TAKES["float"](dtype), f"the gradient of {dtype} times {factor!r}")
    _agree(shape, shapes[0])


def _fold(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    _same_dtype(dtypes, dtype)
    x = shapes[0]
    demand(TAKES["float"](dtype), f"a fold of {dtype}")
    demand(len(shape) <= len(x), f"rank {len(x)} to rank {len(shape)}")
    for n, m in zip(shape, x[len(x) - len(shape) :], strict=True):
        demand(n in (None, 1) or m is None or n == m, f"an extent {m} to {n}")


def _scatter(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (axis,) = _attrs(i, 1)
    _same_dtype(dtypes[:1], dtype)
    demand(dtype != "bool" and TAKES["integer"](dtypes[1]), f"rows of {dtype} at an index of {dtypes[1]}")
    axis = _axis(i, axis, len(shape))
    _agree(shapes[0], (*shape[:axis], *shapes[1], *shape[axis + 1 :]), "the argument")


def _concat(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (axis,) = _attrs(i, 1)
    _same_dtype(dtypes, dtype)
    axis = _axis(i, axis, len(shape))
    for s in shapes:
        demand(len(s) == len(shape), f"ranks {[len(s) for s in shapes]} to {len(shape)}")
        _agree((*s[:axis], None, *s[axis + 1 :]), shape, "an argument")
    along = [s[axis] for s in shapes]
    total = None if None in along else sum(n or 0 for n in along)
    _agree(shape[axis : axis + 1], (total,))


def _stack(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    _same_dtype(dtypes, dtype)
    demand(isinstance(i.args[0], Var) and isinstance(i.args[0].type, ListT), "stack of something that is not a list")
    _agree(shape, shapes[0])


def _const(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (value,) = _attrs(i, 1)
    demand(isinstance(value, bool | int | float), f"the constant {value!r} is not a number")
    _agree(shape, ())


def _iota(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    _attrs(i, 0)
    demand(len(shape) == 1 and dtype != "bool", f"iota of rank {len(shape)}, {dtype}")


def _argsort(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (axis,) = _attrs(i, 1)
    _axis(i, axis, len(shapes[0]))
    demand(dtype == "int64", f"places of {dtype}")
    _agree(shape, shapes[0])


def _searchsorted(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    (side,) = _attrs(i, 1)
    demand(side in ("left", "right"), f"the side {side!r}")
    demand(len(shapes[0]) == 1 and dtypes[0] == dtypes[1], f"{dtypes[1]} among {dtypes[0]} of rank {len(shapes[0])}")
    demand(dtype == "int64", f"places of {dtype}")
    _agree(shape, shapes[1])


def _own(i: Op, dtypes: list[str], shapes: list[_Shape], dtype: str, shape: _Shape) -> None:
    call, *made = i.attrs
    demand(isinstance(call, OwnCall) and len(made) == len(call.ranks), "own without a call, or a shape of each result")
    assert isinstance(call, OwnCall)
    given = [(g.dtype, g.rank) for g in call.given]
    demand(given == list(zip(dtypes, map(len, shapes), strict=True)), f"arguments of {call}")
    demand((dtype, len(shape)) == (call.dtypes[call.number], call.ranks[call.number]), f"the result of {call}")


_Rule = Callable[[Op, list[str], list[_Shape], str, _Shape], None]


RULES: dict[str, _Rule] = {
    "element": _element,
    "reduce": _reduce,
    "arg": _arg,
    "scan": _scan,
    "order": _argsort,
    "search": _searchsorted,
    "matmul": _matmul,
    "reshape": _reshape,
    "transpose": _transpose,
    "broadcast": _broadcast_to,
    "slice": _slice,
    "take": _take,
    "windows": _windows,
    "scale_gradient": _scale_gradient,
    "fold": _fold,
    "scatter": _scatter,
    "concat": _concat,
    "stack": _stack,
    "const": _const,
    "iota": _iota,
    "own": _own,
}
