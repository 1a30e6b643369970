"""What bounds the stream of one dataset: its limits, each measured by itself, beside the stream.

Law
---
1. Its options stand here; what is measured stands in `cases`, what it means in `views`.
2. A dataset that cannot be streamed, or is not there, is refused before anything is measured.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import tempfile
import warnings
from collections.abc import Mapping
from typing import Any

from _multitables.benchmark.contenders import bounds
from _multitables.benchmark.contract import NotMeasuredError
from _multitables.benchmark.data import dataset_storage, workloads
from _multitables.benchmark.data.dataset_storage import Stored
from _multitables.benchmark.harness.child import face
from _multitables.benchmark.machine import environment
from _multitables.benchmark.studies import beside
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies.arguments import add_result_options, positive
from _multitables.benchmark.studies.explain.cases import Explained, Scale
from _multitables.benchmark.studies.explain.numbers import KEYS, MORE
from _multitables.benchmark.studies.explain.views import views
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.setting import of_smoke

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "what bounds the stream of one dataset, and which n_procs and block_size suit it"
BESIDE_TIMES = 2  # h5py and this library, each for the seconds of a stream
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
    arguments = of_smoke(arguments, SMOKE)
    library = face()
    cores = len(os.sched_getaffinity(0))
    scale = Scale(
        seconds=float(arguments.seconds),
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
        name = stored.filename if given else A_SAMPLE
        explained = Explained(stored, _default_rows(library, stored), scratch, scale)
        arguments.data_dir = scratch
        key = {"file": name, "path": stored.path}
        return settings.run(
            "explain",
            arguments,
            f"each is timed for {scale.seconds:g} s, {arguments.rounds} x",
            lambda _own: _plan(explained, key, _shuffles(library, stored, arguments.clips)),
            {**key, "seconds": scale.seconds, "smoke": arguments.smoke},
            environment.facts(stored.filename, library) | {"dataset": as_line(stored, name)},
        )


def _plan(explained: Explained, key: Mapping[str, str], shuffles: Mapping[str, float]) -> Plan:
    stored, kept = explained.stored, list[dict[str, Any]]()
    file, seconds = (stored.filename, stored.path), BESIDE_TIMES * explained.scale.seconds
    which = {"dataset": f"{stored.path} in {key['file']}"}
    return Plan(
        [beside.case(key, which, lambda: file, seconds, kept), *explained.cases(key)],
        views,
        KEYS,
        MORE,
        beside={
            "dataset": dataclasses.asdict(stored) | {"filename": key["file"]},
            "sampled": isinstance(explained.warm, Stored) and explained.warm != stored,
            "default_rows": explained.default_rows,
            "shuffles": shuffles,
            "cores": explained.scale.cores,
            "cache_bytes": environment.cache_bytes(),
            beside.NAME: kept,
        },
    )


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
