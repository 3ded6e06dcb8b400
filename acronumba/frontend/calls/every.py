"""Imports all files with rows, which registers them in `tables.ROWS` and `tables.METHODS`."""

from __future__ import annotations

from acronumba.frontend.calls import (
    of_collections,
    of_compressed,
    of_copies,
    of_dtypes,
    of_heaps,
    of_layouts,
    of_library,
    of_maps,
    of_numpy,
    of_python,
    of_settings,
    of_texts,
    of_ufuncs,
    written,
    written_math,
    written_matrices,
    written_orders,
    written_products,
    written_shapes,
    written_special,
)

FILES = (
    of_collections, of_compressed, of_copies, of_dtypes, of_heaps, of_layouts, of_library, of_maps, of_numpy,
    of_python, of_settings, of_texts, of_ufuncs, written, written_math, written_matrices, written_orders,
    written_products, written_shapes, written_special,
)  # fmt: skip
