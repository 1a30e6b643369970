"""`storage_options` of a user, as obstore, s3fs and fsspec take them.

Law
---
1. What cannot be passed on is refused by its name; no value is in a message.
2. It is imported by its neighbours: standard library only, until a store is made.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from . import refusals

#: Options that this library has beside those of obstore.
LIBRARY = {
    *("max_gap_bytes", "max_request_bytes", "max_memory_bytes", "max_requests"),
    *("cache_folder", "cache_bytes", "looks_for_index", "max_retries", "retry_timeout_seconds"),
    *("timeout_seconds", "connect_timeout_seconds", "headers", "certificate", "anonymous"),
    *("profile", "credential_provider"),
}


def obstore_of(url: str, options: Mapping[str, Any]) -> tuple[Any, str]:
    """The store of obstore that has an object, and the object's key there."""
    store = importlib.import_module("obstore.store")
    client: dict[str, Any] = {"allow_http": True}
    if options.get("headers"):
        client["default_headers"] = dict(options["headers"])
    if options.get("certificate"):
        client["root_certificate"] = Path(options["certificate"]).expanduser().read_text()
    scheme, _, rest = url.partition("://")
    if scheme.lower() in ("http", "https"):
        return store.from_url(url, client_options=client), ""
    config = {name: _word(options[name]) for name in options.keys() - LIBRARY}
    if options.get("anonymous"):
        config["skip_signature"] = "true"
    more = {}
    profile = options.get("profile") or os.environ.get("AWS_PROFILE")
    if options.get("credential_provider"):
        module, _, name = options["credential_provider"].partition(":")
        more["credential_provider"] = getattr(importlib.import_module(module), name)
    elif scheme.startswith("s3") and profile and not _has_keys(config):
        session = importlib.import_module("boto3").Session(profile_name=profile)
        provider = importlib.import_module("obstore.auth.boto3").Boto3CredentialProvider
        more["credential_provider"] = provider(session)
        config.setdefault("region", session.region_name or "us-east-1")
    root, _, key = rest.partition("/")
    made = store.from_url(f"{scheme}://{root}", config=config, client_options=client, **more)
    return made, key


def s3fs_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """What an `S3FileSystem` takes."""
    _refuse(options, "s3fs", "credential_provider", "headers")
    given = {name.lower().removeprefix("aws_"): value for name, value in options.items()}
    found = {
        "key": given.get("access_key_id"),
        "secret": given.get("secret_access_key"),
        "token": given.get("session_token", given.get("token")),
        "endpoint_url": given.get("endpoint", given.get("endpoint_url")),
        "profile": given.get("profile"),
        "anon": any(_word(given.get(one)) == "true" for one in ("anonymous", "skip_signature")),
        "requester_pays": _word(given.get("request_payer")) == "true",
    }
    client = {
        "region_name": given.get("region", given.get("default_region")),
        "verify": given.get("certificate"),
    }
    return {**_given(found), "client_kwargs": _given(client)}


def http_arguments(options: Mapping[str, Any]) -> dict[str, Any]:
    """What fsspec's file system of web servers takes."""
    _refuse(options, "fsspec", "certificate")
    return {"client_kwargs": {"headers": dict(options.get("headers") or {})}}


def _refuse(options: Mapping[str, Any], who: str, *names: str) -> None:
    for name in names:
        if options.get(name):
            raise refusals.CannotReadError(f"storage_options[{name!r}] is not passed on to {who}")


def _has_keys(config: Mapping[str, str]) -> bool:
    return bool({"access_key_id", "aws_access_key_id", "skip_signature"} & config.keys())


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
