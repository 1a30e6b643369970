"""Streams of little data, which are read before a block is taken, against the stream of anything.

Law
---
1. Both deliver the same blocks, and say the same of them.
2. What does not go well is the other stream's to say.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import multitables
from _multitables import machine, sizes
from _multitables.parent import start_blocks
from _multitables.parent.stream import whole_stream
from _multitables.tree import map_arrays

#: Of a dataset: what h5py makes it with.
STORED: dict[str, dict[str, Any]] = {
    "contiguous": {},
    "chunked": {"chunks": (7, 2)},
    "gzip": {"chunks": (16, 5), "compression": "gzip", "shuffle": True, "fletcher32": True},
    "sparse": {"chunks": (4, 3), "fillvalue": 7},
    "never written": {"fillvalue": 3},
}


@pytest.fixture
def little(tmp_path: Path) -> Path:
    path = tmp_path / "little.h5"
    values = np.arange(505).reshape(101, 5)
    with h5py.File(path, "w") as file:
        for name, stored in STORED.items():
            made = file.create_dataset(name, (101, 5), ">i4", **stored)
            if name == "sparse":
                made[8:12] = values[8:12]
            elif name != "never written":
                made[...] = values
        table = np.zeros(101, [("a", "<f8"), ("b", "<i2", (3,))])
        table["a"], table["b"] = values[:, 0], values[:, :3]
        file.create_dataset("table", data=table, chunks=(10,))
        space, kind = h5py.h5s.create_simple((101, 5)), h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        kind.set_layout(h5py.h5d.COMPACT)
        compact = h5py.h5d.create(file.id, b"compact", h5py.h5t.NATIVE_INT64, space, kind)
        compact.write(h5py.h5s.ALL, h5py.h5s.ALL, values.astype(np.int64))
    return path


def delivered(
    queue: multitables.StreamQueue,
) -> tuple[list[tuple[Any, Any]], dict[str, Any], str, object]:
    with queue:
        said = repr(queue).partition(":")[0]
        blocks = []
        for guard in queue:
            with guard as block:
                assert all(array.flags.writeable for array in tree_leaves(block))
                blocks.append((guard.rows, map_arrays(np.copy, block)))
        statistics = queue.statistics()
        kept = {
            name: statistics[name]
            for name in ("blocks_total", "block_size", "ring_rows", "library")
        }
        nothing = [(array.shape, array.dtype) for array in queue.source.nothing()]
        return blocks, kept, said, (nothing, queue.endless)


def tree_leaves(block: Any) -> list[Any]:
    """The arrays of a block."""
    if isinstance(block, dict):
        return list(block.values())
    return list(block) if isinstance(block, tuple) else [block]


def is_whole(queue: Any) -> bool:
    return isinstance(getattr(queue.source, "readers", None), whole_stream._Done)


@pytest.mark.parametrize("remainder", [True, False])
@pytest.mark.parametrize("block_size", [None, 1, 9, 101, 500])
def test_little_data_is_streamed_as_any(
    little: Path, monkeypatch: pytest.MonkeyPatch, block_size: int | None, remainder: bool
) -> None:
    options: dict[str, Any] = {"block_size": block_size, "remainder": remainder, "n_procs": 0}
    names = [*STORED, "compact", "table"]
    named: list[tuple[Any, str | None]] = [(name, None) for name in names]
    named += [("table", "a"), ("table", "b"), (["table", "table"], "b")]
    named += [(names, None), ({"c": "compact", 7: "gzip"}, None), (("compact", "compact"), None)]
    for path, field in named:
        with multitables.Streamer(little) as streamer:
            queue = streamer.get_queue(path, field=field, **options)
            assert is_whole(queue), path
            whole = delivered(queue)
            with monkeypatch.context() as patched:
                patched.setattr(start_blocks, "whole_stream", lambda *_: None)
                queue = streamer.get_queue(path, field=field, **options)
                assert not is_whole(queue)
                other = delivered(queue)
        assert whole[1:] == other[1:], path
        assert [rows for rows, _ in whole[0]] == [rows for rows, _ in other[0]]
        for (_, got), (_, expected) in zip(whole[0], other[0], strict=True):
            assert type(got) is type(expected)
            assert not isinstance(got, dict) or list(got) == list(expected)
            for one, other_one in zip(tree_leaves(got), tree_leaves(expected), strict=True):
                assert one.dtype == other_one.dtype
                np.testing.assert_array_equal(one, other_one)


def test_data_that_is_more_is_streamed_as_any(tmp_path: Path) -> None:
    path, elements = tmp_path / "more.h5", sizes.WHOLE_BYTES
    with h5py.File(path, "w") as file:
        file["copied"] = np.zeros(elements, "u1")
        file["more"] = np.zeros(elements + 1, "u1")
        stored: dict[str, Any] = {"chunks": (1 << 16,), "compression": "lzf"}
        file.create_dataset("decoded", data=np.zeros(elements, "u1"), **stored)
    with multitables.Streamer(path) as streamer:
        whole = [is_whole(streamer.get_queue(name)) for name in ("copied", "more", "decoded")]
    assert whole == [True, False, False]


def test_datasets_that_do_not_go_together_are_streamed_as_any(tmp_path: Path) -> None:
    path = tmp_path / "apart.h5"
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["y"] = np.arange(9)
    with h5py.File(path, "w") as file:
        file["x"], file["short"], file["large"] = np.arange(9), np.arange(8), np.zeros((9, 1 << 19))
        file["there"] = h5py.ExternalLink("other.h5", "/y")
        for name in ("a", "b"):  # each is little, and both are more
            file[name] = np.zeros((9, sizes.WHOLE_BYTES // 9 // 8 - 1))
    with multitables.Streamer(path) as streamer:
        with pytest.raises(multitables.UnsupportedDatasetError, match="differ in length"):
            streamer.get_queue(["x", "short"])
        for paths in (["x", "there"], ["x", "large"], ["a", "b"]):
            with streamer.get_queue(paths, remainder=True) as queue:
                assert not is_whole(queue), paths
                with queue.get() as block:
                    np.testing.assert_array_equal(block[0][:1], 0)
        assert is_whole(streamer.get_queue("a"))
        assert is_whole(streamer.get_queue(["x", "x"]))


def test_what_the_index_says_is_what_was_read(little: Path) -> None:
    with multitables.Streamer(little) as streamer:
        queue = streamer.get_queue("gzip", remainder=True)
        size = little.stat().st_size
        os.truncate(little, 0)  # no later step reads it
        statistics = queue.statistics()
        assert statistics["tasks"] == statistics["readers"][0]["tasks"] == 1
        assert statistics["readers"][0]["chunks"] == 7
        assert size > statistics["readers"][0]["fetched_bytes"] > 0
        queue.close()


def test_damage_is_said_by_the_stream_of_anything(little: Path) -> None:
    with h5py.File(little) as file:
        chunk = file["gzip"].id.get_chunk_info(3)
    with little.open("r+b") as file:
        file.seek(chunk.byte_offset + 5)
        file.write(b"\xff\xff\xff")
    with multitables.Streamer(little) as streamer:
        queue = streamer.get_queue("gzip", remainder=True)
        assert not is_whole(queue)
        assert [queue.get().rows for _ in range(3)] == [(0, 16), (16, 32), (32, 48)]
        with pytest.raises(multitables.CorruptChunkError):
            queue.get()
        assert is_whole(streamer.get_queue("chunked"))


@pytest.mark.parametrize("block_size", [None, 999])
def test_what_takes_longer_to_decode_is_read_by_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block_size: int | None
) -> None:
    path, values = tmp_path / "longer.h5", np.arange(3 << 17).reshape(-1, 128)
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(100, 128), compression=1, shuffle=True)
        chunk = file["x"].id.get_chunk_info(25)
    with multitables.Streamer(path) as streamer:
        queue = streamer.get_queue("x", 0, block_size=block_size, remainder=True)
        assert callable(queue.source._planned)  # the core made it
        assert (n_readers := len(queue.statistics()["readers"])) == min(
            4, machine.available_cores()
        )
        assert queue.statistics()["tasks"] >= n_readers
        blocks, *_ = delivered(queue)
        np.testing.assert_array_equal(np.concatenate([block for _, block in blocks]), values)
        with path.open("r+b") as file:
            file.seek(chunk.byte_offset + 9)
            file.write(b"\xff\xff\xff")
        damaged = []
        for is_other in (False, True):
            if is_other:
                monkeypatch.setattr(start_blocks, "whole_stream", lambda *_: None)
            queue = streamer.get_queue("x", 0, block_size=block_size, remainder=True)
            with pytest.raises(multitables.CorruptChunkError) as said:
                delivered(queue)
            damaged.append((queue.statistics()["blocks_received"], str(said.value)))
    assert damaged[0] == damaged[1]


@pytest.mark.parametrize(
    "options",
    [
        {"rows": slice(8)},
        {"cyclic": True},
        {"read_ahead": 3},
        {"n_procs": 1},
        {"inner": 1},
        {"block_size": 1 << 20, "remainder": True},
    ],
    ids=str,
)
def test_other_options_are_those_of_any_stream(little: Path, options: dict[str, Any]) -> None:
    with multitables.Streamer(little).get_queue("chunked", **options) as queue:
        assert not is_whole(queue)
        with queue.get() as block:
            assert len(block)


def test_nothing_is_waited_for_from_the_disk(little: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(whole_stream, "_rotates", lambda _: True)
    with multitables.Streamer(little).get_queue("chunked") as queue:
        assert not is_whole(queue)
