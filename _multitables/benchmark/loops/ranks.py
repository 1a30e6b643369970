"""Processes that stand for ranks: all are forked and ready, then each does something at a word.

Law
---
1. A clock around `Ranks.ask` has no start of a process in it.
2. The first error of a rank is raised where the answers are read. No rank outlives the block.
3. It imports the standard library only.
"""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Any

from .refusals import CannotReadError, WrongError


class Ranks:
    """The pipes to ranks that run; `said` is what each said when it was ready."""

    def __init__(self, pipes: list[Connection]) -> None:
        self._pipes = pipes
        self.said = self._answers()

    def ask(self, word: Any) -> list[Any]:
        """Send all a word, then read what each answers."""
        for pipe in self._pipes:
            pipe.send(word)
        return self._answers()

    def _answers(self) -> list[Any]:
        found = []
        for number, pipe in enumerate(self._pipes):
            try:
                found.append(pipe.recv())
            except EOFError:
                raise RuntimeError(f"process {number} of {len(self._pipes)} died") from None
            if isinstance(found[-1], Exception):
                raise found[-1]
        return found


@contextlib.contextmanager
def forked(n: int, be: Callable[[Connection, int], None]) -> Iterator[Ranks]:
    """`n` processes that each run ``be(pipe, rank)``, when each has sent its first word."""
    context = multiprocessing.get_context("fork")
    pipes, running = [], []
    try:
        for rank in range(n):
            mine, its = context.Pipe()
            one = context.Process(target=_be, args=(be, its, rank), daemon=True)
            one.start()
            its.close()
            pipes.append(mine)
            running.append(one)
        yield Ranks(pipes)
    finally:
        for pipe in pipes:
            pipe.close()
        for one in running:
            one.kill()
            one.join()


def _be(be: Callable[[Connection, int], None], pipe: Connection, rank: int) -> None:
    """Be a rank, and send the parent what goes wrong."""
    try:
        be(pipe, rank)
    except (ImportError, CannotReadError, WrongError) as error:
        pipe.send(error)
    except Exception as error:  # noqa: BLE001  everything is the parent's to report
        lines = str(error).strip().splitlines() or [""]
        pipe.send(RuntimeError(f"{type(error).__name__}: {lines[-1]}"))


def serve(pipe: Connection, answer: Callable[[Any], Any]) -> None:
    """As a rank: be ready, then answer each word."""
    pipe.send(None)
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(answer(pipe.recv()))


def shares(rows: int, chunk_rows: int, parts: int) -> list[tuple[int, int]]:
    """``[start, stop)`` of each part: all rows, whole chunks each, as even as those allow."""
    chunks = -(-rows // chunk_rows)
    ends = [min(rows, chunks * part // parts * chunk_rows) for part in range(parts + 1)]
    return list(itertools.pairwise(ends))
