"""Who is at the other end: hosts and ranks that are not what they should be, and memory they send.

1. A rank gives nothing to a process of another user, or to one that does not know the run.
2. Memory that its sender could cut off or change is a named error, and never a signal.
3. A process that sends a host anything else than a rank does is gone; the others go on.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from node_ranks import N_ROWS, Ranks, batches, rows_of
from processes import wait_until

import multitables
from _multitables._core import Descriptor
from _multitables.parent.node import meeting, messages, shared_readers
from _multitables.parent.node.host_link import HostLink
from _multitables.parent.node.place import NodePlace

SIZE_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW


@pytest.fixture(autouse=True)
def own_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """This process is a rank of the run of the processes that it starts."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("MULTITABLES_RUN", "test")
    shared_readers._made.clear()
    yield
    shared_readers._made.clear()


def link_of(path: Path, number: int, count: int) -> HostLink:
    """The connection that a rank would make for batches of this file."""
    return HostLink(NodePlace(number, count), f"1 batches of '/x' in {str(path)!r}", None)


class FakeHost:
    """A thread in place of a host, for one rank."""

    def __init__(self, path: Path, serve: Callable[[socket.socket], None], proof: str = "") -> None:
        link = link_of(path, 0, 2)
        self._proof = proof or link._proofs[1]
        listener = meeting.listening(link._name, 1)
        assert listener is not None
        self._listener, self._serve = listener, serve
        self.heard: list[dict[str, Any]] = []
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        self._listener.setblocking(True)
        connection, _ = self._listener.accept()
        with self._listener, connection:
            self.hear(connection)
            messages.send(connection, {"welcome": self._proof, "pid": os.getpid()})
            self._serve(connection)

    def hear(self, connection: socket.socket) -> list[Descriptor]:
        connection.recv(1, socket.MSG_PEEK)
        message, descriptors = messages.receive(connection)
        assert message is not None
        self.heard.append(message)
        return descriptors

    def end(self) -> None:
        self._thread.join(10)
        assert not self._thread.is_alive()
        shared_readers._made.clear()


def a_batch(path: Path, rank: int) -> None:
    options: dict[str, Any] = {"share": "node", "rank": rank, "world_size": 2, "n_procs": 1}
    with multitables.Streamer(str(path)).get_batches("/x", 64, **options) as stream:
        next(iter(stream))


def planned(path: Path) -> tuple[list[Descriptor], list[Descriptor]]:
    """What a rank makes: of its index, and a plan, a ring and values of both."""
    kept: list[list[Descriptor]] = []

    def serve(connection: socket.socket) -> None:
        for number in range(2):
            host.hear(connection)
            messages.send(connection, {"plan": number})
            kept.append(host.hear(connection))
            if number == 0:
                host.hear(connection)  # it has left this

    host = FakeHost(path, serve)
    with pytest.raises(multitables.ReaderDiedError, match="has ended"):
        a_batch(path, 0)
    host.end()
    return kept[0], kept[1]


def unsealed(data: bytes = b"") -> Descriptor:
    memory = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.write(memory, data)
    copy = Descriptor.copy_of(memory)
    os.close(memory)
    return copy


def copied(descriptor: Descriptor, seals: int, cut: int = 0) -> Descriptor:
    number = descriptor.fileno()
    memory = unsealed(os.pread(number, os.fstat(number).st_size - cut, 0))
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
    return memory


#: What is sent in place of an index.
INDEXES: dict[str, Callable[[Descriptor], list[Descriptor]]] = {
    "an index that can change": lambda index: [copied(index, SIZE_SEALS)],
    "an index that is cut off": lambda index: [copied(index, messages.SEALS, 8)],
    "no index": lambda _: [],
}
#: What is sent in place of a plan, a ring, and values of both.
OTHERS: dict[str, Callable[..., list[Descriptor]]] = {
    "a ring that can be cut off": lambda plan, ring, of: [plan, copied(ring, 0), of],
    "a ring that is too short": lambda plan, ring, of: [plan, copied(ring, SIZE_SEALS, 4096), of],
    "a ring that is a file": lambda plan, _, of: [plan, Descriptor.open(__file__, os.O_RDWR), of],
    "a plan that can change": lambda plan, ring, of: [copied(plan, SIZE_SEALS), ring, of],
    "a plan that is cut off": lambda plan, ring, of: [copied(plan, messages.SEALS, 8), ring, of],
    "values that can change": lambda plan, ring, of: [plan, ring, copied(of, SIZE_SEALS)],
    "values that are cut off": lambda plan, ring, of: [plan, ring, copied(of, messages.SEALS, 99)],
    "no values": lambda plan, ring, _: [plan, ring],
    "no ring": lambda plan, *_: [plan],
    "nothing": lambda *_: [],
}


@pytest.mark.parametrize("what", [*INDEXES, *OTHERS])
def test_memory_that_a_rank_cannot_trust(rows_file: Path, what: str) -> None:
    index, given = planned(rows_file)
    sent = INDEXES[what](*index) if what in INDEXES else OTHERS[what](*given)

    def serve(connection: socket.socket) -> None:
        for number, memory in enumerate([sent] if what in INDEXES else [index, sent]):
            host.hear(connection)
            messages.send(connection, {"ready": number}, memory)
            host.hear(connection)

    host = FakeHost(rows_file, serve)
    with pytest.raises(multitables.SharedMemoryError):
        a_batch(rows_file, 1)
    host.end()
    left = [message["left"] for message in host.heard if "left" in message]
    assert left == ([0] if what in INDEXES else [0, 1])
    messages.close(list({*sent, *index, *given}))


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda: Descriptor.holding(b"12345678"), None),
        (lambda: Descriptor.holding(b"1234567"), "expected 8, got 7 bytes"),
        (unsealed, "not sealed"),
        (lambda: Descriptor.open(__file__, os.O_RDONLY), "Invalid argument"),
    ],
)
def test_memory_that_one_rank_fills(
    rows_file: Path, make: Callable[[], Descriptor], error: str | None
) -> None:
    memory = make()

    def serve(connection: socket.socket) -> None:
        host.hear(connection)
        messages.send(connection, {"ready": 0}, [memory])
        host.hear(connection)

    host = FakeHost(rows_file, serve)
    purpose = f"batches of '/x' in {str(rows_file)!r}"
    shared = shared_readers.SharedReaders(NodePlace(1, 2), purpose, None)
    if error is None:
        kept = shared.memory(lambda: b"", 8)
        assert kept is not None
        assert kept[:] == b"12345678"
        kept.close()
    else:
        with pytest.raises(multitables.SharedMemoryError, match=error):
            shared.memory(lambda: b"", 8)
    shared.close()
    host.end()
    memory.close()


def test_a_host_that_does_not_know_the_run(rows_file: Path) -> None:
    host = FakeHost(rows_file, lambda _: None, "a guess")
    with pytest.raises(multitables.OptionsError, match="does not know the run"):
        a_batch(rows_file, 0)
    host.end()
    assert [set(message) for message in host.heard] == [{"hello", "proof", "sent"}]


STRANGER = """
import os, socket, sys
listener = socket.socket(fileno=int(sys.argv[1]))
os.setgid(65534)
os.setuid(65534)
listener.setblocking(True)
listener.listen(1)
print("listens", flush=True)
print(listener.accept()[0].recv(100))
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_a_host_of_another_user(rows_file: Path) -> None:
    """The kernel names its user, even if it were in the folder."""
    listener = meeting.listening(link_of(rows_file, 0, 2)._name, 1)
    assert listener is not None
    with (
        listener,
        subprocess.Popen(
            [sys.executable, "-S", "-c", STRANGER, str(listener.fileno())],
            pass_fds=[listener.fileno()],
            stdout=subprocess.PIPE,
            text=True,
        ) as stranger,
    ):
        assert stranger.stdout is not None
        assert stranger.stdout.readline() == "listens\n"
        with pytest.raises(multitables.OptionsError, match="belongs to user 65534"):
            a_batch(rows_file, 0)
        assert stranger.stdout.readline() == "b''\n"


def test_a_host_that_cannot_start(rows_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_multitables.parent.node.host_link.HOST", "raise OSError('no luck')")
    with pytest.raises(multitables.ReaderDiedError, match="exited with status 1: OSError: no luck"):
        a_batch(rows_file, 0)


def test_what_is_no_rank(rows_file: Path) -> None:
    """One of three is no rank; the others get their rows."""
    rank = link_of(rows_file, 2, 3)
    of_rank, of_host = rank._proofs
    rank.send({"next": 0})
    answer, _ = rank.receive(10.0)
    assert answer == {"plan": 0}
    hello = {"hello": 1, "proof": of_rank, "sent": 0.0}
    texts: list[Any] = [[], {}, {**hello, "proof": of_host}, {**hello, "hello": 3}]
    for data in [b"no JSON", b"[" * 60000, *(json.dumps(text).encode() for text in texts)]:
        stranger = meeting.connected(rank._name)
        assert stranger is not None
        with stranger:
            stranger.setblocking(True)
            stranger.send(data)
            assert stranger.recv(100) == b""
    world = [{"world": {"rank": number, "world_size": 3}} for number in range(2)]
    ranks = Ranks(2, batches(rows_file), *world)
    given = [Descriptor.holding(b"no plan"), unsealed()]
    rank.send({"planned": 0, "n_readers": 1}, given)
    messages.close(given)
    with pytest.raises(multitables.ReaderDiedError):
        rank.receive(10.0)
    rank.close()
    found = ranks.end()
    for lines in found:
        assert rows_of(lines) == lines[-1]["order"][0]
    assert 0 < len({row for lines in found for row in rows_of(lines)}) < N_ROWS


def test_a_rank_that_leaves_without_a_block(rows_file: Path) -> None:
    """It lives on, and nobody waits for it."""
    ranks = Ranks(
        1,
        batches(rows_file, epochs=5, read_ahead=2),
        {"world": {"rank": 0, "world_size": 2}},
    )
    ranks.wait_for(0, 1)
    other = link_of(rows_file, 1, 2)
    for number in range(2):  # the index, and a stream
        other.send({"next": number})
        answer, descriptors = other.receive(10.0)
        assert answer == {"ready": number}
        messages.close(descriptors)
        other.send({"left": number, "holds": False})
    wait_until(lambda: "order" in ranks.lines[0][-1], "the other's rows")
    other.close()
    lines = ranks.end()[0]
    assert rows_of(lines) == [row for epoch in lines[-1]["order"] for row in epoch]
