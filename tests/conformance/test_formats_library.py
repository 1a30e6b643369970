"""What the core does not decode goes through h5py or PyTables in the readers: same bytes.

1. Every case asserts that the library was used, and that `statistics()` says why.
2. Exceptions of a library arrive in the parent with their own type.
"""

from __future__ import annotations

import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import tables
from elements import FAST, smooth, values
from h5py import h5d, h5p, h5s, h5t
from oracle import either, fast, h5py_read, slow, streamed

import multitables


@pytest.mark.parametrize("options", [{"block_size": 7}, {"block_size": 1000}], ids=str)
def test_scale_offset(h5: Path, options: dict[str, int]) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("whole", data=smooth((95, 6)), chunks=(10, 4), scaleoffset=0)
        file.create_dataset("lossy", data=smooth((95, 6), "<f4"), chunks=(10, 4), scaleoffset=3)
    slow(h5, "/whole", **options)
    slow(h5, "/lossy", **options)


def test_nbit(h5: Path) -> None:
    kind = h5t.STD_I32LE.copy()
    kind.set_precision(20)
    kind.set_offset(3)
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((10,))
    plist.set_filter(5, 0, ())
    data = (np.arange(95, dtype="<i4") % 2000) - 1000
    with h5py.File(h5, "w") as file:
        made = h5d.create(file.id, b"x", kind, h5s.create_simple((95,)), plist)
        made.write(h5s.ALL, h5s.ALL, data)
    assert slow(h5, "/x", data)


def test_szip(h5: Path) -> None:
    if not h5py.h5z.filter_avail(4) or not h5py.h5z.get_filter_info(4) & 1:
        pytest.skip("this libhdf5 does not encode szip")
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((96, 8)), chunks=(16, 8), compression="szip")
    assert "4" in slow(h5, "/x")


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        (h5t.IEEE_F64LE, "f8"),
        (h5t.STD_I32BE, ">i4"),
    ],
    ids=["f8", "i4"],
)
def test_integers_with_unused_bits(h5: Path, kind: h5t.TypeID, dtype: str) -> None:
    """Numbers whose precision is not their size are converted by HDF5."""
    odd = h5t.STD_I32LE.copy()
    odd.set_precision(20)
    data = np.arange(50, dtype="<i8") - 25
    with h5py.File(h5, "w") as file:
        h5d.create(file.id, b"x", odd, h5s.create_simple((50,))).write(h5s.ALL, h5s.ALL, data)
        h5d.create(file.id, b"y", kind, h5s.create_simple((50,))).write(h5s.ALL, h5s.ALL, data)
    assert "number format" in slow(h5, "/x")
    fast(h5, "/y", data.astype(dtype))


def test_long_double(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=np.arange(50, dtype=np.longdouble) / 3, chunks=(9,))
    either(h5, "/x")


def test_bfloat16(h5: Path) -> None:
    kind = h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    with h5py.File(h5, "w") as file:
        made = h5d.create(file.id, b"x", kind, h5s.create_simple((50,)))
        made.write(h5s.ALL, h5s.ALL, np.arange(50, dtype="<f4"))
    assert "number format" in slow(h5, "/x")


def test_external_storage(h5: Path, tmp_path: Path) -> None:
    data = smooth((40, 5), "<i4")
    (tmp_path / "raw.bin").write_bytes(b"skip" + data.tobytes())
    with h5py.File(h5, "w") as file:
        file.create_dataset(
            "x", (40, 5), "<i4", external=[(str(tmp_path / "raw.bin"), 4, data.nbytes)]
        )
    assert "external" in slow(h5, "/x", data)


def test_virtual_datasets(h5: Path, tmp_path: Path) -> None:
    layout = h5py.VirtualLayout((50, 8), "<i4")
    for number in range(4):
        with h5py.File(tmp_path / f"{number}.h5", "w") as file:
            file["x"] = smooth((10, 8)) + number
        source = h5py.VirtualSource(tmp_path / f"{number}.h5", "x", (10, 8))
        layout[number * 10 : number * 10 + 10] = source
    with h5py.File(h5, "w") as file:
        file.create_virtual_dataset("x", layout, fillvalue=-3)
    assert "virtual" in slow(h5, "/x")
    slow(h5, "/x", block_size=7)
    assert (h5py_read(h5, "/x")[40:] == -3).all()


def test_one_field_through_the_library(h5: Path) -> None:
    data = values(FAST["nested"], (40,))
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_external(str(h5.with_name("raw")).encode(), 0, data.nbytes)
    with h5py.File(h5, "w") as file:
        kind = h5t.py_create(data.dtype, logical=True)
        made = h5d.create(file.id, b"x", kind, h5s.create_simple((40,)), plist)
        h5py.Dataset(made)[...] = data
    for field in ("outer", "z", "s"):
        slow(h5, "/x", np.ascontiguousarray(data[field]), field=field)
    slow(h5, "/x", np.ascontiguousarray(data["outer"]["y"]), field="outer/y")


def test_library_and_native_members_side_by_side(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("slow", data=smooth((95, 6)), chunks=(10, 6), scaleoffset=0)
        file.create_dataset("fast", data=smooth((95, 2), ">i8"), chunks=(7, 2), compression="gzip")
    seen = 0
    with multitables.Streamer(h5).get_queue(
        ["/slow", "/fast"], block_size=13, remainder=True, n_procs=2
    ) as queue:
        for guard in queue:
            with guard as (one, two):
                assert one.tobytes() == smooth((95, 6))[seen : seen + len(one)].tobytes()
                assert two.tobytes() == smooth((95, 2), ">i8")[seen : seen + len(two)].tobytes()
                seen += len(one)
            del one, two
        statistics = queue.statistics()
    assert seen == 95
    assert list(statistics["library"]) == ["/slow"]


def test_cyclic_through_the_library(h5: Path) -> None:
    data = smooth((23, 3))
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=data, chunks=(5, 3), scaleoffset=0)
    with multitables.Streamer(h5).get_queue("/x", block_size=10, cyclic=True, n_procs=2) as queue:
        for number in range(12):
            with queue.get() as block:
                np.testing.assert_array_equal(block, data[(np.arange(10) + 10 * number) % 23])
            del block


def test_an_exception_of_the_library_keeps_its_type(h5: Path) -> None:
    """Garbage where a scale-offset chunk should be: the library says so, the parent raises it."""
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=smooth((95, 6)), chunks=(10, 6), scaleoffset=0)
        made.id.write_direct_chunk((50, 0), b"\xff" * 7)
    with pytest.raises(multitables.SubprocessException) as caught:
        streamed(h5, "/x")
    with pytest.raises(OSError) as theirs:  # noqa: PT011 - whatever h5py says
        h5py_read(h5, "/x")
    assert isinstance(caught.value, OSError)
    assert str(theirs.value).rstrip(".") in str(caught.value)
    assert "'/x'" in str(caught.value)
    assert repr(str(h5)) in str(caught.value)


def test_a_filter_that_nobody_has(h5: Path) -> None:
    """Neither the core nor a library decodes it: an error that names it, not a hang."""
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((10,))
    plist.set_filter(499, 1, (1, 2))  # optional, so that it can be made
    with h5py.File(h5, "w") as file:
        made = h5d.create(file.id, b"x", h5t.STD_I32LE, h5s.create_simple((30,)), plist)
        for at in (0, 10, 20):
            made.write_direct_chunk((at,), b"1234", filter_mask=0)
    with pytest.raises(multitables.SubprocessException, match=r"'/x'"):
        streamed(h5, "/x")


def test_chunks_that_skip_a_filter_that_nobody_has(h5: Path) -> None:
    data = smooth((30,))
    plist = h5p.create(h5p.DATASET_CREATE)
    plist.set_chunk((10,))
    plist.set_filter(499, 1, (1, 2))
    with h5py.File(h5, "w") as file:
        made = h5d.create(file.id, b"x", h5t.STD_I32LE, h5s.create_simple((30,)), plist)
        made.write(h5s.ALL, h5s.ALL, data)
    either(h5, "/x", data)


def test_objects_and_ragged_rows_are_refused(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("text", data=["a", "bb"], dtype=h5py.string_dtype())
        file.create_dataset("ragged", (3,), dtype=h5py.vlen_dtype("<i4"))
        file.create_dataset("reference", (3,), dtype=h5py.ref_dtype)
        file.create_dataset("region", (3,), dtype=h5py.regionref_dtype)
        inside = np.dtype([("n", "<i4"), ("text", h5py.string_dtype())])
        file.create_dataset("inside", (3,), dtype=inside, chunks=(2,))
        file["inside"]["n"] = [1, 2, 3]
    for name in ("text", "ragged", "reference", "region", "inside"):
        with pytest.raises(multitables.UnsupportedDatasetError, match=f"'/{name}'") as caught:
            multitables.Streamer(h5).get_queue(f"/{name}")
        assert isinstance(caught.value, ValueError)
        assert repr(os.fspath(h5)) in str(caught.value)
    # The other columns can be read.
    either(h5, "/inside", np.array([1, 2, 3], "<i4"), field="n")


def test_pytables_reads_what_h5py_writes(h5: Path) -> None:
    """The library fallback does not disturb a file that PyTables has open here."""
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((95, 6)), chunks=(10, 6), scaleoffset=0)
    with tables.open_file(str(h5), "r"):
        slow(h5, "/x")
