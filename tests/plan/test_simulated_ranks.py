"""tools/simulate_ranks.py: what it counts, that it sees what is wrong, and its kept figures.

Law
---
1. The oracle of shares and chunks is the public order of each rank's loader; that of requests goes
   through the chunks one by one.
"""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import _multitables
import multitables
from _multitables.index.chunk_index import Records, chunks_of
from _multitables.parent.batches import unit
from _multitables.plan import sharding
from _multitables.plan.sharding import Ranges, Shard
from _multitables.remote.options import MAX_GAP_BYTES, MAX_REQUEST_BYTES

ROOT = Path(_multitables.__file__).parents[1]
KEPT = ROOT / "docs" / "results" / "scale"
CHUNK_ROWS = 50
SMALL = {
    "ranks": 12,
    "nodes": 4,
    "files": 30,
    "chunks-per-file": 40,
    "chunk-rows": CHUNK_ROWS,
    "row-bytes": 40_000,
    "batch-size": 8,
    "checkpoint-batches": 100,
    "seed": 3,
}

pytestmark = pytest.mark.skipif(not KEPT.exists(), reason="an installation has no tools")


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    return importlib.import_module("simulate_ranks")


def arguments(**more: object) -> list[str]:
    return [f"--{name}={value}" for name, value in {**SMALL, **more}.items()]


def orders(tool: Any, folder: Path, shuffle: str) -> list[np.ndarray]:
    """The rows of each rank, as its loader delivers them."""
    manifest = tool.write_manifest(tool.parsed(arguments()), folder)
    options: Any = {"shuffle": None if shuffle == "none" else shuffle, "seed": 3}
    found = []
    for rank in range(12):
        streamer = multitables.Streamer(manifest, storage_options=tool.STORE)
        found.append(streamer.get_batches("/x", 8, rank=rank, world_size=12, **options).order(0))
    return found


@pytest.mark.parametrize("shuffle", ["window", "chunks", "none"])
def test_figures_are_those_of_the_loaders(tool: Any, shuffle: str, tmp_path: Path) -> None:
    where = tmp_path / "figures.json"
    assert tool.main([*arguments(shuffle=shuffle), f"--json={where}"]) == 0
    figures = json.loads(where.read_text())
    ranks = orders(tool, tmp_path, shuffle)
    n_rows = 30 * 40 * CHUNK_ROWS
    np.testing.assert_array_equal(np.sort(np.concatenate(ranks)), np.arange(n_rows))
    shares, lengths = figures["shares"], [len(rows) for rows in ranks]
    assert shares["rows"] == {"all": n_rows, "least": min(lengths), "most": max(lengths)}
    # 2 MB of rows in a chunk: a window has 16 of them, or 2 MiB where only chunks are shuffled.
    window = {"window": 16, "chunks": 16, "none": 1}[shuffle] * CHUNK_ROWS
    begins = np.cumsum([0, *lengths])
    each = []
    for begin, rows in zip(begins, ranks, strict=False):
        windows = (begin + np.arange(len(rows))) // window
        each.append(len(np.unique(windows * n_rows + rows // CHUNK_ROWS)))
    assert shares["chunks"] == {"all": sum(each), "least": min(each), "most": max(each)}
    n_requests = shares["requests"]["all"]
    assert n_requests <= sum(each) / 2 if shuffle == "none" else n_requests <= sum(each)
    death = figures["death"]
    assert (death["batches_before"], death["batches_saved"]) == (312, 300)
    assert death["rows_again"] == 12 * 12 * 8
    assert death["fewer"]["ranks"] == 9
    assert death["fewer"]["rows"]["all"] == n_rows - 300 * 8 * 12
    assert death["replaced"]["rows"]["all"] == sum(lengths[-3:]) - 3 * 300 * 8


def test_ranks_that_share_readers(tool: Any, tmp_path: Path) -> None:
    """A node has what its ranks have together, and they deliver it in turn."""
    found = []
    for more in ([], ["--share-node"]):
        where = tmp_path / "figures.json"
        assert tool.main([*arguments(), *more, f"--json={where}"]) == 0
        found.append(json.loads(where.read_text()))
    alone, shared = found
    assert shared["shares"]["rows"]["most"] == 3 * alone["shares"]["rows"]["most"]
    assert shared["shares"]["chunks"]["all"] <= alone["shares"]["chunks"]["all"]
    for name in ("batches_before", "batches_saved", "rows_again"):
        assert shared["death"][name] == alone["death"][name]
    for name in ("replaced", "fewer"):
        rows = [one["death"][name]["rows"]["all"] for one in found]
        assert rows[0] == rows[1]


@pytest.mark.parametrize("wrong", [-8, 8])
def test_rows_that_are_lost_or_repeated_are_seen(
    tool: Any, wrong: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def moved(ranges: Ranges, shard: Shard) -> list[tuple[int, int]]:
        own = sharding.shard_of(ranges, shard)
        if shard.rank != 5:
            return own
        (begin, end), *rest = own
        return [(begin + wrong, end), *rest]

    monkeypatch.setattr(unit, "shard_of", moved)
    assert tool.main(arguments()) == 1
    where = "25000 to 25008 are left out" if wrong > 0 else "24992 to 25000 come twice"
    assert capsys.readouterr().out == f"wrong: 12 ranks: rows at positions {where}\n"


def test_a_state_that_is_read_wrongly_is_seen(
    tool: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        unit, "position_of", lambda *_: tool.Position(0, 1, ((0, 30 * 40 * CHUNK_ROWS),))
    )
    assert tool.main(arguments()) == 1
    assert "12 ranks after a restart: rows at positions" in capsys.readouterr().out


def test_another_order_than_was_counted_is_seen(
    tool: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def other(words: tuple[int, ...], listed: bytes, begin: int, end: int) -> np.ndarray:
        rows = order_rows(words, listed, begin, end)
        return rows if words[4] == 1 else (rows + CHUNK_ROWS) % words[3]

    order_rows = tool._core.order_rows
    monkeypatch.setattr(tool._core, "order_rows", other)
    assert tool.main(arguments()) == 1
    assert "has other rows than were counted" in capsys.readouterr().out


a_chunk = st.tuples(
    st.integers(0, 2),
    st.integers(0, 2),
    st.sampled_from([0, 1, MAX_GAP_BYTES, MAX_GAP_BYTES + 1]),
    st.sampled_from([1, 1 << 20, MAX_REQUEST_BYTES // 2, MAX_REQUEST_BYTES, 1 << 25]),
)


def counted_one_by_one(records: Records, tasks: list[int]) -> int:
    runs: list[tuple[int, int, int, int]] = []
    for record, task in zip(records.tolist(), tasks, strict=True):
        begin, end, source = record[1], record[1] + record[2], record[4]
        if runs:
            of, file, first, last = runs[-1]
            near = 0 <= begin - last <= MAX_GAP_BYTES and end - first <= MAX_REQUEST_BYTES
            if (of, file) == (task, source) and near:
                runs[-1] = (of, file, first, end)
                continue
        runs.append((task, source, begin, end))
    return len(runs)


@settings(max_examples=200, deadline=None)
@given(st.lists(a_chunk, max_size=30), st.booleans())
def test_requests(chunks: list[tuple[int, int, int, int]], backwards: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "tools"))
        requests = importlib.import_module("simulated_store").requests
    chunks = sorted(chunks, key=lambda one: one[:2])
    tasks, sources, gaps, sizes = np.array(chunks, np.int64).reshape(-1, 4).T
    ends = np.cumsum(gaps + sizes)
    records = chunks_of(np.arange(len(chunks)), ends - sizes, sizes, source=sources)
    if backwards:
        records, tasks = records[::-1], tasks[::-1]
    assert requests(records, tasks) == counted_one_by_one(records, tasks.tolist())


@pytest.mark.parametrize("name", ["one_manifest", "ten_manifests"])
def test_kept_figures_belong_together(tool: Any, name: str) -> None:
    """Figures that follow from others, and the lines that the page shows."""
    figures = json.loads((KEPT / f"{name}.json").read_text(encoding="utf-8"))
    of, data, shares = figures["given"], figures["data"], figures["shares"]
    assert data["chunks"] == of["files"] * of["chunks-per-file"]
    assert shares["rows"]["all"] == data["rows"] == data["chunks"] * of["chunk-rows"]
    assert shares["requests"]["all"] >= data["chunks"]
    assert shares["bytes"]["all"] >= data["bytes"]
    batches = -(-shares["rows"]["most"] // of["batch-size"])
    assert figures["rate"]["epoch_seconds"] == batches / of["batches-per-second"]
    dollars = shares["requests"]["all"] / 1000 * of["usd-per-1000-requests"]
    assert figures["cost"]["requests_usd"] == dollars
    left = data["rows"] - figures["death"]["batches_saved"] * of["batch-size"] * of["ranks"]
    assert figures["death"]["fewer"]["rows"]["all"] == left
    lines = [re.split(r"(?<=\S)  +", line) for line in tool.table(figures).splitlines()]
    assert ["requests of an epoch", f"{dollars:,.2f} USD"] in lines
    assert ["manifest", tool.short(figures["manifest"]["bytes"], "B")] in lines
    assert ["  or fewer ranks", str(figures["death"]["fewer"]["ranks"])] in lines
