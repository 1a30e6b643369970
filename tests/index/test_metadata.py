"""The core's reader of metadata against h5py, object by object.

Law
---
1. Of every structure that HDF5 has: links, types, dims, layouts, chunks, filters, fill values and
   attributes are what h5py tells. Where h5py is wrong, the reason stands beside it.
2. Bytes changed anywhere, with checksums and without: an answer or `Corrupt`, never a panic.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import structures
import tables
from h5py import h5, h5a, h5d, h5l, h5o, h5p, h5s

from _multitables import _core

UNDEFINED = 2**64 - 1
LAYOUTS = {
    h5d.COMPACT: "compact",
    h5d.CONTIGUOUS: "contiguous",
    h5d.CHUNKED: "chunked",
    h5d.VIRTUAL: "virtual",
}
KINDS = {h5o.TYPE_GROUP: "group", h5o.TYPE_DATASET: "dataset", h5o.TYPE_NAMED_DATATYPE: "datatype"}
#: Sizes of what is of variable length are those in h5py's memory.
IN_MEMORY = {"sequence", "variable_string", "reference"}
MUTATIONS = 60


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return dict(structures.written(tmp_path_factory.mktemp("structures")))


def of_pytables() -> list[Path]:
    return sorted((Path(tables.__file__).parent / "tests").glob("*.h5"))


def check_type(body: bytes, told: Any) -> bool:
    """Compare a type with h5py's; whether it is of fixed size."""
    datatype = _core.datatype(body)
    is_fixed = not datatype.has(*IN_MEMORY)
    if is_fixed:
        assert datatype == _core.datatype(told.encode()[2:])
    return is_fixed


class Walk:
    """Both ways through a file."""

    def __init__(self, path: Path) -> None:
        self.core = _core.MetadataFile(str(path))
        self.seen: set[int] = set()

    def object(self, offset: int, told: Any) -> None:
        if offset in self.seen:
            return
        self.seen.add(offset)
        kind = self.core.kind(offset)
        assert kind == KINDS[h5o.get_info(told).type]
        self.attributes(offset, told)
        if kind == "group":
            self.group(offset, told)
        elif kind == "dataset":
            self.dataset(offset, told)
        else:
            check_type(self.core.datatype(offset), told)

    def attributes(self, offset: int, told: Any) -> None:
        found = {name: rest for name, *rest in self.core.attributes(offset)}
        assert len(found) == h5a.get_num_attrs(told)
        for number in range(len(found)):
            attribute = h5a.open(told, index=number)
            _, body, dims, stored = found[attribute.name]
            space = attribute.get_space()
            is_null = space.get_simple_extent_type() == h5s.NULL
            assert dims == (None if is_null else space.shape)
            if check_type(body, attribute.get_type()) and not is_null and stored:
                kind = attribute.get_type()
                value = np.zeros(len(stored), np.uint8)
                attribute.read(value, mtype=kind)
                assert value.tobytes() == stored

    def group(self, offset: int, group: Any) -> None:
        links = {link[0]: link[2:] for link in self.core.links(offset)}
        assert sorted(links) == sorted(group)
        assert self.core.n_links(offset) == len(links)
        names, by_creation = self.core.names(offset), []
        if group.get_create_plist().get_link_creation_order() & h5p.CRT_ORDER_TRACKED:
            group.links.iterate(by_creation.append, idx_type=h5.INDEX_CRT_ORDER)
        want = by_creation or sorted(links)
        assert [one.encode() if isinstance(one, str) else one for one in names] == want
        for name, link in links.items():
            info = group.links.get_info(name)
            if info.type == h5l.TYPE_HARD:
                opened = h5o.open(group, name)
                assert link == ("hard", h5o.get_info(opened).addr)
                assert self.core.find(name, offset) == ("object", link[1])
                self.object(link[1], opened)
            elif info.type == h5l.TYPE_SOFT:
                assert link == ("soft", group.links.get_val(name))
            else:
                assert link == ("external", *group.links.get_val(name))

    def dataset(self, offset: int, told: Any) -> None:
        dataset, space = self.core.dataset(offset), told.get_space()
        assert dataset.is_null == (space.get_simple_extent_type() == h5s.NULL)
        check_type(dataset.datatype, told.get_type())
        if space.get_simple_extent_type() == h5s.SIMPLE:
            assert dataset.dims == space.shape
            most = tuple(None if dim in (-1, UNDEFINED) else dim for dim in self.most(space))
            assert dataset.max_dims == most
        plist = told.get_create_plist()
        assert dataset.layout == LAYOUTS[plist.get_layout()]
        pipeline = [plist.get_filter(number) for number in range(plist.get_nfilters())]
        assert [entry[:3] for entry in dataset.filters] == [
            (number, flags, tuple(values)) for number, flags, values, _ in pipeline
        ]
        defined = {None: 0, b"": 1}.get(dataset.fill_value, 2)
        assert defined == plist.fill_value_defined()
        assert len(dataset.external_files) == plist.get_external_count()
        if dataset.layout == "contiguous" and not dataset.external_files:
            assert dataset.byte_offset == told.get_offset()
        if dataset.layout == "chunked":
            self.chunks(offset, dataset, told)
        if dataset.layout == "virtual":
            self.mappings(dataset, plist)

    @staticmethod
    def most(space: Any) -> Any:
        return space.get_simple_extent_dims(True)

    def chunks(self, offset: int, dataset: _core.StoredDataset, told: Any) -> None:
        dims, chunk_dims = dataset.dims, told.get_create_plist().get_chunk()
        assert dataset.chunk_dims == chunk_dims
        records: list[Any] = []
        told.chunk_iter(lambda chunk: records.append(tuple(chunk)))
        grid = [-(-dim // chunk) for dim, chunk in zip(dims, chunk_dims, strict=True)]
        expected = []
        for begin, mask, address, size in records:
            place = [at // chunk for at, chunk in zip(begin, chunk_dims, strict=True)]
            if address not in (None, UNDEFINED):
                expected.append((int(np.ravel_multi_index(place, grid)), address, size, mask))
        found = [chunk[:4] for chunk in self.core.chunks(offset).tolist()]
        if h5py.h5i.get_name(told) == b"/plain edges":  # whose mask HDF5 does not tell
            assert found.pop() == (*expected.pop()[:3], 2**32 - 1)
        assert found == sorted(expected)

    def mappings(self, dataset: _core.StoredDataset, plist: Any) -> None:
        assert dataset.mappings is not None
        mappings = self.core.mappings(*dataset.mappings)
        assert len(mappings.sources) == plist.get_virtual_count()
        for number, source in enumerate(mappings.sources):
            file, name = mappings.names[source]
            assert file.decode() == plist.get_virtual_filename(number)
            assert name.decode() == plist.get_virtual_dsetname(number)
            space = plist.get_virtual_vspace(number)
            shown = mappings.shown(number, dataset.dims)
            if space.is_regular_hyperslab() and shown is not None:
                expected = np.transpose(space.get_regular_hyperslab())
                assert np.ravel(shown).tolist() == expected.ravel().tolist()


def check(path: Path) -> None:
    walk = Walk(path)
    with h5py.File(path) as file:
        walk.object(walk.core.root, h5py.h5g.open(file.id, b"/"))
        assert walk.core.user_block == file.userblock_size


def test_every_structure(files: dict[str, Path]) -> None:
    for name, path in files.items():
        try:
            check(path)
        except (AssertionError, ValueError) as error:
            raise AssertionError(name) from error


@pytest.mark.parametrize("path", of_pytables(), ids=lambda path: path.name)
def test_what_pytables_ships(path: Path) -> None:
    check(path)


def everything(core: _core.MetadataFile, offset: int, seen: set[int]) -> Iterator[None]:
    """Ask all there is to ask of an object and those below it."""
    if offset in seen:
        return
    seen.add(offset)
    yield from asked(lambda: core.attributes(offset))
    kind = yield from asked(lambda: core.kind(offset))
    if kind == "dataset":
        dataset = yield from asked(lambda: core.dataset(offset))
        if dataset and dataset.layout == "chunked":
            yield from asked(lambda: core.chunks(offset))
        if dataset and dataset.layout == "virtual":
            yield from asked(lambda: core.mappings(*dataset.mappings))
    elif kind == "group":
        for link in (yield from asked(lambda: core.links(offset))) or ():
            yield from asked(lambda name=link[0]: core.find(name, offset))
            if link[2] == "hard":
                yield from everything(core, link[3], seen)


def asked(question: Any) -> Any:
    """Answer a question, or None where the file is corrupt."""
    yield
    try:
        return question()
    except (_core.Corrupt, _core.Unknown) as error:
        assert "\n" not in str(error.args[0])  # noqa: PT017
        return None


@pytest.mark.parametrize("checks_sums", [True, False])
def test_damage_anywhere(files: dict[str, Path], checks_sums: bool) -> None:
    for name, path in files.items():
        good, rng = path.read_bytes(), random.Random(name)
        metadata = [at for at in range(0, len(good), 8) if good[at : at + 8].strip(b"\0\xff")]
        for _ in range(MUTATIONS):
            bad, size = bytearray(good), rng.choice([1, 1, 2, 4, 8])
            at = rng.choice(metadata) + rng.randrange(8)
            match rng.randrange(4):
                case 0:
                    bad[at : at + size] = rng.randbytes(size)
                case 1:
                    bad[at : at + size] = bytes([rng.choice([0, 1, 0x7F, 0x80, 0xFF])]) * size
                case 2:
                    bad[at : at + 8] = rng.randrange(len(good)).to_bytes(8, "little")
                case 3:
                    del bad[rng.randrange(len(good)) :]
            try:
                core = _core.MetadataFile.from_bytes(bytes(bad), checks_sums=checks_sums)
            except (_core.Corrupt, _core.Unknown):
                continue
            for _ in everything(core, core.root, set()):
                pass
