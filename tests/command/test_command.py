"""The command `multitables`: what it says of files, as text and as JSON, and how it ends.

Law
---
1. Each sub-command runs once as a process: with a file, a pattern, and a file that is missing.
2. What it says is compared with what h5py reads.
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
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
from plain_server import plain_server
from processes import environment

import multitables
from _multitables.command import advice, bench, program
from _multitables.command.output import columns, plain
from _multitables.parent.titles import size

HOSTILE = "<b>\x1b[31m&\"'\n"
ONE = {"info": ["/images"], "head": ["/images"], "bench": ["/images", "--seconds", "0.2"]}
MANY = ("tree", "ls", "index")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("run7.h5", "run12.h5"):
        write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path


def write(path: Path) -> None:
    rows = np.arange(200 * 64, dtype="f4").reshape(200, 8, 8)
    with h5py.File(path, "w") as file:
        images = file.create_dataset(
            "images", data=rows, chunks=(20, 8, 8), compression="gzip", compression_opts=3,
            shuffle=True,
        )  # fmt: skip
        images.attrs["camera"] = "front"
        file["labels"] = np.arange(200)
        file["shots/1/current"] = np.linspace(0, 1, 10)
        file["again"] = file["labels"]
        file["soft"], file["out"] = h5py.SoftLink("/images"), h5py.ExternalLink("other.h5", "/x")
        file["scalar"], file["null"] = 5.0, h5py.Empty("f4")
        file["names"] = ["a", "bb"]
        file["table"] = np.array(
            [(1, b"x", [0.5, np.nan])], [("a", "<i2"), ("b", "S3"), ("c", "f8", 2)]
        )
        file[HOSTILE] = np.arange(3)
        file["type"] = np.dtype("<i2")


def run(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m multitables`, whose warnings are errors."""
    command = [sys.executable, "-W", "error", "-m", "multitables", *words]
    return subprocess.run(
        command, env=environment(), capture_output=True, text=True, timeout=60, check=False
    )


def said(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    """What a sub-command says in JSON, without an error."""
    assert program.main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return [json.loads(line) for line in out.splitlines()]


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


def test_who_stops_reading_ends_it_quietly(folder: Path) -> None:
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


def test_words_that_are_none_of_its_own(folder: Path) -> None:
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


# ---- tree and ls


def test_what_is_in_a_file(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, *found = said(capsys, "ls", "run7.h5")
    assert first == {
        "file": "run7.h5", "path": "/", "kind": "file", "stored_bytes": os.path.getsize("run7.h5"),
    }  # fmt: skip
    by_path = {record["path"]: record for record in found}
    with h5py.File("run7.h5") as file:
        datasets = {f"/{name}": one for name, one in all_datasets(file).items()}
        for path, record in by_path.items():
            if record["kind"] != "dataset":
                continue
            one = datasets[path if "<b>" not in path else f"/{HOSTILE}"]
            assert record["shape"] == (None if one.shape is None else list(one.shape))
            assert record["chunks"] == (list(one.chunks) if one.chunks else None)
            assert record["stored_bytes"] == one.id.get_storage_size()
            if one.dtype.kind != "O":
                assert record["dtype"] == str(one.dtype)
                assert record["decoded_bytes"] == (one.nbytes if one.shape is not None else 0)
    assert by_path["/images"]["filters"] == ["shuffle", "deflate 3"]
    assert by_path["/names"]["dtype"] == "text"
    assert {record["path"]: record["to"] for record in found if record["kind"] == "link"} == {
        "/soft": "/images", "/out": "/x in other.h5", "/labels": "/again",
    }  # fmt: skip
    readers = {path: one["read_by"] for path, one in by_path.items() if one["kind"] == "dataset"}
    assert {path for path, reader in readers.items() if reader == "indexing"} == {
        "/scalar",
        "/null",
    }
    assert {reader for path, reader in readers.items()} == {"indexing", "core"}
    assert by_path["/shots"]["members"] == 1
    assert by_path["/type"] == {
        "file": "run7.h5",
        "path": "/type",
        "kind": "type",
        "dtype": "int16",
    }


def all_datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    found = {}
    for name in [*file, "shots/1/current"]:
        one = None if name == "out" else file[name]
        if isinstance(one, h5py.Dataset):
            found[name] = one
    return found


def test_a_tree_stands_below_each_other(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert program.main(["tree", "run7.h5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    at = lines.index("  shots/")
    assert lines[at + 1] == "    1/"
    assert lines[at + 2].split() == ["current", "float64", "(10,)", "-", "-", "80", "B", "core"]
    assert "\x1b" not in "".join(lines)
    assert any(line.startswith(r"  <b>\x1b[31m&" + "\"'" + r"\n") for line in lines)
    assert program.main(["tree", "run7.h5", "--depth", "1"]) == 0
    assert "    1/" not in capsys.readouterr().out.splitlines()


def test_a_filter_that_only_a_plugin_has(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.zeros((64, 64))
    with h5py.File("zfp.h5", "w") as file:
        file.create_dataset("x", data=rows, chunks=(8, 64), **hdf5plugin.Zfp())
        file.create_dataset("y", data=rows, chunks=(8, 64), **hdf5plugin.Blosc(cname="zstd"))
    _, x, y = said(capsys, "ls", "zfp.h5")
    # readers load the plugin
    assert (x["filters"], x["read_by"], x["why_library"]) == (["zfp"], "core", "")
    assert (y["filters"], y["read_by"]) == (["blosc (zstd 5)"], "core")


def test_a_type_that_numpy_lacks_is_no_failure(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    wide = h5py.h5t.STD_I64LE.copy()
    wide.set_size(16)
    with h5py.File("wide.h5", "w") as file:
        chunked = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        chunked.set_chunk((2,))
        h5py.h5d.create(file.id, b"x", wide, h5py.h5s.create_simple((3,)), chunked)
        file["y"] = np.arange(3)
    _, x, y = said(capsys, "ls", "wide.h5")
    assert "integer of 16 bytes" in x["dtype"]
    assert (x["shape"], x["decoded_bytes"], y["dtype"]) == ([3], None, "int64")
    (record,) = said(capsys, "info", "wide.h5", "x")
    assert (record["chunk_bytes"], record["stored_chunks"], record["advice"]) == (None, 0, [])
    assert program.main(["info", "wide.h5", "x"]) == 0
    assert "  chunks    (2,)\n" in capsys.readouterr().out
    assert program.main(["head", "wide.h5", "x"]) == 1
    assert program.main(["bench", "wide.h5", "x"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert "integer of 16 bytes" in multitables.open("wide.h5")["x"]._repr_html_()


def test_what_an_hdf5_library_reads(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with h5py.File("zfp.h5", "w") as file:
        file.create_dataset("x", data=np.zeros((64, 64)), chunks=(8, 64), **hdf5plugin.Zfp())
    monkeypatch.setattr("_multitables.index.types.plugins._found", lambda *_: None)
    _, record = said(capsys, "ls", "zfp.h5")
    assert record["read_by"] == "library"
    assert record["why_library"].startswith("filter 32013 (")
    assert program.main(["tree", "zfp.h5"]) == 0
    assert "library: filter 32013 (" in capsys.readouterr().out


def test_a_damaged_file_does_not_hide_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("run8.h5").write_bytes(Path("run7.h5").read_bytes()[:100])
    assert program.main(["ls", "run*.h5", "--json"]) == 1
    out, err = capsys.readouterr()
    found = [json.loads(line) for line in out.splitlines()]
    assert {one["file"] for one in found if "path" in one} == {"run7.h5", "run12.h5"}
    (wrong,) = (one for one in found if "path" not in one)
    assert wrong["file"] == "run8.h5"
    assert err == f"multitables: {wrong['error']}\n"


def test_a_damaged_object_does_not_hide_the_others(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File("run7.h5") as file:
        address = h5py.h5o.get_info(file["labels"].id).addr
        others = {"/images", "/names", "/shots/1/current"}
    with open("run7.h5", "r+b") as raw:
        raw.seek(address)
        raw.write(b"\xff" * 16)
    for name in ("ls", "tree"):
        assert program.main([name, "run7.h5", "--json"]) == 1
        out, err = capsys.readouterr()
        found = {one["path"]: one for one in map(json.loads, out.splitlines())}
        assert err == ""
        assert others <= set(found)
        assert {path for path, one in found.items() if "error" in one} == {"/again", "/labels"}
        assert program.main([name, "run7.h5"]) == 1
        assert found["/labels"]["error"] in capsys.readouterr().out


def test_a_warning_is_a_line_on_standard_error(folder: Path) -> None:
    words = ["-m", "multitables", "index", "run7.h5", "--to", "refs.json", "--skip_unsupported"]
    done = subprocess.run(
        [sys.executable, *words],
        env=environment(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, "refs.json\n")
    lines = done.stderr.splitlines()
    assert lines
    assert all(line.startswith("multitables: warning: Zarr cannot read") for line in lines)


def test_links_in_circles_end(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File("circle.h5", "w") as file:
        group = file.create_group("a/b")
        group["up"] = file["a"]
    found = said(capsys, "ls", "circle.h5")
    assert [one.get("to") for one in found] == [None, None, None, "/a"]


def test_an_object_of_a_web_server(folder: Path) -> None:
    with plain_server() as server:
        server.objects["/run7.h5"] = Path("run7.h5").read_bytes()
        done = run("ls", f"{server.endpoint}/run7.h5?key=1", "--json")
        here = run("ls", "run7.h5", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    records = [[json.loads(line) for line in one.stdout.splitlines()] for one in (done, here)]
    for there, local in zip(*records, strict=True):
        assert "key" not in there["file"]
        differ = {"file": "", "stored_bytes": 0, "why_library": ""}
        assert there | differ == local | differ


# ---- info and head


def test_info(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (record,) = said(capsys, "info", "run7.h5", "images")
    with h5py.File("run7.h5") as file:
        images = file["images"]
        assert record["stored_chunks"] == images.id.get_num_chunks() == 10
        assert record["maxshape"] == list(images.maxshape)
    assert record["chunk_bytes"] == 20 * 64 * 4
    assert record["attributes"] == {"camera": "front"}
    assert record["advice"] == []  # there is too little of it
    for path, kind in (("/", "group"), ("/type", "type"), ("/scalar", "dataset")):
        (record,) = said(capsys, "info", "run7.h5", path)
        assert record["kind"] == kind
        assert program.main(["info", "run7.h5", path]) == 0
        assert capsys.readouterr().out.startswith(f"{path} in run7.h5: {kind}\n")
    assert program.main(["info", "run7.h5", "none"]) == 1
    assert capsys.readouterr().err.startswith("multitables: no such dataset: '/none'")


def test_advice_of_real_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = np.arange(1000 * 1024, dtype="f4").reshape(1000, 1024)
    noise = np.random.default_rng(1).bytes(rows.nbytes)
    with h5py.File("stored.h5", "w") as file:
        file.create_dataset("tiny", data=rows, chunks=(1, 64), compression="gzip")
        file.create_dataset("cut", data=rows, chunks=(500, 64), compression="gzip")
        file.create_dataset("good", data=rows, chunks=(64, 1024), compression="gzip")
        file.create_dataset("plain", data=rows)
        file["noise"] = np.frombuffer(noise, "f4").reshape(rows.shape)
        file.create_dataset("vain", data=file["noise"][()], chunks=(64, 1024), compression="gzip")
    begins = {"tiny": "The chunks are small: 256 B", "cut": "Rows are cut: each lies in 16 chunks",
              "plain": "Nothing is compressed", "vain": "The compression saves little"}  # fmt: skip
    for name in ("tiny", "cut", "good", "plain", "noise", "vain"):
        (record,) = said(capsys, "info", "stored.h5", name)
        found = [one for one in record["advice"] if "block_size=" not in one]
        assert [one.startswith(begins[name]) for one in found] == [True] * (name in begins), name
    assert "h5repack -l /cut:CHUNK=64x1024 OLD NEW" in advice_of(capsys, "cut")
    assert "give block_size=64" in advice_of(capsys, "tiny")


def advice_of(capsys: pytest.CaptureFixture[str], name: str) -> str:
    assert program.main(["info", "stored.h5", name]) == 0
    out = capsys.readouterr().out
    assert "\nadvice\n" in out
    return out.partition("\nadvice\n")[2]


def test_a_block_of_the_advised_size_is_whole_chunks() -> None:
    stored = advice.Storage("/x", (10**6, 3), (50, 3), 4, True, 10**6, block_rows=50)
    (sentence,) = (one for one in advice.advice(stored) if "block_size" in one)
    rows = int(sentence.partition("block_size=")[2].rstrip("."))
    assert rows % 50 == 0
    assert advice.GOOD_BYTES <= rows * stored.row_bytes < advice.GOOD_BYTES + 50 * stored.row_bytes


def test_head(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with h5py.File("run7.h5") as file:
        for name, rows in (("images", 3), ("labels", 200), ("shots/1/current", 10)):
            found = said(capsys, "head", "run7.h5", name, "-n", str(rows))
            assert [one["row"] for one in found] == list(range(rows))
            expected = file[name][:rows]
            assert np.array_equal(
                np.array([one["value"] for one in found], expected.dtype), expected
            )
    assert len(said(capsys, "head", "run7.h5", "labels")) == 10
    assert said(capsys, "head", "run7.h5", "labels", "-n", "0") == []
    names = said(capsys, "head", "run7.h5", "names")
    assert [one["value"] for one in names] == ["a", "bb"]
    (row,) = said(capsys, "head", "run7.h5", "table")
    assert row["value"] == {"a": 1, "b": "x", "c": [0.5, "nan"]}
    assert said(capsys, "head", "run7.h5", "scalar") == [{"row": None, "value": 5.0}]
    assert said(capsys, "head", "run7.h5", "null") == [{"row": None, "value": None}]
    assert program.main(["head", "run7.h5", "table"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert lines == [["a", "b", "c"], ["0", "1", "x", "[0.5", "nan]"]]
    assert program.main(["head", "run7.h5", "shots"]) == 1
    assert "is no dataset" in capsys.readouterr().err


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


# ---- bench


def test_bench_measures_the_largest_beside_h5py(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (record,) = said(capsys, "bench", "run7.h5", "--seconds", "0.2")
    assert (record["path"], record["rows"], record["compared"]) == ("/images", 200, True)
    rates = [record[name]["rows_per_second"] for name in ("h5py", "multitables")]
    assert record["times_as_fast"] == pytest.approx(rates[1] / rates[0])
    for name in ("h5py", "multitables"):
        assert len(record[name]["seconds"]) == bench.ROUNDS
        assert record[name]["mb_per_second"] == pytest.approx(
            record[name]["rows_per_second"] * 256 / 1e6
        )
    assert record["page_cache"] in ("warm", "unknown")


def test_bench_takes_what_fits_into_the_time(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with h5py.File("long.h5", "w") as file:
        file.create_dataset("x", (10**9, 64), "f4", chunks=(4096, 64), compression="gzip")
    (record,) = said(capsys, "bench", "long.h5", "--seconds", "0.2")
    assert 0 < record["rows"] < 10**9
    assert record["rows"] % record["block_rows"] == 0
    assert record["all_rows"] == 10**9


def test_bench_without_h5py(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "h5py", None)
    words = ["bench", "run7.h5", "/images", "--seconds", "0.2"]
    (record,) = said(capsys, *words)
    assert (record["h5py"], record["times_as_fast"]) == (None, None)
    assert record["why_no_h5py"] == "h5py is not installed"
    assert record["multitables"]["rows_per_second"] > 0
    assert program.main(words) == 0
    assert "not compared: h5py is not installed" in capsys.readouterr().out


def test_bench_refuses_rows_that_h5py_reads_differently(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = bench.Case.h5py
    wrong = lambda *a: (block + np.float32(1) for block in right(*a))  # noqa: E731
    monkeypatch.setattr(bench.Case, "h5py", wrong)
    assert program.main(["bench", "run7.h5", "/images", "--seconds", "0.2"]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("multitables: rows of '/images' in 'run7.h5' are not those that h5py")


def test_bench_of_what_has_no_rows_of_one_size(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in ("/shots", "/scalar", "/names", "/null"):
        assert program.main(["bench", "run7.h5", path]) == 1
        assert "bench needs a dataset with rows of one size" in capsys.readouterr().err
    with h5py.File("empty.h5", "w"):
        pass
    assert program.main(["bench", "empty.h5"]) == 1
    assert "is no dataset" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("found", "state"),
    [([1.0, 1.0], "warm"), ([0.0, 0.0], "cold"), ([0.25, 1.0], "25% to 100%"), ([None], "unknown")],
)
def test_the_state_of_the_page_cache(found: list[float | None], state: str) -> None:
    assert bench._state(found) == state


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
