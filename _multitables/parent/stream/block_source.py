"""Where the blocks of a queue come from: a ring, requests, a file that grows, versions.

Law
---
1. A source fetches blocks and knows nothing of its end, its errors or its turns: these are the
   queue's.
2. After `end` a source holds no readers. Blocks that were taken stay valid.
"""

from __future__ import annotations

from typing import Any

from _multitables.errors import ClosedError, MultitablesError
from _multitables.parent.titles import count


class BlockSource:
    """Blocks of one stream, in order."""

    block_size: int
    #: Of several files, those that are left out, and why.
    missing_files: dict[str, MultitablesError]
    #: One thread at a time may take a block.
    takes_turns = True

    def take(self, deadline: float) -> Any:
        """Return the guard of the next block, or None at the end; `queue.Empty` at the deadline."""
        raise NotImplementedError

    def ready(self) -> int:
        """Count the blocks that need not be waited for."""
        raise NotImplementedError

    def progress(self) -> tuple[int, int | None]:
        """Return how many blocks were taken, and how many there are (None: without end)."""
        raise NotImplementedError

    @property
    def endless(self) -> bool:
        """The stream has no last block."""
        return self.progress()[1] is None

    def statistics(self) -> dict[str, Any]:
        """Return what else there is to know, by its name."""
        raise NotImplementedError

    def title(self) -> tuple[str, int]:
        """Return what the blocks are of, and how many readers read them."""
        raise NotImplementedError

    def delivered(self) -> str:
        """Say how far the stream is."""
        received, total = self.progress()
        return count(received, "block") if total is None else f"{received} of {total} blocks"

    def nothing(self) -> list[Any]:
        """Return the arrays of a block without rows."""
        raise NotImplementedError

    def memory(self) -> list[tuple[int, int, object]]:
        """Return address, bytes and owner of each mapping in which only these blocks lie.

        It lasts as long as its owner is held.
        """
        return []

    def read_amplification(self) -> float | None:
        """Estimate how often each chunk of the largest dataset is decoded in a lap, if possible."""
        return None

    def stop(self) -> bool:
        """Let what is there now be the last; False: the stream has to be closed for that."""
        return False

    def close(self) -> None:
        """Let go of threads that wait for a block; no other block comes."""

    def end(self, sound: bool) -> None:
        """End the readers, or give them back; `sound` says that none of them failed."""
        raise NotImplementedError


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
