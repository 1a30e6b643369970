"""The cache on local disk: what it saves, whose it is, and what it never gives.

Law
---
1. The proxy's log tells whether bytes came from the cache.
2. Damage, another version, or a full disk cost time, never data.
"""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from oracle import same, streamed
from processes import run_script
from remote_files import Remote, noise

import multitables
from multitables import OptionsError, Reader, Streamer

DATA = noise(400, 1000)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cached") / "data.h5"
    with h5py.File(path, "w", libver="latest") as file:
        file.create_dataset("x", data=DATA, chunks=(10, 1000), compression="gzip")
    return path


def read(name: Any, opened: dict[str, Any], wanted: np.ndarray = DATA) -> None:
    rows, _ = streamed(name, "x", open_options=opened)
    same(rows, wanted)


def fetched(remote: Remote) -> int:
    """Bytes of the object that came since the last call, but for the first request's."""
    return sum(one.body_bytes for one in remote.requests(".h5")[1:])


def used(folder: Path) -> int:
    return sum(file.stat().st_blocks * 512 for file in folder.iterdir())


def test_epochs(path: Path, remote: Remote, tmp_path: Path) -> None:
    name = remote.put(path)
    opened = {"storage_options": remote.options(cache_folder=str(tmp_path / "kept"))}
    read(name, opened)
    assert fetched(remote) > DATA.nbytes // 2
    read(name, opened)
    with multitables.open(name, **opened) as file, Reader(name, n_procs=1, **opened) as reader:
        same(file["x"][5:300], DATA[5:300])
        same(reader.request(reader.get_dataset("x")[[399, 7]]).get(), DATA[[399, 7]])
    with Streamer(name, **opened).get_batches("x", 50, shuffle="full", epochs=2) as batches:
        assert sum(len(batch) for batch in batches) == 800
    assert [one.range for one in remote.requests(".h5") if one.body_bytes > 1 << 17] == []
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700


def test_no_cache_unless_it_is_asked_for(path: Path, remote: Remote, tmp_path: Path) -> None:
    name, opened = remote.put(path), {"storage_options": remote.options()}
    for _ in range(2):
        read(name, opened)
        assert fetched(remote) > DATA.nbytes // 2
    assert not (tmp_path / "cache").exists()


def test_processes_share_it(path: Path, remote: Remote, tmp_path: Path) -> None:
    name = remote.put(path)
    options = remote.options(cache_folder=str(tmp_path / "kept"))
    script = (
        "import sys, json, multitables\n"
        "name, options = sys.argv[1], json.loads(sys.argv[2])\n"
        "with multitables.open(name, storage_options=options) as file:\n"
        "    print(int(file['x'][:].sum(dtype='i8')))\n"
    )
    with ThreadPoolExecutor(2) as pool:
        runs = list(pool.map(lambda _: run_script(script, name, json.dumps(options)), range(2)))
    for run in runs:
        assert (run.returncode, run.stderr) == (0, "")
        assert int(run.stdout) == DATA.sum(dtype="i8")
    remote.requests()
    read(name, {"storage_options": options})
    assert fetched(remote) == 0


def test_the_bound(remote: Remote, tmp_path: Path) -> None:
    data = noise(500, 2000)
    with h5py.File(tmp_path / "large.h5", "w") as file:
        file.create_dataset("x", data=data, chunks=(25, 2000))
    folder, limit = tmp_path / "kept", 1 << 21
    opened = {"storage_options": remote.options(cache_folder=str(folder), cache_bytes=limit)}
    for number in range(3):
        name: Any = remote.put(tmp_path / "large.h5", f"f{number}.h5")
        for _ in range(2):
            read(name, opened, data)
            assert used(folder) <= limit + (1 << 16)
    assert used(folder) > limit // 2


def test_another_version(path: Path, remote: Remote, tmp_path: Path) -> None:
    name = remote.put(path)
    opened = {"storage_options": remote.options(cache_folder=str(tmp_path / "kept"))}
    read(name, opened)
    with h5py.File(tmp_path / "other.h5", "w", libver="latest") as file:
        file.create_dataset("x", data=DATA ^ 1, chunks=(10, 1000), compression="gzip")
    remote.put(tmp_path / "other.h5")
    for _ in range(2):
        read(name, opened, DATA ^ 1)


@pytest.mark.parametrize("damage", ["flipped", "cut", "empty", "zeros"])
def test_damage(damage: str, path: Path, remote: Remote, tmp_path: Path) -> None:
    name = remote.put(path)
    opened = {"storage_options": remote.options(cache_folder=str(tmp_path / "kept"))}
    read(name, opened)
    files = [file for file in (tmp_path / "kept").iterdir() if file.suffix == ".pages"]
    assert files
    rng = np.random.default_rng(4)
    for file in files:
        content = bytearray(file.read_bytes())
        if damage == "flipped":
            for at in rng.integers(0, len(content), 200):
                content[at] ^= 0x55
        elif damage == "zeros":
            content[len(content) // 3 :] = bytes(len(content) - len(content) // 3)
        else:
            content = content[: len(content) // 2 if damage == "cut" else 0]
        file.write_bytes(content)
    remote.requests()
    read(name, opened)
    assert fetched(remote) > 0
    read(name, opened)


def test_folders_that_cannot_be(path: Path, remote: Remote, tmp_path: Path) -> None:
    name = remote.put(path)
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    (tmp_path / "own").mkdir(0o700)
    (tmp_path / "link").symlink_to(tmp_path / "own")
    refused = [tmp_path / "file", tmp_path / "file" / "deeper", Path("/proc/no")]
    refused += [tmp_path / "open", tmp_path / "link"]
    if os.geteuid() == 0:  # only root can give a folder away
        (tmp_path / "foreign").mkdir(0o700)
        os.chown(tmp_path / "foreign", 12345, 12345)
        refused.append(tmp_path / "foreign")
    for folder in refused:
        options = remote.options(cache_folder=str(folder))
        for enter in (multitables.open, Reader, multitables.read):
            given = (name, "x") if enter is multitables.read else (name,)
            with pytest.raises(OptionsError, match="cannot be used") as caught:
                enter(*given, storage_options=options)  # type: ignore[operator]
            assert caught.value.values["option"] == "cache_folder"


def test_a_home(path: Path, remote: Remote, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    read(remote.put(path), {"storage_options": remote.options(cache_folder="~/kept")})
    assert any(name.endswith(".pages") for name in os.listdir(tmp_path / "kept"))
