"""Kernels of the user's own operations: from a function to the address of its machine code, which Numba compiles.

In: an `OwnCall`. Out: the address of a C function of one int64, the address of a table, which returns 0, or 1 if the
kernel has raised an exception, or returned an array of another shape. The table has for each argument and each result
two words, the address of its elements and room for a single element, and then its extents. Numbers, and arrays without
axes, are in the room.

Each operation keeps what was compiled for it. This is the only module of the package that has Numba compile for CPUs.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
import time
from collections.abc import Mapping, Sequence

from acronumba.config import interpreted
from acronumba.errors import Loc
from acronumba.errors.codes import reject
from acronumba.foreign import source_function
from acronumba.generics import Value
from acronumba.ir.spec import KernelSpec
from acronumba.locks import ForkLock
from acronumba.operations import OwnCall

_lock = ForkLock()
seconds = [0.0]  # that Numba has taken in this process
_MOST = 400  # characters of a message of Numba


def table_places(ranks: Sequence[int]) -> tuple[list[int], int]:
    """Return where the words of each array begin in a table, and the number of words."""
    places, at = [], 0
    for rank in ranks:
        places.append(at)
        at += 2 + rank
    return places, at


def own_calls(spec: KernelSpec) -> Mapping[str, tuple[OwnCall, Loc]]:
    """Return the calls of operations in a kernel, by their text."""
    found = [(op.attrs[0], op.loc) for op in spec.body if op.op == "own"]
    return {call.text: (call, loc) for call, loc in found if isinstance(call, OwnCall)}


def address_of(call: OwnCall, loc: Loc) -> int:
    """Return the address of the kernel of a call, compiled once for its types."""
    return int(_compiled(call, loc)[0].address)


def may_fail(call: OwnCall, loc: Loc) -> bool:
    """Whether the kernel of a call may raise an exception, or return an array of another shape."""
    if len(_parameters(call)) == len(call.given):
        return any(call.ranks)
    if interpreted():
        return True
    _, kernel = _compiled(call, loc)
    return any(_raises(found.library.get_llvm_str(), found.fndesc.mangled_name) for found in kernel.overloads.values())


def _raises(text: str, name: str) -> bool:
    """Whether a function may return a status other than 0, as far as LLVM has simplified it."""
    body = re.search(rf"^define [^\n]*@{re.escape(name)}\(.*?^}}", text, re.MULTILINE | re.DOTALL)
    given = re.findall(r"^\s*ret i32 (\S+)", body[0], re.MULTILINE) if body else []
    return not given or any(status != "0" for status in given)


def _parameters(call: OwnCall) -> list[str]:
    kernel = call.operation.kernel
    return list(inspect.signature(source_function(kernel) or kernel).parameters)


def _compiled(call: OwnCall, loc: Loc) -> tuple[Value, Value]:
    known: dict[Value, tuple[Value, ...]] = call.operation.compiled
    function, kernel, captured = known.get(call.signature, (None, None, ()))
    now = captures(source_function(call.operation.kernel) or call.operation.kernel)
    with _lock:
        if kernel is None or len(now) != len(captured) or not all(map(operator.is_, now, captured)):
            function, kernel = _compile(call, loc, again=kernel is not None)
            known[call.signature] = function, kernel, now
    return function, kernel


def captures(function: Value) -> tuple[Value, ...]:
    """Return the code of a function, and the globals and closure variables that Numba takes for constants."""
    names = (name for name in function.__code__.co_names if name in function.__globals__)
    cells = (cell.cell_contents for cell in function.__closure__ or ())
    return function.__code__, *(function.__globals__[name] for name in names), *cells


def _compile(call: OwnCall, loc: Loc, again: bool) -> tuple[Value, Value]:
    """Return the C function of a kernel, and the dispatcher of the kernel: a new one if it is compiled `again`."""
    start = time.perf_counter()
    import numba

    kernel = call.operation.kernel
    source = source_function(kernel)
    if source is None or again:
        kernel = numba.jit(**{"nopython": True, **getattr(kernel, "targetoptions", {})})(source or kernel)
    names = {"kernel": kernel, **_helpers()}
    exec(_source(call), names)
    try:
        return numba.cfunc("int64(int64)")(names["run"]), kernel
    except Exception as error:  # Numba's own errors, and those of its parts
        raise reject(
            "ACR210", loc, seen=shortened(str(error)),
            message=f"Numba cannot compile the kernel of {call.operation.__name__}",
            rewrite="give it a kernel that Numba compiles: @operation(kernel=...)",
        ) from None  # fmt: skip
    finally:
        seconds[0] += time.perf_counter() - start


def shortened(text: str) -> str:
    """Return a message of Numba on one line."""
    text = " ".join(line.strip() for line in text.splitlines())
    return text if len(text) < _MOST else f"{text[:_MOST]} ..."


def _source(call: OwnCall) -> str:
    """Return the text of the function around a kernel: it makes arrays of the words of the table."""
    given = [(f"x{k}", g.dtype, g.rank) for k, g in enumerate(call.given)]
    made = [(f"y{k}", t, n) for k, (t, n) in enumerate(zip(call.dtypes, call.ranks, strict=True))]
    places, words = table_places([rank for _, _, rank in (*given, *made)])
    lines = ["def run(address):", f"    table = carray(pointer(address), ({words},), types.int64)"]
    for (name, dtype, rank), at in zip((*given, *made), places, strict=True):
        where = f"pointer(table[{at}])" if rank else f"pointer(address + {8 * (at + 1)})"
        if not rank and name.startswith("y"):
            where = f"pointer(table[{at}])"
        shape = ", ".join(f"table[{at + 2 + k}]" for k in range(rank)) if rank else "1"
        array = f"carray({where}, ({shape},), types.{'boolean' if dtype == 'bool' else dtype})"
        if name.startswith("x"):
            array = f"frozen({array})" if rank else f"{array}[0]"
        lines.append(f"    {name} = {array}")
    inputs, outputs = (", ".join(name for name, _, _ in part) for part in (given, made))
    lines.append("    try:")
    if len(_parameters(call)) > len(given):
        lines.append(f"        kernel({inputs}, {outputs})")
    else:
        lines.append(f"        out = kernel({inputs})")
        for k, (name, _, rank) in enumerate(made):
            part = "out" if len(made) == 1 else f"out[{k}]"
            if rank:
                lines += [
                    f"        if {part}.shape != {name}.shape:",
                    "            return 1",
                    f"        {name}[...] = {part}",
                ]
            else:
                lines.append(f"        {name}[0] = {part}")
    lines += ["    except Exception:", "        return 1", "    return 0"]
    return "\n".join(lines)


@functools.cache
def _helpers() -> dict[str, Value]:
    """Return the names that the text of `_source` uses."""
    from numba import carray, types
    from numba.core import cgutils
    from numba.extending import intrinsic

    @intrinsic  # type: ignore[untyped-decorator]
    def pointer(context: Value, address: Value) -> Value:
        """Return an address as a pointer."""

        def write(context: Value, builder: Value, signature: Value, args: Value) -> Value:
            return builder.inttoptr(args[0], cgutils.voidptr_t)

        return types.voidptr(types.int64), write

    @intrinsic  # type: ignore[untyped-decorator]
    def frozen(context: Value, array: Value) -> Value:
        """Return an array that cannot be written to."""

        def write(context: Value, builder: Value, signature: Value, args: Value) -> Value:
            return args[0]

        return array.copy(readonly=True)(array), write

    return {"carray": carray, "types": types, "pointer": pointer, "frozen": frozen}
