"""What all streams of a `Streamer` share: its file, and the readers that it keeps.

Law
---
1. Knows no kind of stream; its subclasses do.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Protocol

from _multitables.errors import ClosedError
from _multitables.index.kept_source import KeptSource
from _multitables.options import StreamerOptions
from _multitables.parent.readers.reader_pool import ReaderPool


class _Stream(Protocol):
    def close(self) -> None: ...


class StreamerBase:
    """The file and the readers of a `Streamer`."""

    def __init__(
        self,
        filename: str | os.PathLike[str],
        wanted: StreamerOptions,
        open_options: Mapping[str, object],
    ) -> None:
        self.filename = filename
        self._wanted = wanted
        self._file = KeptSource(filename, open_options, keeps=False)
        self._closed = False
        self._reader_pool = ReaderPool(False, self._wanted.library_timeout_seconds)

    def _streams(self) -> Iterable[_Stream]:
        """Return the streams that end with this."""
        return ()

    def close(self) -> None:
        """End all streams of this streamer and their readers. May be called again."""
        self._closed = True
        self._reader_pool.keep = False
        for stream in self._streams():
            stream.close()
        self._reader_pool.close()
        self._file.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _keeping_pool(self) -> tuple[ReaderPool, bool]:
        """Return a pool that keeps readers between streams, and whether it is a new one."""
        if self._reader_pool.keep:
            return self._reader_pool, False
        return ReaderPool(True, self._wanted.library_timeout_seconds), True

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(
                f"the streamer of {os.fspath(self.filename)!r} is closed",
                advice="Make a new Streamer",
            )
