"""`multitables info` and `head`, beside the values that h5py reads."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from command_files import said

from _multitables.command import advice, program


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
