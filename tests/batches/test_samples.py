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
from _multitables import options, sizes
from _multitables.plan import reader_options
from multitables import At, Clips, OptionsError, Patches, Ranges, Weights

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

    order = batches._unit.order(0)
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
        (lambda: Clips(2, axis=-1), "axis is out of range"),
        (lambda: Clips(2, axis=1, offsets=[0, 3]), "offsets cannot be given with an axis"),
        (lambda: Clips(2, draws=3), "draws needs starts"),
        (lambda: Clips(2, starts="all"), "starts must be one of"),
        (lambda: Clips(2, per_path={"x": []}), "takes no row"),
        (lambda: At(3, 1), "starts must be whole numbers, or have a length"),
        (lambda: At([0.5], 1), "starts must be .* whole numbers"),
        (lambda: Weights([1], of="row"), "of must be one of"),
        (Weights, "must be numbers or a path"),
        (lambda: Weights({1: 2}), "must be numbers or a path"),
        (lambda: Weights([1], labels="/y"), "must be by label"),
        (lambda: Weights("/y", of="file"), "of a file must be numbers"),
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
        ("/x", {"draws": 3}, "draws needs weights"),
        ("/x", {"weights": [1, -1]}, "finite numbers from 0 on"),
        ("/x", {"weights": ["a"]}, "finite numbers from 0 on"),
        ("/x", {"weights": [1, 1]}, "one for each sample .expected 240, got 2"),
        ("/x", {"weights": np.zeros(N)}, "draw no sample"),
        ("/x", {"weights": "/text"}, "finite numbers from 0 on"),
        ("/x", {"weights": "/x"}, "has no weights"),
        ("/x", {"weights": "/lengths"}, "one for each row .expected 240, got 6"),
        ("/x", {"weights": Weights([1], of="segment")}, "needs Clips"),
        ("/x", {"weights": Weights([1, 1], of="file")}, "one for each file .expected 1, got 2"),
        ("/x", {"weights": Weights({"b": 1}, labels="/text")}, "lack a label: expected 'a'"),
        ("/x", {"weights": [1], "rows": [1]}, "rows cannot be given with weights"),
        ("/x", {"weights": [1], "sample": Ranges([1], [2])}, "cannot be given with Ranges"),
        ("/x", {"weights": [1], "sample": Clips(2, starts="uniform")}, "given with starts"),
        ("/x", {"sample": Clips(2), "inner": 3}, "inner lies outside axis 1"),
        ("/x", {"sample": Clips(2, axis=2)}, "has no axis 2 for clips"),
        (["/x", "/y"], {"sample": Clips(2, axis=1)}, "'/y' .*has no axis 1 .*got 1 axes"),
        ("/x", {"sample": Clips(4, axis=1)}, "no clip fits into a segment .expected 4 rows, got 3"),
        ("/x", {"sample": Clips(2, axis=1, lengths=[3])}, "one for each row .expected 240, got 1"),
        ("/x", {"sample": Clips(2, axis=1, lengths=[4] * N)}, "expected at most 3, got 4"),
        (["/x", "/lengths"], {"sample": Clips(2)}, "differ in length"),
    ],
)
def test_what_data_has_no_samples_of(streamer: Any, path: Any, said: Any, match: str) -> None:
    with pytest.raises(multitables.MultitablesError, match=match):
        next(iter(streamer.get_batches(path, 4, **said)))


def rows_of(streamer: Any, batch_size: int = 50, **options: Any) -> np.ndarray:
    """The numbers of the rows, or of the first rows of samples, of an epoch."""
    with streamer.get_batches("/y", batch_size, n_procs=1, seed=4, **options) as batches:
        found = np.concatenate(list(batches))
    return (found if found.ndim == 1 else found[:, 0]).astype(int) // 7


LABELS = np.arange(N) % 3
LENGTHS = np.array([100, 0, 1, 39, 60, 40])
SEGMENTS = np.repeat(np.arange(6), LENGTHS)


@pytest.mark.parametrize(
    ("weights", "group", "wanted"),
    [
        (np.arange(N) < 60, lambda row: row < 60, {True: 1.0}),
        (Weights({0: 6, 1: 0, 2: 2}, labels=LABELS), lambda row: row % 3, {0: 0.75, 2: 0.25}),
        (Weights(labels=LABELS == 0), lambda row: row % 3 == 0, {True: 0.5, False: 0.5}),
        (Weights([5], of="file"), lambda row: row < N, {True: 1.0}),
    ],
)
def test_rows_are_drawn_by_weight(streamer: Any, weights: Any, group: Any, wanted: Any) -> None:
    rows = rows_of(streamer, weights=weights, draws=1200)
    assert rows.shape == (1200,)
    assert (np.diff(rows) >= 0).all()
    found = {name: np.mean(group(rows) == name) for name in wanted}
    assert found == pytest.approx(wanted, abs=0.06)
    shuffled = rows_of(streamer, 7, weights=weights, draws=1200, shuffle=True)
    assert sorted(shuffled) == sorted(rows)
    assert (shuffled != rows).any()


def test_clips_are_drawn_by_segment_and_by_file(streamer: Any, tmp_path: Path) -> None:
    sample = Clips(4, lengths="/lengths")
    weights = Weights([1, 5, 5, 0, 3, 0], of="segment")  # two have no clip
    rows = rows_of(streamer, sample=sample, weights=weights, draws=800)
    shares = np.bincount(SEGMENTS[rows], minlength=6) / 800
    np.testing.assert_allclose(shares, [0.25, 0, 0, 0, 0.75, 0], atol=0.06)
    names = [tmp_path / f"{number}.h5" for number in range(3)]
    for number, name in enumerate(names):
        with h5py.File(name, "w") as file:
            file["y"] = 7.0 * (np.arange(20 * (number + 1)) + 1000 * number)
    files = multitables.Streamer(names)
    weights = Weights([2, 0, 2], of="file")
    for sample_or_none in (None, Clips(3)):
        rows = rows_of(files, sample=sample_or_none, weights=weights, draws=400)
        assert np.bincount(rows // 1000, minlength=3) / 400 == pytest.approx([0.5, 0, 0.5], abs=0.1)


def test_drawn_samples_go_on_with_other_ranks(streamer: Any) -> None:
    options: Any = {
        "weights": np.arange(N), "draws": 90, "epochs": 2, "n_procs": 1, "shuffle": "full",
    }  # fmt: skip
    with streamer.get_batches("/y", 8, **options) as batches:
        everything = np.concatenate(list(batches))
    assert len(everything) == 180
    assert sorted(everything[:90]) != sorted(everything[90:])
    with streamer.get_batches("/y", 8, **options) as batches:
        iterator = iter(batches)
        came = [next(iterator) for _ in range(5)]
        state = json.loads(json.dumps(batches.state_dict()))
    for rank in range(2):
        with streamer.get_batches("/y", 8, rank=rank, world_size=2, **options) as batches:
            batches.load_state_dict(state)
            came += list(batches)
    assert sorted(np.concatenate(came)) == sorted(everything)
    with (
        streamer.get_batches("/y", 8, **{**options, "weights": np.ones(N)}) as batches,
        pytest.raises(OptionsError, match="samples"),
    ):
        batches.load_state_dict(state)


@pytest.mark.usefixtures("few_filters")
@pytest.mark.filterwarnings("ignore::multitables.SlowFilterWarning")
def test_a_library_reads_samples_of_a_part(tmp_path: Path) -> None:
    data = np.arange(40 * 6 * 4, dtype="<i4").reshape(40, 6, 4)
    with h5py.File(tmp_path / "packed.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(8, 3, 4), scaleoffset=0)
    part = data[:, :5:2, ::-1]
    with multitables.Streamer(tmp_path / "packed.h5") as streamer:
        for sample, wanted in [
            (Clips(3), [part[at : at + 3] for at in range(38)]),
            (Clips(2, axis=1), [part[row, at : at + 2] for row in range(40) for at in range(2)]),
            (
                Clips(2, axis=2, stride=3),
                [part[row][:, [0, 3]] for row in range(40)],
            ),
            (At([[3, 1], [38, 0]], (2, 2)), [part[3:5, 1:3], part[38:, :2]]),
            (Patches((20, 3, 2)), [
                part[row : row + 20, :, at : at + 2] for row in (0, 20) for at in (0, 2)
            ]),
        ]:  # fmt: skip
            options: Any = {"sample": sample, "inner": np.s_[:5:2, ::-1], "n_procs": 1}
            with streamer.get_batches("x", 9, **options) as batches:
                found = np.concatenate(list(batches))
            assert sorted(map(bytes, found)) == sorted(np.array(one).tobytes() for one in wanted)


@pytest.mark.filterwarnings("ignore::multitables.AmplificationWarning")
@pytest.mark.parametrize("shuffle", ["chunks", "window", "full"])
def test_the_amplification_is_that_of_the_chunks(
    tmp_path: Path, shuffle: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The estimate is compared with what readers count, which keep the chunks of a window."""
    monkeypatch.setattr(options, "MIN_CACHE_BYTES", 0)
    monkeypatch.setattr(sizes, "RAGGED_FETCH_BYTES", 32 << 10)
    monkeypatch.setattr(reader_options, "MIN_CACHE_BYTES", 0)
    monkeypatch.setattr(reader_options, "MAX_CACHE_BYTES", 40 << 10)
    with h5py.File(tmp_path / "clips.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((4000, 8)), chunks=(20, 8), compression="gzip")
    for sample in (Clips(8), Clips(8, stride=5), Clips(8, every=8)):
        kwargs: Any = {"sample": sample, "shuffle": shuffle, "window_rows": 200, "n_procs": 1}
        kwargs["memory_limit_bytes"] = 1 << 18
        if shuffle != "window":
            del kwargs["window_rows"]
        with (
            multitables.Streamer(tmp_path / "clips.h5") as streamer,
            streamer.get_batches("x", 4, **kwargs) as batches,
        ):
            iterator = iter(batches)
            assert sum(map(len, iterator)) == len(batches.order(0))
            seen = iterator.statistics()
        counted = seen["cache_misses"] / 200
        assert counted / 1.35 <= seen["read_amplification"] <= counted * 1.35, (sample, counted)


def test_clips_that_reach_over_many_chunks_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(options, "MIN_CACHE_BYTES", 0)
    monkeypatch.setattr(sizes, "MAX_WINDOW_BYTES", 4 << 10)
    monkeypatch.setattr(sizes, "RAGGED_FETCH_BYTES", 4 << 10)
    with h5py.File(tmp_path / "clips.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((400, 8)), chunks=(1, 8), compression="gzip")
    with multitables.Streamer(tmp_path / "clips.h5") as streamer:
        kwargs: Any = {"sample": Clips(16), "n_procs": 1}
        with pytest.warns(multitables.AmplificationWarning, match="Let fewer overlap"):
            next(iter(streamer.get_batches("x", 4, shuffle="chunks", **kwargs)))
        next(iter(streamer.get_batches("x", 4, **kwargs)))
        each = Clips(16, every=16)
        next(iter(streamer.get_batches("x", 4, sample=each, shuffle="chunks", n_procs=1)))
