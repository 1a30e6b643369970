"""Which files a name means: the file of this name, what matches a pattern, or a list of either.

Law
---
1. A name of a file is that file, with any characters.
2. What matches a pattern comes in one order everywhere: by name, numbers in it as numbers.
3. A list of one file is that file. What is not a name, or a list, a tuple or an iterator of names,
   is refused.

This file must never open a file. A store is asked for names, where a pattern needs them.
"""

from __future__ import annotations

import fnmatch
import glob
import os
from typing import Any

from _multitables.errors import MissingFileError, OptionsError
from _multitables.index.files.name import (
    check_letters,
    in_full,
    is_list,
    is_name,
    not_a_name,
    without_query,
)
from _multitables.index.files.name_order import natural
from _multitables.index.files.stored_objects import listed
from _multitables.remote import client
from _multitables.remote.names import absolute, is_remote, kind_of
from _multitables.remote.options import StorageOptions


def files_named(filename: Any, storage: StorageOptions) -> tuple[Any, StorageOptions]:
    """Return the file that is meant, as it was given, or a list of the names of several.

    The returned options hold the queries of HTTP names, the part behind ``?``.

    Raises
    ------
    MissingFileError
        Nothing matches a pattern.
    OptionsError
        A list without files, or something that is no name.
    """
    named, storage = _named(filename, storage)
    return named, storage.given_for(named if isinstance(named, list) else [named])


def _named(filename: Any, storage: StorageOptions) -> tuple[Any, StorageOptions]:
    if is_name(filename):
        check_letters(filename)
        filename = in_full(filename)
        if is_remote(filename):
            return _objects(str(filename), storage)
        if not glob.has_magic(os.fsdecode(filename)) or os.path.exists(filename):
            return filename, storage
        return _one_or_all(_matches(os.fsdecode(filename))), storage
    if not is_list(filename):
        raise not_a_name(filename)
    found: list[str] = []
    for one in filename:
        if not is_name(one):
            raise not_a_name(one)
        named, storage = _named(one, storage)
        found += named if isinstance(named, list) else [os.fsdecode(named)]
    if not found:
        raise OptionsError(
            "filename must name at least one file, got an empty list",
            advice="Give the names of the files",
            option="filename",
            got=found,
        )
    return _one_or_all(found), storage


def whole_names(named: Any) -> list[str]:
    """Return the whole names of what `files_named` returned, as the working directory is now."""
    names = named if isinstance(named, list) else [named]
    return [absolute(os.fsdecode(name)) for name in names]


def _objects(name: str, storage: StorageOptions) -> tuple[Any, StorageOptions]:
    """Return the object of a name, or those that match a pattern."""
    client.is_expected = True
    whole, query = without_query(name)
    if kind_of(name) == "http" or not glob.has_magic(whole):
        return whole, storage.with_query(whole, query)
    names = listed(whole[: glob.escape(whole).find("[")], storage.given_for([whole]))
    if whole in names:
        return whole, storage
    found = [one for one in names if _matches_parts(one.split("/"), whole.split("/"))]
    return _one_or_all(_sorted(found, whole)), storage


def _matches_parts(parts: list[str], patterns: list[str]) -> bool:
    """Match part by part, as `glob` does: only ``**`` stands for several parts, or for none."""
    if not patterns:
        return not parts
    first, rest = patterns[0], patterns[1:]
    if first == "**":
        return any(_matches_parts(parts[n:], rest) for n in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatchcase(parts[0], first) and _matches_parts(parts[1:], rest)


def _one_or_all(names: list[str]) -> str | list[str]:
    return names if len(names) > 1 else names[0]


def _matches(pattern: str) -> list[str]:
    found = [name for name in glob.glob(pattern, recursive=True) if not os.path.isdir(name)]
    return _sorted(found, pattern)


def _sorted(found: list[str], pattern: str) -> list[str]:
    if not found:
        raise MissingFileError(
            f"no file matches {pattern!r}",
            advice="Check the pattern, and the bucket or the working directory",
            filename=pattern,
        )
    return sorted(found, key=natural)
