"""The sockets, descriptors, pools and rings of ranks and hosts, as values of the stage.

Law
---
1. What the library's own code calls acts on the stage (node_stage.py), and is counted there.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from node_stage import HOST_PID, STAGE, USER, Index, Paused, Run, next_call
from node_world import Label, Memory

from _multitables.errors import ReaderDiedError
from _multitables.parent.node import (
    host,
    host_link,
    kernel_view,
    meeting,
    messages,
    shared_readers,
)

PIDFD = 100


class RankSocket:
    def __init__(self, label: Label, run: Run) -> None:
        self.label, self.run = label, run
        self._is_open = True
        run.copies += 1

    def fileno(self) -> int:
        return 3

    def close(self) -> None:
        if self._is_open and not self.run.is_paused:
            self._is_open = False
            close_copy(self)


def close_copy(connection: RankSocket) -> None:
    connection.run.copies -= 1
    if not connection.run.copies:
        connection.run.call("close", connection.label)


class RankListener:
    def __init__(self, run: Run) -> None:
        self._run = run

    def __enter__(self) -> RankListener:
        return self

    def __exit__(self, *_: object) -> None:
        if not self._run.started:
            self._run.call("stop listening")
        self._run.started = False


def running() -> Run:
    assert STAGE.run is not None
    return STAGE.run


def connected(_name: str) -> RankSocket | None:
    run = running()
    label = run.call("connect")
    return label and RankSocket(label, run)


def listening(_name: str, _backlog: int) -> RankListener | None:
    run = running()
    return RankListener(run) if run.call("listen") else None


def start_alone(*_: object) -> None:
    run = running()
    run.started = bool(run.call("start host"))


# ---- the host


class HostSocket(NamedTuple):
    """The host's end of a connection."""

    label: Label

    def fileno(self) -> int:
        of = STAGE.world.connections.get(self.label)
        return 3 if of is not None and of.host_open else -1

    def close(self) -> None:
        STAGE.do("close_host", self.label)


class HostListener(NamedTuple):
    def accept(self) -> tuple[HostSocket, None]:
        return HostSocket(STAGE.do("accept")), None

    def close(self) -> None:
        STAGE.do("close_listener")


class Key(NamedTuple):
    """An entry of the selector: a socket, and the handler to call when it is ready."""

    fileobj: Any
    fd: Any
    data: Callable[[], None]


class Selector:
    """Says what the walk has chosen, once."""

    def __init__(self) -> None:
        self._keys: dict[Any, Key] = {}

    def __repr__(self) -> str:
        return repr(sorted(map(repr, self._keys)))

    def register(self, of: Any, _events: int, data: Callable[[], None]) -> None:
        assert of not in self._keys
        self._keys[of] = Key(of, of, data)

    def unregister(self, of: Any) -> None:
        del self._keys[of]

    def get_map(self) -> dict[Any, Key]:
        return self._keys

    def close(self) -> None:
        self._keys.clear()

    def select(self, _timeout: float) -> list[tuple[Key, int]]:
        chosen, STAGE.events = STAGE.events, None
        if chosen is None:
            raise Paused
        STAGE.now += STAGE.passes
        return [(self._keys[of], 1) for of in chosen]


@dataclass
class Pool:
    """Counts the readers that are away."""

    is_shared: bool
    timeout: float | None

    def take(self, _count: int) -> Pool:
        if STAGE.pool_fails:
            raise ReaderDiedError("no reader can be started")
        STAGE.served.n_taken += 1
        return self

    def assign(self, _ring: Ring) -> None:
        pass

    def watch(self) -> None:
        return None

    def give_back(self) -> Callable[[Pool, bool], None]:
        def give_back(_readers: Pool, _sound: bool) -> None:
            STAGE.served.n_taken -= 1

        return give_back

    def close(self) -> None:
        assert not STAGE.served.n_taken, "readers are away"


# ---- what both have


def held() -> list[Any]:
    return STAGE.served.held if STAGE.run is None else STAGE.run.held


class Ring:
    """A ring by its descriptors, which it owns."""

    def __init__(self, *owned: Memory) -> None:
        self.owned, self.is_stopped, self._tie = owned, False, None
        self.left: set[int] = set()

    def __repr__(self) -> str:
        return f"{self.owned} {self.is_stopped} {sorted(self.left)}"

    @classmethod
    def attached(cls, plan: Held, ring: Held, *_of_rank: object) -> Ring:
        close_all([plan, ring])
        made = cls(plan.memory, ring.memory)
        if STAGE.run is None:
            STAGE.served.rings.append(made)
        return made

    def descriptors(self) -> tuple[Memory, ...]:
        return self.owned

    def leave(self, number: int) -> None:
        assert not self.is_stopped
        self.left.add(number)

    def stop(self) -> None:
        self.is_stopped = True

    def keep_open(self, tie: RankSocket) -> None:
        self._tie = tie

    def give_back(self) -> None:
        """Give all blocks back, and what they keep open."""
        tie, self._tie = self._tie, None
        if tie is not None:
            close_copy(tie)


def copy(of: RankSocket) -> RankSocket:
    of.run.copies += 1
    return of


def close(descriptor: Any) -> None:
    held().remove(descriptor)


class Held:
    """Memory that a process holds until it closes it, or hands it over."""

    def __init__(self, memory: Memory) -> None:
        self.memory, self.is_open = memory, True
        held().append(memory)

    def __repr__(self) -> str:
        return repr(self.memory)

    def fileno(self) -> Memory:
        return self.memory

    def close(self) -> None:
        if self.is_open:
            self.is_open = False
            close(self.memory)


def content(of: Held) -> Any:
    assert of.is_open
    return of.memory.data


def close_all(descriptors: list[Held]) -> list[Held]:
    while descriptors:
        descriptors.pop().close()
    return descriptors


def send(
    to: RankSocket | HostSocket, message: dict[str, Any], memory: Any = (), ring: Any = ()
) -> None:
    descriptors = (*ring, *(one.memory for one in memory))
    if isinstance(to, RankSocket):
        to.run.call("send", to.label, json.dumps(message), descriptors)
        return
    if not STAGE.world.connections[to.label].rank_open:
        raise BrokenPipeError
    STAGE.do("give_rank", to.label, (json.dumps(message), descriptors))


def receive(of: RankSocket | HostSocket) -> tuple[dict[str, Any] | None, list[Held]]:
    if isinstance(of, RankSocket):
        taken = of.run.call("receive", of.label)
    else:
        taken = STAGE.do("take_from_rank", of.label)
    if taken is None:
        raise ConnectionResetError
    message, descriptors = taken
    return json.loads(message), list(map(Held, descriptors))


def began(pid: int) -> float | None:
    return STAGE.world.processes[pid].began


def watched(pid: int) -> int | None:
    STAGE.served.held.append(PIDFD + pid)
    return PIDFD + pid


def peer(of: RankSocket | HostSocket) -> tuple[int, int]:
    return (HOST_PID if isinstance(of, RankSocket) else of.label.process), USER


def put_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the library's code act on the stage."""
    named: dict[Any, dict[str, Any]] = {
        meeting: {"connected": connected, "listening": listening},
        messages: {
            "send": send,
            "receive": receive,
            "close": close_all,
            "content": content,
            "sealed_bytes": lambda *_: 1,
        },
        kernel_view: {
            "began": began,
            "watched": watched,
            "peer": peer,
            "now": lambda: 0.0,
            "TICK_SECONDS": 0.1,
        },
        host: {
            "os": SimpleNamespace(close=close, geteuid=lambda: USER, getpid=lambda: HOST_PID),
            "socket": SimpleNamespace(socket=(HostSocket, HostListener)),
            "selectors": SimpleNamespace(PollSelector=Selector, EVENT_READ=1),
            "time": SimpleNamespace(monotonic=lambda: STAGE.now),
            "ReaderPool": Pool,
            "_core": SimpleNamespace(Ring=Ring),
        },
        host_link: {
            "os": SimpleNamespace(fstat=lambda of: of, geteuid=lambda: USER),
            "Descriptor": SimpleNamespace(copy_of=lambda _: copy_of_link()),
            "time": SimpleNamespace(monotonic=lambda: 0.0, sleep=lambda _: running().call("sleep")),
            "agreed": lambda _, use: use,
            "start_alone": start_alone,
            "_can_be_read": lambda *_: True,
        },
        shared_readers: {
            "_made": Counter(),
            "Opened": Index,
            "_core": SimpleNamespace(Ring=Ring),
            "Descriptor": SimpleNamespace(holding=lambda data: Held(Memory(data))),
            "plans": SimpleNamespace(
                encode=lambda _, value, *__: value,
                decode=lambda data, *_: data,
                of_opened=lambda opened: (opened.data,),
                opened_of=lambda given, _: Index(*given),
            ),
            "encoded_plan": lambda plan, _: plan,
            "made_ring": made_ring,
            "views_of": lambda _: (),
            "RingBlocks": lambda ring, readers, plan, *_: (ring, readers, plan),
            "StreamQueue": lambda blocks: blocks,
        },
    }
    for module, names in named.items():
        for name, value in names.items():
            monkeypatch.setattr(module, name, value)
    next_call.cache_clear()  # the code may be another one now


def copy_of_link() -> Any:
    shared = running().shared
    assert shared is not None
    return copy(shared._link._socket)


def made_ring(plan: str, *_: object, consumer: int) -> Ring:
    return Ring(Memory(f"table of {plan}"), Memory(f"ring of {consumer}"))
