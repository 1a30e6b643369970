"""Direct I/O where io_uring is not to be had: the threads in its place give the same bytes.

1. The kernel refuses io_uring to a script and its readers as containers do: by a seccomp filter.
2. What the script streams equals what h5py reads, errors too, and it ends with no reader left.
"""

from __future__ import annotations

from pathlib import Path

import h5py
import hdf5plugin
import pytest
from elements import smooth
from processes import run_script

# A filter of classic BPF: the system call's number (the same on every machine since Linux 5.1) is
# io_uring_setup's -> EPERM; everything else is allowed.
REFUSE_IO_URING = """
import ctypes, os, struct
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]
steps = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = b"".join(struct.pack("HBBI", *step) for step in steps)
prctl = ctypes.CDLL(None, use_errno=True).prctl
PR_SET_NO_NEW_PRIVS, PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 38, 22, 2
for call in (
    (PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0),
    (PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(Program(len(steps), code)), 0, 0),
):
    if prctl(*call) != 0:
        print("no seccomp:", os.strerror(ctypes.get_errno()))
        raise SystemExit
"""
COMPARE = """
import sys, h5py, hdf5plugin, numpy as np, multitables
path, n_procs = sys.argv[1], int(sys.argv[2])
assert not multitables.build_info()["io_uring"]
streamer = multitables.Streamer(path, DRIVER="H5FD_DIRECT")
with h5py.File(path) as file:
    names = list(file)
    for name in names:
        with streamer.get_queue(name, n_procs=n_procs, remainder=True) as queue:
            rows = np.concatenate([guard.__enter__().copy() for guard in queue])
            assert queue.statistics()["library"] == {}
        np.testing.assert_array_equal(rows, file[name][:])
        assert multitables.measure_limit(path, name, n_procs, direct=True) > 0
print("compared", *names)
"""
DAMAGED = """
import sys, multitables
streamer = multitables.Streamer(sys.argv[1], DRIVER="H5FD_DIRECT")
try:
    streamer.get_remainder("x", 150)
except multitables.CorruptChunkError as error:
    print("caught", error)
"""


def without_io_uring(source: str, *arguments: object) -> str:
    """What a script prints to which the kernel refuses io_uring."""
    done = run_script(REFUSE_IO_URING + source, *arguments)
    assert done.stderr == ""
    assert done.returncode == 0
    if done.stdout.startswith("no seccomp"):
        pytest.skip(done.stdout.strip())
    return done.stdout


@pytest.mark.parametrize("n_procs", [1, 3])
def test_threads_read_what_io_uring_would(h5: Path, n_procs: int) -> None:
    data = smooth((3000, 50))
    with h5py.File(h5, "w", userblock_size=512) as file:
        file["contiguous"] = data
        file.create_dataset("plain", data=data, chunks=(70, 50))
        file.create_dataset("gzip", data=data, chunks=(70, 30), compression="gzip", fletcher32=True)
        file.create_dataset("small", data=data, chunks=(1, 50), **hdf5plugin.Blosc())
        file.create_dataset("partly", (3000, 50), "f4", chunks=(70, 50))[700:777] = 5
    out = without_io_uring(COMPARE, h5, n_procs)
    assert out.split() == ["compared", "contiguous", "gzip", "partly", "plain", "small"]


def test_threads_find_damage(h5: Path) -> None:
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=smooth((400, 5)), chunks=(20, 5), fletcher32=True)
        mask, stored = made.id.read_direct_chunk((380, 0))
        made.id.write_direct_chunk((380, 0), stored[:-1] + bytes([stored[-1] ^ 1]), mask)
    out = without_io_uring(DAMAGED, h5)
    assert out.startswith("caught fletcher32 does not match for '/x'")
    assert "chunk (380, 0)" in out
