"""Products of a GPU: weights lie in registers, rows stream past them.

In: a `Core`. Out: text that stands in a kernel, for the threads of a block. A block computes a panel of a weight: all
gates of some hidden units. The sum over k is cut into parts of `PART` terms. A warp has a part: its lanes keep that
part's weights in registers, copy that part of the rows into memory that only the warp reads, and leave the sums of the
part beside them. Then the parts are added, the first first.

*Order of summation.* It depends on the number of terms alone. Each part is summed from zero: four sums, of every fourth
group of four terms, in ascending order, with fused multiply-add; they are added as (0 + 2) + (1 + 3). The parts are
added from the first to the last. So it does not matter how many warps and blocks there are, or how many rows and gates
a block has: the bits of a row depend on nothing else. What a part has too little is filled up with zeros.

*Two cores.* The first has the float32 units. The other one (`Core.split`, `precision="tf32x3"`) has tensor cores,
whose factors have 11 bits: each factor is split into a large part, rounded, and the rest, which tensor cores cut off
after 11 bits; of the four products the three that count are added. Tensor cores truncate their sums: so they add up 8
terms each time, from zero, and these sums are added in float32, in ascending order. Of each 16 terms the first 8 are
those whose number leaves 0 or 1 after a division by 4. The rest of an infinity is NaN, and sums that are not finite are
summed again term by term (`streamed`): so infinities and NaN are those of float32. Here weights are loaded for each
tile, 16 terms at a time (from shared memory, or by the first cache): split, they would take too many registers.

*Weights that stay.* In a kernel that runs many batches the panels of weights stay in shared memory
(`kernels.cuda.persistent`). In each place for panels, a warp has a tag that says which panel the block has copied last.
If that is another one, all threads copy, and meet.

A lane has one of the four sums of a part (`sub`, lane // 8) and some columns of the panel (`group`, lane % 8): with 8
units or more, all gates of some units; with less, some gates of one unit. So four lanes share a column: each has the
sums of four rows, of which it gets one by exchange. Where tensor cores multiply, `sub` is lane % 4, `group` lane // 4,
as these expect it: columns are tiles of 8, of which a group of lanes has one each.
"""

from __future__ import annotations

from collections.abc import Sequence

from acronumba.emit import simt
from acronumba.kernels.cuda.tiles import PART, THREADS
from acronumba.records import record

TILE = 16  # rows of a block at a time
GROUP = 4  # rows of a warp at a time
SPLIT_TILE = 32  # the same where tensor cores multiply
SPLIT_GROUP = 16
SPLIT_GATES = 3  # of a panel at least: what splits rows is shared by few columns else
SPLIT_UNITS = 8  # hidden units of a panel at most: columns of a tile of tensor cores
WIDE = 40  # columns of a panel at most: each lane has five, of which it keeps 16 terms in registers
UNITS = 16  # hidden units of a panel at most: each thread finishes one element of a tile
MANY = 16  # rows of a node from which on it pays to have few panels
STEP = PART + 8  # elements from row to row of a part, in shared memory: what 16 lanes read at once lies in other banks
GROUP_BYTES = GROUP * STEP * 4  # of a part of a group of rows
TAG_BYTES = 4 * THREADS // 32  # of the tags of all warps


def units_of(n: int, gates: int, rows: int = 1) -> int:
    """Return the hidden units of a panel: fewer where panels would be few, unless a node has many rows."""
    units = UNITS
    least = UNITS if rows < MANY else 1
    while units > 1 and (units * gates > WIDE or (units > 8 and -(-n // units) < least)):
        units //= 2
    return units


def together(parts: int, groups: int = TILE // GROUP) -> int:
    """Return how many warps share each of so many parts: they have other rows, of which a tile has so many groups."""
    return max(n for n in (1, 2, 4) if n == 1 or (n * parts <= THREADS // 32 and n <= groups))


@record()
class Core:
    """Products of one left operand: `gates` columns of each unit, of `terms` terms."""

    gates: int
    units: int  # of a panel
    terms: int
    across: bool = False  # whether the terms of four rows lie beside each other: rows are columns of a matrix
    split: bool = False  # whether tensor cores multiply factors in two parts

    @property
    def tile(self) -> int:
        """Rows of a block at a time."""
        return SPLIT_TILE if self.split else TILE

    @property
    def group(self) -> int:
        """Rows of a warp at a time."""
        return SPLIT_GROUP if self.split else GROUP

    @property
    def part_bytes(self) -> int:
        """Bytes of a part's rows, where its sums lie later."""
        return self.tile * STEP * 4

    @property
    def parts(self) -> int:
        return max(-(-self.terms // PART), 1)

    @property
    def share(self) -> int:
        """Groups of lanes that share the gates of a unit."""
        return max(8 // self.units, 1)

    @property
    def own(self) -> int:
        """Gates of a lane."""
        return -(-self.gates // self.share)

    @property
    def columns(self) -> list[tuple[int, int]]:
        """Of each column of a lane: what it adds to the lane's first unit and first gate."""
        return [(8 * half, gate) for half in range(max(self.units // 8, 1)) for gate in range(self.own)]

    @property
    def quads(self) -> int:
        """Groups of four terms of a lane."""
        return max(-(-min(self.terms, PART) // 16), 1)

    @property
    def apart(self) -> int:
        """Elements between the sums of two units of a row: odd, so that units lie in different banks."""
        return 1 if self.split else self.own * self.share | 1

    def gate_at(self, gate: int) -> int:
        """Return the elements between the sums of a unit's first gate and those of another one."""
        return gate % self.own * 8 + gate // self.own * self.units if self.split else gate

    @property
    def loads(self) -> int:
        """Loads of 16 bytes with which a lane gets the weights of a part."""
        return 4 * self.quads * len(self.columns) // 4

    @property
    def bytes(self) -> int:
        """Bytes of a part of a panel: of the weights of a warp."""
        return self.loads * 512

    def weights(self, at: str, kept: str = "") -> list[str]:
        """Return statements that load the weights of a lane, whose first ones are at an address.

        `kept`: where they lie in shared memory; "" if they do not.
        """
        return self._loads(self.quads, at, kept)

    def _loads(self, quads: int, at: str, kept: str) -> list[str]:
        names = [f"_weight_{q * 16 + i}_{c}" for q in range(quads) for i in range(4) for c in range(len(self.columns))]
        loads = [f"{at} + {512 * n}" for n in range(len(names) // 4)]
        how = [f"load_kept({kept} + {512 * n}, {x})" if kept else f"load_far_four({x})" for n, x in enumerate(loads)]
        return [f"{', '.join(names[4 * n : 4 * n + 4])} = {load}" for n, load in enumerate(how)]

    def products(self, rows: str, sums: str, sub: str) -> list[str]:
        """Return statements that multiply four rows with the weights, and leave the sums of one row of each lane.

        `rows`: address, in shared memory, of the lane's first term of the first row. `sums`: of its first sum. The rows
        that a lane multiplies first, second, ... are its own, then those of the lanes with which it exchanges sums.
        """
        columns = range(len(self.columns))
        out = [f"_sum_{r}_{c} = f32(0.0)" for r in range(GROUP) for c in columns]
        out += self.across_rows(rows, sub) if self.across else self.along_rows(rows, sub)
        out.append("meet_lanes()")
        out += [
            f"store_near({sums} + {4 * (unit * self.apart + gate)}, _sum_0_{c})"
            for c, (unit, gate) in enumerate(self.columns)
        ]
        return out

    def split_rows(self, rows: str, sums: str, at: str, kept: str, many: int) -> list[str]:
        """Return statements that multiply groups of rows by tensor cores; of each a lane has two rows, 8 apart."""
        columns, four, groups = range(len(self.columns)), range(4), range(many)
        out = [f"_sum_{g}_{c}_{k} = f32(0.0)" for g in groups for c in columns for k in four]
        out += [f"_x_at, _far = {rows}, {at}", *([f"_kept = {kept}"] if kept else []), "_quad = 0"]
        out.append(f"while _quad < {self.quads}:")
        inside = self._loads(1, "_far", "_kept" if kept else "")
        for g in groups:
            inside += [
                f"_x_{g}_{h}_0, _x_{g}_{h}_1, _x_{g}_{h}_2, _x_{g}_{h}_3 = "
                f"load_four(_x_at + {(16 * g + 8 * h) * STEP * 4})"
                for h in (0, 1)
            ]
        for i in (0, 2):  # the first of a lane's two terms
            for c in columns:
                for k in (0, 1):
                    inside += _halves(f"_weight_{i + k}_{c}", f"_large_{c}_{k}", f"_rest_{c}_{k}")
            for g in groups:
                names = [f"_x_{g}_0_{i}", f"_x_{g}_1_{i}", f"_x_{g}_0_{i + 1}", f"_x_{g}_1_{i + 1}"]
                inside += [line for k, x in enumerate(names) for line in _halves(x, f"_large{k}", f"_rest{k}")]
                for n, (left, right) in enumerate((("rest", "large"), ("large", "rest"), ("large", "large"))):
                    for c in columns:
                        made = ", ".join(f"_eight_{c}_{k}" for k in four)
                        factors = [f"_{left}{k}" for k in four] + [f"_{right}_{c}_{k}" for k in (0, 1)]
                        before = made if n else ", ".join(["f32(0.0)"] * 4)
                        inside.append(f"{made} = mma_cut({', '.join(factors)}, {before})")
                inside += [f"_sum_{g}_{c}_{k} = _sum_{g}_{c}_{k} + _eight_{c}_{k}" for c in columns for k in four]
        step = 512 * len(columns)
        inside += [f"_x_at, _far = _x_at + 64, _far + {step}", *([f"_kept = _kept + {step}"] if kept else [])]
        inside.append("_quad += nothing() + 1")  # the compiler does not write the loop several times
        out += [f"    {line}" for line in inside]
        out.append("meet_lanes()")
        return out + [
            f"store_two({sums} + {4 * ((16 * g + 4 * k) * STEP + 8 * c)}, _sum_{g}_{c}_{k}, _sum_{g}_{c}_{k + 1})"
            for g in groups
            for k in (0, 2)
            for c in columns
        ]

    def along_rows(self, rows: str, sub: str) -> list[str]:
        """Return statements that multiply rows whose terms lie beside each other."""
        columns = range(len(self.columns))
        out = [f"_row_{r} = {rows} + ({sub} ^ {r}) * {STEP * 4}" for r in range(GROUP)]
        for q in range(self.quads):
            for r in range(GROUP):
                out.append(f"_x0, _x1, _x2, _x3 = load_four(_row_{r} + {q * 64})")
                out += [
                    f"_sum_{r}_{c} = fma(_weight_{q * 16 + i}_{c}, _x{i}, _sum_{r}_{c})"
                    for i in range(4)
                    for c in columns
                ]
        for bit, half in ((16, 2), (8, 1)):
            out += [
                f"_sum_{r}_{c} = _sum_{r}_{c} + exchange(_sum_{r + half}_{c}, {bit})"
                for r in range(half)
                for c in columns
            ]
        return out

    def across_rows(self, rows: str, sub: str) -> list[str]:
        """Return statements that multiply four rows of which the same terms lie beside each other, see `chunk_of`.

        Here the sums of a lane are those of rows 0, 1, 2, 3: it chooses which ones to exchange.
        """
        columns = range(len(self.columns))
        out = [f"_high, _low = {sub} >= 2, ({sub} & 1) != 0"]
        out += [f"_even = {rows} + ({sub} >> 1) * 16", f"_odd = {rows} + 16 - ({sub} >> 1) * 16"]
        for q in range(self.quads):
            for i in range(4):
                out.append(f"_x0, _x1, _x2, _x3 = load_four({'_odd' if i % 2 else '_even'} + {q * 256 + i // 2 * 32})")
                out += [f"_sum_{r}_{c} = fma(_weight_{q * 16 + i}_{c}, _x{r}, _sum_{r}_{c})"
                        for r in range(GROUP) for c in columns]  # fmt: skip
        for bit, half, side in ((16, 2, "_high"), (8, 1, "_low")):
            for r in range(half):
                for c in columns:
                    mine, other = f"_sum_{r}_{c}", f"_sum_{r + half}_{c}"
                    out.append(f"_given = select({side}, {mine}, {other})")
                    out.append(f"{mine} = select({side}, {other}, {mine}) + exchange(_given, {bit})")
        return out


def _halves(x: str, large: str, rest: str) -> list[str]:
    """Return statements that split a float32 into two factors for tensor cores; of the second they cut off the end."""
    return [f"{large} = large_half({x})", f"{rest} = bits(i32, {x} - bits(f32, {large}))"]


def _added(args: Sequence[str], setting: simt.Setting) -> list[str]:
    """Return the sum of parts in shared memory, the first first; of what comes before, if there is something."""
    *before, at, parts, size = args
    return [" + ".join([*before, *(f"load_near({at} + {p * int(size)})" for p in range(int(parts)))])]


def chunk_of(k: int) -> int:
    """Return where in a group the four terms number k lie that its rows have, if the core goes across rows.

    So the four lanes that read different ones at once find them in different banks.
    """
    return k ^ (k >> 3 & 1)


NUMBERS = 5  # that say what a core is


def _core(numbers: Sequence[str]) -> Core:
    gates, units, terms, across, split = map(int, numbers)
    return Core(gates, units, terms, bool(across), bool(split))


def _keep(args: Sequence[str], setting: simt.Setting) -> list[str]:
    if setting.number is None:
        return []
    panel, thread, *members = args
    tag, wanted = f"tags + ({thread} >> 5) * 4", wanted_tag(setting.number, panel)
    inside, first = [f"_own = i64({thread}) * 16"], 0
    for k in range(0, len(members), 1 + NUMBERS):
        at, *numbers = members[k : k + 1 + NUMBERS]
        core = _core(numbers)
        size = core.parts * core.bytes
        for n in range(0, size, 16 * THREADS):
            copy = f"copy_near(kept + (_own + {first + n}), {at} + (_own + {n}), 16)"
            left = (size - n) // 16
            inside += [copy] if left >= THREADS else [f"if {thread} < {left}:", f"    {copy}"]
        first += size
    # all warps of a block have the same tags: either all of them copy, or none
    inside += ["copies_end()", "wait_for_copies()", "cuda.syncthreads()", f"store_near_int({tag}, i32({wanted}))"]
    return [f"if load_near_int({tag}) != {wanted}:", *(f"    {line}" for line in inside)]


def wanted_tag(number: int, panel: str) -> str:
    """Return the tag of a panel of a function."""
    return f"{number << 16} + ({panel})"


def _weights(args: Sequence[str], setting: simt.Setting) -> list[str]:
    at, offset, *numbers = args
    return _core(numbers).weights(at, f"kept + ({offset})" if setting.number is not None else "")


def _products(args: Sequence[str], setting: simt.Setting) -> list[str]:
    rows, sums, *where = args[:-NUMBERS]
    core = _core(args[-NUMBERS:])
    if core.split:
        at, offset, many = where
        return core.split_rows(rows, sums, at, f"kept + ({offset})" if setting.number is not None else "", int(many))
    return core.products(rows, sums, *where)


simt.INLINE |= {
    "stream_added": _added, "stream_keep": _keep, "stream_weights": _weights, "stream_products": _products
}  # fmt: skip
