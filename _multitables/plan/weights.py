"""How likely each sample is where samples are drawn, and the draws of an epoch.

Law
---
1. The user gives `Weights`; `Chances` are their meaning for samples that have numbers.
2. Draws are a function of seed, epoch and number, the same on every machine.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import OptionsError, public
from _multitables.options import whole, wrong

I64 = npt.NDArray[np.int64]
F64 = npt.NDArray[np.float64]
#: Of SplitMix64 (Steele, Lea and Flood, 2014).
GAMMA, MIX = 0x9E3779B97F4A7C15, (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
WORD = (1 << 64) - 1
#: Each kind of draw of one seed has a number of its own.
STRIDES, CHOICES, GROUPS, JITTER = range(4)  # the last one for each axis
CROPS, FLIPS = 64, 96
#: Things that may have a weight.
OF = ("sample", "segment", "file")


@public
@dataclass(frozen=True, eq=False)
class Weights:
    """How often samples are drawn, each time with replacement.

    Parameters
    ----------
    values : array, str or mapping, optional
        A weight from 0 on for each sample, segment or file; or the path of a dataset that has one
        for each row: a sample has that of the row at which it begins. With `labels` a weight for
        each label, as a mapping; default: all labels are drawn equally often.
    of : {"sample", "segment", "file"}, optional
        The things that have weights. A segment or file is drawn first, and then one of its samples.
    labels : str or array, optional
        A label for each row, or the path of a dataset that has them: a label is drawn first, and
        then one of the samples that begin at a row of this label.

    Examples
    --------
    >>> multitables.Weights([3, 1], of="file")
    Weights(values=array([3., 1.]), of='file', labels=None)
    >>> multitables.Weights(labels="/labels")
    Weights(values=None, of='sample', labels='/labels')
    """

    values: Any = None
    _: KW_ONLY
    of: str = "sample"
    labels: Any = None

    def __post_init__(self) -> None:
        if self.of not in OF:
            raise wrong("of", f"must be one of {OF}", self.of, "Say what has a weight")
        by_label = isinstance(self.values, Mapping)
        if self.labels is None and (by_label or self.values is None):
            advice = "Give a number for each, or labels"
            raise wrong("weights", "must be numbers or a path", self.values, advice)
        if self.labels is not None:
            if self.of != "sample" or not (by_label or self.values is None):
                advice = "Give a mapping from labels to weights alone"
                raise wrong("weights", "must be by label", self.values, advice)
            if not isinstance(self.labels, str):
                object.__setattr__(self, "labels", np.asarray(self.labels))
        if by_label or self.values is None:
            as_weights(list((self.values or {}).values()))
        elif isinstance(self.values, str):
            if self.of != "sample":
                advice = f"Give an array with a weight for each {self.of}"
                raise wrong("weights", f"of a {self.of} must be numbers", self.values, advice)
        else:
            object.__setattr__(self, "values", as_weights(self.values))


def check_weights(weights: Any, draws: Any, rows: Any) -> dict[str, Any]:
    """Check `weights` and `draws` of batches; `rows` cannot be given with them."""
    if weights is None and draws is not None:
        raise wrong("draws", "needs weights", draws, "Say how likely samples are")
    if weights is not None and rows is not None:
        advice = "Give a weight of 0 to what does not take part"
        raise wrong("rows", "cannot be given with weights", rows, advice)
    if draws is not None:
        draws = whole("draws", draws, 1, "It is how many samples an epoch has")
    if weights is not None and not isinstance(weights, Weights):
        weights = Weights(weights)
    return {"weights": weights, "draws": draws}


def as_weights(values: Any) -> F64:
    """Return weights as numbers.

    Raises
    ------
    OptionsError
        Not numbers from 0 on.
    """
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError):
        raise _wrong(values) from None
    if found.ndim != 1 or not np.isfinite(found).all() or (found < 0).any():
        raise _wrong(values)
    return found


def _wrong(values: object) -> OptionsError:
    advice = "Give one number for each, none below 0"
    got = values if np.isscalar(values) else f"an array of {np.asarray(values).dtype}"
    return wrong("weights", "must be finite numbers from 0 on, one for each", got, advice)


@dataclass(frozen=True, eq=False)
class Chances:
    """How likely each group of samples is, and which samples it has."""

    #: The sum of the weights up to each group.
    ends: F64
    #: How many samples there are before each group; None: a group is one sample.
    counts: I64 | None = None
    #: The samples, group by group; None: in their order.
    members: I64 | None = None

    def chosen(self, seed: int, epoch: int, begin: int, n: int) -> I64:
        """Return the groups of some draws of an epoch, in the order of the draws."""
        numbers = np.arange(begin, begin + n, dtype=np.int64)
        at = unit(hashed(seed, epoch, GROUPS, numbers)) * self.ends[-1]
        last = int(np.searchsorted(self.ends, self.ends[-1]))
        found: I64 = np.minimum(np.searchsorted(self.ends, at, side="right"), last)
        return found

    def draw(self, seed: int, epoch: int, n: int) -> I64:
        """Return `n` samples, in their order."""
        group = self.chosen(seed, epoch, 0, n)
        if self.counts is None:
            return np.sort(group)
        words = hashed(seed, epoch, CHOICES, np.arange(n, dtype=np.int64))
        found = self.counts[group] + below(words, np.diff(self.counts)[group])
        return np.sort(found if self.members is None else self.members[found])

    @property
    def identity(self) -> int:
        """A checksum of weights and groups."""
        parts = (self.ends, self.counts, self.members)
        return zlib.crc32(b"".join(one.tobytes() for one in parts if one is not None))


def chances(weights: F64, counts: I64 | None = None, members: I64 | None = None) -> Chances:
    """Return chances from weights; groups without a sample are never drawn.

    Raises
    ------
    OptionsError
        No sample can be drawn.
    """
    if counts is not None:
        weights = np.where(np.diff(counts) > 0, weights, 0.0)
    if not weights.any():
        got = f"{len(weights)} weights that are 0 or have no sample"
        raise wrong("weights", "draw no sample", got, "Give one above 0 to something")
    return Chances(np.cumsum(weights), counts, members)


def by_label(weights: Weights, labels: npt.NDArray[Any]) -> Chances:
    """Return the chances of samples by their labels.

    Raises
    ------
    OptionsError
        A label has no weight, or no sample can be drawn.
    """
    names, of_sample = np.unique(labels, return_inverse=True)
    given = weights.values
    each = [one.decode() if isinstance(one, bytes) else one for one in names.tolist()]
    if given is not None and (missing := [one for one in each if one not in given]):
        advice = "Give 0 to labels that are not drawn"
        raise wrong("weights", f"lack a label: expected {missing[0]!r}, too", given, advice)
    values = np.array([1.0 if given is None else given[one] for one in each], np.float64)
    return grouped(values, of_sample.astype(np.int64).reshape(-1))


def grouped(weights: F64, of_sample: I64) -> Chances:
    """Return the chances of samples by the weights of their groups."""
    members = np.argsort(of_sample, kind="stable")
    counts = np.searchsorted(of_sample[members], np.arange(len(weights) + 1))
    return chances(weights, counts.astype(np.int64), members)


# ---- random numbers


def hashed(seed: int, epoch: int, what: int, numbers: I64) -> npt.NDArray[np.uint64]:
    """Return a random word for each number."""
    key = 0
    for word in (seed, epoch, what):
        (mixed,) = _mixed(np.array([(key + word + GAMMA) & WORD], np.uint64)).tolist()
        key = int(mixed)
    steps = (numbers.astype(np.uint64) + np.uint64(1)) * np.uint64(GAMMA)
    return _mixed(steps + np.uint64(key))


def _mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    for shift, factor in zip((30, 27), MIX, strict=True):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(31))


def unit(words: npt.NDArray[np.uint64]) -> F64:
    """Return numbers from 0 up to 1, one of each word."""
    found: F64 = (words >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return found


def below(words: npt.NDArray[np.uint64], bound: I64 | int) -> I64:
    """Return numbers from 0 up to a bound below 2**53, one of each word."""
    return np.minimum((unit(words) * bound).astype(np.int64), np.asarray(bound, np.int64) - 1)
