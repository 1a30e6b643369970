"""Several HDF5 files as one: each dataset has the rows of all of them, in the order of the list.

Law
---
1. The first file is open, and says what groups hold; the others are opened one after the other when
   datasets are indexed, and closed again.
2. What was indexed is kept as long as no file changes.
"""

from __future__ import annotations

from collections.abc import Iterable

from _multitables.errors import OptionsError
from _multitables.index.chunk_index import ChunkIndex, SourceFile
from _multitables.index.hdf5_file import Source
from _multitables.index.joined import joined
from _multitables.index.open_options import OpenOptions
from _multitables.index.plugins import READERS_FILTERS
from _multitables.index.stored_files import changed
from _multitables.remote.names import absolute


class JoinedSource(Source):
    """The first of several files, with the rows of all."""

    def __init__(self, filenames: list[str], open_options: OpenOptions) -> None:
        if open_options.kind == "split":
            raise OptionsError(
                f"DRIVER='H5FD_SPLIT' cannot be given with several files, got {len(filenames)}",
                advice="Stream the files one by one",
                option="DRIVER",
                got="H5FD_SPLIT",
            )
        super().__init__(filenames[0], open_options)
        self._filenames = [absolute(name) for name in filenames]
        self._known: dict[tuple[str, str | None], tuple[ChunkIndex, set[SourceFile]]] = {}

    def reopen(self, filenames: list[str]) -> bool:
        """Use it again when it was closed; False if its first file has changed."""
        return filenames == self._filenames and self.files.reopen()

    def index(self, path: str, field: str | None = None) -> ChunkIndex:
        """Index the rows of all files.

        Raises
        ------
        UnsupportedDatasetError
            Rows of one file differ from those of the first, or a library would have to read them.
        MissingDatasetError, MissingFileError, ...
            As of each file, which the error names.
        """
        return self.index_all([path], field)[0]

    def index_all(self, paths: Iterable[str], field: str | None = None) -> list[ChunkIndex]:
        """Index several datasets, for which each file is opened once; see `index`."""
        paths = list(paths)
        wanted = [path for path in dict.fromkeys(paths) if not self._is_known(path, field)]
        if wanted:
            each, files = [super().index_all(wanted, field)], {_file(self)}
            for filename in self._filenames[1:]:
                with Source(filename, self._options) as source:
                    each.append(source.index_all(wanted, field))
                    files.add(_file(source))
                source.files.forget()
            for path, indexes in zip(wanted, zip(*each, strict=True), strict=True):
                whole = joined(indexes, READERS_FILTERS)
                self._known[path, field] = whole, files | set(whole.all_files)
        return [self._known[path, field][0] for path in paths]

    def _is_known(self, path: str, field: str | None) -> bool:
        known = self._known.get((path, field))
        return known is not None and not any(
            changed(file.filename, file.fingerprint) for file in known[1]
        )


def _file(source: Source) -> SourceFile:
    main = source.files.main
    return SourceFile(main.filename, main.fingerprint)
