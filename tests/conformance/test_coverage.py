"""What reads each kind of dataset, through each entry point: the table of the page of coverage.

Law
---
1. The page's table is the file that this test writes, ``docs/reference/coverage.csv``; where the
   library does something else by now, the test fails. To write it anew:
   ``PYTHONPATH=tests/support:tests/conformance python tests/conformance/test_coverage.py``.
"""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path

import pytest
from coverage_of import ENTRIES, Faces, Oracle, outcome
from kinds import GROUPS

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "coverage.csv"


def measured(folder: Path) -> str:
    """The page's table."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["", "kind", *ENTRIES, "why not natively"])
    for number, (title, build) in enumerate(GROUPS.items()):
        path = folder / f"{number}.h5"
        kinds = list(build(path))
        with Faces(path, trusted=False) as natively, Faces(path, trusted=True) as fully:
            for kind, name in kinds:
                oracle = Oracle(path, name)
                found = [outcome(entry, natively, fully, oracle) for entry in ENTRIES.values()]
                reasons = dict.fromkeys(why for _, why in found if why)
                writer.writerow([title, kind, *(how for how, _ in found), "; ".join(reasons)])
    return out.getvalue()


@pytest.mark.filterwarnings("ignore::multitables.SlowFilterWarning")
def test_the_page_says_what_is_so(tmp_path: Path) -> None:
    assert measured(tmp_path).splitlines() == PAGE.read_text().splitlines()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(measured(Path(made)))
