"""The client of stores in a fork: a process that was started afresh asks stores for it.

Law
---
1. A fork lacks the threads of its parent's obstore, so calls of obstore would hang. It asks its
   relay, which is started with the first request.
2. A connection serves one request at a time, and is kept for the next one.
3. Names, options and secrets go through sockets only, which nobody else can open.
4. The relay ends when its control socket closes, however the fork ended. When it dies before that,
   the requests that it had are sent to another one, once.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import struct
import threading
from typing import Any

from _multitables import _core, errors
from _multitables.machine import python_arguments, python_environment, python_program
from _multitables.remote.failures import StoreFailure

#: As for readers, modules in the working directory are not imported.
PROGRAM = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "from _multitables.remote.relay_process import main; main()"
)
ATTEMPTS = 2
#: Seconds that a relay which was killed gets to end.
END_SECONDS = 1.0
#: How many bytes of text a message has, and how many other bytes after it.
_LENGTHS = struct.Struct("=IQ")
_NOTHING = memoryview(b"")


class Relay:
    """A process that asks stores, and the connections to it."""

    def __init__(self) -> None:
        self._idle: list[socket.socket] = []
        words = [python_program(), *python_arguments(), "-S", "-c", PROGRAM]
        variables = python_environment().items()
        environment = [os.fsencode(f"{name}={value}") for name, value in variables]
        command = [os.fsencode(word) for word in words]
        (self._process,) = _core.start_together(command[0], command, environment, 1)

    def ask(self, text: str, out: memoryview | None) -> tuple[Any, memoryview]:
        """Send a request, and return the answer and its bytes, which are in `out` if it is given.

        Raises
        ------
        OSError, EOFError
            The relay has ended.
        """
        connection = self._connection()
        try:
            send(connection, text)
            answer, data = receive(connection, out)
        except BaseException:  # the answer may still come, and is not that of the next request
            connection.close()
            raise
        self._idle.append(connection)
        return answer, data

    def end(self) -> str:
        """End it at once, and say how it had ended before."""
        status = self._process.poll()
        _core.end_children([self._process], END_SECONDS)
        self._close()
        return "" if status is None else f"exit status {status}"

    def _close(self) -> None:
        while self._idle:
            self._idle.pop().close()

    def _connection(self) -> socket.socket:
        with contextlib.suppress(IndexError):  # other threads take some, too
            return self._idle.pop()
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                self._process.send(b"\0", [theirs.fileno()])
        except BaseException:
            ours.close()
            raise
        return ours


_lock = threading.Lock()
_relay: Relay | None = None


def ask(
    function: str, arguments: tuple[Any, ...], out: memoryview | None = None
) -> tuple[Any, memoryview]:
    """Return what a function of the client returns in the relay, and the bytes that it fetched.

    Raises
    ------
    StoreFailure, MultitablesError
        What it raises there; or the relay does not run.
    """
    text = json.dumps([function, arguments])
    ended = ""
    for _ in range(ATTEMPTS):
        relay = _running()
        try:
            answer, data = relay.ask(text, out)
            break
        except (OSError, EOFError) as error:
            ended = _end(relay) or str(error)
    else:
        raise StoreFailure("relay", ended)
    if "failure" in answer:
        raise StoreFailure(*answer["failure"])
    if "error" in answer:
        kind, happened, good, advice, values = answer["error"]
        raise getattr(errors, kind)(happened, good=good, advice=advice, **values)
    return answer["found"], data


def _running() -> Relay:
    global _relay
    with _lock:
        if _relay is None:
            # It also ends with this process, but where init is no proper one a zombie would stay.
            from multiprocessing.util import Finalize

            try:
                _relay = Relay()
            except OSError as error:
                raise StoreFailure("relay", os.strerror(error.errno or 0)) from None
            Finalize(None, _end, (_relay,), exitpriority=-100)
        return _relay


def _end(relay: Relay) -> str:
    global _relay
    with _lock:  # it may have been replaced by another thread
        if _relay is not relay:
            return ""
        _relay = None
        return relay.end()


def _begin_in_fork() -> None:
    """Replace the lock, as a thread that the fork left behind may hold it."""
    global _lock, _relay
    _lock = threading.Lock()
    if _relay is not None:
        _relay._close()
    _relay = None  # its process is the parent's


os.register_at_fork(after_in_child=_begin_in_fork)


def send(connection: socket.socket, text: str, data: memoryview = _NOTHING) -> None:
    """Send a message: a text in JSON, and other bytes."""
    encoded = text.encode()
    connection.sendall(_LENGTHS.pack(len(encoded), len(data)) + encoded)
    connection.sendall(data)


def receive(connection: socket.socket, out: memoryview | None = None) -> tuple[Any, memoryview]:
    """Return the value of a message's text, and its other bytes.

    Raises
    ------
    OSError, EOFError
        The other side has ended.
    """
    lengths = memoryview(bytearray(_LENGTHS.size))
    _fill(lengths, connection)
    n_text, n_data = _LENGTHS.unpack(lengths)
    text = bytearray(n_text)
    _fill(memoryview(text), connection)
    data = memoryview(bytearray(n_data)) if out is None else out[:n_data]
    _fill(data, connection)
    return json.loads(text), data


def _fill(out: memoryview, connection: socket.socket) -> None:
    done = 0
    while done < len(out):
        count = connection.recv_into(out[done:], 0, socket.MSG_WAITALL)
        if not count:
            raise EOFError("the other side has ended")
        done += count
