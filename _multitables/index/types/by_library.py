"""What a dataset is where the core does not know a structure: libhdf5 is asked in another process.

Law
---
1. The process may crash or hang: then the dataset is damaged, and this process goes on.
2. The answer is what the core tells of a dataset, without where its bytes lie.

This file must never import an HDF5 library.
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping
from typing import TYPE_CHECKING

from _multitables._core import StoredDataset
from _multitables.index.types import hdf5_errors
from _multitables.index.types.hdf5_metadata import Attribute
from _multitables.machine import python_arguments, python_environment, python_program
from _multitables.remote.failures import StoreFailure, error_of

if TYPE_CHECKING:
    import subprocess

#: A healthy library takes a tenth of a second, most of it to start.
TIMEOUT_SECONDS = 60.0
MODULE = "_multitables.reader.describe"


class Hung(Exception):  # noqa: N818 - internal
    """A process did not end in time."""


def asked(module: str, *arguments: str, told: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run a module of the readers' side in a process of its own, and return what it says.

    `told` is what it reads from its standard input.

    Raises
    ------
    Hung
        It was ended.
    OSError
        The system starts no process, or Python's program is not known.
    """
    import subprocess

    try:
        return subprocess.run(
            [python_program(), *python_arguments(), "-S", "-m", module, *arguments],
            capture_output=True,
            timeout=TIMEOUT_SECONDS,
            env=python_environment(),
            check=False,
            input=told.encode(),
        )
    except subprocess.TimeoutExpired:
        raise Hung(f"it did not come back within {TIMEOUT_SECONDS:g} s") from None


def described(
    filename: str, path: str, open_options: Mapping[str, object]
) -> tuple[StoredDataset, list[Attribute]]:
    """Return what libhdf5 says of a dataset, as the core says it, and its attributes of PyTables.

    Raises
    ------
    MissingDatasetError
        There is no such dataset.
    UnsupportedDatasetError
        It is a group or a named type, or needs files that HDF5 does not find.
    FileOpenError
        The library failed, crashed, or did not come back; or the store failed.
    """
    try:
        answer = asked(MODULE, filename, path, told=json.dumps(dict(open_options)))
    except Hung as hung:
        raise hdf5_errors.library_failed(filename, path, str(hung)) from None
    if answer.returncode:
        lines = answer.stderr.decode("utf-8", "replace").strip().splitlines() or [""]
        died = f"it was killed by signal {-answer.returncode}"
        why = died if answer.returncode < 0 else lines[-1]
        raise hdf5_errors.library_failed(filename, path, why)
    told = json.loads(answer.stdout)
    if told.get("failed") == "StoreFailure":
        raise error_of(filename, StoreFailure(*told["text"].split("\n", 1)), ())
    if "failed" in told:
        raise hdf5_errors.unsupported("not_alone", filename, path, told["text"])
    if "missing" in told:
        group, name = posixpath.split(path)
        raise hdf5_errors.no_such_path(filename, path, group, name, told["missing"])
    if "children" in told:
        raise hdf5_errors.no_dataset(filename, path, told["children"])
    unhex = bytes.fromhex
    attributes: list[Attribute] = [
        (unhex(name), 0, unhex(kind), None if dims is None else tuple(dims), unhex(value))
        for name, kind, dims, value in told.pop("attributes")
    ]
    told["datatype"] = unhex(told["datatype"])
    told["filters"] = [(*of[:3], unhex(of[3])) for of in told["filters"]]
    return StoredDataset(layout="unknown", **told), attributes
