"""The methods ``clips`` and ``patches`` of datasets, which give samples by number.

Law
---
1. Datasets of `open` and of a `Reader` share the docstrings; each makes its own items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from _multitables.plan.samples import Sample

_Found = TypeVar("_Found")


class Sampled(Generic[_Found]):
    """A dataset with samples by number."""

    __slots__ = ()

    def clips(self, steps: int, **options: Any) -> _Found:
        """Return the dataset's clips, by their numbers: ``dataset.clips(16, lengths=...)[32:64]``.

        Parameters
        ----------
        steps : int
            Rows of a clip.
        **options
            Those of `Clips`, but for ``starts``, ``draws`` and ``replace``.

        Returns
        -------
        sequence
            It has a ``shape`` and a ``dtype``, and takes a number, a slice or an array of numbers.
            Its items are arrays; those of a `Reader`'s dataset are for `Reader.request`.

        Raises
        ------
        OptionsError
            An option that cannot work, or no clip fits (a `ValueError`).
        UnsupportedDatasetError
            Rows have any length.
        """
        from _multitables.plan.samples import Clips

        return self._samples(Clips(steps, **options))

    def patches(self, shape: Any, stride: Any = None, **options: Any) -> _Found:
        """Return the dataset's patches, by their numbers: ``dataset.patches((64, 64))[:32]``.

        Parameters
        ----------
        shape : int or tuple of int or None
            Extents along the leading axes; None: all of an axis.
        stride : int or tuple of int, optional
            Distance of the patches along each.
        **options
            Those of `Patches`.

        Returns
        -------
        sequence
            As `clips` returns it.

        Raises
        ------
        OptionsError
            An option that cannot work, or no patch fits (a `ValueError`).
        UnsupportedDatasetError
            Rows have any length.
        """
        from _multitables.plan.samples import Patches

        return self._samples(Patches(shape, stride, **options))

    def _samples(self, sample: Sample) -> _Found:
        raise NotImplementedError
