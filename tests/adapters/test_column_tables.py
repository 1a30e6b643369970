"""Blocks of columns as tables of pandas, Arrow and Polars."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import table_files
from table_files import INDEX, SEQ, columns_of

from multitables import Streamer

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
