"""Builds multitables: the Python sources and, through setuptools-rust, the core in core/.

Law
---
1. Metadata lives in pyproject.toml; this file knows only how the native core is built.
2. It fetches nothing itself: pip brings the build requirements, cargo the crates of Cargo.lock.
"""

from setuptools import setup
from setuptools_rust import Binding, RustExtension

setup(
    rust_extensions=[
        RustExtension(
            "_multitables._core",
            path="core/Cargo.toml",
            binding=Binding.PyO3,
            py_limited_api=True,
            debug=False,
            args=["--locked"],
        )
    ],
)
