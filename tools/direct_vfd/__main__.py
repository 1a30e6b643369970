"""Build HDF5 with its direct VFD, and PyTables, h5py and the old release over it, in one directory.

Law
---
1. Sources come from cargo's and pip's registries by version. A crate whose digest differs from the
   one below is not built.
2. Nothing outside PREFIX is written. `ready.json` appears last, after everything that was built has
   read a file with O_DIRECT and found the right values. It holds the versions.
3. A finished build of the same recipe is kept; any other one is made from the start.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import hashlib
import importlib.metadata
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

# crate -> its version and digest; the first carries HDF5 1.14.6, the second zlib
CRATES = {
    "hdf5-metno-src": ("0.9.5", "36b0303729f84fb0f2dc510d28b64cb716fb13e6a139a17e88db329123ecff82"),
    "libz-sys": ("1.1.31", "ff20308ecabd635a2dc1dd5834a86c462cca20efba1d5d3ddab1f8aea3455cb2"),
}
PYTHONS = ("3.11", "3.10")  # with 3.12, the old release fails while it reads, and hangs
# the old release needs names that NumPy 2 and wrapt 1.15 removed
PACKAGES = ("multitables==2.0.1", "tables<3.11", "h5py>=3.12,<4", "numpy<2", "wrapt<1.15")
BUILD_CONSTRAINT = "blosc2<3.1"  # PyTables 3.10 does not build with a later one
OPTIONS = (
    *("CMAKE_BUILD_TYPE=Release", "BUILD_SHARED_LIBS=ON", "BUILD_STATIC_LIBS=OFF"),
    *("BUILD_TESTING=OFF", "HDF5_BUILD_TOOLS=OFF", "HDF5_BUILD_UTILS=OFF"),
    *("HDF5_BUILD_EXAMPLES=OFF", "HDF5_BUILD_CPP_LIB=OFF", "HDF5_BUILD_HL_TOOLS=OFF"),
    *("HDF5_ENABLE_DIRECT_VFD=ON", "HDF5_ENABLE_SZIP_SUPPORT=OFF", "HDF5_ENABLE_Z_LIB_SUPPORT=ON"),
    "CMAKE_SHARED_LINKER_FLAGS=-Wl,--exclude-libs,libz.a",  # the interpreter has another zlib
)
LAST_LINES = 12


class BuildError(RuntimeError):
    """The build cannot go on; the message says why, and what to do."""


def run(log: Path, *words: str, cwd: Path | None = None, **environment: str) -> None:
    """Run a command with its output in the log; `environment` is added to that of this process."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    with open(log, "a") as file:
        print(f"$ {shlex.join(words)}", file=file, flush=True)
        try:
            done = subprocess.run(
                words, cwd=cwd, env={**own, **environment}, stdout=file, stderr=file, check=False
            )
            ended = f"ended with status {done.returncode}"
        except OSError as error:
            done, ended = None, f"did not start: {error}"
    if done is None or done.returncode:
        tail = "\n    ".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])
        raise BuildError(
            f"{shlex.join(words)} {ended} (expected 0). Nothing outside {str(log.parent)!r} was "
            f"changed. The last lines of {str(log)!r}:\n    {tail}\nIt needs a C compiler, cmake's "
            "wheel, cargo, and the registries of pip and cargo. Mend that, and run this again."
        )


def suitable_python(asked: str | None) -> str:
    """An interpreter that the old release works with, and that can make environments."""
    script = "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"
    candidates = [asked] if asked else [sys.executable, *(f"python{one}" for one in PYTHONS)]
    for python in candidates:
        with contextlib.suppress(OSError):  # pyenv's stand-ins may not run
            done = subprocess.run(
                [python, "-c", script], capture_output=True, text=True, check=False
            )
            if done.stdout.strip() in PYTHONS:
                return python
    raise BuildError(
        f"none of {', '.join(candidates)} is Python {' or '.join(PYTHONS)} with venv, and the old "
        "release works with no other. Nothing was changed. Name one with --python."
    )


def fetched(build: Path, log: Path) -> Path:
    """The directory with the crates' sources, whose digests are compared."""
    (build / "src").mkdir(parents=True)
    (build / "src" / "lib.rs").touch()
    wanted = "".join(f'{name} = "={version}"\n' for name, (version, _) in CRATES.items())
    package = '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
    (build / "Cargo.toml").write_text(f"{package}[dependencies]\n{wanted}")
    run(log, "cargo", "vendor", "--quiet", "vendor", cwd=build)
    for name, (version, digest) in CRATES.items():
        found = json.loads((build / "vendor" / name / ".cargo-checksum.json").read_text())
        if found["package"] != digest:
            raise BuildError(
                f"the crate {name} {version} has the digest {found['package']} (expected "
                f"{digest}). Nothing was built. See that cargo uses crates.io."
            )
    return build / "vendor"


def build_hdf5(prefix: Path, build: Path, log: Path, jobs: int) -> None:
    """Zlib into a static library, then HDF5 over it."""
    sources, zlib = fetched(build, log), build / "zlib"
    origin = sources / "libz-sys" / "src" / "zlib"
    shutil.copytree(origin, zlib)
    files = sorted(path.name for path in zlib.glob("*.c") if not path.name.startswith("gz"))
    run(log, *shlex.split(os.environ.get("CC", "cc")), "-O3", "-fPIC", "-c", *files, cwd=zlib)
    objects = [name.replace(".c", ".o") for name in files]
    run(log, "ar", "rcs", "libz.a", *objects, cwd=zlib)
    (header,) = glob.glob(f"{sources}/hdf5-metno-src/**/src/H5public.h", recursive=True)
    cmake, made = str(prefix / "venv" / "bin" / "cmake"), str(build / "hdf5")
    places = [f"CMAKE_INSTALL_PREFIX={prefix}/hdf5", f"CMAKE_INSTALL_LIBDIR={prefix}/hdf5/lib"]
    places += [f"ZLIB_INCLUDE_DIR={zlib}", f"ZLIB_LIBRARY={zlib}/libz.a"]
    flags = [f"-D{one}" for one in (*OPTIONS, *places)]
    run(log, cmake, "-S", str(Path(header).parent.parent), "-B", made, *flags)
    run(log, cmake, "--build", made, "--parallel", str(jobs), "--target", "install")


def build_all(prefix: Path, python: str, jobs: int) -> None:
    """Everything, in a prefix that is emptied before."""
    build, log, interpreter = (
        prefix / "build",
        prefix / "build.log",
        str(prefix / "venv/bin/python"),
    )
    prefix.mkdir(parents=True, exist_ok=True)
    if any(prefix.iterdir()) and not log.exists():
        raise BuildError(
            f"{str(prefix)!r} holds something else. Nothing was changed. Empty it first."
        )
    log.write_text("")
    for name in ("hdf5", "venv", "build"):
        shutil.rmtree(prefix / name, ignore_errors=True)
    build.mkdir()
    run(log, python, "-m", "venv", str(prefix / "venv"))
    run(log, interpreter, "-m", "pip", "install", "cmake>=3.26")
    build_hdf5(prefix, build, log, jobs)
    constraint = build / "constraints.txt"
    constraint.write_text(f"{BUILD_CONSTRAINT}\n")
    # never a wheel that pip kept of another HDF5
    pip = (interpreter, "-m", "pip", "install", "--no-cache-dir", "--no-binary", "tables,h5py")
    run(
        log,
        *(*pip, *PACKAGES),
        HDF5_DIR=str(prefix / "hdf5"),
        CFLAGS="-g0",  # which compiles faster
        LDFLAGS=f"-Wl,-rpath,{prefix}/hdf5/lib",
        PIP_CONSTRAINT=str(constraint),
        PIP_BUILD_CONSTRAINT=str(constraint),  # pip 25.3 has two of them
    )
    shutil.rmtree(build)


def versions(prefix: Path) -> dict[str, str]:
    """Have the private interpreter read a file with O_DIRECT, and say which versions did."""
    words = [str(prefix / "venv/bin/python"), "-I", __file__, str(prefix), "--check"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)
    if done.returncode:
        raise BuildError(
            f"everything is built, but reading with H5FD_DIRECT failed: {done.stderr.strip()}\n"
            "If the file system refuses O_DIRECT, give a PREFIX on a disk; else remove PREFIX."
        )
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def need_direct(filename: str) -> None:
    """Raise unless this process has the file open with O_DIRECT and in no other way (proc(5))."""
    flags = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.path.samefile(f"/proc/self/fd/{number}", filename):
                words = Path(f"/proc/self/fdinfo/{number}").read_text().split()
                flags.append(int(words[words.index("flags:") + 1], 8))
    assert flags, "the file is not open"
    assert all(one & os.O_DIRECT for one in flags), "the file was opened without O_DIRECT"


def check(directory: str) -> None:
    """Be the private interpreter: have everybody read a file through the direct VFD."""
    import h5py
    import numpy as np
    import tables

    import multitables

    values = np.random.default_rng(5).normal(size=(3000, 64))
    filters = {"none": None, "zlib": tables.Filters(3, "zlib"), "blosc": tables.Filters(5, "blosc")}
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        filename = os.path.join(scratch, "check.h5")
        with tables.open_file(filename, "w") as file:
            for name, one in filters.items():
                file.create_carray("/", name, obj=values, filters=one)
        with tables.open_file(filename, driver="H5FD_DIRECT") as file:
            need_direct(filename)
            for name in filters:
                assert np.array_equal(file.get_node(f"/{name}")[:], values), f"PyTables, {name}"
        with h5py.File(filename, "r", driver="direct") as file:
            need_direct(filename)
            for name in ("none", "zlib"):
                assert np.array_equal(file[name][:], values), f"h5py, {name}"
        streamer = multitables.Streamer(filename, DRIVER="H5FD_DIRECT")
        queue, rows = streamer.get_queue("/none", n_procs=1, remainder=True), []
        for guard in queue.iter():
            with guard as block:
                rows.append(np.array(block))
        queue.close()
        assert np.array_equal(np.concatenate(rows), values), "multitables"
    found = {"HDF5": tables.hdf5_version, "PyTables": tables.__version__, "h5py": h5py.__version__}
    print(json.dumps({**found, "multitables": importlib.metadata.version("multitables")}))


def main(words: list[str] | None = None) -> int:
    """Build what is not built; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python tools/direct_vfd",
        description="Builds HDF5 with its direct VFD, and PyTables, h5py and the old release over "
        "it. It needs a C compiler, cargo, the registries of pip and cargo, and about ten minutes.",
    )
    parser.add_argument("prefix", metavar="PREFIX", help="directory, made when it is not there")
    parser.add_argument("--python", metavar="PATH", help=f"Python {' or '.join(PYTHONS)}")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    parser.add_argument("--check", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args(words)
    if arguments.check:
        status = 0
        try:
            check(arguments.prefix)
        except BaseException as error:  # noqa: BLE001  told to the parent, whatever it is
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            status = 1
        sys.stdout.flush()
        os._exit(status)  # the old release leaves threads behind that never end
    prefix = Path(arguments.prefix).resolve()
    ready, recipe = prefix / "ready.json", prefix / "recipe"
    text = f"{CRATES} {PACKAGES} {BUILD_CONSTRAINT} {OPTIONS} {prefix}"
    digest = hashlib.sha256(text.encode()).hexdigest()
    try:
        if not (ready.exists() and recipe.exists() and recipe.read_text() == digest):
            python = suitable_python(arguments.python)
            ready.unlink(missing_ok=True)
            print(f"building in {prefix}: some ten minutes of two cores ...", flush=True)
            build_all(prefix, python, arguments.jobs)
            recipe.write_text(digest)
        found = versions(prefix)
    except (BuildError, OSError) as error:
        print(f"direct_vfd: {error}", file=sys.stderr)
        return 1
    ready.write_text(json.dumps(found))
    print(
        f"H5FD_DIRECT works: {', '.join(map(' '.join, found.items()))}. Measure with: python "
        f"multitables_benchmark.py --driver hdf5-direct --direct_vfd {arguments.prefix}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
