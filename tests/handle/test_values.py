"""Elements of every type, decoded: what is of variable length, references, odd numbers.

Law
---
1. The oracle is h5py. Where HDF5 or h5py fails, or is wrong, the test says so.
2. Changed bytes: values, or an error of ours; never a crash, and never more memory than the file
   gives reason for.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import structures
from h5py import h5d, h5s, h5t
from handle_oracle import check
from hypothesis import given, settings
from hypothesis import strategies as st

import multitables
from _multitables import _core
from _multitables.elements.values import decode

TEXT, ASCII = h5py.string_dtype(), h5py.string_dtype("ascii")
INTS = h5py.vlen_dtype("<i4")


def ragged(rows: list[Any], dtype: Any = None) -> np.ndarray:
    made = np.empty(len(rows), dtype or object)
    for number, row in enumerate(rows):
        made[number] = row
    return made


def test_nested(h5: Path) -> None:
    with h5py.File(h5, "w") as file:

        def write(name: str, dtype: Any, rows: Any) -> None:
            made = file.create_dataset(name, (len(rows) + 1,), dtype)  # the last is never written
            for number, row in enumerate(rows):
                made[number] = row

        write("strings", TEXT, ["a", "", "\xe9\N{SNOWMAN}", "x" * 3000])
        write("ascii", ASCII, [b"a", b"bc"])
        write("ints", INTS, [np.arange(n, dtype="i4") for n in (3, 0, 1000)])
        write("halves", h5py.vlen_dtype("<f2"), [np.arange(3, dtype="f2")])
        write("enums", h5py.vlen_dtype(h5py.enum_dtype({"a": 0, "b": 1}, "i1")), [[0, 1, 1]])
        write("bools", h5py.vlen_dtype(bool), [np.array([True, False])])
        rows = np.array([(1, 2.5), (3, 4.5)], "<i2,<f8")
        write("compounds", h5py.vlen_dtype(rows.dtype), [rows, rows[:1]])
        write("fixed", h5py.vlen_dtype(np.dtype("S3")), [np.array([b"a", b"bcd"])])
        write("lists", h5py.vlen_dtype(TEXT), [np.array(["a", "bc"], object)])
        inner = ragged([np.arange(2, dtype="i4"), np.arange(3, dtype="i4")])
        write("sequences", h5py.vlen_dtype(INTS), [inner])
        write("objects", h5py.vlen_dtype(h5py.ref_dtype), [
            np.array([file.ref, file["ints"].ref], h5py.ref_dtype)])  # fmt: skip
        record = [("n", "<i2"), ("s", TEXT), ("v", INTS), ("w", "S3"), ("x", ">f4", (2,))]
        made = file.create_dataset("records", (3,), record)
        made[0] = (1, "one", np.arange(3, dtype="i4"), b"ab", (1, 2))
        made[1] = (2, "", np.arange(0, dtype="i4"), b"", (3, 4))
        deep = np.dtype([("a", "u1"), ("inner", [("s", TEXT), ("r", h5py.ref_dtype)])])
        made = file.create_dataset("deep", (2,), deep)
        made[0] = (1, ("text", file.ref))
        made = file.create_dataset("arrays", (2,), np.dtype([("s", TEXT, (2, 2))]))
        made = file.create_dataset("regions", (3,), h5py.regionref_dtype)
        made[0], made[1] = file["ints"].regionref[1:2], file["strings"].regionref[...]
        made = file.create_dataset("shaped", (2, 3), TEXT, chunks=(1, 2), compression="gzip")
        made[...] = [["a", "b", "c"], ["d", "", "f"]]
        file.create_dataset("filled", (1000,), TEXT, fillvalue="filled")
        file["scalar"], file["null"] = "scalar", h5py.Empty(TEXT)
        file.create_dataset("one", (), INTS)[()] = np.arange(4)
    check(h5)


@settings(max_examples=60, deadline=None)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(-(2**15), 2**15 - 1),
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
            st.lists(st.integers(-(2**31), 2**31 - 1)),
        ),
        max_size=20,
    ),
    libver=st.sampled_from(["earliest", "latest"]),
)
def test_rows(tmp_path_factory: pytest.TempPathFactory, rows: Any, libver: str) -> None:
    path = tmp_path_factory.getbasetemp() / "rows.h5"
    with h5py.File(path, "w", libver=libver) as file:
        file["texts"] = np.array([text for _, text, _ in rows], TEXT)
        made = file.create_dataset("records", (len(rows),), [("n", "i2"), ("s", TEXT), ("v", INTS)])
        for number, (n, text, ints) in enumerate(rows):
            made[number] = (n, text, np.array(ints, "i4"))
    check(path)


def raw(file: Any, name: str, kind: Any, stored: bytes) -> None:
    """Write elements as they shall be stored."""
    count = len(stored) // kind.get_size()
    try:
        made = h5d.create(file.id, name.encode(), kind, h5s.create_simple((count,)))
    except ValueError:  # a type that HDF5 refuses to create
        return
    made.write(h5s.ALL, h5s.ALL, np.frombuffer(stored, np.uint8).copy(), kind)


def odd_integer(base: Any, offset: int, precision: int) -> Any:
    kind = base.copy()
    kind.set_precision(precision)
    kind.set_offset(offset)
    return kind


def odd_float(base: Any, size: int, exponent: int, mantissa: int, bias: int) -> Any:
    kind = base.copy()
    kind.set_fields(exponent + mantissa, mantissa, exponent, 0, mantissa)
    kind.set_size(size)
    kind.set_precision(8 * size)
    kind.set_ebias(bias)
    return kind


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_odd_numbers(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """With unused bits, other exponents, in VAX's order. HDF5 takes big-endian bytes as whole."""
    path = tmp_path_factory.getbasetemp() / "numbers.h5"
    sizes = st.sampled_from(["8LE", "16LE", "16BE", "32LE", "32BE", "64LE", "64BE"])
    base = getattr(h5t, f"STD_{data.draw(st.sampled_from('IU'))}{data.draw(sizes)}")
    precision = data.draw(st.integers(2, 8 * base.get_size()))  # a sign and a bit
    offset = data.draw(st.integers(0, 8 * base.get_size() - precision))
    integer = odd_integer(base, offset, precision)
    size = data.draw(st.sampled_from([2, 3, 4, 5, 6, 8]))
    exponent = data.draw(st.integers(2, min(11, 8 * size - 2)))
    mantissa = data.draw(st.integers(1, min(52, 8 * size - 1 - exponent)))
    bias = data.draw(st.integers(1, min(1023, 2**exponent - 2)))
    order = data.draw(st.sampled_from(["IEEE_F64LE", "IEEE_F64BE"]))
    number = odd_float(getattr(h5t, order), size, exponent, mantissa, bias)
    with h5py.File(path, "w") as file:
        raw(file, "integers", integer, data.draw(st.binary(min_size=80, max_size=80)))
        elements = data.draw(st.binary(min_size=10 * size, max_size=10 * size))
        raw(file, "floats", number, elements)
        if size == 4 and order == "IEEE_F64BE":
            vax = h5t.IEEE_F32LE.copy()
            vax.set_order(h5t.ORDER_VAX)
            raw(file, "vax", vax, elements)
    check_numbers(path)


def check_numbers(path: Path) -> None:
    with h5py.File(path) as theirs, multitables.open(path) as ours:
        for name in theirs:
            got, want = ours[name][()], theirs[name][()]
            assert got.dtype == want.dtype
            # HDF5 keeps what a NaN says beyond being one.
            np.testing.assert_array_equal(got, want)


def test_long_doubles(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["x"] = np.array([1, -2.5, np.inf, np.nan, 0, 1e4000], np.longdouble) / 3
        file["z"] = file["x"][()] + 1j
        file["big"] = np.arange(3, dtype=np.dtype(np.longdouble).newbyteorder(">"))
    check(h5)


def test_paddings(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        for padding in (h5t.STR_NULLTERM, h5t.STR_NULLPAD, h5t.STR_SPACEPAD):
            text = h5t.C_S1.copy()
            text.set_size(5)
            text.set_strpad(padding)
            raw(file, f"padding {padding}", text, b"ab\0cdabcde  x   \0\0\0\0\0abc  ")
            both = h5t.create(h5t.COMPOUND, 7)
            both.insert(b"n", 0, h5t.STD_I16BE)
            both.insert(b"s", 2, text)
            raw(file, f"compound {padding}", both, b"\1\2ab\0cd\3\4 xy  ")
    check(h5)


def test_strings_end_at_a_nul(h5: Path) -> None:
    """h5py sees a `char *`; other writers count the NUL at the end."""
    with h5py.File(h5, "w") as file:
        file["x"] = np.array(["abcdef", "ghi"], TEXT)
    stored = h5.read_bytes()
    h5.write_bytes(stored.replace(b"abcdef", b"abc\0ef"))
    with multitables.open(h5) as ours, h5py.File(h5) as theirs:
        assert ours["x"][()].tolist() == theirs["x"][()].tolist() == [b"abc", b"ghi"]


def test_regions(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        target = file.create_dataset("g/target", (10, 10), "i4")
        file.attrs["region"], file.attrs["null"] = (
            target.regionref[2:4, ::3],
            h5py.RegionReference(),
        )
    with multitables.open(h5) as ours:
        region = ours.attrs["region"]
        assert isinstance(region, multitables.RegionReference)
        assert ours[region] == ours["g/target"]
        assert ours[region].name == "/g/target"
        assert not ours.attrs["null"]
        with pytest.raises(ValueError, match="reference"):
            ours[ours.attrs["null"]]


# ---- descriptors that name what is not there


class HeapFile:
    def __init__(self, path: Path) -> None:
        self.metadata = _core.MetadataFile(str(path))


@pytest.fixture
def heap(h5: Path) -> Iterator[tuple[HeapFile, np.ndarray, _core.Datatype]]:
    """A file, the descriptors of its strings, and their type."""
    with h5py.File(h5, "w") as file:
        file["x"] = np.array(["abc", "defg"] * 50, TEXT)
    file_ = HeapFile(h5)
    offset = file_.metadata.find(b"/x")[1]
    told = file_.metadata.dataset(offset)
    stored = np.fromfile(h5, "V16", 100, offset=told.byte_offset)
    yield file_, stored, _core.datatype(told.datatype)
    file_.metadata.close()


def test_bad_descriptors(heap: Any) -> None:
    file, stored, datatype = heap
    assert decode(stored, datatype, file).tolist() == [b"abc", b"defg"] * 50
    bad = {
        "longer": (2**32 - 1).to_bytes(4, "little") + stored[0].tobytes()[4:],
        "nowhere": stored[0].tobytes()[:4] + b"\7" * 8 + stored[0].tobytes()[12:],
        "undefined": stored[0].tobytes()[:4] + b"\xff" * 8 + stored[0].tobytes()[12:],
        "no object": stored[0].tobytes()[:12] + b"\xf0\0\0\0",
    }
    for name, descriptor in bad.items():
        with pytest.raises(_core.Corrupt):
            decode(np.frombuffer(descriptor, "V16"), datatype, file)
        assert name
    nothing = [b"\0" * 4 + stored[0].tobytes()[4:], stored[0].tobytes()[:4] + b"\0" * 12]
    assert decode(np.frombuffer(b"".join(nothing), "V16"), datatype, file).tolist() == [b"", b""]


def test_one_object_many_times(h5: Path) -> None:
    """A heap may lend a large object to each of many descriptors: fill values are such a thing."""
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", (1,), h5py.vlen_dtype("u1"))
        made[0] = np.zeros(60_000, "u1")
    file_ = HeapFile(h5)
    told = file_.metadata.dataset(file_.metadata.find(b"/x")[1])
    stored = np.fromfile(h5, "V16", 1, offset=told.byte_offset)
    datatype = _core.datatype(told.datatype)
    assert len(decode(stored, datatype, file_)[0]) == 60_000
    with pytest.raises(_core.Corrupt, match="within"):
        decode(np.repeat(stored, 10_000), datatype, file_)


MUTATIONS = 150


@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_damage_anywhere(h5: Path, libver: str) -> None:
    with h5py.File(h5, "w", libver=libver) as file:
        structures.attributes(file)
        file["texts"] = np.array(["abc", "defg"] * 20, TEXT)
        made = file.create_dataset(
            "records", (3,), [("s", TEXT), ("v", INTS), ("r", h5py.ref_dtype)]
        )
        made[0] = ("text", np.arange(30), file.ref)
        file.create_dataset("nested", (2,), h5py.vlen_dtype(TEXT))[0] = np.array(["a", "b"], object)
        file.attrs["region"] = file["texts"].regionref[1:3]
    good, rng = h5.read_bytes(), random.Random(libver)
    places = [at for at in range(0, len(good), 8) if good[at : at + 8].strip(b"\0\xff")]
    for _ in range(MUTATIONS):
        at, size = rng.choice(places) + rng.randrange(8), rng.choice([1, 1, 2, 4, 8])
        by = rng.choice([rng.randbytes(size), b"\xff" * size, b"\0" * size])
        h5.write_bytes((good[:at] + by + good[at + size :])[: len(good)])
        everything(h5)


def everything(path: Path) -> None:
    """Ask all there is; errors are ours, or say that NumPy has no such type."""
    expected = multitables.MultitablesError, TypeError
    try:
        file = multitables.open(path, n_threads=1, trusted=False)
    except expected:
        return
    with file:
        names: list[Any] = []
        asked(lambda: file.visit_links(names.append), expected)
        for name in ["/", *names]:
            found = asked(lambda name=name: file[name], expected)
            if found is None:
                continue
            for attribute in asked(lambda found=found: list(found.attrs), expected) or ():
                value = asked(lambda a=attribute, found=found: found.attrs[a], expected)
                if (
                    isinstance(value, (multitables.Reference, multitables.RegionReference))
                    and value
                ):
                    asked(lambda value=value: file[value], expected)
            if isinstance(found, multitables.Dataset):
                size = asked(lambda found=found: found.size, expected)
                if size is not None and size < 10_000:
                    asked(lambda found=found: found[()], expected)


def asked(question: Any, expected: tuple[type[Exception], ...]) -> Any:
    try:
        return question()
    except expected as error:
        assert "\n" not in str(error)  # noqa: PT017
        return None
