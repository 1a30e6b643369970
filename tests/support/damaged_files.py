"""Small files of every layout, damaged in every place, and what is read of them.

Law
---
1. A variant is a number: the file cut short at a byte, or one byte of it flipped.
2. Each is read in a child with little memory: it prints a line for each variant, so that one which
   kills it is known. What is read is told as a digest, an error as its class.
3. h5py reads in a child of its own, one for each variant: damaged files may kill it.

The children: ``damaged_files.py ours FILE FOLDER NUMBER ...`` and ``damaged_files.py h5py FILE``.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import resource
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from oracle import ragged as as_objects

import multitables

#: Bytes that the child, and each of its readers, may have mapped.
MEMORY_BYTES = 8 << 30
#: Bytes that the child may have used at most.
MAX_USED_BYTES = 600 << 20
LARGE_BYTES = 1 << 24
SECONDS = 60.0
ROWS = np.arange(60, dtype="<i4").reshape(12, 5)
ERROR = "error "


def simple(libver: str, **options: Any) -> Callable[[Path], None]:
    """A dataset that h5py makes."""

    def build(path: Path) -> None:
        with h5py.File(path, "w", libver=libver) as file:
            file.create_dataset("x", data=ROWS, **options)

    return build


def compact(path: Path) -> None:
    plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    plist.set_layout(h5py.h5d.COMPACT)
    with h5py.File(path, "w") as file:
        space = h5py.h5s.create_simple(ROWS.shape)
        made = h5py.h5d.create(file.id, b"x", h5py.h5t.STD_I32LE, space, plist)
        made.write(h5py.h5s.ALL, h5py.h5s.ALL, ROWS)


def virtual(path: Path) -> None:
    layout = h5py.VirtualLayout(ROWS.shape, ROWS.dtype)
    layout[:6] = h5py.VirtualSource(".", "source", ROWS.shape)[6:]
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("source", data=ROWS, chunks=(4, 3))
        file.create_virtual_dataset("x", layout, fillvalue=-1)


def ragged(path: Path) -> None:
    with h5py.File(path, "w") as file:
        made = file.create_dataset("x", (12,), h5py.vlen_dtype("<i4"), chunks=(5,))
        for at in range(12):
            made[at] = np.arange(at % 4)


def text(path: Path) -> None:
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=["a", "bb", ""] * 4, dtype=h5py.string_dtype(), chunks=(5,))


_TILES: dict[str, Any] = {"chunks": (4, 3)}
LAYOUTS: dict[str, Callable[[Path], None]] = {
    "compact": compact,
    "contiguous": simple("earliest"),
    "one chunk": simple("latest", chunks=(12, 5), compression="gzip"),
    "fixed array": simple("latest", fletcher32=True, **_TILES),
    "extensible array": simple("latest", maxshape=(None, 5), compression="lzf", **_TILES),
    "btree 2": simple("latest", maxshape=(None, None), shuffle=True, **_TILES),
    "btree 1": simple("earliest", compression="gzip", shuffle=True, fletcher32=True, **_TILES),
    "virtual": virtual,
    "ragged": ragged,
    "text": text,
}


def n_variants(good: bytes) -> int:
    """How many there are; the next number is the file as it is."""
    return 2 * len(good)


def variant(good: bytes, number: int) -> bytes:
    """The file without its end, or with one byte flipped."""
    at, flips = divmod(number, 2)
    if not flips:
        return good[:at]
    return good[:at] + bytes([good[at] ^ 0xFF]) + good[at + 1 :]


def digest(rows: Any) -> str:
    """What tells values apart."""
    rows = np.asarray(rows)
    is_object = rows.dtype.hasobject
    told = repr([np.asarray(one).tolist() for one in rows.ravel()]) if is_object else ""
    values = told.encode() if is_object else rows.tobytes()
    return f"{rows.shape} {rows.dtype} {hashlib.sha256(values).hexdigest()}"


def _opened(path: Path) -> Any:
    with multitables.open(path, cache_bytes=0) as file:
        made = file["x"]
        if not isinstance(made, multitables.Dataset):
            raise TypeError("not a dataset any more")
        return made[()] if made.nbytes <= LARGE_BYTES else _too_large()


def _too_large() -> None:
    raise MemoryError("more than a test wants to read")


def _read(path: Path, streamer: multitables.Streamer) -> dict[str, str]:
    """What each entry point makes of the file."""
    found = {}
    for name, read in (("open", _opened), ("queue", lambda _: _streamed(streamer))):
        try:
            found[name] = digest(read(path))
        except multitables.MultitablesError as error:
            assert "\n" not in str(error)  # noqa: PT017
            found[name] = ERROR + type(error).__name__
        except (MemoryError, TypeError, ValueError) as error:  # as h5py's
            found[name] = f"{ERROR}{type(error).__name__}: {error}"
    return found


def _streamed(streamer: multitables.Streamer) -> np.ndarray:
    with streamer.get_queue("/x", n_procs=1, remainder=True, block_size=5) as blocks:
        if isinstance(blocks, multitables.RaggedQueue):
            return as_objects([row for guard in blocks for row in guard.__enter__().copy()])
        plan = blocks.source.plan.datasets[0].index
        if plan.n_rows * plan.row_bytes > LARGE_BYTES or plan.n_rows > LARGE_BYTES:
            _too_large()
        rows = np.empty(plan.shape, plan.dtype)
        for guard in blocks:
            with guard as block:
                rows[slice(*guard.rows)] = block
            del block
        return rows


def limit_memory() -> None:
    """Limit the mappings of this process and its readers to `MEMORY_BYTES`."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))


def ours(good_file: Path, folder: Path, numbers: list[int]) -> None:
    """Print what is read of some variants."""
    limit_memory()
    good, path, made = good_file.read_bytes(), folder / "damaged.h5", folder / "made.h5"
    with multitables.Streamer(path, library_timeout_seconds=5) as streamer:
        for number in numbers:
            made.write_bytes(variant(good, number))
            os.utime(made, ns=(number, number))  # so that each is known to be another one
            made.replace(path)
            found = _read(path, streamer)
            used = _peak_bytes()
            print(json.dumps([number, found, used]), flush=True)


def _peak_bytes() -> int:
    """Bytes that this process has had in memory at most; getrusage counts its parent's too."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) << 10


def theirs(path: Path) -> None:
    """Print what h5py reads of a file."""
    with h5py.File(path) as file:
        print(digest(file["x"][()]))


def read_by_h5py(path: Path) -> str:
    """What h5py reads of a file, or how it failed."""
    try:
        done = child(__file__, "h5py", path)
        out, _ = done.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        done.kill()
        done.communicate()
        return ERROR + "it hangs"
    return out.strip() if done.returncode == 0 else ERROR + str(done.returncode)


def child(script: str, *arguments: object) -> subprocess.Popen[str]:
    """A script in a process of its own, whose output is read."""
    command = [sys.executable, "-W", "ignore", script, *map(str, arguments)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=subprocess.DEVNULL, text=True)


def wrong(layout: str, folder: Path, numbers: Callable[[int], list[int]]) -> Iterator[str]:
    """Yield what is wrong with what is read of the variants of a layout that `numbers` chooses.

    Right is an error, what was there before, or what h5py reads of the same damaged file.
    """
    good_file, path = folder / "good.h5", folder / "theirs.h5"
    LAYOUTS[layout](good_file)
    good = good_file.read_bytes()
    left = [n_variants(good), *numbers(n_variants(good))]  # first as it is
    known: dict[str, str] = {}
    while left:
        for number, found, used in _answers(good_file, folder, left):
            left.remove(number)
            known = known or found
            if used > MAX_USED_BYTES:
                yield f"{layout} {number}: {used >> 20} MiB of memory"
            for name, told in found.items():
                if told.startswith(ERROR) or told == known[name]:
                    continue
                path.write_bytes(variant(good, number))
                other = read_by_h5py(path)
                if other != told:
                    yield f"{layout} {number}: {name} reads {told}, h5py {other}"
        if left:
            yield f"{layout} {left.pop(0)}: it killed, or stopped, its reader"


def _answers(good_file: Path, folder: Path, numbers: list[int]) -> Iterator[tuple[int, Any, int]]:
    """Yield what a child prints, until it is done, dies or hangs."""
    with contextlib.closing(Lines(child(__file__, "ours", good_file, folder, *numbers))) as lines:
        for line in lines:
            number, found, used = json.loads(line)
            yield number, found, used


class Lines:
    """The lines of a child, each within some time."""

    def __init__(self, child: subprocess.Popen[str]) -> None:
        self._child = child

    def __iter__(self) -> Iterator[str]:
        assert self._child.stdout is not None
        while select.select([self._child.stdout], [], [], SECONDS)[0]:
            line = self._child.stdout.readline()
            if not line.endswith("\n"):
                return
            yield line

    def close(self) -> None:
        self._child.kill()
        self._child.communicate()


if __name__ == "__main__":
    if sys.argv[1] == "ours":
        ours(Path(sys.argv[2]), Path(sys.argv[3]), [int(number) for number in sys.argv[4:]])
    else:
        theirs(Path(sys.argv[2]))
