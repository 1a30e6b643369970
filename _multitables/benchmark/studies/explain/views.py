"""An explanation in tables: the bound of the stream, advice, the limits, the streams themselves.

Law
---
1. Pure: its input is the rows and the JSON file's content.
2. Every number is a median of rows. `advice` decides what bounds the stream and what to do.
3. Words are for scientists, who may not know computers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from _multitables.benchmark.analysis import advice
from _multitables.benchmark.data.workloads import as_size
from _multitables.benchmark.harness.results import PLACE_FACTS, Kept
from _multitables.benchmark.report.figures import NOTHING, Figures
from _multitables.benchmark.report.tables import UNIT_LINE, Chart, Table, View, figure
from _multitables.benchmark.studies import beside
from _multitables.benchmark.studies.explain.numbers import DIRECT, STREAM, WARM, Found
from _multitables.benchmark.studies.frame import without_numbers

MIN_BYTES = 64 * 10**6  # of fewer, start-up and jitter are a good part of every number
WIDE = 0.3  # a spread that makes numbers doubtful, as a part of the median
FAR_BELOW = 0.6
ABOVE_THE_LIMIT = 1.2
AMPLIFIED = 1.5
SHARES = {"fetching": "fetch_seconds", "decoding": "decode_seconds", "ring full": "wait_seconds"}
TITLES = {DIRECT: "around the page cache", WARM: "from the page cache"}
HOW = {
    "device": "O_DIRECT, requests of 1 MiB in flight: 1 or 8",
    "page cache": "bytes as they are stored, into a small buffer",
    "fetch and decode": "bare processes, page cache warm; {pipeline}",
    "memory copy": "what a loop pays that copies each block; bytes once",
    "hand-over": "blocks that are ready, of {block}",
}
# what bounds a stream -> what helps: (option, value, why)
BOUNDS = {
    "device": (
        "stored bytes",
        "fewer",
        "the device bounds the stream; more readers change nothing",
    ),
    "fetch and decode": (
        "filter",
        "blosc:lz4, or none",
        "decoding bounds the stream; another filter means to write the file anew",
    ),
    "page cache": ("-", "-", "memory bounds the stream, and no setting changes that"),
    "hand-over": ("block_size", "larger", "each block costs the same at any size"),
}
REPACK = "write the file anew with h5repack (-l CHUNK={chunk}) or ptrepack (--chunkshape)"

#: option, value, why
Advice = tuple[str, str, str]


def views(kept: Kept) -> list[View]:
    """One view, as there is one dataset, behind what has no number."""
    if not kept.rows or "dataset" not in kept.more:
        return without_numbers(kept)
    found = Found(Figures(kept.rows, kept.more.get("faults", ())), kept.more)
    names = [name for name in (*PLACE_FACTS, "dataset") if name in kept.rows[0]]
    facts = {name: kept.rows[0][name] for name in names}
    caches = dict.fromkeys(f"{r['way']}: {r['cache']}" for r in kept.rows if r["way"])
    facts["page cache"] = "; ".join(caches)
    dataset = kept.more["dataset"]
    heading = f"{dataset['path']} in {dataset['filename']}"
    tables = [*beside.tables(kept.more.get(beside.NAME, ())), *_tables(found)]
    return [*without_numbers(kept), View(heading, facts, tables, charts(found), [*minded(found)])]


# ---- tables and plots


def _tables(found: Found) -> Iterator[Table]:
    streams = found.of(STREAM)
    if any(found.verdict(way) for way in TITLES):
        yield bound_table(found)
    advised = [*advised_lines(found)]
    if advised:
        yield Table("Advice", ["option", "value", "why"], advised, left=("value", "why"))
    yield limit_table(found)
    if streams.rows or streams.faults:
        shares = {head: lambda line, name=name: _share(line, name) for head, name in SHARES.items()}
        yield streams.grid(
            f"The stream, and its readers' time; block_size empty: the library's own; {UNIT_LINE}",
            {"way": "page cache", "n_procs": "readers", "block_size": "block_size"},
            columns={"MB/s": "value", **shares},
        )
    times = found.more.get("shuffles", {})
    if times:
        cells = [[order, figure(one)] for order, one in times.items()]
        yield Table("How often a shuffled epoch decodes each chunk", ["order", "times"], cells)


def bound_table(found: Found) -> Table:
    """The advised stream beside its lowest limit."""
    lines = [
        [
            TITLES[way],
            str(one.n_procs),
            figure(one.rate),
            one.bound,
            figure(one.limit),
            f"{one.share:.0%}",
        ]
        for way in TITLES
        if (one := found.verdict(way))
    ]
    head = ["the stream", "readers", "MB/s", "lowest limit", "MB/s of it", "reached"]
    title = (
        "What bounds the stream; handing over, and sharing the cores with the program's loop, take "
        "the rest"
    )
    return Table(title, head, lines, left=("lowest limit",))


def limit_table(found: Found) -> Table:
    """The limits side by side."""
    pipeline = ", ".join(found.more["dataset"]["filters"]) or "no filter"
    block = as_size(found.more["default_rows"] * found.shape.row_bytes)
    limits = found.of(tuple(HOW))

    def at(line: Figures, place: int) -> str:
        numbers = sorted(line.distinct("n_procs"), key=int)
        return line.where(n_procs=numbers[place]).text() if place < len(numbers) else NOTHING

    table = limits.grid(
        f"Limits of a stream; {UNIT_LINE}",
        {"contender": "limit"},
        columns={
            "one": lambda line: at(line, 0),
            "all cores": lambda line: at(line, 1),
            "MB/s of storage": lambda line: line.best(by=("n_procs",)).text("stored_mb_per_s"),
            "how": lambda line: HOW[line.first("contender")].format(pipeline=pipeline, block=block),
        },
    )
    return replace(table, left=("how",))


def _share(line: Figures, name: str) -> str:
    """A part of the readers' time."""
    whole = sum(line.median(one) or 0 for one in SHARES.values())
    return f"{(line.median(name) or 0) / whole:.0%}" if whole else NOTHING


def charts(found: Found) -> list[Chart]:
    """The stream by the number of readers."""
    streams = found.of(STREAM, block_size="")
    series = [
        streams.where(way=way).series(title, "n_procs")
        for way, title in TITLES.items()
        if found.rates(way)
    ]
    title = f"{found.more['dataset']['path']}: the stream"
    chart = Chart("explain_streams", title, "readers", "MB/s of decoded data", series)
    return [chart] if series else []


# ---- advice


def advised_lines(found: Found) -> Iterator[Advice]:
    """Settings to choose, and files to write anew."""
    for way, title in TITLES.items():
        rates, verdict = found.rates(way), found.verdict(way)
        if not rates:
            continue
        most = max(rates)
        why = f"the fewest, of 1 to {most}, within {advice.TOLERANCE:.0%} of the best"
        why = why if most > 1 else "no more were measured"
        yield "n_procs", str(advice.fewest(rates)), f"{title}: {why}"
        if verdict and verdict.share >= FAR_BELOW:
            option, value, why = BOUNDS[verdict.bound]
            yield option, value, f"{title}: {why}"
            if way == DIRECT and verdict.enough and verdict.enough > found.cores:
                why = "with these, as many readers would decode as fast as the device delivers"
                yield "cores", f"about {verdict.enough}", f"{title}: {why}"
    if found.of(STREAM).rows:
        if not found.native:
            why = (
                "each reads and decodes inside libhdf5, a chunk at a time; its bound has no figure"
            )
            yield "n_procs", "up to the free cores", why
        yield from _block_advice(found)
    times = found.more.get("shuffles", {}).values()
    if found.more["dataset"]["filters"] and max(times, default=0) >= AMPLIFIED:
        why = "the time to decode grows with it; or a larger window_rows, or smaller chunks"
        yield "shuffle", "an order that decodes each chunk less often", why


def _block_advice(found: Found) -> Iterator[Advice]:
    shape, default = found.shape, int(found.more["default_rows"])
    sizes = found.block_sizes()
    best = advice.fewest(sizes) if sizes else default
    size = as_size(best * shape.row_bytes)
    if best == default:
        yield "block_size", "leave it out", f"a block is then {_rows(default)}, {size}"
    else:
        times = f"{sizes[best] / sizes[default]:.2f} times as fast as the default, {_rows(default)}"
        yield "block_size", str(best), f"{size}: {times}"
    if advice.rechunk(shape, found.is_chunked):
        why = f"they are tiny ({as_size(shape.chunk_bytes)}), and no setting makes up for that: "
        yield "chunks", "64 KiB to 1 MiB", why + REPACK.format(chunk="...")
    if found.is_narrow:
        lengths = [advice.whole_rows(shape), *list(found.more["dataset"]["shape"])[1:]]
        chunk = "x".join(map(str, lengths))
        why = (
            f"each has parts of {_rows(shape.chunk_rows)}: {as_size(advice.across_bytes(shape))} "
            "are decoded before one row is whole, and for each row that is chosen at random: "
        )
        yield "chunks", f"of whole rows: {chunk}", why + REPACK.format(chunk=chunk)
    most = max((int(n) for n in found.of(STREAM).distinct("n_procs")), default=1)
    ring_bytes = advice.ring_bytes(shape, best, most)
    cache_bytes = int(found.more["cache_bytes"])
    if 0 < cache_bytes < ring_bytes:
        why = (
            f"the ring of {most} readers holds {as_size(ring_bytes)}, and the processor's largest "
            f"cache {as_size(cache_bytes)}: blocks travel through memory"
        )
        yield "chunks", "smaller", why


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


# ---- cautions


def minded(found: Found) -> Iterator[str]:
    """Reasons to doubt the numbers."""
    for way, title in TITLES.items():
        verdict = found.verdict(way)
        if verdict and verdict.share < FAR_BELOW:
            copying = "copying parts of rows to their places, " if found.is_narrow else ""
            yield (
                f"Mind: the stream {title} is far below its lowest limit. Something takes the time "
                f"that is not measured here: {copying}other work on this machine, or too few cores "
                "for the readers and the program's loop."
            )
        elif verdict and verdict.share >= ABOVE_THE_LIMIT:
            yield (
                f"Mind: the stream {title} came out above its lowest limit, so other work slowed "
                "the machine when the limit was measured. Measure again."
            )
    dataset = found.more["dataset"]
    decoded_bytes = dataset["row_bytes"] * dataset["shape"][0]
    if not found.is_stored:
        yield (
            "Mind: nothing is stored of this dataset. Every row is the fill value, which readers "
            "write themselves, so there is no limit to explain."
        )
    if decoded_bytes < MIN_BYTES:
        yield (
            f"Mind: the dataset has only {decoded_bytes / 1e6:.3g} MB. With so little, starting "
            "up and chance are a good part of every number, and the advice means little."
        )
    if found.more["sampled"]:
        yield "Mind: what reads warm was measured on a copy of the first chunks of this dataset."
    each = found.figures.each("contender", "way", "n_procs", "block_size")
    wide = sorted({who for (who, *_), one in each if _is_wide(one)})
    if wide:
        yield (
            f"Mind: rounds differ by more than {WIDE:.0%} for {', '.join(wide)}. Something else "
            "was at work; measure again on an idle machine, with more --rounds."
        )


def _is_wide(figures: Figures) -> bool:
    one = figures.summary()
    return one is not None and one.high - one.low > WIDE * one.median
