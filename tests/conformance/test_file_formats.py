"""The files of `format_files` are like those that the tools themselves write, where they are here.

Law
---
1. A tool writes what the how-to of formats reads; its datasets have the same names and layouts, and
   every entry point reads them as h5py does. Tools run in scripts, as they keep threads and files.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import format_files
import h5py
import numpy as np
import pytest
from coverage_of import ENTRIES, NATIVE, Faces, Oracle, outcome
from processes import run_script

#: File of `format_files` -> the library, what it writes, and the datasets that must be alike.
TOOLS = {
    "weather.nc": (
        "netCDF4",
        """
import netCDF4
with netCDF4.Dataset(path, 'w') as file:
    for name, length in (('time', 48), ('lat', 5), ('lon', 8)):
        file.createDimension(name, length)
        file.createVariable(name, 'f8', (name,))[:] = np.arange(length)
    made = file.createVariable('t2m', 'i2', ('time', 'lat', 'lon'), zlib=True,
                               fill_value=-999, chunksizes=(12, 5, 8))
    made.scale_factor, made.add_offset = 0.01, 273.15
    made.set_auto_maskandscale(False)
    made[:] = np.arange(1920).reshape(48, 5, 8)
""",
        ["time", "t2m"],
    ),
    "cells.h5ad": (
        "anndata",
        """
import anndata, pandas as pd, scipy.sparse as sp
X = sp.csr_matrix(np.tri(300, 50, dtype='f4'))
names = pd.Categorical.from_codes(np.arange(300) % 3, ['B', 'NK', 'T'])
obs = pd.DataFrame({'n_genes': np.arange(300), 'cell_type': names},
                   index=[str(at) for at in range(300)])
made = anndata.AnnData(X, obs, layers={'counts': X.toarray()})
made.write_h5ad(path)
""",
        ["X/data", "X/indices", "X/indptr", "layers/counts", "obs/n_genes", "obs/cell_type/codes"],
    ),
    "model.weights.h5": (
        "keras",
        """
import os
os.environ['KERAS_BACKEND'] = 'jax'
import keras
model = keras.Sequential([keras.Input((16,)), keras.layers.Dense(8), keras.layers.Dense(2)])
model.save_weights(path)
""",
        ["layers/dense/vars/0", "layers/dense_1/vars/1"],
    ),
    "run.mat": (
        "hdf5storage",
        """
import hdf5storage
data = {'signal': np.arange(3000.0).reshape(1000, 3).T, 'good': np.array([[True]])}
hdf5storage.savemat(path, data, format='7.3', store_python_metadata=False)
""",
        ["signal", "good"],
    ),
    "session.nwb": (
        "pynwb",
        """
import datetime, pynwb
begin = datetime.datetime(2024, 1, 1, tzinfo=datetime.timezone.utc)
made = pynwb.NWBFile('a', 'b', begin)
made.add_acquisition(pynwb.TimeSeries('ElectricalSeries', unit='V',
    data=np.arange(4000, dtype='i2').reshape(1000, 4), timestamps=np.arange(1000.0)))
for at in range(20):
    made.add_unit(spike_times=np.arange(at % 5) / 100)
with pynwb.NWBHDF5IO(path, 'w') as file:
    file.write(made)
""",
        [
            "acquisition/ElectricalSeries/data",
            "acquisition/ElectricalSeries/timestamps",
            "units/spike_times",
            "units/spike_times_index",
        ],
    ),
    "frames.h5": (
        "pandas",
        """
import pandas as pd
frame = pd.DataFrame({'high': np.arange(0, 200.0, 2), 'low': np.arange(1, 200.0, 2),
                      'day': pd.date_range('1970-01-01', periods=100)})
frame.to_hdf(path, key='frame', format='fixed')
frame.to_hdf(path, key='log', format='table', data_columns=['day'], complib='blosc',
             complevel=5)
""",
        ["frame/block0_values", "frame/axis1", "frame/block1_values", "log/table"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", format_files.FILES)
def test_what_the_how_to_reads(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    format_files.FILES[name](path)
    _check_all(path, _datasets(path))


@pytest.mark.hang(120)
@pytest.mark.parametrize("name", TOOLS)
def test_files_of_the_tools(tmp_path: Path, name: str) -> None:
    library, source, alike = TOOLS[name]
    if not importlib.util.find_spec(library):
        pytest.skip(f"{library} is not installed")
    theirs, ours = tmp_path / name, tmp_path / f"ours-{name}"
    done = run_script("import sys\nimport numpy as np\npath = sys.argv[1]\n" + source, theirs,
                      flags=(), seconds=100)  # fmt: skip
    assert done.returncode == 0, done.stderr
    format_files.FILES[name](ours)
    with h5py.File(theirs) as file, h5py.File(ours) as like:
        for path in alike:
            assert file[path].shape[1:] == like[path].shape[1:], path
            assert file[path].dtype.kind == like[path].dtype.kind, path
    _check_all(theirs, alike)


def _datasets(path: Path) -> list[str]:
    names: list[str] = []
    with h5py.File(path) as file:
        file.visititems(
            lambda name, found: names.append(name) if isinstance(found, h5py.Dataset) else None
        )
    return names


def _check_all(path: Path, names: list[str]) -> None:
    with Faces(path, trusted=False) as natively, Faces(path, trusted=True) as fully:
        for name in names:
            oracle = Oracle(path, name)
            is_text = oracle.reads[0].dtype == np.dtype(object)
            for entry, read in ENTRIES.items():
                if is_text and entry == "Reader":  # whose rows of any length a library reads
                    continue
                how, why = outcome(read, natively, fully, oracle)
                assert how == NATIVE, (name, entry, why)
