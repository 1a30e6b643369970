"""References to objects of a store, and references that are objects.

Law
---
1. h5py is the oracle, on the files that were put into the store.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import many_targets
import numpy as np
import pytest
from kerchunk_files import datasets, fill
from many_targets import NAMES, combined, expected, fill_files
from object_stores import s3_store

import multitables
from _multitables.benchmark.objects.file_server import file_server
from _multitables.benchmark.objects.proxy import Proxy
from _multitables.benchmark.objects.server import S3Server
from _multitables.remote import client

WRITERS: dict[str, Any] = {".json": many_targets.write_json, ".parq": many_targets.write_parquet}


def storage(server: S3Server, endpoint: str) -> dict[str, Any]:
    return {
        "endpoint": endpoint,
        "access_key_id": server.access_key,
        "secret_access_key": server.secret_key,
        "region": server.region,
        "looks_for_index": False,
    }


@pytest.fixture(autouse=True)
def no_connections() -> Iterator[None]:
    """None that a kept store has open is there after the test."""
    yield
    client._made.cache_clear()


@pytest.fixture
def options(s3_server: S3Server) -> dict[str, Any]:
    return storage(s3_server, s3_server.endpoint)


@pytest.fixture
def paths(tmp_path: Path) -> list[Path]:
    return fill_files(tmp_path)


def put(server: S3Server, bucket: str, path: Path, key: str = "") -> None:
    """Put a file, or all files of a folder."""
    store = s3_store(server, server.endpoint, bucket)
    for one in [path] if path.is_file() else path.rglob("*"):
        if one.is_file():
            name = str(one.relative_to(path.parent))
            store.put(f"{key}{name}", one.read_bytes())


def check(references: Path | str, paths: list[Path], options: dict[str, Any]) -> None:
    with multitables.Reader(references, n_procs=1, storage_options=options) as reader:
        for name in NAMES:
            got = reader.request(reader.get_dataset(name)[:]).get()
            np.testing.assert_array_equal(got, expected(paths, name))
    with multitables.open(references, storage_options=options) as file:
        for name in NAMES:
            np.testing.assert_array_equal(file[name][3:20:4], expected(paths, name)[3:20:4])
        assert file["scalar"][()] == len(paths) - 1
    streamer = multitables.Streamer(references, storage_options=options)
    with streamer.get_queue("/rows", n_procs=1, remainder=True) as queue:
        rows: list[Any] = []
        for guard in queue:
            with guard as block:
                rows += block.tolist()
    assert rows == expected(paths, "rows").tolist()


@pytest.mark.parametrize("inline_every", [0, 2])
@pytest.mark.parametrize("suffix", WRITERS)
@pytest.mark.parametrize("is_remote", [False, True])
def test_references_to_objects(
    paths: list[Path],
    suffix: str,
    is_remote: bool,
    inline_every: int,
    s3_server: S3Server,
    bucket: str,
    options: dict[str, Any],
) -> None:
    for path in paths:
        put(s3_server, bucket, path, "data/")
    refs = combined(paths, lambda path: f"s3://{bucket}/data/{path.name}", inline_every)
    references: Path | str = WRITERS[suffix](refs, paths[0].with_name(f"all{suffix}"))
    if is_remote:
        put(s3_server, bucket, Path(references), "refs/")
        references = f"s3://{bucket}/refs/all{suffix}"
        check(f"{references}{'/' * (suffix == '.parq')}", paths, options)
    check(references, paths, options)


def test_objects_beside_files(
    paths: list[Path], s3_server: S3Server, bucket: str, options: dict[str, Any]
) -> None:
    """Some chunks in an object, some in files of this machine, some in the references."""
    put(s3_server, bucket, paths[1])
    for first in (0, 1):
        urls = {path: str(path) for path in paths} | {paths[1]: f"s3://{bucket}/{paths[1].name}"}
        swapped = paths if first == 0 else [paths[1], paths[0], paths[2]]
        refs = combined(swapped, urls.__getitem__, inline_every=3)
        references = many_targets.write_json(refs, paths[0].with_name("all.json"))
        check(references, swapped, options)


def test_whole_objects(
    tmp_path: Path, s3_server: S3Server, bucket: str, options: dict[str, Any]
) -> None:
    raw, refs, data = many_targets.whole_files(tmp_path)
    for path in (*raw, many_targets.write_json(refs, tmp_path / "all.json")):
        put(s3_server, bucket, path)
    with multitables.open(f"s3://{bucket}/all.json", storage_options=options) as file:
        np.testing.assert_array_equal(file["raw"][...], data)


@pytest.mark.usefixtures("s3_server")  # obstore's threads run already
def test_over_http(paths: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    for path in paths:
        shutil.copy(path, folder)
    with file_server(folder) as endpoint:
        for suffix, write in WRITERS.items():
            # names count from where the references are
            refs = combined(paths, lambda path: path.name)
            write(refs, folder / f"all{suffix}")
            check(f"{endpoint}/all{suffix}", paths, {})


@pytest.mark.usefixtures("s3_server")
def test_signed_names_are_not_shown(paths: list[Path], tmp_path: Path) -> None:
    folder = tmp_path / "served"
    folder.mkdir()
    for path in paths:
        shutil.copy(path, folder)
    with file_server(folder) as endpoint, Proxy(endpoint) as proxy:
        refs = combined(paths, lambda path: f"{proxy.endpoint}/{path.name}?signature=secret")
        references = many_targets.write_json(refs, tmp_path / "all.json")
        check(references, paths, {})
        assert {request.path.partition("?")[2] for request in proxy.take_log()} == {
            "signature=secret"
        }
        (folder / paths[0].name).unlink()
        with pytest.raises(multitables.MissingFileError, match=paths[0].name) as caught:
            multitables.open(references)
        assert "secret" not in repr(caught.value)
        assert "secret" not in str(caught.value)


@pytest.mark.parametrize("url", ["/etc/hostname", "file:///etc/hostname", "memory://x", "../x"])
def test_references_of_a_store_name_no_file_of_this_machine(
    url: str, paths: list[Path], s3_server: S3Server, bucket: str, options: dict[str, Any]
) -> None:
    refs = combined(paths, lambda _: url)
    put(s3_server, bucket, many_targets.write_json(refs, paths[0].with_name("all.json")))
    name = f"s3://{bucket}/all.json"
    said = "is no object of a known store" if ":" in url else f"no such file: 's3://{bucket}/"
    with pytest.raises(multitables.FileOpenError, match=said):
        multitables.open(name, storage_options=options)


def test_an_object_that_is_missing(
    paths: list[Path], s3_server: S3Server, bucket: str, options: dict[str, Any]
) -> None:
    put(s3_server, bucket, paths[0])
    refs = combined(paths, lambda path: f"s3://{bucket}/{path.name}")
    references = many_targets.write_json(refs, paths[0].with_name("all.json"))
    missing = rf"no such file: 's3://{bucket}/part[12]\.h5', to which the references '{references}'"
    with (
        multitables.Reader(references, n_procs=1, storage_options=options) as reader,
        pytest.raises(multitables.MissingFileError, match=missing),
    ):
        reader.get_dataset("rows")
    with pytest.raises(multitables.MissingFileError, match=f"no object 's3://{bucket}/none.json'"):
        multitables.open(f"s3://{bucket}/none.json", storage_options=options)
    with pytest.raises(multitables.MissingFileError, match=r"none.parq/.zmetadata'"):
        multitables.open(f"s3://{bucket}/none.parq", storage_options=options)


def test_an_object_that_changes(
    paths: list[Path], s3_server: S3Server, bucket: str, options: dict[str, Any]
) -> None:
    for path in paths:
        put(s3_server, bucket, path)
    refs = combined(paths, lambda path: f"s3://{bucket}/{path.name}")
    references = many_targets.write_json(refs, paths[0].with_name("all.json"))
    with multitables.Reader(references, n_procs=1, storage_options=options) as reader:
        dataset = reader.get_dataset("plain")
        with h5py.File(paths[1], "r+") as file:
            file["plain"][:2] = 7
        put(s3_server, bucket, paths[1])
        with pytest.raises(multitables.FileChangedError, match=f"s3://{bucket}/part1.h5"):
            reader.request(dataset[:]).get()
        again = reader.request(reader.get_dataset("plain")[:]).get()
    np.testing.assert_array_equal(again, expected(paths, "plain"))


def test_references_that_change(
    paths: list[Path], s3_server: S3Server, bucket: str, options: dict[str, Any]
) -> None:
    for path in paths:
        put(s3_server, bucket, path)
    to = paths[0].with_name("all.json")
    refs = combined(paths, lambda path: f"s3://{bucket}/{path.name}")
    put(s3_server, bucket, many_targets.write_json(refs, to))
    name = f"s3://{bucket}/all.json"
    with multitables.Reader(name, n_procs=1, storage_options=options) as reader:
        assert reader.get_dataset("plain").shape == (24, 6)
        zarray = json.loads(refs["plain/.zarray"])
        refs["plain/.zarray"] = json.dumps({**zarray, "shape": [23, 6]})
        put(s3_server, bucket, many_targets.write_json(refs, to))
        assert reader.get_dataset("plain").shape == (23, 6)


@pytest.mark.parametrize("suffix", WRITERS)
def test_requests(
    paths: list[Path], suffix: str, s3_server: S3Server, bucket: str, proxy: Proxy
) -> None:
    """The references once, each object that is read once for its state; then data."""
    for path in paths:
        put(s3_server, bucket, path)
    refs = combined(paths, lambda path: f"s3://{bucket}/{path.name}")
    put(s3_server, bucket, WRITERS[suffix](refs, paths[0].with_name(f"all{suffix}")))
    options = storage(s3_server, proxy.endpoint)
    name = f"s3://{bucket}/all{suffix}"
    with multitables.open(name, storage_options=options) as file:
        assert file["rows"].shape == (24, 6)
        file["rows"][...]
        file["plain"][...]
        n_requests, n_bytes = file._place.file.metadata.requests
    asked = Counter(
        (request.method, request.path.partition("?")[0].removeprefix(f"/{bucket}"))
        for request in proxy.take_log()
    )
    heads = {path: count for (method, path), count in asked.items() if method == "HEAD"}
    assert {f"/{path.name}": 1 for path in paths} == {
        path: count for path, count in heads.items() if path.endswith(".h5")
    }
    first = "/all.json" if suffix == ".json" else "/all.parq/.zmetadata"
    assert asked["GET", first] == 1
    n_read = sum(count for (_, path), count in asked.items() if not path.endswith(".h5"))
    assert n_requests == n_read + len(paths)
    folder = paths[0].with_name(f"all{suffix}")
    read = [folder] if suffix == ".json" else [one for one in folder.rglob("*") if one.is_file()]
    assert n_bytes >= sum(one.stat().st_size for one in read if "scalar" not in str(one))


@pytest.mark.parametrize("suffix", [".json", ".parq"])
def test_references_that_are_written(
    h5: Path, suffix: str, s3_server: S3Server, bucket: str, options: dict[str, Any]
) -> None:
    with h5py.File(h5, "w") as file:
        fill(file)
    put(s3_server, bucket, h5)
    name, to = f"s3://{bucket}/{h5.name}", h5.with_suffix(suffix)
    multitables.index_file(name, to, progress=False, storage_options=options)
    if suffix == ".json":
        places = json.loads(to.read_text())["refs"].values()
        assert {place[0] for place in places if isinstance(place, list)} == {name}
    with multitables.open(to, storage_options=options) as file:
        for path, values in datasets(h5).items():
            assert np.asarray(file[path][()]).tobytes() == values.tobytes(), path


def test_references_that_are_written_to_a_store(
    h5: Path, s3_server: S3Server, bucket: str, options: dict[str, Any]
) -> None:
    with h5py.File(h5, "w") as file:
        fill(file)
    put(s3_server, bucket, h5)
    name, to = f"s3://{bucket}/{h5.name}", f"s3://{bucket}/refs/data.json"
    assert multitables.index_file(name, to, progress=False, storage_options=options) == to
    with multitables.open(to, storage_options=options) as file:
        grid = file["g/grid"][...]
        assert file.filename == to
    np.testing.assert_array_equal(grid, datasets(h5)["g/grid"])
    for wrong in (f"s3://{bucket}/refs.parq", "https://127.0.0.1:1/refs.json"):
        with pytest.raises(multitables.OptionsError, match="to must be"):
            multitables.index_file(name, wrong, progress=False, storage_options=options)
