"""The program of a proxy: it passes HTTP/1.1 on, with the delays and faults that are set.

Law
---
1. A thread for each connection of a client, with one kept connection to the server. Bodies go from
   socket to socket through a pipe (splice(2)), past Python; bodies of TLS go through it.
2. Heads pass unchanged, Host too, because clients sign them. A fault changes only what it names.
3. Every request is in the log when its answer ends, however it ends.
4. Each line on standard input is a question and has one line as its answer. Its end is the end.

It passes on bodies that have a Content-Length; S3 has no others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import re
import select
import socket
import ssl
import sys
import threading
import time
from typing import Any
from urllib.parse import urlsplit

from _multitables.benchmark.objects.faults import Fault, Request, Settings

PIECE_BYTES = 1 << 20
HEAD_BYTES = 1 << 16
CREDIT_SECONDS = 0.02  # a sleep that was too long is made up for
QUIET_SECONDS = 1.0  # how long the log waits for answers that are on their way


def field(head: bytes, name: str) -> str:
    """The value of a header, or "" if it is missing."""
    found = re.search(rb"(?im)^%s:[ \t]*([^\r\n]*)" % name.encode(), head)
    return found[1].decode("latin-1") if found else ""


def with_field(head: bytes, name: str, value: str) -> bytes:
    """The head with another value for a header, if it has that header."""
    pattern = rb"(?im)^(%s:)[^\r\n]*" % name.encode()
    return re.sub(pattern, lambda found: found[1] + b" " + value.encode("latin-1"), head)


def without_field(head: bytes, name: str) -> bytes:
    """A head without the header of that name."""
    return re.sub(rb"(?im)^%s:[^\n]*\n" % name.encode(), b"", head)


def refusal(status: int) -> tuple[bytes, bytes]:
    """Head and body of an error as S3 forms it."""
    body = b"<Error><Code>InjectedFault</Code><Message>by the proxy</Message></Error>"
    head = f"HTTP/1.1 {status} Injected\r\nContent-Type: application/xml\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode(), body


class Book:
    """What all connections share: settings, counts, the limit of bytes, the log."""

    def __init__(self) -> None:
        self._change = threading.Condition()
        self._log: dict[int, Request] = {}
        self._begun = 0
        self._running = 0
        self._free_at = 0.0
        self.set(Settings())

    def set(self, settings: Settings) -> None:
        """Other settings, and counts from 0."""
        with self._change:
            self.settings = settings
            self._counts = [0] * len(settings.faults)

    def begin(self, request: Request) -> tuple[int, Fault | None]:
        """A request has come; its number, and the fault that is due to it."""
        due = None
        with self._change:
            self._begun += 1
            self._running += 1
            for place, fault in enumerate(self.settings.faults):
                if fault.fits(request.method, request.path):
                    if due is None and fault.is_due(self._counts[place]):
                        due = fault
                    self._counts[place] += 1
            return self._begun, due

    def end(self, number: int, request: Request) -> None:
        """The answer to a request has ended."""
        with self._change:
            self._log[number] = request
            self._running -= 1
            self._change.notify_all()

    def take_log(self) -> list[Request]:
        """The log, which is empty afterwards; a client may have its answer before `end`."""
        with self._change:
            self._change.wait_for(lambda: not self._running, QUIET_SECONDS)
            found, self._log = self._log, {}
        return [found[number] for number in sorted(found)]

    def piece_bytes(self) -> int:
        """How much is sent at a time: hundredths of a second where there is a limit."""
        limit = self.settings.bytes_per_second
        return max(1024, min(PIECE_BYTES, int(limit / 100))) if limit else PIECE_BYTES

    def pace(self, n_bytes: int) -> None:
        """Wait as long as these bytes take."""
        limit = self.settings.bytes_per_second
        if limit:
            with self._change:
                now = time.monotonic()
                self._free_at = max(self._free_at, now - CREDIT_SECONDS) + n_bytes / limit
                wait_seconds = self._free_at - now
            time.sleep(max(0.0, wait_seconds))


class Peer:
    """A connection, and what it has sent beyond the last head."""

    def __init__(self, connection: socket.socket) -> None:
        self.socket = connection
        self.rest = b""
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def head(self) -> bytes:
        """The next head with its empty line; b"" where the connection ends."""
        while (end := self.rest.find(b"\r\n\r\n")) < 0:
            part = self.socket.recv(HEAD_BYTES)
            if not part:
                return b""
            self.rest += part
        head, self.rest = self.rest[: end + 4], self.rest[end + 4 :]
        return head

    def is_idle(self) -> bool:
        """Whether it is open, with nothing to be read."""
        poll = select.poll()
        poll.register(self.socket, select.POLLIN)
        return not poll.poll(0)


class Connection:
    """A client's connection and the server's that belongs to it."""

    def __init__(self, client: Peer, server_address: tuple[str, int], book: Book) -> None:
        self._client = client
        self._server: Peer | None = None
        self._address = server_address
        self._book = book
        self._pipe = os.pipe()
        with contextlib.suppress(OSError):  # beyond the user's limit of pipes, the size stays
            fcntl.fcntl(self._pipe[1], fcntl.F_SETPIPE_SZ, PIECE_BYTES)

    def serve(self) -> None:
        """Answer requests until one side ends."""
        goes_on = True
        while goes_on and (head := self._client.head()):
            method, path, _ = head.decode("latin-1").split(" ", 2)
            request = Request(method, path, field(head, "Range"))
            number, fault = self._book.begin(request)
            self._answered = request
            try:
                goes_on = self._answer(head, fault) and field(head, "Connection").lower() != "close"
            finally:
                self._book.end(number, self._answered)
            if fault is not None and fault.action == "hang":
                self._client.head()  # until the client gives up

    def close(self) -> None:
        """Close what belongs to it."""
        self._client.socket.close()
        self._leave_server()
        for descriptor in self._pipe:
            os.close(descriptor)

    def _answer(self, head: bytes, fault: Fault | None) -> bool:
        """Answer one request; whether the client's connection goes on."""
        action = fault.action if fault else ""
        value = fault.value if fault else 0
        body_bytes = int(field(head, "Content-Length") or 0)
        time.sleep(self._book.settings.latency_seconds)
        if action in ("drop", "hang", "status"):
            self._pass_on(self._client, None, body_bytes)
            if action == "status":
                self._send(*refusal(int(value)))
            return action == "status"
        if action == "whole":
            head = without_field(head, "Range")
            if value:
                url = urlsplit(str(value))
                line = f"GET {url.path}?{url.query} HTTP/1.1\r\nHost: {url.netloc}\r\n\r\n"
                head = line.encode()
        server = self._connected()
        server.socket.sendall(head)
        self._pass_on(self._client, server, body_bytes)
        if not (answer := server.head()):
            self._leave_server()
            self._send(*refusal(502))
            return True
        return self._pass_answer(server, answer, action, value)

    def _pass_answer(self, server: Peer, answer: bytes, action: str, value: int | str) -> bool:
        """Pass on the server's answer; whether the client's connection goes on."""
        status = int(answer[9:12])
        has_body = self._answered.method != "HEAD" and status not in (204, 304)
        length = int(field(answer, "Content-Length") or 0) if has_body else 0
        wanted = min(length, int(value)) if action in ("cut", "short") else length
        if action == "short" and has_body:
            answer = with_field(answer, "Content-Length", str(wanted))
        elif action == "etag":
            answer = with_field(answer, "ETag", str(value))
        self._send(answer)
        self._pass_on(server, self._client, wanted)
        ends = field(answer, "Connection").lower() == "close"
        if wanted < length or ends:
            self._leave_server()
        return not ends and not (action == "cut" and wanted < length)

    def _connected(self) -> Peer:
        """The server; a kept connection may have ended meanwhile."""
        if self._server is not None and not self._server.is_idle():
            self._leave_server()
        if self._server is None:
            self._server = Peer(socket.create_connection(self._address))
        return self._server

    def _leave_server(self) -> None:
        if self._server is not None:
            self._server.socket.close()
            self._server = None

    def _send(self, head: bytes, body: bytes = b"") -> None:
        status = int(head[9:12])
        self._answered = dataclasses.replace(self._answered, status=status, body_bytes=len(body))
        self._client.socket.sendall(head + body)

    def _pass_on(self, source: Peer, sink: Peer | None, n_bytes: int) -> None:
        """Pass on a body, or forget it; only answers are limited and counted."""
        is_answer = sink is self._client
        while n_bytes:
            piece = min(n_bytes, self._book.piece_bytes() if is_answer else PIECE_BYTES)
            moved = self._move(source, sink, piece)
            n_bytes -= moved
            if is_answer:
                done = self._answered.body_bytes + moved
                self._answered = dataclasses.replace(self._answered, body_bytes=done)
                self._book.pace(moved)

    def _move(self, source: Peer, sink: Peer | None, piece: int) -> int:
        """Move at most that many bytes; returns how many."""
        plain = type(source.socket) is socket.socket and not source.rest
        if plain and sink is not None and type(sink.socket) is socket.socket:
            moved = left = os.splice(source.socket.fileno(), self._pipe[1], piece)
            while left:
                left -= os.splice(self._pipe[0], sink.socket.fileno(), left)
        else:  # TLS, the end of what came with a head, or a body that is forgotten
            part = source.rest[:piece] or source.socket.recv(piece)
            source.rest = source.rest[len(part) :]
            if sink is not None:
                sink.socket.sendall(part)
            moved = len(part)
        if not moved:
            raise ConnectionError("the body has ended early")
        return moved


def serve(
    connection: socket.socket,
    server_address: tuple[str, int],
    context: ssl.SSLContext | None,
    book: Book,
) -> None:
    """Serve one client until it, or the server, ends the connection."""
    with contextlib.suppress(OSError), connection:  # either side may end, also in a handshake
        if context is not None:
            connection = context.wrap_socket(connection, server_side=True)
        served = Connection(Peer(connection), server_address, book)
        with contextlib.closing(served):
            served.serve()


def accept(listening: socket.socket, *shared: Any) -> None:
    """Start a thread for each client."""
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=serve, args=(connection, *shared), daemon=True).start()


def main(server: str, *tls: str) -> None:
    """Be a proxy in front of `server` until standard input ends."""
    context = None
    if tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        context.set_alpn_protocols(["http/1.1"])
    host, _, port = server.rpartition(":")
    listening = socket.create_server(("127.0.0.1", 0), backlog=1024)
    book = Book()
    shared = (listening, (host, int(port)), context, book)
    threading.Thread(target=accept, args=shared, daemon=True).start()
    print(listening.getsockname()[1], flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        answer = None
        if "settings" in question:
            book.set(Settings.of_json(question["settings"]))
        else:
            answer = [dataclasses.asdict(one) for one in book.take_log()]
        print(json.dumps(answer), flush=True)
    os._exit(0)  # connections end with it


if __name__ == "__main__":
    main(*sys.argv[1:])
