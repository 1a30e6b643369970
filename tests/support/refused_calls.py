"""What the library does where the kernel refuses a system call, as in sandboxes.

Law
---
1. A row is a system call and an error; a way is one of the library's entry points. A child reads a
   file in that way, and from its filter on the kernel answers the call with the error: to the
   child, and to all that it starts. The row HIDDEN is /proc with nothing in it.
2. What is right: the file's data, or an error of the library's, and no process left. What is wrong:
   anything else, and what takes longer than DEADLINE_SECONDS.
3. The whole of the library is imported before the filter stands: without some calls Python itself
   imports nothing. Without those of NEEDED neither Python nor the C library works; there a death is
   right, too. One of them is brk: the kernel answers it with an address and never with an error, so
   that glibc takes the error's number for the end of a heap that has grown, and writes behind it.
4. Run as a program it reads rows as JSON, and prints a line of JSON for each row and way. Tests
   and tools call `outcomes`, which does so in another process: theirs must never fork.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import platform
import signal
import struct
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

DEADLINE_SECONDS = 20.0
ERRORS = ("ENOSYS", "EPERM")
HIDDEN = "/proc"
NEEDED = ("brk", "close", "futex", "mmap")
#: Calls that old kernels, or gVisor, lack together.
TOGETHER = {
    "old kernel": (
        "madvise", "io_uring_setup", "io_uring_enter", "io_uring_register", "pidfd_open", "clone3",
        "close_range", "statx", "preadv2", "mbind", "ioprio_set", "ioprio_get",
    )
}  # fmt: skip
ROWS = 3000
#: Bytes for what a child says, which may not be able to write.
SAID_BYTES = 1 << 16

#: What the library calls, itself or through Python and the C library: its number on x86-64.
CALLS = {
    "read": 0, "write": 1, "close": 3, "stat": 4, "fstat": 5, "lstat": 6, "poll": 7, "lseek": 8,
    "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "rt_sigaction": 13, "rt_sigprocmask": 14,
    "ioctl": 16, "pread64": 17, "pwrite64": 18, "access": 21, "select": 23, "sched_yield": 24,
    "mremap": 25, "madvise": 28, "dup": 32, "dup2": 33, "nanosleep": 35, "getpid": 39,
    "socket": 41, "connect": 42, "accept": 43, "sendto": 44, "recvfrom": 45, "sendmsg": 46,
    "recvmsg": 47, "shutdown": 48, "bind": 49, "listen": 50, "getsockname": 51, "socketpair": 53,
    "setsockopt": 54, "getsockopt": 55, "clone": 56, "fork": 57, "vfork": 58, "execve": 59,
    "wait4": 61, "kill": 62, "uname": 63, "fcntl": 72, "flock": 73, "ftruncate": 77, "getcwd": 79,
    "rename": 82, "mkdir": 83, "unlink": 87, "readlink": 89, "chmod": 90, "sysinfo": 99,
    "getuid": 102, "getppid": 110, "setsid": 112, "sigaltstack": 131, "prctl": 157,
    "gettid": 186, "futex": 202, "sched_setscheduler": 144, "sched_getaffinity": 204,
    "epoll_create": 213, "getdents64": 217, "fadvise64": 221, "clock_gettime": 228,
    "clock_nanosleep": 230, "epoll_wait": 232, "tgkill": 234, "mbind": 237, "ioprio_set": 251,
    "ioprio_get": 252, "openat": 257, "newfstatat": 262, "ppoll": 271, "fallocate": 285,
    "accept4": 288, "eventfd2": 290, "epoll_create1": 291, "dup3": 292, "pipe2": 293,
    "preadv": 295, "prlimit64": 302, "getrandom": 318, "memfd_create": 319, "preadv2": 327,
    "statx": 332, "io_uring_setup": 425, "io_uring_enter": 426, "io_uring_register": 427,
    "pidfd_open": 434, "clone3": 435, "close_range": 436,
}  # fmt: skip


def refuse(numbers: Sequence[int], error: int) -> None:
    """Have the kernel answer system calls with an error from now on."""
    # Classic BPF: load the call's number; where it is not one of ours, skip what answers.
    steps, answer, allow = [(0x20, 0, 0, 0)], 0x00050000 | error, 0x7FFF0000
    for number in numbers:
        steps += [(0x15, 0, 1, number), (6, 0, 0, answer)]
    steps.append((6, 0, 0, allow))
    code = b"".join(struct.pack("HBBI", *step) for step in steps)

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_char_p))

    program = Program(len(steps), code)
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    no_new_privileges, set_filter, mode = 38, 22, 2
    for call in ((no_new_privileges, 1, 0, 0, 0), (set_filter, mode, ctypes.byref(program), 0, 0)):
        if prctl(*call) != 0:
            raise OSError(ctypes.get_errno(), "no seccomp")


def _open(path: str) -> int:
    import multitables

    with multitables.open(path) as file:
        return int(file["x"][::2].sum()) + int(file["x"][1::2].sum())


def _queue(path: str, **options: object) -> int:
    import multitables

    with multitables.Streamer(path, **options) as streamer:  # type: ignore[arg-type]
        return sum(int(row) for row in streamer.get_generator("/x", n_procs=1))


def _direct(path: str) -> int:
    return _queue(path, DRIVER="H5FD_DIRECT")


def _reader(path: str) -> int:
    import multitables

    with multitables.Reader(path, n_procs=1) as reader:
        return int(reader.request(reader.get_dataset("/x")[:]).get().sum())


def _node(path: str) -> int:
    import multitables

    options: dict[str, Any] = {"share": "node", "rank": 0, "world_size": 1, "n_procs": 1}
    with multitables.Streamer(path) as streamer, streamer.get_batches("/x", 100, **options) as all_:
        return sum(int(batch.sum()) for batch in all_)


WAYS: dict[str, Callable[[str], int]] = {
    "open": _open,
    "queue": _queue,
    "direct": _direct,
    "reader": _reader,
    "node": _node,
}


def file_in(folder: Path) -> Path:
    """The file that is read."""
    import h5py
    import numpy as np

    path = folder / "numbers.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=np.arange(ROWS), chunks=(100,), compression="gzip")
    return path


def cannot_refuse() -> str:
    """Why no row can be tried on this machine, or nothing."""
    return "" if platform.machine() == "x86_64" else "the numbers of system calls are x86-64's"


def outcomes(
    path: Path, rows: Sequence[tuple[str, str]], ways: Sequence[str] = tuple(WAYS)
) -> Iterator[dict[str, Any]]:
    """What comes of each row in each way: its `kind`, whether it `is_right`, and what it `said`."""
    command = [sys.executable, __file__, str(path), json.dumps([list(rows), list(ways)])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield from map(json.loads, process.stdout)
    assert process.returncode == 0


def _hide_proc() -> None:
    """Put an empty folder over /proc, for this process and what it starts."""
    new_mounts, private = 0x00020000, 1 << 18 | 1 << 14
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(new_mounts) != 0:
        raise OSError(ctypes.get_errno(), "no mounts of its own")
    assert libc.mount(b"none", b"/", None, private, None) == 0
    assert libc.mount(b"none", b"/proc", b"tmpfs", 0, None) == 0
    os.environ["HDF5_USE_FILE_LOCKING"] = "FALSE"  # then open files are looked for there


def _read(way: str, path: str, call: str, error: str) -> tuple[str, str]:
    """In a child: what comes of it."""
    import multitables

    quiet = os.open(os.devnull, os.O_RDWR)
    for standard in (0, 1) if os.environ.get("SHOW") else (0, 1, 2):
        os.dup2(quiet, standard)
    if call == HIDDEN:
        _hide_proc()
        refuse([CALLS["close_range"]], errno.ENOSYS)  # so that nothing lists what readers close
    else:
        refuse([CALLS[one] for one in TOGETHER.get(call, [call])], getattr(errno, error))
    try:
        got = WAYS[way](path)
    except multitables.MultitablesError as failure:
        return "named", f"{type(failure).__name__}: {failure}"
    except BaseException as failure:
        lines = traceback.format_exc().splitlines()
        return "foreign", "\n".join([f"{type(failure).__name__}: {failure}", *lines[-9:-1]])
    return "data" if got == ROWS * (ROWS - 1) // 2 else "wrong", str(got)


def _try(way: str, path: str, call: str, error: str) -> tuple[str, str]:
    with mmap.mmap(-1, SAID_BYTES) as room:  # shared with the child
        child = os.fork()
        if child == 0:
            try:
                text = json.dumps(_read(way, path, call, error)).encode()[: SAID_BYTES - 1]
                room[: len(text)] = text
            finally:
                os._exit(0)
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not (ended := os.waitpid(child, os.WNOHANG))[0] and time.monotonic() < deadline:
            time.sleep(0.002)
        if not ended[0]:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        left, said = _left(), room[:].rstrip(b"\0")
    if not ended[0]:
        return "hung", said.decode()
    if not said:
        return "died", f"status {ended[1]}"
    kind, text = json.loads(said)
    return ("left", f"{left} processes; {kind}: {text}") if left else (kind, text)


def _left() -> int:
    """Processes that the child left for longer than a node's host may stay; they end here."""
    deadline = time.monotonic() + 8
    while True:
        try:
            found, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return 0
        if found == 0:
            if time.monotonic() > deadline:
                break
            time.sleep(0.002)
    own = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    for pid in own:
        os.kill(int(pid), signal.SIGKILL)
        os.waitpid(int(pid), 0)
    return len(own)


def _import_everything() -> None:
    import importlib
    import pkgutil

    import _multitables
    import multitables

    for name in multitables.__all__:
        getattr(multitables, name)
    others = tuple(f"_multitables.{name}" for name in ("adapters", "benchmark", "reader"))
    for module in pkgutil.walk_packages(_multitables.__path__, "_multitables."):
        if not module.name.startswith(others):
            importlib.import_module(module.name)


def _main() -> None:
    path, (rows, ways) = sys.argv[1], json.loads(sys.argv[2])
    _import_everything()
    be_subreaper = 36
    assert ctypes.CDLL(None).prctl(be_subreaper, 1, 0, 0, 0) == 0
    for call, error in rows:
        for way in ways:
            begin = time.monotonic()
            kind, said = _try(way, path, call, error)
            is_right = kind in ("data", "named") or (call in NEEDED and kind != "wrong")
            found = {"call": call, "error": error, "way": way, "kind": kind, "said": said}
            seconds = round(time.monotonic() - begin, 1)
            print(json.dumps({**found, "is_right": is_right, "seconds": seconds}), flush=True)


if __name__ == "__main__":
    _main()
