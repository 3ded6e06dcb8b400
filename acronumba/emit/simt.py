"""Trees printed for `numba.cuda`: a vector is a warp, each thread has one of its 32 lanes.

In: functions of the small language, written for vectors of `WARP` lanes. Out: Python source for `numba.cuda`, the
fourth reading of a tree. Every thread runs the same text: a scalar is computed by all threads of a warp, a vector's
lanes by one thread each. So a load of a vector is one load per thread, at its lane; a masked load is done by the
threads below the mask's end; a sum over lanes is an exchange between threads.

Numba infers the type of every value from its operands. Numbers are therefore written with their type unless it is int64
or float64, and integers of less than 64 bits are narrowed again after every operation. Divisions are functions:
Python's `//` rounds down and checks. `kernels.cuda.functions` has the names that the text uses besides Numba's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import field

from acronumba.emit import text, tree
from acronumba.emit.intrinsics import INTRINSICS
from acronumba.emit.tree import I1, I64, Expr, Ty
from acronumba.records import record

WARP = 32
SHARED_MEMORY = 48 << 10  # bytes that a block may share without asking for more
OWN = "own_kernel_"  # how the names of functions begin that call operations of the user's own
# Functions of `kernels.write.math` whose divisors lie between 1 and 2**60: where a quotient may be out of range, the
# division has a part that is called, and with a call in a kernel ptxas writes it twice, for warps that are divided.
_NEAR = frozenset(("sigmoid_f32", "tanh_f32"))

# Intrinsics that only this reading has. Lanes are those of the current warp.
DEVICE = {
    "lane": "-> i64: which thread of the warp this is",
    "thread": "-> i64: which thread of the block",
    "block": "-> i64: which block",
    "blocks": "-> i64: how many blocks there are",
    "varying": "scalar -> vector: a number that each thread has computed for itself",
    "own": "vector -> scalar: the lane of the thread at hand",
    "exchange": "vector, Const d -> vector: lanes i and i ^ d change places",
    "meet": "-> nothing: what the block's threads stored before, all of them see after",
    "meet_any": "i1 -> i1: meet; whether that holds for any thread",
    "meet_warp": "-> nothing: the same for the threads of a warp",
    **{
        f"tile_{kind}{right}": "of products, see `kernels.cuda.tiles`; the last, Const: gates, columns, rows, stages"
        for kind in ("float32", "tf32", "bf16", "float64")
        for right in ("", "_rows", "_columns")
    },
    "gate": "-> nothing: what other blocks compute is read behind it, and the next `meet`, only",
    "stream_keep": "of `kernels.cuda.stream`: panel, warp; of each round, address, offset in the place of the panel, "
    "and Const: gates, units, terms, across, split",
    "stream_weights": "address, offset in the place; the last as before",
    "stream_products": "rows, sums, both in shared memory, which of four lanes; the last as before",
    "stream_added": "sum (or none), address in shared memory, Const parts, bytes of one -> f32",
    "shared_at": "address -> i64: of shared memory, as `load_near` and its like take it",
    "load_near_word": "address in shared memory -> i64",
    "store_near": "address in shared memory, f32 -> nothing",
    "copy_near": "to (in shared memory), address, bytes -> nothing: begin to copy 16 bytes; 0: to clear",
    "copy_often": "as copy_near; whether all rows have it, and none is written: then through the first cache",
    "copy_one_near": "to (in shared memory), address, bytes -> nothing: begin to copy 4 bytes; 0: to clear",
    "meet_lanes": "as meet_warp, where all lanes go the same way",
    "warp_is_whole": "-> nothing: tells a compiler, at the head of a loop, that no warp is divided",
    "nothing": "-> i64: 0, which the compiler does not know",
    "copies_end": "-> nothing: of a group of copies",
    "wait_for_copies": "-> nothing: all groups",
    "wait_for_older_copies": "-> nothing: all groups but the last",
    "block_memory": "Const n -> i64: address of n bytes that the block's threads share",
}
# What the text calls, beside functions of its own: Numba's names, and those of `kernels.cuda.functions`.
NAMES = frozenset(
    "cuda range f32 f64 i8 i16 i32 i64 u64 inf nan lane address ld st load load_if store select bits "
    "unsigned truncated sdiv srem fdiv fma umin umax udiv urem fdiv_near lshr ult ule ugt uge exchange of_lane hsum "
    "hmax hmin copy_bytes copy_later copies_end wait_for_copies wait_for_older_copies wait_for_oldest_copies "
    "this_thread within tf32 mma bf16 mma_bf16 shared_at load_near load_near_word load_four store_near copy_near "
    "copy_one_near copy_often meet_lanes load_far_four nothing load_near_int store_near_int load_kept next_may_begin "
    "earlier_have_ended mma_cut large_half store_two warp_is_whole".split()
)
# No local has one of these names, or those that a setting has for what a function is given. Texts of `INLINE` have
# locals that begin with an underscore, as no name of a user's does.
RESERVED = NAMES | frozenset("block blocks barrier wanted kept tags here passed pool".split())
# Texts that stand in place of a call of an intrinsic, made of its arguments and the setting: `kernels.cuda` has them.
INLINE: dict[str, Callable[[Sequence[str], Setting], list[str]]] = {}
_WIDTH = re.compile(r"(?<=[a-z0-9])x\d+\b")


@record()
class SharedArray:
    """An array that the threads of a block share."""

    type: str  # of an element: "f32", "f64"
    count: int
    written: str = ""  # how its text says the count, if not as the number

    @property
    def size(self) -> int:
        """Bytes."""
        return self.count * int(self.type[1:]) // 8


@record()
class Setting:
    """Parameters of a function's text that depend on how it runs: launched alone (defaults), or as part of a kernel."""

    thread: str = "(i64(cuda.threadIdx.x) & 1023)"  # the compiler sees how large it is
    lane: str = "i64(cuda.laneid)"
    blocks: str = "i64(cuda.gridDim.x)"
    block: str = "i64(cuda.blockIdx.x)"
    gate: str = ""  # the statement that waits for other blocks
    number: int | None = None  # by which panels of its weights are known that stay in shared memory; None: none stay
    with_thread: frozenset[str] = frozenset()  # the functions whose first parameter is the thread
    name: str = ""  # another name for the function
    first: tuple[str, ...] = ()  # additional first parameters
    places: tuple[int, ...] | None = None  # offsets of its arrays in a pool, in bytes; None: no pool

    def call(self, name: str) -> str:
        """Return the first argument of a call of a function, with its comma."""
        return "here, " if name in self.with_thread else ""

    def memory(self, number: int, array: SharedArray) -> str:
        """Return the text of an array of the function."""
        if self.places is None and array.size > SHARED_MEMORY:
            return f"pool({array.type}, 0, {array.count})"
        if self.places is None:
            return f"cuda.shared.array({array.written or array.count}, {array.type}, 16)"
        return f"pool({array.type}, {self.places[number]}, {array.count})"


ALONE = Setting()


@record()
class DeviceFunction:
    """A function of a GPU's text, which is written for a setting."""

    name: str
    write: Callable[[Setting], str]
    calls: frozenset[str] = frozenset()  # functions beside it
    arrays: tuple[SharedArray, ...] = ()
    asks: bool = False  # whether its text says which thread or lane this is
    gates: bool = False  # whether it has a gate


@record(frozen=False)
class _Found:
    """Facts about a function's text, collected while it is written."""

    calls: set[str] = field(default_factory=set)
    arrays: list[SharedArray] = field(default_factory=list)
    asks: bool = False
    gates: bool = False


def device(name: str, *args: Expr, type: Ty = tree.VOID) -> tree.Call:
    """Return a call of an intrinsic of `DEVICE`."""
    if name not in DEVICE:
        raise KeyError(name)
    return tree.Call(name, args, type)


class _Printer(text._Printer):
    """Prints the code of one thread."""

    def __init__(self, names: Sequence[str], setting: Setting = ALONE) -> None:
        super().__init__(names)
        self.setting = setting
        self.found = _Found()
        self.uses_lane = False
        self.near = False  # whether quotients are divided without care for large and small numbers

    def lane(self) -> str:
        self.uses_lane = self.found.asks = True
        return "lane"

    def thread(self) -> str:
        self.found.asks = True
        return self.setting.thread

    def called(self, name: str, args: Sequence[str]) -> str:
        """A call of a function beside this one."""
        self.found.calls.add(name)
        return f"{name}({self.setting.call(name)}{', '.join(args)})"

    def free(self, e: Expr, at_least: int = 0) -> str:
        return self.expr(e, at_least)

    def narrow(self, written: str, type: Ty) -> tuple[str, int]:
        """A result of integer arithmetic: Numba computes all integers with 64 bits."""
        return f"{type.scalar}({written})", text._ATOM

    def leveled(self, e: Expr) -> tuple[str, int]:
        small = e.type.kind == "i" and 1 < e.type.bits < 64
        match e:
            case tree.Const(value, type):
                return super().leveled(tree.Const(value, type.scalar))
            case tree.Binary(op, left, right, type):
                if type.bits == 1 and op in "&|":
                    return super().leveled(tree.Binary(op, left, right, I1))
                if type.bits == 1:
                    return (
                        f"{self.expr(left, text._COMPARE + 1)} != {self.expr(right, text._COMPARE + 1)}",
                        text._COMPARE,
                    )
                if op in ("//", "%", "/"):
                    name = {"//": "sdiv", "%": "srem", "/": "fdiv_near" if self.near else "fdiv"}[op]
                    written = f"{name}({self.expr(left)}, {self.expr(right)})"
                    return self.narrow(written, type) if small else (written, text._ATOM)
                level = text._LEVELS[op]
                written = f"{self.expr(left, level)} {op} {self.expr(right, level + 1)}"
                return self.narrow(written, type) if small else (written, level)
            case tree.Unary(op, arg, type):
                if type.bits == 1:
                    return f"not {self.expr(arg, text._NOT)}", text._NOT
                written = f"{op}{self.expr(arg, text._SIGN + 1)}"
                return self.narrow(written, type) if small else (written, text._SIGN)
            case tree.Compare(op, left, right, _) if op in ("==", "!=") and left.type.bits == 1:
                return f"{self.expr(left, text._BITOR)} {op} {self.expr(right, text._BITOR)}", text._COMPARE
            case tree.Load(address, type, None) if type.lanes == 1:
                if type == I64:
                    return f"ld({self.place(address, type)})", text._ATOM
                return f"load({type}, {self.expr(address)})", text._ATOM
            case tree.Load(address, type, left, fill):
                where = self.lane_at(address, type)
                if left is None:
                    return f"load({type.scalar}, {where})", text._ATOM
                if fill != 0:
                    raise TypeError("a masked load with another fill than 0")
                return f"load_if({self.lane()} < {self.expr(left, text._BITOR)}, {type.scalar}, {where})", text._ATOM
        return super().leveled(e)

    def lane_at(self, address: Expr, type: Ty) -> str:
        size = max(type.bits, 8) // 8
        step = f"{self.lane()} * {size}" if size > 1 else self.lane()
        return f"{self.expr(address, text._SUM)} + {step}"

    def convert(self, e: Expr, arg: Expr, how: str, type: Ty) -> str:
        old, new = arg.type.scalar, type.scalar
        if how == "spread" or old == new:
            return self.expr(arg, text._ATOM)
        if how == "bits":
            if 1 in (old.bits, new.bits):
                raise TypeError("a warp's truth values as one number")
            return f"bits({new}, {self.expr(arg)})"
        if new.bits == 1:
            return f"({self.expr(arg, text._BITOR)} != {old}(0))"
        if how == "unsigned" and old.bits > 1:
            return f"unsigned({new}, {self.expr(arg)})"
        if old.kind == "f" and new.kind == "i":
            return f"truncated({new}, {self.expr(arg)})"
        return f"{new}({self.expr(arg)})"

    def call(self, e: tree.Call) -> str:
        t = e.type.scalar
        args = [self.expr(a) for a in e.args]
        match e.name:
            case "lane":
                return self.lane()
            case "lanes":
                return self.lane() if t == I64 else f"{t}({self.lane()})"
            case "thread":
                return self.thread()
            case "block":
                return self.setting.block
            case "blocks":
                return self.setting.blocks
            case "varying" | "own":
                return self.expr(e.args[0], text._ATOM)
            case "meet":
                return "cuda.syncthreads()"
            case "meet_any":
                return f"(cuda.syncthreads_or(i32({args[0]})) != 0)"
            case "meet_warp":
                return "cuda.syncwarp()"
            case "exchange":
                return self.exchanged("exchange", t, args)
            case "extract":
                return self.exchanged("of_lane", t, args)
            case "hsum" | "hmax" | "hmin":
                return self.exchanged(e.name, t, args)
            case "shuffle_low" | "shuffle_high":
                a, b, d = args
                mine, other = (a, b) if e.name == "shuffle_low" else (b, a)
                moved = self.exchanged("exchange", t, [other, d])
                first = f"{self.lane()} & {d} {'==' if e.name == 'shuffle_low' else '!='} 0"
                return f"select({first}, {mine}, {moved})"
            case name if name.startswith("tile_") and name in DEVICE:
                *args, gates, columns, rows, stages = args
                _, kind, *right = name.split("_")
                return self.called("_".join(["tile", kind, f"{gates}x{columns}", rows, stages, *right]), args)
            case name if name.startswith(OWN):  # an operation of the user's own, see `kernels.cuda.own`
                self.found.calls.add(name)
                return f"{name}({self.lane()}, {', '.join(args)})"
            case "stream_added":
                return INLINE[e.name](args, self.setting)[0]
            case name if name in DEVICE and name in NAMES:
                return f"{name}({', '.join(args)})"
            case "copy_bytes":
                return f"copy_bytes({self.lane()}, {', '.join(args)})"
        if e.name in self.names:
            return self.called(_WIDTH.sub("", e.name), args)
        row = INTRINSICS.get(e.name)
        if row is None or row.gpu not in ("name", "typed"):
            raise TypeError(f"no function of a GPU: {e.name}")
        written = f"{e.name}{f'_{t}' if row.gpu == 'typed' else ''}({', '.join(args)})"
        return f"{t}({written})" if row.gpu == "name" and t.kind == "i" and t.bits < 64 else written

    def exchanged(self, name: str, t: Ty, args: list[str]) -> str:
        """A function that moves values between threads: of 32 or 64 bits."""
        if t.kind == "f" or t.bits >= 32:
            return f"{name}({', '.join(args)})"
        moved = f"{name}({', '.join([f'i32({args[0]})', *args[1:]])})"
        return f"({moved} != 0)" if t.bits == 1 else f"{t}({moved})"

    def stmt(self, s: tree.Stmt, depth: int, goto: str) -> None:
        pad, out = "    " * depth, self.lines.append
        match s:
            case tree.Assign(target, tree.Call("block_memory", (tree.Const(size),))):
                array = SharedArray("f64", -(-int(size) // 8))
                out(f"{pad}{target.name}_memory = {self.setting.memory(len(self.found.arrays), array)}")
                self.found.arrays.append(array)
                out(f"{pad}{target.name} = address({target.name}_memory)")
            case tree.Assign(target, value):
                out(f"{pad}{target.name} = {self.expr(value)}")
            case tree.Do(tree.Call("prefetch" | "prefetch_far")):
                pass
            case tree.Do(tree.Call("gate")):
                self.found.gates = True
                if self.setting.gate:
                    out(f"{pad}{self.setting.gate}")
            case tree.Do(tree.Call(name, args)) if name in INLINE:
                for line in INLINE[name]([self.expr(a) for a in args], self.setting):
                    out(f"{pad}{line}")
            case tree.Store(address, value, left):
                where = self.lane_at(address, value.type) if value.type.lanes > 1 else ""
                if left is not None:
                    out(f"{pad}if {self.lane()} < {self.expr(left, text._BITOR)}:")
                    pad += "    "
                if value.type == I64:
                    out(f"{pad}st({self.place(address, I64, True)}, {self.expr(value)})")
                else:
                    out(f"{pad}store({where or self.expr(address)}, {self.expr(value)})")
            case _:
                super().stmt(s, depth, goto)


def function_text(function: tree.Function, names: Sequence[str] = (), kernel: bool = False) -> str:
    """Return the text of one function; `names` are the functions beside it; a kernel is launched, others are called."""
    return _written(function, names, kernel, ALONE)[0]


def _written(function: tree.Function, names: Sequence[str], kernel: bool, setting: Setting) -> tuple[str, _Found]:
    lines, found = _lines(function, names, kernel, setting)
    return text.joined(lines), found


def _lines(
    function: tree.Function, names: Sequence[str], kernel: bool, setting: Setting
) -> tuple[list[text.Placed], _Found]:
    printer = _Printer([*names, function.name], setting)
    name = _WIDTH.sub("", function.name)
    printer.near = name in _NEAR
    params = ", ".join([*setting.first, *(p.name for p in function.params)])
    out = [
        "@cuda.jit" if kernel else "@cuda.jit(device=True)",
        f"def {setting.name or name}({setting.call(setting.name or name)}{params}):",
        *text.doc_lines(function.doc),
    ]
    printer.body(function.body, 1)
    printer.place_lines()
    if printer.uses_lane:
        out.append(f"    lane = {setting.lane}")
    return [*((line, None) for line in out), *zip(printer.lines, printer.places, strict=True)], printer.found


def parts(module: tree.Module) -> tuple[DeviceFunction, ...]:
    """Return the functions of a module, kernels last, for any setting: as device functions, also the kernels."""
    names = [f.name for f in module.functions]

    def part(f: tree.Function) -> DeviceFunction:
        _, found = _written(f, names, False, ALONE)
        write = lambda setting: _written(f, names, False, setting)[0]
        calls, arrays = frozenset(found.calls), tuple(found.arrays)
        return DeviceFunction(_WIDTH.sub("", f.name), write, calls, arrays, found.asks, found.gates)

    return tuple(part(f) for f in sorted(module.functions, key=lambda f: f.name in module.exports))


def module_text(module: tree.Module) -> str:
    """Return the text of a module: its header, then its functions, kernels last."""
    return text.joined(module_lines(module))


def module_lines(module: tree.Module) -> list[text.Placed]:
    """Return the lines of `module_text`."""
    names = [f.name for f in module.functions]
    out = text.header_lines(module)
    for k, f in enumerate(sorted(module.functions, key=lambda f: f.name in module.exports)):
        out += [("", None)] * (2 if k else 0)
        out += _lines(f, names, f.name in module.exports, ALONE)[0]
    return out
