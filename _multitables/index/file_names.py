"""Which files a name means: the file of this name, what matches a pattern, or a list of either.

Law
---
1. A name of a file is that file, whatever characters it has.
2. What matches a pattern comes in one order everywhere: by name, numbers in it as numbers.
3. A list of one file is that file.

This file must never open a file.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable
from typing import Any, TypeAlias

from _multitables.errors import MissingFileError, OptionsError

#: Of one file, and of one or several.
Filename: TypeAlias = str | os.PathLike[str] | bytes
Filenames: TypeAlias = Filename | list[str]


def files_named(filename: Any) -> Any:
    """Return the file that is meant, as it was given, or a list of the names of several.

    Raises
    ------
    MissingFileError
        Nothing matches a pattern.
    OptionsError
        A list without files.
    """
    if isinstance(filename, (str, bytes, os.PathLike)):
        if not glob.has_magic(os.fsdecode(filename)) or os.path.exists(filename):
            return filename
        return _one_or_all(_matches(os.fsdecode(filename)))
    if not isinstance(filename, Iterable):
        return filename  # no name: who opens it says so
    found: list[str] = []
    for one in filename:
        named = files_named(one)
        found += named if isinstance(named, list) else [os.fsdecode(named)]
    if not found:
        raise OptionsError(
            "filename must name at least one file, got an empty list",
            advice="Give the names of the files",
            option="filename",
            got=found,
        )
    return _one_or_all(found)


def check_one_file(filename: Filename | Iterable[Filename], who: str) -> None:
    """Raise `OptionsError` if several files are given to what takes one."""
    if isinstance(filename, Iterable) and not isinstance(filename, (str, bytes)):
        names = list(filename)
        raise OptionsError(
            f"{who} takes one file, got a list of {len(names)}",
            advice=f"Call {who} for each file, or stream several files with Streamer",
            option="filename",
            got=names,
        )


def _one_or_all(names: list[str]) -> str | list[str]:
    return names if len(names) > 1 else names[0]


def _matches(pattern: str) -> list[str]:
    found = [name for name in glob.glob(pattern, recursive=True) if not os.path.isdir(name)]
    if not found:
        raise MissingFileError(
            f"no file matches {pattern!r}",
            advice="Check the pattern and the working directory",
            filename=pattern,
        )
    return sorted(found, key=lambda name: (_in_words(name), name))


def _in_words(name: str) -> list[str | int]:
    """Cut a name into text and numbers, in turn, so that equal places are of one type."""
    parts = re.split("([0-9]+)", name)
    return [int(part) if number % 2 else part for number, part in enumerate(parts)]
