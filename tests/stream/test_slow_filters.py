"""A stream that a library reads because of a filter warns of it, once, and only then."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import pytest
import tables

import multitables
from multitables import Reader, SlowFilterWarning, Streamer


def write(h5: Path) -> None:
    data = np.linspace(0, 1, 400).reshape(100, 4)
    with tables.open_file(str(h5), "w") as file:
        file.create_carray("/", "time", tables.Time64Atom(), (100,))
    with h5py.File(h5, "a") as file:
        zfp = hdf5plugin.Zfp(reversible=True)
        file.create_dataset("slow", data=data, chunks=(10, 4), **zfp)
        file.create_dataset("quick", data=data, chunks=(10, 4), **hdf5plugin.Zstd())
        file.create_dataset("none", (0, 4), "f8", maxshape=(None, 4), **zfp)


def stream(h5: Path, path: Any, **options: Any) -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        with Streamer(h5).get_queue(path, n_procs=1, **options) as queue:
            for guard in queue:
                with guard as block:
                    assert len(block)
    return told


@pytest.mark.usefixtures("without_plugins")
def test_the_filter_is_named_at_the_users_line(h5: Path) -> None:
    write(h5)
    (told,) = stream(h5, {"a": "/slow", "b": "/quick"})
    assert told.filename == __file__
    assert isinstance(told.message, SlowFilterWarning)
    assert told.message.values["filter_id"] == 32013
    assert "filter 32013 (zfp) of '/slow'" in str(told.message)
    assert len(stream(h5, ["/slow", "/slow"])) == 2


@pytest.mark.usefixtures("without_plugins")
def test_batches_warn_once(h5: Path) -> None:
    write(h5)
    batches = Streamer(h5).get_batches("/slow", 20, epochs=3, n_procs=1, shuffle="chunks")
    with pytest.warns(SlowFilterWarning) as told:
        assert sum(map(len, batches)) == 300
    assert len(told) == 1


def test_nothing_else_warns(h5: Path) -> None:
    write(h5)
    assert stream(h5, "/slow") == []  # its plugin is loaded
    assert stream(h5, "/quick") == stream(h5, "/time") == []
    with Streamer(h5).get_queue("/none", n_procs=1) as queue:
        assert list(queue) == []
    with Reader(h5, n_procs=1) as reader, multitables.open(h5) as file:
        reader.request(reader.get_dataset("/slow")[3]).get()
        assert file["slow"][3].shape == (4,)
