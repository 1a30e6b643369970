"""Datasets of all kinds in one file, and indexes to read them by, for the handle's `Dataset`.

Law
---
1. Owns what is written and how it is indexed; the oracle is h5py, of the file.
2. What h5py refuses is `numpys`: NumPy's result, where one list stays on its own axis.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
from elements import ENUM, NESTED, PADDED, smooth, values

ROW = np.dtype(
    [("a", "<i4"), ("b", ">f8", (2, 3)), ("n", [("x", "<u2"), ("s", "S4")]), ("t", "S3")]
)
MIXED = np.dtype(
    [("i", "<i4"), ("s", h5py.string_dtype()), ("v", h5py.vlen_dtype("<f4")), ("t", "S3")]
)


def write(path: Path) -> Path:
    """Write the file."""
    with h5py.File(path, "w") as file:
        cube = smooth((9, 7, 5))
        make = file.create_dataset
        make("cube", data=cube, chunks=(4, 3, 5), compression="gzip", shuffle=True)
        make("plain", data=smooth((13, 6), ">f8"))
        make("lz4", data=smooth((30,), "<u2"), chunks=(7,), **hdf5plugin.LZ4())
        make("sums", data=smooth((6, 8), "<f4"), chunks=(4, 4), fletcher32=True, compression="lzf")
        make("bool", data=cube[:, :, 0] % 3 == 0, chunks=(2, 7))
        make("enum", data=smooth((12,), ">i2"), dtype=ENUM)
        make("fixed", data=values(np.dtype("S5"), (11, 2)), chunks=(3, 2))
        make("rows", data=values(ROW, (25,)), chunks=(6,), compression="gzip")
        make("nested", data=values(NESTED, (4, 3)), chunks=(3, 2))
        make("padded", data=values(PADDED, (10,)))
        make("arrays", shape=(8,), dtype=("<i2", (3, 2)), chunks=(3,))
        file["arrays"][...] = smooth((8, 3, 2), "<i2")
        make("complex", data=values(np.dtype("<c8"), (8, 2)))
        make("grown", shape=(20, 4), dtype="<i4", chunks=(6, 3), fillvalue=-7, maxshape=(None, 4))
        file["grown"][3:5] = 1
        make("never", shape=(5, 2), dtype="<f4")
        make("nothing", shape=(0, 3), dtype="<i2", chunks=(2, 3), maxshape=(None, 3))
        make("scaled", data=smooth((40,)), chunks=(16,), scaleoffset=0)
        texts = ["", "a", "é" * 20, "x" * 300, "tail"]
        make("texts", data=texts * 3, dtype=h5py.string_dtype(), chunks=(4,), compression="gzip")
        make("ascii", data=[b"a", b"bc"], dtype=h5py.string_dtype("ascii"))
        lists = make("lists", shape=(6, 2), dtype=h5py.vlen_dtype("<i4"))
        for number in range(6):
            lists[number, 1] = np.arange(number)
        make("refs", data=[file["cube"].ref, h5py.Reference(), file.ref], dtype=h5py.ref_dtype)
        mixed = make("mixed", shape=(7,), dtype=MIXED, chunks=(2,))
        for number in range(5):
            mixed[number] = (number, f"é{number}", np.arange(number), b"abc")
        odd = h5py.h5t.STD_I16BE.copy()
        odd.set_precision(12)
        odd.set_offset(2)
        space = h5py.h5s.create_simple((10,))
        number = h5py.h5d.create(file.id, b"odd", odd, space)
        number.write(h5py.h5s.ALL, h5py.h5s.ALL, np.arange(-5, 5))
        write_texts(file)
        make("scalar", data=3.5)
        make("scalar row", data=values(ROW, (1,))[0])
        make("scalar text", data="text")
        make("empty", data=h5py.Empty("<f4"))
        file["cube"].dims[0].label = "time"
        file["time"] = np.arange(9)
        file["time"].make_scale("seconds")
        file["cube"].dims[0].attach_scale(file["time"])
    return path


def write_texts(file: h5py.File) -> None:
    """Strings in fields that end at a NUL, or are padded by spaces, with rubbish behind."""
    row = h5py.h5t.create(h5py.h5t.COMPOUND, 15)
    for number, padding in enumerate(("NULLTERM", "SPACEPAD", "NULLPAD")):
        text = h5py.h5t.C_S1.copy()
        text.set_size(5)
        text.set_strpad(getattr(h5py.h5t, f"STR_{padding}"))
        row.insert(b"abt"[number : number + 1], 5 * number, text)
    chunked = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    chunked.set_chunk((4,))
    made = h5py.h5d.create(file.id, b"paddings", row, h5py.h5s.create_simple((9,)), chunked)
    letters = np.frombuffer(b"ab \0c", np.uint8)[smooth((9, 15)) % 5]
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, letters.reshape(-1).view("V15"), mtype=row)


def masks(shape: tuple[int, ...]) -> list[Any]:
    """Masks of all axes, of the first one, of the last one, and of nothing."""
    every = values(np.dtype("?"), shape)
    last = values(np.dtype("?"), shape[-1:])
    return [every, every.any(tuple(range(1, len(shape)))), (..., last), np.zeros(shape, bool)]


def keys(shape: tuple[int, ...]) -> list[Any]:
    """Indexes of every kind for a shape; some fit, others are wrong."""
    s = np.s_
    found: list[Any] = [
        (), ..., s[...,], 0, -1, s[1:], s[::2], s[2:2], s[5:1], s[::-1], s[-3:-9:-2], s[:1000],
        np.int64(1), np.uint8(1), True, np.array(1), [0], [0, 2], [2, 0, 2], [], [-1], [-1, 0],
        np.array([1, 0]), np.array([0, 1], np.uint64), range(2), [True, False], 1000, [1000],
        -1000, 1.5, None, s[0, None], [1.5], "a", s[..., ...], s[0, 0, 0, 0], s[:, 0], s[..., -1],
        s[1:3, 0], s[[1, 2], 0], s[0, [1]], s[:, [1, 0]], s[[0, 1], [1, 0]], s[[0, 1], ..., [1, 0]],
        s[[[0, 1]]], s[0, :, [1, 2]], s[0, ..., [0, 1]], s[::-1, ::2], s[0, 1:, -1],
        np.bool_(True), s["a", 0],
        h5py.MultiBlockSlice(0, 3, 2, 2), s[:, h5py.MultiBlockSlice(1, 2, 2, 1)], s[::0],
               s["a"], s[0, "t"], s["a", "t", 1:3], s["n"], s["b", 0], s["nope"], s["n", [1, 0]],
        s["a", "a"], ["t"], ["a", "t"], s["b", "t", 0], s["s"], s["s", "i"], s["v", 2], s["i", ::2],
    ]  # fmt: skip
    return found + (masks(shape) if shape else [])


def numpys(dataset: Any, key: Any) -> np.ndarray:
    """What NumPy gives for an index that h5py refuses, on the dataset's own axes."""
    items = list(key) if isinstance(key, tuple) else [key]
    names = [item for item in items if isinstance(item, str) or _are_names(item)]
    items = [item for item in items if not (isinstance(item, str) or _are_names(item))]
    numbers = _indexed(np.arange(dataset.size).reshape(dataset.shape), items)
    found = np.asarray(dataset[...]).reshape(-1, *dataset.dtype.shape)[numbers]
    for name in names[:1]:
        if isinstance(name, str):
            return found[name]
        made = np.zeros(found.shape, [(one, found.dtype[one]) for one in name])
        for one in name:
            made[one] = found[one]
        return made
    return found


def _indexed(array: np.ndarray, items: list[Any]) -> Any:
    """Index by items; one list leaves all axes in their places."""
    if any(item is None or isinstance(item, np.bool_) for item in items):
        raise TypeError("no new axes")
    items = [_array(item) if isinstance(item, (list, range)) else item for item in items]
    used = sum(_axes(item) for item in items if item is not Ellipsis)
    at = next((i for i, item in enumerate(items) if item is Ellipsis), len(items))
    if sum(map(_is_list, items)) != 1 or used > array.ndim:
        return array[tuple(items)]
    items[at : at + 1] = [slice(None)] * (array.ndim - used)
    axis = 0
    for item in items:
        array = array[(*[slice(None)] * axis, item)]
        axis += np.ndim(item) if _is_list(item) and item.dtype != bool else not np.isscalar(item)
    return array


def _are_names(item: Any) -> bool:
    return isinstance(item, list) and bool(item) and isinstance(item[0], str)


def _array(item: Any) -> np.ndarray:
    array = np.asarray(item)
    return array if array.size else array.astype(np.intp)


def _is_list(item: Any) -> bool:
    return isinstance(item, np.ndarray) and item.ndim > 0


def _axes(item: Any) -> int:
    return int(item.ndim) if _is_list(item) and item.dtype == bool else 1
