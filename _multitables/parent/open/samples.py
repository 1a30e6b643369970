"""Clips and patches of a dataset by their numbers, as a sequence: `Dataset.clips`, `.patches`.

Law
---
1. One read of the dataset serves all samples of a key.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from _multitables.parent.open.views import Readable
from _multitables.parent.ragged.sample_keys import Numbered
from _multitables.parent.stream.open_stream import DataSpec


class SamplesView(Numbered):
    """Samples of a dataset by number; made by `Dataset.clips` and `Dataset.patches`.

    Attributes
    ----------
    shape : tuple of int
        ``(samples, steps, *row_shape)``, or ``(samples, *box, ...)``.
    dtype : numpy.dtype
        That of the dataset.
    """

    def __init__(self, dataset: Readable, read: Callable[[Any], Any], spec: DataSpec) -> None:
        super().__init__(spec)
        self._dataset, self._read = dataset, read

    def __getitem__(self, key: Any) -> Any:
        """Read samples.

        Parameters
        ----------
        key : int, slice or array of int or bool
            Numbers of samples, as NumPy takes them.

        Returns
        -------
        numpy.ndarray, or tuple of two
            One sample, or several. With ``mask=True`` also the mask of rows that are not
            padding.
        """
        taken, is_one = self._taken(key)
        return self._finished(taken, is_one, self._read(taken.step))

    def __iter__(self) -> Iterator[Any]:
        return map(self.__getitem__, range(len(self)))

    def __repr__(self) -> str:
        return f"<SamplesView of {self._dataset!r}: shape {self.shape}>"
