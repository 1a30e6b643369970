"""What names and texts may say.

1. Words that say nothing, or another thing than the field's, are counted in each part of the
   project, also as parts of names. A count may only shrink: set it lower when it does.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import _multitables

LIBRARY = Path(_multitables.__file__).parent
ROOT = LIBRARY.parent
#: What is read of each part, from the root of the project.
PARTS = {
    "library": ("_multitables/**/*.py",),
    "benchmark": ("_multitables/benchmark/**/*.py", "multitables_benchmark.py"),
    "tests": ("tests/**/*.py", "tools/*.py"),
    "docs": ("docs/**/*.rst", "*.rst"),
    "core": ("core/crates/**/*.rs",),
}
#: Word -> what is said instead.
WORDS = {
    "told": "says, reports, describes; a noun by its name",
    "tells? of": "says, reports, describes",
    "(?:the|an?|what is) asked": "request, question",
    "(?-i:Ways?)": "a noun by its name",
    "books?|desks?|boards?|shel(?:f|ves)": "a noun by its name",
    "catalogues?": "dataset table, cache",
    "bear|firm|whoever|wherever|whatever|had better|so many": "subject, verb, reason",
}
#: How often they stand there still, in the order of `WORDS`.
STILL = {
    "library": (250, 12, 11, 1, 13, 34, 35),
    "benchmark": (67, 2, 6, 0, 18, 0, 15),
    "tests": (458, 4, 6, 0, 6, 3, 44),
    "docs": (8, 2, 0, 0, 0, 0, 12),
    "core": (73, 2, 7, 68, 53, 0, 34),
}


def uses(text: str) -> list[int]:
    """How often a text has each of the words; those of names count one by one."""
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", text).replace("_", " ")
    return [len(re.findall(rf"\b(?:{word})\b", split, re.IGNORECASE)) for word in WORDS]


@pytest.mark.parametrize("part", PARTS)
def test_words_that_say_nothing_become_fewer(part: str) -> None:
    found = [path for pattern in PARTS[part] for path in ROOT.glob(pattern)]
    if not found:
        pytest.skip(f"an installation has no {part}")
    others = {"_build", "laws", "CHANGELOG.rst", *(["benchmark"] if part == "library" else [])}
    read = [path for path in found if not others & {*path.parts}]
    counts = uses("\n".join(path.read_text(encoding="utf-8") for path in read))
    more = {
        word: f"{count} times, {still} before: {WORDS[word]}"
        for word, count, still in zip(WORDS, counts, STILL[part], strict=True)
        if count > still
    }
    assert more == {}


def test_parts_of_names_are_words() -> None:
    text = "isTold told_all toldest WhatIsAsked the_asked Way way books tells of"
    assert uses(text) == [2, 1, 2, 1, 1, 0, 0]
