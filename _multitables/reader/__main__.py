"""A reader process: hands its control socket to the core and serves until it closes.

Law
---
1. Started by the supervisor, in effect as ``python -m _multitables.reader SOCKET PARENT``.
2. Imports neither h5py, tables nor numpy until a task needs a library, obstore only where objects
   of stores are expected, and of the standard library what is built in: a start counts.
3. Knows nothing of queues or users; everything it is told comes through the socket.
"""

import posix
import sys

from _multitables import _core


def _read(
    call: bytes | str, rows: tuple[int, int] | None, out: memoryview, mark: memoryview | None
) -> tuple[int, list[int]]:
    """Read through an HDF5 library; imported here because most readers never need one."""
    from _multitables.reader.output import held

    with held():
        from _multitables.reader.fallback import read

        return read(call, rows, out, mark)


def _plugins(number: int) -> list[str]:
    """Name the files that may have a filter which the core has not."""
    from _multitables.reader.plugins import files

    return files(number)


def main() -> None:
    """Serve the control socket named on the command line."""
    if len(sys.argv) not in (3, 4):
        sys.exit("multitables starts this program: python -m _multitables.reader SOCKET PARENT")
    if sys.argv[3:]:  # objects of stores will be read
        from _multitables.remote import client

        client.load()
    # A reader that is woken must not push the parent off its core: the parent has little to do,
    # and readers wait for it. Same share of time; where it is not allowed, it is not needed.
    try:  # noqa: SIM105 - to import contextlib takes a third of the start
        posix.sched_setscheduler(0, posix.SCHED_BATCH, posix.sched_param(0))
    except OSError:
        pass
    _core.serve_reader(int(sys.argv[1]), int(sys.argv[2]), _read, _plugins)


if __name__ == "__main__":
    main()
