"""Versions and features, for bug reports.

Law
---
1. Imports the HDF5 libraries only when asked, and reports one that is missing as such.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

from _multitables import _core


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
    info["numpy"] = _version("numpy")
    info["h5py"] = _version("h5py")
    info["tables"] = _version("tables")
    info["hdf5plugin"] = _version("hdf5plugin")
    try:
        import h5py

        info["libhdf5 of h5py"] = str(h5py.version.hdf5_version)
    except ImportError as error:
        info["libhdf5 of h5py"] = f"not importable: {error}"
    try:
        import tables

        info["libhdf5 of tables"] = str(tables.hdf5_version)
    except ImportError as error:
        info["libhdf5 of tables"] = f"not importable: {error}"
    info["platform"] = platform.platform()
    return info


def _version(name: str) -> str:
    from importlib import metadata  # costs as much as half of NumPy

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"
