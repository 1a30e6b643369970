"""The client of web servers where requests have secrets: no redirect takes them along.

Law
---
1. Headers of the user go to the scheme, host and port of the name, until a redirect leads
   elsewhere, and its query with the first request only. What this file sends itself (Range,
   If-Match) goes along.
2. A redirect from https to http, to what is no web server, or without an end is not followed.
3. urllib3 is imported here and nowhere else: it keeps connections, and knows proxies and TLS. It
   neither follows redirects nor repeats requests, nothing of it passes a fork, and it logs none.
4. Failures are `StoreFailure`s, without words of the server.
5. An answer has an end, from its first byte on: it comes within `SLOW` times the longest silence.
"""

from __future__ import annotations

import io
import logging
import os
import random
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timezone
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote, urljoin, urlsplit

from _multitables.errors import MissingLibraryError
from _multitables.remote.failures import SLOW, StoreFailure, of_status
from _multitables.remote.names import owner_of

if TYPE_CHECKING:
    from socket import socket

    from urllib3 import BaseHTTPResponse, PoolManager

MAX_REDIRECTS = 10
REDIRECTS = {301, 302, 303, 307, 308}
#: A body is read in pieces, so that memory for it is taken as it comes.
PIECE_BYTES = 1 << 18
#: Neither redirects nor contents are for urllib3 to follow or decode.
AS_IT_IS = {"redirect": False, "preload_content": False, "decode_content": False}
#: Connections without a request that are kept for each server.
MAX_IDLE = 64
#: Kinds of failures after which a request is sent again, and the pauses before.
AGAIN = {"busy", "cut", "short", "timeout", "unreachable"}
FIRST_PAUSE_SECONDS, MAX_PAUSE_SECONDS = 0.1, 15.0
#: Names of exceptions, of urllib3 and of what it wraps -> the kind. The nearest class counts.
KINDS = {
    "SSLCertVerificationError": "certificate",
    "TimeoutError": "timeout",
    "NewConnectionError": "unreachable",
    "ConnectionRefusedError": "unreachable",
    "ConnectionError": "cut",
    "SSLError": "cut",
    "HTTPException": "cut",
    "ProtocolError": "cut",
    "OSError": "unreachable",
    "ValueError": "options",
}
_RANGE = re.compile(r"bytes ([0-9]{1,18})-([0-9]{1,18})/([0-9]{1,18})")
_T = TypeVar("_T")
Meta = dict[str, Any]
_this_thread = threading.local()


class Web:
    """Web servers, as one set of options reaches them. Any thread may use it."""

    def __init__(self, options: dict[str, Any]) -> None:
        """Take our own options, all of them.

        Raises
        ------
        MissingLibraryError
            urllib3 is not installed.
        OSError, ValueError
            The file of the option ``certificate`` cannot be read.
        """
        import ssl

        try:
            import urllib3
        except ImportError:
            raise MissingLibraryError(
                "web servers are asked with urllib3, which is not installed",
                advice="pip install 'multitables[remote]'",
            ) from None
        for name in ("connection", "connectionpool"):  # they log queries
            logging.getLogger(f"urllib3.{name}").addFilter(_is_of_others)
        context = ssl.create_default_context()
        if options["certificate"]:
            context.load_verify_locations(options["certificate"])
        seconds = options["connect_timeout_seconds"], options["timeout_seconds"]
        self._settings: dict[str, Any] = {
            "ssl_context": context,
            "maxsize": MAX_IDLE,
            "retries": False,
            "timeout": urllib3.Timeout(connect=seconds[0], read=seconds[1]),
        }
        self._options = options
        #: By process, since another's are not used in a fork, and by proxy.
        self._managers: dict[tuple[int, str], PoolManager] = {}

    def fetched(self, url: str, begin: int, end: int, etag: str) -> tuple[Meta, memoryview]:
        """Return what obstore says of an object as well, and its bytes in a range."""
        headers = {"Range": f"bytes={begin}-{end - 1}"} | ({"If-Match": etag} if etag else {})

        def take(answer: BaseHTTPResponse) -> tuple[Meta, memoryview]:
            if answer.status == 200:
                raise StoreFailure("no_ranges", "")
            _check(answer, 206)
            found = _RANGE.fullmatch(answer.headers.get("Content-Range", ""))
            first, last, size = map(int, found.groups()) if found else (0, -1, 0)
            if (first, last + 1) != (begin, min(end, size)):
                raise StoreFailure("short", f"expected bytes {begin}:{end}, got others")
            data = b"".join(_pieces(answer, last + 1 - first))
            if len(data) < last + 1 - first:
                raise StoreFailure("cut", f"{last + 1 - first} bytes were announced")
            return _meta(answer, size), memoryview(data)

        return self._again("GET", url, headers, take)

    def head(self, url: str) -> Meta:
        """Return what obstore says of an object as well."""

        def take(answer: BaseHTTPResponse) -> Meta:
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
            self._again("PUT", url, headers, lambda answer: _check(answer, 200, 201, 204), data)

    def _again(
        self,
        method: str,
        url: str,
        headers: dict[str, str],
        take: Callable[[BaseHTTPResponse], _T],
        body: Any = None,
    ) -> _T:
        """Send a request, and again after failures that pass; return what is taken of the answer.

        Raises
        ------
        StoreFailure
            The request failed; the kind says how.
        """
        until = time.monotonic() + self._options["retry_timeout_seconds"]
        pause, n_retries = FIRST_PAUSE_SECONDS, 0
        while True:
            _this_thread.asks = True
            try:
                return self._asked(method, url, headers, take, body)
            except StoreFailure as failure:
                failed = failure
            except Exception as error:  # noqa: BLE001 - urllib3 lets through some of Python's
                failed = _failure_of(error)
            finally:
                _this_thread.asks = False
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
        take: Callable[[BaseHTTPResponse], _T],
        body: Any,
    ) -> _T:
        """Send a request, and again to where it is redirected."""
        owner, given = owner_of(url), dict(self._options["headers"])
        if not owner:
            raise StoreFailure("options", "the name has no host that is certain")
        for _ in range(MAX_REDIRECTS + 1):
            # A body that is sent again is read from its beginning.
            sent = {"headers": {**given, **headers}, "body": body, "body_pos": body and 0}
            with closing(self._manager(url).urlopen(method, url, **sent, **AS_IT_IS)) as answer:
                if answer.status not in REDIRECTS or body:
                    return take(answer)
                place = answer.headers.get("Location")
                for _ in _pieces(answer, PIECE_BYTES):
                    pass  # the connection is kept behind its end
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

    def _manager(self, url: str) -> PoolManager:
        """Return this process's connections to a server, through the environment's proxy if any."""
        proxy, to = "", urlsplit(owner_of(url))
        if any(name.lower().endswith("_proxy") for name in os.environ):  # the rest takes longer
            from urllib.request import getproxies, proxy_bypass

            proxies = {} if proxy_bypass(to.netloc) else getproxies()
            proxy = proxies.get(to.scheme) or proxies.get("all") or ""
        key = os.getpid(), proxy
        if key not in self._managers:
            self._managers[key] = self._made(proxy)
            self._managers[key].pool_classes_by_scheme = _bounded_pools()
        return self._managers[key]

    def _made(self, proxy: str) -> PoolManager:
        from urllib3 import PoolManager, ProxyManager, make_headers

        if not proxy:
            return PoolManager(**self._settings)
        proxy = proxy if "://" in proxy else f"http://{proxy}"
        user, headers = urlsplit(proxy), {}
        if user.username is not None:
            auth = f"{unquote(user.username)}:{unquote(user.password or '')}"
            headers = make_headers(proxy_basic_auth=auth)
        context = self._settings["ssl_context"]
        return ProxyManager(
            proxy, proxy_headers=headers, proxy_ssl_context=context, **self._settings
        )


class _UntilTimeout(io.RawIOBase):
    """The bytes of an answer, which all come by a deadline: else `TimeoutError`."""

    def __init__(self, of: socket) -> None:
        self._socket, self._raw = of, of.makefile("rb", buffering=0)
        self._until = time.monotonic() + SLOW * (of.gettimeout() or 0.0)

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any) -> int | None:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._socket.settimeout(min(left, self._socket.gettimeout() or left))
        return self._raw.readinto(into)

    def close(self) -> None:
        self._raw.close()
        super().close()


def _bounded_pools() -> dict[str, Any]:
    """Return pools, by scheme, in which status, headers and body of an answer have one end."""
    from http.client import HTTPResponse

    from urllib3 import HTTPConnectionPool, HTTPSConnectionPool

    class Answer(HTTPResponse):
        def __init__(self, of: socket, *arguments: Any, **options: Any) -> None:
            super().__init__(of, *arguments, **options)
            self.fp.close()
            self.fp = io.BufferedReader(_UntilTimeout(of))

    found: dict[str, Any] = {"http": HTTPConnectionPool, "https": HTTPSConnectionPool}
    for scheme, pool in found.items():
        made = type("Connection", (pool.ConnectionCls,), {"response_class": Answer})
        found[scheme] = type(pool.__name__, (pool,), {"ConnectionCls": made})
    return found


def _pieces(answer: BaseHTTPResponse, n_bytes: int) -> Iterator[bytes]:
    """Yield a body as it comes, for a number of bytes or to its end."""
    while n_bytes and (piece := answer.read1(min(n_bytes, PIECE_BYTES))):
        yield piece
        n_bytes -= len(piece)


def _is_of_others(_: logging.LogRecord) -> bool:
    """Whether a record of urllib3 is not about a request of this file."""
    return not getattr(_this_thread, "asks", False)


def _check(answer: BaseHTTPResponse, *statuses: int) -> None:
    if answer.status not in statuses:
        raise of_status(answer.status)


def _meta(answer: BaseHTTPResponse, size: int) -> Meta:
    try:
        modified = parsedate_to_datetime(answer.headers.get("Last-Modified", ""))
    except (ValueError, OverflowError):
        modified = datetime.fromtimestamp(0, timezone.utc)
    modified = modified.replace(tzinfo=modified.tzinfo or timezone.utc)  # "-0000" says none
    return {"e_tag": answer.headers.get("ETag"), "last_modified": modified, "size": size}


def _failure_of(error: BaseException) -> StoreFailure:
    """Name what was at the root of an exception of urllib3's."""
    while error.args and isinstance(error.args[-1], Exception):
        error = error.args[-1]
    kinds = (KINDS[one.__name__] for one in type(error).__mro__ if one.__name__ in KINDS)
    return StoreFailure(next(kinds, "failed"), "")
