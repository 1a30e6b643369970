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
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, NamedTuple

from node_world import CLOSES, Raises, World

from _multitables.errors import MultitablesError, OptionsError
from _multitables.parent.node import (
    host,
    shared_readers,
)
from _multitables.parent.node.place import NodePlace

USER, HOST_PID = 1000, 99


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
    rings: list[Any] = field(default_factory=list)
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
