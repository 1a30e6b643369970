"""What follows from throughput over processes: falls, levels, and the sentences made of them.

Law
---
1. Numbers are given. When they change, so does what is concluded.
"""

from __future__ import annotations

from pathlib import Path

import kept_runs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from _benchmark import curves, docs_page, results
from _benchmark.curves import Curve
from _benchmark.measure import Summary, summary

PUBLISHED = Path(__file__).parents[2] / "docs" / "results"


def curve(
    rates: dict[int, float],
    access: str = "queue",
    level: int = 0,
    release: str = "multitables, direct",
    device: str = "disk",
    spread: float = 0.0,
) -> Curve:
    found = {n: summary([rate - spread, rate, rate + spread]) for n, rate in rates.items()}
    complib = "zlib" if level else curves.NO_COMPRESSION
    return Curve(release, device, complib, level, access, found)


def said(*every: Curve) -> str:
    return "\n".join(curves.conclusions(every))


# ---- falls


def test_a_fall_is_from_the_best_of_fewer_and_more_than_five_percent() -> None:
    falls = curves.falls(curve({1: 100, 2: 200, 4: 191, 6: 189, 8: 150, 12: 300}))
    assert [(one.before, one.after) for one in falls] == [(2, 8), (2, 6)]
    assert falls[0].share == 0.25
    assert curves.falls(curve({1: 100, 2: 95.1, 3: 95})) == []
    assert curves.falls(curve({1: 100})) == []


def test_a_fall_within_the_spread_says_so() -> None:
    (close,) = curves.falls(curve({1: 100, 2: 90}, spread=6))
    assert close.within_spread
    assert str(close).endswith("10% less, which is within the spread of the repeats")
    (clear,) = curves.falls(curve({1: 100, 2: 90}, spread=4))
    assert not clear.within_spread
    assert str(clear) == (
        "direct queue, no compression: 100 MB/s with 1 process, 90 with 2, 10% less"
    )


@given(st.dictionaries(st.integers(1, 64), st.floats(1, 1e5), min_size=1))
def test_what_is_level_has_no_fall_and_enough_is_near_the_best(rates: dict[int, float]) -> None:
    found = curve(rates)
    falls = curves.falls(found)
    if curves.is_level(found):
        assert falls == []
    assert rates[curves.enough(found)] >= 0.95 * max(rates.values())
    assert curves.enough(found) <= found.best[0]
    for fall in falls:
        assert fall.before < fall.after
        assert rates[fall.after] < 0.95 * rates[fall.before]
    for n, rate in rates.items():
        fewer = [other for m, other in rates.items() if m < n]
        hurts = bool(fewer) and rate < 0.95 * max(fewer)
        assert hurts == (n in [fall.after for fall in falls])


# ---- sentences


def test_processes_that_never_hurt() -> None:
    text = said(curve({1: 100, 2: 190, 4: 200}))
    assert "100 MB/s with 1 process, at most 200 with 4 (2.0x), 2 are within 5 % of that." in text
    assert "More processes never hurt: in none of the 1 series" in text


def test_every_number_of_processes_within_five_percent() -> None:
    text = said(curve({1: 100, 2: 98, 6: 96}))
    assert "100 MB/s at best, and every number of processes from 1 to 6 is within 5 % of it" in text
    assert "never hurt" in text


def test_the_exact_place_where_processes_hurt() -> None:
    text = said(curve({1: 97, 2: 97, 6: 62}), curve({1: 100, 2: 90}, "generator"))
    assert "Direct queue, no compression: 97 MB/s with 1 process, down to 62 with 6." in text
    assert "More processes hurt in 2 of 2 series" in text
    deepest = "direct queue, no compression: 97 MB/s with 1 process, 62 with 6, 36% less"
    assert f"The deepest fall: {deepest}." in text


def test_a_fall_beyond_the_spread_counts_for_more_than_a_deeper_one_within_it() -> None:
    text = said(curve({1: 100, 2: 80}, spread=15), curve({1: 100, 2: 90}, "generator"))
    assert "The deepest fall: generator" in text


def test_what_compression_costs() -> None:
    text = said(
        curve({1: 100, 4: 200}), curve({1: 30, 4: 90}, level=3), curve({1: 25, 4: 100}, level=9)
    )
    assert "zlib 9 reaches 0.25 of the rate without compression with 1 process, and 0.50" in text
    assert "(100 MB/s with 4)" in text
    assert "zlib 3" not in text
    assert "compression with" not in said(curve({1: 100}))


def test_the_other_ways_to_take_rows_beside_the_queue() -> None:
    queue = [curve({1: 100}), curve({1: 100}, level=9)]
    text = said(*queue, curve({1: 50}, "generator"), curve({1: 75}, "generator", level=9))
    assert "The generator reaches 0.50 to 0.75 of the direct queue" in text
    assert "Batches reach 0.80 of the direct queue" in said(*queue, curve({1: 80}, "batches"))
    assert "of the direct queue" not in said(curve({1: 50}, "generator"))


def test_another_release_on_the_same_device() -> None:
    old = curve({1: 50, 2: 40}, release="multitables 2.0.1, hdf5-direct")
    (found,) = curves.beside_other_releases([old, curve({1: 100, 2: 125})])
    assert found.startswith("disk: 2.5 times as fast as multitables 2.0.1, hdf5-direct, each at")
    elsewhere = curve({1: 100}, device="another disk")
    assert list(curves.beside_other_releases([old, elsewhere])) == []


def test_the_answer_over_all_devices() -> None:
    good = curve({1: 100, 2: 200}, device="SSD")
    bad = curve({1: 100, 2: 50}, device="HDD")
    old = curve({1: 100, 2: 10}, device="SSD", release="multitables 2.0.1, hdf5-direct")
    assert list(curves.overall([good, bad, old], [])) == [
        "Measured here, more processes reach less than fewer on: HDD (up to 50%).",
        "Measured here, more processes never cost more than 5 % on: SSD.",
    ]
    assert list(curves.overall([], [])) == []


# ---- from rows


def test_curves_of_a_sweep(tmp_path: Path) -> None:
    kept_runs.keep_sweep(tmp_path, kept_runs.RISING)
    kept = results.read(str(tmp_path), "sweep")
    assert kept is not None
    queue, blosc, _ = curves.of_rows(kept.rows)
    assert (queue.device, queue.release, queue.codec) == (
        "NVMe SSD",
        "multitables, direct",
        "no compression",
    )
    assert queue.rates == {
        1: Summary(1000, 900, 1100, 3),
        2: Summary(1900, 1800, 2000, 3),
        4: Summary(1950, 1850, 2050, 3),
    }
    assert blosc.codec == "blosc 9"
    others = [dict(row) | {"contender": "PyTables read(out=)"} for row in kept.rows]
    assert curves.of_rows(others) == []
    assert curves.of_rows([dict(row) | {"data": "counts"} for row in kept.rows]) == []
    limited = [dict(row) | {"limit_mb_per_s": "200.0"} for row in kept.rows]
    assert curves.of_rows(limited)[0].device == "NVMe SSD limited to 200 MB/s"
    both = [*kept.rows, *(dict(row) | {"place": "/other"} for row in kept.rows)]
    assert {one.device for one in curves.of_rows(both)} == {
        "NVMe SSD at /data",
        "NVMe SSD at /other",
    }


def test_the_published_tables_are_whole_and_converted() -> None:
    rows = docs_page.read_published(str(PUBLISHED))
    cells = {
        tuple(row[name] for name in ("device", "complib", "access", "complevel", "n_procs")): row
        for row in rows
    }
    assert len(cells) == len(rows) == 12 * 3 * (2 * 2 + 2) + 6 * 3 * 2
    for row in rows:
        exact = int(row["mib_per_s"]) * 2**20 / 1e6
        assert float(row["mb_per_s"]) == pytest.approx(exact, abs=0.051)
        assert row["source"].startswith("https://")
    disk = ("SATA III 7200 RPM HDD", "blosc", "queue", "0")
    found = [cells[(*disk, n)]["mib_per_s"] for n in "123456"]
    assert found == ["97", "97", "69", "67", "68", "62"]
    nvme = ("NVMe SSD", "zlib", "queue", "9")
    assert cells[(*nvme, "12")]["mib_per_s"] == "1934"


def test_what_was_published_of_the_rotating_disk() -> None:
    published = curves.of_published(docs_page.read_published(str(PUBLISHED)))
    disk = [one for one in published if "HDD" in one.device]
    text = "\n".join(curves.conclusions(disk))
    assert "102 (printed: 97) MB/s with 1 process, down to 65 (printed: 62) with 6" in text
    assert "More processes hurt in 6 of 6 series" in text
