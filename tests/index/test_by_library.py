"""What the core does not know of a file: libhdf5 is asked, in a process that may crash.

Law
---
1. The files are real: a group whose links lie in a heap with filters, which the core does not read.
"""

from __future__ import annotations

import pickle
import signal
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from elements import smooth
from oracle import same, streamed
from structures import packed_links

import multitables
from _multitables import _core
from _multitables.index.types import by_library


@pytest.fixture
def filtered(h5: Path) -> Path:
    """A group of 20 datasets, its links in a compressed heap."""
    with h5py.File(h5, "w", libver="latest") as file:
        group = packed_links(file)
        group.create_dataset("rows", data=np.zeros(5, [("a", "<i4"), ("b", "S3")]))
        group.create_dataset("ragged", (3,), h5py.vlen_dtype("<i4"))
    with pytest.raises(_core.Unknown):
        _core.MetadataFile(str(h5)).find(b"/group/x3")
    return h5


def test_it_is_read_by_the_library(filtered: Path) -> None:
    same(streamed(filtered, "/group/x3", n_procs=1)[0], smooth((12, 4)))
    with multitables.Reader(filtered, n_procs=1) as reader:
        rows = reader.get_dataset("/group/rows")
        assert isinstance(rows, multitables.TableDataset)
        assert reader.request(rows["b"][1:3]).get().tolist() == [b"", b""]
        assert isinstance(reader.get_dataset("/group/ragged"), multitables.VLArrayDataset)


def test_the_handle_reads_it_too(filtered: Path) -> None:
    with multitables.open(filtered) as file:
        third, other = file["group/x3"], file["group/x1"]
        np.testing.assert_array_equal(third[2:5], smooth((12, 4))[2:5])
        np.testing.assert_array_equal(other[...], smooth((12, 2)))
        assert (third.shape, third.dtype) == ((12, 4), smooth((12, 4)).dtype)
        assert third != other
        assert third == file["group"]["x3"]
        again = pickle.loads(pickle.dumps(third))
        np.testing.assert_array_equal(again[7], smooth((12, 4))[7])
        again.file.close()
        with pytest.raises(multitables.UnsupportedDatasetError, match="does not know"):
            list(file["group"])
    refused = pytest.raises(multitables.UnsupportedDatasetError, match="trusted=False")
    with multitables.open(filtered, trusted=False) as file, refused:
        file["group/x3"].shape  # noqa: B018


def test_what_is_not_there(filtered: Path) -> None:
    streamer = multitables.Streamer(filtered)
    with pytest.raises(multitables.MissingDatasetError, match="Did you mean '/group/x19'"):
        streamer.get_queue("/group/x191")
    with pytest.raises(multitables.UnsupportedDatasetError, match="is a group"):
        streamer.get_queue("/group")
    untrusting = multitables.Streamer(filtered, trusted=False)
    with pytest.raises(multitables.UnsupportedDatasetError, match=r"trusted=False.* on the way"):
        untrusting.get_queue("/group/x3")


def test_pytables_attributes(filtered: Path) -> None:
    with h5py.File(filtered, "a") as file:
        file["group/x1"].attrs["CLASS"] = np.bytes_("ARRAY")
    stored, attributes = by_library.described(str(filtered), "/group/x1", {})
    assert (stored.dims, stored.layout) == ((12, 2), "unknown")
    assert [(name, value) for name, *_, value in attributes] == [(b"CLASS", b"ARRAY")]


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import os; os.kill(os.getpid(), 11)", f"killed by signal {int(signal.SIGSEGV)}"),
        ("raise OSError('no such thing')", "OSError: no such thing"),
        ("import time; time.sleep(60)", "did not come back"),
    ],
)
def test_a_library_that_fails(
    filtered: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, source: str, told: str
) -> None:
    (tmp_path / "broken_library.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(by_library, "MODULE", "broken_library")
    if "sleep" in source:
        monkeypatch.setattr(by_library, "TIMEOUT_SECONDS", 0.5)
    with pytest.raises(multitables.FileOpenError, match=told):
        multitables.Streamer(filtered).get_queue("/group/x3")


def test_options_of_a_file_reach_the_library(filtered: Path) -> None:
    options: dict[str, Any] = {"root_uep": "/group"}
    same(streamed(filtered, "/x2", n_procs=1, open_options=options)[0], smooth((12, 3)))
