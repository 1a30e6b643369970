"""An object of the user's own: its stream, its download, and h5py, over the network as it is.

Law
---
1. Nothing is written to the object, and only as many of its first rows as asked for are read.
2. Only the options in `SHOWN` are printed or kept. Failures of other libraries are named by their
   types alone, as their messages may repeat secrets.
3. Rows are compared with h5py's where it can read the object, else with `multitables.open`'s.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import re
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

from _benchmark.contenders import remote_contenders as people
from _benchmark.contenders.asked import Asked
from _benchmark.contract import ContenderError, Digest, NotMeasuredError, Sample, WrongDataError
from _benchmark.data import dataset_storage, workloads
from _benchmark.harness.child import face
from _benchmark.harness.runner import against
from _benchmark.loops import hdf5_remote_loop, remote_loop
from _benchmark.machine import environment
from _benchmark.studies.arguments import positive
from _benchmark.studies.remote.parts import KEPT, QUEUE
from _benchmark.studies.targets import run as target_run
from _benchmark.studies.targets.run import TargetRun

SHOWN = ("region", "endpoint", "anonymous", "request_payer", "max_gap_bytes", "max_requests")
SMOKE = {"rounds": 1, "gigabytes": 2**-6}
TIMEOUT_SECONDS = 7200.0
PEERS = ("obstore", "h5py", "s3fs", "fsspec")
#: Schemes -> what opens such objects for h5py.
DRIVERS = {"s3": "s3fs", "s3a": "s3fs", "http": "http", "https": "http"}
HTTP = "h5py over fsspec"
T = TypeVar("T")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which object, how it is reached, and how much of it."""
    add = parser.add_argument
    add(
        "file",
        nargs="?",
        metavar="URL",
        help="an object of your own, which is measured as it is reached from here: s3://, gs://, "
        "az://, https://; no server is started (default: objects that the study makes)",
    )
    add(
        "path",
        nargs="?",
        metavar="PATH",
        help="the dataset in it; may be left out when there is only one",
    )
    add(
        "--storage_options",
        type=options_of,
        default={},
        metavar="JSON",
        help='how the store is reached, as in {"region": "eu-west-1"}; keys are better kept in '
        "the environment",
    )
    add(
        "--gigabytes",
        type=positive(float),
        default=1,
        metavar="GB",
        help="of your own object read its first rows only, this many GB decoded (default 1)",
    )


def options_of(text: str) -> dict[str, Any]:
    """Parse a JSON object; an error does not repeat the text."""
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise argparse.ArgumentTypeError('not a JSON object like {"region": "eu-west-1"}')
    return found


@dataclass(frozen=True)
class Own:
    """The first rows of a dataset; `shown` is its URL without what may be a signature."""

    url: str
    shown: str
    path: str
    rows: int
    all_rows: int
    row_bytes: int
    options: Mapping[str, Any]

    @property
    def n_bytes(self) -> int:
        """Decoded."""
        return self.rows * self.row_bytes

    def ask(
        self, name: str, loop: Any, recipe: str, n_procs: int, stored_bytes: int = 0, **more: Any
    ) -> Asked:
        """A recipe of a loop; `n_bytes` is the size of a download."""
        rows = self.rows if self.rows < self.all_rows else 0
        request = {
            "url": self.url,
            "path": self.path,
            "rows": rows,
            "store": dict(self.options),
            "clock": "",
            "n_procs": n_procs,
            "recipe": recipe,
            "task": "whole",
            "n_bytes": stored_bytes,
            **more,
        }
        figure = _loaded(self.n_bytes, stored_bytes) if stored_bytes else people.rate(self.n_bytes)
        install = "pip install multitables[remote,bench]"
        return Asked(name, loop.__file__, request, figure, install, timeout_seconds=TIMEOUT_SECONDS)


def _loaded(n_bytes: int, stored_bytes: int) -> Callable[[Any], Sample]:
    """The rate of a download, counted in decoded bytes so that it compares with the others."""
    whole = people.download_rate(n_bytes, stored_bytes)

    def figure(found: Mapping[str, Any]) -> Sample:
        size = found["told"]["size"]
        if size < stored_bytes:
            what = f"the object has {size} bytes, and {stored_bytes} were fetched for its rows"
            raise NotMeasuredError(f"{what}: some lie in other objects, or were fetched twice")
        return whole(found)

    return figure


def found(url: str, path: str | None, options: Mapping[str, Any], most_bytes: float) -> Own:
    """Look the dataset up.

    Raises
    ------
    NotMeasuredError
        It cannot be opened, is not there, or has nothing to stream.
    """
    library, place = face(), urlsplit(url)
    is_web = place.scheme in ("http", "https")
    shown = url.partition("?")[0] if is_web else url
    if not place.netloc:
        raise NotMeasuredError(f"{url!r} is no URL; of a file here `explain FILE` tells more")
    if is_web and "@" in place.netloc:
        raise NotMeasuredError("a URL with a user: give storage_options['headers'] instead")
    if "cache_folder" in options:
        raise NotMeasuredError("with a cache_folder a disk would be measured: leave it out")
    try:
        with library.open(url, storage_options=dict(options)) as file:
            dataset: Any = None if path is None else file.get(path)
            if path is None or not hasattr(dataset, "chunks"):
                names = dataset_storage.datasets(file)
                if path is not None or len(names) != 1:
                    what = "name one dataset" if path is None else f"there is no dataset {path!r}"
                    raise NotMeasuredError(f"{what} of {shown}. {dataset_storage.holds(names)}")
                dataset = file[path := names[0]]
            if not dataset.shape or not dataset.size or dataset.dtype.hasobject:
                what = f"shape {dataset.shape}, {dataset.dtype}"
                raise NotMeasuredError(f"{path!r} has no rows of equal length ({what})")
            all_rows, step = dataset.shape[0], (dataset.chunks or (1,))[0]
            row_bytes = dataset.nbytes // all_rows
    except (library.MultitablesError, TypeError) as error:
        raise NotMeasuredError(str(error)) from None
    rows = min(all_rows, max(1, int(most_bytes) // (step * row_bytes)) * step)
    return Own(url, shown, path, rows, all_rows, row_bytes, options)


def run(arguments: argparse.Namespace) -> int:
    """Measure, print, keep; returns the exit status."""
    more = SMOKE if arguments.smoke else {}
    arguments = argparse.Namespace(**{**vars(arguments), **more, "part": None})
    options = arguments.storage_options
    own = found(arguments.file, arguments.path, options, 1e9 * arguments.gigabytes)
    given = {name: options[name] for name in SHOWN if name in options}
    return target_run.run(
        "remote",
        {"own": lambda run: measure(run, own)},
        arguments,
        f"{workloads.as_size(own.n_bytes)} decoded: rows 0 to {own.rows} of {own.all_rows}, "
        f"{arguments.processes} processes, each contender timed {arguments.rounds} x",
        more_facts={
            "object": f"{own.shown} {own.path}",
            "options": ", ".join(f"{name}={value}" for name, value in given.items()) or "-",
            "peers": ", ".join(f"{one} {environment.version_of(one)}" for one in PEERS),
        },
        size_bytes=own.n_bytes,
        processes=(arguments.processes,),
        datasets=(own.path,),
        sizes={"rows": own.rows},
        judged=True,
    )


def measure(run: TargetRun, own: Own) -> None:
    """Streams, a download of the same bytes, and h5py if it can read such objects."""
    n_procs = run.processes[0]
    queue = own.ask(QUEUE, remote_loop, "queue", n_procs)
    try:
        stored_bytes = int(queue.ask("time")["told"]["fetched_bytes"])
    except ContenderError as error:
        raise NotMeasuredError(f"{own.shown} cannot be streamed: {error}") from None
    if not stored_bytes:
        raise NotMeasuredError(f"{own.path!r} of {own.shown} has no stored bytes in these rows")
    download = own.ask(people.RANGES, remote_loop, "download", 1, stored_bytes, in_ranges=True)
    everybody: list[Any] = [
        queue,
        own.ask(KEPT, remote_loop, "kept queue", n_procs),
        _Download(download),
    ]
    oracle: Asked | _Quiet = own.ask("multitables.open", remote_loop, "slabs", 1)
    driver = DRIVERS.get(urlsplit(own.url).scheme)
    if driver:
        name = HTTP if driver == "http" else people.S3FS
        theirs: dict[str, Any] = {"driver": driver, "open": {}, "file": {}}
        h5py = _Quiet(own.ask(name, hdf5_remote_loop, "", n_procs, **theirs))
        # A failure here comes again in the round, and its reason stands in the table.
        with contextlib.suppress(NotMeasuredError, ContenderError):
            oracle = h5py = _Compared(h5py.one, digest=h5py.check())
        everybody.append(h5py)
    title = f"{own.shown} {own.path}"
    right = against(lambda: oracle.check() or {})
    rates = run.rates("own", title, everybody, right)
    ratio = stored_bytes / own.n_bytes
    notes = {
        name: f"{statistics.median(values) * ratio:.3g} MB/s stored"
        for name, values in rates.items()
    }
    for name, samples in run.samples.items():
        told = samples[-1].more.get("metadata")
        if told:
            notes[name] += f"; metadata {told['requests']} requests, {told['bytes'] / 1e6:.3g} MB"
    head = f"{title}; MB/s decoded; rows compared with {oracle.name}"
    run.table(head, [one.name for one in everybody], rates, people.RANGES, ".3g", "MB/s", notes)


@dataclass(frozen=True)
class _Quiet:
    """Another library; only the types of its failures are shown."""

    one: Asked
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Its name."""
        return self.one.name

    def check(self) -> Digest | None:
        """As it checks."""
        return self._quietly(self.one.check)

    def measure(self) -> Sample:
        """As it measures."""
        return self._quietly(self.one.measure)

    def _quietly(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except (NotMeasuredError, WrongDataError):
            raise  # in words of the benchmark
        except ContenderError as error:
            kinds = dict.fromkeys(re.findall(r"\w+(?:Error|Exception)\b", str(error)))
        raise ContenderError(f"{', '.join(kinds) or 'it failed'}; its message is not shown")


class _Download(_Quiet):
    """One that delivers no rows."""

    def check(self) -> Digest | None:
        """Nothing: its bytes are counted when it is timed."""
        return None


@dataclass(frozen=True)
class _Compared(_Quiet):
    """One whose rows are right by definition, and read once."""

    digest: Digest | None = None

    def check(self) -> Digest | None:
        """What it has read."""
        return self.digest
