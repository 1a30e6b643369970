"""Crops, flips and orders of channels: what NumPy makes of the rows with the draws of each sample.

1. The oracle draws by whole numbers (`naive_placing`); orders are those of `Batches.order`, which
   other tests hold to rows. `test_units` has orders, ranks, resume, files and damage.
"""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from naive_placing import placed
from PIL import Image as Picture

import multitables
from _multitables.index.datasets.source import Source
from multitables import At, Clips, OptionsError, Patches, Ranges, Weights

N = 36
SHUFFLES = [None, "chunks", "window", "full"]
HALF = np.dtype([("a", "<i2"), ("at", "<f4", (6, 5)), ("b", "S3")])


def pictures(shape: tuple[int, ...], dtype: Any = "u1") -> np.ndarray:
    """Rows whose elements differ from their neighbours'."""
    made = np.arange(N * int(np.prod(shape)), dtype=np.int64) * 7919 % 65521
    return made.astype(dtype).reshape(N, *shape)


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Draw a dataset, options, and what the oracle makes of them."""
    n_axes = draw(st.integers(1, 4))
    shape = tuple(draw(st.integers(1, 7)) for _ in range(n_axes))
    chunks = draw(st.none() | st.tuples(st.integers(1, 9), *(st.integers(1, n) for n in shape)))
    channels = draw(st.sampled_from([None, "first", "last"])) if n_axes > 1 else None
    options: dict[str, Any] = {"channels": None if channels is None else {"x": channels}}
    crop, flip = dict[int, int](), draw(st.lists(st.integers(0, n_axes - 1), unique=True))
    axes = (1, 2) if (channels, n_axes) == ("last", 3) else (0, 1)
    as_picture = n_axes in (2, 3) and draw(st.booleans())
    for axis in axes if as_picture else range(n_axes):
        if as_picture or draw(st.booleans()):
            crop[axis] = draw(st.integers(1, shape[axis]))
    if as_picture:
        options["crop"] = tuple(crop.values())
    elif crop and (n_axes != 2 or len(crop) == 2):
        options["crop"] = tuple(crop.get(axis) for axis in range(n_axes))
    else:
        crop = {}
    names = dict(zip(axes, ("vertical", "horizontal"), strict=True))
    if flip:
        said = [names.get(one, one) if as_picture else one - n_axes * (one % 2) for one in flip]
        options["flip"] = {"x": tuple(said)}
    return {
        "data": pictures(shape, draw(st.sampled_from(["u1", ">i2", "<f4", "<f8", "S3"]))),
        "chunks": chunks,
        "gzip": chunks is not None and draw(st.booleans()),
        "options": {key: one for key, one in options.items() if one is not None},
        "placing": {"crop": crop, "flip": flip, "channels": channels},
        "shuffle": draw(st.sampled_from(SHUFFLES)),
        "n_procs": draw(st.integers(0, 2)),
        "seed": draw(st.integers(0, 1 << 40)),
    }


def test_rows_are_placed_as_numpy_places_them(tmp_path: Path) -> None:
    @given(cases())
    def check(case: dict[str, Any]) -> None:
        path, data = tmp_path / "drawn.h5", case["data"]
        with h5py.File(path, "w") as file:
            how = {"compression": "gzip"} if case["gzip"] else {}
            file.create_dataset("x", data=data, chunks=case["chunks"], **how)
        if not case["options"]:
            return
        loader: Any = {key: case[key] for key in ("shuffle", "n_procs", "seed")}
        with (
            multitables.Streamer(path) as streamer,
            streamer.get_batches("x", 10, epochs=2, **loader, **case["options"]) as batches,
        ):
            orders = [batches.order(epoch) for epoch in range(2)]
            got = [one.copy() for one in batches]
        rows = [(epoch, row) for epoch, order in enumerate(orders) for row in order.tolist()]
        wanted = [
            placed(data[row], case["seed"], epoch, row, **case["placing"]) for epoch, row in rows
        ]
        assert {one.dtype for one in got} == {data.dtype}
        np.testing.assert_array_equal(np.concatenate(got), np.stack(wanted))

    check()


@pytest.fixture(scope="module")
def h5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("placing") / "placing.h5"
    table = np.zeros(N, HALF)
    table["at"] = pictures((6, 5), "f4")
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=pictures((8, 9, 3)), chunks=(5, 8, 9, 3), compression="gzip")
        file.create_dataset("mask", data=pictures((8, 9), "i4"), chunks=(3, 4, 4))
        file["planes"] = pictures((3, 8, 9), "i2")
        file.create_dataset("table", data=table, chunks=(7,), compression="lzf")
        file["steps"] = pictures((5, 4, 6), "i2")
        file["label"] = np.arange(N)
        file["one"] = pictures((8,), "i2")
        file["lengths"] = np.ones(N, "i8")
    return path


@pytest.fixture
def streamer(h5: Path) -> Any:
    with multitables.Streamer(h5) as made:
        yield made


def read(h5: Path, name: str) -> Any:
    with h5py.File(h5) as file:
        return file[name][()]


def test_datasets_of_one_sample_have_its_draws(h5: Path, streamer: Any) -> None:
    paths = {"x": "x", "mask": "mask", "planes": "planes", "label": "label"}
    with streamer.get_batches(
        paths, 8, crop=(5, 4), flip=("horizontal", "vertical"), seed=9, shuffle=True,
        channels={"x": "first", "planes": "last"}, dtype={"x": "f4"},
        scale={"x": ([1, 2, 3], [4, 5, 6])},
    ) as batches:  # fmt: skip
        got = list(batches)
    mean, std = np.float32([1, 2, 3]), np.float32([4, 5, 6])
    whole = {"x": (read(h5, "x") - mean) / std, "mask": read(h5, "mask")}
    whole["planes"] = read(h5, "planes")
    of = {
        "x": {"crop": {0: 5, 1: 4}, "flip": (1, 0), "channels": "first"},
        "mask": {"crop": {0: 5, 1: 4}, "flip": (1, 0)},
        "planes": {"crop": {1: 5, 2: 4}, "flip": (2, 1), "channels": "last"},
    }
    for batch in got:
        rows = batch["label"].tolist()
        for name, placing in of.items():
            wanted = [placed(whole[name][row], 9, 0, row, **placing) for row in rows]
            np.testing.assert_array_equal(batch[name], wanted)
    assert sorted(row for batch in got for row in batch["label"]) == list(range(N))
    one = {name: batch[0] for name, batch in got[0].items()}
    row = int(one["label"])
    same = placed(read(h5, "mask")[row], 9, 0, row, **of["mask"])
    np.testing.assert_array_equal(one["mask"], same)


@pytest.mark.parametrize("by_library", [False, True])
def test_fields_and_parts_of_rows(
    h5: Path, streamer: Any, monkeypatch: pytest.MonkeyPatch, by_library: bool
) -> None:
    if by_library:
        monkeypatch.setattr(Source, "_reason", lambda *_: "a test wants it")
    of = {"crop": {0: 3, 1: 4}, "flip": (1,)}
    with streamer.get_batches(
        "table", 8, field="at", crop=(3, 4), flip="horizontal", n_procs=1
    ) as batches:
        got = np.concatenate(list(batches))
    at = read(h5, "table")["at"]
    np.testing.assert_array_equal(got, [placed(at[row], 0, 0, row, **of) for row in range(N)])
    for inner in (np.s_[1:7, ::-2], np.s_[:, 4], np.s_[..., 1:]):
        part = read(h5, "x")[(slice(None), *(inner if isinstance(inner, tuple) else (inner,)))]
        options: Any = {"inner": inner, "crop": (2, 1), "flip": 0, "channels": "first"}
        with streamer.get_batches("x", 8, n_procs=1, **options) as batches:
            got = np.concatenate(list(batches))
        channels = "first" if part.ndim == 4 else None
        wanted = [
            placed(one, 0, 0, row, crop={0: 2, 1: 1}, flip=(0,), channels=channels)
            for row, one in enumerate(part)
        ]
        np.testing.assert_array_equal(got, wanted)
    of = {"crop": {0: 3, 1: 3}, "flip": (0,)}
    with streamer.get_batches("mask", 8, crop=3, flip="vertical", n_procs=1) as batches:
        got = np.concatenate(list(batches))
    mask = read(h5, "mask")
    np.testing.assert_array_equal(got, [placed(mask[row], 0, 0, row, **of) for row in range(N)])


@pytest.mark.parametrize("inner", [None, np.s_[::2], np.s_[4:0:-1, 1:]])
def test_clips_within_rows(h5: Path, streamer: Any, inner: Any) -> None:
    steps = read(h5, "steps")
    if inner is not None:
        steps = steps[(slice(None), *(inner if isinstance(inner, tuple) else (inner,)))]
    for stride in (1, 2):
        with streamer.get_batches(
            "steps", 8, sample=Clips(2, axis=1, stride=stride), inner=inner, crop=(3, 2),
            flip="horizontal", seed=1,
        ) as batches:  # fmt: skip
            got = np.concatenate(list(batches))
        clips = [
            steps[row, [at, at + stride]]
            for row in range(N)
            for at in range(steps.shape[1] - stride)
        ]
        wanted = [
            placed(clip, 1, 0, number, crop={0: 3, 1: 2}, flip=(1,), before=1)
            for number, clip in enumerate(clips)
        ]
        np.testing.assert_array_equal(got, wanted)


def test_samples_that_are_drawn_twice_are_placed_twice(h5: Path, streamer: Any) -> None:
    paths, mask = ("mask", "label"), read(h5, "mask")
    weights = Weights((np.arange(N) < 3).astype(float))
    options: Any = {"weights": weights, "draws": 20, "crop": 4, "shuffle": True, "epochs": 3}
    with streamer.get_batches(paths, 5, **options) as batches:
        orders = [batches.order(epoch) for epoch in range(3)]
        got = [(one, int(row)) for both in batches for one, row in zip(*both, strict=True)]
    numbers = [(epoch, number) for epoch in range(3) for number in orders[epoch].tolist()]
    seen = set()
    for (one, row), (epoch, number) in zip(got, numbers, strict=True):
        wanted = placed(mask[row], 0, epoch, number, crop={0: 4, 1: 4})
        np.testing.assert_array_equal(one, wanted)
        seen.add((row, one.tobytes()))
    assert len(seen) > 12


def test_a_run_goes_on_with_its_draws(streamer: Any) -> None:
    options: Any = {"crop": (5, 4), "flip": "horizontal", "shuffle": "window", "epochs": 2}
    with streamer.get_batches("x", 7, **options) as batches:
        everything = [one.copy() for one in batches]
    with streamer.get_batches("x", 7, **options) as batches:
        iterator = iter(batches)
        before = [next(iterator).copy() for _ in range(8)]
        state = json.loads(json.dumps(batches.state_dict()))
    with streamer.get_batches("x", 7, **options) as batches:
        batches.load_state_dict(state)
        rest = [one.copy() for one in batches]
    assert list(map(bytes, before + rest)) == list(map(bytes, everything))
    assert bytes(everything[0]) != bytes(everything[6])
    for other in ({"crop": (5, 5)}, {"flip": "vertical"}, {"channels": "first"}, {"crop": None}):
        with (
            streamer.get_batches("x", 7, **{**options, **other}) as batches,
            pytest.raises(OptionsError, match="placing was"),
        ):
            batches.load_state_dict(state)
    with (
        streamer.get_batches("x", 7, shuffle="window", epochs=2) as batches,
        pytest.raises(OptionsError, match="was"),
    ):
        batches.load_state_dict(state)


def test_a_mixture_has_rows_of_both(h5: Path, streamer: Any) -> None:
    sources = [streamer.get_batches("mask", 6, crop=4, flip="vertical", epochs=None, seed=seed)
               for seed in (1, 2)]  # fmt: skip
    mask = read(h5, "mask")
    of = {"crop": {0: 4, 1: 4}, "flip": (0,)}
    known = {
        bytes(placed(mask[row], seed, epoch, row, **of))
        for seed in (1, 2) for epoch in range(3) for row in range(N)
    }  # fmt: skip
    with multitables.Mixture([(one, 1) for one in sources], within=True, draws=12) as mixture:
        rows = np.concatenate(list(mixture))
    assert rows.shape == (72, 4, 4)
    assert all(bytes(row) in known for row in rows)


def test_rows_of_a_subset(h5: Path, streamer: Any) -> None:
    chosen = np.arange(N) % 3 == 1
    with streamer.get_batches("mask", 5, rows=chosen, crop=(2, 3), shuffle=True) as batches:
        order = batches.order()
        got = np.concatenate(list(batches))
    mask = read(h5, "mask")
    wanted = [placed(mask[row], 0, 0, row, crop={0: 2, 1: 3}) for row in order.tolist()]
    assert sorted(order.tolist()) == np.flatnonzero(chosen).tolist()
    np.testing.assert_array_equal(got, wanted)


# ---- several datasets in one array


@st.composite
def arrays(draw: st.DrawFn) -> dict[str, Any]:
    """Draw datasets, the axis that they get, clips of them, and how they are placed."""
    shape = tuple(draw(st.lists(st.integers(1, 6), max_size=3)))
    sample, steps = None, np.arange(1)
    if draw(st.booleans()):
        n, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        sample = Clips(n, stride=stride, pad=draw(st.sampled_from([-1, "edge"])))
        steps = np.arange(n) * stride
    n_axes = 2 + len(shape) + (sample is not None)
    axis = draw(st.integers(1, n_axes - 1))
    crop = {at: draw(st.integers(1, extent)) for at, extent in enumerate(shape)}
    is_cropped = len(shape) in (1, 3) and draw(st.booleans())
    chunks = draw(st.none() | st.tuples(st.integers(1, 9), *(st.integers(1, n) for n in shape)))
    options: dict[str, Any] = {"into": axis - n_axes * draw(st.integers(0, 1)), "sample": sample}
    if is_cropped:
        options["crop"] = tuple(crop.values())
    return {
        "shape": shape, "chunks": chunks, "steps": steps, "axis": axis, "options": options,
        "crop": crop if is_cropped else {}, "n": draw(st.integers(1, 4)),
        "shuffle": draw(st.sampled_from(SHUFFLES)), "n_procs": draw(st.integers(0, 2)),
        "by_library": draw(st.booleans()),
    }  # fmt: skip


def test_datasets_lie_in_one_array(tmp_path: Path) -> None:
    @given(arrays())
    def check(case: dict[str, Any]) -> None:
        path, whole = tmp_path / "arrays.h5", pictures((case["n"], *case["shape"]), "<i4")
        names = [f"d{at}" for at in range(case["n"])]
        with h5py.File(path, "w") as file:
            for at, name in enumerate(names):
                file.create_dataset(name, data=whole[:, at], chunks=case["chunks"])
        with (
            pytest.MonkeyPatch.context() as patched,
            multitables.Streamer(path) as streamer,
        ):
            if case["by_library"]:
                patched.setattr(Source, "_reason", lambda *_: "a test wants it")
            options: Any = {
                **case["options"],
                "n_procs": max(int(case["by_library"]), case["n_procs"]),
            }
            with streamer.get_batches(names, 10, shuffle=case["shuffle"], **options) as batches:
                order = batches.order().tolist()
                got = np.concatenate([one.copy() for one in batches])
        np.testing.assert_array_equal(got, [in_one_array(case, whole, row) for row in order])

    check()


def in_one_array(case: dict[str, Any], whole: np.ndarray, row: int) -> np.ndarray:
    """A row, or a clip that begins there, as it is in the array."""
    sample, rows = case["options"]["sample"], row + case["steps"]
    made = []
    for at in range(case["n"]):
        one = placed(whole[np.minimum(rows, N - 1), at], 0, 0, row, crop=case["crop"], before=1)
        if sample is not None and sample.pad == -1:
            one = np.where((rows < N).reshape(-1, *(1,) * (one.ndim - 1)), one, -1)
        made.append(one if sample is not None else one[0])
    return np.stack(made, case["axis"] - 1)


@pytest.mark.parametrize("inner", [None, np.s_[::2], np.s_[4:0:-2, :, 1]])
@pytest.mark.parametrize("axis", [1, 2, -1])
def test_clips_within_rows_in_one_array(h5: Path, streamer: Any, inner: Any, axis: int) -> None:
    steps = read(h5, "steps")
    if inner is not None:
        steps = steps[(slice(None), *(inner if isinstance(inner, tuple) else (inner,)))]
    for stride in (1, 2):
        with streamer.get_batches(
            ("steps", "steps"), 8, sample=Clips(2, axis=1, stride=stride, pad=5, mask=True),
            inner=inner, into=axis,
        ) as batches:  # fmt: skip
            both = list(batches)
        padded = np.concatenate([steps, np.full_like(steps[:, :stride], 5)], 1)
        n = steps.shape[1]
        clips = [padded[row, [at, at + stride]] for row in range(N) for at in range(n)]
        wanted = np.stack([clips, clips], axis)
        np.testing.assert_array_equal(np.concatenate([one for one, _ in both]), wanted)
        inside = [[True, at + stride < n] for _ in range(N) for at in range(n)]
        np.testing.assert_array_equal(np.concatenate([one for _, one in both]), inside)


# ---- pictures that readers decode


@pytest.mark.parametrize("how", ["sequences", "opaque"])
@pytest.mark.parametrize("n_procs", [0, 2])
def test_pictures_are_placed(tmp_path: Path, how: str, n_procs: int) -> None:
    pixels, files = pictures((12, 10, 3)), []
    for one in pixels:
        made = io.BytesIO()
        Picture.fromarray(one).save(made, "png")
        files.append(made.getvalue())
    path = tmp_path / "pictures.h5"
    with h5py.File(path, "w") as file:
        if how == "sequences":
            x = file.create_dataset("x", (N,), h5py.vlen_dtype("u1"), chunks=(7,))
            for row, one in enumerate(files):
                x[row] = np.frombuffer(one, "u1")
        else:
            longest = max(map(len, files))
            padded = np.array([one.ljust(longest, b"\0") for one in files], f"V{longest}")
            file.create_dataset("x", data=padded, chunks=(7,))
        file.create_dataset("mask", data=pixels[..., 0], chunks=(4, 5, 4), compression="gzip")
    of: dict[str, Any] = {"crop": {0: 7, 1: 6}, "flip": (1,)}
    with (
        multitables.Streamer(path) as streamer,
        streamer.get_batches(
            {"x": "x", "mask": "mask"}, 8, decode={"x": multitables.Image(12, 10)},
            crop=(7, 6), flip="horizontal", channels={"x": "first"}, dtype={"x": "f4"},
            shuffle="full", epochs=2, n_procs=n_procs, seed=4,
        ) as batches,
        streamer.get_batches(
            {"x": "x", "mask": "mask", "z": "x"}, 8, channels={"x": "first", "z": "first"},
            decode={"x": multitables.Image(12, 10), "z": multitables.Image(12, 10)},
            into={"both": ("z", "x")}, n_procs=n_procs,
        ) as together,
    ):  # fmt: skip
        orders = np.concatenate([batches.order(epoch) for epoch in range(2)])
        got = [{name: one.copy() for name, one in batch.items()} for batch in batches]
        both = [(batch["both"].copy(), batch["mask"].copy()) for batch in together]
    whole = np.concatenate([one for one, _ in both])
    np.testing.assert_array_equal(whole, np.stack([pixels.transpose(0, 3, 1, 2)] * 2, 1))
    np.testing.assert_array_equal(np.concatenate([one for _, one in both]), pixels[..., 0])
    x, mask = (np.concatenate([one[name] for one in got]) for name in ("x", "mask"))
    assert x.dtype == "f4"
    for number, row in enumerate(orders.tolist()):
        wanted = placed(pixels[row], 4, number // N, row, channels="first", **of)
        np.testing.assert_array_equal(x[number], wanted)
        np.testing.assert_array_equal(
            mask[number], placed(pixels[row, ..., 0], 4, number // N, row, **of)
        )


# ---- what cannot be


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"crop": (9, 4)}, r"crop is larger than a row of '/x'.*at most 8 along axis 0 of \(8, 9, 3\)"),
    ({"crop": 0}, "crop is out of range"),
    ({"crop": (None, None)}, "crop has no extent"),
    ({"crop": "all"}, "crop must be a whole number"),
    ({"crop": {"y": 3}}, "crop names no dataset"),
    ({"crop": {"x": (2, 2, 2, 2)}}, r"crop=\(2, 2, 2, 2\) does not fit rows of '/x'"),
    ({"crop": (2, 2, 2, 2)}, "crop changes no dataset"),
    ({"flip": "sideways"}, "flip is no axis"),
    ({"flip": ()}, "flip names no axis"),
    ({"flip": True}, "flip is no axis"),
    ({"flip": {"x": 3}}, "flip=3 does not fit rows of '/x'"),
    ({"flip": (1, "horizontal")}, "names an axis of '/x' twice"),
    ({"channels": "middle"}, "channels must be 'first' or 'last'"),
    ({"into": 0}, "into must be an axis"),
    ({"into": True}, "into must be an axis"),
    ({"into": 5}, "into must be below the 5 axes"),
    ({"into": -5}, "into must be below the 5 axes"),
    ({"into": "x"}, "into must be an axis"),
    ({"into": {"all": ("x",)}}, "into names no key, or one twice"),
    ({"into": 1, "sample": Patches((4, 4))}, "into cannot be given with Patches"),
    ({"crop": 2, "sample": Patches((4, 4, 4))}, "crop cannot be given with Patches"),
    ({"flip": 0, "sample": At([[0, 0]], (2, 2))}, "flip cannot be given with boxes"),
    ({"flip": 0, "sample": Ranges([0], [2])}, "flip cannot be given with Ranges"),
    ({"channels": "last", "sample": Clips(2, axis=2)}, "channels cannot be given with clips along"),
]


@pytest.mark.parametrize(("options", "text"), WRONG, ids=str)
def test_what_cannot_be_is_named(streamer: Any, options: dict[str, Any], text: str) -> None:
    with pytest.raises(OptionsError, match=text) as caught:  # noqa: SIM117
        with streamer.get_batches("x", 8, **options) as batches:
            next(iter(batches))
    assert caught.value.advice


def test_ragged_rows_and_rows_of_no_picture(streamer: Any, tmp_path: Path) -> None:
    pair = multitables.Ragged("one", lengths="lengths")
    for path, options, text in [
        ({"x": "x", "r": pair}, {"crop": 3}, "crop cannot be given with ragged rows"),
        (("label", "one"), {"flip": "vertical"}, "flip changes no dataset"),
        (("x", "mask"), {"into": 1}, "'/mask' and '/x' cannot lie in one array"),
        ({"a": "mask", "b": "mask"}, {"into": 1, "dtype": {"b": "f4"}}, "expected int32 of shape"),
        ({"x": "x", "m": "mask"}, {"into": {"m": ("x",)}}, "needs names beside the keys ['m']"),
        ({"x": "x", "m": "mask"}, {"into": {"a": ("x", "x")}}, "names no key, or one twice"),
        ({"x": "x", "m": "mask"}, {"into": {"a": "x"}}, "must have a sequence of keys"),
        ({"x": "x", "m": "mask"}, {"into": {}}, "needs names"),
        ({"x": "x", "r": pair}, {"into": 1}, "into cannot be given with ragged rows"),
        ({"x": "x", "y": "label"}, {"channels": {"y": "first"}}, "two axes or more"),
    ]:
        with pytest.raises(OptionsError, match=re.escape(text)):  # noqa: SIM117
            with streamer.get_batches(path, 8, **options) as batches:
                next(iter(batches))
    with h5py.File(tmp_path / "axes.h5", "w") as file:
        file["x"] = np.zeros((2, *(1,) * 8, 3))
        file["nothing"] = np.zeros((2, 0, 3))
    with multitables.Streamer(tmp_path / "axes.h5") as other:
        with (
            other.get_batches("x", 2, flip=8) as batches,
            pytest.raises(OptionsError, match="at most 8 axes"),
        ):
            next(iter(batches))
        with other.get_batches(("x", "nothing"), 2, flip=0) as batches:
            assert [one.shape for one in next(iter(batches))] == [
                (2, *(1,) * 8, 3),
                (2, 0, 3),
            ]  # without elements
