"""Models of NumPy inside PyTorch: `layer` turns a model into a layer, `Parameters` lets `torch.optim` train arrays.

In: tensors on the CPU, as shared values and in instances; they are read in place. Out: results as new tensors. Tensors
with `requires_grad` get gradients. PyTorch is imported with this module, and by no other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from acronumba.api.arguments import Call
from acronumba.api.dispatch import bind, existing, function_of, run_checked
from acronumba.api.forward import Forward, checksum
from acronumba.api.model import Model
from acronumba.api.results import Results, parts_of
from acronumba.api.specialisations import Fit
from acronumba.api.structures import float_arrays, is_float_array, rebuilt
from acronumba.api.wanted import Choices, wanted_of
from acronumba.data.schema import holds_arrays
from acronumba.errors import InstanceErrors, one_frame
from acronumba.errors.codes import reject
from acronumba.foreign import numpy_array
from acronumba.generics import Value
from acronumba.storage import assembled, leaves
from acronumba.torch.autograd import Output, follow
from acronumba.torch.models import TorchModel

try:
    import torch
except ImportError as error:  # pragma: no cover
    raise ImportError("acronumba.torch needs PyTorch: pip install torch") from error

__all__ = ["Parameters", "layer", "params"]

_DTYPES = ("float32", "float64")


class Parameters(torch.nn.Module):  # type: ignore[misc]
    """The arrays of parameters as a module: each `torch.nn.Parameter` shares the memory of an array.

    Parameters
    ----------
    params : object
        As `acronumba.save` takes them. Their float arrays are parameters with the names that `acronumba.leaves` gives.

    Examples
    --------
    >>> module = Parameters(p)  # doctest: +SKIP
    >>> opt = torch.optim.Adam(module.parameters())  # doctest: +SKIP
    >>> value, grads = loss.value_and_grad.batch(trees, labels, p=p)  # doctest: +SKIP
    >>> module.take(grads)  # doctest: +SKIP
    >>> opt.step()  # doctest: +SKIP
    """

    def __init__(self, params: object) -> None:
        super().__init__()
        self._params = params
        self._arrays: dict[str, Any] = {}  # the arrays by name, kept so that ids stay the same
        for name, array in leaves(params):
            if not isinstance(array, np.ndarray) or array.dtype.name not in _DTYPES or not array.flags.writeable:
                seen = f"`{name}` is {type(array).__name__} of {array.dtype}"
                raise reject("ACR713", message="PyTorch can share only writable arrays of float32 and float64",
                             seen=seen, rewrite="use np.array(w, np.float32) instead")  # fmt: skip
            *path, last = name.split(".")
            self._within(path).register_parameter(last, torch.nn.Parameter(torch.from_numpy(array)))
            self._arrays[name] = array

    def take(self, grads: object) -> None:
        """Set the `.grad` of the parameters to gradients, without a copy.

        Parameters
        ----------
        grads : object
            Gradients of the parameters, as `value_and_grad` or a pullback returns them. A parameter without one keeps
            its `.grad`.
        """
        found = dict(leaves(grads))
        if unknown := sorted(found.keys() - self._arrays.keys()):
            raise reject("ACR713", seen=f"there is no parameter `{unknown[0]}`")
        for name, parameter in self.named_parameters():
            if name in found:
                parameter.grad = torch.from_numpy(np.asarray(found[name]))

    def value(self) -> Any:
        """Return the original parameters."""
        return self._params

    def tensors(self) -> dict[int, Any]:
        """Return the parameters of the module by the ids of the arrays whose memory they share."""
        return {id(self._arrays[name]): parameter for name, parameter in self.named_parameters()}

    def _within(self, path: Sequence[str]) -> Any:
        module = self
        for name in path:
            if name not in module._modules:
                module.add_module(name, torch.nn.Module())
            module = module._modules[name]
        return module


def params(module: Any, like: Any, names: Mapping[str, str] | None = None) -> Any:
    """Return the parameters of a PyTorch module as parameters of a model, without a copy.

    Parameters
    ----------
    module : torch.nn.Module
        A module on the CPU. Training it changes the arrays, too.
    like : object
        A value with the expected structure, shapes and dtypes; its arrays may be uninitialised (`np.empty`).
    names : mapping from str to str, optional
        The module's names, by the names of `acronumba.leaves` (`cells.0.w`), if they differ.

    Examples
    --------
    >>> p = params(torch.nn.LSTMCell(4, 4), like, {"w": "weight_ih", "u": "weight_hh"})  # doctest: +SKIP
    """
    state, other = module.state_dict(), names or {}

    def find(name: str, wanted: Any) -> Any:
        theirs = other.get(name, name)
        if theirs not in state:
            raise reject("ACR713", message=f"the module has no `{theirs}`", seen=", ".join(state), rewrite="pass names")
        array = numpy_array(state[theirs])
        if array.shape != wanted.shape or array.dtype != wanted.dtype:
            seen = f"{array.dtype}{list(array.shape)}, not {wanted.dtype}{list(wanted.shape)}"
            raise reject("ACR713", message=f"`{theirs}` of the module does not match `{name}`", seen=seen,
                         rewrite="pass a `like` with the shapes and dtypes of the module")  # fmt: skip
        return array

    return assembled(like, find)


def layer(f: Callable[..., Any], *, stack: bool = True) -> Layer:
    """Return a model as a function of tensors, for use inside of PyTorch models.

    Parameters
    ----------
    f : model, torch.nn.Module or method of one
        Its result is of any structure. A module or method is made a model by `acronumba.torch.model`; a function is
        one of NumPy, unless it is such a model.
    stack : bool
        Whether results are stacked, as `Results.stack` does: tensors with a leading axis. If not, they are in a list.

    Returns
    -------
    Layer
        Called like `Model.batch`. The rows of a tensor in the place of a column are instances; tensors may also be
        anywhere in instances and in shared values, and `Parameters` may be a shared value.

    Examples
    --------
    >>> encode = layer(tree_lstm)  # doctest: +SKIP
    >>> h = encode(trees, words, p=Parameters(p))  # doctest: +SKIP
    >>> torch.nn.functional.cross_entropy(out(h), labels).backward()  # doctest: +SKIP
    """
    if isinstance(f, torch.nn.Module) or isinstance(getattr(f, "__self__", None), torch.nn.Module):
        f = TorchModel(f)
    return Layer(f if isinstance(f, Model) else Model(f), stack)


class Layer:
    """A model as a function of tensors. Made by `layer`."""

    def __init__(self, model: Model[..., Any], stack: bool) -> None:
        self.model: Model[..., Any] = model
        self.stack: bool = stack

    def __repr__(self) -> str:
        return f"<layer of {self.model!r}>"

    def __call__(self, *columns: Any, **shared: Any) -> Any:
        """Return the results of a mini-batch as tensors. See `Model.batch`, `layer`."""
        if isinstance(self.model, TorchModel):
            results = self.model.batch(*columns, **shared)
            return results.stack() if self.stack else list(results)
        with one_frame:
            given = _Given()
            parts = {name: given.part(v) for name, v in shared.items()}
            call, places, fit = self._bound(given, columns, {name: part.value for name, part in parts.items()})
            if not given.trained():
                done = run_checked(self.model, call, found=fit)
                if done.errors:
                    raise InstanceErrors(done.errors, done.results)
                return _tensors(done.results.stack() if self.stack else list(done.results))
            names = [function_of(self.model).__code__.co_varnames[k] for k, part in enumerate(places) if part.wants]
            names += [name for name, part in parts.items() if part.wants]
            wanted = wanted_of(function_of(self.model), Choices.of(tuple(names), "sum", False, ()), call)
            wanted = replace(wanted, arrays={key: a for key, a in wanted.arrays.items() if given.wants(a)})
            forward = Forward(self.model, call, wanted, True, given.mark, fit)
            if forward.errors:
                raise InstanceErrors(dict(sorted(forward.errors.items())), Results.of(forward.results))
            return self._graph(forward, given)

    def _bound(
        self, given: _Given, columns: Sequence[Value], shared: Mapping[str, Value]
    ) -> tuple[Call, list[_Replaced], Fit | None]:
        """Return a call without tensors, its columns, and a specialisation that fits it, if one exists.

        Types decide which lists of instances are searched for tensors, each in Python: those whose types, in a
        specialisation that fits, hold arrays. A first instance with a tensor decides, too.
        """
        parts = [given.column(column) for column in columns]
        call = bind(self.model, [part.value for part in parts], shared)
        fit = existing(self.model, call) if call.count else None
        changed = False
        for k, (part, column) in enumerate(zip(parts, columns, strict=True)):
            left = part.value is column and isinstance(column, list | tuple)
            if left and (fit is None or holds_arrays(fit.compiled.schema, k)):
                parts[k] = given.part(column)
                changed = changed or parts[k].value is not column
        return (
            (bind(self.model, [part.value for part in parts], shared), parts, None) if changed else (call, parts, fit)
        )

    def _graph(self, forward: Forward, given: _Given) -> Any:
        """Return the results as tensors with a backward function."""
        results = forward.results
        sources: dict[int, tuple[Any, list[tuple[int, Any]]]] = {}  # by output: its array, and its parts by instance
        if self.stack:
            whole: Any = Results.of(results).stack()
            for w, *xs in zip(_leaves(whole), *map(_leaves, results), strict=True):
                if is_float_array(xs[0]):
                    sources[id(w)] = w, list(enumerate(xs))
        else:
            whole = results
            sources = {id(x): (x, [(k, x)]) for k, r in enumerate(results) for x in float_arrays(r)}
        outputs = [
            Output(tensor=torch.from_numpy(np.array(x)), parts=of, stacked=self.stack) for x, of in sources.values()
        ]
        columns = ((c, given.tensor_of(id(forward.call.columns[k]))) for k, c in forward.wanted.columns.items())
        rows = {id(x): (tensor, n) for c, tensor in columns if tensor is not None for n, x in enumerate(c)}
        found = follow(forward, outputs, given.trained(), given.tensor_of, rows=rows)
        made = dict(zip(sources, found, strict=True))
        return rebuilt(whole, lambda v: made[id(v)] if id(v) in made else _tensor(v))


@dataclass(frozen=True, slots=True)
class _Replaced:
    """A shared value or a column without tensors."""

    value: Value
    wants: bool = False  # whether a tensor in it wants a gradient


class _Given:
    """The tensors of a call, and the arrays that share their memory."""

    def __init__(self) -> None:
        self._of: dict[int, Any] = {}  # by the ids of their arrays
        self._arrays: dict[int, Any] = {}  # arrays by the ids of tensors
        self._needs = torch.is_grad_enabled()

    def trained(self) -> list[Any]:
        """Return the tensors that require gradients."""
        of = {id(t): t for t in self._of.values()}
        return [t for t in of.values() if self._needs and t.requires_grad]

    def wants(self, array: Any) -> bool:
        """Whether the tensor of an array wants a gradient."""
        tensor = self._of.get(id(array))
        return tensor is not None and self._needs and bool(tensor.requires_grad)

    def tensor_of(self, key: int) -> Any:
        """Return the tensor of the array with this id, or None."""
        return self._of.get(key)

    def column(self, column: Value) -> _Replaced:
        """Return a column of instances; a list of instances without a tensor in the first one stays as it is."""
        searched = isinstance(column, torch.Tensor) or (isinstance(column, list | tuple) and _holds_tensors(column[:1]))
        return self.part(column) if searched else _Replaced(column)

    def part(self, value: Value) -> _Replaced:
        """Return a value with tensors replaced by arrays; the value itself if it has none."""
        if isinstance(value, Parameters):
            self._of |= value.tensors()
            return _Replaced(value.value(), any(self._needs and t.requires_grad for t in value.tensors().values()))
        if not _holds_tensors(value):
            return _Replaced(value)
        found: list[Value] = []

        def leaf(v: Value) -> Value:
            if isinstance(v, torch.Tensor):
                found.append(v := self._array(v))
            return v

        return _Replaced(rebuilt(value, leaf), any(map(self.wants, found)))

    def mark(self, array: Any) -> int:
        """Return a version or checksum of a shared array, to detect changes. NumPy may change those of `Parameters`."""
        tensor = self._of.get(id(array))
        return checksum(array) if tensor is None or id(tensor) not in self._arrays else int(tensor._version)

    def _array(self, tensor: Any) -> Any:
        """Return the array that shares the memory of a tensor."""
        if id(tensor) not in self._arrays:
            if tensor.device.type != "cpu" or tensor.layout != torch.strided:
                raise reject("ACR706", message="a layer takes dense tensors in the CPU's memory",
                             seen=f"a tensor on {tensor.device}, {tensor.layout}", rewrite="tensor.cpu()")  # fmt: skip
            if tensor.dtype in (torch.bfloat16, torch.float16):
                raise reject("ACR706", message="a layer takes tensors of float32 and float64",
                             seen=str(tensor.dtype), rewrite="tensor.float()")  # fmt: skip
            try:
                array = tensor.detach().resolve_neg().resolve_conj().numpy()
            except RuntimeError as error:  # it stands for others, in `torch.func`
                raise reject("ACR706", message="a layer takes dense tensors in the CPU's memory", seen=str(error),
                             rewrite="use torch.autograd.grad instead of torch.func") from error  # fmt: skip
            self._arrays[id(tensor)] = array
            self._of[id(array)] = tensor
        return self._arrays[id(tensor)]


def _holds_tensors(value: Any) -> bool:
    """Whether a value is, or leads to, a tensor."""
    seen: set[int] = set()
    stack = [value]
    while stack:
        v = stack.pop()
        if isinstance(v, torch.Tensor):
            return True
        if id(v) not in seen:
            parts = parts_of(v)
            if parts:
                seen.add(id(v))
                stack += [part for _, part in parts]
    return False


def _leaves(value: Any) -> Iterator[Any]:
    """Yield the leaves of a structure in order, with repetitions."""
    stack = [value]
    while stack:
        v = stack.pop()
        parts = parts_of(v)
        if parts is None:
            yield v
        else:
            stack += [part for _, part in reversed(parts)]


def _tensors(value: Any) -> Any:
    return rebuilt(value, _tensor)


def _tensor(value: Any) -> Any:
    """Return a copy of an array as a tensor; any other value unchanged."""
    return torch.from_numpy(np.array(value)) if isinstance(value, np.ndarray | np.generic) else value
