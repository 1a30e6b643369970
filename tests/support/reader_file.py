"""A file for random access: tables, arrays, ragged data, each with what NumPy says of them.

Law
---
1. Owns the file's content; the oracle is the array that was written, indexed by NumPy.
2. NumPy's own scalars lose byte order and length: `at` keeps them as arrays of no dimensions.
3. PyTables writes it, since programs of 2.x have PyTables' files.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tables

ROWS = 3000
TABLE = np.dtype(
    [("id", "<i8"), ("energy", "<f8"), ("vector", "<i2", (3,)), ("name", "S6"), ("c", "<c8")]
)
RAGGED_ROWS = 40


def table() -> np.ndarray:
    """/table"""
    rows = np.zeros(ROWS, TABLE)
    rows["id"] = np.arange(ROWS)
    rows["energy"] = np.arange(ROWS) * 37 % 1009 / 8
    rows["vector"] = np.arange(3 * ROWS).reshape(ROWS, 3) % 32003
    rows["name"] = [f"n{i % 777}" for i in range(ROWS)]
    rows["c"] = np.arange(ROWS) * (1 - 2j)
    return rows


def cube() -> np.ndarray:
    """/array, /carray and /earray"""
    return np.arange(300 * 20 * 15, dtype="<i4").reshape(300, 20, 15)


def line() -> np.ndarray:
    """/line, of one dimension"""
    return np.arange(5000, dtype="<f8") / 7


def ragged() -> list[np.ndarray]:
    """/ragged"""
    return [np.arange(i * 3 % 17, dtype="<i4") + i for i in range(RAGGED_ROWS)]


def pairs() -> list[np.ndarray]:
    """/pairs, ragged with atoms of two"""
    return [np.arange(2 * (i % 5), dtype="<i2").reshape(-1, 2) + i for i in range(10)]


def arrays() -> dict[str, Any]:
    """Path -> what is there."""
    return {
        "/table": table(), "/indexed": table()[:500], "/array": cube(), "/carray": cube(),
        "/earray": cube(), "/line": line(),
    }  # fmt: skip


def at(array: np.ndarray, key: Any) -> np.ndarray:
    """An index of an array; of one element too it has the array's dtype, byte order and all."""
    found = array[key]
    if isinstance(found, np.ndarray):
        return found
    return array[(*(key if isinstance(key, tuple) else (key,)), ...)]


def write(path: Path) -> Path:
    """Writes the file."""
    content = arrays()
    lz4 = tables.Filters(5, "blosc:lz4")
    zlib = tables.Filters(3, "zlib", shuffle=True, fletcher32=True)
    with tables.open_file(str(path), "w") as file:
        root = file.root
        made = file.create_table(root, "table", TABLE, filters=lz4, chunkshape=128)
        made.append(content["/table"])
        indexed = file.create_table(root, "indexed", TABLE, filters=zlib, chunkshape=64)
        indexed.append(content["/indexed"])
        indexed.flush()
        indexed.cols.energy.create_csindex()
        file.create_array(root, "array", cube())
        file.create_carray(root, "carray", obj=cube(), filters=zlib, chunkshape=(7, 6, 4))
        file.create_earray(root, "earray", obj=cube(), filters=lz4, chunkshape=(10, 20, 15))
        file.create_carray(root, "line", obj=line(), filters=zlib, chunkshape=(333,))
        lists = file.create_vlarray(root, "ragged", tables.Int32Atom(), filters=tables.Filters(3))
        for row in ragged():
            lists.append(row)
        lists = file.create_vlarray(root, "pairs", tables.Int16Atom(shape=(2,)))
        for row in pairs():
            lists.append(row)
        file.create_group(root, "group")
    return path
