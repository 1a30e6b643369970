"""anndata reads files that `multitables.open` opened, with the values that it reads by h5py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

anndata = pytest.importorskip("anndata")

import pandas as pd  # noqa: E402 - anndata brings it
import scipy.sparse  # noqa: E402

import multitables  # noqa: E402 - anndata may be missing

pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, random = tmp_path_factory.mktemp("anndata") / "cells.h5ad", np.random.default_rng(0)
    names = [f"cell {number}" for number in range(60)]
    obs = pd.DataFrame(
        {
            "kind": pd.Categorical(random.choice(list("abc"), 60)),
            "depth": random.random(60),
            "text": [f"x{number % 7}" for number in range(60)],
            "count": pd.array([1, None] * 30, dtype="Int64"),
        },
        index=names,
    )
    var = pd.DataFrame(index=[f"gene {number}" for number in range(20)])
    cells = anndata.AnnData(scipy.sparse.random(60, 20, 0.1, "csr", "f4"), obs, var)
    cells.layers["dense"] = random.random((60, 20))
    cells.layers["columns"] = scipy.sparse.random(60, 20, 0.1, "csc")
    cells.uns["more"] = {"numbers": np.arange(3), "text": "text", "number": 3.5, "list": ["a"]}
    cells.raw = cells
    cells.write_h5ad(path, compression="gzip")
    return path


def compare(got: Any, want: Any) -> None:
    assert type(got) is type(want)
    if isinstance(got, dict):
        assert got.keys() == want.keys()
        for name in got:
            compare(got[name], want[name])
    elif isinstance(got, anndata.AnnData):
        parts = ("X", "obs", "var", "raw")
        for part in parts:
            compare(getattr(got, part), getattr(want, part))
        for part in ("layers", "uns"):
            compare(dict(getattr(got, part)), dict(getattr(want, part)))
    elif isinstance(got, pd.DataFrame):
        pd.testing.assert_frame_equal(got, want)
    elif scipy.sparse.issparse(got):
        assert (got != want).nnz == 0
    elif type(got).__name__ == "Raw":
        compare(got.X, want.X)
    else:
        assert np.array_equal(got, want)


def test_elements_are_read(path: Path) -> None:
    with multitables.open(path) as ours, h5py.File(path) as theirs:
        for name in ("X", "obs", "var", "uns", "layers", "layers/dense", "raw", "/"):
            compare(anndata.io.read_elem(ours[name]), anndata.io.read_elem(theirs[name]))
        rows = anndata.io.sparse_dataset(ours["X"])[[3, 9, 1]]
        compare(rows, anndata.io.sparse_dataset(theirs["X"])[[3, 9, 1]])


def test_read_h5ad_takes_the_file_and_the_swapped_line(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    want = anndata.read_h5ad(path)
    with multitables.open(path) as ours:
        compare(anndata.read_h5ad(ours), want)
    with monkeypatch.context() as patch:
        patch.setattr(h5py, "File", multitables.open)
        compare(anndata.read_h5ad(path), want)


def test_lazy_elements_are_read(path: Path) -> None:
    dask = pytest.importorskip("dask")
    pytest.importorskip("xarray")
    in_this_thread = dask.config.set(scheduler="synchronous")
    with in_this_thread, multitables.open(path) as ours, h5py.File(path) as theirs:
        got, want = (anndata.experimental.read_lazy(file) for file in (ours, theirs))
        compare(got.to_memory(), want.to_memory())
        dense = anndata.experimental.read_elem_lazy(ours["layers/dense"])
        assert np.array_equal(dense.compute(), theirs["layers/dense"][:])
