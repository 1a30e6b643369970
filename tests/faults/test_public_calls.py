"""Every public call on damaged files: the library raises errors of its own only.

1. Some variants of each file, drawn anew for each size of it; ``tools/damage.py calls`` takes more.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from public_walk import FILES, GOOD, leaks

VARIANTS = {"objects earliest": 20, "objects latest": 10}


@pytest.mark.hang(180)
@pytest.mark.parametrize("name", FILES)
def test_no_foreign_exception(name: str, tmp_path: Path) -> None:
    first, count = zlib.crc32(name.encode()), VARIANTS.get(name, 6)
    numbers = [GOOD, *range(first, first + count)]
    assert list(leaks(name, tmp_path, numbers, readers=False)) == []
    assert list(leaks(name, tmp_path, numbers[:2], readers=True)) == []
