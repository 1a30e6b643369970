"""Every exception of multitables, the mark that ends a stream, and the lines of its log.

1. One grammar: what happened and where (expected against got). What is still good. What to do.
2. Values stand in the message with their units and are attributes as well (``error.values``).
3. A class inherits the builtin that people already catch for such a failure.
4. Every exception survives pickle and copy: it crosses processes in users' programs.

5. Tracebacks, reprs and pickles name what users can import: what is `public`.
6. A line of the log says what was chosen, where the program cannot see it. A program that has not
   imported `logging` has no handler, so nothing is imported or written for it.

This file must never import anything but the standard library, nor know who raises what.
"""

from __future__ import annotations

import errno
import io
import re
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NoReturn, TypeVar

_SENTENCE_ENDS = (".", "!", "?", '."', '!"', '?"', ".)", "!)", "?)")


def _sentence(text: str) -> str:
    text = text.strip()
    return text if not text or text.endswith(_SENTENCE_ENDS) else text + "."


class MultitablesError(Exception):
    """Base of every exception of multitables.

    Read its message to the end: the last sentence says what to do.

    Parameters
    ----------
    happened : str
        What happened and where, expected against got.
    good : str
        What is still good.
    advice : str
        What to do.
    **values : object
        Values of the message, which become attributes of the exception.
    """

    happened: str
    good: str
    advice: str
    values: dict[str, object]

    def __init__(
        self, happened: str, *, good: str = "", advice: str = "", **values: object
    ) -> None:
        message = " ".join(filter(None, map(_sentence, (happened, good, advice))))
        # Not super().__init__: UnicodeDecodeError and its like want arguments of their own.
        Exception.__init__(self, message)
        self.happened, self.good, self.advice = happened, good, advice
        self.values = values
        for name, value in values.items():
            setattr(self, name, value)

    def __str__(self) -> str:
        # OSError rewrites its text when `filename` is set, and KeyError shows a repr.
        return str(self.args[0]) if self.args else ""

    def __reduce__(self) -> tuple[Any, ...]:
        # By name: cloudpickle would copy a class whose module `multitables` was not imported yet,
        # as in a process of Dask, and `except` would not know the copy.
        name = type(self).__name__
        kind = name if globals().get(name) is type(self) else type(self)
        parts = (self.happened, self.good, self.advice, self.values)
        return _rebuild, (kind, *parts), dict(self.__dict__)

    def __setstate__(self, state: Mapping[str, Any] | None) -> None:
        self.__dict__.update(state or {})


class SubprocessException(MultitablesError):  # noqa: N818 - a name of the 2.x API
    """Base of whatever a reader process reports.

    An exception that a library raised in a reader also inherits that exception's type.
    """


class CorruptChunkError(SubprocessException, OSError):
    """The stored bytes of a chunk do not decode, or decode to the wrong size or checksum.

    Copy the file again from its source or from a backup, or leave these rows out:
    ``skip_damaged=True`` does so in training.
    """

    path: str
    chunk_offset: tuple[int, ...] | None


class ImageError(CorruptChunkError):
    """The bytes of a row are not a picture, or not one of the size that `Image` says."""

    #: In its file. None: one of `rows`, of a virtual dataset.
    row: int | None


class CorruptChunkWarning(MultitablesError, UserWarning):  # noqa: N818 - not raised
    """A chunk does not decode and is left out, as `Streamer.get_batches` was asked to.

    Copy the file again from its source or from a backup, to have all rows.
    """


class MissingFileWarning(MultitablesError, UserWarning):  # noqa: N818 - not raised
    """A file is broken or lacks a path, and `Streamer` leaves it out, by ``skip_missing=True``.

    Put the file back, or take it from the list of files.
    """


class SavedIndexWarning(MultitablesError, UserWarning):  # noqa: N818 - not raised
    """A saved index is damaged and not used, or a dataset is left out of one."""


class SlowFilterWarning(MultitablesError, UserWarning):  # noqa: N818 - not raised
    """The core does not decode a dataset's filter: an HDF5 library reads the stream."""


class AmplificationWarning(MultitablesError, UserWarning):  # noqa: N818 - not raised
    """A shuffle of samples decodes each chunk several times in an epoch.

    Let samples overlap less, take fewer of them, or shuffle by chunks.
    """


class LeftOutWarning(MultitablesError, UserWarning):  # noqa: N818 - not raised
    """A part of a file cannot be read, and what is made of the file lacks it.

    Nothing has to be done, unless you need that part: then read it with h5py.
    """


class ReaderDiedError(SubprocessException, ChildProcessError):
    """A reader process died and was not replaced, or cannot be started."""


class LibraryTimeoutError(SubprocessException, TimeoutError):
    """A reader did not come back from an HDF5 library, twice for the same data."""

    path: str
    chunk_offset: tuple[int, ...] | None


class FileChangedError(SubprocessException, OSError):
    """The file changed after it was indexed."""


class StalledError(MultitablesError, TimeoutError):
    """No block, or no free stage, for the deadline's time."""


class UnsupportedDatasetError(MultitablesError, ValueError):
    """The dataset cannot be read: its type or shape, or it is no dataset."""


class MissingFilterError(SubprocessException, UnsupportedDatasetError, OSError):
    """A filter of the dataset is not installed."""

    filter_id: int
    filter_name: str


class OptionsError(MultitablesError, ValueError):
    """An option has a value that it cannot have."""


class UnknownOptionError(OptionsError, TypeError):
    """There is no option of this name."""


class SelectionError(MultitablesError):
    """An index that its dataset does not take; each is of a class below, as h5py's is.

    Compare the index with the shape that the message names.
    """


class SelectionIndexError(SelectionError, IndexError):
    """An index that is out of range.

    Give positions that the shape in the message has; negative ones count from the end.
    """


class SelectionTypeError(SelectionError, TypeError):
    """The index is of a wrong type, or a mask of another shape.

    Give integers, slices, lists of integers, or a mask of the shape in the message.
    """


class SelectionValueError(SelectionError, ValueError):
    """An index with more axes than its dataset has, or without a meaning.

    Give at most one index for each axis of the shape in the message.
    """


class FileOpenError(MultitablesError, OSError):
    """The file cannot be opened or is no intact HDF5 file."""


class CorruptFileError(FileOpenError):
    """A structure of the file contradicts the HDF5 specification.

    ``values`` has the ``address`` in the file, and ``expected`` and ``got`` in words.
    """


class StoreError(SubprocessException, FileOpenError):
    """A store refused a request for an object, failed, or was not reached.

    Check the name, the credentials and the network. What a store refuses while it is busy was
    tried again before.
    """


class MissingFileError(FileOpenError, FileNotFoundError):
    """There is no such file."""


class LinkRefusedError(MultitablesError, PermissionError):
    """A file leads to another one that ``links`` does not let it reach."""

    target: str


class MissingDatasetError(MultitablesError, KeyError):
    """The file holds no object at this path."""


class MissingVersionError(MultitablesError, KeyError, IndexError):
    """The file has no such version, or it was not committed.

    Choose one of the versions that `versions` lists.
    """


class MissingAttributeError(MultitablesError, KeyError):
    """The object has no attribute of this name."""


class MissingFieldError(MultitablesError, KeyError, NameError, ValueError):
    """The dataset has no such field (column)."""


class ReadOnlyError(MultitablesError, io.UnsupportedOperation):
    """Something would write, and the library only reads."""


class MissingLibraryError(MultitablesError, ImportError):
    """An adapter needs a library that is not installed."""


class SharedMemoryError(MultitablesError, MemoryError):
    """Memory cannot be reserved, or a result is larger than its stage."""


class StageBusyError(MultitablesError, RuntimeError):
    """The stage holds, or waits for, the result of another request."""


class QueueClosedException(MultitablesError):  # noqa: N818 - a name of the 2.x API
    """The queue was closed.

    Take a new queue; `ClosedError`, which is raised, says what was closed.
    """


class ClosedError(QueueClosedException, ValueError, RuntimeError):
    """Something was used after it was closed."""


def _rebuild(
    kind: type[MultitablesError] | str,
    happened: str,
    good: str,
    advice: str,
    values: dict[str, object],
) -> MultitablesError:
    known: type[MultitablesError] = globals()[kind] if isinstance(kind, str) else kind
    error = known(happened, good=good, advice=advice)
    for name, value in values.items():
        setattr(error, name, value)
    error.values = values
    return error


#: What to do where a system call failed for a reason of its own, by the error's number.
SYSTEM_ADVICE = {
    **dict.fromkeys(
        (errno.EPERM, errno.EACCES, errno.ENOSYS),
        "The system refuses a call that multitables needs: look at the rules of the sandbox (a "
        "container's seccomp profile)",
    ),
    errno.EMFILE: "Close files that are not needed, or allow more with `ulimit -n`",
    errno.ENFILE: "Close programs that hold many files open; the whole system has no more",
}


def advice_for(
    error: BaseException, otherwise: str, own: Mapping[int, str] = MappingProxyType({})
) -> str:
    """Return the advice for an error of the system: the caller's own for its number goes first."""
    number = re.search(r"\(os error (\d+)\)", str(error))  # as the core says it
    known = int(number[1]) if number else getattr(error, "errno", None) or 0
    return own.get(known) or SYSTEM_ADVICE.get(known, otherwise)


def selection_error(
    error: IndexError | TypeError | ValueError, path: object, filename: str, shape: object
) -> MultitablesError:
    """Return what names the dataset whose index is wrong, and is of the same builtin type."""
    if isinstance(error, MultitablesError):
        return error
    kinds = (SelectionIndexError, SelectionTypeError, SelectionValueError)
    return next(kind for kind in kinds if isinstance(error, kind.__bases__[1]))(
        f"{error} ({path!r} in {filename!r} has the shape {shape})",
        path=path,
        filename=filename,
    )


T = TypeVar("T")


def public(made: T) -> T:
    """Give a class or a function the module by which users import it; a decorator."""
    made.__module__ = "multitables"
    return made


DEBUG, INFO = 10, 20  # as logging has them


def note(text: str, *values: object, level: int = DEBUG) -> None:
    """Write a line to the logger ``multitables``, with values as `logging` puts them into texts."""
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger("multitables").log(level, text, *values, stacklevel=2)


# ---- what a library raised inside a reader ------------------------------------------------

_library_classes: dict[tuple[str, str], type[SubprocessException]] = {}


def _library_class(type_name: str, module: str) -> type[SubprocessException]:
    """Return ``SubprocessException[type_name]``, which inherits the original type if it can."""
    known = _library_classes.get((module, type_name))
    if known is not None:
        return known
    # A module that is not imported here cannot be named in an `except` here either, and the
    # name came from another process: nothing is imported for it.
    original: Any = sys.modules.get(module)
    for part in type_name.split("."):
        original = getattr(original, part, None)
    if not (isinstance(original, type) and issubclass(original, Exception)):
        return SubprocessException
    bases = (SubprocessException, original)
    body = {
        "__module__": __name__,
        "__doc__": f"{type_name} raised inside a reader process.",
        "__reduce__": _reduce_library_error,
    }
    try:
        made = type(f"SubprocessException[{type_name}]", bases, body)
        made("trial")  # some types refuse to be made from one text
    except (TypeError, ValueError, AttributeError):
        made = SubprocessException  # two layouts that do not go together
    _library_classes[module, type_name] = made
    return made


def library_error(type_name: str, module: str, text: str, **values: Any) -> SubprocessException:
    """Return the exception that stands for one that a library raised in a reader.

    It is also an instance of the original type, where this process knows that type.

    Parameters
    ----------
    type_name, module : str
        The original type's ``__qualname__`` and ``__module__``.
    text : str
        The original message.
    **values : object
        ``good``, ``advice`` and attributes, as of `MultitablesError`.
    """
    return _in_place_of(type_name, module, text, f"{type_name} in a reader: {text}", values)


def refused_error(kind: type[Exception], text: str, **values: Any) -> SubprocessException:
    """Return the exception for what a library would refuse, told without asking it.

    As `library_error`, it is also an instance of `kind`.
    """
    return _in_place_of(kind.__qualname__, kind.__module__, text, text, values)


def _in_place_of(
    type_name: str, module: str, text: str, happened: str, values: dict[str, Any]
) -> SubprocessException:
    original = {
        "original_type": type_name,
        "original_module": module,
        "original_text": text,
    }
    return _library_class(type_name, module)(happened, **original, **values)


def _rebuild_library_error(
    type_name: str, module: str, happened: str, good: str, advice: str, values: dict[str, object]
) -> MultitablesError:
    return _rebuild(_library_class(type_name, module), happened, good, advice, values)


def _reduce_library_error(self: Any) -> tuple[Any, ...]:
    values = self.values
    names = (values.get("original_type", ""), values.get("original_module", ""))
    arguments = (*names, self.happened, self.good, self.advice, values)
    return _rebuild_library_error, arguments, dict(self.__dict__)


# ---- the end of a stream ------------------------------------------------------------------


@public
class _QueueClosedType:
    """The type of `QueueClosed`, which has one instance per process."""

    __slots__ = ()
    _instance: _QueueClosedType | None = None

    def __new__(cls) -> _QueueClosedType:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        return cls._instance

    def __init_subclass__(cls, **_: object) -> NoReturn:
        raise TypeError("the type of multitables.QueueClosed cannot be subclassed")

    def __repr__(self) -> str:
        return "multitables.QueueClosed"

    def __reduce__(self) -> str:
        return "QueueClosed"  # pickle and copy look this name up in the module


QueueClosed = _QueueClosedType()

for _error in list(globals().values()):
    if isinstance(_error, type) and issubclass(_error, MultitablesError):
        public(_error)
