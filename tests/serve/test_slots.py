"""A server of a model that waits for values: requests join what runs, leave it when they are done, and hurt nobody."""

from __future__ import annotations

import asyncio
import random
import threading
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from acronumba import AcronumbaError, model, pack
from acronumba.api.joining import Flow, Member
from acronumba.api.results import equal
from acronumba.memory import resident
from acronumba.runtime.epoch import Epoch, Left
from acronumba.serve import DeadlineExceeded, Overloaded, Server, ServerClosed


@dataclass
class Start:
    x: np.ndarray
    turns: int  # at most; of a negative number there is no end
    bad: bool


@dataclass
class Step:
    h: np.ndarray
    left: list[Step]


@model(max_steps=1_000_000)
def walk(s: Start, *, w: np.ndarray) -> tuple[int, list[Step]]:
    """Return how many turns a start takes, and all that was met."""
    h = s.x
    met: list[Step] = []
    n = 0
    while n != s.turns and float(h[0]) > -2.0:
        h = np.tanh(w @ h) + 0.1
        met.append(Step(h, met[:1]))
        n += 1
    assert not s.bad, "a bad start"
    return n, met


W = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)


def start(k: int, turns: int | None = None, bad: bool = False) -> Start:
    x = np.random.default_rng(k).standard_normal(16).astype(np.float32)
    return Start(x, 1 + (7 * k) % 23 if turns is None else turns, bad)


@pytest.fixture(scope="module")
def alone() -> list[Any]:
    return [walk.batch([start(k)], w=W)[0] for k in range(100)]


ENDLESS = Start(start(0).x, -1, False)
quick = walk.with_options(max_steps=300)


def same(a: Any, b: Any) -> bool:
    return bool(equal(a, b)) and [x.h.tobytes() for x in a[1]] == [x.h.tobytes() for x in b[1]]


def test_answers_have_the_bits_that_they_have_alone(alone: list[Any]) -> None:
    async def main() -> list[Any]:
        async with Server(walk, w=W, max_batch=8) as server:
            found = await asyncio.gather(*(server(start(k)) for k in range(100)))
            metrics = server.metrics()
            assert metrics.delivered == metrics.requests == metrics.rounds.count == 100
            assert metrics.rounds.sum > 500 and metrics.batch_sizes.mean > 4
            assert metrics.epochs >= 1 and metrics.running == metrics.bytes == 0
            return list(found)

    assert all(same(x, y) for x, y in zip(asyncio.run(main()), alone, strict=True))


class Gate:
    """Lets rounds run only while it is open."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rounds, self.open, self.comes = Epoch.round, threading.Event(), threading.Semaphore(0)
        self.open.set()

        def waits(epoch: Epoch, alone: bool = False) -> list[Left]:  # one by one, in any case
            self.comes.release()
            assert self.open.wait(20)
            return rounds(epoch)

        monkeypatch.setattr(Epoch, "round", waits)

    def reached(self) -> None:
        """Return when a round has come to the gate, which is closed."""
        while self.comes.acquire(blocking=False):
            pass
        assert self.comes.acquire(timeout=20)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    return Gate(monkeypatch)


def test_who_is_done_does_not_wait_for_others(alone: list[Any]) -> None:
    async def main() -> None:
        async with Server(walk, w=W) as server:
            await server(start(0))
            long = asyncio.create_task(server(ENDLESS))
            for k in range(20):
                assert same(await server(start(k)), alone[k])
            assert not long.done()
            assert server.metrics().running == 1
            long.cancel()

    asyncio.run(main())


def flow_of(slots: int) -> tuple[Flow, dict[str, Any]]:
    shared = {"w": pack({"w": W}).value["w"]}
    flow = Flow(walk, slots)
    assert flow.waits([(start(0),)], shared)
    return flow, shared


def join(flow: Flow, shared: dict[str, Any], *starts: Start) -> list[Member]:
    members = [m for m in flow.join([(s,) for s in starts], shared) if m is not None]
    assert len(members) == len(starts)
    return members


@pytest.mark.parametrize("slots", [3, 16, 1000])
def test_joining_changes_no_answer(alone: list[Any], slots: int) -> None:
    flow, shared = flow_of(slots)
    chance, left, who = random.Random(slots), list(range(100)), dict[Member, int]()
    found: dict[int, Any] = {}
    while left or len(flow):
        some = [left.pop() for _ in range(min(len(left), chance.randrange(5)))]
        if some:
            who |= dict(zip(join(flow, shared, *map(start, some)), some, strict=True))
        flow.bell[0] = chance.randrange(2)
        if len(flow):
            for gone in flow.round():
                assert gone.error is None
                found[who[gone.member]] = gone.result
    assert all(same(found[k], alone[k]) for k in range(100))
    assert flow.epochs >= 100 // slots


def test_tensors_are_given_back_as_instances_leave(alone: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    pieces = walk._entries[0].executable.pieces
    monkeypatch.setattr(pieces, "wanted", 1 << 14)
    pieces.clear()
    flow, shared = flow_of(4096)
    most: list[int] = []
    found: dict[Member, Any] = {}
    who: list[Member] = []
    for k in range(400):
        who += join(flow, shared, start(k % 100))
        found |= {gone.member: gone.result for gone in flow.round()}
        most.append(flow.bytes)
    assert flow.epochs == 1
    assert 0 < max(most[200:]) <= 1 << 17
    assert len(found) > 350
    assert all(same(found[m], alone[k % 100]) for k, m in enumerate(who) if m in found)


def test_weights_of_those_that_run_stay_what_they_were(alone: list[Any], gate: Gate) -> None:
    other = np.ascontiguousarray(W.T)
    with Server(walk, w=W, max_batch=4) as server:
        gate.open.clear()
        first = server.submit(start(1))
        gate.reached()
        server.update(w=other)
        second = server.submit(start(5))
        gate.open.set()
        assert same(second.result(60), walk.batch([start(5)], w=other)[0])
        assert same(first.result(60), alone[1])
        assert server.metrics().epochs == 2


@pytest.mark.parametrize("stage", ["queued", "in a round"])
def test_a_cancelled_request_gives_its_slot_to_others(stage: str, alone: list[Any], gate: Gate) -> None:
    async def main() -> None:
        async with Server(walk, w=W, max_batch=1) as server:
            gate.open.clear()
            tasks = [asyncio.create_task(server(ENDLESS))]
            await asyncio.to_thread(gate.reached)
            if stage == "queued":
                tasks.append(asyncio.create_task(server(start(2))))
                await asyncio.sleep(0)
                assert server.metrics().queued == 1
            assert tasks[-1].cancel()
            await asyncio.sleep(0)
            assert server.metrics().withdrawn == 1
            gate.open.set()
            if stage == "queued":
                assert tasks[0].cancel()
            assert same(await asyncio.wait_for(server(start(3)), 20), alone[3])

    asyncio.run(main())


def test_what_is_late_gives_its_slot_to_others(alone: list[Any]) -> None:
    with Server(walk, w=W, max_batch=1) as server:
        late = server.submit(ENDLESS, deadline=0.2)
        assert same(server.submit(start(3)).result(60), alone[3])
        assert isinstance(late.exception(20), DeadlineExceeded)
        assert server.metrics().expired == 1


def outcome(future: Future[Any]) -> Any:
    error = future.exception(60)
    return future.result() if error is None else error


def test_failures_are_those_of_one_request(alone: list[Any]) -> None:
    with Server(quick, w=W, max_batch=16) as server:
        some: list[Any] = [start(k, bad=k % 10 == 3) for k in range(60)]
        some[7], some[8], some[9] = start(7, -1), "no start", Start(np.zeros(3, np.float32), 4, False)
        found = [outcome(f) for f in [server.submit(s) for s in some]]
        for k, x in enumerate(found):
            if k % 10 == 3:
                assert isinstance(x, AssertionError) and "a bad start" in str(x)
            elif k == 7:
                assert "steps" in str(x)
            elif k in (8, 9):
                assert isinstance(x, AcronumbaError | AttributeError | ValueError)
            else:
                assert same(x, alone[k])
        metrics = server.metrics()
        assert (metrics.delivered, metrics.failed) == (51, 9)


def test_a_failure_of_a_node_is_that_of_one_request() -> None:
    @model
    def pick(x: np.ndarray, *, w: np.ndarray) -> tuple[int, np.ndarray]:
        n = 0
        while float(x[0]) > 1.0:
            x = x - w[int(x[1])]
            n += 1
        return n, w[int(x[1])]

    w = np.array([[1.0, 0.0], [1.5, 0.0], [2.0, -1.0]], np.float32)
    with Server(pick, w=w, max_batch=4) as server:
        futures = [server.submit(np.array([k, k % 4], np.float32)) for k in range(30)]
        for k, f in enumerate(futures):
            try:
                expected: Any = pick(np.array([k, k % 4], np.float32), w=w)
            except IndexError:
                assert isinstance(outcome(f), IndexError)
            else:
                assert equal(f.result(60), expected)
        assert 5 < server.metrics().failed < 25


@pytest.mark.parametrize("drain", [True, False])
def test_closing_while_requests_run(drain: bool, alone: list[Any], gate: Gate) -> None:
    server: Server[Any] = Server(walk, w=W, max_batch=1, max_queue=8)
    gate.open.clear()
    running = server.submit(start(8))
    gate.reached()
    waiting = [server.submit(start(k)) for k in range(8)]
    with pytest.raises(Overloaded):
        server.submit(start(0))
    server.close(drain, timeout=0.01)
    gate.open.set()
    server.close(drain)
    assert same(running.result(), alone[8])
    for k, f in enumerate(waiting):
        assert same(f.result(), alone[k]) if drain else isinstance(f.exception(), ServerClosed)
    assert server.metrics().requests == 10


def test_a_run_that_breaks_is_run_again(monkeypatch: pytest.MonkeyPatch, alone: list[Any]) -> None:
    rounds, calls = Epoch.round, list[int]()

    def breaks(self: Epoch, alone: bool = False) -> Any:
        calls.append(len(self))
        if len(calls) == 3:
            raise MemoryError("too much")
        return rounds(self)

    with Server(walk, w=W) as server:
        server.submit(start(0)).result(60)
        monkeypatch.setattr(Epoch, "round", breaks)
        assert all(same(f.result(60), alone[k]) for k, f in [(k, server.submit(start(k))) for k in range(20)])
    assert len(calls) >= 3


def test_data_of_globals_is_read_by_each_mini_batch(alone: list[Any]) -> None:
    scale = np.ones(1, np.float32)

    @model
    def halve(x: np.ndarray) -> int:
        n = 0
        while float(x[0]) > 1.0:
            x = x * 0.5 * scale
            n += 1
        return n

    with Server(halve) as server:
        assert server.submit(np.array([8.0], np.float32)).result(60) == 3
        scale[0] = 0.5
        assert server.submit(np.array([8.0], np.float32)).result(60) == 2
        assert server.metrics().epochs == 0


@pytest.mark.parametrize(
    "turns", [pytest.param(400, marks=pytest.mark.long), pytest.param(2000, marks=pytest.mark.slow)]
)
def test_many_requests_under_all_faults_end_once_and_leave_no_memory(turns: int) -> None:
    sizes: list[int] = []
    chance = random.Random(0)
    xs = [start(k, 1 + k % 5, k % 10 == 0) for k in range(200)]

    async def client(server: Server[Any], numbers: Any) -> None:
        for k in numbers:
            some = [asyncio.ensure_future(server(xs[(50 * k + j) % 200], deadline=60.0)) for j in range(49)]
            some.append(asyncio.ensure_future(server(ENDLESS if k % 8 == 0 else xs[k % 200])))
            for task in chance.sample(some, 5):
                await asyncio.sleep(0)
                task.cancel()
            found = await asyncio.gather(*some, return_exceptions=True)
            last = found.pop()
            assert {type(x).__name__ for x in found} <= {"tuple", "AssertionError", "CancelledError"}
            assert k % 8 or isinstance(last, asyncio.CancelledError) or "steps" in str(last)
            if k % (turns // 20) == 0:
                sizes.append(resident())

    async def main() -> None:
        async with Server(quick, w=W, max_queue=100_000) as server:
            numbers = iter(range(turns))
            await asyncio.gather(*(client(server, numbers) for _ in range(4)))
        metrics = server.metrics()
        assert metrics.requests == metrics.delivered + metrics.failed + metrics.withdrawn == 50 * turns
        assert 2 * min(metrics.failed, metrics.withdrawn) > 5 * turns

    asyncio.run(main())
    assert max(sizes[10:]) - max(sizes[:10]) < 1 << 23


def test_rounds_follow_one_another_until_someone_leaves_or_rings(alone: list[Any]) -> None:
    flow, shared = flow_of(64)
    join(flow, shared, start(0, 10), start(1, 30), start(2, -1), start(3, 30, bad=True))
    flow.bell[0] = 0
    for rounds, left, failed in ((11, 1, 0), (31, 2, 1)):
        gone = flow.round()
        assert (flow.rounds, len(gone), sum(g.error is not None for g in gone)) == (rounds, left, failed)
        assert all(g.member.rounds == rounds for g in gone)
    threading.Timer(0.05, flow.bell.__setitem__, (0, 1)).start()
    assert not flow.round() and flow.rounds > 32  # the bell
    at = flow.rounds
    assert not flow.round() and flow.rounds == at + 1
    (member,) = flow._runs[next(iter(flow._runs))].values()
    flow.withdraw(member)
    assert not len(flow)


def test_runs_take_turns_round_by_round(alone: list[Any]) -> None:
    flow, shared = flow_of(64)
    join(flow, shared, start(2, 50))
    join(flow, {"w": pack({"w": W.T.copy()}).value["w"]}, start(2, 50))
    flow.bell[0] = 0
    flow.round()
    flow.round()
    assert flow.rounds == 2 and [run.rounds for run in flow._runs] == [1, 1]
