"""Files of HTTP servers: their names, their versions, and what servers may leave out.

Law
---
1. The oracle is h5py on the file that is served.
2. A query belongs to its name in every process, and headers go with each request.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import pytest
from oracle import h5py_read, same, streamed
from plain_server import Sent, plain_server
from remote_files import FORMS, write

import multitables
from _multitables.benchmark.objects.faults import Fault
from _multitables.benchmark.objects.file_server import file_server
from _multitables.benchmark.objects.proxy import Proxy
from multitables import FileChangedError, Reader, StoreError, Streamer


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("served") / "data.h5", **FORMS["new"])


def read_all(name: Any, path: Path, **options: Any) -> None:
    """Streams, a Reader and a handle give the data of the file."""
    wanted = h5py_read(path, "filters")
    opened = {"storage_options": {"max_retries": 1, "timeout_seconds": 5, **options}}
    rows, _ = streamed(name, "filters", open_options=opened)
    same(rows, wanted)
    with Reader(name, n_procs=1, **opened) as reader:
        same(
            reader.request(reader.get_dataset("filters")[[7, 3, 1999]]).get(), wanted[[7, 3, 1999]]
        )
    with multitables.open(name, **opened) as file:
        same(file["filters"][100:300], wanted[100:300])
        assert "?" not in file.filename


@pytest.mark.parametrize("key", ["data.h5", "a b.h5", "t\xe4st.h5", "x[1].h5", "100%25.h5"])
def test_a_file_server(key: str, path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "served" / "deeper"
    folder.mkdir(parents=True)
    os.link(path, folder / key.replace("%25", "%"))
    with file_server(tmp_path / "served") as endpoint:
        read_all(f"{endpoint}/deeper/{key}", path)


@pytest.mark.parametrize("etag", ['"1"', 'W/"1"', ""])
def test_what_tells_the_version(etag: str, path: Path) -> None:
    with plain_server(objects={"/data.h5": path.read_bytes()}, etag=etag) as server:
        read_all(f"{server.endpoint}/data.h5", path)
        conditions = {sent.headers.get("if-match", "") for sent in server.sent}
        assert conditions == ({"", etag} if etag == '"1"' else {""})


@pytest.mark.parametrize("etag", ['W/"1"', ""])
def test_another_version_where_none_can_be_asked_for(etag: str, path: Path) -> None:
    """A weak ETag is compared here. Without any, the size and the time are."""
    data = path.read_bytes()
    with plain_server(objects={"/data.h5": data}, etag=etag) as server:
        name = f"{server.endpoint}/data.h5"
        opened: Any = {"storage_options": {"max_retries": 0}}
        with Reader(name, n_procs=1, **opened) as reader:
            handle = reader.get_dataset("filters")
            server.etag = etag and 'W/"2"'
            server.objects["/data.h5"] = data + b"more"
            with pytest.raises(FileChangedError, match="changed after it was indexed"):
                reader.request(handle[:10]).get()


def test_a_query_and_headers(path: Path) -> None:
    def status(sent: Sent) -> int:
        signed = sent.path.endswith("?token=s3cr%2Fet&x=1")
        return 0 if signed and sent.headers.get("authorization") == "Bearer key" else 403

    with plain_server(objects={"/a/data.h5": path.read_bytes()}, status=status) as server:
        headers = {"Authorization": "Bearer key"}
        query = "?token=s3cr%2Fet&x=1"
        read_all(
            f"{server.endpoint}/a/data.h5{query}", path, headers=headers, looks_for_index=False
        )
        with pytest.raises(StoreError, match="refuses") as caught:
            Streamer(f"{server.endpoint}/a/data.h5{query}").get_queue("filters")
        assert caught.value.filename == f"{server.endpoint}/a/data.h5"


def test_two_names_with_queries_of_their_own(path: Path) -> None:
    def status(sent: Sent) -> int:
        name, _, query = sent.path.partition("?")
        return 0 if query == {"/a.h5": "k=1", "/b.h5": "k=2"}.get(name) else 403

    data = path.read_bytes()
    with plain_server(objects={"/a.h5": data, "/b.h5": data}, status=status) as server:
        names: Any = [f"{server.endpoint}/a.h5?k=1", f"{server.endpoint}/b.h5?k=2"]
        opened = {"storage_options": {"max_retries": 0, "looks_for_index": False}}
        rows, _ = streamed(names, "filters", open_options=opened)
        wanted = h5py_read(path, "filters")
        assert rows is not None
        same(rows[: len(wanted)], wanted)
        same(rows[len(wanted) :], wanted)


def test_an_index_beside_a_file(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    os.link(path, folder / "data.h5")
    with file_server(folder) as endpoint, Proxy(endpoint) as proxy:
        name = f"{proxy.endpoint}/data.h5"
        written = multitables.index_file(name, progress=False)
        assert Path(written).is_relative_to(os.environ["XDG_CACHE_HOME"])  # none is written there
        proxy.take_log()
        with multitables.open(name) as file, h5py.File(path) as expected:
            assert sorted(file) == sorted(expected)
        # A byte for its state: what a URL is signed for is GET.
        assert [(one.method, one.range) for one in proxy.take_log()] == [("GET", "bytes=0-0")]
        os.replace(written, folder / "data.h5.mtidx")
        with multitables.open(name) as file:
            same(file["filters"][5:9], h5py_read(path, "filters")[5:9])
        paths = [one.path for one in proxy.take_log()]
        assert sorted(paths[:2]) == ["/data.h5", "/data.h5.mtidx"]


def test_a_server_without_ranges(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    os.link(path, folder / "data.h5")
    fault = Fault("whole")
    with (
        file_server(folder) as endpoint,
        Proxy(endpoint, faults=(fault,)) as proxy,
        pytest.raises(StoreError, match="sends no ranges of objects"),
    ):
        multitables.open(f"{proxy.endpoint}/data.h5")
