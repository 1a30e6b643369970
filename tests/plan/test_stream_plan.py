"""Plans and their bytes, by the thousand: no file, no process.

1. The laws of stream_plan.py hold for every index and all options (Hypothesis).
2. Wire: what encode_plan writes is read back here word by word, by a decoder of the tests' own.
3. The core's own check of a plan accepts each, and refuses damaged ones.
"""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from plans import (
    FILE,
    HEADER_WORDS,
    NATIVE,
    an_index,
    decoded,
    encoded,
    inner_chunks,
    plain_index,
    repeated,
    ring,
    words,
)

from _multitables import _core, sizes
from _multitables.index.chunk_index import ChunkIndex, Stored, chunks_of
from _multitables.index.types.element_type import Conversion, ElementType, FieldType
from _multitables.index.types.hdf5_metadata import FilterSpec
from _multitables.index.types.kind import Kind
from _multitables.plan.stream_plan import ENDLESS, ReadPlan, plan_reads
from _multitables.plan.tasks import AGAIN_SHARE, KIND_CHUNKS, KIND_LIBRARY
from _multitables.wire import plan_bytes
from _multitables.wire.request_bytes import decode_library


@dataclass(frozen=True)
class Case:
    """Arguments of plan_reads."""

    indexes: tuple[ChunkIndex, ...]
    options: dict[str, Any]
    #: The smaller, the more often a task of what was never stored is repeated.
    task_bytes: int

    @property
    def rows(self) -> int:
        return self.indexes[0].n_rows - int(self.options["first_row"])

    def plan(self) -> ReadPlan:
        with mock.patch.object(sizes, "TASK_BYTES", self.task_bytes):
            return plan_reads(self.indexes, native_filters=NATIVE, **self.options)


@st.composite
def a_case(draw: st.DrawFn) -> Case:
    rows = draw(st.one_of(st.integers(0, 60), st.integers(0, 3000)))
    first = draw(st.one_of(st.just(0), st.integers(0, rows)))
    wanted = {
        "block_rows": draw(st.one_of(st.integers(1, 80), st.integers(1, 5000))),
        "n_readers": draw(st.integers(1, 9)),
        "read_ahead": draw(st.one_of(st.none(), st.integers(1, 30))),
        "cyclic": draw(st.booleans()),
        "remainder": draw(st.booleans()),
        "first_row": first,
        "direct": draw(st.booleans()),
    }
    indexes = draw(st.lists(an_index(rows), min_size=1, max_size=3))
    task_bytes = [sizes.TASK_BYTES, sizes.TASK_BYTES, 1 << 14, 1 << 10, 100]
    return Case(tuple(indexes), wanted, draw(st.sampled_from(task_bytes)))


many = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@many
@given(a_case())
def test_every_wanted_row_is_covered_and_none_beyond(case: Case) -> None:
    plan = case.plan()
    wanted = case.rows
    if not (case.options["cyclic"] or case.options["remainder"]):
        wanted = case.rows // case.options["block_rows"] * case.options["block_rows"]
    assert plan.lap_rows == wanted
    assert plan.end_row == (ENDLESS if case.options["cyclic"] and case.rows else wanted)
    for number, dataset in enumerate(plan.datasets):
        tasks = repeated(plan.tasks[plan.tasks["tape"] == number])
        if wanted == 0:
            assert len(tasks) == 0
            continue
        assert (tasks["row_begin"] < tasks["row_end"]).all()
        assert int(tasks["row_begin"].min()) == 0
        assert int(tasks["row_end"].max()) == wanted
        if tasks["kind"][0] == KIND_LIBRARY or inner_chunks(dataset) == 1:
            # One task a row range: they follow each other without gap or overlap.
            np.testing.assert_array_equal(tasks["row_begin"][1:], tasks["row_end"][:-1])
        else:
            joined = np.unique(tasks["row_begin"])
            assert set(joined[1:]) <= set(tasks["row_end"])


@many
@given(a_case())
def test_every_element_is_delivered_exactly_once(case: Case) -> None:
    """Of stored chunks, and of those that were never stored."""
    plan = case.plan()
    first = case.options["first_row"]
    again = 0.0
    for number, dataset in enumerate(plan.datasets):
        index, inner, outer = dataset.index, inner_chunks(dataset), dataset.chunk_dims[0]
        tasks = repeated(plan.tasks[plan.tasks["tape"] == number])
        if dataset.reason or not len(tasks):
            assert not tasks["n_chunks"].any()
            assert (tasks["kind"] == KIND_LIBRARY).all()
            assert not dataset.n_chunks
            continue
        assert (tasks["kind"] == KIND_CHUNKS).all()
        delivered = np.zeros((plan.lap_rows, inner), int)
        read: dict[int, int] = {}
        stored = set(plan.table.chunks["grid_index"][dataset_chunks(dataset)].tolist())
        for task in tasks:
            rows = slice(int(task["row_begin"]), int(task["row_end"]))
            begin, count = int(task["first_chunk"]), int(task["n_chunks"])
            chunk_rows = range(begin // inner, (begin + count - 1) // inner + 1)
            # Together its chunks have all of its rows.
            assert chunk_rows.start * outer - first <= rows.start
            assert chunk_rows.stop * outer - first >= rows.stop
            whole = begin % inner == 0 and count % inner == 0
            assert whole or len(chunk_rows) == 1
            columns = slice(None) if whole else slice(begin % inner, begin % inner + count)
            delivered[rows, columns] += 1
            here = [chunk for chunk in stored if begin <= chunk < begin + count]
            read.update({chunk: read.get(chunk, 0) + 1 for chunk in here})
        assert (delivered == 1).all()
        assert stored <= set(read)
        most = max(read.values(), default=1)
        again += (most - 1) * math.prod(index.dims[1:]) * index.kind.element_bytes
        assert len(plan.datasets) > 1 or most == 1
    whole_rows = [math.prod(m.index.dims[1:]) * m.index.kind.element_bytes for m in plan.datasets]
    assert again <= sum(whole_rows) / AGAIN_SHARE


def dataset_chunks(dataset: Any) -> slice:
    """A dataset's part of the plan's chunks."""
    return slice(dataset.chunks_at, dataset.chunks_at + dataset.n_chunks)


@many
@given(a_case())
def test_chunks_are_those_of_the_index(case: Case) -> None:
    plan = case.plan()
    first = case.options["first_row"]
    assert sum(dataset.n_chunks for dataset in plan.datasets) == len(plan.table.chunks)
    for dataset in plan.datasets:
        index, outer = dataset.index, dataset.chunk_dims[0]
        chunks = plan.table.chunks[dataset_chunks(dataset)]
        if dataset.reason or not plan.lap_rows or not index.row_bytes:
            assert not len(chunks)
            continue
        rows = range(first // outer, -(-(first + plan.lap_rows) // outer))
        inner = inner_chunks(dataset)
        wanted = range(rows.start * inner, rows.stop * inner)
        if not (index.is_chunked or index.reason):
            ids = wanted if len(index.byte_offset) else range(0)
            assert chunks["grid_index"].tolist() == list(ids)
            begin = np.array(ids, int) * outer
            row_bytes = math.prod(index.dims[1:]) * index.kind.element_bytes
            lengths = np.minimum(outer, index.dims[0] - begin)
            assert (chunks["byte_offset"] == 512 + begin * row_bytes).all()
            assert (chunks["stored_size"] == lengths * row_bytes).all()
            continue
        here = np.isin(index.grid_index, np.array(wanted, np.uint64))
        for name in ("grid_index", "byte_offset", "stored_size", "filter_mask"):
            np.testing.assert_array_equal(chunks[name], index.chunks[name][here])


@many
@given(a_case())
def test_tasks_are_sorted_and_the_ring_holds_what_it_must(case: Case) -> None:
    plan = case.plan()
    begin = repeated(plan.tasks)["row_begin"].astype(int)
    assert (np.diff(begin) >= 0).all()
    span = int((plan.tasks["row_end"] - plan.tasks["row_begin"]).max()) if len(plan.tasks) else 0
    assert plan.capacity_rows >= max(plan.block_rows, span)
    ahead, cyclic = case.options["read_ahead"], case.options["cyclic"]
    least = 2 * plan.block_rows + 2 * span
    if ahead is not None:
        least = max(least, ahead * plan.block_rows)
    else:
        least = max(least, (2 * case.options["n_readers"] + 1) * plan.block_rows)
    if not cyclic:
        least = min(least, max(plan.lap_rows, plan.block_rows))
        assert plan.capacity_rows <= max(plan.lap_rows, plan.block_rows)
    assert plan.capacity_rows >= least
    for dataset, tape in zip(plan.datasets, plan.tapes, strict=True):
        assert tape.n_bytes >= plan.capacity_rows * dataset.index.row_bytes
        assert tape.n_bytes % 4096 == 0
        assert tape.n_bytes > 0


def chunked(
    dtype: np.dtype, shape: tuple[int, ...], chunks: tuple[int, ...], filter_id: int
) -> Stored:
    """A dataset whose chunks are all stored and divide its shape."""
    size = dtype.itemsize
    ids = np.arange(math.prod(shape) // math.prod(chunks), dtype=np.uint64)
    element = ElementType(dtype, size, (Conversion.of(size),), size)
    kind = Kind(FieldType(element, 0), size, (FilterSpec(filter_id, 0, (4,), ""),), bytes(size))
    records = chunks_of(ids, ids * np.uint64(1 << 20), ids + np.uint64(10))
    return Stored((FILE,), "/x", kind, shape, chunks, chunks=records)


@pytest.mark.parametrize("labels", ["long chunks", "short chunks", "contiguous", "library"])
@pytest.mark.parametrize("images", ["chunked", "contiguous"])
def test_labels_do_not_make_the_ring_long(images: str, labels: str) -> None:
    """A ring has the images of all labels that it holds."""
    n_rows, rows = 49152, 64 if labels == "short chunks" else 8192
    large = chunked(np.dtype("u1"), (n_rows, 64, 64, 3), (16, 64, 64, 3), 2)
    small = chunked(np.dtype("<i8"), (n_rows,), (rows,), 2)
    if images == "contiguous":
        large = replace(large, chunk_dims=None)
    if labels == "contiguous":
        small = replace(small, chunk_dims=None)
    if labels == "library":
        small = replace(small, chunk_dims=None).by_library("virtual")
    for indexes in ([large, small], [small, large]):
        plan = plan_reads(indexes, block_rows=64, n_readers=2, native_filters=NATIVE)
        assert plan.ring_payload_bytes < sizes.RING_BYTES + (1 << 20)
        # Labels beside labels are not cut.
        alike = plan_reads([small, small], block_rows=64, n_readers=2, native_filters=NATIVE)
        alone = plan_reads([small], block_rows=64, n_readers=2, native_filters=NATIVE)
        assert len(alike.tasks) == 2 * len(alone.tasks)


@pytest.mark.parametrize(
    ("filter_id", "chunk_kib", "n_chunks", "expected"),
    [
        (1, 512, 64, 4),
        (1, 513, 64, 3),
        (1, 1024, 64, 2),
        (1, 1025, 64, 1),
        (1, 64, 64, 4),
        (1, 32, 64, 8),
        (2, 512, 64, 1),
        # Both readers shall have tasks to choose from.
        (1, 512, 15, 1),
    ],
)
def test_deflated_chunks_come_in_company(
    filter_id: int, chunk_kib: int, n_chunks: int, expected: int
) -> None:
    shape = (n_chunks * chunk_kib,)
    index = chunked(np.dtype("V1024"), shape, (chunk_kib,), filter_id)
    plan = plan_reads((index,), native_filters=NATIVE, block_rows=chunk_kib, n_readers=2)
    assert plan.tasks["n_chunks"].max() == expected


@pytest.mark.parametrize(
    ("columns", "chunk_columns", "expected"),
    [
        # Chunks of 64 KiB: of each row 8, 16 and 256 bytes, and all.
        (640, 2, 16),
        (640, 4, 16),
        (640, 64, 4),
        (64, 64, 4),
    ],
)
def test_chunks_with_little_of_each_row_come_in_company(
    columns: int, chunk_columns: int, expected: int
) -> None:
    """Those beside each other are copied together (the core's engine/scatter/interleave.rs)."""
    rows = 16384 // chunk_columns
    index = chunked(np.dtype("<f4"), (8 * rows, columns), (rows, chunk_columns), 2)
    plan = plan_reads((index,), native_filters=NATIVE, block_rows=rows, n_readers=1)
    n_chunks = 8 * columns // chunk_columns
    assert plan.tasks["n_chunks"].max() == min(expected, n_chunks // 4)


@many
@given(a_case())
def test_slots_are_enough_for_all_tasks_within_the_ring(case: Case) -> None:
    """Two tasks may never share a slot while both begin within one capacity."""
    plan = case.plan()
    assert plan.n_slots & (plan.n_slots - 1) == 0
    tasks = repeated(plan.tasks)
    count = len(tasks)
    if count == 0:
        return
    endless = plan.end_row == ENDLESS
    laps = range(3 if plan.capacity_rows // plan.lap_rows < 50 else 1) if endless else range(1)
    begin = np.concatenate([tasks["row_begin"].astype(int) + lap * plan.lap_rows for lap in laps])
    if endless and len(laps) == 1:
        assert plan.n_slots > count * (plan.capacity_rows // plan.lap_rows)
        return
    # Tasks that can be claimed while the tail is at the begin of task i.
    ends = np.searchsorted(begin, begin + plan.capacity_rows, side="left")
    first = np.searchsorted(begin, begin, side="left")
    within = (ends - first)[:count]
    if endless:
        within = within[begin[:count] + plan.capacity_rows <= begin[-1]]
    assert (within <= plan.n_slots).all()


@many
@given(a_case())
def test_equal_arguments_give_equal_plans(case: Case) -> None:
    one, two = case.plan(), case.plan()
    np.testing.assert_array_equal(one.tasks, two.tasks)
    np.testing.assert_array_equal(one.table.chunks, two.table.chunks)
    assert one.tapes == two.tapes
    assert (one.capacity_rows, one.n_slots) == (two.capacity_rows, two.n_slots)


@many
@given(a_case(), st.booleans())
def test_wire(case: Case, turnstile: bool) -> None:
    plan = case.plan()
    fields = ["", "a/ü", "c"][: len(plan.datasets)]
    data = plan_bytes.encode_plan(plan, 8192, {"driver": "x"}, fields, turnstile)
    got = decoded(data)
    assert got["magic"] == int.from_bytes(b"MTPLAN05", "little")
    assert got["total_bytes"] == len(data)
    for name in ("n_readers", "n_slots", "first_row", "lap_rows", "end_row", "capacity_rows"):
        assert got[name] == getattr(plan, name)
    assert got["block_rows"] == plan.block_rows
    assert got["ring_bytes"] == 8192 + plan.ring_payload_bytes
    np.testing.assert_array_equal(got["tasks"], plan.tasks)
    tape_at = 8192
    for number, (record, tape) in enumerate(zip(got["tapes"], plan.tapes, strict=True)):
        assert record == {
            "dataset": number,
            "at": tape_at,
            "n_bytes": tape.n_bytes,
            "caches": tape.caches,
            "ends": 0,
        }
        tape_at += tape.n_bytes
    table = got["table"]
    for name in ("grid_index", "byte_offset", "stored_size", "filter_mask"):
        np.testing.assert_array_equal(table["chunks"][name], plan.table.chunks[name])
    for record, dataset, field in zip(table["datasets"], plan.datasets, fields, strict=True):
        index = dataset.index
        assert record["row_bytes"] == index.row_bytes
        assert words(table, record["dims_at"], len(index.dims)) == list(index.dims)
        chunk_dims = words(table, record["chunk_dims_at"], len(index.dims))
        assert chunk_dims == list(dataset.chunk_dims)
        native = not dataset.reason
        assert record["n_filters"] == (len(index.kind.pipeline) if native else 0)
        element = index.kind.part.element
        assert record["n_conversions"] == (len(element.changes) if native else 0)
        assert record["delivered_bytes"] == (element.converted_bytes if native else 0)
        if native:
            part = index.kind.for_table[0][:3]
            assert (record["element_bytes"], record["field_offset"], record["field_bytes"]) == part
            fill = table["blob"][record["fill_at"] :][: index.kind.element_bytes]
            assert fill == index.kind.fill_value
        for at in range(record["n_filters"]):
            spec = index.kind.pipeline[
                at
            ]  # every filter here has as many values, so places are known
            word = record["filters_at"] + sum(3 + len(s.values) for s in index.kind.pipeline[:at])
            want = [spec.id, spec.flags, len(spec.values), *spec.values]
            assert words(table, word, len(want)) == want
        assert (record["chunks_at"], record["n_chunks"]) == (dataset.chunks_at, dataset.n_chunks)
        assert bool(record["flags"] & 1) == dataset.clipped
        assert bool(record["flags"] & 2) == bool(dataset.reason)
        call = table["blob"][record["library_at"] :][: record["library_len"]]
        if dataset.reason or index.kind.pipeline:
            told = decode_library(call.decode())
            assert told["arguments"] == {
                "fields": (field,) if field else (),
                "key": (slice(None),),
                "shape": index.shape,
                "n_dims": len(index.dims),
                "n_converted": int(bool(field)),
            }
            assert (told["method"], told["steps"], told["ragged"]) == ("getitem", (), False)
            assert (told["library"], told["filename"], told["path"]) == ("h5py", "/tmp/a.h5", "/x")
            assert told["open_options"] == {"driver": "x", "file": [1, 2]}
            assert told["dtype"] == index.dtype
        else:
            assert call == b""  # the core reads it in any case
        assert set(table["chunks"]["source"][dataset_chunks(dataset)]) <= {record["source"]}
        source = table["sources"][record["source"]]
        name = table["blob"][source["name_at"] :][: source["name_len"]]
        assert name == b"/tmp/a.h5"
        print_ = (source["device"], source["inode"], source["size_bytes"], source["mtime_ns"])
        assert print_ == (1, 2, 1 << 40, 3)
        inline = table["blob"][source["inline_at"] :][: source["inline_len"]]
        assert inline == (index.inline if native else b"")
        assert bool(source["flags"] & 1) == dataset.direct
        assert bool(source["flags"] & 2) == turnstile
    # Datasets of one file that is read alike are of one source.
    assert len(table["sources"]) == len({dataset.direct for dataset in plan.datasets})


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(a_case())
def test_the_core_accepts_every_plan(case: Case) -> None:
    plan = case.plan()
    if plan.ring_payload_bytes > 64 << 20:
        return
    made = ring(plan, encoded(plan))
    total = made.progress()[1]
    if plan.end_row == ENDLESS:
        assert total is None
    else:
        assert total == -(-plan.lap_rows // plan.block_rows)
    tasks = repeated(plan.tasks)
    assert len(tasks) == plan.lap_tasks
    for number in range(0, len(tasks), 7):
        number_of, begin, end, _ = made.address(number)
        task = tasks[number]
        assert number_of == task["dataset"]
        assert begin == plan.first_row + task["row_begin"]
        assert end == plan.first_row + task["row_end"]
    made.close()


def test_the_core_refuses_damaged_plans() -> None:
    """Whatever word is damaged: refused, or a plan that is still in bounds; never a crash."""
    plan = plan_reads([plain_index()], block_rows=7, n_readers=2, native_filters=NATIVE)
    data = encoded(plan)
    ring(plan, data).close()
    rng = np.random.default_rng(0)
    refused = 0
    for at in range(0, len(data) - 8, 8):
        values = [0, 1, 2**64 - 1, 2**63, int(rng.integers(1 << 40))]
        if at == 8 * HEADER_WORDS.index("ring_bytes"):
            values = [0, 1, plan.ring_payload_bytes]  # more would be taken from the machine
        for value in values:
            damaged = bytearray(data)
            struct.pack_into("<Q", damaged, at, value)
            try:
                ring(plan, bytes(damaged)).close()
            except (ValueError, OSError):
                refused += 1
    assert refused > 100


@pytest.mark.parametrize("cut", [0, 1, 127, 128, 300, 1000])
def test_the_core_refuses_short_plans(cut: int) -> None:
    plan = plan_reads([plain_index()], block_rows=7, n_readers=2, native_filters=NATIVE)
    data = encoded(plan)
    for damaged in (data[:cut], data[: len(data) - 1 - cut], data + b"\0"):
        with pytest.raises(ValueError, match="plan"):
            ring(plan, damaged)


def test_views_must_fit_the_plan() -> None:
    plan = plan_reads([plain_index()], block_rows=7, n_readers=2, native_filters=NATIVE)
    for view in ((np.dtype("V8"), [5]), (np.dtype("V7"), [4]), (np.dtype("V8"), [-4])):
        with pytest.raises(ValueError, match="row"):
            _core.Ring(encoded(plan), [view], None)
    with pytest.raises(ValueError, match="number"):
        _core.Ring(encoded(plan), [], None)
