"""`TorchDataset` over a collection: items as tensors, shared out among ranks and processes.

1. The oracle is h5py. Each item comes once, from any rank or process.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import shot_files
from loaders import FORKS, loader
from shot_files import PATTERN, SHOTS

import multitables
from multitables import Streamer

torch = pytest.importorskip("torch")

pytestmark = FORKS
KINDS = {name: shot_files.KINDS[name] for name in ("plain", "gzip", "image", "big_endian")}


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shots") / "shots.h5"
    return shot_files.write(path, kinds=KINDS, libver="earliest")


def named(item: multitables.Item) -> dict[str, Any]:
    time = {name: axes[0] for name, axes in item.scales.items()}
    return {"key": item.key, "time": time, **item}


def same_items(came: list[Any], path: Path, times: int = 1) -> None:
    assert sorted(item["key"] for item in came) == sorted([*map(str, SHOTS)] * times)
    with h5py.File(path) as file:
        for item in came:
            group = file["shots"][item["key"]]["signals"]
            for name in KINDS:
                assert isinstance(item[name], torch.Tensor)
                np.testing.assert_array_equal(item[name].numpy(), group[name][()])
                (time,) = item["time"][name].values()
                np.testing.assert_array_equal(time.numpy(), group[name].dims[0][0][()])


def collection(path: Path, **options: Any) -> multitables.Collection:
    return Streamer(path).get_collection(PATTERN, n_procs=1, **options)


def test_items_are_tensors(shots: Path) -> None:
    dataset = multitables.TorchDataset(collection(shots, epochs=2), transform=named)
    same_items(list(dataset), shots, 2)
    dataset.close()
    plain = multitables.TorchDataset(collection(shots, order="key"))
    first = next(iter(torch.utils.data.DataLoader(plain, batch_size=None)))
    assert set(first) == set(KINDS)
    plain.close()


def test_what_is_no_array_stays_as_it_is(tmp_path: Path) -> None:
    kinds = {**shot_files.LONE}
    del kinds["record"]
    path = shot_files.write(tmp_path / "lone.h5", shots=(9,), kinds=kinds)
    dataset = multitables.TorchDataset(collection(path))
    (item,) = loader(dataset, 1)
    with h5py.File(path) as file:
        signals = file["shots/9/signals"]
        assert set(item) == set(signals)
        assert item["text"] == signals["text"][()]
        assert item["null"] == multitables.Empty("f4")
        np.testing.assert_array_equal(item["numbers"].numpy(), signals["numbers"][()])
    dataset.close()
    path = shot_files.write(tmp_path / "record.h5", kinds={"record": shot_files.LONE["record"]})
    with pytest.raises(multitables.UnsupportedDatasetError, match="torch has no dtype"):
        next(iter(multitables.TorchDataset(collection(path))))


@pytest.mark.parametrize("num_workers", [0, 1, 3])
def test_processes_of_a_loader_share_the_items(shots: Path, num_workers: int) -> None:
    dataset = multitables.TorchDataset(collection(shots), transform=named)
    batches = loader(dataset, num_workers)
    orders = []
    for _ in range(2):
        came = list(batches)
        same_items(came, shots)
        orders.append([item["key"] for item in came])
    dataset.close()
    assert len(dataset) == len(SHOTS)
    assert orders[0] != orders[1]
    dataset.close()


def test_ranks_share_the_items(shots: Path) -> None:
    came = []
    for rank in range(3):
        items = collection(shots)
        dataset = multitables.TorchDataset(items, transform=named, rank=rank, world_size=3)
        came += list(dataset)
        dataset.close()
    same_items(came, shots)
    own = multitables.TorchDataset(collection(shots, rank=1, world_size=5))
    assert len(own) == 1
    own.close()


def test_a_state_goes_on(shots: Path) -> None:
    dataset = multitables.TorchDataset(collection(shots), transform=named)
    iterator = iter(dataset)
    came = [next(iterator), next(iterator)]
    state = pickle.loads(pickle.dumps(dataset.state_dict()))
    del iterator
    dataset.close()
    again = pickle.loads(pickle.dumps(multitables.TorchDataset(collection(shots), transform=named)))
    again.load_state_dict(state)
    came += list(again)
    same_items(came, shots)
    again.close()


def test_what_only_batches_have_is_refused(shots: Path) -> None:
    for option in ({"path": "/x"}, {"batch_size": 3}, {"pin_memory": True}, {"shuffle": True}):
        with pytest.raises(multitables.OptionsError, match="cannot be given with a Collection"):
            multitables.TorchDataset(collection(shots), **option)
    with pytest.raises(TypeError, match="takes a file, a path and a batch_size, or a collection"):
        multitables.TorchDataset(shots)


@pytest.mark.parametrize("num_workers", [0, 2])
def test_batches_of_items_and_columns_are_tensors(shots: Path, num_workers: int) -> None:
    batches = collection(shots, seed=1).to_batches(2, ["plain", "image"])
    dataset = multitables.TorchDataset(batches)
    came = list(loader(dataset, num_workers))
    assert sum(len(batch["plain"]) for batch in came) == len(SHOTS)
    with h5py.File(shots) as file:
        lengths = {
            name: [len(file[f"shots/{key}/signals/{name}"]) for key in SHOTS] for name in KINDS
        }
    for name in ("plain", "image"):
        assert max(batch[name].shape[1] for batch in came) == max(lengths[name])
    assert num_workers or len(came) == len(dataset)
    dataset.close()
    with h5py.File(shots.with_name("columns.h5"), "w") as file:
        file["c/key"], file["c/value"] = np.arange(600) // 7, np.arange(600)
    columns = Streamer(shots.with_name("columns.h5")).get_columns(
        "/c", index="key", entries_per_block=50, n_procs=1
    )
    dataset = multitables.TorchDataset(columns)
    for _ in range(2):
        values = torch.cat([block["value"] for block in loader(dataset, num_workers)])
        assert sorted(values.tolist()) == list(range(600))
    dataset.close()


def test_a_batch_loader_of_the_program_is_tensors(shots: Path) -> None:
    with Streamer(shots) as streamer:
        batches = streamer.get_batches(f"/shots/{SHOTS[0]}/signals/plain", 64, n_procs=1)
        dataset = pickle.loads(pickle.dumps(multitables.TorchDataset(batches)))
        rows = torch.cat(list(dataset))
        with h5py.File(shots) as file:
            np.testing.assert_array_equal(rows, file[f"shots/{SHOTS[0]}/signals/plain"][()])
        dataset.close()
        batches.close()


def test_a_mixture_is_tensors(shots: Path) -> None:
    def mixture() -> multitables.Mixture:
        return multitables.Mixture([(collection(shots), 1), (collection(shots), 2)], draws=9)

    dataset = multitables.TorchDataset(mixture())
    loader = torch.utils.data.DataLoader(dataset, batch_size=None)
    first = [item["plain"].tolist() for item in loader]
    assert len(first) == len(dataset) == 9
    state = dataset.state_dict()
    later = [item["plain"].tolist() for item in loader]
    dataset.close()
    with mixture() as again:
        resumed = multitables.TorchDataset(again)
        resumed.load_state_dict(state)
        assert [item["plain"].tolist() for item in resumed] == later
    with pytest.raises(multitables.OptionsError, match="cannot be shared by 2 processes"):
        mixture()._shared_out(None, (0, 2), False)
