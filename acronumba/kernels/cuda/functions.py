"""Functions that generated kernels call, for `numba.cuda`: memory by address, exact arithmetic, warps.

In: nothing. Out: `names()`, the namespace of a kernel's text. `kernels.cuda.simulator` has the same names for plain
Python. All but functions of libm compile to a few instructions. Importing this module needs `numba-cuda`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from llvmlite import ir
from numba import cuda, types
from numba.cuda import libdevice
from numba.cuda.extending import intrinsic

from acronumba.emit.intrinsics import INTRINSICS

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing import Signature
    from numba.cuda.dispatcher import CUDADispatcher

Values: TypeAlias = "Sequence[ir.Value]"
Generate: TypeAlias = "Callable[[BaseContext, ir.IRBuilder, Signature, Values], ir.Value]"
Typed: TypeAlias = "tuple[Signature, Generate]"  # of an intrinsic: types of its result and arguments, code generator
DeviceFunction: TypeAlias = "CUDADispatcher"

ALL = 0xFFFFFFFF  # lanes of a warp
_POOL = "acronumba_pool"  # memory that a block shares, as large as its launch says
_BIT, _WORD = ir.IntType(1), ir.IntType(64)
_INTEGERS = {"i8": types.int8, "i16": types.int16, "i32": types.int32, "i64": types.int64}


@functools.cache
def names(hopper: bool = True) -> Mapping[str, Any]:
    """Return the names that the text of a kernel finds; `hopper`: for compute capability 9.0 or later."""
    out: dict[str, Any] = {
        "cuda": cuda, "range": range, "inf": float("inf"), "nan": float("nan"),
        **_INTEGERS, "u64": types.uint64, "f32": types.float32, "f64": types.float64,
    }  # fmt: skip
    for name, (parameters, typed) in _TYPED.items():
        out[name] = _intrinsic(name, parameters, typed)
    return {**out, **_instructions(hopper), **_functions(), **_lanes(), **_memory()}


def _intrinsic(name: str, parameters: str, typed: Callable[..., Typed]) -> DeviceFunction:
    """Return an intrinsic with so many parameters: Numba looks at their number."""
    given = ", ".join(["typingctx", *([parameters] if parameters else [])])
    text = f"def {name}({given}):\n    return typed({parameters})\n"
    space: dict[str, Any] = {"typed": typed}
    exec(text, space)  # text of this module
    return intrinsic(space[name])


def _device(f: Callable[..., Any]) -> DeviceFunction:
    return cuda.jit(device=True, inline="always")(f)


# Declaration of an intrinsic for Numba: the types of its result and arguments, and its code generator.


def _pointer(context: BaseContext, builder: ir.IRBuilder, address: ir.Value, type: types.Type) -> ir.Value:
    return builder.inttoptr(address, context.get_data_type(type).as_pointer())


def _load(type: types.Type, address: types.Type) -> Typed:
    t = type.instance_type

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        return builder.load(_pointer(context, builder, args[1], t))

    return t(type, types.int64), generate


def _load_if(condition: types.Type, type: types.Type, address: types.Type) -> Typed:
    t = type.instance_type

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        before = builder.block
        with builder.if_then(args[0]):
            there = builder.load(_pointer(context, builder, args[2], t))
            inside = builder.block
        result = builder.phi(there.type)
        result.add_incoming(ir.Constant(there.type, 0), before)
        result.add_incoming(there, inside)
        return result

    return t(types.boolean, type, types.int64), generate


def _store(address: types.Type, value: types.Type) -> Typed:
    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        builder.store(args[1], _pointer(context, builder, args[0], value))
        return context.get_dummy_value()

    return types.void(types.int64, value), generate


def _ld(address: types.Type, index: types.Type) -> Typed:
    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        at = builder.add(args[0], builder.shl(args[1], ir.Constant(_WORD, 3)))
        return builder.load(_pointer(context, builder, at, types.int64))

    return types.int64(types.int64, types.int64), generate


def _st(address: types.Type, index: types.Type, value: types.Type) -> Typed:
    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        at = builder.add(args[0], builder.shl(args[1], ir.Constant(_WORD, 3)))
        builder.store(args[2], _pointer(context, builder, at, types.int64))
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


def _address(array: types.Type) -> Typed:
    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        made = context.make_array(signature.args[0])(context, builder, args[0])
        return builder.ptrtoint(made.data, _WORD)

    return types.int64(array), generate


def _pool(type: types.Type, first: types.Type, count: types.Type) -> Typed:
    t = type.instance_type
    array = types.Array(t, 1, "C")

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        shared, kind = 3, context.get_data_type(t)
        all_of_it = ir.ArrayType(ir.IntType(8), 0)
        if _POOL not in builder.module.globals:
            made = ir.GlobalVariable(builder.module, all_of_it, _POOL, shared)
            made.linkage, made.align = "external", 16
        at = builder.gep(builder.module.globals[_POOL], [_WORD(0), args[1]])
        size = _WORD(t.bitwidth // 8)
        out = context.make_array(array)(context, builder)
        context.populate_array(
            out, data=builder.addrspacecast(builder.bitcast(at, kind.as_pointer(shared)), kind.as_pointer()),
            shape=[args[2]], strides=[size], itemsize=size, meminfo=None,
        )  # fmt: skip
        return out._getvalue()

    return array(type, types.int64, types.int64), generate


def _array(writable: bool) -> Callable[..., Typed]:
    """Return the declaration of an array at an address."""

    def typed(type: types.Type, address: types.Type, shape: types.Type) -> Typed:
        t = type.instance_type
        array = types.Array(t, shape.count, "C", readonly=not writable)

        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
            shape = [builder.extract_value(args[2], k) for k in range(array.ndim)]
            size = context.get_abi_sizeof(context.get_data_type(t))
            strides = [_WORD(size)]
            for n in reversed(shape[1:]):
                strides.insert(0, builder.mul(strides[0], n))
            out = context.make_array(array)(context, builder)
            context.populate_array(
                out, data=_pointer(context, builder, args[1], t), shape=shape, strides=strides,
                itemsize=_WORD(size), meminfo=None,
            )  # fmt: skip
            return out._getvalue()

        return array(type, types.int64, types.UniTuple(types.int64, shape.count)), generate

    return typed


def _has_failed(out: types.Type) -> Typed:
    """Declare whether a function of the user's has returned a true value."""
    if not isinstance(out, types.NoneType | types.Boolean | types.Integer):
        raise TypeError(f"a device function returns True where it fails, else None, not {out}")

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        if isinstance(out, types.NoneType):
            return _WORD(0)
        return builder.zext(builder.icmp_signed("!=", args[0], args[0].type(0)), _WORD)

    return types.int64(out), generate


def _bits(type: types.Type, x: types.Type) -> Typed:
    t = type.instance_type

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        return builder.bitcast(args[1], context.get_value_type(t))

    return t(type, x), generate


def _unsigned(type: types.Type, x: types.Type) -> Typed:
    t = type.instance_type

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        ty = context.get_value_type(t)
        if isinstance(x, types.Float):
            return builder.fptoui(args[1], ty)
        if isinstance(t, types.Float):
            return builder.uitofp(args[1], ty)
        return builder.trunc(args[1], ty) if x.bitwidth > t.bitwidth else builder.zext(args[1], ty)

    return t(type, x), generate


def _truncated(type: types.Type, x: types.Type) -> Typed:
    t = type.instance_type

    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        return builder.fptosi(args[1], context.get_value_type(t))

    return t(type, x), generate


def _binary(instruction: str, result: types.Type | None = None) -> Callable[[types.Type, types.Type], Typed]:
    def typed(a: types.Type, b: types.Type) -> Typed:
        t = a if isinstance(a, types.Float) else types.int64 if a.bitwidth == 64 or b.bitwidth == 64 else a

        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
            return getattr(builder, instruction)(*args)

        return (result or t)(t, t), generate

    return typed


def _unsigned_compare(op: str) -> Callable[[types.Type, types.Type], Typed]:
    def typed(a: types.Type, b: types.Type) -> Typed:
        t = types.int64 if a.bitwidth == 64 or b.bitwidth == 64 else a

        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
            return builder.icmp_unsigned(op, *args)

        return types.boolean(t, t), generate

    return typed


def _unsigned_choice(op: str) -> Callable[[types.Type, types.Type], Typed]:
    def typed(a: types.Type, b: types.Type) -> Typed:
        t = types.int64 if a.bitwidth == 64 or b.bitwidth == 64 else a

        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
            return builder.select(builder.icmp_unsigned(op, *args), *args)

        return t(t, t), generate

    return typed


def _fma(a: types.Type, b: types.Type, c: types.Type) -> Typed:
    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        return builder.fma(*args)

    return a(a, a, a), generate


def _select(condition: types.Type, a: types.Type, b: types.Type) -> Typed:
    def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
        test = args[0] if args[0].type == _BIT else builder.trunc(args[0], _BIT)
        return builder.select(test, args[1], args[2])

    t = a if a == b else types.int64
    return t(types.boolean, t, t), generate


_TYPED: dict[str, tuple[str, Callable[..., Typed]]] = {
    "pool": ("type, first, count", _pool),
    "load": ("type, address", _load),
    "load_if": ("condition, type, address", _load_if),
    "store": ("address, value", _store),
    "st": ("address, index, value", _st),
    "address": ("array", _address),
    "given_array": ("type, address, shape", _array(False)),
    "made_array": ("type, address, shape", _array(True)),
    "has_failed": ("out", _has_failed),
    "bits": ("type, x", _bits),
    "unsigned": ("type, x", _unsigned),
    "truncated": ("type, x", _truncated),
    **{name: ("a, b", _binary(name)) for name in ("sdiv", "srem", "fdiv", "udiv", "urem", "lshr")},
    **{n: ("a, b", _unsigned_compare(op)) for n, op in (("ult", "<"), ("ule", "<="), ("ugt", ">"), ("uge", ">="))},
    "umin": ("a, b", _unsigned_choice("<")),
    "umax": ("a, b", _unsigned_choice(">")),
    "fma": ("a, b, c", _fma),
    "select": ("condition, a, b", _select),
}


def _assembly(
    name: str, text: str, constraints: str, result: types.Type, arguments: tuple[types.Type, ...]
) -> DeviceFunction:
    """Return an intrinsic of one instruction; a result of several numbers is a tuple."""
    several = isinstance(result, types.UniTuple)

    def typed(*given: types.Type) -> Typed:
        def generate(context: BaseContext, builder: ir.IRBuilder, signature: Signature, args: Values) -> ir.Value:
            if several:
                kind: ir.Type = ir.LiteralStructType([context.get_value_type(result.dtype)] * result.count)
            else:
                kind = ir.VoidType() if result == types.void else context.get_value_type(result)
            inline = ir.InlineAsm(ir.FunctionType(kind, [a.type for a in args]), text, constraints, True)
            out = builder.call(inline, args)
            if several:
                parts = [builder.extract_value(out, k) for k in range(result.count)]
                return context.make_tuple(builder, result, parts)
            return context.get_dummy_value() if result == types.void else out

        return result(*arguments), generate

    return _intrinsic(name, ", ".join(f"a{k}" for k in range(len(arguments))), typed)


# Before Hopper, ptxas takes no warp in a loop as whole, unless the loop begins with a barrier, which may be the warp's
# own: exchanges get a second form, with calls, for whose sake registers are spilled.
_MEET = ("{ .reg .u32 w; mov.u32 w, %tid.x; shr.u32 w, w, 5; add.u32 w, w, 1; bar.sync w, 32; }", "bar.warp.sync -1;")
# It knows a zero that is written, and would then write loops several times.
_NOTHING = ("{ .reg .u32 z; mov.u32 z, %ctaid.z; cvt.u64.u32 $0, z; }", "mov.u64 $0, 0;")


def _instructions(hopper: bool) -> dict[str, DeviceFunction]:
    """Return the instructions that Numba has no name for."""
    f4, i4, i8, f32 = types.UniTuple(types.float32, 4), types.int32, types.int64, types.float32
    product = (
        "mma.sync.aligned.{}.f32 {{$0,$1,$2,$3}},{{$4,$5,$6,$7}},{{$8,$9}},{{$10,$11,$12,$13}};",
        "=f,=f,=f,=f,r,r,r,r,r,r,f,f,f,f", f4, (i4,) * 6 + (f32,) * 4,
    )  # fmt: skip
    tf32, bf16 = "m16n8k8.row.col.f32.tf32.tf32", "m16n8k16.row.col.f32.bf16.bf16"
    rows: dict[str, tuple[str, str, types.Type, tuple[types.Type, ...]]] = {
        "mma": (product[0].format(tf32), *product[1:]),
        "mma_bf16": (product[0].format(bf16), *product[1:]),
        "mma_cut": (product[0].format(tf32), *product[1:]),  # of factors whose last bits do not count
        # a float32 rounded to 11 bits, half away from zero
        "large_half": ("{ .reg .b32 t; mov.b32 t, $1; add.s32 t, t, 4096; and.b32 $0, t, -8192; }", "=r,f", i4, (f32,)),
        "tf32": ("cvt.rna.tf32.f32 $0, $1;", "=r,f", i4, (f32,)),
        # two numbers in one register, the first in its lower half
        "bf16": ("cvt.rn.bf16x2.f32 $0, $2, $1;", "=r,f,f", i4, (f32, f32)),
        "copy_later": (
            "{ .reg .u64 s; .reg .u32 t; cvta.to.shared.u64 s, $0; cvt.u32.u64 t, s; "
            "cp.async.cg.shared.global [t], [$1], 16; }", "l,l,~{memory}", types.void, (i8, i8),
        ),
        "this_thread": ("mov.u32 $0, %tid.x;", "=r", i4, ()),  # unlike Numba's, never taken out of a loop
        # shared memory by addresses of 32 bits
        "shared_at": ("{ .reg .u64 s; cvta.to.shared.u64 s, $1; cvt.u32.u64 $0, s; }", "=r,l", i4, (i8,)),
        "load_near": ("ld.shared.f32 $0, [$1];", "=f,r,~{memory}", f32, (i4,)),
        "load_near_word": ("ld.shared.u64 $0, [$1];", "=l,r,~{memory}", i8, (i4,)),
        "load_four": ("ld.shared.v4.f32 {$0,$1,$2,$3}, [$4];", "=f,=f,=f,=f,r,~{memory}", f4, (i4,)),
        "store_near": ("st.shared.f32 [$0], $1;", "r,f,~{memory}", types.void, (i4, f32)),
        "store_two": ("st.shared.v2.f32 [$0], {$1,$2};", "r,f,f,~{memory}", types.void, (i4, f32, f32)),
        "load_near_int": ("ld.shared.s32 $0, [$1];", "=r,r,~{memory}", i4, (i4,)),
        "store_near_int": ("st.shared.s32 [$0], $1;", "r,r,~{memory}", types.void, (i4, i4)),
        "copy_near": ("cp.async.cg.shared.global [$0], [$1], 16, $2;", "r,l,r,~{memory}", types.void, (i4, i8, i4)),
        "copy_one_near": ("cp.async.ca.shared.global [$0], [$1], 4, $2;", "r,l,r,~{memory}", types.void, (i4, i8, i4)),
        "meet_lanes": (_MEET[hopper], "~{memory}", types.void, ()),  # where all lanes of a warp go the same way
        "warp_is_whole": (_MEET[0] * (not hopper), "~{memory}", types.void, ()),
        "nothing": (_NOTHING[hopper], "=l", i8, ()),
        "load_far_four": ("ld.global.v4.f32 {$0,$1,$2,$3}, [$4];", "=f,=f,=f,=f,l,~{memory}", f4, (i8,)),
        "copies_end": ("cp.async.commit_group;", "~{memory}", types.void, ()),
        "wait_for_copies": ("cp.async.wait_group 0;", "~{memory}", types.void, ()),
        "wait_for_older_copies": ("cp.async.wait_group 1;", "~{memory}", types.void, ()),
        "wait_for_oldest_copies": ("cp.async.wait_group 2;", "~{memory}", types.void, ()),
        "arrive": ("red.release.gpu.global.add.u64 [$0], $1;", "l,l,~{memory}", types.void, (i8, i8)),
        "acquire": ("ld.acquire.gpu.global.u64 $0, [$1];", "=l,l,~{memory}", i8, (i8,)),
        "release": ("st.release.gpu.global.u64 [$0], $1;", "l,l,~{memory}", types.void, (i8, i8)),
        # launches of which the next may begin before this one has ended; else, nothing
        "next_may_begin": ("griddepcontrol.launch_dependents;" * hopper, "~{memory}", types.void, ()),
        "earlier_have_ended": ("griddepcontrol.wait;" * hopper, "~{memory}", types.void, ()),
        # memory of the CPU: a word, and a word that says that others are there
        "look": ("ld.relaxed.sys.global.u64 $0, [$1];", "=l,l,~{memory}", i8, (i8,)),
        "give": ("st.relaxed.sys.global.u64 [$0], $1;", "l,l,~{memory}", types.void, (i8, i8)),
        "seen": ("ld.acquire.sys.global.u64 $0, [$1];", "=l,l,~{memory}", i8, (i8,)),
        "tell": ("st.release.sys.global.u64 [$0], $1;", "l,l,~{memory}", types.void, (i8, i8)),
    }  # fmt: skip
    out = {name: _assembly(name, *row) for name, row in rows.items()}
    this_thread, i64, load_four = out["this_thread"], types.int64, out["load_four"]
    out["load_kept"] = _device(lambda near, far: load_four(near))  # weights that `far` has, too
    out["step_ends"] = _device(lambda x: cuda.syncthreads_or(x))
    out["thread_anew"] = _device(lambda: i64(this_thread()) & 1023)  # the compiler sees how large it is
    return out


def _functions() -> dict[str, DeviceFunction]:
    """Return the functions of numbers."""
    out: dict[str, DeviceFunction] = {}
    for suffix, end in (("f32", "f"), ("f64", "")):
        for row in INTRINSICS.values():
            if row.gpu == "typed":
                out[f"{row.name}_{suffix}"] = getattr(libdevice, f"{row.c}{end}")
    for name, kind in _INTEGERS.items():
        out[f"abs_{name}"] = _device(lambda x, kind=kind: kind(abs(x)))
    return {**out, "within": _device(_within), "fdiv_near": _device(_fdiv_near)}


def _lanes() -> dict[str, DeviceFunction]:
    """Return the functions that exchange or reduce values over the lanes of a warp, by name."""
    return {
        "exchange": _device(lambda x, d: cuda.shfl_xor_sync(ALL, x, d)),
        "of_lane": _device(lambda x, k: cuda.shfl_sync(ALL, x, k)),
        "hsum": _device(_hsum),
        "hmax": _device(_hmax),
        "hmin": _device(_hmin),
    }


def _memory() -> dict[str, DeviceFunction]:
    """Return the functions of memory that are made of others."""
    load_, store_ = (_intrinsic(name, *_TYPED[name]) for name in ("load", "store"))
    ld_at, i8, i32 = _intrinsic("ld_at", "address, index", _ld), types.int8, types.int32

    def copy_bytes(lane, to, source, size):  # type: ignore[no-untyped-def]
        if (to | source | size) & 3 == 0:
            for k in range(lane * 4, size, 128):
                store_(to + k, load_(i32, source + k))
        else:
            for k in range(lane, size, 32):
                store_(to + k, load_(i8, source + k))

    often = _assembly(  # through the first cache if `$3` is true: of what many rows have, and nobody writes meanwhile
        "copy_often",
        "{ .reg .pred p; setp.ne.s32 p, $3, 0; @p cp.async.ca.shared.global [$0], [$1], 16, $2; "
        "@!p cp.async.cg.shared.global [$0], [$1], 16, $2; }",
        "r,l,r,r,~{memory}", types.void, (i32, types.int64, i32, i32),
    )  # fmt: skip
    ld = _device(lambda address, index=0: ld_at(address, index))
    return {"copy_bytes": _device(copy_bytes), "copy_often": often, "ld": ld}


_fma_of = _intrinsic("_fma_of", *_TYPED["fma"])
_rcp = _assembly("_rcp", "rcp.approx.ftz.f32 $0, $1;", "=f,f", types.float32, (types.float32,))

# Python that Numba compiles for the device.


def _within(a, b, most):  # type: ignore[no-untyped-def]
    return (libdevice.fabsf(a) < most) & (libdevice.fabsf(b) < most)


def _fdiv_near(a, b):  # type: ignore[no-untyped-def]
    """The quotient, as exact as a division where no part of it leaves the range of float32."""
    r = _rcp(b)
    r = _fma_of(_fma_of(-b, r, types.float32(1.0)), r, r)
    q = a * r
    q = _fma_of(_fma_of(-b, q, a), r, q)
    return _fma_of(_fma_of(-b, q, a), r, q)


def _hsum(x):  # type: ignore[no-untyped-def]
    for k in range(5):
        x = x + cuda.shfl_xor_sync(ALL, x, 16 >> k)
    return x


def _hmax(x):  # type: ignore[no-untyped-def]
    for k in range(5):
        y = cuda.shfl_xor_sync(ALL, x, 16 >> k)
        x = x if x > y or x != x else y
    return cuda.shfl_sync(ALL, x, 0)


def _hmin(x):  # type: ignore[no-untyped-def]
    for k in range(5):
        y = cuda.shfl_xor_sync(ALL, x, 16 >> k)
        x = x if x < y or x != x else y
    return cuda.shfl_sync(ALL, x, 0)
