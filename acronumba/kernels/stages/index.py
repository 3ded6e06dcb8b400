"""Index arithmetic of kernels: polynomials over loop variables and run-time extents.

In: the shapes of a kernel's values. Out: the indices at which they are read. A `Poly` is an integer polynomial in
symbols (names of loop variables and extents), so that a generator can ask whether an access moves by one element along
a loop. An `Index` is the position of an element in a tensor: one `Poly` per axis, together with the shape that these
count in. That may be any shape with the tensor's number of elements (row-major): reshapes of a contiguous tensor then
cost nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from acronumba.ir.spec import Dim, Size
from acronumba.records import record

Term = tuple[tuple[str, ...], int]


@record()
class Poly:
    """A sum of terms, each a product of symbols (sorted) with a whole coefficient that is not 0; terms are sorted."""

    terms: tuple[Term, ...] = ()

    @staticmethod
    def of(value: Poly | int | str) -> Poly:
        if isinstance(value, Poly):
            return value
        if isinstance(value, str):
            return Poly((((value,), 1),))
        return Poly((((), int(value)),)) if value else Poly()

    @staticmethod
    def _make(items: Iterable[Term]) -> Poly:
        sums: dict[tuple[str, ...], int] = {}
        for symbols, c in items:
            sums[symbols] = sums.get(symbols, 0) + c
        return Poly(tuple(sorted((s, c) for s, c in sums.items() if c)))

    def __add__(self, other: Poly | int) -> Poly:
        return Poly._make([*self.terms, *Poly.of(other).terms])

    def __sub__(self, other: Poly | int) -> Poly:
        return self + Poly.of(other) * -1

    def __mul__(self, other: Poly | int) -> Poly:
        return Poly._make((tuple(sorted(s + t)), c * d) for s, c in self.terms for t, d in Poly.of(other).terms)

    @property
    def symbols(self) -> frozenset[str]:
        return frozenset(s for symbols, _ in self.terms for s in symbols)

    @property
    def constant(self) -> int | None:
        """The number if the polynomial has no symbols, else None."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    def slope(self, symbol: str) -> Poly | None:
        """By how much the value grows when `symbol` grows by one; None if that depends on the symbol."""
        with_it = [(s, c) for s, c in self.terms if symbol in s]
        if any(s.count(symbol) > 1 for s, _ in with_it):
            return None
        return Poly._make((tuple(x for x in s if x != symbol), c) for s, c in with_it)

    def put(self, symbol: str, value: Poly) -> Poly:
        """Return the polynomial with `value` substituted for `symbol`."""
        out = Poly()
        for symbols, c in self.terms:
            term = Poly._make([(tuple(s for s in symbols if s != symbol), c)])
            for _ in range(symbols.count(symbol)):
                term = term * value
            out = out + term
        return out


ZERO, ONE = Poly(), Poly.of(1)


def size_poly(size: Size) -> Poly:
    return Poly.of(f"d{size.index}") if isinstance(size, Dim) else Poly.of(size)


def rounded(size: Size, step: int) -> Poly:
    """Return an extent rounded up to a multiple of `step`."""
    return Poly.of(f"up{step}d{size.index}") if isinstance(size, Dim) else Poly.of(-(-size // step) * step)


def count(shape: Sequence[Size]) -> Poly:
    """Return the number of elements."""
    out = ONE
    for size in shape:
        out = out * size_poly(size)
    return out


def strides(shape: Sequence[Size]) -> tuple[Poly, ...]:
    """Return the steps in elements of a contiguous tensor, one per axis."""
    return tuple(count(shape[k + 1 :]) for k in range(len(shape)))


@record()
class Index:
    """Position of an element: `at[k]` counts along axis k of `shape`."""

    shape: tuple[Size, ...]
    at: tuple[Poly, ...]

    @property
    def flat(self) -> Poly:
        """The number of the element in row-major order."""
        out = ZERO
        for a, s in zip(self.at, strides(self.shape), strict=True):
            out = out + a * s
        return out

    def put(self, symbol: str, value: Poly) -> Index:
        return Index(self.shape, tuple(a.put(symbol, value) for a in self.at))

    def depends(self, symbol: str | None) -> bool:
        return symbol is not None and any(symbol in a.symbols for a in self.at)


Divide = Callable[[Poly, Poly], tuple[Poly, Poly]]


def _divides(a: Poly, b: Poly) -> bool:
    """Whether the single-term number `a` divides `b` for all values of the extents."""
    if len(a.terms) != 1 or len(b.terms) != 1:
        return False
    (s, c), (t, d) = a.terms[0], b.terms[0]
    return d % c == 0 and all(t.count(x) >= s.count(x) for x in s)


def _small(poly: Poly, bound: Poly, extents: Mapping[str, Size]) -> bool:
    """Whether 0 <= poly < bound is certain, given the extents of the loop variables in `poly`."""
    if poly == ZERO:
        return True
    if len(poly.terms) == 1 and poly.terms[0][1] == 1 and len(poly.terms[0][0]) == 1:
        extent = extents.get(poly.terms[0][0][0])
        if extent is not None and size_poly(extent) == bound:
            return True
    limit = bound.constant
    if limit is None:
        return False
    top = 0
    for symbols, c in poly.terms:
        if c < 0:
            return False
        for s in symbols:
            extent = extents.get(s)
            if not isinstance(extent, int):
                return False
            c *= max(extent - 1, 0)
        top += c
    return top < limit


def divide(flat: Poly, by: Poly, extents: Mapping[str, Size]) -> tuple[Poly, Poly] | None:
    """Return quotient and remainder where both are again polynomials, else None."""
    if by == ONE:
        return flat, ZERO
    if len(by.terms) != 1:
        return None
    whole = [t for t in flat.terms if _divides(by, Poly((t,)))]
    rest = Poly(tuple(t for t in flat.terms if t not in whole))
    if not _small(rest, by, extents):
        return None
    (s, c) = by.terms[0]
    quotient = []
    for symbols, d in whole:
        left = list(symbols)
        for x in s:
            left.remove(x)
        quotient.append((tuple(left), d // c))
    return Poly._make(quotient), rest


def reindex(index: Index, shape: tuple[Size, ...], split: Divide) -> Index:
    """Return the index of the same element in `shape`, which has as many elements.

    Axes are matched in groups of equal products, so most indices stay polynomials; for the others `split(flat, by)`
    must return the quotient and the remainder as polynomials.
    """
    if index.shape == shape:
        return index
    old = [(size_poly(s), a) for s, a in zip(index.shape, index.at, strict=True) if s != 1]
    new = [(k, size_poly(s)) for k, s in enumerate(shape) if s != 1]
    at = [ZERO] * len(shape)
    i = j = 0
    while j < len(new):
        if i >= len(old):  # only extents that turn out to be 1 are left
            break
        left, right = old[i][0], new[j][1]
        i1, j1 = i + 1, j + 1
        while left != right:
            grow_left = _divides(left, right) if left != right else False
            if isinstance(left.constant, int) and isinstance(right.constant, int):
                grow_left = left.constant < right.constant
                if 0 in (left.constant, right.constant):
                    i1, j1 = len(old), len(new)
                    break
            elif not grow_left and not _divides(right, left):
                i1, j1 = len(old), len(new)
                break
            if grow_left and i1 < len(old):
                left = left * old[i1][0]
                i1 += 1
            elif not grow_left and j1 < len(new):
                right = right * new[j1][1]
                j1 += 1
            else:
                i1, j1 = len(old), len(new)
                break
        flat = ZERO
        for size, a in old[i:i1]:
            flat = flat * size + a
        for n in range(j1 - 1, j, -1):
            flat, at[new[n][0]] = split(flat, new[n][1])
        at[new[j][0]] = flat
        i, j = i1, j1
    return Index(shape, tuple(at))
