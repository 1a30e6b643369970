"""What names and texts may say, and the map of the library's inside.

1. Words that say nothing, or another thing than the field's, are counted in each part of the
   project, also as parts of names. A count may only shrink: set it lower when it does.
2. The map in `_multitables/__init__.py` has each file, and no other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import _multitables

LIBRARY = Path(_multitables.__file__).parent
ROOT = LIBRARY.parent
#: What is read of each part, from the root of the project.
PARTS = {
    "library": ("_multitables/**/*.py",),
    "benchmark": ("_benchmark/**/*.py", "multitables_benchmark.py"),
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
    "library": (264, 12, 11, 1, 13, 34, 37),
    "benchmark": (106, 2, 6, 17, 18, 0, 15),
    "tests": (462, 4, 6, 0, 6, 3, 44),
    "docs": (8, 2, 0, 0, 0, 0, 12),
    "core": (78, 2, 7, 68, 125, 0, 35),
}
#: A line of the map: how deep, the name, and whether it is a folder.
ENTRY = re.compile(r"#( {3,})([\w.]+)(/?)(?: {2,}\S.*)?")


def uses(text: str) -> list[int]:
    """How often a text has each of the words; those of names count one by one."""
    split = re.sub(r"([a-z])([A-Z])", r"\1 \2", text).replace("_", " ")
    return [len(re.findall(rf"\b(?:{word})\b", split, re.IGNORECASE)) for word in WORDS]


@pytest.mark.parametrize("part", PARTS)
def test_words_that_say_nothing_become_fewer(part: str) -> None:
    found = [path for pattern in PARTS[part] for path in ROOT.glob(pattern)]
    if not found:
        pytest.skip(f"an installation has no {part}")
    read = [path for path in found if not {"_build", "laws", "CHANGELOG.rst"} & {*path.parts}]
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


def mapped() -> Iterator[str]:
    """The paths of the map's lines."""
    folders: list[str] = []
    for line in (LIBRARY / "__init__.py").read_text(encoding="utf-8").splitlines():
        if entry := ENTRY.fullmatch(line):
            del folders[(len(entry[1]) - 3) // 2 :]
            yield "/".join([*folders, entry[2]])
            folders += [entry[2]] if entry[3] else []


def test_the_map_has_every_file() -> None:
    files = {path for path in LIBRARY.rglob("*.py") if path.name != "__init__.py"}
    there = {*files, *(path.parent for path in files)} - {LIBRARY}
    there_by_name = {str(path.relative_to(LIBRARY)): path for path in there}
    lines = list(mapped())
    assert len(set(lines)) == len(lines)
    gone = set(lines) - {*there_by_name, "_core"}
    assert gone == set(), "take these off the map"
    missing = {
        name: (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]
        for name, path in there_by_name.items()
        if name not in lines and path.is_file()
    }
    assert missing == {}, "give each a line of the map"
    assert {name for name, path in there_by_name.items() if path.is_dir()} <= set(lines)
