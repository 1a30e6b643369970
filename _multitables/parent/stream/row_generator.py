"""The rows of a stream, one at a time.

Law
---
1. Rows are copies that may be kept; a block is given back before its rows are yielded.
2. The stream ends with the generator, however it is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from _multitables.parent.stream.stream_queue import StreamQueue


def iterate_rows(stream: StreamQueue, names: list[Any] | None) -> Iterator[Any]:
    """Yield the rows of `stream` one at a time, from copies that may be kept.

    `names` is None for one dataset, [] for a tuple of them, or the keys of a dict.
    """
    try:
        for guard in stream.iter():
            with guard as block:
                copy = _copy(block, names)
            del guard, block
            if names is None:
                yield from copy
            elif not names:
                yield from zip(*copy, strict=True)
            else:
                for row in zip(*copy, strict=True):
                    yield dict(zip(names, row, strict=True))
    finally:
        stream.close()


def _copy(block: Any, names: list[Any] | None) -> Any:
    if names is None:
        return block.copy()
    members = block.values() if names else block
    return [member.copy() for member in members]
