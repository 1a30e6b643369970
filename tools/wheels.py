"""Build a wheel for each kind of Linux, check it, and install those that run on this machine.

Law
---
1. setup.py alone says how the core is built. Here it is given another `cargo`: cargo-zigbuild,
   which links with the oldest C library of a kind (zig brings all of them).
2. All tools come from PyPI, into a temporary environment; rustup adds the targets that are
   missing.
3. A kind that cannot be built, or fails a check, makes the whole run fail. A wheel that this
   machine cannot run is named as such.

Usage: wheels.py OUT [--kinds KIND ...]; a Python without a GIL builds wheels for itself.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TOOLS = (
    "abi3audit>=0.0.26", "auditwheel>=6.1", "build>=1.2", "cargo-zigbuild>=0.20",
    "check-wheel-contents>=0.6", "cmake>=3.20", "ninja>=1.11", "setuptools>=77",
    "setuptools-rust>=1.12", "twine>=6.0", "ziglang>=0.13",
)  # fmt: skip
#: W002: the stub package is a copy of the face (setup.py). W009: it stands beside the package.
EXPECTED = "W002,W009"
#: A Python without a GIL lacks the limited API: the wheels that it builds are for it alone.
FREE = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
VERSION = "{}.{}".format(*sys.version_info)
ABI = f"cp{VERSION}-cp{VERSION}t".replace(".", "") if FREE else "cp310-abi3"
PYTHONS = [sys.executable] if FREE else [f"python3.{minor}" for minor in range(10, 16)]
#: Prints the libraries that the core in a wheel is linked with.
NEEDED = """
import io, sys, zipfile
from elftools.elf.elffile import ELFFile
wheel = zipfile.ZipFile(sys.argv[1])
(name,) = (one for one in wheel.namelist() if "/_core." in one and ".so" in one)
core = io.BytesIO(wheel.read(name))
tags = ELFFile(core).get_section_by_name(".dynamic").iter_tags("DT_NEEDED")
print(*(tag.needed for tag in tags))
"""
#: What stands for `cargo`: the builds of libraries go on to zig, everything else to cargo.
CARGO = """#!{python}
import os, sys
words = [{zig!r} if word == {rust!r} else word for word in sys.argv[1:]]
if words[:1] == ["rustc"]:
    os.execv({zigbuild!r}, ["cargo-zigbuild", *words])
os.execv({cargo!r}, ["cargo", *words])
"""


@dataclass(frozen=True)
class Kind:
    """A kind of wheel."""

    #: The platform as its file name has it.
    tag: str
    machine: str
    rust: str
    #: The same with the version of its C library.
    zig: str
    flags: str = ""


KINDS = {
    kind.tag: kind
    for kind in (
        Kind("manylinux_2_17_x86_64", "x86_64", "x86_64-unknown-linux-gnu",
             "x86_64-unknown-linux-gnu.2.17"),
        Kind("manylinux_2_17_aarch64", "aarch64", "aarch64-unknown-linux-gnu",
             "aarch64-unknown-linux-gnu.2.17"),
        # A library that Python loads cannot have a C library of its own.
        Kind("musllinux_1_2_x86_64", "x86_64", "x86_64-unknown-linux-musl",
             "x86_64-unknown-linux-musl", "-C target-feature=-crt-static"),
    )
}  # fmt: skip


class WheelError(RuntimeError):
    """A wheel is not as it has to be; the message says why."""


def run(*words: str | Path, where: Path | None = None, **environment: str) -> str:
    """Run a command and return what it prints, or raise `WheelError` with the end of it."""
    done = subprocess.run(
        list(map(str, words)), env={**os.environ, **environment}, cwd=where, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    if done.returncode:
        last = "\n".join(line[:300] for line in done.stdout.splitlines()[-20:])
        raise WheelError(f"{' '.join(map(str, words))} ended with {done.returncode}:\n{last}")
    return done.stdout


def build(kind: Kind, tools: Path, work: Path) -> Path:
    """Build the wheel of a kind from a copy of the checkout."""
    run("rustup", "target", "add", kind.rust)
    cargo = work / "cargo"
    cargo.write_text(
        CARGO.format(
            python=tools / "python", zig=kind.zig, rust=kind.rust,
            zigbuild=str(tools / "cargo-zigbuild"), cargo=shutil.which("cargo"),
        )
    )  # fmt: skip
    cargo.chmod(0o755)
    source, made = work / "source", work / "made"
    names = run("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", where=ROOT)
    for name in filter(None, names.split("\0")):
        to = source / name
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, to)
    run(
        tools / "python", "-m", "build", "--wheel", "--no-isolation", "--outdir", made, source,
        PATH=f"{tools}:{os.environ['PATH']}",
        CARGO=str(cargo),
        CARGO_BUILD_TARGET=kind.rust,
        CARGO_PROFILE_RELEASE_STRIP="symbols",
        CARGO_TARGET_DIR=str(work / "target"),
        CARGO_ZIGBUILD_PYTHON_PATH=str(tools / "python"),
        PYO3_CROSS_PYTHON_VERSION=f"{VERSION}t" if FREE else "3.10",
        RUSTFLAGS=kind.flags,
        # distutils makes the platform of the wheel of it.
        _PYTHON_HOST_PLATFORM=kind.tag.removesuffix(f"_{kind.machine}") + f"-{kind.machine}",
    )  # fmt: skip
    (wheel,) = made.glob("*.whl")
    return wheel


def check(kind: Kind, wheel: Path, tools: Path) -> None:
    """Raise `WheelError` if a wheel needs more than its name says, or lacks something."""
    if not wheel.name.endswith(f"-{ABI}-{kind.tag}.whl"):
        raise WheelError(f"{wheel.name} is of another kind (expected {kind.tag})")
    if "musl" in kind.tag:  # auditwheel would look into the C library of this machine
        needed = run(tools / "python", "-c", NEEDED, wheel).split()
        if needed != ["libc.so"]:
            raise WheelError(f"{wheel.name} needs {needed} (expected musl's libc.so alone)")
    else:
        shown = " ".join(run(tools / "auditwheel", "show", wheel).split())
        if f'"{kind.tag}"' not in shown:
            raise WheelError(f"{wheel.name} is not consistent with {kind.tag}: {shown}")
    if not FREE:
        run(tools / "abi3audit", "--strict", wheel)
    run(tools / "twine", "check", "--strict", wheel)
    run(tools / "check-wheel-contents", "--ignore", EXPECTED, wheel)


def pythons() -> Iterator[Path]:
    """Yield the interpreters of this machine that a wheel is for."""
    for name in PYTHONS:
        found = shutil.which(name)
        works = (
            found
            and not subprocess.run(
                [found, "-c", "import venv, ensurepip"], capture_output=True, check=False
            ).returncode
        )
        if found and works:
            yield Path(found)


def use(wheel: Path, python: Path, work: Path) -> str:
    """Install a wheel in a fresh environment, and run the README's example; return its version."""
    environment = work / python.name
    run(python, "-m", "venv", environment)
    ours = environment / "bin" / "python"
    install = ours, "-m", "pip", "install", "--quiet", "--only-binary", ":all:"
    run(*install, wheel)
    run(ours, "-W", "error", "-c", "import multitables; multitables.build_info()", where=work)
    run(*install, f"{wheel}[h5py]")
    example = work / "example.py"
    example.write_text(run(ours, ROOT / ".ci" / "readme.py", ROOT / "README.rst", "example"))
    run(ours, "-W", "error", example, where=work)
    return run(ours, "--version").strip()


def main() -> None:
    """Build, check and use the wheels that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, help="the folder of the wheels")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    failed = False
    with tempfile.TemporaryDirectory(prefix="multitables-wheels-") as folder:
        work = Path(folder)
        run(sys.executable, "-m", "venv", work / "tools")
        tools = work / "tools" / "bin"
        run(tools / "python", "-m", "pip", "install", "--quiet", *TOOLS)
        for name in given.kinds:
            own = work / name
            own.mkdir()
            try:
                wheel = build(KINDS[name], tools, own)
                check(KINDS[name], wheel, tools)
                print(f"{wheel.name}: {wheel.stat().st_size / 1e6:.1f} MB, checked", flush=True)
                if KINDS[name].machine == platform.machine() and "musl" not in name:
                    for python in pythons():
                        print(f"  used by {use(wheel, python, own)}", flush=True)
                else:
                    print("  not used: no Python of its kind is on this machine", flush=True)
                shutil.copy2(wheel, given.out)
            except WheelError as error:
                failed = True
                print(f"{name}: {error}", flush=True)
            shutil.rmtree(own, ignore_errors=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
