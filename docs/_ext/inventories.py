"""The pages of other libraries, as far as this machine reaches them.

Law
---
1. A build without a network is a build without these links, and nothing else: it neither warns nor
   waits for each host.
"""

from __future__ import annotations

import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlsplit

SECONDS = 5.0


def answers(url: str) -> bool:
    """Whether the host of a URL takes a connection."""
    try:
        socket.create_connection((urlsplit(url).hostname, 443), timeout=SECONDS).close()
    except OSError:
        return False
    return True


def reachable(sites: dict[str, str]) -> dict[str, tuple[str, None]]:
    """Return the mapping of ``sphinx.ext.intersphinx`` for the sites that answer."""
    with ThreadPoolExecutor(len(sites)) as threads:
        known = list(threads.map(answers, sites.values()))
    return {
        name: (url, None)
        for (name, url), answer in zip(sites.items(), known, strict=True)
        if answer
    }


def forgive(record: logging.LogRecord) -> bool:
    """Let a site that answers without its inventory be a note, as Sphinx gives this no type."""
    if "inventor" in str(record.msg) and record.levelno == logging.WARNING:
        record.levelno, record.levelname = logging.INFO, "INFO"
    return True


logging.getLogger("sphinx.sphinx.ext.intersphinx").addFilter(forgive)
