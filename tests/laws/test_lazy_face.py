"""What a program loads that opens a file: `OPENS`, a list that can only shrink.

1. Streams, batches, collections, stores and adapters are imported when they are first named.
2. Nothing is timed: what is imported is what an import costs.
"""

from __future__ import annotations

import builtins
import pickle
import sys
from pathlib import Path

import h5py
import numpy as np
import pytest
from processes import run_script

import multitables
from _multitables import later
from _multitables.adapters import installed

#: What `import multitables` loads of ours, by folder.
OPENS = {
    "": "_core adapters errors filter_names later machine options sizes",
    "elements": "empty values",
    "index": """chunk_index datasets datasets.described datasets.source files files.name
        files.open_options files.reach files.stored_at files.stored_files kerchunk kerchunk.layout
        opened opened.open_files saved saved.places types types.as_h5py types.element_type
        types.hdf5_errors types.hdf5_metadata types.kind types.numpy_type types.references""",
    "parent": """open open.closed open.conversion open.dataset open.file open.filters open.group
        open.handle open.kept open.mapping open.objects open.read_only open.reading open.results
        open.stored_type open.visits readers readers.siblings""",
    "plan": "dataset_table sampled",
    "remote": "names options",
    "select": "h5py_grammar",
    "wire": "plan_bytes",
}
#: And what the first read of a dataset adds.
READS = {"_multitables.parent.readers.local_rows"}
#: What may be loaded of the standard library that NumPy does not load.
STANDARD = {"__future__", "_json", "copy", "dataclasses", "errno", "fcntl", "json"}


def test_opening_loads_what_it_needs(tmp_path: Path) -> None:
    path = tmp_path / "some.h5"
    with h5py.File(path, "w") as file:
        file["plain"] = np.arange(100)
        file.create_dataset("gzip", data=np.arange(100), chunks=(10,), compression="gzip")
    done = run_script(
        "import os, sys, numpy\n"
        f"os.environ['XDG_CACHE_HOME'] = {str(tmp_path)!r}\n"  # no index is saved there
        "before = set(sys.modules)\n"
        "import multitables\n"
        "imported = set(sys.modules)\n"
        f"with multitables.open({str(path)!r}) as file:\n"
        "    assert file['plain'][...].sum() == file['gzip'][...].sum() == 4950\n"
        "print(*sorted(imported - before))\n"
        "print(*sorted(set(sys.modules) - imported))"
    )
    imported, read = (set(line.split()) for line in done.stdout.splitlines())
    ours = {name for name in imported if name.startswith("_multitables.")}
    expected = {f"_multitables.{folder}" for folder in OPENS if folder}
    for folder, names in OPENS.items():
        expected |= {".".join(filter(None, ("_multitables", folder, n))) for n in names.split()}
    assert ours == expected, ours ^ expected
    others = {name.partition(".")[0] for name in imported - ours}
    assert others - {"_multitables", "multitables", "numpy"} <= STANDARD
    assert read == READS


def test_a_queue_loads_no_other_kind_of_stream(tmp_path: Path) -> None:
    path = tmp_path / "some.h5"
    with h5py.File(path, "w") as file:
        file["plain"] = np.arange(100)
    done = run_script(
        "import sys\n"
        "import multitables\n"
        f"with multitables.Streamer({str(path)!r}).get_queue('plain', remainder=True) as queue:\n"
        "    with queue.get() as block:\n"
        "        assert block.sum() == 4950\n"
        "print(*sorted(sys.modules))"
    )
    loaded = {name.split(".")[2] for name in done.stdout.split() if ".parent." in name}
    assert "stream" in loaded, done.stderr
    assert not loaded & {"batches", "collection", "columns", "node", "ragged", "random"}


def test_every_public_name_is_there_when_it_is_named() -> None:
    assert set(later.LATER) < set(multitables.__all__) <= set(dir(multitables))
    for name, file in later.LATER.items():
        value = getattr(multitables, name)
        assert value is getattr(sys.modules[f"_multitables.{file}"], name)
        assert pickle.loads(pickle.dumps(value)) is value


@pytest.mark.parametrize("name", [*multitables.__all__, "open", *installed()])
def test_a_public_name_is_of_the_face(name: str) -> None:
    assert getattr(multitables, name).__module__ == "multitables"


def test_all_names_leave_those_of_python_as_they_are() -> None:
    assert not set(multitables.__all__) & set(dir(builtins))


def test_help_and_members_show_what_is_imported_later() -> None:
    done = run_script(
        "import inspect, pydoc, sys, unittest.mock\n"
        "libraries = {'dask', 'datasets', 'dlio_benchmark', 'grain', 'jax', 'lightning'}\n"
        "libraries |= {'polars', 'pytorch_lightning', 'ray', 'tensorflow', 'torch'}\n"
        "sys.modules.update(dict.fromkeys(libraries))  # as if none were installed\n"
        "import multitables\n"
        "assert 'Streamer' in dict(inspect.getmembers(multitables))\n"
        "assert unittest.mock.create_autospec(multitables).Streamer\n"
        "assert hasattr(multitables, 'TorchDataset') and not hasattr(multitables, 'Torch')\n"
        "print(pydoc.plain(pydoc.render_doc(multitables)))"
    )
    assert "class Streamer" in done.stdout, done.stderr
    assert "measure_limit(" in done.stdout
