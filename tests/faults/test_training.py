"""Training that is killed and resumed: a sample of tools/kill_and_resume.py.

1. The seed is another one in each run, and is printed.
2. Every row and sample comes exactly once in each epoch, and no process is left.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import training

ALONE = [name for name, unit in training.UNITS.items() if unit.ranks == 1]
TOGETHER = [name for name in training.UNITS if name not in ALONE]


@pytest.mark.hang(240)
@pytest.mark.parametrize("units", [ALONE, TOGETHER], ids=["one rank", "two ranks"])
def test_a_sample_of_kills(tmp_path: Path, units: list[str]) -> None:
    seed = random.SystemRandom().randrange(1 << 30)
    draw = random.Random(seed)
    name = draw.choice(units)
    print(f"seed {seed}: {name}")
    training.write(tmp_path)
    training.Training(tmp_path, name, draw).run(2)
