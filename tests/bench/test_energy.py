"""Joules of a mini-batch: counters of processors and GPUs, and what the benchmarks show of them."""

from __future__ import annotations

import ctypes
import dataclasses
import io
import itertools
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from acronumba.bench import instruments, speed, view
from acronumba_bench import energy
from acronumba_bench.energy import Counter
from acronumba_bench.workloads import WORKLOADS


def zone(root: Path, name: str, micro: int) -> Path:
    """Make a counter as Linux shows it; return the file with its value."""
    (folder := root / name).mkdir()
    (folder / "name").write_text(f"package-{name[11:]}\n")
    (folder / "max_energy_range_uj").write_text("9000000\n")
    (folder / "energy_uj").write_text(f"{micro}\n")
    return folder / "energy_uj"


def test_counters_of_processors(tmp_path: Path) -> None:
    assert energy.counters(tmp_path)[1][0] == "no RAPL"
    for name, micro in (("intel-rapl:0", 5_000_000), ("intel-rapl:0:0", 1), ("intel-rapl:1", 7_000_000)):
        zone(tmp_path, name, micro)
    found, reasons = energy._processors(tmp_path)
    assert {name: (c.read(), c.range) for name, c in found.items()} == {
        "package-0": (5.0, 9.0),
        "package-1": (7.0, 9.0),
    }
    assert reasons == []
    (tmp_path / "intel-rapl:1" / "energy_uj").unlink()
    assert energy._processors(tmp_path)[1] == ["RAPL cannot be read (No such file or directory)"]


def test_a_counter_may_begin_anew(tmp_path: Path) -> None:
    file = zone(tmp_path, "intel-rapl:0", 8_000_000)
    values = iter([8_500_000, 1_000_000])  # while it warms up, and then

    def run() -> None:
        file.write_text(f"{next(values)}\n")

    found = energy.joules(run, energy._processors(tmp_path)[0], at_least=0.0)
    assert found == {"package-0": 1.5}  # 0.5 to the end of its range, 1 from its beginning
    assert energy.joules(run, {}) == {}


def test_counters_of_gpus() -> None:
    class Nvml:
        """Two GPUs; the second counts nothing."""

        nvmlInit_v2 = staticmethod(lambda: 0)

        @staticmethod
        def nvmlDeviceGetCount_v2(count: Any) -> int:
            count._obj.value = 2
            return 0

        @staticmethod
        def nvmlDeviceGetHandleByIndex_v2(k: int, device: Any) -> int:
            device._obj.value = k + 1
            return 0

        @staticmethod
        def nvmlDeviceGetTotalEnergyConsumption(device: ctypes.c_void_p, used: Any) -> int:
            used._obj.value = 2500
            return 0 if device.value == 1 else 3

    found = energy._gpus(Nvml)
    assert {name: c.read() for name, c in found.items()} == {"GPU 0": 2.5}


@pytest.mark.long
def test_rows_have_the_joules_of_each_competitor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(energy.joules, "__kwdefaults__", {"at_least": 0.0, "warm": 0})
    total = itertools.count()
    by = {"package-0": Counter(read=lambda: next(total) / 80)}
    metered = dataclasses.replace(instruments.installed(), joules=lambda run: energy.joules(run, by))
    row = speed.row(WORKLOADS["birnn"], metered, 8, 2, rounds=1)
    assert row.joules.keys() == row.seconds.keys() - {speed.BURST}
    assert all(of == pytest.approx({"package-0": 0.0125}) for of in row.joules.values())
    where = {"processor": "znver3", "python": "3.11", "numba": "0.68"}
    s = speed.Speeds(rounds=1, threads=1, machine=where, ceiling=None, unmeasured=("no RAPL", "no NVML"), rows=(row,))
    assert "counted by package-0" in shown(s) and "0.0125" in shown(s) and "not measurable" not in shown(s)
    s = dataclasses.replace(s, rows=(dataclasses.replace(row, joules={}),))
    assert "Joules: not measurable here (no RAPL, no NVML)" in shown(s)


def shown(s: speed.Speeds) -> str:
    out = io.StringIO()
    Console(file=out, width=80).print(view.speeds_view(s))
    return out.getvalue()
