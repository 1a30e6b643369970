"""Batches of the file whose rows say which they are, checked element by element."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from payload import COLUMNS

import multitables

SHUFFLES = [None, "chunks", "window", "full"]


def rows_of(batch: np.ndarray) -> np.ndarray:
    """Which rows a batch of /rows holds, every element checked."""
    rows = batch[:, 0] // COLUMNS
    np.testing.assert_array_equal(batch, rows[:, None] * COLUMNS + np.arange(COLUMNS))
    return np.asarray(rows)


def collected(batches: multitables.Batches) -> list[np.ndarray]:
    return [rows_of(batch) for batch in batches]


def batches_of(path: Path, size: int = 64, **options: Any) -> multitables.Batches:
    options = {"n_procs": 2, "window_rows": 300, **options}
    return multitables.Streamer(path).get_batches("/rows", size, **options)
