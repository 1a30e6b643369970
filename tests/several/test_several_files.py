"""Several files as one list of rows, in streams, batches and columns.

1. The oracle is what h5py reads of the files, concatenated.
2. Files may have any number of rows, stored in any way, and no file is special.
"""

from __future__ import annotations

import itertools
import os
import signal
import tempfile
from pathlib import Path
from typing import Any
from unittest import mock

import h5py
import numpy as np
import pytest
import several_files
import table_files
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import readers, run_script
from several_files import COLUMNS, Part, parts
from table_files import INDEX, SEQ

import multitables
from _multitables import _core
from _multitables.index.chunk_index import Joined, Virtual
from _multitables.index.joined import source
from multitables import Streamer

DIRECT = {"DRIVER": "H5FD_DIRECT"}


def streamed(streamer: Streamer, path: Any, **options: Any) -> list[np.ndarray]:
    with streamer.get_queue(path, remainder=True, **options) as queue:
        found = []
        for guard in queue:
            with guard as block:
                found.append(block.copy())
        return found


@settings(deadline=None, max_examples=60)
@given(
    wanted=parts(),
    block_size=st.none() | st.integers(1, 60),
    n_procs=st.integers(1, 3),
    driver=st.sampled_from([{}, DIRECT]),
    inner=st.sampled_from([None, np.s_[1:4], np.s_[::-2]]),
    step=st.sampled_from([None, 1, 3]),
    layout=st.sampled_from(several_files.LAYOUTS),
    at_a_time=st.sampled_from([2, 5000]),
)
def test_streams(
    wanted: list[Part],
    block_size: Any,
    n_procs: int,
    driver: Any,
    inner: Any,
    step: Any,
    layout: str,
    at_a_time: int,
) -> None:
    of_core = mock.patch.object(source, "FILES_AT_A_TIME", at_a_time)
    with tempfile.TemporaryDirectory() as folder, of_core:
        names, path, _, expected, _ = several_files.laid_out(Path(folder), wanted, layout)
        rows = slice(None, None, step)
        expected = expected[rows]
        if inner is not None:
            expected = expected[:, inner]
        options: Any = {"block_size": block_size, "n_procs": n_procs, "inner": inner}
        if step is not None:
            options["rows"] = rows
        blocks = streamed(Streamer(names, **driver), path, **options)
        found = np.concatenate([expected[:0], *blocks])
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype


@settings(deadline=None, max_examples=60)
@given(
    wanted=parts(),
    size=st.integers(1, 60),
    shuffle=st.sampled_from([None, "chunks", "window", "full"]),
    n_procs=st.integers(1, 2),
    world_size=st.integers(1, 2),
    window_rows=st.integers(1, 80),
    after=st.integers(0, 5),
    layout=st.sampled_from(several_files.LAYOUTS),
)
def test_batches_and_their_states(
    wanted: list[Part], size: int, world_size: int, after: int, layout: str, **options: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        names, *paths, x, y = several_files.laid_out(Path(folder), wanted, layout)
        for rank in range(world_size):
            options = {**options, "rank": rank, "world_size": world_size, "seed": 3}
            with Streamer(names).get_batches(paths, size, **options) as batches:
                order, found = batches.order(0), []
                for _, batch in zip(range(after), batches, strict=False):
                    found.append([array.copy() for array in batch])
                state = batches.state_dict()
            with Streamer(names).get_batches(paths, size, **options) as batches:
                batches.load_state_dict(state)
                if after * size < len(order):
                    found += [[array.copy() for array in batch] for batch in batches]
            np.testing.assert_array_equal(np.concatenate([x[:0], *(a for a, _ in found)]), x[order])
            np.testing.assert_array_equal(np.concatenate([y[:0], *(b for _, b in found)]), y[order])


def test_files_of_whole_chunks_are_one_table(tmp_path: Path) -> None:
    """Each chunk is decoded once, by readers that have nothing to put together."""
    names = several_files.write(tmp_path, [Part(16), Part(0), Part(8), Part(24), Part(13)])
    with Streamer(names).get_queue("/x", n_procs=1, remainder=True) as queue:
        index = queue.source.plan.datasets[0].index
        assert (type(index), index.chunk_dims) == (Joined, (8, 3))
        for guard in queue:
            with guard:
                pass
        assert sum(reader["chunks"] for reader in queue.statistics()["readers"]) == 2 * 8


def test_files_of_any_rows_are_parts_of_few_tables(tmp_path: Path) -> None:
    kinds = ["gzip", "plain", "gzip", "gzip", "plain"]
    names = several_files.write(tmp_path, [Part(13, kind) for kind in kinds])
    with Streamer(names).get_queue("/x", n_procs=1) as queue:
        index = queue.source.plan.datasets[0].index
        assert isinstance(index, Virtual)
        assert [shown.n_rows for shown in index.shown] == [45, 29]


def test_one_column_and_one_axis(tmp_path: Path) -> None:
    kind = np.dtype([("a", "<i4"), ("b", "<f8", (2,)), ("s", "S3")])
    names = []
    for number in range(3):
        names.append(str(tmp_path / f"{number}.h5"))
        with h5py.File(names[-1], "w") as file:
            table = np.zeros(5 + number, kind)
            table["a"], table["b"], table["s"] = number, number / 3, f"x{number}"
            file.create_dataset("t", data=table, chunks=(4,), compression="gzip")
    expected = several_files.read(names, "/t")
    for field in (None, "a", "b", "s"):
        blocks = streamed(Streamer(names), "/t", field=field, n_procs=1)
        np.testing.assert_array_equal(
            np.concatenate(blocks), expected[field] if field else expected
        )


def test_never_stored_rows_are_each_file_s_fill_value(tmp_path: Path) -> None:
    names = []
    for number in range(4):
        names.append(str(tmp_path / f"{number}.h5"))
        with h5py.File(names[-1], "w") as file:
            fill = number // 2
            x = file.create_dataset("x", (16, 2), "<i4", chunks=(8, 2), fillvalue=fill)
            x[:8] = number + 10
    blocks = streamed(Streamer(names), "/x", n_procs=2)
    np.testing.assert_array_equal(np.concatenate(blocks), several_files.read(names))


def test_virtual_datasets_in_files(tmp_path: Path) -> None:
    names = several_files.write(tmp_path, [Part(16), Part(24), Part(13)])
    for rows in (16, 11):
        layout = h5py.VirtualLayout((rows + 24, COLUMNS), "<i4")
        layout[:rows] = h5py.VirtualSource(names[0], "x", (16, COLUMNS))[:rows]
        layout[rows:] = h5py.VirtualSource(names[1], "x", (24, COLUMNS))
        virtual = str(tmp_path / f"virtual{rows}.h5")
        with h5py.File(virtual, "w") as file:
            file.create_virtual_dataset("x", layout)
        together = [names[2], virtual, names[0], virtual]
        blocks = streamed(Streamer(together), "/x", n_procs=1)
        np.testing.assert_array_equal(np.concatenate(blocks), several_files.read(together))


def test_many_files_and_few_descriptors(tmp_path: Path) -> None:
    """Also of several datasets, which no reader reads in the order of the files."""
    numbers = np.arange(300 * 20).reshape(300, 20)
    for number, rows in enumerate(numbers):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            for name, options in {
                "whole": {"chunks": (10,), "compression": "gzip"},
                "parts": {"chunks": (8,), "compression": "gzip"},
                "raw": {},
            }.items():
                for copy in range(4):
                    file.create_dataset(f"{name}{copy}", data=rows, **options)
    done = run_script(
        "import resource, sys, numpy as np\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
        "import multitables\n"
        "streamer = multitables.Streamer(sys.argv[1])\n"
        "for name in ('whole', 'parts', 'raw'):\n"
        "    for shuffle in (None, 'full'):\n"
        "        paths = [f'{name}{copy}' for copy in range(4)]\n"
        "        batches = streamer.get_batches(paths, 500, n_procs=2, shuffle=shuffle)\n"
        "        found = np.concatenate([np.stack(batch) for batch in batches], axis=1)\n"
        "        print(name, (found == batches.order(0)).all(), found.shape[1])\n"
        "        batches.close()\n",
        tmp_path / "*.h5",
    )
    lines = [f"{name} True 6000" for name in ("whole", "parts", "raw") for _ in range(2)]
    assert done.stdout.splitlines() == lines, done.stderr


# ---- columns

NAMES = ["calE", "nhit", "flat", "maps"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return table_files.write(tmp_path_factory.mktemp("several") / "whole.h5", n_events=300)


def split(whole: Path, folder: Path, edges: list[int]) -> list[str]:
    """Files with the rows of tables between these shares of them, in hundredths."""
    names = []
    bounds = [0, *edges, 100]
    with h5py.File(whole) as file:
        for number, (begin, end) in enumerate(itertools.pairwise(bounds)):
            names.append(str(folder / f"{number}.h5"))
            with h5py.File(names[-1], "w") as part:
                for table in table_files.TABLES:
                    for name, data in file[table].items():
                        cut = slice(*(len(data) * share // 100 for share in (begin, end)))
                        chunks = None if name == "flat" else data.chunks
                        part.create_dataset(
                            f"{table}/{name}", data=data[cut], chunks=chunks,
                            maxshape=chunks and (None, *data.shape[1:]),
                        )  # fmt: skip
    return names


@settings(deadline=None, max_examples=15)
@given(
    edges=st.lists(st.integers(0, 100), min_size=1, max_size=4).map(sorted),
    entries=st.sampled_from([1, 50, 700]),
    index=st.sampled_from([SEQ, INDEX]),
    world_size=st.integers(1, 3),
    is_manifest=st.booleans(),
)
def test_columns(
    whole: Path, edges: list[int], entries: int, index: Any, world_size: int, is_manifest: bool
) -> None:
    groups = {"rec.slc": NAMES, "rec.vtx": ["calE", "maps"], "rec.empty": ["calE"]}
    columns = {group: table_files.columns_of(whole, group) for group in groups}
    at = dict.fromkeys(groups, 0)
    with tempfile.TemporaryDirectory() as folder:
        names = split(whole, Path(folder), edges)
        files = several_files.manifest(Path(folder), names) if is_manifest else names
        for rank in range(world_size):
            blocks = Streamer(files).get_columns(
                groups, index=index, entries_per_block=entries, n_procs=1, rank=rank,
                world_size=world_size,
            )  # fmt: skip
            for block in blocks:
                for group, rows in block.items():
                    begin, end = rows.rows
                    assert begin == at[group]
                    at[group] = end
                    for name, column in rows.items():
                        np.testing.assert_array_equal(column, columns[group][name][begin:end])
                    if 0 < end < len(columns[group]["evt"]):  # no value is split
                        before, behind = columns[group][SEQ][end - 1 : end + 1]
                        assert before != behind
    assert at == {group: len(columns[group]["evt"]) for group in groups}


def test_columns_by_default_are_those_of_the_first_file(whole: Path, tmp_path: Path) -> None:
    names = split(whole, tmp_path, [30, 77])
    with h5py.File(names[1], "a") as file:
        file["spill/more"] = [1]
    blocks = Streamer(names).get_columns("spill", index=INDEX, n_procs=1)
    assert repr(blocks).startswith(f"<Columns of 'spill' in 3 files '{names[0]}' ... '{names[2]}'")
    for block in blocks:
        assert list(block) == sorted({*NAMES, SEQ})
    with h5py.File(names[2], "a") as file:
        keys = file["spill"][SEQ]
        keys[20] = 0
    blocks = Streamer(names).get_columns({"spill": ["nhit"], "rec.vtx": []}, index=SEQ, n_procs=1)
    with pytest.raises(multitables.UnsupportedDatasetError, match=r"row 251 of .* in 3 files"):
        list(blocks)


def test_readers_that_die_are_replaced(tmp_path: Path) -> None:
    names = several_files.write(tmp_path, [Part(21 + number % 3) for number in range(30)])
    expected = several_files.read(names)
    with Streamer(names).get_batches("/x", 10, n_procs=2, shuffle="full", epochs=4) as batches:
        orders = np.concatenate([batches.order(epoch) for epoch in range(4)])
        at = 0
        for number, batch in enumerate(batches):
            if number in (3, 120):
                os.kill(readers()[0], signal.SIGKILL)
            np.testing.assert_array_equal(batch, expected[orders[at : at + len(batch)]])
            at += len(batch)
    assert at == 4 * len(expected)


def test_a_streamer_keeps_what_it_indexed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = several_files.write(tmp_path, [Part(9), Part(8)])
    opened = []

    def count(path: str, *args: Any, **options: Any) -> Any:
        opened.append(path)
        return open_file(path, *args, **options)

    from _multitables.index.opened import open_files

    def count_all(paths: list[str], *args: Any) -> Any:
        opened.extend(paths)
        return survey_files(paths, *args)

    open_file, survey_files = open_files.open_file, _core.survey_files
    monkeypatch.setattr(open_files, "open_file", count)
    monkeypatch.setattr(_core, "survey_files", count_all)
    with Streamer(names) as streamer:
        for _ in range(3):
            assert len(streamed(streamer, "/x", n_procs=1)) > 0
    assert opened == [names[0], *names]
