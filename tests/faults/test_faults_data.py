"""Faults x entry points: damaged chunks and files that change under the readers.

1. Every fault is met through the queue, the generator and the remainder.
2. The message has the data's address; what came before the damage is right; nothing is left.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from elements import smooth, values
from payload import CHUNK, ROWS, check, write
from processes import children, readers, run_script

import multitables

N = 400
STEP = 20
BAD = 380  # in the last chunk, so that the remainder meets it as well


def by_queue(path: Path, n_procs: int = 2) -> Iterator[np.ndarray]:
    with multitables.Streamer(path).get_queue("/x", n_procs, remainder=True) as stream:
        for guard in stream:
            with guard as block:
                yield block.copy()
            del block, guard


def by_one_reader(path: Path, n_procs: int = 1) -> Iterator[np.ndarray]:
    with multitables.Streamer(path).get_queue(
        "/x", n_procs, block_size=7, remainder=True
    ) as stream:
        for guard in stream:
            with guard as block:
                yield block.copy()
            del block, guard


def by_threads(path: Path) -> Iterator[np.ndarray]:
    """With a ring that does not hold all."""
    options = {"block_size": 7, "read_ahead": 2, "remainder": True}
    with multitables.Streamer(path).get_queue("/x", 0, **options) as stream:
        for guard in stream:
            with guard as block:
                yield block.copy()
            del block, guard


def by_generator(path: Path) -> Iterator[np.ndarray]:
    for row in multitables.Streamer(path).get_generator("/x", n_procs=2):
        yield row[None]


def by_remainder(path: Path) -> Iterator[np.ndarray]:
    yield multitables.Streamer(path).get_remainder("/x", 150)


def by_direct(path: Path) -> Iterator[np.ndarray]:
    streamer = multitables.Streamer(path, DRIVER="H5FD_DIRECT")
    with streamer.get_queue("/x", n_procs=2, remainder=True) as stream:
        for guard in stream:
            with guard as block:
                yield block.copy()
            del block, guard


def by_batches(path: Path) -> Iterator[np.ndarray]:
    with multitables.Streamer(path).get_batches("/x", 11, n_procs=2) as batches:
        for batch in batches:
            yield batch.copy()
            del batch


ENTRIES: dict[str, Callable[[Path], Iterator[np.ndarray]]] = {
    "queue": by_queue,
    "batches": by_batches,
    "one reader": by_one_reader,
    "generator": by_generator,
    "remainder": by_remainder,
    "direct": by_direct,
    "this thread": partial(by_queue, n_procs=0),
    "threads": by_threads,
}


@dataclass(frozen=True)
class Fault:
    """How a dataset is stored, what is done to its last chunk, and what is said of it."""

    options: dict[str, Any]
    damage: Callable[[bytearray], bytes]
    says: str
    mask: int = 0


def flipped(stored: bytearray) -> bytes:
    stored[len(stored) // 2] ^= 0xFF
    return bytes(stored)


def flipped_at(at: int) -> Callable[[bytearray], bytes]:
    def damage(stored: bytearray) -> bytes:
        stored[at] ^= 0xFF
        return bytes(stored)

    return damage


FLETCHER: dict[str, Any] = {"fletcher32": True}
GZIP: dict[str, Any] = {"compression": "gzip"}
FAULTS = {
    "checksum": Fault(FLETCHER, flipped, "fletcher32 does not match"),
    "checksum itself": Fault(FLETCHER, flipped_at(-1), "fletcher32 does not match"),
    "checksum cut off": Fault(FLETCHER, lambda stored: bytes(stored[:2]), "fletcher32"),
    "checksum of gzip": Fault({**FLETCHER, **GZIP}, flipped, "fletcher32 does not match"),
    "gzip header": Fault(GZIP, flipped_at(0), "deflate"),
    "gzip cut short": Fault(GZIP, lambda stored: bytes(stored[: len(stored) // 2]), "deflate"),
    "gzip of nothing": Fault(GZIP, lambda _: b"x", "deflate"),
    "gzip of too little": Fault(GZIP, lambda _: _deflated(STEP * 4 * 5 - 1), "size"),
    "gzip of too much": Fault(GZIP, lambda _: _deflated(STEP * 4 * 5 + 1), "deflate"),
    "gzip bomb": Fault(GZIP, lambda _: _deflated(50_000_000), "deflate"),
    "mask of all": Fault(GZIP, lambda stored: bytes(stored) + b"x", "size", mask=1),
    "blosc flags": Fault(hdf5plugin.Blosc(), flipped_at(2), "blosc"),
    "blosc sizes": Fault(hdf5plugin.Blosc(), flipped_at(4), "blosc"),
    "blosc cut short": Fault(hdf5plugin.Blosc(), lambda s: bytes(s[: len(s) - 9]), "blosc"),
    "blosc of nothing": Fault(hdf5plugin.Blosc(), lambda _: b"\2\1", "blosc"),
    "blosc2 header": Fault(hdf5plugin.Blosc2(), flipped_at(2), "blosc2"),
    "blosc2 cut short": Fault(hdf5plugin.Blosc2(), lambda s: bytes(s[: len(s) // 2]), "blosc2"),
    "lzf": Fault({"compression": "lzf"}, lambda _: b"\x1fshort", "lzf"),
    "zstd": Fault(hdf5plugin.Zstd(), flipped_at(0), "zstd"),
    "lz4": Fault(hdf5plugin.LZ4(), flipped_at(6), "lz4"),
    "bitshuffle": Fault(hdf5plugin.Bitshuffle(), flipped_at(0), "bitshuffle"),
}


def _deflated(size: int) -> bytes:
    import zlib

    return zlib.compress(bytes(size))


def damaged(path: Path, fault: Fault) -> Path:
    """A dataset of which the last chunk is damaged."""
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=smooth((N, 5)), chunks=(STEP, 5), **fault.options)
    with h5py.File(path, "r+") as file:  # again, so that no cached chunk is written over it
        made = file["x"]
        _, stored = made.id.read_direct_chunk((BAD, 0))
        broken = fault.damage(bytearray(stored))
        made.id.write_direct_chunk((BAD, 0), broken, filter_mask=fault.mask)
    return path


#: One fault for each kind of record that a reader leaves; the queue meets every fault.
KINDS = ("checksum", "gzip cut short", "gzip of too little", "mask of all", "blosc sizes", "lzf")
TABLE = [(name, entry) for name in FAULTS for entry in ENTRIES if name in KINDS or entry == "queue"]


@pytest.mark.parametrize(("name", "entry"), TABLE)
def test_damaged_chunks(h5: Path, name: str, entry: str) -> None:
    fault = FAULTS[name]
    damaged(h5, fault)
    good: list[np.ndarray] = []

    def read() -> None:
        for block in ENTRIES[entry](h5):
            good.append(block)  # noqa: PERF402 - what came before the error is kept

    with pytest.raises(multitables.CorruptChunkError) as caught:
        read()
    error = caught.value
    assert isinstance(error, OSError)
    assert isinstance(error, multitables.SubprocessException)
    text = str(error)
    assert fault.says in text
    assert "'/x'" in text
    assert repr(str(h5)) in text
    assert f"chunk ({BAD}, 0)" in text
    assert f"Rows {BAD}:{N} were not delivered" in text
    assert "Copy the file again" in text
    assert "get_batches(rows=mask)" in text
    with h5py.File(h5, "r") as file:
        place = file["x"].id.get_chunk_info(N // STEP - 1)
    begin, end = place.byte_offset, place.byte_offset + place.size
    assert f"file bytes {begin}:{end}" in text
    assert (error.path, error.filename) == ("/x", str(h5))
    assert error.chunk_offset == (BAD, 0)
    assert error.byte_range == (begin, end)
    assert error.rows == (BAD, N)
    assert children() == {}
    if good:
        rows = np.concatenate(good)
        np.testing.assert_array_equal(rows, smooth((N, 5))[: len(rows)])
    if entry in ("queue", "direct"):
        assert sum(map(len, good)) >= BAD - STEP * 12  # what lies in other tasks was delivered
    if entry == "remainder":
        assert not good


@pytest.mark.parametrize("entry", ["one reader", "direct", "this thread", "threads"])
def test_a_format_from_the_future(h5: Path, entry: str) -> None:
    """A version that the core does not know is asked of the library, whose refusal is told."""
    damaged(h5, Fault(hdf5plugin.Blosc(), flipped_at(0), ""))

    def read() -> None:
        for _ in ENTRIES[entry](h5):
            pass

    with pytest.raises(multitables.SubprocessException, match="'/x'") as caught:
        read()
    assert isinstance(caught.value, OSError)
    assert f":{N} were not delivered" in str(caught.value)
    assert children() == {}


def test_an_error_is_raised_again_at_every_later_call(h5: Path) -> None:
    damaged(h5, FAULTS["gzip header"])
    stream = multitables.Streamer(h5).get_queue("/x", n_procs=2, cyclic=True)

    def drain() -> None:
        for guard in stream:
            with guard:
                pass

    with pytest.raises(multitables.CorruptChunkError) as first:
        drain()
    assert children() == {}
    for call in (stream.get, stream.get_nowait, lambda: stream.get(timeout=5), drain):
        with pytest.raises(multitables.CorruptChunkError) as again:
            call()
        assert str(again.value) == str(first.value)
    stream.close()


def test_an_error_reaches_every_thread(h5: Path) -> None:
    import threading

    damaged(h5, FAULTS["checksum"])
    stream = multitables.Streamer(h5).get_queue("/x", n_procs=2)
    errors: list[str] = []

    def consume() -> None:
        try:
            for guard in stream:
                with guard:
                    pass
        except multitables.CorruptChunkError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=consume) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(50)
    assert len(errors) == 5
    assert len(set(errors)) == 1
    assert children() == {}


def test_what_waits_for_a_damaged_chunk_beside_it_is_not_lost(h5: Path) -> None:
    """Chunks with little of each row are copied together, those before the damaged one too."""
    data = smooth((N, 8))
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=data, chunks=(50, 2), compression="gzip")
        made.id.write_direct_chunk((200, 4), b"no deflate")
    for read in (by_queue, by_one_reader, by_generator):
        rows = read(h5)
        found = [next(rows)]
        with pytest.raises(multitables.CorruptChunkError, match=r"chunk \(200, 4\)"):
            found.extend(rows)
        got = np.concatenate(found)
        assert 200 - 7 < len(got) <= 200
        np.testing.assert_array_equal(got, data[: len(got)])


def test_a_damaged_chunk_that_is_not_wanted_harms_nobody(h5: Path) -> None:
    """The tail is left out, and the damage with it."""
    damaged(h5, FAULTS["checksum"])
    with multitables.Streamer(h5).get_queue("/x", n_procs=2, block_size=BAD) as stream:
        with stream.get() as block:
            np.testing.assert_array_equal(block, smooth((N, 5))[:BAD])
        del block
        assert stream.get() is multitables.QueueClosed


def test_random_damage_is_an_error_or_the_librarys_bytes(h5: Path) -> None:
    """With a checksum, no damaged byte passes for data."""
    data = values(np.dtype("<i4"), (N, 5))
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=data, chunks=(STEP, 5), **GZIP, **FLETCHER)
        place = made.id.get_chunk_info(7)
    good = h5.read_bytes()
    rng = np.random.default_rng(3)
    for _ in range(40):
        raw = bytearray(good)
        at = place.byte_offset + int(rng.integers(place.size))
        raw[at] ^= 1 << int(rng.integers(8))
        h5.write_bytes(raw)
        with pytest.raises(multitables.CorruptChunkError, match=r"chunk \(140, 0\)"):
            list(by_one_reader(h5))


# ---- files that change under the readers


def changed(path: Path, change: Callable[[Path], None], n_procs: int, direct: bool) -> Any:
    """Streams, changes the file in the middle, streams on."""
    options = {"DRIVER": "H5FD_DIRECT"} if direct else {}
    streamer = multitables.Streamer(path, **options)
    at = 0
    with streamer.get_queue("/rows", n_procs, read_ahead=1, cyclic=True) as stream:
        with stream.get() as block:
            at = check(block, 0)
        del block
        change(path)
        while True:
            with stream.get() as block:
                at = check(block, at % ROWS)
            del block


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def rewrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(path.stat().st_size // 2)
        file.write(b"\0" * 100)


def empty(path: Path) -> None:
    os.truncate(path, 0)


@pytest.mark.parametrize("change", [truncate, append, rewrite, empty])
@pytest.mark.parametrize(("n_procs", "direct"), [(2, False), (2, True), (0, False), (0, True)])
def test_a_file_that_changes_under_the_readers(
    tmp_path: Path, change: Callable[[Path], None], n_procs: int, direct: bool
) -> None:
    """No row of a changed file is delivered; `check` proves the rows before."""
    path = write(tmp_path / "rows.h5")
    size = path.stat().st_size
    with pytest.raises(multitables.FileChangedError) as caught:
        changed(path, change, n_procs, direct)
    error = caught.value
    assert isinstance(error, OSError)
    assert repr(str(path)) in str(error)
    assert "changed after it was indexed" in str(error)
    assert "Finish writing" in str(error)
    assert error.expected == size
    if error.got == size:
        # Linux stamps the time of a write before it grows the file.
        assert change in (append, rewrite)
        assert f"its time of change or its inode; {size} bytes as before" in str(error)
    else:
        assert error.got == path.stat().st_size
        assert f"{size} -> {error.got} bytes" in str(error)
    assert children() == {}


def test_a_file_that_is_deleted_goes_on(tmp_path: Path) -> None:
    """Readers have it open: deleting a name takes no data away."""
    path = write(tmp_path / "rows.h5")
    with multitables.Streamer(path).get_queue("/rows", n_procs=1, block_size=CHUNK) as stream:
        with stream.get() as block:
            at = check(block, 0)
        del block
        path.unlink()
        for guard in stream:
            with guard as block:
                at = check(block, at)
            del block, guard
    assert at == ROWS


def test_a_file_replaced_before_a_reader_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Indexed is one file, opened another of the same name and size: an error, not its bytes."""
    from _multitables.parent import start_blocks as module

    path = write(tmp_path / "rows.h5")
    twin = shutil.copy(path, tmp_path / "twin.h5")
    original = module.plan_batches

    def plan_and_replace(*arguments: Any, **options: Any) -> Any:
        os.replace(twin, path)
        return original(*arguments, **options)

    monkeypatch.setattr(module, "plan_batches", plan_and_replace)
    with (
        pytest.raises(multitables.FileChangedError, match="changed after it was indexed"),
        multitables.Streamer(path).get_queue("/rows", n_procs=2) as stream,
    ):
        stream.get()
    assert children() == {}


def test_a_file_deleted_before_a_reader_opens_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from _multitables.parent import start_blocks as module

    path = write(tmp_path / "rows.h5")
    original = module.plan_batches

    def plan_and_delete(*arguments: Any, **options: Any) -> Any:
        path.unlink()
        return original(*arguments, **options)

    monkeypatch.setattr(module, "plan_batches", plan_and_delete)
    with multitables.Streamer(path).get_queue("/rows", n_procs=2, block_size=CHUNK) as stream:
        at = 0
        for guard in stream:
            with guard as block:
                at = check(block, at)
            del block, guard
    assert at == ROWS


def test_a_file_that_grows_can_be_streamed_again(tmp_path: Path) -> None:
    """The advice works: finish writing, then open a new stream."""
    path = tmp_path / "grow.h5"
    with multitables.Streamer(path) as streamer:
        for count in (30, 60, 90):
            with h5py.File(path, "a") as file:
                if "x" not in file:
                    file.create_dataset("x", (0,), "<i4", maxshape=(None,), chunks=(7,))
                file["x"].resize((count,))
                file["x"][:] = np.arange(count)
            rows = list(streamer.get_generator("/x", n_procs=1))
            np.testing.assert_array_equal(rows, np.arange(count))
            assert len(readers()) == 1


def test_no_memory_for_the_ring(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses: a clear error in the parent, and no reader is left."""
    from _multitables import _core

    class Refusing:
        def __init__(self, *_: object) -> None:
            raise OSError(28, "No space left on device")

    streamer = multitables.Streamer(numbered)
    monkeypatch.setattr(_core, "Ring", Refusing)
    for call in (
        lambda: streamer.get_queue("/rows", n_procs=2),
        lambda: streamer.get_generator("/rows", n_procs=2),
        lambda: streamer.get_remainder("/rows", 999),
    ):
        with pytest.raises(multitables.SharedMemoryError, match="No space left") as caught:
            call()
        assert isinstance(caught.value, MemoryError)
        assert "bytes" in str(caught.value)
        assert "block_size" in str(caught.value)
        assert children() == {}


def test_no_address_space_for_the_ring(numbered: Path) -> None:
    """The same with a real limit, in a process of its own; a smaller ring is still to be had."""
    source = """
import os, resource, sys
import multitables
streamer = multitables.Streamer(sys.argv[1])
with streamer.get_queue('/rows', n_procs=1) as stream:  # libraries are loaded by now
    stream.get()
with open('/proc/self/statm') as pages:
    used = int(pages.read().split()[0]) * resource.getpagesize()
_, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20), hard))
try:
    streamer.get_queue('/rows', n_procs=1, block_size=50_000, cyclic=True, read_ahead=1)
except multitables.SharedMemoryError as error:
    assert 'block_size' in str(error), error
    print('refused')
with open(f'/proc/self/task/{os.getpid()}/children') as listed:
    print('readers', listed.read().split())
resource.setrlimit(resource.RLIMIT_AS, (hard, hard))
print(sum(1 for _ in streamer.get_generator('/rows', n_procs=1)))
"""
    done = run_script(source, numbered)
    assert done.stdout == f"refused\nreaders []\n{ROWS}\n", done.stderr
