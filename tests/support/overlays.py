"""Random programs that write attributes of what came in: of a shared network, of a part of it, and of trees.

Aliases, objects on several paths, recursion, branches, loops, nested functions, properties, `setattr`, lists and
counters. Instances are trees, whose nodes may or may not have the attributes already, and may refer to another node of
their tree (`mate`). As a command: `python -m tests.support.overlays 0 1000`.
"""

from __future__ import annotations

import copy
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from acronumba import model
from acronumba.api.check import compare
from acronumba.api.results import equal
from acronumba.errors import AcronumbaError, InstanceErrors
from tests.support.modules import import_file

HEAD = """
import numpy as np


class Node:
    def __init__(self, v, kids):
        self.v = v
        self.kids = kids
        self.mate = None

    def mark(self, x):
        self.state = x

    @property
    def size(self):
        return self.count

    @size.setter
    def size(self, n):
        self.count = n


class Sub:
    def __init__(self):
        self.x = np.full(3, 0.5, np.float32)
        self.k = 1

    def bump(self, v):
        self.x = np.tanh(self.x + v)
        self.k += 1


class Holder:
    def __init__(self, sub, net):
        self.sub = sub
        self.subs = [sub, Sub()]
        self.m = 0

    def push(self, v):
        self.sub.bump(v)
        self.m += self.sub.k


class Net:
    def __init__(self):
        self.w = np.linspace(-1, 1, 9, dtype=np.float32).reshape(3, 3)
        self.h = np.full(3, 0.25, np.float32)
        self.n = 0
        self.last = None
        self.pair = None
        self.outs = []
        self.sub = Sub()
        self.holder = Holder(self.sub, self)
        self.again = [self.holder, Holder(Sub(), self)]

"""
SUBS = (
    "self.sub", "self.holder.sub", "self.holder.subs[0]", "self.again[0].sub", "self.again[1].sub",
    "self.again[1].subs[0]", "self.holder.subs[1]",
)  # fmt: skip
HOLDERS = "self.holder", "self.again[0]", "self.again[1]"


class Writer:
    """Writes one program."""

    def __init__(self, seed: int) -> None:
        self.r = random.Random(seed)
        self.lines: list[str] = []
        self.left = 0
        self.where = ""
        self.locals: list[str] = []
        self.uses = {f for f in FEATURES if self.r.random() < 0.55}

    def has(self, *features: str) -> bool:
        return self.uses.issuperset(features)

    def pick(self, *options: str) -> str:
        return self.r.choice([o for o in options if o])

    def vector(self, node: str, depth: int = 2) -> str:
        r = self.r
        leaf = [f"np.full(3, {node}.v, np.float32)", f"np.ones(3, np.float32) * np.float32({node}.v)", *self.locals]
        if self.has("self"):
            leaf += [f"{self.me()}.h"] * 2
        if self.has("state"):
            leaf += [f"{node}.state"] * 2
        if self.has("sub"):
            leaf += [f"{self.sub()}.x"]
        if self.has("pair"):
            leaf += ["self.pair[0]"]
        if depth == 0 or r.random() < 0.4:
            return r.choice(leaf)
        a = self.vector(node, depth - 1)
        return self.pick(f"np.tanh(self.w @ {a})", f"({a} + {self.vector(node, depth - 1)})", f"({a} * 0.5)", a)

    def sub(self) -> str:
        """Return a path of an object `Sub`: several lead to the same one."""
        return self.r.choice(SUBS) if self.has("paths") else "self.sub"

    def me(self) -> str:
        return self.pick("self", "me" if "alias" in self.uses else "self")

    def number(self, node: str) -> str:
        options = ["1", "2", f"len({node}.kids)", f"int({node}.v)"]
        options += [f"{self.me()}.n"] * 2 * self.has("n") + [f"{node}.count", f"{node}.size"] * self.has("count")
        options += ["len(self.outs)"] * self.has("outs") + [f"{self.sub()}.k"] * self.has("sub")
        options += [f"{self.r.choice(HOLDERS)}.m"] * self.has("sub", "paths")
        a = self.r.choice(options)
        return self.pick(a, f"({a} + {self.r.choice(options)})", f"min({a}, 5)")

    def test(self, node: str) -> str:
        options = [f"{node}.v > {self.r.randrange(4)}", f"len({node}.kids) > 1", f"{self.number(node)} > 1"]
        options += ["self.last is None"] * self.has("last") + [f"hasattr({node}, 'state')"] * self.has("state", "asks")
        return self.r.choice(options)

    def put(self, depth: int, text: str) -> None:
        self.lines.append("    " * depth + text)

    def block(self, depth: int, node: str, count: int, kids: bool = True) -> None:
        before = list(self.locals)
        start = len(self.lines)
        for _ in range(count):
            self.statement(depth, node, kids)
        if len(self.lines) == start:
            self.put(depth, "pass")
        self.locals = before

    def statement(self, depth: int, node: str, kids: bool) -> None:
        r = self.r
        self.left -= 1
        simple: list[Callable[[], None]] = []

        def say(text: str) -> None:
            simple.append(lambda: self.put(depth, text))

        if self.has("self"):
            say(f"{self.me()}.h = {self.vector(node)}")
            say(
                f"self.h += {self.vector(node, 1)}"
                if r.random() < 0.3
                else f"setattr(self, 'h', {self.vector(node, 1)})"
            )
        if self.has("n"):
            say(self.pick(f"{self.me()}.n += {self.number(node)}", f"self.n = {self.number(node)}"))
        if self.has("state"):
            say(f"{node}.state = {self.vector(node)}")
            say(f"{node}.mark({self.vector(node, 1)})")
            say(f"if {node}.mate is not None:\n{'    ' * (depth + 1)}{node}.mate.state = {self.vector(node, 1)}")
        if self.has("count"):
            say(
                self.pick(
                    f"{node}.count = {self.number(node)}", f"{node}.count += 1", f"{node}.size = {self.number(node)}"
                )
            )
        if self.has("sub"):
            say(
                self.pick(
                    f"{self.sub()}.bump({self.vector(node, 1)})",
                    f"{self.sub()}.x = {self.vector(node, 1)}",
                    f"{self.sub()}.k += 1",
                )
            )
        if self.has("sub", "paths"):
            say(f"{self.r.choice(HOLDERS)}.push({self.vector(node, 1)})")
            say(f"{self.r.choice(HOLDERS)}.m = {self.number(node)}")
            say(f"s = {self.sub()}\n{'    ' * depth}s.k = 3 if s is {self.sub()} else s.k")
            say(
                self.pick(
                    f"for s in self.holder.subs:\n{'    ' * (depth + 1)}s.x = s.x * 0.5",
                    f"for h in self.again:\n{'    ' * (depth + 1)}h.push({self.vector(node, 1)})",
                )
            )
        if self.has("outs"):
            say(f"self.outs.append({self.vector(node, 1)})")
            say("self.outs = []")
        if self.has("last"):
            say(self.pick(f"self.last = {node}", "self.last = None", f"self.last = {node}.mate"))
            inner = "    " * (depth + 1)
            say(f"if self.last is not None:\n{inner}y = self.last.v\n{inner}self.n = int(y)")
        if self.has("pair"):
            say(f"self.pair = ({self.vector(node, 1)}, {self.number(node)})")
        if self.has("helper") and self.where != "helper":
            say(f"self.helper({node}, {self.vector(node, 1)})")
        name = f"x{r.randrange(3)}"
        simple.append(lambda: (self.put(depth, f"{name} = {self.vector(node)}"), self.locals.append(name))[0])  # type: ignore[func-returns-value]
        roll = r.random()
        if self.left <= 0 or roll < 0.62 or depth > 4:
            r.choice(simple)()
        elif roll < 0.78:
            self.put(depth, f"if {self.test(node)}:")
            self.block(depth + 1, node, r.randrange(1, 3), kids)
            if r.random() < 0.5:
                self.put(depth, "else:")
                self.block(depth + 1, node, r.randrange(1, 3), kids)
        elif roll < 0.9 and kids:
            self.put(depth, f"for k in {node}.kids:")
            if r.random() < 0.15:
                self.put(depth + 1, f"if k.v > {r.randrange(1, 5)}:")
                self.put(depth + 2, self.pick("break", "continue"))
            self.block(depth + 1, "k", r.randrange(1, 3), False)
        elif roll < 0.95 and self.has("n"):
            self.put(depth, "self.n = 0")
            self.put(depth, f"while self.n < {r.randrange(1, 4)}:")
            self.put(depth + 1, "self.n += 1")
            if self.has("self"):
                self.put(depth + 1, f"self.h = {self.vector(node)}")
        elif "nested" in self.uses:
            inner = f"inner{len(self.lines)}"
            self.put(depth, f"def {inner}():")
            self.block(depth + 1, node, r.randrange(1, 3), False)
            self.put(depth, f"{inner}()")
        else:
            r.choice(simple)()

    def method(self, name: str, args: str, count: int, recursive: bool = False) -> None:
        r, self.where, self.left, self.locals = self.r, name, count + 4, []
        self.put(1, f"def {name}(self, node{args}):")
        if args:
            self.locals.append("x")
        if self.has("alias"):
            self.put(2, "me = self")
        if name == "forward":
            for feature, text in INITS.items():
                if self.has(feature) and r.random() < 0.8:
                    self.put(2, text)
            if self.has("alias"):
                self.put(2, "t = node")
        self.block(2, "node", count)
        if recursive:
            self.put(2, "for k in node.kids:")
            self.put(3, "self.visit(k)")
            self.block(2, "node", r.randrange(1, 3))
        if name == "forward":
            self.put(2, "self.visit(node)")
            self.block(2, self.pick("node", "t" if self.has("alias") else ""), r.randrange(3))
            total = " + ".join(["0", *("sum(self.outs[0]) * 0" for _ in range(0))])
            numbers = ", ".join(self.number("node") for _ in range(2))
            self.put(2, f"return {self.vector('node')}, {numbers}, {total}")
        self.put(0, "")


FEATURES = ("self", "n", "state", "count", "sub", "outs", "last", "pair", "helper", "alias", "nested", "asks", "paths")
INITS = {
    "self": "self.h = np.zeros(3, np.float32)",
    "n": "self.n = 0",
    "state": "node.state = np.ones(3, np.float32)",
    "count": "node.count = 0",
    "sub": "self.sub.x = np.zeros(3, np.float32)\n        self.sub.k = 0",
    "paths": "\n        ".join(
        [
            "for s in [*self.holder.subs, self.again[1].sub, self.again[1].subs[1]]:",
            "    s.x = np.zeros(3, np.float32)",
            "    s.k = 1",
            "for h in self.again:",
            "    h.m = 0",
        ]
    ),
    "outs": "self.outs = []",
    "last": "self.last = None",
    "pair": "self.pair = (np.zeros(3, np.float32), 0)",
}


def program(seed: int) -> str:
    """Return the text of program number `seed`: classes `Node` and `Net`, whose method `forward` is the model."""
    w = Writer(seed)
    w.lines = [HEAD.rstrip("\n"), ""]
    w.method("helper", ", x", w.r.randrange(1, 3))
    w.method("visit", "", w.r.randrange(0, 3), recursive=w.r.random() < 0.8)
    w.method("forward", "", w.r.randrange(0, 3))
    w.put(0, "\ndef f(node, *, net):\n    return net.forward(node)")
    return "\n".join(w.lines) + "\n"


def trees(seed: int, module: Any) -> list[Any]:
    """Return instances of a program."""
    r = random.Random(seed + 10**6)
    given = r.choice(("none", "all", "some"))
    out = []
    for _ in range(4):
        made: list[Any] = []

        def grow(depth: int, made: list[Any] = made) -> Any:
            node = module.Node(float(r.randrange(1, 5)), [])
            made.append(node)
            if given == "all" or (given == "some" and r.random() < 0.5):
                node.state = np.full(3, r.randrange(3), np.float32)
                node.count = r.randrange(3)
            node.kids = [grow(depth - 1) for _ in range(r.randrange(3) if depth else 0)]
            return node

        out.append(grow(3))
        for node in made:
            if r.random() < 0.4:
                node.mate = r.choice(made)
    return out


def alike(mine: Any, theirs: Any) -> bool:
    """Whether two outcomes are the same, up to rounding."""
    return equal(mine, theirs) or compare(mine, theirs, theirs)[0] in ("equal", "close") or _near(mine, theirs)


def _near(mine: Any, theirs: Any) -> bool:
    if isinstance(mine, tuple):
        return len(mine) == len(theirs) and all(map(_near, mine, theirs))
    return type(mine) is type(theirs) and np.shape(mine) == np.shape(theirs) and np.allclose(mine, theirs, 1e-4, 1e-5)


def outcome_of_plain(fn: Callable[..., Any], instance: Any, net: Any, without: str = "") -> Any:
    """Return the result of the plain call on copies, or its exception; `without`: no object has this attribute."""
    instance, net = copy.deepcopy((instance, net))
    stack = [instance, net] if without else []
    for obj in stack:  # grows while it is iterated over
        held = [x for v in vars(obj).values() for x in (v if isinstance(v, list) else [v])]
        stack += [x for x in held if hasattr(x, "__dict__") and not any(x is y for y in stack)]
        vars(obj).pop(without, None)
    try:
        return fn(instance, net=net)
    except Exception as error:
        return error


def outcomes(run: Callable[..., Any], instances: Sequence[Any], net: Any) -> list[Any]:
    """Return the results of a mini-batch, or the exceptions of its instances."""
    try:
        return list(run(instances, net=net))
    except InstanceErrors as failed:
        return [failed.errors.get(k, result) for k, result in enumerate(failed.results)]


def state_of(values: Any) -> Any:
    """Return everything that is reachable from objects, in a comparable form."""
    seen: dict[int, int] = {}

    def of(v: Any) -> Any:
        if isinstance(v, np.ndarray):
            return v.tolist()
        if isinstance(v, list | tuple):
            return [of(x) for x in v]
        if hasattr(v, "__dict__"):
            if id(v) in seen:
                return seen[id(v)]
            seen[id(v)] = len(seen)
            return {name: of(x) for name, x in vars(v).items()}
        return v

    return of(values)


counts: Counter[str] = Counter()  # of the instances compared by `verdict`


def verdict(seed: int, module: Any, ways: Sequence[str] = ("batch", "_interpret")) -> str:
    """Run program number `seed` in several ways; return "" if all is well, a code if it is rejected, else the fault."""
    instances, net = trees(seed, module), module.Net()
    before = state_of([instances, net])
    wanted = [outcome_of_plain(module.f, t, net) for t in instances]
    for state in ("written", "initial"):
        f = model(module.f, state=state)
        for way in ways:
            try:
                got = outcomes(getattr(f, way), instances, net)
                turned = outcomes(f.batch, instances[::-1], net)[::-1] if way == "batch" else got
            except InstanceErrors:
                raise
            except AcronumbaError as error:
                return f"{way}, {state}: {error}" if error.code in ("ACR798", "ACR799") else str(error.code)
            if state_of([instances, net]) != before:
                return f"{way}, {state}: the objects have changed"
            for k, (mine, again, theirs) in enumerate(zip(got, turned, wanted, strict=True)):
                if not equal(mine, again) and not (isinstance(mine, Exception) and str(mine) == str(again)):
                    return f"{way}, {state}: [{k}]: {mine!r}, in another order {again!r}"
                if not _as_promised(mine, theirs, module, instances[k], net, state):
                    return f"{way}, {state}: [{k}]: {mine!r}, but plain {theirs!r}"
    return ""


def _as_promised(mine: Any, theirs: Any, module: Any, instance: Any, net: Any, state: str) -> bool:
    """Whether the outcome of an instance is that of its plain call, or may be another failure."""
    code = mine.code if isinstance(mine, AcronumbaError) else ""
    if code == "ACR118":
        counts["read before it was written"] += 1
        name = mine.seen.split(",")[0].rsplit(".", 1)[1]
        found = outcome_of_plain(module.f, instance, net, without=name)
        asks = "hasattr" in Path(module.__file__).read_text(encoding="utf-8")
        return state == "written" and (asks or (isinstance(found, AttributeError) and f"'{name}'" in str(found)))
    if code:  # rejected for some types, or a write into an array that came in
        counts["rejected"] += 1
        return True
    counts["failed" if isinstance(theirs, Exception) else "equal"] += 1
    if isinstance(theirs, Exception):
        return type(mine) is type(theirs) and str(mine) == str(theirs)
    return not isinstance(mine, Exception) and alike(mine, theirs)


def main() -> int:
    """Run the programs of a range of seeds; print what is wrong."""
    first, last = map(int, sys.argv[1:3])
    found: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, last):
            path = Path(folder) / f"program_{seed}.py"
            path.write_text(program(seed), encoding="utf-8")
            text = verdict(seed, import_file(path), ["_interpret"])
            found[text[:6] if text.startswith("ACR") else "wrong" if text else "right"] += 1
            if text and (not text.startswith("ACR") or "-v" in sys.argv):
                print(seed, text, flush=True)
    print(dict(found), dict(counts))
    return int(bool(found["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
