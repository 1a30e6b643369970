"""`multitables tree` and `ls`, beside the names and datasets that h5py finds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import h5py
import hdf5plugin
import numpy as np
import pytest
from command_files import HOSTILE, run, said
from plain_server import plain_server
from processes import environment

import multitables
from _multitables.command import program


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
