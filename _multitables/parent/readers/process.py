"""Reader processes: how they are started, ended and waited for.

Law
---
1. Readers that are started together are one client of the disk to the kernel
   (core/src/os/spawn.rs); one that replaces a dead one is another.
2. A process is reaped once, and never signalled after that.
3. Whatever interrupts a start, nothing of it stays.
4. Nobody else starts or signals a process.
5. A process that outlives this one holds nothing of this one's: no terminal, no standard error.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import signal
import socket
import threading
from collections.abc import Sequence

from _multitables import _core, machine
from _multitables.errors import ReaderDiedError, advice_for
from _multitables.machine import python_arguments, python_environment, python_program
from _multitables.remote import client

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


class Process:
    """A child of this process."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._status: int | None = None
        self._ends_by_itself = False
        # Garbage is collected in the middle of a call, and may call again.
        self._lock = threading.RLock()

    def poll(self) -> int | None:
        """Its exit status, negative for a signal; None while it runs.

        Raises
        ------
        ReaderDiedError
            The system does not tell.
        """
        try:
            return self._reap(os.WNOHANG)
        except OSError as error:
            raise ReaderDiedError(
                f"the system does not tell whether reader process {self.pid} runs: "
                f"{error.strerror}",
                advice=advice_for(error, ""),
                pid=self.pid,
            ) from None

    def wait(self) -> int | None:
        """The same, when it has ended; None where that is not known."""
        if self._ends_by_itself:
            return None
        try:
            return self._reap(0)
        except OSError:
            return None

    def end(self) -> None:
        """End it at once, if it runs."""
        with self._lock:
            # What is not reaped, since the system refuses that, keeps its number.
            with contextlib.suppress(ReaderDiedError):
                if self.poll() is not None:
                    return
            try:
                os.kill(self.pid, signal.SIGKILL)
            except OSError:  # a sandbox refuses it; a reader ends with its control socket, too
                self._ends_by_itself = True

    def _reap(self, options: int) -> int | None:
        with self._lock:
            if self._status is not None:
                return self._status
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:
                # Somebody else has waited for it, or the user's program ignores SIGCHLD.
                if self._status is None:
                    self._status = 0
            else:
                if pid:
                    self._status = os.waitstatus_to_exitcode(status)
            return self._status


def how_it_ended(status: int) -> str:
    """``was killed by SIGKILL`` or ``exited with status 1``."""
    if status >= 0:
        return f"exited with status {status}"
    try:
        name = signal.Signals(-status).name
    except ValueError:
        name = f"signal {-status}"
    return f"was killed by {name}"


def start(count: int) -> list[tuple[Process, socket.socket]]:
    """Start readers, each with the socket that controls it.

    Raises
    ------
    ReaderDiedError
        The system starts no process, or not as many; none is left.
    """
    executable = python_program()
    pairs: list[tuple[socket.socket, socket.socket]] = []
    processes: list[Process] = []
    try:
        pairs.extend(_pair() for _ in range(count))
        calls = [(_command(executable, theirs), theirs.fileno()) for _, theirs in pairs]
        # A session of its own: Ctrl-C in the terminal is the parent's to handle. Blocked in the
        # child too, which for a moment is not yet in its session.
        mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            pids = _core.start_together(os.fsencode(executable), calls, _environment())
            processes += map(Process, pids)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    except BaseException as error:
        for ours, _ in pairs:
            ours.close()
        for process in processes:  # Ctrl-C came when its mask fell
            process.end()
            process.wait()
        if isinstance(error, OSError):
            raise _cannot_start(count, executable, error) from None
        raise
    finally:
        for _, theirs in pairs:
            theirs.close()
    return [(process, ours) for process, (ours, _) in zip(processes, pairs, strict=True)]


def start_alone(
    code: str, kept: socket.socket, arguments: Sequence[str], said: str, seconds: float
) -> None:
    """Run Python code that leaves a detached process behind within `seconds`.

    Its first argument is the number of a socket that it keeps, and `said` its standard input, since
    anyone may see a command line.

    Raises
    ------
    ReaderDiedError
        It was not started, or failed before it left.
    """
    import subprocess

    executable = python_program()
    code = f"import os; os.environ.pop({machine.STARTED_BY!r}, None); {code}"  # it starts readers
    kept = _above_standard(kept)
    command = [executable, *python_arguments(), "-S", "-c", code, str(kept.fileno()), *arguments]
    try:
        done = subprocess.run(
            command,
            input=said,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            env=python_environment(),
            pass_fds=[kept.fileno()],
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
        kept.close()
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


def _pair() -> tuple[socket.socket, socket.socket]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        ours = _above_standard(ours)
        return ours, _above_standard(theirs)
    except BaseException:
        ours.close()
        theirs.close()
        raise


def _above_standard(one: socket.socket) -> socket.socket:
    """Let no socket be the standard input or output that the user's program has closed."""
    if one.fileno() > 2:
        return one
    with one:
        return socket.socket(fileno=fcntl.fcntl(one, fcntl.F_DUPFD_CLOEXEC, 3))


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


def _command(executable: str, theirs: socket.socket) -> list[bytes]:
    # No site (-S): the parent's own path says where everything is, and the start is faster.
    numbers = [str(theirs.fileno()).encode(), str(os.getpid()).encode()]
    stores = [b"stores"] if client.is_expected else []
    words = map(os.fsencode, [executable, *python_arguments()])
    return [*words, b"-S", b"-c", READER.encode(), *numbers, *stores]
