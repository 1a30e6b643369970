"""Faults of the way to a store and of the store: right data in the end, or the named error in time.

Law
---
1. Every fault is tried at every entry, for a while and forever. What passes is not noticed in the
   data; what stays is one of our errors, with the object's name, what is good, and what to do.
2. Nothing is waited for longer than the options say. The audit finds what an error leaves behind.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import obstore
import pytest
from object_stores import s3_store
from oracle import same, streamed
from plain_server import issued
from remote_files import Remote, noise

import multitables
from _multitables.benchmark.objects.faults import Fault
from _multitables.benchmark.objects.proxy import Proxy
from _multitables.remote import client
from multitables import (
    FileChangedError,
    FileOpenError,
    MissingFileError,
    MultitablesError,
    Reader,
    SavedIndexWarning,
    StoreError,
    Streamer,
)

DATA = noise(600, 120)
QUICK: dict[str, Any] = {
    "looks_for_index": False,
    "timeout_seconds": 0.4,
    "connect_timeout_seconds": 0.4,
    "max_retries": 3,
    "retry_timeout_seconds": 3.0,
    "max_gap_bytes": 0,
    "max_request_bytes": 1 << 15,
}
MOST_SECONDS = 10.0


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("faults") / "data.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=DATA, chunks=(50, 120), compression="gzip")
    return path


def by_queue(name: Any, opened: dict[str, Any]) -> np.ndarray:
    rows, _ = streamed(name, "x", open_options=opened, n_procs=2)
    assert rows is not None
    return rows


def by_batches(name: Any, opened: dict[str, Any]) -> np.ndarray:
    """On threads of this process, where a queue has two others."""
    rows = np.empty_like(DATA)
    with Streamer(name, **opened).get_batches("x", 64, shuffle="chunks") as batches:
        found = np.concatenate([np.array(batch) for batch in batches])
    order = np.argsort(DATA[:, 0], kind="stable")
    rows[order] = found[np.argsort(found[:, 0], kind="stable")]
    return rows


def by_reader(name: Any, opened: dict[str, Any]) -> np.ndarray:
    with Reader(name, n_procs=2, **opened) as reader:
        handle = reader.get_dataset("x")
        requests = [reader.request(handle[at : at + 100]) for at in range(0, 600, 100)]
        return np.concatenate([request.get().copy() for request in requests])


def by_handle(name: Any, opened: dict[str, Any]) -> np.ndarray:
    with multitables.open(name, **opened) as file:
        return np.asarray(file["x"][:])


def by_opening(name: Any, opened: dict[str, Any]) -> np.ndarray:
    with multitables.open(name, **opened) as file:
        assert file["x"].shape == DATA.shape
    return DATA


READING: dict[str, Callable[..., np.ndarray]] = {
    "queue": by_queue,
    "batches": by_batches,
    "reader": by_reader,
    "handle": by_handle,
}
ENTRIES = {"opening": by_opening, **READING}
#: Faults that are worth another attempt -> the message of one that stays.
PASSING: dict[str, tuple[Fault, str]] = {
    "drop": (Fault("drop"), r"answers for .* break off \(after 2 retries\)"),
    "hang": (Fault("hang"), r"does not answer in time \(after 2 retries\)"),
    "500": (Fault("status", 500), r"busy or failing \(HTTP status 500 InjectedFault, after 2 "),
    "503": (Fault("status", 503), r"busy or failing \(HTTP status 503 InjectedFault, after 2 "),
    "429": (Fault("status", 429), r"busy or failing \(HTTP status 429 InjectedFault, after 2 "),
    "cut": (Fault("cut", 1000), "answers for .* break off"),
    "cut at once": (Fault("cut", 0), "answers for .* break off"),
    "short": (
        Fault("short", 1000),
        r"sent fewer bytes .* \(expected bytes \d+:\d+, got 1000 ",
    ),
}
#: Other faults -> the error and its message.
LASTING: dict[str, tuple[Fault, type[MultitablesError], str]] = {
    "401": (Fault("status", 401), StoreError, r"refuses .* \(HTTP status 401 InjectedFault\)"),
    "403": (Fault("status", 403), StoreError, r"refuses .* \(HTTP status 403 InjectedFault\)"),
    "404": (Fault("status", 404), MissingFileError, "there is no object"),
    "412": (Fault("status", 412), FileChangedError, "changed after it was indexed"),
    "416": (Fault("status", 416), StoreError, "no such range"),
    "418": (Fault("status", 418), StoreError, r"the store failed .* \(HTTP status 418"),
    "301": (Fault("status", 301), StoreError, "in another region"),
    "etag": (Fault("etag", '"other"'), FileChangedError, "changed after it was indexed"),
    "whole": (Fault("whole"), StoreError, "sends no ranges"),
}
#: A near store, and a far one behind a narrow line.
NETWORKS = {
    "near": {"latency_seconds": 0.02},
    "far": {"latency_seconds": 0.1, "bytes_per_second": 4e6},
}


def after(entry: str) -> int:
    """The requests that an entry makes before it reads chunks."""
    return {"opening": 0, "reader": 2}.get(entry, 1)


def raised(name: str, entry: str, kind: type[MultitablesError], words: str, **opened: Any) -> None:
    """An entry raises the named error, which says all that there is to say, in time."""
    began = time.monotonic()
    with pytest.raises(MultitablesError, match=words) as caught:
        ENTRIES[entry](name, opened)
    assert time.monotonic() - began < MOST_SECONDS
    error: Any = caught.value
    assert type(error) is kind
    assert name in str(error)
    assert error.filename == name
    assert error.advice
    if entry != "opening":
        assert error.path == "/x"
        assert error.chunk_offset in [(row, 0) for row in range(0, 600, 50)]
        assert error.byte_range[0] < error.byte_range[1]
        of_all = kind is not StoreError or "refuses" in words or "region" in words
        assert ("not affected" in error.good) != (of_all or "sends no ranges" in words)
        assert "not delivered" in error.good or "no result" in error.good


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("fault", PASSING)
def test_faults_that_pass(fault: str, entry: str, network: str, path: Path, remote: Remote) -> None:
    name = remote.put(path)
    due = replace(PASSING[fault][0], times=2, after=after(entry))
    remote.proxy.set(faults=(due,), **NETWORKS[network])
    same(ENTRIES[entry](name, {"storage_options": remote.options(**QUICK)}), DATA)
    assert len(remote.requests()) >= after(entry) + 3


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("fault", PASSING)
def test_faults_that_stay(fault: str, entry: str, path: Path, remote: Remote) -> None:
    name = remote.put(path)
    due, words = PASSING[fault]
    remote.proxy.set(faults=(replace(due, after=after(entry)),))
    options = remote.options(**{**QUICK, "max_retries": 2})
    raised(name, entry, StoreError, words, storage_options=options)


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize("fault", LASTING)
def test_faults_that_no_attempt_mends(fault: str, entry: str, path: Path, remote: Remote) -> None:
    if (fault, entry) == ("etag", "opening"):
        pytest.skip("the first ETag is the version")
    name = remote.put(path)
    due, kind, words = LASTING[fault]
    if fault == "whole":
        store = s3_store(remote.server, remote.server.endpoint, remote.bucket)
        due = Fault("whole", obstore.sign(store, "GET", "data.h5", timedelta(minutes=5)))
    remote.proxy.set(faults=(replace(due, after=after(entry)),))
    raised(name, entry, kind, words, storage_options=remote.options(**QUICK))


def test_no_server(path: Path, remote: Remote) -> None:
    name, options = remote.put(path), remote.options(**{**QUICK, "max_retries": 1})
    with socket.create_server(("127.0.0.1", 0)) as free:
        endpoint = f"http://127.0.0.1:{free.getsockname()[1]}"
    nowhere = {**options, "endpoint": endpoint}
    raised(name, "opening", StoreError, "is not reached", storage_options=nowhere)
    with (
        multitables.open(name, storage_options=options) as file,
        Reader(name, n_procs=1, storage_options=options) as reader,
    ):
        data, handle = file["x"], reader.get_dataset("x")
        remote.proxy.close()
        with pytest.raises(StoreError, match="is not reached"):
            data[:]
        with pytest.raises(StoreError, match="is not reached"):
            reader.request(handle[:100]).get()


@pytest.mark.parametrize("n_procs", [None, 1])
def test_a_server_that_dies_meanwhile(n_procs: int | None, path: Path, remote: Remote) -> None:
    """Blocks that came before are right; then the error comes, not a wait for ever."""
    options = {**QUICK, "max_retries": 1, "max_requests": 1, "timeout_seconds": 20.0}
    streamer = Streamer(remote.put(path), storage_options=remote.options(**options))
    remote.proxy.set(faults=(Fault("hang", after=4),))  # so that it dies with requests in hand
    n_rows = 0

    def read() -> None:
        nonlocal n_rows
        with streamer.get_queue("x", n_procs=n_procs, ordered=True, block_size=50) as queue:
            for guard in queue:
                with guard as block:
                    same(np.array(block), DATA[n_rows : n_rows + len(block)])
                    n_rows += len(block)
                remote.proxy.close()

    with pytest.raises(StoreError, match=r"is not reached|break off") as caught:
        read()
    assert 0 < n_rows < len(DATA)
    assert caught.value.values["rows"][0] >= n_rows  # type: ignore[index]


def test_what_failed_works_again(path: Path, remote: Remote) -> None:
    name, options = remote.put(path), remote.options(**{**QUICK, "max_retries": 1})
    fault = Fault("status", 503)
    with (
        Reader(name, n_procs=2, storage_options=options) as reader,
        multitables.open(name, storage_options=options) as file,
    ):
        handle, data = reader.get_dataset("x"), file["x"]
        for _ in range(2):
            remote.proxy.set(faults=(fault,))
            with pytest.raises(StoreError):
                reader.request(handle[:200]).get()
            with pytest.raises(StoreError):
                data[:200]
            remote.proxy.set(faults=())
            same(reader.request(handle[:200]).get(), DATA[:200])
            same(data[:200], DATA[:200])


@pytest.mark.parametrize("status", [503, 403, 404])
def test_metadata_that_is_not_given(status: int, tmp_path: Path, remote: Remote) -> None:
    """A walk through a file raises the store's error, and works again when the store does."""
    with h5py.File(tmp_path / "many.h5", "w") as file:
        for number in range(1000):
            file.create_dataset(f"g{number // 100}/s{number}", data=noise(60), chunks=(30,))
    name, options = remote.put(tmp_path / "many.h5"), remote.options(**{**QUICK, "max_retries": 1})
    fault = Fault("status", status)
    kind = MissingFileError if status == 404 else StoreError

    def visit() -> None:
        with multitables.open(name, storage_options=options) as opened:
            opened.visititems(lambda _, node: getattr(node, "dtype", None) and None)

    def collect() -> None:
        with Streamer(name, storage_options=options).get_collection("/g*/s*", n_procs=1) as items:
            assert sum(len(item) for item in items) == 1000

    def index() -> None:
        multitables.index_file(name, "cache", progress=False, storage_options=options)

    def stream() -> None:
        rows, _ = streamed(name, "g9/s999", open_options={"storage_options": options})  # type: ignore[arg-type]
        same(rows, noise(60))

    def request() -> None:
        with Reader(name, n_procs=1, storage_options=options) as reader:
            same(reader.request(reader.get_dataset("g9/s999")[:]).get(), noise(60))

    def lead() -> None:
        with multitables.open(name, storage_options=options) as opened:
            assert "no" not in opened["g7"]
            assert len(opened["g8"]) == 100
            same(opened["g9/s999"][:], noise(60))
            with pytest.raises(KeyError):
                opened["g9/s99/no"]

    for look in (visit, collect, index, stream, request, lead):
        fault = replace(fault, after=1 + (look is request))
        remote.proxy.set(faults=(fault,))
        with pytest.raises(kind, match=f"HTTP status {status}") as caught:
            look()
        assert caught.value.values["filename"] == name
        remote.proxy.set(faults=())
        look()


@pytest.mark.parametrize("fault", [Fault("status", 403), Fault("status", 500), Fault("drop")])
def test_an_index_that_is_not_given(fault: Fault, path: Path, remote: Remote) -> None:
    """It is not needed."""
    name = remote.put(path)
    options = remote.options(**{**QUICK, "looks_for_index": True, "max_retries": 1})
    remote.proxy.set(faults=(replace(fault, path=r"\.mtidx"),))
    same(by_queue(name, {"storage_options": options}), DATA)
    same(by_handle(name, {"storage_options": options}), DATA)


def test_an_index_that_is_damaged(path: Path, remote: Remote) -> None:
    name, options = remote.put(path), remote.options(**{**QUICK, "looks_for_index": True})
    remote.put(b"no index" * 1000, "data.h5.mtidx")
    with pytest.warns(SavedIndexWarning, match="damaged"):
        same(by_handle(name, {"storage_options": options}), DATA)


@pytest.mark.parametrize("rows", [np.s_[:], np.s_[50:90], 7, np.s_[:, 3]], ids=str)
def test_a_handle_asks_once(rows: Any, path: Path, remote: Remote) -> None:
    """A failure of a store is not looked into by reading the same again another way."""
    options = remote.options(looks_for_index=False, max_gap_bytes=0, max_request_bytes=1 << 15)
    with multitables.open(remote.put(path), storage_options=options, n_threads=1) as file:
        data = file["x"]
        remote.requests()  # of opening
        remote.proxy.set(faults=(Fault("status", 403),))
        with pytest.raises(StoreError, match="refuses"):
            data[rows]
    ranges = [one.range for one in remote.requests()]
    assert len(ranges) == len(set(ranges)) > 0


def test_an_object_that_is_replaced(path: Path, remote: Remote, tmp_path: Path) -> None:
    name, options = remote.put(path), remote.options(**QUICK)
    with (
        Reader(name, n_procs=1, storage_options=options) as reader,
        multitables.open(name, storage_options=options) as file,
        Streamer(name, storage_options=options) as streamer,
    ):
        handle, data = reader.get_dataset("x"), file["x"]
        with h5py.File(tmp_path / "other.h5", "w") as other:
            other["x"] = DATA + 1
        remote.put(tmp_path / "other.h5")
        for read in (lambda: reader.request(handle[:]).get(), lambda: data[:]):
            with pytest.raises(FileChangedError, match="changed after it was indexed") as caught:
                read()
            assert caught.value.filename == name
        for n_procs in (None, 1):
            queue = streamer.get_queue("x", n_procs=n_procs, ordered=True)
            with queue, queue.get() as block:
                same(np.array(block), DATA[: len(block)] + 1)


def test_what_is_no_file(remote: Remote) -> None:
    options = remote.options(**QUICK)
    for content, words in ((b"", "is not an HDF5 file"), (b"no" * 1000, "is not an HDF5 file")):
        with pytest.raises(FileOpenError, match=words):
            multitables.open(remote.put(content), storage_options=options)
    name = f"s3://{remote.bucket}/no.h5"
    with pytest.raises(MissingFileError, match="there is no object"):
        multitables.open(name, storage_options=options)
    with pytest.raises(MissingFileError, match="there is no object"):
        multitables.open("s3://no-such-bucket/no.h5", storage_options=options)


def test_an_object_that_was_cut_when_it_was_put(path: Path, remote: Remote) -> None:
    name = remote.put(path.read_bytes()[:-1000])
    with pytest.raises(FileOpenError, match="is truncated"):
        multitables.open(name, storage_options=remote.options(**QUICK))


@pytest.mark.parametrize("key", ["certificate.h5", "timed-out-credential-dns-error.h5"])
def test_names_are_no_reasons(key: str, path: Path, remote: Remote) -> None:
    name = remote.put(path, key)
    remote.proxy.set(faults=(Fault("drop"),))
    options = remote.options(**{**QUICK, "max_retries": 0})
    with pytest.raises(StoreError, match="break off"):
        multitables.open(name, storage_options=options)


def test_certificates(
    path: Path, remote: Remote, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = issued(tmp_path)
    name = remote.put(path)
    with Proxy(remote.server.endpoint, tls=files) as proxy:
        secure = remote.options(**QUICK, endpoint=proxy.endpoint)
        with pytest.raises(StoreError, match="is not trusted") as caught:
            multitables.open(name, storage_options=secure)
        assert "SSL_CERT_FILE" in caught.value.advice
        assert "storage_options['certificate']" in caught.value.advice
        client.forget_stores()
        named = {**secure, "certificate": str(tmp_path / "authority.pem")}
        same(by_queue(name, {"storage_options": named}), DATA)
        same(by_handle(name, {"storage_options": named}), DATA)
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
        client.forget_stores()
        same(by_queue(name, {"storage_options": secure}), DATA)
        client.forget_stores()
