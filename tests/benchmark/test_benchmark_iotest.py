"""The study iotest: its INI files, the datasets they describe, its columns, and its runs.

Law
---
1. What is written is read again by h5py, and compared with a formula of this file.
2. Nothing here is timed, and no figure is compared with another.
"""

from __future__ import annotations

import csv
import dataclasses
import itertools
import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from runs import left_behind, rows_of

import multitables_benchmark
from _multitables.benchmark.contenders import iotest_contenders as people
from _multitables.benchmark.contract import Sample
from _multitables.benchmark.data import iotest_ini
from _multitables.benchmark.data.iotest_ini import Configuration, IniError
from _multitables.benchmark.harness.results import Kept
from _multitables.benchmark.loops import iotest_loop
from _multitables.benchmark.studies.iotest import columns, views

TINY = Configuration(
    steps=4, arrays=10, rows=20, columns=40, process_rows=2, process_columns=2, hdf5_file="x.h5"
)
KINDS = list(itertools.product((4, 3, 2), ("step", "array"), ("contiguous", "chunked")))


def run(*words: str) -> int:
    return multitables_benchmark.main(["iotest", *words])


def written(test: Configuration, directory: Path) -> tuple[str, dict[str, Any]]:
    filename = str(directory / test.hdf5_file)
    return filename, iotest_loop.written(people.request(test, filename))


# ---- INI files


def test_a_file_that_says_nothing_is_the_default() -> None:
    assert iotest_ini.parse("", "x.ini") == Configuration()
    assert iotest_ini.parse(iotest_ini.text_of(Configuration()), "x.ini") == Configuration()


def test_the_syntax_of_the_published_program() -> None:
    text = """\ufeff; a comment
[CUSTOM]
steps = 7        ; behind a value
arrays: 3
# another comment
[DEFAULT]
version = 0
steps = 9
  11
layout=chunked
gzip = 5
single-process = core
meta-block-size = 4096
hdf5-file = a;b.h5
"""
    test = iotest_ini.parse(text, "x.ini")
    assert (test.steps, test.arrays) == (11, 3)  # the last value, whatever the section
    assert (test.layout, test.gzip, test.single_process) == ("chunked", 5, "core")
    assert (test.meta_block_size, test.hdf5_file) == (4096, "a;b.h5")
    assert iotest_ini.parse(text, "x.ini", described=True).steps == 7  # [CUSTOM] wins


@pytest.mark.parametrize(
    ("lines", "line", "said"),
    [
        (["stepz = 3"], 2, "stepz: unknown key; known are version, steps"),
        (["steps = many"], 2, "steps: must be a whole number, 1 or more; got 'many'"),
        (["steps = 0"], 2, "steps: must be a whole number, 1 or more"),
        (["rows = 1"], 2, "rows: must be a whole number, 2 or more"),
        (["version = 1"], 2, "version: must be one of 0"),
        (["dataset-rank = 5"], 2, "dataset-rank: must be one of 2, 3, 4"),
        (["scaling = none"], 2, "scaling: must be one of weak, strong"),
        (["mpi-io = Collective"], 2, "must be one of independent, collective; got 'Collective'"),
        (["libver-bound-high = earliest"], 2, "libver-bound-high: must be one of v18"),
        (["fill-values = yes"], 2, "must be one of true, false; got 'yes'"),
        (["szip = ec,7", "layout = chunked"], 2, "an even number of pixels"),
        (["async = 1"], 2, "h5py cannot use HDF5's asynchronous connector"),
        (["delay = 100 ms"], 2, "delay: must be 0"),
        (["one-case = 3"], 2, "here a file is one case"),
        (["steps"], 2, "a line is 'key = value'"),
        (["[open"], 2, "a section ends with ]"),
        (["steps = 3", "  arrays = 4"], 3, "an indented line gives the key before it a value"),
        ([f"csv-file = {'x' * 200}"], 2, "lines have fewer than 200 bytes"),
        (["rows = 9", "process-rows = 2", "scaling = strong"], 4, "must divide rows (9 by 2)"),
        (["process-columns = 3", "columns = 10", "scaling = strong"], 4, "must divide columns"),
        (["libver-bound-low = latest", "libver-bound-high = v18"], 3, "not be above the high one"),
        (["gzip = 3"], 2, "gzip needs layout = chunked"),
        (["gzip = 3", "layout = chunked", "process-rows = 2"], 4, "needs mpi-io = collective"),
        (["layout = chunked", "gzip = 3", "szip = nn,8"], 4, "gzip and szip exclude each other"),
        (["split = 1", "single-process = core"], 3, "exclude each other"),
    ],
)
def test_a_bad_file_is_refused(
    lines: list[str], line: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filename = tmp_path / "bad.ini"
    filename.write_text("\n".join(["[DEFAULT]", *lines]))
    with pytest.raises(IniError) as caught:
        iotest_ini.read(str(filename))
    assert f"bad.ini, line {line}" in str(caught.value)
    assert said in str(caught.value)
    assert run(str(filename)) == 2
    assert said in capsys.readouterr().err
    assert left_behind(tmp_path) == ["bad.ini"]


def test_combinations_are_the_standard_ones(tmp_path: Path) -> None:
    for _ in range(2):  # written again, not grown
        assert run("combinations", "2", "3") == 0
    files = sorted(Path("results").glob("run-*.ini"), key=lambda one: int(one.stem[4:]))
    tests = [iotest_ini.read(str(one)) for one in files]
    order = [(one.dataset_rank, one.slowest_dimension, one.layout, one.mpi_io) for one in tests]
    layouts, modes = ("contiguous", "chunked"), ("independent", "collective")
    assert order == [*itertools.product((2, 3, 4), ("step", "array"), layouts, modes)]
    assert {(one.process_rows, one.process_columns) for one in tests} == {(2, 3)}
    assert [(one.hdf5_file, one.csv_file) for one in tests][23] == ("out-24.h5", "out-24.csv")
    assert files[0].read_text().count("[combinator]") == 1


@pytest.mark.parametrize("words", [["combinations"], ["combinations", "0", "1"], ["a", "b"]])
def test_words_that_mean_nothing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run(*words) == 2
    assert "expected nothing, INI, or combinations ROWS COLS" in capsys.readouterr().err


def test_ranks_are_started_by_the_study(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    assert run("--smoke") == 2
    assert "this is one of 4 ranks" in capsys.readouterr().err


# ---- datasets


def expected(test: Configuration) -> dict[str, tuple[Any, Any, Any]]:
    """Shape, chunks and limits of each dataset, as the study describes them."""
    steps, arrays = test.steps, test.arrays
    rows, cols = test.rows * test.process_rows, test.columns * test.process_columns
    block = (test.rows, test.columns)
    by_step = test.slowest_dimension == "step"
    names = itertools.product(range(steps), range(arrays))
    if test.dataset_rank == 2:
        both = [(f"step={step}", f"array={array}") for step, array in names]
        paths = ["/".join(one if by_step else one[::-1]) for one in both]
        found = dict.fromkeys(paths, ((rows, cols), block, (rows, cols)))
    elif test.dataset_rank == 3 and by_step:
        one = ((arrays, rows, cols), (1, *block), (arrays, rows, cols))
        found = {f"step={step}": one for step in range(steps)}
    elif test.dataset_rank == 3:
        one = ((steps, rows, cols), (1, *block), (None, rows, cols))
        found = {f"array={array}": one for array in range(arrays)}
    elif by_step:
        chunk, limits = (1, arrays, *block), (None, arrays, rows, cols)
        found = {"dataset": ((steps, arrays, rows, cols), chunk, limits)}
    else:
        chunk, limits = (arrays, 1, *block), (arrays, None, rows, cols)
        found = {"dataset": ((arrays, steps, rows, cols), chunk, limits)}
    if test.layout == "contiguous":
        found = {path: (shape, None, shape) for path, (shape, _, _) in found.items()}
    return found


def array_of(file: h5py.File, test: Configuration, step: int, array: int) -> Any:
    """What h5py reads of an array of a step."""
    order = (step, array) if test.slowest_dimension == "step" else (array, step)
    if test.dataset_rank == 4:
        return file["dataset"][order]
    names = [f"step={step}", f"array={array}"]
    if test.slowest_dimension == "array":
        names.reverse()
    found = file["/".join(names[: 4 - test.dataset_rank])]
    return found[order[1]] if test.dataset_rank == 3 else found[()]


@pytest.mark.parametrize(("rank", "slowest", "layout"), KINDS)
def test_the_datasets_are_those_described(
    rank: int, slowest: str, layout: str, tmp_path: Path
) -> None:
    test = dataclasses.replace(TINY, dataset_rank=rank, slowest_dimension=slowest, layout=layout)
    filename, found = written(test, tmp_path)
    assert found["fsize"] == os.path.getsize(filename)
    with h5py.File(filename) as file:
        datasets: dict[str, h5py.Dataset] = {}
        file.visititems(
            lambda path, one: datasets.update({path: one} if hasattr(one, "dtype") else {})
        )
        told = {path: (one.shape, one.chunks, one.maxshape) for path, one in datasets.items()}
        assert told == expected(test)
        assert {one.dtype for one in datasets.values()} == {np.dtype("f8")}
        height, width = test.rows * 2, test.columns * 2
        for step, array in itertools.product(range(test.steps), range(test.arrays)):
            first = (step * test.arrays + array) * height * width
            right = first + np.arange(height * width).reshape(height, width)
            np.testing.assert_array_equal(array_of(file, test, step, array), right)


def test_strong_scaling_divides_the_array(tmp_path: Path) -> None:
    test = dataclasses.replace(TINY, scaling="strong")
    filename, _ = written(test, tmp_path)
    with h5py.File(filename) as file:
        assert file["dataset"].shape == (4, 10, 20, 40)
        np.testing.assert_array_equal(file["dataset"][:].ravel(), np.arange(4 * 10 * 20 * 40))


@pytest.mark.parametrize(("layout", "size"), [("contiguous", 1_026_048), ("chunked", 1_029_056)])
def test_files_have_the_published_size(layout: str, size: int, tmp_path: Path) -> None:
    test = dataclasses.replace(TINY, layout=layout, hdf5_file="y.h5")
    assert iotest_ini.known_bytes(test) == size
    assert written(test, tmp_path)[1]["fsize"] == size
    assert iotest_ini.known_bytes(Configuration()) == 1_600_002_048


def test_what_else_a_file_says(tmp_path: Path) -> None:
    test = dataclasses.replace(
        TINY,
        layout="chunked",
        fill_values="false",
        gzip=4,
        alignment_increment=4096,
        mpi_io="collective",
        libver_bound_low="latest",
    )
    filename, _ = written(test, tmp_path)
    with h5py.File(filename) as file:
        dataset = file["dataset"]
        assert dataset.compression_opts == 4
        assert dataset.id.get_create_plist().get_fill_time() == h5py.h5d.FILL_TIME_NEVER
        places = [dataset.id.get_chunk_info(n).byte_offset % 4096 for n in range(4)]
        assert set(places) == {0}
        assert file.id.get_create_plist().get_version()[0] >= 2  # of the superblock


# ---- columns


def test_the_published_columns(tmp_path: Path) -> None:
    found = dict.fromkeys(people.TIMES, 0.5) | {"fsize": 1_026_048, "read_max": 2.0}
    filename = str(tmp_path / "x.csv")
    for anew in (True, False):
        columns.append(filename, TINY, found, anew)
    with open(filename, newline="") as file:
        header, *rows = csv.reader(file)
    assert len(header) == 30
    assert header[:4] + header[14:16] == [
        "steps",
        "arrays",
        "rows",
        "cols",
        "wall [s]",
        "fsize [B]",
    ]
    assert header[-2:] == ["read-rate-min [MiB/s]", "read-rate-max [MiB/s]"]
    assert rows[0] == rows[1]
    named = dict(zip(header, rows[0], strict=True))
    assert (named["scaling"], named["slowdim"], named["rank"]) == ("weak", "step", "4")
    assert (named["wall [s]"], named["fsize [B]"]) == ("0.50", "1026048")
    mib = 4 * 10 * 20 * 40 * 8 / 2**20  # of one rank
    assert named["read-rate-min [MiB/s]"] == f"{mib / 2:.2f}"
    assert named["read-rate-max [MiB/s]"] == f"{mib / 0.5:.2f}"


# ---- runs


def one_test(**keys: Any) -> str:
    """The INI file of a test of two ranks, with other values of some keys."""
    test = dataclasses.replace(TINY, process_columns=1, hdf5_file="one.h5", csv_file="one.csv")
    lines = [f"{key.replace('_', '-')} = {value}" for key, value in keys.items()]
    Path("one.ini").write_text("\n".join([iotest_ini.text_of(test), *lines]))
    return "one.ini"


def test_smoke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(people.MPI_PYTHON, raising=False)
    assert run("--smoke") == 0
    rows = rows_of("iotest")
    by_test: dict[str, set[str]] = {}
    for row in rows:
        by_test.setdefault(row["configuration"], set()).add(row["contender"].rpartition(" x")[0])
        assert float(row["value"]) > 0
    wanted = {people.H5PY, people.OURS}
    assert by_test == dict.fromkeys(("contiguous", "chunked", "arrays", "single"), wanted)
    for name in by_test:
        for filename in (f"{name}.csv", f"{name}.multitables.csv"):
            assert Path("results", filename).read_text().startswith(columns.HEADER)
    out = capsys.readouterr().out
    assert "FAILED" not in out
    assert "multitables / h5py" in out
    assert (
        "Not measured: h5py, MPI-IO x4 (contiguous; chunked; arrays): needs an interpreter" in out
    )
    assert left_behind(tmp_path) == []


def test_ranks_of_mpi_share_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    if not os.environ.get(people.MPI_PYTHON):
        pytest.skip(f"{people.MPI_PYTHON} names no interpreter with a parallel h5py")
    for layout, mpi_io in (("contiguous", "independent"), ("chunked", "collective")):
        assert run(one_test(layout=layout, mpi_io=mpi_io), "--rounds", "1") == 0
        assert {row["contender"] for row in rows_of("iotest")} >= {f"{people.MPI} x2"}
    assert "Not measured" not in capsys.readouterr().out


def test_one_process_may_split_its_file_or_keep_it_in_memory(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(people.MPI_PYTHON, raising=False)
    words = ("--rounds", "1", "--data_dir", "data")
    assert run(one_test(process_rows=1, split=1), *words) == 0
    assert {row["contender"] for row in rows_of("iotest")} == {f"{people.H5PY} x1"}
    assert "Not measured: multitables x1 (one): HDF5's split driver" in capsys.readouterr().out
    assert {path.name for path in Path("data").iterdir()} == {"one.h5-m.h5", "one.h5-r.h5"}
    assert run(one_test(process_rows=1, single_process="core"), *words) == 0
    contenders = {row["contender"] for row in rows_of("iotest")}
    assert contenders == {f"{people.H5PY} x1", f"{people.OURS} x1"}


def test_an_interrupted_run_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    measure, left = people.Path.measure, [3]

    def impatient(path: people.Path) -> Sample:
        left[0] -= 1
        if left[0] < 0:
            raise KeyboardInterrupt
        return measure(path)

    monkeypatch.delenv(people.MPI_PYTHON, raising=False)
    words = (one_test(), "--rounds", "3")
    with monkeypatch.context() as patch:
        patch.setattr(people.Path, "measure", impatient)
        assert run(*words) == 130
    before = rows_of("iotest")
    assert len(before) == 3
    assert run(*words, "--resume") == 0
    after = rows_of("iotest")
    assert after[:3] == before
    assert len(after) == 6
    assert len(Path("results/one.csv").read_text().splitlines()) == 1 + 3


@pytest.mark.parametrize("contender", [people.H5PY, people.OURS])
def test_wrong_data_has_no_number(
    contender: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    check = people.Path.check

    def spoilt(path: people.Path) -> Any:
        found = check(path)
        if path.name.startswith(contender):
            grid = path.file.grid
            with h5py.File(path.file.filename, "a") as file:
                dataset = file[grid.path(grid.steps - 1, grid.arrays - 1)]
                dataset[(-1,) * dataset.ndim] += 1
            return path.asked.ask("check") if contender == people.OURS else found | {"elements": 1}
        return found

    monkeypatch.delenv(people.MPI_PYTHON, raising=False)
    monkeypatch.setattr(people.Path, "check", spoilt)
    assert run(one_test(), "--rounds", "1") == 1
    out = capsys.readouterr().out
    assert "FAILED, so it has no number" in out
    said = "instead of" if contender == people.H5PY else "rank 1, step 3, array 9, element (19, 39)"
    assert said in out
    assert contender not in {row["contender"].rpartition(" x")[0] for row in rows_of("iotest")}


def test_another_file_is_not_overwritten(capsys: pytest.CaptureFixture[str]) -> None:
    Path("data").mkdir()
    Path("data/hdf5_iotest.h5").write_text("mine")
    Path("own.ini").write_text("steps = 2\narrays = 2\n")
    assert run("own.ini", "--data_dir", "data") == 2
    assert "holds something else than this test's data" in capsys.readouterr().err
    assert Path("data/hdf5_iotest.h5").read_text() == "mine"


def test_published_figures_stand_behind_their_test() -> None:
    test = Configuration()
    key = {name: str(getattr(test, name)) for name in views.KEYS[1:]}
    base = {"configuration": "default", **key, **dict.fromkeys(people.TIMES, "0.5")}
    base |= {"decoded_bytes": "1600000000", "fsize": "1600002048", "round": "0"}
    rows = [
        base | {"contender": "h5py x1", "value": "1000"},
        base | {"contender": "multitables x1", "value": "2500"},
    ]
    (view,) = views.views(Kept("iotest", rows, {}))
    rates, phases = view.tables
    assert rates.rows[0][-3:] == ["1000", "2500", "2.5x"]
    published = {row[1]: row for row in phases.rows}
    assert published["published sample"][-3:] == ["794", "2089", "1600002048"]
    failed = {**key, "configuration": "default", "contender": "multitables x1", "fault": "x"}
    *_, view = views.views(Kept("iotest", rows[:1], {"faults": [failed]}))
    assert view.tables[0].rows[0][-3:] == ["1000", "FAILED", "-"]
    for change in ({"layout": "chunked"}, {"split": "1"}, {"alignment_increment": "4096"}):
        other = [row | change for row in rows]
        assert "published sample" not in views.views(Kept("iotest", other, {}))[0].text()
