"""The file that ranks of a node stream."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from node_ranks import CHUNK, N_ROWS


@pytest.fixture(scope="session")
def rows_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.h5"
    with h5py.File(path, "w") as file:
        options = {"chunks": (CHUNK,), "compression": "gzip"}
        file.create_dataset("x", data=np.arange(N_ROWS, dtype="i8"), **options)
    return path
