"""The public Image: elements that are pictures, and what readers make of them.

Law
---
1. A value: the size of every picture of a dataset, as the user names it. Readers raise an error
   for pictures of another size.
2. The core decodes (hdf5_filters/convert/picture.rs). To it a picture is one more conversion of an
   element: of bytes of any length where these lie in the global heap.

This file must never know files, paths or chunks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from _multitables.errors import public
from _multitables.index.types.element_type import PICTURE, Conversion, ElementType, FieldType
from _multitables.options import whole, wrong

#: Grey, colours, and colours with an alpha channel.
CHANNELS = (1, 3, 4)
#: Of the pixels of one picture, as the core limits it.
MAX_BYTES = 1 << 30


@public
@dataclass(frozen=True)
class Image:
    """The size of the pictures of a dataset, which readers decode: see `Streamer.get_batches`.

    Parameters
    ----------
    height, width : int
        Pixels of every picture. One of another size is an `ImageError`.
    channels : {3, 1, 4}, optional
        3: red, green and blue; of grey pictures all three are equal. 1: grey, of pictures that are
        (a JPEG's brightness, if it has colours). 4: with alpha, 255 where a picture has none.
    """

    height: int
    width: int
    channels: int = 3

    def __post_init__(self) -> None:
        for option in ("height", "width"):
            side = whole(option, getattr(self, option), 1, "Give the pixels of every picture")
            object.__setattr__(self, option, side)
        if self.channels not in CHANNELS:
            raise wrong("channels", "must be 1, 3 or 4", self.channels, "Give 3 for colours")
        if math.prod(self.shape) > MAX_BYTES:
            raise wrong(
                "height", f"makes pictures of more than {MAX_BYTES} bytes", self, "Store tiles"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        """Of one picture: height, width, channels."""
        return self.height, self.width, self.channels

    def part(self, stored_bytes: int, offset: int = 0) -> FieldType:
        """Return the type of elements of this many bytes, or fields at an offset, as pixels."""
        n_bytes, size = math.prod(self.shape), self.height << 32 | self.width
        decoded = Conversion.of(stored_bytes, PICTURE | self.channels << 8, n_bytes, size)
        dtype = np.dtype((np.uint8, self.shape))
        return FieldType(ElementType(dtype, stored_bytes, (decoded,), n_bytes), offset)
