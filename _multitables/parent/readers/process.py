"""Reader processes: how they are started, ended and waited for.

Law
---
1. Readers that are started together are one client of the disk to the kernel
   (the core's os/spawn.rs); one that replaces a dead one is another.
2. A process is reaped once, and never signalled after that.
3. A process is owned from the instant that it exists (the core's os/child.rs): nothing stays
   of a start or an end that is interrupted.
4. Nobody else starts or signals a process.
5. A process that outlives this one holds nothing of this one's: no terminal, no standard error.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import socket
from collections.abc import Sequence

from _multitables import _core, machine
from _multitables.errors import ReaderDiedError, advice_for
from _multitables.machine import python_arguments, python_environment, python_program
from _multitables.remote import client

#: A child of this process, which dies with the last reference to it.
Process = _core.Child
#: The status of one that was killed.
KILLED = -signal.SIGKILL
#: Seconds that readers which were killed get to end. One that a device keeps in the kernel is left
#: alone then, and reaped when it ends.
END_SECONDS = 1.0

#: ``python -m _multitables.reader``, but whatever lies in the working directory is not imported.
READER = (
    "import sys; sys.path[:] = filter(None, sys.path); "
    "from _multitables.reader.__main__ import main; main()"
)

#: What to do where the system starts no process; where it refuses to, see machine.py.
_ADVICE = {
    **dict.fromkeys((errno.ENOENT, errno.ENOTDIR, errno.ENOEXEC, errno.EACCES), machine.NAME_IT),
    errno.EAGAIN: "Fewer n_procs need fewer processes; `ulimit -u`, or a container's pids limit, "
    "says how many there may be",
    errno.ENOMEM: "Fewer n_procs need less memory",
}


def how_it_ended(status: int) -> str:
    """``was killed by SIGKILL`` or ``exited with status 1``."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}"


def start(count: int) -> list[Process]:
    """Start readers.

    Raises
    ------
    ReaderDiedError
        The system starts no process, or not as many; none is left.
    """
    executable = python_program()
    # No site (-S): the parent's own path says where everything is, and the start is faster.
    words = map(os.fsencode, [executable, *python_arguments()])
    command = [*words, b"-S", b"-c", READER.encode(), b"3", b"%d" % os.getpid()]
    if client.is_expected:
        command.append(b"stores")
    try:
        return _core.start_together(os.fsencode(executable), command, _environment(), count)
    except OSError as error:
        raise _cannot_start(count, executable, error) from None


def poll(process: Process) -> int | None:
    """Return the exit status of a reader, negative for a signal; None while it runs.

    Raises
    ------
    ReaderDiedError
        The system does not tell.
    """
    try:
        return process.poll()
    except OSError as error:
        raise ReaderDiedError(
            f"the system does not tell whether reader process {process.pid} runs: {error.strerror}",
            advice=advice_for(error, ""),
            pid=process.pid,
        ) from None


def end_all(processes: list[Process]) -> bool:
    """End processes, and wait for those that can end; returns whether all have."""
    return _core.end_children(processes, END_SECONDS)


def start_alone(
    code: str, kept: socket.socket, arguments: Sequence[str], said: str, seconds: float
) -> None:
    """Run Python code that leaves a detached process behind within `seconds`.

    Its first argument is the number of a copy of a socket, which it keeps, and `said` its standard
    input, since anyone may see a command line.

    Raises
    ------
    ReaderDiedError
        It was not started, or failed before it left.
    """
    import subprocess

    executable = python_program()
    code = f"import os; os.environ.pop({machine.STARTED_BY!r}, None); {code}"  # it starts readers
    # A copy, since the socket may have the number of a standard input that was closed.
    own = _core.Descriptor.copy_of(kept.fileno())
    number = own.fileno()
    command = [executable, *python_arguments(), "-S", "-c", code, str(number), *arguments]
    try:
        done = subprocess.run(
            command,
            input=said,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=python_environment(),
            pass_fds=[number],
            timeout=seconds,
            check=False,
        )
    except OSError as error:
        raise _cannot_start(1, executable, error) from None
    except subprocess.TimeoutExpired:
        how = f"did not start within {seconds:g} s"
    else:
        if not done.returncode:
            return
        last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
        how = f"{how_it_ended(done.returncode)}: {last}"
    finally:
        own.close()
    raise ReaderDiedError(
        f"the process that hosts the readers of this node {how}", executable=executable
    )


def leave_parent() -> None:
    """Detach this process from its parent, which may go on now, and from its terminal."""
    if os.fork():
        os._exit(0)
    with contextlib.suppress(OSError):  # where it is refused, Ctrl-C in the terminal reaches it
        os.setsid()
    nothing = os.open(os.devnull, os.O_RDWR)
    for standard in range(3):
        os.dup2(nothing, standard)


def _environment() -> list[bytes]:
    return [os.fsencode(f"{name}={value}") for name, value in python_environment().items()]


def _cannot_start(count: int, executable: str, error: OSError) -> ReaderDiedError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    return ReaderDiedError(
        f"{count} reader process{'es' if count > 1 else ''} of {executable!r} cannot be started: "
        f"{reason}",
        advice=advice_for(error, "", _ADVICE),
        errno=error.errno,
        executable=executable,
    )
