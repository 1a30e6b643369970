"""Element types and arbitrary values of them.

Law
---
1. Owns the list of element types that the fast path promises, by name, and draws any others.
2. Values use every bit that the type allows (NaNs, all byte values, embedded NULs and spaces in
   strings), and depend on the seed only.
"""

from __future__ import annotations

import zlib

import h5py
import numpy as np
from hypothesis import strategies as st

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


def array_of(dtype: object, *dims: tuple[int, ...]) -> np.dtype:
    """An array, of arrays if there are several dims: the outermost first."""
    made = np.dtype(dtype)  # type: ignore[call-overload]
    for inner in reversed(dims):
        made = np.dtype((made, inner))
    return made


ARRAYS = np.dtype(
    [
        ("n", array_of(">i2", (4,), (3, 2))),
        ("s", array_of("S3", (2,), (1,), (2,))),
        ("b", array_of("?", (2,), (3,))),
    ]
)
DEEP = np.dtype(
    [
        ("k", "<u2"),
        (
            "a",
            array_of(
                [("c", "<c8"), ("in", array_of([("f", ">f4"), ("s", "S2")], (2,)))], (3,), (2,)
            ),
        ),
    ]
)

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
    "arrays": ARRAYS,
    "deep": DEEP,
}

ENUM = h5py.enum_dtype({"red": 1, "green": 300}, basetype=">i2")


def any_type(max_leaves: int = 6) -> st.SearchStrategy[np.dtype]:
    """Draw numbers, bools, strings and enums, in arrays and compounds of any depth."""
    plain = st.sampled_from([*map(np.dtype, [*NUMBERS, "?", "S1", "S7"]), ENUM])
    dims = st.lists(st.integers(1, 3), min_size=1, max_size=2).map(tuple)
    return st.recursive(
        plain, lambda inner: _array(inner, dims) | _compound(inner), max_leaves=max_leaves
    )


def _array(
    inner: st.SearchStrategy[np.dtype], dims: st.SearchStrategy[tuple[int, ...]]
) -> st.SearchStrategy[np.dtype]:
    return st.tuples(inner, dims).map(np.dtype)


def _compound(inner: st.SearchStrategy[np.dtype]) -> st.SearchStrategy[np.dtype]:
    fields = st.lists(
        st.tuples(st.sampled_from(["a", "b", "a/b", "é"]), inner),
        min_size=1,
        max_size=3,
        unique_by=lambda field: field[0],
    )
    return st.builds(np.dtype, fields, align=st.booleans())


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
