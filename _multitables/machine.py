"""What this machine has: the cores and the memory that the process may use, and Python's program.

Law
---
1. Limits are those of the machine and of every control group that the process is in; the core
   reads them (the core's os/limits.rs). Groups' limits change: they are remembered for a second at
   most.
2. What the kernel does not tell is no limit, never an error.
3. A program that is not Python is not started for it, or at most once: never a chain of programs
   that start themselves. What is started has `STARTED_BY` in its environment, and starts nothing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

import _multitables
from _multitables import _core
from _multitables.errors import OptionsError, ReaderDiedError, public

#: What gives back what other files keep, for `release_memory`.
RELEASES: list[Callable[[], None]] = []
#: Memory that rings and stages leave to others, if that is no more than a quarter.
SPARED_BYTES = 256 << 20

#: The variable that a program finds which was started for Python: the process that did so.
STARTED_BY = "MULTITABLES_STARTED_BY"
#: What to do where it is not known how Python is started.
NAME_IT = (
    "Name a Python {}.{} with multitables.set_reader_command('/path/of/python{}.{}')"
).format(*2 * sys.version_info[:2])

#: What `set_reader_command` was given.
_command: list[str] = []


def available_cores() -> int:
    """Cores that this process may use: its own, or what quotas allow where that is less."""
    return _core.available_cores()


def available_bytes() -> int:
    """Memory that the machine and the groups of this process have to give."""
    return _core.available_bytes()


def memory_limit_bytes() -> int:
    """Bytes that a ring or all stages may have: what there is to have, less 1/8.

    The kernel charges shared memory to no process: when it takes everything, others are killed.
    """
    limit = available_bytes()
    return limit - max(limit // 8, min(limit // 4, SPARED_BYTES))


@public
def release_memory() -> None:
    """Give back the memory that is kept for more reading, and end the threads that wait for it.

    The memory of a stream that has ended serves the next one, and that of a large result of
    `multitables.open` the next result: new memory takes longer to prepare than to fill. Of streams
    64 MiB are kept at most, and 1/32 of the memory that there is; they are given back by themselves
    when no stream has run for some seconds. Of results 1 GiB is kept at most, and the kernel takes
    it when it needs it. Files that were closed within the last seconds are forgotten, too. Streams
    that run, blocks and results that you hold are not touched.

    Examples
    --------
    >>> import multitables
    >>> multitables.release_memory()
    """
    for release in RELEASES:
        release()
    _core.release_memory()


@public
def set_reader_command(command: str | Sequence[str] | None) -> None:
    """Say how Python is started for reader processes, where `sys.executable` does not.

    A frozen program (PyInstaller, cx_Freeze) and a program that embeds Python name themselves in
    `sys.executable`: started as a reader, such a program would begin anew. Name a Python of the
    same version; it finds modules where this process finds them.

    Parameters
    ----------
    command : str or sequence of str, or None
        A path of Python, or the words of a command that takes Python's options behind them, as in
        ``["/usr/bin/env", "python3.12"]``. It must become Python (exec), not start another process.
        None goes back to what the library finds by itself.

    Raises
    ------
    OptionsError
        It is empty, not text, or there is no such program.

    Examples
    --------
    >>> import sys
    >>> import multitables
    >>> multitables.set_reader_command(sys.executable)
    >>> multitables.set_reader_command(None)
    """
    global _command
    if command is None:
        _command = []
        return
    words: Any = [command] if isinstance(command, str) else command
    if not (isinstance(words, Sequence) and words and all(isinstance(one, str) for one in words)):
        raise _wrong_command("must be a text, or a sequence of texts", command)
    import shutil

    program = shutil.which(words[0])
    if program is None:
        raise _wrong_command("names no program that can be run", command)
    _command = [os.path.abspath(program), *words[1:]]


def python_program() -> str:
    """Return the program that is started for Python, which its user may have named.

    Raises
    ------
    ReaderDiedError
        It is not known, as in a frozen program; or this program was started in its place.
    """
    if STARTED_BY in os.environ:
        raise ReaderDiedError(
            f"this program was started as a reader process of process {os.environ[STARTED_BY]}, "
            f"but does not run as Python does: {sys.executable!r}",
            good="It starts no readers of its own, which would go on for ever",
            advice=NAME_IT,
            executable=sys.executable,
        )
    if _command:
        return _command[0]
    spawn = sys.modules.get("multiprocessing.spawn")  # not imported: nothing was named
    own = sys.executable or ""
    named = os.fsdecode((spawn.get_executable() if spawn else None) or "")
    if named and named != own:
        return named
    if getattr(sys, "frozen", False):
        raise ReaderDiedError(
            f"no process can be started: this is a frozen program, and sys.executable names the "
            f"program itself, not Python: {own!r}",
            advice=NAME_IT,
            executable=own,
        )
    if "py" in os.path.basename(own).lower():
        return own
    name = "python{}.{}".format(*sys.version_info)
    folders = [os.path.join(prefix, "bin") for prefix in (sys.exec_prefix, sys.base_exec_prefix)]
    import shutil

    found = shutil.which(name, path=os.pathsep.join([*folders, os.environ.get("PATH", "")]))
    if found is None:
        raise ReaderDiedError(
            f"no process can be started: Python's program is not known (sys.executable is "
            f"{sys.executable!r}), and there is no {name} in {', '.join(folders)} or PATH",
            advice=NAME_IT,
            executable=sys.executable,
        )
    return found


def python_arguments() -> list[str]:
    """Return what stands behind that program, before Python's own options."""
    return _command[1:]


def python_environment() -> dict[str, str]:
    """Return the variables with which a child finds the modules that this process finds."""
    return {**os.environ, "PYTHONPATH": python_path(), STARTED_BY: str(os.getpid())}


def _wrong_command(happened: str, got: object) -> OptionsError:
    return OptionsError(
        f"the command of set_reader_command {happened}, got {got!r}",
        advice="Give the path of Python, as '/usr/bin/python3'",
        option="command",
        got=got,
    )


def python_path() -> str:
    """Return the PYTHONPATH of such a child."""
    paths = [os.path.abspath(path) for path in sys.path if path]
    root = os.path.dirname(os.path.dirname(os.path.abspath(_multitables.__file__)))
    return os.pathsep.join(paths if root in paths else [root, *paths])
