"""Files -> their saved index: a walk over all objects of each.

Law
---
1. An object is saved whole or not at all: of one that cannot be read the file tells what is wrong.
2. Links are saved as links: where soft and external ones lead is found out when they are followed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, BinaryIO

import numpy as np

from _multitables import _core
from _multitables.index.metadata import Metadata
from _multitables.index.opened.open_files import PREFETCHED, OpenFile
from _multitables.index.saved.format import MANIFEST, NO_NUMBER
from _multitables.index.saved.index_writer import IndexWriter, Link
from _multitables.index.saved.objects import SPACE, STORAGE, UNREADABLE, fields, to_text
from _multitables.index.saved.survey import Kinds, surveyed

#: Attributes of an object that take more than this stay in the file.
MAX_ATTRIBUTE_BYTES = 64 << 10


def save(file: OpenFile, out: BinaryIO, progress: Callable[[int], Any]) -> None:
    """Write the index of a file: all objects that hard links lead to, and all links.

    `progress` is called for each object with how many there are more.

    Raises
    ------
    FileChangedError
        The file changed meanwhile.
    """
    writer, kinds = IndexWriter(out), Kinds()
    _add(file, writer, kinds, progress)
    writer.finish(kinds.encoded, file.fingerprint, file.metadata.root)


def save_all(files: Iterable[OpenFile], out: BinaryIO) -> None:
    """Write the index of many files, each of which is closed then.

    Raises
    ------
    FileChangedError
        A file changed meanwhile.
    """
    writer, kinds = IndexWriter(out, MANIFEST), Kinds()
    for file in files:
        _add(file, writer, kinds, lambda _: None)
        writer.name_file(file.filename, file.fingerprint, file.metadata.root)
        file.metadata.close()
    writer.finish(kinds.encoded, None)


def _add(file: OpenFile, writer: IndexWriter, kinds: Kinds, progress: Callable[[int], Any]) -> None:
    metadata = file.metadata
    unsaved = metadata if isinstance(metadata, _core.MetadataFile) else None
    seen, next_ones = {metadata.root}, [metadata.root]
    n_prefetched = 0  # of the next ones, from the end
    while next_ones:
        if unsaved and not n_prefetched:
            n_prefetched = min(PREFETCHED, len(next_ones))
            unsaved.prefetch(next_ones[-n_prefetched:])
        n_prefetched -= 1
        try:
            found = _save(metadata, writer, next_ones.pop())
        except UNREADABLE:
            continue
        progress(1)
        new = set(found) - seen
        seen |= new
        next_ones += sorted(new, reverse=True)  # parts lie in the order of the file
        n_prefetched = 0 if new else n_prefetched
    writer.end_file(surveyed(metadata, np.array(writer.offsets(), np.uint64), kinds))
    if unsaved:
        file.check_unchanged()


def _save(metadata: Metadata, writer: IndexWriter, offset: int) -> list[int]:
    """Save an object; the offsets of those that it links to."""
    kind = metadata.kind(offset)
    attributes = [
        (to_text(name), order, to_text(datatype), dims, to_text(elements))
        for name, order, datatype, dims, elements in metadata.attributes(offset)
    ]
    own: dict[str, Any] = {}
    if sum(len(elements) for *_, elements in attributes) <= MAX_ATTRIBUTE_BYTES:
        own["attributes"] = writer.value(attributes)
    links: list[tuple[Any, ...]] = []
    if kind == "group":
        links = metadata.links(offset)
        own["place"] = writer.links([_link(writer, *link) for link in links])
    elif kind == "datatype":
        own["storage"] = writer.value(to_text(metadata.datatype(offset)))
    elif kind == "dataset":
        dataset = metadata.dataset(offset)
        own["place"] = _place(metadata, writer, offset, dataset)
        own["space"] = writer.value(fields(dataset, SPACE))
        own["storage"] = writer.value(fields(dataset, STORAGE))
    writer.add(offset, kind, **own)
    return [link[3] for link in links if link[2] == "hard"]


def _place(
    metadata: Metadata, writer: IndexWriter, offset: int, dataset: _core.StoredDataset
) -> tuple[int, ...]:
    """Where a dataset's bytes are."""
    if dataset.layout == "chunked":
        return writer.chunks(metadata.chunks(offset))
    if dataset.layout == "compact":
        return writer.part(dataset.elements)
    if dataset.mappings is not None:
        return dataset.mappings
    return (NO_NUMBER if dataset.byte_offset is None else dataset.byte_offset,)


def _link(writer: IndexWriter, name: bytes, order: int | None, kind: str, *target: Any) -> Link:
    if kind in ("hard", "user_defined"):
        return Link(name, order, kind, target[0])
    return Link(name, order, kind, writer.value([to_text(part) for part in target]))
