"""Child-sum Tree-LSTM (Tai, Socher & Manning 2015, section 3.1): nodes with any number of children.

In: a tree whose nodes have a kind, here the syntax of a Python function. Out: log-probabilities of five classes.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from acronumba.zoo.child_sum_lstm import CLASSES, KINDS, SIZES, Node
from acronumba.zoo.child_sum_lstm import instances as instances
from acronumba.zoo.data import hidden_size


class ChildSumLSTM(nn.Module):
    """Tree-LSTM with rows [1, H], as most public code has them."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.embed = nn.Embedding(len(KINDS), size)
        self.w_iou = nn.Linear(size, 3 * size)
        self.u_iou = nn.Linear(size, 3 * size, bias=False)
        self.w_f = nn.Linear(size, size)
        self.u_f = nn.Linear(size, size, bias=False)
        self.out = nn.Linear(size, CLASSES)

    def encode(self, node: Node) -> tuple[torch.Tensor, torch.Tensor]:
        """Return state h and memory c of a node, float32[1, H] each."""
        x = self.embed(torch.tensor([node.kind]))
        if node.children:
            states = [self.encode(child) for child in node.children]
            hs = torch.cat([h for h, _ in states])
            cs = torch.cat([c for _, c in states])
        else:
            hs = torch.zeros(1, self.size)
            cs = torch.zeros(1, self.size)
        i, o, u = torch.chunk(self.w_iou(x) + self.u_iou(hs.sum(0, keepdim=True)), 3, dim=1)
        f = torch.sigmoid(self.w_f(x) + self.u_f(hs))
        c = torch.sigmoid(i) * torch.tanh(u) + (f * cs).sum(0, keepdim=True)
        return torch.sigmoid(o) * torch.tanh(c), c

    def forward(self, node: Node) -> torch.Tensor:
        """Return log-probabilities, float32[C]."""
        h, _ = self.encode(node)
        return F.log_softmax(self.out(h), dim=1).squeeze(0)


def module(size: str | int = "small", seed: int = 0) -> ChildSumLSTM:
    """Return a module with random weights; `size` is a name of `SIZES` or H itself."""
    torch.manual_seed(seed)
    return ChildSumLSTM(hidden_size(size, SIZES))
