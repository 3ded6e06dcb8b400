"""The typed program and its companions: checker, interpreter, printer, kernels' reference; programs made by hand."""

from __future__ import annotations

import dataclasses
import enum
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

from acronumba.errors import Loc
from acronumba.ir.interpret import InstanceFailure, Interpreter, interpret, message
from acronumba.ir.nodes import (
    Block,
    Branch,
    Call,
    Check,
    ClassTag,
    Const,
    Copy,
    Emit,
    ExtentOf,
    Fail,
    FieldLayout,
    Function,
    IsNull,
    Jump,
    ListNew,
    ListOp,
    Load,
    New,
    Op,
    Program,
    Return,
    Scalar,
    Shared,
    SharedArg,
    SharedParam,
    Site,
    StructLayout,
    Var,
)
from acronumba.ir.ops import SCALARS, TENSORS
from acronumba.ir.printer import program_text
from acronumba.ir.reference import KernelFailure, evaluate, spec_text
from acronumba.ir.spec import Dim, KernelOp, KernelSpec, Operand
from acronumba.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    DictT,
    EnumT,
    ListT,
    RefT,
    StrT,
    StructT,
    TensorT,
    TupleT,
    Type,
    UnionT,
    Word,
    union,
    words,
)
from acronumba.ir.values import List, Misfit, ObjectRow, flatten, unflatten
from acronumba.ir.verify import VerifyError, verify


@dataclass
class Tree:
    word: int = -1
    left: Tree | None = None
    right: Tree | None = None


@dataclass(frozen=True, slots=True)
class Leaf:
    value: float


@dataclass
class Fork:
    items: list[Any]


class Link(NamedTuple):
    head: int
    tail: Link | None


class Colour(enum.Enum):
    RED = "r"
    BLUE = "b"


def at(line: int, function: str = "f") -> Loc:
    return Loc("model.py", function, line, 4, line, 9)


HERE = at(1)
TREE = RefT((Tree,))
SITE = Site("ValueError", "wrong {0}", HERE)


def layout(cls: type, **fields: Type) -> StructLayout:
    offset, out = 1, []
    for name, t in fields.items():
        out.append(FieldLayout(name=name, type=t, offset=offset, width=len(words(t))))
        offset += len(words(t))
    return StructLayout(cls=cls, fields=tuple(out), size=offset)


TREE_LAYOUT = layout(Tree, word=INT, left=union(StructT(Tree), NONE), right=union(StructT(Tree), NONE))


def program(*functions: Function, result: Type, params: tuple[Type, ...], **more: Any) -> Program:
    return Program(
        name=functions[0].name, functions=functions, result=result, params=params,
        sites=more.get("sites", (SITE,)), layouts=more.get("layouts", ()), shared=more.get("shared", ()),
    )  # fmt: skip


def function(name: str, params: tuple[Var, ...], results: tuple[Word, ...], *blocks: Block) -> Function:
    return Function(name=name, params=params, results=results, blocks=blocks, loc=HERE)


def straight(params: dict[str, Word], result: Type, *instrs: Any, out: tuple[Var, ...], **more: Any) -> Program:
    """A program of one block. Parameters are the variables that `instrs` use."""
    given = more.pop("given")
    f = function("f", given, words(result), Block(instrs=instrs, end=Return(args=out, loc=HERE)))
    return program(f, result=result, params=tuple(params.values()), **more)  # type: ignore[arg-type]


def f32(*shape: int | None) -> TensorT:
    return TensorT("float32", shape)


# A recursive model over trees.


def tree_model(h: int = 3, vocabulary: int = 5) -> Program:
    t = Var("t", TREE)
    x = Var("x", f32(h))
    left, right, word, count = Var("left", TREE), Var("right", TREE), Var("word", INT), Var("count", INT)
    place = Var("at", TensorT("int64", ()))
    leaf = Var("leaf", BOOL)
    hl, hr = Var("hl", f32(h)), Var("hr", f32(h))
    both, product, biased, out = (
        Var("both", f32(2 * h)),
        Var("product", f32(h)),
        Var("biased", f32(h)),
        Var("out", f32(h)),
    )
    encode = function(
        "encode",
        (t,),
        (f32(h),),
        Block(
            instrs=(
                Load(outs=(left,), ref=t, cls=Tree, field="left", loc=at(2)),
                IsNull(out=leaf, ref=left, loc=at(2)),
            ),
            end=Branch(cond=leaf, yes=1, no=2, loc=at(2)),
        ),
        Block(
            instrs=(
                Load(outs=(word,), ref=t, cls=Tree, field="word", loc=at(3)),
                Const(out=count, value=vocabulary, loc=at(3)),
                Op(out=place, op="index", args=(word, count), attrs=(), shape=(), site=1, loc=at(3)),
                Op(out=x, op="take", args=(SharedArg(0), place), attrs=(0,), shape=(h,), site=-1, loc=at(3)),
            ),
            end=Return(args=(x,), loc=at(3)),
        ),
        Block(
            instrs=(
                Load(outs=(right,), ref=t, cls=Tree, field="right", loc=at(4)),
                Call(outs=(hl,), function=1, args=(left,), loc=at(5)),
                Call(outs=(hr,), function=1, args=(right,), loc=at(6)),
                Op(out=both, op="concat", args=(hl, hr), attrs=(0,), shape=(2 * h,), site=-1, loc=at(7)),
                Op(out=product, op="matmul", args=(SharedArg(1), both), attrs=(), shape=(h,), site=-1, loc=at(7)),
                Op(out=biased, op="add", args=(product, SharedArg(2)), attrs=(), shape=(h,), site=-1, loc=at(7)),
                Op(out=out, op="tanh", args=(biased,), attrs=(), shape=(h,), site=-1, loc=at(7)),
            ),
            end=Return(args=(out,), loc=at(8)),
        ),
    )
    root, top = Var("root", TREE), Var("top", f32(h))
    main = function(
        "sentiment", (root,), (f32(h),),
        Block(instrs=(Call(outs=(top,), function=1, args=(root,), loc=at(11)),), end=Return(args=(top,), loc=at(11))),
    )  # fmt: skip
    return program(
        main, encode, params=(StructT(Tree),), result=f32(h), layouts=(TREE_LAYOUT,),
        sites=(SITE, Site("IndexError", "index out of range", at(3))),
        shared=(
            SharedParam(path="p.embed", type=f32(vocabulary, h)), SharedParam(path="p.w", type=f32(h, 2 * h)),
            SharedParam(path="p.b", type=f32(h)),
        ),
    )  # fmt: skip


def weights(h: int = 3, vocabulary: int = 5) -> tuple[Any, ...]:
    rng = np.random.default_rng(7)
    return tuple(rng.standard_normal(s).astype(np.float32) for s in ((vocabulary, h), (h, 2 * h), (h,)))


def plain_tree(t: Tree, embed: Any, w: Any, b: Any) -> Any:
    if t.left is None:
        return embed[t.word]
    assert t.right is not None
    return np.tanh(w @ np.concatenate([plain_tree(t.left, embed, w, b), plain_tree(t.right, embed, w, b)]) + b)


SMALL = Tree(left=Tree(word=1), right=Tree(left=Tree(word=4), right=Tree(word=0)))


def test_tree_model_is_the_plain_function() -> None:
    verify(tree_model())
    out = interpret(tree_model(), (SMALL,), weights())
    assert out.dtype == np.float32
    np.testing.assert_array_equal(out, plain_tree(SMALL, *weights()))


def test_failure_names_site_message_place_and_calls() -> None:
    bad = Tree(left=Tree(word=1), right=Tree(word=9))
    with pytest.raises(InstanceFailure) as caught:
        interpret(tree_model(), (bad,), weights())
    e = caught.value
    assert (e.site, e.error, e.text) == (1, "IndexError", "index out of range")
    assert [loc.line for loc in e.chain] == [11, 6]
    assert e.loc.line == 3


def test_negative_index_counts_from_the_end() -> None:
    np.testing.assert_array_equal(interpret(tree_model(), (Tree(word=-1),), weights()), weights()[0][4])


def depth_model() -> Program:
    """def depth(t): return 0 if t.left is None else 1 + depth(t.left)"""
    t, left, leaf = Var("t", TREE), Var("left", TREE), Var("leaf", BOOL)
    zero, one, below, out = Var("zero", INT), Var("one", INT), Var("below", INT), Var("out", INT)
    f = function(
        "depth", (t,), (INT,),
        Block(
            instrs=(
                Load(outs=(left,), ref=t, cls=Tree, field="left", loc=HERE), IsNull(out=leaf, ref=left, loc=HERE),
            ),
            end=Branch(cond=leaf, yes=1, no=2, loc=HERE),
        ),
        Block(instrs=(Const(out=zero, value=0, loc=HERE),), end=Return(args=(zero,), loc=HERE)),
        Block(
            instrs=(
                Const(out=one, value=1, loc=HERE), Call(outs=(below,), function=0, args=(left,), loc=HERE),
                Scalar(out=out, op="add", args=(one, below), site=-1, loc=HERE),
            ),
            end=Return(args=(out,), loc=HERE),
        ),
    )  # fmt: skip
    return program(f, params=(StructT(Tree),), result=INT, layouts=(TREE_LAYOUT,))


def test_recursion_a_hundred_thousand_deep() -> None:
    verify(depth_model())
    deep = Tree()
    for _ in range(100_000):
        deep = Tree(left=deep)
    assert interpret(depth_model(), (deep,)) == 100_000


def test_steps_are_limited() -> None:
    loop = function("f", (), (), Block(instrs=(), end=Jump(block=0, loc=at(3))))
    with pytest.raises(InstanceFailure, match="more than 1000 steps") as caught:
        interpret(program(loop, params=(), result=NONE), (), max_steps=1000)
    assert caught.value.site == -1
    assert caught.value.loc.line == 3


def test_value_that_does_not_conform_is_a_data_error() -> None:
    with pytest.raises(InstanceFailure, match=r"left: int where Tree \| None is expected") as caught:
        interpret(tree_model(), (Tree(left=3),), weights())  # type: ignore[arg-type]
    assert caught.value.error == "DataError"


# The same model as a plan.


def tree_plan() -> tuple[Program, tuple[KernelSpec, ...]]:
    p = tree_model()
    look = KernelSpec(
        "encode_3",
        (Operand("shared", "embed", "float32", (5, 3), 0), Operand("int", "word", "int64", (), 0)),
        0,
        (
            KernelOp("const", (), (5,), "int64", (), "", -1, at(3)),
            KernelOp("index", (1, 2), (), "int64", (), "at", 1, at(3)),
            KernelOp("take", (0, 3), (0,), "float32", (3,), "x", -1, at(3)),
        ),
        (4,),
    )
    cell = KernelSpec(
        "encode_7",
        (
            Operand("tensor", "hl", "float32", (3,), 0), Operand("tensor", "hr", "float32", (3,), 1),
            Operand("shared", "w", "float32", (3, 6), 1), Operand("shared", "b", "float32", (3,), 2),
        ),
        0,
        (
            KernelOp("concat", (0, 1), (0,), "float32", (6,), "", -1, at(7)),
            KernelOp("matmul", (2, 4), (), "float32", (3,), "", -1, at(7)),
            KernelOp("add", (5, 3), (), "float32", (3,), "", -1, at(7)),
            KernelOp("tanh", (6,), (), "float32", (3,), "out", -1, at(7)),
        ),
        (7,),
    )  # fmt: skip
    encode = p.functions[1]
    (word,) = encode.blocks[1].instrs[0].outs  # type: ignore[union-attr]
    blocks = []
    for block in encode.blocks:
        instrs = []
        for i in block.instrs:
            match i:
                case Op(op="take"):
                    instrs.append(Emit(outs=(i.out,), kernel=0, args=(word,), dims=(), shapes=((3,),), loc=i.loc))
                case Op(op="tanh"):
                    arms = tuple(v for c in block.instrs if isinstance(c, Call) for v in c.outs)
                    instrs.append(Emit(outs=(i.out,), kernel=1, args=arms, dims=(), shapes=((3,),), loc=i.loc))
                case Op():
                    pass
                case _:
                    instrs.append(i)
        blocks.append(dataclasses.replace(block, instrs=tuple(instrs)))
    planned = dataclasses.replace(p, functions=(p.functions[0], dataclasses.replace(encode, blocks=tuple(blocks))))
    return planned, (look, cell)


def test_plan_gives_the_same_bits() -> None:
    planned, kernels = tree_plan()
    verify(planned, kernels)
    out = interpret(planned, (SMALL,), weights(), kernels=kernels)
    np.testing.assert_array_equal(out, interpret(tree_model(), (SMALL,), weights()))
    with pytest.raises(InstanceFailure) as caught:
        interpret(planned, (Tree(word=5),), weights(), kernels=kernels)
    assert caught.value.site == 1


def test_kernel_with_run_time_extents() -> None:
    spec = KernelSpec(
        "rows_1",
        (Operand("tensor", "x", "float32", (Dim(0), 4), 0), Operand("int", "first", "int64", (), 1)),
        1,
        (
            KernelOp("slice", (0,), ((("value", 1), 0), (1, 2)), "float32", (1, 2), "row", -1, HERE),
            KernelOp("sum", (0,), ((0,),), "float32", (4,), "total", -1, HERE),
            KernelOp("iota", (), (), "int64", (Dim(0),), "n", -1, HERE),
        ),
        (2, 3, 4),
    )
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    row, total, n = evaluate(spec, (x, 2), (3,))
    np.testing.assert_array_equal(row, [[8, 10]])
    np.testing.assert_array_equal(total, [12, 15, 18, 21])
    np.testing.assert_array_equal(n, [0, 1, 2])
    with pytest.raises(TypeError, match="shape"):
        evaluate(spec, (x, 2), (2,))
    text = spec_text(spec)
    assert "x: tensor float32[d0, 4]" in text
    assert "row = slice(x, (first, 0), (1, 2))" in text
    assert text == spec_text(spec)


def test_kernel_failure_carries_its_site() -> None:
    _, (look, _) = tree_plan()
    with pytest.raises(KernelFailure) as caught:
        evaluate(look, (weights()[0], 17))
    assert caught.value.site == 1


# Scalars.


def scalar(op: str, *args: Any) -> Any:
    """Run one scalar operation on host numbers."""
    kinds: dict[type, Word] = {int: INT, float: FLOAT, bool: BOOL}
    given = tuple(Var(f"a{k}", kinds[type(a)]) for k, a in enumerate(args))
    letter = SCALARS[op].result
    result: Word = {"i": INT, "f": FLOAT, "b": BOOL}.get(letter, given[-1].type)  # type: ignore[arg-type]
    out = Var("out", result)
    p = straight(
        {v.name: v.type for v in given}, result, Scalar(out=out, op=op, args=given, site=0, loc=HERE),
        out=(out,), given=given,
    )  # fmt: skip
    verify(p)
    return interpret(p, args)


@pytest.mark.parametrize(
    ("op", "args", "expected"),
    [
        ("add", (2**62, 2**62 - 1), 2**63 - 1), ("floordiv", (-7, 2), -4), ("mod", (-7, 2), 1),
        ("mod", (-7.5, 2.0), 0.5),
        ("pow", (2, 62), 2**62), ("pow", (-1, 10**9), 1), ("lshift", (1, 62), 2**62), ("rshift", (-5, 1), -3),
        ("round", (2.5,), 2), ("trunc", (-2.7,), -2), ("ceil", (2.1,), 3), ("min", (3, 2), 2),
        ("select", (False, 1, 2), 2),
        ("div", (1.0, 4.0), 0.25), ("isnan", (math.nan,), True), ("bool", (0.0,), False), ("invert", (5,), -6),
    ],
)  # fmt: skip
def test_scalars_are_pythons(op: str, args: tuple[Any, ...], expected: Any) -> None:
    out = scalar(op, *args)
    assert out == expected
    assert type(out) is type(expected)


@pytest.mark.parametrize(
    ("op", "args"),
    [
        ("add", (2**63 - 1, 1)), ("neg", (-(2**63),)), ("mul", (2**32, 2**31)), ("floordiv", (1, 0)),
        ("mod", (1.0, 0.0)),
        ("div", (1.0, 0.0)), ("pow", (2, 63)), ("pow", (10, 10**15)), ("pow", (0.0, -1.0)), ("pow", (-8.0, 1 / 3)),
        ("pow", (2, -1)), ("lshift", (1, 10**15)), ("lshift", (1, -1)), ("sqrt", (-1.0,)), ("exp", (1000.0,)),
        ("trunc", (math.nan,)), ("trunc", (1e300,)), ("round", (math.inf,)), ("floordiv", (-(2**63), -1)),
    ],
)  # fmt: skip
def test_scalars_fail_where_python_or_64_bits_do(op: str, args: tuple[Any, ...]) -> None:
    with pytest.raises(InstanceFailure) as caught:
        scalar(op, *args)
    assert caught.value.site == 0


def test_message_is_filled() -> None:
    assert message("index {1} of {0}, {2}", (3, 7)) == "index 7 of 3, {2}"


# Loops, lists, rows, unions.


def test_loop_with_copies() -> None:
    """The sum of a list by a loop: Copy joins the values at the head."""
    xs = Var("xs", ListT(FLOAT))
    n, k0, one, s0 = Var("n", INT), Var("k0", INT), Var("one", INT), Var("s0", FLOAT)
    k, s = Var("k", INT), Var("s", FLOAT)
    more, x, s1, k1 = Var("more", BOOL), Var("x", FLOAT), Var("s1", FLOAT), Var("k1", INT)
    f = function(
        "total", (xs,), (FLOAT,),
        Block(
            instrs=(
                ListOp(outs=(n,), op="len", width=1, args=(xs,), loc=HERE), Const(out=k0, value=0, loc=HERE),
                Const(out=one, value=1, loc=HERE), Const(out=s0, value=0.0, loc=HERE),
                Copy(out=k, src=k0, loc=HERE), Copy(out=s, src=s0, loc=HERE),
            ),
            end=Jump(block=1, loc=HERE),
        ),
        Block(
            instrs=(Scalar(out=more, op="lt", args=(k, n), site=-1, loc=HERE),),
            end=Branch(cond=more, yes=2, no=3, loc=HERE),
        ),
        Block(
            instrs=(
                ListOp(outs=(x,), op="get", width=1, args=(xs, k), loc=HERE),
                Scalar(out=s1, op="add", args=(s, x), site=-1, loc=HERE),
                Scalar(out=k1, op="add", args=(k, one), site=-1, loc=HERE),
                Copy(out=s, src=s1, loc=HERE), Copy(out=k, src=k1, loc=HERE),
            ),
            end=Jump(block=1, loc=HERE),
        ),
        Block(instrs=(), end=Return(args=(s,), loc=HERE)),
    )  # fmt: skip
    p = program(f, params=(ListT(FLOAT),), result=FLOAT)
    verify(p)
    assert interpret(p, ([0.5, 1, 2.25],)) == 3.75
    assert interpret(p, ([],)) == 0.0


def list_program(item: Type, op: str, extra: tuple[Word, ...], result: Type, outs: bool) -> Program:
    xs = Var("xs", ListT(item))
    given = (xs, *(Var(f"a{k}", w) for k, w in enumerate(extra)))
    made = tuple(Var(f"r{k}", w) for k, w in enumerate(words(result))) if outs else ()
    instr = ListOp(outs=made, op=op, width=len(words(item)), args=given, loc=HERE)
    return straight(
        {v.name: v.type for v in given}, TupleT((result, ListT(item))) if outs else ListT(item), instr,
        out=(*made, xs), given=given,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("op", "args", "left"),
    [
        ("append", (4,), [1, 2, 3, 4]), ("insert", (3, 9), [1, 2, 3, 9]), ("insert", (0, 9), [9, 1, 2, 3]),
        ("set", (1, 7), [1, 7, 3]), ("extend", ([5, 6],), [1, 2, 3, 5, 6]),
        ("sort", ([2, 1, 2], False), [2, 1, 3]), ("sort", ([2, 1, 2], True), [1, 3, 2]),
    ],
)  # fmt: skip
def test_list_operations_change_the_list(op: str, args: tuple[Any, ...], left: list[int]) -> None:
    made = Var("made", ListT(INT))
    start = tuple(Var(f"s{k}", INT) for k in range(3))
    kinds: dict[type, Word] = {int: INT, bool: BOOL, list: ListT(INT)}
    given = tuple(Var(f"a{k}", kinds[type(a)]) for k, a in enumerate(args))
    p = straight(
        {v.name: v.type for v in (*start, *given)}, ListT(INT),
        ListNew(out=made, width=1, args=start, count=3, loc=HERE),
        ListOp(outs=(), op=op, width=1, args=(made, *given), loc=HERE),
        out=(made,), given=(*start, *given),
    )  # fmt: skip
    verify(p)
    assert interpret(p, (1, 2, 3, *args)) == left


def test_list_operations_with_results() -> None:
    pair = TupleT((INT, FLOAT))
    data = [(1, 0.5), (2, 1.5), (3, 2.5)]
    get = list_program(pair, "get", (INT,), pair, outs=True)
    cut = list_program(pair, "slice", (INT, INT, INT), ListT(pair), outs=True)
    verify(get)
    verify(cut)
    assert interpret(get, (data, 1)) == ((2, 1.5), data)
    assert interpret(cut, (data, 2, -2, 2)) == ([(3, 2.5), (1, 0.5)], data)


def test_pop_extend_itself_and_fill() -> None:
    xs, c, x, i0, last = Var("xs", ListT(INT)), Var("c", INT), Var("x", INT), Var("i0", INT), Var("last", INT)
    p = straight(
        {"c": INT, "x": INT}, TupleT((INT, ListT(INT))),
        ListOp(outs=(xs,), op="fill", width=1, args=(c, x), loc=HERE),
        ListOp(outs=(), op="extend", width=1, args=(xs, xs), loc=HERE),
        Const(out=i0, value=0, loc=HERE),
        ListOp(outs=(last,), op="pop", width=1, args=(xs, i0), loc=HERE),
        out=(last, xs), given=(c, x),
    )  # fmt: skip
    verify(p)
    assert interpret(p, (2, 8)) == (8, [8, 8, 8])


def test_lists_keep_their_identity() -> None:
    a, x = Var("a", ListT(INT)), Var("x", INT)
    p = straight(
        {"x": INT}, TupleT((ListT(INT), ListT(INT))), ListNew(out=a, width=1, args=(), count=0, loc=HERE),
        ListOp(outs=(), op="append", width=1, args=(a, x), loc=HERE), out=(a, a), given=(x,),
    )  # fmt: skip
    one, two = interpret(p, (5,))
    assert one is two
    assert one == [5]


def test_width_zero_counts() -> None:
    a, n = Var("a", ListT(NONE)), Var("n", INT)
    p = straight(
        {}, TupleT((INT, ListT(NONE))), ListNew(out=a, width=0, args=(), count=2, loc=HERE),
        ListOp(outs=(), op="append", width=0, args=(a,), loc=HERE),
        ListOp(outs=(n,), op="len", width=0, args=(a,), loc=HERE), out=(n, a), given=(),
    )  # fmt: skip
    verify(p)
    assert interpret(p, ()) == (3, [None, None, None])


def test_rows_become_objects_and_users_objects_stay_themselves() -> None:
    t, word, made = Var("t", TREE), Var("word", INT), Var("made", TREE)
    p = straight(
        {"t": TREE, "word": INT}, StructT(Tree), New(out=made, cls=Tree, args=(word, t, t), loc=HERE),
        out=(made,), given=(t, word), layouts=(TREE_LAYOUT,),
    )  # fmt: skip
    p = dataclasses.replace(p, params=(StructT(Tree), INT))
    verify(p)
    mine = Tree(word=3)
    out = interpret(p, (mine, 8))
    assert isinstance(out, Tree)
    assert out.word == 8
    assert out.left is mine
    assert out.right is mine


def test_deep_results_of_dataclasses_and_named_tuples() -> None:
    link = union(StructT(Link), NONE)
    link_layout = layout(Link, head=INT, tail=link)
    made: Any = None
    for k in range(50_000):
        made = ObjectRow(link_layout, (k, made))
    out = unflatten((made,), link)
    assert isinstance(out, Link)
    assert out.head == 49_999
    count = 0
    while out is not None:
        out, count = out.tail, count + 1
    assert count == 50_000
    tree: Any = None
    for k in range(50_000):
        tree = ObjectRow(TREE_LAYOUT, (k, tree, None))
    back = unflatten((tree,), StructT(Tree))
    assert back.left.left.word == 49_997


def test_class_tags_and_fields_of_several_classes() -> None:
    """match x: Leaf -> its value, Fork -> the number of its items."""
    either = RefT((Fork, Leaf))
    x, tag, one, is_leaf = Var("x", either), Var("tag", INT), Var("one", INT), Var("is_leaf", BOOL)
    v, items, n, out = Var("v", FLOAT), Var("items", ListT(INT)), Var("n", INT), Var("nf", FLOAT)
    f = function(
        "f", (x,), (FLOAT,),
        Block(
            instrs=(
                ClassTag(out=tag, ref=x, loc=HERE), Const(out=one, value=1, loc=HERE),
                Scalar(out=is_leaf, op="eq", args=(tag, one), site=-1, loc=HERE),
            ),
            end=Branch(cond=is_leaf, yes=1, no=2, loc=HERE),
        ),
        Block(instrs=(Load(outs=(v,), ref=x, cls=Leaf, field="value", loc=HERE),), end=Return(args=(v,), loc=HERE)),
        Block(
            instrs=(
                Load(outs=(items,), ref=x, cls=Fork, field="items", loc=HERE),
                ListOp(outs=(n,), op="len", width=1, args=(items,), loc=HERE),
                Scalar(out=out, op="float", args=(n,), site=-1, loc=HERE),
            ),
            end=Return(args=(out,), loc=HERE),
        ),
    )  # fmt: skip
    layouts = (layout(Fork, items=ListT(INT)), layout(Leaf, value=FLOAT))
    p = program(f, params=(union(StructT(Fork), StructT(Leaf)),), result=FLOAT, layouts=layouts)
    verify(p)
    assert interpret(p, (Leaf(2.5),)) == 2.5
    assert interpret(p, (Fork([1, 2, 3]),)) == 3.0


@pytest.mark.parametrize(
    ("value", "t"),
    [
        (3, INT), (2.5, FLOAT), (True, BOOL), (None, NONE), ("a", StrT("a")), (Colour.BLUE, EnumT(Colour)),
        ((1, (2.0, None)), TupleT((INT, TupleT((FLOAT, NONE))))), ({"x": 1, "y": True}, DictT(("x", "y"), (INT, BOOL))),
        (7, union(INT, FLOAT, NONE)), (7.0, union(INT, FLOAT, NONE)), (None, union(INT, FLOAT, NONE)),
        (True, union(BOOL, INT)), (1, union(BOOL, INT)), (None, union(StructT(Tree), NONE)),
        ((1, 2), union(TupleT((INT, INT)), TupleT((INT,)), FLOAT)), ((1,), union(TupleT((INT, INT)), TupleT((INT,)))),
        ("b", union(StrT("a"), StrT("b"))), ([[1], []], ListT(ListT(INT))), ([None, 2], ListT(union(INT, NONE))),
        (None, union(ListT(INT), NONE)), (Colour.RED, union(EnumT(Colour), INT)),
    ],
)  # fmt: skip
def test_words_and_back(value: Any, t: Type) -> None:
    flat = flatten(value, t)
    assert len(flat) == len(words(t))
    back = unflatten(flat, t)
    assert back == value
    assert type(back) is type(value)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | st.sampled_from(Colour),
    lambda inner: (
        st.lists(inner, max_size=3) | st.tuples(inner) | st.tuples(inner, inner) | st.fixed_dictionaries({"a": inner})
    ),
    max_leaves=12,
)


def observed(value: Any) -> Type:
    """The least type of one value."""
    match value:
        case None:
            return NONE
        case bool():
            return BOOL
        case int():
            return INT
        case float():
            return FLOAT
        case Colour():
            return EnumT(Colour)
        case list():
            return ListT(union(*map(observed, value)) if value else NONE)
        case tuple():
            return TupleT(tuple(map(observed, value)))
        case _:
            return DictT(tuple(value), tuple(map(observed, value.values())))


def same(a: Any, b: Any) -> bool:
    """Equal, with equal types inside."""
    if type(a) is not type(b):
        return False
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    return bool(a == b)


@given(VALUES, VALUES)
def test_words_and_back_for_any_value_of_a_union(a: Any, b: Any) -> None:
    t = union(observed(a), observed(b))
    for value in (a, b):
        flat = flatten(value, t)
        assert len(flat) == len(words(t))
        for item in flat:
            if isinstance(item, List):
                item.origin = None  # so that the list is made anew
        assert same(unflatten(flat, t), value)


def test_words_of_arrays() -> None:
    x = np.arange(3, dtype=np.float32)
    (flat,) = flatten(x, f32(3))
    assert flat is x
    assert unflatten((flat,), f32(3)) is x
    number = unflatten(flatten(np.float32(2.5), f32()), f32())
    assert type(number) is np.float32
    t = union(f32(3), TensorT("int64", (3,)), NONE)
    assert isinstance(t, UnionT)
    assert unflatten(flatten(x, t), t) is x
    assert unflatten(flatten(None, t), t) is None


@pytest.mark.parametrize(
    ("value", "t", "text"),
    [
        (2**63, INT, "does not fit 64 bits"), ("x", INT, "^str where int is expected"), (1.5, INT, "^float where int"),
        (2**2000, FLOAT, "too large for a float"), (np.bool_(True), BOOL, r"^bool\[\] where bool"),
        ((1, "x"), TupleT((INT, INT)), r"^\[1\]: str"), ([1, None], ListT(INT), r"^\[1\]: None where int"),
        ({"x": None}, DictT(("x",), (INT,)), r"^\['x'\]: None"), (None, StructT(Tree), "^None where Tree"),
        (np.zeros(4, np.float32), f32(3), r"^float32\[4\] where float32\[3\]"),
        (np.zeros(3), f32(3), r"^float64\[3\] where float32\[3\]"), (np.zeros((3, 1), np.float32), f32(3), "^float32"),
    ],
)  # fmt: skip
def test_values_that_do_not_conform(value: Any, t: Type, text: str) -> None:
    with pytest.raises(Misfit, match=text):
        flatten(value, t)


def test_ints_and_floats_convert_as_the_language_says() -> None:
    assert flatten(np.int32(4), INT) == (4,)
    assert flatten(True, INT) == (1,)
    (x,) = flatten(3, FLOAT)
    assert type(x) is float


def test_one_list_reached_twice_is_one_list() -> None:
    shared = [1, 2]
    a, b = flatten((shared, shared), TupleT((ListT(INT), ListT(INT))))
    assert a is b


# Tensor operations with run-time extents, checks, shared values.


def test_extents_checks_and_shared_numbers() -> None:
    x, n, limit, ok, scale = Var("x", f32(None)), Var("n", INT), Var("limit", INT), Var("ok", BOOL), Var("scale", FLOAT)
    total, out, wide = Var("total", f32()), Var("out", TensorT("float64", ())), Var("wide", TensorT("float64", ()))
    p = straight(
        {"x": f32(None)}, TensorT("float64", ()),
        ExtentOf(out=n, tensor=x, axis=0, loc=HERE), Shared(out=limit, index=0, loc=HERE),
        Scalar(out=ok, op="le", args=(n, limit), site=-1, loc=HERE), Check(cond=ok, site=0, args=(n,), loc=HERE),
        Shared(out=scale, index=1, loc=HERE),
        Op(out=total, op="sum", args=(x,), attrs=((0,),), shape=(), site=-1, loc=HERE),
        Op(out=wide, op="cast", args=(total,), attrs=(), shape=(), site=-1, loc=HERE),
        Op(out=out, op="mul", args=(wide, scale), attrs=(), shape=(), site=-1, loc=HERE),
        out=(out,), given=(x,), shared=(SharedParam(path="limit", type=INT), SharedParam(path="scale", type=FLOAT)),
    )  # fmt: skip
    verify(p)
    run = Interpreter(p, (3, 0.5))
    out_value = run.run((np.array([1, 2, 4], np.float32),))
    assert out_value == 3.5
    assert type(out_value) is np.float64
    with pytest.raises(InstanceFailure, match="wrong 4") as caught:
        run.run((np.ones(4, np.float32),))
    assert caught.value.values == (4,)


def test_fail_ends_the_instance() -> None:
    n = Var("n", INT)
    f = function("f", (n,), (), Block(instrs=(), end=Fail(site=0, args=(n,), loc=at(9))))
    p = program(f, params=(INT,), result=NONE)
    verify(p)
    with pytest.raises(InstanceFailure, match="ValueError: wrong 6"):
        interpret(p, (6,))


OPS: dict[str, tuple[list[Any], tuple[Any, ...], Any]] = {
    "where": ([np.array([True, False]), np.float32([1, 2]), np.float32([3, 4])], (), np.float32([1, 4])),
    "transpose": ([np.arange(6.0).reshape(2, 3)], ((1, 0),), np.arange(6.0).reshape(2, 3).T),
    "slice": ([np.arange(6.0).reshape(2, 3)], ((1, 2), (-1, -2)), np.array([[5.0, 3.0], [2.0, 0.0]])),
    "take": ([np.arange(6.0).reshape(2, 3), np.array([2, 0])], (1,), np.array([[2.0, 0.0], [5.0, 3.0]])),
    "index": ([np.array([2, -3]), np.int64(3)], (), np.array([2, 0])),
    "concat": ([np.ones((1, 2)), np.zeros((2, 2))], (0,), np.array([[1.0, 1], [0, 0], [0, 0]])),
    "argmax": ([np.array([[1.0, 3, 3], [np.nan, 9, 1]])], (1,), np.array([1, 0])),
    "sum": ([np.ones((2, 3), np.int32)], ((0, 1),), np.int64(6)),
    "max": ([np.array([[1.0, 5], [3, 2]])], ((0,),), np.array([3.0, 5.0])),
    "matmul": ([np.ones((4, 2, 3)), np.ones((3,))], (), np.full((4, 2), 3.0)),
    "broadcast": ([np.ones((1, 2))], (), np.ones((3, 2))),
    "reshape": ([np.arange(6.0).reshape(2, 3)], (), np.arange(6.0)),
    "cast": ([np.array([1.7, -1.7])], (), np.array([1, -1], np.int32)),
    "const": ([], (0.5,), np.float32(0.5)),
    "iota": ([], (), np.arange(4)),
    "sigmoid": ([np.array([0.0, -800.0, 800.0])], (), np.array([0.5, 0.0, 1.0])),
    "and": ([np.array([6, 5]), np.int64(3)], (), np.array([2, 1])),
    "lshift": ([np.uint8([1, 255, 3]), np.uint8([7, 4, 8])], (), np.uint8([128, 240, 0])),
    "rshift": ([np.int8([-7, -7, 100]), np.int8([1, 8, -1])], (), np.int8([-4, -1, 0])),
    "threefry": ([np.uint64(0), np.zeros(1, np.uint64)], (), np.uint64([0x99BA4EFE6B200159])),
    "isnan": ([np.array([1.0, np.nan])], (), np.array([False, True])),
}


@pytest.mark.parametrize("op", OPS)
def test_tensor_operations_verify_and_run(op: str) -> None:
    arrays, attrs, expected = OPS[op]
    given = tuple(Var(f"x{k}", TensorT(np.asarray(a).dtype.name, np.shape(a))) for k, a in enumerate(arrays))
    t = TensorT(np.asarray(expected).dtype.name, np.shape(expected))
    out = Var("out", t)
    instr = Op(
        out=out, op=op, args=given, attrs=attrs, shape=np.shape(expected), site=0 if op == "index" else -1, loc=HERE
    )
    p = straight({v.name: v.type for v in given}, t, instr, out=(out,), given=given)
    verify(p)
    result = interpret(p, tuple(arrays))
    np.testing.assert_array_equal(result, expected)
    assert result.dtype == np.asarray(expected).dtype


# The checker.


def broken(change: Any) -> list[str]:
    """Return what the checker says of the tree model with `change` applied to the recursive function's blocks."""
    p = tree_model()
    encode = p.functions[1]
    blocks = change(list(encode.blocks))
    p = dataclasses.replace(p, functions=(p.functions[0], dataclasses.replace(encode, blocks=tuple(blocks))))
    with pytest.raises(VerifyError) as caught:
        verify(p)
    return list(caught.value.problems)


def with_instr(block: int, index: int, **changes: Any) -> Any:
    def change(blocks: list[Block]) -> list[Block]:
        instrs = list(blocks[block].instrs)
        instrs[index] = dataclasses.replace(instrs[index], **changes)
        blocks[block] = dataclasses.replace(blocks[block], instrs=tuple(instrs))
        return blocks

    return change


def test_use_before_assignment_is_found_with_its_place() -> None:
    def drop(blocks: list[Block]) -> list[Block]:
        blocks[2] = dataclasses.replace(blocks[2], instrs=blocks[2].instrs[1:])
        return blocks

    (problem,) = broken(drop)
    assert problem.startswith("encode, block 2, 'hr = call 1(right)' (line 6): right may be unassigned")


def test_assignment_on_one_path_only_is_found() -> None:
    def join(blocks: list[Block]) -> list[Block]:
        x = next(i.out for i in blocks[1].instrs if isinstance(i, Op) and i.op == "take")
        blocks[1] = dataclasses.replace(blocks[1], end=Jump(block=3, loc=at(3)))
        blocks[2] = dataclasses.replace(blocks[2], end=Jump(block=3, loc=at(3)))
        return [*blocks, Block(instrs=(), end=Return(args=(x,), loc=at(9)))]

    (problem,) = broken(join)
    assert "block 3, 'return x'" in problem
    assert "x may be unassigned" in problem


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (with_instr(2, 3, shape=(5,)), "extent 5 for float32[6]"),
        (with_instr(2, 3, attrs=(1,)), "no axis 1 of 1"),
        (with_instr(2, 4, op="dot"), "no tensor operation dot"),
        (with_instr(2, 4, args=(SharedArg(0), SharedArg(2))), "the result has shape [3], not [5]"),
        (with_instr(2, 4, args=(SharedArg(2), SharedArg(1))), "the result has shape [3], not [6]"),
        (with_instr(2, 5, args=(SharedArg(1), SharedArg(2))), "shapes of ranks [2, 1] to rank 1"),
        (with_instr(2, 5, args=(SharedArg(9), SharedArg(2))), "no shared parameter 9"),
        (with_instr(1, 2, site=7), "no site 7"),
        (with_instr(1, 2, site=-1), "no site -1"),
        (with_instr(1, 3, site=1), "take does not fail"),
        (with_instr(2, 1, function=4), "no function 4"),
        (with_instr(2, 1, args=()), "0 words where 1 are needed"),
        (with_instr(0, 0, field="middle"), "Tree has no field middle"),
        (with_instr(0, 0, cls=Leaf), "is never a Leaf"),
        (with_instr(0, 1, out=Var("leaf", INT)), "bool is assigned to leaf: int"),
    ],
)
def test_mistakes_are_found(change: Any, text: str) -> None:
    assert any(text in problem for problem in broken(change)), broken(change)


def test_dtypes_must_agree() -> None:
    x, y = Var("x", f32(2)), Var("y", TensorT("float64", (2,)))
    out = Var("out", TensorT("float64", (2,)))
    p = straight(
        {"x": x.type, "y": y.type}, out.type,
        Op(out=out, op="add", args=(x, y), attrs=(), shape=(2,), site=-1, loc=HERE),
        out=(out,), given=(x, y),
    )  # fmt: skip
    with pytest.raises(VerifyError, match="dtypes float32, float64 in one operation"):
        verify(p)


def test_second_assignment_must_be_a_copy() -> None:
    x = Var("x", INT)
    p = straight({}, INT, Const(out=x, value=1, loc=HERE), Const(out=x, value=2, loc=HERE), out=(x,), given=())
    with pytest.raises(VerifyError, match="x is assigned 2 times, not only by copies"):
        verify(p)


def test_layouts_and_messages_are_checked() -> None:
    bad = dataclasses.replace(TREE_LAYOUT, size=9)
    p = dataclasses.replace(tree_model(), layouts=(bad,))
    with pytest.raises(VerifyError, match=r"layout 0 \(Tree\): 9 words, not 4"):
        verify(p)
    n = Var("n", INT)
    f = function("f", (n,), (), Block(instrs=(), end=Fail(site=0, args=(), loc=at(9))))
    with pytest.raises(VerifyError, match="the message needs value 0, 0 are given"):
        verify(program(f, params=(INT,), result=NONE))


def test_plan_signature_is_checked() -> None:
    planned, kernels = tree_plan()
    with pytest.raises(VerifyError, match="no kernel 1"):
        verify(planned, kernels[:1])
    with pytest.raises(VerifyError, match="takes other arguments"):
        verify(planned, (kernels[1], kernels[1]))


def test_every_operation_has_a_rule() -> None:
    from acronumba.ir.op_rules import RULES

    assert [k for k, row in TENSORS.items() if k not in RULES and row.kind not in RULES] == []


# The printer.


def test_program_text() -> None:
    text = program_text(tree_model())
    assert text == program_text(tree_model())
    lines = text.splitlines()
    assert lines[0] == "program sentiment(Tree) -> float32[3]"
    assert "shared 0 p.embed: float32[5, 3]" in lines
    assert "layout 0 Tree: 1 word: int, 2 left: Tree | None, 3 right: Tree | None" in lines
    assert "site 1 IndexError 'index out of range' model.py:3" in lines
    assert "def encode(t: Tree) -> float32[3]:" in lines
    start = lines.index("    # model.py:3")
    assert lines[start + 1].split() == ["1:", "word", "=", "load", "t.word"]
    assert lines[start + 3].split("  ")[2:3] == ["at = index(word, count) site 1"]
    assert lines[start + 4].split("  ")[2:3] == ["x = take(p.embed, at, 0)"]
    assert lines[start + 4].endswith("float32[3]")
    assert text.count("# model.py:7") == 1


def test_planned_program_text() -> None:
    planned, _ = tree_plan()
    text = program_text(planned)
    assert "out = emit 1(hl, hr)" in text
    assert "branch leaf 1 2" in text
