"""References of Kerchunk that are opened in place of a file, also as others write them.

Law
---
1. h5py is the oracle. What is not as specified is an error of ours, and never rows.
"""

from __future__ import annotations

import base64
import json
import os
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kerchunk_files import datasets, fill, read_here, written

import multitables
from _multitables import _core
from _multitables.index.metadata import Metadata
from _multitables.index.opened.open_files import open_file
from _multitables.index.types.numpy_type import numpy_dtype
from _multitables.index.types.references import RegionReference


@pytest.fixture
def path(h5: Path) -> Path:
    with h5py.File(h5, "w") as file:
        fill(file)
    return h5


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
        streamer = file.streamer()
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
        inner = expected.element_bytes // told.element_bytes
        assert inner == (6 if name == b"arrays" else 1)
        if name != b"arrays":
            assert told.dims == expected.dims
            assert numpy_dtype(_core.datatype(told.datatype)) == numpy_dtype(
                _core.datatype(expected.datatype)
            )
        assert told.byte_offset in (expected.byte_offset, None)
    assert index.find(b"none") == ("missing", 0)
    assert index.find(b"time/x") == ("not_a_group", index.find(b"time")[1])
    attributes = {name: rest for name, _, *rest in index.attributes(0)}
    kinds = {name: _core.datatype(rest[0]).kind for name, rest in attributes.items()}
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


def test_references_have_no_regions(path: Path) -> None:
    with multitables.open(written(path)) as file:
        with pytest.raises(multitables.UnsupportedDatasetError, match="have none of it"):
            file[RegionReference(1, 1)]
        everything = {name for name in dir(Metadata) if not name.startswith("_")}
        own = vars(type(file._place.file.metadata))
        assert everything - set(own) == set()


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
        ({"x/0.0": ["memory://x", 0, 32]}, "no object of a known store and no file"),
        ({"x/0.0": ["RAW", 0, 32], "x/1.0": ["b.bin", 0, 32]}, r"no such file: '.*/b\.bin', to"),
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


def test_references_have_no_index(path: Path) -> None:
    for to in (None, "again.json"):
        with pytest.raises(multitables.OptionsError, match="must be an HDF5 file"):
            multitables.index_file(written(path), to)


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
                _core.datatype(told.datatype)
                if told.layout == "chunked":
                    metadata.chunks(offset)
    except multitables.MultitablesError:
        pass
