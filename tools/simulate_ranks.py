"""Plan for all ranks of a large training run, and count what they would request of a store.

Law
---
1. Plans and states are made for real: a manifest of files that do not exist is opened as any other,
   and each rank is planned as its loader plans. No request is sent.
2. Chunks have a filter, so each is fetched whole. Part of a window counts as all its chunks.
3. It ends with status 1 if the ranks' parts are not all rows, each once: at the beginning, after a
   restart from saved states, and after one with fewer ranks. So it does if the core's order
   is not the one that was counted.

Usage: ``python tools/simulate_ranks.py [--ranks 1000] [--nodes 100] [--files 100000]
[--chunks-per-file 100] [--json FILE]``
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from simulated_store import STORE, requests, write_manifest

import multitables
from _multitables import _core
from _multitables.index.chunk_index import ChunkIndex
from _multitables.parent.batches.row_unit import RowUnit
from _multitables.parent.batches.unit import EpochRun
from _multitables.parent.stream.open_stream import Opened
from _multitables.plan.checkpoint import Position
from _multitables.plan.row_order import CHUNKS, WINDOW, OrderWords
from _multitables.plan.sharding import between, joined
from _multitables.plan.stream_plan import ReadPlan
from _multitables.plan.tasks import KIND_SHARE
from _multitables.wire.plan_bytes import encode_plan

I64 = npt.NDArray[np.int64]
#: Option -> its default, and what it is.
NUMBERS: dict[str, tuple[float, str]] = {
    "ranks": (1000, "ranks that train together"),
    "nodes": (100, "machines that have equally many of them"),
    "files": (100_000, "objects of the store"),
    "chunks-per-file": (100, "chunks of each, one behind the other"),
    "chunk-rows": (1000, "rows of a chunk"),
    "row-bytes": (1_250_000, "bytes of a row, decoded"),
    "stored-share": (0.8, "stored bytes as a share of the decoded ones, on average"),
    "batch-size": (64, "rows of a batch"),
    "readers": (4, "readers of each rank"),
    "batches-per-second": (10, "of each rank"),
    "checkpoint-batches": (1000, "batches between two saved states"),
    "usd-per-1000-requests": (0.0004, "price of GET requests (S3 Standard, us-east-1)"),
    "usd-per-gb": (0.0, "price of bytes (S3 to its own region: nothing)"),
    "seed": (0, "of the shuffle and of the sizes of chunks"),
}


class WrongError(Exception):
    """Ranks have not all rows, each once."""


# ---- plans


@dataclass
class Training:
    """The ranks of a run, and what their loaders have opened."""

    unit: RowUnit
    opened: Opened
    order: OrderWords
    #: The chunks in the order of the epoch.
    slots: I64
    n_readers: int

    @classmethod
    def of(cls, given: argparse.Namespace, manifest: Path, with_order: bool = True) -> Training:
        """Open the manifest as a rank does."""
        options: Any = {"shuffle": None if given.shuffle == "none" else given.shuffle}
        options |= {"seed": given.seed, "epochs": 1, "n_procs": given.readers}
        options |= {"rank": 0, "world_size": given.ranks}
        streamer = multitables.Streamer(manifest, storage_options=STORE)
        unit = streamer.get_batches("/x", given.batch_size, **options)._unit
        if given.share_node:
            unit.shard = replace(unit.shard, node=given.ranks // given.nodes)
        opened, order = unit.open()
        assert isinstance(opened, Opened)
        chunks = order.n_rows // order.chunk_rows
        slots = np.zeros(0, np.int64)
        if with_order:  # all chunks are full, so they are shuffled as single rows would be
            one_each = replace(
                order, n_rows=chunks, chunk_rows=1, shuffle=min(order.shuffle, CHUNKS)
            )
            slots = _core.order_rows(one_each.words, b"", 0, chunks)
        return cls(unit, opened, order, slots, given.readers)

    @property
    def index(self) -> ChunkIndex:
        """The rows of all files."""
        return self.opened.indexes[0]

    def rank(self, rank: int, ranks: int) -> RowUnit:
        """Return the unit as this rank has it."""
        self.unit.shard = replace(self.unit.shard, rank=rank, world_size=ranks)
        return self.unit

    def plan(self, run: EpochRun) -> ReadPlan:
        """Plan a run of the rank that is set."""
        return self.unit.plan(self.opened, run, self.n_readers)

    def fetched(self, plan: ReadPlan, run: EpochRun) -> tuple[I64, I64]:
        """Return the chunks that tasks fetch, in their order, and the task of each."""
        tasks = plan.tasks
        if plan.order is None:  # in the order of the file
            first, each = (tasks[name].astype(np.int64) for name in ("first_chunk", "n_chunks"))
            return _ranges(first, each), np.repeat(np.arange(len(tasks)), each)
        assert (tasks["kind"] == KIND_SHARE).all()
        order, position = self.order, tasks["position"].astype(np.int64)
        rows = (tasks["row_end"] - tasks["row_begin"]).astype(np.int64)
        if order.shuffle == WINDOW:  # the rows of a part are from all of the window
            begin = position // order.window_rows * order.window_rows
            end = np.minimum(begin + order.window_rows, order.n_rows)
        else:
            begin, end = position, position + rows
        first = begin // order.chunk_rows
        counts = -(-end // order.chunk_rows) - first
        is_first = tasks["share"] == 0
        chunks = self.slots[_ranges(first[is_first], counts[is_first])]
        window = np.repeat(np.arange(is_first.sum()), counts[is_first])
        chunks = chunks[np.lexsort((chunks, window))]
        low, high = (
            -(-(rows * (tasks["share"] + more) // tasks["shares"]) * counts // rows)
            for more in (0, 1)
        )
        return chunks, np.repeat(np.arange(len(tasks)), (high - low).astype(np.int64))


def _ranges(first: I64, counts: I64) -> I64:
    """Return the numbers `[first, first + count)` of each, one behind the other."""
    before = np.cumsum(counts) - counts
    found: I64 = np.arange(counts.sum()) + np.repeat(first - before, counts)
    return found


def positions_of(plan: ReadPlan, run: EpochRun) -> list[tuple[int, int]]:
    """Return the positions that the tasks of a plan deliver."""
    tasks = plan.tasks[plan.tasks["share"] == 0]
    rows = (tasks["row_end"] - tasks["row_begin"]).tolist()
    if plan.order is None:
        begins = (tasks["row_begin"] + np.uint64(run.ranges[0][0] if run.ranges else 0)).tolist()
    else:
        begins = tasks["position"].tolist()
    return joined((begin, begin + count) for begin, count in zip(begins, rows, strict=True))


def check_partition(parts: Iterable[tuple[int, int]], n_rows: int, when: str) -> None:
    """Raise unless these are all positions, each once."""
    at = 0
    for begin, end in sorted(parts):
        if begin != at:
            what = "are left out" if begin > at else "come twice"
            raise WrongError(
                f"{when}: rows at positions {min(at, begin)} to {max(at, begin)} {what}"
            )
        at = end
    if at != n_rows:
        raise WrongError(f"{when}: {n_rows - at} rows are left out")


@dataclass
class Counted:
    """The plan of each of some ranks, or of each node of ranks that share readers."""

    rows: list[int]
    chunks: list[int]
    n_bytes: list[int]
    requests: list[int]
    parts: list[tuple[int, int]]
    seconds: float

    @property
    def figures(self) -> dict[str, Any]:
        """Sums, and the least and the most of a rank."""
        found: dict[str, Any] = {}
        for name, each in (
            ("rows", self.rows),
            ("chunks", self.chunks),
            ("bytes", self.n_bytes),
            ("requests", self.requests),
        ):
            found[name] = {"all": sum(each), "least": min(each), "most": max(each)}
        return {**found, "seconds_to_plan": self.seconds / len(self.rows)}


def counted(training: Training, start: Position, ranks: int, some: Sequence[int]) -> Counted:
    """Plan for some of the ranks, or nodes, from a position on, and count."""
    found, seconds = Counted([], [], [], [], [], 0.0), 0.0
    for rank in some[:: training.unit.shard.node]:
        begin = time.perf_counter()
        runs = list(training.rank(rank, ranks).runs(start))
        plans = [(training.plan(run), run) for run in runs]
        seconds += time.perf_counter() - begin
        n_rows = n_chunks = n_bytes = n_requests = 0
        for plan, run in plans:
            chunks, tasks = training.fetched(plan, run)
            records = training.index.chunks[chunks]
            parts = positions_of(plan, run)
            found.parts += parts
            n_rows += sum(end - begin for begin, end in parts)
            n_chunks += len(chunks)
            n_bytes += int(records["stored_size"].sum())
            n_requests += requests(records, tasks)
        numbers = (n_rows, n_chunks, n_bytes, n_requests)
        for column, number in zip(
            (found.rows, found.chunks, found.n_bytes, found.requests), numbers, strict=True
        ):
            column.append(number)
    found.seconds = seconds
    return found


def check_order(training: Training, some: Sequence[int], ranks: int) -> None:
    """Raise unless the core delivers the rows of the chunks that were counted, once each."""
    order, slots = training.order, training.slots
    if not np.array_equal(np.bincount(slots, minlength=len(slots)), np.ones(len(slots))):
        raise WrongError("the order of chunks has some not once")
    for rank in some:
        begin = (order.n_rows * rank // ranks) // order.window_rows * order.window_rows
        end = min(begin + order.window_rows, order.n_rows)
        rows = _core.order_rows(order.words, order.listed_bytes, begin, end)
        expected = np.sort(slots[begin // order.chunk_rows : -(-end // order.chunk_rows)])
        chunks, counts = np.unique(rows // order.chunk_rows, return_counts=True)
        alike = np.array_equal(chunks, expected) and (counts == order.chunk_rows).all()
        if not alike or len(np.unique(rows)) != len(rows):
            raise WrongError(f"the window at position {begin} has other rows than were counted")


# ---- when a node dies


def after_death(given: argparse.Namespace, training: Training) -> dict[str, Any]:
    """Let the last node die in the middle of the epoch, and go on from saved states in two ways."""
    ranks, of_node = given.ranks, given.ranks // given.nodes
    whole = Position(0, 1, training.unit.everything())
    shares = []
    for rank in range(ranks):
        (run,) = training.rank(rank, ranks).runs(whole)
        shares.append(run)
    died = min(run.batches for run in shares) // 2
    saved = died // given.checkpoint_batches * given.checkpoint_batches
    states = [
        json.dumps(training.rank(rank, ranks).state_of(run.position(0, saved)))
        for rank, run in enumerate(shares)
    ]
    node = training.unit.shard.node  # how many deliver one run of batches in turn
    saved_rows = saved * given.batch_size * node
    delivered = [one for run in shares[::node] for one in between(run.ranges, 0, saved_rows)]
    n_rows = training.order.n_rows

    # The node is replaced: each rank goes on from its own state.
    parts, dead = list(delivered), range(ranks - of_node, ranks)
    for rank in range(ranks):
        unit = training.rank(rank, ranks)
        (rest,) = unit.runs(unit.position_of(json.loads(states[rank])))
        parts += rest.ranges if rank % node == 0 else ()
    check_partition(parts, n_rows, f"{ranks} ranks after a restart")
    own = training.rank(dead[0], ranks).position_of(json.loads(states[dead[0]]))
    again = counted(training, own, ranks, dead)

    # It is not: the others share out what is left.
    left, begin = ranks - of_node, time.perf_counter()
    position = training.rank(0, left).position_of([json.loads(state) for state in states])
    seconds = time.perf_counter() - begin
    if training.rank(left - 1, left).position_of(list(map(json.loads, states))) != position:
        raise WrongError("two ranks read the same states differently")
    fewer = counted(training, position, left, range(left))
    check_partition([*delivered, *fewer.parts], n_rows, f"{left} ranks after a restart")
    return {
        "batches_before": died,
        "batches_saved": saved,
        "rows_again": (died - saved) * given.batch_size * ranks,
        "state_bytes": max(map(len, states)),
        "replaced": {"ranks": of_node, **again.figures},
        "fewer": {
            "ranks": left,
            "ranges": len(position.ranges),
            "seconds_to_read_states": seconds,
            "state_bytes": len(json.dumps(training.rank(0, left).state_of(position))),
            **fewer.figures,
        },
    }


# ---- one process, measured


def measured(given: argparse.Namespace) -> dict[str, Any]:
    """Open, plan and encode as a rank does, and return seconds and bytes of this process."""
    before, clock = most_kib(), [time.perf_counter()]
    training = Training.of(given, given.measure, with_order=False)
    clock.append(time.perf_counter())
    (run,) = training.rank(0, given.ranks).runs(Position(0, 1, training.unit.everything()))
    plan = training.plan(run)
    clock.append(time.perf_counter())
    encoded = len(encode_plan(plan, 4096, {}, [""]))
    clock.append(time.perf_counter())
    open_seconds, plan_seconds, encode_seconds = np.diff(clock).tolist()
    return {
        "seconds_to_open": open_seconds,
        "seconds_to_plan": plan_seconds,
        "seconds_to_encode": encode_seconds,
        "plan_bytes": encoded,
        "ring_bytes": plan.ring_payload_bytes,
        "window_chunks": training.order.window_rows // training.order.chunk_rows,
        "peak_bytes": (most_kib() - before) << 10,
    }


def most_kib() -> int:
    """Return the most memory that this process had."""
    words = Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()
    return int(words[0])


# ---- figures


def simulated(given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Do all of it; return the figures."""
    begin = time.perf_counter()
    manifest = write_manifest(given, folder)
    seconds = time.perf_counter() - begin
    arguments = [f"--{name}={getattr(given, name.replace('-', '_'))}" for name in NUMBERS]
    arguments += ["--share-node"] * given.share_node
    command = [sys.executable, __file__, *arguments, f"--shuffle={given.shuffle}"]
    child = subprocess.run(
        [*command, f"--measure={manifest}"], check=True, stdout=subprocess.PIPE, text=True
    )
    training = Training.of(given, manifest)
    order, index, ranks = training.order, training.index, given.ranks
    everyone = counted(training, Position(0, 1, training.unit.everything()), ranks, range(ranks))
    check_partition(everyone.parts, order.n_rows, f"{ranks} ranks")
    check_order(training, (0, ranks // 2, ranks - 1), ranks)
    shares = everyone.figures
    turn = given.batch_size * training.unit.shard.node
    epoch_seconds = -(-max(everyone.rows) // turn) / given.batches_per_second
    return {
        "given": {name: getattr(given, name.replace("-", "_")) for name in NUMBERS}
        | {"shuffle": given.shuffle, "share-node": given.share_node},
        "data": {
            "chunks": len(index.chunks),
            "rows": order.n_rows,
            "bytes": int(index.chunks["stored_size"].sum()),
        },
        "manifest": {"bytes": os.path.getsize(manifest), "seconds_to_write": seconds},
        "process": json.loads(child.stdout),
        "shares": shares,
        "rate": {
            "epoch_seconds": epoch_seconds,
            "requests_per_second": shares["requests"]["all"] / epoch_seconds,
            "bytes_per_second": shares["bytes"]["all"] / epoch_seconds,
        },
        "cost": {
            "requests_usd": shares["requests"]["all"] / 1000 * given.usd_per_1000_requests,
            "bytes_usd": shares["bytes"]["all"] / 1e9 * given.usd_per_gb,
        },
        "death": after_death(given, training),
    }


def short(number: float, unit: str = "") -> str:
    """Write a number with three digits."""
    for size, letter in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if unit and number >= size * 0.9995:
            return f"{number / size:.3g} {letter}{unit}"
    return f"{number:,.0f} {unit}".rstrip() if number >= 100 or not number % 1 else f"{number:.2g}"


def table(figures: dict[str, Any]) -> str:
    """Lay the figures out as lines."""
    given, data, shares = figures["given"], figures["data"], figures["shares"]
    one, rate, cost, death = (figures[name] for name in ("process", "rate", "cost", "death"))
    fewer, replaced_ones = death["fewer"], death["replaced"]
    who = "node" if given["share-node"] else "rank"
    share = ', share="node"' if given["share-node"] else ""

    def each(of: dict[str, Any], name: str, unit: str = "") -> str:
        least, most, of_all = (short(of[name][which], unit) for which in ("least", "most", "all"))
        span = least if least == most else f"{least} to {most}"
        return f"{of_all} in all, {span} a {who}"

    lines = [
        (
            "ranks, nodes",
            f"{given['ranks']:,}, {given['nodes']:,}; shuffle={given['shuffle']}{share}",
        ),
        (
            "data",
            f"{short(data['bytes'], 'B')} in {given['files']:,} files, {data['chunks']:,} chunks",
        ),
        ("rows", f"{data['rows']:,}, in batches of {given['batch-size']}"),
        ("manifest", short(figures["manifest"]["bytes"], "B")),
        ("  to write it", f"{figures['manifest']['seconds_to_write']:.1f} s, without requests"),
        ("one process, to open it", f"{one['seconds_to_open']:.1f} s"),
        ("  to plan", f"{one['seconds_to_plan'] * 1e3:.1f} ms"),
        (
            "  to lay out its plan",
            f"{one['seconds_to_encode']:.1f} s, {short(one['plan_bytes'], 'B')}",
        ),
        ("  memory at most", short(one["peak_bytes"], "B")),
        ("  ring", f"{short(one['ring_bytes'], 'B')}, windows of {one['window_chunks']} chunks"),
        ("rows", each(shares, "rows")),
        ("chunks", each(shares, "chunks")),
        ("bytes", each(shares, "bytes", "B")),
        ("requests", each(shares, "requests")),
        (
            "an epoch",
            f"{rate['epoch_seconds']:,.0f} s at {given['batches-per-second']} batches/s a rank",
        ),
        ("requests per second", short(rate["requests_per_second"])),
        ("bytes per second", short(rate["bytes_per_second"], "B")),
        ("requests of an epoch", f"{cost['requests_usd']:,.2f} USD"),
        ("bytes of an epoch", f"{cost['bytes_usd']:,.2f} USD"),
        (
            "a node dies at batch",
            f"{death['batches_before']:,}; state of batch {death['batches_saved']:,}",
        ),
        ("  rows to read again", f"{death['rows_again']:,}"),
        ("  its ranks, replaced", f"{replaced_ones['ranks']}"),
        ("    requests", each(replaced_ones, "requests")),
        ("  or fewer ranks", f"{fewer['ranks']}"),
        ("    to read all states", f"{fewer['seconds_to_read_states']:.2f} s"),
        ("    a state then has", f"{fewer['ranges']} ranges, {short(fewer['state_bytes'], 'B')}"),
        ("    rows", each(fewer, "rows")),
        ("    requests", each(fewer, "requests")),
    ]
    return "\n".join(f"{name:26}{text}" for name, text in lines) + "\n"


def parsed(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Read the arguments."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    for name, (default, what) in NUMBERS.items():
        text = f"{what}; default: %(default)s"
        parser.add_argument(f"--{name}", type=type(default), default=default, help=text)
    parser.add_argument("--shuffle", choices=("window", "chunks", "none"), default="window")
    parser.add_argument("--share-node", action="store_true", help="ranks of a node share readers")
    parser.add_argument("--json", type=Path, help="a file for the figures")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.nodes < 2 or given.ranks % given.nodes:
        parser.error("--nodes must be at least 2, and divide --ranks")
    return given


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments say; return the status."""
    given = parsed(arguments)
    if given.measure:
        print(json.dumps(measured(given)))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        try:
            figures = simulated(given, Path(folder))
        except WrongError as error:
            print(f"wrong: {error}")
            return 1
    print(table(figures), end="")
    if given.json:
        given.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
