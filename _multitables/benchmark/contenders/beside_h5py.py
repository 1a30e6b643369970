"""How fast a dataset is read with h5py, and with this library: what `multitables bench` measures.

Law
---
1. It measures nothing itself: the command does, in a process of its own, and compares the rows.
2. A dataset that the command refuses, or rows that differ, are an error here.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from _multitables.benchmark.contract import ContenderError
from _multitables.benchmark.harness.child import child_environment, module_directory

TIMEOUT_SECONDS = 120.0  # beside the seconds that are measured
#: The name of the comparison in results.
NAME = "beside h5py"


def measured(filename: str, path: str, seconds: float) -> dict[str, Any]:
    """The record of `multitables bench`, as JSON has it.

    Raises
    ------
    ContenderError
        The rows are not those of h5py, or they cannot be read.
    """
    command = [sys.executable, "-m", "multitables", "bench", filename, path, "--json"]
    try:
        done = subprocess.run(
            [*command, "--seconds", f"{seconds:g}"],
            capture_output=True,
            text=True,
            check=False,
            timeout=seconds + TIMEOUT_SECONDS,
            env=child_environment(module_directory()),
        )
    except subprocess.TimeoutExpired as error:
        raise ContenderError(f"multitables bench did not end: {error}") from error
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"status {done.returncode}"]
        raise ContenderError(f"multitables bench: {lines[-1]}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found
