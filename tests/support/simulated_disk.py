"""A folder whose files are read as slowly as a rotating disk reads: for tests, and to try things.

    python tests/simulated_disk.py --run -- COMMAND... {mount} ...

runs a command with the folder's path in place of ``{mount}``; see ``--help``.

Law
---
1. Files lie in a folder behind it, one after the other on one disk (disk_model.py). Only reading
   takes time; what is written is there at once.
2. A disk with pace 1 takes as long as a real one; with a smaller pace it does the same sooner, and
   with 0 it only counts. What it counts are always the disk's own seconds.
3. The folder belongs to who mounted it: it goes when its parent ends in any way, and when it dies
   itself the parent takes it away.
4. Requests wait for the disk in the order in which the kernel sends them. Nothing else ever waits
   for it.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import fuse_protocol as fuse
from block_device import NoDeviceError, scheduled
from disk_model import Asked, Disk, Figures
from fuse_protocol import Op

#: Files begin at multiples of this, so that a file's place does not depend on the last one's size.
EXTENT_BYTES = 1 << 20
SECTOR_BYTES = 512


class Spindle:
    """The one thing that turns: serves reads in its own thread, at its own pace."""

    def __init__(self, device: int, figures: Figures, pace: float) -> None:
        self._device = device
        self._pace = pace
        self._disk = Disk(figures)
        self._queue: list[tuple[Asked, int, int, int]] = []
        self._changed = threading.Condition()
        self._start = time.monotonic()
        self._requests = self._bytes = 0
        self._buffer = bytearray(fuse.MOST_BYTES)
        self._ended = False
        self._thread = threading.Thread(target=self._turn, name="spindle")
        self._thread.start()

    def ask(self, unique: int, descriptor: int, begin: int, offset: int, length: int) -> None:
        """Read bytes of an open file, which begins at byte `begin` of the disk."""
        with self._changed:
            asked = Asked(begin + offset, length, self._now())
            self._queue.append((asked, unique, descriptor, offset))
            self._changed.notify()

    def told(self) -> dict[str, float]:
        """What the disk has done since it was last asked."""
        with self._changed:
            told = {
                "busy_seconds": self._disk.busy_seconds,
                "requests": self._requests,
                "bytes": self._bytes,
                "moved": self._disk.moved,
            }
            self._disk.busy_seconds = self._disk.moved = self._requests = self._bytes = 0
        return told

    def end(self) -> None:
        """Serve nothing more."""
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()

    def _now(self) -> float:
        """Seconds of the disk; one that only counts has no other than its busy ones."""
        if self._pace == 0:
            return self._disk.at
        return (time.monotonic() - self._start) / self._pace

    def _turn(self) -> None:
        while True:
            with self._changed:
                waited = not self._queue
                while not self._queue and not self._ended:
                    self._changed.wait()
                if self._ended:
                    return
                # Who waits already is taken up when the last one is done, however late this thread
                # wakes; others when they come.
                now = self._now() if waited else self._disk.at
                index = self._disk.choose([one[0] for one in self._queue], now)
                asked, unique, descriptor, offset = self._queue.pop(index)
                done = self._disk.read(asked, max(now, asked.since) if waited else now)
            room = memoryview(self._buffer)[: asked.length]
            got = os.preadv(descriptor, [room], offset)
            if self._pace:
                left = self._start + done * self._pace - time.monotonic()
                if left > 0:
                    time.sleep(left)
            with self._changed:
                self._requests += 1
                self._bytes += got
            answer(self._device, unique, room[:got])


def answer(device: int, unique: int, body: bytes | memoryview = b"", error: int = 0) -> None:
    """Answer a request. One that was given up meanwhile is nobody's matter."""
    header = fuse.OUT_HEADER.pack(fuse.OUT_HEADER.size + len(body), -error, unique)
    with contextlib.suppress(FileNotFoundError):
        os.writev(device, [header, body])


class Folder:
    """The folder as the kernel sees it: passes on to the one behind it, all but reading."""

    def __init__(self, device: int, backing: Path, figures: Figures, pace: float) -> None:
        self._device = device
        self._paths = {fuse.ROOT: os.fsencode(backing)}
        #: The kernel's numbers of files, by their inodes: those are used again, these are not.
        self._nodes: dict[int, int] = {}
        self._next = fuse.ROOT + 1
        self._listed: dict[int, list[bytes]] = {}
        #: Where on the disk each file begins, by its inode; and of each open one.
        self._places: dict[int, int] = {}
        self._begins: dict[int, int] = {}
        self._direct: set[int] = set()
        self._free = 0
        self.spindle = Spindle(device, figures, pace)
        self._answers: dict[Op, Callable[[int, bytes], bytes]] = {
            Op.LOOKUP: self._lookup,
            Op.GETATTR: lambda node, _: fuse.attr_out(os.lstat(self._paths[node])),
            Op.SETATTR: self._setattr,
            Op.MKDIR: self._mkdir,
            Op.UNLINK: lambda node, body: self._remove(os.unlink, node, body),
            Op.RMDIR: lambda node, body: self._remove(os.rmdir, node, body),
            Op.RENAME: lambda node, body: self._rename(node, body, 8),
            Op.RENAME2: lambda node, body: self._rename(node, body, 16),
            Op.OPEN: self._open,
            Op.CREATE: self._create,
            Op.WRITE: self._write,
            Op.STATFS: self._statfs,
            Op.RELEASE: self._release,
            Op.FSYNC: lambda _node, _body: b"",
            Op.FSYNCDIR: lambda _node, _body: b"",
            Op.FLUSH: lambda _node, _body: b"",
            Op.INIT: lambda _, body: fuse.init_out(body),
            Op.OPENDIR: self._opendir,
            Op.READDIR: self._readdir,
            Op.RELEASEDIR: self._releasedir,
            Op.DESTROY: lambda _node, _body: b"",
        }

    def serve(self) -> None:
        """Answer requests until the folder is unmounted."""
        while True:
            try:
                message = os.read(self._device, fuse.MESSAGE_BYTES)
            except OSError as error:
                if error.errno in (errno.EINTR, errno.EAGAIN, errno.ENOENT):
                    continue
                return  # ENODEV: it is unmounted
            _, number, unique, node, *_ = fuse.IN_HEADER.unpack_from(message)
            body = message[fuse.IN_HEADER.size :]
            if number == Op.READ:
                self._read(unique, body)
            elif number not in fuse.SILENT:
                self._answer(number, unique, node, body)

    def _read(self, unique: int, body: bytes) -> None:
        """Let the disk answer; direct reads in whole sectors only, as of any file on a disk."""
        handle, offset, length, *_ = fuse.READ_IN.unpack_from(body)
        if handle in self._direct and (offset | length) % SECTOR_BYTES:
            answer(self._device, unique, error=errno.EINVAL)
            return
        self.spindle.ask(unique, handle, self._begins[handle], offset, length)

    def _answer(self, number: int, unique: int, node: int, body: bytes) -> None:
        found = self._answers.get(number)  # type: ignore[call-overload]
        if found is None:
            answer(self._device, unique, error=errno.ENOSYS)
            return
        try:
            told = found(node, body)
        except KeyError:
            answer(self._device, unique, error=errno.ESTALE)
        except OSError as error:
            answer(self._device, unique, error=error.errno or errno.EIO)
        else:
            answer(self._device, unique, told)

    # ---- names

    def _path(self, node: int, body: bytes) -> bytes:
        return self._paths[node] + b"/" + body.split(b"\0", 1)[0]

    def _node(self, path: bytes) -> tuple[int, os.stat_result]:
        """The kernel's number of a file, and what is known of it."""
        status = os.lstat(path)
        if status.st_ino not in self._nodes:
            self._nodes[status.st_ino] = self._next
            self._next += 1
        node = self._nodes[status.st_ino]
        self._paths[node] = path
        return node, status

    def _lookup(self, node: int, body: bytes) -> bytes:
        return fuse.entry(*self._node(self._path(node, body)))

    def _mkdir(self, node: int, body: bytes) -> bytes:
        path = self._path(node, body[8:])
        os.mkdir(path)
        return fuse.entry(*self._node(path))

    def _remove(self, how: Callable[[bytes], None], node: int, body: bytes) -> bytes:
        path = self._path(node, body)
        status = os.lstat(path)
        how(path)
        self._forget(status)
        return b""

    def _forget(self, status: os.stat_result) -> None:
        """A file has one name less."""
        if status.st_nlink == 1 or stat.S_ISDIR(status.st_mode):
            self._nodes.pop(status.st_ino, None)
            self._places.pop(status.st_ino, None)

    def _rename(self, node: int, body: bytes, skip: int) -> bytes:
        old, new, *_ = body[skip:].split(b"\0")
        before, after = self._path(node, old), self._path(int.from_bytes(body[:8], "little"), new)
        with contextlib.suppress(FileNotFoundError):
            self._forget(os.lstat(after))
        os.rename(before, after)
        for known, path in self._paths.items():
            if path == before or path.startswith(before + b"/"):
                self._paths[known] = after + path[len(before) :]
        return b""

    def _setattr(self, node: int, body: bytes) -> bytes:
        path = self._paths[node]
        valid, _, _, size, _, atime, mtime, _, atime_ns, mtime_ns, _, mode, *_ = (
            fuse.SETATTR_IN.unpack_from(body)
        )
        if valid & fuse.SET_SIZE:
            os.truncate(path, size)
        if valid & fuse.SET_MODE:
            os.chmod(path, mode & 0o7777)
        if valid & (fuse.SET_ATIME | fuse.SET_MTIME):
            status, now = os.lstat(path), time.time_ns()
            times = [status.st_atime_ns, status.st_mtime_ns]
            if valid & fuse.SET_ATIME:
                times[0] = now if valid & fuse.SET_ATIME_NOW else atime * 10**9 + atime_ns
            if valid & fuse.SET_MTIME:
                times[1] = now if valid & fuse.SET_MTIME_NOW else mtime * 10**9 + mtime_ns
            os.utime(path, ns=(times[0], times[1]))
        return fuse.attr_out(os.lstat(path))

    def _statfs(self, node: int, body: bytes) -> bytes:
        found = os.statvfs(self._paths[fuse.ROOT])
        return fuse.STATFS_OUT.pack(
            found.f_blocks,
            found.f_bfree,
            found.f_bavail,
            found.f_files,
            found.f_ffree,
            found.f_bsize,
            found.f_namemax,
            found.f_frsize,
            0,
        )

    # ---- folders

    def _opendir(self, node: int, body: bytes) -> bytes:
        handle = os.open(self._paths[node], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._listed[handle] = sorted(os.fsencode(name) for name in os.listdir(handle))
        return fuse.OPEN_OUT.pack(handle, 0, 0)

    def _readdir(self, node: int, body: bytes) -> bytes:
        handle, offset, length, *_ = fuse.READ_IN.unpack_from(body)
        records = b""
        for number, name in enumerate(self._listed[handle][offset:], offset + 1):
            status = os.stat(name, dir_fd=handle, follow_symlinks=False)
            record = fuse.dirent(number, name, status)
            if len(records) + len(record) > length:
                break
            records += record
        return records

    def _releasedir(self, node: int, body: bytes) -> bytes:
        handle = int.from_bytes(body[:8], "little")
        del self._listed[handle]
        os.close(handle)
        return b""

    # ---- files

    def _opened(self, path: bytes, flags: int, mode: int = 0) -> bytes:
        keep = os.O_ACCMODE | os.O_TRUNC | os.O_CREAT | os.O_EXCL
        # Whoever writes may also read what it wrote.
        wanted = flags & keep
        if flags & os.O_ACCMODE == os.O_WRONLY:
            wanted = wanted & ~os.O_ACCMODE | os.O_RDWR
        handle = os.open(path, wanted | os.O_CLOEXEC, mode)
        self._begins[handle] = self._place(os.fstat(handle))
        direct = fuse.OPEN_DIRECT if flags & os.O_DIRECT else 0
        if direct:
            self._direct.add(handle)
        return fuse.OPEN_OUT.pack(handle, direct | fuse.OPEN_KEEP_CACHE, 0)

    def _place(self, status: os.stat_result) -> int:
        """Where the file begins on the disk; it lies there from its first opening on."""
        if status.st_ino not in self._places:
            self._places[status.st_ino] = self._free
            self._free += (status.st_size // EXTENT_BYTES + 1) * EXTENT_BYTES
        return self._places[status.st_ino]

    def _open(self, node: int, body: bytes) -> bytes:
        return self._opened(self._paths[node], int.from_bytes(body[:4], "little"))

    def _create(self, node: int, body: bytes) -> bytes:
        flags, mode = int.from_bytes(body[:4], "little"), int.from_bytes(body[4:8], "little")
        path = self._path(node, body[16:])
        opened = self._opened(path, flags | os.O_CREAT, mode & 0o7777)
        return fuse.entry(*self._node(path)) + opened

    def _write(self, node: int, body: bytes) -> bytes:
        handle, offset, length, *_ = fuse.READ_IN.unpack_from(body)
        data = memoryview(body)[fuse.READ_IN.size :][:length]
        return fuse.WRITE_OUT.pack(os.pwrite(handle, data, offset), 0)

    def _release(self, node: int, body: bytes) -> bytes:
        handle = int.from_bytes(body[:8], "little")
        del self._begins[handle]
        self._direct.discard(handle)
        os.close(handle)
        return b""


# ---- the program, and who starts it


def serve(backing: Path, where: Path, figures: Figures, pace: float) -> None:
    """Mount the folder, say so, answer questions for what was done; until the input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's is for the parent, which ends us
    device = fuse.mount(where)
    folder = Folder(device, backing, figures, pace)
    thread = threading.Thread(target=folder.serve, name="folder")
    thread.start()
    try:
        print(json.dumps({"mounted": str(where)}), flush=True)
        for _ in sys.stdin:
            print(json.dumps(folder.spindle.told()), flush=True)
    finally:
        fuse.unmount(where)
        folder.spindle.end()
        os.close(device)  # what is still asked of it fails, and nobody waits
        os._exit(0)


@dataclass(frozen=True)
class Mounted:
    """A mounted disk: where its files are seen, and where they lie."""

    path: Path
    backing: Path
    process: subprocess.Popen[str]

    def told(self) -> dict[str, float]:
        """What the disk has done since it was last asked: busy seconds, requests, bytes, moves."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        told: dict[str, float] = json.loads(self.process.stdout.readline())
        return told


class NoDiskError(RuntimeError):
    """Nothing can be mounted here; the message says why."""


@contextlib.contextmanager
def mounted(inside: Path, figures: Figures | None = None, pace: float = 0.0) -> Iterator[Mounted]:
    """A disk as a folder in `inside`, with another folder behind it, until the block is left.

    Raises
    ------
    NoDiskError
    """
    where, backing = inside / "disk", inside / "behind"
    where.mkdir()
    backing.mkdir()
    given = json.dumps({**vars(figures or Figures()), "pace": pace})
    command = [sys.executable, __file__, "--serve", where, "--backing", backing, "--given", given]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield _began(process, where, backing)
        finally:
            fuse.unmount(where)
            process.communicate()
    where.rmdir()


def _began(process: subprocess.Popen[str], where: Path, backing: Path) -> Mounted:
    if not _line(process.stdout):
        _, said = process.communicate()
        reason = (said.strip().splitlines() or ["it ended without a word"])[-1]
        raise NoDiskError(f"no folder can be mounted: {reason}")
    return Mounted(where, backing, process)


def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline()


def run(
    command: list[str], figures: Figures, pace: float, directory: str | None, scheduler: str | None
) -> int:
    """Run a command with ``{mount}`` replaced by a disk's folder."""
    inside = Path(tempfile.mkdtemp(prefix="simulated-disk-", dir=directory))
    try:
        with mounted(inside, figures, pace) as disk, contextlib.ExitStack() as stack:
            folder = disk.path
            if scheduler is not None:
                device = scheduled(disk.path / "device", inside / "scheduled", scheduler)
                folder = stack.enter_context(device)
            filled = [part.replace("{mount}", str(folder)) for part in command]
            code = subprocess.run(filled, check=False).returncode
            told = disk.told()
    except (NoDiskError, NoDeviceError) as error:
        print(f"SKIPPED: {error}", file=sys.stderr)
        return 0
    finally:
        shutil.rmtree(inside, ignore_errors=True)
    print(
        f"the disk was busy for {told['busy_seconds']:.2f} s with {told['requests']:.0f} requests "
        f"for {told['bytes'] / 1e6:.0f} MB, and moved its head {told['moved']:.0f} times",
        file=sys.stderr,
    )
    return code


def main() -> int:
    """Take the command line apart."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--run", nargs="+", metavar="COMMAND", default=[], help="after it: --")
    parser.add_argument("--directory", help="where the files lie (default: the temporary folder)")
    parser.add_argument(
        "--scheduler",
        metavar="NAME",
        help="of the kernel, as in /sys/block/*/queue/scheduler; root",
    )
    parser.add_argument("--pace", type=float, default=1.0, help="0 only counts (default: 1)")
    for name, value in vars(Figures()).items():
        flag = "--" + name.replace("_", "-")
        parser.add_argument(flag, type=type(value), default=value, help=f"default: {value}")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--backing", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--given", type=json.loads, help=argparse.SUPPRESS)
    arguments, command = sys.argv[1:], []
    if "--run" in arguments:
        at = arguments.index("--run")
        arguments, command = arguments[:at], arguments[at + 1 :]
    given = parser.parse_args(arguments)
    if given.serve is not None:
        wanted: dict[str, Any] = given.given
        pace = wanted.pop("pace")
        serve(given.backing, given.serve, Figures(**wanted), pace)
        return 0
    command = command[1:] if command[:1] == ["--"] else command
    if not command:
        parser.error("say what to run: --run -- COMMAND, with {mount} for the folder")
    names = vars(Figures())
    figures = replace(Figures(), **{name: getattr(given, name) for name in names})
    return run(command, figures, given.pace, given.directory, given.scheduler)


if __name__ == "__main__":
    raise SystemExit(main())
