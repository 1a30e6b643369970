"""Libraries that blocks are given to, imported when they are needed.

Law
---
1. A library that is missing is a `MissingLibraryError`, which says how it is installed.
"""

from __future__ import annotations

import importlib
from typing import Any

from _multitables.errors import MissingLibraryError

#: Libraries that an extra brings; others are installed by their own names.
EXTRAS = {"pyarrow": "multitables[arrow]"}


def imported(name: str, what: str) -> Any:
    """Import a module for `what`, as the subject of a sentence."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise MissingLibraryError(
            f"{what} needs {package}, which cannot be imported: {error}",
            good="Blocks themselves are arrays of NumPy",
            advice=f"Install it: pip install {EXTRAS.get(package, package)}",
            library=package,
        ) from error
