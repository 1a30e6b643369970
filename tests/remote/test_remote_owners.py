"""Whose the headers are: scheme, host and port of what the user named, and of no other server.

Law
---
1. Each server keeps what it was sent; what matters is what the other one got.
"""

from __future__ import annotations

import contextlib
import json
import pickle
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from plain_server import PlainServer, issued, plain_server

import multitables
from _multitables.benchmark.objects.proxy import Proxy
from _multitables.remote import client
from _multitables.remote.failures import StoreFailure
from _multitables.remote.names import is_below, owner_of
from _multitables.remote.options import OWN, StorageOptions
from multitables import LinkRefusedError, OptionsError

DATA = np.arange(16, dtype="u1")
HEADERS = {"Authorization": "Bearer secret", "X-Api-Key": "secret", "Cookie": "secret"}
QUICK: dict[str, Any] = {"max_retries": 0, "looks_for_index": False}


def secrets(server: PlainServer) -> set[str]:
    return {
        name for sent in server.sent for name, value in sent.headers.items() if "secret" in value
    }


def refs(target: str) -> bytes:
    zarray = {"zarr_format": 2, "shape": [16], "chunks": [16], "dtype": "|u1", "compressor": None}
    zarray |= {"filters": None, "fill_value": 0, "order": "C"}
    named = {"x/.zarray": json.dumps(zarray), "x/0": [target, 0, 16]}
    return json.dumps({"version": 1, "refs": named}).encode()


@pytest.fixture
def servers() -> Iterator[tuple[PlainServer, PlainServer]]:
    with plain_server() as good, plain_server(objects={"/d/a": DATA.tobytes()}) as other:
        good.objects["/d/a"] = DATA.tobytes()
        yield good, other


def test_references_of_one_server_to_another(servers: tuple[PlainServer, PlainServer]) -> None:
    good, other = servers
    good.objects["/refs.json"] = refs(f"{other.endpoint}/d/a")
    name, given = f"{good.endpoint}/refs.json", {**QUICK, "headers": HEADERS}
    np.testing.assert_array_equal(multitables.read(name, "x", storage_options=given), DATA)
    with multitables.Reader(name, n_procs=1, storage_options=given) as reader:
        got = reader.request(reader.get_dataset("x")[:]).get()
    np.testing.assert_array_equal(got, DATA)
    assert len(secrets(good)) == 3
    assert other.sent
    assert not secrets(other)
    n_sent = len(other.sent)
    with pytest.raises(LinkRefusedError, match="not in the folder"):
        multitables.open(name, trusted=False, storage_options=given)
    assert len(other.sent) == n_sent
    other.status = lambda sent: 0 if sent.headers.get("x-api-key") == "its own" else 401
    with pytest.raises(multitables.StoreError, match=r"refuses.*headers.*are not sent to it"):
        multitables.open(name, storage_options=given)
    given |= {f"{other.endpoint}/d": {"headers": {"X-Api-Key": "its own"}}}
    np.testing.assert_array_equal(multitables.read(name, "x", storage_options=given), DATA)
    assert not secrets(other)


def test_references_on_this_machine(
    servers: tuple[PlainServer, PlainServer], tmp_path: Path
) -> None:
    """They name whom they like, so headers are given below a prefix."""
    good, other = servers
    path = tmp_path / "refs.json"
    for server, prefix in ((good, good.endpoint), (other, f"{other.endpoint}/d/a")):
        path.write_bytes(refs(f"{server.endpoint}/d/a"))
        multitables.read(path, "x", storage_options={**QUICK, "headers": HEADERS})
        assert not secrets(server)
        given = {**QUICK, prefix: {"headers": HEADERS}}
        multitables.read(path, "x", storage_options=given)
        assert len(secrets(server)) == 3


def test_links_of_one_server_to_another(
    servers: tuple[PlainServer, PlainServer], tmp_path: Path
) -> None:
    good, other = servers
    with h5py.File(tmp_path / "b.h5", "w") as file:
        file["x"] = DATA
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["x"] = h5py.ExternalLink(f"{other.endpoint}/b.h5", "/x")
    good.objects["/a.h5"] = (tmp_path / "a.h5").read_bytes()
    other.objects["/b.h5"] = (tmp_path / "b.h5").read_bytes()
    given = {**QUICK, "headers": HEADERS}
    with multitables.open(f"{good.endpoint}/a.h5", storage_options=given) as file:
        np.testing.assert_array_equal(file["x"][:], DATA)
        with file["x"].stream(block_size=8) as blocks:
            assert len(list(blocks)) == 2
        with file["x"].file.streamer().get_queue("x", n_procs=1, block_size=8) as blocks:
            assert len(list(blocks)) == 2
    assert len(secrets(good)) == 3
    assert not secrets(other)


@pytest.mark.parametrize(
    ("name", "owner"),
    [
        ("https://a.org/x", "https://a.org:443"),
        ("HTTPS://A.org:443", "https://a.org:443"),
        ("http://a.org/x?y", "http://a.org:80"),
        ("http://a.org?y", "http://a.org:80"),
        ("http://[::1]:8/x", "http://[::1]:8"),
        ("s3://bucket/x", "s3://"),
        ("abfss://box@name.dfs.core.windows.net/x", "az://"),
        *((f"http://{odd}/x", "") for odd in ("a@b", "a\\@b", "a%2eb", "a\tb", "a#b", "", "a:b")),
    ],
)
def test_the_owner_of_a_name(name: str, owner: str) -> None:
    """What clients read in two ways belongs to nobody."""
    assert owner_of(name) == owner


@pytest.mark.parametrize(
    ("name", "is_there"),
    [
        ("https://a.org/d/x", True),
        ("https://a.org:443/d/e/x?y=../z", True),
        ("https://a.org/dd/x", False),
        ("https://a.org/x", False),
        ("http://a.org/d/x", False),
        ("https://a.org:8/d/x", False),
        ("https://b.org/d/x", False),
        ("https://a.org/d/../x", False),
        ("https://a.org/d/%2e%2E/x", False),
        ("https://a.org/d/..%2fx", False),
        ("https://a.org/d/..\\x", False),
        ("/d/x", False),
    ],
)
def test_what_is_below_a_folder(name: str, is_there: bool) -> None:
    assert is_below(name, "https://a.org/d") == is_there
    assert not is_below(name, "/d")


def test_another_bucket_is_another_folder() -> None:
    assert is_below("s3://one/d/x", "s3://one/d")
    assert not is_below("s3://two/d/x", "s3://one/d")


def test_options_below_a_prefix() -> None:
    below = {"anonymous": True, "max_requests": 3}
    given = {"access_key_id": "k", "max_retries": 1, "s3://b/": below, "s3://b/c/": {"region": "r"}}
    options = StorageOptions.of(given).given_for(["s3://a/x"])
    for name, own, store in (
        ("s3://a/x", {"max_retries": 1}, {"access_key_id": "k"}),
        ("s3://b/x", {**below, "max_retries": 1}, {}),
        ("s3://b/c/x", {"max_retries": 1}, {"region": "r"}),
        ("s3://bb/x", {"max_retries": 1}, {"access_key_id": "k"}),
    ):
        found = options.at(name)
        assert (dict(found.own), dict(found.store)) == (own, store), name
    copy = pickle.loads(pickle.dumps(options))
    assert dict(copy.at("s3://b/c/x").store) == {"region": "r"}
    assert copy.owners == ("s3://",)
    for wrong in (
        {"https://a@b/": {}},
        {"ftp://a/": {}},
        {"https://a/?b": {}},
        {"https://a/": 3},
        {"https://a/": {"https://a/b": {}}},
    ):
        with pytest.raises(OptionsError):
            StorageOptions.of(wrong)


def test_redirects_take_no_secret_along(
    servers: tuple[PlainServer, PlainServer], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither headers nor the query of a name, and not back again; nor does a log."""
    good, other = servers
    caplog.set_level("DEBUG")
    good.objects["/refs.json"] = refs("first")
    good.moved["/first"], good.objects["/last"] = f"{other.endpoint}/second", DATA.tobytes()
    other.moved["/second"] = f"{good.endpoint}/last"
    name, given = f"{good.endpoint}/refs.json", {**QUICK, "headers": HEADERS}
    np.testing.assert_array_equal(multitables.read(name, "x", storage_options=given), DATA)
    by_path = {sent.path: sent.headers for sent in good.sent}
    assert "x-api-key" in by_path["/first"]
    assert "x-api-key" not in by_path["/last"]
    assert other.sent
    assert not secrets(other)
    good.moved = {"/a.h5": f"{other.endpoint}/d/a", "/near": "/d/a"}
    good.objects["/refs.json"] = refs("/near")
    multitables.read(name, "x", storage_options=given)
    assert {"/near", "/d/a"} <= {sent.path for sent in good.sent if "x-api-key" in sent.headers}
    other.sent.clear()
    with pytest.raises(multitables.FileOpenError, match="signature"):
        multitables.open(f"{good.endpoint}/a.h5?signature=secret", storage_options=QUICK)
    assert other.sent
    assert not any("secret" in f"{sent}" for sent in other.sent)
    assert "secret" not in caplog.text


@pytest.mark.parametrize(
    ("place", "why"),
    [
        ("", "without a place"),
        ("/a.h5", "more than 10 times"),
        ("file:///etc/passwd", "to what is no web server"),
        ("s3://bucket/x", "to what is no web server"),
        ("http://127.0.0.1\\@127.0.0.1/", "to what is no web server"),
        ("http://user@127.0.0.1:1/", "to what is no web server"),
    ],
)
def test_redirects_that_are_not_followed(
    place: str, why: str, servers: tuple[PlainServer, PlainServer]
) -> None:
    good, _ = servers
    good.moved["/a.h5"] = place
    given = {**QUICK, "headers": HEADERS}
    with pytest.raises(multitables.StoreError, match=rf"redirects to where .*{why}"):
        multitables.open(f"{good.endpoint}/a.h5", storage_options=given)


@pytest.mark.parametrize("headers", [{}, HEADERS])
def test_no_redirect_leaves_encryption(
    headers: dict[str, str], servers: tuple[PlainServer, PlainServer], tmp_path: Path
) -> None:
    files = issued(tmp_path)
    good, other = servers
    given = {**QUICK, "headers": headers, "certificate": str(tmp_path / "authority.pem")}
    good.objects["/refs.json"] = refs("/d/a")
    with Proxy(good.endpoint, tls=files) as proxy:
        got = multitables.read(f"{proxy.endpoint}/refs.json", "x", storage_options=given)
        np.testing.assert_array_equal(got, DATA)
        good.moved["/d/a"] = f"{other.endpoint}/d/a"
        with pytest.raises(multitables.StoreError):
            multitables.open(f"{proxy.endpoint}/refs.json", storage_options=given)
        assert not other.sent
        with pytest.raises(multitables.StoreError, match="certificate"):
            multitables.open(
                f"{proxy.endpoint}/refs.json", storage_options={**QUICK, "headers": {"X": "y"}}
            )


def test_web_servers_that_fail(servers: tuple[PlainServer, PlainServer]) -> None:
    """What has secrets is asked again as often as what has none."""
    good, _ = servers
    good.objects["/refs.json"] = refs("d/a")
    name, given = f"{good.endpoint}/refs.json", {"headers": HEADERS, "looks_for_index": False}
    good.status = lambda _: 503 if len(good.sent) < 3 else 0
    got = multitables.read(name, "x", storage_options={**given, "max_retries": 2})
    np.testing.assert_array_equal(got, DATA)
    good.status = lambda _: 503
    with pytest.raises(multitables.StoreError, match=r"busy.*\(HTTP status 503, after 1 retries\)"):
        multitables.open(name, storage_options={**given, "max_retries": 1})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        name = f"http://127.0.0.1:{silent.getsockname()[1]}/x.h5"
        quick = {**given, "max_retries": 0, "timeout_seconds": 0.1}
        with pytest.raises(multitables.StoreError, match="does not answer in time"):
            multitables.open(name, storage_options=quick)
    nobody = "http://127.0.0.1:1/x.h5"
    with pytest.raises(multitables.StoreError, match="is not reached"):
        multitables.open(nobody, storage_options={**given, "max_retries": 0})


def own(**options: Any) -> str:
    """What the client is given of our own options, all of them."""
    defaults = {name: default for name, (default, _) in OWN.items()}
    return json.dumps({"own": {**defaults, "headers": HEADERS, **options}})


def test_a_file_that_is_put_again(servers: tuple[PlainServer, PlainServer], tmp_path: Path) -> None:
    good, _ = servers
    (tmp_path / "x").write_bytes(DATA.tobytes())
    good.status = lambda _: 503 if len(good.sent) < 2 else 0
    client.put(f"{good.endpoint}/x", own(max_retries=1), str(tmp_path / "x"))
    assert good.objects["/x"] == DATA.tobytes()


HEAD = b"HTTP/1.1 206 .\r\n"
RANGE = b"Content-Length: 9999\r\nContent-Range: bytes 0-9998/9999\r\n\r\n"


@pytest.mark.parametrize("begin", [b"", HEAD, HEAD + RANGE], ids=["status", "header", "body"])
def test_an_answer_that_drips(begin: bytes) -> None:
    """Each byte comes in time, and all would take minutes."""

    def drip() -> None:
        taken, _ = server.accept()
        with taken, contextlib.suppress(ConnectionError):
            taken.sendall(begin)
            while True:
                taken.sendall(b"x")
                time.sleep(0.02)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=drip)
        thread.start()
        name = f"http://127.0.0.1:{server.getsockname()[1]}/x"
        text = own(max_retries=0, timeout_seconds=0.05)
        with pytest.raises(StoreFailure) as caught:
            client.fetched(name, text, 0, 9999)
        thread.join()
    assert caught.value.kind == "timeout"
    assert caught.value.__context__ is None


def test_without_urllib3(
    servers: tuple[PlainServer, PlainServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "urllib3", None)
    given = {**QUICK, "headers": HEADERS}
    with pytest.raises(multitables.MissingLibraryError, match=r"urllib3.*multitables\[remote\]"):
        multitables.open(f"{servers[0].endpoint}/d/a", storage_options=given)


def test_proxies_of_the_environment(
    servers: tuple[PlainServer, PlainServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    good, proxy = servers
    proxy.objects["http://data.example/refs.json"] = refs("d")
    proxy.objects["http://data.example/d"] = DATA.tobytes()
    monkeypatch.setenv("http_proxy", proxy.endpoint.replace("//", "//me:pass@"))
    given = {**QUICK, "headers": HEADERS}
    with multitables.open("http://data.example/refs.json", storage_options=given):
        pass
    assert proxy.sent[-1].headers["proxy-authorization"].startswith("Basic ")
    assert proxy.sent[-1].headers["host"] == "data.example"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    good.objects["/refs.json"] = refs("d/a")
    multitables.read(f"{good.endpoint}/refs.json", "x", storage_options=given)
    assert "proxy-authorization" not in good.sent[-1].headers


def test_headers_that_a_store_would_take_along() -> None:
    """The client of other stores follows redirects by itself, and drops the usual ones."""
    given = {**QUICK, "headers": {"X-Api-Key": "secret", "x-amz-meta-a": "b"}}
    with pytest.raises(OptionsError, match="'X-Api-Key', which a redirect") as caught:
        multitables.open("s3://bucket/x.h5", storage_options=given)
    assert "secret" not in str(caught.value)


def test_what_the_client_of_a_store_takes_along(
    servers: tuple[PlainServer, PlainServer],
) -> None:
    """Should a release of it send more, this fails."""
    good, other = servers
    good.moved["/bucket/refs.json"] = f"{other.endpoint}/refs.json"
    other.objects["/refs.json"], good.objects["/bucket/d"] = refs("d"), DATA.tobytes()
    given = {**QUICK, "endpoint": good.endpoint, "region": "r", "anonymous": True}
    given["headers"] = {"Authorization": "secret", "Cookie": "secret"}
    with multitables.open("s3://bucket/refs.json", storage_options=given):
        assert len(secrets(good)) == 2
    assert other.sent
    assert not secrets(other)
