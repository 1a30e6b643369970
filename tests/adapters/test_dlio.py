"""`DlioReader`, by the DLIO benchmark itself: its program, and its reader beside its own.

1. DLIO keeps one configuration for each process, starts MPI and keeps threads: each test is a
   script.
"""

from __future__ import annotations

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
from processes import run_script

pytest.importorskip("dlio_benchmark")

#: Hydra's words for a workload of four small files.
WORDS = """
import os, sys
os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
folder = sys.argv[1]
settings = {
    "dataset.format": "hdf5", "dataset.num_files_train": 4, "dataset.num_files_eval": 0,
    "dataset.num_subfolders_train": 0, "dataset.num_subfolders_eval": 0,
    "dataset.num_samples_per_file": 4, "dataset.data_folder": folder + "/data",
    "workflow.evaluation": False, "train.epochs": 2, "train.computation_time": 0.001,
    "reader.data_loader": "pytorch", "reader.read_threads": 2, "reader.batch_size": 4,
    "reader.reader_classname": "_multitables.adapters.dlio_reader.DlioReader",
}
"""
PROGRAM = """
sys.argv = ["dlio_benchmark", "workload=default", f"hydra.run.dir={folder}/out"]
sys.argv += [f"++workload.{name}={value}" for name, value in settings.items()]
from dlio_benchmark.main import main
main()
os._exit(0)  # DLIO's profiler may hang in threads of MPI
"""
BESIDE = """
import numpy as np
from dlio_benchmark.utils.utility import DLIOMPI
DLIOMPI.get_instance().initialize()
from dlio_benchmark.common.enumerations import DatasetType, FormatType
from dlio_benchmark.reader.reader_factory import ReaderFactory
from dlio_benchmark.utils.config import ConfigArguments, LoadConfig
args = ConfigArguments.get_instance()
nested = {}
for name, value in settings.items():
    first, _, last = name.partition(".")
    nested.setdefault(first, {})[last] = value
LoadConfig(args, nested)
files = sorted(os.path.join(folder, "data", "train", name)
               for name in os.listdir(os.path.join(folder, "data", "train")))
args.derive_configurations(files, [])
args.reconfigure(0)
mine = ReaderFactory.get_reader(FormatType.HDF5, DatasetType.TRAIN, 0, 0)
args.reader_class = None
theirs = ReaderFactory.get_reader(FormatType.HDF5, DatasetType.TRAIN, 0, 0)
print(type(mine).__name__, type(theirs).__name__)
for name in files:
    one, two = mine.open(name), theirs.open(name)
    for row in range(4):
        assert np.array_equal(one["records"][row], two["records"][row])
        mine.open_file_map[name] = one
        mine.get_sample(name, row)
    mine.close(name)
    two.close()
for at in range(16):
    assert mine.read_index(at, 1) is args.resized_image
import multitables
try:
    mine.open(folder + "/none.h5")
except multitables.MissingFileError as error:
    print(type(error).__name__)
sys.stdout.flush()
os._exit(0)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Files as DLIO's generator writes them, which takes a minute with its default."""
    rng = np.random.default_rng(5)
    (tmp_path / "data" / "train").mkdir(parents=True)
    (tmp_path / "data" / "valid").mkdir()
    for at in range(4):
        name = tmp_path / "data" / "train" / f"img_{at}_of_4.hdf5"
        with h5py.File(name, "w") as file:
            records = rng.integers(0, 255, (4, 64, 64), "u1")
            file.create_dataset("records", data=records, chunks=(1, 64, 64), compression="gzip")
            file["labels"] = [0] * 4
    return tmp_path


def test_the_benchmark_reads_through_it(folder: Path) -> None:
    done = run_script(WORDS + PROGRAM, folder, seconds=100, flags=("-W", "ignore"))
    log = (folder / "out" / "dlio.log").read_text()
    assert "custom data loader class DlioReader" in log, done.stderr
    epochs = json.loads((folder / "out" / "per_epoch_stats.json").read_text())
    assert [epochs[epoch]["block1"]["duration"] != "0.00" for epoch in ("1", "2")] == [True, True]
    assert log.count("Ending block 1 - 4 steps completed") == 2


def test_samples_are_those_of_its_own_reader(folder: Path) -> None:
    done = run_script(WORDS + BESIDE, folder, seconds=100, flags=("-W", "ignore"))
    assert done.stdout.splitlines()[-2:] == ["DlioReader HDF5Reader", "MissingFileError"], (
        done.stdout + done.stderr
    )
