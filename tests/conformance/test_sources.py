"""Files as they come: names, drivers, direct I/O, roots, several datasets at once.

1. Every way of naming the data gives the same rows; how it is stored is the table's to say (see
   `test_formats`).
2. Direct I/O is tested wherever the file system of the test's files allows it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
from datasets_of_files import create, prepared, write
from elements import smooth
from oracle import h5py_read, same, streamed
from processes import first_readers

import multitables
from _multitables import sizes
from _multitables.index.files.device import refuses_direct


@pytest.mark.parametrize("root", ["/a", "/a/", "a", "/a/b", "/"])
def test_root_uep_prefixes_paths(h5: Path, root: str) -> None:
    with h5py.File(h5, "w") as file:
        file["a/b/x"] = smooth((10, 2))
    inside = {"/a": "/b/x", "/a/": "/b/x", "a": "/b/x", "/a/b": "x", "/": "/a/b/x"}[root]
    same(streamed(h5, inside, open_options={"root_uep": root})[0], smooth((10, 2)))


@pytest.mark.parametrize(
    "options",
    [
        {"title": "anything"},
        {"filters": tables.Filters(5, "zlib")},
        {"mode": "r"},
        {"driver": "H5FD_SEC2"},
        {"DRIVER": "H5FD_STDIO"},
        {"DRIVER": "H5FD_CORE"},
        {"NODE_CACHE_SLOTS": 3},
        {"DRIVER": None},
    ],
    ids=str,
)
def test_open_options_that_do_not_change_the_data(h5: Path, options: dict[str, Any]) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((20, 2)), chunks=(6, 2), scaleoffset=0)
        file.create_dataset("y", data=smooth((20, 2)))
    # The library opens the file with them as well.
    for name in ("x", "y") if "DRIVER" in map(str.upper, options) else ("y",):
        same(streamed(h5, f"/{name}", open_options=options, n_procs=1)[0], smooth((20, 2)))


def test_split_files(h5: Path) -> None:
    with h5py.File(h5, "w", driver="split", meta_ext=b"-m.h5", raw_ext=b"-r.h5") as file:
        file.create_dataset("x", data=smooth((40, 3)), chunks=(7, 3), compression="gzip")
    same(streamed(h5, "/x", open_options={"DRIVER": "H5FD_SPLIT"})[0], smooth((40, 3)))


DIRECT = {"DRIVER": "H5FD_DIRECT"}


def test_direct_leaves_the_page_cache_alone(h5: Path) -> None:
    """What is promised is that readers open the file with O_DIRECT; /proc shows it."""
    with h5py.File(h5, "w") as file:
        file["x"] = smooth((3000, 64))
    if refuses_direct(os.fspath(h5)):
        pytest.skip("this file system has no direct I/O")
    streamer = multitables.Streamer(h5, **DIRECT)
    with streamer.get_queue("/x", n_procs=1, cyclic=True) as queue:
        with queue.get():
            pass
        (reader,) = first_readers(1)
        flags = [
            int(line.split()[1], 8)
            for name in os.listdir(f"/proc/{reader}/fd")
            if os.readlink(f"/proc/{reader}/fd/{name}") == str(h5)
            for line in Path(f"/proc/{reader}/fdinfo/{name}").read_text().splitlines()
            if line.startswith("flags:")
        ]
    assert flags
    assert all(flag & os.O_DIRECT for flag in flags)


def test_direct_where_the_file_system_has_none() -> None:
    """/dev/shm may or may not: either an error that says so, or the data."""
    folder = Path("/dev/shm")
    if not os.access(folder, os.W_OK):
        pytest.skip("no /dev/shm here")
    path = folder / f"multitables-test-{os.getpid()}.h5"
    try:
        with h5py.File(path, "w") as file:
            file["x"] = smooth((20, 2))
        if refuses_direct(os.fspath(path)):
            with pytest.raises(multitables.OptionsError, match="O_DIRECT"):
                streamed(path, "/x", open_options=DIRECT)
        else:
            same(streamed(path, "/x", open_options=DIRECT)[0], smooth((20, 2)))
    finally:
        path.unlink(missing_ok=True)


CONTAINERS: dict[str, Any] = {
    "list": ["/rows", "/labels"],
    "tuple": ("/rows", "/labels", "/raw"),
    "dict": {"x": "/rows", "y": "/labels"},
    "odd keys": {1: "/labels", ("a", 2): "/rows"},
    "twice": ["/rows", "/rows"],
    "one": ["/labels"],
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("block_size", [1, 77, 10_000])
def test_several_paths_in_lock_step(numbered: Path, container: str, block_size: int) -> None:
    paths = CONTAINERS[container]
    keys = list(paths) if isinstance(paths, dict) else range(len(paths))
    want = {key: h5py_read(numbered, paths[key]) for key in keys}
    seen = count = 0
    limit = 40 if block_size == 1 else None
    with multitables.Streamer(numbered).get_queue(
        paths, block_size=block_size, n_procs=2, remainder=True
    ) as queue:
        for guard in queue:
            with guard as blocks:
                assert type(blocks) is (dict if isinstance(paths, dict) else tuple)
                assert list(blocks if isinstance(paths, dict) else range(len(blocks))) == list(keys)
                lengths = {len(blocks[key]) for key in keys}
                assert len(lengths) == 1
                for key in keys:
                    part = want[key][seen : seen + len(blocks[key])]
                    assert blocks[key].dtype == part.dtype
                    np.testing.assert_array_equal(blocks[key], part)
                seen += lengths.pop()
            del blocks
            count += 1
            if count == limit:
                return
    assert seen == 6000


@pytest.fixture(scope="module")
def images_and_labels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of 64 KiB in short chunks, beside rows of some bytes in long ones."""
    path = tmp_path_factory.mktemp("sources") / "labels.h5"
    n_rows = 150
    long = np.dtype([("name", "S6"), ("x", "<f4"), ("y", ">i2", (3,))])
    columns = np.zeros(n_rows, long)
    columns["name"], columns["x"] = [b"%d" % row for row in range(n_rows)], np.arange(n_rows)
    with h5py.File(path, "w") as file:
        file["images"] = np.arange(n_rows, dtype="<i4").repeat(1 << 14).reshape(n_rows, -1)
        file["plain"] = np.arange(n_rows)
        write(
            create(file, "compact", np.dtype("<f4"), (n_rows,), *prepared("compact", ())),
            np.arange(n_rows, dtype="<f4"),
        )
        kinds: dict[str, Any] = {
            "deflated": {"compression": "gzip", "shuffle": True},
            "raw": {},
            "checked": {"fletcher32": True},
            "library": {"scaleoffset": 0},
        }
        for name, kind in kinds.items():
            file.create_dataset(name, data=np.arange(n_rows) * 3, chunks=(120,), **kind)
        file.create_dataset("columns", data=columns, chunks=(100,), compression="lzf")
        cut = {"shape": (n_rows, 6), "dtype": "<f8", "chunks": (70, 4), "fillvalue": 1.5}
        file.create_dataset("narrow", **cut)[:] = np.arange(n_rows * 6).reshape(-1, 6)
        file.create_dataset("holes", **cut)[75:80, :5] = 7
        file.create_dataset("nothing", **cut)
    return path


LABELS = [
    "compact",
    "plain",
    "deflated",
    "raw",
    "checked",
    "library",
    "columns",
    "narrow",
    "holes",
    "nothing",
]


@pytest.mark.parametrize(
    "open_options", [{}, {"DRIVER": "H5FD_DIRECT"}], ids=["buffered", "direct"]
)
@pytest.mark.parametrize("labels", [*([name] for name in LABELS), LABELS], ids="-".join)
def test_long_chunks_beside_short_ones(
    images_and_labels: Path, labels: list[str], open_options: dict[str, Any]
) -> None:
    """They are cut, and the ring is as small as for the images alone."""
    paths = ["images", *labels]
    want = [h5py_read(images_and_labels, path) for path in paths]
    streamer = multitables.Streamer(images_and_labels, **open_options)
    with streamer.get_queue(paths, n_procs=2, block_size=7, cyclic=True) as queue:
        told = queue.statistics()
        for at in range(0, 300, 7):
            with queue.get() as blocks:
                rows = np.arange(at, at + 7) % 150
                for block, whole in zip(blocks, want, strict=True):
                    assert block.dtype == whole.dtype
                    np.testing.assert_array_equal(block, whole[rows])
            del blocks, block
    if not open_options:
        assert told["ring_rows"] <= sizes.RING_BYTES // np.dtype("<i4").itemsize // (1 << 14)
        assert told["tasks"] >= 35 + 10 * len(labels)
    with streamer.get_batches(paths, 7, n_procs=2) as batches:
        for at, batch in zip(range(0, 150, 7), batches, strict=True):
            for block, whole in zip(batch, want, strict=True):
                np.testing.assert_array_equal(block, whole[at : at + 7])
            del batch, block
    tail = streamer.get_remainder(paths, 101)
    for block, whole in zip(tail, want, strict=True):
        np.testing.assert_array_equal(block, whole[101:])


@pytest.mark.parametrize("names", ["xx", "yy", "xy", "xz", "zyx"])
def test_inner_dims_of_extent_zero_beside_others(h5: Path, names: str) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", (50, 0), "<i4", maxshape=(None, None), chunks=(2, 3))
        file.create_dataset("y", (50, 0, 2), "<f8")
        file.create_dataset("z", data=smooth((50, 3)), chunks=(20, 2))
    streamer = multitables.Streamer(h5)
    with h5py.File(h5) as file:
        wanted = [file[name][:] for name in names]
    with streamer.get_queue(list(names), n_procs=2, block_size=20, remainder=True) as queue:
        for at, guard in enumerate(queue):
            with guard as block:
                for got, want in zip(block, wanted, strict=True):
                    np.testing.assert_array_equal(got, want[20 * at : 20 * at + 20])
        assert at == 2
    for shuffle in (None, "chunks", "window", "full"):
        with streamer.get_batches(list(names), 20, n_procs=2, shuffle=shuffle) as batches:
            rows = batches.order()
            for at, batch in enumerate(batches):
                for got, want in zip(batch, wanted, strict=True):
                    np.testing.assert_array_equal(got, want[rows[20 * at : 20 * at + 20]])
            assert at == 2


@pytest.mark.parametrize("container", CONTAINERS)
def test_several_paths_by_the_generator_and_the_remainder(numbered: Path, container: str) -> None:
    paths = CONTAINERS[container]
    keys = list(paths) if isinstance(paths, dict) else range(len(paths))
    want = {key: h5py_read(numbered, paths[key]) for key in keys}
    streamer = multitables.Streamer(numbered)
    rows = streamer.get_generator(paths, n_procs=1, block_size=1000)
    for at in range(3):
        row = next(rows)
        assert type(row) is (dict if isinstance(paths, dict) else tuple)
        assert len(row) == len(want)
        for key in keys:
            np.testing.assert_array_equal(row[key], want[key][at])
    rows.close()
    tail = streamer.get_remainder(paths, 4000)
    assert type(tail) is (dict if isinstance(paths, dict) else tuple)
    for key in keys:
        np.testing.assert_array_equal(tail[key], want[key][4000:])
        assert tail[key].flags.owndata or tail[key].base is None
    nothing = streamer.get_remainder(paths, 6000)
    assert all(len(nothing[key]) == 0 for key in keys)
    assert all(nothing[key].shape[1:] == want[key].shape[1:] for key in keys)


def test_a_file_named_in_several_ways(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = h5.with_name(os.fsdecode(b"not \xff text \xe9.h5"))
    for path in (h5, odd):
        with h5py.File(path, "w") as file:
            file["x"] = smooth((20, 2))
            file.create_dataset("y", data=smooth((20, 2)), chunks=(6, 2), scaleoffset=0)
    monkeypatch.chdir(h5.parent)
    for name in (h5, str(h5), h5.name, os.fsencode(h5), Path(h5.name), odd):
        for dataset in ("/x", "/y"):
            same(streamed(name, dataset, n_procs=1)[0], smooth((20, 2)))  # type: ignore[arg-type]


def test_a_file_that_pytables_holds_open(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["x"] = smooth((20, 2))
        file.create_dataset("y", data=smooth((20, 2)), chunks=(6, 2), scaleoffset=0)
    with tables.open_file(str(h5), "r"):
        for dataset in ("/x", "/y"):
            same(streamed(h5, dataset, n_procs=1)[0], smooth((20, 2)))


def test_a_file_that_moves_away_while_it_is_open(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A relative name means what it meant when the stream began."""
    with h5py.File(h5, "w") as file:
        file["x"] = smooth((20, 2))
    monkeypatch.chdir(h5.parent)
    with multitables.Streamer(h5.name).get_queue("/x", n_procs=1, remainder=True) as queue:
        monkeypatch.chdir("/")
        with queue.get() as block:
            np.testing.assert_array_equal(block, smooth((20, 2))[: len(block)])
        del block


@pytest.mark.usefixtures("few_filters")
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


def test_a_compact_dataset_of_a_file_that_changed(h5: Path) -> None:
    """Its rows travel with the plan; the file is looked at as for any other dataset."""
    with h5py.File(h5, "w") as file:
        write(create(file, "x", np.dtype("<i8"), (40,), *prepared("compact", ())), np.arange(40))
    with multitables.Reader(h5, n_procs=1) as reader:
        dataset = reader.get_dataset("/x")
        with open(h5, "ab") as file:
            file.write(b"more")
        with pytest.raises(multitables.FileChangedError):
            reader.request(dataset[3]).get()
