"""The server with real models, threads and loops: answers, failures, limits, cancellation, weights that change."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import pytest

from acronumba import AcronumbaError, model, serve
from acronumba.memory import resident
from acronumba.serve import DeadlineExceeded, Overloaded, Server, ServerClosed


@dataclass
class Node:
    word: int
    kids: list[Node]


@model
def total(n: Node, *, p: np.ndarray) -> np.ndarray:
    h = p[n.word]
    for k in n.kids:
        h = h + np.tanh(total(k, p=p))
    return h


P = np.random.default_rng(0).standard_normal((10, 8)).astype(np.float32)


def node(k: int) -> Node:
    return Node(k % 10, [node(k // 2)] * (k % 3) if k else [])


class Slow:
    """A model whose mini-batches end when the test says so."""

    def __init__(self) -> None:
        self.go, self.begun = threading.Semaphore(0), threading.Semaphore(0)
        self.batches: list[list[Any]] = []

    def batch(self, xs: list[Any], **shared: Any) -> list[Any]:
        self.batches.append(list(xs))
        self.begun.release()
        assert self.go.acquire(timeout=20)
        return [(x, *shared.values()) for x in xs]


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.001)


def test_answers_have_the_bits_of_a_mini_batch() -> None:
    nodes = [node(k) for k in range(200)]

    async def main() -> list[Any]:
        async with Server(total, p=P, max_batch=16) as server:
            found = await asyncio.gather(*(server(n) for n in nodes))
            metrics = server.metrics()
            assert metrics.delivered == metrics.requests == 200
            assert metrics.batch_sizes.count == metrics.batches < 200
            assert metrics.batch_sizes.sum == 200
            return list(found)

    assert [x.tobytes() for x in asyncio.run(main())] == [x.tobytes() for x in total.batch(nodes, p=P)]


def test_one_bad_request_hurts_no_other() -> None:
    async def main() -> list[Any]:
        async with Server(total, p=P) as server:
            some: list[Any] = [node(k) for k in range(30)]
            some[3], some[7], some[9] = Node(99, []), "no node", Node(1, [None])  # type: ignore[list-item]
            return await asyncio.gather(*(server(n) for n in some), return_exceptions=True)

    found = asyncio.run(main())
    wrong = {k: type(x) for k, x in enumerate(found) if isinstance(x, BaseException)}
    assert wrong.keys() == {3, 7, 9}
    assert wrong[3] is IndexError
    assert all(x.tobytes() == total.batch([node(k)], p=P)[0].tobytes() for k, x in enumerate(found) if k not in wrong)


def test_a_model_that_is_rejected_answers_every_request() -> None:
    @model
    def rejected(x: float) -> Any:
        return open(x)

    with Server(rejected) as server:
        futures = [server.submit(float(k)) for k in range(3)]
        assert all(isinstance(f.exception(20), AcronumbaError) for f in futures)


def test_an_instance_that_never_ends() -> None:
    @model(max_steps=10_000)
    def count(n: int) -> int:
        k = 0
        while k != n:
            k = k + 1
        return k

    with Server(count) as server:
        futures = [server.submit(k) for k in (3, -1, 5)]
        assert [futures[0].result(20), futures[2].result(20)] == [3, 5]
        assert "ACR704" in str(futures[1].exception(20)) or "steps" in str(futures[1].exception(20))


def test_several_parameters() -> None:
    add = model(lambda a, b: a + b)
    with Server(add) as server:
        assert server.submit(1, 2).result(20) == 3
        assert isinstance(server.submit(1).exception(20), AcronumbaError)


def test_the_queue_has_an_end_and_can_be_waited_for() -> None:
    slow = Slow()
    server: Server[Any] = Server(slow, max_batch=1, max_queue=2)
    running = server.submit(0)
    slow.begun.acquire()
    waiting = [server.submit(k) for k in (1, 2)]
    with pytest.raises(Overloaded):
        server.submit(3)
    found: list[Any] = []
    patient = threading.Thread(target=lambda: found.append(server.submit(4, wait=True).result(20)))
    patient.start()
    for _ in range(4):
        slow.go.release()
    patient.join(20)
    assert found == [(4,)]
    assert [f.result(20) for f in (running, *waiting)] == [(0,), (1,), (2,)]
    server.close()
    assert server.metrics().rejected == 1


def test_deadlines_end_requests_while_a_mini_batch_runs() -> None:
    slow = Slow()
    with Server(slow, max_batch=1) as server:
        running = server.submit(0, deadline=0.05)
        slow.begun.acquire()
        waiting = server.submit(1, deadline=0.05)
        assert isinstance(running.exception(20), DeadlineExceeded)
        assert isinstance(waiting.exception(20), DeadlineExceeded)
        later = server.submit(2, deadline=60.0)
        slow.go.release()
        slow.go.release()
        assert later.result(20) == (2,)
        assert slow.batches == [[0], [2]]
        assert server.metrics().expired == 2


@pytest.mark.parametrize("stage", ["before it is sent", "queued", "running", "done"])
def test_a_task_that_is_cancelled_withdraws_its_request(stage: str) -> None:
    slow = Slow()

    async def main() -> None:
        async with Server(slow, max_batch=1) as server:
            if stage == "queued":
                first = asyncio.create_task(server(0))
                await asyncio.to_thread(slow.begun.acquire)
            task = asyncio.create_task(server(1))
            if stage != "before it is sent":
                await asyncio.sleep(0)
            if stage in ("running", "done"):
                await asyncio.to_thread(slow.begun.acquire)
            if stage == "done":
                slow.go.release()
                assert await task == (1,)
            assert task.cancel() is (stage != "done")
            if stage != "done":
                with pytest.raises(asyncio.CancelledError):
                    await task
            if stage == "queued":
                slow.go.release()
                assert await first == (0,)
            if stage == "running":
                slow.go.release()
            other = asyncio.create_task(server(2))
            slow.go.release()
            assert await other == (2,)
            sent = stage not in ("before it is sent", "done")
            assert server.metrics().withdrawn == sent

    asyncio.run(main())


def test_a_future_that_is_cancelled_withdraws_its_request() -> None:
    slow = Slow()
    with Server(slow, max_batch=2) as server:
        first = server.submit(0)
        slow.begun.acquire()
        some = [server.submit(k) for k in (1, 2)]
        assert some[0].cancel()
        slow.go.release()
        slow.go.release()
        assert [first.result(20), some[1].result(20)] == [(0,), (2,)]
        with pytest.raises(CancelledError):
            some[0].result()
        assert slow.batches == [[0], [2]]
        assert not first.cancel()
        assert server.metrics().withdrawn == 1


def test_weights_change_between_mini_batches() -> None:
    slow = Slow()
    with Server(slow, max_batch=1, scale=1, flag=True) as server:
        first = server.submit(0)
        slow.begun.acquire()
        second = server.submit(1)
        server.update(scale=2)
        slow.go.release()
        slow.go.release()
        assert [first.result(20), second.result(20)] == [(0, 1, True), (1, 2, True)]
        with pytest.raises(TypeError, match="not a shared value"):
            server.update(other=1)
    p = P.copy()
    with Server(total, p=p) as served:
        before = served.submit(node(5)).result(20)
        p[:] = 0.0  # nobody sees it
        assert served.submit(node(5)).result(20).tobytes() == before.tobytes()
        served.update(p=2 * P)
        assert served.submit(node(5)).result(20).tobytes() == total.batch([node(5)], p=2 * P)[0].tobytes()


class Net:
    def __init__(self, w: Any, layers: Any, act: Any = np.tanh, bias: Any = None) -> None:
        self.w, self.layers, self.act, self.bias = w, layers, act, bias


W = np.ones((3, 3), np.float32)
KINDS: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "array": (W, [2 * W, np.ones((5, 3), np.float64)], ["nonsense", None, 1.0, W[0], [W], {"w": W}, object(), len]),
    "number": (1.0, [2, np.float32(2.0), True], ["1.0", W, [1.0], None, 1j]),
    "flag": (True, [False, 2], ["yes", W]),
    "text": ("a", ["b"], [1.0, W, ["a"], None]),
    "function": (np.tanh, [np.exp, abs, lambda x: x], ["tanh", 1.0]),
    "list": ([W, W], [[W], [2 * W] * 30, []], [W, [W, "nonsense"], [1.0], (W, W)]),
    "numbers": ([1.0] * 3, [[2.0], [2.0] * 40, [1, 2]], [["x"], 1.0]),
    "dict": ({"a": 1.0}, [{"b": 2.0}, {f"k{k}": 1.0 for k in range(40)}], [[1.0], {"a": "nonsense"}, {1, 2}]),
    "set": ({1, 2}, [{3}, set()], [[1], {1: 2}]),
    "object": (Net(W, [W]), [Net(2 * W, [W, W], np.exp, W[0])], [W, {"w": W}, Net("nonsense", [W]), Net(W, [1.0])]),
    "none": (None, [W, 1.0, "a", None], [object()]),
}


@pytest.mark.parametrize("kind", KINDS)
def test_shared_values_are_replaced_by_their_kind(kind: str) -> None:
    old, good, bad = KINDS[kind]
    slow = Slow()
    with Server(slow, scale=old, flag=True) as server:
        for value in bad:
            with pytest.raises(TypeError, match=r"in place of .*; nothing was updated"):
                server.update(flag=False, scale=value)
        assert server._shared["flag"] is True
        for value in good:
            with Server(Slow(), scale=old) as other:
                other.update(scale=value)


def test_nonsense_changes_nothing() -> None:
    with Server(total, p=P) as server:
        before = server.submit(node(5)).result(60).tobytes()
        with pytest.raises(TypeError, match="`p` is a str in place of an array of rank 2"):
            server.update(p="nonsense")
        assert server.submit(node(5)).result(60).tobytes() == before
        assert server.metrics().updates == 0


@pytest.mark.parametrize("drain", [True, False])
def test_closing_while_busy(drain: bool) -> None:
    slow = Slow()
    server: Server[Any] = Server(slow, max_batch=1)
    running, waiting = server.submit(0), server.submit(1)
    slow.begun.acquire()
    closing = threading.Thread(target=server.close, args=(drain,))
    closing.start()
    until(lambda: server._queue.closed)
    with pytest.raises(ServerClosed):
        server.submit(2)
    slow.go.release()
    slow.go.release()
    closing.join(20)
    assert running.result(20) == (0,)
    assert waiting.result(20) == (1,) if drain else isinstance(waiting.exception(20), ServerClosed)
    assert server.metrics().requests == 3


def test_an_exception_that_ends_programs_ends_a_request() -> None:
    class Ends:
        def batch(self, xs: list[Any]) -> list[Any]:
            if 1 in xs:
                raise SystemExit(3)
            return xs

    with Server(Ends()) as server:
        futures = [server.submit(k) for k in range(3)]
        assert isinstance(futures[1].exception(20), RuntimeError)
        assert [futures[0].result(20), futures[2].result(20)] == [0, 2]


def test_loops_of_several_threads_are_served() -> None:
    with Server(total, p=P) as server:
        found: dict[int, Any] = {}

        def client(k: int) -> None:
            async def main() -> Any:
                return await asyncio.gather(*(server(node(k + j)) for j in range(5)))

            found[k] = asyncio.run(main())

        threads = [threading.Thread(target=client, args=(k,)) for k in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(30)
        for k, results in found.items():
            assert [x.tobytes() for x in results] == [
                x.tobytes() for x in total.batch([node(k + j) for j in range(5)], p=P)
            ]


@pytest.mark.long
def test_memory_stays_flat_over_100_000_requests() -> None:
    check = model(_reciprocal)
    sizes: list[int] = []

    async def client(server: Server[Any], numbers: Any) -> None:
        for k in numbers:
            some = asyncio.gather(*(server(np.full(8, j), j % 10) for j in range(50)), return_exceptions=True)
            if k % 10 == 0:
                await asyncio.sleep(0)
                some.cancel()
            try:
                failed = [x for x in await some if isinstance(x, BaseException)]
                assert len(failed) == 5
            except asyncio.CancelledError:
                pass
            if k % 100 == 0:
                sizes.append(resident())

    async def main() -> None:
        async with Server(check, max_queue=100_000) as server:
            numbers = iter(range(2000))
            await asyncio.gather(*(client(server, numbers) for _ in range(4)))
        metrics = server.metrics()
        assert metrics.requests == 100_000
        assert metrics.delivered + metrics.failed + metrics.withdrawn == 100_000
        assert metrics.withdrawn > 1000

    asyncio.run(main())
    assert max(sizes[10:]) - sizes[5] < 1 << 23  # after the first quarter


def _reciprocal(x: np.ndarray, k: int) -> np.ndarray:
    assert k != 0, "no reciprocal"
    return x / k


def test_metrics_are_exported() -> None:
    registry = pytest.importorskip("prometheus_client").CollectorRegistry()
    with Server(model(lambda x: 2 * x)) as server:
        registry.register(serve.prometheus(server.metrics, "mine"))
        assert server.submit(2).result(20) == 4
        assert registry.get_sample_value("mine_requests_total", {"ended": "delivered"}) == 1
        assert registry.get_sample_value("mine_batch_sizes_count") == 1
        assert registry.get_sample_value("mine_batch_sizes_bucket", {"le": "1.0"}) == 1


def test_who_is_late_already_never_runs() -> None:
    with Server(total, p=P) as server:
        for deadline in (0, 0.0, -1, -np.inf):
            assert isinstance(server.submit(node(3), deadline=deadline).exception(60), DeadlineExceeded)
        assert (server.metrics().expired, server.metrics().batches) == (4, 0)


@pytest.mark.parametrize("deadline", [np.inf, 1e300, threading.TIMEOUT_MAX])
def test_a_deadline_far_away_keeps_no_other_from_its_time(deadline: float) -> None:
    slow = Slow()
    with Server(cast("Any", slow), max_batch=1) as server:
        far = server.submit(1, deadline=deadline)
        assert slow.begun.acquire(timeout=20)
        assert isinstance(server.submit(2, deadline=0.01).exception(60), DeadlineExceeded)
        slow.go.release()
        assert far.result(60) == (1,)


def test_what_is_no_time_is_rejected() -> None:
    with Server(total, p=P) as server:
        with pytest.raises(ValueError, match="a deadline must be a number"):
            server.submit(node(3), deadline=np.nan)
        with pytest.raises(TypeError):
            server.submit(node(3), deadline=cast("Any", "soon"))
        assert server.metrics().requests == 0
    for wait in (np.nan, np.inf, -1.0):
        with pytest.raises(ValueError, match="max_wait"):
            Server(total, max_wait=wait, p=P)
    with pytest.raises(TypeError):
        Server(total, max_batch=cast("Any", 2.5), p=P)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_process_that_was_forked_is_told_so() -> None:
    with Server(total, p=P) as server:
        assert server.submit(node(3)).result(60).shape == (8,)
        with server._lock:  # another thread may have it
            child = os.fork()
            if not child:
                try:
                    server.submit(node(3))
                except ServerClosed:
                    server.close()
                    os._exit(7)
                os._exit(8)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert server.submit(node(3)).result(60).shape == (8,)
