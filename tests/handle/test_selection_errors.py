"""An index that a dataset does not take: the error names the dataset, and is of h5py's type.

1. h5py is the oracle of the builtin type.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables

KEYS: list[Any] = [
    20, -21, (3, 7), (1, 2, 3), None, "name", (0, "a"), 1.5, [1, 2.5], {}, object, np.True_, [25],
    np.zeros(7, bool), np.zeros((20, 4), bool), (slice(3), [9]), (..., ...), slice(0, 5, 0),
]  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with h5py.File(tmp_path / "rows.h5", "w") as file:
        file["group/x"] = np.arange(100.0).reshape(20, 5)
        file["scalar"], file["null"] = 5.0, h5py.Empty("f4")
    return tmp_path / "rows.h5"


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_of_h5pys_type_with_the_place(path: Path, key: Any) -> None:
    with h5py.File(path) as theirs, multitables.open(path) as ours:
        with pytest.raises((IndexError, TypeError, ValueError)) as expected:
            theirs["group/x"][key]
        ways: list[Any] = [
            lambda dataset: dataset[key],
            lambda dataset: dataset.astype("f4")[key],
        ]
        if key is not None:  # which means everything there
            ways.append(lambda dataset: dataset.read_direct(np.zeros((20, 5)), key))
        for way in ways:
            with pytest.raises(multitables.SelectionError) as caught:
                way(ours["group/x"])
            error = caught.value
            assert isinstance(error, expected.type)
            where = f"('/group/x' in {str(path)!r} has the shape (20, 5))"
            assert str(error).endswith(f"{where}.")
            assert (error.path, error.filename) == ("/group/x", str(path))
            assert type(pickle.loads(pickle.dumps(error))) is type(error)


def test_scalars_and_null_dataspaces(path: Path) -> None:
    with multitables.open(path) as file:
        for name in ("scalar", "null"):
            with pytest.raises(multitables.SelectionValueError, match=rf"'/{name}' in "):
                file[name][0]


def test_errors_of_the_data_stay_what_they_are(path: Path) -> None:
    with multitables.open(path) as file:
        dataset = file["group/x"]
    with pytest.raises(multitables.ClosedError):
        dataset[None]
