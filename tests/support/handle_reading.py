"""Reading a dataset of a handle in another process, by any way of starting it.

Law
---
1. Functions of a module, so that processes that are not forked find them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

KEYS: list[Any] = [0, slice(3, 8), [5, 1, 1], np.s_[1:7:2, 2]]


def sums(dataset: Any, keys: list[Any] = KEYS) -> list[Any]:
    """The sum of each selection."""
    return [np.asarray(dataset[key]).sum().item() for key in keys]


def answer(connection: Any, dataset: Any) -> None:
    """Read what was given, and say what came."""
    try:
        connection.send(sums(dataset))
    except Exception as error:
        connection.send(repr(error))
    connection.close()


class Rows:
    """A dataset for `torch.utils.data`: opened once, as h5py's users write it."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, row: int) -> Any:
        return self.dataset[row]
