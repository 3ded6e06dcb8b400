"""Kernels as nodes of a graph: what one does is written in a table, so that a graph serves many mini-batches.

In: the code of a kernel. Out: a kernel for each of its functions, `NAME_node(row)`, which does what rows of NODE say.

*The gate.* A node begins before those before it have ended, where the GPU can do that: so the table, addresses and
weights arrive while others still work (`kernels.cuda.gate`). Behind the gate all earlier nodes have ended, as each
block of each node waits for that, also one that has nothing to do. Without such a GPU nodes follow each other.
"""

from __future__ import annotations

from acronumba.emit import simt
from acronumba.emit.words import RecordLayout
from acronumba.kernels.cuda import own
from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.own import Placed
from acronumba.kernels.cuda.tiles import Tile
from acronumba.records import record

NODE = RecordLayout("""
first       the first of the blocks of the node that run a batch,
blocks      ... and how many do; 0: the node has nothing to do
nodes       of the batch
p           its table P
scratch     S
warps       T
more        bytes from this row to the next one of the same node; 0: there is none
unused      so that a row lies in one line of the cache
""")
_GATE = "earlier_have_ended()"
_NODE = f'''@cuda.jit
def {{entry}}(row):
    """Do what a row says, and those behind it."""
    next_may_begin()
    left = 1
    while left != 0:
        block = i64(cuda.blockIdx.x) - ld(row, {NODE.at["first"]})
        blocks = ld(row, {NODE.at["blocks"]})
        if block >= 0 and block < blocks:
            P = ld(row, {NODE.at["p"]})
            nodes = ld(row, {NODE.at["nodes"]})
            S = ld(row, {NODE.at["scratch"]})
            T = ld(row, {NODE.at["warps"]})
{{gate}}            {{name}}(blocks, block, P, nodes, S, T)
            return
        left = ld(row, {NODE.at["more"]})
        row += left
    {_GATE}
'''


@record()
class NodeCode:
    """The functions of a kernel as nodes of graphs."""

    text: str
    entries: tuple[str, ...]
    tiles: tuple[Tile, ...]
    operations: tuple[Placed, ...] = ()
    parameters: int = 1
    pool: int = 0  # the most bytes that a block shares beside those of the text

    @property
    def source(self) -> str:
        """Source text of the functions and of the tiles that they call."""
        return "\n\n".join([*(tile.text() for tile in self.tiles), self.text])


def nodes_of(code: CudaCode) -> NodeCode:
    """Return the functions of a kernel as nodes of graphs."""
    launched = simt.Setting(block="block", blocks="blocks", first=("blocks", "block"), gate=_GATE)
    texts = [own.text_of(call) for call, _ in code.operations]
    for part in simt.parts(code.module):
        texts.append(part.write(launched if part.name in code.entries else simt.ALONE))
        if part.name in code.entries:
            gate = "" if part.gates else f"            {_GATE}\n"
            texts.append(_NODE.format(entry=f"{part.name}_node", name=part.name, gate=gate))
    entries = tuple(f"{name}_node" for name in code.entries)
    return NodeCode("\n\n".join(texts), entries, code.tiles, code.operations, pool=code.pool)
