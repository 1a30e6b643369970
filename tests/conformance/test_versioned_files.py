"""A file that the package versioned-hdf5 wrote, and each entry point, against h5py.

Law
---
1. Each version of each dataset is what h5py reads of its virtual dataset.
2. A version that is opened is as a file of its own: names, paths and links begin at its root.
"""

from __future__ import annotations

import itertools
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import versioned

import multitables
from _multitables.index.versions.version import GROUP

VERSIONS = ("r0", "r4", "r5")
DATASETS = ("line", "sub/grid", "cube", "sparse", "text")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("versioned") / "kept.h5"
    versioned.unpack_kept(path)
    return path


def test_each_version(path: Path) -> None:
    with (
        h5py.File(path) as file,
        multitables.Streamer(path) as streamer,
        multitables.Reader(path, 1) as reader,
    ):
        ways: list[Callable[[str, str], Any]] = [
            lambda name, version: multitables.open(path, version=version)[name][()],
            lambda name, version: [*streamer.get_generator(name, 1, block_size=7, version=version)],
            lambda name, version: streamer.get_remainder(name, 10**6, version=version),
            lambda name, version: np.concatenate(
                [*streamer.get_batches(name, 10, n_procs=1, version=version)]
            ),
            lambda name, version: reader.request(reader.get_dataset(name, version)[:]).get(),
        ]
        for version, name, way in itertools.product(VERSIONS, DATASETS, ways):
            group = file[GROUP][version]
            if name in group:
                got, want = np.asarray(way(name, version)), group[name][()]
                assert got.dtype == want.dtype
                np.testing.assert_array_equal(got, want)
            else:
                with pytest.raises(KeyError, match=f"{version}/{name}"):
                    way(name, version)


def test_what_the_package_wrote_is_listed(path: Path) -> None:
    listed = multitables.versions(path)
    parents = {name: version.parent for name, version in listed.items()}
    # r1 and r7 were deleted.
    assert parents == {"r0": None, "r2": "r0", "r3": "r2", "r4": "r3", "r5": "r2", "r6": "r4"}
    assert [listed[index].name for index in (-1, -2, 0)] == ["r6", "r4", "r0"]
    with h5py.File(path) as file:
        for name, version in listed.items():
            assert versioned.stamp(version.time) == file[GROUP][name].attrs["timestamp"]


def test_what_differs_in_strings_of_variable_length(path: Path) -> None:
    versions = multitables.versions(path)
    assert versions.diff("words", "r0", "r4") == []
    assert versions.diff("text", "r0", "r2") == []
    assert versions.diff("cube", 0, -1) == []
    assert versions.diff("sparse", "r0", "r3") == [slice(192, 256)]


def test_a_version_is_as_a_file(path: Path) -> None:
    with multitables.open(path, version="r2") as file, h5py.File(path) as other:
        want = other[f"{GROUP}/r2"]
        names: list[str] = []
        file.visit(names.append)
        expected: list[str] = []
        want.visit(expected.append)
        assert names == expected
        assert [*file] == [*want]
        assert file.name == "/"
        assert file.attrs["prev_version"] == "r0"
        grid = file["sub"]["/sub/grid"]
        assert grid == file["/sub/grid"] == file["sub/grid"] == file["/"]["sub"]["grid"]
        assert grid.name == "/sub/grid"
        assert grid.parent == file["sub"]
        assert grid.file == file
        assert file["sub"].parent == file
        assert file[file["line"].ref].name == "/line"
        assert "/line" in file["sub"]
        assert "/nothing" not in file
        assert "/_version_data" not in file
        assert [found.name for found in file.walk("/**/grid")] == ["/sub/grid"]
        assert file["sub"].get("/line", getclass=True) is multitables.Dataset
        assert isinstance(file.get("/line", getlink=True), multitables.HardLink)
        assert file["line"].attrs["unit"] == "V"
        np.testing.assert_array_equal(file["words"][()], want["words"][()])
        with pytest.raises(KeyError, match="'line', 'sparse', 'sub'"):
            file["/nothing"]
        np.testing.assert_array_equal(np.concatenate([*grid.batches(10, n_procs=1)]), grid[()])
        rows = [*file.streamer(root_uep="/sub").get_generator("grid", 1)]
        np.testing.assert_array_equal(rows, grid[()])


def test_a_version_goes_along(path: Path, tmp_path: Path) -> None:
    with multitables.open(path, version=-2) as file:
        line = pickle.loads(pickle.dumps(file["line"]))
        for again in (pickle.loads(pickle.dumps(file)), line.file):
            np.testing.assert_array_equal(again["line"][()], file["line"][()])
            assert again["line"].name == "/line"
            assert again == file
            again.close()
        data = pickle.dumps(file)
    os.utime(path, (1, 1))
    with pytest.raises(multitables.FileChangedError):
        pickle.loads(data)


def test_with_a_saved_index(path: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.h5"
    copy.write_bytes(path.read_bytes())
    multitables.index_file(copy, progress=False)
    assert [*multitables.versions(copy)] == [*multitables.versions(path)]
    with multitables.open(copy, version="r3") as file, h5py.File(path) as other:
        np.testing.assert_array_equal(file["line"][()], other[f"{GROUP}/r3/line"][()])


def test_columns_and_datasets_in_lock_step(tmp_path: Path) -> None:
    rows = np.zeros(30, [("a", "<i4"), ("b", "<f8")])
    rows["a"] = np.arange(30)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        writer = versioned.Writer(file)
        writer.commit("one", {"t": rows, "g/x": np.arange(30)})
        writer.commit("two", {"t": rows[:5], "g/x": np.arange(5)})
    streamer = multitables.Streamer(tmp_path / "v.h5")
    both = [*streamer.get_generator({"a": "t", "x": "g/x"}, 1, version="one")]
    assert [row["a"]["a"] for row in both] == [row["x"] for row in both] == [*range(30)]
    assert [*streamer.get_generator("t", 1, field="a", version="two")] == [*range(5)]
    with multitables.Reader(tmp_path / "v.h5", 1) as reader:
        column = reader.get_dataset("t", version="one").col("a")
        assert [*reader.request(column[3:6]).get()] == [3, 4, 5]
    in_root = multitables.Streamer(tmp_path / "v.h5", root_uep="/g")
    assert [*in_root.get_generator("x", 1, version="two")] == [*range(5)]
