"""Trees run in plain Python, over checked memory.

In: a `tree.Module`, the name of one of its functions, and an `InterpreterMemory` with the NumPy arrays that its
addresses may reach. Out: the function's result; arrays change as compiled code would change them. This is the
definition of the language and the test double of `llvm`: types are exact (integers wrap, float32 rounds after every
operation, `fma` rounds once), and undefined behaviour of compiled code is an error here: an access outside the arrays
or misaligned (IndexError), a division by zero (ZeroDivisionError), a shift by more than the width (ValueError), a
local read before it is assigned (UnboundLocalError). A float outside the integers' range converts to the smallest
integer, as on CPUs; code must not depend on it. Each function becomes Python source, which runs about ten times as
fast as walking the tree.
"""

from __future__ import annotations

import bisect
import math
import struct
import threading
from collections.abc import Callable, Mapping, Sequence
from types import CodeType
from typing import TypeAlias

import numpy as np

from acronumba.emit import tree
from acronumba.emit.arithmetic import (
    RULES,
    Value,
    Vector,
    compare_unsigned,
    converter,
    divider,
    dtype,
    float_div,
    lanewise,
    scalar,
    shift,
    wrap,
)
from acronumba.emit.intrinsics import INTRINSICS
from acronumba.emit.tree import I64, VOID, Ty

Function: TypeAlias = Callable[..., Value]

_FORMATS = {"i1": "B", "i8": "b", "i16": "h", "i32": "i", "i64": "q", "f32": "f", "f64": "d"}


class InterpreterMemory:
    """The arrays that interpreted code may reach, by address, and the functions it may call by address.

    >>> memory = InterpreterMemory()
    >>> a = np.arange(4)
    >>> memory.load(memory.add(a) + 8, I64)
    1
    >>> memory.load(a.ctypes.data + 32, I64)
    Traceback (most recent call last):
        ...
    IndexError: load of i64 outside every array: ...
    """

    def __init__(self, *arrays: Vector) -> None:
        # Starts, ends and views of arrays. Other threads read this: it is replaced as a whole.
        self._known: tuple[list[int], list[int], list[memoryview], list[Vector]] = ([], [], [], [])
        self._lock = threading.Lock()
        self._functions: dict[int, Function] = {}
        self._spaces: dict[int, dict[str, Function]] = {}  # the functions of a module, bound to this memory
        self._keep: list[object] = []
        for array in arrays:
            self.add(array)

    def add(self, array: Vector) -> int:
        """Make a C-contiguous array accessible to code; return its address. Parts of known arrays need not be added."""
        if not array.flags.c_contiguous:
            raise ValueError("only a C-contiguous array has one range of addresses")
        start = array.ctypes.data
        end = start + array.nbytes
        if start == end:
            return start
        with self._lock:
            starts, ends, views, arrays = self._known
            k = bisect.bisect_right(starts, start) - 1
            if k >= 0 and end <= ends[k] and (not array.flags.writeable or not views[k].readonly):
                return start
            a = k if k >= 0 and ends[k] > start else k + 1
            b = bisect.bisect_left(starts, end)
            if any(starts[j] < start or ends[j] > end for j in range(a, b)):
                raise ValueError("the array overlaps one that is known")
            view = memoryview(array.reshape(-1).view(np.uint8))  # type: ignore[arg-type]
            self._known = (
                [*starts[:a], start, *starts[b:]],
                [*ends[:a], end, *ends[b:]],
                [*views[:a], view, *views[b:]],
                [*arrays[:a], array, *arrays[b:]],
            )
        return start

    def remove(self, array: Vector) -> None:
        """Make an array that was added unreachable."""
        with self._lock:
            starts, ends, views, arrays = self._known
            k = bisect.bisect_left(starts, array.ctypes.data)
            if k == len(starts) or starts[k] != array.ctypes.data:
                raise KeyError("no such array")
            self._known = (
                starts[:k] + starts[k + 1 :],
                ends[:k] + ends[k + 1 :],
                views[:k] + views[k + 1 :],
                arrays[:k] + arrays[k + 1 :],
            )

    def add_function(self, function: Function) -> int:
        """Give a Python function of integers an address for `call_address`."""
        address = 16 + 16 * len(self._functions)
        self._functions[address] = function
        return address

    def add_module(self, module: tree.Module) -> dict[str, int]:
        """Give every entry point of a module an address for `call_address`."""

        def entry(name: str) -> Function:
            return lambda *args: run(module, name, args, self)

        return {name: self.add_function(entry(name)) for name in module.exports}

    def call(self, address: int, *args: int) -> Value:
        if address not in self._functions:
            raise IndexError(f"call of {address:#x}, which is no function")
        return self._functions[address](*args)

    def place(self, address: int, size: int, align: int, what: str, write: bool) -> tuple[memoryview, int]:
        """Return the view of the array that a range of addresses lies in, and the offset in it; checks the range."""
        starts, ends, views, _ = self._known
        k = bisect.bisect_right(starts, address) - 1
        if k < 0 or address + size > ends[k]:
            near = f"{address - ends[k]} bytes after the end of one" if k >= 0 else "before all of them"
            raise IndexError(f"{what} outside every array: {address:#x}, {size} bytes, {near}")
        if address % align:
            raise IndexError(f"{what} misaligned: {address:#x}")
        if write and views[k].readonly:
            raise IndexError(f"{what} to a read-only array: {address:#x}")
        return views[k], address - starts[k]

    def load(self, address: int, type: Ty) -> Value:
        """Return the value of the type at an address."""
        return loader(self, type)(address)

    def store(self, address: int, value: Value, type: Ty) -> None:
        """Store a value of the type at an address."""
        storer(self, type)(address, value)


def loader(memory: InterpreterMemory, type: Ty) -> Callable[[int], Value]:
    what, place = f"load of {type}", memory.place
    size = max(type.bits, 8) // 8
    if type.lanes > 1:
        whole, form = size * type.lanes, np.dtype(np.uint8) if type.bits == 1 else dtype(type)

        def vector(address: int) -> Value:
            view, at = place(address, whole, size, what, False)
            got = np.frombuffer(view, form, type.lanes, at)
            return got != 0 if type.bits == 1 else got.copy()

        return vector
    read = struct.Struct("=" + _FORMATS[str(type)]).unpack_from
    if type.bits == 1:
        return lambda address: read(*place(address, 1, 1, what, False))[0] != 0
    if str(type) == "f32":
        return lambda address: np.float32(read(*place(address, 4, 4, what, False))[0])
    return lambda address: read(*place(address, size, size, what, False))[0]


def storer(memory: InterpreterMemory, type: Ty) -> Callable[[int, Value], None]:
    what, place = f"store of {type}", memory.place
    size = max(type.bits, 8) // 8
    if type.lanes > 1:
        whole, form = size * type.lanes, dtype(type)

        def vector(address: int, value: Value) -> None:
            view, at = place(address, whole, size, what, True)
            np.frombuffer(view, form, type.lanes, at)[:] = value

        return vector
    write = struct.Struct("=" + _FORMATS[str(type)]).pack_into
    return lambda address, value: write(*place(address, size, size, what, True), value)


def _masked_loader(memory: InterpreterMemory, type: Ty) -> Callable[[int, int, Value], Value]:
    size, form = max(type.bits, 8) // 8, dtype(type)

    def load(address: int, left: int, fill: Value) -> Value:
        out = np.full(type.lanes, fill, form)
        n = min(max(left, 0), type.lanes)
        if n:
            view, at = memory.place(address, n * size, size, f"masked load of {type}", False)
            got = np.frombuffer(view, np.uint8 if type.bits == 1 else form, n, at)
            out[:n] = got != 0 if type.bits == 1 else got
        return out

    return load


def _masked_storer(memory: InterpreterMemory, type: Ty) -> Callable[[int, Value, int], None]:
    size, form = max(type.bits, 8) // 8, dtype(type)

    def store(address: int, value: Value, left: int) -> None:
        n = min(max(left, 0), type.lanes)
        if n:
            view, at = memory.place(address, n * size, size, f"masked store of {type}", True)
            np.frombuffer(view, form, n, at)[:] = value[:n]

    return store


def _mover(memory: InterpreterMemory) -> Callable[[int, int, int], None]:
    def move(to: int, source: int, count: int) -> None:
        if count < 0:
            raise IndexError(f"copy of {count} bytes")
        if count:
            view, at = memory.place(source, count, 1, "copy", False)
            data = bytes(view[at : at + count])
            view, at = memory.place(to, count, 1, "copy", True)
            view[at : at + count] = data

    return move


def _copier(memory: InterpreterMemory) -> Callable[[int, int, int], None]:
    move = _mover(memory)

    def copy(to: int, source: int, count: int) -> None:
        if to < source + count and source < to + count and to != source:
            raise IndexError(f"copy_bytes of overlapping areas: {to:#x}, {source:#x}, {count} bytes")
        move(to, source, count)

    return copy


def _filler(memory: InterpreterMemory) -> Callable[[int, int, int], None]:
    def fill(to: int, value: int, count: int) -> None:
        if count < 0:
            raise IndexError(f"fill of {count} bytes")
        if count:
            view, at = memory.place(to, count, 1, "fill", True)
            view[at : at + count] = bytes([value & 255]) * count

    return fill


def _adder(memory: InterpreterMemory) -> Callable[[int, int], int]:
    def add(address: int, value: int) -> int:
        old = int(memory.load(address, I64))
        memory.store(address, wrap(old + value, 64), I64)
        return old

    return add


def _swapper(memory: InterpreterMemory) -> Callable[[int, int, int], bool]:
    def swap(address: int, expected: int, new: int) -> bool:
        if memory.load(address, I64) != expected:
            return False
        memory.store(address, new, I64)
        return True

    return swap


OF_MEMORY: dict[str, Callable[[InterpreterMemory], Function]] = {
    "copy_bytes": _copier,
    "move_bytes": _mover,
    "fill_bytes": _filler,
    "atomic_load": lambda memory: loader(memory, I64),
    "atomic_store": lambda memory: storer(memory, I64),
    "atomic_add": _adder,
    "atomic_cas": _swapper,
}


def _intrinsic(name: str, e: tree.Call, memory: InterpreterMemory) -> Function:
    """Return the function of an intrinsic at the types of one call."""
    row = INTRINSICS.get(name)
    if row is None:
        raise KeyError(f"no function and no intrinsic {name!r}")
    if row.called:
        return lanewise(row.c, e.type)
    return OF_MEMORY[name](memory) if name in OF_MEMORY else RULES[name](e.type)


class _Writer:
    """Writes one function as Python; helpers that it calls are named in `space` by kind and types."""

    def __init__(self, module: tree.Module, functions: Mapping[str, tree.Function]) -> None:
        self.module, self.functions = module, functions
        self.makers: dict[str, Callable[[InterpreterMemory], Function]] = {}  # by the name in the source
        self.lines: list[str] = []
        self.locals: dict[str, str] = {}

    def maker(self, name: str, make: Callable[[InterpreterMemory], Function]) -> str:
        self.makers.setdefault(name, make)
        return name

    def local(self, name: str) -> str:
        if name not in self.locals:
            self.locals[name] = f"v{len(self.locals)}_" + "".join(c if c.isalnum() else "_" for c in name)
        return self.locals[name]

    def function(self, f: tree.Function) -> None:
        self.locals = {}
        self.lines.append(f"def f_{f.name}({', '.join(self.local(p.name) for p in f.params)}):")
        self.body(f.body, 1)

    def body(self, body: tree.Body, depth: int) -> None:
        pad, start = "    " * depth, len(self.lines)
        for s in body:
            self.stmt(s, pad, depth)
        if len(self.lines) == start:
            self.lines.append(pad + "pass")

    def stmt(self, s: tree.Stmt, pad: str, depth: int) -> None:
        out = self.lines.append
        match s:
            case tree.Assign(target, value):
                out(f"{pad}{self.local(target.name)} = {self.expr(value)}")
            case tree.Store(address, value, None):
                type = value.type
                f = self.maker(f"st_{type}", lambda m: storer(m, type))
                out(f"{pad}{f}({self.expr(address)}, {self.expr(value)})")
            case tree.Store(address, value, tree.Expr() as left):
                type = value.type
                f = self.maker(f"stm_{type}", lambda m: _masked_storer(m, type))
                out(f"{pad}{f}({self.expr(address)}, {self.expr(value)}, {self.expr(left)})")
            case tree.If(cond, yes, no):
                out(f"{pad}if {self.expr(cond)}:")
                self.body(yes, depth + 1)
                if no:
                    out(f"{pad}else:")
                    self.body(no, depth + 1)
            case tree.While(cond, body):
                out(f"{pad}while {self.expr(cond)}:")
                self.body(body, depth + 1)
            case tree.For(var, start, stop, step, body):
                bounds = f"{self.expr(start)}, {self.expr(stop)}, {step}"
                out(f"{pad}for {self.local(var.name)} in range({bounds}):")
                self.body(body, depth + 1)
            case tree.Break():
                out(pad + "break")
            case tree.Continue():
                out(pad + "continue")
            case tree.Again():
                if self.entries:
                    out(f"{pad}{self.entries}({self.goto_local})")
                out(pad + "continue")
            case tree.Return(value):
                out(pad + "return" + (f" {self.expr(value)}" if value is not None else ""))
            case tree.Do(expr):
                out(pad + self.expr(expr))
            case tree.Comment():
                pass
            case tree.Dispatch(var, blocks, entries):
                outer, self.entries = self.entries, ""
                if entries is not None:
                    name = f"entry_{len(self.makers)}"
                    self.entries = self.maker(name, lambda m: _entry_check(entries))
                    out(f"{pad}{self.entries}({self.local(var.name)})")
                out(pad + "while True:")
                self.arms(var, sorted(blocks, key=lambda b: b[0]), depth + 1)
                self.entries = outer
            case tree.Goto(block):
                out(f"{pad}{self.goto_local} = {block}")
                out(pad + "continue")

    goto_local = ""  # the variable of the dispatch around, and the name of the check of its entries
    entries = ""

    def arms(self, var: tree.Local, blocks: Sequence[tuple[int, str, tree.Body]], depth: int) -> None:
        """A tree of tests, so that a thousand blocks are ten levels."""
        pad, pc = "    " * depth, self.local(var.name)
        if len(blocks) == 1:
            number, _, body = blocks[0]
            outer, self.goto_local = self.goto_local, pc
            self.lines.append(f"{pad}if {pc} == {number}:")
            self.body(body, depth + 1)
            self.lines.append(f"{pad}else:")
            self.lines.append(f"{pad}    raise ValueError(f'no block {{{pc}}}')")
            self.goto_local = outer
            return
        half = len(blocks) // 2
        self.lines.append(f"{pad}if {pc} < {blocks[half][0]}:")
        self.arms(var, blocks[:half], depth + 1)
        self.lines.append(f"{pad}else:")
        self.arms(var, blocks[half:], depth + 1)

    def constant(self, value: int | float, type: Ty) -> str:
        if type.kind == "i":
            value = bool(int(value) & 1) if type.bits == 1 else wrap(int(value), type.bits)
            if type.lanes == 1:
                return repr(value)
        if type.lanes == 1 and type.bits == 64 and math.isfinite(value):
            return repr(float(value))
        key = f"k_{type}_" + (struct.pack("<d", value).hex() if type.kind == "f" else str(value).replace("-", "m"))
        with np.errstate(all="ignore"):
            made: Value = np.full(type.lanes, value, dtype(type))
            made = made if type.lanes > 1 else scalar(made[0], type)
        return self.maker(key, lambda m: made)

    def expr(self, e: tree.Expr) -> str:
        match e:
            case tree.Const(value, type):
                return self.constant(value, type)
            case tree.Local(name):
                return self.local(name)
            case tree.Binary(op, left, right, type):
                return self.binary(op, left, right, type)
            case tree.Unary(op, arg, type):
                x = self.expr(arg)
                if type.bits == 1:
                    return f"(not {x})" if type.lanes == 1 else f"(~{x})"
                return f"(~{x})" if op == "~" else self.wrapped(f"-{x}", type)
            case tree.Compare(op, left, right, _):
                a, b = self.expr(left), self.expr(right)
                if op.startswith("u"):
                    import operator

                    of = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq,
                          "!=": operator.ne}[op[1:]]  # fmt: skip
                    name = f"{of.__name__}_u_{left.type}"
                    return f"{self.maker(name, lambda m: compare_unsigned(of, left.type))}({a}, {b})"
                return f"({a} {op} {b})"
            case tree.Select(cond, yes, no, type):
                c, a, b = self.expr(cond), self.expr(yes), self.expr(no)
                if type.lanes > 1:
                    return f"{self.maker('where', lambda m: np.where)}({c}, {a}, {b})"
                return f"{self.maker('select', lambda m: lambda c, a, b: a if c else b)}({c}, {a}, {b})"
            case tree.Convert(arg, how, type):
                old = arg.type
                f = self.maker(f"{how}_{old}_{type}", lambda m: converter(old, type, how))
                return f"{f}({self.expr(arg)})"
            case tree.Load(address, type, None):
                return f"{self.maker(f'ld_{type}', lambda m: loader(m, type))}({self.expr(address)})"
            case tree.Load(address, type, tree.Expr() as left, fill):
                f = self.maker(f"ldm_{type}", lambda m: _masked_loader(m, type))
                return f"{f}({self.expr(address)}, {self.expr(left)}, {self.constant(fill, type.scalar)})"
            case tree.Call():
                return self.call(e)
        raise TypeError(f"no expression: {e!r}")

    def call(self, e: tree.Call) -> str:
        args = ", ".join(self.expr(a) for a in e.args)
        if e.name in self.functions:
            return f"f_{e.name}({args})"
        if e.name == "call_address":
            return f"{self.maker('call_address', lambda m: m.call)}({args})"
        kind = e.args[0].type if e.args else VOID
        return f"{self.maker(f'{e.name}_{kind}_{e.type}', lambda m: _intrinsic(e.name, e, m))}({args})"

    def wrapped(self, text: str, type: Ty) -> str:
        if type.kind == "f" or type.lanes > 1:
            return f"({text})"
        half = 1 << (type.bits - 1)
        return f"(({text} + {half} & {2 * half - 1}) - {half})"

    def binary(self, op: str, left: tree.Expr, right: tree.Expr, type: Ty) -> str:
        a, b = self.expr(left), self.expr(right)
        if type.bits == 1:
            return f"({a} {'^' if op in '+-^' else '&' if op in '*&' else '|'} {b})"
        if type.kind == "f":
            if op == "/" and type.lanes == 1 and type.bits == 64:
                return f"{self.maker('float_div', lambda m: float_div)}({a}, {b})"
            return f"({a} {op} {b})"
        if op in ("<<", ">>"):
            name = f"{'shl' if op == '<<' else 'shr'}_{type}"
            return f"{self.maker(name, lambda m: lambda x, y: shift(op, x, y, type))}({a}, {b})"
        if op in ("//", "%"):
            name = f"{'div' if op == '//' else 'rem'}_{type}"
            return f"{self.maker(name, lambda m: divider(type, op == '%'))}({a}, {b})"
        if op in ("&", "|", "^"):
            return f"({a} {op} {b})"
        return self.wrapped(f"{a} {op} {b}", type)


def _entry_check(entries: frozenset[int]) -> Callable[[int], None]:
    def check(number: int) -> None:
        if number not in entries:
            raise ValueError(f"dispatch on {number}, which is no entry")

    return check


_MODULES: dict[int, tuple[tree.Module, CodeType, dict[str, Callable[[InterpreterMemory], Function]]]] = {}


def _translated(module: tree.Module) -> tuple[CodeType, dict[str, Callable[[InterpreterMemory], Function]]]:
    known = _MODULES.get(id(module))
    if known is None or known[0] is not module:
        writer = _Writer(module, {f.name: f for f in module.functions})
        for f in module.functions:
            writer.function(f)
        code = compile("\n".join(writer.lines) + "\n", f"<interpreted {module.name}>", "exec")
        if len(_MODULES) >= 256:
            _MODULES.clear()
        known = _MODULES[id(module)] = (module, code, writer.makers)
    return known[1], known[2]


def run(module: tree.Module, name: str, args: Sequence[Value], memory: InterpreterMemory) -> Value:
    """Run a function of a module in plain Python.

    Parameters
    ----------
    module : tree.Module
    name : str
        Value function of it, exported or not.
    args : sequence of int, float or numpy.ndarray
        Values of the parameters: Python integers and floats, arrays for vectors.
    memory : Memory
        The arrays that loads and stores may reach.

    Returns
    -------
    int, float, numpy.float32, bool, numpy.ndarray or None
        The function's result.
    """
    space = memory._spaces.get(id(module))
    if space is None:
        code, makers = _translated(module)
        space = {name: make(memory) for name, make in makers.items()}
        exec(code, space)
        memory._spaces[id(module)] = space
        memory._keep.append(module)
    with np.errstate(all="ignore"):
        return space[f"f_{name}"](*args)
