"""The data of the explorer: its format, what it says of a run, and that its links lead somewhere."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Mapping
from importlib import resources
from typing import Any

import numpy as np
import pytest

from acronumba import value_and_grad
from acronumba.views.explorer.columns import column, numbers
from tests.support import explored
from tests.support.chosen import one_in
from tests.support.zoo_models import ZOO

SCHEMA = json.loads(resources.files("acronumba.views.explorer").joinpath("schema.json").read_text(encoding="utf-8"))


def conforms(data: Mapping[str, Any]) -> None:
    """Assert that data is in the format, and that what it says of one thing agrees with what it says of others."""
    jsonschema = pytest.importorskip("jsonschema", reason="jsonschema is not installed: pip install '.[test-browser]'")
    jsonschema.validate(data, SCHEMA, cls=jsonschema.Draft202012Validator)
    agrees(data)


def agrees(data: Mapping[str, Any]) -> None:
    summary, nodes = data["summary"], {k: numbers(c) for k, c in data["nodes"].items()}
    n = len(nodes["number"])
    assert n == summary["shown"] == len(nodes["kernel"]) == len(nodes["instance"]) == len(nodes["place"])
    assert len(nodes["operands"]) == n + 1 and nodes["operands"][-1] == len(nodes["operand"])
    assert (nodes["operand"] < np.repeat(np.arange(n), np.diff(nodes["operands"]))).all()
    for schedule in data["schedules"]:
        size, kernel = numbers(schedule["size"]), numbers(schedule["kernel"])
        if schedule["batch"] is not None and n == summary["nodes"]:
            batch = numbers(schedule["batch"])
            assert (np.bincount(batch, minlength=len(size)) == size).all()
            assert (kernel[batch] == nodes["kernel"]).all()
            assert (batch[nodes["operand"]] < np.repeat(batch, np.diff(nodes["operands"]))).all()
    assert len(numbers(data["schedules"][0]["size"])) == summary["batches"]
    lines = {(s["file"], s["first"] + k) for s in data["sources"] for k in range(len(s["lines"]))}
    for text in data["texts"]:
        for _, file, line, kernel in text["lines"]:
            assert (file, line) == (-1, -1) or (file < len(data["files"]) and line > 0)
            assert -1 <= kernel < len(data["kernels"])
    linked = {(file, line) for text in data["texts"] for _, file, line, _ in text["lines"] if file >= 0}
    assert linked <= lines, linked - lines
    for kernel in data["kernels"]:
        for file, line, start, end_line, end in kernel["places"]:
            assert (file, line) in lines and (end_line, end) > (line, start)


def data_of(trace: Any, **more: Any) -> dict[str, Any]:
    return dict(trace.explored(**more).data)


def test_columns_come_back() -> None:
    rng = np.random.default_rng(0)
    for values in ([], [5], [-1, 3, 3, -7], rng.integers(-(1 << 30), 1 << 30, 1000).tolist()):
        packed = column(values)
        assert packed["n"] == len(values) and numbers(packed).tolist() == values
    with pytest.raises(OverflowError):
        column([1 << 31])
    with pytest.raises(OverflowError):
        column([-(1 << 30), (1 << 30) + 5])


def test_a_trace_is_told_in_full() -> None:
    xs, p = explored.trees(50), explored.params()
    trace = explored.classify.trace(xs, p=p)
    data = data_of(trace)
    conforms(data)
    assert sorted(k["letter"] for k in data["kernels"]) == ["A", "B", "C"]
    assert sum(k["nodes"] for k in data["kernels"]) == trace.nodes
    assert {s["name"] for s in data["schedules"]} == {"lookahead", "depth", "agenda"}
    assert data["schedules"][0]["name"] == trace.ran.compiled.options.schedule
    assert {t["id"] for t in data["texts"]} >= {"ir", "plan", "host", "analyses", "cpu:0", "cuda:2"}
    assert [o["option"] for o in data["options"]].count("schedule") == 2
    fused = next(o for o in data["options"] if o["option"] == "fuse")
    assert fused["launches"] > data["now"]["launches"] and fused["nodes"] == data["now"]["nodes"]
    assert data == data_of(trace)
    again = explored.classify.explain(xs, p=p)
    told = {(f.file, line.number): set(line.blocks) for f in again.functions for line in f.lines if line.blocks}
    shown: dict[int, set[str]] = {}
    for kernel in data["kernels"]:
        for _, line, *_ in kernel["places"]:
            shown.setdefault(line, set()).add(kernel["letter"])
    assert shown == {line: letters for (_, line), letters in told.items()}


def test_texts_are_linked_to_their_lines() -> None:
    data = data_of(explored.classify.trace(explored.trees(3), p=explored.params()), schedules=False, options=False)
    agrees(data)
    texts = {t["id"]: t["lines"] for t in data["texts"]}
    sources = {(s["file"], s["first"] + k): line for s in data["sources"] for k, line in enumerate(s["lines"])}

    def written(id: str, part: str) -> tuple[str, int]:
        _, file, line, kernel = next(row for row in texts[id] if part in row[0])
        return sources[file, line].strip(), kernel

    tanh = "return np.tanh(p.w @ np.concatenate([encode(t.left, p), encode(t.right, p)]) + p.b)"
    b = next(k for k, kernel in enumerate(data["kernels"]) if kernel["letter"] == "B")
    assert written("ir", "= tanh(") == written("plan", "= tanh(") == (tanh, b)
    assert written(f"cpu:{b}", "= tanh_f") == written(f"cuda:{b}", "= tanh_f") == (tanh, b)
    assert written("host", f"st32(kind, n, {b})") == (tanh, b)
    assert written("analyses", "= matmul: shared p.w;")[0] == tanh


def test_a_long_stage_is_cut_with_a_note(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acronumba.views.explorer.data.MOST_LINES", 20)
    data = data_of(explored.classify.trace(explored.trees(3), p=explored.params()), schedules=False, options=False)
    lengths = {text["id"]: len(text["lines"]) for text in data["texts"]}
    assert max(lengths.values()) == 21
    (note,) = {text["lines"][-1][0] for text in data["texts"] if text["id"] == "host"}
    assert "more lines" in note


def test_calls_tell_kernels_of_one_line_apart() -> None:
    columns, shared = explored.waiting(8)
    data = data_of(explored.waits.trace(*columns, **shared), options=False)
    conforms(data)
    calls = {call for k in data["kernels"] for call in k["calls"]}
    assert any(call.startswith("step, called from ping line ") for call in calls)
    assert any(call.startswith("step, called from pong line ") for call in calls)
    assert data["summary"]["rounds"] > 1 and data["waits"] and not data["options"]
    names = [k["name"] for k in data["kernels"]]
    assert len(set(names)) == len(names) and any("_from_" in name for name in names)


def test_nodes_of_one_kernel_know_the_line_that_recorded_them() -> None:
    given = [bool(k % 3) for k in range(9)]
    data = data_of(explored.either.trace(np.zeros((9, 4), np.float32), given), options=False)
    conforms(data)
    (kernel,) = data["kernels"]
    lines = [line for _, line, *_ in kernel["sites"]]
    assert len(set(lines)) == 2
    found = dict(zip(numbers(data["nodes"]["instance"]), numbers(data["nodes"]["place"]), strict=True))
    assert [lines[found[k]] for k in range(9)] == [min(lines) if left else max(lines) for left in given]


def test_an_empty_mini_batch_and_one_that_fails_are_shown() -> None:
    conforms(data_of(explored.classify.trace([], p=explored.params())))
    trace = explored.hostile.trace([np.zeros(3, np.float32), np.full(3, 2, np.float32)])
    data = data_of(trace)
    conforms(data)
    assert data["errors"]["1"].startswith("ValueError: </script>")


@pytest.mark.long
def test_gradients_show_the_backward_pass() -> None:
    @explored.model
    def loss(t: explored.Tree, *, p: explored.Params) -> float:
        return np.sum(explored.encode(t, p) ** 2)

    trace = value_and_grad(loss).trace(explored.trees(3), p=explored.params())
    data = data_of(trace, schedules=False, options=False)
    conforms(data)
    assert len(data["back"]) == len(trace.back) > 2 and {what for _, what, _ in data["back"]} >= {"nodes", "sum"}


def test_a_trace_that_was_pickled_shows_its_run() -> None:
    trace = explored.classify.trace(explored.trees(3), p=explored.params())
    other = pickle.loads(pickle.dumps(trace))
    data = data_of(other)
    conforms(data)
    whole = data_of(trace, schedules=False, options=False)
    assert all(data["nodes"][name] == whole["nodes"][name] for name in data["nodes"] if name != "place")
    assert not data["texts"] and data["schedules"][0]["size"] == whole["schedules"][0]["size"]


def test_of_many_nodes_whole_instances_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acronumba.views.explorer.data.MOST_NODES", 100)
    trace = explored.classify.trace(explored.trees(20), p=explored.params())
    data = data_of(trace, schedules=False, options=False)
    agrees(data)
    inside = set(numbers(data["nodes"]["instance"]).tolist())
    assert 0 < data["summary"]["shown"] <= 100 < data["summary"]["nodes"] == trace.nodes
    assert inside == set(range(len(inside))) and len(inside) < 20


def test_parts_are_shown_as_one_schedule() -> None:
    trace = explored.classify.with_options(parts=True).trace(explored.trees(400), p=explored.params())
    data = data_of(trace, schedules=False, options=False)
    agrees(data)
    assert data["summary"]["parts"] == trace.parts


@pytest.mark.parametrize(("module", "made"), one_in(12, one_in(2, ZOO, [made.__qualname__ for _, made in ZOO], "slow")))
def test_models_of_the_zoo_can_be_explored(module: Any, made: Any) -> None:
    trace = made.trace(module.instances(3), p=module.params(16))
    data = data_of(trace, options=False)
    conforms(copy.deepcopy(data))
    if trace.rounds == 1:
        assert all(s["batch"] is not None for s in data["schedules"])
