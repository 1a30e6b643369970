"""What the ranks of a node and their host have between them, as a value that can be compared.

Law
---
1. A `State` is all that is left of the past: states that are equal have the same future.
2. It follows Linux: an end that is closed with something unread loses the other end's connection,
   and a process that waits at a socket is lost with the one that listens.
3. It knows no code of the library.
"""

from __future__ import annotations

from typing import Any, NamedTuple

HOST = -1
#: In place of a result: before the call, another thread closes.
CLOSES = "another thread closes"


class Memory(NamedTuple):
    """A descriptor of memory."""

    data: Any


class Raises(NamedTuple):
    """A call that failed."""

    why: str


class Label(NamedTuple):
    """A connection: of which process, and which one of it."""

    process: int
    number: int


Message = tuple[str, tuple[Any, ...]]


class Connection(NamedTuple):
    """Both ends, and the messages on their way to them."""

    to_host: tuple[Message, ...] = ()
    to_rank: tuple[Message, ...] = ()
    host_open: bool = True
    rank_open: bool = True
    #: The next call fails, as the other end was closed before it had read all.
    host_lost: bool = False
    rank_lost: bool = False


class Process(NamedTuple):
    """A rank's process."""

    number: int
    #: When it began; None: it comes late, or not at all.
    began: float | None = 0.0
    #: The results of its calls.
    history: tuple[Any, ...] = ()
    n_connections: int = 0
    plans: bool = False
    #: Which host let it in.
    host_number: int = 0
    outcome: Any = None
    #: It may end with an error.
    is_excused: bool = False

    @property
    def is_here(self) -> bool:
        return self.began is not None and self.outcome is None


class State(NamedTuple):
    """A world, to compare."""

    processes: tuple[Process, ...]
    #: How often each fault may still come.
    faults: tuple[tuple[str, int], ...]
    clock: float = 1.0
    connections: tuple[tuple[Label, Connection], ...] = ()
    #: The process that listens, and those that wait there.
    listens: int | None = None
    backlog: tuple[Label, ...] = ()
    #: The host, in bytes.
    host: bytes | None = None
    host_number: int = 0
    #: Any rank may end with an error.
    is_excused: bool = False
    #: What ranks got, by the number of their host.
    delivered: tuple[tuple[int, Any], ...] = ()


class World:
    """A state that changes."""

    def __init__(self, state: State) -> None:
        self.processes, self.faults = list(state.processes), dict(state.faults)
        self.clock, self.connections = state.clock, dict(state.connections)
        self.listens, self.backlog, self.host = state.listens, list(state.backlog), state.host
        self.host_number, self.is_excused = state.host_number, state.is_excused
        self.delivered = dict(state.delivered)

    def state(self) -> State:
        left = sorted(
            (label, of) for label, of in self.connections.items() if of.host_open or of.rank_open
        )
        return State(
            tuple(self.processes),
            tuple(self.faults.items()),
            self.clock,
            tuple(left),
            self.listens,
            tuple(self.backlog),
            self.host,
            self.host_number,
            self.is_excused,
            tuple(sorted(self.delivered.items())),
        )

    def change(self, process: int, **values: Any) -> None:
        self.processes[process] = self.processes[process]._replace(**values)

    # ---- a rank's end

    def connect(self, process: int) -> Label | None:
        if self.listens is None:
            return None
        label = Label(process, self.processes[process].n_connections)
        self.change(process, n_connections=label.number + 1)
        self.connections[label] = Connection()
        self.backlog.append(label)
        return label

    def give_host(self, label: Label, message: Message) -> bool:
        of = self.connections[label]
        if of.host_open:
            self.connections[label] = of._replace(to_host=(*of.to_host, message))
        return of.host_open

    def take_from_host(self, label: Label) -> Message | None:
        """Return what has come, or None: it is lost."""
        of = self.connections[label]
        if of.rank_lost:
            self.connections[label] = of._replace(rank_lost=False)
            return None
        self.connections[label] = of._replace(to_rank=of.to_rank[1:])
        return of.to_rank[0] if of.to_rank else ("null", ())

    def close_rank(self, label: Label) -> None:
        of = self.connections[label]
        if of.rank_open:
            lost = bool(of.to_rank)
            self.connections[label] = of._replace(rank_open=False, host_lost=lost, to_rank=())

    def end(self, process: int, outcome: Any) -> None:
        self.change(process, outcome=outcome, history=(), plans=False)
        for label in self.connections:
            if label.process == process:
                self.close_rank(label)
        if self.listens == process:
            self.close_listener()

    # ---- the host's end

    def accept(self) -> Label:
        return self.backlog.pop(0)

    def give_rank(self, label: Label, message: Message) -> None:
        of = self.connections[label]
        self.connections[label] = of._replace(to_rank=(*of.to_rank, message))

    def take_from_rank(self, label: Label) -> Message | None:
        of = self.connections[label]
        if of.host_lost:
            self.connections[label] = of._replace(host_lost=False)
            return None
        self.connections[label] = of._replace(to_host=of.to_host[1:])
        return of.to_host[0] if of.to_host else ("null", ())

    def close_host(self, label: Label, is_lost: bool = False) -> None:
        of = self.connections[label]
        if of.host_open:
            lost = is_lost or bool(of.to_host)
            self.connections[label] = of._replace(host_open=False, rank_lost=lost, to_host=())

    def close_listener(self) -> None:
        self.listens = None
        for label in self.backlog:
            self.close_host(label, is_lost=True)
        self.backlog.clear()

    def end_host(self) -> None:
        self.host = None
        if self.listens == HOST:
            self.close_listener()
        for label in self.connections:
            self.close_host(label)
