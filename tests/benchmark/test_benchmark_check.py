"""The benchmark's data check, and its runner: no wrong data gets a number.

Law
---
1. A faulty library takes the place of a contender and must be caught; a right one beside it is not.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from faulty_libraries import LIES, fake_stream
from hypothesis import given
from hypothesis import strategies as st
from runs import case_of, left_behind, measured, rows_of, study_run, sweep_arguments

from _multitables.benchmark.contenders import streams
from _multitables.benchmark.contract import Source, differs, promised
from _multitables.benchmark.harness.runner import against
from _multitables.benchmark.loops import stream_loop
from _multitables.benchmark.studies.sweep import study as device_sweep


@pytest.mark.parametrize("access", stream_loop.EVERY_ACCESS)
@pytest.mark.parametrize("name", LIES)
def test_every_lie_is_found(name: str, access: str, tiny: Source) -> None:
    expected = streams.oracle(tiny)
    right = fake_stream(lambda block, at: block)(tiny, access, 1, {}).check()
    assert differs(right, expected) == ""
    found = fake_stream(LIES[name])(tiny, access, 1, {}).check()
    # a shuffle may swap rows, and nothing else
    assert bool(differs(found, expected)) == ((name, access) != ("rows swapped", "batches"))


def test_order_counts_only_where_it_is_promised(tiny: Source) -> None:
    expected = streams.oracle(tiny)
    found = fake_stream(LIES["rows swapped"])(tiny, "queue", 1, {}).check()
    assert differs(found, expected) == "the right rows in the wrong order"
    assert differs(promised(found, in_order=False), expected) == ""


def test_a_wrong_cell_has_no_number_and_fails_the_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = sweep_arguments("--size=0.001", "--max_procs=1", "--cycles=1")
    status = device_sweep.run(arguments, fake_stream(LIES["one bit"], only=("queue", 1)))
    assert status == 1
    out = capsys.readouterr().out
    assert out.count("data differs") == 3
    assert {row["access"] for row in rows_of("sweep")} == {"generator", "batches"}
    queue_table = out.partition("Direct queue")[2].partition("Generator")[0]
    assert [line.split()[1:] for line in queue_table.split("\n") if line[:1].isdigit()] == [
        ["FAILED"]
    ] * 3
    assert left_behind(tmp_path) == []


def test_a_contender_that_raises_has_no_number(capsys: pytest.CaptureFixture[str]) -> None:
    def break_down(_block: Any, _at: int) -> Any:
        raise RuntimeError("it broke")

    status = device_sweep.run(
        sweep_arguments("--size=0.001", "--max_procs=1", "--cycles=1"), fake_stream(break_down)
    )
    assert status == 1
    out = capsys.readouterr().out
    assert "FAILED" in out
    assert "complib blosc, complevel 3, contender multitables, access generator" in out
    assert "n_procs 1: RuntimeError: it broke." in out
    assert rows_of("sweep") == []


def test_the_targets_measure_nobody_who_is_faulty(tiny: Source, tmp_path: Path) -> None:
    faulty = fake_stream(LIES["one bit"])(tiny, "queue", 1, {})
    verified = streams.h5py_read(tiny)
    right = against(lambda: streams.oracle(tiny))
    case = case_of(faulty, verified, differs=right, files=[tiny.filename])
    run = measured(study_run(tmp_path, case))
    assert [row["contender"] for row in run.results.rows] == [verified.name]
    assert "data differs" in run.faults[0]["fault"]


@pytest.mark.parametrize("make", [streams.pytables_read, streams.h5py_read])
def test_a_pass_of_a_peer_is_whole(
    make: Callable[[Source], streams.SlabRead], tiny: Source
) -> None:
    found = make(tiny).measure()  # of a file smaller than a slab, too
    assert found.more["decoded_bytes"] == tiny.decoded_bytes


# ---- the digest


@given(
    rows=st.integers(1, 40),
    row_bytes=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
    data=st.data(),
)
def test_the_digest_sees_any_byte_and_no_block_bounds(
    rows: int, row_bytes: int, seed: int, data: st.DataObject
) -> None:
    array = np.random.default_rng(seed).integers(0, 256, (rows, row_bytes), np.uint8)
    expected = stream_loop.digest_of(iter([array]))
    cut = data.draw(st.integers(0, rows))
    assert stream_loop.digest_of(iter([array[:cut], array[cut:]])) == expected

    changed = array.copy()
    place = data.draw(st.integers(0, array.size - 1))
    changed.flat[place] ^= np.uint8(data.draw(st.integers(1, 255)))
    found = stream_loop.digest_of(iter([changed]))
    assert found["in_order"] != expected["in_order"]
    assert found["any_order"] != expected["any_order"]

    turned = stream_loop.digest_of(iter([array[::-1]]))
    assert turned["any_order"] == expected["any_order"]
    assert (turned["in_order"] == expected["in_order"]) == np.array_equal(array, array[::-1])


def test_the_digest_takes_any_dtype() -> None:
    compound = np.zeros(5, [("a", ">i2"), ("b", "S3")])
    assert stream_loop.digest_of(iter([compound]))["rows"] == 5
    assert stream_loop.digest_of(iter([]))["rows"] == 0
