"""What a file says of its objects: `Metadata`, which the core's reader of files has.

Law
---
1. Whatever answers in its place declares it: a saved index, references, an object of a store that
   may not be read at all, a file of a manifest.

This file must never know who does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from _multitables._core import Mappings, MetadataFile, StoredDataset, Survey
    from _multitables.index.chunk_index import I64, U64, Fingerprint, Records, SourceFile
    from _multitables.index.types.hdf5_metadata import Attribute


class Metadata(Protocol):
    """What `_core.MetadataFile` answers once a file is open."""

    @property
    def root(self) -> int: ...
    @property
    def user_block(self) -> int: ...
    @property
    def is_swmr(self) -> bool: ...
    @property
    def requests(self) -> tuple[int, int]: ...
    def lock(self, filename: str, /) -> None: ...
    def release(self) -> None: ...
    def close(self) -> None: ...
    def find(self, path: bytes, start: int | None = None, /) -> tuple[Any, ...]: ...
    def find_from(self, offsets: U64, path: bytes, /) -> I64: ...
    def kind(self, offset: int, /) -> str: ...
    def links(self, offset: int, /) -> list[tuple[Any, ...]]: ...
    def listed(self, offsets: U64, /) -> tuple[list[tuple[str, ...]], I64]: ...
    def names(self, offset: int, /) -> list[str | bytes]: ...
    def n_links(self, offset: int, /) -> int: ...
    def link(self, offset: int, name: bytes, /) -> tuple[Any, ...] | None: ...
    def attributes(self, offset: int, /) -> list[Attribute]: ...
    def datatype(self, offset: int, /) -> bytes: ...
    def dataset(self, offset: int, /) -> StoredDataset: ...
    def chunks(self, offset: int, /) -> Records: ...
    def survey(self, offsets: U64, with_scales: bool, names: Sequence[bytes], /) -> Survey: ...
    def mappings(self, heap: int, index: int, /) -> Mappings: ...
    def global_object(self, heap: int, index: int, /) -> bytes: ...
    def region(self, heap: int, index: int, /) -> tuple[int, tuple[Any, ...]]: ...
    def strings(self, descriptors: bytes, each: int, /) -> list[bytes]: ...
    def sequences(
        self, descriptors: bytes, element_bytes: int, each: int, /
    ) -> tuple[npt.NDArray[np.uint8], U64]: ...


class Leading(Metadata, Protocol):
    """That of a file to which others lead: references, a manifest."""

    #: Of what leads to it.
    fingerprint: Fingerprint

    def others(self, offset: int, /) -> tuple[SourceFile, ...]:
        """Return the files beside its own in which chunks of a dataset lie."""
        ...


if TYPE_CHECKING:
    Delegated: TypeAlias = MetadataFile
else:

    class Delegated:
        """The metadata of a `file`, but for what a class says itself."""

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)


def names_of(links: list[tuple[Any, ...]]) -> list[str | bytes]:
    """Return the names of links as the core's `names` does: by creation, or else sorted."""
    by_creation = all(link[1] is not None for link in links)
    links = sorted(links, key=lambda link: link[1] if by_creation else link[0])
    return [_text(link[0]) for link in links]


def _text(name: bytes) -> str | bytes:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return name
