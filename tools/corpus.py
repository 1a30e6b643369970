"""Read every dataset of every HDF5 file in some folders through each entry point, beside h5py.

Law
---
1. Files are known by HDF5's signature, whatever they are called. One that h5py does not open must
   be refused, too.
2. A dataset equals what h5py reads, or PyTables, or it is refused by name (see `coverage_of`).
   Anything else is a difference, and is listed; then the program fails.

Usage: ``PYTHONPATH=tests/support python tools/corpus.py FOLDER ...``. Packages that ship files:
h5py, tables, netCDF4, anndata, pandas, nexusformat; of some only the source archive has them
(``pip download --no-deps --no-binary NAME NAME``).
"""

from __future__ import annotations

import collections
import sys
from collections.abc import Iterator
from pathlib import Path

import h5py
from coverage_of import ENTRIES, LIBRARY, REFUSED, Faces, Oracle, outcome  # type: ignore[import-not-found]  # of the tests

import multitables

SIGNATURE = b"\x89HDF\r\n\x1a\n"
MAX_BYTES = 1 << 28
#: What differs rightly.
KNOWN = {
    ("vlunicode_endian.h5", "/vlunicode_big", "open"): "h5py does not swap bytes in ragged rows",
}


def files(folders: list[str]) -> Iterator[Path]:
    """The files that begin as HDF5's do, behind a user block of up to 2048 bytes."""
    for folder in folders:
        for path in sorted(Path(folder).rglob("*")):
            if path.is_file() and not path.is_symlink():
                with path.open("rb") as file:
                    start = file.read(2056)
                if any(start[at : at + 8] == SIGNATURE for at in (0, 512, 1024, 2048)):
                    yield path


def datasets(path: Path) -> list[str]:
    """The paths of all datasets."""
    found: list[str] = []
    with h5py.File(path) as file:

        def visit(name: str, item: object) -> None:
            if isinstance(item, h5py.Dataset):
                n_bytes = (item.size or 0) * item.id.get_type().get_size()
                found.extend([f"/{name}"] * (n_bytes <= MAX_BYTES))

        file.visititems(visit)
    return found


def main(folders: list[str]) -> int:
    """Compare all, print what was found, and return how many differ."""
    counts: collections.Counter[tuple[str, str]] = collections.Counter()
    reasons: collections.Counter[tuple[str, str, str]] = collections.Counter()
    totals: collections.Counter[str] = collections.Counter()
    wrong: list[str] = []
    for path in files(folders):
        totals["files"] += 1
        try:
            names = datasets(path)
        except (OSError, RuntimeError) as error:
            totals["files that h5py does not read"] += 1
            try:
                multitables.open(path).close()
            except multitables.MultitablesError:
                continue
            wrong.append(f"{path}: h5py: {error}; we open it")
            continue
        with Faces(path, trusted=False) as natively, Faces(path, trusted=True) as fully:
            for name in names:
                totals["datasets"] += 1
                oracle = Oracle(path, name)
                for title, entry in ENTRIES.items():
                    try:
                        how, why = outcome(entry, natively, fully, oracle)
                    except Exception as error:  # noqa: BLE001 - any of them is a difference
                        if (path.name, name, title) in KNOWN:
                            counts[title, KNOWN[path.name, name, title]] += 1
                            continue
                        wrong.append(f"{path} {name} {title}: {type(error).__name__}: {error}")
                        continue
                    counts[title, how] += 1
                    if how in (LIBRARY, REFUSED):
                        reasons[title, how, why] += 1
    for what, number in totals.items():
        print(f"{number:6} {what}")
    for (title, how), number in sorted(counts.items()):
        print(f"{number:6} {title}: {how}")
    for (title, how, why), number in sorted(reasons.items()):
        print(f"{number:6} {title}: {how}: {why}")
    print(f"{len(wrong):6} differ", *wrong, sep="\n  ")
    return len(wrong)


if __name__ == "__main__":
    sys.exit(bool(main(sys.argv[1:])))
