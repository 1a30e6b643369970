"""The dtypes of HDF5's types against those that h5py gives.

Law
---
1. Types are put together from all kinds, at any depth. The core reads them from a file; h5py tells
   its dtype, or that it has none.
"""

from __future__ import annotations

from typing import Any

import h5py
import numpy as np
import pytest
from h5py import h5d, h5s, h5t
from hypothesis import given, settings
from hypothesis import strategies as st

from _multitables import _core
from _multitables.index.numpy_type import memory_bytes, numpy_dtype
from _multitables.index.references import Reference, RegionReference

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


@settings(max_examples=300, deadline=None)
@given(TYPES)
def test_dtypes_are_h5pys(kind: Any) -> None:
    with h5py.File("memory", "w", driver="core", backing_store=False, libver="latest") as file:
        told = h5d.create(file.id, b"kind", kind, h5s.create(h5s.SCALAR)).get_type()
        file.flush()
        core = _core.MetadataFile.from_bytes(file.id.get_file_image())
        datatype = _core.datatype(core.datatype(core.find(b"/kind")[1]))
        try:
            theirs = told.dtype
        except Exception:
            with pytest.raises(TypeError):
                numpy_dtype(datatype)
            return
        assert memory_bytes(datatype) == told.get_size()
        same(numpy_dtype(datatype), theirs)
