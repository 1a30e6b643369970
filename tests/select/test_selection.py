"""Selections against NumPy, by the thousand: no file, no process.

Law
---
1. The oracle is NumPy on the whole array, step after step (selection_oracle.py).
2. What is refused is refused for a reason: NumPy refuses it too, or PyTables' grammar of one step.
3. Every example of the reader's documentation is here by name.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from elements import values
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from keys import a_key
from selection_oracle import INNER, ROW, agrees, indexed, info, step_by_step

from _multitables.errors import MissingFieldError
from _multitables.select.normalize import (
    LibraryCall,
    Native,
    Refused,
    check_first,
    library_call,
    normalize,
    whole_rows,
)
from _multitables.select.selection import DatasetInfo, FieldNames, Selection

# ---- by the thousand ----------------------------------------------------------------------


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
    max_examples=500,
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
                found = normalize(selection)
                assert isinstance(found, Refused)
                assert found.kind is IndexError
                return
        wrong: Exception | None = None
        try:
            current = indexed(current, key)
        except (IndexError, ValueError) as error:
            wrong = error
        if wrong is not None:  # refused for the same reason, or a library will
            found = normalize(selection)
            assert isinstance(found, (Refused, LibraryCall))
            assert isinstance(found, LibraryCall) or isinstance(wrong, found.kind)
            return
    agrees(array, dataset, selection, current)


# ---- by name ------------------------------------------------------------------------------

TABLE = values(ROW, (40,))
CUBE = values(np.dtype("<i4"), (20, 12, 7))
MASK_AB = np.array([[True, False], [False, True], [True, True]])
CUBE_MASK = values(np.dtype("?"), CUBE.shape)
MASK_INNER = np.arange(12) % 3 == 0
ROWS_MASK = np.arange(20) % 7 == 1

#: What is written -> (the dataset, the steps that NumPy is given, the form it takes).
EXAMPLES: dict[str, tuple[np.ndarray, Any, tuple[Any, ...], str]] = {
    "d[30:35]": (TABLE, lambda d: d[30:35], (slice(30, 35),), "Native"),
    "d['b'][30:35]": (TABLE, lambda d: d["b"][30:35], ("b", slice(30, 35)), "Native"),
    "d[30:35]['b']": (TABLE, lambda d: d[30:35]["b"], (slice(30, 35), "b"), "Native"),
    "d.col('b')[30:35, ..., :100]": (
        TABLE,
        lambda d: d.col("b")[30:35, ..., :100],
        ("b", np.s_[30:35, ..., :100]),
        "Native",
    ),
    "d[[1, 2, 3]]": (TABLE, lambda d: d[[1, 2, 3]], ([1, 2, 3],), "Native"),
    "d[0]['a']": (TABLE, lambda d: d[0]["a"], (0, "a"), "Native"),
    "d['b'][30:35, mask]": (
        TABLE,
        lambda d: d["b"][30:35, MASK_AB],
        ("b", (slice(30, 35), MASK_AB)),
        "Native",
    ),
    "a[4:16:2, ...]": (CUBE, lambda d: d[4:16:2, ...], (np.s_[4:16:2, ...],), "Native"),
    "a[..., :105]": (CUBE, lambda d: d[..., :105], (np.s_[..., :105],), "Native"),
    "a[mask_nd]": (CUBE, lambda d: d[CUBE_MASK], (CUBE_MASK,), "Native"),
    "a[[1,2,3],[1,2,3],[1,2,3]]": (
        CUBE,
        lambda d: d[[1, 2, 3], [1, 2, 3], [1, 2, 3]],
        (([1, 2, 3], [1, 2, 3], [1, 2, 3]),),
        "Native",
    ),
    "a[:][:, mask]": (
        CUBE,
        lambda d: d[:][:, MASK_INNER],
        (slice(None), (slice(None), MASK_INNER)),
        "Native",
    ),
    "d[30:35][2]['b']": (TABLE, lambda d: d[30:35][2]["b"], (slice(30, 35), 2, "b"), "Native"),
    "d['n/y'][3]": (TABLE, lambda d: d["n/y"][3], ("n", "y", 3), "Native"),
    "d['n']['y'][3, 1]": (TABLE, lambda d: d["n"]["y"][3, 1], ("n", "y", (3, 1)), "Native"),
    "d['m']['y'][:, 1]": (TABLE, lambda d: d["m"]["y"][:, 1], ("m", "y", np.s_[:, 1]), "Native"),
    "d['s/t'][-1]": (TABLE, lambda d: d["s/t"][-1], ("s/t", -1), "Native"),
    "d[5][0]": (TABLE, lambda d: d[5][0], (5, 0), "Native"),
    "d[...]": (TABLE, lambda d: d[...], (), "Native"),
    "d[5:5]": (TABLE, lambda d: d[5:5], (slice(5, 5),), "Native"),
    "d[::-1]": (TABLE, lambda d: d[::-1], (slice(None, None, -1),), "Native"),
    "d[np.int64(-3)]": (TABLE, lambda d: d[np.int64(-3)], (-3,), "Native"),
    "d[[3, 1, 1, -1]]": (TABLE, lambda d: d[[3, 1, 1, -1]], ([3, 1, 1, -1],), "Native"),
    "d[[]]": (TABLE, lambda d: d[[]], ([],), "Native"),
    "d[mask]": (TABLE, lambda d: d[TABLE["a"] > 0], (TABLE["a"] > 0,), "Native"),
    "a[mask of rows]": (CUBE, lambda d: d[ROWS_MASK], (ROWS_MASK,), "Native"),
    "a[mask of rows, 3]": (CUBE, lambda d: d[ROWS_MASK, 3], ((ROWS_MASK, 3),), "Native"),
    "a[:, mask]": (CUBE, lambda d: d[:, MASK_INNER], ((slice(None), MASK_INNER),), "Native"),
    "d[['a', 'b']][3:5]": (
        TABLE,
        lambda d: d[["a", "b"]][3:5],
        (FieldNames(["a", "b"]), slice(3, 5)),
        "LibraryCall",
    ),
    "d.read(3, 9, 2, 'b')": (TABLE, lambda d: d.read(3, 9, 2, "b"), ("b", np.s_[3:9:2]), "Native"),
    "d.read(3)": (TABLE, lambda d: d.read(3), (np.s_[3:],), "Native"),
    "a.read(3)": (CUBE, lambda d: d.read(3), (np.s_[3:4],), "Native"),
    "a.read(-3)": (CUBE, lambda d: d.read(-3), (np.s_[17:18],), "Native"),
    "a.read(-30)": (CUBE, lambda d: d.read(-30), (np.s_[0:0],), "Native"),
    "d.read_coordinates([3, 1], 'a')": (
        TABLE,
        lambda d: d.read_coordinates([3, 1], "a"),
        ("a", [3, 1]),
        "Native",
    ),
    "a[1, :, [1, 2]] is transposed": (
        CUBE,
        lambda d: d[1, :, [1, 2]],
        (np.s_[1, :, [1, 2]],),
        "Native",
    ),
    "a[:][None, 2:4, np.newaxis]": (
        CUBE,
        lambda d: d[:][None, 2:4, None],
        (slice(None), np.s_[None, 2:4, None]),
        "Native",
    ),
    "a[:][None][[0, 0]]": (
        CUBE,
        lambda d: d[:][None][[0, 0]],
        (slice(None), None, [0, 0]),
        "LibraryCall",
    ),
    "a[[1, 1, 2]]": (CUBE, lambda d: d[[1, 1, 2]], ([1, 1, 2],), "Native"),
    "a[:, [2, 0]]": (CUBE, lambda d: d[:, [2, 0]], (np.s_[:, [2, 0]],), "Native"),
    "a[:][True]": (CUBE, lambda d: d[:][True], (slice(None), True), "LibraryCall"),
    "a[:][[[0, 1], [2, 3]]][0]": (
        CUBE,
        lambda d: d[:][[[0, 1], [2, 3]]][0],
        (slice(None), np.array([[0, 1], [2, 3]]), 0),
        "LibraryCall",
    ),
}


@pytest.mark.parametrize("written", EXAMPLES)
def test_examples(written: str) -> None:
    array, write, steps, form = EXAMPLES[written]
    dataset = info(array)
    steps = tuple(np.array(s, int) if isinstance(s, list) else s for s in steps)
    assert agrees(array, dataset, write(Selection(dataset)), step_by_step(array, steps)) == form


#: What is written -> the exception at get().
WRONG: dict[str, tuple[np.ndarray, Any, type[Exception]]] = {
    "a mask of two axes beside a slice": (CUBE, lambda d: d[:, CUBE_MASK[0]], IndexError),
    "a mask of two axes before more": (CUBE, lambda d: d[CUBE_MASK[:, :, 0], 3], IndexError),
    "a mask of another length": (CUBE, lambda d: d[np.ones(19, bool)], IndexError),
    "masks that do not go together": (CUBE, lambda d: d[ROWS_MASK, MASK_INNER], IndexError),
    "a mask of another shape": (CUBE, lambda d: d[np.ones((20, 12, 6), bool)], IndexError),
    "two lists beside a slice": (CUBE, lambda d: d[[1, 2], [1, 2], :], IndexError),
    "two lists and no more": (CUBE, lambda d: d[[1, 2], [1, 2]], IndexError),
    "lists of other lengths": (CUBE, lambda d: d[[1, 2], [1], [1, 2]], IndexError),
    "lists that do not go together": (CUBE, lambda d: d[[1, 2], [1, 2, 3], [1, 2]], IndexError),
    "a list of lists": (CUBE, lambda d: d[[[1, 2], [3, 4]]], IndexError),
    "None": (CUBE, lambda d: d[None], IndexError),
    "a boolean": (CUBE, lambda d: d[True], IndexError),
    "a float": (CUBE, lambda d: d[1.5], IndexError),
    "floats": (CUBE, lambda d: d[[1.5, 2.0]], IndexError),
    "uneven lists": (CUBE, lambda d: d[[[1, 2], [3]]], IndexError),
    "a set": (CUBE, lambda d: d[{1, 2}], IndexError),
    "too many": (CUBE, lambda d: d[1, 2, 3, 4], IndexError),
    "two ellipses": (CUBE, lambda d: d[..., 1, ...], IndexError),
    "out of range": (CUBE, lambda d: d[20], IndexError),
    "out of range below": (CUBE, lambda d: d[-21], IndexError),
    "out of range inside": (CUBE, lambda d: d[1, 12], IndexError),
    "a list out of range": (CUBE, lambda d: d[[1, 20]], IndexError),
    "a second index out of range": (CUBE, lambda d: d[2:4][2], IndexError),
    "a step of nothing": (CUBE, lambda d: d[::0], ValueError),
    "a slice of text": (CUBE, lambda d: d["a":"b"], TypeError),
    "a column of an array": (CUBE, lambda d: d["a"], IndexError),
    "read behind the end": (CUBE, lambda d: d.read(20), IndexError),
    "a column that is not there": (TABLE, lambda d: d["zz"], KeyError),
    "the same, as 2.x named it": (TABLE, lambda d: d[3:5]["zz"], NameError),
    "a nested one": (TABLE, lambda d: d.col("n/zz"), MissingFieldError),
    "one of many": (TABLE, lambda d: d[["a", "zz"]], KeyError),
    "read of such a column": (TABLE, lambda d: d.read(field="zz"), KeyError),
    "coordinates of such a column": (TABLE, lambda d: d.read_coordinates([1], "zz"), KeyError),
    "a column of a column": (TABLE, lambda d: d["a"]["b"], IndexError),
    "rows and more": (TABLE, lambda d: d[1:3, 2], IndexError),
    "coordinates in two dimensions": (TABLE, lambda d: d.read_coordinates([[1]]), IndexError),
    "coordinates out of range": (TABLE, lambda d: d.read_coordinates([40]), IndexError),
    "a number of a number": (TABLE, lambda d: d["a"][3][0], IndexError),
    "where, and such a column": (TABLE, lambda d: d.where("a > 3")["zz"], KeyError),
    "too many behind where": (TABLE, lambda d: d.where("a > 3")[0]["zz"], KeyError),
    "a field by a number": (TABLE, lambda d: d[3][5], IndexError),
}


@pytest.mark.parametrize("written", WRONG)
def test_refused(written: str) -> None:
    array, write, kind = WRONG[written]
    selection = write(Selection(info(array)))
    found = normalize(selection)
    assert isinstance(found, Refused)
    assert issubclass(found.kind, kind)
    assert "'/x'" in found.text
    assert whole_rows(selection) is None


def test_a_bare_ellipsis_takes_no_index() -> None:
    selection = Selection(info(CUBE))[...]
    with pytest.raises(IndexError, match="single Ellipsis"):
        selection[3]
    assert Selection(info(CUBE))[..., 3][0].steps == ((Ellipsis, 3), 0)


def test_what_is_changed_later_changes_no_selection() -> None:
    rows, mask, limit = np.array([3, 1]), TABLE["a"] > 0, np.array([5])
    dataset = Selection(info(TABLE))
    made = [dataset[rows], dataset[mask], dataset["b"][:, mask[:3]], dataset.read_coordinates(rows)]
    where = dataset.where("a > limit", {"limit": limit, "name": "ab"})
    rows[:], mask[:], limit[:] = 0, False, 0
    for selection, want in zip(
        made,
        (TABLE[[3, 1]], TABLE[TABLE["a"] > 0], TABLE["b"][:, TABLE["a"][:3] > 0], TABLE[[3, 1]]),
        strict=True,
    ):
        agrees(TABLE, selection.dataset, selection, want)
    call = normalize(where)
    assert isinstance(call, LibraryCall)
    assert call.arguments["condvars"]["limit"] == 5
    assert call.arguments["condvars"]["name"] == b"ab"


def test_a_selection_is_no_array() -> None:
    dataset = Selection(info(TABLE))
    with pytest.raises(TypeError, match="description"):
        list(dataset[3:5])
    with pytest.raises(TypeError, match="only the dataset"):
        dataset[3:5].read(3)
    assert repr(dataset["b"][3:5]) == "<selection of '/x': ['b'][slice(3, 5, None)]>"
    assert "Read" in repr(dataset.read(3))


@pytest.mark.parametrize(
    ("write", "want"),
    [
        (lambda d: d[3], ("", 3, 1, 1, True)),
        (lambda d: d[...], ("", 0, 1, 40, False)),
        (lambda d: d["b"][...], ("b", 0, 1, 40, False)),
        (lambda d: d[-1], ("", 39, 1, 1, True)),
        (lambda d: d[np.int64(5)], ("", 5, 1, 1, True)),
        (lambda d: d[30:35], ("", 30, 1, 5, False)),
        (lambda d: d[::-2], ("", 39, -2, 20, False)),
        (lambda d: d["b"][3], ("b", 3, 1, 1, True)),
        (lambda d: d[3]["b"], ("b", 3, 1, 1, True)),
        (lambda d: d[38:50]["b"], ("b", 38, 1, 2, False)),
        (lambda d: d[40], None),
        (lambda d: d["zz"][3], None),
        (lambda d: d[::0], None),
        (lambda d: d["n/x"][3], None),
        (lambda d: d[[1, 2]], None),
        (lambda d: d["b"][3, 0], None),
        (lambda d: d["b"], None),
        (lambda d: d[True], None),
        (lambda d: d.read(3, 5), None),
    ],
)
def test_the_shortest_way_for_whole_rows(write: Any, want: Any) -> None:
    assert whole_rows(write(Selection(info(TABLE)))) == want


def test_methods_of_tables() -> None:
    dataset = Selection(info(TABLE))
    call = normalize(dataset.read_sorted("a", True, "b", 1, 5, 2)[:, 0])
    assert isinstance(call, LibraryCall)
    assert call.method == "read_sorted"
    assert call.arguments == {"sortby": "a", "check_csi": True, "start": 1, "stop": 5, "step": 2}
    assert call.steps == ("b", (slice(None), 0))
    assert call.dtype == np.dtype(">i2")
    call = normalize(dataset.where("a > 3", start=1)[0])
    assert isinstance(call, LibraryCall)
    assert call.dtype == ROW
    call = normalize(dataset.where("a > 3")[0][0])
    assert isinstance(call, LibraryCall)
    assert call.dtype == np.dtype("<i4")


def test_many_elements_in_another_order_go_through_a_library() -> None:
    dataset = DatasetInfo("a.h5", "/x", "array", (2000, 3, 2000), np.dtype("i4"), 3)
    form = normalize(Selection(dataset)[:][:, [1, 2], [1, 2]])
    assert isinstance(form, Native)
    assert form.hyperslab.k == 3
    transposed = Selection(dataset)[:][[0, 1], :, np.arange(2)]
    assert isinstance(normalize(transposed), Native)
    lists = Selection(dataset)[:][:, np.zeros(2000, int), np.arange(2000)]
    assert isinstance(normalize(lists), LibraryCall)


def test_a_path_that_could_be_a_name() -> None:
    dtype = np.dtype([("a", [("b", "<i2"), ("b/c", "<i2")]), ("a/b", "<i4"), ("d", INNER)])
    array = values(dtype, (6,))
    dataset = Selection(info(array))
    for names, form in ((("a/b",), "Native"), (("a", "b"), "LibraryCall"), (("d", "x"), "Native")):
        selection, want = dataset, array
        for name in names:
            selection, want = selection[name], want[name]
        assert agrees(array, selection.dataset, selection[1:3], want[1:3]) == form


def test_ragged_rows() -> None:
    dataset = DatasetInfo("a.h5", "/v", "vlarray", (5,), np.dtype("<i4"), 1, atom_shape=(2,))
    whole = Selection(dataset)
    for selection, ragged in (
        (whole[3], False),
        (whole[1:3], True),
        (whole[[1, 3]], True),
        (whole[...], True),
        (whole.read(1), True),
        (whole[1:3][0], False),
        (whole[1:3][:1], True),
        (whole[-1][:, 0], False),
        (whole[np.array([True, False, True, False, True])], True),
    ):
        call = normalize(selection)
        assert isinstance(call, LibraryCall)
        assert call.ragged == ragged
        assert call.dtype == (np.uint8 if ragged else np.dtype("<i4"))
        assert library_call(selection).steps == call.steps
        assert whole_rows(selection) is None
    for wrong in (whole["a"], whole[5], whole[[5]], whole[1, 2], whole[1:3][[0]], whole[1:3][2]):
        found = normalize(wrong)
        assert isinstance(found, Refused)
        assert found.kind is IndexError


@pytest.mark.parametrize("n_rows", [0, 1, 5])
@pytest.mark.parametrize("start", [None, -(2**70), -2, 0, 3, 2**70])
@pytest.mark.parametrize("step", [None, -(2**70), -2, 1, 2**70])
def test_numbers_of_whole_rows_fit_the_core(
    n_rows: int, start: int | None, step: int | None
) -> None:
    dataset = DatasetInfo("a.h5", "/x", "array", (n_rows,), np.dtype("<i4"), 1)
    found = whole_rows(Selection(dataset)[start::step])
    assert found is not None
    _, first, apart, count, _ = found
    assert 0 <= first <= max(0, n_rows - 1)
    assert abs(apart) < 2**63
    want = np.arange(n_rows)[start::step]
    np.testing.assert_array_equal(first + apart * np.arange(count), want)
