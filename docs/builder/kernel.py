"""Kernels of notebooks, and other processes, that begin as forks of one that has imported everything.

In: how Jupyter would start a kernel. Out: a process that serves it. A new Python needs three seconds before it compiles
its first model; a fork of the process that has imported this module needs none of them. Where there is no fork, a
process of its own imports what it needs.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.forkserver
import os
from pathlib import Path
from typing import Any

from jupyter_client import AsyncKernelManager

CONTEXT: Any = multiprocessing.get_context(
    "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
)


def prepare(folders: list[str]) -> None:
    """Start the process that is forked: say what it imports, and in which folders it looks."""
    os.environ["PYTHONPATH"] = os.pathsep.join([*folders, *filter(None, [os.environ.get("PYTHONPATH")])])
    if CONTEXT.get_start_method() == "forkserver":
        CONTEXT.set_forkserver_preload(["builder.warm"])
        multiprocessing.forkserver.ensure_running()


class Manager(AsyncKernelManager):
    """Starts a kernel as a fork."""

    async def _async_launch_kernel(self, kernel_cmd: list[str], **kw: Any) -> None:
        arguments = kernel_cmd[kernel_cmd.index("-f") :]
        given = arguments, kw.get("cwd") or ".", kw.get("env") or {}
        process = CONTEXT.Process(target=serve, args=given, daemon=True)
        process.start()
        self.provisioner.process = _Process(process)
        self._reconcile_connection_info(self.provisioner.connection_info)


class _Process:
    """A process of `multiprocessing`, with the names of `subprocess.Popen`."""

    stdin = stdout = stderr = None

    def __init__(self, process: Any) -> None:
        self._process = process

    def poll(self) -> int | None:
        code: int | None = self._process.exitcode
        return code

    def wait(self) -> int | None:
        self._process.join()
        return self.poll()

    def send_signal(self, number: int) -> None:
        os.kill(self._process.pid, number)


def serve(arguments: list[str], folder: str | Path, environment: dict[str, str]) -> None:
    """Be a kernel of Jupyter."""
    from ipykernel.kernelapp import IPKernelApp

    os.environ.update(environment)
    os.chdir(folder)
    for stream in (1, 2):  # kernels write there how to talk to them; what cells print goes another way
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
    IPKernelApp.launch_instance(argv=arguments)
