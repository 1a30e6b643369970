"""Pictures that readers decode: what Pillow makes of the same bytes.

1. Pictures are compared in the order of rows, which other tests check.
"""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from naive_placing import placed
from pictures import (
    BYTES,
    HEIGHT,
    IMAGE,
    SHUFFLES,
    WIDTH,
    assert_close,
    bad,
    encoded,
    files,
    pixels,
    seen,
    whole,
    write,
)

import multitables
from multitables import ImageError, OptionsError, UnsupportedDatasetError


@pytest.mark.parametrize("how", ["sequences", "strings", "opaque", "field"])
@pytest.mark.parametrize("n_procs", [0, 2])
def test_pictures_are_those_of_pillow(tmp_path: Path, how: str, n_procs: int) -> None:
    stored = files(30)
    write(tmp_path / "x.h5", stored, how)
    streamer = multitables.Streamer(tmp_path / "x.h5")
    field = "image" if how == "field" else None
    queue = streamer.get_queue(
        "/x", n_procs, block_size=8, field=field, remainder=True, decode=IMAGE
    )
    blocks = []
    with queue:
        for guard in queue.iter():
            with guard as block:
                blocks.append(block.copy())
    assert_close(np.concatenate(blocks), stored)
    for shuffle in SHUFFLES:
        batches = streamer.get_batches(
            "/x", 4, shuffle=shuffle, field=field, n_procs=n_procs, decode=IMAGE
        )
        order = batches.order()
        assert_close(whole(batches), [stored[row] for row in order])


def test_pictures_come_with_their_labels_and_go_on_where_they_stopped(tmp_path: Path) -> None:
    stored = files(40)
    write(tmp_path / "x.h5", stored, "sequences")
    streamer = multitables.Streamer(tmp_path / "x.h5")
    paths, decode = {"image": "/x", "label": "/label"}, {"image": IMAGE}

    def batches() -> multitables.Batches:
        return streamer.get_batches(paths, 6, shuffle="full", n_procs=1, decode=decode)

    rest, state = [], None
    with batches() as first:
        for number, batch in enumerate(first):
            assert_close(batch["image"], [stored[row] for row in batch["label"]])
            if number == 2:
                state = first.state_dict()
            elif number > 2:
                rest.append(batch["label"].copy())
    with batches() as again:
        again.load_state_dict(state)
        for batch, labels in zip(again, rest, strict=True):
            np.testing.assert_array_equal(batch["label"], labels)
            assert_close(batch["image"], [stored[row] for row in labels])


def test_channels_and_modes(tmp_path: Path) -> None:
    @settings(max_examples=60)
    @given(
        st.sampled_from(["L", "LA", "RGB", "RGBA", "P", "1"]),
        st.sampled_from(["PNG", "JPEG"]),
        st.sampled_from([1, 3, 4]),
        st.integers(1, 33),
        st.integers(1, 33),
        st.sampled_from(["4:4:4", "4:2:2", "4:2:0"]),
        st.booleans(),
    )
    def check(
        mode: str, kind: str, channels: int, height: int, width: int, sampling: str, is_late: bool
    ) -> None:
        if kind == "JPEG" and mode not in ("L", "RGB"):
            return
        options = {"subsampling": sampling, "progressive": is_late} if kind == "JPEG" else {}
        stored = [encoded(pixels(n, mode, (height, width)), kind, **options) for n in range(3)]
        write(tmp_path / "x.h5", stored, "opaque", chunk=None)
        image = multitables.Image(height, width, channels)
        batches = multitables.Streamer(tmp_path / "x.h5").get_batches(
            "/x", 3, n_procs=0, decode=image
        )
        if channels == 1 and kind == "PNG" and mode in ("RGB", "RGBA", "P"):
            with pytest.raises(ImageError, match="another size"):
                whole(batches)
            return
        if channels == 1 and mode == "RGB":  # Pillow computes brightness from colours
            got = whole(batches)[..., 0].astype(int)
            expected = np.stack([seen(one, 1)[..., 0] for one in stored]).astype(int)
            assert np.abs(got - expected).mean() < 3
            return
        assert_close(whole(batches), stored, channels)

    check()


@pytest.mark.parametrize("how", ["sequences", "strings"])
def test_a_cast_follows(tmp_path: Path, how: str) -> None:
    stored = [encoded(pixels(number), "PNG") for number in range(20)]
    write(tmp_path / "x.h5", stored, how)
    mean, std = np.array([100.0, 90, 80]), np.array([50.0, 40, 30])
    batches = multitables.Streamer(tmp_path / "x.h5").get_batches(
        "/x", 5, n_procs=0, decode=IMAGE, scale=(mean, std)
    )
    expected = np.stack([seen(one) for one in stored]).astype("f4")
    np.testing.assert_array_equal(whole(batches), (expected - mean.astype("f4")) / std.astype("f4"))
    with multitables.Streamer(tmp_path / "x.h5").get_batches(
        {"x": "/x", "label": "/label"}, 5, n_procs=0, decode={"x": IMAGE}, dtype={"label": "f8"}
    ) as both:
        batch = next(iter(both))
        assert (batch["x"].dtype, batch["label"].dtype) == (np.uint8, np.float64)


@pytest.mark.parametrize("kind", ["other", "bomb", "none", "empty", "short jpeg", "short png"])
@pytest.mark.parametrize("how", ["sequences", "strings"])
@pytest.mark.parametrize("shuffle", [None, "window"])
def test_what_is_no_such_picture_is_an_error_with_its_row(
    tmp_path: Path, kind: str, how: str, shuffle: str | None
) -> None:
    stored = files(30)
    stored[17], said = bad(kind)
    write(tmp_path / "x.h5", stored, how)
    batches = multitables.Streamer(tmp_path / "x.h5").get_batches(
        "/x", 4, shuffle=shuffle, n_procs=1, decode=IMAGE
    )
    with pytest.raises(ImageError, match=said) as caught:
        whole(batches)
    assert caught.value.row == 17
    assert caught.value.path == "/x"
    assert "row 17 of '/x'" in str(caught.value)
    rows = np.arange(30) != 17
    batches = multitables.Streamer(tmp_path / "x.h5").get_batches(
        "/x", 4, n_procs=1, decode=IMAGE, rows=rows
    )
    if how == "sequences":  # chunks of strings are decoded whole
        assert_close(whole(batches), [one for n, one in enumerate(stored) if n != 17])


@pytest.mark.parametrize("how", ["sequences", "strings"])
@pytest.mark.parametrize("shuffle", SHUFFLES)
def test_pictures_that_are_not_wanted_are_not_decoded(
    tmp_path: Path, how: str, shuffle: str | None
) -> None:
    stored = files(30)
    stored[17] = bad("none")[0]
    write(tmp_path / "x.h5", stored, how, gzip=False)
    batches = multitables.Streamer(tmp_path / "x.h5").get_batches(
        "/x", 4, shuffle=shuffle, n_procs=1, decode=IMAGE, rows=np.arange(30) != 17
    )
    order = batches.order()
    assert_close(whole(batches), [stored[row] for row in order])


def test_damaged_chunks_are_left_out(tmp_path: Path) -> None:
    stored = files(30)
    stored[17] = bad("other")[0]
    write(tmp_path / "x.h5", stored, "opaque")
    batches = multitables.Streamer(tmp_path / "x.h5").get_batches(
        "/x", 4, n_procs=1, decode=IMAGE, skip_damaged=True
    )
    with pytest.warns(multitables.CorruptChunkWarning, match="row 17"):
        got = whole(batches)
    assert_close(got, [one for n, one in enumerate(stored) if n // 7 != 2])
    assert [type(one) for one in batches.damage] == [ImageError]


def test_rows_that_were_never_written(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file.create_dataset("x", (20,), "S900", chunks=(5,))
        file.create_dataset("y", (20,), BYTES, chunks=(5,))
    streamer = multitables.Streamer(tmp_path / "x.h5")
    nothing = whole(streamer.get_batches("/x", 4, n_procs=1, decode=IMAGE))
    np.testing.assert_array_equal(nothing, np.zeros((20, *IMAGE.shape), np.uint8))
    with pytest.raises(ImageError, match=r"row 0 of '/y'.*no picture"):
        whole(streamer.get_batches("/y", 4, n_procs=1, decode=IMAGE))


def test_what_cannot_be_decoded_is_refused(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["numbers"] = np.zeros((9, 4))
        file["texts"] = ["a"] * 9
        file.create_dataset("words", (9,), h5py.vlen_dtype(np.uint16))
        file["flat"], file["ends"] = np.zeros(9, np.uint8), np.arange(10)
        file["table"] = np.zeros(9, [("a", "S9"), ("b", "i4")])
    streamer = multitables.Streamer(tmp_path / "x.h5")
    for path in ("/numbers", "/texts", "/words", "/table"):
        with pytest.raises(UnsupportedDatasetError, match=re.escape(path)):
            streamer.get_queue(path, decode=IMAGE)
    with pytest.raises(OptionsError, match="decode"):
        streamer.get_queue(multitables.Ragged("/flat", "/ends"), decode=IMAGE)
    for image in ((3, 4), "RGB"):
        with pytest.raises(OptionsError, match="decode"):
            streamer.get_queue("/numbers", decode=image)
    for given_ in ((0, 1), (1, 1.5), (1, 1, 2), (1 << 20, 1 << 20)):
        with pytest.raises(OptionsError):
            multitables.Image(*given_)


def test_several_files_and_virtual_datasets(tmp_path: Path) -> None:
    stored = [encoded(pixels(number), "PNG") for number in range(24)]
    longest = max(map(len, stored))
    names = [tmp_path / f"{number}.h5" for number in range(2)]
    layout = h5py.VirtualLayout((24,), f"S{longest}")
    for number, name in enumerate(names):
        with h5py.File(name, "w") as file:
            some = np.array(stored[12 * number : 12 * number + 12], f"S{longest}")
            file.create_dataset("x", data=some, chunks=(5,))
        layout[12 * number : 12 * number + 12] = h5py.VirtualSource(name, "x", (12,))
    with h5py.File(tmp_path / "all.h5", "w") as file:
        file.create_virtual_dataset("x", layout)
    for of in (names, tmp_path / "all.h5"):
        streamer = multitables.Streamer(of)
        batches = streamer.get_batches("/x", 5, shuffle=True, n_procs=1, decode=IMAGE)
        order = batches.order()
        assert_close(whole(batches), [stored[row] for row in order])
        other = multitables.Image(HEIGHT, WIDTH + 1)
        with pytest.raises(ImageError, match="another size"):
            whole(streamer.get_batches("/x", 5, n_procs=1, decode=other))


@pytest.mark.parametrize("steps", [0, 2])
def test_placed_pictures_of_several_files(tmp_path: Path, steps: int) -> None:
    """Rows, and clips that end with their file, where one picture does not decode."""
    stored = [encoded(pixels(number), "PNG") for number in range(20)]
    names = [tmp_path / f"{number}.h5" for number in range(2)]
    for number, name in enumerate(names):
        some = stored[10 * number : 10 * number + 10]
        write(name, [*some[:4], b"no picture", *some[5:]] if number else some, "sequences")
    starts = [*range(20)] if not steps else [*range(9), *range(10, 19)]
    given = {"crop": (HEIGHT - 3, WIDTH - 5), "flip": "horizontal", "channels": "first"}
    naive = {"crop": {0: HEIGHT - 3, 1: WIDTH - 5}, "flip": (1,), "channels": "first"}
    streamer = multitables.Streamer(names)
    batches = streamer.get_batches(
        "/x", 3, shuffle="full", n_procs=2, seed=4, decode=IMAGE, skip_damaged=True,
        sample=multitables.Clips(steps) if steps else None, **given,
    )  # fmt: skip
    lost = {14} if not steps else {13, 14}
    expected = []
    for number in batches.order():
        rows = [seen(stored[starts[number] + step]) for step in range(max(steps, 1))]
        if starts[number] not in lost:
            made = placed(np.stack(rows), 4, 0, int(number), **naive, before=1)
            expected.append(made if steps else made[0])
    with batches, pytest.warns(multitables.CorruptChunkWarning):
        found = np.concatenate([one.copy() for one in batches])
    np.testing.assert_array_equal(found, np.stack(expected))
