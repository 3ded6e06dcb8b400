"""Classes of modules as people write them: bases, attributes of all kinds, modules that run time chooses."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

import acronumba.torch  # noqa: E402
from acronumba.errors import AcronumbaError, InstanceErrors  # noqa: E402
from tests.support.torch_modules import compare  # noqa: E402


class Mode(enum.Enum):
    SUM = 1
    MEAN = 2


@dataclass
class Args:
    hidden: int = 3
    mode: Mode = Mode.SUM
    rate: float = 0.5


class Mixin:
    def twice(self, x: Any) -> Any:
        return x * 2

    @property
    def half(self) -> float:
        return 0.5


class Base(nn.Module):
    kind = "base"

    def __init__(self, args: Args) -> None:
        super().__init__()
        self.args = args
        self.lin = nn.Linear(args.hidden, args.hidden)

    def forward(self, x: Any) -> Any:
        return self.lin(x) * self.args.rate

    @staticmethod
    def plus_one(x: Any) -> Any:
        return x + 1

    @classmethod
    def by_kind(cls, x: Any) -> Any:
        return x + (2 if cls.kind == "derived" else 3)


class Derived(Mixin, Base):
    kind = "derived"

    def __init__(self, args: Args) -> None:
        super().__init__(args)
        self.vocab = {"a": 0, "b": 1}
        self.act: Callable[..., Any] = lambda x: torch.tanh(x) * 2
        self.fn = F.relu
        self.listed = [nn.Linear(3, 3), nn.Linear(3, 3)]
        self.table = np.arange(6, dtype=np.float32).reshape(2, 3)
        self.constants = [torch.ones(3), torch.zeros(3)]
        self.register_buffer("steps", torch.arange(3.0))
        self.register_parameter("nothing", None)
        self.sub = None
        self.cell_a = nn.Linear(3, 3)
        self.cell_b = nn.Linear(3, 3)
        self.vectors = nn.ParameterList([nn.Parameter(torch.randn(3)) for _ in range(2)])
        self.named = nn.ParameterDict({"u": nn.Parameter(torch.randn(3))})
        self.in_dict = {"p": nn.Linear(3, 3)}
        self.names = ["a", "b"]

    def __call__(self, x: Any, *rest: Any) -> Any:
        return super().__call__(x, *rest)

    def forward(self, x: Any, kind: Any, k: Any) -> Any:
        y = super().forward(x)
        y = self.twice(y) * self.half + self.plus_one(x) + self.by_kind(x)
        y = self.act(y) + self.fn(y)
        for m in self.listed:
            y = m(y)
        y = y + self.steps + self.constants[k]
        if self.sub is not None:
            y = self.sub(y)
        if self.nothing is None and self.args.mode == Mode.SUM and not self.training:
            y = y * 2
        y = y + self.vectors[k] + self.named["u"] + self.in_dict["p"](y)
        y = y + float(self.table[1, 2]) + torch.from_numpy(self.table)[0] + self.vocab["b"]
        a = getattr(self, "cell_a")(y)  # noqa: B009
        return a, getattr(self, f"cell_{kind}")(y), getattr(self, "cell_" + self.names[k])(y)


def test_attributes() -> None:
    torch.manual_seed(0)
    compare(Derived(Args()).eval(), [torch.randn(3) for _ in range(3)], ["a", "b", "a"], [0, 1, 0])


class ByName(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.find = nn.Linear(3, 3)
        self.relate = nn.Sequential(nn.Linear(3, 3), nn.Tanh())

    def do_a(self, x: Any) -> Any:
        return self.find(x)

    def do_b(self, x: Any) -> Any:
        return self.relate(x) + 1

    def forward(self, x: Any, kind: Any, name: Any) -> Any:
        y = getattr(self, name)(x)
        return y + getattr(self, f"do_{kind}")(y)


def test_names_of_run_time() -> None:
    torch.manual_seed(0)
    net, xs = ByName(), [torch.randn(3) for _ in range(3)]
    compare(net, xs, ["a", "b", "a"], ["find", "relate", "relate"])
    with pytest.raises(InstanceErrors) as errors:
        acronumba.torch.model(net).batch(xs, ["a", "c", "a"], ["find", "relate", "nowhere"])
    assert [str(e) for e in errors.value.exceptions] == [
        "'ByName' object has no attribute 'do_c'", "'ByName' object has no attribute 'nowhere'"
    ]  # fmt: skip


class Chosen(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
        self.several = nn.ModuleList([nn.Linear(3, 3), self.b, nn.LSTMCell(3, 3)])
        self.nested = nn.ModuleList([nn.ModuleList([self.a]), nn.ModuleList([self.a, self.a])])

    def walk(self, x: Any, n: int) -> Any:
        m = self.a if n % 2 else self.b
        y = m(x)
        return y + self.walk(y, n - 1) if n > 0 else y

    def forward(self, x: Any, k: Any) -> Any:
        m = self.several[k]
        if isinstance(m, nn.Linear):
            y = m(x)
        elif isinstance(m, nn.LSTMCell):
            y = m(x)[0]
        else:
            y = m(x) + 1
        m = self.a
        for _ in range(k):
            y = m(y)
            m = self.b
        return y + self.walk(x, k)

    def in_nested(self, x: Any, k: Any) -> Any:
        for m in self.nested[k]:
            x = m(x)
        return x


def test_modules_chosen_at_run_time() -> None:
    torch.manual_seed(0)
    net, xs = Chosen(), [torch.randn(3) for _ in range(3)]
    compare(net, xs, [0, 1, 2])
    with pytest.raises(InstanceErrors):
        acronumba.torch.model(net).batch(xs, [0, 1, 3])
    with pytest.raises(AcronumbaError, match="one of several ModuleLists"):
        acronumba.torch.model(net.in_nested).batch(xs[:2], [0, 1])
