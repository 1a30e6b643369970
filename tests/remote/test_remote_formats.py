"""Every dataset of the table, read from a store, equals what its oracle reads of the file.

Law
---
1. `datasets_of_files` lists the files; each is stored with the files beside it, which it may
   name.
2. What a library reads, it reads here, too, also where the core could. Only what HDF5 would need
   other objects for is refused.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import datasets_filters  # noqa: F401 - adds its files to the table
import datasets_library  # noqa: F401
import datasets_pytables  # noqa: F401
import datasets_virtual  # noqa: F401
import pytest
from datasets_of_files import FACES, FILES, WITHOUT_FALLBACK, Dataset
from entry_points import ENTRY_POINTS, read_all
from stored_copies import Copies

from multitables import UnsupportedDatasetError

pytestmark = pytest.mark.filterwarnings("ignore::multitables.SlowFilterWarning")
#: A source of another type, which only HDF5 converts.
CONVERTED = {"/converted"}
#: HDF5 would need raw files. Of columns, it reads elements that are arrays.
RAW = {"/external", "/nested"}
ENTRIES = ("queue", "fallback request")


@pytest.mark.parametrize("file", FILES)
def test_rows(copies: Copies, tmp_path: Path, file: str) -> None:
    path = tmp_path / "data.h5"
    rows = [(dataset, dataset.wanted(path)) for dataset in list(FILES[file](path))]
    url = copies.put_beside(path)
    for name in ENTRIES:
        by_library = ENTRY_POINTS[name].fallback
        if by_library and file in WITHOUT_FALLBACK:
            continue
        told = [(stored(file, one, by_library), wanted) for one, wanted in rows]
        told = [(one, wanted) for one, wanted in told if is_clear(file, one, wanted)]
        read_all(url, told, name, storage_options=copies.options)


def stored(file: str, dataset: Dataset, by_library: bool) -> Dataset:
    """The entry of a dataset, for a file in a store."""
    others = file.startswith("virtual") or is_raw(file, dataset)
    if dataset.path in CONVERTED or (by_library and others):
        return replace(dataset, refused=dict.fromkeys(FACES, UnsupportedDatasetError))
    return dataset


def is_raw(file: str, dataset: Dataset) -> bool:
    return file == "through_a_library" and dataset.path in RAW


def is_clear(file: str, dataset: Dataset, wanted: Any) -> bool:
    """Whether an entry does one thing: of no rows some ask a library, of raw columns all."""
    is_nothing = dataset.refused and wanted is not None and not wanted.size
    return not is_nothing and not (dataset.field and is_raw(file, dataset))
