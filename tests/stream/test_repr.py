"""What streams say of themselves: one line, at any time, in any process.

Law: a repr neither fails nor waits, nor does it open or start anything.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import smooth
from processes import children, run_script

import multitables


@pytest.fixture
def several(h5: Path) -> Path:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=smooth((40, 3)), chunks=(8, 3))
        for name in ("y", "z", "u", "v"):
            file.create_dataset(name, data=smooth((40,)), chunks=(8,), fletcher32=True)
    return h5


def test_a_streamer(several: Path) -> None:
    streamer = multitables.Streamer(several)
    assert repr(streamer) == f"<Streamer of {str(several)!r}: 0 open queues, open>"
    queue = streamer.get_queue("/x", n_procs=1)
    assert repr(streamer) == f"<Streamer of {str(several)!r}: 1 open queue, open>"
    queue.close()
    assert "0 open queues" in repr(streamer)
    streamer.close()
    assert repr(streamer).endswith("closed>")
    for odd in (b"bytes.h5", "a\nb.h5"):
        text = repr(multitables.Streamer(odd))
        assert text.startswith("<Streamer of ")
        assert "\n" not in text


def test_a_queue(several: Path) -> None:
    of = f"<StreamQueue of '/x' (40, 3) in {str(several)!r}: blocks of 8 rows, 2 readers, "
    streamer = multitables.Streamer(several)
    with streamer.get_queue("/x", n_procs=2) as queue:
        assert repr(queue) == f"{of}0 of 5 blocks delivered, open>"
        for _ in range(2):
            with queue.get():
                pass
        assert repr(queue) == f"{of}2 of 5 blocks delivered, open>"
    assert repr(queue) == f"{of}2 of 5 blocks delivered, closed>"
    with streamer.get_queue("/x", n_procs=1, cyclic=True, block_size=1) as queue:
        assert repr(queue).endswith("blocks of 1 row, 1 reader, 0 blocks delivered, open>")


@pytest.mark.parametrize(
    ("paths", "told"),
    [
        (["/x", "/y"], "'/x' (40, 3), '/y' (40,)"),
        ({"a": "/y", "b": "x"}, "'/y' (40,), '/x' (40, 3)"),
        (("/x", "/y", "/z", "/u", "/v"), "'/x' (40, 3), '/y' (40,), '/z' (40,), 2 others"),
    ],
)
def test_several_datasets(several: Path, paths: Any, told: str) -> None:
    streamer = multitables.Streamer(several)
    with streamer.get_queue(paths, n_procs=1) as queue:
        assert f"<StreamQueue of {told} in {str(several)!r}: " in repr(queue)
    with streamer.get_batches(paths, 4, n_procs=1) as batches:
        before = repr(batches)
        assert "'/x'" in before or "'x'" in before
        next(iter(batches))
        assert f"<Batches of {told} in {str(several)!r}: " in repr(batches)


def test_a_queue_that_failed(several: Path) -> None:
    with h5py.File(several) as file:
        at = file["y"].id.get_chunk_info(2).byte_offset
    with several.open("r+b") as raw:
        raw.seek(at)
        raw.write(b"\xff" * 8)
    with multitables.Streamer(several).get_queue("/y", n_procs=1) as queue:
        with queue.get(), queue.get(), pytest.raises(multitables.CorruptChunkError):
            queue.get()
        assert repr(queue).endswith("2 of 5 blocks delivered, failed: CorruptChunkError>")


def test_batches(several: Path) -> None:
    streamer = multitables.Streamer(several)
    batches = streamer.get_batches("/x", 8, n_procs=1, shuffle="full", start_epoch=3)
    options = "batches of 8 rows, shuffle='full', 1 reader"
    assert repr(batches) == (
        f"<Batches of '/x' in {str(several)!r}: {options}, epoch 3, 0 batches delivered, open>"
    )
    assert children() == {}
    iterator = iter(batches)
    next(iterator)
    of = f"of '/x' (40, 3) in {str(several)!r}: {options}, epoch 3,"
    assert repr(batches) == f"<Batches {of} 1 batch delivered, open>"
    assert repr(iterator) == f"<BatchIterator {of} 1 batch delivered, open>"
    for _ in iterator:
        pass
    assert repr(batches) == f"<Batches {of} all delivered, open>"
    assert repr(iterator) == f"<BatchIterator {of} all delivered, closed>"
    batches.close()
    assert repr(batches) == f"<Batches {of} all delivered, closed>"


def test_batches_that_go_on(several: Path) -> None:
    streamer = multitables.Streamer(several)
    with streamer.get_batches("/x", 8, n_procs=1) as batches:
        steps = iter(batches)
        next(steps)
        next(steps)
        state = batches.state_dict()
    with streamer.get_batches("/x", 8, n_procs=1) as batches:
        batches.load_state_dict(state)
        assert "epoch 0, 2 batches delivered, open" in repr(batches)
        steps = iter(batches)
        next(steps)
        assert "epoch 0, 3 batches delivered, open" in repr(steps)
        steps.close()
        assert repr(steps).endswith("closed>")


def test_batches_of_what_is_not_there(tmp_path: Path) -> None:
    batches = multitables.Streamer(tmp_path / "none.h5").get_batches({"a": "/x"}, 4)
    with pytest.raises(multitables.MissingFileError):
        next(iter(batches))
    assert f"<Batches of '/x' in {str(tmp_path / 'none.h5')!r}: " in repr(batches)


def test_a_reader(several: Path) -> None:
    of = f"<Reader of {str(several)!r}: 1 reader, "
    with multitables.Reader(several, n_procs=1) as reader:
        assert repr(reader) == f"{of}0 requests made, open>"
        rows = reader.request(reader.get_dataset("/x")[3:5]).get()
        np.testing.assert_array_equal(rows, smooth((40, 3))[3:5])
        assert repr(reader) == f"{of}1 request made, open>"
    assert repr(reader) == f"{of}1 request made, closed>"


FORKED = """
import os, sys, warnings
warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads
import multitables
streamer = multitables.Streamer(sys.argv[1])
queue = streamer.get_queue("/x", n_procs=1)
batches = streamer.get_batches("/x", 8, n_procs=1)
steps = iter(batches)
next(steps)
reader = multitables.Reader(sys.argv[1], n_procs=1)
all = streamer, queue, batches, steps, reader
if os.fork() == 0:
    for one in all:
        assert repr(one).count(os.linesep) == 0
    print(repr(queue).endswith(f"of process {os.getppid()}>"))
    print(repr(reader).endswith(f"of process {os.getppid()}>"))
    sys.exit(0)
os.wait()
for one in (steps, batches, queue, streamer, reader):
    one.close()
    print(repr(one).endswith("closed>"))
"""


def test_a_forked_child(several: Path) -> None:
    done = run_script(FORKED, several, flags=())
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["True"] * 7
