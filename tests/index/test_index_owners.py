"""Saved indexes that another user may have written.

Law
---
1. Not used, with a warning: the file answers. A user who could replace the file may index it.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from saved_files import saved, small

import multitables
from _multitables.index.opened.open_files import open_file
from _multitables.index.saved import owners
from _multitables.index.saved.metadata import SavedMetadata
from multitables import FileOpenError, SavedIndexWarning

OTHER, THIRD = 12345, 12346
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "multitables"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "data").mkdir()
    small(tmp_path / "data" / "small.h5")
    return tmp_path / "data" / "small.h5"


def is_used(path: Path) -> bool:
    """Whether an index is; if not, there is a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        file = open_file(str(path))
    file.metadata.close()
    is_saved = isinstance(file.metadata, SavedMetadata)
    assert [one.category for one in caught] == [] if is_saved else [SavedIndexWarning]
    return is_saved


def renamed(index: Path) -> Path:
    return index.rename(index.with_name("elsewhere"))


def linked(index: Path) -> None:
    index.symlink_to(renamed(index))


def piped(index: Path) -> None:
    renamed(index)
    os.mkfifo(index)


CHANGES: dict[str, Callable[[Path], Any]] = {
    "link": linked,
    "pipe": piped,
    "group": lambda index: index.chmod(0o664),
    "others": lambda index: index.chmod(0o646),
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_others_may_have_put_beside_a_file(change: str, path: Path) -> None:
    path.chmod(0o644)
    index = saved(path)
    assert is_used(path)
    CHANGES[change](index)
    assert not is_used(path)


@pytest.mark.parametrize("change", CHANGES)
def test_what_others_may_have_put_into_the_cache(change: str, path: Path) -> None:
    index = Path(multitables.index_file(path, "cache", progress=False))
    assert is_used(path)
    CHANGES[change](index)
    assert not is_used(path)


def test_users_who_may_write_the_file_may_write_its_index(path: Path) -> None:
    path.chmod(0o664)
    saved(path).chmod(0o664)
    assert is_used(path)


@needs_root
def test_owners_beside_a_file(path: Path) -> None:
    index = saved(path)
    os.chown(index, OTHER, OTHER)
    assert not is_used(path)  # in a folder where they cannot replace the file
    path.parent.chmod(0o1777)
    assert not is_used(path)  # as in /tmp
    path.parent.chmod(0o775)
    assert is_used(path)  # of a group
    path.parent.chmod(0o755)
    os.chown(path, OTHER, OTHER)
    assert is_used(path)
    os.chown(path, THIRD, THIRD)
    assert not is_used(path)
    os.chown(path.parent, OTHER, OTHER)
    assert is_used(path)


@needs_root
def test_a_cache_directory_that_another_user_made_first(path: Path, cache: Path) -> None:
    index = Path(multitables.index_file(path, "cache", progress=False))
    os.chown(cache, OTHER, OTHER)
    assert not is_used(path)
    with pytest.raises(FileOpenError, match="its folder belongs to"):
        multitables.index_file(path, "cache", progress=False)
    os.chown(cache, 0, 0)
    os.chown(index, OTHER, OTHER)
    assert not is_used(path)
    cache.chmod(0o1777)
    os.chown(index, 0, 0)
    assert not is_used(path)


@needs_root
def test_a_cache_directory_of_roots_is_shared(path: Path, monkeypatch: Any) -> None:
    multitables.index_file(path, "cache", progress=False)
    monkeypatch.setattr(owners.os, "geteuid", lambda: OTHER)
    assert is_used(path)
    with pytest.raises(FileOpenError, match="its folder belongs to"):
        multitables.index_file(path, "cache", progress=False)


def test_a_directory_that_cannot_be_listed(path: Path) -> None:
    saved(path)
    path.parent.chmod(0o311)
    assert is_used(path)
    path.parent.chmod(0o755)
