"""`to_dask` and `to_dask_dataframe`, on threads, processes and a cluster that loses a worker.

Law
---
1. Dask runs in scripts, as the threads that it makes stay. h5py says what is right.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import table_files
from h5py import h5d, h5s, h5t
from processes import run_script

import multitables

if not importlib.util.find_spec("dask"):
    pytest.skip("could not import 'dask'", allow_module_level=True)

ROWS = np.arange(4000, dtype=">i4").reshape(500, 8)
TABLE = np.zeros(500, [("a", ">i4"), ("b", "<f8"), ("s", "S3"), ("wide", "<f4", (2,))])
TABLE["a"], TABLE["b"], TABLE["s"] = np.arange(500), np.arange(500) / 3, b"abc"


@pytest.fixture
def path(h5: Path) -> Path:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=ROWS, chunks=(30, 5), compression="gzip")
        file.create_dataset("table", data=TABLE, chunks=(40,), compression="gzip")
        for name in ("p", "q"):
            file.create_dataset(f"group/{name}", data=np.arange(500)[:, None], chunks=(90, 1))
        file.create_dataset("group/short", data=np.arange(3))
        file.create_dataset("scalar", data=5)
        file.create_dataset("empty", data=h5py.Empty("f4"))
    return h5


@pytest.mark.parametrize("scheduler", ["threads", "processes"])
def test_an_array(path: Path, scheduler: str) -> None:
    done = run_script(
        "import sys, dask, multitables\n"
        "array = multitables.to_dask(sys.argv[1], 'x', chunks=(60, 5))\n"
        "assert array.name == multitables.to_dask(sys.argv[1], 'x', chunks=(60, 5)).name\n"
        "with dask.config.set(scheduler=sys.argv[2], num_workers=2):\n"
        "    print(array.chunks, int(array.sum().compute()), int(array[::7, 3].max().compute()))\n",
        path,
        scheduler,
        flags=(),
    )
    chunks = ((60,) * 8 + (20,), (5, 3))
    assert done.stdout == f"{chunks} {ROWS.sum()} {ROWS[::7, 3].max()}\n", done.stderr


def test_complex_numbers_stored_in_another_order(path: Path) -> None:
    wanted = np.arange(7) - 2j * np.arange(7)
    kind = h5t.create(h5t.COMPOUND, 24)
    kind.insert(b"r", 16, h5t.IEEE_F64LE)
    kind.insert(b"i", 4, h5t.IEEE_F64LE)
    with h5py.File(path, "r+") as file:
        made = h5d.create(file.id, b"swapped", kind, h5s.create_simple((7,)))
        h5py.Dataset(made)[...] = wanted
    done = run_script(
        "import sys, multitables\n"
        "array = multitables.to_dask(sys.argv[1], 'swapped', chunks=3)\n"
        "print(array.dtype, array.compute(scheduler='synchronous').tolist())\n",
        path,
        flags=(),
    )
    assert done.stdout == f"complex128 {wanted.tolist()}\n", done.stderr


@pytest.mark.parametrize("base", ["<i2", [("a", "<i2"), ("b", ">f4")]])
def test_elements_that_are_arrays(path: Path, base: Any) -> None:
    dtype = np.dtype((np.dtype(base), (2, 3)))
    with h5py.File(path, "r+") as file:
        made = file.create_dataset("arrays", (7,), dtype, chunks=(3,))
        kind, stored = made.id.get_type(), np.arange(7 * dtype.itemsize, dtype="u1")
        made.id.write(h5s.ALL, h5s.ALL, stored, kind)
        wanted = made[:]
    done = run_script(
        "import sys, multitables\n"
        "array = multitables.to_dask(sys.argv[1], 'arrays')\n"
        "print(array.shape, array.numblocks, array.compute(scheduler='synchronous').tolist())\n"
        "print(array[2:6, 1, ::2].compute(scheduler='synchronous').tolist())\n",
        path,
        flags=(),
    )
    expected = f"(7, 2, 3) (1, 1, 1) {wanted.tolist()}\n{wanted[2:6, 1, ::2].tolist()}\n"
    assert done.stdout == expected, done.stderr


def test_partitions_are_whole_chunks(path: Path) -> None:
    done = run_script(
        "import sys, dask, multitables\n"
        "with dask.config.set({'array.chunk-size': '1 kiB'}):\n"
        "    print(multitables.to_dask(sys.argv[1], 'x').chunks)\n",
        path,
        flags=(),
    )
    rows, columns = eval(done.stdout)
    assert {size % 30 for size in rows[:-1]} | {size % 5 for size in columns[:-1]} == {0}
    assert (sum(rows), sum(columns)) == ROWS.shape


def test_a_file_that_changed(path: Path) -> None:
    done = run_script(
        "import sys, multitables\n"
        "array = multitables.to_dask(sys.argv[1], 'x')\n"
        "with open(sys.argv[1], 'ab') as file:\n"
        "    file.write(b'more')\n"
        "try:\n"
        "    array.sum().compute(scheduler='processes')\n"
        "except multitables.FileChangedError as error:\n"
        "    print(type(error).__name__)\n",
        path,
        flags=(),
    )
    assert done.stdout == "FileChangedError\n", done.stderr


@pytest.mark.parametrize("name", ["scalar", "empty", "group"])
def test_what_is_no_array(path: Path, name: str) -> None:
    done = run_script(
        "import sys, multitables\n"
        "try:\n"
        "    print(multitables.to_dask(*sys.argv[1:]).compute())\n"
        "except multitables.UnsupportedDatasetError as error:\n"
        "    print(type(error).__name__)\n",
        path,
        name,
        flags=(),
    )
    wanted = "5" if name == "scalar" else "UnsupportedDatasetError"
    assert done.stdout == wanted + "\n", done.stderr


FRAMES = """
import sys, multitables
path = sys.argv[1]
frame = multitables.to_dask_dataframe(path, "table", ["a", "s", "b"], rows_per_partition=150)
print(frame.npartitions, frame.divisions, list(frame.columns), int(frame.a.sum().compute()))
print(frame.loc[151:152].compute().values.tolist(), float(frame.b.max().compute()))
group = multitables.to_dask_dataframe(path, "group", ["q", "p"])
print(int(group.q.sum().compute()), len(group), list(group.columns))
print(int(multitables.to_dask_dataframe(path, "group/p").p.max().compute()))
for name, columns in (("table", None), ("group", None), ("x", None), ("scalar", None),
                      ("group/p", ["z"]), ("table", ["z"]), ("group", ["z"])):
    try:
        multitables.to_dask_dataframe(path, name, columns)
    except multitables.MultitablesError as error:
        print(type(error).__name__)
try:
    multitables.to_dask_dataframe(path, "table", ["a"], rows_per_partition=0)
except multitables.OptionsError as error:
    print(error.option)
"""


def test_data_frames(path: Path) -> None:
    pytest.importorskip("pandas")
    done = run_script(FRAMES, path, flags=())
    assert done.stdout.splitlines() == [
        f"4 (0, 150, 300, 450, 499) ['a', 's', 'b'] {sum(range(500))}",
        f"[[151, 'abc', {151 / 3}], [152, 'abc', {152 / 3}]] {499 / 3}",
        f"{sum(range(500))} 500 ['q', 'p']",
        "499",
        *["UnsupportedDatasetError"] * 4,
        "OptionsError",
        "MissingFieldError",
        "MissingDatasetError",
        "rows_per_partition",
    ], done.stderr


INDEXED = """
import sys, dask, h5py, numpy as np, pandas as pd, multitables
dask.config.set(scheduler="threads", num_workers=2)
path, names = sys.argv[1], ["calE", "nhit"]

def stored(table):
    with h5py.File(path) as file:
        read = {name: file[table][name][:, 0] for name in [*names, "evt.seq"]}
    return pd.DataFrame(read).set_index("evt.seq")

frame = multitables.to_dask_dataframe(path, "/rec.slc", names, index="evt.seq",
                                      rows_per_partition=200)
whole = stored("rec.slc")
pd.testing.assert_frame_equal(frame.compute(), whole)
assert frame.known_divisions and frame.npartitions > 5 and frame.index.name == "evt.seq"
assert all(len(part.compute()) <= 200 for part in frame.partitions)
pd.testing.assert_frame_equal(frame.loc[100:150].compute(), whole.loc[100:150])
pd.testing.assert_series_equal(frame.nhit.compute(), whole.nhit)

tables = {"rec.slc": names, "rec.vtx": names, "spill": names, "rec.empty": names}
frames = multitables.to_dask_dataframe(path, tables, index="evt.seq", rows_per_partition=150)
assert list(frames) == list(tables)
assert len({one.divisions for one in frames.values()}) == 1
for table, one in frames.items():
    pd.testing.assert_frame_equal(one.compute(), stored(table))
    for number, part in enumerate(one.partitions):
        low, high = one.divisions[number : number + 2]
        rows = part.compute()
        is_last = number + 1 == one.npartitions
        assert ((rows.index >= low) & ((rows.index < high) | is_last)).all()
joined = frames["rec.slc"].join(frames["spill"], rsuffix="_of_spill")
assert joined.npartitions == frames["spill"].npartitions
expected = stored("rec.slc").join(stored("spill"), rsuffix="_of_spill")
pd.testing.assert_frame_equal(joined.compute(), expected)

empty = multitables.to_dask_dataframe(path, "rec.empty", names, index="evt.seq")
assert len(empty) == 0
table = multitables.to_dask_dataframe(path, "table", index="a", rows_per_partition=60)
assert list(table.columns) == ["b", "s"] and table.npartitions == 9
assert table.loc[77:79].compute().index.tolist() == [77, 78, 79]

for paths, given in (("unsorted", {"index": "x"}), ("table", {"index": "s"}),
                     ("table", {"index": "z"}), ("rec.slc", {"index": ("run", "evt")}),
                     ({"spill": None}, {}), ({}, {"index": "evt.seq"})):
    try:
        multitables.to_dask_dataframe(path, paths, **given)
    except multitables.MultitablesError as error:
        print(type(error).__name__)
"""


def test_data_frames_by_index(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    path = table_files.write(tmp_path / "tables.h5")
    with h5py.File(path, "a") as file:
        file["table"] = TABLE[["a", "b", "s"]]
        file["unsorted/x"] = np.array([1, 3, 2])
    done = run_script(INDEXED, path, flags=())
    assert done.stdout.splitlines() == [
        "UnsupportedDatasetError",
        "UnsupportedDatasetError",
        "MissingFieldError",
        *["OptionsError"] * 3,
    ], done.stderr


CLUSTER = """
import os, signal, sys, time
import multitables
from dask.distributed import Client, LocalCluster

def slow_sum(block):
    time.sleep(0.05)
    return block.sum(keepdims=True)

if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster:
        with Client(cluster) as client:
            array = multitables.to_dask(sys.argv[1], "x", chunks=(30, 8))
            sums = array.map_blocks(slow_sum, chunks=((1,) * 17, (1,)), dtype="i8").persist()
            time.sleep(0.3)
            os.kill(next(iter(client.run(os.getpid).values())), signal.SIGKILL)
            print(int(sums.sum().compute()))
"""


@pytest.mark.hang(120)
def test_a_cluster_that_loses_a_worker(path: Path, tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    script = tmp_path / "cluster.py"  # a file, as Dask's workers import it
    script.write_text(CLUSTER)
    done = run_script(
        "import runpy, sys\nsys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], None, '__main__')",
        script,
        path,
        flags=(),
        seconds=100,
    )
    assert done.stdout == f"{ROWS.sum()}\n", done.stderr


def test_read(path: Path) -> None:
    np.testing.assert_array_equal(multitables.read(path, "x"), ROWS)
    np.testing.assert_array_equal(multitables.read(path, "/x", np.s_[5:50:3, 2]), ROWS[5:50:3, 2])
    assert multitables.read(path, "scalar", ()) == 5
    with pytest.raises(multitables.MissingDatasetError, match="nothing"):
        multitables.read(path, "nothing")


@pytest.fixture
def of_texts(path: Path) -> Path:
    texts = np.array([f"text {number}é" for number in range(500)], object)
    with h5py.File(path, "a") as file:
        for name, data in (("texts", texts), ("square", texts.reshape(20, 25))):
            file.create_dataset(name, data=data, dtype=h5py.string_dtype(), chunks=True)
        rows = file.create_dataset("rows", (3,), h5py.vlen_dtype("i4"))
        rows[1] = [1, 2]
        record = np.zeros(500, [("n", "i4"), ("s", h5py.string_dtype())])
        record["n"], record["s"] = np.arange(500), texts
        file["record"] = record
        file.create_group("mixed")["a"] = np.arange(3)
        file["mixed/rows"] = rows
    return path


def test_arrays_of_texts(of_texts: Path) -> None:
    done = run_script(
        "import sys, dask, h5py, multitables, numpy\n"
        "with h5py.File(sys.argv[1]) as file, dask.config.set(scheduler='threads'):\n"
        "    for name in ('texts', 'square', 'record'):\n"
        "        for chunks in ('auto', 7, -1):\n"
        "            array = multitables.to_dask(sys.argv[1], name, chunks=chunks)\n"
        "            assert array.dtype == file[name].dtype\n"
        "            assert array.compute().tolist() == file[name][()].tolist()\n"
        "            assert array[3:9].compute().tolist() == file[name][3:9].tolist()\n"
        "    got = multitables.to_dask(sys.argv[1], 'rows').compute()\n"
        "    assert [row.tolist() for row in got] == [[], [1, 2], []]\n"
        "print('same')\n",
        of_texts,
        flags=(),
    )
    assert done.stdout == "same\n", done.stderr


def test_data_frames_of_texts(of_texts: Path) -> None:
    pytest.importorskip("pandas", reason="data frames of Dask are made of those of pandas")
    done = run_script(
        "import sys, h5py, multitables\n"
        "with h5py.File(sys.argv[1]) as file:\n"
        "    frame = multitables.to_dask_dataframe(sys.argv[1], 'record').compute()\n"
        "    assert frame.s.tolist() == [text.decode() for text in file['texts'][()]]\n"
        "    try:\n"
        "        multitables.to_dask_dataframe(sys.argv[1], 'mixed')\n"
        "    except multitables.UnsupportedDatasetError as error:\n"
        "        assert \"'rows'\" in str(error) and 'columns=' in error.advice\n"
        "        print(len(multitables.to_dask_dataframe(sys.argv[1], 'mixed', ['a'])))\n",
        of_texts,
        flags=(),
    )
    assert done.stdout == "3\n", done.stderr
