"""Several HDF5 files as one: each dataset has the rows of all of them, in the order of the list.

Law
---
1. One file is open, and says what groups hold: the first that can be opened. The others are opened
   one after the other when datasets are indexed, and closed again; of objects, some at a time.
2. What was indexed is kept as long as no file changes.
3. A file is left out only if the user said so, and then of all that is indexed together: the rows
   of datasets in lock-step stay those of the same files.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.errors import (
    FileOpenError,
    MissingDatasetError,
    MissingFieldError,
    MultitablesError,
    OptionsError,
    StoreError,
)
from _multitables.index.chunk_index import ChunkIndex, ManyFiles, SourceFile
from _multitables.index.datasets.source import Source
from _multitables.index.files.open_options import OpenOptions, normal_path
from _multitables.index.files.progress import Steps
from _multitables.index.files.stored_files import changed
from _multitables.index.joined.chunks import joined
from _multitables.index.joined.columns import UnfitError, joined_columns
from _multitables.index.names.dataset_names import datasets_named
from _multitables.index.opened.open_files import OpenFiles, takes_locks
from _multitables.index.types.plugins import READERS_FILTERS
from _multitables.remote.names import absolute, is_remote
from _multitables.tree import Joined

#: Why a file may be left out. What a store failed to give may be there the next time.
MISSING = FileOpenError, MissingDatasetError, MissingFieldError
#: The core looks at this number of files in one call, and the log may get a line afterwards.
FILES_AT_A_TIME = 5000
#: Names of files that are left out, and why.
MissingFiles = dict[str, MultitablesError]
_T = TypeVar("_T")


class Wanted(NamedTuple):
    """A dataset, or several whose rows follow each other, and a column of it."""

    named: str | Joined
    field: str | None = None
    #: Its rows may have any length: see `Source.heap`.
    in_heap: bool = False


def is_missing(error: BaseException) -> bool:
    """Whether an error says that a file is broken, or lacks what is wanted of it."""
    return isinstance(error, MISSING) and not isinstance(error, StoreError)


def index_all(source: Source, wanted: Sequence[Wanted]) -> tuple[list[ChunkIndex], MissingFiles]:
    """Index datasets that belong together, of one file or of several.

    Returns
    -------
    indexes : list of ChunkIndex
        One of each that is wanted.
    missing : dict of str to MultitablesError
        The files that are left out.

    Raises
    ------
    UnsupportedDatasetError
        Rows of one dataset differ from those of the first, or a library would have to read them.
    MissingDatasetError, MissingFileError, ...
        As of each file, which the error names.
    """
    if isinstance(source, JoinedSource):
        return source.index_together(tuple(wanted))
    return [_whole(one.named, parts) for one, parts in _parts(source, wanted)], {}


def _parts(source: Source, wanted: Sequence[Wanted]) -> Iterator[tuple[Wanted, list[ChunkIndex]]]:
    """Yield, for each name, the indexes of its datasets."""
    for one in wanted:
        places = datasets_named(source, one.named)
        yield one, [source.index_at(place, one.field, in_heap=one.in_heap) for place in places]


def _whole(named: str | Joined, parts: Sequence[ChunkIndex]) -> ChunkIndex:
    return parts[0] if isinstance(named, str) else joined(parts, READERS_FILTERS)


def _index_of(source: Source, wanted: Wanted) -> ChunkIndex:
    return source.index_at(source.find(str(wanted.named)), wanted.field)


def _surveyed(
    names: list[str], paths: list[bytes], locks: bool
) -> tuple[npt.NDArray[np.uint64], list[_core.Survey]] | None:
    """Ask the core what the datasets of these paths are in each file, some files at a time."""
    steps = Steps(f"{names[0]!r} and others are opened, files", len(names))
    states, parts = list[npt.NDArray[np.uint64]](), [list[Any]() for _ in paths]
    for begin in range(0, len(names), FILES_AT_A_TIME):
        some = names[begin : begin + FILES_AT_A_TIME]
        found = _core.survey_files(some, paths, locks)
        if found is None:
            return None
        steps(len(some))
        states.append(found[0])
        for part, survey in zip(parts, found[1], strict=True):
            part.append((survey, [0], np.arange(begin, begin + len(some))))
    if len(states) == 1:
        return states[0], [survey for ((survey, *_),) in parts]
    return np.concatenate(states), [_core.Survey.joined(part) for part in parts]


@dataclass(frozen=True)
class Indexed:
    """What was indexed together, in the state that files had."""

    indexes: list[ChunkIndex]
    files: Collection[SourceFile]
    missing: MissingFiles

    @property
    def is_current(self) -> bool:
        return not any(changed(file.filename, file.fingerprint) for file in self.files)


class JoinedSource(Source):
    """One of several files, with the rows of all."""

    def __init__(
        self, filenames: list[str], open_options: OpenOptions, skip_missing: bool = False
    ) -> None:
        if open_options.kind == "split":
            raise OptionsError(
                f"DRIVER='H5FD_SPLIT' cannot be given with several files, got {len(filenames)}",
                advice="Stream the files one by one",
                option="DRIVER",
                got="H5FD_SPLIT",
            )
        # It is of the first file, which may be one of those that are left out.
        before = None if skip_missing else open_options.before
        self._filenames = filenames
        self._skips = skip_missing
        self._known: dict[tuple[Wanted, ...], Indexed] = {}
        #: Files that cannot be opened.
        self._closed: MissingFiles = {}
        for number, name in enumerate(filenames):
            with self._skipping(name, self._closed):
                options = replace(open_options, before=before)
                super().__init__(name, options, self._opened(number, options))
                self._options = replace(open_options, before=None)
                self._number = number
                return
        raise next(iter(self._closed.values()))

    def _opened(self, number: int, options: OpenOptions) -> OpenFiles:
        """Open one of the files, and what it leads to."""
        return OpenFiles(absolute(self._filenames[number]), options)

    @contextmanager
    def _skipping(self, filename: str, missing: MissingFiles) -> Iterator[None]:
        """Leave a file out if it is broken or lacks something, where the user said so."""
        try:
            yield
        except MultitablesError as error:
            if not (self._skips and is_missing(error)):
                raise
            missing[filename] = error

    def _answers(
        self, ask: Callable[[Source], _T], missing: MissingFiles, at_a_time: bool = False
    ) -> Iterator[_T]:
        """Yield what each file answers, in their order, but for those that are left out."""
        missing.update(self._closed)
        numbers = [n for n, name in enumerate(self._filenames) if name not in self._closed]

        def answer(number: int) -> list[_T] | MultitablesError:
            try:
                return [self._answer(number, ask)]
            except MultitablesError as error:
                return error

        answers: Iterable[list[_T] | MultitablesError] = map(answer, numbers)
        if at_a_time:
            from _multitables.index.files.stored_objects import concurrently  # few need it

            answers = concurrently(answer, numbers)
        steps = Steps(f"{self._filenames[0]!r} and others are opened, files", len(numbers))
        for number, answered in zip(numbers, answers, strict=True):
            steps()
            with self._skipping(self._filenames[number], missing):
                if isinstance(answered, MultitablesError):
                    raise answered
                yield from answered

    def _answer(self, number: int, ask: Callable[[Source], _T]) -> _T:
        if number == self._number:
            return ask(self)
        options, name = self._options, self._filenames[number]
        with Source(name, options, self._opened(number, options)) as source:
            answer = ask(source)
        source.files.forget()
        return answer

    def index(self, path: str, field: str | None = None) -> ChunkIndex:
        """Index the rows of all files; see `index_all` for the errors."""
        return self.index_together((Wanted(path, field),))[0][0]

    def describe(
        self, path: str, field: str | None = None
    ) -> tuple[str, ChunkIndex, _core.Table | None]:
        """Index the rows of all files; see `Source.describe`. Rows have one size."""
        index = self.index(path, field)
        is_table = index.dtype.names is not None and len(index.shape) == 1
        return "table" if is_table else "array", index, None

    def index_together(self, wanted: tuple[Wanted, ...]) -> tuple[list[ChunkIndex], MissingFiles]:
        """Index several datasets, for which each file is opened once; see `index_all`."""
        known = self._known.get(wanted)
        if known is None or not known.is_current:
            known = self._known[wanted] = self._indexed(wanted)
        return known.indexes, known.missing

    def _indexed(self, wanted: tuple[Wanted, ...]) -> Indexed:
        at_once = self._at_once(wanted)
        if at_once is not None:
            return at_once
        missing = MissingFiles()

        def of_file(source: Source) -> tuple[list[list[ChunkIndex]], SourceFile]:
            main = source.files.main
            parts = [parts for _, parts in _parts(source, wanted)]
            return parts, SourceFile(main.filename, main.fingerprint)

        has_objects = any(map(is_remote, self._filenames))
        each = list(self._answers(of_file, missing, at_a_time=has_objects))
        if not each:
            raise next(iter(missing.values()))
        indexes = [
            joined([part for parts in together for part in parts], READERS_FILTERS)
            for together in zip(*(parts for parts, _ in each), strict=True)
        ]
        files = {file for _, file in each}.union(*(index.all_files for index in indexes))
        return Indexed(indexes, files, missing)

    def _at_once(self, wanted: tuple[Wanted, ...]) -> Indexed | None:
        """Index what all files store alike; None: each file has to be looked at by itself."""
        root, plain = self._options.root, [one.named for one in wanted if not one.in_heap]
        paths = [root + normal_path(one) for one in plain if isinstance(one, str)]
        if len(paths) < len(wanted) or any(map(is_remote, self._filenames)) or self._closed:
            return None
        whole = [absolute(name) for name in self._filenames]
        encoded = [path.encode("utf-8", "surrogateescape") for path in paths]
        found = _surveyed(whole, encoded, takes_locks(self._options.locks))
        if found is None:
            return None
        names = list(map(os.fsencode, whole))
        ends = np.cumsum([len(name) + 1 for name in names], dtype=np.uint64)
        files = ManyFiles(b"".join(name + b"\0" for name in names), ends, found[0].reshape(-1, 4))
        if files.fingerprint(self._number) != self.files.main.fingerprint:
            return None
        indexes = list[ChunkIndex]()
        for told, one in zip(found[1], wanted, strict=True):
            index_in = partial(self._answer, ask=partial(_index_of, wanted=one))
            try:
                index = joined_columns(told, files, index_in, READERS_FILTERS)
            except UnfitError:
                index = None  # the file that it is wrong in says so
            if index is None:
                return None
            indexes.append(index)
        return Indexed(indexes, files, MissingFiles())

    def of_first(self, ask: Callable[[Source], _T]) -> _T:
        """Return the answer of the first file that lacks nothing of the question."""
        missing = MissingFiles()
        for answer in self._answers(ask, missing):
            return answer
        raise next(iter(missing.values()))
