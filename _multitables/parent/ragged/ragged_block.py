"""Rows of different lengths: their elements one after the other, and where each row ends.

Law
---
1. A value: flat arrays and offsets, which begin with 0 and end with the arrays' length. Nothing is
   copied to make one, or to give its arrays to another library that can take them as they are.
2. Each library is imported by the method that is named for it, and by nothing else.

This file must never know files, readers or streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from _multitables.errors import OptionsError, public
from _multitables.parent.arrow import arrow_array, text_array
from _multitables.parent.libraries import imported
from _multitables.parent.notebook import InNotebooks
from _multitables.tree import map_arrays, native

Array = npt.NDArray[Any]

LAYOUTS = (None, "jagged", "sparse_csr")


@public
@dataclass(frozen=True, eq=False)
class RaggedBlock(InNotebooks):
    """Rows of different lengths; what streams and batches of ragged data deliver.

    Row ``i`` has the elements ``offsets[i]:offsets[i + 1]``. A block can be indexed with a row's
    number, with a slice without a step, which gives a block of the same memory, or with an array of
    numbers or of bool, which copies these rows.

    Attributes
    ----------
    values : numpy.ndarray, or tuple or dict of them
        The elements of all rows, one after the other; several arrays have one element each for
        each position. Of strings, their bytes.
    offsets : numpy.ndarray of int64
        Where rows begin and end: one more than there are rows. The first is 0.
    indices : numpy.ndarray or None
        Of the rows of a sparse matrix, the column of each element.
    n_columns : int or None
        Columns of the sparse matrix.
    is_text : bool
        Rows are strings of any length, as UTF-8.

    Examples
    --------
    >>> import numpy as np
    >>> block = multitables.RaggedBlock(np.array([1, 2, 3]), np.array([0, 2, 2, 3]))
    >>> block.rows()
    [array([1, 2]), array([], dtype=int64), array([3])]
    """

    values: Any
    offsets: npt.NDArray[np.int64]
    indices: Array | None = None
    n_columns: int | None = None
    is_text: bool = False

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        kinds: list[str] = []
        map_arrays(lambda array: kinds.append(str(array.dtype)), self.values)
        kind = "text" if self.is_text else ", ".join(kinds)
        return f"<RaggedBlock: {len(self)} rows, {int(self.offsets[-1])} elements of {kind}>"

    def __getitem__(self, key: int | slice | Array) -> Any:
        """Return a row, the block of a slice of rows, or a copy of the rows of these numbers."""
        if isinstance(key, np.ndarray) and key.ndim == 1:
            return self._chosen(np.arange(len(self))[key])
        if not isinstance(key, slice):
            number = range(len(self))[key]
            return self._row(*self.offsets[number : number + 2].tolist())
        begin, end, step = key.indices(len(self))
        if step != 1:
            raise IndexError(f"a block is sliced without a step, got {step}")
        offsets = self.offsets[begin : max(begin, end) + 1]
        low, high = int(offsets[0]), int(offsets[-1])
        values = map_arrays(lambda array: array[low:high], self.values)
        indices = None if self.indices is None else self.indices[low:high]
        return RaggedBlock(values, offsets - low, indices, self.n_columns, self.is_text)

    def _chosen(self, rows: npt.NDArray[np.int64]) -> RaggedBlock:
        """Return a copy of some rows."""
        lengths = np.diff(self.offsets)[rows]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        at = np.arange(offsets[-1]) + np.repeat(self.offsets[rows] - offsets[:-1], lengths)
        values = map_arrays(lambda array: array[at], self.values)
        indices = None if self.indices is None else self.indices[at]
        return replace(self, values=values, offsets=offsets, indices=indices)

    def __iter__(self) -> Iterator[Any]:
        ends = self.offsets.tolist()
        return map(self._row, ends, ends[1:])

    def rows(self) -> list[Any]:
        """Return the rows, one by one.

        Returns
        -------
        list
            Views of the elements of each row; of strings, `bytes`, as h5py gives them; of a sparse
            matrix, tuples of values and column indices.
        """
        return list(self)

    def _row(self, begin: int, end: int) -> Any:
        if self.is_text:
            return self.values[begin:end].tobytes()
        values = map_arrays(lambda array: array[begin:end], self.values)
        return values if self.indices is None else (values, self.indices[begin:end])

    def copy(self) -> RaggedBlock:
        """Return a block with memory of its own."""
        return replace(
            self,
            values=map_arrays(np.copy, self.values),
            offsets=self.offsets.copy(),
            indices=None if self.indices is None else self.indices.copy(),
        )

    # ---- other libraries

    def to_arrow(self) -> Any:
        """Return the rows as an array of Arrow.

        Returns
        -------
        pyarrow.LargeListArray or pyarrow.LargeStringArray
            Lists of numbers, of structs where there are several arrays or columns of a sparse
            matrix, or strings.

        Raises
        ------
        MissingLibraryError
            pyarrow is not installed.
        UnsupportedDatasetError
            A dtype that Arrow does not have, or strings that are not UTF-8 (a `ValueError`).
        """
        if self.is_text:
            return text_array(self.offsets, self.values)
        elements = arrow_array(self._elements(), "values")
        pa = imported("pyarrow", "Arrow")
        kind, offsets = pa.large_list(elements.type), pa.py_buffer(self.offsets)
        return pa.Array.from_buffers(kind, len(self), [None, offsets], children=[elements])

    def to_awkward(self) -> Any:
        """Return the rows as an array of Awkward Array.

        Returns
        -------
        awkward.Array
            Lists of numbers; of records where there are several arrays, or strings.

        Raises
        ------
        MissingLibraryError
            awkward is not installed.
        """
        ak = imported("awkward", "an array of Awkward Array")
        content, parameters = _awkward_content(ak, self._elements()), None
        if self.is_text:
            content = ak.contents.NumpyArray(self.values, parameters={"__array__": "char"})
            parameters = {"__array__": "string"}
        offsets = ak.index.Index64(self.offsets)
        return ak.Array(ak.contents.ListOffsetArray(offsets, content, parameters=parameters))

    def to_torch(self, layout: str | None = None) -> Any:
        """Return the rows as a tensor of PyTorch.

        Parameters
        ----------
        layout : {None, "jagged", "sparse_csr"}, optional
            A jagged nested tensor, or a sparse matrix. Default: a sparse matrix where the block has
            column indices, a nested tensor otherwise.

        Returns
        -------
        torch.Tensor

        Raises
        ------
        MissingLibraryError
            PyTorch is not installed.
        OptionsError
            The block has no such form.
        """
        if layout not in LAYOUTS:
            raise _no_form(
                f"unknown layout: expected None, 'jagged' or 'sparse_csr', got {layout!r}"
            )
        torch = imported("torch", "a tensor")
        if layout == "jagged" or (layout is None and self.indices is None):
            values = torch.from_numpy(native(self._plain("a nested tensor")))
            offsets = torch.from_numpy(self.offsets)
            return torch.nested.nested_tensor_from_jagged(values, offsets)
        values, indices, shape = self._matrix()
        return torch.sparse_csr_tensor(
            torch.from_numpy(self._like(indices)),
            torch.from_numpy(indices),
            torch.from_numpy(values),
            size=shape,
            check_invariants=False,  # `_matrix` has looked at the columns
        )

    def to_scipy(self) -> Any:
        """Return the rows of a sparse matrix as SciPy has them.

        Returns
        -------
        scipy.sparse.csr_array
            Of the block's own values and column indices; only offsets may be copied.

        Raises
        ------
        MissingLibraryError
            SciPy is not installed.
        OptionsError
            The block has no column indices, or their number is not known or exceeded.
        """
        sparse = imported("scipy.sparse", "a sparse matrix")
        values, indices, shape = self._matrix()
        matrix = sparse.csr_array(shape, dtype=values.dtype)
        # Its constructor would copy indices of another integer type than it likes.
        matrix.data, matrix.indices, matrix.indptr = values, indices, self._like(indices)
        return matrix

    def _elements(self) -> Any:
        """Return all arrays of elements: one, a tuple or a dict."""
        if self.indices is None:
            return self.values
        values = self.values if isinstance(self.values, dict) else {"values": self.values}
        return {**values, "indices": self.indices}

    def _plain(self, what: str) -> Array:
        if self.is_text or isinstance(self.values, (tuple, dict)):
            kind = "strings" if self.is_text else "several arrays of values"
            raise _no_form(f"{what} is made of one array of numbers (got {kind})")
        array: Array = self.values
        return array

    def _matrix(self) -> tuple[Array, Array, tuple[int, int]]:
        values = native(self._plain("a sparse matrix"))
        if self.indices is None or self.n_columns is None:
            missing = "column indices" if self.indices is None else "number of columns"
            raise _no_form(
                f"a sparse matrix needs its {missing}",
                "Name them: multitables.Ragged(values, offsets, indices=..., n_columns=...)",
            )
        indices = native(self.indices)
        # What is computed with a column that is not there is a crash.
        if len(indices) and (indices.min() < 0 or indices.max() >= self.n_columns):
            raise OptionsError(
                f"a column index lies outside the matrix: expected 0 to {self.n_columns - 1}, got "
                f"{indices.min()} to {indices.max()}",
                advice="Give the n_columns that the matrix has; if it has, the file is damaged",
                option="n_columns",
                expected=self.n_columns,
                got=int(indices.max()),
            )
        return values, indices, (len(self), self.n_columns)

    def _like(self, indices: Array) -> Array:
        """Return the offsets in the integer type of the column indices, if they fit it."""
        if indices.dtype.itemsize < 8 and int(self.offsets[-1]) <= np.iinfo(indices.dtype).max:
            return self.offsets.astype(indices.dtype)
        return self.offsets


def _awkward_content(ak: Any, elements: Any) -> Any:
    if isinstance(elements, tuple):
        parts = [_awkward_content(ak, array) for array in elements]
        return ak.contents.RecordArray(parts, None)
    if isinstance(elements, dict):
        parts = [_awkward_content(ak, array) for array in elements.values()]
        return ak.contents.RecordArray(parts, [str(name) for name in elements])
    if elements.dtype.names:
        return _awkward_content(ak, {name: elements[name] for name in elements.dtype.names})
    return ak.contents.NumpyArray(native(elements))


def _no_form(happened: str, advice: str = "Take the rows in another form") -> OptionsError:
    return OptionsError(happened, advice=advice, option="layout")
