"""Items of a collection as tensors.

Law
---
1. What has no elements in one array, such as ragged rows or strings, stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch

from _multitables.errors import OptionsError
from _multitables.parent.collection.item import Item


def of_tensors(item: Item, to_tensor: Callable[[Any], torch.Tensor]) -> Item:
    """Return an item whose datasets and scales are tensors, which share its memory."""

    def change(value: Any) -> Any:
        is_array = isinstance(value, np.ndarray | np.generic) and value.dtype.kind != "O"
        return to_tensor(value) if is_array else value

    arrays = {name: change(array) for name, array in item.items()}
    scales = {
        name: tuple(axis.mapped(change) for axis in axes) for name, axes in item.scales.items()
    }
    return Item(item.key, arrays, scales, item.attrs, item.damaged, item.group_attrs)


def check_alone(
    loader: object,
    path: Any,
    batch_size: Any,
    pin_memory: bool,
    open_options: Mapping[str, Any] | None,
    options: Mapping[str, Any],
) -> None:
    """Raise if something is given beside a loader that only means something for a file."""
    given = {
        "path": path,
        "batch_size": batch_size,
        "pin_memory": pin_memory or None,
        "open_options": open_options or None,
        **options,
    }
    for name, value in given.items():
        if value is not None:
            raise OptionsError(
                f"{name} cannot be given with a {type(loader).__name__}, got {value!r}",
                advice="Give it to the method that makes the loader",
                option=name,
                got=value,
            )
