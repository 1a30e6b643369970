"""Numbers of the README's headline, which a test compares with the stored rows.

Law
---
1. ``:headline:`ROW; LIBRARY``` is how many times as fast this library is there. A cell that is
   not there fails the build.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx

README = Path(__file__).parents[2] / "README.rst"


def times(row: str, library: str) -> str:
    """The number in brackets, in the cell of a row and a library."""
    table = README.read_text(encoding="utf-8").split(".. headline\n")[1].split(".. end of")[0]
    lines = [re.split(r"\s{2,}", line.strip()) for line in table.splitlines()]
    columns = next(line for line in lines if line[0] == "MB/s")
    cells = next(line for line in lines if line[0] == row)
    return re.search(r"\((\S+)x\)", cells[columns.index(library)])[1]


def headline(_name: str, _raw: str, text: str, *_: Any, **__: Any) -> tuple[list[Any], list[Any]]:
    """The role: a number in bold."""
    return [nodes.strong("", f"{times(*text.split('; '))} times")], []


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the role."""
    app.add_role("headline", headline)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
