"""The file of datasets of many kinds, and its two handles.

Law: written once for each file of tests; `both` is ours beside h5py's.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from pathlib import Path

import handle_datasets
import pytest
from handle_oracle import Both


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return handle_datasets.write(tmp_path_factory.mktemp("handle") / "data.h5")


@pytest.fixture
def both(path: Path) -> Iterator[Both]:
    with Both(path) as both:
        yield weakref.proxy(both)  # pytest keeps what it is given beyond the audit
    del both
