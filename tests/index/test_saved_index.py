"""Saved indexes against the file's own metadata and h5py.

Law
---
1. Of every structure that HDF5 has: what is saved is what the core tells of the file, and what the
   index answers is not asked of the file.
2. A file that changed, a version that is not known: no index. Damage anywhere: a warning, and the
   file's own answers. Tables that lie under correct sums: an answer or a warning, no crash.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import structures
from hypothesis import given, settings
from hypothesis import strategies as st
from index_changes import CHANGES, changed, with_tables
from saved_files import saved, small

import multitables
from _multitables import _core
from _multitables.index.chunk_index import Fingerprint, chunks_of
from _multitables.index.kerchunk.datatype_message import message
from _multitables.index.opened.open_files import open_file
from _multitables.index.saved import format as saved_index
from _multitables.index.saved import places as saved_places
from _multitables.index.saved.index_writer import IndexWriter
from _multitables.index.saved.metadata import SavedMetadata
from _multitables.index.saved.survey import SURVEYED
from _multitables.index.written import saved_index as writer

EXAMPLES = settings(max_examples=150, deadline=None)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return dict(structures.written(tmp_path_factory.mktemp("structures")))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "multitables"


def opened(path: Path) -> Any:
    """The metadata of a file, as everything opens it."""
    return open_file(str(path)).metadata


class Unasked:
    """In the place of a file that is not to be asked, but for what no index has."""

    def __init__(self, file: _core.MetadataFile) -> None:
        self.mappings, self.global_object = file.mappings, file.global_object
        self.lock, self.release, self.close = file.lock, file.release, file.close


def plain(answer: Any) -> Any:
    """Chunks in a form that can be compared; links by name."""
    if isinstance(answer, np.ndarray):
        return answer.dtype, answer.tolist()
    return sorted(answer, key=lambda link: str(link[0])) if isinstance(answer, list) else answer


def answers(metadata: Any, ask: Callable[..., Any]) -> Iterator[Any]:
    """All that there is to ask of a file, object by object."""
    seen, next_ones = {metadata.root}, [metadata.root]
    while next_ones:
        offset = next_ones.pop()
        kind = ask(metadata.kind, offset)
        yield offset, kind
        yield ask(metadata.attributes, offset)
        if kind == "group":
            yield ask(metadata.n_links, offset), list(ask(metadata.names, offset) or ())
            for link in ask(metadata.links, offset) or ():
                yield link
                yield ask(metadata.find, link[0], offset)
                if link[2] == "hard" and link[3] not in seen:
                    seen.add(link[3])
                    next_ones.append(link[3])
        if kind in ("dataset", "datatype"):
            yield ask(metadata.datatype, offset)
        if kind == "dataset":
            dataset = ask(metadata.dataset, offset)
            yield dataset
            if dataset and dataset.layout == "chunked":
                yield ask(metadata.chunks, offset)


def asked_or_corrupt(question: Callable[..., Any], *of: Any) -> Any:
    try:
        return plain(question(*of))
    except (_core.Corrupt, _core.Unknown):
        return None


def asked(question: Callable[..., Any], *of: Any) -> Any:
    return plain(question(*of))


def test_every_structure(files: dict[str, Path]) -> None:
    for name, path in files.items():
        saved(path)
        index, file = opened(path), _core.MetadataFile(str(path))
        assert isinstance(index, SavedMetadata), name
        assert index.root == file.root
        if not name.startswith(("many_attributes", "attributes")):  # some are too large
            index.file = Unasked(file)  # type: ignore[assignment]
        assert list(answers(index, asked)) == list(answers(file, asked)), name


def test_shapes_types_and_chunks_are_those_of_h5py(files: dict[str, Path]) -> None:
    path = files["layouts latest"]
    saved(path)
    index = opened(path)
    index.file = Unasked(index.file)
    with h5py.File(path) as file:

        def check(name: str, told: Any) -> None:
            kind, offset = index.find(name.encode())
            assert (kind, offset) == ("object", h5py.h5o.get_info(told.id).addr)
            if not isinstance(told, h5py.Dataset):
                return
            dataset = index.dataset(offset)
            assert (dataset.dims, dataset.max_dims) == (told.shape, told.maxshape)
            if told.chunks and name != "plain edges":
                assert dataset.chunk_dims == told.chunks
                records: list[Any] = []
                told.id.chunk_iter(lambda chunk: records.append((chunk[2], *chunk[1:2], chunk[3])))
                found = index.chunks(offset)[["byte_offset", "filter_mask", "stored_size"]]
                assert sorted(found.tolist()) == sorted(records)

        file.visititems(check)


def test_paths(files: dict[str, Path]) -> None:
    path = files["links v110"]
    saved(path)
    index, file = opened(path), _core.MetadataFile(str(path))
    index.file = Unasked(file)
    for name in (
        b"", b"/", b".", b"a/b/c", b"//a/./b/", b"soft/c", b"soft/cycle/b/c", b"gone", b"gone/x",
        b"external", b"external/x/y", b"type/x", b"a/none", b"none", "h\xe9/b".encode(),
    ):  # fmt: skip
        assert index.find(name) == file.find(name), name
        inside = file.find(b"a")[1]
        assert index.find(name, inside) == file.find(name, inside), name


def test_links_in_a_circle(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["a"], file["b"] = h5py.SoftLink("/b"), h5py.SoftLink("/a")
    saved(h5)
    assert opened(h5).find(b"a") == ("too_many_links",)


def test_other_objects_are_asked_of_the_file(h5: Path) -> None:
    """Those that no link leads to, and questions that do not fit an object."""
    with h5py.File(h5, "w") as file:
        file["x"] = np.arange(3)
        file.create_group("g")
        offset, group = (h5py.h5o.get_info(file[name].id).addr for name in "xg")
    saved(h5)
    index, own = opened(h5), _core.MetadataFile(str(h5))
    for question in (
        "kind",
        "links",
        "names",
        "n_links",
        "dataset",
        "chunks",
        "datatype",
        "attributes",
    ):
        for place in (offset, group, offset + 1, 2**63, index.root):
            told = []
            for metadata in (index, own):
                try:
                    told.append(plain(getattr(metadata, question)(place)))
                except (_core.Corrupt, _core.Unknown) as error:
                    told.append(error.args)
            assert told[0] == told[1], question


def test_damage_in_the_file_is_told_by_the_file(h5: Path) -> None:
    with h5py.File(h5, "w", libver="latest") as file:
        file["good"], file["bad"] = np.arange(3), np.arange(4)
        offset = h5py.h5o.get_info(file["bad"].id).addr
    content = bytearray(h5.read_bytes())
    content[offset + 20] ^= 0xFF
    h5.write_bytes(content)
    saved(h5)
    index = opened(h5)
    assert index.dataset(index.find(b"good")[1]).dims == (3,)
    with pytest.raises(_core.Corrupt):
        index.dataset(index.find(b"bad")[1])


@pytest.mark.parametrize("change", ["time", "size", "inode"])
def test_an_index_of_a_file_that_changed_is_not_used(h5: Path, change: str) -> None:
    small(h5)
    saved(h5)
    assert isinstance(opened(h5), SavedMetadata)
    before = h5.stat()
    if change == "time":
        os.utime(h5, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    elif change == "size":
        with h5.open("ab") as file:
            file.write(b"x")
        os.utime(h5, ns=(before.st_atime_ns, before.st_mtime_ns))
    else:
        copy = h5.with_name("copy")
        copy.write_bytes(h5.read_bytes())
        os.replace(copy, h5)
        os.utime(h5, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert isinstance(opened(h5), _core.MetadataFile)


def test_another_device_is_no_change(h5: Path) -> None:
    small(h5)
    place = saved(h5)
    fingerprint = Fingerprint.of(h5.stat())
    elsewhere = Fingerprint(
        fingerprint.device + 1, fingerprint.inode, fingerprint.size_bytes, fingerprint.mtime_ns
    )
    assert saved_index.read(str(place), elsewhere) is not None


def test_times_before_1970(h5: Path) -> None:
    small(h5)
    os.utime(h5, ns=(-5, -5))
    saved(h5)
    assert isinstance(opened(h5), SavedMetadata)


def test_a_later_version_is_not_used(h5: Path) -> None:
    small(h5)
    place = saved(h5)
    content = bytearray(place.read_bytes())
    content[8] += 1
    place.write_bytes(content)
    assert isinstance(opened(h5), _core.MetadataFile)


@pytest.mark.parametrize("content", [b"", b"\x89HDF\r\n\x1a\n" + bytes(500), b"{}" * 300])
def test_another_kind_of_file_is_not_used(h5: Path, content: bytes) -> None:
    small(h5)
    Path(f"{h5}.mtidx").write_bytes(content)
    with pytest.warns(
        multitables.SavedIndexWarning, match=r"mtidx' cannot be used: (expected|it ends)"
    ):
        assert isinstance(opened(h5), _core.MetadataFile)


def test_a_folder_in_its_place_is_not_used(h5: Path) -> None:
    small(h5)
    Path(f"{h5}.mtidx").mkdir()
    with pytest.warns(multitables.SavedIndexWarning, match="Is a directory"):
        assert isinstance(opened(h5), _core.MetadataFile)


def test_nothing_is_left_of_an_index_that_was_not_finished(h5: Path) -> None:
    small(h5)
    place = saved(h5)
    before = place.read_bytes()

    def failing(by: Callable[[], object]) -> None:
        with saved_index.replaced(str(place)) as out:
            writer.save(open_file(str(h5), uses_index=False), out, lambda more: by())

    with pytest.raises(ZeroDivisionError):
        failing(lambda: 1 / 0)
    with pytest.raises(multitables.FileChangedError, match="changed while it was read"):
        failing(lambda: os.utime(h5))
    assert place.read_bytes() == before
    assert sorted(os.listdir(h5.parent)) == [h5.name, place.name]


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("one") / "small.h5"
    small(path)
    return path


@EXAMPLES
@given(changes=st.lists(CHANGES, min_size=1, max_size=3))
def test_damage_anywhere(one: Path, changes: list[Any]) -> None:
    place = saved(one)
    good = bad = place.read_bytes()
    for change in changes:
        bad = changed(bad, change)
    place.write_bytes(bad)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        told = list(answers(opened(one), asked))
    assert told == list(answers(_core.MetadataFile(str(one)), asked))
    assert {warning.category for warning in caught} <= {multitables.SavedIndexWarning}
    says_its_version = len(bad) >= 16 and bad[:8] == good[:8]  # the rest is for that version
    is_other_version = says_its_version and bad[8:12] != good[8:12]
    assert bool(caught) == (bad != good and not is_other_version)


@EXAMPLES
@given(changes=st.lists(CHANGES, min_size=1, max_size=3))
def test_tables_that_lie(one: Path, changes: list[Any]) -> None:
    """Sums are correct, as another program can make them."""
    place = saved(one)
    place.write_bytes(with_tables(place.read_bytes(), changes))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in answers(opened(one), asked_or_corrupt):
            pass
    assert {warning.category for warning in caught} <= {multitables.SavedIndexWarning}


def test_many_datasets(h5: Path) -> None:
    with h5py.File(h5, "w", libver="latest") as file:
        for number in range(10_000):
            file.create_dataset(f"x{number}", (number % 7,), "f4")
    saved(h5)
    index = opened(h5)
    index.file = Unasked(index.file)
    links = index.links(index.root)
    dims = {link[0]: index.dataset(link[3]).dims for link in links}
    assert dims == {b"x%d" % number: (number % 7,) for number in range(10_000)}
    assert index.find(b"x777") == ("object", {link[0]: link[3] for link in links}[b"x777"])


def test_many_searches_in_one_group(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        for number in range(300):
            file.create_group(f"g{number}")
    saved(h5)
    index, file = opened(h5), _core.MetadataFile(str(h5))
    for number in range(310):
        name = b"g%d" % number
        assert index.find(name) == file.find(name)
        assert index.link(index.root, name) == file.link(file.root, name)


def test_a_million_chunks_are_read_as_they_are(h5: Path) -> None:
    place = h5.with_suffix(".mtidx")
    n, of = 1 << 20, Fingerprint(1, 2, 1 << 26, 4)
    table = chunks_of(np.arange(n), np.arange(n) * 64, 0)
    told = {name: np.zeros(0) for name in SURVEYED}
    told |= {name: np.zeros(1) for name in ("common", "rank", "n_scales")}
    with saved_index.replaced(str(place)) as file:
        writer = IndexWriter(file)
        place_of = writer.chunks(table)
        storage = [2, message(np.dtype("u1")).decode("latin-1"), 1, [1], [], None, False, []]
        own = {"space": writer.value([False, [n], [n]]), "storage": writer.value(storage)}
        writer.add(8, "dataset", place=place_of, **own)
        writer.end_file(told)
        writer.finish(np.zeros(0, np.uint8), of, 8)
    index = saved_index.read(str(place), of)
    assert index is not None
    np.testing.assert_array_equal(index.chunks(8), table)


def test_all_that_opens_files_uses_the_index(h5: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(h5)
    assert multitables.index_file(h5, progress=False) == f"{h5}.mtidx"

    def indexed_only(filename: str, fingerprint: Fingerprint, file: _core.MetadataFile) -> Any:
        index: Any = saved_places.with_saved_index(filename, fingerprint, file)
        index.file = Unasked(file)
        return index

    monkeypatch.setattr("_multitables.index.opened.open_files.with_saved_index", indexed_only)
    with multitables.Streamer(h5).get_queue("/soft/chunks", n_procs=1, remainder=True) as queue:
        rows = []
        for guard in queue:
            with guard as block:
                rows += block.tolist()
    assert rows == list(range(100))
    with multitables.Reader(h5, n_procs=1) as reader:
        assert reader.request(reader.get_dataset("/g/contiguous")[[3, 5]]).get().tolist() == [3, 5]
    with multitables.open(h5) as handle:
        assert handle["soft/chunks"][5:8].tolist() == [5, 6, 7]
        assert handle["g"].attrs["numbers"].tolist() == [0, 1, 2, 3]


def test_where_nothing_can_be_written_beside_the_file(tmp_path: Path, cache: Path) -> None:
    path = tmp_path / f"{'x' * 245}.h5"  # a longer name is not possible
    small(path)
    place = Path(multitables.index_file(path, progress=False))
    assert (place.parent, place.suffix) == (cache, ".mtidx")
    assert isinstance(opened(path), SavedMetadata)
    assert os.listdir(tmp_path) == [path.name, "cache"] or os.listdir(tmp_path) == [
        "cache",
        path.name,
    ]


def test_the_cache(h5: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small(h5)
    place = Path(multitables.index_file(h5, "cache", progress=False))
    assert place.parent == cache
    link = h5.with_name("link.h5")
    link.symlink_to(h5)
    assert isinstance(opened(link), SavedMetadata)
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(h5.parent / "home"))
    assert isinstance(opened(h5), _core.MetadataFile)
    place = Path(multitables.index_file(h5, "cache", progress=False))
    assert place.parent == h5.parent / "home" / ".cache" / "multitables"
    h5.parent.joinpath("file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(h5.parent / "file"))
    with pytest.raises(
        multitables.FileOpenError, match=r"cannot be written anywhere: .*File exists|Not a dir"
    ):
        multitables.index_file(h5, "cache", progress=False)


def test_the_bar(h5: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small(h5)
    multitables.index_file(h5)
    assert "data.h5: 6 objects" in capsys.readouterr().err


def test_what_is_no_file_or_no_place(h5: Path) -> None:
    with pytest.raises(multitables.MissingFileError):
        multitables.index_file(h5)
    small(h5)
    with pytest.raises(multitables.OptionsError, match=r"to must be None, 'cache' or a name .*'x'"):
        multitables.index_file(h5, "x")


def test_an_index_is_written_anew(h5: Path) -> None:
    small(h5)
    place = saved(h5)
    place.write_bytes(b"damaged")
    saved(h5)
    assert isinstance(opened(h5), SavedMetadata)
