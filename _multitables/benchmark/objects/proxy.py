"""A proxy in front of an HTTP server: it adds delays and faults, and logs each request.

Law
---
1. `relay` does the work in a process of its own, so that it takes no time from the caller.
2. Settings change at run time, for requests that begin afterwards.
"""

from __future__ import annotations

import dataclasses
import os
from typing import Any
from urllib.parse import urlsplit

from _multitables.benchmark.objects.closes import Closes
from _multitables.benchmark.objects.faults import Request, Settings
from _multitables.benchmark.objects.program import Program


class Proxy(Closes):
    """An HTTP/1.1 proxy on 127.0.0.1; a context manager.

    Parameters
    ----------
    server : str
        The endpoint that it passes requests on to, as ``http://127.0.0.1:9000``.
    tls : tuple of two paths, optional
        Files with the certificate (and its chain) and its key: clients speak HTTPS.
    **settings
        The first `Settings`.
    """

    def __init__(
        self,
        server: str,
        *,
        tls: tuple[str | os.PathLike[str], str | os.PathLike[str]] | None = None,
        **settings: Any,
    ) -> None:
        self._settings = Settings(**settings)
        files = [os.path.abspath(path) for path in tls or ()]
        self._program = Program(
            "_multitables.benchmark.objects.relay", urlsplit(server).netloc, *files
        )
        self.endpoint = f"{'https' if tls else 'http'}://127.0.0.1:{self._program.port}"
        self.set(**settings)

    @property
    def process(self) -> int:
        """The id of its process."""
        return self._program.process

    def set(self, **settings: Any) -> None:
        """Change some of the `Settings`; requests are counted from 0 for every fault."""
        self._settings = dataclasses.replace(self._settings, **settings)
        self._program.ask(settings=self._settings.as_json())

    def take_log(self) -> list[Request]:
        """The requests that were answered since the last call, in the order in which they came."""
        return [Request(**one) for one in self._program.ask(take_log=True)]

    def close(self) -> None:
        """End it, with all its connections."""
        self._program.close()
