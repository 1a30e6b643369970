"""Files as they come: user blocks, drivers, direct I/O, roots, several datasets at once.

1. Every way of naming the data gives the same rows.
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
from elements import FAST, smooth, values
from oracle import either, fast, h5py_read, streamed

import multitables
from _multitables import sizes


@pytest.mark.parametrize("block", [512, 4096, 1 << 16])
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_user_blocks(h5: Path, block: int, libver: str) -> None:
    with h5py.File(h5, "w", userblock_size=block, libver=libver) as file:
        file.create_dataset("contiguous", data=smooth((90, 7)))
        file.create_dataset("chunked", data=smooth((90, 7)), chunks=(10, 3))
        file.create_dataset("gzip", data=smooth((90, 7)), chunks=(10, 3), compression="gzip")
        file.create_dataset("same", data=np.zeros((90, 7), "<i4"), chunks=(10, 3))
        file.create_dataset("resizable", data=smooth((90, 7)), chunks=(10, 3), maxshape=(None, 7))
    with h5.open("r+b") as raw:
        raw.write(b"a user block of somebody else".ljust(block, b"#"))
    for name in ("contiguous", "chunked", "gzip", "same", "resizable"):
        fast(h5, f"/{name}")


def test_user_block_of_pytables(h5: Path) -> None:
    with tables.open_file(str(h5), "w", user_block_size=1024) as file:
        file.create_array("/", "array", smooth((50, 3)))
        file.create_carray("/", "carray", obj=smooth((50, 3)), filters=tables.Filters(5, "blosc"))
    fast(h5, "/array", smooth((50, 3)))
    fast(h5, "/carray", smooth((50, 3)))


@pytest.mark.parametrize("root", ["/a", "/a/", "a", "/a/b", "/"])
def test_root_uep_prefixes_paths(h5: Path, root: str) -> None:
    with h5py.File(h5, "w") as file:
        file["a/b/x"] = smooth((10, 2))
    inside = {"/a": "/b/x", "/a/": "/b/x", "a": "/b/x", "/a/b": "x", "/": "/a/b/x"}[root]
    got, _ = streamed(h5, inside, open_options={"root_uep": root})
    assert got is not None
    np.testing.assert_array_equal(got, smooth((10, 2)))


@pytest.mark.parametrize(
    "options",
    [
        {"title": "anything"},
        {"filters": tables.Filters(5, "zlib")},
        {"mode": "r"},
        {"driver": "H5FD_SEC2"},
        {"DRIVER": "H5FD_STDIO"},
        {"DRIVER": "H5FD_CORE"},
        {"never_heard_of": object()},
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
        got, _ = streamed(h5, f"/{name}", open_options=options, n_procs=1)
        assert got is not None
        np.testing.assert_array_equal(got, smooth((20, 2)))


def test_split_files(h5: Path) -> None:
    with h5py.File(h5, "w", driver="split", meta_ext=b"-m.h5", raw_ext=b"-r.h5") as file:
        file.create_dataset("x", data=smooth((40, 3)), chunks=(7, 3), compression="gzip")
    got, _ = streamed(h5, "/x", open_options={"DRIVER": "H5FD_SPLIT"})
    assert got is not None
    np.testing.assert_array_equal(got, smooth((40, 3)))


def _refuses_direct(folder: Path) -> bool:
    path = folder / "probe"
    path.write_bytes(b"x")
    try:
        os.close(os.open(path, os.O_RDONLY | os.O_DIRECT))
    except OSError:
        return True
    return False


DIRECT = {"DRIVER": "H5FD_DIRECT"}


@pytest.fixture(scope="module")
def varied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with all that direct reads can meet."""
    path = tmp_path_factory.mktemp("direct") / "varied.h5"
    if _refuses_direct(path.parent):
        pytest.skip("this file system has no direct I/O")
    noise = values(FAST["<f8"], (3000, 64))
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_dataset("contiguous", data=noise)
        file.create_dataset("odd", data=values(FAST["S7"], (50_001,)))
        file.create_dataset("chunked", data=noise, chunks=(100, 64))
        file.create_dataset("tiles", data=noise, chunks=(70, 13))
        file.create_dataset("gzip", data=smooth((3000, 64)), chunks=(100, 64), compression="gzip")
        file.create_dataset("small", data=smooth((3000,)), chunks=(7,), compression="gzip")
        holes = file.create_dataset("holes", (3000, 64), "<i4", chunks=(90, 64), fillvalue=5)
        holes[1000:1100] = 1
        file.create_dataset("compound", data=values(FAST["nested"], (3000,)), chunks=(100,))
        file.create_dataset("library", data=smooth((3000, 2)), chunks=(100, 2), scaleoffset=0)
    return path


@pytest.mark.parametrize(
    "name",
    ["contiguous", "odd", "chunked", "tiles", "gzip", "small", "holes", "compound"],
)
@pytest.mark.parametrize("n_procs", [1, 3])
def test_direct_reads(varied: Path, name: str, n_procs: int) -> None:
    fast(varied, f"/{name}", open_options=DIRECT, n_procs=n_procs)
    fast(varied, f"/{name}", open_options=DIRECT, n_procs=n_procs, read_ahead=1, block_size=77)


def test_direct_reads_of_a_cyclic_stream(varied: Path) -> None:
    want = h5py_read(varied, "/gzip")
    streamer = multitables.Streamer(varied, **DIRECT)
    with streamer.get_queue("/gzip", block_size=700, cyclic=True, n_procs=2) as queue:
        for number in range(20):
            with queue.get() as block:
                np.testing.assert_array_equal(block, want[(np.arange(700) + 700 * number) % 3000])
            del block


def test_direct_reads_of_members_side_by_side(varied: Path) -> None:
    names = ["/chunked", "/gzip", "/holes", "/library"]
    want = [h5py_read(varied, name) for name in names]
    seen = 0
    with multitables.Streamer(varied, **DIRECT).get_queue(
        names, n_procs=2, block_size=130, remainder=True
    ) as queue:
        for guard in queue:
            with guard as blocks:
                for block, rows in zip(blocks, want, strict=True):
                    assert block.tobytes() == rows[seen : seen + len(block)].tobytes()
                seen += len(blocks[0])
            del blocks, block
    assert seen == 3000


def test_direct_leaves_the_page_cache_alone(varied: Path) -> None:
    """What is promised is that readers open the file with O_DIRECT; /proc shows it."""
    from processes import first_readers

    streamer = multitables.Streamer(varied, **DIRECT)
    with streamer.get_queue("/contiguous", n_procs=1, cyclic=True) as queue:
        with queue.get():
            pass
        (reader,) = first_readers(1)
        flags = [
            int(line.split()[1], 8)
            for name in os.listdir(f"/proc/{reader}/fd")
            if os.readlink(f"/proc/{reader}/fd/{name}") == str(varied)
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
        if _refuses_direct(folder):
            with pytest.raises(multitables.OptionsError, match="O_DIRECT"):
                streamed(path, "/x", open_options=DIRECT)
        else:
            got, _ = streamed(path, "/x", open_options=DIRECT)
            assert got is not None
            np.testing.assert_array_equal(got, smooth((20, 2)))
    finally:
        path.unlink(missing_ok=True)
        (folder / "probe").unlink(missing_ok=True)


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


LABELS = ["plain", "deflated", "raw", "checked", "library", "columns", "narrow", "holes", "nothing"]


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
    with h5py.File(h5, "w") as file:
        file["x"] = smooth((20, 2))
    monkeypatch.chdir(h5.parent)
    for name in (h5, str(h5), h5.name, os.fsencode(h5), Path(h5.name)):
        either(name, "/x", smooth((20, 2)), n_procs=1)  # type: ignore[arg-type]


def test_a_file_whose_name_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"not \xff text \xe9.h5")
    with h5py.File(path, "w") as file:
        file["x"] = smooth((20, 2))
        file.create_dataset("y", data=smooth((20, 2)), chunks=(6, 2), scaleoffset=0)
    fast(path, "/x", smooth((20, 2)))
    either(path, "/y", smooth((20, 2)))


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
