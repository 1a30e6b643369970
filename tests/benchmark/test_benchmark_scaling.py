"""What follows from throughput over processes: falls, levels, and the sentences made of them.

Law
---
1. Numbers are given. When they change, so does what is concluded.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import stored_runs
from hypothesis import given
from hypothesis import strategies as st

from _benchmark.harness import results
from _benchmark.harness.rounds import Summary, summary
from _benchmark.report import docs_page, scaling
from _benchmark.report.scaling import Curve
from _benchmark.report.tables import Table

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
    complib = "zlib" if level else scaling.NO_COMPRESSION
    return Curve(release, device, complib, level, access, found)


def said(*every: Curve) -> str:
    """Of curves that were measured here."""
    return "\n".join(scaling.conclusions(every, []))


def cells(table: Table) -> list[dict[str, str]]:
    return [dict(zip(table.header, row, strict=True)) for row in table.rows]


# ---- falls


def test_a_fall_is_from_the_best_of_fewer_and_more_than_five_percent() -> None:
    falls = scaling.falls(curve({1: 100, 2: 200, 4: 191, 6: 189, 8: 150, 12: 300}))
    assert [(one.before, one.after) for one in falls] == [(2, 8), (2, 6)]
    assert falls[0].share == 0.25
    assert scaling.falls(curve({1: 100, 2: 95.1, 3: 95})) == []
    assert scaling.falls(curve({1: 100})) == []


def test_a_fall_within_the_spread_says_so() -> None:
    (close,) = scaling.falls(curve({1: 100, 2: 90}, spread=6))
    assert close.within_spread
    assert str(close).endswith("10% less, which is within the spread of the repeats")
    (clear,) = scaling.falls(curve({1: 100, 2: 90}, spread=4))
    assert not clear.within_spread
    assert str(clear) == (
        "direct queue, no compression: 100 MB/s with 1 process, 90 with 2, 10% less"
    )


@given(st.dictionaries(st.integers(1, 64), st.floats(1, 1e5), min_size=1))
def test_what_is_level_has_no_fall_and_enough_is_near_the_best(rates: dict[int, float]) -> None:
    found = curve(rates)
    falls = scaling.falls(found)
    if scaling.is_level(found):
        assert falls == []
    assert rates[scaling.enough(found)] >= 0.95 * max(rates.values())
    assert scaling.enough(found) <= found.best[0]
    for fall in falls:
        assert fall.before < fall.after
        assert rates[fall.after] < 0.95 * rates[fall.before]
    for n, rate in rates.items():
        fewer = [other for m, other in rates.items() if m < n]
        hurts = bool(fewer) and rate < 0.95 * max(fewer)
        assert hurts == (n in [fall.after for fall in falls])


# ---- sentences


def test_processes_that_never_hurt() -> None:
    assert said(curve({1: 100, 2: 190, 4: 200})) == (
        "Measured here, more processes never hurt on disk: no number of them is more than 5 % "
        "below what fewer reach."
    )


def test_every_number_of_processes_within_five_percent() -> None:
    text = said(curve({1: 100, 2: 98, 6: 96}))
    assert "never hurt on disk (every number of them is within 5 %): no number" in text
    assert "within 5 %)" not in said(curve({1: 100, 2: 98, 6: 96}), curve({1: 50, 2: 99}, level=9))


def test_the_exact_place_where_processes_hurt() -> None:
    plain, other = curve({1: 97, 2: 97, 6: 62}), curve({1: 100, 2: 40}, "generator")
    where = "direct queue, no compression: 97 MB/s with 1 process, 62 with 6, 36% less"
    assert f"more processes hurt on disk, in 1 of 1 series: {where}." in said(plain)
    assert f"in 2 of 2 series: {where}; the deepest fall is generator" in said(plain, other)
    assert "100 MB/s with 1 process, 40 with 2, 60% less." in said(plain, other)


def test_a_fall_beyond_the_spread_counts_for_more_than_a_deeper_one_within_it() -> None:
    text = said(curve({1: 100, 2: 80}, spread=15), curve({1: 100, 2: 90}, "generator"))
    assert "within the spread of the repeats; the deepest fall is generator" in text


def test_each_device_is_judged_by_itself() -> None:
    good = curve({1: 100, 2: 200}, device="SSD")
    bad = curve({1: 100, 2: 50}, device="HDD")
    old = curve({1: 100, 2: 10}, device="SSD", release="multitables 2.0.1, hdf5-direct")
    text = said(good, bad, old)
    assert "more processes hurt on HDD, in 1 of 1 series" in text
    assert "more processes never hurt on SSD" in text
    assert list(scaling.conclusions([], [])) == []


def test_what_compression_costs() -> None:
    every = [
        curve({1: 100, 4: 200}),
        curve({1: 30, 4: 90}, level=3),
        curve({1: 25, 4: 100}, level=9),
    ]
    assert (
        "the highest levels of compression reach 0.25 of the rate without compression with the "
        "fewest processes, and 0.50 where each has its best number."
    ) in said(*every)
    (row,) = cells(scaling.cost_table(every))
    assert (row["codec"], row["of no compression, fewest"], row["at best"]) == (
        "zlib 9",
        "0.25",
        "0.50",
    )
    assert "compression reach" not in said(curve({1: 100}))


def test_the_other_ways_to_take_rows_beside_the_queue() -> None:
    queue = [curve({1: 100}), curve({1: 100}, level=9)]
    every = [*queue, curve({1: 50}, "generator"), curve({1: 75}, "generator", level=9)]
    assert "the generator reaches 0.50 to 0.75 of the direct queue" in said(*every)
    found = {row["codec"]: row["generator of queue"] for row in cells(scaling.cost_table(every))}
    assert found == {"no compression": "0.50", "zlib 9": "0.75"}
    assert "batches reach 0.80 of the direct queue" in said(*queue, curve({1: 80}, "batches"))
    assert "of the direct queue" not in said(curve({1: 50}, "generator"))


def test_another_release_on_the_same_device() -> None:
    old = curve({1: 50, 2: 40}, release="multitables 2.0.1, hdf5-direct")
    assert (
        "Measured here on disk, this release is 2.5 times as fast as multitables 2.0.1, "
        "hdf5-direct, each at its best number of processes."
    ) in said(old, curve({1: 100, 2: 125}))
    hurt = "Measured here with multitables 2.0.1, hdf5-direct, more processes hurt on disk, in 1 of"
    assert hurt in said(old, curve({1: 100}))
    assert "times as fast" not in said(old, curve({1: 100}, device="another disk"))


def test_the_table_of_processes() -> None:
    every = [
        curve({1: 100, 2: 195, 4: 200}),
        curve({1: 100, 2: 90}, "generator"),
        curve({2: 50, 6: 30}, release="multitables 2.0.1, hdf5-direct"),
    ]
    ours, old = scaling.process_table(every).rows
    assert ours == [
        *("disk", "direct", "100 with 1", "200 with 4", "2.0x", "2", "10%", "1 of 2"),
    ]
    assert old[2:] == ["50 with 2", "50 with 2", "1.0x", "2", "40%", "1 of 1"]


# ---- from rows


def test_curves_of_a_sweep(tmp_path: Path) -> None:
    stored_runs.keep_sweep(tmp_path, stored_runs.RISING)
    kept = results.read(str(tmp_path), "sweep")
    assert kept is not None
    queue, blosc, _ = scaling.of_rows(kept.rows)
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
    assert scaling.of_rows(others) == []
    assert scaling.of_rows([dict(row) | {"data": "counts"} for row in kept.rows]) == []
    limited = [dict(row) | {"limit_mb_per_s": "200.0"} for row in kept.rows]
    assert scaling.of_rows(limited)[0].device == "NVMe SSD limited to 200 MB/s"
    both = [*kept.rows, *(dict(row) | {"place": "/other"} for row in kept.rows)]
    assert {one.device for one in scaling.of_rows(both)} == {
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
    published = scaling.of_published(docs_page.read_published(str(PUBLISHED)))
    disk = [one for one in published if "HDD" in one.device]
    (text,) = (one for one in scaling.conclusions([], disk) if "hurt" in one)
    assert text.startswith("Published, more processes hurt on SATA III 7200 RPM HDD, in 6 of 6")
    assert "102 (printed: 97) MB/s with 1 process, 65 (printed: 62) with 6, 36% less" in text
