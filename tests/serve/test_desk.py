"""What becomes of requests, with a clock that the test moves: each ends exactly once, whatever happens when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acronumba.serve.desk import DeadlineExceeded, Desk, Outcome, Overloaded, Request, ServerClosed


def request(k: int = 0) -> Request:
    return Request((k,), None)


def admitted(desk: Desk, count: int, now: float = 0.0, **options: Any) -> list[Request]:
    out = [request(k) for k in range(count)]
    for r in out:
        desk.admit(r, now, **options)
    return out


def done(desk: Desk, requests: list[Request], error: Exception | None = None) -> list[Outcome]:
    return desk.finish(requests, [(None, error) for _ in requests], 1.0)


def test_first_come_first_taken() -> None:
    desk = Desk(max_batch=3, max_wait=0.0, max_queue=10)
    requests = admitted(desk, 5)
    assert desk.take(0.0) == requests[:3]
    assert desk.take(0.0) == requests[3:]
    assert desk.due(0.0) is None


def test_a_request_waits_for_others_at_most_so_long() -> None:
    desk = Desk(max_batch=2, max_wait=0.5, max_queue=10)
    admitted(desk, 1, 1.0)
    assert desk.due(1.0) == 0.5
    assert desk.due(1.4) == pytest.approx(0.1)
    assert desk.due(2.0) == 0.0
    admitted(desk, 1, 1.0)
    assert desk.due(1.0) == 0.0


def test_there_is_an_end_to_the_queue() -> None:
    desk = Desk(max_batch=2, max_wait=0.0, max_queue=3)
    first = admitted(desk, 3)[0]
    with pytest.raises(Overloaded):
        desk.admit(request(), 0.0)
    desk.admit(request(), 0.0, wait=True)
    assert desk.withdraw(first)
    with pytest.raises(Overloaded):
        desk.admit(request(), 0.0)
    desk.take(0.0)
    desk.admit(request(), 0.0)
    assert desk.metrics().rejected == 2


def test_a_deadline_ends_what_waits_and_what_runs() -> None:
    desk = Desk(max_batch=1, max_wait=0.0, max_queue=9)
    a, b = admitted(desk, 2, deadline=1.0)
    (running,) = desk.take(0.0)
    assert desk.next_deadline == 1.0
    assert not desk.expire(0.9)
    ended = desk.expire(1.0)
    assert [o.request for o in ended] == [a, b]
    assert all(isinstance(o.error, DeadlineExceeded) for o in ended)
    assert done(desk, [running]) == []
    assert desk.metrics().expired == 2


def test_what_is_withdrawn_while_it_runs_is_delivered_to_nobody() -> None:
    desk = Desk(max_batch=2, max_wait=0.0, max_queue=9)
    a, b = admitted(desk, 2)
    desk.take(0.0)
    assert desk.withdraw(a)
    assert not desk.withdraw(a)
    assert [o.request for o in done(desk, [a, b])] == [b]


def test_closing() -> None:
    desk = Desk(max_batch=1, max_wait=5.0, max_queue=9)
    a, b = admitted(desk, 2)
    assert desk.take(0.0) == [a]
    assert desk.close(drain=True) == []
    assert desk.due(0.0) == 0.0
    with pytest.raises(ServerClosed):
        desk.admit(request(), 0.0)
    assert [o.request for o in desk.close(drain=False)] == [b]
    assert [o.request for o in done(desk, [a])] == [a]
    assert desk.idle


def test_what_has_ended_is_not_held() -> None:
    desk = Desk(max_batch=1, max_wait=0.0, max_queue=9)
    for k in range(1000):
        (r,) = admitted(desk, 1, now=float(k), deadline=1e9)
        done(desk, desk.take(float(k)))
        desk.expire(float(k))
        assert r.instance == ()
    assert len(desk._deadlines) < 100


EVENTS = st.one_of(
    st.tuples(st.just("admit"), st.sampled_from([None, 0.0, 0.5, 2.0]), st.booleans()),
    st.tuples(st.just("withdraw"), st.integers(0, 30)),
    st.tuples(st.just("take")),
    st.tuples(st.just("finish"), st.booleans()),
    st.tuples(st.just("pass"), st.floats(0.0, 1.0)),
    st.tuples(st.just("close"), st.booleans()),
)


@given(st.lists(EVENTS, max_size=60), st.integers(1, 4), st.integers(1, 5))
def test_every_request_ends_exactly_once(events: list[Any], batch: int, queue: int) -> None:
    desk, now = Desk(max_batch=batch, max_wait=0.25, max_queue=queue), 0.0
    made: list[Request] = []
    ends: dict[int, list[str]] = {}
    runs: list[list[Request]] = []

    def end(outcomes: list[Outcome], how: str) -> None:
        for o in outcomes:
            ends[id(o.request)].append(how)

    for event in [*events, ("close", True), *[("take",), ("finish", False)] * (len(events) + 1)]:
        match event:
            case ("admit", deadline, wait):
                made.append(r := request(len(made)))
                ends[id(r)] = []
                try:
                    desk.admit(r, now, deadline, wait)
                except (Overloaded, ServerClosed) as error:
                    ends[id(r)].append(type(error).__name__)
            case ("withdraw", k) if k < len(made):
                if desk.withdraw(made[k]):
                    ends[id(made[k])].append("withdrawn")
            case ("take",) if not runs and desk.due(now) == 0:  # one mini-batch at a time
                runs.append(desk.take(now))
                assert 0 < len(runs[0]) <= batch
                numbers = [r.number for r in runs[0]]
                assert numbers == sorted(numbers)
            case ("finish", fails) if runs:
                end(done(desk, runs.pop(), ValueError() if fails else None), "finished")
            case ("pass", seconds):
                now += seconds
                end(desk.expire(now), "expired")
            case ("close", drain):
                end(desk.close(drain), "closed")
    assert desk.idle
    assert all(len(how) == 1 for how in ends.values())
    metrics = desk.metrics()
    assert metrics.requests == len(made)
    assert not metrics.queued and not metrics.running
