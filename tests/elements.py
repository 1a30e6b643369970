"""Element types and arbitrary values of them.

Law
---
1. Owns the list of element types that the fast path promises, by name.
2. Values use every bit that the type allows (NaNs, all byte values, embedded NULs and spaces in
   strings), and depend on the seed only.
"""

from __future__ import annotations

import zlib

import numpy as np

NUMBERS = [
    f"{order}{kind}"
    for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
    for order in ("<", ">")
    if order == "<" or kind[1:] != "1"
]

COMPOUND = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S5"), ("d", "?")])
NESTED = np.dtype([("outer", [("x", "<f4"), ("y", ">i2", (2, 3))]), ("z", "<c16"), ("s", "S3", 4)])
PADDED = np.dtype(
    {"names": ["a", "b"], "formats": ["<i2", "<f8"], "offsets": [3, 16], "itemsize": 40}
)
BACKWARDS = np.dtype({"names": ["b", "a"], "formats": ["<i2", "<f8"], "offsets": [8, 0]})

#: Name -> dtype of all types of the fast path.
FAST: dict[str, np.dtype] = {
    **{name: np.dtype(name) for name in NUMBERS},
    "bool": np.dtype("?"),
    "S1": np.dtype("S1"),
    "S7": np.dtype("S7"),
    "S40": np.dtype("S40"),
    "V5": np.dtype("V5"),
    "compound": COMPOUND,
    "nested": NESTED,
    "padded": PADDED,
    "backwards": BACKWARDS,
}


def values(dtype: np.dtype, shape: tuple[int, ...], seed: object = 0) -> np.ndarray:
    """Arbitrary values of a dtype."""
    rng = np.random.default_rng(zlib.crc32(repr((seed, dtype.str)).encode()))
    return _values(np.dtype(dtype), shape, rng)


def _values(dtype: np.dtype, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    if dtype.subdtype is not None:
        base, inner = dtype.subdtype
        return _values(base, (*shape, *inner), rng)
    made = np.zeros(shape, dtype)
    if dtype.names is not None:
        for name in dtype.names:
            made[name] = _values(dtype[name], shape, rng)
        return made
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "S":
        alphabet = np.frombuffer(b"ab \0\xff", np.uint8)
        letters = rng.choice(alphabet, (*shape, dtype.itemsize))
        return np.ascontiguousarray(letters).view(dtype).reshape(shape)
    count = int(np.prod(shape, dtype=np.int64))
    return np.frombuffer(rng.bytes(count * dtype.itemsize), dtype).reshape(shape).copy()


def smooth(shape: tuple[int, ...], dtype: str = "<i4") -> np.ndarray:
    """Values that compress, and that say where they belong."""
    count = int(np.prod(shape, dtype=np.int64))
    return (np.arange(count, dtype="<i8") * 3 % 9973).astype(dtype).reshape(shape)
