"""The entry points of the library, each as a function that reads one dataset and compares it.

Law
---
1. An entry point reads every row (a generator: the first ones) and compares it with `same`.
2. It returns why a library read the dataset, "" where the core did, None where nobody tells.
3. `direct` entry points read around the page cache; `fallback` ones have a library read all.
"""

from __future__ import annotations

import itertools
import math
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
from datasets_of_files import Dataset
from oracle import same
from reader_file import at

from _multitables.index.datasets.source import Source
from _multitables.index.files.device import refuses_direct
from multitables import Reader, Streamer

MAX_ROWS_ONE_BY_ONE = 150
REASON = "a test wants it"
Rows = list[tuple[Dataset, Any]]


class EntryPoint(NamedTuple):
    """A way to read a dataset through an open Streamer or Reader."""

    face: type[Streamer | Reader]
    read: Callable[..., str | None]
    options: dict[str, Any]
    direct: bool = False
    fallback: bool = False

    def opened(self, path: Path | str, **options: Any) -> Any:
        options |= {"DRIVER": "H5FD_DIRECT"} if self.direct else {}
        # A Streamer's streams are given the options, and share its readers.
        return self.face(path, **options, **(self.options if self.face is Reader else {}))

    def compared(self, opened: Any, dataset: Dataset, rows: Any) -> str | None:
        """Read and compare a dataset; see the law for what is returned."""
        return self.read(opened, dataset, rows, **(self.options if self.face is Streamer else {}))


def queue(
    streamer: Streamer, dataset: Dataset, rows: np.ndarray, twice: bool = False, **options: Any
) -> str | None:
    told: dict[str, Any] = {}
    odd = min(7, len(rows) // 10) or None
    for size in {None, odd} if twice else {odd}:
        with streamer.get_queue(
            dataset.path, block_size=size, remainder=True, **selected(dataset), **options
        ) as blocks:
            seen = 0
            for guard in blocks:
                with guard as block:
                    assert len(block) <= blocks.block_size
                    same(block, rows[seen : seen + len(block)])
                    seen += len(block)
                del block, guard
            assert seen == len(rows) or not rows.size
            told = blocks.statistics()
    return reason(told) if rows.size else None


def generator(streamer: Streamer, dataset: Dataset, rows: np.ndarray, **options: Any) -> None:
    found = streamer.get_generator(dataset.path, **selected(dataset), **options)
    count = 0
    for row in itertools.islice(found, MAX_ROWS_ONE_BY_ONE):
        assert type(row) is type(rows[count])
        same(np.asarray(row), np.asarray(rows[count]))
        count += 1
    found.close()  # type: ignore[attr-defined]
    assert count == min(MAX_ROWS_ONE_BY_ONE, len(rows)) or not rows.size


def batches(
    streamer: Streamer, dataset: Dataset, wanted: np.ndarray, epochs: int = 1, **options: Any
) -> str | None:
    told: dict[str, Any] = {}
    with streamer.get_batches(
        dataset.path,
        max(33, len(wanted) // 20),
        epochs=epochs,
        window_rows=90,
        **selected(dataset),
        **options,
    ) as made:
        order = np.concatenate([made.order(epoch) for epoch in range(epochs)])
        iterator, seen = iter(made), 0
        for batch in iterator:
            same(batch, wanted[order[seen : seen + len(batch)]])
            seen += len(batch)
            told = iterator.statistics() or told
            del batch
        chosen = np.arange(len(wanted))[options.get("rows") or slice(None)]
        np.testing.assert_array_equal(np.sort(order), np.repeat(chosen, epochs))
        assert seen == len(order)
    return reason(told) if told and wanted.size else None


def parts(streamer: Streamer, dataset: Dataset, wanted: np.ndarray, **options: Any) -> str | None:
    """Some rows, and of their inner axes what a step back and a step on leave."""
    with h5py.File(streamer.filename, "r") as file:
        n_inner = max(0, file[dataset.path].ndim - 1)
    inner = [slice(None, None, -2), slice(1, None)][:n_inner]
    chosen = {"rows": slice(1, None, 3), "inner": tuple(inner) or None}
    rows = wanted[(slice(1, None, 3), *inner)]
    with streamer.get_batches(dataset.path, 17, **chosen, **selected(dataset), **options) as made:
        order, seen, told = made.order() // 3, 0, {}
        iterator = iter(made)
        for batch in iterator:
            same(batch, rows[order[seen : seen + len(batch)]])
            seen += len(batch)
            told = iterator.statistics() or told
            del batch
        assert seen == len(rows)
    return reason(told) if told and rows.size else None


def request(reader: Reader, dataset: Dataset, rows: Any) -> str | None:
    whole = reader.get_dataset(dataset.path)
    before = reader.statistics()
    selection = column_of(whole, dataset)
    for key in boxes(rows.shape):
        same(reader.request(selection[key]).get(), at(rows, key))
    for key in [slice(None, None, 2), len(rows) // 2] if rows.size else []:
        same(reader.request(column_of(whole[key], dataset)).get(), at(rows, key))
    after = reader.statistics()
    if not dataset.field and rows.dtype != object:
        assert (selection.dtype, selection.shape) == (rows.dtype, rows.shape)
    if not rows.size:
        return None
    asked, answered = (after[name] - before[name] for name in ("tasks", "library_requests"))
    assert answered in (0, asked) or dataset.by is None
    for key in points(rows.shape):  # a library reads them where elements are arrays
        same(reader.request(selection[key]).get(), at(rows, key))
    return REASON if answered else ""


def column_of(selection: Any, dataset: Dataset) -> Any:
    for name in dataset.field:
        selection = selection[name]
    return selection


def boxes(shape: tuple[int, ...]) -> Iterator[Any]:
    """Indexes of every kind that are rows, columns and steps."""
    n = shape[0]
    yield slice(None, None, 3)
    yield slice(n - 1, 0, -2)
    if 0 in shape:
        return
    yield -1
    yield [n - 1, 0, n // 2, n - 1]
    yield tuple(slice(extent // 3, None, 2) for extent in shape)
    yield tuple(extent // 2 for extent in shape)
    yield (..., slice(0, 1 + shape[-1] // 2))
    yield (..., slice(None, None, -2))
    if len(shape) > 1:
        yield ([n // 2, 0], ..., slice(shape[-1] // 2, None))


def points(shape: tuple[int, ...]) -> Iterator[Any]:
    """Indexes that name single elements."""
    if len(shape) < 32:  # NumPy takes no more lists
        yield tuple([extent - 1, 0, extent // 2] for extent in shape)
    if math.prod(shape) < 10_000:
        yield np.random.default_rng(shape[0]).random(shape) < 0.2


def selected(dataset: Dataset) -> dict[str, Any]:
    return {"field": "/".join(dataset.field) or None}


def reason(statistics: dict[str, Any]) -> str:
    """Why a library read the stream's only dataset, or ""."""
    if not sum(reader["library_tasks"] for reader in statistics["readers"]):
        return ""
    return str(next(iter(statistics["library"].values()), "the core could not after all"))


def read_all(path: Path | str, rows: Rows, name: str, **open_options: Any) -> None:
    """Read the datasets through one entry point; fail with the names of all that differ."""
    entry, wrong = ENTRY_POINTS[name], []
    if entry.direct and refuses_direct(os.fspath(path)):
        pytest.skip("this file system has no direct I/O")
    with pytest.MonkeyPatch.context() as patch, entry.opened(path, **open_options) as opened:
        if entry.fallback:
            patch.setattr(Source, "_reason", lambda *_: REASON)
            patch.setattr(Source, "_plain", lambda *_: None)
        for dataset, wanted in rows:
            if entry.fallback and dataset.not_by_library:
                continue
            try:
                compare(entry, opened, dataset, wanted)
            except Exception as error:
                wrong.append(f"{dataset}: {type(error).__name__}: {error}")
    assert not wrong, "\n".join(wrong)


def compare(entry: EntryPoint, opened: Any, dataset: Dataset, wanted: Any) -> None:
    error = dataset.refused.get(entry.face)
    if error is not None:
        with pytest.raises(error, match=re.escape(repr(dataset.path))):
            entry.compared(opened, dataset, np.zeros(1))
        return
    told = entry.compared(opened, dataset, wanted)
    if told is None or dataset.by is None:
        return
    if entry.fallback or (dataset.by and entry.face is Reader):
        assert told == REASON
    else:
        assert dataset.by in told if dataset.by else told == ""


ONE, TWO = {"n_procs": 1}, {"n_procs": 2}
WINDOW = {**TWO, "shuffle": "window"}
#: Name -> entry point; a name with two words is that of the second word in another condition.
ENTRY_POINTS = {
    "queue": EntryPoint(Streamer, queue, {**TWO, "twice": True}),
    "generator": EntryPoint(Streamer, generator, ONE),
    "batches": EntryPoint(Streamer, batches, ONE),
    "chunks": EntryPoint(Streamer, batches, {**ONE, "shuffle": "chunks"}),
    "window": EntryPoint(Streamer, batches, {**WINDOW, "epochs": 2}),
    "full": EntryPoint(Streamer, batches, {**ONE, "shuffle": "full"}),
    "parts": EntryPoint(Streamer, parts, WINDOW),
    "request": EntryPoint(Reader, request, ONE),
    "direct queue": EntryPoint(Streamer, queue, ONE, direct=True),
    "direct window": EntryPoint(Streamer, batches, {**WINDOW, "rows": slice(3, None)}, direct=True),
    "fallback queue": EntryPoint(Streamer, queue, ONE, fallback=True),
    "fallback request": EntryPoint(Reader, request, ONE, fallback=True),
}
