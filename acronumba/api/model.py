"""Public interface of models: `model` turns a function into a `Model`; `Model.batch` runs it for many instances.

In: the user's function and data. Out: `Results`, or the user's errors. A model is the function, a device and options;
its compiled specialisations are shared with the models made from it by `on` and `with_options`. `pipeline` compiles,
`runtime` runs, `check` and `explanation` report.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, Unpack, overload

from acronumba.api import dispatch
from acronumba.api.arguments import Call, Signature
from acronumba.api.columns import is_packed
from acronumba.api.dispatch import bind, specialise
from acronumba.api.plain import PlainCall, inside
from acronumba.api.results import Done, Results
from acronumba.api.snapshot import Snapshot, value_of
from acronumba.api.specialisations import Cache
from acronumba.api.structures import float_arrays, native
from acronumba.api.trace import Trace
from acronumba.api.traced_run import TracedRun
from acronumba.config import Options
from acronumba.errors import InstanceErrors, one_frame
from acronumba.errors.codes import reject
from acronumba.foreign import BY_SOURCE, source_function
from acronumba.generics import P, R, Value, of_columns
from acronumba.memory import Array, homes, refuse_stale
from acronumba.pipeline.boundary import compiling
from acronumba.runtime.devices.names import check_device, default_device
from acronumba.views.summary import Summarised, Summary
from acronumba.views.words import counted

if TYPE_CHECKING:
    from pathlib import Path

    from acronumba.api.check import Check
    from acronumba.api.explanation import Explanation
    from acronumba.api.exploration import Exploration
    from acronumba.api.gradients import ValueAndGrad
    from acronumba.api.known import Known
    from acronumba.api.nan import FirstNaN
    from acronumba.api.stages import Stages
    from acronumba.config import Changes
    from acronumba.data.buffers import TensorMaker
    from acronumba.generics import Whole
    from acronumba.ir.notes import Note
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.trace import TraceData


@overload
def model(fn: Callable[P, R], /, **options: Unpack[Changes]) -> Model[P, R]: ...
@overload
def model(fn: None = None, /, **options: Unpack[Changes]) -> Callable[[Callable[P, R]], Model[P, R]]: ...
def model(fn: Callable[..., Any] | None = None, /, **options: Unpack[Changes]) -> Any:
    """Turn a function into a model: decorate it with ``@model``, or ``@model(schedule="agenda")``.

    Positional parameters vary by instance, keyword-only parameters are shared by all instances of a batch.

    Parameters
    ----------
    fn : function
        The computation of one instance, in plain Python and NumPy.
    **options
        Fields of `Options`.

    Returns
    -------
    Model
        A call of it is a call of the function; see `Model.batch` for mini-batches.
    """
    if fn is None:
        made = Options().replace(**options)
        return lambda function: Model(function, options=made)
    return Model(fn, options=Options().replace(**options))


class Model(Summarised, Generic[P, R]):
    """A function for one instance, which can be run for many at once. Made by `model`."""

    __acronumba_model__ = True  # how the front end knows a model inside a model
    __wrapped__: Callable[P, R]
    __name__: str
    __qualname__: str

    bound: Mapping[str, Value] = MappingProxyType({})  # values of parameters that no call passes: `self` of a method
    tensors: bool = False  # whether tensors of PyTorch are tensors in the code of the function, not arrays

    _native: Callable[P, R] | None = None  # a function of Numba that a plain call runs in place of the source
    _known: Known | None = None  # its last mini-batch of packs
    _cache: Cache  # its compiled specialisations, by options
    _entries: list[Compiled]  # the entries of the cache for the options of this model

    def __init__(self, fn: Callable[P, R], *, options: Options | None = None, device: str | None = None) -> None:
        fn = fn.__wrapped__ if isinstance(fn, Model) else fn
        source = source_function(fn)
        if source is not None:
            BY_SOURCE.add(source)
            self._native, fn = fn, source
        elif isinstance(fn, functools._lru_cache_wrapper):
            self._native, fn = fn, fn.__wrapped__
        if not callable(fn) or hasattr(type(fn), "__acronumba_gradients__"):
            raise TypeError(f"@model expects a function, not {type(fn).__name__}")
        functools.update_wrapper(self, fn)
        self._options = options or Options()
        self._device = device
        self._signature: Signature | None = None
        self._share(Cache())

    def _share(self, cache: Cache) -> Model[P, R]:
        """Use another cache of specialisations; return the model itself."""
        self._cache, self._entries = cache, cache.of(self._options)
        return self

    def _numbered(self, call: Call) -> Call:
        """Return a call, with a column of keys if the function draws random numbers without a key."""
        return call

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The plain call: the user's own function on one instance, with foreign arrays converted to NumPy."""
        named: dict[str, Value] = dict(kwargs)
        if any(type(v) is Snapshot or is_packed(v) for v in named.values()):
            named = {k: value_of(v) for k, v in named.items()}
        fn: Callable[..., R] = self._native or self.__wrapped__
        if inside.plain:
            return fn(*args, **named)
        given, named = native((args, named))
        if homes:
            refuse_stale(float_arrays([given, named]))
        inside.plain = True
        try:
            return fn(*given, **named)
        finally:
            inside.plain = False

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<model {self.__wrapped__.__module__}.{self.__qualname__}>"

    def _summary(self) -> Summary:
        parameters = inspect.signature(self.__wrapped__).parameters.values()
        types = {p.name: "" if p.annotation is p.empty else inspect.formatannotation(p.annotation) for p in parameters}
        kinds = ("shared" if p.kind is p.KEYWORD_ONLY else "varies by instance" for p in parameters)
        rows = tuple((name, text.strip("'"), kind) for (name, text), kind in zip(types.items(), kinds, strict=True))
        options = ((f.name, getattr(self.options, f.name), f.default) for f in dataclasses.fields(Options))
        changed = [f"{name}={value!r}" for name, value, default in options if value != default]
        words = [f"on {self.device}", *changed, f"compiled for {counted(len(self._entries), 'form')} of arguments"]
        return Summary(self.__qualname__, ", ".join(words), ("parameter", "type", ""), rows)

    def __reduce__(self) -> Any:
        from acronumba.api.pickling import reduce

        return reduce(self)

    def __copy__(self) -> Model[P, R]:
        return self

    def __deepcopy__(self, memo: Any) -> Model[P, R]:
        return self

    @property
    def options(self) -> Options:
        """The options of this model."""
        return self._options

    there: TensorMaker | None = None  # makes tensors of PyTorch on a device, if results are to be there

    @property
    def device(self) -> str:
        """The device that batches run on."""
        return self._device or default_device()

    def on(self, device: str) -> Model[P, R]:
        """Return a model that runs on another device and shares the specialisations of this one.

        Parameters
        ----------
        device : str
            "cpu"; "cuda" or "cuda:1" for a GPU; "simulator" for a GPU in plain Python, which is very slow, to study
            kernels without a GPU.
        """
        checked = check_device(device)
        return self._like(self._options, checked)._share(self._cache)

    def with_options(self, **changes: Unpack[Changes]) -> Model[P, R]:
        """Return a model with other options (see `Options`) that shares the specialisations of this one."""
        options = self._options.replace(**changes)
        return self._like(options, self._device)._share(self._cache)

    def _like(self, options: Options, device: str | None = None) -> Model[P, R]:
        """Return a model of the same function with other options."""
        return Model(self._native or self.__wrapped__, options=options, device=device)

    def _plain_call(self, shared: Mapping[str, Value], options: Options | None = None) -> PlainCall:
        """Return the plain call of one instance, with bounds."""
        if homes:
            refuse_stale(float_arrays(list(shared.values())))
        return PlainCall.of(self.__wrapped__, shared, options or self.options)

    @of_columns
    def batch(self, *columns: Value, **shared: Value) -> Results[R]:
        """Return the results of the plain call of each instance, computed as one mini-batch.

        Parameters
        ----------
        *columns : sequences
            One per positional parameter, all of one length; a parameter with a default may be omitted. An array is a
            column of its rows, and a pack from `pack` is a column.
        **shared
            The keyword-only parameters, the same for all instances.

        Returns
        -------
        Results
            A sequence of results, all of them computed.

        Raises
        ------
        Unsupported, TypeMismatch, ShapeMismatch
            If the function is not supported: all errors at once.
        InstanceErrors
            If instances failed; its `results` holds those of the others.
        """
        with one_frame:
            done = dispatch.batch(self, columns, shared)
            if done.errors:
                raise InstanceErrors(done.errors, done.results)
            return done.results

    @of_columns
    def trace(self, *columns: Value, **shared: Value) -> Trace:
        """Run and record: nodes, batches, times. Failures are in `Trace.errors`; nothing is raised for them.

        If the types of the instances are incompatible, the results and failures are of all instances; the nodes,
        batches and times are those of the largest group.
        """
        with one_frame:
            done = dispatch.batch(self, columns, shared, trace=True)
        assert done.trace is not None
        ran = self._what_ran(done)
        return Trace(model=self.__qualname__, results=done.results, data=done.trace, errors=done.errors, ran=ran)

    def _what_ran(self, done: Done) -> TracedRun | None:
        call, compiled = done.call, done.compiled
        if call is None or compiled is None:
            return None
        record = lambda options, trace: self._recorded(call, options, compiled, trace)

        def sites(trace: TraceData) -> Array | None:
            _, leaves, packed = specialise(self, call)
            return None if packed is None else compiled.sites(packed, leaves, trace)

        return TracedRun(compiled=compiled, instances=call.count, record=record, sites=sites)

    def explore(
        self,
        *columns: Any,
        path: str | Path | None = None,
        schedules: bool = True,
        options: bool | None = None,
        **shared: Any,
    ) -> Exploration:
        """Run a mini-batch, write a page that shows how it was compiled and batched, and print the page's path.

        In a notebook the page is shown, and written only if `path` is given. The page shows the fastest of five runs.

        Parameters
        ----------
        *columns
            As of `batch`.
        path : str or Path, optional
            Path of the page; by default the model's name with ``.html``, in the current folder.
        schedules, options
            See `Trace.explored`.
        **shared
            As of `batch`.

        Returns
        -------
        Exploration
            With ``data``, ``html(path)`` and ``json(path)``.
        """
        from acronumba.api.exploration import RUNS
        from acronumba.views.console import in_notebook

        with one_frame:
            found = self.explored(columns, shared, runs=RUNS, schedules=schedules, options=options)
        if path is not None or not in_notebook():
            print(found.html(path or f"{self.__name__}.html"))
        return found

    def explored(
        self, columns: Sequence[Value], shared: Mapping[str, Value], *, runs: int = 1, schedules: bool = True,
        options: bool | None = None,
    ) -> Exploration:  # fmt: skip
        """Return the explorer's view of the fastest of `runs` runs; nothing is written."""
        from acronumba.api.exploration import exploration

        traced = min((self.trace(*columns, **shared) for _ in range(runs)), key=lambda t: t.seconds["execute"])
        count = len(traced.results)
        return exploration(
            self.__qualname__, traced.data, traced.errors, count, traced.ran,
            schedules=schedules, options=options, runs=runs,
        )  # fmt: skip

    @of_columns
    def explain(self, *columns: Value, **shared: Value) -> Explanation:
        """Explain the compiler's decisions, on the user's source lines, and the effect of each option.

        The mini-batch is recorded and scheduled, with the present options and with each option changed alone. No kernel
        is compiled and nothing is computed, unless the model waits for values: then it runs once, and the values read
        are reused for all options, or, if an instance has several fibers, it runs with each.
        """
        with one_frame:
            return self._explained(bind(self, columns, shared))

    def _explained(
        self, call: Call, notes: Callable[[Compiled, Sequence[Value]], Sequence[Note]] = lambda compiled, leaves: ()
    ) -> Explanation:
        """Return the explanation of a call; `notes` gives notes besides those of the plan."""
        from acronumba.api.effects import changes, effects
        from acronumba.api.explanation import explanation
        from acronumba.views.progress import progress

        if not call.count:
            raise reject("ACR706", message="the types cannot be inferred from an empty mini-batch")
        with progress(f"explaining {self.__qualname__}", 1 + len(changes(self.options))) as step:
            compiled, leaves, trace = self._record(call)
            step(1)
            found = effects(self.options, lambda options: self._recorded(call, options, compiled, trace), step)
        many = self._cache.groups
        remarks = [dispatch.groups_text(self.__qualname__, many)] if many >= dispatch.MANY_GROUPS else []
        with compiling(self.__wrapped__):
            return explanation(compiled, trace, call.count, found, notes(compiled, leaves), remarks)

    @of_columns
    def stages(self, *columns: Value, **shared: Value) -> Stages:
        """Return the text of every stage of the compiler, a mapping in order."""
        from acronumba.api.stages import Stages

        with one_frame:
            return Stages(self._compiled(columns, shared))

    @property
    def value_and_grad(self) -> ValueAndGrad[Whole]:
        """The same model as a loss with gradients of its keyword-only parameters; see `acronumba.value_and_grad`."""
        from acronumba.api.gradients import ValueAndGrad
        from acronumba.api.wanted import DEFAULT

        return ValueAndGrad(self, DEFAULT)

    @of_columns
    def check(self, *columns: Value, **shared: Value) -> Check:
        """Compare the batched run with the plain call and a float64 run of the function, instance by instance.

        No compiled code takes part in the plain call and the float64 run.
        """
        from acronumba.api.check import check

        with one_frame:
            call = bind(self, columns, shared)
            done = dispatch.run(self, call) if call.count else Done(Results.of([]), {})
            return check(self, call.columns, call.shared, done)

    @of_columns
    def find_nan(self, *columns: Value, **shared: Value) -> FirstNaN | None:
        """Return where the first NaN of the results comes from, None if they have no NaN and no infinity.

        The mini-batch is run; then the plain call of the first instance whose result has a NaN is followed line by
        line. Without a NaN in the results, the origin of an infinity is looked for.
        """
        from acronumba.api.nan import find_nan

        with one_frame:
            call = bind(self, columns, shared)
            results = dispatch.run(self, call).results if call.count else []
            return find_nan(self._plain_call(call.shared), call.columns, results)

    def values(self, *columns: Value, at: int | str, **shared: Value) -> Results[list[Array]]:
        """Return the arrays that a line of the source computed for each instance, from the batched run.

        Parameters
        ----------
        *columns
            As of `batch`.
        at : int or str
            A line of the model's file or cell; of another file or cell, ``"file.py:12"`` or ``"In [3]:12"``; or a
            variable: all lines that assign it.
        **shared
            As of `batch`.

        Returns
        -------
        Results
            For each instance a list of arrays, in order: one for each time that the line ran. A line of several
            operations has the value of the outermost. Python numbers are not included.
        """
        from acronumba.api.values import values

        with one_frame:
            call = bind(self, columns, shared)
            return values(self, call, at) if call.count else Results.of([])

    def _record(self, call: Call, like: TraceData | None = None) -> tuple[Compiled, list[Value], TraceData]:
        """Record and schedule a mini-batch; compute only tensors that the program reads, unless `like` has them."""
        compiled, leaves, packed = specialise(self, call)
        assert packed is not None
        return compiled, leaves, compiled.record(packed, leaves, like)

    def _recorded(self, call: Call, options: Options, compiled: Compiled, trace: TraceData) -> TraceData:
        """Return the trace of a mini-batch with other options; `trace` is that of `compiled`, with these options."""
        cache = Cache({self.options: [compiled]})  # specialisations compiled for this alone are dropped
        other = self._like(options)._share(cache)
        changed = specialise(other, call, packed=False)[0]
        if changed.records_like(compiled):
            return trace
        return other._record(call, trace if changed.lowered is compiled.lowered else None)[2]

    def _interpret(self, *columns: Any, planned: bool = True, **shared: Any) -> list[Any]:
        """Run the reference interpreter in place of machine code; for tests."""
        from acronumba.data.result_wrappers import wrapped
        from acronumba.ir.interpret import InstanceFailure

        call = bind(self, columns, shared)
        if not call.count:
            return []
        compiled, leaves, _ = specialise(self, call, packed=False)
        machine = compiled.interpreter(leaves, planned=planned)
        out: list[Value] = []
        errors: dict[int, BaseException] = {}
        for k in range(call.count):
            instance = [column[k] for column in call.columns]
            try:
                out.append(wrapped(machine.run(instance), compiled.lowered.wrap))
            except InstanceFailure as failure:
                out.append(None)
                errors[k] = dispatch.exception_of(self, instance, call, compiled.site_error(failure))
        if errors:
            raise InstanceErrors(errors, out)
        return out

    def _compiled(self, columns: Sequence[Value], shared: Mapping[str, Value]) -> Compiled:
        call = bind(self, columns, shared)
        if not call.count:
            raise reject("ACR706", message="the types cannot be inferred from an empty mini-batch")
        return specialise(self, call)[0]
