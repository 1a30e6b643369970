"""The frame of a study of targets: options that all have, the run of its parts, what is kept.

Law
---
1. Parts are a table of functions of a `Bench`; what they measure is theirs.
2. However a run ends, what was finished is printed and kept.
3. A missed target does not make the program fail; wrong data does.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from _benchmark.contenders import old_release, streams
from _benchmark.data import workloads
from _benchmark.harness.results import ResultFile
from _benchmark.harness.runner import COLUMNS, Bench
from _benchmark.machine import environment
from _benchmark.report.tables import heading
from _benchmark.studies.arguments import add_result_options, positive
from _benchmark.studies.targets.views import target_table, views

__all__ = ["Parts", "add_arguments", "run", "views"]

Parts = Mapping[str, Callable[[Bench], None]]


def add_arguments(
    parser: argparse.ArgumentParser,
    parts: Parts,
    datasets: Iterable[str],
    with_old_release: bool = True,
) -> None:
    """The options that every study of targets has; and the old release's, where it takes part."""
    add = parser.add_argument
    add(
        "--rounds",
        type=positive(int),
        default=5,
        metavar="N",
        help="how often every contender is measured (default 5)",
    )
    for option, names in (("part", parts), ("dataset", datasets)):
        add(
            f"--{option}",
            action="append",
            choices=list(names),
            metavar="NAME",
            help=f"only this {option}, may be repeated: {', '.join(names)}",
        )
    add(
        "--data_dir",
        metavar="DIR",
        help="keep the datasets here and use them again (default: temporary files)",
    )
    if with_old_release:
        add(
            "--old_env",
            metavar="DIR",
            help=f"virtual environment with multitables {old_release.VERSION}; made, from PyPI, "
            "when it is not there (default: the old release is not measured)",
        )
    add_result_options(parser)


def run(
    study: str,
    parts: Parts,
    arguments: argparse.Namespace,
    what: str,
    more_facts: Mapping[str, str] = MappingProxyType({}),
    **settings: Any,
) -> int:
    """Measure, print, keep; returns the exit status.

    `what` says how much is measured; `settings` are those of `Bench` that the study decides, and
    `more_facts` what belongs to its numbers beside the machine.
    """
    face = streams.face()
    has_old_release = "old_env" in arguments
    old_python, old_reason = _old_python(arguments.old_env) if has_old_release else (None, "")
    with _directory(arguments.data_dir) as directory:
        facts = environment.facts(directory, face) | dict(more_facts)
        if has_old_release:
            facts["old release"] = (
                f"not measured: {old_reason}"
                if old_reason
                else f"{old_release.VERSION} in its own venv"
            )
        judged = settings["judged"]
        facts["run"] = what + ("" if judged else "; numbers of so little data are not judged")
        print(heading(facts), flush=True)
        interrupted = False
        with ResultFile(
            arguments.output, study, COLUMNS, facts, _told(settings), arguments.resume
        ) as results:
            bench = Bench(
                directory=directory,
                rounds=arguments.rounds,
                old_python=old_python,
                old_reason=old_reason,
                results=results,
                study=study,
                **settings,
            )
            try:
                for name in arguments.part or parts:
                    parts[name](bench)
            except KeyboardInterrupt:
                interrupted = True
            text = "\n\n".join([*bench.tables, target_table(bench.targets).text()])
            if bench.faults:
                text += "\n\nFAILED\n" + "\n".join(bench.faults)
            results.save_json(
                interrupted=interrupted,
                targets=[dataclasses.asdict(target) for target in bench.targets],
                faults=bench.faults,
            )
            results.save_text(f"{heading(facts)}\n\n{text}")
    print(f"\n{text}")
    print(f"\n{'interrupted; what was finished' if interrupted else 'results'}: {results.filename}")
    return 1 if bench.faults else 130 if interrupted else 0


def _told(settings: Mapping[str, Any]) -> dict[str, Any]:
    """What a run that is resumed must share; it may have other parts, datasets and rounds."""
    return {name: value for name, value in settings.items() if name != "datasets"}


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
