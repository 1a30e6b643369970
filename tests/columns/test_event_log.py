"""Time stamps of loops.

1. Each part is read and then computed, in the order of time, and nothing else is different.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import table_files
from table_files import SEQ

import multitables
from _multitables.parent import event_log


def test_a_loop_of_columns(tmp_path: Path) -> None:
    path = table_files.write(tmp_path / "a.h5")
    log = multitables.EventLog(rank=3)
    with multitables.Streamer(path) as streamer:
        blocks = streamer.get_columns("rec.slc", index=SEQ, entries_per_block=300, n_procs=1)
        rows = [block.n_rows for block in log.over(blocks)]
    log.add("reduced")
    assert sum(rows) == len(table_files.columns_of(path, "rec.slc")[SEQ])
    table = log.table()
    parts = [event for _ in rows for event in ("read", "computed")]
    assert table["event"].tolist() == ["start", "opened", *parts, "finished", "reduced"]
    assert table["part"][2:-2].tolist() == [n for n in range(len(rows)) for _ in range(2)]
    assert set(table["rank"].tolist()) == {3}
    assert np.all(np.diff(table["time"]) >= 0)
    log.save(tmp_path / "events.csv")
    with open(tmp_path / "events.csv", encoding="utf-8", newline="") as saved:
        lines = list(csv.reader(saved))
    assert lines[0] == ["rank", "event", "part", "time"]
    assert [line[1] for line in lines[1:]] == table["event"].tolist()
    assert repr(log) == f"<EventLog of rank 3: {len(table)} events>"


def test_a_loop_that_is_left_is_finished() -> None:
    log = multitables.EventLog()
    loop = log.over(range(5))
    assert next(loop) == 0
    loop.close()  # type: ignore[attr-defined]
    assert log.table()["event"].tolist() == ["start", "opened", "read", "finished"]


def test_the_latest_parts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_log, "MOST", 6)
    log = multitables.EventLog()
    assert list(log.over("abcdef")) == list("abcdef")
    table = log.table()
    assert table["event"].tolist()[:2] == ["start", "opened"]
    assert table["part"].tolist() == [-1, -1, 3, 3, 4, 4, 5, 5, -1]
