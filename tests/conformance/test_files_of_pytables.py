"""Files that PyTables keeps for its own tests, written by releases and on machines of long ago."""

from __future__ import annotations

from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import pytest
import tables
from oracle import streamed

FOLDER = Path(tables.__file__).parent / "tests"
FILES = (
    "array_mdatom.h5",
    "blosc_bigendian.h5",
    "itemsize.h5",
    "nested-type-with-gaps.h5",
    "non-chunked-table.h5",
    "out_of_order_types.h5",
    "smpl_compound_chunked.h5",
    "smpl_f64be.h5",
    "smpl_i32le.h5",
)


def datasets(path: Path) -> dict[str, np.ndarray]:
    """Read all datasets with h5py: PyTables itself frees some of these files' memory twice."""
    found = {}

    def add(name: str, item: h5py.Dataset | h5py.Group) -> None:
        if isinstance(item, h5py.Dataset) and item.shape and item.dtype.kind != "O":
            found["/" + name] = item[...]

    with h5py.File(path) as file:
        file.visititems(add)
    return found


@pytest.mark.parametrize("name", FILES)
def test_old_files(name: str) -> None:
    path = FOLDER / name
    if not path.exists():
        pytest.skip("this PyTables comes without its tests")
    found = datasets(path)
    assert found
    for dataset, rows in found.items():
        got, told = streamed(path, dataset, n_procs=1, block_size=1)
        assert got is not None
        assert told["library"] == {}
        for field in rows.dtype.names or (Ellipsis,):
            np.testing.assert_array_equal(got[field], rows[field])


def test_the_blosc_of_then() -> None:
    """The chunks are those of a release before flags said whether blocks are split."""
    path = FOLDER / "blosc_bigendian.h5"
    if not path.exists():
        pytest.skip("this PyTables comes without its tests")
    heads = set()
    with h5py.File(path) as file:
        for dataset in file.values():
            if isinstance(dataset, h5py.Dataset) and dataset.chunks:
                _, stored = dataset.id.read_direct_chunk((0,) * dataset.ndim)
                heads.add((stored[0], stored[1], stored[2] >> 5, stored[2] & 0x10))
    assert heads == {(2, 1, 0, 0)}


@pytest.mark.parametrize("cname", ["blosclz", "lz4", "zlib"])
@pytest.mark.parametrize("dtype", ["<i2", "<f8", "S3", "S40"])
@pytest.mark.parametrize("rows", [300, 9000])
def test_the_first_format_of_blosc(h5: Path, cname: str, dtype: str, rows: int) -> None:
    """It is told by its number alone, and its blocks are split by the size of elements."""
    data = (np.arange(rows) // 3 % 90).astype(dtype)
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=data, chunks=(rows,), **hdf5plugin.Blosc(cname))
        mask, stored = made.id.read_direct_chunk((0,))
        assert (mask, stored[0]) == (0, 2)
        made.id.write_direct_chunk((0,), b"\1" + stored[1:])
    got, told = streamed(h5, "/x", n_procs=1, block_size=1)
    np.testing.assert_array_equal(got, data)
    assert told["library"] == {}
