"""Models on several machines, by Ray: `Pool` for mini-batches, `Mapper` for its datasets, `deployment` for its server.

In: a model and its shared values, then instances. Out: the results of `batch`, in order, with the same bits on equal
CPUs. Ray is imported with this module, and by no other. Workers are sent pickles, which are code: a cluster is one
domain of trust.
"""

from __future__ import annotations

import asyncio
import pickle
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import TracebackType
from typing import Any

import numpy as np

from acronumba.api.arguments import Signature
from acronumba.api.columns import as_columns
from acronumba.api.kinds import expect_kinds
from acronumba.api.model import Model
from acronumba.api.results import Results
from acronumba.api.snapshot import pack
from acronumba.data.bulk import in_bulk, one_by_one
from acronumba.emit.target import host
from acronumba.errors import AcronumbaError, InstanceErrors, sendable
from acronumba.errors.codes import reject
from acronumba.memory import Array
from acronumba.serve import Server

try:
    import cloudpickle
    import ray
except ImportError as error:
    missing = f"needs {error.name or 'Ray'}, which cannot be imported ({error})"
    raise ImportError(
        f"acronumba.ray {missing}: pip install '.[ray]', from the sources of acronumba", name=error.name
    ) from error

__all__ = ["Mapper", "Pool", "deployment"]

AHEAD = 2  # chunks in flight for each worker: one running, one waiting
CHUNKS = 8  # for each worker, if there are enough instances: a free worker takes the next one
FEWEST = 16  # smallest number of instances of a chunk
PATIENCE = 5.0  # seconds after which a chunk may be late


class Pool:
    """Workers that run a model. A worker that dies is replaced, and its unfinished chunks are run again.

    Parameters
    ----------
    model : model
        May be of a script or a notebook, from which it is sent by value.
    workers, cores : int
        Number of processes, and of threads of each.
    same_processor : bool
        Whether to reject workers on different CPUs, whose results may differ in the last bits.
    **shared
        The keyword-only parameters of the model. They are sent once to each node; see `update`.
    """

    def __init__(
        self, model: Callable[..., Any], *, workers: int = 2, cores: int = 1, same_processor: bool = False,
        **shared: Any,
    ) -> None:  # fmt: skip
        if not ray.is_initialized():
            ray.init()
        made: Any = model if isinstance(model, Model) else Model(model)
        self._signature = Signature(made.__wrapped__, made.bound)
        self._shared = dict(shared)
        self._version, self._values = 0, _put(self._shared)
        actor = ray.remote(num_cpus=cores, max_restarts=-1, max_task_retries=-1)(_Worker)
        code = cloudpickle.dumps(made.with_options(threads=cores))
        self._workers = [actor.remote(code) for _ in range(workers)]
        self._silent: dict[Any, Any] = {}  # workers that did not answer, with the pending call
        if same_processor and len(found := set(ray.get([w.processor.remote() for w in self._workers]))) > 1:
            self.close()
            raise reject("ACR706", message="the workers have different CPUs", seen=", ".join(sorted(found)))

    def batch(self, *columns: Any) -> Results[Any]:
        """Return the results of instances, in their order, as `Model.batch` does.

        Parameters
        ----------
        *columns : sequences
            One for each positional parameter. They are packed chunk by chunk while workers run earlier chunks.

        Raises
        ------
        InstanceErrors
            With the numbers of the instances, and the results of the others.
        """
        names = [*(p.name for p in self._signature.positional), *map(str, range(len(columns)))]
        given = [_Column(c) for c in as_columns(columns, names, self._signature.hint)]
        count = len(given[0])
        if any(len(c) != count for c in given):
            raise reject("ACR707", message="the columns have different lengths", seen=str([len(c) for c in given]))
        size = max(FEWEST, -(-count // (CHUNKS * len(self._workers))))
        chunks = ((first, [c.packed(first, first + size) for c in given]) for first in range(0, count, size))
        results: list[Any] = [None] * count
        errors: dict[int, BaseException] = {}
        for first, found, failed in self._run(chunks):
            results[first : first + len(found)] = found
            errors |= {first + k: error for k, error in failed.items()}
        if errors:
            raise InstanceErrors(errors, Results.of(results))
        return Results.of(results)

    def stream(self, source: Iterable[Any], chunk: int = 256) -> Iterator[tuple[int, Any]]:
        """Yield the number and the result of each instance of a source, in the order of completion.

        Parameters
        ----------
        source : iterable
            Instances; tuples, if the model has several positional parameters. It is read only as chunks are sent.
        chunk : int
            How many instances are sent together.

        Raises
        ------
        InstanceErrors
            In the end, with all failures, whose instances were not yielded.
        """
        errors: dict[int, BaseException] = {}
        for first, found, failed in self._run(_chunks(source, chunk)):
            errors |= {first + k: error for k, error in failed.items()}
            yield from ((first + k, result) for k, result in enumerate(found) if k not in failed)
        if errors:
            raise InstanceErrors(errors)

    def update(self, **shared: Any) -> None:
        """Replace shared values by others of the same kind, for all instances that are sent from now on."""
        expect_kinds(self._shared, shared, "pool")
        self._shared |= shared
        self._version, self._values = self._version + 1, _put(self._shared)

    def close(self) -> None:
        """End the workers."""
        for worker in self._workers:
            ray.kill(worker)
        self._workers = []

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self.close()

    def _run(
        self, chunks: Iterable[tuple[int, Sequence[Any]]]
    ) -> Iterator[tuple[int, Sequence[Any], Mapping[int, BaseException]]]:
        """Yield for each finished chunk its first instance, results and failures.

        A chunk whose worker does not answer, because its node is gone and no other node has room, is sent to another
        worker.
        """
        free = self._answering() * AHEAD
        under_way: dict[Any, _Sent] = {}
        source, longest = iter(chunks), 0.0
        try:
            while True:
                for late in _late(under_way, longest)[: len(free)]:
                    self._silent.setdefault(late.worker, late.worker.processor.remote())
                    self._send(late.first, late.columns, free, under_way)
                for first, columns in islice(source, len(free)):
                    self._send(first, cloudpickle.dumps(columns), free, under_way)
                if not under_way:
                    return
                ready, _ = ray.wait(list(under_way), num_returns=1, timeout=PATIENCE)
                for done in ready:
                    sent = under_way.pop(done)
                    free.append(sent.worker)
                    longest = max(longest, time.monotonic() - sent.since)
                    for other in [ref for ref, o in under_way.items() if o.first == sent.first]:
                        ray.cancel(other)
                        del under_way[other]  # its worker may never answer
                    rejected, results, errors = pickle.loads(ray.get(done))
                    if rejected is not None:
                        raise rejected
                    yield sent.first, one_by_one(results), errors
        finally:
            for ref in under_way:
                ray.cancel(ref)

    def _send(self, first: int, columns: bytes, free: list[Any], under_way: dict[Any, _Sent]) -> None:
        """Send a chunk to the next free worker."""
        worker = free.pop(0)
        # Inside a list, Ray does not resolve a reference: the worker fetches the values only if they are new.
        sent = worker.run.remote(self._version, [self._values], columns)
        under_way[sent] = _Sent(first, columns, worker, time.monotonic())

    def _answering(self) -> list[Any]:
        """Return the workers that are not known to be silent, or all if none is left."""
        for worker, answer in list(self._silent.items()):
            if ray.wait([answer], timeout=0)[0]:
                del self._silent[worker]
        return [w for w in self._workers if w not in self._silent] or list(self._workers)


class _Column:
    """A column whose chunks are packed one at a time, since a slice of a whole pack must first be extracted from it."""

    def __init__(self, column: Any) -> None:
        self._column = column if type(column) is list else pack(column)

    def __len__(self) -> int:
        return len(self._column)

    def packed(self, first: int, last: int) -> Any:
        """Return some of the instances, packed."""
        some = self._column[first:last]
        if type(some) is not list:
            return some
        try:
            return pack(some)
        except AcronumbaError:  # it names an instance by its number in the piece
            self._column = pack(self._column)
            return self._column[first:last]


@dataclass
class _Sent:
    """A chunk that a worker has not finished."""

    first: int
    columns: bytes
    worker: Any
    since: float
    again: bool = False  # whether it was sent to another worker, too


def _late(under_way: Mapping[Any, _Sent], longest: float) -> list[_Sent]:
    """Return the chunks that take far longer than any before, to be sent once more."""
    limit = time.monotonic() - max(PATIENCE, 4 * AHEAD * longest)
    found = [sent for sent in under_way.values() if sent.since < limit and not sent.again]
    for sent in found:
        sent.again = True
    return found


class _Worker:
    """The actor in each process of a pool."""

    def __init__(self, code: bytes) -> None:
        self._model = pickle.loads(code)
        self._version = -1
        self._shared: dict[str, Any] = {}

    def processor(self) -> str:
        return f"{host().name} {host().vector_bits}"

    def run(self, version: int, values: list[Any], columns: bytes) -> bytes:
        if version != self._version:
            self._shared, self._version = _get(values[0]), version
        found: tuple[Any, Any, Any]
        try:
            found = None, in_bulk(list(self._model.batch(*pickle.loads(columns), **self._shared))), {}
        except InstanceErrors as failed:
            found = None, list(failed.results), sendable(failed.errors)
        except AcronumbaError as rejected:
            found = rejected, [], {}
        return cloudpickle.dumps(found)  # type: ignore[no-any-return]


def _put(shared: Mapping[str, Any]) -> Any:
    """Return a reference to a snapshot of shared values, whose arrays are stored once per node."""
    buffers: list[pickle.PickleBuffer] = []
    values = {name: _snapshot(value) for name, value in shared.items()}
    text = cloudpickle.dumps(values, protocol=5, buffer_callback=buffers.append)
    return ray.put((text, [np.frombuffer(b.raw(), np.uint8) for b in buffers]))


def _get(reference: Any) -> dict[str, Any]:
    text, buffers = ray.get(reference)
    return pickle.loads(text, buffers=buffers)  # type: ignore[no-any-return]


def _snapshot(value: Any) -> Any:
    try:
        return pack(value)
    except AcronumbaError:  # a number, a flag, a function
        return value


def _chunks(source: Iterable[Any], size: int) -> Iterator[tuple[int, list[Any]]]:
    first, values = 0, iter(source)
    while some := list(islice(values, size)):
        several = all(type(x) is tuple for x in some)
        yield first, [list(c) for c in zip(*some, strict=True)] if several else [some]
        first += len(some)


class Mapper:
    """A model for `Dataset.map_batches`: the last named column is the result, the others are its arguments.

    With ``batch_format="pyarrow"`` columns of Arrow are packed without Python objects: structs become objects of
    annotated classes.

    Examples
    --------
    >>> given = (classify, {"p": p}, "tree", "label")  # doctest: +SKIP
    >>> ds.map_batches(Mapper, fn_constructor_args=given, concurrency=4, batch_size=256)  # doctest: +SKIP
    """

    def __init__(self, model: Any, shared: Mapping[str, Any], *columns: str) -> None:
        if len(columns) < 2:
            raise TypeError("Mapper takes a model, its shared values, the columns of its arguments, and the new one")
        self._model = model
        self._shared = {name: _snapshot(value) for name, value in shared.items()}
        *self._columns, self._out = columns

    def __call__(self, batch: Any) -> Any:
        """Return the columns of a batch, a dict of arrays or a table of Arrow, with the results."""
        table = hasattr(batch, "append_column")
        columns = map(batch.__getitem__, self._columns)
        given = list(columns) if table else [c if c.dtype != object else [_plain(x) for x in c] for c in columns]
        results = self._model.batch(*given, **self._shared)
        try:
            out = results.stack()
        except AcronumbaError:  # of different shapes
            out = None
        if not isinstance(out, np.ndarray):
            out = np.fromiter(results, object, len(results))
        return batch.append_column(self._out, _arrow(out)) if table else batch | {self._out: out}


def _arrow(values: Array) -> Any:
    """Return results as a column of Arrow."""
    import pyarrow as pa

    if values.ndim > 1:
        return pa.FixedShapeTensorArray.from_numpy_ndarray(np.ascontiguousarray(values))
    return pa.array([_plain(x) for x in values] if values.dtype == object else values)


def _plain(value: Any) -> Any:
    """Return a list of Arrow, which Ray gives as an array, as a list; anything else as it is."""
    return value.tolist() if isinstance(value, np.ndarray) else value


def deployment(
    model: Callable[..., Any], *, replicas: int = 1, max_batch: int = 64, max_wait: float = 0.0, max_queue: int = 1024,
    **shared: Any,
) -> Any:  # fmt: skip
    """Return an application for `ray.serve.run`: each replica is a `serve.Server`.

    `handle.remote(*instance)` is one request. `handle.many.remote(instances)` sends several at once, which takes far
    less time for each, and returns a list of results, with exceptions for the instances that failed.
    """
    from ray import serve as ray_serve

    made = model if isinstance(model, Model) else Model(model)
    values = {name: _snapshot(value) for name, value in shared.items()}
    options = {"max_batch": max_batch, "max_wait": max_wait, "max_queue": max_queue}
    given = cloudpickle.dumps((made, options, values))
    served = ray_serve.deployment(_Replica, num_replicas=replicas, max_ongoing_requests=max_batch + max_queue)
    return served.bind(given)


class _Replica:
    """A server in a process of Ray's."""

    def __init__(self, given: bytes) -> None:
        made, options, shared = pickle.loads(given)
        self._server: Server[Any] = Server(made, **options, **shared)

    async def __call__(self, *instance: Any) -> Any:
        return await self._server(*instance)

    async def many(self, instances: Sequence[Any]) -> list[Any]:
        some = (x if type(x) is tuple else (x,) for x in instances)
        return await asyncio.gather(*(self._server(*x, wait=True) for x in some), return_exceptions=True)
