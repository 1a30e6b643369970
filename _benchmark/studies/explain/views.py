"""What an explanation says: the limits side by side, the stream, what bounds it, and the advice.

Law
---
1. Pure: its input is the rows and the JSON file's content.
2. Every number is a median of rows. `advice` decides what bounds the stream and what to do.
3. Sentences are for scientists who are no experts in computers.
"""

from __future__ import annotations

from collections.abc import Iterator

from _benchmark.analysis import advice
from _benchmark.analysis.advice import Verdict
from _benchmark.data.workloads import as_size
from _benchmark.harness.results import PLACE_FACTS, Kept, Row
from _benchmark.harness.rounds import Summary
from _benchmark.report.tables import UNIT_LINE, Chart, Series, Table, View
from _benchmark.studies.explain.numbers import DIRECT, WARM, Case, Found

MIN_BYTES = 64 * 10**6  # of fewer, start-up and jitter are a good part of every number
WIDE = 0.3  # a spread that makes numbers doubtful, as a part of the median
AT_THE_LIMIT = 0.9
FAR_BELOW = 0.6
ABOVE_THE_LIMIT = 1.2
AMPLIFIED = 1.5
TITLES = {DIRECT: "around the page cache", WARM: "from the page cache"}
PLACES = {DIRECT: "When it comes from the device", WARM: "When it lies in the page cache"}
LEFT_OUT = {DIRECT: "the device, and streams from it", WARM: "what reads from the page cache"}
# what bounds a stream -> (the limit in words, what follows)
BOUNDS = {
    "device": (
        "what the device delivers",
        (
            "The device bounds the stream. More readers change nothing; data that is stored "
            "smaller would be faster, as fewer bytes have to come from the device."
        ),
    ),
    "decoding": (
        "fetching and decoding",
        (
            "Decoding bounds the stream. If you can write the file anew, a filter that is quicker "
            "to undo (blosc:lz4, or none) makes it faster."
        ),
    ),
    "page cache": (
        "copying from the page cache",
        (
            "Memory bounds the stream: bytes cannot be copied from the page cache faster, and no "
            "setting changes that."
        ),
    ),
    "hand-over": (
        "handing over blocks",
        (
            "Handing over bounds the stream: each block costs the same, whatever it holds, so take "
            "larger blocks."
        ),
    ),
}


def views(kept: Kept) -> list[View]:
    """One view: there is one dataset."""
    if not kept.rows or "dataset" not in kept.more:
        return []
    found = Found(kept.rows, kept.more)
    names = [name for name in (*PLACE_FACTS, "dataset") if name in kept.rows[0]]
    facts = {name: kept.rows[0][name] for name in names}
    caches = dict.fromkeys(f"{r['way']}: {r['cache']}" for r in kept.rows if r["way"])
    facts["page cache"] = "; ".join(caches)
    dataset = kept.more["dataset"]
    return [
        View(
            f"{dataset['path']} in {dataset['filename']}",
            facts,
            [limit_table(found), stream_table(found)],
            charts(found),
            [*said(found)],
        )
    ]


# ---- tables and plots


def _cell(found: Summary | None) -> str:
    return str(found) if found else "-"


def limit_table(found: Found) -> Table:
    """The limits side by side."""
    pipeline = ", ".join(found.more["dataset"]["filters"]) or "no filter"
    block_bytes = found.more["default_rows"] * found.shape.row_bytes
    lines = [
        ("device", "device, O_DIRECT", "requests of 1 MiB in flight: 1 or 8"),
        ("page cache", "page cache", "bytes as they are stored, into a small buffer"),
        ("fetch and decode", f"fetch and decode: {pipeline}", "bare processes, page cache warm"),
        ("memory copy", "memory copy", "what a loop pays that copies each block; bytes once"),
        ("hand-over", "hand-over", f"blocks that are ready, of {as_size(block_bytes)}"),
    ]
    rows = []
    for quantity, title, note in lines:
        numbers = found.numbers(quantity)
        if not numbers:
            rows.append([title, "-", "-", "-", "not measured"])
            continue
        cells = [_cell(found.of(quantity, n_procs=n)) for n in numbers]
        best = [one for n in numbers if (one := found.of(quantity, "stored_mb_per_s", n_procs=n))]
        stored = str(max(best, key=lambda one: one.median)) if best else "-"
        rows.append([title, cells[0], cells[-1] if len(cells) > 1 else "-", stored, note])
    header = ["limit", "one", "all cores", "MB/s of storage", "how"]
    return Table(f"Limits of a stream; {UNIT_LINE}", header, rows, left=("how",))


def stream_table(found: Found) -> Table:
    """The stream, and where its readers' time went."""
    header = ["stream", "readers", "block_size", "MB/s", "fetching", "decoding", "ring full"]
    rows = [
        [TITLES[mode], str(n), size or "default", _cell(found.stream(case)), *_shares(found, case)]
        for case in found.cases()
        for mode, n, size in [case]
    ]
    return Table(f"The stream, and its readers' time; {UNIT_LINE}", header, rows)


def _shares(found: Found, case: Case) -> list[str]:
    """The parts of the readers' time."""
    names = ("fetch_seconds", "decode_seconds", "wait_seconds")
    medians = [one.median for name in names if (one := found.stream(case, name))]
    whole = sum(medians)
    return [f"{one / whole:.0%}" for one in medians] if whole else ["-"] * len(names)


def charts(found: Found) -> list[Chart]:
    """The stream by the number of readers."""
    series = []
    for mode, title in TITLES.items():
        points = []
        for n in found.rates(mode):
            one = found.of("stream", way=mode, block_size="", n_procs=n)
            if one:
                points.append((n, one))
        if points:
            series.append(Series(title, points))
    if not series:
        return []
    return [
        Chart(
            "explain_streams",
            f"{found.more['dataset']['path']}: the stream",
            "readers",
            "MB/s of decoded data",
            series,
        )
    ]


# ---- sentences


def said(found: Found) -> Iterator[str]:
    """What bounds the stream, what to do, and what to mind."""
    for mode in TITLES:
        rates = found.rates(mode)
        limits = found.bounds(mode)
        if rates and limits:
            yield _bound(found, mode, advice.judge(limits, rates))
    if not found.native and found.numbers("stream"):
        yield (
            "What bounds the stream cannot be told apart here: "
            f"{found.more['left_out']['fetch and decode']} Each reader reads and decodes inside "
            "libhdf5, one chunk at a time, so more readers help as long as there are free cores."
        )
    if not found.is_stored:
        yield (
            "Nothing is stored of this dataset: every row is the fill value, which readers write "
            "themselves, so there is no limit to explain."
        )
    for what, why in found.more["left_out"].items():
        if what != "fetch and decode":
            yield f"Not measured: {LEFT_OUT.get(what, what)}, because {why}."
    yield from _advised(found)
    yield from _shuffled(found)
    yield from _cautions(found)


def _bound(found: Found, mode: str, verdict: Verdict) -> str:
    what, follows = BOUNDS[verdict.bound]
    n = verdict.n_procs
    text = (
        f"{PLACES[mode]}: {_readers(n)} {'brings' if n == 1 else 'bring'} {verdict.rate:.0f} MB/s. "
        f"The lowest limit is {what}, {verdict.limit:.0f} MB/s; the stream "
    )
    if verdict.share < FAR_BELOW:
        why = "other work on this machine, most likely"
        if advice.are_narrow(found.shape, found.is_chunked):
            why = (
                "copying parts of rows to their places, most likely, or other work on this machine"
            )
        return text + (
            f"reaches {verdict.share:.0%} of it. That is far below, so something takes the time "
            f"that is not measured here: {why}, or too few cores for the readers and the program's "
            "loop."
        )
    if verdict.share < AT_THE_LIMIT:
        text += (
            f"reaches {verdict.share:.0%} of it, and the rest goes into handing over and into "
            f"sharing the cores with the program's loop. {follows}"
        )
    elif verdict.share < ABOVE_THE_LIMIT:
        text += f"is at this limit ({verdict.share:.0%}). {follows}"
    else:
        text += (
            f"came out above it ({verdict.share:.0%}), so other work slowed the machine when the "
            f"limit was measured. {follows} Measure again to be sure."
        )
    if mode == DIRECT and verdict.enough and verdict.enough > found.cores:
        text += (
            f" With more cores, about {verdict.enough} readers would decode as fast as the device "
            "delivers."
        )
    return text


def _readers(n: int) -> str:
    return "1 reader" if n == 1 else f"{n} readers"


def _advised(found: Found) -> Iterator[str]:
    for mode in TITLES:
        rates = found.rates(mode)
        if rates:
            most = max(rates)
            why = f"the fewest, of 1 to {most}, within {advice.TOLERANCE:.0%} of the best"
            yield (
                f"Advice, {PLACES[mode][0].lower()}{PLACES[mode][1:]}: "
                f"n_procs={advice.fewest(rates)} ({why if most > 1 else 'no more were measured'})."
            )
    yield from _block_advice(found)


def _block_advice(found: Found) -> Iterator[str]:
    shape, default = found.shape, int(found.more["default_rows"])
    sizes: dict[int, float] = {}
    for mode, n, block_size in found.cases():
        own = found.stream((mode, n, ""))
        other = found.stream((mode, n, block_size))
        if block_size and own and other:  # the last of them is the warm one
            sizes = {default: own.median, int(block_size): other.median}
    best = advice.fewest(sizes) if sizes else default
    if best == default:
        yield (
            f"Advice: leave block_size out. A block is then {_rows(default)}, "
            f"{as_size(default * shape.row_bytes)}."
        )
    else:
        yield (
            f"Advice: block_size={best}, {as_size(best * shape.row_bytes)}: "
            f"{sizes[best] / sizes[default]:.2f} times as fast as the default, {_rows(default)}."
        )
    if advice.rechunk(shape, found.is_chunked):
        yield (
            f"The chunks are tiny: {as_size(shape.chunk_bytes)} each, decoded. That costs more "
            "than any setting brings back. The cure is to write the file anew with chunks of 64 "
            "KiB to 1 MiB, with h5repack (-l CHUNK=...) or ptrepack (--chunkshape)."
        )
    if advice.are_narrow(shape, found.is_chunked):
        lengths = [advice.whole_rows(shape), *list(found.more["dataset"]["shape"])[1:]]
        chunk = "x".join(map(str, lengths))
        yield (
            f"Each chunk has parts of {_rows(shape.chunk_rows)}: "
            f"{as_size(advice.across_bytes(shape))} are decoded before one row is whole, and for "
            "each row that is chosen at random. The cure is to write the file anew with chunks of "
            f"whole rows, with h5repack (-l CHUNK={chunk}) or ptrepack (--chunkshape)."
        )
    most = max((n for _, n, _ in found.cases()), default=1)
    ring_bytes = advice.ring_bytes(shape, best, most)
    cache_bytes = int(found.more["cache_bytes"])
    if 0 < cache_bytes < ring_bytes:
        yield (
            f"Blocks are large: the ring of {_readers(most)} holds {as_size(ring_bytes)}, and the "
            f"processor's largest cache {as_size(cache_bytes)}, so that blocks "
            "travel through memory. Smaller chunks would stay in the cache."
        )


def _shuffled(found: Found) -> Iterator[str]:
    """How often a shuffled epoch decodes each chunk."""
    times = found.more.get("shuffles", {})
    if not times:
        return
    each = "; ".join(f"{name}: {one:.3g}" for name, one in times.items())
    text = f"How often a shuffled epoch decodes each chunk: {each}."
    if max(times.values()) >= AMPLIFIED and (found.more["dataset"]["filters"]):
        text += (
            " Where this is more than once, the time to decode grows with it: choose an order with "
            "a smaller number, a larger window_rows, or smaller chunks."
        )
    yield text


def _rows(count: int) -> str:
    return "1 row" if count == 1 else f"{count} rows"


def _cautions(found: Found) -> Iterator[str]:
    dataset = found.more["dataset"]
    decoded_bytes = dataset["row_bytes"] * dataset["shape"][0]
    if decoded_bytes < MIN_BYTES:
        yield (
            f"Mind: the dataset has only {decoded_bytes / 1e6:.3g} MB. With so little, starting "
            "up and chance are a good part of every number, and the advice means little."
        )
    if found.more["sampled"]:
        yield (
            "Mind: the dataset is large, so what reads warm was measured on a copy of its first "
            "chunks."
        )
    wide = sorted({row["quantity"] for row in found.rows if _is_wide(found, row)})
    if wide:
        yield (
            f"Mind: rounds differ by more than {WIDE:.0%} for {', '.join(wide)}. Something else "
            "was at work; measure again on an idle machine, with more --rounds."
        )
    for name, fault in found.more["faults"].items():
        yield f"FAILED {name}: {fault}"


def _is_wide(found: Found, row: Row) -> bool:
    names = ("way", "n_procs", "block_size")
    one = found.of(row["quantity"], **{name: row[name] for name in names})
    return one is not None and one.high - one.low > WIDE * one.median
