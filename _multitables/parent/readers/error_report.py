"""A reader's record of what went wrong, as an exception with the data's address.

Law
---
1. One function per kind of record, found through a table; messages follow the errors' grammar.
2. Says what, where, expected against got, what is still good, and what to do; values are kept as
   attributes. A stream loses rows, a request only itself.
3. Only composes: it reads the plan and the ring's numbers, and changes nothing.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from _multitables import _core
from _multitables.errors import (
    CorruptChunkError,
    CorruptChunkWarning,
    CorruptFileError,
    FileChangedError,
    ImageError,
    LibraryTimeoutError,
    MissingFileError,
    ReaderDiedError,
    SharedMemoryError,
    StalledError,
    SubprocessException,
    library_error,
)
from _multitables.parent.readers.death import Death
from _multitables.parent.readers.missing import (
    missing_file,
    missing_filter,
    missing_library,
    not_alone,
    too_large,
    untrusted,
)
from _multitables.parent.readers.place import Place
from _multitables.parent.readers.process import KILLED, how_it_ended
from _multitables.parent.titles import file_title
from _multitables.plan.stream_plan import ReadPlan
from _multitables.remote.failures import store_error

_COPY_AGAIN = "Copy the file again from its source or from a backup"
_REPAIR = (
    f"{_COPY_AGAIN}; until then leave out the rows in the error's `rows`, as with "
    "get_batches(rows=mask) or get_batches(skip_damaged=True)"
)
_LIBRARY_DIED = (
    "The library died with it, perhaps of damaged data, or was killed: copy the file again from "
    "its source, and look at dmesg for a lack of memory"
)
_LIBRARY_LATE = (
    "What is stored there is probably damaged: copy the file again from its source or from a "
    "backup. If it is good and only slow to decode, give a larger library_timeout_seconds"
)

_STOPPED = (
    "Let nothing stop readers without continuing them: SIGSTOP, a debugger, or a group of "
    "processes that is suspended in part"
)


@dataclass(frozen=True)
class Record:
    """What a reader left behind of a task that failed."""

    #: One of the core's `ERROR_KINDS`.
    kind: str
    filter: int
    detail: int
    task: int
    chunk: int | None
    expected: int
    got: int
    text: str

    @classmethod
    def of(cls, found: tuple[int, int, int, int, int, int, int, str] | None) -> Record:
        """Name what ``failure()`` of a ring, a trial or a handle gives."""
        if found is None:
            raise RuntimeError("a task failed without a record")
        kind, filter_id, detail, task, chunk, expected, got, text = found
        known = None if chunk == _core.NO_CHUNK else chunk
        return cls(_core.ERROR_KINDS[kind], filter_id, detail, task, known, expected, got, text)


def _corrupt(happened: str, place: Place, record: Record) -> CorruptChunkError:
    return CorruptChunkError(
        happened,
        good=place.good,
        advice=_REPAIR,
        expected=record.expected,
        got=record.got,
        filter_id=record.filter,
        **place.values(),
    )


def skipped(error: CorruptChunkError, rows: Sequence[tuple[int, int]]) -> CorruptChunkWarning:
    """Compose the warning for a chunk that is left out, and with it these rows."""
    begin, end = rows[0][0], rows[-1][1]
    some = "Rows" if len(rows) == 1 else "Some of rows"
    good = f"{some} {begin}:{end} are left out; other chunks are not affected"
    values = {**error.values, "rows": (begin, end)}
    return CorruptChunkWarning(error.happened, good=good, advice=_COPY_AGAIN, **values)


def _name(place: Place, record: Record) -> str:
    if record.filter == 0:
        return "the stored chunk"
    # Names in files are free text, so the core's own come first.
    names = {spec.id: spec.name for spec in place.index.kind.pipeline} | _core.native_filters()
    return names.get(record.filter) or f"filter {record.filter}"


def _malformed(place: Place, record: Record) -> Exception:
    code = record.got - 2**64 if record.got >= 2**63 else record.got
    return _corrupt(
        f"{_name(place, record)} cannot decode {place.where} "
        f"(expected its format, got bytes that are not; decoder's code {code})",
        place,
        record,
    )


def _damaged(text: str) -> Callable[[Place, Record], Exception]:
    """Compose errors of one kind of damage; `text` has ``name``, ``where`` and ``record``."""

    def composed(place: Place, record: Record) -> Exception:
        name = _name(place, record)
        return _corrupt(text.format(name=name, where=place.where, record=record), place, record)

    return composed


def _unknown_filter(place: Place, record: Record) -> Exception:
    return SubprocessException(
        f"{_name(place, record)} is not decoded natively and the library did not read "
        f"{place.where} either",
        advice="Install hdf5plugin, or report this with multitables.build_info()",
        filter_id=record.filter,
        **place.values(),
    )


def _system(place: Place, record: Record, doing: str) -> Exception:
    code = errno.errorcode.get(record.detail, str(record.detail))
    return library_error(
        "OSError",
        "builtins",
        f"{doing} failed for {place.where}: {os.strerror(record.detail)} ({code}). "
        f"{place.lost}. Look at the device (dmesg) and at the file's permissions",
    )


def _unopened(place: Place, record: Record) -> Exception:
    if record.detail != errno.ENOENT:
        return _system(place, record, "opening the file in a reader")
    values = place.values()
    return MissingFileError(
        f"{values['filename']!r} was removed after it was indexed, so a reader cannot open it for "
        f"{place.where}",
        good=place.lost,
        advice="Put the file back, then open a new stream",
        **values,
    )


def _changed(place: Place, record: Record) -> Exception:
    sizes = f"{record.expected} -> {record.got} bytes"
    if record.expected == record.got:
        sizes = f"its time of change or its inode; {record.got} bytes as before"
    good, again = f"Nothing was delivered after row {place.row_begin}", "open a new stream"
    if place.of_order:
        good = "What was delivered before is good"
    if place.of_request:
        good, again = place.good, "make a new Reader"
    return FileChangedError(
        f"{place.changed_file!r} changed after it was indexed ({sizes})",
        good=good,
        advice=f"Finish writing, then {again}",
        expected=record.expected,
        got=record.got,
        **{**place.values(), "filename": place.changed_file},
    )


def _library(place: Place, record: Record) -> Exception:
    module, name, text = [*record.text.split("\0", 2), "", "", ""][:3]
    if name == "StoreFailure":
        return _store(place, record)
    text = " ".join(text.split())
    lacked = LACKED[name](place, text) if name in LACKED else None
    return lacked or library_error(
        name,
        module,
        f"the {place.index.kind.library or 'h5py'} library failed for {place.where}: {text}",
        good=place.lost,
        **place.values(),
    )


#: By what reader/library_failure.py and reader/object_file.py raise.
LACKED: dict[str, Callable[[Place, str], Exception | None]] = {
    "ModuleNotFoundError": missing_library,
    "NoFilterError": missing_filter,
    "NoFileError": missing_file,
    "UntrustedError": untrusted,
    "OtherFilesError": not_alone,
    "TooLargeError": too_large,
}


def _internal(place: Place, record: Record) -> Exception:
    return SubprocessException(
        f"a reader failed for {place.where}: {record.text}",
        good=place.good,
        advice="This is a bug in multitables: report it with multitables.build_info()",
        **place.values(),
    )


def _malformed_file(place: Place, record: Record) -> Exception:
    return CorruptFileError(
        f"{place.index.filename!r} is damaged: for {place.index.path!r} {record.text}",
        good=place.good,
        advice=_COPY_AGAIN,
        filename=place.index.filename,
        path=place.index.path,
    )


def _store(place: Place, record: Record) -> Exception:
    values = place.values()
    name = str(values.pop("filename"))
    return store_error(name, record.text, place.good, place.lost, **values)


def _shortage(place: Place, record: Record) -> Exception:
    return SharedMemoryError(
        f"shared memory for {place.where} cannot be reserved: {os.strerror(record.detail)}",
        good=place.good,
        advice="Free memory, or choose a smaller block_size or read_ahead",
        **place.values(),
    )


def _image(
    what: str, expected: Callable[[Place], object], got: Callable[[int], object]
) -> Callable[[Place, Record], Exception]:
    """Compose errors of pictures; `what` is wrong with one, by what was expected and met."""

    def composed(place: Place, record: Record) -> Exception:
        row = place.row_of(record.expected)
        at = f"{place.index.path!r} in {file_title(place.index.filenames)}"
        values = {"expected": expected(place), "got": got(record.got), "row": row}
        which = f"one of rows {place.row_begin}:{place.row_end}" if row is None else f"row {row}"
        happened = f"{which} of {at} {what.format(**values)}"
        return ImageError(happened, good=place.good, advice=_IMAGE, **values, **place.values())

    return composed


def _size(got: int) -> tuple[int, int, int]:
    """Return height, width and channels as the core writes them."""
    return got >> 28 & 0xFFFFFFF, got & 0xFFFFFFF, got >> 56


_IMAGE = (
    "Name the size that all pictures of the dataset have, and leave out rows that have no such "
    "picture, by get_batches(rows=mask), or their chunks by skip_damaged=True"
)
_SIZES = "(expected {record.expected} bytes, got {record.got})"
#: By the core's name for what stopped a task. ("died" is told with the death's own address.)
KINDS: dict[str, Callable[[Place, Record], Exception]] = {
    "filter_checksum": _damaged(
        "{name} does not match for {where} "
        "(stored {record.expected:#010x}, computed {record.got:#010x})"
    ),
    "filter_size": _damaged("{name} has the wrong size for {where} " + _SIZES),
    "filter_malformed": _malformed,
    "filter_unknown": _unknown_filter,
    "filter_truncated": _damaged("{name} data is cut short for {where} " + _SIZES),
    "short": _damaged("the file ends inside {where} " + _SIZES + ": it is truncated"),
    "read": partial(_system, doing="reading"),
    "open": _unopened,
    "changed": _changed,
    "library": _library,
    "internal": _internal,
    "format": _malformed_file,
    "store": _store,
    "memory": _shortage,
    "picture_other": _image(
        "has a picture of another size (expected height, width and channels {expected}, got {got})",
        lambda place: (place.shown_by or place.index).shape[-3:],
        _size,
    ),
    "picture_none": _image(
        "has no picture (expected a JPEG or PNG, got bytes that begin with {got})",
        lambda _: "JPEG or PNG",
        lambda got: got.to_bytes(8, "big").hex(" "),
    ),
    "picture_damaged": _image(
        "has a picture that does not decode (expected a whole JPEG or PNG, got a damaged one)",
        lambda _: "JPEG or PNG",
        lambda _: "damaged",
    ),
}


def task_error(place: Place, record: Record) -> Exception:
    """Compose the exception for a failed task."""
    return KINDS.get(record.kind, _internal)(place, record)


def death_error(death: Death, place: Place | None, delivered: int, total: int | None) -> Exception:
    """Compose the exception for readers that died too often for a stream."""
    of = "" if total is None else f" of {total}"
    good = f"{delivered}{of} blocks were delivered and are good; the stream is closed"
    return _death(death, place, "decoding", good)


def request_death_error(death: Death, place: Place | None) -> Exception:
    """Compose the exception for readers that died for a request, or (no place) cannot start."""
    good = place.good if place else "The Reader is closed; requests that were answered are good"
    return _death(death, place, "serving a request for", good)


def _death(death: Death, place: Place | None, doing: str, good: str) -> Exception:
    times = {1: "", 2: " twice"}.get(death.deaths, f" {death.deaths} times")
    when = f" while {doing} {place.where}" if place else ""
    if place is None and not death.hindrance:
        when = " before it read anything"
    advice = "The readers' own messages are on standard error"
    if death.status == KILLED:
        advice = "A SIGKILL that you did not send is usually the kernel out of memory (see dmesg)"
    how = how_it_ended(death.status)
    if death.stopped_seconds is not None:
        how = f"was stopped by a signal for {death.stopped_seconds:g} s, and ended for that,"
        advice = _STOPPED
    if death.refusal:
        how, times, when, advice = death.refusal, "", "", death.advice
    happened = f"reader {death.reader} (pid {death.pid}) {how}{times}{when}"
    if death.in_library:
        advice = _LIBRARY_DIED
    if death.timeout_seconds is not None and place is not None and not death.hindrance:
        library = place.index.kind.library or "h5py"
        return LibraryTimeoutError(
            f"a reader did not come back from the {library} library within "
            f"{death.timeout_seconds:g} s{times}, at {place.where}",
            good=good,
            advice=_LIBRARY_LATE,
            reader=death.reader,
            pid=death.pid,
            seconds=death.timeout_seconds,
            **place.values(),
        )
    if death.hindrance:
        happened += f", and {death.hindrance}"
        advice = death.advice
    return ReaderDiedError(
        happened,
        good=good,
        advice=advice,
        reader=death.reader,
        pid=death.pid,
        status=death.status,
        **(place.values() if place else {}),
    )


def stalled_error(
    seconds: float, held: list[tuple[int, int, float]], plan: ReadPlan
) -> StalledError:
    """Compose the exception for a user who holds what the ring needs to go on."""
    begin, end, age = held[0]
    held_rows = sum(block[1] - block[0] for block in held)
    if held_rows + plan.block_rows > plan.capacity_rows:
        why = f"you hold all {len(held)} blocks that fit the ring"
        advice = "Release blocks, or copy what you keep, so that readers can go on"
    else:
        # The ring gives its rows back in their order.
        why = f"the ring is full behind the {len(held)} blocks that you hold"
        advice = "Release the oldest first, or copy what you keep, so that readers can go on"
    return StalledError(
        f"no block for {seconds:.1f} s: {why} (oldest: rows {begin}:{end}, lent {age:.1f} s ago)",
        advice=advice,
        held=held,
    )


def no_stage_error(seconds: float, lent: int, age: float) -> StalledError:
    """Compose the exception for a user who holds every stage that the next request waits for."""
    return StalledError(
        f"no free stage for {seconds:.1f} s: you hold all {lent} stages (the oldest is lent for "
        f"{age:.1f} s)",
        good="The results that you hold stay valid",
        advice="Take the results of requests, drop views, or copy what you keep",
        held=lent,
    )
