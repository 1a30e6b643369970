"""Files whose datasets name dimension scales that are not there, or are not what scales should be.

Law
---
1. `/items/*/v` has the lost scale on its first axis, and `/u` on its second; `/items/*/w` has only
   the lost one. All elements are their numbers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import numpy as np

ITEMS = ("1", "2")


def _deleted(file: Any) -> Any:
    reference = file["t"].ref
    del file["t"]
    return reference


def _other(make: Callable[[Any], None]) -> Callable[[Any], Any]:
    def reference(file: Any) -> Any:
        make(file)
        return file["other"].ref

    return reference


def _text_scale(file: Any) -> None:
    file["other"] = np.array(["a", "bé", "c"], object)
    file["other"].make_scale("other")


#: How the scale is lost -> the reference to it, and words of the reason.
LOST: dict[str, tuple[Callable[[Any], Any], str]] = {
    "deleted": (_deleted, "as after a deletion"),
    "group": (_other(lambda file: file.create_group("other")), "the group '/other'"),
    "type": (_other(lambda file: file.update(other=np.dtype("i4"))), "the datatype '/other'"),
    "null": (lambda _: h5py.Reference(), "null"),
}
#: The same for a scale that is there, and is no array of numbers.
TEXTS = _other(_text_scale)


def write(path: Path, reference: Callable[[Any], Any]) -> Path:
    """Write a file whose lost scale is what `reference` makes, in place of a scale "t"."""
    with h5py.File(path, "w") as file:
        for name, length in (("t", 3), ("u", 4)):
            file[name] = np.arange(length, dtype="f8")
            file[name].make_scale(name)
        for item in ITEMS:
            for name, shape in (("v", (3, 4)), ("w", (3,))):
                dataset = file.create_dataset(
                    f"items/{item}/{name}", data=np.arange(np.prod(shape)).reshape(shape)
                )
                for axis, scale in enumerate("tu"[: len(shape)]):
                    dataset.dims[axis].attach_scale(file[scale])
        lost = reference(file)
        for item in ITEMS:
            for dataset in file[f"items/{item}"].values():
                listed = dataset.attrs["DIMENSION_LIST"]
                listed[0] = np.array([lost], h5py.ref_dtype)
                dataset.attrs.create(
                    "DIMENSION_LIST", listed, dtype=h5py.vlen_dtype(h5py.ref_dtype)
                )
    return path
