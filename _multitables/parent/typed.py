"""Types of methods whose results depend on their arguments, for type checkers.

Law
---
1. A dictionary of keywords has those of its methods, with the same types: tests/laws compare them.
2. When the library runs, nothing of this is looked at.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import EllipsisType
    from typing import Any, Protocol, SupportsIndex, TypeAlias, TypedDict

    import numpy.typing as npt
    import typing_extensions

    from _multitables.index.types.references import RegionReference
    from _multitables.index.versions.version import VersionKey
    from _multitables.options import Rank, Share, Shuffle
    from _multitables.plan.casts import Dtype, Images, Scales
    from _multitables.plan.placing import Channels, Crops, Flips
    from _multitables.plan.samples import Sample
    from _multitables.plan.stacking import IntoOption
    from _multitables.tree import Joined, Leaf

    Array: TypeAlias = npt.NDArray[Any]
    Arrays: TypeAlias = tuple[Array, ...]
    NamedArrays: TypeAlias = dict[Any, Array]
    #: One path: of rows of one length, whose blocks are arrays.
    One: TypeAlias = str | Joined
    #: A list or a tuple, and not one path, which is a sequence of characters.
    Several: TypeAlias = list[Any] | tuple[Leaf, ...]
    Named: TypeAlias = Mapping[Any, Leaf]
    SeveralVersions: TypeAlias = list[Any] | tuple[VersionKey, ...] | slice
    #: An index that leaves an axis gives an array, and numbers for all axes give a scalar.
    Part: TypeAlias = slice | list[Any] | Array | EllipsisType
    Place: TypeAlias = SupportsIndex | str | RegionReference | tuple[()] | tuple[int, ...]
    #: What a block or a batch is: an array, or a tuple or a dict of them.
    Block = typing_extensions.TypeVar("Block", default=Any)
    B_co = TypeVar("B_co", covariant=True)

    class Guard(Protocol[B_co]):
        """One block, on its way through ``with guard as block``."""

        @property
        def rows(self) -> tuple[int, int]: ...
        def __enter__(self) -> B_co: ...
        def __exit__(self, kind: object, value: object, trace: object) -> None: ...

    class StreamKeywords(TypedDict, total=False):
        read_ahead: int | None
        cyclic: bool
        block_size: int | None
        ordered: bool
        field: str | None
        remainder: bool
        rows: Any
        inner: Any
        follow: bool
        max_wait_seconds: float | None
        dtype: Dtype | None
        scale: Scales | None
        decode: Images | None

    class VersionKeywords(StreamKeywords, total=False):
        version: VersionKey | None

    class OrderKeywords(TypedDict, total=False):
        n_procs: int | None
        shuffle: Shuffle
        seed: int
        epochs: int | None
        start_epoch: int
        drop_last: bool
        rows: Any
        field: str | None
        read_ahead: int | None
        window_rows: int | None
        even: bool
        memory_limit_bytes: int | None
        skip_damaged: bool
        inner: Any
        version: VersionKey | None
        share: Share
        sample: Sample | None
        weights: Any
        draws: int | None
        dtype: Dtype | None
        scale: Scales | None
        decode: Images | None
        crop: Crops | None
        flip: Flips | None
        channels: Channels | None
        into: IntoOption | None

    class BatchKeywords(OrderKeywords, total=False):
        rank: Rank
        world_size: int

else:
    Block = TypeVar("Block")
