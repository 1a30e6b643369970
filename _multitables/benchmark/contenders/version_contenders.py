"""Who writes files of many versions, and who reads them; each in a process that stays.

Law
---
1. A file is one test of the study at one number of transactions, chunk size and compression, with
   its unversioned twin. It is written by the published method, and compared before it is read.
2. A contender's process is started when it is first asked, and serves all files of a run: what is
   timed takes less than the start of an interpreter. One that fails is started again.
3. It owns no table of results and no order of measuring.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from types import ModuleType
from typing import Any

from _multitables.benchmark.contract import Digest, Measurement, Sample
from _multitables.benchmark.data import workloads
from _multitables.benchmark.harness.child import Child, module_directory
from _multitables.benchmark.loops import version_read_loop, version_steps, version_write_loop
from _multitables.benchmark.loops.stream_loop import Digest as Seen
from _multitables.benchmark.loops.version_steps import VAL, Spec
from _multitables.benchmark.loops.version_write_loop import PLAIN, VERSIONED

OURS = "multitables"
INSTALL = "pip install multitables[studies]"
WRITERS = (VERSIONED, PLAIN)
#: Contender -> its recipe. The first reads the twin, which has the latest version only.
TWIN = {PLAIN: "h5py"}
READERS = {
    f"{VERSIONED}, r": "versioned-hdf5 r",
    f"{VERSIONED}, r+": "versioned-hdf5 r+",
    OURS: "multitables",
    f"{OURS}, version=": "multitables version=",
    f"{OURS}, Reader": "multitables Reader",
}
TOGETHER = {f"{OURS}, together": "multitables together"}
WHICH = ("all", "latest", "middle", "first")
#: As in the study.
REPEATS = 20
#: One element at a time, the largest files take hours.
TIMEOUT_SECONDS = 24 * 3600.0


def readers_of(which: str) -> dict[str, str]:
    """Who reads these versions."""
    if which == "all":
        return READERS | TOGETHER
    return READERS | TWIN if which == "latest" else READERS


class Loops(contextlib.ExitStack):
    """The processes of a run's contenders, which end with the block."""

    def __init__(self) -> None:
        super().__init__()
        self._children: dict[tuple[str, ModuleType], Child] = {}

    def ask(self, name: str, loop: ModuleType, **request: Any) -> Any:
        """What the contender's loop finds."""
        key = (name, loop)
        if key not in self._children:
            place = (sys.executable, module_directory(), TIMEOUT_SECONDS)
            self._children[key] = self.enter_context(Child(*place, loop, name, INSTALL))
        try:
            return self._children[key].ask(**request)
        except BaseException:
            self._children.pop(key).__exit__()
            raise


@dataclass(frozen=True)
class VersionsFile:
    """A file of the study and its twin.

    Attributes
    ----------
    spec : Spec
    exponent : int
        Chunks have this power of 2 of elements along each axis.
    compression : str
    directory : str
    loops : Loops
    """

    spec: Spec
    exponent: int
    compression: str
    directory: str
    loops: Loops
    _right: set[str] = field(default_factory=set)

    @property
    def way(self) -> str:
        """Which of the study's two wordings it follows."""
        return "as described" if self.spec.described else "as published"

    def name(self, writer: str) -> str:
        """The published name of the file, without its ending."""
        compression = "None" if self.compression == "none" else self.compression
        twin = "" if writer == VERSIONED else "_no_versions"
        return f"{self.spec.group}_{self.spec.n}_{self.exponent}_{compression}{twin}"

    def filename(self, writer: str) -> str:
        """Where it lies."""
        way = self.way.replace(" ", "_")
        return os.path.join(self.directory, f"{way}_seed{self.spec.seed}_{self.name(writer)}.h5")

    @property
    def needed_bytes(self) -> int:
        """Free bytes a file may need: what each transaction writes anew, and the rows."""
        nominal, side = self.spec.nominal, 2**self.exponent
        n = self.spec.n
        chunks = -(-(nominal.shape[0] + n * (nominal.appended + 1)) // side)
        key_bytes, val_bytes = 8 * side, 8 * side ** len(nominal.shape)
        written = chunks + n * (2 + nominal.appended / side)
        many = self.spec.described and nominal.percent[0] > 50
        changed_bytes = n * chunks * val_bytes if many else 0
        return int(written * (2 * key_bytes + val_bytes) + changed_bytes) + 2**22

    def ready(self, writer: str) -> str:
        """The file, written when it is not there yet."""

        def holds(_file: VersionsFile, filename: str) -> bool:
            return filename in self._right or bool(self._ask(writer, "holds", filename))

        def write(_file: VersionsFile, _filename: str) -> None:
            self.write(writer)

        found = workloads.kept(self, self.filename(writer), holds, write)
        self._right.add(found)
        return found

    def write(self, writer: str) -> Mapping[str, Any]:
        """Write it, and leave it where it is wanted; returns its times and its size."""
        filename = self.filename(writer)
        workloads.check_disk(self.directory, self.needed_bytes)
        part = f"{filename}.part{os.getpid()}"
        try:
            found: Mapping[str, Any] = self._ask(writer, "time", part)
            if not os.path.lexists(filename):
                os.replace(part, filename)
                self._right.add(filename)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(part)
        return found

    def _ask(self, writer: str, verb: str, filename: str) -> Any:
        return self.loops.ask(
            writer,
            version_write_loop,
            verb=verb,
            recipe=writer,
            filename=filename,
            spec=asdict(self.spec),
            exponent=self.exponent,
            compression=self.compression,
        )


@functools.lru_cache(maxsize=1)
def expected(spec: Spec) -> dict[str, Digest]:
    """The digests of `val`, of all versions and of those that are read alone."""
    everything = Seen()
    found: dict[str, Digest] = {}
    for name, state in zip(spec.names, version_steps.states(spec), strict=True):
        everything.see(state[VAL])
        for which in WHICH[1:]:
            if [name] == version_steps.chosen(spec.names, which):
                alone = Seen()
                alone.see(state[VAL])
                found[which] = alone.result()
    return {"all": everything.result(), **found}


def writers(file: VersionsFile) -> list[Measurement]:
    """Who writes the file; what was written is compared in the same process."""

    def measured(writer: str) -> Sample:
        found = file.write(writer)
        *each, total = found["t_write"]
        return Sample(
            total,
            {
                "seconds": total,
                "transaction_seconds": sorted(each)[len(each) // 2],
                "file_bytes": found["file_bytes"],
                "t_write": found["t_write"],
                "name": file.name(writer),
            },
        )

    return [Measurement(one, functools.partial(measured, one)) for one in WRITERS]


@dataclass(frozen=True)
class VersionReader:
    """A contender that opens and reads versions of a file."""

    name: str
    recipe: str
    file: VersionsFile
    which: str
    n_procs: int
    needs: Sequence[str] = ()

    def check(self) -> Digest:
        """The digest of the rows of all versions that it reads."""
        found: Digest = self._ask("check")
        return found

    def measure(self) -> Sample:
        """Seconds until all were opened and read."""
        found = self._ask("time")
        return Sample(found["seconds"], found)

    def _ask(self, verb: str) -> Any:
        filename = self.file.ready(PLAIN if self.name in TWIN else VERSIONED)
        return self.file.loops.ask(
            self.name,
            version_read_loop,
            verb=verb,
            recipe=self.recipe,
            filename=filename,
            path=f"{self.file.spec.group}/{VAL}",
            names=version_steps.chosen(self.file.spec.names, self.which),
            n_procs=self.n_procs,
            repeats=1 if self.which == "all" else REPEATS,
        )


def readers(file: VersionsFile, which: str, n_procs: int) -> list[VersionReader]:
    """Who reads these versions of the file."""
    return [
        VersionReader(name, recipe, file, which, n_procs)
        for name, recipe in readers_of(which).items()
    ]
