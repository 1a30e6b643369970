"""Run xarray's own tests of its engine h5netcdf, and read with the engine multitables in its place.

Law
---
1. The tests run as they are, but for this: what opens a file with the engine h5netcdf opens it with
   ours. They write with h5netcdf.
2. Each test that fails is listed, and fails the run. Those that cannot pass are named here, why.

Usage: ``python tools/xarray_tests.py [OPTION ...]``, of pytest.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import xarray
from xarray.tests import test_backends

CLASSES = ("TestH5NetCDFData", "TestH5NetCDFViaDaskData", "TestNetCDF4ClassicViaH5NetCDFData")
#: Test -> why it cannot pass.
NOT_OURS = {
    "test_phony_dims_warning": "it warns of an older default, which our engine never had",
    "test_decode_utf8_warning": "its words name h5netcdf, and ours the file",
}


class Engine:
    """Opens files with our engine, and counts the files."""

    def __init__(self) -> None:
        self.count = 0

    def patch(self) -> None:
        """Have xarray's tests open files with it."""
        for module in (xarray, test_backends):
            for name in ("open_dataset", "load_dataset", "open_mfdataset", "open_datatree"):
                if hasattr(module, name):
                    setattr(module, name, self._ours(getattr(module, name)))

    def _ours(self, theirs: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(theirs)
        def opened(*arguments: Any, **options: Any) -> Any:
            if options.get("engine") == "h5netcdf":
                options["engine"] = "multitables"
                self.count += 1
            return theirs(*arguments, **options)

        return opened


def main(options: list[str]) -> int:
    """Run the tests, and return what pytest does."""
    engine = Engine()
    engine.patch()
    tests = Path(test_backends.__file__)
    left_out = ["-k", " and ".join(f"not {name}" for name in NOT_OURS)]
    plain = ["-c", "/dev/null", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", "-W", "ignore"]
    code = pytest.main([*plain, *options, *left_out, *[f"{tests}::{name}" for name in CLASSES]])
    print(f"{engine.count} files were opened with the engine multitables")
    for name, reason in NOT_OURS.items():
        print(f"left out: {name}: {reason}")
    return int(code) or engine.count == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
