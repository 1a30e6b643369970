"""The studies of the benchmark program.

Law
---
1. A study is a folder whose module ``study`` has ``SUMMARY``, ``add_arguments(parser)``,
   ``run(arguments) -> int`` and ``views(kept)``, named in `STUDIES`; the entry needs no other
   change for a new one.
2. ``run`` hands the study's cases to the frame (`setting.run`), and returns its exit status.
3. ``views(kept)`` makes what it shows from the rows that it kept, and from nothing else. The entry
   publishes it, so no study knows the others.
"""

from __future__ import annotations

import argparse
from typing import Protocol

from _multitables.benchmark.report.publish import Shows
from _multitables.benchmark.studies.batches import study as batches_study
from _multitables.benchmark.studies.columns import study as columns_study
from _multitables.benchmark.studies.explain import study as explain_study
from _multitables.benchmark.studies.files import study as files_study
from _multitables.benchmark.studies.index import study as index_study
from _multitables.benchmark.studies.iotest import study as iotest_study
from _multitables.benchmark.studies.loaders import study as loaders_study
from _multitables.benchmark.studies.random import study as random_study
from _multitables.benchmark.studies.remote import study as remote_study
from _multitables.benchmark.studies.report import study as report_study
from _multitables.benchmark.studies.shots import study as shots_study
from _multitables.benchmark.studies.small import study as small_study
from _multitables.benchmark.studies.sweep import study as sweep_study
from _multitables.benchmark.studies.targets import study as targets_study
from _multitables.benchmark.studies.versions import study as versions_study


class Study(Shows, Protocol):
    """What the entry needs of a study."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


DEFAULT = "sweep"
STUDIES: dict[str, Study] = {
    DEFAULT: sweep_study,
    "targets": targets_study,
    "random": random_study,
    "batches": batches_study,
    "loaders": loaders_study,
    "index": index_study,
    "files": files_study,
    "small": small_study,
    "remote": remote_study,
    "iotest": iotest_study,
    "shots": shots_study,
    "columns": columns_study,
    "versions": versions_study,
    "explain": explain_study,
    "report": report_study,
}
