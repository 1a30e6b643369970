"""Faults x readings x moments: a sample of the table; tools/chaos.py runs thousands.

1. The seed is another one in each run, and is printed; a schedule runs again by it and its number.
2. Right data, or an error that the fault's row names, within the deadline, and nothing is left.
"""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest
from failing_calls import missing_compiler
from moments import FAULTS
from readings import READINGS
from schedules import Runner, Schedule

SAMPLE = 32


def test_every_fault_meets_every_reading_that_it_is_for() -> None:
    """Numbers go through the whole table with any seed."""
    for seed in (0, 12345):
        drawn = (Schedule.of(seed, n) for n in range(len(FAULTS) * len(READINGS)))
        met = {(schedule.fault_name, schedule.reading) for schedule in drawn}
        assert met == {(f, r) for f, fault in FAULTS.items() for r in READINGS if fault.is_for(r)}


@pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler())
@pytest.mark.hang(240)
def test_a_sample_of_schedules(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    print(f"tools/chaos.py --seed {seed}")
    with Runner(tmp_path / "run", seed) as runner:
        wrong = [str(verdict) for n in range(SAMPLE) if (verdict := runner.run(n)).wrong]
    assert not wrong, f"seed {seed}:\n" + "\n".join(wrong)


#: Rows of the table that random schedules seldom meet at the moments that count.
SELDOM = (
    # Each of the few calls is met: of a plan, of a ring.
    ("ENOMEM of mmap, parent", "queue", 10, {"SharedMemoryError"}),
    # A thread that waits for a store is done without; that of a beginning reader is not.
    ("EAGAIN of pthread_create, reader, for ever", "remote", 2, {"right", "ReaderDiedError"}),
)


@pytest.mark.skipif(bool(missing_compiler()), reason=missing_compiler())
@pytest.mark.parametrize(("fault", "reading", "count", "ends"), SELDOM)
def test_a_row_that_is_seldom_met(
    fault: str, reading: str, count: int, ends: set[str], tmp_path: Path
) -> None:
    drawn = (Schedule.of(0, number) for number in range(1 << 16))
    rows = (s for s in drawn if (s.fault_name, s.reading) == (fault, reading))
    with Runner(tmp_path / "run", 0) as runner:
        verdicts = [runner.run(schedule.number) for schedule in itertools.islice(rows, count)]
    assert not [str(verdict) for verdict in verdicts if verdict.wrong]
    assert {verdict.end for verdict in verdicts} <= ends
