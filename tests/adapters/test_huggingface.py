"""`to_huggingface`, with Hugging Face's datasets itself."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from loaders import FORKS, each_once, loader, rows_of

datasets = pytest.importorskip("datasets")
torch = pytest.importorskip("torch")

from datasets.distributed import split_dataset_by_node  # noqa: E402 - they may be missing

import multitables  # noqa: E402

pytestmark = FORKS
ROWS = 500


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Columns of each kind that the library has a feature for."""
    rng = np.random.default_rng(3)
    path = tmp_path_factory.mktemp("many") / "many.h5"
    with h5py.File(path, "w") as file:
        file["id"] = np.arange(ROWS)
        file.create_dataset("image", data=rng.integers(0, 255, (ROWS, 6, 7, 3), "u1"), chunks=True)
        file["big"] = rng.random((ROWS, 4)).astype(">f4")
        file["half"] = rng.random((ROWS, 3)).astype("f2")
        file["flag"] = rng.random(ROWS) > 0.5
        file["matrix"] = rng.random((ROWS, 2, 3)) > 0.5
        file["text"] = np.array([b"t%d" % i for i in range(ROWS)])
        file["table"] = np.zeros(ROWS, [("a", "i4")])
        file["complex"] = np.zeros(ROWS, "c16")
        file["strings"] = [f"s{i}" for i in range(ROWS)]
    return path


def rows(path: Path, **options: Any) -> Any:
    return multitables.to_huggingface(path, "/id", **{"shuffle": True, "batch_size": 64, **options})


def ids(found: Any) -> list[int]:
    return [int(one["id"]) for one in found]


def once(found: list[int]) -> bool:
    return each_once(np.array(found), ROWS)


def test_rows_are_those_of_h5py(many: Path) -> None:
    names = ["id", "image", "big", "half", "flag", "matrix", "text"]
    made = multitables.to_huggingface(many, names)
    assert isinstance(made, datasets.IterableDataset)
    assert {name: str(made.features[name]) for name in ("image", "big", "text")} == {
        "image": "Array3D(shape=(6, 7, 3), dtype='uint8')",
        "big": "List(Value('float32'), length=4)",
        "text": "Value('binary')",
    }
    with h5py.File(many) as file:
        wanted = {name: file[name][:] for name in names}
    for at, (plain, arrays) in enumerate(zip(made, made.with_format("numpy"), strict=True)):
        for name in names:
            assert np.array_equal(plain[name], wanted[name][at]), name
            assert np.array_equal(arrays[name], wanted[name][at]), name


def test_columns_have_the_keys_of_a_dict(many: Path) -> None:
    made = multitables.to_huggingface(many, {"number": "/id", "picture": "/image"})
    assert made.column_names == ["number", "picture"]
    with pytest.raises(multitables.OptionsError, match="different names"):
        multitables.to_huggingface(many, ("/id", "id"))


def test_an_epoch_has_each_row_once_in_an_order_of_its_own(many: Path) -> None:
    made = rows(many)
    first = ids(made)
    assert first == list(multitables.Streamer(many).get_batches("/id", 64, shuffle=True).order(0))
    made.set_epoch(1)
    second = ids(made)
    assert once(second)
    assert second != first
    assert second == ids(made)
    assert once(ids(made.shuffle(seed=3, buffer_size=50)))
    assert ids(multitables.to_huggingface(many, "/id")) == list(range(ROWS))


@pytest.mark.parametrize("epoch", [0, 3])
def test_it_resumes_again_and_again(many: Path, epoch: int) -> None:
    made = rows(many)
    made.set_epoch(epoch)
    whole, found, state = ids(made), [], None
    for turn in (1, 63, 100, 200):
        made = rows(many)
        made.set_epoch(epoch)
        if state is not None:
            made.load_state_dict(json.loads(json.dumps(state)))
        iterator = iter(made)
        found += ids(next(iterator) for _ in range(turn))
        state = made.state_dict()
        iterator.close()
    made.load_state_dict(state)
    assert found + ids(made) == whole
    made.set_epoch(epoch + 1)
    assert once(ids(made))


def test_nothing_is_left_at_the_end(many: Path) -> None:
    made = rows(many)
    assert once(ids(made))
    made.load_state_dict(made.state_dict())
    assert ids(made) == []


@pytest.mark.parametrize("nodes", [2, 3])
def test_nodes_share_the_rows(many: Path, nodes: int) -> None:
    """Also where they do not divide the shards: then each leaves out what others have."""
    parts = [split_dataset_by_node(rows(many, num_shards=4), at, nodes) for at in range(nodes)]
    assert once([one for part in parts for one in ids(part)])


@pytest.mark.parametrize("shards", [4, 1])
def test_processes_share_the_rows(many: Path, shards: int) -> None:
    made = rows(many, num_shards=shards).with_format("torch")
    nodes = [split_dataset_by_node(made, at, 2) for at in range(2)]
    found = [list(loader(node, 2, batch_size=None)) for node in nodes]
    assert once([int(row["id"]) for part in found for row in part])


@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_a_loader_with_processes_resumes(many: Path) -> None:
    pytest.importorskip("torchdata")
    made = rows(many, num_shards=2).with_format("torch")
    batches = loader(made, 2, "StatefulDataLoader", batch_size=10)
    iterator = iter(batches)
    head = [next(iterator)["id"] for _ in range(7)]
    state = batches.state_dict()
    rest = torch.cat([batch["id"] for batch in iterator])
    assert once(torch.cat([*head, rest]).tolist())
    again = loader(made, 2, "StatefulDataLoader", batch_size=10)
    again.load_state_dict(state)
    assert torch.equal(torch.cat([batch["id"] for batch in again]), rest)
    del iterator, batches, again


def test_a_shuffle_keeps_more_than_the_ring_has(numbered: Path) -> None:
    made = multitables.to_huggingface(numbered, "/rows", batch_size=50, n_procs=1, read_ahead=2)
    mixed = made.shuffle(seed=1, buffer_size=4000).with_format("numpy")
    assert each_once(rows_of(one["rows"][None] for one in mixed))


def test_a_copy_and_a_map(many: Path) -> None:
    made = pickle.loads(pickle.dumps(rows(many)))
    assert ids(made) == ids(rows(many))
    assert [one["next"] for one in made.map(lambda one: {"next": one["id"] + 1}).take(3)] == [
        one + 1 for one in ids(made.take(3))
    ]


def test_what_is_refused(many: Path, tmp_path: Path) -> None:
    with pytest.raises(multitables.MissingFileError):
        multitables.to_huggingface(tmp_path / "none.h5", "/id")
    with pytest.raises(multitables.MissingDatasetError):
        multitables.to_huggingface(many, "/none")
    for name in ("table", "complex", "strings"):
        with pytest.raises(multitables.UnsupportedDatasetError, match="datasets has no dtype"):
            multitables.to_huggingface(many, name)
    for option in ({"epochs": 2}, {"num_shards": 0}, {"dtype": "bfloat16"}):
        with pytest.raises(multitables.OptionsError, match=next(iter(option))):
            rows(many, **option)
    other = rows(many, batch_size=32, seed=4)
    made = rows(many)
    list(made)
    other.load_state_dict(made.state_dict())
    with pytest.raises(multitables.OptionsError):
        list(other)


def test_damage_is_told(tmp_path: Path) -> None:
    from loaders import damaged

    made = multitables.to_huggingface(damaged(tmp_path / "damaged.h5"), "/rows")
    with pytest.raises(multitables.CorruptChunkError):
        list(made)
