"""Registers, shared memory and tensor cores of all kernels of the zoo, compiled for GPUs without one.

    python benchmarks/cubins.py --json FILE [--models NAME ...] [--size small|large ...] [--gpu 8.0 9.0a ...]
    python benchmarks/cubins.py --table FILE        print the table of what a file has
    python benchmarks/cubins.py --cycles [--steps] [--models NAME ...] [--size ...] [--rows N ...] [--json FILE]
                                 [--precision NAME] estimates of cycles on an H200
    python benchmarks/cubins.py --beside FILE       what `make gpu` has measured, beside these

A file that is there already is gone on with: what it has is not compiled again. It ends with status 1 if a function
spills registers or keeps memory of its own on a stack. Needs the extra `cuda`.

With `--cycles`, the machine code of one block of each launch is run in Python (`acronumba_bench.gpu.emulate`), and its
cycles are estimated by the instructions that its warps went through (`acronumba_bench.gpu.cycles`); for that
nvidia-cuda-nvdisasm is needed, too. A batch has as many blocks as the launch would choose. With `--steps` each kernel
has a further line: a batch as a step of the persistent kernel, whose weights have stayed in shared memory.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from acronumba.api.dispatch import bind, specialise
from acronumba.bench.workloads import inputs
from acronumba.ir.spec import KernelSpec, same_but_shared
from acronumba.kernels.cuda.cubins import machines
from acronumba.kernels.cuda.generate import CudaCode, generate
from acronumba.kernels.cuda.persistent import persistent
from acronumba.kernels.cuda.tiles import THREADS
from acronumba.strategy import Strategy
from acronumba_bench.gpu import clocks, cycles, sass
from acronumba_bench.gpu.instructions import CASES, estimated
from acronumba_bench.gpu.launch import Launch
from acronumba_bench.gpu.operands import Unknown
from acronumba_bench.workloads import WORKLOADS

GPUS = {"8.0": ((8, 0), ""), "9.0a": ((9, 0), "a")}
ON_DEVICE = Strategy(refactor=False)
SHARED = {"8.0": 164 << 10, "9.0a": 228 << 10}  # bytes of a multiprocessor, of which each block takes 1,024 more
PACKAGES = ("numba", "numba-cuda", "cuda-core", "nvidia-nvjitlink", "nvidia-cuda-nvcc", "nvidia-cuda-nvdisasm")


def resident(row: dict[str, Any]) -> int:
    """Return how many blocks of a function fit on a multiprocessor at once."""
    registers: int = -(-row["registers"] * 32 // 256) * 256 * (THREADS // 32)
    shared: int = row["shared"]
    return min(65536 // registers, SHARED[row["gpu"]] // (shared + 1024), 2048 // THREADS)


def kernels(
    name: str, size: str | int, there: bool = False, precision: str = "float32"
) -> Iterator[tuple[KernelSpec, CudaCode]]:
    """Generate the kernels of a model; only those that run on the device, if `there`."""
    workload = WORKLOADS[name]
    xs, p = inputs(workload, size, 2, None)
    f = workload.model.with_options(strategy=ON_DEVICE)
    one = specialise(f, bind(f, (xs,), {"p": p}))[0]
    once = {o.kernel for o in one.plan.program.once} if there else set()
    for spec in (spec for k, spec in enumerate(one.plan.kernels) if k not in once):
        yield spec, generate(spec, one.options.decisions, precision)


def different(name: str, size: str | int) -> list[tuple[KernelSpec, CudaCode]]:
    """Return the kernels of a model on a device without those that differ only in the weights that they read."""
    found: dict[str, tuple[KernelSpec, CudaCode]] = {}
    for spec, code in kernels(name, size, there=True):
        if code.entries:
            found.setdefault(same_but_shared(spec, False), (spec, code))
    return list(found.values())


def rows(name: str, size: str, gpu: str) -> Iterator[dict[str, Any]]:
    """Compile all kernels of a model."""
    for _, code in kernels(name, size):
        for entry, machine in zip(code.entries, machines(code, *GPUS[gpu]), strict=True):
            yield {
                "gpu": gpu, "size": size, "model": name, "function": entry, "registers": machine.registers,
                "shared": machine.shared, "spills": machine.spills, "stack": machine.stack,
                "mma": machine.ptx.count("mma.sync"),
            }  # fmt: skip


def estimates(name: str, size: str, args: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Estimate the cycles of each function of a model, and of steps of its kernels, for batches of so many nodes."""
    for spec, code in kernels(name, size, there=True, precision=args.precision):
        made = machines(code, *GPUS["9.0a"])
        for many in args.rows:
            launch = Launch(spec, code, many)
            for entry, grids, machine in zip(code.entries, code.grids, made, strict=True):
                row: dict[str, Any] = {
                    "size": size, "model": name, "function": entry, "rows": many, "registers": machine.registers,
                    "spills": machine.spills, "shared": machine.shared + grids[0].pool,
                }  # fmt: skip
                row["bytes"] = sass.read(machine.code, entry).size
                try:
                    fit = resident(row | {"gpu": "9.0a"})
                    row["blocks"], row["cycles"] = launch.estimate(machine, entry, grids, fit)
                except Unknown as error:
                    row["unknown"] = str(error)
                else:
                    row["us"] = round(row["cycles"] / cycles.GIGAHERTZ / 1000, 2)
                yield row
            if args.steps and code.entries:
                yield {"size": size, "model": name, "rows": many} | as_step(spec.name, code, launch)


def as_step(name: str, code: CudaCode, launch: Launch) -> dict[str, Any]:
    """Estimate the cycles of a step of the persistent kernel."""
    whole = persistent([code])
    (machine,) = machines(whole, *GPUS["9.0a"])
    row = {
        "function": f"a step of {name}",
        "registers": machine.registers,
        "spills": machine.spills,
        "shared": whole.shared,
    }
    row["bytes"] = sass.read(machine.code, "run").size
    try:
        count = launch.step(machine, whole)
    except Unknown as error:
        return row | {"unknown": str(error)}
    return row | {"cycles": count, "us": round(count / cycles.GIGAHERTZ / 1000, 2)}


def report(args: argparse.Namespace) -> int:
    """Print estimates of cycles, and write them to a file."""
    if not sass.nvdisasm():
        print("nvidia-cuda-nvdisasm is not installed: pip install nvidia-cuda-nvdisasm", file=sys.stderr)
        return 1
    found = []
    print("| model | function | rows | blocks | cycles | us | registers | spilled | shared | bytes of code |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for size in args.size:
        for name in args.models:
            for row in estimates(name, size, args):
                found.append(row)
                names = "function rows blocks cycles us registers spills shared bytes".split()
                cells = [f"{row[k]:,}" if isinstance(row.get(k), int) else str(row.get(k, "?")) for k in names]
                print(f"| {name}, {size} | {' | '.join(cells)} |", flush=True)
    if args.json:
        lines = ",\n".join(json.dumps(r) for r in found)
        head = f'"versions": {json.dumps(versions())}, "instructions": {json.dumps(of_instructions())}'
        args.json.write_text(f'{{{head}, "estimates": [\n{lines}\n]}}\n')
    return 0


def of_instructions() -> dict[str, dict[str, float]]:
    """Estimate what `acronumba_bench.gpu.instructions` measures."""
    from cuda.core import Linker, LinkerOptions, ObjectCode

    out = {}
    for name, case in CASES.items():
        text = clocks.KERNELS[case.kernel].text.encode()
        cubin = Linker(ObjectCode.from_ptx(text), options=LinkerOptions(arch="sm_90a")).link("cubin").code
        code = sass.read(bytes(cubin), case.kernel)
        out[name] = {str(warps): estimated(code, case, warps) for warps in case.warps}
    return out


def table(functions: list[dict[str, Any]]) -> str:
    """Return a table with a line for each GPU and size."""
    out = [
        "| GPU | size | models | functions | with tensor cores | registers, median and most | shared bytes, most | "
        "blocks that fit, least and median | spilled |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for gpu, size in dict.fromkeys((r["gpu"], r["size"]) for r in functions):
        those = [r for r in functions if (r["gpu"], r["size"]) == (gpu, size)]
        registers = [r["registers"] for r in those]
        fit = [resident(r) for r in those]
        cells = [
            f"`sm_{gpu.replace('.', '')}`", size, len({r["model"] for r in those}), len(those),
            sum(r["mma"] > 0 for r in those), f"{statistics.median_low(registers)}, {max(registers)}",
            f"{max(r['shared'] for r in those):,}", f"{min(fit)}, {statistics.median_low(fit)}",
            sum(r["spills"] > 0 or r["stack"] > 0 for r in those),
        ]  # fmt: skip
        out.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(out) + "\n"


def beside(found: dict[str, Any]) -> str:
    """Return tables of constants and of kernels alone from a report of `benchmarks/gpu.py`."""
    out = ["| constant | estimated | measured |", "|---|---|---|"]
    constants = found["clocks"].get("instructions", {}).get("constants", {})
    out += [f"| {name} | {c['estimated']} | {c['measured']:.1f} |" for name, c in constants.items()]
    out += ["", "| model | function | rows | estimated cycles | measured, less an empty kernel | by the profiler |"]
    out += ["|---|---|---|---|---|---|"]
    profiled = {(r["model"], r["function"], r["rows"]): r.get("cycles") for r in found.get("profiled", ())
                if isinstance(r, dict)}  # fmt: skip
    for name, rows in found["alone"].items():
        for r in (r for r in rows if "cycles" in r):
            counted = profiled.get((name.split()[0], r["function"], r["rows"]))
            numbers = [r.get("estimated cycles"), r["cycles"], counted]
            cells = [f"{n:,.0f}" if n is not None else "–" for n in numbers]
            out.append(f"| {name} | {r['function']} | {r['rows']} | {' | '.join(cells)} |")
    return "\n".join(out) + "\n"


def versions() -> dict[str, str]:
    """Return the versions of what compiles."""
    out = {}
    for name in PACKAGES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    return out


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--models", nargs="*", default=list(WORKLOADS))
    parser.add_argument("--size", nargs="*", default=["small", "large"])
    parser.add_argument("--gpu", nargs="*", choices=GPUS, default=list(GPUS))
    parser.add_argument("--json", type=Path)
    parser.add_argument("--table", type=Path)
    parser.add_argument("--beside", type=Path)
    parser.add_argument("--cycles", action="store_true")
    parser.add_argument("--steps", action="store_true")
    parser.add_argument("--rows", nargs="*", type=int, default=[1, 16, 64, 256, 700])
    parser.add_argument("--precision", default="float32")
    args = parser.parse_args()
    if args.cycles:
        return report(args)
    if args.beside:
        print(beside(json.loads(args.beside.read_text())), end="")
        return 0
    if args.table:
        print(table(json.loads(args.table.read_text())["functions"]), end="")
        return 0
    found = json.loads(args.json.read_text())["functions"] if args.json and args.json.exists() else []
    have = {(r["gpu"], r["size"], r["model"]) for r in found}
    for gpu in args.gpu:
        for size in args.size:
            for name in args.models:
                if (gpu, size, name) in have:
                    continue
                start = time.perf_counter()
                new = list(rows(name, size, gpu))
                found += new
                print(f"{gpu} {size} {name}: {len(new)} functions, {time.perf_counter() - start:.0f} s", flush=True)
                if args.json:
                    found.sort(key=lambda r: (r["gpu"], -ord(r["size"][0]), list(WORKLOADS).index(r["model"])))
                    lines = ",\n".join(json.dumps(r) for r in found)
                    args.json.write_text(f'{{"versions": {json.dumps(versions())}, "functions": [\n{lines}\n]}}\n')
    print(table(found), end="")
    return int(any(r["spills"] or r["stack"] for r in found))


if __name__ == "__main__":
    sys.exit(main())
