"""A manifest: many files whose saved indexes lie in one file, and what opens each of them.

Law
---
1. Opening a manifest opens none of its files. A file is opened when bytes of it are wanted, and is
   the one that was indexed, or it is an error that names it.
2. A manifest leads to its files as references do: as far as `Reach` lets it.
3. Devices are numbered anew when a machine starts: of the files of a device, the first that is
   unchanged says what number it has now.
"""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np

from _multitables._core import DamagedIndexError, SavedIndex
from _multitables.errors import CorruptFileError, FileOpenError, MultitablesError
from _multitables.index.chunk_index import I64, U64, Fingerprint, ManyFiles, SourceFile
from _multitables.index.files.open_options import OpenOptions
from _multitables.index.files.stored_files import changed
from _multitables.index.metadata import Delegated, Metadata
from _multitables.index.opened.open_files import OpenFile, open_file
from _multitables.index.saved.format import read_manifest
from _multitables.index.saved.metadata import SavedMetadata
from _multitables.index.types import hdf5_errors
from _multitables.options import ANYWHERE


class ListedFile(Delegated):
    """As `_core.MetadataFile`, of a file of a manifest; it is opened by the first question."""

    def __init__(self, file: SourceFile, options: OpenOptions, manifest: Fingerprint) -> None:
        self._of, self._options = file, options
        #: Of the manifest.
        self.fingerprint = manifest
        self._file: Metadata | None = None

    @property
    def file(self) -> Metadata:
        """The core's view of the file."""
        found = self._file
        if found is None:
            opened = open_file(self._of.filename, self._options, uses_index=False)
            opened.check_is(self._of.fingerprint)
            self._file = found = opened.metadata
        return found

    @property
    def requests(self) -> tuple[int, int]:
        """Requests of a store, and the bytes that they brought."""
        return self._file.requests if self._file is not None else (0, 0)

    def others(self, offset: int) -> tuple[SourceFile, ...]:
        """No other files have chunks of one file's datasets."""
        return ()

    def lock(self, filename: str) -> None:
        """Hold no lock."""

    def release(self) -> None:
        """Hold no lock."""
        if self._file is not None:
            self._file.release()

    def close(self) -> None:
        """Read no more."""
        if self._file is not None:
            self._file.close()


class Manifest:
    """Files, and what is saved of each.

    Raises
    ------
    MissingFileError, FileOpenError, CorruptFileError
        The manifest is missing, damaged, of another version, or another kind of file.
    LinkRefusedError
        A file is out of reach.
    """

    def __init__(self, filename: str, options: OpenOptions) -> None:
        self.filename = filename
        self._options = options
        self.fingerprint, self.index = _read(filename)
        try:
            self.files = self._files()
        except DamagedIndexError as error:
            raise self.damaged(error) from None
        reach = options.reach(filename)
        if reach.links != ANYWHERE:
            for name in self.files.filenames:
                reach.check(name)

    @property
    def is_current(self) -> bool:
        """Whether it was not written anew."""
        return not changed(self.filename, self.fingerprint)

    def open_file(self, number: int, opened_by: str = "") -> OpenFile:
        """Return one of the files as it was indexed, perhaps opened by the manifest's name."""
        file: SourceFile = self.files[number]
        listed = ListedFile(file, self._options, self.fingerprint)
        saved = SavedMetadata(self.index.of_file(number), self.filename, listed)
        return OpenFile(file.filename, file.fingerprint, saved, opened_by or file.filename)

    def damaged(self, error: DamagedIndexError) -> MultitablesError:
        """Compose the error for a manifest that contradicts itself."""
        return _damaged(self.filename, error)

    def _files(self) -> ManyFiles:
        names, ends, states, etags = self.index.files()
        storage = self._options.storage
        files = ManyFiles(names, ends, states, tuple(etags), storage, self.filename)
        for device in np.unique(states[:, 0]):
            _renumber(files, states, np.flatnonzero(states[:, 0] == device))
        return files


def _renumber(files: ManyFiles, states: U64, of_device: I64) -> None:
    """Give files of one device the number that it has now."""
    for number in of_device.tolist():
        if files.etags and files.etags[number]:
            continue
        file = files[number]
        try:
            now = Fingerprint.of(os.stat(file.filename))
        except OSError:
            continue
        if replace(now, device=file.fingerprint.device) == file.fingerprint:
            states[of_device, 0] = now.device
            return


def _read(filename: str) -> tuple[Fingerprint, SavedIndex]:
    try:
        fingerprint = Fingerprint.of(os.stat(filename))
        index = read_manifest(filename)
    except DamagedIndexError as error:
        raise _damaged(filename, error) from None
    except OSError as error:
        raise hdf5_errors.cannot_open(filename, error) from None
    if index is None:
        raise FileOpenError(
            f"{filename!r} is no manifest of files that this version reads (it is the saved index "
            "of one file, or of another version)",
            advice="Give the name of the file itself, or write a manifest with "
            "multitables.index_files",
            filename=filename,
        )
    return fingerprint, index


def _damaged(filename: str, error: DamagedIndexError) -> CorruptFileError:
    return CorruptFileError(
        f"the manifest {filename!r} is damaged: {error}",
        good="Its files are as they were",
        advice="Write it anew with multitables.index_files",
        filename=filename,
    )
