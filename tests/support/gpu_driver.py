"""A stand-in for the library of NVIDIA's driver, whose GPU is the simulator."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np

from acronumba.runtime.devices import driver as gpu
from acronumba.runtime.devices.graphs import Node
from acronumba.runtime.devices.simulated import SimulatedDevice


class Driver:
    """A driver whose GPU is the simulator."""

    def __init__(self, capability: tuple[int, int] = (9, 0), room: int = 1 << 40) -> None:
        self.device = SimulatedDevice()
        self.capability, self.room = capability, room
        self.cooperative = 1
        self.rejects: dict[str, int] = {}  # by function: the error
        self.together: list[tuple[int, ...]] = []  # cooperative launches
        self.words: list[Any] = []
        self.calls: list[str] = []
        self.handles: dict[bytes, int] = {}
        self.modules: list[bytes] = []
        self.pinned: dict[int, np.ndarray] = {}
        self.events: list[str] = []
        self.graphs: list[tuple[list[Node], list[tuple[int, int, int]]] | None] = []  # nodes; edges, and their data
        self.graphs_launched: list[list[list[Node]]] = []  # graphs, as their levels
        for name in (*gpu._FUNCTIONS, *gpu._GRAPHS, gpu._EDGES):
            setattr(self, name, self.function(name))
        for name, of in gpu._CALLED.items():  # these have addresses
            takes = {"launch": 11, "cooperate": 10, "upload": 4, "download": 4, "record": 2, "graph": 2}.get(name, 1)
            setattr(self, of, ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * takes)(self.function(of)))

    def function(self, name: str) -> Callable[..., int]:
        does = getattr(self, f"_{name}", None)

        def call(*args: Any) -> int:
            self.calls.append(name)
            if name in self.rejects:
                return self.rejects[name]
            try:
                return (does(*args) or 0) if does else 0
            except Exception as error:  # it cannot go through compiled code
                self.error = error
                return 700

        return call

    def _cuDeviceGetName(self, out: Any, size: int, device: Any) -> None:
        out.value = b"Simulated GPU"

    def _cuDeviceGetCount(self, out: Any) -> None:
        out._obj.value = 2

    def _cuDeviceGetAttribute(self, out: Any, number: int, device: Any) -> None:
        known = {16: 2, 75: self.capability[0], 76: self.capability[1], 95: self.cooperative, 97: 227 << 10}
        out._obj.value = known[number]

    def _cuLaunchKernel(self, *args: int) -> None:
        self.device._launch(*args)

    def _cuLaunchCooperativeKernel(self, function: int, *rest: Any) -> int:
        *grid, shared, stream, places = rest
        self.together.append((*grid, shared, stream))
        self.device._cooperate(function, *grid, shared, self.device.stream, places)
        return 0

    def _cuGraphCreate(self, out: Any, flags: int) -> None:
        self.graphs.append(([], []))
        out._obj.value = len(self.graphs)

    def _cuGraphAddKernelNode(self, out: Any, graph: int, first: Any, count: int, given: Any) -> None:
        nodes, words = self._of(graph)[0], given._obj
        assert (first, count, words.shared, words.extra) == (None, 0, 0, None)
        assert (*words.grid[1:], *words.block) == (1, 1, 256, 1, 1)
        row = ctypes.c_uint64.from_address(ctypes.c_uint64.from_address(words.parameters).value)
        nodes.append(Node(words.function, words.grid[0], row.value))
        out._obj.value = len(nodes)

    def _cuGraphAddDependencies(self, graph: int, first: int, last: int, count: int) -> None:
        self._cuGraphAddDependencies_v2(graph, first, last, 0, count)

    def _cuGraphAddDependencies_v2(self, graph: int, first: int, last: int, data: int, count: int) -> None:
        columns = [np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(at)) for at in (first, last)]
        columns.append(np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(data)) if data else columns[0] * 0)
        self._of(graph)[1].extend(zip(*(column.tolist() for column in columns), strict=True))

    def _of(self, graph: int) -> tuple[list[Node], list[tuple[int, int, int]]]:
        found = self.graphs[graph - 1]
        assert found is not None
        return found

    def _cuGraphInstantiateWithFlags(self, out: Any, graph: int, flags: int) -> None:
        assert flags == 0
        self.graphs.append(self._of(graph))
        out._obj.value = len(self.graphs)

    def _cuGraphDestroy(self, graph: int) -> None:
        self.graphs[graph - 1] = None

    def _cuGraphExecDestroy(self, graph: int) -> None:
        self._of(graph)
        self.graphs[graph - 1] = None

    def _cuGraphLaunch(self, graph: int, stream: int) -> None:
        nodes, edges = self._of(graph)
        depth = [0] * len(nodes)
        for a, b, _ in edges:  # in their order
            depth[b - 1] = max(depth[b - 1], depth[a - 1] + 1)
        levels = [[n for n, d in zip(nodes, depth, strict=True) if d == k] for k in range(max(depth) + 1)]
        self.graphs_launched.append(levels)
        handle = self.device.graph(levels)
        self.device._launch_graph(handle, stream)
        self.device.forget_graph(handle)

    def _cuOccupancyMaxActiveBlocksPerMultiprocessor(self, out: Any, function: int, threads: int, shared: int) -> None:
        assert threads == 256
        out._obj.value = 1 if shared else 2

    def _cuMemAlloc_v2(self, out: Any, size: int) -> int:
        if size > self.room:
            return 2
        out._obj.value = self.device.allocate(size)
        return 0

    def _cuMemFree_v2(self, at: int) -> None:
        self.device.free(at)

    @staticmethod
    def bytes_at(at: int, size: int) -> Any:
        return np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(at))

    def _cuMemHostAlloc(self, out: Any, size: int, flags: int) -> None:
        assert flags == 3  # the device reaches it, too
        array = self.device.pinned(size + 4096)
        out._obj.value = array.ctypes.data + -array.ctypes.data % 4096
        self.pinned[out._obj.value] = array

    def _cuMemFreeHost(self, at: int) -> None:
        self.pinned.pop(at, None)

    def _cuEventCreate(self, out: Any, flags: int) -> None:
        assert flags == 2  # no times
        self.events.append("made")
        out._obj.value = len(self.events)

    def _cuEventRecord(self, event: int, stream: int) -> None:
        self.events[event - 1] = "recorded"

    def _cuEventSynchronize(self, event: int) -> None:
        if self.events[event - 1] == "recorded":
            self.events[event - 1] = "reached"

    def _cuEventDestroy_v2(self, event: int) -> None:
        self.events[event - 1] = "gone"

    def _cuMemcpyDtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        self.device.copy(to, source, size)

    def _cuMemcpyHtoDAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        self.device.upload(to, self.bytes_at(source, size))

    def _cuMemcpyDtoHAsync_v2(self, to: int, source: int, size: int, stream: int) -> None:
        self.device.download(self.bytes_at(to, size), source)

    def _cuStreamQuery(self, stream: int) -> int:
        return 0 if self.device.idle() else 600

    def _cuStreamSynchronize(self, stream: int) -> None:
        self.device.wait()

    def _cuModuleLoadData(self, out: Any, code: bytes) -> None:
        self.modules.append(code)
        out._obj.value = len(self.modules)

    def _cuModuleUnload(self, module: int) -> None:
        self.modules[module - 1] = b""

    def _cuModuleGetFunction(self, out: Any, module: Any, name: bytes) -> int:
        if name not in self.handles:
            return 500
        out._obj.value = self.handles[name]
        return 0

    def _cuGetErrorString(self, error: int, out: Any) -> None:
        out._obj.value = b"named symbol not found"
