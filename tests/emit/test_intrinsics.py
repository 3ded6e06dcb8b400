"""The table of intrinsics: every reading of the language has each row, and the stubs say what the row says."""

from __future__ import annotations

import inspect

from acronumba.emit import arithmetic, interpret, language, llvm_intrinsics
from acronumba.emit.intrinsics import INTRINSICS
from acronumba.emit.simt import NAMES


def test_each_reading_has_each_row() -> None:
    called = {name for name, row in INTRINSICS.items() if row.called}
    assert (
        arithmetic.RULES.keys() | interpret.OF_MEMORY.keys()
        == llvm_intrinsics.RULES.keys()
        == INTRINSICS.keys() - called
    )
    assert {letter for row in INTRINSICS.values() for letter in row.args} == {*"vsixct"}
    assert {row.result for row in INTRINSICS.values()} == {*"vsibt-"}


def test_kernels_of_gpus_may_use_their_names() -> None:
    assert {n for n, row in INTRINSICS.items() if row.gpu == "name"} <= NAMES


def test_stubs_say_what_the_rows_say() -> None:
    results = {"i": {"i64"}, "b": {"bool"}, "-": {"None"}, "v": {"i64", "_F"}, "t": {"_F"}}
    found = {name: getattr(language, name) for name in INTRINSICS if hasattr(language, name)}
    assert len(found) >= 12
    for name, stub in found.items():
        signature = inspect.signature(stub)
        assert len(signature.parameters) == len(INTRINSICS[name].args), name
        assert signature.return_annotation in results[INTRINSICS[name].result], name
