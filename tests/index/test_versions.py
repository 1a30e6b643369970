"""Which version of a file is meant, and which rows differ between two of them.

Law
---
1. An index counts along the history of the current version, a time finds what was the latest then,
   a name is what it says. What cannot be meant is refused by its name.
2. Rows outside of a diff are equal, and each range of it has a chunk that changed.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import versioned
from hypothesis import given, settings
from hypothesis import strategies as st
from versioned import BEGIN, DAY, FIRST, Writer, numbers

import multitables
from _multitables.index.versions import version as indexed
from _multitables.index.versions.version import History, Version

NO_VERSION = multitables.MissingVersionError


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """r0 - r1 - r2 - r4 (the current one), r1 - r3, and r5, which was not committed."""
    path = tmp_path_factory.mktemp("versions") / "example.h5"
    versioned.write_example(path)
    return path


def written(path: Path, write: Callable[[Writer], None], **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        write(Writer(file, **options))
    return path


def test_the_history_is_listed(example: Path) -> None:
    listed = multitables.versions(example)
    assert [*listed] == ["r0", "r1", "r2", "r3", "r4"]
    parents = {name: version.parent for name, version in listed.items()}
    assert parents == {"r0": None, "r1": "r0", "r2": "r1", "r3": "r1", "r4": "r2"}
    assert listed["r3"].time == BEGIN + 5 * DAY
    assert len(listed) == 5
    assert "r3" in listed
    assert "r5" not in listed
    assert FIRST not in listed
    assert repr(listed) == f"<Versions of {str(example)!r}: 5 versions>"


@pytest.mark.parametrize(
    ("key", "name"),
    [
        ("r3", "r3"),
        (-1, "r4"),
        (-2, "r2"),
        (-4, "r0"),
        (0, "r0"),
        (np.int8(2), "r2"),
        (3, "r4"),
        (BEGIN + 3 * DAY, "r1"),
        ((BEGIN + 3.5 * DAY).astimezone(timezone(timedelta(hours=5))), "r1"),
        (np.datetime64("2024-03-06T00:00:00"), "r3"),
        (np.datetime64("2024-03-06T00:00:00.000000001", "ns"), "r3"),
        (np.datetime64("2030"), "r4"),
    ],
)
def test_a_version_is_found(example: Path, key: Any, name: str) -> None:
    assert multitables.versions(example)[key].name == name
    with multitables.open(example, version=key) as opened, h5py.File(example) as file:
        want = file[f"{indexed.GROUP}/{name}/line"][()]
        np.testing.assert_array_equal(opened["line"][()], want)


@pytest.mark.parametrize(
    ("key", "told"),
    [
        ("r5", "version 'r5' of .* was not committed"),
        (FIRST, f"'{FIRST}' of .* is no version"),
        ("r9", r"no version 'r9' in .* Did you mean 'r\d'"),
        ("r4/sub", "no version 'r4/sub'"),
        ("", "no version ''"),
        (4, r"version 4 of .* is out of range: .* has 4 \(expected -4 to 3\)"),
        (-5, "version -5 of .* is out of range"),
        (BEGIN, "has no version of 2024-03-01 00:00:00.00:00 or before"),
    ],
)
def test_what_is_no_version_is_refused(example: Path, key: Any, told: str) -> None:
    with pytest.raises(NO_VERSION, match=told) as caught:
        multitables.versions(example)[key]
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert isinstance(again, KeyError)
    assert isinstance(again, IndexError)
    with pytest.raises(NO_VERSION, match=told):
        multitables.Streamer(example).get_queue("line", version=key)


@pytest.mark.parametrize(
    "key", [True, 1.0, None, datetime(2024, 3, 3), np.datetime64("NaT"), b"r1", slice(2)]
)
def test_what_cannot_be_a_version(example: Path, key: Any) -> None:
    with pytest.raises(multitables.OptionsError, match="version must be a name, an index"):
        multitables.versions(example)[key]


@pytest.mark.parametrize("layout", [2, 3, 5])
def test_layouts_that_the_package_refuses(tmp_path: Path, layout: int) -> None:
    path = written(tmp_path / "v.h5", lambda writer: writer.commit("a"), layout=layout)
    with pytest.raises(multitables.UnsupportedDatasetError, match=f"data version {layout}"):
        multitables.versions(path)


@pytest.mark.parametrize("layout", [None, 1, 4])
def test_layouts_that_the_package_reads(tmp_path: Path, layout: int | None) -> None:
    path = written(tmp_path / "v.h5", lambda writer: writer.commit("a"), layout=layout)
    assert [*multitables.versions(path)] == ["a"]


def test_files_without_versions(tmp_path: Path) -> None:
    path = written(tmp_path / "none.h5", lambda writer: None)
    assert [*multitables.versions(path)] == []
    with pytest.raises(NO_VERSION, match="has 0"):
        multitables.open(path, version=-1)
    with h5py.File(tmp_path / "plain.h5", "w") as file:
        file["line"] = 1
    with pytest.raises(multitables.UnsupportedDatasetError, match="has no versions"):
        multitables.open(tmp_path / "plain.h5", version=-1)


def test_a_parent_that_was_deleted(tmp_path: Path) -> None:
    def write(writer: Writer) -> None:
        for name in "abc":
            writer.commit(name)
        del writer.group["b"]  # not as the package does it, which mends the history

    listed = multitables.versions(written(tmp_path / "v.h5", write))
    assert [*listed] == ["a", "c"]
    assert listed[-1].parent == "b"
    with pytest.raises(NO_VERSION, match=r"version 'b', which 'c' of .* was made from, was"):
        listed[-2]


def test_a_history_in_a_circle(tmp_path: Path) -> None:
    def write(writer: Writer) -> None:
        writer.commit("a")
        writer.commit("b")
        writer.group["a"].attrs["prev_version"] = "b"

    path = written(tmp_path / "v.h5", write)
    for question in (lambda: multitables.versions(path), lambda: multitables.open(path, version=0)):
        with pytest.raises(multitables.CorruptFileError, match="one of its own ancestors"):
            question()
    assert multitables.open(path, version="a")


def test_a_time_that_is_none(tmp_path: Path) -> None:
    def write(writer: Writer) -> None:
        writer.commit("a")
        writer.group["a"].attrs["timestamp"] = "yesterday"

    with pytest.raises(multitables.CorruptFileError, match=r"version 'a' has no time .*yesterday"):
        multitables.versions(written(tmp_path / "v.h5", write))


def test_only_versions_that_are_asked_for_are_read(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []
    once = indexed._Stored._read
    monkeypatch.setattr(
        indexed._Stored, "_read", lambda self, name, at: read.append(name) or once(self, name, at)
    )
    for key, names in (("r1", ["r1"]), (-1, ["r4"]), (-3, ["r4", "r2", "r1"])):
        multitables.open(example, version=key).close()
        assert read == names
        read.clear()


@given(st.lists(st.integers(0, 20), max_size=12), st.randoms(use_true_random=False))
def test_any_history(makers: list[int], random: Any) -> None:
    """Version n was made from one of the first n, or from nothing; times are in any order."""
    versions: dict[str, Version] = {}
    for number, maker in enumerate(makers):
        parent = f"v{maker - 1}" if 0 < maker <= number else None
        time = BEGIN + random.randrange(9) * DAY
        versions[f"v{number}"] = Version(f"v{number}", parent, time)
    history = History("f.h5", f"v{len(makers) - 1}" if makers else FIRST, versions)
    ordered = [version.name for version in history.in_order()]
    assert sorted(ordered) == sorted(versions)
    for version in versions.values():
        assert version.parent is None or ordered.index(version.parent) < ordered.index(version.name)
    line = [version.name for version in history.line()]
    for at, name in enumerate(line):
        assert history.find(-1 - at).name == name
        assert history.find(len(line) - 1 - at).name == name
    for days in range(-1, 10):
        time = BEGIN + days * DAY
        before = [version.time for version in versions.values() if version.time <= time]
        if before:
            assert history.find(np.datetime64(time.replace(tzinfo=None))).time == max(before)


@st.composite
def changes(draw: st.DrawFn) -> tuple[tuple[int, ...], list[tuple[tuple[int, ...], int]]]:
    """A shape, and versions: where it changes, and how many rows it has then."""
    shape = draw(st.sampled_from([(20,), (9, 6), (5, 4, 7)]))
    one = st.tuples(st.tuples(*(st.integers(0, dim - 1) for dim in shape)), st.integers(1, 20))
    return shape, draw(st.lists(one, min_size=1, max_size=4))


@settings(max_examples=25, deadline=None)
@given(changes())
def test_a_diff_tells_the_chunks_that_changed(
    tmp_path_factory: pytest.TempPathFactory, case: tuple[tuple[int, ...], Any]
) -> None:
    shape, steps = case
    data = [numbers(*shape)]
    for where, rows in steps:
        changed = np.zeros((rows, *shape[1:]), np.int64)
        changed[: len(data[-1])] = data[-1][:rows]
        if where[0] < rows:
            changed[where] += 1
        data.append(changed)
    path = tmp_path_factory.mktemp("diff") / "v.h5"
    with h5py.File(path, "w") as file:
        writer = Writer(file)
        for number, one in enumerate(data):
            writer.commit(f"r{number}", {"g/d": one})
    listed = multitables.versions(path)
    for old in range(len(data)):
        for new in range(len(data)):
            changed_rows = np.zeros(max(len(data[old]), len(data[new])), bool)
            for rows in listed.diff("g/d", old, new):
                assert not changed_rows[rows].any()
                changed_rows[rows] = True
            np.testing.assert_array_equal(changed_rows, differing(data[old], data[new]))


def differing(old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Rows of chunks of 4 rows that differ, as far as the longer array has them."""
    length = max(len(old), len(new))
    rows = np.zeros(length, bool)
    for begin in range(0, length, 4):
        here = slice(begin, begin + 4)
        has = [len(one[here]) for one in (old, new)]
        # A chunk that is fill values only is not stored: just the rows that one lacks differ.
        is_fill = not old[here].any() and not new[here].any()
        if not is_fill and not np.array_equal(old[here], new[here]):
            rows[here] = True
        rows[begin + min(has) : begin + max(has)] = True
    return rows


def test_diffs_of_other_shapes_and_types(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        writer = Writer(file)
        writer.commit("a", {"d": numbers(9, 4)})
        writer.commit("b", {"d": numbers(7, 5)})
        writer.commit("c", {"d": numbers(7, 5)})
        writer.commit("e")
        writer.commit("f")
        writer.group["f/d"] = numbers(4)
        writer.group["f"].create_group("g")
        writer.group.create_dataset("e/d", (7, 5), np.int64, chunks=(4, 4))
    listed = multitables.versions(tmp_path / "v.h5")
    assert listed.diff("d", "a", "b") == [slice(0, 9)]
    assert listed.diff("d", "b", "c") == []
    assert listed.diff("d", "c", "e") == [slice(0, 7)]  # never written, so not virtual
    with pytest.raises(multitables.MissingDatasetError, match=r"no such dataset: .*/a/x"):
        listed.diff("x", "a", "b")
    assert listed.diff("d", "a", "f") == [slice(0, 9)]
    assert listed.diff("d", "f", "f") == []
    with pytest.raises(multitables.UnsupportedDatasetError, match="is a group"):
        listed.diff("g", "f", "f")
