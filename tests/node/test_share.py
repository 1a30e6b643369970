"""Ranks of a node that share readers: their rows, the chunks they decode, and how they end.

1. All ranks together get every row once, each its own; a chunk is decoded once for all of them.
2. Ranks, readers and the host may be killed at any time; nothing hangs, and nothing stays.
"""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import shot_files
import table_files
from node_ranks import CHUNK, N_ROWS, Ranks, batches, rows_of
from processes import children, run_script

import multitables
from _multitables.index.joined.kept_source import KeptSource
from _multitables.parent.node import plans
from _multitables.parent.stream.open_stream import DataSpec, encoded_plan, open_data
from _multitables.plan.casts import check_casts
from _multitables.plan.stream_plan import plan_reads

TABLES = {"rec.slc": ["nhit"], "rec.vtx": ["nhit"]}


def columns(path: Path, **options: Any) -> dict[str, Any]:
    given = {"group": TABLES, "index": table_files.SEQ, "n_procs": 1, "entries_per_block": 50}
    return {"kind": "columns", "filename": str(path), "options": {**given, **options}}


@pytest.mark.parametrize("shuffle", [None, "chunks", "window", "full"])
def test_batches(rows_file: Path, shuffle: str | None) -> None:
    ranks = Ranks(3, batches(rows_file, shuffle=shuffle, seed=3, epochs=2))
    found = ranks.end()
    for lines in found:
        assert rows_of(lines) == [row for epoch in lines[-1]["order"] for row in epoch]
    for epoch in range(2):
        rows = [row for lines in found for row in lines[-1]["order"][epoch]]
        assert sorted(rows) == list(range(N_ROWS))
    if shuffle != "full":
        told = [lines[-1]["told"]["readers"][0]["chunks"] for lines in found]
        assert max(told) <= 2 * N_ROWS // CHUNK


def test_the_host_imports_little() -> None:
    """Ranks wait for it."""
    done = run_script(
        "import sys, _multitables.parent.node.host\n"
        "print(sorted({'numpy', 'h5py', 'tables'} & sys.modules.keys()))"
    )
    assert done.stdout == "[]\n"


def test_a_rank_may_get_nothing(rows_file: Path) -> None:
    found = Ranks(3, batches(rows_file, batch_size=2000, epochs=2)).end()
    assert [len(rows_of(lines)) for lines in found] == [4000, 2000, 0]


def test_one_rank_opens_and_one_plans(rows_file: Path) -> None:
    """Each of two loops is one stream, whichever rank has planned it."""
    found = Ranks(3, {**batches(rows_file, shuffle="window", epochs=2), "loops": 2}).end()
    done = [lines[-1]["done"] for lines in found]
    assert sum(one.get("data_in", 0) for one in done) == 1
    assert sum(one.get("plan_batches", 0) for one in done) == 2
    rows = [row for lines in found for row in rows_of(lines)]
    assert sorted(rows) == sorted([*range(N_ROWS)] * 4)


@pytest.mark.parametrize("name", ["data_in", "plan_batches"])
def test_a_rank_that_dies_while_it_plans(rows_file: Path, tmp_path: Path, name: str) -> None:
    """Another one plans then, and gets its rows."""
    found = Ranks(2, {**batches(rows_file), "die": {name: str(tmp_path / "died")}}).end()
    (lines,) = filter(None, found)
    assert rows_of(lines) == lines[-1]["order"][0]


def test_what_one_rank_opens_is_whole_in_the_others(tmp_path: Path) -> None:
    """Joined, virtual and typed data, and files that are left out."""
    kind = h5py.enum_dtype({"A": 1, "B": 2}, "u1")
    names = [tmp_path / f"{number}.h5" for number in range(3)]
    for path in names[:2]:
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=np.arange(40).reshape(20, 2), chunks=(5, 2))
            file.create_dataset("k", data=np.ones(20, "u1"), dtype=kind, fillvalue=2)
            file["s"] = np.array([b"ab"] * 20, h5py.string_dtype("ascii", 2))
            layout = h5py.VirtualLayout((20, 2), "i8")
            layout[:] = h5py.VirtualSource(file["x"])
            file.create_virtual_dataset("v", layout)
    names[2].write_bytes(b"no HDF5")
    source = KeptSource(names, {}, keeps=False, skip_missing=True)
    paths = {name: name for name in "xksv"}
    casts = check_casts(paths, {"v": "f2"}, {"x": ((1, 2), 3)})
    with pytest.warns(multitables.MissingFileWarning):
        opened = open_data(DataSpec(source, paths, casts=casts))
    data = plans.encode(b"1", plans.of_opened(opened))
    again = plans.opened_of(plans.decode(data, b"1"), opened.structure)
    assert plans.encode(b"1", plans.of_opened(again)) == data
    (missing,) = again.missing_files.values()
    assert type(missing) is type(*opened.missing_files.values())
    assert str(missing) == str(*opened.missing_files.values())
    for one, other in zip(opened.indexes, again.indexes, strict=True):
        assert other.dtype == one.dtype
        assert other.dtype.metadata == one.dtype.metadata
        assert repr(other) == repr(one)
    facts = {"block_rows": 7, "n_readers": 2, **opened.facts()}
    plan, twin = (plan_reads(one.indexes, **facts) for one in (opened, again))
    assert encoded_plan(twin, again) == encoded_plan(plan, opened)
    (sent,) = plans.decode(plans.encode(b"", (plan,), opened.indexes), b"", again.indexes)
    assert encoded_plan(sent, again) == encoded_plan(plan, opened)
    assert sent.datasets[0].index is again.indexes[0]
    with pytest.raises(multitables.OptionsError, match="other data"):
        plans.decode(data, b"2")
    for damaged in (data[:40], b"", data.replace(b"Fingerprint", b"FingerOther")):
        with pytest.raises(ValueError, match=r"no value|JSON|Expecting|Unterminated"):
            plans.decode(damaged, b"1")


def test_files_that_are_joined_as_columns_are_whole_in_the_others(tmp_path: Path) -> None:
    names = [tmp_path / f"{number}.h5" for number in range(3)]
    for number, path in enumerate(names):
        with h5py.File(path, "w") as file:
            file.create_dataset("x", data=np.arange(10 * number), chunks=(5,), maxshape=(None,))
    opened = open_data(DataSpec(KeptSource(names, {}, keeps=False), {"x": "x"}))
    data = plans.encode(b"1", plans.of_opened(opened))
    again = plans.opened_of(plans.decode(data, b"1"), opened.structure)
    assert plans.encode(b"1", plans.of_opened(again)) == data
    (one,), (other,) = opened.indexes, again.indexes
    assert one.members.files is not None
    assert [*map(repr, other.members)] == [*map(repr, one.members)]
    assert other.filenames == one.filenames == [*map(str, names)]


def test_even_ranks(rows_file: Path) -> None:
    found = Ranks(3, batches(rows_file, batch_size=70, even=True, drop_last=True)).end()
    assert [len(rows_of(lines)) for lines in found] == [980, 980, 980]


def test_one_loop_after_the_other(rows_file: Path) -> None:
    """The ring of one loop goes on in the next."""
    found = Ranks(2, {**batches(rows_file, shuffle="window"), "loops": 3}).end()
    first = [rows_of(lines[: len(lines) // 3]) for lines in found]
    assert sorted(first[0] + first[1]) == list(range(N_ROWS))
    assert sum(len(rows_of(lines)) for lines in found) == 3 * N_ROWS


@pytest.mark.parametrize("then", [2, 3])
def test_states_of_batches_go_on(rows_file: Path, then: int) -> None:
    wanted = batches(rows_file, shuffle="window", seed=1)
    begun = Ranks(2, {**wanted, "leave": 5}).end()
    states = [lines[-1]["state"] for lines in begun]
    rest = Ranks(then, {**wanted, "states": states}).end()
    rows = [row for lines in begun + rest for row in rows_of(lines)]
    assert sorted(rows) == list(range(N_ROWS))


def test_a_rank_that_is_killed_is_gone_on_without(rows_file: Path) -> None:
    wanted = {**batches(rows_file, shuffle="window", epochs=8), "pause": 0.01}
    ranks = Ranks(2, wanted)
    ranks.wait_for(1, 5)
    ranks.kill(1)
    lines = ranks.end()[0]
    assert rows_of(lines) == [row for epoch in lines[-1]["order"] for row in epoch]


def test_what_a_rank_holds_stays_when_it_has_left(rows_file: Path) -> None:
    wanted = batches(rows_file, shuffle="window", epochs=30)
    ranks = Ranks(2, wanted, {"leave": 4, "hold": 1.0})
    held, other = ranks.end()
    assert [line["held"] for line in held if "held" in line] == [True]
    assert rows_of(other) == [row for epoch in other[-1]["order"] for row in epoch]


def test_readers_that_are_killed_are_replaced(rows_file: Path) -> None:
    wanted = {**batches(rows_file, shuffle="window", epochs=8, n_procs=2), "pause": 0.01}
    ranks = Ranks(2, wanted)
    for lines in (3, 9):
        ranks.wait_for(0, lines)
        os.kill(next(iter(children(ranks.host()))), signal.SIGKILL)
    for lines in ranks.end():
        assert rows_of(lines) == [row for epoch in lines[-1]["order"] for row in epoch]


def test_a_host_that_is_killed_is_told(rows_file: Path) -> None:
    wanted = {**batches(rows_file, shuffle="window", epochs=200), "pause": 0.01}
    ranks = Ranks(2, wanted)
    for rank in range(2):
        ranks.wait_for(rank, 3)
    os.kill(ranks.host(), signal.SIGKILL)
    for lines in ranks.end():
        assert lines[-1]["error"] == "ReaderDiedError"
        assert "hosts the readers" in lines[-1]["text"]


def test_ranks_that_want_something_else_are_told(rows_file: Path) -> None:
    wanted = batches(rows_file)
    other = batches(rows_file, batch_size=50)
    found = Ranks(2, wanted, wanted, other).end()
    errors = [lines[-1].get("error") for lines in found]
    assert sorted(map(str, errors)) == ["None", "OptionsError"]


def test_ranks_of_the_same_number_are_told(rows_file: Path) -> None:
    wanted = {**batches(rows_file, epochs=20), "pause": 0.01}
    worlds = [{"world": {"rank": rank, "world_size": 2}} for rank in (0, 1, 1)]
    found = Ranks(3, wanted, *worlds).end()
    errors = [lines[-1].get("error") for lines in found]
    assert errors.count("OptionsError") == 1, errors
    assert errors.count(None) == 2, errors


def test_damage_is_told_to_all(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        data = np.arange(N_ROWS, dtype="i8")
        dataset = file.create_dataset("x", data=data, chunks=(CHUNK,), compression="gzip")
        chunk = dataset.id.get_chunk_info(20)
    with path.open("r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(b"\xff\x00\xff\x00")
    found = Ranks(2, batches(path)).end()
    for lines in found:
        assert lines[-1]["error"] == "CorruptChunkError"
        assert "chunk (2000,)" in lines[-1]["text"]
    assert sorted(row for lines in found for row in rows_of(lines)) == list(range(1984))


def test_a_file_that_is_missing_is_told_to_all(tmp_path: Path) -> None:
    found = Ranks(2, batches(tmp_path / "none.h5", shuffle="full")).end()
    assert [lines[-1]["error"] for lines in found] == ["MissingFileError"] * 2


@pytest.mark.parametrize("count", [2, 3])
def test_columns(tmp_path: Path, count: int) -> None:
    path = table_files.write(tmp_path / "a.h5")
    found = Ranks(count, columns(path)).end()
    check_columns(path, found)
    keys = [lines[-1]["told"]["keys"]["chunks"] for lines in found]
    with h5py.File(path) as file:
        stored = {name: file[name]["nhit"].id.get_num_chunks() for name in TABLES}
    assert sorted(keys) == [0] * (count - 1) + [sum(stored.values())]
    told = [lines[-1]["told"]["readers"][0]["chunks"] for lines in found]
    assert max(told) == sum(stored.values())


def check_columns(path: Path, found: list[list[dict[str, Any]]]) -> None:
    """Each row came once, whatever rank it came to."""
    with h5py.File(path) as file:
        for name in TABLES:
            column = file[name]["nhit"][:, 0]
            blocks = [line for lines in found for line in lines if "columns" in line]
            blocks.sort(key=lambda line: line["rows"][name])
            at = 0
            for block in blocks:
                begin, end = block["rows"][name]
                assert begin == at
                assert block["columns"][name] == column[begin:end].tolist()
                at = end
            assert at == len(column)


def test_states_of_columns_go_on(tmp_path: Path) -> None:
    path = table_files.write(tmp_path / "a.h5")
    begun = Ranks(2, {**columns(path), "leave": 4}).end()
    states = [lines[-1]["state"] for lines in begun]
    rest = Ranks(3, {**columns(path), "states": states}).end()
    check_columns(path, begun + rest)
    alone = [{"states": [state]} for state in states]
    check_columns(path, begun + Ranks(2, columns(path), *alone).end())


@pytest.mark.parametrize("damaged", [False, True])
def test_scales_of_a_collection_are_read_once(tmp_path: Path, damaged: bool) -> None:
    kinds = dict.fromkeys(("ip", "ne", "te", "bt"), shot_files.KINDS["gzip"])
    path = shot_files.write(tmp_path / "a.h5", kinds=kinds)
    with h5py.File(path) as file:
        scales = [shot[base] for shot in file["shots"].values() for base in ("fast", "slow")]
        signals = [one for shot in file["shots"].values() for one in shot["signals"].values()]
        n_chunks = [sum(one.id.get_num_chunks() for one in group) for group in (scales, signals)]
        place = scales[0].id.get_chunk_info(0).byte_offset
    if damaged:
        with path.open("r+b") as raw:
            raw.seek(place)
            raw.write(b"\xff\x00\xff\x00")
    options = {"path": shot_files.PATTERN, "by": 1, "n_procs": 1, "epochs": 2, "order": "file"}
    found = Ranks(2, {"kind": "collection", "filename": str(path), "options": options}).end()
    if damaged:
        assert {lines[-1]["error"] for lines in found} == {"CorruptChunkError"}
        return
    with multitables.Streamer(path).get_collection(shot_files.PATTERN, 1, n_procs=1) as items:
        expected = {}
        for item in items:
            of_axes = [array for axes in item.scales.values() for array in axes[0].values()]
            expected[item.key] = [float(one.sum()) for one in (*item.values(), *of_axes)]
    came = [line for lines in found for line in lines if "key" in line]
    assert sorted(line["key"] for line in came) == sorted([*expected] * 2)
    for line in came:
        assert line["sums"] == expected[line["key"]]
    told = sum(lines[-1]["told"]["readers"][0]["chunks"] for lines in found)
    assert told == n_chunks[0] + 2 * n_chunks[1]
