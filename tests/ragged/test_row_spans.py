"""What says where ragged rows lie: offsets, starts, ends, lengths and pairs, of files and arrays.

1. Each kind gives the rows that were written, in every order; the oracle are slices of the data.
2. Numbers that leave elements out or contradict the data are refused by name.
"""

from __future__ import annotations

import copy
import itertools
import pickle
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from plans import plain_index
from ragged_files import ends_of, lengths, same_rows

import multitables
from _multitables.plan.row_spans import SPANS_OF, Numbers, row_spans
from _multitables.tree import NUMBERS
from multitables import CorruptFileError, OptionsError, Ragged, Streamer

KINDS = [tuple(sorted(kinds)) for kinds in NUMBERS]
N_ROWS = 90


def numbers_of(begins: np.ndarray, ends: np.ndarray) -> dict[str, np.ndarray]:
    """What each kind says of rows, in unsigned numbers as NeXus and NWB have them."""
    offsets = np.append(begins, ends[-1:]) if len(begins) else np.zeros(1, int)
    each = {"offsets": offsets, "starts": begins, "ends": ends, "lengths": ends - begins}
    return {kind: numbers.astype("u8") for kind, numbers in each.items()}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[np.ndarray]]:
    """Rows that follow each other, beside rows in any order with gaps, and labels."""
    path = tmp_path_factory.mktemp("spans") / "a.h5"
    offsets = ends_of(lengths(N_ROWS))
    data = np.arange(offsets[-1]) * 7
    with h5py.File(path, "w") as made:
        made.create_dataset("data", data=data, chunks=(64,), compression="gzip")
        for kind, numbers in numbers_of(offsets[:-1], offsets[1:]).items():
            made.create_dataset(kind, data=numbers, chunks=(16,))
        made["label"] = np.arange(N_ROWS)
    return path, np.split(data, offsets[1:-1])


def test_kinds_are_those_of_the_face() -> None:
    assert set(map(frozenset, NUMBERS)) == set(SPANS_OF)


@pytest.mark.parametrize("kinds", KINDS)
@pytest.mark.parametrize("given_as", ["path", "array", "list"])
def test_every_kind(
    file: tuple[Path, list[np.ndarray]], kinds: tuple[str, ...], given_as: str
) -> None:
    path, rows = file
    with h5py.File(path) as source:
        arrays = {kind: source[kind][()] for kind in kinds}
    given: dict[str, Any] = {
        "path": {kind: f"/{kind}" for kind in kinds},
        "array": arrays,
        "list": {kind: array.tolist() for kind, array in arrays.items()},
    }[given_as]
    pair = pickle.loads(pickle.dumps(Ragged("/data", **given)))
    for kind in kinds:
        if given_as == "array":
            arrays[kind][:] = 0  # the copy must not change
    same_rows(list(Streamer(path).get_generator(pair, 1)), rows)
    for shuffle in ("window", "full"):
        seen: list[int] = []
        for rank in range(2):
            with Streamer(path).get_batches(
                (pair, "/label"), 8, n_procs=1, shuffle=shuffle, rank=rank, world_size=2
            ) as batches:
                for block, label in batches:
                    same_rows(block.rows(), [rows[at] for at in label])
                    seen += label.tolist()
        assert sorted(seen) == list(range(N_ROWS))


@pytest.mark.parametrize("shuffle", [None, "full"])
def test_rows_that_lie_anywhere(tmp_path: Path, shuffle: str | None) -> None:
    """Pairs in any order, with gaps, and elements that several rows have."""
    random = np.random.default_rng(5)
    starts = random.integers(0, 900, 200)
    each = random.integers(0, 100, 200)
    data = random.random((1000, 2))
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made.create_dataset("data", data=data, chunks=(30, 2))
        made["starts"], made["lengths"] = starts, each
    expected = [data[begin : begin + n] for begin, n in zip(starts, each, strict=True)]
    pairs = [
        Ragged("/data", starts="/starts", lengths="/lengths", gaps=True),
        Ragged("/data", starts="/starts", ends=starts + each, gaps=True),
    ]

    def made_of(pair: Ragged) -> Any:
        streamer = Streamer(tmp_path / "a.h5")
        return streamer.get_batches(pair, 16, n_procs=2, shuffle=shuffle, epochs=2)

    for pair in pairs:
        with made_of(pair) as batches:
            order = np.concatenate([batches.order(0), batches.order(1)])
            got = [block.copy() for block in batches]
        same_rows([row for block in got for row in block], [expected[at] for at in order])
        with made_of(pair) as batches:
            first = [block.copy() for block in itertools.islice(iter(batches), 7)]
            state = batches.state_dict()
        with made_of(pair) as batches:
            batches.load_state_dict(copy.deepcopy(state))
            again = first + [block.copy() for block in batches]
        same_rows([row for block in again for row in block], [expected[at] for at in order])


@given(
    st.lists(st.integers(0, 5), max_size=8),
    st.sampled_from(KINDS),
    st.integers(0, 2),
    st.integers(0, 2),
    st.booleans(),
)
def test_no_element_is_lost(
    each: list[int], kinds: tuple[str, ...], before: int, behind: int, gaps: bool
) -> None:
    """Rows begin behind `before` elements, and `behind` ones follow them."""
    offsets = np.concatenate([[before], np.array(each, int)]).cumsum()
    n_elements = int(offsets[-1]) + behind
    numbers = numbers_of(offsets[:-1], offsets[1:])
    named = {kind: Numbers(kind, numbers[kind], None) for kind in kinds}
    # What these kinds say of the rows.
    begins, ends = offsets[:-1].copy(), offsets[1:].copy()
    if kinds in (("ends",), ("lengths",)):
        begins[:1] = 0
    if kinds == ("lengths",):
        begins, ends = begins - before * (begins > 0), ends - before
    if kinds == ("starts",):
        ends[-1:] = n_elements
    if kinds == ("offsets",):
        assume(len(each))
    covered = set(itertools.chain(*map(range, begins, ends)))
    values = plain_index(n_elements)
    if gaps or covered == set(range(n_elements)):
        spans = row_spans(named, values, gaps)
        assert (spans.begins.tolist(), spans.ends.tolist()) == (begins.tolist(), ends.tolist())
        assert spans.n_elements == (ends - begins).sum()
        return
    lost = n_elements - len(covered)
    first = min(set(range(n_elements)) - covered)
    text = f"{lost} of {n_elements} elements .* belong to no row, first element {first} "
    with pytest.raises(OptionsError, match=text):
        row_spans(named, values, gaps)


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"offsets": [0, 3, 5, 9]}, "1 of 10 elements .* first element 9 .*got 3 rows"),  # NeXus
        ({"offsets": [2, 5, 10]}, "2 of 10 elements .* first element 0 "),
        ({"offsets": []}, "10 of 10 elements"),
        ({"starts": [1, 5]}, "1 of 10 elements"),
        ({"ends": [1, 5]}, "5 of 10 elements"),
        ({"lengths": [1, 5]}, "4 of 10 elements"),
        ({"starts": [4, 0], "ends": [10, 2]}, "2 of 10 elements .* first element 2 "),
        ({"starts": [0, 4], "lengths": [4, 2]}, "starts of .* and lengths of '/lengths' in"),
    ],
)
def test_what_would_be_lost_is_refused(
    tmp_path: Path, numbers: dict[str, list[int]], says: str
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["data"] = np.arange(10)
        for kind, each in numbers.items():
            made[kind] = np.array(each, "i4")
    streamer = Streamer(tmp_path / "a.h5")
    for named in ({kind: f"/{kind}" for kind in numbers}, numbers):
        if named is numbers and "starts of" in says:
            continue
        pair = Ragged("/data", **named)
        with pytest.raises(OptionsError, match=f"{says}.*gaps=True"):
            streamer.get_queue(pair, 1)
        with pytest.raises(OptionsError, match=says):
            next(iter(streamer.get_batches({"a": pair}, 2, n_procs=1)))
        allowed = Ragged("/data", gaps=True, **named)
        spans = row_spans(
            {kind: Numbers(kind, np.array(each, int), None) for kind, each in numbers.items()},
            plain_index(10),
            gaps=True,
        )
        expected = [np.arange(a, b) for a, b in zip(spans.begins, spans.ends, strict=True)]
        same_rows(list(streamer.get_generator(allowed, 1)), expected)


@pytest.mark.parametrize(
    ("numbers", "says"),
    [
        ({"starts": [0, 11]}, "start 1 of .* lies beyond the elements .*at most 10, got 11"),
        ({"starts": [0, 5, 4]}, "start 2 of .* less than the one before it .*at least 5, got 4"),
        ({"ends": [3, -1]}, "end 1 of .* is negative .*at least 0, got -1"),
        ({"lengths": [2, -2]}, "length 1 of .* is negative"),
        ({"lengths": [9, 2]}, "length 1 of .* ends its row beyond .*at most 10, got 11"),
        ({"lengths": [2, 2**62]}, "length 1 of .* beyond the elements"),
        ({"starts": [3, 9], "ends": [5, 8]}, "end 1 of .* before the start .*at least 9, got 8"),
        ({"starts": [3, 9], "lengths": [5, 2]}, "length 1 of .*beyond .*at most 10, got 11"),
    ],
)
def test_what_contradicts_the_data(
    tmp_path: Path, numbers: dict[str, list[int]], says: str
) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["data"] = np.arange(10)
        for kind, each in numbers.items():
            made[kind] = np.array(each)
    streamer = Streamer(tmp_path / "a.h5")
    with pytest.raises(CorruptFileError, match=says):
        streamer.get_queue(Ragged("/data", **{kind: kind for kind in numbers}), 1)
    with pytest.raises(OptionsError, match=says):
        streamer.get_queue(Ragged("/data", **numbers), 1)


def test_starts_and_ends_of_other_rows(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["data"], made["starts"] = np.arange(10), [0, 4]
    for numbers in ({"ends": [4, 8, 10]}, {"lengths": [10]}):
        pair = Ragged("/data", starts="/starts", **numbers)
        with pytest.raises(OptionsError, match=r"differ in number \(expected 2 "):
            Streamer(tmp_path / "a.h5").get_queue(pair, 1)


@pytest.mark.parametrize("name", ["offsets", "starts", "ends", "lengths"])
@pytest.mark.parametrize(
    "wrong",
    [
        3,
        [0.0, 1.0],
        [[0, 1]],
        ["a"],
        [True, False],
        b"/x",
        Path("/x"),
        object(),
        [2**70, 1],
        [[1], 2],
    ],
)
def test_what_are_no_whole_numbers(name: str, wrong: Any) -> None:
    with pytest.raises(OptionsError, match=f"{name} must be the path of a dataset, or whole"):
        Ragged("/x", **{name: wrong})


def test_what_a_pair_is_made_of() -> None:
    for wrong in ({}, {"offsets": "/a", "ends": "/b"}, {"ends": [1], "lengths": np.ones(1, int)}):
        with pytest.raises(OptionsError, match="starts with ends or lengths, got "):
            Ragged("/x", **wrong)
    for values in ([], np.arange(3), ["/a", 3]):
        with pytest.raises(OptionsError, match="path must be"):
            Ragged(values, "/a")
    with pytest.raises(OptionsError, match="made of a str"):
        Ragged("/x", "/a", indices=np.arange(3))


def test_no_rows_at_all(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["data"] = np.zeros(0)
        for kind in ("starts", "ends", "lengths", "offsets"):
            made[kind] = np.zeros(0, int)
    streamer = Streamer(tmp_path / "a.h5")
    for kinds in KINDS:
        for pair in (
            Ragged("/data", **{kind: kind for kind in kinds}),
            Ragged("/data", **{kind: [] for kind in kinds}),
        ):
            assert list(streamer.get_queue(pair, 1, remainder=True)) == []
            assert list(streamer.get_batches({"a": pair}, 4, n_procs=1, shuffle="full")) == []
            assert streamer.get_remainder(pair, 4).rows() == []


def test_small_numbers_of_much_data(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["data"], made["ends"] = np.arange(300), np.array([3, 255], "u1")
    with pytest.raises(OptionsError, match="45 of 300 elements"):
        Streamer(tmp_path / "a.h5").get_queue(Ragged("/data", ends="/ends"), 1)


def test_a_handle_is_an_array_of_numbers(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.h5", "w") as made:
        made["data"], made["starts"] = np.arange(6), [0, 4]
    with multitables.open(tmp_path / "a.h5") as opened:
        pair = Ragged("/data", starts=opened["starts"])
    got = [row.tolist() for row in Streamer(tmp_path / "a.h5").get_generator(pair, 1)]
    assert got == [[0, 1, 2, 3], [4, 5]]
