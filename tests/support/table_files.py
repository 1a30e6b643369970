"""Files of many tables, as particle physics writes them: a group per table, a dataset per column.

Law
---
1. Every table has the index columns and ``evt.seq``, sorted, each value as often as it has rows.
2. What h5py reads is the oracle; `rows_of` says which rows have a value.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

INDEX = ("run", "subrun", "evt")
SEQ = "evt.seq"
TABLES = ("rec.slc", "rec.vtx", "rec.empty", "spill")


def write(path: Path, n_events: int = 900, chunk: int = 128, seed: int = 1) -> Path:
    """Tables with 0, 1 or several rows for an event; of `rec.empty` none."""
    rng = np.random.default_rng(seed)
    runs = np.sort(rng.integers(1, 5, n_events)).astype("u4")
    subruns = np.zeros(n_events, "u4")
    events = np.arange(n_events, dtype="u4") * 3 + 7
    counts = {
        "spill": np.ones(n_events, int),
        "rec.slc": rng.poisson(2.0, n_events),
        "rec.vtx": rng.poisson(0.3, n_events) * rng.integers(1, 9, n_events),
        "rec.empty": np.zeros(n_events, int),
    }
    with h5py.File(path, "w", libver="latest") as file:
        for table, count in counts.items():
            group, n_rows = file.create_group(table), int(count.sum())
            columns: dict[str, Any] = {
                "run": np.repeat(runs, count),
                "subrun": np.repeat(subruns, count),
                "evt": np.repeat(events, count),
                SEQ: np.repeat(np.arange(n_events, dtype="i8"), count),
                "calE": rng.random(n_rows).astype("f4"),
                "nhit": rng.integers(0, 99, n_rows).astype("u2"),
            }
            for name, column in columns.items():
                group.create_dataset(
                    name,
                    data=column[:, None],
                    chunks=(chunk, 1),
                    maxshape=(None, 1),
                    compression="gzip",
                    compression_opts=6,
                    shuffle=name == SEQ,
                )
            group.create_dataset("flat", data=np.arange(n_rows) * 1.5)
            maps = rng.integers(0, 9, (n_rows, 16)).astype("u1")
            group.create_dataset("maps", data=maps, chunks=(chunk, 16), maxshape=(None, 16))
    return path


def columns_of(path: Path, table: str) -> Mapping[str, np.ndarray]:
    """All columns of a table, as h5py reads them, of shape (n,) if they have one axis."""
    with h5py.File(path) as file:
        found = {name: data[()] for name, data in file[table].items()}
    return {n: c.reshape(-1) if c.shape[1:] == (1,) else c for n, c in found.items()}
