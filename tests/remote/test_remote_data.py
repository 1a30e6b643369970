"""Objects give the rows that their files have, at every entry, in every form, under every limit.

Law
---
1. The oracle is h5py on the file that was put; never this library.
2. Streams end by themselves, so rows that are missing fail as rows that are wrong do.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import shot_files
import table_files
import versioned
from oracle import h5py_read, same, streamed
from remote_files import FORMS, ROWS, Remote, noise, write

import multitables
from multitables import Reader, Streamer

ROWED = ["compact", "contiguous", "chunks", "filters", "table", "fill", "never written", "empty"]
KEYS = ["a b", "t\xe4st.h5", "\u6e2c.h5", "a+b&c=d.h5", "100%.h5", "a?b.h5", "x[1].h5", "a#b"]
#: One thing that each bound is about, at its ends.
LIMITS: list[dict[str, Any]] = [
    {"max_gap_bytes": 0},
    {"max_gap_bytes": 1 << 30},
    {"max_request_bytes": 1 << 12},
    {"max_memory_bytes": 1 << 20, "max_request_bytes": 1 << 14},
    {"max_requests": 1},
    {"max_requests": 64, "max_gap_bytes": 0},
]


@pytest.fixture(scope="module", params=FORMS)
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("forms") / "data.h5", **FORMS[request.param])


@pytest.fixture(scope="module")
def new(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("new") / "data.h5", **FORMS["new"])


def test_queues(path: Path, remote: Remote) -> None:
    opened = {"storage_options": remote.options()}
    name: Any = remote.put(path)
    for dataset in ROWED:
        rows, _ = streamed(name, dataset, open_options=opened)
        same(rows, h5py_read(path, dataset))
    rows, _ = streamed(name, "table", open_options=opened, field="energy")
    same(rows, h5py_read(path, "table", "energy"))


def test_handles(path: Path, remote: Remote) -> None:
    with (
        h5py.File(path) as expected,
        multitables.open(remote.put(path), storage_options=remote.options()) as file,
    ):
        assert sorted(file) == sorted(expected)
        assert file["group"].attrs["unit"] == "keV"
        for name in [*ROWED, "group/scalar", "text"]:
            same(np.asarray(file[name][()]), np.asarray(expected[name][()]))
        for key in (slice(5, 1900, 7), [3, 77, 1999], (slice(40, 70), slice(2, 7))):
            same(file["filters"][key], expected["filters"][key])
        same(file["table"]["name"], expected["table"]["name"])


def test_a_handle_of_threads_and_of_pickles(new: Path, remote: Remote) -> None:
    wanted = h5py_read(new, "filters")
    with multitables.open(remote.put(new), storage_options=remote.options()) as file:
        data = file["filters"]
        with ThreadPoolExecutor(8) as pool:
            parts = pool.map(lambda at: data[at : at + 100], range(0, ROWS, 100))
            same(np.concatenate([*parts]), wanted)


def test_requests_of_a_reader(path: Path, remote: Remote) -> None:
    name, options = remote.put(path), remote.options()
    with Reader(name, n_procs=2, storage_options=options) as reader, h5py.File(path) as file:
        for dataset in ("contiguous", "chunks", "filters"):
            handle = reader.get_dataset(dataset)
            data = file[dataset][()]
            for key in (slice(0, 70), [3, 1999, 70, 70, 0], 17, (slice(None), 1)):
                same(np.asarray(reader.request(handle[key]).get()), np.asarray(data[key]))
        table: Any = reader.get_dataset("table")
        got = reader.request(table["energy"][10:20]).get()
        same(np.asarray(got), file["table"]["energy"][10:20])


@pytest.mark.parametrize("shuffle", [None, "chunks", "window", "full"])
def test_batches(shuffle: str | None, new: Path, remote: Remote) -> None:
    streamer = Streamer(remote.put(new), storage_options=remote.options())
    local = Streamer(new)
    wanted = {"a": h5py_read(new, "filters"), "b": h5py_read(new, "table")}

    def batches(of: Streamer) -> Any:
        paths: Any = {"a": "filters", "b": "table"}
        return of.get_batches(paths, 64, n_procs=2, shuffle=shuffle, seed=3, epochs=2)

    def copied(of: Any, count: int = 1 << 30) -> list[dict[str, np.ndarray]]:
        found = []
        for batch in of:
            found.append({name: np.array(part) for name, part in batch.items()})
            if len(found) == count:
                break
        return found

    with batches(streamer) as ours, batches(local) as theirs:
        expected = copied(theirs)
        got = copied(ours, 40)
        state = ours.state_dict()
    with batches(streamer) as resumed:
        resumed.load_state_dict(state)
        got += copied(resumed)
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        same(one["a"], other["a"])
        same(one["b"], other["b"])
    ids = np.concatenate([one["b"]["id"] for one in got])
    for rows in (ids[:ROWS], ids[ROWS:]):
        assert sorted(rows) == [*range(ROWS)]
    same(np.concatenate([one["a"] for one in got]), wanted["a"][ids])


def test_other_entries(new: Path, remote: Remote) -> None:
    name, options = remote.put(new), remote.options()
    streamer = Streamer(name, storage_options=options)
    wanted = h5py_read(new, "chunks")
    rows = streamer.get_generator("chunks", n_procs=1, block_size=100)
    same(np.stack([row.copy() for row in rows]), wanted)
    same(streamer.get_remainder("chunks", 300), wanted[-(ROWS % 300) :])
    same(multitables.read(name, "filters", storage_options=options), h5py_read(new, "filters"))


def test_columns(tmp_path: Path, remote: Remote) -> None:
    path = table_files.write(tmp_path / "tables.h5")
    streamer = Streamer(remote.put(path), storage_options=remote.options())
    expected = table_files.columns_of(path, "rec.slc")
    with streamer.get_columns("rec.slc", ["calE"], index=table_files.SEQ, n_procs=2) as blocks:
        got = [np.array(block["calE"]) for block in blocks]
    same(np.concatenate(got), expected["calE"])


def test_a_collection(tmp_path: Path, remote: Remote) -> None:
    path = shot_files.write(tmp_path / "shots.h5")
    streamer = Streamer(remote.put(path), storage_options=remote.options())
    with (
        h5py.File(path) as file,
        streamer.get_collection(shot_files.PATTERN, n_procs=2) as items,
    ):
        n_items = 0
        for item in items:
            shot_files.same_item(item, dict(file["shots"][item.key]["signals"].items()))
            n_items += 1
        assert n_items == len(shot_files.SHOTS)


def test_several_files(tmp_path: Path, remote: Remote) -> None:
    parts = [noise(300 + 7 * number, 6, seed=number) for number in range(11)]
    names = []
    for number, part in enumerate(parts):
        with h5py.File(tmp_path / f"f{number}.h5", "w") as file:
            file.create_dataset("x", data=part, chunks=(50, 6), compression="gzip")
        names.append(remote.put(tmp_path / f"f{number}.h5", f"runs/f{number}.h5"))
    remote.put(b"no HDF5", "runs/deeper/g3.h5")
    remote.put(b"no HDF5", "runs/f3.h5.old")
    remote.put(b"no HDF5", "runs2/g3.h5")
    opened = {"storage_options": remote.options()}
    top = f"s3://{remote.bucket}"
    several: list[Any] = [names, f"{top}/runs/*.h5", f"{top}/**/f?*.h5"]
    several.append([f"{top}/runs/f[0-9].h5", names[10]])
    for wanted in several:
        rows, _ = streamed(wanted, "x", open_options=opened)
        same(rows, np.concatenate(parts))
    mixed: Any = [str(tmp_path / "f0.h5"), names[1]]
    rows, _ = streamed(mixed, "x", open_options=opened)
    same(rows, np.concatenate(parts[:2]))
    with pytest.raises(multitables.MissingFileError, match="no file matches"):
        Streamer(f"s3://{remote.bucket}/runs/g*.h5", **opened).get_queue("x")


@pytest.mark.parametrize("key", KEYS)
def test_keys(key: str, new: Path, remote: Remote) -> None:
    name = remote.put(new, f"f\xf6lder/{key}")
    same(
        multitables.read(name, "chunks", storage_options=remote.options()),
        h5py_read(new, "chunks"),
    )
    rows, _ = streamed(
        name,  # type: ignore[arg-type]
        "chunks",
        open_options={"storage_options": remote.options()},
    )
    same(rows, h5py_read(new, "chunks"))


def test_versions(tmp_path: Path, remote: Remote) -> None:
    path = tmp_path / "versions.h5"
    versioned.write_example(path)
    name, options = remote.put(path), remote.options()
    listed = multitables.versions(name, storage_options=options)
    assert [*listed] == ["r0", "r1", "r2", "r3", "r4"]
    with h5py.File(path) as file:
        for version in listed:
            wanted = file[f"_version_data/versions/{version}/sub/grid"][()]
            rows, _ = streamed(
                name,  # type: ignore[arg-type]
                "sub/grid",
                version=version,
                open_options={"storage_options": options},
            )
            same(rows, wanted)


def test_files_that_others_name(tmp_path: Path, remote: Remote) -> None:
    """External links and virtual datasets lead to objects beside the one that names them."""
    data = noise(120, 4)
    with h5py.File(tmp_path / "part.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(10, 4), compression="gzip")
    layout = h5py.VirtualLayout((240, 4), "<i4")
    layout[:120] = h5py.VirtualSource("part.h5", "x", (120, 4))
    layout[120:] = h5py.VirtualSource("deeper/part.h5", "x", (120, 4))
    with h5py.File(tmp_path / "main.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("both", layout)
        file["linked"] = h5py.ExternalLink("deeper/part.h5", "/x")
    for key in ("part.h5", "deeper/part.h5"):
        remote.put(tmp_path / "part.h5", key)
    name: Any = remote.put(tmp_path / "main.h5", "main.h5")
    opened = {"storage_options": remote.options()}
    rows, _ = streamed(name, "linked", open_options=opened)
    same(rows, data)
    rows, _ = streamed(name, "both", open_options=opened)
    same(rows, np.concatenate([data, data]))


@pytest.mark.parametrize("limits", LIMITS, ids=str)
def test_limits(limits: dict[str, Any], tmp_path: Path, remote: Remote) -> None:
    data = noise(40, 300_000)
    with h5py.File(tmp_path / "large.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(1, 300_000))  # each larger than the memory
        file.create_dataset("y", data=data[:, :1000], chunks=(3, 170), compression="gzip")
    name: Any = remote.put(tmp_path / "large.h5")
    opened = {"storage_options": remote.options(**limits)}
    for dataset, wanted in (("x", data), ("y", data[:, :1000])):
        rows, _ = streamed(name, dataset, open_options=opened)
        same(rows, wanted)
    with multitables.open(name, **opened) as file, Reader(name, n_procs=2, **opened) as reader:
        same(file["y"][1:30, 5:900], data[1:30, 5:900])
        same(file["x"][::9], data[::9])
        handle = reader.get_dataset("x")
        same(reader.request(handle[[30, 2, 2]]).get(), data[[30, 2, 2]])
