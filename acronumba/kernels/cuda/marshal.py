"""What the processor runs in place of a kernel of a GPU: it writes down what the kernel needs, and that it is wanted.

In: a `KernelSpec`. Out: host functions with the signatures of the processor's kernels, `plan` and `run`. `run` goes
over the nodes of a batch and lays out in a buffer, which is copied to the GPU in one piece, the table P that the
kernel reads: argument words, with the GPU's addresses in place of the processor's, places for failures, run-time
extents. Then it adds a row to the table of launches. So the machine, the schedule and the layout are the same for both;
no Python runs per node or per batch.

The tail of the processor's table P is, behind the shared entries, the address of a stream and the kernel's number. A
stream has the words of `STREAM`, its table rows of `ROW`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from acronumba.emit import tree
from acronumba.emit.tree import I64, Builder, Expr, Local, const
from acronumba.emit.words import Words
from acronumba.ir.spec import FIXED, PARAMETERS, Dim, KernelSpec, Size
from acronumba.kernels.cuda.generate import CudaCode

STREAM = Words("""
start       of the buffer
tail        of the buffer, where the steps of `kernels.cuda.persistent` begin
event       of the device, behind the copy of the buffer
top         next free byte of the buffer
end         of the free bytes; behind it are words for the failures of nodes, those of the first launch last
delta       the GPU's address of the buffer, less the processor's
launches    how many there are
table       a row of ROW for each launch
capacity    launches that the table has room for
regions     int64[count, 3]: start, end, the GPU's address less the start: memory that both have, by address
count
missing     bytes that the buffer is too small by; what comes after the first launch without room is counted only
total       nodes of all launches
nodes       the most nodes of a launch
batch       the most bytes of scratch of a batch
warp        the most bytes of scratch of a warp
""")
ROW = Words("""
kernel      its number
nodes       of the batch
p           the GPU's address of P
fails       the GPU's address of the nodes' failures; 0: the kernel has none
batch       bytes of scratch of the batch
warp        bytes of scratch of a warp
""")


def marshal(spec: KernelSpec, code: CudaCode) -> tree.Module:
    """Return the module of a kernel: exports "plan" and "run"."""
    functions = (*code.sizes.functions, locate(), _plan(spec), _run(spec, code))
    return tree.Module(f"{spec.name}_marshal", functions, ("sizes", "plan", "run"))


def region_of(stream: Any, at: Any) -> Any:
    """Return the call of `locate`, for files of the small language."""
    return tree.Call("locate", (stream, at), I64)


def locate() -> tree.Function:
    """Return the function that finds the region of an address."""
    f = Builder(
        "locate", [("stream", I64), ("at", I64)], result=I64, doc="The row of `regions` that `at` lies in; 0: in none."
    )
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
    f.ret(region)
    return f.function()


class _Resolver:
    """Writes how addresses become the GPU's: most lie in the region of the one before."""

    def __init__(self, f: Builder, stream: Expr, name: str) -> None:
        self.f, self.stream, self.name = f, stream, name
        self.start, self.end, self.shift = (f.let(f"{name}_{what}", 0) for what in ("start", "end", "shift"))

    def __call__(self, word: Expr) -> Expr:
        """Return the GPU's address of what is at an address, or 0."""
        f = self.f
        at = f.let(self.name, word)
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


def _plan(spec: KernelSpec) -> tree.Function:
    """Return the function that says how large results are."""
    f = Builder("plan", [("D", I64), ("OUT", I64)], doc="Bytes of scratch for `sizes`, and of one row of every result.")
    f.do(tree.Call("sizes", (f["D"], const(0, I64), f["OUT"]), tree.VOID))
    # `sizes` begins with the scratch of the batch and of a warp, `plan` with scratch alone
    f.store(f["OUT"], 0, 8 * (3 + len(spec.results)))
    for k in range(len(spec.results) + 1):
        f.store(f["OUT"], 1 + k, tree.load(f["OUT"], 2 + k))
    f.ret()
    return f.function()


def _leave_without_room(f: Builder, stream: Local, end: Expr, limit: Expr, wanted: Expr) -> None:
    """Return from the function where the buffer or the table of launches is full; count what is missing."""
    over = f.let("over", end - limit)
    full = tree.load(stream, STREAM.at["launches"]) >= tree.load(stream, STREAM.at["capacity"])
    with f.when((over > 0) | tree.load(stream, STREAM.at["missing"]).ne(0) | full):
        f.comment("no room: count what is missing")
        f.store(stream, STREAM.at["missing"], tree.load(stream, STREAM.at["missing"]) + wanted)
        f.ret()


def _run(spec: KernelSpec, code: CudaCode) -> tree.Function:
    f = Builder("run", [(p, I64) for p in ("P", "lo", "hi", "S")], doc=f"{spec.name}: note what nodes lo..hi need.")
    arguments = [o for o in spec.operands if o.kind != "shared"]
    results, shared = len(spec.results), len(code.shared)
    stream = f.let("stream", tree.load(f["P"], FIXED + results + shared))
    nodes = f.let("nodes", f["hi"] - f["lo"])
    first = _first(f, nodes) if spec.dims else const(0, I64)
    extents = f.let("extents", first + tree.load(f["P"], PARAMETERS.at["extents"]))

    def number(size: Size) -> Expr:
        return tree.load(extents, size.index) if isinstance(size, Dim) else const(size, I64)

    many: dict[int, Expr] = {o.index: number(o.shape[0]) for o in arguments if o.kind in ("list", "numbers")}
    words = f.let("words", tree.load(stream, STREAM.at["top"]))
    fallible = any(op.site >= 0 for op in spec.body)
    fails = f.let("fails", tree.load(stream, STREAM.at["end"]) - nodes * 8) if fallible else const(0, I64)
    dims = f.let("dims", words + nodes * (8 * len(arguments)))
    table = f.let("table", dims + 8 * spec.dims)
    items = f.let("items", table + 8 * (FIXED + results + shared))
    end: Expr = items
    for size in many.values():
        end = end + nodes * size * 8
    end = f.let("top", (end + 15) & -16)
    limit = fails if fallible else tree.load(stream, STREAM.at["end"])
    _leave_without_room(f, stream, end, limit, end - words + nodes * 8 if fallible else end - words)
    delta = f.let("delta", tree.load(stream, STREAM.at["delta"]))

    resolve = {o.index: _Resolver(f, stream, o.name) for o in arguments if o.kind in ("tensor", "list")}
    row = f.let("row", words)
    with f.loop("i", f["lo"], f["hi"]) as i:
        node = f.let("node", tree.load(tree.load(f["P"], PARAMETERS.at["nodes"]), i))
        for o in arguments:
            word = tree.load(node, o.index)
            if o.kind == "tensor":
                word = resolve[o.index](tree.load(word))
            elif o.kind in ("list", "numbers"):
                source = f.let("source", tree.load(word))
                word = _items(f, source, items, many[o.index], delta, resolve.get(o.index))
            f.store(row + nodes * (8 * o.index), 0, word)
        if fallible:
            f.store(fails + (i - f["lo"]) * 8, 0, 0)
        f.set(row, row + 8)
    found = fails + delta if fallible else fails
    begun = tree.load(f["P"], PARAMETERS.at["begun"])
    head = {"nodes": words + delta, "fails": found, "extents": dims + delta, "begun": begun}
    _write_table(f, _Resolver(f, stream, "place"), table, head, results + shared, first, results if spec.dims else 0)
    for k in range(spec.dims):
        f.store(dims, k, tree.load(extents, k))
    f.store(stream, STREAM.at["top"], end)
    if fallible:
        f.store(stream, STREAM.at["end"], fails)
    kernel = tree.load(f["P"], FIXED + results + shared + 1)
    _launch(f, stream, extents, kernel=kernel, nodes=nodes, table=table + delta, fails=found)
    f.ret()
    return f.function()


def _write_table(
    f: Builder, resolve: _Resolver, table: Local, head: Mapping[str, Expr], entries: int, first: Expr, results: int
) -> None:
    """Write the GPU's table P; where the first so many results of the first node lie, its row says."""
    for name, value in head.items():
        f.store(table, PARAMETERS.at[name], value)
    for k in range(entries):
        word = tree.load(f["P"], FIXED + k)
        f.store(table, FIXED + k, resolve(tree.load(first + word) if k < results else word))


def _first(f: Builder, nodes: Local) -> Expr:
    """Return the argument words of the first node: all have its run-time extents, its results come first."""
    with f.when(nodes.eq(0)):
        f.ret()
    return f.let("first", tree.load(tree.load(f["P"], PARAMETERS.at["nodes"]), f["lo"]))


def _launch(f: Builder, stream: Local, extents: Local, *, kernel: Expr, nodes: Local, table: Expr, fails: Expr) -> None:
    """Add a row to the table of launches."""
    count = f.let("count", tree.load(stream, STREAM.at["launches"]))
    launch = f.let("launch", tree.load(stream, STREAM.at["table"]) + count * ROW.size)
    for name, word in (("kernel", kernel), ("nodes", nodes), ("p", table), ("fails", fails)):
        f.store(launch, ROW.at[name], word)
    f.comment("bytes of scratch, and of rows, which are known already: the next launch overwrites them")
    f.do(tree.Call("sizes", (extents, nodes, f["S"]), tree.VOID))
    f.store(launch, ROW.at["batch"], tree.load(f["S"], 0))
    f.store(launch, ROW.at["warp"], tree.load(f["S"], 1))
    f.store(stream, STREAM.at["total"], tree.load(stream, STREAM.at["total"]) + nodes)
    for name, most in (("nodes", nodes), ("batch", tree.load(f["S"], 0)), ("warp", tree.load(f["S"], 1))):
        with f.when(most > tree.load(stream, STREAM.at[name])):
            f.store(stream, STREAM.at[name], most)
    f.store(stream, STREAM.at["launches"], count + 1)


def _items(
    f: Builder, source: Local, items: Local, many: Expr, delta: Expr, resolve: Callable[[Expr], Expr] | None
) -> Expr:
    """Copy the elements of a list, of tensors by address; return the GPU's address of the copy."""
    first = f.let("first", items)
    with f.loop("k", 0, many) as k:
        element = tree.load(source, k)
        f.store(items + k * 8, 0, element if resolve is None else resolve(tree.load(element)))
    f.set(items, items + many * 8)
    return first + delta
