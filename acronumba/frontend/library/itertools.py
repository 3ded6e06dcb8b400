"""`itertools` in the compiled language. Iterators are generators: they compute an item when it is asked for."""

from __future__ import annotations

import itertools

from acronumba.frontend.library.decorators import ROLLED, implements, rejected


@implements(itertools.chain, iterator=True, rearranges=True)
def chain(*iterables):
    for part in iterables:
        yield from part


@implements(vars(itertools.chain)["from_iterable"], iterator=True)
def from_iterable(iterable):
    for part in iterable:
        yield from part


@implements(itertools.accumulate, iterator=True)
def accumulate(iterable, func=None, *, initial=None):
    started = initial is not None
    if started:
        total = initial
        yield total
    for x in iterable:
        if started:
            total = total + x if func is None else func(total, x)
        else:
            total = x
            started = True
        yield total


@implements(itertools.pairwise, iterator=True, rearranges=True)
def pairwise(iterable):
    started = False
    for x in iterable:
        if started:
            yield before, x  # noqa: F821
        before = x  # noqa: F841
        started = True


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
    for bound in bounds:
        if bound is not None and bound < 0:
            raise ValueError("the bounds of islice must be None or not negative")
    if len(bounds) == 1:
        return sliced_on(iterable, 0, 1) if bounds[0] is None else sliced(iterable, 0, bounds[0], 1)
    start = 0 if bounds[0] is None else bounds[0]
    step = 1 if len(bounds) == 2 or bounds[2] is None else bounds[2]
    if step == 0:
        raise ValueError("the step of islice must be None or positive")
    return sliced_on(iterable, start, step) if bounds[1] is None else sliced(iterable, start, bounds[1], step)


def sliced_on(iterable, start, step):
    k = 0
    for x in iterable:
        if k >= start and (k - start) % step == 0:
            yield x
        k += 1  # noqa: SIM113


def sliced(iterable, start, stop, step):
    k = 0
    if max(start, stop) > 0:  # so many items are asked for
        for x in iterable:
            if start <= k < stop and (k - start) % step == 0:
                yield x
            k += 1
            if k >= start and k >= stop:
                break


@implements(itertools.repeat, iterator=True)
def repeat(object, times=None):
    if times is None:
        return itertools.cycle([object])
    return repeated(object, times)


def repeated(object, times):
    for _ in range(times):
        yield object


def count_by(start, step):
    """Yield numbers without end, of which one may be a float."""
    while True:
        yield start
        start = start + step


@implements(itertools.groupby, iterator=True)
def groupby(iterable, key=None):
    return groups(iter(iterable), key)


def groups(iterator, key):
    ahead, keys = [], []  # the next item, if there is one, and its key
    look_ahead(iterator, key, ahead, keys)
    while len(ahead) > 0:
        k = keys[0]
        yield k, group(iterator, key, ahead, keys, k)
        if len(ahead) == 0:  # the group has read the last item; Python asks for another one nevertheless
            look_ahead(iterator, key, ahead, keys)
        while len(ahead) > 0 and keys[0] == k:
            look_ahead(iterator, key, ahead, keys)


def group(iterator, key, ahead, keys, k):
    while len(ahead) > 0 and keys[0] == k:
        yield ahead[0]
        look_ahead(iterator, key, ahead, keys)


def look_ahead(iterator, key, ahead, keys):
    ahead.clear()
    keys.clear()
    for x in iterator:
        ahead.append(x)
        keys.append(x if key is None else key(x))
        break


@implements(itertools.product, iterator=True, rearranges=True)
def product(*iterables, repeat=1):
    return from_pools(*tuple([list(x) for x in iterables]) * repeat)


def from_pools(*pools):
    if len(pools) == 0:
        yield ()
    elif len(pools) == 1:
        for x in pools[0]:
            yield (x,)
    elif len(pools) == 2:
        for x in pools[0]:
            for y in pools[1]:
                yield x, y
    else:
        for x in pools[0]:
            for rest in rest_of_product(*pools[1:]):
                yield x, *rest


def rest_of_product(*pools):
    if len(pools) == 2:
        return [(x, y) for x in pools[0] for y in pools[1]]
    return [(x, *rest) for x in pools[0] for rest in rest_of_product(*pools[1:])]


@implements(itertools.combinations, iterator=True, rearranges=True)
def combinations(iterable, r):
    items = list(iterable)
    if r < 0:
        raise ValueError("r must be non-negative")
    return chosen(items, r, rest_of_combinations)


def chosen(items, r, rest_of):
    """Yield tuples of `r` items: those that begin with an item and go on with the others that `rest_of` returns."""
    if r == 0:
        yield ()
    elif r == 1:
        for x in items:
            yield (x,)
    else:
        for i in range(len(items)):
            for rest in rest_of(items, i, r - 1):
                yield items[i], *rest


def rest_of_combinations(items, i, r):
    if r == 1:
        return [(x,) for x in items[i + 1 :]]
    return [(items[j], *rest) for j in range(i + 1, len(items)) for rest in rest_of_combinations(items, j, r - 1)]


@implements(itertools.combinations_with_replacement, iterator=True, rearranges=True)
def combinations_with_replacement(iterable, r):
    items = list(iterable)
    if r < 0:
        raise ValueError("r must be non-negative")
    return chosen(items, r, rest_with_replacement)


def rest_with_replacement(items, i, r):
    if r == 1:
        return [(x,) for x in items[i:]]
    return [(items[j], *rest) for j in range(i, len(items)) for rest in rest_with_replacement(items, j, r - 1)]


@implements(itertools.permutations, iterator=True, rearranges=True)
def permutations(iterable, r=None):
    items = list(iterable)
    if r < 0:
        raise ValueError("r must be non-negative")
    return chosen(items, r, rest_of_permutations)


def rest_of_permutations(items, i, r):
    others = items[:i] + items[i + 1 :]
    if r == 1:
        return [(x,) for x in others]
    return [(others[j], *rest) for j in range(len(others)) for rest in rest_of_permutations(others, j, r - 1)]


def rolled_product(*iterables, repeat):
    if repeat < 0:
        raise ValueError("repeat argument cannot be negative")
    pools = [list(x) for x in iterables]
    return all_products(pools, repeat)


def all_products(pools, repeat):
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
    if r < 0:
        raise ValueError("r must be non-negative")
    return all_combinations(items, r)


def all_combinations(items, r):
    n = len(items)
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
    if r < 0:
        raise ValueError("r must be non-negative")
    return all_combinations_with_replacement(items, r)


def all_combinations_with_replacement(items, r):
    n = len(items)
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
    length = len(items) if r is None else r
    if length < 0:
        raise ValueError("r must be non-negative")
    return all_permutations(items, length)


def all_permutations(items, length):
    n = len(items)
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
    for x in iterable:
        if not predicate(x):
            break
        yield x


@implements(itertools.dropwhile, iterator=True)
def dropwhile(predicate, iterable):
    dropping = True
    for x in iterable:
        if dropping and predicate(x):
            continue
        dropping = False
        yield x


@implements(itertools.starmap, iterator=True)
def starmap(function, iterable):
    for args in iterable:
        yield function(*args)


@implements(itertools.filterfalse, iterator=True)
def filterfalse(function, iterable):
    for x in iterable:
        if not (x if function is None else function(x)):
            yield x


@implements(itertools.compress, iterator=True)
def compress(data, selectors):
    return selected(zip(data, selectors, strict=False))


def selected(pairs):
    for x, s in pairs:
        if s:
            yield x
