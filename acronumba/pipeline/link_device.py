"""From a plan to an executable on a device: kernels for a GPU, and the code that launches them.

In: a `Plan`, options and a `Device`. Out: an `Executable` whose kernels run on the device; or a `BackwardExecutable`,
with the backward pass.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from acronumba.analysis.plan import Plan
from acronumba.analysis.waits import decisive
from acronumba.config import Options
from acronumba.emit.compile import load
from acronumba.errors.codes import reject
from acronumba.host.machine import make_host
from acronumba.ir.spec import KernelSpec
from acronumba.kernels.cuda.generate import CudaCode, generate
from acronumba.kernels.cuda.marshal import marshal
from acronumba.kernels.own import own_calls
from acronumba.pipeline.link import Progress, with_kernels
from acronumba.runtime.devices.derived import OnceKernels
from acronumba.runtime.devices.device import Device
from acronumba.runtime.devices.executor import DeviceExecutor
from acronumba.runtime.devices.launches import EXPORTS, launch_code
from acronumba.runtime.driver import Executable
from acronumba.runtime.engines import Native, library
from acronumba.runtime.program import KernelEntry, Linked

if TYPE_CHECKING:
    from acronumba.analysis.backward.program import BackwardPlan
    from acronumba.runtime.backward import BackwardExecutable


def link_device(plan: Plan, options: Options, device: Device, progress: Progress | None = None) -> Executable:
    """Return the executable of a plan on a device.

    Per-batch constants, computed once before all other kernels, run on the CPU; or on the device, if they are made of
    parameters that stay there. Memory of results is not reused: a later read may be of any result in the arena.
    """
    options = options.replace(recycle=False, parts=False, threads=1)
    host = make_host(plan, options)
    modules = (library(), host.module)
    codes = _codes(plan.kernels, options)
    once = sorted({once.kernel for once in plan.program.once})
    read = decisive(plan.program)
    written = [marshal(*one, read.get(k, ())) for k, one in enumerate(zip(plan.kernels, codes, strict=True))]
    engine, computed = with_kernels(
        (*modules, *written, launch_code()), [plan.kernels[k] for k in once], options.decisions, progress
    )
    loaded = engine.loaded[len(modules) :]
    kernels = [
        KernelEntry(plan=c.address["plan"], run=c.address["run"], shared=code.shared, tiles=(0, k), keep=c)
        for k, (code, c) in enumerate(zip(codes, loaded, strict=False))
    ]
    calls = {name: loaded[len(codes)].function(name) for name in EXPORTS}
    there = OnceKernels(device, {k: codes[k] for k in once}, {k: kernels[k] for k in once}, calls, engine)
    for k, entry in zip(once, computed, strict=True):
        kernels[k] = entry
    linked = Linked(host=host, modules=modules, engine=engine, kernels=tuple(kernels))
    executable = Executable(plan, options, linked, DeviceExecutor(device, codes, calls))
    executable.shared.there = there
    return executable


def link_back_device(
    plan: Plan, options: Options, device: Device, wanted: Collection[int], width: int | None,
    params: Collection[int] = (), packed: Collection[int] = (), progress: Progress | None = None,
) -> BackwardExecutable:  # fmt: skip
    """Return the executable of a plan and its backward pass on a device; see `pipeline.link.link_backward`."""
    from acronumba.analysis.backward.program import plan_backward
    from acronumba.runtime.backward import BackwardExecutable, dtypes_of, library_of_gradients
    from acronumba.runtime.devices.back import SUMS_EXPORTS, BackDevice, sums_code

    back = plan_backward(plan, wanted, width, params, packed, cheap=True)
    forward = link_device(back.plan, options.replace(equal=False), device, progress)
    forward.keeps_nodes = True
    assert isinstance(forward.executor, DeviceExecutor)
    codes = back_codes(back, options)
    written = [marshal(spec, code) for spec, code in zip(back.specs, codes, strict=True)]
    engine = Native((library(), sums_code(), launch_code(), *written), progress)
    calls = {name: engine.loaded[k].function(name) for k, names in ((1, SUMS_EXPORTS), (2, EXPORTS)) for name in names}
    place = BackDevice(forward.executor, codes, dtypes_of(back), calls, engine, options.persistent)
    entries = [
        KernelEntry(plan=c.address["plan"], run=c.address["run"], shared=code.shared, tiles=place.tail(k), keep=c)
        for k, (code, c) in enumerate(zip(codes, engine.loaded[3:], strict=True))
    ]
    transposed = load([library_of_gradients()])[0]
    return BackwardExecutable(forward, back, engine, entries, transposed, place)


def device_codes(plan: Plan, options: Options) -> dict[int, CudaCode]:
    """Return the code of the kernels that run on the device, by number, without per-batch constants."""
    once = {o.kernel for o in plan.program.once}
    there = [k for k in range(len(plan.kernels)) if k not in once]
    return dict(zip(there, _codes([plan.kernels[k] for k in there], options), strict=True))


def once_codes(plan: Plan, options: Options) -> list[CudaCode]:
    """Return the code of per-batch constants for a device that parameters stay on."""
    return _codes([plan.kernels[once.kernel] for once in plan.program.once], options)


def back_codes(back: BackwardPlan, options: Options) -> list[CudaCode]:
    """Return the code of the backward kernels for the device."""
    return _codes(back.specs, options)


def _codes(specs: Sequence[KernelSpec], options: Options) -> list[CudaCode]:
    for call, loc in (found for spec in specs for found in own_calls(spec).values()):
        if call.operation.cuda is None:
            raise reject(
                "ACR201", loc, seen=f"the operation {call.operation.__name__}",
                message="an operation of your own has no function for a GPU",
                rewrite="give it one: @operation(cuda=function), or run the model on the CPU: f.on('cpu')",
            )  # fmt: skip
    return [generate(spec, options.decisions, options.precision) for spec in specs]
