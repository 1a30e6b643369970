"""Options of PyTables' ``open_file``, as a stream takes them.

1. As in PyTables, names are taken in any case. Those that it does not have are refused.
2. What only matters to a writer, or to PyTables' own caches, is ignored.
3. The driver H5FD_DIRECT asks the readers for direct I/O, whatever libhdf5 was built with. Of an
   object of a store it means nothing, as others do.

This file must never open a file or import an HDF5 library.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from _multitables.errors import OptionsError
from _multitables.index.chunk_index import Fingerprint
from _multitables.index.files.reach import Reach
from _multitables.index.types import hdf5_errors
from _multitables.options import ANYWHERE, FOLDER, NO_LINKS, check_links, check_options
from _multitables.remote.names import is_remote
from _multitables.remote.options import StorageOptions

# What a driver means here. "plain": the file holds the bytes at the addresses that HDF5 names.
DRIVERS = {
    "H5FD_SEC2": "plain",
    "H5FD_STDIO": "plain",
    "H5FD_WINDOWS": "plain",
    "H5FD_CORE": "plain",  # a memory copy of the file: the readers read the file itself
    "H5FD_DIRECT": "direct",
    "H5FD_SPLIT": "split",
}

#: All that PyTables takes, of any version that still counts, without those in small letters.
NAMES = """
    ALLOW_PADDING BOUNDS_MAX_SIZE BOUNDS_MAX_SLOTS BUFFER_TIMES CHUNK_CACHE_NELMTS
    CHUNK_CACHE_PREEMPT CHUNK_CACHE_SIZE COND_CACHE_SLOTS DISABLE_EVERY_CYCLES DRIVER
    DRIVER_CORE_BACKING_STORE DRIVER_CORE_IMAGE DRIVER_CORE_INCREMENT DRIVER_DIRECT_ALIGNMENT
    DRIVER_DIRECT_BLOCK_SIZE DRIVER_DIRECT_CBUF_SIZE DRIVER_SPLIT_META_EXT DRIVER_SPLIT_RAW_EXT
    ENABLE_EVERY_CYCLES EXPECTED_ROWS_EARRAY EXPECTED_ROWS_TABLE EXPECTED_ROWS_VLARRAY
    IO_BUFFER_SIZE ITERSEQ_MAX_ELEMENTS ITERSEQ_MAX_SIZE ITERSEQ_MAX_SLOTS LIMBOUNDS_MAX_SIZE
    LIMBOUNDS_MAX_SLOTS LOWEST_HIT_RATIO MAX_BLOSC_THREADS MAX_COLUMNS MAX_GROUP_WIDTH
    MAX_NODE_ATTRS MAX_NUMEXPR_THREADS MAX_THREADS MAX_TREE_DEPTH MAX_UNDO_PATH_LENGTH
    METADATA_CACHE_SIZE NODE_CACHE_SLOTS PYTABLES_SYS_ATTRS SORTEDLR_MAX_SIZE SORTEDLR_MAX_SLOTS
    SORTED_MAX_SIZE TABLE_MAX_SIZE USER_BLOCK_SIZE
"""
#: Those that its signature has.
SMALL = "mode title root_uep filters"

#: Options that no library in a reader is given.
NOT_FOR_LIBRARY = {
    "MODE",
    "TITLE",
    "ROOT_UEP",
    "FILTERS",
    "DRIVER_CORE_IMAGE",
    "STORAGE_OPTIONS",
    "LINKS",
    "ACCESS",  # of an object: `Fingerprint.for_library` adds it
    "FILE",  # and this, of a file
}


@dataclass(frozen=True)
class OpenOptions:
    """The options that matter to a stream."""

    kind: str = "plain"  # a value of DRIVERS
    root: str = ""  # prefix of every path, "" or "/a/b"
    meta_ext: str = "-m.h5"
    raw_ext: str = "-r.h5"
    for_library: dict[str, object] = field(default_factory=dict)  # for PyTables in a reader
    trusted: bool = True  # False: no library opens the file
    #: One of `options.LINKS`; None: `ANYWHERE` if the file is trusted, else `FOLDER`.
    links: str | None = None
    #: Whether the lock of readers is taken, where the environment does not say it.
    locks: bool = True
    storage: StorageOptions = field(default_factory=StorageOptions)
    #: Where names in references count from; "": the working directory.
    directory: str = ""
    #: The file as it was opened before, through which it is read if it lost its name.
    before: Fingerprint | None = None

    def reach(self, filename: str) -> Reach:
        """How far a file may reach that the user named."""
        return Reach(filename.rstrip("/"), self.links or (ANYWHERE if self.trusted else FOLDER))

    def check_library(self, filename: str, path: str, reason: str) -> None:
        """Raise if no library may look for what the core does not know: it follows any link.

        Raises
        ------
        UnsupportedDatasetError
            It is not read.
        """
        if not self.trusted:
            raise hdf5_errors.unsupported("untrusted", filename, path, reason) from None
        if self.links in (FOLDER, NO_LINKS):
            raise hdf5_errors.unsupported("unbound", filename, path, reason) from None

    @property
    def direct(self) -> bool:
        """Whether the readers bypass the page cache."""
        return self.kind == "direct"


def check_open_options(who: str, given: Iterable[str], own: Iterable[str]) -> None:
    """Raise `UnknownOptionError` for what is neither PyTables' nor an option of `who`."""
    known = [*own, *f"{SMALL} {NAMES} {NAMES.lower()}".split()]
    check_options(who, given, known)


def parse_open_options(options: Mapping[str, object]) -> OpenOptions:
    """Take what matters to a stream from keyword arguments of PyTables' ``open_file``.

    Raises
    ------
    OptionsError
        For an unknown driver, a file image in memory, or a mode other than ``"r"``.
    """
    mode = options.get("mode", "r")
    if mode != "r":
        raise OptionsError(
            f"mode must be 'r', as a stream only reads, got {mode!r}",
            advice="Leave mode out.",
            mode=mode,
        )
    root = options.get("root_uep", "/")
    if not isinstance(root, str):
        raise OptionsError(f"root_uep must be a path in the file, got {root!r}", root_uep=root)
    given = {name.upper(): value for name, value in options.items()}
    driver = given.get("DRIVER")
    if driver is not None and driver not in DRIVERS:
        raise OptionsError(
            f"unknown DRIVER: expected one of {', '.join(DRIVERS)}, got {driver!r}",
            driver=driver,
        )
    if driver == "H5FD_CORE" and given.get("DRIVER_CORE_IMAGE"):
        raise OptionsError(
            "DRIVER_CORE_IMAGE is a file in this process's memory, which readers cannot open",
            advice="Write the image to a file (one on /dev/shm stays in memory) and stream that.",
        )
    kind = DRIVERS[str(driver)] if driver is not None else "plain"
    meta_ext, raw_ext = given.get("DRIVER_SPLIT_META_EXT"), given.get("DRIVER_SPLIT_RAW_EXT")
    for_library = {}
    for name, value in given.items():
        # root_uep becomes part of the path; only a split file needs its driver again.
        if name in NOT_FOR_LIBRARY:
            continue
        if name == "TRUSTED" and value:  # a library is told only that it must not
            continue
        if name == "DRIVER" and kind != "split":
            continue
        try:
            json.dumps(value)
        except (TypeError, ValueError):
            continue
        for_library[name.lower()] = value
    return OpenOptions(
        kind=kind,
        root=normal_path(root).rstrip("/"),
        meta_ext=str(meta_ext) if meta_ext is not None else "-m.h5",
        raw_ext=str(raw_ext) if raw_ext is not None else "-r.h5",
        for_library=for_library,
        trusted=bool(given.get("TRUSTED", True)),
        links=check_links("links", given.get("LINKS")),
        storage=StorageOptions.of(given.get("STORAGE_OPTIONS")),
    )


def check_stored(filename: str, is_split: bool, grows: bool) -> None:
    """Raise if a file is an object of a store, and cannot be opened like this.

    Raises
    ------
    OptionsError
        It would be two objects, or one that grows.
    """
    if not is_remote(filename):
        return
    if is_split:
        raise OptionsError(
            f"DRIVER='H5FD_SPLIT' is for files of this machine, got {filename!r}",
            advice="Make one file of the two with h5repack, and store that",
            option="DRIVER",
            got="H5FD_SPLIT",
        )
    if grows:
        raise OptionsError(
            f"follow=True is for files that grow, and objects are replaced, got {filename!r}",
            advice="Stream it without follow; open it again when there is another version of it",
            option="follow",
            got=True,
        )


def normal_path(path: str) -> str:
    """Return a path in a file as ``/a/b``, whether it was ``a/b``, ``//a/./b`` or ``/a/b/``."""
    return "/" + "/".join(part for part in path.split("/") if part not in ("", "."))
