"""The analysis of columns: the published method, which slices by h5py, and this library's blocks.

Law
---
1. Both read every column of every table, apply the same cuts and fill the same histogram. No event
   is split.
2. The published method reads all of ``evt.seq``, or what `request["keys"]` says; then it slices
   columns and makes tables of pandas with the columns of the index as their index.
3. Where data is checked, each value counts with the event it belongs to, so the sums hold both.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

KEY = "evt.seq"
PNG = "rec.vtx.elastic.fuzzyk.png.shwlid"


@dataclass
class Found:
    """What a rank read: bytes; and where data is checked the events, and a sum for each column."""

    checks: bool
    read_bytes: int = 0
    events: int = 0
    columns: dict[str, int] = field(default_factory=dict)

    def see(self, table: str, name: str, values: Any, events: Any) -> None:
        """Take in a column."""
        path = f"{table}/{name}"
        self.columns[path] = (self.columns.get(path, 0) + summed(values, events)) % 2**64


def summed(values: Any, events: Any) -> int:
    """The values' bits, each times the odd number of its event, modulo 2**64."""
    bits = np.ascontiguousarray(values).view(f"u{values.dtype.itemsize}").astype(np.uint64)
    return int((bits * (2 * events.astype(np.uint64) + np.uint64(1))).sum())


@dataclass(frozen=True)
class Recipe:
    """Who selects: returns the energies and weights of what passes, and POT."""

    #: What is imported before the clock starts; ``module:name``, with what comes with the name.
    modules: tuple[str, ...]
    selected: Callable[[Any, dict[str, Any], Any, Found], tuple[Any, Any, float]]


def ready(recipe: Recipe) -> None:
    """Import what a recipe needs."""
    for one in recipe.modules:
        module, _, name = one.partition(":")
        found = importlib.import_module(module)
        if name:
            getattr(found, name)


def histogram(energy: Any, weight: Any, request: Mapping[str, Any]) -> Any:
    """The weighted histogram, by boost where that is installed.

    A bin has its left edge only, the last one too, where NumPy's own histogram has both.
    """
    bins, low, high = request["bins"]
    try:
        import boost_histogram
    except ImportError:
        place = (energy - low) / (high - low)
        inside = (place >= 0) & (place < 1)
        return np.bincount((place[inside] * bins).astype("i8"), weight[inside], bins)
    filled = boost_histogram.Histogram(boost_histogram.axis.Regular(bins, low, high))
    filled.fill(energy, weight=weight)
    return filled.values()


# ---- the published method


def rows_of_rank(n: int, rank: int, size: int) -> tuple[int, int]:
    """An even share; the first ranks have one more."""
    if size > n:
        raise ValueError(f"{size} ranks for {n} spills")
    each, more = divmod(n, size)
    begin = rank * each + min(rank, more)
    return begin, begin + each + (rank < more)


def _all_keys(file: Any, tables: Any, ranks: Any, found: Found) -> dict[str, tuple[int, int]]:
    """The rows of this rank, for which it reads all keys."""
    spills = file["spill"][KEY]
    begin, end = rows_of_rank(len(spills), ranks.rank, ranks.size)
    own = spills[begin:end].ravel()
    found.read_bytes += own.nbytes
    rows = {}
    for table in tables:
        keys = file[table][KEY][:].ravel()
        found.read_bytes += keys.nbytes
        first, last = np.searchsorted(keys, [own[0], own[-1] + 1])
        rows[table] = int(first), int(last)
    return rows


def _root_keys(file: Any, tables: Any, ranks: Any, found: Found) -> dict[str, tuple[int, int]]:
    """Rank 0 reads all keys, and tells each rank its rows."""
    every = None
    if ranks.rank == 0:
        spills = file["spill"][KEY][:].ravel()
        shares = [rows_of_rank(len(spills), rank, ranks.size) for rank in range(ranks.size)]
        edges = [spills[begin] for begin, _ in shares]
        every = {}
        for table in tables:
            keys = file[table][KEY][:].ravel()
            found.read_bytes += keys.nbytes
            every[table] = [*map(int, np.searchsorted(keys, edges)), len(keys)]
    told = ranks.allgather(every)[0]
    return {table: (rows[ranks.rank], rows[ranks.rank + 1]) for table, rows in told.items()}


def _shared_keys(file: Any, tables: Any, ranks: Any, found: Found) -> dict[str, tuple[int, int]]:
    """Each rank reads a part of the keys, and counts those before the shares of all."""
    spills = file["spill"][KEY]
    shares = [rows_of_rank(len(spills), rank, ranks.size) for rank in range(ranks.size)]
    edges = [begin for begin, _ in shares] + [len(spills)]  # a spill's key is its row
    counts = []
    for table in tables:
        n = len(file[table][KEY])
        own = slice(n * ranks.rank // ranks.size, n * (ranks.rank + 1) // ranks.size)
        keys = file[table][KEY][own].ravel()
        found.read_bytes += keys.nbytes
        counts.append(np.searchsorted(keys, edges))
    total = np.sum(ranks.allgather(np.array(counts)), axis=0)
    own = slice(ranks.rank, ranks.rank + 2)
    return {table: tuple(row[own].tolist()) for table, row in zip(tables, total, strict=True)}


KEYS = {"all": _all_keys, "root": _root_keys, "shared": _shared_keys}


def _frames(
    filename: str, ranks: Any, request: dict[str, Any], log: Any, found: Found
) -> Iterator[tuple[str, Any]]:
    """The rows of this rank of each table of a file."""
    import h5py
    import pandas as pd

    with h5py.File(filename, "r") as file:
        rows = KEYS[request["keys"]](file, request["tables"], ranks, found)
        for table, names in request["tables"].items():
            begin, end = rows[table]
            columns = {}
            for number, name in enumerate(names):
                dataset, path = file[table][name], f"/{table}/{name}"
                log.dataset(number, path, "startread")
                columns[name] = dataset[begin:end].ravel()
                log.dataset(dataset.size * dataset.dtype.itemsize, path, "endread")
                found.read_bytes += columns[name].nbytes
            if found.checks:
                events = file[table][KEY][begin:end].ravel()
                found.events += len(events) if table == "spill" else 0
                for name, values in columns.items():
                    found.see(table, name, values, events)
            yield table, pd.DataFrame(columns)


def _by_pandas(
    ranks: Any, request: dict[str, Any], log: Any, found: Found
) -> tuple[Any, Any, float]:
    """Read everything, then cut and compute."""
    import pandas as pd

    for event in ("afterLoader", "afterVar", "afterSpectrum", "aftersetupGo"):
        log.main(event)
    parts: dict[str, list[Any]] = {table: [] for table in request["tables"]}
    for filename in request["filenames"]:
        for table, frame in _frames(filename, ranks, request, log, found):
            parts[table].append(frame)
    log.main("beforefillSpectra")
    frames = {}
    for table, of_files in parts.items():
        index = [name for name in request["index"] if name in of_files[0]]
        frames[table] = pd.concat(of_files).set_index(index)
    energy, weight = _cut_by_pandas(frames, list(request["index"]))
    pot = float(frames["spill"]["spillpot"].astype("f8").sum())
    log.main("afterfillSpectra")
    del frames, parts
    log.main("aftercleanup")
    return energy, weight, pot


def _cut_by_pandas(frames: Mapping[str, Any], index: list[str]) -> tuple[Any, Any]:
    slices, contain = frames["rec.slc"], frames["rec.sel.contain"]
    contained = (contain["front"] > 3) & (contain["back"] > 3)
    identified = frames["rec.sel.remid"]["pid"] > 0.5
    longest = frames[PNG]["length"].groupby(level=index).max()
    short = longest.reindex(slices.index, fill_value=np.inf) < 200
    passed = contained & identified & (slices["nhit"] > 20) & short
    energy = frames["rec.energy.numu"]["trkccE"][passed]
    weight = frames["rec.weight"]["xsec"][passed]
    return energy.to_numpy("f8"), weight.to_numpy("f8")


# ---- this library


def _by_blocks(
    ranks: Any, request: dict[str, Any], log: Any, found: Found
) -> tuple[Any, Any, float]:
    """Cut each block when it comes; the next ones are read meanwhile."""
    import multitables

    for event in ("afterLoader", "afterVar", "afterSpectrum"):
        log.main(event)
    options = {"rank": ranks.rank, "world_size": ranks.size, "share": request["share"] or None}
    selected, pot, part = [(np.empty(0), np.empty(0))], 0.0, 0
    log.main("aftersetupGo")
    for filename in request["filenames"]:
        with (
            multitables.Streamer(filename) as streamer,
            streamer.get_columns(
                request["tables"], index=KEY, n_procs=request["readers"], **options
            ) as blocks,
        ):
            log.dataset(part, "block", "startread")
            for block in blocks:
                n_bytes = sum(
                    column.nbytes for table in block.values() for column in table.values()
                )
                log.dataset(n_bytes, "block", "endread")
                log.main("beforefillSpectra", part)
                found.read_bytes += n_bytes
                if found.checks:
                    _see(block, found)
                selected.append(_cut_block(block))
                pot += float(block["spill"]["spillpot"].sum(dtype="f8"))
                log.main("afterfillSpectra", part)
                part += 1
                log.main("aftersetupGo", part)
                log.dataset(part, "block", "startread")
            found.read_bytes += blocks.statistics()["keys"]["decoded_bytes"]
    log.main("beforefillSpectra", part)  # the wait for the end of the blocks
    log.main("afterfillSpectra", part)
    energy, weight = (np.concatenate(arrays) for arrays in zip(*selected, strict=True))
    log.main("aftercleanup")
    return energy, weight, pot


def _see(block: Any, found: Found) -> None:
    found.events += len(block.index[KEY])
    for table, columns in block.items():
        events = columns.index_of_rows()[KEY]
        for name, values in columns.items():
            found.see(table, name, values, events)


def _slices(table: Any) -> Any:
    """The slice of each row: its event in the block, and the slice in that."""
    events = np.repeat(np.arange(len(table.offsets) - 1), np.diff(table.offsets))
    return events << 16 | table["subevt"]


def _cut_block(block: Any) -> tuple[Any, Any]:
    contain, prongs = block["rec.sel.contain"], block[PNG]
    slices = _slices(block["rec.slc"])
    longest = np.full(len(slices), np.inf)  # a slice without prongs does not pass
    of_prongs = _slices(prongs)
    if len(of_prongs):
        begins = np.flatnonzero(np.diff(of_prongs, prepend=-1))
        at = np.searchsorted(slices, of_prongs[begins])
        longest[at] = np.maximum.reduceat(prongs["length"], begins)
    passed = (contain["front"] > 3) & (contain["back"] > 3) & (block["rec.sel.remid"]["pid"] > 0.5)
    passed &= (block["rec.slc"]["nhit"] > 20) & (longest < 200)
    energy, weight = block["rec.energy.numu"]["trkccE"], block["rec.weight"]["xsec"]
    return energy[passed].astype("f8"), weight[passed].astype("f8")


RECIPES = {
    "published": Recipe(("h5py", "pandas"), _by_pandas),
    "multitables": Recipe(("multitables:Streamer",), _by_blocks),
}
