"""Columns in blocks of whole index values, of one table or of several.

1. The oracle is h5py's columns, cut where the index changes.
2. Ranks, and states of any ranks, leave nothing out and repeat nothing.
"""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import table_files
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import readers
from table_files import INDEX, SEQ, columns_of

import multitables
from multitables import OptionsError, Streamer

NAMES = ["calE", "nhit", "flat", "maps"]
GROUPS = {"rec.slc": NAMES, "rec.vtx": ["calE", "maps"], "spill": ["nhit"], "rec.empty": ["calE"]}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table_files.write(tmp_path_factory.mktemp("tables") / "tables.h5")


def same_group(block: Any, columns: Any, index: tuple[str, ...]) -> int:
    """Fail unless a block has its rows of the columns, and splits no value; return how many."""
    begin, end = block.rows
    for name, column in block.items():
        assert column.dtype == columns[name].dtype
        np.testing.assert_array_equal(column, columns[name][begin:end])
    assert block.offsets[0] == 0
    assert block.offsets[-1] == end - begin == block.n_rows
    for name, values in block.index_of_rows().items():
        np.testing.assert_array_equal(values, columns[name][begin:end])
    assert list(block.index) == list(index)
    for edge in (begin, end):
        if 0 < edge < len(columns["evt"]):
            assert any(columns[name][edge] != columns[name][edge - 1] for name in index)
    return end - begin


@pytest.mark.parametrize("index", [SEQ, INDEX])
@pytest.mark.parametrize("entries", [1, 50, 700, 10**9, None])
@pytest.mark.parametrize("driver", [{}, {"DRIVER": "H5FD_DIRECT"}], ids=["buffered", "direct"])
def test_one_group(tables: Path, index: Any, entries: int | None, driver: dict[str, Any]) -> None:
    columns = columns_of(tables, "rec.slc")
    streamer = Streamer(tables, **driver)
    with streamer.get_columns(
        "/rec.slc", NAMES, index=index, entries_per_block=entries, n_procs=2
    ) as blocks:
        at = n_blocks = 0
        for block in blocks:
            assert block.rows[0] == at
            rows = same_group(block, columns, blocks.index)
            at += rows
            n_blocks += 1
            assert rows <= (entries or 10**9) or len(block.offsets) == 2
        assert at == len(columns["evt"])
        assert len(blocks) == n_blocks
        chunks = sum(reader["chunks"] for reader in blocks.statistics()["readers"])
        with h5py.File(tables) as file:
            stored = [file["rec.slc"][name].id.get_num_chunks() for name in NAMES if name != "flat"]
        assert chunks <= sum(stored) + 2  # each once, and the pieces of what has none


@pytest.mark.parametrize("index", [SEQ, INDEX])
@pytest.mark.parametrize("entries", [1, 60, None])
def test_several_groups_have_the_same_values(tables: Path, index: Any, entries: Any) -> None:
    columns = {group: columns_of(tables, group) for group in GROUPS}
    blocks = Streamer(tables).get_columns(GROUPS, index=index, entries_per_block=entries, n_procs=1)
    at = dict.fromkeys(GROUPS, 0)
    for block in blocks:
        assert list(block) == list(GROUPS)
        for group, rows in block.items():
            assert list(rows) == GROUPS[group]
            assert rows.rows[0] == at[group]
            at[group] += same_group(rows, columns[group], blocks.index)
            for name in blocks.index:
                np.testing.assert_array_equal(rows.index[name], block.index[name])
    assert at == {group: len(columns[group]["evt"]) for group in GROUPS}


def test_all_columns_but_the_index_are_the_default(tables: Path) -> None:
    block = next(iter(Streamer(tables).get_columns("rec.vtx", index=INDEX, n_procs=1)))
    assert list(block) == sorted({*NAMES, SEQ})
    assert repr(block).startswith("<GroupBlock of rows 0:")
    assert len(block) == 5


def test_no_key_is_read_by_every_rank(tmp_path: Path) -> None:
    """Each decodes its own keys, and some to find where these begin."""
    path = table_files.write(tmp_path / "a.h5", n_events=100_000, chunk=2048)
    groups = {"rec.slc": ["calE"], "spill": ["nhit"]}
    with h5py.File(path) as file:
        chunks = sum(file[group][SEQ].id.get_num_chunks() for group in groups)
    read = []
    for rank in range(4):
        blocks = Streamer(path).get_columns(groups, index=SEQ, rank=rank, world_size=4, n_procs=1)
        list(blocks)
        read.append(blocks.statistics()["keys"]["chunks"])
    assert max(read) < 0.6 * chunks
    assert sum(read) < 2.2 * chunks


def test_keys_are_held_a_stretch_at_a_time(tables: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_multitables.parent.columns.key_unit.STRETCH_ROWS", 700)
    columns = {group: columns_of(tables, group) for group in GROUPS}
    with Streamer(tables) as streamer:
        blocks = streamer.get_columns(GROUPS, index=SEQ, entries_per_block=100, n_procs=1)
        n_blocks = len(blocks)
        at = dict.fromkeys(GROUPS, 0)
        for block in blocks:
            n_blocks -= 1
            for group, rows in block.items():
                assert rows.rows[0] == at[group]
                at[group] += same_group(rows, columns[group], (SEQ,))
    assert n_blocks == 0
    assert at == {group: len(columns[group]["evt"]) for group in GROUPS}


def test_views_stay_as_they_are(tables: Path) -> None:
    columns = columns_of(tables, "rec.slc")
    blocks = Streamer(tables).get_columns(
        "/rec.slc", NAMES, index=SEQ, entries_per_block=700, n_procs=1
    )
    kept = list(blocks)
    assert len(kept) > 1
    for block in kept:
        same_group(block, columns, (SEQ,))


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_ranks_have_whole_values_balanced_by_rows(tables: Path, world_size: int) -> None:
    columns = {group: columns_of(tables, group) for group in GROUPS}
    total = sum(len(one["evt"]) for one in columns.values())
    at = dict.fromkeys(GROUPS, 0)
    for rank in range(world_size):
        mine = 0
        blocks = Streamer(tables).get_columns(
            GROUPS, index=SEQ, n_procs=1, rank=rank, world_size=world_size, entries_per_block=300
        )
        for block in blocks:
            for group, rows in block.items():
                assert rows.rows[0] == at[group]
                at[group] += same_group(rows, columns[group], (SEQ,))
                mine += rows.n_rows
        assert abs(mine - total / world_size) < 60
    assert at == {group: len(columns[group]["evt"]) for group in GROUPS}


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(taken=st.integers(0, 9), ranks=st.integers(1, 3), ranks_then=st.integers(1, 3))
def test_states_go_on(tables: Path, taken: int, ranks: int, ranks_then: int) -> None:
    options: Any = {"index": SEQ, "entries_per_block": 80, "n_procs": 1}
    came: list[int] = []
    states = []
    for rank in range(ranks):
        blocks = Streamer(tables).get_columns(
            "rec.slc", ["nhit"], rank=rank, world_size=ranks, **options
        )
        for _, block in zip(range(taken), blocks, strict=False):
            came += block.index_of_rows()[SEQ].tolist()
        states.append(blocks.state_dict())
        blocks.close()
    for rank in range(ranks_then):
        blocks = Streamer(tables).get_columns(
            "rec.slc", ["nhit"], rank=rank, world_size=ranks_then, **options
        )
        blocks.load_state_dict(states)
        n_blocks = len(blocks)
        rest = list(blocks)
        assert len(rest) == n_blocks
        for block in rest:
            came += block.index_of_rows()[SEQ].tolist()
        blocks.close()
    assert sorted(came) == columns_of(tables, "rec.slc")[SEQ].tolist()


def test_one_state_goes_on_alone(tables: Path) -> None:
    blocks = Streamer(tables).get_columns(
        "spill", ["evt"], index=SEQ, entries_per_block=100, n_procs=1, rank=1, world_size=2
    )
    iterator = iter(blocks)
    first = next(iterator)["evt"].tolist()
    again = Streamer(tables).get_columns(
        "spill", ["evt"], index=SEQ, entries_per_block=100, n_procs=1, rank=1, world_size=2
    )
    again.load_state_dict(blocks.state_dict())
    rest = [value for block in again for value in block["evt"].tolist()]
    assert first + rest == columns_of(tables, "spill")["evt"][450:].tolist()
    end = again.state_dict()
    assert sum(block.n_rows for block in again) == 450
    again.load_state_dict(end)
    assert list(again) == []
    assert sum(block.n_rows for block in again) == 450
    del iterator


#: As version 3.0 saved it.
OLD_STATE = {
    "left": [[[300], [450]]],
    "rank": 0,
    "world_size": 2,
    "node": 1,
    "rows": {"spill": 900},
    "index": [SEQ],
}


def test_a_state_of_an_older_version_goes_on(tables: Path) -> None:
    blocks = Streamer(tables).get_columns("spill", ["evt"], index=SEQ, n_procs=1, world_size=2)
    blocks.load_state_dict(OLD_STATE)
    rest = [value for block in blocks for value in block["evt"].tolist()]
    assert rest == columns_of(tables, "spill")["evt"][300:450].tolist()


def test_epochs_and_states_between_them(tables: Path) -> None:
    options: Any = {"index": SEQ, "entries_per_block": 200, "n_procs": 1, "epochs": 2}
    expected = columns_of(tables, "spill")["evt"].tolist()
    blocks = Streamer(tables).get_columns("spill", ["evt"], start_epoch=3, **options)
    n_blocks = len(blocks)
    came: list[int] = []
    states = []
    for block in blocks:
        came += block["evt"].tolist()
        states.append((json.loads(json.dumps(blocks.state_dict())), len(came)))
    assert came == 2 * expected
    assert len(states) == n_blocks
    assert blocks.epoch == 5
    for state, taken in states[:: n_blocks // 2 - 1]:
        blocks.load_state_dict(state)
        assert [value for block in blocks for value in block["evt"].tolist()] == came[taken:]
        assert blocks.epoch == 5


def test_states_of_others_are_refused(tables: Path) -> None:
    blocks = Streamer(tables).get_columns("spill", ["evt"], index=SEQ, world_size=2)
    other = Streamer(tables).get_columns("rec.slc", ["evt"], index=SEQ)
    for state, match in [
        (other.state_dict(), "rows was"),
        ({**blocks.state_dict(), "rank": 1}, "not of all ranks"),
        ({**blocks.state_dict(), "world_size": 2**40}, "rank is out of range"),
        ({**blocks.state_dict(), "rank": "x"}, "damaged"),
        ({**blocks.state_dict(), "ranges": [[[2**70], [0]]]}, "damaged"),
        ({**blocks.state_dict(), "ranges": [[[float("inf")], [0]]]}, "damaged"),
        ({**OLD_STATE, "left": [[[2**70], [0]]]}, "damaged"),
        ({**OLD_STATE, "rank": 1}, "not of all ranks"),
        ({}, "not a state"),
        ("x", "not a state"),
        (3, "not a state"),
    ]:
        with pytest.raises(OptionsError, match=match):
            blocks.load_state_dict(state)


def test_readers_that_die_are_replaced(tables: Path) -> None:
    columns = columns_of(tables, "rec.slc")
    blocks = Streamer(tables).get_columns(
        "rec.slc", NAMES, index=SEQ, entries_per_block=20, n_procs=2
    )
    at = 0
    for number, block in enumerate(blocks):
        if number in (2, 9):
            os.kill(readers()[0], signal.SIGKILL)
        at += same_group(block, columns, (SEQ,))
    assert at == len(columns["evt"])


def test_a_group_may_have_no_columns_but_the_index(tables: Path) -> None:
    columns = columns_of(tables, "rec.vtx")
    blocks = Streamer(tables).get_columns({"spill": ["nhit"], "rec.vtx": []}, index=SEQ, n_procs=1)
    for block in blocks:
        assert dict(block["rec.vtx"]) == {}
        same_group(block["rec.vtx"], columns, (SEQ,))


def test_a_table_without_rows(tables: Path) -> None:
    blocks = Streamer(tables).get_columns("rec.empty", index=SEQ)
    assert len(blocks) == 0
    assert list(blocks) == []


def test_what_cannot_be_columns(tables: Path, tmp_path: Path) -> None:
    streamer = Streamer(tables)
    for error, match, given_options in [
        (OptionsError, "with one group", {"group": {"spill": ["evt"]}, "columns": ["evt"]}),
        (OptionsError, "with one group", {"group": {}}),
        (multitables.MissingDatasetError, "/nothing", {"group": "nothing"}),
        (multitables.MissingDatasetError, "/spill/none", {"group": "spill", "columns": ["none"]}),
        (multitables.UnsupportedDatasetError, "cannot be an index", {"index": "maps"}),
        (OptionsError, "entries_per_block", {"entries_per_block": 0}),
        (OptionsError, "rank is out of range", {"rank": 1}),
    ]:
        with pytest.raises(error, match=match):
            streamer.get_columns(**{"group": "rec.slc", "index": SEQ, **given_options})
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a/key"], file["a/x"] = [1, 2, 1], [1, 2, 3]
        file["b/key"], file["b/x"] = [1, 2, 3], [1, 2]
    odd = Streamer(tmp_path / "a.h5")
    rows = [block.rows for block in odd.get_columns("a", index="key", entries_per_block=1)]
    assert rows == [(0, 1), (1, 2), (2, 3)]
    with pytest.raises(multitables.UnsupportedDatasetError, match="differ in length"):
        odd.get_columns("b", index="key")
    with pytest.raises(multitables.UnsupportedDatasetError, match="row 2 of 'a/key'"):
        list(odd.get_columns({"a": ["x"], "b": []}, index="key"))
    blocks = streamer.get_columns("spill", index=SEQ)
    blocks.close()
    with pytest.raises(multitables.ClosedError):
        iter(blocks)


def test_damage_ends_the_stream(tmp_path: Path) -> None:
    path = table_files.write(tmp_path / "a.h5")
    with h5py.File(path) as file:
        chunk = file["rec.slc/calE"].id.get_chunk_info(5)
    with path.open("r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(b"\xff\x00\xff\x00")
    columns = columns_of_intact(path)
    blocks = Streamer(path).get_columns(
        "rec.slc", ["nhit", "calE"], index=SEQ, entries_per_block=50, n_procs=1
    )
    ends = []
    with pytest.raises(multitables.CorruptChunkError, match=r"/rec.slc/calE.*chunk \(640, 0\)"):
        ends += [same_rows(block, columns) for block in blocks]
    assert ends == []  # the list was never made
    iterator, end = iter(blocks), 0
    for _ in range(12):
        end = same_rows(next(iterator), columns)
    assert 500 < end <= 640


def same_rows(block: Any, column: np.ndarray) -> int:
    np.testing.assert_array_equal(block["nhit"], column[slice(*block.rows)])
    end: int = block.rows[1]
    return end


def columns_of_intact(path: Path) -> np.ndarray:
    with h5py.File(path) as file:
        return np.asarray(file["rec.slc/nhit"][:, 0])
