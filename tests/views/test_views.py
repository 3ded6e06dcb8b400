"""What a traced run looks like: report, graph, HTML, Perfetto; texts of stages; progress bars."""

from __future__ import annotations

import io
import itertools
import json
import re
import subprocess
import sys
import time
from typing import Any
from xml.etree import ElementTree

import networkx as nx
import numpy as np
import pytest
from rich.console import Console

from acronumba.errors import NOWHERE
from acronumba.ir.spec import Dim, KernelOp, KernelSpec
from acronumba.runtime.trace import BatchRecord, TraceData, empty_trace
from acronumba.views import graphs, perfetto, pictures, report, stages
from acronumba.views.progress import progress


def spec(name: str, *shape: Any) -> KernelSpec:
    return KernelSpec(name, (), 0, (KernelOp("const", (), (0.0,), "float32", shape, "x", -1, NOWHERE),), (0,))


def full_trees(instances: int, levels: int, names: tuple[str, str] = ("leaf_3", "cell_7"), **changes: Any) -> TraceData:
    """The trace of full binary trees with 2 ** levels leaves: a batch of leaves, then one per level."""
    kinds, depth, inst, edges = [], [], [], []
    for i in range(instances):
        level = []
        for _ in range(2**levels):
            level.append(len(kinds))
            kinds.append(0)
            depth.append(0)
            inst.append(i)
        for d in range(levels):
            above = []
            for a, b in zip(level[::2], level[1::2], strict=True):
                edges += [(a, len(kinds)), (b, len(kinds))]
                above.append(len(kinds))
                kinds.append(1)
                depth.append(d)
                inst.append(i)
            level = above
    column = {k: np.array(v, np.int32) for k, v in {"kernel": kinds, "depth": depth, "instance": inst}.items()}
    batch = np.where(column["kernel"] == 0, 0, column["depth"] + 1).astype(np.int32)
    sizes = np.bincount(batch)
    batches = tuple(
        BatchRecord(phase=int(k > 0), depth=max(k - 1, 0), kernel=names[k > 0], size=int(n))
        for k, n in enumerate(sizes)
    )
    values: dict[str, Any] = {
        **column, "nodes": len(kinds), "phase": column["kernel"], "batch": batch,
        "order": np.argsort(batch, kind="stable").astype(np.int32),
        "edges": np.array(edges, np.int32).reshape(-1, 2), "kernels": names,
        "specs": (spec(names[0], 256), spec(names[1], Dim(0), 256)), "batches": batches, "lower_bound": len(batches),
        "optimal": True, "rounds": 1, "peak_bytes": 3 << 20,
        "seconds": {"pack": 1e-4, "record": 2e-5, "schedule": 1e-5, "layout": 1e-5, "execute": 1e-3, "total": 1.2e-3},
    }  # fmt: skip
    return TraceData(**(values | changes))


def test_report_says_what_happened_in_80_columns() -> None:
    trace = full_trees(8, 3)
    text = report.trace_text(trace, "sentiment")
    assert text == report.trace_text(trace, "sentiment")
    assert max(map(len, text.splitlines())) <= 80
    assert "sentiment: 120 nodes in 4 batches, at least 4, proved optimal" in text
    assert re.search(r"batches\s+4\s+kernel calls with batching: 30\.0 nodes each", text)
    assert re.search(r"execute\s+1\.00 ms\s+█{10,}", text)
    assert re.search(r"^\s*0\s+0\s+0\s+leaf_3\s+64\s+█+$", text, re.M)
    assert re.search(r"^\s*3\s+1\s+2\s+cell_7\s+8\s+█+$", text, re.M)
    assert "float32[d0, 256]" in text
    assert "memory" in text and "3.0 MiB" in text
    assert "\x1b" not in text


def test_bars_are_in_proportion() -> None:
    lines = [
        line for line in report.trace_text(full_trees(8, 3)).splitlines() if re.match(r"\s+\d+\s.*(leaf|cell)_\d", line)
    ]
    bars = [line.count("█") for line in lines]
    assert len(bars) == 4
    assert bars[0] > 2 * bars[2] > 0
    assert abs(bars[0] - 2 * bars[1]) <= 1


def test_long_reports_are_cut_and_say_so() -> None:
    batches = tuple(BatchRecord(phase=0, depth=k, kernel="leaf_3", size=1) for k in range(1000))
    trace = full_trees(500, 2, batches=batches, lower_bound=900, optimal=False)
    text = report.trace_text(trace)
    assert "1,000 batches, at least 900" in text
    assert "proved" not in text
    assert "... and 960 more batches" in text
    assert "more nodes" in text
    assert len(text.splitlines()) < 120


def test_dataflow_goes_from_the_last_value_down() -> None:
    text = report.trace_text(full_trees(1, 2))
    tree = text[text.index("Dataflow") :].splitlines()
    assert "6 cell_7" in tree[1]
    assert [line.split("── ")[1].split()[0] for line in tree[1:8]] == ["6", "4", "0", "1", "5", "2", "3"]


def test_deep_and_shared_graphs_print() -> None:
    n = 60_000
    chain = np.stack([np.arange(n - 1), np.arange(1, n)], 1).astype(np.int32)
    twice = np.concatenate([chain, chain])  # every value is used twice: paths are exponentially many
    zeros = np.zeros(n, np.int32)
    columns = {
        "kernel": zeros,
        "depth": np.arange(n, dtype=np.int32),
        "instance": zeros,
        "phase": zeros,
        "batch": zeros,
    }
    trace = full_trees(1, 1, nodes=n, edges=twice, order=np.arange(n, dtype=np.int32), **columns)
    start = time.perf_counter()
    text = report.trace_text(trace)
    assert time.perf_counter() - start < 10
    assert "(above)" in text or "..." in text


def test_empty_run_prints() -> None:
    text = report.trace_text(empty_trace())
    assert "0 nodes in 0 batches" in text
    assert graphs.trace_dot(empty_trace()).count("->") == 0
    assert json.loads(perfetto.trace_json(empty_trace()))["traceEvents"]


def test_no_color_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    def printed() -> str:
        out = io.StringIO()
        report.print_trace(full_trees(2, 1), console=Console(file=out, force_terminal=True, width=80))
        return out.getvalue()

    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert "\x1b[36m" in printed()
    monkeypatch.setenv("NO_COLOR", "1")
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]m", printed())


def test_ascii_terminals_get_ascii_bars() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")
    report.print_trace(full_trees(2, 1), console=Console(file=out, width=80))
    out.flush()
    assert b"####" in raw.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"), [(2.5, "2.50 s"), (0.0123, "12.3 ms"), (4e-6, "4.00 us"), (0.0, "0.00 us")]
)
def test_times(seconds: float, text: str) -> None:
    assert report.seconds_text(seconds) == text


def test_graph_has_every_node_and_edge() -> None:
    trace = full_trees(3, 2)
    g = graphs.graph(trace)
    assert g.number_of_nodes() == trace.nodes == 21
    assert g.number_of_edges() == 18
    assert nx.is_directed_acyclic_graph(g)
    root = next(n for n in g if g.out_degree(n) == 0)
    assert g.nodes[root] == {
        "kernel": "cell_7", "depth": 1, "phase": 1, "batch": 2, "instance": 0, "instances": (0,),
        "shapes": ("float32[d0, 256]",),
    }  # fmt: skip
    assert list(g.predecessors(root)) == [4, 5]


def test_dot_is_escaped_and_capped() -> None:
    trace = full_trees(2, 2, names=('le"af\\', "cell\n7"))
    text = graphs.trace_dot(trace)
    assert r'label="le\"af\\\ninstance 0\nfloat32[256]"' in text
    assert text.count(" -> ") == 12
    assert text.count("subgraph") == 3
    assert 'label="batch 2, phase 1, depth 1"' in text
    assert "\n7" not in text
    assert text == graphs.trace_dot(trace)
    cut = graphs.trace_dot(trace, limit=4)
    assert len(re.findall(r"^    n\d+ ", cut, re.M)) == 4
    assert '"10 more nodes"' in cut


def test_perfetto_has_a_slice_per_batch() -> None:
    trace = full_trees(8, 3)
    events = json.loads(perfetto.trace_json(trace))["traceEvents"]
    slices = [e for e in events if e["ph"] == "X"]
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    named = {e["name"]: e for e in slices if e["name"] in trace.seconds}
    assert list(named) == ["pack", "record", "schedule", "layout", "execute"]
    batches = [e for e in slices if "batch" in e["args"]]
    assert [e["args"]["nodes"] for e in batches] == [b.size for b in trace.batches]
    assert {tracks[e["tid"]] for e in batches} == {"execute, phase 0", "execute, phase 1"}
    execute = named["execute"]
    assert sum(e["dur"] for e in batches) == pytest.approx(execute["dur"], abs=0.01)
    assert batches[0]["ts"] == pytest.approx(execute["ts"])
    for a, b in itertools.pairwise(batches):
        assert b["ts"] == pytest.approx(a["ts"] + a["dur"], abs=0.01)
    assert "not measured" in batches[0]["args"]["time"]


def test_perfetto_uses_measured_times() -> None:
    batches = (
        BatchRecord(phase=0, depth=0, kernel="leaf_3", size=2, seconds=4e-4),
        BatchRecord(phase=1, depth=0, kernel="cell_7", size=1, seconds=1e-4),
    )
    events = json.loads(perfetto.trace_json(full_trees(1, 1, batches=batches)))["traceEvents"]
    assert [e["dur"] for e in events if e["ph"] == "X" and "batch" in e["args"]] == [400.0, 100.0]


# Stages.

TEXTS = {
    "source": "def f(x):\n    return x\n", "ir": "def f(x):\n 0: y = neg x", "plan": "kernel f_1:\n",
    "kernels/f_1/cpu": "def run(P):\n    " + "a = b + " * 40 + "c\n",
    "kernels/f_1/cuda": "@cuda.jit\ndef f_1_0(P): ...\n",
}  # fmt: skip


def stage_text(*names: str, width: int = 80) -> str:
    out = io.StringIO()
    stages.print_stages(TEXTS, names, console=Console(file=out, width=width, color_system=None))
    return out.getvalue()


def test_one_stage_prints_exactly_its_text() -> None:
    assert stage_text("source") == TEXTS["source"]
    assert stage_text("kernels/f_1/cpu") == TEXTS["kernels/f_1/cpu"]  # long lines are not cut
    assert stage_text("ir") == TEXTS["ir"] + "\n"


def test_stages_are_chosen_by_name_or_folder() -> None:
    text = stage_text("kernels")
    assert "kernels/f_1/cpu ─" in text
    assert "@cuda.jit" in text
    assert "neg x" not in text
    assert all(name in stage_text() for name in TEXTS)
    with pytest.raises(KeyError, match="no stage 'machine'; there are: source, ir"):
        stage_text("machine")


def test_stages_are_coloured_at_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    out = io.StringIO()
    stages.print_stages(TEXTS, ["source"], console=Console(file=out, force_terminal=True, color_system="standard"))
    assert "\x1b[" in out.getvalue()
    assert re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()) == TEXTS["source"]


# Progress.


def test_progress_appears_after_a_while_at_a_terminal_only() -> None:
    def shown(terminal: bool, delay: float, lasts: float) -> tuple[bool, str]:
        out = io.StringIO()
        with progress("compiling", total=3, console=Console(file=out, force_terminal=terminal), delay=delay) as step:
            step(1, "compiling leaf_3")
            time.sleep(lasts)
            step()
        assert step.done == 2
        return step.shown, out.getvalue()

    assert shown(terminal=True, delay=30, lasts=0) == (False, "")
    assert shown(terminal=False, delay=0, lasts=0.1) == (False, "")
    appeared, text = shown(terminal=True, delay=0, lasts=0.3)
    assert appeared
    assert "compiling leaf_3" in text


def test_progress_ends_when_the_body_fails() -> None:
    out = io.StringIO()

    def body() -> None:
        with progress("x", console=Console(file=out, force_terminal=True), delay=0):
            time.sleep(0.05)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        body()
    length = len(out.getvalue())
    time.sleep(0.3)
    assert len(out.getvalue()) == length  # the bar does not go on


def test_only_views_import_rich_and_networkx() -> None:
    code = (
        "import sys, acronumba.ir.interpret, acronumba.ir.verify\n"
        "import acronumba.ir.reference, acronumba.runtime.trace\n"
        "print([m for m in ('rich', 'networkx', 'numba') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "[]"


def test_the_schedule_is_drawn_with_a_bar_for_each_batch() -> None:
    trace = full_trees(3, 2)
    root = ElementTree.fromstring(pictures.schedule_svg(trace, "<a & b>"))
    texts = [e.text for e in root.iter() if e.tag.endswith("text")]
    assert texts[0] == "<a & b>: 21 nodes in 3 batches (no schedule has fewer)"
    assert [int(t) for t in texts if t and t.isdecimal()] == [b.size for b in trace.batches]


def test_the_graph_of_an_instance_has_each_node_and_edge_once() -> None:
    trace = full_trees(3, 3)
    root = ElementTree.fromstring(pictures.graph_svg(trace, "trees", 1))
    circles = [(e.get("cx"), e.get("cy")) for e in root.iter() if e.tag.endswith("circle")]
    mine = np.flatnonzero(trace.instance == 1)
    assert len(circles) == len(set(circles)) == len(mine) == 15
    assert sum(e.tag.endswith("path") for e in root.iter()) == int(np.isin(trace.edges[:, 1], mine).sum())
    with pytest.raises(ValueError, match="0 nodes"):
        pictures.graph_svg(trace, "trees", 3)


def test_bars_end_where_their_numbers_say() -> None:
    text = pictures.bars_svg("times", {"a": [1.0, 10.0], "b": [None, 100.0]}, ["x", "y"], "times")
    bars = [e for e in ElementTree.fromstring(text).iter() if e.tag.endswith("rect") and e.get("height") == "6"]
    first, second, third = (float(e.get("width") or 0) for e in bars)
    assert first == 1 and third == pytest.approx(2 * second, abs=0.2)
