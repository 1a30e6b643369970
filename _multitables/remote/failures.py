"""Failures of a store or of the network: named in the client, raised as one of our errors.

Law
---
1. `failure_of` makes a kind and a few words of an exception of obstore's; `store_error` makes an
   error of these, in another process perhaps.
2. Words of a store may repeat keys and signed names. Only its status and its code are passed on.

This file must never import obstore.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from _multitables.errors import FileChangedError, MissingFileError, MultitablesError, StoreError

#: A whole answer may take this many times the longest silence.
SLOW = 10


class StoreFailure(Exception):  # noqa: N818 - it becomes an error elsewhere
    """A kind of `KINDS`, and details; its text is both, for the core to carry."""

    def __init__(self, kind: str, details: str, was_repeated: bool = False) -> None:
        super().__init__(f"{kind}\n{details}")
        self.kind, self.details = kind, details
        #: obstore has repeated the request already.
        self.was_repeated = was_repeated


_AGAIN = "Try again later; storage_options has max_retries and retry_timeout_seconds"
_NETWORK = "Check the network, the endpoint and the proxy settings"
#: Kind -> the class, what happened, and what to do.
KINDS: dict[str, tuple[type[MultitablesError], str, str]] = {
    "missing": (MissingFileError, "there is no object {name!r}", "Check the name and the bucket"),
    "forbidden": (
        StoreError,
        "the store refuses {name!r} to these credentials",
        (
            "Check the credentials and the region in storage_options or the environment; "
            "anonymous=True asks without any, and request_payer=True pays for the request"
        ),
    ),
    "changed": (
        FileChangedError,
        "{name!r} changed after it was indexed",
        "Finish writing, then open it again",
    ),
    "range": (
        StoreError,
        "the store has no such range of {name!r}",
        "The object is shorter than it was: open it again",
    ),
    "no_ranges": (
        StoreError,
        "the server of {name!r} sends no ranges of objects",
        "Download the file, or have it served with support of the header Range",
    ),
    "region": (
        StoreError,
        "the store redirects without a place for {name!r}: its bucket may be in another region",
        "Give the region in storage_options or the environment variable AWS_REGION",
    ),
    "redirect": (
        StoreError,
        "the server of {name!r} redirects to where no request is sent",
        "Ask who runs it; or give the name that it leads to, if you trust that",
    ),
    "busy": (StoreError, "the store of {name!r} is busy or failing", _AGAIN),
    "short": (
        StoreError,
        "the store sent fewer bytes of {name!r} than it was asked for",
        "Something between here and the store cuts answers: check proxies",
    ),
    "cut": (StoreError, "answers for {name!r} break off", _NETWORK),
    "timeout": (
        StoreError,
        "the store of {name!r} does not answer in time",
        f"{_NETWORK}; storage_options has timeout_seconds",
    ),
    "certificate": (
        StoreError,
        "the certificate of the server of {name!r} is not trusted",
        (
            "Give the authority that signed it as a file, as storage_options['certificate'] or in "
            "the environment variable SSL_CERT_FILE"
        ),
    ),
    "unreachable": (StoreError, "the server of {name!r} is not reached", _NETWORK),
    "relay": (
        StoreError,
        "the process that asks the store of {name!r} for this fork does not run",
        "See whether the system allows one more process, or start this one by spawn, not fork",
    ),
    "options": (StoreError, "the store of {name!r} cannot be asked", "Check storage_options"),
    "failed": (StoreError, "the store failed for {name!r}", _AGAIN),
}

#: Kinds after which no other part of the object is given either.
OF_ALL = {
    "missing", "forbidden", "changed", "no_ranges", "region", "redirect", "certificate", "options",
}  # fmt: skip

#: Patterns in obstore's text -> the kind, for errors without a status. The first match counts.
_SAID = (
    (r"certificate|UnknownIssuer", "certificate"),
    (r"Range request not supported|non-partial response", "no_ranges"),
    (r"redirect without LOCATION", "region"),
    (r"timed out|TimedOut", "timeout"),
    (r"dns error|tcp connect error|ConnectionRefused", "unreachable"),
    (r"response body|IncompleteMessage|ConnectionReset|ConnectionAborted", "cut"),
    (r"content.?range", "short"),
    (r"Config error|must be specified|Invalid Access Key", "options"),
    (r"credential|metadata token|missing .*(key|account)", "forbidden"),
)
_STATUSES = {401: "forbidden", 403: "forbidden", 404: "missing", 412: "changed", 416: "range"}
_BY_TYPE = {
    "FileNotFoundError": "missing",
    "NotFoundError": "missing",
    "PermissionDeniedError": "forbidden",
    "UnauthenticatedError": "forbidden",
    "PreconditionError": "changed",
    "UnknownConfigurationKeyError": "options",
    "ValueError": "options",
    "PanicException": "options",
}


def of_status(number: int) -> StoreFailure:
    """Name what a status of HTTP is about."""
    other = "busy" if number in (408, 429) or number >= 500 else "failed"
    return StoreFailure(_STATUSES.get(number, other), f"HTTP status {number}")


def failure_of(error: BaseException) -> StoreFailure:
    """Name what an exception of obstore's is about."""
    text = str(error)
    status = re.search(r"status code: (\d{3})", text)
    kind = _BY_TYPE.get(type(error).__name__)
    details = []
    if status:
        by_status = of_status(int(status[1]))
        kind = kind or by_status.kind
        code = re.search(r"<Code>(\w+)</Code>", text)
        details.append(by_status.details + (f" {code[1]}" if code else ""))
    if kind is None:
        words = re.sub(r"https?://\S+", "", text)  # an object may have any name
        said = (kind for pattern, kind in _SAID if re.search(pattern, words, re.IGNORECASE))
        kind = next(said, "failed")
    if kind == "options":
        key = re.search(r"key: '?(\w+)'?", text)
        details.append(f"it knows no option {key[1]!r}" if key else "an option is wrong")
    retries = re.search(r"after ([1-9]\d*) retries", text)
    if retries:
        details.append(retries[0])
    return StoreFailure(kind, ", ".join(details), was_repeated=retries is not None)


def error_of(
    name: str, failure: StoreFailure, lost: Sequence[str], withheld: bool = False
) -> MultitablesError:
    """Compose the error for a failure in this process, where a pickle may have lost options.

    `withheld` says that the headers were for others than the owner of the object.
    """
    details = failure.details
    if withheld and failure.kind == "forbidden":
        details += f"{', ' if details else ''}the headers in storage_options are not sent to it: "
        details += "give them below the beginning of its name"
    if lost and failure.kind == "forbidden":
        details += f"{', ' if details else ''}not pickled: {', '.join(lost)}"
    return _composed(name, failure.kind, details, "", {})


def store_error(
    name: str, text: str, good: str = "", lost: str = "", **values: Any
) -> MultitablesError:
    """Compose the error for what the core carried: ``"module\\0type\\0kind\\ndetails"``.

    `good` says what stays good if a part of the object is not given, `lost` what is always lost.
    """
    kind_name, _, said = text.partition("\0")[2].partition("\0")
    kind, _, details = said.partition("\n")
    if kind_name != StoreFailure.__name__ or kind not in KINDS:
        kind, details = "failed", f"{kind_name}: {said.splitlines()[0] if said else ''}"
    return _composed(name, kind, details, lost if kind in OF_ALL else good, values)


def _composed(
    name: str, kind: str, details: str, good: str, values: dict[str, Any]
) -> MultitablesError:
    made, happened, advice = KINDS[kind]
    happened = happened.format(name=name) + (f" ({details})" if details else "")
    return made(happened, good=good, advice=advice, **{"filename": name, **values})
