"""Files as projects keep what they train on: frames, trajectories, recordings, volumes, molecules.

Law
---
1. A file is a value: the same value gives the same datasets. Values are drawn, most of them in
   steps, so that they deflate.
2. Names, shapes and chunks are those of the field; nothing here knows the readers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from _multitables.benchmark.data.structures import MARK

FRAME = (224, 224, 3)
STEPS = 20  # of a trajectory
IMAGE = (84, 84, 3)
CONFIGURATIONS = 50  # of a molecule
SMALL_BYTES = 2**23  # files below have fields and volumes of fewer points, and short episodes

Options = Mapping[str, Any]


@dataclass(frozen=True)
class LoaderFile:
    """One file of a shape, a name of `WRITERS`; `number` separates files of one shape."""

    shape: str
    number: int
    size_bytes: int
    level: int = 0

    @property
    def name(self) -> str:
        """The name of its file."""
        return f"loaders_{self.shape}_{self.level}_{self.size_bytes}_{self.number}"

    @property
    def needed_bytes(self) -> int:
        """Free bytes the file may need."""
        return 2 * self.size_bytes + 2**25

    def write(self, filename: str) -> None:
        """Write the file."""
        import h5py

        gzip = {"compression": "gzip", "compression_opts": self.level}
        with h5py.File(filename, "w") as file:
            file.attrs[MARK] = repr(self)
            WRITERS[self.shape](self, file, gzip if self.level else {})

    @property
    def rng(self) -> np.random.Generator:
        """Draws this file's values."""
        return np.random.default_rng([self.number, self.level, self.size_bytes])


def _waves_of(rng: np.random.Generator, shape: tuple[int, ...]) -> Any:
    return np.round(rng.standard_normal(shape, np.float32) * 64) / 64


def _clips(made: LoaderFile, file: Any, packed: Options) -> None:
    """Episodes of a world model: frames, and an action for each."""
    rng = made.rng
    shortest = 60 if made.size_bytes >= SMALL_BYTES else 20
    lengths = rng.integers(
        shortest, 2 * shortest + 20, max(2, made.size_bytes // (100 * int(np.prod(FRAME))))
    )
    shape = (int(lengths.sum()), *FRAME)
    pixels = file.create_dataset("pixels", shape, "u1", chunks=(8, *FRAME), **packed)
    first = 0
    for length in lengths.tolist():
        pixels[first : first + length] = rng.integers(0, 256, (length, *FRAME), np.uint8)
        first += length
    file.create_dataset("action", data=rng.standard_normal((len(pixels), 2), np.float32))
    file.create_dataset("ep_len", data=lengths)


def _fluids(made: LoaderFile, file: Any, packed: Options) -> None:
    """Trajectories of a fluid: a scalar and a vector field."""
    side = 256 if made.size_bytes >= SMALL_BYTES else 32
    n = max(1, made.size_bytes // (STEPS * side * side * 3 * 4))
    fields = {"t0_fields/density": (), "t1_fields/velocity": (2,)}
    for path, more in fields.items():
        shape, chunks = (n, STEPS, side, side, *more), (1, 1, side, side, *more)
        found = file.create_dataset(path, shape, "f4", chunks=chunks, **packed)
        for number in range(n):
            found[number] = _waves_of(made.rng, shape[1:])


def _waves(made: LoaderFile, file: Any, packed: Options) -> None:
    """Strain of two gravitational wave detectors."""
    n = max(2**15, made.size_bytes // 8)
    rng = made.rng
    for detector in ("H1", "L1"):
        data = _waves_of(rng, (n,))
        file.create_dataset(f"{detector}/strain", data=data, chunks=(2**14,), **packed)


def _patches(made: LoaderFile, file: Any, packed: Options) -> None:
    """A volume, and the labels of its points."""
    side = 256 if made.size_bytes >= SMALL_BYTES else 128
    shape = (max(48, made.size_bytes // (side * side * 3)), side, side)
    chunks = (32, 64, 64)
    rng = made.rng
    raw = rng.integers(0, 2**9, shape, np.uint16)
    file.create_dataset("raw", data=raw, chunks=chunks, **packed)
    file.create_dataset("label", data=(raw >> 7).astype("u1"), chunks=chunks, **packed)


def _robots(made: LoaderFile, file: Any, packed: Options) -> None:
    """Demonstrations: four datasets each, in the chunks that h5py chooses."""
    rng = made.rng
    for number in range(max(2, made.size_bytes // (100 * int(np.prod(IMAGE))))):
        n, demo = int(rng.integers(60, 140)), f"data/demo_{number}"
        image = rng.integers(0, 16, (n, *IMAGE), np.uint8)
        file.create_dataset(f"{demo}/obs/agentview_image", data=image, **packed)
        for path, width in (("obs/robot0_eef_pos", 3), ("actions", 7), ("rewards", 1)):
            file.create_dataset(f"{demo}/{path}", data=rng.standard_normal((n, width)), **packed)


def _molecules(made: LoaderFile, file: Any, packed: Options) -> None:
    """A group for each molecule, and in it three datasets at three depths."""
    rng = made.rng
    for number in range(max(3, made.size_bytes // (CONFIGURATIONS * 25 * 24))):
        n_atoms, group = int(rng.integers(10, 41)), file.create_group(f"molecule_{number}")
        group["atomic_numbers"] = rng.integers(1, 18, n_atoms, np.int16)
        for path in ("geometry/positions", "geometry/dft/gradients"):
            data = _waves_of(rng, (CONFIGURATIONS, n_atoms, 3))
            group.create_dataset(path, data=data, **packed)


WRITERS: dict[str, Callable[[LoaderFile, Any, Options], None]] = {
    "clips": _clips,
    "fluids": _fluids,
    "waves": _waves,
    "patches": _patches,
    "robots": _robots,
    "molecules": _molecules,
}
