"""The page of messages knows every exception.

1. Each public exception has a cause, and says what to do: where it is raised, or in its docstring.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import multitables

EXTENSIONS = Path(__file__).parents[2] / "docs" / "_ext"


def test_every_exception_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx", reason="the page is made with Sphinx")
    if not EXTENSIONS.is_dir():
        pytest.skip("an installation has no documentation")
    monkeypatch.setattr(sys, "path", [str(EXTENSIONS), *sys.path])
    import messages

    entries = {error.__name__: (causes, rows) for error, causes, rows in messages.entries()}
    public = {
        name
        for name in multitables.__all__
        if isinstance(value := getattr(multitables, name), type)
        and issubclass(value, multitables.MultitablesError)
    }
    assert public
    assert entries.keys() == public
    assert all(causes[0] and (causes[1:] or rows) for causes, rows in entries.values())
    said = [cure for _, rows in entries.values() for _, cure in rows]
    assert len(said) > 200


def test_an_exception_without_a_cure_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("sphinx", reason="the page is made with Sphinx")
    if not EXTENSIONS.is_dir():
        pytest.skip("an installation has no documentation")
    monkeypatch.setattr(sys, "path", [str(EXTENSIONS), *sys.path])
    import messages

    monkeypatch.setattr(multitables.StoreError, "__doc__", "A store failed.")
    with pytest.raises(ValueError, match="StoreError says nowhere what to do"):
        list(messages.entries())
