"""Stages: shared memory of the user's, each for one result at a time.

Law
---
1. A thin layer over the core, which knows when a stage is free again: when its request's result
   was taken or the request is gone. Views keep their memory to themselves. Nothing is counted here.
2. A stage is good for every `Reader` of this process; it belongs to none.
3. Closing one that is in use takes effect when it comes back; never under a reader's hands.
"""

from __future__ import annotations

import contextlib
import math
import operator
import weakref
from collections.abc import Iterable
from typing import Any, Protocol

from _multitables import _core, machine
from _multitables.errors import OptionsError, SharedMemoryError, advice_for, public


class User(Protocol):
    """Something that lends stages to requests."""

    queue: _core.WorkQueue

    @property
    def mine(self) -> bool:
        """False in a process that was forked from the one that made it."""

    def glance(self) -> None:
        """Let requests go on for which no thread of the program waits."""


#: Those of this process, one of which has the request of a stage that is in use.
users: weakref.WeakSet[User] = weakref.WeakSet()


@public
class Stage(_core.Stages):
    """Shared memory for the result of one request; made by a dataset's ``create_stage``.

    A stage is busy from the request until its result was taken. While views of that result are
    kept, their memory stays as it is, and the stage takes other memory for the next result. It is
    good for any dataset and any `Reader` of this process.

    Examples
    --------
    >>> stage = dataset.create_stage(10)  # doctest: +SKIP
    >>> with reader.request(dataset[30:40], stage).get_unsafe() as rows:  # doctest: +SKIP
    ...     print(rows.mean())
    """

    def __new__(cls, size_nbytes: int) -> Stage:
        new: Any = super().__new__
        stage: Stage = made(lambda: new(cls, arena(), size_nbytes, 1), size_nbytes)
        return stage

    @property
    def size_nbytes(self) -> int:
        """The largest result, in bytes."""
        return self.n_bytes

    @property
    def busy(self) -> bool:
        """Whether a request has the stage, whose result was not taken yet."""
        if self.lent()[0] > 0:  # perhaps by a request that was dropped on its way, and has ended
            for one in list(users):
                if one.mine:
                    one.glance()
                    one.queue.pending()
        return self.lent()[0] > 0

    def close(self) -> None:
        """Give the memory back, at once or when its request and the last view are gone."""
        super().close()


@public
class StagePool(_core.Stages):
    """Several stages of one size; made by a dataset's ``create_stage_pool``.

    A request takes the next free one, and waits for one if there is none.
    """

    def __new__(cls, size_nbytes: int, num_stages: int) -> StagePool:
        new: Any = super().__new__
        n_bytes = size_nbytes * num_stages
        pool: StagePool = made(lambda: new(cls, arena(), size_nbytes, num_stages), n_bytes)
        return pool

    @property
    def size_nbytes(self) -> int:
        """The largest result, in bytes."""
        return self.n_bytes

    @property
    def num_stages(self) -> int:
        """How many stages there are."""
        return self.count or 0

    def close(self) -> None:
        """Give the memory back, each stage's at once or when its request and views are gone."""
        super().close()


def arena() -> _core.Arena:
    """Return the shared memory of this process, in which all stages lie."""
    return _core.Arena(machine.memory_limit_bytes())


def made(make: Any, n_bytes: int) -> Any:
    """Make something in the arena; a shortage is a `SharedMemoryError`."""
    try:
        return make()
    except (OSError, MemoryError, OverflowError) as error:
        raise shortage(error, n_bytes) from error


def shortage(error: BaseException, n_bytes: int) -> SharedMemoryError:
    """Compose the error for memory that is not available."""
    reason = getattr(error, "strerror", None) or error
    return SharedMemoryError(
        f"shared memory for results cannot be reserved ({n_bytes} bytes): {reason}",
        advice=advice_for(
            error,
            "Free memory, drop views of earlier results, close stages that are not needed, or "
            "choose smaller ones",
        ),
        expected=n_bytes,
    )


def too_small(needed: int, have: int, stages: _core.Stages) -> SharedMemoryError:
    """Compose the error for a result that is larger than its stage."""
    if stages.count is None:
        what, advice = "memory_limit_bytes", "Give Reader a larger memory_limit_bytes"
    else:
        what, advice = "its stage", "Make a larger stage, or leave it out"
    return SharedMemoryError(
        f"a result does not fit {what}: expected at most {have} bytes, got {needed}",
        good="Other requests are not affected",
        advice=f"{advice}; or ask for less at once",
        expected=have,
        got=needed,
    )


def shape_elements(shape: Any, extents: tuple[int, ...]) -> int:
    """Elements of a stage's `shape`, which may leave dims of the dataset open.

    Missing dims, None and -1 are the dataset's own extent.
    """
    given = list(shape) if isinstance(shape, Iterable) else [shape]
    given += [None] * (len(extents) - len(given))
    return math.prod(_extent(shape, at, size, extents) for at, size in enumerate(given))


def _extent(shape: Any, at: int, size: Any, extents: tuple[int, ...]) -> int:
    number: int | None = None
    with contextlib.suppress(TypeError):
        number = -1 if size is None else operator.index(size)
    if number == -1 and at < len(extents):
        return extents[at]
    if number is None or number < 0:
        raise OptionsError(
            f"a stage cannot have the shape {shape!r}: expected whole numbers, and None or -1 "
            f"for the dataset's extents {extents}",
            advice="Give the rows of the largest result, and further dims if they are smaller",
            option="shape",
            got=shape,
        )
    return number
