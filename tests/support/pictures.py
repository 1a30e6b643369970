"""Pictures as files of JPEG and PNG in HDF5, and what Pillow makes of them.

1. PNG is exact. Decoders of JPEG may differ in the last bits of the transform, and in how they
   smooth colours that are stored at half the size: pixels are close, and close on average.
"""

from __future__ import annotations

import io
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from PIL import Image as Picture
from PIL.JpegImagePlugin import get_sampling

import multitables

HEIGHT, WIDTH = 24, 40
IMAGE = multitables.Image(HEIGHT, WIDTH)
SHUFFLES = [None, "chunks", "window", "full"]
MODES = {1: "L", 3: "RGB", 4: "RGBA"}
BYTES = h5py.vlen_dtype(np.uint8)


def pixels(number: int, mode: str = "RGB", size: tuple[int, int] = (HEIGHT, WIDTH)) -> Any:
    """A smooth picture, another one for each number."""
    y, x = np.mgrid[: size[0], : size[1]]
    channels = [(y * (3 + at) + x * (2 + number % 5) + 17 * number + 60 * at) % 256 // 2 + 40
                for at in range(4)]  # fmt: skip
    whole = np.stack(channels, axis=-1).astype(np.uint8)
    picture = Picture.fromarray(whole)
    return picture.convert("RGB").convert(mode) if mode in ("P", "1") else picture.convert(mode)


def encoded(picture: Any, kind: str, **options: Any) -> bytes:
    """A picture as a file."""
    made = io.BytesIO()
    picture.save(made, kind, **options)
    return made.getvalue()


def seen(stored: bytes, channels: int = 3) -> np.ndarray:
    """What Pillow makes of a file."""
    made = np.asarray(Picture.open(io.BytesIO(stored)).convert(MODES[channels]))
    return made.reshape(*made.shape[:2], channels)


def assert_close(got: np.ndarray, stored: list[bytes], channels: int = 3) -> None:
    assert got.shape[0] == len(stored)
    for one, of in zip(got, stored, strict=True):
        expected = seen(of, channels).astype(int)
        assert one.shape == expected.shape
        difference = np.abs(one.astype(int) - expected)
        if of.startswith(b"\x89PNG"):
            assert difference.max() == 0
        else:  # decoders interpolate colours of fewer pixels differently
            has_fewer = get_sampling(Picture.open(io.BytesIO(of))) > 0
            assert difference.max() <= (48 if has_fewer else 12)
            assert difference.mean() < (3.0 if has_fewer else 1.0)


def write(
    path: Path, stored: list[bytes], how: str, chunk: int | None = 7, gzip: bool = True
) -> None:
    """Write pictures as elements of one kind, and labels."""
    longest = max(map(len, stored))
    chunks = None if chunk is None else (min(chunk, len(stored)),)
    with h5py.File(path, "w") as file:
        file["label"] = np.arange(len(stored))
        if how == "sequences":
            made = file.create_dataset("x", (len(stored),), BYTES, chunks=chunks)
            for number, one in enumerate(stored):
                made[number] = np.frombuffer(one, np.uint8)
            return
        if how == "field":
            table = np.zeros(len(stored), [("n", "i4"), ("image", f"S{longest}")])
            table["image"], table["n"] = stored, np.arange(len(stored))
            file.create_dataset("x", data=table, chunks=chunks)
            return
        dtype = f"S{longest}" if how == "strings" else f"V{longest}"
        values = np.array(stored, f"S{longest}").view(dtype)
        file.create_dataset(
            "x", data=values, chunks=chunks, compression="gzip" if chunks and gzip else None
        )


def files(n: int) -> list[bytes]:
    """Files of pictures, of both kinds."""
    return [
        encoded(pixels(number), "PNG")
        if number % 3 == 0
        else encoded(pixels(number), "JPEG", quality=90, progressive=number % 3 == 1)
        for number in range(n)
    ]


def whole(batches: Any) -> np.ndarray:
    with batches:
        return np.concatenate([one.copy() for one in batches])


def bad(kind: str) -> tuple[bytes, str]:
    """Bytes without a picture of the size, and the message of the error."""
    other = encoded(pixels(1, "RGB", (WIDTH, HEIGHT)), "JPEG")
    huge = bytearray(encoded(pixels(1), "PNG"))
    huge[16:24] = bytes.fromhex("0fffffff0fffffff")
    huge[29:33] = zlib.crc32(huge[12:29]).to_bytes(4, "big")
    return {
        "other": (other, rf"another size.*\({HEIGHT}, {WIDTH}, 3\), got \({WIDTH}, {HEIGHT}, 3\)"),
        "bomb": (bytes(huge), "another size.*268435455, 268435455, 3"),
        "none": (b"GIF89a and more", "no picture.*47 49 46 38 39 61"),
        "empty": (b"", "no picture"),
        "short jpeg": (encoded(pixels(1), "JPEG")[:-200], "does not decode"),
        "short png": (encoded(pixels(1), "PNG")[:-90], "does not decode"),
    }[kind]
