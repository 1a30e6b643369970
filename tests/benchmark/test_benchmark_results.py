"""What a run keeps: rows that survive any end, and that a later run goes on from.

Law
---
1. No row is lost or doubled, and none of another machine or other settings comes among them.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from runs import case_of, measured, rows_of, study_run

import multitables_benchmark
from _multitables.benchmark.contract import (
    ContenderError,
    Digest,
    Measurement,
    NotMeasuredError,
    Sample,
    WrongDataError,
)
from _multitables.benchmark.harness import results
from _multitables.benchmark.harness.results import CannotResumeError, ResultFile
from _multitables.benchmark.studies.frame import Case, Prepared

COLUMNS = ("who", "round", "value")
FACTS = {"machine": "mine", "device": "disk"}
SETTINGS = {"size": 1.0, "processes": (1, 2)}


def result_file(directory: Path, resume: bool = False, **changed: object) -> ResultFile:
    options = {"columns": COLUMNS, "facts": FACTS, "settings": SETTINGS} | changed
    return ResultFile(str(directory), "x", resume=resume, **options)  # type: ignore[arg-type]


def test_a_resumed_run_has_the_rows_of_the_one_before(tmp_path: Path) -> None:
    with result_file(tmp_path) as file:
        file.add(who="a", round=0, value=1.25)
        file.add(who="a", round=1, value=None)
        assert file.earlier(who="a") == []
    with result_file(tmp_path, resume=True) as file:
        assert [row["value"] for row in file.earlier(who="a")] == ["1.25", ""]
        assert file.earlier(who="a", round=0)[0]["device"] == "disk"
        assert file.earlier(who="b") == []
        file.add(who="b", round=0, value=2)
        assert file.earlier(who="b") == []  # that is this run's own
        file.save_json(faults=["none"])
    kept = results.read(str(tmp_path), "x")
    assert kept is not None
    assert [(row["who"], row["value"]) for row in kept.rows] == [
        ("a", "1.25"),
        ("a", ""),
        ("b", "2"),
    ]
    assert kept.more["faults"] == ["none"]
    assert kept.more["settings"] == {"size": 1.0, "processes": [1, 2]}


def test_without_resume_a_run_starts_afresh(tmp_path: Path) -> None:
    with result_file(tmp_path) as file:
        file.add(who="a", round=0, value=1)
    with result_file(tmp_path) as file:
        assert file.rows == []
    assert results.read_rows(file.filename) == []


def test_nothing_to_resume_is_a_fresh_run(tmp_path: Path) -> None:
    with result_file(tmp_path, resume=True) as file:
        assert file.rows == []
    assert results.read(str(tmp_path), "another") is None


def test_a_row_that_was_cut_short_is_left_out(tmp_path: Path) -> None:
    with result_file(tmp_path) as file:
        file.add(who="a", round=0, value=1)
        file.add(who="b", round=0, value=2)
    text = Path(file.filename).read_text()
    for cut in (3, len("b,0,2,mine,disk\n") - 1):
        Path(file.filename).write_text(text[:-cut])
        with result_file(tmp_path, resume=True) as again:
            assert [row["who"] for row in again.rows] == ["a"]
            again.add(who="c", round=0, value=3)
        assert [row["who"] for row in results.read_rows(file.filename)] == ["a", "c"]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"settings": {**SETTINGS, "size": 2.0}}, "--size"),
        ({"settings": {"size": 1.0}}, "--processes"),
        ({"columns": ("who", "value")}, "columns"),
        ({"facts": {**FACTS, "machine": "yours"}}, "there mine, here yours"),
    ],
)
def test_rows_of_another_run_are_refused(
    changed: dict[str, object], said: str, tmp_path: Path
) -> None:
    with result_file(tmp_path) as file:
        file.add(who="a", round=0, value=1)
    before = Path(file.filename).read_text()
    with pytest.raises(CannotResumeError, match="cannot be resumed") as caught:
        result_file(tmp_path, resume=True, **changed)
    assert said in str(caught.value)
    assert Path(file.filename).read_text() == before


def test_facts_of_a_place_may_differ_from_row_to_row(tmp_path: Path) -> None:
    with result_file(tmp_path) as file:
        file.add(who="a", round=0, value=1)
        file.describe({**FACTS, "device": "another disk"})
        file.add(who="b", round=0, value=1)
    with result_file(tmp_path, resume=True) as file:
        assert [row["device"] for row in file.rows] == ["disk", "another disk"]


def test_a_figure_that_is_there_is_not_measured_again(tmp_path: Path) -> None:
    calls: list[str] = []

    def timed() -> Sample:
        calls.append("timed")
        return Sample(float(len(calls) - 1))

    def checked() -> Digest:
        calls.append("checked")
        return {}

    who = Measurement("who", timed, checked)
    for resume in (False, True):
        run = measured(study_run(tmp_path, case_of(who), resume=resume, rounds=2))
        assert [row["value"] for row in run.results.rows] == ["1.0", "2.0"]
    assert calls == ["checked", "timed", "timed"]


def test_files_of_a_case_that_is_kept_are_not_written_again(tmp_path: Path) -> None:
    written: list[str] = []

    def prepare(_stack: ExitStack) -> Prepared:
        written.append("file")
        return Prepared([Measurement("who", lambda: Sample(1.0))])

    case = Case({"part": "part", "dataset": "data"}, prepare, names=["who"])
    for resume, rounds in ((False, 1), (True, 1), (True, 2)):
        measured(study_run(tmp_path, case, resume=resume, rounds=rounds))
    assert written == ["file"] * 2  # the last has one more round


def test_one_that_fails_is_not_measured_again(tmp_path: Path) -> None:
    tries: list[str] = []

    def failing() -> Sample:
        tries.append("failing")
        if len(tries) == 2:
            raise ContenderError("it broke")
        return Sample(1.0)

    both = case_of(Measurement("rival", failing), Measurement("other", lambda: Sample(2.0)))
    run = measured(study_run(tmp_path, both, rounds=3))
    assert tries == ["failing"] * 2
    assert run.left_out == {"rival": {"it broke": ["part, data"]}}
    assert run.faults == []
    assert [row["contender"] for row in rows_of("targets")].count("other") == 3
    assert "Not measured: rival (part, data): it broke" in run.text()


def test_a_case_that_cannot_be_prepared_leaves_the_others(tmp_path: Path) -> None:
    def refuse(_stack: ExitStack) -> Prepared:
        raise NotMeasuredError("start a server")

    cases = Case({"part": "store"}, refuse), case_of(Measurement("who", lambda: Sample(1.0)))
    run = measured(study_run(tmp_path, *cases))
    assert run.left_out == {"all": {"start a server": ["store"]}}
    assert len(run.results.rows) == 1


def test_what_a_case_opens_is_closed_behind_it(tmp_path: Path) -> None:
    events: list[str] = []

    def prepare(stack: ExitStack) -> Prepared:
        stack.callback(events.append, "closed")
        return Prepared([Measurement("who", lambda: events.append("timed") or Sample(1.0))])

    case = Case({"part": "part", "dataset": "data"}, prepare)
    measured(study_run(tmp_path, case, case))
    assert events == ["timed", "closed"] * 2


@pytest.mark.parametrize(
    ("name", "error", "is_fault"),
    [
        ("rival", NotMeasuredError("install it"), False),
        ("rival", OSError("it broke"), False),
        ("rival", WrongDataError("data differs"), True),
        ("rival", ZeroDivisionError("the benchmark's own"), True),
        ("multitables x1", NotMeasuredError("install it"), False),
        ("multitables x1", ContenderError("it broke"), True),
    ],
)
def test_which_failures_are_faults(
    name: str, error: Exception, is_fault: bool, tmp_path: Path
) -> None:
    def fail() -> Digest:
        raise error

    run = measured(study_run(tmp_path, case_of(Measurement(name, lambda: Sample(1.0), fail))))
    assert run.results.rows == []
    assert bool(run.faults) == is_fault
    assert bool(run.left_out) != is_fault


def test_resume_from_the_command_line(tmp_path: Path) -> None:
    words = ["targets", "--smoke", "--dataset", "none", "--processes", "1", "--part", "latency"]
    assert multitables_benchmark.main(words) == 0
    before = rows_of("targets")
    assert multitables_benchmark.main([*words, "--resume"]) == 0
    assert rows_of("targets") == before
    with open("results/multitables_targets.json") as file:
        assert json.load(file)["interrupted"] is False
    assert multitables_benchmark.main(["targets", "--resume", "--size", "2", *words[2:]]) == 2
