"""Every unit with every order, ranks, resume, files and damage: each sample comes once an epoch.

1. The oracle is NumPy on the whole data. A sample with elements of a damaged chunk does not come,
   and every other one does.
2. Cases are drawn from a seed, which a failure names; ``MT_UNIT_SEED`` draws others.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import unit_cases
from processes import environment
from unit_cases import UNITS, Case, Unit, cases

import multitables

SEED = int(os.environ.get("MT_UNIT_SEED", "7"))
COUNT = 68


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return unit_cases.write_all(tmp_path_factory.mktemp("units"))


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_a_killed_reader_loses_nothing(files: Any, unit: Unit) -> None:
    check(files, Case(unit, "window", "one", False, False, 2, 5, (1, 4), 2, (2, 9), True))


@pytest.mark.parametrize("case", list(cases(SEED, COUNT)), ids=lambda case: f"seed {SEED}: {case}")
def test_each_sample_comes_once(files: Any, case: Case) -> None:
    check(files, case)


def check(files: Any, case: Case) -> None:
    with (
        warnings.catch_warnings(record=True) as seen,
        multitables.Streamer(files[case.files, case.damaged]) as streamer,
    ):
        warnings.simplefilter("always")
        found = case.run(streamer)
    kept = Counter({one: n for one, n in case.wanted().items() if not case.is_lost(one)})
    assert {one.category for one in seen} <= {multitables.CorruptChunkWarning}
    if case.unit.name == "drawn":
        assert found.keys() <= kept.keys()
        assert sum(found.values()) <= 80
        return
    assert found == kept, case


KILLED = """
import json, os, signal, sys
import multitables, unit_cases
from unit_cases import UNITS, Case

if __name__ == "__main__":
    streamer = multitables.Streamer(sys.argv[1])
    held = []
    for unit in UNITS:
        case = Case(unit, sys.argv[2], "one", False, False, 1, 5, (2, 4), 2, (1, 9), False)
        loader = unit.loader(streamer, case, 1, 2, 4)
        iterator = iter(loader)
        delivered = [one for _ in range(2) for one in unit.split(next(iterator))]
        hexes = [[one.hex() for one in each] for each in delivered]
        print(json.dumps([loader.state_dict(), hexes]))
        next(iterator, None)
        held.append((loader, iterator))
    sys.stdout.flush()
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_rank_goes_on_where_its_last_state_was_saved(files: Any, tmp_path: Path) -> None:
    program = tmp_path / "killed.py"
    program.write_text(KILLED)
    name = files["one", False]
    ended = subprocess.run(
        [sys.executable, str(program), str(name), "window"],
        env=environment(), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    lines = ended.stdout.splitlines()
    with multitables.Streamer(name) as streamer:
        for unit, line in zip(UNITS, lines, strict=True):
            state, delivered = json.loads(line)
            case = Case(unit, "window", "one", False, False, 1, 5, (2, 4), 2, (1, 9), False)
            found = Counter(tuple(map(bytes.fromhex, one)) for one in delivered)
            for rank in range(2):
                with unit.loader(streamer, case, rank, 2, 4) as loader:
                    if rank:
                        loader.load_state_dict(state)
                    for batch in loader:
                        found.update(unit.split(batch))
            if unit.name != "drawn":
                assert found == case.wanted(), unit.name
