"""The engine "multitables" of xarray, beside h5netcdf; `tools/xarray_tests.py` runs xarray's own.

Law
---
1. xarray keeps files open, so it runs in scripts. The engine h5netcdf says what is right.
"""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import h5py
import lost_scales
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from processes import run_script

from _multitables.adapters.netcdf import inside

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


def test_files_are_as_h5netcdf_has_them(tmp_path: Path) -> None:
    pytest.importorskip("netCDF4")
    folder = Path(__file__).parent
    done = run_script(
        "import sys; sys.path.insert(0, sys.argv[1]); import netcdf_differences, pathlib\n"
        "netcdf_differences.main(pathlib.Path(sys.argv[2]))",
        folder,
        tmp_path,
        flags=(),
        seconds=120,
    )
    assert done.returncode == 0, done.stderr
    differences = json.loads(done.stdout)
    assert len(differences) >= 15
    assert not any(differences.values()), differences


# ---- what h5netcdf does not open ------------------------------------------------------------

OPENED = """
import sys, warnings, h5py, numpy as np, xarray
from multitables import LeftOutWarning
def opened(path, **options):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        data = xarray.open_dataset(path, engine="multitables", **options).load()
    assert all(issubclass(one.category, LeftOutWarning) for one in said), said
    return data, [str(one.message) for one in said]
"""


LOST = """
data, said = opened(f"{folder}/{how}.h5", group="items/1")
assert data.v.dims[1] == "u" and data.w.dims == data.v.dims[:1]
assert (data.v.values == np.arange(12).reshape(3, 4)).all()
assert (data.w.values == np.arange(3)).all()
assert len(said) == 2 and all(reason in one for one in said), said
"""
NOT_OPENED = {
    **{
        f"a lost scale: {how}": f"how, reason = {how!r}, {reason!r}" + LOST
        for how, (_, reason) in lost_scales.LOST.items()
    },
    "a scale of texts": """
data, said = opened(f"{folder}/texts.h5", group="items/1")
assert data.v.dims == ("other", "u") and not said
whole, said = opened(f"{folder}/texts.h5")
assert whole.other.values.tolist() == ["a", "bé", "c"] and not said
""",
    "a type that NumPy lacks": """
with h5py.File(path, "w") as file:
    file["v"] = np.arange(3)
    space, kind = h5py.h5s.create_simple((3,)), h5py.h5t.STD_I32LE.copy()
    kind.set_size(12), kind.set_precision(90)
    h5py.h5d.create(file.id, b"long", kind, space)
    h5py.h5a.create(file["v"].id, b"longer", kind, space)
    file["v"].attrs["units"] = "m"
data, said = opened(path)
assert list(data.variables) == ["v"] and data.v.attrs == {"units": "m"}
assert len(said) == 2 and "'/long'" in said[0] and "'longer' of '/v'" in said[1], said
""",
    "nothing in a dataset": """
with h5py.File(path, "w") as file:
    file["v"], file["null"] = np.arange(3), h5py.Empty("f4")
data, said = opened(path)
assert list(data.variables) == ["v"] and "'/null'" in said[0]
""",
    "axes with a scale and without": """
with h5py.File(path, "w") as file:
    file["x"], file["v"] = np.arange(4), np.arange(16).reshape(4, 4)
    file["x"].make_scale("x")
    file["v"].dims[1].attach_scale(file["x"])
data, said = opened(path)
assert data.v.dims == ("phony_dim_0", "x") and not said
assert (data.v.values == np.arange(16).reshape(4, 4)).all()
""",
    "a scale of another group": """
with h5py.File(path, "w") as file:
    file["a/x"], file["b/v"] = np.arange(4), np.arange(4)
    file["a/x"].make_scale("x")
    file["b/v"].dims[0].attach_scale(file["a/x"])
data, said = opened(path, group="b")
assert data.v.dims == ("phony_dim_0",) and "'/a/x'" in said[0] and "'/b/v'" in said[0]
""",
    "a scale that is shorter": """
with h5py.File(path, "w") as file:
    file["x"], file["v"] = np.arange(2), np.arange(4)
    file["x"].make_scale("x")
    file["v"].dims[0].attach_scale(file["x"])
data, said = opened(path)
assert data.v.dims == ("phony_dim_0",) and data.v.values.tolist() == [0, 1, 2, 3]
assert data.x.dims == ("x",) and len(said) == 1
""",
    "sequences of all lengths": """
with h5py.File(path, "w") as file:
    made = file.create_dataset("v", (2, 2), h5py.vlen_dtype("i4"))
    made[0, 0], made[1, 1] = [1, 2], [3]
data, said = opened(path)
assert [one.tolist() for one in data.v.values.flat] == [[1, 2], [], [], [3]] and not said
lazy = xarray.open_dataset(path, engine="multitables")
assert lazy.v[0, 0].item().tolist() == [1, 2]
""",
    "letters in a compound with gaps": """
dtype = np.dtype([("a", "f8"), ("s", "S1", (6,))], align=True)
with h5py.File(path, "w") as file:
    file["type"] = dtype
    made = file.create_dataset("v", (2,), file["type"])
    made[:] = np.array([(1, list("abcdef"))] * 2, dtype)
data, said = opened(path)
assert data.v.values["s"].tolist() == [b"abcdef"] * 2 and not said
""",
    "texts and sequences shorter than their dimension": """
with h5py.File(path, "w") as file:
    file.create_dataset("t", (4,), maxshape=(None,), chunks=(4,), dtype="f4").make_scale("t")
    for name, dtype in {"text": h5py.string_dtype(), "list": h5py.vlen_dtype("i4")}.items():
        made = file.create_dataset(name, (2,), dtype)
        made[:] = ["a", "b"] if name == "text" else np.array([np.arange(1), np.arange(2)], object)
        made.dims[0].attach_scale(file["t"])
data, said = opened(path)
assert data.text.values.tolist() == ["a", "b", "", ""] and not said
assert [len(one) for one in data.list.values] == [1, 2, 0, 0]
""",
    "complex numbers stored in another order": """
kind = h5py.h5t.create(h5py.h5t.COMPOUND, 24)
kind.insert(b"r", 16, h5py.h5t.IEEE_F64BE), kind.insert(b"i", 4, h5py.h5t.IEEE_F64BE)
with h5py.File(path, "w") as file:
    made = h5py.h5d.create(file.id, b"v", kind, h5py.h5s.create_simple((3,)))
    h5py.Dataset(made)[...] = np.array([1 + 2j, 3 - 4j, 5j])
    h5py.h5a.create(made, b"two", kind, h5py.h5s.create_simple((2,))).write(np.array([1j, 2]))
data, said = opened(path)
assert data.v.values.tolist() == [1 + 2j, 3 - 4j, 5j] and not said
two = data.v.attrs["two"]  # HDF5 stores its members by their offsets, so it is no complex number
assert (two["r"].tolist(), two["i"].tolist()) == ([0, 2], [1, 0])
""",
    "links in a circle": """
with h5py.File(path, "w") as file:
    file["g/v"] = np.arange(3)
    file["g/h/up"] = file["g"]
    file["nowhere"] = h5py.SoftLink("/none")
tree = xarray.open_datatree(path, engine="multitables")
assert sorted(tree.groups) == ["/", "/g", "/g/h"]
""",
    "no group": """
h5py.File(path, "w").close()
for group in ("none", "none/below"):
    try:
        opened(path, group=group)
    except OSError as error:
        assert "no group 'none'" in str(error), error
    else:
        raise AssertionError
""",
    "a wrong option": """
h5py.File(path, "w").close()
for option in ({"group": 1}, {"phony_dims": "other"}):
    try:
        opened(path, **option)
    except ValueError as error:
        assert next(iter(option)) in str(error)
    else:
        raise AssertionError
""",
    "bytes, without h5netcdf": """
h5py.File(path, "w").close()
sys.modules["h5netcdf"] = None
try:
    opened(open(path, "rb").read())
except ImportError as error:
    assert "pip install h5netcdf" in str(error)
else:
    raise AssertionError
finally:
    del sys.modules["h5netcdf"]
""",
    "an attribute that is not UTF-8": """
with h5py.File(path, "w") as file:
    file.attrs["title"] = np.bytes_(b"\\xc3")
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    data = xarray.open_dataset(path, engine="multitables")
assert data.title == b"\\xc3" and "'title' of '/'" in str(said[0].message)
""",
    "how far a file may reach": """
import multitables
other = pathlib.Path(folder, "elsewhere")
other.mkdir()
with h5py.File(other / "far.h5", "w") as file:
    file["x"] = np.arange(3)
inner = pathlib.Path(folder, "inner")
inner.mkdir()
with h5py.File(inner / "a.nc", "w") as file:
    file["x"] = h5py.ExternalLink(str(other / "far.h5"), "/x")
path = inner / "a.nc"
for read in (xarray.open_dataset, xarray.open_datatree):
    assert read(path, engine="multitables")["x"].values.tolist() == [0, 1, 2]
    try:
        read(path, engine="multitables", links="folder")
    except multitables.LinkRefusedError:
        pass
    else:
        raise AssertionError("it is not refused")
try:
    xarray.open_dataset("https://host/x.nc", engine="multitables", links="folder")
except multitables.OptionsError:
    pass
else:
    raise AssertionError("it is not for other engines")
""",
}


#: Run each case, and print the traceback of those that fail.
RUN = """
import json, pathlib, traceback
folder, failures = sys.argv[1], {}
for number, (name, source) in enumerate(json.loads(sys.argv[2]).items()):
    try:
        exec(source, {**globals(), "path": f"{folder}/{number}.nc"})
    except Exception:
        failures[name] = traceback.format_exc()
print(json.dumps(failures))
"""


@pytest.fixture(scope="module")
def failures(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("files")
    for how, (reference, _) in lost_scales.LOST.items():
        lost_scales.write(folder / f"{how}.h5", reference)
    lost_scales.write(folder / "texts.h5", lost_scales.TEXTS)
    done = run_script(OPENED + RUN, folder, json.dumps(NOT_OPENED), flags=(), seconds=120)
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("what", NOT_OPENED)
def test_what_is_left_out_or_better(failures: dict[str, str], what: str) -> None:
    assert what not in failures, failures[what]


def test_no_other_library_takes_part(path: Path) -> None:
    done = run_script(
        "import sys, xarray\n"
        "sys.modules['hidefix'] = None  # another engine, which imports netCDF4\n"
        "xarray.open_dataset(sys.argv[1], engine='multitables').load()\n"
        "xarray.open_datatree(sys.argv[1], engine='multitables').load()\n"
        "print({'h5py', 'h5netcdf', 'netCDF4', 'tables'} & set(sys.modules))\n",
        path,
        flags=(),
    )
    assert done.stdout == "set()\n", done.stderr


def test_each_variable_is_looked_at_a_few_times(tmp_path: Path) -> None:
    """As many times for each of many variables of an unlimited dimension as for few."""
    done = run_script(
        OPENED + "from _multitables.index.datasets.source import Source\n"
        "stored, counts = Source.stored, []\n"
        "def counted(*arguments):\n"
        "    counts[-1] += 1\n"
        "    return stored(*arguments)\n"
        "Source.stored = counted\n"
        "for count in (10, 100):\n"
        "    path = f'{sys.argv[1]}/{count}.nc'\n"
        "    with h5py.File(path, 'w') as file:\n"
        "        file.create_dataset('t', (2,), 'f4', maxshape=(None,), chunks=(2,))\n"
        "        file['t'].make_scale('t')\n"
        "        for number in range(count):\n"
        "            file[f'v{number}'] = np.arange(2)\n"
        "            file[f'v{number}'].dims[0].attach_scale(file['t'])\n"
        "    counts.append(0)\n"
        "    xarray.open_dataset(path, engine='multitables')\n"
        "print(*counts)\n",
        tmp_path,
        flags=(),
    )
    few, many = map(int, done.stdout.split())
    assert 0 < many <= 10 * few, done.stderr


def _orthogonal(array: Any, key: Any) -> Any:
    """Return a selection of which each part goes along its axis."""
    for axis, one in reversed(list(enumerate(key))):
        array = array[(slice(None),) * axis + (one,)]
    return array


AXES = st.tuples(st.integers(1, 9), st.integers(0, 9))


@given(data=st.data(), axes=st.lists(AXES, min_size=1, max_size=3))
def test_what_is_inside_of_a_shorter_variable(data: Any, axes: list[tuple[int, int]]) -> None:
    shape, extents = tuple(one for one, _ in axes), tuple(min(axis) for axis in axes)
    listed = data.draw(st.integers(0, len(axes)))  # at most one list, as xarray gives them
    key: list[Any] = []
    for axis, length in enumerate(shape):
        places = st.integers(-length, length - 1)
        if axis == listed:
            key.append(np.array(data.draw(st.lists(places, min_size=1, max_size=6))))
        else:
            key.append(data.draw(st.one_of(places, st.slices(length))))
    stored = np.arange(math.prod(extents)).reshape(extents)
    padded = np.full(shape, -1)
    padded[tuple(map(slice, extents))] = stored
    expected = _orthogonal(padded, key)
    part, target, result = inside(tuple(key), shape, extents)
    made = np.full(result, -1)
    if part is not None:
        made[target] = _orthogonal(stored, part)
    assert np.array_equal(made, expected)
