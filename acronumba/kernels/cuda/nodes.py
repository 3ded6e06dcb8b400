"""What a kernel of a GPU finds of each node of a batch, beside what all have in common.

Words of nodes lie word by word, as neighbours are read together: int64[words, nodes]. A node of a kernel without
run-time extents has its argument words. With run-time extents each node has its own: then it has these too, the
addresses of its results, and its place in the scratch of the batch. Behind the words of all nodes lie the `starts`:
int64[counted, nodes + 1], how many rows, or tiles of rows, come before those of each node, and how many there are.
"""

from __future__ import annotations

from acronumba.ir.spec import KernelSpec
from acronumba.kernels.stages.index import ONE, Poly
from acronumba.records import record


@record()
class Counted:
    """What is counted of each node: rows, or tiles of so many rows."""

    rows: Poly
    height: int = 1
    times: Poly = ONE  # how often there are so many rows


@record()
class NodeTable:
    """Which words a node has, in their order: arguments, run-time extents, addresses of results, its place."""

    arguments: int
    dims: int = 0
    results: int = 0
    places: int = 0  # 1: bytes of scratch of the batch before those of the node
    counted: tuple[Counted, ...] = ()

    @classmethod
    def of(cls, spec: KernelSpec, places: bool, counted: tuple[Counted, ...]) -> NodeTable:
        """Return the table of a kernel."""
        arguments = sum(o.kind != "shared" for o in spec.operands)
        if not spec.dims:
            return cls(arguments)
        return cls(arguments, spec.dims, len(spec.results), int(places), counted)

    @property
    def words(self) -> int:
        """Words of a node."""
        return self.arguments + self.dims + self.results + self.places

    def result(self, k: int) -> int:
        """Return which word is the address of a result."""
        return self.arguments + self.dims + k

    @property
    def place(self) -> int:
        """Which word is its place in the scratch of the batch."""
        return self.arguments + self.dims + self.results
