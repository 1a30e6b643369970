"""Where ranks of a node meet: whose folder it is, what killed processes leave, and which run it is.

1. A folder of another user, a link, or one that others may enter is not used.
2. What a killed process has left is in nobody's way, and goes.
3. Two runs agree on nothing, though all else is equal.
"""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path

import pytest

import multitables
from _multitables._core import Descriptor
from _multitables.parent.node import kernel_view, meeting, messages
from _multitables.parent.node.place import ATTEMPTS, RUNS, agreed

NAME = f"multitables-{os.geteuid()}"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where they meet, which is not there yet."""
    monkeypatch.setattr(meeting, "_parents", lambda: iter([str(tmp_path)]))
    return tmp_path / NAME


def make_wrong(folder: Path, how: str) -> None:
    if how == "a link":
        elsewhere = folder.parent / "elsewhere"
        elsewhere.mkdir(0o700)
        folder.symlink_to(elsewhere)
    elif how == "a file":
        folder.touch(0o600)
    elif how == "open to others":
        folder.mkdir()
        folder.chmod(0o711)
    else:
        if os.geteuid():
            pytest.skip("only root can give a folder to another user")
        folder.mkdir(0o700)
        os.chown(folder, 65534, 65534)


@pytest.mark.parametrize("how", ["a link", "a file", "open to others", "another user's"])
def test_a_folder_that_others_may_have_made(
    folder: Path, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_wrong(folder, how)
    for call in (meeting.connected, lambda name: meeting.listening(name, 1)):
        with pytest.raises(multitables.OptionsError, match="folder of this user's own") as caught:
            call("x")
        assert str(folder) in str(caught.value)
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.setattr(meeting, "_parents", lambda: iter([str(tmp_path), str(other)]))
    with listening("x"):
        assert (other / NAME / "x").is_socket()
    assert (other / NAME).stat().st_mode & 0o777 == 0o700


def listening(name: str) -> socket.socket:
    made = meeting.listening(name, 1)
    assert made is not None
    return made


def test_the_runtime_folder_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", "/here")
    assert next(iter(meeting._parents())) == "/here"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "here")
    assert "here" not in meeting._parents()


def test_a_long_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses of sockets have 108 bytes."""
    parent = tmp_path / ("x" * 200)
    parent.mkdir()
    monkeypatch.setattr(meeting, "_parents", lambda: iter([str(parent)]))
    with listening("x"):
        connection = meeting.connected("x")
        assert connection is not None
        with connection:
            assert kernel_view.peer(connection) == (os.getpid(), os.geteuid())


def test_what_a_killed_process_left(folder: Path) -> None:
    listening("y").close()  # as the kernel closes it: the file stays
    assert (folder / "y").is_socket()
    assert meeting.connected("y") is None
    with listening("x"):
        assert [entry.name for entry in folder.iterdir()] == ["x"]
        assert meeting.listening("x", 1) is None
        meeting.remove_left()
        assert (folder / "x").is_socket()
    meeting.remove_left()
    assert list(folder.iterdir()) == []


def test_one_after_the_other(folder: Path) -> None:
    listening("x").close()
    descriptor = os.open(folder, os.O_RDONLY)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert meeting.listening("x", 1) is None
    os.close(descriptor)
    listening("x").close()


@pytest.fixture
def no_launcher(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in RUNS + ATTEMPTS:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_runs_are_told_apart(no_launcher: pytest.MonkeyPatch) -> None:
    def same() -> str:
        assert agreed("x", "name") == agreed("x", "name")
        return agreed("x", "name")

    seen = [same(), agreed("y", "name"), agreed("x", "proof")]
    began = kernel_view.began(os.getppid())
    assert began is not None
    no_launcher.setattr(kernel_view, "began", lambda _: began + 1)  # a pid that is used again
    seen.append(same())
    for name in RUNS + ATTEMPTS:
        no_launcher.setenv(name, "1")
        seen.append(same())
    no_launcher.setattr(os, "getppid", lambda: 1)  # a launcher names the run: wrappers may be
    assert same() == seen[-1]
    assert len(set(seen)) == len(seen)


def test_memory_that_may_change() -> None:
    """Only memory that keeps its bytes is read."""
    number = os.memfd_create("test", os.MFD_ALLOW_SEALING)
    os.write(number, b"123")
    memory = Descriptor.copy_of(number)
    os.close(number)
    for seals in (0, fcntl.F_SEAL_SHRINK, fcntl.F_SEAL_GROW):
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, seals)
        with pytest.raises(ValueError, match="not sealed"):
            messages.content(memory)
    fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    assert messages.content(memory) == b"123"
    memory.close()
    for data in (b"", b"123"):
        memory = Descriptor.holding(data)
        assert messages.content(memory) == data
        memory.close()
