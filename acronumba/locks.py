"""Locks and lazy attributes for threads and forked children.

A forked child has one thread. A lock that another thread of the parent held would never be released in it, so the
locks made here are free in a child. `lazy` is `functools.cached_property` without its lock, which up to Python 3.11
is one for all objects of a class and is taken before any lock of the object's own.
"""

from __future__ import annotations

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
        """Forget who holds the lock."""
        self._lock = threading.RLock()


_LOCKS: weakref.WeakSet[ForkLock] = weakref.WeakSet()


def _after_fork() -> None:
    for lock in _LOCKS:
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class lazy(Generic[T]):
    """An attribute that is made when it is first read. Two threads may make it at once; the first one's stays."""

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
        found: T = instance.__dict__.setdefault(self._name, self._make(instance))
        return found
