"""The intrinsics of the small language: a table of their argument types, results, and the machines that have them.

`parse`, `llvm`, `simt`, `interpret` and the functions for GPUs read it. A letter stands for each argument and for the
result:

    v   a scalar or vector: the type that its arguments agree on      s   a scalar of that type
    i   i64    b   i1    x   an integer of any type                   c   i64, a constant
    t   the type that the call names                                  -   nothing
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from acronumba.records import record

# Which text a GPU's kernel has for it: none, a call by its name, a call by its name and type, or one of its own.
OnGpu = Literal["", "name", "typed", "own"]


@record(kw_only=True)
class Intrinsic:
    """A row."""

    name: str
    args: str
    result: str
    says: str
    effect: bool = False  # it reads or writes memory, or waits: it must happen where it stands, and only there
    c: str = ""  # the function of C's library that computes it for f64; that for f32 ends in f
    gpu: OnGpu = ""

    @property
    def called(self) -> bool:
        """Whether the intrinsic calls C's function lane by lane: no instruction of the machine computes it."""
        return self.name == f"libm_{self.c}"


def _rows() -> dict[str, Intrinsic]:
    def row(name: str, args: str, result: str, says: str, gpu: OnGpu = "", c: str = "") -> Intrinsic:
        return Intrinsic(name=name, args=args, result=result, says=says, gpu=gpu, c=c)

    def act(name: str, args: str, result: str, says: str, gpu: OnGpu = "") -> Intrinsic:
        return Intrinsic(name=name, args=args, result=result, says=says, gpu=gpu, effect=True)

    def libm(names: str, args: str) -> list[Intrinsic]:
        return [row(f"libm_{name}", args, "v", f"C's {name}, lane by lane", "typed", name) for name in names.split()]

    rows = [
        row("fma", "vvv", "v", "a * b + c, rounded once", "name", "fma"),
        row("sqrt", "v", "v", "square root", "typed", "sqrt"),
        row("floor", "v", "v", "largest whole number not above", "typed", "floor"),
        row("abs", "v", "v", "absolute value (floats and integers)", "typed", "fabs"),
        row("copysign", "vv", "v", "magnitude of a, sign of b", "typed", "copysign"),
        row("umin", "vv", "v", "smaller of two unsigned integers", "name"),
        row("umax", "vv", "v", "larger of two unsigned integers", "name"),
        row("udiv", "vv", "v", "unsigned quotient", "name"),
        row("urem", "vv", "v", "unsigned remainder", "name"),
        row("lshr", "vv", "v", "logical shift right", "name"),
        *libm("exp log sin cos tanh", "v"),
        *libm("pow", "vv"),
        *libm("erf expm1 log2 log10 log1p tan asin acos atan sinh cosh asinh acosh atanh erfc", "v"),
        *libm("atan2 hypot fmod", "vv"),
        row("pairs", "vv", "t", "of two vectors of i16: a[2 i] * b[2 i] + a[2 i + 1] * b[2 i + 1], as i32"),
        row("dots", "tvv", "t", "c[i] + the sum of a[4 i + j] * b[4 i + j], j < 4: unsigned and signed bytes, i32"),
        row("to_bf16", "v", "t", "the upper halves of f32, as i16, rounded to even; NaN stays one, denormals are 0"),
        row("dots_bf16", "tvv", "t", "c[i] + a[2 i + 1] * b[2 i + 1], then + a[2 i] * b[2 i]: bf16, no denormals"),
        row("pick", "vvv", "v", "of vectors of n lanes of i16, a and b: number c[i] mod 2 n of those of a, then of b"),
        row("lanes", "t", "t", "0, 1, 2, ... of an integer vector type", "own"),
        row("hsum", "v", "s", "sum of all lanes by halving (lane i with lane i + half), a fixed tree", "own"),
        row("hmax", "v", "s", "largest lane by halving; NaN wins", "own"),
        row("hmin", "v", "s", "smallest lane by halving; NaN wins", "own"),
        row("extract", "vi", "s", "an element", "own"),
        row("insert", "vis", "v", "the vector with another element"),
        row("add_overflows", "ii", "b", "whether a + b is no int64"),
        row("sub_overflows", "ii", "b", "whether a - b is no int64"),
        row("mul_overflows", "ii", "b", "whether a * b is no int64"),
        row("seldom", "v", "v", "a condition, which seldom holds: what depends on it may be slower"),
        act("prefetch", "i", "-", "an address that is about to be used", "own"),
        act("prefetch_far", "i", "-", "an address that is used later on, to a cache that is larger and slower", "own"),
        act("copy_bytes", "iii", "-", "to, from, count (areas do not overlap)", "own"),
        act("move_bytes", "iii", "-", "to, from, count (areas may overlap)"),
        act("fill_bytes", "ixi", "-", "to, byte value, count"),
        act("atomic_load", "i", "i", "of an address; what others stored before is seen after"),
        act("atomic_store", "ii", "-", "to an address; what was stored before is seen by others that load it"),
        act("atomic_add", "ii", "i", "to an address; the number before"),
        act("atomic_cas", "iii", "b", "address, expected, new: whether it was stored, as the expected value was there"),
        act("flush_denormals", "c", "-", "1: until 0, `dots_bf16` alone computes floats, which may flush denormals"),
        act("pause", "", "-", "a hint inside a loop that waits for another thread"),
        act("give_way", "", "-", "the system may run another thread here"),
        row("shuffle_low", "vvc", "v", "lanes i of a where i & d == 0, else lanes i - d of b (a transposition's step)",
            "own"),
        row("shuffle_high", "vvc", "v", "lanes i + d of a where i & d == 0, else lanes i of b", "own"),
    ]  # fmt: skip
    return {r.name: r for r in rows}


INTRINSICS: Mapping[str, Intrinsic] = _rows()
OF_C: Mapping[str, Intrinsic] = {row.c: row for row in INTRINSICS.values() if row.c}  # by the names of C's library
