"""Versions of an open file, as sources of their datasets.

Law
---
1. A version is a group: its source is the file's, with paths that begin there.
2. Every failure is an exception of errors.py that names the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.datasets.source import Source
from _multitables.index.files.open_options import normal_path
from _multitables.index.versions.version import STORED, History, history_of, version_path
from _multitables.options import CheckedVersion


def of_version(source: Source, version: CheckedVersion | None) -> Source:
    """Return a source of the same file whose paths are those of a version; None: itself.

    Raises
    ------
    MissingVersionError
        There is no such version, or it was not committed.
    UnsupportedDatasetError
        The file has no versions, or the package that writes them refuses its layout.
    """
    if version is None:
        return source
    with source.files.root.errors_named():
        return source.inside(version_path(source.files, version))


def of_versions(source: Source, versions: Sequence[CheckedVersion] | slice) -> dict[str, Source]:
    """Return a source for each of several versions, by their names; see `of_version`."""
    with source.files.root.errors_named():
        found = history_of(source.files).find_all(versions)
    return {version.name: of_version(source, version.name) for version in found}


def whole_history(source: Source) -> History:
    """Read all versions of the file; the errors are those of `of_version`."""
    with source.files.root.errors_named():
        history = history_of(source.files)
        return replace(history, versions=dict(history.versions))


def stored_chunks(source: Source, path: str, field: str | None = None) -> ChunkIndex:
    """Index what has the chunks of all versions of a dataset, one behind the other."""
    return source.inside(STORED).index(f"{normal_path(path)}/raw_data", field)
