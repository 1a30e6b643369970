"""Versions and features, for bug reports.

Law
---
1. Imports the HDF5 libraries only when asked, and reports one that is missing as such.
"""

from __future__ import annotations

import importlib
import operator
import platform
import sys
from typing import Any

from _multitables import _core
from _multitables.errors import public


@public
def build_info() -> dict[str, Any]:
    """Tell versions and features; paste it into a bug report.

    Returns
    -------
    dict
        ``multitables``, ``core`` and its codecs, ``filters`` decoded natively, ``io_uring`` and
        ``direct`` (whether the kernel offers them), ``python``, ``numpy``, ``h5py`` and ``tables``
        with the libhdf5 of each, ``platform``.
    """
    info: dict[str, Any] = {"multitables": _version("multitables"), **_core.build_info()}
    info["filters"] = sorted(_core.native_filters().values())
    info["direct"] = sys.platform == "linux"
    info["python"] = platform.python_version()
    info |= {name: _version(name) for name in ("numpy", "h5py", "tables", "hdf5plugin")}
    for library, version in (("h5py", "version.hdf5_version"), ("tables", "hdf5_version")):
        try:
            told = operator.attrgetter(version)(importlib.import_module(library))
        except ImportError as error:
            told = f"not importable: {error}"
        info[f"libhdf5 of {library}"] = str(told)
    info["platform"] = platform.platform()
    return info


def _version(name: str) -> str:
    from importlib import metadata  # costs as much as half of NumPy

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
