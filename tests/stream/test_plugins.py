"""Filters that only plugins have: readers load the plugins, and no library reads anything."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import hdf5plugin
import numpy as np
import numpy.typing as npt
import pytest

import multitables
from _multitables.index.types import plugins
from multitables import Reader, Streamer

Array = npt.NDArray[Any]

FLOATS: dict[str, Any] = {
    "zfp": hdf5plugin.Zfp(accuracy=0.01),
    "zfp reversible": hdf5plugin.Zfp(reversible=True),
    "sz": hdf5plugin.SZ(absolute=0.01),
    "sz3": hdf5plugin.SZ3(absolute=0.01),
    "sperr": hdf5plugin.Sperr(peak_signal_to_noise_ratio=60),
}
CASES = [(name, False) for name in FLOATS] + [("zfp", True), ("sz", True), ("sperr", True)]


def write(h5: Path, options: dict[str, Any], shape: tuple[int, ...] = (40, 30)) -> Array:
    """Return what h5py reads of it; the last chunks of each axis are cut, and one is stored raw."""
    data = np.random.default_rng(0).normal(size=shape).cumsum(0).astype("<f4")
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=data, chunks=(16, 16), **options)
        n_filters = made.id.get_create_plist().get_nfilters()
        raw = np.ascontiguousarray(data[16:32, :16]).tobytes()
        made.id.write_direct_chunk((16, 0), raw, filter_mask=(1 << n_filters) - 1)
    with h5py.File(h5) as file:
        found: Array = file["x"][:]
        return found


def streamed(h5: Path) -> Array:
    blocks = []
    with Streamer(h5).get_queue("/x", n_procs=2, block_size=8) as queue:
        for guard in queue:
            with guard as block:
                blocks.append(block.copy())
        assert queue.statistics()["library"] == {}
        assert sum(one["library_tasks"] for one in queue.statistics()["readers"]) == 0
    return np.concatenate(blocks)


def batched(h5: Path) -> Array:
    batches = Streamer(h5).get_batches("/x", 8, n_procs=1, shuffle="full", seed=1)
    return np.concatenate([batch.copy() for batch in batches])


def requested(h5: Path) -> Array:
    with Reader(h5, n_procs=1) as reader:
        rows = reader.request(reader.get_dataset("/x")[3:37, 5:]).get()
        assert reader.statistics()["library_requests"] == 0
    found: Array = np.array(rows)
    return found


@pytest.mark.parametrize(("name", "checksum"), CASES)
def test_readers_decode_what_h5py_does(h5: Path, name: str, checksum: bool) -> None:
    expected = write(h5, {**FLOATS[name], "fletcher32": checksum})
    np.testing.assert_array_equal(streamed(h5), expected)
    np.testing.assert_array_equal(requested(h5), expected[3:37, 5:])
    if not checksum:
        found = batched(h5)
        np.testing.assert_array_equal(np.sort(found, 0), np.sort(expected, 0))


def test_shuffled_bytes(h5: Path) -> None:
    expected = write(h5, {**FLOATS["zfp reversible"], "shuffle": True, "fletcher32": True})
    np.testing.assert_array_equal(streamed(h5), expected)


def test_images(h5: Path) -> None:
    data = (np.arange(40 * 30, dtype="<u2") % 977).reshape(40, 30)
    with h5py.File(h5, "w") as file:
        file.create_dataset("x", data=data, chunks=(16, 16), **hdf5plugin.FciDecomp())
    np.testing.assert_array_equal(streamed(h5), data)


@pytest.mark.parametrize("ask", [streamed, requested])
@pytest.mark.parametrize("name", ["sz", "sz3", "sperr"])
def test_damage_is_an_error(h5: Path, name: str, ask: Callable[[Path], Any]) -> None:
    """Of a plugin that crashes, a dead reader is the error. To zfp, no bytes are wrong."""
    write(h5, FLOATS[name])
    with h5py.File(h5, "a") as file:
        file["x"].id.write_direct_chunk((16, 16), b"no such format" * 3)
    with pytest.raises(multitables.SubprocessException):
        ask(h5)


def test_damage_that_is_skipped(h5: Path) -> None:
    """The library fails as well: the chunk is damaged, and nothing else."""
    data = (np.arange(40 * 16, dtype="<u2") % 977).reshape(40, 16)
    with h5py.File(h5, "w") as file:
        made = file.create_dataset("x", data=data, chunks=(16, 16), **hdf5plugin.FciDecomp())
        made.id.write_direct_chunk((16, 0), b"no such format" * 3)
    with pytest.raises(multitables.CorruptChunkError, match=r"chunk \(16, 0\)"):
        streamed(h5)
    batches = Streamer(h5).get_batches("/x", 8, n_procs=1, skip_damaged=True)
    with pytest.warns(multitables.CorruptChunkWarning):
        found = np.concatenate([batch.copy() for batch in batches])
    np.testing.assert_array_equal(found, np.delete(data, np.s_[16:32], 0))


@pytest.mark.filterwarnings("ignore::multitables.SlowFilterWarning")
def test_chunks_of_a_big_endian_machine(h5: Path) -> None:
    """Zfp's plugin turns the bytes of its header and of the numbers around, with HDF5's help."""
    data = np.arange(64 * 4, dtype="<f4").reshape(64, 4)
    with h5py.File(h5, "w") as file:
        made = file.create_dataset(
            "x", data=data, chunks=(16, 4), **hdf5plugin.Zfp(reversible=True)
        )
        values = np.array(made.id.get_create_plist().get_filter(0)[2], "<u4")
    stored = h5.read_bytes()
    turned = np.concatenate([values[:1], values[1:].byteswap()])
    h5.write_bytes(stored.replace(values.tobytes(), turned.tobytes()))
    with h5py.File(h5) as file:
        expected = file["x"][...].view("<u4")
    np.testing.assert_array_equal(expected.byteswap().view("<f4"), data)
    found = np.array([row.copy() for row in Streamer(h5).get_generator("/x", 1)])
    batches = Streamer(h5).get_batches("/x", 64, n_procs=1)
    with multitables.open(h5) as file, Reader(h5, n_procs=1) as reader:
        asked = reader.request(reader.get_dataset("/x")[...]).get()
        for rows in (found, next(iter(batches)).copy(), file["x"][...], np.array(asked)):
            np.testing.assert_array_equal(rows.view("<u4"), expected)


def test_an_untrusted_file_loads_none(h5: Path) -> None:
    write(h5, FLOATS["zfp"])
    with pytest.raises(multitables.UnsupportedDatasetError, match=r"filter 32013 \(.*ZFP"):
        Streamer(h5, trusted=False).get_queue("/x")


def test_where_plugins_are_searched(
    h5: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """hdf5plugin cannot be imported; its plugin of one filter is in a folder that is named."""
    expected = write(h5, FLOATS["sperr"])
    folder = tmp_path / "named"
    folder.mkdir()
    (folder / "hdf5plugin.py").write_text("raise ImportError")
    (folder / "libh5sperr-odd.so").write_text("no library")
    (folder / "libother.so").symlink_to(Path(hdf5plugin.PLUGIN_PATH, "libh5sperr.so"))
    monkeypatch.setattr(sys, "path", [str(folder), *sys.path])
    monkeypatch.setenv("HDF5_PLUGIN_PATH", f"/nothing:{folder}")
    assert plugins.plugin_of(32028) == str(folder / "libother.so")
    assert 32028 in plugins.READERS_FILTERS
    assert 32013 not in plugins.READERS_FILTERS
    np.testing.assert_array_equal(streamed(h5), expected)
    monkeypatch.setenv("HDF5_PLUGIN_PRELOAD", "::")
    assert plugins.plugin_of(32028) is None
