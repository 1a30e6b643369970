"""Numbers that readers convert and scale: what NumPy makes of the same rows.

1. The oracle is NumPy on h5py's arrays; orders are those of `Batches.order`, which other tests hold
   to rows.
2. Where `astype` leaves a result to the machine (floats beyond the range of integers, NaN), it is
   the end of the range, or 0.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import multitables
from _multitables.index.datasets.source import Source
from multitables import OptionsError, UnsupportedDatasetError

INTEGERS = [f"{sign}{size}" for sign in "ui" for size in (1, 2, 4, 8)]
TARGETS = ["f2", "f4", "f8", *INTEGERS]
SOURCES = ["?", *TARGETS, *(f">{one}" for one in TARGETS if one[1] != "1")]
SHUFFLES = [None, "chunks", "window", "full"]
SPECIAL = [np.nan, np.inf, -np.inf, 1e300, -1e300, 65519, 65520, 2.0**-25, -0.5, 255.9, 3e9]


def bfloat16(values: np.ndarray) -> np.ndarray:
    """The upper halves of floats, rounded to even."""
    bits = values.astype("f4").view("u4").astype("u8")
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    return np.where(np.isnan(values), bits >> 16 | 0x40, rounded).astype("u2")


def expected(values: np.ndarray, dtype: str | None, scale: Any) -> np.ndarray:
    """What readers make of values."""
    with np.errstate(all="ignore"):
        if scale is not None:
            inside = np.float64 if dtype == "f8" else np.float32
            mean, std = (np.asarray(one, inside) for one in scale)
            values, dtype = (values.astype(inside) - mean) / std, dtype or "f4"
        if dtype is None:
            return values
        if dtype == "bfloat16":
            return bfloat16(values)
        made = values.astype(dtype)
        if values.dtype.kind == "f" and made.dtype.kind in "iu":
            ends = np.iinfo(made.dtype)
            made[values >= float(ends.max)] = ends.max
            made[values <= float(ends.min)] = ends.min
            made[np.isnan(values)] = 0
        return made


def values_of(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Numbers over the whole range of a type, with those that are special in it."""
    drawn = np.random.default_rng(seed)
    kind = np.dtype(dtype)
    if kind.kind == "f":
        made = drawn.normal(size=shape) * 10.0 ** drawn.integers(-9, 9, shape)
        made.reshape(-1)[: len(SPECIAL)] = SPECIAL[: made.size]
        with np.errstate(over="ignore"):
            return made.astype(kind)
    count = int(np.prod(shape))
    return np.frombuffer(drawn.bytes(count * kind.itemsize), kind).reshape(shape).copy() > 99 \
        if kind.kind == "b" else np.frombuffer(
            drawn.bytes(count * kind.itemsize), kind).reshape(shape)  # fmt: skip


def delivered(batches: multitables.Batches) -> np.ndarray:
    with batches:
        return np.concatenate([batch.copy() for batch in batches])


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    """Draw data, how it is stored, and what is made of it."""
    row = draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=5))
    n = draw(st.integers(1, 40))
    extents = (draw(st.integers(1, min(n, 12))), *(draw(st.integers(1, side)) for side in row))
    chunks = draw(st.sampled_from([None, (extents[0], *row), extents]))
    scale = None
    if draw(st.booleans()):
        own = row[draw(st.integers(0, len(row))) :]
        shape = tuple(side if draw(st.booleans()) else 1 for side in own)
        drawn = np.random.default_rng(draw(st.integers(0, 99)))
        scale = (
            drawn.normal(size=shape) * 50,
            drawn.uniform(0.1, 90, draw(st.sampled_from([shape, ()]))),
        )
    return {
        "values": values_of(draw(st.sampled_from(SOURCES)), (n, *row), draw(st.integers(0, 99))),
        "chunks": chunks,
        "gzip": chunks is not None and draw(st.booleans()),
        "dtype": draw(st.sampled_from([None, "bfloat16", *TARGETS])),
        "scale": scale,
        "unwritten": draw(st.integers(0, n)) if chunks is not None else 0,
    }  # fmt: skip


def written(path: Path, case: dict[str, Any]) -> np.ndarray:
    """Write a case, and return what h5py reads of it."""
    values, skipped = case["values"], case["unwritten"]
    path.unlink(missing_ok=True)
    with h5py.File(path, "w") as file:
        made = file.create_dataset(
            "x", values.shape, values.dtype, chunks=case["chunks"], fillvalue=values.flat[0],
            compression="gzip" if case["gzip"] else None,
        )  # fmt: skip
        if skipped < len(values):
            made[skipped:] = values[skipped:]
        read: np.ndarray = made[()]
        return read


def test_numbers_are_what_numpy_makes_of_them(tmp_path: Path) -> None:
    @settings(max_examples=150)
    @given(cases(), st.sampled_from(SHUFFLES), st.integers(1, 17))
    def check(case: dict[str, Any], shuffle: str | None, batch_size: int) -> None:
        path = tmp_path / "x.h5"
        values = written(path, case)
        dtype, scale = case["dtype"], case["scale"]
        batches = multitables.Streamer(path).get_batches(
            "/x", batch_size, shuffle=shuffle, n_procs=0, dtype=dtype, scale=scale
        )
        order = batches.order()
        wanted = expected(values, dtype, scale)
        got = delivered(batches)
        assert got.dtype == wanted.dtype.newbyteorder("=")
        if dtype == "bfloat16":  # any bits of a NaN
            got, wanted = (np.where(one & 0x7FFF > 0x7F80, 0x7FC0, one) for one in (got, wanted))
        np.testing.assert_array_equal(got, wanted[order])

    check()


@pytest.fixture(scope="module")
def h5(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("casts") / "casts.h5"
    images = np.random.default_rng(1).integers(0, 256, (90, 4, 6, 3), np.uint8)
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=images, chunks=(7, 4, 6, 3), compression="gzip")
        file.create_dataset("cut", data=images, chunks=(7, 3, 4, 2), shuffle=True)
        file["plain"] = images
        file["labels"] = np.arange(90)
        file["names"] = np.array([b"a"] * 90)
        table = np.zeros(90, [("n", "<i4"), ("at", ">f8", (2, 3))])
        table["n"], table["at"] = np.arange(90), np.arange(540).reshape(90, 2, 3) / 7
        file.create_dataset("table", data=table, chunks=(8,))
        layout = h5py.VirtualLayout(images.shape, "u1")
        layout[10:] = h5py.VirtualSource(file["cut"])[:80]
        file.create_virtual_dataset("virtual", layout, fillvalue=9)
    return path


def read(path: Path, name: str) -> np.ndarray:
    with h5py.File(path) as file:
        made: np.ndarray = file[name][()]
        return made


CHANNELS = np.array([100.0, 120, 90]), np.array([50.0, 60, 70])


@pytest.mark.parametrize("name", ["images", "cut", "plain", "virtual"])
@pytest.mark.parametrize("dtype", [None, "f2"])
def test_ranks_and_a_stop_lose_nothing(h5: Path, name: str, dtype: str | None) -> None:
    wanted = expected(read(h5, name), dtype, CHANNELS)
    streamer = multitables.Streamer(h5)
    options: Any = {"shuffle": True, "world_size": 2, "dtype": dtype, "scale": CHANNELS}
    for rank in range(2):
        batches = streamer.get_batches(f"/{name}", 8, rank=rank, n_procs=1, **options)
        order, got = batches.order(), []
        for batch in batches:
            got.append(batch.copy())
            if len(got) == 2:
                break
        state = batches.state_dict()
        batches.close()
        again = streamer.get_batches(f"/{name}", 8, rank=rank, n_procs=2, **options)
        again.load_state_dict(state)
        got.append(delivered(again))
        np.testing.assert_array_equal(np.concatenate(got), wanted[order])


def test_datasets_by_path_and_by_key(h5: Path) -> None:
    paths = {"x": "/images", "y": "/labels", "z": "/names"}
    images, labels = read(h5, "images"), read(h5, "labels")
    for dtype, scale in (
        ({"x": "f2", "/labels": "i4"}, {"x": (1.0, 2.0)}),
        ({"/images": np.float16, "y": np.dtype("i4")}, {"/images": [1, 2]}),
    ):
        with multitables.Streamer(h5).get_batches(
            paths, 30, n_procs=1, dtype=dtype, scale=scale
        ) as batches:
            for at, batch in enumerate(batches):
                part = slice(30 * at, 30 * at + 30)
                np.testing.assert_array_equal(batch["x"], expected(images[part], "f2", (1.0, 2.0)))
                assert (batch["y"].dtype, batch["z"].dtype) == ("i4", "S1")
                np.testing.assert_array_equal(batch["y"], labels[part])


def test_rows_of_which_a_part_is_selected(h5: Path) -> None:
    mean = np.arange(9.0).reshape(3, 3)
    for name in ("cut", "plain"):
        key = np.s_[..., ::-2, 1:6:2, 1] if name == "cut" else np.s_[1, :3, ::-1]
        wanted = (
            read(h5, name)[:, ::-2, 1:6:2, 1] if name == "cut" else read(h5, name)[:, 1, :3, ::-1]
        )
        own = mean[: wanted.shape[1]]
        batches = multitables.Streamer(h5).get_batches(
            f"/{name}", 20, n_procs=0, inner=key, scale=(own, 3)
        )
        np.testing.assert_array_equal(delivered(batches), expected(wanted, None, (own, 3)))


def test_queues_generators_and_tails(h5: Path) -> None:
    streamer, table = multitables.Streamer(h5), read(h5, "table")
    with streamer.get_queue("/table", field="at", dtype="f4", block_size=20) as queue:
        blocks = []
        for guard in queue:
            with guard as block:
                blocks.append(block.copy())
    tail = streamer.get_remainder("/table", 20, field="at", dtype="f4")
    np.testing.assert_array_equal(np.concatenate([*blocks, tail]), table["at"].astype("f4"))
    rows = list(streamer.get_generator("/table", field="n", scale=(5, 2)))
    np.testing.assert_array_equal(rows, expected(table["n"], None, (5, 2)))


@pytest.mark.parametrize("shuffle", [None, "full"])
def test_what_a_library_reads(h5: Path, monkeypatch: pytest.MonkeyPatch, shuffle: Any) -> None:
    monkeypatch.setattr(Source, "_reason", lambda *_: "a test wants it")
    streamer, wanted = multitables.Streamer(h5), read(h5, "cut")[:, 1, 5:0:-1]
    scale = np.arange(15.0).reshape(5, 3), 3
    with streamer.get_batches(
        "/cut",
        20,
        shuffle=shuffle,
        n_procs=1,
        dtype="bfloat16",
        scale=scale,
        inner=np.s_[1, 5:0:-1],
    ) as batches:
        order, iterator = batches.order(), iter(batches)
        got = np.concatenate([batch.copy() for batch in iterator])
        assert iterator.statistics()["library"]
    np.testing.assert_array_equal(got, expected(wanted, "bfloat16", scale)[order])
    with streamer.get_batches("/table", 90, n_procs=1, field="at", dtype="f4") as batches:
        np.testing.assert_array_equal(next(iter(batches)), read(h5, "table")["at"].astype("f4"))


def test_rows_of_several_files_and_damage(h5: Path, tmp_path: Path) -> None:
    other = tmp_path / "other.h5"
    other.write_bytes(h5.read_bytes())
    wanted = expected(np.concatenate([read(h5, "cut")] * 2), "f8", CHANNELS)
    streamer = multitables.Streamer([h5, other])
    batches = streamer.get_batches("/cut", 16, shuffle=True, n_procs=1, dtype="f8", scale=CHANNELS)
    order = batches.order()
    np.testing.assert_array_equal(delivered(batches), wanted[order])
    with h5py.File(other, "r+") as file:
        chunk = file["images"].id.get_chunk_info(2)
    with other.open("r+b") as raw:
        raw.seek(chunk.byte_offset)
        raw.write(bytes(chunk.size))
    batches = multitables.Streamer(other).get_batches(
        "/images", 90, n_procs=1, scale=CHANNELS, skip_damaged=True
    )
    with pytest.warns(multitables.CorruptChunkWarning):
        got = delivered(batches)
    rest = np.delete(read(h5, "images"), np.s_[14:21], axis=0)
    np.testing.assert_array_equal(got, expected(rest, None, CHANNELS))


@pytest.mark.parametrize(
    ("option", "given", "said"),
    [
        ("dtype", "S3", "not a type that numbers"),
        ("dtype", ">f4", "not a type that numbers"),
        ("dtype", "?", "not a type that numbers"),
        ("dtype", "c8", "not a type that numbers"),
        ("dtype", object(), "not a type of numbers"),
        ("dtype", {"/labels": "f4"}, "names no dataset"),
        ("scale", 3, "pair"),
        ("scale", (1, "a"), "numbers"),
        ("scale", (np.zeros(2), np.ones(3)), "fit together"),
        ("scale", (0, [1, 0, 1]), "std of 0"),
        ("scale", (np.nan, 1), "not finite"),
    ],
)
def test_options_that_cannot_work(h5: Path, option: str, given: Any, said: str) -> None:
    for start in ("get_batches", "get_queue"):
        call = getattr(multitables.Streamer(h5), start)
        with pytest.raises(OptionsError, match=said) as caught:
            call("/images", *([5] if start == "get_batches" else []), **{option: given})
        assert caught.value.values["option"] == option


def test_data_that_cannot_be_cast(h5: Path, tmp_path: Path) -> None:
    streamer = multitables.Streamer(h5)
    with pytest.raises(UnsupportedDatasetError, match=r"'/names'.*expected integers.*S1"):
        streamer.get_queue(["/labels", "/names"], dtype="f4")
    with pytest.raises(OptionsError, match=r"does not broadcast.*\(4, 6, 3\), got \(2,\)"):
        streamer.get_queue("/images", scale=([1, 2], 1))
    padded = multitables.Clips(2, pad=1)
    with pytest.raises(OptionsError, match="pad cannot be a number with bfloat16"):
        next(iter(streamer.get_batches("/labels", 3, dtype="bfloat16", sample=padded)))
    ragged = multitables.Ragged("/labels", offsets=[0, 3, 90])
    with pytest.raises(OptionsError, match="scale cannot be given with ragged rows"):
        streamer.get_queue(ragged, scale=(1, 2))
    path = tmp_path / "wide.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", (2, 3), "u1", maxshape=(None, None), chunks=(1, 1 << 26))
    with pytest.raises(OptionsError, match="very many numbers"):
        multitables.Streamer(path).get_queue("/x", scale=([1, 2, 3], 1))


@pytest.mark.parametrize(
    "options",
    [
        {"sample": multitables.Clips(3, every=7)},
        {"sample": multitables.Clips(3, stride=2, pad="edge")},
        {"sample": multitables.Patches((4, 3, 5), pad="reflect")},
        {"sample": multitables.At([3, 9], range(0, 6, 2))},
        {"sample": multitables.Ranges([0, 5], [4, 9])},
        {"weights": np.arange(120)},
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f2", "i8", "bfloat16"])
def test_samples_and_draws_are_cast(tmp_path: Path, options: dict[str, Any], dtype: str) -> None:
    names = [tmp_path / "0.h5", tmp_path / "1.h5"]
    for number, name in enumerate(names):
        data = values_of(np.dtype("u1"), (60, 6, 5), number)
        with h5py.File(name, "w") as file:
            file.create_dataset("x", data=data, chunks=(8, 3, 5), compression="gzip")
    streamer = multitables.Streamer(names)

    def read(**more: Any) -> list[np.ndarray]:
        with streamer.get_batches("x", 7, n_procs=1, seed=1, **options, **more) as batches:
            return [np.array(getattr(batch, "values", batch)) for batch in batches]

    for stored, cast in zip(read(), read(dtype=dtype), strict=True):
        if dtype == "bfloat16":
            cast = (cast.astype("u4") << 16).view("f4")  # noqa: PLW2901
        else:
            assert cast.dtype == dtype
        np.testing.assert_array_equal(cast, stored)
    mean, std = np.arange(5.0), np.arange(1.0, 6.0)
    if dtype == "f4" and "Patches" not in repr(options):
        for stored, scaled in zip(read(), read(scale=(mean, std)), strict=True):
            wanted = (stored.astype("f4") - mean.astype("f4")) / std.astype("f4")
            np.testing.assert_allclose(scaled, wanted, rtol=1e-6)
