"""The speed targets: every claim measured beside its rivals in one run, met or missed.

Law
---
1. A target is a row of the table: measured, wanted, met or missed. What could not be measured says
   why and counts as neither.
2. A missed target does not make the program fail; wrong data does.
3. What is measured lives in `target_parts`; this is the study's options, order and report.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Iterator

from _benchmark import contenders, environment, old_release, report, workloads
from _benchmark.arguments import numbers, positive
from _benchmark.studies import target_parts
from _benchmark.studies.target_bench import Bench, Target

SUMMARY = "the speed targets, beside the old release, PyTables, h5py, fio and the codec limit"
COLUMNS = ("study", "part", "dataset", "contender", "cache", "round", "value", "unit")
LEAST_BYTES = 2**29  # of less, too large a part lies in the ring when the clock starts
SMOKE = {"size": 2**23 / 2**30, "rounds": 1, "processes": (1, 2)}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the targets."""
    add = parser.add_argument
    add(
        "--size",
        type=positive(float),
        default=1,
        metavar="GB",
        help="decoded size of each dataset, GB of 2**30 bytes (default 1)",
    )
    add(
        "--rounds",
        type=positive(int),
        default=5,
        metavar="N",
        help="how often every contender is measured (default 5)",
    )
    add(
        "--processes",
        type=numbers,
        default=(1, 2, 4),
        metavar="N,N",
        help="numbers of readers; the best counts (default 1,2,4)",
    )
    add(
        "--part",
        action="append",
        choices=list(target_parts.PARTS),
        metavar="NAME",
        help=f"only this part, may be repeated: {', '.join(target_parts.PARTS)}",
    )
    add(
        "--dataset",
        action="append",
        choices=list(target_parts.DATASETS),
        metavar="NAME",
        help=f"only this dataset, may be repeated: {', '.join(target_parts.DATASETS)}",
    )
    add(
        "--data_dir",
        metavar="DIR",
        help="keep the datasets here and use them again (default: temporary files)",
    )
    add(
        "--old_env",
        metavar="DIR",
        help=f"virtual environment with multitables {old_release.VERSION}; made, from PyPI, when "
        "it is not there (default: the old release is not measured)",
    )
    add(
        "--output",
        default="results",
        metavar="DIR",
        help="directory for the results: CSV, JSON and text (default: results)",
    )
    add(
        "--smoke",
        action="store_true",
        help="a run of seconds that checks the data, whatever size, rounds and processes are; its "
        "numbers mean little",
    )


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    if arguments.smoke:
        arguments = argparse.Namespace(**(vars(arguments) | SMOKE))
    face = contenders.library()
    old_python, old_reason = _old_python(arguments.old_env)
    judged = arguments.size * 2**30 >= LEAST_BYTES
    with _directory(arguments.data_dir) as directory:
        facts = environment.facts(directory, face)
        facts["old release"] = (
            f"not measured: {old_reason}"
            if old_reason
            else f"{old_release.VERSION} in its own venv"
        )
        facts["run"] = (
            f"{workloads.as_size(arguments.size * 2**30)} decoded a dataset, each contender timed "
            f"{arguments.rounds} x{'' if judged else '; numbers of so little data are not judged'}"
        )
        print(report.heading(facts), flush=True)
        interrupted = False
        with report.ResultFile(arguments.output, "targets", COLUMNS, facts) as results:
            bench = Bench(
                directory=directory,
                size_bytes=arguments.size * 2**30,
                rounds=arguments.rounds,
                processes=tuple(arguments.processes),
                datasets=tuple(arguments.dataset or target_parts.DATASETS),
                old_python=old_python,
                old_reason=old_reason,
                judged=judged,
                results=results,
            )
            try:
                for name in arguments.part or target_parts.PARTS:
                    target_parts.PARTS[name](bench)
            except KeyboardInterrupt:
                interrupted = True
            text = "\n\n".join([*bench.tables, target_table(bench.targets)])
            if bench.faults:
                text += "\n\nFAILED\n" + "\n".join(bench.faults)
            results.save_json(
                interrupted=interrupted,
                targets=[dataclasses.asdict(target) for target in bench.targets],
                faults=bench.faults,
            )
            results.save_text(f"{report.heading(facts)}\n\n{text}")
    print(f"\n{text}")
    print(f"\n{'interrupted; what was finished' if interrupted else 'results'}: {results.filename}")
    return 1 if bench.faults else 130 if interrupted else 0


def target_table(targets: list[Target]) -> str:
    """Measured, wanted, met or missed."""
    rows = [[one.what, one.measured, one.wanted, one.verdict, one.note] for one in targets]
    header = ["target", "measured", "wanted", "verdict", "note"]
    return report.aligned(header, rows, left=("verdict", "note"))


def _old_python(directory: str | None) -> tuple[str | None, str]:
    """The old release's interpreter, or why there is none."""
    if directory is None:
        return None, "name an environment with --old_env DIR"
    try:
        return old_release.interpreter(directory), ""
    except old_release.OldReleaseError as error:
        return None, str(error)


@contextlib.contextmanager
def _directory(kept: str | None) -> Iterator[str]:
    """Where the datasets lie: the user's directory, or one that is removed."""
    if kept is None:
        with workloads.scratch_directory(tempfile.gettempdir()) as directory:
            yield directory
    else:
        os.makedirs(kept, exist_ok=True)
        yield os.path.abspath(kept)
