"""Collections on rotating disks: more readers move the head no more often than one.

1. The disk is a simulated one that only counts (simulated_disk.py). Where nothing can be mounted,
   these tests are skipped and say why.
2. Every pass is a cold one, and its items equal what was written.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from disk_cases import forget, spinning, stored
from processes import kill, readers

import multitables

DRIVERS: dict[str, dict[str, Any]] = {"direct": {"DRIVER": "H5FD_DIRECT"}, "buffered": {}}


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, rng = tmp_path_factory.mktemp("items") / "items.h5", np.random.default_rng(3)
    with h5py.File(path, "w", libver="latest") as file:
        for key in range(150):
            for name in "ab":
                data = rng.random(9000, dtype="f4")
                file.create_dataset(f"small/{key}/{name}", data=data, chunks=(1500,))
        for key in range(4):
            data = rng.random(2_000_000, dtype="f4")
            options: dict[str, Any] = {"compression": "gzip", "compression_opts": 1}
            file.create_dataset(f"large/{key}/a", data=data, chunks=(30_000,), **options)
    return path


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("group", ["small", "large"])
def test_readers_take_turns(tmp_path: Path, written: Path, driver: str, group: str) -> None:
    moves = []
    with spinning(tmp_path, queue_depth=1) as disk, h5py.File(written) as file:
        path = stored(disk, written)
        streamer = multitables.Streamer(path, rotational=True, **DRIVERS[driver])
        for n_procs in (1, 4):
            items = streamer.get_collection(f"/{group}/*/*", order="file", n_procs=n_procs)
            forget(path)
            disk.told()
            for item in items:
                for name, array in item.items():
                    np.testing.assert_array_equal(array, file[f"{group}/{item.key}/{name}"])
            moves.append(disk.told()["moved"])
            items.close()
    assert moves[1] <= 1.1 * moves[0] + 2


@pytest.mark.parametrize("driver", DRIVERS)
def test_nobody_waits_for_a_reader_that_died(tmp_path: Path, written: Path, driver: str) -> None:
    with spinning(tmp_path, pace=1.0, bytes_per_second=40e6) as disk, h5py.File(written) as file:
        path = stored(disk, written)
        forget(path)
        streamer = multitables.Streamer(path, rotational=True, **DRIVERS[driver])
        items = streamer.get_collection("/small/*/*", n_procs=3, epochs=2)
        came = 0
        for item in items:
            came += 1
            if came == 20:
                for pid in readers():
                    kill(pid)
            for name, array in item.items():
                np.testing.assert_array_equal(array, file[f"small/{item.key}/{name}"])
        assert came == 2 * 150
