"""Files over plain HTTP/1.1, with ranges and ETags, as web servers give them.

Law
---
1. It only reads below its folder. A change of a file changes its ETag.
2. The server is a process of its own; a `Proxy` in front of it adds TLS, faults and a log.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from _multitables.benchmark.objects.program import Program


@contextlib.contextmanager
def file_server(folder: str | os.PathLike[str]) -> Iterator[str]:
    """The endpoint of a server of the files in `folder`, as ``http://127.0.0.1:port``."""
    program = Program("_multitables.benchmark.objects.file_server", os.path.abspath(folder))
    with contextlib.closing(program):
        yield f"http://127.0.0.1:{program.port}"


class Server(ThreadingHTTPServer):
    """A server that keeps as many connections waiting as web servers do."""

    #: Of more than these the kernel drops the first packet, which is sent again after a second.
    request_queue_size = 1024


class Handler(SimpleHTTPRequestHandler):
    """GET and HEAD of a file."""

    protocol_version = "HTTP/1.1"
    #: Or a body waits until the client has acknowledged its head, which takes the kernel 40 ms.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        """Answer a GET or, without the body, a HEAD."""
        path = self.translate_path(self.path)
        if not os.path.isfile(path):
            self._refuse(404)
            return
        with open(path, "rb") as file:
            state = os.fstat(file.fileno())
            etag = f'"{state.st_mtime_ns:x}-{state.st_size:x}"'
            if self.headers.get("If-Match", etag) not in (etag, "*"):
                self._refuse(412)
                return
            start, end = self._range(state.st_size)
            if start >= end and "Range" in self.headers:
                self._refuse(416, ("Content-Range", f"bytes */{state.st_size}"))
                return
            is_part = end - start < state.st_size or "Range" in self.headers
            self.send_response(206 if is_part else 200)
            if is_part:
                self.send_header("Content-Range", f"bytes {start}-{end - 1}/{state.st_size}")
            self.send_header("ETag", etag)
            self.send_header("Last-Modified", self.date_time_string(state.st_mtime))
            self.send_header("Accept-Ranges", "bytes")
            self.send_header("Content-Length", str(end - start))
            self.end_headers()
            if self.command == "GET" and end > start:
                self.connection.sendfile(file, start, end - start)

    do_HEAD = do_GET  # noqa: N815

    def _range(self, size: int) -> tuple[int, int]:
        """The bytes that are asked for; all of them without a range."""
        found = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", "bytes=0-"))
        first, last = found.groups() if found else ("0", "")
        if not first:
            return max(0, size - int(last or 0)), size
        return int(first), min(size, int(last) + 1) if last else size

    def _refuse(self, status: int, *headers: tuple[str, str]) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *words: object) -> None:  # noqa: A002
        """Say nothing: the proxy has a log."""


def main(folder: str) -> None:
    """Serve files until standard input ends."""
    handler = functools.partial(Handler, directory=folder)
    server = Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(server.server_address[1], flush=True)
    sys.stdin.read()
    os._exit(0)  # connections end with it


if __name__ == "__main__":
    main(*sys.argv[1:])
