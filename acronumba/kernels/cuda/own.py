"""Device functions of the user's own operations: the text that calls them in a kernel, and the names that it finds.

In: an `OwnCall` whose operation has a function for `numba.cuda`. Out: the text of a function of the lane and of the
table of `kernels.own`, in which the first thread of a warp calls the user's function for a node; it returns 0, or 1 if
that has returned a true value. The names are for Numba, which compiles the function, or for the simulator, which calls
it as plain Python.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import numpy as np

from acronumba.emit.interpret import InterpreterMemory
from acronumba.emit.simt import OWN, DeviceFunction
from acronumba.errors import Loc
from acronumba.errors.codes import reject
from acronumba.generics import Value
from acronumba.ir.spec import KernelSpec
from acronumba.kernels.own import own_calls, shortened, table_places
from acronumba.operations import OwnCall, device_source

Placed: TypeAlias = tuple[OwnCall, Loc]


def name_of(call: OwnCall) -> str:
    """Return the name of the function that calls an operation, the same for all results of a call."""
    return f"{OWN}{call.operation.__name__}_{hashlib.sha256(call.text.encode()).hexdigest()[:8]}"


def calls_of(spec: KernelSpec) -> tuple[Placed, ...]:
    """Return the calls of operations in a kernel that have a function for GPUs."""
    return tuple(found for found in own_calls(spec).values() if found[0].operation.cuda is not None)


def text_of(call: OwnCall) -> str:
    """Return the text of the function that calls an operation."""
    given = [(f"x{k}", g.dtype, g.rank) for k, g in enumerate(call.given)]
    made = [(f"y{k}", t, n) for k, (t, n) in enumerate(zip(call.dtypes, call.ranks, strict=True))]
    places, _ = table_places([rank for _, _, rank in (*given, *made)])
    lines = [
        "@cuda.jit(device=True)",
        f"def {name_of(call)}(lane, table):",
        f'    """Call {call.operation.__name__}, an operation of your own, by one thread."""',
        "    failed = 0",
        "    if lane == 0:",
    ]
    for (name, dtype, rank), at in zip((*given, *made), places, strict=True):
        shape = "".join(f"ld(table, {at + 2 + k}), " for k in range(rank)) or "1,"
        where = f"ld(table, {at})" if rank or name.startswith("y") else f"table + {8 * (at + 1)}"
        array = f"{'given' if name.startswith('x') else 'made'}_array(dtype_{dtype}, {where}, ({shape.rstrip()}))"
        lines.append(f"        {name} = {array}{'' if rank or name.startswith('y') else '[0]'}")
    arguments = ", ".join(name for name, _, _ in (*given, *made))
    lines += [f"        failed = has_failed({name_of(call)}_by_user({arguments}))", "    return of_lane(failed, 0)"]
    return "\n".join(lines)


def part_of(call: OwnCall) -> DeviceFunction:
    """Return the function that calls an operation, for any setting."""
    return DeviceFunction(name_of(call), lambda setting: text_of(call))


def compiled_names(calls: Sequence[Placed]) -> Mapping[str, Value]:
    """Return the names that the texts find when Numba compiles them for a GPU."""
    from numba import cuda, types

    names: dict[str, Value] = {}
    for call, _ in calls:
        function = call.operation.cuda
        options = {k: v for k, v in getattr(function, "targetoptions", {}).items() if k in ("fastmath", "inline")}
        names[f"{name_of(call)}_by_user"] = cuda.jit(device=True, **options)(device_source(function))
        for dtype in (*(g.dtype for g in call.given), *call.dtypes):
            names[f"dtype_{dtype}"] = types.boolean if dtype == "bool" else getattr(types, dtype)
    return names


def not_compiled(calls: Sequence[Placed], error: Exception) -> Exception:
    """Return the rejection of device functions that Numba cannot compile."""
    names = ", ".join({call.operation.__name__: None for call, _ in calls})
    return reject(
        "ACR210", calls[0][1], seen=shortened(str(error)),
        message=f"Numba cannot compile a device function of {names}",
        rewrite="give it a function of arrays and numbers that numba.cuda compiles: @operation(cuda=...)",
    )  # fmt: skip


def simulated_names(calls: Sequence[Placed], memory: InterpreterMemory) -> Mapping[str, Value]:
    """Return the names that the texts find in plain Python."""

    def array(write: bool, dtype: np.dtype[Value], address: int, shape: tuple[int, ...]) -> Value:
        size = math.prod(shape) * dtype.itemsize
        if not size:
            return np.empty(shape, dtype)
        view, at = memory.place(address, size, dtype.itemsize, "array of an operation", write)
        out = np.frombuffer(view[at : at + size], dtype).reshape(shape)
        out.flags.writeable = write
        return out

    names: dict[str, Value] = {
        "given_array": partial(array, False), "made_array": partial(array, True),
        "has_failed": lambda out: int(bool(out)),
    }  # fmt: skip
    for call, _ in calls:
        names[f"{name_of(call)}_by_user"] = _caught(device_source(call.operation.cuda))
        names |= {f"dtype_{dtype}": np.dtype(dtype) for dtype in (*(g.dtype for g in call.given), *call.dtypes)}
    return names


def _caught(function: Callable[..., Value]) -> Callable[..., Value]:
    def call(*args: Value) -> Value:
        try:
            return function(*args)
        except Exception:  # as a thread that fails; the plain call then has the error
            return True

    return call
