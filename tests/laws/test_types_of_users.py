"""A user's program before a type checker: complete types, and mistakes that it finds.

Law
---
1. A line of the program says in its comment what it must come to: a part of the revealed type, or
   an error. No other line may have an error.
2. The keywords that overloads take are those of the method, with the same types.
"""

from __future__ import annotations

import ast
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import multitables

ROOT = Path(multitables.__file__).parent
PROGRAM = """
from typing import Any
import multitables

def double(batch: Any) -> list[int]:
    return [2 * len(batch)]

streamer = multitables.Streamer("run7.h5", links="folder")
with streamer.get_queue("/x", 2, block_size=32) as queue:
    for guard in queue:
        with guard as block:
            reveal_type(block)  # -> ndarray
            reveal_type(guard.rows)  # -> tuple[int, int]
with streamer.get_queue(["/x", "/y"]) as pairs:
    for pair in pairs:
        with pair as both:
            reveal_type(both)  # -> tuple[ndarray
with streamer.get_queue({"x": "/x"}) as named:
    for one in named:
        with one as parts:
            reveal_type(parts)  # -> dict[Any, ndarray
with streamer.get_queue("/x", version=["r1", "r2"]) as versions:
    reveal_type(versions)  # -> VersionsQueue
for row, label in streamer.get_generator(("/x", "/y")):
    reveal_type(row)  # -> ndarray
for batch in streamer.get_batches("/x", 32, shuffle="chunks", share="node"):
    reveal_type(batch)  # -> ndarray
for x, y in streamer.get_batches(["/x", "/y"], 32, rank="mpi"):
    reveal_type(x)  # -> ndarray
for made in streamer.get_batches("/x", 32, transform=double, crop=8):
    reveal_type(made)  # -> list[int]
for ragged in streamer.get_batches(multitables.Ragged("/values", "/ends"), 32):
    reveal_type(ragged)  # -> RaggedBlock

f = multitables.open("run7.h5", "r")
reveal_type(f)  # -> File
reveal_type(f["x"].shape)  # -> tuple[int, ...]
reveal_type(f["x"][3:5])  # -> ndarray
reveal_type(f["x"].chunks)  # -> tuple[int, ...]
reveal_type(f["g"].keys())
dataset: multitables.Dataset = f["x"]
group: multitables.Group = f["g"]
reveal_type(dataset[3:5])  # -> ndarray
reveal_type(dataset[0, ::2])  # -> ndarray
reveal_type(dataset[...])  # -> ndarray
reveal_type(dataset[3, 4])  # -> Any
found = f["g"]
if isinstance(found, multitables.Group):
    reveal_type(found.name)
else:
    reveal_type(found)  # -> Any
for batch in dataset.batches(32, shuffle=True):
    pass

def wrapped(paths: str | list[str]) -> None:
    for batch in streamer.get_batches(paths, 32):
        reveal_type(batch)  # -> Any

streamer.get_batches("/x", 32, shuffle="fully")  # error
streamer.get_batches("/x", 32, shufle=True)  # error
streamer.get_batches("/x")  # error
streamer.get_batches("/x", 32, share="nodes")  # error
streamer.get_queue("/x", blocksize=32)  # error
streamer.get_collection("/shots/*", order="rnd")  # error
multitables.Streamer("run7.h5", links="all")  # error
multitables.open("run7.h5", links="all")  # error
dataset.batches(32, shuffle="fully")  # error
dataset.shpae  # error
"""


def run(
    command: list[str], place: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run a checker in a folder; it ends with 1 where it has found errors."""
    return subprocess.run(command, check=False, cwd=place, env=environment, capture_output=True)


def mypy(program: Path) -> Iterator[tuple[int, bool, str]]:
    """Line, whether it is an error, and message."""
    command = [sys.executable, "-m", "mypy", "--strict", "--output=json", program.name]
    environment = {"MYPYPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    done = run(command, program.parent, environment)
    assert done.returncode in (0, 1), done.stderr.decode()
    for line in done.stdout.decode().splitlines():
        said = json.loads(line)
        assert said["file"].endswith(program.name), line
        yield said["line"], said["severity"] == "error", said["message"]


def pyright(program: Path) -> Iterator[tuple[int, bool, str]]:
    """Line, whether it is an error, and message."""
    settings = {"extraPaths": [str(ROOT)], "typeCheckingMode": "standard"}
    (program.parent / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [sys.executable, "-m", "pyright", "--outputjson", "-p", "."]
    command += ["--pythonpath", sys.executable]
    done = run(command, program.parent)
    assert done.returncode in (0, 1), done.stderr.decode()
    for said in json.loads(done.stdout)["generalDiagnostics"]:
        line = said["range"]["start"]["line"] + 1
        yield line, said["severity"] == "error", said["message"]


@pytest.mark.hang(240)
@pytest.mark.parametrize("checker", [mypy, pyright], ids=["mypy", "pyright"])
def test_a_checker_reads_a_users_program(checker: object, tmp_path: Path) -> None:
    assert callable(checker)
    if importlib.util.find_spec(checker.__name__) is None:
        pytest.skip(f"pip install multitables[lint] for {checker.__name__}")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    said: dict[int, list[tuple[bool, str]]] = {}
    for line, is_error, message in checker(program):
        said.setdefault(line, []).append((is_error, message))
    wrong = []
    for number, line in enumerate(PROGRAM.splitlines(), 1):
        here = said.get(number, [])
        errors = [message for is_error, message in here if is_error]
        wanted = line.partition("# -> ")[2]
        short = re.sub(r"\b(?:numpy|builtins|multitables|_multitables)\.(?:\w+\.)*", "", str(here))
        if bool(errors) != line.endswith("# error") or wanted not in short:
            wrong.append((line, here))
    assert wrong == []


def declared(path: str, name: str) -> dict[str, str]:
    """The names of a function's arguments, or of a class, and their types as they are written."""
    for node in ast.walk(ast.parse((ROOT / path).read_text(encoding="utf-8"))):
        if getattr(node, "name", None) != name or getattr(node, "decorator_list", None):
            continue
        if isinstance(node, ast.ClassDef):
            fields = [one for one in node.body if isinstance(one, ast.AnnAssign)]
            return {ast.unparse(one.target): ast.unparse(one.annotation) for one in fields}
        if isinstance(node, ast.FunctionDef):
            every = [*node.args.args, *node.args.kwonlyargs][1:]
            return {one.arg: ast.unparse(one.annotation) for one in every if one.annotation}
    raise AssertionError(f"no {name} in {path}")


def test_keywords_are_those_of_the_methods() -> None:
    typed = "_multitables/parent/typed.py"
    stream = declared(typed, "StreamKeywords")
    queue = declared("_multitables/parent/streamer.py", "get_queue")
    generator = declared("_multitables/parent/streamer.py", "get_generator")
    first = {"path": "Paths", "n_procs": "int | None"}
    assert first | stream | {"version": "VersionKeys | None"} == queue
    assert first | stream | declared(typed, "VersionKeywords") == generator
    batches = declared("_multitables/parent/file_loaders.py", "get_batches")
    own = {"path": "Paths", "batch_size": "int", "transform": "Callable[[Any], Any] | None"}
    keywords = declared(typed, "OrderKeywords") | declared(typed, "BatchKeywords")
    assert own | keywords == batches
