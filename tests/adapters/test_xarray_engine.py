"""The engine "multitables" of xarray, beside h5netcdf; `tools/xarray_tests.py` runs xarray's own.

Law
---
1. xarray keeps files open, so it runs in scripts. The engine h5netcdf says what is right.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import h5py
import numpy as np
import pytest
from processes import run_script

if not all(map(importlib.util.find_spec, ("xarray", "h5netcdf"))):
    pytest.skip("xarray or h5netcdf is missing", allow_module_level=True)

BEGIN = """
import pickle, sys
import dask, numpy as np, xarray
path = sys.argv[1]
def opened(**options):
    return xarray.open_dataset(path, engine="multitables", **options)
def expected(**options):
    return xarray.open_dataset(path, engine="h5netcdf", **options)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = tmp_path / "data.nc"
    done = run_script(
        "import sys, h5netcdf, numpy as np\n"
        "with h5netcdf.File(sys.argv[1], 'w') as file:\n"
        "    file.dimensions = {'time': None, 'x': 7}\n"
        "    file.resize_dimension('time', 40)\n"
        "    v = file.create_variable('v', ('time', 'x'), 'i2', chunks=(6, 4),\n"
        "                             compression='gzip', fillvalue=-9)\n"
        "    v[...] = np.arange(280).reshape(40, 7)\n"
        "    v[3, 4] = -9\n"
        "    v.attrs['scale_factor'] = 0.5\n"
        "    short = file.create_variable('short', ('time',), 'f4', chunks=(8,))\n"
        "    file.create_variable('x', ('x',), 'f8', data=np.linspace(0, 1, 7))\n"
        "    group = file.create_group('deep/er')\n"
        "    group.create_variable('x', ('time',), 'i4', data=np.arange(40))\n"
        "    group.create_variable('name', ('time',), h5netcdf.core.h5py.string_dtype(),\n"
        "                          data=np.array(['é%d' % at for at in range(40)], object))\n",
        made,
        flags=(),
    )
    assert done.returncode == 0, done.stderr
    with h5py.File(made, "a") as file:
        file["short"].resize((25,))  # shorter than its dimension
    return made


CASES = {
    "as it is": "xarray.testing.assert_identical(opened().load(), expected().load())",
    "raw": "xarray.testing.assert_identical(opened(decode_cf=False).load(), "
    "expected(decode_cf=False).load())",
    "indexed": "for key in ({'time': 3}, {'time': [5, 3, 3]}, {'x': slice(None, None, -2)},\n"
    "            {'time': np.array([1, 9]), 'x': np.array([2, 0])}):\n"
    "    xarray.testing.assert_identical(opened().isel(key).load(), expected().isel(key).load())",
    "groups": "group = dict(group='deep/er', phony_dims='access')\n"
    "found = opened(**group).load()\n"
    "xarray.testing.assert_identical(found, expected(**group).load())\n"
    "assert found.name[3] == 'é3'",
    "a tree": "ours = xarray.open_datatree(path, engine='multitables')\n"
    "theirs = xarray.open_datatree(path, engine='h5netcdf')\n"
    "xarray.testing.assert_identical(ours.load(), theirs.load())",
    "pickled": "lazy = pickle.loads(pickle.dumps(opened()))\n"
    "xarray.testing.assert_identical(lazy.load(), expected().load())",
    "threads": "with dask.config.set(scheduler='threads', num_workers=4):\n"
    "    found = opened(chunks={'time': 6}).v.sum().compute()\n"
    "assert found == expected().v.sum()",
    "after it was closed": "lazy = opened()\nlazy.close()\n"
    "xarray.testing.assert_identical(lazy.load(), expected().load())",
    "bytes": "found = xarray.open_dataset(open(path, 'rb').read(), engine='multitables').load()\n"
    "xarray.testing.assert_identical(found, expected().load())",
    "few open files": "xarray.set_options(file_cache_maxsize=1)\n"
    "lazy, other = opened(chunks={'time': 2}), opened(group='deep/er', chunks={'time': 2})\n"
    "with dask.config.set(scheduler='threads', num_workers=4):\n"
    "    found, _ = dask.compute(lazy, other)\n"
    "xarray.testing.assert_identical(found, expected().load())",
}


@pytest.mark.parametrize("name", CASES)
def test_what_h5netcdf_reads(path: Path, name: str) -> None:
    done = run_script(BEGIN + CASES[name], path, flags=())
    assert done.returncode == 0, done.stderr


def test_values_are_read_by_the_core(path: Path) -> None:
    done = run_script(
        BEGIN + "import h5py\n"
        "h5py.Dataset.__getitem__ = None\n"
        "print(int(opened(decode_cf=False).v.sum()))\n",
        path,
        flags=(),
    )
    rows = np.arange(280)
    rows[3 * 7 + 4] = -9
    assert done.stdout == f"{rows.sum()}\n", done.stderr
