"""Datasets of one file as one: `Joined`, by names and by patterns.

1. The oracle is h5py's arrays, one behind the other. test_several_files.py draws layouts of both.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import several_files

import multitables
from multitables import Joined, OptionsError, Ragged, Streamer, UnsupportedDatasetError


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """Runs 9, 10 and 11 of images with labels and a table, beside what only looks like them."""
    path, begin = tmp_path / "runs.h5", 0
    with h5py.File(path, "w") as file:
        for run, rows in ((9, 16), (10, 24), (11, 7)):
            images = np.arange(begin, begin + rows)[:, None] * np.ones(5)
            group = file.create_group(f"runs/{run}")
            group.create_dataset(
                "images", data=images, chunks=(8, 5), maxshape=(None, 5), compression="gzip"
            )
            group["labels"] = np.arange(begin, begin + rows)
            table = np.zeros(rows, [("n", "i4"), ("t", "f8")])
            table["n"] = group["labels"]
            group["table"] = table
            group["texts"] = [f"{number}" for number in range(begin, begin + rows)]
            begin += rows
        file["runs/empty/labels"] = np.zeros(0, int)
        file.create_group("runs/12/images")
        file["labels"] = np.arange(begin)
        file["runs/all*"] = np.arange(3)
    return path


def rows_of(path: Path, named: Any, **options: Any) -> list[Any]:
    return [row.tolist() for row in Streamer(path).get_generator(named, n_procs=1, **options)]


def test_rows_come_in_the_order_of_names(runs: Path) -> None:
    assert rows_of(runs, Joined("/runs/*/labels")) == list(range(47))
    backwards = Joined(["/runs/11/labels", "/runs/9/labels", "/runs/10/labels"])
    assert rows_of(runs, backwards) == [*range(40, 47), *range(16), *range(16, 40)]
    assert rows_of(runs, Joined(["/runs/9/labels"] * 2)) == [*range(16)] * 2
    assert rows_of(runs, Joined(["runs/1?/labels", "/runs/9/labels"])) == [
        *range(16, 47),
        *range(16),
    ]
    assert rows_of(runs, Joined("/runs/all*")) == [0, 1, 2]  # as it is written
    assert rows_of(runs, Joined("/runs/*/table"), field="n") == list(range(47))
    images = rows_of(runs, Joined("/runs/*/images"), inner=np.s_[::2])
    assert images == [[number] * 3 for number in range(47)]


def test_beside_datasets_that_are_not_joined(runs: Path) -> None:
    data = {
        "images": Joined("/runs/*/images"),
        "labels": "/labels",
        "run": Joined("/runs/*/labels"),
    }
    for shuffle in (None, "chunks", "window", "full"):
        with Streamer(runs).get_batches(data, 5, shuffle=shuffle, n_procs=2, epochs=2) as batches:
            order = np.concatenate([batches.order(0), batches.order(1)])
            got = [{name: array.copy() for name, array in batch.items()} for batch in batches]
        for name in data:
            found = np.concatenate([batch[name] for batch in got])
            np.testing.assert_array_equal(found if found.ndim == 1 else found[:, 4], order)
    with pytest.raises(UnsupportedDatasetError, match="differ in length"):
        Streamer(runs).get_queue([Joined("/runs/1*/labels"), "/labels"])


def test_a_pickled_one_is_the_same() -> None:
    joined = Joined(["/a", "/b"])
    assert pickle.loads(pickle.dumps(joined)) == joined == Joined(("/a", "/b"))
    assert len({joined, Joined(["/a", "/b"]), Joined("/a")}) == 2


@pytest.mark.parametrize("named", [[], 3, b"/a", ["/a", 3], None, [Joined("/a")]])
def test_what_cannot_be_joined_by_name(named: Any) -> None:
    with pytest.raises(OptionsError, match="path must be made of a str for each dataset"):
        Joined(named)


def test_what_cannot_be_joined(runs: Path) -> None:
    streamer = Streamer(runs)
    missing, refused = multitables.MissingDatasetError, UnsupportedDatasetError
    for named, error, match in [
        (Joined("/runs/*/none"), missing, "no 'none' in"),
        (Joined("/runs/1*"), missing, "no 'dataset' in '/runs/1"),
        (Joined("/runs/9/images/*"), multitables.MultitablesError, "/runs/9/images"),
        (Joined(["/runs/9/labels", "/none"]), missing, "'/none'"),
        (Joined(["/runs/9/labels", "/runs/9/images"]), refused, "cannot follow"),
        ([Joined("/runs/*/labels"), "/runs/9/texts"], refused, "differ in length"),
    ]:
        with pytest.raises(error, match=match):
            streamer.get_queue(named, n_procs=1)
        with pytest.raises(error, match=match):
            next(iter(streamer.get_batches(named, 2, n_procs=1)))
    for option in ({"follow": True}, {"version": ["a", "b"]}):
        with pytest.raises(OptionsError, match="cannot be streamed of joined datasets"):
            streamer.get_queue(Joined("/runs/*/labels"), **option)
    with pytest.raises(OptionsError, match="path must be"):
        multitables.Reader(runs).get_dataset(Joined("/runs/*/labels"))
    with pytest.raises(OptionsError, match="path must be"):
        Ragged(Joined("/runs/*/labels"), "/labels")  # type: ignore[arg-type]


def test_texts_beside_joined_rows(runs: Path) -> None:
    with h5py.File(runs, "a") as file:
        file["texts"] = [str(number) for number in range(47)]
    for texts in ("/texts", Joined("/runs/*/texts")):
        check_texts(runs, (Joined("/runs/*/labels"), texts))


def check_texts(runs: Path, data: Any) -> None:
    with Streamer(runs).get_batches(data, 10, shuffle="full", n_procs=1) as batches:
        for labels, texts in batches:
            assert [int(text) for text in texts.rows()] == labels.tolist()


def test_damage_names_its_dataset(runs: Path) -> None:
    with h5py.File(runs) as file:
        at = file["runs/10/images"].id.get_chunk_info(1).byte_offset
    with runs.open("r+b") as raw:
        raw.seek(at)
        raw.write(b"\xff\x5a\xa5\xff")
    images = Joined("/runs/*/images")
    with pytest.raises(multitables.CorruptChunkError, match="/runs/10/images") as caught:
        list(Streamer(runs).get_queue(images, n_procs=1))
    assert caught.value.chunk_offset == (8, 0)
    batches = Streamer(runs).get_batches(images, 8, n_procs=1, skip_damaged=True)
    with pytest.warns(multitables.CorruptChunkWarning, match="/runs/10/images"):
        found = np.concatenate([batch[:, 0].copy() for batch in batches])
    assert found.tolist() == [*range(24), *range(32, 47)]


def test_rows_of_one_file_do_not_come_with_those_of_another(tmp_path: Path) -> None:
    names = []
    for number, rows in enumerate(((3, 1), (1, 3))):
        names.append(str(tmp_path / f"{number}.h5"))
        with h5py.File(names[-1], "w") as file:
            file["a/x"], file["b/x"] = np.arange(rows[0]), np.arange(rows[1])
            file["y"] = np.arange(3 if number else 5)
    with pytest.raises(UnsupportedDatasetError, match="different numbers of datasets"):
        Streamer(names).get_queue([Joined("/*/x"), "/y"])
    assert len(rows_of(names, Joined("/*/x"))) == 8  # type: ignore[arg-type]


def test_a_title_has_one_file(tmp_path: Path) -> None:
    parts = [several_files.Part(8), several_files.Part(8)]
    name, x, _, _, _ = several_files.laid_out(tmp_path, parts, "datasets")
    with Streamer(name).get_queue(x, n_procs=1) as queue:
        assert f"(16, {several_files.COLUMNS}) in {name!r}" in repr(queue)
        assert queue.missing_files == {}
