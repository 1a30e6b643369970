"""Ranks of a node, as processes, and the file that they stream.

Law
---
1. Owns the processes that it starts, and sees what these start by a mark in the environment.
2. A wait always has a deadline.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from processes import environment

N_ROWS, CHUNK = 3000, 100
PROGRAM = Path(__file__).parent / "node_rank.py"


class Ranks:
    """Ranks that were started together."""

    def __init__(self, count: int, wanted: dict[str, Any], *others: dict[str, Any]) -> None:
        self.mark = uuid.uuid4().hex
        self.lines: list[list[dict[str, Any]]] = [[] for _ in range(count)]
        self._processes, self._threads = [], []
        for rank in range(count):
            own = {**wanted, **(others[rank] if rank < len(others) else {})}
            world = {"rank": rank, "world_size": count, **own.pop("world", {})}
            own["options"] = {**own["options"], **world}
            process = subprocess.Popen(
                [sys.executable, "-W", "error", str(PROGRAM), json.dumps(own)],
                stdout=subprocess.PIPE,
                text=True,
                env={**environment(), "MT_TEST_MARK": self.mark},
            )
            self._processes.append(process)
            thread = threading.Thread(target=self._hear, args=(rank, process))
            thread.start()
            self._threads.append(thread)

    def _hear(self, rank: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.lines[rank] += map(json.loads, process.stdout)

    def wait_for(self, rank: int, lines: int) -> None:
        deadline = time.monotonic() + 20
        while len(self.lines[rank]) < lines:
            assert time.monotonic() < deadline, self.lines[rank]
            time.sleep(0.01)

    def kill(self, rank: int, number: int = signal.SIGKILL) -> None:
        self._processes[rank].send_signal(number)

    def host(self) -> int:
        """The process that hosts the readers; others that were started for it end at once."""
        deadline = time.monotonic() + 10
        while True:
            found = [pid for pid, line in self._marked() if "node.host" in line]
            if len(found) == 1:
                return found[0]
            assert time.monotonic() < deadline, found
            time.sleep(0.01)

    def _marked(self) -> Iterator[tuple[int, str]]:
        for entry in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                variables = Path(f"/proc/{entry}/environ").read_bytes()
                if self.mark.encode() in variables:
                    yield int(entry), Path(f"/proc/{entry}/cmdline").read_text()

    def end(self) -> list[list[dict[str, Any]]]:
        """Wait for all ranks, and for what they left behind to end."""
        try:
            for process in self._processes:
                process.wait(30)
        finally:
            for process in self._processes:
                process.kill()
                process.wait()
            for thread in self._threads:
                thread.join()
            for process in self._processes:
                assert process.stdout is not None
                process.stdout.close()
        deadline = time.monotonic() + 10
        while left := list(self._marked()):
            assert time.monotonic() < deadline, left
            time.sleep(0.02)
        return self.lines


def batches(path: Path, **options: Any) -> dict[str, Any]:
    given = {"path": "/x", "batch_size": 64, "n_procs": 1, **options}
    return {"kind": "batches", "filename": str(path), "options": given}


def rows_of(lines: list[dict[str, Any]]) -> list[int]:
    return [row for line in lines for row in line.get("rows", ())]
