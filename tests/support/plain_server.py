"""An HTTP server in a thread of the test: what it was sent, and answers as a test wants them.

Law
---
1. Each connection is for one request, so no thread of it outlives the block.
2. All headers of all requests are kept, in the order in which the requests came.
"""

from __future__ import annotations

import contextlib
import re
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import trustme


class Sent(NamedTuple):
    """A request."""

    method: str
    path: str
    headers: dict[str, str]


@dataclass
class PlainServer:
    """Objects by path; `status` gives the status of a refusal, 0 to answer, or -1 to hang up."""

    objects: dict[str, bytes] = field(default_factory=dict)
    etag: str = '"1"'
    status: Callable[[Sent], int] = lambda _: 0
    #: Paths, and where they are redirected to; "" is nowhere.
    moved: dict[str, str] = field(default_factory=dict)
    #: The body of a refusal.
    words: bytes = b""
    sent: list[Sent] = field(default_factory=list)
    endpoint: str = ""


def issued(folder: Path) -> tuple[Path, Path]:
    """Return files of a certificate for this machine and its key, beside ``authority.pem``."""
    authority = trustme.CA()
    certificate = authority.issue_cert("127.0.0.1")
    files = (folder / "chain.pem", folder / "key.pem")
    certificate.cert_chain_pems[0].write_to_path(files[0])
    certificate.private_key_pem.write_to_path(files[1])
    authority.cert_pem.write_to_path(folder / "authority.pem")
    return files


@contextlib.contextmanager
def plain_server(**settings: object) -> Iterator[PlainServer]:
    """Serve until the block ends."""
    served = PlainServer(**settings)  # type: ignore[arg-type]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            sent = Sent(self.command, self.path, {k.lower(): v for k, v in self.headers.items()})
            served.sent.append(sent)
            path = unquote(self.path.partition("?")[0])
            if path in served.moved:
                place = served.moved[path]
                self.answer(302, b"", *([("Location", place)] if place else []))
                return
            data = served.objects.get(path)
            refused = served.status(sent) or (404 if data is None else 0)
            if refused < 0:
                self.close_connection = True
                return
            if refused or data is None:
                self.answer(refused, served.words)
                return
            found = re.fullmatch(r"bytes=(\d+)-(\d+)", sent.headers.get("range", ""))
            if not found:
                self.answer(200, data)
                return
            begin, end = int(found[1]), min(int(found[2]) + 1, len(data))
            where = f"bytes {begin}-{end - 1}/{len(data)}"
            self.answer(206, data[begin:end], ("Content-Range", where))

        do_HEAD = do_GET  # noqa: N815

        def do_PUT(self) -> None:
            sent = Sent(self.command, self.path, {k.lower(): v for k, v in self.headers.items()})
            served.sent.append(sent)
            data = self.rfile.read(int(sent.headers["content-length"]))
            refused = served.status(sent)
            if not refused:
                served.objects[self.path] = data
            self.answer(refused or 201, b"")

        def answer(self, status: int, body: bytes, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            for name, value in headers:
                self.send_header(name, value)
            if served.etag:
                self.send_header("ETag", served.etag)
            self.send_header("Last-Modified", "Thu, 01 Jan 2026 00:00:00 GMT")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)

        def log_message(self, format: str, *words: object) -> None:  # noqa: A002
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        request_queue_size = 128  # a client that finds the queue full tries again after a second

        def handle_error(self, *request: object) -> None:
            if not isinstance(sys.exc_info()[1], ConnectionError):  # a client that was killed
                super().handle_error(*request)

    server = Server(("127.0.0.1", 0), Handler)
    server.daemon_threads = False  # its end waits for them
    served.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
