"""Sources of the blocks of a queue: a ring, requests, a file that grows, versions.

Law
---
1. A source fetches blocks. The queue alone knows its end, its errors and its turns.
2. After `end` a source holds no readers. Blocks that were taken stay valid.
"""

from __future__ import annotations

from typing import Any

from _multitables.errors import ClosedError, MultitablesError
from _multitables.parent.titles import count


class BlockSource:
    """Blocks of one stream, in order; by default of one row each, without readers."""

    block_size = 1
    #: Of several files, those that are left out, and why.
    missing_files: dict[str, MultitablesError]
    #: One thread at a time may take a block.
    takes_turns = True
    #: Blocks that were taken.
    received = 0

    def take(self, deadline: float) -> Any:
        """Return the guard of the next block, or None at the end; `queue.Empty` at the deadline."""
        raise NotImplementedError

    def guard(self, block: Any) -> BlockGuard:
        """Take a block of one row: count it, and return its guard."""
        self.received += 1
        return BlockGuard(block, (self.received - 1, self.received))

    def ready(self) -> int:
        """Count the blocks that need not be waited for."""
        return 0

    def progress(self) -> tuple[int, int | None]:
        """Return how many blocks were taken, and how many there are (None: without end)."""
        return self.received, None

    @property
    def endless(self) -> bool:
        """The stream has no last block."""
        return self.progress()[1] is None

    def statistics(self) -> dict[str, Any]:
        """Return statistics, by name."""
        return {}

    def title(self) -> tuple[str, int]:
        """Return the title of the data, and the number of readers."""
        raise NotImplementedError

    def delivered(self) -> str:
        """Say how far the stream is."""
        received, total = self.progress()
        return count(received, "block") if total is None else f"{received} of {total} blocks"

    def nothing(self) -> list[Any]:
        """Return the arrays of a block without rows."""
        raise NotImplementedError

    def is_needed(self, guard: Any) -> bool:
        """Whether readers need the memory of this block again, so that it has to be given back."""
        return True

    def memory(self) -> list[tuple[int, int, object]]:
        """Return address, bytes and owner of each mapping in which only these blocks lie.

        It lasts as long as its owner is held.
        """
        return []

    def read_amplification(self) -> float | None:
        """Estimate how often each chunk of the largest dataset is decoded in a lap, if possible."""
        return None

    def stop(self) -> bool:
        """End behind the rows that the file has now; False: the stream must be closed instead."""
        return False

    def close(self) -> None:
        """Let go of threads that wait for a block; no other block comes."""

    def end(self, sound: bool) -> None:
        """End the readers, or give them back; `sound` says that none of them failed."""


class BlockGuard:
    """One block on its way through ``with guard as block``."""

    def __init__(self, block: Any, rows: tuple[int, int]) -> None:
        self._block = block
        #: Rows of this block, counted from the start of the stream.
        self.rows = rows

    def __enter__(self) -> Any:
        if self._block is None:
            raise ClosedError(
                "the guard was used after its with block",
                advice="Keep the block itself, or get the next guard",
            )
        return self._block

    def __exit__(self, *_: object) -> None:
        self._block = None
