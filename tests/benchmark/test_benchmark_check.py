"""The benchmark's data check: no wrong data gets a number.

Law
---
1. A liar is put in the place of a contender and must be caught; an honest one beside it is not.
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
from runs import left_behind, rows_of, some_bench, sweep_arguments

from _benchmark.contenders import streams
from _benchmark.contract import Source
from _benchmark.loops import stream_loop
from _benchmark.studies.sweep import study as device_sweep


@pytest.mark.parametrize("access", stream_loop.EVERY_ACCESS)
@pytest.mark.parametrize("name", LIES)
def test_every_lie_is_found(name: str, access: str, tiny: Source) -> None:
    expected = streams.oracle(tiny)
    honest = fake_stream(lambda block, at: block)(tiny, access, 1, {}).check()
    assert streams.differs(honest, expected, in_order=True) == ""
    found = fake_stream(LIES[name])(tiny, access, 1, {}).check()
    assert streams.differs(found, expected, in_order=True)
    if name != "rows swapped":  # which is all that a shuffle may do
        assert streams.differs(found, expected, in_order=False)


def test_order_counts_only_where_it_is_promised(tiny: Source) -> None:
    expected = streams.oracle(tiny)
    found = fake_stream(LIES["rows swapped"])(tiny, "queue", 1, {}).check()
    assert streams.differs(found, expected, in_order=True) == "the right rows in the wrong order"
    assert streams.differs(found, expected, in_order=False) == ""


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
    assert "noise blosc 3 multitables generator direct 1: RuntimeError: it broke" in out
    assert rows_of("sweep") == []


def test_the_targets_measure_no_liar(
    tiny: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = some_bench(tmp_path)
    try:
        liar = fake_stream(LIES["one bit"])(tiny, "queue", 1, {})
        truthful = streams.h5py_read(tiny)
        assert bench.verified(tiny, [liar, truthful]) == [truthful]
        assert "data differs" in bench.faults[0]
    finally:
        bench.results.__exit__(None, None, None)


@pytest.mark.parametrize("make", [streams.pytables_read, streams.h5py_read])
def test_a_pass_of_a_peer_is_whole(
    make: Callable[[Source], streams.SlabRead], tiny: Source
) -> None:
    passes = make(tiny).passes(2)  # of a file smaller than a slab, too
    assert [one.decoded_bytes for one in passes] == [tiny.decoded_bytes] * 2


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
