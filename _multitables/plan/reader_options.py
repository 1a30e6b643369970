"""The options of what readers read: streams, batches, collections, columns, random access.

Law
---
1. One frozen class for each entry point, as options.py says. Defaults and limits are named there.
2. An option that cannot work is an `OptionsError` before any file is opened or process started.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from typing import Any

from _multitables.errors import OptionsError
from _multitables.machine import available_bytes, available_cores, memory_limit_bytes
from _multitables.options import (
    CACHE_SHARE,
    DEFAULT_N_PROCS,
    MAX_CACHE_BYTES,
    MAX_N_PROCS,
    MIN_CACHE_BYTES,
    ORDERS,
    REQUEST_BYTES,
    SHUFFLE_BYTES,
    SHUFFLES,
    Check,
    CheckedVersion,
    check_any_version,
    check_names,
    check_number,
    check_version,
    checked,
    flag,
    option,
    whole,
    wrong,
)


def _at_least(least: int, advice: str) -> Check:
    return lambda name, value: whole(name, value, least, advice)


def _optional(advice: str, default: int | None = None, least: int = 1) -> Check:
    """A whole number, or None for a default."""
    return lambda name, value: default if value is None else whole(name, value, least, advice)


def check_procs(name: str, value: Any) -> int:
    """Check how many readers there shall be."""
    if value is None:
        return min(DEFAULT_N_PROCS, available_cores())
    procs = whole(name, value, 1, "Leave it out for one reader a core, up to 4")
    if procs > MAX_N_PROCS:
        happened = f"is out of range: expected at most {MAX_N_PROCS}"
        raise wrong(name, happened, procs, "One reader a core is enough")
    return procs


@dataclass(frozen=True)
class ReaderCount:
    """How many readers a stream has, and what they are."""

    #: As it was given.
    given: int | None
    #: Threads of this process, or processes; None: whichever takes less time.
    threads: bool | None

    @property
    def count(self) -> int:
        """How many; where that is left open, by the cores that there are now."""
        return check_procs("n_procs", None) if self.given is None else self.given


def _readers(name: str, value: Any) -> ReaderCount:
    """Check `n_procs` of a stream: no processes are threads."""
    if value is None:
        return ReaderCount(None, None)
    if whole(name, value, 0, "Leave it out for one reader a core, up to 4") == 0:
        return ReaderCount(None, True)
    return ReaderCount(check_procs(name, value), False)


def _shuffle(name: str, value: Any) -> str | None:
    kind = {True: "window", False: None}[value] if isinstance(value, bool) else value
    if kind not in SHUFFLES:
        raise OptionsError(
            f"unknown {name}: expected None, 'chunks', 'window', 'full', True or False, "
            f"got {value!r}",
            advice="True mixes rows over a window, at the speed of a stream",
            option=name,
            got=value,
        )
    known: str | None = kind
    return known


def _share(name: str, value: Any) -> str | None:
    if value not in (None, "node"):
        raise wrong(name, "is unknown: expected None or 'node'", value, "Leave it out")
    share: str | None = value
    return share


def _order(name: str, value: Any) -> str:
    if value not in ORDERS:
        expected = ", ".join(map(repr, ORDERS))
        raise wrong(name, f"is unknown: expected {expected}", value, "'file' reads ahead best")
    order: str = value
    return order


def _edges(name: str, value: Any) -> tuple[int, ...]:
    advice = "They are the longest lengths of each bucket"
    edges = tuple(whole(name, edge, 1, advice) for edge in value or ())
    if any(edge >= after for edge, after in itertools.pairwise(edges)):
        raise wrong(name, "must ascend", value, advice)
    return edges


def _shuffle_memory(name: str, value: Any) -> int:
    if value is None:
        # Ranks that look one after the other shall come to the same.
        limit = max(memory_limit_bytes(), 1)
        return min(SHUFFLE_BYTES, 1 << limit.bit_length() - 1)
    return whole(name, value, 1, "Leave it out for 512 MiB")


def _rotational(name: str, value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    advice = "Leave it out to go by what the kernel says of the disk"
    raise wrong(name, "must be True, False or None", value, advice, tell_type=True)


def _timeout(name: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise wrong(name, "must be seconds above 0, or None", value, "None waits for ever")
    return number


def check_versions(name: str, value: Any) -> Any:
    """Check which version of a file is meant, or which several: a list or a slice."""
    if isinstance(value, list | tuple):
        if not value:
            raise wrong(name, "names no version", value, "Give at least one version")
        return tuple(check_version(name, one) for one in value)
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        if value.step != 0 and all(one is None or hasattr(one, "__index__") for one in parts):
            return value
        raise wrong(name, "must be a slice of indices", value, "slice(-3, None) is the last three")
    return check_any_version(name, value)


# ---- the options of each entry point ------------------------------------------------------------

#: What never changes, and equals nothing else of its own type.
_PLAIN = frozenset((type(None), bool, int, float, str))
_READ_AHEAD = "Leave it out for the library's choice"


@dataclass(frozen=True)
class StreamerOptions:
    """Of a `Streamer`."""

    rotational: bool | None = option(_rotational)
    library_timeout_seconds: float | None = option(_timeout)
    trusted: bool = option(flag)
    skip_missing: bool = option(flag)


@dataclass(frozen=True)
class StreamOptions:
    """Of `get_queue` and `get_generator`."""

    #: As `row_subset.subset_of` takes them; checked when the length is known.
    rows: Any = option()  # noqa: RUF009 - it is a field
    n_procs: ReaderCount = option(_readers)  # noqa: RUF009 - it is a field
    read_ahead: int | None = option(_optional(_READ_AHEAD))
    cyclic: bool = option(flag)
    block_size: int | None = option(_optional("Leave it out for the chunk's outer length"))
    ordered: bool = option(flag)
    remainder: bool = option(flag)
    #: A tuple of them, or a slice, for several.
    version: Any = option(check_versions)  # noqa: RUF009 - a field
    follow: bool = option(flag)
    max_wait_seconds: float | None = option(_timeout)

    def __post_init__(self) -> None:
        given = {
            "cyclic": self.cyclic or None,
            "rows": self.rows,
            "version": self.version,
            "block_size": self.block_size,
            "follow": self.follow or None,
        }
        if self.follow:
            _refuse(given, ("cyclic", "rows", "version"), "where a file that grows is followed")
        if self.has_versions:
            _refuse(given, ("rows", "block_size"), "where several versions are streamed")

    @property
    def is_plain(self) -> bool:
        """Whether rows are streamed once, all of them, by any readers but processes."""
        chosen = self.rows, self.read_ahead, self.version
        is_whole = all(one is None for one in chosen) and not self.cyclic
        return is_whole and self.n_procs.threads is not False

    @property
    def has_versions(self) -> bool:
        """Whether several versions are streamed."""
        return isinstance(self.version, tuple | slice)


_OF_STREAMS = tuple(one.name for one in fields(StreamOptions))


def stream_options(given: Mapping[str, Any]) -> StreamOptions:
    """Check the options of a stream: plain values once, as many streams have the same ones."""
    values = tuple(map(given.get, _OF_STREAMS))
    is_plain = _PLAIN.issuperset(map(type, values))
    return (_remembered if is_plain else _of_streams)(*values)


def _of_streams(*values: Any) -> StreamOptions:
    return checked(StreamOptions, **dict(zip(_OF_STREAMS, values, strict=True)))


_remembered = lru_cache(maxsize=16, typed=True)(_of_streams)


def _refuse(given: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Raise if an option is given which means nothing there."""
    for name in names:
        if given[name] is not None:
            raise wrong(name, f"cannot be given {where}", given[name], "Leave it out")


@dataclass(frozen=True)
class LoaderOptions:
    """Of all that has epochs."""

    epochs: int | None = option(_optional("None has no end"))
    start_epoch: int = option(check_number)
    n_procs: ReaderCount = option(_readers)  # noqa: RUF009 - it is a field
    rank: int = option(_at_least(0, "Ranks count from 0"))
    world_size: int = option(_at_least(1, "It is the number of ranks"))
    share: str | None = option(_share)

    def __post_init__(self) -> None:
        if self.rank >= self.world_size:
            raise OptionsError(
                f"rank is out of range: expected less than the world_size of {self.world_size}, "
                f"got {self.rank}",
                advice="Ranks count from 0",
                option="rank",
                expected=self.world_size,
                got=self.rank,
            )


@dataclass(frozen=True)
class BatchOptions(LoaderOptions):
    """Of `get_batches`."""

    #: As `row_subset.subset_of` takes them; checked when the length is known.
    rows: Any = option()  # noqa: RUF009 - it is a field
    transform: Callable[[Any], Any] | None = option()  # noqa: RUF009 - it is a field
    batch_size: int = option(_at_least(1, "It is the number of rows of a batch"))
    #: One of `SHUFFLES`.
    shuffle: str | None = option(_shuffle)
    seed: int = option(check_number)
    drop_last: bool = option(flag)
    read_ahead: int | None = option(_optional(_READ_AHEAD))
    window_rows: int | None = option(_optional("Leave it out for about 8 MiB of rows"))
    even: bool = option(flag)
    memory_limit_bytes: int = option(_shuffle_memory)
    skip_damaged: bool = option(flag)
    version: CheckedVersion | None = option(check_any_version)  # noqa: RUF009 - a field

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.share and (self.skip_damaged or (self.even and not self.drop_last)):
            name = "skip_damaged" if self.skip_damaged else "even"
            raise OptionsError(
                f"{name}=True cannot be given with share='node'"
                + (" and drop_last=False" * (not self.skip_damaged)),
                advice="Leave share out" + (", or give drop_last=True" * (not self.skip_damaged)),
                option=name,
            )


@dataclass(frozen=True)
class CollectionOptions(LoaderOptions):
    """Of `get_collection`."""

    #: One of `ORDERS`.
    order: str = option(_order)
    seed: int = option(check_number)
    attrs: tuple[str, ...] = option(check_names)
    exclude: tuple[str, ...] = option(check_names)
    ring_bytes: int | None = option(_optional("Leave it out for the library's choice"))
    skip_damaged: bool = option(flag)


@dataclass(frozen=True)
class ColumnOptions(LoaderOptions):
    """Of `get_columns`."""

    entries_per_block: int | None = option(_optional("Leave it out for about 8 MiB of rows"))


@dataclass(frozen=True)
class ItemBatchOptions:
    """Of `Collection.to_batches`."""

    pad: Any = option()  # noqa: RUF009 - it is a field
    batch_size: int = option(_at_least(1, "It is the number of items of a batch"))
    buckets: tuple[int, ...] = option(_edges)
    drop_last: bool = option(flag)


@dataclass(frozen=True)
class ReaderOptions:
    """Of a `Reader`."""

    n_procs: ReaderCount = option(_readers)  # noqa: RUF009 - it is a field
    memory_limit_bytes: int = option(_optional("Leave it out for 256 MiB", REQUEST_BYTES))
    cache_limit_bytes: int | None = option(_optional("0 keeps no chunks", least=0))
    library_timeout_seconds: float | None = option(_timeout)
    trusted: bool = option(flag)

    @property
    def cache_bytes(self) -> int:
        """Bytes of decoded chunks that each reader may keep.

        A cache that holds a good part of what is asked for saves its decoding; a share of the
        available memory stays small beside the page cache, which takes the rest.
        """
        if self.cache_limit_bytes is not None:
            return self.cache_limit_bytes
        share = available_bytes() // CACHE_SHARE // self.n_procs.count
        return min(max(share, MIN_CACHE_BYTES), MAX_CACHE_BYTES)
