"""The model of a rotating disk: what its figures say comes out of it.

1. Pure values; no disk, no clock.
2. Each law of disk_model.py has a test that fails without it.
"""

from __future__ import annotations

import random

import pytest
from disk_model import Asked, Disk, Figures
from hypothesis import given
from hypothesis import strategies as st

FIGURES = Figures()
MB = 10**6
TURN = FIGURES.turn_seconds


def read(disk: Disk, begin: int, length: int, wait: float = 0.0) -> float:
    """Seconds that a request takes which comes so long after the last one."""
    now = disk.at + wait
    return disk.read(Asked(begin, length), now) - now


def test_what_follows_costs_its_transfer_only() -> None:
    disk = Disk()
    read(disk, 0, MB)
    for part in range(1, 50):
        assert read(disk, part * MB, MB) == pytest.approx(MB / FIGURES.bytes_per_second)
    assert disk.moved == 0


def test_random_places_cost_the_catalogues_figures() -> None:
    disk, dice = Disk(), random.Random(3)
    seconds = [read(disk, dice.randrange(FIGURES.capacity_bytes), 4096) for _ in range(20_000)]
    mean = sum(seconds) / len(seconds)
    assert mean == pytest.approx(FIGURES.average_seek_seconds + TURN / 2, rel=0.02)


def test_what_has_just_passed_comes_round_a_turn_later() -> None:
    disk = Disk()
    read(disk, 100 * MB, 100_000)
    assert read(disk, 99_900_000, 50_000) == pytest.approx(
        TURN - 150_000 / FIGURES.bytes_per_second, abs=1e-3
    )
    assert disk.moved == 2


def test_a_short_gap_is_passed_over() -> None:
    disk = Disk()
    read(disk, 0, 4096)
    gap = 100_000
    assert read(disk, 4096 + gap, 4096) == pytest.approx((gap + 4096) / FIGURES.bytes_per_second)


def test_a_longer_way_takes_longer() -> None:
    ways = [FIGURES.seek_seconds(10**n) for n in range(12)]
    assert ways == sorted(ways)
    assert ways[0] == 0
    assert ways[7] > FIGURES.track_seek_seconds
    assert FIGURES.seek_seconds(-(10**9)) == FIGURES.seek_seconds(10**9)


def test_the_drive_reads_on_while_nobody_asks() -> None:
    """A late request finds what passed meanwhile in the buffer, and loses no turn."""
    disk = Disk()
    read(disk, 0, MB)
    cable = MB / FIGURES.cable_bytes_per_second
    assert read(disk, MB, MB, wait=0.010) == pytest.approx(cable)


def test_later_than_the_drive_reads_on_costs_less_than_a_turn() -> None:
    disk = Disk(Figures(ahead_bytes=1 << 16))
    read(disk, 0, MB)
    least = (MB - (1 << 16)) / FIGURES.bytes_per_second
    took = read(disk, MB, MB, wait=1.0017)
    assert least < took < least + TURN


def test_what_was_read_last_is_in_the_buffer_and_what_was_read_long_ago_is_not() -> None:
    disk = Disk(Figures(buffer_bytes=4 * MB))
    for part in range(10):
        read(disk, part * MB, MB)
    assert read(disk, 8 * MB, MB) == pytest.approx(MB / FIGURES.cable_bytes_per_second)
    assert disk.moved == 0
    read(disk, MB, MB)
    assert disk.moved == 1


def test_a_queue_is_served_upwards_from_the_head() -> None:
    disk = Disk()
    read(disk, 10 * MB, MB)
    queue = [Asked(begin * MB, MB, disk.at) for begin in (30, 5, 11, 12, 2)]
    served = []
    while queue:
        asked = queue.pop(disk.choose(queue, disk.at))
        served.append(asked.begin // MB)
        disk.read(asked, disk.at)
    assert served == [11, 12, 30, 2, 5]


def test_without_a_queue_in_the_drive_the_first_comes_first() -> None:
    disk = Disk(Figures(queue_depth=1))
    assert disk.choose([Asked(9, 1), Asked(1, 1)], 0.0) == 0


def test_nobody_waits_for_ever() -> None:
    disk = Disk()
    queue = [Asked(10**9, 1, 0.0), Asked(0, 1, 0.9)]
    assert disk.choose(queue, 0.4) == 1
    assert disk.choose(queue, 0.6) == 0


requests = st.lists(
    st.tuples(st.integers(0, 10**9), st.integers(1, 4 * MB), st.floats(0, 0.1)), max_size=30
)


@given(requests=requests)
def test_time_never_goes_back_and_nothing_is_faster_than_the_cable(
    requests: list[tuple[int, int, float]],
) -> None:
    disk = Disk()
    busy = 0.0
    for begin, length, wait in requests:
        seconds = read(disk, begin, length, wait)
        assert seconds >= length / FIGURES.cable_bytes_per_second * 0.999
        most = FIGURES.seek_seconds(10**9 + 4 * MB) + TURN + length / FIGURES.bytes_per_second
        assert seconds <= most * 1.001
        busy += seconds
    assert disk.busy_seconds == pytest.approx(busy)
    assert disk.at >= busy * 0.999
