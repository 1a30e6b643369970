"""The command `multitables` as a process: how it ends, its page, its indexes, and its lines.

1. Each sub-command runs once: with a file, a pattern, and a file that is missing.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import h5py
import numpy as np
import pytest
from command_files import MANY, ONE, run, said
from processes import environment

import multitables
from _multitables.command import program
from _multitables.command.output import columns, plain
from _multitables.parent.titles import size

# ---- as a process


@pytest.mark.parametrize("name", [*ONE, *MANY])
def test_with_a_file(folder: Path, name: str) -> None:
    done = run(name, "run7.h5", *ONE.get(name, []))
    assert (done.returncode, done.stderr) == (0, "")
    assert "images" in done.stdout or name in ("head", "index")
    record = run(name, "run7.h5", *ONE.get(name, []), "--json")
    assert all(isinstance(json.loads(line), dict) for line in record.stdout.splitlines())


@pytest.mark.parametrize("name", MANY)
def test_with_a_pattern(folder: Path, name: str) -> None:
    done = run(name, "run*.h5")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.index("run7.h5") < done.stdout.index("run12.h5")  # numbers as numbers


@pytest.mark.parametrize("name", [*ONE, *MANY])
def test_with_a_file_that_is_missing(folder: Path, name: str) -> None:
    done = run(name, "none.h5", *ONE.get(name, []))
    assert (done.returncode, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("multitables: no such file: ")
    assert "none.h5" in line


def test_with_a_pattern_that_matches_nothing(folder: Path) -> None:
    for name in MANY:
        done = run(name, "*.none")
        assert done.returncode == 1
        assert done.stderr.splitlines()[0].startswith("multitables: no file matches '*.none'")
        assert len(done.stderr.splitlines()) == 1


def test_a_closed_pipe_ends_it_quietly(folder: Path) -> None:
    with h5py.File("many.h5", "w") as file:
        for number in range(3000):
            file.create_group(f"group_with_a_long_name_{number:060}")
    command = f"{sys.executable} -m multitables tree many.h5 | head -n 1"
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("many.h5")


def test_explain_is_the_benchmark_programs(folder: Path) -> None:
    done = run("explain", "none.h5")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("multitables_benchmark: ")
    assert "explain" in run("--help").stdout


def test_unknown_words(folder: Path) -> None:
    for words in ([], ["paint"], ["tree"], ["tree", "run7.h5", "--storage_options", "secret"]):
        done = run(*words)
        assert (done.returncode, done.stdout) == (2, "")
        assert "usage: multitables" in done.stderr
        assert "Traceback" not in done.stderr
        assert "'secret'" not in done.stderr
    assert run("--version").stdout == f"multitables {multitables.__version__}\n"


# ---- its page


PAGE = Path(__file__).parents[2] / "docs" / "howto" / "command.rst"


def sessions() -> list[tuple[str, str]]:
    """The commands of the page, each with what it prints there."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"\.\. code-block:: console\n\n((?: {4}.*\n|\n)+)", text)
    found = [textwrap.dedent(block).strip().partition("\n") for block in blocks]
    return [(command.removeprefix("$ multitables "), out) for command, _, out in found]


def without_numbers(text: str) -> str:
    """The text without rates, sizes (zlib has several makers) and the state of the page cache."""
    text = re.sub(r"[\d.]+ [kM]?B\b|page cache: .*", "N", text)
    return re.sub(r" +[0-9.e+]+ +[0-9.e+]+( +[0-9.e+-]+ times as fast)?$", " X", text, flags=re.M)


def test_the_page_shows_what_the_command_prints(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if not PAGE.exists():
        pytest.skip("an installation has no docs")
    monkeypatch.syspath_prepend(PAGE.parents[1] / "_ext")
    import example_files

    example_files.write_run7("run7.h5")
    assert len(sessions()) == 5
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    for command, out in sessions():
        assert program.main(command.split()) == 0
        got = without_numbers(capsys.readouterr().out)
        right = doctest.OutputChecker().check_output(without_numbers(out), got, flags)
        assert right, f"{command}\n{got}"


# ---- index


def test_an_index_is_used_and_a_manifest_has_all(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = said(capsys, "index", "run*.h5")
    assert [one["file"] for one in found] == ["run7.h5", "run12.h5"]
    written = [os.path.basename(one["written"]) for one in found]
    assert written == ["run7.h5.mtidx", "run12.h5.mtidx"]
    assert all(map(os.path.exists, (one["written"] for one in found)))
    assert said(capsys, "index", "run*.h5", "--to", "all.mtidx") == [{"written": "all.mtidx"}]
    assert multitables.open("all.mtidx")["images"].shape == (400, 8, 8)
    (record,) = said(capsys, "info", "all.mtidx", "images")
    assert record["shape"] == [400, 8, 8]
    with h5py.File("plain.h5", "w") as file:
        file["x"] = np.arange(5)
    assert said(capsys, "index", "plain.h5", "--to", "refs.json")[0]["written"] == "refs.json"
    assert np.array_equal(multitables.open("refs.json")["x"][:], np.arange(5))
    assert program.main(["index", "run*.h5", "--to", "refs.json"]) == 1
    assert "is for one file, got 2" in capsys.readouterr().err


# ---- output


def test_values_become_valid_json() -> None:
    values = {
        "a": np.array([1.0, np.nan, np.inf, -np.inf]), "b": np.float32(0.5), "c": b"\xff", "d": 1j,
        "e": np.bool_(True), "f": (1, "x"), "g": np.zeros((), "i2,S2")[()], "h": None,
    }  # fmt: skip
    assert json.loads(json.dumps(plain(values), allow_nan=False)) == {
        "a": [1.0, "nan", "inf", "-inf"], "b": 0.5, "c": "\\xff", "d": "1j",
        "e": True, "f": [1, "x"], "g": {"f0": 0, "f1": ""}, "h": None,
    }  # fmt: skip


def test_columns_begin_below_each_other() -> None:
    assert [*columns([["a", "bbb"], ["aaaa", "b", "c"], ["x" * 99, "y"]])] == [
        "a" + " " * 49 + "bbb", "aaaa" + " " * 46 + "b    c", "x" * 99 + "  y",
    ]  # fmt: skip
    assert [size(n) for n in (0, 999, 1000, 16_384_000, 5e14)] == [
        "0 B", "999 B", "1 kB", "16.4 MB", "500 TB",
    ]  # fmt: skip
