"""A fresh interpreter that imports the library and reads a first block, or waits for ready ones.

Law
---
1. One measurement is one process, which ends by itself or is killed.
2. The interpreter may be another's, with a release of its own.
"""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from _multitables.benchmark.contract import ContenderError, Source, WrongDataError, differs
from _multitables.benchmark.harness.child import child_environment, command, module_directory
from _multitables.benchmark.loops import startup_loop, stream_loop

PROBE_TIMEOUT_SECONDS = 60.0


def probe(request: dict[str, Any], python: str | None = None, bytecode: str = "") -> dict[str, Any]:
    """What `startup_loop` measures, under this interpreter or the one named.

    `bytecode` is a folder for what Python compiles, also where the environment forbids that, for a
    checkout would be compiled in each process, and an installed library would not.
    """
    own = python is None
    environment = child_environment(module_directory() if own else None)
    if bytecode:
        environment["PYTHONPYCACHEPREFIX"] = bytecode
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        done = subprocess.run(
            command(python or sys.executable, startup_loop, json.dumps(request)),
            capture_output=True,
            text=True,
            check=False,
            env=environment,
            timeout=PROBE_TIMEOUT_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise ContenderError(f"no answer within {PROBE_TIMEOUT_SECONDS:.0f} s; killed") from error
    if done.returncode:
        raise ContenderError((done.stderr.strip().splitlines() or ["no message"])[-1])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def check_rows(source: Source, found: dict[str, Any]) -> None:
    """Raise unless `found` is the digest of the dataset's first rows."""
    import tables

    with tables.open_file(source.filename, "r") as file:
        first = file.get_node(source.path)[: found["rows"]]
    fault = differs(found, stream_loop.digest_of(iter([first])))
    if fault:
        raise WrongDataError(fault)
