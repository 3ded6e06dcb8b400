"""`heapq` and `bisect` in the compiled language; elements are compared by `<` alone.

Heaps have the layout of CPython's, equal elements included: the same elements are compared in the same order.
"""

from __future__ import annotations

import bisect
import heapq

from acronumba.frontend.library.decorators import implements


def _to_leaf(heap, start):
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


def _to_root(heap, start, k):
    """Sift the element at `k` up while it is less than its parent, to `start` at most."""
    item = heap[k]
    while k > start:
        above = (k - 1) // 2
        if not item < heap[above]:
            break
        heap[k] = heap[above]
        k = above
    heap[k] = item


@implements(heapq.heappush)
def heappush(heap, item):
    heap.append(item)
    _to_root(heap, 0, len(heap) - 1)


@implements(heapq.heappop)
def heappop(heap):
    if len(heap) == 0:
        raise IndexError("index out of range")
    last = heap.pop()
    if len(heap) == 0:
        return last
    first = heap[0]
    heap[0] = last
    _to_leaf(heap, 0)
    return first


@implements(heapq.heapify)
def heapify(heap):
    for k in range(len(heap) // 2 - 1, -1, -1):
        _to_leaf(heap, k)


@implements(heapq.heapreplace)
def heapreplace(heap, item):
    if len(heap) == 0:
        raise IndexError("index out of range")
    first = heap[0]
    heap[0] = item
    _to_leaf(heap, 0)
    return first


@implements(heapq.heappushpop)
def heappushpop(heap, item):
    if len(heap) > 0 and heap[0] < item:
        first = heap[0]
        heap[0] = item
        _to_leaf(heap, 0)
        return first
    return item


@implements(heapq.nsmallest)
def nsmallest(n, iterable, key=None):
    out = sorted(iterable) if key is None else sorted(iterable, key=key)
    return out[: max(n, 0)]


@implements(heapq.nlargest)
def nlargest(n, iterable, key=None):
    out = sorted(iterable, reverse=True) if key is None else sorted(iterable, key=key, reverse=True)
    return out[: max(n, 0)]


@implements(bisect.bisect_left)
def bisect_left(a, x, lo=0, hi=None, *, key=None):
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


@implements(bisect.bisect_right)
def bisect_right(a, x, lo=0, hi=None, *, key=None):
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


@implements(bisect.insort_left)
def insort_left(a, x, lo=0, hi=None, *, key=None):
    a.insert(bisect_left(a, x if key is None else key(x), lo, hi, key=key), x)


@implements(bisect.insort_right)
def insort_right(a, x, lo=0, hi=None, *, key=None):
    a.insert(bisect_right(a, x if key is None else key(x), lo, hi, key=key), x)
