"""The code of ranks and hosts on a stage: sockets, descriptors, pools and rings are values there.

Law
---
1. What is called through the fakes is the library's own code. A rank is the results of its calls so
   far: with these it runs again from the beginning, up to the next call. A host is its object.
2. What is open is counted on both sides, and nothing may be left at the end.
3. It decides nothing: the walk does (node_model.py).
"""

from __future__ import annotations

import errno
import functools
import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
from node_world import CLOSES, Label, Memory, Raises, World

from _multitables.errors import MultitablesError, OptionsError, ReaderDiedError
from _multitables.parent.node import (
    host,
    host_link,
    kernel_view,
    meeting,
    messages,
    shared_readers,
)
from _multitables.parent.node.place import NodePlace

USER, HOST_PID, PIDFD = 1000, 99, 100


class Index(NamedTuple):
    """What was opened, and by which rank."""

    data: Any
    indexes: tuple[Any, ...] = ()
    structure: Any = SimpleNamespace(keys=())


ERRORS: dict[str, Callable[[], BaseException]] = {
    "interrupt": KeyboardInterrupt,
    "failed plan": lambda: OptionsError("no such dataset", option="path"),
    "no other end": BrokenPipeError,
}


@dataclass
class Served:
    """A host, the descriptors and rings that it has, and how often readers of it are away."""

    host: host.Host
    held: list[Any] = field(default_factory=list)
    rings: list[Ring] = field(default_factory=list)
    n_taken: int = 0

    def key(self) -> str:
        """Say all that it is."""
        of_host = {
            name: sorted(map(repr, of)) if isinstance(of, set) else of
            for name, of in vars(self.host).items()
        }
        return repr((of_host, self.held, self.rings, self.n_taken))

    def check_end(self) -> None:
        assert not self.held, f"the host leaves descriptors: {self.held}"
        assert not self.n_taken, "readers are away"
        assert all(ring.is_stopped for ring in self.rings), "a ring goes on"


class Stage:
    """Where the fakes find what they act on."""

    world: World
    run: Run | None = None
    served: Served
    #: What a host's next look finds, once; what it did to the world.
    events: list[Any] | None = None
    effects: list[tuple[Any, ...]]
    #: The host's time, and how much of it passes while it looks.
    now, passes = 0.0, 0.0
    pool_fails = False

    def do(self, name: str, *arguments: Any) -> Any:
        """Let the host do something to the world."""
        self.effects.append((name, *arguments))
        return getattr(self.world, name)(*arguments)


STAGE = Stage()


class Paused(BaseException):
    """The code has come to a call of which there is no result yet."""


# ---- a rank


class Run:
    """One run of a rank's code with the results of its calls so far."""

    def __init__(self, process: int, number: int, count: int, history: tuple[Any, ...]) -> None:
        self.process, self._history, self._at = process, history, 0
        self.place = NodePlace(number, count)
        self.pending: tuple[Any, ...] = ()
        self.is_paused = False
        #: Memory that it holds; the copies of its connection.
        self.held: list[Any] = []
        self.copies = 0
        self.started = False
        self.shared: shared_readers.SharedReaders | None = None

    def call(self, name: str, *arguments: Any) -> Any:
        if self.is_paused:
            raise Paused
        while self._at < len(self._history):
            result = self._history[self._at]
            self._at += 1
            if result == CLOSES:
                if self.shared is not None:
                    self.shared.close()
                if name in ("send", "receive") and not self.copies:
                    raise OSError(errno.EBADF, "it is closed")
                continue
            if isinstance(result, Raises):
                raise ERRORS[result.why]()
            return result
        self.pending, self.is_paused = (name, *arguments), True
        raise Paused

    def follow(self, does: str) -> None:
        STAGE.run = self
        outcome: Any
        try:
            outcome = "value", open_and_stream(self, does)
        except Paused:
            return
        except (MultitablesError, KeyboardInterrupt) as error:
            outcome = "error", f"{type(error).__name__}: {error}"
        finally:
            STAGE.run = None
            self.is_paused = True
        assert not self.held, f"descriptors are left: {self.held}"
        assert not self.copies, "the connection is left"
        self.pending = ("end", outcome)


def open_and_stream(run: Run, does: str) -> Any:
    """Open, and take a stream, which is given back after all was closed; or one of both."""
    run.shared = shared_readers.SharedReaders(run.place, "x", None)
    opened, plan, ring = Index(""), None, None
    try:
        if "opens" in does:
            opened = run.shared.opened(b"", None, lambda: Index(run.call("plan")))
        if "streams" in does:
            planned = run.shared.start(1, b"", opened, lambda: (run.call("plan"), 64, "others"))
            (ring, readers, plan), _ = planned
            readers.leave(True)
    finally:
        run.shared.close()
        if ring is not None:
            ring.give_back()
    return opened.data, plan


@functools.cache
def next_call(
    process: int, number: int, count: int, does: str, history: tuple[Any, ...]
) -> tuple[Any, ...]:
    """Return the call to which a rank comes after these results, or its end."""
    run = Run(process, number, count, history)
    run.follow(does)
    return run.pending


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
            "sealed_bytes": lambda _: 1,
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
            "StreamQueue": lambda ring, readers, plan, *_: (ring, readers, plan),
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
