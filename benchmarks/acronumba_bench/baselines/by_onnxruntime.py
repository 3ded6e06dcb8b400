"""onnxruntime as a baseline on the CPU: a graph for the structure of one mini-batch, on one thread.

Weights are constants of the graph, so that onnxruntime can pack them when it is prepared.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

from acronumba.bench.by_hand.arrays import Array
from acronumba.bench.by_hand.program import Program
from acronumba_bench.baselines.one_structure import OF_ONE_STRUCTURE

_OPERATORS = 20  # version of the set of operators: the first with Gelu


class Graph:
    """The operations of ONNX, see `one_structure.Operations`: an array is the name of a value."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        self._known: dict[bytes, str] = {}

    def _node(self, operator: str, *inputs: str, **attributes: Any) -> str:
        name = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(inputs), [name], **attributes))
        return name

    def array(self, a: Any) -> str:
        a = np.ascontiguousarray(a)
        key = a.tobytes() + repr((a.dtype, a.shape)).encode()
        if key not in self._known:
            self._known[key] = name = f"c{len(self.constants)}"
            self.constants.append(numpy_helper.from_array(a, name))
        return self._known[key]

    def weight(self, m: Any) -> str:
        return self.array(m.T)

    def take(self, table: str, index: Any) -> str:
        return self._node("Gather", table, self.array(np.asarray(index, np.int64)))

    def affine(self, x: str, w: str, b: str | None = None) -> str:
        return self._node("MatMul", x, w) if b is None else self._node("Gemm", x, w, b)

    def product(self, a: str, b: str) -> str:
        return self._node("MatMul", a, b)

    def add(self, a: str, b: str) -> str:
        return self._node("Add", a, b)

    def multiply(self, a: str, b: str) -> str:
        return self._node("Mul", a, b)

    def sigmoid(self, x: str) -> str:
        return self._node("Sigmoid", x)

    def tanh(self, x: str) -> str:
        return self._node("Tanh", x)

    def gelu(self, x: str) -> str:
        return self._node("Gelu", x)

    def softmax(self, x: str) -> str:
        return self._node("Softmax", x, axis=-1)

    def layer_norm(self, x: str, scale: str | None, shift: str | None, width: int) -> str:
        scale = self.array(np.ones(width, np.float32)) if scale is None else scale
        return self._node("LayerNormalization", x, scale, *([] if shift is None else [shift]), epsilon=1e-5)

    def part(self, x: str, start: int, stop: int, axis: int = 0) -> str:
        return self._node("Slice", x, *(self.array(np.array([k], np.int64)) for k in (start, stop, axis)))

    def concat(self, parts: Sequence[str], axis: int = 0) -> str:
        return self._node("Concat", *parts, axis=axis)

    def reshape(self, x: str, *shape: int) -> str:
        return self._node("Reshape", x, self.array(np.array(shape, np.int64)))

    def transpose(self, x: str, *axes: int) -> str:
        return self._node("Transpose", x, perm=axes)

    def spread(self, row: str, count: int) -> str:
        return self._node("Expand", row, self.array(np.array([count, 1], np.int64)))


def of_one_structure(workload: str) -> Callable[[Any, Any], Program]:
    """Return the maker of a program for one structure."""

    def make(p: Any, xs: Any) -> Program:
        graph = Graph()
        compute, results = OF_ONE_STRUCTURE[workload](graph, p, xs)
        last = compute()
        output = helper.make_tensor_value_info(last, TensorProto.FLOAT, [None, None])
        made = helper.make_graph(graph.nodes, workload, [], [output], graph.constants)
        opset = [helper.make_opsetid("", _OPERATORS)]
        model = helper.make_model(made, opset_imports=opset, ir_version=9)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        options.log_severity_level = 3
        # Nothing but constants goes in: folding them would compute the results beforehand.
        disabled = ["ConstantFolding"]
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"], disabled_optimizers=disabled
        )
        run: Callable[[], Array] = lambda: session.run(None, {})[0]
        return Program(run=run, results=results)

    return make
