"""Loaders of torch for tests, and what every test of them asks.

Law
---
1. Owns the way in which a test forks: with the warnings of libraries that would rather not be
   forked. Their threads are idle then, and the children do not use them.
2. A row of the numbered file says which row it is, so that any order of rows can be checked.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import payload
import pytest

FORKS = [
    pytest.mark.filterwarnings("ignore:This DataLoader will create"),  # more than there are cores
    pytest.mark.filterwarnings("ignore:os.fork"),  # JAX's
    pytest.mark.filterwarnings("ignore:.*use of fork"),  # Python's, from 3.12 on
    pytest.mark.filterwarnings("ignore:'set_vital' is deprecated"),  # torch's to torchdata
]


def loader(dataset: Any, processes: int = 0, kind: str = "DataLoader", **options: Any) -> Any:
    """A loader over batches that are ready, by forked processes."""
    import torch.utils.data

    options.setdefault("batch_size", None)
    if processes:
        options.setdefault("multiprocessing_context", "fork")
    if kind == "StatefulDataLoader":
        from torchdata.stateful_dataloader import StatefulDataLoader

        return StatefulDataLoader(dataset, num_workers=processes, **options)
    return torch.utils.data.DataLoader(dataset, num_workers=processes, **options)


def rows_of(batches: Iterable[Any]) -> np.ndarray:
    """The rows of /rows in the order of the batches; each is compared with its content."""
    found = [np.zeros(0, int)]
    for batch in batches:
        block = batch.numpy() if hasattr(batch, "numpy") else np.asarray(batch)
        numbers = block[:, 0] // payload.COLUMNS
        want = numbers[:, None] * payload.COLUMNS + np.arange(payload.COLUMNS)
        assert np.array_equal(block, want)
        found.append(numbers.copy())
    return np.concatenate(found)


def each_once(rows: np.ndarray, count: int = payload.ROWS) -> bool:
    """Whether these are all rows, each once."""
    return np.array_equal(np.sort(rows), np.arange(count))


def damaged(path: Path) -> Path:
    """A file whose chunk of rows 300:350 does not decode."""
    import h5py

    payload.write(path)
    with h5py.File(path) as file:
        chunk = file["rows"].id.get_chunk_info_by_coord((300, 0))
    with open(path, "r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(b"\xff" * 40)
    return path
