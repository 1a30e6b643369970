"""`TorchMapDataset`: rows by number, alone and in batches, with torch's samplers and collating."""

from __future__ import annotations

import gc
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import payload
import pytest
from loaders import FORKS, damaged, each_once, loader, rows_of
from processes import children, readers, wait_until

torch = pytest.importorskip("torch")

import multitables  # noqa: E402 - torch may be missing
from _multitables.adapters import torch_tensors  # noqa: E402

pytestmark = FORKS


def dataset(path: Path, which: Any = "/rows", **options: Any) -> Any:
    return multitables.TorchMapDataset(path, which, **{"n_procs": 2, **options})


def test_rows_by_number(numbered: Path) -> None:
    data = dataset(numbered)
    want = payload.content()
    assert len(data) == payload.ROWS
    for number in (0, 17, -1, torch.tensor(5), np.int64(8)):
        assert np.array_equal(data[number].numpy(), want[int(number)])
    labels = dataset(numbered, "/labels")
    assert labels[3].shape == ()
    assert int(labels[3]) == -3


def test_the_length_needs_no_reader(numbered: Path) -> None:
    before = children()
    assert len(dataset(numbered)) == payload.ROWS
    assert children() == before


@pytest.mark.parametrize("number", [payload.ROWS, -payload.ROWS - 1])
def test_there_is_no_such_row(numbered: Path, number: int) -> None:
    data = dataset(numbered)
    with pytest.raises(IndexError):
        data[number]
    with pytest.raises(IndexError):
        data.__getitems__([0, number])
    with pytest.raises(TypeError):
        data["0"]
    assert int(data[1][0]) == payload.COLUMNS  # it goes on


def test_a_batch_is_one_view(numbered: Path) -> None:
    data = dataset(numbered)
    asked = [5, 3, 3, 5999, -1, 0]
    samples = data.__getitems__(asked)
    assert isinstance(samples, list)
    assert len(samples) == len(asked)
    assert samples.batch.shape == (6, payload.COLUMNS)
    for number, sample in zip(asked, samples, strict=True):
        assert np.array_equal(sample.numpy(), payload.content()[number])
    assert samples[1].data_ptr() == samples.batch[1].data_ptr()
    batch = data.collate(samples)
    assert batch is samples.batch
    lent = data._mine[1].statistics
    assert lent()["stages_lent"] == 1
    del samples, sample
    assert lent()["stages_lent"] == 1
    del batch
    assert lent()["stages_lent"] == 0


@pytest.mark.parametrize("collates", [True, False], ids=["collate", "torch's own"])
@pytest.mark.parametrize("processes", [0, 2])
@pytest.mark.parametrize("which", ["/rows", ("/rows", "/labels"), {"x": "/rows", "y": "/labels"}])
def test_a_loader_with_a_sampler(
    numbered: Path, which: Any, processes: int, collates: bool
) -> None:
    data = dataset(numbered, which)
    options = {"collate_fn": data.collate} if collates else {}
    batches = list(loader(data, processes, batch_size=500, shuffle=True, **options))
    if which != "/rows":
        members = [b.values() if isinstance(b, dict) else b for b in batches]
        assert all(isinstance(b, dict) == isinstance(which, dict) for b in batches)
        for x, y in members:
            assert torch.equal(x[:, 0] // payload.COLUMNS, -y.to(torch.int64))
        batches = [x for x, _ in members]
    assert all(len(batch) == 500 for batch in batches)
    assert each_once(rows_of(batches))
    del batches
    gc.collect()


def test_subsets_and_single_rows(numbered: Path) -> None:
    subset = torch.utils.data.Subset(dataset(numbered), range(1000, 1100))
    assert np.array_equal(rows_of(loader(subset, batch_size=10)), np.arange(1000, 1100))
    single = list(loader(subset, batch_size=None))
    assert len(single) == 100
    assert int(single[3][0]) == 1003 * payload.COLUMNS


def test_a_transform_is_of_samples(numbered: Path) -> None:
    data = dataset(numbered, transform=lambda row: row[:1] // payload.COLUMNS)
    assert data[7].tolist() == [7]
    (batch,) = loader(data, batch_size=4, sampler=[9, 8, 7, 6])
    assert batch.tolist() == [[9], [8], [7], [6]]


def test_collate_takes_its_own_samples_only(numbered: Path) -> None:
    with pytest.raises(multitables.OptionsError, match="collate takes a batch"):
        multitables.TorchMapDataset.collate([torch.zeros(3)])
    data = dataset(numbered, transform=lambda row: row)
    with pytest.raises(multitables.OptionsError, match="without a transform"):
        data.collate(data.__getitems__([1, 2]))


def test_a_copy_has_readers_of_its_own(numbered: Path) -> None:
    data = dataset(numbered)
    row = data[3]
    other = pickle.loads(pickle.dumps(data))
    assert torch.equal(other[3], row)
    other.close()
    assert torch.equal(data[3], row)
    data.close()
    wait_until(lambda: not readers(), "the end of the readers")
    assert torch.equal(data[3], row)


def test_an_error_that_crosses_has_an_address(
    numbered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A type made at run time cannot be sent by a loader's process; what it says can."""
    data = dataset(numbered)
    monkeypatch.setattr(torch_tensors, "split", lambda: (0, 1))
    with pytest.raises(multitables.SubprocessException, match="out of range for axis 0") as told:
        data[payload.ROWS]
    assert type(told.value) is multitables.SubprocessException
    assert type(pickle.loads(pickle.dumps(told.value))) is multitables.SubprocessException


def test_a_damaged_chunk_is_told(h5: Path) -> None:
    data = dataset(damaged(h5))
    with pytest.raises(multitables.CorruptChunkError, match="'/rows'"):
        data[310]
    assert int(data[3][0]) == 3 * payload.COLUMNS


def test_columns_and_what_torch_has_not(h5: Path) -> None:
    inner = np.dtype([("b", "f4", (2,))])
    with h5py.File(h5, "w") as file:
        table = np.zeros(50, [("a", inner), ("n", ">i4")])
        table["n"] = np.arange(50)
        table["a"]["b"][:, 1] = np.arange(50)
        file.create_dataset("t", data=table)
        file["s"] = np.array([b"abc"] * 50)
        file.create_dataset("v", (5,), h5py.vlen_dtype("i4"))
    assert dataset(h5, "/t", field="n").__getitems__([3, 4]).batch.tolist() == [3, 4]
    assert dataset(h5, "/t", field="a/b")[7].tolist() == [0.0, 7.0]
    for path in ("/t", "/s"):
        with pytest.raises(multitables.UnsupportedDatasetError, match="torch has no dtype for"):
            dataset(h5, path)[3]
    with pytest.raises(multitables.UnsupportedDatasetError, match="differ in length"):
        dataset(h5, "/v")[3]


def test_samples_by_number(numbered: Path) -> None:
    clips = multitables.Clips(3, lengths=[4000, 2000], pad=-1, mask="known", stride=2)
    data = dataset(numbered, {"x": "/rows", "y": "/labels"}, sample=clips)
    want = payload.content()
    assert len(data) == payload.ROWS
    last = data[3999]
    np.testing.assert_array_equal(last["x"][0].numpy(), want[3999])
    assert (last["x"][1:].numpy() == -1).all()
    assert last["known"].tolist() == [True, False, False]
    samples = data.__getitems__([5, -1, 5])
    assert samples.batch["x"].shape == (3, 3, payload.COLUMNS)
    np.testing.assert_array_equal(samples.batch["x"][2].numpy(), want[[5, 7, 9]])
    assert samples[0]["y"].tolist() == [-5, -7, -9]
    batches = list(loader(data, batch_size=1000, collate_fn=data.collate))
    np.testing.assert_array_equal(np.concatenate([one["x"][:, 0] for one in batches]), want)
    with pytest.raises(IndexError, match="no sample 6000"):
        data[payload.ROWS]
    again = pickle.loads(pickle.dumps(data))
    np.testing.assert_array_equal(again[7]["x"].numpy(), want[[7, 9, 11]])
    patches = dataset(numbered, sample=multitables.Patches((5, 2), pad="edge"))
    np.testing.assert_array_equal(patches[0].numpy(), want[:5, :2])
    pair = dataset(numbered, sample=multitables.At([[7, 0], [0, 1]], (3, 2)))
    batch = pair.__getitems__([1, 0]).batch.numpy()
    np.testing.assert_array_equal(batch, [want[:3, 1:3], want[7:10, :2]])
    for one in (multitables.Ranges([0], [2]), multitables.Clips(2, starts="uniform")):
        with pytest.raises(multitables.OptionsError, match="sample"):
            dataset(numbered, sample=one)


CASTS: list[dict[str, Any]] = [
    {"dtype": "f2"},
    {"dtype": "bfloat16"},
    {"dtype": {"/rows": "i2", "/labels": "f8"}},
    {"scale": {"/rows": (np.arange(payload.COLUMNS), 3.0)}},
    {"scale": (10.0, 2.0), "dtype": "f8"},
]


@pytest.mark.parametrize("casts", CASTS, ids=str)
@pytest.mark.parametrize("sample", [None, multitables.Clips(3, before=1, pad="edge", mask=True)])
@pytest.mark.parametrize("several", [False, True])
def test_casts_are_those_of_batches(
    numbered: Path, casts: dict[str, Any], sample: Any, several: bool
) -> None:
    name: Any = [numbered, numbered] if several else numbered
    which = ("/rows", "/labels")
    data = dataset(name, which, sample=sample, **casts)
    asked = [5, 3, 3, len(data) - 1, -2]
    rows = np.array(asked) % len(data)
    expected = multitables.TorchDataset(
        name, which, len(asked), rows=np.unique(rows), sample=sample, n_procs=1, **casts
    )
    (want,) = expected
    places = np.searchsorted(np.unique(rows), rows)
    got = data.__getitems__(asked)
    for number, one in zip(asked, got, strict=True):
        for a, b in zip(one, data[number], strict=True):
            assert torch.equal(a, b)
    for a, b in zip(got.batch, want, strict=True):
        assert a.dtype == b.dtype
        assert torch.equal(a, b[places])


@pytest.mark.parametrize("how", ["sequences", "opaque"])
@pytest.mark.parametrize("processes", [0, 2])
def test_pictures(tmp_path: Path, how: str, processes: int) -> None:
    pictures = pytest.importorskip("pictures")  # which needs Pillow
    stored = pictures.files(12)
    pictures.write(tmp_path / "x.h5", stored, how)
    which, decode = {"x": "/x", "label": "/label"}, {"x": pictures.IMAGE}
    data = dataset(tmp_path / "x.h5", which, decode=decode)
    pictures.assert_close(data[7]["x"].numpy()[None], stored[7:8])
    batches = loader(data, processes, batch_size=5, shuffle=True, collate_fn=data.collate)
    for batch in batches:
        pictures.assert_close(batch["x"].numpy(), [stored[at] for at in batch["label"]])
    clips = dataset(tmp_path / "x.h5", "/x", decode=pictures.IMAGE, sample=multitables.Clips(2))
    assert clips[3].shape == (2, *pictures.IMAGE.shape)
    pictures.assert_close(clips[3].numpy(), stored[3:5])
    stored[7] = b"none"
    pictures.write(tmp_path / "x.h5", stored, how)
    data = dataset(tmp_path / "x.h5", "/x", decode=pictures.IMAGE)
    with pytest.raises(multitables.ImageError, match="row 7 of '/x'"):
        data.__getitems__([2, 7])


def test_what_cannot_be_cast(numbered: Path) -> None:
    with pytest.raises(multitables.OptionsError, match="dtype"):
        dataset(numbered, dtype="U5")
    with pytest.raises(multitables.OptionsError, match="names no dataset"):
        dataset(numbered, dtype={"/none": "f4"})
    with pytest.raises(multitables.UnsupportedDatasetError, match="cannot decode pictures"):
        len(dataset(numbered, decode=multitables.Image(3, 3)))
    with pytest.raises(IndexError, match="no sample"):
        dataset(numbered, dtype="f4")[payload.ROWS]


@pytest.mark.usefixtures("few_filters")
def test_what_a_library_reads_is_not_cast(h5: Path) -> None:
    """A library's rows come as they are stored: they would lack their scale."""
    hdf5plugin = pytest.importorskip("hdf5plugin")
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=np.arange(40.0), chunks=(8,), **hdf5plugin.BZip2())
    assert dataset(h5, "/x")[3] == 3
    for casts in ({"scale": (1, 2)}, {"dtype": "i4"}):
        with pytest.raises(multitables.UnsupportedDatasetError, match="library reads them"):
            dataset(h5, "/x", **casts)[3]
        batches = multitables.Streamer(h5).get_batches(
            "/x", 4, n_procs=1, sample=multitables.Clips(2), **casts
        )
        with pytest.raises(multitables.UnsupportedDatasetError, match="library reads them"):
            next(iter(batches))
