"""Schedules: a reading, a fault and a moment, each drawn from a seed and its number.

Law
---
1. A number goes through the table of faults and readings; its moment is random, and the same for
   equal seeds, so any schedule can be run again by itself.
2. As a program it runs the schedules that it reads from stdin, one after the other, and says how
   each ended. `Runner` starts such programs, ends them as a fault says, and judges.
3. Each schedule ends with an audit: no process, descriptor, thread or mapping is left over, nothing
   was printed, and all within `DEADLINE_SECONDS`.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import failing_calls
import readings
from moments import FAULTS, MARK, Fault, Scene, marked, with_mark
from plain_server import PlainServer, plain_server
from processes import Holdings, environment, kill, leaks

DEADLINE_SECONDS = 40.0
#: What a program that was killed leaves behind must end within this time.
END_SECONDS = 10.0


@dataclass(frozen=True)
class Schedule:
    """What happens to which reading; `random` draws the moment."""

    number: int
    fault_name: str
    reading: str
    random: random.Random

    @classmethod
    def of(cls, seed: int, number: int) -> Schedule:
        """Return the schedule of this number: neighbours have different faults."""
        rows = sorted(FAULTS)
        at = number + seed % len(rows)
        name = rows[at % len(rows)]
        fitting = [reading for reading in readings.READINGS if FAULTS[name].is_for(reading)]
        reading = fitting[(at // len(rows) + at % len(rows) + seed) % len(fitting)]
        return cls(number, name, reading, random.Random(f"{seed} {number}"))

    @property
    def fault(self) -> Fault:
        """Its row of the table."""
        return FAULTS[self.fault_name]


# ---- the program that reads


class Reading:
    """Runs schedules in this process."""

    def __init__(self, folder: Path, server: PlainServer) -> None:
        self._folder, self._server = folder, server
        self._control = failing_calls.Control()
        #: Steps and calls of each reading where nothing fails.
        self._sizes: dict[str, tuple[int, dict[tuple[str, str], int]]] = {}

    def _place(self, reading: str) -> readings.Place:
        """Copy the reading's file, and reset the server."""
        kind = readings.READINGS[reading][0]
        for source in self._folder.glob(f"{kind}.*"):
            shutil.copy(source, self._folder / "copy" / source.name)
        self._server.objects.clear()
        self._server.etag, self._server.status = '"1"', lambda _: 0
        return readings.Place(self._folder / "copy" / f"{kind}.h5", self._server)

    def size(self, reading: str) -> tuple[int, dict[tuple[str, str], int]]:
        """Read once without a fault, and a second time to count."""
        if reading not in self._sizes:
            for _ in range(2):
                place = self._place(reading)
                self._control.arm()
                steps = sum(1 for _ in readings.READINGS[reading][1](place))
            self._sizes[reading] = steps, self._control.counts()
        return self._sizes[reading]

    def run(self, schedule: Schedule) -> dict[str, Any]:
        """Read, let it happen, and say how it ended."""
        steps, counts = self.size(schedule.reading)
        fault, draw = schedule.fault, schedule.random
        before = Holdings.now()
        place = self._place(schedule.reading)
        self._control.arm()
        scene = Scene(place, draw, self._control, counts)
        moment = 0 if fault.begins else draw.randrange(steps)
        later = threading.Timer(draw.random() * 0.004, fault.act, (scene,))
        ended: dict[str, Any] = {"end": "right", "named": True, "text": ""}
        try:
            try:
                for step, _ in enumerate(self._steps(schedule, place, scene, moment, later)):
                    del step
            finally:
                if later.ident is not None:
                    later.join()
        except BaseException as error:
            # An error of a library in a reader is also one of that library's.
            ended["end"] = type(error).__name__.partition("[")[0]
            ended["named"] = isinstance(error, readings.multitables.MultitablesError)
            ended["text"] = str(error) if ended["named"] else traceback.format_exc()
        ended["failed"] = self._control.failed()
        self._control.arm()
        ended["left"] = leaks(before, 5.0)
        ended["others"] = self._others()
        return ended

    def _steps(
        self,
        schedule: Schedule,
        place: readings.Place,
        scene: Scene,
        moment: int,
        later: threading.Timer,
    ) -> Iterator[None]:
        fault = schedule.fault
        if moment == 0 and not fault.soon:
            self._act(schedule, scene)
        with contextlib.closing(readings.READINGS[schedule.reading][1](place)) as steps:
            for step, _ in enumerate(steps):
                if step == moment and fault.soon:
                    later.start()
                elif step + 1 == moment:
                    self._act(schedule, scene)
                yield

    def _act(self, schedule: Schedule, scene: Scene) -> None:
        if schedule.fault.parent:
            print(json.dumps({"moment": True}), flush=True)
        schedule.fault.act(scene)

    def _others(self) -> list[str]:
        """Processes of this program that outlive what they were for."""
        deadline = time.monotonic() + 5.0
        while found := [line for pid, line in marked() if pid != os.getpid()]:
            if time.monotonic() > deadline:
                return found
            time.sleep(0.01)
        return []


def main(folder: Path, seed: int) -> None:
    """Run the schedules that stdin names."""
    # nohup ignores the one, and a shell's background the other; programs inherit that.
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with plain_server() as server:
        reading = Reading(folder, server)
        reading.size("remote")  # its client's threads stay
        for line in sys.stdin:
            ended = reading.run(Schedule.of(seed, int(line)))
            print(json.dumps(ended), flush=True)


# ---- who starts it, and judges


@dataclass(frozen=True)
class Verdict:
    """How a schedule ended, and what is wrong with that."""

    schedule: Schedule
    end: str
    wrong: str = ""

    def __str__(self) -> str:
        what = self.schedule
        text = (
            f"schedule {what.number}: {what.fault_name!r} while {what.reading!r} reads: {self.end}"
        )
        return f"{text}\n    {self.wrong}" if self.wrong else text


@dataclass
class Runner:
    """A program that runs schedules, started again when one has ended it."""

    folder: Path
    seed: int
    _process: subprocess.Popen[str] | None = None
    _said: int = 0
    _unread: bytes = b""
    _mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    _variables: dict[str, str] = field(default_factory=dict)

    def __enter__(self) -> Runner:
        self.folder.mkdir(exist_ok=True)
        (self.folder / "copy").mkdir()
        readings.write(self.folder)
        self._variables = failing_calls.preloaded(self.folder)
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def run(self, number: int) -> Verdict:
        """Run one schedule to its end."""
        schedule = Schedule.of(self.seed, number)
        process = self._started()
        assert process.stdin is not None
        process.stdin.write(f"{number}\n")
        process.stdin.flush()
        heard = self._hear(DEADLINE_SECONDS)
        if heard and heard.get("moment"):
            time.sleep(schedule.random.random() * 0.004)
            for signal_number in schedule.fault.parent:
                kill(process.pid, signal_number)
                if signal_number == signal.SIGSTOP:
                    time.sleep(0.1)
            if signal.SIGCONT not in schedule.fault.parent:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(DEADLINE_SECONDS)
                    return Verdict(schedule, "ended", self._left())
                return Verdict(schedule, "no end", self._why())
            heard = self._hear(DEADLINE_SECONDS)
        if heard is None:
            return Verdict(schedule, "no end", self._why())
        met = heard["end"] != "right" or not schedule.fault.is_call or heard["failed"]
        return Verdict(schedule, heard["end"] if met else "not met", self._judged(schedule, heard))

    def _judged(self, schedule: Schedule, heard: dict[str, Any]) -> str:
        wrong = []
        fault = schedule.fault
        if heard["end"] != "right":
            is_allowed = heard["end"] in fault.ends
            if not is_allowed or not (heard["named"] or heard["end"] == "KeyboardInterrupt"):
                wrong.append(heard["text"])
        if heard["left"] or heard["others"]:
            wrong.append(f"left behind: {heard['left']} {heard['others']} {heard['text']}")
        said = self._printed()
        if said and not fault.prints:
            wrong.append(f"printed: {said}")
        return "; ".join(wrong)

    # ---- the process

    def _started(self) -> subprocess.Popen[str]:
        if self._process is None or self._process.poll() is not None:
            self._end()
            variables = {**environment(), **self._variables, MARK: self._mark}
            errors = open(self.folder / "stderr", "wb")  # noqa: SIM115 - the process has it
            with errors:
                self._process = subprocess.Popen(
                    [sys.executable, "-X", "faulthandler", "-W", "error", __file__,
                     str(self.folder), str(self.seed)],
                    env=variables,
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True,
                    start_new_session=True,
                )  # fmt: skip
            self._said, self._unread = 0, b""
        return self._process

    def _hear(self, seconds: float) -> dict[str, Any] | None:
        """The next line of the program; None if none comes."""
        assert self._process is not None
        assert self._process.stdout is not None
        pipe = self._process.stdout.fileno()  # a file's buffer may have a line that no select sees
        while b"\n" not in self._unread:
            ready, _, _ = select.select([pipe], [], [], seconds)
            piece = os.read(pipe, 1 << 16) if ready else b""
            if not piece:
                return None
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return dict(json.loads(line))

    def _printed(self) -> str:
        text = (self.folder / "stderr").read_text(errors="replace")
        new, self._said = text[self._said :], len(text)
        return new

    def _why(self) -> str:
        """End a program that hangs, or that died; say where it stood."""
        assert self._process is not None
        if self._process.poll() is None:
            kill(self._process.pid, signal.SIGABRT)  # faulthandler prints where it is
            self._process.wait(DEADLINE_SECONDS)
            return f"not within {DEADLINE_SECONDS} s: {self._printed()} {self._end()}"
        return f"it died with status {self._process.returncode}: {self._printed()} {self._end()}"

    def _left(self) -> str:
        """What is left of a program that was killed."""
        deadline = time.monotonic() + END_SECONDS
        mark = f"{MARK}={self._mark}".encode()
        while found := list(with_mark(mark)):
            if time.monotonic() > deadline:
                self._end()
                return f"processes that go on without it: {found}"
            time.sleep(0.01)
        return ""

    def _end(self) -> str:
        """End the program, and all that carry its mark."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        found = []
        for pid, line in with_mark(f"{MARK}={self._mark}".encode()):
            found.append(line)
            kill(pid)
        self._mark = uuid.uuid4().hex
        return f"still there: {found}" if found else ""


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
