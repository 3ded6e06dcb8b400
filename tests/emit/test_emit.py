"""The small language: what it prints, that it reads back, and that plain Python and machine code agree bit for bit."""

from __future__ import annotations

import math
import random
import struct
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from acronumba.emit import arithmetic, compile, interpret, parse, passes, target, text, tree
from acronumba.emit.intrinsics import INTRINSICS
from acronumba.emit.llvm import Malformed, function_texts
from acronumba.emit.tree import F32, F64, I1, I8, I16, I32, I64, VOID, Builder, Call, Const, Expr, Load, Module, Ty

SCALARS = (I1, I8, I16, I32, I64, F32, F64)


def fill(lanes: int = 1) -> dict[Ty, np.ndarray[Any, Any]]:
    """Return awkward values of each type, enough for a vector."""
    floats = [0.0, -0.0, 1.0, -1.5, 0.1, 3.7e5, -2.5e-3, 1e-40, 123.456, -7.0, 2.0, 0.5, 1e30, -1e30, 9.0, 1.25]
    whole = [0, 1, -1, 7, -8, 100, -101, 3, 12, 127, -128, 5, 2, -3, 64, 33]
    out: dict[Ty, np.ndarray[Any, Any]] = {}
    for t in SCALARS:
        values = floats if t.kind == "f" else [v & 1 for v in whole] if t == I1 else whole
        array = np.zeros(32, np.uint8 if t == I1 else arithmetic.dtype(t))
        array[:16] = values
        array[16:] = values[::-1]
        if t in (I32, I64):
            array[3], array[20] = np.iinfo(array.dtype).min, np.iinfo(array.dtype).max
        out[t] = array
    return out


class Both:
    """Functions of one module, run compiled and interpreted on equal copies of the same arrays."""

    def __init__(self, functions: Sequence[tree.Function], exports: Sequence[str]) -> None:
        self.module = Module("both", tuple(functions), tuple(exports))
        (self.compiled,) = compile.load([self.module])

    def __call__(self, name: str, *args: Any) -> Any:
        """Arrays pass as their addresses; return the result after checking that both runs agree in every byte."""
        copies = [a.copy() if isinstance(a, np.ndarray) else a for a in args]
        memory = interpret.InterpreterMemory(*(a for a in copies if isinstance(a, np.ndarray)))
        expected = interpret.run(self.module, name, [address(a) for a in copies], memory)
        got = self.compiled.call(name, *[address(a) for a in args])
        assert bits(got) == bits(expected)
        for a, b in zip(args, copies, strict=True):
            if isinstance(a, np.ndarray):
                assert same_bits(a, b), f"{name}: {a} compiled, {b} interpreted"
        return got


def address(value: Any) -> int:
    return value.ctypes.data if isinstance(value, np.ndarray) else int(value)


def bits(value: Any) -> Any:
    return struct.pack("<d", value) if isinstance(value, (float, np.floating)) else value


def same_bits(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> bool:
    """Equal bytes, where any NaN equals any other."""
    if a.dtype.kind == "f":
        both = np.isnan(a) & np.isnan(b)
        a, b = np.where(both, 0, a), np.where(both, 0, b)
    return a.tobytes() == b.tobytes()


PROGRAM = '''
LIMIT = 40

def collatz(n) -> i64:
    """Steps down to one, at most LIMIT."""
    steps = 0
    while n != 1 and steps < LIMIT:
        if n % 2 == 0:
            n //= 2
        else:
            n = 3 * n + 1
        steps += 1
    return steps

def find(a, n, x) -> i64:
    k = 0
    while k < n and ld(a, k) != x:
        k += 1
    if k < n and ld(a, k) == x and not x < 0:
        return k
    return -1

def nested(n) -> i64:
    total = 0
    for i in range(n):
        if i == 3:
            continue
        for j in range(i, 20, 3):
            if j > 15:
                break
            total += i * 100 + j
    return total * 1000 + i

def machine(n) -> i64:
    pc = 0
    acc = 1
    while True:
        if pc == 0:
            # first
            if acc > n:
                pc = 2
                continue
            for k in range(3):
                if k == 2:
                    continue
                acc += k
            pc = 1
            continue
        elif pc == 1:
            acc *= 2
            pc = 0
            continue
        elif pc == 2:
            return acc

def mean(a, n) -> f64:
    s = 0.0
    for k in range(n):
        s += ldf(a, k)
    return s / f64(n)

def narrow(a, o, n):
    for k in range(n):
        st32(o, k, ld(a, k))
        st(a, k, ld32(o, k) + ld8(a, 8 * k))

def clamp(x, low, high) -> i64:
    return min(max(x, low), high)

def pick(c, a, b) -> i64:
    return a if c != 0 and a > b or ult(b, 3) else b

def unsigned_half(x) -> i64:
    return i64(unsigned(f64, x) / 2.0) + select(uge(x, 10), 1000000, 2)
'''


@pytest.fixture(scope="module")
def program() -> Both:
    functions = parse.parse(PROGRAM)
    return Both(functions, [f.name for f in functions])


@pytest.mark.parametrize("n", [1, 2, 3, 6, 7, 27, 97])
def test_while_and_division(program: Both, n: int) -> None:
    def steps(n: int) -> int:
        count = 0
        while n != 1 and count < 40:
            n, count = (n // 2 if n % 2 == 0 else 3 * n + 1), count + 1
        return count

    assert program("collatz", n) == steps(n)


def test_and_stops_before_the_end_of_the_array(program: Both) -> None:
    a = np.array([5, 3, -8])
    assert [program("find", a, 3, x) for x in (5, 3, 4)] == [0, 1, -1]
    assert program("find", a, 3, -8) == -1  # negative
    assert program("find", a, 0, 5) == -1


def test_loops_keep_their_variable_and_obey_break_and_continue(program: Both) -> None:
    total, i = 0, 0
    for i in range(8):
        if i == 3:
            continue
        for j in range(i, 20, 3):
            if j > 15:
                break
            total += i * 100 + j
    assert program("nested", 8) == total * 1000 + i


def test_dispatch(program: Both) -> None:
    assert [program("machine", n) for n in (0, 1, 2, 30)] == [1, 4, 4, 46]
    functions = {f.name: f for f in program.module.functions}
    assert any(isinstance(s, tree.Dispatch) for s in functions["machine"].body)


def test_small_functions(program: Both) -> None:
    assert program("mean", np.array([1.0, 2.0, 4.5]), 3) == 2.5
    a, o = np.array([1, -(2**40) - 5, 2**31]), np.zeros(3, np.int32)
    program("narrow", a, o, 3)
    assert o.tolist() == [1, -5, -(2**31)]
    assert a.tolist() == [2, -10, -(2**31)]
    assert [program("clamp", x, 2, 9) for x in (1, 5, 12)] == [2, 5, 9]
    assert [program("pick", *x) for x in ((0, 9, 5), (1, 9, 5), (1, 4, 5), (0, 9, 2))] == [5, 9, 5, 9]
    assert program("unsigned_half", 8) == 6
    assert program("unsigned_half", -(2**63) + 2048) == 2**62 + 1024 + 1000000


def test_text_reads_back_as_itself(program: Both) -> None:
    once = text.module_text(program.module)
    again = parse.parse(once)
    assert text.module_text(Module("again", again, program.module.exports)) == once
    back = Both(again, program.module.exports)
    assert [back("collatz", n) for n in (6, 7)] == [8, 16]
    assert back("machine", 30) == 46


def test_text_reads_as_written_by_hand() -> None:
    f = Builder("scale", [("rows", I64), ("out", I64), ("n", I64)], doc="Twice each element.")
    with f.loop("k", 0, f["n"]) as k:
        x = f.let("x", tree.load(f["rows"], k, F64))
        with f.when((x > 0.0) & (k < f["n"] - 1)):
            f.store(f["out"], k, x * 2.0 - (x - 1.0))
        with f.otherwise():
            f.comment("the rest stays")
    vector = F32.vector(8)
    f.store_lanes(f["out"] + 64, Load(f["rows"], vector, f["n"], -1.0) + 1.0, f["n"])
    assert text.function_text(f.function()) == (
        "def scale(rows, out, n):\n"
        '    """Twice each element."""\n'
        "    for k in range(n):\n"
        "        x = ldf(rows, k)\n"
        "        if x > 0.0 and k < n - 1:\n"
        "            stf(out, k, x * 2.0 - (x - 1.0))\n"
        "        else:\n"
        "            # the rest stays\n"
        "            pass\n"
        "    store(out + 64, load(f32x8, rows, n, -1.0) + 1.0, n)\n"
    )


# ---- every operator, conversion and intrinsic, on every type


def unary_function(name: str, type: Ty, result: Ty, make: Callable[[Expr], Expr]) -> tree.Function:
    """`name(a, o)`: o[0] = make(a[0])."""
    f = Builder(name, [("a", I64), ("o", I64)])
    f.store_lanes(f["o"], make(f.let("x", Load(f["a"], type))))
    assert isinstance(f.body[-1], tree.Store)
    assert f.body[-1].value.type == result
    return f.function()


def size(type: Ty) -> int:
    return max(type.bits, 8) // 8 * type.lanes


def run_unary(cases: Sequence[tuple[str, Ty, Ty, Callable[[Expr], Expr]]]) -> None:
    """Compile all cases as one module and run each on every window of the awkward values."""
    functions = [unary_function(f"case{k}", type, result, make) for k, (_, type, result, make) in enumerate(cases)]
    both = Both(functions, [f.name for f in functions])
    values = fill()
    for k, (label, type, result, _) in enumerate(cases):
        a = values[type.scalar]
        for start in range(0, 32 - type.lanes, 1 if type.lanes == 1 else 5):
            piece = a[start : start + type.lanes].copy()
            if type.kind == "f" and label.startswith("value"):
                piece[abs(piece) > 127] = 100.25  # only what fits every integer has one answer
            out = np.full(max(1, size(result) // arithmetic.dtype(result).itemsize), 1, interpret.dtype(result))
            try:
                both(f"case{k}", piece, out.view(np.uint8) if result.bits == 1 else out)
            except AssertionError as error:
                raise AssertionError(f"{label} of {piece}: {error}") from None


def test_conversions_agree() -> None:
    cases: list[tuple[str, Ty, Ty, Callable[[Expr], Expr]]] = []
    for lanes in (1, 8):
        for old in SCALARS:
            for new in SCALARS:
                a, b = (old.vector(lanes), new.vector(lanes))
                if old == new:
                    continue
                cases.append((f"value {a} to {b}", a, b, lambda x, b=b: tree.Convert(x, "value", b)))
                if "i" in (old.kind, new.kind) and 1 not in (old.bits, new.bits) and old.kind == "i":
                    cases.append((f"unsigned {a} to {b}", a, b, lambda x, b=b: tree.Convert(x, "unsigned", b)))
                if old.bits == new.bits:
                    cases.append((f"bits {a} to {b}", a, b, lambda x, b=b: tree.Convert(x, "bits", b)))
    for t in SCALARS:
        cases.append((f"spread {t}", t, t.vector(4), lambda x: tree.const(x, x.type.vector(4))))
    flags = I1.vector(8)
    cases.append(("flags to bits", flags, I8, lambda x: tree.Convert(x, "bits", I8)))
    cases.append(("bits to flags", I8, flags, lambda x: tree.Convert(x, "bits", flags)))
    run_unary(cases)


def random_expr(rng: random.Random, type: Ty, leaves: Sequence[Expr], depth: int) -> Expr:
    """Return a tree of the type whose value is defined whatever the leaves hold."""
    matching = [x for x in leaves if x.type == type]
    if depth == 0 or rng.random() < 0.1:
        if matching and rng.random() < 0.8:
            return rng.choice(matching)
        return Const(
            rng.choice([0.0, 1.0, -2.5, 0.3, math.inf]) if type.kind == "f" else rng.choice([0, 1, -1, 77, 2**40]), type
        )

    def sub(t: Ty = type) -> Expr:
        return random_expr(rng, t, leaves, depth - 1)

    flag = I1.vector(type.lanes)
    if type.bits == 1:
        of = rng.choice([I32, I64, F32, F64]).vector(type.lanes)
        pick = rng.randrange(4)
        if pick == 0:
            return tree.Binary(rng.choice("&|^"), sub(), sub(), type)
        if pick == 1:
            return ~sub()
        if pick == 2 and of.kind == "i":
            return tree.Compare("u" + rng.choice(["<", "<=", ">", ">="]), sub(of), sub(of), type)
        return tree.Compare(rng.choice(["<", "<=", ">", ">=", "==", "!="]), sub(of), sub(of), type)
    pick = rng.randrange(8)
    if pick == 0:
        return tree.Select(sub(flag), sub(), sub(), type)
    if pick == 1:
        other = rng.choice([I8, I16, I32, I64, F32, F64, I1]).vector(type.lanes)
        if other == type or (other.kind == "f" and type.kind == "i"):
            return -sub()
        return tree.Convert(sub(other), "value", type)
    if type.kind == "f":
        if pick == 2:
            return tree.intrinsic("fma", sub(), sub(), sub())
        if pick == 3:
            return tree.intrinsic(rng.choice(["sqrt", "floor", "abs"]), sub())
        if pick == 4:
            return tree.intrinsic("copysign", sub(), sub())
        return tree.Binary(rng.choice("+-*/"), sub(), sub(), type)
    if pick == 2:
        return tree.intrinsic(rng.choice(["umin", "umax"]), sub(), sub())
    if pick == 3:
        return tree.Binary(rng.choice(["//", "%"]), sub(), Const(rng.choice([1, 2, 3, 7, -5]), type), type)
    if pick == 4:
        amount = Const(rng.randrange(type.bits), type)
        return rng.choice([sub() << amount, sub() >> amount, tree.intrinsic("lshr", sub(), amount)])
    if pick == 5:
        return ~sub()
    return tree.Binary(rng.choice("+-*&|^"), sub(), sub(), type)


@pytest.mark.parametrize(("seed", "large"), [(0, False), (1, False), (2, False), (4, True)])
def test_random_expressions_agree_bit_for_bit(seed: int, large: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:  # the code generator has another level
        monkeypatch.setattr(passes, "LARGE", 0)
    rng = random.Random(seed)
    functions = []
    kinds = [I8, I16, I32, I64, F32, F64]
    results = []
    for k in range(50):
        lanes = rng.choice([1, 1, 4, 8])
        f = Builder(f"case{k}", [("o", I64), *((f"a{t}", I64) for t in kinds)])
        leaves = [f.let(f"x{t}", Load(f[f"a{t}"] + rng.randrange(8) * size(t), t.vector(lanes))) for t in kinds]
        result = rng.choice(kinds).vector(lanes)
        f.store_lanes(f["o"], random_expr(rng, result, leaves, 4))
        functions.append(f.function())
        results.append(result)
    both = Both(functions, [f.name for f in functions])
    values = fill()
    for k, result in enumerate(results):
        for shift in range(0, 16, 3):
            out = np.zeros(result.lanes, arithmetic.dtype(result))
            both(f"case{k}", out, *(values[t][shift : shift + 16].copy() for t in kinds))
    again = parse.parse(text.module_text(both.module))
    back = Module("back", again, both.module.exports)
    memory_values = [values[t].copy() for t in kinds]
    for f, result in zip(again, results, strict=True):
        first, second = (np.zeros(result.lanes, arithmetic.dtype(result)) for _ in range(2))
        for module, out in ((both.module, first), (back, second)):
            memory = interpret.InterpreterMemory(out, *memory_values)
            interpret.run(module, f.name, [address(x) for x in (out, *memory_values)], memory)
        assert same_bits(first, second), text.function_text(f)


INTRINSIC_CASES: dict[str, list[tuple[Ty, Ty, Callable[[Expr], Expr]]]] = {}


def case(name: str, type: Ty, make: Callable[[Expr], Expr], result: Ty | None = None) -> None:
    INTRINSIC_CASES.setdefault(name, []).append((type, result or type, make))


for _lanes in (1, 8):
    for _t in (F32, F64):
        _v = _t.vector(_lanes)
        case("fma", _v, lambda x: tree.intrinsic("fma", x, x + 1.0, x * -0.3))
        for _name in ("sqrt", "floor", "abs"):
            case(_name, _v, lambda x, n=_name: tree.intrinsic(n, x))
        case("copysign", _v, lambda x: tree.intrinsic("copysign", Const(2.0, x.type), x))
        for _name, _row in INTRINSICS.items():
            if _row.called and len(_row.args) == 1:
                case(_name, _v, lambda x, n=_name: tree.intrinsic(n, x))
            elif _row.called:
                case(_name, _v, lambda x, n=_name: tree.intrinsic(n, x, Const(1.7, x.type)))
    for _t in (I8, I16, I32, I64):
        _v = _t.vector(_lanes)
        case("abs", _v, lambda x: tree.intrinsic("abs", x))
        for _name in ("umin", "umax", "udiv", "urem"):
            case(_name, _v, lambda x, n=_name: tree.intrinsic(n, x * 3, Const(-77, x.type)))
        case("lshr", _v, lambda x: tree.intrinsic("lshr", x, Const(5, x.type)))
for _t in (I32, I64, F32, F64):
    _v = _t.vector(8)
    case("lanes", _v, lambda x: x + tree.intrinsic("lanes", Const(0, x.type)))
    for _name in ("hsum", "hmax", "hmin"):
        case(_name, _v, lambda x, n=_name: tree.intrinsic(n, x, type=x.type.scalar), _t)
    case("extract", _v, lambda x: tree.intrinsic("extract", x, Const(6, I64), type=x.type.scalar), _t)
    case("insert", _v, lambda x: tree.intrinsic("insert", x, Const(2, I64), Const(5, x.type.scalar)))
    for _d in (1, 2, 4):
        for _name in ("shuffle_low", "shuffle_high"):
            case(_name, _v, lambda x, n=_name, d=_d: tree.intrinsic(n, x, x + 1, Const(d, I64)))
for _lanes in (4, 8):
    _v = I32.vector(_lanes)
    case("pairs", _v, lambda x, p=I16.vector(2 * _lanes): tree.intrinsic(
        "pairs", tree.convert(x, p, "bits"), tree.convert(x * 77 + 5, p, "bits"), type=x.type))  # fmt: skip
    case("dots", _v, lambda x, p=I8.vector(4 * _lanes): tree.intrinsic(
        "dots", x, tree.convert(x, p, "bits"), tree.convert(x * 77 + 5, p, "bits"), type=x.type))  # fmt: skip
    case("to_bf16", F32.vector(_lanes), lambda x, n=_lanes: tree.intrinsic(
        "to_bf16", x, type=I16.vector(n)), I16.vector(_lanes))  # fmt: skip
    case("dots_bf16", F32.vector(_lanes), lambda x, p=I16.vector(2 * _lanes): tree.intrinsic(
        "dots_bf16", x, tree.convert(x * 3.0, p, "bits"), tree.convert(x + 0.7, p, "bits"), type=x.type))  # fmt: skip
    case("pick", I16.vector(_lanes), lambda x: tree.intrinsic("pick", x, x * 3 + 1, x * 5 - 2))
case("pick", I16.vector(32), lambda x: tree.intrinsic("pick", x, x * 3 + 1, x * 5 - 2))
case("seldom", I64, lambda x: tree.intrinsic("seldom", x > 0), I1)
for _name in ("add", "sub", "mul"):
    case(
        f"{_name}_overflows", I64,
        lambda x, n=_name: tree.intrinsic(f"{n}_overflows", x, Const(-(2**62), I64), type=I1), I1,
    )  # fmt: skip

EFFECTS = """
def prefetch_(a, o) -> i64:
    prefetch(a)
    prefetch_far(a + 8)
    return 1
def flush_(a, o) -> i64:
    flush_denormals(1)
    flush_denormals(0)
    return 1
def copy_(a, o) -> i64:
    copy_bytes(o, a + 8, 16)
    return 1
def move_(a, o) -> i64:
    move_bytes(a + 8, a, 24)
    return 1
def fill_(a, o) -> i64:
    fill_bytes(o + 8, 255, 9)
    return 1
def atomics(a, o) -> i64:
    pause()
    give_way()
    before = atomic_add(a, 5)
    first = atomic_cas(a, before, 9)
    second = atomic_cas(a, before + 5, 9)
    atomic_store(o, atomic_load(a) + before)
    return 10 * i64(first) + i64(second)
"""


@pytest.mark.long
def test_intrinsics_agree() -> None:
    run_unary([(name, *c) for name, cases in INTRINSIC_CASES.items() for c in cases])


def test_effects_agree() -> None:
    functions = parse.parse(EFFECTS)
    both = Both(functions, [f.name for f in functions])
    made = {f.name: both(f.name, a, o) for f in functions for a, o in [(np.arange(4), np.zeros(4, np.int64))]}
    assert made.pop("atomics") == 1
    assert set(made.values()) == {1}
    a, o = np.arange(4), np.zeros(4, np.int64)
    both("copy_", a, o)
    assert o.tolist() == [1, 2, 0, 0]
    both("move_", a, o)
    assert a.tolist() == [0, 0, 1, 2]
    both("fill_", a, o)
    assert o.tolist() == [1, -1, 255, 0]
    both("atomics", a, o)
    assert (a[0], o[0]) == (9, 9)


def test_every_intrinsic_is_covered() -> None:
    mentioned = set(INTRINSIC_CASES) | {n for n in INTRINSICS if f"{n}(" in EFFECTS}
    assert mentioned == set(INTRINSICS)


def test_masks_touch_only_their_lanes() -> None:
    functions = []
    kinds = [t.vector(n) for t in (I1, I8, I32, I64, F32, F64) for n in (4, 16)]
    for k, v in enumerate(kinds):
        f = Builder(f"case{k}", [("a", I64), ("o", I64), ("n", I64)])
        f.store_lanes(f["o"], Load(f["a"], v, f["n"], 1), f["n"] + 1)
        functions.append(f.function())
    both = Both(functions, [f.name for f in functions])
    for k, v in enumerate(kinds):
        form = np.dtype(np.uint8) if v.bits == 1 else arithmetic.dtype(v)
        for n in (-(2**40), -1, 0, 1, v.lanes - 1, v.lanes, v.lanes + 3, 2**40):
            held = min(max(n, 0), v.lanes)
            a = np.zeros(max(held, 1), form)  # nothing after the lanes: the interpreter would complain
            o = np.full(v.lanes + 2, 7, form)
            both(f"case{k}", a, o, n)
            written = min(max(n + 1, 0), v.lanes)
            assert o[:written].tolist() == [0] * held + [1] * (written - held)
            assert (o[written:] == 7).all()


def test_products_and_sums_are_rounded_one_by_one_and_fma_once() -> None:
    functions = parse.parse(
        """
        def two(a, o):
            for k in range(64):
                stf32(o, k, ldf32(a, k) * ldf32(a, k + 1) + ldf32(a, k + 2))
        def once(a, o):
            for k in range(64):
                stf32(o, k, fma(ldf32(a, k), ldf32(a, k + 1), ldf32(a, k + 2)))
        def wide(a, o):
            for k in range(64):
                stf(o, k, ldf(a, k) * ldf(a, k + 1) + ldf(a, k + 2))
        def sum(a, o):
            s = f32(0.0)
            for k in range(66):
                s += ldf32(a, k)
            stf32(o, 0, s)
        """
    )
    both = Both(functions, [f.name for f in functions])
    a = np.random.default_rng(1).normal(size=66).astype(np.float32)
    o = np.zeros(64, np.float32)
    both("two", a, o)
    assert np.array_equal(o, a[:64] * a[1:65] + a[2:66])
    both("once", a, o)
    exact = a[:64].astype(np.longdouble) * a[1:65].astype(np.longdouble) + a[2:66].astype(np.longdouble)
    assert np.array_equal(o, exact.astype(np.float32))
    assert not np.array_equal(o, a[:64] * a[1:65] + a[2:66])  # the two differ somewhere
    d, w = a.astype(np.float64) * 1.1, np.zeros(64)
    both("wide", d, w)
    assert np.array_equal(w, d[:64] * d[1:65] + d[2:66])
    both("sum", a, o)
    total = np.float32(0)
    for x in a:
        total += x
    assert o[0] == total


def test_comparisons_with_nan() -> None:
    functions = parse.parse(
        """
        def compare(a) -> i64:
            x = ldf(a, 0)
            y = ldf(a, 1)
            return i64(x < y) + 2 * i64(x >= y) + 4 * i64(x == y) + 8 * i64(x != y) + 16 * i64(not x < y)
        """
    )
    both = Both(functions, ["compare"])
    assert both("compare", np.array([1.0, 2.0])) == 1 + 8
    assert both("compare", np.array([np.nan, 2.0])) == 8 + 16
    assert both("compare", np.array([np.nan, np.nan])) == 8 + 16
    assert both("compare", np.array([np.inf, np.inf])) == 2 + 4 + 16


def test_hmax_and_hmin_return_a_nan_in_any_lane() -> None:
    v = F32.vector(8)
    functions = [
        unary_function(f"{n}_", v, F32, lambda x, n=n: tree.intrinsic(n, x, type=F32)) for n in ("hmax", "hmin", "hsum")
    ]
    both = Both(functions, ["hmax_", "hmin_", "hsum_"])
    for lane in range(8):
        a = np.arange(8, dtype=np.float32)
        o = np.zeros(1, np.float32)
        a[lane] = np.nan
        for name in ("hmax_", "hmin_"):
            both(name, a, o)
            assert np.isnan(o[0])
    a = np.array([1e8, 1, 2, 3, -1e8, 4, 5, 6], np.float32)
    both("hsum_", a, o)
    assert o[0] == 21  # lanes 0 and 4 meet first: nothing is lost


def test_functions_call_each_other_and_by_address() -> None:
    functions = parse.parse(
        """
        @noinline
        def square(x: vec) -> vec:
            return x * x
        @inline
        def plus(x: vec, y: f32) -> vec:
            return square(x) + y
        def run(f, a, o, n, table) -> i64:
            for k in range(0, n, 4):
                store(o + 4 * k, plus(load(vec, a + 4 * k), 0.5))
            call_address(f, o, n)
            return call_address_i64(ld(table), 20, 1)
        """,
        {"vec": F32.vector(4)},
    )
    helper = Module(
        "helper",
        parse.parse(
            """
            def first(o, n):
                stf32(o, n - 1, -1.0)
            def minus(a, b) -> i64:
                return a - b
            """
        ),
        ("first", "minus"),
    )
    user = Module("user", functions, ("run",))
    a = np.arange(8, dtype=np.float32)
    compiled_user, compiled_helper = compile.load([user, helper])
    memory = interpret.InterpreterMemory(a)
    for known, run in (
        (memory.add_module(helper), lambda *args: interpret.run(user, "run", args, memory)),
        (compiled_helper.address, lambda *args: compiled_user.call("run", *args)),
    ):
        o, table = np.zeros(8, np.float32), np.array([known["minus"]])
        memory.add(o)
        memory.add(table)
        assert run(known["first"], address(a), address(o), 8, address(table)) == 19
        assert o.tolist() == [x * x + 0.5 for x in range(7)] + [-1.0]
    with pytest.raises(IndexError, match="no function"):
        interpret.run(user, "run", [8, address(a), address(o), 8, address(table)], memory)


def test_names_outside_ascii() -> None:
    (f,) = parse.parse("def größe(länge, x) -> i64:\n    höhe = länge * x\n    return höhe")
    assert Both([f], ["größe"])("größe", 6, 7) == 42


# ---- mistakes


def module_of(value: Expr, params: Sequence[tuple[str, Ty]] = (("a", I64),), result: Ty = I64) -> Module:
    f = Builder("wrong", list(params), result)
    f.body.append(tree.Return(value))
    return Module("m", (f.function(),), ("wrong",))


@pytest.mark.parametrize(
    "value",
    [
        tree.Binary("+", Const(1, I64), Const(1, I32), I64),
        tree.Binary("/", Const(1, I64), Const(1, I64), I64),
        tree.Const(1, I32),
        tree.Convert(Const(1.0, F32), "bits", I64),
        tree.Select(Const(1, I64), Const(1, I64), Const(1, I64), I64),
        Call("nowhere", (), I64),
        Call("wrong", (), I64),
        tree.Local("a", F64),
        tree.Load(Const(8, I32), I64),
    ],
)
def test_trees_without_meaning_are_rejected(value: Expr) -> None:
    with pytest.raises(Malformed, match=r"^m\.wrong: "):
        compile.load([module_of(value)])


def test_entry_points_take_words() -> None:
    with pytest.raises(Malformed, match="i64 only"):
        compile.load([module_of(Const(1, I64), [("x", F64)])])


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        ("def f(a) -> i64:\n    return ld(a, 4)", IndexError, "load of i64 outside every array"),
        ("def f(a) -> i64:\n    return ld(a, -1)", IndexError, "load of i64 outside every array"),
        ("def f(a) -> i64:\n    return ld(a + 4)", IndexError, "misaligned"),
        ("def f(a) -> i64:\n    stf(a, 4, 0.0)\n    return 0", IndexError, "store of f64"),
        ("def f(a) -> i64:\n    return 1 // (ld(a) - 0)", ZeroDivisionError, "by zero"),
        ("def f(a) -> i64:\n    return (ld(a) - 9223372036854775807 - 1) // -1", OverflowError, "quotient"),
        ("def f(a) -> i64:\n    return 1 << (ld(a) + 64)", ValueError, "shift"),
        ("def f(a) -> i64:\n    copy_bytes(a + 8, a, 16)\n    return 0", IndexError, "overlapping"),
        ("def f(a) -> i64:\n    if ld(a) == 1:\n        x = 2\n    return x", UnboundLocalError, "x"),
    ],
)
def test_the_interpreter_reports_what_machine_code_would_not(source: str, error: type, message: str) -> None:
    module = Module("m", parse.parse(source), ("f",))
    a = np.zeros(4, np.int64)
    with pytest.raises(error, match=message):
        interpret.run(module, "f", [address(a)], interpret.InterpreterMemory(a))


def test_memory_may_grow_while_another_thread_reads() -> None:
    block = np.zeros(4000, np.int64)
    memory, stop = interpret.InterpreterMemory(block[2000:2001]), threading.Event()

    def grow() -> None:
        while not stop.is_set():
            for k in (0, 3000, 10, 3010):
                memory.add(block[k : k + 1])
            for k in (10, 0, 3010, 3000):
                memory.remove(block[k : k + 1])

    thread, interval = threading.Thread(target=grow), sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    thread.start()
    try:
        assert all(memory.load(address(block) + 16000, I64) == 0 for _ in range(20_000))
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)


def test_memory_knows_parts_and_rejects_overlaps() -> None:
    a = np.arange(10)
    a.flags.writeable = False
    memory = interpret.InterpreterMemory(a[2:4])
    with pytest.raises(IndexError):
        memory.load(a.ctypes.data, I64)
    memory.add(a)
    memory.add(a[5:6])
    assert memory.load(a.ctypes.data + 72, I64) == 9
    with pytest.raises(IndexError, match="read-only"):
        memory.store(a.ctypes.data, 1, I64)
    memory.remove(a)
    with pytest.raises(IndexError):
        memory.load(a.ctypes.data, I64)
    memory.add(a[2:6])
    with pytest.raises(ValueError, match="overlaps"):
        memory.add(a[5:9])
    with pytest.raises(ValueError, match="contiguous"):
        memory.add(a[::2])


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("def f(a) -> i64:\n    return b", "line 2: 'b' is not assigned"),
        ("def f(a) -> i64:\n    return 1.5", "where i64 is expected"),
        ("def f(a: f32, b: f64) -> f32:\n    return a + b", "f64 where f32 is expected"),
        ("def f(a: f32):\n    a = f64(a)", "f64 where f32 is expected"),
        ("def f(a):\n    g(a)", "unknown function 'g'"),
        ("def f(a):\n    with a:\n        pass", "no such statement"),
        ("def f(a) -> i64:\n    return [a]", "no such expression"),
        ("def f(a):\n    x = a > 0 and ld(a) > 1", "evaluated in any case"),
        ("def f(a):\n    for k in range(5, 0, -1):\n        pass", "positive"),
        ("import os", "only functions"),
        ("def f(a: int):\n    pass", "no type"),
    ],
)
def test_parse_rejects(source: str, message: str) -> None:
    with pytest.raises(SyntaxError, match=message):
        parse.parse(source)


# ---- calling, targets


def test_calls_run_beside_each_other() -> None:
    """Two threads meet inside compiled code, which they only can if neither holds the interpreter."""
    functions = parse.parse(
        """
        def meet(a) -> i64:
            arrived = atomic_add(a, 1) + 1
            turns = 0
            while atomic_load(a) < 2 and turns < 2000000000:
                pause()
                turns += 1
            return atomic_load(a)
        """
    )
    (compiled,) = compile.load([Module("meet", functions, ("meet",))])
    a = np.zeros(1, np.int64)
    got: list[int] = []
    threads = [threading.Thread(target=lambda: got.append(compiled.call("meet", a.ctypes.data))) for _ in range(2)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == [2, 2]


def test_targets() -> None:
    wide = target.of("x", "+avx512f,+avx512vl,+avx512bw,+avx512dq,+avx2,+fma", "x86_64")
    assert (wide.kind, wide.lanes(F32), wide.lanes(F64), wide.lanes(I8), wide.registers) == ("avx512", 16, 8, 64, 32)
    middle = target.of("x", "+avx512f,+avx2,+fma", "AMD64")
    assert (middle.kind, middle.lanes(F32), middle.registers) == ("avx2", 8, 16)
    assert target.of("x", "+sse2", "x86_64").kind == "plain"
    assert (target.of("m", "+neon", "arm64").kind, target.of("m", "+neon", "arm64").lanes(F32)) == ("neon", 4)
    before = target.host()
    with target.override(vector_bits=256) as narrow:
        assert target.host() is narrow
        assert narrow.vector(F32) == F32.vector(8)
    assert target.host() == before


def test_void_function_runs_to_its_end() -> None:
    (f,) = parse.parse("def f(a):\n    if ld(a) == 3:\n        return\n    st(a, 0, 3)")
    assert f.result == VOID
    both = Both([f], ["f"])
    a = np.zeros(1, np.int64)
    both("f", a)
    both("f", a)
    assert a[0] == 3


def test_load_from_many_threads_and_progress() -> None:
    modules = [Module(f"thread{k}", parse.parse(f"def f(x) -> i64:\n    return x + {k}"), ("f",)) for k in range(4)]
    seen: list[tuple[str, int, int]] = []
    got: list[list[int]] = []

    def work(first: int) -> None:
        order = modules[first:] + modules[:first]
        compiled = compile.load(order, progress=(lambda *step: seen.append(step)) if first == 0 else None)
        got.append(sorted(c.call("f", 10) for c in compiled))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert got == [[10, 11, 12, 13]] * 4
    assert seen == [(f"thread{k}", k, 4) for k in range(4)]


def test_dispatch_on_entries() -> None:
    f = Builder("f", [("n", I64)], I64)
    pc = f.let("pc", f["n"])
    blocks = []
    for number, entry in ((0, True), (1, False), (2, True)):
        with f.nested() as body:
            if entry:
                f.goto(1)
            else:
                f.ret(pc)
        blocks.append((number, "", body))
    f.body.append(tree.Dispatch(pc, blocks, frozenset({0, 2})))
    both = Both([f.function()], ["f"])
    assert [both("f", n) for n in (0, 2)] == [1, 1]
    with pytest.raises(ValueError, match="no entry"):
        interpret.run(both.module, "f", [1], interpret.InterpreterMemory())
    f.body[-1] = tree.Dispatch(pc, blocks, frozenset({5}))
    with pytest.raises(Malformed, match="no such blocks"):
        compile.load([Module("m", (f.function(),), ("f",))])


def test_functions_that_no_entry_point_reaches_are_left_out() -> None:
    functions = parse.parse(
        "def f(x) -> i64:\n    return g(x)\ndef g(x) -> i64:\n    return x + 1\ndef h(x):\n    pass"
    )
    texts, _ = function_texts(Module("m", functions, ("f",)))
    assert list(texts) == ["f", "g"]


@pytest.mark.parametrize(("lanes", "wide", "narrow"), [(8, I64, I8), (8, I64, I32), (16, I32, I8), (16, I32, I16)])
def test_one_lane_of_what_was_cut_to_fewer_bits(lanes: int, wide: tree.Ty, narrow: tree.Ty) -> None:
    """LLVM has stored the whole wider number where it knew that the mask has one lane."""
    text = f"""
        def cut(a, o):
            for k in range(0, {lanes + 1}, {lanes}):
                left = {lanes + 1} - k
                store(o + k * {narrow.bits // 8}, cut_to(load(whole, a + k * {wide.bits // 8}, left)), left)
        """
    functions = parse.parse(text, {"whole": wide.vector(lanes), "cut_to": narrow.vector(lanes)})
    a, o = (np.full(40, 77, arithmetic.dtype(t)) for t in (wide, narrow))
    a[:] = np.arange(40)
    Both(functions, ["cut"])("cut", a, o)
    assert o[: lanes + 1].tolist() == list(range(lanes + 1)) and (o[lanes + 1 :] == 77).all()
