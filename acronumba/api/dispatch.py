"""Mini-batches of a model: `bind -> specialise -> run -> decode`, one function per stage.

In: a model, columns of instances and shared values. Out: `Done`: results, and the failures of instances. Instances of
types that do not go together run in groups, each with a specialisation of its own.
"""

from __future__ import annotations

import time
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, Unpack

from acronumba.api import known
from acronumba.api.arguments import Call, Signature
from acronumba.api.columns import groups, is_packed
from acronumba.api.failures import plain_failure
from acronumba.api.plain import SOON, PlainCall
from acronumba.api.results import Done, Results
from acronumba.api.specialisations import FEW, Cache, Fit, fitting, keep, likely
from acronumba.api.structures import float_arrays
from acronumba.config import Options, verify_level
from acronumba.data.decoder import Decoder
from acronumba.data.source_guard import Changed
from acronumba.errors import AcronumbaError, InternalError, ShapeMismatch, TypeMismatch
from acronumba.errors.codes import reject
from acronumba.foreign import rows_of
from acronumba.generics import Value
from acronumba.locks import undivided
from acronumba.memory import homes, refresh_stale
from acronumba.pipeline.boundary import compiling, def_loc
from acronumba.runtime.devices.names import check_device

if TYPE_CHECKING:
    from acronumba.config import Changes
    from acronumba.data.buffers import TensorMaker
    from acronumba.pipeline.compiled import Compiled
    from acronumba.pipeline.rejected import Attempt
    from acronumba.pipeline.running import Running
    from acronumba.runtime.recorded import Failure

TRIES = 8  # attempts to compile code that changes meanwhile
MOST_STEPS = 12_000  # expressions walked of rejected groups, after which others are tried only if one was accepted
MANY_GROUPS = 4  # number of groups of a mini-batch from which on a remark is printed


class Batched(Protocol):
    """The parts of a model that its mini-batches depend on."""

    _signature: Signature | None
    _known: known.Known | None
    __qualname__: str

    @property
    def __wrapped__(self) -> Callable[..., Any]: ...
    @property
    def bound(self) -> Mapping[str, Value]: ...
    @property
    def tensors(self) -> bool: ...
    @property
    def _cache(self) -> Cache: ...
    @property
    def _entries(self) -> list[Compiled]: ...
    @property
    def options(self) -> Options: ...
    @property
    def device(self) -> str: ...
    @property
    def there(self) -> TensorMaker | None: ...
    def with_options(self, **changes: Unpack[Changes]) -> Batched: ...
    def _numbered(self, call: Call) -> Call: ...
    def _plain_call(self, shared: Mapping[str, Value], options: Options | None = None) -> PlainCall: ...


def function_of(model: Batched) -> types.FunctionType:
    """Return the user's function."""
    return model.__wrapped__  # type: ignore[return-value]  # `Signature` rejects others


# ---- bind


def bind(model: Batched, columns: Sequence[Value], shared: Mapping[str, Value]) -> Call:
    """Bind the arguments of `Model.batch` to the parameters of the function."""
    for see in _watching:
        see(model, columns, shared)
    if model._signature is None or not model._signature.is_valid(model.__wrapped__):
        model._signature = Signature(model.__wrapped__, model.bound, by_name=model.tensors)
    check_device(model.device)
    for column in columns if homes else ():
        refresh_stale([] if is_packed(column) else float_arrays(column))
    call = model._signature.bind([rows_of(c) for c in columns] if model.tensors else columns, shared)
    return model._numbered(call)


def is_watched() -> bool:
    """Whether somebody sees the arguments of each mini-batch."""
    return bool(_watching)


Watcher: TypeAlias = Callable[[Batched, Sequence[Value], Mapping[str, Value]], None]
_watching: list[Watcher] = []


@contextmanager
def watched(see: Watcher) -> Iterator[None]:
    """Register `see`, which is called with the arguments of each mini-batch; an exception from it ends the call."""
    _watching.append(see)
    try:
        yield
    finally:
        _watching.remove(see)


# ---- specialise


def specialise(model: Batched, call: Call, packed: bool = True) -> Fit:
    """Return a specialisation that fits the call, the values of its shared leaves, and the packed instances."""
    with compiling(model.__wrapped__):
        return existing(model, call, packed) or compile_for(model, call, packed)


def existing(model: Batched, call: Call, packed: bool = True) -> Fit | None:
    """Return an existing specialisation that fits a call, as `specialise` does, or None."""
    fn = function_of(model)
    others = []
    options, entries = _tuned(model, call)
    for number, compiled in enumerate(sorted(entries, key=lambda c: -c.used)):
        if number == FEW and model._cache.rejected(fn, call, model.options.state) is not None:
            return None
        if compiled.fn is not fn:
            continue
        leaves = compiled.guard.leaves(call.shared, call.frozen, call.same)
        if leaves is None or len(compiled.schema.params) != len(call.columns):
            continue
        rows = compiled.pack_exact(call.columns, call.numbers) if packed else None
        if rows is not None:
            compiled.used = call.at
            found = Fit(compiled, leaves, rows)
            if not number:
                known.note(model, call, found, options, entries)
            return found
        others.append((compiled, leaves))
    for compiled, leaves in likely(others, call):
        if compiled.guard.matches_types(call.columns):  # if it could not be packed, the data is wrong
            compiled.used = call.at
            return Fit(compiled, leaves, compiled.pack(call.columns, call.numbers) if packed else None)
    return None


def compile_for(model: Batched, call: Call, packed: bool = True) -> Fit:
    """Compile a specialisation for a call, and return it as `specialise` does."""
    (options, entries), fn, cache = _tuned(model, call), function_of(model), model._cache
    if (rejection := cache.rejected(fn, call, options.state)) is not None:
        raise rejection
    with compiling(fn), undivided, cache.lock:
        from acronumba.data.extents import KnownColumns
        from acronumba.pipeline.compiled import Compiled

        seen = cache.columns = cache.columns or KnownColumns()
        for _ in range(TRIES):  # code may change while it is compiled: try again
            found = fitting(entries, fn, call)  # another thread may have been faster
            if found is not None:
                break
            others = (c for of in tuple(cache.entries.values()) for c in tuple(of))
            like = fitting((c for c in others if c.options.state == options.state), fn, call)
            attempts: list[Attempt] = []
            try:
                earlier = [c.schema for c in entries if c.fn is fn and len(c.schema.params) == len(call.columns)]
                compiled = Compiled(
                    fn, call.columns, call.shared, options, like and like[0], seen, attempts, call.tree(),
                    model.tensors, earlier,
                )  # fmt: skip
            except Changed:
                continue
            except AcronumbaError as error:
                cache.reject(fn, call, error, attempts, options.state)
                raise
            keep(compiled, cache, entries, call)
            leaves = compiled.guard.leaves(call.shared, call.frozen, call.same)
            if leaves is not None:
                found = compiled, leaves
                break
        if found is not None:
            found[0].used = call.at
        else:
            raise reject("ACR712", def_loc(fn), seen=f"{TRIES} changes while {model.__qualname__} was compiled")
    return Fit(*found, found[0].pack(call.columns, call.numbers) if packed else None)


def _tuned(model: Batched, call: Call) -> tuple[Options, list[Compiled]]:
    """Return the options of a call after tuning, and the specialisations with these options."""
    options = known.tuned(model, model.device, call.count)
    return options, model._entries if options is model.options else model._cache.of(options)


# ---- run


def batch(model: Batched, columns: Sequence[Value], shared: Mapping[str, Value], trace: bool = False) -> Done:
    """Run a mini-batch, of any number of instances; `trace`: record and time it."""
    start = time.perf_counter()
    if model._known is not None and not _watching:
        with compiling(model.__wrapped__):
            found = known.again(model, columns, shared)
        if found is not None:
            return run_checked(model, found[0], trace, start, found[1])
    return run_checked(model, bind(model, columns, shared), trace, start)


def run_checked(model: Batched, call: Call, trace: bool = False, start: float = 0.0, found: Fit | None = None) -> Done:
    """Run a mini-batch of any size, and compare it with the plain call if ACRONUMBA_VERIFY is 2 or more."""
    if not call.count:
        from acronumba.runtime.trace import empty_trace

        return Done(Results.of([]), {}, trace=empty_trace() if trace else None)
    return verified(model, call, run(model, call, trace, start, found))


def verified(model: Batched, call: Call, done: Done) -> Done:
    """Return a run of a mini-batch, after it was compared with the plain call if ACRONUMBA_VERIFY is 2 or more."""
    if verify_level() > 1:
        from acronumba.api.check import check

        verdict = check(model, call.columns, call.shared, done)
        if not verdict.ok:
            raise reject("ACR799", message="a mini-batch differs from the plain call", seen=str(verdict))
    return done


def run(model: Batched, call: Call, trace: bool = False, start: float = 0.0, found: Fit | None = None) -> Done:
    """Run a mini-batch; in groups if the types of its instances are incompatible. `found`: a known fit, packed."""
    begin, spent = start or time.perf_counter(), 0.0
    if found is None:
        with compiling(model.__wrapped__):
            found = existing(model, call)
    if found is None:
        before = time.perf_counter()
        try:
            compiled, leaves, _ = compile_for(model, call, packed=False)
        except InternalError:
            raise
        except AcronumbaError as rejection:
            return _run_in_groups(model, call, trace, rejection)
        spent = time.perf_counter() - before
        found = Fit(compiled, leaves, compiled.pack(call.columns, call.numbers))
    return _run_fit(model, call, found, trace, begin, spent)


def _run_fit(model: Batched, call: Call, found: Fit, trace: bool, begin: float, spent: float) -> Done:
    """Run a mini-batch; `spent` are the seconds of compilation since `begin`."""
    compiled, leaves, packed = found
    assert packed is not None
    device = model.device
    if not trace:
        running = compiled.running(packed, leaves, call.frozen, device, False, model.there)
        return decode(model, call, found, running)
    ready, known = time.perf_counter(), dict(compiled.times.seconds)
    packing = ready - begin - spent
    compiled.artifacts.on(device)
    if compiled.times.seconds != known:  # it was compiled, or loaded from the disk cache
        spent += time.perf_counter() - ready
    running = compiled.running(packed, leaves, call.frozen, device, True, model.there)
    done = decode(model, call, found, running)
    return replace(done, trace=running.trace({"compile": spent, "pack": packing}))


def _run_in_groups(model: Batched, call: Call, trace: bool, rejection: AcronumbaError) -> Done:
    """Run the instances of each type apart, the most frequent types first, together with others that fit.

    If the function is rejected for a group, its instances fail with this error. If it is rejected for all groups, or
    for all of them that were tried within `MOST_STEPS`, the error of the mini-batch as a whole (`rejection`) is raised.
    """
    with compiling(model.__wrapped__):
        left, packed = groups(call.again().columns), any(map(is_packed, call.columns))
    # A slice of a pack has the types of the whole pack; the types of its own instances may be accepted.
    if len(left) < 2 and not packed:
        raise rejection
    call = call.again()
    parts = list(_run_as_before(model, call, left, trace))
    rejected: dict[int, BaseException] = {}
    steps = rejection.steps
    for types_of in list(left):
        if types_of not in left:
            continue
        begin, members = time.perf_counter(), left.pop(types_of)
        try:
            compiled, leaves, _ = specialise(model, call.some(members), packed=False)
        except AcronumbaError as error:
            rejected |= rejections(model, call, members, error)
            steps += error.steps
            if not parts and steps > MOST_STEPS:
                raise rejection from None
            continue
        fits = compiled.guard.matches_types
        others = [key for key, group in left.items() if fits(call.some(group[:1]).columns)]
        for key in (types_of, *others):
            model._cache.lead(compiled.options, key, compiled, call)
        members = sorted(chain(members, *map(left.pop, others)))
        some, spent = call.some(members), time.perf_counter() - begin
        rows = compiled.pack(some.columns, some.numbers)
        parts.append((members, _run_fit(model, some, Fit(compiled, leaves, rows), trace, begin, spent)))
    if not parts:
        raise rejection
    _tell_of_groups(model, len(parts) + len({id(error) for error in rejected.values()}))
    return _joined(call, parts, rejected)


def rejections(
    model: Batched, call: Call, members: Sequence[int], error: AcronumbaError
) -> dict[int, BaseException]:  # fmt: skip
    """Return the errors of instances for which the function is rejected; in PyTorch those of the plain call, if any."""
    error = error.with_traceback(None)
    if not (model.tensors and isinstance(error, TypeMismatch | ShapeMismatch)):
        return dict.fromkeys(members, error)
    return {k: exception_of(model, [column[k] for column in call.columns], call, error) for k in members}


def _run_as_before(
    model: Batched, call: Call, left: dict[Hashable, list[int]], trace: bool
) -> Iterator[tuple[list[int], Done]]:
    """Run groups whose types ran before, with the same specialisations, and remove them from `left`."""
    options, entries = _tuned(model, call)
    ways: dict[Compiled, list[Hashable]] = {}
    for key in left:
        compiled = model._cache.way(options, key)
        if compiled is not None and compiled in entries and compiled.fn is model.__wrapped__:
            ways.setdefault(compiled, []).append(key)
    for compiled, keys in ways.items():
        begin, members = time.perf_counter(), sorted(chain(*map(left.__getitem__, keys)))
        some, leaves = call.some(members), compiled.guard.leaves(call.shared, call.frozen)
        rows = None if leaves is None else compiled.pack_exact(some.columns, some.numbers)
        if leaves is None or rows is None:
            continue
        for key in keys:
            del left[key]
            model._cache.lead(options, key, compiled, call)
        compiled.used = call.at
        yield members, _run_fit(model, some, Fit(compiled, leaves, rows), trace, begin, 0.0)


def _tell_of_groups(model: Batched, count: int) -> None:
    """Print once that mini-batches run in several groups."""
    cache = model._cache
    first, cache.groups = cache.groups < MANY_GROUPS <= count, max(cache.groups, count)
    if first:
        from acronumba.pipeline.log import say

        say(groups_text(model.__qualname__, count))


def groups_text(name: str, count: int) -> str:
    return f"{name}: a mini-batch ran in {count} groups of types that do not go together, each with code of its own"


def _joined(call: Call, parts: Sequence[tuple[list[int], Done]], rejected: dict[int, BaseException]) -> Done:
    """Join the results of groups, each with its instance numbers, and of instances that were rejected."""
    of = {k: (done, j) for members, done in parts for j, k in enumerate(members)}
    errors = rejected | {k: done.errors[j] for k, (done, j) in of.items() if j in done.errors}
    errors = dict(sorted(errors.items()))

    def result(k: int) -> Value:
        done, j = of[k]
        return done.results[j]

    def there(k: int) -> Value:
        done, j = of[k]
        return done.results.device[j]

    results = Results(call.count, _unless(errors, Decoder.of(result)), _unless(errors, Decoder.of(there)))
    largest = max(parts, key=lambda part: len(part[0]))[1]
    return Done(results, errors, compiled=largest.compiled, trace=largest.trace, call=largest.call)


# ---- decode


def decode(model: Batched, call: Call, found: Fit, run: Running) -> Done:
    """Return the results of a mini-batch, made when they are read, and the failures of its instances."""
    compiled, _, packed = found
    wrong: Mapping[int, BaseException] = {} if packed is None else packed.errors
    errors: dict[int, BaseException] = {}
    if wrong or run.failures:
        failed = {k: record for k, record in run.failures.items() if k not in wrong}
        errors = dict(sorted({**wrong, **failures(model, call, compiled, failed)}.items()))
    here, there = run.decoders()
    results = Results(call.count, _unless(errors, here), None if there is None else _unless(errors, there))
    return Done(results, errors, compiled=compiled, call=call)


def _unless(errors: Mapping[int, BaseException], decode: Decoder) -> Decoder:
    """Return a decoder that returns None for instances that have failed."""
    if not errors:
        return decode

    def many(ks: Sequence[int]) -> list[Value]:
        values = iter(decode.many([k for k in ks if k not in errors]))
        return [None if k in errors else next(values) for k in ks]

    return Decoder(lambda k: None if k in errors else decode.one(k), many, decode.few)


def failures(model: Batched, call: Call, compiled: Compiled, failed: Mapping[int, Failure]) -> dict[int, BaseException]:
    """Return the exceptions of instances that failed in compiled code."""
    errors: dict[int, BaseException] = {}
    own: list[int] = []  # whose failure the plain call does not tell, or not soon
    forks = compiled.artifacts.forks if failed else False
    for k, record in failed.items():
        instance = [column[k] for column in call.columns]
        failure = compiled.site_error(record)
        errors[k] = exception_of(model, instance, call, failure, soon=forks)
        if errors[k] is failure:
            own.append(k)
    return errors | _in_order(model, call, own) if own and forks else errors


def exception_of(
    model: Batched, instance: Sequence[Value], call: Call, failure: BaseException, soon: bool = False
) -> BaseException:
    """Return the plain call's exception, or else the recorded one; `soon`: stop the plain call after few steps."""
    if homes:
        refresh_stale(float_arrays(list(call.shared.values())))
    plain = model._plain_call(call.shared)
    return plain_failure(replace(plain, steps=SOON) if soon else plain, instance, failure)


def _in_order(model: Batched, call: Call, instances: Sequence[int]) -> dict[int, BaseException]:
    """Run instances again without fibers; return their failures, each the first in program order."""
    serial = model.with_options(forkjoin=False)
    specialise(serial, call, packed=False)  # for the types of the whole mini-batch
    columns = tuple([column[k] for k in instances] for column in call.columns)
    some = Call(columns=columns, shared=call.shared, frozen=call.frozen, count=len(instances), at=call.at)
    done = run(serial, some)
    return {instances[n]: error for n, error in done.errors.items()}
