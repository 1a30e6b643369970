"""Files whose writer left its metadata cache in them: its image counts, not what lies elsewhere.

1. libhdf5 2.0 wrote ``tests/support/cache_image.h5.xz``, by `H5Pset_mdc_image_config`, which h5py
   does not have. h5py reads it (it fails itself with images of extensible arrays).
"""

from __future__ import annotations

import lzma
from pathlib import Path

import handle_oracle
import pytest
from oracle import h5py_read, same, streamed

import multitables

STORED = Path(__file__).parents[1] / "support" / "cache_image.h5.xz"
NAMES = ["/g/contiguous", "/fixed array", "/btree 2"]


@pytest.fixture
def image(h5: Path) -> Path:
    h5.write_bytes(lzma.decompress(STORED.read_bytes()))
    return h5


def test_everything_is_read(image: Path) -> None:
    handle_oracle.check(image)
    for name in NAMES:
        got, told = streamed(image, name, n_procs=1)
        same(got, h5py_read(image, name))
        assert told["library"] == {}


def test_a_damaged_image(image: Path) -> None:
    stored = bytearray(image.read_bytes())
    stored[stored.index(b"MDCI") + 100] ^= 1
    image.write_bytes(stored)
    with pytest.raises(multitables.CorruptFileError, match="the checksum"):
        multitables.open(image)
