"""Patches and boxes: each one once in an epoch, with the elements that NumPy gives it.

1. The oracle is np.pad and slices of the whole data.
2. What decodes more often than it should is counted, never timed.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_samples import NaivePatches, patch

import multitables
from _multitables import options, sizes
from multitables import At, OptionsError, Patches

SHAPE = (13, 11, 9)
X = np.arange(np.prod(SHAPE), dtype="<i4").reshape(SHAPE)
SHUFFLES = [None, "chunks", "window", "full"]
#: How the same numbers lie in a file.
LAYOUTS: dict[str, dict[str, Any]] = {
    "gzip": {"chunks": (5, 4, 9), "compression": "gzip"},
    "small": {"chunks": (3, 4, 2), "compression": "lzf", "shuffle": True},
    "stored": {"chunks": (4, 11, 3)},
    "contiguous": {},
}


@pytest.fixture(scope="module")
def h5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("patches") / "patches.h5"
    with h5py.File(path, "w") as file:
        for name, options_ in LAYOUTS.items():
            file.create_dataset(name, data=X, **options_)
        colours = np.stack([X, X * 2], axis=-1)
        file.create_dataset("colours", data=colours, chunks=(4, 4, 4, 1), compression="gzip")
        table = np.zeros((*SHAPE[:2],), [("a", "<i2"), ("b", "<i4", (2,))])
        table["a"], table["b"] = X[..., 0] % 999, X[..., :2]
        file.create_dataset("table", data=table, chunks=(4, 3), compression="gzip")
        layout = h5py.VirtualLayout(SHAPE, "<i4")
        layout[:6], layout[6:] = (
            h5py.VirtualSource(file["gzip"])[:6],
            h5py.VirtualSource(file["small"])[6:],
        )
        file.create_virtual_dataset("virtual", layout)
        file["mask"] = np.arange(3 * 3 * 2).reshape(3, 3, 2) % 3 == 0
    return path


@pytest.fixture
def streamer(h5: Path) -> Iterator[Any]:
    with multitables.Streamer(h5) as made:
        yield made


def pairs(*arrays: Any) -> list[bytes]:
    """The bytes of samples of several paths, in one order."""
    return sorted(b"".join(np.ascontiguousarray(one).tobytes() for one in each) for each in zip(
        *arrays, strict=True
    ))  # fmt: skip


def test_each_patch_comes_once(streamer: Any) -> None:
    @given(
        st.sampled_from([*LAYOUTS, "virtual"]),
        st.tuples(*[st.integers(1, n + 3) for n in SHAPE]),
        st.tuples(*[st.integers(2, 9)] * 3),
        st.integers(1, 3),
        st.sampled_from([None, "reflect", "edge", -5]),
        st.sampled_from(SHUFFLES),
        st.integers(1, 30),
        st.integers(1, 2),
    )
    def check(
        name: str, shape: Any, stride: Any, k: int, pad: Any, shuffle: Any, size: int,
        world_size: int,
    ) -> None:  # fmt: skip
        if pad is None:
            shape = tuple(min(one, n) for one, n in zip(shape, SHAPE, strict=True))
        naive = NaivePatches([SHAPE[0]], shape[:k], stride[:k], pad)
        wanted = naive.all(X)
        colours = [np.stack([one, one * 2 if pad != -5 else np.where(one == -5, -5, one * 2)], -1)
                   for one in wanted]  # fmt: skip
        sample = Patches(shape[:k], stride[:k], pad=pad)
        found = []
        for rank in range(world_size):
            batches = streamer.get_batches(
                {"x": name, "c": "colours"}, size, sample=sample, shuffle=shuffle, n_procs=1,
                seed=3, rank=rank, world_size=world_size,
            )  # fmt: skip
            with batches:
                found += [(batch["x"], batch["c"]) for batch in batches]
        arrays = [np.concatenate(each) for each in zip(*found, strict=True)]
        assert pairs(*arrays) == pairs(wanted, colours)

    check()


def test_boxes_begin_where_the_user_says(streamer: Any) -> None:
    @given(
        st.sampled_from([*LAYOUTS, "virtual"]),
        st.tuples(*[st.integers(1, n) for n in SHAPE]),
        st.integers(1, 3),
        st.data(),
    )
    def check(name: str, shape: Any, k: int, data: st.DataObject) -> None:
        shape = shape[:k]
        places = st.tuples(*[st.integers(0, n - m) for n, m in zip(SHAPE, shape, strict=False)])
        starts = data.draw(st.lists(places, min_size=1, max_size=20))
        whole = (*shape[:-1], None)
        take = {"x": shape, "c": whole if all(at[-1] == 0 for at in starts) else (1,) * k}
        with streamer.get_batches(
            {"x": name, "c": "colours"}, 7, sample=At(np.array(starts), take), n_procs=1
        ) as batches:
            found = list(batches)
        wanted = [patch(X, at, shape, None) for at in starts]
        np.testing.assert_array_equal(np.concatenate([one["x"] for one in found]), wanted)
        first = np.concatenate([one["c"] for one in found]).reshape(len(starts), -1)[:, 0]
        np.testing.assert_array_equal(first, [X[(*at, *[0] * (3 - k))] for at in starts])

    check()


class Diagonal:
    """Starts that are never made as a whole."""

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(key)[:, None] % [9, 7, 5]


def test_very_many_starts_and_patches_are_never_made(streamer: Any, tmp_path: Path) -> None:
    options_: Any = {"memory_limit_bytes": 1 << 20, "n_procs": 1}
    sample = At(Diagonal(), (2, 3, 4))
    with streamer.get_batches("gzip", 64, sample=sample, **options_) as batches:
        assert len(batches) == -(-(10**9) // 64)
        batch = next(iter(batches))
    wanted = [patch(X, (n % 9, n % 7, n % 5), (2, 3, 4), None) for n in range(64)]
    np.testing.assert_array_equal(batch, wanted)
    with h5py.File(tmp_path / "empty.h5", "w") as file:
        file.create_dataset("x", (10**5, 10**5), "u1", chunks=(10**4, 10**4), fillvalue=7)
    with multitables.Streamer(tmp_path / "empty.h5") as large:
        for shuffle in ("full", True):
            sample = Patches((8, 8), 3, pad="edge")
            with large.get_batches("x", 32, sample=sample, shuffle=shuffle, **options_) as batches:
                assert len(batches) == -(-(33334**2) // 32)
                assert (next(iter(batches)) == 7).all()


@pytest.mark.parametrize("pad", [None, "reflect"])
def test_jitter_is_drawn_anew_and_goes_on_where_it_was(streamer: Any, pad: Any) -> None:
    shape, stride, jitter = (3, 4, 2), (3, 3, 2), (2, 0, 1)
    sample = Patches(shape, stride, jitter=jitter, pad=pad)
    options_: Any = {"sample": sample, "epochs": 2, "n_procs": 1, "seed": 5}
    with streamer.get_batches("gzip", 8, **options_) as batches:
        epochs = np.concatenate(list(batches)).reshape(2, -1, *shape)
        again = np.concatenate(list(streamer.get_batches("gzip", 7, **options_)))
    np.testing.assert_array_equal(again.reshape(epochs.shape), epochs)
    assert (epochs[0] != epochs[1]).any()
    if pad is None:  # the first element says where a patch begins
        with streamer.get_batches("gzip", 999, sample=Patches(shape, stride), n_procs=1) as batches:
            (still,) = batches
        places = [np.stack(np.unravel_index(one[..., 0, 0, 0], SHAPE), -1) for one in epochs]
        at = np.stack(np.unravel_index(still[..., 0, 0, 0], SHAPE), -1)
        for moved in places:
            assert (np.abs(moved - at) <= jitter).all()
        assert {-2, -1, 0, 1, 2} == set((np.stack(places) - at)[..., 0].ravel().tolist())
        np.testing.assert_array_equal(
            epochs.reshape(-1, *shape),
            [patch(X, at, shape, None) for at in np.concatenate(places)],
        )
    for shuffle in SHUFFLES:
        options_["shuffle"] = shuffle
        with streamer.get_batches("gzip", 8, **options_) as batches:
            iterator = iter(batches)
            before = [next(iterator) for _ in range(5)]
            state = json.loads(json.dumps(batches.state_dict()))
        rest = []
        for rank in range(2):
            with streamer.get_batches("gzip", 8, rank=rank, world_size=2, **options_) as batches:
                batches.load_state_dict(state)
                rest += list(batches)
        assert pairs(np.concatenate([*before, *rest])) == pairs(epochs.reshape(-1, *shape))
    other = {**options_, "sample": Patches(shape, stride, jitter=1, pad=pad)}
    with (
        streamer.get_batches("gzip", 8, **other) as batches,
        pytest.raises(OptionsError, match="samples"),
    ):
        batches.load_state_dict(state)


def test_which_patches_there_are(streamer: Any) -> None:
    shape, stride = (5, 5, 4), (4, 3, 3)
    mask = np.arange(3 * 3 * 2).reshape(3, 3, 2) % 3 == 0
    starts = [tuple(at * np.array(stride)) for at in np.argwhere(mask)]
    for where in ("/mask", mask):
        sample = Patches(shape, stride, where=where)
        with streamer.get_batches("small", 4, sample=sample, shuffle=True, n_procs=1) as batches:
            assert len(batches) == 2
            found = np.concatenate(list(batches))
        assert pairs(found) == pairs([patch(X, at, shape, None) for at in starts])


@pytest.mark.parametrize("pad", [None, "reflect"])
def test_no_patch_has_rows_of_two_files(tmp_path: Path, pad: Any) -> None:
    lengths, names, begin = [4, 0, 2, 7], list[Path](), 0
    for number, length in enumerate(lengths):
        names.append(tmp_path / f"{number}.h5")
        with h5py.File(names[-1], "w") as file:
            part = X[begin : begin + length]
            file.create_dataset("x", data=part, chunks=(2, 4, 4), maxshape=(None, *SHAPE[1:]))
            n = len(range(0, length if pad else max(length - 2, 0), 2))
            file["mask"] = np.ones((n, 2, 1), bool)
        begin += length
    naive = NaivePatches(lengths, (3, 5, 9), (2, 6, 9), pad)
    for where in (None, "mask"):
        sample = Patches((3, 5, None), (2, 6, 1), pad=pad, where=where)
        with multitables.Streamer(names) as streamer:
            for shuffle in (None, True):
                with streamer.get_batches(
                    "x", 3, sample=sample, shuffle=shuffle, n_procs=1
                ) as batches:
                    assert pairs(np.concatenate(list(batches))) == pairs(naive.all(X))
    with (
        multitables.Streamer(names) as streamer,
        pytest.raises(OptionsError, match="along the first axis"),
    ):
        next(iter(streamer.get_batches("x", 3, sample=Patches((None, 5)), n_procs=1)))


def test_patches_of_a_column(streamer: Any) -> None:
    with streamer.get_batches("table", 9, sample=Patches((4, 5)), field="b", n_procs=1) as batches:
        found = np.concatenate(list(batches))
    assert pairs(found) == pairs(NaivePatches([13], (4, 5), (4, 5), None).all(X[..., :2]))


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_chunk_is_decoded_about_once_a_window(
    tmp_path: Path, shuffle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a volume of which readers keep a part."""
    monkeypatch.setattr(sizes, "MAX_WINDOW_BYTES", 48 << 10)
    monkeypatch.setattr(options, "MIN_CACHE_BYTES", 0)
    data = np.arange(512 * 512, dtype="u4").astype("u1").reshape(512, 512)
    with h5py.File(tmp_path / "image.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(32, 32), compression="gzip")
    with multitables.Streamer(tmp_path / "image.h5") as streamer, warnings.catch_warnings():
        warnings.simplefilter("error")
        sample = Patches((32, 32), 16)
        with streamer.get_batches("x", 31, sample=sample, shuffle=shuffle, n_procs=2) as batches:
            iterator = iter(batches)
            n = sum(len(batch) for batch in iterator)
            seen = iterator.statistics()
    assert n == 31 * 31
    assert seen["cache_limit_bytes"] < data.size or shuffle == "full"
    assert seen["cache_misses"] <= 1.5 * 256


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_little_data_is_decoded_once_an_epoch(
    tmp_path: Path, shuffle: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several requests of an epoch come back to each chunk."""
    monkeypatch.setattr(sizes, "RAGGED_FETCH_BYTES", 64 << 10)
    monkeypatch.setattr(options, "MIN_CACHE_BYTES", 0)
    with h5py.File(tmp_path / "image.h5", "w") as file:
        file.create_dataset("x", (512, 512), "u1", chunks=(32, 32), compression="gzip")[:] = 1
    options_: Any = {"sample": Patches((32, 32), 16), "n_procs": 2, "memory_limit_bytes": 1 << 18}
    with (
        multitables.Streamer(tmp_path / "image.h5") as streamer,
        streamer.get_batches("x", 31, shuffle=shuffle, **options_) as batches,
    ):
        iterator = iter(batches)
        assert sum(len(batch) for batch in iterator) == 31 * 31
        seen = iterator.statistics()
    assert seen["tasks"] > 9
    assert seen["cache_misses"] <= 1.1 * 256
    assert seen["read_amplification"] == 1.0


def test_a_chunk_is_decoded_once_for_all_boxes_of_a_request(streamer: Any) -> None:
    with multitables.Reader(streamer.filename, 0, cache_limit_bytes=0) as reader:
        patches = reader.get_dataset("gzip").patches((2, 2, 2), 1)
        assert reader.request(patches[:]).get().shape == patches.shape == (12 * 10 * 8, 2, 2, 2)
        assert reader.statistics()["cache_misses"] == 3 * 3


def test_an_epoch_that_decodes_too_much_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizes, "MAX_WINDOW_BYTES", 4 << 10)
    with h5py.File(tmp_path / "image.h5", "w") as file:
        file.create_dataset("x", (256, 256), "u1", chunks=(16, 16), compression="gzip")
    with multitables.Streamer(tmp_path / "image.h5") as streamer:
        options_: Any = {"sample": Patches((64, 64), 16), "n_procs": 1}
        with pytest.warns(multitables.AmplificationWarning, match="decodes each chunk about"):
            next(iter(streamer.get_batches("x", 4, shuffle=True, **options_)))
        next(iter(streamer.get_batches("x", 4, **options_)))


def test_a_damaged_chunk_is_named(tmp_path: Path) -> None:
    path = tmp_path / "damaged.h5"
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", data=X, chunks=(5, 4, 9), compression="gzip")
        place = x.id.get_chunk_info_by_coord((5, 4, 0))
    with path.open("r+b") as raw:
        raw.seek(place.byte_offset + 9)
        raw.write(bytes(20))
    sample, damaged = Patches((4, 4, 4), 3), multitables.CorruptChunkError
    with multitables.Streamer(path) as streamer, pytest.raises(damaged) as caught:
        list(streamer.get_batches("x", 8, sample=sample, n_procs=1))
    assert caught.value.chunk_offset == (5, 4, 0)
    with multitables.open(path) as file:
        patches = file["x"].patches((4, 4, 4), 3)
        with pytest.raises(damaged) as caught:
            patches[:]
        assert caught.value.chunk_offset == (5, 4, 0)
        np.testing.assert_array_equal(patches[0], X[:4, :4, :4])


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (lambda: Patches(()), "a number for each axis"),
        (lambda: Patches((0, 2)), "shape is out of range"),
        (lambda: Patches((2, 2), (1, 2, 3)), "stride must have 2 numbers"),
        (lambda: Patches(2, 0), "stride is out of range"),
        (lambda: Patches(2, jitter=-1), "jitter is out of range"),
        (lambda: Patches(2, pad="wrap"), "pad must be"),
        (lambda: Patches(2, where=[1, 2]), "where must be bool"),  # type: ignore[arg-type]
        (lambda: At([[0, 0]], 3), "a number for each axis"),
        (lambda: At([[[0]]], 3), "one or two dimensions"),
    ],
)
def test_what_no_patch_can_be(said: Any, match: str) -> None:
    with pytest.raises(OptionsError, match=match):
        said()


@pytest.mark.parametrize(
    ("path", "sample", "match"),
    [
        ("gzip", Patches((2, 12)), "no patch fits into axis 1 .expected 12 elements, got 11"),
        ("gzip", Patches((2, 2, 2, 2)), "at most 3 axes"),
        ("gzip", Patches(2, where="mask"), "where does not fit the grid"),
        (["gzip", "table"], Patches((2, 2, 2)), "at most 2 axes|differ"),
        ("gzip", At([[9, 9]], (2, 3)), "sample 0 lies outside the dataset"),
        ("gzip", At([[0, -1]], (2, 3)), "sample 0 lies outside the dataset"),
        ("gzip", At([[0, 1]], (2, 3, 4)), "take must have 2 axes"),
        ("gzip", At([[0, 1]], {"x": (2, 3)}), "names no path"),
    ],
)
def test_what_data_has_no_patches_of(streamer: Any, path: Any, sample: Any, match: str) -> None:
    with pytest.raises(multitables.MultitablesError, match=match):
        next(iter(streamer.get_batches(path, 4, sample=sample, n_procs=1)))
