"""Ctrl-C at every point of what ranks do with descriptors and locks: nothing stays open."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from interrupts import interrupted

import multitables
from _multitables._core import Descriptor
from _multitables.parent.node import meeting, messages, shared_readers
from _multitables.parent.node.host_link import HostLink
from _multitables.parent.node.place import NodePlace
from _multitables.parent.readers import process

pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")  # of sockets, which close


def codes(*functions: Any) -> set[Any]:
    return {getattr(one, "__wrapped__", one).__code__ for one in functions}


def sent(memory: Descriptor) -> Callable[[], None]:
    def act() -> None:
        one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with one, other:
            messages.send(one, {"ready": 0}, [memory, memory])
            message, descriptors = messages.receive(other)
            assert message == {"ready": 0}
            messages.close(descriptors)

    return act


def met() -> None:
    listener = meeting.listening("name", 1)
    assert listener is not None
    with listener:
        connection = meeting.connected("name")
        assert connection is not None
        connection.close()
    meeting.remove_left()


def started() -> None:
    with socket.socket(socket.AF_UNIX) as kept:
        process.start_alone("pass", kept, [], "", 10.0)


def filled() -> None:
    shared_readers._filled(b"bytes").close()


@pytest.mark.parametrize("what", ["sent", "met", "started", "filled"])
def test_descriptors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    monkeypatch.setattr(meeting, "_parents", lambda: iter([str(tmp_path)]))
    memory = Descriptor.holding(b"bytes")
    act, of = {
        "sent": (sent(memory), codes(messages.receive, messages.close)),
        "met": (met, codes(meeting._folder, meeting._opened, meeting.listening)),
        "started": (started, codes(process.start_alone)),
        "filled": (filled, codes(shared_readers._filled)),
    }[what]
    act()
    before = os.listdir("/proc/self/fd")
    points = 0
    for points in interrupted(of, act):
        assert os.listdir("/proc/self/fd") == before, points
    assert points > 0


def test_the_lock_of_ranks() -> None:
    """A look that is interrupted leaves it free for other threads."""
    readers = shared_readers.SharedReaders(NodePlace(0, 1), "test", None)
    readers.close()
    free: list[bool] = []

    def other() -> None:
        if readers._lock.acquire(timeout=10):
            readers._lock.release()
            free.append(True)

    points = 0
    for points in interrupted(
        codes(shared_readers.SharedReaders.watch), lambda: readers.watch(0, None)
    ):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        assert len(free) == points + 1
    assert points > 1


def test_a_link_that_another_thread_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It does not connect again, and starts no host."""
    monkeypatch.setattr(meeting, "_parents", lambda: iter([str(tmp_path)]))
    link = HostLink(NodePlace(0, 1), "test", None)
    link.close()
    for use in (lambda: link.send({"next": 0}), link.copy):
        with pytest.raises(multitables.ClosedError, match="were closed"):
            use()
    assert link.receive(0.0) == (None, [])
    assert not os.listdir(tmp_path)
    readers = shared_readers.SharedReaders(NodePlace(0, 1), "test", None)
    readers.close()
    assert readers.watch(0, None) is None
    with pytest.raises(multitables.ClosedError):
        readers.memory(lambda: b"", 0)


def test_a_link_that_is_closed_as_it_connects(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meeting, "_parents", lambda: iter([str(tmp_path)]))
    link = HostLink(NodePlace(0, 1), "test", None)
    monkeypatch.setattr(HostLink, "_start_host", lambda _: link.close())
    with pytest.raises(multitables.ClosedError):
        link.send({"next": 0})
    assert not link.is_open
