"""h5py's methods that write, refused: a file is only read.

Law
---
1. Each name by which h5py writes raises `ReadOnlyError`, which says what to write with. What there
   is already, `require_group` and `require_dataset` return, as h5py does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

from _multitables.errors import ReadOnlyError

K = TypeVar("K", bound=type[Any])

#: Names of methods that write, and of properties that are set: of groups, datasets and attributes.
GROUP = (
    "__setitem__", "__delitem__", "build_virtual_dataset", "clear", "copy", "create_dataset",
    "create_dataset_like", "create_group", "create_virtual_dataset", "move", "pop", "popitem",
    "setdefault", "update",
)  # fmt: skip
DATASET = ("__setitem__", "make_scale", "resize", "shape", "write_direct")
ATTRIBUTES = (
    "__setitem__", "__delitem__", "clear", "create", "modify", "pop", "popitem", "setdefault",
    "update",
)  # fmt: skip


def refused(what: str, title: str) -> ReadOnlyError:
    """Compose the error for an attempt to write."""
    return ReadOnlyError(
        f"{what} of {title} cannot be done, as multitables only reads",
        advice="Write with h5py or PyTables, while the file is not open here, and open it again",
    )


def _refusal(name: str) -> Callable[..., NoReturn]:
    def refuse(self: Any, *_: Any, **__: Any) -> NoReturn:
        raise refused(name, repr(self))

    refuse.__name__ = name
    return refuse


def writes(*names: str) -> Callable[[K], K]:
    """Return a decorator of classes: their methods and properties of these names do not write."""

    def decorated(kind: K) -> K:
        for name in names:
            is_read, refusal = getattr(kind, name, None), _refusal(name)
            made = is_read.setter(refusal) if isinstance(is_read, property) else refusal
            setattr(kind, name, made)
        return kind

    return decorated
