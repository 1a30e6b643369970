"""Files of many versions, as the package versioned-hdf5 was measured: size, writing, reading.

Law
---
1. Its options stand here; what is measured stands in `cases`, what is shown in `views`.
2. Files are written by versioned-hdf5 in the published way. `--as-published` is what the published
   runs did, `--as-described` what the study says of its tests; the page in the documentation tells
   the difference.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from _multitables.benchmark.contenders.version_contenders import WHICH, Loops, VersionsFile
from _multitables.benchmark.loops.version_steps import TESTS, Spec
from _multitables.benchmark.machine import environment
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies.arguments import numbers, positive, some_of
from _multitables.benchmark.studies.frame import Plan
from _multitables.benchmark.studies.setting import Setting
from _multitables.benchmark.studies.versions.cases import KEYS, MORE, PARTS, PublishedFiles, cases
from _multitables.benchmark.studies.versions.views import views

__all__ = ["SUMMARY", "add_arguments", "run", "views"]

SUMMARY = "files of many versions: size, writing, opening, reading, as versioned-hdf5 was measured"
COMPRESSIONS = ("none", "gzip", "lzf")
DENSE_EXPONENTS = (8,)
SMOKE = {
    "versions": (4,),
    "exponents": (12,),
    "dense_exponents": (6,),
    "which": ("all", "latest"),
    "rounds": 1,
}
PEERS = ("versioned-hdf5", "h5py")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of versions."""
    add = parser.add_argument
    add(
        "--test",
        type=some_of(tuple(TESTS)),
        default=tuple(TESTS),
        metavar="NAMES",
        help=f"some of the tests: {', '.join(TESTS)} (default: all)",
    )
    add(
        "--as-published",
        action="store_true",
        help="transactions as the published runs made them: nearly all only append (default)",
    )
    add(
        "--as-described",
        action="store_true",
        help="transactions that change, delete and insert as often as the study says; may be "
        "given beside --as-published",
    )
    add(
        "--versions",
        type=numbers,
        metavar="N,N",
        help="numbers of transactions (default: the study's, up to 5000, times --scale)",
    )
    add(
        "--exponents",
        type=numbers,
        default=(12, 14),
        metavar="P,P",
        help="chunks of the sparse tests have 2**P elements (default: the study's 12,14)",
    )
    add(
        "--dense_exponents",
        type=numbers,
        default=DENSE_EXPONENTS,
        metavar="P,P",
        help="chunks of the dense test have 2**P x 2**P elements (default 8; the study has 6,8,10)",
    )
    add(
        "--compression",
        type=some_of(COMPRESSIONS),
        default=COMPRESSIONS[:1],
        metavar="NAMES",
        help=f"some of {', '.join(COMPRESSIONS)} (default none)",
    )
    add(
        "--part",
        type=some_of(PARTS),
        default=PARTS,
        metavar="NAMES",
        help="write (files are written, several times) or read (they are written where they are "
        "missing); default both",
    )
    add(
        "--which",
        type=some_of(WHICH),
        default=WHICH,
        metavar="NAMES",
        help=f"which versions are read: some of {', '.join(WHICH)} (default: all of these)",
    )
    add("--seed", type=int, default=0, metavar="N", help="of the random transactions (default 0)")
    add(
        "--processes",
        type=positive(int),
        default=2,
        metavar="N",
        help="processes of multitables' Reader and streams (default 2)",
    )
    settings.add_arguments(parser, 3, scale="the study's numbers of transactions")


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    arguments = settings.of_smoke(arguments, SMOKE)
    published = PublishedFiles(arguments.output)

    with Loops() as loops:

        def plan(own: Setting) -> Plan:
            published.begin(arguments.resume)
            files = list(_files(arguments, own.directory, loops))
            found = cases(files, arguments.part, arguments.which, arguments.processes)
            return Plan(list(found), views, KEYS, MORE, keep=published.keep)

        return settings.run(
            "versions",
            arguments,
            f"{arguments.processes} processes, each contender timed {arguments.rounds} x",
            plan,
            {"seed": arguments.seed, "processes": arguments.processes},
            {"peers": environment.versions_of(PEERS)},
        )


def _files(arguments: argparse.Namespace, directory: str, loops: Loops) -> Iterator[VersionsFile]:
    """The files of the run, small ones first, so that a run that is cut short has all tests."""
    published = arguments.as_published or not arguments.as_described
    ways = [False] * published + [True] * arguments.as_described
    every = []
    for test in arguments.test:
        nominal = TESTS[test]
        scaled = {max(1, round(n * arguments.scale)) for n in nominal.versions}
        dense = len(nominal.shape) == 2
        for n in arguments.versions or sorted(scaled):
            for exponent in arguments.dense_exponents if dense else arguments.exponents:
                every += [
                    VersionsFile(
                        Spec(test, n, described, arguments.seed), exponent, one, directory, loops
                    )
                    for one in arguments.compression
                    for described in ways
                ]
    yield from sorted(every, key=lambda file: file.spec.n)
