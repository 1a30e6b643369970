"""A stand-in for an array, that ends with the block it was lent for.

Law
---
1. Behaves as the array: attributes, items, operators, ufuncs, `np.asarray`, ``isinstance``.
2. After `end` any use raises `ClosedError`; what was taken out of it before stays valid.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from _multitables.errors import ClosedError

#: Names of the special methods that are the array's; Python looks them up on the class.
_UNARY = "neg pos abs invert int float complex index bool len iter str repr format copy deepcopy"
_BINARY = (
    "add sub mul matmul truediv floordiv mod divmod pow lshift rshift and xor or "
    "radd rsub rmul rmatmul rtruediv rfloordiv rmod rdivmod rpow rlshift rrshift rand rxor ror "
    "lt le eq ne gt ge getitem setitem delitem contains dir"
)
_IN_PLACE = "iadd isub imul imatmul itruediv ifloordiv imod ipow ilshift irshift iand ixor ior"


class Proxy:
    """Stands for the result of a request, inside the block of ``get_proxy``."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        object.__setattr__(self, "_array", array)

    @staticmethod
    def end(proxy: Proxy) -> None:
        """Let go of the array."""
        object.__setattr__(proxy, "_array", None)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:  # isinstance looks here too
        array = object.__getattribute__(self, "_array")
        return Proxy if array is None else type(array)

    def __getattr__(self, name: str) -> Any:
        return getattr(_array_of(self), name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(_array_of(self), name, value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = np.asarray(_array_of(self), dtype)
        return array.copy() if copy and array is _array_of(self) else array

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        given = {name: _unwrapped(value) for name, value in kwargs.items()}
        return getattr(ufunc, method)(*map(_unwrapped, inputs), **given)

    __hash__ = None  # type: ignore[assignment]  # an array has none either


def _array_of(proxy: Any) -> Any:
    array = object.__getattribute__(proxy, "_array")
    if array is None:
        _ended()
    return array


def _ended() -> NoReturn:
    raise ClosedError(
        "the proxy of a result was used after the end of its block",
        good="Views and copies that were taken out of it are good",
        advice="Use it inside `with request.get_proxy() as rows:`, or get a copy with get()",
    )


def _unwrapped(value: Any) -> Any:
    if type(value) is Proxy:
        return _array_of(value)
    return tuple(map(_unwrapped, value)) if type(value) is tuple else value


def _forwarded(name: str) -> Callable[..., Any]:
    def forward(self: Proxy, *values: Any) -> Any:
        return getattr(_array_of(self), name)(*map(_unwrapped, values))

    forward.__name__ = name
    return forward


def _in_place(name: str) -> Callable[..., Any]:
    def forward(self: Proxy, other: Any) -> Any:
        getattr(_array_of(self), name)(_unwrapped(other))
        return self

    forward.__name__ = name
    return forward


for _name in (*_UNARY.split(), *_BINARY.split()):
    setattr(Proxy, f"__{_name}__", _forwarded(f"__{_name}__"))
for _name in _IN_PLACE.split():
    setattr(Proxy, f"__{_name}__", _in_place(f"__{_name}__"))
