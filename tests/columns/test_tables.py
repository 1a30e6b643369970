"""Columns of tables, and of groups that have texts.

1. h5py's fields are the oracle. A table is decoded once if all its members can be streamed.
2. What no block of columns has is refused, with the columns that can be named.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables
from multitables import Streamer, UnsupportedDatasetError

DTYPE = np.dtype(
    [
        ("run", "<u4"),
        ("x", ">f4"),
        ("evt", "<i8"),
        ("v", "<f4", (3,)),
        ("flag", "?"),
        ("name", "S5"),
        ("sub", [("a", "<i2"), ("b", "<f8")]),
        ("one", "<i4", (1,)),
    ]
)
#: A table with a member that has no fixed size, and its members that can be columns.
TEXTS = np.dtype([("evt", "<i8"), ("text", h5py.string_dtype()), ("x", "<f4"), ("y", "<f8")])
ROWS = 700


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("columns") / "a.h5"
    rng = np.random.default_rng(3)
    with h5py.File(path, "w") as file:
        for name, rows in (("t", ROWS), ("few", 90)):
            table = np.zeros(rows, DTYPE)
            table["evt"] = np.sort(rng.integers(0, 200, rows))
            table["run"] = table["evt"] // 50
            for member in ("x", "v", "one"):
                table[member] = rng.integers(0, 99, table[member].shape)
            table["name"], table["flag"] = table["run"].astype("S"), table["evt"] % 3 == 0
            table["sub"]["b"] = table["evt"] / 7
            file.create_dataset(f"g/{name}", data=table, chunks=(64,), compression="gzip")
        table = np.zeros(ROWS, TEXTS)
        table["evt"] = file["g/t"]["evt"]
        table["text"], table["x"] = "text", np.arange(ROWS)
        file.create_dataset("texts", data=table, chunks=(50,))
        file["group/evt"], file["group/x"] = table["evt"], table["x"]
        file.create_dataset("group/text", data=["a"] * ROWS, dtype=h5py.string_dtype())
        file.create_dataset("group/rows", (ROWS,), h5py.vlen_dtype("i4"))
        file.create_dataset("none", (0,), DTYPE)
        file["numbers"] = np.arange(5)
    return path


def check(path: Path, blocks: Any, group: str, names: list[str], index: tuple[str, ...]) -> int:
    """Fail unless blocks have all rows of these columns; return how many blocks there are."""
    with h5py.File(path) as file:
        table = file[group][()]
    at = n_blocks = 0
    for block in blocks:
        n_blocks += 1
        begin, end = block.rows
        assert begin == at
        assert list(block) == names
        for name in names:
            expected = table
            for part in name.split("/"):
                expected = expected[part]
            expected = expected[begin:end]
            if expected.shape[1:] == (1,):
                expected = expected[:, 0]
            assert block[name].dtype == expected.dtype
            np.testing.assert_array_equal(block[name], expected)
        for name in index:
            np.testing.assert_array_equal(block.index_of_rows()[name], table[name][begin:end])
        if 0 < end < len(table):
            assert any(table[name][end] != table[name][end - 1] for name in index)
        at = end
    assert at == len(table)
    return n_blocks


@pytest.mark.parametrize("index", [("evt",), ("run", "evt"), ("name",)])
@pytest.mark.parametrize(
    "columns", [None, ["x"], ["x", "v"], ["evt", "sub/b", "x"], ["sub/a"], ["x", "evt"], ["one"]]
)
@pytest.mark.parametrize("entries", [None, 30])
def test_members_are_columns(
    tables: Path, index: tuple[str, ...], columns: list[str] | None, entries: int | None
) -> None:
    blocks = Streamer(tables).get_columns(
        "g/t", columns, index=index, entries_per_block=entries, n_procs=2
    )
    names = [name for name in DTYPE.names or () if name not in index]
    check(tables, blocks, "g/t", columns or names, index)


def test_each_chunk_is_decoded_once(tables: Path) -> None:
    blocks = Streamer(tables).get_columns("g/t", ["x", "v", "flag"], index="evt", n_procs=1)
    check(tables, blocks, "g/t", ["x", "v", "flag"], ("evt",))
    assert sum(one["chunks"] for one in blocks.statistics()["readers"]) == -(-ROWS // 64)


def test_ranks_and_states(tables: Path) -> None:
    with h5py.File(tables) as file:
        x = file["g/t"]["x"]
    seen = []
    for rank in range(3):
        given: dict[str, Any] = {"index": "evt", "entries_per_block": 20, "n_procs": 1}
        given |= {"rank": rank, "world_size": 3}
        blocks = Streamer(tables).get_columns("g/t", **given)
        loop = iter(blocks)
        seen += [next(loop)["x"].copy() for _ in range(2)]
        state = blocks.state_dict()
        again = Streamer(tables).get_columns("g/t", **given)
        again.load_state_dict(state)
        seen += [block["x"].copy() for block in again]
        blocks.close()
    np.testing.assert_array_equal(np.concatenate(seen), x)


def test_tables_beside_groups(tables: Path) -> None:
    wanted = {"g/t": ["x", "v"], "group": ["x"], "g/few": None, "none": ["x"]}
    with h5py.File(tables) as file:
        events = {name: file[name]["evt"][()] for name in wanted}
        columns = {name: file[name]["x"][()] for name in wanted}
    at = dict.fromkeys(wanted, 0)
    blocks = Streamer(tables).get_columns(wanted, index="evt", entries_per_block=40, n_procs=2)
    for block in blocks:
        for name, rows in block.items():
            begin, end = rows.rows
            assert begin == at[name]
            np.testing.assert_array_equal(rows["x"], columns[name][begin:end])
            np.testing.assert_array_equal(rows.index_of_rows()["evt"], events[name][begin:end])
            at[name] = end
    assert at == {name: len(rows) for name, rows in events.items()}


def test_several_files_of_tables(tables: Path, tmp_path: Path) -> None:
    with h5py.File(tables) as file:
        table = file["g/t"][()]
    names = []
    for number, part in enumerate(np.split(table, [100, 100, 350])):
        names.append(str(tmp_path / f"{number}.h5"))
        with h5py.File(names[-1], "w") as file:
            file.create_dataset("g/t", data=part, chunks=(64,), maxshape=(None,))
    blocks = Streamer(names).get_columns("g/t", ["x", "v"], index="evt", entries_per_block=30)
    check(tables, blocks, "g/t", ["x", "v"], ("evt",))


def test_a_table_with_texts_has_its_other_columns(tables: Path) -> None:
    streamer = Streamer(tables)
    for columns in (["x"], ["y", "x"]):
        blocks = streamer.get_columns("texts", columns, index="evt", n_procs=1)
        check(tables, blocks, "texts", columns, ("evt",))


@pytest.mark.parametrize("columns", [None, ["x", "text"], ["text"]])
@pytest.mark.parametrize("group", ["texts", "group"])
def test_advice_that_can_be_followed(tables: Path, group: str, columns: list[str] | None) -> None:
    streamer = Streamer(tables)
    with pytest.raises(UnsupportedDatasetError, match=f"'/{group}.*variable-length") as caught:
        streamer.get_columns(group, columns, index="evt")
    if columns == ["text"]:
        assert caught.value.advice == "Name another group"
        return
    names = ["x", "y"] if columns is None and group == "texts" else ["x"]
    assert caught.value.advice == f"Name the others: columns={names!r}"
    blocks = streamer.get_columns(group, names, index="evt", n_procs=1)
    if group == "texts":
        check(tables, blocks, group, names, ("evt",))
    else:
        assert sum(block.n_rows for block in blocks) == ROWS
    with pytest.raises(UnsupportedDatasetError, match=f"Name the others of '{group}': ") as caught:
        streamer.get_columns({"g/t": ["x"], group: columns}, index="evt")


def test_what_is_no_table(tables: Path) -> None:
    streamer = Streamer(tables)
    for error, match, given in [
        (UnsupportedDatasetError, "'/numbers' .* has no columns", {"group": "numbers"}),
        (multitables.MissingFieldError, "no field 'z'", {"columns": ["x", "z"]}),
        (multitables.MissingFieldError, "no field 'z'", {"index": "z"}),
        (UnsupportedDatasetError, "cannot be an index", {"index": "v"}),
    ]:
        with pytest.raises(error, match=match):
            streamer.get_columns(**{"group": "g/t", "index": "evt", **given})
