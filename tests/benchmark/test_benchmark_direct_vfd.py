"""tools/direct_vfd: its arguments, its plan as values, and what it says when a step fails.

Law
---
1. Nothing is built or fetched: the steps that are done are the test's own.
2. The tool is no package; its files are imported from where they lie, and forgotten afterwards.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import shutil
import sys
import tarfile
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import _benchmark

TOOL = Path(_benchmark.__file__).parents[1] / "tools" / "direct_vfd"
MODULES = ("steps", "plan", "building")

pytestmark = pytest.mark.skipif(not TOOL.is_dir(), reason="an installation has no tools")


@pytest.fixture(scope="module")
def tool() -> Iterator[SimpleNamespace]:
    """The tool's modules; ``program`` is what is run."""
    sys.path.insert(0, str(TOOL))
    try:
        found = {name: importlib.import_module(name) for name in MODULES}
        spec = importlib.util.spec_from_file_location("direct_vfd", TOOL / "__main__.py")
        assert spec is not None
        assert spec.loader is not None
        program = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(program)
        yield SimpleNamespace(program=program, **found)
    finally:
        sys.path.remove(str(TOOL))
        for name in MODULES:
            sys.modules.pop(name, None)


def some_options(tool: Any, **more: Any) -> Any:
    given = {
        "prefix": "/prefix",
        "python": tool.steps.Interpreter((3, 11), "/usr/bin/python3.11"),
        "source": None,
        "source_identity": "1.14.6",
        "jobs": 2,
        "with_h5py": True,
    }
    wanted = {**given, **more}
    wanted["python"] = tool.steps.Interpreter(*wanted["python"])
    return tool.steps.Options(**wanted)


# Arguments


def test_help_names_what_it_needs(tool: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        tool.program.main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    for word in ("PREFIX", "--source", "hdf5-metno-src", "--jobs", "C compiler", "Python 3.10"):
        assert word in said


@pytest.mark.parametrize("words", [[], ["x", "--jobs", "0"], ["x", "--jobs", "two"], ["x", "y"]])
def test_wrong_arguments(words: list[str], tool: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        tool.program.main(words)
    assert ended.value.code == 2


def test_a_source_that_is_not_there(
    tool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(tmp_path / "prefix"), "--source", str(tmp_path / "none.tar.gz")]
    assert tool.program.main([*words, "--python", sys.executable]) == 1
    said = capsys.readouterr().err
    assert "--source cannot be read" in said or "no Python 3.10 to 3.11" in said
    assert not (tmp_path / "prefix").exists()


def fake_python(path: Path, version: str) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version} /the/real/python\n")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("version", "fits"),
    [("3 9", False), ("3 10", True), ("3 11", True), ("3 12", False), ("", False)],
)
def test_which_python_fits(version: str, fits: bool, tool: Any, tmp_path: Path) -> None:
    python = fake_python(tmp_path / "python", version)
    if fits:
        found = tool.steps.suitable_python(python, "/prefix/venv/bin/python")
        assert found == ((3, int(version[2:])), "/the/real/python")
        return
    with pytest.raises(tool.building.BuildError, match=r"no Python 3.10 to 3.11.*--python"):
        tool.steps.suitable_python(python, "/prefix/venv/bin/python")


def test_the_python_that_is_there_goes_on(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whichever runs the program the next time."""
    present = fake_python(tmp_path / "prefix" / "venv" / "bin" / "python", "3 10")
    monkeypatch.setattr(sys, "executable", fake_python(tmp_path / "python", "3 11"))
    words = [str(tmp_path / "prefix")]
    assert tool.program.options_of(tool.program.parser().parse_args(words)).python[0] == (3, 10)
    os.unlink(present)
    assert tool.program.options_of(tool.program.parser().parse_args(words)).python[0] == (3, 11)


# The plan


def test_the_plan(tool: Any) -> None:
    plan = tool.plan.plan(some_options(tool))
    names = [step.name for step in plan]
    assert names == [
        *("sources", "environment", "zlib", "hdf5", "blosc", "pytables", "h5py", "packages")
    ]
    stages = [step.stage for step in plan]
    assert stages == sorted(stages)
    assert len({step.key for step in plan}) == len(plan)
    assert all(step.output.startswith("/prefix/") for step in plan)
    assert all(step.advice.endswith(".") for step in plan)
    without = tool.plan.plan(some_options(tool, with_h5py=False))
    assert [step.name for step in without] == [name for name in names if name != "h5py"]


@pytest.mark.parametrize(
    ("change", "same"),
    [
        ({"jobs": 1}, "sources environment zlib hdf5 blosc pytables h5py packages"),
        ({"source": "/a", "source_identity": "1"}, "environment"),
        ({"python": ((3, 12), "/usr/bin/python3.11")}, "sources"),
        (
            {"python": ((3, 11), "/elsewhere/python3.11")},
            "sources environment zlib hdf5 blosc pytables h5py packages",
        ),
        ({"prefix": "/c"}, ""),
    ],
)
def test_what_is_built_again(change: dict[str, Any], same: str, tool: Any) -> None:
    before = {step.name: step.key for step in tool.plan.plan(some_options(tool))}
    after = {step.name: step.key for step in tool.plan.plan(some_options(tool, **change))}
    assert [name for name in before if before[name] == after[name]] == same.split()


def names_of_todo(tool: Any, finished: set[str], gone: tuple[str, ...] = ()) -> list[str]:
    plan = tool.plan.plan(some_options(tool))
    marks = {step.name: step.key for step in plan if step.name in finished}
    lost = tuple(f"/prefix/{part}" for part in gone)
    found = tool.plan.todo(plan, marks, lambda path: not path.startswith(lost or ("//",)))
    return [step.name for step in found]


ALL = {"sources", "environment", "zlib", "hdf5", "blosc", "pytables", "h5py", "packages"}


@pytest.mark.parametrize(
    ("finished", "gone", "expected"),
    [
        (ALL, (), ""),
        (ALL, ("build",), ""),
        (set(), ("build", "venv", "zlib", "hdf5"), " ".join(sorted(ALL))),
        (ALL - {"h5py", "packages"}, (), "h5py packages"),
        (ALL - {"packages"}, ("build",), "sources blosc pytables h5py packages"),
        (ALL - {"hdf5"}, (), "hdf5 blosc pytables h5py packages"),
        (ALL, ("venv",), "environment zlib hdf5 blosc pytables h5py packages"),
    ],
)
def test_what_is_left_to_do(
    finished: set[str], gone: tuple[str, ...], expected: str, tool: Any
) -> None:
    assert sorted(names_of_todo(tool, finished, gone)) == sorted(expected.split())


@given(st.sets(st.sampled_from(sorted(ALL))))
def test_nothing_unfinished_is_left_out(tool: Any, finished: set[str]) -> None:
    todo = names_of_todo(tool, finished)
    assert ALL - finished <= set(todo)
    assert (not todo) == (finished == ALL)
    again = names_of_todo(tool, finished | set(todo))
    assert again == []


def test_another_recipe_is_built_again(tool: Any) -> None:
    plan = tool.plan.plan(some_options(tool))
    marks = {step.name: "another key" for step in plan}
    assert tool.plan.todo(plan, marks, lambda _path: True) == plan


# The source of HDF5


def written_source(directory: Path, depth: str) -> Path:
    top = directory / depth
    (top / "src").mkdir(parents=True)
    (top / "src" / "H5public.h").write_text("")
    (top / "CMakeLists.txt").write_text("")
    return top


@pytest.mark.parametrize("depth", [".", "hdf5-1.14.6", "ext/hdf5", "crate-0.9.5/ext/hdf5"])
@pytest.mark.parametrize("kind", ["directory", "gztar", "zip"])
def test_a_source_however_it_is_packed(kind: str, depth: str, tool: Any, tmp_path: Path) -> None:
    top = written_source(tmp_path / "given", depth)
    source, unpacked = tmp_path / "given", tmp_path / "prefix" / "build" / "source"
    if kind != "directory":
        source = Path(shutil.make_archive(str(tmp_path / "packed"), kind, tmp_path / "given"))
        assert tarfile.is_tarfile(source) or zipfile.is_zipfile(source)
        tool.steps.unpack(str(source), str(unpacked))
        top = unpacked / depth
    options = some_options(tool, prefix=str(tmp_path / "prefix"), source=str(source))
    building = tool.building.Building(options.prefix, 1)
    (step,) = (one for one in tool.plan.plan(options) if one.name == "hdf5")
    found = tool.steps.hdf5_source(options, tool.building.Work(building, step))
    assert os.path.samefile(found, top)


def test_a_source_that_is_none(tool: Any, tmp_path: Path) -> None:
    text = tmp_path / "text.tar.gz"
    text.write_text("no archive")
    with pytest.raises(tool.building.BuildError, match="neither a directory nor a tar or zip"):
        tool.steps.unpack(str(text), str(tmp_path / "out"))
    options = some_options(tool, prefix=str(tmp_path), source=str(tmp_path))
    building = tool.building.Building(options.prefix, 1)
    step = tool.plan.plan(options)[0]
    with pytest.raises(tool.building.BuildError, match=r"'sources' .* failed: .* holds no release"):
        tool.steps.hdf5_source(options, tool.building.Work(building, step))


# Doing it


def rows(tool: Any, *stages: tuple[tuple[str, str], ...]) -> tuple[Any, ...]:
    """A table of steps that run a line of shell each, and leave a file with their name."""

    def act_of(name: str, line: str) -> Any:
        def act(options: Any, work: Any) -> None:
            work.run("sh", "-c", f"{line}\ntouch {options.path(name)}")

        return act

    return tuple(
        tool.plan.Row(stage, name, f"make {name}", "Mend it.", act_of(name, line), (name,))
        for stage, steps in enumerate(stages)
        for name, line in steps
    )


@pytest.fixture
def build(tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the program with a table of the test's own; no check behind it."""
    prefix = tmp_path / "prefix"
    python = tool.steps.Interpreter((3, 11), sys.executable)
    monkeypatch.setattr(tool.steps, "suitable_python", lambda *_asked: python)
    monkeypatch.setattr(tool.steps, "check", lambda _options, _building: {"HDF5": "1.14.6"})

    def run(*stages: tuple[tuple[str, str], ...]) -> int:
        monkeypatch.setattr(tool.plan, "TABLE", rows(tool, *stages))
        return int(tool.program.main([str(prefix)]))

    return SimpleNamespace(run=run, prefix=prefix)


def test_a_finished_part_is_not_built_again(
    build: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count = f"echo x >> {tmp_path}/count"
    stages = ((("a", count), ("b", count)), (("c", count),))
    assert build.run(*stages) == 0
    said = capsys.readouterr().out
    assert "c: make c ..." in said
    assert "H5FD_DIRECT works" in said
    assert f"--direct_vfd {build.prefix}" in said
    assert json.loads((build.prefix / "ready.json").read_text()) == {"HDF5": "1.14.6"}
    assert build.run(*stages) == 0
    assert capsys.readouterr().out.count(": already there") == 3
    assert (tmp_path / "count").read_text() == "x\n" * 3
    assert not (build.prefix / "build").exists()


def test_a_failed_step(build: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    count = f"echo x >> {tmp_path}/count"
    lines = "for i in $(seq 30); do echo line $i; done; exit 3"
    later = (("c", count),)
    assert build.run((("a", count),), (("b", lines),), later) == 1
    said = capsys.readouterr().err
    assert said.startswith("direct_vfd: step 'b' (make b) failed: sh -c ")
    assert "ended with status 3 (expected status 0)" in said
    log = build.prefix / "log" / "b.log"
    assert str(log) in said
    assert "line 30\n" in said
    assert "line 18\n" not in said
    assert "line 18\n" in log.read_text()
    assert "What is good: finished and kept: a." in said
    assert "What to do: Mend it. Then run the same command again; it goes on with 'b'." in said
    assert not (build.prefix / "ready.json").exists()
    # mended
    assert build.run((("a", count),), (("b", "true"),), later) == 0
    assert (tmp_path / "count").read_text() == "x\n" * 2
    assert (build.prefix / "ready.json").exists()


def test_a_command_that_is_not_there(
    tool: Any, build: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def act(_options: Any, work: Any) -> None:
        work.run("no-such-program")

    monkeypatch.setattr(
        tool.plan, "TABLE", (tool.plan.Row(0, "a", "make a", "Install it.", act, ("a",)),)
    )
    assert tool.program.main([str(build.prefix)]) == 1
    said = capsys.readouterr().err
    assert "no-such-program did not start" in said
    assert "nothing was finished before" in said
    assert "Install it." in said


def test_a_step_that_is_done_again_is_unfinished_meanwhile(tool: Any, tmp_path: Path) -> None:
    """So that one that is killed is not taken for finished."""
    building = tool.building.Building(str(tmp_path), 1)
    seen = []

    def act(_options: Any, _work: Any) -> None:
        seen.append(building.finished())

    step = tool.plan.Step(0, "a", "make a", "Mend it.", act, "/nowhere", True, "key")
    for _ in range(2):
        building.do(step, None)
        assert building.finished() == {"a": "key"}
    assert seen == [{}, {}]


def test_the_environment_of_this_python_is_kept_out(
    tool: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")

    def act(_options: Any, work: Any) -> None:
        work.run("sh", "-c", "echo path=$PYTHONPATH more=$MORE", environment={"MORE": "x"})

    step = tool.plan.Step(0, "a", "make a", "Mend it.", act, "/nowhere", True, "key")
    tool.building.Building(str(tmp_path), 1).do(step, None)
    assert (tmp_path / "log" / "a.log").read_text().splitlines()[-1] == "path= more=x"


def alive(group: int) -> list[str]:
    """The processes of a group that run; what is dead waits for whoever adopted it (proc(5))."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            text = stat.read_text()
            state, _parent, its_group = text.rpartition(")")[2].split()[:3]
            if int(its_group) == group and state not in "ZX":
                found.append(text)
    return found


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_interrupted_it_leaves_no_command_running(
    name: str, build: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    count, pid = f"echo x >> {tmp_path}/count", tmp_path / "pid"
    interrupted = f"echo $$ > {pid}; kill -{name} {os.getpid()}; sleep 60; exit 1"
    assert build.run((("a", count),), (("b", interrupted), ("c", count)), (("d", count),)) == 130
    assert "interrupted; the same command goes on" in capsys.readouterr().err
    deadline = time.monotonic() + 10
    while alive(int(pid.read_text())) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert alive(int(pid.read_text())) == []
    assert build.run((("a", count),), (("b", "true"), ("c", count)), (("d", count),)) == 0
    said = capsys.readouterr().out
    assert "a: already there" in said
    assert "d: make d ..." in said


def test_two_do_not_build_in_one_place(build: Any, capsys: pytest.CaptureFixture[str]) -> None:
    build.prefix.mkdir()
    with open(build.prefix / "lock", "w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert build.run((("a", "true"),)) == 1
    assert "builds in" in capsys.readouterr().err
    assert build.run((("a", "true"),)) == 0


def test_what_is_built_and_does_not_read(
    tool: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = some_options(tool, prefix=str(tmp_path))
    python = Path(options.interpreter)
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\necho OSError: Invalid argument >&2\nexit 1\n")
    python.chmod(0o755)
    building = tool.building.Building(options.prefix, 1)
    with pytest.raises(tool.building.BuildError, match="failed: OSError: Invalid argument") as no:
        tool.steps.check(options, building)
    assert "What was built is kept" in str(no.value)
    assert "a PREFIX on a disk" in str(no.value)
