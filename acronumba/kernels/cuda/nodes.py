"""Layout of the words of each node of a batch, as a kernel of a GPU reads them.

Words lie word by word, as those of neighbouring nodes are read together: int64[words, nodes]. A node of a kernel
without run-time extents has its argument words. With run-time extents it has these too, the addresses of its results,
and its offset in the scratch of the batch. Behind the words of all nodes lie the `starts`: int64[counted, nodes + 1],
the number of rows, or tiles of rows, before each node's, and their total.
"""

from __future__ import annotations

from acronumba.ir.spec import KernelSpec
from acronumba.kernels.stages.index import ONE, Poly
from acronumba.records import record


@record()
class Counted:
    """A count of each node: of rows, or of tiles of `height` rows."""

    rows: Poly
    height: int = 1
    times: Poly = ONE  # number of matrices of so many rows


@record()
class NodeTable:
    """Numbers of words of a node, in order: arguments, run-time extents, addresses of results, offset in scratch."""

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
        """Return the number of the word with the address of a result."""
        return self.arguments + self.dims + k

    @property
    def place(self) -> int:
        """Number of the word with the node's offset in the scratch of the batch."""
        return self.arguments + self.dims + self.results
