"""How readers get at one object: its version, and the options of its store.

Law
---
1. The bytes that the core gets are laid out here and read in the core's tables/access.rs: a line of
   numbers, a line for the folder of the cache, and the text of the client.
2. Neither a repr nor a pickle has a secret; see options.py.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from _multitables.remote.names import kind_of
from _multitables.remote.options import StorageOptions


@dataclass
class Requests:
    """Requests of a store for metadata, and the bytes that they brought."""

    count: int = 0
    n_bytes: int = 0


@dataclass(frozen=True)
class Access:
    """An object's name, its version (an ETag, or what `client` takes for one), and the options."""

    name: str
    etag: str
    options: StorageOptions
    #: Requests for its metadata, of all times that it was opened.
    requests: Requests = field(
        default_factory=Requests, compare=False, repr=False, metadata={"stays": True}
    )

    @cached_property
    def encoded(self) -> bytes:
        """The bytes for the core; see the law."""
        text = [self.etag, self.options.client_text(self.name)]
        return self.options.at(self.name).limits + b"\n" + json.dumps(text).encode()

    def __reduce__(self) -> tuple[Any, ...]:
        return Access, (self.name, self.etag, self.options)  # not what `encoded` has kept

    @property
    def kind(self) -> str:
        """The kind of its store."""
        return kind_of(self.name)


def told_requests(accesses: Iterable[Access | None]) -> dict[str, dict[str, int]]:
    """Return what statistics tell of the metadata of these files; nothing without objects."""
    found = {id(one.requests): one.requests for one in accesses if one is not None}.values()
    if not found:
        return {}
    n_bytes = sum(one.n_bytes for one in found)
    return {"metadata": {"requests": sum(one.count for one in found), "bytes": n_bytes}}


def version_number(etag: str) -> int:
    """Return a number of 63 bits for the version of an object."""
    return int.from_bytes(hashlib.sha256(etag.encode()).digest()[:8], "little") >> 1
