"""Units whose samples come by requests, in ranks that share the chunks that they decode.

1. The ranks of a node take turns at the batches of one rank that has all, and lose none.
2. A chunk is decoded about once for all of them. A rank that is killed is not missed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import unit_cases
from processes import environment
from unit_cases import UNITS, Case

import multitables

PROGRAM = Path(__file__).parents[1] / "support/unit_rank.py"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return unit_cases.write_all(tmp_path_factory.mktemp("units"))


def ranks(count: int, **given: Any) -> list[dict[str, tuple[list[Any], int]]]:
    """Return the batches of each rank, by unit, and its decoded chunks."""
    programs = []
    for rank in range(count):
        wanted = json.dumps({"n_procs": 1, "size": 4, "world_size": count, "rank": rank, **given})
        programs.append(
            subprocess.Popen(
                [sys.executable, "-W", "error", str(PROGRAM), wanted],
                stdout=subprocess.PIPE, text=True, env=environment(),
            )
        )  # fmt: skip
    printed = [program.communicate(timeout=120)[0] for program in programs]
    for rank, program in enumerate(programs):
        assert program.returncode == (-9 if given.get("dies") == rank else 0)
    lines = [map(json.loads, text.splitlines()) for text in printed]
    return [{name: (batches, chunks) for name, batches, chunks in each} for each in lines]


@pytest.mark.parametrize(
    ("order", "kind", "inner", "n_procs"),
    [(None, "several", False, 1), ("chunks", "virtual", True, 2), ("window", "one", False, 2),
     ("window", "versions", True, 1), ("full", "one", True, 1)],
)  # fmt: skip
def test_ranks_take_turns(
    files: Any, order: str | None, kind: str, inner: bool, n_procs: int
) -> None:
    units = [unit for unit in UNITS if kind == "one" or "files" in unit.has]
    names = [unit.name for unit in units]
    filename = [str(one) for one in np.atleast_1d(files[kind, False])]
    given = {"filename": filename if len(filename) > 1 else filename[0], "order": order,
             "units": names, "inner": inner, "kind": kind, "n_procs": n_procs}  # fmt: skip
    found = ranks(3, **given)
    with multitables.Streamer(files[kind, False]) as streamer:
        for unit in units:
            batches = [each[unit.name][0] for each in found]
            inner_too = inner and "inner" in unit.has
            case = Case(unit, order, kind, False, inner_too, 1, 5, (2, 4), 0, (2, 4), False)
            samples = Counter(
                tuple(map(bytes.fromhex, one))
                for each in batches
                for batch in each
                for one in batch
            )
            if unit.name != "drawn":
                assert samples == case.wanted()
            if isinstance(unit, (unit_cases.Items, unit_cases.Keys)):
                continue  # ranks share items, and keys, in another way
            with unit.loader(streamer, case, 0, 1, 4) as alone:
                whole = [[[one.hex() for one in each] for each in unit.split(one)] for one in alone]
            for epoch in (whole[: len(whole) // 2], whole[len(whole) // 2 :]):
                turns = [epoch[rank::3] for rank in range(3)]
                assert [
                    each[: len(turn)] for each, turn in zip(batches, turns, strict=True)
                ] == turns
                batches = [each[len(turn) :] for each, turn in zip(batches, turns, strict=True)]
            assert not any(batches)


def test_a_killed_rank_is_not_missed(files: Any) -> None:
    names = [unit.name for unit in UNITS if unit.name not in ("rows", "items", "keys")]
    given = {"filename": str(files["one", False]), "order": "window", "units": names}
    whole = ranks(2, **given)
    (left, gone) = ranks(2, dies=1, **given)
    assert not gone
    assert left == {name: (batches, left[name][1]) for name, (batches, _) in whole[0].items()}


def test_a_chunk_is_decoded_once_for_all(tmp_path: Path) -> None:
    """Patches of two ranks touch each chunk of a window."""
    path = tmp_path / "large.h5"
    values = np.random.default_rng(3).integers(0, 9, (512, 64, 64), "<i4")
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=values, chunks=(8, 64, 64), compression="gzip")
    given = {"filename": str(path), "order": "full", "units": ["last axis"], "size": 16}
    n_chunks = 512 // 8
    chunks = [each["last axis"][1] for each in ranks(2, **given)]
    assert max(chunks) < 2 * n_chunks, chunks
    assert sum(chunks) < 1.5 * n_chunks, chunks
