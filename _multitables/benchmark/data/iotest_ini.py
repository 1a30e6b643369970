"""The INI files of the parameterised I/O test, read with errors that name the line, key and rule.

Law
---
1. The syntax is that of the published program: sections mean nothing, the last value of a key wins,
   an indented line gives the key before it another value.
2. Nothing is ignored: unknown keys, bad values, what cannot go together, and what cannot be done
   here are refused.
3. Pure: text in, values out; and texts of the standard combinations.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

EARLIEST, LATEST = "earliest", "latest"
BOUNDS = (EARLIEST, "v18", "v110", "v112", "v114", LATEST)
MAX_LINE = 200
MAIN = "DEFAULT"


class IniError(ValueError):
    """A file that describes no test that can be run."""


@dataclass(frozen=True)
class Configuration:
    """One test; the names are the keys, with ``_`` for ``-``, and the values the published ones."""

    version: int = 0
    steps: int = 20
    arrays: int = 500
    rows: int = 100
    columns: int = 200
    process_rows: int = 1
    process_columns: int = 1
    scaling: str = "weak"
    dataset_rank: int = 4
    slowest_dimension: str = "step"
    libver_bound_low: str = EARLIEST
    libver_bound_high: str = LATEST
    alignment_increment: int = 1
    alignment_threshold: int = 0
    meta_block_size: int = 2048
    layout: str = "contiguous"
    fill_values: str = "true"
    mpi_io: str = "independent"
    single_process: str = ""
    split: int = 0
    gzip: int = 0
    szip: str = ""
    restart: int = 0
    one_case: int = 0
    run_async: int = 0
    delay: str = "0"
    hdf5_file: str = "hdf5_iotest.h5"
    csv_file: str = "hdf5_iotest.csv"

    @property
    def n_ranks(self) -> int:
        """Processes of the grid."""
        return self.process_rows * self.process_columns

    @property
    def is_strong(self) -> bool:
        """Whether rows and columns are those of all processes together."""
        return self.scaling == "strong"

    def scaled(self, scale: float) -> Configuration:
        """As many times the bytes: other steps, and of very few steps other arrays."""
        steps = max(min(2, self.steps), round(self.steps * scale))
        arrays = max(1, round(self.steps * self.arrays * scale / steps))
        return replace(self, steps=steps, arrays=arrays)

    def tiny(self) -> Configuration:
        """A test of a few hundred KB in the same shape."""
        rows, columns = (self.process_rows, self.process_columns) if self.is_strong else (1, 1)
        return replace(self, steps=4, arrays=10, rows=20 * rows, columns=40 * columns)


def known_bytes(test: Configuration) -> int | None:
    """The size of the file where the published program's is known, as metadata of the old format
    do not depend on the version of HDF5."""
    if test.libver_bound_low != EARLIEST:
        return None
    plain = replace(test, hdf5_file="", csv_file="", mpi_io="", single_process="", restart=0)
    default = Configuration(hdf5_file="", csv_file="", mpi_io="")
    small = replace(default, steps=4, arrays=10, rows=20, columns=40)
    small = replace(small, process_rows=2, process_columns=2)
    chunked = replace(small, layout="chunked")
    return {default: 1_600_002_048, small: 1_026_048, chunked: 1_029_056}.get(plain)


# ---- values


@dataclass(frozen=True)
class Rule:
    """What a value may be: how it is read, or None for a wrong one; and the rule in words."""

    read: Callable[[str], Any]
    says: str


def _whole(least: int, most: int | None = None) -> Rule:
    def read(text: str) -> int | None:
        value = int(text) if re.fullmatch(r"[+-]?\d+", text) else None
        fits = value is not None and value >= least and (most is None or value <= most)
        return value if fits else None

    return Rule(read, f"a whole number, {least} or more" + (f", at most {most}" if most else ""))


def _one_of(*words: str) -> Rule:
    return Rule(lambda text: text if text in words else None, "one of " + ", ".join(words))


def _number_of(*numbers: int) -> Rule:
    says = "one of " + ", ".join(map(str, numbers))
    return Rule({str(one): one for one in numbers}.get, says)


def _szip(text: str) -> str | None:
    found = re.fullmatch(r"(?i)(ec|nn)\s*,\s*(\d+)", text)
    fits = found and int(found[2]) % 2 == 0 and 2 <= int(found[2]) <= 32
    return f"{found[1].lower()},{found[2]}" if found and fits else None


_FILE = Rule(lambda text: text or None, "the name of a file")
RULES = {
    "version": _number_of(0),
    "steps": _whole(1),
    "arrays": _whole(1),
    "rows": _whole(2),
    "columns": _whole(2),
    "process-rows": _whole(1),
    "process-columns": _whole(1),
    "scaling": _one_of("weak", "strong"),
    "dataset-rank": _number_of(2, 3, 4),
    "slowest-dimension": _one_of("step", "array"),
    "libver-bound-low": _one_of(*BOUNDS),
    "libver-bound-high": _one_of(*BOUNDS[1:]),
    "alignment-increment": _whole(1),
    "alignment-threshold": _whole(0),
    "meta-block-size": _whole(0),
    "layout": _one_of("contiguous", "chunked"),
    "fill-values": _one_of("true", "false"),
    "mpi-io": _one_of("independent", "collective"),
    "single-process": _one_of("posix", "core", "mpi-io-uni"),
    "split": _number_of(0, 1),
    "gzip": _whole(0, 9),
    "szip": Rule(_szip, "ec or nn, a comma, and an even number of pixels from 2 to 32"),
    "restart": _number_of(0, 1),
    "one-case": Rule(
        {"0": 0}.get,
        "0: it chooses one of the later program's own loops, and here a file is one case",
    ),
    "async": Rule({"0": 0}.get, "0: h5py cannot use HDF5's asynchronous connector"),
    "delay": Rule(
        lambda text: "0" if re.fullmatch(r"0( \w+)?", text) else None,
        "0: it is for asynchronous writing, which h5py cannot use",
    ),
    "hdf5-file": _FILE,
    "csv-file": _FILE,
}
_FIELDS = {key: "run_async" if key == "async" else key.replace("-", "_") for key in RULES}


# ---- lines


@dataclass(frozen=True)
class Entry:
    """A key that is given a value."""

    line: int
    section: str
    key: str
    text: str


def _entries(text: str, filename: str) -> Iterator[Entry]:
    section = key = ""
    for number, line in enumerate(text.removeprefix("\ufeff").splitlines(), 1):
        if len(line.encode()) >= MAX_LINE:
            rule = f"lines have fewer than {MAX_LINE} bytes (got {len(line.encode())})"
            raise IniError(f"{filename}, line {number}: {rule}")
        bare = line.strip()
        if not bare or bare[0] in ";#":
            continue
        bare = re.split(r"\s;", bare, maxsplit=1)[0].strip()
        if key and line[0].isspace():
            yield Entry(number, section, key, bare)
        elif bare[0] == "[":
            if "]" not in bare:
                raise IniError(f"{filename}, line {number}: a section ends with ] (got {bare!r})")
            section, key = bare[1 : bare.index("]")], ""
        else:
            parts = re.split(r"[=:]", bare, maxsplit=1)
            if len(parts) == 1:
                what = "a line is 'key = value', [section], or a comment behind ; or #"
                raise IniError(f"{filename}, line {number}: {what} (got {bare!r})")
            key = parts[0].strip()
            yield Entry(number, section, key, parts[1].strip())


def parse(text: str, filename: str, described: bool = False) -> Configuration:
    """The test that a file describes; what it does not say is as in the published default.

    `described` has keys of other sections win over those of ``[DEFAULT]`` in any order, as
    the test's documentation says.

    Raises
    ------
    IniError
        With the file, the line, the key and the rule.
    """
    entries = list(_entries(text, filename))
    if described:
        entries.sort(key=lambda one: one.section != MAIN)
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for one in entries:
        where = f"{filename}, line {one.line}, {one.key}"
        if one.key not in RULES:
            raise IniError(f"{where}: unknown key; known are {', '.join(RULES)}")
        value = RULES[one.key].read(one.text)
        if value is None:
            hint = " (an indented line gives the key before it a value)" if "=" in one.text else ""
            raise IniError(f"{where}: must be {RULES[one.key].says}; got {one.text!r}{hint}")
        values[_FIELDS[one.key]] = value
        lines[one.key] = one.line
    test = Configuration(**values)
    for keys, broken, rule in _together(test):
        if broken:
            # defaults never break a rule, so one of the keys stands in the file
            line, key = max((lines[key], key) for key in keys if key in lines)
            raise IniError(f"{filename}, line {line}, {key}: {rule}")
    return test


def _together(test: Configuration) -> Iterator[tuple[tuple[str, ...], bool, str]]:
    """(keys, whether they break it, the rule) of each rule about several keys."""
    for share, total in (("process-rows", "rows"), ("process-columns", "columns")):
        n, size = getattr(test, share.replace("-", "_")), getattr(test, total)
        what = f"with strong scaling {share} must divide {total} ({size} by {n})"
        yield (share, total, "scaling"), test.is_strong and size % n != 0, what
    low, high = test.libver_bound_low, test.libver_bound_high
    yield (
        ("libver-bound-low", "libver-bound-high"),
        BOUNDS.index(low) > BOUNDS.index(high),
        f"the low bound must not be above the high one ({low}, {high})",
    )
    for key, used in (("gzip", bool(test.gzip)), ("szip", bool(test.szip))):
        contiguous = test.layout == "contiguous"
        yield (key, "layout"), used and contiguous, f"{key} needs layout = chunked"
        yield (
            (key, "mpi-io", "process-rows", "process-columns"),
            used and test.n_ranks > 1 and test.mpi_io != "collective",
            f"{key} with several processes needs mpi-io = collective",
        )
    both = bool(test.gzip and test.szip)
    yield ("gzip", "szip"), both, "gzip and szip exclude each other"
    alone = test.single_process in ("core", "mpi-io-uni")
    yield (
        ("split", "single-process"),
        bool(test.split) and alone,
        f"split and single-process = {test.single_process} exclude each other",
    )


def read(filename: str, described: bool = False) -> Configuration:
    """The test of a file, which may begin with a byte order mark.

    Raises
    ------
    IniError
        It describes none.
    OSError
        It cannot be read.
    """
    with open(filename, encoding="utf-8", errors="replace") as file:
        return parse(file.read(), filename, described)


# ---- the standard combinations


def text_of(test: Configuration) -> str:
    """A file of the published keys of a test."""
    later = ("meta_block_size", *[field.name for field in fields(test)][18:-2])
    lines = [
        f"{name.replace('_', '-')} = {value}"
        for name, value in asdict(test).items()
        if name not in later
    ]
    return "\n".join([f"[{MAIN}]", *lines, ""])


def combinations(base: str, process_rows: int, process_columns: int) -> Iterator[tuple[str, str]]:
    """(name, text) of the 24 standard files: `base` with a section behind it."""
    every = itertools.product(
        (2, 3, 4), ("step", "array"), ("contiguous", "chunked"), ("independent", "collective")
    )
    for number, (rank, slowest, layout, mpi_io) in enumerate(every, 1):
        section = {
            "process-rows": process_rows,
            "process-columns": process_columns,
            "dataset-rank": rank,
            "slowest-dimension": slowest,
            "layout": layout,
            "mpi-io": mpi_io,
            "hdf5-file": f"out-{number}.h5",
            "csv-file": f"out-{number}.csv",
        }
        lines = [f"{key} = {value}" for key, value in section.items()]
        yield f"run-{number}.ini", "\n".join([base.rstrip("\n"), "", "[combinator]", *lines, ""])
