"""Indexes made up for plans, and a plan's bytes as tests read them.

Law
---
1. An index here is no file's: its numbers tell which chunk is meant, and the datasets may be as
   odd as HDF5 allows.
2. The reading of the wire format shares no code with `_multitables/wire/plan_bytes.py`.
"""

from __future__ import annotations

import math
import struct
from typing import Any

import numpy as np
from hypothesis import strategies as st

from _multitables import _core
from _multitables.index.chunk_index import (
    CHUNK,
    ChunkIndex,
    Fingerprint,
    SourceFile,
    Stored,
    chunks_of,
)
from _multitables.index.types.element_type import Conversion, ElementType, FieldType
from _multitables.index.types.hdf5_metadata import FilterSpec
from _multitables.index.types.kind import Kind
from _multitables.plan.ring_size import whole_pages
from _multitables.plan.stream_plan import ReadPlan
from _multitables.plan.tasks import TASK
from _multitables.wire import plan_bytes

FILE = SourceFile("/tmp/a.h5", Fingerprint(1, 2, 1 << 40, 3))
#: Filters that these plans decode natively.
NATIVE = (1, 2, 3)


@st.composite
def an_index(draw: st.DrawFn, rows: int) -> ChunkIndex:
    inner = draw(st.lists(st.integers(1, 6), max_size=3))
    dims = (rows, *inner)
    layout = draw(st.sampled_from(["chunked", "contiguous", "library", "unknown filter"]))
    element = draw(st.sampled_from([1, 2, 8, 24, 70_000]))
    field = draw(st.integers(1, element))
    chunk_dims, ids, pipeline = None, np.zeros(0, np.uint64), ()
    if layout in ("chunked", "unknown filter"):
        chunk_dims = tuple(draw(st.integers(1, max(1, dim + 2))) for dim in dims)
        grid = math.prod(-(-dim // chunk) for dim, chunk in zip(dims, chunk_dims, strict=True))
        stored = draw(st.sets(st.integers(0, grid - 1), max_size=40)) if grid else set()
        if draw(st.booleans()):
            stored = set(range(min(grid, 3000)))
        ids = np.array(sorted(stored), np.uint64)
        pipeline = (FilterSpec(1, 0, (4,), "deflate"),)
    elif layout == "contiguous" and draw(st.booleans()):
        ids = np.zeros(1, np.uint64)
    if layout == "unknown filter":
        pipeline = (*pipeline, FilterSpec(307, 1, (), "bzip2"))
    sizes = np.arange(len(ids), dtype=np.uint64) + np.uint64(10)
    if layout == "contiguous":
        sizes = np.full(len(ids), math.prod(dims) * element, np.uint64)
    changes = (Conversion(0, 1, 1, 0, 1, 1, field, 2),) if draw(st.booleans()) else ()
    delivered = ElementType(np.dtype(f"V{field}"), field, changes, field)
    fill_value = bytes(range(256)) * (element // 256) + bytes(element % 256)
    part = FieldType(delivered, draw(st.integers(0, element - field)))
    chunks = chunks_of(ids, ids * np.uint64(1000) + np.uint64(512), sizes, ids % 3)
    kind = Kind(part, element, pipeline, fill_value)
    index = Stored((FILE,), "/x", kind, dims, chunk_dims, chunks=chunks)
    return index.by_library("a virtual dataset") if layout == "library" else index


def plain_index(rows: int = 100, chunk: int = 10, element: int = 8) -> Stored:
    count = -(-rows // chunk)
    changes = (Conversion.of(element, 2),)
    part = FieldType(ElementType(np.dtype(f"V{element}"), element, changes, element), 0)
    kind = Kind(part, element, (FilterSpec(1, 0, (4,), "deflate"),), bytes(element))
    chunks = chunks_of(np.arange(count), np.arange(count) * 1000, 320)
    return Stored((FILE,), "/x", kind, (rows, 4), (chunk, 4), chunks=chunks)


def inner_chunks(dataset: Any) -> int:
    """Chunks that hold the same rows."""
    return math.prod(
        -(-dim // chunk)
        for dim, chunk in zip(dataset.index.dims[1:], dataset.chunk_dims[1:], strict=True)
    )


HEADER_WORDS = """
    magic total_bytes n_tapes n_tasks n_order n_listed n_readers n_slots first_row
    lap_rows end_row capacity_rows block_rows control_bytes ring_bytes
    lap_blocks cache_bytes n_ends n_consumers
""".split()  # noqa: SIM905 - a table reads better so
TAPE_WORDS = ["dataset", "at", "n_bytes", "caches", "ends"]
TABLE_WORDS = "magic total_bytes n_sources n_datasets n_chunks n_words n_blob reserved".split()  # noqa: SIM905
SOURCE_WORDS = """
    name_at name_len device inode size_bytes mtime_ns inline_at inline_len flags access_at
    access_len
""".split()  # noqa: SIM905
DATASET_WORDS = """
    source row_bytes element_bytes field_offset field_bytes n_dims dims_at chunk_dims_at
    filters_at n_filters fill_at conversions_at n_conversions flags library_at library_len chunks_at
    n_chunks parts_at n_parts_words delivered_bytes
""".split()  # noqa: SIM905


class _Bytes:
    """Bytes that are read from their beginning."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def record(self, names: list[str]) -> dict[str, Any]:
        size = 8 * len(names)
        found = struct.unpack(f"<{len(names)}Q", self.data[:size])
        self.data = self.data[size:]
        return dict(zip(names, found, strict=True))

    def array(self, dtype: Any, count: int) -> np.ndarray:
        size = np.dtype(dtype).itemsize * count
        found = np.frombuffer(self.data[:size], dtype)
        self.data = self.data[size:]
        return found


def decoded(data: bytes) -> dict[str, Any]:
    """The tests' own reading of a plan's bytes."""
    rest = _Bytes(data)
    found = rest.record(HEADER_WORDS)
    found["tapes"] = [rest.record(TAPE_WORDS) for _ in range(found["n_tapes"])]
    found["tasks"] = rest.array(TASK, found["n_tasks"])
    found["order"] = rest.array("<u8", found["n_order"])
    found["listed"] = rest.array("<u8", found["n_listed"])
    found["ends"] = [rest.array("<u8", found["lap_rows"] + 1) for _ in range(found["n_ends"])]
    return found | {"table": decoded_table(rest.data)}


def decoded_table(data: bytes) -> dict[str, Any]:
    """The tests' own reading of a dataset table's bytes."""
    rest = _Bytes(data)
    found = rest.record(TABLE_WORDS)
    assert found["total_bytes"] == len(data)
    found["sources"] = [rest.record(SOURCE_WORDS) for _ in range(found["n_sources"])]
    found["datasets"] = [rest.record(DATASET_WORDS) for _ in range(found["n_datasets"])]
    found["chunks"] = rest.array(CHUNK, found["n_chunks"])
    found["words"] = rest.array("<u8", found["n_words"])
    found["blob"] = rest.data
    assert len(rest.data) == found["n_blob"]
    return found


def repeated(tasks: np.ndarray) -> np.ndarray:
    """Each task as often as it is repeated; those of several tapes take turns."""
    found = np.repeat(tasks, tasks["repeat"].astype(int))
    first = np.cumsum(tasks["repeat"]) - tasks["repeat"]
    before = np.arange(len(found), dtype=np.uint64) - np.repeat(first, tasks["repeat"].astype(int))
    rows = before * (found["row_end"] - found["row_begin"])
    found["row_begin"] += rows
    found["row_end"] += rows
    found["repeat"] = 1
    return found[np.argsort(found["row_begin"], kind="stable")]


def words(got: dict[str, Any], at: int, count: int) -> list[int]:
    """Some words of a decoded table."""
    return [int(word) for word in got["words"][at : at + count]]


def ring(plan: ReadPlan, data: bytes) -> _core.Ring:
    """The core's ring of a plan, which it checks first."""
    views = [(m.index.dtype, [int(n) for n in m.index.row_shape]) for m in plan.datasets]
    return _core.Ring(data, views, None if len(views) == 1 else [])


def encoded(plan: ReadPlan) -> bytes:
    """A plan as it is given to readers."""
    control = whole_pages(_core.control_bytes(plan.n_readers, plan.n_slots, plan.n_consumers))
    return plan_bytes.encode_plan(plan, control, {}, [""] * len(plan.datasets))
