"""Values as bytes: numbers, texts, arrays, and their compounds.

Law
---
1. Arrays travel as their bytes beside a JSON text that says their dtype and shape; nothing is
   pickled. Of other classes there are only those that the reader of the bytes names.
2. A field of a dataclass whose metadata has ``stays`` does not travel: it has its default then.
3. Pure: values in, bytes out, and back. Readers import it, so it knows no other part.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

WORD = 8


def encode(value: Any, known: Sequence[object] = ()) -> bytes:
    """Lay a value out for a process that has the `known` ones: only their numbers travel."""
    blobs = bytearray()
    numbers = {id(one): number for number, one in enumerate(known)}
    text = json.dumps(encoded(value, blobs, numbers)).encode()
    return struct.pack("<Q", len(text)) + text + bytes(-len(text) % WORD) + bytes(blobs)


def decode(data: bytes, classes: Mapping[str, type], known: Sequence[object] = ()) -> Any:
    """Return a value that `encode` laid out, of these classes.

    Raises
    ------
    ValueError
        The bytes are something else.
    """
    try:
        (n_text,) = struct.unpack_from("<Q", data)
        blobs = data[WORD + n_text + -n_text % WORD :]
        return Values(blobs, classes, known).decoded(json.loads(data[WORD : WORD + n_text]))
    except (struct.error, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no value: {error}") from None


def encoded(value: Any, blobs: bytearray, known: Mapping[int, int] | None = None) -> Any:
    """Return JSON of a value; the bytes of its arrays are added to `blobs`."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if known and id(value) in known:
        return {"known": known[id(value)]}
    if isinstance(value, Mapping):
        return {"map": {name: encoded(inner, blobs, known) for name, inner in value.items()}}
    if isinstance(value, tuple):
        names = getattr(value, "__match_args__", None)
        if known is not None and names is not None:  # readers know no classes of tuples
            named = zip(names, (encoded(inner, blobs, known) for inner in value), strict=True)
            return {"object": [type(value).__name__, dict(named)]}
        return {"tuple": [encoded(inner, blobs, known) for inner in value]}
    if isinstance(value, slice):
        ends = (value.start, value.stop, value.step)
        return {"slice": [None if end is None else int(end) for end in ends]}
    if value is Ellipsis:
        return {"ellipsis": None}
    if isinstance(value, np.dtype):
        return {"dtype": encode_dtype(value)}
    if isinstance(value, bytes):
        return {"bytes": encoded(np.frombuffer(value, np.uint8), blobs)}
    fields = getattr(value, "__dataclass_fields__", None)
    if fields is not None:
        names = (name for name, one in fields.items() if "stays" not in one.metadata)
        inner = {name: encoded(getattr(value, name), blobs, known) for name in names}
        return {"object": [type(value).__name__, inner]}
    array = np.ascontiguousarray(value).reshape(np.shape(value))
    if array.dtype.hasobject:
        raise TypeError(f"expected an array of numbers or strings, got {value!r}")
    blobs += bytes(-len(blobs) % WORD)
    at = len(blobs)
    blobs += array.tobytes()
    return {"array": [at, array.nbytes, encode_dtype(array.dtype), list(array.shape)]}


class Values:
    """What `encoded` made JSON of: bytes of arrays, and what else it may be made of."""

    def __init__(
        self, blobs: bytes, classes: Mapping[str, type] | None = None, known: Sequence[Any] = ()
    ) -> None:
        self._blobs, self._classes, self._known = blobs, classes or {}, known

    def decoded(self, value: Any) -> Any:
        """Return the value again."""
        if not isinstance(value, dict):
            return value
        ((kind, inner),) = value.items()
        return _DECODERS[kind](self, inner)

    def _map(self, inner: Any) -> Any:
        return {name: self.decoded(value) for name, value in inner.items()}

    def _tuple(self, inner: Any) -> Any:
        return tuple(map(self.decoded, inner))

    def _array(self, inner: Any) -> npt.NDArray[Any]:
        at, n_bytes, descr, shape = inner
        data = np.frombuffer(self._blobs[at : at + n_bytes], decode_dtype(descr))
        return data.reshape(shape).copy()  # libraries write to the keys that they are given

    def _object(self, inner: Any) -> Any:
        name, fields = inner
        return self._classes[name](**self._map(fields))


_DECODERS: dict[str, Callable[[Values, Any], Any]] = {
    "map": Values._map,
    "tuple": Values._tuple,
    "slice": lambda _, inner: slice(*inner),
    "ellipsis": lambda _, inner: Ellipsis,
    "dtype": lambda _, inner: decode_dtype(inner),
    "bytes": lambda values, inner: values.decoded(inner).tobytes(),
    "array": Values._array,
    "object": Values._object,
    "known": lambda values, inner: values._known[inner],
}


def encode_dtype(dtype: np.dtype[Any]) -> Any:
    """Return JSON of a dtype, offsets and all (NumPy's own `descr` lacks some)."""
    if dtype.metadata and not dtype.hasobject:
        return {"bare": _encode_bare(dtype), "metadata": dict(dtype.metadata)}
    return _encode_bare(dtype)


def _encode_bare(dtype: np.dtype[Any]) -> Any:
    if dtype.shape:
        return {"base": encode_dtype(dtype.base), "shape": list(dtype.shape)}
    if dtype.fields is None or dtype.names is None:
        return dtype.str
    return {
        "names": list(dtype.names),
        "formats": [encode_dtype(dtype.fields[name][0]) for name in dtype.names],
        "offsets": [dtype.fields[name][1] for name in dtype.names],
        "itemsize": dtype.itemsize,
    }


def decode_dtype(described: str | dict[str, Any]) -> np.dtype[Any]:
    """Return the dtype of which `encode_dtype` made JSON."""
    if isinstance(described, str):
        return np.dtype(described)
    if "bare" in described:
        return np.dtype(decode_dtype(described["bare"]), metadata=described["metadata"])
    if "base" in described:
        return np.dtype((decode_dtype(described["base"]), tuple(described["shape"])))
    compound: Any = {**described, "formats": [decode_dtype(part) for part in described["formats"]]}
    dtype: np.dtype[Any] = np.dtype(compound)
    return dtype
