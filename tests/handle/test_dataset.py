"""A `Dataset` beside h5py's: what it tells of itself, views, ways to read, and what it refuses.

Law
---
1. The oracle is h5py on the same file. `handle_datasets` writes it.
"""

from __future__ import annotations

import gc
import operator
import os
import pickle
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from elements import smooth
from handle_oracle import FAILED, Both, tried

import multitables
from _multitables.index.datasets.source import Source

NAMES = ("cube", "rows", "texts", "lists", "scalar", "empty", "nothing", "odd")


def outcome(ask: Callable[..., Any], *arguments: Any) -> Any:
    """What a question gives, `FAILED` for an exception."""
    return tried(lambda: ask(*arguments))


# ---- what it tells ------------------------------------------------------------------------

TOLD: dict[str, Callable[[Any], Any]] = {
    **{
        name: operator.attrgetter(name)
        for name in (
            "shape", "ndim", "size", "nbytes", "chunks", "maxshape", "compression", "shuffle",
            "compression_opts", "fletcher32", "scaleoffset", "is_virtual", "is_scale", "external",
            "filter_ids", "filter_names", "name", "dtype",
        )
    },
    "repr": repr, "len": len, "len()": lambda dataset: dataset.len(), "bool": bool,
    "parent": lambda dataset: dataset.parent.name, "attrs": lambda dataset: sorted(dataset.attrs),
}  # fmt: skip


def test_properties(both: Both) -> None:
    for name, theirs in both.theirs.items():
        for told, ask in TOLD.items():
            mine, other = outcome(ask, both.ours[name]), outcome(ask, theirs)
            assert mine == other or mine is other is FAILED, (name, told)
        both.same(both.ours[name].fillvalue, theirs.fillvalue)


def test_filters(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "filters.h5", "w") as file:
        kinds: dict[str, dict[str, Any]] = {
            "none": {}, "gzip": {"compression": 7, "shuffle": True, "fletcher32": True},
            "lzf": {"compression": "lzf"}, "scaled": {"scaleoffset": 3}, "lz4": hdf5plugin.LZ4(),
            "szip": {"compression": "szip"}, "zstd": {**hdf5plugin.Zstd(), "shuffle": True},
        }  # fmt: skip
        for name, options in kinds.items():
            file.create_dataset(name, data=smooth((100, 4)), chunks=(32, 4), **options)
    with Both(tmp_path / "filters.h5") as both:
        for name, theirs in both.theirs.items():
            both.dataset(both.ours[name], theirs)
            assert both.ours[name].filters == theirs._filters
            assert both.ours[name].filter_ids == theirs.filter_ids


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_names_of_filters(tmp_path: Path, libver: str) -> None:
    """The newest files have no names for HDF5's own; h5py has them, of those that it knows."""
    path, plist = tmp_path / "filters.h5", h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    with h5py.File(path, "w", libver=libver) as file:
        options = {"shuffle": True, "compression": "gzip", "fletcher32": True}
        file.create_dataset("own", (9,), "<i4", chunks=(3,), **options)
        file.create_dataset("scaled", (9,), "<i4", chunks=(3,), scaleoffset=3)
        file.create_dataset("lzf", (9,), "<i4", chunks=(3,), compression="lzf")
        plist.set_chunk((3,))
        for number in (32020, 401, 499):
            plist.set_filter(number, 1, ())
        space = h5py.h5s.create_simple((9,))
        h5py.h5d.create(file.id, b"others", h5py.h5t.STD_I32LE, space, plist)
    with h5py.File(path) as theirs, multitables.open(path) as ours:
        for name in ("own", "scaled", "lzf"):
            assert ours[name].filter_names == theirs[name].filter_names
        assert theirs["others"].filter_names == ("", "", "")
        assert ours["others"].filter_names == ("VBZ", "MaxWell", "")


def test_dimensions(both: Both) -> None:
    ours, theirs = both.ours["cube"].dims, both.theirs["cube"].dims
    assert len(ours) == len(theirs)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.label == other.label
        assert (mine.keys(), len(mine), list(mine)) == (other.keys(), len(other), list(other))
        assert [scale.name for scale in mine.values()] == [one.name for one in other.values()]
    assert ours[0] == both.ours["cube"].dims[0] != ours[1]
    assert ours[0][0] == ours[0]["seconds"] == both.ours["time"]
    for wrong, error in (("days", KeyError), (1, IndexError)):
        with pytest.raises(error):
            ours[0][wrong]
    with pytest.raises(IndexError):
        ours[3]


def test_one_object_is_equal_to_itself(both: Both) -> None:
    file = both.ours
    assert file["cube"] == file["/cube"] != file["plain"]
    assert len({file["cube"], file["/cube"], file["plain"]}) == 2
    assert file["cube"] != "cube"
    assert file["cube"].file == file


def test_a_closed_file(path: Path) -> None:
    file = multitables.open(path)
    read, never_read = file["cube"], file["plain"]
    assert read[0].shape == (7, 5)
    file.close()
    for dataset in (read, never_read):
        assert not dataset
        assert repr(dataset) == "<Closed HDF5 dataset>"
        for key in (0, slice(2), ..., [1]):
            with pytest.raises(multitables.ClosedError):
                dataset[key]


# ---- views and ways to read ---------------------------------------------------------------

CONVERSIONS = [
    ("cube", "i1"), ("cube", "u1"), ("cube", "f8"), ("cube", ">i4"), ("cube", "u8"),
    ("plain", "i2"), ("plain", "f4"), ("plain", "f2"), ("bool", "i4"), ("enum", "i8"),
    ("fixed", "S9"), ("fixed", "S2"), ("complex", "c16"), ("scalar", "i4"), ("odd", "u1"),
    ("grown", "u2"), ("rows", [("t", "S5"), ("a", "f8")]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "dtype"), CONVERSIONS)
def test_as_another_type(both: Both, name: str, dtype: Any) -> None:
    ours, theirs = both.ours[name].astype(dtype), both.theirs[name].astype(dtype)
    keys: list[Any] = [(), ...]
    keys += [0, slice(1, None, 2), [0, 2]] if both.theirs[name].shape else []
    for key in keys:
        both.same(ours[key], theirs[key])
    both.same(np.asarray(ours), np.asarray(theirs))
    assert (ours.dtype, ours.shape) == (theirs.dtype, both.theirs[name].shape)


@pytest.mark.parametrize("dtype", ["i1", "u1", "i4", "u4", "i8", "f2", "f4"])
def test_numbers_that_do_not_fit(tmp_path: Path, dtype: str) -> None:
    floats = [0.5, 1.9, -1.9, 300, -1e300, np.inf, -np.inf, 1e30, 1e10, -1e10, 127.9]
    with h5py.File(tmp_path / "odd.h5", "w") as file:
        file["f8"] = np.array(floats)
        with np.errstate(over="ignore"):
            file["f4"] = np.array(floats).astype("f4")
        for kind in ("i1", "u1", "i8", "u8"):
            info = np.iinfo(kind)
            file[kind] = np.array([info.min, info.max, 0, 1, info.max // 2], kind)
    with Both(tmp_path / "odd.h5") as both:
        for name in both.theirs:
            both.same(both.ours[name].astype(dtype)[...], both.theirs[name].astype(dtype)[...])


def test_the_same_type_is_no_view(both: Both) -> None:
    assert both.ours["cube"].astype("<i4") == both.ours["cube"]
    with pytest.raises(TypeError):
        both.ours["cube"].astype("nothing at all")


def test_fields_of_a_view(both: Both) -> None:
    kind = [("t", "S5"), ("a", "f8")]
    ours, theirs = both.ours["rows"].astype(kind), both.theirs["rows"].astype(kind)
    for key in ("a", ("a", "t"), ("t", 3), ("a", slice(2, 5))):
        both.same(ours[key], theirs[key])


def test_text(both: Both) -> None:
    for name in ("texts", "ascii", "fixed", "scalar text"):
        options: dict[str, Any] = {"errors": "replace"}
        ours, theirs = both.ours[name].asstr(**options), both.theirs[name].asstr(**options)
        for key in [(), 0, slice(1, None)] if both.theirs[name].shape else [()]:
            both.same(ours[key], theirs[key])
        both.same(np.asarray(ours), np.asarray(theirs))
    ours, theirs = both.ours["texts"].asstr("latin-1"), both.theirs["texts"].asstr("latin-1")
    both.same(ours[2], theirs[2])
    with pytest.raises(UnicodeDecodeError):
        both.ours["texts"].asstr("ascii")[2]
    with pytest.raises(TypeError):
        both.ours["cube"].asstr()


@pytest.mark.skipif(np.__version__ < "2", reason="NumPy 1 has no such dtype")
def test_text_of_numpys(both: Both) -> None:
    for name in ("texts", "ascii"):
        got, want = (file[name].astype("T")[:] for file in (both.ours, both.theirs))
        assert got.dtype == want.dtype
        assert got.tolist() == want.tolist()
    with pytest.raises(TypeError):
        both.ours["cube"].astype("T")


def test_fields(both: Both) -> None:
    for name, wanted in (
        ("rows", ["t", "a"]),
        ("rows", ["n"]),
        ("rows", "b"),
        ("mixed", ["v", "i"]),
    ):
        ours, theirs = both.ours[name].fields(wanted), both.theirs[name].fields(wanted)
        assert ours.dtype == theirs.dtype
        assert len(ours) == len(theirs)
        for key in ((), 3, slice(2, 6), [1, 2]):
            both.same(ours[key], theirs[key])
        if wanted not in (["v", "i"], "b"):  # of "b", h5py repeats all in each
            both.same(np.asarray(ours), np.asarray(theirs))
    for name, wrong in (("rows", ["a", "nope"]), ("rows", "nope"), ("cube", "a")):
        with pytest.raises(ValueError, match="field"):
            both.ours[name].fields(wrong)


def test_iteration(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_multitables.parent.open.dataset.ITERATED_BYTES", 400)  # bands of rows
    for name in ("cube", "lz4", "rows", "texts", "nothing", "arrays", "grown"):
        for got, want in zip(both.ours[name], both.theirs[name], strict=True):
            both.same(got, want)
    for name in ("scalar", "empty"):
        with pytest.raises(TypeError):
            list(both.ours[name])


def test_arrays(both: Both) -> None:
    for name in NAMES:
        for dtype in (None, "f8"):
            mine = outcome(np.asarray, both.ours[name], dtype)
            other = outcome(np.asarray, both.theirs[name], dtype)
            assert (mine is FAILED) == (other is FAILED), (name, dtype)
            if mine is not FAILED:
                both.same(mine, other)
    both.same(np.asarray(both.ours["arrays"]), both.theirs["arrays"][...])  # which h5py cannot
    with pytest.raises(ValueError, match="copy"):
        both.ours["cube"].__array__(copy=False)
    with pytest.raises(ValueError, match="copy"):
        both.ours["cube"].astype("f8").__array__(copy=False)


DIRECT = [
    ("cube", (9, 7, 5), "<i4", None, None), ("cube", (9, 7, 5), "<f8", None, None),
    ("cube", (7, 5), "<i4", 3, None), ("cube", (10, 7, 5), "<i4", np.s_[2:5], np.s_[1:4]),
    ("cube", (4, 10), "u1", np.s_[1:5, 2, :], np.s_[:, ::2]),
    ("cube", (3, 7, 5), "<i4", [1, 3, 4], None),
    ("plain", (20, 6), ">f8", None, np.s_[:13]), ("plain", (6,), ">f8", 2, None),
    ("plain", (3, 6), ">f8", 2, None), ("scalar", (), "<f8", None, None),
    ("scalar", (4,), "f4", (), np.s_[1]),
    ("plain", (20, 6), ">f8", np.s_[3:5], np.s_[7:9]), ("lz4", (5,), "<u2", np.s_[::7], None),
    ("cube", (3,), "<i4", np.s_[0, 0, :3], None), ("cube", (9, 7), "<i4", None, None),
    ("empty", (3,), "<i4", None, None), ("arrays", (8, 3, 2), "<i2", None, None),
]  # fmt: skip


@pytest.mark.parametrize("case", range(len(DIRECT)))
def test_into_an_array(both: Both, case: int) -> None:
    name, shape, dtype, source, dest = DIRECT[case]
    arrays = []
    for file in (both.ours, both.theirs):
        array = np.full(shape, 7, dtype)
        done = outcome(file[name].read_direct, array, source, dest)
        arrays.append(FAILED if done is FAILED else array)
    if name == "arrays":  # which h5py cannot
        assert (arrays[0] == both.theirs[name][...]).all()
    elif arrays[1] is FAILED:
        assert arrays[0] is FAILED
    else:
        both.same(*arrays)


def test_straight_into_an_array(both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    array = np.zeros((20, 7, 5), "<i4")
    with monkeypatch.context() as patch:
        patch.setattr("_multitables.parent.open.dataset.converted", None)
        both.ours["cube"].read_direct(array[3:12])
        both.ours["cube"].read_direct(array, np.s_[2:4], np.s_[17:19])
    both.same(array[3:12].copy(), both.theirs["cube"][...])
    both.same(array[17:19].copy(), both.theirs["cube"][2:4])


def test_chunks_one_after_another(both: Both) -> None:
    wanted: list[Any] = [
        None, np.s_[1:8, 2:6, 1:3], np.s_[4:5, 0:1, 0:1], np.s_[3, 2:7, :], np.s_[:, :, :],
        np.s_[2:2, :, :], np.s_[:100, :, :], np.s_[1:3], 5,
    ]  # fmt: skip
    for selection in wanted:
        got, want = (
            outcome(
                lambda dataset, which: list(dataset.iter_chunks(which)), file["cube"], selection
            )
            for file in (both.ours, both.theirs)
        )
        assert got == want or got is want is FAILED, selection
    assert list(both.ours["lz4"].iter_chunks(np.s_[3:20])) == list(
        both.theirs["lz4"].iter_chunks(np.s_[3:20])
    )
    for name in ("plain", "scalar"):
        with pytest.raises(TypeError):
            both.ours[name].iter_chunks()
    with pytest.raises(TypeError):
        both.ours["cube"].iter_chunks(np.s_[[1, 2], :, :])


# ---- the fast ways ------------------------------------------------------------------------


def test_streams_and_batches(both: Both) -> None:
    want = both.theirs["cube"][...]
    with both.ours["cube"].stream(n_procs=1, remainder=True) as queue:
        blocks = []
        for guard in queue:
            with guard as block:
                blocks.append(block.copy())
        both.same(np.concatenate(blocks), want)
    batches = [batch.copy() for batch in both.ours["rows"].batches(10, n_procs=1, field="a")]
    both.same(np.concatenate(batches), both.theirs["rows"]["a"])
    with both.ours.streamer() as streamer:
        rows = list(streamer.get_generator("/lz4", n_procs=1))
    both.same(np.array(rows), both.theirs["lz4"][...])
    del block, guard


# ---- what fails ---------------------------------------------------------------------------


def test_a_damaged_chunk(tmp_path: Path) -> None:
    """The error is the one that a `Reader` raises, and the rest can be read."""
    path = tmp_path / "damaged.h5"
    with h5py.File(path, "w") as file:
        made = file.create_dataset(
            "x", data=smooth((100, 30)), chunks=(10, 30), compression=4, fletcher32=True
        )
        where = made.id.get_chunk_info(3)
    with open(path, "r+b") as raw:
        raw.seek(where.byte_offset + 40)
        raw.write(b"\0" * 8)
    with multitables.Reader(path, n_procs=1) as reader:
        dataset = reader.get_dataset("/x")
        with pytest.raises(multitables.CorruptChunkError) as want:
            reader.request(dataset[25:45]).get()
        del reader, dataset
    with multitables.open(path) as file:
        for key in (slice(25, 45), 33, [31, 3], ...):
            with pytest.raises(multitables.CorruptChunkError) as found:
                file["x"][key]
            assert str(found.value) == str(want.value)
            assert found.value.chunk_offset == where.chunk_offset
        assert (file["x"][:30] == smooth((100, 30))[:30]).all()
    del file, found, want
    gc.collect()


def test_a_file_that_changed(tmp_path: Path) -> None:
    path = tmp_path / "changed.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=smooth((100, 3)), chunks=(10, 3), compression=1)
    with multitables.open(path) as ours:
        dataset = ours["x"]
        assert dataset.shape == (100, 3)
        os.utime(path, ns=(1, 1))
        for key in (0, slice(5), [1, 2]):
            with pytest.raises(multitables.FileChangedError):
                dataset[key]


# ---- pickles ------------------------------------------------------------------------------


def test_pickles(both: Both) -> None:
    rows, texts, cube = (both.ours[name] for name in ("rows", "texts", "cube"))
    views = [
        (rows, slice(3)), (rows.fields(["a", "t"]), 2), (rows.fields("b"), slice(2, 4)),
        (texts.asstr(), slice(4)), (cube.astype("f8"), [1, 2]), (cube, [2, 1]),
    ]  # fmt: skip
    for view, key in views:
        again = pickle.loads(pickle.dumps(view))
        both.same(again[key], view[key])
        assert (again.dtype, again.shape) == (view.dtype, view.shape)
    assert pickle.loads(pickle.dumps(cube)) == cube
    assert pickle.loads(pickle.dumps(both.ours["cube"].parent))["cube"] == cube
    del again, view, views, rows, texts, cube


def test_a_pickle_of_a_file_that_changed(tmp_path: Path) -> None:
    path = tmp_path / "changed.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.arange(5)
    with multitables.open(path) as ours:
        pickled = pickle.dumps(ours["x"])
    os.utime(path, ns=(1, 1))
    with pytest.raises(multitables.FileChangedError):
        pickle.loads(pickled)


def test_nothing_is_read_before_it_is_asked_for(path: Path) -> None:
    with multitables.open(path) as file:
        dataset = file["cube"]
        assert not [name for name in vars(dataset) if name in ("_stored", "_datatype", "_dtype")]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert dataset.ndim == 3


@pytest.mark.parametrize("options", [{}, {"chunks": (7, 3)}, {"chunks": (7, 3), "shuffle": True}])
def test_plain_datasets_are_read_by_the_cores_own_table(
    h5: Path, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python's index of them is not made, neither of whole ones nor of their fields."""
    pairs = np.zeros((20, 5), [("a", "<i4"), ("b", ">f8", (2,))])
    pairs["a"], pairs["b"][..., 1] = np.arange(100).reshape(20, 5), 0.5
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=pairs, **options)
        file.create_dataset("never", (20, 5), "<i2", fillvalue=7, **options)
        file["scalar"] = 3.5
        compact = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        compact.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((6,))
        h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I16LE, space, compact)
        file["compact"][...] = range(6)

    def refused(*_: Any, **__: Any) -> Any:
        raise AssertionError("an index was made")

    monkeypatch.setattr(Source, "index_at", refused)
    with multitables.open(h5) as file:
        np.testing.assert_array_equal(file["x"][...], pairs)
        np.testing.assert_array_equal(file["x"]["b"][3:5], pairs["b"][3:5])
        assert (file["never"][::3] == 7).all()
        assert file["scalar"][()] == 3.5
        assert file["compact"][1:4].tolist() == [1, 2, 3]
