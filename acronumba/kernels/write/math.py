"""Element-wise functions of floats, as texts of the small language: the same code for scalars and vectors of any width.

One function, the random generator `threefry`, takes integers: `i64` and vectors of it.

In: a type, `f32`, `f64` or a vector of them. Out: its functions by name (`functions`), or some functions with all that
they call (`closure`), which a generator adds to its module. The value of an element depends on that element alone:
lane, width and neighbours do not change a bit, nothing is contracted or reordered, and fma is used only where it is
written. NaN, infinities, denormals and the sign of zero are as in NumPy.

Worst error in units in the last place:

    ========  ========  ========  =====================================================================
    function   float32   float64  method
    ========  ========  ========  =====================================================================
    exp           1.02      1.05  n ln 2 removed in two steps, polynomial, scaled in two factors
    expm1         1.30      1.85  the same, the powers of 2 added first; x + x**2 / 2 near 0
    log           0.86      0.85  float32: polynomial around 1; float64: atanh series of (m - 1) / (m + 1)
    log1p         1.30      1.30  log of the rounded 1 + x, and what rounding took from it; x - x**2 / 2 near 0
    sin           1.50      1.00  float32: quarter turns removed in three steps, C's beyond 71476; float64: C's
    cos           1.50      1.00  the same
    tanh          1.34      1.35  polynomial or rational below 0.625, else 1 - 2 / (exp(2 x) + 1)
    sigmoid       2.41      2.30  exp(-abs(x)) and one division; denormal results are right
    erf           0.98      1.00  float32: two polynomials and exp; float64: C's
    pow           0.51      1.00  float32: exp(y log x) in float64; float64: C's
    log2          0.51      1.00  float32: C's of float64, rounded once more; float64: C's
    log10         0.51      1.00  the same
    tan           0.51      1.00  the same
    arcsin        0.51      1.00  the same
    arccos        0.51      1.00  the same
    arctan        0.51      1.00  the same
    arctan2       0.51      1.00  the same
    sinh          0.51      1.00  the same
    cosh          0.51      1.00  the same
    arcsinh       0.51      1.00  the same
    arccosh       0.51      1.00  the same
    arctanh       0.51      1.00  the same
    erfc          0.51      1.00  the same
    ========  ========  ========  =====================================================================

sign, maximum, minimum (NaN of either side wins), floordiv and mod (NumPy's) give NumPy's bits. The intrinsics abs,
sqrt and floor are exact or rounded once and need no function.

The polynomials for float32 logarithm, sine and cosine are N. Juffa's; float64 logarithm is FDLIBM's, tanh is Cephes's.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from acronumba.emit import tree
from acronumba.emit.parse import parse
from acronumba.ir.ops import TENSORS

# In the texts, `vec` is the type asked for, `ivec` the integers of the same size and number, `mask` their truth values,
# and `wide` the float64 of the same number. Functions get the type's name appended: `exp` is `exp_f32x16` for f32x16.

_COMMON = '''
def sign(x: vec) -> vec:
    """-1, 0 or 1; NaN stays."""
    y = select(x > 0.0, 1.0, select(x < 0.0, vec(-1.0), 0.0))
    return select(x != x, x, y)


def maximum(x: vec, y: vec) -> vec:
    """The larger; NaN of either side wins."""
    return select((x > y) | (x != x), x, y)


def minimum(x: vec, y: vec) -> vec:
    """The smaller; NaN of either side wins."""
    return select((x < y) | (x != x), x, y)


def mod(x: vec, y: vec) -> vec:
    """Remainder with the sign of y, as Python's."""
    r = remainder(x, y)
    shifted = select((r < 0.0) != (y < 0.0), r + y, r)
    return select(r == 0.0, copysign(0.0, y), shifted)


def floordiv(x: vec, y: vec) -> vec:
    """Quotient rounded down, as Python's: exact even where x / y would round up to a whole number."""
    r = remainder(x, y)
    q = (x - r) / y
    q = select((r != 0.0) & ((r < 0.0) != (y < 0.0)), q - 1.0, q)
    whole = floor(q)
    whole = select(q - whole > 0.5, whole + 1.0, whole)
    whole = select(q == 0.0, copysign(0.0, x / y), whole)
    return select(y == 0.0, x / y, whole)
'''

# exp(x - n ln 2) is 1 + r + p * r**2.
_SINGLE_SERIES = """\
    r = fma(n, -0.693145752, x)
    r = fma(n, -1.42860677e-6, r)
    p = fma(r, 1.9875691500e-4, 1.3981999507e-3)
    p = fma(p, r, 8.3334519073e-3)
    p = fma(p, r, 4.1665795894e-2)
    p = fma(p, r, 1.6666665459e-1)
    p = fma(p, r, 5.0000001201e-1)"""
_SINGLE = (
    '''
def remainder(x: vec, y: vec) -> vec:
    """Remainder with the sign of x: exact in float64, and a float32."""
    return vec(wide_remainder(wide(x), wide(y)))


def exp_near(x: vec, n: vec) -> vec:
    """The exponential of x - n ln 2, a difference within half of ln 2."""
'''
    + _SINGLE_SERIES
    + '''
    return fma(p, r * r, r) + 1.0


def expm1_near(x: vec, n: vec, half: vec) -> vec:
    """Half of exp(x) - 1, for half of 2**n: what is exact first."""
'''
    + _SINGLE_SERIES
    + '''
    return fma(half, p * (r * r), fma(half, r, half - 0.5))


def exp(x: vec) -> vec:
    y = select(x > 88.8, 88.8, x)
    y = select(y < -104.0, -104.0, y)
    turned = fma(y, 1.44269504, 12582912.0)  # 1.5 * 2**23: the low bits hold n, a whole number
    p = exp_near(y, turned - 12582912.0)
    n = bits(ivec, turned)
    half = (n << 22) & -0x800000  # where the exponent of a number is: n // 2
    return p * bits(vec, half + 0x3F800000) * bits(vec, (n << 23) - half + 0x3F800000)


def exp_small(x: vec) -> vec:
    """exp for -86 <= x <= 87; NaN stays, other values give nonsense."""
    turned = fma(x, 1.44269504, 12582912.0)
    p = exp_near(x, turned - 12582912.0)
    return p * bits(vec, (bits(ivec, turned) << 23) + 0x3F800000)


def expm1(x: vec) -> vec:
    y = select(x > -20.0, select(x < 88.9, x, 88.9), -20.0)
    turned = fma(y, 1.44269504, 12582912.0)
    p = expm1_near(y, turned - 12582912.0, bits(vec, (bits(ivec, turned) - 0x4B400000 + 126) << 23))
    return select(x != x, x, select(abs(x) < 1e-4, copysign(fma(0.5 * x, x, x), x), p + p))


def sigmoid(x: vec) -> vec:
    """The logistic function, by the exponential of -abs(x), which cannot overflow."""
    a = abs(x)
    y = select(a > 104.0, -104.0, -a)
    turned = fma(y, 1.44269504, 12582912.0)
    p = exp_near(y, turned - 12582912.0)
    e = p * bits(vec, (bits(ivec, turned) << 23) + 0x5F800000) * 5.421010862427522e-20  # 2**(n + 64) * 2**-64
    return select(x < 0.0, e, 1.0) / (1.0 + e)


def tanh(x: vec) -> vec:
    a = abs(x)
    z = a * a
    p = fma(z, -5.70498872745e-3, 2.06390887954e-2)
    p = fma(p, z, -5.37397155531e-2)
    p = fma(p, z, 1.33314422036e-1)
    p = fma(p, z, -3.33332819422e-1)
    near = fma(p * z, a, a)
    far = 1.0 - 2.0 / (exp_small(select(a > 10.0, 20.0, a + a)) + 1.0)
    return copysign(select(a < 0.625, near, far), x)


def erf(x: vec) -> vec:
    a = abs(x)
    z = a * a
    p = fma(z, -5.96761703e-4, 4.99119423e-3)
    p = fma(p, z, -2.67681349e-2)
    p = fma(p, z, 1.12819925e-1)
    p = fma(p, z, -3.76125336e-1)
    p = fma(p, z, 1.28379166e-1)
    near = fma(p, a, a)
    p = fma(a, -1.72853470e-5, 3.83197126e-4)
    q = fma(a, -3.88396438e-3, 2.42546219e-2)
    p = fma(p, z, q)
    p = fma(p, a, -1.06777877e-1)
    p = fma(p, a, -6.34846687e-1)
    p = fma(p, a, -1.28717512e-1)
    far = 1.0 - exp_small(fma(p, a, -a))
    return copysign(select(a < 0.927734375, near, select(a > 4.0, 1.0, far)), x)


def log(x: vec) -> vec:
    tiny = x < 1.17549435e-38
    y = select(tiny, x * 8388608.0, x)
    e = (bits(ivec, y) - 0x3F2AAAAB) & -0x800000
    m = bits(vec, bits(ivec, y) - e) - 1.0  # y = 2**n * (1 + m) with -1/3 <= m < 1/3
    n = fma(vec(e), 1.1920928955078125e-07, select(tiny, vec(-23.0), 0.0))
    s = m * m
    p = fma(s, -0.130310059, -0.121484190)
    q = fma(s, 0.140869141, 0.139814854)
    p = fma(p, s, -0.166846052)
    q = fma(q, s, 0.200120345)
    p = fma(p, s, -0.249996200)
    p = fma(q, m, p)
    p = fma(p, m, 0.333331972)
    p = fma(p, m, -0.5)
    p = fma(n, 0.693147182, fma(p, s, m))
    return select(x > 0.0, select(x < inf, p, x), select(x == 0.0, vec(-inf), nan))


def log1p(x: vec) -> vec:
    """The logarithm of 1 + x: that of the rounded sum, and what rounding took from it."""
    u = 1.0 + x
    y = log(u) + select(x < 1.0, x - (u - 1.0), 1.0 - (u - x)) / u
    return select(abs(x) < 1e-4, fma(-0.5 * x, x, x), select((u > 0.0) & (x < inf), y, log(u)))


def turn(x: vec, quarter: ivec) -> vec:
    """The sine of x + quarter * pi / 2, for x up to 71476 on both sides."""
    turned = fma(x, 0.636619747, 12582912.0)
    n = turned - 12582912.0
    q = bits(ivec, turned) + quarter
    r = fma(n, -1.57079601287841796875, x)
    r = fma(n, -3.13916473e-7, r)
    r = fma(n, -5.39030253e-15, r)
    s = r * r
    p = fma(s, 2.86567956e-6, -1.98559923e-4)
    p = fma(p, s, 8.33338592e-3)
    p = fma(p, s, -1.66666672e-1)
    sine = fma(p, fma(r, s, 0.0), r)
    p = fma(s, 2.44677067e-5, -1.38877297e-3)
    p = fma(p, s, 4.16666567e-2)
    p = fma(p, s, -0.5)
    cosine = fma(p, s, 1.0)
    y = select((q & 1) == 0, sine, cosine)
    return select((q & 2) == 0, y, -y)


def sin(x: vec) -> vec:
    far = abs(x) > 71476.0
    y = turn(x, 0)
    if some(far):
        y = select(far, libm_sin(x), y)
    return y


def cos(x: vec) -> vec:
    far = abs(x) > 71476.0
    y = turn(x, 1)
    if some(far):
        y = select(far, libm_cos(x), y)
    return y


def pow(x: vec, y: vec) -> vec:
    """The exponential of y log x in float64; the sign and the cases without a logarithm apart."""
    a = abs(x)
    p = vec(wide_exp(wide(y) * wide_log(wide(a))))
    whole = floor(y) == y
    odd = whole & (floor(y * 0.5) != y * 0.5)
    p = select(odd, copysign(p, x), p)
    p = select((x < 0.0) & (a < inf) & (not whole), nan, p)
    one = (y == 0.0) | (x == 1.0) | ((x == -1.0) & (abs(y) == inf))
    return select(one, 1.0, p)
'''
)

_DOUBLE_SERIES = """\
    r = fma(n, -0.6931471805599453, x)
    r = fma(n, -2.3190468138462996e-17, r)
    p = fma(r, 2.5100472505694996e-08, 2.7620201591031547e-07)
    p = fma(p, r, 2.7557268276905696e-06)
    p = fma(p, r, 2.4801521057868204e-05)
    p = fma(p, r, 0.00019841269863171557)
    p = fma(p, r, 0.0013888888917367081)
    p = fma(p, r, 0.008333333333330039)
    p = fma(p, r, 0.041666666666623824)
    p = fma(p, r, 0.16666666666666669)
    p = fma(p, r, 0.5000000000000001)"""
_DOUBLE = (
    '''
def remainder(x: vec, y: vec) -> vec:
    """Remainder with the sign of x."""
    return libm_fmod(x, y)


def exp_near(x: vec, n: vec) -> vec:
    """The exponential of x - n ln 2, a difference within half of ln 2."""
'''
    + _DOUBLE_SERIES
    + '''
    return fma(p, r * r, r) + 1.0


def expm1_near(x: vec, n: vec, half: vec) -> vec:
    """Half of exp(x) - 1, for half of 2**n: what is exact first."""
'''
    + _DOUBLE_SERIES
    + '''
    return fma(half, p * (r * r), fma(half, r, half - 0.5))


def exp(x: vec) -> vec:
    y = select(x > 710.0, 710.0, x)
    y = select(y < -746.0, -746.0, y)
    turned = fma(y, 1.4426950408889634, 6755399441055744.0)  # 1.5 * 2**52: the low bits hold n, a whole number
    p = exp_near(y, turned - 6755399441055744.0)
    n = bits(ivec, turned)
    half = (n << 51) & -0x10000000000000  # where the exponent of a number is: n // 2
    return p * bits(vec, half + 0x3FF0000000000000) * bits(vec, (n << 52) - half + 0x3FF0000000000000)


def exp_small(x: vec) -> vec:
    """exp for -707 <= x <= 709; NaN stays, other values give nonsense."""
    turned = fma(x, 1.4426950408889634, 6755399441055744.0)
    p = exp_near(x, turned - 6755399441055744.0)
    return p * bits(vec, (bits(ivec, turned) << 52) + 0x3FF0000000000000)


def expm1(x: vec) -> vec:
    y = select(x > -40.0, select(x < 710.0, x, 710.0), -40.0)
    turned = fma(y, 1.4426950408889634, 6755399441055744.0)
    p = expm1_near(y, turned - 6755399441055744.0, bits(vec, (bits(ivec, turned) - 0x4338000000000000 + 1022) << 52))
    return select(x != x, x, select(abs(x) < 7e-9, copysign(fma(0.5 * x, x, x), x), p + p))


def sigmoid(x: vec) -> vec:
    """The logistic function, by the exponential of -abs(x), which cannot overflow."""
    e = exp(-abs(x))
    return select(x < 0.0, e, 1.0) / (1.0 + e)


def tanh(x: vec) -> vec:
    a = abs(x)
    z = a * a
    p = fma(z, -0.9643991794250523, -99.28772310019185)
    p = fma(p, z, -1614.6876844170845)
    q = fma(z + 112.81167849163293, z, 2235.4883906010045)
    q = fma(q, z, 4844.063053251255)
    near = a < 0.625
    ratio = select(near, p * z, 2.0) / select(near, q, exp_small(select(a > 20.0, 40.0, a + a)) + 1.0)
    return copysign(select(near, fma(ratio, a, a), 1.0 - ratio), x)


def log(x: vec) -> vec:
    tiny = x < 2.2250738585072014e-308
    y = select(tiny, x * 18014398509481984.0, x)
    e = (bits(ivec, y) - 0x3FE6A09E00000000) >> 52
    f = bits(vec, bits(ivec, y) - (e << 52)) - 1.0  # y = 2**n * (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2)
    n = vec(e) + select(tiny, vec(-54.0), 0.0)
    s = f / (f + 2.0)
    z = s * s
    w = z * z
    p = fma(w, 0.15313837699209373, 0.22222198432149784)
    p = fma(p, w, 0.3999999999940942)
    q = fma(w, 0.14798198605116586, 0.1818357216161805)
    q = fma(q, w, 0.2857142874366239)
    q = fma(q, w, 0.6666666666666735)
    r = fma(q, z, p * w)
    h = 0.5 * f * f
    low = fma(s, h + r, n * 1.9082149292705877e-10)
    p = fma(n, 0.6931471803691238, f - (h - low))
    return select(x > 0.0, select(x < inf, p, x), select(x == 0.0, vec(-inf), nan))


def log1p(x: vec) -> vec:
    """The logarithm of 1 + x: that of the rounded sum, and what rounding took from it."""
    u = 1.0 + x
    y = log(u) + select(x < 1.0, x - (u - 1.0), 1.0 - (u - x)) / u
    return select(abs(x) < 7e-9, fma(-0.5 * x, x, x), select((u > 0.0) & (x < inf), y, log(u)))


def sin(x: vec) -> vec:
    return libm_sin(x)


def cos(x: vec) -> vec:
    return libm_cos(x)


def erf(x: vec) -> vec:
    return libm_erf(x)


def pow(x: vec, y: vec) -> vec:
    return libm_pow(x, y)
'''
)

_ROUND = """
    x = x + y
    y = rotated(y, {0}) ^ x"""
_INJECTION = """
    x = x + k{0}
    y = y + k{1} + {2}"""
_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)

_INTEGER = (
    '''
def rotated(x: word, by: word) -> word:
    return (x << by) | lshr(x, 32 - by)


def threefry(key: vec, counter: vec) -> vec:
    """Threefry-2x32 with 20 rounds: 64 random bits for a key and a counter, each two words."""
    k0 = word(key)
    k1 = word(lshr(key, 32))
    k2 = k0 ^ k1 ^ 0x1BD11BDA
    x = word(counter) + k0
    y = word(lshr(counter, 32)) + k1'''
    + "".join(
        _ROUND.format(_ROTATIONS[n % 8])
        + (_INJECTION.format((n // 4 + 1) % 3, (n // 4 + 2) % 3, n // 4 + 1) if n % 4 == 3 else "")
        for n in range(20)
    )
    + """
    return (vec(y) << 32) | (vec(x) & 0xFFFFFFFF)
"""
)


def _of_c(single: bool) -> str:
    """Return the texts of functions that are C's."""
    out = []
    for row in TENSORS.values():
        if row.c:
            names = "xy"[: row.arity]
            call = f"libm_{row.c}({', '.join(f'wide({x})' if single else x for x in names)})"
            head = f"def {row.name}({', '.join(f'{x}: vec' for x in names)}) -> vec:"
            out.append(f"\n\n{head}\n    return {f'vec({call})' if single else call}\n")
    return "".join(out)


_SOME_SCALAR = '''
def some(m: mask) -> i1:
    """Whether any lane holds."""
    return m
'''

_SOME_VECTOR = '''
def some(m: mask) -> i1:
    """Whether any lane holds."""
    return hmax(ivec(m)) != 0
'''

# Functions of float64 that those of float32 call, written `wide_NAME` in the texts.
_WIDE = ("exp", "log", "remainder")
_NAME = re.compile(r"\b(\w+)(?=\()")
_DEFINITION = re.compile(r"^def (\w+)\(", re.MULTILINE)


def text(ty: tree.Ty) -> str:
    """Return the source text of the functions of `f32`, `f64`, `i64` or a vector of them, under their full names.

    Raises
    ------
    TypeError
        If there are no functions of the type.
    """
    if ty.scalar not in (tree.F32, tree.F64, tree.I64):
        raise TypeError(f"there are no functions of {ty}")
    source = (
        _INTEGER
        if ty.kind == "i"
        else (_SOME_SCALAR if ty.lanes == 1 else _SOME_VECTOR)
        + (_SINGLE if ty.bits == 32 else _DOUBLE)
        + _of_c(ty.bits == 32)
        + _COMMON
    )
    names = {name: f"{name}_{ty}" for name in _DEFINITION.findall(source)}
    names |= {f"wide_{name}": f"{name}_{_wide(ty)}" for name in _WIDE}
    return _NAME.sub(lambda match: names.get(match[1], match[1]), source).strip() + "\n"


def _wide(ty: tree.Ty) -> tree.Ty:
    return tree.F64.vector(ty.lanes)


@functools.cache
def functions(ty: tree.Ty) -> Mapping[str, tree.Function]:
    """Return the functions of a type by plain name, helpers included.

    Parameters
    ----------
    ty : Ty
        `f32`, `f64`, `i64` or a vector of them.

    Returns
    -------
    Mapping[str, Function]
        `functions(F32.vector(16))["exp"]` is the function `exp_f32x16`. A module that calls it also needs what it calls
        itself: `closure`.

    Raises
    ------
    TypeError
        If there are no functions of the type.
    """
    ending = f"_{ty}"
    found = _parsed(ty, tuple(_texts(ty)))
    return MappingProxyType({f.name.removesuffix(ending): f for f in found if f.name.endswith(ending)})


@functools.cache
def _texts(ty: tree.Ty) -> Mapping[str, str]:
    """Map full names to texts of the functions of a type, after the float64 functions that they may call."""
    source = text(ty)
    if ty.scalar == tree.F32:
        source = re.sub(r"\b(i?)vec\b", r"\1wide", text(_wide(ty))) + "\n\n" + source
    starts = [(match.start(), match[1]) for match in _DEFINITION.finditer(source)]
    ends = [*(start for start, _ in starts[1:]), len(source)]
    return {name: source[start:end].strip() for (start, name), end in zip(starts, ends, strict=True)}


def _parsed(ty: tree.Ty, names: Sequence[str]) -> tuple[tree.Function, ...]:
    """Return some functions of a type. Callees must come first, as the parser has to know them."""
    types = {"vec": ty, "ivec": _integer(ty), "mask": _mask(ty), "wide": _wide(ty)}
    types["word"] = tree.I32.vector(ty.lanes)
    if ty.scalar == tree.F32:
        types["iwide"] = _integer(_wide(ty))
    found = parse("\n\n\n".join(_texts(ty)[name] for name in names), types)
    return tuple(replace(f, inline="always") for f in found)


def _integer(ty: tree.Ty) -> tree.Ty:
    return tree.Ty("i", ty.bits, ty.lanes)


def _mask(ty: tree.Ty) -> tree.Ty:
    return tree.Ty("i", 1, ty.lanes)


def closure(wanted: Iterable[tuple[str, tree.Ty]]) -> tuple[tree.Function, ...]:
    """Return the functions of these plain names and types with all that they call, each once, callees first.

    Examples
    --------
    >>> from acronumba.emit.tree import F32
    >>> [f.name for f in closure([("tanh", F32.vector(8))])]
    ['exp_near_f32x8', 'exp_small_f32x8', 'tanh_f32x8']
    """
    out: dict[str, tree.Function] = {}
    for name, ty in wanted:
        for function in _closure(name, ty):
            out.setdefault(function.name, function)
    return tuple(out.values())


@functools.cache
def _closure(name: str, ty: tree.Ty) -> tuple[tree.Function, ...]:
    """Return one function with all that it calls; only these are parsed."""
    texts = _texts(ty)
    names: dict[str, None] = {}
    todo = [(f"{name}_{ty}", False)]
    while todo:
        full, ready = todo.pop()
        if ready:
            names[full] = None
        elif full not in names:
            todo.append((full, True))
            nodes = (node for node in ast.walk(ast.parse(texts[full])) if isinstance(node, ast.Call))
            called = [node.func.id for node in nodes if isinstance(node.func, ast.Name)]
            todo += [(callee, False) for callee in reversed(called) if callee in texts]
    return _parsed(ty, tuple(names))
