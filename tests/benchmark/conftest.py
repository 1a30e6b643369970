"""What every test of the benchmark program runs under: a directory of its own, and a small file.

Law
---
1. Temporary files, results and the current directory are the test's own; signals are as before it.
2. Runs draw no plots and write no Parquet, which takes seconds, unless a test asks for `drawn`.
3. What matplotlib, pyarrow and obstore keep open for themselves is open before the first test.
"""

from __future__ import annotations

import signal
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from obstore.store import MemoryStore
from runs import ENDING, TINY

from _multitables.benchmark.contract import Source
from _multitables.benchmark.data import workloads
from _multitables.benchmark.harness.rounds import summary
from _multitables.benchmark.report import charts, parquet
from _multitables.benchmark.report.tables import Chart, Series


def pytest_collection_finish(session: pytest.Session) -> None:
    of_objects = {"test_benchmark_remote.py", "test_benchmark_shots.py"}
    if of_objects & {item.path.name for item in session.items}:
        MemoryStore().put("object", b"starts obstore's threads")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of old releases about each other, when they are imported
        if charts.can_draw():
            series = [Series("warm up", [("x", summary([1.0]))])]
            charts.draw(Chart("warm_up", "warm up", "x", "y", series, "bars"))
        if parquet.can_write():
            parquet.file_of([{"x": "1"}])


@pytest.fixture(autouse=True)
def _own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Temporary files and results go to the test's own directory; signals are as before."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    handlers = {number: signal.getsignal(number) for number in ENDING}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True)
def _undrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where neither matplotlib nor pyarrow is installed."""
    monkeypatch.setattr(charts, "can_draw", lambda: False)
    monkeypatch.setattr(parquet, "can_write", lambda: False)


@pytest.fixture
def drawn(_undrawn: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plots are drawn; the test is skipped where they cannot be."""
    pytest.importorskip("matplotlib", reason="matplotlib comes with the extra plots")
    monkeypatch.setattr(charts, "can_draw", lambda: True)


@pytest.fixture
def tiny(tmp_path: Path) -> Source:
    """A small compressed file."""
    filename = str(tmp_path / "tiny.h5")
    workloads.write(TINY, filename)
    return Source(filename, workloads.PATH, TINY.rows, TINY.row_bytes)
