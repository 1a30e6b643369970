"""Faults met by shuffled batches: dead readers, damaged chunks, changing files, full hands, forks.

1. A reader that dies costs no row and doubles none, whatever the shuffle.
2. Errors have the chunk's address; nothing is left behind.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import smooth
from numbered_batches import batches_of, collected, rows_of
from payload import ROWS, write
from processes import alive, children, kill, readers, wait_until
from test_faults_data import BAD, FAULTS, KINDS, STEP, damaged

import multitables
from _multitables import options as knobs

pytestmark = pytest.mark.usefixtures("few_filters")

SHUFFLES = ["chunks", "window", "full"]


@pytest.mark.parametrize(
    ("shuffle", "driver"),
    [(None, "buffered"), ("chunks", "direct"), ("window", "buffered"), ("full", "direct")],
)
def test_killed_readers_are_replaced(numbered: Path, shuffle: str | None, driver: str) -> None:
    streamer = multitables.Streamer(
        numbered, **({"DRIVER": "H5FD_DIRECT"} if driver == "direct" else {})
    )
    with streamer.get_batches(
        ["/rows", "/raw", "/labels"],
        20,
        shuffle=shuffle,
        window_rows=400,
        memory_limit_bytes=1 << 20,
        epochs=3,
        n_procs=2,
    ) as batches:
        wanted = np.concatenate([batches.order(epoch) for epoch in range(3)])
        found = []
        for at, (rows, raw, labels) in enumerate(batches):
            found.append(rows_of(rows))
            np.testing.assert_array_equal(rows_of(raw), found[-1])
            np.testing.assert_array_equal(labels, -found[-1])
            if at % 100 == 50 and len(pids := readers()) == 2:
                pid = pids[0]  # the oldest: a new one may still be at what its predecessor died of
                kill(pid)
                wait_until(lambda pid=pid: not alive(pid), "a dead reader")
        np.testing.assert_array_equal(np.concatenate(found), wanted)


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("driver", ["buffered", "direct"])
def test_damaged_chunks(h5: Path, name: str, shuffle: str, driver: str) -> None:
    damaged(h5, FAULTS[name])
    streamer = multitables.Streamer(h5, **({"DRIVER": "H5FD_DIRECT"} if driver == "direct" else {}))
    batches = streamer.get_batches("/x", 7, shuffle=shuffle, window_rows=2 * STEP, n_procs=2)
    good = []

    def read() -> None:
        for batch in batches:
            good.append(batch.copy())  # noqa: PERF401 - what came before the error is kept

    with pytest.raises(multitables.CorruptChunkError) as caught:
        read()
    text = str(caught.value)
    assert FAULTS[name].says in text
    assert f"chunk ({BAD}, 0)" in text
    assert f"Rows {BAD}:{BAD + STEP} were not delivered" in text
    assert caught.value.chunk_offset == (BAD, 0)
    rows = np.concatenate([*good, np.zeros((0, 5), "<i4")])
    np.testing.assert_array_equal(rows, smooth((400, 5))[batches.order(0)[: len(rows)]])
    assert children() == {}
    with pytest.raises(multitables.CorruptChunkError):
        read()  # again: the chunk is still bad
    batches.close()


@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_a_file_that_changes(tmp_path: Path, shuffle: str) -> None:
    path = write(tmp_path / "rows.h5")
    with batches_of(path, 10, shuffle=shuffle, epochs=None, memory_limit_bytes=1 << 20) as batches:
        iterator = iter(batches)
        rows_of(next(iterator))
        os.utime(path, ns=(1, 1))
        with pytest.raises(multitables.FileChangedError, match="What was delivered before") as c:
            list(map(rows_of, iterator))
        assert isinstance(c.value, OSError)
    assert children() == {}


def test_holding_all_batches(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(knobs, "STALL_SECONDS", 0.3)
    with batches_of(numbered, 50, shuffle="window", epochs=3) as batches:  # of two, all fit
        with pytest.raises(multitables.StalledError, match="blocks that") as caught:
            list(batches)
        assert len(caught.value.held) > 5
        del caught
        assert len(collected(batches)) == 3 * ROWS // 50  # the next one lets go of them


def test_a_reader_that_dies_of_a_task(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    poison = h5.parent / "poison"
    poison.mkdir()
    (poison / "h5py.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((40, 3)), chunks=(10, 3), scaleoffset=0)
    monkeypatch.syspath_prepend(str(poison))
    batches = multitables.Streamer(h5).get_batches("/x", 4, shuffle="window", n_procs=1)
    with pytest.raises(multitables.ReaderDiedError, match="twice while decoding '/x'"):
        next(iter(batches))
    batches.close()
    assert children() == {}


def test_the_library_that_fails(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = h5.parent / "broken"
    broken.mkdir()
    (broken / "h5py.py").write_text("raise ImportError('no h5py today')\n")
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((40, 3)), chunks=(10, 3), scaleoffset=0)
    monkeypatch.syspath_prepend(str(broken))
    batches: Any = multitables.Streamer(h5).get_batches("/x", 4, shuffle="full", n_procs=1)
    with pytest.raises(ImportError, match="no h5py today") as caught:
        next(iter(batches))
    assert isinstance(caught.value, multitables.SubprocessException)
    assert "A block or batch was not delivered" in str(caught.value)
    batches.close()
