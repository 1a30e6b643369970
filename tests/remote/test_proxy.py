"""The proxy: what it passes on, how slow it is, each of its faults, its log.

Law
---
1. Each fault is looked at with a client that does not retry.
2. Where a request need not be signed, plain files are served: such a test runs without S3.
"""

from __future__ import annotations

import http.client
import os
import ssl
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import Any

import obstore
import pytest
import trustme
from object_stores import http_request, s3_store
from obstore.exceptions import BaseError
from processes import alive, script, wait_until

from _multitables.benchmark.objects.faults import Fault, Request, Settings
from _multitables.benchmark.objects.file_server import file_server
from _multitables.benchmark.objects.proxy import Proxy
from _multitables.benchmark.objects.server import S3Server

DATA = os.urandom(300_000)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "x").write_bytes(DATA)
    return folder


@pytest.fixture
def files(folder: Path) -> Iterator[Proxy]:
    """A proxy in front of a server of plain files."""
    with file_server(folder) as endpoint, Proxy(endpoint) as proxy:
        yield proxy


def test_objects_pass_both_ways(s3_server: S3Server, bucket: str, proxy: Proxy) -> None:
    store = s3_store(s3_server, proxy.endpoint, bucket)
    store.put("x", data := os.urandom(20 << 20))
    with ThreadPoolExecutor(4) as pool:
        parts = pool.map(lambda n: store.get_range("x", start=n << 20, length=1 << 20), range(20))
        assert b"".join(bytes(part) for part in parts) == data
    assert store.head("x")["size"] == len(data)
    log = proxy.take_log()
    gets = [one for one in log if one.method == "GET"]
    assert {one.status for one in gets} == {206}
    assert sum(one.body_bytes for one in gets) == len(data)
    assert {one.range for one in gets} == {
        f"bytes={n << 20}-{(n + 1 << 20) - 1}" for n in range(20)
    }
    assert log[-1] == Request("HEAD", f"/{bucket}/x", "", 200, 0)
    assert proxy.take_log() == []


def test_connections_are_kept(files: Proxy) -> None:
    connection = http.client.HTTPConnection(files.endpoint.removeprefix("http://"))
    connection.connect()
    kept = connection.sock
    for start in (0, 1000):
        connection.request("GET", "/x", headers={"Range": f"bytes={start}-{start + 9}"})
        assert connection.getresponse().read() == DATA[start : start + 10]
        assert connection.sock is kept
    connection.close()


def test_latency_and_bandwidth(files: Proxy) -> None:
    files.set(latency_seconds=0.1)
    began = time.monotonic()
    http_request(f"{files.endpoint}/x", "HEAD")
    assert time.monotonic() - began >= 0.1
    files.set(latency_seconds=0.0, bytes_per_second=1e6)
    began = time.monotonic()
    with ThreadPoolExecutor(2) as pool:  # the limit is that of both together
        answers = list(pool.map(lambda _: http_request(f"{files.endpoint}/x"), range(2)))
    assert [answer.body == DATA for answer in answers] == [True, True]
    assert time.monotonic() - began >= 2 * len(DATA) / 1e6 - 0.05


def test_a_status(files: Proxy) -> None:
    for status in (500, 503, 429, 403, 416):
        files.set(faults=[Fault("status", status, times=1)])
        assert http_request(f"{files.endpoint}/x").status == status
        assert http_request(f"{files.endpoint}/x").status == 200
        assert [one.status for one in files.take_log()] == [status, 200]


def test_a_status_after_a_body(s3_server: S3Server, bucket: str, proxy: Proxy) -> None:
    """The body of the request is taken, so that the connection can go on."""
    proxy.set(faults=[Fault("status", 503, method="PUT", times=2)])
    store = s3_store(s3_server, proxy.endpoint, bucket, retries=3)
    store.put("x", DATA)
    assert store.get("x").bytes() == DATA
    assert [one.status for one in proxy.take_log()] == [503, 503, 200, 200]


def test_a_dropped_connection(files: Proxy) -> None:
    files.set(faults=[Fault("drop")])
    with pytest.raises(http.client.RemoteDisconnected):
        http_request(f"{files.endpoint}/x")
    assert files.take_log() == [Request("GET", "/x", "", 0, 0)]


def test_no_answer(files: Proxy) -> None:
    files.set(faults=[Fault("hang")])
    with pytest.raises(TimeoutError):
        http_request(f"{files.endpoint}/x", timeout_seconds=0.2)
    assert files.take_log() == [Request("GET", "/x", "", 0, 0)]


def test_a_body_that_is_cut(files: Proxy) -> None:
    files.set(faults=[Fault("cut", 1000)])
    with pytest.raises(http.client.IncompleteRead) as caught:
        http_request(f"{files.endpoint}/x")
    assert caught.value.partial == DATA[:1000]
    assert caught.value.expected == len(DATA) - 1000
    assert files.take_log() == [Request("GET", "/x", "", 200, 1000)]


def test_a_short_body(files: Proxy) -> None:
    files.set(faults=[Fault("short", 1000)])
    answer = http_request(f"{files.endpoint}/x", Range="bytes=5-9999")
    assert answer.body == DATA[5:1005]
    assert answer.headers["content-length"] == "1000"
    assert answer.headers["content-range"] == f"bytes 5-9999/{len(DATA)}"


def test_another_etag(s3_server: S3Server, bucket: str, proxy: Proxy) -> None:
    store = s3_store(s3_server, proxy.endpoint, bucket)
    real = store.put("x", DATA)["e_tag"]
    proxy.set(faults=[Fault("etag", '"other"', after=1)])
    assert [store.head("x")["e_tag"] for _ in range(2)] == [real, '"other"']


def test_ranges_that_are_ignored(
    s3_server: S3Server, bucket: str, proxy: Proxy, files: Proxy
) -> None:
    files.set(faults=[Fault("whole")])
    answer = http_request(f"{files.endpoint}/x", Range="bytes=5-9")
    assert (answer.status, answer.body == DATA) == (200, True)
    assert "content-range" not in answer.headers
    store = s3_store(s3_server, proxy.endpoint, bucket)
    store.put("x", DATA)
    proxy.take_log()
    direct = s3_store(s3_server, s3_server.endpoint, bucket)
    signed = obstore.sign(direct, "GET", "x", timedelta(minutes=5))
    proxy.set(faults=[Fault("whole", signed)])
    assert store.get("x").bytes() == DATA
    with pytest.raises(BaseError, match="non-partial"):
        store.get_range("x", start=5, length=5)
    assert [one.status for one in proxy.take_log()] == [200, 200]


def test_which_requests_are_hit(files: Proxy, folder: Path) -> None:
    (folder / "y").write_bytes(b"y")
    faults = [
        Fault("status", 503, path="x$", after=1, every=2, times=2),
        Fault("status", 403, method="HEAD"),
    ]
    files.set(faults=faults)
    found = [http_request(f"{files.endpoint}/x").status for _ in range(7)]
    assert found == [200, 503, 200, 503, 200, 200, 200]
    assert http_request(f"{files.endpoint}/y").status == 200
    assert http_request(f"{files.endpoint}/y", "HEAD").status == 403
    files.set(faults=faults)  # which counts from 0 again
    assert [http_request(f"{files.endpoint}/x").status for _ in range(2)] == [200, 503]
    with pytest.raises(ValueError, match="no fault 'stop'; there are drop, hang"):
        Fault("stop")  # type: ignore[arg-type]
    settings = Settings(0.5, 1e6, tuple(faults))
    assert Settings.of_json(settings.as_json()) == settings


def test_tls(folder: Path, tmp_path: Path) -> None:
    authority = trustme.CA()
    for name, issued in (("own", "127.0.0.1"), ("other", "elsewhere.example")):
        one = authority.issue_cert(issued)
        one.private_key_pem.write_to_path(tmp_path / f"{name}.key")
        one.cert_chain_pems[0].write_to_path(tmp_path / f"{name}.pem")
    trusting = ssl.create_default_context()
    authority.configure_trust(trusting)
    with file_server(folder) as endpoint:
        with Proxy(endpoint, tls=(tmp_path / "own.pem", tmp_path / "own.key")) as proxy:
            assert proxy.endpoint.startswith("https://127.0.0.1:")
            with pytest.raises(ssl.SSLCertVerificationError):
                http_request(f"{proxy.endpoint}/x")
            answer = http_request(f"{proxy.endpoint}/x", context=trusting)
            assert answer.body == DATA
            proxy.set(faults=[Fault("cut", 10)])
            with pytest.raises(http.client.IncompleteRead):
                http_request(f"{proxy.endpoint}/x", context=trusting)
            assert [one.body_bytes for one in proxy.take_log()] == [len(DATA), 10]
        with (
            Proxy(endpoint, tls=(tmp_path / "other.pem", tmp_path / "other.key")) as proxy,
            pytest.raises(ssl.SSLCertVerificationError, match="IP address mismatch"),
        ):
            http_request(f"{proxy.endpoint}/x", context=trusting)


def test_signatures_hold_over_tls(s3_server: S3Server, bucket: str, tmp_path: Path) -> None:
    own = trustme.CA().issue_cert("127.0.0.1")
    own.private_key_and_cert_chain_pem.write_to_path(tmp_path / "own.pem")
    trust_all: dict[str, Any] = {"client_options": {"allow_invalid_certificates": True}}
    with Proxy(s3_server.endpoint, tls=(tmp_path / "own.pem", tmp_path / "own.pem")) as proxy:
        store = s3_store(s3_server, proxy.endpoint, bucket, **trust_all)
        store.put("x", DATA)
        assert store.get_range("x", start=7, length=5000) == DATA[7:5007]
        with pytest.raises(BaseError, match=r"(?i)certificate"):
            s3_store(s3_server, proxy.endpoint, bucket).get("x")


def test_plain_files(folder: Path) -> None:
    with file_server(folder) as endpoint:
        url = f"{endpoint}/x"
        whole = http_request(url)
        assert (whole.status, whole.body == DATA) == (200, True)
        etag = whole.headers["etag"]
        part = http_request(url, Range="bytes=10-19", If_Match=etag)
        assert (part.status, part.body) == (206, DATA[10:20])
        assert part.headers["content-range"] == f"bytes 10-19/{len(DATA)}"
        assert http_request(url, Range="bytes=-3").body == DATA[-3:]
        assert http_request(url, Range=f"bytes={len(DATA) - 2}-999999999").body == DATA[-2:]
        beyond = http_request(url, Range=f"bytes={len(DATA)}-")
        assert (beyond.status, beyond.headers["content-range"]) == (416, f"bytes */{len(DATA)}")
        head = http_request(url, "HEAD")
        assert (head.status, head.headers["content-length"]) == (200, str(len(DATA)))
        assert http_request(f"{endpoint}/y").status == 404
        assert http_request(f"{endpoint}/../../etc/passwd").status == 404
        (folder / "x").write_bytes(b"other")
        assert http_request(url, If_Match=etag).status == 412


def test_a_server_that_has_gone(folder: Path) -> None:
    with file_server(folder) as endpoint:
        pass
    with Proxy(endpoint) as proxy, pytest.raises(http.client.RemoteDisconnected):
        http_request(f"{proxy.endpoint}/x")


def test_a_proxy_ends_with_its_parent() -> None:
    source = (
        "import time\nfrom _multitables.benchmark.objects.proxy import Proxy\n"
        "proxy = Proxy('http://127.0.0.1:9')\nprint(proxy.process, flush=True)\ntime.sleep(60)"
    )
    with script(source) as parent:
        assert parent.stdout is not None
        process = int(parent.stdout.readline())
        assert alive(process)
        parent.kill()
    wait_until(lambda: not alive(process), "the end of the proxy")
