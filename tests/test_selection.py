"""Selections against NumPy, by the thousand: no file, no process.

Law
---
1. The oracle is NumPy on the whole array, step after step. A hyperslab is applied by the tests' own
   naive reading of it, a library call by NumPy.
2. What is refused is refused for a reason: NumPy refuses it too, or PyTables' grammar of one step.
3. Every example of the reader's documentation is here by name.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from elements import values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from oracle import same

from _multitables.errors import MissingFieldError
from _multitables.hyperslab import Hyperslab
from _multitables.normal_form import (
    LibraryCall,
    Native,
    Refused,
    check_first,
    library_call,
    normalise,
    whole_rows,
)
from _multitables.selection import DatasetInfo, FieldNames, Selection
from _multitables.view import Range

INNER = np.dtype([("x", "<i2"), ("y", "<f4", (2,))])
ROW = np.dtype(
    [("a", "<i4"), ("b", ">i2", (3, 2)), ("n", INNER), ("m", INNER, (2,)), ("s/t", "S3")]
)


def info(array: np.ndarray, kind: str = "", n_dims: int | None = None) -> DatasetInfo:
    kind = kind or ("table" if array.ndim == 1 and array.dtype.names else "array")
    n_dims = array.ndim if n_dims is None else n_dims
    return DatasetInfo("a.h5", "/x", kind, array.shape, array.dtype, n_dims)


def applied(array: np.ndarray, slab: Hyperslab, n_dims: int) -> bytes:
    """What a hyperslab takes of a dataset, element by element."""
    field = array
    rest = slab.field
    while rest:
        names = field.dtype.names or ()
        name, _, after = rest.partition("/")
        name, after = (rest, "") if rest in names else (name, after)
        field, rest = field[name], after
    dims = array.shape[:n_dims]
    bytes_each = math.prod(field.shape[n_dims:]) * field.dtype.itemsize
    stored = np.frombuffer(field.tobytes(), np.uint8).reshape(*dims, bytes_each)
    stored = stored.reshape(math.prod(dims[: slab.k]), *dims[slab.k :], bytes_each)
    stored = stored[slab.points] if slab.k else stored[0]
    assert len(slab.axes) == n_dims - slab.k
    for at, indices in enumerate(slab.axes, start=1 if slab.k else 0):
        if isinstance(indices, Range):
            start, step, count = indices
            places = np.array([start + step * i for i in range(count)], np.int64)
        else:
            places = indices
        assert ((places >= 0) & (places < stored.shape[at])).all()
        stored = stored.take(places, at)
    if slab.runs:
        assert sum(length for _, length in slab.runs) == slab.element_bytes
        parts = [stored[..., start : start + length] for start, length in slab.runs]
        stored = np.concatenate(parts, axis=-1)
    assert stored.shape[-1] == slab.element_bytes
    return stored.tobytes()


def indexed(array: Any, key: Any) -> Any:
    """`array[key]` with the array's own byte order, also of a scalar; rows stay NumPy's voids."""
    if isinstance(key, str):
        while key not in array.dtype.names:
            first, _, key = key.partition("/")
            array = array[first]
    got = array[list(key) if isinstance(key, FieldNames) else key]
    if isinstance(got, (np.ndarray, np.void)):
        return got
    return np.array(got, array.dtype[key] if isinstance(key, str) else array.dtype)


def step_by_step(array: Any, steps: tuple[Any, ...]) -> Any:
    for step in steps:
        array = indexed(array, step)
    return array


def through_library(array: np.ndarray, call: LibraryCall) -> Any:
    assert call.method == "getitem"
    steps = (*call.arguments["fields"], call.arguments["key"], *call.steps)
    return step_by_step(array, steps)


def agrees(array: np.ndarray, dataset: DatasetInfo, selection: Selection, want: Any) -> str:
    """The normal form gives what NumPy gave; returns which form it is."""
    want = np.asarray(want)
    found = normalise(selection)
    assert not isinstance(found, Refused), found.text
    if isinstance(found, Native):
        slab = found.hyperslab
        assert slab.n_bytes == want.nbytes
        got = np.frombuffer(applied(array, slab, dataset.n_dims), slab.dtype)
        same(got.reshape(slab.shape), want)
    call = library_call(selection)
    got = np.asarray(through_library(array, call))
    assert call.dtype == want.dtype
    assert call.shape in (None, want.shape)
    same(got, want)
    return type(found).__name__


# ---- by the thousand ----------------------------------------------------------------------


@st.composite
def a_slice(draw: st.DrawFn, length: int) -> slice:
    bound = st.none() | st.integers(-length - 2, length + 2)
    return slice(draw(bound), draw(bound), draw(st.sampled_from([None, 1, 2, 3, -1, -2])))


@st.composite
def a_list(draw: st.DrawFn, length: int, size: int | None = None) -> Any:
    if length == 0:
        return []
    low, high = (0, 4) if size is None else (size, size)
    numbers = draw(st.lists(st.integers(-length, length - 1), min_size=low, max_size=high))
    kinds = [list, np.array]
    return numbers if not numbers else draw(st.sampled_from(kinds))(numbers)


@st.composite
def a_mask(draw: st.DrawFn, shape: tuple[int, ...]) -> np.ndarray:
    return np.random.default_rng(draw(st.integers(0, 9))).random(shape) < draw(
        st.sampled_from([0.0, 0.3, 1.0])
    )


@st.composite
def a_key(draw: st.DrawFn, shape: tuple[int, ...]) -> Any:
    """A key for an array of this shape, mostly one that NumPy takes."""
    if draw(st.integers(0, 9)) == 0:
        return draw(a_mask(shape))
    items: list[Any] = []
    at, size = 0, draw(st.integers(1, 3))
    how = draw(st.sampled_from(["basic", "basic", "list", "lists", "any"]))
    while at < len(shape) and draw(st.integers(0, 4)):
        length = shape[at]
        number = st.integers(-length - (how == "any"), max(0, length - 1))
        kinds: dict[str, list[st.SearchStrategy[Any]]] = {
            "basic": [number, number.map(np.int64), a_slice(length)],
            "list": [number, a_slice(length), a_list(length)],
            "lists": [a_list(length, size), a_slice(length), a_list(length, size)],
            "any": [number, a_list(length), st.just(None), a_mask(shape[at : at + 1])],
        }
        if how == "any" and length:
            kinds["any"].append(st.just(np.zeros((2, 1), int)))
        item = draw(st.one_of(kinds[how]))
        items.append(item)
        at += item is not None
    if draw(st.integers(0, 3)) == 0:
        items.insert(draw(st.integers(0, len(items))), Ellipsis)
    return items[0] if len(items) == 1 and draw(st.booleans()) else tuple(items)


@st.composite
def a_dataset(draw: st.DrawFn) -> tuple[np.ndarray, DatasetInfo]:
    dtype = draw(st.sampled_from([np.dtype("<i4"), np.dtype(">f8"), np.dtype("S3"), ROW, ROW]))
    least = 0 if draw(st.integers(0, 9)) == 0 else 1
    shape = tuple(draw(st.lists(st.integers(least, 5), min_size=1, max_size=3)))
    if dtype == ROW and draw(st.booleans()):
        shape = shape[:1]
    n_dims = draw(st.integers(1, len(shape)))
    array = values(dtype, shape)
    return array, info(array, n_dims=n_dims)


@settings(
    max_examples=1500,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(a_dataset(), st.data())
def test_whatever_numpy_gives(given_: tuple[np.ndarray, DatasetInfo], data: st.DataObject) -> None:
    array, dataset = given_
    selection, current = Selection(dataset), array
    for number in range(data.draw(st.integers(1, 3))):
        names = getattr(current, "dtype", np.dtype("i4")).names
        key: Any
        if names and data.draw(st.booleans()):
            key = data.draw(st.sampled_from([*names, list(names[:2])]))
        else:
            key = data.draw(a_key(np.shape(current)))
        if number and selection.steps[0] is Ellipsis:
            return
        selection = selection[key]
        first = selection.steps[0]
        if not number and not isinstance(first, (str, FieldNames)):
            try:
                check_first(first, dataset.shape)
            except IndexError:
                found = normalise(selection)
                assert isinstance(found, Refused)
                assert found.kind is IndexError
                return
        try:
            current = indexed(current, key)
        except (IndexError, ValueError) as error:
            found = normalise(selection)
            if isinstance(found, Refused):
                assert isinstance(error, found.kind)
            else:
                assert isinstance(found, LibraryCall)
            return
    agrees(array, dataset, selection, current)
