"""Arrays as tensors of torch, and what torch says of the process that it runs in.

Law
---
1. A tensor shares its array's memory and keeps it: a block goes back when the last tensor is gone.
2. Only what torch has no dtype for is copied (the other byte order) or refused (all else).
3. Errors can cross to the process that runs a `DataLoader`: by a type that has an address.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from _multitables.errors import SubprocessException, UnsupportedDatasetError
from _multitables.tree import native


def tensor(array: Any, where: str) -> torch.Tensor:
    """Return the tensor that shares the memory of an array.

    Parameters
    ----------
    array : numpy.ndarray
        Of any shape.
    where : str
        The data, for the error.

    Raises
    ------
    UnsupportedDatasetError
        Torch has no such dtype.
    """
    try:
        return torch.from_numpy(native(array))
    except TypeError:
        raise UnsupportedDatasetError(
            f"torch has no dtype for {array.dtype} of {where}",
            advice="Choose one column of a table with field=, or take NumPy arrays from "
            "Streamer.get_batches and convert them",
            dtype=array.dtype,
        ) from None


def split() -> tuple[int, int] | None:
    """Return the number of this one of a `DataLoader`'s processes, and how many there are.

    None: this process is not one of them.
    """
    info = torch.utils.data.get_worker_info()
    return None if info is None else (info.id, info.num_workers)


def loader_number() -> int:
    """Return, in one of a `DataLoader`'s processes, a number that all of them have."""
    info = torch.utils.data.get_worker_info()
    return 0 if info is None else info.seed - info.id


def distributed() -> tuple[int, int] | None:
    """Return rank and world size of `torch.distributed`; None where it is not initialised."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def crossing(error: SubprocessException) -> SubprocessException:
    """Return what a `DataLoader` can send to its own process.

    It sends the type by its address in a module. The types that also inherit what a library
    raised have none; without this their message would be lost, and the loop would wait for it.
    """
    kind = type(error)
    if split() is None or getattr(sys.modules[kind.__module__], kind.__name__, None) is kind:
        return error
    return SubprocessException(error.happened, good=error.good, advice=error.advice, **error.values)
