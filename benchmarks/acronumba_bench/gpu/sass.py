"""Machine code of GPUs, as `nvdisasm` prints it: instructions with their control codes.

In: a cubin. Out: the `Instruction`s of each function. A word of 128 bits has, from bit 105 on: 4 bits of cycles that
the warp waits behind the instruction (stall), 1 bit (yield), 3 bits: the scoreboard that its result sets free, 3 bits:
the one that reading its operands sets free (7: none), and 6 bits: the scoreboards that it waits for.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from dataclasses import dataclass, field
from functools import cache
from importlib.util import find_spec
from pathlib import Path

SIZE = 16  # bytes of an instruction
_APART = 1 << 20  # bytes between the functions of a cubin, whose code lies one behind the other here

_LINE = re.compile(r"^\s+/\*([0-9a-f]{4,})\*/\s+(.*?)\s*/\*\s*0x([0-9a-f]{16})\s*\*/")
_HIGH = re.compile(r"^\s+/\*\s*0x([0-9a-f]{16})\s*\*/")
_TEXT = re.compile(r"//-+ \.text\.(\S+)\s+-+")
_LABEL = re.compile(r"^(\.L_x_\d+):")
_GUARD = re.compile(r"^@(!?)(U?P\w+)\s+(.*)$")
_TARGET = re.compile(r"`\(([\w.$]+)\)")
_RETURN = re.compile(r"32@(lo|hi)\(\(\S+ \+ (\.L_x_\d+)@srel\)\)")


@dataclass(slots=True)
class Instruction:
    """An instruction; `at` and `target` are bytes from the beginning of the code."""

    at: int
    text: str
    guard: str  # "P0", "!UP1", "": always
    parts: tuple[str, ...]  # of its name: HMMA, 1688, F32, TF32
    args: tuple[str, ...]
    target: int = -1
    stall: int = 0
    sets: int = 7
    reads: int = 7
    waits: int = 0

    @property
    def kind(self) -> str:
        """First part of the name."""
        return self.parts[0]


@dataclass
class Code:
    """All instructions of a cubin: those of the kernel first."""

    body: list[Instruction]
    labels: dict[str, int] = field(default_factory=dict)
    size: int = 0  # bytes of all functions

    def at(self, address: int) -> int:
        """Return the number of the instruction at an address."""
        return self._numbers[address]

    def __post_init__(self) -> None:
        self._numbers = {i.at: k for k, i in enumerate(self.body)}


@cache
def nvdisasm() -> str:
    """Return the path of the disassembler, "" if the package nvidia-cuda-nvdisasm is not installed."""
    spec = find_spec("nvidia")
    for folder in spec.submodule_search_locations or () if spec is not None else ():
        for found in Path(folder).glob("cu*/bin/nvdisasm*"):
            return str(found)
    return ""


def read(cubin: bytes, name: str) -> Code:
    """Return the code of a cubin whose kernel's name contains `name`."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        told = subprocess.run([nvdisasm(), "-hex", "-c", file.name], capture_output=True, text=True, check=True)
    functions = _functions(told.stdout)
    ordered = sorted(functions, key=lambda one: name not in one)
    labels: dict[str, int] = {}
    body: list[Instruction] = []
    for k, one in enumerate(ordered):
        found, own = functions[one]
        labels |= {label: k * _APART + at for label, at in own.items()} | {one: k * _APART}
        for i in found:
            i.at += k * _APART
            body.append(i)
    for i in body:
        _resolve(i, labels)
    return Code(body, labels, SIZE * len(body))


def _functions(text: str) -> dict[str, tuple[list[Instruction], dict[str, int]]]:
    out: dict[str, tuple[list[Instruction], dict[str, int]]] = {}
    body: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in text.splitlines():
        if m := _TEXT.search(line):
            body, labels = out.setdefault(m[1], ([], {}))
        elif m := _LABEL.match(line):
            labels[m[1]] = SIZE * len(body)
        elif m := _LINE.match(line):
            body.append(_instruction(int(m[1], 16), m[2].rstrip(" ;")))
        elif (m := _HIGH.match(line)) and body:
            control, i = int(m[1], 16) >> 41, body[-1]
            i.stall, i.sets, i.reads, i.waits = control & 15, control >> 5 & 7, control >> 8 & 7, control >> 11 & 63
    return out


def _instruction(at: int, text: str) -> Instruction:
    found = _GUARD.match(text)
    guard, rest = (found[1] + found[2], found[3]) if found else ("", text)
    name, _, args = rest.partition(" ")
    split = tuple(a.strip().replace(".reuse", "") for a in args.split(",")) if args.strip() else ()
    return Instruction(at, text, guard, tuple(name.split(".")), split)


def _resolve(i: Instruction, labels: dict[str, int]) -> None:
    """Replace labels by addresses."""
    if found := _TARGET.search(i.text):
        i.target = labels[found[1]]
        i.args = tuple(a for a in i.args if "`" not in a)
    elif found := _RETURN.search(i.text):
        at = labels[found[2]]
        i.args = (i.args[0], hex(at if found[1] == "lo" else at >> 32))
