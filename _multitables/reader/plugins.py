"""Where plugins of HDF5 lie, and a process that tries whether one has a filter, and may die of it.

Law
---
1. Searched are the folders that libraries search, as they do: hdf5plugin's, which is not imported,
   then those of ``HDF5_PLUGIN_PATH``, or HDF5's own where it names none.
2. Started as ``python -m _multitables.reader.plugins NUMBER``; writes the name of the file that has
   the filter, or nothing.
3. Loading a library runs its code: only a reader and this process do it.
"""

from __future__ import annotations

import importlib.util
import os
import sys

from _multitables import _core
from _multitables.filter_names import HDF5PLUGIN

#: Where HDF5 searches if nothing else is named.
DEFAULT_FOLDER = "/usr/local/hdf5/lib/plugin"
#: As ``HDF5_PLUGIN_PRELOAD`` it forbids HDF5 to load plugins.
FORBIDDEN = "::"


def folders() -> list[str]:
    """Return the folders of plugins, those searched first before others."""
    found = importlib.util.find_spec("hdf5plugin")
    packages = (found and found.submodule_search_locations) or ()
    folders = [os.path.join(package, "plugins") for package in packages]
    if os.environ.get("HDF5_PLUGIN_PRELOAD") != FORBIDDEN:
        folders += os.environ.get("HDF5_PLUGIN_PATH", DEFAULT_FOLDER).split(":")
    return list(dict.fromkeys(filter(None, folders)))


def files(number: int) -> list[str]:
    """Return files that may have a filter; in each folder those that are called like it first."""
    name, found = HDF5PLUGIN.get(number, ""), []
    for folder in folders():
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        names = [one for one in names if one.startswith("lib") and ".so" in one]
        # The shortest of them, as the name of sz is a part of sz3.
        names.sort(key=lambda one: (name not in one.lower(), len(one), one))
        found += [os.path.join(folder, one) for one in names]
    return found


def main(number: int) -> None:
    """Write the name of the file that has a filter."""
    candidates = files(number)
    at = _core.load_plugin(number, candidates)
    if at is not None:
        sys.stdout.write(candidates[at])


if __name__ == "__main__":
    main(int(sys.argv[1]))
