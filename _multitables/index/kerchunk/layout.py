"""How references are called, and what reads those that are not JSON.

Law
---
1. pyarrow is imported when references in Parquet are read or written, not before.
"""

from __future__ import annotations

from typing import Any

from _multitables.errors import MissingLibraryError
from _multitables.remote.names import joined

JSON, PARQUET = (".json",), (".parq", ".parquet")
#: Of a folder of Parquet files: what the nodes are.
METADATA = ".zmetadata"


def is_references(filename: str) -> bool:
    """Whether a name is one that references have."""
    return filename.rstrip("/").endswith(JSON + PARQUET)


def first_read(filename: str) -> str:
    """Return the file of references that lists the nodes, and so changes with them."""
    return filename if filename.endswith(JSON) else joined(filename, METADATA)


def pyarrow() -> tuple[Any, Any]:
    """Import pyarrow, and its Parquet."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError as error:
        raise MissingLibraryError(
            f"references in Parquet need pyarrow, which cannot be imported: {error}",
            advice="pip install 'multitables[kerchunk]'",
            library="pyarrow",
        ) from error
    return pa, parquet
