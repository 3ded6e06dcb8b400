"""Numbers of the words of tables, by name, for the files of the library.

`N` is the number of the word `n` of `state.STATE`, `K_ARGS` the number of `args` in a row of `state.KERNEL`, which has
`K_WORDS` words; `RECORD_HEAD` the number of `head` in a value record, of `RECORD_BYTES` bytes, and so on.
"""

from __future__ import annotations

from acronumba.data import words as _values
from acronumba.ir import spec as _spec
from acronumba.runtime import state as _state

_PLACES = _state.STATE.constants() | _state.KERNEL.constants("K_") | {"K_WORDS": _state.KERNEL.count}
for _prefix, _table in {
    "RECORD_": _values.RECORD, "LIST_": _values.LIST, "PARAMETERS_": _spec.PARAMETERS, "BLOCK_": _spec.BLOCK,
    "UNITS_": _spec.UNITS, "STAGE_": _state.STAGE,
    "POOL_": _state.POOL, "JOB_": _state.JOB,
}.items():  # fmt: skip
    _PLACES |= _table.constants(_prefix) | {f"{_prefix}BYTES": _table.size}


def __getattr__(name: str) -> int:
    try:
        return _PLACES[name]
    except KeyError:
        raise AttributeError(f"no word of a table: {name}") from None
