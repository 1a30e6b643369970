"""Collections of files that have a saved index, against the same files without one.

Law
---
1. Of every structure that HDF5 has, the index tells what the core tells, and the file is not asked.
2. Items, scales, attributes and errors are the same with the index and without it.
3. Damage anywhere: a warning, and the file's own answers. Tables that lie under correct sums: items
   or an error of ours, no crash.
"""

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import shot_files
import structures
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from index_changes import CHANGES, changed, with_tables
from oracle import same
from saved_files import saved
from shot_files import PATTERN

import multitables
from _multitables import _core
from _multitables.index.datasets import survey as surveys
from _multitables.index.opened.open_files import OpenFile, open_file
from _multitables.index.opened.runs import Run
from _multitables.index.saved import metadata as saved_metadata
from _multitables.index.saved.format import VERSION
from _multitables.index.types.plugins import READERS_FILTERS
from multitables import Streamer

EXAMPLES = settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(autouse=True)
def _no_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return shot_files.write(tmp_path_factory.mktemp("shots") / "shots.h5")


def offsets_of(metadata: Any) -> list[int]:
    """All objects, as hard links lead to them."""
    seen, next_ones = [metadata.root], [metadata.root]
    while next_ones:
        offset = next_ones.pop()
        links = metadata.links(offset) if metadata.kind(offset) == "group" else []
        new = [link[3] for link in links if link[2] == "hard" and link[3] not in seen]
        seen += new
        next_ones += new
    return seen


def described(file: OpenFile, offsets: list[int]) -> Iterator[Any]:
    """What a survey tells of objects, one by one."""
    run = Run(file, "", list(map(str, offsets)), np.array(offsets, np.int64))
    got = surveys.survey(
        [run], READERS_FILTERS, scale_paths=lambda _, scales: list(map(str, scales.tolist()))
    )
    for number in range(len(got)):
        kind = int(got.kind[number])
        begin, end = got.scales_at[number : number + 2].tolist()
        scales = [(axis, got.places[to].offset) for _, axis, to in got.scales[begin:end].tolist()]
        dims, chunk_dims, chunks, elements = got.core.one(number)
        yield got.places[number].path, dims, scales
        if kind >= surveys.NO_DATASET:
            yield kind
            continue
        yield got.kinds[kind], chunk_dims, elements or chunks.tolist()


class Unasked:
    """A file that answers all but what many objects are."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def survey(self, *_: Any) -> None:
        pytest.fail("the file was read")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def no_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let only saved indexes say what many objects are."""
    opened = saved_metadata.with_first
    monkeypatch.setattr(
        saved_metadata, "with_first", lambda found, state, file: opened(found, state, Unasked(file))
    )


def test_every_structure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, path in structures.written(tmp_path):
        saved(path)
        file = open_file(str(path), uses_index=False)
        offsets = offsets_of(file.metadata)
        expected = list(described(file, offsets))
        with monkeypatch.context() as patch:
            no_file(patch)
            assert list(described(open_file(str(path)), offsets)) == expected, name


def items_of(path: Path, pattern: str = PATTERN, **options: Any) -> dict[str, Any]:
    """Key -> arrays, scales and attributes, as copies."""
    with Streamer(path) as streamer:
        items = streamer.get_collection(pattern, n_procs=1, order="key", **options)
        copies = [item.copy() for item in items]
        assert [item.key for item in copies] == items.keys
    return {item.key: (dict(item), item.scales, item.attrs) for item in copies}


def same_items(got: dict[str, Any], expected: dict[str, Any]) -> None:
    assert list(got) == list(expected)
    for key, (arrays, scales, attrs) in expected.items():
        assert (list(got[key][0]), got[key][1].keys()) == (list(arrays), scales.keys())
        for name, array in arrays.items():
            same(got[key][0][name], array)
        for name, axes in scales.items():
            for axis, other in zip(got[key][1][name], axes, strict=True):
                assert list(axis) == list(other)
                for scale, values in other.items():
                    same(axis[scale], values)
        assert got[key][2] == attrs


@pytest.mark.parametrize(
    "options", [{}, {"by": 1}, {"scales": False}, {"attrs": ("shot", "units")}], ids=str
)
@pytest.mark.parametrize("libver", ["earliest", "latest"])
def test_items_are_the_same(tmp_path: Path, options: dict[str, Any], libver: str) -> None:
    path = shot_files.write(tmp_path / "shots.h5", libver=libver)
    expected = items_of(path, **options)
    saved(path)
    same_items(items_of(path, **options), expected)


def test_the_file_is_not_asked(shots: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(shots)
    items = Streamer(shots).get_collection(PATTERN)
    os.unlink(f"{shots}.mtidx")
    assert items.keys == Streamer(shots).get_collection(PATTERN).keys
    saved(shots)
    no_file(monkeypatch)
    assert Streamer(shots).get_collection(PATTERN).keys == items.keys
    assert (
        items._unit.opened.table.core.encoded
        == Streamer(shots).get_collection(PATTERN)._unit.opened.table.core.encoded
    )


def write_links(path: Path) -> None:
    """Links of every kind, two to one dataset, and storage that is indexed separately."""
    with h5py.File(path.with_name("other.h5"), "w") as file:
        file["far/x"] = np.arange(5.0)
    with h5py.File(path, "w") as file:
        file["data/a/x"] = np.arange(3)
        file["data/a/y"] = file["data/b/x"] = file["data/a/x"]
        file["data/c"] = h5py.ExternalLink("other.h5", "/far")
        file["data/d"], file["data/e"] = h5py.SoftLink("/data/a"), h5py.SoftLink("/nowhere")
        file["data/b/z"] = h5py.SoftLink("x")
        file["data/f"] = 1
        file["data/g/x"] = np.array(["text", "more"], "S4")
        (path.parent / "raw").write_bytes(np.arange(8, dtype="<i4").tobytes())
        external = [(str(path.parent / "raw"), 0, 32)]
        file.create_dataset("data/g/raw", (8,), "<i4", external=external)
        file.create_dataset("data/g/chunks", data=np.arange(99), chunks=(3,), maxshape=(None,))
        file.create_dataset(
            "data/g/tree", data=np.ones((9, 9)), chunks=(3, 2), maxshape=(None,) * 2
        )


@pytest.mark.parametrize("pattern", ["/data/*/x", "/data/*/*", "data/./[!e]*/[x-z]", "/data/g/*"])
@pytest.mark.parametrize("scales", [True, False])
def test_links(h5: Path, pattern: str, scales: bool) -> None:
    write_links(h5)
    expected = items_of(h5, pattern, scales=scales)
    saved(h5)
    same_items(items_of(h5, pattern, scales=scales), expected)


@pytest.mark.parametrize("pattern", ["/none/*", "/data/*/none", "/data/f/*", "/data/g/*"])
def test_errors_are_the_same(h5: Path, pattern: str) -> None:
    with h5py.File(h5, "w") as file:
        file["data/f"] = 1
        file["data/g/h/x"] = 2
    got = []
    for _ in range(2):
        with pytest.raises(multitables.MultitablesError) as caught:
            Streamer(h5).get_collection(pattern)
        got.append((type(caught.value), str(caught.value)))
        saved(h5)
    assert got[0] == got[1]


def test_a_dataset_that_is_not_saved_is_asked_of_the_file(h5: Path) -> None:
    with h5py.File(h5, "w", libver="latest") as file:
        file["g/a/x"], file["g/b/x"] = np.arange(3), np.arange(4)
        offset = h5py.h5o.get_info(file["g/b/x"].id).addr
    content = bytearray(h5.read_bytes())
    content[offset + 20] ^= 0xFF
    h5.write_bytes(content)
    got = []
    for _ in range(2):
        with Streamer(h5) as streamer:
            items = streamer.get_collection("/g/*/x", n_procs=1)
            with pytest.raises(multitables.CorruptFileError, match="'/g/b/x'") as caught:
                list(items)
        got.append((items.keys, str(caught.value)))
        saved(h5)
    assert got[0] == got[1]


def test_a_scale_that_no_link_leads_to(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["g/a/x"], file["t"] = np.arange(3), np.arange(3.0)
        file["t"].make_scale("time")
        file["g/a/x"].dims[0].attach_scale(file["t"])
        file["hidden/t"] = file["t"]
        del file["t"]
    expected = items_of(h5, "/g/*/x")
    assert list(expected["a"][1]["x"][0]) == ["time"]
    saved(h5)
    same_items(items_of(h5, "/g/*/x"), expected)


def test_an_index_of_a_file_that_changed_is_not_used(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        file["g/a/x"] = np.arange(3)
    saved(h5)
    with h5py.File(h5, "a") as file:
        file["g/b/x"] = np.arange(4)
        file["g/a/x"][:] = 7
    found = items_of(h5, "/g/*/x")
    assert {key: arrays["x"].tolist() for key, (arrays, *_) in found.items()} == {
        "a": [7, 7, 7],
        "b": [0, 1, 2, 3],
    }


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with datasets of each storage, beside which there is its index with another suffix."""
    kinds = {name: shot_files.KINDS[name] for name in ("gzip", "compact", "plain", "image")}
    path = tmp_path_factory.mktemp("one") / "one.h5"
    shot_files.write(path, shots=(1, 2), kinds=kinds)
    saved(path).rename(path.with_suffix(".good"))
    return path


def opened(path: Path) -> tuple[list[Any], set[Any]]:
    """What is got of a file's items, and the warnings meanwhile."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        found = Streamer(path).get_collection(PATTERN)._unit.opened
        got = [
            found.items.keys,
            found.item_bytes,
            len(found.shared),
            len(found.table.core.encoded),
        ]
        offsets = sorted(offsets_of(open_file(str(path), uses_index=False).metadata))
        got += described(open_file(str(path)), offsets)
    return got, {warning.category for warning in caught}


@EXAMPLES
@given(changes=st.lists(CHANGES, min_size=1, max_size=3))
def test_damage_anywhere(one: Path, changes: list[Any]) -> None:
    good = one.with_suffix(".good").read_bytes()
    place, bad = Path(f"{one}.mtidx"), good
    place.write_bytes(good)
    expected, _ = opened(one)
    for change in changes:
        bad = changed(bad, change)
    place.write_bytes(bad)
    got, categories = opened(one)
    assert got == expected
    assert categories <= {multitables.SavedIndexWarning}


@EXAMPLES
@example(changes=[("bytes", 1721, bytes(6) + b"\x80")])
@given(changes=st.lists(CHANGES, min_size=1, max_size=3))
def test_tables_that_lie(one: Path, changes: list[Any]) -> None:
    good = one.with_suffix(".good").read_bytes()
    Path(f"{one}.mtidx").write_bytes(with_tables(good, changes))
    with contextlib.suppress(multitables.MultitablesError):
        assert opened(one)[1] <= {multitables.SavedIndexWarning}


@pytest.mark.parametrize("seed", range(12))
def test_items_of_tables_that_lie(one: Path, seed: int) -> None:
    good = one.with_suffix(".good").read_bytes()
    rng = np.random.default_rng(seed)
    lie = ("number", int(rng.integers(2**20)), int(rng.integers(2**63)).to_bytes(8, "little"))
    Path(f"{one}.mtidx").write_bytes(with_tables(good, [lie]))
    with warnings.catch_warnings(), contextlib.suppress(multitables.MultitablesError):
        warnings.simplefilter("ignore", multitables.SavedIndexWarning)
        items_of(one)


def test_an_index_of_the_version_before_is_not_used(one: Path) -> None:
    good = one.with_suffix(".good").read_bytes()
    older = good[:8] + (VERSION - 1).to_bytes(4, "little") + good[12:]
    Path(f"{one}.mtidx").write_bytes(older)
    assert isinstance(open_file(str(one)).metadata, _core.MetadataFile)
    assert opened(one)[1] == set()
