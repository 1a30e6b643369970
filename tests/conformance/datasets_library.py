"""The table's datasets that a library reads, and those that are refused.

Law: as in `datasets_of_files`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
from datasets_of_files import Dataset, add, chunked, columns, create, table, write
from elements import FAST, smooth, values
from h5py import h5t, h5z

from multitables import Reader, Streamer, SubprocessException, UnsupportedDatasetError


@table()
def through_a_library(path: Path) -> Iterator[Dataset]:
    nested, beside = values(FAST["nested"], (40,)), path.with_name
    with h5py.File(path, "w") as file:
        for name, dtype, digits in (("scale", "<i4", 0), ("lossy", "<f4", 3)):
            options = {"chunks": (10, 4), "scaleoffset": digits}
            yield add(file, name, smooth((95, 6), dtype), **options)
        if h5z.filter_avail(h5z.FILTER_SZIP) and h5z.get_filter_info(h5z.FILTER_SZIP) & 1:
            yield add(file, "szip", smooth((96, 8)), chunks=(16, 8), compression="szip")
        odd = h5t.STD_I32LE.copy()
        odd.set_precision(20)
        odd.set_offset(3)
        brain = h5t.IEEE_F32LE.copy()
        brain.set_fields(15, 7, 8, 0, 7)
        brain.set_size(2)
        brain.set_ebias(127)
        packed = [chunked((10,)), lambda plist: plist.set_filter(5, 0, ())]
        for name, kind, how in (("bits", odd, []), ("n-bit", odd, packed), ("bfloat", brain, [])):
            create(file, name, kind, (50,), *how)[...] = np.arange(50) - 25
            yield Dataset(f"/{name}")
        for name, kind in (("doubles", h5t.IEEE_F64LE), ("big", h5t.STD_I32BE)):
            create(file, name, kind, (50,))[...] = np.arange(50) - 25
            yield Dataset(f"/{name}")
        rows = smooth((50_000,)).astype([("a", "<i8"), ("b", ">f8"), ("c", "<i8", (4,))])
        made = add(file, "tasks", rows, chunks=(100,), **hdf5plugin.BZip2())
        yield from columns(made, rows.dtype)
        yield replace(add(file, "long double", np.arange(50, dtype="g") / 3, chunks=(9,)), by=None)
        beside("raw.bin").write_bytes(b"skip" + smooth((40, 5)).tobytes())
        external = [(str(beside("raw.bin")), 4, 800)]
        file.create_dataset("external", (40, 5), "<i4", external=external)
        yield Dataset("/external")
        rows = str(beside("rows.bin")).encode()
        how = [lambda plist: plist.set_external(rows, 0, nested.nbytes)]
        create(file, "nested", nested.dtype, nested.shape, *how)[...] = nested
        yield from columns(Dataset("/nested"), nested.dtype)
        with h5py.File(beside("part.h5"), "w") as other:
            other["x"] = smooth((10, 8)).astype(">i2")
        layout = h5py.VirtualLayout((50, 8), "<i4")
        layout[20:30] = h5py.VirtualSource("part.h5", "x", (10, 8))
        file.create_virtual_dataset("converted", layout, fillvalue=-3)
        yield Dataset("/converted", by="virtual")


@table()
def refused(path: Path) -> Iterator[Dataset]:
    reader: dict[type, type[Exception]] = {Reader: UnsupportedDatasetError}
    both: dict[type, type[Exception]] = {Streamer: UnsupportedDatasetError, **reader}
    heap = "readers resolve what elements name"
    nobodys = [chunked((10,)), lambda plist: plist.set_filter(499, 1, (1, 2))]
    with h5py.File(path, "w") as file:
        file.create_dataset("text", data=["a", "bb"], dtype=h5py.string_dtype())
        file.create_dataset("reference", (3,), dtype=h5py.ref_dtype)
        file.create_dataset("region", (3,), dtype=h5py.regionref_dtype)
        inside = np.dtype([("n", "<i4"), ("text", h5py.string_dtype())])
        file.create_dataset("inside", (3,), dtype=inside, chunks=(2,))["n"] = [1, 2, 3]
        file["scalar"] = 3
        file["null"] = h5py.Empty("<f4")
        for name in ("reference", "region", "scalar", "null"):
            yield Dataset(f"/{name}", refused=both)
        left = np.zeros(3, {"names": ["n"], "formats": ["<i4"], "itemsize": 20})  # as it is stored
        left["n"] = [1, 2, 3]
        yield Dataset("/inside", by=None, oracle=left, refused={Streamer: UnsupportedDatasetError})
        yield Dataset("/text", by=None, refused=reader, not_by_library=heap)
        yield Dataset("/inside", by=None, field=("n",))
        ragged = file.create_dataset("ragged", (40,), dtype=h5py.vlen_dtype("<i4"))
        for at in range(40):
            ragged[at] = np.arange(at % 7) + at
        yield Dataset("/ragged", by=None, not_by_library=heap)
        # A filter that nobody has: stored with it, and, as it is optional, without.
        made = create(file, "nobody's", h5t.STD_I32LE, (30,), *nobodys)
        for at in (0, 10, 20):
            made.id.write_direct_chunk((at,), b"1234", filter_mask=0)
        yield Dataset("/nobody's", refused=dict.fromkeys(both, SubprocessException))
        yield replace(
            write(create(file, "skipped", h5t.STD_I32LE, (30,), *nobodys), smooth((30,))), by=None
        )
