"""Dataset tables in which requests look chunks up.

Law: pure; real files are indexed only to have real indexes.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import tables

from _multitables.errors import UnsupportedDatasetError
from _multitables.index.chunk_index import CHUNK, ChunkIndex, Ragged, changed
from _multitables.index.datasets.source import open_source
from _multitables.plan.dataset_table import lookup_table
from _multitables.wire import plan_bytes

NATIVE = (1, 2, 3)


def indexed(path: Path, name: str = "/x") -> ChunkIndex:
    with open_source(path, {}) as source:
        return source.index(name)


def test_stored_chunks_only_and_in_order(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        data = file.create_dataset("x", (100, 6), "<i4", chunks=(10, 3), fillvalue=7)
        for row, column in ((90, 3), (10, 0), (40, 3)):  # others are never stored
            data[row : row + 10, column : column + 3] = row
    table = lookup_table(indexed(h5), direct=False, native_filters=NATIVE)
    assert table.chunks["grid_index"].tolist() == [2, 9, 19]
    assert (table.chunks["stored_size"] == 10 * 3 * 4).all()
    assert table.datasets[0].chunk_dims == (10, 3)
    assert table.chunks.dtype == CHUNK


def test_contiguous_data_is_one_address(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["x"] = np.zeros((100_000, 5), "<f8")
        file.create_dataset("never", (10,), "<f8")
    index = indexed(h5)
    table = lookup_table(index, direct=False, native_filters=NATIVE)
    assert table.chunks["grid_index"].tolist() == [0]
    assert table.chunks["byte_offset"].tolist() == index.byte_offset.tolist()
    assert table.datasets[0].clipped
    assert len(lookup_table(indexed(h5, "/never"), direct=False, native_filters=()).chunks) == 0


def test_what_a_library_must_read_has_a_reason_and_no_chunks(h5: Path) -> None:
    with tables.open_file(str(h5), "w") as file:
        filters = tables.Filters(1, "bzip2")
        file.create_carray("/", "x", obj=np.zeros((100, 10)), filters=filters)
    table = lookup_table(indexed(h5), direct=False, native_filters=NATIVE)
    assert "307" in table.datasets[0].reason
    assert len(table.chunks) == 0
    assert (
        not lookup_table(indexed(h5), direct=True, native_filters=(*NATIVE, 307)).datasets[0].reason
    )


@pytest.mark.parametrize("chunks", [None, (10, 3)])
def test_equal_arguments_give_equal_bytes(h5: Path, chunks: tuple[int, ...] | None) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=np.arange(600).reshape(100, 6), chunks=chunks)
    made = [
        plan_bytes.made_table(
            lookup_table(indexed(h5), direct=direct, native_filters=NATIVE)
        ).encoded
        for direct in (False, False, True)
    ]
    assert made[0] == made[1] != made[2]


def test_the_core_makes_the_table_of_what_lies_in_its_file_alone(h5: Path) -> None:
    rows = np.zeros(9, [("a", "<i4"), ("b", ">f8", (2,))])
    with h5py.File(h5, "w", userblock_size=512) as file:
        file["together"] = np.zeros((100_000, 5))
        file.create_dataset("gzip", (9, 7), "<i2", chunks=(2, 3), compression=1)[1, 5:] = 3
        file.create_dataset("never", (10, 2), "<f8", fillvalue=2.5)
        file.create_dataset("compound", data=rows, chunks=(4,))
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((5,))
        h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I16BE, space, plist)
        layout = h5py.VirtualLayout((9,), rows.dtype)
        layout[:] = h5py.VirtualSource(file["compound"])
        file.create_virtual_dataset("virtual", layout)
        file["empty"] = np.zeros((0, 3))
    with open_source(h5, {}) as source:
        names = ("together", "gzip", "never", "compound", "compact")
        for name, field in (*((name, "") for name in names), ("compound", "b")):
            want = source.index(name, field)
            _, index, table = source.describe(name, field)
            assert table is not None, name
            assert changed(index, chunks=want.chunks) == want
            assert index.chunks.tolist() == want.chunks.tolist()
            by_index = lookup_table(want, direct=False, native_filters=NATIVE)
            assert table.encoded == plan_bytes.made_table(by_index).encoded, name
        assert [source.describe(name)[2] for name in ("virtual", "empty")] == [None, None]


def test_kinds_of_datasets(h5: Path) -> None:
    rows = np.zeros(5, [("a", "<i4"), ("b", "<f8", (2,))])
    with tables.open_file(str(h5), "w") as file:
        file.create_table("/", "table", rows)
        file.create_array("/", "array", np.zeros((5, 2)))
        for name, atom in (
            ("ragged", tables.Int32Atom()),
            ("shaped", tables.Float32Atom(shape=(2,))),
            ("bools", tables.BoolAtom()),
        ):
            ragged = file.create_vlarray("/", name, atom)
            ragged.append(np.zeros((3, *atom.shape), atom.dtype.base))
        for name, pseudo in (
            ("pickled", tables.ObjectAtom()),
            ("bytes", tables.VLStringAtom()),
            ("text", tables.VLUnicodeAtom()),
        ):
            file.create_vlarray("/", name, pseudo)
    with h5py.File(h5, "a") as file:
        file["compounds"] = np.zeros((2, 3), rows.dtype)
        file["lists"] = np.array([np.arange(3), np.arange(2)], object).astype(
            h5py.vlen_dtype(np.dtype("<i2"))
        )
        file.create_dataset("grid", (2, 2), h5py.vlen_dtype(np.dtype("<i2")))
        file.create_dataset("strings", (2,), h5py.string_dtype())
    with open_source(h5, {}) as source:
        found = {
            name: source.describe(name)
            for name in ("table", "array", "ragged", "shaped", "bools", "compounds", "lists")
        }
        assert {name: kind for name, (kind, *_) in found.items()} == {
            "table": "table",
            "array": "array",
            "ragged": "vlarray",
            "shaped": "vlarray",
            "bools": "vlarray",
            "compounds": "array",
            "lists": "vlarray",
        }
        for name, dtype, library in (
            ("ragged", "<i4", "tables"),
            ("shaped", ("<f4", (2,)), "tables"),
            ("bools", "?", "tables"),
            ("lists", "<i2", "h5py"),
        ):
            index = found[name][1]
            assert index.dtype == np.dtype(dtype)
            assert (type(index), index.kind.library) == (Ragged, library)
            assert "ragged" in index.reason
            assert index.shape == ((2,) if name == "lists" else (1,))
        for name in ("pickled", "bytes", "text", "grid", "strings"):
            with pytest.raises(UnsupportedDatasetError, match=f"'/{name}' in .* Read it with"):
                source.describe(name)
