"""What becomes of requests, with a clock that the test moves: each ends exactly once, whatever happens when."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acronumba.serve.request_queue import (
    ENDED,
    DeadlineExceeded,
    Outcome,
    Overloaded,
    Request,
    RequestQueue,
    ServerClosed,
)


def request(k: int = 0) -> Request:
    return Request((k,), None)


def admitted(desk: RequestQueue, count: int, now: float = 0.0, **options: Any) -> list[Request]:
    out = [request(k) for k in range(count)]
    for r in out:
        desk.admit(r, now, **options)
    return out


def done(desk: RequestQueue, requests: list[Request], error: Exception | None = None) -> list[Outcome]:
    return desk.finish(requests, [(None, error) for _ in requests])


def test_first_come_first_taken() -> None:
    desk = RequestQueue(max_batch=3, max_wait=0.0, max_queue=10)
    requests = admitted(desk, 5)
    assert desk.take(0.0) == requests[:3]
    assert desk.take(0.0) == []
    assert len(done(desk, requests[:3])) == 3
    assert desk.take(0.0) == requests[3:]
    assert desk.due(0.0) is None


def test_requests_join_what_runs_where_a_quarter_of_the_slots_is_free() -> None:
    desk = RequestQueue(max_batch=16, max_wait=5.0, max_queue=99)
    requests = admitted(desk, 20)
    assert desk.take(0.0) == requests[:16]
    assert desk.due(0.0) is None
    done(desk, requests[:3])
    assert desk.due(0.0) is None
    assert desk.withdraw(requests[3])
    assert desk.due(0.0) == 0.0  # nobody waits for others while something runs
    assert desk.take(0.0) == requests[16:20]
    assert desk.running == 16
    done(desk, requests[4:20])
    admitted(desk, 1)
    assert desk.due(0.0) == 5.0


def test_a_request_waits_for_others_at_most_so_long() -> None:
    desk = RequestQueue(max_batch=2, max_wait=0.5, max_queue=10)
    admitted(desk, 1, 1.0)
    assert desk.due(1.0) == 0.5
    assert desk.due(1.4) == pytest.approx(0.1)
    assert desk.due(2.0) == 0.0
    admitted(desk, 1, 1.0)
    assert desk.due(1.0) == 0.0


def test_there_is_an_end_to_the_queue() -> None:
    desk = RequestQueue(max_batch=2, max_wait=0.0, max_queue=3)
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
    desk = RequestQueue(max_batch=1, max_wait=0.0, max_queue=9)
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
    desk = RequestQueue(max_batch=2, max_wait=0.0, max_queue=9)
    a, b = admitted(desk, 2)
    desk.take(0.0)
    assert desk.withdraw(a)
    assert not desk.withdraw(a)
    assert [o.request for o in done(desk, [a, b])] == [b]


def test_closing() -> None:
    desk = RequestQueue(max_batch=1, max_wait=5.0, max_queue=9)
    a, b = admitted(desk, 2)
    assert desk.take(0.0) == [a]
    assert desk.close(drain=True) == []
    assert desk.due(0.0) is None
    with pytest.raises(ServerClosed):
        desk.admit(request(), 0.0)
    assert [o.request for o in desk.close(drain=False)] == [b]
    assert [o.request for o in done(desk, [a])] == [a]
    assert desk.idle


def test_closing_waits_for_no_others() -> None:
    desk = RequestQueue(max_batch=2, max_wait=5.0, max_queue=9)
    admitted(desk, 1)
    assert desk.due(0.0) == 5.0
    desk.close(drain=True)
    assert desk.due(0.0) == 0.0


def test_what_has_ended_is_not_held() -> None:
    desk = RequestQueue(max_batch=1, max_wait=0.0, max_queue=9)
    for k in range(1000):
        (r,) = admitted(desk, 1, now=float(k), deadline=1e9)
        done(desk, desk.take(float(k)))
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
    desk, now = RequestQueue(max_batch=batch, max_wait=0.25, max_queue=queue), 0.0
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


SLOTS = st.one_of(
    st.tuples(st.just("admit"), st.sampled_from([None, 0.5])),
    st.tuples(st.just("withdraw"), st.integers(0, 40)),
    st.tuples(st.just("round"), st.sets(st.integers(0, 15))),
    st.tuples(st.just("pass"), st.floats(0.0, 1.0)),
    st.tuples(st.just("close"), st.booleans()),
)


@given(st.lists(SLOTS, max_size=80), st.integers(1, 16))
def test_slots_are_given_to_those_that_came_first(events: list[Any], slots: int) -> None:
    desk, now = RequestQueue(max_batch=slots, max_wait=0.0, max_queue=50), 0.0
    made: list[Request] = []
    ended: list[int] = []
    there: list[Request] = []
    begun: list[int] = []
    for event in [*events, ("close", True), *[("round", set(range(16)))] * (len(events) + 1)]:
        match event:
            case ("admit", deadline) if not desk.closed:
                made.append(r := request(len(made)))
                try:
                    desk.admit(r, now, deadline)
                except Overloaded:
                    ended.append(r.number)
            case ("withdraw", k) if k < len(made) and desk.withdraw(made[k]):
                ended.append(made[k].number)
            case ("round", leave):
                there = [r for r in there if r.state != ENDED]  # those withdrawn make room
                if desk.due(now) == 0:
                    joined = desk.take(now)
                    begun += [r.number for r in joined]
                    there += joined
                assert len(there) == desk.running <= slots
                some = [r for k, r in enumerate(there) if k in leave]
                ended += [o.request.number for o in done(desk, some)]
            case ("pass", seconds):
                now += seconds
                ended += [o.request.number for o in desk.expire(now)]
            case ("close", drain):
                ended += [o.request.number for o in desk.close(drain)]
    assert desk.idle
    assert begun == sorted(begun)
    assert sorted(ended) == [r.number for r in made]
