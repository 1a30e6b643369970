"""The recipes for training batches: this library's, and what people use without it.

Law
---
1. A recipe opens everything itself when it is entered, and yields arrays, rows first. Where it
   knows the order of the rows it says so, after the clock has stopped.
2. Each is written as its users write it, in the best way they document; none is given advice that
   another lacks.
3. torch, torchdata, grain, h5py are imported by the recipes that are theirs, inside them.
4. Datasets are plain classes at the top of a module: DataLoader's workers import or inherit them.

`asked` names the file, path, rows, batch_rows, epochs, seed, workers, and the recipe's options.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import numpy as np

TRACKER_SECONDS = 1.0


@dataclass
class Delivery:
    """What a recipe has opened.

    Attributes
    ----------
    batches : iterator of numpy.ndarray
    order : callable
        The rows that `batches` delivers, in order; None where only the recipe knows.
    statistics : callable
        What it says of itself.
    """

    batches: Iterator[Any]
    order: Callable[[], Any] = lambda: None
    statistics: Callable[[], dict[str, Any]] = dict


Recipe = Callable[[Any, dict[str, Any]], AbstractContextManager[Delivery]]


# ---- this library


@contextlib.contextmanager
def stream(library: Any, asked: dict[str, Any]) -> Iterator[Delivery]:
    """The unshuffled stream: blocks of a queue, as many as the epochs have rows."""
    n_rows, n_epochs = asked["rows"], asked["epochs"]
    queue = library.Streamer(asked["filename"]).get_queue(
        asked["path"],
        n_procs=asked["workers"],
        block_size=asked["batch_rows"],
        cyclic=n_epochs > 1,
        remainder=n_epochs == 1,
    )

    def blocks() -> Iterator[Any]:
        left = n_rows * n_epochs if n_epochs > 1 else None
        for guard in queue.iter():
            with guard as block:
                yield block[:left]
                if left is not None:
                    left -= min(left, len(block))
            if left == 0:
                return

    with contextlib.closing(queue):
        yield Delivery(blocks(), lambda: np.tile(np.arange(n_rows), n_epochs))


@contextlib.contextmanager
def batches(library: Any, asked: dict[str, Any]) -> Iterator[Delivery]:
    """`get_batches`, with the options it is asked with."""
    n_epochs = asked["epochs"]
    streamer = library.Streamer(asked["filename"])
    with streamer.get_batches(
        asked["path"],
        asked["batch_rows"],
        n_procs=asked["workers"],
        seed=asked["seed"],
        epochs=n_epochs,
        **asked["options"],
    ) as found:
        yield Delivery(
            iter(found),
            lambda: np.concatenate([found.order(epoch) for epoch in range(n_epochs)]),
            lambda: _plain(found.statistics()),
        )


@contextlib.contextmanager
def torch_dataset(library: Any, asked: dict[str, Any]) -> Iterator[Delivery]:
    """`TorchDataset`, in a DataLoader without workers: its readers are processes."""
    options = {"seed": asked["seed"], "epochs": asked["epochs"], **asked["options"]}
    data = asked["path"], asked["batch_rows"]
    dataset = library.TorchDataset(asked["filename"], *data, n_procs=asked["workers"], **options)

    def order() -> Any:
        with library.Streamer(asked["filename"]).get_batches(*data, **options) as found:
            return np.concatenate([found.order(epoch) for epoch in range(asked["epochs"])])

    loader = _data_loader()(dataset, batch_size=None)
    yield Delivery((batch.numpy() for batch in loader), order)


def _plain(statistics: dict[str, Any]) -> dict[str, Any]:
    """The part of the statistics that the tables show."""
    return {name: statistics[name] for name in ("read_amplification",) if name in statistics}


# ---- torch's DataLoader over h5py, and over an array in a file


class Rows:
    """A map-style dataset over a file that each process opens for itself at its first row."""

    def __init__(self, asked: dict[str, Any]) -> None:
        self._asked = asked
        self._rows: Any = None

    def __len__(self) -> int:
        return int(self._asked["rows"])

    def __getitem__(self, row: Any) -> Any:
        return self.rows[row]

    @property
    def rows(self) -> Any:
        """The open dataset."""
        if self._rows is None:
            self._rows = _h5py_file(self._asked["filename"])[self._asked["path"]]
        return self._rows


def _h5py_file(filename: str) -> Any:
    import h5py

    with contextlib.suppress(ImportError):
        import hdf5plugin  # noqa: F401  (registers filters like blosc)
    return h5py.File(filename, "r")


class ReopenedRows(Rows):
    """The file is opened for each row anew."""

    def __getitem__(self, row: Any) -> Any:
        with _h5py_file(self._asked["filename"]) as file:
            return file[self._asked["path"]][row]


class FancyRows(Rows):
    """A batch is one fancy indexing: sorted, as h5py wants it, and put back into its order."""

    def __getitems__(self, rows: Sequence[int]) -> Any:
        wanted, place = np.unique(rows, return_inverse=True)
        return self.rows[wanted][place]


class SortedRows(Rows):
    """The rows of a batch come sorted, and stay so: one fancy indexing."""

    def __getitems__(self, rows: Any) -> Any:
        return self.rows[rows]


class MappedRows(Rows):
    """Rows of an .npy file that is mapped into memory."""

    def __getitem__(self, row: Any) -> Any:
        return np.array(self.rows[row])

    @property
    def rows(self) -> Any:
        """The mapped array."""
        if self._rows is None:
            self._rows = np.load(self._asked["array_filename"], mmap_mode="r")
        return self._rows


class FancyMappedRows(MappedRows):
    """A batch is one fancy indexing."""

    def __getitems__(self, rows: Sequence[int]) -> Any:
        return self.rows[rows]


def drawn(asked: dict[str, Any]) -> Any:
    """The order of the peers: a permutation of all rows."""
    return np.random.default_rng(asked["seed"]).permutation(asked["rows"])


def _data_loader(module: str = "torch.utils.data", name: str = "DataLoader") -> Any:
    return getattr(importlib.import_module(module), name)


def as_tensor(rows: Any) -> Any:
    """The `collate_fn` of datasets that give whole batches."""
    return importlib.import_module("torch").from_numpy(rows)


def loader(
    dataset: Callable[[dict[str, Any]], Rows], load: Callable[[], Any] = _data_loader
) -> Recipe:
    """A DataLoader that shuffles the rows of `dataset`."""

    @contextlib.contextmanager
    def recipe(_library: Any, asked: dict[str, Any]) -> Iterator[Delivery]:
        rows, order = dataset(asked), drawn(asked)
        found = load()(
            rows,
            batch_size=asked["batch_rows"],
            sampler=order.tolist(),  # what shuffle=True draws, by a seed that is known here
            num_workers=asked["workers"],
            collate_fn=as_tensor if hasattr(rows, "__getitems__") else None,
        )
        yield Delivery((batch.numpy() for batch in found), lambda: order)

    return recipe


def batch_loader(dataset: Callable[[dict[str, Any]], Rows]) -> Recipe:
    """A DataLoader over the batches of this library's order, the rows of each sorted."""

    @contextlib.contextmanager
    def recipe(library: Any, asked: dict[str, Any]) -> Iterator[Delivery]:
        rows = dataset(asked)
        wanted = sorted_batches(library, asked)
        found = _data_loader()(
            rows,
            batch_sampler=wanted,
            num_workers=asked["workers"],
            collate_fn=as_tensor if hasattr(rows, "__getitems__") else None,
        )
        yield Delivery((batch.numpy() for batch in found), lambda: np.concatenate(wanted))

    return recipe


def sorted_batches(library: Any, asked: dict[str, Any]) -> list[Any]:
    """The batches that `get_batches` would deliver, the rows of each in the order of the file."""
    streamer, batch_rows = library.Streamer(asked["filename"]), asked["batch_rows"]
    options = {"seed": asked["seed"], **asked["options"]}
    with streamer.get_batches(asked["path"], batch_rows, **options) as found:
        order = found.order(0)
    return [np.sort(order[at : at + batch_rows]) for at in range(0, len(order), batch_rows)]


@contextlib.contextmanager
def mapped(_library: Any, asked: dict[str, Any]) -> Iterator[Delivery]:
    """NumPy alone: fancy indexing of a mapped array, in this process."""
    rows, order, batch_rows = MappedRows(asked).rows, drawn(asked), asked["batch_rows"]
    found = (rows[order[at : at + batch_rows]] for at in range(0, len(order), batch_rows))
    yield Delivery(found, lambda: order)


@contextlib.contextmanager
def grain(_library: Any, asked: dict[str, Any]) -> Iterator[Delivery]:
    """Grain over the mapped array, by its own shuffle and processes."""
    library = importlib.import_module("grain")
    one_thread = library.ReadOptions(num_threads=1, prefetch_buffer_size=4)  # its best here
    found = (
        library.MapDataset.source(MappedRows(asked))
        .shuffle(seed=asked["seed"])
        .batch(asked["batch_rows"])
        .to_iter_dataset(one_thread)
        .mp_prefetch(library.MultiprocessingOptions(num_workers=asked["workers"]))
    )
    try:
        yield Delivery(iter(found))
    finally:
        _let_tracker_end()


def _let_tracker_end() -> None:
    """Have Python's resource tracker remove the semaphores of processes that ended.

    It does when nobody holds its pipe any more; it would be killed together with this process.
    Where processes still run, they hold it, and what they have mapped is removed with them.
    """
    tracker = importlib.import_module("multiprocessing.resource_tracker")._resource_tracker
    if tracker._fd is None:
        return
    os.close(tracker._fd)
    deadline = time.monotonic() + TRACKER_SECONDS
    while os.waitpid(tracker._pid, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    tracker._fd = tracker._pid = None


RECIPES: dict[str, Recipe] = {
    "queue": stream,
    "batches": batches,
    "torch dataset": torch_dataset,
    "h5py": loader(Rows),
    "h5py reopened": loader(ReopenedRows),
    "h5py fancy": loader(FancyRows),
    "h5py sorted batches": batch_loader(SortedRows),
    "h5py sorted rows": batch_loader(Rows),
    "stateful": loader(
        Rows, lambda: _data_loader("torchdata.stateful_dataloader", "StatefulDataLoader")
    ),
    "npy": loader(MappedRows),
    "npy fancy": loader(FancyMappedRows),
    "npy numpy": mapped,
    "npy grain": grain,
}
