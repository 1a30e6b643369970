"""Every public call on damaged files, references, indexes and states: errors of our own only.

1. Some variants of each file, drawn anew for each size of it; ``tools/damage.py calls`` takes more.
"""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from public_values import KINDS, value_leaks
from public_walk import FILES, GOOD, leaks

VARIANTS = {"objects earliest": 20, "objects latest": 10}


@pytest.mark.hang(180)
@pytest.mark.parametrize("name", FILES)
def test_no_foreign_exception(name: str, tmp_path: Path) -> None:
    first, count = zlib.crc32(name.encode()), VARIANTS.get(name, 6)
    numbers = [GOOD, *range(first, first + count)]
    assert list(leaks(name, tmp_path, numbers, readers=False)) == []
    assert list(leaks(name, tmp_path, numbers[:2], readers=True)) == []


@pytest.mark.hang(180)
@pytest.mark.parametrize("kind", KINDS)
def test_no_foreign_exception_of_a_value(kind: str, tmp_path: Path) -> None:
    first = zlib.crc32(kind.encode())
    assert list(value_leaks(kind, tmp_path, [GOOD, *range(first, first + 30)])) == []
