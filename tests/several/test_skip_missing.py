"""Files that are left out of several: what they lack is reported, and no row of others is lost.

1. The oracle are the files that are intact, by h5py.
2. Datasets in lock-step have the same files; what differs otherwise is refused as ever.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import several_files
import shot_files
from hypothesis import given, settings
from hypothesis import strategies as st
from several_files import COLUMNS, Part

import multitables
from multitables import Joined, MissingFileWarning, Streamer

#: What may be wrong with a file -> the error that says so.
WRONG = {
    "no file": multitables.MissingFileError,
    "empty": multitables.FileOpenError,
    "no HDF5": multitables.FileOpenError,
    "truncated": multitables.FileOpenError,
    "root": multitables.CorruptFileError,
    "no x": multitables.MissingDatasetError,
    "no y": multitables.MissingDatasetError,
}


def spoil(name: str, wrong: str) -> None:
    path = Path(name)
    if wrong.startswith("no "):
        if wrong in ("no x", "no y"):
            with h5py.File(path, "a") as file:
                del file[wrong[3:]]
        elif wrong == "no file":
            path.unlink()
        else:
            path.write_bytes(b"not a file of HDF5" * 100)
    elif wrong == "empty":
        path.write_bytes(b"")
    elif wrong == "truncated":
        path.write_bytes(path.read_bytes()[:-100])
    else:
        data = path.read_bytes()
        path.write_bytes(data.replace(b"TREE", b"tree").replace(b"HEAP", b"heap"))


def write(folder: Path, wrong: list[str]) -> tuple[list[str], dict[str, type[Exception]]]:
    """Write files of which some are wrong; return their names, and the error of each such one."""
    names = several_files.write(folder, [Part(11 + number) for number in range(len(wrong))])
    for name, what in zip(names, wrong, strict=True):
        if what:
            spoil(name, what)
    return names, {n: WRONG[what] for n, what in zip(names, wrong, strict=True) if what}


def same_report(found: dict[str, Exception], expected: dict[str, type[Exception]]) -> None:
    assert list(found) == list(expected)
    for name, error in found.items():
        assert isinstance(error, expected[name])
        assert name in str(error)


@settings(deadline=None, max_examples=40)
@given(
    wrong=st.lists(st.sampled_from(["", "", *WRONG]), min_size=2, max_size=6),
    shuffle=st.sampled_from([None, "chunks", "full"]),
    world_size=st.integers(1, 2),
    paths=st.sampled_from([["/x", "/y"], [Joined("/x*"), Joined("/y")]]),
)
def test_batches_of_what_is_there(
    wrong: list[str], shuffle: Any, world_size: int, paths: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        names, bad = write(Path(folder), wrong)
        good = [name for name in names if name not in bad]
        streamer = Streamer(names, skip_missing=True)
        options = {"shuffle": shuffle, "n_procs": 1, "world_size": world_size}
        if not good:
            with pytest.raises(bad[names[0]]):
                streamer.get_batches(paths, 2, **options).order()
            return
        expected = several_files.read(good), several_files.read(good, "/y")
        seen = []
        for rank in range(world_size):
            warned.clear()
            with streamer.get_batches(paths, 2, rank=rank, **options) as batches:
                found = [[array.copy() for array in next(iter(batches))]]
                state = batches.state_dict()
            with streamer.get_batches(paths, 2, rank=rank, **options) as batches:
                batches.load_state_dict(state)
                found += [[array.copy() for array in batch] for batch in batches]
                order = batches.order(0)
                same_report(batches.missing_files, bad)
            assert [str(one.message).split("'")[1] for one in warned] == 2 * list(bad)
            assert {one.category for one in warned} <= {MissingFileWarning}
            for expect, arrays in zip(expected, zip(*found, strict=True), strict=True):
                np.testing.assert_array_equal(np.concatenate(arrays), expect[order])
            seen += order.tolist()
        assert sorted(seen) == list(range(len(expected[0])))


@pytest.mark.parametrize("first", ["", *WRONG])
@pytest.mark.filterwarnings("ignore::multitables.MissingFileWarning")
def test_queues_and_columns(tmp_path: Path, first: str) -> None:
    wrong = [first, "", "no x", "", "truncated"]
    names, bad = write(tmp_path, wrong)
    for keeps in (False, True):
        streamer = Streamer(names, skip_missing=True)
        if keeps:
            streamer.__enter__()
        for paths in ("/y", ["/x", "/y"], "/x"):
            lacks = [f"no {name}" for name in "xy" if f"/{name}" not in paths]
            what = dict(zip(names, wrong, strict=True))
            out = {name: error for name, error in bad.items() if what[name] not in lacks}
            good = [name for name in names if name not in out]
            with streamer.get_queue(paths, n_procs=1, remainder=True) as queue:
                same_report(queue.missing_files, out)
                found = []
                for guard in queue:
                    with guard as block:
                        found.append((block if isinstance(paths, str) else block[0]).copy())
            path = paths if isinstance(paths, str) else paths[0]
            np.testing.assert_array_equal(np.concatenate(found), several_files.read(good, path))
        blocks = streamer.get_columns("/", ["x"], index="y", n_procs=1)
        same_report(blocks.missing_files, bad)
        good = [name for name in names if name not in bad]
        found = [block["x"].copy() for block in blocks]
        np.testing.assert_array_equal(np.concatenate(found), several_files.read(good))
        blocks = streamer.get_columns("/", index="y", n_procs=1)
        names_of_first = set() if first == "no x" else {"x"}
        assert {name for block in blocks for name in block} == names_of_first
        streamer.close()


def test_without_it_the_first_error_is_raised(tmp_path: Path) -> None:
    names, bad = write(tmp_path, ["", "truncated", "no x"])
    with pytest.raises(multitables.FileOpenError, match=names[1]):
        Streamer(names).get_queue("/x")
    with pytest.raises(multitables.FileOpenError, match=names[1]):
        Streamer(names).get_collection("/*")
    assert len(bad) == 2


def test_what_differs_is_refused_as_ever(tmp_path: Path) -> None:
    names, _ = write(tmp_path, ["", "", "truncated"])
    with h5py.File(names[1], "a") as file:
        del file["x"]
        file["x"] = np.zeros((3, COLUMNS), "f8")
    streamer = Streamer(names, skip_missing=True)
    with pytest.raises(multitables.UnsupportedDatasetError, match="its dtype differs"):
        streamer.get_queue("/x")
    with pytest.raises(multitables.MissingDatasetError, match="/none"):
        streamer.get_queue("/none")
    (name,) = names[2:]
    with pytest.raises(multitables.FileOpenError, match=name):  # one file is not several
        Streamer([name], skip_missing=True).get_queue("/x")


def test_columns_of_a_table_that_a_file_lacks(tmp_path: Path) -> None:
    names = []
    for number, fields in enumerate((("n", "a"), ("n", "b"), ("n", "a"))):
        names.append(str(tmp_path / f"{number}.h5"))
        with h5py.File(names[-1], "w") as file:
            file["t"] = np.full(3, number, [(field, "i4") for field in fields])
    with pytest.warns(MissingFileWarning, match="1.h5' is left out: no field 'a'"):
        queue = Streamer(names, skip_missing=True).get_queue("/t", field="a", n_procs=1)
    same_report(queue.missing_files, {names[1]: multitables.MissingFieldError})
    queue.close()


@pytest.mark.parametrize("by", [0, 1, "file"])
def test_collections(tmp_path: Path, by: int | str) -> None:
    names = [
        str(shot_files.write(tmp_path / f"{number}.h5", (number,), shot_files.SUMMED))
        for number in range(1, 6)
    ]
    spoil(names[0], "truncated")
    spoil(names[2], "no file")
    with h5py.File(names[3], "w") as file:
        file["other"] = 1
    with pytest.warns(MissingFileWarning) as warned:
        items = Streamer(names, skip_missing=True).get_collection(
            shot_files.PATTERN, by, order="key", n_procs=1
        )
    assert len(warned) == 3
    expected = {
        names[0]: multitables.FileOpenError,
        names[2]: multitables.MissingFileError,
        names[3]: multitables.MissingDatasetError,
    }
    same_report(items.missing_files, expected)
    keys = {0: ["2", "5"], 1: ["gzip", "plain", "summed"], "file": [names[1], names[4]]}[by]
    came = []
    for item in items:
        came.append(item.key)
        for name, array in item.items():
            parts = {0: (item.key, name), 1: (name, item.key), "file": name.split("/")}[by]
            shot, signal = parts
            with h5py.File(tmp_path / f"{shot}.h5") as file:
                np.testing.assert_array_equal(array, file[f"shots/{shot}/signals/{signal}"])
    assert came == keys
    for name in names:
        Path(name).unlink(missing_ok=True)
    with pytest.raises(multitables.MissingFileError):
        Streamer(names, skip_missing=True).get_collection(shot_files.PATTERN, by)


def test_one_file_reports_nothing(tmp_path: Path) -> None:
    (name,) = several_files.write(tmp_path, [Part(9)])
    with Streamer(name, skip_missing=True) as streamer:
        with streamer.get_queue("/x", n_procs=1) as queue:
            assert queue.missing_files == {}
        with streamer.get_batches("/x", 2, n_procs=1) as batches:
            assert batches.missing_files == {}
        assert streamer.get_columns("/", ["x"], index="y").missing_files == {}
        assert streamer.get_collection("/*").missing_files == {}
