"""Items with texts, sequences and other objects: as streams and handles give them.

1. Rows of any length are a `RaggedBlock` of the rows that h5py reads; other objects are the arrays
   of `multitables.open`.
2. A damaged one can be left out as any dataset, and is raised in its own item.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import shot_files
import tables
from ragged_files import same_rows
from shot_files import PATTERN

import multitables
from multitables import CorruptChunkError, RaggedBlock, Streamer

KINDS = {**shot_files.RAGGED, **shot_files.OBJECTS, "plain": shot_files.KINDS["plain"]}
N_SHOTS = len(shot_files.SHOTS)


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shot_files.write(tmp_path_factory.mktemp("texts") / "texts.h5", kinds=KINDS)


def same_objects(item: Any, key: str, by: int, path: Path) -> None:
    """Fail unless an item has what h5py and `multitables.open` read."""
    with h5py.File(path) as file, multitables.open(path) as handles:
        for name, got in item.items():
            shot, signal_name = (key, name) if by == 0 else (name, key)
            at = f"shots/{shot}/signals/{signal_name}"
            if signal_name in shot_files.RAGGED:
                assert isinstance(got, RaggedBlock)
                assert got.is_text == ("texts" in signal_name or signal_name == "unwritten")
                same_rows(got.rows(), list(file[at][()]))
                continue
            expected = handles[at][()]
            assert type(got) is type(expected)
            assert got.dtype == expected.dtype
            np.testing.assert_equal(got.tolist(), expected.tolist())


@pytest.mark.parametrize("by", [0, 1])
@pytest.mark.parametrize("driver", [{}, {"DRIVER": "H5FD_DIRECT"}, {"trusted": False}])
def test_objects_of_every_kind(texts: Path, by: int, driver: dict[str, Any]) -> None:
    with Streamer(texts, **driver) as streamer:
        items = streamer.get_collection(PATTERN, by, n_procs=2, epochs=2, order="random")
        came = []
        for item in items:
            came.append(item.key)
            if len(came) == 3:
                state = items.state_dict()
            assert set(item) == set(items.names(item.key))
            same_objects(item, item.key, by, texts)
            same_objects(pickle.loads(pickle.dumps(item.copy())), item.key, by, texts)
        assert len(came) == 2 * len(items.keys)
        items.load_state_dict(state)
        assert [item.key for item in items] == came[3:]


def test_ranks_share_items_of_texts(texts: Path) -> None:
    came = []
    for rank in range(2):
        items = Streamer(texts).get_collection(PATTERN, n_procs=1, rank=rank, world_size=2)
        for item in items:
            same_objects(item, item.key, 0, texts)
            came.append(item.key)
    assert len(came) == len(set(came)) == N_SHOTS


def test_vlarrays(tmp_path: Path) -> None:
    rows: list[list[Any]] = [[1, 2], [], [3]]
    with tables.open_file(tmp_path / "a.h5", "w") as file:
        made = file.create_vlarray("/a", "x", tables.Int32Atom(), createparents=True)
        objects = file.create_vlarray("/a", "o", tables.ObjectAtom())
        for row in rows:
            made.append(row)
            objects.append(row)
    (item,) = Streamer(tmp_path / "a.h5").get_collection("/*/*", n_procs=1)
    assert [row.tolist() for row in item["x"]] == rows
    with h5py.File(tmp_path / "a.h5") as stored:
        same_rows(list(item["o"]), list(stored["a/o"][()]))


def test_some_files_have_texts(texts: Path, tmp_path: Path) -> None:
    other = shot_files.write(tmp_path / "other.h5", (1, 2), KINDS)
    items = Streamer([texts, other]).get_collection(PATTERN, n_procs=2)
    for item in items:
        same_objects(item, item.key, 0, other if item.key in "12" else texts)
    assert len(items.keys) == N_SHOTS + 2


@pytest.mark.parametrize("name", ["texts", "square"])
def test_texts_are_not_padded(texts: Path, name: str) -> None:
    items = Streamer(texts).get_collection(PATTERN, n_procs=1)
    if name == "square":
        (batch,) = items.to_batches(N_SHOTS, [name], pad=None)
        assert batch[name].shape == (N_SHOTS, 2, 2)
        return
    with pytest.raises(multitables.UnsupportedDatasetError, match="exclude="):
        list(items.to_batches(2, [name]))


@pytest.mark.parametrize("name", ["stored_texts", "stored_square"])
def test_damaged_texts(tmp_path: Path, name: str) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for shot in "abcd":
            stored = {"dtype": h5py.string_dtype(), "compression": "gzip"}
            file.create_dataset(f"{shot}/stored_texts", data=["one", "two"], chunks=(1,), **stored)
            square = np.array([["one", "two"]], object)
            file.create_dataset(f"{shot}/stored_square", data=square, chunks=(1, 1), **stored)
            file[f"{shot}/x"] = np.arange(5)
    offset = shot_files.hurt(path, f"/c/{name}")
    with pytest.raises(CorruptChunkError, match=f"/c/{name}") as caught:
        list(Streamer(path).get_collection("/*/*", order="key", n_procs=1))
    assert caught.value.chunk_offset == offset
    items = Streamer(path).get_collection(
        "/*/*", order="key", n_procs=1, epochs=2, skip_damaged=True
    )
    with pytest.warns(multitables.CorruptChunkWarning, match=f"/c/{name}") as warned:
        found = [(item.key, sorted(item), list(item.damaged)) for item in items]
    assert len(warned) == 1
    whole = ["stored_square", "stored_texts", "x"]
    expected = [(key, whole, []) for key in "abcd"]
    expected[2] = ("c", sorted(set(whole) - {name}), [name])
    assert found == 2 * expected


def test_an_error_comes_with_its_item(tmp_path: Path) -> None:
    """Readers are ahead of the user; the items before the damaged one come all the same."""
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        for shot in "abc":
            file.create_dataset(f"{shot}/t", data=["one", "two"], dtype=h5py.string_dtype())
        at = file["c/t"].id.get_offset()
    with path.open("r+b") as raw:
        raw.seek(at)
        raw.write(b"\xff\xff\xff\x7f")  # the length of the first text
    items = iter(Streamer(path).get_collection("/*/*", order="key", n_procs=1))
    assert [next(items).key, next(items).key] == ["a", "b"]
    with pytest.raises(multitables.CorruptFileError, match="longer than the file"):
        next(items)
