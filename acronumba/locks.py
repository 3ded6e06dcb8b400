"""Locks and lazy attributes for threads and forked children.

A forked child has one thread. A lock that another thread of the parent held would never be released in it, so the locks
made here are free in a child. The locks of other code (of modules that are being imported, of Numba and LLVM) are held
only within blocks of `undivided`: a fork waits until these end. `lazy` is `functools.cached_property` without its lock,
which up to Python 3.11 is shared by all objects of a class and is taken before any lock of the object.
"""

from __future__ import annotations

import logging  # noqa: F401 - first: its hook must not hold its lock while ours waits for threads that want it
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar, overload

T = TypeVar("T")


class ForkLock:
    """A reentrant lock that is free in a forked child."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _LOCKS.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def renew(self) -> None:
        """Make the lock free after a fork, unless the calling thread, which forked, holds it."""
        if self._lock.acquire(blocking=False):
            self._lock.release()
        else:
            self._lock = threading.RLock()


_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()


class _Undivided:
    """Context manager that makes forks by other threads wait; several threads may be inside, each several times."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._forking: int | None = None  # the thread that forks now, and holds the lock
        self._inside: dict[int, int] = {}  # by thread: how often

    def __enter__(self) -> None:
        me = threading.get_ident()
        with self._change:
            self._inside[me] = self._inside.get(me, 0) + 1

    def __exit__(self, *_: object) -> None:
        me = threading.get_ident()
        with self._change:
            self._inside[me] -= 1
            if not self._inside[me]:
                del self._inside[me]
                self._change.notify_all()

    def before_fork(self) -> None:
        """Wait until no other thread is inside, for at most a minute, and keep others out."""
        me = threading.get_ident()
        self._change.acquire()
        try:
            self._change.wait_for(lambda: not self._inside.keys() - {me}, timeout=60)
        except BaseException:
            self._change.release()
            raise
        self._forking = me

    def after_fork(self) -> None:
        """Admit other threads again."""
        if self._forking == threading.get_ident():
            self._forking = None
            self._change.release()

    def renew(self) -> None:
        """Forget the threads that a child does not have."""
        me = threading.get_ident()
        self._change, self._forking = threading.Condition(), None
        self._inside = {me: self._inside[me]} if me in self._inside else {}


undivided: _Undivided = _Undivided()


def _after_fork() -> None:
    undivided.renew()
    for lock in _LOCKS:
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=undivided.before_fork, after_in_parent=undivided.after_fork, after_in_child=_after_fork)


class lazy(Generic[T]):
    """A lazy attribute. Two threads may compute it at once; the first value stays."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> lazy[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> lazy[T] | T:
        if instance is None:
            return self
        with undivided:
            found: T = instance.__dict__.setdefault(self._name, self._make(instance))
        return found
