"""The tool that compares files of others: it goes over all of them, and fails for what differs.

Law
---
1. A damaged object and a name of any bytes end no run.
"""

from __future__ import annotations

import importlib.util
import sys
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
        at = h5py.h5o.get_info(file["damaged"].id).addr
    data = bytearray(name.read_bytes())
    data[at] = 99  # the version of its header
    name.write_bytes(data)
    (tmp_path / "no_file.h5").write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(100))
    return tmp_path


def test_it_goes_over_all(corpus: Any, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert corpus.main([str(folder)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert {
        "2 files",
        "3 datasets",
        "1 files that h5py does not read",
        "1 objects that h5py does not read",
        "3 open: native",
        "0 differ",
    } <= set(lines)


def other_rows(faces: coverage_of.Faces, name: str) -> Any:
    return faces.opened(name) + 1


def foreign_error(_faces: coverage_of.Faces, _name: str) -> Any:
    raise TypeError("a time")


@pytest.mark.parametrize("entry", [other_rows, foreign_error])
def test_what_differs_fails(
    corpus: Any,
    folder: Path,
    entry: coverage_of.Entry,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(corpus, "ENTRIES", {"wrong": entry})
    assert corpus.main([str(folder)]) == 1
    assert "3 differ" in capsys.readouterr().out


def test_an_empty_folder_is_no_success(corpus: Any, tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no HDF5 file with a dataset"):
        corpus.main([str(tmp_path)])
