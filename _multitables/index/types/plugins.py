"""Which filters readers decode: the core's, and those of plugins that they can load.

Law
---
1. Whether a plugin has a filter is tried once, in another process: loading one runs its code.
2. What is said here is for readers. In the user's process the core has its own filters only.
"""

from __future__ import annotations

import os
import sys
from functools import lru_cache

from _multitables import _core
from _multitables.index.types import by_library

MODULE = "_multitables.reader.plugins"
#: What the answer depends on, besides the filter.
VARIABLES = "HDF5_PLUGIN_PATH", "HDF5_PLUGIN_PRELOAD"


class ReadersFilters:
    """The filters that readers decode: a container of their numbers."""

    def __contains__(self, number: object) -> bool:
        return number in _core.native_filters() or (
            isinstance(number, int) and plugin_of(number) is not None
        )


READERS_FILTERS = ReadersFilters()


def plugin_of(number: int) -> str | None:
    """Return the file of the plugin that has a filter; None if no plugin here has it."""
    return _found(number, tuple(map(os.environ.get, VARIABLES)), tuple(sys.path))


@lru_cache(maxsize=64)
def _found(number: int, variables: tuple[str | None, ...], path: tuple[str, ...]) -> str | None:
    try:
        answer = by_library.asked(MODULE, str(number))
    except (by_library.Hung, OSError):
        return None
    found = os.fsdecode(answer.stdout)
    return found if found and not answer.returncode else None
