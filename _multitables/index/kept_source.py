"""A file, or several, opened again and again; its metadata is kept until a file changes.

Law
---
1. One thread has the kept file at a time; another one, meanwhile, opens it for itself.
2. Between two uses no lock is held, so others may write; what changed is opened anew.

This file must never know what a file is opened for.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from _multitables.index.file_names import Filename, files_named
from _multitables.index.hdf5_file import Source, open_source
from _multitables.index.joined_source import JoinedSource
from _multitables.index.open_options import parse_open_options
from _multitables.remote.access import Access, told_requests
from _multitables.remote.names import absolute
from _multitables.remote.options import StorageOptions


class KeptSource:
    """An HDF5 file, as `open_source` opens it, or several as one.

    Parameters
    ----------
    filename, open_options
        See `open_source`.
    keeps : bool
        Keep what was read of it between two uses, and with it a descriptor.
    skip_missing : bool
        Of several files, leave out those that are broken, or lack what is indexed.
    """

    def __init__(
        self,
        filename: Filename | Iterable[Filename],
        open_options: Mapping[str, object],
        *,
        keeps: bool,
        skip_missing: bool = False,
    ) -> None:
        storage = StorageOptions.of(open_options.get("storage_options"))
        #: As it was given; of several files, a list of their names.
        self.filename: Any
        self.filename, storage = files_named(filename, storage)
        self._options = {**open_options, "storage_options": storage}
        self.keeps = keeps
        self.skip_missing = skip_missing
        self._kept: Source | None = None
        self._accesses: list[Access | None] = []

    @property
    def is_several(self) -> bool:
        """Whether there are several files."""
        return isinstance(self.filename, list)

    @contextlib.contextmanager
    def open(self, *, grows: bool = False) -> Iterator[Source]:
        """Open the file; see `open_source` for `grows`, of which nothing is kept, and errors."""
        if grows:
            with self._opened(grows=True) as growing:
                yield growing
            return
        source, self._kept = self._kept, None
        if source is None or not source.reopen([absolute(name) for name in self.filenames]):
            source = self._opened()
        with source:
            yield source
        self._accesses = [source.files.main.fingerprint.access]
        if self.keeps:
            self._kept = source

    @property
    def filenames(self) -> list[str]:
        """The names of all files."""
        return [os.fsdecode(one) for one in (self.filename if self.is_several else [self.filename])]

    def one(self, number: int) -> KeptSource:
        """Return one of several files."""
        if not self.is_several:
            return self
        return KeptSource(self.filename[number], self._options, keeps=False)

    def told_requests(self) -> dict[str, dict[str, int]]:
        """Return what statistics tell of the file's metadata."""
        return told_requests(self._accesses)

    def _opened(self, *, grows: bool = False) -> Source:
        if self.is_several:
            options = parse_open_options(self._options)
            return JoinedSource(self.filename, options, self.skip_missing)
        return open_source(self.filename, self._options, grows=grows)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None, "keeps": False}  # another process opens it anew

    def close(self) -> None:
        """Keep nothing any more."""
        self.keeps = False
        self._kept = None
