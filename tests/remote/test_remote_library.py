"""Libraries read objects of a store where the core does not decode them.

Law
---
1. The oracle is h5py or PyTables with the file itself. `test_remote_formats` reads every kind; here
   are the faults that only objects have.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import tables
from elements import smooth
from oracle import same, streamed
from stored_copies import Copies
from structures import packed_links

import multitables
from _multitables.benchmark.objects.faults import Fault
from _multitables.errors import StoreError
from _multitables.index.datasets.source import Source, open_source
from _multitables.index.types import by_library
from _multitables.parent.readers.error_report import Record, task_error
from _multitables.parent.readers.place import Place
from _multitables.reader import object_file

ROWS, CHUNK = 4000, 100
DATA = np.random.default_rng(1).integers(0, 1000, (ROWS, 256), "<i4")


@pytest.fixture
def read_by_library(h5: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """/x of 4 MB in 40 chunks, which a library shall read."""
    monkeypatch.setattr(Source, "_reason", lambda *_: "a test wants it")
    monkeypatch.setattr(Source, "_plain", lambda *_: None)
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=DATA, chunks=(CHUNK, 256))
    return h5


def test_requests_are_few(copies: Copies, read_by_library: Path) -> None:
    """In order, blocks that grow; elsewhere a block for the structures and one for the rows."""
    url = copies.put(read_by_library)
    copies.n_requests()
    rows, told = streamed(url, "/x", n_procs=1, open_options={"storage_options": copies.options})
    same(rows, DATA)
    assert told["library"]
    # Two open the file: one for its first bytes, one for an index beside it.
    assert copies.n_requests() <= 2 + 4
    with multitables.Reader(url, n_procs=1, storage_options=copies.options) as reader:
        data = reader.get_dataset("/x")
        same(reader.request(data[3000:3003]).get(), DATA[3000:3003])
        assert copies.n_requests() <= 3 + 2  # one for the state of the object
        same(reader.request(data[3003:3009]).get(), DATA[3003:3009])
        assert copies.n_requests() == 0
        assert copies.options["secret_access_key"] not in repr(data)


def test_where_and_read_sorted(copies: Copies, h5: Path) -> None:
    rows = np.zeros(500, [("a", "<i4"), ("b", "<f8")])
    rows["a"], rows["b"] = np.arange(500) * 37 % 500, np.arange(500) / 4
    with tables.open_file(str(h5), "w") as file:
        file.create_table("/", "x", obj=rows).cols.a.create_csindex()
    with multitables.Reader(copies.put(h5), n_procs=1, storage_options=copies.options) as reader:
        x = reader.get_dataset("/x")
        same(
            reader.request(x.where("(a > 9) & (b < 70)")).get(),
            rows[(rows["a"] > 9) & (rows["b"] < 70)],
        )
        same(reader.request(x.read_sorted("a")).get(), np.sort(rows, order="a"))


def test_an_object_that_is_too_large_to_copy(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_file, "MAX_COPY_BYTES", 99)
    with pytest.raises(object_file.TooLargeError) as caught:
        object_file.copy_of("s3://b/x.h5", {"client": ["", "{}"], "size": 100})
    with h5py.File(h5, "w") as file:
        file["x"] = smooth((9, 2))
    with open_source(h5, {}) as source:
        place = Place(source.index("/x"), 0, 9, None, None, None, of_request=True)
    text = f"{object_file.__name__}\0{type(caught.value).__name__}\0{caught.value}"
    error = task_error(place, Record("library", 0, 0, 0, None, 0, 0, text))
    assert isinstance(error, multitables.UnsupportedDatasetError)
    assert "expected at most 99 bytes, got 100" in str(error)
    assert "Download the file" in str(error)


def test_a_structure_that_only_libhdf5_knows(
    copies: Copies, h5: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A group whose links lie in a compressed heap. A command line has no secret."""
    with h5py.File(h5, "w", libver="latest") as file:
        group = packed_links(file)
        group.create_virtual_dataset("virtual", _shown("other.h5"))
    url, options = copies.put(h5), {"storage_options": copies.options}
    lines, ask = list[str](), by_library.asked
    monkeypatch.setattr(
        by_library, "asked", lambda *line, **told: (lines.extend(line), ask(*line, **told))[1]
    )
    same(streamed(url, "/group/x3", n_procs=1, open_options=options)[0], smooth((12, 4)))
    with multitables.open(url, **options) as opened:
        same(opened["group/x7"][2:5], smooth((12, 8))[2:5])
    assert lines
    assert not [line for line in lines if copies.options["secret_access_key"] in line]
    streamer = multitables.Streamer(url, **options)
    with pytest.raises(multitables.MissingDatasetError, match="Did you mean '/group/x19'"):
        streamer.get_queue("/group/x191")
    with pytest.raises(multitables.UnsupportedDatasetError, match=r"no other files.*other\.h5"):
        streamer.get_queue("/group/virtual")
    with pytest.raises(multitables.UnsupportedDatasetError, match="trusted=False"):
        multitables.Streamer(url, trusted=False, **options).get_queue("/group/x3")
    monkeypatch.setattr(
        by_library, "asked", lambda *line, **told: _refused(copies, ask, line, told)
    )
    with pytest.raises(StoreError, match=r"refuses.*403"):
        streamer.get_queue("/group/x3")


def _shown(filename: str) -> h5py.VirtualLayout:
    layout = h5py.VirtualLayout((5,), "<i4")
    layout[:] = h5py.VirtualSource(filename, "x", (5,), "<i4")
    return layout


def _refused(copies: Copies, ask: Any, line: Any, told: Any) -> Any:
    """Ask while the store refuses."""
    copies.proxy.set(faults=(Fault("status", 403),))
    try:
        return ask(*line, **told)
    finally:
        copies.proxy.set(faults=())


@pytest.mark.parametrize("library", ["h5py", "tables"])
@pytest.mark.parametrize(
    ("fault", "error", "told"),
    [
        (Fault("status", 403), StoreError, "refuses"),
        (Fault("status", 404), multitables.MissingFileError, "no object"),
        (Fault("status", 503), StoreError, "busy"),
        (Fault("drop"), StoreError, "reached|break off|failed"),
        (Fault("etag", '"other"'), multitables.FileChangedError, "changed"),
    ],
    ids=lambda value: getattr(value, "action", None),
)
def test_a_store_that_fails_inside_a_library(
    copies: Copies,
    read_by_library: Path,
    library: str,
    fault: Fault,
    error: type[Exception],
    told: str,
) -> None:
    if library == "tables":
        with tables.open_file(str(read_by_library), "w") as file:
            file.create_table("/", "x", obj=np.array([(1,)] * 9, [("a", "<i4")]))
    with multitables.Reader(
        copies.put(read_by_library), n_procs=1, storage_options=copies.options
    ) as reader:
        data = reader.get_dataset("/x")
        asked = data.where("a > 0") if library == "tables" else data[10:12]
        copies.proxy.set(faults=(fault,))
        with pytest.raises(error, match=told) as caught:
            reader.request(asked).get()
        assert copies.options["secret_access_key"] not in str(caught.value)
        copies.proxy.set(faults=())
        assert len(reader.request(asked).get()) in (2, 9)


def test_an_object_that_was_replaced(copies: Copies, read_by_library: Path) -> None:
    url = copies.put(read_by_library)
    with multitables.open(url, storage_options=copies.options) as file:
        same(file["x"][:3], DATA[:3])
        read_by_library.write_bytes(bytes(read_by_library.stat().st_size))
        copies.put(read_by_library)
        with pytest.raises(multitables.FileChangedError):
            file["x"][3500:3503]


def test_what_is_not_trusted(copies: Copies, read_by_library: Path) -> None:
    url = copies.put(read_by_library)
    options = {"storage_options": copies.options, "trusted": False}
    with pytest.raises(multitables.UnsupportedDatasetError, match="trusted=False"):
        multitables.Streamer(url, **options).get_queue("/x")


class Counted:
    """An object in memory, and the requests for it."""

    def __init__(self, data: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
        self.data, self.requests = data, list[tuple[int, int]]()
        monkeypatch.setattr(object_file.client, "read", self._read)
        self.access = {"client": ["", ""], "size": len(data)}

    def _read(self, _name: bytes, _access: bytes, begin: int, out: memoryview) -> None:
        self.requests.append((begin, len(out)))
        out[:] = self.data[begin : begin + len(out)]


def test_reads_of_a_file_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any range is right, and a block that was fetched lately is not fetched again."""
    rng = np.random.default_rng(5)
    n_bytes = 40 * object_file.BLOCK_BYTES + 12345
    stored = Counted(rng.bytes(n_bytes), monkeypatch)
    file = object_file.ObjectFile("s3://b/x", stored.access)
    assert file.seek(0, 2) == n_bytes
    for begin in rng.integers(0, n_bytes, 300):
        length = int(rng.choice([8, 512, 300_000, 3_000_000, 20_000_000]))
        file.seek(int(begin))
        out = bytearray(length)
        got = file.readinto(out)
        assert got == min(length, n_bytes - begin)
        assert out[:got] == stored.data[begin : begin + got]
        assert file.tell() == begin + got
    assert len(file._blocks) <= object_file.MAX_BLOCKS
    stored.requests.clear()
    for _ in range(3):
        file.seek(17)
        file.readinto(bytearray(100))
    assert len(stored.requests) <= 1
    assert max(length for _, length in stored.requests) <= object_file.BLOCK_BYTES
