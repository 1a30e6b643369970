"""Who is measured at random access: readers in a process of their own, and libraries in this one.

Law
---
1. Each is bound to a draw and to the oracle. `check` delivers some of the draw; every figure is
   checked by what was seen while the clock ran.
2. Each library is used as its documentation advises. Where it requires sorted, unique rows, sorting
   them and restoring the order is part of its time.
3. It owns no table, no target and no order of measuring.
"""

from __future__ import annotations

import contextlib
import operator
import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import numpy as np

from _multitables.benchmark.contenders import streams
from _multitables.benchmark.contenders.random_keys import BATCH_ROWS, Draw, Oracle
from _multitables.benchmark.contract import (
    Contender,
    Digest,
    Sample,
    Source,
    WrongDataError,
    differs,
)
from _multitables.benchmark.harness.child import Child
from _multitables.benchmark.loops import random_loop

CHECKED_BATCHES = 8
TIMEOUT_SECONDS = 300.0
PROCESSES = 2

#: From a key to its rows.
Read = Callable[[Any], Any]
Open = Callable[[Source], contextlib.AbstractContextManager[Read]]


@dataclass(frozen=True)
class Task:
    """The dataset, what is asked of it, and what is right.

    The coordinates of a Table may be in any order and repeat; PyTables takes those of an array
    once each. Each is timed for `seconds`; None asks for the latency of single requests instead.
    """

    source: Source
    is_table: bool
    draw: Draw
    oracle: Oracle
    seconds: float | None

    @property
    def check_draw(self) -> Draw:
        """What is delivered to be checked."""
        most = len(self.draw.batches) if self.draw.kind == "rows" else CHECKED_BATCHES
        return replace(self.draw, batches=self.draw.batches[:most])

    def right(self) -> Digest:
        """The digest of what `check` must deliver."""
        return self.oracle.rows(self.check_draw.rows())

    def rate(self, found: dict[str, Any]) -> Sample:
        """Requests per second, or of batches MB/s, of a timed run whose data are right."""
        self._need(found["digest"], self.oracle.seen(self.draw, found["n_keys"]))
        rate = float(found["n_keys"] / found["seconds"])
        if self.draw.kind != "rows":
            rate *= self.draw.batch_rows * self.source.row_bytes / 1e6
        return Sample(rate, found)

    def latency(self, found: dict[str, Any]) -> Sample:
        """The median in microseconds, and the 99th percentile, of a run whose data are right."""
        self._need(found["digest"], self.oracle.rows(self.draw.rows()))
        times = [1e6 * one for one in found["seconds"]]
        tail = statistics.quantiles(times, n=100)[98]
        return Sample(statistics.median(times), {"p99_microseconds": tail})

    def _need(self, found: Digest, expected: Digest) -> None:
        """Raise unless the right rows came in the right order."""
        fault = differs(found, expected)
        if fault:
            raise WrongDataError(fault)


@dataclass(frozen=True)
class ReaderAccess:
    """multitables, this or the old release, in a fresh process for every measurement.

    Attributes
    ----------
    n_stages : int
        Of the pool that the requests share; 0: the reader's own memory.
    in_flight : int
        Requests on their way at once.
    pieces : int
        Lists in which the coordinates of a batch are asked for; 0: as one array.
    """

    task: Task
    label: str
    python: str
    module_directory: str | None
    n_stages: int
    in_flight: int
    pieces: int = 0
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """``multitables x2, stage pool``."""
        return f"{self.label} x{PROCESSES}, {'stage' if self.n_stages else 'default'} pool"

    def _ask(self, verb: str, draw: Draw, **more: Any) -> dict[str, Any]:
        place = self.python, self.module_directory
        with Child(*place, TIMEOUT_SECONDS, random_loop, self.label) as child:
            found: dict[str, Any] = child.ask(
                verb=verb,
                filename=os.path.abspath(self.task.source.filename),
                path=self.task.source.path,
                n_procs=PROCESSES,
                kind=draw.kind,
                batches=draw.batches,
                stage_rows=draw.batch_rows,
                n_stages=self.n_stages,
                in_flight=self.in_flight,
                pieces=self.pieces,
                once_each=not self.task.is_table,
                **more,
            )
        return found

    def check(self) -> Digest:
        """Digest of the rows of some keys."""
        return self._ask("check", self.task.check_draw)

    def measure(self) -> Sample:
        """The task's rate or latency."""
        if self.task.seconds is None:
            return self.task.latency(self._ask("latency", self.task.draw))
        return self.task.rate(self._ask("time", self.task.draw, seconds=self.task.seconds))


@dataclass(frozen=True)
class LibraryAccess:
    """A library that reads in this process; `open` gives what turns a key into rows."""

    task: Task
    name: str
    open: Open
    needs: tuple[str, ...] = ()

    def check(self) -> Digest:
        """Digest of the rows of some keys."""
        draw = self.task.check_draw
        with self.open(self.task.source) as read:
            return random_loop.checked(partial(map, read), draw.keys, draw.kind)

    def measure(self) -> Sample:
        """The task's rate or latency."""
        task, keys, seconds = self.task, self.task.draw.keys, self.task.seconds
        with self.open(task.source) as read:
            if seconds is None:
                return task.latency(random_loop.latencies(read, keys))
            deliver = partial(map, read)
            random_loop.warm_up(deliver, keys, seconds * random_loop.WARM_UP)
            return task.rate(random_loop.timed(deliver, keys, task.draw.kind, seconds))


# ---- h5py and PyTables


@contextlib.contextmanager
def tables_node(source: Source) -> Iterator[Any]:
    """The open dataset."""
    import tables

    with tables.open_file(source.filename, "r") as file:
        yield file.get_node(source.path)


def into_room(dataset: Any, fill: Callable[[Any, slice], Any]) -> Read:
    """Read slices into an array that is used again."""
    room = np.zeros((BATCH_ROWS, *dataset.shape[1:]), dataset.dtype)

    def rows(key: slice) -> Any:
        found = room[: key.stop - key.start]
        fill(found, key)
        return found

    return rows


def _coordinates(node: Any) -> Read:
    """Of an array, PyTables reads coordinates as an index."""
    if hasattr(node, "read_coordinates"):
        return cast(Read, node.read_coordinates)
    return random_loop.sorted_once(lambda wanted: node[wanted, :])


def _opened(
    dataset: Callable[[Source], contextlib.AbstractContextManager[Any]],
    recipe: Callable[[Any], Read],
) -> Open:
    @contextlib.contextmanager
    def opened(source: Source) -> Iterator[Read]:
        with dataset(source) as found:
            yield recipe(found)

    return opened


_H5PY, _TABLES = partial(_opened, streams.h5py_dataset), partial(_opened, tables_node)
_index = operator.attrgetter("__getitem__")

# kind of draw -> name -> how it is read
LIBRARIES: dict[str, dict[str, Open]] = {
    "coordinates": {
        "h5py sorted fancy indexing": _H5PY(lambda it: random_loop.sorted_once(it.__getitem__)),
        "PyTables read_coordinates": _TABLES(_coordinates),
    },
    "slices": {
        "h5py slices": _H5PY(_index),
        "h5py read_direct": _H5PY(lambda it: into_room(it, it.read_direct)),
        "PyTables slices": _TABLES(_index),
        "PyTables read(out=)": _TABLES(
            lambda it: into_room(it, lambda out, key: it.read(key.start, key.stop, out=out))
        ),
    },
    "rows": {"h5py index": _H5PY(_index), "PyTables index": _TABLES(_index)},
}


def libraries(task: Task) -> list[Contender]:
    """h5py and PyTables at this task."""
    return [LibraryAccess(task, name, read) for name, read in LIBRARIES[task.draw.kind].items()]
