"""A reader process: hands its control socket to the core and serves until it closes.

Law
---
1. Started by the supervisor, in effect as ``python -m _multitables.reader SOCKET PARENT``.
2. Imports neither h5py, tables nor numpy until a task needs a library.
3. Knows nothing of queues or users; everything it is told comes through the socket.
"""

from __future__ import annotations

import contextlib
import os
import sys

from _multitables import _core


def _library_read(
    what: str, start: int, stop: int, out: memoryview, mark: memoryview | None
) -> None:
    """Read rows through an HDF5 library; imported here because most readers never need one."""
    from _multitables.reader.output import held

    with held():
        import json

        from _multitables.reader.library_read import library_read

        source = json.loads(what)
        library_read(
            source["library"],
            source["filename"],
            source["path"],
            source["field"],
            json.dumps(source["open_options"]),
            start,
            stop,
            out,
            mark,
        )


def _library_request(
    ask: memoryview, out: memoryview, mark: memoryview | None
) -> tuple[int, list[int]]:
    """Answer a request through an HDF5 library; imported here for the same reason."""
    from _multitables.reader.output import held

    with held():
        from _multitables.reader.library_request import library_request

        return library_request(ask, out, mark)


def main() -> None:
    """Serve the control socket named on the command line."""
    if len(sys.argv) != 3:
        sys.exit("multitables starts this program: python -m _multitables.reader SOCKET PARENT")
    # A reader that is woken must not push the parent off its core: the parent has little to do,
    # and readers wait for it. Same share of time; where it is not allowed, it is not needed.
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    _core.serve_reader(int(sys.argv[1]), int(sys.argv[2]), _library_read, _library_request)


if __name__ == "__main__":
    main()
