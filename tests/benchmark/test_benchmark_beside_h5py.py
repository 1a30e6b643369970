"""This library beside h5py, as the first command and `explain` say it.

Law
---
1. The record is the command's, of a file of some kB; tables are made from made-up records.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables_benchmark
from _multitables.benchmark.contenders import beside_h5py
from _multitables.benchmark.contract import ContenderError
from _multitables.benchmark.harness import results
from _multitables.benchmark.report import charts
from _multitables.benchmark.studies import beside
from _multitables.benchmark.studies.sweep import study as device_sweep


def made(directory: Path) -> str:
    filename = str(directory / "run7.h5")
    with h5py.File(filename, "w") as file:
        file["x"] = np.arange(6000).reshape(2000, 3)
    return filename


RECORD: dict[str, Any] = {
    "why_no_h5py": None,
    "compared": True,
    "page_cache": "warm",
    "h5py": {"mb_per_second": 100.4, "seconds": [3.0, 2.0]},
    "multitables": {"mb_per_second": 620.0, "seconds": [0.5, 0.4]},
    "times_as_fast": 6.175,
}


def test_the_record_is_of_the_command(tmp_path: Path) -> None:
    found = beside_h5py.measured(made(tmp_path), "/x", 0.05)
    assert (found["rows"], found["compared"], found["why_no_h5py"]) == (2000, True, None)
    ratio = found["multitables"]["mb_per_second"] / found["h5py"]["mb_per_second"]
    assert found["times_as_fast"] == pytest.approx(ratio)


def test_a_refusal_of_the_command_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ContenderError, match=r"multitables bench: .*no_such"):
        beside_h5py.measured(made(tmp_path), "/no_such", 0.05)


def shown(record: dict[str, Any]) -> list[str]:
    (table,) = beside.tables([{"place": "/x", "dataset": "a", "record": record}], place="/x")
    return list(table.rows[0])


def test_what_is_shown_of_a_record() -> None:
    assert shown(RECORD) == ["a", "100", "620", "6.2x", "warm", "compared"]
    short = RECORD | {"multitables": {"mb_per_second": 620.0, "seconds": [0.01]}}
    assert "opening and starting take a good part" in shown(short)[-1]
    assert "not compared, as types differ" in shown(RECORD | {"compared": False})[-1]
    alone = RECORD | {"why_no_h5py": "h5py is not installed", "h5py": None, "times_as_fast": None}
    assert shown(alone) == ["a", "-", "620", "-", "warm", "not compared: h5py is not installed"]
    assert beside.tables([], place="/x") == beside.tables([{"place": "/y"}], place="/x") == []


@pytest.mark.usefixtures("few_filters")
def test_the_first_command_compares_each_dataset_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    asked: list[str] = []

    def measured(filename: str, path: str, seconds: float) -> dict[str, Any]:
        asked.append(path)
        assert seconds == device_sweep.SMOKE_BESIDE_SECONDS
        return RECORD

    monkeypatch.setattr(beside_h5py, "measured", measured)
    words = ["--smoke", "--complevel=0,3", "--access=queue", "--processes=1"]
    assert multitables_benchmark.main(words) == 0
    out = capsys.readouterr().out
    head, _, _rest = out.partition("Direct queue")
    for name in ("noise none 0", "noise blosc 3"):
        (line,) = [line for line in head.splitlines() if line.startswith(name)]
        assert line.split()[3:] == ["100", "620", "6.2x", "warm", "compared"]
    assert len(asked) == 2
    assert multitables_benchmark.main([*words, "--resume"]) == 0
    assert len(asked) == 2
    kept = results.read("results", "sweep")
    assert kept is not None
    assert [one["dataset"] for one in kept.more[beside_h5py.NAME]] == [
        "noise none 0",
        "noise blosc 3",
    ]


@pytest.mark.usefixtures("few_filters")
def test_rows_that_differ_fail_the_first_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*_: object) -> dict[str, Any]:
        raise ContenderError("rows are not those that h5py reads")

    monkeypatch.setattr(charts, "can_draw", lambda: False)
    monkeypatch.setattr(beside_h5py, "measured", wrong)
    words = ["--smoke", "--complevel=0", "--access=queue", "--processes=1"]
    assert multitables_benchmark.main(words) == 1
    assert "rows are not those that h5py reads" in capsys.readouterr().out
