"""What bounds the stream of one dataset: its limits, each measured by itself, beside the stream.

Law
---
1. Its options stand here; what is measured stands in `run`, what it means in `views` and `advice`.
2. A dataset that cannot be streamed, or is not there, is refused before anything is measured.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import warnings
from typing import Any

from _benchmark.contenders import bounds
from _benchmark.contract import NotMeasuredError
from _benchmark.data import dataset_storage, workloads
from _benchmark.data.dataset_storage import Stored
from _benchmark.harness.child import face
from _benchmark.harness.results import ResultFile
from _benchmark.machine import environment
from _benchmark.studies.arguments import add_result_options, positive
from _benchmark.studies.conduct import conduct
from _benchmark.studies.explain.numbers import COLUMNS
from _benchmark.studies.explain.run import Explanation, Scale
from _benchmark.studies.explain.views import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "what bounds the stream of one dataset, and which n_procs and block_size suit it"
SMOKE = {"seconds": 0.05, "rounds": 1, "max_procs": 2}
SAMPLE_BYTES = 512 * 2**20
SMOKE_BYTES = 4 * 2**20
A_SAMPLE = "a sample"
SHUFFLES = ("chunks", "window", "full")
BATCH_ROWS = 64


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which dataset, and for how long."""
    add = parser.add_argument
    add(
        "filename",
        nargs="?",
        metavar="FILE",
        help="the HDF5 file; it is only read (default: a sample is written, and explained)",
    )
    add(
        "path",
        nargs="?",
        metavar="PATH",
        help="the dataset in it; may be left out when there is only one",
    )
    add(
        "--max_procs",
        type=positive(int),
        metavar="N",
        help="measure streams of 1 to N processes (default: the cores that may be used)",
    )
    add(
        "--seconds",
        type=positive(float),
        default=2,
        metavar="S",
        help="how long each is timed in each round (default 2)",
    )
    add(
        "--rounds",
        type=positive(int),
        default=3,
        metavar="N",
        help="how often each is measured (default 3)",
    )
    add(
        "--clips",
        type=positive(int),
        metavar="N",
        help="say what shuffled clips of N rows cost, too (default: rows alone)",
    )
    add_result_options(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    if arguments.smoke:
        arguments = argparse.Namespace(**(vars(arguments) | SMOKE))
    library = face()
    cores = len(os.sched_getaffinity(0))
    scale = Scale(
        seconds=float(arguments.seconds),
        rounds=int(arguments.rounds),
        processes=process_counts(int(arguments.max_procs or cores)),
        cores=cores,
        sample_bytes=SMOKE_BYTES if arguments.smoke else SAMPLE_BYTES,
        copy_bytes=SMOKE_BYTES if arguments.smoke else bounds.COPY_BYTES,
    )
    with workloads.scratch_directory(tempfile.gettempdir()) as scratch:
        given = arguments.filename is not None
        if given and "://" in arguments.filename:
            raise NotMeasuredError(
                "`explain` measures files of this machine; `multitables_benchmark.py remote URL` "
                "measures an object of a store"
            )
        filename = arguments.filename if given else _written(scratch, scale.sample_bytes)
        stored = dataset_storage.describe(filename, arguments.path)
        default_rows = _default_rows(library, stored)
        shuffles = _shuffles(library, stored, arguments.clips)
        name = stored.filename if given else A_SAMPLE
        facts = environment.facts(stored.filename, library) | {"dataset": as_line(stored, name)}
        shared = {"study": "explain", "file": name, "path": stored.path}
        settings: dict[str, Any] = {**shared, "seconds": scale.seconds, "smoke": arguments.smoke}
        with ResultFile(
            arguments.output, "explain", COLUMNS, facts, settings, arguments.resume
        ) as results:
            explanation = Explanation(
                stored, default_rows, shuffles, scratch, scale, results, shared
            )
            return conduct(results, facts, explanation)


def process_counts(most: int) -> tuple[int, ...]:
    """Each up to 4, then in steps of half as many again, up to `most`."""
    found = [1]
    while found[-1] < most:
        found.append(min(most, max(found[-1] + 1, found[-1] * 3 // 2)))
    return tuple(found)


def as_line(stored: Stored, name: str) -> str:
    """The dataset in a line."""
    chunks = f"chunks {stored.chunks}" if stored.chunks else "no chunks"
    return (
        f"{stored.path} in {name}: {stored.dtype} {stored.shape}, {chunks}, {stored.pipeline}, "
        f"{stored.decoded_bytes / 1e6:.1f} MB decoded, {stored.stored_bytes / 1e6:.1f} MB stored"
    )


def _written(directory: str, size_bytes: int) -> str:
    """A file with a dataset as a digitiser may give it, compressed as is quick to read."""
    workload = workloads.Workload(
        name="explain",
        rows=workloads.rows_of_size(size_bytes / 2, 1024, "float32"),
        dtype="float32",
        values="waves",
        complib="blosc:lz4",
        complevel=5,
    )
    filename = os.path.join(directory, "explain.h5")
    workloads.write(workload, filename)
    return filename


def _default_rows(library: Any, stored: Stored) -> int:
    """The library's own block size, if it streams the dataset at all."""
    try:
        with library.Streamer(stored.filename).get_queue(stored.path, n_procs=1) as queue:
            return int(queue.block_size)
    except library.UnsupportedDatasetError as error:
        raise NotMeasuredError(f"{error} Nothing was measured.") from error


def _shuffles(library: Any, stored: Stored, clips: int | None) -> dict[str, float]:
    """How often an epoch decodes each chunk, as the library says it of each shuffle."""
    found, streamer = {}, library.Streamer(stored.filename)
    samples = {"rows": None} | ({f"clips of {clips} rows": library.Clips(clips)} if clips else {})
    for name, sample in samples.items():
        for shuffle in SHUFFLES:
            batches = streamer.get_batches(
                stored.path, BATCH_ROWS, shuffle=shuffle, sample=sample, n_procs=1
            )
            with warnings.catch_warnings(), batches:
                warnings.simplefilter("ignore")
                iterator = iter(batches)
                next(iterator, None)
                times = iterator.statistics().get("read_amplification")
            if times is not None:
                found[f"{name}, shuffle={shuffle!r}"] = times
    return found
