"""Gives out what README.rst promises, so that CI runs exactly that.

Law
---
1. README.rst is the only home of its commands and its example; nothing here repeats them.
2. Standard library only: it runs before anything is installed.

Usage: readme.py README.rst set-up-and-run | tests | example
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

VERBS = {"set-up-and-run": ("sh", 0), "tests": ("sh", 1), "example": ("python", 0)}
EXPECTED = {"sh": 2, "python": 1}


def code_blocks(text: str, language: str) -> list[str]:
    """The bodies of all ``code-block`` directives of one language, dedented."""
    pattern = rf"^\.\. code-block:: {language}\n\n((?:[ ]+.*\n|\n)+)"
    return [textwrap.dedent(body).strip() for body in re.findall(pattern, text, re.MULTILINE)]


def main() -> None:
    """Print the part that the verb names."""
    filename, verb = sys.argv[1:]
    language, position = VERBS[verb]
    blocks = code_blocks(Path(filename).read_text(encoding="utf-8"), language)
    if len(blocks) != EXPECTED[language]:
        sys.exit(
            f"{filename} has {len(blocks)} code-block(s) of {language!r}, "
            f"expected {EXPECTED[language]}"
        )
    print(blocks[position])


if __name__ == "__main__":
    main()
