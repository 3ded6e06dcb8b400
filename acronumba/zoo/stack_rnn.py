"""Shift-reduce parser with stack LSTMs (Dyer et al. 2015), simplified: three actions, no part-of-speech tags.

In: a sentence of word numbers. Out: the actions taken and the vector of the whole. One LSTM has read what is left of
the sentence (from its end, so that removing a word is going back one state), one the stack, one the actions so far.
From their states the next action is predicted: shift the next word onto the stack, or compose the two topmost entries,
with the lower or the upper one as head. Control flow hangs on an argmax of computed scores at every step.

In `parse_emulated` the data says which actions to take.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from os import PathLike

import numpy as np

from acronumba import model, nn
from acronumba.zoo import birnn
from acronumba.zoo.cells import LSTM, lstm, lstm_params
from acronumba.zoo.data import Array, hidden_size, normal, vectors

SIZES = {"small": 256, "large": 512}  # H
VOCABULARY = 4096  # V
SHIFT, LEFT, RIGHT = 0, 1, 2
ACTIONS = 3  # A


@dataclass
class Sentence:
    words: list[int]  # at least one
    actions: list[int]  # in `parse_emulated`


@dataclass
class Entry:
    """An element of a stack LSTM: popping it leaves the state of the one below."""

    x: Array  # float32[H]: its vector
    h: Array  # float32[H]: state of the LSTM after it
    c: Array  # float32[H]


@dataclass
class StackLSTM:
    cell: LSTM
    x: np.ndarray  # [H]: the bottom
    h: np.ndarray  # [H]
    c: np.ndarray  # [H]


@dataclass
class Params:
    buffer: StackLSTM
    stack: StackLSTM
    history: StackLSTM  # of actions
    embed: np.ndarray  # [V, H]
    action: np.ndarray  # [A, H]: vectors of actions
    w: np.ndarray  # [H, 3H]: of stack, buffer and history
    d: np.ndarray  # [H]
    g: np.ndarray  # [A, H]: of the parser state, for actions
    q: np.ndarray  # [A]
    u: np.ndarray  # [H, 2H]: of head and dependent
    e: np.ndarray  # [H]


def push(below: Entry, x: Array, cell: LSTM) -> Entry:
    """Return the entry for a vector on top of another entry."""
    h, c = lstm(cell, x, below.h, below.c)
    return Entry(x, h, c)


def bottom(s: StackLSTM) -> Entry:
    """Return the entry below all others."""
    return Entry(s.x, s.h, s.c)


def read(words: list[int], p: Params) -> list[Entry]:
    """Return the buffer: the bottom, then the words from the last to the first."""
    buffer = [bottom(p.buffer)]
    for word in reversed(words):
        buffer.append(push(buffer[-1], p.embed[word], p.buffer.cell))
    return buffer


def scores(stack: list[Entry], buffer: list[Entry], history: Entry, p: Params) -> Array:
    """Return the scores of the actions, float32[A]."""
    state = nn.relu(p.w @ np.concatenate([stack[-1].h, buffer[-1].h, history.h]) + p.d)
    return p.g @ state + p.q


def act(action: int, stack: list[Entry], buffer: list[Entry], p: Params) -> None:
    """Change stack and buffer by an action."""
    if action == SHIFT:
        x = buffer.pop().x
    else:
        upper = stack.pop().x
        lower = stack.pop().x
        head, dependent = (upper, lower) if action == LEFT else (lower, upper)
        x = np.tanh(p.u @ np.concatenate([head, dependent]) + p.e)
    stack.append(push(stack[-1], x, p.stack.cell))


@model
def parse(sentence: Sentence, *, p: Params) -> tuple[list[int], Array]:
    """Return the actions taken and the vector of the sentence, float32[H]."""
    buffer = read(sentence.words, p)
    stack = [bottom(p.stack)]
    history = bottom(p.history)
    actions = []
    while len(buffer) > 1 or len(stack) > 2:
        y = scores(stack, buffer, history, p)
        if len(stack) < 3:
            action = SHIFT
        elif len(buffer) == 1:
            action = LEFT + int(np.argmax(y[LEFT:]))
        else:
            action = int(np.argmax(y))
        act(action, stack, buffer, p)
        history = push(history, p.action[action], p.history.cell)
        actions.append(action)
    return actions, stack[-1].x


@model
def parse_emulated(sentence: Sentence, *, p: Params) -> tuple[list[Array], Array]:
    """Return the scores before each action, float32[A] each, and the vector of the sentence, float32[H]."""
    buffer = read(sentence.words, p)
    stack = [bottom(p.stack)]
    history = bottom(p.history)
    all_scores = []
    for action in sentence.actions:
        all_scores.append(scores(stack, buffer, history, p))
        act(action, stack, buffer, p)
        history = push(history, p.action[action], p.history.cell)
    return all_scores, stack[-1].x


def params(size: str | int = "small", seed: int = 0, vocabulary: int = VOCABULARY) -> Params:
    """Return random weights with which all actions are taken; `size` is a name of `SIZES` or H itself."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)

    def stack() -> StackLSTM:
        return StackLSTM(cell=lstm_params(rng, h, h), x=normal(rng, h), h=normal(rng, h), c=normal(rng, h))

    g = normal(rng, ACTIONS, h)
    return Params(
        buffer=stack(),
        stack=stack(),
        history=stack(),
        embed=vectors(rng, vocabulary, h),
        action=normal(rng, ACTIONS, h),
        w=normal(rng, h, 3 * h),
        d=np.zeros(h, np.float32),
        g=g - g.mean(axis=1, keepdims=True),  # the common part of all states prefers no action
        q=np.zeros(ACTIONS, np.float32),
        u=normal(rng, h, 2 * h),
        e=normal(rng, h),
    )


def instances(n: int, seed: int = 0, vocabulary: int = VOCABULARY) -> list[Sentence]:
    """Return the names and constants of `n` functions of Python's standard library, each with random actions."""
    return _with_actions(birnn.instances(n, seed, vocabulary), seed)


def read_sst(path: str | PathLike[str], vocabulary: int = VOCABULARY) -> list[Sentence]:
    """Read the sentences of a file of the Stanford Sentiment Treebank; each gets random actions."""
    return _with_actions(birnn.read_sst(path, vocabulary), 0)


def _with_actions(sentences: list[list[int]], seed: int) -> list[Sentence]:
    rng = random.Random(seed)

    def actions(left: int) -> list[int]:
        taken: list[int] = []
        entries = 0
        while left or entries > 1:
            shift = entries < 2 or (left > 0 and rng.random() < 0.5)
            taken.append(SHIFT if shift else rng.choice((LEFT, RIGHT)))
            left, entries = (left - 1, entries + 1) if shift else (left, entries - 1)
        return taken

    return [Sentence(words, actions(len(words))) for words in sentences]
