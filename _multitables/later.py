"""Public names that are imported when they are first named.

Law
---
1. `LATER` says where each of them is. A program that only streams does not wait for what opens
   files as h5py does. The adapters, which need libraries, have a table of their own.
"""

from __future__ import annotations

import importlib
from typing import Any

from _multitables import adapters

#: Name in `multitables` -> its file.
LATER = {
    "Dataset": "parent.open.dataset",
    "Datatype": "parent.open.objects",
    "Empty": "elements.empty",
    "EventLog": "parent.event_log",
    "ExternalLink": "parent.open.links",
    "File": "parent.open.file",
    "Group": "parent.open.group",
    "HardLink": "parent.open.links",
    "SoftLink": "parent.open.links",
    "UserLink": "parent.open.links",
    "Version": "index.versions",
    "Versions": "parent.versions",
    "index_file": "parent.index_file",
    "is_hdf5": "parent.open.is_hdf5",
    "open": "parent.open.file",
    "read": "parent.open.read",
    "versions": "parent.versions",
}
NAMES = {*LATER, *adapters.ADAPTERS}


def load(name: str) -> Any:
    """Return what has a public name.

    Raises
    ------
    MissingLibraryError
        The library of an adapter is not installed (an `ImportError`).
    AttributeError
        There is no such name.
    """
    if name not in LATER:
        return adapters.load(name)
    return getattr(importlib.import_module(f"_multitables.{LATER[name]}"), name)
