"""Read every dataset of every HDF5 file in some folders through each entry point, beside h5py.

Law
---
1. Files are known by HDF5's signature, whatever they are called. One that h5py does not open must
   be refused, too, and so must an object of a file: by an error of the library's own.
2. A dataset equals what h5py reads, or PyTables, or it is refused by name (see `coverage_of`).
   Anything else is a difference, and is listed; then the program fails.
3. Nothing ends a run early: neither a damaged object nor a name that is no text.

Usage: ``PYTHONPATH=tests/support python tools/corpus.py FOLDER ...``. Packages that ship files:
h5py, tables, netCDF4, anndata, pandas, nexusformat; of some only the source archive has them
(``pip download --no-deps --no-binary NAME NAME``).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
from coverage_of import ENTRIES, LIBRARY, REFUSED, Entry, Faces, Oracle, outcome  # type: ignore[import-not-found]  # of the tests

import multitables

SIGNATURE = b"\x89HDF\r\n\x1a\n"
MAX_BYTES = 1 << 28
#: What differs rightly.
KNOWN = {
    ("vlunicode_endian.h5", "/vlunicode_big", "open"): "h5py does not swap bytes in ragged rows",
    ("vlunicode_endian.h5", "/vlunicode_big", "get_collection"): "PyTables makes texts of numbers",
    ("smpl_unsupptype.h5", "/CompoundChunked", "Reader"): "it has the columns of fixed size",
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


@dataclass
class Corpus:
    """What was read, how, and what differs."""

    totals: Counter[str] = field(default_factory=Counter)
    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    reasons: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)

    def read(self, path: Path) -> None:
        """Compare all datasets of a file."""
        self.totals["files"] += 1
        try:
            file = h5py.File(path)
        except (OSError, RuntimeError) as error:
            self.totals["files that h5py does not read"] += 1
            self._refused(f"{path}", error, lambda: multitables.open(path).close())
            return
        with (
            file,
            Faces(path, trusted=False) as natively,
            Faces(path, trusted=True) as fully,
        ):
            for name in self._datasets(file, natively):
                self.totals["datasets"] += 1
                oracle = Oracle(path, name)
                for title, entry in ENTRIES.items():
                    self._compare(title, entry, natively, fully, oracle)

    def _datasets(self, file: h5py.File, natively: Faces) -> Iterator[str]:
        """The paths of all datasets, without those that are large or behind links."""
        groups, seen = [b"/"], set()
        while groups:
            group = groups.pop()
            for name in self._tried(natively, group, lambda group: list(file[group].id)) or ():
                path = group.rstrip(b"/") + b"/" + name
                if file.id.links.get_info(path).type != h5py.h5l.TYPE_HARD:
                    continue
                item = self._tried(natively, path, file.__getitem__)
                if item is None or (at := h5py.h5o.get_info(item.id).addr) in seen:
                    continue
                seen.add(at)
                if isinstance(item, h5py.Group):
                    groups.append(path)
                elif isinstance(item, h5py.Dataset):
                    n_bytes = (item.size or 0) * item.id.get_type().get_size()
                    yield from [os.fsdecode(path)] * (n_bytes <= MAX_BYTES)

    def _tried(self, natively: Faces, path: bytes, ask: Callable[[bytes], Any]) -> Any:
        """What h5py answers; where it fails, so must we."""
        try:
            return ask(path)
        except (KeyError, OSError, RuntimeError, ValueError) as error:
            self.totals["objects that h5py does not read"] += 1
            what = f"{natively.path} {os.fsdecode(path)}"
            self._refused(what, error, lambda: opened(natively.file, path))
            return None

    def _refused(self, what: str, theirs: Exception, ask: Callable[[], object]) -> None:
        """Note a difference unless this is an error of the library's."""
        try:
            ask()
        except multitables.MultitablesError:
            return
        except Exception as error:  # noqa: BLE001 - it should have been one of ours
            self.wrong.append(f"{what}: {type(error).__name__}: {error}")
        else:
            self.wrong.append(f"{what}: h5py: {theirs}; we read it")

    def _compare(
        self, title: str, entry: Entry, natively: Faces, fully: Faces, oracle: Oracle
    ) -> None:
        try:
            how, why = outcome(entry, natively, fully, oracle)
        except Exception as error:  # noqa: BLE001 - any of them is a difference
            known = KNOWN.get((oracle.path.name, oracle.name, title))
            if known:
                self.counts[title, known] += 1
            else:
                self.wrong.append(
                    f"{oracle.path} {oracle.name} {title}: {type(error).__name__}: {error}"
                )
            return
        self.counts[title, how] += 1
        if how in (LIBRARY, REFUSED):
            self.reasons[title, how, why] += 1


def opened(file: multitables.File, path: bytes) -> object:
    """An object and its members, as far as there are any."""
    item = file[path]
    return list(item) if isinstance(item, multitables.Group) else item.name


def main(folders: list[str]) -> int:
    """Compare all, print what was read and how, and return the exit status."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # names of any bytes
    corpus = Corpus()
    for path in files(folders):
        corpus.read(path)
    if not corpus.totals["datasets"]:
        sys.exit(f"no HDF5 file with a dataset in {' '.join(folders) or 'no folder'}")
    for what, number in corpus.totals.items():
        print(f"{number:6} {what}")
    for (title, how), number in sorted(corpus.counts.items()):
        print(f"{number:6} {title}: {how}")
    for (title, how, why), number in sorted(corpus.reasons.items()):
        print(f"{number:6} {title}: {how}: {why}")
    print(f"{len(corpus.wrong):6} differ", *corpus.wrong, sep="\n  ")
    return int(bool(corpus.wrong))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
