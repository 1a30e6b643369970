"""Objects in forks of a process that has used obstore, whose threads are not there.

Law
---
1. Each test forks while this process has a store, and goes on using it afterwards.
2. Children answer through a pipe within a deadline: a hang fails the test, and the child is killed.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import smooth
from handle_reading import sums
from object_stores import s3_store
from processes import alive, children, gone, run_script, wait_until

import multitables
from _multitables.benchmark.objects.proxy import Proxy
from _multitables.benchmark.objects.server import S3Server
from _multitables.errors import StoreError
from _multitables.index.files.stored_files import fingerprint_of
from _multitables.index.opened.whole_object import WholeObject
from _multitables.remote import client, relay
from _multitables.remote.options import StorageOptions

DATA = smooth((500, 40, 8))
ROWS = np.arange(3000)
SECONDS = 30.0


class Stored:
    """A bucket with one file."""

    def __init__(self, server: S3Server, endpoint: str, bucket: str, file: Path) -> None:
        self.url = f"s3://{bucket}/data.h5"
        self.options: dict[str, Any] = {
            "endpoint": endpoint,
            "access_key_id": server.access_key,
            "secret_access_key": server.secret_key,
            "region": server.region,
            "looks_for_index": False,
        }
        s3_store(server, server.endpoint, bucket).put("data.h5", file)

    @property
    def text(self) -> str:
        """What the client is told."""
        return StorageOptions.of(self.options).client_text(self.url)

    def open(self, **options: Any) -> multitables.File:
        return multitables.open(self.url, storage_options=self.options, **options)

    def streamer(self) -> multitables.Streamer:
        return multitables.Streamer(self.url, storage_options=self.options)

    def reader(self) -> multitables.Reader:
        return multitables.Reader(self.url, n_procs=1, storage_options=self.options)


@pytest.fixture(autouse=True)
def no_store_is_kept() -> Iterator[None]:
    yield
    client._made.cache_clear()


@pytest.fixture
def stored(s3_server: S3Server, bucket: str, proxy: Proxy, tmp_path: Path) -> Stored:
    path = tmp_path / "data.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=DATA, chunks=(7, 40, 8), compression=1)
        file.create_dataset("rows", data=ROWS, chunks=(100,), compression="lzf")
    return Stored(s3_server, proxy.endpoint, bucket, path)


class Fork:
    """A forked child that runs a function, sends what it returns, and may wait for a last word."""

    def __init__(self, function: Callable[[], Any], until: Connection | None = None) -> None:
        self._answers, theirs = multiprocessing.Pipe(duplex=False)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads
            context = multiprocessing.get_context("fork")
            self._process = context.Process(target=_answer, args=(theirs, function, until))
            self._process.start()
        theirs.close()
        self.pid = self._process.pid or 0

    def answer(self) -> Any:
        """What the function returned."""
        assert self._answers.poll(SECONDS), "the child hangs"
        return self._answers.recv()

    def __enter__(self) -> Fork:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.join(5)
        self._process.kill()
        self._process.join()
        self._process.close()
        self._answers.close()


def _answer(theirs: Connection, function: Callable[[], Any], until: Connection | None) -> None:
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(int(2 * SECONDS))  # a fork of a fork may hang when its parent is gone
    try:
        theirs.send(function())
    except Exception as error:
        theirs.send(f"{type(error).__name__}: {error}")
    theirs.close()
    if until is not None:
        until.recv()


def in_fork(function: Callable[[], Any]) -> Any:
    with Fork(function) as child:
        return child.answer()


def streamed(stored: Stored, n_procs: int | None = 1) -> list[int]:
    return sorted(map(int, stored.streamer().get_generator("rows", n_procs=n_procs)))


def requested(stored: Stored) -> list[int]:
    with stored.reader() as reader:
        dataset = reader.get_dataset("rows")
        with reader.request(dataset[[7, 2500, 11]]).get_unsafe() as rows:
            return [int(row) for row in rows]


@pytest.mark.parametrize("state", ["new", "used before", "cached on disk"])
def test_a_handle_is_taken_along(stored: Stored, tmp_path: Path, state: str) -> None:
    if state == "cached on disk":
        stored.options["cache_folder"] = str(tmp_path / "cache")
    with stored.open(n_threads=3) as file:
        dataset = file["x"]
        if state != "new":
            assert sums(dataset) == sums(DATA)

        def read() -> Any:
            with stored.open() as again:
                return sums(dataset), sums(file["rows"], [slice(None)]), sums(again["x"])

        assert in_fork(read) == (sums(DATA), [int(ROWS.sum())], sums(DATA))
        assert sums(file["rows"], [slice(None)]) == [int(ROWS.sum())]
        assert sums(dataset, [slice(None)]) == sums(DATA, [slice(None)])
    with stored.open() as file:
        assert sums(file["x"]) == sums(DATA)


@pytest.mark.parametrize("n_procs", [None, 1])
def test_forks_have_streams_and_readers_of_their_own(stored: Stored, n_procs: int | None) -> None:
    """As a DataLoader forks its processes in the middle of the parent's stream."""

    def read() -> Any:
        return streamed(stored, n_procs), requested(stored)

    stream = stored.streamer().get_generator("rows", n_procs=n_procs)
    with contextlib.closing(stream):
        rows = [int(next(stream)) for _ in range(500)]
        with contextlib.ExitStack() as stack:
            forks = [stack.enter_context(Fork(read)) for _ in range(3)]
            rows += [int(next(stream)) for _ in range(500)]
            for fork in forks:
                assert fork.answer() == (ROWS.tolist(), [7, 2500, 11])
        rows += map(int, stream)
    assert sorted(rows) == ROWS.tolist()


def test_requests_of_many_threads_overlap(stored: Stored, proxy: Proxy) -> None:
    """In a fork as well, and connections are used again."""
    client.head(stored.url, stored.text)
    proxy.set(latency_seconds=0.2)

    def read() -> Any:
        def bytes_at(begin: int) -> bytes:
            return bytes(client.fetched(stored.url, stored.text, begin, begin + 1000)[2])

        with ThreadPoolExecutor(16) as pool:
            parts = list(pool.map(bytes_at, range(0, 32_000, 1000)))
        assert relay._relay is not None
        return b"".join(parts), len(relay._relay._idle)

    proxy.take_log()
    data, connections = in_fork(read)
    assert data == bytes(client.fetched(stored.url, stored.text, 0, 32_000)[2])
    assert connections == 16
    times = [one for one in proxy.take_log() if one.method == "GET"]
    assert len(times) == 33


def test_all_that_the_client_does(stored: Stored, tmp_path: Path) -> None:
    name, text = stored.url, stored.text
    beside = f"{name}.other"
    (tmp_path / "small").write_bytes(b"some bytes")

    def asked() -> Any:
        out = bytearray(100)
        client.read(name.encode(), json.dumps(["", text]).encode(), 2000, memoryview(out))
        version, state, data = client.fetched(name, text, 10, 50)
        names = sorted(client.listed(name, text))
        return client.head(name, text), version, state, bytes(data), bytes(out), names

    here = asked()
    assert here[-1] == [name]
    assert in_fork(asked) == here
    in_fork(lambda: client.put(beside, text, str(tmp_path / "small")))
    assert bytes(client.fetched(beside, text, 0, 100)[2]) == b"some bytes"
    assert in_fork(asked) == (*here[:-1], [name, beside])


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("missing.h5", {}),
        ("data.h5", {"secret_access_key": "SECRET"}),
        ("data.h5", {"access_key_id": None, "profile": "nobody"}),
        ("data.h5", {"no_such_option": "SECRET"}),
        ("data.h5", {"credential_provider": "no_such_module:provider"}),
    ],
    ids=["missing", "forbidden", "library", "option", "provider"],
)
def test_failures_are_the_same(stored: Stored, name: str, changed: dict[str, Any]) -> None:
    options = {key: one for key, one in {**stored.options, **changed}.items() if one is not None}

    def told() -> str:
        with pytest.raises(multitables.MultitablesError) as caught:
            multitables.open(stored.url.replace("data.h5", name), storage_options=options)
        return f"{type(caught.value).__name__}: {caught.value}"

    here = told()
    assert "SECRET" not in here
    assert in_fork(told) == here


def test_a_fork_of_a_fork(stored: Stored) -> None:
    """It has a relay of its own, also while threads of the fork wait for theirs."""

    def read(dataset: Any) -> Any:
        with stored.open() as file:
            return sums(dataset), sums(file["x"])

    def fork_again(dataset: Any) -> Any:
        ends = threading.Event()

        def ask() -> None:
            while not ends.is_set():
                client.head(stored.url, stored.text)

        thread = threading.Thread(target=ask)
        thread.start()
        wait_until(lambda: relay._relay, "a relay")
        try:
            inner = [in_fork(lambda: read(dataset)) for _ in range(2)]
        finally:
            ends.set()
            thread.join()
        return [*inner, read(dataset)]

    with stored.open(n_threads=3) as file:
        dataset = file["x"]
        assert in_fork(lambda: fork_again(dataset)) == [(sums(DATA), sums(DATA))] * 3
        assert sums(dataset) == sums(DATA)


@pytest.fixture
def asks(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """Set when bytes of an object are asked for."""
    asks = threading.Event()

    def noting(function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any) -> Any:
            asks.set()
            return function(*arguments)

        return noted

    for name in ("read", "fetched"):
        monkeypatch.setattr(client, name, noting(getattr(client, name)))
    return asks


def forked_in_the_middle(function: Callable[[], Any], asks: threading.Event, depth: int) -> Any:
    """A function returns here and in forks that begin while a thread here waits in it."""
    if not depth:
        return [function()]
    asks.clear()
    with ThreadPoolExecutor(1) as pool:
        here = pool.submit(function)
        assert asks.wait(SECONDS)
        there = in_fork(lambda: forked_in_the_middle(function, asks, depth - 1))
        return [*there, here.result()]


@pytest.mark.parametrize("depth", [1, 2], ids=["a fork", "a fork of a fork"])
def test_a_thread_waits_for_metadata(
    stored: Stored, proxy: Proxy, asks: threading.Event, depth: int
) -> None:
    """A fork fetches for itself what another thread of its parent was fetching."""
    with stored.open() as file:
        proxy.set(latency_seconds=0.3)
        found = forked_in_the_middle(lambda: file["rows"].shape, asks, depth)
        assert found == [ROWS.shape] * (depth + 1)


def test_a_thread_opens_an_object(stored: Stored, proxy: Proxy, asks: threading.Event) -> None:
    options = StorageOptions.of(stored.options)
    whole = WholeObject(stored.url, fingerprint_of(stored.url, options))
    proxy.set(latency_seconds=0.3)
    root = forked_in_the_middle(lambda: whole.file.root, asks, 1)
    assert root[0] == root[1]


def test_other_threads_hold_locks(stored: Stored) -> None:
    client.head(stored.url, stored.text)
    with client._lock, relay._lock:
        assert in_fork(lambda: requested(stored)) == [7, 2500, 11]


@pytest.mark.parametrize("dies", [False, True], ids=["exits", "is killed"])
def test_the_relay_ends_with_its_fork(stored: Stored, tmp_path: Path, dies: bool) -> None:
    def pid() -> int:
        client.head(stored.url, stored.text)
        return next(iter(children()))

    here = client.head(stored.url, stored.text)
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        ends, say = multiprocessing.Pipe(duplex=False)
        with Fork(pid, until=ends) as child:
            found = child.answer()
            assert alive(found)
            shown = Path(f"/proc/{found}/cmdline").read_text() + repr(
                Path(f"/proc/{found}/environ").read_bytes()
            )
            assert "_multitables.remote.relay_process" in shown
            assert stored.options["secret_access_key"] not in shown
            held = {os.readlink(one) for one in Path(f"/proc/{found}/fd").iterdir()}
            assert str(tmp_path / "open") not in held
            assert os.getsid(found) == found
            if dies:
                os.kill(child.pid, signal.SIGKILL)
            else:
                say.send("end")
            gone([found])
        ends.close()
        say.close()
        assert dies or not Path(f"/proc/{found}").exists(), "it was not waited for"
    assert client.head(stored.url, stored.text) == here


def test_a_relay_that_dies_is_replaced(stored: Stored, proxy: Proxy) -> None:
    here = client.head(stored.url, stored.text)
    proxy.set(latency_seconds=0.3)

    def ask() -> Any:
        with ThreadPoolExecutor(4) as pool:
            answers = [pool.submit(client.head, stored.url, stored.text) for _ in range(8)]
            wait_until(children, "a relay")
            first = next(iter(children()))
            wait_until(lambda: proxy_is_asked(first), "a request")
            os.kill(first, signal.SIGKILL)
            told = [answer.result() for answer in answers]
        return told, first in children(), len(children())

    def proxy_is_asked(pid: int) -> bool:
        return len(list(Path(f"/proc/{pid}/task").iterdir())) >= 5  # main, and one for each of ours

    assert in_fork(ask) == ([here] * 8, False, 1)


@pytest.mark.parametrize(
    ("program", "said"),
    [("/no/such/python", "No such file or directory"), ("/bin/false", "does not run")],
)
def test_no_relay_can_be_started(
    stored: Stored, monkeypatch: pytest.MonkeyPatch, program: str, said: str
) -> None:
    def told() -> str:
        with pytest.raises(StoreError) as caught:
            stored.open()
        return str(caught.value)

    stored.open().close()
    monkeypatch.setattr("multiprocessing.spawn._python_exe", program)
    error = in_fork(told)
    assert said in error
    assert "by spawn" in error


@pytest.mark.parametrize("used", [False, True], ids=["unused", "used"])
def test_programs_fork_and_end(stored: Stored, used: bool) -> None:
    """A fork of a process without obstore needs no relay; either ends in the usual way."""
    done = run_script(
        "import json, os, sys, multitables\n"
        "from _multitables.remote import relay\n"
        "def read():\n"
        "    with multitables.open(sys.argv[1], storage_options=json.loads(sys.argv[2])) as file:\n"
        "        return int(file['rows'][...].sum())\n"
        "if sys.argv[3] == 'True': read()\n"
        "child = os.fork()\n"
        "if child:\n"
        "    _, status = os.waitpid(child, 0)\n"
        "    print(status, read())\n"
        "else:\n"
        "    print(read(), relay._relay is not None)\n",
        stored.url,
        json.dumps(stored.options),
        used,
        flags=("-W", "error", "-W", "ignore::DeprecationWarning"),
    )
    assert done.stderr == ""
    assert done.stdout == f"{ROWS.sum()} {used}\n0 {ROWS.sum()}\n"
