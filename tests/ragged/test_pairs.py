"""Offsets with flat data: queues, rows, batches, shuffles, ranks and resume, against h5py."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from ragged_files import N_COLUMNS, same_rows, write_sparse

import multitables
from _multitables import options, sizes
from multitables import Ragged, RaggedBlock, Streamer

X = Ragged("/X/data", "/X/indptr", indices="/X/indices", n_columns=N_COLUMNS)
SHUFFLES = [None, "chunks", "window", "full"]


@pytest.fixture(scope="module")
def sparse(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Any]]:
    path = tmp_path_factory.mktemp("sparse") / "sparse.h5"
    return path, write_sparse(path, compression="gzip")


def rows_of(blocks: list[RaggedBlock]) -> list[Any]:
    return [row for block in blocks for row in block.rows()]


@pytest.mark.parametrize("stored", [{}, {"chunk": None}, {"chunk": 7, "shuffle": True}])
@pytest.mark.parametrize("size", [None, 1, 37, 10_000])
def test_a_queue(tmp_path: Path, stored: dict[str, Any], size: int | None) -> None:
    rows = write_sparse(tmp_path / "a.h5", 150, **stored)
    got = []
    stream = Streamer(tmp_path / "a.h5").get_queue(X, 2, block_size=size, remainder=True)
    for guard in stream:
        with guard as block:
            assert isinstance(block, RaggedBlock)
            assert block.offsets.dtype == np.int64
            assert len(block) <= stream.block_size
            got += block.copy().rows()
    same_rows(got, rows)
    assert stream.get() is multitables.QueueClosed


def test_blocks_beside_others(sparse: tuple[Path, list[Any]]) -> None:
    path, rows = sparse
    data = {"X": X, "label": "/label", "wide": "/wide", "flat": Ragged("/X/data", "/X/indptr")}
    done = 0
    for guard in Streamer(path).get_queue(data, 2, block_size=64):
        with guard as block:
            assert list(block) == list(data)
            np.testing.assert_array_equal(block["label"], np.arange(done, done + 64))
            np.testing.assert_array_equal(block["wide"][:, 0], 3.0 * block["label"])
            same_rows(block["X"].rows(), rows[done : done + 64])
            same_rows(block["flat"].rows(), [values for values, _ in rows[done : done + 64]])
            done += 64
    assert done == len(rows) // 64 * 64


def test_several_flat_datasets(sparse: tuple[Path, list[Any]]) -> None:
    path, rows = sparse
    pair = Ragged({"data": "/X/data", "at": "/points"}, "/X/indptr")
    got = list(Streamer(path).get_generator(pair, 1))
    same_rows([row["data"] for row in got], [values for values, _ in rows])
    with h5py.File(path) as file:
        np.testing.assert_array_equal(np.concatenate([row["at"] for row in got]), file["points"])


def test_rows_and_the_tail(sparse: tuple[Path, list[Any]]) -> None:
    path, rows = sparse
    same_rows(list(Streamer(path).get_generator(X, 1, block_size=33)), rows)
    tail = Streamer(path).get_remainder(X, 33)
    same_rows(tail.rows(), rows[len(rows) // 33 * 33 :])
    assert Streamer(path).get_remainder(X, len(rows)).rows() == []


def test_an_endless_queue(sparse: tuple[Path, list[Any]]) -> None:
    path, rows = sparse
    with Streamer(path).get_queue(X, 1, cyclic=True, block_size=300) as stream:
        got = []
        for _ in range(7):
            with stream.get() as block:
                got += block.copy().rows()
        assert stream.endless
    same_rows(got, (rows * 3)[: len(got)])


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("options", [{}, {"rows": slice(3, None, 2)}, {"rows": [5, 5, 600, 8]}])
def test_batches(
    sparse: tuple[Path, list[Any]], shuffle: str | None, options: dict[str, Any]
) -> None:
    path, rows = sparse
    data = (X, "/label")
    with Streamer(path).get_batches(
        data, 50, n_procs=2, shuffle=shuffle, epochs=2, **options
    ) as batches:
        got = list(batches)
        order = np.concatenate([batches.order(0), batches.order(1)])
        assert len(got) == 2 * len(batches) // 2
    np.testing.assert_array_equal(np.concatenate([label for _, label in got]), order)
    same_rows(rows_of([block for block, _ in got]), [rows[at] for at in order])


@pytest.mark.parametrize("shuffle", ["chunks", "full"])
def test_ranks_share_an_epoch(sparse: tuple[Path, list[Any]], shuffle: str) -> None:
    path, rows = sparse
    seen: list[int] = []
    for rank in range(3):
        with Streamer(path).get_batches(
            (X, "/label"), 40, n_procs=1, shuffle=shuffle, rank=rank, world_size=3
        ) as batches:
            for block, label in batches:
                same_rows(block.rows(), [rows[at] for at in label])
                seen += label.tolist()
    assert sorted(seen) == list(range(len(rows)))


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_state_goes_on(sparse: tuple[Path, list[Any]], shuffle: str | None) -> None:
    path, _ = sparse

    def made() -> Any:
        return Streamer(path).get_batches(
            (X, "/label"), 64, n_procs=1, shuffle=shuffle, epochs=2, seed=3
        )

    with made() as batches:
        everything = [label.tolist() for _, label in batches]
    with made() as batches:
        iterator = iter(batches)
        first = [next(iterator)[1].tolist() for _ in range(5)]
        state = batches.state_dict()
    with made() as batches:
        batches.load_state_dict(state)
        assert first + [label.tolist() for _, label in batches] == everything


def test_epochs_go_on_between_loops(sparse: tuple[Path, list[Any]]) -> None:
    path, rows = sparse
    with Streamer(path) as streamer:
        batches = streamer.get_batches(X, 100, n_procs=2, shuffle=True, drop_last=True)
        for epoch in range(3):
            expected = batches.order(epoch)
            got = rows_of([block.copy() for block in batches])
            same_rows(got, [rows[at] for at in expected])
        assert batches.statistics()["read_amplification"] is None


def test_blocks_that_are_kept_stay_as_they_are(sparse: tuple[Path, list[Any]]) -> None:
    path, rows = sparse
    kept = []
    for guard in Streamer(path).get_queue(X, 2, block_size=50, remainder=True, read_ahead=2):
        with guard as block:
            kept.append(block)
    same_rows(rows_of(kept), rows)


def test_a_guard_ends_with_its_block(sparse: tuple[Path, list[Any]]) -> None:
    with Streamer(sparse[0]).get_queue(X, 1, block_size=50) as stream:
        guard = stream.get()
        with guard:
            assert guard.rows == (0, 50)
        with pytest.raises(multitables.ClosedError), guard:
            pass


def test_leaving_and_dropping_end_the_readers(sparse: tuple[Path, list[Any]]) -> None:
    stream = Streamer(sparse[0]).get_queue(X, 2, block_size=10)
    assert stream.get() is not multitables.QueueClosed
    assert "RaggedQueue of '/X/data' (700,)" in repr(stream)
    assert stream.statistics()["blocks_received"] == 1
    del stream
    generator = Streamer(sparse[0]).get_generator(X, 1)
    next(generator)
    generator.close()


def test_no_rows_at_all(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["data"], file["ends"] = np.zeros(0), np.zeros(1, int)
    streamer = Streamer(tmp_path / "a.h5")
    assert list(streamer.get_queue(Ragged("/data", "/ends"), 1)) == []
    assert list(streamer.get_batches(Ragged("/data", "/ends"), 3, n_procs=1)) == []


def test_an_option_that_ragged_rows_do_not_have(sparse: tuple[Path, list[Any]]) -> None:
    with pytest.raises(multitables.OptionsError, match="field cannot"):
        next(iter(Streamer(sparse[0]).get_batches(X, 5, n_procs=1, field="a")))


@pytest.mark.parametrize("shuffle", [None, "full"])
def test_what_a_library_reads(tmp_path: Path, shuffle: str | None) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as file:
        data = np.arange(300)
        file.create_dataset("data", data=data, chunks=(40,), scaleoffset=0)
        file["ends"] = ends = np.minimum(np.arange(61) ** 2 // 9, 300)
        file.create_dataset("label", data=np.arange(60), chunks=(7,), scaleoffset=0)
    with Streamer(tmp_path / "a.h5").get_batches(
        (Ragged("/data", "/ends"), "/label"), 11, n_procs=2, shuffle=shuffle
    ) as batches:
        for block, label in batches:
            same_rows(block.rows(), [data[ends[at] : ends[at + 1]] for at in label])


def test_direct_io(sparse: tuple[Path, list[Any]]) -> None:
    path, rows = sparse
    stream = Streamer(path, DRIVER="H5FD_DIRECT").get_generator(X, 2)
    same_rows(list(stream), rows)


def test_files_that_nobody_trusts(sparse: tuple[Path, list[Any]]) -> None:
    path, rows = sparse
    same_rows(list(Streamer(path, trusted=False).get_generator(X, 1)), rows)


def test_who_holds_all_memory_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "RAGGED_FETCH_BYTES", 1 << 14)
    monkeypatch.setattr(options, "REQUEST_BYTES", 1)
    monkeypatch.setattr(options, "STALL_SECONDS", 0.2)
    rows = write_sparse(tmp_path / "a.h5", 30_000)
    kept: list[RaggedBlock] = []

    def keep_all() -> None:
        with Streamer(tmp_path / "a.h5").get_queue(X, 1, block_size=100) as stream:
            for guard in stream:
                with guard as block:
                    kept.append(block)

    with pytest.raises(multitables.StalledError, match="you hold all"):
        keep_all()
    assert len(kept) > 10
    same_rows(rows_of(kept), rows[: 100 * len(kept)])


def test_a_reader_that_dies_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sizes, "RAGGED_FETCH_BYTES", 1 << 12)
    rows = write_sparse(tmp_path / "a.h5", 5_000)
    got = []
    with Streamer(tmp_path / "a.h5").get_queue(X, 2, block_size=50, remainder=True) as stream:
        for number, guard in enumerate(stream):
            if number == 5:
                os.kill(stream.source.service.readers.pids[0], signal.SIGKILL)
            with guard as block:
                got += block.copy().rows()
        assert stream.get() is multitables.QueueClosed
    same_rows(got, rows)
