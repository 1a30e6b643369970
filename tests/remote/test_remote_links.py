"""Files that name other files, some of them or all in a store.

Law
---
1. The oracle is h5py with the files side by side on this machine, or the rows that were written.
2. What HDF5 looks for beside a file lies beside the object. Names in an object may be those of
   others; tests/index/test_reach.py has files of this machine, which name none.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import smooth
from oracle import h5py_read, same, streamed
from stored_copies import Copies

import multitables
from _multitables.benchmark.objects.faults import Fault
from _multitables.errors import StoreError
from _multitables.index.files.device import refuses_direct

PARTS = 3
FILTERS = {"compression": "gzip", "shuffle": True}


def part(folder: Path, number: int) -> Path:
    """A file with rows of its own, in chunks."""
    path = folder / f"part{number}.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=smooth((40, 6)) + number, chunks=(10, 6), **FILTERS)
        file["plain"] = smooth((40, 6)) - number
    return path


def shown(path: Path, names: list[str], source: str = "x") -> Path:
    """A virtual dataset of whole parts, one behind the other; and rows of its own, in /own."""
    layout = h5py.VirtualLayout((40 * len(names), 6), "<i4")
    for number, name in enumerate(names):
        layout[40 * number : 40 * number + 40] = h5py.VirtualSource(name, source, (40, 6), "<i4")
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("v", layout, fillvalue=-7)
        file.create_dataset("own", data=smooth((40 * len(names), 2)), chunks=(7, 2))
    return path


@pytest.fixture
def opened(copies: Copies) -> dict[str, Any]:
    return {"storage_options": copies.options}


def read_everywhere(url: str, dataset: str, wanted: np.ndarray, opened: dict[str, Any]) -> None:
    same(streamed(url, dataset, open_options=opened)[0], wanted)  # type: ignore[arg-type]
    with multitables.Reader(url, n_procs=1, **opened) as reader:
        same(reader.request(reader.get_dataset(dataset)[3:-3:5]).get(), wanted[3:-3:5])
    with multitables.open(url, **opened) as file:
        same(file[dataset][1:], wanted[1:])


def test_external_links(copies: Copies, tmp_path: Path, opened: dict[str, Any]) -> None:
    """Relative, absolute (then beside it), and by the name of an object."""
    (tmp_path / "deep").mkdir()
    other = part(tmp_path / "deep", 1)
    beside = part(tmp_path, 2)
    path = tmp_path / "main.h5"
    with h5py.File(path, "w") as file:
        file["relative"] = h5py.ExternalLink("deep/part1.h5", "/x")
        file["absolute"] = h5py.ExternalLink(str(beside), "/x")
        file["named"] = h5py.ExternalLink(copies.url("folder/deep/part1.h5"), "/x")
        file["nowhere"] = h5py.ExternalLink("part9.h5", "/x")
    url = copies.put_beside(path)
    for name, of in {"relative": other, "absolute": beside, "named": other}.items():
        read_everywhere(url, name, h5py_read(of, "/x"), opened)
    with pytest.raises(multitables.MissingDatasetError, match=r"leads nowhere.*part9\.h5"):
        multitables.Streamer(url, **opened).get_queue("nowhere")


@pytest.mark.parametrize("prefix", ["", "/"])
def test_an_object_names_no_file_of_this_machine(
    copies: Copies,
    tmp_path: Path,
    opened: dict[str, Any],
    prefix: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor below a prefix of HDF5's, which is for files of this machine."""
    monkeypatch.setenv("HDF5_EXT_PREFIX", prefix and str(tmp_path))
    path = tmp_path / "main.h5"
    with h5py.File(path, "w") as file:
        file["x"] = h5py.ExternalLink(str(part(tmp_path, 0)), "/x")
    url = copies.put(path, "alone/main.h5")
    with pytest.raises(multitables.MissingDatasetError, match="leads nowhere"):
        multitables.Streamer(url, **opened).get_queue("x")


@pytest.mark.parametrize("source", ["x", "plain"])
def test_virtual_datasets(
    copies: Copies, tmp_path: Path, opened: dict[str, Any], source: str
) -> None:
    """A virtual dataset shows objects beside it; one is missing."""
    for number in range(PARTS):
        part(tmp_path, number)
    path = shown(tmp_path / "main.h5", [f"part{n}.h5" for n in (0, 1, 9, 2)], source)
    wanted = h5py_read(path, "/v")
    assert (wanted[80:120] == -7).all()
    read_everywhere(copies.put_beside(path), "v", wanted, opened)


def test_sources_in_two_folders(copies: Copies, tmp_path: Path, opened: dict[str, Any]) -> None:
    """One by a URL, and one beside the object."""
    names = [copies.put(part(tmp_path, 0), "away/zero.h5"), "part1.h5"]
    path = shown(tmp_path / "main.h5", names)
    part(tmp_path, 1)
    wanted = np.concatenate([smooth((40, 6)), smooth((40, 6)) + 1])
    name = copies.put_beside(path)
    read_everywhere(name, "v", wanted, opened)
    with pytest.raises(multitables.LinkRefusedError, match=r"zero\.h5.*not in the folder"):
        multitables.Streamer(name, trusted=False, **opened).get_queue("v")
    streamer = multitables.Streamer(name, **opened)
    with streamer.get_batches({"v": "v", "own": "own"}, 9, shuffle="window", n_procs=2) as made:
        order = made.order()
        seen = 0
        for batch in made:
            rows = order[seen : seen + len(batch["v"])]
            same(batch["v"], wanted[rows])
            same(batch["own"], smooth((80, 2))[rows])
            seen += len(rows)
            del batch
        assert seen == len(order)


def test_several_files_some_of_them_stored(
    copies: Copies, tmp_path: Path, opened: dict[str, Any]
) -> None:
    files = [part(tmp_path, number) for number in range(PARTS)]
    names: Any = [str(files[0]), copies.put(files[1]), str(files[2])]
    wanted = np.concatenate([h5py_read(file, "/x") for file in files])
    direct = {} if refuses_direct(str(files[0])) else {"DRIVER": "H5FD_DIRECT"}
    for options in ({}, direct):
        for order in (names, names[1:] + names[:1]):
            rows, told = streamed(order, "/x", open_options={**opened, **options})
            same(rows, np.roll(wanted, 0 if order is names else -40, axis=0))
            assert not told["library"]
    batches = multitables.Streamer(names, rotational=True, **opened).get_batches(
        "x", 16, shuffle="full"
    )
    with batches:
        order = batches.order()
        same(np.concatenate([batch.copy() for batch in batches]), wanted[order])


def test_raw_files(copies: Copies, tmp_path: Path, opened: dict[str, Any]) -> None:
    """Beside the object; of an absolute name, the last part."""
    data = smooth((40, 5))
    (tmp_path / "first.bin").write_bytes(b"skip" + data[:20].tobytes())
    (tmp_path / "second.bin").write_bytes(data[20:].tobytes())
    path, half = tmp_path / "main.h5", data.nbytes // 2
    url = copies.url("folder/main.h5")
    with h5py.File(path, "w") as file:
        for name, first, second in (
            ("relative", "first.bin", "second.bin"),
            ("absolute", str(tmp_path / "first.bin"), str(tmp_path / "second.bin")),
            ("named", *(copies.url(f"folder/{name}.bin") for name in ("first", "second"))),
            ("short", "first.bin", "first.bin"),
            ("missing", "first.bin", "none.bin"),
        ):
            external = [(first, 4, half), (second, 0, half + 99 * (name == "short"))]
            file.create_dataset(name, (40 + (name == "short"), 5), "<i4", external=external)
    copies.put_beside(path)
    for name in ("relative", "absolute", "named"):
        read_everywhere(url, name, data, opened)
    streamer = multitables.Streamer(url, **opened)
    for name in ("short", "missing"):
        with (
            streamer.get_queue(name, n_procs=1, remainder=True) as queue,
            pytest.raises(multitables.UnsupportedDatasetError, match=r"no other files.*first\.bin"),
        ):
            queue.get()
    copies.proxy.set(faults=(Fault("status", 403, path="second"),))
    with pytest.raises(StoreError, match=r"refuses.*second\.bin"):
        streamer.get_queue("relative")


def test_what_only_hdf5_shows(copies: Copies, tmp_path: Path, opened: dict[str, Any]) -> None:
    """It would show the fill value for an object."""
    with h5py.File(tmp_path / "big.h5", "w") as file:
        file["x"] = smooth((40, 6)).astype(">i2")
    stored = shown(tmp_path / "main.h5", ["big.h5"])
    url = copies.put_beside(stored)
    with pytest.raises(multitables.UnsupportedDatasetError, match="finds no other files"):
        multitables.Streamer(url, **opened).get_queue("v")
    with multitables.open(url, **opened) as file:
        assert file["v"].shape == (40, 6)
        with pytest.raises(multitables.UnsupportedDatasetError, match="finds no other files"):
            file["v"][:2]


def test_options_that_an_object_cannot_have(
    copies: Copies, tmp_path: Path, opened: dict[str, Any]
) -> None:
    path = part(tmp_path, 0)
    url = copies.put(path)
    with pytest.raises(multitables.OptionsError, match="follow=True is for files that grow"):
        multitables.Streamer(url, **opened).get_queue("x", follow=True)
    with pytest.raises(multitables.OptionsError, match="H5FD_SPLIT"):
        multitables.Streamer(url, DRIVER="H5FD_SPLIT", **opened).get_queue("x")
    wanted = h5py_read(path, "/x")
    for driver in ("H5FD_CORE", "H5FD_DIRECT", "H5FD_SEC2", "H5FD_STDIO"):
        same(streamed(url, "/x", open_options={**opened, "DRIVER": driver})[0], wanted)  # type: ignore[arg-type]
    for rotational in (None, True):
        streamer = multitables.Streamer(url, rotational=rotational, DRIVER="H5FD_DIRECT", **opened)
        with streamer.get_batches("x", 8, shuffle="window") as batches:
            assert sum(len(batch) for batch in batches) == 40
    with multitables.Reader(url, DRIVER="H5FD_DIRECT", n_procs=1, **opened) as reader:
        same(reader.request(reader.get_dataset("/x")[2:9]).get(), wanted[2:9])
