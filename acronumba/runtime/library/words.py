"""The words of the state table and of kernels by their names, for the files of the library.

`N` is the place of the word `n` of `state.STATE`, `K_ARGS` that of `args` in a row of `state.KERNEL`, which has
`K_WORDS` words.
"""

from __future__ import annotations

from acronumba.runtime.state import KERNEL, STATE

_PLACES = STATE.constants() | KERNEL.constants("K_") | {"K_WORDS": KERNEL.count}


def __getattr__(name: str) -> int:
    try:
        return _PLACES[name]
    except KeyError:
        raise AttributeError(f"no word of the state table or of a kernel: {name}") from None
