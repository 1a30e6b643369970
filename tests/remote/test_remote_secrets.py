"""Secrets of a store never show: not in errors, texts, pickles, logs or processes.

Law
---
1. A secret is looked for as it is and as URLs have it, in everything that can be printed or kept.
2. A server that repeats what it was sent is the worst case, and the usual one.
"""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import h5py
import numpy as np
import pytest
from oracle import same
from plain_server import PlainServer, plain_server
from processes import readers
from remote_files import Remote, noise

import multitables
from _multitables.remote import client
from multitables import MultitablesError, OptionsError, Reader, StoreError, Streamer

DATA = noise(300, 50)
SECRETS = {
    "access_key_id": "AKIAHIDDENKEYID",
    "secret_access_key": "hidden/secret+key=",
    "session_token": "hidden-token//1",
    "headers": {"Authorization": "Bearer hidden-bearer", "X-Key": "hidden-header"},
}
QUERY = "X-Amz-Signature=hidden-signature&X-Amz-Credential=hidden%2Fcredential"
HIDDEN = ("hidden", "HIDDEN")
QUICK: dict[str, Any] = {"max_retries": 0, "timeout_seconds": 2, "looks_for_index": False}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("secret") / "data.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=DATA, chunks=(20, 50), compression="gzip")
        file.create_dataset("g/a", data=DATA[:, 0])
    return path


@pytest.fixture
def server(path: Path) -> Iterator[PlainServer]:
    """It answers anyone, and repeats the secrets when it refuses."""
    words = f"<Error><Message>{SECRETS} {QUERY}</Message></Error>".encode()
    with plain_server(objects={"/bucket/data.h5": path.read_bytes()}, words=words) as server:
        yield server


@pytest.fixture(params=["s3", "http"])
def opened(request: pytest.FixtureRequest, server: PlainServer) -> tuple[str, dict[str, Any]]:
    """An object's name, and options; half of them are secrets."""
    if request.param == "http":
        headers = SECRETS["headers"]
        return f"{server.endpoint}/bucket/data.h5?{QUERY}", {**QUICK, "headers": headers}
    options = {**QUICK, **SECRETS, "endpoint": server.endpoint, "region": "us-east-1"}
    options["headers"] = {"x-amz-meta-key": "hidden-header"}
    return "s3://bucket/data.h5", options


def clean(*found: object) -> None:
    """None of these texts, bytes or objects shows a secret."""
    for one in found:
        content = one if isinstance(one, bytes) else f"{one!s} {one!r}".encode()
        for secret in HIDDEN:
            assert secret.encode() not in content, f"{secret!r} in {content!r}"


def clean_error(error: BaseException | None) -> None:
    """Nor an error, its values, its pickle, or any error that leads to it."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        clean(error, *getattr(error, "values", {}).items(), vars(error))
        clean("".join(traceback.format_exception(error)))
        if isinstance(error, MultitablesError):
            clean(pickle.dumps(error))
        assert not type(error).__module__.startswith("obstore")
        seen.append(error)
        error = error.__cause__ or error.__context__


def test_what_is_sent_is_what_was_given(
    opened: tuple[str, dict[str, Any]], server: PlainServer
) -> None:
    name, options = opened
    with multitables.open(name, storage_options=options) as file:
        same(file["x"][:], DATA)
    for sent in server.sent:
        if name.startswith("http"):
            assert sent.path == f"/bucket/data.h5?{QUERY}"
            assert sent.headers["authorization"] == "Bearer hidden-bearer"
            assert sent.headers["x-key"] == "hidden-header"
        else:
            assert "AKIAHIDDENKEYID" in sent.headers["authorization"]
            assert sent.headers["x-amz-security-token"] == SECRETS["session_token"]
            assert sent.headers["x-amz-meta-key"] == "hidden-header"


def test_texts_pickles_and_numbers(opened: tuple[str, dict[str, Any]], path: Path) -> None:
    name, options = opened
    given: dict[str, Any] = {"storage_options": options}
    with (
        Streamer(name, **given) as streamer,
        Reader(name, n_procs=1, **given) as reader,
        multitables.open(name, **given) as file,
        streamer.get_queue("x", n_procs=1) as queue,
        streamer.get_batches("x", 10, n_procs=1) as batches,
        streamer.get_collection("/g/*", n_procs=1) as items,
    ):
        handle = reader.get_dataset("x")
        same(reader.request(handle[:]).get(), DATA)
        same(file["x"][:], DATA)
        for guard in queue:
            with guard:
                pass
        assert sum(len(batch) for batch in batches) == len(DATA)
        assert len(list(items)) == 1
        clean(streamer, reader, handle, file, file["x"], file["g"], queue, batches, items)
        clean(queue.statistics(), batches.statistics(), items.statistics(), reader.statistics())
        clean(batches.state_dict(), items.state_dict(), file.filename, streamer.filename)
        for one in (file, file["x"], file["g"], file["x"].astype("f8"), items):
            clean(pickle.dumps(one))
        clean(multitables.build_info())


def test_datasets_of_torch(opened: tuple[str, dict[str, Any]]) -> None:
    pytest.importorskip("torch")
    name, options = opened
    given: dict[str, Any] = {"open_options": {"storage_options": options}}
    for made in (
        multitables.TorchMapDataset(name, "x", n_procs=1, **given),
        multitables.TorchDataset(name, "x", 10, n_procs=1, **given),
    ):
        clean(made, vars(made), pickle.dumps(made))


def test_processes(opened: tuple[str, dict[str, Any]]) -> None:
    name, options = opened
    with Reader(name, n_procs=2, storage_options=options) as reader:
        same(reader.request(reader.get_dataset("x")[:]).get(), DATA)
        assert len(readers()) == 2
        for pid in readers():
            for of in ("cmdline", "environ"):
                clean(Path(f"/proc/{pid}/{of}").read_bytes())


@pytest.mark.parametrize("n_procs", [None, 1])
@pytest.mark.parametrize("status", [400, 401, 403, 404, 412, 416, 500, 302])
def test_errors(
    status: int,
    n_procs: int | None,
    opened: tuple[str, dict[str, Any]],
    server: PlainServer,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RUST_LOG", "trace")
    caplog.set_level(0)
    name, options = opened
    given: dict[str, Any] = {"storage_options": options}
    with (
        Reader(name, n_procs=1, **given) as reader,
        multitables.open(name, **given) as file,
        Streamer(name, **given) as streamer,
    ):
        data, handle = file["x"], reader.get_dataset("x")

        def stream() -> None:
            with streamer.get_queue("x", n_procs=n_procs) as queue:
                for guard in queue:
                    with guard:
                        server.status = lambda _: status

        server.sent.clear()
        server.status = lambda _: status if len(server.sent) > 2 else 0
        with pytest.raises(MultitablesError) as caught:
            stream()
        clean_error(caught.value)
        server.status = lambda _: status
        for ask in (
            lambda: data[:],
            lambda: reader.request(handle[:]).get(),
            lambda: multitables.open(name, **given),
            lambda: multitables.index_file(name, progress=False, **given),
            lambda: multitables.read(name, "x", **given),
            lambda: next(iter(streamer.get_batches("x", 10, n_procs=1))),
        ):
            with pytest.raises(MultitablesError) as caught:
                ask()
            clean_error(caught.value)
    clean(*capfd.readouterr(), caplog.text)


def test_options_that_are_wrong() -> None:
    name = "s3://bucket/data.h5"
    for options in (
        {"secret_access_key": ["hidden"]},
        {"headers": {"Authorization": b"hidden"}},
        {"headers": "hidden"},
        {"no_such_option": "hidden", **SECRETS},
        {"endpoint": "no endpoint", **SECRETS, **QUICK},
        {"endpoint": "https://me:hidden@127.0.0.1", **SECRETS, **QUICK},
        {"aws_secret_access_key": "hidden", "headers": {"a b": "hidden"}, **QUICK},
        {"headers": {"X": "hidden\n"}, "skip_signature": True},
    ):
        with pytest.raises(MultitablesError) as caught:
            multitables.open(name, storage_options=options)
        clean_error(caught.value)
    name = "http://me:hidden@127.0.0.1/x.h5"
    with pytest.raises(OptionsError, match="a user or a password") as caught:
        multitables.open(name)
    clean_error(caught.value)


def test_pickles_find_credentials_in_the_environment(
    path: Path, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    name, options = remote.put(path), remote.options(**QUICK)
    with multitables.open(name, storage_options=options) as file:
        kept = pickle.dumps(file["x"])
        streams = pickle.dumps(Streamer(name, storage_options=options)._file)
    assert remote.server.secret_key.encode() not in kept + streams
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "another")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "another")
    for one in (lambda: pickle.loads(kept), lambda: pickle.loads(streams).open().__enter__()):
        with pytest.raises(StoreError, match="not pickled: access_key_id, secret_access_key"):
            one()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", remote.server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", remote.server.secret_key)
    client.forget_stores()
    data = pickle.loads(kept)
    same(np.asarray(data[:]), DATA)
    data.file.close()
    assert quote(remote.server.secret_key) not in repr(data)
