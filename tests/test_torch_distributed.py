"""Training in two processes that average gradients (gloo), against one process. Skipped without PyTorch."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.long

ROOT = Path(__file__).resolve().parent.parent
STEPS, SIZE = 6, 8

# Each rank has its half of every mini-batch; the names of the files are the arguments.
PROGRAM = """
import sys
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist

import acronumba
from acronumba import model

torch.set_num_threads(1)
rank, world, meet, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
STEPS, SIZE = int(sys.argv[5]), int(sys.argv[6])

@dataclass
class Tree:
    word: int
    kids: "list[Tree]"

@model
def encode(t: Tree, *, p):
    h = p["words"][t.word]
    for k in t.kids:
        h = h + p["w"] @ encode(k, p=p)
    return np.tanh(h)

def tree(k):
    return Tree(k % 5, [tree(k // 2)] * (k % 3) if k else [])

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        rng = np.random.default_rng(rank)  # ranks begin with the parameters of rank 0
        p = {"w": rng.standard_normal((4, 4)) / 2, "words": rng.standard_normal((5, 4))}
        self.p, self.encode = acronumba.torch.Parameters(p), acronumba.torch.layer(encode)
        torch.manual_seed(rank)
        self.head = torch.nn.Linear(4, 3, dtype=torch.float64)

    def forward(self, trees):
        return self.head(self.encode(trees, p=self.p))

net, losses = Net(), []
trained = net
if world > 1:
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=world)
    trained = torch.nn.parallel.DistributedDataParallel(net)
opt = torch.optim.Adam(net.parameters(), 0.05)
for step in range(STEPS):
    mine = range(SIZE)[rank::world]
    opt.zero_grad()
    found = trained([tree(k) for k in mine])
    loss = torch.nn.functional.cross_entropy(found, torch.tensor([k % 3 for k in mine]))
    loss.backward()
    opt.step()
    every = loss.detach().clone()
    if world > 1:
        dist.all_reduce(every)
    losses.append(float(every) / world)
np.savez(out, losses=losses, **{n.replace(".", "_"): x.detach().numpy() for n, x in net.named_parameters()})
if world > 1:
    dist.destroy_process_group()
"""


def trained(folder: Path, world: int) -> dict[str, Any]:
    """Return the losses and parameters of each rank."""
    folder.mkdir()
    script = folder / "program.py"
    script.write_text(PROGRAM)
    there = os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
    given = [[k, world, folder / "meet", folder / f"{k}.npz", STEPS, SIZE] for k in range(world)]
    begun = [
        subprocess.Popen([sys.executable, str(script), *map(str, of)], stderr=subprocess.PIPE, text=True, env=there)
        for of in given
    ]
    said = [process.communicate(timeout=300)[1] for process in begun]
    assert not any(process.returncode for process in begun), said
    found = [dict(np.load(folder / f"{k}.npz")) for k in range(world)]
    for other in found[1:]:
        assert all(found[0][name].tobytes() == other[name].tobytes() for name in found[0])
    return found[0]


def test_two_processes_train_as_one(tmp_path: Path) -> None:
    one, two = trained(tmp_path / "one", 1), trained(tmp_path / "two", 2)
    assert one.keys() == two.keys() and len(one) == 5
    for name in one:
        np.testing.assert_allclose(two[name], one[name], rtol=1e-9, atol=1e-9)
    assert two["losses"][-1] < 0.9 * two["losses"][0]
    again = trained(tmp_path / "again", 2)
    assert all(again[name].tobytes() == two[name].tobytes() for name in two)
