"""Blocks of columns as tables of pandas, Arrow and Polars."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
import table_files
from table_files import INDEX, SEQ, columns_of

from multitables import Streamer, UnsupportedDatasetError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

NAMES = ["calE", "nhit", "flat", "maps"]
GROUPS = {"rec.slc": NAMES, "spill": ["nhit"], "rec.empty": ["calE"]}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table_files.write(tmp_path_factory.mktemp("tables") / "tables.h5")


def test_tables_of_other_libraries(tables: Path) -> None:
    columns = columns_of(tables, "rec.slc")
    blocks = Streamer(tables).get_columns("rec.slc", NAMES, index=INDEX, n_procs=1)
    frame = pd.concat([block.to_pandas() for block in blocks])
    assert list(frame.index.names) == list(INDEX)
    np.testing.assert_array_equal(frame["calE"], columns["calE"])
    np.testing.assert_array_equal(frame.index.get_level_values("evt"), columns["evt"])
    np.testing.assert_array_equal(np.stack(frame["maps"]), columns["maps"])
    block = next(iter(Streamer(tables).get_columns(GROUPS, index=SEQ, n_procs=1)))
    assert block.to_pandas()["spill"].index.name == SEQ
    assert len(block.to_pandas()["rec.empty"]) == 0


def test_arrow(tables: Path) -> None:
    columns = columns_of(tables, "rec.slc")
    blocks = Streamer(tables).get_columns("rec.slc", NAMES, index=SEQ, n_procs=1)
    (block,) = blocks
    table = block.to_arrow()
    assert table.column_names == [SEQ, *NAMES]
    np.testing.assert_array_equal(table["calE"].to_numpy(), columns["calE"])
    np.testing.assert_array_equal(table[SEQ].to_numpy(), columns[SEQ])
    assert table["maps"].to_pylist() == columns["maps"].tolist()
    frame = block.to_polars()
    assert isinstance(frame, pl.DataFrame)
    np.testing.assert_array_equal(frame["nhit"].to_numpy(), columns["nhit"])


def test_members_of_a_table(tmp_path: Path) -> None:
    """Its columns are no arrays of their own, but parts of its rows."""
    table = np.zeros(40, [("evt", "i8"), ("x", ">f4"), ("v", "i2", (3,)), ("sub", [("a", "i4")])])
    table["evt"], table["x"] = np.arange(40) // 3, np.arange(40) / 2
    table["v"] = np.arange(120).reshape(40, 3)
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["t"] = table
    streamer = Streamer(tmp_path / "a.h5")
    (block,) = streamer.get_columns("t", ["x", "v"], index="evt", n_procs=1)
    frame = block.to_pandas()
    np.testing.assert_array_equal(frame["x"], table["x"])
    np.testing.assert_array_equal(np.stack(frame["v"]), table["v"])
    assert block.to_arrow()["v"].to_pylist() == table["v"].tolist()
    np.testing.assert_array_equal(block.to_polars()["x"].to_numpy(), table["x"])
    (block,) = streamer.get_columns("t", index="evt", n_procs=1)
    assert block.to_arrow()["sub"].to_pylist() == [{"a": 0}] * 40
    assert block.to_polars()["sub"].to_list() == [{"a": 0}] * 40
    with pytest.raises(UnsupportedDatasetError, match=r"'sub' has columns .*'sub/a'"):
        block.to_pandas()
