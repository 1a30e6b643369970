"""The chunk index, against what h5py tells and what the file's bytes are.

Law: looks at indexes only; nothing here starts a reader.
"""

from __future__ import annotations

import os
import struct
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
from indexes import index_of

from _multitables.errors import (
    CorruptFileError,
    FileOpenError,
    MissingDatasetError,
    MissingFieldError,
    OptionsError,
    UnsupportedDatasetError,
)
from _multitables.index.chunk_index import ByLibrary, Stored
from _multitables.index.datasets.source import open_source
from _multitables.index.types.element_type import Conversion


def test_chunks_are_those_that_h5py_tells(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        data = file.create_dataset("x", (10, 7, 5), "i4", chunks=(3, 4, 2), compression="gzip")
        data[2:4, :, 1] = np.random.default_rng(0).integers(0, 99, (2, 7))
        data[9, 6, 4] = 1
        told = [data.id.get_chunk_info(i) for i in range(data.id.get_num_chunks())]
    grid = (4, 2, 3)
    expected = sorted(
        (
            int(
                np.ravel_multi_index(
                    [at // c for at, c in zip(i.chunk_offset, (3, 4, 2), strict=True)], grid
                )
            ),
            i.byte_offset,
            i.size,
            i.filter_mask,
        )
        for i in told
    )
    index = index_of(h5, "x")
    assert [chunk[:4] for chunk in index.chunks.tolist()] == expected
    assert index.is_chunked
    assert (index.dims, index.chunk_dims, index.shape) == ((10, 7, 5), (3, 4, 2), (10, 7, 5))
    assert [spec.id for spec in index.kind.pipeline] == [1]
    assert (index.n_rows, index.row_shape, index.row_bytes) == (10, (7, 5), 140)
    assert index.block_size_default == 3


def test_contiguous_rows_lie_where_the_index_says(h5: Path) -> None:
    rows = np.arange(60, dtype=">u2").reshape(20, 3)
    with h5py.File(h5, "w", userblock_size=1024) as file:
        file["x"] = rows
    index = index_of(h5, "/x/")
    assert (type(index), index.is_chunked, index.path) == (Stored, False, "/x")
    begin = int(index.byte_offset[0])
    assert h5.read_bytes()[begin : begin + int(index.chunks["stored_size"][0])] == rows.tobytes()


def test_unchunked_blocks_are_about_128_kib(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["narrow"] = np.zeros((9, 16))
        file["wide"] = np.zeros((2, 40000))
    assert index_of(h5, "narrow").block_size_default == 1024
    assert index_of(h5, "wide").block_size_default == 1


def test_a_user_block_is_part_of_addresses(h5: Path) -> None:
    rows = np.arange(100.0)
    with h5py.File(h5, "w", userblock_size=2048) as file:
        file.create_dataset("x", data=rows, chunks=(10,), compression="gzip")
    index = index_of(h5, "x")
    stored = h5.read_bytes()
    for number, (_, begin, size, *_) in enumerate(index.chunks.tolist()):
        chunk = zlib.decompress(stored[begin : begin + size])
        assert chunk == rows[10 * number : 10 * number + 10].tobytes()


def test_a_dataset_that_was_made_shorter_has_no_chunks_beyond_its_end(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        data = file.create_dataset("x", data=np.arange(100), chunks=(7,), maxshape=(None,))
        data.resize(30, 0)
    assert index_of(h5, "x").grid_index.tolist() == [0, 1, 2, 3, 4]


def test_links_are_followed_to_the_file_that_holds_the_bytes(h5: Path) -> None:
    other = h5.with_name("other.h5")
    with h5py.File(other, "w") as file:
        file["deep/y"] = np.arange(5)
    with h5py.File(h5, "w") as file:
        file["x"] = np.arange(3)
        file["soft"] = h5py.SoftLink("/x")
        file["out"] = h5py.ExternalLink("other.h5", "/deep/y")
        file["broken"] = h5py.SoftLink("/nothing")
    assert index_of(h5, "soft").filename == str(h5)
    index = index_of(h5, "out")
    assert index.filename == str(other)
    assert index.fingerprint.inode == os.stat(other).st_ino
    assert index.fingerprint.size_bytes == os.stat(other).st_size
    with pytest.raises(MissingDatasetError, match="link"):
        index_of(h5, "broken")


COMPOUND = np.dtype([("a", "<i2"), ("b", "S3"), ("c", [("d", ">f4", (2,)), ("e", "?")])])


def test_a_field_is_a_part_of_each_element(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", (6, 2), COMPOUND, chunks=(4, 2))
    whole = index_of(h5, "x")
    assert (whole.dtype, whole.kind.for_table[0]) == (COMPOUND, (14, 0, 14, 0))
    index = index_of(h5, "x", "c/d")
    assert (index.dtype, index.shape, index.dims) == (np.dtype(">f4"), (6, 2, 2), (6, 2))
    assert index.kind.for_table[0][:3] == (14, 5, 8)
    assert (index_of(h5, "x", "c/e").dtype, index.is_chunked) == (np.dtype("?"), True)
    for field in ("d", "c/f", "a/b"):
        with pytest.raises(MissingFieldError) as caught:
            index_of(h5, "x", field)
        assert field.rpartition("/")[2] in str(caught.value)


@pytest.mark.parametrize(
    "value", [np.float32(1.5), np.array((7, b"ab", ([1, 2], True)), COMPOUND), np.bytes_(b"xy")]
)
def test_fill_values(h5: Path, value: Any) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", (4,), value.dtype, fillvalue=value, chunks=(2,))
        file.create_dataset("y", (4,), value.dtype, chunks=(2,))
    assert index_of(h5, "x").kind.fill_value == value.tobytes()
    assert index_of(h5, "y").kind.fill_value == bytes(value.dtype.itemsize)


def test_the_fill_value_of_elements_that_are_arrays(h5: Path) -> None:
    with tables.open_file(str(h5), "w") as file:
        file.create_carray("/", "x", tables.Int32Atom((2, 3), dflt=7), (50,), chunkshape=(10,))
    index = index_of(h5, "x")
    assert index.shape == (50, 2, 3)
    assert index.kind.fill_value == np.full(6, 7, "i4").tobytes()


def test_strings_whose_padding_h5py_changes(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        for name, padding in (("null", h5py.h5t.STR_NULLTERM), ("space", h5py.h5t.STR_SPACEPAD)):
            kind = h5py.h5t.C_S1.copy()
            kind.set_size(5)
            kind.set_strpad(padding)
            h5py.h5d.create(file.id, name.encode(), kind, h5py.h5s.create_simple((3,)))
        file["plain"] = np.array([b"ab", b"c"])
    for name, changes in (("null", (0,)), ("space", (2,)), ("plain", ())):
        element = index_of(h5, name).kind.part.element
        assert element.changes == tuple(Conversion.of(5, kind) for kind in changes)


def test_pytables_is_known_by_its_class_only(h5: Path) -> None:
    bits = h5py.h5t.STD_B8LE
    with h5py.File(h5, "w") as file:
        for number, value in enumerate([None, np.bytes_("ARRAY"), "ARRAY", np.bytes_("IMAGE"), 3]):
            made = h5py.h5d.create(file.id, b"x%d" % number, bits, h5py.h5s.create_simple((3,)))
            if value is not None:
                h5py.Dataset(made).attrs["CLASS"] = value
    kinds = [index_of(h5, f"x{number}").dtype.kind for number in range(5)]
    assert kinds == ["u", "b", "u", "u", "u"]


def test_reasons_for_the_library(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["plain"] = np.arange(8, dtype="i4")
        layout = h5py.VirtualLayout((8,), "i8")
        layout[:] = h5py.VirtualSource(file["plain"])
        file.create_virtual_dataset("virtual", layout)
        raw = str(h5.with_name("raw"))
        file.create_dataset("whole", (8,), "i8", external=[(raw, 0, 64)])[...] = 1
        file.create_dataset("external", (8,), "i8", external=[(raw, 0, 30), (raw, 30, 34)])
    for name in ("virtual", "external"):
        index = index_of(h5, name)
        assert (type(index), index.kind.library) == (ByLibrary, "h5py")
        assert name in index.reason
        assert index.n_rows == 8
    assert index_of(h5, "plain").reason == index_of(h5, "whole").reason == ""
    assert index_of(h5, "whole").files[1].filename == raw


def test_a_split_file_is_read_by_the_library(tmp_path: Path) -> None:
    base = str(tmp_path / "data")
    with h5py.File(base, "w", driver="split") as file:
        file["x"] = np.arange(5)
    with open_source(base, {"DRIVER": "H5FD_SPLIT"}) as source:
        index = source.index("x")
        assert source.open_options["filename"] == base
    assert (type(index), index.filename) == (ByLibrary, base + "-m.h5")


def test_empty_ones(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("none", (0, 3), "i2", chunks=(5, 3), maxshape=(None, 3))
        file.create_dataset("thin", (4, 0), "i2")
    assert (index_of(h5, "none").shape, index_of(h5, "none").block_size_default) == ((0, 3), 5)
    assert (index_of(h5, "thin").shape, index_of(h5, "thin").row_bytes) == ((4, 0), 0)


def test_bytes_beyond_the_end_of_the_file(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        data = file.create_dataset("x", data=np.arange(100), chunks=(7,))
        address = struct.pack("<Q", data.id.get_chunk_info(14).byte_offset)
    stored = h5.read_bytes()
    assert stored.count(address) == 1
    h5.write_bytes(stored.replace(address, struct.pack("<Q", 10**9)))
    with pytest.raises(FileOpenError, match=r"truncated.*expected at least 10000\d+ bytes, got"):
        index_of(h5, "x")


def test_damaged_structure(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=np.arange(10000), chunks=(7,), compression="gzip")
    stored = h5.read_bytes()
    at = stored.index(b"TREE", stored.index(b"TREE") + 4)  # the chunks' b-tree, not the group's
    h5.write_bytes(stored[:at] + b"LOST" + stored[at + 4 :])
    told = r"'/x' expected the signature TREE at byte \d+, got LOST"
    with pytest.raises(CorruptFileError, match=told):
        index_of(h5, "x")


def test_options_that_do_not_go_with_a_stream(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["g/x"] = np.arange(3)
    assert index_of(h5, "x", root_uep="/g").path == "/g/x"
    assert index_of(h5, "x", root_uep="g/", title="t", filters=None, unknown=object()).n_rows == 3
    for options in ({"mode": "a"}, {"driver": "H5FD_MPIO"}, {"root_uep": 3}):
        with pytest.raises(OptionsError):
            open_source(h5, options)


def test_other_objects(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["type"] = np.dtype("i4")
        file["scalar"] = 3
        file.create_group("group/inner")
    for name, what in (("type", "named type"), ("scalar", "scalar"), ("group", "'inner'")):
        with pytest.raises(UnsupportedDatasetError, match=what):
            index_of(h5, name)
