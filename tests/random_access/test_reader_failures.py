"""Random access: a request that failed frees its memory at once, however its failure is told.

Law
---
1. The request and its exception, traceback and all, are held while memory is looked at.
2. Every fault is told in every way that a result can be taken, with a stage, a pool and neither.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from concurrent.futures import wait
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
from oracle import same
from processes import first_readers, kill, wait_until
from reader_cases import opened, poisoned

import multitables
from _multitables import _core
from multitables import CorruptChunkError, SubprocessException

pytestmark = pytest.mark.usefixtures("few_filters")

ROWS = np.arange(400, dtype="<i8").reshape(100, 4)
TABLE = np.zeros(100, [("id", "<i8"), ("x", "<f8")])


async def _awaited(request: Any) -> Any:
    return await request


def _until_done(request: Any) -> None:
    wait_until(request.done, "the end of a request")


#: How a failure is told; some tell it without raising.
WAYS: dict[str, Callable[[Any], Any]] = {
    "get": lambda request: request.get(),
    "result": lambda request: request.result(),
    "exception": lambda request: request.exception(),
    "done": _until_done,
    "get_unsafe": lambda request: request.get_unsafe().__enter__(),
    "get_proxy": lambda request: request.get_proxy().__enter__(),
    "get_direct": lambda request: request.get_direct(len),
    "await": lambda request: asyncio.run(_awaited(request)),
    "wait": lambda request: wait([request]),
}


@pytest.fixture
def damaged(h5: Path) -> Path:
    """Datasets that are damaged, for the core and for a library, and ones that are not."""
    with tables.open_file(str(h5), "w") as file:
        for name, filters in (
            ("native", tables.Filters(3, "zlib", fletcher32=True)),
            ("library", tables.Filters(3, "bzip2", fletcher32=True)),
            ("codec", tables.Filters(3, "blosc:lz4")),
            ("sound", tables.Filters(3, "zlib")),
        ):
            file.create_carray("/", name, obj=ROWS, filters=filters, chunkshape=(25, 4))
        file.create_table("/", "table", obj=TABLE)
        list_ = file.create_vlarray("/", "ragged", tables.Int64Atom(), filters=tables.Filters(3))
        for _ in range(10):
            list_.append(np.arange(1000))
    with h5py.File(h5, "r") as file:
        places = [file[name].id.get_chunk_info(1) for name in ("native", "library", "codec")]
    with open(h5, "r+b") as raw:
        for place in places:
            raw.seek(place.byte_offset + place.size // 2)
            raw.write(b"oops")
        raw.seek(places[-1].byte_offset + 2)
        raw.write(b"\xe1")  # in a blosc header, a codec that there is not
    return h5


FAULTS: dict[str, tuple[str, Callable[[Any], Any], type[BaseException]]] = {
    "a corrupt chunk": ("/native", lambda d: d[20:30], CorruptChunkError),
    "a corrupt chunk of several": ("/native", lambda d: d[:], CorruptChunkError),
    "a corrupt chunk, rows listed": ("/native", lambda d: d[[1, 30]], CorruptChunkError),
    "a corrupt chunk, by a library": ("/library", lambda d: d[20:30], SubprocessException),
    "an unknown codec": ("/codec", lambda d: d[20:30], SubprocessException),
    "a library's exception": ("/table", lambda d: d.where("nobody > 3"), NameError),
    "a wrong condition": ("/table", lambda d: d.where("id >"), SyntaxError),
    "no index to sort by": ("/table", lambda d: d.read_sorted("id", True), ValueError),
    "out of range": ("/sound", lambda d: d[100], IndexError),
    "a list out of range": ("/sound", lambda d: d[[1, 100]], IndexError),
    "no such column": ("/table", lambda d: d["nobody"][3:5], KeyError),
}  # fmt: skip


class Held:
    """Stages, and the requests and exceptions that are held beside them."""

    def __init__(self, reader: Any, path: str = "/sound") -> None:
        self._reader = reader
        self._dataset = reader.get_dataset(path)
        self.stage = self._dataset.create_stage(100)
        self.pool = self._dataset.create_stage_pool(100, 1)
        self._held: list[Any] = []

    def fail(self, ask: Callable[[Any], Any], way: str, kind: type[BaseException]) -> None:
        """Ask with a stage, a pool and neither, and have each failure told in this way."""
        for stages in (self.stage, self.pool, None):
            self.told(ask(stages), way, kind)

    def told(self, request: Any, way: str, kind: type[BaseException]) -> None:
        """Hold a request that fails, and its exception; no stage is in use."""
        error = None
        try:
            WAYS[way](request)
        except kind as raised:
            error = raised
        self.is_free()
        error = error or request.exception()
        assert isinstance(error, kind)
        self._held += [request, error]
        self.is_free()

    def is_free(self) -> None:
        """No stage is in use."""
        assert not self.stage.busy
        assert self.pool.lent() == (0, 0)
        assert self._reader.statistics()["stages_lent"] == 0

    def used_bytes(self) -> tuple[int, int]:
        """All shared memory, and that of requests without a stage."""
        return _core.Arena(1).used_bytes, self._reader.statistics()["memory_bytes"]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_request_that_failed_holds_no_memory(damaged: Path, fault: str) -> None:
    path, index, kind = FAULTS[fault]
    with opened(damaged) as reader:
        held, dataset = Held(reader), reader.get_dataset(path)

        def ask(stages: Any) -> Any:
            return reader.request(index(dataset), stages)

        held.fail(ask, "get", kind)
        used = held.used_bytes()
        for way in WAYS:
            held.fail(ask, way, kind)
        assert held.used_bytes() == used
        sound = reader.get_dataset("/sound")
        for stages in (held.stage, held.pool, None):
            same(reader.request(sound[:], stages).get(), ROWS)
        del held


def test_a_result_that_is_too_large_holds_no_memory(damaged: Path) -> None:
    with multitables.Reader(damaged, n_procs=1, memory_limit_bytes=1 << 16) as reader:
        held = Held(reader)
        small = reader.get_dataset("/sound").create_stage(1)
        whole, ragged = reader.get_dataset("/table"), reader.get_dataset("/ragged")
        for way in WAYS:
            for selection in (whole[:], whole.where("id < 50"), ragged[0]):
                held.told(reader.request(selection, small), way, multitables.SharedMemoryError)
                assert not small.busy
            # More than the Reader's own memory, which is known only when it was read.
            request = reader.request(ragged[:])
            held.told(request, way, multitables.SharedMemoryError)
        del held, request


def test_a_request_that_kills_readers_holds_no_memory(
    h5: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    poisoned(h5, monkeypatch, 2 * len(WAYS))
    with multitables.Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/x")
        held = Held(reader, "/y")
        for way, stages in zip(WAYS, [held.stage, held.pool, None] * 3, strict=True):
            request = reader.request(dataset[3:30], stages)
            held.told(request, way, multitables.ReaderDiedError)
        same(reader.request(dataset[:], held.stage).get(), dataset_of(h5))
        del held, request


def dataset_of(h5: Path) -> np.ndarray:
    """What h5py reads."""
    with h5py.File(h5, "r") as file:
        return np.asarray(file["x"])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("end", ["stop", "death"])
def test_a_request_of_a_reader_that_ended_holds_no_memory(
    damaged: Path, monkeypatch: pytest.MonkeyPatch, end: str, way: str
) -> None:
    with multitables.Reader(damaged, n_procs=1) as reader:
        held, dataset = Held(reader), reader.get_dataset("/sound")
        kill(*first_readers(1), signal.SIGSTOP)
        requests = [reader.request(dataset[:], s) for s in (held.stage, held.pool, None)]
        if end == "stop":
            reader.stop()
        else:
            monkeypatch.setattr(
                "_multitables.parent.readers.process.python_program", lambda: "/no/such"
            )
            kill(*first_readers(1), signal.SIGKILL)
        for request in requests[:2]:
            _until_done(request)
        kind = multitables.ReaderDiedError if end == "death" else multitables.ClosedError
        held.told(requests[2], way, kind)
        del held, requests, request


def test_a_request_that_was_cancelled_holds_no_memory(damaged: Path) -> None:
    with multitables.Reader(damaged, n_procs=1) as reader:
        held, dataset = Held(reader), reader.get_dataset("/sound")
        kill(*first_readers(1), signal.SIGSTOP)
        requests = [reader.request(dataset[:], s) for s in (held.stage, held.pool, None)]
        assert all(request.cancel() for request in requests)
        held.is_free()
        del requests, held
        kill(*first_readers(1), signal.SIGCONT)
