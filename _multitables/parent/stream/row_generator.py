"""The rows of a stream, one at a time.

Law
---
1. Rows are copies that may be kept; a block is given back before its rows are yielded.
2. The stream ends with the generator, however it is left.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from _multitables.tree import Structure


class Stream(Protocol):
    """Blocks that come as guards."""

    def iter(self) -> Iterator[Any]:
        """Yield guards until the stream is over."""

    def close(self) -> None:
        """End the stream."""


def iterate_rows(stream: Stream, structure: Structure) -> Iterator[Any]:
    """Yield the rows of `stream` one at a time, from copies that may be kept."""
    try:
        for guard in stream.iter():
            with guard as block:
                copies = [array.copy() for array in structure.arrays(block)]
            del guard, block
            yield from structure.rows(copies)
    finally:
        stream.close()
