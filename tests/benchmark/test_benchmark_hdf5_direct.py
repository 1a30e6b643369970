"""libhdf5's direct VFD: the contenders that read through it, and what builds it.

Law
---
1. Nothing is built and nothing fetched here: the steps are values, or do what the test puts there.
2. Tests with the real driver run where the environment variable MULTITABLES_DIRECT_VFD names a
   prefix that tools/hdf5_build has finished; elsewhere they are skipped.
3. The bare processes are the real ones, over PyTables' usual driver where there is no other.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from pathlib import Path

import numpy as np
import pytest
import tables
from hypothesis import given
from hypothesis import strategies as st

from _multitables.benchmark import loops
from _multitables.benchmark.contenders import hdf5_direct, streams
from _multitables.benchmark.contenders.hdf5_direct import DirectRead
from _multitables.benchmark.contract import (
    ContenderError,
    NotMeasuredError,
    Source,
    WrongDataError,
    differs,
)
from _multitables.benchmark.loops import hdf5_direct_loop, ranks
from _multitables.benchmark.machine import page_cache

PREFIX = os.environ.get("MULTITABLES_DIRECT_VFD", "")
FILTERS = {
    "none": None,
    "zlib": tables.Filters(3, "zlib"),
    "blosc": tables.Filters(5, "blosc:lz4"),
    "blosc2": tables.Filters(5, "blosc2"),
}
ROWS, COLUMNS, CHUNK_ROWS = 3000, 100, 128


def source_of(filename: str, path: str) -> Source:
    return Source(filename, path, ROWS, COLUMNS * 8)


@pytest.fixture
def many(tmp_path: Path) -> str:
    """A file with a dataset for each filter, one in one piece, and one of two chunks."""
    filename = str(tmp_path / "many.h5")
    values = np.random.default_rng(3).normal(size=(ROWS, COLUMNS))
    with tables.open_file(filename, "w") as file:
        for name, filters in FILTERS.items():
            shape = (CHUNK_ROWS, COLUMNS)
            file.create_carray("/", name, obj=values, filters=filters, chunkshape=shape)
        file.create_array("/", "contiguous", obj=values)
        file.create_carray("/", "two", obj=values, chunkshape=(ROWS - 1, COLUMNS))
    if page_cache.direct_refusal(filename):
        pytest.skip("the file system refuses O_DIRECT")
    return filename


# The interpreter


def test_without_a_prefix_it_says_how_to_get_one() -> None:
    with pytest.raises(
        NotMeasuredError, match=r"`python tools/hdf5_build direct PREFIX`.*--direct_vfd"
    ):
        hdf5_direct.find(None)


@pytest.mark.parametrize("left", ["nothing", "no interpreter", "not ready", "broken"])
def test_an_unfinished_prefix_is_refused(left: str, tmp_path: Path) -> None:
    if left != "no interpreter":
        (tmp_path / "venv" / "bin").mkdir(parents=True)
        (tmp_path / "venv" / "bin" / "python").touch()
    if left in ("no interpreter", "broken"):
        (tmp_path / "ready.json").write_text('{"HDF5": "1.14.6"}' if left != "broken" else '{"HD')
    prefix = str(tmp_path / "other" if left == "nothing" else tmp_path)
    with pytest.raises(NotMeasuredError, match=f"`python tools/hdf5_build direct {prefix}`"):
        hdf5_direct.find(prefix)


def test_a_finished_prefix_is_found(tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.touch()
    (tmp_path / "ready.json").write_text('{"HDF5": "1.14.6"}')
    assert hdf5_direct.find(str(tmp_path)) == str(python)
    assert hdf5_direct.versions(str(tmp_path)) == {"HDF5": "1.14.6"}


# The shares of bare processes


@given(st.integers(0, 10**6), st.integers(1, 10**4), st.integers(1, 40))
def test_shares_are_all_rows_in_whole_chunks(rows: int, chunk_rows: int, parts: int) -> None:
    found = ranks.shares(rows, chunk_rows, parts)
    assert len(found) == parts
    assert found[0][0] == 0
    assert found[-1][1] == rows
    assert all(one[1] == other[0] for one, other in itertools.pairwise(found))
    assert all(start % chunk_rows == 0 or start == rows for start, _ in found)
    chunks = [-(-stop // chunk_rows) - -(-start // chunk_rows) for start, stop in found]
    assert max(chunks) - min(chunks) <= 1


def test_a_descriptor_without_o_direct_is_refused(many: str) -> None:
    with pytest.raises(OSError, match="without O_DIRECT"):
        hdf5_direct_loop.need_direct(many)  # not open at all
    direct = os.open(many, os.O_RDONLY | os.O_DIRECT)
    try:
        hdf5_direct_loop.need_direct(many)
        with open(many, "rb"), pytest.raises(OSError, match="without O_DIRECT"):
            hdf5_direct_loop.need_direct(many)
    finally:
        os.close(direct)


# The bare processes, over the driver that every PyTables has


def over_any_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lie: str = "", python: str = sys.executable
) -> None:
    """Have the child read without the direct VFD, and do `lie`."""
    (tmp_path / "multitables.py").write_text("")  # the shell imports it
    (tmp_path / "__main__.py").write_text(
        f"import os, sys\n"
        f"sys.path[:0] = [{str(tmp_path)!r}, {str(Path(loops.__file__).parents[1])!r}]\n"
        "from loops import hdf5_direct_loop as loop, shell\n"
        "loop.DRIVER = 'H5FD_SEC2'\n"
        "loop.need_direct = lambda filename: None\n"
        f"{lie}\n"
        "shell.run(*sys.argv[1:])\n"
    )
    monkeypatch.setattr(hdf5_direct_loop, "__file__", str(tmp_path / "another.py"))


def bare(filename: str, path: str, n_procs: int) -> DirectRead:
    return hdf5_direct.pytables_processes(source_of(filename, path), n_procs, sys.executable)


@pytest.mark.parametrize(
    ("path", "n_procs"), [("/none", 1), ("/zlib", 3), ("/contiguous", 2), ("/two", 3)]
)
def test_bare_processes_read_all_rows(
    path: str, n_procs: int, many: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over_any_driver(tmp_path, monkeypatch)
    one = bare(many, path, n_procs)
    assert differs(one.check(), streams.oracle(one.source)) == ""
    found = one.measure()
    assert found.more["decoded_bytes"] == one.source.decoded_bytes
    assert found.value > 0


SLABS = "real = loop.slabs\ndef slabs(array, start, stop, rows, room):\n"
LIES = {
    "one bit": "    for slab in real(array, start, stop, rows, room):\n"
    "        slab.view('u1')[0, 5] ^= start == 0\n        yield slab\n",
    "a row less": "    return real(array, start, stop - 1, rows, room)\n",
    "a row twice": "    return real(array, max(0, start - 1), stop, rows, room)\n",
    "zeros": "    for slab in real(array, start, stop, rows, room):\n        yield slab * 0\n",
    "rows swapped": "    for slab in real(array, start, stop, rows, room):\n"
    "        yield slab[::-1]\n",
    "shares swapped": "    other = array.nrows // 128 * 128 if start else 0\n"
    "    return real(array, array.nrows - stop, array.nrows - start, rows, room)\n",
}


@pytest.mark.parametrize("lie", LIES)
def test_faulty_processes_are_caught(
    lie: str, many: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over_any_driver(tmp_path, monkeypatch, f"{SLABS}{LIES[lie]}loop.slabs = slabs")
    one = bare(many, "/none", 2)
    assert differs(one.check(), streams.oracle(one.source)) != ""


def test_a_timed_pass_of_fewer_rows_is_a_fault(
    many: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over_any_driver(tmp_path, monkeypatch, f"{SLABS}{LIES['a row less']}loop.slabs = slabs")
    with pytest.raises(WrongDataError, match="2398400 bytes of 2400000"):
        bare(many, "/none", 2).measure()


@pytest.mark.parametrize(
    ("lie", "said"),
    [
        ("    os._exit(3)\n", "process 0 of 2 died"),
        ("    raise ValueError('no')\n", "ValueError: no"),
    ],
)
def test_a_process_that_fails_is_told(
    lie: str, said: str, many: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    over_any_driver(tmp_path, monkeypatch, f"{SLABS}{lie}loop.slabs = slabs")
    with pytest.raises(ContenderError, match=said):
        bare(many, "/none", 2).check()


def test_a_pytables_without_the_driver_says_so(many: str) -> None:
    """The wheels of PyTables are such ones; nothing else is read in its place."""
    with pytest.raises(ContenderError, match="H5FD_DIRECT"):
        bare(many, "/none", 2).measure()


def test_a_file_system_that_refuses(many: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_cache, "direct_refusal", lambda _filename: "it refuses O_DIRECT")
    with pytest.raises(NotMeasuredError, match="it refuses O_DIRECT: choose a place on a disk"):
        bare(many, "/none", 2).check()


# With the driver itself


@pytest.mark.skipif(not PREFIX, reason="MULTITABLES_DIRECT_VFD names no prefix")
@pytest.mark.parametrize("path", [f"/{name}" for name in (*FILTERS, "contiguous")])
@pytest.mark.parametrize("who", ["queue", "generator", "slabs"])
def test_the_driver_reads_all_rows_around_the_page_cache(who: str, path: str, many: str) -> None:
    python = hdf5_direct.find(PREFIX)
    source = source_of(many, path)
    expected = streams.oracle(source)
    one = (
        hdf5_direct.pytables_processes(source, 2, python)
        if who == "slabs"
        else hdf5_direct.published(source, who, 2, python)
    )
    page_cache.drop_page_cache(many)
    assert differs(one.check(), expected) == ""
    assert one.measure().more["decoded_bytes"] >= source.decoded_bytes
    assert page_cache.resident_fraction(many) <= page_cache.COLD_FRACTION


@pytest.mark.skipif(not PREFIX, reason="MULTITABLES_DIRECT_VFD names no prefix")
def test_the_prefix_says_what_it_holds() -> None:
    found = hdf5_direct.versions(PREFIX)
    assert {"HDF5", "PyTables", "multitables"} <= set(found)
    assert found["multitables"] == "2.0.1"
    json.dumps(found)
