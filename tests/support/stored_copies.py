"""Files of a test's folder as objects of a bucket, under the same names.

Law
---
1. A copy has all files of the folder: what one names beside it is beside its copy.
2. Options have the server's keys, so no store looks for the machine's own.
3. A test sees an empty cache of the user's, and leaves no connections to its stores.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from object_stores import s3_store

from _multitables.benchmark.objects.proxy import Proxy
from _multitables.benchmark.objects.server import S3Server
from _multitables.remote import client


class Copies:
    """Objects of a bucket, which are read through a proxy."""

    def __init__(self, server: S3Server, bucket: str, proxy: Proxy) -> None:
        self._server, self._bucket, self.proxy = server, bucket, proxy
        self.options: dict[str, Any] = {
            "endpoint": proxy.endpoint,
            "access_key_id": server.access_key,
            "secret_access_key": server.secret_key,
            "region": server.region,
            "max_retries": 1,
        }

    def url(self, name: str) -> str:
        """The name of an object."""
        return f"s3://{self._bucket}/{name}"

    def put(self, file: Path, name: str = "") -> str:
        """Store one file, and return the name of its object."""
        s3_store(self._server, self._server.endpoint, self._bucket).put(name or file.name, file)
        return self.url(name or file.name)

    def put_beside(self, file: Path, folder: str = "folder") -> str:
        """Store a file and all that lie beside it, and return the name of its object."""
        for one in file.parent.rglob("*"):
            if one.is_file():
                self.put(one, f"{folder}/{one.relative_to(file.parent)}")
        return self.url(f"{folder}/{file.name}")

    def n_requests(self) -> int:
        """How often the store was asked since the last call."""
        return len(self.proxy.take_log())


@pytest.fixture
def copies(
    s3_server: S3Server,
    bucket: str,
    proxy: Proxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Copies]:
    """An empty bucket."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield Copies(s3_server, bucket, proxy)
    client._made.cache_clear()
