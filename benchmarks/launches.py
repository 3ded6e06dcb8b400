"""What a GPU costs the processor: mini-batches on a device that does nothing, against all that comes before a launch.

    python benchmarks/launches.py [--models NAME ...] [--batch N ...] [--rounds N] [--trees FILE] [--json FILE]

Needs no GPU. The device has no memory and computes nothing: its launcher is a compiled function that returns 0. Taken
in turns are: a whole mini-batch of packed data on this device, up to the last launch (`run`), and the same with one
launch for all kernels (`together`), or as a graph of kernels (`graph`); the same mini-batch on the processor, recorded,
scheduled and laid out, but not executed (`before`); the loop over the launches alone (`loop`). What the device adds is
`run - before` (`added`), and likewise `steps` and `rows`: where everything lies, arguments of all nodes, copies,
launches, or the steps of the one kernel, or the rows of the graph. The driver's own time for a launch is in no figure.
Microseconds; medians.
"""

from __future__ import annotations

import statistics
import time
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from acronumba.api.dispatch import bind, specialise
from acronumba.bench.workloads import inputs
from acronumba.emit import compile as compiler
from acronumba.emit import tree
from acronumba.emit.parse import parse
from acronumba.memory import aligned
from acronumba.pipeline.link_device import link_device
from acronumba.runtime.devices.executor import DeviceExecutor
from acronumba.runtime.devices.launches import Driver
from acronumba.runtime.trace import STAGES
from acronumba_bench import by_model
from acronumba_bench.workloads import WORKLOADS

MODELS = ("tree_lstm", "birnn", "listops", "child_sum_lstm")


class Nothing:
    """A device that does nothing."""

    name = "nothing"
    number: int | None = None
    processors = 132
    stream = 0
    timed = False
    cooperative = graphs = True
    shared = 227 << 10

    def __init__(self) -> None:
        takes = {
            "launch": 11,
            "cooperate": 10,
            "upload": 4,
            "download": 4,
            "record": 2,
            "reach": 1,
            "graph": 2,
            "wait": 1,
        }
        text = "".join(
            f"def {name}({', '.join(f'{x}: i64' for x in 'abcdefghijk'[:n])}) -> i64:\n    return 0\n\n\n"
            for name, n in takes.items()
        )
        (self.code,) = compiler.load([tree.Module("nothing", tuple(parse(text)), tuple(takes))])
        self.driver = Driver(**self.code.address)
        self.top = 1 << 40

    def __enter__(self) -> Nothing:
        return self

    def __exit__(self, *_: object) -> None: ...

    def load(self, codes: Any) -> list[list[int]]:
        return [[1] * len(code.entries) for code in codes]

    def unload(self, handles: Any) -> None: ...

    def resident(self, function: int, threads: int, shared: int) -> int:
        return 4

    def reject(self, error: int) -> NoReturn:
        raise RuntimeError(error)

    def compile(self, codes: Any) -> None: ...

    def graph(self, levels: Any) -> int:
        return 1

    def forget_graph(self, handle: int) -> None: ...

    def idle(self) -> bool:
        return True

    def allocate(self, size: int) -> int:
        self.top += size + 255 & -256
        return self.top - size

    def pinned(self, size: int) -> NDArray[np.uint8]:
        return aligned(size)

    def event(self) -> int:
        return 0

    def free(self, at: int) -> None: ...

    def upload(self, at: int, data: NDArray[np.uint8]) -> None: ...

    def download(self, data: NDArray[np.uint8], at: int) -> None: ...

    def copy(self, to: int, at: int, size: int) -> None: ...

    def reach(self, event: int) -> None: ...

    def forget(self, event: int) -> None: ...

    def wait(self) -> None: ...


def row(name: str, batch: int, rounds: int, trees: str | None) -> dict[str, Any]:
    """Measure a model."""
    workload = WORKLOADS[name]
    xs, p = inputs(workload, "small", batch, trees)
    f = workload.model.with_options(threads=1)
    compiled, leaves, packed = specialise(f, bind(f, (xs,), {"p": p}))
    assert packed is not None
    words, keep = compiled.shared.words(packed, leaves)
    there, whole, nodes = (
        link_device(compiled.plan, compiled.options.replace(persistent=way), Nothing())
        for way in (False, True, "graph")
    )
    device = there.executor
    assert isinstance(device, DeviceExecutor)
    here = compiled.executable
    last = STAGES.index("layout")
    stream: Any = None

    def run() -> None:
        nonlocal stream
        stream = there.run(packed.roots, words, keep=keep, stable=True).buffers.stream

    def together() -> None:
        whole.run(packed.roots, words, keep=keep, stable=True)

    def graph() -> None:
        nodes.run(packed.roots, words, keep=keep, stable=True)

    def before() -> None:
        here.run(packed.roots, words, keep=keep, stable=True, last=last)

    def loop() -> None:
        device._loop(device._words, stream["table"], stream["launches"])

    taken: dict[str, list[float]] = {"run": [], "together": [], "graph": [], "before": [], "loop": []}
    for k in range(rounds + 5):
        for one in (run, together, graph, before, loop):
            start = time.perf_counter()
            one()
            if k >= 5:
                taken[one.__name__].append(1e6 * (time.perf_counter() - start))
    medians = {key: round(statistics.median(times), 2) for key, times in taken.items()}
    functions = sum(int(device.launches.kernels[kernel, 1]) for kernel in stream.launches[:, 0])
    about = {"model": name, "instances": batch, "batches": stream["launches"], "launches": functions}

    def added(way: str) -> float:  # of rounds: the machine's speed changes from one to the next
        more = (a - b for a, b in zip(taken[way], taken["before"], strict=True))
        return round(statistics.median(more), 2)

    return {**about, **medians, "added": added("run"), "steps": added("together"), "rows": added("graph")}


if __name__ == "__main__":
    by_model.main(__doc__, MODELS, 200, row)
