"""``acronumba bench --torch``: modules of PyTorch for one instance, called one by one and as models.

In: names of modules of `acronumba.torch.zoo`. Out: seconds of a mini-batch, forward and as a step of training (forward,
backward), by PyTorch's plain calls and by `acronumba.torch.model`, in turns and with as many threads each; a first
call, which compiles; and the largest differences of results and gradients.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from acronumba.bench.measure import Quartiles, interleaved, machine
from acronumba.bench.view import machine_text, three

MODULES = {
    "child_sum_lstm": "trees with any number of children",
    "parser": "a parser that decides its actions",
    "module_network": "a module for each kind of node",
    "moe": "one of eight experts for each word",
    "graph": "messages along the edges of a graph",
}
PLAIN, OURS = "one by one", "acronumba"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSpeed:
    """One module, at one size and number of instances."""

    name: str
    size: int | str
    instances: int
    threads: int
    forward: dict[str, Quartiles]  # seconds, by `PLAIN` and `OURS`
    training: dict[str, Quartiles]
    first: dict[str, float]  # seconds of CPU time of a first call, "forward" and "training"
    difference: float  # of results, relative to the largest of each
    gradients: float  # the same of the gradients of parameters

    @property
    def wrong(self) -> bool:
        """Whether results or gradients are not PyTorch's."""
        return not (self.difference < 1e-4 and self.gradients < 1e-4)


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleSpeeds:
    """Everything that was measured."""

    machine: dict[str, str | int | None]
    torch: str
    rows: tuple[ModuleSpeed, ...] = field(default=())


def measure(
    names: Sequence[str], *, sizes: Sequence[str | int] = ("small",), batches: Sequence[int] = (64,), rounds: int = 15,
    threads: int = 1, step: Callable[[int, str], None] = lambda n, text: None
) -> ModuleSpeeds:  # fmt: skip
    """Measure modules."""
    import torch

    torch.set_num_threads(threads)
    rows = []
    for size in sizes:
        for batch in batches:
            for name in names:
                step(1, name)
                rows.append(_measured(name, size, batch, rounds, threads))
    return ModuleSpeeds(machine=machine(), torch=torch.__version__, rows=tuple(rows))


def _measured(name: str, size: str | int, batch: int, rounds: int, threads: int) -> ModuleSpeed:
    import torch

    from acronumba.torch import model
    from acronumba.torch.results import TensorResults

    zoo = importlib.import_module(f"acronumba.torch.zoo.{name}")
    net, instances = zoo.module(size), zoo.instances(batch)
    fast = model(net, threads=threads)

    def plain() -> Any:
        return [net(x) for x in instances]

    def ours() -> Any:
        return fast.batch(instances)

    def forward(run: Callable[[], Any]) -> Any:
        with torch.no_grad():
            return run()

    def training(run: Callable[[], Any]) -> Any:
        net.zero_grad(set_to_none=True)
        outs = run()
        parts = [outs.stack()] if isinstance(outs, TensorResults) else outs
        sum(x.pow(2).sum() for out in parts for x in _tensors(out)).backward()
        return [None if p.grad is None else p.grad.clone() for p in net.parameters()]

    first = {}
    for what, of in (("forward", forward), ("training", training)):
        start = sum(os.times()[:4])  # with processes that compile
        of(ours)
        first[what] = sum(os.times()[:4]) - start
    results = zip(_flat(forward(plain)), _flat(forward(ours)), strict=True)
    gradients = zip(training(plain), training(ours), strict=True)
    return ModuleSpeed(
        name=name,
        size=size,
        instances=batch,
        threads=threads,
        forward=interleaved({PLAIN: lambda: forward(plain), OURS: lambda: forward(ours)}, rounds),
        training=interleaved({PLAIN: lambda: training(plain), OURS: lambda: training(ours)}, rounds),
        first=first,
        difference=max(_difference(a, b) for a, b in results),
        gradients=max(_difference(a, b) for a, b in gradients),
    )


def _tensors(out: Any) -> tuple[Any, ...]:
    return out if isinstance(out, tuple) else (out,)


def _flat(outs: Any) -> list[Any]:
    return [x for out in outs for x in _tensors(out)]


def _difference(a: Any, b: Any) -> float:
    if a is None or b is None:
        return 0.0 if a is b else float("inf")
    return float((a - b).abs().max() / a.abs().max().clamp(min=1e-12))


def modules_view(s: ModuleSpeeds) -> RenderableType:
    """Return a table of the times."""
    threads = s.rows[0].threads
    parts: list[RenderableType] = [
        Text(f"{machine_text(s.machine)}, PyTorch {s.torch}, {threads} thread{'s' * (threads > 1)}", "bold")
    ]
    table = Table(box=None, padding=(0, 1, 0, 0))
    table.add_column("module", no_wrap=True, vertical="bottom")
    for head in ("size", "inst", "ms", "x", "training\nms", "\nx", "first\ns", "with\ngradients"):
        table.add_column(head, justify="right", no_wrap=True)
    for row in s.rows:
        cells = []
        for times in (row.forward, row.training):
            mine = times[OURS].median
            cells += [three(mine * 1e3), three(times[PLAIN].median / mine)]
        table.add_row(
            Text(row.name, "red" if row.wrong else ""),
            str(row.size),
            str(row.instances),
            *cells,
            three(row.first["forward"]),
            three(row.first["training"]),
        )
    legend = (
        "ms: a mini-batch from Python objects to tensors, median; x: how many times\n"
        "longer the module takes, called one by one; training: forward and backward\n"
        "pass; first: CPU time of the first calls, which compile."
    )
    return Group(*parts, table, "", Text(legend, "dim"))
