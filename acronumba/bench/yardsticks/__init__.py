"""Baselines for the compiler: the models of the zoo, written by hand in NumPy, PyTorch and DyNet.

In: the name of a workload, its weights and instances. Out: a `Program` per yardstick, whose results are those of the
plain calls; `agreement` checks this. `BATCHED` names the programs that batch by hand, each written once for NumPy and
PyTorch. PyTorch and DyNet are used where they are installed; on a GPU PyTorch alone, in CUDA graphs, too.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from acronumba.api.check import VERDICTS, compare
from acronumba.api.shadow import BOUNDS, FACTOR
from acronumba.bench.yardsticks import deciding, sequences, trees, writing
from acronumba.bench.yardsticks.by_numpy import NUMPY
from acronumba.bench.yardsticks.program import Program

BY_NUMPY, TORCH_EACH, BY_TORCH, BY_DYNET = "NumPy by hand", "PyTorch one by one", "PyTorch by hand", "DyNet"
IN_GRAPH = "PyTorch by hand in a CUDA graph"
YARDSTICKS = (BY_NUMPY, TORCH_EACH, BY_TORCH, BY_DYNET)

BATCHED: Mapping[str, Callable[..., Program]] = {
    "tree_lstm": trees.sentiment,
    "child_sum_lstm": trees.classify_syntax,
    "mv_rnn": trees.matrices_and_vectors,
    "birnn": sequences.tag_words,
    "bilstm_tagger": sequences.tag_spelled,
    "nested_rnn": sequences.encode_texts,
    "listops": trees.classify_expressions,
    "encoder": sequences.encode_sentences,
    "moe": sequences.mix,
    "moe_emulated": sequences.mix_emulated,
    "moe_route": sequences.mix,
    "drnn": deciding.grow,
    "drnn_emulated": deciding.grow_emulated,
    "berxit": deciding.classify,
    "berxit_emulated": deciding.classify_emulated,
    "stack_rnn": deciding.parse,
    "stack_rnn_emulated": deciding.parse_emulated,
    "graph_rnn": deciding.draw_graphs,
    "graph_rnn_emulated": deciding.score_graphs,
    "beam_decoder": deciding.decode,
    "beam_decoder_emulated": deciding.decode_emulated,
    "decoder": writing.generate,
    "decoder_emulated": writing.generate_emulated,
}


def makers(workload: str, *, threads: int = 1, device: str = "cpu") -> dict[str, Callable[[Any, Any], Program]]:
    """Return the yardsticks for a workload that are available on this machine.

    Parameters
    ----------
    workload : str
        Its name in `acronumba.bench.workloads`.
    threads : int
        Number of threads of PyTorch. That of NumPy is fixed when it is imported.
    device : str
        "cpu", or PyTorch's name of a GPU; other devices have no yardsticks.

    Returns
    -------
    dict of str to function
        By name; each prepares a program from weights and instances, or raises a `RuntimeError` with the reason why it
        cannot.
    """
    found: dict[str, Callable[[Any, Any], Program]] = {}
    if workload not in BATCHED:
        return found
    batched = BATCHED[workload]
    if device != "cpu":
        return _on_gpu(workload, device)
    found[BY_NUMPY] = lambda p, xs: batched(NUMPY, p, xs)
    if importlib.util.find_spec("torch") is not None:
        from acronumba.bench.yardsticks import by_torch
        from acronumba.bench.yardsticks.one_by_one import ONE_BY_ONE

        by_torch.use_threads(threads)
        found[TORCH_EACH] = by_torch.inferring(ONE_BY_ONE[workload])
        found[BY_TORCH] = by_torch.inferring(lambda p, xs: batched(by_torch.TORCH, p, xs))
    if workload in ("tree_lstm", "birnn") and importlib.util.find_spec("dynet") is not None:
        from acronumba.bench.yardsticks.by_dynet import AUTOBATCHED

        found[BY_DYNET] = AUTOBATCHED[workload]
    return found


def _on_gpu(workload: str, device: str) -> dict[str, Callable[[Any, Any], Program]]:
    if not device.startswith("cuda") or importlib.util.find_spec("torch") is None:
        return {}
    from acronumba.bench.yardsticks import by_torch
    from acronumba.bench.yardsticks.one_by_one import ONE_BY_ONE

    if not by_torch.sees_gpus():
        return {}
    batched = BATCHED[workload]
    return {
        TORCH_EACH: by_torch.inferring(ONE_BY_ONE[workload], device),
        BY_TORCH: by_torch.inferring(lambda p, xs: batched(by_torch.namespace(device), p, xs), device),
        IN_GRAPH: by_torch.in_graph(batched, device),
    }


def plain(model: Callable[..., Any], instances: Sequence[Any], p: Any) -> list[Any]:
    """Return the results of the plain calls, one instance after the other."""
    return [model(x, p=p) for x in instances]


def agreement(
    results: Sequence[Any], expected: Sequence[Any], exact: Sequence[Any], *, alone: bool = True
) -> tuple[str, float]:
    """Return how well results agree with the plain calls, by the bounds of `Model.check`.

    Parameters
    ----------
    results, expected : sequence
        By instance: the result to check, and the result of the plain call.
    exact : sequence
        Results of the plain call with weights `in_float64`.
    alone : bool
        Whether an instance's own plain call sets the bound, as for us. Otherwise the worst plain call of the
        mini-batch does: another program rounds elsewhere, so that the plain call may be lucky where it is not.

    Returns
    -------
    str, float
        The worst verdict of `check.compare`: "close", "undecided" (decisions differ that rounding cannot tell apart)
        or "different"; the largest error, relative to the largest number of its array.
    """
    if len(results) != len(expected):
        return "different", 0.0
    found = [compare(a, b, c)[:3] for a, b, c in zip(results, expected, exact, strict=True)]
    if not alone:
        bound = FACTOR * max((plain_error for _, _, plain_error in found), default=0.0)
        near = [BOUNDS["float32"] < error <= bound for _, error, _ in found]  # within the common bound
        found = [("close", *f[1:]) if n and f[0] == "different" else f for n, f in zip(near, found, strict=True)]
    worst = max((VERDICTS.index(verdict) for verdict, _, _ in found), default=0)
    return VERDICTS[worst], max((error for _, error, _ in found), default=0.0)


def in_float64(value: Any) -> Any:
    """Return weights with float64 arrays for float32."""
    if isinstance(value, np.ndarray):
        return value.astype(np.float64) if value.dtype == np.float32 else value
    if isinstance(value, list):
        return [in_float64(v) for v in value]
    if is_dataclass(value) and not isinstance(value, type):
        return type(value)(**{f.name: in_float64(getattr(value, f.name)) for f in fields(value)})
    return value
