"""Datasets whose rows have one size, or not: which of both is asked of the file.

Law
---
1. It is known before anything is planned. Of datasets that are joined, and of several files, the
   first one says it.
2. What ragged rows need is imported when there are some.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from _multitables.index.datasets.source import Source
from _multitables.index.joined.source import JoinedSource
from _multitables.index.names.dataset_names import datasets_named
from _multitables.index.versions.sources import of_version
from _multitables.parent.stream.open_stream import DataSpec, Opened, data_in
from _multitables.tree import Leaf, Ragged, structure_of

if TYPE_CHECKING:
    from _multitables.parent.ragged.open_rows import OpenedRows


def open_blocks(spec: DataSpec) -> Opened | OpenedRows:
    """Index the datasets that `spec.path` names, as their rows are: of one size, or ragged."""
    with spec.file.open() as source:
        version = of_version(source, spec.version)
        if not any(_is_ragged(version, leaf) for leaf in structure_of(spec.path)[1]):
            return data_in(spec, source)
        from _multitables.parent.ragged.open_rows import open_rows

        return open_rows(spec, source)


def _is_ragged(source: Source, leaf: Leaf) -> bool:
    if isinstance(leaf, Ragged):
        return True

    def first(one: Source) -> bool:
        return one.is_ragged(datasets_named(one, leaf)[0])

    return source.of_first(first) if isinstance(source, JoinedSource) else first(source)
