"""Build HDF5 as no wheel has it, and Python packages over it, in one directory.

Law
---
1. Sources come from cargo's and pip's registries by version. A crate whose digest differs from the
   one below is not built.
2. Nothing outside PREFIX is written. `ready.json` appears last, after everything that was built has
   read a file with it and found the right values. It holds the versions.
3. A finished build of the same recipe is kept; any other one is made from the start.
4. Kinds differ in their recipes and in `check_KIND.py`, which the private interpreter runs.
"""

from __future__ import annotations

import argparse
import contextlib
import glob
import hashlib
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# crate -> its version and digest; the first carries HDF5 1.14.6, the second zlib
CRATES = {
    "hdf5-metno-src": ("0.9.5", "36b0303729f84fb0f2dc510d28b64cb716fb13e6a139a17e88db329123ecff82"),
    "libz-sys": ("1.1.31", "ff20308ecabd635a2dc1dd5834a86c462cca20efba1d5d3ddab1f8aea3455cb2"),
}
# the same with HDF5 2.2.0, the newest that cargo's registry has
NEWEST_CRATES = {
    **CRATES,
    "hdf5-metno-src": (
        "0.10.4",
        "69c883c565498492954e344c482f8622525e58c7a71100dd9498c4940da82885",
    ),
}
OPTIONS = (
    *("CMAKE_BUILD_TYPE=Release", "BUILD_SHARED_LIBS=ON", "BUILD_STATIC_LIBS=OFF"),
    *("BUILD_TESTING=OFF", "HDF5_BUILD_TOOLS=OFF", "HDF5_BUILD_UTILS=OFF"),
    *("HDF5_BUILD_EXAMPLES=OFF", "HDF5_BUILD_CPP_LIB=OFF", "HDF5_BUILD_HL_TOOLS=OFF"),
    *("HDF5_ENABLE_SZIP_SUPPORT=OFF", "HDF5_ENABLE_Z_LIB_SUPPORT=ON"),
    "CMAKE_SHARED_LINKER_FLAGS=-Wl,--exclude-libs,libz.a",  # the interpreter has another zlib
)
LAST_LINES = 12
CHECK_SECONDS = 120


@dataclass(frozen=True)
class Recipe:
    """What one kind of build needs beside HDF5's sources.

    Attributes
    ----------
    driver : str
        The purpose of the build, as messages name it.
    minutes : str
        How long two cores take.
    newest, pythons : tuple of int, str
        The last Python that fits, and the same in words.
    tools : tuple of str
        What pip installs before HDF5 is built.
    option : str
        HDF5's, for cmake.
    packages, constraint : tuple of str, str
        What pip installs afterwards, and what limits its builds.
    environment : tuple of pairs
        Variables for cmake and pip, and when the driver is tried.
    start : tuple of str
        What runs `check_KIND.py`, from the private environment.
    hint : str
        What may help when that fails.
    use : str
        How to use what was built.
    crates : mapping
        Where the sources come from. Those of another HDF5 change no digest of the other recipes.
    """

    driver: str
    minutes: str
    newest: tuple[int, int]
    pythons: str
    tools: tuple[str, ...]
    option: str
    packages: tuple[str, ...]
    constraint: str
    environment: tuple[tuple[str, str], ...]
    start: tuple[str, ...]
    hint: str
    use: str
    crates: Mapping[str, tuple[str, str]] = field(default_factory=lambda: CRATES, repr=False)


RECIPES = {
    "direct": Recipe(
        driver="H5FD_DIRECT",
        minutes="ten",
        newest=(3, 11),  # with 3.12, the old release fails while it reads, and hangs
        pythons="Python 3.10 or 3.11 with venv, and the old release works with no other",
        tools=("cmake>=3.26", "ninja>=1.11"),
        option="HDF5_ENABLE_DIRECT_VFD=ON",
        # the old release needs names that NumPy 2 and wrapt 1.15 removed
        packages=("multitables==2.0.1", "tables<3.11", "h5py>=3.12,<4", "numpy<2", "wrapt<1.15"),
        constraint="blosc2<3.1",  # PyTables 3.10 does not build with a later one
        environment=(),
        start=("python", "-I"),
        hint="If the file system refuses O_DIRECT, give a PREFIX on a disk",
        use="Measure with: python multitables_benchmark.py --driver hdf5-direct --direct_vfd {}",
    ),
    "mpi": Recipe(
        driver="mpio",
        minutes="four",
        newest=(3, 99),
        pythons="Python 3.10 or later with venv",
        tools=("cmake>=3.26", "ninja>=1.11", "openmpi>=5.0", "mpi4py>=4.0"),
        option="HDF5_ENABLE_PARALLEL=ON",
        packages=("h5py>=3.12,<4", "numpy", "hdf5plugin>=5.0"),
        constraint="",
        environment=(
            *(("CC", "mpicc"), ("HDF5_MPI", "ON")),
            *(("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")),
        ),
        start=(
            *("mpiexec", "--oversubscribe", "--timeout", "100", "-n", "2"),
            *("python", "-I", "-m", "mpi4py"),  # so that a rank that fails ends the other
        ),
        hint="If mpiexec itself failed, `PREFIX/venv/bin/mpiexec -n 2 true` shows it alone",
        use="Use it with: {0}/venv/bin/mpiexec -n 2 {0}/venv/bin/python -m mpi4py PROGRAM",
    ),
    "newest": Recipe(
        driver="HDF5 2.2",
        minutes="four",
        newest=(3, 99),
        pythons="Python 3.10 or later with venv",
        tools=("cmake>=3.26", "ninja>=1.11"),
        option="HDF5_ENABLE_ZLIB_SUPPORT=ON",  # as HDF5 2 calls it
        packages=("h5py>=3.16,<4", "numpy", "hdf5plugin>=7.0"),
        constraint="",
        environment=(),
        start=("python", "-I"),
        hint="The filters that hdf5plugin brings may be built for another HDF5",
        use="Measure with: MULTITABLES_NEWEST_HDF5_PYTHON={}/venv/bin/python python "
        "multitables_benchmark.py --peers",
        crates=NEWEST_CRATES,
    ),
}


class BuildError(RuntimeError):
    """The build cannot go on; the message says why, and what to do."""


def run(
    log: Path, *words: str, cwd: Path | None = None, more: Mapping[str, str] | None = None
) -> None:
    """Run a command with its output in the log; `more` is added to this process's variables."""
    own = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    with open(log, "a") as file:
        print(f"$ {shlex.join(words)}", file=file, flush=True)
        try:
            done = subprocess.run(
                words, cwd=cwd, env={**own, **(more or {})}, stdout=file, stderr=file, check=False
            )
            ended = f"ended with status {done.returncode}"
        except OSError as error:
            done, ended = None, f"did not start: {error}"
    if done is None or done.returncode:
        tail = "\n    ".join(log.read_text(errors="replace").splitlines()[-LAST_LINES:])
        raise BuildError(
            f"{shlex.join(words)} {ended} (expected 0). Nothing outside {str(log.parent)!r} was "
            f"changed. The last lines of {str(log)!r}:\n    {tail}\nIt needs a C compiler, cargo, "
            "and the registries of pip and cargo. Mend that, and run this again."
        )


def suitable_python(asked: str | None, recipe: Recipe) -> str:
    """An interpreter that the packages work with, and that can make environments."""
    script = (
        "import sys, venv, ensurepip; "
        f"sys.exit(not (3, 10) <= sys.version_info[:2] <= {recipe.newest})"
    )
    candidates = [asked] if asked else [sys.executable, "python3.11", "python3.10"]
    for python in candidates:
        with contextlib.suppress(OSError):  # pyenv's stand-ins may not run
            done = subprocess.run([python, "-c", script], capture_output=True, check=False)
            if done.returncode == 0:
                return python
    raise BuildError(
        f"none of {', '.join(candidates)} is {recipe.pythons}. Nothing was changed. Name one with "
        "--python."
    )


def private(prefix: Path, recipe: Recipe) -> dict[str, str]:
    """The variables under which programs of the private environment come first."""
    path = os.pathsep.join([str(prefix / "venv" / "bin"), os.environ.get("PATH", os.defpath)])
    return {"PATH": path, **dict(recipe.environment)}


def fetched(build: Path, log: Path, crates: Mapping[str, tuple[str, str]]) -> Path:
    """The directory with the crates' sources, whose digests are compared."""
    (build / "src").mkdir(parents=True)
    (build / "src" / "lib.rs").touch()
    wanted = "".join(f'{name} = "={version}"\n' for name, (version, _) in crates.items())
    package = '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[workspace]\n'
    (build / "Cargo.toml").write_text(f"{package}[dependencies]\n{wanted}")
    run(log, "cargo", "vendor", "--quiet", "vendor", cwd=build)
    for name, (version, digest) in crates.items():
        found = json.loads((build / "vendor" / name / ".cargo-checksum.json").read_text())
        if found["package"] != digest:
            raise BuildError(
                f"the crate {name} {version} has the digest {found['package']} (expected "
                f"{digest}). Nothing was built. See that cargo uses crates.io."
            )
    return build / "vendor"


def build_hdf5(prefix: Path, recipe: Recipe, log: Path, jobs: int) -> None:
    """Zlib into a static library, then HDF5 over it."""
    build = prefix / "build"
    sources, zlib, made = fetched(build, log, recipe.crates), build / "zlib", str(build / "hdf5")
    shutil.copytree(sources / "libz-sys" / "src" / "zlib", zlib)
    files = sorted(path.name for path in zlib.glob("*.c") if not path.name.startswith("gz"))
    run(log, *shlex.split(os.environ.get("CC", "cc")), "-O3", "-fPIC", "-c", *files, cwd=zlib)
    objects = [name.replace(".c", ".o") for name in files]
    run(log, "ar", "rcs", "libz.a", *objects, cwd=zlib)
    (header,) = glob.glob(f"{sources}/hdf5-metno-src/**/src/H5public.h", recursive=True)
    places = [f"CMAKE_INSTALL_PREFIX={prefix}/hdf5", f"CMAKE_INSTALL_LIBDIR={prefix}/hdf5/lib"]
    places += [f"ZLIB_INCLUDE_DIR={zlib}", f"ZLIB_LIBRARY={zlib}/libz.a"]
    flags = [f"-D{one}" for one in (*OPTIONS, recipe.option, *places)]
    origin, own = str(Path(header).parent.parent), private(prefix, recipe)
    run(log, "cmake", "-G", "Ninja", "-S", origin, "-B", made, *flags, more=own)
    run(log, "cmake", "--build", made, "--parallel", str(jobs), "--target", "install", more=own)


def build_all(prefix: Path, recipe: Recipe, python: str, jobs: int) -> None:
    """Everything, in a prefix that is emptied before."""
    build, log, own = prefix / "build", prefix / "build.log", private(prefix, recipe)
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
    pip = (str(prefix / "venv" / "bin" / "python"), "-m", "pip", "install")
    run(log, *pip, *recipe.tools)
    build_hdf5(prefix, recipe, log, jobs)
    constraint = build / "constraints.txt"
    constraint.write_text(f"{recipe.constraint}\n")
    own |= {
        "HDF5_DIR": str(prefix / "hdf5"),
        "CFLAGS": "-g0",  # which compiles faster
        "LDFLAGS": f"-Wl,-rpath,{prefix}/hdf5/lib",
        "PIP_CONSTRAINT": str(constraint),
        "PIP_BUILD_CONSTRAINT": str(constraint),  # pip 25.3 has two of them
    }
    # never a wheel that pip kept of another HDF5
    built = ("--no-cache-dir", "--no-binary", "tables,h5py")
    run(log, *pip, *built, *recipe.packages, more=own)
    shutil.rmtree(build)


def versions(prefix: Path, kind: str) -> dict[str, str]:
    """Have the private interpreter read a file with the driver, and say which versions did."""
    recipe, done = RECIPES[kind], None
    script = str(Path(__file__).resolve().with_name(f"check_{kind}.py"))
    own = {**os.environ, **private(prefix, recipe)}
    with tempfile.TemporaryDirectory(dir=prefix) as scratch:
        words = [*recipe.start, script, scratch]
        with contextlib.suppress(subprocess.TimeoutExpired):
            done = subprocess.run(
                words, env=own, capture_output=True, text=True, check=False, timeout=CHECK_SECONDS
            )
    if done is None or done.returncode:
        said = f"it has not ended in {CHECK_SECONDS} s" if done is None else done.stderr.strip()
        raise BuildError(
            f"everything is built, but reading with {recipe.driver} failed: {said}\n"
            f"{recipe.hint}; else remove PREFIX."
        )
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def main(words: list[str] | None = None) -> int:
    """Build what is not built; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python tools/hdf5_build",
        description="Builds HDF5 and packages over it: with its direct VFD, and PyTables, h5py and "
        "the old release (direct), with MPI, and h5py (mpi), or the newest, and h5py (newest). It "
        "needs a C compiler, cargo, the registries of pip and cargo, and some minutes.",
    )
    parser.add_argument("kind", choices=RECIPES)
    parser.add_argument("prefix", metavar="PREFIX", help="directory, made when it is not there")
    parser.add_argument("--python", metavar="PATH", help="Python 3.10 or later; direct: until 3.11")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), metavar="N")
    arguments = parser.parse_args(words)
    recipe, prefix = RECIPES[arguments.kind], Path(arguments.prefix).resolve()
    ready, built = prefix / "ready.json", prefix / "recipe"
    digest = hashlib.sha256(f"{recipe.crates} {OPTIONS} {recipe} {prefix}".encode()).hexdigest()
    try:
        if not (ready.exists() and built.exists() and built.read_text() == digest):
            python = suitable_python(arguments.python, recipe)
            ready.unlink(missing_ok=True)
            print(
                f"building in {prefix}: some {recipe.minutes} minutes of two cores ...", flush=True
            )
            build_all(prefix, recipe, python, arguments.jobs)
            built.write_text(digest)
        found = versions(prefix, arguments.kind)
    except (BuildError, OSError) as error:
        print(f"hdf5_build: {error}", file=sys.stderr)
        return 1
    ready.write_text(json.dumps(found))
    which = ", ".join(map(" ".join, found.items()))
    print(f"{recipe.driver} works: {which}. {recipe.use.format(arguments.prefix)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
