"""Pictures of any length, in the global heaps of files: several files, samples, damage.

1. Pixels are those of Pillow, or of the same pictures stored as numbers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from pictures import (
    BYTES,
    IMAGE,
    SHUFFLES,
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
from multitables import ImageError, UnsupportedDatasetError


def write_several(folder: Path, counts: list[int]) -> tuple[list[Path], list[bytes]]:
    """Write sequences to several files, with as many pictures in each."""
    stored = files(sum(counts))
    names, first = [], 0
    for number, count in enumerate(counts):
        names.append(folder / f"part{number}.h5")
        some = stored[first : first + count]
        first += count
        if some:
            write(names[-1], some, "sequences", chunk=None if number == 1 else 3)
            continue
        with h5py.File(names[-1], "w") as file:
            file.create_dataset("x", (0,), BYTES, maxshape=(None,))
            file["label"] = np.zeros(0, int)
    return names, stored


@pytest.mark.parametrize("n_procs", [0, 2])
@pytest.mark.parametrize("given", ["list", "pattern"])
def test_sequences_of_several_files(tmp_path: Path, n_procs: int, given: str) -> None:
    names, stored = write_several(tmp_path, [9, 4, 0, 13])
    of = names if given == "list" else tmp_path / "part*.h5"
    streamer = multitables.Streamer(of)
    for shuffle in SHUFFLES:
        batches = streamer.get_batches(
            {"x": "/x", "label": "/label"}, 5, shuffle=shuffle, n_procs=n_procs, decode={"x": IMAGE}
        )
        order = batches.order()
        with batches:
            got = [(one["x"].copy(), one["label"].copy()) for one in batches]
        assert_close(np.concatenate([x for x, _ in got]), [stored[row] for row in order])
        labels = np.concatenate([np.arange(n) for n in (9, 4, 0, 13)])
        np.testing.assert_array_equal(np.concatenate([y for _, y in got]), labels[order])
    queue = streamer.get_queue("/x", n_procs, block_size=8, remainder=True, decode=IMAGE)
    blocks = []
    with queue:
        for guard in queue.iter():
            with guard as block:
                blocks.append(block.copy())
    assert_close(np.concatenate(blocks), stored)


def test_sequences_of_joined_datasets_and_ranks(tmp_path: Path) -> None:
    stored = files(20)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, some in (("a", stored[:12]), ("b", stored[12:])):
            made = file.create_dataset(name, (len(some),), BYTES)
            for number, one in enumerate(some):
                made[number] = np.frombuffer(one, np.uint8)
    joined = multitables.Joined(["/a", "/b"])
    got = {}
    for rank in range(2):
        batches = multitables.Streamer(tmp_path / "x.h5").get_batches(
            joined, 3, shuffle=True, rank=rank, world_size=2, n_procs=1, decode=IMAGE
        )
        got |= dict(zip(batches.order().tolist(), whole(batches), strict=True))
    assert_close(np.stack([got[row] for row in range(20)]), stored)


SAMPLES = [
    multitables.Clips(3, stride=2),
    multitables.Clips(4, before=2, pad="edge", mask=True),
    multitables.At([3, 0, 20, 9], [0, 2]),
    multitables.Patches((2,)),
    multitables.Ranges([4, 0, 9], [6, 0, 14]),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("shuffle", [None, True])
@pytest.mark.parametrize("is_several", [False, True])
def test_samples_of_pictures(
    tmp_path: Path, sample: Any, shuffle: bool | None, is_several: bool
) -> None:
    """As of the pixels of the same pictures, stored as numbers."""
    counts = [11, 13] if is_several else [24]
    stored = [encoded(pixels(number), "PNG") for number in range(24)]
    if is_several and isinstance(sample, multitables.Ranges):
        sample = multitables.Ranges([2, 9], [5, 16])
    names, first = [], 0
    for number, count in enumerate(counts):
        names.append(tmp_path / f"{number}.h5")
        some = stored[first : first + count]
        first += count
        write(names[-1], some, "sequences")
        with h5py.File(names[-1], "a") as file:
            file["pixels"] = np.stack([seen(one) for one in some])
    streamer = multitables.Streamer(names)

    def batches(path: str, **options: Any) -> list[Any]:
        with streamer.get_batches(
            path, 3, shuffle=shuffle, n_procs=1, sample=sample, **options
        ) as of:
            return list(of)

    for got, expected in zip(batches("/x", decode=IMAGE), batches("/pixels"), strict=True):
        for one, other in zip(_arrays(got), _arrays(expected), strict=True):
            np.testing.assert_array_equal(one, other)


def _arrays(batch: Any) -> list[np.ndarray]:
    """The arrays of a batch: of samples, with a mask perhaps, or of ranges."""
    if isinstance(batch, multitables.RaggedBlock):
        return [batch.offsets, batch.values]
    return list(batch) if isinstance(batch, tuple) else [batch]


def test_weights_of_pictures(tmp_path: Path) -> None:
    names, stored = write_several(tmp_path, [6, 7])
    weights = np.zeros(13)
    weights[[2, 9]] = 1, 3
    with multitables.Streamer(names).get_batches(
        "/x", 4, n_procs=1, weights=weights, draws=12, decode=IMAGE
    ) as batches:
        got = np.concatenate([one.copy() for one in batches])
    expected = seen(stored[2]), seen(stored[9])
    near = [int(np.argmin([np.abs(one.astype(int) - of).mean() for of in expected])) for one in got]
    assert_close(got, [stored[(2, 9)[at]] for at in near])
    assert set(near) == {0, 1}


@pytest.mark.parametrize("shuffle", SHUFFLES)
@pytest.mark.parametrize("kind", ["other", "none", "short png"])
def test_a_damaged_sequence_is_left_out_alone(
    tmp_path: Path, kind: str, shuffle: str | None
) -> None:
    stored = [encoded(pixels(number), "PNG") for number in range(30)]
    stored[4], stored[22] = bad(kind)[0], bad("none")[0]
    names = [tmp_path / "0.h5", tmp_path / "1.h5"]
    write(names[0], stored[:14], "sequences")
    write(names[1], stored[14:], "sequences")
    for sample, lost in ((None, {4, 22}), (multitables.Clips(2), {3, 4, 21 - 1, 22 - 1})):
        batches = multitables.Streamer(names).get_batches(
            "/x", 4, shuffle=shuffle, n_procs=1, skip_damaged=True, decode=IMAGE, sample=sample,
            epochs=2,
        )  # fmt: skip
        orders = [batches.order(epoch) for epoch in range(2)]
        with pytest.warns(multitables.CorruptChunkWarning) as caught:
            got = whole(batches)
        assert len(caught) == 2
        kept = [number for order in orders for number in order if number not in lost]
        rows = kept
        if sample is not None:  # clips of the second file follow those of the first
            starts = [*range(13), *range(14, 29)]
            rows = [starts[number] + step for number in kept for step in range(2)]
        expected = np.stack([seen(stored[row]) for row in rows])
        np.testing.assert_array_equal(got.reshape(expected.shape), expected)
        places = {(Path(one.filename).name, one.row) for one in batches.damage}
        assert places == {("0.h5", 4), ("1.h5", 8)}


def test_what_is_wrong_in_one_of_several_files_names_it(tmp_path: Path) -> None:
    names, _ = write_several(tmp_path, [6, 7])
    with h5py.File(names[1], "a") as file:
        file["x"][2] = np.frombuffer(bad("none")[0], np.uint8)
    with pytest.raises(ImageError, match=r"row 2 of '/x' in '.*part1.h5'") as caught:
        whole(multitables.Streamer(names).get_batches("/x", 4, n_procs=1, decode=IMAGE))
    assert (caught.value.row, caught.value.filename) == (2, str(names[1]))
    with h5py.File(names[1], "a") as file:
        del file["x"]
        file.create_dataset("x", (7,), h5py.vlen_dtype(np.float32))
        file["y"] = np.zeros(3)
    with pytest.raises(UnsupportedDatasetError, match=r"part1\.h5.* dtype differs"):
        multitables.Streamer(names).get_queue("/x", decode=IMAGE)
    with pytest.raises(multitables.MissingDatasetError, match=r"part0\.h5"):
        multitables.Streamer(names).get_queue({"x": "/x", "y": "/y"}, decode={"x": IMAGE})


@pytest.mark.parametrize("shuffle", [None, "window"])
def test_pictures_of_clips_are_decoded_for_each(tmp_path: Path, shuffle: str | None) -> None:
    write(tmp_path / "x.h5", files(20), "sequences")
    for sample, times in ((multitables.Clips(4), 17 * 4 / 20), (multitables.Clips(4, every=4), 1)):
        with multitables.Streamer(tmp_path / "x.h5").get_batches(
            "/x", 4, n_procs=1, sample=sample, shuffle=shuffle, decode=IMAGE
        ) as batches:
            iterator = iter(batches)
            next(iterator)
            assert iterator.statistics()["read_amplification"] == times
