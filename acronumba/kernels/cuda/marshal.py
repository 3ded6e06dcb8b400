"""Marshalling of launches: the CPU runs this code in place of a kernel of a GPU, to write the kernel's parameters.

In: a `KernelSpec`. Out: host functions with the signatures of kernels on CPUs, `plan` and `run`. `run` goes over the
nodes of a batch and writes the table P of the kernel into a buffer, which is copied to the GPU in one piece: the words
of nodes (`kernels.cuda.nodes`), with GPU addresses in place of CPU addresses, and memory for failures. Then it adds a
row to the table of launches. So the machine, the schedule and the layout are the same for CPU and GPU; no Python runs
per node or per batch.

The table P of `run` ends, behind the shared entries, with the address of a stream and the kernel's number. A stream has
the words of `STREAM`, its table of launches rows of `ROW`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from acronumba.emit import tree
from acronumba.emit.tree import I32, I64, Builder, Expr, Local, const, convert, select
from acronumba.emit.words import RecordLayout
from acronumba.ir.spec import FIXED, PARAMETERS, Dim, KernelSpec, Size
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.persistent import PIECE

STREAM = RecordLayout("""
start       of the buffer
tail        of the buffer, where the steps of `kernels.cuda.persistent` begin
event       of the device, behind the copy of the buffer,
copied      ... and whether it has been recorded, and not been waited for
top         next free byte of the buffer
end         of the free bytes; behind it are words for the failures of nodes, those of the first launch last
delta       the GPU's address of the buffer, less the processor's
launches    how many there are
table       a row of ROW for each launch
capacity    launches that the table has room for
regions     int64[count, 3]: start, end, the GPU's address less the start: memory that both have, by address
count
last        address of the row of `regions` that was found last; 0: none
missing     bytes that the buffer is too small by; what comes after the first launch without room is counted only
total       nodes of all launches
most        the most nodes of a launch, or of what is counted of them
batch       the most bytes of scratch of a batch
warp        the most bytes of scratch of a warp
arena       address of a word: the address of the arena that results lie in,
used        ... of a word: how many bytes of it are in use
granule     ... of a word: the bits of a granule, at a multiple of which each result of each batch begins
marks       int32[mark_room]: of each granule of the arena, the level behind which what lies there is computed
mark_room   granules that the marks have room for
levels      how many levels there are so far
pieces      rows of `kernels.cuda.persistent.PIECE`: results that the CPU waits for
bring       how many there are
""")
ROW = RecordLayout("""
kernel      its number
nodes       of the batch
p           the GPU's address of P
fails       the GPU's address of the nodes' failures; 0: the kernel has none
batch       bytes of scratch of the batch
warp        bytes of scratch of a warp
starts      the processor's address of the starts, see `kernels.cuda.nodes`
level       that of its first functions, behind those that compute what they read; others add theirs, `Grid.level`
scratch     from the scratch of all to that of the batch, in bytes
""")


def marshal(spec: KernelSpec, code: CudaCode, read: Collection[int] = ()) -> tree.Module:
    """Return the module of a kernel: exports "plan" and "run". `read`: the results that the CPU waits for."""
    functions = (*code.sizes.functions, locate(), _plan(spec, code), _Run(spec, code, read).write())
    return tree.Module(f"{spec.name}_marshal", functions, ("sizes", "plan", "run"))


def region_of(stream: Any, at: Any) -> Any:
    """Return the call of `locate`, for files of the small language."""
    return tree.Call("locate", (stream, at), I64)


def locate() -> tree.Function:
    """Return the function that finds the region of an address."""
    f = Builder(
        "locate", [("stream", I64), ("at", I64)], result=I64, doc="The row of `regions` that `at` lies in; 0: in none."
    )
    last = f.let("last", tree.load(f["stream"], STREAM.at["last"]))
    with f.when(last.ne(0)), f.when((tree.load(last) <= f["at"]) & (f["at"] < tree.load(last, 1))):
        f.ret(last)
    regions = f.let("regions", tree.load(f["stream"], STREAM.at["regions"]))
    low = f.let("low", 0)
    high = f.let("high", tree.load(f["stream"], STREAM.at["count"]))
    with f.while_(low < high):
        middle = f.let("middle", (low + high) // 2)
        with f.when(tree.load(regions, middle * 3 + 1) <= f["at"]):
            f.set(low, middle + 1)
        with f.otherwise():
            f.set(high, middle)
    with f.when(low.eq(tree.load(f["stream"], STREAM.at["count"]))):
        f.ret(0)
    region = f.let("region", regions + low * 24)
    with f.when(tree.load(region) > f["at"]):
        f.ret(0)
    f.store(f["stream"], STREAM.at["last"], region)
    f.ret(region)
    return f.function()


class _Resolver:
    """Writes the translation of CPU to GPU addresses; caches the last region, in which most next addresses lie."""

    def __init__(self, f: Builder, stream: Expr, name: str, levels: _Levels | None = None) -> None:
        self.f, self.stream, self.name, self.levels = f, stream, name, levels
        self.start, self.end, self.shift = (f.let(f"{name}_{what}", 0) for what in ("start", "end", "shift"))

    def __call__(self, word: Expr) -> Expr:
        """Return the GPU address for a CPU address, or 0 if it is in no region."""
        f = self.f
        at = f.let(self.name, word)
        if self.levels is not None:
            self.levels.read(at)
        with f.when((at < self.start) | (at >= self.end)):
            region = f.let("region", tree.Call("locate", (self.stream, at), I64))
            with f.when(region.eq(0)):
                f.set(self.start, 0)
                f.set(self.end, 0)
                f.set(self.shift, -at)
            with f.otherwise():
                f.set(self.start, tree.load(region))
                f.set(self.end, tree.load(region, 1))
                f.set(self.shift, tree.load(region, 2))
        return at + self.shift


class _Levels:
    """Writes the level of a launch: behind all levels that compute what it reads.

    The arena of a mini-batch has marks, one for each granule: the level behind which what lies there is computed.
    Without room for the marks each launch comes behind all others.
    """

    def __init__(self, f: Builder, stream: Expr, levels: int) -> None:
        self.f, self.stream, self.levels = f, stream, levels
        self.arena = f.let("arena", tree.load(tree.load(stream, STREAM.at["arena"])))
        used = f.let("used", tree.load(tree.load(stream, STREAM.at["used"])))
        self.marks = f.let("marks", tree.load(stream, STREAM.at["marks"]))
        room = tree.load(stream, STREAM.at["mark_room"])
        self.granule = f.let("granule", tree.load(tree.load(stream, STREAM.at["granule"])))
        self.level = f.let("level", 0)
        self.used = f.let("marked", select(used >> self.granule < room, used, 0))
        with f.when(used.ne(self.used)):
            f.set(self.level, tree.load(stream, STREAM.at["levels"]))

    def read(self, at: Local) -> None:
        """Note that the launch reads what lies at an address of the processor."""
        f = self.f
        offset = f.let("offset", at - self.arena)
        with f.when((offset >= 0) & (offset < self.used)):
            mark = f.let("mark", convert(tree.load(self.marks, offset >> self.granule, I32), I64))
            f.set(self.level, select(mark > self.level, mark, self.level))

    def write(self, at: Expr, size: Expr) -> None:
        """Mark what the launch computes: so many bytes at an address of the processor."""
        f = self.f
        end = f.let("end_level", self.level + self.levels)
        first = f.let("first", at - self.arena)
        last = f.let("last", first + size)
        marks = first >> self.granule, (last - 1 >> self.granule) + 1
        with f.when((first >= 0) & (last <= self.used)), f.loop("k", *marks) as k:
            f.store(self.marks, k, convert(end, I32), I32)

    def end(self) -> None:
        """Note how many levels there are now."""
        f, known = self.f, tree.load(self.stream, STREAM.at["levels"])
        end = f.let("end_level", self.level + self.levels)
        f.store(self.stream, STREAM.at["levels"], select(end > known, end, known))


def _plan(spec: KernelSpec, code: CudaCode) -> tree.Function:
    """Return the function that says how large results are."""
    doc = "Bytes of scratch for `sizes` and `adds`, and of every result of a node; no nanoseconds."
    f = Builder("plan", [("D", I64), ("OUT", I64)], doc=doc)
    f.do(tree.Call("sizes", (f["D"], const(0, I64), f["OUT"]), tree.VOID))
    # `sizes` begins with the scratch of the batch and of a warp, `plan` with scratch alone
    f.store(f["OUT"], 0, 8 * (_words_of_sizes(spec) + 1 + len(code.table.counted)))
    for k in range(len(spec.results) + 1):
        f.store(f["OUT"], 1 + k, tree.load(f["OUT"], 2 + k))
    f.store(f["OUT"], 2 + len(spec.results), 0)
    f.ret()
    return f.function()


def _leave_without_room(f: Builder, stream: Local, end: Expr, limit: Expr, wanted: Expr) -> None:
    """Write a return from the function if the buffer or the table of launches is full, which counts missing bytes."""
    over = f.let("over", end - limit)
    full = tree.load(stream, STREAM.at["launches"]) >= tree.load(stream, STREAM.at["capacity"])
    with f.when((over > 0) | tree.load(stream, STREAM.at["missing"]).ne(0) | full):
        f.comment("no room: count what is missing")
        f.store(stream, STREAM.at["missing"], tree.load(stream, STREAM.at["missing"]) + wanted)
        f.ret()


class _Run:
    """Writes the function `run`, which marshals a launch.

    The buffer holds the words of the nodes and their starts, the table P, and the elements of lists.
    """

    def __init__(self, spec: KernelSpec, code: CudaCode, read: Collection[int]) -> None:
        doc = f"{spec.name}: note what nodes lo..hi need."
        self.f = f = Builder("run", [(p, I64) for p in ("P", "lo", "hi", "S")], doc=doc)
        self.spec, self.nodes_table = spec, code.table
        self.arguments = [o for o in spec.operands if o.kind != "shared"]
        self.code_levels = code.levels
        self.read = sorted(read)
        self.results, self.entries = len(spec.results), len(spec.results) + len(code.shared)
        self.fallible = any(op.site >= 0 for op in spec.body)
        self.stream = f.let("stream", tree.load(f["P"], FIXED + self.entries))
        self.nodes = f.let("nodes", f["hi"] - f["lo"])
        self.before_extents = f.let("before_extents", tree.load(f["P"], PARAMETERS.at["extents"]))

    def write(self) -> tree.Function:
        f, stream, nodes = self.f, self.stream, self.nodes
        known = self.nodes_table
        self.words = words = f.let("words", tree.load(stream, STREAM.at["top"]))
        fails = f.let("fails", tree.load(stream, STREAM.at["end"]) - nodes * 8) if self.fallible else const(0, I64)
        self.starts = f.let("starts", words + nodes * (8 * known.words))
        table = f.let("table", self.starts + (nodes + 1) * (8 * len(known.counted)))
        self.items = f.let("items", table + 8 * (FIXED + self.entries))
        end = f.let("top", (self.items + self.bytes_of_items() + 15) & -16)
        limit = fails if self.fallible else tree.load(stream, STREAM.at["end"])
        _leave_without_room(f, stream, end, limit, end - words + nodes * 8 if self.fallible else end - words)
        self.delta = f.let("delta", tree.load(stream, STREAM.at["delta"]))
        self.begin()
        self.each_node(fails)
        self.finish()
        found = fails + self.delta if self.fallible else fails
        self.write_table(table, found)
        f.store(stream, STREAM.at["top"], end)
        if self.fallible:
            f.store(stream, STREAM.at["end"], fails)
        self.launch(table + self.delta, found)
        f.ret()
        return f.function()

    def number(self, size: Size, extents: Expr) -> Expr:
        return tree.load(extents, size.index) if isinstance(size, Dim) else const(size, I64)

    def node(self, i: Expr) -> Local:
        """Return the address of the argument words of a node."""
        return self.f.let("node", tree.load(tree.load(self.f["P"], PARAMETERS.at["nodes"]), i))

    def bytes_of_items(self) -> Expr:
        """Return the bytes of the elements of lists."""
        f = self.f
        sizes = [o.shape[0] for o in self.arguments if o.kind in ("list", "numbers")]
        known = sum(size for size in sizes if not isinstance(size, Dim))
        if all(not isinstance(size, Dim) for size in sizes):
            return self.nodes * (8 * known)
        many = f.let("many", self.nodes * known)
        with f.loop("i", f["lo"], f["hi"]) as i:
            node = self.node(i)
            for size in sizes:
                if isinstance(size, Dim):
                    f.set(many, many + self.number(size, node + self.before_extents))
        return many * 8

    def begin(self) -> None:
        """Make the locals of sums over nodes (bytes of scratch, counts) and the resolvers of addresses."""
        f = self.f
        self.levels = _Levels(f, self.stream, self.code_levels)
        self.resolve = {
            o.index: _Resolver(f, self.stream, o.name, self.levels)
            for o in self.arguments
            if o.kind in ("tensor", "list")
        }
        self.place = _Resolver(f, self.stream, "place")
        self.batch, self.warp = f.let("batch", 0), f.let("warp", 0)
        self.counts = [f.let("count", 0) for _ in self.nodes_table.counted]
        self.most = f.let("most", self.nodes)  # of nodes, or of a count

    def each_node(self, fails: Expr) -> None:
        """Write the loop that stores the words of every node."""
        f, nodes = self.f, self.nodes
        if not self.spec.dims:
            f.do(tree.Call("sizes", (const(0, I64), nodes, f["S"]), tree.VOID))
            f.set(self.batch, tree.load(f["S"], 0))
            f.set(self.warp, tree.load(f["S"], 1))
        row = f.let("row", self.words)
        with f.loop("i", f["lo"], f["hi"]) as i:
            node = self.node(i)
            extents = f.let("extents", node + self.before_extents) if self.spec.dims else node
            for o in self.arguments:
                word = tree.load(node, o.index)
                if o.kind == "tensor":
                    word = self.resolve[o.index](tree.load(word))
                elif o.kind in ("list", "numbers"):
                    source = f.let("source", tree.load(word))
                    word = self.copy(source, self.number(o.shape[0], extents), self.resolve.get(o.index))
                f.store(row + nodes * (8 * o.index), 0, word)
            if self.spec.dims:
                self.own(row, i - f["lo"], node, extents)
            if self.fallible:
                f.store(fails + (i - f["lo"]) * 8, 0, 0)
            f.set(row, row + 8)

    def own(self, row: Local, i: Expr, node: Local, extents: Local) -> None:
        """Write the words of a node: run-time extents, results, offset in the batch's scratch; add up its counts."""
        f, nodes, known = self.f, self.nodes, self.nodes_table
        for k in range(known.dims):
            f.store(row + nodes * (8 * (known.arguments + k)), 0, tree.load(extents, k))
        for k in range(known.results):
            result = tree.load(node + tree.load(f["P"], FIXED + k))
            f.store(row + nodes * (8 * known.result(k)), 0, self.place(result))
        f.do(tree.Call("sizes", (extents, nodes, f["S"]), tree.VOID))
        added = f["S"] + 8 * _words_of_sizes(self.spec)
        f.do(tree.Call("adds", (extents, added), tree.VOID))
        with f.when(i.eq(0)):
            f.set(self.batch, tree.load(f["S"], 0))
        if known.places:
            f.store(row + nodes * (8 * known.place), 0, self.batch - tree.load(f["S"], 0))
        f.set(self.batch, self.batch + tree.load(added))
        f.set(self.warp, select(tree.load(f["S"], 1) > self.warp, tree.load(f["S"], 1), self.warp))
        for k, count in enumerate(self.counts):
            f.store(self.starts + (nodes + 1) * (8 * k), i, count)
            f.set(count, count + tree.load(added, 1 + k))

    def finish(self) -> None:
        """Write the stores of the total counts of all nodes, and the marks of the results."""
        f = self.f
        sizes = [tree.load(f["S"], 2 + k) for k in range(self.results)]
        if not self.spec.dims:
            for k, size in enumerate(sizes):
                self.levels.write(tree.load(f["P"], FIXED + k), self.nodes * size)
            for k in self.read:
                self.bring(tree.load(f["P"], FIXED + k), self.nodes * sizes[k])
        else:
            totals = {k: f.let("total", 0) for k in self.read}
            with f.loop("i", f["lo"], f["hi"]) as i:
                node = self.node(i)
                f.do(tree.Call("sizes", (node + self.before_extents, self.nodes, f["S"]), tree.VOID))
                for k, size in enumerate(sizes):
                    self.levels.write(tree.load(node + tree.load(f["P"], FIXED + k)), size)
                for k, total in totals.items():
                    f.set(total, total + sizes[k])
            for k, total in totals.items():
                with f.when(self.nodes > 0):
                    self.bring(tree.load(self.node(f["lo"]) + tree.load(f["P"], FIXED + k)), total)
        for k, count in enumerate(self.counts):
            f.store(self.starts + (self.nodes + 1) * (8 * k), self.nodes, count)
            f.set(self.most, select(count > self.most, count, self.most))

    def bring(self, result: Expr, size: Expr) -> None:
        """Note that the CPU waits for a result of all nodes; they lie side by side."""
        f, stream = self.f, self.stream
        count = f.let("pieces", tree.load(stream, STREAM.at["bring"]))
        piece = f.let("piece", tree.load(stream, STREAM.at["pieces"]) + count * PIECE.size)
        result = f.let("result", result)
        f.store(piece, PIECE.at["at"], self.place(result))
        f.store(piece, PIECE.at["to"], result)
        f.store(piece, PIECE.at["words"], (size + 7) >> 3)
        f.store(stream, STREAM.at["bring"], count + 1)

    def write_table(self, table: Local, fails: Expr) -> None:
        """Write the GPU's table P."""
        f = self.f
        begun = tree.load(f["P"], PARAMETERS.at["begun"])
        head = {"nodes": self.words + self.delta, "fails": fails, "extents": self.warp, "begun": begun}
        for name, value in head.items():
            f.store(table, PARAMETERS.at[name], value)
        for k in range(self.entries):
            own = k < self.nodes_table.results  # which each node has
            f.store(table, FIXED + k, const(0, I64) if own else self.place(tree.load(f["P"], FIXED + k)))

    def launch(self, table: Expr, fails: Expr) -> None:
        """Add a row to the table of launches."""
        f, stream, nodes = self.f, self.stream, self.nodes
        count = f.let("launches", tree.load(stream, STREAM.at["launches"]))
        launch = f.let("launch", tree.load(stream, STREAM.at["table"]) + count * ROW.size)
        row = {
            "kernel": tree.load(f["P"], FIXED + self.entries + 1), "nodes": nodes, "p": table, "fails": fails,
            "batch": self.batch, "warp": self.warp, "starts": self.starts, "level": self.levels.level,
        }  # fmt: skip
        for name, word in row.items():
            f.store(launch, ROW.at[name], word)
        f.store(stream, STREAM.at["total"], tree.load(stream, STREAM.at["total"]) + nodes)
        for name, most in (("most", self.most), ("batch", self.batch), ("warp", self.warp)):
            with f.when(most > tree.load(stream, STREAM.at[name])):
                f.store(stream, STREAM.at[name], most)
        self.levels.end()
        f.store(stream, STREAM.at["launches"], count + 1)

    def copy(self, source: Local, many: Expr, resolve: Callable[[Expr], Expr] | None) -> Expr:
        """Copy the elements of a list, of tensors by address; return the GPU's address of the copy."""
        f, items = self.f, self.items
        first = f.let("first", items)
        many = f.let("many", many)
        with f.loop("k", 0, many) as k:
            element = tree.load(source, k)
            f.store(items + k * 8, 0, element if resolve is None else resolve(tree.load(element)))
        f.set(items, items + many * 8)
        return first + self.delta


def _words_of_sizes(spec: KernelSpec) -> int:
    """Return the number of words that `sizes` writes."""
    return 3 + len(spec.results)
