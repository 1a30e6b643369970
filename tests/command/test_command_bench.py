"""`multitables bench`: which dataset it measures, beside h5py or alone."""

from __future__ import annotations

import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from command_files import said

from _multitables.command import bench, program


def test_bench_measures_the_largest_beside_h5py(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (record,) = said(capsys, "bench", "run7.h5", "--seconds", "0.2")
    assert (record["path"], record["rows"], record["compared"]) == ("/images", 200, True)
    rates = [record[name]["rows_per_second"] for name in ("h5py", "multitables")]
    assert record["times_as_fast"] == pytest.approx(rates[1] / rates[0])
    for name in ("h5py", "multitables"):
        assert len(record[name]["seconds"]) == bench.ROUNDS
        assert record[name]["mb_per_second"] == pytest.approx(
            record[name]["rows_per_second"] * 256 / 1e6
        )
    assert record["page_cache"] in ("warm", "unknown")


def test_bench_takes_what_fits_into_the_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File("long.h5", "w") as file:
        file.create_dataset("x", (10**9, 64), "f4", chunks=(4096, 64), compression="gzip")
    (record,) = said(capsys, "bench", "long.h5", "--seconds", "0.2")
    assert 0 < record["rows"] < 10**9
    assert record["rows"] % record["block_rows"] == 0
    assert record["all_rows"] == 10**9


def test_bench_without_h5py(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    words = ["bench", "run7.h5", "/images", "--seconds", "0.2"]
    (record,) = said(capsys, *words)
    assert (record["h5py"], record["times_as_fast"]) == (None, None)
    assert record["why_no_h5py"] == "h5py is not installed"
    assert record["multitables"]["rows_per_second"] > 0
    assert program.main(words) == 0
    assert "not compared: h5py is not installed" in capsys.readouterr().out


def test_bench_refuses_rows_that_h5py_reads_differently(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = bench.Case.h5py
    wrong = lambda *a: (block + np.float32(1) for block in right(*a))  # noqa: E731
    monkeypatch.setattr(bench.Case, "h5py", wrong)
    assert program.main(["bench", "run7.h5", "/images", "--seconds", "0.2"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("multitables: rows of '/images' in 'run7.h5' are not those that h5py")


def test_bench_of_what_has_no_rows_of_one_size(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in ("/shots", "/scalar", "/names", "/null"):
        assert program.main(["bench", "run7.h5", path]) == 1
        assert "bench needs a dataset with rows of one size" in capsys.readouterr().err
    with h5py.File("empty.h5", "w"):
        pass
    assert program.main(["bench", "empty.h5"]) == 1
    assert "is no dataset" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "state"),
    [([1.0, 1.0], "warm"), ([0.0, 0.0], "cold"), ([0.25, 1.0], "25% to 100%"), ([None], "unknown")],
)
def test_the_state_of_the_page_cache(found: list[float | None], state: str) -> None:
    assert bench._state(found) == state
