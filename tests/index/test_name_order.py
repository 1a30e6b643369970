"""Names in the order of the numbers in them: any two can be compared."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from _multitables.index.files.name_order import natural

#: Names that begin alike, with numbers anywhere, zeros before them, and digits of other scripts.
NAMES = st.text("aB1029 \u0662\u00b2\udc80", max_size=6) | st.text(max_size=4)


@given(st.lists(NAMES, max_size=6))
def test_any_names_have_one_order(names: list[str]) -> None:
    keys = [natural(name) for name in names]
    for (one, key), (other, other_key) in itertools.combinations(zip(names, keys, strict=True), 2):
        assert (key == other_key) == (one == other)
        assert (key < other_key) != (other_key <= key)


@given(st.text("ab", max_size=2), st.integers(0), st.integers(0), st.text("ab", max_size=2))
def test_numbers_count_as_numbers(before: str, one: int, other: int, behind: str) -> None:
    names = [f"{before}{number}{behind}" for number in (one, other)]
    assert (natural(names[0]) < natural(names[1])) == (one < other)


def test_a_name_and_one_that_goes_on_with_a_number() -> None:
    names = ["ip", "ip2", "ip10", "ip10a", "shot", "9" * 5000, "9", "10"]
    expected = ["9", "10", "9" * 5000, "ip", "ip2", "ip10", "ip10a", "shot"]
    assert sorted(names, key=natural) == expected
