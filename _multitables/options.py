"""The options of streams and of random access: their defaults, their limits and their checks.

Law
---
1. The only home of defaults and of limits of options; sizes.py has what the library chooses.
2. One frozen class for each entry point. Each field says how it is checked. `checked` makes the
   value at the face, and it is handed on whole.
3. An option that cannot work is an `OptionsError` before any file is opened or process started.
4. Knows nothing of datasets, files or processes; the kernel is asked by machine.py.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

import numpy as np

from _multitables import _core
from _multitables.errors import OptionsError
from _multitables.machine import available_bytes, available_cores, memory_limit_bytes
from _multitables.remote.options import StorageOptions

#: Readers when `n_procs` is None, if as many cores are available.
DEFAULT_N_PROCS = 4
#: More readers than this serve no machine, and the ring keeps room for each.
MAX_N_PROCS = _core.MAX_READERS
#: Seconds without a block or a free stage, while the user holds all of them, before
#: `StalledError`.
STALL_SECONDS = 30.0
#: Seconds between two looks at the readers while somebody waits for them.
WATCH_SECONDS = 0.05
#: Seconds that a reader may be inside a library without reading, by default.
LIBRARY_TIMEOUT_SECONDS = 60.0
#: Which version of a file is meant: its name, its index, or a time in UTC.
CheckedVersion = str | int | np.datetime64
#: Seconds that rows which fill no block wait, when a file is followed, by default.
MAX_WAIT_SECONDS = 1.0
#: What may be shuffled, by its number.
SHUFFLES = _core.SHUFFLES
#: Orders of the items of a collection.
ORDERS = ("random", "file", "key")
#: How far a file may reach: what it names is opened as HDF5 does it, in the file's folder only, or
#: not at all.
LINKS = ANYWHERE, FOLDER, NO_LINKS = "anywhere", "folder", "none"
#: Bits of a seed or an epoch.
SEED_BITS = 63
MAX_WHOLE = (1 << SEED_BITS) - 1
#: Memory of a stream in which all rows are shuffled, by default.
SHUFFLE_BYTES = 512 << 20
#: All readers of a `Reader` together keep decoded chunks in one part in this many of the memory
#: that is available when they start;
CACHE_SHARE = 32
#: each of them in at least this many bytes,
MIN_CACHE_BYTES = 64 << 20
#: and at most this many.
MAX_CACHE_BYTES = 512 << 20
#: The handles of a file keep them in one part in this many, rounded down to a power of two so that
#: all of them share it, in at least `MIN_CACHE_BYTES`,
OPEN_CACHE_SHARE = 64
#: and at most this many: a program may have many processes with handles of their own.
MAX_OPEN_CACHE_BYTES = 256 << 20
#: Results of requests without a stage of their own, that a `Reader` holds at once, in bytes.
REQUEST_BYTES = 256 << 20
#: A first guess of what a library's result needs, if its size cannot be told.
GUESSED_BYTES = 1 << 20
#: Tasks of requests that can be on their way at once, for each `Reader`.
REQUEST_SLOTS = 1024


# ---- how one option is checked ------------------------------------------------------------

#: Takes an option's name and value, and returns the value to use.
Check = Callable[[str, Any], Any]


def _wrong(
    name: str, happened: str, value: object, advice: str, tell_type: bool = False
) -> OptionsError:
    kind = f" ({type(value).__name__})" if tell_type else ""
    return OptionsError(
        f"{name} {happened}, got {value!r}{kind}", advice=advice, option=name, got=value
    )


def _whole(name: str, value: Any, least: int, advice: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise _wrong(name, "must be a whole number", value, advice, tell_type=True) from None
    if number < least or isinstance(value, bool):
        raise _wrong(name, f"is out of range: expected at least {least}", value, advice)
    return number


def _for_core(name: str, value: Any, least: int, advice: str) -> int:
    """Check a whole number that the core is given as it is."""
    number = _whole(name, value, least, advice)
    if number > MAX_WHOLE:
        raise _wrong(name, f"is out of range: expected at most {MAX_WHOLE}", value, advice)
    return number


def _at_least(least: int, advice: str) -> Check:
    return lambda name, value: _whole(name, value, least, advice)


def _optional(advice: str, default: int | None = None, least: int = 1) -> Check:
    """A whole number, or None for a default."""
    return lambda name, value: default if value is None else _whole(name, value, least, advice)


def _flag(_: str, value: Any) -> bool:
    return bool(value)


def _storage(_: str, value: Any) -> StorageOptions:
    return StorageOptions.of(value)


def check_number(name: str, value: Any) -> int:
    """Check a seed, or the number of an epoch."""
    number = _whole(name, value, 0, f"It is a number of up to {SEED_BITS} bits")
    if number >> SEED_BITS:
        happened = f"is out of range: expected less than 2**{SEED_BITS}"
        raise _wrong(name, happened, value, "Take a smaller number")
    return number


def check_procs(name: str, value: Any) -> int:
    """Check how many readers there shall be."""
    if value is None:
        return min(DEFAULT_N_PROCS, available_cores())
    procs = _whole(name, value, 1, "Leave it out for one reader a core, up to 4")
    if procs > MAX_N_PROCS:
        happened = f"is out of range: expected at most {MAX_N_PROCS}"
        raise _wrong(name, happened, procs, "One reader a core is enough")
    return procs


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
        raise _wrong(name, "is unknown: expected None or 'node'", value, "Leave it out")
    share: str | None = value
    return share


def _order(name: str, value: Any) -> str:
    if value not in ORDERS:
        expected = ", ".join(map(repr, ORDERS))
        raise _wrong(name, f"is unknown: expected {expected}", value, "'file' reads ahead best")
    order: str = value
    return order


def check_links(name: str, value: Any) -> str | None:
    """Check how far a file may reach; None: by whether it is trusted."""
    if value is not None and value not in LINKS:
        expected = ", ".join(map(repr, LINKS))
        advice = "'folder' opens what lies in the folder of the file"
        raise _wrong(name, f"is unknown: expected {expected}", value, advice)
    links: str | None = value
    return links


def check_names(name: str, value: Any) -> tuple[str, ...]:
    """Check one name, or several."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Iterable) or not all(isinstance(one, str) for one in (*names,)):
        raise _wrong(name, "must be a str, or several", value, "Write ('a', 'b')", tell_type=True)
    return tuple(names)


def _edges(name: str, value: Any) -> tuple[int, ...]:
    advice = "They are the longest lengths of each bucket"
    edges = tuple(_whole(name, edge, 1, advice) for edge in value or ())
    if any(edge >= after for edge, after in itertools.pairwise(edges)):
        raise _wrong(name, "must ascend", value, advice)
    return edges


def _threads(name: str, value: Any) -> int:
    if value is None:
        return available_cores()
    return _for_core(name, value, 1, "Leave it out for one thread a core")


def _open_cache(name: str, value: Any) -> int:
    if value is None:
        share = available_bytes() // OPEN_CACHE_SHARE
        return min(max(1 << max(share, 1).bit_length() - 1, MIN_CACHE_BYTES), MAX_OPEN_CACHE_BYTES)
    return _for_core(name, value, 0, "0 keeps no chunks")


def _shuffle_memory(name: str, value: Any) -> int:
    if value is None:
        # Ranks that look one after the other shall come to the same.
        limit = max(memory_limit_bytes(), 1)
        return min(SHUFFLE_BYTES, 1 << limit.bit_length() - 1)
    return _whole(name, value, 1, "Leave it out for 512 MiB")


def _rotational(name: str, value: Any) -> bool | None:
    if value is None or isinstance(value, bool):
        return value
    advice = "Leave it out to go by what the kernel says of the disk"
    raise _wrong(name, "must be True, False or None", value, advice, tell_type=True)


def _timeout(name: str, value: Any) -> float | None:
    if value is None:
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 < number < math.inf:
        raise _wrong(name, "must be seconds above 0, or None", value, "None waits for ever")
    return number


def check_version(name: str, value: Any) -> CheckedVersion:
    """Check which version of a file is meant."""
    if isinstance(value, str):
        return value
    advice = "Give its name, an index (-1 is the current version), or a time with a time zone"
    offset = value.utcoffset() if hasattr(value, "utcoffset") else None
    if offset is not None:  # NumPy's times are in UTC, and have no time zone
        return np.datetime64((value - offset).replace(tzinfo=None), "us")
    if isinstance(value, np.datetime64) and not np.isnat(value):
        time: np.datetime64 = value.astype("datetime64[us]")
        return time
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _wrong(name, "must be a name, an index or a time", value, advice, tell_type=True)
    return operator.index(value)


def check_any_version(name: str, value: Any) -> CheckedVersion | None:
    """Check which version of a file is meant, if it has any."""
    return None if value is None else check_version(name, value)


def check_versions(name: str, value: Any) -> Any:
    """Check which version of a file is meant, or which several: a list or a slice."""
    if isinstance(value, list | tuple):
        if not value:
            raise _wrong(name, "names no version", value, "Give at least one version")
        return tuple(check_version(name, one) for one in value)
    if isinstance(value, slice):
        parts = (value.start, value.stop, value.step)
        if value.step != 0 and all(one is None or hasattr(one, "__index__") for one in parts):
            return value
        raise _wrong(name, "must be a slice of indices", value, "slice(-3, None) is the last three")
    return check_any_version(name, value)


def _option(check: Check) -> Any:
    return field(metadata={"check": check})


_T = TypeVar("_T")


def checked(kind: type[_T], **given: Any) -> _T:
    """Make one of the classes below of what a user gave, and fill in what is left open.

    Raises
    ------
    OptionsError
        An option that cannot work.
    """
    for one in fields(kind):  # type: ignore[arg-type]
        if "check" in one.metadata:
            given[one.name] = one.metadata["check"](one.name, given[one.name])
    return kind(**given)


# ---- the options of each entry point ------------------------------------------------------

_READ_AHEAD = "Leave it out for the library's choice"


@dataclass(frozen=True)
class StreamerOptions:
    """Of a `Streamer`."""

    rotational: bool | None = _option(_rotational)
    library_timeout_seconds: float | None = _option(_timeout)
    trusted: bool = _option(_flag)
    skip_missing: bool = _option(_flag)


@dataclass(frozen=True)
class StreamOptions:
    """Of `get_queue` and `get_generator`."""

    #: As `row_subset.subset_of` takes them; checked when the length is known.
    rows: Any
    n_procs: int = _option(check_procs)
    read_ahead: int | None = _option(_optional(_READ_AHEAD))
    cyclic: bool = _option(_flag)
    block_size: int | None = _option(_optional("Leave it out for the chunk's outer length"))
    ordered: bool = _option(_flag)
    remainder: bool = _option(_flag)
    #: A tuple of them, or a slice, for several.
    version: Any = _option(check_versions)  # noqa: RUF009 - a field
    follow: bool = _option(_flag)
    max_wait_seconds: float | None = _option(_timeout)

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
    def has_versions(self) -> bool:
        """Whether several versions are streamed."""
        return isinstance(self.version, tuple | slice)


def _refuse(given: Mapping[str, Any], names: Sequence[str], where: str) -> None:
    """Raise if an option is given which means nothing there."""
    for name in names:
        if given[name] is not None:
            raise _wrong(name, f"cannot be given {where}", given[name], "Leave it out")


def _check_rank(rank: int, world_size: int) -> None:
    if rank >= world_size:
        raise OptionsError(
            f"rank is out of range: expected less than the world_size of {world_size}, got {rank}",
            advice="Ranks count from 0",
            option="rank",
            expected=world_size,
            got=rank,
        )


@dataclass(frozen=True)
class BatchOptions:
    """Of `get_batches`."""

    #: As `row_subset.subset_of` takes them; checked when the length is known.
    rows: Any
    transform: Callable[[Any], Any] | None
    batch_size: int = _option(_at_least(1, "It is the number of rows of a batch"))
    n_procs: int = _option(check_procs)
    #: One of `SHUFFLES`.
    shuffle: str | None = _option(_shuffle)
    seed: int = _option(check_number)
    epochs: int | None = _option(_optional("None has no end"))
    start_epoch: int = _option(check_number)
    drop_last: bool = _option(_flag)
    rank: int = _option(_at_least(0, "Ranks count from 0"))
    world_size: int = _option(_at_least(1, "It is the number of ranks"))
    read_ahead: int | None = _option(_optional(_READ_AHEAD))
    window_rows: int | None = _option(_optional("Leave it out for about 8 MiB of rows"))
    even: bool = _option(_flag)
    memory_limit_bytes: int = _option(_shuffle_memory)
    skip_damaged: bool = _option(_flag)
    version: CheckedVersion | None = _option(check_any_version)  # noqa: RUF009 - a field
    share: str | None = _option(_share)

    def __post_init__(self) -> None:
        _check_rank(self.rank, self.world_size)
        if self.share and (self.skip_damaged or (self.even and not self.drop_last)):
            name = "skip_damaged" if self.skip_damaged else "even"
            raise OptionsError(
                f"{name}=True cannot be given with share='node'"
                + (" and drop_last=False" * (not self.skip_damaged)),
                advice="Leave share out" + (", or give drop_last=True" * (not self.skip_damaged)),
                option=name,
            )


@dataclass(frozen=True)
class CollectionOptions:
    """Of `get_collection`."""

    #: One of `ORDERS`.
    order: str = _option(_order)
    seed: int = _option(check_number)
    epochs: int | None = _option(_optional("None has no end"))
    start_epoch: int = _option(check_number)
    n_procs: int = _option(check_procs)
    rank: int = _option(_at_least(0, "Ranks count from 0"))
    world_size: int = _option(_at_least(1, "It is the number of ranks"))
    attrs: tuple[str, ...] = _option(check_names)
    exclude: tuple[str, ...] = _option(check_names)
    ring_bytes: int | None = _option(_optional("Leave it out for the library's choice"))
    skip_damaged: bool = _option(_flag)
    share: str | None = _option(_share)

    def __post_init__(self) -> None:
        _check_rank(self.rank, self.world_size)


@dataclass(frozen=True)
class ColumnOptions:
    """Of `get_columns`."""

    entries_per_block: int | None = _option(_optional("Leave it out for about 8 MiB of rows"))
    n_procs: int = _option(check_procs)
    rank: int = _option(_at_least(0, "Ranks count from 0"))
    world_size: int = _option(_at_least(1, "It is the number of ranks"))
    share: str | None = _option(_share)

    def __post_init__(self) -> None:
        _check_rank(self.rank, self.world_size)


@dataclass(frozen=True)
class ItemBatchOptions:
    """Of `Collection.to_batches`."""

    pad: Any
    batch_size: int = _option(_at_least(1, "It is the number of items of a batch"))
    buckets: tuple[int, ...] = _option(_edges)
    drop_last: bool = _option(_flag)


@dataclass(frozen=True)
class ReaderOptions:
    """Of a `Reader`."""

    n_procs: int = _option(check_procs)
    memory_limit_bytes: int = _option(_optional("Leave it out for 256 MiB", REQUEST_BYTES))
    cache_limit_bytes: int | None = _option(_optional("0 keeps no chunks", least=0))
    library_timeout_seconds: float | None = _option(_timeout)
    trusted: bool = _option(_flag)

    @property
    def cache_bytes(self) -> int:
        """Bytes of decoded chunks that each reader may keep.

        A cache that holds a good part of what is asked for saves its decoding; a share of the
        available memory stays small beside the page cache, which takes the rest.
        """
        if self.cache_limit_bytes is not None:
            return self.cache_limit_bytes
        share = available_bytes() // CACHE_SHARE // self.n_procs
        return min(max(share, MIN_CACHE_BYTES), MAX_CACHE_BYTES)


@dataclass(frozen=True)
class FileOptions:
    """Of `open`."""

    n_threads: int = _option(_threads)
    cache_bytes: int = _option(_open_cache)
    trusted: bool = _option(_flag)
    links: str | None = _option(check_links)
    storage_options: StorageOptions = _option(_storage)  # noqa: RUF009 - it is a field
