"""Random models: the text of a module, and instances for it.

In: a source of random numbers. Out: a `Case`, whose source can be written to a file and imported, and which makes
instances and shared values for the model in it. What is drawn is well typed: names carry a dtype and a shape, extents
that are known only at run time are letters, and expressions are made for a wanted type. A tensor is *exact* if NumPy and
any correct engine compute the same bits for it (no sums of products, no transcendental functions): only such tensors
meet comparisons and rounding, so that a difference is never one of rounding; half of the models decide by their
values. Some instances fail on purpose.

`habits` draws more of what users write; `fuzz` is the command that runs as many as one has time for.
"""

# ruff: noqa: E501 (the forms of expressions are long lines)

from __future__ import annotations

import random
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from acronumba.api import dispatch
from acronumba.api.dispatch import bind, specialise
from tests.support.modules import import_file

if TYPE_CHECKING:
    from acronumba import AcronumbaError

Extent = int | str  # a letter and a number: known at run time
F32, F64, I64, I32, B = "float32", "float64", "int64", "int32", "bool"


@dataclass(frozen=True)
class Tens:
    """A tensor."""

    dtype: str
    shape: tuple[Extent, ...]


@dataclass(frozen=True)
class Kind:
    """A number: int, float, bool."""

    name: str


@dataclass(frozen=True)
class Obj:
    """An object of a class (or of a union) of the module, None too if it is optional."""

    cls: str
    optional: bool = False


@dataclass(frozen=True)
class Enum:
    """A member of the module's enumeration."""


@dataclass(frozen=True)
class KeyOf:
    """A key of random numbers."""


@dataclass(frozen=True)
class Str:
    """A string."""


@dataclass(frozen=True)
class MapOf:
    """A dict with keys of its own in each instance."""

    key: Type
    item: Type


@dataclass(frozen=True)
class ListOf:
    """A list."""

    item: Type


@dataclass(frozen=True)
class TupleOf:
    """A tuple."""

    items: tuple[Type, ...]


@dataclass(frozen=True)
class DictOf:
    """A dict."""

    items: tuple[tuple[str, Type], ...]


@dataclass(frozen=True)
class Perhaps:
    """A value or None."""

    inner: Type


@dataclass(frozen=True)
class OneOf:
    """An int or a tensor."""

    items: tuple[Type, ...]


Type = Tens | Kind | Obj | Enum | KeyOf | Str | MapOf | ListOf | TupleOf | DictOf | Perhaps | OneOf
INT, FLOAT, BOOL = Kind("int"), Kind("float"), Kind("bool")
WORDS = ["", "a", "b", "ab", "ba", "abc", "\0", "é", "éa", "\ud800", "😀b", "bbbbbbbbbb"]
SMALL = Kind("small")  # an int from 0 to 5: how often a function calls itself
STATE_METHODS = [
    "", "    def moved(self, x):", "        return dataclasses.replace(self, h=self.h + x)", "",
    "    def total(self):", "        return self.k + self.h.shape[0]", "",
    "    @property", "    def twice(self):", "        return 2 * self.k",
]  # fmt: skip
MEMBERS = ("RED", "GREEN", "BLUE")


@dataclass
class Atom:
    """Something that an expression may name."""

    text: str
    type: Type
    exact: bool = False
    free: bool = False  # may be assigned
    full: bool = False  # a list that is not empty


@dataclass
class Function:
    """A function that may be called."""

    name: str
    params: tuple[Type, ...]
    result: Type
    shared: bool = True  # takes `p` as its last argument
    method: bool = False  # of its first argument
    partner: str = ""  # a function that does the same and more


@dataclass
class Class:
    """A class of the module."""

    name: str
    fields: list[tuple[str, Type]]
    union: list[str] = field(default_factory=list)  # names of the classes, if it is a union
    methods: list[str] = field(default_factory=list)  # lines
    named: bool = False  # a NamedTuple


@dataclass
class Case:
    """A model with what its instances are made from."""

    source: str
    params: tuple[Type, ...]  # of the positional parameters
    shared: dict[str, Any]  # nested dicts of arrays and numbers; "Params" objects are made of them
    classes: dict[str, Class]
    seed: int

    def load(self, folder: Path, name: str) -> types.ModuleType:
        """Write the module to a folder and import it."""
        path = folder / f"{name}.py"
        path.write_text(self.source, encoding="utf-8")
        return import_file(path)

    def shared_values(self, module: Any) -> dict[str, Any]:
        """Return the keyword-only arguments."""
        return {"p": module.Params(**self.shared)}

    def instances(self, module: Any, count: int, which: int = 0) -> list[list[Any]]:
        """Return one column per positional parameter."""
        rng = np.random.default_rng([self.seed, which])
        makers = [_Data(rng, module, self.classes, size=k % 5) for k in range(count)]
        return [[maker.make(t) for maker in makers] for t in self.params]


class _Data:
    """Makes the values of one instance."""

    def __init__(self, rng: np.random.Generator, module: Any, classes: dict[str, Class], size: int) -> None:
        self.rng, self.module, self.classes, self.size = rng, module, classes, size
        self.strange = rng.random() < 0.04  # with NaN and infinities
        self.extents: dict[str, int] = {}
        self.nodes = 0
        self.made: dict[Type, list[Any]] = {}  # objects and lists, to be met again

    def make(self, t: Type, depth: int | None = None) -> Any:
        rng, depth = self.rng, self.size if depth is None else depth
        match t:
            case Kind("int"):
                return int(rng.integers(-3, 12))
            case Kind("float"):
                return float(rng.integers(-8, 9)) / 4
            case Kind("bool"):
                return bool(rng.integers(2))
            case Enum():
                return getattr(self.module.Colour, MEMBERS[int(rng.integers(3))])
            case Str():
                return WORDS[int(rng.integers(len(WORDS)))]
            case MapOf(key, item):
                entries = range(int(rng.integers(0, 6)))
                return self.again(t, lambda: {self.make(key, depth): self.make(item, depth) for _ in entries})
            case KeyOf():
                return self.module.random.key(int(rng.integers(100)), int(rng.integers(100)))
            case Tens():
                shape = tuple(n if isinstance(n, int) else self.extent(n) for n in t.shape)
                return self.array(t.dtype, shape)
            case Perhaps(inner):
                return None if rng.random() < 0.3 else self.make(inner, depth)
            case OneOf(items):
                return self.make(items[int(rng.integers(len(items)))], depth)
            case ListOf(item):
                recursive = isinstance(item, Obj)
                count = int(rng.integers(0, 4 if recursive else 6))
                return self.again(
                    t, lambda: [self.make(item, depth - 1) for _ in range(count if depth > 0 or not recursive else 0)]
                )
            case TupleOf(items):
                return tuple(self.make(i, depth) for i in items)
            case DictOf(items):
                return {k: self.make(i, depth) for k, i in items}
            case Obj():
                self.nodes += 1
                if t.optional and (depth <= 0 or rng.random() < 0.2 or self.nodes > 40):
                    return None
                cls = self.classes[t.cls]
                if cls.union:
                    names = cls.union[:1] if depth <= 0 or self.nodes > 40 else cls.union
                    cls = self.classes[names[int(rng.integers(len(names)))]]
                kind = getattr(self.module, cls.name)
                make = lambda: kind(*[self.make(f, depth - 1) for _, f in cls.fields])
                return self.again(Obj(cls.name), make) if depth < self.size else make()
        raise TypeError(t)

    def again(self, t: Type, make: Callable[[], Any]) -> Any:
        """Return a new value, or now and then one that is already somewhere."""
        old = self.made.setdefault(t, [])
        if old and self.rng.random() < 0.08:
            return old[int(self.rng.integers(len(old)))]
        value = make()
        old.append(value)
        return value

    def extent(self, name: str) -> int:
        """Return the extent of that name: of one letter in all parameters, of an object's fields anew each time."""
        if name.startswith("f"):
            return int(self.rng.choice([0, 1, 2, 3, 5]))
        return self.extents.setdefault(name, int(self.rng.choice([0, 1, 2, 3, 4, 7])))

    def array(self, dtype: str, shape: tuple[int, ...]) -> Any:
        rng = self.rng
        if dtype.startswith("float"):
            out = rng.standard_normal(shape).astype(dtype)
            if self.strange and out.size and shape:
                out[rng.random(shape) < 0.2] = rng.choice([np.nan, np.inf, -np.inf])
            return np.asarray(out, dtype) if shape else np.dtype(dtype).type(out)
        out = rng.integers(0, 2 if dtype == "bool" else 6, shape).astype(dtype)
        return out if shape else np.dtype(dtype).type(out)


class Maker:
    """Draws one module.

    Parameters
    ----------
    rng : random.Random
        Where choices come from.
    size : int
        How long the model is, about in statements.
    """

    def __init__(self, rng: random.Random, size: int = 8) -> None:
        self.rng = rng
        self.size = size
        self.sizes = rng.sample([1, 2, 3, 4, 5, 6, 8, 17], 3)
        if rng.random() < 0.15:
            self.sizes[0] = rng.choice([16, 33, 64, 100])
        self.dtype = rng.choice([F32, F32, F32, F64])
        self.mixed = rng.random() < 0.3  # uses other dtypes too
        self.small = rng.choice(["int8", "uint8", "int16", "uint16", "uint32", "uint64"])
        self.lines: list[str] = []
        self.indent = 0
        self.atoms: list[Atom] = []
        self.functions: list[Function] = []
        self.classes: dict[str, Class] = {}
        self.shared: dict[str, tuple[str, Any]] = {}
        self.numpy = np.random.default_rng(rng.getrandbits(32))
        self.counter = 0
        self.loops = 0
        self.extents: dict[str, str] = {}  # text of a run-time extent
        self.result: Type | None = None
        self.reads = rng.random() < 0.5  # decides by values of tensors too

    # ---- choices

    def chance(self, p: float) -> bool:
        return self.rng.random() < p

    def pick(self, options: Sequence[Any]) -> Any:
        return options[self.rng.randrange(len(options))]

    def name(self, letter: str) -> str:
        self.counter += 1
        return f"{letter}{self.counter}"

    # ---- text

    def put(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Indent; names made inside are forgotten after."""
        atoms, functions, extents = list(self.atoms), list(self.functions), dict(self.extents)
        self.indent += 1
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.put("pass")
        self.indent -= 1
        self.atoms, self.functions, self.extents = atoms, functions, extents

    # ---- shared values

    def weight(self, shape: tuple[int, ...], dtype: str) -> str:
        """Return a shared array of this type."""
        have = [
            n
            for n, (_, v) in self.shared.items()
            if isinstance(v, np.ndarray) and v.shape == shape and v.dtype == dtype
        ]
        if have and (self.chance(0.6) or len(self.shared) > 14):
            return f"p.{self.pick(have)}"
        scale = 1 / max(1, shape[-1]) ** 0.5 if shape else 1.0
        if dtype == B:
            value = self.numpy.integers(0, 2, shape).astype(bool)
        elif np.dtype(dtype).kind in "iu":
            value = self.numpy.integers(0 if dtype.startswith("uint") else -4, 6, shape).astype(dtype)
        else:
            value = (self.numpy.standard_normal(shape) * scale).astype(dtype)
        return f"p.{self.share('np.ndarray', np.asarray(value))}"

    def share(self, annotation: str, value: Any) -> str:
        name = f"w{len(self.shared)}"
        self.shared[name] = (annotation, value)
        return name

    def table(self, shape: tuple[int, ...], dtype: str) -> tuple[str, int]:
        """Return a shared array with one more leading axis, and that extent."""
        for n, (_, v) in self.shared.items():
            if isinstance(v, np.ndarray) and v.ndim == len(shape) + 1 and v.shape[1:] == shape and v.dtype == dtype:
                if v.shape[0] > 1 and self.chance(0.8):
                    return f"p.{n}", v.shape[0]
        rows = self.pick([3, 7, 11])
        return self.weight((rows, *shape), dtype), rows

    # ---- atoms

    def find(self, test: Callable[[Atom], bool]) -> Atom | None:
        have = [a for a in self.atoms if test(a)]
        return self.pick(have) if have else None

    def extent_text(self, n: Extent) -> str:
        return str(n) if isinstance(n, int) else self.extents[n]

    def know(self, text: str, shape: Sequence[Extent]) -> None:
        for k, n in enumerate(shape):
            if isinstance(n, str) and n not in self.extents:
                self.extents[n] = f"{text}.shape[{k}]"

    def add(self, text: str, t: Type, exact: bool = False, free: bool = False) -> Atom:
        atom = Atom(text, t, exact, free)
        self.atoms.append(atom)
        if isinstance(t, Tens):
            self.know(text, t.shape)
        return atom

    # ---- host expressions

    def an_int(self, d: int = 2) -> str:
        options: list[Callable[[], str]] = [lambda: str(self.rng.randrange(-2, 9))]
        options += [lambda a=a: a.text for a in self.atoms if a.type == INT] * 2
        options += [lambda a=a: f"len({a.text})" for a in self.atoms if isinstance(a.type, ListOf | Str | MapOf)]
        maps = [a for a in self.atoms if isinstance(a.type, MapOf) and a.type.item == INT]
        options += [lambda a=a: f"{a.text}.get({self.value(a.type.key, 0)}, -1)" for a in maps]
        options += [lambda t=t: t for t in self.extents.values()]
        options += [lambda: f"p.{self.share('int', self.rng.randrange(1, 5))}"] if len(self.shared) < 6 else []
        if d > 0:
            x, y = lambda: self.an_int(d - 1), lambda: self.an_int(d - 1)
            options += [
                lambda: f"({x()} + {y()})", lambda: f"({x()} - {y()})", lambda: f"({x()} * {y()} % 31)",
                lambda: f"({x()} // {self.rng.choice([2, 3, -2])})", lambda: f"({x()} % {self.rng.choice([2, 5, -3])})",
                lambda: f"{self.pick(['min', 'max'])}({x()}, {y()})", lambda: f"abs({x()})",
                lambda: f"({x()} if {self.a_bool(d - 1)} else {y()})", lambda: f"int({self.a_bool(d - 1)})",
                lambda: f"int({self.a_float(d - 1)})", lambda: f"(-{x()})", lambda: f"round({self.a_float(d - 1)})",
                lambda: f"({x()} {self.pick('&|^')} {y()})", lambda: f"({x()} % 5) ** 2",
            ]  # fmt: skip
            if self.reads:
                value = lambda: self.tensor(I64, (), d - 1, exact=True)[0]
                options += [lambda: f"(int({value()}) % 31)", lambda: f"({value()} % 7).item()"] * 2
            if self.chance(0.02):
                return f"({x()} {self.pick(['//', '%'])} {y()})"
        return self.pick(options)()

    def natural(self, most: int = 4) -> str:
        """Return an int from 0 to `most`."""
        return f"({self.an_int(1)}) % {most + 1}"

    def a_float(self, d: int = 2) -> str:
        options: list[Callable[[], str]] = [lambda: repr(self.rng.randrange(-8, 9) / 4)]
        options += [lambda a=a: a.text for a in self.atoms if a.type == FLOAT] * 2
        options += [lambda: f"p.{self.share('float', self.rng.randrange(-8, 9) / 8)}"] if len(self.shared) < 6 else []
        if d > 0:
            x, y = lambda: self.a_float(d - 1), lambda: self.a_float(d - 1)
            options += [
                lambda: f"({x()} + {y()})", lambda: f"({x()} - {y()})", lambda: f"({x()} * {y()})",
                lambda: f"({x()} / (abs({y()}) + 1.0))", lambda: f"float({self.an_int(d - 1)})",
                lambda: f"({self.an_int(d - 1)} / 4)", lambda: f"{self.pick(['min', 'max'])}({x()}, {y()})",
                lambda: f"math.sqrt(abs({x()}))", lambda: f"math.{self.pick(['tanh', 'sin', 'floor', 'atan'])}({x()}) * 1.0",
                lambda: f"({x()} if {self.a_bool(d - 1)} else {y()})", lambda: f"({x()} // 0.75)", lambda: f"({x()} % 1.5)",
            ]  # fmt: skip
            if self.reads:
                options += [lambda: f"float({self.tensor(self.dtype, (), d - 1, exact=True)[0]})"] * 4
            if self.chance(0.02):
                return f"({x()} / {y()})"
        return self.pick(options)()

    def a_bool(self, d: int = 2) -> str:
        options: list[Callable[[], str]] = [
            lambda: f"{self.an_int(1)} {self.pick(['<', '>', '==', '!=', '<='])} {self.an_int(1)}"
        ]
        options += [lambda a=a: a.text for a in self.atoms if a.type == BOOL] * 3
        options += [
            lambda a=a: f"{a.text} {self.pick(['is', 'is not', '=='])} Colour.{self.pick(MEMBERS)}"
            for a in self.atoms
            if isinstance(a.type, Enum)
        ] * 3
        options += [
            lambda a=a: f"{a.text} is {self.pick(['', 'not '])}None"
            for a in self.atoms
            if isinstance(a.type, Obj) and a.type.optional
        ]
        options += [lambda a=a: f"(not {a.text})" for a in self.atoms if isinstance(a.type, ListOf)]
        if d > 0:
            options += [
                lambda: f"({self.a_bool(d - 1)} and {self.a_bool(d - 1)})", lambda: f"({self.a_bool(d - 1)} or {self.a_bool(d - 1)})",
                lambda: f"not ({self.a_bool(d - 1)})", lambda: f"{self.a_float(1)} {self.pick(['<', '>='])} {self.a_float(1)}",
                lambda: f"{self.an_int(0)} <= {self.an_int(1)} < {self.an_int(0)}",
            ]  # fmt: skip
            if any(a.type == Str() for a in self.atoms):
                x, y = lambda: self.string(d - 1), lambda: self.string(d - 1)
                signs = ["==", "!=", "<", ">=", "in", "not in"]
                options += [lambda: f"{x()} {self.pick(signs)} {y()}", lambda: f"{x()}.startswith({y()})",
                            lambda: f"bool({x()})"]  # fmt: skip
            maps = [a for a in self.atoms if isinstance(a.type, MapOf)]
            options += [lambda a=a: f"{self.value(a.type.key, 1)} in {a.text}" for a in maps]
            if self.reads:
                options += [lambda: f"bool({self.tensor(B, (), d - 1, exact=True)[0]})"] * 4
        out = self.pick(options)()
        return out if out.isidentifier() else f"({out})"

    def number(self, t: Kind, d: int = 2) -> str:
        if t == SMALL:
            return self.natural(5)
        return {"int": self.an_int, "float": self.a_float, "bool": self.a_bool}[t.name](d)

    def index(self, n: str, guarded: bool = True) -> str:
        """Return an index below `n`, which is not 0."""
        if guarded and not self.chance(0.01):
            return f"({self.an_int(1)}) % {n}"
        return self.an_int(1)

    # ---- tensor expressions

    def extent(self) -> int:
        return self.pick(self.sizes)

    def shape(self, most: int = 2) -> tuple[int, ...]:
        return tuple(self.extent() for _ in range(self.pick([1, 1, 1, 2, 2, 0, 3][: 4 + most])))

    def some_dtype(self) -> str:
        return self.pick([self.dtype, self.dtype, F32, F64, I64, I32, B, self.small]) if self.mixed else self.dtype

    def tensor(self, dtype: str, shape: tuple[Extent, ...], d: int = 3, exact: bool = False) -> tuple[str, bool]:
        """Return an expression of this type, and whether it is exact (it is, if that is asked for)."""
        want = Tens(dtype, shape)
        if d <= 0 or self.chance(0.15):
            return self.leaf(want, exact)
        options = self.structural(want, d, exact)
        if dtype == B:
            options += self.boolean(want, d, exact)
        elif dtype.startswith("float"):
            options += self.floating(want, d, exact) * 2
        else:
            options += self.integral(want, d, exact) * 2
        return self.pick(options)()

    def leaf(self, want: Tens, exact: bool) -> tuple[str, bool]:
        atom = self.find(lambda a: a.type == want and (a.exact or not exact))
        if atom is not None and self.chance(0.8):
            return atom.text, atom.exact
        if all(isinstance(n, int) for n in want.shape):
            if self.chance(0.7):
                return self.weight(want.shape, want.dtype), True  # type: ignore[arg-type]
            if want.shape and self.chance(0.6):
                table, rows = self.table(want.shape, want.dtype)  # type: ignore[arg-type]
                return f"{table}[{self.index(str(rows))}]", True
        if not want.shape:
            value = (
                self.a_bool(1)
                if want.dtype == B
                else self.a_float(1)
                if want.dtype.startswith("f")
                else self.natural(9)
            )
            return f"np.{want.dtype if want.dtype != B else 'bool_'}({value})", True
        dims = f"({', '.join(map(self.extent_text, want.shape))},)"
        dtype = "bool" if want.dtype == B else f"np.{want.dtype}"
        if len(want.shape) == 1 and want.dtype != B and self.chance(0.4):
            return f"np.arange({self.extent_text(want.shape[0])}).astype({dtype})", True
        kind = self.pick(["zeros", "ones", "full"])
        if kind == "full":
            value = "True" if want.dtype == B else self.a_float(1) if want.dtype.startswith("f") else self.natural(5)
            return f"np.full({dims}, {value}, dtype={dtype})", True
        return f"np.{kind}({dims}, {dtype})", True

    def looser(self, shape: tuple[Extent, ...]) -> tuple[Extent, ...]:
        """Return a shape that broadcasts to `shape`."""
        if not self.chance(0.3) or not shape:
            return shape
        if self.chance(0.5):
            return shape[self.rng.randrange(len(shape) + 1) :]
        k = self.rng.randrange(len(shape))
        return tuple(1 if j == k else n for j, n in enumerate(shape))

    def pair(self, want: Tens, d: int, exact: bool) -> tuple[str, str, bool]:
        """Return two operands whose shapes broadcast to the wanted one and whose dtypes promote to the wanted one."""
        shapes = [want.shape, self.looser(want.shape)]
        dtypes = [want.dtype, want.dtype]
        if self.mixed and self.chance(0.3):
            other = self.pick([F32, F64, I64, I32, B])
            if np.result_type(other, want.dtype) == want.dtype:
                dtypes[1] = other
        if self.chance(0.5):
            k = self.rng.randrange(2)
            shapes = [shapes[k], shapes[1 - k]]
        if dtypes[1] == want.dtype and shapes[0] == want.shape and self.chance(0.2) and want.dtype != B:
            a, x = self.tensor(want.dtype, want.shape, d - 1, exact)
            b = self.a_float(1) if want.dtype.startswith("f") and self.chance(0.6) else self.natural(9)
            b = f"({b})"
            return (a, b, x) if self.chance(0.6) else (b, a, x)
        a, x = self.tensor(dtypes[0], shapes[0], d - 1, exact)
        b, y = self.tensor(dtypes[1], shapes[1], d - 1, exact)
        return a, b, x and y

    def floating(self, want: Tens, d: int, exact: bool) -> list[Callable[[], tuple[str, bool]]]:
        dtype, shape = want.dtype, want.shape
        sub = lambda s=shape, e=exact, t=dtype: self.tensor(t, s, d - 1, e)

        def unary() -> tuple[str, bool]:
            x, e = sub()
            form = self.pick(["(-{})", "abs({})", "np.sqrt(abs({}) + 0.25)", "np.clip({}, -1.0, 1.0)", "nn.relu({})",
                              "({} ** 2 * 0.5)", "np.square({})", "np.maximum({}, 0)", "nn.leaky_relu({})"])  # fmt: skip
            return form.format(x), e

        def rough() -> tuple[str, bool]:
            form = self.pick(["np.floor({})", "np.sign({})", "np.where({0} > 0, {0}, 0)", "({} % 1.5)", "({} // 0.5)"])
            return form.format(sub(e=True)[0]), True

        def smooth() -> tuple[str, bool]:
            form = self.pick(["np.tanh({})", "np.tanh({})", "nn.sigmoid({})", "np.sin({})", "np.cos({})",
                              "np.log(abs({}) + 1.0)", "np.exp(np.minimum({}, 1.0))", "nn.gelu({})", "nn.silu({})",
                              "nn.softplus({})", "nn.elu({})", "nn.log_sigmoid({})",
                              "({} ** 3 * 0.1)", "((abs({}) + 0.5) ** 0.5)", "(2.0 ** np.clip({}, -2.0, 2.0))",
                              "nn.gelu_tanh({})", "np.power(abs({}) + 0.5, -1.5)"])  # fmt: skip
            return form.format(sub()[0]), False

        def binary() -> tuple[str, bool]:
            if self.chance(0.15):  # both of this dtype: an integer and a Python float are float64
                (a, x), (b, y) = sub(), sub(self.looser(shape))
                return f"({a} / (abs({b}) + 1.0))", x and y
            a, b, e = self.pair(want, d, exact)
            form = self.pick(["({} + {})", "({} - {})", "({} * {})", "({} * {})",
                              "np.maximum({}, {})", "np.minimum({}, {})", "np.add({}, {})"])  # fmt: skip
            return form.format(a, b), e

        def product() -> tuple[str, bool]:
            k = self.extent()
            if len(shape) == 0:
                a, b = sub((k,))[0], sub((k,))[0]
                form = self.pick(["np.dot({}, {})", "({} @ {})", "np.einsum('i,i->', {}, {})"])
                return form.format(a, b), False
            if len(shape) == 1:
                n = shape[0]
                if isinstance(n, int) and self.chance(0.7):
                    return f"({self.weight((n, k), dtype)} @ {sub((k,))[0]})", False
                if isinstance(n, int) and self.chance(0.5):
                    return f"({sub((k,))[0]} @ {self.weight((k, n), dtype)})", False
                return f"({sub((n, k))[0]} @ {sub((k,))[0]})", False
            if len(shape) == 2 and self.chance(0.15):
                return f"np.outer({sub(shape[:1])[0]}, {sub(shape[1:])[0]})", False
            runtime = [n for n in self.extents if self.chance(0.3)]
            k = self.pick(runtime) if runtime else k
            a = sub((*shape[:-1], k))[0]
            if isinstance(shape[-1], int) and isinstance(k, int) and self.chance(0.6):
                return f"({a} @ {self.weight((k, shape[-1]), dtype)})", False
            return f"({a} @ {sub((k, shape[-1]))[0]})", False

        def reduction() -> tuple[str, bool]:
            axis = self.rng.randrange(len(shape) + 1)
            n: Extent = self.pick(list(self.extents)) if self.extents and self.chance(0.4) else self.extent()
            kind = self.pick(["sum", "mean", "max", "min", "sum", "var"])
            e = exact and kind in ("max", "min")
            x, e = self.tensor(dtype, (*shape[:axis], n, *shape[axis:]), d - 1, exact)
            form = self.pick(["{x}.{k}(axis={a})", "np.{k}({x}, axis={a})", "{x}.{k}({a})"])
            if kind == "var":
                return f"(np.var({x}, axis={axis}) + 0.5)", False
            return form.format(x=x, k=kind, a=axis), e and kind in ("max", "min")

        def normalised() -> tuple[str, bool]:
            form = self.pick(
                [
                    "nn.softmax({})",
                    "nn.log_softmax({})",
                    "(nn.layer_norm({}) + 0.5)",
                    "nn.rms_norm({})",
                    "nn.softmax({}, axis=0)",
                ]
            )
            return form.format(sub()[0]), False

        def cast() -> tuple[str, bool]:
            other = self.pick([F32, F64, I64, I32, B])
            x, e = self.tensor(other, shape, d - 1, exact)
            return f"{x}.astype(np.{dtype})", e

        options = [unary, binary, binary, rough]
        if not exact:
            options += [smooth, smooth, product, product, product, reduction]
            if shape and shape[-1] != 1:
                options += [normalised]
        if self.mixed:
            options += [cast]
        return options

    def integral(self, want: Tens, d: int, exact: bool) -> list[Callable[[], tuple[str, bool]]]:
        dtype, shape = want.dtype, want.shape

        def binary() -> tuple[str, bool]:
            a, b, _ = self.pair(want, d, True)
            form = self.pick(
                [
                    "({} + {})",
                    "({} - {})",
                    "({} * {})",
                    "np.maximum({}, {})",
                    "(({} + {}) % 7)",
                    "({} & {})",
                    "(({} - {}) // 3)",
                ]
            )
            return form.format(a, b), True

        def cast() -> tuple[str, bool]:
            other = self.pick([I64, I32, B, F32, F64, self.small] if dtype[0] == "i" else [I64, B, self.small])
            x, _ = self.tensor(other, shape, d - 1, True)
            if other.startswith("f"):
                x = f"np.clip(np.where({x} == {x}, {x}, 0), -100, 100)"
            return f"{x}.astype(np.{dtype})", True

        def reduction() -> tuple[str, bool]:
            axis = self.rng.randrange(len(shape) + 1)
            n: Extent = self.pick(list(self.extents)) if self.extents and self.chance(0.4) else self.extent()
            kind = self.pick(["sum", "argmax", "argmin", "max"])
            source = {"sum": self.pick([I64, I32, B]), "max": dtype}.get(kind, self.pick([I64, self.dtype]))
            x, _ = self.tensor(source, (*shape[:axis], n, *shape[axis:]), d - 1, True)
            out = self.pick(["{x}.{k}({a})", "np.{k}({x}, axis={a})"]).format(x=x, k=kind, a=axis)
            return (out if kind == "max" else f"{out}.astype(np.{dtype})"), True

        def scan() -> tuple[str, bool]:
            x, _ = self.tensor(self.pick([I64, I32, B]), shape, d - 1, True)
            out = self.pick(["np.cumsum({x}, axis={a})", "{x}.cumsum({a})", "np.cumprod({x} % 3, axis={a})"])
            return f"{out.format(x=f'({x})', a=self.rng.randrange(len(shape)))}.astype(np.{dtype})", True

        return [binary, cast, reduction, *([scan] if shape else [])]

    def boolean(self, want: Tens, d: int, exact: bool) -> list[Callable[[], tuple[str, bool]]]:
        def compare() -> tuple[str, bool]:
            dtype = self.pick([self.dtype, self.dtype, self.some_dtype()])
            a, b, _ = self.pair(Tens(dtype, want.shape), d, True)
            return f"({a} {self.pick(['<', '<=', '>', '>=', '==', '!='])} {b})", True

        def logic() -> tuple[str, bool]:
            a, b, _ = self.pair(want, d, True)
            return self.pick(["({} & {})", "({} | {})", "({} ^ {})", "np.logical_and({}, {})", "(~({}) & {})"]).format(
                a, b
            ), True

        def reduction() -> tuple[str, bool]:
            axis = self.rng.randrange(len(want.shape) + 1)
            x, _ = self.tensor(B, (*want.shape[:axis], self.extent(), *want.shape[axis:]), d - 1, True)
            return f"np.{self.pick(['any', 'all'])}({x}, axis={axis})", True

        return [compare, compare, logic, reduction]

    def structural(self, want: Tens, d: int, exact: bool) -> list[Callable[[], tuple[str, bool]]]:
        """Return what only moves elements, or chooses."""
        dtype, shape = want.dtype, want.shape
        rank = len(shape)
        sub = lambda s: self.tensor(dtype, s, d - 1, exact)

        def where() -> tuple[str, bool]:
            c, _ = self.tensor(B, self.looser(shape), d - 1, True)
            a, b, e = self.pair(want, d, exact)
            return f"np.where({c}, {a}, {b})", e

        def choice() -> tuple[str, bool]:
            (a, x), (b, y) = sub(shape), sub(shape)
            return f"({a} if {self.a_bool(1)} else {b})", x and y

        def concatenate() -> tuple[str, bool]:
            axis = self.rng.choice([k for k, n in enumerate(shape) if isinstance(n, int) and n > 1])
            n = shape[axis]
            assert isinstance(n, int)
            at = self.rng.randrange(1, n)
            parts = [sub((*shape[:axis], k, *shape[axis + 1 :])) for k in (at, n - at)]
            return f"np.concatenate([{', '.join(t for t, _ in parts)}], axis={axis})", all(e for _, e in parts)

        def stack() -> tuple[str, bool]:
            axis = self.rng.choice([k for k, n in enumerate(shape) if isinstance(n, int) and n <= 5])
            parts = [sub((*shape[:axis], *shape[axis + 1 :])) for _ in range(shape[axis])]  # type: ignore[arg-type]
            return f"np.stack([{', '.join(t for t, _ in parts)}], axis={axis})", all(e for _, e in parts)

        def cut() -> tuple[str, bool]:
            axis = self.rng.choice([k for k, n in enumerate(shape) if isinstance(n, int)])
            n = shape[axis]
            assert isinstance(n, int)
            step = self.pick([1, 1, 2, -1])
            start = self.rng.randrange(3)
            whole = start + n * abs(step)
            x, e = sub((*shape[:axis], whole, *shape[axis + 1 :]))
            if step == -1:
                part = f"{whole - 1 - start}::-1" if start == 0 else f"{n - 1}::-1"
            elif step == 1 and start and self.chance(0.4):
                part = f"-{n}:"
            else:
                part = f"{start or ''}:{start + n * step}{f':{step}' if step != 1 else ''}"
            return f"{x}[{', '.join([':'] * axis + [part])}]", e

        def row() -> tuple[str, bool]:
            axis = self.rng.randrange(rank + 1)
            n = self.extent()
            x, e = sub((*shape[:axis], n, *shape[axis:]))
            index = self.index(str(n)) if self.chance(0.6) else str(self.rng.randrange(-n, n))
            if self.chance(0.2):
                i, _ = self.tensor(I64, (), d - 1, True)
                index = f"({i}) % {n}"
                return f"np.take({x}, {index}, axis={axis})", e
            return f"{x}[{', '.join([':'] * axis + [index])}]", e

        def gather() -> tuple[str, bool]:
            table, rows = self.table(shape[1:], dtype)  # type: ignore[arg-type]
            i, _ = self.tensor(I64, shape[:1], d - 1, True)
            return (f"{table}[{i}]" if self.chance(0.02) else f"{table}[{i} % {rows}]"), True

        def lookup() -> tuple[str, bool]:
            table, rows = self.table(shape, dtype)  # type: ignore[arg-type]
            i, _ = self.tensor(I64, (), d - 1, True)
            return (f"{table}[{i}]" if self.chance(0.05) else f"{table}[({i}) % {rows}]"), True

        def reshape() -> tuple[str, bool]:
            fixed = [n for n in shape if isinstance(n, int)]
            total = int(np.prod(fixed))
            if len(fixed) < rank:
                if isinstance(shape[0], str) and len(fixed) == rank - 1:
                    x, e = sub((shape[0], total))
                    return f"{x}.reshape({', '.join(map(self.extent_text, shape))})", e
                return choice()
            ways = [(total,), *((k, total // k) for k in range(1, total + 1) if total % k == 0)]
            source = self.pick(ways)
            x, e = sub(source)
            dims = [str(n) for n in shape]
            if dims and total and self.chance(0.3):
                dims[self.rng.randrange(rank)] = "-1"
            text = ", ".join(dims)
            return (
                f"np.reshape({x}, ({text}{',' if rank == 1 else ''}))"
                if self.chance(0.4)
                else f"{x}.reshape({text or '()'})"
            ), e

        def transpose() -> tuple[str, bool]:
            if rank == 2:
                x, e = sub((shape[1], shape[0]))
                return (f"{x}.T" if self.chance(0.6) else f"np.transpose({x})"), e
            order = self.rng.sample(range(rank), rank)
            inner: list[Extent] = [0] * rank
            for k, axis in enumerate(order):
                inner[axis] = shape[k]
            x, e = sub(tuple(inner))
            return f"np.transpose({x}, {tuple(order)})", e

        def spread() -> tuple[str, bool]:
            axis = self.rng.randrange(rank)
            if self.chance(0.5) and shape[axis] == 1:
                x, e = sub((*shape[:axis], *shape[axis + 1 :]))
                return self.pick([f"np.expand_dims({x}, {axis})", f"{x}[{', '.join([':'] * axis + ['None'])}]"]), e
            x, e = sub(tuple(1 if k == axis else n for k, n in enumerate(shape)))
            return f"np.broadcast_to({x}, ({', '.join(map(self.extent_text, shape))},))", e

        def squeeze() -> tuple[str, bool]:
            axis = self.rng.randrange(rank + 1)
            x, e = sub((*shape[:axis], 1, *shape[axis:]))
            return f"np.squeeze({x}, axis={axis})", e

        def call() -> tuple[str, bool]:
            return self.call(self.pick(callable_)), False

        def moved() -> tuple[str, bool]:
            """What NumPy has beside: functions that the package writes as models are written."""
            x, e = sub(shape)
            axis = self.rng.randrange(rank)
            n = shape[axis]
            assert isinstance(n, int)
            forms = ["np.roll({x}, {k}, axis={a})", "np.flip({x}, {a})", "np.take({x}, np.arange({n})[::-1], axis={a})"]
            forms += ["np.repeat({x}, 2, axis={a})[{front}::2]", "np.pad({x}, 1)[{inside}]"]
            if exact or dtype[0] in "iu":  # what is not exact may be in another order
                x = x if e else sub(shape)[0]
                order = self.pick(["np.sort({x}, axis={a})", "np.take_along_axis({x}, np.argsort({x}, {a}), {a})"])
                forms += [order, "np.take({x}, np.nonzero(np.arange({n}) >= 0)[0], axis={a})"] if e else []
            front, inside = "".join([":, "] * axis), ", ".join(["1:-1"] * rank)
            form = self.pick(forms)
            return form.format(x=f"({x})", a=axis, k=self.rng.randrange(-3, 4), n=n, front=front, inside=inside), e

        options = [where, choice, row]
        fixed = [n for n in shape if isinstance(n, int)]
        if any(n > 1 for n in fixed):
            options += [concatenate, concatenate]
        if any(n <= 5 for n in fixed):
            options += [stack]
        if fixed and max(fixed) <= 17:
            options += [cut]
        if rank and all(isinstance(n, int) for n in shape[1:]):
            options += [gather]
        if rank and len(fixed) == rank:
            options += [lookup]
        if rank and max(fixed, default=0) <= 17:
            options += [reshape]
        if rank > 1:
            options += [transpose, transpose]
        if rank:
            options += [spread]
        if rank and len(fixed) == rank and max(fixed) <= 17:
            options += [moved]
        if rank < 3:
            options += [squeeze]
        callable_ = [f for f in self.functions if f.result == want]
        if callable_ and not exact and self.loops < 2:
            options += [call] * 2
        # For extents of run time, moving is rarer: most of it needs a source that is not there.
        return options if all(isinstance(n, int) for n in shape) else [where, choice]

    def call(self, f: Function) -> str:
        args = [self.value(t, 1) for t in f.params]
        return f"{f.name}({', '.join([*args, 'p'] if f.shared else args)})"

    def value(self, t: Type, d: int = 2) -> str:
        """Return an expression of any type."""
        match t:
            case Tens():
                return self.tensor(t.dtype, t.shape, d)[0]
            case Kind():
                return self.number(t, d)
            case TupleOf(items):
                return f"({', '.join(self.value(i, d) for i in items)},)"
            case DictOf(items):
                return "{" + ", ".join(f'"{k}": {self.value(i, d)}' for k, i in items) + "}"
            case ListOf(item):
                atom = self.find(lambda a: a.type == t and a.free)
                if atom is not None and self.chance(0.7):
                    return atom.text
                return f"[{', '.join(self.value(item, d) for _ in range(self.rng.randrange(1, 4)))}]"
            case Obj(cls=cls) if cls == "State":
                return f"State({', '.join(self.value(f, d) for _, f in self.classes[cls].fields)})"
            case Perhaps(inner):
                return "None" if self.chance(0.3) else self.value(inner, d)
            case OneOf(items):
                return self.value(self.pick(items), d)
            case Str():
                return self.string(d)
            case MapOf():
                atom = self.find(lambda a: a.type == t)
                return atom.text if atom is not None else f"{{{self.value(t.key, 0)}: {self.value(t.item, 0)}}}"
            case Enum():
                atom = self.find(lambda a: a.type == t)
                return atom.text if atom is not None and self.chance(0.7) else f"Colour.{self.pick(MEMBERS)}"
        raise TypeError(t)

    def string(self, d: int = 2) -> str:
        """Return an expression of a string."""
        known = [a.text for a in self.atoms if a.type == Str()]
        options: list[Callable[[], str]] = [lambda: repr(self.pick(WORDS))]
        options += [lambda: self.pick(known)] * 4 if known else []
        if d > 0 and known:
            x, y = lambda: self.string(d - 1), lambda: self.string(d - 1)
            options += [
                lambda: f"({x()} if {self.a_bool(1)} else {y()})", lambda: f"{self.pick(known)}[{self.an_int(0)}:]",
                lambda: f"({x()} + {y()})", lambda: f"f'{{{self.pick(known)}}}!'",
                lambda: f"''.join(reversed({self.pick(known)}))", lambda: f"{self.pick(known)}[::2]",
                lambda: f"''.join([{x()}, {y()}])", lambda: f"{self.pick(known)}.removeprefix({y()})",
            ]  # fmt: skip
        return self.pick(options)()

    # ---- statements

    def body(self, count: int, depth: int = 2) -> None:
        for _ in range(count):
            self.statement(depth)

    def statement(self, depth: int) -> None:
        options = [self.define] * 4 + [
            self.define_number,
            self.reassign,
            self.reassign,
            self.split,
            self.unpack,
            self.lists,
        ]
        if depth > 0:
            options += [lambda: self.branch(depth)] * 2 + [lambda: self.loop(depth)] * 2 + [self.nested, self.state]
            options += [lambda: self.idiom(depth)] * 3
        if self.loops:
            options += [self.leave] * 2
        if self.result is not None and depth < 2:
            options += [self.early]
        if self.chance(0.03):
            options = [self.assertion] if self.find(lambda a: a.type == INT) else options
        self.pick(options)()

    def define(self) -> None:
        name = self.name("v")
        runtime = [
            a.type for a in self.atoms if isinstance(a.type, Tens) and any(isinstance(n, str) for n in a.type.shape)
        ]
        if runtime and self.chance(0.35):
            if self.chance(0.4):
                self.clash(name) if self.chance(0.3) else self.resize(name)
                return
            t = self.pick(runtime)
            shape = tuple(self.extent() if isinstance(n, int) and self.chance(0.3) else n for n in t.shape)
        else:
            shape = self.shape()
        dtype = self.some_dtype()
        text, exact = self.tensor(dtype, shape)
        self.put(f"{name} = {text}")
        free = self.chance(0.6)
        self.add(name, Tens(dtype, shape), exact and not free, free)

    def clash(self, name: str) -> None:
        """Put two tensors together whose extents may differ."""
        loose = [a for a in self.atoms if isinstance(a.type, Tens) and a.type.dtype == self.dtype and _loose(a.type)]
        pairs = [(a, b) for a in loose for b in loose if a.type != b.type and a.type.shape[1:] == b.type.shape[1:]]  # type: ignore[union-attr]
        if not pairs:
            self.resize(name)
            return
        a, b = self.pick(pairs)
        n, m = f"{a.text}.shape[0]", f"{b.text}.shape[0]"
        form, rest = self.pick([
            ("{a} + {b} if {n} == {m} else {a}", 0), ("np.concatenate([{a}, {b}])", 0), ("{a}[:{m}] * {b}[:{n}]", 0),
            ("{a} * {b}[:1]", 0), ("{a} @ {b}.T" if len(a.type.shape) == 2 else "np.outer({a}, {b})", 2),
            ("{a} + {b}", 0), ("np.stack([{a}, {b}])[0]", 0), ("{a}[min({n}, {m}):]", 0),
            ("np.where({n} > {m}, {a}[:1], {b}[:1])", 0), ("{a} - {b}.sum(axis=0)", 0),
        ])  # fmt: skip
        self.put(f"{name} = {form.format(a=a.text, b=b.text, n=n, m=m)}")
        new = self.name("n")
        self.add(name, Tens(self.dtype, (new, self.name("n")) if rest else (new, *a.type.shape[1:])))

    def resize(self, name: str) -> None:
        """Make a tensor of an extent that only the run knows."""
        a = self.find(lambda a: isinstance(a.type, Tens) and bool(a.type.shape) and isinstance(a.type.shape[0], str))
        if a is None:
            return
        assert isinstance(a.type, Tens)
        shape, dtype = a.type.shape, a.type.dtype
        new = self.name("n")
        first = (new, *shape[1:])
        forms: list[tuple[str, tuple[Extent, ...]]] = [
            (f"{a.text}[{self.natural(3)}:]", first), (f"{a.text}[:{self.an_int(1)}]", first), (f"{a.text}[::2]", first),
            (f"{a.text}[::-1]", shape), (f"np.concatenate([{a.text}, {a.text}])", first),
            (f"{a.text}[1:-1]", first), (f"np.stack([{a.text}, {a.text}])", (2, *shape)),
            (f"{a.text}[None]", (1, *shape)), (f"{a.text}[:, None]" if len(shape) == 1 else f"{a.text}.T", (shape[0], 1) if len(shape) == 1 else tuple(reversed(shape))),
            (f"{a.text}.reshape(-1)", (new,)),
        ]  # fmt: skip
        if all(isinstance(n, int) for n in shape[1:]):
            pad, _ = self.tensor(dtype, (self.pick([1, 2]), *shape[1:]), 1, True)
            forms.append((f"np.concatenate([{a.text}, {pad}], axis=0)", first))
        text, shape = self.pick(forms)
        self.put(f"{name} = {text}")
        self.add(name, Tens(dtype, shape), a.exact)

    def define_number(self) -> None:
        t = self.pick([INT, INT, FLOAT, BOOL])
        text = self.number(t)
        name = self.name({"int": "i", "float": "f", "bool": "b"}[t.name])
        self.put(f"{name} = {text}")
        self.add(name, t, free=self.chance(0.6))

    def reassign(self) -> None:
        a = self.find(lambda a: a.free and isinstance(a.type, Tens | Kind))
        if a is None:
            self.define()
            return
        if a.type == INT:
            self.put(
                self.pick([f"{a.text} += {self.an_int(1)}", f"{a.text} = {self.an_int()} % 101", f"{a.text} -= 1"])
            )
            return
        if isinstance(a.type, Tens) and self.chance(0.5):
            # A state that is updated, as recurrences do.
            if a.type.dtype.startswith("f"):
                self.put(f"{a.text} = np.tanh({a.text} + {self.value(a.type)})")
                return
        self.put(f"{a.text} = {self.value(a.type)}")

    def split(self) -> None:
        n = self.extent()
        count = self.pick([2, 3])
        axis = self.pick([0, 0, 1])
        shape: list[Extent] = [n] if axis == 0 else [self.extent(), n]
        names = [self.name("v") for _ in range(count)]
        whole = list(shape)
        if self.chance(0.6):
            whole[axis] = n * count
            where, sizes = str(count), [n] * count
        else:
            cuts = sorted(self.rng.sample(range(1, n + count), count - 1))
            whole[axis] = n + count
            sizes = [b - a for a, b in zip([0, *cuts], [*cuts, n + count], strict=True)]
            where = repr(cuts)
        dtype = self.some_dtype()
        x, exact = self.tensor(dtype, tuple(whole))
        self.put(f"{', '.join(names)} = np.split({x}, {where}{f', axis={axis}' if axis or self.chance(0.3) else ''})")
        for name, size in zip(names, sizes, strict=True):
            shape[axis] = size
            self.add(name, Tens(dtype, tuple(shape)), exact)

    def unpack(self) -> None:
        """Use a field of an object, an item of a tuple, an element of a list."""
        a = self.find(lambda a: isinstance(a.type, TupleOf | DictOf | Obj | ListOf | Perhaps | OneOf))
        if a is None:
            self.define()
            return
        match a.type:
            case Perhaps(inner):
                name = self.name("u")
                style = self.rng.randrange(3)
                if style == 0 and not _loose(inner):
                    self.put(f"{name} = {a.text} if {a.text} is not None else {self.value(inner, 1)}")
                elif style == 1 and not _loose(inner):
                    self.put(f"if {a.text} is None:")
                    self.put(f"    {name} = {self.value(inner, 1)}")
                    self.put("else:")
                    self.put(f"    {name} = {a.text}")
                else:
                    self.put(f"if {a.text} is not None:")
                    with self.inside():
                        self.add(a.text, _renamed(inner, self.name))
                        self.body(1, 0)
                    return
                self.add(name, inner)
            case OneOf(items):
                t = next(i for i in items if isinstance(i, Tens))
                name = self.name("u")
                self.put(f"if isinstance({a.text}, int):")
                self.put(f"    {name} = {self.value(t, 1)} * {a.text}")
                self.put("else:")
                self.put(f"    {name} = {a.text}")
                self.add(name, t)
            case TupleOf(items):
                names = [self.name("u") for _ in items]
                self.put(f"{', '.join(names)}{',' if len(names) == 1 else ''} = {a.text}")
                for name, t in zip(names, items, strict=True):
                    self.add(name, t)
            case DictOf(items):
                key, t = self.pick(items)
                name = self.name("u")
                self.put(f'{name} = {a.text}["{key}"]')
                self.add(name, t, True)
            case ListOf(item):
                if isinstance(item, Obj):
                    self.define()
                    return
                name = self.name("u")
                if isinstance(item, Tens | Kind) and self.chance(0.85):
                    self.put(
                        f"{name} = {a.text}[{self.pick([self.index(f'len({a.text})'), '-1', '0'])}] if {a.text} else {self.value(item, 1)}"
                    )
                elif isinstance(item, TupleOf):
                    self.define()
                    return
                else:
                    self.put(f"{name} = {a.text}[{self.index(f'max(len({a.text}), 1)')}]")
                self.add(name, item)
            case Obj():
                cls = self.classes[a.type.cls]
                usable = [(n, t) for n, t in cls.fields if isinstance(t, Tens | Kind | Enum) and not _loose(t)]
                if a.type.optional or not usable:
                    self.define()
                    return
                n, t = self.pick(usable)
                name = self.name("u")
                self.put(f"{name} = {a.text}.{n}")
                self.add(name, t, True)

    def lists(self) -> None:
        a = self.find(lambda a: isinstance(a.type, ListOf) and a.free)
        if a is None or self.chance(0.3):
            item: Type = self.pick([INT, FLOAT, Tens(self.dtype, (self.extent(),)), Tens(self.dtype, (self.extent(),))])
            name = self.name("l")
            first = "" if self.chance(0.5) else self.value(item)
            self.put(f"{name} = [{first}]")
            if not first:
                self.put(f"{name}.append({self.value(item, 1)})")
            self.add(name, ListOf(item), free=True)
            return
        assert isinstance(a.type, ListOf)
        item = a.type.item
        name = self.name("v")
        what = self.rng.randrange(9)
        if what < 3:
            self.put(f"{a.text}.append({self.value(item)})")
        elif what == 3:
            self.put(f"if len({a.text}) > 1:")
            self.put(f"    {a.text}.pop({self.pick(['', '0', '-1', '1'])})")
        elif what == 4 and isinstance(item, Tens) and item.shape:
            n = self.name("n")
            self.put(f"{name} = np.stack({a.text})")
            self.add(name, Tens(item.dtype, (n, *item.shape)))
        elif what == 5:
            self.put(
                f"{name} = sum({a.text})"
                if isinstance(item, Kind)
                else f"{name} = sum({a.text}, np.zeros_like({a.text}[0]))"
            )
            self.add(name, item)
        elif what == 6:
            inner = self.name("e")
            with self.inside():
                self.add(inner, item)
                text = self.value(item, 1)
            self.strip_pass()
            self.put(f"{name} = [{text} for {inner} in {a.text}{self.pick(['', '', '[::-1]'])}]")
            self.add(name, ListOf(item), free=True)
        elif what == 7:
            self.put(
                f"{a.text}.{self.pick(['insert(0, ' + self.value(item, 1) + ')', 'extend([' + self.value(item, 1) + '])'])}"
            )
        else:
            self.put(f"{name} = {a.text}{self.pick(['', '[:]', '[::-1]', f' + {a.text}'])}")
            self.add(name, a.type, free=True)

    def strip_pass(self) -> None:
        if self.lines and self.lines[-1].strip() == "pass":
            self.lines.pop()

    def branch(self, depth: int) -> None:
        optional = self.find(lambda a: isinstance(a.type, Obj) and a.type.optional)
        colour = self.find(lambda a: isinstance(a.type, Enum))
        if colour is not None and self.chance(0.2):
            self.put(f"match {colour.text}:")
            self.indent += 1
            for member in self.rng.sample(MEMBERS, self.pick([1, 2])):
                self.put(f"case Colour.{member}:")
                with self.inside():
                    self.body(1, depth - 1)
            self.put("case _:")
            with self.inside():
                self.body(1, depth - 1)
            self.indent -= 1
            return
        if optional is not None and self.chance(0.3):
            self.put(f"if {optional.text} is not None:")
            with self.inside():
                assert isinstance(optional.type, Obj)
                self.add(optional.text, Obj(optional.type.cls))
                self.body(self.pick([1, 2]), depth - 1)
        else:
            self.put(f"if {self.a_bool()}:")
            with self.inside():
                self.body(self.pick([1, 1, 2]), depth - 1)
        if self.chance(0.2):
            self.put(f"elif {self.a_bool()}:")
            with self.inside():
                self.body(1, depth - 1)
        if self.chance(0.5):
            self.put("else:")
            with self.inside():
                self.body(self.pick([1, 1, 2]), depth - 1)

    def loop(self, depth: int) -> None:
        """Write a loop with something that it carries."""
        carried = self.name("v")
        t = Tens(self.dtype, self.shape(1))
        self.put(f"{carried} = {self.value(t)}")
        carry = self.add(carried, t, free=True)
        with self.looping() as after:
            i = self.name("k")
            lists = [a for a in self.atoms if isinstance(a.type, ListOf)]
            rows = [a for a in self.atoms if isinstance(a.type, Tens) and len(a.type.shape) > 1]
            what = self.rng.randrange(8)
            items: list[tuple[str, Type, bool]] = []
            if what < 2 and lists:
                a = self.pick(lists)
                if self.chance(0.25):
                    self.put(f"for {i}, {i}x in enumerate({a.text}{self.pick(['', ', 1'])}):")
                    items = [(i, INT, False), (f"{i}x", a.type.item, not a.free)]
                elif self.chance(0.25):
                    b = self.pick(lists)
                    self.put(f"for {i}, {i}x in zip({a.text}, {b.text}):")
                    items = [(i, a.type.item, not a.free), (f"{i}x", b.type.item, not b.free)]
                else:
                    self.put(f"for {i} in {self.pick(['{}', '{}', 'reversed({})']).format(a.text)}:")
                    items = [(i, a.type.item, not a.free)]
                grown = [a for a in lists if a.free]
                for a in grown:  # a list that grows while it is walked never ends
                    self.atoms = [b for b in self.atoms if b is not a]
                self.atoms = [b for b in self.atoms if not (isinstance(b.type, ListOf) and b.free)]
            elif what < 4 and rows:
                a = self.pick(rows)
                self.put(f"for {i} in {self.pick(['{}', '{}', 'reversed({})', '{}[::-1]']).format(a.text)}:")
                items = [(i, Tens(a.type.dtype, a.type.shape[1:]), a.exact)]
            elif what == 4:
                n = self.name("i")
                self.put(f"{n} = {self.natural(5)}")
                self.put(f"while {n} > 0{self.pick(['', f' and {self.a_bool(1)}'])}:")
                self.indent += 1
                self.put(f"{n} -= {self.pick([1, 1, 2])}")
                self.indent -= 1
                items = [(n, INT, False)]
            else:
                self.put(
                    f"for {i} in range({self.pick([self.natural(4), self.natural(4), '3', '1, ' + self.natural(6), self.natural(6) + ', 0, -1'])}):"
                )
                items = [(i, INT, False)]
            with self.inside():
                for name, item, exact in items:
                    self.add(name, item, exact)
                self.body(self.pick([1, 2]), depth - 1)
                if self.chance(0.7):
                    self.put(
                        f"{carry.text} = np.tanh({carry.text} * 0.5 + {self.value(t)})"
                        if t.dtype.startswith("f")
                        else f"{carry.text} = {self.value(t)}"
                    )
        after()

    @contextmanager
    def looping(self) -> Iterator[Callable[[], None]]:
        atoms = list(self.atoms)
        self.loops += 1

        def after() -> None:
            self.atoms = atoms

        yield after
        self.loops -= 1

    def leave(self) -> None:
        self.put(f"if {self.a_bool()}:")
        with self.inside():
            if self.chance(0.4):
                self.statement(0) if self.chance(0.5) else None
            self.put(self.pick(["break", "continue"]))

    def early(self) -> None:
        assert self.result is not None
        self.put(f"if {self.a_bool()}:")
        with self.inside():
            self.put(f"return {self.value(self.result)}")

    def assertion(self) -> None:
        if self.chance(0.5):
            self.put(f'assert {self.a_bool()} or {self.a_bool()} or {self.a_bool()}, "not so"')
        else:
            self.put(f"if {self.a_bool()} and {self.a_bool()} and {self.a_bool()}:")
            self.put(f'    raise {self.pick(["ValueError", "RuntimeError", "KeyError"])}("rejected")')

    def nested(self) -> None:
        """Write a function inside the function."""
        t = Tens(self.dtype, self.shape(1))
        name = self.name("g")
        saved, self.result, loops, self.loops = self.result, None, self.loops, 0
        atoms = list(self.atoms)
        # What it captures must not be assigned later: the names that cannot be.
        self.atoms = [a for a in self.atoms if not a.free]
        if self.chance(0.5):
            x = self.name("a")
            with self.inside():
                self.add(x, t)
                text = self.value(t)
            self.strip_pass()
            self.put(f"{name} = lambda {x}: {text}")
        else:
            x = self.name("a")
            self.put(f"def {name}({x}):")
            with self.inside():
                self.add(x, t)
                if self.chance(0.5):
                    self.result = t
                    self.body(1, 0)
                self.put(f"return {self.value(t)}")
        self.atoms, self.result, self.loops = atoms, saved, loops
        self.functions.append(Function(name, (t,), t, shared=False))

    def state(self) -> None:
        """Write a loop that carries a tuple or an object."""
        t = Tens(self.dtype, (self.extent(),))
        state = self.name("s")
        if "State" in self.classes and self.chance(0.6):
            fields = self.classes["State"].fields
            self.put(f"{state} = {self.value(Obj('State'))}")
            kind: Type = Obj("State")
            parts = [(f"{state}.{n}", f) for n, f in fields]
        else:
            kind = TupleOf((t, INT))
            self.put(f"{state} = {self.value(kind)}")
            parts = [(f"{state}[{k}]", f) for k, f in enumerate(kind.items)]
        with self.looping() as after:
            self.put(f"for {self.name('k')} in range({self.natural(3)}):")
            with self.inside():
                for text, part in parts:
                    self.add(text, part)
                if self.chance(0.4):
                    self.body(1, 1)
                if isinstance(kind, Obj) and self.chance(0.4):
                    n, f = self.pick(self.classes["State"].fields)
                    self.put(f"{state} = dataclasses.replace({state}, {n}={self.value(f)})")
                else:
                    self.put(f"{state} = {self.value(kind)}")
        after()
        for text, part in parts:
            self.add(text, part)
        self.add(state, kind)

    def idiom(self, depth: int) -> None:
        """Write one of the things that people write."""
        t = Tens(self.dtype, self.pick([(self.extent(),), (self.extent(),), self.shape(1)]))
        v, k, n = self.name("v"), self.name("k"), self.name("i")
        value = lambda d=2: self.value(t, d)
        match self.rng.randrange(24):
            case 0:  # a loop that ends inside
                self.put(f"{n} = {self.natural(5)}")
                self.put(f"{v} = {value()}")
                atom = self.add(v, t, free=True)
                with self.looping() as after:
                    self.put("while True:")
                    with self.inside():
                        self.put(f"{n} -= 1")
                        self.put(f"if {n} < 0{self.pick(['', f' or {self.a_bool(1)}'])}:")
                        self.put("    break")
                        self.body(1, depth - 1)
                        self.put(f"{atom.text} = {value()}")
                after()
            case 1:
                self.put(
                    f"{v} = [{k} * 2 for {k} in range({self.natural(6)}) if {k} % 2 == {self.pick([0, 1])} or {self.a_bool(1)}]"
                )
                self.add(v, ListOf(INT), free=True)
            case 2:
                self.put(f"{v} = [{k} * 3 + {n} for {k} in range(2) for {n} in range({self.natural(3)})]")
                self.add(v, ListOf(INT), free=True)
            case 3:
                form = self.pick(["sum({0} * {0} for {0} in range({1}))", "max(({0} % 3 for {0} in range({1})), default=-1)",
                                  "len([{0} for {0} in range({1})])", "int(any({0} == 2 for {0} in range({1})))",
                                  "int(all({0} < 3 for {0} in range({1})))", "sum([{0} for {0} in range({1})], 5)",
                                  "divmod({1}, 3)[1] * {1}", "int({1} in (1, 2, 5))"])  # fmt: skip
                self.put(f"{n} = {form.format(k, self.natural(6))}")
                self.add(n, INT)
            case 4:  # a list of tuples
                self.put(f"{v} = []")
                self.put(f"for {k} in range({self.natural(4)}):")
                with self.inside():
                    self.add(k, INT)
                    self.put(f"{v}.append(({k} - 1, {value()}))")
                self.put(f"{n} = {value(1)}")
                self.put(f"for {k}i, {k}x in {self.pick(['{}', 'reversed({})', '{}[1:]'])}:".format(v))
                self.put(f"    {n} = {n} * 0.5 + {k}x * {k}i")
                self.add(n, t)
            case 5:  # a list of lists
                self.put(f"{v} = [[] for _ in range(3)]")
                self.put(f"for {k} in range({self.natural(5)}):")
                with self.inside():
                    self.add(k, INT)
                    self.put(f"{v}[({self.an_int(1)}) % 3].append({value(1)})")
                self.put(f"{n} = [len({k}q) for {k}q in {v}]")
                self.add(n, ListOf(INT))
                self.put(f"{n}x = sum([{k}q[-1] for {k}q in {v} if {k}q], {value(1)})")
                self.add(f"{n}x", t)
            case 6:
                self.put(f"{v} = Pair({value()}, {self.an_int(1)})")
                self.put(
                    f"{v} = {self.pick(['{0}._replace(k={0}.k + 1)', 'Pair({0}.h * 2, {0}.k - 1)', '{0}'])}".format(v)
                )
                self.put(f"{k}, {n} = {v}")
                self.add(k, t)
                self.add(n, INT)
            case 7 if "State" in self.classes:
                h = self.classes["State"].fields[0][1]
                self.put(f"{v} = {self.value(Obj('State'))}.moved({self.value(h)})")
                self.put(f"{n} = {v}.total() + {v}.twice")
                self.add(v, Obj("State"))
                self.add(n, INT)
                self.add(f"{v}.h", h)
            case 8:  # in place
                self.put(f"{v} = np.tanh({value()}) + {value(1)}")
                self.put(f"{v} {self.pick(['+=', '*=', '-='])} {value(1)}")
                self.add(v, t)
            case 9:  # perhaps nothing
                self.put(f"{n} = None")
                self.put(f"if {self.a_bool()}:")
                self.put(f"    {n} = {value()}")
                self.put(f"{v} = {value(1)} if {n} is None else {n} * 0.5")
                self.add(v, t)
            case 10:
                args = self.pick(
                    [
                        "",
                        ", 0.25",
                        f", shift={self.a_float(1)}",
                        f", {self.a_float(1)}, shift=1.0",
                        f", by={self.a_float(1)}",
                    ]
                )
                self.put(f"{v} = scaled({value()}{args})")
                self.add(v, t)
            case 11:  # layers
                m = self.extent()
                layers = self.layers(m)
                self.put(f"{v} = {self.value(Tens(self.dtype, (m,)))}")
                if self.chance(0.5):
                    self.put(f"for {k} in p.{layers}:")
                    self.put(f"    {v} = np.tanh({k} @ {v})")
                else:
                    self.put(f"for {k} in range({self.pick([self.natural(2) + ' + 1', f'len(p.{layers})', '2'])}):")
                    self.put(f"    {v} = np.tanh(p.{layers}[{k}{self.pick(['', ' - 1', ' % 2'])}] @ {v} * SCALE)")
                self.add(v, Tens(self.dtype, (m,)))
            case 12:  # a function chosen at run time
                self.put(f"{k} = (lambda a: a * 0.5) if {self.a_bool()} else (lambda a: np.tanh(a) + {value(1)})")
                self.put(f"{v} = {k}({value()})")
                self.add(v, t)
            case 13:
                self.put(f"{v} = applied({self.pick(['np.tanh', 'nn.relu', f'lambda a: a + {value(1)}'])}, {value()})")
                self.add(v, t)
            case 14:  # a dict as a state
                self.put(f'{v} = {{"h": {value()}, "k": 0}}')
                self.put(f"for {k} in range({self.natural(3)}):")
                with self.inside():
                    self.add(f'{v}["h"]', t)
                    self.put(f'{v} = {{"h": {value()}, "k": {v}["k"] + {k}}}')
                self.add(f'{v}["h"]', t)
                self.add(f'{v}["k"]', INT)
            case 15:  # two states that change places
                self.put(f"{v}, {n} = {value()}, {value()}")
                self.put(f"for {k} in range({self.natural(4)}):")
                self.put(f"    {v}, {n} = {n}, {self.pick([v, f'np.tanh({v} + {n})', f'{v} * 0.5'])}")
                self.add(v, t)
                self.add(n, t)
            case 16:
                form = self.pick(["sorted({}, key=lambda a: -a)", "sorted({})", "sorted({}, reverse=True)", "list(reversed({}))",
                                  "[min({0}), max({0})]", "{}[1:3]", "{} * 2", "{} + [1, 2]", "[3 * a for a in {}]"])  # fmt: skip
                self.put(f"{v} = {form.format(f'[{self.an_int()}, {self.an_int()}, {self.an_int()}]')}")
                self.add(v, ListOf(INT), free=True)
            case 17:
                self.put(f"{k}, *{v} = [{self.an_int(1)}, {self.an_int(1)}, {self.an_int(1)}]")
                self.add(k, INT)
                self.add(v, ListOf(INT), free=True)
            case 18:
                self.put(f"if ({n} := {self.an_int()}) > 2:")
                with self.inside():
                    self.add(n, INT)
                    self.body(1, depth - 1)
                self.add(n, INT)
            case 19:
                self.put(f"{v} = {n} = {value()}")
                self.add(v, t, free=True)
                self.add(n, t)
            case 20:  # a stack of what was computed
                self.put(f"{v} = [{value()}]")
                self.put(f"for {k} in range({self.natural(5)}):")
                with self.inside():
                    self.add(k, INT)
                    self.put(f"if len({v}) > 1 and {self.a_bool(1)}:")
                    self.put(f"    {n}r, {n}l = {v}.pop(), {v}.pop()")
                    self.put(f"    {v}.append(np.tanh({n}l + {n}r * 0.5))")
                    self.put("else:")
                    self.put(f"    {v}.append({value(1)})")
                self.put(f"{n} = np.stack({v}).sum(axis=0)")
                self.add(n, t)
            case 21:  # two names of one list
                self.put(f"{v} = []")
                self.put(f"{n} = {v}")
                self.put(f"for {k} in range({self.natural(3)}):")
                self.put(f"    {n}.append({k})")
                self.add(v, ListOf(INT), free=True)
            case 22:
                self.put(f'{n} = {self.an_int(1)} if p.mode == "{self.pick(["a", "b"])}" else {self.an_int(1)}')
                self.shared.setdefault("mode", ("str", self.pick(["a", "b"])))
                self.add(n, INT)
            case _:
                a, b = self.extent(), self.extent()
                form, shape = self.pick([
                    ("np.einsum('ij,jk->ik', {ab}, {ba})", (a, a)), ("np.einsum('ij,j->i', {ab}, {b})", (a,)),
                    ("np.einsum('ij->ji', {ab})", (b, a)), ("np.swapaxes({ab}, 0, 1)", (b, a)), ("np.tile({b}, 3)", (3 * b,)),
                    ("nn.attention({ab}, {ab}, {ab})", (a, b)), ("nn.linear({b}, {ab})", (a,)), ("nn.logsumexp({ab})", (a,)),
                    ("({ab} - {ab}.max(axis=-1, keepdims=True))", (a, b)), ("{ab}.sum()", ()), ("{ab}.mean()", ()),
                    ("np.max({ab}, axis=(0, 1))", ()), ("np.eye({a}, dtype={ab}.dtype) * 2", (a, a)), ("(np.std({ab}, axis=0) + 0.5)", (b,)),
                    ("np.linalg.norm({ab}, axis=1)", (a,)), ("nn.one_hot(({i}) % {a}, {a}).astype({ab}.dtype)", (a,)),
                    ("nn.embedding({ab}, ({i}) % {a})", (b,)), ("{ab}[..., 0]", (a,)), ("{ab}[:, ::-1]", (a, b)), ("np.flip({b}, 0)", (b,)),
                    ("np.vstack([{b}, {b}])", (2, b)), ("np.hstack([{b}, {b}])", (2 * b,)), ("{ab}.ravel()", (a * b,)),
                    ("np.moveaxis({ab}, 0, 1)", (b, a)), ("np.prod(np.tanh({ab}), axis=0)", (b,)), ("np.vdot({b}, {b})", ()),
                    ("nn.attention({ab}, {ab}, {ab}, causal=True)", (a, b)), ("nn.attention({ab}, {ab}, {ab}, window=2)", (a, b)),
                    ("nn.max_pool1d({ab}, 2, 1, 1)[1:]", (a, b)), ("nn.avg_pool1d({ab}, 3, 1, 1)", (a, b)),
                    ("nn.segment_sum({ab}, np.arange({a}) % 2, {a})", (a, b)), ("np.add.reduceat({ab}, [0, 0])", (2, b)),
                    ("np.lib.stride_tricks.sliding_window_view({ab}, 1, 0)[..., 0]", (a, b)), ("nn.conv1d({ab}, {ab}[..., None])", (a, a)),
                    ("nn.conv1d({ab}, np.stack([{ab}, {ab}], axis=2), padding=(1, 0))", (a, a)),
                ])  # fmt: skip
                words = {"ab": Tens(self.dtype, (a, b)), "ba": Tens(self.dtype, (b, a)), "b": Tens(self.dtype, (b,))}
                text = form.format(**{w: self.value(u, 1) for w, u in words.items()}, a=a, i=self.an_int(1))
                self.put(f"{v} = {text}")
                self.add(v, Tens(self.dtype, shape))

    def layers(self, m: int) -> str:
        """Return the name of a shared list of square matrices."""
        for n, (_, value) in self.shared.items():
            if isinstance(value, list) and value[0].shape == (m, m):
                return n
        return self.share("list", [(self.numpy.standard_normal((m, m)) / m**0.5).astype(self.dtype) for _ in range(3)])

    # ---- functions and classes

    def repeated(self) -> None:
        """Write a function that calls itself, so many times."""
        t = Tens(self.dtype, (self.extent(),))
        name, n, x = self.name("again"), self.name("n"), self.name("a")
        self.put(f"def {name}({n}, {x}, p):")
        atoms, self.atoms, self.result = self.atoms, [], t
        with self.inside():
            self.add(n, INT)
            self.add(x, t)
            self.put(f"if {n} <= 0:")
            self.put(f"    return {self.value(t)}")
            self.body(self.pick([0, 1]), 1)
            y = self.name("v")
            self.put(f"{y} = {name}({n} - {self.pick([1, 2])}, {self.value(t)}, p)")
            self.add(y, t)
            if self.chance(0.4):
                self.put(f"{y} = {name}({n} - 2, {self.value(t)}, p)")
            self.put(f"return {self.value(t)}")
        self.atoms, self.result = atoms, None
        self.put("")
        self.put("")
        self.functions.append(Function(name, (SMALL, t), t))

    def maybe(self) -> None:
        """Write a function that may return nothing, and one that calls it."""
        t = Tens(self.dtype, (self.extent(),))
        name, x, k = self.name("perhaps"), self.name("a"), self.name("i")
        atoms, self.atoms = self.atoms, []
        self.put(f"def {name}({k}, {x}, p):")
        with self.inside():
            self.add(x, t)
            self.add(k, INT)
            self.put(f"if {self.a_bool()}:")
            self.put(f"    return {self.pick(['None', 'None', self.value(TupleOf((t, INT)))])}")
            self.put(f"return {self.value(t)}")
        self.put("")
        self.put("")
        self.put(f"def sure_{name}({k}, {x}, p):")
        with self.inside():
            self.add(x, t)
            self.add(k, INT)
            self.put(f"r = {name}({k}, {x}, p)")
            self.put("if r is None:")
            self.put(f"    return {self.value(t)}")
            self.put("if isinstance(r, tuple):")
            self.put("    return r[0] * r[1]")
            self.put("return r * 2")
        self.atoms = atoms
        self.put("")
        self.put("")
        self.functions.append(Function(f"sure_{name}", (INT, t), t))

    def helper(self) -> None:
        """Write a function of the module."""
        params = tuple(
            self.pick([Tens(self.dtype, self.shape(1)), INT, FLOAT, BOOL, Tens(self.dtype, (self.extent(),))])
            for _ in range(self.pick([1, 2, 3]))
        )
        result = Tens(self.dtype, self.shape(1))
        name = self.name("helper")
        names = [self.name("a") for _ in params]
        self.function(name, names, params, result, self.pick([0, 1, 3]))
        self.functions.append(Function(name, params, result))

    def function(self, name: str, names: Sequence[str], params: Sequence[Type], result: Type, count: int) -> None:
        self.put(f"def {name}({', '.join([*names, 'p'])}):")
        atoms, self.atoms, self.result = self.atoms, [], result
        with self.inside():
            for n, t in zip(names, params, strict=True):
                self.add(n, t, False)
            self.body(count, 1)
            self.put(f"return {self.value(result)}")
        self.atoms, self.result = atoms, None
        self.put("")
        self.put("")

    def fields(self, letter: str) -> list[tuple[str, Type]]:
        """Return fields of a class that are not objects."""
        vector = Tens(self.dtype, (self.extent(),))
        options: list[Type] = [INT, INT, FLOAT, BOOL, Enum(), vector, Tens(self.dtype, (f"f{letter}",)),
                               Tens(self.some_dtype(), (f"f{letter}", self.extent())), ListOf(INT), Tens(F32, ()),
                               Perhaps(INT), Perhaps(vector), OneOf((INT, vector)), TupleOf((INT, FLOAT)), ListOf(vector),
                               Perhaps(ListOf(INT)), ListOf(Perhaps(INT)), Perhaps(Tens(self.dtype, (f"f{letter}",))),
                               Perhaps(FLOAT), Perhaps(Enum()), TupleOf((vector, Perhaps(INT))), Str(), Perhaps(Str()),
                               ListOf(Str()), MapOf(Str(), INT), MapOf(INT, vector)]  # fmt: skip
        return [(f"{letter}{k}", self.pick(options)) for k in range(self.pick([1, 1, 2, 3]))]

    def family(self) -> str:
        """Draw a recursive class, or a union of them; return its name."""
        kind = self.pick(["binary", "binary", "children", "union", "chain"])
        match kind:
            case "binary":
                fields = [*self.fields("x"), ("left", Obj("Tree", True)), ("right", Obj("Tree", True))]
                self.classes["Tree"] = Class("Tree", fields)
                return "Tree"
            case "chain":
                self.classes["Tree"] = Class("Tree", [*self.fields("x"), ("next", Obj("Tree", True))])
                return "Tree"
            case "children":
                self.classes["Tree"] = Class("Tree", [*self.fields("x"), ("children", ListOf(Obj("Tree")))])
                return "Tree"
        self.classes["Leaf"] = Class("Leaf", self.fields("x"))
        self.classes["Wrap"] = Class("Wrap", [*self.fields("y"), ("inner", Obj("Expr"))])
        self.classes["Both"] = Class("Both", [("first", Obj("Expr")), ("second", Obj("Expr")), *self.fields("z")])
        names = ["Leaf", "Wrap", "Both"]
        if self.chance(0.4):
            self.classes["Many"] = Class("Many", [("parts", ListOf(Obj("Expr")))])
            names.append("Many")
        self.classes["Expr"] = Class("Expr", [], names)
        return "Expr"

    def recursion(self, cls: str) -> Function:
        """Write a function that walks a recursive class: a function, or methods."""
        t = Tens(self.dtype, self.shape(1) or (self.extent(),))
        result: Type = self.pick([t, t, TupleOf((t, t)), TupleOf((t, INT))])
        extra: tuple[Type, ...] = self.pick([(), (), (INT,), (t,), (ListOf(INT),), (ListOf(t),)])
        name = self.name("walk")
        method = self.chance(0.25)
        f = Function(name, (Obj(cls), *extra), result, method=method)
        if not method and self.chance(0.2):
            f.partner = f"{name}_more"
        if method:
            for member in self.classes[cls].union or [cls]:
                saved, self.lines, self.indent = self.lines, [""], 1
                self.walker(f, "self", lambda c=self.classes[member]: self.walk_class(c, f, "self", c.name == "Tree"))
                self.classes[member].methods += self.lines[:-2]
                self.lines, self.indent = saved, 0
        elif self.classes[cls].union:
            self.walker(f, "t", lambda: self.walk_union(self.classes[cls], f))
        else:
            self.walker(f, "t", lambda: self.walk_class(self.classes[cls], f, "t", optional=True))
        if f.partner:
            more = Function(f.partner, f.params, result)
            self.walker(more, "t", lambda: self.walk_on(f, more))
        self.functions.append(f)
        return f

    def walker(self, f: Function, first: str, body: Callable[[], None]) -> None:
        """Write the function of a recursion."""
        extra = f.params[1:]
        names = [first, *("up" for _ in extra), *(["p"] if f.shared else [])]
        self.put(f"def {f.name}({', '.join(names)}):")
        atoms, saved, self.result = self.atoms, self.result, f.result
        self.atoms = [] if f.shared else [a for a in atoms if not a.free]
        with self.inside():
            for e in extra:
                self.add("up", e, free=isinstance(e, ListOf))
            body()
        self.atoms, self.result = atoms, saved
        if f.shared:
            self.put("")
            self.put("")

    def walk_on(self, f: Function, more: Function) -> None:
        self.put(f"r = {f.name}({', '.join(['t', *('up' for _ in f.params[1:]), 'p'])})")
        self.absorb("r", f.result)
        self.body(self.pick([0, 1]), 1)
        self.put(f"return {self.value(more.result, 2)}")

    def enter(self, f: Function, text: str) -> str:
        """Return a call of the recursion on a part."""
        rest = []
        up = self.find(lambda a: a.text == "up")
        for t in f.params[1:]:
            grown = "up" if isinstance(t, ListOf) and self.chance(0.8) else "up + 1" if t == INT else self.value(t, 1)
            rest.append(grown if up is not None else self.value(t, 1))
        if f.shared:
            rest.append("p")
        if f.method:
            return f"{text}.{f.name}({', '.join(rest)})"
        name = f.partner if f.partner and self.chance(0.5) else f.name
        return f"{name}({', '.join([text, *rest])})"

    def absorb(self, name: str, t: Type) -> None:
        """Make the result of a call usable."""
        if isinstance(t, TupleOf):
            for k, item in enumerate(t.items):
                self.add(f"{name}[{k}]", item)
        self.add(name, t)

    def use_fields(self, cls: Class, text: str) -> None:
        for n, t in cls.fields:
            if not isinstance(t, Obj) and not (isinstance(t, ListOf) and isinstance(t.item, Obj)):
                # The extents of a field are those of this one object.
                self.add(f"{text}.{n}", _renamed(t, self.name), True)

    def walk_class(self, cls: Class, f: Function, text: str, optional: bool) -> None:
        self.use_fields(cls, text)
        parts = [(n, t) for n, t in cls.fields if isinstance(t, Obj)]
        many = [n for n, t in cls.fields if isinstance(t, ListOf) and isinstance(t.item, Obj)]
        if self.chance(0.3):
            self.body(1, 1)
        if parts and optional and isinstance(parts[0][1], Obj) and parts[0][1].optional:
            tests = " and ".join(f"{text}.{n} is None" for n, _ in parts)
            style = self.rng.randrange(3)
            if style == 0:
                self.put(f"if {tests}:")
                with self.inside():
                    self.put(f"return {self.value(f.result)}")
            for n, _ in parts:
                name = self.name("h")
                if self.chance(0.5):
                    self.put(f"if {text}.{n} is not None:")
                    self.put(f"    {name} = {self.enter(f, f'{text}.{n}')}")
                    self.put("else:")
                    self.put(f"    {name} = {self.value(f.result, 1)}")
                else:
                    self.put(
                        f"{name} = {self.value(f.result, 1)} if {text}.{n} is None else {self.enter(f, f'{text}.{n}')}"
                    )
                self.absorb(name, f.result)
        else:
            for n, _ in parts:
                name = self.name("h")
                self.put(f"{name} = {self.enter(f, f'{text}.{n}')}")
                self.absorb(name, f.result)
        for n in many:
            name = self.name("h")
            t = f.result.items[0] if isinstance(f.result, TupleOf) else f.result
            pick = "[0]" if isinstance(f.result, TupleOf) else ""
            style = self.rng.randrange(3)
            if style == 0:
                self.put(f"{name} = {self.value(t, 1)}")
                self.put(f"for c in {text}.{n}:")
                with self.inside():
                    self.put(f"{name}c = {self.enter(f, 'c')}")
                    self.absorb(f"{name}c", f.result)
                    self.add(name, t)
                    self.put(f"{name} = np.tanh({name} + {self.value(t)})")
                self.add(name, t)
            elif style == 1:
                self.put(f"{name} = [{self.enter(f, 'c')} for c in {text}.{n}]")
                self.put(f"{name}s = {self.value(t, 1)}")
                self.put(f"for c in {name}:")
                self.put(f"    {name}s = {name}s * 0.5 + c{pick}")
                self.add(f"{name}s", t)
                self.add(name, ListOf(f.result))
            else:
                self.put(f"{name} = [{self.enter(f, 'c')}{pick} for c in {text}.{n}]")
                assert isinstance(t, Tens)
                self.put(f"{name}s = np.max(np.stack({name}), axis=0) if {name} else {self.value(t, 1)}")
                self.add(f"{name}s", t)
        self.body(self.pick([0, 1, 2]), 1)
        self.put(f"return {self.value(f.result, 3)}")

    def walk_union(self, union: Class, f: Function) -> None:
        style = self.rng.randrange(2)
        if style == 0:
            self.put("match t:")
            self.indent += 1
            for n in union.union:
                cls = self.classes[n]
                if self.chance(0.5):
                    self.put(f"case {n}():")
                    with self.inside():
                        self.walk_class(cls, f, "t", optional=False)
                else:
                    names = [self.name("q") for _ in cls.fields]
                    self.put(f"case {n}({', '.join(names)}):")
                    with self.inside():
                        for q, (_, t) in zip(names, cls.fields, strict=True):
                            if isinstance(t, Kind | Enum) or (isinstance(t, Tens) and not _loose(t)):
                                self.add(q, t, True)
                        self.walk_class(cls, f, "t", optional=False)
            self.indent -= 1
            return
        for n in union.union[:-1]:
            self.put(f"if isinstance(t, {n}):")
            with self.inside():
                self.walk_class(self.classes[n], f, "t", optional=False)
        self.walk_class(self.classes[union.union[-1]], f, "t", optional=False)

    # ---- the module

    def parameter(self) -> Type:
        letter = self.pick(["n", "n", "m"])
        return self.pick([
            INT, FLOAT, BOOL, Enum(), Tens(self.dtype, (self.extent(),)), Tens(self.dtype, (letter, self.extent())),
            Tens(self.dtype, (letter, self.extent())), Tens(self.dtype, (letter,)), Tens(self.some_dtype(), (letter,)),
            ListOf(INT), ListOf(Tens(self.dtype, (self.extent(),))), ListOf(FLOAT), TupleOf((INT, Tens(self.dtype, (self.extent(),)))),
            DictOf((("a", INT), ("b", Tens(self.dtype, (self.extent(),))))), ListOf(TupleOf((INT, FLOAT))), Obj("Item"),
            ListOf(Obj("Item")), Tens(self.dtype, ()), Str(), ListOf(Str()), MapOf(Str(), INT), MapOf(INT, FLOAT),
            MapOf(TupleOf((INT, Str())), INT), TupleOf((Str(), INT)),
        ])  # fmt: skip

    def make(self) -> Case:
        """Return the case."""
        if self.chance(0.5):
            self.classes["State"] = Class(
                "State",
                [("h", Tens(self.dtype, (self.extent(),))), ("c", Tens(self.dtype, (self.extent(),))), ("k", INT)],
            )
        self.classes["Item"] = Class("Item", self.fields("x"))
        self.definitions()
        params: list[Type] = [self.parameter() for _ in range(self.pick([1, 1, 2, 3]))]
        walk = None
        if self.chance(0.6):
            cls = self.family()
            walk = self.recursion(cls)
            params.insert(0, Obj(cls))
        names = [self.name("x") for _ in params]
        self.put("@model")
        self.put(f"def main({', '.join(names)}, *, p: Params):")
        result = self.outcome()
        self.result = result
        with self.inside():
            for n, t in zip(names, params, strict=True):
                if isinstance(t, Obj) and self.classes[t.cls].name in ("Item",):
                    self.use_fields(self.classes[t.cls], n)
                self.add(n, t, exact=True)
            if walk is not None:
                self.functions.remove(walk)
                h = self.name("h")
                if self.chance(0.2) and not self.classes[walk.params[0].cls].union:  # the same inside the function
                    walk = Function("inner", walk.params, walk.result, shared=False)
                    cls = self.classes[walk.params[0].cls]
                    self.walker(walk, "t", lambda: self.walk_class(cls, walk, "t", optional=True))
                given = []
                for t in walk.params[1:]:
                    if isinstance(t, ListOf):
                        given.append(self.name("l"))
                        self.put(f"{given[-1]} = []")
                    else:
                        given.append(self.value(t, 1))
                if walk.shared:
                    given.append("p")
                first = f"{names[0]}." if walk.method else ""
                self.put(f"{h} = {first}{walk.name}({', '.join(given if walk.method else [names[0], *given])})")
                for text, t in zip(given, walk.params[1:], strict=False):
                    if isinstance(t, ListOf):
                        self.add(text, t, free=True)
                self.absorb(h, walk.result)
            self.body(self.rng.randrange(1, self.size + 1))
            if self.chance(0.15):  # another structure
                self.put(f"if {self.a_bool()}:")
                self.put(f"    return {self.value(self.outcome())}")
            self.put(f"return {self.value(result, 3)}")
        return Case(
            source=self.header() + "\n".join(self.lines) + "\n",
            params=tuple(params),
            shared={n: v for n, (_, v) in self.shared.items()},
            classes=self.classes,
            seed=self.rng.getrandbits(32),
        )

    def definitions(self) -> None:
        """Write functions of the module."""
        for _ in range(self.pick([0, 1, 1, 2])):
            self.pick([self.helper, self.helper, self.repeated, self.maybe])()

    def outcome(self) -> Type:
        t = Tens(self.some_dtype(), self.shape())
        options: list[Type] = [t, t, TupleOf((t, Tens(self.dtype, self.shape()))), TupleOf((t, INT, FLOAT, BOOL)),
                               DictOf((("a", t), ("b", Tens(self.dtype, (self.extent(),))))), ListOf(t)]  # fmt: skip
        if "State" in self.classes:
            options.append(Obj("State"))
        return self.pick(options)

    def header(self) -> str:
        lines = [
            "from __future__ import annotations", "", "import dataclasses", "import enum", "import math", "from collections import defaultdict",
            "from dataclasses import dataclass", "from typing import NamedTuple", "", "import numpy as np", "", "from acronumba import model, nn, random", "", "",
            "SCALE = 0.75", "", "", "class Pair(NamedTuple):", "    h: np.ndarray", "    k: int", "", "",
            "def scaled(x, by=0.5, *, shift=0.0):", "    return x * by + shift", "", "",
            "def applied(f, x):", "    return f(x)", "", "", "class Colour(enum.Enum):", *(f'    {m} = "{m.lower()}"' for m in MEMBERS), "", "",
        ]  # fmt: skip
        for cls in self.classes.values():
            if not cls.union:
                lines += [f"class {cls.name}(NamedTuple):"] if cls.named else ["@dataclass", f"class {cls.name}:"]
                lines += [f"    {n}: {_annotation(t)}" for n, t in cls.fields]
                lines += [*(STATE_METHODS if cls.name == "State" else cls.methods), "", ""]
        lines += [f"{c.name} = {' | '.join(c.union)}" for c in self.classes.values() if c.union]
        lines += ["", "", "@dataclass", "class Params:", *(f"    {n}: {a}" for n, (a, _) in self.shared.items())]
        lines += ["    pass"] if not self.shared else []
        return "\n".join([*lines, "", "", ""])


def _loose(t: Type) -> bool:
    return isinstance(t, Tens) and any(isinstance(n, str) for n in t.shape)


def _renamed(t: Type, name: Callable[[str], str]) -> Type:
    """Return the type with other letters for its run-time extents."""
    if isinstance(t, Tens) and _loose(t):
        fresh = {e: name("m") for e in t.shape if isinstance(e, str)}
        return Tens(t.dtype, tuple(fresh[e] if isinstance(e, str) else e for e in t.shape))
    return t


def _annotation(t: Type) -> str:
    match t:
        case Kind(name):
            return name
        case Enum():
            return "Colour"
        case KeyOf():
            return "random.Key"
        case Str():
            return "str"
        case MapOf(key, item):
            return f"dict[{_annotation(key)}, {_annotation(item)}]"
        case Tens(_, ()):
            return "np.generic"
        case Tens():
            return "np.ndarray"
        case Obj(cls, optional):
            return f"{cls} | None" if optional else cls
        case ListOf(item):
            return f"list[{_annotation(item)}]"
        case TupleOf(items):
            return f"tuple[{', '.join(map(_annotation, items))}]"
        case DictOf():
            return "dict"
        case Perhaps(inner):
            return f"{_annotation(inner)} | None"
        case OneOf(items):
            return " | ".join(map(_annotation, items))


def generate(seed: int, size: int = 6) -> Case:
    """Return the case of a seed."""
    return Maker(random.Random(seed), size).make()


# ---- comparison


@dataclass
class Difference:
    """What a case shows that it should not."""

    what: str
    instance: int = -1
    kind: str = ""  # the same for all differences of one cause, as far as one can tell

    def __str__(self) -> str:
        return self.what if self.instance < 0 else f"[{self.instance}] {self.what}"


@dataclass
class Report:
    """What a comparison has found."""

    differences: list[Difference] = field(default_factory=list)
    rejected: AcronumbaError | None = None  # by the compiler: nothing was run
    instances: int = 0
    failures: int = 0  # instances whose plain call raises
    results: Any = None  # None of those that failed
    errors: dict[int, Exception] = field(default_factory=dict)  # of the machine
    plain: list[Any] = field(default_factory=list)


def plain_results(fn: Callable[..., Any], columns: Sequence[Sequence[Any]], shared: dict[str, Any]) -> list[Any]:
    """Return the result, or the exception, of the plain call for each instance."""
    out: list[Any] = []
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for k in range(len(columns[0])):
            try:
                out.append(fn(*(c[k] for c in columns), **shared))
            except Exception as error:
                out.append(error)
    return out


def differences(case: Case, folder: Path, *, compiled: bool, count: int = 8, **options: Any) -> list[Difference]:
    """Compare a case with its plain call.

    Parameters
    ----------
    case : Case
        The model.
    folder : Path
        Where its source is written.
    compiled : bool
        Run machine code; else the reference interpreter runs the plan.
    count : int
        Instances.
    **options
        Of the model.
    """
    module = case.load(folder, f"case_{case.seed}_{abs(hash(case.source))}")
    model, shared = module.main.with_options(**options), case.shared_values(module)
    found = compare(model, case.instances(module, count), shared, compiled)
    if compiled and not found:  # again, with other and with more instances
        found = compare(model, case.instances(module, 5 * count, 1), shared, compiled)
    return found


def compare(model: Any, columns: Sequence[Sequence[Any]], shared: dict[str, Any], compiled: bool) -> list[Difference]:
    """Return the differences of a model from its plain call; that it is rejected is one."""
    report = examine(model, columns, shared, compiled)
    if report.rejected is not None:
        return [Difference(f"{report.rejected.code} is rejected: {report.rejected}")]
    return report.differences


def examine(
    model: Any, columns: Sequence[Sequence[Any]], shared: dict[str, Any], compiled: bool, sure: bool = True
) -> Report:
    """Compare a model with its plain call: results, and the exceptions of instances with their lines.

    Parameters
    ----------
    sure : bool
        The model decides by exact values alone, as what is drawn does; otherwise what decides by values that rounding
        may change is no difference.
    """
    from acronumba import AcronumbaError
    from acronumba.api.check import Checker
    from acronumba.api.failures import beyond_64_bits, user_line
    from acronumba.api.plain import PlainCall
    from acronumba.api.results import equal

    plain = plain_results(model.__wrapped__, columns, shared)
    report = Report(instances=len(plain), failures=sum(isinstance(p, Exception) for p in plain), plain=plain)
    before = dispatch.plain_failure
    dispatch.plain_failure = lambda call, instance, machine: machine  # the machine's own account, not the plain call's
    try:
        results, errors = (_compiled if compiled else _interpreted)(model, columns, shared)
    except AcronumbaError as error:
        report.rejected = error
        return report
    finally:
        dispatch.plain_failure = before
    report.results, report.errors = results, errors
    judge = Checker(PlainCall.of(model.__wrapped__, shared, model.options), results, errors, model.options.max_steps)
    out = report.differences
    for k, expected in enumerate(plain):
        mine = errors.get(k)
        if isinstance(expected, Exception):
            name = type(expected).__name__
            if mine is None:
                out.append(Difference(f"the plain call raises {name}: {expected}", k, f"not {name}"))
            elif (
                isinstance(expected, IndexError)
                and (of_an_array(expected) or not isinstance(mine, IndexError))
                and (not of_an_array(mine))
            ):
                pass  # kernels look elements up after the host has found its own failures; users see the first
            elif (same := _alike(mine, expected)) and (
                mine.line == user_line(expected)[0] or "acronumba" in str(mine.file)
            ):
                pass
            elif _waits(model, columns, shared):  # another fiber of the instance may fail first: one alone may not
                again = examine(model.with_options(forkjoin=False), columns, shared, compiled, sure)
                out += [d for d in again.differences if d.instance == k]
            elif same:
                text = f"{type(mine).__name__} in line {mine.line}, not {user_line(expected)[0]}"
                out.append(Difference(text, k, f"line of {name}"))
            else:
                text = f"{type(mine).__name__}: {mine}, not {name}: {expected}"
                out.append(Difference(text, k, f"{type(mine).__name__}, not {name}"))
        elif mine is not None:
            if not beyond_64_bits(mine):
                text = f"{type(mine).__name__}: {mine} (line {getattr(mine, 'line', None)}), not a result"
                out.append(Difference(text, k, f"{type(mine).__name__}, not a result"))
        elif not equal(results[k], expected):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a batch raises none
                found = judge(k, [c[k] for c in columns])
            verdict, error, where = found.verdict, found.error, found.where
            if verdict != "different" and sure and found.plain_error < FAR:  # rounding alone does not carry it so far
                verdict, error, where = apart(results[k], expected)
            if verdict == "different":
                text = f"{where} {error:.1e} (plain {found.plain_error:.1e}):\n{results[k]!r}\nnot\n{expected!r}"
                out.append(Difference(text, k, "types" if "in place of" in where else "values"))
    return report


def of_an_array(error: Exception) -> bool:
    """Whether an index of an array was out of range, not one of a list."""
    return isinstance(error, IndexError) and "axis" in str(error)


FAR = 1e-3  # of the largest magnitude: more is no rounding of float32


def apart(mine: Any, plain: Any) -> tuple[str, float, str]:
    """Compare two results of a model that decides by exact values alone: only its floats may differ, and not by much."""
    from acronumba.api.check import _is_float, _kind, _kind_text, together

    for a, b in together(mine, plain):
        if _kind(a.value) != _kind(b.value):
            return "different", np.inf, f"{a}: {_kind_text(a.value)} in place of {_kind_text(b.value)}"
        if isinstance(a.value, tuple):
            continue
        if not _is_float(a.value):
            if not np.array_equal(a.value, b.value):
                return "different", np.inf, str(a)
            continue
        x, y = np.asarray(a.value, np.float64), np.asarray(b.value, np.float64)
        if not np.array_equal(np.isfinite(x), np.isfinite(y)) or not np.array_equal(
            x[~np.isfinite(x)], y[~np.isfinite(y)], equal_nan=True
        ):
            return "different", np.inf, str(a)
        x, y = x[np.isfinite(x)], y[np.isfinite(y)]
        far = float(np.max(np.abs(x - y), initial=0.0)) / (float(np.max(np.abs(y), initial=0.0)) or 1.0)
        if far > FAR:
            return "different", far, str(a)
    return "close", 0.0, ""


def _waits(model: Any, columns: Sequence[Any], shared: dict[str, Any]) -> bool:
    """Whether an instance may have several fibers, or reads what it does not need beside what it waits for."""
    from acronumba.analysis.waits import waiting_functions

    compiled = specialise(model, bind(model, columns, shared), packed=False)[0]
    return bool(waiting_functions(compiled.plan.program))


def _compiled(model: Any, columns: Sequence[Any], shared: dict[str, Any]) -> tuple[Any, dict[int, Any]]:
    """Return results and errors."""
    done = dispatch.batch(model, columns, shared)
    return done.results, done.errors


def _interpreted(model: Any, columns: Sequence[Any], shared: dict[str, Any]) -> tuple[Any, dict[int, Any]]:
    from acronumba import InstanceErrors

    errors: dict[int, Any] = {}
    try:
        results = model._interpret(*columns, **shared)
    except InstanceErrors as failed:
        results, errors = failed.results, failed.errors
    return results, errors


def _alike(mine: Exception, plain: Exception) -> bool:
    """Whether the machine's exception is the plain call's: a clash of shapes is NumPy's ValueError."""
    from acronumba import ShapeMismatch

    if isinstance(mine, ShapeMismatch):
        return isinstance(plain, ValueError)
    return type(mine) is type(plain)
