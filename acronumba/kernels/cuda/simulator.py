"""Runs the text of generated kernels in plain Python, with every thread of every block: the test double of a GPU.

In: the text that `emit.simt` prints, and `emit.interpret.Memory` with the arrays its addresses may reach. Out: arrays
change as a GPU would change them. Threads are greenlets that run until they wait for others: at a barrier of the block,
of a warp or of the whole grid, or where the lanes of a warp exchange values. The next thread is drawn at random from
those that can run, and at some stores another thread goes on, so that most missing barriers show. Shared memory begins
as NaN.

Blocks of a cooperative launch may synchronise: `arrive` adds to a counter and publishes all earlier stores of the
block, `acquire` reads the counter and makes published stores visible. In a text that does so, reading an unpublished
store of another block is an error, as are weights that have stayed in shared memory and are not those that are wanted.
The first FORGOTTEN bytes of the pool become NaN where a block ends a step (`step_ends`).

Types are as exact as Numba's: integers of less than 64 bits are narrowed only where the text says so, an operation on
a float32 and a float64 is a float64 operation, and a literal like `0.5` is a float64. Three things are errors here that
a GPU does not report: accesses outside of every array, deadlocks of threads, and exchange of values with lanes whose
threads have ended.
"""

from __future__ import annotations

import ast
import functools
import random
import struct
import sys
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, SupportsInt, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from acronumba.emit import arithmetic, interpret, tree
from acronumba.emit.intrinsics import INTRINSICS, Intrinsic
from acronumba.emit.simt import WARP
from acronumba.kernels.cuda.cpu_memory import CpuMemory, Race
from acronumba.kernels.cuda.simulated_products import Factors, Float32s, bf16_factors, tf32_factors, warp_product

if TYPE_CHECKING:
    from greenlet import greenlet

T = TypeVar("T")
Number: TypeAlias = int | np.float32 | np.float64
Kind: TypeAlias = Callable[[Any], Number]  # a type of the text, which converts
Array: TypeAlias = NDArray[Any]

MASK = (1 << 64) - 1
_HALF = 1 << 63
_EXPONENT = 0x7F800000  # bits of a float32, all set in infinities and NaN
_LOW = (1 << 31) - 1
_LOST = 1 << 32  # what a block adds to a counter at least that gives up: results are no longer of interest
_SWITCH = 0.01  # of stores, after which another thread goes on
_LATE, _WAKE = 0.005, 0.05  # of turns, after which a block does not run, and runs again
_IN_VAIN = 1000  # times that threads look whether others have come, while no other can go on


def _narrow(x: int, bits: int = 64) -> int:
    """Bring an integer into the range of a type of so many bits."""
    half = 1 << (bits - 1)
    return x if -half <= x < half else (x + half & 2 * half - 1) - half


def _wrap(x: Number) -> Number:
    """Return an integer wrapped to 64 bits; other values unchanged."""
    return x if type(x) is not int or -_HALF <= x < _HALF else _narrow(x)


class _Int(int):
    """An integer of less than 64 bits: results of arithmetic are Python's, as Numba's are int64."""

    bits = 64

    def __new__(cls, x: SupportsInt) -> _Int:
        return super().__new__(cls, _narrow(int(x), cls.bits))


class I8(_Int):
    """int8."""

    bits = 8


class I16(_Int):
    """int16."""

    bits = 16


class I32(_Int):
    """int32."""

    bits = 32


def _i64(x: Number) -> int:
    return _narrow(int(x))


_TYPES: Mapping[Kind, tree.Ty] = {
    I8: tree.I8, I16: tree.I16, I32: tree.I32, _i64: tree.I64, int: tree.I64,
    np.float32: tree.F32, np.float64: tree.F64,
}  # fmt: skip


class Deadlock(Exception):
    """Threads wait for each other."""


class Stale(Exception):
    """A block reads weights that have stayed in shared memory, which are not those that it wants."""


class _Wrapping(ast.NodeTransformer):
    """Makes integers wrap, and numbers with a point float64s."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.Add | ast.Sub | ast.Mult | ast.LShift):
            return ast.Call(ast.Name("_wrap", ast.Load()), [node], [])
        return node

    def visit_Constant(self, node: ast.Constant) -> ast.AST:
        if isinstance(node.value, float):
            return ast.Call(ast.Name("f64", ast.Load()), [node], [])
        return node


_tree = lambda text: ast.fix_missing_locations(_Wrapping().visit(ast.parse(text)))
_code = functools.lru_cache(256)(lambda text: compile(_tree(text), "<kernel>", "exec"))  # type: ignore[no-untyped-call]


class _Block:
    def __init__(self, number: int, memory: interpret.InterpreterMemory, pool: int) -> None:
        self.number = number
        self.memory = memory
        self.shared: dict[object, Array] = {}
        self.windows: list[tuple[int, int]] = []  # of `shared`: address and bytes
        self.published = 0  # times
        self.meets = 0  # barriers that it has passed
        self.knows: dict[int, int] = {}  # of each other block: how often it had published
        raw = np.full(pool + 16, 255, np.uint8)
        self.pool = raw[-raw.ctypes.data % 16 :][:pool]
        if pool:
            self.shared["pool"] = self.pool
            memory.add(self.pool)

    def array(self, key: object, count: int, type: type[np.generic]) -> Array:
        if key not in self.shared:
            raw = np.full(count + 4, np.nan, type)
            skip = (-raw.ctypes.data % 16) // raw.itemsize
            self.shared[key] = raw[skip : skip + count]
            self.memory.add(self.shared[key])
        return self.shared[key]

    def free(self) -> None:
        for array in self.shared.values():
            self.memory.remove(array)


class _Thread:
    def __init__(self, block: _Block, number: int) -> None:
        self.block = block
        self.number = number
        self.warp = number // WARP
        self.lane = number % WARP
        self.green: greenlet
        self.waits: tuple[str | int, ...] | None = None  # for all threads that wait for the same
        self.gives: object = None
        self.given: Mapping[int, Any] = {}  # by lane, or by thread of the block
        self.copies: list[list[tuple[int, int, int]]] = [[]]  # under way: groups, the last one not ended yet


class Simulator:
    """A GPU for the kernels of one text.

    Parameters
    ----------
    text : str
        What `emit.simt.module_text` has printed, or a library of it.
    memory : interpret.Memory
        The arrays that kernels may reach.
    seed : int
        Of the order in which threads run.
    extra : mapping, optional
        Further names of the text.
    cpu : CpuMemory, optional
        Memory of the CPU that kernels may access.
    """

    def __init__(
        self, text: str, memory: interpret.InterpreterMemory, seed: int = 0, extra: Mapping[str, Any] | None = None,
        cpu: CpuMemory | None = None,
    ) -> None:  # fmt: skip
        self.memory = memory
        self.cpu = cpu or CpuMemory()
        self.random = random.Random(seed)
        self.current: _Thread
        self.products: dict[tuple[int, int], tuple[Mapping[int, Any], Float32s]] = {}  # the last of each warp
        self.loads = {t: interpret.loader(memory, ty) for t, ty in _TYPES.items()}
        self.stores = {t: interpret.storer(memory, ty) for t, ty in _TYPES.items()}
        self.names: dict[str, Any] = {**self._names(), **(extra or {})}
        if "arrive(" in text:
            self._watch()
        exec(_code(text), self.names)  # text that we have generated

    # ---- running

    def launch(
        self, entry: str, blocks: int, threads: int, *args: int, shared: int = 0, rest: Callable[[], object] = int
    ) -> None:
        """Run a kernel; its blocks have a pool of so many bytes each. `rest` is called now and then."""
        self.begin(entry, blocks, threads, *args, shared=shared)
        try:
            while self.turn(rest):
                pass
        finally:
            self.end()

    def begin(self, entry: str, blocks: int, threads: int, *args: int, shared: int = 0) -> None:
        """Begin to run a kernel, see `launch`; `turn` goes on."""
        import greenlet

        f = self.names[entry]
        self.main = greenlet.getcurrent()
        self.made = [_Block(k, self.memory, shared) for k in range(blocks)]
        self.written: dict[int, tuple[_Block, int]] = {}  # of places: by which block, how often it had published
        self.counters: dict[int, dict[int, int]] = {}  # knowledge that readers of a counter acquire
        self.late: _Block | None = None  # that does not run at the moment
        self.lost = False  # whether blocks have given up
        self.alive = [_Thread(block, k) for block in self.made for k in range(threads)]
        self.in_vain = 0

        def run() -> None:
            with np.errstate(all="ignore"):  # a thread has its own
                f(*args)

        for thread in self.alive:
            thread.green = greenlet.greenlet(run)
        self.blocks, self.size = blocks, threads

    def end(self) -> None:
        """Give back what the kernel had."""
        self.cpu.flush()
        for block in self.made:
            block.free()

    def turn(self, rest: Callable[[], object] = int) -> bool:
        """Let each thread run until it waits; return whether there are threads left."""
        rest()
        alive = self.alive
        self.looking, self.looking_out = 0, False
        ready = [t for t in alive if t.waits is None and t.block is not self.late]
        if self.random.random() < (_WAKE if self.late else _LATE) or not ready:
            self.late = None if self.late else self.random.choice(alive).block
        self.random.shuffle(ready)
        for thread in ready:
            self.current = thread
            thread.green.switch()
        self.alive = alive = [t for t in alive if not t.green.dead]
        waiting: dict[tuple[str | int, ...], list[_Thread]] = {}
        for thread in alive:
            if thread.waits is not None:
                waiting.setdefault(thread.waits, []).append(thread)
        moved = False
        for key, those in waiting.items():
            everyone = self._everyone(key, alive)
            if len(those) == everyone:
                moved = True
                given = {t.number if key[0] in ("any", "end") else t.lane: t.gives for t in those}
                if key[0] in ("block", "any", "end"):
                    those[0].block.meets += 1
                if key[0] == "end":
                    those[0].block.pool[: self.names["FORGOTTEN"]] = 255
                for t in those:
                    t.waits, t.given = None, given
        vain = not moved and self.looking == len(ready) and not (self.looking_out or self.late)
        self.in_vain = self.in_vain + 1 if vain else 0
        if alive and not moved and (all(t.waits for t in alive) or self.in_vain == _IN_VAIN):
            raise Deadlock(", ".join(sorted({str(t.waits[0]) if t.waits else "other blocks" for t in alive})))
        return bool(alive)

    def _everyone(self, key: tuple[str | int, ...], alive: Sequence[_Thread]) -> int:
        """Return the number of threads that must have come to a barrier."""
        kind, *where = key
        if kind == "grid":
            return self.blocks * self.size
        if kind in ("block", "any", "end"):
            return self.size
        return min(WARP, self.size - int(where[1]) * WARP)

    def _meet(self, *key: str | int, gives: T) -> Mapping[int, T]:
        thread = self.current
        thread.waits, thread.gives = key, gives
        self.main.switch()
        self.current = thread
        return thread.given

    def _meet_warp(self, what: str, gives: T) -> Mapping[int, T]:
        thread = self.current
        return self._meet(what, thread.block.number, thread.warp, gives=gives)

    def _meet_any(self, what: str, x: Number) -> int:
        given = self._meet(what, self.current.block.number, gives=bool(x))
        return int(any(given.values()))

    # ---- blocks that meet

    def _arrive(self, at: int, n: int) -> None:
        self._release(at, self.memory.load(at, tree.I64) + n)
        self.lost = self.lost or n >= _LOST

    def _release(self, at: int, value: int) -> None:
        block = self.current.block
        block.published += 1
        block.knows[block.number] = block.published
        self._learn(self.counters.setdefault(at, {}), block.knows)
        self.memory.store(at, value, tree.I64)

    def _seen(self, at: int) -> int:
        self.looking += 1
        self.looking_out = True
        self._another()
        return self.cpu.seen(at)

    def _tell(self, at: int, value: int) -> None:
        if self.lost:
            self.cpu.flush()
        self.cpu.tell(at, value, self.current.block, self.current.number)

    @staticmethod
    def _learn(mine: dict[int, int], other: Mapping[int, int]) -> None:
        for number, published in other.items():
            mine[number] = max(published, mine.get(number, 0))

    def _acquire(self, at: int) -> int:
        self.looking += 1
        self._another()
        self._learn(self.current.block.knows, self.counters.get(at, {}))
        return int(self.memory.load(at, tree.I64))

    def _watch(self) -> None:
        """Make loads and stores detect races between blocks, per word of 4 bytes."""

        def read(address: int, size: int) -> None:
            for at in range(address, address + size, 4):
                block, published = self.written.get(at, (None, 0))
                if (
                    block not in (None, self.current.block)
                    and not self.lost
                    and self.current.block.knows.get(block.number, 0) <= published
                ):
                    raise Race(f"block {self.current.block.number} reads what block {block.number} has stored")

        def reader(load: Callable[[int], T], size: int) -> Callable[[int], T]:
            def watched(address: int) -> T:
                read(address, size)
                return load(address)

            return watched

        def writer(store: Callable[[int, T], None], size: int) -> Callable[[int, T], None]:
            def watched(address: int, value: T) -> None:
                store(address, value)
                for at in range(address, address + size, 4):
                    self.written[at] = self.current.block, self.current.block.published

            return watched

        for t, ty in _TYPES.items():
            self.loads[t] = reader(self.loads[t], ty.bits // 8)
            self.stores[t] = writer(self.stores[t], ty.bits // 8)

    # ---- names of the text

    def _names(self) -> dict[str, Any]:
        names: dict[str, Any] = {
            "cuda": _Cuda(self), "_wrap": _wrap, "inf": np.float64(np.inf), "nan": np.float64(np.nan),
            "i8": I8, "i16": I16, "i32": I32, "i64": _i64, "u64": int, "f32": np.float32, "f64": np.float64,
            "range": range, "address": lambda a: a.ctypes.data,
            "ld": lambda a, k=0: self.loads[int](a + 8 * k),
            "st": lambda a, k, x: self._store(a + 8 * k, int(x)),
            "load": self._load, "store": self._store,
            "load_if": lambda c, t, a: self._load(t, a) if c else t(0),
            "select": lambda c, a, b: a if c else b,
            "bits": _bits, "unsigned": _unsigned, "truncated": _truncated,
            "sdiv": _quotient, "fdiv_near": _divide, "srem": lambda a, b: a - _quotient(a, b) * b, "fdiv": _divide,
            "fma": _fma, "umin": _by_unsigned(min), "umax": _by_unsigned(max),
            "udiv": _by_unsigned(lambda a, b: a // b), "urem": _by_unsigned(lambda a, b: a % b), "lshr": _lshr,
            "ult": _compare(lambda a, b: a < b), "ule": _compare(lambda a, b: a <= b),
            "ugt": _compare(lambda a, b: a > b), "uge": _compare(lambda a, b: a >= b),
            "exchange": lambda x, d: self._meet_warp("exchange", x)[self.current.lane ^ d],
            "of_lane": lambda x, k: self._meet_warp("of_lane", x)[k],
            "hsum": self._halving(lambda a, b: a + b), "hmax": self._halving(_nan_first(lambda a, b: a > b)),
            "hmin": self._halving(_nan_first(lambda a, b: a < b)),
            "copy_bytes": self._copy,
            "this_thread": lambda: I32(self.current.number), "thread_anew": lambda: self.current.number,
            "copy_later": self._copy_later, "copies_end": self._copies_end,
            "wait_for_copies": lambda: self._wait_for_copies(0),
            "wait_for_older_copies": lambda: self._wait_for_copies(1),
            "wait_for_oldest_copies": lambda: self._wait_for_copies(2),
            "shared_at": self._near, "load_near": lambda a: self.loads[np.float32](self._far(a)),
            "load_near_word": lambda a: self.loads[int](self._far(a)),
            "load_four": lambda a: tuple(map(self.loads[np.float32], range(at := self._far(a), at + 16, 4))),
            "store_near": lambda a, x: self._store(self._far(a), x),
            "store_two": lambda a, *two: [*map(self._store, (at := self._far(a), at + 4), two)],
            "load_near_int": lambda a: I32(self.loads[I32](self._far(a))),
            "store_near_int": lambda a, x: self._store(self._far(a), I32(x)),
            "load_kept": self._load_kept,
            "copy_near": self._copy_near, "copy_often": lambda to, at, size, _: self._copy_near(to, at, size),
            "copy_one_near": self._copy_one, "meet_lanes": lambda: self._meet_warp("warp", None),
            "warp_is_whole": int,
            "nothing": lambda: 0, "load_far_four": lambda a: tuple(map(self.loads[np.float32], range(a, a + 16, 4))),
            "within": _within,
            "large_half": lambda x: I32(int(np.float32(x).view(np.int32)) + 0x1000 & -0x2000),
            "mma_cut": self._product("mma_cut", lambda words: tf32_factors(words & -0x2000)),
            "tf32": _tf32, "mma": self._product("mma", tf32_factors),
            "bf16": _bf16, "mma_bf16": self._product("mma_bf16", bf16_factors),
            "arrive": self._arrive, "acquire": self._acquire, "release": self._release,
            "look": lambda at: self.cpu.look(at), "seen": self._seen,
            "give": lambda at, x: self.cpu.give(at, x, self.current.block, self.current.number), "tell": self._tell,
            "next_may_begin": int, "earlier_have_ended": int,  # see `kernels.cuda.simulated_graph`
            "step_ends": lambda x: self._meet_any("end", x),
            "pool": self._of_pool,
        }  # fmt: skip
        for t, kind in (("f32", np.float32), ("f64", np.float64)):
            names |= {
                f"sqrt_{t}": np.sqrt, f"floor_{t}": np.floor, f"abs_{t}": abs, f"copysign_{t}": np.copysign,
                **{f"{row.name}_{t}": _libm(row, kind) for row in INTRINSICS.values() if row.called},
            }  # fmt: skip
        for t, whole in (("i8", I8), ("i16", I16), ("i32", I32), ("i64", _i64)):
            names[f"abs_{t}"] = lambda x, whole=whole: whole(abs(x))
        return names

    def _perhaps_another(self) -> None:
        """Switch to another thread, at random, so that races show."""
        if self.random.random() < _SWITCH:
            self._another()

    def _another(self) -> None:
        thread = self.current
        self.main.switch()
        self.current = thread

    def _load(self, type: Kind, address: int) -> Number:
        return type(self.loads[type](address))

    def _store(self, address: int, value: Number) -> None:
        if isinstance(value, bool | np.bool_):
            raise TypeError("a truth value is stored as a byte")
        self.stores[type(value)](address, value)
        self._perhaps_another()

    def _halving(self, step: Callable[[T, T], T]) -> Callable[[T], T]:
        def reduce(x: T) -> T:
            given = self._meet_warp("sum", x)
            values = [given[k] for k in range(WARP)]
            while len(values) > 1:
                half = len(values) // 2
                values = [_like(x, step(a, b)) for a, b in zip(values[:half], values[half:], strict=True)]
            return values[0]

        return reduce

    def _copy(self, lane: int, to: int, source: int, size: int) -> None:
        for k in range(lane, size, WARP):
            self.stores[I8](to + k, self.loads[I8](source + k))

    def _of_pool(self, type: Kind, first: int, count: int) -> Array:
        return self.current.block.pool[first:].view(np.dtype(_CODES[type]))[:count]

    # ---- shared memory by addresses of 32 bits

    def _near(self, address: int) -> I32:
        """Return the address of 32 bits of a byte of the block's shared memory: its last 31."""
        return I32(address & _LOW)

    def _far(self, near: int) -> int:
        """Return the address of which that is one."""
        block = self.current.block
        if len(block.windows) != len(block.shared):
            block.windows = [(int(a.ctypes.data), a.nbytes) for a in block.shared.values()]
        for start, size in block.windows:
            offset = (int(near) - start) & _LOW
            if offset < size:
                return start + offset
        raise IndexError(f"{near:#x} is in no shared memory of the block")

    def _load_kept(self, near: int, far: int) -> tuple[np.float32, ...]:
        """Load weights that have stayed; they must be those at the address `far`."""
        found, wanted = ([self.loads[I32](k) for k in range(at, at + 16, 4)] for at in (self._far(near), far))
        if found != wanted:
            raise Stale(f"block {self.current.block.number} has kept other weights")
        return tuple(_bits(np.float32, I32(x)) for x in found)  # type: ignore[misc]

    # ---- copies that are under way until they are waited for

    def _copy_later(self, to: int, source: int) -> None:
        if to % 16 or source % 16:
            raise IndexError(f"copy of 16 bytes misaligned: {to:#x}, {source:#x}")
        for k in range(0, 16, 8):
            self.memory.place(to + k, 8, 8, "copy", True)
        self.current.copies[-1].append((to, source, 16))

    def _copy_near(self, to: int, source: int, size: int) -> None:
        self._copy_later(self._far(to), source if size else 0)
        if size == 0:
            self.current.copies[-1][-1] = self._far(to), 0, 0

    def _copy_one(self, to: int, source: int, size: int) -> None:
        self.memory.place(self._far(to), 4, 4, "copy", True)
        self.current.copies[-1].append((self._far(to), source if size else 0, 4))

    def _copies_end(self) -> None:
        self.current.copies.append([])

    def _wait_for_copies(self, left: int) -> None:
        copies = self.current.copies
        while len(copies) > left + 1:
            for to, source, size in copies.pop(0):
                for k in range(0, size or 16, 4):
                    self.stores[I32](to + k, self.loads[I32](source + k) if source else I32(0))

    # ---- tensor cores

    def _product(self, name: str, factors: Factors) -> Callable[..., tuple[np.float32, ...]]:
        """A product of matrices of 16 x k and k x 8, added to one of 16 x 8: parts of them are each lane's."""

        def mma(*mine: Number) -> tuple[np.float32, ...]:
            given = self._meet_warp(name, mine)
            warp = self.current.block.number, self.current.warp
            if warp not in self.products or self.products[warp][0] is not given:  # the first lane computes it for all
                self.products[warp] = given, warp_product(given, factors)
            sums = self.products[warp][1]
            row, column = self.current.lane // 4, self.current.lane % 4 * 2
            return sums[row, column], sums[row, column + 1], sums[row + 8, column], sums[row + 8, column + 1]

        return mma


def _tf32(x: np.float32) -> I32:
    """The bits of a float32, rounded to 11 of its mantissa."""
    bits = int(np.float32(x).view(np.int32))
    finite = bits & _EXPONENT != _EXPONENT
    return I32((bits + 0x1000) & -0x2000 if finite else bits)


def _within(a: np.float32, b: np.float32, most: np.float32) -> bool:
    """Whether both are smaller in size; NaN is not."""
    return bool(abs(a) < most and abs(b) < most)


def _bf16(low: np.float32, high: np.float32) -> I32:
    """The bits of two float32, rounded to 8 of their mantissas, side by side."""
    halves = []
    for x in (low, high):
        raw = int(np.float32(x).view(np.uint32))
        halves.append(0x7FFF if x != x else (raw + 0x7FFF + (raw >> 16 & 1)) >> 16)
    return I32(halves[0] | halves[1] << 16)


class _Cuda:
    """Stand-in for the module `cuda` of the text."""

    def __init__(self, simulator: Simulator) -> None:
        self._simulator = simulator
        self.shared = SimpleNamespace(array=self._array)
        self.local = SimpleNamespace(array=lambda shape, type: np.full(shape, np.nan, type))

    def jit(self, function: Callable[..., Any] | None = None, device: bool = False) -> Callable[..., Any]:
        return function if function is not None else lambda f: f

    @property
    def threadIdx(self) -> SimpleNamespace:
        return SimpleNamespace(x=self._simulator.current.number)

    @property
    def blockIdx(self) -> SimpleNamespace:
        return SimpleNamespace(x=self._simulator.current.block.number)

    @property
    def blockDim(self) -> SimpleNamespace:
        return SimpleNamespace(x=self._simulator.size)

    @property
    def gridDim(self) -> SimpleNamespace:
        return SimpleNamespace(x=self._simulator.blocks)

    @property
    def laneid(self) -> int:
        return self._simulator.current.lane

    def syncthreads(self) -> None:
        self._simulator._meet("block", self._simulator.current.block.number, gives=None)

    def syncthreads_or(self, x: Number) -> int:
        return self._simulator._meet_any("any", x)

    def syncwarp(self) -> None:
        self._simulator._meet_warp("warp", None)

    def _array(self, count: int, type: type[np.generic], alignment: int) -> Array:
        frame = sys._getframe(1)
        return self._simulator.current.block.array((frame.f_code, frame.f_lasti), count, type)


# ---- operations that Python spells differently


def _libm(row: Intrinsic, kind: Kind) -> Callable[..., Number]:
    f = arithmetic.libm(row.c, len(row.args), 64)
    return lambda *args: kind(f(*map(float, args)))


_CODES = {np.float32: "f", np.float64: "d", I8: "b", I16: "h", I32: "i", int: "q", _i64: "q"}


def _bits(type: Kind, x: Number) -> Number:
    return type(struct.unpack(_CODES[type], struct.pack(_CODES[_type(x)], x))[0])


def _type(x: Number) -> Kind:
    """Return the type of a value of the text."""
    return x.__class__


def _like(x: T, value: T) -> T:
    """Return a value in the type of `x`."""
    return type(x)(value)  # type: ignore[call-arg]


def _width(x: Number) -> int:
    return _TYPES[_type(x)].bits


def _unsigned(type: Kind, x: Number) -> Number:
    old, new = _TYPES[_type(x)], _TYPES[type]
    return type(arithmetic.converter(old, new, "unsigned")(x if old.kind == "f" else int(x)))


def _truncated(type: Kind, x: Number) -> Number:
    return type(arithmetic.converter(_TYPES[_type(x)], _TYPES[type], "value")(x))


def _quotient(a: int, b: int) -> int:
    return arithmetic.int_div(int(a), int(b), 64, False)


def _divide(a: np.floating[Any], b: np.floating[Any]) -> np.floating[Any]:
    return a / b


def _fma(a: Number, b: Number, c: Number) -> Number:
    kind = _type(a)
    if _type(b) is not kind or _type(c) is not kind:
        raise TypeError(f"fma of {_type(a)}, {_type(b)} and {_type(c)}")
    return kind(_FMA[kind](a, b, c))


_FMA: Mapping[Kind, Callable[..., float]] = {
    np.float32: arithmetic.libm("fma", 3, 32),
    np.float64: arithmetic.libm("fma", 3, 64),
}


def _by_unsigned(f: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def by(a: int, b: int) -> int:
        mask = (1 << max(_width(a), _width(b))) - 1
        return _narrow(f(a & mask, b & mask))

    return by


def _lshr(a: int, b: int) -> int:
    bits = _width(a)
    return _narrow((a & ((1 << bits) - 1)) >> b, bits)


def _compare(f: Callable[[int, int], bool]) -> Callable[[int, int], bool]:
    return lambda a, b: f(a & MASK, b & MASK)


def _nan_first(better: Callable[[T, T], bool]) -> Callable[[T, T], T]:
    def step(a: T, b: T) -> T:
        if a != a:
            return a
        if b != b:
            return b
        return a if better(a, b) else b

    return step
