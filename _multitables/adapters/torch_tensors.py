"""Arrays as tensors of torch, and what torch says of the process that it runs in.

Law
---
1. A tensor shares its array's memory and keeps it: a block goes back when its last tensor is gone.
2. Arrays in the other byte order are copied. Other arrays for which torch has no dtype are refused.
3. Errors cross to the process that runs a `DataLoader` as a type that it can import.
"""

from __future__ import annotations

import sys
from typing import Any

import torch

from _multitables.adapters import no_dtype
from _multitables.errors import SubprocessException
from _multitables.tree import native


def tensor(array: Any, where: str) -> torch.Tensor:
    """Return the tensor that shares the memory of an array; `where` names the data in errors.

    Raises
    ------
    UnsupportedDatasetError
        Torch has no such dtype.
    """
    try:
        return torch.from_numpy(native(array))
    except TypeError:
        raise no_dtype("torch", array.dtype, where) from None


def split() -> tuple[int, int] | None:
    """Return this process's number among a `DataLoader`'s, and their count; None elsewhere."""
    info = torch.utils.data.get_worker_info()
    return None if info is None else (info.id, info.num_workers)


def loader_number() -> int:
    """Return the number that all processes of this `DataLoader` share."""
    info = torch.utils.data.get_worker_info()
    return 0 if info is None else info.seed - info.id


def distributed() -> tuple[int, int] | None:
    """Return rank and world size of `torch.distributed`; None where it is not initialised."""
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    return torch.distributed.get_rank(), torch.distributed.get_world_size()


def crossing(error: SubprocessException) -> SubprocessException:
    """Return an error that a `DataLoader` can send to its own process.

    It sends the type by its name in a module, which a type that also inherits a library's
    exception does not have. Without this its message would be lost, and the loop would wait for it.
    """
    kind = type(error)
    if split() is None or getattr(sys.modules[kind.__module__], kind.__name__, None) is kind:
        return error
    return SubprocessException(error.happened, good=error.good, advice=error.advice, **error.values)
