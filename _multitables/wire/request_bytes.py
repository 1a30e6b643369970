"""A request as bytes for a reader: a hyperslab's words, or what a library is asked.

Law
---
1. The layout of a hyperslab is numbered here and in the core's engine/select/selection.rs, word by
   word. Words 0 to 3 (kind, dataset, catalogue) are filled in by the core.
2. All numbers are little-endian words of 8 bytes; keys and arguments travel as values.py lays them
   out.
3. Ragged rows travel one after another, then their lengths in atoms, then how many they are.
4. Pure: bytes in, bytes out. Readers import it to decode, so it knows no selection.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from _multitables import _core
from _multitables.select.selection import Arrangement, Spans
from _multitables.wire.values import WORD, Values, decode_dtype, encode_dtype, encoded

if TYPE_CHECKING:
    from _multitables.select.fallback_call import LibraryCall
    from _multitables.select.hyperslab import Hyperslab

KIND_NATIVE, KIND_LIBRARY = _core.REQUEST_NATIVE, _core.REQUEST_LIBRARY
KIND_HEAP, KIND_PIECES = _core.REQUEST_HEAP, _core.REQUEST_PIECES
#: In the place of the number of a file: the row is left out.
LEFT_OUT = _core.REQUEST_LEFT_OUT
#: Words before the axes of a hyperslab, and of each axis.
HEAD_WORDS, AXIS_WORDS = _core.REQUEST_HEAD_WORDS, _core.REQUEST_AXIS_WORDS

Bytes = npt.NDArray[np.uint8]


# ---- a hyperslab --------------------------------------------------------------------------


def encode_hyperslab(slab: Hyperslab) -> bytes:
    """Lay a hyperslab out as the core reads it; words 1 to 3 are left 0.

    Returns
    -------
    bytes
        Little-endian words: kind, dataset, catalogue's offset and bytes, k, points, axes, runs,
        bytes an element; of each axis start, step, count and the word of its list (or 0; of spans
        how many they are, 0, count, and the word of their begins and lengths); the k extents of
        the boxes at points; the points; the lists; of each run offset and length; and where rows
        are placed, if they are (select/arrangement.rs): the number of axes, parts, which of them,
        axes before them, rows of a group; of each axis its extent, window and place; of each row
        what is mirrored and where its window begins.
    """
    extents = slab.extents or (1,) * slab.k
    list_at = HEAD_WORDS + AXIS_WORDS * len(slab.axes) + slab.k + len(slab.points)
    axes: list[int] = []
    lists: list[bytes] = []
    for indices in slab.axes:
        if isinstance(indices, Spans):
            begins, lengths = indices.begins, indices.lengths
            axes += [len(begins), 0, int(lengths.sum()), list_at]
            lists.append(np.stack([begins, lengths], axis=1).astype("<i8").tobytes())
            list_at += 2 * len(begins)
        elif isinstance(indices, tuple):
            axes += [*indices, 0]
        elif len(indices):
            axes += [0, 1, len(indices), list_at]
            lists.append(indices.astype("<i8").tobytes())
            list_at += len(indices)
        else:
            axes += [0, 1, 0, 0]
    head = [slab.k, len(slab.points), len(slab.axes), len(slab.runs), slab.element_bytes]
    runs = [word for run in slab.runs for word in run]
    parts = [
        struct.pack(
            f"<{HEAD_WORDS + len(axes) + slab.k}q", KIND_NATIVE, 0, 0, 0, *head, *axes, *extents
        ),
        slab.points.astype("<i8").tobytes(),
        *lists,
        struct.pack(f"<{len(runs)}q", *runs),
        encode_arrangement(slab.arrangement),
    ]
    return b"".join(parts)


def encode_arrangement(to: Arrangement | None) -> bytes:
    """Lay out where rows are placed; nothing: as they are read."""
    return b"" if to is None else to.words.astype("<i8").tobytes()


# ---- elements in the global heap ----------------------------------------------------------


def encode_heap(
    descriptors: Bytes, element_bytes: int, arrangement: Arrangement | None = None
) -> bytes:
    """Lay out what is asked of files' global heaps, as the core's engine/heap_read.rs reads it.

    Parameters
    ----------
    descriptors : ndarray of uint8
        As they are stored, one a row, each with the number of its file in 4 bytes.
    element_bytes : int
        Of the elements that they count.
    arrangement : Arrangement, optional
        Where pictures are placed.

    Returns
    -------
    bytes
        Kind, three words that the core fills in, bytes of an element, number and bytes of the
        descriptors; these, padded to whole words; the arrangement.
    """
    head = struct.pack("<7Q", KIND_HEAP, 0, 0, 0, element_bytes, *descriptors.shape)
    padded = descriptors.tobytes() + bytes(-descriptors.size % WORD)
    return head + padded + encode_arrangement(arrangement)


# ---- rows of many datasets ----------------------------------------------------------------


def encode_pieces(pieces: npt.NDArray[np.int64], out_bytes: int) -> bytes:
    """Lay out rows of datasets of one table, as the core's engine/pieces.rs reads them.

    Parameters
    ----------
    pieces : ndarray of int64, shape (n, 4)
        Of each its dataset's number in the table, its first row, the end of its rows, and the byte
        of the result at which it begins.
    out_bytes : int
        Of the result.

    Returns
    -------
    bytes
        Kind, three words that the core fills in, number of pieces, bytes; the pieces.
    """
    head = struct.pack("<6Q", KIND_PIECES, 0, 0, 0, len(pieces), out_bytes)
    return head + np.ascontiguousarray(pieces, "<i8").tobytes()


# ---- what a library is asked --------------------------------------------------------------


def encode_library(call: LibraryCall) -> bytes:
    """Lay out what a library is asked.

    Returns
    -------
    bytes
        Kind, bytes of the JSON text, the text padded to whole words, the arrays that it names.
    """
    blobs = bytearray()
    text = _text(call, blobs)
    padded = text + bytes(-len(text) % WORD)
    return struct.pack("<2Q", KIND_LIBRARY, len(text)) + padded + bytes(blobs)


def encode_rows(call: LibraryCall) -> bytes:
    """Lay out what a library is asked for rows that are named later: the JSON text alone."""
    return _text(call, bytearray())


def _text(call: LibraryCall, blobs: bytearray) -> bytes:
    dataset = call.dataset
    told = {
        "library": dataset.library,
        "filename": dataset.filename,
        "path": dataset.path,
        "open_options": dict(dataset.open_options),
        "method": call.method,
        "arguments": encoded(call.arguments, blobs),
        "steps": encoded(call.steps, blobs),
        "dtype": encode_dtype(call.dtype),
        "ragged": call.ragged,
    }
    if dataset.conversion is not None:
        told["conversion"] = dataset.conversion
        told["element"] = encode_dtype(np.dtype((dataset.dtype, dataset.shape[dataset.n_dims :])))
    return json.dumps(told).encode()


def decode_library(call: bytes | str) -> dict[str, Any]:
    """Return what `encode_library` or `encode_rows` laid out.

    Keys, arrays and dtypes are themselves again.

    Raises
    ------
    ValueError
        The bytes are something else.
    """
    text, blobs = call, b""
    if isinstance(call, bytes):
        kind, n_text = struct.unpack_from("<2Q", call)
        blobs_at = 2 * WORD + n_text + -n_text % WORD
        if kind != KIND_LIBRARY or blobs_at > len(call):
            raise ValueError("this is nothing that a library is asked")
        text, blobs = call[2 * WORD : 2 * WORD + n_text], call[blobs_at:]
    told: dict[str, Any] = json.loads(text)
    values = Values(blobs)
    told["arguments"] = values.decoded(told["arguments"])
    told["steps"] = values.decoded(told["steps"])
    told["dtype"] = decode_dtype(told["dtype"])
    if "conversion" in told:
        told["element"] = decode_dtype(told["element"])
    return told


# ---- ragged rows --------------------------------------------------------------------------


def pack_ragged(rows: Sequence[npt.NDArray[Any]]) -> list[Bytes]:
    """Return the parts of ragged rows as they travel, one after another."""
    values = [np.ascontiguousarray(row).reshape(-1).view(np.uint8) for row in rows]
    gap = -sum(map(len, values)) % WORD
    words = np.array([*map(len, rows), len(rows)], "<u8")
    return [*values, np.zeros(gap, np.uint8), words.view(np.uint8)]


def unpack_ragged(
    packed: Bytes, dtype: np.dtype[Any], atom_shape: tuple[int, ...] = ()
) -> list[npt.NDArray[Any]]:
    """Return views of the ragged rows that a reader packed, of atoms of this dtype and shape."""
    count = int(packed[-WORD:].view("<u8")[0])
    lengths = packed[len(packed) - WORD * (count + 1) : len(packed) - WORD].view("<u8").tolist()
    atom_bytes = dtype.itemsize * int(np.prod(atom_shape, dtype=np.int64))
    rows, at = [], 0
    for length in lengths:
        end = at + length * atom_bytes
        rows.append(packed[at:end].view(dtype).reshape(length, *atom_shape))
        at = end
    return rows
