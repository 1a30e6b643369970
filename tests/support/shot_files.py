"""Files of many datasets, as experiments write them: ``/shots/<shot>/signals/<signal>``.

Law
---
1. Every kind of storage is among the signals of each shot, and what h5py reads of it is the oracle.
2. Time bases are dimension scales, beside ``signals``, and shared within a shot.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from oracle import same

PATTERN = "/shots/*/signals/*"
#: Numbers of the shots, of which 9 and 10 are sorted otherwise as texts.
SHOTS = (9, 10, 1050001, 1050002, 1050003)

Make = Callable[[h5py.Group, str, np.random.Generator], None]


def walk(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Data that compresses."""
    return np.cumsum(rng.integers(-9, 10, shape), axis=0)


def _chunked(dtype: str, chunks: Any = True, **options: Any) -> Make:
    def make(group: h5py.Group, name: str, rng: np.random.Generator) -> None:
        data = walk(rng, int(rng.integers(50, 4000))).astype(dtype)
        group.create_dataset(name, data=data, chunks=chunks, **options)

    return make


def _image(group: h5py.Group, name: str, rng: np.random.Generator) -> None:
    data = walk(rng, int(rng.integers(5, 40)), 30, 20).astype("f4")
    group.create_dataset(name, data=data, chunks=(4, 16, 9), compression="gzip", shuffle=True)


def _narrow(group: h5py.Group, name: str, rng: np.random.Generator) -> None:
    data = walk(rng, 600, 12).astype("i2")
    group.create_dataset(name, data=data, chunks=(128, 3), compression="lzf")


def _compact(group: h5py.Group, name: str, rng: np.random.Generator) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    data = rng.integers(0, 99, 7).astype("<i4")
    space = h5py.h5s.create_simple(data.shape)
    made = h5py.h5d.create(group.id, name.encode(), h5py.h5t.STD_I32LE, space, plist)
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, data)


def _partly_stored(group: h5py.Group, name: str, rng: np.random.Generator) -> None:
    data = group.create_dataset(name, (100, 6), "f8", chunks=(8, 4), fillvalue=-1.5)
    data[17:30, 2:] = rng.normal(size=(13, 4))


def _text(group: h5py.Group, name: str, rng: np.random.Generator) -> None:
    texts = np.array([b"x" * int(n) for n in rng.integers(0, 6, 40)], "S6")
    kind = h5py.h5t.C_S1.copy()
    kind.set_size(6)  # ends with a NUL, as C's
    space = h5py.h5s.create_simple(texts.shape)
    made = h5py.h5d.create(group.id, name.encode(), kind, space)
    made.write(h5py.h5s.ALL, h5py.h5s.ALL, texts)


def _virtual(group: h5py.Group, name: str, rng: np.random.Generator) -> None:
    source = group.create_dataset(f"{name}_source", data=walk(rng, 60).astype("i4"), chunks=(7,))
    layout = h5py.VirtualLayout((60,), "i4")
    layout[:60] = h5py.VirtualSource(source)
    group.create_virtual_dataset(name, layout)


def _table(group: h5py.Group, name: str, rng: np.random.Generator) -> None:
    rows = np.zeros(int(rng.integers(64, 300)), [("t", "<f8"), ("n", ">i2"), ("v", "<f4", (3,))])
    rows["t"], rows["n"], rows["v"] = rng.random(len(rows)), 7, rng.random((len(rows), 3))
    group.create_dataset(name, data=rows, chunks=(64,), compression="gzip", fletcher32=True)


def _sequence(group: h5py.Group, name: str, rng: np.random.Generator) -> None:
    data = group.create_dataset(name, (), h5py.vlen_dtype("i4"))
    data[()] = rng.integers(0, 9, 3).astype("i4")


def _texts(rows: int, **options: Any) -> Make:
    def make(group: h5py.Group, name: str, rng: np.random.Generator) -> None:
        data = group.create_dataset(name, (rows,), h5py.string_dtype(), **options)
        if rows:
            data[:] = ["\u00e9x" * int(n) for n in rng.integers(0, 9, rows)]

    return make


def _sequences(dtype: Any, rows: int, **options: Any) -> Make:
    def make(group: h5py.Group, name: str, rng: np.random.Generator) -> None:
        base = dtype if isinstance(dtype, np.dtype) else np.dtype(dtype)
        data = group.create_dataset(name, (rows,), h5py.vlen_dtype(base), **options)
        for row in range(rows):
            numbers = rng.integers(0, 99, int(rng.integers(0, 5)))
            texts = np.array([str(n) for n in numbers], object)
            data[row] = texts if base.hasobject else _cast(numbers, base)

    return make


def _cast(numbers: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    if dtype.names is None:
        return numbers.astype(dtype)
    found = np.zeros(len(numbers), dtype)
    for name in dtype.names:
        found[name] = numbers
    return found


#: Name of a signal -> how it is stored.
KINDS: dict[str, Make] = {
    "plain": lambda group, name, rng: group.create_dataset(name, data=rng.normal(size=300)),
    "gzip": _chunked("f4", compression="gzip", compression_opts=4),
    "one_chunk": _chunked("f8", chunks=(4096,), maxshape=(None,), compression="gzip"),
    "big_endian": _chunked(">i8", compression="gzip", shuffle=True),
    "half": _chunked("f2", chunks=(33,)),
    "image": _image,
    "narrow": _narrow,
    "compact": _compact,
    "partly_stored": _partly_stored,
    "text": _text,
    "table": _table,
    "virtual": _virtual,
    "scaleoffset": _chunked("i4", scaleoffset=0),
    "scalar": lambda group, name, rng: group.create_dataset(name, data=float(rng.random())),
    "empty": lambda group, name, rng: group.create_dataset(name, (0, 3), "i4"),
    "never_stored": lambda group, name, rng: group.create_dataset(name, (5, 2), "u1"),
    "flags": lambda group, name, rng: group.create_dataset(name, data=rng.random(20) < 0.5),
}
#: Those of tests that damage chunks.
SUMMED: dict[str, Make] = {
    "summed": _chunked("f4", chunks=(50,), fletcher32=True),
    "gzip": _chunked("f4", compression="gzip"),
    "plain": KINDS["plain"],
}
#: Those that have no rows.
LONE: dict[str, Make] = {
    "text": lambda group, name, rng: group.create_dataset(name, data=f"é{rng.random()}"),
    "ascii": lambda group, name, rng: group.create_dataset(
        name, data=b"x", dtype=h5py.string_dtype("ascii")
    ),
    "unwritten": lambda group, name, rng: group.create_dataset(name, (), h5py.string_dtype()),
    "numbers": _sequence,
    "reference": lambda group, name, rng: group.create_dataset(
        name, data=group.ref, dtype=h5py.ref_dtype
    ),
    "record": lambda group, name, rng: group.create_dataset(
        name, data=np.array((1, b"q"), [("n", "i4"), ("s", h5py.string_dtype())])
    ),
    "null": lambda group, name, rng: group.create_dataset(name, data=h5py.Empty("f4")),
    "null_text": lambda group, name, rng: group.create_dataset(
        name, data=h5py.Empty(h5py.string_dtype())
    ),
}
#: Those with rows of any length.
RAGGED: dict[str, Make] = {
    "texts": _texts(23),
    "stored_texts": _texts(40, chunks=(7,), compression="gzip"),
    "no_texts": _texts(0, maxshape=(None,)),
    "unwritten": lambda group, name, rng: group.create_dataset(name, (5,), h5py.string_dtype()),
    "numbers": _sequences("i4", 17, chunks=(5,)),
    "points": _sequences([("x", "f4"), ("n", "i8")], 9),
    "no_numbers": _sequences("f8", 0, maxshape=(None,)),
}
#: Those that are arrays of objects.
OBJECTS: dict[str, Make] = {
    "square": lambda group, name, rng: group.create_dataset(
        name, data=np.array([["a", "b\u00e9"], ["", "c"]], object), dtype=h5py.string_dtype()
    ),
    "nested": _sequences(h5py.string_dtype(), 3),
    "references": lambda group, name, rng: group.create_dataset(
        name, data=[group.ref, group.parent.ref], dtype=h5py.ref_dtype
    ),
    "records": lambda group, name, rng: group.create_dataset(
        name, data=np.array([(1, b"q"), (2, b"")], [("n", "i4"), ("s", h5py.string_dtype())])
    ),
    "no_records": lambda group, name, rng: group.create_dataset(
        name, (0,), [("n", "i4"), ("s", h5py.string_dtype())]
    ),
}


def write(
    path: Path,
    shots: tuple[int, ...] = SHOTS,
    kinds: dict[str, Make] | None = None,
    libver: str = "latest",
) -> Path:
    """A file with these shots, each with its own part of the signals, and their time bases."""
    rng = np.random.default_rng(1)
    with h5py.File(path, "w", libver=libver, fs_strategy="page", fs_page_size=4096) as file:
        for shot in shots:
            group = file.create_group(f"shots/{shot}")
            group.create_group("signals")
            for base in ("fast", "slow"):
                time = np.arange(rng.integers(500, 3000)) * 0.1
                group.create_dataset(base, data=time, chunks=True, compression="gzip")
                group[base].make_scale("time")
            for number, (name, make) in enumerate((kinds or KINDS).items()):
                if kinds is None and (shot + number) % 7 == 0 and number:
                    continue
                make(group["signals"], name, rng)
                data = group["signals"][name]
                data.attrs["shot"], data.attrs["units"] = shot, f"u{number}"
                if data.shape and data.dtype.names is None and not data.is_virtual:
                    data.dims[0].attach_scale(group["fast" if number % 2 else "slow"])
    return path


def same_item(item: Any, datasets: dict[str, h5py.Dataset], with_scales: bool = True) -> None:
    """Fail unless an item has these datasets, each as h5py reads it, with its scales."""
    assert set(item) == set(datasets)
    for name, data in datasets.items():
        same(item[name], np.asarray(data[()]))
        if not item[name].size or not with_scales:
            continue
        found = item.scales[name]
        assert len(found) == data.ndim
        for axis, dim in zip(found, data.dims, strict=True):
            assert list(axis) == [scale.name.rpartition("/")[2] for scale in dim.values()]
            for scale, values in zip(dim.values(), axis.values(), strict=True):
                same(values, scale[()])


def hurt(path: Path, dataset: str) -> tuple[int, ...]:
    """Damage the last chunk of a dataset, and return its place in it."""
    with h5py.File(path) as file:
        data = file[dataset].id
        chunk = data.get_chunk_info(data.get_num_chunks() - 1)
    with path.open("r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(b"\xff\x5a\xa5\xff")
    return tuple(chunk.chunk_offset)
