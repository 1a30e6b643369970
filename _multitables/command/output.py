"""Records of a sub-command as lines: JSON, or text in columns.

Law
---
1. A record is a dict whose values are Python's and NumPy's; both outputs are made of it.
2. JSON is one object a line. Numbers that JSON lacks are texts: "nan", "inf", "-inf".
3. Lines come while the file is read: the first rows decide how wide columns are at least.
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from _multitables.parent.titles import printable, size

Record = dict[str, Any]
#: Rows that are looked at before the first is printed.
LOOKED_AT = 200
#: Wider columns do not make the other rows wider.
WIDEST = 48


def json_line(record: Record) -> str:
    """Return a record as JSON."""
    return json.dumps(plain(record), allow_nan=False)


def plain(value: Any) -> Any:
    """Return a value in JSON's types."""
    if isinstance(value, np.void) and value.dtype.names:
        return {name: plain(value[name]) for name in value.dtype.names}
    if isinstance(value, np.ndarray):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    return str(value).encode("utf-8", "backslashreplace").decode()


def columns(rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Yield rows of cells as lines whose cells begin below each other."""
    left, widths = iter(rows), [0]
    while some := list(itertools.islice(left, LOOKED_AT)):
        for row in some:
            widths += [0] * (len(row) - len(widths))
            for at, cell in enumerate(row):
                widths[at] = max(widths[at], min(len(cell), WIDEST))
        for row in some:
            cells = zip(row, widths, strict=False)
            yield "  ".join(cell.ljust(width) for cell, width in cells).rstrip()


def of_decoded(stored: int, decoded: int | None) -> str:
    """Return the stored bytes beside the decoded ones: ``196 kB of 16.4 MB``."""
    is_more = decoded is not None and decoded != stored
    return f"{size(stored)} of {size(decoded or 0)}" if is_more else size(stored)


def shortened(text: object) -> str:
    """Return a text that fits into a column."""
    whole = printable(text)
    return whole if len(whole) <= WIDEST else f"{whole[: WIDEST - 3]}..."
