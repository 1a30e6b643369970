"""References of Kerchunk that are written: decoded by hand, and read by Zarr.

Law
---
1. h5py is the oracle. Chunks are decoded with zlib and NumPy, and by Zarr where it is installed.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import lost_scales
import numpy as np
import pyarrow as pa
import pytest
from elements import smooth
from hypothesis import given, settings
from hypothesis import strategies as st
from kerchunk_files import datasets, fill, read_by_hand, read_here, refs_of, written
from processes import run_script
from pyarrow import parquet

import multitables
from _multitables import _core
from _multitables.index.kerchunk import zarr_types
from _multitables.index.kerchunk.datatype_message import message
from _multitables.index.types.numpy_type import numpy_dtype

DTYPES = [
    "i1", "<i2", ">i4", "<u8", "<f2", ">f4", "<f8", "<c8", ">c16", "?", "S5", "V7", "<M8[ns]",
    [("a", "<i2"), ("b", ">f8", (2, 3)), ("n", [("x", "S3"), ("y", "?")])], [("r", "<i2")],
    {"names": ["a", "b"], "formats": ["i1", "<f8"], "offsets": [0, 8], "itemsize": 24},
]  # fmt: skip


@pytest.fixture
def path(h5: Path) -> Path:
    with h5py.File(h5, "w") as file:
        fill(file)
    return h5


def test_references_decoded_by_hand(path: Path) -> None:
    refs = refs_of(path)
    for name, expected in datasets(path).items():
        if name in ("blosc", "zstd"):  # no library is at hand
            continue
        got = read_by_hand(refs, name)
        assert (got.dtype, got.shape) == (expected.dtype, expected.shape), name
        assert got.tobytes() == expected.tobytes(), name
    assert json.loads(refs[".zgroup"]) == json.loads(refs["g/.zgroup"]) == {"zarr_format": 2}
    blosc, zstd = (json.loads(refs[f"{name}/.zarray"])["filters"] for name in ("blosc", "zstd"))
    assert [codec["id"] for codec in blosc + zstd] == ["blosc", "zstd"]


def test_attributes(path: Path) -> None:
    refs = refs_of(path)
    assert json.loads(refs[".zattrs"]) == {
        "words": ["a", "b\xe9"], "numbers": [0, 1, 2], "flag": True, "nothing": None, "bytes": "x",
    }  # fmt: skip
    told = json.loads(refs["g/grid/.zattrs"])
    name = told["_ARRAY_DIMENSIONS"][1]
    assert name.startswith("phony_dim_")
    assert told == {"units": "m/s", "scale": 0.5, "_ARRAY_DIMENSIONS": ["time", name]}
    assert json.loads(refs["time/.zattrs"]) == {"_ARRAY_DIMENSIONS": ["time"]}
    for key, value in refs.items():
        if key.endswith(".zarray"):
            names = json.loads(refs[key.replace(".zarray", ".zattrs")])["_ARRAY_DIMENSIONS"]
            assert len(set(names)) == len(json.loads(value)["shape"])


@pytest.mark.parametrize("how", lost_scales.LOST)
def test_axes_whose_scales_are_lost(h5: Path, how: str) -> None:
    refs = refs_of(lost_scales.write(h5, lost_scales.LOST[how][0]))
    names = [json.loads(refs[f"items/1/{name}/.zattrs"])["_ARRAY_DIMENSIONS"] for name in "vw"]
    assert names == [["phony_dim_0", "u"], ["phony_dim_0"]]


#: In a process of its own, as zarr starts threads that stay.
BY_ZARR = """
import json, sys, zlib, zarr
store = zarr.storage.FsspecStore.from_url(
    f"reference::{sys.argv[1]}", storage_options={"remote_protocol": "file"}
)
group = zarr.open_group(store, mode="r", zarr_format=2)
print(json.dumps({name: zlib.crc32(group[name][...].tobytes()) for name in sys.argv[2:]}))
"""


@pytest.mark.parametrize("suffix", [".json", ".parq", ".parquet"])
def test_zarr_reads_what_is_written(path: Path, suffix: str) -> None:
    for library in ("zarr", "fsspec", *(["fastparquet"] if suffix != ".json" else [])):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed")
    done = run_script(BY_ZARR, written(path, suffix), *datasets(path), flags=())
    assert done.returncode == 0, done.stderr
    expected = {name: zlib.crc32(values.tobytes()) for name, values in datasets(path).items()}
    assert json.loads(done.stdout) == expected


def test_parquet_is_laid_out_as_fsspec_has_it(path: Path) -> None:
    folder = written(path, ".parq")
    told = json.loads((folder / ".zmetadata").read_text())
    refs = refs_of(path)
    metadata = {key: json.loads(value) for key, value in refs.items() if "/.z" in f"/{key}"}
    assert told == {"metadata": metadata, "record_size": 10_000}
    for name in datasets(path):
        grid = [-(-s // c) for s, c in zip(
            metadata[f"{name}/.zarray"]["shape"], metadata[f"{name}/.zarray"]["chunks"], strict=True
        )]  # fmt: skip
        found = {}
        if (folder / name).exists():
            source = pa.BufferReader((folder / name / "refs.0.parq").read_bytes())
            rows = parquet.ParquetFile(source, pre_buffer=False).read(use_threads=False).to_pylist()
            assert len(rows) == np.prod(grid, dtype=int)
            for number, row in enumerate(rows):
                key = ".".join(map(str, np.unravel_index(number, grid or (1,))))
                if row["raw"] is not None:
                    found[f"{name}/{key}"] = f"base64:{base64.b64encode(row['raw']).decode()}"
                elif row["path"] is not None:
                    found[f"{name}/{key}"] = [row["path"], row["offset"], row["size"]]
        expected = {
            key: value
            for key, value in refs.items()
            if key.rpartition("/")[0] == name and "/.z" not in key
        }
        assert found == expected


def test_many_records(h5: Path) -> None:
    with h5py.File(h5, "w", libver="latest") as file:
        made = file.create_dataset("x", (50_000,), "i1", chunks=(2,), fillvalue=5)
        made[[3, 19_999, 20_000, 49_999]] = 1
    folder = written(h5, ".parquet")
    assert sorted(os.listdir(folder / "x")) == [f"refs.{number}.parq" for number in (0, 1, 2)]
    np.testing.assert_array_equal(read_here(folder, "x"), datasets(h5)["x"])


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "lzf": ({"data": np.zeros(999), "chunks": (333,), "compression": "lzf"}, "filter 32000 "),
    "lz4": ({"data": smooth((9,)), "chunks": (3,), **hdf5plugin.LZ4()}, "filter 32004 "),
    "scaleoffset": ({"data": np.arange(9), "chunks": (3,), "scaleoffset": 0}, "filter 6 "),
    "ragged": ({"shape": (3,), "dtype": h5py.vlen_dtype("<i4")}, "variable-length"),
    "strings": ({"shape": (3,), "dtype": h5py.string_dtype()}, "variable-length string"),
    "null": ({"data": h5py.Empty("f4")}, "null dataspace"),
    "external": ({"shape": (3,), "dtype": "<i4", "external": [("x.bin", 0, 12)]}, "external files"),
    "long double": ({"shape": (3,), "dtype": np.longdouble}, "elements of the type "),
}


@pytest.mark.parametrize("kind", REFUSED)
@pytest.mark.parametrize("suffix", [".json", ".parq"])
def test_what_zarr_cannot_read(h5: Path, kind: str, suffix: str) -> None:
    options, reason = REFUSED[kind]
    with h5py.File(h5, "w") as file:
        file.create_dataset("bad", **options)
        file["good"] = np.arange(3)
    to = h5.with_suffix(suffix)
    with pytest.raises(multitables.UnsupportedDatasetError, match=f"'/bad' in .*: .*{reason}"):
        multitables.index_file(h5, to, progress=False)
    assert os.listdir(h5.parent) == [h5.name]
    with pytest.warns(multitables.SavedIndexWarning, match=f"'/bad' in .*{reason}.* left out"):
        multitables.index_file(h5, to, progress=False, skip_unsupported=True)
    np.testing.assert_array_equal(read_here(to, "good"), np.arange(3))
    with pytest.raises(multitables.MissingDatasetError):
        read_here(to, "bad")


def test_chunks_that_filters_left_out(h5: Path) -> None:
    data = smooth((8,), "<i4")
    with h5py.File(h5, "w") as file:
        for name in ("all", "some"):
            made = file.create_dataset(name, (8,), "<i4", chunks=(4,), compression="gzip")
            made.id.write_direct_chunk((0,), data[:4].tobytes(), filter_mask=1)
        made[4:] = data[4:]
        file["all"].id.write_direct_chunk((4,), data[4:].tobytes(), filter_mask=1)
    with pytest.warns(multitables.SavedIndexWarning, match="'/some' .*differ in the filters"):
        multitables.index_file(h5, h5.with_suffix(".json"), progress=False, skip_unsupported=True)
    np.testing.assert_array_equal(read_here(h5.with_suffix(".json"), "all"), data)


def test_a_folder_of_something_else_is_left_alone(path: Path) -> None:
    folder = path.with_suffix(".parq")
    folder.mkdir()
    (folder / "precious").touch()
    with pytest.raises(multitables.FileOpenError, match="holds no references of Kerchunk"):
        multitables.index_file(path, folder, progress=False)
    assert os.listdir(folder) == ["precious"]
    other = path.with_name("other.parq")
    for _ in range(2):
        multitables.index_file(path, other, progress=False)
    assert {path.name, "data.parq", "other.parq"} == set(os.listdir(path.parent))


def test_without_pyarrow(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    references = written(path, ".parq")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        multitables.MissingLibraryError, match=r"need pyarrow.*multitables\[kerchunk\]"
    ):
        multitables.index_file(path, path.with_name("other.parq"), progress=False)
    with pytest.raises(multitables.MissingLibraryError, match="need pyarrow"):
        multitables.Streamer(references).get_queue("/contiguous")
    assert sorted(os.listdir(path.parent)) == ["data.h5", "data.parq"]


@pytest.mark.parametrize("described", DTYPES, ids=str)
def test_types_in_both_directions(described: Any) -> None:
    dtype = np.dtype(described)
    assert numpy_dtype(_core.datatype(message(dtype))) == dtype
    again = zarr_types.from_zarr(json.loads(json.dumps(zarr_types.to_zarr(dtype))))
    assert again.itemsize == dtype.itemsize
    names = [name for name in again.names or () if not name.startswith("_unused")]
    assert (again[names] if names else again) == (dtype[names] if names else dtype)
    fill = bytes(range(1, 1 + dtype.itemsize)) if dtype.kind in "iuSV" else bytes(dtype.itemsize)
    told = json.loads(json.dumps(zarr_types.fill_to_zarr(fill, dtype)))
    assert zarr_types.fill_from_zarr(told, dtype) == fill


@settings(max_examples=100, deadline=None)
@given(value=st.floats(width=32), kind=st.sampled_from(["<f4", ">f8", "<c8"]))
def test_fill_values_in_both_directions(value: float, kind: str) -> None:
    stored = np.array(value, kind)
    told = json.loads(json.dumps(zarr_types.fill_to_zarr(stored.tobytes(), stored.dtype)))
    again = np.frombuffer(zarr_types.fill_from_zarr(told, stored.dtype), stored.dtype)[0]
    np.testing.assert_array_equal(again, stored)
