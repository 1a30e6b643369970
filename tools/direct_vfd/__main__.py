"""Build HDF5 with its direct VFD, and h5py and PyTables over it, into a private prefix.

Law
---
1. It owns the arguments, what is said, and the exit status: 0 built and seen to work, 1 a step
   failed, 2 wrong arguments, 130 interrupted. What is done stands in `steps`.
2. A finished step is not done again: the same command goes on where the last one ended.
3. Nothing outside the prefix is written, and nothing is fetched but by pip and cargo, by name.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import plan
import steps
from building import BuildError, Building, Stopped
from plan import Step
from steps import Options

PROGRAM = "python tools/direct_vfd"
ENDING = (signal.SIGINT, signal.SIGTERM)
LOOK_SECONDS = 0.2  # after a signal, at most
READY = "ready.json"  # the benchmark program looks for it


def parser() -> argparse.ArgumentParser:
    """The command line."""
    found = argparse.ArgumentParser(
        prog=PROGRAM,
        description="Builds HDF5 with its direct VFD (reads around the page cache), and over it "
        f"h5py, PyTables and multitables {steps.OLD_RELEASE}, into a private prefix: PREFIX/hdf5 "
        "and the virtual environment PREFIX/venv. Needs a C compiler, cargo, Python "
        f"{_dotted(steps.PYTHONS[0])} to {_dotted(steps.PYTHONS[1])}, pip's and cargo's "
        "registries, 600 MB of disk, and about five minutes of two cores. Run again, it goes on "
        "where it ended.",
    )
    found.add_argument("prefix", metavar="PREFIX", help="directory, made when it is not there")
    found.add_argument(
        "--source",
        metavar="PATH",
        help="release source of HDF5: a directory, or a tar or zip archive "
        f"(default: the {steps.HDF5_VERSION} that the crate {steps.HDF5_CRATE} carries)",
    )
    found.add_argument(
        "--jobs",
        type=_jobs,
        default=len(os.sched_getaffinity(0)),
        help="what runs at once (default: as many as there are cores, here %(default)s)",
    )
    found.add_argument(
        "--python",
        metavar="PATH",
        help="interpreter of the virtual environment (default: the first on the PATH that fits)",
    )
    found.add_argument(
        "--without_h5py", action="store_true", help="leave h5py out, which the sweep does not use"
    )
    found.add_argument(
        "--keep_build", action="store_true", help="keep PREFIX/build when all is finished"
    )
    return found


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"


def _jobs(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def options_of(arguments: argparse.Namespace) -> Options:
    """The arguments, looked at.

    Raises
    ------
    BuildError
        There is no such source, or no Python that fits.
    """
    prefix = os.path.abspath(arguments.prefix)
    source = arguments.source and os.path.abspath(arguments.source)
    return Options(
        prefix=prefix,
        python=steps.suitable_python(arguments.python, os.path.join(prefix, steps.INTERPRETER)),
        source=source,
        source_identity=steps.identity(source) if source else steps.HDF5_VERSION,
        jobs=arguments.jobs,
        with_h5py=not arguments.without_h5py,
    )


@contextlib.contextmanager
def alone(prefix: str) -> Iterator[None]:
    """Keep others from building in the same place."""
    try:
        os.makedirs(prefix, exist_ok=True)
        file = open(os.path.join(prefix, "lock"), "w")  # noqa: SIM115  closed below
    except OSError as error:
        raise BuildError(f"PREFIX cannot be written: {error}. Give another one.") from error
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise BuildError(
                f"another {PROGRAM} builds in {prefix!r}. It is not disturbed. "
                "Wait for its end, then run this again, or give another PREFIX."
            ) from None
        yield


@contextlib.contextmanager
def stopped_by_signals(building: Building) -> Iterator[None]:
    """Have Ctrl-C and SIGTERM end the commands, whose threads then end the build.

    An exception out of a handler would be thrown into the middle of waiting for those threads.
    """
    numbers = [one for one in ENDING if signal.getsignal(one) is not signal.SIG_IGN]
    before = {one: signal.signal(one, lambda *_: building.stop()) for one in numbers}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def say(line: str) -> None:
    """Print a whole line, whichever step it is of."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def build(options: Options, keep_build: bool = False) -> dict[str, str]:
    """Do all that is not done yet, and see that it works; returns the versions.

    Raises
    ------
    BuildError
    """
    building = Building(options.prefix, options.jobs)
    every = plan.plan(options)
    todo = plan.todo(every, building.finished(), os.path.exists)
    for step in every:
        if step not in todo:
            say(f"{step.name}: already there")
    ready = os.path.join(options.prefix, READY)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(ready)
    with stopped_by_signals(building):
        for stage in sorted({step.stage for step in todo}):
            _at_once([step for step in todo if step.stage == stage], options, building)
    found = steps.check(options, building)
    with open(f"{ready}.new", "w", encoding="utf-8") as file:
        json.dump(found, file)
    os.replace(f"{ready}.new", ready)
    if not keep_build:
        shutil.rmtree(building.directory, ignore_errors=True)
    return found


def _at_once(stage: Sequence[Step], options: Options, building: Building) -> None:
    """The steps of one stage: they need nothing of each other."""

    def do(step: Step) -> None:
        start = time.monotonic()
        say(f"{step.name}: {step.what} ...")
        building.do(step, options)
        say(f"{step.name}: done in {time.monotonic() - start:.0f} s")

    with ThreadPoolExecutor(min(options.jobs, len(stage))) as pool:
        doing = [pool.submit(do, step) for step in stage]
        # a signal that comes just before a wait does not end it, so none is long
        while wait(doing, timeout=LOOK_SECONDS).not_done:
            pass
        for done in doing:
            done.result()


def main(words: Sequence[str] | None = None) -> int:
    """Build; returns the exit status."""
    arguments = parser().parse_args(words)
    try:
        options = options_of(arguments)
        with alone(options.prefix):
            versions = build(options, arguments.keep_build)
    except BuildError as error:
        print(f"direct_vfd: {error}", file=sys.stderr)
        return 1
    except (KeyboardInterrupt, Stopped):
        print("direct_vfd: interrupted; the same command goes on from here", file=sys.stderr)
        return 130
    said = ", ".join(f"{name} {version}" for name, version in versions.items())
    print(
        f"H5FD_DIRECT works: a file written in {options.prefix} was read with O_DIRECT, all values "
        f"right, by {said}.\n"
        f"Interpreter: {options.interpreter}\n"
        "The sweep uses it with: python multitables_benchmark.py --driver hdf5-direct "
        f"--direct_vfd {arguments.prefix}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
