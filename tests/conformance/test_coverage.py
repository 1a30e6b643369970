"""What reads each kind of dataset, through each entry point: the table of the page of coverage.

Law
---
1. The page's table is the file that this test writes, ``docs/reference/coverage.csv``; where the
   library does something else by now, the test fails. To write it anew:
   ``PYTHONPATH=tests/support:tests/conformance python tests/conformance/test_coverage.py``.
2. "native" is what is read with ``trusted=False``, where no HDF5 library may help; "library" needs
   one. Both equal the oracle. What is refused is refused by name, with a reason.
"""

from __future__ import annotations

import csv
import io
import re
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from kinds import GROUPS
from oracle import pytables_read, same

import multitables

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "coverage.csv"
REFUSALS = (multitables.UnsupportedDatasetError, multitables.SubprocessException, TypeError)
NATIVE, LIBRARY, REFUSED = "native", "library", "refused"


def joined(parts: list[np.ndarray]) -> np.ndarray:
    """All rows, in the byte order of the file."""
    return np.concatenate(parts, dtype=parts[0].dtype)


def queue(path: Path, name: str, trusted: bool) -> Any:
    streamer = multitables.Streamer(path, trusted=trusted)
    with streamer.get_queue(name, n_procs=1, remainder=True) as blocks:
        return joined([guard.__enter__().copy() for guard in blocks])


def batches(path: Path, name: str, trusted: bool) -> Any:
    with multitables.Streamer(path, trusted=trusted).get_batches(name, 9, n_procs=1) as made:
        return joined([batch.copy() for batch in made])


def request(path: Path, name: str, trusted: bool) -> Any:
    with multitables.Reader(path, n_procs=1, trusted=trusted) as reader:
        return reader.request(reader.get_dataset(name)[:]).get()


def opened(path: Path, name: str, trusted: bool) -> Any:
    with multitables.open(path, trusted=trusted) as file:
        return file[name][()]


ENTRIES: dict[str, Callable[[Path, str, bool], Any]] = {
    "get_queue": queue,
    "get_batches": batches,
    "Reader": request,
    "open": opened,
}


def wanted(path: Path, name: str) -> Any:
    """What h5py reads, or PyTables; None if nothing reads it."""
    try:
        with h5py.File(path) as file:
            return file[name][()]
    except TypeError:
        return pytables_read(path, name)
    except OSError:
        return None


def check(got: Any, rows: Any) -> None:
    """The rows are those of the oracle; of references, as many."""
    if isinstance(rows, h5py.Empty):
        assert isinstance(got, multitables.Empty)
    elif np.asarray(rows).dtype.kind != "O":
        same(np.asarray(got), np.asarray(rows))
    else:
        assert len(got) == len(rows)
        for one, other in zip(got, rows, strict=True):
            if not isinstance(other, (h5py.Reference, h5py.RegionReference)):
                np.testing.assert_array_equal(one, other)


def outcome(read: Callable[[Path, str, bool], Any], path: Path, name: str, rows: Any) -> list[str]:
    """How it is read, and why not natively."""
    try:
        check(read(path, name, False), rows)
    except REFUSALS as error:
        why = reason(error, path, name)
    else:
        return [NATIVE, ""]
    try:
        got = read(path, name, True)
    except REFUSALS as error:
        return [REFUSED, reason(error, path, name)]
    check(got, rows)
    return [LIBRARY, why]


def reason(error: Exception, path: Path, name: str) -> str:
    """What an error says, without where."""
    if isinstance(error, TypeError):  # as h5py's own
        return f"NumPy has no such type: {error}"
    assert isinstance(error, multitables.MultitablesError)
    text = error.happened.split("switches off: ")[-1]
    text = re.sub(r"\(expected.*|;.*", "", text)
    text = re.sub(rf"{re.escape(repr(name))} in '[^']*'(, chunk \([^)]*\))?,?", "", text)
    text = re.sub(r"(filter \d+) .*", r"\1", text)  # its name depends on who wrote the file
    return " ".join(text.split())


def measured(folder: Path) -> str:
    """The page's table."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(["", "kind", *ENTRIES, "why not natively"])
    for number, (title, build) in enumerate(GROUPS.items()):
        path = folder / f"{number}.h5"
        for kind, name in list(build(path)):
            rows = wanted(path, name)
            found = [outcome(read, path, name, rows) for read in ENTRIES.values()]
            reasons = dict.fromkeys(why for _, why in found if why)
            writer.writerow([title, kind, *(how for how, _ in found), "; ".join(reasons)])
    return out.getvalue()


def test_the_page_says_what_is_so(tmp_path: Path) -> None:
    assert measured(tmp_path).splitlines() == PAGE.read_text().splitlines()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as made:
        PAGE.write_text(measured(Path(made)))
