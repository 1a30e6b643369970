"""Ctrl-C while a store does not answer: it ends the wait, and the program can go on.

1. The signal is a real one, sent while the server holds its answer back.
2. Requests on their way are left to threads, which end when the server answers. The threads of a
   stream do not wait for it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from plain_server import plain_server
from processes import Holdings, wait_until

import multitables

OPTIONS: dict[str, Any] = {"looks_for_index": False, "max_retries": 0, "max_request_bytes": 1 << 16}


def index_file(url: str, folder: Path) -> None:
    to = str(folder / "refs.json")
    multitables.index_file(url, to, storage_options=OPTIONS)


def queue(url: str, _: Path) -> None:
    multitables.Streamer(url, storage_options=OPTIONS).get_queue("/rows", n_procs=1)


def read_all(file: Any) -> None:
    file["rows"][...]


def read_one(file: Any) -> None:
    file["rows"][1000]


def read_metadata(file: Any) -> None:
    for name in file["many"]:
        dict(file["many"][name].attrs)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("interrupts") / "data.h5"
    with h5py.File(path, "w") as file:
        rows = np.random.default_rng(1).integers(0, 1 << 60, 1 << 18)
        file.create_dataset("rows", data=rows, chunks=(1 << 13,))
        for name in range(300):
            file[f"many/{name}"] = np.arange(200)
            file[f"many/{name}"].attrs["units"] = "m"
    return path.read_bytes()


def interrupted(act: Callable[[], None], answers: threading.Event) -> None:
    """Act, and be interrupted soon; the interrupt comes through at once."""
    main = threading.main_thread().ident
    assert main is not None
    timer = threading.Timer(0.3, signal.pthread_kill, (main, signal.SIGINT))
    begun = time.monotonic()
    timer.start()
    try:
        with pytest.raises(KeyboardInterrupt):
            act()
        assert time.monotonic() - begun < 3.0
    finally:
        timer.join()
        answers.set()


@pytest.mark.parametrize("entry", [index_file, queue, lambda url, _: multitables.open(url)])
def test_an_interrupt_while_a_file_is_opened(
    data: bytes, tmp_path: Path, entry: Callable[[str, Path], object]
) -> None:
    answers = threading.Event()
    with plain_server(objects={"/data.h5": data}, status=lambda _: 0 * answers.wait()) as server:
        url = f"{server.endpoint}/data.h5"
        interrupted(lambda: entry(url, tmp_path), answers)  # type: ignore[arg-type, return-value]
        with multitables.open(url, storage_options=OPTIONS) as file:
            assert file["rows"].shape == (1 << 18,)


@pytest.mark.parametrize("read", [read_all, read_one, read_metadata])
def test_an_interrupt_while_a_file_is_read(data: bytes, read: Callable[[Any], None]) -> None:
    answers = threading.Event()
    answers.set()
    with plain_server(objects={"/data.h5": data}, status=lambda _: 0 * answers.wait()) as server:
        url = f"{server.endpoint}/data.h5"
        with multitables.open(url, storage_options=OPTIONS) as file:
            answers.clear()
            interrupted(lambda: read(file), answers)
            read(file)


@pytest.mark.parametrize("n_procs", [None, 1])
def test_a_stream_ends_while_a_store_does_not_answer(data: bytes, n_procs: int | None) -> None:
    answers = threading.Event()
    answers.set()
    before = kept_rings()
    with plain_server(objects={"/data.h5": data}, status=lambda _: 0 * answers.wait()) as server:
        streamer = multitables.Streamer(f"{server.endpoint}/data.h5", storage_options=OPTIONS)

        def read() -> None:
            with streamer.get_queue("/rows", n_procs=n_procs, cyclic=True, read_ahead=4) as stream:
                answers.clear()
                for guard in stream:
                    with guard:
                        pass

        hung = threading.Event()
        try:
            interrupted(read, hung)
            wait_until(lambda: kept_rings() <= before, "the end of its readers")
        finally:
            answers.set()


def kept_rings() -> int:
    """Mappings of rings of this process that are still in use."""
    multitables.release_memory()
    return sum("-ring" in line for line in Holdings.now().mappings)


def test_an_interrupt_in_a_fork(data: bytes) -> None:
    """It asks another process, which is left alone, too."""
    answers = threading.Event()
    answers.set()
    with plain_server(objects={"/data.h5": data}, status=lambda _: 0 * answers.wait()) as server:
        url = f"{server.endpoint}/data.h5"
        multitables.open(url, storage_options=OPTIONS).close()
        answers.clear()
        child = os.fork()
        if not child:
            ended = 1
            try:
                interrupted(lambda: multitables.open(url, storage_options=OPTIONS), answers)  # type: ignore[arg-type, return-value]
                ended = 0
            finally:
                from _multitables.remote import relay

                if relay._relay is not None:
                    relay._end(relay._relay)
                os._exit(ended)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        answers.set()
