"""A GPU as a `Device`: the driver's functions, called by ctypes.

The driver's library has had these functions, with these parameters, since CUDA 9, so that no package of a matching
version is needed; graphs since CUDA 11.4, and nodes that begin before others have ended since 12.3, on Hopper. In:
machine code from `kernels.cuda.cubins`. Out: launches, all in one stream, in order. A thread that calls a method makes
the GPU's primary context current, which PyTorch and others use too.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import pairwise
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from acronumba.kernels.cuda.generate import CudaCode
from acronumba.kernels.cuda.graphs import NodeCode
from acronumba.kernels.cuda.persistent import PersistentCode
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.runtime.devices.graphs import Node
from acronumba.runtime.devices.launches import Driver
from acronumba.runtime.threads import available_threads

_WORD, _INT = ctypes.c_uint64, ctypes.c_int
_FUNCTIONS: dict[str, list[Any]] = {
    "cuInit": [ctypes.c_uint],
    "cuDeviceGetCount": [ctypes.POINTER(_INT)],
    "cuDeviceGet": [ctypes.POINTER(_INT), _INT],
    "cuDeviceGetName": [ctypes.c_char_p, _INT, _INT],
    "cuDeviceGetAttribute": [ctypes.POINTER(_INT), _INT, _INT],
    "cuDevicePrimaryCtxRetain": [ctypes.POINTER(_WORD), _INT],
    "cuCtxPushCurrent_v2": [_WORD],
    "cuCtxPopCurrent_v2": [ctypes.POINTER(_WORD)],
    "cuStreamCreate": [ctypes.POINTER(_WORD), ctypes.c_uint],
    "cuStreamSynchronize": [_WORD],
    "cuStreamQuery": [_WORD],
    "cuMemAlloc_v2": [ctypes.POINTER(_WORD), ctypes.c_size_t],
    "cuMemFree_v2": [_WORD],
    "cuMemcpyHtoDAsync_v2": [_WORD, ctypes.c_void_p, ctypes.c_size_t, _WORD],
    "cuMemcpyDtoHAsync_v2": [ctypes.c_void_p, _WORD, ctypes.c_size_t, _WORD],
    "cuMemcpyDtoDAsync_v2": [_WORD, _WORD, ctypes.c_size_t, _WORD],
    "cuMemHostAlloc": [ctypes.POINTER(_WORD), ctypes.c_size_t, ctypes.c_uint],
    "cuMemFreeHost": [_WORD],
    "cuEventCreate": [ctypes.POINTER(_WORD), ctypes.c_uint],
    "cuEventRecord": [_WORD, _WORD],
    "cuEventSynchronize": [_WORD],
    "cuStreamWaitEvent": [_WORD, _WORD, ctypes.c_uint],
    "cuEventDestroy_v2": [_WORD],
    "cuModuleLoadData": [ctypes.POINTER(_WORD), ctypes.c_void_p],
    "cuModuleUnload": [_WORD],
    "cuModuleGetFunction": [ctypes.POINTER(_WORD), _WORD, ctypes.c_char_p],
    "cuFuncSetAttribute": [_WORD, _INT, _INT],
    "cuOccupancyMaxActiveBlocksPerMultiprocessor": [ctypes.POINTER(_INT), _WORD, _INT, ctypes.c_size_t],
    "cuGetErrorString": [_INT, ctypes.POINTER(ctypes.c_char_p)],
}
_GRAPHS: Mapping[str, Sequence[object]] = {
    "cuGraphCreate": [ctypes.POINTER(_WORD), ctypes.c_uint],
    "cuGraphAddKernelNode": [ctypes.POINTER(_WORD), _WORD, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p],
    "cuGraphAddDependencies": [_WORD, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t],
    "cuGraphInstantiateWithFlags": [ctypes.POINTER(_WORD), _WORD, ctypes.c_ulonglong],
    "cuGraphUpload": [_WORD, _WORD],
    "cuGraphDestroy": [_WORD],
    "cuGraphExecDestroy": [_WORD],
}
_EDGES = "cuGraphAddDependencies_v2"  # with what an edge waits for
_ALONE_EARLY, _ALWAYS_EARLY = 1, 2  # nodes begin early: that are alone in their levels; all
_EARLY = 1 << 16 | 1  # bytes of an edge: from a kernel's programmatic port, to all of the next, programmatic
_CALLED = {  # by compiled code
    "launch": "cuLaunchKernel",
    "cooperate": "cuLaunchCooperativeKernel",
    "upload": "cuMemcpyHtoDAsync_v2",
    "record": "cuEventRecord",
    "reach": "cuEventSynchronize",
    "graph": "cuGraphLaunch",
    "download": "cuMemcpyDtoHAsync_v2",
    "wait": "cuStreamSynchronize",
}
_MULTIPROCESSORS, _MAJOR, _MINOR, _COOPERATIVE, _SHARED = 16, 75, 76, 95, 97  # attributes of a device
_DYNAMIC = 8  # attribute of a function: bytes of shared memory that its launches may ask for
_ALWAYS = 48 << 10  # such bytes that need no attribute
_MAPPED = 3  # CPU memory that every context of the device can reach
_OLDEST = (8, 0)  # compute capability that kernels can be compiled for
_NON_BLOCKING = 1  # a stream that does not wait for the default one
_NO_TIMES = 2  # an event that nobody measures with
_OUT_OF_MEMORY, _FORKED, _NOT_READY = 2, 3, 600

log = logging.getLogger("acronumba")


class _NodeParameters(ctypes.Structure):
    """`CUDA_KERNEL_NODE_PARAMS_v1`."""

    _fields_ = [
        ("function", _WORD), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
        ("parameters", ctypes.c_void_p), ("extra", ctypes.c_void_p),
    ]  # fmt: skip


class DriverError(RuntimeError):
    """An error of the GPU driver."""


@cache
def library() -> Any:
    """Return the driver's library; raise OSError if it is not installed."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    return ctypes.CDLL(name)


def missing(ordinal: int = 0) -> str:
    """Return why this machine cannot run kernels on GPU number `ordinal`; "" if it can."""
    try:
        found = library()
    except OSError:
        return "there is no NVIDIA driver on this machine (no libcuda)"
    count = _INT()
    if (wrong := found.cuInit(0)) == _FORKED:
        return "this process was forked from one that has used the GPU: start it with the method spawn"
    if wrong or found.cuDeviceGetCount(ctypes.byref(count)) or not count.value:
        return "the NVIDIA driver finds no GPU"
    if ordinal >= count.value:
        return f"the NVIDIA driver finds {count.value}, not one of number {ordinal}"
    device, major, minor = _INT(), _INT(), _INT()
    wrong = found.cuDeviceGet(ctypes.byref(device), ordinal)
    wrong = wrong or found.cuDeviceGetAttribute(ctypes.byref(major), _MAJOR, device)
    wrong = wrong or found.cuDeviceGetAttribute(ctypes.byref(minor), _MINOR, device)
    if wrong:
        return f"the NVIDIA driver says nothing of the GPU (error {wrong})"
    if (major.value, minor.value) < _OLDEST:
        return f"the GPU is too old: compute capability {major.value}.{minor.value}, and 8.0 is needed"
    return ""


class Gpu:
    """One GPU.

    Parameters
    ----------
    ordinal : int
        Number of the GPU.
    driver : object, optional
        The driver's library; tests pass a substitute.
    """

    timed = True

    def __init__(self, ordinal: int = 0, driver: Any = None) -> None:
        self._driver = library() if driver is None else driver
        self.number: int | None = ordinal
        self._modules: dict[int, int] = {}  # of functions
        self._inside = threading.local()  # how often a thread has entered
        self._process = os.getpid()
        for name, arguments in _FUNCTIONS.items():
            getattr(self._driver, name).argtypes = arguments
        self._call("cuInit", 0)
        device = _INT()
        self._call("cuDeviceGet", ctypes.byref(device), ordinal)
        text = ctypes.create_string_buffer(256)
        self._call("cuDeviceGetName", text, 256, device)
        self.name = text.value.decode()
        self.capability = self._attribute(device, _MAJOR), self._attribute(device, _MINOR)
        self.processors = self._attribute(device, _MULTIPROCESSORS)
        self.cooperative = bool(self._attribute(device, _COOPERATIVE))
        self.shared = self._attribute(device, _SHARED)
        self._context = _WORD()
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), device)
        self.stream = self._made("cuStreamCreate", _NON_BLOCKING)
        self.graphs = all(hasattr(self._driver, name) for name in (*_GRAPHS, _CALLED["graph"]))
        known = self.graphs and self.capability >= (9, 0) and hasattr(self._driver, _EDGES)
        self.early = _ALWAYS_EARLY if known else 0
        for name, takes in _GRAPHS.items() if self.graphs else ():
            getattr(self._driver, name).argtypes = takes
        if self.early:
            getattr(self._driver, _EDGES).argtypes = [_WORD, *[ctypes.c_void_p] * 3, ctypes.c_size_t]
        self._order = 0  # the event of `follow`
        self._ordering = threading.Lock()
        called = {k: of for k, of in _CALLED.items() if k != "graph" or self.graphs}
        self.driver = Driver(**{name: self._address(of) for name, of in called.items()})

    def _address(self, name: str) -> int:
        return ctypes.cast(getattr(self._driver, name), ctypes.c_void_p).value or 0

    def _attribute(self, device: Any, number: int) -> int:
        out = _INT()
        self._call("cuDeviceGetAttribute", ctypes.byref(out), number, device)
        return out.value

    def _call(self, name: str, *args: Any) -> None:
        error = getattr(self._driver, name)(*args)
        if error == _OUT_OF_MEMORY:
            where = "the driver has no pinned memory" if name == "cuMemHostAlloc" else "the GPU has no memory"
            size = {"cuMemAlloc_v2": -1, "cuMemHostAlloc": -2}.get(name)
            raise MemoryError(f"{where} for {f'{args[size]:,} bytes' if size else name}")
        if error:
            raise self._error(name, error)

    def _error(self, name: str, error: int) -> DriverError:
        text = ctypes.c_char_p()
        self._driver.cuGetErrorString(error, ctypes.byref(text))
        said = text.value.decode() if text.value else "unknown"
        return DriverError(f"{name}: {said} (error {error})")

    def reject(self, error: int) -> NoReturn:
        if error == _OUT_OF_MEMORY:
            raise MemoryError("the GPU has no memory for the launches")
        raise self._error("a mini-batch could not be launched", error)

    def __enter__(self) -> Gpu:
        """Make the GPU's context current in this thread; `__exit__` restores the previous one."""
        if os.getpid() != self._process:
            raise DriverError("a forked process cannot use a GPU that its parent has opened")
        depth = getattr(self._inside, "depth", 0)
        if not depth:
            self._call("cuCtxPushCurrent_v2", self._context)
        self._inside.depth = depth + 1
        return self

    def __exit__(self, *_: object) -> None:
        self._inside.depth -= 1
        if not self._inside.depth:
            self._call("cuCtxPopCurrent_v2", ctypes.byref(_WORD()))

    def _made(self, name: str, *args: Any) -> int:
        """Return the handle or address that a function of the driver makes."""
        out = _WORD()
        with self:
            self._call(name, ctypes.byref(out), *args)
        return out.value

    def _do(self, name: str, *args: Any) -> None:
        with self:
            self._call(name, *args)

    def compile(self, codes: Sequence[CudaCode | PersistentCode | NodeCode]) -> None:
        from acronumba.kernels.cuda.cubins import compile_missing

        compile_missing(codes, self.capability, self._suffix, available_threads())

    @property
    def _suffix(self) -> str:
        return "a" if self.capability == (9, 0) else ""

    def load(self, codes: Sequence[CudaCode | PersistentCode | NodeCode]) -> list[list[int]]:
        from acronumba.kernels.cuda.cubins import machines

        self.compile(codes)
        handles: list[list[int]] = []
        for code in codes:
            handles.append([])
            for machine in machines(code, self.capability, self._suffix):
                module = self._made("cuModuleLoadData", machine.code)
                handles[-1].append(self._made("cuModuleGetFunction", module, machine.entry.encode()))
                self._modules[handles[-1][-1]] = module
        return handles

    def unload(self, handles: Sequence[int]) -> None:
        self._release("cuModuleUnload", *(self._modules.pop(handle) for handle in handles))

    def resident(self, function: int, threads: int, shared: int = 0) -> int:
        """Return the number of blocks that a multiprocessor runs at once, limited by registers and shared memory.

        Its launches may ask for so much shared memory then.
        """
        out = _INT()
        if shared > _ALWAYS:
            self._do("cuFuncSetAttribute", function, _DYNAMIC, shared)
        self._do("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(out), function, threads, shared)
        return out.value

    def graph(self, levels: Sequence[Sequence[Node]]) -> int:
        """Nodes begin before those of the level before have ended, if the driver knows such edges and takes them."""
        with self:
            while self.early:
                try:
                    return self._graph(levels)
                except DriverError as error:
                    self.early -= 1
                    which = "fewer" if self.early else "no"
                    log.warning("%s nodes of graphs begin before others have ended: %s", which, error)
            return self._graph(levels)

    def _graph(self, levels: Sequence[Sequence[Node]]) -> int:
        graph = self._made("cuGraphCreate", 0)
        try:
            made = [[self._node(graph, node) for node in level] for level in levels]
            edges = []
            for one, other in pairwise(made):
                early = self.early == _ALWAYS_EARLY or (self.early and len(one) == len(other) == 1)
                edges += [(a, b, _EARLY if early else 0) for a in one for b in other]
            if edges:
                *ends, kinds = np.array(edges, np.uint64).T.copy()
                given = [*ends, kinds] if self.early else ends
                name = _EDGES if self.early else "cuGraphAddDependencies"
                self._call(name, graph, *(column.ctypes.data for column in given), len(edges))
            out = self._made("cuGraphInstantiateWithFlags", graph, 0)
            self._call("cuGraphUpload", out, self.stream)
            return out
        finally:
            self._call("cuGraphDestroy", graph)

    def _node(self, graph: int, node: Node) -> int:
        row = _WORD(node.row)
        parameters = (ctypes.c_void_p * 1)(ctypes.addressof(row))
        given = _NodeParameters(
            node.function, (node.blocks, 1, 1), (THREADS, 1, 1), node.shared,
            ctypes.cast(parameters, ctypes.c_void_p), None,
        )  # fmt: skip
        return self._made("cuGraphAddKernelNode", graph, None, 0, ctypes.byref(given))

    def forget_graph(self, handle: int) -> None:
        self._release("cuGraphExecDestroy", handle)

    def allocate(self, size: int) -> int:
        return self._made("cuMemAlloc_v2", size)

    def free(self, at: int) -> None:
        self._release("cuMemFree_v2", at)

    def pinned(self, size: int) -> NDArray[np.uint8]:
        at = self._made("cuMemHostAlloc", size, _MAPPED)
        memory = (ctypes.c_uint8 * size).from_address(at)
        weakref.finalize(memory, self._release, "cuMemFreeHost", at).atexit = False
        return np.ctypeslib.as_array(memory)

    def _release(self, name: str, *handles: int) -> None:
        """Release resources of the driver, once all launches that may use them are done."""
        if os.getpid() != self._process:
            return  # they are the other process's
        with self:
            self.wait()
            for handle in handles:
                self._call(name, handle)

    def copy(self, to: int, at: int, size: int) -> None:
        if size:
            self._do("cuMemcpyDtoDAsync_v2", to, at, size, self.stream)

    def event(self) -> int:
        return self._made("cuEventCreate", _NO_TIMES)

    def follow(self, stream: int) -> None:
        """Let what comes wait for the work that another stream of the GPU has so far."""
        self._wait_for(stream, self.stream)

    def precede(self, stream: int) -> None:
        """Let what comes in another stream of the GPU wait for the work so far."""
        self._wait_for(self.stream, stream)

    def _wait_for(self, first: int, second: int) -> None:
        with self, self._ordering:  # a wait is for the last record of the event
            self._order = self._order or self.event()
            self._call("cuEventRecord", self._order, first)
            self._call("cuStreamWaitEvent", second, self._order, 0)

    def reach(self, event: int) -> None:
        self._do("cuEventSynchronize", event)

    def forget(self, event: int) -> None:
        self._release("cuEventDestroy_v2", event)

    def upload(self, at: int, data: NDArray[np.uint8]) -> None:
        if len(data):
            self._do("cuMemcpyHtoDAsync_v2", at, data.ctypes.data, len(data), self.stream)

    def download(self, data: NDArray[np.uint8], at: int) -> None:
        if len(data):
            self._do("cuMemcpyDtoHAsync_v2", data.ctypes.data, at, len(data), self.stream)

    def idle(self) -> bool:
        with self:
            error = self._driver.cuStreamQuery(self.stream)
        if error not in (0, _NOT_READY):
            raise self._error("cuStreamQuery", error)
        return not error

    def wait(self) -> None:
        self._do("cuStreamSynchronize", self.stream)


@cache
def gpu(ordinal: int) -> Gpu:
    """Return a GPU of this machine."""
    return Gpu(ordinal)
