"""What all streams of a `Streamer` share: its file, or files, and the readers that it keeps.

Law
---
1. Knows no kind of stream; its subclasses do.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from _multitables.errors import ClosedError, OptionsError
from _multitables.index.files.name import Filename
from _multitables.index.joined.kept_source import KeptSource
from _multitables.parent.readers.reader_pool import ReaderPool
from _multitables.parent.titles import file_title
from _multitables.plan.reader_options import StreamerOptions


class StreamerBase:
    """The file and the readers of a `Streamer`."""

    def __init__(
        self,
        filename: Filename | Iterable[Filename],
        wanted: StreamerOptions,
        open_options: Mapping[str, object],
    ) -> None:
        file = KeptSource(filename, open_options, keeps=False, skip_missing=wanted.skip_missing)
        self.__setstate__((wanted, file))

    def __getstate__(self) -> tuple[StreamerOptions, KeptSource]:
        """Return what another process needs to make the same streamer, without its streams."""
        self._check_open()
        return self._wanted, self._file

    def __setstate__(self, state: tuple[StreamerOptions, KeptSource]) -> None:
        self._wanted, self._file = state
        #: As it was given; of several files, a list of their names.
        self.filename: Any = self._file.filename
        self._closed = False
        self._reader_pool = ReaderPool(False, self._wanted.library_timeout_seconds)

    def _end_streams(self) -> None:
        """End the streams that end with this."""

    def close(self) -> None:
        """End all streams of this streamer and their readers. May be called again."""
        self._closed = True
        self._reader_pool.keep = False
        self._end_streams()
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
                f"the streamer of {file_title(self.filename)} is closed",
                advice="Make a new Streamer",
            )

    def _check_one_file(self, option: str, got: object) -> None:
        """Raise if there are several files, for an option that takes one."""
        if got is not None and got is not False and self._file.is_several:
            raise OptionsError(
                f"{option}={got!r} cannot be streamed, got "
                f"{file_title(self.filename)} (expected one file)",
                advice="Make a Streamer for each file",
                option=option,
                got=got,
            )
