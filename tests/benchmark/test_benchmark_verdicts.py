"""From measurements to a table: turns, medians, ratios, verdicts.

Law
---
1. Figures are given, never measured.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from faulty_libraries import FakeGuard
from runs import some_run

from _benchmark import contract
from _benchmark.harness import rounds
from _benchmark.loops import stream_loop
from _benchmark.report.tables import aligned
from _benchmark.studies.targets import parts as target_parts
from _benchmark.studies.targets import views as target_views
from _benchmark.studies.targets.verdicts import best, limit_target, ratio_target


def test_verdicts(tmp_path: Path) -> None:
    run = some_run(tmp_path)
    run.results.__exit__(None, None, None)
    run.judge(ratio_target("a", [10, 30, 20], [10, 10, 10], 2, ""))
    run.judge(ratio_target("b", [19.9], [10], 2, ""))
    run.judge(ratio_target("c", [10], None, 2, "why"))
    run.judge(limit_target("d", [1, 9, 2], 2.5, "us"))
    run.judge(limit_target("e", [3], 3, "us"))
    run.judge(limit_target("f", None, 3, "us", "why"))
    verdicts = [(one.what, one.verdict) for one in run.targets]
    assert verdicts == [
        ("a", "met"),
        ("b", "MISSED"),
        ("c", "not measured"),
        ("d", "met"),
        ("e", "MISSED"),
        ("f", "not measured"),
    ]
    assert run.targets[0].measured == "2.00x (1.00-3.00)"
    run.judged = False
    run.judge(limit_target("g", [1], 3, "us"))
    assert (run.targets[-1].measured, run.targets[-1].verdict) == ("1 us", "not judged")
    table = target_views.target_table(run.targets).text()
    assert "MISSED" in table
    assert "why" in table


def test_the_wanted_figures_are_those_of_the_issue() -> None:
    least = {dataset.title: dataset.least for dataset in target_parts.DATASETS.values()}
    assert least == {
        "no filter": 6,
        "blosc (blosclz 5)": 3,
        "blosc:lz4 5": 3.3,
        "zlib 3 with shuffle": 4,
    }
    assert target_parts.MIN_GENERATOR == 2.5


def test_the_best_is_by_median() -> None:
    rates = {"new x1": [1.0, 9.0, 2.0], "new x2": [3.0, 3.0, 3.0], "old x1": [99.0]}
    assert best(rates, "new") == "new x2"
    assert best(rates, "none") is None


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
