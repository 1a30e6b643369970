"""The device sweep: what it plans, how it goes on after an end, and what it makes of its rows.

Law
---
1. Tables are made from made-up rows, and change when these do.
2. Runs are of a few KiB, and nothing is timed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import stored_runs
from hypothesis import given
from hypothesis import strategies as st
from runs import left_behind, rows_of, sweep_arguments

import multitables_benchmark
from _multitables.benchmark import contract
from _multitables.benchmark.contenders.streams import ChildStream, Stream
from _multitables.benchmark.data import workloads
from _multitables.benchmark.harness.results import Kept
from _multitables.benchmark.machine import throttle
from _multitables.benchmark.report.tables import Table, View
from _multitables.benchmark.studies.sweep import cases as sweep_cases
from _multitables.benchmark.studies.sweep import study as device_sweep
from _multitables.benchmark.studies.sweep import views as sweep_views
from _multitables.benchmark.studies.sweep.cases import DATA, KEYS
from _multitables.benchmark.studies.sweep.lines import Readers

SMALL = ("--size=0.001", "--max_procs=1", "--cycles=1")

# ---- the plan


@given(
    fields=st.lists(st.sampled_from(list(DATA)), min_size=1, unique=True),
    complibs=st.lists(st.sampled_from(["blosc", "zlib", "blosc:lz4"]), min_size=1, unique=True),
    levels=st.lists(st.integers(0, 9), min_size=1, unique=True),
)
def test_every_dataset_is_written_once(
    fields: list[str], complibs: list[str], levels: list[int]
) -> None:
    plan = sweep_cases.datasets(fields, complibs, levels, 2**20)
    compressed = len([level for level in levels if level]) * len(complibs)
    assert len(plan) == len(fields) * (compressed + (0 in levels))
    for (_data, complib, level), one in plan.items():
        assert (complib == "none") == (one.complevel == 0)
        assert (one.complib, one.complevel) == (complib, level) or complib == "none"
        assert 0.99 * 2**20 <= one.decoded_bytes <= 2**20


@pytest.mark.parametrize("data", DATA)
def test_real_fields_compress_and_are_the_same_every_time(data: str, tmp_path: Path) -> None:
    (workload,) = sweep_cases.datasets([data], ["zlib"], [3], 2**20).values()
    filename = tmp_path / "x.h5"
    workloads.write(workload, str(filename))
    ratio = workload.decoded_bytes / filename.stat().st_size
    assert ratio > 2 if data != "noise" else ratio < 1.5
    first, second = (next(workloads.slabs(workload)) for _ in range(2))
    assert first.tobytes() == second.tobytes()
    assert len({row.tobytes() for row in first[:64]}) == 64  # so that no order can hide


# ---- runs


def cells_of(rows: Sequence[dict[str, str]], *names: str) -> set[tuple[str, ...]]:
    return {tuple(row[name] for name in names) for row in rows}


def test_each_directory_driver_and_library_has_its_cells(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    words = ["--smoke", "--complib=blosc:lz4", "--complib=zlib", "--complevel=0,3"]
    words += ["--access=queue", "--driver=buffered"]
    for place in places:
        place.mkdir()
        words += ["--directory", str(place)]
    assert multitables_benchmark.main(words) == 0
    rows = rows_of("sweep")
    assert cells_of(rows, "place", "complib", "complevel", "driver", "n_procs") == {
        (str(place), complib, level, "buffered", n)
        for place in places
        for complib, level in (("none", "0"), ("blosc:lz4", "3"), ("zlib", "3"))
        for n in "12"
    }
    out = capsys.readouterr().out
    for place in places:
        assert f" at {place}" in out
        assert list(place.iterdir()) == []
    assert out.count("Direct queue, driver buffered, zlib: MB/s") == 2


def test_real_data_has_numbers_of_storage(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--smoke", "--data=real", "--complevel=3", "--access=queue", "--processes=1"]
    assert multitables_benchmark.main(words) == 0
    rows = rows_of("sweep")
    assert cells_of(rows, "data") == {(data,) for data in DATA}
    for row in rows:
        ratio = float(row["decoded_bytes"]) / float(row["stored_bytes"])
        stored = float(row["stored_mb_per_s"])
        assert float(row["value"]) / stored == pytest.approx(ratio, rel=0.01)
    out = capsys.readouterr().out
    assert "blosc, smooth: MB/s of storage" in out
    assert "blosc: MB/s of storage" not in out


class Counting:
    """Streams that count how often they are checked and timed."""

    def __init__(self, end_after: int | None = None) -> None:
        self.checked: list[str] = []
        self.timed: list[str] = []
        self.end_after = end_after

    def __call__(self, *case: Any) -> Stream:
        counts = self

        class Counted(Stream):
            def check(self) -> contract.Digest:
                counts.checked.append(self.name)
                return super().check()

            def measure(self) -> contract.Sample:
                if len(counts.timed) == counts.end_after:
                    raise KeyboardInterrupt
                counts.timed.append(self.name)
                return contract.Sample.of(0.5, self.source.decoded_bytes)

        return Counted(*case)


def test_a_resumed_sweep_measures_only_the_rest(tmp_path: Path) -> None:
    words = ("--size=0.001", "--max_procs=2", "--cycles=2", "--complevel=0,3")
    first = Counting(end_after=17)
    assert device_sweep.run(sweep_arguments(*words), first) == 130
    assert len(rows_of("sweep")) == 17

    second = Counting()
    assert device_sweep.run(sweep_arguments(*words, "--resume"), second) == 0
    assert len(second.timed) == 24 - 17
    assert len(second.checked) == 6  # the first level was whole
    rows = rows_of("sweep")
    assert len(cells_of(rows, *KEYS, "contender", "round")) == len(rows) == 24

    third = Counting()
    assert device_sweep.run(sweep_arguments(*words, "--resume"), third) == 0
    assert third.checked == third.timed == []
    assert rows_of("sweep") == rows
    assert left_behind(tmp_path) == []


def test_a_sweep_of_another_size_is_not_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    assert device_sweep.run(sweep_arguments(*SMALL), Counting()) == 0
    rows = rows_of("sweep")
    assert multitables_benchmark.main(["--size=0.002", "--resume"]) == 2
    assert "there 0.001, here 0.002" in capsys.readouterr().err
    assert rows_of("sweep") == rows


def test_limits_are_rows_of_their_own(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = []

    @contextmanager
    def limited(_filename: str, bytes_per_second: float) -> Iterator[None]:
        asked.append(bytes_per_second)
        if bytes_per_second > 1e8:
            raise throttle.CannotLimitError("only root may limit a device")
        yield

    monkeypatch.setattr(throttle, "limited", limited)
    words = [*SMALL, "--complevel=0", "--access=queue", "--limit_mb_per_s=50"]
    words += ["--limit_mb_per_s=200"]
    counts = Counting()
    assert device_sweep.run(sweep_arguments(*words), counts) == 0
    assert asked == [50e6, 200e6]
    assert [row["limit_mb_per_s"] for row in rows_of("sweep")] == ["", "50.0"]
    assert len(counts.checked) == 1  # as fast as the device is
    out = capsys.readouterr().out
    assert "limited to 50 MB/s" in out
    left_out = "Not measured: all (noise none 0, 200 MB/s): only root may limit a device"
    assert left_out in out


def test_without_the_direct_vfd_the_sweep_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*SMALL, "--driver=hdf5-direct", "--complevel=0", "--access=queue"]
    assert device_sweep.run(sweep_arguments(*words, "--direct_vfd", "nowhere"), Counting()) == 0
    assert "tools/hdf5_build" in capsys.readouterr().out
    assert cells_of(rows_of("sweep"), "contender") == {("multitables",)}


@pytest.mark.parametrize("warm", [False, True])
def test_the_old_release_reads_through_the_page_cache_without_peers(
    warm: bool, tmp_path: Path
) -> None:
    (workload,) = sweep_cases.datasets(["noise"], ["zlib"], [3], 2**20).values()
    source = contract.Source(str(tmp_path / "x.h5"), workloads.PATH, 1, 1)
    readers = Readers(("queue",), (1, 3), (), {}, warm, False, "/nowhere/python", None)
    found = readers.peers(source, workload, str(tmp_path))
    assert [(one.key["access"], one.key["n_procs"]) for one in found] == [
        *(("queue", n) for n in (1, 3)),
        *(("generator", n) for n in (1, 3)),
    ]
    for one in found:
        assert (one.key["contender"], one.key["driver"]) == ("multitables 2.0.1", "buffered")
        assert isinstance(one.contender, ChildStream)
        assert (one.contender.cold, one.contender.in_order) == (not warm, False)


# ---- what it shows


def row_of(value: float, **changed: Any) -> dict[str, str]:
    row = {
        **stored_runs.sweep_row("noise", "blosc", 3, "multitables", "queue", "direct", 1),
        "cache": "bypassed",
        "round": 0,
        "device_kind": "SATA HDD",
        "value": value,
        "stored_mb_per_s": value / 2,
    }
    return {name: str(text) for name, text in {**row, **changed}.items()}


def shown(*rows: dict[str, str], **more: Any) -> View:
    return sweep_views.views(Kept("sweep", rows, more))[-1]


def cells(table: Table) -> list[list[str]]:
    return [list(row) for row in table.rows]


def test_a_table_has_levels_down_and_processes_across() -> None:
    rates = {("0", "1"): (100, 110, 90), ("0", "2"): (200,), ("3", "1"): (50,)}
    view = shown(
        *(
            row_of(
                rate,
                complevel=level,
                n_procs=n,
                complib="blosc" if level != "0" else "none",
                round=number,
            )
            for (level, n), found in rates.items()
            for number, rate in enumerate(found)
        )
    )
    assert view.heading == "SATA HDD at /data"
    (table,) = view.tables
    assert list(table.header) == ["complevel / processes", "1", "2", "best / 1"]
    assert cells(table) == [["0", "100 (90.0-110)", "200", "2x"], ["3", "50.0", "-", "1x"]]
    (chart,) = view.charts
    assert [series.label for series in chart.series] == ["no compression", "complevel 3"]
    assert [[x for x, _ in series.points] for series in chart.series] == [[1.0, 2.0], [1.0]]


@pytest.mark.parametrize(
    ("rates", "gain"),
    [([100, 180, 190], "1.9x"), ([97, 97, 69], "1x"), ([100, 150, 96, 149], "1.5x")],
)
def test_what_more_processes_bring_stands_behind_the_rates(rates: list[float], gain: str) -> None:
    (table,) = shown(*(row_of(rate, n_procs=n + 1) for n, rate in enumerate(rates))).tables
    assert cells(table) == [["3", *(f"{rate:.3g}{'.0' * (rate < 100)}" for rate in rates), gain]]


def test_of_one_number_of_processes_nothing_follows() -> None:
    for n in (1, 2):
        (table,) = shown(row_of(100, n_procs=n)).tables
        assert list(table.header) == ["complevel / processes", str(n)]


def test_what_failed_stands_in_its_cell() -> None:
    row = row_of(0)
    fault = {name: row[name] for name in (*KEYS, "contender")} | {"fault": "data differs"}
    found = sweep_views.views(Kept("sweep", [row_of(100, n_procs=2)], {"faults": [fault]}))
    assert cells(found[-1].tables[0]) == [["3", "FAILED", "100", "-"]]
    assert "data differs" in found[0].sentences[0]
    only = shown(faults=[fault])
    assert cells(only.tables[0]) == [["3", "FAILED"]]


def test_peers_stand_beside_the_queue_through_the_page_cache() -> None:
    peer = {"contender": "TensorStore", "access": "threads", "driver": "buffered"}
    rows = [
        row_of(900),
        row_of(600, driver="buffered"),
        row_of(300, **peer),
        row_of(400, n_procs=2, **peer),
    ]
    left_out = {"hidefix": {"pip install hidefix": ["noise blosc 3", "noise blosc 9"]}}
    first, view = sweep_views.views(Kept("sweep", rows, {"left_out": left_out}))
    table = view.tables[0]
    head = ["contender", "access", "I/O", "1", "2", "direct queue / it, best of each"]
    assert list(table.header) == head
    assert cells(table) == [
        ["multitables", "queue", "direct", "900", "-", "0.667x"],
        ["multitables", "queue", "buffered", "600", "-", "1x"],
        ["TensorStore", "threads", "buffered", "300", "400", "1.5x"],
    ]
    assert list(first.sentences) == [
        "Not measured: hidefix (noise blosc 3; noise blosc 9): pip install hidefix"
    ]
    assert [chart.kind for chart in view.charts[:2]] == ["bars", "lines"]


def test_the_generator_stands_beside_the_queue() -> None:
    view = shown(row_of(200), row_of(100, access="generator"))
    assert view.tables[1].header[-1] == "best / best of the queue"
    assert cells(view.tables[1]) == [["3", "100", "0.5x"]]


def test_the_published_method_is_no_peer() -> None:
    published = {"contender": "multitables 2.0.1, libhdf5 direct", "driver": "hdf5-direct"}
    view = shown(row_of(200), row_of(100, **published))
    titles = [table.title for table in view.tables]
    assert [title.partition(":")[0] for title in titles] == [
        "Direct queue, driver direct, blosc",
        "multitables 2.0.1, libhdf5 direct",
    ]


def test_peers_without_compression_stand_there_once() -> None:
    rows = []
    for complib, level in (("none", 0), ("blosc", 3), ("zlib", 3)):
        of = {"complib": complib, "complevel": level, "driver": "buffered"}
        rows += [row_of(600, **of), row_of(300, **of, contender="h5py", access="slabs")]
    titles = [table.title for table in shown(*rows).tables if table.title.startswith("Peers")]
    assert [title.split(", ")[1] for title in titles] == ["no compression", "blosc 3", "zlib 3"]


def test_notes_of_the_run_are_shown() -> None:
    found = sweep_views.views(Kept("sweep", [row_of(1)], {"notes": ["no disk"]}))
    assert [view.heading for view in found] == ["Notes", "SATA HDD at /data"]
    assert list(found[0].sentences) == ["no disk"]
