"""From measurements to a table: turns, medians, ratios, verdicts.

Law
---
1. Figures are given, never measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from faulty_libraries import FakeGuard

from _multitables.benchmark import contract
from _multitables.benchmark.harness import rounds
from _multitables.benchmark.loops import stream_loop
from _multitables.benchmark.report.figures import Figures
from _multitables.benchmark.report.tables import aligned
from _multitables.benchmark.studies.targets import parts as target_parts
from _multitables.benchmark.studies.verdicts import OTHERS, Wanted, judged, side
from _multitables.benchmark.studies.views import target_table


def rows(who: str, *values: float, unit: str = "MB/s", **more: str) -> list[dict[str, str]]:
    """A row of each round."""
    key = {"contender": who, "unit": unit, **more}
    return [{**key, "round": str(n), "value": str(one)} for n, one in enumerate(values)]


@pytest.mark.parametrize(
    ("found", "wanted", "said"),
    [
        ([rows("multitables", 10, 30, 20), rows("h5py", 10, 10, 10)], {"least": 2}, "met"),
        ([rows("multitables", 19.9), rows("h5py", 10)], {"least": 2}, "MISSED"),
        ([rows("multitables", 10)], {"least": 2}, "not measured"),
        ([rows("multitables", 1, 9, 2, unit="us")], {"theirs": (), "most": 2.5}, "met"),
        ([rows("multitables", 3, unit="us")], {"theirs": (), "most": 3}, "MISSED"),
        ([], {"theirs": (), "most": 3}, "not measured"),
        ([rows("multitables", 3)], {"theirs": (), "least": 3}, "met"),
        ([rows("multitables", 2, unit="ms"), rows("h5py", 4, unit="ms")], {"least": 2}, "met"),
        (
            [rows("multitables", 1, requests="2"), rows("h5py", 1, requests="20")],
            {"least": 10, "column": "requests"},
            "met",
        ),
    ],
)
def test_verdicts(found: list[Any], wanted: dict[str, Any], said: str) -> None:
    target = Wanted(**{"ours": "multitables", "theirs": ("h5py",), **wanted})
    figures = Figures([row for some in found for row in some])
    reasons = {} if figures.where(contender="h5py").rows else {"h5py": "why"}
    one = judged("case", target, figures, reasons)
    assert one.verdict == said
    assert said != "not measured" or (one.measured, one.note) in {("-", "why"), ("-", "")}
    little = judged("case", target, figures, {}, counts=False)
    assert little.verdict == ("not measured" if said == "not measured" else "not judged")


def test_a_verdict_says_what_was_compared() -> None:
    found = [*rows("multitables queue x1", 10, 30, 20), *rows("h5py slow", 1, 1, 1)]
    found += rows("h5py", 10, 10, 10)
    one = judged("none", Wanted("multitables queue", ("h5py",), 2), Figures(found), {})
    assert one.what == "none: multitables queue x1 / h5py"
    assert (one.measured, one.wanted) == ("2x (1-3)", ">= 2x")
    table = target_table([one, judged("none", Wanted("multitables x"), Figures([]), {})]).text()
    assert "met" in table
    assert "not measured" in table


def test_a_longer_name_does_not_stand_in_for_one_that_is_left_out() -> None:
    found = Figures([*rows("multitables", 10), *rows("h5py, DataLoader", 1)])
    wanted = Wanted("multitables", ("h5py",), 2)
    assert judged("c", wanted, found, {"h5py": "why"}).verdict == "not measured"
    assert judged("c", wanted, found, {}).what == "c: multitables / h5py, DataLoader"


def test_a_fault_has_no_verdict() -> None:
    faults = [{"contender": "multitables", "fault": "data differs"}]
    one = judged("c", Wanted("multitables", most=3), Figures(rows("multitables", 1), faults), {})
    assert one.verdict == "not measured"


def test_the_wanted_figures_are_those_of_the_issue() -> None:
    least = {target_parts.DATASETS[name].title: one for name, one in target_parts.LEAST.items()}
    assert least == {
        "no filter": 6,
        "blosc (blosclz 5)": 3,
        "blosc:lz4 5": 3.3,
        "zlib 3 with shuffle": 4,
    }
    assert target_parts.MIN_GENERATOR == 2.5


def test_each_side_is_at_its_best() -> None:
    found = [*rows("multitables x1", 1, 9, 2), *rows("multitables x2", 3, 3, 3), *rows("old", 99)]
    figures = Figures(found)
    assert side(figures, ("multitables",)).first("contender") == "multitables x2"
    assert side(figures, ("multitables x1",)).first("contender") == "multitables x1"
    assert side(figures, OTHERS).first("contender") == "old"
    assert side(figures, ("none",)).rows == []


def test_contenders_take_turns() -> None:
    order = list(rounds.turns(["a", "b", "c"], range(3)))
    assert [name for _, name in order] == ["a", "b", "c", "b", "c", "a", "c", "a", "b"]
    assert [number for number, _ in order] == [0, 0, 0, 1, 1, 1, 2, 2, 2]


def test_the_median_and_its_spread() -> None:
    assert str(rounds.summary([3.0, 1.0, 2.0])) == "2 (1-3)"
    assert str(rounds.summary([3.0])) == "3"
    assert contract.Sample.of(2.0, 4_000_000).value == 2.0


def test_the_text_table_is_aligned() -> None:
    text = aligned(["name", "n", "note"], [["a", "10", "x"], ["long", "9", "yy"]], ["note"])
    assert text.split("\n") == ["name   n  note", "----  --  ----", "a     10  x", "long   9  yy"]


def test_a_timed_pass_is_whole_and_after_what_was_read_ahead() -> None:
    taken = []

    class Endless:
        def get(self) -> FakeGuard:
            taken.append(64)
            return FakeGuard(np.zeros((64, 1)))

        def close(self) -> None:
            taken.append(0)

    class Streamer:
        def get_queue(self, _path: str, n_procs: int, cyclic: bool) -> Endless:
            assert cyclic
            return Endless()

        def get_generator(self, _path: str, n_procs: int, cyclic: bool) -> Iterator[int]:
            assert cyclic
            while True:
                taken.append(1)
                yield 0

    ahead_rows = 2 * stream_loop.AHEAD_BYTES // 2**20
    found = stream_loop.timed_pass(Streamer(), "/x", "queue", 2, 6400, 2**20)
    assert found[1] == 6400 * 2**20
    assert sum(taken) == -(-ahead_rows // 64) * 64 + 6400
    assert taken[-1] == 0

    taken.clear()
    found = stream_loop.timed_pass(Streamer(), "/x", "generator", 2, 777, 2**20)
    assert found[1] == 777 * 2**20
    assert sum(taken) == ahead_rows + 777
