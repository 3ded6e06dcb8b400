"""Baselines for the compiler: the models of the zoo, written by hand in NumPy, PyTorch and DyNet.

In: the name of a workload, its weights and instances. Out: a `Program` per baseline, whose results are those of the
plain calls (`acronumba.bench.agreement`). `BATCHED` names the programs that batch by hand, each written once for NumPy
and PyTorch. PyTorch and DyNet are used where they are installed; on a GPU PyTorch alone, in CUDA graphs, too. JAX and
onnxruntime compile four of the models for one structure, on one thread of a CPU.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from acronumba.bench import by_hand
from acronumba.bench.by_hand import BY_NUMPY
from acronumba.bench.by_hand.by_numpy import NUMPY
from acronumba.bench.by_hand.program import Program
from acronumba.bench.instruments import Maker
from acronumba_bench.baselines import deciding, sequences, trees, writing
from acronumba_bench.baselines.one_structure import OF_ONE_STRUCTURE

TORCH_EACH, BY_TORCH, BY_DYNET = "PyTorch one by one", "PyTorch by hand", "DyNet"
IN_GRAPH = "PyTorch by hand in a CUDA graph"
BY_JAX, IN_BUCKETS = "JAX, one structure", "JAX, in buckets"
BY_ONNXRUNTIME = "onnxruntime, one shape"
BASELINES = (BY_NUMPY, TORCH_EACH, BY_TORCH, BY_DYNET)

BATCHED: Mapping[str, Callable[..., Program]] = {
    **by_hand.BATCHED,
    "child_sum_lstm": trees.classify_syntax,
    "mv_rnn": trees.matrices_and_vectors,
    "bilstm_tagger": sequences.tag_spelled,
    "nested_rnn": sequences.encode_texts,
    "listops": trees.classify_expressions,
    "expressions": trees.classify_tuples,
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


def makers(workload: str, threads: int = 1, device: str = "cpu") -> dict[str, Maker]:
    """Return the baselines for a workload that are available on this machine.

    Parameters
    ----------
    workload : str
        Its name in `acronumba_bench.workloads`.
    threads : int
        Number of threads of PyTorch. That of NumPy is fixed when it is imported.
    device : str
        "cpu", or PyTorch's name of a GPU; other devices have no baselines.

    Returns
    -------
    dict of str to function
        By name; each prepares a program from weights and instances, or raises a `RuntimeError` with the reason why it
        cannot.
    """
    found: dict[str, Maker] = {}
    if workload not in BATCHED:
        return found
    batched = BATCHED[workload]
    if device != "cpu":
        return _on_gpu(workload, device)
    found[BY_NUMPY] = lambda p, xs: batched(NUMPY, p, xs)
    if importlib.util.find_spec("torch") is not None:
        from acronumba_bench.baselines import by_torch
        from acronumba_bench.baselines.one_by_one import ONE_BY_ONE

        by_torch.use_threads(threads)
        found[TORCH_EACH] = by_torch.inferring(ONE_BY_ONE[workload])
        found[BY_TORCH] = by_torch.inferring(lambda p, xs: batched(by_torch.TORCH, p, xs))
    if workload in ("tree_lstm", "birnn") and importlib.util.find_spec("dynet") is not None:
        from acronumba_bench.baselines.by_dynet import AUTOBATCHED

        found[BY_DYNET] = AUTOBATCHED[workload]
    return found | of_one_structure(workload, threads)


def of_one_structure(workload: str, threads: int = 1) -> dict[str, Maker]:
    """Return the baselines that are compiled for the structure, or the size, of their mini-batch alone.

    Those of a library that is not installed are there, too: they raise a `RuntimeError` that says so.
    """
    if workload not in OF_ONE_STRUCTURE:
        return {}
    found: dict[str, Maker] = {}
    if not (missing := _missing(threads, "jax")):
        from acronumba_bench.baselines import by_jax

        found |= {BY_JAX: by_jax.of_one_structure(workload), IN_BUCKETS: by_jax.IN_BUCKETS[workload]}
    else:
        found |= dict.fromkeys((BY_JAX, IN_BUCKETS), partial(_refuse, missing))
    if not (missing := _missing(threads, "onnx", "onnxruntime")):
        from acronumba_bench.baselines import by_onnxruntime

        found[BY_ONNXRUNTIME] = by_onnxruntime.of_one_structure(workload)
    else:
        found[BY_ONNXRUNTIME] = partial(_refuse, missing)
    return found


def _missing(threads: int, *libraries: str) -> str:
    """Return why a baseline of one structure cannot be used, or ""."""
    lacking = [name for name in libraries if importlib.util.find_spec(name) is None]
    if lacking:
        return f"{' and '.join(lacking)} {'are' if len(lacking) > 1 else 'is'} not installed"
    return "measured on one thread only" if threads > 1 else ""


def _refuse(reason: str, p: Any, xs: Any) -> Program:
    raise RuntimeError(reason)


def _on_gpu(workload: str, device: str) -> dict[str, Maker]:
    if not device.startswith("cuda") or importlib.util.find_spec("torch") is None:
        return {}
    from acronumba_bench.baselines import by_torch
    from acronumba_bench.baselines.one_by_one import ONE_BY_ONE

    if not by_torch.sees_gpus():
        return {}
    batched = BATCHED[workload]
    return {
        TORCH_EACH: by_torch.inferring(ONE_BY_ONE[workload], device),
        BY_TORCH: by_torch.inferring(lambda p, xs: batched(by_torch.namespace(device), p, xs), device),
        IN_GRAPH: by_torch.in_graph(batched, device),
    }
