"""The types of the studies' arguments: what cannot work is refused before anything is written.

Law
---
1. Each is a `type` for argparse: text to value, or `ArgumentTypeError` with what is wrong.
2. Its name is the noun that argparse puts into "invalid NOUN value".
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Sequence

#: Names the interpreter of an environment whose h5py has HDF5's driver for S3.
ROS3_PYTHON = "MULTITABLES_ROS3_PYTHON"


def add_result_options(parser: argparse.ArgumentParser) -> None:
    """The options that every study has, of what it keeps."""
    parser.add_argument(
        "--output",
        default="results",
        metavar="DIR",
        help="directory for the results: CSV, tables, plots, an HTML report (default: results)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the run in --output: what was measured there is not measured again",
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help="a run of seconds that checks the data, whatever the other options say of sizes and "
        "rounds; its numbers mean little",
    )


def add_rows(parser: argparse.ArgumentParser) -> None:
    """The option of studies whose datasets have rows of 1 KiB."""
    parser.add_argument(
        "--rows",
        type=positive(int),
        default=1_000_000,
        metavar="N",
        help="rows of 1 KiB in each dataset (default 1000000)",
    )


def add_seconds(parser: argparse.ArgumentParser, default: float, what: str) -> None:
    """The option of studies that time each contender for a while; `what` begins its help."""
    parser.add_argument(
        "--seconds",
        type=positive(float),
        default=default,
        metavar="S",
        help=f"{what} (default {default:g})",
    )


def add_processes(parser: argparse.ArgumentParser, what: str) -> None:
    """The option of studies that measure one number of processes; `what` begins its help."""
    parser.add_argument(
        "--processes",
        type=positive(int),
        default=2,
        metavar="N",
        help=f"{what} (default 2)",
    )


def add_store(parser: argparse.ArgumentParser, without: str) -> None:
    """The options of studies that read objects; `without` says what an h5py without ROS3 means."""
    parser.add_argument(
        "--latency_ms",
        type=positive(float),
        default=20,
        metavar="MS",
        help="how long each request for an object waits before it is passed on (default 20)",
    )
    parser.add_argument(
        "--ros3_python",
        default=os.environ.get(ROS3_PYTHON, ""),
        metavar="PATH",
        help="interpreter of an environment whose h5py has HDF5's driver for S3, as "
        f"tools/ros3_env.py makes it (default: {ROS3_PYTHON}, or {without})",
    )


def positive(kind: Callable[[str], float]) -> Callable[[str], float]:
    """A finite number above 0 of the type `kind`."""

    def convert(text: str) -> float:
        value = kind(text)
        if not 0 < value < float("inf"):
            raise argparse.ArgumentTypeError(f"{text} is not above 0 and finite")
        return value

    convert.__name__ = kind.__name__
    return convert


def numbers(text: str) -> tuple[int, ...]:
    """Whole numbers above 0, as ``1,2,4``; each once, rising."""
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        found = [0]
    if found[0] < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers above 0, like 1,2,4")
    return tuple(found)


def sizes(text: str) -> tuple[int, ...]:
    """Numbers of bytes, as ``0,64e6``; each once, rising."""
    try:
        found = sorted({int(float(word)) for word in text.split(",")})
    except (OverflowError, ValueError):
        found = [-1]
    if found[0] < 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of bytes, like 0,64e6")
    return tuple(found)


def levels(text: str) -> tuple[int, ...]:
    """Levels of compression, 0 to 9, as ``0,3,9``; each once, rising."""
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        found = [-1]
    if found[0] < 0 or found[-1] > 9:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of numbers 0 to 9, like 0,3,9")
    return tuple(found)


def some_of(names: Sequence[str]) -> Callable[[str], tuple[str, ...]]:
    """Some of `names`, as ``a,b``; in the order of `names`."""

    def convert(text: str) -> tuple[str, ...]:
        chosen = text.split(",")
        for word in chosen:
            if word not in names:
                raise argparse.ArgumentTypeError(f"{word!r} is not one of {', '.join(names)}")
        return tuple(name for name in names if name in chosen)

    return convert


def complib(text: str) -> str:
    """A compression library that this PyTables can write with."""
    import tables

    try:
        with warnings.catch_warnings():
            # PyTables would warn and write with another library, and the table would be wrong
            warnings.simplefilter("error", tables.FiltersWarning)
            tables.Filters(complevel=1, complib=text)
    except tables.FiltersWarning:
        raise argparse.ArgumentTypeError(f"this PyTables was built without {text!r}") from None
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error).replace("``", "'")) from None
    return text
