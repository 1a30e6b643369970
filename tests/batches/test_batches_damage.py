"""Batches that go on behind damaged chunks.

1. The oracle is the order less the rows of damaged chunks: all others come, each in its batch.
2. It holds for any shuffle, subset, rank, number of readers and driver, and across a resume.
3. Each damaged chunk is told of once. Damage without a chunk's address ends the stream.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import children

import multitables
from multitables import CorruptChunkError, CorruptChunkWarning

pytestmark = pytest.mark.usefixtures("few_filters")

ROWS = 600
#: Chunks of 20 x 3 of /x, of which row blocks 5 and 6 and the last are hurt; of 75 labels, one.
STEP, BAD_X, STEP_Y, BAD_Y = 20, {100: 3, 120: 0, 580: 3}, 75, {300: None}
LOST_X = {row for begin in BAD_X for row in range(begin, begin + STEP)}
LOST = LOST_X | set(range(300, 375))
DIRECT = {"DRIVER": "H5FD_DIRECT"}


def data() -> np.ndarray:
    return np.arange(ROWS * 5, dtype="<i4").reshape(ROWS, 5)


@pytest.fixture
def hurt(h5: Path) -> Path:
    """``/x`` and ``/y``, row by row their numbers, with damaged chunks; ``/ok`` without."""
    with h5py.File(h5, "w") as file:
        x = file.create_dataset("x", data=data(), chunks=(STEP, 3), fletcher32=True)
        y = file.create_dataset("y", data=-np.arange(ROWS), chunks=(STEP_Y,), compression="gzip")
        file.create_dataset("ok", data=np.arange(ROWS), chunks=(64,))
        places = [x.id.get_chunk_info_by_coord(bad).byte_offset + 40 for bad in BAD_X.items()]
        places += [y.id.get_chunk_info_by_coord((bad,)).byte_offset for bad in BAD_Y]
    with h5.open("r+b") as raw:
        for place in places:
            raw.seek(place)
            raw.write(b"\x5a\x5a\xa5\x5a")
    return h5


def batches_of(path: Path, *args: Any, driver: dict[str, Any] | None = None, **options: Any) -> Any:
    streamer = multitables.Streamer(path, **(driver or {}))
    return streamer.get_batches(*args, **{"skip_damaged": True, "n_procs": 2, **options})


def expected(rows: np.ndarray, size: int, lost: set[int]) -> list[list[int]]:
    """One epoch's batches: what is left of each, where anything is."""
    cut = [rows[at : at + size].tolist() for at in range(0, len(rows), size)]
    kept = [[row for row in batch if row not in lost] for batch in cut]
    return [batch for batch in kept if batch]


def numbers(x: Any) -> list[int]:
    """The rows of a batch of ``/x``, each of which is whole."""
    np.testing.assert_array_equal(x, data()[x[:, 0] // 5])
    return (x[:, 0] // 5).tolist()


@pytest.mark.parametrize("shuffle", [None, "chunks", "window", "full"])
@pytest.mark.parametrize("driver", [{}, DIRECT], ids=["buffered", "direct"])
@pytest.mark.parametrize("n_procs", [0, 1, 3])
def test_every_other_row_comes(hurt: Path, shuffle: Any, driver: Any, n_procs: int) -> None:
    options = {"shuffle": shuffle, "window_rows": 80, "epochs": 2, "n_procs": n_procs}
    with batches_of(hurt, {"x": "/x", "y": "/y"}, 30, driver=driver, **options) as batches:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = []
            for batch in batches:
                found.append(numbers(batch["x"]))
                np.testing.assert_array_equal(batch["y"], -np.array(found[-1]))
        wanted = [expected(batches.order(epoch), 30, LOST) for epoch in range(2)]
        assert found == [*wanted[0], *wanted[1]]
        places = [("/x", (row, column)) for row, column in BAD_X.items()]
        places += [("/y", (row,)) for row in BAD_Y]
        assert sorted((one.path, one.chunk_offset) for one in batches.damage) == sorted(places)
    assert {one.category for one in told} == {CorruptChunkWarning}
    assert {one.filename for one in told} == {__file__}
    messages = [str(one.message) for one in told]
    assert sorted(one.message.rows for one in told) == sorted(
        [(row, row + STEP) for row in BAD_X] + [(row, row + STEP_Y) for row in BAD_Y]
    )
    assert sum("Rows 120:140 are left out; other chunks are not affected." in m for m in messages)
    assert all("Copy the file again" in text and "skip_damaged" not in text for text in messages)
    assert children() == {}


def test_without_being_asked(hurt: Path) -> None:
    with batches_of(hurt, "/x", 30, shuffle=True, skip_damaged=False) as batches:
        with pytest.raises(CorruptChunkError, match=r"leave out the rows.*skip_damaged=True"):
            list(batches)
        assert batches.damage == []


def test_batches_that_lack_nothing_are_views(hurt: Path) -> None:
    with batches_of(hurt, "/x", 30) as batches, pytest.warns(CorruptChunkWarning):
        lengths = {len(batch): batch.base is not None for batch in batches}
    assert lengths[30]
    assert not lengths[10]


def test_a_batch_that_is_lost_whole(hurt: Path) -> None:
    with batches_of(hurt, ["/x", "/ok"], STEP) as batches:
        with pytest.warns(CorruptChunkWarning):
            found = [(numbers(x)[0], len(ok)) for x, ok in batches]
        assert len(batches) == ROWS // STEP  # as many as there would be
    assert found == [(row, STEP) for row in range(0, ROWS, STEP) if row not in BAD_X]


def test_damage_holds_no_batch(hurt: Path) -> None:
    with batches_of(hurt, "/ok", 1, read_ahead=2) as batches:
        assert len(list(map(len, batches))) == ROWS
    with batches_of(hurt, "/x", 1, read_ahead=2) as batches, pytest.warns(CorruptChunkWarning):
        assert len(list(map(len, batches))) == ROWS - len(LOST_X)


def test_loops_over_single_epochs(hurt: Path) -> None:
    """Streams that are left running for the next loop were begun before the damage was known."""
    with batches_of(hurt, "/x", 64, shuffle="window", window_rows=40) as batches:
        for epoch in range(4):
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                found = [numbers(batch) for batch in batches]
            assert found == expected(batches.order(epoch), 64, LOST_X)
            assert len(told) == (0 if epoch else len(BAD_X))


def test_a_warning_that_is_an_error(hurt: Path) -> None:
    """The loop ends, and another one goes on behind the damage."""
    found: list[list[int]] = []
    with batches_of(hurt, "/x", 30, epochs=1) as batches:
        steps = iter(batches)
        for number in (1, 2, 3):
            with pytest.raises(CorruptChunkWarning, match="are left out"):
                found += (numbers(batch) for batch in steps)
            assert len(batches.damage) == number
        found += (numbers(batch) for batch in steps)
        assert found == expected(batches.order(0), 30, LOST_X)


@pytest.mark.parametrize("shuffle", [None, "window", "full"])
@pytest.mark.parametrize("after", [1, 4, 9])
@pytest.mark.filterwarnings("ignore::multitables.CorruptChunkWarning")
def test_states_know_nothing_of_damage(hurt: Path, shuffle: Any, after: int) -> None:
    options = {"shuffle": shuffle, "window_rows": 80, "epochs": 2}
    with batches_of(hurt, "/x", 30, **options) as batches:
        steps = iter(batches)
        found = [numbers(next(steps)) for _ in range(after)]
        state = batches.state_dict()
        wanted = [*expected(batches.order(0), 30, LOST_X), *expected(batches.order(1), 30, LOST_X)]
        steps.close()
    with batches_of(hurt, "/x", 30, **options) as batches:
        batches.load_state_dict(state)
        found += [numbers(batch) for batch in batches]
    assert found == wanted


def test_a_library_reads_the_damage(h5: Path) -> None:
    """Nobody knows which of the bytes that a library was asked for were bad."""
    with h5py.File(h5, "w") as file:
        x = file.create_dataset("x", data=data(), chunks=(STEP, 5), scaleoffset=0, compression=4)
        place = x.id.get_chunk_info_by_coord((100, 0)).byte_offset
    with h5.open("r+b") as raw:
        raw.seek(place + 5)
        raw.write(b"\x5a\xa5")
    with batches_of(h5, "/x", 30) as batches:
        with pytest.raises(OSError, match="the h5py library failed") as caught:
            list(batches)
        assert not isinstance(caught.value, CorruptChunkError)
        assert batches.damage == []
    assert children() == {}


def test_other_errors_end_the_stream(hurt: Path) -> None:
    with batches_of(hurt, "/ok", 30, epochs=None) as batches:
        steps = iter(batches)
        next(steps)
        os.utime(hurt, ns=(1, 1))
        with pytest.raises(multitables.FileChangedError):
            list(steps)
    assert children() == {}


subsets = (
    st.none()
    | st.builds(slice, st.integers(0, 300), st.integers(300, ROWS), st.integers(1, 7))
    | st.lists(st.integers(0, ROWS - 1), min_size=1, max_size=200)
)


@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    shuffle=st.sampled_from([None, "chunks", "window", "full"]),
    window_rows=st.sampled_from([20, 60, 200]),
    rows=subsets,
    size=st.sampled_from([1, 17, 64, 1000]),
    world_size=st.integers(1, 3),
    even=st.booleans(),
    drop_last=st.booleans(),
    seed=st.integers(0, 9),
)
@pytest.mark.filterwarnings("ignore::multitables.CorruptChunkWarning")
def test_any_rank_of_any_rows(hurt: Path, size: int, world_size: int, **options: Any) -> None:
    for rank in range(world_size):
        given_ = {"rank": rank, "world_size": world_size, "epochs": 2, **options}
        with batches_of(hurt, ("/x", "/y"), size, **given_) as batches:
            found = [numbers(x) for x, _ in batches]
            wanted = [expected(batches.order(epoch), size, LOST) for epoch in range(2)]
        assert found == [*wanted[0], *wanted[1]]
