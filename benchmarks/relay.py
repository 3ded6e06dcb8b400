"""Work that may crash, hang or poison a GPU, done by child processes, one request after the other.

In: requests, each with a time that it may take. Out: replies, as they come. A child that dies, takes too long or
fails is replaced by a new one for the next request, so that one bad kernel costs one reply. Nothing new begins when the
time of all is up; what was left out is said.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

START = 45.0  # seconds that a child may take to begin
_TAIL = 1500  # characters of what a child has written to stderr


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Something to be done."""

    do: str  # the name of a function of the child
    args: dict[str, Any] = field(default_factory=dict)  # of it: values for JSON
    cap: float = 60.0  # seconds

    @property
    def name(self) -> str:
        """The function and its plain arguments, for people."""
        return " ".join([self.do, *(str(v) for v in self.args.values() if isinstance(v, str | int))])


class _Child:
    """A process that answers requests, a line each."""

    def __init__(self, command: Sequence[str]) -> None:
        self.errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the process
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=self.errors)
        self.allowed = START

    def ask(self, request: Request, seconds: float) -> tuple[dict[str, Any], bool]:
        """Return the reply, and whether the child can be asked again."""
        assert self.process.stdin is not None and self.process.stdout is not None
        late = threading.Event()

        def kill() -> None:
            late.set()
            self.process.kill()

        timer = threading.Timer(seconds + self.allowed, kill)
        timer.start()
        try:
            self.process.stdin.write(json.dumps({"do": request.do, "args": request.args}).encode() + b"\n")
            self.process.stdin.flush()
            line = self.process.stdout.readline()
        except OSError:
            line = b""
        finally:
            timer.cancel()
        self.allowed = 0.0
        if line.endswith(b"\n"):
            reply = json.loads(line)
            return reply, "error" not in reply
        code = self.process.wait()
        why = f"took longer than {seconds:.0f} s" if late.is_set() else f"the process ended with status {code}"
        self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(self.errors.tell() - _TAIL, 0))
        reply = {"error": why, "stderr": self.errors.read().decode(errors="replace")}
        return reply | ({"late": True} if late.is_set() else {}), False

    def end(self) -> None:
        """Let the process end, or end it."""
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.close()
        except OSError:
            self.process.kill()  # it is no longer there to read
        try:
            self.process.wait(5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()
        self.errors.close()


def relay(
    requests: Sequence[Request],
    command: Sequence[str],
    report: Callable[[Request, dict[str, Any]], None],
    *,
    end: float = float("inf"),
    at_once: int = 1,
) -> list[Request]:
    """Have requests answered; return those that there was no time for.

    Parameters
    ----------
    requests : sequence
    command : sequence of str
        Of the children: programs that `serve`.
    report : function
        Called with each request and its reply, never twice at the same time.
    end : float
        Of `time.monotonic`: nothing begins after it, and what runs then is stopped and counts as left out.
    at_once : int
        How many children work at the same time.
    """
    waiting = list(reversed(requests))
    cut: list[Request] = []
    lock = threading.Lock()

    def work() -> None:
        child: _Child | None = None
        while True:
            with lock:
                left = end - time.monotonic()
                if not waiting or left <= 0:
                    break
                request = waiting.pop()
            child = child or _Child(command)
            reply, good = child.ask(request, min(request.cap, left))
            if not good:
                child.end()
                child = None
            with lock:
                if "late" in reply and left < request.cap:
                    cut.append(request)
                else:
                    report(request, reply)
        if child is not None:
            child.end()

    threads = [threading.Thread(target=work) for _ in range(min(at_once, len(requests)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return cut + waiting[::-1]


def serve(functions: dict[str, Callable[..., Any]]) -> None:
    """Answer requests from stdin until there are none, or one has failed: a GPU may be unusable after that."""
    with os.fdopen(os.dup(1), "wb") as out:
        os.dup2(2, 1)  # what libraries print is no reply
        for line in sys.stdin:
            reply = answer(functions, json.loads(line))
            out.write(json.dumps(reply).encode() + b"\n")
            out.flush()
            if "error" in reply:
                break


def answer(functions: dict[str, Callable[..., Any]], request: dict[str, Any]) -> dict[str, Any]:
    """Return the reply to a request: `result` or `error`, and the seconds that it took."""
    start = time.perf_counter()
    reply: dict[str, Any]
    try:
        reply = {"result": functions[request["do"]](**request["args"])}
    except Exception as error:  # whatever it is, those who ask want to go on
        import traceback

        reply = {"error": f"{type(error).__name__}: {error}", "stderr": traceback.format_exc()[-_TAIL:]}
    return {**reply, "seconds": time.perf_counter() - start}
