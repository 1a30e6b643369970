"""Samples of a dataset by their numbers, as keys of requests.

Law
---
1. plan/sample_rows.py and plan/sample_boxes.py alone decide the rows or box of a sample.
2. Nothing is read here but lengths, offsets and masks.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.parent.ragged.open_samples import open_samples
from _multitables.parent.stream.open_stream import DataSpec
from _multitables.plan.taken import Taken
from _multitables.select.selection import Selection


class Numbered:
    """The samples of a dataset, each with a number.

    Attributes
    ----------
    shape : tuple of int
        ``(samples, steps, *row_shape)``, or ``(samples, *box, ...)``.
    dtype : numpy.dtype
        That of the dataset.
    """

    def __init__(self, spec: DataSpec) -> None:
        opened = open_samples(spec)
        self._entry, self._has_mask = opened.entries[0], len(opened.entries) > 1
        self.shape = (len(self), *self._entry.sample_shape)
        self.dtype: np.dtype[Any] = self._entry.indexes[0].dtype

    def __len__(self) -> int:
        return self._entry.rows.n_rows

    def _taken(self, key: Any) -> tuple[Taken, bool]:
        """Return the rows or boxes of samples, and whether the key is a single number."""
        is_one = isinstance(key, (int, np.integer)) and not isinstance(key, bool)
        return self._entry.taken(self._numbers(key, is_one), 0), is_one

    def _finished(self, taken: Taken, is_one: bool, read: Any) -> Any:
        """Return samples from the elements that were read, with their mask if there is one."""
        made, inside = taken.made(read), taken.inside
        if not self._has_mask:
            return made[0] if is_one else made
        assert inside is not None
        return (made[0], inside[0]) if is_one else (made, inside)

    def _numbers(self, key: Any, is_one: bool) -> npt.NDArray[np.int64]:
        n = len(self)
        if isinstance(key, slice):
            return np.arange(*key.indices(n), dtype=np.int64)
        numbers = np.asarray([key] if is_one else key)
        if numbers.dtype == bool and numbers.shape == (n,):
            return np.flatnonzero(numbers).astype(np.int64)
        if not numbers.size:
            return np.zeros(0, np.int64)
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu":
            raise IndexError(f"samples are taken by numbers, a slice or a mask, got {key!r:.60}")
        low, high = int(numbers.min()), int(numbers.max())
        if low < -n or high >= n:
            raise IndexError(
                f"there is no sample {low if low < -n else high} (expected 0 to {n - 1})"
            )
        return np.where(numbers < 0, numbers + n, numbers).astype(np.int64)


class SampleKeys(Numbered):
    """Samples of a dataset for `Reader.request`; made by its ``clips`` and ``patches``.

    Attributes
    ----------
    shape : tuple of int
        ``(samples, steps, *row_shape)``, or ``(samples, *box, ...)``.
    dtype : numpy.dtype
        That of the dataset.
    """

    def __init__(self, whole: Selection, spec: DataSpec) -> None:
        super().__init__(spec)
        self._whole = whole

    def __getitem__(self, key: Any) -> Selection:
        """Describe samples; nothing is read.

        Parameters
        ----------
        key : int, slice or array of int or bool
            Numbers of samples, as NumPy takes them.

        Returns
        -------
        selection
            For `Reader.request`. Its result has one sample, or several; with ``mask=True`` it is a
            tuple, of which the second array says which rows are not padding.
        """
        taken, is_one = self._taken(key)
        finish = partial(self._finished, taken, is_one)
        return Selection(self._whole.dataset, (*self._whole.steps, taken.step), finish)

    def __iter__(self) -> Any:
        raise TypeError(f"{self!r} describes samples, it has none: request them")

    def __repr__(self) -> str:
        return f"<SampleKeys of {self._whole!r}: shape {self.shape}>"
