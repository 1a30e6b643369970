"""The client of web servers where requests have secrets: no redirect takes them along.

Law
---
1. Headers of the user go to the scheme, host and port of the name, until a redirect leads
   elsewhere, and its query with the first request only. What this file sends itself (Range,
   If-Match) goes along.
2. A redirect from https to http, to what is no web server, or without an end is not followed.
3. Connections are kept, each for one request at a time, and not through a fork.
4. Failures are `StoreFailure`s, without words of the server.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import os
import random
import re
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit

from _multitables.remote.failures import StoreFailure, of_status
from _multitables.remote.names import owner_of

MAX_REDIRECTS = 10
REDIRECTS = {301, 302, 303, 307, 308}
#: What a URL may have that is sent as it is; all else is sent as its bytes in UTF-8.
AS_IT_IS = "/%:@!$&'()*+,;=~[]-._?"
#: A body is read in pieces, so that memory for it is taken as it comes.
PIECE_BYTES = 16 << 20
#: Connections without a request that are kept for each server.
MAX_IDLE = 64
#: A whole answer may take this many times the longest silence.
SLOW = 10
#: Kinds of failures after which a request is sent again, and the pauses before.
AGAIN = {"busy", "cut", "short", "timeout", "unreachable"}
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 15.0
_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
_T = TypeVar("_T")
Meta = dict[str, Any]


class Web:
    """Web servers, as one set of options reaches them. Any thread may use it."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Take our own options, all of them.

        Raises
        ------
        OSError, ValueError
            The file of the option ``certificate`` cannot be read.
        """
        self._options = options
        self._context = ssl.create_default_context()
        if options["certificate"]:
            self._context.load_verify_locations(options["certificate"])
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}
        self._process = os.getpid()

    def __del__(self) -> None:
        for idle in getattr(self, "_idle", {}).values():
            for connection in idle:
                connection.close()

    def fetched(
        self, url: str, begin: int, end: int, etag: str, out: memoryview | None = None
    ) -> tuple[Meta, memoryview]:
        """Return what obstore says of an object as well, and its bytes in a range.

        They are in `out` if it is given, which has room for the range.
        """
        headers = {"Range": f"bytes={begin}-{end - 1}"} | ({"If-Match": etag} if etag else {})

        def take(answer: http.client.HTTPResponse) -> tuple[Meta, memoryview]:
            if answer.status == 200:
                raise StoreFailure("no_ranges", "")
            _check(answer, 206)
            found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            first, last, size = map(int, found.groups()) if found else (0, -1, 0)
            if (first, last + 1) != (begin, min(end, size)):
                raise StoreFailure("short", f"expected bytes {begin}:{end}, got others")
            return _meta(answer, size), self._body(answer, last + 1 - first, out)

        return self._again("GET", url, headers, take)

    def head(self, url: str) -> Meta:
        """Return what obstore says of an object as well."""

        def take(answer: http.client.HTTPResponse) -> Meta:
            _check(answer, 200)
            size = answer.headers.get("Content-Length", "")
            if not re.fullmatch("[0-9]{1,18}", size):
                raise StoreFailure("short", "its size is not sent")
            return _meta(answer, int(size))

        return self._again("HEAD", url, {}, take)

    def put(self, url: str, file: str) -> None:
        """Write a file as an object."""
        with open(file, "rb") as data:
            headers = {"Content-Length": str(os.fstat(data.fileno()).st_size)}
            try:
                self._asked("PUT", url, headers, lambda answer: _check(answer, 200, 201, 204), data)
                return
            except StoreFailure as failure:
                failed = failure
        raise StoreFailure(failed.kind, failed.details)  # which leads to no other exception

    def _body(
        self, answer: http.client.HTTPResponse, n_bytes: int, out: memoryview | None
    ) -> memoryview:
        until = time.monotonic() + SLOW * self._options["timeout_seconds"]

        def fill(out: memoryview) -> None:
            while out:
                count = answer.readinto(out)
                if not count:
                    raise StoreFailure("cut", f"{n_bytes} bytes were announced")
                if time.monotonic() > until:
                    raise StoreFailure("timeout", "")
                out = out[count:]

        if out is not None:
            fill(out[:n_bytes])
            return out[:n_bytes]
        data = bytearray()
        while (done := len(data)) < n_bytes:
            data += bytes(min(n_bytes - done, PIECE_BYTES))
            with memoryview(data) as whole, whole[done:] as piece:
                fill(piece)
        return memoryview(data)

    def _again(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        take: Callable[[http.client.HTTPResponse], _T],
    ) -> _T:
        """Ask, and again after failures that pass."""
        until = time.monotonic() + self._options["retry_timeout_seconds"]
        pause, n_retries = FIRST_PAUSE_SECONDS, 0
        while True:
            try:
                return self._asked(method, url, headers, take)
            except StoreFailure as failure:
                failed = failure
            seconds = pause * random.uniform(0.5, 1.5)
            is_late = time.monotonic() + seconds > until
            if failed.kind not in AGAIN or n_retries == self._options["max_retries"] or is_late:
                break
            time.sleep(seconds)
            pause, n_retries = min(2 * pause, MAX_PAUSE_SECONDS), n_retries + 1
        said = [failed.details, f"after {n_retries} retries" if n_retries else ""]
        raise StoreFailure(failed.kind, ", ".join(filter(None, said)), was_repeated=True)

    def _asked(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        take: Callable[[http.client.HTTPResponse], _T],
        body: Any = None,
    ) -> _T:
        """Send a request, and again to where it is redirected; return what is taken of the answer.

        Raises
        ------
        StoreFailure
            Whatever went wrong.
        """
        owner, given = owner_of(url), dict(self._options["headers"])
        for _ in range(MAX_REDIRECTS + 1):
            with _failures(), self._sent(method, url, {**given, **headers}, body) as answer:
                if answer.status not in REDIRECTS or body is not None:
                    return take(answer)
                place = answer.headers.get("Location")
                answer.read(PIECE_BYTES)
            if place is None:
                raise StoreFailure("redirect", f"HTTP status {answer.status} without a place")
            was_safe, url = url.lower().startswith("https:"), urljoin(url, place)
            if not owner_of(url).startswith("http"):
                raise StoreFailure("redirect", "to what is no web server")
            if was_safe and not url.lower().startswith("https:"):
                raise StoreFailure("redirect", "from https to http")
            if owner_of(url) != owner:
                given = {}
        raise StoreFailure("redirect", f"more than {MAX_REDIRECTS} times")

    @contextlib.contextmanager
    def _sent(
        self, method: str, url: str, headers: dict[str, str], body: Any
    ) -> Iterator[http.client.HTTPResponse]:
        """Send a request to one server; its connection is kept if the answer is read to its end."""
        owner, place = owner_of(url), urlsplit(url.partition("#")[0])
        if not owner:
            raise StoreFailure("options", "the name has no host that is certain")
        target = quote(place.path or "/", safe=AS_IT_IS)
        target += f"?{quote(place.query, safe=AS_IT_IS)}" if place.query else ""
        proxy = _proxy_of(owner)
        if proxy is not None and place.scheme == "http":
            target, headers = f"http://{place.netloc}{target}", headers | _authorization(proxy)
            headers["Host"] = place.netloc
        if self._process != os.getpid():
            self._idle, self._process = {}, os.getpid()
        idle = self._idle.setdefault(owner, [])
        while True:
            try:
                connection, is_kept = idle.pop(), True
            except IndexError:
                connection, is_kept = self._connected(owner, proxy), False
            try:
                connection.request(method, target, body, headers)
                answer = connection.getresponse()
                break
            except BaseException as error:
                connection.close()
                if not (is_kept and body is None and isinstance(error, ConnectionError)):
                    raise  # a kept one may be closed by now
        try:
            yield answer
        finally:
            if answer.isclosed() and not answer.will_close and len(idle) < MAX_IDLE:
                idle.append(connection)
            else:
                answer.close()
                connection.close()

    def _connected(self, owner: str, proxy: SplitResult | None) -> http.client.HTTPConnection:
        to, through = urlsplit(owner), proxy or urlsplit(owner)
        host, port = through.hostname or "", through.port
        seconds = self._options["connect_timeout_seconds"]
        made: http.client.HTTPConnection
        if to.scheme == "https":
            made = http.client.HTTPSConnection(host, port, timeout=seconds, context=self._context)
            if proxy is not None:
                made.set_tunnel(to.hostname or "", to.port, _authorization(proxy))
        else:
            made = http.client.HTTPConnection(host, port, timeout=seconds)
        try:
            made.connect()
        except BaseException:
            made.close()
            raise
        made.sock.settimeout(self._options["timeout_seconds"])
        return made


def _proxy_of(owner: str) -> SplitResult | None:
    """Return the proxy that the environment names for a server."""
    if not any(name.lower().endswith("_proxy") for name in os.environ):
        return None
    from urllib.request import getproxies, proxy_bypass

    to, proxies = urlsplit(owner), getproxies()
    named = proxies.get(to.scheme) or proxies.get("all")
    if not named or proxy_bypass(to.netloc):
        return None
    return urlsplit(named if "://" in named else f"http://{named}")


def _authorization(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    user = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": f"Basic {base64.b64encode(user.encode()).decode()}"}


def _check(answer: http.client.HTTPResponse, *statuses: int) -> None:
    if answer.status not in statuses:
        raise of_status(answer.status)


def _meta(answer: http.client.HTTPResponse, size: int) -> Meta:
    try:
        modified = parsedate_to_datetime(answer.headers.get("Last-Modified", ""))
    except (ValueError, OverflowError):
        modified = datetime.fromtimestamp(0, timezone.utc)
    modified = modified.replace(tzinfo=modified.tzinfo or timezone.utc)  # "-0000" says none
    return {"e_tag": answer.headers.get("ETag"), "last_modified": modified, "size": size}


@contextlib.contextmanager
def _failures() -> Iterator[None]:
    """Name what connections raise; the failure does not lead to it, as it may repeat secrets."""
    try:
        yield
        return
    except ssl.SSLCertVerificationError:
        kind = "certificate"
    except TimeoutError:
        kind = "timeout"
    except (socket.gaierror, ConnectionRefusedError):
        kind = "unreachable"
    except (http.client.IncompleteRead, ConnectionError, ssl.SSLError):
        kind = "cut"
    except OSError:
        kind = "unreachable"
    except http.client.HTTPException:
        kind = "cut"
    except (ValueError, UnicodeError):
        kind = "options"
    raise StoreFailure(kind, "")
