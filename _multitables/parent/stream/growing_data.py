"""Datasets that others write meanwhile, as looks at their files show them.

Law
---
1. Files are only read: no lock is taken, and no HDF5 library opens one that is being written.
2. In SWMR mode HDF5 writes what is told of before what tells of it, with checksums: what a look
   finds is there. Otherwise a look may fall between two writes of one flush, and a place that it
   finds may have been given to other data. Then rows are taken

   a. from a file that did not change for a while before the look, nor until they are read;
   b. or from chunks that had all their rows at an earlier look, if the dataset grew since then, for
      then a whole flush lies between the two, and if the look before finds them at the same places.
3. What fails may be half written: it is tried again, and is an error when the file has not changed
   for a while, or when trying took too long.
4. A file that was replaced, or that lost rows, is a `FileChangedError`.
"""

from __future__ import annotations

import os
import time

from _multitables.errors import (
    FileChangedError,
    FileOpenError,
    MissingDatasetError,
    MissingFieldError,
    MissingFileError,
    OptionsError,
    UnsupportedDatasetError,
)
from _multitables.index.chunk_index import ChunkIndex, Fingerprint
from _multitables.parent.stream.open_stream import DataSpec, Opened, open_data
from _multitables.plan.dataset_table import dataset_of
from _multitables.plan.growth import agreed_rows, stored_rows, whole_rows

#: Seconds between two looks at a file that is followed: at first, and at most.
MIN_PAUSE_SECONDS = 0.01
MAX_PAUSE_SECONDS = 1.0
#: Looks may take one part in this many of the time.
LOOK_SHARE = 5
#: Seconds without a change after which no flush is under way, as far as can be told.
QUIET_SECONDS = 0.05
#: Seconds after which a file is looked at though its size and time are the same: over a network, or
#: of a writer that maps the file, they may lag behind.
LOOK_ANYWAY_SECONDS = 5.0
#: What fails is an error when the file has not changed for this many seconds,
SETTLED_SECONDS = 2.0
#: or when it went on failing for this many.
PATIENCE_SECONDS = 30.0

State = list[Fingerprint]


class Patience:
    """How long something may fail."""

    def __init__(self) -> None:
        self._since: float | None = None
        self._still_since, self._state = 0.0, object()

    def reset(self) -> None:
        """It did not fail."""
        self._since = None

    def bear(self, error: Exception, state: object) -> None:
        """Raise the error, unless it may go away; `state` changes with the files."""
        now = time.monotonic()
        if self._since is None:
            self._since = self._still_since = now
        if state != self._state:
            self._state, self._still_since = state, now
        if now - self._still_since >= SETTLED_SECONDS or now - self._since >= PATIENCE_SECONDS:
            raise error


class GrowingData:
    """Datasets of a file, looked at again and again."""

    def __init__(self, spec: DataSpec) -> None:
        self._spec = spec
        self._patience = Patience()
        self._pause = MIN_PAUSE_SECONDS
        #: Of the last look.
        self.opened = self._first_look()
        #: Rows that are there, and those of them that need no `still` after they are read.
        self.rows = self.firm = 0
        #: The last look fell into no flush: it found all that was written.
        self.complete = False
        self._looked, self._took = -LOOK_ANYWAY_SECONDS, 0.0
        self._looked_at: State = []
        #: What the files are, and since when they are known to be that.
        self._state, self._since = self._stats(), time.monotonic()
        #: Lengths at an earlier look, and the rows which that one proves to be written.
        self._lengths = [index.n_rows for index in self.opened.indexes]
        self._written = [0 for _ in self.opened.indexes]

    def look(self) -> bool:
        """Look at the files. False: what is there could not be read, and may be half written."""
        is_quiet, self.complete = self._is_quiet(), False
        self._looked, self._looked_at = time.monotonic(), self._state
        try:
            opened = open_data(self._spec, grows=True)
        except (
            FileOpenError,
            MissingDatasetError,
            MissingFieldError,
            UnsupportedDatasetError,
        ) as error:
            if isinstance(error, MissingFileError):
                raise self._replaced("is not there any more") from None
            self._patience.bear(error, self._state)
            return False
        self._took = time.monotonic() - self._looked
        is_sound = opened.is_swmr or (is_quiet and self.still())
        before = self.opened.indexes
        for then, now in zip(before, opened.indexes, strict=True):
            changed = _change(then, now, self.rows)
            if changed and is_sound:
                raise changed
            if changed:
                return False
        self._patience.reset()
        self.opened, self.complete = opened, is_sound
        self._count(before)
        seen = min(map(stored_rows, opened.indexes))
        if opened.is_swmr:
            self.firm = seen
        self.rows = seen if self.complete else self.firm
        return True

    def _count(self, before: list[ChunkIndex]) -> None:
        """Find the rows in chunks that a flush since then has completed."""
        for at, index in enumerate(self.opened.indexes):
            if index.n_rows > self._lengths[at]:
                self._written[at] = whole_rows(index, self._lengths[at])
                self._lengths[at] = index.n_rows
        agreed = map(agreed_rows, before, self.opened.indexes)
        self.firm = min(map(min, agreed, self._written))

    def still(self) -> bool:
        """Whether nothing was written since the last look began."""
        return self._stats() == self._looked_at

    def due(self) -> bool:
        """Whether it is time to look again."""
        now = time.monotonic()
        is_quiet = self._is_quiet()  # also takes note of changes
        if self._state != self._looked_at:
            self._pause = MIN_PAUSE_SECONDS
        elif now - self._looked >= LOOK_ANYWAY_SECONDS:
            return True
        elif not is_quiet or (self.complete and self._looked - self._since >= QUIET_SECONDS):
            # Writes that follow each other closely may leave the same time.
            return False
        return now - self._looked >= self._took * (LOOK_SHARE - 1)

    def pause(self) -> float:
        """Seconds to wait now: longer and longer, until something changes."""
        pause = max(self._pause, min(self._took * (LOOK_SHARE - 1), MAX_PAUSE_SECONDS))
        self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS)
        return pause

    def bear(self, patience: Patience, error: Exception) -> None:
        """Raise an error that does not go away; see `Patience`."""
        patience.bear(error, self._stats())

    def _is_quiet(self) -> bool:
        """Whether the files have not changed for a while."""
        state, now = self._stats(), time.monotonic()
        if state != self._state:
            self._state, self._since = state, now
        return now - self._since >= QUIET_SECONDS

    def _stats(self) -> State:
        """Return the sizes and times of the files.

        Raises
        ------
        FileChangedError
            One is not there any more, or another one has its name.
        """
        found = []
        for index in self.opened.indexes:
            try:
                now = Fingerprint.of(os.stat(index.filename))
            except OSError:
                raise self._replaced("is not there any more") from None
            known = index.fingerprint
            if (now.device, now.inode) != (known.device, known.inode):
                raise self._replaced("was replaced by another file")
            found.append(now)
        return found

    def _first_look(self) -> Opened:
        while True:
            try:
                opened = open_data(self._spec, grows=True)
                break
            except FileOpenError as error:
                if isinstance(error, MissingFileError):
                    raise
                state = Fingerprint.of(os.stat(self._spec.file.filename))
                self._patience.bear(error, state)
            time.sleep(MIN_PAUSE_SECONDS)
        self._patience.reset()
        _check_kinds(opened)
        return opened

    def _replaced(self, what: str) -> FileChangedError:
        filename = self.opened.indexes[0].filename
        return FileChangedError(
            f"{filename!r} {what} while it was followed",
            good="All rows that were delivered are good",
            advice="Open a new stream of the new file",
            filename=filename,
        )


def _change(before: ChunkIndex, now: ChunkIndex, known: int) -> FileChangedError | None:
    """Say if rows are not what they were, or not as many as were known to be there."""
    row = (now.row_shape, now.dtype, now.chunk_dims)
    wanted = (before.row_shape, before.dtype, before.chunk_dims)
    if row != wanted:
        what = [
            f"{shape} of {dtype} in chunks of {chunks}" for shape, dtype, chunks in (wanted, row)
        ]
        happened = f"has other rows (expected {what[0]}, got {what[1]})"
    elif now.n_rows < known:
        happened = f"lost rows (expected at least {known}, got {now.n_rows})"
    else:
        return None
    return FileChangedError(
        f"{now.path!r} in {now.filename!r} {happened} while it was followed",
        good="All rows that were delivered are good",
        advice="Open a new stream",
        filename=now.filename,
        path=now.path,
    )


def _check_kinds(opened: Opened) -> None:
    """Raise unless the core reads these datasets, and they can grow."""
    if opened.direct:
        raise OptionsError(
            "follow reads what was just written, through the page cache, not around it",
            advice="Leave DRIVER='H5FD_DIRECT' or follow out",
            option="follow",
        )
    known = opened.facts()["native_filters"]
    for index in opened.indexes:
        reason = dataset_of(index, False, known).reason
        if index.is_remote:
            reason = "a store has some of it, where objects are replaced and do not grow"
        elif index.chunk_dims is None and not reason:
            reason = "it is not stored in chunks, so it cannot grow"
        elif reason:
            reason = f"an HDF5 library would have to read it ({reason}), and disturb its writer"
        if reason:
            raise UnsupportedDatasetError(
                f"{index.path!r} in {index.filename!r} cannot be followed: {reason}",
                advice="Stream it without follow when it is complete",
                path=index.path,
                filename=index.filename,
            )
