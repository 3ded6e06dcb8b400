"""Random small modules: results and gradients are those of PyTorch, and None where PyTorch has none."""

from __future__ import annotations

import importlib.util
import random
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from acronumba.torch import model  # noqa: E402

STEPS = [
    "torch.tanh({a})", "torch.sigmoid({a})", "F.relu({a})", "{a} + {b}", "{a} * {b}", "{a} - 0.5 * {b}", "self.l0({a})",
    "self.l1({a})", "self.l2({a}) + self.l0.bias", "F.softmax({a}, dim=0)", "{a} @ self.p",
    "torch.cat([{a}, {b}])[1:1 + {a}.size(0)]", "torch.stack([{a}, {b}]).sum(0)", "{a} / ({b}.abs() + 1.0)",
    "{a}.detach() * {b}", "torch.max({a}, {b})", "{a} * {a}.mean()", "torch.where({a} > 0, {a}, {b})",
    "self.emb(torch.tensor(k))", "{a}.clamp(min=0) + {b}", "F.log_softmax({a}, -1)", "{a}[torch.tensor([2, 0, 1, 3])]",
    "self.cell({a}.unsqueeze(0), ({b}.unsqueeze(0), {a}.unsqueeze(0)))[0].squeeze(0)", "self.norm({a})",
    "{a}.view(2, 2).t().reshape(4)",
]  # fmt: skip

HEAD = """import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l0, self.l1 = nn.Linear(4, 4), nn.Linear(4, 4)
        self.l2 = self.l1
        self.p = nn.Parameter(torch.randn(4, 4))
        self.emb, self.cell, self.norm = nn.Embedding(6, 4), nn.LSTMCell(4, 4), nn.LayerNorm(4)

    def step(self, x, k):
        v0, v1 = x, x * 2
"""

TAIL = """
    def forward(self, xs, k):
        h, out = xs[0], []
        for j in range(k):
            h = self.step(torch.tanh(h + xs[j % xs.size(0)]), j)
            out.append(h)
        return {"h": h, "s": torch.stack(out).sum(0) if len(out) > 0 else h, "n": len(out)}
"""


def source(rng: random.Random) -> str:
    lines, last = [], rng.randint(3, 8)
    for i in range(2, last + 1):
        names = {"a": f"v{rng.randrange(max(0, i - 3), i)}", "b": f"v{rng.randrange(max(0, i - 3), i)}"}
        step, other = (rng.choice(STEPS).format(**names) for _ in range(2))
        kind = rng.random()
        if kind < 0.3:
            test = "k % 2 == 0" if kind < 0.2 else f"{names['a']}[0].item() > 0.1"
            lines += [f"if {test}:", f"    v{i} = {step}", "else:", f"    v{i} = {other}"]
        else:
            lines.append(f"v{i} = {step}")
    return HEAD + "".join(f"        {line}\n" for line in [*lines, f"return v{last}"]) + TAIL


def built(path: Path, seed: int) -> Any:
    path.write_text(source(random.Random(seed)), encoding="utf-8")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.Net()


def total(results: Any) -> Any:
    return sum((r["h"] * r["h"]).sum() + r["s"].sin().sum() * (1 + r["n"]) for r in results)


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(k, marks=pytest.mark.long) for k in range(4, 40))])
def test_random_modules_train_as_in_pytorch(tmp_path: Path, seed: int) -> None:
    torch.manual_seed(seed)
    net, rng = built(tmp_path / f"net{seed}.py", seed), random.Random(seed)
    net.l0.requires_grad_(rng.random() < 0.8)
    data = [torch.randn(rng.randint(1, 3), 4, requires_grad=rng.random() < 0.3) for _ in range(6)]
    counts = [rng.randint(0, 4) for _ in data]
    want = [net(x, k) for x, k in zip(data, counts, strict=True)]
    got = model(net).batch(data, counts)
    for one, same in zip(got, want, strict=True):
        torch.testing.assert_close(one, same, atol=1e-5, rtol=1e-4, equal_nan=True)
    wanted = [t for t in (*net.parameters(), *data) if t.requires_grad]
    grads = [torch.autograd.grad(total(of), wanted, allow_unused=True) for of in (got, want)]
    for g, same in zip(*grads, strict=True):
        assert (g is None) == (same is None)
        if same is not None:
            assert (g - same).abs().max() <= 1e-5 * same.abs().max() + 1e-6
