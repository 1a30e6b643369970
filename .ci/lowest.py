"""Prints the requirements of pyproject.toml, each at its lower bound.

Law
---
1. pyproject.toml is the only home of versions.
2. Standard library only, of Python 3.10 (which has no tomllib): it looks for requirement strings.

Usage: lowest.py pyproject.toml
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LISTS = ("dependencies", "h5py", "pytables", "all", "test")


def requirements(text: str, name: str) -> list[str]:
    """The strings of the list `name`, at whatever place it stands."""
    body = re.search(rf"^{name} = \[(.*?)\]\s*(?:#.*?)?$", text, re.MULTILINE | re.DOTALL)
    if body is None:
        sys.exit(f"there is no list {name!r}")
    return re.findall(r'"([^"]+)"', re.sub(r"#.*", "", body[1]))


def main() -> None:
    """One requirement a line, pinned."""
    text = Path(sys.argv[1]).read_text(encoding="utf-8")
    for name in LISTS:
        for requirement in requirements(text, name):
            if ">=" in requirement:  # others are lists of their own
                print(requirement.replace(">=", "==", 1))


if __name__ == "__main__":
    main()
