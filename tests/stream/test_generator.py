"""The generator: rows that can be kept, and readers that stop however its loop is left.

1. Rows are compared with the file; laziness and stopping with what processes there are.
"""

from __future__ import annotations

import gc
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from payload import COLUMNS, ROWS, content
from processes import children, readers

import multitables


def rows_of(path: Path, dataset: Any = "/rows", **options: Any) -> Any:
    return multitables.Streamer(path).get_generator(dataset, **{"n_procs": 2, **options})


def test_rows_can_be_kept(numbered: Path) -> None:
    rows = list(rows_of(numbered))
    assert len(rows) == ROWS
    np.testing.assert_array_equal(np.stack(rows), content())


@pytest.mark.parametrize("block_size", [1, 7, 100, ROWS, ROWS + 5])
def test_the_tail_is_included(numbered: Path, block_size: int) -> None:
    rows = list(rows_of(numbered, "/labels", block_size=block_size))
    np.testing.assert_array_equal(np.array(rows), -np.arange(ROWS))


def test_the_tail_can_be_left_out(numbered: Path) -> None:
    assert len(list(rows_of(numbered, block_size=999, remainder=False))) == ROWS // 999 * 999


def test_rows_are_copies(numbered: Path) -> None:
    """Writing into a row changes no other, nor what comes next."""
    rows = rows_of(numbered, cyclic=True)
    for number in range(2 * ROWS):
        row = next(rows)
        assert row[0] == number % ROWS * COLUMNS
        row[:] = -5
    rows.close()


def test_cyclic_has_no_end(numbered: Path) -> None:
    rows = rows_of(numbered, "/labels", cyclic=True, block_size=1000)
    got = list(itertools.islice(rows, 2 * ROWS + 10))
    np.testing.assert_array_equal(got, -(np.arange(2 * ROWS + 10) % ROWS))
    rows.close()


def test_it_is_lazy(numbered: Path) -> None:
    """The ring bounds what is read before rows are asked for."""
    rows = rows_of(numbered, cyclic=True, read_ahead=2)
    first = next(rows)
    np.testing.assert_array_equal(first, content()[0])
    assert len(readers()) == 2
    rows.close()


def test_closing_stops_the_readers(numbered: Path) -> None:
    rows = rows_of(numbered, cyclic=True)
    next(rows)
    assert readers()
    rows.close()
    assert children() == {}
    assert next(rows, None) is None
    rows.close()


def test_closing_before_the_first_row_stops_the_readers(numbered: Path) -> None:
    rows = rows_of(numbered, cyclic=True)
    rows.close()
    del rows
    gc.collect()
    assert children() == {}


def test_dropping_stops_the_readers(numbered: Path) -> None:
    for taken in (0, 1, 200):
        rows = rows_of(numbered, cyclic=True)
        for _ in range(taken):
            next(rows)
        del rows
        gc.collect()
        assert children() == {}


def test_breaking_out_of_the_loop_stops_the_readers(numbered: Path) -> None:
    for number, row in enumerate(rows_of(numbered, cyclic=True)):
        assert row[0] == number * COLUMNS
        if number == 123:
            break
    gc.collect()
    assert children() == {}


def test_an_exception_in_the_loop_stops_the_readers(numbered: Path) -> None:
    def loop() -> None:
        for _ in rows_of(numbered, cyclic=True):
            raise KeyError("the user's own")

    with pytest.raises(KeyError, match="own"):
        loop()
    gc.collect()
    assert children() == {}


def test_the_end_stops_the_readers(numbered: Path) -> None:
    rows = rows_of(numbered)
    for _ in rows:
        pass
    assert children() == {}
    assert next(rows, "end") == "end"


@pytest.mark.parametrize("bad", [{"n_procs": -1}, {"read_ahead": 0}, {"block_size": 0}])
def test_bad_options_are_told_at_the_call(numbered: Path, bad: dict[str, int]) -> None:
    """Not only when the first row is asked for."""
    with pytest.raises(multitables.OptionsError):
        rows_of(numbered, **bad)


def test_a_missing_dataset_is_told_at_the_call(numbered: Path) -> None:
    with pytest.raises(multitables.MissingDatasetError):
        rows_of(numbered, "/nothing")


def test_zip_of_two_generators(numbered: Path) -> None:
    count = 0
    for number, (row, label) in enumerate(
        zip(rows_of(numbered, n_procs=1), rows_of(numbered, "/labels", n_procs=1), strict=True)
    ):
        assert row[0] == number * COLUMNS
        assert label == -number
        count += 1
    assert count == ROWS


@pytest.mark.parametrize("block_size", [1, 7, 1000, 5999, 6000, 6001, 10**6])
def test_remainder(numbered: Path, block_size: int) -> None:
    streamer = multitables.Streamer(numbered)
    for dataset, want in (("/rows", content()), ("/labels", -np.arange(ROWS, dtype=">i2"))):
        tail = streamer.get_remainder(dataset, block_size)
        begin = ROWS // block_size * block_size
        np.testing.assert_array_equal(tail, want[begin:])
        assert tail.dtype == want.dtype
        assert tail.shape[1:] == want.shape[1:]
        assert len(tail) == ROWS % block_size
        tail[:] = 0  # a copy, which can be written
        assert children() == {}
