"""Every order of the steps in which ranks of a node and their host meet: the real code of both.

Law
---
1. A step is what others can see: a call of the kernel, a start, an end. Between two of them a
   process is alone, so the orders of steps are all that can happen.
2. States that were seen are not walked again, so the walk ends. From each of them all processes
   that are present must be able to end without another fault, without time, and without a late
   process: else one waits for ever.
3. A rank that tries again to come in is one that begins: it keeps nothing meanwhile.
4. It knows no elements: what goes through a ring is the core's (the core's serve/ring/races.rs).
"""

from __future__ import annotations

import json
import pickle
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from node_fakes import PIDFD, HostListener, HostSocket
from node_stage import STAGE, Paused, Served, next_call
from node_world import CLOSES, HOST, Label, Process, Raises, State, World

from _multitables.parent.node.host import LEFT_SECONDS, WAIT_SECONDS, Host

PROOFS = "a rank's proof", "the host's proof"
#: Seconds: more than ranks have to come, and more than a host stays when all have left.
LONG, SOON = 2 * WAIT_SECONDS, 2 * LEFT_SECONDS


class Step(NamedTuple):
    """Something that may happen next."""

    what: str
    who: Any = None
    #: It comes if no other step does.
    is_sure: bool = True


class Case(NamedTuple):
    """What a walk begins with."""

    n_ranks: int
    #: What each rank does: "opens", "streams" or both.
    does: str
    start: State
    #: What has happened before: "all are in", or "one has left".
    before: str


def case(
    n_ranks: int, does: str, *others: Process, before: str = "", late: int = 0, **faults: int
) -> Case:
    """Compose one of ranks, the last of them `late`, other processes, and how many faults come."""
    named = tuple((name.replace("_", " "), count) for name, count in faults.items())
    ranks = (Process(at, 0.0 if at < n_ranks - late else None) for at in range(n_ranks))
    processes = (*ranks, *others)
    times = Counter(process.number for process in processes)
    excused = (of._replace(is_excused=times[of.number] > 1) for of in processes)
    return Case(n_ranks, does, State(tuple(excused), named), before)


class WrongError(AssertionError):
    """Something does not hold, with the steps that lead there."""


@dataclass
class Walked:
    """What a walk saw."""

    n_states: int = 0
    n_steps: int = 0
    #: In how many last states ranks ended so.
    outcomes: Counter[Any] = field(default_factory=Counter)


class Walk:
    """Takes every step from every state of a case."""

    def __init__(self, of: Case) -> None:
        self._case = of
        #: Hosts as bytes: one of those that are equal; what they can wait for; their rounds.
        self._hosts: dict[str, bytes] = {}
        self._keys: dict[bytes, tuple[Any, ...]] = {}
        self._rounds: dict[Any, tuple[bytes | None, list[tuple[Any, ...]]]] = {}

    # ---- what may happen

    def steps(self, world: World) -> Iterator[Step]:
        can = {fault for fault, left in world.faults.items() if left}
        for at, process in enumerate(world.processes):
            if process.began is None:
                yield Step("comes", at, is_sure=False)
            if process.is_here:
                yield from self._steps_of(world, at, can)
        if world.host is None:
            return
        ready = tuple(of for of in self._keys[world.host] if _is_ready(world, of))
        ends = {(of,) for of in ready if not isinstance(of, HostListener)}
        for chosen in (ends or {(of,) for of in ready}) | ({ready} if ready else set()):
            yield Step("hears", chosen)
            if "no readers" in can:
                yield Step("no readers", chosen, is_sure=False)
        if "time" in can or _are_gone(world):
            yield Step("time", is_sure=False)
        if "death" in can:
            yield Step("death", HOST, is_sure=False)

    def _steps_of(self, world: World, at: int, can: set[str]) -> Iterator[Step]:
        name, *arguments = self._pending(world, at)
        of = world.connections[arguments[0]] if name == "receive" else None
        if of is None or of.to_rank or not of.host_open:
            yield Step(name, at)
        faults = {"death"}
        if name not in ("close", "stop listening", "end"):
            faults |= {"interrupt", CLOSES}
        if name == "plan":
            faults.add("failed plan")
        for fault in sorted(faults & can):
            yield Step(fault, at, is_sure=False)

    def _pending(self, world: World, at: int) -> tuple[Any, ...]:
        process = world.processes[at]
        return next_call(at, process.number, *self._case[:2], process.history)

    # ---- what happens

    def take(self, world: World, step: Step) -> None:
        what, who, _ = step
        if world.faults.get(what):
            world.faults[what] -= 1
        if what == "comes":
            world.clock += 1
            world.change(who, began=world.clock - 0.5)
        elif what == "death" and who == HOST:
            world.is_excused = True
            world.end_host()
        elif what == "death":
            world.end(who, ("killed", None))
        elif what in ("hears", "no readers", "time"):
            world.is_excused |= what != "hears"
            self._serve(world, what, who or ())
        elif what in ("interrupt", CLOSES, "failed plan"):
            history = world.processes[who].history
            result = CLOSES if what == CLOSES else Raises(what)
            world.change(who, is_excused=True, history=(*history, result))
        else:
            self._act(world, who, *self._pending(world, who))
            while self._is_unseen(world, who):
                self._act(world, who, *self._pending(world, who))
        open_ends = {label.process for label, of in world.connections.items() if of.host_open}
        plan = [at for at in open_ends if world.processes[at].plans]
        assert len(plan) <= 1, f"{plan} plan at a time"

    def _is_unseen(self, world: World, at: int) -> bool:
        """Whether a rank's next step is invisible to others, so that its order does not matter."""
        if not world.processes[at].is_here:
            return False
        name = self._pending(world, at)[0]
        return name == "sleep" or (name == "plan" and not world.faults.get("failed plan"))

    def _act(self, world: World, at: int, name: str, *arguments: Any) -> None:
        """Do what a rank calls, and keep the result."""
        process = world.processes[at]
        result: Any = True
        if name == "sleep":
            world.change(at, history=())
            return
        if name == "end":
            world.end(at, self._judged(world, process, *arguments[0]))
            return
        if name == "connect":
            result = world.connect(at)
        elif name == "listen":
            result = world.listens is None
            world.listens = at if result else world.listens
        elif name == "stop listening":
            world.close_listener()
        elif name == "start host":
            assert world.host is None, "there are two hosts"
            world.listens, world.host_number = HOST, world.host_number + 1
            STAGE.served = Served(Host(HostListener(), self._case.n_ranks, None, PROOFS))
            world.host = self._stored(STAGE.served)
        elif name == "plan":
            result = f"plan of {at}"
        elif name == "send":
            result = self._sent(world, at, *arguments)
        elif name == "receive":
            result = self._received(world, at, *arguments)
        else:
            assert name == "close"
            world.close_rank(*arguments)
            world.change(at, plans=False)
        world.change(at, history=(*world.processes[at].history, result))

    def _sent(self, world: World, at: int, label: Label, text: str, memory: Any) -> Any:
        message = json.loads(text)
        if {"planned", "left"} & message.keys():
            world.change(at, plans=False)
        sent = json.dumps({**message, "sent": world.clock}), memory
        return world.give_host(label, sent) or Raises("no other end")

    def _received(self, world: World, at: int, label: Label) -> Any:
        taken = world.take_from_host(label)
        message = taken and json.loads(taken[0])
        if message and "welcome" in message:
            world.change(at, host_number=world.host_number)
        if message and "plan" in message:
            world.change(at, plans=True)
        return taken

    def _judged(self, world: World, process: Process, kind: str, what: Any) -> Any:
        """Return how a rank ended, which must be as it may."""
        if kind == "value":
            others = world.delivered.setdefault(process.host_number, what)
            assert others == what, "ranks of one host have two plans"
            return kind, what
        assert process.is_excused or world.is_excused, what
        return kind, what.partition(":")[0]

    # ---- the host

    def _serve(self, world: World, what: str, chosen: tuple[Any, ...]) -> None:
        """Let the host do one round, or as it did in an equal one."""
        assert world.host is not None
        labels = {of.label for of in chosen if isinstance(of, HostSocket)}
        seen = tuple(
            (label, of.rank_open, of.host_open, of.host_lost, label in labels and of.to_host[:1])
            for label, of in sorted(world.connections.items())
        )
        began = tuple(process.began for process in world.processes)
        accepted = HostListener() in chosen and world.backlog[0]
        key = world.host, what, chosen, seen, began, accepted, _are_gone(world)
        if key in self._rounds:
            host, effects = self._rounds[key]
            for name, *arguments in effects:
                getattr(world, name)(*arguments)
        else:
            host = self._round(world, what, chosen)
            self._rounds[key] = host, STAGE.effects
        world.host = host
        if host is None:
            assert not any(of.host_open for of in world.connections.values()), "a connection stays"
            assert world.listens is None

    def _round(self, world: World, what: str, chosen: tuple[Any, ...]) -> bytes | None:
        assert world.host is not None
        STAGE.world, STAGE.served, STAGE.effects = world, pickle.loads(world.host), []
        STAGE.events, STAGE.pool_fails = list(chosen), what == "no readers"
        STAGE.now, STAGE.passes = 0.0, 0.0
        if what == "time":
            STAGE.passes = SOON if _are_gone(world) else LONG
        try:
            STAGE.served.host.run()
        except Paused:
            return self._stored(STAGE.served)
        STAGE.served.check_end()
        return None

    def _stored(self, served: Served) -> bytes:
        served.host._left = 0.0
        stored = self._hosts.setdefault(served.key(), pickle.dumps(served))
        self._keys[stored] = tuple(served.host._selector.get_map())
        return stored

    # ---- all

    def _start(self) -> State:
        world = World(self._case.start)
        alone = {"": 0, "one has left": 1, "all are in": self._case.n_ranks}[self._case.before]
        for at in range(alone):
            while not (
                world.processes[at].outcome if alone == 1 else world.processes[at].host_number
            ):
                self.take(world, self._next_of(world, at))
        return world.state()

    def _next_of(self, world: World, at: int) -> Step:
        """Return what comes next while one rank and the host are alone."""
        return next(
            step
            for step in sorted(self.steps(world), key=lambda step: step.what == "hears")
            if (step.is_sure and step.who == at) or step.what == "hears"
        )

    def all(self) -> Walked:
        """Walk, and see that everybody can end."""
        states = [self._start()]
        reached: list[tuple[int, Step | None]] = [(-1, None)]
        seen = {states[0]: 0}
        #: For each state, from where it is reached by what is sure to come; by that and time.
        surely: list[list[int]] = [[]]
        in_time: list[list[int]] = [[]]
        ended, closed = [], []
        walked = Walked()
        left = [0]
        while left:
            at = left.pop()
            state = states[at]
            world = World(state)
            if _are_gone(world):
                ended.append(at)
                walked.outcomes.update({process.outcome for process in state.processes})
                if state.host is None:
                    closed.append(at)
            for step in self.steps(world):
                world = World(state)
                try:
                    self.take(world, step)
                except AssertionError as error:
                    raise WrongError(_path(reached, at, step, str(error))) from error
                walked.n_steps += 1
                new = world.state()
                to = seen.setdefault(new, len(states))
                if to == len(states):
                    states.append(new)
                    reached.append((at, step))
                    surely.append([])
                    in_time.append([])
                    left.append(to)
                if step.is_sure:
                    surely[to].append(at)
                if step.is_sure or step.what == "time":
                    in_time[to].append(at)
        walked.n_states = len(states)
        for goal, edges, what in (
            (ended, surely, "a rank waits for ever"),
            (closed, in_time, "the host stays for ever"),
        ):
            stuck = set(range(len(states))) - _leading_to(goal, edges)
            if stuck:
                raise WrongError(_path(reached, min(stuck), None, what))
        return walked


def _is_ready(world: World, of: Any) -> bool:
    """Whether the host can read something there."""
    if isinstance(of, HostListener):
        return bool(world.backlog)
    if isinstance(of, HostSocket):
        connection = world.connections[of.label]
        return bool(connection.to_host) or not connection.rank_open
    return world.processes[of - PIDFD].outcome is not None


def _are_gone(world: World) -> bool:
    return not any(process.is_here for process in world.processes)


def _leading_to(goal: list[int], edges: list[list[int]]) -> set[int]:
    reached, left = set(goal), list(goal)
    while left:
        for before in edges[left.pop()]:
            if before not in reached:
                reached.add(before)
                left.append(before)
    return reached


def _path(reached: list[tuple[int, Step | None]], at: int, last: Step | None, what: str) -> str:
    path = [last]
    while at >= 0:
        at, step = reached[at]
        path.append(step)
    said = [f"{step.who}: {step.what}" for step in reversed(path) if step is not None]
    return "\n".join(["", *said, what])
