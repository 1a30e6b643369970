"""Builds multitables: the Python sources and, through setuptools-rust, the core in core/.

Law
---
1. Metadata lives in pyproject.toml; this file knows only how the native core is built.
2. It fetches nothing itself: pip brings the build requirements, cargo the crates of Cargo.lock.
3. The core is always optimised, in editable installs too: a slow build would be taken for a slow
   library.
4. A wheel carries the face a second time, as a stub package: type checkers look for types beside
   a package only (PEP 561), and the face is a module.
"""

import os
import shutil
import sys
import sysconfig

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools_rust import Binding, RustExtension

if not sys.platform.startswith("linux"):
    # said here, because cargo would say it in forty compiler errors
    sys.exit(
        f"multitables runs on Linux only, because its core shares memory and wakes threads by "
        f"calls of Linux's kernel, and this is {sys.platform!r}: use it on Linux, in a container, "
        f"or in WSL 2 on Windows. Nothing was built."
    )


if shutil.which("make") is None:  # a compiler often comes without, and pip has brought ninja
    os.environ.setdefault("CMAKE_GENERATOR", "Ninja")

#: Free-threaded CPython has no limited API up to 3.14; PyO3 leaves it out by itself there.
HAS_LIMITED_API = not sysconfig.get_config_var("Py_GIL_DISABLED")


class BuildPy(build_py):
    """Adds ``multitables-stubs``, whose only file is a copy of ``multitables.py``."""

    def _stub(self) -> str:
        return os.path.join(self.build_lib, "multitables-stubs", "__init__.pyi")

    def run(self) -> None:
        super().run()
        if not self.editable_mode:
            self.mkpath(os.path.dirname(self._stub()))
            self.copy_file("multitables.py", self._stub())

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        stubs = [] if self.editable_mode else [self._stub()]
        return [*super().get_outputs(include_bytecode), *stubs]


setup(
    cmdclass={"build_py": BuildPy},
    # one wheel for every CPython from 3.10, but for those without a GIL
    options={"bdist_wheel": {"py_limited_api": "cp310"}} if HAS_LIMITED_API else {},
    rust_extensions=[
        RustExtension(
            "_multitables._core",
            path="core/crates/python/Cargo.toml",
            binding=Binding.PyO3,
            py_limited_api=HAS_LIMITED_API,
            rust_version=">=1.85",  # as core/Cargo.toml says, but a clearer message
            debug=False,
            args=["--locked"],
        )
    ],
)
