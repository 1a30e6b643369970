"""Readers that are killed, stopped, or cannot start, in ways that the table of moments lacks.

1. A reader that dies is replaced once per task, and no row is lost or doubled.
2. A task that kills twice ends the stream with its address.
3. However it goes, no process is left.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from payload import CHUNK, COLUMNS, ROWS, check
from processes import alive, children, first_readers, kill, readers, wait_until

import multitables
from _multitables.remote import client

pytestmark = pytest.mark.usefixtures("few_filters")


def kill_all() -> None:
    for pid in readers():
        kill(pid)
        wait_until(lambda pid=pid: not alive(pid), "a dead reader")


def kill_one() -> None:
    pid = readers()[0]
    kill(pid)
    wait_until(lambda: not alive(pid), "a dead reader")


@pytest.mark.parametrize("victims", [kill_one, kill_all], ids=["one", "all"])
def test_killed_readers_are_replaced(numbered: Path, victims: Callable[[], None]) -> None:
    at, todo = 0, [victims]
    with multitables.Streamer(numbered).get_queue(
        "/rows", n_procs=2, block_size=CHUNK, read_ahead=2
    ) as stream:
        for guard in stream:
            with guard as block:
                at = check(block, at)
            del block, guard
            if at >= 100 and todo:
                todo.pop()()
    assert at == ROWS
    assert not todo


def test_readers_are_replaced_again_and_again(numbered: Path) -> None:
    """Different tasks: each may cost one reader."""
    before: list[set[int]] = []

    def victim() -> None:
        before.append(set(readers()))
        kill_one()

    with multitables.Streamer(numbered).get_queue(
        "/rows", n_procs=2, block_size=CHUNK, read_ahead=2, cyclic=True
    ) as stream:
        at = 0
        for round_ in range(6):
            for _ in range(60):
                with stream.get() as block:
                    at = check(block, at % ROWS)
                del block
            if round_ < 5:
                victim()
        wait_until(lambda: stream.statistics()["readers_replaced"] >= 1, "a replacement")
        assert len(set.union(*before)) > 2


def test_readers_killed_while_nobody_looks(numbered: Path) -> None:
    """All dead before the first `get`: it brings new ones."""
    stream = multitables.Streamer(numbered).get_queue("/rows", n_procs=2, cyclic=True, read_ahead=1)
    with stream:
        first_readers(2)
        kill_all()
        at = 0
        for _ in range(300):
            with stream.get() as block:
                at = check(block, at % ROWS)
            del block
        assert stream.statistics()["readers_replaced"] == 2


def test_resting_readers_that_died_are_not_used_again(numbered: Path) -> None:
    with multitables.Streamer(numbered) as streamer:
        for _ in range(2):
            with streamer.get_queue("/rows", n_procs=2) as stream:
                at = 0
                for guard in stream:
                    with guard as block:
                        at = check(block, at)
                    del block, guard
                assert at == ROWS
            kill_all()
    assert children() == {}


def test_a_task_that_kills_twice_ends_the_stream(numbered: Path) -> None:
    """A reader is stopped in the middle of a task, killed there, and so is the one after it."""
    stream = multitables.Streamer(numbered).get_queue(
        "/rows", n_procs=1, block_size=CHUNK, cyclic=True, read_ahead=1
    )
    stop = threading.Event()

    def killer() -> None:
        known: set[int] = set()
        while not stop.is_set():
            for pid in readers():
                if pid not in known:
                    known.add(pid)
                    kill(pid)
            stop.wait(0.001)

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        with pytest.raises(multitables.ReaderDiedError) as caught:
            forever(stream)
    finally:
        stop.set()
        thread.join(20)
    error = caught.value
    assert isinstance(error, ChildProcessError)
    assert isinstance(error, multitables.SubprocessException)
    text = str(error)
    assert "was killed by SIGKILL" in text
    assert "out of memory" in text
    assert "blocks were delivered and are good; the stream is closed" in text
    assert error.status == -9
    assert f"pid {error.pid}" in text
    assert children() == {}
    with pytest.raises(multitables.ReaderDiedError):
        stream.get()
    with pytest.raises(multitables.ReaderDiedError):
        stream.get_nowait()


def forever(stream: Any) -> None:
    while True:
        with stream.get() as block:
            check(block)
        del block


def test_a_poisonous_chunk_is_named(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader dies in the same task each time: the error has the chunk's address.

    The library fallback stands for it: a plug-in path that makes the reader kill itself.
    """
    import h5py
    from elements import smooth

    poison = h5.parent / "poison"
    poison.mkdir()
    (poison / "h5py.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((40, 3)), chunks=(10, 3), scaleoffset=0)
    monkeypatch.syspath_prepend(str(poison))
    stream = multitables.Streamer(h5).get_queue("/x", n_procs=1)
    with pytest.raises(
        multitables.ReaderDiedError, match="SIGKILL twice while decoding '/x'"
    ) as caught:
        stream.get()
    assert repr(str(h5)) in str(caught.value)
    assert "0 of 4 blocks were delivered" in str(caught.value)
    assert caught.value.path == "/x"
    assert children() == {}


def test_readers_that_cannot_start(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter that ends at once: an error with its status, not a loop of new ones."""
    monkeypatch.setattr("_multitables.parent.readers.process.python_program", lambda: "/bin/false")
    stream = multitables.Streamer(numbered).get_queue("/rows", n_procs=2)
    with pytest.raises(multitables.ReaderDiedError, match="exited with status 1") as caught:
        stream.get()
    assert "before it read anything" in str(caught.value)
    assert children() == {}


def test_no_interpreter_to_start(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "_multitables.parent.readers.process.python_program", lambda: "/no/such/python"
    )
    for call in ("get_queue", "get_generator"):
        wanted = "2 reader processes of '/no/such/python' cannot be started: No such file"
        with pytest.raises(OSError, match=wanted) as caught:
            getattr(multitables.Streamer(numbered), call)("/rows", n_procs=2)
        assert isinstance(caught.value, multitables.ReaderDiedError)
        assert caught.value.errno == errno.ENOENT
        assert "set_reader_command" in str(caught.value)
        assert children() == {}


def test_no_descriptors_left_to_start_with(numbered: Path) -> None:
    streamer = multitables.Streamer(numbered)
    streamer.get_remainder("/rows", CHUNK)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 2, hard))
    taken: list[int] = []
    try:
        with contextlib.suppress(OSError):
            while True:
                taken.append(os.dup(0))
        os.close(taken.pop())
        with pytest.raises(multitables.ReaderDiedError, match=r"Too many open files.*ulimit -n"):
            streamer.get_queue("/rows", n_procs=2)
    finally:
        for number in taken:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert children() == {}
    with streamer.get_queue("/rows", n_procs=8) as stream, stream.get() as block:
        check(block)


def test_no_processes_left_to_start(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> list[int]:
        raise OSError(errno.EAGAIN, "as clone says it")

    monkeypatch.setattr("_multitables._core.start_together", refuse)
    with pytest.raises(multitables.ReaderDiedError, match=r"Fewer n_procs.*pids limit") as caught:
        multitables.Streamer(numbered).get_queue("/rows", n_procs=2)
    assert os.strerror(errno.EAGAIN) in str(caught.value)


def test_a_dead_reader_that_cannot_be_replaced(
    numbered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with multitables.Streamer(numbered).get_queue("/rows", n_procs=2, cyclic=True) as stream:
        first_readers(2)
        monkeypatch.setattr(
            "_multitables.parent.readers.process.python_program", lambda: "/no/such/python"
        )
        kill_all()
        with pytest.raises(multitables.ReaderDiedError, match="was killed by SIGKILL") as caught:
            forever(stream)
    assert "1 reader process of '/no/such/python' cannot be started: No such" in str(caught.value)
    assert "set_reader_command" in str(caught.value)
    assert children() == {}


def test_a_stopped_reader_does_not_hold_up_close(numbered: Path) -> None:
    stream = multitables.Streamer(numbered).get_queue("/rows", n_procs=2, cyclic=True)
    for pid in first_readers(2):
        kill(pid, signal.SIGSTOP)
    stream.close()
    assert children() == {}


def test_a_stopped_reader_does_not_hold_up_reuse(numbered: Path) -> None:
    with multitables.Streamer(numbered) as streamer:
        with streamer.get_queue("/rows", n_procs=2, block_size=ROWS) as stream:
            with stream.get() as block:
                check(block, 0)
            del block
            for pid in first_readers(2):
                kill(pid, signal.SIGSTOP)
            assert stream.get() is multitables.QueueClosed
        with streamer.get_queue("/raw", n_procs=2, block_size=ROWS) as stream:
            for pid in readers():
                kill(pid, signal.SIGCONT)
            with stream.get() as block:
                check(block, 0)
            del block
    assert children() == {}


def test_two_members_of_which_one_dies_in_a_remainder(numbered: Path) -> None:
    """The remainder is a stream like any other: its only reader is replaced."""
    victims: list[int] = []

    def killer() -> None:
        while not victims and not done.is_set():
            for pid in readers():
                kill(pid)
                victims.append(pid)

    done = threading.Event()
    for _ in range(5):
        victims.clear()
        thread = threading.Thread(target=killer)
        thread.start()
        tail = multitables.Streamer(numbered).get_remainder("/rows", ROWS - 1000 + 1)
        done.set()
        thread.join(20)
        done.clear()
        assert len(tail) == 999
        assert check(tail, ROWS - 999) == ROWS


def test_readers_hold_nothing_of_the_parent(numbered: Path) -> None:
    """Neither its descriptors nor its modules: only the socket, the data and the ring."""
    with (
        open(numbered, "rb"),
        multitables.Streamer(numbered).get_queue("/rows", n_procs=1, cyclic=True) as stream,
    ):
        with stream.get() as block:
            check(block, 0)
        del block
        (pid,) = readers()
        expected = sorted(["/dev/null", "anon_inode", "socket", str(numbered)])

        def holds_its_own() -> bool:
            """Also a reader opens folders for a moment, where it looks for a module."""
            with contextlib.suppress(FileNotFoundError):
                folder = Path(f"/proc/{pid}/fd")
                held = {int(one.name): os.readlink(one) for one in folder.iterdir()}
                kinds = [held[number].split(":")[0] for number in held if number not in (1, 2)]
                return sorted(kinds) == expected and held[0] == "/dev/null"
            return False

        wait_until(holds_its_own, "a reader that holds its socket, the data and the ring")
        maps = Path(f"/proc/{pid}/maps").read_text()
        for library in ("h5py", "numpy", "libhdf5", "tables"):
            assert f"/{library}" not in maps
        assert os.getsid(pid) == pid


def test_readers_of_one_stream_share_one_ring(numbered: Path) -> None:
    with multitables.Streamer(numbered).get_queue("/rows", n_procs=3, cyclic=True) as stream:
        with stream.get() as block:
            assert check(block, 0) == CHUNK
            assert block.shape == (CHUNK, COLUMNS)
        del block
        assert not [name for name in os.listdir("/dev/shm") if "multitables" in name]


def own_bytes(pid: int) -> int:
    """The memory that a process shares with no other, swapped or not.

    Pages of files and of shared memory do not count: the kernel calls them private while no other
    process has touched them, so those of the ring would count for one reader or for both.
    """
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return sum(
        int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "VmSwap:"))
    )


def test_readers_do_not_grow_from_epoch_to_epoch(
    numbered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Readers load the client of stores, in a thread, once the process has named an object of one.
    monkeypatch.setattr(client, "is_expected", False)
    streamer = multitables.Streamer(numbered)
    with streamer.get_batches("/rows", 64, shuffle="full", epochs=None, n_procs=2) as batches:

        def pass_epochs(count: int) -> dict[int, int]:
            for _, _ in zip(range(count * (ROWS // 64)), iterator, strict=False):
                pass
            return {pid: own_bytes(pid) for pid in readers()}

        iterator = iter(batches)
        before = pass_epochs(8)
        after = pass_epochs(40)
        assert len(before) == 2
        assert before.keys() == after.keys()
        for pid, n_bytes in after.items():
            assert n_bytes < before[pid] + (1 << 20)
