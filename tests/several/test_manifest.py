"""A manifest: one saved index of many files, which stands for the list of them.

1. The oracle is h5py, or what the list of the same files gives.
2. Whatever a manifest says, its files' data comes out right, or one of our errors.
"""

from __future__ import annotations

import itertools
import os
import pickle
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import several_files
import shot_files
from hypothesis import given, settings
from hypothesis import strategies as st
from index_changes import CHANGES, changed, with_tables
from several_files import COLUMNS, Part, manifest, parts

import multitables
from _multitables.index.joined.manifest import Manifest
from _multitables.index.saved.format import COLUMNS as OF_INDEX
from _multitables.index.saved.format import HEADS, MANIFEST, Head
from _multitables.parent import index_files as index_files_module
from multitables import Streamer

KEYS = (np.s_[...], np.s_[3:17], np.s_[::-2], np.s_[0, 1:4], np.s_[[4, 1, 2]], np.s_[5:0])


def rows(files: Any, path: str = "/x", most: int | None = None, **options: Any) -> np.ndarray:
    made = Streamer(files, **options).get_batches(path, 7, epochs=1, n_procs=1, shuffle=None)
    with made as batches:
        return np.concatenate([batch.copy() for batch in itertools.islice(batches, most)])


@settings(deadline=None, max_examples=40)
@given(wanted=parts(), key=st.sampled_from(KEYS))
def test_open_reads_the_rows_of_all(wanted: list[Part], key: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        names = several_files.write(Path(folder), wanted)
        x, y = several_files.read(names), several_files.read(names, "/y")
        with multitables.open(manifest(Path(folder), names)) as file:
            assert (file["x"].shape, file["x"].dtype, list(file)) == (x.shape, x.dtype, ["x", "y"])
            np.testing.assert_array_equal(file["y"][...], y)
            try:
                expected = x[key]
            except IndexError:
                with pytest.raises(IndexError):
                    file["x"][key]
            else:
                np.testing.assert_array_equal(file["x"][key], expected)


def test_open_refuses_rows_that_cannot_be_joined(tmp_path: Path) -> None:
    names = [str(tmp_path / f"{number}.h5") for number in range(2)]
    for number, name in enumerate(names):
        with h5py.File(name, "w") as file:
            file["text"], file["scalar"] = [f"text {number}"], number
            file["type"] = np.zeros(3, ["<i4", "<i8"][number])
            file["fields"] = np.array([(number, 2.5)], [("a", "<i2"), ("b", "<f8")])
            file.attrs["run"] = number
        if number:
            with h5py.File(name, "a") as file:
                file["only"] = np.zeros(3)
    with multitables.open(manifest(tmp_path, names)) as file:
        assert (file["scalar"][()], file.attrs["run"], "only" in file) == (0, 0, False)
        np.testing.assert_array_equal(file["fields"]["a"], [0, 1])
        assert file["fields"].fields("b")[1] == 2.5
        for name, why in (("text", "no fixed size|any length|variable"), ("type", "dtype differs")):
            with pytest.raises(multitables.UnsupportedDatasetError, match=why):
                file[name][...]
        with pickle.loads(pickle.dumps(file)) as copied:
            assert copied["fields"].shape == (2,)


def renamed(file: h5py.File) -> None:
    file.move("shots/7/signals/gzip", "shots/7/signals/other")


def linked(file: h5py.File) -> None:
    file.move("shots/7/signals/gzip", "elsewhere")
    file["shots/7/signals/gzip"] = h5py.SoftLink("/elsewhere")


def grouped(file: h5py.File) -> None:
    del file["shots/7/signals/gzip"]
    file["shots/7/signals/gzip/below"] = 1


def resized(file: h5py.File) -> None:
    del file["shots/7/signals/gzip"]
    file["shots/7/signals/gzip"] = np.arange(5.0)


@pytest.mark.parametrize("scales", [True, False])
@pytest.mark.parametrize("change", [None, resized, renamed, linked, grouped])
def test_collections_are_those_of_the_list(
    change: Callable[[h5py.File], None] | None,
    scales: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kinds = {name: shot_files.KINDS[name] for name in ("gzip", "table", "virtual", "compact")}
    names = [str(shot_files.write(tmp_path / f"{name}.h5", (7,), kinds)) for name in "abcde"]
    for name in names:
        with h5py.File(name, "a") as file:
            for signal in file["shots/7/signals"].values():
                if "DIMENSION_LIST" in signal.attrs:
                    del signal.attrs["DIMENSION_LIST"]
            if change is not None and name == names[2]:
                change(file)
    path, where, opened = "/shots/7/signals/*", manifest(tmp_path, names), list[int]()
    expected = Streamer(names).get_collection(path, by="file", n_procs=1, scales=scales)
    open_file = Manifest.open_file
    monkeypatch.setattr(
        Manifest, "open_file", lambda self, *which: opened.append(1) or open_file(self, *which)
    )
    found = Streamer(where).get_collection(path, by="file", n_procs=1, scales=scales)
    assert (len(opened) < len(names)) == (change not in (renamed, linked))
    assert found.keys == expected.keys == names
    for item in found:
        with h5py.File(item.key) as file:
            datasets = file["shots/7/signals"].items()
            wanted = {name: one for name, one in datasets if isinstance(one, h5py.Dataset)}
            shot_files.same_item(item, wanted, with_scales=False)


def test_only_what_changed_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = several_files.write(tmp_path, [Part(8), Part(5, "contiguous"), Part(3), Part(9)])
    where, opened = manifest(tmp_path, names), list[str]()
    whole = Path(where).read_bytes()

    def counted(name: str, *arguments: Any, **options: Any) -> Any:
        opened.append(name)
        return open_file(name, *arguments, **options)

    open_file = index_files_module.open_file
    monkeypatch.setattr(index_files_module, "open_file", counted)
    assert Path(manifest(tmp_path, names)).read_bytes() == whole
    assert not opened
    with h5py.File(names[1], "w") as file:
        file["x"], file["y"] = np.ones((2, COLUMNS), "<i4"), np.zeros(2, "<i8")
    os.unlink(names[2])
    multitables.index_files(str(tmp_path / "*.h5"), to=where, progress=False)
    left = [names[0], names[1], names[3]]
    assert opened == [names[1]]
    np.testing.assert_array_equal(rows(where), several_files.read(left))
    with pytest.raises(multitables.MissingFileError):
        multitables.index_files(names, to=where, progress=False)
    np.testing.assert_array_equal(rows(where), several_files.read(left))  # it is as it was
    with pytest.warns(multitables.MissingFileWarning, match=r"f2\.h5"):
        multitables.index_files(names, to=where, progress=False, skip_missing=True)
    np.testing.assert_array_equal(rows(where), several_files.read(left))


def touch(name: str) -> None:
    os.utime(name, ns=(1, 1))


@pytest.mark.parametrize(
    ("change", "error"), [(touch, multitables.FileChangedError), (os.unlink, FileNotFoundError)]
)
def test_a_file_that_changed_is_an_error_at_its_first_read(
    tmp_path: Path, change: Callable[[str], Any], error: type[Exception]
) -> None:
    names = several_files.write(tmp_path, [Part(28), Part(28), Part(28)])
    expected, where = several_files.read(names), manifest(tmp_path, names)
    change(names[2])
    with pytest.raises(error, match=r"f2\.h5"):
        rows(where)
    with Streamer(where).get_batches("/x", 56, n_procs=1, shuffle=None, rows=slice(56)) as some:
        np.testing.assert_array_equal(next(iter(some)), expected[:56])
    with multitables.open(where) as file:
        np.testing.assert_array_equal(file["x"][:56], expected[:56])
        with pytest.raises(error, match=r"f2\.h5"):
            file["x"][56:]


def test_devices_are_numbered_anew(tmp_path: Path) -> None:
    """As they are when a machine starts."""
    names = several_files.write(tmp_path, [Part(8), Part(8)])
    where = Path(manifest(tmp_path, names))
    touch(names[0])
    layout, stored = HEADS[MANIFEST], where.read_bytes()
    head = Head(*layout.unpack_from(stored)[3:])
    assert OF_INDEX[0][0] == "file_device"
    at = layout.size + head.parts_bytes
    moved = stored[:at] + (77).to_bytes(8, "little") * 2 + stored[at + 16 :]
    where.write_bytes(with_tables(moved, []))
    with multitables.open(where) as file:
        np.testing.assert_array_equal(file["x"][8:], several_files.read(names[1:]))
        with pytest.raises(multitables.FileChangedError, match=r"f0\.h5"):
            file["x"][:8]


def test_what_takes_no_manifest(tmp_path: Path) -> None:
    names = several_files.write(tmp_path, [Part(8), Part(8)])
    where = manifest(tmp_path, names)
    for call in (multitables.versions, multitables.index_file):
        with pytest.raises(multitables.OptionsError, match="takes one file, got a manifest"):
            call(where)
    with pytest.raises(multitables.OptionsError, match="got a list of others"):
        multitables.index_files([where], to=tmp_path / "b.mtidx", progress=False)
    for to in ("all.json", "s3://bucket/all.mtidx"):
        with pytest.raises(multitables.OptionsError, match=r"ends with \.mtidx"):
            multitables.index_files(names, to=to, progress=False)
    with pytest.raises(multitables.FileOpenError, match="cannot be written"):
        multitables.index_files(names, to=tmp_path / "no" / "b.mtidx", progress=False)
    one = multitables.index_file(names[0], progress=False)
    for use in (multitables.open, lambda name: multitables.index_files(names, name)):
        with pytest.raises(multitables.FileOpenError, match="is no manifest"):
            use(one)
    with pytest.raises(multitables.MissingFileError):
        Streamer(tmp_path / "none.mtidx").get_queue("/x")


def test_files_out_of_reach(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    names = several_files.write(tmp_path / "a", [Part(8), Part(8)])
    where = multitables.index_files(names, to=tmp_path / "all.mtidx", progress=False)
    outside = multitables.index_files(names, to=tmp_path / "a" / ".." / "b.mtidx", progress=False)
    np.testing.assert_array_equal(rows(where, links="folder"), several_files.read(names))
    (tmp_path / "c").mkdir()
    outside = str(Path(outside).rename(tmp_path / "c" / "b.mtidx"))
    np.testing.assert_array_equal(rows(outside), several_files.read(names))
    hostile: Any = multitables.open
    for call in (lambda: rows(outside, links="folder"), lambda: hostile(outside, trusted=False)):
        with pytest.raises(multitables.LinkRefusedError, match=r"f0\.h5"):
            call()


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    folder = tmp_path_factory.mktemp("good")
    kinds = ("gzip", "gzip", "contiguous", "plain")
    names = several_files.write(folder, [Part(13, kind) for kind in kinds[:2]])
    return Path(manifest(folder, names)), several_files.read(names)


def reads(where: Path, expected: np.ndarray | None) -> None:
    """Read what may be all rows, as a lie may say that there are 2**60; errors are ours."""
    for read in (lambda: multitables.open(where)["x"][:100], lambda: rows(str(where), most=10)):
        try:
            found = read()
        except multitables.MultitablesError:
            continue
        if expected is not None:
            np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore::multitables.SavedIndexWarning")
@settings(deadline=None, max_examples=60)
@given(change=CHANGES)
def test_damage(good: tuple[Path, np.ndarray], change: Any) -> None:
    where, expected = good
    with tempfile.TemporaryDirectory() as folder:
        bad = Path(folder) / "bad.mtidx"
        bad.write_bytes(changed(where.read_bytes(), change))
        reads(bad, expected)


@pytest.mark.filterwarnings("ignore::multitables.SavedIndexWarning")
@settings(deadline=None, max_examples=60)
@given(changes=st.lists(CHANGES, min_size=1, max_size=3))
def test_manifests_that_lie(good: tuple[Path, np.ndarray], changes: list[Any]) -> None:
    """Sums are correct, as another program can make them."""
    where, _ = good
    with tempfile.TemporaryDirectory() as folder:
        bad = Path(folder) / "bad.mtidx"
        bad.write_bytes(with_tables(where.read_bytes(), changes))
        reads(bad, None)
