"""How far a file may reach: which of the files that it names are opened.

Law
---
1. Links, virtual sources, raw files and references alike. What is refused is an error, never
   a missing file: data is as with ``links="anywhere"``, or not there.
2. An HDF5 file of this machine names files of this machine only, by any name; what
   lies in a store never names a file of this machine.
3. A name is judged by what it leads to, through symbolic links and "..". A file of this machine is
   judged again when it is open, since another process may have changed what the name leads to.
4. A store that is out of reach is not asked.

This file must never open a file.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property

from _multitables.errors import LinkRefusedError
from _multitables.options import ANYWHERE, FOLDER, NO_LINKS
from _multitables.remote.names import absolute, folder_of, is_below, is_remote

#: What a file may name -> why another file is refused.
WHY: dict[str, str] = {
    ANYWHERE: "what lies in a store names no file of this machine",
    FOLDER: "it is not in the folder of that file (links='folder')",
    NO_LINKS: "that file may name no other (links='none')",
}


@dataclass(frozen=True)
class Reach:
    """How far one file may reach, and the files that it leads to.

    Parameters
    ----------
    home : str
        Whole name of the file, as the user gave it.
    links : str
        One of `options.LINKS`.
    """

    home: str
    links: str

    def check(self, name: str) -> None:
        """Raise if the file of a whole name is there, or may be in a store, and out of reach.

        Raises
        ------
        LinkRefusedError
            It is not opened.
        """
        if not self._has(name) and (
            self.links == NO_LINKS or is_remote(name) or os.path.lexists(name)
        ):
            raise self.refused(name)

    def check_opened(self, name: str, device: int, inode: int) -> None:
        """Raise if the file that was opened by a name of this machine is out of reach.

        Raises
        ------
        LinkRefusedError
            The name leads elsewhere by now, or led there when the file was opened.
        """
        if self.links == ANYWHERE or is_remote(name):
            return
        real = os.path.realpath(name)
        try:
            now = os.lstat(real)
        except OSError:
            raise self.refused(name) from None
        if not self._has_local(real) or (now.st_dev, now.st_ino) != (device, inode):
            raise self.refused(name)

    def refused(self, name: str) -> LinkRefusedError:
        """Compose the error for a file that is out of reach."""
        return LinkRefusedError(
            f"{self.home!r} leads to {absolute(name)!r}, which is not opened: {WHY[self.links]}",
            good="What it holds itself can be read",
            advice="" if self.links == ANYWHERE else "If you trust it, give links='anywhere'",
            filename=self.home,
            target=absolute(name),
        )

    def _has(self, name: str) -> bool:
        if is_remote(self.home) and not is_remote(name):
            return False
        if self.links != FOLDER:
            return self.links == ANYWHERE
        if is_remote(name):
            return is_below(name, folder_of(self.home))
        return "\0" not in name and self._has_local(os.path.realpath(name))

    def _has_local(self, real: str) -> bool:
        return any(os.path.commonpath((folder, real)) == folder for folder in self._folders)

    @cached_property
    def _folders(self) -> tuple[str, str]:
        """The folder of the file's name, and that of the file: its name may be a symbolic link."""
        folder = os.path.dirname(self.home)
        return os.path.realpath(folder), os.path.dirname(os.path.realpath(self.home))
