"""Random programs over dicts of constant keys that are mutated, with aliases, branches, loops and recursion."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

KEYS = ("a", "b", "c", "if", "n n")
Spec = dict[str, str]  # the keys that a dict surely has, and the kinds of their values


class Writer:
    """One random program; `lines` is the body of its model, which has a number `n` and an array `x`."""

    def __init__(self, seed: int) -> None:
        self.rand = random.Random(seed)
        self.lines: list[str] = []
        self.dicts: dict[str, Spec] = {}
        self.lists: dict[str, Spec] = {}  # lists of dicts that have these keys
        self.count = 0
        self.indent = 1
        self.loops = 0
        self.kinds = self.rand.choice((("int", "float"), ("int", "array", "text"), ("int", "float", "list", "array")))

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.indent + line)

    def name(self, prefix: str) -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    # ---- expressions

    def value(self, kind: str) -> str:
        rand = self.rand
        known = [f"{d}[{k!r}]" for d, spec in self.dicts.items() for k, t in spec.items() if t == kind]
        if known and rand.random() < 0.5:
            one = rand.choice(known)
            return {"int": f"{one} % 7 + 1", "float": f"{one} * 0.5", "array": f"{one} + 1.0"}.get(kind, one)
        plain: dict[str, tuple[str, ...]] = {
            "int": ("n", str(rand.randint(0, 9)), "n * 2"), "float": ("0.5", "n * 0.25"), "array": ("x", "x * 2.0"),
            "text": ("'s'", "'t' if n > 1 else 'u'"), "list": ("[n]", "[1, 2]"), "none": ("None",),
        }  # fmt: skip
        return rand.choice(plain[kind])

    def display(self, spec: Spec) -> str:
        return "{" + ", ".join(f"{k!r}: {self.value(t)}" for k, t in spec.items()) + "}"

    def spec(self, least: int = 1) -> Spec:
        keys = self.rand.sample(KEYS, self.rand.randint(least, 3))
        return {k: self.rand.choice(self.kinds) for k in keys}

    def some(self) -> str | None:
        return self.rand.choice(list(self.dicts)) if self.dicts else None

    # ---- statements

    def make(self) -> None:
        rand = self.rand
        name, spec = self.name("d"), self.spec()
        if rand.random() < 0.3 and self.dicts:  # the keys of another one
            spec = dict(self.dicts[rand.choice(list(self.dicts))])
        how = rand.random()
        if how < 0.5:
            self.emit(f"{name} = {self.display(spec)}")
        elif how < 0.8:
            self.emit(f"{name} = {{}}")
            for k, t in spec.items():
                self.emit(f"{name}[{k!r}] = {self.value(t)}")
        else:
            old = self.some()
            if old is None:
                self.emit(f"{name} = {self.display(spec)}")
            else:
                spec = self.dicts[old] | spec
                more = ", ".join(f"{k!r}: {self.value(t)}" for k, t in spec.items() if rand.random() < 0.5)
                spec = dict(self.dicts[old]) if not more else spec
                self.emit(
                    f"{name} = {{**{old}, {more}}}"
                    if more
                    else f"{name} = {rand.choice((f'dict({old})', f'{old}.copy()'))}"
                )
                spec = {k: t for k, t in spec.items() if k in self.dicts[old] or f"{k!r}: " in more}
        self.dicts[name] = spec

    def write(self) -> None:
        rand, name = self.rand, self.some()
        if name is None:
            return
        spec = self.dicts[name]
        if not spec:
            return
        key = rand.choice(list(spec))
        kind = spec[key]
        how = rand.random()
        if how < 0.45:
            self.emit(f"{name}[{key!r}] = {self.value(kind)}")
        elif how < 0.65 and kind in ("int", "float", "array"):
            self.emit(f"{name}[{key!r}] {rand.choice(('+=', '-='))} {self.value(kind)}")
        elif how < 0.75 and key.isidentifier() and key != "if":
            self.emit(f"{name}.update({key}={self.value(kind)})")
        elif how < 0.82:
            self.emit(f"{name} |= {{{key!r}: {self.value(kind)}}}")
        elif kind == "list":
            self.emit(f"{name}[{key!r}].append(n)")
        elif how < 0.9:
            self.emit(f"{name}.setdefault({key!r}, {self.value(kind)})")
        else:
            self.emit(f"change({name}, {key!r}, {self.value(kind)})")

    def add(self) -> None:
        name = self.some()
        if name is None:
            return
        key, kind = self.rand.choice(KEYS), self.rand.choice(self.kinds)
        spec = self.dicts[name]
        kind = spec.get(key, kind)
        self.emit(f"{name}[{key!r}] = {self.value(kind)}")
        aliases = {d for d, s in self.dicts.items() if s is spec}
        if self.indent == 1:
            spec[key] = kind
        assert aliases

    def alias(self) -> None:
        rand, old = self.rand, self.some()
        if old is None:
            return
        how = rand.random()
        name = self.name("d")
        spec = self.dicts[old]
        if how < 0.4:
            self.emit(f"{name} = {old}")
        elif how < 0.7:
            other = rand.choice([d for d, s in self.dicts.items() if list(s.items()) == list(spec.items())])
            self.emit(f"{name} = {old} if n > {rand.randint(0, 3)} else {other}")
        elif how < 0.85:
            self.emit(f"{name} = same({old})")
        else:
            self.emit(f"{name} = ({old}, n)[0]")
        self.dicts[name] = spec

    def listed(self) -> None:
        rand, old = self.rand, self.some()
        if old is None:
            return
        if self.lists and rand.random() < 0.6:
            xs = rand.choice(list(self.lists))
            spec = self.lists[xs]
            fitting = [d for d, s in self.dicts.items() if s.items() >= spec.items()]
            if fitting and rand.random() < 0.6:
                self.emit(f"{xs}.append({rand.choice(fitting)})")
                return
            name = self.name("d")
            self.emit(f"{name} = {xs}[{rand.choice(('0', '-1', f'n % len({xs})'))}]")
            self.dicts[name] = dict(spec)
            return
        xs = self.name("xs")
        self.emit(f"{xs} = [{old}]")
        self.lists[xs] = dict(self.dicts[old])

    def block(self, head: str, size: int) -> None:
        self.emit(head)
        self.indent += 1
        dicts, lists = dict(self.dicts), dict(self.lists)
        before = len(self.lines)
        for _ in range(size):
            self.statement()
        if len(self.lines) == before:
            self.emit("pass")
        self.indent -= 1
        self.dicts, self.lists = dicts, lists

    def statement(self) -> None:
        rand = self.rand
        how = rand.random()
        if how < 0.2:
            self.make()
        elif how < 0.5:
            self.write()
        elif how < 0.58:
            self.add()
        elif how < 0.7:
            self.alias()
        elif how < 0.82:
            self.listed()
        elif how < 0.88 and self.indent < 3:
            self.block(f"if n > {rand.randint(0, 4)}:", rand.randint(1, 3))
        elif how < 0.94 and self.indent < 3 and self.loops < 2:
            self.loops += 1
            self.block(
                rand.choice(("for i in range(n):", "for i in range(2):", "for i in [1, n]:")), rand.randint(1, 3)
            )
        else:
            self.odd()

    def odd(self) -> None:
        """Emit a statement that few programs have."""
        rand, name = self.rand, self.some()
        if name is None or not self.dicts[name]:
            return
        key = rand.choice(list(self.dicts[name]))
        kind = self.dicts[name][key]
        one, two = "\n" + "    " * (self.indent + 1), "\n" + "    " * (self.indent + 2)
        here = "\n" + "    " * self.indent
        forms: list[Callable[[], str]] = [
            lambda: f"total += len({name}) + ({key!r} in {name}) + ('zz' in {name})",
            lambda: f"for k, v in {name}.items():{one}total += len(k)",
            lambda: f"for k in {name}:{one}total = total * 2 + len(k)",
            lambda: f"names.extend({name}.keys())",
            lambda: f"names += list({name})",
            lambda: f"total += {name} is {self.some()}",
            lambda: f"total += repeat({name}, {key!r}, n)",
            lambda: f"names.append({name}.get('zz', 'none'))",
            lambda: f"names += [k for k in {name} if k > 'a']",
            lambda: f"copied = copy.deepcopy({name}){here}copied[{key!r}] = n{here}total += len(copied)",
            lambda: f"for j, (k, v) in enumerate({name}.items()):{one}total += j * len(k)",
        ]
        if kind in ("int", "float"):
            change = f"if k == {key!r}:{two}{name}[{key!r}] += 1{two}total += v"
            forms.append(lambda: f"total += sum([v for k, v in {name}.items() if k == {key!r}])")
            forms.append(lambda: f"for k, v in {name}.items():{one}{change}")
        if set(self.dicts[name].values()) <= {"int", "float"}:
            forms.append(lambda: f"total += {name} == {self.some()}")
            write = f"{name}[{key!r}] = {self.value(kind)}"
            forms.append(lambda: f"view = {name}.values(){here}{write}{here}total += sum(view)")
            forms.append(lambda: f"total += sum([add({name}, {key!r}) + v for v in {name}.values()])")
        if rand.random() < 0.25:
            forms = [
                lambda: f"{name}[names[0]] = {self.value(kind)}",
                lambda: f"{name}.pop({key!r}, None)",
                lambda: f"if n > 2:{one}{name}['q'] = {self.value(kind)}",
                lambda: f"for k in {name}:{one}{name}['late'] = {self.value(kind)}",
                lambda: f"del {name}[{key!r}]",
            ]
        self.emit(rand.choice(forms)())

    def program(self) -> str:
        self.make()
        for _ in range(self.rand.randint(4, 12)):
            self.statement()
        names = list(self.dicts)
        chosen = self.rand.sample(names, min(len(names), 3))
        out = ", ".join([*chosen, *self.rand.sample(list(self.lists), min(len(self.lists), 1)), "total", "names"])
        return "\n".join(
            [*_HELPERS, "def run(n, x):", "    total = 0", "    names = ['w']", *self.lines, f"    return {out}", ""]
        )


_HELPERS = """from __future__ import annotations

import copy


def add(d, k):
    d[k] += 1
    return 0


def change(d, k, v):
    d[k] = v


def same(d):
    return d


def repeat(d, k, n):
    if n <= 0:
        return len(d)
    d[k] = d[k]
    return repeat(d, k, n - 1) + 1


""".split("\n")


def program(seed: int) -> tuple[str, list[Any], list[Any]]:
    """Return the source of a model `run(n, x)`, and its columns."""
    writer = Writer(seed)
    text = writer.program()
    numbers = [writer.rand.randint(0, 5) for _ in range(4)]
    return text, numbers, [np.full(2, k, np.float32) for k in range(4)]


def form(value: Any) -> Any:
    """Return a value in a form that tells types and order."""
    if isinstance(value, dict):
        return "dict", tuple((k, form(v)) for k, v in value.items())
    if isinstance(value, list | tuple):
        return type(value).__name__, tuple(form(v) for v in value)
    if isinstance(value, np.ndarray | np.generic):
        return type(value).__name__, str(value.dtype), value.tolist()
    return type(value).__name__, value
