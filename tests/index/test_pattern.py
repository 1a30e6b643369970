"""Paths with wildcards: what they match, and the path that matches one name of them.

1. The oracle is `fnmatch`, name by name.
"""

from __future__ import annotations

import fnmatch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from _multitables.index.names.pattern import only, wildcards


@given(st.text(st.characters(exclude_characters="/", exclude_categories=["Cs"]), min_size=1))
def test_one_name_is_matched(name: str) -> None:
    path = only("/a/*/b?/c", 0, name)
    parts = path.split("/")
    assert parts[1] == "a"
    assert parts[3:] == ["b?", "c"]
    assert fnmatch.fnmatchcase(name, parts[2])
    assert len(wildcards(path)) == 2
    if any(letter.isalnum() for letter in name):
        assert not fnmatch.fnmatchcase(name + "x", parts[2])
        assert not fnmatch.fnmatchcase("x" + name, parts[2])


@pytest.mark.parametrize(
    ("path", "found"),
    [("/a/*/b?/c", ["*", "b?"]), ("a/b", []), ("/[ab]/x", ["[ab]"]), ("", [])],
)
def test_wildcards(path: str, found: list[str]) -> None:
    assert wildcards(path) == found
