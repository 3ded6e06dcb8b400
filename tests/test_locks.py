"""Locks in forked children."""

from __future__ import annotations

import multiprocessing
import threading

from acronumba.locks import ForkLock

LOCK = ForkLock()


def _child_takes() -> bool:
    return _takes(LOCK)


def _takes(lock: ForkLock) -> bool:
    with lock, lock:
        return True


def test_a_lock_that_another_thread_holds_is_free_in_a_child() -> None:
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with LOCK:
            held.set()
            done.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        try:
            assert pool.apply_async(_child_takes).get(timeout=60)
        finally:
            done.set()
            thread.join()


def test_a_thread_that_forks_while_it_holds_a_lock_lets_go_of_it_in_both_processes() -> None:
    lock = ForkLock()
    with lock:
        context = multiprocessing.get_context("fork")
        child = context.Process(target=_lets_go, args=(lock,))
        child.start()
    child.join(60)
    assert child.exitcode == 0
    assert _takes(lock)


def _lets_go(lock: ForkLock) -> None:
    lock.__exit__(None, None, None)  # as the `with` above does where the child goes on in it
