"""`TorchDataset` in one process: tensors of the ring, epochs, resuming, what torch cannot take."""

from __future__ import annotations

import copy
import gc
import io
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import payload
import pytest
import several_files
from loaders import damaged, each_once, loader, rows_of
from naive_placing import placed
from PIL import Image as Picture
from processes import children

torch = pytest.importorskip("torch")

import multitables  # noqa: E402 - torch may be missing

BATCH = 100


def dataset(path: Path, which: Any = "/rows", **options: Any) -> Any:
    return multitables.TorchDataset(path, which, BATCH, **{"n_procs": 2, **options})


def test_batches_are_those_of_get_batches(numbered: Path) -> None:
    data = dataset(numbered, shuffle=True, seed=5)
    streamer = multitables.Streamer(numbered)
    with streamer.get_batches("/rows", BATCH, shuffle=True, seed=5) as batches:
        assert np.array_equal(rows_of(data), batches.order())
    assert len(data) == payload.ROWS // BATCH


@pytest.mark.parametrize("shuffle", [None, "chunks", "window", "full"])
def test_a_loader_gives_every_row_once(numbered: Path, shuffle: str | None) -> None:
    data = dataset(numbered, shuffle=shuffle)
    batches = loader(data)
    assert len(batches) == payload.ROWS // BATCH
    first, second = rows_of(batches), rows_of(batches)
    assert each_once(first)
    assert each_once(second)
    assert np.array_equal(first, second) == (shuffle is None)
    data.set_epoch(0)
    assert np.array_equal(rows_of(batches), first)


def test_bfloat16_is_its_type(tmp_path: Path) -> None:
    x = np.random.default_rng(0).normal(size=(50, 3)).astype("f4")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"], file["y"] = x, np.arange(50)
    for dtype in ({"/x": "bfloat16", "/y": torch.float16}, {"/x": torch.bfloat16, "/y": "f2"}):
        first, second = next(iter(dataset(tmp_path / "x.h5", ["/x", "/y"], dtype=dtype)))
        assert torch.equal(first, torch.from_numpy(x).to(torch.bfloat16))
        assert torch.equal(second, torch.arange(50, dtype=torch.float16))


@pytest.mark.filterwarnings("ignore:os.fork")  # JAX's
@pytest.mark.parametrize("num_workers", [0, 2])
def test_rows_are_placed_in_loaders(tmp_path: Path, num_workers: int) -> None:
    x = np.random.default_rng(0).integers(0, 256, (60, 6, 8, 3), "u1")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", data=x, chunks=(7, 6, 8, 3), compression="gzip")
        file["y"] = np.arange(60)
    of: dict[str, Any] = {"crop": {0: 4, 1: 5}, "flip": (1,), "channels": "first"}
    data = multitables.TorchDataset(
        tmp_path / "x.h5", {"x": "/x", "again": "/x", "y": "/y"}, 10, shuffle=True, seed=3,
        crop=(4, 5), flip="horizontal", channels="first", dtype={"/x": "bfloat16"},
        into={"both": ("x", "again")},
    )  # fmt: skip
    batches = loader(pickle.loads(pickle.dumps(data)), num_workers)
    for epoch in range(2):
        seen = []
        for batch in batches:
            assert batch["both"].dtype == torch.bfloat16
            for one, row in zip(batch["both"], batch["y"].tolist(), strict=True):
                wanted = torch.from_numpy(placed(x[row], 3, epoch, row, **of).copy())
                assert torch.equal(one, torch.stack([wanted, wanted]).to(torch.bfloat16))
                seen.append(row)
        assert sorted(seen) == list(range(60))


def test_pictures_are_decoded_in_loaders(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (30, 5, 7, 3), "u1")
    with h5py.File(tmp_path / "x.h5", "w") as file:
        x = file.create_dataset("x", (30,), h5py.vlen_dtype("u1"))
        for number, one in enumerate(pixels):
            made = io.BytesIO()
            Picture.fromarray(one).save(made, "PNG")
            x[number] = np.frombuffer(made.getvalue(), "u1")
        file["y"] = np.arange(30)
    decode = {"x": multitables.Image(5, 7)}
    paths = {"x": "/x", "y": "/y"}
    seen = []
    for batch in loader(dataset(tmp_path / "x.h5", paths, shuffle=True, decode=decode)):
        assert torch.equal(batch["x"], torch.from_numpy(pixels[batch["y"].numpy()]))
        seen += batch["y"].tolist()
    assert sorted(seen) == list(range(30))


def test_a_tensor_is_the_memory_of_the_ring(numbered: Path) -> None:
    iterator = iter(dataset(numbered))

    def held() -> int:
        return int(iterator._iterator.statistics()["blocks_held"])

    batch = next(iterator)
    [(address, n_bytes, _)] = iterator._iterator.memory()
    assert address <= batch.data_ptr() < address + n_bytes
    assert held() == 1
    row = batch[7]
    del batch
    assert held() == 1
    assert int(row[0]) == 7 * payload.COLUMNS
    del row
    assert held() == 0


def test_a_kept_tensor_stays_unchanged(numbered: Path) -> None:
    iterator = iter(dataset(numbered, read_ahead=8, epochs=2))
    kept = next(iterator)
    for _ in range(4):
        payload.check(next(iterator).numpy())
    payload.check(kept.numpy(), 0)
    del kept
    assert sum(1 for _ in iterator) == 2 * payload.ROWS // BATCH - 5


@pytest.mark.parametrize("which", [["/rows", "/labels"], {"x": "/rows", "y": "/labels"}])
def test_several_datasets_go_together(numbered: Path, which: Any) -> None:
    for batch in dataset(numbered, which, shuffle=True):
        assert type(batch) is (dict if isinstance(which, dict) else tuple)
        rows, labels = batch.values() if isinstance(batch, dict) else batch
        assert torch.equal(rows[:, 0] // payload.COLUMNS, -labels.to(torch.int64))


def test_a_transform_gets_tensors(numbered: Path) -> None:
    data = dataset(numbered, ["/rows", "/labels"], transform=lambda batch: batch[0].float().mean())
    values = list(loader(data))
    assert all(value.dtype == torch.float32 for value in values)
    assert len(values) == payload.ROWS // BATCH


def test_breaking_out_leaves_no_process(numbered: Path) -> None:
    before = children()
    for batch in loader(dataset(numbered)):
        payload.check(batch.numpy())
        break
    del batch
    gc.collect()
    assert children() == before


def test_close_ends_the_readers_and_keeps_the_epoch(numbered: Path) -> None:
    data = dataset(numbered, shuffle=True)
    first = rows_of(data)
    assert children()
    data.close()
    data.close()
    assert not children()
    assert not np.array_equal(rows_of(data), first)
    data.close()


@pytest.mark.parametrize("after", [0, 1, 37, 60, 61, 97])
def test_a_state_goes_on_where_it_was_taken(numbered: Path, after: int) -> None:
    whole = rows_of(dataset(numbered, shuffle=True, epochs=2))
    data = dataset(numbered, shuffle=True, epochs=2)
    iterator = iter(data)
    head = rows_of(next(iterator) for _ in range(after))
    state = pickle.loads(pickle.dumps(data.state_dict()))
    del iterator, data
    data = dataset(numbered, shuffle=True, epochs=2, n_procs=1)
    data.load_state_dict(state)
    assert np.array_equal(np.concatenate([head, rows_of(data)]), whole)


@pytest.mark.parametrize("way", [lambda data: pickle.loads(pickle.dumps(data)), copy.deepcopy])
def test_a_copy_is_a_stream_of_its_own(numbered: Path, way: Any) -> None:
    data = dataset(numbered, shuffle=True, start_epoch=3)
    iterator = iter(data)
    next(iterator)
    other = way(data)
    want = rows_of(dataset(numbered, shuffle=True, start_epoch=3))
    assert np.array_equal(rows_of(other), want)
    assert np.array_equal(rows_of(iterator), want[BATCH:])


def test_ranks_share_the_rows_out(numbered: Path) -> None:
    parts = [rows_of(dataset(numbered, shuffle=True, rank=r, world_size=3)) for r in range(3)]
    assert each_once(np.concatenate(parts))


DTYPES = ["?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"]


@pytest.mark.parametrize("order", ["<", ">"])
def test_every_number_has_a_tensor(h5: Path, order: str) -> None:
    want = {
        name: (np.arange(300) % 100).reshape(100, 3).astype(name).astype(order + name)
        for name in DTYPES
    }
    with h5py.File(h5, "w") as file:
        for name, array in want.items():
            file[name] = array
    (batch,) = dataset(h5, {name: name for name in DTYPES}, n_procs=1)
    for name, array in want.items():
        assert batch[name].numpy().dtype == np.dtype(name)
        assert np.array_equal(batch[name].numpy(), array)


@pytest.mark.parametrize("dtype", ["S3", [("a", "i4"), ("b", "f8")]])
def test_what_torch_has_not_is_told(h5: Path, dtype: Any) -> None:
    with h5py.File(h5, "w") as file:
        file["x"] = np.zeros(100, dtype)
    with pytest.raises(multitables.UnsupportedDatasetError, match="torch has no dtype for"):
        next(iter(dataset(h5, "/x", n_procs=1)))
    if dtype != "S3":
        (batch,) = dataset(h5, "/x", n_procs=1, field="b")
        assert batch.dtype == torch.float64


def test_options_are_checked_at_once(numbered: Path) -> None:
    with pytest.raises(multitables.OptionsError, match="shuffle"):
        dataset(numbered, shuffle="well")
    with pytest.raises(multitables.OptionsError, match="batch_size"):
        multitables.TorchDataset(numbered, "/rows", 0)
    with pytest.raises(multitables.OptionsError, match="rank"):
        dataset(numbered, rank=2, world_size=2)
    with pytest.raises(TypeError, match="blok_size"):
        dataset(numbered, blok_size=3)
    with pytest.raises(multitables.OptionsError, match="epoch"):
        dataset(numbered).set_epoch(-1)


def test_errors_of_the_file_come_with_the_first_batch(tmp_path: Path, numbered: Path) -> None:
    with pytest.raises(multitables.MissingFileError):
        next(iter(dataset(tmp_path / "none.h5")))
    with pytest.raises(multitables.MissingDatasetError):
        next(iter(dataset(numbered, "/none")))


def test_several_files(tmp_path: Path) -> None:
    names = several_files.write(tmp_path, [several_files.Part(n) for n in (13, 24, 0, 9)])
    data = dataset(f"{tmp_path}/f*.h5", "/x", shuffle="full")
    assert data.filename == names
    with multitables.Streamer(names).get_batches("/x", BATCH, shuffle="full") as batches:
        wanted = several_files.read(names)[batches.order()]
    assert np.array_equal(np.concatenate([batch.numpy() for batch in loader(data)]), wanted)
    rows = multitables.TorchMapDataset(names, "/x")
    every = several_files.read(names)
    assert len(rows) == len(every)
    found = rows.collate(rows.__getitems__([0, len(every) - 1, 13, 12]))
    assert np.array_equal(found.numpy(), every[[0, -1, 13, 12]])
    clips = multitables.TorchMapDataset(names, "/x", sample=multitables.Clips(3))
    assert np.array_equal(clips[11].numpy(), every[13:16])  # no clip has rows of two files
    rows.close()
    clips.close()


def test_a_damaged_chunk_is_told(h5: Path) -> None:
    with pytest.raises(multitables.CorruptChunkError, match="'/rows'"):
        rows_of(dataset(damaged(h5)))


def test_a_damaged_chunk_is_skipped(h5: Path) -> None:
    data = dataset(damaged(h5), shuffle=True, skip_damaged=True)
    with pytest.warns(multitables.CorruptChunkWarning, match="Rows 300:350 are left out"):
        first = rows_of(loader(data))
    second = rows_of(loader(data))
    wanted = np.delete(np.arange(payload.ROWS), slice(300, 350))
    assert np.array_equal(np.sort(first), wanted)
    assert np.array_equal(np.sort(second), wanted)
    assert not np.array_equal(first, second)


def test_an_endless_stream_has_no_length(numbered: Path) -> None:
    data = dataset(numbered, epochs=None)
    with pytest.raises(TypeError):
        len(data)
    iterator = iter(loader(data))
    assert each_once(rows_of(next(iterator) for _ in range(payload.ROWS // BATCH)))
