"""The study of versions: its transactions, what is written, who reads wrongly, what is shown.

Law
---
1. Files are compared with arrays of NumPy that no file has held.
2. versioned-hdf5 runs in processes of its own: of h5py 3.16 it makes errors that cannot be raised.
3. Nothing here is timed, and no figure is compared with another.
"""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from runs import hide_module, left_behind, rows_of

import multitables_benchmark
from _multitables.benchmark.contenders.version_contenders import (
    READERS,
    TOGETHER,
    WRITERS,
    Loops,
    VersionsFile,
    readers_of,
)
from _multitables.benchmark.harness.results import Kept
from _multitables.benchmark.loops import version_read_loop, version_steps, version_write_loop
from _multitables.benchmark.loops.version_steps import KEYS, TESTS, VAL, Spec
from _multitables.benchmark.loops.version_write_loop import PLAIN, VERSIONED
from _multitables.benchmark.studies.versions import cases, views

LARGE, CONSTANT = "large_fraction_changes_sparse", "large_fraction_constant_sparse"
DENSE = "mostly_appends_dense"


def run(*words: str) -> int:
    return multitables_benchmark.main(["versions", *words])


def asked(filename: Path, spec: Spec, recipe: str = PLAIN) -> dict[str, Any]:
    storage = {"exponent": 5, "compression": "gzip"}
    request = {"recipe": recipe, "spec": dataclasses.asdict(spec), "filename": str(filename)}
    return {**request, **storage}


# ---- the transactions


def test_as_published_hardly_anything_changes() -> None:
    _, steps = version_steps.steps(Spec(LARGE, 400, described=False))
    assert 0 < sum(len(step.changed) > 0 for step in steps) < 20
    _, steps = version_steps.steps(Spec(LARGE, 400, described=True))
    counts = [len(step.changed) for step in steps if len(step.changed)]
    assert 340 < len(counts) < 385
    assert 990 < np.mean(counts) < 1010
    assert len(steps[0].changed) == 0


def test_a_constant_number_of_rows_is_only_described() -> None:
    for described, least, most in ((False, 0.42, 0.5), (True, 0.0, 0.0)):
        _, steps = version_steps.steps(Spec(CONSTANT, 3000, described))
        share = np.mean([len(step.appended[VAL]) > 0 for step in steps])
        assert least <= share <= most
    *_, last = version_steps.states(Spec(CONSTANT, 400, described=True))
    assert {len(array) for array in last.values()} == {5000}


def test_rows_go_near_the_end_and_come_there() -> None:
    spec = Spec("mostly_appends_sparse", 300, described=True)
    state, steps = version_steps.steps(spec)
    assert not any(state[name].any() for name in KEYS)
    deleted = [where for step in steps for where in step.deleted if len(where)]
    inserted = [where for step in steps for where, _ in step.inserted if len(where)]
    assert len(deleted) < len(inserted)
    assert all((np.diff(where) > 0).all() for where in (*deleted, *inserted))
    sizes = [len(state[VAL]) for state in version_steps.states(spec)]
    lasting = [
        np.median(where) / size
        for step, size in zip(steps, sizes, strict=False)
        for where in step.deleted
        if len(where)
    ]
    assert min(lasting) > 0.8


def test_a_seed_is_a_file() -> None:
    spec = Spec(DENSE, 30, described=True)
    *_, one = version_steps.states(spec)
    *_, same = version_steps.states(spec)
    *_, other = version_steps.states(dataclasses.replace(spec, seed=1))
    np.testing.assert_array_equal(one[VAL], same[VAL])
    assert one[VAL].shape != other[VAL].shape or (one[VAL] != other[VAL]).any()
    assert one[VAL].shape == (len(one["key0"]), len(one["key1"]))
    assert (spec.names[0], spec.names[1:]) == ("initial_version", sorted(set(spec.names[1:])))


# ---- what is written


@pytest.mark.parametrize("described", [False, True])
@pytest.mark.parametrize("test", list(TESTS))
def test_the_twin_is_what_numpy_makes(test: str, described: bool, tmp_path: Path) -> None:
    spec = Spec(test, 12, described)
    request = asked(tmp_path / "twin.h5", spec)
    found = version_write_loop.LOOP.answer(None, request | {"verb": "time"})["found"]
    assert len(found["t_write"]) == 13
    assert found["t_write"][-1] == pytest.approx(sum(found["t_write"][:-1]))
    assert version_write_loop.LOOP.answer(None, request | {"verb": "holds"}) == {"found": True}
    with h5py.File(request["filename"], "r+") as file:
        dataset = file[spec.group][VAL]
        assert (dataset.chunks, dataset.compression) == ((32,) * dataset.ndim, "gzip")
        dataset[(3,) * dataset.ndim] += 1.0
    assert version_write_loop.LOOP.answer(None, request | {"verb": "holds"}) == {"found": False}
    with pytest.raises(Exception, match=f"{VAL} of .* was not written"):
        version_write_loop.compare(request)


def test_other_storage_is_another_file(tmp_path: Path) -> None:
    request = asked(tmp_path / "twin.h5", Spec(DENSE, 2, described=True))
    version_write_loop.LOOP.answer(None, request | {"verb": "time"})
    for other in ({"exponent": 6}, {"compression": "lzf"}):
        assert not version_write_loop.holds({**request, **other})


@pytest.mark.parametrize("test", [DENSE, "mostly_appends_sparse"])
def test_versions_are_laid_out_by_the_package(test: str, tmp_path: Path) -> None:
    pytest.importorskip("versioned_hdf5")
    spec = Spec(test, 25, described=True)
    with Loops() as loops:
        file = VersionsFile(spec, 5, "lzf", str(tmp_path), loops)
        filename = file.ready(VERSIONED)
        assert file.ready(VERSIONED) == filename
        Path(file.filename(PLAIN)).write_bytes(b"no HDF5")
        with pytest.raises(FileExistsError, match="holds something else"):
            file.ready(PLAIN)
    with h5py.File(filename) as opened:
        versions = opened[version_write_loop.STORED]
        assert set(versions) == {"__first_version__", *spec.names}
        for name, state in zip(spec.names, version_steps.states(spec), strict=True):
            for dataset, want in state.items():
                np.testing.assert_array_equal(versions[name][spec.group][dataset][()], want)


# ---- runs


def test_everybody_reads_the_same(tmp_path: Path) -> None:
    pytest.importorskip("versioned_hdf5")
    words = ("--smoke", "--test", f"{LARGE},{DENSE}", "--as-published", "--as-described")
    assert run(*words) == 0
    rows = rows_of("versions")
    everybody = {*READERS, *TOGETHER, PLAIN}
    assert {row["contender"] for row in rows if row["part"] == "read"} == everybody
    assert {row["contender"] for row in rows if row["part"] == "write"} == {VERSIONED, PLAIN}
    assert {row["way"] for row in rows} == {"as published", "as described"}
    assert all(float(row["decoded_bytes"]) > 0 for row in rows if row["part"] == "read")
    assert left_behind(tmp_path) == []
    for twin in ("", "_no_versions"):
        (one,) = json.loads(Path(f"results/test_{DENSE}{twin}.json").read_text())
        assert one.keys() == {
            *("num_transactions", "filename", "size", "size_label", "t_write"),
            *("chunk_size", "compression"),
        }
        assert one["filename"] == f"./test_{DENSE}_4_6_None{twin}.h5"
        assert (one["chunk_size"], one["compression"], len(one["t_write"])) == (64, None, 5)
    assert Path(f"results/as_described_test_{LARGE}.json").exists()


def test_wrong_data_have_no_number(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("versioned_hdf5")
    right = cases.expected
    monkeypatch.setattr(cases, "expected", lambda spec: right(dataclasses.replace(spec, seed=9)))
    assert run("--smoke", "--test", DENSE, "--which", "latest") == 1
    assert {row["part"] for row in rows_of("versions")} == {"write"}
    assert "FAILED" in capsys.readouterr().out


def test_without_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide_module("versioned_hdf5", tmp_path / "hidden", monkeypatch)
    assert run("--smoke", "--test", DENSE) == 0
    assert {row["contender"] for row in rows_of("versions")} == {PLAIN}
    told = capsys.readouterr().out
    for who, part in ((VERSIONED, "write"), ("all", "read")):
        reason = f"Not measured: {who} ({part}, {DENSE}, as published): versioned-hdf5 cannot be "
        assert reason in told
    assert "pip install multitables[studies]" in told


def test_published_files_grow_when_a_run_is_resumed() -> None:
    words = ("--test", DENSE, "--dense_exponents", "6", "--rounds", "1", "--part", "write")
    names = []
    for more in (("--versions", "2"), ("--versions", "2,3", "--resume"), ("--versions", "3")):
        run(*words, *more)
        (one,) = Path("results").glob(f"test_{DENSE}_no_versions.json")
        names.append([found["num_transactions"] for found in json.loads(one.read_text())])
    assert names == [[2], [2, 3], [3]]


def test_an_interrupted_run_is_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("versioned_hdf5")
    words = ("--smoke", "--test", DENSE)

    def interrupted(*_asked: object) -> list[Any]:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cases, "readers", interrupted)
        assert run(*words) == 130
    before = Path(f"results/test_{DENSE}.json").read_text()
    assert run(*words, "--resume") == 0
    assert Path(f"results/test_{DENSE}.json").read_text() == before
    parts = [(row["part"], row["which"], row["contender"]) for row in rows_of("versions")]
    n_readers = sum(len(readers_of(which)) for which in ("all", "latest"))
    assert len(set(parts)) == len(parts) == len(WRITERS) + n_readers


# ---- what is shown


def row(**more: str) -> dict[str, str]:
    key = {"test": LARGE, "way": "as published", "transactions": "50", "exponent": "12"}
    empty = dict.fromkeys(("which", *cases.MORE), "")
    return {**key, "compression": "none", "part": "write", **empty, "round": "0", **more}


def test_published_figures_stand_beside_the_same_file() -> None:
    rows = [
        row(contender=VERSIONED, value="2.5", file_bytes=str(2**22), transaction_seconds="0.01"),
        row(contender=PLAIN, value="0.5", file_bytes=str(2**20), transaction_seconds="0.001"),
    ]
    (view,) = views.views(Kept("versions", rows, {}))
    (files,) = view.tables
    assert [list(line) for line in files.rows] == [
        ["50, 2^12", VERSIONED, "4", "12.5x", "2.5", "10.0"],
        ["50, 2^12", PLAIN, "1", "", "0.5", "1"],
        ["50, 2^12", "as copies", "50", "", "-", "-"],
        ["50, 2^12", f"{VERSIONED}, published", "4.93", "", "0.749", "-"],
    ]
    sizes, written = view.charts
    labels = [VERSIONED, PLAIN, "as copies", f"{VERSIONED}, published"]
    assert [line.label for line in sizes.series] == labels
    assert [line.label for line in written.series] == [one for one in labels if one != "as copies"]
    described = [one | {"way": "as described"} for one in rows]
    (view,) = views.views(Kept("versions", described, {}))
    assert len(view.tables[0].rows) == 3


def test_the_fastest_of_ours_is_compared() -> None:
    rows = [
        row(part="read", which=which, contender=name, value=value, open_seconds=opened)
        for which in ("all", "latest")
        for name, value, opened in (
            ("versioned-hdf5, r", "0.4", "0.3"),
            ("multitables", "0.2", "0.01"),
            *(
                [("multitables, together", "0.1", "")]
                if which == "all"
                else [(PLAIN, "0.1", "0.1")]
            ),
        )
    ]
    (view,) = views.views(Kept("versions", rows, {"faults": []}))
    opened, read, latest = view.tables
    assert [line[-1] for line in opened.rows] == ["30.0x", "30.0x"]
    assert [line[-1] for line in read.rows] == ["4x", "2x"]
    assert [list(line[1:4]) for line in latest.rows] == [
        ["opened", "3x", "-"],
        ["opened and read", "4x", "-"],
    ]
    assert {chart.title.partition(":")[0] for chart in view.charts} == {"All opened", "All read"}
    wrong = {**rows[1], "fault": "data differs"}
    _, view = views.views(Kept("versions", [rows[0], *rows[2:]], {"faults": [wrong]}))
    assert view.tables[1].rows[0][2:] == ["400", "100", "FAILED", "-", "4x"]


def test_sizes_are_said_as_the_study_does() -> None:
    assert [cases.size_label(size) for size in (17, 81561592, 2.1 * 2**30)] == [
        *("17.00 B", "77.78 MB", "2.10 GB")
    ]


def test_noise_is_not_printed_and_errors_are(capsys: pytest.CaptureFixture[str]) -> None:
    version_read_loop.quiet(AttributeError, "'InMemoryDatasetID' object has no '_dealloc'")
    version_read_loop.quiet(ValueError, "a fault")
    assert capsys.readouterr().err == "ValueError: a fault\n"
