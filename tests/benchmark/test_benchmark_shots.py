"""The study of shots: its batches, its columns, its cases, and what its rows show.

Law
---
1. Dask runs where it is installed, and objects are read where there is a server.
2. Nothing here is timed, and no figure is compared with another.
"""

from __future__ import annotations

import csv
import dataclasses
import importlib.util
import itertools
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from runs import hide_module, left_behind, rows_of

import multitables_benchmark
from _multitables.benchmark.contenders import shots_contenders as people
from _multitables.benchmark.contract import Sample, WrongDataError
from _multitables.benchmark.data import shots
from _multitables.benchmark.data.shots import LAYOUTS, ShotsFile
from _multitables.benchmark.harness.results import Kept
from _multitables.benchmark.loops import remote_clock, shots_loop, stream_loop
from _multitables.benchmark.objects import server
from _multitables.benchmark.report import published
from _multitables.benchmark.studies import arguments
from _multitables.benchmark.studies.shots import cases, study, views
from _multitables.benchmark.studies.shots.cases import COLUMNS, Options, PublishedFiles, ShotsCases

SHOTS = ShotsFile("shots", 3, 6, "signal")
HAS_DASK = importlib.util.find_spec("distributed") is not None


@pytest.fixture(scope="module")
def filename(tmp_path_factory: pytest.TempPathFactory) -> str:
    return shots.in_directory(SHOTS, str(tmp_path_factory.mktemp("shots")))


def asked(filename: str, access: str, buffer_bytes: int = 0, **more: Any) -> dict[str, Any]:
    """A request to the published method."""
    return {
        "verb": "check",
        "driver": "file",
        "url": filename,
        "store": {},
        "access": access,
        "file": {"page_buf_size": buffer_bytes} if buffer_bytes else {},
        "gathers": False,
        **more,
    }


# ---- the published method


def test_batches_as_published_and_as_described() -> None:
    def sizes(n_keys: int, n_procs: int, as_described: bool) -> list[int]:
        keys = [str(number) for number in range(n_keys)]
        found = shots_loop.batches(keys, n_procs, as_described)
        assert list(itertools.chain(*found)) == keys
        return [len(one) for one in found]

    assert sizes(500, 8, False) == [63] * 7 + [59]  # as in the published file
    assert sizes(62, 16, False) == [4] * 15 + [2]
    assert sizes(16, 16, False) == [2] * 8  # which is half of the processes
    assert sizes(16, 16, True) == [1] * 16
    assert sizes(62, 4, True) == [15, 16, 15, 16]
    assert sizes(3, 16, True) == [1, 1, 1]


@pytest.mark.parametrize("access", people.ACCESSES)
def test_the_published_method_reads_what_is_there(filename: str, access: str) -> None:
    right = people.items_of(filename, people.wildcard_of(access))
    groups = shots_loop.gathered(asked(filename, access))
    assert groups == right.groups
    record, hashes = shots_loop.read_batch(asked(filename, access), groups)
    assert stream_loop.summed_up(hashes)["any_order"] == right.digest["any_order"]
    _, counts = shots_loop.read_batch(asked(filename, access, verb="time"), groups)
    assert counts == right.counts
    assert record["num-dsets"] == 2 * 3 * 6  # a scale is read again for each signal
    assert record["wrkr-num-objs"] == len(groups) == (3 if access == "shots" else 6)
    assert record["pb-size"] == 0
    assert set(record) | {"worker#", "num-workers"} == set(COLUMNS["local"][:9])
    _, datasets = shots_loop.read_batch(asked(filename, access, gathers=True), groups)
    seen = remote_clock.Seen(True)
    for name, values in datasets:
        seen.see(name, values)
    np.testing.assert_array_equal(seen.result(), hashes)


def test_what_is_timed_looks_for_no_names(filename: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """HDF5 would search the whole file for each, and the published program needs none."""
    right, request = people.items_of(filename, 0), asked(filename, "shots", verb="time")
    groups = shots_loop.gathered(request)
    monkeypatch.setattr(h5py.Dataset, "name", property(lambda _dataset: pytest.fail("a name")))
    _, counts = shots_loop.read_batch(request, groups)
    assert counts == right.counts


def test_a_page_buffer_is_counted(filename: str) -> None:
    request = asked(filename, "shots", 2 * shots.PAGE_BYTES)
    record, _ = shots_loop.read_batch(request, shots_loop.gathered(request))
    assert record["pb-size"] == 2 * shots.PAGE_BYTES
    assert record["pb-raw-accesses"] > 0
    assert 0 < record["pb-meta-hitrate"] <= 100
    assert set(record) < set(COLUMNS["local"])


def test_what_the_study_published() -> None:
    rows = published.figures(views.__file__)
    totals = [row for row in rows if row["quantity"] == "tot-runtime"]
    assert {row["processes"] for row in totals} == {"1", "2", "4", "8", "16"}
    assert len({views.of(row) for row in totals}) == len(totals) == (3 + 2) * 4 * 5
    assert all(row["source"] for row in rows)
    found = {views.of(row): float(row["value"]) for row in totals}
    assert found["local", "0", "shot", "shots", "1"] == 66.7
    assert found["s3", "264000000", "shot", "signals", "16"] == 225.9


# ---- cases and files


def options(**more: Any) -> Options:
    """The study's own parameters."""
    given: dict[str, Any] = {
        "where": study.WHERE,
        "page_buffer": (0, 64_000_000, 264_000_000),
        "processes": (1, 2, 4, 8, 16),
        "access": people.ACCESSES,
        "layout": LAYOUTS,
        "plan": "random",
        "as_described": False,
        "gather": False,
        "latency_ms": 20.0,
        "n_shots": 500,
        "n_signals": 62,
    }
    return Options(**{**given, **more})


def test_cases_are_the_study_s(tmp_path: Path) -> None:
    every = list(ShotsCases(options(), str(tmp_path), ExitStack(), "").cases())
    assert len(every) == (3 + 2) * 5 * 2 * 2
    assert [tuple(one.key.values()) for one in every[:4]] == [
        ("local", 0, "shot", "signals", 1),
        ("local", 0, "signal", "signals", 1),
        ("local", 0, "shot", "shots", 1),
        ("local", 0, "signal", "shots", 1),
    ]
    assert not [one for one in every if (one.key["where"], one.key["page_buffer"]) == ("s3", 0)]
    assert list(tmp_path.iterdir()) == []


def test_page_buffers_are_as_large_beside_the_file() -> None:
    assert options().buffer_bytes(264_000_000) == 264_000_000
    assert options(n_shots=250).buffer_bytes(64_000_000) == 32_000_000
    assert options(n_shots=5).buffer_bytes(64_000_000) == 16_000_000
    assert options(n_shots=5).buffer_bytes(0) == 0


def test_published_files_go_on(tmp_path: Path) -> None:
    record = {name: number for number, name in enumerate(COLUMNS["s3"])}
    row = {"contender": people.PUBLISHED, "round": "0", "where": "s3"}
    for resume in (False, False, True):
        files = PublishedFiles(str(tmp_path), resume)
        files.keep(row, Sample(1.0, {"records": [record, record]}))
        for other in ({"round": "1"}, {"contender": people.OURS}):
            files.keep({**row, **other}, Sample(1.0, {}))
    text = (tmp_path / "shots_s3.csv").read_text()
    assert len(text.splitlines()) == 1 + 2 + 2
    assert text.startswith("open-file-time,pb-size,pb-meta-accesses,pb-meta-hitrate,")
    assert "\n0,1,2,3,4," in text
    assert set(COLUMNS["local"]) == set(COLUMNS["s3"])
    assert len(COLUMNS["local"]) == 20


def test_rounds_have_other_orders(filename: str, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = people.Reading(
        filename, filename, people.items_of(filename, 0), "shots", "random", 2, 0, False, ""
    )
    seeds = []

    def ask(_one: Any, verb: str, more: dict[str, Any]) -> Any:
        seeds.append((verb, more["seed"]))
        return {"seconds": 1.0, "n": [0, 0]}

    monkeypatch.setattr(people.Asked, "ask", ask)
    one = people.contender(reading, people.PUBLISHED)
    for _ in range(2):
        with pytest.raises(WrongDataError, match="datasets or bytes"):
            one.measure()
    assert seeds == [("time", 0), ("time", 1)]


# ---- what is shown


def row_of(contender: str, seconds: float, *key: Any, **more: Any) -> dict[str, str]:
    kept = dict.fromkeys(cases.MORE, "") | dict(zip(cases.KEYS, map(str, key), strict=True))
    kept |= {name: str(one) for name, one in more.items()}
    return kept | {"contender": contender, "value": str(seconds), "unit": "s", "round": "0"}


def test_views() -> None:
    rows = []
    for where, page_buffer in (("local", 0), ("s3", 264_000_000)):
        for n in (1, 2):
            for layout, access in itertools.product(LAYOUTS, people.ACCESSES):
                key = (where, page_buffer, layout, access, n)
                rows += [
                    row_of(people.PUBLISHED, 8 / n, *key, imbalance=1.5, raw_hits=75),
                    row_of(people.OURS, 2 / n, *key, imbalance=1.0),
                ]
    wrong = dict(zip(cases.KEYS, ("local", 0, "shot", "shots", 1), strict=True))
    wrong |= {"contender": people.INDEXED, "fault": "data differs"}
    failed, files, objects = views.views(Kept("shots", rows, {"faults": [wrong]}))
    assert "where local, page_buffer 0, layout shot" in failed.text()
    assert "FAILED" not in objects.text()
    times = {tuple(line[:3]): list(line[3:]) for line in files.tables[0].rows}
    assert files.tables[0].header[3:] == [
        *(views.PUBLISHED, people.PUBLISHED, people.OURS, people.INDEXED),
        f"{people.PUBLISHED} / {people.OURS}",
    ]
    assert times["shot", "shots", "1"] == ["66.7", "8", "2", "FAILED", "4x"]
    assert times["shot", "shots", "2"] == ["32.9", "4", "1", "-", "4x"]
    fastest = next(one for one in files.tables if "fastest cases of multitables" in one.title)
    assert len(fastest.rows) == 8
    assert fastest.rows[0][4:6] == ["8", "1"]  # of the baseline's 8 s
    here, then = files.charts
    assert {one.label for one in then.series} >= {"shot/shots, published"}
    (line,) = [one for one in here.series if one.label == "shot/shots, published method"]
    assert [(x, found.median) for x, found in line.points] == [(1.0, 1.0), (2.0, 2.0)]
    assert objects.charts[0].name == "shots_s3_264000000"
    assert "75" in files.tables[-2].text()


def test_at_most_fifteen_are_fastest() -> None:
    rows = [row_of(people.OURS, 1 + n, "local", 0, "shot", "shots", n) for n in range(20, 0, -1)]
    (view,) = views.views(Kept("shots", rows, {}))
    table = next(one for one in view.tables if "fastest" in one.title)
    assert [one[2] for one in table.rows] == [str(n) for n in range(1, 16)]
    assert table.rows[0][4] == "-"  # no baseline was measured


# ---- the study


@pytest.mark.hang(240)
def test_smoke(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("distributed", reason="Dask comes with the extra studies")
    pytest.importorskip("s3fs", reason="s3fs comes with the extra bench")
    monkeypatch.delenv(arguments.ROS3_PYTHON, raising=False)
    elsewhere = tmp_path / "elsewhere"  # where Dask would put files
    elsewhere.mkdir()
    monkeypatch.setenv("TMPDIR", str(elsewhere))
    try:
        server.find()
    except server.NoServerError:
        where = {"local"}
    else:
        where = {"local", "s3"}
    assert multitables_benchmark.main(["shots", "--smoke"]) == 0
    out = capsys.readouterr().out
    assert "FAILED" not in out
    kept = rows_of("shots")
    assert {row["where"] for row in kept} == where
    names = {people.OURS, people.INDEXED, people.PUBLISHED, people.GATHERED}
    assert {row["contender"] for row in kept if row["where"] == "local"} == names
    assert all(row["seconds"] == row["value"] and int(row["decoded_bytes"]) for row in kept)
    found = {one: Path(f"results/shots_{one}.csv").read_text() for one in where}
    for one, text in found.items():
        rows = list(csv.DictReader(text.splitlines()))
        assert tuple(rows[0]) == COLUMNS[one]
        assert [row["worker#"] for row in rows] == ["0", "1"]
        assert sum(int(row["wrkr-num-objs"]) for row in rows) == int(rows[0]["tot-num-obj"])
    assert multitables_benchmark.main(["shots", "--smoke", "--resume"]) == 0
    assert rows_of("shots") == kept
    assert found == {one: Path(f"results/shots_{one}.csv").read_text() for one in where}
    assert left_behind(tmp_path) == ["elsewhere"]
    assert list(elsewhere.iterdir()) == []


def run_local(*more: str) -> int:
    return multitables_benchmark.main(["shots", "--smoke", "--where", "local", *more])


def test_without_dask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    hide_module("distributed", tmp_path / "hidden", monkeypatch)
    assert run_local() == 0
    out = capsys.readouterr().out
    assert f"{people.PUBLISHED} cannot be imported (import of distributed" in out
    assert "pip install multitables[studies]" in out
    assert {row["contender"] for row in rows_of("shots")} == {people.OURS, people.INDEXED}


def test_wrong_data_is_a_fault(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = people.items_of

    def wrong(filename: str, by: int) -> people.Items:
        found = right(filename, by)
        return dataclasses.replace(found, digest={**found.digest, "any_order": "other"})

    monkeypatch.setattr(people, "items_of", wrong)
    assert run_local() == 1
    out = capsys.readouterr().out
    for name in (people.OURS, people.INDEXED, *([people.PUBLISHED] if HAS_DASK else [])):
        assert f"contender {name}: data differs" in out
    assert rows_of("shots") == []


def test_without_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(server.NAMED, str(tmp_path / "none"))
    assert multitables_benchmark.main(["shots", "--smoke", "--where", "s3"]) == 2
    assert "`python tools/s3_server.py` builds it" in capsys.readouterr().out
    assert multitables_benchmark.main(["shots", "--smoke"]) == 0
    assert "Not measured: all (objects): " in capsys.readouterr().out
    assert {row["where"] for row in rows_of("shots")} == {"local"}


def test_options_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = {
        ("--page_buffer", "64MB"): "not a list of bytes",
        ("--where", "gs"): "'gs' is not one of local, s3",
        ("--as-published", "--as-described"): "not allowed with",
    }
    for words, reason in wrong.items():
        with pytest.raises(SystemExit):
            multitables_benchmark.main(["shots", *words])
        assert reason in capsys.readouterr().err
    parse = multitables_benchmark.parser_of("shots").parse_args
    assert parse(["--page_buffer", "0,64e6"]).page_buffer == (0, 64_000_000)
    assert not parse([]).as_described
    assert parse(["--as-described"]).as_described
