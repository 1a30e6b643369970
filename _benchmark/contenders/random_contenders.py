"""Who is measured at random access: readers in a process of their own, and libraries in this one.

Law
---
1. Each is bound to a draw and to the oracle. `check` delivers some of the draw; every figure is
   proved by what was seen while the clock ran.
2. Each library is used in its own best way, as a user must: where it takes no row twice or in any
   order, sorting and putting back is part of its time.
3. It owns no table, no target and no order of measuring.
"""

from __future__ import annotations

import contextlib
import operator
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol, cast

import numpy as np

from _benchmark.contenders import streams
from _benchmark.contenders.random_keys import BATCH_ROWS, Draw, Oracle
from _benchmark.contract import Checked, Source
from _benchmark.harness.child import Child, WrongDataError
from _benchmark.loops import random_loop
from _benchmark.loops.stream_loop import Tick, no_tick

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
    once each.
    """

    source: Source
    is_table: bool
    draw: Draw
    oracle: Oracle

    @property
    def check_draw(self) -> Draw:
        """What is delivered to be checked."""
        most = len(self.draw.batches) if self.draw.kind == "rows" else CHECKED_BATCHES
        return replace(self.draw, batches=self.draw.batches[:most])

    def right(self) -> dict[str, Any]:
        """The digest of what `check` must deliver."""
        return self.oracle.rows(self.check_draw.rows())

    def rate(self, found: dict[str, Any]) -> float:
        """Keys per second of a timed run whose data are right."""
        self.prove(found["digest"], self.oracle.seen(self.draw, found["n_keys"]))
        return float(found["n_keys"] / found["seconds"])

    def microseconds(self, found: dict[str, Any]) -> list[float]:
        """Each latency of a run whose data are right."""
        self.prove(found["digest"], self.oracle.rows(self.draw.rows()))
        return [1e6 * one for one in found["seconds"]]

    def prove(self, found: dict[str, Any], expected: dict[str, Any]) -> None:
        """Raise unless the right rows came in the right order."""
        fault = streams.differs(found, expected, in_order=True)
        if fault:
            raise WrongDataError(fault)


class RandomContender(Checked, Protocol):
    """What the parts ask of everybody."""

    def rate(self, seconds: float) -> float: ...

    def latencies(self) -> list[float]: ...


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
    note : callable
        Is told the chunks that had to be decoded while the clock ran.
    """

    task: Task
    label: str
    python: str
    module_directory: str | None
    n_stages: int
    in_flight: int
    pieces: int = 0
    note: Callable[[int], None] = lambda _misses: None
    in_order: bool = True

    @property
    def name(self) -> str:
        """``multitables x2, stage pool``."""
        return f"{self.label} x{PROCESSES}, {'stage' if self.n_stages else 'default'} pool"

    def _ask(self, verb: str, draw: Draw, **more: Any) -> dict[str, Any]:
        program = random_loop.__file__
        with Child(self.python, self.module_directory, TIMEOUT_SECONDS, program) as child:
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

    def check(self, tick: Tick = no_tick) -> dict[str, Any]:
        """Digest of the rows of some keys."""
        return self._ask("check", self.task.check_draw)

    def rate(self, seconds: float) -> float:
        """Keys per second."""
        found = self._ask("time", self.task.draw, seconds=seconds)
        self.note(found["cache_misses"])
        return self.task.rate(found)

    def latencies(self) -> list[float]:
        """Microseconds of each single request."""
        return self.task.microseconds(self._ask("latency", self.task.draw))


@dataclass(frozen=True)
class LibraryAccess:
    """A library that reads in this process; `open` gives what turns a key into rows."""

    task: Task
    name: str
    open: Open
    in_order: bool = True

    def check(self, tick: Tick = no_tick) -> dict[str, Any]:
        """Digest of the rows of some keys."""
        draw = self.task.check_draw
        with self.open(self.task.source) as read:
            return random_loop.checked(partial(map, read), draw.keys, draw.kind)

    def rate(self, seconds: float) -> float:
        """Keys per second."""
        keys, kind = self.task.draw.keys, self.task.draw.kind
        with self.open(self.task.source) as read:
            deliver = partial(map, read)
            random_loop.warm_up(deliver, keys, seconds * random_loop.WARM_UP)
            return self.task.rate(random_loop.timed(deliver, keys, kind, seconds))

    def latencies(self) -> list[float]:
        """Microseconds of each single row."""
        with self.open(self.task.source) as read:
            return self.task.microseconds(random_loop.latencies(read, self.task.draw.keys))


# ---- h5py and PyTables


@contextlib.contextmanager
def tables_node(source: Source) -> Iterator[Any]:
    """The open dataset."""
    import tables

    with tables.open_file(source.filename, "r") as file:
        yield file.get_node(source.path)


def sorted_once(read: Callable[[Any], Any]) -> Read:
    """Ask for each row once, in rising order, and put the rows into the order wanted."""

    def rows(key: Any) -> Any:
        wanted, place = np.unique(key, return_inverse=True)
        return read(wanted)[place]

    return rows


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
    return sorted_once(lambda wanted: node[wanted, :])


def _opened(
    dataset: Callable[[Source], contextlib.AbstractContextManager[Any]],
    way: Callable[[Any], Read],
) -> Open:
    @contextlib.contextmanager
    def opened(source: Source) -> Iterator[Read]:
        with dataset(source) as found:
            yield way(found)

    return opened


_H5PY, _TABLES = partial(_opened, streams.h5py_dataset), partial(_opened, tables_node)
_index = operator.attrgetter("__getitem__")

# kind of draw -> name -> how it is read
LIBRARIES: dict[str, dict[str, Open]] = {
    "coordinates": {
        "h5py sorted fancy indexing": _H5PY(lambda it: sorted_once(it.__getitem__)),
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


def libraries(task: Task) -> list[RandomContender]:
    """h5py and PyTables at this task."""
    return [LibraryAccess(task, name, way) for name, way in LIBRARIES[task.draw.kind].items()]
