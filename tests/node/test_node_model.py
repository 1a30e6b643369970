"""Ranks of a node and their host in every order of their steps, with a fault at any of these.

1. No process waits for ever: those present can end without time, another fault, or a late rank.
2. One rank at a time opens or plans, a dead one is replaced, and all ranks of a host get the same.
3. A rank ends with an error only if the fault concerns it, and the error is a named one.
4. The host ends after the last rank. No descriptor, ring or reader is left on either side.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from node_fakes import put_in_place
from node_model import Case, Walk, WrongError, case
from node_world import Process

from _multitables.parent.node import messages
from _multitables.parent.node.host import Host

BOTH, IN = "opens streams", "all are in"
CASES = {
    "one, and any fault": case(
        1, BOTH, interrupt=1, time=1, no_readers=1, failed_plan=1, another_thread_closes=1
    ),
    "two meet, one dies": case(2, "opens", death=1),
    "two, one dies": case(2, BOTH, before=IN, death=1),
    "two, both die": case(2, "opens", before=IN, death=2),
    "two, one is interrupted": case(2, BOTH, before=IN, interrupt=1),
    "two, one is closed": case(2, BOTH, before=IN, another_thread_closes=1),
    "two, one or both cannot plan": case(2, BOTH, before=IN, failed_plan=2),
    "two, no reader can be started": case(2, "streams", before=IN, no_readers=1),
    "two, and much time": case(2, BOTH, before=IN, time=1),
    "two, one of them late": case(2, "opens", late=1, time=1),
    "one comes twice, one dies": case(1, "opens", Process(0, None), death=1),
    "one comes again after it has left": case(2, "opens", Process(0, None), before="one has left"),
    "three": case(3, "opens", before=IN),
}
#: Those that take longer.
MORE = {
    "three, one dies": case(3, "streams", before=IN, death=1),
    "three meet": case(3, "opens"),
    "two meet, one comes twice": case(2, "opens", Process(1, None)),
    "two meet, one is interrupted": case(2, "opens", interrupt=1),
}


@pytest.fixture(autouse=True)
def stage(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    put_in_place(monkeypatch)
    gc.disable()  # it would take half of the time
    yield
    gc.enable()


@pytest.mark.parametrize("name", CASES)
def test_every_order(name: str) -> None:
    walked = Walk(CASES[name]).all()
    assert any(outcome and outcome[0] == "value" for outcome in walked.outcomes)


@pytest.mark.hang(600)
@pytest.mark.parametrize("name", MORE)
def test_every_order_of_more(name: str, request: pytest.FixtureRequest) -> None:
    if request.config.getoption("--examples") == 1:
        pytest.skip("it takes a minute: pytest --examples 10")
    Walk(MORE[name]).all()


def nothing(*_: Any) -> None:
    """Do nothing."""


def always_plan(served: Host, number: int, at: int) -> None:
    served._send(served._ranks[number], {"plan": at})


SMALL, ONE_DIES = case(2, "opens", before=IN), case(2, "opens", before=IN, death=1)
WAITS = "a rank waits for ever"
BUGS: dict[str, tuple[Any, str, Callable[..., None], Case, str]] = {
    "a planner's death is forgotten": (Host, "_leave", nothing, ONE_DIES, WAITS),
    "those who wait are forgotten": (Host, "_tell", nothing, SMALL, WAITS),
    "all plan": (Host, "_ask", always_plan, SMALL, "plan at a time|two plans"),
    "ends are not seen": (
        Host, "_leave_here", nothing, case(2, "opens", late=1), "the host stays for ever"
    ),
    "descriptors are left": (messages, "close", nothing, SMALL, "descriptors are left"),
}  # fmt: skip


@pytest.mark.parametrize("bug", BUGS)
def test_bugs_are_seen(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    of, name, instead, small, what = BUGS[bug]
    monkeypatch.setattr(of, name, instead)
    with pytest.raises(WrongError, match=what):
        Walk(small).all()
