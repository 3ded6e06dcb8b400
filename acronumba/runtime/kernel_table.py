"""The kernels of a forward or backward pass as compiled code reads them.

In: specifications and linked kernels. Out: `KernelTable`, rows of `state.KERNEL` with a parameter table for each.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from acronumba.data.words import RECORD
from acronumba.ir.spec import FIXED, PARAMETERS, KernelSpec
from acronumba.kernels.figures import reading
from acronumba.memory import Words, address
from acronumba.runtime import state
from acronumba.runtime.program import KernelEntry
from acronumba.runtime.state import TABLE
from acronumba.strategy import Strategy

_LOOK = 10  # nanoseconds that it takes to look for an equal node
_HOST = 20  # ... to record, schedule and place a node
_TRIES = 32  # nodes of a kernel that are looked for if none is found
_RARE = 400  # looking in vain takes about one of so many parts of the time of the nodes
_FOREVER = 1 << 40


class KernelTable:
    """Rows of `state.KERNEL`, and the parameter table P of each kernel: `FIXED` words, results, shared arrays, tiles.

    Parameters
    ----------
    specs, entries
        The kernels.
    strategy
        The strategy of their code.
    reach
        Makes memory known to an interpreter of compiled code.
    step
        Bytes from the address of one result of a node with run-time extents to the next.
    more
        Number of further rows, of functions that have no specification.
    """

    def __init__(
        self, specs: Sequence[KernelSpec], entries: Sequence[KernelEntry], strategy: Strategy,
        reach: Callable[[NDArray[np.int64]], object], *, step: int = RECORD.size, more: int = 0,
    ) -> None:  # fmt: skip
        self.specs, self._entries, self._reach = specs, entries, reach
        self.rows: Words = np.zeros((max(len(specs) + more, 1), len(TABLE)), np.int64)
        self.count = len(specs) + more
        self.params: list[Words] = []
        self._keep: list[Words] = []  # arrays that words of the rows lead to
        reach(self.rows)
        for row, spec, entry in zip(self.rows, specs, entries, strict=False):
            self._describe(row, spec, entry, strategy, step)

    def _describe(self, row: Words, spec: KernelSpec, entry: KernelEntry, strategy: Strategy, step: int) -> None:
        """Fill the words that the execution of a kernel reads."""
        args, results = sum(o.kind != "shared" for o in spec.operands), len(spec.results)
        tail = [0] * len(entry.shared) + list(entry.tiles)
        self.params.append(params := np.array([*(0,) * (FIXED + results), *tail], np.int64))
        if spec.dims:
            params[PARAMETERS.at["extents"]] = 8 * args
            params[FIXED : FIXED + results] = 8 * (args + spec.dims) + step * np.arange(results)
        words = {
            "plan": entry.plan, "run": entry.run, "params": self._address(params), "args": args, "dims": spec.dims,
            "results": results, "cost": entry.cost or _cost(spec),
        }  # fmt: skip
        if entry.stages:
            shares = np.array([(s.address, reading(s.weights, strategy)) for s in entry.stages], np.int64)
            words |= {"begin": entry.begin, "stages": len(shares), "block": entry.block}
            words["shares"] = self._address(shares)
        _fill(row, words)

    def describe_recording(self, equal: frozenset[int]) -> None:
        """Fill the words that recording and scheduling read; `equal`: kernels whose equal nodes are recorded once."""
        for k, (row, spec, entry) in enumerate(zip(self.rows, self.specs, self._entries, strict=False)):
            args = [o for o in spec.operands if o.kind != "shared"]
            items = [o for o in args if spec.rows is not None and spec.rows[o.index] == "item"]
            tensors = sum(o.kind == "tensor" and o not in items for o in args)
            words = {
                "tensors": tensors, "bytes": _bytes(spec), "fallible": int(any(op.site >= 0 for op in spec.body)),
                "lists": sum(o.kind == "list" or (o.kind == "tensor" and o in items) for o in args),
            }  # fmt: skip
            if k in equal:
                tries, gain, pause = _credit((entry.typical or _cost(spec, typical=True)) + _HOST, len(equal))
                words |= {"equal_tries": tries, "equal_gain": gain, "equal_pause": pause}
                words["equal_late"] = int(tries < _FOREVER and tensors > 0)
            if spec.rows is not None:
                words["rows"] = self._address(ways_of_rows(spec))
            _fill(row, words)

    def add_function(self, k: int, run: int, tail: Sequence[int], cost: int) -> None:
        """Fill the row of a function without a specification; `tail`: the last words of its parameter table."""
        params = np.array([*(0,) * FIXED, *tail], np.int64)
        _fill(self.rows[k], {"run": run, "cost": cost, "params": self._address(params)})

    def set_shared(self, k: int, words: Sequence[int]) -> None:
        """Set the words of a parameter table from the addresses of shared arrays on."""
        at = FIXED + len(self.specs[k].results)
        self.params[k][at : at + len(words)] = words

    def _address(self, array: Words) -> int:
        """Return the address of an array, which lives as long as the table."""
        self._reach(array)
        self._keep.append(array)
        return address(array)


def _fill(row: Words, words: dict[str, int]) -> None:
    for name, word in words.items():
        row[TABLE[name]] = word


def ways_of_rows(spec: KernelSpec) -> Words:
    """Return the table that the word `rows` of `state.KERNEL` points to, for a kernel whose nodes are several rows.

    int64[2, operands]: bytes from row to row (0: all of it, -1: items of a list), and 1 + number of axes.
    """
    assert spec.rows is not None
    args = [o for o in spec.operands if o.kind != "shared"]
    ways: Words = np.zeros((2, max(len(args), 1)), np.int64)
    for o in args:
        ways[0, o.index] = {"whole": 0, "item": -1, "row": np.dtype(o.dtype).itemsize}[spec.rows[o.index]]
        ways[1, o.index] = 1 + len(o.shape)
    return ways


def _bytes(spec: KernelSpec) -> int:
    """Estimate the bytes that a node takes; 0 if they depend on its extents."""
    if spec.dims or spec.rows is not None:
        return 0
    ops = [spec.body[v - len(spec.operands)] for v in spec.results]
    sizes = (math.prod(n for n in op.shape if isinstance(n, int)) * np.dtype(op.dtype).itemsize for op in ops)
    return state.NODE_BYTES + sum(sizes)


def _credit(cost: int, kernels: int) -> tuple[int, int, int]:
    """Return how hard to search for equal nodes of a kernel: see `library.equal`.

    Parameters
    ----------
    cost
        Nanoseconds that a node takes, those of the host program included.
    kernels
        Number of kernels whose equal nodes are searched for.

    Returns
    -------
    tries
        Number of nodes to search for until one is found. The search never ends if it takes less than a two-hundredth of
        a node's time.
    gain
        Number of further tries when one is found.
    pause
        Most nodes, of all kernels, that are recorded before the search resumes, once any equal node has been found.
    """
    gain = max(1, cost // _LOOK)
    return _FOREVER if gain > 200 else _TRIES, min(gain, _TRIES), max(1, state.EQUAL_AGAIN * _RARE * kernels // gain)


def _cost(spec: KernelSpec, typical: bool = False) -> int:
    """Estimate the nanoseconds of a node, on this or a typical CPU, if the generator of the kernel has not."""
    from acronumba.kernels.cost import cost, typical_cost

    return typical_cost(spec) if typical else cost(spec)


def weights_bytes(specs: Sequence[KernelSpec], precision: str = "float32") -> int:
    """Return the bytes of shared weights that the kernels read; `precision`: of their products."""
    weights = 0
    for spec in specs:
        read = {k for op in spec.body if op.op == "matmul" for k in op.args if k < len(spec.operands)}
        for operand in (spec.operands[k] for k in read):
            if operand.kind == "shared":
                halves = precision == "bf16" and operand.dtype == "float32"
                size = 2 if halves else np.dtype(operand.dtype).itemsize
                weights += math.prod(n for n in operand.shape if isinstance(n, int)) * size
    return weights
