"""Training that is killed at random points and goes on from its last state.

Law
---
1. As a program it is one rank: it loads the states that it is given, and after each step writes
   what came and its state as one line. A line that was cut by the kill did not happen.
2. `Training` starts the ranks, kills all of them, starts them with the last states, and in the end
   counts: every row and sample exactly once in each epoch.
3. A rank reads only after every rank has loaded its state, as a job with a barrier does; so a
   generation has a line of each rank, or has delivered nothing. Ranks of a node go on from the last
   step that all of them took, as a job's checkpoint has it: what came after it did not happen.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import payload
import readings
from moments import MARK, with_mark
from processes import environment

import multitables

EPOCHS = 2
#: How long a rank, or what is left of one, may take.
DEADLINE_SECONDS = 60.0
END_SECONDS = 10.0
N_PARTS = 4


# ---- units


def _rows(batch: Any) -> list[int]:
    first = batch[:, 0] // payload.COLUMNS
    np.testing.assert_array_equal(batch, payload.content(readings.ROWS)[first])
    return [int(row) for row in first]


def _ragged_rows(batch: Any) -> list[int]:
    block, numbers = batch
    for row, number in zip(block, numbers, strict=True):
        np.testing.assert_array_equal(row, readings.ragged_row(int(number)))
    return [int(number) for number in numbers]


def _item(item: Any) -> list[int]:
    number = int(item.key)
    np.testing.assert_array_equal(item["a"], np.arange(300) + 1000 * number)
    return [number]


def _column_rows(block: Any) -> list[int]:
    keys = np.unique(block.index_of_rows()["key"])
    expected = np.concatenate([readings.key_rows(key) for key in keys])
    np.testing.assert_array_equal(block["value"], expected)
    return list(range(*block.rows))


def _batches(path: Any = "/rows", **options: Any) -> Callable[..., Any]:
    """How rows of the numbered file are read, or of another one."""

    def make(names: Any, **more: Any) -> Any:
        given = {"epochs": EPOCHS, "n_procs": 2, "window_rows": 300, **options, **more}
        return multitables.Streamer(names).get_batches(path, 16, **given)

    return make


def _collection(names: Any, **options: Any) -> Any:
    return multitables.Streamer(names).get_collection(
        "/items/*/*", epochs=EPOCHS, n_procs=2, **options
    )


def _columns(names: Any, **options: Any) -> Any:
    given: Any = {"index": "key", "entries_per_block": 8, "n_procs": 2, **options}
    return multitables.Streamer(names).get_columns("table", ["value"], **given)


@dataclass(frozen=True)
class Unit:
    """What a step of the training takes: the files, how they are read, and which rows came."""

    files: tuple[str, ...]
    make: Callable[..., Any]
    rows: Callable[[Any], list[int]]
    n_rows: int = readings.ROWS
    epochs: int = EPOCHS
    ranks: int = 1
    #: Ranks save their states at the same step.
    is_together: bool = False


NUMBERED, COLUMNS = ("numbered.h5",), ("columns.h5",)
RAGGED = [multitables.Ragged("/data", offsets="/ends"), "/number"]
N_KEY_ROWS = sum(len(readings.key_rows(key)) for key in range(readings.KEYS))
UNITS: dict[str, Unit] = {
    "in order": Unit(NUMBERED, _batches(shuffle=None), _rows),
    "chunks": Unit(NUMBERED, _batches(shuffle="chunks"), _rows),
    "window": Unit(NUMBERED, _batches(shuffle="window"), _rows),
    "full": Unit(NUMBERED, _batches(shuffle="full"), _rows),
    "files": Unit(tuple(f"part{n}.h5" for n in range(N_PARTS)), _batches(shuffle="window"), _rows),
    "ragged": Unit(("ragged.h5",), _batches(RAGGED, shuffle="full"), _ragged_rows),
    "items": Unit(("items.h5",), _collection, _item, readings.ITEMS),
    "columns": Unit(COLUMNS, _columns, _column_rows, N_KEY_ROWS, 1),
    "ranks": Unit(NUMBERED, _batches(shuffle="window"), _rows, ranks=2),
    "node": Unit(
        NUMBERED, _batches(shuffle="window", share="node"), _rows, ranks=2, is_together=True
    ),
    "node, full": Unit(
        NUMBERED, _batches(shuffle="full", share="node"), _rows, ranks=2, is_together=True
    ),
    "node, columns": Unit(
        COLUMNS,
        lambda names, **ranks: _columns(names, share="node", **ranks),
        _column_rows,
        N_KEY_ROWS,
        1,
        ranks=2,
        is_together=True,
    ),
}


def write(folder: Path) -> None:
    """Write the files of all units."""
    readings.write(folder)
    rows = np.array_split(payload.content(readings.ROWS), N_PARTS)
    for part, data in enumerate(rows):
        with h5py.File(folder / f"part{part}.h5", "w") as file:
            chunks = (readings.CHUNK, payload.COLUMNS)
            file.create_dataset("rows", data=data, chunks=chunks, **readings.SUM)


# ---- one rank


def rank_main(folder: Path, name: str, rank: int, generation: int) -> None:
    """Train from the states in a file, to the end."""
    unit = UNITS[name]
    states = json.loads((folder / "states").read_text())
    names = [str(folder.parent / file) for file in unit.files]
    log = os.open(folder / f"log{rank}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def say(rows: Sequence[int], state: Any) -> None:
        line = json.dumps({"generation": generation, "rows": rows, "state": state}) + "\n"
        os.write(log, line.encode())

    made = unit.make(names if len(names) > 1 else names[0], rank=rank, world_size=unit.ranks)
    with made:
        if states:
            made.load_state_dict(states)
        say([], made.state_dict())
        (folder / f"ready{generation}.{rank}").touch()
        while not all((folder / f"ready{generation}.{n}").exists() for n in range(unit.ranks)):
            time.sleep(0.001)
        for part in made:
            say(unit.rows(part), made.state_dict())
            del part


# ---- all of them


class Training:
    """Trainings of one unit, killed again and again."""

    def __init__(self, folder: Path, name: str, draw: random.Random) -> None:
        self._name, self._unit, self._draw = name, UNITS[name], draw
        self._folder = folder / name.replace(" ", "-")
        self.kills = 0

    def run(self, kills: int) -> None:
        """Begin trainings, and end them, until they survived this number of kills."""
        while self.kills < kills:
            self._folder.mkdir()
            self._train(kills)
            for file in self._folder.iterdir():
                file.unlink()
            self._folder.rmdir()

    def _train(self, kills: int) -> None:
        states: list[Any] = []
        generation = 0
        while True:
            generation += 1
            (self._folder / "states").write_text(json.dumps(states))
            if self._generation(generation, is_last=self.kills >= kills):
                break
            self.kills += 1
            found = [self._lines(rank) for rank in range(self._unit.ranks)]
            newest = [[x for x in lines if x["generation"] == generation] for lines in found]
            if self._unit.is_together:
                step = min(map(len, newest))
                newest = [lines[:step] for lines in newest]
            for rank, (lines, new) in enumerate(zip(found, newest, strict=True)):
                kept = [x for x in lines if x["generation"] < generation] + new
                text = "".join(json.dumps(line) + "\n" for line in kept)
                (self._folder / f"log{rank}").write_text(text)
            if all(newest):
                states = [lines[-1]["state"] for lines in newest]
        self._check()

    def _generation(self, generation: int, is_last: bool) -> bool:
        """Start the ranks, and kill them at a random point; True if they came to their end."""
        mark = uuid.uuid4().hex
        # A launcher that starts a job again counts so.
        variables = {**environment(), MARK: mark, "TORCHELASTIC_RESTART_COUNT": str(generation)}
        command = [sys.executable, "-W", "error", __file__, str(self._folder), self._name]
        with open(self._folder / "stderr", "wb") as errors:
            ranks = [
                subprocess.Popen(
                    [*command, str(rank), str(generation)],
                    env=variables,
                    stdin=subprocess.DEVNULL,
                    stderr=errors,
                )
                for rank in range(self._unit.ranks)
            ]
        try:
            self._wait(ranks, generation, is_last)
        finally:
            self._draw.shuffle(ranks)
            for process in ranks:
                process.kill()
                time.sleep(self._draw.random() * 0.002)
            ends = {process.wait() for process in ranks}
        said = (self._folder / "stderr").read_text()
        assert ends <= {0, -9}, f"{self._name}: ended with {ends}: {said}"
        assert not said or -9 in ends, f"{self._name}: printed {said}"
        deadline = time.monotonic() + END_SECONDS
        while left := list(with_mark(f"{MARK}={mark}".encode())):
            assert time.monotonic() < deadline, f"{self._name}: still there: {left}"
            time.sleep(0.005)
        return ends == {0}

    def _wait(self, ranks: list[subprocess.Popen[bytes]], generation: int, is_last: bool) -> None:
        """Wait for the random point, or for the end of all."""
        steps = self._draw.randrange(40)
        seconds = self._draw.random() * 0.5 if steps == 0 else self._draw.random() * 0.003
        steps += len(self._lines(0))
        deadline = time.monotonic() + DEADLINE_SECONDS
        while any(process.poll() is None for process in ranks):
            assert time.monotonic() < deadline, f"{self._name}: no end of generation {generation}"
            if not is_last and self._written(0).count(b"\n") >= steps:
                time.sleep(seconds)
                return
            time.sleep(0.002)

    def _lines(self, rank: int) -> list[dict[str, Any]]:
        whole = self._written(rank).rpartition(b"\n")[0]
        return [json.loads(line) for line in whole.splitlines()]

    def _written(self, rank: int) -> bytes:
        path = self._folder / f"log{rank}"
        return path.read_bytes() if path.exists() else b""

    def _check(self) -> None:
        unit, came = self._unit, list[int]()
        for rank in range(unit.ranks):
            own = [row for line in self._lines(rank) for row in line["rows"]]
            came += own
        wanted = dict.fromkeys(range(unit.n_rows), unit.epochs)
        found = Counter(came)
        wrong = {row: found[row] for row in {*wanted, *found} if found[row] != wanted.get(row)}
        assert not wrong, f"{self._name}: rows, and how often they came: {wrong}"
        if unit.ranks == 1:
            for epoch in range(unit.epochs):
                part = came[epoch * unit.n_rows : (epoch + 1) * unit.n_rows]
                assert len(set(part)) == unit.n_rows, f"{self._name}: an epoch has rows of another"


if __name__ == "__main__":
    rank_main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
