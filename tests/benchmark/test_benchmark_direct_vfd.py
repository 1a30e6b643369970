"""tools/direct_vfd: what it refuses, what it says of a command that fails, and what it keeps.

Law
---
1. Nothing is built or fetched: commands are the test's own.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import _benchmark

TOOL = Path(_benchmark.__file__).parents[1] / "tools" / "direct_vfd" / "__main__.py"

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="an installation has no tools")


@pytest.fixture
def tool() -> Any:
    spec = importlib.util.spec_from_file_location("direct_vfd", TOOL)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    return program


def fake_python(path: Path, version: str) -> str:
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("version", "fits"), [("3.9", False), ("3.10", True), ("3.11", True), ("3.12", False)]
)
def test_which_python_fits(version: str, fits: bool, tool: Any, tmp_path: Path) -> None:
    python = fake_python(tmp_path / "python", version)
    if fits:
        assert tool.suitable_python(python) == python
        return
    with pytest.raises(tool.BuildError, match=r"Python 3.11 or 3.10.*--python"):
        tool.suitable_python(python)


def test_a_command_that_fails_shows_the_end_of_its_log(tool: Any, tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    with pytest.raises(tool.BuildError, match="ended with status 3") as caught:
        tool.run(log, "sh", "-c", "for i in $(seq 30); do echo line $i; done; exit 3")
    assert "line 30" in str(caught.value)
    assert "line 18\n" not in str(caught.value)
    assert "line 18\n" in log.read_text()
    with pytest.raises(tool.BuildError, match="did not start"):
        tool.run(log, "no-such-program")


def test_the_environment_of_this_python_is_kept_out(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    tool.run(tmp_path / "log", "sh", "-c", "echo path=$PYTHONPATH more=$MORE", MORE="x")
    assert (tmp_path / "log").read_text().splitlines()[-1] == "path= more=x"


@pytest.mark.parametrize("wrong", [None, "libz-sys"])
def test_the_digests_of_crates_are_compared(wrong: str | None, tool: Any, tmp_path: Path) -> None:
    cargo = tmp_path / "bin" / "cargo"
    cargo.parent.mkdir()
    lines = ["#!/bin/sh"]
    for name, (_, digest) in tool.CRATES.items():
        found = json.dumps({"package": "0" * 64 if name == wrong else digest})
        lines += [f"mkdir -p vendor/{name}", f"echo '{found}' > vendor/{name}/.cargo-checksum.json"]
    cargo.write_text("\n".join(lines))
    cargo.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{cargo.parent}{os.pathsep}{os.environ['PATH']}")
        if wrong is None:
            assert tool.fetched(tmp_path / "build", tmp_path / "log") == tmp_path / "build/vendor"
            return
        with pytest.raises(tool.BuildError, match=f"{wrong} .* has the digest 000.*expected ff20"):
            tool.fetched(tmp_path / "build", tmp_path / "log")


def test_what_is_finished_is_kept_and_another_recipe_is_built(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    built: list[Path] = []

    def build_all(prefix: Path, _python: str, _jobs: int) -> None:
        prefix.mkdir(exist_ok=True)
        built.append(prefix)

    monkeypatch.setattr(tool, "suitable_python", lambda _asked: sys.executable)
    monkeypatch.setattr(tool, "build_all", build_all)
    monkeypatch.setattr(tool, "versions", lambda _prefix: {"HDF5": "1.14.6"})
    prefix = tmp_path / "prefix"
    for count in (1, 1):
        assert tool.main([str(prefix)]) == 0
        assert built == [prefix] * count
    assert f"--direct_vfd {prefix}" in capsys.readouterr().out
    assert json.loads((prefix / "ready.json").read_text()) == {"HDF5": "1.14.6"}
    monkeypatch.setattr(tool, "BUILD_CONSTRAINT", "blosc2<4")
    assert tool.main([str(prefix)]) == 0
    assert len(built) == 2

    def fail(_prefix: Path) -> Any:
        raise tool.BuildError("reading failed")

    monkeypatch.setattr(tool, "versions", fail)
    monkeypatch.setattr(tool, "BUILD_CONSTRAINT", "blosc2<5")
    assert tool.main([str(prefix)]) == 1
    assert "reading failed" in capsys.readouterr().err
    assert not (prefix / "ready.json").exists()


def test_a_directory_with_something_else_is_left_alone(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "suitable_python", lambda _asked: sys.executable)
    (tmp_path / "build").mkdir()
    assert tool.main([str(tmp_path)]) == 1
    assert "holds something else" in capsys.readouterr().err
    assert (tmp_path / "build").is_dir()
    assert os.listdir(tmp_path) == ["build"]


def test_what_is_built_and_does_not_read(tool: Any, tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho OSError: Invalid argument >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(tool.BuildError, match=r"failed: OSError: Invalid argument\n.*on a disk"):
        tool.versions(tmp_path)
