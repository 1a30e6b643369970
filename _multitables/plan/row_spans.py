"""Where the elements of ragged rows lie: offsets, starts, ends or lengths -> spans.

Law
---
1. Pure. Numbers are checked once, before anything is read by them.
2. Each element belongs to a row, unless the user says that there are gaps: none is lost silently.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import CorruptFileError, MultitablesError, OptionsError
from _multitables.index.chunk_index import ChunkIndex

I64 = npt.NDArray[np.int64]

#: The singular of each kind of numbers.
ONE = {"offsets": "offset", "starts": "start", "ends": "end", "lengths": "length"}
START: I64 = np.zeros(1, np.int64)
BEYOND = "ends its row beyond the elements"


@dataclass(frozen=True, eq=False)
class RowSpans:
    """Where the elements of each row begin and end."""

    begins: I64
    ends: I64
    #: Each row begins where the one before it ends.
    in_line: bool

    @classmethod
    def of_offsets(cls, offsets: I64) -> RowSpans:
        """Return rows of which each begins where the one before it ends."""
        return cls(offsets[:-1], offsets[1:], in_line=True)

    def __len__(self) -> int:
        return len(self.begins)

    @property
    def lengths(self) -> I64:
        """Elements of each row."""
        return self.ends - self.begins

    @property
    def n_elements(self) -> int:
        """Elements of all rows."""
        if self.in_line:
            return int(self.ends[-1] - self.begins[0]) if len(self) else 0
        return int(self.lengths.sum())


@dataclass(frozen=True, eq=False)
class Numbers:
    """Numbers of one kind."""

    #: One of `ONE`.
    kind: str
    values: npt.NDArray[Any]
    #: The dataset that has them; None: the user gave them.
    index: ChunkIndex | None

    @property
    def place(self) -> str:
        """Where they are, in words."""
        if self.index is None:
            return "an array"
        return f"{self.index.path!r} in {self.index.filename!r}"

    def check_least(self, least: npt.NDArray[Any] | int, what: str) -> None:
        """Raise if a number is less than its lower bound."""
        bad = self.values < least
        if bad.any():
            at = int(np.argmax(bad))
            raise self._error(at, what, f"at least {np.broadcast_to(least, bad.shape)[at]}")

    def check_most(self, most: int, what: str, sums: I64 | None = None) -> None:
        """Raise if a number, or a running sum, exceeds its upper bound."""
        bad = (self.values if sums is None else sums) > most
        if bad.any():
            raise self._error(int(np.argmax(bad)), what, f"at most {most}", sums)

    def _error(
        self, at: int, what: str, expected: str, sums: I64 | None = None
    ) -> MultitablesError:
        got = int((self.values if sums is None else sums)[at])
        happened = f"{ONE[self.kind]} {at} of {self.place} {what} (expected {expected}, got {got})"
        good = "Nothing was read by these numbers"
        known: dict[str, Any] = {"expected": expected, "got": got}
        if self.index is None:
            advice = "Check that they belong to these values"
            return OptionsError(happened, good=good, advice=advice, option=self.kind, **known)
        advice = "Check that they belong to these values; if so, the file is damaged"
        known |= {"path": self.index.path, "filename": self.index.filename}
        return CorruptFileError(happened, good=good, advice=advice, **known)


def row_spans(given: Mapping[str, Numbers], values: ChunkIndex, gaps: bool) -> RowSpans:
    """Return where rows lie in a dataset of elements.

    Parameters
    ----------
    given : mapping of str to Numbers
        By kind, of a combination in `SPANS_OF`.
    gaps : bool
        Elements may belong to no row.

    Raises
    ------
    CorruptFileError, OptionsError
        Numbers of the file, or of the user, contradict each other or the elements.
    OptionsError
        Elements belong to no row, or starts are not as many as the ends or lengths.
    """
    n_elements = values.n_rows
    for numbers in given.values():
        numbers.check_least(0, "is negative")
        numbers.check_most(n_elements, "lies beyond the elements")
    spans = SPANS_OF[frozenset(given)](n_elements, **given)
    if not gaps:
        _check_gaps(spans, given, values)
    return spans


# A sum beyond the elements is seen before it can be too large a number, as each number is checked.


def _whole(numbers: Numbers) -> I64:
    return numbers.values.astype(np.int64)


def _ascending(numbers: Numbers) -> I64:
    before = np.concatenate([numbers.values[:1], numbers.values[:-1]])
    numbers.check_least(before, "is less than the one before it")
    return _whole(numbers)


def _of_offsets(_: int, offsets: Numbers) -> RowSpans:
    return RowSpans.of_offsets(_ascending(offsets) if len(offsets.values) else START)


def _of_starts(n_elements: int, starts: Numbers) -> RowSpans:
    return RowSpans.of_offsets(np.append(_ascending(starts), n_elements))


def _of_ends(_: int, ends: Numbers) -> RowSpans:
    return RowSpans.of_offsets(np.concatenate([START, _ascending(ends)]))


def _of_lengths(n_elements: int, lengths: Numbers) -> RowSpans:
    ends = np.cumsum(_whole(lengths))
    lengths.check_most(n_elements, BEYOND, ends)
    return RowSpans.of_offsets(np.concatenate([START, ends]))


def _of_pairs(_: int, starts: Numbers, ends: Numbers) -> RowSpans:
    _check_as_many(starts, ends)
    begins = _whole(starts)
    ends.check_least(begins, "lies before the start of its row")
    return RowSpans(begins, _whole(ends), in_line=False)


def _of_lengths_from(n_elements: int, starts: Numbers, lengths: Numbers) -> RowSpans:
    _check_as_many(starts, lengths)
    begins = _whole(starts)
    ends = begins + _whole(lengths)
    lengths.check_most(n_elements, BEYOND, ends)
    return RowSpans(begins, ends, in_line=False)


#: What says where rows lie, alone or together.
SPANS_OF: dict[frozenset[str], Callable[..., RowSpans]] = {
    frozenset({"offsets"}): _of_offsets,
    frozenset({"starts"}): _of_starts,
    frozenset({"ends"}): _of_ends,
    frozenset({"lengths"}): _of_lengths,
    frozenset({"starts", "ends"}): _of_pairs,
    frozenset({"starts", "lengths"}): _of_lengths_from,
}


def _check_as_many(starts: Numbers, others: Numbers) -> None:
    expected, got = len(starts.values), len(others.values)
    if expected != got:
        raise OptionsError(
            f"{others.kind} of {others.place} and starts of {starts.place} differ in number "
            f"(expected {expected} {others.kind}, got {got})",
            advice="Give those of the same rows, or one of them alone",
            option=others.kind,
            expected=expected,
            got=got,
        )


def _check_gaps(spans: RowSpans, given: Mapping[str, Numbers], values: ChunkIndex) -> None:
    """Raise if elements belong to no row."""
    n_elements, begins, ends = values.n_rows, spans.begins, spans.ends
    if not spans.in_line:
        order = np.argsort(begins, kind="stable")
        begins, ends = begins[order], np.maximum.accumulate(ends[order])
    # Behind each row, and before the first, up to where the next one begins.
    low = np.concatenate([START, ends])
    high = np.append(begins, n_elements)
    lost = np.maximum(high - low, 0)
    n_lost = int(lost.sum())
    if not n_lost:
        return
    first = int(low[np.argmax(lost > 0)])
    places = " and ".join(f"{one.kind} of {one.place}" for one in given.values())
    raise OptionsError(
        f"{n_lost} of {n_elements} elements of {values.path!r} in {values.filename!r} belong to no "
        f"row, first element {first} (expected rows that have all of them, got {len(spans)} rows "
        f"by the {places})",
        good="Nothing was read by these numbers",
        advice="offsets= are one more than rows; numbers that say where each row begins are "
        "starts=, where it ends are ends=, and how long it is are lengths=. If these elements are "
        "of no row, give gaps=True",
        option=next(iter(given)),
        expected=n_elements,
        got=n_elements - n_lost,
    )
