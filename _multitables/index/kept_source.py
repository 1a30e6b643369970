"""A file that is opened again and again: what was read of it is kept as long as it does not change.

Law
---
1. One thread has the kept file at a time; another one, meanwhile, opens it for itself.
2. Between two uses no lock is held, so others may write; what changed is opened anew.

This file must never know what a file is opened for.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

from _multitables.index.hdf5_file import Source, open_source


class KeptSource:
    """An HDF5 file, as `open_source` opens it.

    Parameters
    ----------
    filename, open_options
        See `open_source`.
    keeps : bool
        Keep what was read of it between two uses, and with it a descriptor.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str] | bytes,
        open_options: Mapping[str, object],
        *,
        keeps: bool,
    ) -> None:
        self.filename = filename
        self._options = dict(open_options)
        self.keeps = keeps
        self._kept: Source | None = None

    @contextlib.contextmanager
    def open(self, *, grows: bool = False) -> Iterator[Source]:
        """Open the file; see `open_source` for `grows`, of which nothing is kept, and errors."""
        if grows:
            with open_source(self.filename, self._options, grows=True) as growing:
                yield growing
            return
        source, self._kept = self._kept, None
        if source is None or not source.reopen(self.filename):
            source = open_source(self.filename, self._options)
        with source:
            yield source
        if self.keeps:
            self._kept = source

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None, "keeps": False}  # another process opens it anew

    def close(self) -> None:
        """Keep nothing any more."""
        self.keeps = False
        self._kept = None
