"""A shift-reduce parser with the summaries of a stack LSTM (Dyer et al. 2015), greedy.

In: the numbers of the words of a sentence, int64[n]. Out: the state of the whole sentence, and the log-probability of
the actions. The scores that it computes decide each action.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from acronumba.zoo.data import function_syntax, hidden_size, python_functions, word_id, words

SIZES = {"small": 256, "large": 512}  # H
VOCABULARY = 4096
SHIFT, REDUCE = 0, 1


class Parser(nn.Module):
    """The stack is a list of states; a reduction pops two items and pushes their composition."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size
        self.embed = nn.Embedding(VOCABULARY, size)
        self.summary = nn.LSTMCell(size, size)
        self.compose = nn.Linear(2 * size, size)
        self.hidden = nn.Linear(2 * size, size)
        self.act = nn.Linear(size, 2)
        self.end = nn.Parameter(torch.zeros(1, size))

    def forward(self, sentence: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return float32[H] and float32[]."""
        xs = self.embed(sentence)
        count = sentence.size(0)
        zero = torch.zeros(1, self.size)
        states = [(zero, zero)]
        items: list[torch.Tensor] = []
        score = torch.zeros(1)
        at = 0
        while at < count or len(items) > 1:
            ahead = xs[at].unsqueeze(0) if at < count else self.end
            seen = torch.cat([states[-1][0], ahead], dim=1)
            scores = F.log_softmax(self.act(torch.tanh(self.hidden(seen))), dim=1)
            if len(items) < 2:
                action = SHIFT
            elif at >= count:
                action = REDUCE
            else:
                action = scores.argmax(dim=1).item()
            score = score + scores[0, action]
            if action == SHIFT:
                item = ahead
                at += 1
            else:
                right = items.pop()
                left = items.pop()
                states.pop()
                states.pop()
                item = torch.tanh(self.compose(torch.cat([left, right], dim=1)))
            items.append(item)
            states.append(self.summary(item, states[-1]))
        return states[-1][0].squeeze(0), score.squeeze(0)


def module(size: str | int = "small", seed: int = 0) -> Parser:
    """Return a module with random weights; `size` is a name of `SIZES` or H itself."""
    torch.manual_seed(seed)
    return Parser(hidden_size(size, SIZES))


def instances(n: int, seed: int = 0) -> list[torch.Tensor]:
    """Return the words of `n` functions of Python's standard library."""
    syntax = (function_syntax(f) for f in python_functions(n, seed))
    return [torch.tensor([word_id(word, VOCABULARY) for word in words(s)]) for s in syntax]
