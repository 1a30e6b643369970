"""Several versions in one stream, against h5py.

Law
---
1. Blocks have the same rows of each version, each as h5py reads it, whatever their lengths.
2. A chunk is decoded once, however many versions have it, and equal rows are the same array.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from versioned import Writer, numbers

import multitables
from _multitables import _core
from _multitables.index.datasets.source import open_source
from _multitables.index.versions.sources import of_versions, stored_chunks
from _multitables.index.versions.version import GROUP
from _multitables.plan.shared_chunks import SharedChunks, shared_chunks


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Lines and grids that change, grow and shrink, with holes; `one` has one chunk in each row."""
    path = tmp_path_factory.mktemp("versions") / "v.h5"
    line, grid, one = numbers(30), numbers(11, 7), numbers(9, 3, seed=1)
    with h5py.File(path, "w") as file:
        writer = Writer(file, compression="gzip", fillvalue=-7)
        for number in range(4):
            line[number * 3] += 1
            grid[number, number], one[number] = -number, -number
            line[8:12], grid[4:8, 4:] = -7, -7
            line = np.append(line, numbers(3, seed=number)) if number != 2 else line[:17]
            data = {"line": line, "g/grid": grid[: 11 - number], "g/one": one}
            writer.commit(f"r{number}", data)
    return path


def told(queue: Any) -> dict[str, np.ndarray]:
    """All rows of each version."""
    rows: dict[str, list[np.ndarray]] = {}
    for guard in queue:
        with guard as block:
            longest = max(map(len, block.values()))
            assert guard.rows[1] - guard.rows[0] == longest
            for name, array in block.items():
                rows.setdefault(name, []).append(array.copy())
    return {name: np.concatenate(parts) for name, parts in rows.items()}


def n_distinct(path: Path, dataset: str, names: list[str]) -> int:
    """Chunks that are in any of these versions, counted once in each row of chunks."""
    found = set()
    with h5py.File(path) as file:
        for name in names:
            for mapping in file[f"{GROUP}/{name}/{dataset}"].virtual_sources():
                row = mapping.vspace.get_select_bounds()[0][0]
                found.add((row, mapping.src_space.get_select_bounds()[0][0]))
    return len(found)


@pytest.mark.parametrize(
    ("version", "names"),
    [
        (["r1", "r0"], ["r1", "r0"]),
        (("r2",), ["r2"]),
        ([-1, "r0", np.datetime64("2030")], ["r3", "r0"]),
        (slice(None), ["r0", "r1", "r2", "r3"]),
        (slice(-2, None), ["r2", "r3"]),
        (slice(None, None, -2), ["r3", "r1"]),
    ],
    ids=str,
)
def test_versions_together(path: Path, version: Any, names: list[str]) -> None:
    with multitables.Streamer(path) as streamer, h5py.File(path) as file:
        for dataset in ("line", "g/grid", "g/one"):
            with streamer.get_queue(dataset, 2, version=version) as queue:
                got, readers = told(queue), queue.statistics()["readers"]
            assert [*got] == names
            for name, rows in got.items():
                want = file[f"{GROUP}/{name}/{dataset}"]
                assert rows.dtype == want.dtype
                np.testing.assert_array_equal(rows, want[()])
            decoded = sum(reader["chunks"] for reader in readers)
            assert decoded == n_distinct(path, dataset, names)


@pytest.mark.parametrize("dataset", ["line", "g/grid"])
def test_equal_rows_are_one_array(path: Path, dataset: str) -> None:
    with multitables.Streamer(path).get_queue(dataset, 1, version=["r0", "r1"]) as queue:
        shared = []
        for guard in queue:
            with guard as block:
                shared.append(block["r0"] is block["r1"])
                assert shared[-1] == np.array_equal(block["r0"], block["r1"])
    assert any(shared)
    assert not all(shared)


def test_views_that_are_kept(path: Path) -> None:
    kept: list[dict[str, np.ndarray]] = []
    with multitables.Streamer(path).get_queue("line", 1, version=slice(None)) as queue:
        for guard in queue:
            with guard as block:
                kept.append(block)
    with h5py.File(path) as file:
        for name in ("r0", "r3"):
            rows = np.concatenate([block[name] for block in kept])
            np.testing.assert_array_equal(rows, file[f"{GROUP}/{name}/line"][()])


def test_an_endless_stream(path: Path) -> None:
    with (
        multitables.Streamer(path) as streamer,
        streamer.get_queue("line", 1, version=["r0", "r2"], cyclic=True) as queue,
        h5py.File(path) as file,
    ):
        want = file[f"{GROUP}/r0/line"][()]
        for _ in range(3):
            rows = []
            while sum(map(len, rows)) < len(want):
                with queue.get() as block:
                    rows.append(block["r0"].copy())
            np.testing.assert_array_equal(np.concatenate(rows), want)


def test_a_column(tmp_path: Path) -> None:
    rows = np.zeros(10, [("a", "<i4"), ("b", "<f8", 2)])
    rows["b"] = numbers(10, 2)
    with h5py.File(tmp_path / "v.h5", "w") as file:
        writer = Writer(file)
        writer.commit("x", {"t": rows})
        writer.commit("y", {"t": rows[:7]})
        writer.commit("z", {"t": np.zeros(9, rows.dtype)})
    streamer = multitables.Streamer(tmp_path / "v.h5")
    with streamer.get_queue("t", 1, version=slice(None), field="b") as queue:
        got = told(queue)
    np.testing.assert_array_equal(got["x"], rows["b"])
    np.testing.assert_array_equal(got["y"], rows["b"][:7])
    np.testing.assert_array_equal(got["z"], np.zeros((9, 2)))


def test_nothing_but_fill_values(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        writer = Writer(file, fillvalue=3)
        writer.commit("x", {"d": np.full((6, 5), 3)})
        writer.commit("y", {"d": np.full((0, 5), 3)})
    streamer = multitables.Streamer(tmp_path / "v.h5")
    with streamer.get_queue("d", 1, version=slice(None)) as queue:
        got = told(queue)
    np.testing.assert_array_equal(got["x"], np.full((6, 5), 3))
    assert got["y"].shape == (0, 5)


def test_what_several_versions_are_not_for(path: Path) -> None:
    streamer, both = multitables.Streamer(path), ["r0", "r1"]
    asked: list[Callable[[], Any]] = [
        lambda: streamer.get_generator("line", version=both),
        lambda: streamer.get_remainder("line", 4, version=both),
        lambda: streamer.get_batches("line", 4, version=both),
        lambda: multitables.open(path, version=both),
        lambda: streamer.get_queue("line", version=[]),
        lambda: streamer.get_queue("line", version=[True]),
        lambda: streamer.get_queue("line", version=slice("r0", "r1")),
        lambda: streamer.get_queue("line", version=both, block_size=8),
        lambda: streamer.get_queue(["line", "line"], version=both),
    ]
    for ask in asked:
        with pytest.raises(multitables.OptionsError):
            ask()
    with pytest.raises(multitables.MissingVersionError):
        streamer.get_queue("line", version=["r0", "r7"])
    streamer.close()
    with pytest.raises(multitables.ClosedError):
        streamer.get_queue("line", version=both)


def test_what_a_library_must_read(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_core, "native_filters", dict)
    with (
        multitables.Streamer(path) as streamer,
        pytest.raises(multitables.UnsupportedDatasetError, match="one version after the other"),
    ):
        streamer.get_queue("line", 1, version=["r0", "r1"])


def test_damage_is_named_where_it_is_stored(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "v.h5", "w") as file:
        writer = Writer(file, fletcher32=True)
        writer.commit("x", {"d": numbers(40)})
        writer.commit("y", {"d": numbers(40, seed=1)})
        stored = file["_version_data/d/raw_data"].id.get_chunk_info_by_coord((60,))
    with open(tmp_path / "v.h5", "r+b") as raw:
        raw.seek(stored.byte_offset + 3)
        raw.write(b"oops")
    told_of = r"'/_version_data/d/raw_data' .* chunk \(60,\).* Rows 60:64 were not delivered"
    with (
        multitables.Streamer(tmp_path / "v.h5").get_queue("d", 1, version=["y", "x"]) as queue,
        pytest.raises(multitables.CorruptChunkError, match=told_of) as caught,
    ):
        told(queue)
    assert caught.value.chunk_offset == (60,)


def planned(path: Path, dataset: str, names: list[str]) -> SharedChunks:
    with open_source(path, {}) as source:
        indexes = [one.index(dataset) for one in of_versions(source, names).values()]
        return shared_chunks(stored_chunks(source, dataset), indexes)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(*[st.integers(1, 11)] * 2), min_size=1, max_size=4),
    st.lists(st.tuples(*[st.integers(0, 10)] * 2), min_size=4, max_size=4),
)
def test_any_shapes(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[Any], changed: list[Any]
) -> None:
    """The maps say for each place which chunk of its band it is, and no chunk is listed twice."""
    path = tmp_path_factory.mktemp("shapes") / "v.h5"
    data = numbers(11, 11)
    with h5py.File(path, "w") as file:
        writer, written = Writer(file, chunks={"d": (3, 4)}), []
        for number, shape in enumerate(shapes):
            data[changed[number]] = 0
            data[changed[number][::-1]] += 1
            written.append(data[: shape[0], : shape[1]].copy())
            writer.commit(f"r{number}", {"d": written[-1]})
        raw = file["_version_data/d/raw_data"][()]
    shared = planned(path, "d", [f"r{number}" for number in range(len(shapes))])
    chosen = shared.index.chosen_from
    begins = np.cumsum([0, *shared.counts])
    assert begins[-1] == len(shared.index.grid_index) == len(chosen[1])
    for begin, end in itertools.pairwise(begins.tolist()):
        assert len({*chosen[1][begin:end]}) == end - begin
    for want, version, table in zip(written, shared.versions, shared.maps, strict=True):
        assert table.shape == (-(-want.shape[0] // 3), -(-want.shape[1] // 4))
        got = np.zeros((3 * table.shape[0], 4 * table.shape[1]), np.int64)
        for (band, beside), at in np.ndenumerate(table):
            if at >= 0:
                row = 3 * int(chosen[1][begins[band] + at])
                got[3 * band : 3 * band + 3, 4 * beside : 4 * beside + 4] = raw[row : row + 3]
        np.testing.assert_array_equal(got[: version.dims[0], : version.dims[1]], want)
