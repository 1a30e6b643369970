"""The study of shots: how layout, access, page buffer and processes decide the time of reading.

Law
---
1. The published method runs as it was published or as it was described; this library beside it.
2. Without a server for objects their cases are left out, with what to do.
3. Its options stand here, its cases in `cases`, what is shown in `views`.
"""

from __future__ import annotations

import argparse
import contextlib
from dataclasses import asdict, fields
from typing import Any

from _multitables.benchmark.contenders.shots_contenders import ACCESSES
from _multitables.benchmark.data.shots import LAYOUTS
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies.arguments import add_store, numbers, sizes, some_of
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.setting import Setting
from _multitables.benchmark.studies.shots.cases import (
    KEYS,
    MORE,
    STUDY_SHOTS,
    STUDY_SIGNALS,
    Options,
    PublishedFiles,
    ShotsCases,
)
from _multitables.benchmark.studies.shots.views import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "a published study re-run: shots of a fusion experiment, Dask, page buffers, layouts, S3"
WHERE = ("local", "s3")
SMOKE = {
    "rounds": 1,
    "latency_ms": 1.0,
    "gather": True,
    "page_buffer": (264_000_000,),
    "processes": (2,),
    "layout": ("signal",),
    "access": ("shots",),
    "n_shots": 3,
    "n_signals": 5,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of shots."""
    add = parser.add_argument
    defaults: dict[str, Any] = {
        "where": (WHERE, "files of this machine and objects of a local S3 server"),
        "access": (ACCESSES, "what is read together"),
        "layout": (LAYOUTS, "what was written together"),
    }
    for name, (choices, what) in defaults.items():
        words = ",".join(choices)
        add(
            f"--{name}",
            type=some_of(choices),
            default=choices,
            metavar=words.upper(),
            help=f"{what} (default {words})",
        )
    add(
        "--page_buffer",
        type=sizes,
        default=(0, 64_000_000, 264_000_000),
        metavar="BYTES,...",
        help="page buffers of the published method at scale 1, 0 for none; at other scales each is "
        "as large beside the file; objects are not read without (default 0,64e6,264e6)",
    )
    add(
        "--processes",
        type=numbers,
        default=(1, 2, 4, 8, 16),
        metavar="N,...",
        help="processes that read (default 1,2,4,8,16)",
    )
    add(
        "--plan",
        choices=("random", "file"),
        default="random",
        help="the order of shots or signals: random, as published, but with the round as a seed; "
        "or as in the file (default random)",
    )
    how = parser.add_mutually_exclusive_group()
    how.add_argument(
        "--as-published",
        dest="as_described",
        action="store_false",
        help="the published method as its program does it: batches of len // n + 1 keys, which "
        "may leave processes without any, and Dask starts before the clock (this is the default)",
    )
    how.add_argument(
        "--as-described",
        dest="as_described",
        action="store_true",
        help="as its text says: a batch for every process, and Dask starts inside the clock",
    )
    add(
        "--gather",
        action="store_true",
        help="of files, measure the published method also with the data brought to the parent "
        "process, as this library does it; as published, each process discards what it reads",
    )
    add_store(parser, "s3fs brings the bytes")
    scale = f"{STUDY_SHOTS} shots of {STUDY_SIGNALS} signals, 3.2 GB for each layout"
    settings.add_arguments(parser, 3, scale=scale)
    parser.set_defaults(as_described=False)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    own = vars(arguments) | {"n_shots": max(2, round(STUDY_SHOTS * arguments.scale))}
    arguments = settings.of_smoke(argparse.Namespace(**own, n_signals=STUDY_SIGNALS), SMOKE)
    options = Options(**{one.name: getattr(arguments, one.name) for one in fields(Options)})
    files = PublishedFiles(arguments.output, arguments.resume)
    with contextlib.ExitStack() as stack:

        def plan(setting: Setting) -> Plan:
            made = ShotsCases(options, setting.directory, stack, arguments.ros3_python)
            return Plan(list(made.cases()), views, KEYS, MORE, keep=files.keep)

        objects = "s3" in options.where
        driver = {"driver for S3": "ROS3" if arguments.ros3_python else "s3fs"} if objects else {}
        how = "as described" if options.as_described else "as published"
        what = (
            f"{options.n_shots} shots of {options.n_signals} signals, the published method {how}, "
            f"plan {options.plan}, each contender timed {arguments.rounds} x"
        ) + f"; objects: {options.latency_ms:g} ms a request" * objects
        return settings.run("shots", arguments, what, plan, asdict(options), driver)
