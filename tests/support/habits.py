"""Random models of what users write: more kinds of data and more idioms than `generate` has alone.

In: a source of random numbers. Out: a `Case` of `generate`, by a `Maker` that also draws records, NamedTuples, unions
of classes, nested lists, integer arrays, slices and reductions whose bounds the run knows, keys of random numbers,
closures, early returns, sort and min by key, mutual recursion, objects and lists with two names. Each idiom is a form
that users know, filled with random expressions. What is exact there is exact here: keys of sorts and conditions are
made of exact values alone. `fuzz` runs as many as one has time for.
"""

# ruff: noqa: E501 (the forms of statements are long lines)

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.support.generate import (
    BOOL,
    FLOAT,
    I64,
    INT,
    Case,
    Class,
    DictOf,
    Enum,
    Function,
    KeyOf,
    Kind,
    ListOf,
    Maker,
    MapOf,
    Obj,
    Perhaps,
    Str,
    Tens,
    TupleOf,
    Type,
)  # fmt: skip

RECORD, SPOT, SHAPE = Obj("Record"), Obj("Spot"), Obj("Shape")


class Writer(Maker):
    """Draws one module of what users write; see `Maker`."""

    def __init__(self, rng: random.Random, size: int = 6) -> None:
        super().__init__(rng, size)
        self.vector = Tens(self.dtype, (self.extent(),))
        inner = Class("Inner", [("j", INT), ("w", self.vector)])
        record = [
            ("k", INT),
            ("h", self.vector),
            ("m", ListOf(INT)),
            ("f", FLOAT),
            ("e", Enum()),
            ("inner", Obj("Inner")),
        ]
        more: list[tuple[str, Type]] = [
            ("o", Perhaps(INT)), ("rows", Tens(self.dtype, ("fr", self.extent()))), ("ids", Tens(I64, ("fi",))),
            ("nested", ListOf(ListOf(INT))), ("pair", TupleOf((INT, self.vector))), ("spot", SPOT),
        ]  # fmt: skip
        record += self.rng.sample(more, self.pick([1, 2, 3]))
        classes = [
            Class("Spot", [("a", INT), ("b", FLOAT), ("v", self.vector)], named=True),
            inner,
            Class("Record", record),
        ]
        classes[2].methods = ["", "    def score(self):", "        return 2 * self.k - len(self.m)", "",
                              "    def moved(self, x, *, by=1):", "        return dataclasses.replace(self, h=self.h + x, k=self.k + by)"]  # fmt: skip
        classes += [Class("Round", [("r", FLOAT), ("h", self.vector)]), Class("Square", [("s", INT)]),
                    Class("Group", [("parts", ListOf(SHAPE)), ("k", INT)]), Class("Turned", [("part", SHAPE), ("h", self.vector)])]  # fmt: skip
        self.classes = {c.name: c for c in classes} | {
            "Shape": Class("Shape", [], ["Round", "Square", "Group", "Turned"])
        }

    # ---- what is drawn more

    def parameter(self) -> Type:
        if self.chance(0.35):
            return super().parameter()
        letter = self.pick(["n", "n", "m"])
        return self.pick([
            RECORD, ListOf(RECORD), ListOf(RECORD), ListOf(ListOf(INT)), ListOf(ListOf(self.vector)), Tens(I64, (letter,)),
            Tens(I64, (letter,)), Tens("int32", (letter,)), Tens(self.dtype, (letter, self.extent())), KeyOf(), KeyOf(), SHAPE, ListOf(SHAPE),
            SPOT, ListOf(SPOT), TupleOf((RECORD, ListOf(INT))), ListOf(TupleOf((INT, self.vector))), ListOf(Perhaps(self.vector)),
            DictOf((("ids", Tens(I64, (letter,))), ("rows", ListOf(self.vector)))), Perhaps(RECORD), ListOf(self.vector), ListOf(INT),
            Str(), Str(), ListOf(Str()), MapOf(Str(), INT), MapOf(INT, self.vector), MapOf(Str(), ListOf(INT)), ListOf(TupleOf((Str(), INT))),
        ])  # fmt: skip

    def outcome(self) -> Type:
        if self.chance(0.6):
            return super().outcome()
        t = Tens(self.some_dtype(), self.shape())
        return self.pick([TupleOf((ListOf(INT), t)), TupleOf((SPOT, t)), SPOT, RECORD, ListOf(RECORD), TupleOf((t, ListOf(ListOf(INT)))),
                          DictOf((("a", t), ("b", TupleOf((INT, FLOAT))))), TupleOf((t, Perhaps(INT))), INT, FLOAT, Str(), TupleOf((t, Str())),
                          ListOf(Str()), TupleOf((t, Perhaps(Str())))])  # fmt: skip

    def value(self, t: Type, d: int = 2) -> str:
        if isinstance(t, KeyOf):
            key = self.find(lambda a: a.type == t)
            assert key is not None, "keys are made outside of the model"
            return f"{key.text}.child({self.natural(5)})" if self.chance(0.8) else key.text
        if isinstance(t, Obj) and t.cls in ("Record", "Spot", "Inner", *self.classes["Shape"].union, "Shape"):
            known = self.find(lambda a: a.type == t)
            if known is not None and self.chance(0.75):
                return known.text
            cls = self.classes[t.cls]
            if cls.union:
                cls = self.classes[self.pick(cls.union[: 4 if d > 0 else 2])]
            return f"{cls.name}({', '.join(self.value(f, d - 1) for _, f in cls.fields)})"
        if isinstance(t, Tens) and any(isinstance(n, str) and n not in self.extents for n in t.shape):
            t = Tens(
                t.dtype, tuple(n if isinstance(n, int) or n in self.extents else self.pick([1, 2, 3]) for n in t.shape)
            )
        if isinstance(t, ListOf) and isinstance(t.item, Obj) and self.chance(0.2):
            return "[]"
        return super().value(t, d)

    def statement(self, depth: int) -> None:
        if depth > 0 and self.chance(0.5):
            self.pick(
                [
                    self.of_lists,
                    self.of_dicts,
                    self.of_tuples,
                    self.of_arrays,
                    self.of_records,
                    self.of_functions,
                    self.of_keys,
                    self.of_searches,
                    self.of_names,
                    self.of_numbers,
                    self.of_writes,
                    self.of_strings,
                ]
            )(depth)
        else:
            super().statement(depth)

    def definitions(self) -> None:
        self.higher()
        super().definitions()
        options = [self.mutual, self.search, self.measure]
        for write in self.rng.sample(options, self.pick([1, 1, 2])):
            write()

    # ---- parts of statements

    @contextmanager
    def each(self, header: str, *items: tuple[str, Type, bool]) -> Iterator[None]:
        """Write a loop: no list of this function may grow in it."""
        with self.looping() as after:
            self.put(header)
            with self.inside():
                self.atoms = [a for a in self.atoms if not (isinstance(a.type, ListOf) and a.free)]
                for name, t, exact in items:
                    self.enter_name(name, t, exact)
                yield
        after()

    def enter_name(self, name: str, t: Type, exact: bool = False) -> None:
        """Know a name, and what it leads to."""
        if isinstance(t, Obj) and not t.optional and not self.classes[t.cls].union:
            self.use_fields(self.classes[t.cls], name)
        self.add(name, t, exact)

    @contextmanager
    def bound(self, *items: tuple[str, Type, bool]) -> Iterator[None]:
        """Know names inside one expression."""
        before, extents = list(self.atoms), dict(self.extents)
        for name, t, exact in items:
            self.enter_name(name, t, exact)
        yield
        self.atoms, self.extents = before, extents

    def some_list(self, *kinds: Type, free: bool | None = None) -> tuple[str, Type, bool] | None:
        """Return the text of a list, the type of its items, and whether they are exact."""
        atom = self.find(
            lambda a: isinstance(a.type, ListOf) and (not kinds or a.type.item in kinds) and free in (None, a.free)
        )
        if atom is None:
            return None
        assert isinstance(atom.type, ListOf)
        return atom.text, atom.type.item, atom.exact

    def key_of(self, name: str, t: Type, exact: bool) -> str:
        """Return an exact number, or a tuple of numbers, made of a name of this type."""
        number = lambda: name
        match t:
            case Kind("int" | "float"):
                forms = ["{x}", "-{x}", "abs({x})", "({x} % 3, -{x})"]
                form = self.pick(forms if t == INT else forms[:3])
            case Obj("Record"):
                form = self.pick(["{x}.k", "-{x}.k", "{x}.score()", "({x}.k % 2, len({x}.m))", "len({x}.m)", "{x}.f", "{x}.inner.j", "sum({x}.m)",
                                  *(["float({x}.h[0])", "{x}.h[-1]", "-{x}.h[0]"] if self.reads else [])])  # fmt: skip
            case Obj("Spot"):
                form = self.pick(["{x}.a", "-{x}.b", "({x}.a, -{x}.b)"])
            case TupleOf(items) if items[0] == INT:
                form = self.pick(["{x}[0]", "-{x}[0]", "({x}[0] % 2, {x}[0])"])
            case Tens(dtype, (int(), *_)) if exact and self.reads and dtype != "bool":
                form = self.pick(["float({x}{z})", "{x}{z}", "{x}.max()" if dtype[0] != "f" else "-{x}{z}"])
                return form.format(x=number(), z="[0]" * len(t.shape))
            case ListOf():
                form = "len({x})"
            case _:
                form = self.pick(["0", self.an_int(1)])
        return form.format(x=number())

    # ---- statements

    def of_lists(self, depth: int) -> None:
        """Sort, choose, nest, flatten, and walk lists."""
        found = self.some_list()
        v, k, n = self.name("v"), self.name("k"), self.name("i")
        if found is None:
            self.put(f"{v} = [{', '.join(self.value(INT, 1) for _ in range(self.pick([1, 3, 5])))}]")
            self.add(v, ListOf(INT), True, free=True)
            return
        xs, item, exact = found
        key = self.key_of(k, item, exact)
        match self.rng.randrange(13):
            case 0 | 1:
                form = self.pick(["sorted({xs}, key=lambda {k}: {key})", "sorted({xs}, key=lambda {k}: {key}, reverse=True)",
                                  "sorted({xs}, key=lambda {k}: {key})[: {n}]", "list(reversed(sorted({xs}, key=lambda {k}: {key})))"])  # fmt: skip
                self.put(f"{v} = {form.format(xs=xs, k=k, key=key, n=self.natural(3))}")
                self.add(v, ListOf(item), exact)
            case 2:
                self.put(f"{v} = list({xs})")
                self.put(f"{v}.sort(key=lambda {k}: {key}{self.pick(['', ', reverse=True'])})")
                self.add(v, ListOf(item), exact)
            case 3:
                best = self.pick(["min", "max"])
                if self.chance(0.5):
                    self.put(f"if {xs}:")
                    with self.inside():
                        self.put(f"{v} = {best}({xs}, key=lambda {k}: {key})")
                        self.enter_name(v, item, exact)
                        self.body(1, depth - 1)
                else:
                    self.put(
                        f"{n} = {best}(range(len({xs})), key=lambda {k}: {self.key_of(f'{xs}[{k}]', item, exact)}, default=-1)"
                    )
                    self.add(n, INT)
            case 4:  # decorated
                t = self.vector
                with self.bound((k, item, exact)):
                    value = self.value(t, 1)
                self.put(f"{v} = [({key}, {value}) for {k} in {xs}]")
                self.put(f"{v}.sort(key=lambda {k}: {self.pick([f'{k}[0]', f'({k}[0], 0)'])})")
                self.put(f"{n} = {v}[{self.pick(['0', '-1'])}][1] if {v} else {self.value(t, 1)}")
                self.add(n, t)
            case 5:  # nested
                with self.bound((k, item, exact), (n, INT, True)):
                    inner = self.value(self.pick([INT, INT, self.vector]), 1)
                t = self.vector if inner.startswith(("(", "np", "p.")) else INT
                with self.bound((k, item, exact), (n, INT, True)):
                    inner = self.value(t, 1)
                self.put(f"{v} = [[{inner} for {n} in range({self.natural(3)})] for {k} in {xs}]")
                self.add(v, ListOf(ListOf(t)), t == INT)
                self.add(f"sum(len({k}) for {k} in {v})", INT)
            case 6:
                if isinstance(item, ListOf):
                    self.put(f"{v} = [{n} for {k} in {xs} for {n} in {k}{self.pick(['', f' if {self.a_bool(1)}'])}]")
                    self.add(v, ListOf(item.item), exact)
                elif item == RECORD:
                    self.put(f"{v} = [{n} for {k} in {xs} if {k}.k > {self.natural(3)} for {n} in {k}.m]")
                    self.add(v, ListOf(INT), exact)
                else:
                    with self.bound((k, item, exact)):
                        test = self.a_bool(1)
                    self.put(f"{v} = [{k} for {k} in {xs} if {test}]")
                    self.add(v, ListOf(item), exact)
            case 7:
                with self.bound((k, item, exact)):
                    test, number = self.a_bool(1), self.an_int(1)
                form = self.pick(["int(any({test} for {k} in {xs}))", "int(all({test} for {k} in {xs}))", "sum({number} for {k} in {xs})",
                                  "max(({number} for {k} in {xs}), default=0)", "len([{k} for {k} in {xs} if {test}])",
                                  "min([{number} for {k} in {xs}], default=7)"])  # fmt: skip
                self.put(f"{n} = {form.format(k=k, xs=xs, test=test, number=number)}")
                self.add(n, INT)
            case 8:
                a, b = self.natural(3), self.an_int(1)
                self.put(
                    f"{v} = {xs}[{self.pick([f'{a}:', f':{b}', f'{a}:{b}', f'-({a}) - 1:', '::2', '::-1', f'{a}::2', '1:-1'])}]"
                )
                self.add(v, ListOf(item), exact)
            case 9:  # windows, and what lies beside
                t = self.vector
                self.put(f"{v} = {self.value(t, 1)}")
                with self.each(f"for {k}, {n} in zip({xs}, {xs}[1:]):", (k, item, exact), (n, item, exact)):
                    self.add(v, t)
                    self.put(f"{v} = np.tanh({v} * 0.5 + {self.value(t)})")
                self.add(v, t)
            case 10:  # a loop in a loop that is left
                self.put(f"{n} = 0")
                with self.each(f"for {k} in {xs}:", (k, item, exact)):
                    inner = self.name("q")
                    with self.each(
                        f"for {inner} in {f'{k}' if isinstance(item, ListOf) else f'range({self.natural(3)})'}:",
                        (inner, item.item if isinstance(item, ListOf) else INT, exact),
                    ):
                        self.put(f"if {self.a_bool(1)}:")
                        self.put(f"    {self.pick(['break', 'continue'])}")
                        self.put(f"{n} += {self.natural(3)}")
                    if self.chance(0.5):
                        self.put(f"if {n} > {self.natural(6)}:")
                        self.put(f"    {self.pick(['break', 'continue'])}")
                    self.put(f"{n} += 1")
                self.add(n, INT)
            case 11:  # a table of the last row, as dynamic programs keep
                m = self.pick([2, 3, 4])
                j, row = self.name("j"), self.name("r")
                self.put(f"{v} = [{k} * {self.pick(['1', '0.5', '2'])} for {k} in range({m})]")
                with self.each(f"for {k} in {xs}:", (k, item, exact)):
                    cost = self.pick([self.an_int(1), self.a_float(1)])
                    self.put(f"{row} = [{v}[0] + 1]")
                    self.put(f"for {j} in range(1, {m}):")
                    self.put(
                        f"    {row}.append({self.pick(['min', 'max'])}({v}[{j}] + 1, {row}[{j} - 1] + 1, {v}[{j} - 1] + {cost}))"
                    )
                    self.put(f"{v} = {row}")
                self.put(f"{n} = {v}[-1] + 0.0")
                self.add(n, FLOAT)
            case _:  # counts in places
                self.put(f"{v} = [0] * 3")
                with self.each(f"for {k} in {xs}:", (k, item, exact)):
                    self.put(f"{v}[({self.an_int(1)}) % 3] {self.pick(['+=', '='])} {self.natural(4)}")
                self.add(v, ListOf(INT), True)

    def a_key(self, kind: int) -> str:
        """Return a key of a dict: an int, or a tuple of ints, bools and members of an enum."""
        a, b = self.natural(3), self.natural(2)
        return [a, f"({a}, {b})", f"({self.a_bool(1)}, {a})", f"({a}, Colour.{self.pick(['RED', 'BLUE'])})"][kind]

    def of_strings(self, depth: int) -> None:
        """Count, collect and look up characters and words."""
        s, d, n, v, c = self.value(Str(), 1), self.name("d"), self.name("n"), self.name("v"), self.name("c")
        match self.rng.randrange(7):
            case 0:
                self.put(f"{d} = {{}}")
                self.put(f"for {c} in {s}:")
                self.put(f"    {d}[{c}] = {d}.get({c}, 0) + {self.an_int(1)}")
                self.put(f"{n} = len({d}) + sum({d}.values())")
                self.add(n, INT)
            case 1:
                self.put(f"{v} = [{c} for {c} in {s} if {c} {self.pick(['!=', '<', '=='])} {self.value(Str(), 0)}]")
                self.add(v, ListOf(Str()), True)
            case 2:
                self.put(f"{v} = ''")
                self.put(f"for {n}, {c} in enumerate({s}):")
                self.put(f"    if {n} % 2 == {self.natural(1)}:")
                self.put(f"        {v} = {self.pick([f'{c} + {v}', f'{v} + {c}', c])}")
                self.add(v, Str(), True)
            case 3:
                self.put(f"{n} = 0")
                self.put(f"for {c}, {d} in zip({s}, {self.value(Str(), 1)}):")
                self.put(f"    {n} += 1 if {c} == {d} else ord({c}) % 7")
                self.add(n, INT)
            case 4:
                self.put(f"{v} = {s}")
                self.put(f"{c} = {v}[0] if {v} else 'none'")
                self.add(v, Str(), True)
                self.add(c, Str(), True)
            case 5:
                found = self.find(lambda a: isinstance(a.type, MapOf))
                if found is None:
                    return
                self.put(f"{n} = 0")
                self.put(f"for {c}, {v} in {found.text}.items():")
                self.put(f"    {n} += 1 if {c} == {self.value(found.type.key, 0)} else 2")
                self.add(n, INT)
            case _:
                self.put(f"{d} = {{{s}: {self.an_int(1)}, {self.value(Str(), 1)}: {self.an_int(1)}}}")
                self.put(f"{n} = {d}.get({self.value(Str(), 1)}, 3) if {self.a_bool(1)} else len({d})")
                self.add(n, INT)

    def of_tuples(self, depth: int) -> None:
        """Make, take apart, compare and remember tuples of a length that only run time knows."""
        found = self.some_list(INT)
        t, u, k, n, d = self.name("t"), self.name("u"), self.name("k"), self.name("n"), self.name("d")
        xs = found[0] if found is not None else f"range({self.natural(6)})"
        self.put(f"{t} = tuple({xs})")
        a, b = self.natural(3), self.natural(5)
        match self.rng.randrange(7):
            case 0:  # grows
                self.put(f"{u} = {self.pick(['()', f'({a},)', f'{t}[:{a}]'])}")
                self.put(f"for {k} in {t}:")
                if self.chance(0.4):
                    self.put(f"    if {k} % 3 == {a}:")
                    self.put(f"        {self.pick(['continue', 'break', f'{u} = {u}[1:]'])}")
                self.put(
                    f"    {self.pick([f'{u} = {u} + ({k},)', f'{u} += ({k} % 4,)', f'{u} = (*{u}, {k})', f'{u} = ({k},) + {u}'])}"
                )
                self.add(f"len({u})", INT)
                self.add(f"list({u})", ListOf(INT), True)
            case 1:  # keys
                key = self.pick(
                    [f"{t}[:{k}]", f"{t}[{k}:]", f"tuple({n} % 2 for {n} in {t}[:{k}])", f"({k} % 2, {t}[:{k}])"]
                )
                self.put(f"{d} = {{}}")
                self.put(f"for {k} in range(len({t}) + 1):")
                self.put(f"    {d}[{key}] = {d}.get({key}, 0) + {k}")
                self.put(f"{n} = [{d}[{k}] for {k} in {self.pick([d, f'sorted({d})'])}]")
                self.add(n, ListOf(INT), True)
                self.add(f"len({d})", INT)
            case 2:  # what was seen
                self.put(
                    f"{d} = {{{t}[:{k}] for {k} in range({b})}} {self.pick(['|', '&', '-', '^'])} {{{t}[{k}:] for {k} in range({a})}}"
                )
                self.add(f"len({d})", INT)
                self.add(f"({t}[:{a}] in {d})", BOOL)
            case 3:  # compared
                other = self.pick([f"({a}, {b})", "()", f"{t}[:{a}]", f"({a},) * 2", f"{t}[::-1]"])
                self.put(
                    f"{n} = {self.pick([f'{t} == {other}', f'{t} < {other}', f'{other} != {t}', f'{t} >= {other}', f'{other} in [{t}]'])}"
                )
                self.add(n, BOOL)
            case 4:  # sorted
                self.put(
                    f"{u} = sorted([{t}[{k}:] + ({k},) for {k} in range({b})]{self.pick(['', ', reverse=True', f', key=lambda {k}: {k}[-1]'])})"
                )
                self.put(f"{n} = [sum({k}) for {k} in {u}]")
                self.add(n, ListOf(INT), True)
            case 5:  # either a list or a tuple
                self.put(f"{u} = {t} if {self.a_bool(1)} else {self.pick(['None', '()', f'[{a}]', f'({a}, {b})'])}")
                self.put(
                    f"{n} = {self.pick([f'len({u} or ())', f'isinstance({u}, tuple) + 0', f'sum({u}) if {u} else -1'])}"
                )
                self.add(n, INT)
            case _:  # taken apart
                self.put(f"if len({t}) > {a}:")
                with self.inside():
                    self.put(f"{u}, *{k} = (*{t}, {b})")
                    self.add(u, INT)
                    self.add(k, ListOf(INT), True)
                    self.body(1, depth - 1)
                self.add(f"len({t} * 2)", INT)

    def of_dicts(self, depth: int) -> None:
        """Count, group, remember and choose by keys; sets of what was seen."""
        found = self.some_list()
        d, k, n, v = self.name("d"), self.name("k"), self.name("n"), self.name("v")
        xs, item, exact = found if found is not None else (f"range({self.natural(6)})", INT, True)
        with self.bound((k, item, exact)):
            kind = self.pick([0, 0, 1, 2, 3])
            key, whole, value = self.a_key(kind), self.natural(5), self.value(self.vector, 1)
        again, other = self.a_key(kind), self.natural(5)
        match self.rng.randrange(11):
            case 0:
                self.put(f"{d} = {{}}")
                self.put(f"for {k} in {xs}:")
                self.put(f"    {d}[{key}] = {d}.get({key}, 0) + 1")
                self.put(f"{v} = {self.pick([f'list({d}.values())', f'[{n} * 2 for {n} in {d}.values()]'])}")
                self.add(v, ListOf(INT), True)
                self.add(f"len({d})", INT)
                self.add(f"{d}.get({again}, -1)", INT)
            case 1:
                self.put(f"{d} = {self.pick(['{}', 'defaultdict(list)'])}")
                add = f"{d}.setdefault({key}, []).append({whole})"
                self.put(f"for {k} in {xs}:")
                self.put(f"    {add}")
                self.put(f"{v} = [{n} for {k} in {d} for {n} in {d}[{k}]]")
                self.add(v, ListOf(INT), True)
            case 2:
                self.put(f"{d} = {{{again}: {self.value(self.vector, 1)}}}")
                self.put(f"for {k} in {xs}:")
                self.put(f"    {d}[{key}] = {value}")
                self.put(f"{v} = {d}[{again}]")
                self.add(v, self.vector)
            case 3:
                self.put(f"{d} = set()")
                self.put(f"{n} = 0")
                self.put(f"for {k} in {xs}:")
                self.put(f"    if ({key}) in {d}:")
                self.put(f"        {self.pick(['continue', f'{n} += 1', 'break'])}")
                self.put(f"    {d}.add({key})")
                self.add(n, INT)
                self.add(f"len({d})", INT)
            case 4:
                self.put(f"{d} = {{{k}: {other} for {k} in range({self.natural(5)})}}")
                self.put(f"{v} = {d}.pop({self.natural(3)}, {self.natural(3)})")
                self.put(f"{d}[{self.natural(3)}] = {v}")
                self.put(f"{n} = sum([{k} * {v} for {k}, {v} in {d}.items()])")
                self.add(n, INT)
                self.add(f"list({d})", ListOf(INT), True)
            case 5:
                self.put(f"{d} = {{{k}: {other} for {k} in range({self.natural(5)}) if {self.a_bool(1)}}}")
                self.put(f"{n} = {d}[{self.natural(2)}]")
                self.add(n, INT)
            case 6:
                self.put(f"{d} = {{{again}: {self.natural(3)}}}")
                self.put(f"{v} = {d}")
                self.put(f"for {k} in {xs}:")
                self.put(f"    {v}[{key}] = {whole}")
                self.put(f"{n} = len({d}) + sum({d}.values())")
                self.add(n, INT)
            case 7:
                self.put(f"{d} = {{{self.natural(4)}, {self.natural(4)}}}")
                self.put(f"{v} = {{{k} % 5 for {k} in range({self.natural(7)})}}")
                self.put(f"{n} = sorted({d} {self.pick(['|', '&', '-', '^'])} {v})")
                self.add(n, ListOf(INT), True)
                self.add(f"int({d} {self.pick(['<=', '==', '<'])} {v})", INT)
            case 8:
                self.put(f"{d} = {{}}")
                self.put(f"def {v}({k}, {n}):")
                self.put(f"    if ({k}, {n}) not in {d}:")
                self.put(
                    f"        {d}[{k}, {n}] = 1 if {k} <= 0 or {n} <= 0 else {v}({k} - 1, {n}) + {v}({k}, {n} - 1) % 97"
                )
                self.put(f"    return {d}[{k}, {n}]")
                self.add(f"{v}({self.natural(3)}, {self.natural(4)})", INT)
            case 9:
                self.put(f"{d} = {{}}")
                self.put(f"{d}['a'] = {self.natural(4)}")
                self.put(f"if {self.a_bool(1)}:")
                self.put(f"    {d}['b'] = {self.natural(4)}")
                self.put(f"{n} = {d}['a'] + {d}.get('b', 7)")
                self.add(n, INT)
            case 10:
                self.put(f"{d} = {{}}")
                self.put(f"for {k} in {xs}:")
                self.put(f"    {n}, {v} = {d}.get({whole}, (0, 0.0))")
                self.put(f"    {d}[{whole}] = ({n} + 1, {v} + 0.5)")
                self.put(f"{n} = sum([{k}[0] for {k} in {d}.values()])")
                self.add(n, INT)

    def of_arrays(self, depth: int) -> None:
        """Index by arrays of integers, cut and reduce what the run knows the extent of."""
        loose = self.find(
            lambda a: (
                isinstance(a.type, Tens) and bool(a.type.shape) and isinstance(a.type.shape[0], str) and not a.free
            )
        )
        v, k, n = self.name("v"), self.name("k"), self.name("i")
        if loose is None:
            self.define()
            return
        t, x = loose.type, loose.text
        assert isinstance(t, Tens)
        floats = t.dtype[0] == "f"
        whole = t.dtype in ("int64", "int32")
        size = f"{x}.shape[0]"
        inner = t.shape[1:]
        match self.rng.randrange(11):
            case 0 | 1 if whole and not inner:  # tokens
                table, rows = self.table(self.vector.shape, self.dtype)  # type: ignore[arg-type]
                if self.chance(0.4):
                    self.put(f"{v} = {table}[{x} % {rows}]")
                    self.add(v, Tens(self.dtype, (*t.shape, *self.vector.shape)), True)
                    return
                self.put(f"{v} = {self.value(self.vector, 1)}")
                with self.each(f"for {k} in {x}:", (k, Tens(t.dtype, ()), True)):
                    self.add(v, self.vector)
                    self.put(f"{v} = np.tanh({v} * 0.5 + {table}[{k} % {rows}])")
                    if self.chance(0.4):
                        self.body(1, depth - 1)
                self.add(v, self.vector)
            case 0 | 1 | 2 if floats:
                form, shape = self.pick([
                    ("{x}.sum(axis=0)", inner), ("np.mean({x}, axis=0)", inner), ("{x}.max(axis=0)", inner), ("np.min({x}, axis=0)", inner),
                    ("nn.softmax({x}, axis=0)", t.shape), ("{x}.std(axis=0)", inner), ("{x}.sum()", ()), ("{x}.mean()", ()), ("{x}.max()", ()),
                    ("({x} - {x}.mean(axis=0, keepdims=True))", t.shape), ("({x} * {x}).sum(axis=-1)", t.shape[:-1]), ("np.linalg.norm({x}, axis=0)", inner),
                    ("nn.logsumexp({x}, axis=0)", inner), ("np.prod(np.tanh({x}), axis=0)", inner), ("np.einsum('i,i->', {x}, {x})" if not inner else "{x}.T @ {x}", (*inner, *inner)),
                    ("np.flip({x}, 0)", t.shape), ("nn.softmax({x})", t.shape), ("np.var({x}, axis=0)", inner),
                ])  # fmt: skip
                text = form.format(x=x)
                if all(isinstance(e, int) for e in shape) and self.chance(0.6):
                    text += f" if {size} else {self.value(Tens(t.dtype, shape), 1)}"
                self.put(f"{v} = {text}")
                self.add(v, Tens(t.dtype, shape))
            case 3:
                form = self.pick(
                    [
                        "np.argmax({x}, axis=0)",
                        "{x}.argmin(axis=0)",
                        "np.any({x} > 1, axis=0).astype(np.int64)",
                        "({x} > 0).sum(axis=0)",
                        "np.all({x} == {x}, axis=0).astype(np.int64)",
                    ]
                )
                zero = f"np.zeros({inner}, np.int64)" if inner else "np.int64(0)"
                if all(isinstance(e, int) for e in inner):
                    self.put(f"{v} = {form.format(x=x)} if {size} else {zero}")
                    self.add(v, Tens(I64, inner), loose.exact and floats)
            case 4:  # cut by what the run knows
                a, b = self.natural(4), self.an_int(1)
                cut = self.pick(
                    [
                        f"{a}:",
                        f":{b}",
                        f"{a}:{b}",
                        f"-({a}) - 1:",
                        f"{a}::2",
                        "::-2",
                        f":-({a}) - 1",
                        f"{size} // 2:",
                        f": {size} // 2",
                    ]
                )
                self.put(f"{v} = {x}[{cut}]")
                self.add(v, Tens(t.dtype, (self.name("n"), *inner)), loose.exact)
            case 5 if all(isinstance(e, int) for e in inner) and floats:  # windows
                t2 = Tens(t.dtype, inner)
                self.put(f"{v} = {self.value(t2, 1)}")
                with self.each(f"for {k} in range({size} - {self.pick(['1', '2'])}):", (k, INT, True)):
                    self.add(v, t2)
                    self.put(f"{v} = {v} * 0.5 + {x}[{k} : {k} + 2].{self.pick(['sum', 'mean', 'max'])}(axis=0)")
                self.add(v, t2)
            case 6 | 7:  # rows at places that are computed
                places = self.find(
                    lambda a: (
                        isinstance(a.type, Tens) and a.type.dtype == "int64" and len(a.type.shape) == 1 and a.exact
                    )
                )
                if places is None:
                    places_text, many = f"np.arange({self.natural(4)}) * {self.natural(3)}", self.name("n")
                else:
                    assert isinstance(places.type, Tens)
                    places_text, many = places.text, places.type.shape[0]  # type: ignore[assignment]
                self.put(f"if {size}:")
                with self.inside():
                    self.put(f"{v} = {x}[({places_text}) % {size}]")
                    new = self.name("n") if isinstance(many, str) else many
                    self.add(v, Tens(t.dtype, (new, *inner)), loose.exact)
                    self.body(1, depth - 1)
            case 8 if self.reads and whole and not inner:
                self.put(f"{v} = [{k} % 5 for {k} in {x}.tolist()]")
                self.add(v, ListOf(INT), True)
            case 9 if self.reads and not inner and (whole or floats) and loose.exact:
                sign = self.pick(["", "-"])
                clean = f"{x}[{k}]" if whole else f"np.where({x}[{k}] == {x}[{k}], {x}[{k}], 0)"
                self.put(f"{v} = sorted(range({size}), key=lambda {k}: {sign}{clean})")
                self.add(v, ListOf(INT), True)
            case 10 if all(isinstance(e, int) for e in inner):
                self.put(f"{v} = [{k} for {k} in {x}]")
                self.add(v, ListOf(Tens(t.dtype, inner)), loose.exact)
                self.put(f"{n} = np.stack({v}[::-1]) if {v} else {x}")
                self.add(n, Tens(t.dtype, (self.name("n"), *inner)), loose.exact)
            case _:
                self.resize(v)

    def of_writes(self, depth: int) -> None:
        """Write into an array that is made here: rows, elements, slices, views of it, masks."""
        w, k, j, v = self.name("w"), self.name("k"), self.name("j"), self.name("v")
        many = self.pick([2, 3]) if self.chance(0.5) else self.name("n")
        size = str(many) if isinstance(many, int) else f"(({self.natural(5)}) + 1)"
        wide = self.pick([2, 3, self.vector.shape[0]])
        dtype = self.pick([self.dtype, self.dtype, I64])
        whole, row, one = Tens(dtype, (many, wide)), Tens(dtype, (wide,)), Tens(dtype, ())
        made = self.pick(["np.zeros(({0}, {1}), np.{2})", "np.ones(({0}, {1}), np.{2})", "np.arange({0} * {1}).reshape({0}, {1}).astype(np.{2})"])  # fmt: skip
        self.put(f"{w} = {made.format(size, wide, dtype)}")
        with self.each(f"for {k} in range({w}.shape[0]):", (k, INT, True)):
            match self.rng.randrange(5):
                case 0:
                    self.put(f"{w}[{k}] = {self.value(row, 1)}")
                case 1:
                    self.put(f"{w}[{k}] = {w}[{k} - 1] {self.pick('+*')} {self.value(row, 1)}")
                case 2:
                    with self.each(f"for {j} in range({wide}):", (j, INT, True)):
                        place = self.pick([f"{w}[{k}, {j}]", f"{w}[{k}][{j}]"])
                        self.put(f"{place} = {w}[{k} - 1, {j} - 1] + {self.value(one, 1)}")
                case 3:
                    self.put(f"{w}[{k}, {self.pick(['1:', ':-1', '::2', '::-1', ':'])}] {self.pick(['=', '+='])} {self.value(one, 1)}")  # fmt: skip
                case _:
                    self.put(f"{v} = {w}[{k}]")
                    self.put(f"{v}[{self.index(str(wide))}] = {self.value(one, 1)}")
        after = [
            f"{w}[{w} > 1] = {self.value(one, 1)}", f"{w}[:, {self.index(str(wide))}] = {self.pick(['2', '-1', '0'])}",
            f"{w}[::2] += 1", f"{w}[-1] = {self.value(row, 1)}", f"{w} *= 2", f"{w}[np.array([0, 0])] = {self.value(row, 1)}",
            f"{w}[{w}[:, 0] > 0] = 1", f"{w}.T[0] = 3", f"{w}[0], {w}[-1] = {w}[-1], {w}[0].copy()",
        ]  # fmt: skip
        for line in self.rng.sample(after, self.pick([0, 1, 2])):
            self.put(line)
        if self.reads and self.chance(0.3):  # a view by a scalar of NumPy
            at = f"{w}[({self.tensor(I64, (), 1, exact=True)[0]}) % {w}.shape[0]]"
            self.put(self.pick([f"{at}[0] = {self.value(one, 1)}", f"{at} += 1", f"{at}[1:] *= 2"]))
            if self.chance(0.5):
                self.put(f"{v} = {at}")
                self.put(f"{v}[-1] = {self.value(one, 1)}")
                self.add(v, row)
                self.add(w, whole)
                return
        if self.chance(0.4):
            self.put(f"{v} = {w}[0]")
            self.put(f"{w}[0, 0] = {self.value(one, 1)}")
            self.add(v, row)
        self.add(w, whole)

    def of_records(self, depth: int) -> None:
        """Make, change, match, and share objects."""
        v, k, n = self.name("v"), self.name("k"), self.name("i")
        have = self.find(lambda a: a.type == RECORD)
        match self.rng.randrange(11):
            case 0:
                self.put(f"{v} = {self.value(RECORD, 1)}")
                self.enter_name(v, RECORD)
            case 1 if have is not None:
                change = self.pick(
                    [
                        f"k={self.an_int(1)}",
                        f"h={self.value(self.vector, 1)}",
                        f"k={have.text}.k + 1, f={self.a_float(1)}",
                        f"inner=Inner({self.an_int(1)}, {have.text}.h)",
                        "m=[]",
                    ]
                )
                self.put(
                    f"{v} = {self.pick([f'dataclasses.replace({have.text}, {change})', f'{have.text}.moved({self.value(self.vector, 1)})', f'{have.text}.moved({have.text}.inner.w, by={self.natural(3)})'])}"
                )
                self.enter_name(v, RECORD)
            case 2 if have is not None:
                self.put(f"match {have.text}:")
                self.indent += 1
                self.put(
                    self.pick(
                        [
                            "case Record(k=0):",
                            f"case Record(k={n}) if {n} > 3:",
                            "case Record(m=[]):",
                            "case Record(e=Colour.RED):",
                            "case Record(k=1 | 2, m=[_]):",
                        ]
                    )
                )
                with self.inside():
                    self.body(1, depth - 1)
                self.put("case _:")
                with self.inside():
                    self.body(1, depth - 1)
                self.indent -= 1
            case 3:
                self.put(f"match ({self.an_int(1)} % 3, {self.a_bool(1)}):")
                self.indent += 1
                for case in self.rng.sample(
                    ["case (0, True):", f"case (1, {k}) if not {k}:", "case (2, _):", "case (0 | 1, False):"], 2
                ):
                    self.put(case)
                    with self.inside():
                        self.body(1, depth - 1)
                self.put("case _:")
                self.put("    pass")
                self.indent -= 1
            case 4:  # objects met twice
                self.put(f"{v} = {self.value(RECORD, 1)}")
                self.put(f"{n} = [{v}, {self.value(RECORD, 1)}, {v}]")
                self.put(f"{k} = int({n}[0].k == {n}[{self.pick(['1', '2', '-1'])}].k)")
                self.add(k, INT)
                self.add(n, ListOf(RECORD))
                self.enter_name(v, RECORD)
            case 5:  # a list in an object has two names
                self.put(f"{v} = [{self.an_int(1)}]")
                self.put(f"{n} = Group([], {self.an_int(1)})")
                self.put(f"for {k} in range({self.natural(3)}):")
                self.put(f"    {n}.parts.append(Square({k}))")
                self.put(f"    {v}.append(len({n}.parts))")
                self.add(v, ListOf(INT), True)
                self.add(n, Obj("Group"))
            case 6:
                self.put(f"{v} = {self.value(SPOT, 1)}")
                self.put(
                    f"{v} = {self.pick([f'{v}._replace(a={v}.a + 1)', f'Spot({v}.a - 1, b={v}.b, v={v}.v * 0.5)', v])}"
                )
                self.put(f"{n}a, {n}b, {n}v = {v}")
                self.add(f"{n}a", INT)
                self.add(f"{n}b", FLOAT)
                self.add(f"{n}v", self.vector)
                self.add(v, SPOT)
            case 7:  # a tree that is made here
                self.put(f"{v} = {self.pick(['Square', 'Square'])}({self.an_int(1)})")
                self.put(f"for {k} in range({self.natural(4)}):")
                with self.inside():
                    self.add(k, INT)
                    self.put(
                        f"{v} = {self.pick([f'Group([{v}, Round(0.5, {self.value(self.vector, 1)})], {k})', f'Turned({v}, {self.value(self.vector, 1)})', f'Group([{v}, {v}], {self.an_int(1)})'])}"
                    )
                self.add(v, SHAPE)
            case 8:  # a stack of one's own
                top = self.find(lambda a: a.type == SHAPE)
                if top is None:
                    return
                self.put(f"{v}, {n} = [{top.text}], {self.value(self.vector, 1)}")
                with self.looping() as after:
                    self.put(f"while {v}:")
                    with self.inside():
                        self.put(f"{k} = {v}.pop({self.pick(['', '0'])})")
                        self.put(f"if isinstance({k}, Group):")
                        self.put(f"    {v}.extend({k}.parts)")
                        self.put(f"elif isinstance({k}, Turned):")
                        self.put(f"    {v}.append({k}.part)")
                        self.put(f"elif isinstance({k}, Round):")
                        self.put(f"    {n} = np.tanh({n} + {k}.h * {k}.r)")
                        self.put("else:")
                        self.put(f"    {n} = {n} * 0.5 + {k}.s")
                after()
                self.add(n, self.vector)
            case 9:  # one of several types
                self.put(f"{v} = None")
                self.put(f"if {self.a_bool(1)}:")
                self.put(f"    {v} = {self.value(self.vector, 1)}")
                self.put(f"elif {self.a_bool(1)}:")
                self.put(f"    {v} = ({self.value(self.vector, 1)}, {self.an_int(1)})")
                self.put(f"elif {self.a_bool(1)}:")
                self.put(f"    {v} = {self.an_int(1)}")
                self.put(f"if {v} is None:")
                self.put(f"    {n} = {self.value(self.vector, 1)}")
                self.put(f"elif isinstance({v}, tuple):")
                self.put(f"    {n} = {v}[0] * {v}[1]")
                self.put(f"elif isinstance({v}, int):")
                self.put(f"    {n} = {self.value(self.vector, 1)} + {v}")
                self.put("else:")
                self.put(f"    {n} = {v}")
                self.add(n, self.vector)
            case _:  # an int on one path, a float on the other
                self.put(f"{v} = {self.an_int(1)}")
                self.put(f"if {self.a_bool(1)}:")
                self.put(f"    {v} = {self.a_float(1)}")
                self.put(f"{n} = {v} {self.pick(['+', '*', '-'])} {self.natural(3)}")
                self.put(f"{k} = {n} + 0.0")
                self.add(k, FLOAT)

    def of_functions(self, depth: int) -> None:
        """Make and use closures."""
        v, k, g = self.name("v"), self.name("k"), self.name("g")
        t = self.vector
        held = [a for a in self.atoms if not a.free]
        match self.rng.randrange(7):
            case 0:  # what it captures is a name of this function
                before, self.atoms = self.atoms, held
                self.put(f"def {g}(a, b={self.natural(3)}, *, c=0.5):")
                with self.inside():
                    self.add("a", t)
                    self.add("b", INT)
                    self.add("c", FLOAT)
                    if self.chance(0.5):
                        self.put(f"if {self.a_bool(1)}:")
                        self.put(f"    return {self.value(t, 1)}")
                    self.put(f"return {self.value(t)}")
                self.atoms = before
                self.put(
                    f"{v} = {self.pick(['{g}({x})', '{g}({x}, {n})', '{g}({x}, c={f})', 'applied({g}, {x})', 'twice({g}, {x})']).format(g=g, x=self.value(t, 1), n=self.an_int(1), f=self.a_float(1))}"
                )
            case 1:  # one that makes another
                self.put(f"{g} = lambda s: lambda a: a * s + {self.value(t, 1)}")
                self.put(f"{v} = {g}({self.a_float(1)})({self.value(t, 1)})")
            case 2:
                functions = self.rng.sample(
                    ["np.tanh", "nn.relu", "nn.sigmoid", "lambda a: a * 0.5", "lambda a: a + SCALE", "abs", "np.sin"], 2
                )
                self.put(f"{v} = {self.value(t, 1)}")
                self.put(f"for {k} in ({', '.join(functions)}):")
                self.put(f"    {v} = {k}({v})")
            case 3:  # that calls itself
                before, self.atoms = self.atoms, held
                self.put(f"def {g}(n, a):")
                with self.inside():
                    self.add("n", INT)
                    self.add("a", t)
                    self.put("if n <= 0:")
                    self.put(f"    return {self.value(t, 1)}")
                    self.put(
                        f"return {self.pick(['{g}(n - 1, {x})', 'np.tanh({g}(n - 1, a)) + {x}', '{g}(n - 2, a) * 0.5 + {g}(n - 1, {x})']).format(g=g, x=self.value(t))}"
                    )
                self.atoms = before
                self.put(f"{v} = {g}({self.natural(4)}, {self.value(t, 1)})")
            case 4:  # in a list that is walked
                self.put(f"{g} = (lambda a: a * 0.5, lambda a: np.tanh(a) + {self.value(t, 1)})")
                self.put(f"{v} = {self.value(t, 1)}")
                self.put(f"for {k} in {g}:")
                self.put(f"    {v} = {k}({v})")
            case 5:
                self.put(
                    f"{v} = twice(lambda a: {self.pick(['np.tanh(a)', 'a * 0.5', 'a'])} + {self.value(t, 1)}, {self.value(t, 1)})"
                )
            case _:  # over names of the loop
                self.put(f"{v} = {self.value(t, 1)}")
                with self.each(f"for {k} in range({self.natural(3)}):", (k, INT, True)):
                    self.put(f"{g} = lambda a: a * {k} + {self.value(t, 1)}")
                    self.put(f"{v} = {g}({v})")
        self.add(v, t)

    def of_keys(self, depth: int) -> None:
        """Draw random numbers."""
        key = self.find(lambda a: isinstance(a.type, KeyOf))
        if key is None:
            self.define()
            return
        v, k = self.name("v"), self.name("k")
        n = self.extent()
        one = self.value(KeyOf(), 1)
        single = Tens("float32", ())
        match self.rng.randrange(8):
            case 0:
                form = self.pick(
                    ["random.normal({k}, {n})", "random.uniform({k}, ({n},))", "random.gumbel({k}, ({n},))"]
                )
                self.put(f"{v} = {form.format(k=one, n=n)}.astype(np.{self.dtype})")
                self.add(v, Tens(self.dtype, (n,)))
            case 1:
                self.put(f"{v} = random.integers({one}, 0, {self.pick([2, 7, 100])}, {n})")
                self.add(v, Tens(I64, (n,)), True)
            case 2:
                self.put(f"{v} = {self.pick(['random.bernoulli({})', 'random.bernoulli({}, 0.3)']).format(one)}")
                self.add(v, Tens("bool", ()), True)
            case 3:
                self.put(f"{v} = random.{self.pick(['choice', 'choice'])}({one}, {self.pick([2, 5])})")
                self.add(v, Tens(I64, ()), True)
            case 4:  # an extent that the run knows
                self.put(f"{v} = random.integers({one}, 0, 5, {self.natural(4)})")
                self.add(v, Tens(I64, (self.name("n"),)), True)
            case 5:
                self.put(f"{v} = {self.value(self.vector, 1)}")
                with self.each(f"for {k} in range({self.natural(4)}):", (k, INT, True)):
                    if self.reads:
                        self.put(f"if random.bernoulli({key.text}.child({k}), 0.3):")
                        self.put(f"    {self.pick(['break', 'continue'])}")
                    self.put(
                        f"{v} = {v} + random.normal({key.text}.child({k}), {self.vector.shape[0]}).astype(np.{self.dtype})"
                    )
                self.add(v, self.vector)
            case 6:
                self.put(f"{v} = {one}")
                self.add(v, KeyOf())
            case _:
                self.put(f"{v} = random.uniform({one})")
                self.add(v, single)

    def of_searches(self, depth: int) -> None:
        """Keep the best few, find the first, leave early."""
        t = self.vector
        v, k, n, q = self.name("v"), self.name("k"), self.name("i"), self.name("q")
        match self.rng.randrange(5):
            case 0:  # a beam
                a, b = self.pick(["()", "[]"])
                self.put(f"{v} = [{a}{self.an_int(1)}, {self.value(t, 1)}{b}]")
                with self.each(f"for {k} in range({self.natural(3)}):", (k, INT, True)):
                    self.put(f"{n} = []")
                    self.put(f"for {q}s, {q}h in {v}:")
                    with self.inside():
                        self.add(f"{q}s", INT)
                        self.add(f"{q}h", t)
                        self.put(f"{n}.append({a}{q}s + {self.an_int(1)}, {self.value(t, 1)}{b})")
                        self.put(f"{n}.append({a}{self.an_int(1)}, np.tanh({q}h * 0.5 + {self.value(t, 1)}){b})")
                    self.put(
                        f"{v} = sorted({n}, key=lambda a: {self.pick(['-a[0]', 'a[0]'])})[:{self.pick(['2', '3', self.natural(2) + ' + 1'])}]"
                    )
                self.put(f"{q} = {v}[0][1]")
                self.add(q, t)
            case 1 if self.result is not None and not self.loops:  # a return in a loop
                found = self.some_list()
                header, items = (
                    (f"for {k} in range({self.natural(4)}):", [(k, INT, True)])
                    if found is None
                    else (f"for {k} in {found[0]}:", [(k, found[1], found[2])])
                )
                with self.each(header, *items):  # type: ignore[arg-type]
                    self.put(f"if {self.a_bool(1)}:")
                    self.put(f"    return {self.value(self.result, 1)}")
            case 2:  # shift and reduce
                self.put(f"{v}, {n} = [], {self.natural(3)}")
                with self.each(f"for {k} in range({self.natural(5)}):", (k, INT, True)):
                    self.put(f"if len({v}) >= 2 and {self.a_bool(1)}:")
                    self.put(f"    {q}r = {v}.pop()")
                    self.put(f"    {q}l = {v}.pop()")
                    self.put(f"    {v}.append(np.tanh({q}l + {q}r))")
                    self.put(f"    {n} += 1")
                    self.put("else:")
                    self.put(f"    {v}.append({self.value(t, 1)})")
                self.put(f"{q} = {v}[-1] if {v} else {self.value(t, 1)}")
                self.add(q, t)
                self.add(n, INT)
            case 3 if self.reads:  # until a value says so
                whole = Tens(I64, ())
                self.put(f"{n}, {v} = 0, {self.tensor(I64, (), 1, exact=True)[0]}")
                with self.looping() as after:
                    self.put(f"while {n} < {self.natural(5)}:")
                    with self.inside():
                        self.add(v, whole, True)
                        self.put(f"{n} += 1")
                        self.put(f"{v} = {v} * 3 % 11 + {n}")
                        self.put(f"if {v} % 4 == {self.natural(3)}:")
                        self.put(f"    {self.pick(['break', 'continue'])}")
                after()
                self.add(n, INT)
                self.add(v, whole, True)
            case _:
                searches = [f for f in self.functions if f.name.startswith("first")]
                if not searches:
                    self.define()
                    return
                f = self.pick(searches)
                self.put(f"{v}, {n} = {self.call(f)}")
                self.add(v, INT)
                self.add(n, t)

    def of_names(self, depth: int) -> None:
        """Change lists that have several names, or lie in other things."""
        v, k, n, q = self.name("v"), self.name("k"), self.name("i"), self.name("q")
        item: Type = self.pick([INT, INT, self.vector])
        new = lambda: self.value(item, 1)
        match self.rng.randrange(10):
            case 0:  # in several places of one list
                self.put(f"{q} = [{new()}]")
                self.put(
                    f"{v} = {self.pick(['[{q}] * 3', '[{q}, [], {q}]', '[{q}[:], {q}]', '[list({q}), {q}, {q} + {q}]']).format(q=q)}"
                )
                self.put(f"{v}[{self.pick(['0', '1', '-1', self.index(f'len({v})')])}].append({new()})")
                self.add(f"len({q})", INT)
                self.add(v, ListOf(ListOf(item)), item == INT)
            case 1:  # elements change places
                self.put(f"{v} = [{new()}, {new()}, {new()}]")
                a, b = (self.pick(["0", "1", "-1", f"({self.an_int(1)}) % 3"]) for _ in range(2))
                self.put(f"{v}[{a}], {v}[{b}] = {v}[{b}], {v}[{a}]")
                self.put(f"{n} = {v}[{self.pick(['0', '1', '2'])}]")
                self.add(n, item, item == INT)
                self.add(v, ListOf(item), item == INT)
            case 2:  # in a record
                self.put(f"{q} = [{self.an_int(1)}]")
                self.put(f"{v} = dataclasses.replace({self.value(RECORD, 1)}, m={q})")
                self.put(
                    f"{n} = {self.pick([v, f'dataclasses.replace({v}, k={v}.k + 1)', f'{v}.moved({self.value(self.vector, 1)})'])}"
                )
                self.put(f"{self.pick([q, f'{v}.m', f'{n}.m'])}.append({self.an_int(1)})")
                self.put(f"{k} = len({v}.m) + sum({n}.m) + {n}.score()")
                self.add(k, INT)
                self.enter_name(n, RECORD)
            case 3:  # in tuples
                self.put(f"{q} = []")
                self.put(f"{v} = (({q}, {self.an_int(1)}), ([{new()}], {self.an_int(1)}))")
                self.put(f"for {k}, {n} in {v}:")
                self.put(f"    if {n} > {self.natural(4)}:")
                self.put(f"        {k}.append({new()})")
                self.put(f"{n} = len({q}) * 10 + len({v}[1][0])")
                self.add(n, INT)
            case 4:  # changed by a function, and by one inside
                before, self.atoms = self.atoms, [a for a in self.atoms if not a.free]
                self.put(f"def {q}(xs, n):")
                with self.inside():
                    self.add("n", INT)
                    self.put(f"xs.append({new()})")
                    self.put(f"if {self.pick(['n > 0', self.a_bool(1)])}:")
                    self.put(f"    xs.insert(0, {new()})")
                    self.put(f"return {self.pick(['xs', 'xs[:]', 'xs[-1:]', 'len(xs)'])}")
                    whole = self.lines[-1].endswith("len(xs)")
                self.atoms = before
                self.put(f"{v} = [{new()}]")
                self.put(f"{n} = {q}({v}, {self.natural(2)})")
                if not whole:
                    self.put(f"{n}.append({new()})")
                    self.add(n, ListOf(item), item == INT)
                self.add(v, ListOf(item), item == INT)
            case 5:  # one name for either
                self.put(f"{v}, {n} = [{new()}], []")
                self.put(f"{q} = {v} if {self.a_bool(1)} else {n}")
                self.put(f"{q}.append({new()})")
                self.put(f"if {self.a_bool(1)}:")
                self.put(f"    {q} = {self.pick([v, n, f'{q} + {v}', '[]'])}")
                self.put(f"{q}.extend({self.pick([v, n])}[:2])")
                self.add(v, ListOf(item), item == INT)
                self.add(n, ListOf(item), item == INT)
            case 6:  # emptied while it is filled
                self.put(f"{v} = [{self.an_int(1)}, {self.an_int(1)}]")
                self.put(f"{n} = 0")
                self.put(f"while {v} and {n} < {self.natural(5)} + 1:")
                self.put(f"    {q} = {v}.pop({self.pick(['', '0'])})")
                self.put(f"    {n} += 1")
                self.put(f"    if {q} % 3 {self.pick(['== 0', '!= 1', '> 1'])}:")
                self.put(f"        {v}.append({q} // 2)")
                self.put(f"        {v}.insert({self.pick(['0', '1', 'len(' + v + ')'])}, {q} - 1)")
                self.add(n, INT)
                self.add(v, ListOf(INT), True)
            case 7:  # carried by a loop under another name
                self.put(f"{v} = []")
                self.put(f"{q} = {v}")
                self.put(f"for {k} in range({self.natural(4)}):")
                self.put(f"    {q}.append({k})")
                self.put(f"    if {k} % 2 == {self.pick([0, 1])}:")
                self.put(f"        {q} = {self.pick([f'{q}[:]', f'{q} + [{k}]', '[]', v])}")
                self.add(v, ListOf(INT), True)
                self.add(q, ListOf(INT), True)
            case 8:  # nested, made by a comprehension, and changed after
                self.put(f"{v} = [[{k}] for {k} in range({self.natural(3)} + 1)]")
                self.put(f"{q} = [{k} for {k} in {v}]")
                self.put(f"{q}[0].append({self.an_int(1)})")
                self.put(f"for {k} in {v}{self.pick(['', '[::-1]', '[:2]'])}:")
                self.put(f"    {k}.append(len({q}[-1]))")
                self.add(v, ListOf(ListOf(INT)), True)
            case _:  # an object that is carried, and what it was before
                self.put(f"{v} = {self.value(RECORD, 1)}")
                self.put(f"{q} = [{v}]")
                with self.each(f"for {k} in range({self.natural(3)}):", (k, INT, True)):
                    self.put(
                        f"{v} = dataclasses.replace({v}, k={v}.k + {k}, h={self.pick([f'{v}.h * 0.5', f'{v}.inner.w', f'np.tanh({v}.h)'])})"
                    )
                    self.put(f"{q}.append({v})")
                self.put(f"{n} = {q}[-1].k - {q}[0].k")
                self.add(n, INT)
                self.add(q, ListOf(RECORD))

    def of_numbers(self, depth: int) -> None:
        """Compute with ints and floats as Python does, and unpack."""
        v, k, n = self.name("v"), self.name("k"), self.name("i")
        a, b, c = self.an_int(1), self.an_int(1), self.an_int(1)
        f, g = self.a_float(1), self.a_float(1)
        match self.rng.randrange(9):
            case 0:
                form = self.pick(["({a} or {b})", "({a} and {b})", "({a} and {b} or {c})", "-7 // (abs({a}) % 3 + 2)", "-({a}) % 4", "divmod({a}, 3)[0]",
                                  "({a} > {b}) + ({b} > {c})", "min({a}, {b}, {c})", "max([{a}, {b}], key=lambda k: -k)", "(~({a}) & 7)", "({a}) % 9 << 2",
                                  "int({a} < {b} < {c})", "sum([{a}, {b}], {c})", "int({a} in (0, 1, {b}))", "abs({a} - {b})", "round({f} * 2)",
                                  "math.floor({f}) + math.ceil({g})", "int({f} // 0.5)", "int(({a}, {b}) < ({b}, {c}))",
                                  "len(range({a}, {b}, 2))", "pow({a} % 5, 2)", "({a} % 4) ** ({b} % 3)", "bool({a}) + 1", "int(not {a})", "int(bool({f}))"])  # fmt: skip
                self.put(f"{n} = {form.format(a=a, b=b, c=c, f=f, g=g)}")
                self.add(n, INT)
            case 1:
                form = self.pick(["min({f}, {a}) + 0.0", "max({a}, {f}, {g}) * 1.0", "({a} if {t} else {f}) / 2", "({f} or {g}) + 0.0", "sum([{f}, {a}, {g}]) + 0.0",
                                  "{f} % 0.75", "{f} // -0.5", "({f} - {g}) * {a}", "abs({f} - {a})", "float({a}) / 4", "(abs({f}) + 1) ** 2", "2.0 ** ({a} % 4)",
                                  "math.copysign({f}, {g})", "math.hypot({f}, {g})", "math.fmod({f}, 1.5)", "({a} % 3) / 2 + {f}", "-{f} if {t} else {g}", "min([{f}, {g}, 0.5])",
                                  "math.trunc({f}) / 2", "1 / (1 + abs({f}))", "round({f} * 4) / 4", "max(({f}, 1), ({g}, 2))[0]", "math.fabs({f})"])  # fmt: skip
                self.put(f"{v} = {form.format(a=a, f=f, g=g, t=self.a_bool(1))}")
                self.add(v, FLOAT)
            case 2:
                self.put(f"{v}, ({n}, {k}), *_ = {a}, ({f}, {self.value(self.vector, 1)}), {b}")
                self.add(v, INT)
                self.add(n, FLOAT)
                self.add(k, self.vector)
            case 3:
                self.put(f"{v} = {n} = 0")
                self.put(
                    f"for {k} in {self.pick([f'range({self.natural(6)}, -2, -2)', f'reversed(range({self.natural(5)}))', f'range(-1, {self.natural(5)}, 2)', f'[{a}, {b}, {c}]'])}:"
                )
                self.put(f"    {v}, {n} = {n} + {k}, {v} - {self.pick(['1', k, b])}")
                self.put(f"    if {v} > {self.natural(6)}:")
                self.put(f"        {self.pick(['break', 'continue', f'{n} += 1'])}")
                self.put(f"    {n} += {self.pick(['1', k])}")
                self.add(v, INT)
                self.add(n, INT)
            case 4:  # loops in loops that are left for good
                self.put(f"{v}, {n} = 0, False")
                self.put(f"for {k} in range({self.natural(4)}):")
                self.put(f"    for {k}k in range({k}, {self.natural(5)}):")
                self.put(f"        {v} += {k} * {k}k")
                self.put(f"        if {v} > {self.natural(8)} or {k}k == {self.natural(3)}:")
                self.put(f"            {n} = True")
                self.put("            break")
                self.put(f"    if {n}:")
                self.put(f"        {self.pick(['break', 'continue', f'{n} = False'])}")
                self.add(v, INT)
                self.add(n, BOOL)
            case 5:
                self.put(
                    f"{v} = [{n} for {k} in range({self.natural(5)}) if ({n} := {k} * {self.natural(3)} - 1) != 2]"
                )
                self.add(v, ListOf(INT), True)
            case 6:
                self.put(f"match [{a}, {b}][{self.pick(['0', '1', '-1'])}] % 4:")
                self.put("    case 0 | 1:")
                self.put(f"        {n} = {a}")
                self.put(f"    case {k} if {k} == {self.natural(3)}:")
                self.put(f"        {n} = {k} - 7")
                self.put("    case _:")
                self.put(f"        {n} = {b}")
                self.add(n, INT)
            case 7:
                self.put(f"{v} = {{'a': {a}, 'b': ({f}, [{b}])}}")
                self.put(f"{v} = {{'a': {v}['a'] + {v}['b'][1][0], 'b': {v}['b']}}")
                self.put(f"{n} = {v}['a'] + len({v}['b'][1])")
                self.add(n, INT)
            case _:
                self.put(f"{n} = None if {self.a_bool(1)} else {a}")
                self.put(
                    f"{v} = {self.pick([f'{n} or {b}', f'0 if {n} is None else {n} + 1', f'{n} if {n} is not None and {n} > 2 else {b}', f'({n} is None) + 1'])}"
                )
                self.add(v, INT)

    # ---- functions of the module

    def function_of(self, name: str, params: list[tuple[str, Type]], result: Type, write: Callable[[], None]) -> None:
        """Write a function that is given `p` too."""
        self.put(f"def {name}({', '.join([*(n for n, _ in params), 'p'])}):")
        atoms, self.atoms, saved, self.result = self.atoms, [], self.result, result
        with self.inside():
            for n, t in params:
                self.enter_name(n, t)
            write()
        self.atoms, self.result = atoms, saved
        self.put("")
        self.put("")

    def mutual(self) -> None:
        """Write functions that call each other, so many times."""
        t = self.vector
        names = [self.name("turn") for _ in range(self.pick([2, 2, 3]))]
        for k, name in enumerate(names):
            other = names[(k + 1) % len(names)]

            def write(other: str = other, name: str = name) -> None:
                self.put("if n <= 0:")
                self.put(f"    return {self.value(t, 1)}")
                if self.chance(0.4):
                    self.body(1, 0)
                if self.chance(0.3):
                    self.put(f"if {self.a_bool(1)}:")
                    self.put(f"    return {name}(n - 2, {self.value(t, 1)}, p)")
                self.put(f"r = {other}(n - 1, {self.value(t, 1)}, p)")
                self.add("r", t)
                self.put(f"return {self.value(t)}")

            self.function_of(name, [("n", INT), ("a", t)], t, write)
        self.functions.append(Function(names[0], (Kind("small"), t), t))

    def search(self) -> None:
        """Write a function that returns out of its loop."""
        item = self.pick([INT, RECORD, self.vector, ListOf(INT)])
        name, result = self.name("first"), TupleOf((INT, self.vector))

        def write() -> None:
            self.put("for i, x in enumerate(xs):")
            with self.inside():
                self.add("i", INT)
                self.enter_name("x", item)
                if isinstance(item, ListOf):
                    self.put("for y in x:")
                    self.put(f"    if y == {self.natural(5)}:")
                    self.put(f"        return y, {self.value(self.vector, 1)}")
                self.put(f"if {self.a_bool(1)}:")
                self.put(f"    return {self.pick(['i', 'i + 1', self.an_int(1)])}, {self.value(self.vector, 1)}")
                if self.chance(0.4):
                    self.put(f"if {self.a_bool(1)}:")
                    self.put(f"    {self.pick(['break', 'continue'])}")
            self.put(f"return -1, {self.value(self.vector, 1)}")

        self.function_of(name, [("xs", ListOf(item))], result, write)
        self.functions.append(Function(name, (ListOf(item),), result))

    def measure(self) -> None:
        """Write a recursion over a union, with a partner for one of its classes."""
        t, name = self.vector, self.name("measure")

        def write() -> None:
            self.put("match t:")
            self.indent += 1
            self.put("case Round(r, h):")
            with self.inside():
                self.add("r", FLOAT)
                self.add("h", t)
                self.put(f"return {self.value(t)}")
            self.put("case Square(s) if s > 3:")
            with self.inside():
                self.add("s", INT)
                self.put(f"return {self.value(t, 1)}")
            self.put("case Square(s):")
            with self.inside():
                self.add("s", INT)
                self.put(f"return {self.value(t)}")
            self.put("case Group(parts, k):")
            with self.inside():
                self.add("k", INT)
                self.put(f"return {name}_all(parts, {self.an_int(1)}, p)")
            self.put("case Turned(part, h):")
            with self.inside():
                self.put(f"r = {name}(part, p)")
                self.add("r", t)
                self.add("h", t)
                self.put(f"return {self.value(t)}")
            self.indent -= 1
            self.put(f"return {self.value(t, 1)}")

        def write_all() -> None:
            style = self.rng.randrange(3)
            self.put(f"s = {self.value(t, 1)}")
            if style == 0:
                self.put("for c in parts:")
                with self.inside():
                    self.put(f"r = {name}(c, p)")
                    self.add("r", t)
                    self.add("s", t)
                    self.put(f"s = np.tanh({self.value(t)} + s)")
            elif style == 1:
                self.put(f"hs = [{name}(c, p) for c in parts]")
                self.put("if hs:")
                self.put(
                    f"    s = {self.pick(['np.stack(hs).max(axis=0)', 'np.mean(np.stack(hs), axis=0)', 'sum(hs, s)'])}"
                )
            else:
                self.put("if not parts:")
                self.put(f"    return {self.value(t, 1)}")
                self.put(f"s = {name}(parts[0], p) * 0.5 + {name}_all(parts[1:], k + 1, p)")
            self.add("s", t)
            self.put(f"return {self.value(t)}")

        self.function_of(name, [("t", SHAPE)], t, write)
        self.function_of(f"{name}_all", [("parts", ListOf(SHAPE)), ("k", INT)], t, write_all)
        self.functions.append(Function(name, (SHAPE,), t))

    def higher(self) -> None:
        """Write a function that is given a function."""
        self.put("def twice(f, x):")
        self.put(f"    return f({self.pick(['f(x)', 'f(x) * 0.5', 'x'])})")
        self.put("")
        self.put("")


def generate(seed: int, size: int = 6) -> Case:
    """Return the case of a seed."""
    return Writer(random.Random(seed), size).make()
