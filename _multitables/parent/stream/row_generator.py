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
from _multitables.tree import Structure


def iterate_rows(stream: StreamQueue, structure: Structure) -> Iterator[Any]:
    """Yield the rows of `stream` one at a time, from copies that may be kept."""
    try:
        for guard in stream.iter():
            with guard as block:
                copies = [array.copy() for array in structure.arrays(block)]
            del guard, block
            yield from structure.rows(copies)
    finally:
        stream.close()
