"""Every dataset of the table, read through every entry point, equals what its oracle reads.

1. `datasets_of_files` says what there is and who must read it; `entry_points` how it is read.
2. Each file is written once. Each test reads all datasets of a file through one entry point, by
   the same readers, and names all those that differ.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import datasets_filters  # noqa: F401 - adds its files to the table
import datasets_library  # noqa: F401
import datasets_pytables  # noqa: F401
import datasets_virtual  # noqa: F401
import h5py
import hdf5plugin
import numpy as np
import pytest
from datasets_of_files import FILES, WITHOUT_FALLBACK, Dataset, columns, create, prepared, write
from elements import any_type, smooth, values
from entry_points import ENTRY_POINTS, Rows, read_all
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import same

from _multitables import _core
from multitables import Reader

pytestmark = pytest.mark.filterwarnings("ignore::multitables.SlowFilterWarning")


CASES = [
    (file, name)
    for file, (name, entry) in itertools.product(FILES, ENTRY_POINTS.items())
    if not (entry.fallback and file in WITHOUT_FALLBACK)
]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Rows]]:
    """Name of a file -> the file, and its datasets with the rows that their oracles read."""

    @functools.lru_cache(maxsize=1)
    def written(name: str) -> tuple[Path, Rows]:
        path = tmp_path_factory.mktemp("formats") / "data.h5"
        return path, [(dataset, dataset.wanted(path)) for dataset in list(FILES[name](path))]

    return written


@pytest.mark.parametrize(("file", "name"), CASES)
def test_rows(stored: Callable[[str], tuple[Path, Rows]], file: str, name: str) -> None:
    read_all(*stored(file), name)


@pytest.mark.hang(180)
@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(any_type(), min_size=3, max_size=3),
    st.lists(st.integers(1, 9), min_size=1, max_size=2).map(tuple),
    st.sampled_from(["contiguous", "chunked", "compressed"]),
)
def test_any_type(h5: Path, dtypes: list[np.dtype], shape: tuple[int, ...], layout: str) -> None:
    """Arrays and compounds of any depth, and their columns."""
    how = prepared(layout, tuple(max(1, extent // 3) for extent in shape))
    table: list[Dataset] = []
    with h5py.File(h5, "w") as file:
        for number, dtype in enumerate(dtypes):
            made = write(create(file, f"{number}", dtype, shape, *how), values(dtype, shape))
            table += columns(replace(made, by=None), dtype)
    rows = [(dataset, dataset.wanted(h5)) for dataset in table]
    # A stream takes names with slashes between: none that has one itself, or means two columns.
    told = Counter((dataset.path, "/".join(dataset.field)) for dataset in table)
    clear = [
        (dataset, wanted)
        for dataset, wanted in rows
        if "/" not in "".join(dataset.field) and told[dataset.path, "/".join(dataset.field)] == 1
    ]
    for name in ("queue", "generator", "batches", "chunks", "window", "full"):
        read_all(h5, clear, name)
    for name in ("request", "fallback request"):
        read_all(h5, rows, name)


@pytest.mark.usefixtures("without_plugins")
@pytest.mark.parametrize("name", ["queue", "window", "request"])
def test_a_filter_that_only_turns_out_to_be_unknown(
    h5: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The core believes that it knows the filter; a library is asked then."""
    known = {**_core.native_filters(), hdf5plugin.Zfp.filter_id: "zfp"}
    monkeypatch.setattr(_core, "native_filters", lambda: known)
    with h5py.File(h5, "w") as file:
        how = hdf5plugin.Zfp(reversible=True)
        file.create_dataset("x", data=smooth((64, 4)), chunks=(8, 4), **how)
    read_all(h5, [(Dataset("/x", by=None), smooth((64, 4)))], name)
    with Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/x")
        same(reader.request(dataset[3:9], dataset.create_stage(64)).get(), smooth((64, 4))[3:9])
        assert reader.statistics()["library_requests"] == 1
