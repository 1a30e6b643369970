"""Items of a collection: which datasets belong together, and where they lie in a result.

Law
---
1. Pure: equal arguments give equal plans.
2. Each dataset of a result begins at a multiple of `ALIGN_BYTES`; one without elements takes none.
3. Items are sorted by their keys, in which numbers count as numbers: "shot 9" is before "shot 10".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from _multitables.index.chunk_index import I64
from _multitables.index.files.name_order import natural
from _multitables.index.names.pattern import Match
from _multitables.index.opened.runs import Begins
from _multitables.plan.row_order import FILE_ORDER, FULL, OrderWords

#: As caches and vector instructions want it.
ALIGN_BYTES = 64
#: Bytes to decode that are worth another reader.
SHARE_BYTES = 2 << 20


@dataclass(frozen=True)
class Members:
    """One item: its key, and the number of the dataset of each name."""

    key: str
    objects: Mapping[str, int]


@dataclass(frozen=True)
class Layout:
    """Where datasets lie in a result."""

    #: For the readers: number in the table, first row, end of the rows, byte of the result.
    pieces: I64
    #: Of each dataset where it begins; those without elements begin anywhere.
    begins: list[int]
    n_bytes: int

    def n_shares(self, n_readers: int) -> int:
        """How many readers should share it."""
        return max(1, min(n_readers, self.n_bytes // SHARE_BYTES))


class Items:
    """Items by key; each is made on demand.

    The names in an item are the values of the other wildcards; with a single wildcard, the last
    name of the path.

    Parameters
    ----------
    found : sequence of Match
        What a path matches.
    by : int, or sequence of str
        The wildcard whose value is the key, or the names of the files, which are keys then.
    is_dataset : ndarray of bool
        Of each object; others are in no item.
    labels : sequence of str, optional
        Of several paths, the name of the datasets of each.
    """

    def __init__(
        self,
        found: Sequence[Match],
        by: int | Sequence[str],
        is_dataset: npt.NDArray[np.bool_],
        labels: Sequence[str] | None = None,
    ) -> None:
        self._found, self._by, self._labels = found, by, labels
        self._begins = Begins(map(len, found))
        numbers: dict[str, int] = {}
        of_object = self._numbered(numbers)
        every, datasets = list(numbers), np.flatnonzero(is_dataset)
        used = np.flatnonzero(np.bincount(of_object[datasets], minlength=len(every)))
        sorted_ = sorted(used.tolist(), key=lambda number: natural(every[number]))
        self.keys = [every[number] for number in sorted_]
        rank = np.zeros(len(every), np.int64)
        rank[sorted_] = np.arange(len(sorted_))
        #: Of each object that is found, its item, or -1.
        self.of_object = np.where(is_dataset, rank[of_object], -1)
        #: The objects by item, and where each item's begin.
        self.objects = datasets[np.argsort(self.of_object[datasets], kind="stable")]
        self.begins = np.searchsorted(self.of_object[self.objects], np.arange(len(self) + 1))

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def numbered(self) -> dict[str, int]:
        """The item of each key."""
        return {key: item for item, key in enumerate(self.keys)}

    def numbers(self, item: int) -> list[int]:
        """Return the datasets of an item."""
        numbers: list[int] = self.objects[self.begins[item] : self.begins[item + 1]].tolist()
        return numbers

    def members(self, item: int) -> Members:
        """Return an item."""
        named = {self.name(number): number for number in self.numbers(item)}
        return Members(self.keys[item], {name: named[name] for name in sorted(named, key=natural)})

    def path(self, number: int) -> str:
        """Return the path by which an object was found."""
        at, within = self._begins.find(number)
        return self._found[at].path_of(within)

    def file(self, number: int) -> int:
        """Return in which of several files an object was found."""
        return self._found[self._begins.find(number)[0]].file

    def twice(self) -> tuple[str, int, int] | None:
        """Find a dataset that an item would have twice; return its path and the two files."""
        known: dict[str, dict[str, int]] = {}
        for match in self._found:
            files = known.setdefault("" if isinstance(self._by, int) else self._by[match.file], {})
            for path in map(match.path_of, range(len(match))):
                if files.setdefault(path, match.file) != match.file:
                    return path, files[path], match.file
        return None

    def alike(self) -> tuple[int, str] | None:
        """Find two datasets of an item that have one name; return the item and the name."""
        numbers: dict[str, int] = {}
        parts = [np.zeros(0, np.int64)]
        for at, match in enumerate(self._found):
            named = 1 if self._have_one_name(match) else len(match)
            names = (numbers.setdefault(self._name(at, n), len(numbers)) for n in range(named))
            of_match = np.fromiter(names, np.int64, named)
            parts.append(np.broadcast_to(of_match, len(match)))
        name, item = np.concatenate(parts)[self.objects], self.of_object[self.objects]
        order = np.lexsort((name, item))
        is_twice = (np.diff(item[order]) == 0) & (np.diff(name[order]) == 0)
        if not is_twice.any():
            return None
        first = order[np.argmax(is_twice)]
        return int(item[first]), self.name(int(self.objects[first]))

    def _numbered(self, numbers: dict[str, int]) -> I64:
        """Number the keys as they come, and return the number of each object's key."""
        found, by = self._found, self._by
        if not isinstance(by, int):
            keys = [numbers.setdefault(by[one.file], len(numbers)) for one in found]
            return np.repeat(np.array(keys, np.int64), np.diff(self._begins.all))
        parts = [np.zeros(0, np.int64)]
        known: dict[tuple[str, ...], I64] = {}  # many groups have the same names
        for match in found:
            if by < len(match.values):
                number = numbers.setdefault(match.values[by], len(numbers))
                parts.append(np.full(len(match), number))
                continue
            if match.names not in known:
                of = [numbers.setdefault(value, len(numbers)) for value in match.names]
                known[match.names] = np.array(of)
            parts.append(known[match.names])
        return np.concatenate(parts)

    def name(self, number: int) -> str:
        """Return the name of a dataset in its item."""
        return self._name(*self._begins.find(number))

    def _name(self, at: int, within: int) -> str:
        match = self._found[at]
        values = (*match.values, match.names[within]) if match.is_wild else match.values
        if isinstance(self._by, int):
            values = values[: self._by] + values[self._by + 1 :]
        joined = "/".join(filter(None, values))
        if self._labels is None:
            return joined or match.path_of(within).rpartition("/")[2]
        label = self._labels[match.pattern]
        return f"{label}/{joined}" if joined else label

    def _have_one_name(self, match: Match) -> bool:
        """Whether all objects of a match have the same name in their items."""
        is_key = not match.is_wild or self._by == len(match.values)
        return is_key and bool(match.behind or self._labels)


def layout_of(number: I64, n_rows: I64, n_bytes: I64) -> Layout:
    """Lay datasets out in a result.

    Parameters
    ----------
    number : ndarray of int64
        Of each its number in the table; -1: it has no elements.
    n_rows, n_bytes : ndarray of int64
        Of the table's datasets.
    """
    (here,) = (number >= 0).nonzero()
    pieces, begins = np.zeros((len(here), 4), np.int64), np.zeros(len(number), np.int64)
    pieces[:, 0] = number = number[here]
    padded = -(-n_bytes[number] // ALIGN_BYTES) * ALIGN_BYTES
    ends = padded.cumsum()
    pieces[:, 2] = n_rows[number]
    pieces[:, 3] = begins[here] = ends - padded
    return Layout(pieces, begins.tolist(), int(ends[-1]) if len(ends) else 0)


def in_file_order(first: Sequence[tuple[int, int]]) -> I64:
    """Return items by where their first bytes lie: file and offset of each."""
    return np.array(sorted(range(len(first)), key=lambda item: (first[item], item)), np.int64)


def order_words(n_items: int, order: str, seed: int, epoch: int) -> OrderWords:
    """Return the order of an epoch, of which positions in the listing of items are the rows."""
    return OrderWords(
        start=0,
        step=1,
        n_rows=n_items,
        listed=None,
        shuffle=FULL if order == "random" else FILE_ORDER,
        seed=seed,
        first_epoch=epoch,
        chunk_rows=1,
        window_rows=max(1, n_items),
    )
