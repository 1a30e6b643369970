"""What `explain` says, on rows that are made up, so that each bound comes up.

Law
---
1. Nothing is measured; the sentences that matter are looked for, and those that must not come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from _benchmark.harness.results import Kept
from _benchmark.studies.explain.numbers import COLUMNS
from _benchmark.studies.explain.views import views


def told(
    rates: Mapping[str, Any], filters: tuple[str, ...] = ("deflate (zlib) 3",), **more: Any
) -> str:
    """The text for ``"stream x2 direct": 500`` and the like."""
    rows = []
    for name, values in rates.items():
        quantity, _, rest = name.partition(" x")
        n, way, block_size = [*rest.split(), "", ""][:3]
        for number, value in enumerate(values if isinstance(values, list) else [values]):
            row = dict.fromkeys(COLUMNS, "") | {"dataset": "x"}
            row |= {"quantity": quantity, "way": way, "n_procs": n, "block_size": block_size}
            row |= {"round": str(number), "mb_per_s": str(value), "cache": way}
            rows.append(row)
    dataset = {
        "path": "/x",
        "filename": "x.h5",
        "shape": [10**6, 25],
        "chunks": [1000, 25],
        "filters": filters,
        "row_bytes": 100,
        "stored_bytes": 10**7,
    }
    words = {
        "dataset": dataset | more.pop("dataset", {}),
        "sampled": False,
        "default_rows": 1000,
        "cores": 4,
        "cache_bytes": 2**25,
        "left_out": {},
        "faults": {},
    }
    (view,) = views(Kept("explain", rows, words | more))
    return view.text()


DECODING = {"fetch and decode x1 warm": 300, "fetch and decode x4 warm": 1100}
HAND_OVER = {"hand-over x1": 90000}


def test_a_device_that_bounds() -> None:
    rates = {"device x1 direct": 700, "device x8 direct": 900, **DECODING, **HAND_OVER}
    text = told(
        {**rates, "stream x1 direct": 290, "stream x3 direct": 850, "stream x4 direct": 870}
    )
    assert "3 readers bring 850 MB/s" in text
    assert "what the device delivers, 900 MB/s; the stream is at this limit (94%)" in text
    assert "The device bounds the stream." in text
    assert "n_procs=3 (the fewest, of 1 to 4, within 5% of the best)" in text


def test_decoding_that_bounds_and_what_more_cores_bring() -> None:
    rates = {"device x8 direct": 3000, **DECODING, **HAND_OVER}
    text = told({**rates, "stream x1 direct": 280, "stream x4 direct": 900})
    assert "fetching and decoding, 1100 MB/s; the stream reaches 82% of it" in text
    assert "Decoding bounds the stream." in text
    assert "about 10 readers would decode as fast as the device delivers" in text


def test_memory_that_bounds_data_without_filters() -> None:
    text = told({**DECODING, **HAND_OVER, "stream x1 warm": 290}, filters=())
    assert "copying from the page cache, 300 MB/s" in text
    assert "Memory bounds the stream" in text
    assert "n_procs=1 (no more were measured)" in text


def test_the_hand_over_that_bounds_small_blocks() -> None:
    text = told({**DECODING, "hand-over x1": 50, "stream x1 warm": 48})
    assert "Handing over bounds the stream" in text


def test_a_stream_far_below_its_limits_is_no_bound() -> None:
    text = told({**DECODING, **HAND_OVER, "stream x1 warm": 100})
    assert "reaches 33% of it. That is far below" in text
    assert "Decoding bounds" not in text


def test_a_stream_above_its_limit_is_doubted() -> None:
    text = told({**DECODING, **HAND_OVER, "stream x1 warm": 600})
    assert "came out above it (200%)" in text


def test_larger_blocks_are_advised_when_they_were_faster() -> None:
    rates = {**DECODING, **HAND_OVER, "stream x4 warm": 400}
    assert "block_size=3000" in told({**rates, "stream x4 warm 3000": 500})
    assert "1.25 times as fast" in told({**rates, "stream x4 warm 3000": 500})
    assert "leave block_size out" in told({**rates, "stream x4 warm 3000": 405})
    assert "leave block_size out" in told(rates)


def test_tiny_and_narrow_chunks_and_large_blocks_are_said() -> None:
    rates = {**DECODING, **HAND_OVER, "stream x4 warm": 400}
    assert "write the file anew" not in told(rates)
    tiny = told(rates, dataset={"chunks": [10, 25]}, default_rows=10)
    assert "The chunks are tiny: 1000 B each" in tiny
    assert "h5repack" in tiny
    narrow = " ".join(told(rates, dataset={"chunks": [10**5, 5]}, default_rows=10**5).split())
    assert "Each chunk has parts of 100000 rows: 9.537 MiB are decoded" in narrow
    assert "CHUNK=2621x25" in narrow
    assert "copying parts of rows to their places, most likely" in narrow
    large = told(rates, dataset={"chunks": [10**5, 25]}, default_rows=10**5)
    assert "the ring of 4 readers holds 85.83 MiB" in large
    assert "largest cache 32 MiB" in large


def test_rounds_that_differ_and_small_data_are_said() -> None:
    rates = {**DECODING, **HAND_OVER, "stream x1 warm": [200, 300, 310]}
    assert "rounds differ by more than 30% for stream." in told(rates)
    assert "Mind" not in told({**rates, "stream x1 warm": [290, 300, 310]})
    assert "has only 0.1 MB" in told(rates, dataset={"shape": [1000, 25]})


def test_nothing_kept_is_nothing_said() -> None:
    assert views(Kept("explain", [], {})) == []
    text = told(HAND_OVER, left_out={"direct": "the file system refuses O_DIRECT"})
    assert "the file system refuses O_DIRECT" in text
    assert "n_procs" not in text


def test_the_plot_holds_both_ways() -> None:
    rows = []
    for way in ("direct", "warm"):
        for n in ("1", "2"):
            row = dict.fromkeys(COLUMNS, "") | {"dataset": "x", "way": way, "n_procs": n}
            rows.append(row | {"quantity": "stream", "mb_per_s": "100", "round": "0"})
    more = {"dataset": {"path": "/x", "filename": "x", "shape": [10, 2], "chunks": []}}
    more["dataset"] |= {"filters": [], "row_bytes": 8, "stored_bytes": 80}
    words = {"sampled": False, "default_rows": 5, "cores": 2, "cache_bytes": 0}
    (view,) = views(Kept("explain", rows, {**more, **words, "left_out": {}, "faults": {}}))
    (chart,) = view.charts
    assert [one.label for one in chart.series] == ["around the page cache", "from the page cache"]
    assert [x for x, _ in chart.series[0].points] == [1, 2]
