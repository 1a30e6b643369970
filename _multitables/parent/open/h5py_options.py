"""The options of `h5py.File` that a program gives to `open`: what they mean where files are read.

Law
---
1. `DRIVERS` and `NO_MATTER` name all that h5py takes. Of those that mean something to a reader, the
   meaning is the same; those for HDF5's own caches, for its ways of reading one file, and for files
   that are written, change nothing.
2. Names and drivers that h5py does not know are refused, as h5py refuses them.

This file must never open a file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from _multitables.options import check_options, whole, wrong

#: Drivers that read one file, or one object, and the options of each.
DRIVERS = {
    None: "",
    "sec2": "",
    "stdio": "",
    "core": "backing_store block_size",
    "direct": "alignment block_size cbuf_size",
    "fileobj": "fileobj",
    "mpio": "comm info",
    "ros3": "aws_region secret_id secret_key session_token",
}
#: Other options: all but ``rdcc_nbytes`` matter to HDF5's own caches, or to what writes.
NO_MATTER = """libver userblock_size rdcc_nbytes rdcc_nslots rdcc_w0 track_order track_times
    fs_strategy fs_persist fs_threshold fs_page_size page_buf_size min_meta_keep min_raw_keep
    alignment_threshold alignment_interval meta_block_size"""
MODES = ("r", "r+", "w", "w-", "x", "a")
#: Whether the lock of readers is taken, by what `locking` may be.
LOCKING = {True: True, "true": True, "best-effort": True, False: False, "false": False}
#: The driver ros3's names for what a store's client needs.
CREDENTIALS = {
    "aws_region": "region",
    "secret_id": "access_key_id",
    "secret_key": "secret_access_key",
    "session_token": "session_token",
}
_LEAVE = "Leave it out: files are read in one way"


class Taken(NamedTuple):
    """The options that have a meaning here."""

    #: Whether the lock of readers is taken, where the environment does not say it.
    locks: bool
    #: Bytes of decoded chunks that are kept at least.
    cache_bytes: int
    storage_options: Mapping[str, Any]


def taken(
    mode: object, driver: Any, locking: Any, others: Mapping[str, Any], own: Iterable[str]
) -> Taken:
    """Return what is taken of h5py's options, where a program gives any.

    Parameters
    ----------
    mode, driver, locking : object
        As h5py takes them.
    others : mapping
        Other options.
    own : iterable of str
        The options that `open` has beside them.

    Raises
    ------
    OptionsError
        A value that an option cannot have, or an unknown option.
    """
    if mode is not None and mode not in MODES:
        raise wrong("mode", f"must be one of {', '.join(map(repr, MODES))}", mode, _LEAVE)
    if driver not in DRIVERS:
        expected = ", ".join(map(repr, DRIVERS))
        raise wrong("driver", f"must be one of {expected}", driver, _LEAVE)
    check_options("open", others, [*own, *f"{NO_MATTER} {DRIVERS[driver]}".split()])
    if locking not in (None, *LOCKING):
        expected = ", ".join(map(repr, (None, *LOCKING)))
        raise wrong("locking", f"must be one of {expected}", locking, _LEAVE)
    least = others.get("rdcc_nbytes")
    if least is not None:
        least = whole("rdcc_nbytes", least, 0, "It is a number of bytes")
    login = {CREDENTIALS[name]: others[name] for name in CREDENTIALS if others.get(name)}
    texts = {name: one.decode() if isinstance(one, bytes) else one for name, one in login.items()}
    return Taken(LOCKING.get(locking, True), least or 0, texts)
