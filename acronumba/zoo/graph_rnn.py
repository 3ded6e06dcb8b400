"""GraphRNN (You, Ying, Ren, Hamilton & Leskovec 2018): a graph, node by node and edge by edge.

In: the number of a start vector and uniform draws. Out: for each of 20 nodes, to which earlier nodes it has an edge,
and the last state. A GRU goes over the nodes; for each, an RNN goes over the earlier nodes and gives the probability of
an edge, given the edges before. Whether there is one is decided at once, by a draw that is part of the data, and
changes what both networks see next.

In `generate_emulated` the data says which edges there are.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

from acronumba import model, nn
from acronumba.zoo.cells import GRU, gru, gru_params
from acronumba.zoo.data import Array, hidden_size, normal

SIZES = {"small": 256, "large": 512}  # H
STARTS = 1024  # S
NODES = 20  # M


@dataclass
class Start:
    vector: int  # row of the table of start vectors
    draws: list[list[float]]  # for node i + 1: a number from [0, 1) for each of the nodes i, ..., 0
    edges: list[list[int]]  # likewise, 1 or 0, in `generate_emulated`


@dataclass
class Graph:
    edges: list[list[int]]  # for node i + 1: 1 or 0 for each of the nodes i, ..., 0
    state: Array  # float32[H]


@dataclass
class Params:
    start: np.ndarray  # [S, H]
    node: GRU  # f_trans
    nobody: np.ndarray  # [H]: what a node without edges adds to the state
    adjacent: np.ndarray  # [M, H]: and what an edge to each of the last nodes adds to that
    w: np.ndarray  # [H, H]: of the node's state, for the first state of the edges
    u: np.ndarray  # [H, H]: of the last state of the edges
    edge: np.ndarray  # [3, H]: added after no edge, after an edge, at the beginning
    w_out: np.ndarray  # [H]
    b_out: np.ndarray  # []


@model
def generate(start: Start, *, p: Params) -> Graph:
    """Return a graph of 20 nodes (algorithm 1, with an RNN for f_out)."""
    h, x = p.start[start.vector], p.nobody
    edges = []
    for draws in start.draws:
        h = gru(p.node, x, h)
        s, x, last = p.w @ h, p.nobody, 2
        row = []
        for k, draw in enumerate(draws):
            s = np.tanh(p.u @ s + p.edge[last])
            last = 0
            if draw < float(nn.sigmoid(p.w_out @ s + p.b_out)):
                last = 1
                x = x + p.adjacent[k]
            row.append(last)
        edges.append(row)
    return Graph(edges, gru(p.node, x, h))


@model
def generate_emulated(start: Start, *, p: Params) -> tuple[list[list[Array]], Array]:
    """Return the probabilities of the edges that the data decides, float32[] each, and the last state, float32[H]."""
    h, x = p.start[start.vector], p.nobody
    probabilities = []
    for edges in start.edges:
        h = gru(p.node, x, h)
        s, x, last = p.w @ h, p.nobody, 2
        row = []
        for k, edge in enumerate(edges):
            s = np.tanh(p.u @ s + p.edge[last])
            row.append(nn.sigmoid(p.w_out @ s + p.b_out))
            last = edge
            if edge == 1:
                x = x + p.adjacent[k]
        probabilities.append(row)
    return probabilities, gru(p.node, x, h)


def params(size: str | int = "small", seed: int = 0) -> Params:
    """Return random weights; `size` is a name of `SIZES` or H itself."""
    h, rng = hidden_size(size, SIZES), np.random.default_rng(seed)
    return Params(
        start=normal(rng, STARTS, h),
        node=gru_params(rng, h, h),
        nobody=normal(rng, h),
        adjacent=normal(rng, NODES, h),
        w=normal(rng, h, h),
        u=normal(rng, h, h),
        edge=normal(rng, 3, h),
        w_out=normal(rng, h),
        b_out=np.array(-1, np.float32),  # fewer edges than not
    )


def instances(n: int, seed: int = 0, nodes: int = NODES) -> list[Start]:
    """Return `n` start vectors with draws, and with edges for `generate_emulated`, one in four of the possible ones.

    Parameters
    ----------
    n : int
    seed : int
    nodes : int
        Number of nodes, at most 20.
    """
    rng = random.Random(seed)
    starts = []
    for _ in range(n):
        draws = [[rng.random() for _ in range(i)] for i in range(1, nodes)]
        edges = [[int(rng.random() < 0.25) for _ in row] for row in draws]
        starts.append(Start(rng.randrange(STARTS), draws, edges))
    return starts
