"""A real S3 server on 127.0.0.1, over a folder that is removed at its end.

Law
---
1. The server is versitygw, a program of its own; nothing is built or fetched here.
2. However the block ends, its process has ended and its objects are gone.
3. It is ready when it is given: it has answered.
"""

from __future__ import annotations

import http.client
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

from _multitables.benchmark.objects.closes import Closes

PROGRAM = "versitygw"
NAMED = "MULTITABLES_S3_SERVER"
START_SECONDS = 20.0
ATTEMPTS = 3  # a port that was free may be taken a moment later


class NoServerError(RuntimeError):
    """There is no S3 server to start, or it does not start; the message says what to do."""


def cache_folder() -> Path:
    """The default folder in which ``tools/s3_server.py`` builds the server."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "multitables" / "s3_server"


def find() -> str:
    """The server's program.

    Raises
    ------
    NoServerError
        No place has it.
    """
    named = os.environ.get(NAMED)
    found = shutil.which(named or PROGRAM)
    if found is None and not named:
        found = shutil.which(str(cache_folder() / PROGRAM))
    if found is None:
        places = named or f"the PATH or {str(cache_folder())!r}"
        raise NoServerError(
            f"no program {PROGRAM} in {places}. `python tools/s3_server.py` builds it there, in a "
            f"minute or two; the environment variable {NAMED} may name another."
        )
    return found


class S3Server(Closes):
    """A running server; a context manager.

    Parameters
    ----------
    folder : path
        A new folder in this one holds the objects, until the server ends.

    Attributes
    ----------
    endpoint : str
        ``http://127.0.0.1:port``. Buckets are addressed by path.
    access_key, secret_key, region : str
        What requests are signed with.
    """

    access_key = "multitables"
    secret_key = "only-on-this-machine"
    region = "us-east-1"

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        program = find()
        self._folder = Path(tempfile.mkdtemp(prefix="s3-", dir=folder))
        self._log = self._folder / "log"
        for name in ("objects", "metadata", "accounts"):
            (self._folder / name).mkdir()
        try:
            for _ in range(ATTEMPTS):
                self._start(program)
                if self._answers():
                    return
                self._end()
            raise NoServerError(
                f"{program} ended or did not answer on {self.endpoint} within {START_SECONDS:.0f} "
                f"s. Nothing is left of it. It said:\n{self._log.read_text(errors='replace')}"
            )
        except BaseException:
            self.close()
            raise

    @property
    def process(self) -> int:
        """Its process id."""
        return self._process.pid

    def make_bucket(self, name: str) -> None:
        """Make a bucket, which is empty. Names are as S3 has them: 3 to 63 of ``a-z0-9.-``."""
        (self._folder / "objects" / name).mkdir()

    def remove_bucket(self, name: str) -> None:
        """Remove a bucket with all its objects."""
        for inside in ("objects", "metadata"):
            shutil.rmtree(self._folder / inside / name, ignore_errors=True)

    def close(self) -> None:
        """End it, and remove its objects."""
        if hasattr(self, "_process"):
            self._end()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _start(self, program: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{port}"
        keys = {"ROOT_ACCESS_KEY": self.access_key, "ROOT_SECRET_KEY": self.secret_key}
        general = ["--port", f"127.0.0.1:{port}", "--region", self.region]
        general += ["--keep-alive", "--quiet"]
        # without a folder of accounts, an unknown key is answered by 404, not by 403 as S3 does
        general += ["--iam-dir", str(self._folder / "accounts")]
        metadata = [] if self._has_attributes() else ["--sidecar", str(self._folder / "metadata")]
        with open(self._log, "wb") as log:
            self._process = subprocess.Popen(
                [program, *general, "posix", *metadata, str(self._folder / "objects")],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **keys},
                start_new_session=True,  # Ctrl-C is for the parent, which ends it
            )

    def _has_attributes(self) -> bool:
        """Whether metadata can lie in extended attributes of files, which is faster."""
        try:
            os.setxattr(self._folder, "user.multitables", b"")
        except OSError:
            return False
        return True

    def _answers(self) -> bool:
        """Wait for an answer, whatever it is."""
        deadline = time.monotonic() + START_SECONDS
        address = self.endpoint.removeprefix("http://")
        while self._process.poll() is None and time.monotonic() < deadline:
            connection = http.client.HTTPConnection(address, timeout=START_SECONDS)
            try:
                connection.request("GET", "/")
                return connection.getresponse().getheader("Server") == "VERSITYGW"
            except OSError:
                time.sleep(0.005)
            finally:
                connection.close()
        return False

    def _end(self) -> None:
        self._process.kill()  # asked to end, it would wait for the idle connections of clients
        self._process.wait()
