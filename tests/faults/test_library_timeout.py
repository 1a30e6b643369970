"""A library that never returns: the deadline, the chunk's address, and what is printed.

Law
---
1. Who waits gets an error that names the chunk; what is good before and beside it is delivered.
2. A library that reads on, or may take any time, is left alone.
3. However it goes, no process and no memory is left (the audit looks).
"""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import stuck_library as stuck
import tables
from oracle import same
from processes import run_script
from stuck_library import BAD_ROW, CHUNK, DATA, ROWS, chunk_bytes, install

import multitables

pytestmark = pytest.mark.usefixtures("few_filters")

SECONDS = 0.5
AT = BAD_ROW // CHUNK * CHUNK


def check(error: multitables.SubprocessException, h5: Path) -> None:
    assert (error.path, error.filename) == ("/x", str(h5))
    assert error.chunk_offset == (AT, 0)
    assert error.byte_range == chunk_bytes(h5)
    assert error.rows == (AT, AT + CHUNK)
    assert f"chunk ({AT}, 0), file bytes" in str(error)


@pytest.mark.parametrize("act", [stuck.HANGS, stuck.SHOUTS])
def test_a_stream_ends_at_the_chunk(
    h5: Path, monkeypatch: pytest.MonkeyPatch, act: str, capfd: pytest.CaptureFixture[str]
) -> None:
    install(h5, monkeypatch, act)
    streamer = multitables.Streamer(h5, library_timeout_seconds=SECONDS)
    got = []
    queue = streamer.get_queue("/x", n_procs=1, block_size=5)
    with pytest.raises(multitables.LibraryTimeoutError, match="twice") as caught:  # noqa: PT012
        for guard in queue:
            with guard as block:
                got.append(block.copy())
    error = caught.value
    assert isinstance(error, TimeoutError)
    assert error.seconds == SECONDS
    check(error, h5)
    before = np.concatenate(got) if got else DATA[:0]
    same(before, DATA[: len(before)])
    assert f"{len(got)} of {ROWS // 5} blocks" in str(error)
    assert "library_timeout_seconds" in str(error)
    assert queue.statistics()["readers_replaced"] == 1
    assert capfd.readouterr() == ("", "")


def test_blocks_of_tasks_before_it_come(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(h5, monkeypatch, stuck.HANGS)
    monkeypatch.setattr("_multitables.sizes.DIRECT_TASK_BYTES", 1)  # a task is a chunk
    streamer = multitables.Streamer(h5, library_timeout_seconds=SECONDS)
    rows = streamer.get_generator("/x", n_procs=2, block_size=5)
    for at in range(AT):
        same(next(rows), DATA[at])
    with pytest.raises(multitables.LibraryTimeoutError) as caught:
        next(rows)
    check(caught.value, h5)


@pytest.mark.parametrize("shuffle", [None, "chunks", "window", "full"])
def test_batches(h5: Path, monkeypatch: pytest.MonkeyPatch, shuffle: str | None) -> None:
    install(h5, monkeypatch, stuck.HANGS)
    streamer = multitables.Streamer(h5, library_timeout_seconds=SECONDS)
    with (
        streamer.get_batches("/x", 7, n_procs=2, shuffle=shuffle) as batches,
        pytest.raises(multitables.LibraryTimeoutError) as caught,
    ):
        list(batches)
    check(caught.value, h5)


def test_the_remainder(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(h5, monkeypatch, stuck.HANGS)
    streamer = multitables.Streamer(h5, library_timeout_seconds=SECONDS)
    with pytest.raises(multitables.LibraryTimeoutError):
        streamer.get_remainder("/x", ROWS + 1)


def test_a_request_fails_alone(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(h5, monkeypatch, stuck.HANGS)
    with multitables.Reader(h5, n_procs=2, library_timeout_seconds=SECONDS) as reader:
        x, y = reader.get_dataset("/x"), reader.get_dataset("/y")
        bad, good = reader.request(x[3:60]), reader.request(y[1:9])
        same(good.get(), DATA[1:9])
        with pytest.raises(multitables.LibraryTimeoutError, match="s twice") as caught:
            bad.get()
        check(caught.value, h5)
        assert "other requests are not affected" in str(caught.value)
        same(reader.request(x[30:60]).get(), DATA[30:60])
        listed = reader.request(x[[1, 70]]).get()
        same(listed, DATA[[1, 70]])
        assert reader.statistics()["readers_replaced"] == 2


def test_a_library_that_crashes_has_the_address(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(h5, monkeypatch, stuck.CRASHES)
    with multitables.Reader(h5, n_procs=1) as reader:
        with pytest.raises(multitables.ReaderDiedError, match="SIGSEGV twice") as caught:
            reader.request(reader.get_dataset("/x")[:]).get()
        check(caught.value, h5)
    queue = multitables.Streamer(h5).get_queue("/x", n_procs=1)
    with pytest.raises(multitables.ReaderDiedError, match="SIGSEGV twice") as caught:
        list(queue)
    check(caught.value, h5)


@pytest.mark.parametrize(
    ("act", "seconds"), [(stuck.READS_ON, SECONDS), (stuck.SLEEPS, None), (stuck.SLEEPS, 60.0)]
)
def test_a_slow_library_is_left_alone(
    h5: Path, monkeypatch: pytest.MonkeyPatch, act: str, seconds: float | None
) -> None:
    install(h5, monkeypatch, act)
    with multitables.Reader(h5, n_procs=1, library_timeout_seconds=seconds) as reader:
        same(reader.request(reader.get_dataset("/x")[:]).get(), DATA)
        assert reader.statistics()["readers_replaced"] == 0
    streamer = multitables.Streamer(h5, library_timeout_seconds=seconds)
    same(np.array(list(streamer.get_generator("/x", n_procs=1))), DATA)


def test_a_bzip2_chunk_that_is_cut_short(h5: Path) -> None:
    """PyTables' filter waits for ever for the end of the stream, at least in its version 3.11."""
    rows = np.arange(2000, dtype="<i4") * 7919 % 50
    filters = tables.Filters(5, "bzip2", shuffle=False)
    with tables.open_file(str(h5), "w") as file:
        file.create_carray("/", "x", obj=rows, chunkshape=(1000,), filters=filters)
    with h5py.File(h5, "r+") as file:
        stored = file["x"].id
        mask, chunk = stored.read_direct_chunk((1000,))
        stored.write_direct_chunk((1000,), chunk[:-1], mask)
    with multitables.Reader(h5, n_procs=1, library_timeout_seconds=SECONDS) as reader:
        dataset = reader.get_dataset("/x")
        with pytest.raises(multitables.SubprocessException) as caught:
            reader.request(dataset[5:1500]).get()
        same(reader.request(dataset[5:900]).get(), rows[5:900])
    with pytest.raises(multitables.SubprocessException) as again:
        list(multitables.Streamer(h5, library_timeout_seconds=SECONDS).get_queue("/x", n_procs=1))
    for error in (caught.value, again.value):
        if isinstance(error, multitables.LibraryTimeoutError):
            assert error.chunk_offset == (1000,)


SCRIPT = """
import sys, os, h5py
sys.path.insert(0, sys.argv[2])
{before}
import multitables
from _multitables import _core
_core.native_filters = lambda: {{1: "deflate"}}
with multitables.Reader(sys.argv[1], n_procs=1) as reader:
    reader.request(reader.get_dataset("/x")[:]).get()
"""


@pytest.mark.parametrize("closed", [False, True])
def test_what_a_library_prints_is_cut_short(
    h5: Path, monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    install(h5, monkeypatch, stuck.SPEAKS)
    before = "os.close(1); os.close(2)" if closed else ""
    done = run_script(SCRIPT.format(before=before), h5, h5.parent / "stuck")
    assert (done.returncode, done.stdout) == (0, "")
    if closed:
        assert done.stderr == ""
    else:
        assert "yyyy" in done.stderr
        assert "left out" in done.stderr
        assert len(done.stderr) < 5000


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "soon", True])
def test_a_deadline_that_cannot_be(value: object) -> None:
    for kind in (multitables.Streamer, multitables.Reader):
        with pytest.raises(multitables.OptionsError, match="library_timeout_seconds") as caught:
            kind("no such file", library_timeout_seconds=value)
        assert caught.value.got is value
