"""How a dataset is stored, and the limits that are measured by themselves.

Law
---
1. No figure is looked at beyond that it is one; what was read or copied is.
2. A sample holds the same bytes as the dataset, stored the same way.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
import tables

from _multitables.benchmark.contenders import bounds, streams
from _multitables.benchmark.contract import Source
from _multitables.benchmark.data import dataset_storage, workloads
from _multitables.benchmark.machine import environment, page_cache

ROWS = np.arange(1000 * 12, dtype="<i4").reshape(1000, 12)


def made(directory: Path, **options: Any) -> str:
    filename = str(directory / "x.h5")
    with h5py.File(filename, "w") as file:
        file.create_dataset("group/rows", data=ROWS, **options)
    return filename


# ---- how it is stored


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"chunks": (10, 12)}, ()),
        (
            {"chunks": (10, 5), "compression": "gzip", "shuffle": True, "fletcher32": True},
            ("shuffle", "deflate (zlib) 4", "fletcher32"),
        ),
        ({"chunks": (10, 12), "compression": "lzf"}, ("lzf",)),
        ({"chunks": (10, 12), **hdf5plugin.Blosc("zstd", 3)}, ("blosc (zstd 3, shuffle)",)),
        ({"chunks": (10, 12), **hdf5plugin.Blosc2("lz4", 7)}, ("blosc2 (lz4 7, shuffle)",)),
        ({"chunks": (10, 12), **hdf5plugin.Bitshuffle()}, ("bitshuffle (lz4)",)),
        ({"chunks": (10, 12), **hdf5plugin.Zstd(6)}, ("zstd 6",)),
        ({"chunks": (10, 12), "scaleoffset": 0}, ("scaleoffset",)),
    ],
)
def test_filters_are_named_in_words(tmp_path: Path, options: Any, words: tuple[str, ...]) -> None:
    found = dataset_storage.describe(made(tmp_path, **options), "/group/rows")
    assert found.filters == words
    assert found.pipeline == (", ".join(words) or "no filter")
    assert (found.rows, found.row_bytes, found.decoded_bytes) == (1000, 48, 48000)
    assert found.chunk_bytes == 10 * options["chunks"][1] * 4
    assert found.ratio == pytest.approx(48000 / found.stored_bytes)
    with open(found.filename, "rb") as raw, h5py.File(found.filename) as file:
        _, chunk = file[found.path].id.read_direct_chunk((0, 0))
        raw.seek(found.offset)
        assert raw.read(len(chunk)) == chunk


def test_the_filters_of_pytables_are_named(tmp_path: Path) -> None:
    filename = str(tmp_path / "t.h5")
    with tables.open_file(filename, "w") as file:
        for number, complib in enumerate(("blosc:lz4", "blosc2:zstd", "zlib")):
            filters = tables.Filters(5, complib, shuffle=True)
            file.create_carray("/", f"x{number}", obj=ROWS, filters=filters)
    words = [dataset_storage.describe(filename, f"/x{number}").pipeline for number in range(3)]
    assert words[0] == "blosc (lz4 5, shuffle)"
    assert words[1].startswith("blosc2 (zstd 5")
    assert words[2] == "shuffle, deflate (zlib) 5"


def test_data_without_chunks(tmp_path: Path) -> None:
    found = dataset_storage.describe(made(tmp_path))  # the only dataset needs no name
    assert (found.path, found.chunks, found.chunk_bytes, found.ratio) == ("/group/rows", (), 48, 1)
    with open(found.filename, "rb") as raw:
        raw.seek(found.offset)
        assert raw.read(ROWS.nbytes) == ROWS.tobytes()


def test_nothing_stored_has_no_ratio(tmp_path: Path) -> None:
    filename = str(tmp_path / "x.h5")
    with h5py.File(filename, "w") as file:
        file.create_dataset("x", (100, 3), "f4", chunks=(10, 3))
    found = dataset_storage.describe(filename)
    assert (found.stored_bytes, found.ratio, found.offset) == (0, 1, 0)


def test_bytes_in_other_files_are_told(tmp_path: Path) -> None:
    filename = str(tmp_path / "x.h5")
    with h5py.File(filename, "w") as file:
        file["raw"] = ROWS
        layout = h5py.VirtualLayout(ROWS.shape, ROWS.dtype)
        layout[:] = h5py.VirtualSource(filename, "raw", ROWS.shape)
        file.create_virtual_dataset("virtual", layout)
        outside = [(str(tmp_path / "outside"), 0, ROWS.nbytes)]
        file.create_dataset("external", ROWS.shape, ROWS.dtype, external=outside)
    assert not dataset_storage.describe(filename, "raw").elsewhere
    assert dataset_storage.describe(filename, "virtual").elsewhere
    assert dataset_storage.describe(filename, "external").elsewhere


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/group/columns", "there is nothing at '/group/columns' .* It holds /empty, /group/rows"),
        ("/group", "there is a group at '/group' .* It holds /empty, /group/rows"),
        ("/empty", "'/empty' .* holds no rows"),
        (None, "name one dataset of .* It holds /empty, /group/rows"),
    ],
)
def test_what_is_no_dataset_is_refused(tmp_path: Path, path: str | None, said: str) -> None:
    filename = made(tmp_path)
    with h5py.File(filename, "a") as file:
        file.create_dataset("empty", (0, 3), "f4")
    with pytest.raises(dataset_storage.NoDatasetError, match=said):
        dataset_storage.describe(filename, path)


def test_a_file_of_many_datasets_names_some(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for number in range(20):
            file[f"x{number:02}"] = 1
    with pytest.raises(dataset_storage.NoDatasetError, match=r"It holds /x00, .*/x07, \.\.\.$"):
        dataset_storage.describe(str(tmp_path / "x.h5"))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"no file .*nowhere"):
        dataset_storage.describe(str(tmp_path / "nowhere.h5"), "/x")
    (tmp_path / "text").write_text("text")
    with pytest.raises(OSError, match="cannot be opened as an HDF5 file"):
        dataset_storage.describe(str(tmp_path / "text"), "/x")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"chunks": (30, 5), "compression": "gzip", "shuffle": True, "maxshape": (None, 12)},
        {"chunks": (16, 12), **hdf5plugin.Blosc("lz4", 5)},
    ],
)
def test_a_sample_is_the_first_rows_as_they_are_stored(tmp_path: Path, options: Any) -> None:
    stored = dataset_storage.describe(made(tmp_path, **options))
    found = dataset_storage.sample(stored, str(tmp_path / "sample.h5"), 48 * 100)
    step = stored.chunks[0] if stored.chunks else 1
    assert found.rows == 100 // step * step
    assert (found.filters, found.chunks, found.dtype) == (
        stored.filters,
        stored.chunks,
        stored.dtype,
    )
    with h5py.File(found.filename) as file, h5py.File(stored.filename) as whole:
        assert np.array_equal(file[found.path][:], ROWS[: found.rows])
        if stored.chunks:
            mine, theirs = file[found.path].id, whole[stored.path].id
            assert mine.read_direct_chunk((0, 0)) == theirs.read_direct_chunk((0, 0))


def test_a_sample_keeps_the_masks_of_its_chunks(tmp_path: Path) -> None:
    filename = made(tmp_path, chunks=(10, 12), compression="gzip")
    with h5py.File(filename, "a") as file:  # one chunk that was not compressed
        file["group/rows"].id.write_direct_chunk((0, 0), ROWS[:10].tobytes(), 1)
    found = dataset_storage.sample(
        dataset_storage.describe(filename), str(tmp_path / "sample.h5"), 48 * 20
    )
    with h5py.File(found.filename) as file:
        assert file[found.path].id.read_direct_chunk((0, 0))[0] == 1
        assert np.array_equal(file[found.path][:], ROWS[:20])


# ---- the limits


def test_the_device_is_read(tiny: Source) -> None:
    if environment.in_memory(tiny.filename) or page_cache.direct_refusal(tiny.filename):
        pytest.skip("no O_DIRECT here")
    for in_flight in (1, 3):
        seconds, read_bytes = bounds.device(tiny.filename, 100, 2**20, in_flight, 0.02)
        assert read_bytes > 0
        assert seconds > 0


def test_the_page_cache_is_read_over_and_over(tiny: Source) -> None:
    for n_threads in (1, 2):
        assert bounds.page_cache(tiny.filename, n_threads, 0.02)[1] > 0


def test_memory_is_copied_in_whole_shares() -> None:
    _, copied_bytes = bounds.memory_copy(2, 0.02, size_bytes=2**16)
    assert copied_bytes > 0
    assert copied_bytes % 2**15 == 0


def test_a_block_is_handed_over(tmp_path: Path) -> None:
    assert bounds.hand_over(str(tmp_path)) > 0
    assert bounds.hand_over(str(tmp_path)) > 0  # the file is there already


def test_an_endless_stream_is_timed(tiny: Source) -> None:
    found = bounds.stream(tiny, 2, 7, {}, 0.02).more
    assert found["decoded_bytes"] > 0
    assert found["decoded_bytes"] % (7 * tiny.row_bytes) == 0
    assert found["decode_seconds"] > 0


def test_what_fails_in_a_thread_ends_all() -> None:
    ended = []

    def work(number: int, end: threading.Event) -> int:
        if number == 1:
            raise OSError("no such luck")
        ended.append(number)
        return 5

    with pytest.raises(OSError, match="no such luck"):
        bounds.together(3, work)
    assert sorted(ended) == [0, 2]


def test_threads_end_when_the_user_interrupts(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def work(_number: int, end: threading.Event) -> int:
        seen.append(end.wait(10))  # True when it was told to end
        return 0

    join = threading.Thread.join
    calls = []

    def first_join_fails(thread: threading.Thread, timeout: float | None = None) -> None:
        calls.append(thread)
        if len(calls) == 1:
            raise KeyboardInterrupt
        join(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", first_join_fails)
    with pytest.raises(KeyboardInterrupt):
        bounds.together(2, work)
    assert seen == [True, True]


def test_the_largest_cache_is_found(tmp_path: Path) -> None:
    assert environment.cache_bytes(str(tmp_path)) == 0
    for number, size in enumerate(("32K", "32K", "1M", "odd")):
        (tmp_path / f"index{number}").mkdir()
        (tmp_path / f"index{number}" / "size").write_text(f"{size}\n")
    assert environment.cache_bytes(str(tmp_path)) == 2**20


def test_the_rows_of_a_sample_stream_like_the_dataset(tmp_path: Path) -> None:
    """A sample that PyTables wrote is read natively, as its dataset is."""
    filename = str(tmp_path / "t.h5")
    workload = workloads.Workload("t", 400, 64, complib="blosc:lz4", complevel=5)
    workloads.write(workload, filename)
    stored = dataset_storage.describe(filename, workloads.PATH)
    found = dataset_storage.sample(stored, str(tmp_path / "sample.h5"), stored.decoded_bytes // 2)
    source = Source(found.filename, found.path, found.rows, found.row_bytes)
    assert streams.codec_limit(source, 1).value > 0
