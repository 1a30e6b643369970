"""Samples that are not rows: each one once in an epoch, and with the rows that NumPy gives it.

1. The oracle is a loop over arrays; orders are those of `Batches.order`, which other tests hold to
   rows.
2. What a rank had, and what came before and after a stop, is together an epoch.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_samples import NaiveClips

import multitables
from multitables import At, Clips, OptionsError, Ranges

N = 240
X = np.arange(N * 3, dtype="<i4").reshape(N, 3)
Y = np.arange(N, dtype="<f4") * 7
SHUFFLES = [None, "chunks", "window", "full"]


@pytest.fixture(scope="module")
def h5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("samples") / "samples.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=X, chunks=(16, 2), compression="gzip")
        file["y"] = Y
        file["lengths"] = [100, 0, 1, 39, 60, 40]
        file["offsets"] = [10, 60, 60, 200]
        file["text"] = np.array([b"a"] * N)
    return path


@pytest.fixture
def streamer(h5: Path) -> Any:
    with multitables.Streamer(h5) as made:
        yield made


@st.composite
def cases(draw: st.DrawFn) -> tuple[NaiveClips, dict[str, Any]]:
    """Draw clips, and their segments."""
    steps, before = draw(st.integers(1, 6)), 0
    if steps > 1:
        before = draw(st.integers(0, steps - 1))
    cuts = sorted(draw(st.lists(st.integers(0, N), max_size=5)))
    ends = [*cuts, N]
    lengths = [end - begin for begin, end in zip([0, *cuts], ends, strict=True)]
    pad = draw(st.sampled_from([None, "edge", -5]))
    other = draw(st.none() | st.lists(st.integers(-4, 9), min_size=1, max_size=4))
    usual = [at - before for at in range(steps)]
    naive = NaiveClips(
        lengths,
        {"x": usual, "y": usual if other is None else other},
        draw(st.integers(1, 4)),
        draw(st.integers(1, 5)),
        pad is not None,
    )
    said = {
        "steps": steps, "before": before, "stride": naive.stride, "every": naive.every,
        "pad": pad, "lengths": lengths,
        "per_path": None if other is None else {"y": other},
        "mask": "valid" if pad is not None and draw(st.booleans()) else None,
    }  # fmt: skip
    return naive, said


def test_each_clip_comes_once_with_its_rows(streamer: Any) -> None:
    @given(cases(), st.sampled_from(SHUFFLES), st.integers(1, 30), st.integers(1, 3))
    def check(case: Any, shuffle: str | None, batch_size: int, world_size: int) -> None:
        check_epoch(streamer, *case, shuffle, batch_size, world_size)

    check()


def check_epoch(
    streamer: Any,
    naive: NaiveClips,
    said: dict[str, Any],
    shuffle: str | None,
    batch_size: int,
    world_size: int,
) -> None:
    wanted, seen = naive.starts(), list[int]()
    paths, sample = {"x": "/x", "y": "/y"}, Clips(**said)
    for rank in range(world_size):
        batches = streamer.get_batches(
            paths, batch_size, sample=sample, shuffle=shuffle, n_procs=1, rank=rank,
            world_size=world_size, seed=3,
        )  # fmt: skip
        with batches:
            if not wanted:
                with pytest.raises(OptionsError, match="no clip fits"):
                    next(iter(batches))
                continue
            numbers = batches.order(0).tolist()
            seen += numbers
            at = 0
            for batch in batches:
                clips = [wanted[number] for number in numbers[at : at + len(batch["x"])]]
                check_batch(batch, naive, clips, said)
                at += len(batch["x"])
            assert at == len(numbers)
    assert sorted(seen) == list(range(len(wanted)))


def check_batch(batch: Any, naive: NaiveClips, clips: Any, said: dict[str, Any]) -> None:
    for key, data in (("x", X), ("y", Y)):
        made = [naive.sample(key, data, clip, said["pad"]) for clip in clips]
        np.testing.assert_array_equal(batch[key], [rows for rows, _ in made])
        if said["mask"] and key == "x":
            np.testing.assert_array_equal(batch["valid"], [here for _, here in made])


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_run_goes_on_where_it_was_with_other_ranks(streamer: Any, shuffle: str | None) -> None:
    sample = Clips(4, lengths="/lengths", starts="uniform", draws=90, stride=(1, 3))
    options: Any = {"sample": sample, "shuffle": shuffle, "epochs": 2, "n_procs": 1, "seed": 5}
    with streamer.get_batches("/x", 8, **options) as batches:
        all_of_it = np.concatenate(list(batches))
    assert len(all_of_it) == 2 * 90
    with streamer.get_batches("/x", 8, **options) as batches:
        iterator = iter(batches)
        before = [next(iterator) for _ in range(5)]
        state = json.loads(json.dumps(batches.state_dict()))
    rest = []
    for rank in range(2):
        with streamer.get_batches("/x", 8, rank=rank, world_size=2, **options) as batches:
            batches.load_state_dict(state)
            rest += list(batches)
    found = np.concatenate([*before, *rest])
    assert sorted(map(bytes, found)) == sorted(map(bytes, all_of_it))
    other = Clips(4, lengths="/lengths", starts="uniform", draws=90, stride=(1, 2))
    with (
        streamer.get_batches("/x", 8, **{**options, "sample": other}) as batches,
        pytest.raises(OptionsError, match="samples"),
    ):
        batches.load_state_dict(state)


@pytest.mark.parametrize("starts", ["uniform", "segments"])
@pytest.mark.parametrize("replace", [False, True])
def test_what_is_drawn(streamer: Any, starts: str, replace: bool) -> None:
    lengths = [100, 0, 1, 39, 60, 40]
    sample = Clips(4, lengths="/lengths", starts=starts, draws=150, stride=(1, 3), replace=replace)
    options: Any = {"sample": sample, "n_procs": 1, "epochs": 2, "seed": 9}
    with streamer.get_batches("/y", 50, **options) as batches:
        epochs = np.concatenate(list(batches)).reshape(2, 150, 4)
    rows = (epochs / 7).astype(int)
    strides = np.diff(rows, axis=2)
    assert (strides == strides[:, :, :1]).all()
    assert {1, 2, 3} == set(strides.ravel().tolist())
    ends = np.cumsum(lengths)
    assert (
        np.searchsorted(ends, rows[..., 0], "right")
        == np.searchsorted(ends, rows[..., -1], "right")
    ).all()
    assert (rows[0] != rows[1]).any()
    assert (np.diff(rows[..., 0], axis=1) >= 0).all()  # in the order of the file
    once = [len(set(epoch[:, 0].tolist())) for epoch in rows]
    if starts == "uniform" and not replace:
        assert once == [150, 150]
    else:
        assert max(once) < 150
    if starts == "segments":  # four have clips, and the short ones as many draws as the long ones
        counts = np.bincount(np.searchsorted(ends, rows[0, :, 0], "right"), minlength=6)
        assert (counts > 0).tolist() == [True, False, False, True, True, True]
        assert counts.max() < 2.5 * counts[counts > 0].min()
    with streamer.get_batches("/y", 7, **{**options, "n_procs": 2}) as batches:
        np.testing.assert_array_equal(np.concatenate(list(batches)).reshape(2, 150, 4), epochs)


class Squares:
    """Starts that are never made as a whole."""

    def __len__(self) -> int:
        return 10**9

    def __getitem__(self, key: Any) -> Any:
        return np.asarray(key) % 13 * 17


def test_listed_starts_and_very_many(streamer: Any) -> None:
    starts = [200, 3, 3, 90]
    with streamer.get_batches("/x", 3, sample=At(starts, range(0, 20, 5)), n_procs=1) as batches:
        found = np.concatenate(list(batches))
    np.testing.assert_array_equal(found, [X[at : at + 20 : 5] for at in starts])
    take = {"x": [-1, 0], "y": 3}
    paths = {"x": "/x", "y": "/y"}
    with streamer.get_batches(paths, 4, sample=At(starts, take), n_procs=1) as batches:
        (batch,) = batches
    np.testing.assert_array_equal(batch["x"], [X[[at - 1, at]] for at in starts])
    np.testing.assert_array_equal(batch["y"], [Y[at : at + 3] for at in starts])
    many = At(Squares(), 2)
    options: Any = {"sample": many, "shuffle": "full", "memory_limit_bytes": 1 << 20}
    with streamer.get_batches("/x", 64, n_procs=1, **options) as batches:
        assert len(batches) == 10**9 // 64
        batch = next(iter(batches))
        numbers = _numbers(batches, 64)
    np.testing.assert_array_equal(batch, [X[at : at + 2] for at in numbers % 13 * 17])


def _numbers(batches: Any, count: int) -> np.ndarray:
    """The first samples of an epoch of which all numbers would be too many."""
    from _multitables import _core

    order = batches._streams.order(0)
    return np.asarray(_core.order_rows(order.words, b"", 0, count))


def test_ranges_are_ragged(streamer: Any) -> None:
    starts, stops = [0, 50, 230, 7], [10, 50, 240, 20]
    paths = {"x": "/x", "y": "/y"}
    with streamer.get_batches(paths, 3, sample=Ranges(starts, stops), n_procs=1) as batches:
        first, last = batches
    rows = [*first["x"].rows(), *last["x"].rows()]
    for got, begin, end in zip(rows, starts, stops, strict=True):
        np.testing.assert_array_equal(got, X[begin:end])
    np.testing.assert_array_equal(last["y"].values, Y[7:20])


@pytest.mark.parametrize("pad", [None, "edge"])
def test_no_clip_has_rows_of_two_files(tmp_path: Path, pad: Any) -> None:
    lengths, names, begin = [30, 0, 5, 65], list[Path](), 0
    for number, length in enumerate(lengths):
        names.append(tmp_path / f"{number}.h5")
        with h5py.File(names[-1], "w") as file:
            file.create_dataset(
                "x", data=X[begin : begin + length], chunks=(8, 3), maxshape=(None, 3)
            )
            file["lengths"] = [length // 2, length - length // 2]
        begin += length
    for said, segments in [
        ({}, lengths),
        ({"lengths": "/lengths"}, [15, 15, 0, 0, 2, 3, 32, 33]),
        ({"lengths": [50, 50]}, [30, 0, 5, 15, 50]),
    ]:
        naive = NaiveClips(segments, {"x": [0, 1, 2, 3]}, 2, 3, pad is not None)
        sample = Clips(4, stride=2, every=3, pad=pad, **said)
        with multitables.Streamer(names).get_batches("x", 7, sample=sample, n_procs=1) as batches:
            found = np.concatenate(list(batches))
        wanted = [naive.sample("x", X, clip, pad)[0] for clip in naive.starts()]
        np.testing.assert_array_equal(found, wanted)
    with pytest.raises(OptionsError, match="offsets of segments cannot be taken from several"):
        next(
            iter(
                multitables.Streamer(names).get_batches("x", 7, sample=Clips(4, offsets="lengths"))
            )
        )


def test_offsets_leave_rows_out(streamer: Any) -> None:
    for offsets in ("/offsets", [10, 60, 60, 200]):
        sample = Clips(3, every=50, offsets=offsets)
        with streamer.get_batches("/x", 9, sample=sample, n_procs=1) as batches:
            (found,) = batches
        np.testing.assert_array_equal(found[:, 0], X[[10, 60, 110, 160]])


@pytest.mark.parametrize(
    ("said", "match"),
    [
        (lambda: Clips(0), "steps is out of range"),
        (lambda: Clips(2, before=2), "before must be less than steps"),
        (lambda: Clips(2, stride=(3, 2)), "stride must ascend"),
        (lambda: Clips(2, stride=(1, 2, 3)), "one number or two"),  # type: ignore[arg-type]
        (lambda: Clips(2, lengths=[1], offsets=[1]), "cannot be given with lengths"),
        (lambda: Clips(2, lengths=[1.5]), "whole numbers"),  # type: ignore[list-item]
        (lambda: Clips(2, pad="wrap"), "pad must be"),
        (lambda: Clips(2, mask=True), "mask needs pad"),
        (lambda: Clips(2, draws=3), "draws needs starts"),
        (lambda: Clips(2, starts="all"), "starts must be one of"),
        (lambda: Clips(2, per_path={"x": []}), "takes no row"),
        (lambda: At(3, 1), "starts must be whole numbers, or have a length"),
        (lambda: At([0.5], 1), "starts must be .* whole numbers"),
        (lambda: At([1], []), "takes no row"),
        (lambda: Ranges([1.5], [2]), "whole numbers"),  # type: ignore[list-item]
    ],
)
def test_what_no_sample_can_be(said: Any, match: str) -> None:
    with pytest.raises(OptionsError, match=match):
        said()


@pytest.mark.parametrize(
    ("path", "said", "match"),
    [
        ("/x", {"sample": 3}, "sample must say what a sample is"),
        ("/x", {"sample": Clips(241)}, "no clip fits into a segment .expected 241 rows, got 240"),
        ("/x", {"sample": At([239], 2)}, "sample 0 lies outside the dataset"),
        ("/x", {"sample": At([-1], 2)}, "sample 0 lies outside the dataset"),
        ("/x", {"sample": Clips(2, lengths=[3])}, "belong to no row"),
        ("/x", {"sample": Clips(2, lengths=[300])}, "lies beyond|beyond the elements"),
        ("/x", {"sample": Clips(2, lengths="/text")}, "has no lengths"),
        ("/x", {"sample": Clips(2, per_path={"x": 2})}, "per_path names no path"),
        ("/x", {"sample": Clips(2, pad=0, mask="m")}, "mask must be True"),
        ({"x": "/x"}, {"sample": Clips(2, pad=0, mask="x")}, "a key beside those"),
        ({"x": "/x", "y": "/y"}, {"sample": At([1], {"x": 1})}, "take lacks a path"),
        ("/x", {"sample": Clips(2, starts="uniform", draws=240)}, "draws exceeds"),
        ("/x", {"sample": Ranges([1], [241])}, "beyond the elements"),
        ("/x", {"sample": Clips(2), "inner": 1}, "inner cannot be given with sample"),
        ("/x", {"sample": Clips(2), "share": "node"}, "share cannot be given"),
        ("/x", {"sample": Clips(2), "skip_damaged": True}, "skip_damaged cannot be given"),
        (["/x", "/lengths"], {"sample": Clips(2)}, "differ in length"),
    ],
)
def test_what_data_has_no_samples_of(streamer: Any, path: Any, said: Any, match: str) -> None:
    with pytest.raises(multitables.MultitablesError, match=match):
        next(iter(streamer.get_batches(path, 4, **said)))
