"""`itertools` in the compiled language. An iterator is the list of its elements, consumed once."""

from __future__ import annotations

import itertools

from acronumba.frontend.library.decorators import ROLLED, implements, rejected


@implements(itertools.chain, iterator=True, rearranges=True)
def chain(*iterables):
    out = []
    for part in iterables:
        for x in part:
            out.append(x)
    return out


@implements(vars(itertools.chain)["from_iterable"], iterator=True)
def from_iterable(iterable):
    return [x for part in iterable for x in part]


@implements(itertools.product, iterator=True, rearranges=True)
def product(*iterables, repeat=1):
    parts = iterables * repeat
    if len(parts) == 0:
        return [()]
    if len(parts) == 1:
        return [(x,) for x in parts[0]]
    if len(parts) == 2:
        return [(x, y) for x in parts[0] for y in parts[1]]
    return [(x, *rest) for x in parts[0] for rest in product(*parts[1:])]


@implements(itertools.accumulate, iterator=True)
def accumulate(iterable, func=None, *, initial=None):
    items = list(iterable)
    out = []
    if initial is None:
        if len(items) == 0:
            return out
        total = items[0]
        rest = items[1:]
    else:
        total = initial
        rest = items
    out.append(total)
    for x in rest:
        total = total + x if func is None else func(total, x)
        out.append(total)
    return out


@implements(itertools.pairwise, iterator=True, rearranges=True)
def pairwise(iterable):
    items = list(iterable)
    return list(zip(items, items[1:], strict=False))


@implements(itertools.zip_longest, iterator=True, rearranges=True)
def zip_longest(*iterables, fillvalue=None):
    if len(iterables) != 2:
        rejected("itertools.zip_longest of other than two iterables of run-time length", "zip, in a loop")
    left, right = list(iterables[0]), list(iterables[1])
    out = []
    for k in range(max(len(left), len(right))):
        x = left[k] if k < len(left) else fillvalue
        y = right[k] if k < len(right) else fillvalue
        out.append((x, y))
    return out


@implements(itertools.islice, iterator=True, rearranges=True)
def islice(iterable, *bounds):
    items = list(iterable)
    for bound in bounds:
        if bound is not None and bound < 0:
            raise ValueError("the bounds of islice must be None or not negative")
    if len(bounds) == 1:
        return items[: bounds[0]]
    if len(bounds) == 2:
        return items[bounds[0] : bounds[1]]
    return items[bounds[0] : bounds[1] : bounds[2]]


@implements(itertools.repeat, iterator=True)
def repeat(object, times=None):
    if times is None:
        return itertools.cycle([object])
    return [object for _ in range(times)]


def count_by(start, step):
    """Yield numbers without end, of which one may be a float."""
    while True:
        yield start
        start = start + step


@implements(itertools.groupby, iterator=True)
def groupby(iterable, key=None):
    out = []
    for x in iterable:
        k = x if key is None else key(x)
        if len(out) > 0 and out[-1][0] == k:
            out[-1][1].append(x)
        else:
            out.append((k, [x]))
    return out


@implements(itertools.combinations, iterator=True, rearranges=True)
def combinations(iterable, r):
    items = list(iterable)
    if r < 0:
        raise ValueError("r must be non-negative")
    if r == 0:
        return [()]
    if r == 1:
        return [(x,) for x in items]
    if r == 2:
        return [(items[i], items[j]) for i in range(len(items)) for j in range(i + 1, len(items))]
    return [(items[i], *rest) for i in range(len(items)) for rest in combinations(items[i + 1 :], r - 1)]


@implements(itertools.combinations_with_replacement, iterator=True, rearranges=True)
def combinations_with_replacement(iterable, r):
    items = list(iterable)
    if r < 0:
        raise ValueError("r must be non-negative")
    if r == 0:
        return [()]
    if r == 1:
        return [(x,) for x in items]
    return [(items[i], *rest) for i in range(len(items)) for rest in combinations_with_replacement(items[i:], r - 1)]


@implements(itertools.permutations, iterator=True, rearranges=True)
def permutations(iterable, r=None):
    items = list(iterable)
    if r < 0:
        raise ValueError("r must be non-negative")
    if r == 0:
        return [()]
    if r == 1:
        return [(x,) for x in items]
    return [(items[i], *part) for i in range(len(items)) for part in permutations(items[:i] + items[i + 1 :], r - 1)]


def rolled_product(*iterables, repeat):
    if repeat < 0:
        raise ValueError("repeat argument cannot be negative")
    pools = [list(x) for x in iterables]
    length = len(pools) * repeat
    if length == 0 or all(len(pool) > 0 for pool in pools):
        places = [0] * length
        i = 0
        while i >= 0:
            yield tuple([pools[k % len(pools)][places[k]] for k in range(length)])
            i = length - 1
            while i >= 0:
                places[i] += 1
                if places[i] < len(pools[i % len(pools)]):
                    break
                places[i] = 0
                i -= 1


def rolled_combinations(iterable, r):
    items = list(iterable)
    n = len(items)
    if r < 0:
        raise ValueError("r must be non-negative")
    if r <= n:
        places = list(range(r))
        i = 0
        while i >= 0:
            yield tuple([items[k] for k in places])
            i = r - 1
            while i >= 0 and places[i] == i + n - r:
                i -= 1
            if i >= 0:
                places[i] += 1
                for j in range(i + 1, r):
                    places[j] = places[j - 1] + 1


def rolled_combinations_with_replacement(iterable, r):
    items = list(iterable)
    n = len(items)
    if r < 0:
        raise ValueError("r must be non-negative")
    if n > 0 or r == 0:
        places = [0] * r
        i = 0
        while i >= 0:
            yield tuple([items[k] for k in places])
            i = r - 1
            while i >= 0 and places[i] == n - 1:
                i -= 1
            if i >= 0:
                places[i:] = [places[i] + 1] * (r - i)


def rolled_permutations(iterable, r=None):
    items = list(iterable)
    n = len(items)
    length = n if r is None else r
    if length < 0:
        raise ValueError("r must be non-negative")
    if length <= n:
        places = list(range(n))
        left = list(range(n, n - length, -1))  # how many places are to come, at each position
        i = 0
        while i >= 0:
            yield tuple([items[k] for k in places[:length]])
            i = length - 1
            while i >= 0:
                left[i] -= 1
                if left[i] > 0:
                    break
                places.append(places.pop(i))
                left[i] = n - i
                i -= 1
            if i >= 0:
                j = n - left[i]
                places[i], places[j] = places[j], places[i]


ROLLED |= {
    product: rolled_product,
    combinations: rolled_combinations,
    combinations_with_replacement: rolled_combinations_with_replacement,
    permutations: rolled_permutations,
}


@implements(itertools.takewhile, iterator=True)
def takewhile(predicate, iterable):
    out = []
    for x in iterable:
        if not predicate(x):
            break
        out.append(x)
    return out


@implements(itertools.dropwhile, iterator=True)
def dropwhile(predicate, iterable):
    out = []
    dropping = True
    for x in iterable:
        if dropping and predicate(x):
            continue
        dropping = False
        out.append(x)
    return out


@implements(itertools.starmap, iterator=True)
def starmap(function, iterable):
    return [function(*args) for args in iterable]


@implements(itertools.filterfalse, iterator=True)
def filterfalse(function, iterable):
    if function is None:
        return [x for x in iterable if not x]
    return [x for x in iterable if not function(x)]


@implements(itertools.compress, iterator=True)
def compress(data, selectors):
    return [x for x, s in zip(data, selectors, strict=False) if s]
