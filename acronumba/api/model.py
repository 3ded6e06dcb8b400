"""The front door: `model` makes a `Model` of a function, `Model.batch` runs it for many instances.

In: the user's function and data. Out: `Results`, or the user's errors. A model is the function, a device and options;
its compiled specialisations are shared with the models made from it by `on` and `with_options`. `pipeline` compiles,
`runtime` runs, `check` and `explanation` report.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import update_wrapper
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, overload

from acronumba.api.arguments import Call, Signature
from acronumba.api.columns import groups, is_packed
from acronumba.api.failures import plain_failure
from acronumba.api.plain import SOON, PlainCall, inside
from acronumba.api.results import Done, Results
from acronumba.api.snapshot import Snapshot, value_of
from acronumba.api.specialisations import FEW, Cache, Fit, fitting, keep, likely
from acronumba.api.structures import native
from acronumba.api.trace import Trace
from acronumba.api.traced_run import TracedRun
from acronumba.config import Options, verify_level
from acronumba.data.decoder import Decoder
from acronumba.data.source_guard import Changed
from acronumba.errors import AcronumbaError, InstanceErrors, InternalError, one_frame
from acronumba.errors.codes import reject
from acronumba.generics import P, R
from acronumba.locks import undivided
from acronumba.memory import Array
from acronumba.pipeline.boundary import compiling, def_loc
from acronumba.runtime.devices.names import check_device, default_device
from acronumba.tuned import options_for

if TYPE_CHECKING:
    from pathlib import Path

    from acronumba.api.check import Check
    from acronumba.api.explanation import Explanation
    from acronumba.api.exploration import Exploration
    from acronumba.api.gradients import ValueAndGrad
    from acronumba.api.stages import Stages
    from acronumba.ir.notes import Note
    from acronumba.pipeline.compiled import Compiled
    from acronumba.pipeline.rejected import Attempt
    from acronumba.runtime.recorded import Failure
    from acronumba.runtime.trace import TraceData

TRIES = 8  # attempts to compile code that changes meanwhile
MANY_GROUPS = 4  # number of groups of a mini-batch from which on a remark is printed


@overload
def model(fn: Callable[P, R], /, **options: Any) -> Model[P, R]: ...
@overload
def model(fn: None = None, /, **options: Any) -> Callable[[Callable[P, R]], Model[P, R]]: ...
def model(fn: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a model of a function: decorate it with ``@model``, or ``@model(schedule="agenda")``.

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
        Called like the function, and then the function itself; see `Model.batch`.
    """
    if fn is None:
        made = Options().replace(**options)
        return lambda function: Model(function, options=made)
    return Model(fn, options=Options().replace(**options))


class Model(Generic[P, R]):
    """A function for one instance, which can be run for many at once. Made by `model`."""

    __acronumba_model__ = True  # how the front end knows a model inside a model
    __wrapped__: Callable[P, R]
    __name__: str
    __qualname__: str

    _cache: Cache  # its compiled specialisations, by options
    _entries: list[Compiled]  # the entries of the cache for the options of this model

    def __init__(self, fn: Callable[P, R], *, options: Options | None = None, device: str | None = None) -> None:
        fn = fn.__wrapped__ if isinstance(fn, Model) else fn
        if not callable(fn) or hasattr(type(fn), "__acronumba_gradients__"):
            raise TypeError(f"@model expects a function, not {type(fn).__name__}")
        update_wrapper(self, fn)
        self._options = options or Options()
        self._device = device
        self._signature: Signature | None = None
        self._share(Cache())

    def _share(self, cache: Cache) -> Model[P, R]:
        """Use another cache of specialisations; return the model itself."""
        self._cache, self._entries = cache, cache.of(self._options)
        return self

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The plain call: the user's own function on one instance, with foreign arrays converted to NumPy."""
        named: dict[str, Any] = dict(kwargs)
        if any(type(v) is Snapshot or is_packed(v) for v in named.values()):
            named = {k: value_of(v) for k, v in named.items()}
        fn: Callable[..., R] = self.__wrapped__
        if inside.plain:
            return fn(*args, **named)
        given, named = native((args, named))
        inside.plain = True
        try:
            return fn(*given, **named)
        finally:
            inside.plain = False

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __repr__(self) -> str:
        return f"<model {self.__wrapped__.__module__}.{self.__qualname__}>"

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

    @property
    def device(self) -> str:
        """The device that batches run on."""
        return self._device or default_device()

    def on(self, device: str) -> Model[P, R]:
        """Return a model that runs on another device and shares the specialisations of this one.

        Parameters
        ----------
        device : str
            "cpu"; "cuda" or "cuda:1" for a GPU; "simulator" for a GPU in plain Python, which is very slow, to look at
            kernels without a GPU.
        """
        checked = check_device(device)
        return Model(self.__wrapped__, options=self._options, device=checked)._share(self._cache)

    def with_options(self, **changes: Any) -> Model[P, R]:
        """Return a model with other options (see `Options`) that shares the specialisations of this one."""
        options = self._options.replace(**changes)
        return Model(self.__wrapped__, options=options, device=self._device)._share(self._cache)

    def batch(self, *columns: Any, **shared: Any) -> Results[R]:
        """Return the results of the plain call of each instance, computed as one mini-batch.

        Parameters
        ----------
        *columns : sequences
            One per positional parameter, all of one length; a parameter with a default may be left out. An array is a
            column of its rows, and a pack by `pack` is a column too.
        **shared
            The keyword-only parameters, the same for all instances.

        Returns
        -------
        Results
            A sequence; everything is computed when it is returned.

        Raises
        ------
        Unsupported, TypeMismatch, ShapeMismatch
            If the function is not supported: all errors at once.
        InstanceErrors
            If instances failed; its `results` holds those of the others.
        """
        with one_frame:
            done = self._run(columns, shared)
            if done.errors:
                raise InstanceErrors(done.errors, done.results)
            return done.results

    def trace(self, *columns: Any, **shared: Any) -> Trace:
        """Run and record: nodes, batches, times. Failures are in `Trace.errors`; nothing is raised for them.

        If the types of the instances are incompatible, the results and failures are of all instances; the nodes,
        batches and times are those of the largest group.
        """
        with one_frame:
            done = self._run(columns, shared, trace=True)
        assert done.trace is not None
        ran = self._what_ran(done)
        return Trace(model=self.__qualname__, results=done.results, data=done.trace, errors=done.errors, ran=ran)

    def _what_ran(self, done: Done) -> TracedRun | None:
        call, compiled = done.call, done.compiled
        if call is None or compiled is None:
            return None
        record = lambda options, trace: self._recorded(call, options, compiled, trace)

        def sites(trace: TraceData) -> Array | None:
            _, leaves, packed = self._specialise(call)
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

        In a notebook the page is shown, and written only if a `path` is given. Of five runs the fastest is shown.

        Parameters
        ----------
        *columns
            As of `batch`.
        path : str or Path, optional
            Of the page; by default the model's name with ``.html``, in the current folder.
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
        self, columns: Sequence[Any], shared: Mapping[str, Any], *, runs: int = 1, schedules: bool = True,
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

    def explain(self, *columns: Any, **shared: Any) -> Explanation:
        """Explain the compiler's decisions, on the user's source lines, and the effect of each option.

        The mini-batch is recorded and scheduled, with the present options and with each option changed alone. No kernel
        is compiled and nothing is computed, unless the model waits for values: then it runs once, and the values read
        are reused for all options, or, if an instance has several fibers, it runs with each. The result prints itself.
        """
        with one_frame:
            return self._explained(self._bind(columns, shared))

    def _explained(
        self, call: Call, notes: Callable[[Compiled, Sequence[Any]], Sequence[Note]] = lambda compiled, leaves: ()
    ) -> Explanation:
        """Return the explanation of a call; `notes` gives notes besides those of the plan."""
        from acronumba.api.effects import changes, effects
        from acronumba.api.explanation import explanation
        from acronumba.views.progress import progress

        if not call.count:
            raise reject("ACR706", message="at least one instance is needed to know the types")
        with progress(f"explaining {self.__qualname__}", 1 + len(changes(self.options))) as step:
            compiled, leaves, trace = self._record(call)
            step(1)
            found = effects(self.options, lambda options: self._recorded(call, options, compiled, trace), step)
        remarks = [groups_text(self.__qualname__, n)] if (n := self._cache.groups) >= MANY_GROUPS else []
        with compiling(self.__wrapped__):
            return explanation(compiled, trace, call.count, found, notes(compiled, leaves), remarks)

    def stages(self, *columns: Any, **shared: Any) -> Stages:
        """Return the text of every stage of the compiler, a mapping in order."""
        from acronumba.api.stages import Stages

        with one_frame:
            return Stages(self._compiled(columns, shared))

    @property
    def value_and_grad(self) -> ValueAndGrad:
        """The same model as a loss with gradients of its keyword-only parameters; see `acronumba.value_and_grad`."""
        from acronumba.api.gradients import ValueAndGrad
        from acronumba.api.wanted import DEFAULT

        return ValueAndGrad(self, DEFAULT)

    def check(self, *columns: Any, **shared: Any) -> Check:
        """Compare the batched run with the plain call and a float64 run of the function, instance by instance.

        No compiled code takes part in the plain call and the float64 run.
        """
        from acronumba.api.check import check

        with one_frame:
            call = self._bind(columns, shared)
            done = self._execute(call) if call.count else Done(Results.of([]), {})
            return check(self.__wrapped__, call.columns, call.shared, done)

    def _record(self, call: Call, like: TraceData | None = None) -> tuple[Compiled, list[Any], TraceData]:
        """Record and schedule a mini-batch; compute only tensors that the program reads, unless `like` has them."""
        compiled, leaves, packed = self._specialise(call)
        assert packed is not None
        return compiled, leaves, compiled.record(packed, leaves, like)

    def _recorded(self, call: Call, options: Options, compiled: Compiled, trace: TraceData) -> TraceData:
        """Return the trace of a mini-batch with other options; `trace` is that of `compiled`, with these options."""
        cache = Cache({self.options: [compiled]})  # specialisations compiled for this alone are dropped
        other = Model(self.__wrapped__, options=options)._share(cache)
        changed = other._specialise(call, packed=False)[0]
        if changed.records_like(compiled):
            return trace
        return other._record(call, trace if changed.lowered is compiled.lowered else None)[2]

    def _interpret(self, *columns: Any, planned: bool = True, **shared: Any) -> list[Any]:
        """Run the reference interpreter in place of machine code; for tests."""
        from acronumba.data.result_wrappers import wrapped
        from acronumba.ir.interpret import InstanceFailure

        call = self._bind(columns, shared)
        if not call.count:
            return []
        compiled, leaves, _ = self._specialise(call, packed=False)
        machine = compiled.interpreter(leaves, planned=planned)
        out: list[Any] = []
        errors: dict[int, BaseException] = {}
        for k in range(call.count):
            instance = [column[k] for column in call.columns]
            try:
                out.append(wrapped(machine.run(instance), compiled.lowered.wrap))
            except InstanceFailure as failure:
                out.append(None)
                errors[k] = self._told(instance, call, compiled.site_error(failure))
        if errors:
            raise InstanceErrors(errors, out)
        return out

    def _run(self, columns: Sequence[Any], shared: Mapping[str, Any], trace: bool = False) -> Done:
        start = time.perf_counter()
        call = self._bind(columns, shared)
        if not call.count:
            from acronumba.runtime.trace import empty_trace

            return Done(Results.of([]), {}, trace=empty_trace() if trace else None)
        done = self._execute(call, trace, start)
        if verify_level() > 1:
            from acronumba.api.check import check

            verdict = check(self.__wrapped__, call.columns, call.shared, done)
            if not verdict.ok:
                raise reject("ACR799", message="a mini-batch differs from the plain call", seen=str(verdict))
        return done

    def _execute(self, call: Call, trace: bool = False, start: float | None = None) -> Done:
        """Run a mini-batch; in groups if the types of its instances are incompatible."""
        begin = time.perf_counter() if start is None else start
        with compiling(self.__wrapped__):
            found, spent = self._kept(call), 0.0
        if found is None:
            before = time.perf_counter()
            try:
                compiled, leaves, _ = self._compile(call, packed=False)
            except InternalError:
                raise
            except AcronumbaError as rejection:
                return self._execute_apart(call, trace, rejection)
            spent = time.perf_counter() - before
            found = Fit(compiled, leaves, compiled.pack(call.columns, call.numbers))
        return self._execute_found(call, found, trace, begin, spent)

    def _execute_apart(self, call: Call, trace: bool, rejection: AcronumbaError) -> Done:
        """Run the instances of each type apart, the most frequent types first, together with others that fit.

        If the function is rejected for a group, its instances fail with this error. If it is rejected for all groups,
        the error of the mini-batch as a whole (`rejection`) is raised.
        """
        with compiling(self.__wrapped__):
            left, packed = groups(call.again().columns), any(map(is_packed, call.columns))
        # A slice of a pack has the types of the whole pack; the types of its own instances may be accepted.
        if len(left) < 2 and not packed:
            raise rejection
        call = call.again()
        parts = list(self._as_before(call, left, trace))
        rejected: dict[int, BaseException] = {}
        for types_of in list(left):
            if types_of not in left:
                continue
            begin, members = time.perf_counter(), left.pop(types_of)
            try:
                compiled, leaves, _ = self._specialise(call.some(members), packed=False)
            except AcronumbaError as error:
                rejected |= dict.fromkeys(members, error.with_traceback(None))
                continue
            others = [key for key, group in left.items() if compiled.guard.matches_types(call.some(group[:1]).columns)]
            for key in (types_of, *others):
                self._cache.lead(compiled.options, key, compiled, call)
            members = sorted(chain(members, *map(left.pop, others)))
            some, spent = call.some(members), time.perf_counter() - begin
            rows = compiled.pack(some.columns, some.numbers)
            parts.append((members, self._execute_found(some, Fit(compiled, leaves, rows), trace, begin, spent)))
        if not parts:
            raise rejection
        self._tell_of_groups(len(parts) + len({id(error) for error in rejected.values()}))
        return _joined(call, parts, rejected)

    def _as_before(self, call: Call, left: dict[Any, list[int]], trace: bool) -> Iterator[tuple[list[int], Done]]:
        """Run groups whose types ran before, with the same specialisations, and remove them from `left`."""
        options, entries = self._tuned(call)
        ways: dict[Compiled, list[Any]] = {}
        for key in left:
            compiled = self._cache.way(options, key)
            if compiled is not None and compiled in entries and compiled.fn is self._plain():
                ways.setdefault(compiled, []).append(key)
        for compiled, keys in ways.items():
            begin, members = time.perf_counter(), sorted(chain(*map(left.__getitem__, keys)))
            some, leaves = call.some(members), compiled.guard.leaves(call.shared, call.frozen)
            rows = None if leaves is None else compiled.pack_exact(some.columns, some.numbers)
            if leaves is None or rows is None:
                continue
            for key in keys:
                del left[key]
                self._cache.lead(options, key, compiled, call)
            compiled.used = call.at
            yield members, self._execute_found(some, Fit(compiled, leaves, rows), trace, begin, 0.0)

    def _tell_of_groups(self, count: int) -> None:
        """Print once that mini-batches run in several groups."""
        cache = self._cache
        first, cache.groups = cache.groups < MANY_GROUPS <= count, max(cache.groups, count)
        if first:
            from acronumba.pipeline.log import say

            say(groups_text(self.__qualname__, count))

    def _execute_found(self, call: Call, found: Fit, trace: bool, begin: float, spent: float) -> Done:
        """Run a mini-batch; `spent` are the seconds of compilation since `begin`."""
        from acronumba.api.running import Running

        compiled, leaves, packed = found
        assert packed is not None
        ready, known = time.perf_counter(), dict(compiled.times.seconds)
        packing = ready - begin - spent
        compiled.artifacts.on(self.device)
        if compiled.times.seconds != known:  # it was compiled, or loaded from the disk cache
            spent += time.perf_counter() - ready
        run = Running(compiled, packed, leaves, call.frozen, self.device, trace)
        failed = {k: record for k, record in run.failures.items() if k not in packed.errors}
        errors = dict(sorted({**packed.errors, **self._failures(call, compiled, failed)}.items()))
        here, there = run.decoders()
        results = Results(call.count, _unless(errors, here), None if there is None else _unless(errors, there))
        data = run.trace({"compile": spent, "pack": packing}) if trace else None
        return Done(results, errors, compiled=compiled, trace=data, call=call)

    def _failures(self, call: Call, compiled: Compiled, failed: Mapping[int, Failure]) -> dict[int, BaseException]:
        """Return the exceptions of instances that failed in compiled code."""
        errors: dict[int, BaseException] = {}
        own: list[int] = []  # whose failure the plain call does not tell, or not soon
        for k, record in failed.items():
            instance = [column[k] for column in call.columns]
            failure = compiled.site_error(record)
            errors[k] = self._told(instance, call, failure, soon=compiled.artifacts.forks)
            if errors[k] is failure:
                own.append(k)
        return errors | self._in_order(call, own) if own and compiled.artifacts.forks else errors

    def _told(self, instance: Sequence[Any], call: Call, failure: BaseException, soon: bool = False) -> BaseException:
        """Return the plain call's exception, or else the recorded one; `soon`: stop the plain call after few steps."""
        plain = PlainCall.of(self.__wrapped__, call.shared, self._options)
        return plain_failure(replace(plain, steps=SOON) if soon else plain, instance, failure)

    def _in_order(self, call: Call, instances: Sequence[int]) -> dict[int, BaseException]:
        """Run instances again without fibers; return their failures, each the first in program order."""
        serial = self.with_options(forkjoin=False)
        serial._specialise(call, packed=False)  # for the types of the whole mini-batch
        columns = tuple([column[k] for k in instances] for column in call.columns)
        some = Call(columns=columns, shared=call.shared, frozen=call.frozen, count=len(instances), at=call.at)
        done = serial._execute(some)
        return {instances[n]: error for n, error in done.errors.items()}

    def _compiled(self, columns: Sequence[Any], shared: Mapping[str, Any]) -> Compiled:
        call = self._bind(columns, shared)
        if not call.count:
            raise reject("ACR706", message="at least one instance is needed to know the types")
        return self._specialise(call)[0]

    def _plain(self) -> types.FunctionType:
        fn: Any = self.__wrapped__  # `Signature` rejects others
        return fn  # type: ignore[no-any-return]

    def _bind(self, columns: Sequence[Any], shared: Mapping[str, Any]) -> Call:
        for see in _watching:
            see(self, columns, shared)
        if self._signature is None or not self._signature.is_valid(self.__wrapped__):
            self._signature = Signature(self.__wrapped__)
        check_device(self.device)
        return self._signature.bind(columns, shared)

    def _specialise(self, call: Call, packed: bool = True) -> Fit:
        """Return a specialisation that fits the call, the values of its shared leaves, and the packed instances."""
        with compiling(self.__wrapped__):
            return self._kept(call, packed) or self._compile(call, packed)

    def _kept(self, call: Call, packed: bool = True) -> Fit | None:
        """Return an existing specialisation that fits a call, as `_specialise` does, or None."""
        fn = self._plain()
        others = []
        for number, compiled in enumerate(sorted(self._tuned(call)[1], key=lambda c: -c.used)):
            if number == FEW and self._cache.rejected(fn, call) is not None:
                return None
            if compiled.fn is not fn:
                continue
            leaves = compiled.guard.leaves(call.shared, call.frozen)
            if leaves is None or len(compiled.schema.params) != len(call.columns):
                continue
            rows = compiled.pack_exact(call.columns, call.numbers) if packed else None
            if rows is not None:
                compiled.used = call.at
                return Fit(compiled, leaves, rows)
            others.append((compiled, leaves))
        for compiled, leaves in likely(others, call):
            if compiled.guard.matches_types(
                call.columns
            ):  # the types are these: if it could not be packed, the data is wrong
                compiled.used = call.at
                return Fit(compiled, leaves, compiled.pack(call.columns, call.numbers) if packed else None)
        return None

    def _tuned(self, call: Call) -> tuple[Options, list[Compiled]]:
        """Return the options of a call after tuning, and the specialisations with these options."""
        options = self._options
        if self.device == "cpu":
            options = options_for(self._plain(), options, call.count)
        return options, self._entries if options is self._options else self._cache.of(options)

    def _compile(self, call: Call, packed: bool = True) -> Fit:
        """Compile a specialisation for a call, and return it as `_specialise` does."""
        (options, entries), fn = self._tuned(call), self._plain()
        if (rejection := self._cache.rejected(fn, call)) is not None:
            raise rejection
        with compiling(fn), undivided, self._cache.lock:
            from acronumba.data.extents import Columns
            from acronumba.pipeline.compiled import compile_model

            seen = self._cache.columns = self._cache.columns or Columns()
            for _ in range(TRIES):  # code may change while it is compiled: try again
                found = fitting(entries, fn, call)  # another thread may have been faster
                if found is not None:
                    break
                others = (c for of in tuple(self._cache.entries.values()) for c in tuple(of))
                like = fitting(others, fn, call)
                attempts: list[Attempt] = []
                try:
                    compiled = compile_model(
                        fn, call.columns, call.shared, options, like and like[0], seen, attempts, call.tree()
                    )
                except Changed:
                    continue
                except AcronumbaError as error:
                    self._cache.reject(fn, call, error, attempts)
                    raise
                keep(compiled, entries, call)
                leaves = compiled.guard.leaves(call.shared, call.frozen)
                if leaves is not None:
                    found = compiled, leaves
                    break
            if found is not None:
                found[0].used = call.at
            else:
                raise reject("ACR712", def_loc(fn), seen=f"{TRIES} changes while {self.__qualname__} was compiled")
        return Fit(*found, found[0].pack(call.columns, call.numbers) if packed else None)


def groups_text(name: str, count: int) -> str:
    return f"{name}: a mini-batch ran in {count} groups of types that do not go together, each with code of its own"


def _joined(call: Call, parts: Sequence[tuple[list[int], Done]], rejected: dict[int, BaseException]) -> Done:
    """Join the results of groups, each with its instance numbers, and of instances that were rejected."""
    of = {k: (done, j) for members, done in parts for j, k in enumerate(members)}
    errors = rejected | {k: done.errors[j] for k, (done, j) in of.items() if j in done.errors}
    errors = dict(sorted(errors.items()))

    def result(k: int) -> Any:
        done, j = of[k]
        return done.results[j]

    def there(k: int) -> Any:
        done, j = of[k]
        return done.results.device[j]

    results = Results(call.count, _unless(errors, Decoder.of(result)), _unless(errors, Decoder.of(there)))
    largest = max(parts, key=lambda part: len(part[0]))[1]
    return Done(results, errors, compiled=largest.compiled, trace=largest.trace, call=largest.call)


def _unless(errors: Mapping[int, BaseException], decode: Decoder) -> Decoder:
    """Return a decoder that returns None for instances that have failed."""
    if not errors:
        return decode

    def many(ks: Sequence[int]) -> list[Any]:
        values = iter(decode.many([k for k in ks if k not in errors]))
        return [None if k in errors else next(values) for k in ks]

    return Decoder(lambda k: None if k in errors else decode.one(k), many, decode.few)


Watcher: TypeAlias = Callable[[Model, Sequence[Any], Mapping[str, Any]], None]
_watching: list[Watcher] = []


@contextmanager
def watched(see: Watcher) -> Iterator[None]:
    """Call `see` with the arguments of each mini-batch before it runs; its exception ends the call."""
    _watching.append(see)
    try:
        yield
    finally:
        _watching.remove(see)
