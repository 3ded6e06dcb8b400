"""Models of the zoo in a process that has no Numba and no llvmlite: `python -m tests.support.without_numba NAMES`.

Out: a line of JSON for each model: its kernels, the sizes of its batches, and whether results are those of the plain
call; then the parameters of a small model after some steps of training, and the line that fails in the last batch.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import numpy as np

from acronumba import model, optim

COUNT = 3
# Models of the zoo: the function that is batched, and options of `instances`.
MODELS: dict[str, tuple[str, dict[str, Any]]] = {
    "tree_lstm": ("sentiment", {}),
    "child_sum_lstm": ("classify", {}),
    "mv_rnn": ("sentiment", {}),
    "birnn": ("tag", {}),
    "bilstm_tagger": ("tag", {}),
    "nested_rnn": ("encode", {"iterations": (2, 3)}),
    "listops": ("classify", {}),
    "expressions": ("classify", {}),
    "encoder": ("encode", {}),
    "moe": ("mix", {}),
    "drnn": ("generate", {}),
    "berxit": ("classify", {"length": 6}),
    "stack_rnn": ("parse", {}),
    "graph_rnn": ("generate", {"nodes": 4}),
    "beam_decoder": ("decode", {}),
    "decoder": ("generate", {}),
}


@model
def loss(tree: Any, target: float, *, p: dict[str, Any]) -> Any:
    def encode(tree: Any) -> Any:
        if isinstance(tree, int):
            return p["embed"][tree]
        left, right = tree
        return np.tanh(p["w"] @ np.concatenate([encode(left), encode(right)]) + p["b"])

    return (np.sum(encode(tree)) - target) ** 2


def trained() -> dict[str, Any]:
    """Return the parameters after some steps, and the failure of an instance."""
    p = {"embed": np.eye(5, 3, dtype=np.float32), "w": np.full((3, 6), 0.1, np.float32), "b": np.zeros(3, np.float32)}
    trees, targets = [(0, (1, 2)), 3, ((4, 4), (1, (0, 2)))], [1.0, 2.0, 3.0]
    for rule in (optim.Adam(0.1), optim.SGD(0.01)):
        for _ in range(2):
            _, grads = loss.value_and_grad.batch(trees, targets, p=p)
            rule.update(p, grads)
    try:
        loss.batch([(0, 1), (1, 9)], [0.0, 0.0], p=p)
    except Exception as error:
        failure = str(error)
    return {**{name: array.tolist() for name, array in p.items()}, "failure": failure}


class Missing:
    """A finder that hides Numba."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name.split(".")[0] in ("numba", "llvmlite"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return None


def summary(name: str) -> dict[str, Any]:
    """Return what is recorded for a few instances of a model, and whether its results are the plain call's."""
    module = import_module(f"acronumba.zoo.{name}")
    attribute, options = MODELS[name]
    model, p, xs = getattr(module, attribute), module.params(8), module.instances(COUNT, **options)
    trace = model.trace(xs, p=p)
    return {
        "name": name,
        "batches": [[batch.kernel, batch.size] for batch in trace.batches],
        "check": model.check(xs, p=p).ok,
    }


def main() -> None:
    sys.meta_path.insert(0, Missing())
    for name in sys.argv[1:]:
        print(json.dumps(summary(name)))
    print(json.dumps(trained()))
    assert "llvmlite" not in sys.modules


if __name__ == "__main__":
    main()
