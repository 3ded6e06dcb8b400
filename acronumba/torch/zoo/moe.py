"""A mixture of experts with one expert a word (Shazeer et al. 2017; Fedus et al. 2021).

In: the numbers of the words of a sentence, int64[n]. Out: their mean vector. A router decides which expert reads a
word.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from acronumba.torch.zoo.parser import VOCABULARY
from acronumba.torch.zoo.parser import instances as instances
from acronumba.zoo.data import hidden_size

SIZES = {"small": 256, "large": 512}  # H
EXPERTS = 8


class Mixture(nn.Module):
    """The chosen expert's output is weighted by its probability, which trains the router."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, size)
        self.router = nn.Linear(size, EXPERTS)
        self.experts = nn.ModuleList([_expert(size) for _ in range(EXPERTS)])

    def forward(self, sentence: torch.Tensor) -> torch.Tensor:
        """Return float32[H]."""
        outs = []
        for x in self.embed(sentence):
            p = F.softmax(self.router(x), dim=-1)
            best = int(p.argmax())
            outs.append(x + p[best] * self.experts[best](x))
        return torch.stack(outs).mean(dim=0)


def _expert(size: int) -> nn.Module:
    return nn.Sequential(nn.Linear(size, 2 * size), nn.ReLU(), nn.Linear(2 * size, size))


def module(size: str | int = "small", seed: int = 0) -> Mixture:
    """Return a module with random weights; `size` is a name of `SIZES` or H itself."""
    torch.manual_seed(seed)
    return Mixture(hidden_size(size, SIZES))
