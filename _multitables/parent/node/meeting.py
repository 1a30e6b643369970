"""Where the ranks of a node find the host of their readers: a socket in a folder of the user's own.

Law
---
1. The folder belongs to this user, and nobody else may enter it: it is opened without following a
   link, and what was opened is looked at. Another one is not used.
2. A socket there has a host as long as a process listens at it. One that nobody listens at is what
   a killed process has left: the next one that listens, or ends, removes it.
3. A process holds the folder's lock while it listens or removes; the kernel frees it at its end.
4. Nothing here waits: callers try again, and have a deadline.

This file must never know what is said through a socket.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import socket
import stat
from collections.abc import Iterator
from dataclasses import dataclass

from _multitables._core import Descriptor
from _multitables.errors import OptionsError

#: What to do where others are in the way.
OWN_FOLDER = (
    "Let XDG_RUNTIME_DIR name a local folder that belongs to you, the same for all ranks of a node"
)


@dataclass(frozen=True)
class _Folder:
    path: str
    descriptor: Descriptor

    def address(self, name: str) -> str:
        """Return a socket's address: through the descriptor, which has no limit of 108 bytes."""
        opened = f"/proc/self/fd/{self.descriptor.fileno()}"
        return os.path.join(opened if os.path.isdir(opened) else self.path, name)


def connected(name: str) -> socket.socket | None:
    """Return a connection with the process that listens; None: nobody listens.

    Raises
    ------
    BlockingIOError
        It has no time.
    """
    with _folder() as folder:
        return _connected(folder, name)


def listening(name: str, backlog: int) -> socket.socket | None:
    """Return a socket that listens; None: another process was faster, or is about to be."""
    with _folder() as folder:
        if not _locked(folder):
            return None
        _remove_left(folder)
        listener = _socket()
        try:
            listener.bind(folder.address(name))
            listener.listen(backlog)
        except OSError as error:
            listener.close()
            if error.errno in (errno.EADDRINUSE, errno.ENOENT):  # the folder itself was removed
                return None
            raise
        return listener


def remove_left() -> None:
    """Remove the sockets at which nobody listens any more."""
    with _folder() as folder:
        if _locked(folder):
            _remove_left(folder)


def _remove_left(folder: _Folder) -> None:
    number = folder.descriptor.fileno()
    for name in os.listdir(number):
        with contextlib.suppress(OSError):  # a busy one, or no socket
            found = os.stat(name, dir_fd=number, follow_symlinks=False)
            if not stat.S_ISSOCK(found.st_mode):
                continue
            connection = _connected(folder, name)
            if connection is None:
                os.unlink(name, dir_fd=number)
            else:
                connection.close()


def _connected(folder: _Folder, name: str) -> socket.socket | None:
    connection = _socket()
    try:
        connection.connect(folder.address(name))
    except (FileNotFoundError, ConnectionRefusedError):
        connection.close()
        return None
    except BaseException:
        connection.close()
        raise
    return connection


def _socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    made.setblocking(False)
    return made


def _locked(folder: _Folder) -> bool:
    try:
        fcntl.flock(folder.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def _folder() -> Iterator[_Folder]:
    """Open the first folder that can be used, which is the same one for all ranks of a node."""
    refusals = []
    for parent in _parents():
        path = os.path.join(parent, f"multitables-{os.geteuid()}")
        try:
            descriptor = _opened(path)
        except OSError as error:
            refusals.append(f"{path}: {str(error.strerror).partition(' (os')[0]}")
            continue
        try:
            yield _Folder(path, descriptor)
        finally:
            descriptor.close()
        return
    raise OptionsError(
        f"share='node' needs a folder of this user's own for the ranks to meet in, got "
        f"{'; '.join(refusals)}",
        advice=OWN_FOLDER,
        option="share",
    )


def _parents() -> Iterator[str]:
    named = os.environ.get("XDG_RUNTIME_DIR", "")
    if os.path.isabs(named):
        yield named
    yield f"/run/user/{os.geteuid()}"
    yield "/tmp"  # not TMPDIR, which ranks may have each their own


def _opened(path: str) -> Descriptor:
    """Return a private folder, which is made if it is missing."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    descriptor = Descriptor.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    found = os.fstat(descriptor.fileno())
    if found.st_uid != os.geteuid():
        raise OSError(errno.EPERM, f"it belongs to user {found.st_uid}")
    if (mode := stat.S_IMODE(found.st_mode)) & 0o077:
        raise OSError(errno.EPERM, f"others may enter it (mode {mode:o})")
    return descriptor
