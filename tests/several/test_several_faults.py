"""What is wrong with one of several files.

1. An error names the file that is at fault, and what there is in place of what was expected.
2. With `skip_damaged` a run goes on behind a damaged chunk of any file, also where files are put
   together of parts, as virtual datasets are.
"""

from __future__ import annotations

import os
import tempfile
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import several_files
from hypothesis import given, settings
from hypothesis import strategies as st
from several_files import COLUMNS, Part

import multitables
from _multitables.parent.batches.damage import Damage
from multitables import CorruptChunkError, Streamer, UnsupportedDatasetError

#: Rows of files that are one table, and of files that are put together of parts.
WHOLE, PARTS = [16, 24, 16, 24], [13, 24, 19, 24]
BOTH = pytest.mark.parametrize("rows", [WHOLE, PARTS], ids=["whole", "parts"])


def drain(streamer: Streamer, **options: Any) -> None:
    with streamer.get_queue("/x", n_procs=1, remainder=True, **options) as queue:
        for guard in queue:
            with guard:
                pass


@BOTH
def test_a_damaged_chunk_names_its_file(tmp_path: Path, rows: list[int]) -> None:
    names = several_files.write(tmp_path, [Part(n) for n in rows])
    at = several_files.damage(names[2], "/x", (8, 3))
    begin = sum(rows[:2]) + 8
    with pytest.raises(CorruptChunkError) as caught:
        drain(Streamer(names))
    error = caught.value
    assert (error.path, error.chunk_offset) == ("/x", (8, 3))
    assert error.values["filename"] == names[2]
    assert f"'/x' in {names[2]!r}, chunk (8, 3), file bytes {at}:" in str(error)
    first, last = error.values["rows"]
    assert first <= begin < last


@BOTH
@pytest.mark.parametrize("shuffle", [None, "chunks", "window", "full"])
def test_a_run_goes_on_behind_damage(tmp_path: Path, rows: list[int], shuffle: Any) -> None:
    names = several_files.write(tmp_path, [Part(n) for n in rows])
    for number, chunk in ((0, (8, 0)), (2, (8, 3)), (3, (0, 0))):
        several_files.damage(names[number], "/x", chunk)
    begins = np.cumsum([0, *rows])
    lost = [(8, min(16, rows[0]))]
    lost += [(begins[2] + 8, begins[2] + 16), (begins[3], begins[3] + 8)]
    gone = {row for begin, end in lost for row in range(begin, end)}
    streamer = Streamer(names)
    with streamer.get_batches(
        {"x": "/x", "y": "/y"}, 10, shuffle=shuffle, epochs=2, n_procs=2, skip_damaged=True
    ) as batches:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = [(batch["x"].copy(), batch["y"].copy()) for batch in batches]
        order = np.concatenate([batches.order(epoch) for epoch in range(2)])
        places = sorted((e.values["filename"], e.chunk_offset) for e in batches.damage)
    assert places == [(names[0], (8, 0)), (names[2], (8, 3)), (names[3], (0, 0))]
    assert sorted(one.message.rows for one in told) == lost  # type: ignore[union-attr]
    kept = np.array([row for row in order if row not in gone])
    np.testing.assert_array_equal(np.concatenate([y for _, y in found]), -kept)
    x = np.concatenate([x for x, _ in found])
    np.testing.assert_array_equal(x, kept[:, None] * COLUMNS + np.arange(COLUMNS))


@BOTH
def test_a_file_that_is_listed_twice_is_damaged_twice(tmp_path: Path, rows: list[int]) -> None:
    names = several_files.write(tmp_path, [Part(n) for n in rows])
    several_files.damage(names[1], "/x", (16, 0))
    names.append(names[1])
    with Streamer(names).get_batches("/x", 10, n_procs=1, skip_damaged=True) as batches:
        with pytest.warns(multitables.CorruptChunkWarning, match="Some of rows") as told:
            found = [row for batch in batches for row in (batch[:, 0] // COLUMNS).tolist()]
        assert len(told) == len(batches.damage) == 1
    begin = rows[0] + 16
    lost = set(range(begin, begin + 8))
    everything = [*range(sum(rows)), *range(rows[0], rows[0] + rows[1])]
    assert found == [row for row in everything if row not in lost]


@settings(deadline=None, max_examples=40)
@given(data=st.data())
@pytest.mark.filterwarnings("ignore::multitables.CorruptChunkWarning")
def test_virtual_datasets_of_parts_lose_the_rows_of_a_chunk(data: st.DataObject) -> None:
    """Mappings with steps, along either axis and beside each other."""
    with tempfile.TemporaryDirectory() as folder:
        names = several_files.write(Path(folder), [Part(30), Part(30)])
        source, chunk = data.draw(st.integers(0, 1)), data.draw(st.sampled_from([0, 8, 16, 24]))
        virtual, shown = np.zeros((30, 10), "<i4"), {}
        layout = h5py.VirtualLayout(virtual.shape, "<i4")
        step, first = data.draw(st.integers(1, 3)), data.draw(st.integers(0, 3))
        kind = data.draw(st.sampled_from(["rows", "beside", "steps", "across"]))
        sources = [h5py.VirtualSource(name, "x", (30, COLUMNS)) for name in names]
        cuts: dict[str, list[tuple[Any, Any]]] = {
            "rows": [(np.s_[:13, :5], np.s_[first : first + 13]), (np.s_[13:30, :5], np.s_[:17])],
            "beside": [(np.s_[:25, :5], np.s_[first : first + 25]), (np.s_[:30, 5:], np.s_[:30])],
            "steps": [
                (np.s_[: 9 * step : step, :5], np.s_[first : first + 9]),
                (np.s_[20:30, 5:], np.s_[: 10 * step : step]),
            ],
            "across": [(np.s_[3, :10], np.s_[first : first + 10, 2]), (np.s_[4:9, 5:], np.s_[4:9])],
        }
        for number, (to, of) in enumerate(cuts[kind]):
            layout[to] = sources[number][of]
            shown[number] = to, of
        path = os.path.join(folder, "virtual.h5")
        with h5py.File(path, "w") as file:
            file.create_virtual_dataset("v", layout)
        with h5py.File(path) as file:
            expected = file["v"][()]
        of_rows = np.zeros((30, COLUMNS), bool)
        of_rows[chunk : chunk + 8] = True
        to, of = shown[source]
        is_lost = np.zeros(virtual.shape, bool)
        is_lost[to] = of_rows[of]
        lost = is_lost.any(axis=1)
        for column in (0, 3):
            several_files.damage(names[source], "/x", (chunk, column))
        with Streamer(path).get_batches("/v", 7, n_procs=1, skip_damaged=True) as batches:
            found = list(batches)
        np.testing.assert_array_equal(np.concatenate([expected[:0], *found]), expected[~lost])


@BOTH
@pytest.mark.parametrize("changed", [0, 3])
@pytest.mark.parametrize("driver", [{}, {"DRIVER": "H5FD_DIRECT"}], ids=["buffered", "direct"])
def test_a_file_that_changes_is_named(
    tmp_path: Path, rows: list[int], changed: int, driver: dict[str, Any]
) -> None:
    names = several_files.write(tmp_path, [Part(n) for n in rows])
    with Streamer(names, **driver).get_batches("/x", 10, n_procs=1) as batches:
        assert len(batches.order(0)) == sum(rows)  # the files are indexed
        os.utime(names[changed], ns=(1, 1))
        with pytest.raises(multitables.FileChangedError) as caught:
            list(batches)
    assert caught.value.values["filename"] == names[changed]


@BOTH
def test_a_file_that_vanishes_is_named(tmp_path: Path, rows: list[int]) -> None:
    names = several_files.write(tmp_path, [Part(n) for n in rows])
    with Streamer(names).get_batches("/x", 10, n_procs=1) as batches:
        assert len(batches.order(0)) == sum(rows)
        os.remove(names[-1])
        with pytest.raises(multitables.MissingFileError, match="was removed") as caught:
            list(batches)
    assert names[-1] in str(caught.value)


def test_what_is_missing_is_named(tmp_path: Path) -> None:
    names = several_files.write(tmp_path, [Part(8), Part(8), Part(8)])
    with h5py.File(names[1], "a") as file:
        del file["y"]
    with pytest.raises(multitables.MissingDatasetError, match="'/y'") as missing:
        Streamer(names).get_queue(["/x", "/y"])
    assert missing.value.values["filename"] == names[1]
    os.remove(names[2])
    with pytest.raises(multitables.MissingFileError) as no_file:
        Streamer(names).get_queue("/x")
    assert no_file.value.values["filename"] == names[2]
    Path(names[1]).write_bytes(b"something else")
    with pytest.raises(multitables.FileOpenError, match="not an HDF5 file") as no_hdf5:
        Streamer(names).get_queue("/x")
    assert no_hdf5.value.values["filename"] == names[1]


@pytest.mark.parametrize(
    ("other", "what"),
    [
        (np.zeros((8, COLUMNS), "<i8"), "dtype differs .expected int32, got int64"),
        (np.zeros((8, COLUMNS), ">i4"), "dtype differs .expected int32, got >i4"),
        (np.zeros((8, 4), "<i4"), r"shape of a row differs .expected \(5,\), got \(4,\)"),
        (np.zeros(0, "<f4"), "dtype differs .expected int32, got float32"),
        (np.zeros(8, ("<i4", 5)), "shape of a row|layout of an element"),
    ],
)
def test_rows_that_differ_are_refused(tmp_path: Path, other: np.ndarray, what: str) -> None:
    names = several_files.write(tmp_path, [Part(8), Part(0), Part(8)])
    with h5py.File(names[2], "a") as file:
        del file["x"]
        file["x"] = other
    if other.dtype == "<i4" and other.shape == (8, COLUMNS):
        with h5py.File(names[2], "a") as file:
            del file["x"]
            file.create_dataset("x", (8,), np.dtype(("<i4", 5)))
    with pytest.raises(UnsupportedDatasetError, match=what) as caught:
        Streamer(names).get_queue("/x")
    assert caught.value.values["filename"] == names[2]
    assert f"cannot follow that in {names[0]!r}" in str(caught.value)


def test_a_column_that_lies_elsewhere_is_refused(tmp_path: Path) -> None:
    names = []
    for number, fields in enumerate(["ab", "ba"]):
        names.append(str(tmp_path / f"{number}.h5"))
        with h5py.File(names[-1], "w") as file:
            file["t"] = np.zeros(4, [(name, "<i4") for name in fields])
    expected = r"layout of an element.*expected bytes 0:4 of 8 in \(\), got bytes 4:8"
    with pytest.raises(UnsupportedDatasetError, match=expected):
        Streamer(names).get_queue("/t", field="a")


def test_datasets_that_differ_in_length_in_one_file(tmp_path: Path) -> None:
    names = []
    for number, (x, y) in enumerate([(4, 4), (3, 5), (5, 3)]):  # as many in all
        names.append(str(tmp_path / f"{number}.h5"))
        with h5py.File(names[-1], "w") as file:
            file["g/x"], file["g/y"] = np.zeros(x), np.zeros(y)
    with pytest.raises(UnsupportedDatasetError, match="differ in length") as caught:
        Streamer(names).get_queue(["/g/x", "/g/y"])
    assert f"{names[1]!r}: '/g/x' has 3 rows, '/g/y' has 5" in str(caught.value)
    with pytest.raises(UnsupportedDatasetError, match="differ in length"):
        Streamer(names).get_columns("g", index="x")


@pytest.mark.usefixtures("few_filters")
def test_what_a_library_reads_is_refused(tmp_path: Path) -> None:
    names = several_files.write(tmp_path, [Part(8), Part(8)])
    with h5py.File(names[1], "a") as file:
        x = file["x"][()]
        del file["x"]
        file.create_dataset("x", data=x, chunks=(8, 5), scaleoffset=0)
    with pytest.raises(UnsupportedDatasetError, match=r"filter 6 .* is not native.* one by one"):
        Streamer(names).get_queue("/x")
    for name in names:
        with h5py.File(name, "a") as file:
            file.create_dataset("begins", data=[0, 1, 2])
    path = multitables.Ragged("/begins", "/x")
    with pytest.raises(UnsupportedDatasetError, match="cannot be taken from several files"):
        Streamer(names).get_queue(path)
    with pytest.raises(UnsupportedDatasetError, match="cannot be taken from several files"):
        next(iter(Streamer(names).get_batches(path, 1)))


def test_damage_that_cannot_be_left_out_ends_the_run() -> None:
    """A stream that begins again would meet it again, and again."""
    error = CorruptChunkError("damage", filename="a.h5", path="/x", chunk_offset=(0,))
    with pytest.raises(CorruptChunkError, match="damage"):
        Damage().leave_out(error, [])
