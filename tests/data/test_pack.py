"""Packing and unpacking: whatever a schema says, the words give back what was packed."""

from __future__ import annotations

import copy
import enum
import itertools
import pickle
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from acronumba import model
from acronumba.api.results import equal
from acronumba.data.heap import rest_of
from acronumba.data.layouts import make_layouts
from acronumba.data.pack import Memory, Packer, Schema, Unpacker, infer, merge, pack, restrict, schema_text
from acronumba.ir.types import (
    BOOL,
    FLOAT,
    INT,
    NONE,
    TEXT,
    DictT,
    EnumT,
    ListT,
    MapT,
    OpaqueT,
    StrT,
    StructT,
    TensorT,
    TupleT,
    type_text,
    union,
)


@dataclass
class Tree:
    word: int = -1
    left: Tree | None = None
    right: Tree | None = None


@dataclass
class Box:
    held: Any


class Colour(enum.Enum):
    RED = "r"
    GREEN = "g"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 5


@dataclass
class Expr:
    pass


@dataclass
class Num(Expr):
    value: float


@dataclass
class Add(Expr):
    a: Expr
    b: Expr


@dataclass
class Vec(Expr):
    x: np.ndarray


class Cons(NamedTuple):
    head: int
    tail: Cons | None


class Entry(TypedDict):
    size: int
    name: str


@dataclass
class Everything:
    i: int
    f: float
    b: bool
    colour: Colour
    level: Level | None
    maybe: int | None
    number: int | float
    x: np.ndarray
    y: npt.NDArray[np.float32] | None
    names: list[int]
    pairs: list[tuple[int, Tree | None]]
    pair: tuple[float, bool]
    many: tuple[int, ...]
    table: dict[str, int]
    entry: Entry
    kind: Literal["add", "mul"]
    expr: Num | Add
    anything: Any
    text: str = ""
    children: list[Everything] = field(default_factory=list)


@dataclass(eq=False)
class Graph:
    label: int
    next: list[Graph] = field(default_factory=list)
    other: Graph | None = None


def roundtrip(columns: list[Any], reads: Any = None) -> list[tuple[Any, ...]]:
    """Pack, unpack, and return the values of every instance."""
    schema = infer(columns, reads)
    layouts = make_layouts(restrict(schema, reads).fields)
    batch = Packer(schema, layouts).pack(columns)
    assert not batch.errors
    unpacker = Unpacker(TupleT(schema.params), layouts)
    owners, stored = batch.objects, {layout.cls: {f.name for f in layout.fields} for layout in layouts}
    rest = lambda at: rest_of(value := owners.get(at), stored.get(type(value), ()))
    decode = unpacker.decoder(batch.roots, Memory(batch.keep), rest=rest)
    return [decode(k) for k in range(len(batch))]


def tree_of(depth: int, word: int = 0) -> Tree:
    if not depth:
        return Tree(word)
    return Tree(-1, tree_of(depth - 1, word + 1), tree_of(depth - 1, word - 1))


def chain_of(length: int) -> Tree:
    out = Tree(0)
    for k in range(1, length):
        out = Tree(k, out)
    return out


def errors_of(columns: list[Any], samples: list[Any] | None = None) -> dict[int, Any]:
    schema = infer(samples or columns)
    return dict(Packer(schema, make_layouts(schema.fields)).pack(columns).errors)


# --- infer ----------------------------------------------------------------------------------------------------------


def test_annotations_decide() -> None:
    schema = infer([[Tree(1)]])
    assert schema.params == (StructT(Tree),)
    assert schema.fields == {
        Tree: {"word": INT, "left": union(NONE, StructT(Tree)), "right": union(NONE, StructT(Tree))}
    }


def everything(k: int = 0) -> Everything:
    return Everything(
        i=k,
        f=0.5 + k,
        b=bool(k % 2),
        colour=list(Colour)[k % 2],
        level=None if k % 3 else Level.HIGH,
        maybe=k if k % 2 else None,
        number=k if k % 2 else float(k),
        x=np.arange(k, dtype=np.float64),
        y=None if k % 2 else np.ones((2, k), np.float32),
        names=list(range(k)),
        pairs=[(j, tree_of(j)) for j in range(k % 4)],
        pair=(1.5, True),
        many=tuple(range(k)),
        table={"a": k, "b": 2},
        entry={"size": k, "name": "n"},
        kind="mul" if k % 2 else "add",
        expr=Num(1.0) if k % 2 else Add(Num(2.0), Add(Num(3.0), Num(4.0))),
        anything=np.int16(k),
        text="not stored",
    )


def test_every_kind_of_annotation() -> None:
    types = infer([[everything(k) for k in range(6)]]).fields[Everything]
    shown = {name: type_text(t) for name, t in types.items()}
    assert shown == {
        "i": "int",
        "f": "float",
        "b": "bool",
        "colour": "Colour",
        "level": "Level | None",
        "maybe": "int | None",
        "number": "int | float",
        "x": "float64[?]",
        "y": "float32[?, ?] | None",
        "names": "list[int]",
        "pairs": "list[tuple[int, Tree | None]]",
        "pair": "tuple[float, bool]",
        "many": "tuple[int, ...]",
        "table": "{a: int, b: int}",
        "entry": "{size: int, name: str}",
        "kind": "Literal['add'] | Literal['mul']",
        "expr": "Add | Num",
        "anything": "int16[]",
        "text": "str",
        "children": "list[Everything]",
    }


def test_everything_comes_back() -> None:
    data = [everything(k) for k in range(7)]
    data[3].children = [data[1], data[2], data[1]]
    for value, (got,) in zip(data, roundtrip([data]), strict=True):
        for name in (
            "i",
            "f",
            "b",
            "colour",
            "level",
            "maybe",
            "number",
            "names",
            "pairs",
            "pair",
            "table",
            "kind",
            "expr",
        ):
            assert equal(getattr(got, name), getattr(value, name)), name
        assert got.many == value.many
        assert got.entry["size"] == value.entry["size"]
        assert equal(got.x, value.x) and equal(got.y, value.y) and equal(got.anything, value.anything)
        assert got.text == value.text and len(got.children) == len(value.children)
    children = roundtrip([data])[3][0].children
    assert children[0] is children[2] and children[0].i == 1


def test_observed_types() -> None:
    assert infer([[1, 2]]).params == (INT,)
    assert infer([[1, 2.0, None]]).params == (union(INT, FLOAT, NONE),)
    assert infer([[[1], []]]).params == (ListT(INT),)
    assert infer([[(1, 2.0)]]).params == (TupleT((INT, FLOAT)),)
    assert infer([[(1,), (1, 2)]]).params == (ListT(INT, tupled=True),)
    assert infer([[(1,), [1, 2]]]).params == (union(TupleT((INT,)), ListT(INT)),)
    assert infer([[{"a": 1, "b": True}]]).params == (DictT(("a", "b"), (INT, BOOL)),)
    assert infer([[Colour.RED]]).params == (EnumT(Colour),)
    assert infer([[np.float32(1)]]).params == (TensorT("float32", ()),)
    assert infer([np.zeros((3, 4), np.int8)]).params == (TensorT("int8", (None,)),)
    assert infer([["a", "b"]]).params == (TEXT,)
    assert infer([["a", None]]).params == (union(TEXT, NONE),)
    assert infer([[b"a", b"b"]]).params == (OpaqueT("an object of class bytes"),)
    assert infer([[1, b"b"]]).params == (INT,)  # the bytes are an error of their instance
    assert infer([[{"a": 1}, {"b": 1}]]).params == (MapT(TEXT, INT, given=True),)
    assert infer([[{1: 1, 2: 1.5}]]).params == (MapT(INT, union(INT, FLOAT), given=True),)
    assert infer([[{1.0: 1}]]).params == (OpaqueT("a dict with keys of type float"),)
    assert infer([[{2: 1, True: 2}]]).params == (OpaqueT("a dict with keys bool and int, which may be equal"),)
    assert infer([[{(1, "a"): 2}]]).params == (MapT(TupleT((INT, TEXT)), INT, given=True),)
    assert infer([[{f"w{k}": k for k in range(100)}]]).params == (MapT(TEXT, INT, given=True),)
    assert isinstance(infer([[np.zeros(2, np.float16)]]).params[0], OpaqueT)


def test_parameter_annotations() -> None:
    assert infer([[3]], annotations=[float]).params == (FLOAT,)
    assert infer([[Tree(), 3]], annotations=["Tree"]).params == (union(INT, StructT(Tree)),)  # not resolved: observed
    assert infer([[Tree(), 3]], annotations=[Tree]).params == (StructT(Tree),)


def test_local_classes_resolve() -> None:
    @dataclass
    class Leaf:
        n: int

    @dataclass
    class Node:
        left: Leaf | Node
        right: Leaf | Node | None

    fields = infer([[Node(Leaf(1), None)]]).fields
    assert fields[Node]["left"] == union(StructT(Leaf), StructT(Node))
    assert fields[Node]["right"] == union(StructT(Leaf), StructT(Node), NONE)


def test_reads_limit_what_is_followed() -> None:
    @dataclass
    class Doc:
        n: int
        meta: Any

    loop: list[Any] = []
    loop.append(loop)
    docs = [Doc(1, loop), Doc(2, {"a": object()})]
    schema = infer([docs], {Doc: frozenset({"n"})})
    assert schema.fields == {Doc: {"n": INT}}
    assert type_text(infer([docs]).fields[Doc]["meta"]) == "dict_a | nested_list"
    assert [d.n for (d,) in roundtrip([docs], {Doc: frozenset({"n"})})] == [1, 2]


def test_a_list_inside_itself_has_a_type() -> None:
    loop: list[Any] = []
    loop.append(loop)
    (found,) = pack([loop])
    assert found[0] is found and len(found) == 1


def test_subclasses_are_their_own_class() -> None:
    schema = infer([[Add(Num(1.0), Add(Num(2.0), Num(3.0)))]])
    assert schema.fields[Add]["a"] == StructT(Num)
    assert schema.fields[Add]["b"] == union(StructT(Add), StructT(Num))
    assert Expr not in schema.fields


def test_schema_does_not_depend_on_which_alternatives_occur() -> None:
    @dataclass
    class Choice:
        of: Num | Add | Tree

    schema = infer([[Choice(Num(1.0))]])
    assert schema.fields[Choice]["of"] == union(StructT(Num), StructT(Add), StructT(Tree))
    assert schema == infer([[Choice(Tree(1))]]) and hash(schema) == hash(infer([[Choice(Tree(1))]]))

    @dataclass
    class WithArray:
        of: Num | Vec

    schema = infer([[WithArray(Num(1.0))]])  # nothing says what the array of a Vec would be
    assert schema.fields[WithArray]["of"] == StructT(Num)
    assert infer([[WithArray(Vec(np.zeros(3)))]]).fields[WithArray]["of"] == union(StructT(Num), StructT(Vec))


def test_merge_and_restrict() -> None:
    both = merge(infer([[1]]), infer([[Tree()]]))
    assert both.params == (union(INT, StructT(Tree)),) and set(both.fields) == {Tree}
    assert restrict(both, {Tree: frozenset({"word"})}).fields == {Tree: {"word": INT}}
    assert schema_text(both).startswith("parameter 0: Tree | int\n")


# --- packing --------------------------------------------------------------------------------------------------------


def test_words_of_a_tree() -> None:
    schema = infer([[Tree()]])
    layouts = make_layouts(schema.fields)
    batch = Packer(schema, layouts).pack([[Tree(7, Tree(8), None)]])
    memory = Memory(batch.keep)
    root = memory.words(int(batch.roots[0, 0]), 4)
    assert root[:2] == [0, 7] and root[3] == 0
    assert memory.words(root[2], 4) == [0, 8, 0, 0]
    assert [(f.name, f.offset, f.width) for f in layouts[0].fields] == [("word", 1, 1), ("left", 2, 1), ("right", 3, 1)]


def test_value_records() -> None:
    column = np.arange(12, dtype=np.float32).reshape(3, 4)
    for data in (column, list(column)):
        schema = infer([data])
        batch = Packer(schema, ()).pack([data])
        memory = Memory(batch.keep)
        for k in range(3):
            address, state, extents = memory.words(int(batch.roots[k, 0]), 3)
            assert state == -1 and memory.words(extents, 1) == [4]
            assert memory.array(address, np.dtype(np.float32), (4,)).tolist() == column[k].tolist()
        assert all(buffer.ctypes.data % 64 == 0 for buffer in batch.keep)


def test_packing_is_a_snapshot() -> None:
    x = np.ones(3)
    packed = pack([x])
    x[:] = 2
    assert packed[0].tolist() == [1, 1, 1]


def test_arrays_of_every_layout() -> None:
    base = np.arange(24, dtype=np.float64).reshape(4, 6)
    data = [base.T, base[::2, ::-1], np.zeros((0, 3)), np.broadcast_to(np.float64(3), (2, 2))]
    assert all(equal(got, np.ascontiguousarray(x)) for (got,), x in zip(roundtrip([data]), data, strict=True))
    zeros = [np.zeros(()), np.float64(2)]
    assert [float(got) for (got,) in roundtrip([zeros])] == [0.0, 2.0]


def test_the_same_array_is_stored_once() -> None:
    x, y = np.zeros(1000), np.ones(3)
    schema = infer([[x]])
    batch = Packer(schema, ()).pack([[x, y, x, x]])
    assert sum(a.size for a in batch.keep if a.dtype == np.float64) == 1003
    assert batch.roots[0, 0] == batch.roots[2, 0] != batch.roots[1, 0]
    assert [a.size for (a,) in roundtrip([[x, y, x, y, x]])] == [1000, 3, 1000, 3, 1000]


def test_shared_objects_are_stored_once() -> None:
    shared = tree_of(3)
    data = [Tree(1, shared, shared), shared, Tree(2, None, shared)]
    schema = infer([data])
    batch = Packer(schema, make_layouts(schema.fields)).pack([data])
    assert batch.words.size == 4 * (15 + 2)
    (first,), (second,), (third,) = roundtrip([data])
    assert first == data[0] and second == data[1] and third == data[2] and first.left is first.right


def test_sharing_does_not_explode() -> None:
    tree = Tree(0)
    for _ in range(200):
        tree = Tree(1, tree, tree)
    schema = infer([[tree]])
    batch = Packer(schema, make_layouts(schema.fields)).pack([[tree]])
    assert batch.words.size == 4 * 201


def test_cycles_end() -> None:
    a, b = Graph(1), Graph(2)
    a.next, b.other = [b, a], a
    b.next = a.next
    ((got, _),) = roundtrip([[a], [b]])
    assert got.label == 1 and got.next[0].other is got and got.next[0].next is got.next


@pytest.mark.parametrize("length", [50_000])
def test_deep_chains(length: int) -> None:
    tree = chain_of(length)
    ((got,),) = roundtrip([[tree]])
    count = 0
    node: Tree | None = got
    while node is not None:
        count, node = count + 1, node.left
    assert count == length and got.word == length - 1
    broken = Tree(1, tree)
    last = tree
    while last.left is not None:
        last = last.left
    last.word = "end"  # type: ignore[assignment]
    error = errors_of([[broken]], [[Tree()]])[0]
    assert error.path == "[0]" + ".left" * length + ".word"
    while tree.left is not None:  # deleting a long chain at once would need as deep a recursion
        tree.left, tree = None, tree.left


def test_deep_named_tuples() -> None:
    chain = None
    for k in range(50_000):
        chain = Cons(k, chain)
    ((got,),) = roundtrip([[chain]])
    heads = []
    while got is not None:
        heads.append(got.head)
        got = got.tail
    assert heads == list(range(49_999, -1, -1))


def test_several_parameters_share_objects() -> None:
    tree = tree_of(2)
    schema = infer([[tree], [tree], [3]])
    batch = Packer(schema, make_layouts(schema.fields)).pack([[tree], [tree], [3]])
    assert batch.roots[0, 0] == batch.roots[0, 1] and batch.roots[0, 2] == 3 and batch.words.size == 28


def test_columns_of_different_length() -> None:
    packer = Packer(infer([[1], [2]]), ())
    with pytest.raises(ValueError, match="argument 2 is shorter than argument 1"):
        packer.pack([[1, 2], [1]])
    with pytest.raises(ValueError, match="argument 2 is longer than argument 1"):
        packer.pack([[1, 2], np.zeros(3, np.int64)])


def test_empty_batch() -> None:
    schema = infer([[Tree()], np.zeros((1, 3))])
    batch = Packer(schema, make_layouts(schema.fields)).pack([[], np.zeros((0, 3))])
    assert batch.roots.shape == (0, 2) and not batch.errors


def test_objects_are_found_by_address() -> None:
    trees = [tree_of(1), tree_of(0)]
    schema = infer([trees])
    layouts = make_layouts(schema.fields)
    batch = Packer(schema, layouts).pack([trees])
    decode = Unpacker(schema.params[0], layouts).decoder(batch.roots, Memory(batch.keep), batch.objects)
    assert [decode(k) is trees[k] for k in range(2)] == [True, True]
    lists = [[1, 2], (3,)]
    batch = Packer(infer([lists], annotations=[list[int]]), ()).pack([lists])
    decode = Unpacker(batch.schema.params[0], ()).decoder(batch.roots, Memory(batch.keep), batch.objects)
    assert [decode(k) is lists[k] for k in range(2)] == [True, True]


def test_packer_text_has_no_data() -> None:
    evil = '"""); raise SystemExit  #'
    packer = Packer(infer([[{evil: 1}]]), ())
    assert evil not in packer.text
    assert roundtrip([[{evil: 1}]]) == [({evil: 1},)]
    tree = Packer(infer([[Tree()]]), make_layouts(infer([[Tree()]]).fields))
    assert "tree_word.add([o.word for o in new])" in tree.text


def test_names_do_not_clash() -> None:
    @dataclass
    class HeapBuilder:
        pack: int
        new: list[int]
        p0: Any
        list0: list[float]
        now: int | None

    @dataclass
    class Class:
        room: HeapBuilder
        class_: int

    value = Class(HeapBuilder(1, [2], 3.0, [4.0], None), 5)
    assert roundtrip([[value], [[1]]]) == [(value, [1])]


def test_literals_and_constants() -> None:
    @dataclass
    class Op:
        kind: Literal["only"]
        nothing: None
        code: Literal[1, 2]

    assert infer([[Op("only", None, 1)]]).fields[Op]["kind"] == StrT("only")
    assert roundtrip([[Op("only", None, 1)]]) == [(Op("only", None, 1),)]
    error = errors_of([[Op("other", None, 1)]], [[Op("only", None, 1)]])[0]  # type: ignore[arg-type]
    assert error.path == "[0].kind"


# --- what does not conform ------------------------------------------------------------------------------------------


def test_errors_belong_to_instances() -> None:
    good = tree_of(3)
    bad = Tree(-1, Tree(1), Tree(2, Tree("x")))  # type: ignore[arg-type]
    more: list[Any] = [Tree(2**63), Tree(3), "tree", None, Tree(1.0), Tree(True), Tree(np.int8(3))]  # type: ignore[arg-type]
    data = [good, bad, *more]
    schema = infer([data], annotations=[Tree])
    layouts = make_layouts(schema.fields)
    batch = Packer(schema, layouts).pack([data])
    paths = {k: e.path for k, e in batch.errors.items()}
    assert paths == {1: "[1].right.left.word", 2: "[2].word", 4: "[4]", 5: "[5]", 6: "[6].word"}
    assert batch.errors[1].instance == 1 and "must be an int, not a str" in str(batch.errors[1])
    assert "64 bits" in str(batch.errors[2])
    assert not batch.roots[list(paths)].any()
    decode = Unpacker(schema.params[0], layouts).decoder(batch.roots, Memory(batch.keep))
    assert decode(0) == good and decode(3) == Tree(3) and decode(7) == Tree(1) and decode(8) == Tree(3)


@pytest.mark.parametrize(
    ("good", "bad", "path", "words"),
    [
        (Num(1.0), Num("1"), "[1].value", "must be a float"),
        (Num(1.0), Num(np.float32(1)), "[1].value", "float(x)"),
        (Num(1.0), Num(2**2000), "[1].value", "does not fit"),
        (Vec(np.zeros(2)), Vec(np.zeros(2, np.float16)), "[1].x", ".astype(np.float64)"),
        (Vec(np.zeros(2, np.float32)), Vec(np.zeros(2, ">f4")), "[1].x", "newbyteorder"),
        (Vec(np.zeros(2)), Vec(np.zeros(2, np.complex128)), "[1].x", "complex128"),
        (Vec(np.zeros(2)), Vec(np.array(["a"])), "[1].x", "must be a float64[?]"),
        (Vec(np.zeros(2)), Vec(np.array([None])), "[1].x", "object[1]"),
        (Vec(np.zeros(2)), Vec([0.0, 1.0]), "[1].x", "np.asarray"),
        (Vec(np.zeros(2)), Vec(1.0), "[1].x", "np.asarray"),
        (
            everything(),
            (e := everything(3), setattr(e, "pairs", [(1, None), (2, 3)]))[0],
            "[1].pairs[1][1]",
            "Tree | None",
        ),
        (everything(), (e := everything(3), setattr(e, "pair", (1.0, 1)))[0], "[1].pair[1]", "must be a bool"),
        (everything(), (e := everything(3), setattr(e, "table", {"a": 1}))[0], "[1].table", "dict"),
        (everything(), (e := everything(3), setattr(e, "colour", "r"))[0], "[1].colour", "must be a Colour"),
        (everything(), (e := everything(3), setattr(e, "maybe", 1.5))[0], "[1].maybe", "int | None"),
        (everything(), (e := everything(3), setattr(e, "names", {1}))[0], "[1].names", "must be a list[int]"),
        (everything(), (e := everything(3), setattr(e, "kind", "div"))[0], "[1].kind", "Literal"),
        (everything(), (e := everything(3), delattr(e, "f"))[0], "[1].f", "has no value"),
    ],
)
def test_paths_and_rewrites(good: Any, bad: Any, path: str, words: str) -> None:
    errors = errors_of([[good, bad, good]], [[good]])
    assert list(errors) == [1]
    assert errors[1].path == path and words in str(errors[1])


def test_unread_fields_may_hold_anything() -> None:
    tree = Tree(1, "not a tree")  # type: ignore[arg-type]
    schema = infer([[tree]], {Tree: frozenset({"word"})})
    assert not Packer(schema, make_layouts(schema.fields)).pack([[tree]]).errors
    assert list(errors_of([[tree]])) == [0]


def test_errors_in_shared_parts_belong_to_all_who_reach_them() -> None:
    broken = Tree("x")  # type: ignore[arg-type]
    data = [Tree(1, broken), Tree(2), Tree(3, Tree(4), broken), Tree(5, Tree(6, Tree(7), None), None)]
    assert {k: e.path for k, e in errors_of([data]).items()} == {0: "[0].left.word", 2: "[2].right.word"}


# --- snapshots ------------------------------------------------------------------------------------------------------


def test_packed_is_a_sequence() -> None:
    trees = [tree_of(k) for k in range(4)]
    packed = pack(trees)
    assert len(packed) == 4 and list(packed) == trees and packed[-1] == trees[-1] and list(packed[1:3]) == trees[1:3]
    with pytest.raises(IndexError):
        packed[4]
    assert pack(packed) is packed


def test_packed_is_used_in_place() -> None:
    trees = [tree_of(k) for k in range(4)]
    packed = pack(trees)
    schema = infer([packed])
    packer = Packer(schema, make_layouts(schema.fields))
    one, two = packer.pack([packed]), packer.pack([packed[1:]])
    assert one.words is two.words and (one.roots[1:] == two.roots).all()


def test_packed_fits_other_layouts() -> None:
    class Other:
        pass

    trees = [tree_of(k) for k in range(4)]
    packed = pack(trees)
    reads = {Tree: frozenset({"right", "word"})}
    schema = infer([packed, [1, 2, 3, 4]], reads)
    layouts = make_layouts(
        merge(restrict(schema, reads), Schema(params=schema.params, fields={Add: {"a": StructT(Tree)}})).fields
    )
    assert [layout.cls for layout in layouts] == [Add, Tree]
    batch = Packer(schema, layouts).pack([packed, [1, 2, 3, 4]])
    decode = Unpacker(TupleT(schema.params), layouts).decoder(batch.roots, Memory(batch.keep), batch.objects)
    assert all(decode(k)[0] is tree and decode(k)[1] == k + 1 for k, tree in enumerate(trees))
    decode = Unpacker(TupleT(schema.params), layouts).decoder(
        batch.roots, Memory(batch.keep), rest=lambda at: {"left": 0}
    )
    for k, tree in enumerate(trees):
        got, _ = decode(k)
        assert got.left == 0  # not stored
        while tree.right is not None:
            assert got.word == tree.word
            got, tree = got.right, tree.right
        assert got.right is None


def test_packed_of_narrower_types_is_packed_again() -> None:
    packed = pack([1, 2])
    schema = merge(infer([[1]]), infer([[2.5]]))
    batch = Packer(schema, ()).pack([packed])
    decode = Unpacker(schema.params[0], ()).decoder(batch.roots, Memory(batch.keep))
    assert [decode(0), decode(1)] == [1, 2]


def test_packed_with_bad_values_reports_them_where_they_are_read() -> None:
    packed = pack([Tree(1), Tree(2, "x")])  # type: ignore[arg-type]
    reads = {Tree: frozenset({"word"})}
    schema = infer([packed], reads)
    assert not Packer(schema, make_layouts(restrict(schema, reads).fields)).pack([packed]).errors
    schema = infer([packed])
    assert list(Packer(schema, make_layouts(schema.fields)).pack([packed]).errors) == [1]


@pytest.mark.parametrize(
    "data",
    [
        [tree_of(k) for k in range(4)],
        [everything(k) for k in range(4)],
        np.arange(12.0).reshape(4, 3),
        [np.ones(3, np.float32), np.zeros(0, np.float32)],
        [1, None, 2.5],
        [],
    ],
    ids=["trees", "everything", "rows", "arrays", "union", "empty"],
)
def test_packed_can_be_pickled(data: Any) -> None:
    packed = pack(data)
    again = pickle.loads(pickle.dumps(packed))
    assert len(again) == len(data)
    assert all(equal(a, b) for a, b in zip(again, packed, strict=True))


@pytest.mark.parametrize("some", [slice(1, 3), slice(0, 0), slice(None, None, -2), slice(3, None)], ids=str)
@pytest.mark.parametrize("slotted", [False, True], ids=["new", "pickled"])
def test_a_slice_is_pickled_with_what_it_reaches(some: slice, slotted: bool) -> None:
    shared = tree_of(3)
    every: list[Any] = [
        [tree_of(k) for k in range(5)],
        [Tree(k, shared, shared if k % 2 else None) for k in range(5)],
        [everything(k) for k in range(5)],
        list(np.arange(15.0).reshape(5, 3)),
        [np.full(k, k, np.float32) for k in range(5)],
        [{"words": [f"word {j}" for j in range(k)], "counts": {f"key {j}": j for j in range(3 * k)}} for k in range(5)],
        [{k + j: "ab" * j for j in range(k)} for k in range(5)],
        [[], [[]], [[1], []], [[2, 3]], []],
        [None, 2.5, None, 3, 7],
        [Box({k, "no word"}) for k in range(5)],
    ]
    for data in every:
        packed = pack(data)
        if slotted:
            packed = pickle.loads(pickle.dumps(packed))
        part, again = packed[some], pickle.loads(pickle.dumps(packed[some]))
        assert list(map(type, again)) == list(map(type, part))
        assert all(equal(a, b) for a, b in zip(again, part, strict=True))
        assert equal(list(pickle.loads(pickle.dumps(again[:1]))), list(part[:1]))


def test_the_size_of_a_pickled_slice_is_that_of_its_instances() -> None:
    packed = pack([Tree(k, tree_of(3), tree_of(3)) for k in range(200)])
    whole, part = len(pickle.dumps(packed)), len(pickle.dumps(packed[100:105]))
    assert part < whole / 20


def test_models_run_a_slice_that_was_pickled() -> None:
    @model
    def depth(t: Tree) -> int:
        return 1 + max(0 if t.left is None else depth(t.left), 0 if t.right is None else depth(t.right))

    trees = [tree_of(k) for k in range(8)]
    part = pickle.loads(pickle.dumps(pack(trees)[2:7]))
    assert list(depth.batch(part)) == list(depth.batch(trees))[2:7]


def test_pickling_a_deep_chain() -> None:
    packed = pack([chain_of(20_000)])
    again = pickle.loads(pickle.dumps(packed))
    assert again[0].word == 19_999


# --- unpacking ------------------------------------------------------------------------------------------------------


def test_results_are_read_only_views() -> None:
    column = np.arange(6.0).reshape(3, 2)
    schema = infer([column])
    batch = Packer(schema, ()).pack([column])
    decode = Unpacker(schema.params[0], ()).decoder(batch.roots, Memory(batch.keep))
    x = decode(1)
    pool = batch.keep[1]
    assert np.shares_memory(x, pool) and not x.flags.writeable and x.base is not None and x.tolist() == [2, 3]
    with pytest.raises(ValueError, match="read-only"):
        x[0] = 1


def test_arrays_of_rank_zero_are_no_numpy_scalars() -> None:
    for data in itertools.product((np.float32(1.5), np.array(2.5, np.float32)), repeat=3):
        for back, value in zip(roundtrip([list(data)]), data, strict=True):
            assert equal(back[0], value)


def test_addresses_are_checked() -> None:
    memory = Memory([np.zeros(4, np.int64)])
    with pytest.raises(IndexError):
        memory.words(8, 1)
    with pytest.raises(IndexError):
        memory.gather(np.array([8], np.int64), 1)
    with pytest.raises(IndexError):
        memory.array(8, np.dtype(np.float32), (2,))


# --- properties -----------------------------------------------------------------------------------------------------

NUMBERS = st.one_of(
    st.integers(-(2**63), 2**63 - 1), st.booleans(), st.floats(), st.none(), st.sampled_from(list(Colour))
)
ARRAYS = st.builds(
    lambda shape, dtype: np.ones(shape, dtype),
    st.lists(st.integers(0, 3), max_size=3),
    st.sampled_from([np.float32, np.float64, np.int64, np.bool_]),
)
TREES = st.recursive(
    st.builds(Tree, st.integers(-100, 100)), lambda t: st.builds(Tree, st.integers(-9, 9), t, st.one_of(st.none(), t))
)
VALUES = st.recursive(
    st.one_of(NUMBERS, ARRAYS, TREES, st.builds(np.float32, st.integers(0, 9))),
    lambda v: st.one_of(
        st.lists(v, max_size=4),
        st.tuples(v, v),
        st.tuples(v),
        st.fixed_dictionaries({"a": v, "b c": v}),
        st.builds(Cons, st.integers(0, 9), st.none()),
    ),
    max_leaves=12,
)
CHECKED = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))


@CHECKED
@given(st.lists(VALUES, min_size=1, max_size=6))
def test_any_data_comes_back(data: list[Any]) -> None:
    schema = infer([data])
    layouts = make_layouts(schema.fields)
    batch = Packer(schema, layouts).pack([data])
    decode = Unpacker(schema.params[0], layouts).decoder(batch.roots, Memory(batch.keep))
    for k, value in enumerate(data):
        if k not in batch.errors and "OpaqueT" not in repr(schema.params):
            assert equal(decode(k), value)


@CHECKED
@given(st.lists(VALUES, min_size=1, max_size=4), st.lists(VALUES, min_size=1, max_size=4))
def test_data_of_other_types_is_rejected_or_comes_back(sample: list[Any], data: list[Any]) -> None:
    schema = infer([sample])
    layouts = make_layouts(schema.fields)
    batch = Packer(schema, layouts).pack([data])
    decode = Unpacker(schema.params[0], layouts).decoder(batch.roots, Memory(batch.keep))
    for k, value in enumerate(data):
        if k not in batch.errors and "OpaqueT" not in repr(schema.params):
            got = decode(k)
            assert equal(got, value) or got == value  # an int as a float, a bool as an int


@CHECKED
@given(st.lists(TREES, min_size=1, max_size=5), st.data())
def test_errors_are_found_wherever_they_are(trees: list[Tree], data: Any) -> None:
    """One broken node fails its instance, with the right path, and no other."""
    at = data.draw(st.integers(0, len(trees) - 1))
    node, path = trees[at], f"[{at}]"
    while (inner := [n for n in ("left", "right") if getattr(node, n) is not None]) and data.draw(st.booleans()):
        name = data.draw(st.sampled_from(inner))
        node, path = getattr(node, name), f"{path}.{name}"
    name, value = data.draw(st.sampled_from([("word", "x"), ("word", 2**70), ("left", 3), ("right", Num(1.0))]))
    setattr(node, name, value)
    assert {k: e.path for k, e in errors_of([trees], [[Tree()]]).items()} == {at: f"{path}.{name}"}


@model
def same(o: Any) -> Any:
    return o


@dataclass
class Labelled:
    word: int
    label: Any = b"a"
    note: Any = None
    below: Labelled | None = None


def test_a_pack_keeps_fields_that_are_not_stored_as_they_were() -> None:
    data = [Labelled(1), Labelled(2, b"b", {1: [5]}), Labelled(3, np.zeros(2, np.float16), below=Labelled(4, b"c"))]
    was, packed = copy.deepcopy(data), pack(data)
    assert packed._plain is None, "the words hold all but these fields"
    data[0].label = "changed"
    data[1].note[1].append(6)
    data[2].label[:] = 1.0
    data[2].below.label = "changed"  # type: ignore[union-attr]
    del data[1].note
    for column in (packed, packed[:], pickle.loads(pickle.dumps(packed))):
        assert equal(list(column), was) and equal([column[k] for k in range(3)], was)
        column[1].note[1].append(7)  # of a copy
        assert equal(column[1], was[1])
        assert [v is o for v, o in zip(same.batch(packed), data, strict=True)] == [True] * 3


def test_a_pack_of_an_array_is_that_array_where_it_is_shared():
    @model
    def rows(i: np.ndarray, *, e):
        return e[i], e.shape[0], e[i].sum(axis=0)

    e = np.arange(12, dtype=np.float32).reshape(4, 3)
    columns = [np.array([1, 2]), np.array([0])]
    wanted = [rows(i, e=e) for i in columns]
    packed = pack(e)
    for one in (packed, pickle.loads(pickle.dumps(packed))):
        assert all(map(equal, rows.batch(columns, e=one), wanted))
        assert equal(rows(columns[0], e=one), wanted[0])
    e[:] = 0  # is not seen
    assert all(map(equal, rows.batch(columns, e=packed), wanted))
    assert all(map(equal, rows.batch(columns, e=packed[:3]), [(a, 3, s) for a, _, s in wanted]))
    assert rows.batch([], e=packed[:0]) == []
    length = model(lambda x, *, e: x * len(e))
    assert list(length.batch([2, 3], e=pack(np.zeros((0, 3))))) == [0, 0]
    assert list(length.batch([2, 3], e=pack([1.0, 2.0]))) == [4, 6]


def test_a_pack_of_objects_is_read_once_where_it_is_shared():
    @model
    def total(x, *, boxes):
        return sum(b.held * x for b in boxes), boxes[0]

    packed = pack([Box(1.0), Box(2.0)])
    first = total.batch([1.0, 2.0], boxes=packed)
    assert [s for s, _ in first] == [3.0, 6.0]
    assert packed.once() is packed.once()
    first[0][1].held = 100.0  # a result may be changed: the snapshot is not
    assert [s for s, _ in total.batch([1.0, 2.0], boxes=packed)] == [3.0, 6.0]
    assert total(1.0, boxes=packed)[0] == 3.0


def test_indices_select_from_a_pack():
    @model
    def total(t: Box):
        return t.held[0] * 2.0

    xs = [Box([float(k)]) for k in range(5)]
    wanted = [total(x) for x in xs]
    for packed in (pack(xs), pickle.loads(pickle.dumps(pack(xs))), pack([*xs[:4], Box([4.0])])[:5]):
        for index in (
            [3, 0, 0, -1],
            np.array([4, 1]),
            np.array([True, False, True, True, False]),
            [],
            np.array([], int),
        ):
            some = packed[index]
            kept = np.array(wanted)[index if len(index) else slice(0)].tolist()
            assert list(total.batch(some)) == kept and [total(x) for x in some] == kept
            assert list(total.batch(some[1:])) == kept[1:]
    assert total(packed[np.int64(2)]) == 4.0
    rows = pack(np.arange(6.0).reshape(3, 2))[[2, 0]]
    assert rows.value().tolist() == [[4.0, 5.0], [0.0, 1.0]]
    bad = pack([Box([1.0]), Box(["a"]), Box([2.0])])
    assert [b.held for b in bad[[2, 1]]] == [[2.0], ["a"]]
    for wrong in ([5], np.array([True]), np.array([[0, 1], [2, 0]]), [[1], [2]], np.ones((0, 2), int)):
        with pytest.raises(IndexError):
            packed[wrong]
