"""Objects that programs written for h5py check, and read low-level properties of.

Law
---
1. h5py is the oracle: same answers for each object and call.
2. h5py's own functions refuse our objects by exceptions.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from processes import run_script

import multitables

ALL = h5py.h5s.ALL


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("objects") / "objects.h5"
    with h5py.File(path, "w") as file:
        options = {"chunks": (6, 7), "maxshape": (None, 20), "fillvalue": 7}
        filters = {"compression": "gzip", "shuffle": True, "fletcher32": True}
        file.create_dataset("gzip", (30, 20), ">i2", **options, **filters)
        file.create_dataset("offset", data=np.arange(50), chunks=(10,), scaleoffset=True)
        file["plain"], file["scalar"], file["null"] = np.ones((2, 3)), 3, h5py.Empty("f4")
        file["texts"], file["fixed"] = ["a", "bcd"], np.array([b"ab", b"c"])
        file["bools"], file["complex"] = np.array([True, False]), np.array([1 + 2j])
        compound = [("a", "i1"), ("s", h5py.string_dtype()), ("b", ">f8", (2,)), ("z", "u2")]
        file.create_dataset("compound", (2,), np.dtype(compound))
        file.create_dataset("sequences", (2,), h5py.vlen_dtype("i4"))
        file.create_dataset("enum", (2,), h5py.enum_dtype({"R": 1, "G": 5}, "u1"))
        file.create_dataset("opaque", (1,), h5py.opaque_dtype("M8[s]"))
        file.create_dataset("external", (4,), "i4", external=[("x.bin", 8, 16)])
        layout = h5py.VirtualLayout((4, 3), "f8")
        layout[0] = h5py.VirtualSource("a.h5", "x", (3,))
        layout[1:3, 1] = h5py.VirtualSource(".", "plain", (2, 3))[:, 0]
        file.create_virtual_dataset("virtual", layout)
        file["named"], file["group/x"] = np.dtype("<u4"), np.arange(3)
        file["soft"], file["outside"] = h5py.SoftLink("/group"), h5py.ExternalLink("b.h5", "/x")
        file.attrs["numbers"], file.attrs["text"] = np.arange(3), "hi"
        file.attrs["fixed"], file.attrs["null"] = np.bytes_(b"ab"), h5py.Empty("i2")
        file.attrs["reference"] = file["group"].ref
        file.attrs["region"] = file["plain"].regionref[:1]
    return path


def _fill(one: Any) -> Any:
    value = np.zeros((), one.dtype)
    one.id.get_create_plist().get_fill_value(value)
    return value


def _read(one: Any, kind: Any = None) -> Any:
    array = np.zeros(one.shape, kind or one.dtype)
    one.id.read(ALL, ALL, array)
    return array


def _members(one: Any) -> Any:
    stored = one.id.get_type()
    return [
        (
            name,
            stored.get_member_index(name),
            stored.get_member_offset(at),
            inner.get_class(),
            inner.get_size(),
            inner.get_array_dims() if inner.get_class() == h5py.h5t.ARRAY else (),
        )
        for at in range(stored.get_nmembers())
        for name, inner in [(stored.get_member_name(at), stored.get_member_type(at))]
    ]


def _virtual(one: Any) -> Any:
    properties = one.id.get_create_plist()
    return [
        (
            properties.get_virtual_filename(at),
            properties.get_virtual_dsetname(at),
            properties.get_virtual_vspace(at).get_select_bounds(),
            properties.get_virtual_srcspace(at).get_select_bounds(),
        )
        for at in range(properties.get_virtual_count())
    ]


def _called(which: str, *names: str) -> dict[str, Callable[[Any], Any]]:
    """Calls of methods without arguments, of what a method of ``dataset.id`` returns."""
    return {
        f"{which}.{name}": lambda one, name=name: getattr(getattr(one.id, which)(), name)()
        for name in names
    }


CALLS: dict[str, Callable[[Any], Any]] = {
    **_called("get_create_plist", "get_layout", "get_chunk", "get_nfilters"),
    **_called("get_create_plist", "fill_value_defined", "get_external_count"),
    **_called("get_space", "get_simple_extent_dims", "get_simple_extent_ndims", "is_simple"),
    **_called("get_space", "get_simple_extent_npoints", "get_simple_extent_type"),
    **_called("get_space", "get_select_npoints"),
    **_called("get_type", "get_class", "get_size", "get_order", "get_sign", "get_precision"),
    **_called("get_type", "get_offset", "is_variable_str", "get_cset", "get_strpad", "get_tag"),
    **_called("get_type", "get_nmembers", "committed"),
    "largest": lambda one: one.id.get_space().get_simple_extent_dims(True),
    "extents": lambda one: one.id.get_space().shape,
    "dtype": lambda one: one.id.get_type().dtype,
    "element": lambda one: one.id.get_type().get_super().get_class(),
    "same type": lambda one: one.id.get_type().equal(one.id.get_type()),
    "filter": lambda one: one.id.get_create_plist().get_filter(1),
    "no filter": lambda one: one.id.get_create_plist().get_filter(9),
    "shuffle": lambda one: one.id.get_create_plist().get_filter_by_id(2),
    "external": lambda one: one.id.get_create_plist().get_external(0),
    "chunks": lambda one: one.id.get_num_chunks(one.id.get_space()),
    "chunk": lambda one: tuple(one.id.get_chunk_info(0, one.id.get_space())),
    "bytes": lambda one: (one.id.get_storage_size(), one.id.get_offset()),
    "valid": lambda one: bool(one.id.valid) and bool(one.id) and one.id == one.id,
    "fill": _fill,
    "read": _read,
    "converted": lambda one: _read(one, "f4" if one.dtype.kind in "if" else one.dtype),
    "members": _members,
    "virtual": _virtual,
}
NAMES = (
    "gzip", "offset", "plain", "scalar", "null", "texts", "fixed", "bools", "complex", "compound",
    "sequences", "enum", "opaque", "external", "virtual",
)  # fmt: skip
#: Text of any length is made of characters to HDF5, and has no fill value to h5py.
OTHERS = {("element", "texts"), ("fill", "texts")}
FAILED = "failed"


@pytest.mark.parametrize("call", CALLS)
def test_low_level_calls_have_h5pys_answers(path: Path, call: str) -> None:
    n_compared = 0
    with multitables.open(path) as ours, h5py.File(path) as theirs:
        for name in NAMES:
            want = _answer(CALLS[call], theirs[name])
            if want is not None and (call, name) not in OTHERS:
                got = _answer(CALLS[call], ours[name]) or FAILED
                assert _plain(got) == _plain(want), f"{call} of {name}"
                n_compared += 1
    assert n_compared


def _answer(call: Callable[[Any], Any], one: Any) -> Any:
    """What a call returns, in a tuple; None: h5py has no such method for a type."""
    try:
        return (call(one),)
    except AttributeError:
        return None
    except (ValueError, TypeError, RuntimeError, OSError, LookupError):
        return FAILED


def _plain(answer: Any) -> Any:
    """What can be compared with ``==``: of an array, its dtype and elements."""
    if isinstance(answer, (tuple, list)):
        return [_plain(part) for part in answer]
    if isinstance(answer, np.ndarray):
        return answer.dtype, [_plain(part) for part in answer.ravel().tolist()]
    return answer


def test_identifiers_of_files_groups_types_and_attributes(path: Path) -> None:
    with multitables.open(path) as ours, h5py.File(path) as theirs:
        assert ours.id.get_filesize() == theirs.id.get_filesize()
        assert ours.id.name == theirs.id.name
        assert ours.id.get_num_objs() == theirs.id.get_num_objs() == len(ours.id)
        assert ours["group"].id.get_num_objs() == 1
        assert ours.id == ours["/"].id
        assert ours["group"].id == ours["soft"].id != ours.id
        assert hash(ours["group"].id) == hash(ours["soft"].id)
        assert "group" in ours.id
        kind = ours["named"].id
        assert (kind.committed(), kind.dtype, kind.get_size()) == (True, np.dtype("<u4"), 4)
        for name in ("numbers", "text", "fixed", "null"):
            got, want = ours.attrs.get_id(name), theirs.attrs.get_id(name)
            assert (got.name, got.shape) == (want.name, want.shape)
            assert got.dtype == got.get_type().dtype == want.dtype
            assert h5py.check_string_dtype(got.dtype) == h5py.check_string_dtype(want.dtype)
            assert got.get_space().shape == want.get_space().shape
        assert ours.attrs.get_id("numbers").get_storage_size() == 24
        with pytest.raises(KeyError):
            ours.attrs.get_id("missing")
    assert not ours.id.valid
    again = multitables.open(path)
    again.id.close()
    assert not again


def _objects(file: Any) -> Iterator[tuple[str, Any]]:
    yield "File", file
    yield "Group", file["group"]
    yield "Dataset", file["plain"]
    yield "Datatype", file["named"]
    yield "AttributeManager", file.attrs
    yield "Empty", file.attrs["null"]
    yield "Reference", file.attrs["reference"]
    yield "RegionReference", file.attrs["region"]
    yield "SoftLink", file.get("soft", getlink=True)
    yield "ExternalLink", file.get("outside", getlink=True)
    yield "HardLink", file.get("group", getlink=True)


def test_objects_are_h5pys_to_isinstance(path: Path) -> None:
    with multitables.open(path) as file:
        for name, one in _objects(file):
            own = type(one)
            assert isinstance(one, getattr(h5py, name)), name
            assert isinstance(one, own)
            assert own.__module__.split(".")[0] in ("multitables", "_multitables")
            assert own.__dict__.keys() <= set(dir(one))
            if name != "AttributeManager":
                for made in (pickle.loads(pickle.dumps(one)), copy.copy(one)):
                    assert type(made) is own
                    assert made == one
                    assert hash(made) == hash(one)
        assert isinstance(file, h5py.Group)
        assert not isinstance(file["group"], h5py.File)
        assert not isinstance(file["plain"], h5py.Group)
        assert file.attrs["null"] == h5py.Empty("i2")
        assert file.attrs["reference"] != file.attrs["region"]


def test_h5py_is_not_imported_for_it(path: Path) -> None:
    script = f"""
import sys
import multitables
file = multitables.open({str(path)!r})
assert isinstance(file, multitables.Group) and file.__class__ is multitables.File
assert "h5py" not in sys.modules
import h5py
assert isinstance(file["plain"], h5py.Dataset) and type(file) is multitables.File
"""
    assert run_script(script).returncode == 0


REFUSED: dict[str, Callable[[Any, Any], Any]] = {
    "a hard link": lambda file, one: file.__setitem__("link", one),
    "a copy of it": lambda file, one: file.copy(one, "copied"),
    "a copy in it": lambda file, one: file.copy("x", one),
    "an object of its id": lambda file, one: type(file["x"])(one.id),
    "information": lambda file, one: h5py.h5o.get_info(one.id),
    "a name": lambda file, one: h5py.h5i.get_name(one.id),
    "a reference": lambda file, one: file[one.ref],
    "a reference that is written": lambda file, one: file.attrs.create("a", one.ref, (), one.ref),
    "a scale": lambda file, one: file["x"].dims[0].attach_scale(one),
    "an index": lambda file, one: file["x"][one],
    "methods": lambda file, one: h5py.Dataset.__getitem__(one, ()),
}


@pytest.mark.parametrize("call", REFUSED)
def test_h5pys_functions_refuse_our_objects(path: Path, call: str) -> None:
    with multitables.open(path) as ours, h5py.File.in_memory() as file:
        file["x"] = np.arange(6)
        for name in ("plain", "group", "named", "/"):
            with pytest.raises((TypeError, ValueError, AttributeError)):
                REFUSED[call](file, ours[name])
        assert list(file) == ["x"]


def test_h5py_takes_data_names_and_virtual_sources(path: Path) -> None:
    with multitables.open(path) as ours, h5py.File.in_memory() as file:
        assert np.array_equal(file.create_dataset("x", data=ours["plain"])[:], ours["plain"][:])
        assert h5py.VirtualSource(ours["plain"]).shape == (2, 3)
        file["link"] = ours.get("soft", getlink=True)
        assert file.get("link", getlink=True).path == "/group"
        with h5py.File(ours) as same_file:
            assert same_file.filename == ours.filename
