"""A process that asks libhdf5 what a dataset is, and may die of it.

Law
---
1. Started as ``python -m _multitables.reader.describe FILE PATH``, for what the core does not know
   of a file's structure. Answers in JSON on its standard output, once.
2. Bytes are told as hexadecimal digits; a datatype is told as it is stored.
3. Options come through standard input: they may be secrets, and anyone may see a command line.
"""

from __future__ import annotations

import json
import posixpath
import sys
from collections.abc import Iterator
from typing import Any

from _multitables.reader.fallback import OPENERS, where_from
from _multitables.reader.object_file import OtherFilesError, check_alone
from _multitables.remote.failures import StoreFailure

#: Attributes that tell what PyTables made of a dataset.
ATTRIBUTES = (b"CLASS", b"PSEUDOATOM")


def described(filename: str, path: str, open_options: dict[str, Any]) -> dict[str, Any]:
    """Return what the core tells of a dataset it knows, but where the bytes lie."""
    import h5py

    filename, open_options = where_from(filename, open_options)
    file, root = OPENERS["h5py"](filename, "/", open_options)
    with file:
        found = root.get(path)
        if found is None:
            return {"missing": list(root.get(posixpath.dirname(path)) or ())}
        if not isinstance(found, h5py.Dataset):
            return {"children": list(found) if isinstance(found, h5py.Group) else None}
        check_alone(found, open_options.get("access"))
        kind, plist = found.id.get_type(), found.id.get_create_plist()
        filters = [plist.get_filter(position) for position in range(plist.get_nfilters())]
        return {
            "datatype": kind.encode()[2:].hex(),
            "element_bytes": kind.get_size(),
            "is_null": found.shape is None,
            "dims": found.shape or (),
            "max_dims": found.maxshape or (),
            "filters": [(id_, flags, values, name.hex()) for id_, flags, values, name in filters],
            "attributes": list(_attributes(found)),
        }


def _attributes(dataset: Any) -> Iterator[tuple[str, str, tuple[int, ...] | None, str]]:
    import numpy as np
    from h5py import h5a

    for name in ATTRIBUTES:
        if h5a.exists(dataset.id, name):
            attribute = h5a.open(dataset.id, name)
            kind = attribute.get_type()
            value = np.zeros(attribute.shape or (), kind.dtype)
            if not value.dtype.hasobject:
                attribute.read(value)
            yield name.hex(), kind.encode()[2:].hex(), attribute.shape, value.tobytes().hex()


if __name__ == "__main__":
    filename, path = sys.argv[1:]
    try:
        answer = described(filename, path, json.load(sys.stdin))
    except (StoreFailure, OtherFilesError) as failure:
        answer = {"failed": type(failure).__name__, "text": str(failure)}
    print(json.dumps(answer))
