"""`model`: a module, bound method or function of PyTorch for one instance as a model.

In: code that computes one instance with tensors. Out: a `TorchModel`, whose `batch` computes many instances at once.
"""

from __future__ import annotations

import copy
import functools
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch

from acronumba.api.dispatch import bind, compile_for, existing, run_checked, verified
from acronumba.api.forward import Forward, checksum
from acronumba.api.model import Model
from acronumba.api.results import Done, Results
from acronumba.api.specialisations import Cache
from acronumba.config import Options
from acronumba.errors import AcronumbaError, InstanceErrors, InternalError, one_frame
from acronumba.errors.codes import reject
from acronumba.frontend.calls.objects import is_foreign
from acronumba.frontend.kinds.errors import conversion
from acronumba.generics import Value, of_columns
from acronumba.pipeline.boundary import compiling
from acronumba.torch.autograd import Output, follow
from acronumba.torch.devices import Maker, device_of, placed
from acronumba.torch.entries import calling, calling_module
from acronumba.torch.library import decoration, why_not
from acronumba.torch.plain import TorchCall
from acronumba.torch.random_numbers import numbered, retried
from acronumba.torch.results import TensorResults
from acronumba.torch.wanted import TensorSelection

if TYPE_CHECKING:
    from acronumba.api.arguments import Call
    from acronumba.api.specialisations import Fit
    from acronumba.torch.gradients import TorchValueAndGrad


def _is_full(cell: types.CellType) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


_NESTED = 4  # levels of containers and objects that modules are looked for in
_MODULES = 256  # values of a container of modules, at most


def model(fn: Any = None, /, **options: Any) -> Any:
    """Return a module, a bound method or a function of PyTorch, which computes one instance, as a model.

    Parameters
    ----------
    fn : torch.nn.Module, method or function
        The computation of one instance. Of a module, its `forward`. The module of a method is shared by all instances,
        the other parameters vary by instance; keyword-only parameters of a function are shared.
    **options
        Fields of `Options`.

    Returns
    -------
    TorchModel
        A call of it is the call of the module.

    Examples
    --------
    >>> fast = acronumba.torch.model(net)  # doctest: +SKIP
    >>> outs = fast.batch(trees)  # doctest: +SKIP
    >>> torch.nn.functional.cross_entropy(outs.stack(), labels).backward()  # doctest: +SKIP
    """
    if fn is None:
        return functools.partial(model, **options)
    return TorchModel(fn, options=Options().replace(**options))


class TorchModel(Model[..., Any]):
    """A module, method or function of PyTorch as a model. Made by `acronumba.torch.model`."""

    tensors = True

    def __init__(self, target: Any, *, options: Options | None = None, device: str | None = None) -> None:
        self.target: Callable[..., Any] = target.target if isinstance(target, TorchModel) else target
        method = self.target.forward if isinstance(self.target, torch.nn.Module) else self.target
        if isinstance(self.target, torch.nn.Module) and (wrong := why_not(self.target)):
            seen = f"{type(self.target).__name__}: {wrong}"
            raise reject("ACR210", seen=seen, rewrite=conversion(wrong), message="this module cannot be a model")
        self._forwards = _forwards_of(self.target)
        if isinstance(method, types.MethodType) and isinstance(method.__func__, types.FunctionType):
            own = getattr(type(method.__self__), "forward", None)
            fn, self._follows = _walkable(method.__func__, calling_module, own)
            self.bound: Mapping[str, Value] = {_first_of(fn): method.__self__}
        elif isinstance(method, types.FunctionType):
            fn, self._follows = _walkable(method, calling, method)
        else:
            raise reject("ACR210", seen=repr(self.target), rewrite="pass a module, a method or a function")
        self._placed: dict[str, TorchModel] = {}  # see `on_device_of`
        self._draws: set[bool | None] = set()  # the modes in which it draws random numbers
        super().__init__(fn, options=options, device=device)

    def _numbered(self, call: Call) -> Call:
        if _forwards_of(self.target) != self._forwards:
            raise reject("ACR706", message="the forward of the module was assigned after the model was made",
                         rewrite="make another model of it: acronumba.torch.model(net)")  # fmt: skip
        if torch.get_default_dtype() != torch.float32:
            raise reject("ACR706", message=f"the default dtype is {torch.get_default_dtype()}, but must be float32",
                         rewrite="torch.set_default_dtype(torch.float32), and give dtypes by name")  # fmt: skip
        return numbered(call) if self._mode() in self._draws else call

    def _mode(self) -> bool | None:
        """Whether the module is in training; None for a function."""
        owner = self.target if isinstance(self.target, torch.nn.Module) else next(iter(self.bound.values()), None)
        return getattr(owner, "training", None)

    def _like(self, options: Options, device: str | None = None) -> TorchModel:
        return TorchModel(self.target, options=options, device=device)

    def _plain_call(self, shared: Mapping[str, Value], options: Options | None = None) -> TorchCall:
        target = self.target
        for name in self.bound:
            owner = shared[name]
            method = cast(types.MethodType, target)
            target = owner if isinstance(target, torch.nn.Module) else types.MethodType(method.__func__, owner)
        rest = {name: value for name, value in shared.items() if name not in self.bound}
        return TorchCall.of(target, rest, options or self.options)

    def __reduce__(self) -> Any:
        if not self.bound:
            return super().__reduce__()
        return _made, (self.target, self._options, self._device)  # of the module, which PyTorch pickles

    def __deepcopy__(self, memo: Any) -> TorchModel:
        if not self.bound:
            return self
        made = TorchModel(copy.deepcopy(self.target, memo), options=self._options, device=self._device)
        made._share(self._cache)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The plain call of the module, method or function."""
        return self.target(*args, **kwargs)

    def on_device_of(self, shared: Mapping[str, Any]) -> TorchModel:
        """Return the model for the device that the modules of a call are on: itself, for the CPU."""
        if self.there is not None or self._device is not None:
            return self
        name = device_of(self._modules(shared))
        if name == "cpu":
            return self
        if name not in self._placed:
            made = TorchModel(self.target, options=self._options, device=name)
            made.there, made._draws = Maker(name), self._draws
            made._share(self._cache.there.setdefault(name, Cache()))
            self._placed[name] = made
        return self._placed[name]

    def _modules(self, shared: Mapping[str, Any]) -> list[tuple[str, torch.nn.Module]]:
        """Return the modules of a call, with their names; those of the model itself have none."""
        fn = self.__wrapped__
        found = [("", m) for m in self.bound.values()]
        found += [*shared.items()]
        cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
        found += [(name, cell.cell_contents) for name, cell in cells if _is_full(cell)]
        found += [(name, fn.__globals__[name]) for name in fn.__code__.co_names if name in fn.__globals__]
        out, seen = [], set[int]()
        for _ in range(_NESTED):  # containers, and objects, in one another
            out += [(name, of) for name, of in found if isinstance(of, torch.nn.Module)]
            seen.update(id(of) for _, of in found)
            found = [pair for name, of in found for pair in _parts(name, of) if id(pair[1]) not in seen]
        return out

    @of_columns
    @retried
    @placed
    def batch(self, *columns: Any, **shared: Any) -> TensorResults[Any]:
        """Return the results of the plain call of each instance, computed as one mini-batch.

        Parameters
        ----------
        *columns : sequences
            One per parameter that varies; the rows of a tensor are instances.
        **shared
            Parameters by name, the same for all instances: keyword-only ones, and those without a column.

        Returns
        -------
        TensorResults
            A sequence of results. Unless gradients are disabled, PyTorch follows their tensors of floats back into
            parameters and other tensors that require gradients.

        Raises
        ------
        Unsupported, TypeMismatch, ShapeMismatch
            If the function is not supported: all errors at once.
        InstanceErrors
            If instances failed; its `results` holds those of the others.
        """
        with one_frame:
            done = self._done(bind(self, columns, shared))
            results = TensorResults.from_results(done.results)
            if done.errors:
                raise InstanceErrors(done.errors, results)
            return results

    trace = of_columns(retried(placed(Model.trace)))
    explore = retried(placed(Model.explore))
    explain = of_columns(retried(placed(Model.explain)))
    stages = of_columns(retried(placed(Model.stages)))
    check = of_columns(retried(placed(Model.check)))
    _interpret = retried(placed(Model._interpret))

    @property
    def value_and_grad(self) -> TorchValueAndGrad:
        """The same model as a loss with gradients of the parameters that require them."""
        from acronumba.torch.gradients import TorchValueAndGrad

        return TorchValueAndGrad(self)

    def _done(self, call: Call) -> Done:
        follows = torch.is_grad_enabled() if self._follows is None else self._follows
        with torch.set_grad_enabled(follows):
            return self._done_following(call, follows)

    def _done_following(self, call: Call, follows: bool) -> Done:
        if not (call.count and follows):
            return run_checked(self, call)
        fit, wanted = self._fit(call), TensorSelection.empty()
        if fit is not None:
            if not wanted.any_of(fit.leaves, fit.packed):
                return run_checked(self, call, found=fit)
        return verified(self, call, _followed(Forward(self, call, wanted, True, _mark, fit), wanted))

    def _fit(self, call: Call) -> Fit | None:
        """Return the specialisation that fits a call; None if its instances have types that do not go together."""
        with compiling(self.__wrapped__):
            fit = existing(self, call)
            if fit is None:
                try:
                    fit = compile_for(self, call)
                except InternalError:
                    raise
                except AcronumbaError:
                    return None
        return fit


def _parts(name: str, value: object) -> list[tuple[str, Value]]:
    """Return the values that an object or a container of modules has, with their names; large ones hold data."""
    if isinstance(value, dict):
        return [(f"{name}[{key!r}]", of) for key, of in value.items()] if len(value) <= _MODULES else []
    if isinstance(value, list | tuple):
        return [(f"{name}[{k}]", of) for k, of in enumerate(value)] if len(value) <= _MODULES else []
    if isinstance(value, torch.nn.Module | types.ModuleType | type) or not hasattr(value, "__dict__"):
        return []
    return [(f"{name}.{part}".strip("."), of) for part, of in vars(value).items()]


def _mark(array: Any) -> int:
    """Return the checksum of a shared array of NumPy; the versions of tensors are compared in the backward pass."""
    return checksum(array) if isinstance(array, np.ndarray) else 0


def _followed(forward: Forward, wanted: TensorSelection) -> Done:
    """Return the results of a forward pass, with a backward function of their tensors of floats."""
    errors = dict(sorted(forward.errors.items()))
    trained, made = wanted.tensors_seen(), {id(t) for t in forward.made}
    found = ((k, x) for k, arrays in forward.arrays.items() for x in arrays if id(x) in made)
    outputs = {id(x): Output(tensor=x, parts=[(k, x)], stacked=False) for k, x in found}
    if trained and outputs:
        watched = list(wanted.watched.values())
        follow(forward, list(outputs.values()), trained, wanted.tensor_of, watched=watched)
    return Done(Results.of(forward.results), errors, call=forward.call)


def _forwards_of(target: Any) -> tuple[object, ...]:
    """Return the `forward` of the class of a module, and its own; nothing for methods and functions."""
    return (type(target).forward, vars(target).get("forward")) if isinstance(target, torch.nn.Module) else ()


def _walkable(
    fn: types.FunctionType, entry: Callable[[Any], types.FunctionType], own: object
) -> tuple[types.FunctionType, bool | None]:
    """Return a function whose code is compiled, and whether its decorator follows gradients; None: it has none.

    The function is the given one, or that under a `torch.no_grad()` or the like; for `own` of PyTorch, one that calls
    it. Functions under other decorators of PyTorch are rejected.
    """
    follows = None
    while (found := decoration(fn)) is not None:
        fn, inner = found
        follows = inner if follows is None or inner is not None else follows
    if not is_foreign(fn):
        return fn, follows
    if fn is own:
        return entry(fn), follows
    seen = f"{fn.__qualname__}, a function of PyTorch or under one of its decorators"
    raise reject("ACR210", seen=seen, rewrite="pass the function without its decorator, or the module")


def _first_of(fn: types.FunctionType) -> str:
    """Return the name of the parameter to which a method binds its object."""
    if not fn.__code__.co_argcount:
        seen = f"{fn.__qualname__}, whose decorator has the parameters `*args`"
        raise reject("ACR210", seen=seen, rewrite="pass the method without its decorator")
    return fn.__code__.co_varnames[0]


def _made(target: Any, options: Options, device: str | None) -> TorchModel:
    return TorchModel(target, options=options, device=device)
