"""A folder with files for the command, which is the working directory."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_files import write


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("run7.h5", "run12.h5"):
        write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path
