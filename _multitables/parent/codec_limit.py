"""The codec limit: how fast bare processes fetch and decode a dataset.

Law
---
1. The plan, the fetches and the filters of a stream; no ring, no claims, no views. What a stream
   loses against it is the library's own cost.
2. The clock starts when every process stands ready, and ends with the last one.
3. Bytes that no native filter reads have no limit: that is an error, not a number.
"""

from __future__ import annotations

import os

from _multitables import _core
from _multitables.errors import UnsupportedDatasetError, public
from _multitables.index.chunk_index import ChunkIndex
from _multitables.index.datasets.source import open_source
from _multitables.index.files import device
from _multitables.index.files.name import one_file_named
from _multitables.index.types.plugins import READERS_FILTERS
from _multitables.parent.readers import error_report
from _multitables.parent.readers.place import place_of
from _multitables.parent.readers.supervisor import Readers
from _multitables.parent.stream.open_stream import control_bytes, ring_shortage
from _multitables.plan import reader_options
from _multitables.plan.stream_plan import ReadPlan, plan_reads
from _multitables.remote.options import StorageOptions
from _multitables.tree import one_path
from _multitables.wire import plan_bytes


@public
def measure_limit(
    filename: str | os.PathLike[str], path: str, n_procs: int = 1, direct: bool = False
) -> float:
    """Measure how long bare processes take to fetch and decode a dataset.

    Each process reads every `n_procs`-th task of the plan that a stream would follow, with the
    same system calls and the same decoders, into one small buffer of its own that stays in cache.
    What a stream delivers in a second can at best equal this.

    Parameters
    ----------
    filename : str or path-like
        The HDF5 file.
    path : str
        The dataset.
    n_procs : int, optional
        Processes.
    direct : bool, optional
        Read around the page cache, as ``DRIVER='H5FD_DIRECT'`` does.

    Returns
    -------
    float
        Seconds from the common start to the end of the last process; starting the processes and
        opening the file are not in it. 0.0 for an empty dataset.

    Raises
    ------
    UnsupportedDatasetError
        The dataset can only be read through an HDF5 library.
    CorruptChunkError, FileChangedError, ReaderDiedError, ...
        As a stream raises them.
    """
    n_procs, direct = reader_options.check_procs("n_procs", n_procs), bool(direct)
    name, _ = one_file_named(filename, "measure_limit", StorageOptions())
    with open_source(name, {}) as source:
        index = source.index(one_path(path), None)
    if direct:
        device.check_direct(index.filename, "direct")
    plan = _plan(index, n_procs, direct)
    if len(plan.tasks) == 0:
        return 0.0
    try:
        trial = _core.Trial(plan_bytes.encode_plan(plan, control_bytes(plan), {}, [""]))
    except (OSError, MemoryError) as error:
        raise ring_shortage(error, control_bytes(plan)) from error
    readers = Readers(n_procs)
    try:
        death = readers.measure(trial)
    finally:
        readers.stop()
    if death is not None:
        raise error_report.death_error(death, None, 0, None)
    if trial.failure() is not None:
        record = error_report.Record.of(trial.failure())
        place = place_of(plan, trial, record.task, record.chunk)
        raise error_report.task_error(place, record)
    return trial.seconds()


def _plan(index: ChunkIndex, n_procs: int, direct: bool) -> ReadPlan:
    plan = plan_reads(
        [index],
        block_rows=index.block_size_default,
        n_readers=n_procs,
        remainder=True,
        direct=direct,
        native_filters=READERS_FILTERS,
    )
    reason = plan.datasets[0].reason
    if reason:
        raise UnsupportedDatasetError(
            f"{index.path!r} in {index.filename!r} has no codec limit: it is read through the "
            f"{index.kind.library or 'h5py'} library, because {reason}",
            advice="Measure the library itself",
            path=index.path,
            filename=index.filename,
        )
    return plan
