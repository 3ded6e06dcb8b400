"""`heapq` and `bisect` in the compiled language; elements are compared by `<` alone.

Heaps have the layout of CPython's, equal elements included: the same elements are compared in the same order.
"""

from __future__ import annotations

import bisect
import heapq
from typing import Any

from acronumba.frontend.calls.of_itertools import stands_for


def _to_leaf(heap: Any, start: Any) -> None:
    """Move the lesser children up on a path from `start` to a leaf, then sift the element of `start` up from there."""
    item = heap[start]
    n = len(heap)
    k = start
    child = 2 * k + 1
    while child < n:
        if child + 1 < n and not heap[child] < heap[child + 1]:
            child += 1
        heap[k] = heap[child]
        k = child
        child = 2 * k + 1
    heap[k] = item
    _to_root(heap, start, k)


def _to_root(heap: Any, start: Any, k: Any) -> None:
    """Sift the element at `k` up while it is less than its parent, to `start` at most."""
    item = heap[k]
    while k > start:
        above = (k - 1) // 2
        if not item < heap[above]:
            break
        heap[k] = heap[above]
        k = above
    heap[k] = item


@stands_for(heapq.heappush, iterator=False)
def heappush(heap: Any, item: Any) -> None:
    heap.append(item)
    _to_root(heap, 0, len(heap) - 1)


@stands_for(heapq.heappop, iterator=False)
def heappop(heap: Any) -> Any:
    if len(heap) == 0:
        raise IndexError("index out of range")
    last = heap.pop()
    if len(heap) == 0:
        return last
    first = heap[0]
    heap[0] = last
    _to_leaf(heap, 0)
    return first


@stands_for(heapq.heapify, iterator=False)
def heapify(heap: Any) -> None:
    for k in range(len(heap) // 2 - 1, -1, -1):
        _to_leaf(heap, k)


@stands_for(heapq.heapreplace, iterator=False)
def heapreplace(heap: Any, item: Any) -> Any:
    if len(heap) == 0:
        raise IndexError("index out of range")
    first = heap[0]
    heap[0] = item
    _to_leaf(heap, 0)
    return first


@stands_for(heapq.heappushpop, iterator=False)
def heappushpop(heap: Any, item: Any) -> Any:
    if len(heap) > 0 and heap[0] < item:
        first = heap[0]
        heap[0] = item
        _to_leaf(heap, 0)
        return first
    return item


@stands_for(heapq.nsmallest, iterator=False)
def nsmallest(n: Any, iterable: Any, key: Any = None) -> Any:
    out = sorted(iterable) if key is None else sorted(iterable, key=key)
    return out[: max(n, 0)]


@stands_for(heapq.nlargest, iterator=False)
def nlargest(n: Any, iterable: Any, key: Any = None) -> Any:
    out = sorted(iterable, reverse=True) if key is None else sorted(iterable, key=key, reverse=True)
    return out[: max(n, 0)]


@stands_for(bisect.bisect_left, iterator=False)
def bisect_left(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> Any:
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        mid = (lo + end) // 2
        less = a[mid] < x if key is None else key(a[mid]) < x
        if less:
            lo = mid + 1
        else:
            end = mid
    return lo


@stands_for(bisect.bisect_right, iterator=False)
def bisect_right(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> Any:
    if lo < 0:
        raise ValueError("lo must be non-negative")
    end = len(a) if hi is None else hi
    while lo < end:
        mid = (lo + end) // 2
        less = x < a[mid] if key is None else x < key(a[mid])
        if less:
            end = mid
        else:
            lo = mid + 1
    return lo


@stands_for(bisect.insort_left, iterator=False)
def insort_left(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


@stands_for(bisect.insort_right, iterator=False)
def insort_right(a: Any, x: Any, lo: Any = 0, hi: Any = None, *, key: Any = None) -> None:
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)
