"""Modules interpreted in the memory of this process, in the place of machine code.

In: modules of `tree`. Out: for each an `InterpretedCode`, which `compile.Compiled` takes as machine code. An address of
a function is the number of a function of Python, which interpreted code calls directly: exceptions pass through, and a
debugger steps from one to the other. `interpret` has the rules; its memory, which checks each access, gives way to the
process's own.
"""

from __future__ import annotations

import ctypes
import itertools
import weakref

from acronumba.emit import interpret, tree
from acronumba.emit.interpret import Function

_functions: dict[int, Function] = {}
_addresses = itertools.count(16, 16)


class Memory(interpret.InterpreterMemory):
    """All memory of the process: an access is not checked, as in machine code."""

    def place(self, address: int, size: int, align: int, what: str, write: bool) -> tuple[memoryview, int]:
        return memoryview((ctypes.c_uint8 * size).from_address(address)).cast("B"), 0

    def call(self, address: int, *args: int) -> object:
        return call(address, *args)


class InterpretedCode:
    """The entry points of a module, as long as this object lives."""

    def __init__(self, module: tree.Module) -> None:
        memory = Memory()

        def entry(name: str) -> Function:
            return lambda *args: interpret.run(module, name, args, memory)

        self._entries = {name: entry(name) for name in module.exports}
        made = {name: add_function(function) for name, function in self._entries.items()}
        self.address = {name: address for name, (address, _) in made.items()}
        self._keep = [keep for _, keep in made.values()]

    def function(self, name: str) -> Function:
        """Return the function of an entry point."""
        return self._entries[name]


class _Owner:
    """Owner of a function's address: the address ends with it."""

    def __init__(self, address: int) -> None:
        weakref.finalize(self, _functions.pop, address).atexit = False


def add_function(function: Function) -> tuple[int, object]:
    """Return the address of a function of Python for interpreted code, and its owner."""
    address = next(_addresses)
    _functions[address] = function
    return address, _Owner(address)


def call(address: int, *args: int) -> object:
    """Call the function at an address: one of Python, or one of C, such as a GPU's driver has."""
    function = _functions.get(address)
    if function is None:
        function = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * len(args))(address)
    return function(*args)
