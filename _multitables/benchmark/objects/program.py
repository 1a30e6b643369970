"""A program of this folder as a child process, asked by lines of JSON.

Law
---
1. It owns the process: its start, its questions and answers, its end. It knows no program.
2. A program says its port in its first line, and ends with the end of its standard input: it never
   outlives its parent, however that ends.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]  # where the program imports its modules from
END_SECONDS = 5.0


class Program:
    """A running ``python -m module arguments...``, whose paths must be absolute."""

    def __init__(self, module: str, *arguments: str) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,  # Ctrl-C is for the parent, which ends it
        )
        try:
            self.port: int = self._answer()
        except BaseException:
            self.close()
            raise

    @property
    def process(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, **request: Any) -> Any:
        """Send one request and wait for its answer."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(
                f"{self._module} ended with status {self._process.wait()} (expected an answer). "
                "Its last words are on standard error."
            )
        return json.loads(line)

    def close(self) -> None:
        """End the process. Another call does nothing."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
