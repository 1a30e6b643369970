"""`storage_options`: good ones, refused ones, and credentials from the environment.

Law
---
1. An option's effect is seen in the requests that a server gets.
2. No test asks a service of a cloud for credentials: all have keys, or ask without.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import pytest
from oracle import same, streamed
from plain_server import PlainServer, plain_server
from remote_files import Remote, noise

import multitables
from _multitables.remote import client
from _multitables.remote.options import OWN, StorageOptions
from multitables import MissingLibraryError, OptionsError, Reader, StoreError, Streamer

DATA = noise(100, 30)
NAME = "s3://bucket/data.h5"
QUICK: dict[str, Any] = {"max_retries": 0, "timeout_seconds": 2, "looks_for_index": False}
KEYS = {"access_key_id": "key", "secret_access_key": "secret", "region": "us-east-1"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("options") / "data.h5"
    with h5py.File(path, "w") as file:
        file.create_dataset("x", data=DATA, chunks=(20, 30), compression="gzip")
    return path


@pytest.fixture
def server(path: Path) -> Iterator[PlainServer]:
    """It takes what a store of any kind is sent, and does not check signatures."""
    keys = ("/bucket/data.h5", "/account/bucket/data.h5", "/data.h5")
    with plain_server(objects=dict.fromkeys(keys, path.read_bytes())) as server:
        yield server


def read(name: Any, **options: Any) -> None:
    """In this process, and in a reader."""
    opened = {"storage_options": {**QUICK, **options}}
    with multitables.open(name, **opened) as file:
        same(file["x"][:], DATA)
    rows, _ = streamed(name, "x", open_options=opened, n_procs=1)
    same(rows, DATA)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ("region", "must be a mapping, got a str"),
        ([("region", "x")], "must be a mapping, got a list"),
        (
            {"max_requests": 0},
            r"'max_requests'\] must be a whole number from 1 to 2\*\*62, got 0",
        ),
        ({"max_requests": True}, "must be a whole number"),
        ({"max_request_bytes": 100}, r"from 4096 to 2\*\*62, got 100"),
        ({"max_gap_bytes": -1}, r"from 0 to 2\*\*62, got -1"),
        ({"max_memory_bytes": 1.5e9}, "must be a whole number"),
        ({"timeout_seconds": 0}, r"must be a number from 0.001 to 864000.0, got 0"),
        ({"timeout_seconds": float("nan")}, "must be a number"),
        ({"timeout_seconds": float("inf")}, "must be a number"),
        ({"max_retries": "3"}, "must be a whole number"),
        ({"retry_timeout_seconds": None}, "must be a number"),
        ({"cache_folder": ""}, "must be a text"),
        ({"cache_bytes": 10}, "from 1048576 to"),
        ({"looks_for_index": 1}, "must be True or False"),
        ({"anonymous": "yes"}, "must be True or False"),
        ({"profile": 7}, "must be a text"),
        ({"credential_provider": "module"}, "'package.module:name'"),
        ({"credential_provider": print}, "must be a text"),
        ({"headers": [("A", "b")]}, "must be a mapping of texts"),
        ({"certificate": b"x"}, "must be a text"),
        ({"region": None}, "must be a text, a number or a bool, got a NoneType"),
        ({3: "x"}, "must be a text"),
    ],
)
def test_values_that_are_refused(options: Any, words: str) -> None:
    for enter in (multitables.open, Reader, Streamer):
        with pytest.raises(OptionsError, match=words) as caught:
            enter(NAME, storage_options=options)
        assert "storage_options" in str(caught.value)
        assert caught.value.values["option"]


def test_options_of_stores_that_are_unknown() -> None:
    with pytest.raises(StoreError, match="knows no option 'reggion'") as caught:
        multitables.open(NAME, storage_options={**QUICK, **KEYS, "reggion": "x"})
    assert caught.value.advice == "Check storage_options"
    with pytest.raises(StoreError, match="cannot be asked"):
        multitables.open(NAME, storage_options={**QUICK, **KEYS, "request_payer": "perhaps"})
    missing = {**QUICK, **KEYS, "certificate": "/no/such/authority.pem"}
    with pytest.raises(OptionsError, match="certificate"):
        multitables.open(NAME, storage_options=missing)


def test_an_endpoint_of_the_environment_that_is_no_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """obstore panics, which is no Exception of Python's."""
    monkeypatch.setenv("AWS_ENDPOINT_URL", "no endpoint")
    with pytest.raises(StoreError, match="cannot be asked"):
        multitables.open(NAME, storage_options={**QUICK, **KEYS})


def test_options_are_equal_if_they_do_the_same() -> None:
    one = StorageOptions.of({"region": "a", "max_requests": 3, "Endpoint": "http://b"})
    assert one == StorageOptions.of({"endpoint": "http://b", "max_requests": 3, "region": "a"})
    assert one != StorageOptions.of({"region": "a", "max_requests": 4, "endpoint": "http://b"})
    assert StorageOptions.of(one) is one
    assert {name: StorageOptions().get(name) for name in OWN} == {
        name: default for name, (default, _) in OWN.items()
    }


@pytest.mark.parametrize("named", ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"])
def test_the_environment(
    named: str, path: Path, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = remote.put(path)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", remote.server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", remote.server.secret_key)
    monkeypatch.setenv("AWS_REGION", remote.server.region)
    monkeypatch.setenv(named, remote.proxy.endpoint)
    if named.endswith("_S3"):
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    read(name)
    assert {one.status for one in remote.requests()} == {206}
    monkeypatch.setenv(named, "http://127.0.0.1:1")
    if named.endswith("_S3"):
        with pytest.raises(OptionsError, match="AWS_ENDPOINT_URL_S3"):
            read(name, endpoint=remote.proxy.endpoint)
        monkeypatch.delenv(named)
    read(name, endpoint=remote.proxy.endpoint)  # an option overrules the environment


def test_the_environment_is_looked_at_again(
    path: Path, remote: Remote, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials that were wrong, or ended, are mended by new ones."""
    name = remote.put(path)
    options = {"endpoint": remote.proxy.endpoint, "region": remote.server.region}
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "wrong")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(StoreError, match="refuses"):
        multitables.open(name, storage_options={**QUICK, **options})
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", remote.server.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", remote.server.secret_key)
    read(name, **options)


@pytest.mark.parametrize(
    "name", [NAME, "gs://bucket/data.h5", "gcs://bucket/data.h5", "az://bucket/data.h5"]
)
def test_without_credentials(name: str, server: PlainServer) -> None:
    options: dict[str, Any] = {"endpoint": server.endpoint}
    if name.startswith("g"):
        options = {"base_url": server.endpoint}
    elif name.startswith("az"):
        options["account_name"] = "account"
    read(name, anonymous=True, **options)
    assert server.sent
    assert not any("authorization" in sent.headers for sent in server.sent)


def test_requests_that_the_reader_pays_for(server: PlainServer) -> None:
    read(NAME, **KEYS, endpoint=server.endpoint, request_payer=True)
    assert {sent.headers.get("x-amz-request-payer") for sent in server.sent} == {"requester"}
    assert all("x-amz-request-payer" in sent.headers["authorization"] for sent in server.sent)


def test_a_provider_of_credentials(
    server: PlainServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "vault_of_keys.py").write_text(
        "def current():\n"
        "    return {'access_key_id': 'from-the-vault', 'secret_access_key': 's',\n"
        "            'token': 'its-token', 'expires_at': None}\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    options = {"endpoint": server.endpoint, "region": "us-east-1"}
    read(NAME, **options, credential_provider="vault_of_keys:current")
    assert all("from-the-vault/" in sent.headers["authorization"] for sent in server.sent)
    assert {sent.headers["x-amz-security-token"] for sent in server.sent} == {"its-token"}
    for missing in ("no_such_module:current", "vault_of_keys:no_such_name"):
        with pytest.raises(OptionsError, match="credential_provider"):
            multitables.open(
                NAME, storage_options={**QUICK, **options, "credential_provider": missing}
            )


def test_a_profile(server: PlainServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").write_text(
        "[tests]\naws_access_key_id = of-the-profile\naws_secret_access_key = s\n"
    )
    (tmp_path / "config").write_text("[profile tests]\nregion = eu-west-7\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    pytest.importorskip("boto3")
    read(NAME, endpoint=server.endpoint, profile="tests")
    signed = {sent.headers["authorization"] for sent in server.sent}
    assert all("of-the-profile/" in one and "/eu-west-7/" in one for one in signed)
    monkeypatch.setenv("AWS_PROFILE", "tests")
    client.forget_stores()
    server.sent.clear()
    read(NAME, endpoint=server.endpoint)
    assert all("of-the-profile/" in sent.headers["authorization"] for sent in server.sent)
    with pytest.raises(OptionsError, match="profile"):
        multitables.open(NAME, storage_options={**QUICK, "profile": "no-such-profile"})


def test_a_profile_without_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "boto3", None)
    with pytest.raises(MissingLibraryError, match="profile 'tests' is read with boto3"):
        multitables.open(NAME, storage_options={**QUICK, "profile": "tests"})
    monkeypatch.setitem(__import__("sys").modules, "obstore", None)
    with pytest.raises(MissingLibraryError, match=r"pip install 'multitables\[remote\]'"):
        multitables.open(NAME, storage_options={**QUICK, **KEYS})
