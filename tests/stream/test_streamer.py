"""The streamer: cheap to make, reuses its readers inside `with`, and ends them at its end.

1. Readers are told apart by their process ids.
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from elements import FAST, smooth, values
from oracle import streamed
from payload import ROWS, check
from processes import children, readers, run_script

import multitables


def total(stream: multitables.StreamQueue) -> int:
    at = 0
    for guard in stream:
        with guard as block:
            at = check(block, at)
        del block
    return at


def test_construction_touches_nothing() -> None:
    streamer = multitables.Streamer("/no/such/file.h5", node_cache_slots=5)
    with pytest.raises(multitables.MissingFileError):
        streamer.get_queue("/x")


def test_making_one_imports_no_hdf5_library() -> None:
    done = run_script(
        "import sys, multitables; multitables.Streamer('a.h5')\n"
        "print([name for name in ('h5py', 'tables', 'hdf5plugin') if name in sys.modules])"
    )
    assert done.stdout.strip() == "[]", done.stderr


def test_readers_are_reused_inside_with(numbered: Path) -> None:
    with multitables.Streamer(numbered) as streamer:
        with streamer.get_queue("/rows", n_procs=2) as stream:
            first = readers()
            assert total(stream) == ROWS
        assert readers() == first
        with streamer.get_queue("/raw", n_procs=2, block_size=100, remainder=True) as stream:
            assert readers() == first
            assert total(stream) == ROWS
        assert len(streamer.get_remainder("/rows", 999)) == ROWS % 999
    assert children() == {}


def test_an_epoch_that_is_left_early_ends_its_readers_or_reuses_them(numbered: Path) -> None:
    with multitables.Streamer(numbered) as streamer:
        for _ in range(5):
            with streamer.get_queue("/rows", n_procs=2) as stream, stream.get() as block:
                check(block, 0)
            del block
            assert len(readers()) <= 2
        with streamer.get_queue("/rows", n_procs=2) as stream:
            assert total(stream) == ROWS
    assert children() == {}


def test_reuse_after_a_failed_stream(numbered: Path, h5: Path) -> None:
    """A stream that fails takes nothing else with it."""
    import h5py

    with h5py.File(h5, "w") as file:
        made = file.create_dataset("bad", (100,), "<i4", chunks=(10,), compression="gzip")
        made[...] = 1
        made.id.write_direct_chunk((50,), b"no deflate")
        file.create_dataset("good", data=np.arange(100, dtype="<i4"), chunks=(10,))
    with multitables.Streamer(h5) as streamer:
        for _ in range(3):
            with (
                pytest.raises(multitables.CorruptChunkError),
                streamer.get_queue("/bad", n_procs=2) as stream,
            ):
                for _guard in stream:
                    pass
            with streamer.get_queue("/good", n_procs=2, block_size=100) as stream:
                with stream.get() as block:
                    np.testing.assert_array_equal(block, np.arange(100))
                del block
    assert children() == {}


def test_leaving_with_ends_streams_that_still_run(numbered: Path) -> None:
    with multitables.Streamer(numbered) as streamer:
        stream = streamer.get_queue("/rows", cyclic=True, n_procs=2)
        rows = streamer.get_generator("/rows", cyclic=True, n_procs=1)
        next(rows)
        with stream.get() as block:
            check(block, 0)
        del block
        assert len(readers()) == 3
    assert children() == {}
    assert stream.get() is multitables.QueueClosed
    assert sum(1 for _ in rows) <= 50  # what it had copied may still come, then the end


def test_a_closed_streamer_says_so(numbered: Path) -> None:
    streamer = multitables.Streamer(numbered)
    streamer.close()
    streamer.close()
    for call in (
        lambda: streamer.get_queue("/rows"),
        lambda: streamer.get_generator("/rows"),
        lambda: streamer.get_remainder("/rows", 10),
    ):
        with pytest.raises(multitables.ClosedError, match="closed") as caught:
            call()
        assert isinstance(caught.value, ValueError)
        assert numbered.name in str(caught.value)
    assert children() == {}


def test_dropping_the_streamer_ends_resting_readers(numbered: Path) -> None:
    streamer = multitables.Streamer(numbered)
    streamer.__enter__()
    with streamer.get_queue("/rows", n_procs=2) as stream:
        assert total(stream) == ROWS
    del stream
    assert len(readers()) == 2
    del streamer
    assert children() == {}


@pytest.mark.parametrize("keeps", [True, False])
def test_a_stream_that_is_left_gives_its_readers_back(numbered: Path, keeps: bool) -> None:
    streamer = multitables.Streamer(numbered)
    if keeps:
        streamer.__enter__()
    for _ in range(2):
        with streamer.get_queue("/rows", n_procs=2, cyclic=True) as stream:
            before = readers()
            stream.get()
        assert readers() == (before if keeps else [])
    batches = streamer.get_batches("/rows", 10, n_procs=2, shuffle=True)
    for _ in zip(batches, range(2), strict=False):
        assert not keeps or readers() == before
    del batches
    gc.collect()
    assert readers() == (before if keeps else [])
    streamer.close()
    assert children() == {}


def test_ctrl_c_while_readers_come_back(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_: object) -> bool:
        raise KeyboardInterrupt

    with multitables.Streamer(numbered) as streamer:
        stream = streamer.get_queue("/rows", n_procs=2)
        stream.get()
        monkeypatch.setattr("_multitables.parent.readers.supervisor.Readers.rest", interrupted)
        with pytest.raises(KeyboardInterrupt):
            stream.close()
        assert readers() == []


def test_streams_of_one_streamer_at_once(numbered: Path) -> None:
    with multitables.Streamer(numbered) as streamer:
        streams = [streamer.get_queue("/rows", n_procs=1, block_size=60) for _ in range(3)]
        assert len(readers()) == 3
        at = 0
        for guards in zip(*streams, strict=True):
            for guard in guards:
                with guard as block:
                    assert check(block, at) == at + 60
                del block, guard
            at += 60
        assert at == ROWS
    assert children() == {}


def test_queues_are_made_from_many_threads(numbered: Path) -> None:
    import threading

    with multitables.Streamer(numbered) as streamer:
        sums: list[int] = []

        def work() -> None:
            for _ in range(3):
                with streamer.get_queue("/rows", n_procs=1) as stream:
                    sums.append(total(stream))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(50)
        assert sums == [ROWS] * 12
    assert children() == {}


def test_build_info() -> None:
    info = multitables.build_info()
    import h5py
    import tables

    assert info["libhdf5 of h5py"] == h5py.version.hdf5_version
    assert info["libhdf5 of tables"] == tables.hdf5_version
    assert info["numpy"] == np.__version__
    assert info["h5py"] == h5py.__version__
    assert info["python"] == ".".join(map(str, sys.version_info[:3]))
    assert {"deflate", "shuffle", "fletcher32", "blosc", "blosc2"} <= set(info["filters"])
    assert isinstance(info["io_uring"], bool)
    assert isinstance(info["direct"], bool)
    assert info["core"]
    pickle.dumps(info)


def test_the_docstrings_say_the_defaults() -> None:
    """Names and defaults are fixed by the issue."""
    import inspect

    queue = inspect.signature(multitables.Streamer.get_queue).parameters
    assert {name: one.default for name, one in list(queue.items())[2:]} == {
        "n_procs": None,
        "read_ahead": None,
        "cyclic": False,
        "block_size": None,
        "ordered": False,
        "field": None,
        "remainder": False,
        "rows": None,
        "inner": None,
        "version": None,
        "follow": False,
        "max_wait_seconds": 1.0,
        "dtype": None,
        "scale": None,
        "decode": None,
    }
    generator = inspect.signature(multitables.Streamer.get_generator).parameters
    assert list(generator) == list(queue)
    assert generator["remainder"].default is True
    assert list(inspect.signature(multitables.Streamer.get_remainder).parameters)[1:3] == [
        "path",
        "block_size",
    ]


def test_paths_that_are_none(numbered: Path) -> None:
    streamer = multitables.Streamer(numbered)
    for path in ([], (), {}, 5, [1], None, {"x": 3}):
        with pytest.raises(multitables.OptionsError, match="path"):
            streamer.get_queue(path)  # type: ignore[arg-type]
    assert children() == {}


def test_pytables_nodes_and_h5py_datasets_are_paths(numbered: Path) -> None:
    import h5py
    import tables

    with tables.open_file(str(numbered)) as file:
        node = file.root.rows
        with multitables.Streamer(numbered).get_queue(node, n_procs=1) as stream:
            assert total(stream) == ROWS
    with h5py.File(numbered, "r") as file:
        with multitables.Streamer(numbered).get_queue(file["rows"], n_procs=1) as stream:
            assert total(stream) == ROWS
        assert os.path.exists(numbered)


def test_block_size_by_default(numbered: Path, h5: Path) -> None:
    """The chunk's outer length; about 128 KiB of rows where there are no chunks."""
    _, statistics = streamed(numbered, "/rows")
    assert statistics["block_size"] == 50
    _, statistics = streamed(numbered, "/raw")
    assert 64 <= statistics["block_size"] * 512 / 1024 <= 256
    with h5py.File(h5, "w") as file:
        file.create_dataset("wide", data=smooth((3, 100_000), "<f8"))
        file.create_dataset("labels", data=np.arange(3))
    _, statistics = streamed(h5, "/wide")
    assert statistics["block_size"] == 1
    with multitables.Streamer(h5).get_queue(["labels", "wide"], n_procs=1) as queue:
        assert queue.block_size == 1


def test_only_the_column_reaches_the_ring(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=values(FAST["nested"], (37, 11)), chunks=(7, 5))
    for field in ("outer", "z", "s"):
        _, statistics = streamed(h5, "/x", field=field, n_procs=1, read_ahead=1)
        assert statistics["ring_bytes"] < 37 * 11 * FAST["nested"].itemsize
