"""The process that asks stores for a fork; see relay.py.

Law
---
1. Descriptor 3 is the control socket, through which connections come. It ends when that
   closes, and waits for no store then.
2. Each connection has a thread, which answers one request after the other.
3. Whatever the client raises is an answer.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
from typing import Any

from _multitables.errors import MultitablesError
from _multitables.remote import client
from _multitables.remote.failures import StoreFailure
from _multitables.remote.relay import receive, send

FUNCTIONS = {
    function.__name__: function
    for function in (client.fetched, client.head, client.put, client.listed)
}


def main() -> None:
    """Answer until the control socket closes."""
    control = socket.socket(fileno=3)
    said = b"\0"
    while said:
        said, descriptors, _, _ = socket.recv_fds(control, 1, 1)
        for descriptor in descriptors:
            connection = socket.socket(fileno=descriptor)
            threading.Thread(target=_serve, args=(connection,), daemon=True).start()
    os._exit(0)


def _serve(connection: socket.socket) -> None:
    with connection, contextlib.suppress(OSError, EOFError):  # the fork gave up, or ended
        while True:
            (function, arguments), _ = receive(connection)
            # Not a name for the bytes, which would keep them until the next request is answered.
            send(connection, *_answer(function, arguments))


def _answer(function: str, arguments: list[Any]) -> tuple[str, memoryview]:
    data = memoryview(b"")
    told: dict[str, Any]
    try:
        found: Any = FUNCTIONS[function](*arguments)
        if function == "fetched":
            *found, data = found
        told = {"found": found}
    except StoreFailure as failure:
        told = {"failure": [failure.kind, failure.details]}
    except MultitablesError as error:
        parts = [type(error).__name__, error.happened, error.good, error.advice, error.values]
        told = {"error": parts}
    return json.dumps(told, default=str), data  # values that JSON does not know are texts there
