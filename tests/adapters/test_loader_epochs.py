"""Processes of loaders agree on the epoch of each pass, in whatever order they come.

1. What is recorded is told apart by process. Scripts fork, and not the tests' own process, whose
   libraries end threads at a fork and start them again in whatever test comes later.
2. Passes that are known from what was asked are the oracle; nothing is waited for.
"""

from __future__ import annotations

import copy
import os
import pickle
from collections import defaultdict
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import run_script

from _multitables.adapters import loader_epochs
from _multitables.adapters.loader_epochs import Pass, Passes


def begin(record: Passes, loader: int, part: int = 0, parts: int = 1, epochs: int = 1) -> Pass:
    return record.begin(loader, part, parts, epochs)


@pytest.fixture(autouse=True)
def in_loader(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let this process be the loader's, and its program at once."""
    monkeypatch.setattr(loader_epochs, "_program_of_loader", os.getpid)


def test_one_process_after_the_other() -> None:
    record = Passes(3)
    assert [begin(record, 1), begin(record, 1), begin(record, 2)] == [
        Pass(3, 0, True), Pass(4, 1, True), Pass(5, 2, True),
    ]  # fmt: skip
    assert (record.next, record.begun) == (6, 3)


def test_epochs_of_a_pass() -> None:
    record = Passes(0)
    assert [begin(record, 1, epochs=epochs).epoch for epochs in (2, 3, 0, 0, 1)] == [0, 2, 5, 5, 5]
    assert record.next == 6


def test_what_is_told_is_for_passes_that_begin_then() -> None:
    record = Passes(0)
    assert begin(record, 1, 0, 2).epoch == 0
    record.tell(7)
    assert begin(record, 1, 1, 2) == Pass(0, 0, False)
    assert begin(record, 1, 1, 2) == Pass(7, 1, True)
    record.ends_before(20)
    assert begin(record, 1, 0, 2) == Pass(7, 1, False)
    assert begin(record, 1, 0, 2) == Pass(20, 2, True)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_all_processes_of_a_loader_agree(data: st.DataObject) -> None:
    """Loaders of up to three processes, which come to their passes in any order."""
    record, sizes = Passes(0), data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3))
    comers = [(loader, part) for loader, size in enumerate(sizes) for part in range(size)]
    found: dict[tuple[int, int], list[int]] = defaultdict(list)
    for loader, part in data.draw(st.lists(st.sampled_from(comers), max_size=30)):
        found[loader, part].append(begin(record, loader, part, sizes[loader]).epoch)
    epochs = []
    for loader, size in enumerate(sizes):
        theirs = [found[loader, part] for part in range(size)]
        most = max(theirs, key=len)
        assert all(some == most[: len(some)] for some in theirs)
        epochs += most
    assert sorted(epochs) == list(range(record.next))


def test_passes_to_which_nobody_came_are_forgotten() -> None:
    record = Passes(0)
    for loader in range(3 * loader_epochs.MAX_OPEN):
        begin(record, loader, 0, 2)
    assert begin(record, 0, 1, 2).is_first
    last = 3 * loader_epochs.MAX_OPEN - 1
    assert begin(record, last, 1, 2) == Pass(last, last, False)


@pytest.mark.parametrize("way", [lambda one: pickle.loads(pickle.dumps(one)), copy.deepcopy])
def test_copies_count_on_by_themselves(way: Any) -> None:
    record = Passes(2)
    begin(record, 1)
    other = way(record)
    assert [begin(other, 1), begin(other, 1)] == [Pass(3, 1, True), Pass(4, 2, True)]
    assert begin(record, 1).epoch == 3


FORKED = """
import os, pickle
from _multitables.adapters import loader_epochs
from _multitables.adapters.loader_epochs import Pass, Passes

loader_epochs._program_of_loader = os.getpid  # unless a test says otherwise

def forked(*programs):
    found = []
    for program in programs:
        receives, sends = os.pipe()
        if not os.fork():
            os.write(sends, pickle.dumps(program()))
            os._exit(0)
        os.close(sends)
        found.append(receives)
    answers = [pickle.load(open(receives, "rb")) for receives in found]
    while found:
        os.wait()
        found.pop()
    return answers
"""

AT_ONCE = """
loader_epochs._program_of_loader = os.getppid
record, wanted = Passes(5), list(range(5, 5 + loader_epochs.MAX_OPEN))

def hurrying(part):
    return lambda: [record.begin(9, part, 4, 1).epoch for _ in wanted]

assert forked(*map(hurrying, range(4))) == [wanted] * 4
assert record.next == wanted[-1] + 1
"""

FOR_THEMSELVES = """
record = Passes(0)
record.tell(4)
record.begin(1, 0, 2, 1)

def program():
    record.tell(record.next + 10)
    return [record.begin(1, part, 2, 1).epoch for part in (0, 0, 1)]

assert forked(program, program) == [[14, 15, 14]] * 2
assert record.begin(1, 1, 2, 1) == Pass(4, 0, False)
assert record.next == 5
"""

COUNTS_ON = """
record = Passes(0)
record.begin(1, 0, 1, 1)
record.tell(9)
assert record.begun == 1
assert forked(lambda: record.begin(1, 0, 1, 1)) == [Pass(9, 1, True)]
"""

FORGOTTEN = """
loader_epochs.MAX_PROGRAMS = 2
record = Passes(0)
for _ in range(4):
    assert forked(lambda: record.begin(1, 0, 1, 1).epoch) == [0]
assert len(os.pread(record._record, 1 << 16, 0)) < 200
"""


@pytest.mark.parametrize(
    "program",
    [AT_ONCE, FOR_THEMSELVES, COUNTS_ON, FORGOTTEN],
    ids=["at once", "each for itself", "a fork counts on", "who is gone is forgotten"],
)
def test_programs_and_processes(program: str) -> None:
    done = run_script(FORKED + program + "print('good')")
    assert done.stdout == "good\n", done.stderr
