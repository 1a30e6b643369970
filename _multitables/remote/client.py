"""The client of stores: ranges of objects through obstore, in whatever process asks for them.

Law
---
1. A store is made once for each way to reach it, and kept; any thread may use it.
2. A range comes whole and from the version that was indexed, or a `StoreFailure` says why not.
3. obstore is imported here and nowhere else; it retries and keeps connections. It follows any
   redirect with all headers, so web servers are asked by web.py where a request has secrets.
   Readers import this file before they can do anything, so it imports little, and late.
4. A fork of a process that has obstore never calls it; see relay.py.
5. No failure leads to an exception of obstore's, not as its context either.
6. obstore does not notice signals, so the program's own thread leaves its calls to another one: an
   interrupt ends the wait, and the call is left to its time-outs. A reader's thread asks itself: in
   another one Python may collect what h5py's lock, which the first holds, is needed for.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta, timezone
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

from _multitables.errors import INFO, MissingLibraryError, OptionsError, note
from _multitables.remote.failures import SLOW, StoreFailure, failure_of
from _multitables.remote.names import in_store, kind_of, query_of

#: Attempts at a request that obstore does not repeat, because the server gives no version.
ATTEMPTS = 4
#: Stores that are kept.
MAX_STORES = 64
#: In place of a URL: web servers that are asked with secrets.
WEB = "web"
#: The beginning of an object's version if its server gives no ETag.
UNTAGGED = "modified"
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_lock = threading.Lock()
#: An object was named in this process: readers that start now load obstore at once.
is_expected = False
#: Whether this process is a fork of one that had obstore.
_is_fork = False


def load() -> None:
    """Import obstore in a thread: it takes longer than all else that a reader imports."""
    threading.Thread(target=_try_obstore, daemon=True).start()


def _begin_in_fork() -> None:
    """Replace the lock, as a thread that the fork left behind may hold it."""
    global _lock, _is_fork
    _lock, _is_fork = threading.Lock(), "obstore" in sys.modules


os.register_at_fork(after_in_child=_begin_in_fork)


def _notices_interrupts() -> bool:
    """Whether Ctrl-C is for this thread: not in a reader, where h5py may hold its lock as well."""
    is_main = threading.current_thread() is threading.main_thread()
    return is_main and signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ())


P = ParamSpec("P")
T = TypeVar("T")


def concurrently(ask: Callable[[Any], T], things: Sequence[Any], threads: int) -> list[T]:
    """Ask for several things at a time; their order stays. An interrupt ends the wait for them."""
    ended: queue.SimpleQueue[tuple[int, T | None, BaseException | None]] = queue.SimpleQueue()
    numbered: Iterator[tuple[int, Any]] = enumerate(things)
    lock = threading.Lock()

    def run() -> None:
        while True:
            with lock:
                number, thing = next(numbered, (-1, None))
            if number < 0:
                return
            try:
                ended.put((number, ask(thing), None))
            except BaseException as error:  # noqa: BLE001 - raised where it is waited for
                ended.put((number, None, error))

    started = 0
    for _ in range(min(threads, len(things))):
        try:
            threading.Thread(target=run, daemon=True).start()
        except RuntimeError:  # the system starts no thread
            break
        started += 1
    if not started:
        run()
    answers: dict[int, Any] = {}
    error = None
    try:
        while len(answers) < len(things):
            number, answers[number], error = ended.get()
            if error is not None:
                raise error
    finally:
        numbered = iter(())  # nothing more is asked for
        del error
    return [answers[number] for number in range(len(things))]


def _names_failures(ask: Callable[P, T]) -> Callable[P, T]:
    """Raise what obstore raises as failures, which do not lead to it: it may repeat secrets."""

    @wraps(ask)
    def asked(*arguments: P.args, **named: P.kwargs) -> T:
        try:
            if not _notices_interrupts():
                return ask(*arguments, **named)
            return concurrently(lambda _: ask(*arguments, **named), [None], 1)[0]
        except (StoreFailure, MissingLibraryError, OptionsError):
            raise
        except BaseException as error:  # each store has its own
            # A panic of obstore is a BaseException, as an interrupt is; only the panic is ours.
            if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
                raise
            failure = failure_of(error)
        raise failure  # outside of the handler, or it would have the error as its context

    return asked


def read(name: bytes, access: bytes, begin: int, out: memoryview) -> None:
    """Fill `out` with the bytes of an object from `begin` on; the core calls this."""
    etag, text = _parsed(access)
    _, _, got = fetched(name.decode(), text, begin, begin + len(out), etag, out)
    if len(got) != len(out):
        raise StoreFailure("short", f"expected {len(out)} bytes, got {len(got)}")


@lru_cache(MAX_STORES)
def _parsed(access: bytes) -> tuple[str, str]:
    etag, text = json.loads(access)
    return etag, text


def fetched(
    name: str, text: str, begin: int, end: int, etag: str = "", out: memoryview | None = None
) -> tuple[str, tuple[int, int], memoryview]:
    """Return the version of an object, its time (ns) and size, and bytes: fewer at its end.

    The bytes are in `out` if it is given.
    """
    if _is_fork:
        arguments = (name, text, begin, end, etag)
        (version, (modified_ns, size)), data = _by_relay("fetched", arguments, out)
        return version, (modified_ns, size), data
    for attempt in range(ATTEMPTS):
        try:
            version, state, data = _fetched(name, text, begin, end, etag)
        except StoreFailure as failure:
            last = attempt == min(ATTEMPTS - 1, _own(text)["max_retries"])
            if failure.was_repeated or failure.kind not in ("cut", "short") or last:
                raise
            import random  # few programs come here

            note("%r is requested again: its answer was %s", name, failure.kind, level=INFO)

            time.sleep(0.1 * 2**attempt * random.uniform(0.5, 1.5))
            continue
        if out is not None:
            out[: len(data)] = data
            data = out[: len(data)]
        return version, state, data
    raise AssertionError("the last attempt returns or raises")


@_names_failures
def _fetched(
    name: str, text: str, begin: int, end: int, etag: str
) -> tuple[str, tuple[int, int], memoryview]:
    options: dict[str, Any] = {"range": (begin, end)}
    if etag and not etag.startswith(("W/", UNTAGGED)):  # a weak one matches nothing (RFC 9110)
        options["if_match"] = etag
    store, key = _store(name, text)
    if _is_web(store):
        meta, data = store.fetched(key, begin, end, options.get("if_match", ""))
        version, modified_ns, size = _told(meta)
        if etag and version != etag:
            raise StoreFailure("changed", "another version")
        return version, (modified_ns, size), data
    found = _obstore().get(store, key, options=options)
    version, modified_ns, size = _told(found.meta)
    if etag and version != etag:
        raise StoreFailure("changed", "another version")
    data = _body(found, is_resumed=not version.startswith(UNTAGGED))
    first, last = begin, min(end, size)
    if found.range != (first, last) or len(data) != last - first:
        asked, got = f"{first}:{last}", f"{len(data)} bytes from {found.range[0]} on"
        raise StoreFailure("short", f"expected bytes {asked}, got {got}")
    return version, (modified_ns, size), data


def _body(found: Any, is_resumed: bool) -> memoryview:
    """Return the body of an answer; obstore resumes it if there is an ETag."""
    try:
        return memoryview(found.bytes())
    except Exception as error:  # noqa: BLE001 - each store has its own
        failure = failure_of(error)
    failure.was_repeated |= is_resumed
    raise failure


@_names_failures
def head(name: str, text: str) -> tuple[str, tuple[int, int]]:
    """Return the version of an object, and its time (ns) and size."""
    if _is_fork:
        (version, (modified_ns, size)), _ = _by_relay("head", (name, text))
        return version, (modified_ns, size)
    if kind_of(name) == "http":  # presigned URLs allow GET only
        try:
            return fetched(name, text, 0, 1)[:2]
        except StoreFailure as failure:
            if failure.kind != "range":  # an empty object has no first byte
                raise
    store, key = _store(name, text)
    meta = store.head(key) if _is_web(store) else _obstore().head(store, key)
    version, *rest = _told(meta)
    return version, (rest[0], rest[1])


@_names_failures
def put(name: str, text: str, file: str) -> None:
    """Write a file of this machine as an object."""
    if _is_fork:
        _by_relay("put", (name, text, os.path.abspath(file)))
        return
    from pathlib import Path

    store, key = _store(name, text)
    if _is_web(store):
        store.put(key, file)
    else:
        _obstore().put(store, key, Path(file))


@_names_failures
def listed(name: str, text: str) -> list[str]:
    """Return the names of all objects that begin with a name."""
    if _is_fork:
        names: list[str] = _by_relay("listed", (name, text))[0]
        return names
    store, key = _store(name, text)
    root, _ = in_store(name)
    # A prefix of a listing ends with a part of a path.
    folder = key.rpartition("/")[0]
    pages = _obstore().list(store, folder or None)
    return [f"{root}/{one['path']}" for page in pages for one in page]


def _by_relay(
    function: str, arguments: tuple[Any, ...], out: memoryview | None = None
) -> tuple[Any, memoryview]:
    from _multitables.remote import relay  # what it imports takes some milliseconds

    return relay.ask(function, arguments, out)


def _told(meta: Any) -> tuple[str, int, int]:
    modified_ns = (meta["last_modified"] - EPOCH) // timedelta(microseconds=1) * 1000
    size = meta["size"]
    return meta["e_tag"] or f"{UNTAGGED} {modified_ns} {size}", modified_ns, size


def _obstore() -> Any:
    try:
        import obstore
    except ImportError:
        raise MissingLibraryError(
            "objects of stores are read with obstore, which is not installed",
            advice="pip install 'multitables[remote]'",
        ) from None
    return obstore


def _try_obstore() -> None:
    with contextlib.suppress(MissingLibraryError):  # a later read reports it
        _obstore()


def _store(name: str, text: str) -> tuple[Any, str]:
    """Return the store that has an object, and the object's key there; of a `Web`, its URL."""
    told = json.loads(text)
    if kind_of(name) == "http":
        query = told.get("query") or query_of(name)
        url = f"{name}?{query}" if query else name
        if not (query or told["own"]["headers"]):
            return _made(url, text), ""
        with _lock:
            return _made(WEB, json.dumps({"own": told["own"]})), url
    root, key = in_store(name)
    with _lock:  # two threads would make it twice
        return _made(root, text), key


@lru_cache(MAX_STORES)
def _made(url: str, text: str) -> Any:
    """Make a store."""
    if url == WEB:
        from _multitables.remote.web import Web

        try:
            return Web(_own(text))
        except (OSError, ValueError) as error:
            raise _unusable("certificate", error) from None
    _obstore()
    from obstore import store

    told, own = json.loads(text), _own(text)
    config = {name: _word(value) for name, value in told.get("store", {}).items()}
    kind = kind_of(url)
    if own["anonymous"] and kind != "http":
        config["skip_signature"] = "true"
    if kind == "s3":
        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3")
        if endpoint and config.setdefault("endpoint", endpoint) != endpoint:
            raise OptionsError(
                "storage_options['endpoint'] is not that of the environment variable "
                "AWS_ENDPOINT_URL_S3, which the client of S3 prefers",
                advice="Unset the variable, or leave out the option",
                option="endpoint",
            )
    client: dict[str, Any] = {
        "read_timeout": timedelta(seconds=own["timeout_seconds"]),
        "timeout": timedelta(seconds=SLOW * own["timeout_seconds"]),
        "connect_timeout": timedelta(seconds=own["connect_timeout_seconds"]),
    }
    named = [url] if kind == "http" else [*config.values(), os.environ.get("AWS_ENDPOINT_URL")]
    if any((one or "").startswith("http://") for one in named) or config.get("use_emulator"):
        client["allow_http"] = True
    if own["certificate"]:
        try:
            with open(own["certificate"], encoding="ascii") as file:
                client["root_certificate"] = file.read()
        except (OSError, ValueError) as error:
            raise _unusable("certificate", error) from None
    if own["headers"]:
        client["default_headers"] = dict(own["headers"])
    retry = {
        "max_retries": own["max_retries"],
        "retry_timeout": timedelta(seconds=own["retry_timeout_seconds"]),
        "backoff": {
            "init_backoff": timedelta(milliseconds=100),
            "max_backoff": timedelta(seconds=15),
            "base": 2,
        },
    }
    more: dict[str, Any] = {} if kind == "http" else {"config": config}
    try:
        provider = _provider(own, kind, config)
    except MissingLibraryError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a user's module or a file of boto3 does
        given = "credential_provider" if own["credential_provider"] else "profile"
        raise _unusable(given, error) from None
    if provider is not None:
        more["credential_provider"] = provider
    make: Any = store.from_url  # one signature for each kind of store
    url = re.sub("^gcs:", "gs:", url, flags=re.IGNORECASE)  # which obstore lacks
    return make(url, client_options=client, retry_config=retry, **more)


def _unusable(option: str, error: Exception) -> OptionsError:
    return OptionsError(
        f"storage_options[{option!r}] cannot be used: {type(error).__name__}: {error}",
        advice="Check the name, and that this process may read it",
        option=option,
    )


def _own(text: str) -> dict[str, Any]:
    """Return our own options."""
    own: dict[str, Any] = json.loads(text)["own"]
    return own


def _is_web(store: Any) -> bool:
    """Whether it is a `Web`, and not a store of obstore's."""
    web = sys.modules.get("_multitables.remote.web")
    return web is not None and isinstance(store, web.Web)


def forget_stores() -> None:
    """Make new stores from now on, since the credentials in the environment may change."""
    _made.cache_clear()


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _provider(own: dict[str, Any], kind: str, config: dict[str, str]) -> Any:
    """Return what gives credentials, where the store's own ways are not enough."""
    if own["credential_provider"]:
        module, _, name = own["credential_provider"].partition(":")
        return getattr(importlib.import_module(module), name)
    profile = own["profile"] or (os.environ.get("AWS_PROFILE") if kind == "s3" else None)
    given = {"access_key_id", "aws_access_key_id", "skip_signature"} & config.keys()
    if not profile or given or kind != "s3":
        return None
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError:
        raise MissingLibraryError(
            f"the profile {profile!r} is read with boto3, which is not installed",
            advice="pip install boto3, or give access_key_id and secret_access_key",
        ) from None
    session = boto3.Session(profile_name=profile)
    if session.region_name:
        config.setdefault("region", session.region_name)
    return Boto3CredentialProvider(session)
