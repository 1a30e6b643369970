"""Where a training run stands, as a state that can be saved, and where it goes on.

Law
---
1. Pure. A state is of JSON's types: it survives every kind of checkpoint.
2. A state names all that an order depends on; one of other data or another order is refused.
3. With the same ranks a state goes on exactly where it was; with others, what any rank has
   delivered is taken from what is left, and the rest is sharded anew.
4. A rank that gets nothing of any epoch, as there are more ranks than batches, passes through its
   epochs at once. Where it stands says nothing of the others.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from _multitables.errors import OptionsError
from _multitables.plan.sharding import Shard, delivered, delivered_by, joined, shard_of, without

#: Of states; another number is a state of another version of the library.
VERSION = 1
#: Ranks that a state may speak of; more are damage.
MAX_RANKS = 1 << 20
#: More batches than any rank has.
EVERYTHING = 1 << 62


@dataclass(frozen=True)
class Position:
    """Where one rank stands: batches of an epoch, of which `ranges` were left to all ranks."""

    epoch: int
    #: The epoch before which the iteration ends; None: without end.
    stop: int | None
    #: Of blocks of keys, the rows of each group that are left to this rank.
    ranges: tuple[Any, ...]
    batches: int = 0


def state_of(position: Position, shard: Shard, identity: Mapping[str, Any]) -> dict[str, Any]:
    """Return `position` as a state."""
    return {
        "version": VERSION,
        "epoch": position.epoch,
        "stop": position.stop,
        "ranges": [[_listed(edge) for edge in one] for one in position.ranges],
        "batches": position.batches,
        **asdict(shard),
        "data": dict(identity),
    }


def _listed(edge: Any) -> Any:
    return list(edge) if isinstance(edge, tuple) else edge


def states_of(
    state: object, identity: Mapping[str, Any], ranges_of: Callable[[Any], Any] | None = None
) -> list[tuple[Position, Shard]]:
    """Return the positions of states: of one rank, or of all ranks of one run.

    Parameters
    ----------
    state : dict, or sequence of dict
        One rank's state, or those of all ranks.
    identity : mapping
        All that the order of an epoch depends on.
    ranges_of : callable, optional
        Checks ranges whose edges are no numbers. Default: positions up to ``identity["rows"]``.

    Raises
    ------
    OptionsError
        Not states, or of other data.
    """
    states = list(state) if isinstance(state, Sequence) else [state]
    if not states:
        raise refused("there is no state", "Give the state of one rank, or of all")
    return [_parsed(one, identity, ranges_of or partial(_positions, identity)) for one in states]


def position_of(state: object, shard: Shard, identity: Mapping[str, Any]) -> Position:
    """Return where to go on, with positions that are numbers; see `states_of`.

    One state suffices when the ranks had delivered equally many batches of the same epoch (but not
    that of a rank that gets none), or when the number of ranks is the same and each resumes with
    its own.

    Raises
    ------
    OptionsError
        Not states, of other data, of another order, or not of all ranks.
    """
    parsed = states_of(state, identity)
    first, first_shard = parsed[0]
    if len(parsed) == 1:
        if _is_idle(first, first_shard, identity) and first_shard != shard:
            raise refused(
                f"this is the state of rank {first_shard.rank} of {first_shard.world_size}, which "
                "gets no batch of an epoch: it does not tell where the others stand",
                "Give the states of all ranks",
            )
        # The others are taken to stand where this one does.
        ranks = range(first_shard.world_size)
        parsed = [(first, replace(first_shard, rank=rank)) for rank in ranks]
    check_one_run(parsed)
    position = own_position(parsed, shard)
    return position or _together(parsed, identity)


def own_position(parsed: Sequence[tuple[Position, Shard]], shard: Shard) -> Position | None:
    """Return the position of this very rank, if ranks and batch size are the same."""
    # Those of a node have one stream, so all of them must be there.
    places = {position for position, _ in parsed}
    for position, theirs in parsed:
        if theirs == shard and (shard.node == 1 or len(places) == 1):
            return position
    return None


def _is_idle(position: Position, shard: Shard, identity: Mapping[str, Any]) -> bool:
    """Whether this rank stands between epochs of which it gets nothing, while others do."""
    everything = ((0, identity["rows"]),)
    if position.batches or position.ranges != everything or shard_of(everything, shard):
        return False
    # If any rank gets something, then the last one does.
    return bool(shard_of(everything, replace(shard, rank=shard.world_size - 1)))


def check_one_run(parsed: Sequence[tuple[Position, Shard]]) -> None:
    """Raise unless the states are of all ranks of one run."""
    ranks = parsed[0][1].world_size
    if sorted(shard.rank for _, shard in parsed) != list(range(ranks)):
        raise refused(
            f"states are not of all ranks: expected 0 to {ranks - 1}, "
            f"got {sorted(shard.rank for _, shard in parsed)}",
            "Give the states of all ranks, or of one",
        )
    if len({replace(shard, rank=0) for _, shard in parsed}) > 1:
        raise refused("states are of different runs", "Give the states of one run")


def _together(parsed: Sequence[tuple[Position, Shard]], identity: Mapping[str, Any]) -> Position:
    """Return what is left to all, as the beginning of an epoch."""
    idle: list[tuple[Position, Shard]] = []
    others: list[tuple[Position, Shard]] = []
    for one in parsed:
        (idle if _is_idle(*one, identity) else others).append(one)
    earliest = min(position.epoch for position, _ in others)
    if any(position.epoch > earliest and position.batches for position, _ in others):
        others = [_next_if_through(one, identity["rows"]) for one in others]
    behind = min((position for position, _ in others), key=lambda position: position.epoch)
    epoch, ranges = behind.epoch, behind.ranges
    # What earlier ranks had left, those that are idle since have had their share of.
    done = {shard.rank: EVERYTHING for _, shard in idle}
    for position, shard in others:
        if position.epoch == epoch:
            if position.ranges != ranges:
                raise refused("states are of different runs", "Give the states of one run")
            done[shard.rank] = position.batches
        elif position.epoch == epoch + 1 and position.batches == 0:
            done[shard.rank] = EVERYTHING
        else:
            raise refused(
                f"ranks stand in different epochs ({epoch} and {position.epoch})",
                "Save the states of all ranks after the same number of batches",
            )
    taken = delivered_by(ranges, others[0][1], done)
    left = joined(without(ranges, taken))
    return Position(epoch, behind.stop, tuple(left))


def _next_if_through(one: tuple[Position, Shard], rows: int) -> tuple[Position, Shard]:
    """Return where a rank stands that has had its last batch of an epoch: in the next one."""
    position, shard = one
    if delivered(position.ranges, shard, position.batches) != shard_of(position.ranges, shard):
        return one
    return Position(position.epoch + 1, position.stop, ((0, rows),)), shard


def _parsed(
    state: object, identity: Mapping[str, Any], ranges_of: Callable[[Any], Any]
) -> tuple[Position, Shard]:
    if not isinstance(state, Mapping) or state.get("version") != VERSION:
        raise refused(
            f"this is not a state of batches (version {VERSION}): {state!r:.60}",
            "Give what state_dict() returned",
        )
    data = state.get("data")
    if not isinstance(data, Mapping):
        raise _damaged("it names no data")
    for name in {**identity, **data}:
        was, wanted = data.get(name), identity.get(name)
        if was != wanted:
            raise refused(
                f"the state is of other batches: {name} was {was!r}, and is {wanted!r}",
                "Make the batches with the options that they had, from the same data",
            )
    try:
        position = Position(
            _whole(state["epoch"]),
            None if state["stop"] is None else _whole(state["stop"]),
            ranges_of(state["ranges"]),
            _whole(state["batches"]),
        )
        shard = Shard(
            _whole(state["batch_size"], 1),
            _whole(state["rank"]),
            _whole(state["world_size"], 1),
            _flag(state["drop_last"]),
            _flag(state["even"]),
            _whole(state["parts"], 1),
            _whole(state.get("node", 1), 1),
        )
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise _damaged(repr(error)) from None
    in_range = shard.rank < shard.world_size <= MAX_RANKS
    in_range &= not (shard.world_size % shard.parts or shard.world_size % shard.node)
    if not in_range:
        raise _damaged("its rank is out of range")
    return position, shard


def _positions(identity: Mapping[str, Any], ranges: Any) -> tuple[tuple[int, int], ...]:
    checked = tuple((_whole(begin), _whole(end)) for begin, end in ranges)
    edges = [0, *(edge for one in checked for edge in one), identity["rows"]]
    if edges != sorted(edges):
        raise ValueError("its ranges are out of range")
    return checked


def _whole(value: Any, least: int = 0) -> int:
    number = operator.index(value)
    if number < least or number >> 63:
        raise ValueError(f"{number} is out of range")
    return number


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise TypeError(f"{value!r} is neither true nor false")
    return value


def _damaged(how: str) -> OptionsError:
    return refused(f"the state is damaged: {how}", "Give another state")


def refused(happened: str, advice: str) -> OptionsError:
    """Compose the error for a state that cannot be resumed."""
    return OptionsError(happened, advice=advice, option="state")
