"""Items whose datasets name dimension scales that are deleted, groups or texts.

Law
---
1. An item has its datasets and the other scales, and says of each scale that is missing why.
"""

from __future__ import annotations

import pickle
from pathlib import Path

import h5py
import lost_scales
import numpy as np
import pytest

import multitables

PATTERN = "/items/*/*"
#: A null reference names no scale.
LOST = {how: of for how, of in lost_scales.LOST.items() if how != "null"}


def _check(item: multitables.Item, path: Path, reason: str) -> None:
    with h5py.File(path) as file:
        group = file[f"items/{item.key}"]
        assert list(item) == list(group)
        assert all(np.array_equal(item[name], group[name][()]) for name in item)
        (first, second), (alone,) = item.scales["v"], item.scales["w"]
        assert np.array_equal(second["u"], file["u"][()])
    assert second.missing == {}
    for name, axis in (("v", first), ("w", alone)):
        assert dict(axis) == {}
        (why,) = axis.missing.values()
        assert isinstance(why, multitables.MissingDatasetError)
        assert reason in str(why)
        assert f"axis 0 of '/items/{item.key}/{name}' in '{path}'" in str(why)


@pytest.mark.parametrize("is_indexed", [False, True], ids=["", "indexed"])
@pytest.mark.parametrize("how", LOST)
def test_an_item_has_the_rest(tmp_path: Path, how: str, is_indexed: bool) -> None:
    reference, _ = LOST[how]
    reason = "a deletion" if how == "deleted" else "a group or a named type"
    path = lost_scales.write(tmp_path / "lost.h5", reference)
    if is_indexed:
        multitables.index_file(path, progress=False)
    with multitables.Streamer(path) as streamer:
        items = [item.copy() for item in streamer.get_collection(PATTERN)]
    assert sorted(item.key for item in items) == list(lost_scales.ITEMS)
    for item in items:
        _check(item, path, reason)
        axis = pickle.loads(pickle.dumps(item.scales["v"][0]))
        assert list(map(str, axis.missing.values())) == list(
            map(str, item.scales["v"][0].missing.values())
        )


def test_several_files(tmp_path: Path) -> None:
    reasons = {"deleted": "a deletion", "group": "a group or a named type"}
    paths = {
        how: lost_scales.write(tmp_path / f"{how}.h5", lost_scales.LOST[how][0]) for how in reasons
    }
    with multitables.Streamer(list(paths.values())) as streamer:
        items = list(streamer.get_collection("/items/1/*", by="file"))
    assert len(items) == 2
    for item in items:
        how = Path(item.key).stem
        (why,) = item.scales["w"][0].missing.values()
        assert reasons[how] in str(why)
        assert str(paths[how]) in str(why)
        assert np.array_equal(item.scales["v"][1]["u"], np.arange(4))


def test_a_scale_of_texts(tmp_path: Path) -> None:
    path = lost_scales.write(tmp_path / "lost.h5", lost_scales.TEXTS)
    with multitables.Streamer(path) as streamer:
        for item in streamer.get_collection(PATTERN):
            first, second = item.scales["v"]
            assert list(first["other"]) == [b"a", "bé".encode(), b"c"]
            assert np.array_equal(second["u"], np.arange(4))
            assert first.missing == second.missing == {}


def test_a_scale_that_cannot_be_read(tmp_path: Path) -> None:
    """Its filter is unknown everywhere, and no library is asked."""

    def reference(file: h5py.File) -> h5py.Reference:
        layout = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        layout.set_chunk((3,))
        layout.set_filter(40000, h5py.h5z.FLAG_OPTIONAL, (1,))
        space = h5py.h5s.create_simple((3,))
        h5py.h5d.create(file.id, b"other", h5py.h5t.IEEE_F64LE, space, layout)
        return file["other"].ref

    path = lost_scales.write(tmp_path / "lost.h5", reference)
    with multitables.Streamer(path, trusted=False) as streamer:
        for item in streamer.get_collection(PATTERN):
            _check(item, path, "filter 40000")
