"""The tensors of a call that require gradients: shared ones, and those in instances.

In: a call, and the specialisation of some of its instances. Out: their `Selection`, by the ids of tensors.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from acronumba.api.structures import float_arrays
from acronumba.api.wanted import Selection, Totals
from acronumba.data.row_grad import Gradient, scaled, total
from acronumba.data.schema import holds_arrays
from acronumba.foreign import is_tensor
from acronumba.generics import Value
from acronumba.torch.autograd import writable

if TYPE_CHECKING:
    from acronumba.api.arguments import Call
    from acronumba.data.buffers import TensorMaker
    from acronumba.data.pack import Batch
    from acronumba.pipeline.compiled import Compiled


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorSelection(Selection):
    """The tensors that require gradients."""

    seen: dict[int, tuple[str, Any]] = field(default_factory=dict)  # of all instances, with their paths, by id
    watched: dict[int, Any] = field(default_factory=dict)  # shared tensors that compiled code reads, by id

    instances: bool = True  # whether tensors in instances get gradients, too
    names: Mapping[int, str] = field(default_factory=dict)  # of shared tensors by id, where they are not their paths
    there: TensorMaker | None = None  # makes tensors on the device of the model

    @classmethod
    def empty(
        cls, instances: bool = True, names: Mapping[int, str] | None = None, there: TensorMaker | None = None
    ) -> TensorSelection:
        """Return the selection of no tensor; `of` makes that of some instances."""
        return cls(
            paths=(), single=True, shared=(), places=(), parts=(), columns={}, arrays={}, sparse=False,
            instances=instances, names=names or {}, there=there,
        )  # fmt: skip

    def any_of(self, leaves: Iterable[Value], packed: Batch | None) -> bool:
        """Whether some shared values, or packed instances, hold a tensor that requires a gradient."""
        given = (t for leaf in leaves for t in ([leaf] if is_tensor(leaf) else float_arrays(leaf)))
        return any(map(_is_trained, given)) or any(map(_is_trained, self._in_instances(packed)))

    def _in_instances(self, packed: Batch | None) -> Iterable[Any]:
        """Return the arrays of other libraries in instances, if they get gradients."""
        return () if packed is None or not self.instances else (t for heap in packed.heaps for t in heap.foreign)

    def of(self, compiled: Compiled, leaves: Sequence[Value], packed: Batch | None, call: Call) -> TensorSelection:
        """Return the selection for some instances of a call, which a specialisation fits."""
        arrays: dict[int, Value] = {}
        for param, leaf in zip(compiled.program.shared, leaves, strict=False):
            tensors = [leaf] if is_tensor(leaf) else float_arrays(leaf)
            self.watched.update((id(t), t) for t in tensors if is_tensor(t))
            for t in trained(tensors):
                arrays[id(t)] = t
                self.seen.setdefault(id(t), (self.names.get(id(t), param.path), t))
        own = trained(self._in_instances(packed))
        self.seen.update((id(t), ("", t)) for t in own if id(t) not in self.seen)
        params = range(len(compiled.schema.params))
        columns = {k: list(call.columns[k]) for k in params if own and holds_arrays(compiled.schema, k)}
        names = compiled.fn.__code__.co_varnames
        return replace(
            self, arrays=arrays, columns=columns, places=tuple(columns), parts=tuple(columns.values()),
            paths=tuple(names[k] for k in columns), shared=(None,) * len(columns),
        )  # fmt: skip

    def tensors_seen(self) -> list[Any]:
        """Return the tensors that require gradients, of all instances."""
        return [t for _, t in self.seen.values()]

    def tensor_of(self, key: int) -> Any:
        """Return the tensor with this id if it requires a gradient, else None."""
        found = self.seen.get(key)
        return None if found is None else found[1]

    def constant(self, compiled: Compiled, leaves: Sequence[Value]) -> frozenset[int]:
        """Return the words of tensors in the result that no selected tensor leads to: PyTorch does not follow them."""
        return compiled.derivatives.active(self.in_program(compiled, leaves), None).constant

    def check(self, compiled: Compiled, leaves: Sequence[Value], width: int | None) -> None:
        """Raise for lost gradients; numbers that are read from tensors have none in PyTorch either."""
        found = compiled.derivatives.active(self.in_program(compiled, leaves), width).rejection_of_writes()
        if found is not None:
            raise found

    def structures(
        self, totals: Mapping[int, Totals], parts: Sequence[Totals], share: float, *, wide: bool, one: bool
    ) -> dict[str, Any]:
        """Return the gradients of a mini-batch by the paths of shared tensors."""
        found: dict[int, list[Gradient]] = {}
        for of in (*parts, *totals.values()):
            for key, g in (*of.of.items(), *of.own.items()):
                found.setdefault(key, []).append(g)
        out: dict[str, Any] = {}
        for key, gs in found.items():
            if key in self.seen:
                path, tensor = self.seen[key]
                if self.there is not None:
                    out[path] = sum(map(self.there, gs)).view(tensor.shape) * share
                    continue
                g = writable(np.asarray(scaled(total(gs), share)))
                out[path] = torch.from_numpy(g.reshape(tuple(tensor.shape)))
        return out


def trained(tensors: Iterable[Any]) -> list[Any]:
    """Return the tensors of floats that require gradients."""
    return [t for t in tensors if _is_trained(t)]


def _is_trained(tensor: Any) -> bool:
    return is_tensor(tensor) and bool(tensor.requires_grad)
