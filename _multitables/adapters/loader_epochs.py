"""The epochs of a loader, on which its processes must agree although they come and go.

Law
---
1. The processes share one record, in anonymous shared memory under a lock. Forked processes inherit
   it, spawned ones are given it; a copy made in another way counts on its own.
2. Each pass of a loader is the next epoch, the same for all of its processes, even for one that
   comes late. Passes of two loaders at once are two epochs.
3. Programs that share the record, such as forked ranks, each count for themselves: a program is
   known by its process, and its loader's processes by their parent.
4. Knows neither datasets nor the library that has the loader.
"""

from __future__ import annotations

import fcntl
import json
import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.context import get_spawning_popen
from multiprocessing.reduction import DupFd
from typing import Any

#: How many passes are remembered to which some process did not come yet, and how many programs.
MAX_OPEN = 32
MAX_PROGRAMS = 1024


@dataclass(frozen=True)
class Pass:
    """One pass of a loader."""

    #: The epoch with which it begins.
    epoch: int
    #: How many passes this program began before it.
    number: int
    #: This process is the first that came to it.
    is_first: bool


class Passes:
    """The passes of a program's loaders over one dataset; the first begins with `epoch`."""

    def __init__(self, epoch: int) -> None:
        self._hold(_new_record(), epoch, 0)

    def _hold(self, record: int, epoch: int, begun: int) -> None:
        self._record = record
        #: Where a program begins that is not recorded yet, as one that was forked.
        self._first = epoch
        self._begun = begun
        weakref.finalize(self, os.close, record)

    @property
    def next(self) -> int:
        """The epoch with which this program's next pass begins."""
        with self._recorded(os.getpid()) as mine:
            return int(mine["next"])

    @property
    def begun(self) -> int:
        """How many passes of this program have begun."""
        with self._recorded(os.getpid()) as mine:
            self._begun = int(mine["begun"])
            return self._begun

    def tell(self, epoch: int) -> None:
        """Let this program's next pass begin with `epoch`."""
        self._first = epoch
        with self._recorded(os.getpid()) as mine:
            mine["next"] = epoch

    def begin(self, loader: int, part: int, parts: int, epochs: int) -> Pass:
        """Come to the next pass of a loader, of `epochs` epochs, as one of its processes.

        Parameters
        ----------
        loader : int
            A number that no other loader has at the same time.
        part, parts : int
            Which of its processes this is, and how many there are.
        """
        with self._recorded(_program_of_loader()) as mine:
            waiting = mine["open"]
            for at, (theirs, epoch, number, came) in enumerate(waiting):
                if theirs == loader and part not in came:
                    came.append(part)
                    if len(came) == parts:
                        del waiting[at]
                    return Pass(epoch, number, False)
            found = Pass(mine["next"], mine["begun"], True)
            mine.update(next=found.epoch + epochs, begun=found.number + 1)
            if parts > 1:
                waiting.append([loader, found.epoch, found.number, [part]])
                del waiting[:-MAX_OPEN]
            return found

    def ends_before(self, epoch: int) -> None:
        """Say, in a process of a loader, that its pass goes on up to another epoch."""
        with self._recorded(_program_of_loader()) as mine:
            mine["next"] = epoch

    @contextmanager
    def _recorded(self, program: int) -> Iterator[dict[str, Any]]:
        """Lend the record of a program, and keep what the block makes of it."""
        fcntl.lockf(self._record, fcntl.LOCK_EX)
        try:
            found = os.pread(self._record, os.fstat(self._record).st_size, 0)
            record = json.loads(found or b"{}")
            new = {"next": self._first, "begun": self._begun, "open": []}
            yield record.setdefault(str(program), new)
            for old in list(record)[:-MAX_PROGRAMS]:
                del record[old]
            changed = json.dumps(record).encode()
            if changed != found:
                os.pwrite(self._record, changed.ljust(len(found)), 0)
        finally:
            fcntl.lockf(self._record, fcntl.LOCK_UN)

    def __getstate__(self) -> tuple[Any, int, int]:
        # A process that is being spawned gets the record itself.
        spawns = get_spawning_popen() is not None
        return DupFd(self._record) if spawns else None, self.next, self.begun

    def __setstate__(self, state: tuple[Any, int, int]) -> None:
        record, epoch, begun = state
        self._hold(_new_record() if record is None else record.detach(), epoch, begun)


def _new_record() -> int:
    return os.memfd_create("multitables passes", os.MFD_CLOEXEC)


def _program_of_loader() -> int:
    parent = parent_process()
    return os.getppid() if parent is None or parent.pid is None else parent.pid
