"""The files and objects that references are to, and the state of each.

Law
---
1. A plain name is that of a file beside the references; if none is there, it counts from the
   directory that was the working one when they were named. References in a store are to objects
   only: they come from elsewhere, and must not read the files of this machine. `store` refuses
   what is out of reach.
2. The state of each target is asked for once, and of objects many at a time. A target that is
   missing is an error that names it and the references.

This file must never know arrays.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from urllib.parse import unquote, urlsplit

from _multitables.errors import FileOpenError, MissingFileError, MultitablesError
from _multitables.index.chunk_index import SourceFile
from _multitables.index.files.stored_objects import concurrently
from _multitables.index.kerchunk.store import Store
from _multitables.index.types.hdf5_errors import cannot_open, no_file
from _multitables.remote.names import absolute, folder_of, is_remote, joined, owner_of

#: A file of this machine may have a colon in its name. Bytes that a URL holds are in no file.
SCHEME = re.compile(r"[^/]*?://|data:[^,]*,", re.IGNORECASE)


class Targets:
    """Files by their URLs in references. Any thread may use it."""

    def __init__(self, references: str, store: Store, directory: str = "") -> None:
        self._references, self._store = references, store
        self._directory = directory or absolute("")
        self._known: dict[str, SourceFile] = {}

    def files(self, urls: Sequence[str]) -> list[SourceFile]:
        """Return the files of URLs, as they are now or were when they were asked for before.

        Raises
        ------
        FileOpenError, StoreError
            One is missing, or may not be read.
        """
        known = self._known
        new = [url for url in urls if url not in known]
        if new:
            # Files of this machine need no threads.
            ask = concurrently if sum(map(is_remote, new)) > 1 else map
            known = {**known, **dict(zip(new, ask(self._file, new), strict=True))}
            self._known = known
        return [known[url] for url in urls]

    def forget(self) -> None:
        """Ask for all states again."""
        self._known = {}

    def _file(self, url: str) -> SourceFile:
        whole = self._named(url)
        name = absolute(whole)
        try:
            state = self._store.state(whole)
        except FileNotFoundError:
            raise MissingFileError(
                f"no such file: {name!r}, to which the references {self._references!r} refer",
                advice="Copy it to where they say it is, or write the references anew",
                filename=name,
            ) from None
        except OSError as error:
            if isinstance(error, MultitablesError):
                raise
            raise cannot_open(name, error) from None
        if not state.access and not os.path.isfile(name):
            raise no_file(name)
        return SourceFile(name, state)

    def _named(self, url: str) -> str:
        """Return what a URL names: a file of this machine, or an object."""
        try:
            whole = self._whole(url)
            if whole and b"\0" not in os.fsencode(whole):
                return whole
        except ValueError:  # no URL, or not in the encoding of names
            pass
        here = "" if is_remote(self._references) else " and no file of this machine"
        raise FileOpenError(
            f"{self._references!r} refers to {url!r}, which is no object of a known store{here}",
            advice="Copy the target to where it can be read, and write the references anew",
            filename=self._references,
        )

    def _whole(self, url: str) -> str:
        scheme = SCHEME.match(url)
        if is_remote(url):
            if owner_of(url):
                return url
        elif is_remote(self._references):
            if scheme is None:
                return joined(folder_of(self._references), url)
        elif scheme is not None and scheme[0].lower() in ("file://", "local://"):
            return unquote(urlsplit(url).path)
        elif scheme is None:
            beside = os.path.join(os.path.dirname(self._references), url)
            return beside if os.path.exists(beside) else os.path.join(self._directory, url)
        return ""
