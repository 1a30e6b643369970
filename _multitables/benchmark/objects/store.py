"""A bucket of an S3 server on this machine, which is asked through a proxy that delays and logs.

Law
---
1. Objects are written past the proxy, so its delays and log are of reads only.
2. However the block ends, server, proxy and objects are gone.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Any

from _multitables.benchmark.objects.closes import Closes
from _multitables.benchmark.objects.faults import Request
from _multitables.benchmark.objects.proxy import Proxy
from _multitables.benchmark.objects.server import S3Server

BUCKET = "benchmark"


class Store(Closes):
    """A bucket with objects; a context manager.

    Parameters
    ----------
    folder : path
        Where the objects lie, until the end.
    latency_seconds, bytes_per_second : float
        Of the proxy, as in `Settings`.

    Raises
    ------
    NoServerError
        There is no server to start.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        latency_seconds: float = 0.0,
        bytes_per_second: float = 0.0,
    ) -> None:
        with contextlib.ExitStack() as stack:
            self._server = stack.enter_context(S3Server(folder))
            self._server.make_bucket(BUCKET)
            proxy = Proxy(
                self._server.endpoint,
                latency_seconds=latency_seconds,
                bytes_per_second=bytes_per_second,
            )
            self._proxy = stack.enter_context(proxy)
            self._end = stack.pop_all()

    @property
    def endpoint(self) -> str:
        """The proxy's."""
        return self._proxy.endpoint

    @property
    def options(self) -> dict[str, str]:
        """How the bucket is reached, by obstore's names."""
        return {
            "endpoint": self.endpoint,
            "access_key_id": self._server.access_key,
            "secret_access_key": self._server.secret_key,
            "region": self._server.region,
        }

    def put(self, filename: str, key: str) -> str:
        """Write a file as an object; returns its URL."""
        from obstore.store import S3Store

        past: Any = {**self.options, "endpoint": self._server.endpoint}
        store = S3Store(BUCKET, config=past, client_options={"allow_http": True})
        store.put(key, Path(filename))
        return f"s3://{BUCKET}/{key}"

    def take_log(self) -> list[Request]:
        """The requests since the last call, in the order in which they came."""
        return self._proxy.take_log()

    def close(self) -> None:
        """End proxy and server, and remove the objects."""
        self._end.close()
