"""The types and the typed program of a specialisation.

In: a function, and a sample of its data. Out: the `Schema` of the instances and the `Lowered` program. Types are
inferred and the function is lowered again until the program reads no field that the schema does not have.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from acronumba.data.shared import SharedTree
from acronumba.errors import AcronumbaError
from acronumba.generics import Value
from acronumba.ir.nodes import WIDENED, Program
from acronumba.ir.shapes import is_shape
from acronumba.ir.types import TensorT
from acronumba.pipeline.fit import orders_by_layout, packed_of, same_types
from acronumba.pipeline.log import Times, say

if TYPE_CHECKING:
    from acronumba.data.extents import KnownColumns
    from acronumba.data.schema import Schema
    from acronumba.frontend.lower import Lowered
    from acronumba.pipeline.rejected import Attempt


def infer_and_lower(
    columns: Sequence[Sequence[Value]], shared: Mapping[str, Value], tree: SharedTree, times: Times,
    seen: KnownColumns | None = None, rejected: list[Attempt] | None = None, tensors: bool = False,
    state: str = "written", earlier: Sequence[Schema] = (),
) -> tuple[Schema, Lowered]:  # fmt: skip
    """Infer and lower, with columns as such unless that is rejected or changes the order of a sum.

    Parameters
    ----------
    columns
        The instances, a column per positional parameter.
    shared, tree
        Values of the keyword-only parameters, and their structure.
    times
        Times of the function.
    seen
        The columns in the mini-batches that the function was compiled for before.
    rejected
        Collects the rejections of the front end.
    tensors
        Whether tensors of PyTorch are tensors in the code of the function.
    state
        Which written attributes may be read before they are written, see `Options.state`.
    earlier
        The types of earlier specialisations, whose functions the data may hold again.
    """
    from acronumba.data.extents import KnownColumns
    from acronumba.data.pack import infer
    from acronumba.data.schema import with_functions

    packed = packed_of(tree, shared)
    found = with_functions(infer([*columns, *packed], None), earlier)
    rejection: AcronumbaError | None = None
    attempts: list[Attempt] = []
    for places in [frozenset[str]()] if packed else (seen or KnownColumns()).choose(found):
        try:
            schema, lowered = _with_columns_at(
                places, columns, shared, packed, tree, found, times, attempts, tensors, state, earlier
            )
        except AcronumbaError as error:
            rejection = rejection or error
            continue
        if not places or not orders_by_layout(lowered.program):
            _tell_of_float64(times, lowered.program)
            return schema, lowered
    if rejected is not None:
        rejected += attempts
    assert rejection is not None
    raise rejection


def _tell_of_float64(times: Times, program: Program) -> None:
    """Say in a line that a model computes in float64, if all its shared arrays of floats are float32."""
    lines = sum(WIDENED in warning for warning in program.warnings)
    floats = {p.type.dtype for p in program.shared if isinstance(p.type, TensorT) and p.type.dtype.startswith("float")}
    if lines and floats == {"float32"}:
        where = f"{lines} lines compute" if lines > 1 else "a line computes"
        name = times.fn.__qualname__
        say(f"{name}: {where} in float64, though all parameters are float32: see {name}.explain(...).warnings")


def _with_columns_at(
    places: Container[str], columns: Sequence[Sequence[Value]], shared: Mapping[str, Value],
    packed: Sequence[Sequence[Value]], tree: SharedTree, found: Schema, times: Times, attempts: list[Attempt],
    tensors: bool, state: str, earlier: Sequence[Schema],
) -> tuple[Schema, Lowered]:  # fmt: skip
    """Infer and lower until the types of the fields that are read equal the schema, with columns at some paths."""
    from acronumba.data.extents import with_columns
    from acronumba.data.pack import infer, restrict
    from acronumba.data.schema import with_functions
    from acronumba.frontend.lower import Read, lower
    from acronumba.pipeline.rejected import Attempt

    schema, read = with_columns(found, places), list[Read]()
    narrowed: list[tuple[Mapping[type, frozenset[str]], Schema]] = []
    while True:
        try:
            with times.stage("lower"):
                params = schema.params[: len(columns)]
                lowered = lower(times.fn, params, schema.fields, tree, shared, read, tensors, state)
        except AcronumbaError:
            attempts += [Attempt(r, narrowed, places, tree, shared) for r in read]
            raise
        with times.stage("infer"):
            if all(map(is_shape, found.fields)):  # no objects whose fields would not be followed
                narrow = with_columns(restrict(found, lowered.reads), places)
            else:
                narrow = with_columns(with_functions(infer([*columns, *packed], lowered.reads), earlier), places)
        if same_types(schema, narrow, lowered.reads):
            return replace(narrow, params=narrow.params[: len(columns)]), lowered
        schema = narrow
        narrowed.append((lowered.reads, narrow))
