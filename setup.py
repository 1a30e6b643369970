"""Builds multitables: the Python sources and, through setuptools-rust, the core in core/.

Law
---
1. Metadata lives in pyproject.toml; this file knows only how the native core is built.
2. It fetches nothing itself: pip brings the build requirements, cargo the crates of Cargo.lock.
3. The core is always optimised, in editable installs too: a slow build would be taken for a slow
   library.
"""

import sys

from setuptools import setup
from setuptools_rust import Binding, RustExtension

if not sys.platform.startswith("linux"):
    # said here, because cargo would say it in forty compiler errors (memfd, futex, io_uring)
    sys.exit(f"multitables runs on Linux only; this is {sys.platform!r}. Nothing was built.")

setup(
    options={"bdist_wheel": {"py_limited_api": "cp310"}},  # one wheel for every CPython from 3.10
    rust_extensions=[
        RustExtension(
            "_multitables._core",
            path="core/Cargo.toml",
            binding=Binding.PyO3,
            py_limited_api=True,
            rust_version=">=1.85",  # as core/Cargo.toml says, but a clearer message
            debug=False,
            args=["--locked"],
        )
    ],
)
