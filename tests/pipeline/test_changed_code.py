"""Code that changes while the process runs: `batch` runs what the plain call runs, or rejects."""

from __future__ import annotations

import ast
import functools
import importlib
import itertools
import linecache
import math
import sys
import threading
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from acronumba import AcronumbaError, TypeMismatch, model, pack
from acronumba.api import dispatch
from acronumba.api.model import Model
from acronumba.frontend import lower
from acronumba.pipeline import compiled as pipeline

Change = Callable[[pytest.MonkeyPatch], None]
CASES: dict[str, tuple[Model, Sequence[Any], dict[str, Any], Change]] = {}


def case(f: Model, xs: Sequence[Any] = (1.5, -2.0), **shared: Any) -> Callable[[Change], Change]:
    """Note a change that alters what the plain call of a model gives."""

    def note(change: Change) -> Change:
        CASES[change.__name__] = f, list(xs), shared, change
        return change

    return note


def twice(x: float) -> float:
    return x * 2.0


def thrice(x: float) -> float:
    return x * 3.0


# ---- functions


def helper(x: float, k: float = 0.5, *, shift: float = 0.25) -> float:
    return x * k + shift


def other(x: float, k: float = 0.5, *, shift: float = 0.25) -> float:
    return x + k - shift


@model
def by_name(x: float) -> float:
    return helper(x)


@case(by_name)
def code_of_a_helper(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(helper, "__code__", other.__code__)


@case(by_name)
def a_global(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(globals(), "helper", other)


@case(by_name)
def defaults(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(helper, "__defaults__", (4.0,))


@case(by_name)
def keyword_defaults(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(helper, "__kwdefaults__", {"shift": 8.0})


@case(by_name)
def a_keyword_default_in_place(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(helper.__kwdefaults__, "shift", 8.0)


@case(by_name)
def code_of_the_model(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(by_name.__wrapped__, "__code__", thrice.__code__)


@model
def of_magnitude(x: float) -> float:
    return abs(x)


@case(of_magnitude)
def a_builtin_is_hidden(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(globals(), "abs", twice)


@model
def with_default(x: float, *, k: float = 2.0) -> float:
    return x * k


@case(with_default)
def default_of_the_model(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(with_default.__wrapped__, "__kwdefaults__", {"k": 7.0})


@model
def outer_model(x: float) -> float:
    return inner_model(x) + 1.0


@model
def inner_model(x: float) -> float:
    return x * 2.0


@case(outer_model)
def code_of_an_inner_model(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inner_model.__wrapped__, "__code__", thrice.__code__)


@case(outer_model)
def an_inner_model(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(globals(), "inner_model", model(thrice))


@case(outer_model)
def function_of_an_inner_model(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(inner_model, "__wrapped__", thrice)


@case(outer_model)
def function_of_the_model(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(outer_model, "__wrapped__", thrice)


def doubled(fn: Callable[[float], float]) -> Callable[[float], float]:
    @functools.wraps(fn)
    def run(x: float) -> float:
        return fn(x) * 2.0

    return run


def plain_part(x: float) -> float:
    return x + 1.0


decorated = doubled(plain_part)


@model
def by_decorated(x: float) -> float:
    return decorated(x)


@case(by_decorated)
def code_behind_a_decorator(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(plain_part, "__code__", thrice.__code__)


@case(by_decorated)
def cell_of_a_decorator(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decorated.__closure__[0], "cell_contents", thrice)  # type: ignore[attr-defined, index]


lambda_ = lambda x: x * 2.0


@model
def by_lambda(x: float) -> float:
    return lambda_(x)


@case(by_lambda)
def code_of_a_lambda(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lambda_, "__code__", (lambda x: x * 5.0).__code__)


MODULE = types.ModuleType("a_module")
MODULE.helper = types.FunctionType(twice.__code__, {})  # type: ignore[attr-defined]


@model
def by_module(x: float) -> float:
    return MODULE.helper(x)  # type: ignore[attr-defined, no-any-return]


@case(by_module)
def function_of_a_module(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MODULE, "helper", thrice)


@case(by_module)
def code_of_a_function_of_a_module(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(MODULE.helper, "__code__", thrice.__code__)


@model
def by_numpy(x: np.ndarray) -> np.ndarray:
    return np.tanh(x)


@case(by_numpy, [np.ones(2), np.zeros(2) + 3])
def function_of_numpy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(np, "tanh", np.cos)


@model
def by_math(x: float) -> float:
    return math.sqrt(x * x)


@case(by_math)
def function_of_math(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(math, "sqrt", math.cos)


# ---- functions among the shared values


@dataclass
class Layer:
    act: Callable[[float], float]


@model
def by_shared(x: float, *, layer: Layer, table: dict[str, Any], act: Any) -> float:
    return layer.act(x) + table["act"](x) + act(x)


def first_act(x: float) -> float:
    return x * 2.0


SHARED: dict[str, Any] = {"layer": Layer(first_act), "table": {"act": first_act}, "act": first_act}


@case(by_shared, **SHARED)
def code_of_a_shared_function(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(first_act, "__code__", thrice.__code__)


@case(by_shared, **SHARED)
def a_function_in_a_field(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SHARED["layer"], "act", thrice)


@case(by_shared, **SHARED)
def a_function_in_a_dict(patch: pytest.MonkeyPatch) -> None:
    patch.setitem(SHARED["table"], "act", thrice)


# ---- classes


@dataclass
class Base:
    x: float

    rate = 2.0
    whole = True

    def apply(self, k: float) -> float:
        return self.x * k

    @property
    def size(self) -> float:
        return self.x * 2.0

    @staticmethod
    def fixed(k: float) -> float:
        return k + 1.0

    @classmethod
    def of_class(cls, k: float) -> float:
        return k * cls.rate

    def __call__(self, k: float) -> float:
        return self.x + k

    def __add__(self, k: float) -> float:
        return self.x - k

    def __len__(self) -> int:
        return 3


@dataclass
class Derived(Base):
    y: float = 0.0


def new_apply(self: Any, k: float) -> float:
    return self.x + 10.0 * k  # type: ignore[no-any-return]


def new_size(self: Any) -> float:
    return self.x - 7.0  # type: ignore[no-any-return]


def new_length(self: Any) -> int:
    return 5


@model
def by_methods(t: Derived) -> float:
    out = t.apply(3.0) + t.size + t.fixed(2.0) + t.of_class(4.0) + t(5.0) + (t + 6.0) + float(len(t))
    if t.whole:
        out = out * t.rate
    return out


OBJECTS = [Derived(1.5, 2.0), Derived(-2.0, 1.0)]


def patched(name: str, owner: type, attribute: str, value: Any) -> None:
    """Note the change of an attribute of a class."""

    def change(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(owner, attribute, value, raising=False)

    change.__name__ = name
    case(by_methods, OBJECTS)(change)


def coded(name: str, find: Callable[[], Any], new: Any) -> None:
    """Note the change of a function's code."""

    def change(patch: pytest.MonkeyPatch) -> None:
        patch.setattr(find(), "__code__", new.__code__)

    change.__name__ = name
    case(by_methods, OBJECTS)(change)


patched("a_method", Base, "apply", new_apply)
patched("a_method_of_the_derived_class", Derived, "apply", new_apply)
patched("a_property", Base, "size", property(new_size))
patched("a_static_method", Base, "fixed", staticmethod(twice))
patched("a_class_method", Base, "of_class", classmethod(lambda cls, k: k * 100.0))
patched("a_call", Base, "__call__", new_apply)
patched("an_operator", Base, "__add__", new_apply)
patched("a_length", Base, "__len__", new_length)
patched("a_class_variable", Base, "rate", 11.0)
patched("a_class_variable_of_the_derived_class", Derived, "rate", 11.0)
patched("a_constant_of_the_class", Base, "whole", False)
coded("code_of_a_method", lambda: Base.apply, new_apply)
coded("code_of_a_property", lambda: Base.size.fget, new_size)  # type: ignore[attr-defined]
coded("code_of_a_static_method", lambda: Base.fixed, twice)
coded("code_of_a_class_method", lambda: Base.of_class.__func__, lambda cls, k: k * 100.0)  # type: ignore[attr-defined]
coded("code_of_a_call", lambda: Base.__call__, new_apply)


class Left:
    def side(self) -> float:
        return 1.0


class Right:
    def side(self) -> float:
        return 2.0


@dataclass
class Sided(Left):
    x: float


@model
def by_base(t: Sided) -> float:
    return t.x + t.side()


def test_another_base_class() -> None:
    t = Sided(1.0)
    assert by_base.batch([t]) == [by_base(t)] == [2.0]
    Sided.__bases__ = (Right,)
    assert by_base.batch([t]) == [by_base(t)] == [3.0]
    Sided.__bases__ = (Left,)
    assert by_base.batch([t]) == [by_base(t)] == [2.0]


@dataclass
class Made:
    x: float
    k: float = 3.0


@dataclass
class MadeAnew:
    k: float
    x: float = 5.0


class Pair(NamedTuple):
    a: float
    b: float = 2.0


@model
def constructs(x: float) -> float:
    made = Made(x)
    return made.x * made.k


@case(constructs)
def fields_of_a_class(patch: pytest.MonkeyPatch) -> None:
    """What `%autoreload 2` does with a class: the old one gets the attributes of the new one."""
    for name, value in vars(MadeAnew).items():
        if name not in ("__dict__", "__weakref__", "__doc__"):
            patch.setattr(Made, name, value, raising=False)
    patch.delattr(Made, "k")


@model
def makes_pairs(x: float) -> float:
    pair = Pair(x)
    return pair.a * pair.b


@case(makes_pairs)
def default_of_a_named_tuple(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Pair, "_field_defaults", {"b": 5.0})
    patch.setattr(Pair.__new__, "__defaults__", (5.0,))


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_the_new_code_is_run_and_then_the_old_one_again(name: str, packed: bool, patch: pytest.MonkeyPatch) -> None:
    f, xs, shared, change = CASES[name]
    columns = pack(xs) if packed else xs
    before = [f(x, **shared) for x in xs]
    assert np.array_equal(f.batch(columns, **shared), before)
    change(patch)
    after = [f(x, **shared) for x in xs]
    assert not np.array_equal(before, after)
    assert np.array_equal(list(f.batch(columns, **shared)), after)
    patch.undo()
    assert np.array_equal(f.batch(columns, **shared), before)


def test_a_constructor_of_ones_own_is_run(patch: pytest.MonkeyPatch) -> None:
    def constructor(self: Any, x: float, k: float = 3.0) -> None:
        self.x, self.k = x, 9.0

    assert constructs.batch([1.5]) == [4.5]
    patch.setattr(Made, "__init__", constructor)
    assert constructs(1.5) == 13.5
    assert constructs.batch([1.5]) == [13.5]
    patch.undo()

    def after(self: Any) -> None:
        self.x += 1

    patch.setattr(Made, "__post_init__", after, raising=False)  # which the `__init__` there is does not call
    assert constructs.batch([1.5]) == [constructs(1.5)] == [4.5]


# ---- annotations, and classes and modules that are made again


@dataclass
class Annotated:
    x: int


@model
def half(t: Annotated) -> float:
    return t.x / 2


@model
def product(t: Annotated) -> Any:
    return t.x * t.x


@pytest.mark.parametrize("packed", [False, True])
def test_an_annotation_that_changes(packed: bool, patch: pytest.MonkeyPatch) -> None:
    xs = [Annotated(3), Annotated(4)]
    columns = pack(xs) if packed else xs
    assert product.batch(columns) == [9, 16]
    patch.setitem(Annotated.__annotations__, "x", "float")
    patch.setattr(Annotated.__dataclass_fields__["x"], "type", "float")
    wide = [Annotated(0.5), *xs]  # type: ignore[arg-type]
    assert product.batch(pack(wide) if packed else wide) == [0.25, 9.0, 16.0]
    assert list(product.batch(columns)) == [product(x) for x in xs]
    patch.undo()
    assert product.batch(columns) == [9, 16] and [type(v) for v in product.batch(columns)] == [int, int]


CELL = """
from dataclasses import dataclass
from acronumba import model

@dataclass
class Leaf:
    x: {type}

@dataclass
class Node:
    leaf: "Leaf"

def helper(leaf):
    return leaf.x {op} 2

@model
def f(node):
    return helper(node.leaf) + CONSTANT
"""


@pytest.fixture
def cell(tmp_path: Path) -> Iterator[Callable[..., dict[str, Any]]]:
    """Return what runs a cell of a notebook in one namespace: each run is a file, compiled statement by statement."""
    space: dict[str, Any] = {"__name__": "a_notebook", "CONSTANT": 1.0}
    module = sys.modules["a_notebook"] = types.ModuleType("a_notebook")
    module.__dict__.update(space)
    numbers = itertools.count()

    def run(text: str) -> dict[str, Any]:
        name = f"<cell {next(numbers)}>"
        linecache.cache[name] = len(text), None, text.splitlines(True), name
        for statement in ast.parse(text, name).body:
            exec(compile(ast.Module([statement], []), name, "exec"), module.__dict__)
        return module.__dict__

    yield run
    del sys.modules["a_notebook"]


def test_a_cell_that_imports_what_its_models_call(cell: Callable[..., dict[str, Any]]) -> None:
    """Python compiles `np.tanh(x)` to other code where it sees the import."""
    m = cell(
        "import numpy as np\nfrom acronumba import model, nn\n\ndef twice(x):\n    return nn.relu(x) * 2\n\n"
        "@model\ndef f(x):\n    return np.tanh(twice(x))\n\ng = model(lambda x: np.tanh(x) + nn.sigmoid(x))\n"
    )
    xs = np.ones((2, 3), np.float32)
    for f in (m["f"], m["g"]):
        assert np.allclose(f.batch(xs).stack(), [f(x) for x in xs])
    assert "np.tanh(twice(x))" in str(m["f"].explain(xs))


def test_a_cell_that_is_run_again(cell: Callable[..., dict[str, Any]]) -> None:
    m = cell(CELL.format(type="float", op="*"))
    f, x = m["f"], m["Node"](m["Leaf"](3.0))
    assert f.batch([x]) == [f(x)] == [7.0]
    cell("def helper(leaf):\n    return leaf.x - 2\n")
    assert f.batch([x]) == [f(x)] == [2.0]
    cell("@dataclass\nclass Leaf:\n    x: int\n")  # the class that an annotation names
    y = m["Node"](m["Leaf"](5))
    assert f.batch([y]) == [f(y)] == [4.0]
    cell(CELL.format(type="float", op="+"))
    g, z = m["f"], m["Node"](m["Leaf"](5.0))
    assert g.batch([z]) == [g(z)] == [8.0]
    w = type(x)(m["Leaf"](6.0))
    assert f.batch([w]) == [f(w)] == [9.0]  # the old model calls the new helper


def test_explain_shows_the_new_source(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    patch.syspath_prepend(tmp_path)
    patch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "explained_model.py"
    text = "from acronumba import model\n@model\ndef f(x):\n    return x * 2.0\n"
    for new in (text, text.replace("@model", "\n\n# a comment\n@model").replace("x * 2.0", "x * 2.0 + 5.0")):
        file.write_text(new)
        importlib.invalidate_caches()
        module = sys.modules.pop("explained_model", None)
        module = importlib.import_module("explained_model")
        linecache.checkcache(str(file))
        assert new[new.rindex("return") :].strip() in str(module.f.explain([1.0]))


def test_a_module_that_is_reloaded(tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
    patch.syspath_prepend(tmp_path)
    file = tmp_path / "reloaded_helpers.py"
    file.write_text("def helper(x):\n    return x * 2\n")
    import reloaded_helpers  # type: ignore[import-not-found]

    old = reloaded_helpers.helper

    @model
    def by_module(x: float) -> Any:
        return reloaded_helpers.helper(x)

    @model
    def by_closure(x: float) -> Any:
        return old(x)

    assert by_module.batch([3.0]) == by_closure.batch([3.0]) == [6.0]
    file.write_text("# another line\ndef helper(x):\n    return x * 5\n")
    importlib.reload(reloaded_helpers)
    assert by_module.batch([3.0]) == [by_module(3.0)] == [15.0]
    assert by_closure.batch([3.0]) == [by_closure(3.0)] == [6.0]
    old.__code__ = reloaded_helpers.helper.__code__  # `%autoreload 2` does this
    assert by_closure.batch([3.0]) == [by_closure(3.0)] == [15.0]


def test_equal_functions_of_different_modules_are_different_functions(cell: Callable[..., dict[str, Any]]) -> None:
    text = "def step(x):\n    return inner(x)\n"
    one: dict[str, Any] = {"inner": twice}
    two: dict[str, Any] = {"inner": one.get("step")}
    for name, space in (("<one>", one), ("<two>", two)):
        linecache.cache[name] = len(text), None, text.splitlines(True), name
        exec(compile(text, name, "exec"), space)
    two["inner"] = one["step"]
    f = model(two["step"])
    assert f.batch([3.0]) == [f(3.0)] == [6.0]


# ---- mini-batches that run in groups


def kept_helper(row):
    s = row[0] * 2
    return s


def other_helper(row):
    return len(row)


def first_of(row):
    return kept_helper(row)


TYPES = ["f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2"]


@pytest.mark.parametrize("count", [1, 3])
def test_a_rejection_is_of_the_code_that_was_rejected(patch: pytest.MonkeyPatch, count: int) -> None:
    f, one = model(first_of), [[np.ones(2, t) for t in TYPES]] * count
    assert [r.dtype for r in f.batch([[np.ones(2, t)] for t in TYPES])] == TYPES
    with pytest.raises(TypeMismatch):
        f.batch(one)
    patch.setattr(kept_helper, "__code__", other_helper.__code__)
    assert f.batch(one) == [8] * count
    assert f.batch([[np.ones(2, t)] for t in TYPES]) == [1] * 8
    patch.undo()
    assert [r.dtype for r in f.batch([[np.ones(2, t)] for t in TYPES])] == TYPES
    with pytest.raises(TypeMismatch):
        f.batch(one)


def test_groups_run_together_again_when_the_code_allows_it(patch: pytest.MonkeyPatch) -> None:
    f, column = model(first_of), [[np.ones(2, t)] for t in TYPES]
    f.batch(column)
    patch.setattr(kept_helper, "__code__", other_helper.__code__)

    def never(*_: Any) -> Any:
        raise AssertionError

    patch.setattr(dispatch, "groups", never)
    assert f.batch(column) == [1] * 8


@pytest.mark.parametrize("pause", [0.0, 0.0005])
def test_code_changes_while_threads_compile_it(patch: pytest.MonkeyPatch, pause: float) -> None:
    f, column = model(first_of), [[np.ones(2)], [np.ones(2)]]
    codes = itertools.cycle([other_helper.__code__, kept_helper.__code__])
    patch.setattr(kept_helper, "__code__", next(codes))
    done: list[Any] = []
    over = threading.Event()

    def run() -> None:
        for _ in range(10):
            try:
                done.append(f.batch(column)[0])
            except BaseException as error:
                done.append(error)

    def change() -> None:
        while not over.wait(pause):
            kept_helper.__code__ = next(codes)

    changing, threads = threading.Thread(target=change), [threading.Thread(target=run) for _ in range(3)]
    for thread in (changing, *threads):
        thread.start()
    for thread in threads:
        thread.join()
    over.set()
    changing.join()
    assert len(done) == 30
    for r in done:
        given_up = isinstance(r, AcronumbaError) and r.code == "ACR712"
        assert given_up or np.array_equal(r, 1) or np.array_equal(r, [2, 2]), r


def test_code_that_never_stays_the_same_is_rejected(patch: pytest.MonkeyPatch) -> None:
    compiled, code = pipeline.Compiled, other_helper.__code__
    tries: list[Any] = []

    def changing(*args: Any) -> Any:
        made = compiled(*args)
        kept_helper.__code__ = code.replace(co_firstlineno=code.co_firstlineno + len(tries) + 1)
        tries.append(made)
        return made

    patch.setattr(kept_helper, "__code__", kept_helper.__code__)
    patch.setattr(pipeline, "Compiled", changing)
    with pytest.raises(AcronumbaError, match="ACR712") as caught:
        model(first_of).batch([[np.ones(2)]])
    assert caught.value.file == __file__ and len(tries) == dispatch.TRIES


def test_code_that_changes_between_two_looks_is_read_again(patch: pytest.MonkeyPatch) -> None:
    """The front end walks a program several times; all walks must be of one program."""
    looks: list[Any] = []
    sweep = lower._sweep

    def swept(*args: Any) -> Any:
        out = sweep(*args)
        if not looks:
            kept_helper.__code__ = other_helper.__code__
            looks.append(None)
            args[0].facts.changed = True
        return out

    patch.setattr(kept_helper, "__code__", kept_helper.__code__)
    patch.setattr(lower, "_sweep", swept)
    assert model(first_of).batch([[np.ones(2)]]) == [1]


# ---- defaults that are not numbers


WEIGHTS = np.ones(3, np.float32)


def in_a_tuple(x: Any, t: Any = (1.0, WEIGHTS)) -> Any:
    return x * t[0] * t[1]


def an_array(x: Any, *, w: Any = WEIGHTS) -> Any:
    return x * w


def a_dict(x: Any, d: Any = {"a": WEIGHTS}) -> Any:  # noqa: B006
    return x * d["a"]


def a_list(x: Any, c: Any = [2.0, WEIGHTS]) -> Any:  # noqa: B006
    return x * c[0] * c[1]


@dataclass
class Config:
    w: Any


CONFIG = Config(WEIGHTS)


def an_object(x: Any, c: Any = CONFIG) -> Any:
    return x * c.w


def never_read(x: Any, c: Any = object()) -> Any:
    return x


@dataclass
class MadeHere:
    v: Any
    t: tuple[float, Any] = (2.0, CONFIG)


class MadeTuple(NamedTuple):
    v: Any
    t: Any = (2.0, WEIGHTS)


def a_field(x: Any) -> Any:
    return MadeHere(x).t[1].w * MadeHere(x).t[0] * x


def a_field_of_a_tuple(x: Any) -> Any:
    return MadeTuple(x).t[1] * x


def given_anyway(x: Any) -> Any:
    return never_read(x, 1.0) + in_a_tuple(x, (2.0, x))


def of_the_model(x: Any, t: Any = (3.0, WEIGHTS)) -> Any:
    return x * t[0] * t[1]


def shared_of_the_model(x: Any, *, t: Any = (3.0, WEIGHTS)) -> Any:
    return x * t[0] * t[1]


DEFAULTS = (
    in_a_tuple, an_array, a_dict, a_list, an_object, a_field, a_field_of_a_tuple, given_anyway, of_the_model,
    shared_of_the_model,
)  # fmt: skip


@pytest.mark.parametrize("helper", DEFAULTS)
def test_a_default_that_is_not_a_number(helper: Callable[..., Any], patch: pytest.MonkeyPatch) -> None:
    @model
    def f(x: Any) -> Any:
        return helper(x)

    x = np.arange(3, dtype=np.float32)
    for g in (f, model(helper)):
        for weight in (1.0, 3.0):
            WEIGHTS[:] = weight
            np.testing.assert_array_equal(g.batch([x])[0], g(x))
    patch.setattr(CONFIG, "w", np.float32(5.0))
    np.testing.assert_array_equal(f.batch([x])[0], f(x))
