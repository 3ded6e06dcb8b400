"""The dataflow graph as a networkx graph and as DOT text.

In: a `TraceData`. Out: a `networkx.DiGraph` with one node per DFG node, or text for Graphviz, deterministic and
escaped.
"""

from __future__ import annotations

from collections import Counter

import networkx as nx
import numpy as np
from numpy.typing import NDArray

from acronumba.ir.spec import Dim, KernelSpec
from acronumba.runtime.trace import TraceData

DOT_LIMIT = 2000  # nodes; Graphviz needs minutes beyond that
_COLOURS = (
    "#8ecae6",
    "#ffb703",
    "#90be6d",
    "#f4978e",
    "#cdb4db",
    "#d4a373",
    "#a8dadc",
    "#e9c46a",
    "#bde0fe",
    "#d8e2dc",
)


def result_shapes(spec: KernelSpec) -> tuple[str, ...]:
    """Return each result of the kernel as "float32[d0, 256]"; d0, d1, ... are run-time extents."""
    out = []
    for k in spec.results:
        op = spec.body[k - len(spec.operands)]
        extents = ", ".join(f"d{n.index}" if isinstance(n, Dim) else str(n) for n in op.shape)
        out.append(f"{op.dtype}[{extents}]")
    return tuple(out)


def graph(trace: TraceData) -> nx.DiGraph[int]:
    """Return the dataflow graph as a `networkx.DiGraph`.

    Nodes are numbered in order of recording, with attributes `kernel` (name), `depth`, `phase`, `batch`, `instance`
    (integers), `instances` (all instances that use the node, in order) and `shapes` (one text per result). An edge
    leads from the producer of a value to a consumer.
    """
    out: nx.DiGraph[int] = nx.DiGraph()
    shapes = [result_shapes(spec) for spec in trace.specs]
    takers: list[list[int]] = [[] for _ in range(trace.nodes)]
    for node, instance in trace.takers.tolist():
        takers[node].append(instance)
    columns = [c.tolist() for c in (trace.kernel, trace.depth, trace.phase, trace.batch, trace.instance)]
    for node, (kind, depth, phase, batch, instance) in enumerate(zip(*columns, strict=True)):
        out.add_node(
            node,
            kernel=trace.kernels[kind],
            depth=depth,
            phase=phase,
            batch=batch,
            instance=instance,
            instances=tuple(dict.fromkeys(takers[node])),
            shapes=shapes[kind] if kind < len(shapes) else (),
        )
    out.add_edges_from(trace.edges.reshape(-1, 2).tolist())
    return out


def trace_dot(trace: TraceData, limit: int = DOT_LIMIT) -> str:
    """Return the graph in DOT: one box per batch, one colour per kernel.

    At most `limit` nodes are drawn, the first in order of execution; a comment and a note say how many are left out.
    """
    shown = trace.order[:limit].tolist()
    kept = set(shown)
    left_out = trace.nodes - len(shown)
    lines = ["digraph dfg {", "  rankdir=BT;", '  node [shape=box, style="filled,rounded", fontname="sans-serif"];']
    if left_out > 0:
        lines += [
            f"  // {left_out} nodes are left out",
            f"  more [label={quote(f'{left_out} more nodes')}, shape=plaintext];",
        ]
    more = Counter(trace.sharers[:, 0].tolist())
    batches: dict[int, list[int]] = {}
    for node in shown:
        batches.setdefault(int(trace.batch[node]), []).append(node)
    for number, nodes in batches.items():
        record = trace.batches[number] if 0 <= number < len(trace.batches) else None
        where = f", phase {record.phase}, depth {record.depth}" if record else ""
        lines += [f"  subgraph cluster_{number} {{", f"    label={quote(f'batch {number}{where}')};"]
        for node in nodes:
            kind = int(trace.kernel[node])
            shapes = ", ".join(result_shapes(trace.specs[kind])) if kind < len(trace.specs) else ""
            whose = f"instance {trace.instance[node]}" + (f" and {more[node]} more times" if more[node] else "")
            label = "\n".join(filter(None, [trace.kernels[kind], whose, shapes]))
            lines.append(f"    n{node} [label={quote(label)}, fillcolor={quote(_COLOURS[kind % len(_COLOURS)])}];")
        lines.append("  }")
    for a, b in trace.edges.reshape(-1, 2).tolist():
        if a in kept and b in kept:
            lines.append(f"  n{a} -> n{b};")
    return "\n".join([*lines, "}"]) + "\n"


def quote(text: str) -> str:
    """Return the text as a quoted string of DOT; line breaks stay line breaks."""
    text = text.replace("\\", "\\\\").replace('"', '\\"').replace("\r", "").replace("\n", "\\n")
    return f'"{"".join(c if c.isprintable() else " " for c in text)}"'


def operands_of(trace: TraceData) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return `start` (int64[n+1]) and `producers`: node k reads `producers[start[k]:start[k + 1]]`."""
    edges = trace.edges.reshape(-1, 2)
    by_consumer = np.argsort(edges[:, 1], kind="stable")
    start = np.searchsorted(edges[by_consumer, 1], np.arange(trace.nodes + 1))
    return start, edges[by_consumer, 0]
