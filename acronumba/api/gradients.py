"""`Model.value_and_grad`: the loss of a mini-batch and its gradients.

In: a model whose result is a loss, a scalar per instance. Out: a `ValueAndGrad`, which is called like the model and
returns `Gradients`. `ir.tape` defines them: the run of an instance by the interpreter, and its backward pass.
`api.wanted` selects the arrays with gradients, `api.structures` arranges the gradients in the user's structures.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, Self, Unpack, overload

import numpy as np
from numpy.typing import NDArray

from acronumba.api.arguments import Call
from acronumba.api.columns import groups
from acronumba.api.dispatch import Batched, bind, exception_of, function_of, is_watched, rejections, specialise
from acronumba.api.kept import Ready
from acronumba.api.known import again
from acronumba.api.results import Results
from acronumba.api.wanted import Choices, Selection, Totals, wanted_of
from acronumba.config import PRECISIONS
from acronumba.data.decoder import Decoder
from acronumba.data.later import Later
from acronumba.data.row_grad import Gradient, total
from acronumba.errors import AcronumbaError, InstanceErrors, InternalError, one_frame
from acronumba.errors.codes import reject
from acronumba.foreign import is_foreign, numpy_array
from acronumba.generics import G, Value
from acronumba.ir.evaluate import rounding
from acronumba.ir.types import Array0T, BoolT, FloatT, IntT, TensorT, TorchT, TupleT, Type, UnionT, type_text, words
from acronumba.memory import Array, DeviceTensor, DType
from acronumba.pipeline.boundary import compiling, def_loc
from acronumba.runtime.recorded import Failure
from acronumba.runtime.state import MEMORY
from acronumba.views.summary import Summarised, Summary

if TYPE_CHECKING:
    from acronumba.analysis import active
    from acronumba.api.explanation import Explanation
    from acronumba.api.slopes import Slopes
    from acronumba.api.specialisations import Fit
    from acronumba.api.stages import Stages
    from acronumba.api.trace import Trace
    from acronumba.config import Changes
    from acronumba.data.pack import Batch
    from acronumba.generics import S, Whole
    from acronumba.ir.notes import Note
    from acronumba.ir.tape import Recorder
    from acronumba.pipeline.compiled import Compiled
    from acronumba.runtime.trace import BackRecord


if TYPE_CHECKING:

    class _Pair(tuple[Value, G]):  # so that type checkers know what it unpacks into
        def __new__(cls, **fields: Value) -> Self: ...

else:
    _Pair = Generic


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gradients(_Pair[G], Summarised):
    """The loss of a mini-batch and its gradients; unpacks into `value, grads`."""

    value: Value  # the mean or sum of the losses, a NumPy scalar
    grads: G  # in the structure of the parameters; the arrays belong to the caller
    losses: Results  # per instance; None where one failed
    aux: Results | None = None  # the second item of the model's result, per instance

    if not TYPE_CHECKING:

        def __iter__(self) -> Iterator[Value]:
            return iter((self.value, self.grads))

        def __len__(self) -> int:
            return 2

        def __getitem__(self, k: int) -> Value:
            return (self.value, self.grads)[k]

    def _summary(self) -> Summary:
        from acronumba.api.summary import arrays_summary

        return arrays_summary("Gradients", self.grads, f"value {self.value:.6g} of {len(self.losses):,} instances; ")

    def __repr__(self) -> str:
        return f"Gradients(value={self.value!r}, of {len(self.losses)} instances)"


class Lossy(Batched, Protocol):
    """The interface of a model that gradients need."""

    def on(self, device: str) -> Lossy: ...
    def with_options(self, **changes: Unpack[Changes]) -> Lossy: ...
    @property
    def trace(self) -> Callable[..., Trace]: ...
    def _explained(self, call: Call, notes: Callable[..., Sequence[Note]]) -> Explanation: ...


class ValueAndGrad(Generic[G], Summarised):
    """The loss of a model and its gradients. Made by `Model.value_and_grad`, or `value_and_grad`."""

    __acronumba_gradients__ = True  # how the front end knows it inside a model

    def __init__(self, model: Lossy, choices: Choices) -> None:
        self.model = model
        self.choices = choices

    def __repr__(self) -> str:
        return f"<value and gradients of {self.model!r}>"

    def _summary(self) -> Summary:
        from acronumba.api.summary import summary

        return replace(one := summary(self.model), title=f"value and gradients of {one.title}")

    @overload
    def __call__(self: ValueAndGrad[Whole], *args: Value, **shared: S) -> Gradients[S]: ...
    @overload
    def __call__(self, *args: Value, **shared: Value) -> Gradients: ...
    def __call__(self, *args: Value, **shared: Value) -> Gradients:
        """Return the loss of one instance and its gradients, computed by the reference."""
        with one_frame:
            call = bind(self.model, [[a] for a in args], shared)
            done, errors = self._run(call, one=True)
            for error in errors.values():
                raise error
            return done

    @overload
    def batch(self: ValueAndGrad[Whole], *columns: Value, **shared: S) -> Gradients[S]: ...
    @overload
    def batch(self, *columns: Value, **shared: Value) -> Gradients: ...
    def batch(self, *columns: Value, **shared: Value) -> Gradients:
        """Return the loss of a mini-batch and its gradients.

        Parameters
        ----------
        *columns, **shared
            As for `Model.batch`.

        Returns
        -------
        Gradients
            Unpacks into ``value, grads``.

        Raises
        ------
        Unsupported, TypeMismatch, ShapeMismatch
            If the function is not supported, is not a loss, or a Python float loses a gradient.
        InstanceErrors
            If instances failed; its `results` is the `Gradients` of the others, divided by their number.
        """
        with one_frame:
            run = self._again(columns, shared)
            if run is None:
                run = self._ran(bind(self.model, columns, shared), together=True)
            done, errors = run.done(), dict(sorted(run.errors.items()))
            if errors:
                error = InstanceErrors(errors, done.losses)
                error.results = done
                raise error
            return done

    def check(self, *columns: Any, **shared: Any) -> Slopes:
        """Compare the gradients with central differences of the plain call in float64, array by array.

        No compiled code takes part in the central differences. Gradients of compiled code must also equal those of the
        reference in float64, up to rounding.
        """
        from acronumba.api.slopes import compare

        with one_frame:
            call = bind(self.model, columns, shared)
            wanted = wanted_of(function_of(self.model), self.choices, call)
            done, errors = self._run(call, together=True)
            if errors:
                raise InstanceErrors(errors, done.losses)
            exact, bits = self._ran(call, wide=True), PRECISIONS[self.model.options.precision_on(self.model.device)]
            with rounding(bits):
                rough = self._ran(call, wide=True) if bits < 24 else exact
            plain = self.model._plain_call(call.shared)
            grads = (done.grads, exact.done().grads, self._ran(call).done().grads, rough.done().grads)
            return compare(self.model.__qualname__, call, plain, self.choices, wanted, grads, exact.totals, bits)

    def trace(self, *columns: Any, **shared: Any) -> Trace:
        """Run and record the model itself, see `Model.trace`; `Trace.back` has the batches of the backward pass.

        `peak_bytes` covers the forward and backward pass. The batches are of all instances that did not fail. If the
        reference computes the gradients, `Trace.back` is empty.
        """
        with one_frame:
            run = self._ran(bind(self.model, columns, shared), together=True, tell=True)
            found = self.model.trace(*columns, **shared)
            peak = max(found.data.peak_bytes, run.peak)
            return replace(found, data=replace(found.data, back=tuple(run.records or ()), peak_bytes=peak))

    def explain(self, *columns: Any, **shared: Any) -> Explanation:
        """Explain the compiler's decisions (see `Model.explain`), which values gradients keep, and where they stop."""
        with one_frame:
            call = bind(self.model, columns, shared)
            return self.model._explained(call, partial(self._notes, call))

    def stages(self, *columns: Any, **shared: Any) -> Stages:
        """Return the text of every stage of the compiler: see `Model.stages`; and the backward of each kernel."""
        from acronumba.api.stages import Stages

        with one_frame:
            call = bind(self.model, columns, shared)
            if not call.count:
                raise reject("ACR706", message="the types cannot be inferred from an empty mini-batch")
            compiled, leaves, _ = specialise(self.model, call, packed=False)
            return Stages(compiled, compiled.derivatives.backward(*self._in_program(call, compiled, leaves)))

    def _wanted(self, call: Call) -> Selection:
        """Return the selection of gradients of a call."""
        return wanted_of(function_of(self.model), self.choices, call)

    def _in_program(
        self, call: Call, compiled: Compiled, leaves: Sequence[Value]
    ) -> tuple[active.RequestedValues, int]:
        """Return the selection of gradients by number in the program, and the number of words of the loss."""
        wanted = self._wanted(call).of(compiled, leaves, None, call)
        width = len(words(_loss_type(compiled, self.choices)))
        wanted.check(compiled, leaves, width)
        return wanted.in_program(compiled, leaves), width

    def _notes(self, call: Call, compiled: Compiled, leaves: Sequence[Value]) -> Sequence[Note]:
        from acronumba.analysis.backward.remarks import backward_notes

        where = self._in_program(call, compiled, leaves)
        return backward_notes(compiled.derivatives.active(*where), compiled.derivatives.backward(*where))

    def on(self, device: str) -> ValueAndGrad[G]:
        """Return a copy for another device: see `Model.on`."""
        return ValueAndGrad(self.model.on(device), self.choices)

    def with_options(self, **changes: Unpack[Changes]) -> ValueAndGrad[G]:
        """Return a copy with other options: see `Model.with_options`."""
        return ValueAndGrad(self.model.with_options(**changes), self.choices)

    def _run(
        self, call: Call, wide: bool = False, together: bool = False, one: bool = False
    ) -> tuple[Gradients, dict[int, BaseException]]:
        """Return the gradients of a mini-batch, and the failures of its instances.

        The reference runs one instance at a time; with `together`, compiled code runs where it exists. `one`: for a
        call with one instance.
        """
        run = self._ran(call, wide, together)
        return run.done(one), dict(sorted(run.errors.items()))

    def _again(self, columns: Sequence[Value], shared: Mapping[str, Value]) -> _GradientRun | None:
        """Return the run of packs with the shared values of an earlier call, if all that was found for it holds."""
        model, found = self.model, None
        if is_watched():
            return None
        with compiling(model.__wrapped__):
            for kept in model._cache.kept.last(function_of(model), self.choices):
                found = again(model, columns, shared, kept)
                if found is not None:
                    break
        if found is None:
            return None
        run = _GradientRun(model, self.choices, found[0], kept.wanted, wide=False, together=True, tell=False)
        run.group(range(found[0].count), found[1])
        return run

    def _ran(self, call: Call, wide: bool = False, together: bool = False, tell: bool = False) -> _GradientRun:
        """Return the run for `_run`; `tell`: with the batches of its backward pass."""
        fn, calls = function_of(self.model), self.model._cache.kept
        kept = calls.find(fn, self.choices, call)
        wanted = kept.wanted if kept else self._wanted(call)
        if kept is None and wanted.is_of_shared(self.choices, call):
            kept = calls.add(fn, self.choices, call, wanted)
        call = replace(call, same=kept) if kept else call
        run = _GradientRun(self.model, self.choices, call, wanted, wide, together, tell)
        for members, fit in alike(self.model, call, together, run.errors):
            run.group(members, fit)
        return run


def alike(
    model: Lossy, call: Call, packed: bool, errors: dict[int, BaseException], fit: Fit | None = None
) -> list[tuple[Sequence[int], Fit | None]]:
    """Return all instance numbers with the specialisation that fits them, or else the numbers of each type.

    If the function is rejected for a type, the rejection is added to `errors` for its instances; if it is for all, the
    error of the mini-batch as a whole is raised. `fit`: the specialisation, if it is known.
    """
    if not call.count:
        return []
    if fit is not None:
        return [(range(call.count), fit)]
    try:
        return [(range(call.count), specialise(model, call, packed))]
    except InternalError:
        raise
    except AcronumbaError as rejection:
        found = groups(call.columns)
        if len(found) < 2:
            raise
        out: list[tuple[Sequence[int], Fit | None]] = []
        for members in found.values():
            try:
                specialise(model, call.some(members), packed=False)
                out.append((members, None))
            except AcronumbaError as error:
                errors |= rejections(model, call, members, error)
        if not out:
            raise rejection from None
        return out


class _GradientRun:
    """A run of a mini-batch."""

    def __init__(
        self, model: Lossy, choices: Choices, call: Call, wanted: Selection, wide: bool, together: bool, tell: bool
    ) -> None:
        self.model, self.choices, self.call, self.wanted, self.wide = model, choices, call, wanted, wide
        self.compiled = together
        self.losses: list[Value] = [None] * call.count
        self.aux: list[Value] = [None] * call.count
        self.errors: dict[int, BaseException] = {}
        self.array: Array | None = None  # the losses of `good`, if they are one array
        self.late: dict[int, Callable[[], Value]] = {}  # results that are on a device
        self.sums: list[tuple[DeviceTensor, DType]] = []  # of the losses there
        self.good: list[int] = []  # instances that did not fail
        self.totals: dict[int, Totals] = {}  # of them, those whose gradients are known one by one
        self.parts: list[Totals] = []  # of instances that ran together
        self.records: list[BackRecord] | None = [] if tell else None  # the batches of the backward pass
        self.means = False  # whether the gradients are those of the mean already
        self.peak = 0  # bytes of memory of the forward and backward pass

    def group(self, members: Sequence[int], fit: Fit | None) -> None:
        """Run instances of compatible types; `fit` is their specialisation, if they are all instances of the call."""
        some = self.call if len(members) == self.call.count else self.call.some(members)
        compiled, leaves, packed = fit or specialise(self.model, some, self.compiled)
        kept = some.same if packed is not None else None
        ready = kept.find(compiled, leaves, self.model.device) if kept else None
        if ready is None or packed is None:
            loss = _loss_type(compiled, self.choices)
            mine = self.wanted.of(compiled, leaves, packed, self.call)
            mine.check(compiled, leaves, len(words(loss)))
            mine.check_apart(compiled, leaves, self.call, members)
            if packed is None:
                recorder = compiled.recorder_of_tapes(leaves)
                for k in members:
                    self._instance(k, mine, compiled, recorder, loss)
                return
            ready = Ready(compiled, leaves, mine, self.choices.aux, self.model.device)
            if kept and not (ready.packed or mine.columns):  # what those hold may be part of an instance
                kept.add(ready)
        self._in_parts(members, ready, packed, some.frozen, fit is not None)

    def _in_parts(
        self, members: Sequence[int], ready: Ready, packed: Batch, frozen: frozenset[str], whole: bool
    ) -> None:
        """Run instances by compiled code, as many at once as fit into memory; `whole`: they are all of the call."""
        of: dict[int, Gradient] = {}
        self.means = whole and self.choices.reduce == "mean"

        def work(places: NDArray[np.int64], tight: bool) -> Sequence[int]:
            if len(places) == len(members):
                return self._part(members, ready, packed, frozen, of, tight)
            self.means = False
            return self._part([members[k] for k in places], ready, packed.some(places), frozen, of, tight)

        for k in ready.there.slices.run(len(members), work):
            self._fail(members[k], ready.there.compiled, Failure(site=MEMORY))
        self.parts.append(Totals(of=of, own={}))

    def _part(
        self, members: Sequence[int], ready: Ready, packed: Batch, frozen: frozenset[str], of: dict[int, Gradient],
        tight: bool,
    ) -> Sequence[int]:  # fmt: skip
        """Run instances at once and accumulate gradients; return the indices of those that did not fit into memory."""
        compiled = ready.there.compiled
        own_arrays = ready.wanted.asked(compiled, packed, members)
        done = ready.there.run(
            packed, ready.leaves, frozen, tables=ready.tables,
            asked=lambda run: [*own_arrays, *(ready.asked_of_shared(run) if ready.packed else ())],
            mean=self.means, tight=tight, timed=self.records is not None, tensors=self.model.there,
        )  # fmt: skip
        self.means, self.peak = done.mean, max(self.peak, done.back.bytes)
        if self.records is not None:
            self.records += done.back.records
        own: dict[int, dict[int, Gradient]] = {}
        for a, x in zip(done.asked, done.back.own, strict=True):
            if x is not None and a.instance >= 0:
                own.setdefault(a.instance, {})[id(a.array)] = x
            elif x is not None:
                of[id(a.array)] = total([of[id(a.array)], x] if id(a.array) in of else [x])
        for j, error in packed.errors.items():
            self.errors[members[j]] = error
        for j, failure in done.failures.items():
            if j not in packed.errors:
                self._fail(members[j], compiled, failure)
        bad = {*packed.errors, *done.failures, *done.crowded}
        good = [j for j in range(len(members)) if j not in bad] if bad else range(len(members))
        self.array = None if self.good or bad else done.losses
        if self.array is not None and len(members) == len(self.losses):
            self.losses = list(self.array)
        elif done.back.loss is None:
            results = done.result.some(good) if done.losses is None else done.losses
            for j, result in zip(good, results, strict=True):
                self._set(members[j], result)
        else:
            self.late |= {members[j]: partial(done.result, j) for j in good}
            self.sums.append(done.back.loss)
        self.good += members if not bad else [members[j] for j in good]
        self.totals |= {members[j]: Totals(of={}, own=found) for j, found in own.items()}
        all_of_them = done.back.loss is not None and self.model.there is None  # on a device, zeros stay there, too
        reached = done.back.shared if all_of_them else done.back.reached
        for n, g in done.back.shared.items():
            if n in reached:
                key = ready.tensors[n]
                of[key] = total([of[key], g], fresh=True) if key in of else g
        return done.crowded

    def _set(self, k: int, result: Value) -> None:
        """Set the result of an instance."""
        self.losses[k], self.aux[k] = result if self.choices.aux else (result, None)

    def _fetched(self, of: Sequence[Value], k: int) -> Value:
        """Return an item of `of`, the losses or their companions, of an instance."""
        if k in self.late:
            self._set(k, self.late.pop(k)())
        return of[k]

    def _fail(self, k: int, compiled: Compiled, record: Failure) -> None:
        instance = [column[k] for column in self.call.columns]
        self.errors[k] = exception_of(
            self.model, instance, self.call, compiled.site_error(record), soon=compiled.artifacts.forks
        )

    def _instance(self, k: int, wanted: Selection, compiled: Compiled, recorder: Recorder, loss: Type) -> None:
        from acronumba.ir.interpret import InstanceFailure
        from acronumba.ir.tape import loss_of
        from acronumba.ir.values import unflatten

        instance = wanted.instance(self.call, k)
        try:
            values, tape = recorder.record(instance)
        except InstanceFailure as failure:
            self.errors[k] = exception_of(self.model, instance, self.call, compiled.site_error(failure))
            return
        result = unflatten(values, compiled.program.result)
        self._set(k, result)
        self.array, array = None, loss_of(values, loss)
        seeds = {} if array is None else {tape.number(array): 1.0}
        self.good.append(k)
        self.totals[k] = wanted.totals(tape, seeds, k, wide=self.wide)

    def done(self, one: bool = False) -> Gradients:
        """Return the gradients of all instances; `one`: for a call with one instance."""
        count = len(self.good)
        if not self.call.count and self.choices.reduce == "mean":
            raise reject(
                "ACR706", message="an empty mini-batch has no mean loss", rewrite='value_and_grad(f, reduce="sum")'
            )
        share = 1.0 / count if self.choices.reduce == "mean" and count else 1.0
        value = self._value(share)
        rest = 1.0 if self.means else share
        grads = self.wanted.structures(self.totals, self.parts, rest, wide=self.wide, one=one)
        aux = self._results(self.aux) if self.choices.aux else None
        return Gradients(value=value, grads=grads, losses=self._results(self.losses), aux=aux)

    def _results(self, of: Sequence[Value]) -> Results:
        return Results(len(of), Decoder.of(partial(self._fetched, of))) if self.late else Results.of(of)

    def _value(self, share: float) -> Value:
        """Return the sum of the losses, times a number."""
        if self.late and len(self.late) == len(self.good):
            sums, dtype = [total for total, _ in self.sums], self.sums[0][1]
            fetch = lambda: float(np.sum([np.asarray(total) for total in sums])) * share
            return Later(dtype, fetch, sums, share)
        if self.array is not None:
            total = np.add.reduce(self.array.astype(np.float64)) * share
            return np.asarray(total, self.array.dtype)[()]
        losses = [self._fetched(self.losses, k) for k in self.good]
        losses = [numpy_array(x) if is_foreign(x) else x for x in losses]
        classes = {*map(type, losses)}
        dtype = np.dtype(classes.pop()) if len(classes) == 1 and classes <= _SCALARS else _dtype_of(losses)
        total = np.add.reduce(np.array(losses, np.float64)) * share
        return np.asarray(total, dtype if dtype.kind == "f" else np.float64)[()]


_SCALARS = {np.float32, np.float64}


def _dtype_of(losses: Sequence[Value]) -> DType:
    """Return the dtype of a sum of losses."""
    return np.result_type(*map(np.asarray, losses)) if losses else np.dtype(np.float64)


def _loss_type(compiled: Compiled, choices: Choices) -> Type:
    """Return the type of the loss; raise if the result is no loss."""
    t, found = compiled.program.result, None
    if not choices.aux:
        found = t
    elif isinstance(t, TupleT) and len(t.items) == 2:
        found = t.items[0]
    if found is not None and _is_loss(found):
        return found
    seen = f"{compiled.fn.__qualname__} returns {type_text(t)}"
    rewrite = "return a scalar: `F.cross_entropy(...)`, `x.sum()`" if isinstance(found, TorchT) else ""
    rewrite = "return loss, anything" if choices.aux and found is None else rewrite
    raise reject("ACR311", def_loc(compiled.fn), seen=seen, rewrite=rewrite)


def _is_loss(t: Type) -> bool:
    match t:
        case TensorT() | Array0T():
            scalar = t.scalar if isinstance(t, Array0T) else t
            return scalar.dtype.startswith("float") and not scalar.shape
        case TorchT():
            return _is_loss(t.inner)
        case FloatT() | IntT() | BoolT():
            return not isinstance(t, BoolT)
        case UnionT():
            return all(map(_is_loss, t.members))
    return False
