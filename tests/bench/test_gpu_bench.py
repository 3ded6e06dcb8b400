"""`benchmarks/gpu.py` without a GPU: children that die, the order of steps, the simulator, what is written."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import relay as relaying
from acronumba import model
from acronumba.api.model import Model
from acronumba_bench import lessons, workloads
from relay import Request, answer, relay
from tests.support.clocked_driver import Measured
from tests.support.device_runs import sequences, weights
from tests.support.modules import import_file

ROOT = Path(__file__).parent.parent.parent

CHILD = """
import importlib.util, os, sys, time
spec = importlib.util.spec_from_file_location("relay", sys.argv[1])
relay = importlib.util.module_from_spec(spec)
sys.modules["relay"] = relay
spec.loader.exec_module(relay)
def die():
    os.write(2, b"a last word")
    os._exit(3)
def say(n):
    print("what libraries print")
    return [n, os.getpid()]
relay.serve({"say": say, "die": die, "sleep": lambda seconds: time.sleep(seconds), "fail": lambda: 1 // 0})
"""


def asked(*requests: Request, **options: Any) -> tuple[list[tuple[str, dict[str, Any]]], list[Request]]:
    found: list[tuple[str, dict[str, Any]]] = []
    command = [sys.executable, "-I", "-S", "-c", CHILD, str(relaying.__file__)]
    left = relay(requests, command, lambda request, reply: found.append((request.name, reply)), **options)
    return found, left


def test_a_child_that_dies_costs_one_reply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relaying, "START", 5.0)
    say = [Request(do="say", args={"n": k}) for k in range(4)]
    sleep = Request(do="sleep", args={"seconds": 60}, cap=0.1)
    monkeypatch.setattr(relaying._Child, "ask", patient(relaying._Child.ask))
    found, left = asked(say[0], say[1], Request(do="die"), say[2], Request(do="fail"), sleep, say[3])
    assert [name for name, _ in found] == ["say 0", "say 1", "die", "say 2", "fail", "sleep 60", "say 3"] and not left
    replies = [reply for _, reply in found]
    pids = [reply["result"][1] for reply in replies if "result" in reply]
    assert len(set(pids)) == 3 and pids[0] == pids[1]
    assert replies[2] == {"error": "the process ended with status 3", "stderr": "a last word"}
    assert replies[4]["error"].startswith("ZeroDivisionError") and "Traceback" in replies[4]["stderr"]
    assert replies[5]["error"] == "took longer than 0 s"


def patient(ask: Any) -> Any:
    def asked(self: Any, request: Request, seconds: float) -> Any:
        self.allowed = 0.5 if request.do == "sleep" else self.allowed
        return ask(self, request, seconds)

    return asked


def test_what_there_is_no_time_for_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    say = [Request(do="say", args={"n": k}) for k in range(3)]
    found, left = asked(*say, end=time.monotonic() - 1)
    assert not found and left == say
    sleep = Request(do="sleep", args={"seconds": 60})
    monkeypatch.setattr(relaying._Child, "ask", patient(relaying._Child.ask))
    found, left = asked(sleep, *say, end=time.monotonic() + 0.2)
    assert not found and left == [sleep, *say]
    found, left = asked(*say, at_once=2)
    assert sorted(name for name, _ in found) == ["say 0", "say 1", "say 2"] and not left


# ---------------------------------------------------------------------------------------------------------- the runner


@model
def doubled(x: np.ndarray, *, p: np.ndarray) -> np.ndarray:
    return p @ x * 2.0


@model
def of_doubled(x: np.ndarray, y: float, *, p: np.ndarray) -> Any:
    return np.sum(p @ x * y)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, whose children are functions, and whose zoo is small."""
    module = import_file(ROOT / "benchmarks" / "gpu.py", "gpu_program")
    workload = SimpleNamespace(
        name="doubled", model=doubled, params=lambda size: weights(), instances=lambda n: sequences(n)[0], read=None
    )
    monkeypatch.setattr(workloads, "WORKLOADS", {"doubled": workload})
    lesson = lessons.Lesson(workload=workload, loss=of_doubled, labels=lambda rng, x: float(rng.random()))  # type: ignore[arg-type]
    monkeypatch.setattr(lessons, "LESSONS", {"doubled": lesson})
    monkeypatch.setattr("acronumba.bench.speed._TRACES", 1)
    on = Model.on
    monkeypatch.setattr(Model, "on", lambda self, device: on(self, "simulator"))  # nothing is compiled for another one

    def here(requests: Any, command: Any, report: Any, *, end: float = 0, at_once: int = 1) -> list[Request]:
        for request in requests:
            given = json.loads(json.dumps({"do": request.do, "args": request.args}))
            report(request, json.loads(json.dumps(answer(module.CHILD, given))))
        return []

    monkeypatch.setattr(module, "relay", here)
    return module


def test_the_whole_program_in_the_simulator(gpu: ModuleType, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "gpu.json"
    rest = "--device simulator --models doubled --size 4 --batch 2 --rounds 1 --json".split()
    assert gpu.main([*rest, str(file)]) == 0, capsys.readouterr().out
    data = json.loads(file.read_text())
    assert data["versions"]["python"] and data["device"] == "simulator"
    assert data["checks"]["doubled 4"]["verdict"] in ("equal", "close")
    (row,), (looked,) = data["rows"], data["timelines"]
    assert len(looked["after a pause of"]) == 3 and looked["stages"]["execute"] > 0
    assert set(looked["persistent"]) == {"None", "True", "graph", "False"}
    assert (row["launches"], row["nodes"], row["reasons"]) == (1, 2, {})
    assert set(row["seconds"]) == {"ours, objects", "ours, packed", "ours, on the processor"}
    assert data["gradients"]["doubled 4"] | {"first": 0} == {"verdict": "close", "error": 0.0, "first": 0, "arrays": 1}
    (step,) = data["steps"]
    assert not step["wrong"] and set(step["seconds"]) == {
        "ours, objects", "ours, packed", "ours, no update", "ours, no gradients", "ours, on the processor",
        "multiply and add", "ours, parameters on the device",
    }  # fmt: skip
    assert [line.split(":")[0] for line in capsys.readouterr().out.splitlines()] == [
        "about simulator", "timeline doubled 4 2 simulator 1", "check doubled 4 simulator",
        "gradients doubled 4 simulator", "row doubled 4 2 simulator 1", "step doubled 4 2 simulator 1",
    ]  # fmt: skip


@pytest.mark.parametrize(("half", "wanted"), [
    ("training", ["about", "gradients", "step"]), ("inference", ["about", "timeline", "check", "row"]),
])  # fmt: skip
def test_one_half_alone(gpu: ModuleType, half: str, wanted: list[str], capsys: Any) -> None:
    rest = "--device simulator --models doubled --size 4 --batch 2 --rounds 1 --only".split()
    assert gpu.main([*rest, half]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == wanted


def test_gradients_that_differ_are_told_and_no_step_is_timed(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setitem(gpu.CHILD, "gradients", lambda **_: {"verdict": "different", "error": 0.5})
    assert gpu.main("--device simulator --models doubled --size 4 --only training".split()) == 1
    out = capsys.readouterr().out
    assert "wrong: gradients of doubled 4: different, 5.0e-01" in out and "step" not in out


def test_wrong_results_are_told_and_not_timed(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    monkeypatch.setitem(gpu.CHILD, "check", lambda **_: {"verdict": "different", "error": 0.5})
    assert gpu.main("--device simulator --models doubled --size 4 --batch 2 --rounds 1 --only inference".split()) == 1
    out = capsys.readouterr().out
    assert "wrong: doubled 4: different, 5.0e-01" in out and "row" not in out
    monkeypatch.setitem(gpu.CHILD, "check", lambda **_: 1 // 0)
    assert gpu.main("--device simulator --models doubled --size 4 --batch 2 --rounds 1 --only inference".split()) == 1
    assert "wrong: check doubled 4 simulator: ZeroDivisionError" in capsys.readouterr().out


def test_models_that_do_not_exist_are_rejected(gpu: ModuleType, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        gpu.main("--device simulator --models nobody".split())
    assert ended.value.code == 2 and "no model 'nobody'; there are: doubled" in capsys.readouterr().err


def test_rows_that_lose_most_come_with_their_reasons(gpu: ModuleType) -> None:
    def row(name: str, own: float, by_hand: float, graph: float) -> dict[str, Any]:
        times = {"ours, packed": own, "PyTorch by hand": by_hand, "PyTorch by hand in a CUDA graph": graph}
        return {"workload": name, "launches": 7, "seconds": {k: {"median": v} for k, v in times.items()}}

    first, second = gpu.slowest([row("a", 1.0, 3.0, 2.0), row("b", 1.0, 0.5, 0.8)])
    assert (first["workload"], first["times"], first["of"], first["launches"]) == ("b", 2.0, "PyTorch by hand", 7)
    assert second["times"] == 0.5 and second["of"].endswith("graph")


@pytest.mark.skipif(os.name != "posix", reason="the stand-in for compute-sanitizer is a shell script")
@pytest.mark.parametrize(("status", "wrong"), [(0, 0), (77, 3)])
def test_compute_sanitizer(
    gpu: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int, wrong: int
) -> None:
    program = tmp_path / "compute-sanitizer"
    program.write_text(f"#!/bin/sh\necho $0 $2\necho '========= ERROR SUMMARY: 0 errors'\nexit {status}\n")
    program.chmod(0o700)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    report = gpu.Report(None)
    gpu.sanitize(report, "cuda", 4, time.monotonic() + 100)
    assert len(report.wrong) == wrong
    assert report.data["sanitizer"]["racecheck"].startswith("found: " if status else "ERROR SUMMARY: 0 errors")
    gpu.sanitize(report, "cuda", 4, time.monotonic())
    assert report.data["sanitizer"]["memcheck"] == "no time left"


def test_what_comes_first_on_a_gpu(gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    """All requests that the program makes there, in their order; each is answered without a GPU."""
    monkeypatch.setattr("acronumba.runtime.devices.driver.missing", lambda ordinal=0: "")
    monkeypatch.setattr(gpu.shutil, "which", lambda name: None)
    close = {"verdict": "close", "error": 0.0}
    timed = {"workload": "doubled", "size": 4, "instances": 2, "seconds": {}, "verdicts": {}, "launches": 1, "nodes": 2}
    answers = {
        "about": {"versions": {"torch": "2"}}, "floor": {}, "clock": {}, "alone": [], "timeline": {},
        "check": close, "gradients": close,
        "row": timed, "step": {**timed, "errors": {"x": 0.0}, "wrong": False}, "library": {},
    }  # fmt: skip
    for name, result in answers.items():
        monkeypatch.setitem(gpu.CHILD, name, lambda result=result, **_: result)
    monkeypatch.setattr(gpu, "ALONE", ("doubled",))
    monkeypatch.setattr("acronumba_bench.gpu.profiler.program", str)
    assert gpu.main("--models doubled --size 4 --batch 2".split()) == 0, capsys.readouterr().out
    came = [line.split(":")[0].split()[0] for line in capsys.readouterr().out.splitlines()]
    assert list(dict.fromkeys(came)) == [
        "about", "floor", "clock", "alone", "profiled", "timeline", "check", "gradients", "row", "step",
        "compute-sanitizer", "library",
    ]  # fmt: skip
    assert gpu.main("--models doubled --size 4 --batch 2 --only kernels".split()) == 0
    came = [line.split(":")[0].split()[0] for line in capsys.readouterr().out.splitlines()]
    assert list(dict.fromkeys(came)) == ["about", "floor", "clock", "alone", "profiled"]


def test_kernels_alone_and_instructions_are_compared_with_estimates(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    import cubins
    from acronumba_bench.gpu import alone, instructions, meter

    opened = meter.Meter(0, Measured())
    monkeypatch.setattr(meter, "Meter", lambda ordinal: opened)
    monkeypatch.setattr(opened, "load", list)
    monkeypatch.setattr("cubins.different", lambda model, size: [(SimpleNamespace(name="cell_1"), None)])
    times = {"function": "cell_1_0", "rows": 8, "warm us": 2.0, "GHz": 2.0}
    monkeypatch.setattr(alone.Alone, "functions", lambda *_: [times, {**times, "rows": 16}])
    estimates = tmp_path / "estimates.json"
    row = {"model": "doubled", "size": 4, "function": "cell_1_0", "rows": 8, "cycles": 3000}
    cases = {"SHFL chained": {"1": 26.0}}
    estimates.write_text(json.dumps({"estimates": [row], "instructions": cases}))
    monkeypatch.setattr(gpu, "ESTIMATES", estimates)
    found = gpu.CHILD["alone"]("doubled", 4, "cuda", [8, 16], "functions")
    assert found[0]["cycles"] == 4000 and found[0]["off"] == -0.25 and "off" not in found[1]
    assert gpu.beside(found) == "cell_1_0 8: 2.00 us, off -25%; cell_1_0 16: 2.00 us, off +nan%"
    said = gpu.CHILD["clock"]("instructions", "cuda")
    assert said["constants"] == {"exchange": {"estimated": 24, "measured": 24 + 1 - 26}}
    report = {"clocks": {"instructions": said}, "alone": {"doubled functions": found}, "profiled": "not installed"}
    lines = cubins.beside(report).splitlines()
    assert lines[2] == "| exchange | 24 | -1.0 |"
    assert lines[6:] == ["| doubled functions | cell_1_0 | 8 | 3,000 | 4,000 | – |",
                         "| doubled functions | cell_1_0 | 16 | – | 4,000 | – |"]  # fmt: skip
    assert said["estimated"] == cases and set(said["measured"]) > set(instructions.CASES)
