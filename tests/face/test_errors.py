"""Exceptions: one grammar, the builtin types that people catch, pickle and copy.

1. Every public class is covered by enumeration; a new one joins by itself.
"""

from __future__ import annotations

import copy
import io
import json
import pickle
from typing import Any

import numpy as np
import pytest

import multitables
from _multitables.errors import MultitablesError, library_error

BUILTINS = {
    "AmplificationWarning": UserWarning,
    "ClosedError": ValueError,
    "CorruptChunkError": OSError,
    "CorruptChunkWarning": UserWarning,
    "CorruptFileError": OSError,
    "FileChangedError": OSError,
    "FileOpenError": OSError,
    "ImageError": OSError,
    "LeftOutWarning": UserWarning,
    "LibraryTimeoutError": TimeoutError,
    "LinkRefusedError": PermissionError,
    "MissingDatasetError": KeyError,
    "MissingAttributeError": KeyError,
    "MissingFieldError": KeyError,
    "MissingFileError": FileNotFoundError,
    "MissingFileWarning": UserWarning,
    "MissingFilterError": OSError,
    "MissingLibraryError": ImportError,
    "MissingVersionError": KeyError,
    "MultitablesError": Exception,
    "OptionsError": ValueError,
    "QueueClosedException": Exception,
    "ReadOnlyError": io.UnsupportedOperation,
    "ReaderDiedError": ChildProcessError,
    "SavedIndexWarning": UserWarning,
    "SelectionError": Exception,
    "SelectionIndexError": IndexError,
    "SelectionTypeError": TypeError,
    "SelectionValueError": ValueError,
    "SharedMemoryError": MemoryError,
    "SlowFilterWarning": UserWarning,
    "StageBusyError": RuntimeError,
    "StalledError": TimeoutError,
    "StoreError": OSError,
    "SubprocessException": Exception,
    "UnknownOptionError": TypeError,
    "UnsupportedDatasetError": ValueError,
}
CLASSES = [
    value
    for value in vars(multitables).values()
    if isinstance(value, type) and issubclass(value, BaseException)
]


def test_the_classes_are_all_here() -> None:
    assert {kind.__name__ for kind in CLASSES} == set(BUILTINS)
    for kind in CLASSES:
        assert issubclass(kind, BUILTINS[kind.__name__])
        assert issubclass(kind, multitables.MultitablesError)
    # 2.x raised any of these for what is closed, so programs may catch any of these.
    for base in (multitables.QueueClosedException, RuntimeError, ValueError):
        assert issubclass(multitables.ClosedError, base)
    for name in ("CorruptChunkError", "ReaderDiedError", "FileChangedError"):
        assert issubclass(getattr(multitables, name), multitables.SubprocessException)


@pytest.mark.parametrize("kind", CLASSES)
def test_the_grammar(kind: type[MultitablesError]) -> None:
    error = kind("it broke: here (expected 1, got 2)", good="The rest is good", advice="Mend it?")
    assert str(error) == "it broke: here (expected 1, got 2). The rest is good. Mend it?"
    assert str(kind("alone")) == "alone."
    assert str(kind("ends.", advice="Do this!")) == "ends. Do this!"
    assert (error.happened, error.good, error.advice) == (
        "it broke: here (expected 1, got 2)", "The rest is good", "Mend it?",
    )  # fmt: skip


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", CLASSES)
def test_pickle_and_copy(kind: type[MultitablesError], protocol: int) -> None:
    error = kind(
        "broke", good="good", advice="mend", filename="a.h5", expected=3, rows=(1, 2), errno=None
    )
    for twin in (
        pickle.loads(pickle.dumps(error, protocol)),
        copy.copy(error),
        copy.deepcopy(error),
    ):
        assert type(twin) is kind
        assert str(twin) == str(error) == "broke. good. mend."
        assert twin.args == error.args
        assert twin.values == error.values
        assert (twin.filename, twin.expected, twin.rows) == ("a.h5", 3, (1, 2))
        assert (twin.happened, twin.good, twin.advice) == ("broke", "good", "mend")
    assert "broke" in repr(error)


@pytest.mark.parametrize("kind", CLASSES)
def test_notes_and_causes(kind: type[MultitablesError]) -> None:
    error = kind("broke")
    with pytest.raises(kind, match="broke") as caught:
        raise error from ValueError("the cause")
    assert isinstance(caught.value.__cause__, ValueError)


@pytest.mark.parametrize(
    ("original", "kept"),
    [
        (IndexError("no"), True),
        (KeyError("no"), True),
        (OSError(5, "no"), True),
        (ZeroDivisionError("no"), True),
        (json.JSONDecodeError("no", "doc", 1), False),  # wants more than a text
        (UnicodeDecodeError("utf-8", b"", 0, 1, "no"), None),
        (np.exceptions.AxisError("no"), None),
        (StopIteration("no"), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_librarys_exception_inherits_its_type(original: Exception, kept: bool | None) -> None:
    name, module = type(original).__qualname__, type(original).__module__
    error = library_error(name, module, "the text", advice="Look", rows=(1, 2))
    assert isinstance(error, multitables.SubprocessException)
    if kept:
        assert isinstance(error, type(original))
        assert type(error).__name__ == f"SubprocessException[{name}]"
    assert "the text" in str(error)
    assert name in str(error)
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.rows == (1, 2)


@pytest.mark.parametrize(
    ("name", "module"),
    [
        ("Missing", "builtins"),
        ("anything", "no.such.module"),
        ("BaseException", "builtins"),
        ("KeyboardInterrupt", "builtins"),
        ("SystemExit", "builtins"),
        ("print", "builtins"),
        ("path", "os"),
        ("", ""),
        ("a.b.c", "sys"),
    ],
)
def test_a_type_that_is_no_exception_here(name: str, module: str) -> None:
    """A name from another process is only looked up, never imported, and never trusted."""
    error = library_error(name, module, "text")
    assert type(error) is multitables.SubprocessException
    assert "text" in str(pickle.loads(pickle.dumps(error)))


def test_one_class_for_one_type() -> None:
    one, two = (library_error("IndexError", "builtins", text) for text in "ab")
    assert type(one) is type(two)


def test_values_cannot_hide_the_message() -> None:
    error: Any = multitables.FileOpenError("broke", filename="a.h5", strerror="other")
    assert str(error) == "broke."
    assert error.filename == "a.h5"
