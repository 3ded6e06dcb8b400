"""Models with `try`, each with the instances on which it is compared with its plain call."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

TRIED: list[tuple[Callable[..., Any], Sequence[Sequence[Any]], dict[str, Any]]] = []


def on(*columns: Sequence[Any], **shared: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function with the columns on which it runs."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        TRIED.append((f, columns, shared))
        return f

    return register


class Enough(Exception):
    pass


class Found(Enough):
    def __init__(self, value, depth):
        super().__init__("found")
        self.value = value
        self.depth = depth


class Other(Exception):
    pass


@dataclass
class Tree:
    v: int
    left: Tree | None = None
    right: Tree | None = None


ROOT = Tree(5, Tree(3, None, Tree(4)), Tree(8, Tree(6), None))
TREES = [ROOT, ROOT, ROOT, Tree(3, None, Tree(4))]


def search(t, x, d):
    if t is None:
        return 0
    if t.v == x:
        raise Found(t.v * 10, d)
    return search(t.left, x, d + 1) + search(t.right, x, d + 1) + 1


@on(TREES, [6, 9, 5, 4])
def returns_own(t: Tree, x: int):
    try:
        n = search(t, x, 0)
    except Found as e:
        return e.value, e.depth
    return -n, -1


@on(TREES, [6, 9, 5, 4])
def catches_base(t: Tree, x: int):
    try:
        n = search(t, x, 0)
    except Enough:
        return 7
    finally:
        x = 3
    return -n


@on([[1, 2, 3], [1, 5, 2], [2, 6, 3], [2, 7, 4], []], [2, 2, 0, 1, 3])
def leaves_by_finally(xs: list[int], d: int):
    out = []
    for x in xs:
        try:
            if x == 5:
                continue
            if x == 6:
                break
            if x == 7:
                return out
            out.append(10 // (x - d))
        except ZeroDivisionError:
            out.append(-1)
        else:
            out.append(100)
        finally:
            out.append(x)
    return out


@on([[0, 1], [0, 9, 1], [9, 1], [3, 0, 2]], [1, 1, 9, 2])
def raises_again(xs: list[int], k: int):
    t = 0
    try:
        for x in xs:
            try:
                t += xs[x]
            except IndexError:
                t += 1000
                if x == k:
                    raise ValueError("no") from None
                if x == k + 1:
                    raise
    except ValueError:
        return t, "value"
    except IndexError:
        return t, "index"
    return t, "fine"


@on(["a", "zzz", "b"], d={"a": 1, "b": 2})
def reads_the_key(w: str, *, d: dict):
    try:
        return d[w]
    except KeyError as e:
        return len(e.args[0])


@on([1, -1, 5])
def text_of_own(x: int):
    try:
        if x < 0:
            raise ValueError("negative")
        if x > 3:
            raise Other("large")
    except (ValueError, Other) as e:
        return str(e)
    return "ok"


@on([[1, 2, 0], [5], [1, 2, 0], [0]], [1, 4, 2, 0])
def suppresses(xs: list[int], i: int):
    out = 0
    with contextlib.suppress(IndexError, ZeroDivisionError):
        out = xs[i]
        out = 10 // out
    return out


@on([4.0, -1.0])
def square_root(x: float):
    try:
        return math.sqrt(x)
    except ValueError:
        return -1.0


@on([4.0, 1000.0, 0.0, 10.0], [2.0, 1.0, -1.0, 400.0])
def too_large(x: float, y: float):
    try:
        return math.exp(x) + x**y
    except OverflowError:
        return -1.0
    except ZeroDivisionError:
        return -2.0


@on([np.array([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 3.0])], [0, 4])
def computed_index(x: np.ndarray, i: int):
    try:
        y = x * 2
        j = np.argmax(y) + i
        return x[j] + y
    except IndexError:
        return x + 1


@on([np.array([1.0, 2.0, 3.0]), np.array([1.0, 5.0, 3.0])], [np.array([0, 1]), np.array([2, 7])])
def array_of_indices(x: np.ndarray, idx: np.ndarray):
    try:
        return x[idx].sum()
    except IndexError:
        return x.sum() - 100


@on([[1, 2], [1], []])
def ends_iterator(xs: list[int]):
    it = iter(xs)
    try:
        a = next(it)
        b = next(it)
    except StopIteration:
        return -1
    return a + b


@on([1, 5])
def asserts(x: int):
    try:
        assert x > 3, "small"
        return x
    except AssertionError:
        return -x


@on([[1], [1, 2, 3, 4]])
def breaks_in_finally(xs: list[int]):
    while True:
        try:
            return xs[3]
        finally:
            if len(xs) < 4:
                break  # noqa: B012
    return -1


@on([0, 2])
def returns_in_finally(x: int):
    try:
        return 10 // x
    finally:
        if x == 0:
            return -5  # noqa: B012


@on([ROOT, Tree(1)])
def attribute_of_none(t: Tree):
    try:
        return t.left.v
    except AttributeError:
        return -1


def rec(n, xs):
    try:
        if n == 0:
            return xs[len(xs)]
        if n == 3:
            return 100 // xs[0] + rec(n - 1, xs)
        return rec(n - 1, xs)
    except ZeroDivisionError:
        return rec(n - 1, [1, *xs])
    except IndexError:
        if n < 2:
            raise
        return n


@on([0, 1, 2, 3, 4, 5], [[1], [2], [0], [0], [0, 2], [3]])
def in_recursion(n: int, xs: list[int]):
    try:
        return rec(n, xs)
    except LookupError:
        return -99


XS = [[1, 2], [3, -1], [-1, 3], [1, 2, 3], []]


def doubled(x):
    if x < 0:
        raise ValueError("neg")
    return x * 2


@on(XS)
def sums_before(xs: list[int]):
    t = 0
    try:
        for x in map(doubled, xs):
            t += x
    except ValueError:
        pass
    return t


@on(XS)
def sum_of_map(xs: list[int]):
    try:
        return sum(map(doubled, xs))
    except ValueError:
        return -1


@on(XS)
def unpacks_map(xs: list[int]):
    try:
        a, b = map(doubled, xs)
        return a * 10 + b
    except ValueError:
        return -1


@on(XS)
def extends_until(xs: list[int]):
    out = []
    try:
        out.extend(doubled(x) for x in xs)
    except ValueError:
        out.append(-1)
    return out


@on(XS)
def sorts_map(xs: list[int]):
    try:
        ys = list(map(doubled, xs))
        zs = sorted(map(doubled, ys))
        return ys + zs
    except ValueError:
        return []


@on(XS)
def unpacks_generator(xs: list[int]):
    try:
        a, b = (doubled(x) for x in xs)
        return a * 10 + b
    except ValueError:
        return -1


@on(XS)
def generator_from_outside(xs: list[int]):
    m = (doubled(x) for x in xs)
    try:
        return sum(m)
    except ValueError:
        return -1


@on(XS)
def comprehension(xs: list[int]):
    try:
        return [doubled(x) for x in xs if doubled(x) < 100]
    except ValueError:
        return []


def gen(xs):
    for x in xs:
        try:
            y = 10 // x
        except ZeroDivisionError:
            yield -1
            continue
        yield y


@on([[1, 0, 5], [-5, 2], [0, 0, 0]])
def generator_that_tries(xs: list[int]):
    t = 0
    for y in gen(xs):
        try:
            t += 100 // (y + 1)
        except ZeroDivisionError:
            t += 1000
    return t


@on(XS)
def stops_early(xs: list[int]):
    try:
        return any(map(doubled, xs))
    except ValueError:
        return None


@on(XS)
def unbound_after(xs: list[int]):
    for i in range(3):
        try:
            y = xs[i]
        except IndexError:
            if i == 2:
                break
            continue
    else:
        return 5
    try:
        return y
    except UnboundLocalError:
        return -7


@on(XS)
def collects_texts(xs: list[int]):
    errs = []
    for x in xs:
        try:
            doubled(x)
        except ValueError as e:
            errs.append(str(e))
    return errs


TEXTS = [
    "12",
    "-7",
    "  +5 ",
    "1_000",
    "x",
    "",
    "1.5",
    "1e5",
    "nan",
    "-Infinity",
    "3.30000000000000004",
    "1e-320",
    "1__0",
]


@on(TEXTS)
def int_of_text(s: str):
    try:
        return int(s)
    except ValueError:
        return -1


@on(TEXTS)
def float_of_text(s: str):
    return float(s)


@on(["1,2,x,3.7", "nan,inf,1e400,5", ""])
def numbers_in_text(s: str):
    out = []
    for w in s.split(","):
        try:
            out.append(int(w))
        except ValueError:
            try:
                out.append(int(float(w)))
            except (ValueError, OverflowError):
                out.append(-99)
    return out


@on(["3,4", "3", "a,b", "1,2,3"])
def unpacks_text(s: str):
    try:
        a, b = map(int, s.split(","))
    except ValueError:
        return 0
    return a * b


class Inverse(Exception):
    def __init__(self, n, log):
        log.append(10 // n)
        super().__init__(n)


def checked(n: int):
    if n > 2:
        raise ValueError("n is " + n)
    assert n > 1, "n is " + n
    return n


@on([3, 2, 1])
def mistaken_messages(n: int):
    found = []
    try:
        checked(n)
    except TypeError:
        found.append("a text and a number")
    try:
        assert n > 1, n.name
    except (AttributeError, AssertionError) as e:
        found.append(type(e).__name__)
    x = None if n > 2 else n
    try:
        raise KeyError(x + 1)
    except (TypeError, KeyError) as e:
        found.append(type(e).__name__)
    return found


@on([2, 0])
def constructors_that_fail(n: int):
    log = []
    try:
        try:
            raise Inverse(n, log)
        except ZeroDivisionError:
            log.append(-1)
    except Exception:
        log.append(-2)
    return log


@on([2, 0])
def causes_that_fail(n: int):
    log = []
    try:
        raise ValueError("x") from Inverse(n, log)
    except ZeroDivisionError:
        log.append(-1)
    except ValueError as e:
        try:
            raise e from Inverse(n - 2, log)
        except ZeroDivisionError:
            log.append(-2)
    return log


@on([1, 0])
def inverse_is_not_caught(n: int):
    try:
        raise Inverse(n, [])
    except ZeroDivisionError:
        return -1


class Shown:
    def __init__(self, n):
        self.n = n

    def __str__(self):
        return str(10 // self.n)

    @property
    def inverse(self):
        return 7 // (self.n - 1)


@on([0, 1, 2, 5])
def calm_arguments_that_fail(n: int):
    shown = Shown(n)
    try:
        if n < 2:
            raise ValueError(f"bad: {shown}", shown.inverse)
        if n < 5:
            raise KeyError(n < "a")
        raise KeyError(n)
    except ZeroDivisionError:
        return 1
    except TypeError:
        return 2


class Logged(Exception):
    def __init__(self, log, n):
        log.append(n)


@on([0, 1, 2, 3, 4, 5])
def causes_of_any_kind(n: int):
    log = [n]
    try:
        try:
            if n == 0:
                raise Logged(log, 3) from Logged(log, 5)
            if n == 1:
                raise ValueError from Logged  # which needs arguments
            if n == 2:
                raise ValueError("n") from n
            e = KeyError(n)
            if n == 3:
                raise e from Logged(log, log.pop())
            raise KeyError from None if n == 4 else e
        except KeyError as error:
            raise Logged(log, 8) from error
    except (Logged, ValueError):
        log.append(-1)
    except TypeError:
        log.append(-2)
    return log


@on([1, 9])
def mistaken_generators(n: int):
    def items():
        for i in range(3):
            if i == n:
                raise IndexError("item " + i)
            yield i
        yield n.real if n == 9 else n.name

    try:
        return sum(items())
    except (TypeError, AttributeError) as e:
        return type(e).__name__
