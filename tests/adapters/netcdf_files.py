"""Files that netCDF4, h5netcdf and h5py write, with what netCDF-4 and HDF5 know of.

Law
---
1. `FILES` is all of them: name -> what writes one. The engine h5netcdf opens each, and says what is
   right.
2. Imported by scripts, in a process of their own: netCDF4 has an HDF5 library of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import h5netcdf
import h5py
import netCDF4
import numpy as np

Writer = Callable[[Any], None]
FILES: dict[str, Callable[[str], None]] = {}


def _written(
    opened: Callable[[str], Any], of: dict[str, Any] = FILES
) -> Callable[[Writer], Writer]:
    def known(write: Writer) -> Writer:
        def make(path: str) -> None:
            with opened(path) as file:
                write(file)

        FILES[write.__name__] = make
        return write

    return known


def _h5py(path: str, **options: Any) -> Any:
    return h5py.File(path, "w", **options)


def _ordered(path: str) -> Any:
    return h5py.File(path, "w", track_order=True)


def _h5netcdf(path: str) -> Any:
    return h5netcdf.File(path, "w", invalid_netcdf=True)


def _netcdf(path: str) -> Any:
    return netCDF4.Dataset(path, "w")


def _classic(path: str) -> Any:
    return netCDF4.Dataset(path, "w", format="NETCDF4_CLASSIC")


def _scale(file: Any, name: str, length: int) -> Any:
    file[name] = np.arange(length, dtype="f8")
    file[name].make_scale(name)
    return file[name]


@_written(_h5py)
def attributes(file: Any) -> None:
    x = file.create_dataset("x", (3,), "f4")
    pair = np.dtype([("a", "i4"), ("b", "f8")])
    two = np.empty(2, object)
    two[:] = np.arange(2), np.arange(3)
    values: dict[str, Any] = {
        "int": 1, "float": 2.5, "f4": np.float32(1), "f2": np.float16(1), "u8": np.uint64(2**63),
        "numbers": np.arange(3), "one": np.array([4]), "one_of_one": np.array([[4, 5]]),
        "big_endian": np.array([1, 2], ">i4"), "none": np.zeros(0, "i2"),
        "bool": True, "bools": np.array([True, False]),
        "complex": 1 + 2j, "complexes": np.array([1j, 2]),
        "text": "text", "utf8": "é", "no_text": "", "texts": np.array(["a", "bb"], object),
        "one_text": np.array(["a"], object),
        "texts_2d": np.array([["ab", "c"], ["d", "e"]], object),
        "fixed": np.bytes_("fixed"), "letter": np.bytes_("c"), "no_letters": np.bytes_(""),
        "latin": np.bytes_(b"\xe9\xe8"), "padded": np.bytes_(b"ab\0\0"),
        "fixeds": np.array([b"ab", b"c"]), "letters": np.array([b"a", b"c"]),
        "fixeds_2d": np.array([[b"ab", b"c"], [b"d", b"e"]]),
        "null": h5py.Empty("f4"), "null_fixed": h5py.Empty("S5"), "null_letter": h5py.Empty("S1"),
        "null_text": h5py.Empty(h5py.string_dtype()),
        "compound": np.array((1, 2.0), pair), "compounds": np.array([(1, 2.0)], pair),
        "opaque": np.void(b"abc"), "_FillValue": np.float32(5), "missing_value": np.float32(5),
    }  # fmt: skip
    for name, value in values.items():
        x.attrs[name] = value
    enum = h5py.enum_dtype({"A": 0, "B": 1})
    x.attrs.create("enum", 1, dtype=enum)
    x.attrs.create("enums", [1, 0], dtype=enum)
    x.attrs.create("sequences", two, dtype=h5py.vlen_dtype("i4"))
    x.attrs.create("ascii", "abc", dtype=h5py.string_dtype("ascii"))
    x.attrs.create("utf8_fixed", "é".encode(), dtype=h5py.string_dtype("utf-8", 4))
    file.attrs.update(Conventions="CF-1.8", _NCProperties="version=2", title=np.bytes_("title"))


@_written(_h5py)
def phony_dimensions(file: Any) -> None:
    shapes = {
        "a": (3, 4), "b": (4, 4), "c": (3,), "s": (), "g/a": (3, 5), "g/h/z": (7, 7, 3),
        "k/a": (3,),
    }  # fmt: skip
    for name, shape in shapes.items():
        file[name] = np.zeros(shape)
    file["text"] = "text"
    file["texts"] = np.array(["a", "bb"], object)


@_written(_h5py)
def some_scales(file: Any) -> None:
    _scale(file, "x", 4)
    file["v"], file["w"], file["z"] = np.zeros((4, 4)), np.zeros(4), np.zeros((6, 6, 4))
    file["w"].dims[0].attach_scale(file["x"])
    file["g/x"], file["g/y"] = np.arange(4), np.arange(5)
    file.create_dataset("u", (6,), "f4", maxshape=(None,), chunks=(2,)).make_scale("u")


@_written(_h5py)
def types(file: Any) -> None:
    enum, letters = h5py.enum_dtype({"A": 0, "B": 1}), np.dtype([("a", "i4"), ("b", "S1", (4,))])
    named = {"enum_type": enum, "letters_type": letters, "sequence_type": h5py.vlen_dtype("i4")}
    for name, dtype in named.items():
        file[name] = dtype
    dtypes: dict[str, Any] = {
        "bool": "?", "complex64": "c8", "complex128": "c16", "i1": "i1", "u8": "u8", "big": ">f8",
        "f2": "f2", "S5": "S5", "S1": "S1", "text": h5py.string_dtype(), "opaque": "V4",
        "ascii": h5py.string_dtype("ascii"), "utf8_fixed": h5py.string_dtype("utf-8", 4),
        "other_enum": h5py.enum_dtype({"C": 0}), "compound": [("a", "i4"), ("b", "f8")],
        "of_sequences": h5py.vlen_dtype("f8"),
        **{f"of_{name}": file[name] for name in named},
    }  # fmt: skip
    scale = _scale(file, "x", 3)
    for name, dtype in dtypes.items():
        file.create_dataset(name, (3,), dtype).dims[0].attach_scale(scale)
    for name in ("of_sequence_type", "of_sequences"):
        for at in range(3):  # the engine h5netcdf wants one element in the first row
            file[name][at] = np.arange(at + 1)
    file["of_letters_type"][:] = np.array([(1, [b"a", b"b", b"", b""])] * 3, letters)
    file["text"][:] = ["a", "bb", "c"]
    file["scalar"], file["scalar_bool"] = np.bytes_("abc"), True


@_written(_h5py)
def filters(file: Any) -> None:
    import hdf5plugin

    scale = _scale(file, "x", 12)
    options: dict[str, Any] = {
        "gzip": {"compression": "gzip"}, "lzf": {"compression": "lzf"}, "chunks": {"chunks": (5,)},
        "gzip9": {"compression": "gzip", "compression_opts": 9, "shuffle": True}, "plain": {},
        "sum": {"fletcher32": True}, "szip": {"compression": "szip"}, "zstd": hdf5plugin.Zstd(),
        "bzip2": hdf5plugin.BZip2(), "lz4": hdf5plugin.LZ4(), "blosc2": hdf5plugin.Blosc2(),
        "scaled": {"scaleoffset": 4},
    }  # fmt: skip
    for name, of in options.items():
        made = file.create_dataset(name, data=np.arange(12.0), **of)
        made.dims[0].attach_scale(scale)


@_written(_netcdf)
def netcdf4(file: Any) -> None:
    for name, length in {"t": None, "x": 3, "n": 5, "alone": 4}.items():
        file.createDimension(name, length)
    time = file.createVariable("t", "f8", ("t",))
    time.units = "days since 2000-01-01"
    time[:] = np.arange(4)
    packed = file.createVariable("packed", "i2", ("t", "x"), fill_value=-9, zlib=True)
    packed.setncatts({"scale_factor": 0.5, "add_offset": 1.0, "coordinates": "latitude"})
    packed[:] = np.ones((4, 3))
    letters = file.createVariable("letters", "S1", ("x", "n"))
    letters[:] = np.array([list("abcde")] * 3, "S1")
    texts = file.createVariable("texts", str, ("x",))
    texts[:] = np.array(["a", "bb", "c"], object)
    for name, dims in {
        "latitude": ("x",),
        "unwritten": ("t", "x"),
        "n": ("x", "n"),
        "crs": (),
    }.items():
        file.createVariable(name, "f4", dims)
    enum = file.createEnumType("u1", "cloud", {"Clear": 0, "Cb": 1, "Missing": 255})
    clouds = file.createVariable("clouds", enum, ("t",), fill_value=255)
    clouds[:] = [0, 1, 1, 0]
    compound = file.createCompoundType(np.dtype([("a", "f8"), ("s", "S1", (8,))]), "station")
    stations = file.createVariable("stations", compound, ("x",))
    some = np.zeros(3, compound.dtype)
    some["s"] = list("abcdefgh")
    stations[:] = some
    sequence = file.createVLType(np.int32, "sequence")
    sequences = file.createVariable("sequences", sequence, ("x",))
    for at in range(3):
        sequences[at] = np.arange(at + 1, dtype="i4")
    file.setncatts({"title": "é", "number": np.int16(3), "numbers": np.arange(3.0)})
    file.setncattr_string("text", "text")
    file.setncattr("list", ["a", "b"])
    group = file.createGroup("g")
    group.createDimension("y", 2)
    group.createVariable("longer", "f4", ("t", "y"))[:] = np.zeros((4, 2))
    group.createVariable("x", "f4", ("x",))[:] = 1
    group.createVariable("t", "f4", ("x",))
    below = group.createGroup("h")
    below.createDimension("x", 7)
    below.createVariable("x", "f4", ("x",))
    below.createVariable("all", "f4", ("x", "y", "t"))
    below.createVariable("clouds", enum, ("y",))


@_written(_classic)
def classic(file: Any) -> None:
    file.createDimension("t", None)
    file.createDimension("x", 3)
    file.createVariable("x", "f4", ("x",))[:] = 0
    file.createVariable("v", "f4", ("t", "x")).units = "K"
    file["v"][:] = np.ones((2, 3))
    file.history = "history"


@_written(_netcdf)
def shorter_than_its_dimension(file: Any) -> None:
    file.createDimension("t", None)
    file.createDimension("x", 3)
    for length, dtype in {6: "f4", 2: "i2", 3: "u1"}.items():
        file.createVariable(dtype, dtype, ("t", "x"))[:] = np.ones((length, 3))


@_written(_h5netcdf)
def coordinates_of_two_dimensions(file: Any) -> None:
    file.dimensions = {"x": 3, "y": 4, "t": None}
    file.create_variable("x", ("x", "y"), "f4")
    file.create_variable("y", ("y",), data=np.arange(4))
    file.create_variable("v", ("x", "y"), "f4", compression="gzip")
    file.create_variable("t", ("x",), "f4")
    file.create_variable("complex", ("x",), data=np.ones(3, "c8"))
    file.create_variable("bool", ("x",), data=np.ones(3, bool))
    file.create_variable("enum", ("x",), file.create_enumtype(np.uint8, "e", {"a": 0}), fillvalue=0)
    file.create_variable("/g/h/deep", ("x",), "f4")


@_written(_ordered)
def in_order_of_creation(file: Any) -> None:
    for name in "zyxa":
        file[name] = np.arange(3)
        file[name].attrs.update({"b": 1, "a": 2})
    file.attrs.update({"z": 1, "a": 2})


@_written(_h5py)
def links(file: Any) -> None:
    scale = _scale(file, "x", 3)
    file["v"] = np.ones(3)
    file["v"].dims[0].attach_scale(scale)
    file["hard"], file["soft"], file["g/v"] = file["v"], h5py.SoftLink("/v"), file["v"]


@_written(_h5py)
def virtual(file: Any) -> None:
    file["source"] = np.arange(12.0).reshape(3, 4)
    layout = h5py.VirtualLayout((3, 4), "f8")
    layout[:] = h5py.VirtualSource(".", "source", (3, 4))
    file.create_virtual_dataset("v", layout)


@_written(_h5py)
def two_scales_of_an_axis(file: Any) -> None:
    file["v"] = np.ones(3)
    for name in ("x", "y"):
        file["v"].dims[0].attach_scale(_scale(file, name, 3))


@_written(_h5py)
def nothing_written(file: Any) -> None:
    file.create_dataset("x", (0,), "f4", maxshape=(None,), chunks=(4,)).make_scale("x")
    _scale(file, "y", 2)
    made = file.create_dataset("v", (0, 2), "f4", maxshape=(None, 2), chunks=(4, 2))
    for axis, name in enumerate("xy"):
        made.dims[axis].attach_scale(file[name])


@_written(_h5py)
def no_variables(file: Any) -> None:
    file.attrs["title"] = "empty"
