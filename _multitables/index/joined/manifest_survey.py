"""Objects of all files of a manifest, described at once where each file has what the first one has.

Law
---
1. Files are compared by their saved links: groups that a path was searched in have the same names
   in each, and none but hard links.
2. It opens no file, and makes no object of Python for a file that is not named.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

import numpy as np

from _multitables._core import DamagedIndexError
from _multitables.index.chunk_index import I64
from _multitables.index.datasets.survey import NO_DATASET, Survey, surveyed
from _multitables.index.joined.manifest import Manifest
from _multitables.index.opened.open_files import Place
from _multitables.index.opened.runs import Places, Run


class ListedPlaces(Places):
    """The objects of the first file of a manifest, then those of the second, and so on."""

    def __init__(self, manifest: Manifest, runs: Sequence[Run], offsets: I64) -> None:
        super().__init__(runs)
        self._manifest, self._offsets = manifest, offsets

    def __len__(self) -> int:
        return len(self._offsets)

    def __getitem__(self, number: int) -> Place:
        file, within = divmod(number, super().__len__())
        path, offset = super().__getitem__(within).path, int(self._offsets[number]) % 2**64
        return Place(self._manifest.open_file(file), offset, path)


def survey_of_all(
    manifest: Manifest, runs: Sequence[Run], groups: Iterable[str], native_filters: Container[int]
) -> Survey | None:
    """Describe what runs of the first file are in every file, file by file.

    None: a file differs in what its groups have, has nothing there, or dimension scales.

    Parameters
    ----------
    groups : iterable of str
        The paths of the groups in which names were searched.
    """
    try:
        return _survey(manifest, runs, groups, native_filters)
    except DamagedIndexError as error:
        raise manifest.damaged(error) from None


def _survey(
    manifest: Manifest, runs: Sequence[Run], groups: Iterable[str], native_filters: Container[int]
) -> Survey | None:
    index, of_first = manifest.index, Places(runs)
    if not all(index.is_alike(_path(group)) for group in groups):
        return None
    found = [index.alike(_path(of_first[number].path)) for number in range(len(of_first))]
    rows = [of_path for of_path in found if of_path is not None]
    if len(rows) < len(of_first):
        return None
    core = index.survey_alike(rows, with_scales=True)
    is_dataset = (core.kind != NO_DATASET).reshape(len(manifest.files), len(rows))
    if len(core.scales) or not np.all(is_dataset.any(axis=1)):
        return None
    places = ListedPlaces(manifest, runs, core.offsets.astype(np.int64))
    return surveyed(places, manifest.files, core, native_filters)


def _path(path: str) -> bytes:
    return path.encode("utf-8", "surrogateescape")
