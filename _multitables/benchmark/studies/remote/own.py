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
import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar
from urllib.parse import urlsplit

from _multitables.benchmark.contenders import remote_contenders as people
from _multitables.benchmark.contenders.asked import Asked
from _multitables.benchmark.contract import (
    Contender,
    ContenderError,
    Digest,
    Measurement,
    NotMeasuredError,
    Sample,
    WrongDataError,
)
from _multitables.benchmark.data import dataset_storage, workloads
from _multitables.benchmark.harness.child import face
from _multitables.benchmark.harness.results import Kept
from _multitables.benchmark.harness.runner import against
from _multitables.benchmark.loops import hdf5_remote_loop, remote_loop
from _multitables.benchmark.report.tables import View
from _multitables.benchmark.studies import setting as settings
from _multitables.benchmark.studies.arguments import positive
from _multitables.benchmark.studies.frame import Plan, Prepared
from _multitables.benchmark.studies.remote.parts import KEPT, QUEUE
from _multitables.benchmark.studies.setting import case, of_smoke

SHOWN = ("region", "endpoint", "anonymous", "request_payer", "max_gap_bytes", "max_requests")
SMOKE = {"rounds": 1, "gigabytes": 2**-6}
TIMEOUT_SECONDS = 7200.0
#: Columns of the results, and their heads.
MORE = {
    "stored_mb_per_s": "MB/s stored",
    "metadata_requests": "requests for metadata",
    "metadata_bytes": "bytes of metadata",
}
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
    """The first rows of a dataset, and their bytes in the object.

    `shown` is its URL without what may be a signature.
    """

    url: str
    shown: str
    path: str
    rows: int
    all_rows: int
    row_bytes: int
    options: Mapping[str, Any]
    stored_bytes: int = 0

    @property
    def n_bytes(self) -> int:
        """Decoded."""
        return self.rows * self.row_bytes

    def ask(self, name: str, loop: Any, recipe: str, n_procs: int, **more: Any) -> Asked:
        """A recipe of a loop; a download is of the stored bytes."""
        request = {
            "url": self.url,
            "path": self.path,
            "rows": self.rows if self.rows < self.all_rows else 0,
            "store": dict(self.options),
            "clock": "",
            "n_procs": n_procs,
            "recipe": recipe,
            "task": "whole",
            "n_bytes": self.stored_bytes,
            **more,
        }
        figure = functools.partial(self._figure, recipe == "download")
        install = "pip install multitables[remote,bench]"
        return Asked(name, loop, request, figure, install, timeout_seconds=TIMEOUT_SECONDS)

    def _figure(self, is_download: bool, found: Mapping[str, Any]) -> Sample:
        """The rate in decoded bytes, also of a download, so that it compares with the others."""
        size = found["counts"]["size"] if is_download else self.stored_bytes
        if size < self.stored_bytes:
            what = f"the object has {size} bytes, and {self.stored_bytes} were fetched for its rows"
            raise NotMeasuredError(f"{what}: some lie in other objects, or were fetched twice")
        loaded = people.download_rate(self.n_bytes, self.stored_bytes)
        sample = (loaded if is_download else people.rate(self.n_bytes))(found)
        more = {"stored_mb_per_s": sample.value * self.stored_bytes / self.n_bytes}
        metadata = sample.more.get("metadata") or {}
        more |= {f"metadata_{name}": metadata[name] for name in metadata}
        return Sample(sample.value, more)


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


def run(
    arguments: argparse.Namespace, views: Callable[[Kept], list[View]], facts: Mapping[str, str]
) -> int:
    """Measure, print, keep; returns the exit status."""
    arguments = of_smoke(arguments, SMOKE)
    options = arguments.storage_options
    own = found(arguments.file, arguments.path, options, 1e9 * arguments.gigabytes)
    given = {name: options[name] for name in SHOWN if name in options}
    beside: dict[str, Any] = {}
    one = case("own", f"{own.shown} {own.path}", prepared, own, arguments.processes, beside)
    return settings.run(
        "remote",
        arguments,
        f"{workloads.as_size(own.n_bytes)} decoded: rows 0 to {own.rows} of {own.all_rows}, "
        f"{arguments.processes} processes, each contender timed {arguments.rounds} x",
        lambda _setting: Plan([one], views, more=[*MORE], beside=beside),
        {"rows": own.rows, "processes": arguments.processes},
        {
            "object": f"{own.shown} {own.path}",
            "options": ", ".join(f"{name}={value}" for name, value in given.items()) or "-",
            **facts,
        },
    )


def prepared(own: Own, n_procs: int, beside: dict[str, Any]) -> Prepared:
    """Streams, a download of the same bytes, and h5py if it can read such objects."""
    try:
        read = own.ask(QUEUE, remote_loop, "queue", n_procs).ask("time")
    except ContenderError as error:
        raise NotMeasuredError(f"{own.shown} cannot be streamed: {error}") from None
    own = replace(own, stored_bytes=int(read["counts"]["fetched_bytes"]))
    if not own.stored_bytes:
        raise NotMeasuredError(f"{own.path!r} of {own.shown} has no stored bytes in these rows")
    download = own.ask(people.RANGES, remote_loop, "download", 1, in_ranges=True)
    everybody: list[Contender] = [
        own.ask(QUEUE, remote_loop, "queue", n_procs),
        own.ask(KEPT, remote_loop, "kept queue", n_procs),
        # it delivers no rows; its bytes are counted when it is timed
        Measurement(download.name, _Quiet(download).measure),
    ]
    oracle: Contender = own.ask("multitables.open", remote_loop, "slabs", 1)
    driver = DRIVERS.get(urlsplit(own.url).scheme)
    if driver:
        name = HTTP if driver == "http" else people.S3FS
        theirs: dict[str, Any] = {"driver": driver, "open": {}, "file": {}}
        quiet = _Quiet(own.ask(name, hdf5_remote_loop, "", n_procs, **theirs))
        h5py = Measurement(name, quiet.measure, functools.cache(quiet.check))
        # a failure here comes again in the round, and then its reason is kept
        with contextlib.suppress(NotMeasuredError, ContenderError):
            h5py.check()
            oracle = h5py
        everybody.append(h5py)
    beside["compared_with"] = oracle.name
    return Prepared(everybody, against(oracle.check))


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
