"""What a `Dataset` gives for an index: h5py's result, or NumPy's where h5py refuses.

Law
---
1. `handle_datasets` says what there is and how it is indexed; h5py reads the same file.
2. Equal means equal in type, dtype, shape and value. Where nothing can be read, both raise.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from handle_datasets import keys, numpys
from handle_oracle import FAILED, Both, tried
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keys import a_key

import multitables

#: Where h5py raises one of these, so do we.
RAISED = (IndexError, KeyError, TypeError, ValueError)


NAMES = [
    "cube", "plain", "lz4", "sums", "bool", "enum", "fixed", "rows", "nested", "padded", "arrays",
    "complex", "grown", "never", "nothing", "scaled", "texts", "ascii", "lists", "refs", "mixed",
    "odd", "paddings", "scalar", "scalar row", "scalar text", "empty",
]  # fmt: skip


def compare(both: Both, name: str, key: Any) -> None:
    """Index a dataset in both ways."""
    ours, theirs = both.ours[name], both.theirs[name]
    want = tried(lambda: theirs[key])
    if want is not FAILED:
        both.same(ours[key], want)
        return
    try:
        got = ours[key]
    except RAISED:
        return
    both.same(np.asarray(got), np.asarray(numpys(theirs, key)))


@pytest.mark.parametrize("name", NAMES)
def test_every_kind_of_index(both: Both, name: str) -> None:
    wrong = []
    for key in keys(both.theirs[name].shape or ()):
        try:
            compare(both, name, key)
        except Exception as error:
            wrong.append(f"{key!r}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def test_all_datasets_are_read(both: Both) -> None:
    assert set(NAMES) == set(both.theirs) - {"time"}


@pytest.mark.parametrize("name", ["cube", "plain", "rows", "arrays", "grown", "texts", "nested"])
@given(data=st.data())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_any_index(both: Both, name: str, data: st.DataObject) -> None:
    compare(both, name, data.draw(a_key(both.theirs[name].shape)))


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        (None, TypeError), (1.5, TypeError), (9, IndexError), (-10, IndexError), ([9], IndexError),
        ("a", ValueError), ((0,) * 4, ValueError), ((..., ...), ValueError),
        (slice(None, None, 0), ValueError), (slice(1.0), TypeError), (np.zeros(5, bool), TypeError),
    ],
)  # fmt: skip
def test_what_is_wrong_raises_as_in_h5py(both: Both, key: Any, kind: type[Exception]) -> None:
    with pytest.raises(kind):
        both.ours["cube"][key]


def test_a_missing_field_is_named(both: Both) -> None:
    for key in ("nope", ("a", "nope"), ["nope"]):
        with pytest.raises(multitables.MissingFieldError, match="'nope'") as found:
            both.ours["rows"][key]
        assert isinstance(found.value, (KeyError, ValueError))


def test_paths_of_fields(both: Both) -> None:
    """h5py has none; they are those of a `Reader`."""
    rows = both.theirs["rows"][...]
    both.array(both.ours["rows"]["n/s"], rows["n"]["s"])
    both.array(both.ours["rows"]["n/x", 3:9:2], rows["n"]["x"][3:9:2])


def test_region_references(both: Both, path: Path, tmp_path: Path) -> None:
    """Boxes, blocks, points, all and nothing, each in the shape that h5py gives."""
    with h5py.File(tmp_path / "regions.h5", "w") as file:
        made = file.create_dataset("x", data=np.arange(60).reshape(6, 10), chunks=(4, 3))
        other = file.create_dataset("y", data=np.arange(6))
        keys = [np.s_[1:4, ::3], np.s_[...], np.s_[2:2], np.s_[0, [1, 5, 6]], made[...] % 7 == 0]
        keys.append(np.s_[:, h5py.MultiBlockSlice(1, 4, 2, 2)])
        refs = [made.regionref[key] for key in keys]
        space = made.id.get_space()
        space.select_hyperslab((0, 0), (2, 2))
        space.select_hyperslab((3, 5), (2, 4), op=h5py.h5s.SELECT_OR)
        refs.append(h5py.h5r.create(made.id, b".", h5py.h5r.DATASET_REGION, space))
        file.create_dataset("refs", data=refs, dtype=h5py.regionref_dtype)
    with Both(tmp_path / "regions.h5") as both:
        for ours, theirs in zip(both.ours["refs"][...], both.theirs["refs"][...], strict=True):
            both.same(both.ours["x"][ours], both.theirs["x"][theirs])
        with pytest.raises(ValueError, match="region"):
            both.ours["y"][both.ours["refs"][0]]
        assert both.ours[both.ours["refs"][0]] == both.ours["x"]
        del other
