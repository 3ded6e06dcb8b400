"""Reference semantics of kernels: specifications evaluated with NumPy, one node at a time.

In: a `KernelSpec`, the node's operands and run-time extents. Out: its results as arrays. Every code generator is
compared with this. `spec_text` prints a specification for people.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from acronumba.emit.arithmetic import from_bf16, to_bf16
from acronumba.errors import NOWHERE, Loc
from acronumba.ir.evaluate import OperationFailed, apply, as_array
from acronumba.ir.ops import Array
from acronumba.ir.spec import FAR, Dim, KernelOp, KernelSpec, Operand, Size


class KernelFailure(Exception):
    """The kernel fails for these operands, at number `site` of the program's sites."""

    def __init__(self, site: int, text: str) -> None:
        super().__init__(text)
        self.site = site


def evaluate(spec: KernelSpec, operands: Sequence[Array], dims: Sequence[int] = ()) -> tuple[Array, ...]:
    """Return the results of the kernel for one node.

    Parameters
    ----------
    spec
        What to compute.
    operands
        One array or number per entry of `spec.operands`, shared ones included.
    dims
        The run-time extents, `spec.dims` integers.

    Raises
    ------
    KernelFailure
        An operation has no result for these values, such as an index out of range.
    """
    if len(operands) != len(spec.operands) or len(dims) != spec.dims:
        wanted = f"{len(spec.operands)} operands and {spec.dims} extents"
        raise TypeError(f"{spec.name} takes {wanted}, not {len(operands)} and {len(dims)}")

    def extents(shape: tuple[Size, ...]) -> tuple[int, ...]:
        return tuple(int(dims[n.index]) if isinstance(n, Dim) else n for n in shape)

    values: list[Array] = []
    for operand, given in zip(spec.operands, operands, strict=True):
        value = as_array(given, operand.dtype)
        shape = extents(operand.shape)
        if value.shape != ((*value.shape[:1], *shape[1:]) if shape[:1] == (FAR,) else shape):
            raise TypeError(f"{spec.name}: {operand.name} has shape {value.shape}, not {extents(operand.shape)}")
        values.append(value)

    def static(attr: object) -> Any:
        match attr:
            case Dim():
                return int(dims[attr.index])
            case ("value", int(k)):
                return values[k].item()
            case tuple():
                return tuple(static(a) for a in attr)
            case _:
                return attr

    for op in spec.body:
        args = [values[k] for k in op.args]
        halves = op.dtype == "bf16"  # of `kernels.stages.halves`: here they are the float32 that they stand for
        if halves or (op.op == "matmul" and any(dtype_of(spec, k) == "bf16" for k in op.args)):
            args = [from_bf16(to_bf16(a)) for a in args]
        try:
            with np.errstate(all="ignore"):
                dtype = "float32" if halves else op.dtype
                values.append(apply(op.op, args, static(op.attrs), extents(op.shape), dtype))
        except OperationFailed as e:
            if op.site < 0:
                raise AssertionError(f"{spec.name}: {op.op} has no site but fails: {e}") from e
            raise KernelFailure(op.site, str(e)) from e
        except AssertionError as e:
            e.add_note(f"in kernel {spec.name}, operation {op.op} of {op.loc}")
            raise
    return tuple(np.asarray(values[k]) for k in spec.results)


def dtype_of(spec: KernelSpec, v: int) -> str:
    """Return the dtype of a value."""
    first = len(spec.operands)
    return spec.operands[v].dtype if v < first else spec.body[v - first].dtype


def evaluate_rows(
    spec: KernelSpec, operands: Sequence[Array], dims: Sequence[int], shapes: Sequence[tuple[int, ...]]
) -> tuple[Array, ...]:
    """Return the results of a node of several rows, of the given shapes: `evaluate` of each row, stacked."""

    def of_row(k: int) -> list[Array]:
        assert spec.rows is not None
        by = ["whole" if o.kind == "shared" else spec.rows[o.index] for o in spec.operands]
        return [x if b == "whole" else x[k] for x, b in zip(operands, by, strict=True)]

    rows = [evaluate(spec, of_row(k), dims) for k in range(shapes[0][0])]
    dtypes = [spec.body[v - len(spec.operands)].dtype for v in spec.results]
    return tuple(
        np.stack([row[j] for row in rows]) if rows else np.zeros(shape, dtype)
        for j, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
    )


def _size(n: Size) -> str:
    return f"d{n.index}" if isinstance(n, Dim) else "..." if n == FAR else str(n)


def tensor_text(dtype: str, shape: tuple[Size, ...]) -> str:
    """Return "float32[d0, 256]": run-time extents are numbered."""
    return f"{dtype}[{', '.join(map(_size, shape))}]"


def spec_text(spec: KernelSpec) -> str:
    """Return the specification as readable text, one line per operand and operation."""
    return "".join(f"{text}\n" for text, _ in spec_lines(spec))


def spec_lines(spec: KernelSpec) -> list[tuple[str, Loc]]:
    """Return the lines of `spec_text`, each with its position in the user's source."""
    names = names_of_values(spec)

    def static(attr: object) -> str:
        match attr:
            case Dim():
                return _size(attr)
            case ("value", int(k)):
                return names[k]
            case tuple():
                return "(" + ", ".join(map(static, attr)) + ("," if len(attr) == 1 else "") + ")"
            case _:
                return repr(attr)

    def operand(o: Operand) -> str:
        if o.kind in ("tensor", "shared", "list", "numbers"):
            return f"{o.kind} {tensor_text(o.dtype, o.shape)}"
        return o.kind

    def operation(k: int, op: KernelOp) -> tuple[str, str, Loc]:
        inner = ", ".join([*(names[a] for a in op.args), *map(static, op.attrs)])
        site = f"  fails at site {op.site}" if op.site >= 0 else ""
        return f"    {names[k]} = {op.op}({inner})", f"{tensor_text(op.dtype, op.shape)}{site}", op.loc

    rows: list[tuple[str, str, Loc]] = []
    for k, o in enumerate(spec.operands):
        number = f"shared {o.index}" if o.kind == "shared" else f"argument {o.index}"
        if o.kind != "shared" and spec.rows is not None and spec.rows[o.index] != "whole":
            number = f"{spec.rows[o.index]} of {number}"
        rows.append((f"    {names[k]}: {operand(o)}", f"# {number}", NOWHERE))
    first = len(spec.operands)
    rows += [operation(first + k, op) for k, op in enumerate(spec.body)]
    width = min(max((len(a) for a, _, _ in rows), default=0), 60)
    dims = f"  # extents {', '.join(f'd{k}' for k in range(spec.dims))}" if spec.dims else ""
    lines = [(f"kernel {spec.name}{', one row' if spec.rows is not None else ''}:{dims}", NOWHERE)]
    last = 0
    for left, right, loc in rows:
        note = f"  # line {loc.line}" if loc.line and loc.line != last else ""
        last = loc.line
        lines.append((f"{left:<{width}}  {right}{note}".rstrip(), loc))
    lines.append(("    return " + ", ".join(names[k] for k in spec.results), NOWHERE))
    return lines


def names_of_values(spec: KernelSpec) -> list[str]:
    """Return one name per value: the user's if it has one, numbered so that no two are equal."""
    out: list[str] = []
    taken: set[str] = set()
    for k, given in enumerate([*(o.name for o in spec.operands), *(o.name for o in spec.body)]):
        base = given or f"v{k}"
        name = base
        n = 2
        while name in taken:
            name, n = f"{base}_{n}", n + 1
        taken.add(name)
        out.append(name)
    return out
