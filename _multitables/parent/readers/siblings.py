"""Chunks that one child of a process has decoded, for its other children.

Law
---
1. Forked children inherit the memory, spawned ones get it with a pickled file or dataset. Without
   such memory each child decodes for itself.
"""

from __future__ import annotations

import contextlib
import os
import sys
import weakref
from collections.abc import Callable
from typing import Any

from _multitables._core import Descriptor
from _multitables.options import open_cache

#: The memory given to children that are being started: it is open as long as they are known.
_given: weakref.WeakKeyDictionary[Any, Descriptor] = weakref.WeakKeyDictionary()


class Siblings:
    """Pickled to a child that multiprocessing starts, it lets that child share."""

    def __reduce__(self) -> tuple[Callable[..., Siblings], tuple[Any, ...]]:
        context = sys.modules.get("multiprocessing.context")
        child = context.get_spawning_popen() if context is not None else None
        memory = None if child is None or child in _given else _memory()
        if memory is not None:
            from multiprocessing.reduction import DupFd

            _given[child] = memory
            return _joined, (DupFd(memory.fileno()),)
        return _joined, ()


def _joined(memory: Any = None) -> Siblings:
    if memory is not None:
        with contextlib.suppress(OSError):
            number = memory.detach()
            Descriptor.copy_of(number).join_siblings()
            os.close(number)
    return Siblings()


def _memory() -> Descriptor | None:
    with contextlib.suppress(OSError, MemoryError):
        return Descriptor.for_children(open_cache("cache_bytes", None))
    return None


os.register_at_fork(before=_memory)
