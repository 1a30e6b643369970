"""File objects, and files that are open elsewhere, as files with a name.

Law
---
1. A file of this machine, or an object of a store, is opened by its own name. An unnamed
   file of this process is opened by its descriptor's name below /proc.
2. The bytes of anything else are read once, into sealed memory that has such a name. It is there as
   long as what is `held`; other processes of the user may open it by this name, too.
3. A file that is open for writing here is refused: what is written may not be in it yet.

This file must never know HDF5.
"""

from __future__ import annotations

import contextlib
import io
import os
import stat
from typing import Any

from _multitables._core import Descriptor, available_bytes
from _multitables.errors import FileOpenError, OptionsError, SharedMemoryError, note
from _multitables.index.files.name import NAME, is_name


def named(given: Any, driver: str | None) -> tuple[Any, Descriptor | None]:
    """Return a name that opens what is given, and what must be held as long as it is used.

    What is neither a file object nor a file that is open is returned as it is.

    Raises
    ------
    OptionsError
        It is open for writing, closed, or a file of texts.
    FileOpenError, SharedMemoryError
        Its bytes cannot be read, or are more than there is memory for.
    """
    is_object = hasattr(given, "read") and hasattr(given, "seek")
    if driver is not None and is_object != (driver == "fileobj"):
        raise OptionsError(
            f"driver={driver!r} does not go with {'a file object' if is_object else 'a name'}",
            advice="Leave it out",
            option="driver",
            got=driver,
        )
    if is_name(given):
        return given, None
    if is_object:
        return _of_file_object(given)
    try:
        if not (hasattr(given, "filename") and hasattr(given, "mode")):
            return given, None
        mode = given.mode if isinstance(given.filename, NAME) else "closed"
    except Exception:  # noqa: BLE001 - each library has its own for a closed file
        mode = "closed"
    if mode != "r":
        kind = type(given).__name__
        raise OptionsError(
            f"a file that is open must be open for reading only, got a {kind} with the mode "
            f"{mode!r}",
            advice="Close it if it is open for writing, and give its name",
            option="filename",
            got=mode,
        )
    return _of_open_file(given)


def _of_open_file(given: Any) -> tuple[Any, Descriptor | None]:
    """Name what h5py, PyTables or this library has open."""
    name, handle = given.filename, getattr(given, "_handle", None)
    if handle is not None and hasattr(handle, "held"):
        return name, handle.held
    if getattr(given, "driver", None) in ("core", "fileobj") and not os.path.isfile(name):
        return _in_memory(given.id.get_file_image())
    return name, None


def _of_file_object(given: Any) -> tuple[str, Descriptor | None]:
    raw = getattr(given, "raw", given)
    if isinstance(raw, io.FileIO) and not given.closed:  # not those that decompress
        with contextlib.suppress(OSError, ValueError):
            if given.writable():
                given.flush()
            state = os.fstat(raw.fileno())
            if isinstance(raw.name, NAME) and os.path.samestat(os.stat(raw.name), state):
                return os.path.abspath(os.fsdecode(raw.name)), None
            if stat.S_ISREG(state.st_mode):
                return _name_of(Descriptor.copy_of(raw.fileno()))
    kind = type(given).__name__
    try:
        before = given.tell()
        size = given.seek(0, os.SEEK_END)
        if size is not None and size > available_bytes():
            raise SharedMemoryError(
                f"the bytes of a {kind} are read into memory, and there is not as much "
                f"(expected {size}, got {available_bytes()})",
                advice="Copy it to a file, or give the URL of the object in its store",
                expected=size,
                got=available_bytes(),
            )
        given.seek(0)
        data = given.read()
        given.seek(before)
    except SharedMemoryError:
        raise
    except Exception as error:
        raise FileOpenError(
            f"a file object ({kind}) cannot be read: {type(error).__name__}: {error}",
            advice="Open it for reading bytes, in a way that can seek",
        ) from error
    if not isinstance(data, (bytes, bytearray, memoryview)):
        raise OptionsError(
            f"filename must be a file object of bytes, got one of texts ({kind})",
            advice="Open it with the mode 'rb'",
            option="filename",
            got=kind,
        )
    note("%d bytes of a file object (%s) are read into memory", len(data), kind)
    return _in_memory(bytes(data))


def _in_memory(data: bytes) -> tuple[str, Descriptor]:
    try:
        written = Descriptor.holding(data)
        # Opened anew, to be read only: a file that this process may write is refused.
        return _name_of(Descriptor.open(_name_of(written)[0], os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        raise SharedMemoryError(
            f"{len(data)} bytes of a file object do not fit into memory: {error}",
            advice="Copy it to a file, or give the URL of the object in its store",
            expected=len(data),
        ) from None


def _name_of(held: Descriptor) -> tuple[str, Descriptor]:
    return f"/proc/{os.getpid()}/fd/{held.fileno()}", held
