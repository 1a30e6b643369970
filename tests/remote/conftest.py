"""An S3 server for the tests of a process, and a proxy for each test that asks for one.

Law
---
1. The server starts before the first test, and only where a test of this folder is to run: the
   audit of what a test leaves then knows obstore's threads. Its process is no child of any test.
2. Each test has a bucket and a proxy of its own. Without a server, tests that need it are skipped.
3. No test sees the user's credentials or cache, and none leaves connections to its stores.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from object_stores import s3_store
from processes import lasting
from remote_files import Remote
from stored_copies import copies  # noqa: F401 - a fixture

from _multitables.benchmark.objects.proxy import Proxy
from _multitables.benchmark.objects.server import NAMED, NoServerError, S3Server, find
from _multitables.remote import client

HERE = Path(__file__).parent
_numbers = itertools.count()
_server: S3Server | NoServerError = NoServerError("no test of this folder was collected")
_folder: TemporaryDirectory[str] | None = None


def pytest_collection_finish(session: pytest.Session) -> None:
    global _server, _folder
    if session.config.option.collectonly or not any(
        item.path.is_relative_to(HERE) for item in session.items
    ):
        return
    _folder = TemporaryDirectory(prefix="multitables-")
    try:
        _server = S3Server(_folder.name)
    except NoServerError as error:
        _server = error
        return
    os.environ[NAMED] = find()  # tests have a cache folder of their own
    lasting.add(_server.process)
    _server.make_bucket("warm-up")
    s3_store(_server, _server.endpoint, "warm-up").put("object", b"starts obstore's threads")


def pytest_sessionfinish() -> None:
    if isinstance(_server, S3Server):
        _server.close()
    if _folder is not None:
        _folder.cleanup()


@pytest.fixture(scope="session")
def s3_server() -> S3Server:
    """The server that all tests of this process share."""
    if isinstance(_server, NoServerError):
        pytest.skip(str(_server))
    return _server


@pytest.fixture
def bucket(s3_server: S3Server) -> Iterator[str]:
    """The name of an empty bucket."""
    name = f"bucket-{next(_numbers)}"
    s3_server.make_bucket(name)
    yield name
    s3_server.remove_bucket(name)


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[Proxy]:
    """A proxy in front of the server, without delays and faults yet."""
    with Proxy(s3_server.endpoint) as proxy:
        yield proxy


@pytest.fixture
def remote(s3_server: S3Server, bucket: str, proxy: Proxy) -> Remote:
    """An empty bucket that is read through a proxy."""
    return Remote(s3_server, bucket, proxy)


@pytest.fixture(autouse=True)
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """An empty cache of the user's, no credentials, and no store that is kept for the next test."""
    for name in [*os.environ]:
        if name.startswith(("AWS_", "GOOGLE_", "AZURE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    yield
    client.forget_stores()
