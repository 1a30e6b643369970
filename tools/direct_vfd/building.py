"""How a step is done: its commands with their logs, its mark when it is finished, its error.

Law
---
1. A command's output goes to the log of its step, PREFIX/log/STEP.log, and to nobody else.
2. A step is marked as finished, with its key, when all of it is: it may be killed at any time.
3. Whoever is told to stop leaves no command running: it may write where the next try does.
4. It knows no step by name.
"""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from plan import Step
    from steps import Options

LAST_LINES = 12


class BuildError(RuntimeError):
    """The build cannot go on; the message says why and what to do."""


class Stopped(Exception):  # noqa: N818  it is no error
    """The user ended the build."""


def failure(
    step: Step, words: Sequence[str], ended: str, log: str, tail: Sequence[str], kept: Sequence[str]
) -> str:
    """What is said of a command that failed."""
    lines = "".join(f"    {line}\n" for line in tail) or "    (nothing)\n"
    return (
        f"step {step.name!r} ({step.what}) failed: {shlex.join(words)} {ended} (expected status "
        f"0).\nThe last lines of its log, {log}:\n{lines}{remedy(step, kept)}"
    )


def remedy(step: Step, kept: Sequence[str]) -> str:
    """What is still good when a step failed, and what to do."""
    finished = f"finished and kept: {', '.join(kept)}" if kept else "nothing was finished before"
    return (
        f"What is good: {finished}.\nWhat to do: {step.advice} Then run the same command again; it "
        f"goes on with {step.name!r}."
    )


class Building:
    """The work in one prefix.

    Parameters
    ----------
    prefix : str
    jobs : int
        Commands of `run_all` that run at once.
    """

    def __init__(self, prefix: str, jobs: int) -> None:
        self.prefix = prefix
        self.jobs = jobs
        self.directory = os.path.join(prefix, "build")
        self.marks = os.path.join(prefix, "finished.json")
        self._turn = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._stopped = False

    def finished(self) -> dict[str, str]:
        """Name and key of every finished step."""
        try:
            with open(self.marks, encoding="utf-8") as file:
                found = json.load(file)
        except (FileNotFoundError, ValueError):
            return {}
        return {str(name): str(key) for name, key in found.items()}

    def do(self, step: Step, options: Options) -> None:
        """Do a step, and mark it."""
        os.makedirs(os.path.join(self.prefix, "log"), exist_ok=True)
        os.makedirs(self.directory, exist_ok=True)
        open(self._log(step), "w").close()
        self._mark(step, None)
        step.act(options, Work(self, step))
        self._mark(step, step.key)

    def _mark(self, step: Step, key: str | None) -> None:
        with self._turn:
            marks = self.finished()
            marks.pop(step.name, None)
            if key is not None:
                marks[step.name] = key
            with open(f"{self.marks}.new", "w", encoding="utf-8") as file:
                json.dump(marks, file)
            os.replace(f"{self.marks}.new", self.marks)

    def _log(self, step: Step) -> str:
        return os.path.join(self.prefix, "log", f"{step.name}.log")

    def run(
        self, step: Step, words: Sequence[str], more: Mapping[str, str], directory: str | None
    ) -> None:
        """Run one command of a step to its end."""
        environment = {
            name: text for name, text in os.environ.items() if not name.startswith("PYTHON")
        }
        log = self._log(step)
        with open(log, "a", encoding="utf-8") as file:
            print(f"$ {shlex.join(words)}", file=file, flush=True)
            try:
                status = self._status_of(words, directory, {**environment, **more}, file)
            except OSError as error:
                status, ended = -1, f"did not start: {error}"
            else:
                ended = (
                    f"ended with status {status}"
                    if status >= 0
                    else f"was killed by signal {-status}"
                )
        if status:
            with open(log, encoding="utf-8", errors="replace") as file:
                tail = [line.rstrip()[:300] for line in file][-LAST_LINES:]
            raise BuildError(failure(step, words, ended, log, tail, sorted(self.finished())))

    def _status_of(
        self,
        words: Sequence[str],
        directory: str | None,
        environment: Mapping[str, str],
        log: IO[str],
    ) -> int:
        with self._turn:
            if self._stopped:
                raise Stopped
            process = subprocess.Popen(
                words,
                cwd=directory or self.directory,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # so that all it starts can be stopped
            )
            self._running.add(process)
        status = process.wait()
        self._running.discard(process)
        if self._stopped:
            raise Stopped
        return status

    def stop(self) -> None:
        """End all commands, and start none any more."""
        with self._turn:
            self._stopped = True
            for process in list(self._running):
                if process.returncode is None:  # else its number may be another's by now
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)


class Work:
    """What a step acts with."""

    def __init__(self, building: Building, step: Step) -> None:
        self._building = building
        self._step = step
        self.directory = building.directory

    def path(self, *parts: str) -> str:
        """A path in the build directory."""
        return os.path.join(self.directory, *parts)

    def run(
        self,
        *words: str,
        environment: Mapping[str, str] | None = None,
        directory: str | None = None,
    ) -> None:
        """Run one command; the step ends where it fails."""
        self._building.run(self._step, words, environment or {}, directory)

    def run_all(self, commands: Sequence[Sequence[str]], directory: str) -> None:
        """Run commands that need nothing of each other."""
        with ThreadPoolExecutor(self._building.jobs) as pool:
            for done in [pool.submit(self.run, *one, directory=directory) for one in commands]:
                done.result()

    def fail(self, what: str) -> BuildError:
        """The error of a step that no command of it has."""
        kept = sorted(self._building.finished())
        step = self._step
        return BuildError(f"step {step.name!r} ({step.what}) failed: {what}\n{remedy(step, kept)}")
