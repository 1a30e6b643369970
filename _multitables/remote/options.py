"""``storage_options``: how stores are asked, checked and without a trace of secrets.

Law
---
1. Options of `OWN` are checked here; all others are the store's, under obstore's names for them.
2. Values are of JSON's types, so that readers in processes of their own get the same.
3. Reprs and pickles hold only the values of `HARMLESS` options; any other may be a secret.
4. Headers are sent to the owners (see names.py) of the names that the user gave, and to nobody else
   whom a file or a server names. Keys of a store sign requests to the host that the options name.
5. Options below a prefix are those of its objects. Of the others they have the limits alone.

This file must never import obstore.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from _multitables.errors import OptionsError
from _multitables.remote.names import is_at, is_remote, kind_of, owner_of

#: Gaps up to this size are fetched with the bytes around them: it arrives while a request waits.
MAX_GAP_BYTES = 256 << 10
#: A request asks for at most this many bytes, unless a single chunk has more.
MAX_REQUEST_BYTES = 8 << 20
#: Each reader has asked for at most this many bytes that it has not decoded yet.
MAX_MEMORY_BYTES = 64 << 20
#: Requests of each process that a store answers at the same time.
MAX_REQUESTS = 32
#: Bytes of the cache on disk, all objects together.
CACHE_BYTES = 16 << 30
#: Seconds without a byte of an answer, and until a connection stands.
TIMEOUT_SECONDS = 30.0
CONNECT_TIMEOUT_SECONDS = 5.0
#: How often a request is sent again, and for how many seconds altogether.
MAX_RETRIES = 10
RETRY_TIMEOUT_SECONDS = 120.0
#: Ten days: a longer silence is no different.
MAX_SECONDS = 864_000.0

#: Options of a store that tell nothing which must not be known.
HARMLESS = {
    "region",
    "endpoint",
    "endpoint_url",
    "base_url",
    "skip_signature",
    "anonymous",
    "request_payer",
    "virtual_hosted_style_request",
    "profile",
    "credential_provider",
    "unsigned_payload",
    "container_name",
    "account_name",
    "use_emulator",
    "imdsv1_fallback",
    "s3_express",
}


def _number(least: float, whole: bool) -> Callable[[str, Any], Any]:
    kinds, most = ((int,), 1 << 62) if whole else ((int, float), MAX_SECONDS)

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, kinds) or isinstance(value, bool) or not least <= value <= most:
            kind = "whole number" if whole else "number"
            to = "2**62" if whole else most
            raise _wrong(name, f"must be a {kind} from {least} to {to}", value)
        return value

    return check


def _text(name: str, value: Any) -> str:
    if not isinstance(value, (str, os.PathLike)) or not os.fspath(value):
        raise _wrong(name, "must be a text", value)
    return os.fspath(value)


def _folder(name: str, value: Any) -> str:
    return os.path.abspath(os.path.expanduser(_text(name, value)))


def _flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise _wrong(name, "must be True or False", value)
    return value


def _provider(name: str, value: Any) -> str:
    text = _text(name, value)
    module, _, attribute = text.partition(":")
    if not module or not attribute:
        raise _wrong(name, "must name a callable, as 'package.module:name'", value)
    return text


def _headers(name: str, value: Any) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping) or not all(
        isinstance(text, str) for pair in value.items() for text in pair
    ):
        raise OptionsError(
            f"storage_options[{name!r}] must be a mapping of texts",
            advice="Give headers={'Authorization': 'Bearer ...'}",
            option=name,
        )
    return tuple(sorted(value.items()))


def _check_endpoint(name: str, value: str) -> None:
    if not re.fullmatch(r"https?://[^\s@/?#]+[^\s@?#]*", value, re.IGNORECASE):
        raise OptionsError(  # a user before the host is a secret, so the value is not shown
            f"storage_options[{name!r}] must be a URL of a host, without a user",
            advice="Give 'https://storage.example.org:9000', for example",
            option=name,
        )


#: Our own options: the default and the check of each.
OWN: dict[str, tuple[Any, Callable[[str, Any], Any]]] = {
    "max_gap_bytes": (MAX_GAP_BYTES, _number(0, whole=True)),
    "max_request_bytes": (MAX_REQUEST_BYTES, _number(1 << 12, whole=True)),
    "max_memory_bytes": (MAX_MEMORY_BYTES, _number(1 << 20, whole=True)),
    "max_requests": (MAX_REQUESTS, _number(1, whole=True)),
    "cache_folder": ("", _folder),
    "cache_bytes": (CACHE_BYTES, _number(1 << 20, whole=True)),
    "timeout_seconds": (TIMEOUT_SECONDS, _number(0.001, whole=False)),
    "connect_timeout_seconds": (CONNECT_TIMEOUT_SECONDS, _number(0.001, whole=False)),
    "max_retries": (MAX_RETRIES, _number(0, whole=True)),
    "retry_timeout_seconds": (RETRY_TIMEOUT_SECONDS, _number(0, whole=False)),
    "looks_for_index": (True, _flag),
    "headers": ((), _headers),
    "certificate": ("", _folder),
    "anonymous": (False, _flag),
    "profile": ("", _text),
    "credential_provider": ("", _provider),
}


def _wrong(name: str, happened: str, value: Any) -> OptionsError:
    return OptionsError(
        f"storage_options[{name!r}] {happened}, got {value!r}",
        advice="Leave it out for the default",
        option=name,
        got=value,
    )


@dataclass(frozen=True)
class StorageOptions:
    """Checked options; two are equal if they reach stores in the same way."""

    #: Options of `OWN` that differ from their defaults, and options of the store, by name.
    own: tuple[tuple[str, Any], ...] = ()
    store: tuple[tuple[str, Any], ...] = ()
    #: The queries of HTTP names, behind ``?``.
    queries: tuple[tuple[str, str], ...] = ()
    #: Who is sent the headers. None: the user named no file yet.
    owners: tuple[str, ...] | None = None
    #: Prefixes of names, and their options; the longest come first.
    below: tuple[tuple[str, StorageOptions], ...] = ()
    #: Names of options that a pickle left out.
    lost: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, options: Any) -> StorageOptions:
        """Check what a user gives.

        Raises
        ------
        OptionsError
            A value that an option cannot have.
        """
        if isinstance(options, StorageOptions):
            return options
        if options is None:
            return cls()
        if not isinstance(options, Mapping):
            raise OptionsError(
                f"storage_options must be a mapping, got a {type(options).__name__}",
                advice="Give storage_options={'region': 'eu-west-1'}, for example",
                option="storage_options",
            )
        own: dict[str, Any] = {}
        store: dict[str, Any] = {}
        below: dict[str, StorageOptions] = {}
        for name, value in options.items():
            if isinstance(name, str) and "://" in name:
                below[name.rstrip("/")] = cls._below(name, value)
                continue
            if name in OWN:
                own[name] = OWN[name][1](name, value)
                continue
            if not isinstance(name, str) or not isinstance(value, (str, int, float, bool)):
                # Its value is not shown: it may be a secret.
                raise OptionsError(
                    f"storage_options[{name!r}] must be a text, a number or a bool, "
                    f"got a {type(value).__name__}",
                    advice="Name callables as credential_provider='package.module:name'",
                    option=str(name),
                )
            if name.lower().endswith(("endpoint", "endpoint_url", "base_url")):
                _check_endpoint(name, str(value))
            store[name.lower()] = value
        longest = sorted(below.items(), key=lambda pair: -len(pair[0]))
        pairs = tuple(sorted(own.items(), key=_by_name)), tuple(sorted(store.items()))
        return cls(*pairs, below=tuple(longest))

    @classmethod
    def _below(cls, prefix: str, value: Any) -> StorageOptions:
        options = cls.of(value)
        if owner_of(prefix) and "?" not in prefix and not options.below:
            return options
        raise OptionsError(  # it is not shown: what is wrong may be a secret
            "a prefix in storage_options must be the beginning of an object's name, without a user "
            "and a query, and have a mapping without prefixes",
            advice="Give storage_options={'https://data.example.org/runs/': {...}}, for example",
            option="storage_options",
        )

    def at(self, name: str) -> StorageOptions:
        """Return the options with which an object is asked for."""
        if not self.below and "headers" not in dict(self.own):
            return self
        found = next((one for prefix, one in self.below if is_at(name, prefix)), None)
        own, store = dict(self.own), self.store
        if found is not None:
            limits = {key: value for key, value in own.items() if key not in _ACCESS}
            own, store = limits | dict(found.own), found.store
        elif owner_of(name) not in (self.owners or ()):
            own.pop("headers", None)
        return replace(self, own=tuple(sorted(own.items(), key=_by_name)), store=store, below=())

    def withholds(self, name: str) -> bool:
        """Whether there are headers, and none of them is sent for an object."""
        return "headers" in dict(self.own) and "headers" not in dict(self.at(name).own)

    def given_for(self, names: Iterable[str]) -> StorageOptions:
        """Return the same for files that the user named, if none was named before."""
        if self.owners is not None:
            return self
        owners = {owner_of(name) for name in names if is_remote(name)} - {""}
        return replace(self, owners=tuple(sorted(owners)))

    def get(self, name: str) -> Any:
        """Return the value of one of `OWN`."""
        return dict(self.own).get(name, OWN[name][0])

    def with_query(self, name: str, query: str) -> StorageOptions:
        """Return the same for one more name that has a query."""
        if not query:
            return self
        return replace(self, queries=tuple(sorted({**dict(self.queries), name: query}.items())))

    def client_text(self, name: str) -> str:
        """Return the text with which the client in a reader gets at an object."""
        options = self.at(name)
        headers = [
            one for one, _ in options.get("headers") if not re.fullmatch(_STAY, one, re.IGNORECASE)
        ]
        if headers and kind_of(name) != "http":
            raise OptionsError(
                f"storage_options['headers'] has {headers[0]!r}, which a redirect of the store of "
                f"{name!r} would take to another host",
                advice="Leave it out, or give the https:// name of the object",
                option="headers",
            )
        query = dict(self.queries).get(name, "")
        return options._client_text if not query else options._text_with(query)

    @cached_property
    def _client_text(self) -> str:
        """The text for any object whose name has no query: there may be 100,000 of them."""
        return self._text_with("")

    def _text_with(self, query: str) -> str:
        own = {key: self.get(key) for key in OWN if key not in _LIMITS}
        told = {"own": own, "store": dict(self.store), "query": query}
        return json.dumps({key: value for key, value in told.items() if value}, sort_keys=True)

    @cached_property
    def limits(self) -> bytes:
        """The limits that the core keeps, in two lines; see access.py."""
        names = ("max_gap_bytes", "max_request_bytes", "max_memory_bytes", "max_requests")
        numbers = [self.get(name) for name in (*names, "cache_bytes")]
        return " ".join(map(str, numbers)).encode() + b"\n" + os.fsencode(self.get("cache_folder"))

    def __repr__(self) -> str:
        shown = {key: value for key, value in (*self.own, *self.store) if key in SHOWN}
        hidden = [key for key, _ in (*self.own, *self.store) if key not in SHOWN]
        more = f", and {', '.join(hidden)}" if hidden else ""
        more += "".join(f", below {prefix!r}: {options}" for prefix, options in self.below)
        return f"<StorageOptions {shown}{more}>"

    def __reduce__(self) -> tuple[Any, ...]:
        kept = [tuple((k, v) for k, v in part if k in SHOWN) for part in (self.own, self.store)]
        names = [key for key, _ in (*self.own, *self.store) if key not in SHOWN]
        names += ["the query of a name"] if self.queries else []
        lost = tuple(dict.fromkeys((*self.lost, *names)))
        return StorageOptions, (*kept, (), self.owners, self.below, lost)


#: Limits that the core keeps; the client does not ask for them.
_LIMITS = {
    "max_gap_bytes",
    "max_request_bytes",
    "max_memory_bytes",
    "max_requests",
    "cache_folder",
    "cache_bytes",
    "looks_for_index",
}
#: Headers that no redirect takes along, or nobody keeps secret: other ones are for web servers,
#: since the client of other stores would send them to whom a store redirects it.
_STAY = r"authorization|cookie|proxy-authorization|user-agent|accept(-\w+)?|x-(amz|goog|ms)-.+"
#: How an owner is asked, and not how much.
_ACCESS = {"headers", "anonymous", "profile", "credential_provider", "certificate"}
SHOWN = HARMLESS | (OWN.keys() - {"headers"})


def _by_name(pair: tuple[str, Any]) -> str:
    return pair[0]
