"""Tables of which some members have no fixed size: a Reader has their other columns.

Law
---
1. The oracle is h5py: columns, and rows less the members that are left out.
2. What is left out is an error that says where it can be read, and that is true.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracle import same
from reader_cases import opened

import multitables

TEXT, NUMBERS = h5py.string_dtype(), h5py.vlen_dtype("<i4")
INNER = np.dtype([("b", "<f8"), ("text", TEXT)])
MEMBERS: dict[str, tuple[Any, ...]] = {
    "i": ("<i4",), "label": (TEXT,), "reference": (h5py.ref_dtype,),
    "region": (h5py.regionref_dtype,),
    "n": (INNER,), "several": (INNER, (2,)), "fixed": ("S5",), "rows": (NUMBERS,),
    "big": (">u2", (3,)), "only text": (np.dtype([("t", TEXT)]),),
}  # fmt: skip
#: The members of fixed size, and what is left of each.
LEFT = {"i": None, "n": ["b"], "several": ["b"], "fixed": None, "big": None}
OPEN = r"multitables\.open"
FILTERS: dict[str, dict[str, Any]] = {
    "contiguous": {}, "chunked": {"chunks": (3,), "compression": "gzip", "shuffle": True},
}  # fmt: skip


def filled(names: list[str], n_rows: int = 8) -> np.ndarray:
    """Rows in which no value is another's."""
    table = np.zeros(n_rows, [(name, *MEMBERS[name]) for name in names])
    for at, name in enumerate(names):
        for row in range(n_rows):
            number = 10 * row + at
            values: dict[str, Any] = {
                "label": f"label {number}", "reference": h5py.Reference(),
                "region": h5py.RegionReference(), "n": (number / 4, f"n{number}"),
                "several": [(number / 4, "x"), (-number / 4, f"y{number}")],
                "fixed": b"%d" % number, "rows": np.arange(row), "big": [number] * 3,
                "only text": (f"only {number}",),
            }  # fmt: skip
            table[name][row] = values.get(name, number)
    return table


def less(table: np.ndarray, name: str) -> np.ndarray:
    """The column, less what is left out of it."""
    names, column = LEFT[name], table[name]
    return column if names is None else column[names]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mixed") / "data.h5"
    with h5py.File(path, "w") as file:
        for name, options in FILTERS.items():
            file.create_dataset(name, data=filled([*MEMBERS]), **options)
        file["nothing"] = filled(["label", "only text"])
        file["texts"] = ["a", "b"]
    return path


@pytest.fixture
def reader(path: Path) -> Iterator[Any]:
    with opened(path) as reader:
        yield reader


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("key", [slice(None), slice(6, 1, -2), 5, [4, 0, 4]], ids=repr)
def test_columns(reader: Any, name: str, key: Any) -> None:
    table, dataset = filled([*MEMBERS]), reader.get_dataset(name)
    assert isinstance(dataset, multitables.TableDataset)
    assert dataset.dtype.names == tuple(LEFT)
    rows = reader.request(dataset[key]).get()
    for column in LEFT:
        want = less(table, column)[key]
        for got in (
            rows[column], reader.request(dataset[column][key]).get(),
            reader.request(dataset[key][column]).get(),
        ):  # fmt: skip
            assert got.tolist() == want.tolist(), column
    same(reader.request(dataset["n/b"][key]).get(), table["n"]["b"][key])
    got = reader.request(dataset[key][["i", "fixed"]]).get()
    assert got.tolist() == table[key][["i", "fixed"]].tolist()


def test_what_is_left_out(path: Path, reader: Any) -> None:
    dataset, stage = reader.get_dataset("chunked"), reader.get_dataset("chunked").create_stage(2)
    for column in ("label", "reference", "rows", "n/text", "only text"):
        with pytest.raises(multitables.MissingFieldError, match=OPEN) as e:
            reader.request(dataset[column][:2]).get()
        assert "of a fixed size" in str(e.value)
    assert reader.request(dataset[:2], stage).get()["i"].tolist() == [0, 10]
    stage.close()
    for name in ("nothing", "texts"):
        with pytest.raises(multitables.UnsupportedDatasetError, match=OPEN) as e:
            reader.get_dataset(name)
        assert "field=" not in str(e.value)  # no field can be taken
    with pytest.raises(multitables.UnsupportedDatasetError, match="field='i', or "):
        multitables.Streamer(path).get_queue("chunked")
    with multitables.open(path) as file:  # as the advice says
        assert file["nothing"]["label"][1] == b"label 10"
        assert file["texts"].asstr()[:].tolist() == ["a", "b"]
        assert file["chunked"]["label"][2] == b"label 21"


@settings(max_examples=15)
@given(names=st.permutations([*MEMBERS]), count=st.integers(1, len(MEMBERS)))
def test_any_members(
    tmp_path_factory: pytest.TempPathFactory, names: list[str], count: int
) -> None:
    names = names[:count]
    path = tmp_path_factory.mktemp("any") / "data.h5"
    with h5py.File(path, "w") as file:
        file["table"] = table = filled(names)
    left = [name for name in names if name in LEFT]
    with multitables.Reader(path, n_procs=1) as reader:
        if not left:
            with pytest.raises(multitables.UnsupportedDatasetError):
                reader.get_dataset("table")
            return
        rows = reader.request(reader.get_dataset("table")[:]).get()
    assert rows.dtype.names == tuple(left)
    for name in left:
        assert rows[name].tolist() == less(table, name).tolist()
