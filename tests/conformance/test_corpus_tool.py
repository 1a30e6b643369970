"""The tool that compares files of others: it goes over all of them, and fails for what differs.

Law
---
1. A damaged object, a name of any bytes, and a library that crashes or never ends, end no run.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import coverage_of
import h5py
import numpy as np
import pytest

TOOL = Path(__file__).parents[2] / "tools" / "corpus.py"


@pytest.fixture
def corpus(monkeypatch: pytest.MonkeyPatch) -> Any:
    if not TOOL.exists():
        pytest.skip("an installation has no tools")
    spec = importlib.util.spec_from_file_location("corpus", TOOL)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "corpus", module)  # where dataclasses look for it
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    name = tmp_path / "odd.h5"
    with h5py.File(name, "w") as file:
        file["whole"] = np.arange(5.0)
        file["damaged"] = np.arange(7.0)
        file[b"latin \xe9"] = np.arange(3.0)
        file["group/inner"] = np.arange(4.0)
        file.create_dataset("chunk", data=np.arange(6.0), chunks=(6,), compression="gzip")
        at = h5py.h5o.get_info(file["damaged"].id).addr
        chunk = file["chunk"].id.get_chunk_info(0).byte_offset
    data = bytearray(name.read_bytes())
    data[at] = 99  # the version of its header
    data[chunk] = 99  # the method of its compression
    name.write_bytes(data)
    (tmp_path / "no_file.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    return tmp_path


def test_it_goes_over_all(corpus: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert corpus.main([str(folder)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {
        "2 files",
        "4 datasets",
        "1 files that h5py does not read",
        "1 objects that h5py does not read",
        "3 open: native",
        "1 open: refused: h5py does not read it either",
        "0 differ",
    } <= set(lines)


def other_rows(faces: coverage_of.Faces, name: str) -> Any:
    return faces.opened(name) + 1


def crash(_faces: coverage_of.Faces, _name: str) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def never_end(_faces: coverage_of.Faces, _name: str) -> Any:
    time.sleep(60)


def foreign_error(_faces: coverage_of.Faces, _name: str) -> Any:
    raise TypeError("a time")


@pytest.mark.parametrize(("entry", "n_wrong"), [(other_rows, 3), (foreign_error, 4)])
def test_what_differs_fails(
    corpus: Any,
    folder: Path,
    entry: coverage_of.Entry,
    n_wrong: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(corpus, "ENTRIES", {"wrong": entry})
    assert corpus.main([str(folder)]) == 1
    assert f"{n_wrong} differ" in capsys.readouterr().out


@pytest.mark.parametrize("entry", [crash, never_end])
def test_a_crash_or_no_end_is_a_difference(
    corpus: Any,
    folder: Path,
    entry: coverage_of.Entry,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The other file is compared all the same."""
    monkeypatch.setattr(corpus, "ENTRIES", {"wrong": entry})
    monkeypatch.setattr(corpus, "FILE_SECONDS", 8)
    assert corpus.main([str(folder)]) == 1
    out = capsys.readouterr().out
    assert "odd.h5: the comparison crashes, or does not end" in out
    assert "1 files that h5py does not read" in out


def test_where_h5py_crashes_no_values_are_compared(
    corpus: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def read(dataset: h5py.Dataset) -> Any:
        if dataset.name == "/group/inner":
            os.kill(os.getpid(), signal.SIGKILL)
        return dataset[()]

    monkeypatch.setattr(corpus, "read_by_h5py", read)
    assert corpus.main([str(folder)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {"4 datasets", "2 open: native", "1 open: h5py crashes", "0 differ"} <= set(lines)


def test_an_empty_folder_is_no_success(corpus: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no HDF5 file with a dataset"):
        corpus.main([str(tmp_path)])
