"""Read every dataset of every HDF5 file in some folders through each entry point, beside h5py.

Law
---
1. Files are known by HDF5's signature, whatever they are called. One that h5py does not open must
   be refused, too, and so must an object of a file: by an error of the library's own.
2. A dataset equals what h5py reads, or PyTables, or it is refused by name (see `coverage_of`).
   Anything else is a difference, and is listed; then the program fails.
3. Nothing ends a run early: neither a damaged object, nor a name that is not text, nor a file that
   a library crashes or never ends on. Each file has a process, and h5py tries it in another one
   first. Where h5py crashes, no values are compared; where we do, it is a difference.

Usage: ``PYTHONPATH=tests/support python tools/corpus.py [--json FILE] FOLDER ...``. The scoreboard
(`scoreboard.py`) knows corpora by name, and shows what ``--json`` kept of them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import h5py
import tables  # noqa: F401 - here once, and not in every fork
from coverage_of import (  # type: ignore[import-not-found]  # of the tests
    ENTRIES,
    LIBRARY,
    REFUSED,
    Entry,
    Faces,
    FewerColumnsError,
    Oracle,
    outcome,
    read_by_h5py,
)
from oracle import pytables_read  # type: ignore[import-not-found]

import multitables

SIGNATURE = b"\x89HDF\r\n\x1a\n"
MAX_BYTES = 1 << 28
DIFFERS = "differs"
#: How long h5py, and the comparison of a file, may take.
ORACLE_SECONDS, FILE_SECONDS = 60, 600
#: How many files are compared at once.
AT_ONCE = os.cpu_count() or 1
FORKS = multiprocessing.get_context("fork")
#: What h5py raises for an object that it does not read.
BY_H5PY = (KeyError, OSError, RuntimeError, ValueError)
#: The reasons why nothing can be compared.
CRASHES = "h5py crashes"
ONLY_HERE = "of these read here, since their damage does not concern readers"
OUTSIDE = "its index names chunks outside its dims; h5py gives fill values"
#: What differs rightly: by file, dataset and entry point, or "" for all of them.
KNOWN = {
    ("vlunicode_endian.h5", "/vlunicode_big", "open"): "h5py does not swap bytes in ragged rows",
    ("vlunicode_endian.h5", "/vlunicode_big", "get_collection"): "PyTables makes texts of numbers",
    ("bad_nbit_decompress.h5", "/Nbit_float_data_le", ""): "h5py ignores the filter's wrong size",
    ("memleak_H5O_dtype_decode_helper_H5Odtype.h5", "/image", ""): "its attributes are damaged",
    ("h5stat_err_refcount.h5", "/group", ""): ONLY_HERE,
    ("h5stat_err_old_layout.h5", "/dset", ""): ONLY_HERE,
    ("h5clear_fsm_persist_less.h5", "/", ""): ONLY_HERE,
    ("tvms.h5", "/Array", ""): "PyTables rounds VAX floats to float64, and h5py has no dtype",
    ("h5fc_non_v3.h5", "/GROUP/DSET_EA", ""): OUTSIDE,
    **{
        (f"h5fc_ext{options}.h5", "/DSET_EA", ""): OUTSIDE
        for options in ("_none", "1_f", "1_i", "1_s", "2_if", "2_is", "2_sf", "3_isf")
    },
    **{
        (file, f"/{name}", ""): "h5py has no references of HDF5 1.12"
        for file, name in (
            ("revised_refs.h5", "objrefs"),
            ("trefer_grp.h5", "dset"),
            ("trefer_obj.h5", "Dataset3"),
            ("trefer_obj_del.h5", "Dataset2"),
            ("trefer_param.h5", "Dataset3"),
            ("trefer_reg.h5", "DS_NA"),
        )
    },
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

    def add(self, other: Corpus) -> None:
        """Count what another one did."""
        self.totals += other.totals
        self.counts += other.counts
        self.reasons += other.reasons
        self.wrong += other.wrong

    def read(self, path: Path) -> None:
        """Compare all datasets of a file."""
        self.totals["files"] += 1
        crashes = crashes_of_h5py(path)
        if "" in crashes:
            self.totals["files that h5py crashes on"] += 1
            with contextlib.suppress(multitables.MultitablesError):
                listed(path)
            return
        try:
            file = h5py.File(path)
        except (OSError, RuntimeError) as error:
            self.totals["files that h5py does not read"] += 1
            self._refused(path, "/", error, lambda: listed(path))
            return
        with file, contextlib.ExitStack() as stack:
            try:
                natively = stack.enter_context(Faces(path, trusted=False))
                fully = stack.enter_context(Faces(path, trusted=True))
            except multitables.MultitablesError as error:
                self._refused_whole(len(list(datasets(file, tried))), error)
                return
            for name in datasets(file, lambda *asked: self._tried(natively, *asked)):
                self.totals["datasets"] += 1
                oracle = Oracle(path, name, crashes=name in crashes, by_pytables=read_by_pytables)
                for title, entry in ENTRIES.items():
                    self._compare(title, entry, natively, fully, oracle)

    def _refused_whole(self, n_datasets: int, error: multitables.MultitablesError) -> None:
        """Count the datasets of a file that is not opened."""
        self.totals["datasets"] += n_datasets
        for title in ENTRIES:
            self.counts[title, REFUSED] += n_datasets
            self.reasons[title, REFUSED, str(error.happened).split("' ", 1)[-1]] += n_datasets

    def _tried(self, natively: Faces, path: bytes, ask: Callable[[bytes], Any]) -> Any:
        """What h5py answers; where it fails, so must we."""
        try:
            return ask(path)
        except BY_H5PY as error:
            self.totals["objects that h5py does not read"] += 1
            self._refused(
                natively.path, os.fsdecode(path), error, lambda: opened(natively.file, path)
            )
            return None

    def _refused(self, path: Path, name: str, theirs: Exception, ask: Callable[[], object]) -> None:
        """Note a difference unless this is an error of the library's."""
        if (path.name, name, "") in KNOWN:
            self.totals[ONLY_HERE] += 1
            return
        try:
            ask()
        except multitables.MultitablesError:
            return
        except Exception as error:  # noqa: BLE001 - it should have been one of ours
            self.wrong.append(f"{path} {name}: {type(error).__name__}: {error}")
        else:
            self.wrong.append(f"{path} {name}: h5py: {theirs}; we read it")

    def _compare(
        self, title: str, entry: Entry, natively: Faces, fully: Faces, oracle: Oracle
    ) -> None:
        try:
            how, why = outcome(entry, natively, fully, oracle)
        except Exception as error:  # noqa: BLE001 - any of them is a difference
            if oracle.damaged and isinstance(error, multitables.MultitablesError):
                self.counts[title, REFUSED] += 1
                self.reasons[title, REFUSED, "h5py does not read it either"] += 1
                return
            place = oracle.path.name, oracle.name
            known = KNOWN.get((*place, title)) or KNOWN.get((*place, ""))
            if title == "Reader" and isinstance(error.__cause__, FewerColumnsError):
                known = "it has the columns of fixed size"
            if known:
                self.counts[title, known] += 1
            else:
                self.counts[title, DIFFERS] += 1
                self.wrong.append(
                    f"{oracle.path} {oracle.name} {title}: {type(error).__name__}: {error}"
                )
            return
        if oracle.crashes and how != REFUSED:
            how = CRASHES
        self.counts[title, how] += 1
        if how in (LIBRARY, REFUSED):
            self.reasons[title, how, why] += 1


def datasets(
    file: h5py.File, tried: Callable[[bytes, Callable[[bytes], Any]], Any]
) -> Iterator[str]:
    """The paths of all datasets, without those that are large or behind links."""
    groups, seen = [b"/"], set()
    while groups:
        group = groups.pop()
        for name in tried(group, lambda group: list(file[group].id)) or ():
            path = group.rstrip(b"/") + b"/" + name
            found = tried(path, lambda path: addressed(file, path))
            if found is None or found[1] in seen:
                continue
            item, at = found
            seen.add(at)
            if isinstance(item, h5py.Group):
                groups.append(path)
            elif isinstance(item, h5py.Dataset):
                n_bytes = (item.size or 0) * item.id.get_type().get_size()
                yield from [os.fsdecode(path)] * (n_bytes <= MAX_BYTES)


def addressed(file: h5py.File, path: bytes) -> tuple[Any, int] | None:
    """An object behind a hard link, and its address."""
    if file.id.links.get_info(path).type != h5py.h5l.TYPE_HARD:
        return None
    item = file[path]
    return item, h5py.h5o.get_info(item.id).addr


def tried(path: bytes, ask: Callable[[bytes], Any]) -> Any:
    """The answer of h5py, if there is one."""
    with contextlib.suppress(*BY_H5PY):
        return ask(path)


def crashes_of_h5py(path: Path) -> set[str]:
    """The datasets that h5py crashes on, or does not end with; "" for the file."""
    crashes: set[str] = set()
    while "" not in crashes:
        said, ended = in_a_process(ORACLE_SECONDS, try_h5py, path, crashes)
        if ended:
            break
        crashes.add(said[-1] if said else "")
    return crashes


def try_h5py(pipe: Connection, path: Path, without: set[str]) -> None:
    """Read all datasets, and say before each one which it is."""
    with contextlib.suppress(OSError, RuntimeError), h5py.File(path) as file:
        for name in datasets(file, tried):
            if name not in without:
                pipe.send(name)
                with contextlib.suppress(*BY_H5PY, TypeError):
                    read_by_h5py(file[os.fsencode(name)])


def read_by_pytables(path: Path, name: str) -> Any:
    """All rows as PyTables gives them, or an error where it crashes."""
    said, _ = in_a_process(ORACLE_SECONDS, send_by_pytables, path, name)
    if not said:
        raise OSError(f"PyTables does not read {name!r}")
    return said[0]


def send_by_pytables(pipe: Connection, path: Path, name: str) -> None:
    """Send all rows; errors are not of interest."""
    with contextlib.suppress(Exception):
        pipe.send(pytables_read(path, name))


def compared(path: Path) -> Corpus:
    """The result of comparing a file."""
    said, ended = in_a_process(FILE_SECONDS, read_by_us, path)
    corpus: Corpus = said[0] if said else Corpus()
    if not ended:
        corpus.wrong.append(f"{path}: the comparison crashes, or does not end")
    return corpus


def read_by_us(pipe: Connection, path: Path) -> None:
    """Compare a file, and send what came of it."""
    corpus = Corpus()
    corpus.read(path)
    pipe.send(corpus)


def in_a_process(
    seconds: float, work: Callable[..., None], *arguments: Any
) -> tuple[list[Any], bool]:
    """The message of a fork, and whether it ended well, and in time."""
    pipe, its_pipe = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=work, args=(its_pipe, *arguments))
    process.start()
    its_pipe.close()
    said, until = [], time.monotonic() + seconds
    with pipe, contextlib.suppress(EOFError):
        while pipe.poll(max(0.0, until - time.monotonic())):
            said.append(pipe.recv())
        process.kill()
    process.join()
    return said, process.exitcode == 0


def listed(path: Path) -> list[str]:
    """The members of the root group, which h5py reads as it opens a file."""
    with multitables.open(path) as file:
        return list(file)


def opened(file: multitables.File, path: bytes) -> object:
    """The members of an object, its elements, or its type."""
    item = file[path]
    if isinstance(item, multitables.Dataset):
        return item[()]
    return list(item) if isinstance(item, multitables.Group) else item.dtype


def kept(corpus: Corpus, files_title: str) -> str:
    """The counts of a run, without names of folders: as JSON, for the scoreboard."""
    counts: dict[str, dict[str, int]] = {title: {} for title in ENTRIES}
    for (title, how), number in sorted(corpus.counts.items()):
        counts[title][how] = number
    versions = {"multitables": multitables.__version__, "h5py": h5py.__version__}
    content = {
        "corpus": files_title,
        "date": date.today().isoformat(),
        "versions": versions,
        "totals": dict(corpus.totals),
        "counts": counts,
        "wrong": len(corpus.wrong),
    }
    return json.dumps(content, indent=1) + "\n"


def main(folders: list[str], json_file: str = "", files_title: str = "") -> int:
    """Compare all, print what was read and how, and return the exit status."""
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]  # names of any bytes
    corpus = Corpus()
    with ProcessPoolExecutor(AT_ONCE, FORKS) as pool:
        for part in pool.map(compared, files(folders)):
            corpus.add(part)
    if not corpus.totals["datasets"] and not corpus.wrong:
        sys.exit(f"no HDF5 file with a dataset in {' '.join(folders) or 'no folder'}")
    for what, number in corpus.totals.items():
        print(f"{number:6} {what}")
    for (title, how), number in sorted(corpus.counts.items()):
        print(f"{number:6} {title}: {how}")
    for (title, how, why), number in sorted(corpus.reasons.items()):
        print(f"{number:6} {title}: {how}: {why}")
    print(f"{len(corpus.wrong):6} differ", *corpus.wrong, sep="\n  ")
    if json_file:
        Path(json_file).write_text(kept(corpus, files_title), encoding="utf-8")
    return int(bool(corpus.wrong))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Compare files of others with what h5py reads.")
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--json", default="", metavar="FILE", help="keeps the counts there")
    parser.add_argument("--title", default="", help="of the files, in FILE: a name and a version")
    given = parser.parse_args()
    sys.exit(main(given.folders, given.json, given.title))
