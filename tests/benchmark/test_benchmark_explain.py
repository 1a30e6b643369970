"""`explain`: a run from the command line, what it refuses, and how it goes on.

Law
---
1. Runs are of a few MiB and the data is checked; no figure is compared with another.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import h5py
import numpy as np
import pytest
from runs import left_behind, rows_of

import multitables
import multitables_benchmark
from _multitables import options, sizes
from _multitables.benchmark.contenders import beside_h5py, bounds, streams
from _multitables.benchmark.contenders.streams import SlabRead
from _multitables.benchmark.contract import ContenderError, NotMeasuredError, Source
from _multitables.benchmark.machine import environment, page_cache
from _multitables.benchmark.report import charts
from _multitables.benchmark.report.tables import figure
from _multitables.benchmark.studies.explain import cases as explain_cases
from _multitables.benchmark.studies.explain.cases import Oracle
from _multitables.benchmark.studies.explain.numbers import KEYS, STREAM
from _multitables.benchmark.studies.explain.study import process_counts
from _multitables.plan import reader_options

pytestmark = pytest.mark.usefixtures("few_filters")

DRAWS = "test_a_sample_is_explained"  # plots take long, and one test will do
LIMITS = ("page cache", "fetch and decode", "memory copy", "hand-over")


@pytest.fixture(autouse=True)
def _few_plots(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.node.name != DRAWS:
        monkeypatch.setattr(charts, "can_draw", lambda: False)


def made(directory: Path, **options: Any) -> str:
    filename = str(directory / "run7.h5")
    rows = np.random.default_rng(1).integers(0, 9, (4000, 25), dtype="i4")
    with h5py.File(filename, "w") as file:
        file.create_dataset("images", data=rows, **options)
    return filename


def explain(*words: str) -> int:
    return multitables_benchmark.main(["explain", "--smoke", *words])


def kept() -> dict[str, Any]:
    with open("results/multitables_explain.json") as file:
        found: dict[str, Any] = json.load(file)
    return found


# ---- from the command line


def test_a_sample_is_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert explain() == 0
    out = capsys.readouterr().out
    for part in ("Limits of a stream", "The stream", "lowest limit", "n_procs  ", "Mind:"):
        assert part in out
    assert "FAILED" not in out
    assert out.index("A loop over h5py, and this library") < out.index("What bounds the stream")
    (beside,) = kept()[beside_h5py.NAME]
    assert beside["record"]["compared"] is True
    rows = rows_of("explain")
    assert {row["file"] for row in rows} == {"a sample"}
    assert {row["contender"] for row in rows} >= {STREAM, *LIMITS}
    assert all(float(row["value"]) > 0 for row in rows)
    assert all(row["device_kind"] and row["raid"] and row["dataset"] for row in rows)
    assert left_behind(tmp_path) == []
    assert "the stream" in Path("results/multitables_report.html").read_text()
    assert os.path.exists("results/explain_streams.svg") == charts.can_draw()


def test_a_dataset_of_the_user_is_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filename = made(tmp_path, chunks=(100, 25), compression="gzip", shuffle=True)
    before = Path(filename).read_bytes()
    assert explain(filename, "/images") == 0
    out = capsys.readouterr().out
    assert "page cache warm; shuffle, deflate (zlib) 4" in out
    assert "the dataset has only 0.4 MB" in out
    rows = rows_of("explain")
    streams = [row for row in rows if row["contender"] == STREAM]
    if not page_cache.direct_refusal(filename) and not environment.in_memory(filename):
        assert {row["way"] for row in streams} == {"direct", "warm"}
        device = {row["n_procs"]: row["cache"] for row in rows if row["contender"] == "device"}
        assert device == {"1": "bypassed", "8": "bypassed"}
    assert {row["cache"] for row in rows if row["way"] == "warm"} == {"warm"}
    # chunks of 10 kB make small blocks, so larger ones were tried as well
    assert {row["block_size"] for row in streams} == {"", "2700"}
    assert {row["n_procs"] for row in streams} == {"1", "2"}
    ratio = kept()["dataset"]["row_bytes"] * 4000 / kept()["dataset"]["stored_bytes"]
    for row in streams:
        assert float(row["value"]) / float(row["stored_mb_per_s"]) == pytest.approx(ratio, 0.05)
    assert Path(filename).read_bytes() == before
    assert left_behind(tmp_path) == ["run7.h5"]


def test_rows_that_h5py_reads_otherwise_are_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def wrong(*_: object) -> dict[str, Any]:
        raise ContenderError("rows are not those that h5py reads")

    monkeypatch.setattr(beside_h5py, "measured", wrong)
    assert explain(made(tmp_path, chunks=(100, 25))) == 1
    assert "contender beside h5py: ContenderError: rows are not those" in capsys.readouterr().out


def test_how_often_shuffles_decode_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The numbers are those of the library's own batches, whose readers keep few chunks here."""
    monkeypatch.setattr(options, "MIN_CACHE_BYTES", 0)
    monkeypatch.setattr(sizes, "MAX_WINDOW_BYTES", 64 << 10)
    monkeypatch.setattr(sizes, "RAGGED_FETCH_BYTES", 32 << 10)
    monkeypatch.setattr(reader_options, "MIN_CACHE_BYTES", 0)
    monkeypatch.setattr(reader_options, "MAX_CACHE_BYTES", 40 << 10)
    filename = made(tmp_path, chunks=(100, 25), compression="gzip")
    assert explain(filename, "--clips", "150") == 0
    out = " ".join(capsys.readouterr().out.split())
    samples = {"rows": None, "clips of 150 rows": multitables.Clips(150)}
    for name, sample in samples.items():
        for shuffle in ("chunks", "window", "full"):
            batches = multitables.Streamer(filename).get_batches(
                "/images", 64, shuffle=shuffle, sample=sample, n_procs=1
            )
            with warnings.catch_warnings(), batches:
                warnings.simplefilter("ignore")
                iterator = iter(batches)
                next(iterator)
                times = iterator.statistics()["read_amplification"]
            assert f"{name}, shuffle={shuffle!r} {figure(times)} " in out
    assert "shuffle an order that decodes each chunk less often" in out
    assert kept()["shuffles"]["rows, shuffle='chunks'"] == 1.0
    assert kept()["shuffles"]["clips of 150 rows, shuffle='chunks'"] > 1.2


def test_of_a_large_dataset_a_sample_is_read_warm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("_multitables.benchmark.studies.explain.study.SMOKE_BYTES", 100_000)
    assert explain(made(tmp_path, chunks=(100, 25), compression="lzf")) == 0
    assert "measured on a copy of the first chunks" in " ".join(capsys.readouterr().out.split())
    assert kept()["sampled"]
    assert left_behind(tmp_path) == ["run7.h5"]


def test_without_room_for_a_sample_the_rest_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    filename = made(tmp_path, chunks=(4000, 25))
    if page_cache.direct_refusal(filename) or environment.in_memory(filename):
        pytest.skip("no O_DIRECT here")
    monkeypatch.setattr("_multitables.benchmark.studies.explain.study.SMOKE_BYTES", 100_000)
    monkeypatch.setattr("shutil.disk_usage", lambda _path: SimpleNamespace(free=10))
    assert explain(filename) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "Not measured: all (what reads from the page cache): a sample wants" in out
    assert "set TMPDIR to a larger place" in out
    assert {row["way"] for row in rows_of("explain")} == {"direct", ""}


def test_what_only_a_library_reads_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(made(tmp_path, chunks=(4000, 25), scaleoffset=0)) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "What bounds the stream" not in out
    assert "each reads and decodes inside libhdf5" in out
    assert "is read through the h5py library, because" in out
    assert "n_procs 1 " in out or "n_procs 2 " in out
    assert "fetch and decode" in kept()["left_out"]


@pytest.mark.parametrize("options", [{}, {"chunks": (100, 25)}])
def test_data_without_filters(
    tmp_path: Path, options: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert explain(made(tmp_path, **options)) == 0
    out = capsys.readouterr().out
    assert "bare processes, page cache warm; no filter" in out
    assert "decoding bounds" not in out


def test_bytes_in_other_files_have_no_device(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    filename = made(tmp_path)
    with h5py.File(filename, "a") as file:
        layout = h5py.VirtualLayout((4000, 25), "i4")
        layout[:] = h5py.VirtualSource(filename, "images", (4000, 25))
        file.create_virtual_dataset("virtual", layout)
    assert explain(filename, "/virtual") == 0
    ways = ["the device, and streams from it", "what reads from the page cache"]
    assert kept()["left_out"] == {"all": {"its bytes lie in other files": ways}}
    assert "its bytes lie in other files" in capsys.readouterr().out
    assert {row["way"] for row in rows_of("explain") if row["contender"] == STREAM} == {"warm"}


def test_fill_values_alone_have_no_limit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File(tmp_path / "run7.h5", "w") as file:
        file.create_dataset("images", (4000, 25), "i4", chunks=(3000, 25))
    assert explain("run7.h5") == 0
    out = capsys.readouterr().out
    assert "nothing is stored of this dataset" in out
    assert "lowest limit" not in out


def test_a_file_in_memory_has_no_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environment, "in_memory", lambda _name: True)
    assert explain(made(tmp_path)) == 0
    assert "Not measured: all (the device, and streams from it): " in capsys.readouterr().out
    assert {row["way"] for row in rows_of("explain")} == {"warm", ""}


# ---- what is refused


def references(directory: Path) -> str:
    filename = str(directory / "references.h5")
    with h5py.File(filename, "w") as file:
        file.create_dataset("x", (3,), h5py.ref_dtype)
    return filename


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["nowhere.h5", "/images"], "no file 'nowhere.h5'"),
        (["run7.h5", "/pictures"], "It holds /images"),
        (["references.h5", "/x"], "Nothing was measured"),
        (["text.txt"], "cannot be opened as an HDF5 file"),
    ],
)
def test_what_cannot_be_explained_is_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made(tmp_path)
    references(tmp_path)
    Path("text.txt").write_text("text")
    assert explain(*words) == 2
    assert said in capsys.readouterr().err
    assert not os.path.exists("results")


@pytest.mark.parametrize("words", [["--rounds", "0"], ["--seconds", "-1"], ["a", "b", "c"]])
def test_options_that_cannot_work(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        multitables_benchmark.main(["explain", *words])
    assert caught.value.code == 2
    assert capsys.readouterr().err


# ---- wrong data, and interruption


def test_a_stream_that_delivers_wrong_data_has_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first_rows = explain_cases.first_rows

    def one_wrong(dataset: Any, n_procs: int, *rest: Any) -> Iterator[Any]:
        for block in first_rows(dataset, n_procs, *rest):
            yield block + (n_procs == 2)

    monkeypatch.setattr(explain_cases, "first_rows", one_wrong)
    assert explain(made(tmp_path)) == 1
    assert "contender multitables, n_procs 2: data differs" in capsys.readouterr().out
    streams = [row for row in rows_of("explain") if row["contender"] == STREAM]
    assert {row["n_procs"] for row in streams} == {"1"}


def test_a_stream_that_fails_while_it_is_timed_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_rest: Any) -> Any:
        raise multitables.ReaderDiedError("a reader died")

    monkeypatch.setattr(bounds, "stream", fail)
    assert explain(made(tmp_path)) == 1
    assert "ReaderDiedError: a reader died" in capsys.readouterr().out
    assert {row["contender"] for row in rows_of("explain")} >= set(LIMITS)


def test_a_run_goes_on_where_it_was_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    filename = made(tmp_path)

    def interrupt(*_rest: Any) -> Any:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(bounds, "memory_copy", interrupt)
        assert explain(filename) == 130
    assert "interrupted; what was finished" in capsys.readouterr().out
    before = rows_of("explain")
    assert {"page cache", "fetch and decode"} <= {row["contender"] for row in before}
    assert "memory copy" not in {row["contender"] for row in before}
    assert kept()["interrupted"]

    with monkeypatch.context() as patch:
        for name in ("device", "page_cache"):
            patch.setattr(bounds, name, interrupt)
        assert explain(filename, "--resume") == 0
    after = rows_of("explain")
    assert after[: len(before)] == before
    assert {row["contender"] for row in after} >= {STREAM, *LIMITS}
    keys = [tuple(row[name] for name in (*KEYS, "contender", "round")) for row in after]
    assert len(keys) == len(set(keys))
    # and of what is whole, nothing is measured or checked again
    with monkeypatch.context() as patch:
        patch.setattr(bounds, "stream", interrupt)
        patch.setattr(explain_cases, "first_rows", interrupt)
        assert explain(filename, "--resume") == 0
    assert rows_of("explain") == after
    # rows of another dataset do not come beside these
    assert explain(references(tmp_path), "--resume") == 2
    (tmp_path / "other").mkdir()
    assert explain(made(tmp_path / "other"), "--resume") == 2
    assert "cannot be resumed" in capsys.readouterr().err
    assert rows_of("explain") == after


# ---- its parts


def test_the_oracle_takes_pytables_where_h5py_fails(
    tiny: Source, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cannot(_source: Source) -> Iterator[Any]:
        raise NotMeasuredError("h5py has no filter 1")
        yield

    right = streams.oracle(tiny)
    monkeypatch.setattr(
        streams, "h5py_read", lambda source: SlabRead(source, "h5py read_direct", cannot)
    )
    assert Oracle(tiny, tiny.rows).differs(right) == ""
    assert "data differs" in Oracle(tiny, tiny.rows).differs(right | {"any_order": "x"})
    assert "rows instead of" in Oracle(tiny, tiny.rows - 1).differs(right)
    monkeypatch.setattr(
        streams, "pytables_read", lambda source: SlabRead(source, "PyTables", cannot)
    )
    with pytest.raises(NotMeasuredError, match=r"neither h5py nor PyTables .* no filter 1"):
        Oracle(tiny, tiny.rows)


def test_processes_are_each_up_to_four_and_then_fewer() -> None:
    assert process_counts(1) == (1,)
    assert process_counts(4) == (1, 2, 3, 4)
    assert process_counts(16) == (1, 2, 3, 4, 6, 9, 13, 16)
