"""Rows and inner axes that are selected: what NumPy shows of h5py's data, and no more is fetched.

1. Every entry point, shuffle and layout delivers what NumPy's indexing of all rows gives.
2. Chunks of which nothing is selected are not fetched, as the readers' counters tell.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from inner_selections import a_selection, some_rows
from oracle import h5py_read, same

import multitables
from _multitables.index.datasets.source import Source
from _multitables.index.files.device import refuses_direct
from multitables import CorruptChunkError, OptionsError, Streamer

DTYPES = [np.dtype(kind) for kind in ("u1", ">i4", "S5", [("a", "<i2"), ("b", ">f4", (2,))])]
N_ROWS = 41


def write(path: Path, dtype: np.dtype, inner: tuple[int, ...], chunks: tuple[int, ...]) -> None:
    """The same rows in every layout; of "some" only a part was ever stored."""
    shape = (N_ROWS, *inner)
    data = values(dtype, shape)
    with h5py.File(path, "w") as file:
        file["contiguous"] = data
        file.create_dataset("chunked", data=data, chunks=chunks)
        file.create_dataset("compressed", data=data, chunks=chunks, compression="gzip")
        some = file.create_dataset("some", shape, dtype, chunks=chunks)
        some[3:11, ..., : 1 + inner[-1] // 2] = data[3:11, ..., : 1 + inner[-1] // 2]
        file.create_dataset("never", shape, dtype, chunks=chunks)
        file["numbers"] = np.arange(N_ROWS)


def queued(streamer: Streamer, path: Any, **options: Any) -> tuple[list[Any], dict[str, Any]]:
    """The blocks of a stream, and its statistics."""
    blocks = []
    with streamer.get_queue(path, **{"n_procs": 2, "remainder": True, **options}) as queue:
        for guard in queue:
            with guard as block:
                blocks.append(copied(block))
            del block, guard
        return blocks, queue.statistics()


def copied(block: Any) -> Any:
    return tuple(map(np.copy, block)) if isinstance(block, tuple) else block.copy()


def joined(blocks: list[np.ndarray], like: np.ndarray) -> np.ndarray:
    """Not `np.concatenate`, which makes byte orders native."""
    rows = np.empty((sum(map(len, blocks)), *like.shape[1:]), like.dtype)
    at = 0
    for block in blocks:
        assert (block.dtype, block.shape[1:]) == (like.dtype, like.shape[1:])
        rows[at : at + len(block)] = block
        at += len(block)
    return rows


def total(statistics: dict[str, Any], name: str) -> int:
    return sum(reader[name] for reader in statistics["readers"])


@pytest.fixture(params=["core", "direct", "library"])
def opened_as(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """How a file is opened so that its rows come this way."""
    if request.param == "library":
        monkeypatch.setattr(Source, "_reason", lambda *_: "a test wants it")
    return {"DRIVER": "H5FD_DIRECT"} if request.param == "direct" else {}


@pytest.mark.hang(180)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.data())
def test_what_is_delivered(h5: Path, opened_as: dict[str, Any], data: st.DataObject) -> None:
    inner = tuple(data.draw(st.lists(st.integers(1, 9), min_size=1, max_size=3)))
    dtype = data.draw(st.sampled_from(DTYPES))
    chunks = tuple(data.draw(st.integers(1, min(16, dim))) for dim in (N_ROWS, *inner))
    write(h5, dtype, inner, chunks)
    if opened_as and refuses_direct(os.fspath(h5)):
        pytest.skip("this file system has no direct I/O")
    rows, selection = data.draw(some_rows(N_ROWS)), data.draw(a_selection(inner))
    shuffle = data.draw(st.sampled_from([None, "chunks", "window", "full"]))
    with Streamer(h5, **opened_as) as streamer:
        for name in ("contiguous", "chunked", "compressed", "some", "never"):
            want = h5py_read(h5, name)[(slice(None), *selection)]
            size = data.draw(st.integers(1, 50))
            chosen = {"rows": rows, "inner": selection}
            blocks, told = queued(streamer, name, block_size=size, **chosen)
            same(joined(blocks, want[rows]) if want[rows].size else None, want[rows])
            assert bool(told["library"]) == ("a test wants it" in told["library"].values())
            with streamer.get_batches(name, size, n_procs=2, shuffle=shuffle, **chosen) as made:
                order = made.order()
                batches = [batch.copy() for batch in made]
            same(joined(batches, want) if want[order].size else None, want[order])


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Noise in chunks that are too far apart to be fetched together."""
    path = tmp_path_factory.mktemp("selections") / "data.h5"
    noise = np.random.default_rng(1).integers(0, 256, (60, 90, 400), np.uint8)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=noise, chunks=(10, 30, 100), compression="gzip")
        file.create_dataset("y", data=np.arange(60))
        file.create_dataset("plain", data=np.repeat(noise, 10, axis=1))
        table = np.zeros((60, 8), [("a", "<i4"), ("b", "<f8")])
        table["a"] = np.arange(480).reshape(60, 8)
        file.create_dataset("table", data=table, chunks=(16, 3))
    return path


#: Rows and inner axes, and the chunks of 6 x 3 x 4 that have any of them.
FETCHED: list[tuple[Any, Any, int]] = [
    (slice(None), np.s_[..., :100], 6 * 3),
    (slice(None), np.s_[..., 99:101], 6 * 3 * 2),
    (slice(None), np.s_[31], 6 * 4),
    (slice(None), np.s_[10:20, ::300], 6 * 2),
    (slice(None), np.s_[::-89, ::-150], 6 * 2 * 3),
    (slice(0, 40), np.s_[0, 0], 4),
    (slice(None, None, 20), np.s_[..., 5], 3 * 3),
    (slice(9, 11), ..., 2 * 12),
    ([0, 59], np.s_[:30, :100], 2),
    (np.arange(60) % 30 == 7, ..., 2 * 12),
    (slice(None, None, 10), np.s_[5:5], 0),
]


@pytest.mark.parametrize(("rows", "inner", "chunks"), FETCHED)
@pytest.mark.parametrize("entry", ["queue", "batches", "window"])
def test_only_what_is_needed_is_fetched(
    images: Path, entry: str, rows: Any, inner: Any, chunks: int
) -> None:
    with h5py.File(images, "r") as file:
        data = file["x"]
        want = data[()][(slice(None), *(inner if isinstance(inner, tuple) else (inner,)))]
        stored = sorted(data.id.get_chunk_info(n).size for n in range(72))
    streamer = Streamer(images)
    if entry == "queue":
        blocks, told = queued(streamer, "/x", rows=rows, inner=inner)
        if want.size:
            same(joined(blocks, want), want[rows])
    else:
        shuffle = None if entry == "batches" else entry
        with streamer.get_batches(
            "/x", 7, n_procs=2, shuffle=shuffle, rows=rows, inner=inner
        ) as made:
            iterator = iter(made)
            for batch in iterator:
                told = iterator.statistics()
                del batch
    assert total(told, "chunks") == chunks
    # What lies between two of them may be read along, but no other chunk.
    fetched = total(told, "fetched_bytes")
    assert sum(stored[:chunks]) <= fetched <= sum(stored[72 - chunks :]) + 16_000 * chunks
    assert total(told, "decoded_bytes") == chunks * 10 * 30 * 100
    assert told["ring_bytes"] <= 2 * 4096 + 60 * want[0].nbytes


@pytest.mark.parametrize("options", [{}, {"DRIVER": "H5FD_DIRECT"}])
def test_contiguous_rows_are_fetched_in_part(images: Path, options: dict[str, Any]) -> None:
    if options and refuses_direct(os.fspath(images)):
        pytest.skip("this file system has no direct I/O")
    want = h5py_read(images, "plain")[:, 300:500, ::7]
    blocks, told = queued(Streamer(images, **options), "/plain", inner=np.s_[300:500, ::7])
    same(joined(blocks, want), want)
    assert total(told, "fetched_bytes") == 60 * 200 * 400
    with Streamer(images, **options).get_batches(
        "/plain", 9, n_procs=2, shuffle="full", inner=np.s_[300:500, ::7]
    ) as made:
        order = made.order()
        same(np.concatenate(list(made)), want[order])


def test_datasets_have_selections_of_their_own(images: Path) -> None:
    streamer, want = Streamer(images), h5py_read(images, "x")
    inner: Any
    for inner in ([np.s_[:, 7], None], [np.s_[:, 7], ...]):
        blocks, _ = queued(streamer, ["/x", "/y"], rows=slice(1, None, 4), inner=inner)
        same(np.concatenate([x for x, _ in blocks]), want[1::4, :, 7])
        assert np.concatenate([y for _, y in blocks]).tolist() == list(range(1, 60, 4))
    with streamer.get_batches(
        {"x": "/x", "y": "/y"}, 60, shuffle=True, n_procs=2, inner={"x": np.s_[2, 3:5]}
    ) as made:
        (batch,) = made
        same(batch["x"], want[batch["y"], 2, 3:5])
        del batch
    with pytest.raises(OptionsError, match="inner does not fit '/y': expected at most 0 axes"):
        streamer.get_queue(["/x", "/y"], inner=3)


def test_a_column_of_selected_elements(images: Path, opened_as: dict[str, Any]) -> None:
    want = h5py_read(images, "table")["a"]
    streamer = Streamer(images, **opened_as)
    for rows, inner in ((slice(3, None, 5), np.s_[::-3]), (slice(9, 40), 5), (None, np.s_[2:])):
        blocks, _ = queued(streamer, "/table", field="a", rows=rows, inner=inner)
        same(np.concatenate(blocks), want[rows or slice(None), inner])


def test_the_generator_and_the_remainder(images: Path) -> None:
    streamer, want = Streamer(images), h5py_read(images, "x")[2::3, 1, ::50]
    chosen: dict[str, Any] = {"rows": slice(2, None, 3), "inner": np.s_[1, ::50]}
    same(np.array(list(streamer.get_generator("/x", n_procs=1, **chosen))), want)
    same(streamer.get_remainder("/x", 8, **chosen), want[16:])
    same(streamer.get_remainder("/x", 10, **chosen), want[:0])
    whole, _ = queued(streamer, "/x", block_size=8, remainder=False, **chosen)
    same(np.concatenate(whole), want[:16])


@pytest.mark.parametrize("rows", [slice(4, None, 7), slice(7, 15), [0, 0, 59]])
def test_rows_without_end(images: Path, rows: Any) -> None:
    """Blocks go on in the next lap, and may be longer than one."""
    lap = np.arange(60)[rows].tolist()
    for size in (2, 5, 20):
        with Streamer(images).get_queue(
            "/y", n_procs=2, cyclic=True, block_size=size, rows=rows
        ) as queue:
            seen: list[int] = []
            for guard in queue:
                with guard as block:
                    assert len(block) == size
                    seen += block.tolist()
                del block, guard
                if len(seen) > 60:
                    break
        assert seen == (lap * 61)[: len(seen)]


def test_going_on_with_selected_rows(images: Path) -> None:
    def batches() -> multitables.Batches:
        return Streamer(images).get_batches(
            "/x", 7, n_procs=2, shuffle="window", seed=3, inner=np.s_[..., :2], rows=slice(0, 50, 2)
        )

    def rows(made: Any) -> Iterator[bytes]:
        for batch in made:
            yield from (row.tobytes() for row in batch)
            del batch

    with batches() as first:
        all_rows = list(rows(first))
    with batches() as left:
        for number, batch in enumerate(left):
            del batch
            if number == 1:
                state = left.state_dict()
                break
    with batches() as again:
        again.load_state_dict(state)
        assert list(rows(again)) == all_rows[14:]


def test_a_damaged_chunk_that_is_not_needed(images: Path, tmp_path: Path) -> None:
    """It is not looked at; one that is needed is told with its place in the whole dataset."""
    path = tmp_path / "damaged.h5"
    data = bytearray(images.read_bytes())
    with h5py.File(images, "r") as file:
        info = file["x"].id.get_chunk_info_by_coord((20, 30, 300))
    data[info.byte_offset + 2 : info.byte_offset + info.size] = bytes(info.size - 2)
    path.write_bytes(data)
    want = h5py_read(images, "x")
    blocks, _ = queued(Streamer(path), "/x", inner=np.s_[..., :300])
    same(np.concatenate(blocks), want[..., :300])
    chosen: dict[str, Any] = {"inner": np.s_[40, ::150]}
    for options in (chosen, chosen | {"rows": slice(0, 60, 5)}):
        with pytest.raises(CorruptChunkError) as caught:
            queued(Streamer(path), "/x", **options)
        assert caught.value.values["chunk_offset"] == (20, 30, 300)
        assert caught.value.values["byte_offset"] == info.byte_offset
    with Streamer(path).get_batches("/x", 60, n_procs=1, skip_damaged=True, **chosen) as made:
        with pytest.warns(multitables.CorruptChunkWarning, match=r"chunk \(20, 30, 300\)"):
            (batch,) = made
        same(batch, np.delete(want[:, 40, ::150], range(20, 30), axis=0))
        del batch


def test_handles_lead_to_selections(images: Path) -> None:
    want = h5py_read(images, "x")[::6, 3]
    with multitables.open(images) as file:
        chosen: dict[str, Any] = {"n_procs": 1, "rows": slice(None, None, 6), "inner": 3}
        with file["x"].stream(remainder=True, **chosen) as queue:
            blocks = []
            for guard in queue:
                with guard as block:
                    blocks.append(block.copy())
                del block, guard
        same(np.concatenate(blocks), want)
        with file["x"].batches(100, **chosen) as batches:
            (batch,) = batches
            same(batch, want)
            del batch


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        (60, "rows must be a slice, integers or a boolean mask"),
        ([0, 60], "rows lie outside the dataset: expected -60:60, got 0 to 60"),
        (np.ones(59, bool), "the mask of rows has another length"),
    ],
)
def test_bad_rows(images: Path, rows: Any, says: str) -> None:
    with pytest.raises(OptionsError, match=says):
        Streamer(images).get_queue("/x", n_procs=1, rows=rows)
