# ruff: noqa: E501

"""Random programs of PyTorch that write into tensors, through any of their names and views.

`program(seed)` returns source code; the function `f` in it takes two tensors and an int. Shapes are followed while it
is written, so that most programs run in PyTorch. Programs from `MODULES` on also call modules, some of which write into
their arguments. As a command: `python -m tests.support.torch_programs 0 1000`.
"""

from __future__ import annotations

import collections
import linecache
import random
import sys
from typing import Any

import torch

import acronumba.torch
from acronumba.errors import AcronumbaError

Shape = tuple[int, ...]
MODULES = 100000

HELPERS = """
import torch
from torch import nn
from torch.nn import functional as F


class Box:
    def __init__(self, t):
        self.t = t
        self.count = 0

    def grow(self, by):
        self.t.add_(by)
        self.count += 1
        return self.t

    def renew(self):
        self.t = self.t * 2
        return self


def grow(t, by):
    t.add_(by)
    return t


def first_row(t):
    row = t[0]
    row.mul_(2)
    return row


def doubled(t):
    out = t * 2
    out += 1
    return out


def two_views(t):
    return t[0], t[1]


def changed_copy(t):
    t = t.clone()
    t.fill_(0.5)
    return t


def same(t):
    return t


def put(t, k, v):
    t[k] = v


def total(ts):
    s = 0
    for t in ts:
        s += t.sum()
    return s


class Block(nn.Module):
    def __init__(self, down=None):
        super().__init__()
        self.first, self.second = nn.Conv1d(3, 3, 3, padding=1), nn.Conv1d(3, 3, 1)
        self.relu, self.down = nn.ReLU(inplace=True), down

    def forward(self, x):
        identity = x
        out = self.relu(self.first(x))
        out = self.second(out)
        if self.down is not None:
            identity = self.down(x)
        out += identity
        out = self.relu(out)
        return out


torch.manual_seed(1)
relu, lin = nn.ReLU(inplace=True), nn.Linear(4, 4)
down = nn.Sequential(nn.Conv1d(3, 3, 1), nn.LayerNorm(4))
blocks = nn.ModuleList([Block(), Block(down), Block(nn.ReLU(inplace=True)), Block()])
chain = nn.Sequential(nn.Conv1d(3, 3, 1), nn.ReLU(inplace=True), *blocks)


def windows(t):
    return [t[:, k : k + 3] for k in range(2)]


"""


class Program:
    """A program while it is written: its lines, and the names that are bound, with their shapes."""

    def __init__(self, seed: int) -> None:
        self.r, self.modules = random.Random(seed), seed >= MODULES
        self.lines: list[str] = []
        self.depth = 1
        self.count = 0
        self.shapes: dict[str, Shape] = {"x": (3, 4), "y": (4,)}
        self.inputs = {"x", "y"}  # names whose elements came in
        self.whole: set[str] = set()  # names that are no views with repeated elements
        self.lists: dict[str, Shape] = {}
        self.boxes: dict[str, Shape] = {}
        self.family: dict[str, str] = {}  # of each name, one whose tensor may share its memory

    def emit(self, line: str) -> None:
        self.lines.append("    " * self.depth + line)

    def name(self, prefix: str = "v") -> str:
        self.count += 1
        return f"{prefix}{self.count}"

    def pick(self, shape: Shape | None = None, written: bool = False, rank: int | None = None) -> str | None:
        names = [
            n for n, s in self.shapes.items() if (shape is None or s == shape) and (rank is None or len(s) == rank)
        ]
        if written:
            names = [n for n in names if n not in self.inputs or self.r.random() < 0.01]
        return self.r.choice(names) if names else None

    def number(self) -> str:
        return self.r.choice(["1", "0.5", "-2", "3.0", "0"])

    def root(self, name: str) -> str:
        while self.family.get(name, name) != name:
            name = self.family[name]
        return name

    def share(self, a: str, b: str) -> None:
        """Note that two names may share memory."""
        self.family[self.root(a)] = self.root(b)

    def operand(self, shape: Shape, into: str = "") -> str:
        """Return an expression that broadcasts to a shape, and does not overlap with what is written `into`."""
        fits = [n for n, s in self.shapes.items() if _broadcasts(s, shape)]
        if into:
            root = self.root(into.split(".")[0].split("[")[0])
            fits = [n for n in fits if n == into or self.root(n) != root]
        if fits and self.r.random() < 0.6:
            return self.r.choice(fits)
        return self.number()

    def value(self, shape: Shape) -> str:
        """Return an expression of a new tensor of a shape."""
        name = self.pick(shape)
        if name is None or self.r.random() < 0.15:
            return f"torch.zeros({', '.join(map(str, shape))})" if shape else "torch.tensor(1.5)"
        return self.r.choice([
            f"{name} * {self.number()}", f"{name} + {self.operand(shape)}", f"{name}.clone()", f"torch.tanh({name})",
            f"doubled({name})", f"changed_copy({name})", f"torch.where({name} > 0, {name}, {name} * 2)",
        ])  # fmt: skip

    def bind(self, name: str, shape: Shape, of: str | None = None) -> None:
        self.shapes[name] = shape
        if of is not None:
            self.share(name, of.split(".")[0].split("[")[0])
        if of in self.inputs:
            self.inputs.add(name)
        else:
            self.inputs.discard(name)

    # ---- statements

    def new(self) -> None:
        shape = self.r.choice([(3, 4), (4,), (3,), (), (4, 3), (2, 2)])
        name = self.name()
        self.emit(f"{name} = {self.value(shape)}")
        self.bind(name, shape)

    def rebind(self) -> None:
        name = self.pick()
        if name is None or name in ("x", "y"):
            return
        value = self.value(self.shapes[name])
        self.emit(f"{name} = {value}")
        self.inputs.discard(name)

    def alias(self) -> None:
        old = self.pick()
        assert old is not None
        name = self.name()
        stand_in = self.r.choice(["", "", ".contiguous()", ".detach()", ".data", ".float()"])
        if stand_in == ".contiguous()" and self.shapes[old] == (4, 3):
            stand_in = ""
        text = f"same({old})" if self.r.random() < 0.2 else f"{old}{stand_in}"
        self.emit(f"{name} = {text}")
        self.bind(name, self.shapes[old], old)

    def view(self) -> None:
        old = self.pick()
        assert old is not None
        s = self.shapes[old]
        options: list[tuple[str, Shape]] = []
        if len(s) == 2:
            i, j = self.r.randrange(s[0]), self.r.randrange(s[1])
            options += [
                (f"{old}[{i}]", s[1:]), (f"{old}[:, {j}]", s[:1]), (f"{old}.t()", s[::-1]), (f"{old}.T", s[::-1]),
                (f"{old}[{i}, {j}]", ()), (f"{old}[:2, :2]", (2, 2)), (f"{old}.transpose(0, 1)", s[::-1]),
                (f"{old}.select(1, {j})", s[:1]), (f"{old}.narrow(0, 0, 2)[:, :2]", (2, 2)), (f"{old}[{i}:{i + 1}]", (1, s[1])),
                (f"{old}.unsqueeze(0).squeeze(0)", s), (f"{old}.unbind(0)[{i}]", s[1:]), (f"{old}.chunk({s[0]})[{i}]", (1, s[1])),
                (f"two_views({old})[1]", s[1:]), (f"first_row({old})" if old not in self.inputs else f"{old}[0]", s[1:]),
                (f"{old}.split(1, 1)[{j}].squeeze(1)", s[:1]), (f"{old}[..., {j}]", s[:1]),
            ]  # fmt: skip
        if len(s) == 1 and s:
            i = self.r.randrange(s[0])
            options += [(f"{old}[{i}]", ()), (f"{old}[:]", s), (f"{old}[None]", (1, *s)), (f"{old}.view(1, -1)", (1, *s)),
                        (f"{old}.unsqueeze(0)", (1, *s))]  # fmt: skip
        if not options:
            return
        text, shape = self.r.choice(options)
        if self.r.random() < 0.1 and len(s) == 2:
            a, b = self.name(), self.name()
            self.emit(f"{a}, {b}, *_ = {old}")
            self.bind(a, s[1:], old)
            self.bind(b, s[1:], old)
            return
        name = self.name()
        self.emit(f"{name} = {text}")
        self.bind(name, shape, old)

    def target(self) -> tuple[str, Shape] | None:
        """Return an expression of a tensor to be changed in place, and its shape."""
        way = self.r.random()
        if way < 0.12 and self.boxes:
            box = self.r.choice(list(self.boxes))
            return f"{box}.t", self.boxes[box]
        if way < 0.2 and self.lists:
            xs = self.r.choice(list(self.lists))
            return f"{xs}[{self.r.choice(['0', '-1', 'k % len(' + xs + ')'])}]", self.lists[xs]
        name = self.pick(written=True)
        return None if name is None else (name, self.shapes[name])

    def method(self) -> None:
        found = self.target()
        if found is None:
            return
        name, s = found
        call = self.r.choice([
            f".add_({self.operand(s, name)})", f".mul_({self.operand(s, name)})", f".sub_({self.operand(s, name)})",
            f".fill_({self.number()})", ".zero_()", f".copy_({self.operand_tensor(s, name)})", ".clamp_(max=2)", ".neg_()",
            f".masked_fill_({name} > 1, {self.number()})", f".add_({self.operand(s, name)}).mul_(0.5)", ".relu_()", ".tanh_()",
            f".data.add_({self.number()})",
        ])  # fmt: skip
        way = self.r.random()
        if way < 0.7:
            self.emit(f"{name}{call}")
        elif way < 0.85:
            new = self.name()
            self.emit(f"{new} = {name}{call}")
            self.bind(new, s, name)
        else:
            new = self.name()
            other = self.pick(s)
            left = other if other is not None else "2"
            text = self.r.choice([f"{left} * {name}{call}", f"{name}{call} + {left}", f"F.relu({name}{call}) - {left}"])
            self.emit(f"{new} = {text}")
            self.bind(new, s)

    def operand_tensor(self, shape: Shape, into: str) -> str:
        root = self.root(into.split(".")[0].split("[")[0])
        fits = [n for n, s in self.shapes.items() if _broadcasts(s, shape) and self.root(n) != root]
        return self.r.choice(fits) if fits else "torch.tensor(0.25)"

    def augmented(self) -> None:
        found = self.target()
        if found is None:
            return
        name, s = found
        self.emit(f"{name} {self.r.choice(['+=', '-=', '*='])} {self.operand(s, name)}")

    def item(self) -> None:
        found = self.target()
        if found is None or not found[1]:
            return
        name, s = found
        i = self.r.choice([str(self.r.randrange(s[0])), "-1", f"k % {s[0]}"])
        options: list[tuple[str, Shape]] = [(f"[{i}]", s[1:]), ("[:]", s), ("[...]", s), (f"[{name} > 0.5]", ())]
        if len(s) == 2:
            j = self.r.randrange(s[1])
            options += [(f"[{i}, {j}]", ()), (f"[:, {j}]", s[:1]), ("[:2]", (2, *s[1:]) if s[0] > 1 else s), (f"[{i}, :2]", (2,)),
                        (f"[[0, {s[0] - 1}]]", s[1:]), (f"[torch.tensor([0]), torch.tensor([{j}])]", ())]  # fmt: skip
        at, shape = self.r.choice(options)
        if at.startswith("[["):
            self.emit(f"{name}{at} = {self.operand(shape, name + at)}")
            return
        op = self.r.choice(["=", "=", "+=", "*="])
        self.emit(f"{name}{at} {op} {self.operand(shape, name + at)}")

    def helper(self) -> None:
        name = self.pick(written=True)
        if name is None:
            return
        s = self.shapes[name]
        way = self.r.randrange(4)
        if way == 0 and s:
            self.emit(f"put({name}, {self.r.randrange(s[0])}, {self.operand(s[1:], name + '[')})")
        elif way == 1:
            new = self.name()
            other = self.pick(s)
            self.emit(
                f"{new} = grow({name}, {self.operand(s, name)}){self.r.choice(['', f' * {other}', f' + {name}'])}"
            )
            self.bind(new, s, name)
        elif way == 2:
            new = self.name()
            self.emit(f"{new} = {name} * grow({name}, {self.number()})")
            self.bind(new, s)
        else:
            new = self.name()
            self.emit(f"{new} = F.relu({name}, inplace={self.r.choice([True, False])})")
            self.bind(new, s, name)

    def module(self) -> None:
        """A call of a module or of a function that makes lists, some of which write into their argument."""
        name, new = self.pick((3, 4), written=True), self.name()
        if name is None:
            return
        if self.r.random() < 0.2:
            self.emit(f"for b in {self.r.choice(['blocks', 'blocks[:k]', '(lin, relu, blocks[0])'])}:")
            self.emit(f"    {name} = b({name})")
            self.bind(name, (3, 4), name)
            return
        text = self.r.choice([
            f"relu({name})", f"relu(lin({name}))", f"chain({name})", f"blocks[{self.r.randrange(4)}]({name})",
            f"F.avg_pool1d({name}, 3, 1, 1)", f"F.max_pool1d({name}, 3, 1, 1)", f"torch.stack({name}.unbind(0))",
            f"F.pad(windows({name})[{self.r.randrange(2)}], (0, 1))", f"torch.cat({name}.chunk(2, 1)[::-1], 1)",
            f"down({name}) + {name}", f"torch.cat([relu(v) for v in {name}]).view(3, 4)",
        ])  # fmt: skip
        self.emit(f"{new} = {text}")
        self.bind(new, (3, 4), name)

    def lists_(self) -> None:
        if self.lists and self.r.random() < 0.6:
            xs = self.r.choice(list(self.lists))
            s = self.lists[xs]
            way = self.r.randrange(5)
            value = self.pick(s, written=True) if self.r.random() < 0.5 else self.value(s)
            value = value or self.value(s)
            if value in self.shapes:
                self.share(xs, value)
            if way == 0:
                self.emit(f"{xs}.append({value})")
            elif way == 1:
                self.emit(f"{xs}[{self.r.choice(['0', '-1'])}] = {value}")
            elif way == 2:
                name = self.name()
                self.emit(f"{name} = {xs}[{self.r.choice(['0', '-1'])}]")
                self.bind(name, s, xs)
            elif way == 3:
                self.emit(f"for t in {xs}:")
                self.emit(f"    t{self.r.choice(['.add_(1)', ' *= 0.5', '.tanh_()'])}")
            else:
                name = self.name()
                self.emit(f"{name} = {self.r.choice([f'torch.stack({xs})[0]', f'sum([t * 2 for t in {xs}])'])}")
                self.bind(name, s)
            return
        shape = self.r.choice([(4,), (3, 4), (3,), ()])
        xs = self.name("xs")
        first = self.pick(shape, written=True)
        items = [first if first is not None and self.r.random() < 0.6 else self.value(shape) for _ in range(2)]
        rows = [n for n, s in self.shapes.items() if len(s) == 2 and s[1:] == shape and n not in self.inputs]
        text = f"[{', '.join(items)}]"
        if rows and self.r.random() < 0.3:
            row = self.r.choice(rows)
            text = self.r.choice(
                [f"list({row})", f"[r for r in {row}]", f"[r * 2 for r in {row}]", f"list({row}.unbind(0))"]
            )
        self.emit(f"{xs} = {text}")
        for n in (*self.shapes, *rows):
            if n in text:
                self.share(xs, n)
        self.lists[xs] = shape

    def box(self) -> None:
        if self.boxes and self.r.random() < 0.7:
            box = self.r.choice(list(self.boxes))
            s = self.boxes[box]
            way = self.r.randrange(4)
            name = self.name()
            if way == 0:
                self.emit(f"{box}.t = {self.value(s)}")
            elif way == 1:
                self.emit(f"{name} = {box}.grow({self.operand(s, box)})")
                self.bind(name, s, box)
            elif way == 2:
                self.emit(f"{name} = {box}.t")
                self.bind(name, s, box)
            else:
                self.emit(f"{name} = {box}.t * {box}.grow(1)")
                self.bind(name, s)
            return
        name = self.pick(written=True)
        if name is None:
            return
        box = self.name("box")
        self.emit(f"{box} = Box({name})")
        self.share(box, name)
        self.boxes[box] = self.shapes[name]

    def accumulate(self) -> None:
        """A number that becomes a tensor."""
        s = self.name("s")
        shape = self.r.choice([(), (4,)])
        self.emit(f"{s} = 0")
        self.emit("for j in range(k):")
        self.emit(f"    {s} += {self.value(shape)}")
        if self.r.random() < 0.5:
            kept = self.name("kept")
            self.emit(f"    {kept} = {s}")
        if self.r.random() < 0.5:
            self.emit(f"{s} = {s} + {self.value(shape)}")
            self.bind(s, shape)

    def block(self) -> None:
        if self.depth > 2:
            return
        kind = self.r.choice(["if", "if", "else", "for", "for", "while"])
        saved = dict(self.shapes), dict(self.lists), dict(self.boxes)
        inputs = set(self.inputs)

        def inside() -> None:
            self.depth += 1
            for _ in range(self.r.randrange(1, 4)):
                self.statement()
            self.emit("pass")
            self.depth -= 1
            self.shapes, self.lists, self.boxes = map(dict, saved)  # type: ignore[assignment]

        if kind in ("if", "else"):
            scalars = [n for n, s in self.shapes.items() if s == ()]
            test = self.r.choice(["k > 1", "k == 2", *(f"{n} > 0.5" for n in scalars)])
            self.emit(f"if {test}:")
            inside()
            if kind == "else":
                self.emit("else:")
                inside()
        elif kind == "for":
            self.emit(
                self.r.choice(
                    ["for j in range(k):", "for j in range(2):", "for row in x:", "for j, row in enumerate(x):"]
                )
            )
            inside()
        else:
            n = self.name("n")
            self.emit(f"{n} = 0")
            self.emit(f"while {n} < k:")
            self.emit(f"    {n} += 1")
            inside()
        self.inputs |= inputs

    def statement(self) -> None:
        ways = [
            self.new, self.new, self.rebind, self.alias, self.view, self.view, self.method, self.method, self.method,
            self.augmented, self.augmented, self.item, self.item, self.helper, self.lists_, self.box, self.block,
            self.accumulate,
        ]  # fmt: skip
        if self.modules:
            ways += [self.module] * 5
        self.r.choice(ways)()

    def text(self) -> str:
        self.new()
        self.new()
        for _ in range(self.r.randrange(4, 11)):
            self.statement()
        names = [n for n in self.shapes if n not in ("x", "y")] + list(self.lists) + [f"{b}.t" for b in self.boxes]
        self.emit(f"return {', '.join(names)},")
        return HELPERS + "def f(x, y, k):\n" + "\n".join(self.lines) + "\n"


def _broadcasts(small: Shape, big: Shape) -> bool:
    tail = big[len(big) - len(small) :]
    return len(small) <= len(big) and all(a in (1, b) for a, b in zip(small, tail, strict=True))


def program(seed: int) -> str:
    """Return the source of a random program."""
    return Program(seed).text()


def made(source: str, seed: int) -> Any:
    """Return the function of a program; its source can be read."""
    file = f"<program {seed}>"
    linecache.cache[file] = len(source), None, source.splitlines(True), file
    space: dict[str, Any] = {"__name__": f"program_{seed}"}
    exec(compile(source, file, "exec"), space)
    return space["f"]


def columns(seed: int) -> tuple[list[torch.Tensor], list[torch.Tensor], list[int]]:
    g = torch.Generator().manual_seed(seed)
    return (
        [torch.randn(3, 4, generator=g) for _ in range(3)],
        [torch.randn(4, generator=g) for _ in range(3)],
        [1, 2, 3],
    )


def leaves(value: Any) -> list[Any]:
    if isinstance(value, tuple | list):
        return [x for v in value for x in leaves(v)]
    return [value]


def same(want: Any, got: Any) -> bool:
    a, b = leaves(want), leaves(got)
    if len(a) != len(b):
        return False
    for p, q in zip(a, b, strict=True):
        p, q = (v if isinstance(v, torch.Tensor) else torch.tensor(v) for v in (p, q))
        if p.dtype != q.dtype or p.shape != q.shape or not torch.allclose(p, q, rtol=1e-4, atol=1e-5, equal_nan=True):
            return False
    return True


def outcome(seed: int, compiled: bool = False) -> tuple[str, str]:
    """Run a program in both ways; return "same", "invalid" (it fails in PyTorch), "rejected" or "different", and why."""
    source = program(seed)
    f = made(source, seed)
    cols = columns(seed)
    try:
        want = [f(x.clone(), y.clone(), k) for x, y, k in zip(*cols, strict=True)]
    except Exception as error:
        return "invalid", f"{type(error).__name__}: {error}"
    model = acronumba.torch.model(f)
    given = [[v.clone() if isinstance(v, torch.Tensor) else v for v in column] for column in cols]
    try:
        got = model.batch(*given) if compiled else model._interpret(*given)
    except AcronumbaError as error:
        return ("crashed" if "ACR798" in str(error) else "rejected"), str(error)
    except ExceptionGroup as error:
        return "failed", str(error.exceptions[0])
    return ("same" if all(map(same, want, got)) else "different"), source


def weighed(value: Any) -> Any:
    """Return a sum of all elements that have a gradient, with random weights."""
    g = torch.Generator().manual_seed(0)
    total: Any = 0
    for v in leaves(value):
        if isinstance(v, torch.Tensor) and v.dtype.is_floating_point:
            weights = torch.randn(v.shape, generator=g)
            total = total + (v * weights).sum() if v.requires_grad else total
    return total


def gradients(f: Any, x: torch.Tensor, *rest: Any) -> tuple[str, str]:
    """Compare the gradient of a tensor with autograd's; return an outcome, and why."""
    own, given = (x.detach().clone().requires_grad_() for _ in range(2))
    try:
        weighed(f(own, *rest)).backward()
    except Exception as error:
        return "invalid", f"{type(error).__name__}: {error}"
    try:
        others = [[r.clone() if isinstance(r, torch.Tensor) else r] for r in rest]
        total = weighed(acronumba.torch.model(f).batch([given], *others)[0])
        if isinstance(total, torch.Tensor):
            total.backward()
    except AcronumbaError as error:
        return ("crashed" if "ACR798" in str(error) else "rejected"), str(error)
    except ExceptionGroup as error:
        return "failed", str(error.exceptions[0])
    want, got = (torch.zeros_like(v) if v.grad is None else v.grad for v in (own, given))
    return ("same" if torch.allclose(want, got, rtol=1e-3, atol=1e-4, equal_nan=True) else "different"), ""


def gradients_of(seed: int) -> tuple[str, str]:
    xs, ys, _ = columns(seed)
    return gradients(made(program(seed), seed), xs[0], ys[0], 2)


def main() -> int:
    """Run the programs of a range of seeds; print what is not the same."""
    first, last = map(int, sys.argv[1:3])
    counts: collections.Counter[str] = collections.Counter()
    for seed in range(first, last):
        kind, why = gradients_of(seed) if "-g" in sys.argv else outcome(seed)
        counts[kind] += 1
        if kind in ("different", "crashed", "failed"):
            print(seed, kind, why if kind != "different" else "", flush=True)
        elif kind == "rejected" and "-v" in sys.argv:
            lines = why.splitlines()
            print(seed, *[line.strip() for line in lines if "seen:" in line][:1], "|", *lines[2:3], flush=True)
    print(dict(counts))
    return int(bool(counts["different"] or counts["crashed"]))


if __name__ == "__main__":
    sys.exit(main())
