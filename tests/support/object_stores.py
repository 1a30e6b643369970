"""Object stores as obstore has them, and single HTTP requests.

Law
---
1. A store tries each request once unless a test asks for more, so a test sees each fault.
2. Requests of `http_request` are not signed, and each has a connection of its own.
"""

from __future__ import annotations

import http.client
import ssl
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from obstore.store import S3Store

from _multitables.benchmark.objects.server import S3Server


def s3_store(
    server: S3Server, endpoint: str, bucket: str, *, retries: int = 0, **options: Any
) -> S3Store:
    """A bucket at an endpoint, which is the server's or that of a proxy in front of it."""
    return S3Store(
        bucket,
        **{
            "endpoint": endpoint,
            "access_key_id": server.access_key,
            "secret_access_key": server.secret_key,
            "region": server.region,
            "client_options": {"allow_http": True, "timeout": "5s"},
            "retry_config": {"max_retries": retries},
            **options,
        },
    )


class Answer(NamedTuple):
    """What an HTTP server answers."""

    status: int
    headers: dict[str, str]
    body: bytes


def http_request(
    url: str,
    method: str = "GET",
    *,
    context: ssl.SSLContext | None = None,
    timeout_seconds: float = 5.0,
    **headers: str,
) -> Answer:
    """Ask once; names of headers are written with underscores."""
    place = urlsplit(url)
    connection: http.client.HTTPConnection
    if place.scheme == "https":
        connection = http.client.HTTPSConnection(
            place.netloc, timeout=timeout_seconds, context=context
        )
    else:
        connection = http.client.HTTPConnection(place.netloc, timeout=timeout_seconds)
    try:
        target = f"{place.path}?{place.query}" if place.query else place.path
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, target, headers=sent)
        answer = connection.getresponse()
        found = {name.lower(): value for name, value in answer.getheaders()}
        return Answer(answer.status, found, answer.read())
    finally:
        connection.close()
