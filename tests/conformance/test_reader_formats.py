"""Random access over every element type, filter, layout and shape of the fast path.

1. Three ways, one result: the core's, a library's, and NumPy on the array that h5py read.
2. Where the fast path is promised, no request goes through a library.
3. Many datasets in one file, since a Reader costs more than a request.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
import tables
from elements import FAST, smooth, values
from oracle import h5py_read, pytables_read, same
from reader_file import at, ragged
from test_formats_elements import LAYOUTS
from test_formats_filters import NAMES, PIPELINES, create
from test_formats_shapes import SHAPES

import multitables


def keys(shape: tuple[int, ...]) -> Iterator[Any]:
    """Indexes of every kind."""
    n = shape[0]
    yield slice(None, None, 3)
    yield slice(n - 1, 0, -2)
    if 0 in shape:
        return
    yield -1
    yield [n - 1, 0, n // 2, n - 1]
    yield tuple(slice(extent // 3, None, 2) for extent in shape)
    yield tuple(extent // 2 for extent in shape)
    yield (..., slice(0, 1 + shape[-1] // 2))
    yield (..., slice(None, None, -2))
    if len(shape) > 1:
        yield ([n // 2, 0], ..., slice(shape[-1] // 2, None))
    yield tuple([extent - 1, 0, extent // 2] for extent in shape)
    yield np.random.default_rng(n).random(shape) < 0.2


def compare(reader: Any, path: str, want: np.ndarray, *fields: str) -> None:
    dataset = reader.get_dataset(path)
    assert (dataset.dtype, dataset.shape) == (want.dtype, want.shape)
    for key in keys(want.shape):
        same(reader.request(dataset[key]).get(), at(want, key))
    for field in fields:
        for key in (slice(None, None, 3), [0, len(want) - 1, 0], len(want) // 2):
            same(reader.request(dataset[field][key]).get(), at(want[field], key))
            same(reader.request(dataset[key][field]).get(), at(want, key)[field])


def three_ways(path: Path, names: list[str], read: Any = h5py_read, *, native: bool = True) -> None:
    """The core's rows, a library's and NumPy's are the same; `native`: the core has them all."""
    wants = {name: read(path, name) for name in names}
    fields = {
        name: [f for f in (want.dtype.names or ()) if want.ndim == 1]
        for name, want in wants.items()
    }
    with multitables.Reader(path, n_procs=2) as reader:
        for name, want in wants.items():
            compare(reader, name, want, *fields[name])
        if native:
            assert reader.statistics()["library_requests"] == 0
    with pytest.MonkeyPatch.context() as patch:
        # As if the core read nothing at all.
        patch.setattr("_multitables.parent.random.dataset_handle.lookup_table", _none_native)
        with multitables.Reader(path, n_procs=1) as reader:
            for name, want in wants.items():
                compare(reader, name, want, *fields[name])
            statistics = reader.statistics()
            assert statistics["library_requests"] == statistics["tasks"] > 0


def _none_native(index: Any, **options: Any) -> Any:
    from dataclasses import replace

    from _multitables.plan.dataset_table import lookup_table

    return lookup_table(replace(index, layout="library", reason="a test"), **options)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_element_type(h5: Path, layout: str) -> None:
    with h5py.File(h5, "w") as file:
        for name, dtype in FAST.items():
            file.create_dataset(name, data=values(dtype, (37, 11), layout), **LAYOUTS[layout])
    three_ways(h5, [f"/{name}" for name in FAST])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_columns_of_every_element_type(h5: Path, layout: str) -> None:
    options = {**LAYOUTS[layout]}
    if options:
        options["chunks"] = (10,)
    compounds = ["compound", "nested", "padded", "backwards"]
    with h5py.File(h5, "w") as file:
        for name in compounds:
            file.create_dataset(name, data=values(FAST[name], (93,), layout), **options)
        wide = np.dtype([(f"f{i}", dtype) for i, dtype in enumerate(FAST.values())])
        file.create_dataset("wide", data=values(wide, (93,), layout), **options)
    three_ways(h5, [f"/{name}" for name in (*compounds, "wide")])


def test_filters_in_any_order(h5: Path) -> None:
    names = []
    with h5py.File(h5, "w") as file:
        for pipeline in PIPELINES:
            name = "-".join(NAMES[number] for number in pipeline)
            if name == "shuffle-shuffle":  # HDF5 skips the second in every chunk
                continue
            names.append(f"/{name}")
            create(file, (50, 20), np.dtype("<f8"), pipeline, (8, 6), name)[...] = smooth(
                (50, 20), "<f8"
            )
    three_ways(h5, names)


@pytest.mark.parametrize("plugin", ["Blosc", "Blosc2", "LZ4", "Zstd", "Bitshuffle"])
def test_filters_of_plugins(h5: Path, plugin: str) -> None:
    kinds: list[dict[str, Any]] = [{}]
    if plugin.startswith("Blosc"):
        shuffle = "shuffle" if plugin == "Blosc" else "filters"
        codecs = ["blosclz", "lz4", "lz4hc", "zlib", "zstd"]
        kinds = [{"cname": codec, shuffle: s} for codec in codecs for s in (0, 1, 2)]
    names = []
    with h5py.File(h5, "w") as file:
        for number, kind in enumerate(kinds):
            for dtype in ("<i2", "<f8", "compound"):
                names.append(f"/{number}-{dtype}")
                data = values(FAST[dtype], (300,))
                if dtype == "<f8":
                    data = np.arange(3000, dtype="<f8").reshape(300, 10)
                chunks = (64, *data.shape[1:])
                options = dict(getattr(hdf5plugin, plugin)(**kind))
                file.create_dataset(names[-1], data=data, chunks=chunks, **options)
    three_ways(h5, names)


def test_lzf(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((90, 7)), chunks=(16, 3), compression="lzf")
    three_ways(h5, ["/x"])


def test_shapes_and_chunks(h5: Path) -> None:
    names = []
    with h5py.File(h5, "w") as file:
        for number, (shape, chunks) in enumerate(SHAPES):
            made = {"plain": {"chunks": chunks}, "gzip": {"chunks": chunks, "compression": "gzip"}}
            for kind, options in {**made, "contiguous": {}}.items():
                names.append(f"/{number}-{kind}")
                file.create_dataset(names[-1], data=smooth(shape), **options)
        names.append("/hollow")
        file.create_dataset("hollow", (5, 0), "<i4", maxshape=(None, None), chunks=(2, 3))
        names.append("/empty")
        file.create_dataset("empty", (0, 3), "<i4", maxshape=(None, 3), chunks=(2, 3))
    three_ways(h5, names)


@pytest.mark.parametrize("compression", [None, "gzip"])
def test_chunks_never_stored_are_the_fill_value(h5: Path, compression: str | None) -> None:
    names = []
    with h5py.File(h5, "w") as file:
        for name in ("<i4", ">f2", "<c16", "bool", "S7", "compound", "nested"):
            dtype = FAST[name]
            fill = np.array(values(dtype, (1,), "fill")[0], dtype)
            names.append(f"/{name}")
            data = file.create_dataset(
                names[-1], (40, 12), dtype, chunks=(8, 5), compression=compression, fillvalue=fill
            )
            data[9:11, 3:5] = values(dtype, (2, 2))
            data[39] = values(dtype, (12,))
        file.create_dataset("none", (40, 12), "<i4", fillvalue=7)
    three_ways(h5, [*names, "/none"])


def test_chunks_stored_without_their_filters(h5: Path) -> None:
    """The filter mask of each chunk is honoured."""
    data = smooth((64, 4))
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=data, chunks=(8, 4), compression="gzip", shuffle=True)
        for row in (8, 40):
            made.id.write_direct_chunk((row, 0), data[row : row + 8].tobytes(), 3)
    three_ways(h5, ["/x"])


@pytest.mark.parametrize("filters", [None, "zlib", "blosc:lz4", "blosc2:zstd", "bzip2"])
def test_datasets_of_pytables(h5: Path, filters: str | None) -> None:
    chosen = None if filters is None else tables.Filters(5, filters, shuffle=True)
    if filters == "bzip2" and tables.which_lib_version(filters) is None:
        pytest.skip("this PyTables has no such filter")
    dtype = [("x", "<f4"), ("inner", [("y", "<i2", (2, 3)), ("s", "S3")]), ("b", "?")]
    rows = values(np.dtype(dtype), (200,))
    with tables.open_file(str(h5), "w") as file:
        file.create_table("/", "table", rows, filters=chosen)
        file.create_array("/", "array", smooth((60, 5)))
        file.create_carray("/", "carray", obj=smooth((60, 5, 3)), filters=chosen)
        file.create_earray("/", "earray", obj=smooth((60, 5), ">f4"), filters=chosen)
        file.create_carray("/", "bools", obj=smooth((60, 5)) % 3 == 0, filters=chosen)
    names = ["/table", "/array", "/carray", "/earray", "/bools"]
    with multitables.Reader(h5, n_procs=2) as reader:
        for name in names:
            compare(reader, name, pytables_read(h5, name).astype(_stored(h5, name)))
        numbers = reader.statistics()
        assert (numbers["library_requests"] > 0) == (filters == "bzip2")


def _stored(path: Path, name: str) -> np.dtype:
    """The dtype in the file; PyTables gives big-endian rows in the machine's order."""
    with h5py.File(path) as file:
        return file[name].dtype if name == "/earray" else pytables_read(path, name).dtype


def test_a_column_inside_a_column(h5: Path) -> None:
    dtype = np.dtype([("o", [("x", "<f4"), ("y", ">i2", (2, 3))]), ("z", "S3", (4,))])
    rows = values(dtype, (120,))
    with h5py.File(h5, "w") as file:
        file.create_dataset("t", data=rows, chunks=(16,), compression="gzip")
    with multitables.Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/t")
        for key in (slice(3, 90, 7), [5, 0, 119], 17):
            for steps in ((key, "o", "y"), ("o", key, "y"), ("o", "y", key)):
                selection, want = dataset, rows
                for step in steps:
                    selection, want = selection[step], want[step]
                same(reader.request(selection).get(), np.asarray(want))
            same(reader.request(dataset["o/x"][key]).get(), np.asarray(rows["o"]["x"][key]))
        same(reader.request(dataset["o"]["y"][5:9, 1, ::-1]).get(), rows["o"]["y"][5:9, 1, ::-1])
        same(reader.request(dataset["z"][:, 1:3]).get(), rows["z"][:, 1:3])
        assert reader.statistics()["library_requests"] == 0


def test_datasets_of_other_sources(h5: Path) -> None:
    """Virtual, external: a library reads them."""
    other = h5.with_name("other.h5")
    with h5py.File(other, "w") as file:
        file.create_dataset("d", data=smooth((30, 4)))
    layout = h5py.VirtualLayout((30, 4), "<i4")
    layout[...] = h5py.VirtualSource(str(other), "d", (30, 4))
    with h5py.File(h5, "w") as file:
        file.create_virtual_dataset("virtual", layout)
        file["link"] = h5py.ExternalLink(str(other), "/d")
        external = [(str(h5.with_name("raw.bin")), 0, 480)]
        file.create_dataset("external", data=smooth((30, 4)), external=external)
    three_ways(h5, ["/virtual", "/link", "/external"], native=False)


def test_ragged_datasets_of_h5py(h5: Path) -> None:
    want = ragged()
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("r", (len(want),), h5py.vlen_dtype(np.dtype("<i4")))
        for number, row in enumerate(want):
            made[number] = row
    with multitables.Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/r")
        for key in (slice(3, 30, 4), [5, 0, 39]):
            rows = [want[i] for i in (range(len(want))[key] if isinstance(key, slice) else key)]
            for got, row in zip(reader.request(dataset[key]).get(), rows, strict=True):
                same(got, row)
        same(reader.request(dataset[7]).get(), want[7])


def test_a_filter_that_only_turns_out_to_be_unknown(
    h5: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The core believes that it knows the filter; the library is asked then, in the same stage."""
    import _multitables._core as core

    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((64, 4)), chunks=(8, 4), scaleoffset=0)
    known = {**core.native_filters(), 6: "scaleoffset"}
    monkeypatch.setattr("_multitables._core.native_filters", lambda: known)
    with multitables.Reader(h5, n_procs=2) as reader:
        dataset = reader.get_dataset("/x")
        stage = dataset.create_stage(64)
        for key in (slice(3, 50, 7), [60, 1], 5):
            for stages in (stage, None):
                same(reader.request(dataset[key], stages).get(), at(smooth((64, 4)), key))
        assert reader.statistics()["library_requests"] == 6
