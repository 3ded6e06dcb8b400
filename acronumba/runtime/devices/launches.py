"""Tables that compiled code reads to launch kernels, see `runtime.library.launch`.

In: the driver's functions; handles and grids of the functions of all kernels. Out: the table LAUNCH, and the tables
that it points to; and the module of the compiled code.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from acronumba.emit import tree
from acronumba.emit.compile import Deferred
from acronumba.kernels.cuda.writer import Grid
from acronumba.memory import Words, address
from acronumba.records import record
from acronumba.runtime.library.launch_words import FUNCTION, GRID, KERNEL, LAUNCH

EXPORTS = ("write", "send", "launch", "apart", "again", "together", "fetch", "whole", "rounds", "dismiss", "graphed")


def launch_module() -> tree.Module:
    """Return the module of `runtime.library.launch` and what it uses."""
    from acronumba.emit.parse import parse_files

    files = [
        f"acronumba.runtime.library.{name}" for name in ("launch_steps", "launch", "launch_rounds", "launch_graph")
    ]
    return tree.Module("launches", parse_files(files), EXPORTS)


def launch_code() -> Deferred:
    """Return the module of `launch_module`, made only if its machine code is not cached."""
    return Deferred(name="launches", key="launches", make=launch_module)


@record(kw_only=True)
class Driver:
    """Addresses of C functions: `cuLaunchKernel` and others, or stand-ins for them."""

    launch: int
    cooperate: int  # cuLaunchCooperativeKernel
    upload: int  # cuMemcpyHtoDAsync
    record: int  # cuEventRecord
    reach: int  # cuEventSynchronize
    download: int  # cuMemcpyDtoHAsync
    wait: int  # cuStreamSynchronize
    graph: int = 0  # cuGraphLaunch; 0: there is none


@record(eq=False)
class Launches:
    """The table LAUNCH, and the tables that it points to."""

    words: Words
    kernels: Words
    functions: Words
    grids: Words

    def __getitem__(self, name: str) -> int:
        return int(self.words[LAUNCH.at[name]])

    def __setitem__(self, name: str, value: int) -> None:
        self.words.data[LAUNCH.at[name]] = value

    @property
    def address(self) -> int:
        """Of the words."""
        return address(self.words)


def launches(
    driver: Driver,
    stream: int,
    processors: int,
    kernels: Sequence[Sequence[tuple[int, int, Sequence[Grid]]]],
    drive: int = 0,
) -> Launches:
    """Return the tables for kernels, each a list of functions: handle, maximum number of blocks, and grids.

    `drive` is the address of the function that runs the stages of a mini-batch. Scratch memory is not set yet.
    """
    counts = np.zeros((len(kernels), KERNEL.count), np.int64)
    functions: list[tuple[int, ...]] = []
    grids: list[tuple[int, ...]] = []
    for k, own in enumerate(kernels):
        counts[k] = len(functions), len(own)
        for handle, most, those in own:
            functions.append((handle, most, len(grids), len(those), 0, 0, 0))
            grids += [tuple(getattr(grid, name) for name in GRID.at) for grid in those]
    made = [
        np.array([*rows, (0,) * width], np.int64) for rows, width in ((functions, FUNCTION.count), (grids, GRID.count))
    ]
    words = np.zeros(LAUNCH.count, np.int64)
    at = LAUNCH.at["parameters"]
    words[at : at + 4] = [address(words) + 8 * LAUNCH.at[name] for name in ("p", "nodes", "scratch", "warps")]
    out = Launches(words, counts, *made)
    for name in ("launch", "cooperate", "upload", "record", "reach", "graph", "download", "wait"):
        out[name] = getattr(driver, name)
    out["drive"], out["stream"], out["processors"] = drive, stream, processors
    out["kernels"], out["functions"], out["grids"] = address(counts), address(made[0]), address(made[1])
    out["most"] = out["blocks"] = max((f[FUNCTION.at["blocks"]] for f in functions), default=1)
    return out
