"""What `explain` says, on rows that are made up, so that each bound comes up.

Law
---
1. Nothing is measured; the words that matter are looked for, and those that must not come.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from _multitables.benchmark.harness.results import Kept
from _multitables.benchmark.studies.explain.numbers import KEYS, MORE, STREAM
from _multitables.benchmark.studies.explain.views import views
from _multitables.benchmark.studies.frame import Plan

COLUMNS = Plan([], views, KEYS, MORE).columns


def text_of(
    rates: Mapping[str, Any], filters: tuple[str, ...] = ("deflate (zlib) 3",), **more: Any
) -> str:
    """The text for ``"stream x2 direct": 500`` and the like."""
    rows = []
    for name, values in rates.items():
        quantity, _, rest = name.partition(" x")
        n, way, block_size = [*rest.split(), "", ""][:3]
        for number, value in enumerate(values if isinstance(values, list) else [values]):
            row = dict.fromkeys(COLUMNS, "") | {"dataset": "x"}
            row |= {"contender": STREAM if quantity == "stream" else quantity}
            row |= {"way": way, "n_procs": n, "block_size": block_size, "cache": way}
            row |= {"round": str(number), "value": str(value), "unit": "MB/s"}
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
        "faults": [],
    }
    found = views(Kept("explain", rows, words | more))
    return "\n".join(" ".join(line.split()) for view in found for line in view.text().splitlines())


DECODING = {"fetch and decode x1 warm": 300, "fetch and decode x4 warm": 1100}
HAND_OVER = {"hand-over x1": 90000}


def test_a_device_that_bounds() -> None:
    rates = {"device x1 direct": 700, "device x8 direct": 900, **DECODING, **HAND_OVER}
    text = text_of(
        {**rates, "stream x1 direct": 290, "stream x3 direct": 850, "stream x4 direct": 870}
    )
    assert "\naround the page cache 3 850 device 900 94%\n" in text
    assert "\nstored bytes fewer around the page cache: the device bounds the stream;" in text
    assert "\nn_procs 3 around the page cache: the fewest, of 1 to 4, within 5% of the best" in text
    assert "cores about" not in text
    assert "Mind" not in text


def test_decoding_that_bounds_and_what_more_cores_bring() -> None:
    rates = {"device x8 direct": 3000, **DECODING, **HAND_OVER}
    text = text_of({**rates, "stream x1 direct": 280, "stream x4 direct": 900})
    assert "\naround the page cache 4 900 fetch and decode 1100 82%\n" in text
    assert "\nfilter blosc:lz4, or none around the page cache: decoding bounds the stream" in text
    assert "\ncores about 10 around the page cache: with these, as many readers would" in text


def test_memory_that_bounds_data_without_filters() -> None:
    text = text_of({**DECODING, **HAND_OVER, "stream x1 warm": 290}, filters=())
    assert "\nfrom the page cache 1 290 page cache 300 97%\n" in text
    assert "memory bounds the stream, and no setting changes that" in text
    assert "\nn_procs 1 from the page cache: no more were measured\n" in text


def test_the_hand_over_that_bounds_small_blocks() -> None:
    text = text_of({**DECODING, "hand-over x1": 50, "stream x1 warm": 48})
    assert "\nblock_size larger from the page cache: each block costs the same" in text


def test_a_stream_far_below_its_limits_is_no_bound() -> None:
    text = text_of({**DECODING, **HAND_OVER, "stream x1 warm": 100})
    assert "\nfrom the page cache 1 100 fetch and decode 300 33%\n" in text
    assert "Mind: the stream from the page cache is far below its lowest limit" in text
    assert "decoding bounds" not in text


def test_a_stream_above_its_limit_is_doubted() -> None:
    text = text_of({**DECODING, **HAND_OVER, "stream x1 warm": 600})
    assert "fetch and decode 300 200%" in text
    assert "Mind: the stream from the page cache came out above its lowest limit" in text


def test_larger_blocks_are_advised_when_they_were_faster() -> None:
    rates = {**DECODING, **HAND_OVER, "stream x4 warm": 400}
    assert "\nblock_size 3000 " in text_of({**rates, "stream x4 warm 3000": 500})
    assert "1.25 times as fast" in text_of({**rates, "stream x4 warm 3000": 500})
    assert "\nblock_size leave it out " in text_of({**rates, "stream x4 warm 3000": 405})
    assert "\nblock_size leave it out a block is then 1000 rows, 97.66 KiB" in text_of(rates)


def test_tiny_and_narrow_chunks_and_large_blocks_are_said() -> None:
    rates = {**DECODING, **HAND_OVER, "stream x4 warm": 400}
    assert "write the file anew with" not in text_of(rates)
    tiny = text_of(rates, dataset={"chunks": [10, 25]}, default_rows=10)
    assert "\nchunks 64 KiB to 1 MiB they are tiny (1000 B)" in tiny
    assert "h5repack" in tiny
    narrow = text_of(rates, dataset={"chunks": [10**5, 5]}, default_rows=10**5)
    assert "each has parts of 100000 rows: 9.537 MiB are decoded" in narrow
    assert "CHUNK=2621x25" in narrow
    assert "copying parts of rows to their places" in narrow
    large = text_of(rates, dataset={"chunks": [10**5, 25]}, default_rows=10**5)
    assert "the ring of 4 readers holds 85.83 MiB" in large
    assert "largest cache 32 MiB" in large


def test_rounds_that_differ_and_small_data_are_said() -> None:
    rates = {**DECODING, **HAND_OVER, "stream x1 warm": [200, 300, 310]}
    assert "rounds differ by more than 30% for multitables." in text_of(rates)
    assert "Mind" not in text_of({**rates, "stream x1 warm": [290, 300, 310]})
    assert "has only 0.1 MB" in text_of(rates, dataset={"shape": [1000, 25]})


def test_shuffles_that_decode_often_have_an_advice() -> None:
    rates = {**DECODING, **HAND_OVER, "stream x1 warm": 290}
    often, once = {"rows, shuffle='full'": 2.5}, {"rows, shuffle='full'": 1.0}
    assert "\nrows, shuffle='full' 2.5" in text_of(rates, shuffles=often)
    assert "\nshuffle an order that decodes each chunk less often" in text_of(rates, shuffles=often)
    assert "less often" not in text_of(rates, shuffles=once)
    assert "less often" not in text_of(rates, filters=(), shuffles=often)


def test_a_library_that_reads_has_no_bound() -> None:
    left_out = {"fetch and decode": {"read through h5py": ["warm"]}}
    text = text_of({**HAND_OVER, "stream x2 warm": 290}, left_out=left_out)
    assert "Not measured: fetch and decode (warm): read through h5py" in text
    assert "\nn_procs up to the free cores each reads and decodes inside libhdf5" in text
    assert "lowest limit" not in text


def test_a_stream_that_failed_has_no_number() -> None:
    fault = {"way": "warm", "contender": STREAM, "n_procs": 2, "block_size": ""}
    rates = {**DECODING, **HAND_OVER, "stream x1 warm": 290}
    text = text_of(rates, faults=[{**fault, "fault": "data differs"}])
    assert "contender multitables, n_procs 2: data differs" in text
    assert "\nwarm 2 FAILED" in text
    assert "\nn_procs 1 from the page cache: no more were measured" in text


def test_nothing_kept_is_nothing_said() -> None:
    assert views(Kept("explain", [], {})) == []
    text = text_of(HAND_OVER, left_out={"all": {"the file system refuses O_DIRECT": ["device"]}})
    assert "the file system refuses O_DIRECT" in text
    assert "n_procs" not in text


def test_the_plot_holds_both_ways() -> None:
    rows = []
    for way in ("direct", "warm"):
        for n in ("1", "2"):
            row = dict.fromkeys(COLUMNS, "") | {"dataset": "x", "way": way, "n_procs": n}
            rows.append(row | {"contender": STREAM, "value": "100", "round": "0"})
    more = {"dataset": {"path": "/x", "filename": "x", "shape": [10, 2], "chunks": []}}
    more["dataset"] |= {"filters": [], "row_bytes": 8, "stored_bytes": 80}
    words = {"sampled": False, "default_rows": 5, "cores": 2, "cache_bytes": 0}
    (view,) = views(Kept("explain", rows, {**more, **words}))
    (chart,) = view.charts
    assert [one.label for one in chart.series] == ["around the page cache", "from the page cache"]
    assert [x for x, _ in chart.series[0].points] == [1, 2]
