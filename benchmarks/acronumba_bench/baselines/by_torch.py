"""PyTorch as a `Library`, at its best settings here: inference mode, weights transposed beforehand, results in place.

`torch.addmm` with a transposed weight is faster than `torch.nn.functional.linear` with few rows, and a loop over time
steps in place is faster than `torch.nn.LSTM` on packed sequences (both measured with PyTorch 2.13 on AVX-512).

On a GPU a program ends when the GPU has computed its results, which stay there; weights, and data that depends on the
structure of the instances alone, are copied to the GPU before. `in_graph` makes a program run as one CUDA graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from acronumba.bench.by_hand.arrays import Array, Library
from acronumba.bench.by_hand.program import Program
from acronumba_bench.baselines.cells import Step


def _index(numbers: Any) -> Array:
    return torch.from_numpy(np.ascontiguousarray(numbers, np.int64))


def _segment_sums(x: Array, first: Array, segment: Array) -> Array:
    return x.new_zeros((len(first), x.shape[1])).index_add_(0, segment, x)


TORCH = Library(
    array=torch.from_numpy,
    weight=lambda m: torch.from_numpy(np.ascontiguousarray(m.T)),
    index=_index,
    host=lambda a: a.numpy(),
    empty=torch.empty,
    take=lambda table, index: torch.index_select(table, 0, index),
    put_=lambda table, index, rows: table.index_copy_(0, index, rows),
    product=torch.mm,
    affine=torch.addmm,
    add_product_=torch.Tensor.addmm_,
    products=torch.matmul,
    multiply=torch.mul,
    add_multiplied_=torch.Tensor.addcmul_,
    concat=torch.cat,
    segment_sums=_segment_sums,
    sigmoid=torch.sigmoid,
    sigmoid_=torch.sigmoid_,
    tanh=torch.tanh,
    tanh_=torch.tanh_,
    relu_=torch.relu_,
    gelu_=F.gelu,
    gelu_tanh_=partial(F.gelu, approximate="tanh"),
    softmax=partial(torch.softmax, dim=-1),
    log_softmax=partial(torch.log_softmax, dim=-1),
    layer_norm=lambda x, weight, bias: F.layer_norm(x, x.shape[-1:], weight, bias),
    attention=lambda q, k, v, causal=False, added=None: F.scaled_dot_product_attention(q, k, v, added, 0.0, causal),
    argmax=partial(torch.argmax, dim=-1),
    top=torch.topk,
)


_where = [torch.device("cpu")]  # where `tensor` puts arrays


@contextmanager
def on(device: str) -> Iterator[None]:
    """Let `tensor` put arrays on a device."""
    _where.append(torch.device(device))
    try:
        yield
    finally:
        _where.pop()


def tensor(array: Any) -> Array:
    """Return an array of NumPy as a tensor where programs are being prepared for."""
    return _put(array, _where[-1])


def _put(array: Any, device: torch.device) -> Array:
    made = torch.from_numpy(array)
    return made if device.type == "cpu" else made.to(device, non_blocking=True)  # `array` is read at once


def namespace(device: str = "cpu") -> Library:
    """Return the operations on a device."""
    if device == "cpu":
        return TORCH
    where = torch.device(device)
    return replace(
        TORCH,
        array=partial(_put, device=where),
        weight=lambda m: _put(np.ascontiguousarray(m.T), where),
        index=lambda numbers: _put(np.ascontiguousarray(numbers, np.int64), where),
        host=lambda a: a.cpu().numpy(),
        empty=partial(torch.empty, device=where),
    )


def inferring(make: Callable[..., Program], device: str = "cpu") -> Callable[..., Program]:
    """Wrap a maker of programs, so that they are prepared and run in PyTorch's inference mode."""

    def made(p: Any, xs: Any) -> Program:
        with torch.inference_mode(), on(device):
            program = make(p, xs)
        run = program.run if device == "cpu" else lambda: _finished(program.run(), device)
        return Program(run=torch.inference_mode()(run), results=program.results)

    return made


def learning(make: Callable[..., Step], device: str) -> Callable[..., Step]:
    """Return a maker of training steps that are prepared for a device, and are over when they return."""

    def made(p: Any, columns: Any, rate: float) -> Step:
        with on(device):
            step = make(p, columns, rate)
        run = step.run if device == "cpu" else lambda: _finished(step.run(), device)
        return replace(step, run=run)

    return made


def _finished(out: Any, device: str) -> Any:
    torch.cuda.synchronize(device)
    return out


class NotCapturedError(RuntimeError):
    """Why a program cannot be a CUDA graph."""


class _Tape:
    """The operations on a device, which return in every run the index tensors of the first run.

    A CUDA graph repeats the work of the GPU, without copies from the CPU. Row numbers that a program makes while it
    runs depend on the data alone, not on computed values, and are the same in every run.
    """

    def __init__(self, device: str) -> None:
        plain = namespace(device)
        self.running = False
        self.kept: list[tuple[Any, Array]] = []
        self.at = 0

        def kept(make: Callable[[Any], Array]) -> Callable[[Any], Array]:
            def put(numbers: Any) -> Array:
                if not self.running:
                    return make(numbers)
                if self.at == len(self.kept):
                    self.kept.append((np.array(numbers), make(numbers)))
                self.at += 1
                before, made = self.kept[self.at - 1]
                if not np.array_equal(before, numbers):
                    raise NotCapturedError("what it computes with depends on what it has computed")
                return made

            return put

        def host(a: Array) -> Any:
            if self.running:
                raise NotCapturedError("it reads what it has computed")
            return plain.host(a)

        self.namespace = replace(plain, array=kept(plain.array), index=kept(plain.index), host=host)

    def run(self, program: Program) -> Any:
        """Run a program from the first tensor on."""
        self.running, self.at = True, 0
        try:
            return program.run()
        finally:
            self.running = False


def in_graph(make: Callable[..., Program], device: str) -> Callable[..., Program]:
    """Return a maker of programs that are run as one CUDA graph.

    Parameters
    ----------
    make : function
        From a `Library`, weights and instances.
    device : str
    """

    def made(p: Any, xs: Any) -> Program:
        tape = _Tape(device)
        with torch.inference_mode():
            program = make(tape.namespace, p, xs)
            replay, out = captured(lambda: tape.run(program), device)

        def run() -> Any:
            replay()
            return _finished(out, device)

        return Program(run=torch.inference_mode()(run), results=program.results)

    return made


def captured(run: Callable[[], Any], device: str) -> tuple[Callable[[], None], Any]:
    """Capture a program; return a function that runs its graph, and the result tensors that the graph fills.

    A graph reads weights and row numbers by address and does not keep them alive: the returned function does.
    """
    aside = torch.cuda.Stream(device)
    aside.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(aside):  # libraries prepare themselves in the first runs
        for _ in range(2):
            run()
    torch.cuda.current_stream(device).wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.device(device), torch.cuda.graph(graph):
            out = run()
    except RuntimeError as error:
        raise NotCapturedError(str(error).partition("\n")[0]) from error

    def replay(kept: Callable[[], Any] = run) -> None:
        graph.replay()

    return replay, out


def sees_gpus() -> bool:
    """Return whether this PyTorch can use a GPU."""
    return bool(torch.cuda.is_available())


def use_threads(count: int) -> None:
    """Let PyTorch compute with so many threads."""
    torch.set_num_threads(count)
