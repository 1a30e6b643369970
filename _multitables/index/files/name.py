"""The name of one file, checked; names.py has lists and patterns of them.

Law
---
1. A name of a file is that file, with any characters. Only where there is no such file, ``~`` and
   ``file://`` have the meaning that shells and URLs give them, and other schemes are refused.
2. What is not a name is refused: a file object's lines and a mapping's keys are no names.

This file must never open a file, nor ask a store.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeGuard, cast

from _multitables.errors import OptionsError
from _multitables.index.saved.places import is_manifest
from _multitables.remote.names import SCHEMES, absolute, is_remote, kind_of, query_of
from _multitables.remote.options import StorageOptions

Filename: TypeAlias = str | os.PathLike[str] | bytes
NAME = (str, bytes, os.PathLike)
_COPY = "Copy the file to this machine or to such a store"
_SCHEME = re.compile(r"([a-z][a-z0-9+.:-]*)://", re.IGNORECASE)


def check_letters(name: Any) -> None:
    """Raise `OptionsError` if no file can have this name."""
    if "\0" in os.fsdecode(name):
        raise OptionsError(
            f"filename has a NUL, which no name of a file has, got {name!r}",
            advice="Check how the name was made",
            option="filename",
            got=name,
        )


def is_name(given: object) -> TypeGuard[Filename]:
    """Whether something names a file, and is none that is open, which may have a path, too."""
    return isinstance(given, NAME) and not isinstance(getattr(given, "filename", None), NAME)


def in_full(name: Filename) -> Filename:
    """Return a name without ``~`` and ``file://``, which the system does not know.

    Raises
    ------
    OptionsError
        It begins with a scheme that is no store's.
    """
    text = os.fsdecode(name)
    if is_remote(name) or not (text.startswith("~") or "://" in text) or os.path.lexists(text):
        return name
    found = _SCHEME.match(text)
    if found is None:
        return os.path.expanduser(text)
    scheme, (host, slash, path) = found[1].lower(), text[found.end() :].partition("/")
    if scheme != "file":
        known = ["file", *SCHEMES]
        raise OptionsError(
            f"no store has names that begin with {scheme!r}, got {text!r} (expected one of "
            f"{', '.join(known)}, or a name of this machine)",
            advice=f"{_COPY}; or give multitables.open a file object, as "
            "fsspec.open(...).open() makes it",
            option="filename",
            got=text,
        )
    if host.lower() not in ("", "localhost"):
        raise OptionsError(
            f"a file:// name has no host, as it is one of this machine, got {text!r}",
            advice=f"Write file:///FOLDER/NAME; or {_COPY.lower()}",
            option="filename",
            got=text,
        )
    from urllib.parse import unquote

    return unquote(slash + path)


def is_list(given: object) -> bool:
    """Whether something is a list, a tuple or an iterator, but no file object."""
    return isinstance(given, (list, tuple, Iterator)) and not hasattr(given, "read")


def not_a_name(given: Any) -> OptionsError:
    """Compose the error for what does not name a file."""
    kind, name = type(given).__name__, getattr(given, "name", None)
    opened = getattr(given, "filename", None)  # as h5py's and our files have it
    if hasattr(given, "read"):
        got = f"a file object ({kind})"
        advice = (
            "Write its bytes to a file (one on /dev/shm stays in memory), and give its name; or "
            "stream it with multitables.open(...).streamer()"
        )
        if isinstance(name, str) and os.path.isfile(name):
            advice = "Give its name: that of a file object is its attribute name"
    elif isinstance(opened, NAME):
        got, advice = f"an open file ({kind})", "Give its name, which is its attribute filename"
    else:
        got, advice = f"an object of type {kind}", "Give names as str, bytes or pathlib.Path"
    return OptionsError(
        f"filename must be the name of a file, or a list of names, got {got}",
        advice=advice,
        option="filename",
        got=kind,
    )


def check_one_file(filename: object, who: str, takes_manifest: bool = False) -> None:
    """Raise `OptionsError` if anything but one name is given to what takes one file."""
    if is_name(filename):
        check_letters(filename)
        if is_manifest(filename) and not takes_manifest:
            raise OptionsError(
                f"{who} takes one file, got a manifest of files, {os.fsdecode(filename)!r}",
                advice="Give the name of one file, or use open or Streamer",
                option="filename",
                got=filename,
            )
        return
    if not is_list(filename):
        raise not_a_name(filename)
    names = list(cast(Iterable[Any], filename))
    raise OptionsError(
        f"{who} takes one file, got a list of {len(names)}",
        advice=f"Call {who} for each file, or stream several files with Streamer",
        option="filename",
        got=names,
    )


def one_file_named(
    filename: Filename, who: str, storage: StorageOptions, takes_manifest: bool = False
) -> tuple[str, StorageOptions]:
    """Return the name of the one file that is given to `who`; see `files_named`."""
    check_one_file(filename, who, takes_manifest)
    filename = in_full(filename)
    if not is_remote(filename):
        return os.fsdecode(filename), storage.given_for(())
    from _multitables.remote import client

    client.is_expected = True
    whole, query = without_query(str(filename))
    return whole, storage.with_query(whole, query).given_for([whole])


def without_query(name: str) -> tuple[str, str]:
    """Return the whole name of an object, and what follows ``?`` in that of an HTTP object."""
    from urllib.parse import urlsplit

    if kind_of(name) == "http" and "@" in urlsplit(name).netloc:
        raise OptionsError(
            "the name of a file has a user or a password before its host",
            advice="Give storage_options={'headers': {'Authorization': ...}}, which is never shown",
            option="filename",
        )
    return absolute(name), query_of(name)
