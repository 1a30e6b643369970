"""From a selection as written to its normal form: native, for a library, or refused.

Law
---
1. The first index on an array follows PyTables' grammar, and means what NumPy means by it.

Pure: this file must never know readers or files.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from _multitables.hyperslab import Hyperslab
from _multitables.selection import DatasetInfo, Selection, Step

__all__ = ["LibraryCall", "Native", "Refused", "library_call", "normalise", "whole_rows"]


@dataclass(frozen=True, slots=True, eq=False)
class Native:
    """The core serves it, if it serves the dataset (else: `library_call`)."""

    hyperslab: Hyperslab


@dataclass(frozen=True, slots=True, eq=False)
class LibraryCall:
    """A library serves it in a reader."""

    dataset: DatasetInfo
    #: "getitem", "read_sorted" or "where".
    method: str
    arguments: dict[str, Any]
    #: Fields and indexes that NumPy applies to what the method gave.
    steps: tuple[Step, ...]
    #: Of the result.
    dtype: np.dtype[Any]
    #: The result is a list of arrays: the values one after another, and their lengths as shape.
    ragged: bool = False
    #: Of the result where it can be told, as for a request's stage.
    shape: tuple[int, ...] | None = field(default=None)


@dataclass(frozen=True, slots=True, eq=False)
class Refused:
    """What is raised at get()."""

    kind: type[Exception]
    text: str


def whole_rows(selection: Selection) -> tuple[str, int, int, int, bool] | None:
    """(field or "", start, step, count, scalar) of a selection of whole rows, or None.

    For the most frequent requests, in less than a microsecond: one index or slice, before or
    after at most one field. None says nothing: then `normalise` tells.
    """
    raise NotImplementedError


def normalise(selection: Selection) -> Native | LibraryCall | Refused:
    """Return the normal form of a selection.

    Returns
    -------
    Native
        It has a `Hyperslab`.
    LibraryCall
        No hyperslab says it.
    Refused
        It is wrong in itself: out of range, no such field, not to be had in one step.
    """
    raise NotImplementedError


def library_call(selection: Selection) -> LibraryCall:
    """Return how a library serves a selection that is not refused, also a native one.

    For datasets that the core does not read.
    """
    raise NotImplementedError
