"""The S3 server of tests and benchmarks: what it answers, where it is found, what it leaves.

Law
---
1. What readers of objects rely on is asked of the real server: ranges, ETags, conditions, errors.
"""

from __future__ import annotations

import os
import re
import time
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from object_stores import http_request, s3_store
from obstore.exceptions import PermissionDeniedError, PreconditionError
from processes import alive

from _multitables.benchmark.objects import server as server_module
from _multitables.benchmark.objects.server import NoServerError, S3Server

if TYPE_CHECKING:
    from obstore import GetOptions

DATA = os.urandom(100_000)
SIGNED_FOR = timedelta(minutes=5)


@pytest.mark.parametrize("part_bytes", [None, 5 << 20])
def test_objects_come_back(part_bytes: int | None, s3_server: S3Server, bucket: str) -> None:
    store = s3_store(s3_server, s3_server.endpoint, bucket)
    data = os.urandom(12 << 20) if part_bytes else DATA
    put = store.put("a/b.h5", data, use_multipart=bool(part_bytes), chunk_size=part_bytes or 1)
    head = store.head("a/b.h5")
    assert head["size"] == len(data)
    assert head["e_tag"] == put["e_tag"]
    assert re.fullmatch(r'"[0-9a-f]{32}-3"' if part_bytes else r'"[0-9a-f]{32}"', str(put["e_tag"]))
    assert store.get("a/b.h5").bytes() == data
    start = len(data) - 1000
    assert store.get_range("a/b.h5", start=start, length=1000) == data[-1000:]
    assert [found["path"] for page in store.list() for found in page] == ["a/b.h5"]


@pytest.mark.parametrize(
    ("asked", "status", "part", "content_range"),
    [
        ("bytes=10-19", 206, slice(10, 20), "bytes 10-19/100000"),
        ("bytes=99990-100100", 206, slice(99990, 100000), "bytes 99990-99999/100000"),
        ("bytes=-7", 206, slice(99993, 100000), "bytes 99993-99999/100000"),
        ("bytes=100000-100009", 416, None, None),
    ],
)
def test_ranges(
    asked: str,
    status: int,
    part: slice | None,
    content_range: str | None,
    s3_server: S3Server,
    bucket: str,
) -> None:
    store = s3_store(s3_server, s3_server.endpoint, bucket)
    store.put("x", DATA)
    answer = http_request(obstore.sign(store, "GET", "x", SIGNED_FOR), Range=asked)
    assert answer.status == status
    assert answer.headers.get("content-range") == content_range
    assert part is None or answer.body == DATA[part]


def test_a_condition_on_the_etag(s3_server: S3Server, bucket: str) -> None:
    store = s3_store(s3_server, s3_server.endpoint, bucket)
    first = store.put("x", DATA)["e_tag"]
    options: GetOptions = {"if_match": first, "range": (0, 10)}
    assert store.get("x", options=options).bytes() == DATA[:10]
    assert store.put("x", DATA[1:])["e_tag"] != first
    with pytest.raises(PreconditionError):
        store.get("x", options=options)


def test_who_may_not_and_what_is_not_there(s3_server: S3Server, bucket: str) -> None:
    store = s3_store(s3_server, s3_server.endpoint, bucket)
    store.put("x", DATA)
    with pytest.raises(FileNotFoundError):
        store.get("y")
    with pytest.raises(FileNotFoundError):
        s3_store(s3_server, s3_server.endpoint, "no-bucket").get("x")
    for name in ("secret_access_key", "access_key_id"):
        wrong: dict[str, Any] = {name: "wrong"}
        with pytest.raises(PermissionDeniedError):
            s3_store(s3_server, s3_server.endpoint, bucket, **wrong).get("x")


def test_nothing_is_left(s3_server: S3Server, tmp_path: Path) -> None:
    with S3Server(tmp_path) as server:
        process = server.process
        server.make_bucket("bucket")
        store = s3_store(server, server.endpoint, "bucket")  # its connection stays open
        store.put("x", DATA)
        began = time.monotonic()
    assert time.monotonic() - began < 2
    assert not alive(process)
    assert list(tmp_path.iterdir()) == []


def test_metadata_where_files_have_no_attributes(
    s3_server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(S3Server, "_has_attributes", lambda _: False)
    with S3Server(tmp_path) as server:
        server.make_bucket("bucket")
        store = s3_store(server, server.endpoint, "bucket")
        assert store.put("x", DATA)["e_tag"] == store.head("x")["e_tag"]
        assert [path.name for path in tmp_path.glob("s3-*/metadata/bucket/*")] == ["x"]


def test_without_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(server_module.NAMED, raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(NoServerError, match=r"`python tools/s3_server.py` builds it"):
        S3Server(tmp_path)
    assert list(tmp_path.iterdir()) == []
    built = tmp_path / "multitables" / "s3_server" / "versitygw"
    built.parent.mkdir(parents=True)
    built.write_text("#!/bin/sh\necho no such option; exit 1\n")
    built.chmod(0o755)
    assert server_module.find() == str(built)
    with pytest.raises(NoServerError, match=r"ended or did not answer[^$]*no such option"):
        S3Server(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["multitables"]
    monkeypatch.setenv(server_module.NAMED, str(tmp_path / "elsewhere"))
    with pytest.raises(NoServerError, match="elsewhere"):
        server_module.find()
