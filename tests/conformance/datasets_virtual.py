"""The table's virtual datasets.

Law: as in `datasets_of_files`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
from datasets_of_files import Dataset, columns, table
from elements import FAST, smooth, values
from h5py import h5d, h5p, h5s, h5t

COMPRESSIONS = {"none": {}, "gzip": {"compression": 1, "shuffle": True}, "lz4": hdf5plugin.LZ4()}


@table(*COMPRESSIONS)
def virtual_chunks(path: Path, variant: str) -> Iterator[Dataset]:
    """Mappings that fit the chunks of their sources."""
    how, beside = COMPRESSIONS[variant], path.with_name
    for number in range(4):
        with h5py.File(beside(f"part{number}.h5"), "w") as part:
            rows = smooth((20, 8)) + number
            part.create_dataset("x", data=rows, chunks=(5, 3), fillvalue=-3, **how)
            part.create_dataset("image", data=rows[:7], chunks=(4, 8), **how)
            nested = values(FAST["nested"], (40,))
            part.create_dataset("nested", data=nested, chunks=(8,), **how)
            never = part.create_dataset("never", (20, 8), "<i4", chunks=(5, 4), **how)
            never[5:10] = number
    with h5py.File(path, "w") as file:
        layout = h5py.VirtualLayout((93, 8), "<i4")
        for number in range(5):  # the last one is missing
            end = min(93, number * 20 + 20)
            source = h5py.VirtualSource(f"part{number}.h5", "x", (20, 8))
            layout[number * 20 : end] = source[: end - number * 20]
        file.create_virtual_dataset("files", layout, fillvalue=-3)
        layout = h5py.VirtualLayout((5, 7, 8), "<i4")
        for number in range(4):
            layout[number] = h5py.VirtualSource(f"part{number}.h5", "image", (7, 8))
        file.create_virtual_dataset("images", layout)
        layout = h5py.VirtualLayout((70,), FAST["nested"])
        for number in (0, 2):
            source = h5py.VirtualSource(f"part{number}.h5", "nested", (40,), FAST["nested"])
            layout[number * 20 : number * 20 + 24] = source[16:]
        file.create_virtual_dataset("nested", layout)
        layout = h5py.VirtualLayout((30, 8), "<i4")
        layout[:20] = h5py.VirtualSource("part1.h5", "never", (20, 8))
        file.create_virtual_dataset("never", layout)
        rows = np.arange(500)
        raw = file.create_dataset("raw", data=rows + 1000, chunks=(20,), maxshape=(None,), **how)
        layout = h5py.VirtualLayout((451,), raw.dtype)
        for at, chunk in enumerate(np.random.default_rng(7).permutation(25)[:23]):
            end = min(451, at * 20 + 20)
            piece = h5py.VirtualSource(".", "raw", (500,), raw.dtype)
            if at % 5 != 3:
                layout[at * 20 : end] = piece[chunk * 20 : chunk * 20 + end - at * 20]
        file.create_virtual_dataset("version", layout, fillvalue=7)
        layout = h5py.VirtualLayout((400,), raw.dtype)
        layout[:100] = h5py.VirtualSource(file["version"])[40:140]
        layout[60:400] = h5py.VirtualSource(file["version"])[100:440]
        file.create_virtual_dataset("on virtual", layout, fillvalue=7)
    for name in ("files", "images", "never", "version", "on virtual"):
        yield Dataset(f"/{name}")
    yield from columns(Dataset("/nested"), FAST["nested"])


@table(*COMPRESSIONS)
def virtual_parts(path: Path, variant: str) -> Iterator[Dataset]:
    """Mappings of any other shape."""
    how, beside = COMPRESSIONS[variant], path.with_name
    rows = smooth((61, 8))
    with h5py.File(beside("source.h5"), "w") as part:
        part.create_dataset("x", data=rows, chunks=(7, 3), fillvalue=-3, **how)
        part["plain"] = rows + 1
        part.create_dataset("line", data=np.arange(488), chunks=(50,), **how)
        part.create_dataset("cube", data=smooth((4, 61, 8)), chunks=(1, 9, 8), **how)
        nested = values(FAST["nested"], (40,))
        part.create_dataset("nested", data=nested, chunks=(8,), **how)
        never = part.create_dataset("never", (20, 8), "<i4", chunks=(5, 4), fillvalue=6, **how)
        never[5:10] = 1

    def source(name: str, shape: tuple[int, ...], dtype: Any = "<i4") -> h5py.VirtualSource:
        return h5py.VirtualSource("source.h5", name, shape, dtype)

    with h5py.File(path, "w") as file:

        def add(name: str, shape: tuple[int, ...], dtype: Any, *mapped: Any) -> Dataset:
            layout = h5py.VirtualLayout(shape, dtype)
            for key, of in mapped:
                layout[key] = of
            file.create_virtual_dataset(name, layout, fillvalue=-9 if dtype == "<i4" else None)
            return Dataset(f"/{name}")

        x, plain, cube = (source(n, (61, 8)) for n in ("x", "plain", "x"))
        cube, never = source("cube", (4, 61, 8)), source("never", (20, 8))
        yield add("shifted", (150, 8), "<i4", (np.s_[3:64], x), (np.s_[70:131], plain))
        yield add("columns", (61, 16), "<i4", (np.s_[:, ::2], x), (np.s_[:, 1::2], plain))
        yield add("rows", (122, 8), "<i4", (np.s_[::2], x), (np.s_[1:120:2], plain[:60]))
        yield add("steps", (31, 5), "<i4", (np.s_[:20, 1:], x[1:60:3, ::2]))
        yield add("overlap", (70, 8), "<i4", (np.s_[:61], x), (np.s_[9:70], plain))
        yield add("plane", (61, 9), "<i4", (np.s_[:, 1:], cube[2]))
        yield add("layers", (4, 61, 3), "<i4", (np.s_[...], cube[:, :, 4:7]))
        yield add("never", (25, 8), "<i4", (np.s_[2:22], never))
        mapped = [(np.s_[5:45], source("nested", (40,), FAST["nested"]))]
        yield from columns(add("nested", (48,), FAST["nested"], *mapped), FAST["nested"])
        line = source("line", (488,), "<i8")
        yield add("reshaped", (61, 8), "<i8", (np.s_[...], line))
        yield add("folded", (20, 4), "<i8", (np.s_[2:12, 1:], line[100:400:10]))
        yield add("picked", (9, 8), "<i4", (np.s_[:4], x[[1, 2, 7, 30]]))
        shown = h5py.VirtualSource(".", "shifted", (150, 8), "<i4")
        yield add("on virtual", (90, 6), "<i4", (np.s_[4:54], shown[20:120:2, 1:7]))
        yield add("wide", (3, 70_000), "<i4", (np.s_[1, 5:61], x[5:, 2]))


@table()
def virtual_growing(path: Path) -> Iterator[Dataset]:
    """Mappings without an end, of sources that grew, and with numbered names."""
    lengths = {"a": 13, "b": 16, "none": 0}
    for name, length in lengths.items():
        with h5py.File(path.with_name(f"{name}.h5"), "w") as part:
            rows = smooth((16, 4))[:length] + len(name)
            part.create_dataset("x", data=rows, maxshape=(None, 4), chunks=(3, 4))
            part["fixed"] = smooth((7, 4))
    for number in (0, 1, 2, 4):
        with h5py.File(path.with_name(f"numbered-{number}%.h5"), "w") as part:
            part[f"g/{number}"] = smooth((5, 4)) + number
    endless = h5s.UNLIMITED

    def mapped(
        file: Any, name: str, *mappings: tuple[str, str, tuple[int, ...], tuple[int, ...]]
    ) -> Dataset:
        plist = h5p.create(h5p.DATASET_CREATE)
        plist.set_fill_value(np.array(-9, "<i4"))
        for filename, source, (start, count, stride, block), (first, length) in mappings:
            shown = h5s.create_simple((40, 4), (endless, 4))
            shown.select_hyperslab((start, 0), (count, 1), (stride, 1), (block, 4))
            most = (endless, 4) if length == endless else (first + length, 4)
            of = h5s.create_simple((max(1, min(most[0], 40)), 4), most)
            of.select_hyperslab((first, 0), (length, 1), (1, 1), (1, 4))
            plist.set_virtual(shown, filename.encode(), source.encode(), of)
        space = h5s.create_simple((40, 4), (endless, 4))
        h5d.create(file.id, name.encode(), h5t.STD_I32LE, space, plist)
        return Dataset(f"/{name}")

    everything, rest = (0, endless), (4, endless)
    with h5py.File(path, "w", libver="latest") as file:
        one = (0, endless, 1, 1)
        yield mapped(file, "whole", ("a.h5", "x", one, everything))
        yield mapped(file, "part", ("a.h5", "x", (3, endless, 1, 1), rest))
        yield mapped(
            file, "by turns",
            ("a.h5", "x", (0, endless, 6, 3), everything), ("b.h5", "x", (3, endless, 6, 3), rest),
        )  # fmt: skip
        yield mapped(file, "spread", ("b.h5", "x", (1, endless, 3, 1), everything))
        yield mapped(
            file, "fixed", ("a.h5", "x", one, everything), ("a.h5", "fixed", (20, 7, 1, 1), (0, 7))
        )
        yield mapped(file, "empty", ("none.h5", "x", one, everything))
        yield mapped(file, "missing", ("nowhere.h5", "x", one, everything))
        numbered = ("numbered-%b%%.h5", "g/%b")
        yield mapped(file, "numbered", (*numbered, (0, endless, 5, 5), (0, 5)))
        yield mapped(file, "apart", (*numbered, (2, endless, 8, 5), (0, 5)))
