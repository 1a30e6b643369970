"""Names of files: of this machine, or URLs of objects in stores.

Law
---
1. A name with one of `SCHEMES` and ``://`` is an object's; any other one is a file of this machine.
2. The query of an HTTP name, behind ``?``, may be a signature, and is never shown.

This file must never open anything.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re

#: Schemes -> what kind of store has such names.
SCHEMES = {
    "s3": "s3",
    "s3a": "s3",
    "gs": "gs",
    "gcs": "gs",
    "az": "az",
    "abfs": "az",
    "abfss": "az",
    "adl": "az",
    "azure": "az",
    "http": "http",
    "https": "http",
}
PORTS = {"http": "80", "https": "443"}
#: What cannot be read in two ways; other names of hosts belong to nobody.
_PLACE = (
    rf"(?P<scheme>{'|'.join(SCHEMES)})://(?P<user>[\w.-]+@)?"
    r"(?P<host>[\w.-]+|\[[0-9a-f:.]+\])(:(?P<port>[0-9]+))?(?=[/?]|\Z)"
)


def is_remote(name: object) -> bool:
    """Whether a name is that of an object in a store."""
    return isinstance(name, str) and "://" in name and name.split("://", 1)[0].lower() in SCHEMES


def kind_of(name: str) -> str:
    """Return the kind of store that has an object: a value of `SCHEMES`."""
    return SCHEMES[name.split("://", 1)[0].lower()]


def absolute(name: str) -> str:
    """Return the whole name of a file; that of an object without its query."""
    if not is_remote(name):
        whole = name
        if not name.startswith("/"):
            # The working directory may be removed, or a sandbox may hide it.
            with contextlib.suppress(OSError):
                whole = os.path.join(os.getcwd(), name)
        # What is before ".." may be a link, whose folder only the system knows.
        return whole if ".." in whole.split("/") else os.path.normpath(whole)
    return name.split("?", 1)[0] if kind_of(name) == "http" else name


def query_of(name: str) -> str:
    """Return the query of an HTTP name, behind ``?``."""
    return name.partition("?")[2] if is_remote(name) and kind_of(name) == "http" else ""


def joined(folder: str, name: str) -> str:
    """Return a name that counts from a folder, of this machine or of a store."""
    if is_remote(name) or not is_remote(folder):
        return name if is_remote(name) else os.path.join(folder, name)
    root, key = in_store(folder)
    path = posixpath.normpath(posixpath.join("/", key, name)).lstrip("/")
    return f"{root}/{path}"


def folder_of(name: str) -> str:
    """Return the folder of a file."""
    if not is_remote(name):
        return os.path.dirname(name)
    root, key = in_store(name)
    folder = posixpath.dirname(key)
    return f"{root}/{folder}" if folder else root


def owner_of(name: str) -> str:
    """Return whose server answers requests for an object: scheme, host and port; "" is nobody.

    Options and the environment, not names, say which host another store has: its kind is the owner.
    """
    found = re.match(_PLACE, name, re.IGNORECASE | re.ASCII)
    if found is None:
        return ""
    scheme, user, host, port = found.group("scheme", "user", "host", "port")
    if kind_of(name) != "http":
        return f"{kind_of(name)}://"
    return "" if user else f"{scheme}://{host}:{port or PORTS[scheme.lower()]}".lower()


def is_below(name: str, folder: str) -> bool:
    """Whether an object lies in a folder, or below it: in the same store, after "..", if any."""
    owner = owner_of(folder)
    if not (is_remote(folder) and owner and owner == owner_of(name)):
        return False
    (root, above), (other_root, key) = in_store(folder), in_store(absolute(name))
    is_same = kind_of(folder) == "http" or root == other_root
    from urllib.parse import unquote

    decoded = unquote(key) if kind_of(name) == "http" else key
    leaves = {".", ".."} & set(re.split(r"[/\\]", decoded))
    return is_same and not leaves and key.startswith(f"{above}/" if above else "")


def is_at(name: str, prefix: str) -> bool:
    """Whether an object is that of a prefix, or in its folder; a prefix has no slash at its end."""
    return absolute(name) == prefix or is_below(name, prefix)


def in_store(name: str) -> tuple[str, str]:
    """Return the root of an object's store, such as ``s3://bucket``, and its key there."""
    scheme, _, rest = name.partition("://")
    root, _, key = rest.partition("/")
    if kind_of(name) == "az" and scheme.lower() in ("az", "adl", "azure"):
        # az://container/key or, as obstore's names go, az://account/container/key
        return f"{scheme}://{root}", key
    return f"{scheme}://{root}", key
