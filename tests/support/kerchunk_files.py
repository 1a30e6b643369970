"""A file with what references of Kerchunk can tell, and ways to read them.

Law
---
1. h5py says what is in the file. Chunks are decoded by hand with zlib and NumPy.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import structures
from elements import smooth

import multitables

COMPOUND = np.dtype([("a", "<i4"), ("b", ">f8"), ("c", "S3")])


def fill(file: Any) -> None:
    grid = smooth((10, 12), ">i4")
    gzip = {"compression": "gzip", "shuffle": True}
    file.create_dataset("g/grid", data=grid, chunks=(3, 5), fillvalue=3, **gzip)
    file.create_dataset("g/sums", data=grid, chunks=(3, 5), fletcher32=True, **gzip)
    file["contiguous"], file["scalar"], file["text"] = grid, 3.5, np.array([b"ab", b"c"])
    file.create_dataset("bool", data=np.arange(30) % 3 == 0, chunks=(8,))
    file.create_dataset("blosc", data=smooth((400,)), chunks=(90,), **hdf5plugin.Blosc())
    file.create_dataset("zstd", data=smooth((400,)), chunks=(90,), **hdf5plugin.Zstd())
    file.create_dataset("holes", (100,), "<f4", chunks=(7,), fillvalue=np.nan)[50:60] = 1
    file.create_dataset("never", (20,), "<c8")
    file.create_dataset("empty", (0, 3), "<i4")
    file.create_dataset("compound", data=np.ones(7, COMPOUND), chunks=(3,))
    file.create_dataset("arrays", (5,), np.dtype(("<i4", (2, 3))))[:] = smooth((5, 2, 3))
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    structures.raw(file, "compact", h5py.h5t.STD_I32LE, (10,), plist=plist)[:] = np.arange(10)
    scale = file.create_dataset("time", data=np.arange(10.0))
    scale.make_scale("time")
    file["g/grid"].dims[0].attach_scale(scale)
    file["g/grid"].attrs["units"], file["g/grid"].attrs["scale"] = "m/s", 0.5
    file.attrs["words"], file.attrs["numbers"] = ["a", "b\xe9"], np.arange(3)
    file.attrs["flag"], file.attrs["nothing"] = True, h5py.Empty("f4")
    file.attrs["bytes"], file.attrs["complex"] = np.bytes_("x"), 1j


def datasets(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with h5py.File(path) as file:

        def keep(name: str, told: Any) -> None:
            if isinstance(told, h5py.Dataset):
                found[name] = told[()]

        file.visititems(keep)
    return found


def written(path: Path, suffix: str = ".json") -> Path:
    to = path.with_suffix(suffix)
    assert multitables.index_file(path, to, progress=False) == str(to)
    return to


def refs_of(path: Path) -> dict[str, Any]:
    told = json.loads(written(path).read_text())
    assert told["version"] == 1
    refs: dict[str, Any] = told["refs"]
    return refs


def fill_value(zarray: dict[str, Any], dtype: np.dtype[Any]) -> Any:
    value = zarray["fill_value"]
    if dtype.kind in "SV":
        return np.frombuffer(base64.b64decode(value), dtype)[0]
    return complex(*value) if dtype.kind == "c" else np.array(value, dtype)


def unfiltered(chunk: bytes, codecs: list[dict[str, Any]]) -> bytes:
    for codec in reversed(codecs):
        if codec["id"] == "zlib":
            chunk = zlib.decompress(chunk)
        elif codec["id"] == "fletcher32":
            chunk = chunk[:-4]
        else:
            assert codec["id"] == "shuffle"
            chunk = np.frombuffer(chunk, "u1").reshape(codec["elementsize"], -1).T.tobytes()
    return chunk


def read_by_hand(refs: dict[str, Any], name: str) -> Any:
    zarray = json.loads(refs[f"{name}/.zarray"])
    described = zarray["dtype"]
    dtype = np.dtype(described if isinstance(described, str) else [tuple(f) for f in described])
    shape, chunks = zarray["shape"], zarray["chunks"]
    out = np.full(shape, fill_value(zarray, dtype), dtype)
    for key, place in refs.items():
        if not key.startswith(f"{name}/") or "/." in key:
            continue
        at = [int(part) for part in key.rpartition("/")[2].split(".")][: len(shape)]
        if isinstance(place, str):
            stored = base64.b64decode(place.removeprefix("base64:"))
        else:
            with open(place[0], "rb") as file:
                file.seek(place[1])
                stored = file.read(place[2])
        chunk = np.frombuffer(unfiltered(stored, zarray["filters"] or []), dtype).reshape(chunks)
        inside = [
            slice(a * c, min(s, (a + 1) * c)) for a, c, s in zip(at, chunks, shape, strict=True)
        ]
        out[tuple(inside)] = chunk[tuple(slice(part.stop - part.start) for part in inside)]
    return out


def read_here(references: Path, name: str) -> Any:
    with multitables.Reader(references, n_procs=1) as reader:
        return reader.request(reader.get_dataset(name)[:]).get()
