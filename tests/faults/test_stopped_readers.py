"""Readers that are stopped, that cannot be given their work, or that no kill ends.

1. A reader that somebody stops and does not continue is replaced, or ends the stream with a named
   error.
2. Work that the system does not let through is offered again, and the refusal is named at last.
3. A device that does not answer keeps readers in the kernel; nobody waits for them, and they are
   reaped when it answers.
"""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from disk_cases import spinning
from payload import CHUNK, ROWS, check
from processes import kill, readers, run_script, wait_until

import multitables
from _multitables.parent.readers import supervisor


@contextlib.contextmanager
def all_stopped() -> Iterator[None]:
    """Every reader is stopped as soon as it is there."""
    over = threading.Event()

    def stop() -> None:
        while not over.wait(0.005):
            for pid in readers():
                kill(pid, signal.SIGSTOP)

    thread = threading.Thread(target=stop)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def take_all(stream: Any, timeout: float | None) -> None:
    """Take blocks until there is an error."""
    while True:
        with stream.get(timeout=timeout):
            pass


@pytest.fixture
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Readers may be stopped for a moment only."""
    monkeypatch.setattr(supervisor, "STOPPED_SECONDS", 0.3)


@pytest.mark.usefixtures("soon")
def test_stopped_readers_of_a_stream_are_replaced(numbered: Path) -> None:
    with multitables.Streamer(numbered).get_queue(
        "/rows", n_procs=2, block_size=CHUNK, read_ahead=2
    ) as stream:
        with stream.get() as block:
            at = check(block)
        del block
        for pid in readers():
            kill(pid, signal.SIGSTOP)
        for guard in stream:
            with guard as block:
                at = check(block)
            del block, guard
        assert at == ROWS
        assert stream.statistics()["readers_replaced"] == 2


@pytest.mark.usefixtures("soon")
def test_stopped_readers_of_requests_are_replaced(numbered: Path) -> None:
    with multitables.Reader(numbered, n_procs=2) as reader:
        rows = reader.get_dataset("/rows")
        check(reader.request(rows[:100]).get())
        for pid in readers():
            kill(pid, signal.SIGSTOP)
        check(reader.request(rows[:ROWS]).get())


@pytest.mark.usefixtures("soon")
def test_readers_that_are_stopped_again_and_again(numbered: Path) -> None:
    with (
        all_stopped(),
        multitables.Streamer(numbered).get_queue("/rows", n_procs=1, cyclic=True) as stream,
        pytest.raises(multitables.ReaderDiedError, match=r"was stopped by a signal for 0\.3 s"),
    ):
        take_all(stream, None)


def test_a_reader_that_is_continued_goes_on(numbered: Path) -> None:
    with multitables.Streamer(numbered).get_queue("/rows", n_procs=1, cyclic=True) as stream:
        (pid,) = stream.source.readers.pids  # type: ignore[attr-defined]
        kill(pid, signal.SIGSTOP)
        with contextlib.suppress(queue.Empty):
            take_all(stream, 0.3)
        kill(pid, signal.SIGCONT)
        with stream.get():
            pass
        assert stream.source.readers.pids == [pid]  # type: ignore[attr-defined]


#: Descriptors on their way count against the limit of open files, unless one may pass all limits.
#: Those of all processes of a user count, and others' may arrive meanwhile.
CROWDED = """
import array, ctypes, os, resource, socket, sys, threading, time
import multitables
from _multitables.parent.readers import supervisor

libc = ctypes.CDLL(None, use_errno=True)
libc.capset((0x20080522).to_bytes(4, sys.byteorder) + bytes(4), bytes(24))
resource.setrlimit(resource.RLIMIT_NOFILE, (64, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
ours, theirs = socket.socketpair()
ours.setblocking(False)
one = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0] * 8))]

def crowd():
    try:
        for _ in range(100):
            ours.sendmsg([b"0"], one)
        print("no limit")
        sys.exit()
    except OSError as error:
        assert error.errno == 109 or error.errno == 9 and freed.is_set(), error

def crowded(*arguments):
    crowd()
    return send(*arguments)

def free():
    freed.set()
    ours.close(), theirs.close()

freed = threading.Event()
send, supervisor.Readers._send = supervisor.Readers._send, crowded
supervisor.SEND_SECONDS = float(sys.argv[2])
stream = multitables.Streamer(sys.argv[1]).get_queue("/rows", n_procs=1)
if sys.argv[3] == "freed":
    threading.Timer(0.3, free).start()
try:
    with stream.get(timeout=10) as block:
        print("rows", len(block) == stream.block_size)
    del block
except multitables.MultitablesError as error:
    print(type(error).__name__, error)
stream.close()
"""


@pytest.mark.parametrize(
    ("patience", "then", "said"),
    [(20.0, "freed", "rows True"), (0.2, "kept", "ReaderDiedError reader 0")],
    ids=["freed", "kept"],
)
def test_too_many_descriptors_on_their_way(
    numbered: Path, patience: float, then: str, said: str
) -> None:
    done = run_script(CROWDED, numbered, patience, then)
    if done.stdout == "no limit\n":
        pytest.skip("this system does not count descriptors on their way")
    assert done.stdout.startswith(said), done.stdout + done.stderr
    assert ("cannot be given its work: Too many" in done.stdout) == (then == "kept")


def test_a_sandbox_that_refuses_to_send(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(self: supervisor.Readers, number: int, work: Any) -> Any:
        self._unsent[number] = 0.0
        error = PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        return supervisor._refused(number, self.pids[number], error)

    monkeypatch.setattr(supervisor.Readers, "_send", refused)
    with (
        multitables.Streamer(numbered).get_queue("/rows", n_procs=2) as stream,
        pytest.raises(multitables.ReaderDiedError, match="cannot be given its work: Operation"),
    ):
        stream.get()
    with (
        multitables.Reader(numbered, n_procs=1) as reader,
        pytest.raises(multitables.ReaderDiedError, match="cannot be given its work: Operation"),
    ):
        reader.request(reader.get_dataset("/rows")[:10]).get()


def test_a_device_that_does_not_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a dead server of NFS: readers sleep in the kernel, where a kill does not reach them."""
    monkeypatch.setattr("_multitables.parent.readers.process.END_SECONDS", 0.2)
    with spinning(tmp_path) as disk:
        with h5py.File(disk.backing / "data.h5", "w") as file:
            file["x"] = np.arange(1 << 20)
        streamer = multitables.Streamer(disk.path / "data.h5", DRIVER="H5FD_DIRECT")
        stream = streamer.get_queue("/x", n_procs=2, block_size=1 << 14, read_ahead=2, cyclic=True)
        with stream.get():
            pass
        team = readers()
        disk.process.send_signal(signal.SIGSTOP)
        try:
            with pytest.raises(queue.Empty):
                take_all(stream, 0.3)
            begun = time.monotonic()
            stream.close()
            assert time.monotonic() - begun < 5.0
            assert any(map(is_there, team)), "no reader was kept in the kernel"
        finally:
            disk.process.send_signal(signal.SIGCONT)
        wait_until(lambda: not any(map(is_there, team)), "the end of the readers")


def is_there(pid: int) -> bool:
    """Whether a child runs, or was not reaped yet."""
    return os.path.exists(f"/proc/{pid}")
