"""Who may have written a saved index, which decides whether it is opened.

Law
---
1. An index beside a file is believed where only those could write it who could put another file in
   the place of its file. One in the cache directory is believed if this user or root has it and the
   directory, and no other user may write either.
2. No symbolic link is followed to an index, and a pipe is not waited for. What was checked is what
   is read.

This file must never know what an index says.
"""

from __future__ import annotations

import errno
import os
import stat

from _multitables._core import Descriptor

#: Users beside the owner may write.
OTHERS = stat.S_IWGRP | stat.S_IWOTH
READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
ANY_FOLDER = os.O_PATH | os.O_CLOEXEC | os.O_DIRECTORY  # it may be one that cannot be listed
FOLDER = ANY_FOLDER | os.O_NOFOLLOW


class ForeignIndexError(Exception):
    """Why a saved index is not believed."""


def opened_index(place: str, of: str | None = None) -> Descriptor | None:
    """Open an index beside the file `of`, or one in the cache directory; None: it is missing.

    Raises
    ------
    ForeignIndexError
        Another user may have written it.
    OSError
        It cannot be opened.
    """
    flags = FOLDER if of is None else ANY_FOLDER
    try:
        folder = Descriptor.open(os.path.dirname(place) or ".", flags)
        index = Descriptor.open(os.path.basename(place), READ, folder)
    except FileNotFoundError:
        return None
    above, state = os.fstat(folder.fileno()), os.fstat(index.fileno())
    if of is None:
        _check(above, "its folder", {os.geteuid(), 0})
        _check(state, "it", {os.geteuid(), 0})
    else:
        _check_beside(state, above, os.stat(of))
    return index


def _check_beside(index: os.stat_result, folder: os.stat_result, file: os.stat_result) -> None:
    """Check an index beside its file: who may rename files here could replace that one, too."""
    owners = {os.geteuid(), 0, file.st_uid, folder.st_uid}
    is_shared = folder.st_mode & OTHERS and not folder.st_mode & stat.S_ISVTX
    allowed = file.st_mode & OTHERS if index.st_gid == file.st_gid else file.st_mode & stat.S_IWOTH
    _check(index, "it", owners | ({index.st_uid} if is_shared else set()), allowed)


def _check(state: os.stat_result, what: str, owners: set[int], allowed: int = 0) -> None:
    if not stat.S_ISREG(state.st_mode) and not stat.S_ISDIR(state.st_mode):
        raise ForeignIndexError(f"{what} is no regular file")
    if state.st_uid not in owners:
        expected = " or ".join(map(str, sorted(owners)))
        raise ForeignIndexError(
            f"{what} belongs to another user (expected user {expected}, got {state.st_uid})"
        )
    if state.st_mode & OTHERS & ~allowed:
        raise ForeignIndexError(
            f"other users may write {what} (its mode is {stat.S_IMODE(state.st_mode):04o})"
        )


def folder_for(name: str, *, private: bool) -> Descriptor:
    """Open the folder of a file that is to be written; a private one is made if it is missing.

    Raises
    ------
    OSError
        It cannot be opened, or a private one is another user's or may be written by others.
    """
    path = os.path.dirname(name) or "."
    if private:
        os.makedirs(path, 0o700, exist_ok=True)
    folder = Descriptor.open(path, FOLDER if private else ANY_FOLDER)
    if private:
        try:
            _check(os.fstat(folder.fileno()), "its folder", {os.geteuid()})
        except ForeignIndexError as error:
            raise PermissionError(errno.EPERM, str(error)) from None
    return folder
