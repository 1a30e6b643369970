"""Which program readers are: frozen programs and those that embed Python name themselves.

1. Such a program is never started as a reader, or once for each attempt to start one: no chain.
2. `set_reader_command` says what is started instead.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import payload
import pytest
from processes import children

import multitables
from _multitables import machine

#: A program of its own: it counts its starts, says that it is what runs Python, and reads.
PROGRAM = """#!{python}
import sys
sys.path[:0] = {path!r}
with open({log!r}, "a") as log:
    log.write("started\\n")
sys.executable, frozen, command = {program!r}, {frozen!r}, {command!r}
if frozen:
    sys.frozen = True
import multitables
if command:
    multitables.set_reader_command(command)
try:
    with multitables.Streamer({file!r}).get_queue("rows", n_procs=1) as queue:
        print("rows", sum(len(guard.__enter__()) for guard in queue))
except multitables.ReaderDiedError as error:
    print("named", error)
"""


@pytest.fixture(autouse=True)
def _reset() -> Iterator[None]:
    yield
    multitables.set_reader_command(None)


def starts(
    folder: Path, numbered: Path, name: str, *, frozen: bool = False, command: str | None = None
) -> tuple[int, str]:
    """How often a program of this name was started, and what the first one said."""
    program, log = folder / name, folder / "log"
    text = PROGRAM.format(
        python=sys.executable,
        path=sys.path,
        log=str(log),
        program=str(program),
        frozen=frozen,
        command=command,
        file=str(numbered),
    )
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)
    output = subprocess.DEVNULL
    done = subprocess.run([program], stdout=subprocess.PIPE, stderr=output, text=True, check=True)
    return len(log.read_text(encoding="utf-8").splitlines()), done.stdout


def test_a_frozen_program_is_named_at_once(numbered: Path, tmp_path: Path) -> None:
    count, said = starts(tmp_path, numbered, "appy", frozen=True)
    assert count == 1
    assert "frozen program" in said
    assert f"set_reader_command('/path/of/python{sys.version_info[0]}." in said


def test_a_frozen_program_that_names_python_reads(numbered: Path, tmp_path: Path) -> None:
    count, said = starts(tmp_path, numbered, "appy", frozen=True, command=sys.executable)
    assert (count, said) == (1, f"rows {payload.ROWS}\n")


def test_a_program_that_embeds_python_finds_it(numbered: Path, tmp_path: Path) -> None:
    """Its name is not Python's, so Python is searched where its modules are."""
    assert starts(tmp_path, numbered, "server") == (1, f"rows {payload.ROWS}\n")


def test_a_program_that_is_taken_for_python_starts_no_chain(numbered: Path, tmp_path: Path) -> None:
    count, said = starts(tmp_path, numbered, "my-python")
    assert count <= 4  # itself, and each attempt to start a reader
    assert "named reader 0" in said


def test_a_program_that_was_started_as_a_reader_says_so(
    numbered: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(machine.STARTED_BY, "4711")
    with pytest.raises(multitables.ReaderDiedError, match=r"process 4711.*set_reader_command"):
        multitables.Reader(numbered, n_procs=1)
    assert children() == {}


def test_a_command_of_several_words_is_python(numbered: Path, tmp_path: Path) -> None:
    wrapper = tmp_path / "run"
    wrapper.write_text('#!/bin/sh\nexec "$@"\n', encoding="utf-8")
    wrapper.chmod(0o755)
    multitables.set_reader_command([str(wrapper), sys.executable])
    with multitables.Reader(numbered, n_procs=1) as reader:
        assert len(reader.request(reader.get_dataset("/rows")[:5]).get()) == 5


def test_a_command_is_searched_as_a_shell_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable))
    multitables.set_reader_command(os.path.basename(sys.executable))
    assert machine.python_program() == sys.executable


@pytest.mark.parametrize("command", [[], "", 5, ["python", 5], "/no/such/python", ["no-such"]])
def test_what_is_no_command_is_refused(command: object) -> None:
    with pytest.raises(multitables.OptionsError, match="set_reader_command"):
        multitables.set_reader_command(command)  # type: ignore[arg-type]
