"""References of Kerchunk: what is written is decoded by hand, and read back by the library itself.

Law
---
1. h5py is the oracle. Chunks are decoded with zlib and NumPy, and by Zarr where it is installed.
2. What is written in another way than here, as Kerchunk does, is read as well; what is not as
   specified is an error of ours, and never rows.
"""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import pickle
import sys
import zlib
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pyarrow as pa
import pytest
import structures
from elements import smooth
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import run_script
from pyarrow import parquet

import multitables
from _multitables import _core
from _multitables.index.kerchunk import zarr_types
from _multitables.index.kerchunk.datatype_message import message
from _multitables.index.numpy_type import numpy_dtype
from _multitables.index.open_files import open_file

COMPOUND = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S3")])
DTYPES = [
    "i1", "<i2", ">i4", "<u8", "<f2", ">f4", "<f8", "<c8", ">c16", "?", "S5", "V7", "<M8[ns]",
    [("a", "<i2"), ("b", ">f8", (2, 3)), ("n", [("x", "S3"), ("y", "?")])], [("r", "<i2")],
    {"names": ["a", "b"], "formats": ["i1", "<f8"], "offsets": [0, 8], "itemsize": 24},
]  # fmt: skip


def fill(file: Any) -> None:
    grid = smooth((10, 12), ">i4")
    gzip = {"compression": "gzip", "shuffle": True}
    file.create_dataset("g/grid", data=grid, chunks=(3, 5), fillvalue=3, **gzip)
    file.create_dataset("g/sums", data=grid, chunks=(3, 5), fletcher32=True, **gzip)
    file["contiguous"], file["scalar"], file["text"] = grid, 3.5, np.array([b"ab", b"c"])
    file.create_dataset("bool", data=np.arange(30) % 3 == 0, chunks=(8,))
    file.create_dataset("blosc", data=smooth((400,)), chunks=(90,), **hdf5plugin.Blosc())
    file.create_dataset("zstd", data=smooth((400,)), chunks=(90,), **hdf5plugin.Zstd())
    file.create_dataset("holes", (100,), "<f4", chunks=(7,), fillvalue=np.nan)[50:60] = 1
    file.create_dataset("never", (20,), "<c8")
    file.create_dataset("empty", (0, 3), "<i4")
    file.create_dataset("compound", data=np.ones(7, COMPOUND), chunks=(3,))
    file.create_dataset("arrays", (5,), np.dtype(("<i4", (2, 3))))[:] = smooth((5, 2, 3))
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    structures.raw(file, "compact", h5py.h5t.STD_I32LE, (10,), plist=plist)[:] = np.arange(10)
    scale = file.create_dataset("time", data=np.arange(10.0))
    scale.make_scale("time")
    file["g/grid"].dims[0].attach_scale(scale)
    file["g/grid"].attrs["units"], file["g/grid"].attrs["scale"] = "m/s", 0.5
    file.attrs["words"], file.attrs["numbers"] = ["a", "b\xe9"], np.arange(3)
    file.attrs["flag"], file.attrs["nothing"] = True, h5py.Empty("f4")
    file.attrs["bytes"], file.attrs["complex"] = np.bytes_("x"), 1j


@pytest.fixture
def path(h5: Path) -> Path:
    with h5py.File(h5, "w") as file:
        fill(file)
    return h5


def datasets(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with h5py.File(path) as file:

        def keep(name: str, told: Any) -> None:
            if isinstance(told, h5py.Dataset):
                found[name] = told[()]

        file.visititems(keep)
    return found


def written(path: Path, suffix: str = ".json") -> Path:
    to = path.with_suffix(suffix)
    assert multitables.index_file(path, to, progress=False) == str(to)
    return to


def refs_of(path: Path) -> dict[str, Any]:
    told = json.loads(written(path).read_text())
    assert told["version"] == 1
    refs: dict[str, Any] = told["refs"]
    return refs


def fill_value(zarray: dict[str, Any], dtype: np.dtype[Any]) -> Any:
    value = zarray["fill_value"]
    if dtype.kind in "SV":
        return np.frombuffer(base64.b64decode(value), dtype)[0]
    return complex(*value) if dtype.kind == "c" else np.array(value, dtype)


def unfiltered(chunk: bytes, codecs: list[dict[str, Any]]) -> bytes:
    for codec in reversed(codecs):
        if codec["id"] == "zlib":
            chunk = zlib.decompress(chunk)
        elif codec["id"] == "fletcher32":
            chunk = chunk[:-4]
        else:
            assert codec["id"] == "shuffle"
            chunk = np.frombuffer(chunk, "u1").reshape(codec["elementsize"], -1).T.tobytes()
    return chunk


def read_by_hand(refs: dict[str, Any], name: str) -> Any:
    zarray = json.loads(refs[f"{name}/.zarray"])
    described = zarray["dtype"]
    dtype = np.dtype(described if isinstance(described, str) else [tuple(f) for f in described])
    shape, chunks = zarray["shape"], zarray["chunks"]
    out = np.full(shape, fill_value(zarray, dtype), dtype)
    for key, place in refs.items():
        if not key.startswith(f"{name}/") or "/." in key:
            continue
        at = [int(part) for part in key.rpartition("/")[2].split(".")][: len(shape)]
        if isinstance(place, str):
            stored = base64.b64decode(place.removeprefix("base64:"))
        else:
            with open(place[0], "rb") as file:
                file.seek(place[1])
                stored = file.read(place[2])
        chunk = np.frombuffer(unfiltered(stored, zarray["filters"] or []), dtype).reshape(chunks)
        inside = [
            slice(a * c, min(s, (a + 1) * c)) for a, c, s in zip(at, chunks, shape, strict=True)
        ]
        out[tuple(inside)] = chunk[tuple(slice(part.stop - part.start) for part in inside)]
    return out


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


def read_here(references: Path, name: str) -> Any:
    with multitables.Reader(references, n_procs=1) as reader:
        return reader.request(reader.get_dataset(name)[:]).get()


@pytest.mark.parametrize("suffix", [".json", ".parq"])
def test_references_are_opened_as_the_file_they_are_of(path: Path, suffix: str) -> None:
    references = written(path, suffix)
    with multitables.Reader(references, n_procs=1) as reader:
        for name, expected in datasets(path).items():
            if expected.ndim and expected.size:
                got = reader.request(reader.get_dataset(name)[:]).get()
                assert (got.dtype, got.shape) == (expected.dtype, expected.shape), name
                assert got.tobytes() == expected.tobytes(), name
    with multitables.Streamer(references).get_queue("/g/grid", n_procs=1, remainder=True) as queue:
        rows = []
        for guard in queue:
            with guard as block:
                rows += block.tolist()
    assert rows == datasets(path)["g/grid"].tolist()


@pytest.mark.parametrize("suffix", [".json", ".parq"])
def test_a_handle_of_references(path: Path, suffix: str) -> None:
    references = written(path, suffix)
    with multitables.open(references) as file:
        for name, expected in datasets(path).items():
            got = file[name][()]
            assert np.asarray(got).tobytes() == expected.tobytes(), name
        assert list(file["g"]) == ["grid", "sums"]
        assert file.filename == str(references)
        assert file.attrs["words"].tolist() == ["a", "b\xe9"]
        assert file.attrs["bytes"] == "x"
        assert file.attrs["numbers"].tolist() == [0, 1, 2]
        assert file.attrs["flag"] == np.True_
        assert file["g/grid"].attrs["units"] == "m/s"
        assert "_ARRAY_DIMENSIONS" not in file["g/grid"].attrs
        grid = pickle.loads(pickle.dumps(file["g/grid"]))
        assert grid[2].tolist() == datasets(path)["g/grid"][2].tolist()
        assert grid.file.filename == str(references)
        streamer = file.streamer(n_procs=1)
        assert str(streamer.filename) == str(references)


def test_metadata_of_references(path: Path) -> None:
    index, file = open_file(str(written(path))).metadata, _core.MetadataFile(str(path))
    assert {link[0] for link in index.links(index.root)} == {
        link[0] for link in file.links(file.root)
    }
    for name in (b"scalar", b"/g/./grid", b"compact", b"never", b"arrays", b"compound"):
        here, there = index.find(name), file.find(name)
        assert here[0] == there[0] == "object"
        told, expected = index.dataset(here[1]), file.dataset(there[1])
        inner = expected["element_bytes"] // told["element_bytes"]
        assert inner == (6 if name == b"arrays" else 1)
        if name != b"arrays":
            assert told["dims"] == expected["dims"]
            assert numpy_dtype(_core.datatype(told["datatype"])) == numpy_dtype(
                _core.datatype(expected["datatype"])
            )
        assert told.get("byte_offset") in (expected.get("byte_offset"), None)
    assert index.find(b"none") == ("missing", 0)
    assert index.find(b"time/x") == ("not_a_group", index.find(b"time")[1])
    attributes = {name: rest for name, _, *rest in index.attributes(0)}
    kinds = {name: _core.datatype(rest[0])["kind"] for name, rest in attributes.items()}
    assert kinds == {
        b"words": "variable_string", b"numbers": "integer", b"flag": "enum", b"nothing": "float",
        b"bytes": "variable_string",
    }  # fmt: skip
    _, dims, elements = attributes[b"words"]
    heap, number = (
        int.from_bytes(elements[20:28], "little"),
        int.from_bytes(elements[28:], "little"),
    )
    assert (dims, index.global_object(heap, number)) == ((2,), "b\xe9".encode())


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


def test_as_kerchunk_writes_them(path: Path) -> None:
    """With templates, whole files, names beside the references, text, slashes in keys."""
    raw = path.with_name("raw.bin")
    raw.write_bytes(np.arange(4, dtype="<i4").tobytes())
    zarray = {
        "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i4", "fill_value": None,
        "order": "C", "filters": None, "compressor": None,
    }  # fmt: skip
    two = {**zarray, "shape": [2, 2], "chunks": [1, 2], "dimension_separator": "/"}
    references = path.with_suffix(".json")
    refs = {
        ".zgroup": '{"zarr_format": 2}',
        "whole/.zarray": json.dumps(zarray),
        "whole/0": ["{{u}}"],
        "deep/er/two/.zarray": json.dumps(two),
        "deep/er/two/0/0": ["raw.bin", 0, 8],
        "deep/er/two/1/0": [f"file://{raw}", 8, 8],
        "inline/.zarray": json.dumps(zarray),
        "inline/0": "base64:" + base64.b64encode(raw.read_bytes()).decode(),
        "text/.zarray": json.dumps(zarray),
        "text/0": raw.read_text(),
    }
    for whole in ({"version": 1, "templates": {"u": str(raw)}, "refs": refs},):
        references.write_text(json.dumps(whole))
        for name in ("whole", "inline", "text"):
            assert read_here(references, name).tolist() == [0, 1, 2, 3]
        assert read_here(references, "deep/er/two").tolist() == [[0, 1], [2, 3]]
    refs["whole/0"] = [str(raw)]
    references.write_text(json.dumps(refs))  # version 0
    assert read_here(references, "whole").tolist() == [0, 1, 2, 3]


def one_array(path: Path, change: dict[str, Any], chunks: dict[str, Any] | None = None) -> Path:
    raw = path.with_name("raw.bin")
    raw.write_bytes(bytes(100))
    zarray = {
        "zarr_format": 2, "shape": [4, 4], "chunks": [2, 4], "dtype": "<i4", "fill_value": 0,
        "order": "C", "filters": [], "compressor": None, **change,
    }  # fmt: skip
    chunks = {"x/0.0": [str(raw), 0, 32]} if chunks is None else chunks
    references = path.with_suffix(".json")
    references.write_text(json.dumps({"x/.zarray": json.dumps(zarray), **chunks}))
    return references


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"dtype": "|O"}, "elements of the type '|O'"),
        ({"dtype": "<U4"}, "elements of the type '<U4'"),
        ({"dtype": 7}, "elements of the type 7"),
        ({"order": "F"}, "order of Fortran"),
        ({"filters": [{"id": "delta"}]}, "codec .*delta.*not decoded here"),
        ({"compressor": {"id": "lz4"}}, "codec .*lz4.*not decoded here"),
        ({"compressor": {"id": "zlib", "level": "x"}}, "the codec"),
        ({"fill_value": "x"}, "the fill value 'x'"),
        ({"chunks": [2]}, r"chunks of \(2,\)"),
        ({"chunks": [0, 4]}, r"chunks of \(0, 4\)"),
        ({"shape": [4, -1]}, r"the dims \[4, -1\]"),
        ({"shape": None}, "incomplete or wrong"),
    ],
)  # fmt: skip
def test_arrays_that_are_not_read(h5: Path, change: dict[str, Any], said: str) -> None:
    chunks = {} if change.keys() & {"shape", "chunks"} else None
    references = one_array(h5, change, chunks)
    with pytest.raises(
        multitables.UnsupportedDatasetError, match=f"'/x' of the references .*{said}"
    ):
        read_here(references, "x")


@pytest.mark.parametrize(
    ("chunks", "said"),
    [
        ({"x/2.0": ["RAW", 0, 32]}, "a chunk '2.0', which its grid"),
        ({"x/0": ["RAW", 0, 32]}, "a chunk '0', which its grid"),
        ({"x/a.b": ["RAW", 0, 32]}, "a chunk 'a.b', which its grid"),
        ({"x/0.0": ["RAW", -1, 32]}, "is no range"),
        ({"x/0.0": [7]}, "is no range"),
        ({"x/0.0": ["{{u}}", 0, 32]}, "no template 'u'"),
        ({"x/0.0": ["s3://bucket/x", 0, 32]}, "which is not a local file"),
        ({"x/0.0": ["RAW", 0, 32], "x/1.0": ["b.bin", 0, 32]}, "chunks in 'b.bin', beside"),
        ({"x/0.0": ["RAW", 90, 32], "x/1.0": "base64:AAAA"}, "is truncated"),
        ({"x/0.0": ["RAW", 0, 2**70]}, "not one of a file"),
        ({"x/0.0": ["RAW", 90, 32]}, "is truncated"),
        ({"x/0.0": ["none.bin", 0, 32]}, "no such file"),
        ({"y/.zarray": "{"}, "is no JSON"),
        ({"y/.zarray": "[]"}, "is no JSON object"),
        ({"gen": [{"key": "x"}], "version": 1, "refs": {}}, "generated"),
        ({"version": 2, "refs": {}}, "expected version 1"),
    ],
)  # fmt: skip
def test_references_that_are_wrong(h5: Path, chunks: dict[str, Any], said: str) -> None:
    raw = str(h5.with_name("raw.bin"))
    for place in chunks.values():
        if isinstance(place, list) and place[0] == "RAW":
            place[0] = raw
    references = one_array(h5, {}, chunks)
    with pytest.raises(multitables.MultitablesError, match=said):
        read_here(references, "x")


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"7", b"\xff", b"[" * 100_000])
def test_another_kind_of_file(h5: Path, content: bytes) -> None:
    references = h5.with_suffix(".json")
    references.write_bytes(content)
    with pytest.raises(multitables.FileOpenError, match="holds no references"):
        multitables.Streamer(references).get_queue("/x")
    folder = h5.with_suffix(".parq")
    folder.mkdir()
    with pytest.raises(multitables.MissingFileError):
        multitables.Streamer(folder).get_queue("/x")
    (folder / ".zmetadata").write_bytes(content)
    with pytest.raises(multitables.FileOpenError, match="holds no references"):
        multitables.Streamer(folder).get_queue("/x")
    with pytest.raises(multitables.MissingFileError):
        multitables.Streamer(h5.with_name("none.json")).get_queue("/x")


def test_chunks_in_the_references(path: Path) -> None:
    """As Kerchunk puts them there, if they are small: all of them, or some."""
    references = written(path)
    whole = json.loads(references.read_text())
    for name, expected in datasets(path).items():
        for step in (1, 2):
            refs = dict(whole["refs"])
            places = [key for key, place in refs.items() if key.startswith(f"{name}/")]
            for key in [key for key in places if isinstance(refs[key], list)][::step]:
                _, begin, size = refs[key]
                stored = path.read_bytes()[begin : begin + size]
                refs[key] = f"base64:{base64.b64encode(stored).decode()}"
            references.write_text(json.dumps({"version": 1, "refs": refs}))
            if expected.ndim and expected.size:
                assert read_here(references, name).tobytes() == expected.tobytes(), name


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


def test_references_have_no_index(path: Path) -> None:
    for to in (None, "again.json"):
        with pytest.raises(multitables.OptionsError, match="must be an HDF5 file"):
            multitables.index_file(written(path), to)


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


def test_changed_references_are_read_anew(h5: Path) -> None:
    references = one_array(h5, {})
    with multitables.Reader(references, n_procs=1) as reader:
        assert reader.get_dataset("x").shape == (4, 4)
        one_array(h5, {"shape": [2, 4]})
        os.utime(references)
        assert reader.get_dataset("x").shape == (2, 4)
    with multitables.open(references) as before:
        one_array(h5, {"shape": [1, 4]})
        with multitables.open(references) as after:
            assert (before["x"].shape, after["x"].shape) == ((2, 4), (1, 4))


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


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_whatever_references_say(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    """An answer or an error of ours."""
    folder = tmp_path_factory.getbasetemp() / "whatever"
    folder.mkdir(exist_ok=True)
    keys = ["shape", "chunks", "dtype", "fill_value", "order", "filters", "compressor"]
    change = data.draw(st.dictionaries(st.sampled_from(keys), JSON_VALUES, max_size=2))
    raw = str(folder / "raw.bin")
    place = st.tuples(st.just(raw), st.integers(-5, 200), st.integers(-5, 200)).map(list)
    key = st.sampled_from(["x/0.0", "x/1.0", "x/0", "x/.zattrs", ".zattrs", "x/y/0"])
    chunks = data.draw(st.dictionaries(key, place | JSON_VALUES, max_size=3))
    references = one_array(folder / "data.h5", change, chunks)
    try:
        metadata = open_file(str(references)).metadata
        for offset in (metadata.root, *(link[3] for link in metadata.links(metadata.root))):
            metadata.attributes(offset)
            if metadata.kind(offset) == "dataset":
                told = metadata.dataset(offset)
                _core.datatype(told["datatype"])
                if told["layout"] == "chunked":
                    metadata.chunks(offset)
    except multitables.MultitablesError:
        pass
