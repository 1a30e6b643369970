"""A file, or several, opened again and again; its metadata is kept until a file changes.

Law
---
1. One thread has the kept file at a time; another one, meanwhile, opens it for itself.
2. Between two uses no lock is held, so others may write; what changed is opened anew.
3. A name keeps its meaning when the working directory changes later. A file that
   has no name any more is read through the descriptor that is kept since it was opened first.

This file must never know what a file is opened for.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from _multitables.index.chunk_index import Fingerprint
from _multitables.index.datasets.source import Source
from _multitables.index.files.name import Filename
from _multitables.index.files.names import files_named, whole_names
from _multitables.index.files.open_options import parse_open_options
from _multitables.index.joined.source import JoinedSource
from _multitables.index.saved.places import is_manifest
from _multitables.remote.access import Access, told_requests
from _multitables.remote.names import absolute
from _multitables.remote.options import StorageOptions

if TYPE_CHECKING:
    from _multitables.index.joined.manifest import Manifest


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
        #: The whole names of all files; of a manifest, its own.
        self.names = whole_names(self.filename)
        self.is_manifest = is_manifest(self.names[0]) and len(self.names) == 1
        #: The files of a manifest, and which of them is meant.
        self._manifest: Manifest | None = None
        self._number: int | None = None
        self._directory = absolute("")
        self._options = {**open_options, "storage_options": storage}
        self.keeps = keeps
        self.skip_missing = skip_missing
        #: The file, or the first of several, as it was opened first; it stays open.
        self.before: Fingerprint | None = None
        self._only: Fingerprint | None = None
        self._held: object = None
        self._kept: Source | None = None
        self._accesses: list[Access | None] = []

    @property
    def is_several(self) -> bool:
        """Whether there are several files."""
        return isinstance(self.filename, list) or (self.is_manifest and self._number is None)

    def is_opened(self, file: Fingerprint, directory: str, held: object) -> None:
        """Take the file that is open elsewhere, and no other, by names from a directory there.

        What is held keeps its name.
        """
        self.before = self._only = file
        self._held = held
        self._directory = directory

    @contextlib.contextmanager
    def open(self, *, grows: bool = False) -> Iterator[Source]:
        """Open the file; see `open_source` for `grows`, of which nothing is kept, and errors."""
        if grows:
            with self._opened(grows=True) as growing:
                yield growing
            return
        source, self._kept = self._kept, None
        if source is None or not source.reopen():
            source = self._opened()
        with source:
            if self._only is not None:
                source.files.main.check_is(self._only)
            yield source
        self.before = source.files.main.fingerprint
        self._accesses = [self.before.access]
        if self.keeps:
            self._kept = source
        if not self.keeps:  # another thread has closed this meanwhile
            self._kept = None

    @property
    def wanted(self) -> tuple[str, ...]:
        """What is opened, and how, without secrets: equal where the same is."""
        how = repr(sorted(self._options.items())), str(self.skip_missing), str(self._number)
        return (*self.names, *how)

    @property
    def filenames(self) -> list[str]:
        """The names of all files, as they were given."""
        if self.is_manifest and self._number is None:
            return self.listed.files.filenames
        return [os.fsdecode(one) for one in (self.filename if self.is_several else [self.filename])]

    @property
    def whole_names(self) -> list[str]:
        """The whole names of all files, also of those of a manifest."""
        return self.filenames if self.is_manifest else self.names

    def one(self, number: int) -> KeptSource:
        """Return one of several files."""
        if not self.is_several:
            return self
        if self.is_manifest:
            one = KeptSource(self.names[0], self._options, keeps=False)
            one._manifest, one._number = self.listed, number
            return one
        one = KeptSource(self.names[number], self._options, keeps=False)
        one.filename = self.filename[number]
        return one

    def told_requests(self) -> dict[str, dict[str, int]]:
        """Return what statistics tell of the file's metadata."""
        return told_requests(self._accesses)

    def _opened(self, *, grows: bool = False) -> Source:
        options = parse_open_options(self._options)
        options = replace(options, directory=self._directory, before=self.before)
        if self.is_manifest:
            from _multitables.index.joined.manifest_source import ManifestSource, source_of

            if self._number is not None:
                return source_of(self.listed, self._number, options)
            return ManifestSource(self.listed, options, self.skip_missing)
        if self.is_several:
            return JoinedSource(self.names, options, self.skip_missing)
        return Source(self.names[0], options, grows=grows)

    @property
    def listed(self) -> Manifest:
        """The manifest as it is now; one of its files stays that of the manifest as it was."""
        if self._manifest is None or (self._number is None and not self._manifest.is_current):
            from _multitables.index.joined.manifest import Manifest

            options = replace(parse_open_options(self._options), directory=self._directory)
            self._manifest = Manifest(self.names[0], options)
        return self._manifest

    def __getstate__(self) -> dict[str, object]:
        # Another process opens it anew.
        nothing = dict.fromkeys(("_manifest", "_kept", "before", "_only", "_held"))
        return {**self.__dict__, **nothing, "keeps": False}

    def close(self) -> None:
        """Keep nothing any more."""
        self.keeps = False
        self._kept = self.before = self._manifest = None
