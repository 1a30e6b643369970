"""tools/hdf5_build: what it refuses, what it says of a command that fails, and what it keeps.

Law
---
1. Nothing is built or fetched: commands are the test's own.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

import _multitables

TOOL = Path(_multitables.__file__).parents[1] / "tools" / "hdf5_build" / "__main__.py"

pytestmark = pytest.mark.skipif(not TOOL.exists(), reason="an installation has no tools")


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    spec = importlib.util.spec_from_file_location("hdf5_build", TOOL)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, program)  # where its dataclass looks types up
    spec.loader.exec_module(program)
    return program


def executable(path: Path, *lines: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(["#!/bin/sh", *lines]))
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("kind", "version", "fits"),
    [
        *(("direct", 9, False), ("direct", 10, True), ("direct", 11, True), ("direct", 12, False)),
        *(("mpi", 9, False), ("mpi", 10, True), ("mpi", 14, True)),
        *(("newest", 9, False), ("newest", 12, True)),
    ],
)
def test_which_python_fits(kind: str, version: int, fits: bool, tool: Any, tmp_path: Path) -> None:
    pretend = f"import sys, venv, ensurepip; sys.version_info = (3, {version}, 1)"
    python = executable(tmp_path / "python", f"exec {sys.executable} -c '{pretend}\n'\"$2\"")
    recipe = tool.RECIPES[kind]
    if fits:
        assert tool.suitable_python(python, recipe) == python
        return
    with pytest.raises(tool.BuildError, match=r"is Python 3.10 or .*with venv.*--python"):
        tool.suitable_python(python, recipe)


def test_a_python_that_makes_no_environments_is_passed_over(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "executable", executable(tmp_path / "bare", "exit 1"))
    other = executable(tmp_path / "bin" / "python3.10", "exit 0")
    monkeypatch.setenv("PATH", os.path.dirname(other))
    assert tool.suitable_python(None, tool.RECIPES["mpi"]) == "python3.10"


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
    script = "echo path=$PYTHONPATH more=$MORE"
    tool.run(tmp_path / "log", "sh", "-c", script, more={"MORE": "x"})
    assert (tmp_path / "log").read_text().splitlines()[-1] == "path= more=x"


@pytest.mark.parametrize("kind", ["direct", "mpi", "newest"])
@pytest.mark.parametrize("wrong", [None, "libz-sys"])
def test_the_digests_of_crates_are_compared(
    wrong: str | None, kind: str, tool: Any, tmp_path: Path
) -> None:
    lines, crates = [], tool.RECIPES[kind].crates
    for name, (_, digest) in crates.items():
        found = json.dumps({"package": "0" * 64 if name == wrong else digest})
        lines += [f"mkdir -p vendor/{name}", f"echo '{found}' > vendor/{name}/.cargo-checksum.json"]
    programs = os.path.dirname(executable(tmp_path / "bin" / "cargo", *lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
        if wrong is None:
            found = tool.fetched(tmp_path / "build", tmp_path / "log", crates)
            assert found == tmp_path / "build/vendor"
            wanted = (tmp_path / "build/Cargo.toml").read_text()
            assert all(f'{name} = "={version}"' in wanted for name, (version, _) in crates.items())
            return
        with pytest.raises(tool.BuildError, match=f"{wrong} .* has the digest 000.*expected ff20"):
            tool.fetched(tmp_path / "build", tmp_path / "log", crates)


@pytest.mark.parametrize(
    ("kind", "use"),
    [
        ("direct", "--direct_vfd {0}"),
        ("mpi", "{0}/venv/bin/mpiexec -n 2 {0}/venv/bin/python"),
        ("newest", "MULTITABLES_NEWEST_HDF5_PYTHON={0}/venv/bin/python"),
    ],
)
def test_what_is_finished_is_kept_and_another_recipe_is_built(
    kind: str,
    use: str,
    tool: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    built: list[Path] = []

    def build_all(prefix: Path, _recipe: Any, _python: str, _jobs: int) -> None:
        prefix.mkdir(exist_ok=True)
        built.append(prefix)

    def another(constraint: str) -> None:
        recipe = dataclasses.replace(tool.RECIPES[kind], constraint=constraint)
        monkeypatch.setitem(tool.RECIPES, kind, recipe)

    monkeypatch.setattr(tool, "suitable_python", lambda _asked, _recipe: sys.executable)
    monkeypatch.setattr(tool, "build_all", build_all)
    monkeypatch.setattr(tool, "versions", lambda _prefix, _kind: {"HDF5": "1.14.6"})
    prefix = tmp_path / "prefix"
    for count in (1, 1):
        assert tool.main([kind, str(prefix)]) == 0
        assert built == [prefix] * count
    assert use.format(prefix) in capsys.readouterr().out
    assert json.loads((prefix / "ready.json").read_text()) == {"HDF5": "1.14.6"}
    another("blosc2<4")
    assert tool.main([kind, str(prefix)]) == 0
    assert len(built) == 2

    def fail(_prefix: Path, _kind: str) -> Any:
        raise tool.BuildError("reading failed")

    monkeypatch.setattr(tool, "versions", fail)
    another("blosc2<5")
    assert tool.main([kind, str(prefix)]) == 1
    assert "reading failed" in capsys.readouterr().err
    assert not (prefix / "ready.json").exists()


def test_a_directory_with_something_else_is_left_alone(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tool, "suitable_python", lambda _asked, _recipe: sys.executable)
    (tmp_path / "build").mkdir()
    assert tool.main(["direct", str(tmp_path)]) == 1
    assert "holds something else" in capsys.readouterr().err
    assert (tmp_path / "build").is_dir()
    assert os.listdir(tmp_path) == ["build"]


# What was built is tried by programs of the private environment


@pytest.mark.parametrize(
    ("kind", "program", "hint"),
    [
        ("direct", "python", "on a disk"),
        ("mpi", "mpiexec", "mpiexec -n 2"),
        ("newest", "python", "filters that hdf5plugin brings"),
    ],
)
def test_what_is_built_and_does_not_read(
    kind: str, program: str, hint: str, tool: Any, tmp_path: Path
) -> None:
    executable(tmp_path / "venv" / "bin" / program, "echo OSError: Invalid argument >&2", "exit 1")
    with pytest.raises(tool.BuildError, match=f"failed: OSError: Invalid argument\n.*{hint}"):
        tool.versions(tmp_path, kind)
    assert os.listdir(tmp_path) == ["venv"]


def test_what_is_built_and_hangs(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "CHECK_SECONDS", 0.1)
    executable(tmp_path / "venv" / "bin" / "mpiexec", "exec sleep 30")
    with pytest.raises(tool.BuildError, match=r"mpio failed: it has not ended in 0.1 s"):
        tool.versions(tmp_path, "mpi")


def test_two_ranks_try_mpi_also_as_root(tool: Any, tmp_path: Path) -> None:
    show = 'echo "{\\"words\\": \\"$*\\", \\"root\\": \\"$OMPI_ALLOW_RUN_AS_ROOT_CONFIRM\\"}"'
    executable(tmp_path / "venv" / "bin" / "mpiexec", "echo chatter", show)
    found = tool.versions(tmp_path, "mpi")
    assert found["root"] == "1"
    words = found["words"].split()
    assert words[words.index("-n") + 1] == "2"
    assert words[words.index("python") :][:4] == ["python", "-I", "-m", "mpi4py"]
    assert words[-2] == str(TOOL.with_name("check_mpi.py"))
    assert os.path.dirname(words[-1]) == str(tmp_path)


@pytest.mark.parametrize("kind", ["direct", "mpi", "newest"])
def test_hdf5_is_built_with_the_driver_of_its_kind(
    kind: str, tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: dict[str, tuple[str, ...]] = {}
    variables: dict[str, dict[str, str]] = {}

    def run(_log: Path, *words: str, cwd: Path | None = None, more: Any = None) -> None:
        assert cwd is None or cwd.is_dir()
        step = "configure" if "-S" in words else "packages" if "--no-binary" in words else words[0]
        lines[step], variables[step] = words, dict(more or {})

    def fetched(build: Path, _log: Path, _crates: Any) -> Path:
        for folder in ("libz-sys/src/zlib", "hdf5-metno-src/ext/hdf5/src"):
            (build / "vendor" / folder).mkdir(parents=True)
        (build / "vendor/hdf5-metno-src/ext/hdf5/src/H5public.h").touch()
        return build / "vendor"

    monkeypatch.setattr(tool, "run", run)
    monkeypatch.setattr(tool, "fetched", fetched)
    prefix = tmp_path / "prefix"
    tool.build_all(prefix, tool.RECIPES[kind], sys.executable, 2)
    options = {
        "direct": "HDF5_ENABLE_DIRECT_VFD=ON",
        "mpi": "HDF5_ENABLE_PARALLEL=ON",
        "newest": "HDF5_ENABLE_ZLIB_SUPPORT=ON",
    }
    assert [one for one in options.values() if f"-D{one}" in lines["configure"]] == [options[kind]]
    mpi = {"CC": "mpicc", "HDF5_MPI": "ON"} if kind == "mpi" else {}
    for step in ("configure", "packages"):
        found = {
            name: variables[step][name] for name in ("CC", "HDF5_MPI") if name in variables[step]
        }
        assert found == mpi
        assert variables[step]["PATH"].startswith(f"{prefix}/venv/bin{os.pathsep}")
    assert variables["packages"]["HDF5_DIR"] == f"{prefix}/hdf5"
    assert not (prefix / "build").exists()
