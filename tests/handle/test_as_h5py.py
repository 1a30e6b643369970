"""The rest of h5py's face: what files, groups and datasets say, and what only h5py does.

Law
---
1. h5py is the oracle, for values and errors.
2. Each of h5py's methods that write is refused in one sentence that says what to write with.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables
from _multitables.parent.open.read_only import ATTRIBUTES, DATASET, GROUP


@pytest.fixture(params=[("earliest", 0), ("latest", 1024)], ids=["oldest", "newest, user block"])
def path(request: pytest.FixtureRequest, h5: Path) -> Path:
    libver, block = request.param
    with h5py.File(h5, "w", libver=libver, userblock_size=block) as file:
        file.create_dataset("gzip", data=np.arange(20), chunks=(6,), compression="gzip")
        grown = file.create_dataset("grown", (20, 20), "<i4", chunks=(6, 7), maxshape=(None, None))
        grown[8:, 10:] = 1
        file.create_dataset("one chunk", data=np.arange(4), chunks=(4,))
        file.create_dataset("no chunk", (50,), "<i4", chunks=(7,))
        file["plain"], file["scalar"], file["group/x"] = np.arange(5), 5, [1]
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_layout(h5py.h5d.COMPACT)
        space = h5py.h5s.create_simple((4,))
        h5py.h5d.create(file.id, b"compact", h5py.h5t.STD_I32LE, space, plist)
        layout = h5py.VirtualLayout((20, 4), "<i8")
        layout[3:9, 1] = h5py.VirtualSource("other.h5", "y", (20,))[4:10]
        layout[::4, 2:4] = h5py.VirtualSource(".", "gzip", (10,))[:10]
        file.create_virtual_dataset("virtual", layout)
        layout = h5py.VirtualLayout((9, 20), "<i8")
        for row in range(4):
            layout[row] = h5py.VirtualSource("gzip.h5", f"x{row}", (20,))
        layout[4:] = h5py.VirtualSource("other.h5", "y", (5, 20))
        file.create_virtual_dataset("whole", layout)
        for name, key in (("one", np.s_[2:9:3]), ("all", np.s_[...])):
            file.attrs[f"gzip {name}"] = file["gzip"].regionref[key]
        for name, key in (("box", np.s_[2:4, [1, 5]]), ("points", np.s_[:2, :2]), ("all", ...)):
            file.attrs[f"grown {name}"] = file["grown"].regionref[key]
    return h5


def both(path: Path, ask: Callable[[Any], Any]) -> tuple[Any, Any]:
    """What ours and theirs answer, or `FAILED`."""
    answers = []
    for opened in (multitables.open, h5py.File):
        with opened(path) as file:
            try:
                answers.append(ask(file))
            except (ValueError, RuntimeError, OSError, MemoryError, OverflowError):
                answers.append("failed")
    return answers[0], answers[1]


ASKED: dict[str, Callable[[Any], Any]] = {
    "chunks": lambda one: one.id.get_num_chunks(),
    "each": lambda one: [tuple(one.id.get_chunk_info(n)) for n in range(one.id.get_num_chunks())],
    "beyond": lambda one: one.id.get_chunk_info(100),
    "at": lambda one: [
        (info.chunk_offset, info.byte_offset, info.size, info.filter_mask if info.size else 0)
        for n in range(25)
        for info in [one.id.get_chunk_info_by_coord((n,) * one.ndim)]
    ],
    "bytes": lambda one: one.id.get_storage_size(),
    "rank": lambda one: (one.id.rank, one.id.shape, one.id.dtype, bool(one.id.valid)),
    "stored": lambda one: [
        one.id.read_direct_chunk(one.id.get_chunk_info(n).chunk_offset)
        for n in range(one.id.get_num_chunks())
    ],
    "in the middle": lambda one: one.id.read_direct_chunk((1,) * one.ndim),
    "shown": lambda one: [
        (
            shown.file_name, shown.dset_name, shown.vspace.shape, shown.vspace.get_select_bounds(),
            shown.vspace.get_select_npoints(), shown.vspace.get_regular_hyperslab(),
        )
        for shown in one.virtual_sources()
    ],
    "sources": lambda one: [  # of all of a source, h5py fails
        (shown.src_space.get_select_bounds(), shown.src_space.get_select_npoints())
        for shown in one.virtual_sources() if one.name != "/whole"
    ],
    "refreshed": lambda one: (one.refresh(), one.flush()),
}  # fmt: skip
NAMES = ("gzip", "grown", "one chunk", "no chunk", "plain", "scalar", "compact", "virtual", "whole")


@pytest.mark.parametrize("name", NAMES)
def test_how_datasets_are_stored(path: Path, name: str) -> None:
    for what, ask in ASKED.items():
        ours, theirs = both(path, lambda file, ask=ask: ask(file[name]))
        assert ours == theirs, what
    if name not in ("virtual", "whole"):
        ours, theirs = both(path, lambda file: file[name].id.get_offset())
        assert ours == theirs


def test_iterations_over_chunks(path: Path) -> None:
    def ask(file: Any) -> Any:
        found: list[Any] = []
        for name in ("gzip", "grown", "no chunk"):
            file[name].id.chunk_iter(lambda info: found.append(tuple(info)))
        return found, file["gzip"].id.chunk_iter(lambda info: info.size)

    ours, theirs = both(path, ask)
    assert ours == theirs


def test_stored_bytes_in_memory_that_is_there(path: Path) -> None:
    def ask(file: Any) -> Any:
        mask, view = file["gzip"].id.read_direct_chunk((6,), out=bytearray(50))
        return mask, bytes(view)

    ours, theirs = both(path, ask)
    assert ours == theirs
    small = both(path, lambda file: file["gzip"].id.read_direct_chunk((6,), out=bytearray(3)))
    assert small == ("failed", "failed")


def test_regions(path: Path) -> None:
    def ask(file: Any) -> Any:
        return [
            (name, file["gzip"].regionref.shape(value), file["gzip"].regionref.selection(value))
            for name, value in file.attrs.items()
        ]

    ours, theirs = both(path, ask)
    assert ours == theirs
    assert len(ours) == 5
    with multitables.open(path) as file, pytest.raises(multitables.ReadOnlyError):
        file["gzip"].regionref[1:2]


def test_what_there_is_already(path: Path) -> None:
    with multitables.open(path) as ours, h5py.File(path) as theirs:
        assert ours.require_group("group") == ours["group"]
        for shape, dtype, exact in (
            ((20,), "i8", False), (20, "i8", True), ((20,), "i4", False), ((20,), "i4", True),
            ((21,), "i8", False), ((20,), "f8", False),
        ):  # fmt: skip
            found = []
            for file in (ours, theirs):
                try:
                    found.append(file.require_dataset("gzip", shape, dtype, exact=exact).name)
                except TypeError:
                    found.append("failed")
            assert found[0] == found[1], (shape, dtype, exact)
        with pytest.raises(TypeError, match="already exists"):
            ours.require_group("gzip")
        with pytest.raises(TypeError, match="already exists"):
            ours.require_dataset("group", (), "i4")
        assert ours.flush() is None
        assert ours.libver[0] == theirs.libver[0] == "earliest"


def test_files(path: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("text")
    (tmp_path / "part").write_bytes(path.read_bytes()[:1500])
    (tmp_path / "empty").touch()
    for name in ("text", "part", "empty", "missing", ".", path.name):
        assert multitables.is_hdf5(tmp_path / name) == h5py.is_hdf5(str(tmp_path / name)), name
    with pytest.raises(ValueError, match="NUL"):  # h5py's is a ValueError, too
        multitables.is_hdf5("a\0b")
    assert multitables.is_hdf5(path)
    assert multitables.is_hdf5(str(path).encode())
    with pytest.raises(multitables.OptionsError, match="a file object"):
        multitables.is_hdf5(io.BytesIO(b""))  # type: ignore[arg-type]


def test_options_of_h5py(path: Path) -> None:
    with multitables.open(path, "r", libver="latest", track_order=True) as file:
        assert file.mode == "r"
    for mode in ("w", "a", "r+", "w-", "x"):
        with pytest.raises(multitables.ReadOnlyError, match=r"only reads\. Write with h5py or"):
            multitables.open(path, mode)


CALLS: dict[str, Callable[[Any], Any]] = {
    "element": lambda file: file["gzip"].__setitem__(0, 1),
    "name": lambda file: file.__setitem__("x", 1),
    "deletion": lambda file: file.__delitem__("gzip"),
    "attribute": lambda file: file.attrs.__setitem__("x", 1),
    "attribute's deletion": lambda file: file["gzip"].attrs.__delitem__("x"),
    "new dataset": lambda file: file.create_dataset("x", data=[1]),
    "new group": lambda file: file["group"].require_group("y"),
    "required": lambda file: file.require_dataset("x", (2,), "i4"),
    "extent": lambda file: file["gzip"].resize((30,)),
    "label": lambda file: setattr(file["gzip"].dims[0], "label", "x"),
    "scale": lambda file: file["gzip"].dims[0].attach_scale(file["gzip"]),
    "stored bytes": lambda file: file["gzip"].id.write_direct_chunk((0,), b""),
    "straight": lambda file: file["gzip"].write_direct(np.zeros(20)),
}


@pytest.mark.parametrize("name", CALLS)
def test_what_writes(path: Path, name: str) -> None:
    before = path.read_bytes()
    with multitables.open(path) as file, pytest.raises(multitables.ReadOnlyError) as caught:
        CALLS[name](file)
    text = str(caught.value)
    assert "multitables only reads. Write with h5py or PyTables, while" in text
    assert isinstance(caught.value, OSError)  # as h5py's of elements and attributes
    assert isinstance(caught.value, ValueError)  # as h5py's of groups
    assert path.read_bytes() == before


def test_all_names_of_h5py_are_there(path: Path) -> None:
    left_out = {"id", "in_memory", "meta_block_size", "get_id", "regionref"}
    with multitables.open(path) as file, h5py.File(path) as theirs:
        for ours, other, writing in (
            (file, theirs, GROUP), (file["gzip"], theirs["gzip"], DATASET),
            (file.attrs, theirs.attrs, ATTRIBUTES), (file["group"], theirs["group"], GROUP),
        ):  # fmt: skip
            public = {name for name in dir(other) if not name.startswith("_")}
            assert public - set(dir(ours)) <= left_out
            for name in writing:
                is_read = isinstance(getattr(type(ours), name), property)
                with pytest.raises(multitables.ReadOnlyError):
                    setattr(ours, name, 1) if is_read else getattr(ours, name)(1, 2)
