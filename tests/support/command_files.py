"""The files that the command `multitables` is shown, and its words as a process or in this one.

Law
---
1. A file has an object of each kind that the command lists.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from processes import environment

from _multitables.command import program

HOSTILE = "<b>\x1b[31m&\"'\n"
ONE = {"info": ["/images"], "head": ["/images"], "bench": ["/images", "--seconds", "0.2"]}
MANY = ("tree", "ls", "index")


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
    """The JSON of a sub-command that ends without an error."""
    assert program.main([*words, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    return [json.loads(line) for line in out.splitlines()]
