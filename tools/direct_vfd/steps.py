"""What each step of the build does, and of which versions.

Law
---
1. It is the only home of versions. They go together: seen to build, and to run the old release
   over libhdf5's direct VFD, which is the published method.
2. A step may be done again over what an earlier try left. Its order and its key are `plan`'s.
"""

from __future__ import annotations

import glob
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from building import BuildError, Building, Work

HDF5_CRATE, HDF5_CRATE_VERSION, HDF5_VERSION = "hdf5-metno-src", "0.9.5", "1.14.6"
ZLIB_CRATE, ZLIB_CRATE_VERSION = "libz-sys", "1.1"
OLD_RELEASE = "2.0.1"
PYTHONS = ((3, 10), (3, 11))  # in 3.12 the old release fails while it reads, and hangs
CHECK_SECONDS = 120
CMAKE = "cmake>=3.26"
TABLES, H5PY = "tables<3.11", "h5py>=3.12,<4"
# PyTables 3.10 does not build with a later blosc2; the old release uses names that NumPy 2 and
# wrapt 1.15 took away
CONSTRAINTS = ("blosc2<3.1",)
RUNTIME = (f"multitables=={OLD_RELEASE}", "numpy<2", "wrapt<1.15")

INTERPRETER = os.path.join("venv", "bin", "python")

HDF5_OPTIONS = (
    "-DCMAKE_BUILD_TYPE=Release",
    "-DBUILD_SHARED_LIBS=ON",
    "-DBUILD_STATIC_LIBS=OFF",
    "-DBUILD_TESTING=OFF",
    "-DHDF5_BUILD_TOOLS=OFF",
    "-DHDF5_BUILD_UTILS=OFF",
    "-DHDF5_BUILD_EXAMPLES=OFF",
    "-DHDF5_BUILD_CPP_LIB=OFF",
    "-DHDF5_BUILD_HL_LIB=ON",  # PyTables and h5py use it
    "-DHDF5_BUILD_HL_TOOLS=OFF",
    "-DHDF5_ENABLE_DIRECT_VFD=ON",
    "-DHDF5_ENABLE_SZIP_SUPPORT=OFF",
    "-DHDF5_ENABLE_Z_LIB_SUPPORT=ON",
    "-DHDF5_ENABLE_ZLIB_SUPPORT=ON",  # as HDF5 2 calls it
    # the interpreter has another zlib
    "-DCMAKE_SHARED_LINKER_FLAGS=-Wl,--exclude-libs,libz.a",
)


@dataclass(frozen=True)
class Options:
    """What is asked for.

    Attributes
    ----------
    prefix : str
        Absolute.
    python : Interpreter
        What the virtual environment is made with.
    source : str or None
        Of HDF5, absolute; None is the crate's.
    source_identity : str
        Another one has HDF5 built again.
    """

    prefix: str
    python: Interpreter
    source: str | None
    source_identity: str
    jobs: int
    with_h5py: bool

    def path(self, *parts: str) -> str:
        """A path in the prefix."""
        return os.path.join(self.prefix, *parts)

    @property
    def interpreter(self) -> str:
        """Of the virtual environment."""
        return self.path(INTERPRETER)


# The actions


def fetch(options: Options, work: Work) -> None:
    """Have cargo bring what the crates carry, and unpack the source of HDF5 that was given."""
    wanted = {ZLIB_CRATE: ZLIB_CRATE_VERSION}
    if options.source is None:
        wanted[HDF5_CRATE] = f"={HDF5_CRATE_VERSION}"
    os.makedirs(work.path("fetch", "src"), exist_ok=True)
    with open(work.path("fetch", "Cargo.toml"), "w", encoding="utf-8") as file:
        file.write('[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n')
        file.write("[workspace]\n[dependencies]\n")
        file.writelines(f'{name} = "{version}"\n' for name, version in wanted.items())
    open(work.path("fetch", "src", "lib.rs"), "w").close()
    work.run("cargo", "vendor", "--quiet", work.path("vendor"), directory=work.path("fetch"))
    if options.source is not None:
        shutil.rmtree(work.path("source"), ignore_errors=True)
        if not os.path.isdir(options.source):
            unpack(options.source, work.path("source"))
        hdf5_source(options, work)


def unpack(archive: str, directory: str) -> None:
    """Unpack a tar or zip archive.

    Raises
    ------
    BuildError
    """
    if tarfile.is_tarfile(archive):
        with tarfile.open(archive) as tar:
            if hasattr(tarfile, "data_filter"):
                tar.extractall(directory, filter="data")
            else:
                tar.extractall(directory)
    elif zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(directory)
    else:
        raise BuildError(f"{archive!r} is neither a directory nor a tar or zip archive.")


def hdf5_source(options: Options, work: Work) -> str:
    """The directory of HDF5's CMakeLists.txt, however deep it was packed."""
    top = work.path("vendor", HDF5_CRATE)
    if options.source is not None:
        top = options.source if os.path.isdir(options.source) else work.path("source")
    for depth in ("", "*", os.path.join("ext", "hdf5"), os.path.join("*", "ext", "hdf5")):
        for header in glob.glob(os.path.join(glob.escape(top), depth, "src", "H5public.h")):
            found = os.path.dirname(os.path.dirname(header))
            if os.path.exists(os.path.join(found, "CMakeLists.txt")):
                return found
    raise work.fail(f"{options.source or top} holds no release source of HDF5 (src/H5public.h).")


def environment(options: Options, work: Work) -> None:
    """The virtual environment with cmake; Debian's is too old for HDF5."""
    work.run(options.python.path, "-m", "venv", "--clear", options.path("venv"))
    work.run(options.interpreter, "-m", "pip", "install", CMAKE)


def archive(work: Work, name: str, sources: Sequence[str], flags: Sequence[str], to: str) -> None:
    """Compile C sources into the static library `to`."""
    directory = work.path(name)
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    os.makedirs(os.path.dirname(to), exist_ok=True)
    compiler = os.environ.get("CC", "cc").split()
    commands = []
    for number, source in enumerate(sources):
        extra = ["-mavx2"] if source.endswith("-avx2.c") else []
        output = f"{number}.o"  # two sources may have one name
        commands.append([*compiler, "-O3", "-fPIC", *flags, *extra, "-c", source, "-o", output])
    work.run_all(commands, directory)
    with_objects = [f"{number}.o" for number in range(len(sources))]
    work.run("ar", "rcs", "lib.a", *with_objects, directory=directory)
    os.replace(os.path.join(directory, "lib.a"), to)


def zlib(options: Options, work: Work) -> None:
    """Zlib as the crate carries it, so that no headers need be installed."""
    source = work.path("vendor", ZLIB_CRATE, "src", "zlib")
    files = sorted(set(glob.glob(f"{source}/*.c")) - set(glob.glob(f"{source}/gz*.c")))
    os.makedirs(options.path("zlib", "include"), exist_ok=True)
    for header in ("zlib.h", "zconf.h"):
        shutil.copy(os.path.join(source, header), options.path("zlib", "include"))
    archive(work, "zlib", files, (), options.path("zlib", "lib", "libz.a"))


def hdf5(options: Options, work: Work) -> None:
    """HDF5 with its direct VFD."""
    cmake = options.path("venv", "bin", "cmake")
    shutil.rmtree(work.path("hdf5"), ignore_errors=True)
    shutil.rmtree(options.path("hdf5"), ignore_errors=True)
    work.run(
        cmake,
        *("-S", hdf5_source(options, work), "-B", work.path("hdf5")),
        f"-DCMAKE_INSTALL_PREFIX={options.path('hdf5')}",
        f"-DCMAKE_INSTALL_LIBDIR={options.path('hdf5', 'lib')}",  # lib64 for some
        f"-DZLIB_ROOT={options.path('zlib')}",
        *HDF5_OPTIONS,
    )
    with open(work.path("hdf5", "src", "H5pubconf.h"), encoding="utf-8") as file:
        settings = file.read()
    for wanted in ("H5_HAVE_DIRECT", "H5_HAVE_FILTER_DEFLATE"):
        if f"#define {wanted} 1" not in settings:
            raise work.fail(f"cmake left {wanted} out (see PREFIX/log/hdf5.log).")
    work.run(
        cmake,
        *("--build", work.path("hdf5"), "--parallel", str(options.jobs), "--target", "install"),
    )


def wheel_environment(options: Options, work: Work) -> dict[str, str]:
    """Of pip, when it builds over the private HDF5."""
    constraints = work.path("constraints.txt")
    with open(constraints, "w", encoding="utf-8") as file:
        file.writelines(f"{one}\n" for one in CONSTRAINTS)
    return {
        "HDF5_DIR": options.path("hdf5"),
        "BLOSC_DIR": options.path("blosc"),
        "CFLAGS": f"{os.environ.get('CFLAGS', '')} -g0".strip(),  # compiles faster
        "LDFLAGS": f"-Wl,-rpath,{options.path('hdf5', 'lib')}",
        "PIP_CONSTRAINT": constraints,
        "PIP_BUILD_CONSTRAINT": constraints,  # pip 25.3 has two of them
    }


def blosc(options: Options, work: Work) -> None:
    """The c-blosc that PyTables carries, once: its build compiles it into four modules anew."""
    for directory in ("sdist", "tables"):
        shutil.rmtree(work.path(directory), ignore_errors=True)
    work.run(
        *(options.interpreter, "-m", "pip", "download", "--no-deps", "--no-binary", "tables"),
        *("--dest", work.path("sdist"), TABLES),
        environment=wheel_environment(options, work),
    )
    (packed,) = glob.glob(work.path("sdist", "*.tar.gz"))
    unpack(packed, work.path("sdist"))
    os.rename(packed.removesuffix(".tar.gz"), work.path("tables"))
    carried = work.path("tables", "c-blosc")
    vector = platform.machine() == "x86_64"  # chosen by what the processor has, when it runs
    files = [
        name
        for pattern in ("blosc/*.c", "internal-complibs/*/*.c", "internal-complibs/*/*/*.c")
        for name in sorted(glob.glob(os.path.join(carried, pattern)))
        if vector or not name.endswith(("-avx2.c", "-sse2.c"))
    ]
    if not files:
        raise work.fail(f"{os.path.basename(packed)} carries no c-blosc.")
    flags = ["-DHAVE_LZ4", "-DHAVE_ZLIB", "-DHAVE_ZSTD", "-DZSTD_DISABLE_ASM=1"]
    flags += ["-DSHUFFLE_SSE2_ENABLED", "-DSHUFFLE_AVX2_ENABLED"] * vector
    included = ["blosc", "internal-complibs/*", "internal-complibs/zstd*/common"]
    for pattern in included:
        flags += [f"-I{name}" for name in glob.glob(os.path.join(carried, pattern))]
    os.makedirs(options.path("blosc", "include"), exist_ok=True)
    for header in ("blosc.h", "blosc-export.h"):
        shutil.copy(os.path.join(carried, "blosc", header), options.path("blosc", "include"))
    archive(work, "blosc", files, flags, options.path("blosc", "lib", "libblosc.a"))


def wheel(options: Options, work: Work, name: str, words: Sequence[str]) -> None:
    """Build the wheel of a package over the private HDF5, never one that pip kept of another."""
    shutil.rmtree(work.path("wheels", name), ignore_errors=True)
    work.run(
        *(options.interpreter, "-m", "pip", "wheel", "--no-deps", "--no-cache-dir", "--verbose"),
        *("--wheel-dir", work.path("wheels", name), *words),
        environment=wheel_environment(options, work),
    )


def pytables(options: Options, work: Work) -> None:
    """PyTables from the source that `blosc` unpacked."""
    wheel(options, work, "tables", [work.path("tables")])


def h5py(options: Options, work: Work) -> None:
    """h5py."""
    wheel(options, work, "h5py", ["--no-binary", "h5py", H5PY])


def packages(options: Options, work: Work) -> None:
    """The wheels, and the old release on them."""
    work.run(
        *(options.interpreter, "-m", "pip", "install", "--force-reinstall", *RUNTIME),
        *sorted(glob.glob(work.path("wheels", "*", "*.whl"))),
        environment=wheel_environment(options, work),
    )


def check(options: Options, building: Building) -> dict[str, str]:
    """Read a file through the direct VFD; returns the versions that did.

    Raises
    ------
    BuildError
    """
    program = os.path.join(os.path.dirname(os.path.abspath(__file__)), "check.py")
    words = [options.interpreter, "-I", program, options.prefix]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=CHECK_SECONDS
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        done = subprocess.CompletedProcess(words, 1, "", str(error))
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
        raise BuildError(
            f"all is built, but reading with H5FD_DIRECT failed: {lines[-1]}. What was built is "
            "kept. If the file system refuses O_DIRECT, give a PREFIX on a disk; else remove "
            f"{building.marks} and run the same command again."
        )
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


# What is looked at before


def identity(source: str) -> str:
    """What changes when the source of HDF5 does.

    Raises
    ------
    BuildError
        There is none.
    """
    try:
        status = os.stat(source)
    except OSError as error:
        raise BuildError(f"--source cannot be read: {error}. Give a release of HDF5.") from error
    return f"{status.st_size} {status.st_mtime_ns}"


class Interpreter(NamedTuple):
    """A Python: its version, and the program itself, of which environments can be made."""

    version: tuple[int, int]
    path: str


def suitable_python(asked: str | None, present: str) -> Interpreter:
    """An interpreter that the recipe fits.

    It is the one asked for, or that of the environment that is `present`, so that another that runs
    this program has nothing built again, or the first found.

    Raises
    ------
    BuildError
        It does not fit, or there is none.
    """
    names = [f"python{major}.{minor}" for major, minor in reversed(PYTHONS)]
    candidates = [asked] if asked else [present, sys.executable, *names]
    for candidate in candidates:
        path = shutil.which(candidate)
        found = path and interpreter_of(path)
        if found and PYTHONS[0] <= found.version <= PYTHONS[1]:
            return found
    low, high = (".".join(map(str, version)) for version in PYTHONS)
    raise BuildError(
        f"no Python {low} to {high} among {', '.join(candidates)}: multitables {OLD_RELEASE} works "
        "with no other. Nothing was changed. Install one (with venv), "
        "and name it with --python."
    )


def interpreter_of(path: str) -> Interpreter | None:
    """What `path` is; None when it does not run (pyenv's stand-ins may not) or has no venv."""
    script = (
        "import os, sys, venv, ensurepip\n"
        "print(*sys.version_info[:2], os.path.realpath(sys.executable))"
    )
    try:
        done = subprocess.run(
            [path, "-I", "-c", script], capture_output=True, text=True, check=True
        )
        major, minor, itself = done.stdout.strip().split(maxsplit=2)
    except (OSError, subprocess.CalledProcessError, ValueError):
        return None
    return Interpreter((int(major), int(minor)), itself)
