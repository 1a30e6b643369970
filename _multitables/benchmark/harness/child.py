"""A child process for a stream or a reader: fresh state, a time limit, and nothing left behind.

Law
---
1. It owns the process and the lines of the protocol, whose other end is `loops.shell`; the requests
   are those of a loop. A refusal becomes an error of the contract.
2. However it ends, its whole process group is gone afterwards, and so is its named shared memory.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from _multitables.benchmark.contract import ContenderError, NotMeasuredError, WrongDataError
from _multitables.benchmark.loops import stream_loop
from _multitables.benchmark.machine import process_memory


def face() -> Any:
    """The face of the library."""
    try:
        return importlib.import_module("multitables")
    except ImportError as error:
        raise NotMeasuredError(f"multitables cannot be imported ({error}); install it") from error


def module_directory() -> str | None:
    """Where the face lies, for children: they must load the same library as this process."""
    filename = face().__file__
    return os.path.dirname(os.path.abspath(filename)) if filename else None


def child_environment(module_directory: str | None) -> dict[str, str]:
    """The environment of a child that imports multitables from `module_directory`.

    None is an interpreter of its own, which must find nothing of this one's.
    """
    if module_directory is None:
        return {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    paths = [module_directory, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def command(python: str, loop: ModuleType, *request: str) -> list[str]:
    """The command that serves a loop under an interpreter, or sends it one request."""
    folder = os.path.dirname(os.path.abspath(str(loop.__file__)))
    return [python, folder, loop.__name__.rpartition(".")[2], *request]


def found_in(answer: Mapping[str, Any], label: str, install: str = "") -> Any:
    """The answer of a loop, for the library with this label.

    Raises
    ------
    NotMeasuredError
        The library is missing, or cannot read this; `install` says what to do.
    WrongDataError
        What it read is wrong.
    ContenderError
        It failed.
    """
    if "missing" in answer:
        what = f"{label} cannot be imported ({answer['missing']})"
        raise NotMeasuredError(f"{what}: {install}" if install else what)
    if "absent" in answer:
        raise NotMeasuredError(answer["absent"])
    if "unable" in answer:
        raise NotMeasuredError(f"{label} cannot read this: {answer['unable']}")
    if "wrong" in answer:
        raise WrongDataError(answer["wrong"])
    if "error" in answer:
        raise ContenderError(answer["error"])
    return answer["found"]


class Child:
    """A process that runs a loop under an interpreter of its own; a context manager.

    Its state (memory, libraries, threads) is its own, and when it hangs it is killed.

    Parameters
    ----------
    python : str
    module_directory : str or None
        Where it finds multitables; None for an interpreter that has its own.
    timeout_seconds : float
        For each answer.
    loop : module
    label, install : str
        What the loop's library is called, and what to do where it is missing.
    """

    def __init__(
        self,
        python: str,
        module_directory: str | None,
        timeout_seconds: float,
        loop: ModuleType = stream_loop,
        label: str = "multitables",
        install: str = "",
    ) -> None:
        self._timeout_seconds = timeout_seconds
        self._library = label, install
        self._process = subprocess.Popen(
            command(python, loop),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=child_environment(module_directory),
            start_new_session=True,  # so that killing it takes its own readers along
        )

    @property
    def process(self) -> int:
        """Its process id."""
        return self._process.pid

    def ask(self, **request: Any) -> Any:
        """Send one request and wait for its answer.

        Raises
        ------
        ContenderError
            The child says so, died, or is silent for too long; or as `found_in` has it.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
        except OSError as error:
            raise ContenderError(f"it ended: {self._last_words()}") from error
        reply = self._read_line(self._process.stdout.fileno())
        return found_in(json.loads(reply), *self._library)

    def _read_line(self, descriptor: int) -> bytes:
        deadline = time.monotonic() + self._timeout_seconds
        found = b""
        while not found.endswith(b"\n"):
            left_seconds = deadline - time.monotonic()
            if left_seconds <= 0 or not select.select([descriptor], [], [], left_seconds)[0]:
                self.close()
                raise ContenderError(f"no answer within {self._timeout_seconds:.0f} s; killed")
            part = os.read(descriptor, 65536)
            if not part:
                raise ContenderError(f"it ended: {self._last_words()}")
            found += part
        return found

    def _last_words(self) -> str:
        self.close()
        assert self._process.stderr is not None
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else f"exit status {self._process.returncode}"

    def close(self) -> None:
        """End it and everything it started; remove the shared memory it leaves behind.

        (The old release removes none of its own, however it ends.)
        """
        if self._process.returncode is not None:
            return  # waited for, so the number may be another's by now
        process = self._process.pid
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGSTOP)  # so that it makes no more
        os.waitid(os.P_PID, process, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        everyone = (process, *process_memory.child_processes(process))
        left_behind = set().union(*map(process_memory.named_memory, everyone))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process, signal.SIGKILL)
        self._process.wait()
        for filename in left_behind:
            with contextlib.suppress(OSError):
                os.unlink(filename)

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
        for pipe in (self._process.stdin, self._process.stdout, self._process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
