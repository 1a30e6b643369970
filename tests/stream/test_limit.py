"""The codec limit: it measures only bytes that decode, refuses what has no limit, leaves nothing.

1. No figure is looked at beyond that it is one; nothing here is timed.
2. After each call, and each refusal, no reader is left: the audit after every test says so.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from elements import smooth
from payload import write
from processes import children, kill, readers

import multitables
from _multitables.parent import codec_limit

pytestmark = pytest.mark.usefixtures("few_filters")

ROWS, STEP = 400, 20
WAYS = pytest.mark.parametrize("direct", [False, True], ids=["buffered", "direct"])


def is_a_figure(seconds: object) -> bool:
    return isinstance(seconds, float) and math.isfinite(seconds) and seconds > 0


def made(path: Path, **options: Any) -> Path:
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=smooth((ROWS, 5)), chunks=(STEP, 5), **options)
    return path


# ---- what can be measured


@WAYS
@pytest.mark.parametrize("n_procs", [1, 2, 5])
def test_every_way_of_storing_has_a_limit(numbered: Path, n_procs: int, direct: bool) -> None:
    for path in ("/rows", "/raw", "/labels"):
        assert is_a_figure(multitables.measure_limit(numbered, path, n_procs, direct))
    assert children() == {}


@WAYS
@pytest.mark.parametrize(
    "options",
    [{}, {"compression": "gzip", "fletcher32": True}, {"compression": "lzf"}, hdf5plugin.Blosc()],
    ids=["none", "gzip", "lzf", "blosc"],
)
def test_filters_have_a_limit(h5: Path, options: Any, direct: bool) -> None:
    assert is_a_figure(multitables.measure_limit(made(h5, **options), "x", direct=direct))


@WAYS
def test_chunks_that_were_never_stored_have_one(h5: Path, direct: bool) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", (ROWS, 5), "f8", chunks=(STEP, 5), fillvalue=3)[STEP] = 1
    assert is_a_figure(multitables.measure_limit(h5, "x", 2, direct))


@WAYS
def test_more_processes_than_tasks(h5: Path, direct: bool) -> None:
    with h5py.File(h5, "w") as file:
        file["x"] = np.arange(3)
    assert is_a_figure(multitables.measure_limit(str(h5), "x", 4, direct))


@WAYS
def test_an_empty_dataset_takes_no_time(h5: Path, direct: bool) -> None:
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", (0, 5), "f8", maxshape=(None, 5), chunks=(STEP, 5))
    assert multitables.measure_limit(h5, "x", 2, direct) == 0


# ---- bytes that do not decode


def damaged(path: Path, chunk: int, damage: Callable[[bytearray], None], **options: Any) -> Path:
    with h5py.File(made(path, **options), "r+") as file:
        dataset = file["x"].id
        _, stored = dataset.read_direct_chunk((chunk * STEP, 0))
        broken = bytearray(stored)
        damage(broken)
        dataset.write_direct_chunk((chunk * STEP, 0), bytes(broken))
    return path


def flip(stored: bytearray) -> None:
    stored[len(stored) // 2] ^= 0xFF


def cut(stored: bytearray) -> None:
    del stored[len(stored) // 2 :]


DAMAGES: dict[str, tuple[Callable[[bytearray], None], Any, str]] = {
    "checksum": (flip, {"fletcher32": True}, "fletcher32 does not match"),
    "checksum of gzip": (flip, {"fletcher32": True, "compression": "gzip"}, "fletcher32"),
    "gzip cut short": (cut, {"compression": "gzip"}, "deflate"),
    "blosc cut short": (cut, hdf5plugin.Blosc(), "blosc"),
}


@WAYS
@pytest.mark.parametrize("n_procs", [1, 3])
@pytest.mark.parametrize("chunk", [0, 7, 19])
@pytest.mark.parametrize("name", DAMAGES)
def test_damaged_bytes_have_no_limit(
    h5: Path, name: str, chunk: int, n_procs: int, direct: bool
) -> None:
    damage, options, says = DAMAGES[name]
    damaged(h5, chunk, damage, **options)
    with pytest.raises(multitables.CorruptChunkError) as caught:
        multitables.measure_limit(h5, "x", n_procs, direct)
    text = str(caught.value)
    for part in (says, "'/x'", h5.name, f"chunk ({chunk * STEP}, 0)"):
        assert part in text
    assert children() == {}


@WAYS
@pytest.mark.parametrize("path", ["/rows", "/raw"])
def test_a_file_that_was_cut_off(
    tmp_path: Path, path: str, direct: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    filename = write(tmp_path / "x.h5")
    after_the_index(monkeypatch, lambda: os.truncate(filename, filename.stat().st_size // 2))
    with pytest.raises(multitables.FileChangedError, match=r"x\.h5.* changed"):
        multitables.measure_limit(filename, path, 2, direct)
    assert children() == {}


@WAYS
def test_a_file_that_changes(tmp_path: Path, direct: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    filename = write(tmp_path / "x.h5")
    after_the_index(monkeypatch, lambda: os.utime(filename, ns=(0, 0)))
    with pytest.raises(multitables.FileChangedError, match=r"x\.h5.* changed"):
        multitables.measure_limit(filename, "/rows", 2, direct)
    assert children() == {}


def after_the_index(monkeypatch: pytest.MonkeyPatch, act: Callable[[], None]) -> None:
    """Act when the dataset is indexed, and no reader has opened the file."""
    plan = codec_limit._plan

    def act_and_plan(*arguments: Any) -> Any:
        act()
        return plan(*arguments)

    monkeypatch.setattr(codec_limit, "_plan", act_and_plan)


# ---- readers that die


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_share_that_nobody_runs_is_no_limit(
    numbered: Path, number: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    start = codec_limit.Readers

    def start_and_kill(n_readers: int) -> Any:
        found = start(n_readers)
        kill(readers()[0], number)
        return found

    # It dies before it is ready: the other then waits for it, and must not wait for ever.
    monkeypatch.setattr(codec_limit, "Readers", start_and_kill)
    with pytest.raises(multitables.ReaderDiedError, match=number.name):
        multitables.measure_limit(numbered, "/rows", 2)
    assert children() == {}


# ---- bad input


@pytest.fixture
def odd(h5: Path) -> Path:
    with h5py.File(h5, "w") as file:
        file["scalar"] = 5.0
        file["group/x"] = np.arange(3)
        file["text"] = ["a", "b"]
        file.create_dataset("scaled", data=np.arange(100.0), chunks=(10,), scaleoffset=2)
    return h5


@WAYS
@pytest.mark.parametrize(
    ("path", "kind", "says"),
    [
        ("/none", multitables.MissingDatasetError, "no such dataset"),
        ("/scalar", multitables.UnsupportedDatasetError, "is a scalar"),
        ("/group", multitables.UnsupportedDatasetError, "is a group"),
        ("/text", multitables.UnsupportedDatasetError, "variable-length string"),
        ("/scaled", multitables.UnsupportedDatasetError, "has no codec limit"),
    ],
)
def test_datasets_without_a_limit(
    odd: Path, path: str, kind: type[Exception], says: str, direct: bool
) -> None:
    with pytest.raises(kind, match=says) as caught:
        multitables.measure_limit(odd, path, direct=direct)
    assert isinstance(caught.value, multitables.MultitablesError)
    assert path in str(caught.value)
    assert odd.name in str(caught.value)
    assert caught.value.advice
    assert children() == {}


def test_why_it_has_none_is_said(odd: Path) -> None:
    with pytest.raises(multitables.UnsupportedDatasetError, match="scaleoffset") as caught:
        multitables.measure_limit(odd, "/scaled")
    assert "Measure the library itself" in str(caught.value)


@pytest.mark.parametrize("name", ["none.h5", ".", "text.h5"])
def test_files_that_are_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(multitables.FileOpenError):
        multitables.measure_limit(tmp_path / name, "/x")
    assert children() == {}


@pytest.mark.parametrize("n_procs", [0, -1, True, 1.5, "2", 10**6])
def test_numbers_of_processes_that_cannot_work(numbered: Path, n_procs: Any) -> None:
    with pytest.raises(multitables.OptionsError, match="n_procs"):
        multitables.measure_limit(numbered, "/rows", n_procs)
    assert children() == {}


def test_a_file_system_without_direct_io(numbered: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("_multitables.index.files.device.refuses_direct", lambda _name: True)
    with pytest.raises(multitables.OptionsError, match="refuses direct I/O") as caught:
        multitables.measure_limit(numbered, "/rows", direct=True)
    assert numbered.name in str(caught.value)
    assert is_a_figure(multitables.measure_limit(numbered, "/rows"))
