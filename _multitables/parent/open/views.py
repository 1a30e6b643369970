"""Views of a dataset that change what reading it gives: other types, text, some of the fields.

Law
---
1. A view is a dataset and how it is read; it reads nothing before it is indexed, and is pickled as
   these two.
2. It knows nothing of a dataset but what is public.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from numpy.typing import DTypeLike

from _multitables.elements.empty import Empty
from _multitables.errors import MissingFieldError
from _multitables.parent.open.conversion import converted, decoded
from _multitables.select.h5py_grammar import names_and_items


class Readable(Protocol):
    """What is asked of a dataset."""

    @property
    def dtype(self) -> np.dtype[Any]: ...
    @property
    def shape(self) -> Any: ...
    @property
    def ndim(self) -> int: ...
    @property
    def size(self) -> int | None: ...
    def __len__(self) -> int: ...
    def __getitem__(self, key: Any) -> Any: ...


class View:
    """A dataset that is read in another way."""

    def __init__(self, dataset: Readable) -> None:
        self._dataset = dataset

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what is read."""
        return self._dataset.dtype

    @property
    def ndim(self) -> int:
        """How many axes the dataset has."""
        return self._dataset.ndim

    @property
    def shape(self) -> Any:
        """The dataset's extents."""
        return self._dataset.shape

    @property
    def size(self) -> int | None:
        """How many elements the dataset has."""
        return self._dataset.size

    def __len__(self) -> int:
        return len(self._dataset)

    def __getitem__(self, key: Any) -> Any:
        raise NotImplementedError

    def __array__(
        self, dtype: DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        if copy is False:
            raise ValueError("an array of a dataset is always a copy (got copy=False)")
        found = self[()]
        if not isinstance(found, np.ndarray):
            found = np.array(found, self.dtype)
        return found if dtype is None else converted(found, np.dtype(dtype))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self._dataset!r}: dtype {self.dtype}>"


class AsTypeView(View):
    """A dataset whose elements are converted; made by `Dataset.astype`."""

    def __init__(self, dataset: Readable, dtype: np.dtype[Any]) -> None:
        super().__init__(dataset)
        self._dtype = dtype

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what is read."""
        return self._dtype

    def __getitem__(self, key: Any) -> Any:
        found = self._dataset[key]
        names, _ = names_and_items(key)
        dtype = self._dtype
        if isinstance(names, str):
            dtype = dtype[names]
        elif names is not None:
            dtype = np.dtype([(name, dtype[name]) for name in names])
        if isinstance(found, Empty):
            return Empty(dtype)
        if isinstance(found, np.ndarray):
            return converted(found, dtype.base)
        one = np.empty((), self._dataset.dtype if names is None else np.asarray(found).dtype)
        one[()] = found
        return converted(one, dtype)[()]


class AsStrView(View):
    """A dataset whose strings are read as str; made by `Dataset.asstr`."""

    def __init__(self, dataset: Readable, encoding: str, errors: str) -> None:
        super().__init__(dataset)
        #: How the bytes are decoded, as `bytes.decode` takes it.
        self.encoding = encoding
        self.errors = errors

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what is read: object."""
        return np.dtype(object)

    def __getitem__(self, key: Any) -> Any:
        return decoded(self._dataset[key], self.encoding, self.errors)


class FieldsView(View):
    """Some fields of a dataset; made by `Dataset.fields`.

    Raises
    ------
    ValueError
        The dataset has no fields, or not these (`MissingFieldError`).
    """

    def __init__(self, dataset: Readable, names: str | Iterable[str], dtype: np.dtype[Any]) -> None:
        super().__init__(dataset)
        self._names = names if isinstance(names, str) else list(names)
        if dtype.names is None:
            raise ValueError("only a compound dataset has fields")
        if isinstance(names, str):
            self._dtype = _field(dtype, names)
        else:
            self._dtype = np.dtype([(name, _field(dtype, name)) for name in self._names])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what is read."""
        return self._dtype

    def __getitem__(self, key: Any) -> Any:
        return self._dataset[(self._names, *(key if isinstance(key, tuple) else (key,)))]


def _field(dtype: np.dtype[Any], name: str) -> np.dtype[Any]:
    if name not in (dtype.names or ()):
        known = ", ".join(map(repr, dtype.names or ()))
        raise MissingFieldError(f"no field {name!r} (expected {known})")
    return dtype[name]
