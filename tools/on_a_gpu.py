"""Batches to a GPU: copies from the pinned ring beside the usual loader, every row checked there.

Law
---
1. A contender delivers batches on the device. The sum of each row is computed there, from the copy,
   and compared with the row's own sum, so a block that was given back too early is seen.
2. Contenders alternate, and medians count. The ring alone, whose batches are only dropped, bounds
   what a copy from it can reach.
3. It ends with status 1 if a row was wrong or missing, and with 2 where torch has no CUDA device.

Usage: ``python tools/on_a_gpu.py [--gib 2] [--rounds 3] [--workers 8] [--folder /tmp]``; it takes
some minutes, and needs torch and h5py.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch

import multitables

#: Torch's types leave these open, or ask for its own class of datasets.
cuda: Any = torch.cuda
DataLoader: Any = torch.utils.data.DataLoader

BATCH = 256
#: Bytes of a row: an image of 224 x 224 x 3.
ROW = (224, 224, 3)
KINDS: dict[str, dict[str, Any]] = {
    "no filter": {},
    "gzip 1": {"compression": "gzip", "compression_opts": 1, "shuffle": True},
}


@dataclass(frozen=True)
class Data:
    """A file, and the sum of each of its rows, on the device."""

    path: Path
    sums: torch.Tensor

    @classmethod
    def written(cls, path: Path, n_rows: int, filters: dict[str, Any]) -> Data:
        """Write rows that compress by half, in chunks of 16, and their numbers."""
        draw = np.random.default_rng(0)
        sums = np.empty(n_rows, "i8")
        with h5py.File(path, "w") as file:
            shape, chunks = (n_rows, *ROW), (16, *ROW)
            images = file.create_dataset("images", shape, "u1", chunks=chunks, **filters)
            for begin in range(0, n_rows, BATCH):
                rows = draw.integers(0, 16, (min(BATCH, n_rows - begin), *ROW), "u1")
                images[begin : begin + len(rows)] = rows
                sums[begin : begin + len(rows)] = rows.sum((1, 2, 3), dtype="i8")
            file["number"] = np.arange(n_rows)
        return cls(path, torch.from_numpy(sums).cuda())


Batches = Iterator[tuple[torch.Tensor, torch.Tensor]]


def pinned(data: Data, copy_stream: bool = False, **options: Any) -> Batches:
    """Copies that begin in the ring itself."""
    paths = ["/images", "/number"]
    with_ring: Any = {"pin_memory": True, **options}
    dataset = multitables.TorchDataset(data.path, paths, BATCH, **with_ring)
    stream = cuda.Stream() if copy_stream else cuda.current_stream()
    if copy_stream:
        dataset.copy_on(stream)
    for batch in DataLoader(dataset, batch_size=None):
        with cuda.stream(stream):
            moved = [tensor.to("cuda", non_blocking=True) for tensor in batch]
        del batch
        if copy_stream:
            cuda.current_stream().wait_stream(stream)
            for tensor in moved:
                tensor.record_stream(cuda.current_stream())
        yield moved[0], moved[1]
    dataset.close()


class Slices:
    """Batches by h5py, in each process of a `DataLoader`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: Any = None
        with h5py.File(path) as file:
            self.n_rows = len(file["images"])

    def __len__(self) -> int:
        return (self.n_rows + BATCH - 1) // BATCH

    def __getitem__(self, number: int) -> Any:
        if self._file is None:
            self._file = h5py.File(self.path)
        rows = slice(number * BATCH, (number + 1) * BATCH)
        return tuple(torch.from_numpy(self._file[name][rows]) for name in ("images", "number"))


def usual(data: Data, workers: int) -> Batches:
    """h5py in processes of a `DataLoader`, which pins what they send."""
    loader = DataLoader(Slices(data.path), batch_size=None, num_workers=workers, pin_memory=True)
    for images, numbers in loader:
        yield images.to("cuda", non_blocking=True), numbers.to("cuda", non_blocking=True)


def contenders(workers: int) -> dict[str, Callable[[Data], Batches]]:
    """Return the contenders by name."""
    return {
        "pin_memory": pinned,
        "pin_memory, copy_on": partial(pinned, copy_stream=True),
        "pin_memory, shuffled": partial(pinned, shuffle=True),
        "not pinned": partial(pinned, pin_memory=False),
        f"h5py + DataLoader, {workers} workers": partial(usual, workers=workers),
    }


def seconds(data: Data, contender: Callable[[Data], Batches]) -> float:
    """Deliver all rows once, check each of them, and return the time."""
    seen = torch.zeros(len(data.sums), dtype=torch.int32, device="cuda")
    wrong = torch.zeros((), dtype=torch.int64, device="cuda")
    begin = time.perf_counter()
    for images, numbers in contender(data):
        sums = images.sum((1, 2, 3), dtype=torch.int64)
        wrong += (sums != data.sums[numbers]).sum()
        seen[numbers] += 1
        del images, numbers
    cuda.synchronize()
    taken = time.perf_counter() - begin
    if wrong.item() or (seen != 1).any().item():
        raise AssertionError(f"{wrong.item()} rows are wrong, {(seen != 1).sum().item()} missing")
    return taken


def ring_alone(data: Data) -> float:
    """Deliver all rows, drop them, and return the time."""
    begin = time.perf_counter()
    batches = multitables.Streamer(data.path).get_batches(["/images", "/number"], BATCH)
    with batches:
        for batch in batches:
            del batch
    return time.perf_counter() - begin


def compare(data: Data, workers: int, rounds: int) -> None:
    """Print the median rate of each contender, after one round that warms all up."""
    times: dict[str, list[float]] = {}
    for number in range(rounds + 1):
        for name, contender in contenders(workers).items():
            taken = seconds(data, contender)
            times.setdefault(name, []).extend([taken] if number else [])
        times.setdefault("the ring alone", []).extend([ring_alone(data)] if number else [])
    size = len(data.sums) * float(np.prod(ROW)) / 1e9
    alone = statistics.median(times["the ring alone"])
    for name, taken_of in times.items():
        median = statistics.median(taken_of)
        print(f"  {name:34} {size / median:7.2f} GB/s, {alone / median:5.2f} of the ring alone")


def main() -> int:
    """Run what the arguments say; return the status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gib", type=float, default=2.0, help="of each file, decoded")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=8, help="of the usual loader")
    parser.add_argument("--folder", type=Path, help="where the files are written")
    given = parser.parse_args()
    if not cuda.is_available():
        print("torch has no CUDA device here")
        return 2
    print(f"{cuda.get_device_name()}, torch {torch.__version__}")
    n_rows = int(given.gib * (1 << 30)) // int(np.prod(ROW))
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for name, filters in KINDS.items():
            data = Data.written(Path(folder, "rows.h5"), n_rows, filters)
            print(f"{name}: {n_rows} rows, {data.path.stat().st_size / 1e9:.2f} GB stored")
            try:
                compare(data, given.workers, given.rounds)
            except AssertionError as error:
                print(f"  {error}")
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
