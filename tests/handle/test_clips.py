"""`Dataset.clips` and `.patches`: samples by number, as loops over NumPy's array give them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_samples import NaiveClips, NaivePatches

import multitables

N = 120
X = np.arange(N * 3, dtype="<i2").reshape(N, 3)
LENGTHS = [50, 0, 1, 69]


@pytest.fixture(scope="module")
def h5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("clips") / "clips.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=X, chunks=(16, 2), compression="gzip")
        file["lengths"] = LENGTHS
        file["text"] = np.array([b"abc", b"de"] * 10, "S3")
    return path


@given(
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 4), st.sampled_from([None, "edge", -7]),
    st.data(),
)  # fmt: skip
def test_clips_are_those_of_a_loop(
    h5: Path, steps: int, stride: int, every: int, pad: Any, data: st.DataObject
) -> None:
    naive = NaiveClips(LENGTHS, {"x": list(range(steps))}, stride, every, pad is not None)
    made = [naive.sample("x", X, clip, pad) for clip in naive.starts()]
    wanted, inside = (np.array(each) for each in zip(*made, strict=True))
    said: Any = {"stride": stride, "every": every, "pad": pad, "lengths": "/lengths"}
    with multitables.open(h5) as file:
        clips = file["x"].clips(steps, **said)
        assert (len(clips), clips.shape, clips.dtype) == (len(wanted), wanted.shape, X.dtype)
        numbers = st.lists(st.integers(-len(wanted), len(wanted) - 1), max_size=40)
        bounds = st.integers(-len(wanted) - 3, len(wanted) + 3)
        keys = numbers | bounds.flatmap(lambda a: st.builds(slice, st.just(a), bounds, st.just(2)))
        for key in (data.draw(keys), data.draw(st.integers(-len(wanted), len(wanted) - 1))):
            listed = np.array(key, int) if isinstance(key, list) else key
            np.testing.assert_array_equal(clips[key], wanted[listed])
        if pad is not None:
            rows, known = file["x"].clips(steps, mask=True, **said)[:]
            np.testing.assert_array_equal(rows, wanted)
            np.testing.assert_array_equal(known, inside)


def test_what_is_no_clip(h5: Path) -> None:
    with multitables.open(h5) as file:
        clips = file["x"].clips(10)
        for key in (len(clips), -len(clips) - 1, [0, len(clips)], "a", [0.5], [[1]]):
            with pytest.raises(IndexError):
                clips[key]
        assert clips[[]].shape == (0, 10, 3)
        assert clips[np.arange(len(clips)) == 2].tolist() == [X[2:12].tolist()]
        np.testing.assert_array_equal(list(clips)[-1], X[-10:])
        assert file["text"].clips(2)[1].tolist() == [b"de", b"abc"]
        assert "shape (111, 10, 3)" in repr(clips)
        for said in ({"steps": 200}, {"steps": 2, "starts": "uniform"}, {"steps": 0}):
            with pytest.raises(multitables.OptionsError):
                file["x"].clips(**said)


@pytest.mark.parametrize("pad", [None, "reflect", -7])
def test_patches_are_those_of_a_loop(h5: Path, pad: Any) -> None:
    shape, stride = (7, 2), (5, 1)
    wanted = NaivePatches([N], shape, stride, pad).all(X)
    with multitables.open(h5) as file, multitables.Reader(h5, 0) as reader:
        patches = file["x"].patches(shape, stride, pad=pad)
        keys = reader.get_dataset("x").patches(shape, stride, pad=pad)
        assert patches.shape == keys.shape == (len(wanted), *shape)
        assert patches.dtype == keys.dtype == X.dtype
        found = patches[:]
        assert sorted(map(bytes, found)) == sorted(one.tobytes() for one in wanted)
        for key in (3, -1, [5, 2, 5], slice(2, 9, 3), np.arange(len(wanted)) == 4, []):
            np.testing.assert_array_equal(
                patches[key], found[np.array(key, int) if isinstance(key, list) else key]
            )
            request = reader.request(keys[key])
            with request.get_unsafe() as view:
                np.testing.assert_array_equal(view, patches[key])
        clips = reader.get_dataset("x").clips(4, pad=pad and 0, mask=pad is not None)
        expected = file["x"].clips(4, pad=pad and 0, mask=pad is not None)
        got, same = reader.request(clips[[1, -1]]).result(), expected[[1, -1]]
        for one, other in zip(*((each if pad else (each,)) for each in (got, same)), strict=True):
            np.testing.assert_array_equal(one, other)
        with pytest.raises(IndexError, match="no further index"):
            keys[3][0]
        with pytest.raises(TypeError, match="request them"):
            iter(keys)
        assert "SampleKeys" in repr(keys)
        assert "SamplesView" in repr(patches)
        text = file["text"].patches(3)[0]
        assert text.tolist() == [b"abc", b"de", b"abc"]


@given(st.integers(1, 2), st.integers(1, 3), st.integers(1, 2), st.sampled_from([None, "edge", -7]))
def test_clips_along_another_axis(h5: Path, axis: int, steps: int, stride: int, pad: Any) -> None:
    data, span = np.stack([X, X + 1, X * 2, X - 3], axis=axis), (steps - 1) * stride
    extent = data.shape[axis]
    along = np.moveaxis(data, axis, 1)
    wanted = []
    for row in along:
        for start in range(extent if pad is not None else max(0, extent - span)):
            places = start + np.arange(steps) * stride
            made = row[np.minimum(places, extent - 1)].copy()
            if pad == -7:
                made[places >= extent] = pad
            wanted.append(np.moveaxis(made, 0, axis - 1))
    name = h5.parent / f"along{axis}.h5"
    if not name.exists():
        with h5py.File(name, "w") as file:
            file.create_dataset("x", data=data, chunks=(7, 2, 2), compression="gzip")
    if not wanted:
        with multitables.open(name) as file, pytest.raises(multitables.OptionsError, match="fits"):
            file["x"].clips(steps, axis=axis, stride=stride, pad=pad)
        return
    with multitables.open(name) as file:
        clips = file["x"].clips(steps, axis=axis, stride=stride, pad=pad)
        assert clips.shape == np.shape(wanted)
        np.testing.assert_array_equal(clips[:], wanted)
        np.testing.assert_array_equal(clips[-3], wanted[-3])
