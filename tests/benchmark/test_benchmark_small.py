"""The study of small data: its files, its loops, what a figure is made of, and the run.

Law
---
1. What each contender reads is compared with h5py's; wrong rows end a run with status 1.
2. Nothing here is timed, and no figure is compared with another.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from runs import left_behind, rows_of

import multitables
import multitables_benchmark
from _multitables.benchmark.contenders import small_contenders
from _multitables.benchmark.contenders.small_contenders import OPEN, PEER, QUEUE
from _multitables.benchmark.contract import Measurement, Sample, WrongDataError
from _multitables.benchmark.data import structures
from _multitables.benchmark.data.structures import EqualDatasets
from _multitables.benchmark.loops import remote_loop, small_loop
from _multitables.benchmark.studies.small import parts

GZIP = EqualDatasets("gzip", 3, 300, level=1, columns=8)


def written(made: EqualDatasets, directory: Path) -> str:
    return structures.in_directory(made, str(directory))


def test_equal_datasets_have_values_of_their_own(tmp_path: Path) -> None:
    with h5py.File(written(GZIP, tmp_path)) as file:
        found = [file[path] for path in GZIP.paths()]
        assert [(one.shape, one.chunks, one.compression) for one in found] == [
            ((300, 8), (256, 8), "gzip")
        ] * 3
        assert sum(one.nbytes for one in found) == GZIP.decoded_bytes
        assert len({one[...].tobytes() for one in found}) == 3
    plain = EqualDatasets("plain", 1, 300, columns=8, seed=2)
    with h5py.File(written(GZIP, tmp_path)) as file, h5py.File(written(plain, tmp_path)) as other:
        assert other["signals/0000"].chunks is None
        np.testing.assert_array_equal(other["signals/0000"][...], file["signals/0002"][...])


def found(recipe: str, place: str, paths: list[str], verb: str) -> Any:
    asked = {"recipe": recipe, "filename": place, "paths": paths, "verb": verb}
    return small_loop.LOOP.answer(multitables, asked)["found"]


@pytest.mark.parametrize("recipe", ["open", "queue", "collection"])
def test_all_read_the_same_datasets(recipe: str, tmp_path: Path) -> None:
    place, paths = written(GZIP, tmp_path), GZIP.paths()
    right = found("h5py", place, paths, "check")
    assert right["rows"] == 900
    assert found(recipe, place, paths, "check") == right
    assert found(recipe, place, paths[::-1][:2], "check")["rows"] == (
        900 if recipe == "collection" else 600
    )
    assert found(recipe, place, paths, "time")["n_bytes"] == GZIP.decoded_bytes


def test_both_read_the_same_files(tmp_path: Path) -> None:
    many = [EqualDatasets(f"{n}", 1, 100, columns=4, seed=n) for n in range(4)]
    names = [written(one, tmp_path) for one in many]
    path = many[0].paths()[0]
    right = found("h5py, files", path, names, "check")
    assert right["rows"] == 400
    assert found("files", path, names, "check") == right
    timed = found("files", path, names, "time")
    assert timed["n_bytes"] == 4 * many[0].decoded_bytes
    assert 0 < timed["first_seconds"] <= timed["seconds"]


@pytest.mark.parametrize("recipe", ["whole", "queue"])
def test_an_object_as_a_whole(recipe: str, tmp_path: Path) -> None:
    place, path = written(GZIP, tmp_path), GZIP.paths()[1]
    asked: dict[str, Any] = {"recipe": recipe, "url": place, "path": path, "task": "whole"}
    asked |= {"store": {}, "clock": "", "n_procs": 1}
    answers = {
        verb: remote_loop.LOOP.answer(multitables, {**asked, "verb": verb})["found"]
        for verb in ("check", "time")
    }
    assert answers["check"] == found("h5py", place, [path], "check")
    assert answers["time"]["n"] == GZIP.decoded_bytes // 3
    if recipe == "queue":
        assert 0 < answers["time"]["counts"]["first_seconds"] <= answers["time"]["seconds"]


def test_fresh_processes_read_the_same(tmp_path: Path) -> None:
    bytecode = tmp_path / "bytecode"
    place = written(GZIP, tmp_path), GZIP.paths()[0]
    everybody = small_contenders.processes(*place, str(bytecode))
    digests = [one.check() for one in everybody]
    assert digests[0] == digests[1]
    assert digests[0] is not None
    assert digests[0]["rows"] == 300
    assert [*bytecode.rglob("multitables.*.pyc")]


def test_what_a_figure_is_made_of() -> None:
    (one,) = small_contenders.datasets("x.h5", ["/a", "/b"], 80, [OPEN])
    answer = {"seconds": 0.5, "first_seconds": 0.1, "n_bytes": 80}
    assert getattr(one, "figure")(answer).value == 250  # noqa: B009  of an Asked
    with pytest.raises(WrongDataError, match="79 n_bytes"):
        getattr(one, "figure")({**answer, "n_bytes": 79})  # noqa: B009
    parts_of = Sample(2.0, {"discovery": 0.25, "start": 0.5})
    assert small_contenders._total(lambda _found: parts_of, {}).value == 2750


def test_smoke_of_small_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parts, "WANTED", {("gzip", 2**10): {OPEN: 2, QUEUE: 1.2}})
    assert multitables_benchmark.main(["small", "--smoke", "--part", "datasets"]) == 0
    out = capsys.readouterr().out
    assert "3 of 1 KiB, gzip 1, ms each: multitables queue / h5py" in out
    assert ">= 1.2x" in out
    kept = rows_of("small")
    assert [row["contender"] for row in kept] == [OPEN, QUEUE, PEER]
    assert {row["unit"] for row in kept} == {"ms"}
    assert left_behind(tmp_path) == []


def test_wrong_rows_end_a_run_with_status_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def people(*_asked: object) -> list[Measurement]:
        right = {"rows": 1, "in_order": "a", "any_order": "a"}
        wrong = {"rows": 1, "in_order": "b", "any_order": "b"}
        return [
            Measurement(QUEUE, lambda: Sample(1.0), lambda: wrong),
            Measurement(PEER, lambda: Sample(2.0), lambda: right),
        ]

    monkeypatch.setattr(small_contenders, "datasets", people)
    monkeypatch.setattr(parts, "WANTED", {("none", 2**10): {QUEUE: 1}})
    assert multitables_benchmark.main(["small", "--smoke", "--part", "datasets"]) == 1
    assert [row["contender"] for row in rows_of("small")] == [PEER]
    with open("results/multitables_small.json") as file:
        (target,) = json.load(file)["targets"]
    assert target["measured"] == "-"
    assert "data differs" in target["note"]
