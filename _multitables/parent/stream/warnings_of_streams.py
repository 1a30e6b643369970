"""Warnings of a stream: a filter that the core does not decode, and files that are left out.

Law
---
1. One for each such dataset or file of a stream, at the user's line that opened it. Other reasons
   for which a library reads are no warning: another filter would not change them.
2. Requests and `multitables.open` give none: they may be of a few elements.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Container, Mapping

from _multitables.errors import (
    AmplificationWarning,
    MissingFileWarning,
    MultitablesError,
    SlowFilterWarning,
)
from _multitables.filter_names import NAMES
from _multitables.index.chunk_index import ByLibrary, ChunkIndex
from _multitables.plan.stream_plan import ReadPlan

#: A shuffle that decodes chunks more often than this is reported.
AMPLIFIED = 2.0
#: What helps.
ADVICE = {
    "patches": "Take smaller patches, a larger stride or shuffle=None, or store smaller chunks",
    "samples": "Let fewer overlap (every= of Clips), take fewer steps or a smaller stride, or "
    "shuffle=None, which decodes each chunk once",
}


def warn_of_slow_filters(plan: ReadPlan, native_filters: Container[int]) -> None:
    """Tell of each dataset that a library reads because of a filter."""
    for dataset in plan.datasets:
        index = dataset.index
        unknown = [spec for spec in index.kind.pipeline if spec.id not in native_filters]
        if isinstance(index, ByLibrary) or index.n_rows == 0 or not unknown:
            continue
        number = unknown[0].id
        name = NAMES.get(number) or unknown[0].name or "unnamed"
        library = "PyTables" if index.kind.library == "tables" else "h5py"
        warning = SlowFilterWarning(
            f"the core does not decode filter {number} ({name}) of {index.path!r} in "
            f"{index.filename!r}: {library} reads the dataset, which is slower than the core (one "
            "chunk at a time in each reader, and a copy more)",
            good="The rows are the same",
            advice="Store it with blosc2, zstd or another filter of `multitables.build_info()`; "
            "`multitables-benchmark explain` measures what bounds its stream",
            filename=index.filename,
            path=index.path,
            filter_id=number,
        )
        warnings.warn(warning, stacklevel=_stacklevel())


def warn_of_missing(missing: Mapping[str, MultitablesError]) -> None:
    """Report the files that are left out, and why."""
    for filename, error in missing.items():
        warning = MissingFileWarning(
            f"{filename!r} is left out: {error.happened}",
            good="The other files are read",
            advice=error.advice,
            filename=filename,
        )
        warnings.warn(warning, stacklevel=_stacklevel())


def warn_of_amplification(index: ChunkIndex, decoded: float, of: str) -> None:
    """Report that a shuffle of samples or patches decodes chunks several times, with advice."""
    if decoded < AMPLIFIED:
        return
    warning = AmplificationWarning(
        f"a shuffled epoch of {of} of {index.path!r} in {index.filename!r} decodes each chunk "
        f"about {decoded:.1f} times (expected at most {AMPLIFIED}), as they reach over several",
        good=f"The {of} are right",
        advice=ADVICE[of],
        filename=index.filename,
        path=index.path,
    )
    warnings.warn(warning, stacklevel=_stacklevel())


def _stacklevel() -> int:
    """Return how far up the first frame is that is not this library's."""
    level, frame = 0, inspect.currentframe()
    while frame and frame.f_globals.get("__name__", "").startswith("_multitables"):
        level, frame = level + 1, frame.f_back
    return level
