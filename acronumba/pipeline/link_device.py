"""From a plan to what runs it on a device: kernels for a GPU, and the code that launches them.

In: a `Plan`, options and a `Device`. Out: an `Executable` whose kernels run there.
"""

from __future__ import annotations

from acronumba.analysis.plan import Plan
from acronumba.config import Options
from acronumba.host.machine import make_host
from acronumba.kernels.cuda.generate import generate
from acronumba.kernels.cuda.marshal import marshal
from acronumba.kernels.strategy import Fusion
from acronumba.pipeline.link import Progress, with_kernels
from acronumba.runtime.devices.device import Device
from acronumba.runtime.devices.executor import DeviceExecutor
from acronumba.runtime.devices.launches import EXPORTS, launch_module
from acronumba.runtime.driver import Executable
from acronumba.runtime.engines import library
from acronumba.runtime.program import KernelEntry, Linked


def link_device(plan: Plan, options: Options, device: Device, progress: Progress | None = None) -> Executable:
    """Return what runs a plan on a device.

    What is computed once, before all others, is the processor's. Results keep their places: what is read again later
    may lie anywhere in the arena.
    """
    options = options.replace(recycle=False, parts=False, threads=1)
    host = make_host(plan, options)
    modules = (library(), host.module)
    codes = [generate(spec, Fusion.of(options), options.precision) for spec in plan.kernels]
    once = sorted({once.kernel for once in plan.program.once})
    written = [marshal(spec, code) for spec, code in zip(plan.kernels, codes, strict=True)]
    engine, computed = with_kernels(
        (*modules, *written, launch_module()), [plan.kernels[k] for k in once], Fusion.of(options), progress
    )
    loaded = engine.loaded[len(modules) :]
    kernels = [
        KernelEntry(plan=c.address["plan"], run=c.address["run"], shared=code.shared, tiles=(0, k), keep=c)
        for k, (code, c) in enumerate(zip(codes, loaded, strict=False))
    ]
    for k, entry in zip(once, computed, strict=True):
        kernels[k] = entry
    calls = {name: loaded[len(codes)].function(name) for name in EXPORTS}
    linked = Linked(host=host, modules=modules, engine=engine, kernels=tuple(kernels))
    return Executable(plan, options, linked, DeviceExecutor(device, codes, calls))
