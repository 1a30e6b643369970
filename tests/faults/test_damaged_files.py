"""Files that were cut short, or have a byte that is another one: an error, or what h5py reads.

1. Some places of each layout, drawn anew for each size of the file; ``tools/damage.py`` takes all.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from damaged_files import LAYOUTS, wrong

PLACES = 15


def some(n_variants: int) -> list[int]:
    return sorted(
        np.random.default_rng(n_variants).choice(n_variants, PLACES, replace=False).tolist()
    )


@pytest.mark.hang(180)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_damaged_file(layout: str, tmp_path: Path) -> None:
    assert list(wrong(layout, tmp_path, some)) == []
