"""The benchmark program, from its command line: it runs, refuses what cannot work, and cleans up.

Law
---
1. No ending leaves a file, and no bad option runs.
2. Nothing here is timed, and no figure is compared with another.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tables
from processes import script, wait_until
from runs import ENDING, TINY, left_behind, rows_of, sweep_arguments

import multitables_benchmark
from _multitables.benchmark import contract
from _multitables.benchmark.contenders.streams import Stream
from _multitables.benchmark.data import workloads
from _multitables.benchmark.data.workloads import Workload
from _multitables.benchmark.harness import interruption
from _multitables.benchmark.harness.progress import Progress
from _multitables.benchmark.studies import STUDIES
from _multitables.benchmark.studies.sweep import study as device_sweep

# ---- end to end


def test_smoke_streams_checks_and_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert multitables_benchmark.main(["--smoke"]) == 0
    rows = rows_of("sweep")
    cells = {(row["complevel"], row["access"], row["n_procs"]) for row in rows}
    accesses = ("queue", "generator", "batches")
    assert cells == {(c, a, n) for c in "039" for a in accesses for n in "12"}
    assert all(float(row["value"]) > 0 for row in rows)
    assert all(row["device"] and row["kernel"] and row["versions"] for row in rows)
    out = capsys.readouterr().out
    titles = ("Direct queue", "Generator", "Batches")
    for part in ("MB/s of decoded data", *titles, "complevel / processes", "cores"):
        assert part in out
    assert "FAILED" not in out
    assert left_behind(tmp_path) == []


def test_smoke_of_the_targets(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["targets", "--smoke", "--dataset", "lz4", "--processes", "1", "--data_dir", "data"]
    for part in ("streams", "latency", "memory"):
        words += ["--part", part]
    assert multitables_benchmark.main(words) == 0
    out = capsys.readouterr().out
    assert "not measured: name an environment with --old_env DIR" in out
    with open("results/multitables_targets.json") as file:
        found = json.load(file)
    assert found["faults"] == []
    verdicts = {target["what"]: target["met"] for target in found["targets"]}
    of_lz4 = [what for what in verdicts if what.startswith("streams, blosc:lz4 5: multitables")]
    assert [what.rpartition(" / ")[2][:11] for what in of_lz4[:2]] == ["2.0.1 queue", "2.0.1 gener"]
    assert set(verdicts.values()) == {None}  # too little data to judge
    assert "multitables queue x1" in {row["contender"] for row in rows_of("targets")}


@pytest.mark.parametrize(
    ("ends", "status", "ran"),
    [
        ({}, 0, ["sweep", "targets", "files"]),
        ({"targets": OSError("no server")}, 2, ["sweep", "targets", "files"]),
        ({"sweep": contract.NotMeasuredError("x")}, 0, ["sweep", "targets", "files"]),
        ({"targets": 2}, 0, ["sweep", "targets", "files"]),
        ({"sweep": OSError("full"), "targets": 1}, 1, ["sweep", "targets", "files"]),
        ({"sweep": 1, "targets": KeyboardInterrupt()}, 130, ["sweep", "targets"]),
    ],
)
def test_all_studies_run_in_turn(
    ends: dict[str, int | BaseException],
    status: int,
    ran: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    found: list[str] = []
    names = ("sweep", "targets", "files", "report")
    monkeypatch.setattr(multitables_benchmark, "STUDIES", {name: STUDIES[name] for name in names})

    def replace(name: str) -> None:
        def run(arguments: Any) -> int:
            assert (arguments.smoke, arguments.output) == (True, "here")
            found.append(name)
            end = ends.get(name, 0)
            if isinstance(end, BaseException):
                raise end
            return end

        monkeypatch.setattr(STUDIES[name], "run", run)

    for name in names:
        replace(name)
    assert multitables_benchmark.main(["all", "--smoke", "--output", "here"]) == status
    assert found == ran
    out = capsys.readouterr().out
    for name in ran:
        assert STUDIES[name].SUMMARY in out
        how = ends.get(name, 0)
        meant = {KeyboardInterrupt: 130, OSError: 2}.get(type(how), how)
        left_out = how == 2 or isinstance(how, contract.NotMeasuredError)
        end = multitables_benchmark.LEFT_OUT if left_out else multitables_benchmark.ENDS[meant]
        assert f"{name:<7}        0  {end}" in out
    missing = isinstance(ends.get("sweep"), contract.NotMeasuredError)
    assert ("sweep: x" if missing else "Nothing was left out.") in out


# ---- bad options and bad places


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--size", "0"], "--size: 0 is not above 0"),
        (["--size", "nan"], "--size: nan is not above 0"),
        (["--size", "much"], "--size: invalid float value: 'much'"),
        (["--cycles", "-1"], "--cycles: -1 is not above 0"),
        (["--max_procs", "1.5"], "--max_procs: invalid int value: '1.5'"),
        (["--complib", "gzip"], "'gzip' is not supported"),
        (["--complevel", "10"], "'10' is not a list of numbers 0 to 9"),
        (["--access", "queue,all"], "'all' is not one of queue, generator, batches"),
        (["--driver", "fast"], "'fast' is not one of direct, buffered, hdf5-direct"),
        (["--data", "mine"], "--data: invalid choice: 'mine'"),
        (["--file", "x", "--directory", "y"], "not allowed with argument --file"),
        (["--limit_mb_per_s", "0"], "0 is not above 0"),
        (["targets", "--processes", "1,x"], "'1,x' is not a list of numbers above 0"),
        (["targets", "--processes", ""], "'' is not a list of numbers above 0"),
        (["targets", "--part", "all"], "--part: invalid choice: 'all'"),
        (["random", "--rows", "0"], "--rows: 0 is not above 0"),
        (["random", "--dataset", "all"], "--dataset: invalid choice: 'all'"),
        (["batches", "--rows", "1.5"], "--rows: invalid int value: '1.5'"),
        (["index", "--n_chunks", "0"], "--n_chunks: 0 is not above 0"),
        (["index", "--old_env", "x"], "unrecognized arguments: --old_env x"),
        (["batches", "--old_env", "x"], "unrecognized arguments: --old_env x"),
        (["no such study"], "unrecognized arguments: no such study"),
    ],
)
def test_options_that_cannot_work(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        multitables_benchmark.main(words)
    assert caught.value.code == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_a_library_this_pytables_lacks_is_not_replaced_by_another(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tables.utilsextension.which_lib_version", lambda _name: None)
    with pytest.raises(SystemExit):
        sweep_arguments("--complib", "lzo")
    assert "this PyTables was built without 'lzo'" in capsys.readouterr().err


def test_the_help_names_the_options_and_studies(capsys: pytest.CaptureFixture[str]) -> None:
    for name, study in STUDIES.items():
        words = [] if name == "sweep" else [name]
        with pytest.raises(SystemExit) as caught:
            multitables_benchmark.main([*words, "--help"])
        assert caught.value.code == 0
        assert study.SUMMARY in " ".join(capsys.readouterr().out.split())
    assert vars(sweep_arguments()) == {
        "size": 1,
        "cycles": 2,
        "max_procs": 6,
        "complib": None,  # blosc
        "file": None,
        "H5FD_DIRECT_OFF": False,
        "output": "results",
        "resume": False,
        "smoke": False,
        "processes": None,
        "complevel": (0, 3, 9),
        "data": "noise",
        "access": ("queue", "generator", "batches"),
        "driver": ("direct",),
        "directory": None,
        "rotational": False,
        "limit_mb_per_s": None,
        "peers": False,
        "with_old_release": None,
        "direct_vfd": None,
    }


def refused(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """What the program says when it cannot be run."""
    assert multitables_benchmark.main(words) == 2
    return capsys.readouterr().err


def test_an_existing_file_is_neither_overwritten_nor_removed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.h5"
    mine.write_text("mine")
    assert "'mine.h5' exists" in refused(["--smoke", "--file", "mine.h5"], capsys)
    assert mine.read_text() == "mine"

    (tmp_path / "data").mkdir()
    filename = workloads.in_directory(TINY, "data")
    with tables.open_file(filename, "a") as file:
        file.get_node(workloads.PATH)[0, 0] = -1
    with pytest.raises(FileExistsError, match="holds something else"):
        workloads.in_directory(TINY, "data")


def test_a_full_disk_is_said_before_anything_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("shutil.disk_usage", lambda _path: _Usage(10**6))
    said = refused(["--smoke", "--file", "new.h5"], capsys)
    assert "0.00 GB free" in said
    assert "--size" in said
    assert left_behind(tmp_path) == []


@dataclass
class _Usage:
    free: int


def test_a_place_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert "'/nowhere'" in refused(["--smoke", "--file", "/nowhere/bench.h5"], capsys)


def test_a_write_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(workload: Workload) -> Iterator[Any]:
        yield next(slabs(workload))
        raise OSError(28, "No space left on device")

    slabs = workloads.slabs
    monkeypatch.setattr(workloads, "slabs", fail)
    for write in (workloads.write, workloads.array_in_directory):
        with pytest.raises(OSError, match="No space left"):
            write(TINY, str(tmp_path / "x.h5" if write is workloads.write else tmp_path))
    assert left_behind(tmp_path) == []


# ---- interruption


def test_what_was_finished_is_shown_after_an_interruption(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[int] = []

    @dataclass(frozen=True)
    class Impatient(Stream):
        def measure(self) -> contract.Sample:
            seen.append(1)
            if len(seen) == 2:
                raise KeyboardInterrupt
            return contract.Sample.of(0.5, self.source.decoded_bytes)

    arguments = sweep_arguments("--size=0.001", "--max_procs=1", "--cycles=1")
    assert device_sweep.run(arguments, Impatient) == 130
    assert len(rows_of("sweep")) == 1
    assert "interrupted; what was finished" in capsys.readouterr().out
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("number", ENDING)
def test_a_signal_removes_the_file(number: signal.Signals, tmp_path: Path) -> None:
    program = "import sys, multitables_benchmark as m; sys.exit(m.main(sys.argv[1:]))"
    with script(program, "--size=0.5", "--file=bench.h5", "--output=results") as process:
        wait_until(lambda: any("part" in name for name in left_behind(tmp_path)), "a file", 20)
        process.send_signal(number)
        out, _ = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "interrupted; what was finished" in out
    assert left_behind(tmp_path) == []


def test_an_interruption_that_a_library_drops_comes_back() -> None:
    interruption.install()
    try:
        with Progress(2) as progress:
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)  # dropped, as in a callback
            with pytest.raises(KeyboardInterrupt):
                progress.tick(1)
    finally:
        interruption.install()
