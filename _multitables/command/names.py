"""Which files the words of a command line name, and how stores are asked.

Law
---
1. Patterns that the shell left are the library's: of files here, and of objects of stores.
2. An error about options never shows them, as they may be secrets.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Iterable, Iterator
from typing import Any

from _multitables.index.files.names import files_named
from _multitables.remote.options import StorageOptions

HTTP = ("http://", "https://")


def add_storage(parser: argparse.ArgumentParser) -> None:
    """Add the option that says how stores are asked."""
    parser.add_argument(
        "--storage_options",
        type=_object,
        metavar="JSON",
        help='how the store of a URL is asked, as in {"region": "eu-west-1"}; keys are better kept '
        "in the environment",
    )


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError("not a JSON object")
    return found


def named(words: Iterable[str], storage: dict[str, Any] | None) -> Iterator[str]:
    """Yield the name of each file.

    Raises
    ------
    MissingFileError
        Nothing matches a pattern.
    """
    for word in words:
        # of web servers, "?" begins a query
        found = word if word.startswith(HTTP) else files_named(word, StorageOptions.of(storage))[0]
        yield from found if isinstance(found, list) else [os.fsdecode(found)]


def title(word: str) -> str:
    """Return a name without the query of a web server, which may be a signature."""
    return word.partition("?")[0] if word.startswith(HTTP) else word
