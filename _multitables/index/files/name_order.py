"""Names in the order that people expect: "shot 9" is before "shot 10".

Law
---
1. Numbers in a name count as numbers, everywhere: in names of files, keys and datasets.
2. Any two names can be compared, and only equal ones are equal.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

_NUMBER = re.compile("([0-9]+)")


@lru_cache(maxsize=1 << 16)
def natural(name: str) -> tuple[Any, ...]:
    """Return what sorts names by the numbers in them."""
    # Text and numbers take turns, so that equal places are of one type.
    parts = _NUMBER.split(name)
    return tuple(_number(part) if at % 2 else part for at, part in enumerate(parts)), name


def _number(digits: str) -> tuple[int, str]:
    """Return what compares as the number; Python makes no number of thousands of digits."""
    digits = digits.lstrip("0")
    return len(digits), digits
