"""Ragged rows in the adapters: tensors of torch, and refusals by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ragged_files import N_COLUMNS, write_sparse

import multitables
from multitables import Ragged

FLAT = Ragged("/X/data", "/X/indptr")
X = Ragged("/X/data", "/X/indptr", indices="/X/indices", n_columns=N_COLUMNS)


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support")
def test_torch(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    rows = write_sparse(tmp_path / "a.h5")
    data = multitables.TorchDataset(
        tmp_path / "a.h5", (X, FLAT, "/label"), 32, shuffle=True, n_procs=1
    )
    for matrix, nested, label in data:
        assert matrix.layout == torch.sparse_csr
        assert matrix.shape == (len(label), N_COLUMNS)
        for row, at in zip(nested.unbind(), label.tolist(), strict=True):
            np.testing.assert_array_equal(row.numpy(), rows[at][0])
    data.close()


def test_what_takes_equal_rows_only(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write_sparse(tmp_path / "a.h5")
    rows = multitables.TorchMapDataset(tmp_path / "a.h5", FLAT)
    with pytest.raises(multitables.UnsupportedDatasetError, match="different lengths"):
        len(rows)


def test_jax(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    write_sparse(tmp_path / "a.h5")
    with (
        multitables.jax_batches(tmp_path / "a.h5", FLAT, 32, n_procs=1) as batches,
        pytest.raises(multitables.UnsupportedDatasetError, match="different lengths"),
    ):
        list(batches)
