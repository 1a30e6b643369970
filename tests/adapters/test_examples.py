"""The guides' programs, run as they stand there: the docs are built without these libraries."""

from __future__ import annotations

import re
import textwrap
from pathlib import Path

import pytest
from processes import run_script

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.hang(120)
@pytest.mark.parametrize(
    ("guide", "libraries"),
    [
        ("train_with_pytorch", ["torch", "torchdata"]),
        ("train_with_jax", ["jax"]),
        ("arrow", ["duckdb", "polars", "pyarrow"]),
        ("grain", ["grain"]),
        ("huggingface", ["datasets"]),
        ("lightning", ["lightning"]),
    ],
)
def test_the_programs_of_a_guide(guide: str, libraries: list[str], tmp_path: Path) -> None:
    for library in libraries:
        pytest.importorskip(library)
    page = DOCS / "howto" / f"{guide}.rst"
    if not page.exists():
        pytest.skip("an installation has no docs")
    blocks = re.findall(r"^\.\. code-block:: python\n\n((?:    .*\n|\n)+)", page.read_text(), re.M)
    assert len(blocks) > 1
    source = "\n".join(textwrap.dedent(block) for block in blocks)
    before = (
        f"import os, sys; sys.path.insert(0, {str(DOCS / '_ext')!r}); os.chdir({str(tmp_path)!r})\n"
        "import example_files; example_files.write_run7('run7.h5')\n"
    )
    done = run_script(before + source, seconds=100, flags=())
    assert done.returncode == 0, done.stderr
