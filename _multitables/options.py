"""Options: their defaults, their limits and their checks; and those of `open`.

Law
---
1. The only home of defaults and of limits of options; sizes.py has what the library chooses.
2. One frozen class for each entry point; plan/reader_options.py has those of what readers read.
   Each field says how it is checked. `checked` makes the value at the face, and it is handed on
   whole.
3. An option that cannot work is an `OptionsError` before any file is opened or process started.
4. Knows nothing of datasets, files or processes; the kernel is asked by machine.py.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import Any, Literal, TypeVar, cast, get_args

import numpy as np

from _multitables import _core
from _multitables.errors import OptionsError, UnknownOptionError
from _multitables.machine import available_bytes, available_cores
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
Shuffle = Literal["chunks", "window", "full"] | bool | None
Share = Literal["node"] | None
#: A number, or the function that returns it.
Rank = int | Literal["mpi"]
#: Orders of the items of a collection.
Order = Literal["random", "file", "key"]
ORDERS: tuple[Order, ...] = get_args(Order)
#: How far a file may reach: what it names is opened as HDF5 does it, in the file's folder only, or
#: not at all.
Links = Literal["anywhere", "folder", "none"]
LINKS: tuple[Links, ...] = get_args(Links)
ANYWHERE, FOLDER, NO_LINKS = LINKS
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
#: The same for one iteration over items or ragged rows, which may soon be over: slots take memory.
ITERATION_SLOTS = 256


# ---- how one option is checked ------------------------------------------------------------

#: Takes an option's name and value, and returns the value to use.
Check = Callable[[str, Any], Any]


def wrong(
    name: str, happened: str, value: object, advice: str, tell_type: bool = False
) -> OptionsError:
    kind = f" ({type(value).__name__})" if tell_type else ""
    return OptionsError(
        f"{name} {happened}, got {value!r}{kind}", advice=advice, option=name, got=value
    )


def whole(name: str, value: Any, least: int, advice: str) -> int:
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong(name, "must be a whole number", value, advice, tell_type=True) from None
    if number < least or isinstance(value, bool):
        raise wrong(name, f"is out of range: expected at least {least}", value, advice)
    return number


def check_options(who: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise `UnknownOptionError` for the first name that `who` does not take."""
    known = list(known)
    for name in given:
        if name not in known:
            from difflib import get_close_matches  # which few programs need

            close = get_close_matches(name, known, 1, 0.5)
            raise UnknownOptionError(
                f"{who} has no option {name!r}",
                advice=f"Did you mean {close[0]!r}?" if close else "Leave it out",
                option=name,
            )


def _for_core(name: str, value: Any, least: int, advice: str) -> int:
    """Check a whole number that the core is given as it is."""
    number = whole(name, value, least, advice)
    if number > MAX_WHOLE:
        raise wrong(name, f"is out of range: expected at most {MAX_WHOLE}", value, advice)
    return number


def flag(_: str, value: Any) -> bool:
    return bool(value)


def _storage(_: str, value: Any) -> StorageOptions:
    return StorageOptions.of(value)


def check_number(name: str, value: Any) -> int:
    """Check a seed, or the number of an epoch."""
    number = whole(name, value, 0, f"It is a number of up to {SEED_BITS} bits")
    if number >> SEED_BITS:
        happened = f"is out of range: expected less than 2**{SEED_BITS}"
        raise wrong(name, happened, value, "Take a smaller number")
    return number


def check_links(name: str, value: Any) -> Links | None:
    """Check how far a file may reach; None: by whether it is trusted."""
    if value is not None and value not in LINKS:
        expected = ", ".join(map(repr, LINKS))
        advice = "'folder' opens what lies in the folder of the file"
        raise wrong(name, f"is unknown: expected {expected}", value, advice)
    links: Links | None = value
    return links


def check_names(name: str, value: Any) -> tuple[str, ...]:
    """Check one name, or several."""
    names = (value,) if isinstance(value, str) else value
    if not isinstance(names, Iterable) or not all(isinstance(one, str) for one in (*names,)):
        raise wrong(name, "must be a str, or several", value, "Write ('a', 'b')", tell_type=True)
    return tuple(names)


def _threads(name: str, value: Any) -> int:
    if value is None:
        return available_cores()
    return _for_core(name, value, 1, "Leave it out for one thread a core")


def open_cache(name: str, value: Any) -> int:
    """Check how many bytes of decoded chunks are kept; None: a share of the memory there is."""
    if value is None:
        share = available_bytes() // OPEN_CACHE_SHARE
        return min(max(1 << max(share, 1).bit_length() - 1, MIN_CACHE_BYTES), MAX_OPEN_CACHE_BYTES)
    return _for_core(name, value, 0, "0 keeps no chunks")


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
        raise wrong(name, "must be a name, an index or a time", value, advice, tell_type=True)
    return operator.index(value)


def check_any_version(name: str, value: Any) -> CheckedVersion | None:
    """Check which version of a file is meant, if it has any."""
    return None if value is None else check_version(name, value)


def _as_it_is(_: str, value: Any) -> Any:
    return value


def option(check: Check = _as_it_is) -> Any:
    return field(metadata={"check": check})


_T = TypeVar("_T")


def checked(kind: type[_T], **given: Any) -> _T:
    """Make one of the classes below of what a user gave, and fill in what is left open.

    Other arguments are ignored.

    Raises
    ------
    OptionsError
        An option that cannot work.
    """
    checks = _checks(cast(Any, kind))
    return kind(**{name: check(name, given[name]) for name, check in checks})


@lru_cache
def _checks(kind: type[Any]) -> list[tuple[str, Check]]:
    return [(one.name, one.metadata["check"]) for one in fields(kind)]


@dataclass(frozen=True)
class FileOptions:
    """Of `open`."""

    n_threads: int = option(_threads)
    cache_bytes: int = option(open_cache)
    locks: bool = option(flag)
    trusted: bool = option(flag)
    links: str | None = option(check_links)
    storage_options: StorageOptions = option(_storage)  # noqa: RUF009 - it is a field
