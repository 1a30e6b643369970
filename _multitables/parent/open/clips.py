"""Clips of a dataset by their numbers, as a sequence: `Dataset.clips`.

Law
---
1. plan/samples.py and plan/sample_rows.py alone say which rows a clip has.
2. One read of the dataset serves all clips of a key.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.index.joined.kept_source import KeptSource
from _multitables.parent.open.views import Readable
from _multitables.parent.ragged.open_samples import open_samples
from _multitables.parent.ragged.rows_of_requests import as_samples
from _multitables.parent.stream.open_stream import DataSpec
from _multitables.plan.samples import Clips, numbered


class ClipsView:
    """Clips of a dataset by number; made by `Dataset.clips`.

    Attributes
    ----------
    shape : tuple of int
        ``(clips, steps, *row_shape)``.
    dtype : numpy.dtype
        That of the dataset.
    """

    def __init__(self, dataset: Readable, source: KeptSource, path: str, clips: Clips) -> None:
        opened = open_samples(DataSpec(source, path, sample=numbered(clips)))
        self._dataset = dataset
        self._entry, self._has_mask = opened.entries[0], len(opened.entries) > 1
        assert self._entry.take is not None
        self.shape = (len(self), len(self._entry.take), *(dataset.shape or ())[1:])
        self.dtype = dataset.dtype

    def __len__(self) -> int:
        return self._entry.rows.n_rows

    def __getitem__(self, key: Any) -> Any:
        """Read clips.

        Parameters
        ----------
        key : int, slice or array of int or bool
            Numbers of clips, as NumPy takes them.

        Returns
        -------
        numpy.ndarray, or tuple of two
            One clip, of shape ``(steps, *row_shape)``, or several. With ``mask=True`` also which
            rows are not padding.
        """
        is_one = isinstance(key, (int, np.integer)) and not isinstance(key, bool)
        made = self._read(self._numbers(key, is_one))
        if not is_one:
            return made
        return (made[0][0], made[1][0]) if self._has_mask else made[0]

    def _read(self, numbers: npt.NDArray[np.int64]) -> Any:
        samples, take = self._entry.samples, self._entry.take
        assert samples is not None
        assert take is not None
        rows, inside = samples.rows(numbers, 0, take)
        made = as_samples(self._entry, self._dataset[rows.reshape(-1)], inside)
        return (made, inside) if self._has_mask else made

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
            raise IndexError(f"clips are taken by numbers, a slice or a mask, got {key!r:.60}")
        low, high = int(numbers.min()), int(numbers.max())
        if low < -n or high >= n:
            raise IndexError(
                f"there is no clip {low if low < -n else high} (expected 0 to {n - 1})"
            )
        return np.where(numbers < 0, numbers + n, numbers).astype(np.int64)

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))

    def __repr__(self) -> str:
        return f"<ClipsView of {self._dataset!r}: shape {self.shape}>"
