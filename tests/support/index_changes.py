"""Saved indexes whose bytes are changed.

Law: Hypothesis draws what is changed; `with_tables` corrects the sums, as another program can.
"""

from __future__ import annotations

import zlib
from dataclasses import astuple, replace
from typing import Any

from hypothesis import strategies as st

from _multitables.index.saved.format import CHECKED_FROM, HEAD, HEADS, Head

#: Where a saved index is changed, and by what.
CHANGES = st.tuples(
    st.sampled_from(["bytes", "bytes", "bytes", "number", "cut", "longer"]),
    st.integers(0, 2**20),
    st.one_of(st.binary(min_size=1, max_size=9), st.sampled_from([b"\0" * 8, b"\xff" * 8])),
)


def changed(content: bytes, change: tuple[str, int, bytes]) -> bytes:
    how, at, by = change
    at %= len(content) or 1
    if how == "cut":
        return content[:at]
    if how == "longer":
        return content + by
    if how == "number":
        at -= at % 8
    return (content[:at] + by + content[at + len(by) :])[: len(content)]


def with_tables(good: bytes, changes: list[Any]) -> bytes:
    """Change the tables and values of an index, under correct sums."""
    magic, version = HEAD.unpack_from(good)[:2]
    layout = HEADS[version]
    head = Head(*layout.unpack_from(good)[3:])
    begin = layout.size + head.parts_bytes
    tables = good[begin:]
    for change in changes:
        tables = changed(tables, change)
        tables = (tables + good[begin + len(tables) :])[: len(good) - begin]
    end = len(tables) - head.values_bytes
    sums = zlib.crc32(tables[:end]), zlib.crc32(tables[end:])
    head = replace(head, tables_sum=sums[0], values_sum=sums[1])
    numbers = astuple(head)[: (layout.size - CHECKED_FROM) // 8]
    head_sum = zlib.crc32(layout.pack(magic, version, 0, *numbers)[CHECKED_FROM:])
    return layout.pack(magic, version, head_sum, *numbers) + good[layout.size : begin] + tables
