"""The lines of the logger ``multitables``: choices that a program does not see otherwise.

1. A program that does not import `logging` pays nothing, and gets nothing.
"""

from __future__ import annotations

import io
import logging
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np
import pytest
from processes import first_readers, kill, run_script

import multitables
from _multitables.errors import note
from _multitables.index.files.progress import Steps
from _multitables.index.joined import source
from _multitables.remote import client
from _multitables.remote.failures import StoreFailure


@pytest.fixture
def path(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Path:
    caplog.set_level(logging.DEBUG, "multitables")
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file.create_dataset("x", data=np.arange(4000.0).reshape(400, 10), chunks=(4, 10))
    return tmp_path / "rows.h5"


def test_who_streams(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    streamer = multitables.Streamer(path)
    lines = {2: r"\['/x'\] are streamed in \d+ tasks; readers: 2", 0: "'x' is read whole, before"}
    for n_procs, line in lines.items():
        caplog.clear()
        with streamer.get_queue("x", n_procs=n_procs):
            pass
        (record,) = caplog.records
        assert re.match(line, record.getMessage())
        assert (record.name, record.levelno) == ("multitables", logging.DEBUG)
        assert record.filename in ("open_stream.py", "start_blocks.py")


def test_a_saved_index(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    place = multitables.index_file(path, progress=False)
    multitables.open(path).close()
    assert caplog.messages[-1] == f"the saved index {place!r} is used"
    os.utime(path, ns=(1, 1))
    multitables.open(path).close()
    assert caplog.messages[-1].endswith("of another version of its file, and not used")


def test_bytes_of_a_file_object(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    data = path.read_bytes()
    multitables.open(io.BytesIO(data)).close()
    assert caplog.messages == [f"{len(data)} bytes of a file object (BytesIO) are read into memory"]


def test_a_reader_that_is_replaced(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with multitables.Streamer(path).get_queue("x", n_procs=1, read_ahead=3) as queue:
        (pid,) = first_readers()
        kill(pid)
        rows = 0
        for guard in queue:
            with guard as block:
                rows += len(block)
            del block
    assert rows == 400
    record = next(one for one in caplog.records if one.levelno == logging.INFO)
    assert record.getMessage() == f"reader 0 is replaced: process {pid} ended with -9"


@pytest.mark.parametrize("at_a_time", [2, 5000])
def test_how_far_long_calls_are(
    path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, at_a_time: int
) -> None:
    names = [str(path)] + [str(shutil.copy(path, path.with_name(f"{n}.h5"))) for n in "abcd"]
    monkeypatch.setattr(source, "FILES_AT_A_TIME", at_a_time)
    caplog.set_level(logging.INFO, "multitables")

    def lines(call: Callable[[], object]) -> list[str]:
        caplog.clear()
        call()
        return caplog.messages

    def everything() -> list[list[str]]:
        return [
            lines(lambda: multitables.Streamer(names).get_queue("x").close()),
            lines(lambda: multitables.Streamer(names).get_collection("*", by="file").close()),
            lines(
                lambda: multitables.index_files(names, path.with_name("m.mtidx"), progress=False)
            ),
        ]

    assert everything() == [[], [], []]  # none takes seconds
    monkeypatch.setattr(Steps, "SECONDS", 0)
    streamed, collected, indexed = everything()
    steps = range(2, 7, 2) if at_a_time == 2 else [5]
    opened = f"{names[0]!r} and others are opened, files"
    # before all of them, the first one is asked where the path leads
    assert streamed == [f"{opened}: {min(n, 5)} of 5" for n in (1, *steps)]
    looked = f"items are looked for in {names[0]!r} and others, files"
    assert collected == [f"{looked}: {n} of 5" for n in range(1, 6)]
    manifest = str(path.with_name("m.mtidx"))
    assert indexed == [f"{manifest!r} is indexed, files: {n} of 5" for n in range(1, 6)]
    os.truncate(names[-1], 1000)  # the core looks at all no more
    with pytest.raises(multitables.MultitablesError):
        multitables.Streamer(names).get_queue("x")
    assert caplog.messages[-1] == f"{opened}: 5 of 5"


def test_a_request_that_is_repeated(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.INFO, "multitables")
    answers = [StoreFailure("cut", "secret"), ("etag", (0, 4), memoryview(b"data"))]

    def fetched(*_: object) -> object:
        answer = answers.pop(0)
        if isinstance(answer, StoreFailure):
            raise answer
        return answer

    monkeypatch.setattr(client, "_fetched", fetched)
    text = '{"own": {"max_retries": 3}}'
    assert bytes(client.fetched("s3://bucket/x.h5", text, 0, 4)[2]) == b"data"
    assert caplog.messages == ["'s3://bucket/x.h5' is requested again: its answer was cut"]


def test_without_logging_nothing_is_imported() -> None:
    done = run_script(
        "import sys\n"
        "from _multitables.errors import note\n"
        "sys.modules.pop('logging', None)\n"
        "note('%s', 5)\n"
        "print('logging' in sys.modules)"
    )
    assert done.stdout.strip() == "False"
    assert note("%s", 5) is None  # type: ignore[func-returns-value]
