"""The dtypes of HDF5's types against those that h5py gives.

Law
---
1. Types are put together from all kinds, at any depth. The core reads them from a file; h5py tells
   its dtype, or that it has none.
2. Where h5py has no dtype, or overlapping fields, ours has separate fields, or the type is refused.
"""

from __future__ import annotations

import contextlib
from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5d, h5s, h5t
from hypothesis import given, settings
from hypothesis import strategies as st

from _multitables import _core
from _multitables.index.types.numpy_type import NoDtypeError, memory_bytes, numpy_dtype
from _multitables.index.types.references import Reference, RegionReference

OWN = {h5py.Reference: Reference, h5py.RegionReference: RegionReference}
NAMES = st.sampled_from(
    ["r", "i", "x", "FALSE", "TRUE", "\N{LATIN SMALL LETTER E WITH ACUTE}", "a b"]
)


@st.composite
def integers(draw: Any) -> Any:
    order = draw(st.sampled_from(["LE", "BE"]))
    kind = h5t.__dict__[
        f"STD_{draw(st.sampled_from('IUB'))}{draw(st.sampled_from([8, 16, 32, 64]))}{order}"
    ]
    kind = kind.copy()
    if kind.get_class() != h5t.BITFIELD:
        kind.set_precision(draw(st.integers(1, 8 * kind.get_size())))
    if kind.get_class() != h5t.BITFIELD and draw(st.booleans()):
        kind.set_size(draw(st.integers(kind.get_size(), 17)))
    return kind


@st.composite
def floats(draw: Any) -> Any:
    kind = h5t.__dict__[
        draw(st.sampled_from(["IEEE_F32LE", "IEEE_F64BE", "IEEE_F16LE", "NATIVE_LDOUBLE"]))
    ]
    kind = kind.copy()
    if draw(st.booleans()):
        exponent, mantissa = draw(st.integers(2, 15)), draw(st.integers(1, 63))
        bits = 1 + exponent + mantissa
        kind.set_size(max(kind.get_size(), -(-bits // 8)))
        kind.set_precision(8 * kind.get_size())
        kind.set_fields(bits - 1, mantissa, exponent, 0, mantissa)
        kind.set_ebias(draw(st.integers(1, 2**exponent - 1)))
    return kind


def string(size: int | None, charset: int) -> Any:
    kind = h5t.C_S1.copy()
    kind.set_size(h5t.VARIABLE if size is None else size)
    kind.set_cset(charset)
    return kind


def opaque(size: int, tag: bytes) -> Any:
    kind = h5t.create(h5t.OPAQUE, size)
    kind.set_tag(tag)
    return kind


@st.composite
def enums(draw: Any) -> Any:
    kind = h5t.enum_create(
        h5t.__dict__[draw(st.sampled_from(["STD_I8LE", "STD_U16BE", "STD_I64LE"]))]
    )
    names = draw(st.lists(NAMES, unique=True, min_size=1, max_size=4))
    values = draw(
        st.lists(st.integers(0, 100), unique=True, min_size=len(names), max_size=len(names))
    )
    for name, value in zip(names, values if draw(st.booleans()) else range(9), strict=False):
        kind.enum_insert(name.encode(), value)
    return kind


def compound(members: list[tuple[str, Any, int]], room: int) -> Any:
    kind = h5t.create(h5t.COMPOUND, sum(m.get_size() + gap for _, m, gap in members) + room)
    at = 0
    for name, member, gap in members:
        kind.insert(name.encode(), at + gap, member)
        at += gap + member.get_size()
    return kind


PLAIN = st.one_of(
    integers(),
    floats(),
    enums(),
    st.builds(string, st.one_of(st.none(), st.integers(1, 9)), st.sampled_from([0, 1])),
    st.builds(
        opaque, st.integers(1, 9), st.sampled_from([b"", b"tag", b"NUMPY:<M8[s]", b"NUMPY:xx"])
    ),
    st.sampled_from([h5t.STD_REF_OBJ, h5t.STD_REF_DSETREG, h5t.UNIX_D32LE]),
    st.sampled_from([h5t.COMPLEX_IEEE_F32LE, h5t.COMPLEX_IEEE_F64BE])
    if hasattr(h5t, "COMPLEX_IEEE_F32LE")
    else st.nothing(),
)
TYPES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.builds(h5t.vlen_create, inner),
        st.builds(
            lambda base, dims: h5t.array_create(base, tuple(dims)),
            inner,
            st.lists(st.integers(1, 3), min_size=1, max_size=3),
        ),
        st.builds(
            compound,
            st.lists(
                st.tuples(NAMES, inner, st.integers(0, 3)),
                min_size=1,
                max_size=4,
                unique_by=lambda m: m[0],
            ),
            st.integers(0, 3),
        ),
    ),
    max_leaves=6,
)


def same(ours: Any, theirs: Any) -> None:
    assert ours == theirs
    meta, other = dict(ours.metadata or {}), dict(theirs.metadata or {})
    assert meta.keys() == other.keys()
    for key, value in meta.items():
        if isinstance(value, np.dtype):
            same(value, other[key])
        else:
            assert value == OWN.get(other[key], other[key]) if key == "ref" else value == other[key]
    if ours.subdtype:
        same(ours.base, theirs.base)
    for name in ours.names or ():
        assert ours.fields[name][1] == theirs.fields[name][1]
        same(ours[name], theirs[name])


def has_overlap(dtype: np.dtype) -> bool:
    """Whether fields lie in others, or behind the end of their element."""
    names = dtype.names or ()
    inner = [dtype[name] for name in names] + [dtype.base] * (dtype.subdtype is not None)
    of_rows = (dtype.metadata or {}).get("vlen")
    inner += [of_rows] * isinstance(of_rows, np.dtype)
    places = sorted((dtype.fields[n][1], dtype[n].itemsize) for n in names)
    ends = [at + size for at, size in places]
    starts = [*(at for at, _ in places[1:]), dtype.itemsize]
    return any(a > b for a, b in zip(ends, starts, strict=False)) or any(map(has_overlap, inner))


def stored_type(kind: Any) -> tuple[_core.Datatype, Any]:
    """What the core says of a type in a file, and h5py's object of it."""
    with h5py.File("memory", "w", driver="core", backing_store=False, libver="latest") as file:
        of_h5py = h5d.create(file.id, b"kind", kind, h5s.create(h5s.SCALAR)).get_type()
        file.flush()
        core = _core.MetadataFile.from_bytes(file.id.get_file_image())
        return _core.datatype(core.datatype(core.find(b"/kind")[1])), of_h5py


@settings(max_examples=300, deadline=None)
@given(TYPES)
def test_dtypes_are_h5pys(kind: Any) -> None:
    datatype, of_h5py = stored_type(kind)
    theirs = None
    with contextlib.suppress(Exception):
        theirs = of_h5py.dtype
    if theirs is not None and not has_overlap(theirs):
        assert memory_bytes(datatype) == of_h5py.get_size()
        same(numpy_dtype(datatype), theirs)
        return
    with contextlib.suppress(NoDtypeError):
        assert not has_overlap(numpy_dtype(datatype))


def integer(base: Any, size: int) -> Any:
    kind = base.copy()
    kind.set_precision(8 * min(size, base.get_size()))
    kind.set_size(size)
    return kind


def bfloat16() -> Any:
    kind = h5t.IEEE_F32LE.copy()
    kind.set_fields(15, 7, 8, 0, 7)
    kind.set_size(2)
    kind.set_ebias(127)
    return kind


LACKING = [
    (integer(h5t.STD_I32LE, 3), "<i4"),
    (integer(h5t.STD_U64BE, 5), ">u8"),
    (integer(h5t.STD_I64LE, 9), "integer of 9 bytes"),
    (h5t.UNIX_D32BE, ">i4"),
    (h5t.UNIX_D64LE, "<i8"),
    (compound([("a", bfloat16(), 0), ("b", h5t.STD_I32LE, 0)], 0),
     {"names": ["a", "b"], "formats": ["<f4", "<i4"], "offsets": [0, 4], "itemsize": 8}),
    (compound([("a", bfloat16(), 0), ("b", h5t.STD_I32LE, 2)], 0),
     {"names": ["a", "b"], "formats": ["<f4", "<i4"], "offsets": [0, 4], "itemsize": 8}),
    (compound([("a", h5t.STD_I8LE, 0), ("b", bfloat16(), 0), ("c", h5t.STD_I8LE, 4)], 0),
     {"names": ["a", "b", "c"], "formats": ["i1", "<f4", "i1"], "offsets": [0, 1, 7]}),
    (compound([("x", integer(h5t.STD_I64LE, 9), 0)], 0), "integer of 9 bytes, field 'x'"),
]  # fmt: skip
if hasattr(h5t, "COMPLEX_IEEE_F16LE"):
    LACKING += [(h5t.COMPLEX_IEEE_F16LE, "<c8"), (h5t.COMPLEX_IEEE_F16BE, ">c8")]


@pytest.mark.parametrize(("kind", "expected"), LACKING)
def test_what_h5py_lacks(kind: Any, expected: Any) -> None:
    datatype = stored_type(kind)[0]
    if isinstance(expected, str) and "byte" in expected:
        with pytest.raises(NoDtypeError, match=expected):
            numpy_dtype(datatype)
    else:
        assert numpy_dtype(datatype) == np.dtype(expected)


def test_types_of_pytables() -> None:
    members = [("b", h5t.STD_B8LE, 0), ("t", h5t.UNIX_D64LE, 0), ("s", string(3, 0), 0)]
    both = compound(members, 0)
    datatype = stored_type(h5t.array_create(both, (2,)))[0]
    assert numpy_dtype(datatype).base["b"] == "u1"
    dtype = numpy_dtype(datatype.as_pytables())
    assert dtype == np.dtype(([("b", "?"), ("t", "<f8"), ("s", "S3")], (2,)))
