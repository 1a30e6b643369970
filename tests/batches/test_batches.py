"""Batches for training: epochs, shuffles, ranks, subsets, and what the iterator promises.

1. Every row says which row it is (`payload`), so each batch is checked by itself, and the rows of
   an epoch against `order`, which is pure.
2. The order itself is tested where it is made (test_batch_plan, the core's
   tables/shuffle/order.rs); here: that what it says arrives, once, and from the right epoch.
"""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import smooth
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numbered_batches import SHUFFLES, batches_of, collected, rows_of
from payload import COLUMNS, ROWS, content
from processes import readers, wait_until

import multitables

N = ROWS


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("n_procs", [1, 3])
def test_an_epoch_is_every_row_once_in_the_order_that_is_told(
    numbered: Path, shuffle: str | None, n_procs: int
) -> None:
    with batches_of(numbered, shuffle=shuffle, n_procs=n_procs, seed=3) as batches:
        found = collected(batches)
        assert [len(rows) for rows in found[:-1]] == [64] * (len(found) - 1)
        assert len(found) == -(-N // 64)
        rows = np.concatenate(found)
        np.testing.assert_array_equal(np.sort(rows), np.arange(N))
        np.testing.assert_array_equal(rows, batches.order(0))
        assert (shuffle is None) == bool((np.diff(rows) == 1).all())


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_epochs_in_one_iteration_and_one_by_one(numbered: Path, shuffle: str | None) -> None:
    with batches_of(numbered, 100, shuffle=shuffle, epochs=3, start_epoch=2) as together:
        assert together.epoch == 2
        at_once = np.concatenate(collected(together))
        assert together.epoch == 5
    with batches_of(numbered, 100, shuffle=shuffle, start_epoch=2) as batches:
        one_by_one = [np.concatenate(collected(batches)) for _ in range(3)]
        assert batches.epoch == 5
        batches.set_epoch(2)
        again = np.concatenate(collected(batches))
    np.testing.assert_array_equal(at_once, np.concatenate(one_by_one))
    np.testing.assert_array_equal(again, one_by_one[0])
    if shuffle is not None:
        assert (one_by_one[0] != one_by_one[1]).any()


def test_shuffles_by_other_names(numbered: Path) -> None:
    def order(shuffle: Any) -> np.ndarray:
        with batches_of(numbered, shuffle=shuffle) as batches:
            return batches.order()

    np.testing.assert_array_equal(order(True), order("window"))
    np.testing.assert_array_equal(order(False), order(None))


def test_without_end(numbered: Path) -> None:
    with batches_of(numbered, 1000, shuffle=True, epochs=None) as batches:
        with pytest.raises(TypeError, match="without end"):
            len(batches)
        iterator = iter(batches)
        for epoch in range(4):
            rows = np.concatenate([rows_of(next(iterator)) for _ in range(6)])
            np.testing.assert_array_equal(rows, batches.order(epoch))
        iterator.close()
        iterator.close()
        with pytest.raises(StopIteration):
            next(iterator)


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("rows", [slice(7, -5, 3), slice(200, 1500), "mask", "list", slice(0)])
def test_subsets(numbered: Path, shuffle: str | None, rows: Any) -> None:
    wanted = np.arange(N)
    if rows == "mask":
        rows = np.random.default_rng(1).random(N) < 0.2
    elif rows == "list":
        rows = [-1, 5, 5, 3, 2000, -N]
    wanted = np.sort(wanted[rows])
    with batches_of(numbered, 50, shuffle=shuffle, rows=rows, epochs=2) as batches:
        found = collected(batches)
        assert len(found) == 2 * -(-len(wanted) // 50)
        got = np.concatenate([*found, np.zeros(0, int)]).reshape(2, -1)
        for epoch in (0, 1):
            np.testing.assert_array_equal(np.sort(got[epoch]), wanted)
            np.testing.assert_array_equal(got[epoch], batches.order(epoch))
            if shuffle is None:
                np.testing.assert_array_equal(got[epoch], wanted)


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("path", ["/rows", "/raw"])
@pytest.mark.parametrize(
    "rows",
    [
        [3, 3, 5],
        [0, 0, 2] * 17,
        [*range(49), 48],
        [*range(49), 50],
        [*range(50), 49],
        [0, *range(50)],
    ],
)
def test_rows_that_come_twice(numbered: Path, shuffle: str | None, path: str, rows: Any) -> None:
    """As many rows as the chunk has, in a span as long, or all and one again."""
    with multitables.Streamer(numbered).get_batches(
        path, 60, shuffle=shuffle, rows=rows, n_procs=1
    ) as batches:
        np.testing.assert_array_equal(rows_of(next(iter(batches))), batches.order(0))
        assert sorted(batches.order(0)) == sorted(rows)


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"even": True}])
def test_ranks_share_an_epoch(
    numbered: Path, shuffle: str | None, options: dict[str, bool]
) -> None:
    parts = []
    for rank in range(3):
        with batches_of(numbered, 130, shuffle=shuffle, rank=rank, world_size=3, **options) as part:
            found = collected(part)
            assert len(found) == len(part)
            parts.append(np.concatenate(found))
            np.testing.assert_array_equal(parts[-1], part.order(0))
            if options.get("drop_last"):
                assert {len(rows) for rows in found} == {130}
    rows = np.concatenate(parts)
    if options.get("even"):
        assert {len(part) for part in parts} == {N // 3}
    if options.get("drop_last"):
        assert len(np.unique(rows)) == len(rows) == N // 130 * 130
    else:
        np.testing.assert_array_equal(np.sort(rows), np.arange(N))


def test_even_ranks_repeat_some_rows(numbered: Path) -> None:
    parts = []
    for rank in range(7):
        with batches_of(numbered, 100, shuffle=True, even=True, rank=rank, world_size=7) as part:
            parts.append(np.concatenate(collected(part)))
    assert {len(part) for part in parts} == {-(-N // 7)}
    assert set(np.concatenate(parts)) == set(range(N))


def test_a_rank_may_have_nothing(numbered: Path) -> None:
    with batches_of(numbered, 4000, rank=0, world_size=5, epochs=None) as batches:
        assert list(batches) == []
        assert len(batches.order()) == 0
    with batches_of(numbered, 4000, rank=4, world_size=5, epochs=2) as batches:
        assert len(np.concatenate(collected(batches))) == 2 * (N - 4000)


@pytest.mark.parametrize("kind", ["tuple", "dict"])
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_several_datasets_in_lock_step(numbered: Path, kind: str, shuffle: str | None) -> None:
    names = {"x": "/rows", "raw": "/raw", "y": "/labels"}
    path: Any = names if kind == "dict" else list(names.values())
    with multitables.Streamer(numbered).get_batches(
        path, 77, shuffle=shuffle, n_procs=2, window_rows=200, epochs=2
    ) as batches:
        seen = []
        for batch in batches:
            x, raw, y = batch.values() if kind == "dict" else batch
            rows = rows_of(x)
            np.testing.assert_array_equal(rows_of(raw), rows)
            np.testing.assert_array_equal(y, (-rows).astype(y.dtype))
            seen.append(rows)
        np.testing.assert_array_equal(
            np.concatenate(seen), np.concatenate([batches.order(0), batches.order(1)])
        )


def test_a_batch_larger_than_a_window_or_the_data(numbered: Path) -> None:
    with batches_of(numbered, 2500, shuffle="window", window_rows=50) as batches:
        assert [len(rows) for rows in collected(batches)] == [2500, 2500, 1000]
    with batches_of(numbered, 10 * N, shuffle="full") as batches:
        (rows,) = collected(batches)
        np.testing.assert_array_equal(np.sort(rows), np.arange(N))
    with batches_of(numbered, 10 * N, shuffle="full", drop_last=True) as batches:
        assert collected(batches) == []


def test_a_full_shuffle_in_little_memory(numbered: Path) -> None:
    small = 200 * COLUMNS * 8
    with batches_of(numbered, 64, shuffle="full", memory_limit_bytes=small) as batches:
        iterator = iter(batches)
        next(iterator)
        told = iterator.statistics()
        assert told["ring_bytes"] < 4 * small
        assert 20 < told["read_amplification"] <= 60
        iterator.close()
        np.testing.assert_array_equal(np.concatenate(collected(batches)), batches.order(0))
    with batches_of(numbered, 64, shuffle="full") as batches:
        orders = batches.order(0)
    with batches_of(numbered, 64, shuffle="full", memory_limit_bytes=small) as batches:
        np.testing.assert_array_equal(batches.order(0), orders)  # memory is no part of the order


def test_a_window_mixes_what_it_holds_and_nothing_else(numbered: Path) -> None:
    with batches_of(numbered, shuffle="window", window_rows=300, seed=1) as batches:
        windows = batches.order(0).reshape(-1, 300)
    for rows in windows:
        chunks, counts = np.unique(rows // 50, return_counts=True)
        assert len(chunks) == 6
        assert (counts == 50).all()
        assert (np.diff(rows) != 1).sum() > 250


def test_what_is_kept_stays(numbered: Path) -> None:
    with batches_of(numbered, 64, shuffle="window", read_ahead=40) as batches:
        kept = []
        for batch, at in zip(batches, range(30), strict=False):
            if at % 9 == 0:
                kept.append((batch, batch.copy()))
        for batch, copy in kept:
            np.testing.assert_array_equal(batch, copy)
        del batch
    for view, copy in kept:
        np.testing.assert_array_equal(view, copy)
        view[:] = 0  # it is the holder's to write


def test_batches_are_views_of_the_ring(numbered: Path) -> None:
    with batches_of(numbered, 64, shuffle="window") as batches:
        iterator = iter(batches)
        batch = next(iterator)
        ((begin, size, _),) = iterator.memory()
        address = batch.__array_interface__["data"][0]
        assert begin <= address
        assert address + batch.nbytes <= begin + size
        assert iterator.ready() >= 0
        iterator.close()
        assert iterator.memory() == []
        assert batches.statistics() == iterator.statistics() == {}


def test_transform_is_called_here(numbered: Path) -> None:
    def total(batch: np.ndarray) -> int:
        return int(batch.sum())

    with batches_of(numbered, 1000, transform=total) as batches:
        assert sum(batches) == content().sum()

    def fails(batch: np.ndarray) -> int:
        raise KeyError("mine")

    with (
        batches_of(numbered, 1000, transform=fails) as batches,
        pytest.raises(KeyError, match="mi"),
    ):
        next(iter(batches))


def test_readers_rest_between_epochs(numbered: Path) -> None:
    with batches_of(numbered, 100, shuffle=True) as batches:
        assert readers() == []
        collected(batches)
        before = readers()
        assert len(before) == 2
        collected(batches)
        assert readers() == before
    assert readers() == []


def fail_in_a_loop(batches: multitables.Batches) -> None:
    for _ in batches:
        raise ZeroDivisionError


def test_the_next_epoch_is_under_way_before_it_is_asked_for(numbered: Path) -> None:
    with batches_of(numbered, 100, shuffle=True) as batches:
        collected(batches)
        unit: Any = batches._unit
        assert unit.idle is None, "many go through their data once"
        for batch in batches:
            rows_of(batch)
        del batch
        (memory,) = {begin for begin, _, _ in unit.idle.stream.source.memory()}
        wait_until(lambda: unit.idle.stream.qsize() > 1, "read ahead")
        before = readers()
        third = iter(batches)
        rows = [rows_of(next(third))]
        assert [begin for begin, _, _ in third.memory()] == [memory]
        rows += map(rows_of, third)
        np.testing.assert_array_equal(np.concatenate(rows), batches.order(2))
        # Another epoch than the next one: the same readers, another stream.
        batches.set_epoch(7)
        np.testing.assert_array_equal(np.concatenate(collected(batches)), batches.order(7))
        assert readers() == before
        assert batches.statistics()["read_amplification"] == 1.0


def test_a_batch_of_the_epoch_before_is_held_into_the_next(numbered: Path) -> None:
    with batches_of(numbered, 100, shuffle="window") as batches:
        for held in batches:
            copy = held.copy()
        for _ in zip(batches, range(3), strict=False):
            np.testing.assert_array_equal(held, copy)


@pytest.mark.parametrize("leave", ["break", "drop", "error", "close"])
def test_leaving_in_the_middle_stops_the_readers(numbered: Path, leave: str) -> None:
    """They rest as after an epoch, and end with the batches."""
    batches = batches_of(numbered, 10, shuffle=True, epochs=None)
    if leave == "error":
        with pytest.raises(ZeroDivisionError):
            fail_in_a_loop(batches)
    else:
        iterator = iter(batches)
        next(iterator)
        if leave == "close":
            batches.close()
            with pytest.raises(multitables.ClosedError, match="closed"):
                iter(batches)
        elif leave == "drop":
            del batches
        del iterator
    gc.collect()
    if leave in ("break", "error"):
        before = readers()
        assert len(before) == 2
        again = iter(batches)
        assert rows_of(next(again)).tolist() == batches.order()[:10].tolist()
        assert readers() == before
        del again, batches
        gc.collect()
    assert readers() == []


def test_two_iterations_at_once(numbered: Path) -> None:
    with batches_of(numbered, 500, shuffle=True) as batches:
        for one, two in zip(batches, batches, strict=True):
            np.testing.assert_array_equal(one, two)
        del one, two


def test_nothing_is_opened_before_it_is_needed(tmp_path: Path) -> None:
    batches = multitables.Streamer(tmp_path / "none.h5").get_batches("/x", 3)
    with pytest.raises(FileNotFoundError):
        next(iter(batches))
    with pytest.raises(multitables.MissingFileError):
        len(batches)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"shuffle": "rows"}, "unknown shuffle"),
        ({"shuffle": 1}, "unknown shuffle"),
        ({"rank": 2, "world_size": 2}, "rank is out of range"),
        ({"rank": -1}, "rank is out of range"),
        ({"world_size": 0}, "world_size is out of range"),
        ({"epochs": 0}, "epochs is out of range"),
        ({"seed": -1}, "seed is out of range"),
        ({"seed": 2**63}, "seed is out of range"),
        ({"seed": 0.5}, "seed must be a whole number"),
        ({"start_epoch": -1}, "start_epoch is out of range"),
        ({"window_rows": 0}, "window_rows is out of range"),
        ({"memory_limit_bytes": 0}, "memory_limit_bytes is out of range"),
        ({"read_ahead": 0}, "read_ahead is out of range"),
        ({"n_procs": -1}, "n_procs is out of range"),
    ],
)
def test_options_that_cannot_work(numbered: Path, options: dict[str, Any], text: str) -> None:
    with pytest.raises(multitables.OptionsError, match=text):
        batches_of(numbered, 3, **options)


def test_other_arguments_that_cannot_work(numbered: Path) -> None:
    streamer = multitables.Streamer(numbered)
    with pytest.raises(multitables.OptionsError, match="batch_size"):
        streamer.get_batches("/rows", 0)
    with pytest.raises(multitables.OptionsError, match="path must be"):
        streamer.get_batches(3, 1)  # type: ignore[arg-type]
    with pytest.raises(multitables.OptionsError, match="rows lie outside"):
        next(iter(streamer.get_batches("/rows", 10, rows=[N])))
    with pytest.raises(multitables.OptionsError, match="does not fit into memory"):
        next(iter(streamer.get_batches("/rows", 2**40, shuffle=True)))
    with pytest.raises(multitables.OptionsError, match="epoch is out of range"):
        streamer.get_batches("/rows", 1).set_epoch(-1)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_all_options_together(numbered: Path, data: st.DataObject) -> None:
    draw = data.draw
    world_size = draw(st.integers(1, 4))
    options: dict[str, Any] = {
        "shuffle": draw(st.sampled_from(SHUFFLES)),
        "seed": draw(st.integers(0, 2**63 - 1)),
        "epochs": draw(st.integers(1, 2)),
        "start_epoch": draw(st.integers(0, 5)),
        "drop_last": draw(st.booleans()),
        "world_size": world_size,
        "rank": draw(st.integers(0, world_size - 1)),
        "even": draw(st.booleans()),
        "window_rows": draw(st.integers(1, 1000)),
        "read_ahead": draw(st.none() | st.integers(1, 20)),
        "memory_limit_bytes": draw(st.integers(10_000, 4_000_000)),
        "rows": draw(st.sampled_from([None, slice(50, 4000, 7), slice(1, 3000), [9, 77, 5000]])),
    }
    size = draw(st.integers(1, 700))
    with batches_of(numbered, size, **options) as batches:
        wanted = [batches.order(options["start_epoch"] + at) for at in range(options["epochs"])]
        n_batches = len(batches)
        found = collected(batches)
    assert len(found) == n_batches
    np.testing.assert_array_equal(
        np.concatenate([*found, np.zeros(0, int)]), np.concatenate(wanted)
    )


def test_labels_in_large_chunks_are_decoded_once_by_each_reader(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((4000, 64)), chunks=(20, 64), compression="gzip")
        file.create_dataset("y", data=np.arange(4000), chunks=(1000,), compression="gzip")
    with multitables.Streamer(h5).get_batches(
        ["x", "y"], 50, shuffle="window", window_rows=200, n_procs=1, epochs=2
    ) as batches:
        iterator = iter(batches)
        seen = []
        for x, y in iterator:
            np.testing.assert_array_equal(x[:, 0], smooth((4000, 64))[y, 0])
            seen.append(y.copy())
            told = iterator.statistics()
        np.testing.assert_array_equal(np.sort(np.concatenate(seen)), np.repeat(np.arange(4000), 2))
    assert told["readers"][0]["chunks"] == 2 * 200 + 4
