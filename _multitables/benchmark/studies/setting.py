"""The setting of a study: the options that all have, the files, the run.

Law
---
1. Options that several studies have stand here, with one meaning.
2. A file is written when it is first needed, and is in the page cache then.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from _multitables.benchmark.contenders import old_release
from _multitables.benchmark.contract import NotMeasuredError, Source
from _multitables.benchmark.data import workloads
from _multitables.benchmark.harness.child import face
from _multitables.benchmark.harness.results import ResultFile
from _multitables.benchmark.machine import environment, page_cache
from _multitables.benchmark.studies.arguments import add_result_options, positive
from _multitables.benchmark.studies.frame import Case, Plan, Prepared, StudyRun, conduct

#: A part of a study: its cases, in turn.
Part = Callable[["Setting"], Iterable[Case]]


@dataclass(frozen=True)
class Setting:
    """The settings of a run that the parts of a study need.

    Attributes
    ----------
    directory : str
        Of the data.
    rounds : int
    size_bytes : float
        Decoded bytes of a dataset.
    datasets : tuple of str
        The names of those that are measured.
    processes : tuple of int
    sizes : mapping
        What else the study counts.
    seconds : float
        How long each contender is timed, where the parts leave that open.
    smoke : bool
        The data is so little that figures mean nothing.
    old_python, old_reason : str or None, str
        The interpreter of the old release, or the reason why it is missing.
    """

    directory: str
    rounds: int
    size_bytes: float = 0
    datasets: tuple[str, ...] = ()
    processes: tuple[int, ...] = ()
    sizes: Mapping[str, int] = field(default_factory=dict)
    seconds: float = 1.0
    smoke: bool = False
    old_python: str | None = None
    old_reason: str = ""

    def source(self, workload: workloads.Workload) -> Source:
        """The workload's file, written if need be."""
        filename = self.prepared(workload, workloads.in_directory)
        return Source(filename, workloads.PATH, workload.rows, workload.row_bytes)

    def prepared(self, made: Any, write: Callable[[Any, str], str]) -> str:
        """The file of anything with a `name`, written by `write` if need be, in the page cache."""
        filename = write(made, self.directory)
        page_cache.fill_page_cache(filename)
        return filename


def add_arguments(
    parser: argparse.ArgumentParser,
    rounds: int = 5,
    parts: Iterable[str] = (),
    datasets: Iterable[str] = (),
    scale: str = "",
    with_old_release: bool = False,
) -> None:
    """The options that studies share; `scale` says what has which size at 1."""
    add = parser.add_argument
    add(
        "--rounds",
        type=positive(int),
        default=rounds,
        metavar="N",
        help=f"how often every contender is measured (default {rounds})",
    )
    for option, names in (("part", list(parts)), ("dataset", list(datasets))):
        if names:
            add(
                f"--{option}",
                action="append",
                choices=names,
                metavar="NAME",
                help=f"only this {option}, may be repeated: {', '.join(names)}",
            )
    if scale:
        add(
            "--scale",
            type=positive(float),
            default=1,
            metavar="X",
            help=f"this many times as large: {scale} (default 1)",
        )
    add(
        "--data_dir",
        metavar="DIR",
        help="keep the files here and use them again (default: temporary files)",
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
    arguments: argparse.Namespace,
    what: str,
    plan: Callable[[Setting], Plan],
    settings: Mapping[str, Any] = MappingProxyType({}),
    facts: Mapping[str, str] = MappingProxyType({}),
    **setting: Any,
) -> int:
    """Measure, print, keep; returns the exit status.

    Parameters
    ----------
    study, what : str
        Its name, and how much it measures, in words.
    arguments : argparse.Namespace
    plan : callable
        What is measured with a `Setting`.
    settings : mapping
        What a run that is resumed must share with the earlier one. It may have other parts,
        datasets and rounds.
    facts : mapping
        What belongs to the numbers beside the machine.
    **setting
        The fields of `Setting` that the study decides.
    """
    old = _old_release(arguments) if "old_env" in arguments else {}
    with workloads.data_directory(arguments.data_dir) as directory:
        own = Setting(directory, arguments.rounds, smoke=arguments.smoke, **setting, **old)
        every = environment.facts(directory, face()) | dict(facts)
        if old:
            version = f"{old_release.VERSION} in its own venv"
            every["old release"] = f"not measured: {own.old_reason}" if own.old_reason else version
        planned = plan(own)
        every["run"] = what + (
            "" if planned.judges else "; numbers of so little data are not judged"
        )
        with ResultFile(
            arguments.output, study, planned.columns, every, settings, arguments.resume
        ) as results:
            return conduct(StudyRun(planned, results, arguments.rounds), every)


def _old_release(arguments: argparse.Namespace) -> dict[str, Any]:
    """The old release's interpreter, or why it is missing."""
    if arguments.old_env is None:
        return {"old_python": None, "old_reason": "name an environment with --old_env DIR"}
    try:
        return {"old_python": old_release.interpreter(arguments.old_env), "old_reason": ""}
    except NotMeasuredError as error:
        return {"old_python": None, "old_reason": str(error)}


def of_smoke(arguments: argparse.Namespace, smoke: Mapping[str, Any]) -> argparse.Namespace:
    """The arguments, in which those of `smoke` replace others in a smoke run."""
    return argparse.Namespace(**{**vars(arguments), **(smoke if arguments.smoke else {})})


def of_parts(
    table: Mapping[str, Part], chosen: Sequence[str] | None, setting: Setting
) -> list[Case]:
    """The cases of the chosen parts; without a choice, of all parts."""
    return [case for name in chosen or table for case in table[name](setting)]


def case(part: str, dataset: str, prepare: Callable[..., Prepared], *of: Any, **more: Any) -> Case:
    """A case of a part; `of` are what `prepare` is given, `more` are further fields of `Case`."""
    return Case({"part": part, "dataset": dataset}, lambda _stack: prepare(*of), **more)
