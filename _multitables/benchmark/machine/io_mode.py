"""How a file is read, and what that asks of the page cache before a pass.

Law
---
1. A mode is a row of the table. Where a file system does not support it, another takes its place,
   and a note says so.
2. The state of the page cache is observed with mincore, never assumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from _multitables.benchmark.machine import environment, page_cache

DIRECT = "direct"
BUFFERED = "buffered"
HDF5_DIRECT = "hdf5-direct"
IO_MODES = {
    DIRECT: "around the page cache by the library's own readers, with any libhdf5",
    BUFFERED: "through the page cache, of which the file is dropped before each pass",
    HDF5_DIRECT: "around it by libhdf5's direct VFD, as published: tools/hdf5_build builds it",
}


@dataclass(frozen=True)
class IoMode:
    """How files are read, and what has to be done about the page cache before a pass."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    drop_before: bool = False
    fill_before: bool = False
    note: str = ""


WARM = IoMode(BUFFERED, fill_before=True)
COLD = IoMode(BUFFERED, drop_before=True)


def choose(filename: str, name: str, warm: bool = False) -> IoMode:
    """The mode `name` for the file system of `filename`, or the one that takes its place.

    `warm` leaves the page cache as it is, where the mode reads through it.
    """
    in_memory = environment.in_memory(filename)
    memory_note = (
        f"{environment.mount_of(filename).kind} keeps its files in memory: no device is measured. "
        "Choose a place on a disk with --file or --directory."
        if in_memory
        else ""
    )
    if name == BUFFERED:
        return IoMode(name, drop_before=not in_memory and not warm, note=memory_note)
    refusal = page_cache.direct_refusal(filename)
    if refusal:
        return IoMode(
            BUFFERED,
            drop_before=not in_memory,
            note=f"{refusal}. {memory_note or 'The page cache is dropped before each pass.'}",
        )
    options = {"DRIVER": "H5FD_DIRECT"}
    return IoMode(name, options, drop_before=not in_memory, note=memory_note)


def prepare(mode: IoMode, filenames: Sequence[str]) -> str:
    """Bring the page cache into the state the mode wants; returns what it then is."""
    for filename in filenames:
        if mode.drop_before:
            page_cache.drop_page_cache(filename)
        elif mode.fill_before and page_cache.cache_state(filename) != "warm":
            page_cache.fill_page_cache(filename)
    return page_cache.cache_state_of(filenames) if filenames else ""


def cache_of(mode: IoMode, filenames: Sequence[str], before: str) -> str:
    """The cache state a pass ran in; a direct pass that filled the page cache was not direct."""
    if mode.fill_before or not filenames:
        return before
    if any(environment.in_memory(filename) for filename in filenames):
        return "in memory, no device"
    if mode.name == BUFFERED:
        return before
    after = page_cache.resident_fraction_of(filenames)
    return "bypassed" if after <= 0.1 else f"not bypassed: {after:.0%} of the file went through it"
