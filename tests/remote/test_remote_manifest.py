"""A manifest of objects of a store, and of files of a web server.

Law
---
1. The oracle is h5py on the files that are served.
2. Objects may have one ETag, as servers make these of sizes and times.
3. Opening sends no request for an object. The first read of one checks that it is the one that
   was indexed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import several_files
from plain_server import plain_server
from remote_files import Remote
from several_files import Part

import multitables
from multitables import FileChangedError, Streamer


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    return several_files.write(tmp_path, [Part(8), Part(5), Part(11)])


def same_rows(where: str, names: list[str], **options: Any) -> None:
    """Streams, a handle and a collection give the rows of the files."""
    x, y = several_files.read(names), several_files.read(names, "/y")
    streamer = Streamer(where, storage_options=options)
    got = [row.copy() for row in streamer.get_generator("/x", n_procs=1)]
    np.testing.assert_array_equal(got, x)
    with multitables.open(where, storage_options=options) as file:
        np.testing.assert_array_equal(file["y"][...], y)
    with streamer.get_collection("/*", by="file", n_procs=1, order="file") as items:
        parts = [item.copy() for item in items]
    np.testing.assert_array_equal(np.concatenate([part["x"] for part in parts]), x)
    np.testing.assert_array_equal(np.concatenate([part["y"] for part in parts]), y)


def test_objects_of_a_store(names: list[str], tmp_path: Path, remote: Remote) -> None:
    objects = [remote.put(Path(name), f"runs/{at}.h5") for at, name in enumerate(names)]
    options = remote.options()
    where = multitables.index_files(
        objects, to=tmp_path / "all.mtidx", progress=False, storage_options=options
    )
    remote.requests()
    with multitables.open(where, storage_options=options) as file:
        assert file["x"].shape == several_files.read(names).shape
    Streamer(where, storage_options=options).get_collection("/*", by="file")
    assert not remote.requests()
    same_rows(where, names, **options)


def test_files_of_a_web_server(names: list[str], tmp_path: Path) -> None:
    with plain_server() as server:
        server.objects = {f"/{at}.h5": Path(name).read_bytes() for at, name in enumerate(names)}
        objects = [server.endpoint + path for path in server.objects]
        where = str(tmp_path / "all.mtidx")
        options: dict[str, Any] = {"max_retries": 0}

        def index() -> None:
            multitables.index_files(objects, to=where, progress=False, storage_options=options)

        index()
        same_rows(where, names, **options)
        whole = Path(where).read_bytes()
        server.sent.clear()
        index()
        assert {sent.headers["range"] for sent in server.sent} == {"bytes=0-0"}  # states only
        assert Path(where).read_bytes() == whole
        several_files.write(tmp_path, [Part(8), Part(6), Part(11)])
        server.objects = {f"/{at}.h5": Path(name).read_bytes() for at, name in enumerate(names)}
        server.etag = '"2"'
        with pytest.raises(FileChangedError, match=r"/[012]\.h5"):
            same_rows(where, names, **options)
        index()
        same_rows(where, names, **options)
