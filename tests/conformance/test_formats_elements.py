"""Every element type of the fast path, in every layout, equals what h5py gives.

1. The types are those of `elements.FAST` and those made with HDF5's own calls here.
2. Every case asserts that no library was used.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import COMPOUND, FAST, NESTED, PADDED, values
from h5py import h5d, h5p, h5s, h5t
from oracle import fast, h5py_read, same, streamed

LAYOUTS: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (7, 5)},
    "compressed": {"chunks": (7, 5), "compression": "gzip", "shuffle": True, "fletcher32": True},
}


@pytest.mark.parametrize("name", FAST)
def test_every_element_type_in_every_layout(h5: Path, name: str) -> None:
    with h5py.File(h5, "w") as file:
        for layout, options in LAYOUTS.items():
            file.create_dataset(layout, data=values(FAST[name], (37, 11), layout), **options)
    for layout in LAYOUTS:
        fast(h5, f"/{layout}", n_procs=1)


@pytest.mark.parametrize("dtype", ["<f4", "S7", "compound"])
def test_one_dimension_of_every_layout(h5: Path, dtype: str) -> None:
    with h5py.File(h5, "w") as file:
        for layout, options in LAYOUTS.items():
            one = {**options, "chunks": (10,)} if options else {}
            file.create_dataset(layout, data=values(FAST[dtype], (93,)), **one)
    for layout in LAYOUTS:
        fast(h5, f"/{layout}", n_procs=1)


def test_an_enum_is_its_integer(h5: Path) -> None:
    kind = h5py.enum_dtype({"red": 1, "green": 300}, basetype=">i2")
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=np.array([1, 300, 1, 5], ">i2"), dtype=kind, chunks=(3,))
    fast(h5, "/x")
    got, _ = streamed(h5, "/x")
    assert got is not None
    assert got.dtype == np.dtype(">i2")


def test_bool_inside_a_compound_and_an_array_of_bool(h5: Path) -> None:
    dtype = np.dtype([("flags", "?", (3,)), ("n", "<u2")])
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=values(dtype, (50,)), chunks=(8,), compression="gzip")
    fast(h5, "/x")


def test_elements_that_are_arrays(h5: Path) -> None:
    """An HDF5 array type: its dims follow the dataset's."""
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", (20, 3), dtype=np.dtype(("<i2", (2, 4))), chunks=(6, 2))
        file["x"][...] = values(np.dtype("<i2"), (20, 3, 2, 4))
    assert h5py_read(h5, "/x").shape == (20, 3, 2, 4)
    fast(h5, "/x")


@pytest.mark.parametrize(
    "padding", [h5t.STR_NULLTERM, h5t.STR_NULLPAD, h5t.STR_SPACEPAD], ids=["term", "pad", "space"]
)
@pytest.mark.parametrize("layout", ["contiguous", "chunked", "compressed"])
def test_strings_of_every_padding(h5: Path, padding: int, layout: str) -> None:
    """Fixed strings as other programs write them: what follows the end is not for the user."""
    kind = h5t.C_S1.copy()
    kind.set_size(6)
    kind.set_strpad(padding)
    stored = np.frombuffer(b"abc\0xxab          abcdef\0zzzzza b   ", "S6")
    _write_raw(h5, kind, np.tile(stored, 9), layout)
    fast(h5, "/x")


@pytest.mark.parametrize("padding", [h5t.STR_NULLTERM, h5t.STR_SPACEPAD], ids=["term", "space"])
@pytest.mark.parametrize("layout", ["contiguous", "chunked", "compressed"])
def test_padded_strings_inside_a_compound(h5: Path, padding: int, layout: str) -> None:
    string = h5t.C_S1.copy()
    string.set_size(4)
    string.set_strpad(padding)
    kind = h5t.create(h5t.COMPOUND, 20)
    kind.insert(b"n", 1, h5t.STD_I16BE)
    kind.insert(b"s", 4, h5t.array_create(string, (3,)))
    memory = np.dtype(
        {"names": ["n", "s"], "formats": [">i2", ("S4", (3,))], "offsets": [1, 4], "itemsize": 20}
    )
    data = np.zeros(54, memory)
    data["n"] = np.arange(54)
    raw = np.tile(np.frombuffer(b"ab\0ya       wxyz\0\0 q a  ", "S4"), 27)
    data["s"] = raw.reshape(54, 3)
    _write_raw(h5, kind, data, layout)
    fast(h5, "/x")
    fast(h5, "/x", h5py_read(h5, "/x", "s"), field="s")


def _write_raw(path: Path, kind: h5t.TypeID, data: np.ndarray, layout: str) -> None:
    """Writes bytes as they are, without HDF5's conversion."""
    plist = h5p.create(h5p.DATASET_CREATE)
    if layout != "contiguous":
        plist.set_chunk((10,))
    if layout == "compressed":
        plist.set_shuffle()
        plist.set_deflate(4)
    with h5py.File(path, "w") as file:
        dataset = h5d.create(file.id, b"x", kind, h5s.create_simple(data.shape), plist)
        dataset.write(h5s.ALL, h5s.ALL, data, kind)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", [COMPOUND, NESTED, PADDED], ids=["compound", "nested", "padded"])
def test_one_field_of_a_compound(h5: Path, dtype: np.dtype, layout: str) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=values(dtype, (37, 11)), **LAYOUTS[layout])
    assert dtype.names is not None
    for field in dtype.names:
        want = h5py_read(h5, "/x", field)
        statistics = fast(h5, "/x", want, field=field, n_procs=1, read_ahead=1)
        # Only the column reaches the ring.
        assert statistics["ring_bytes"] < max(4096 * 2, 37 * 11 * dtype.itemsize)


def test_a_field_inside_a_field(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=values(NESTED, (37, 2)), chunks=(7, 2), compression="gzip")
    want = h5py_read(h5, "/x")["outer"]
    fast(h5, "/x", np.ascontiguousarray(want["y"]), field="outer/y")
    fast(h5, "/x", np.ascontiguousarray(want["x"]), field="outer/x")


def test_values_survive_that_differ_from_themselves(h5: Path) -> None:
    """NaNs keep their payload bits, zeros their sign."""
    bits = np.array([0x7FF8000000000001, 0xFFF0000000000002, 1 << 63, 0], "<u8")
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=np.tile(bits, 10).view("<f8"), chunks=(8,))
    got, _ = streamed(h5, "/x")
    assert got is not None
    same(got.view("<u8"), np.tile(bits, 10))
