"""Files of each layout as objects of a bucket, and the way to them.

Law
---
1. `write` makes the file; h5py is the oracle, never this library.
2. Objects are put straight to the server, so the proxy's faults and log are of reads only.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from h5py import h5d, h5p, h5s, h5t
from object_stores import s3_store

from _multitables.benchmark.objects.faults import Request
from _multitables.benchmark.objects.proxy import Proxy
from _multitables.benchmark.objects.server import S3Server

ROWS = 2000
TABLE = np.dtype([("id", "<i4"), ("energy", ">f8"), ("name", "S5")])
#: Options of h5py.File -> a form of the format. Pages and user blocks change where things are.
FORMS: dict[str, dict[str, Any]] = {
    "old": {"libver": ("earliest", "v108")},
    "new": {"libver": "latest"},
    "pages": {"libver": "latest", "fs_strategy": "page", "fs_page_size": 16384},
    "user block": {"userblock_size": 1024},
}


def noise(*shape: int, seed: int = 0) -> np.ndarray:
    """Numbers that hardly compress: stored chunks are as large as their shape says."""
    return np.random.default_rng(seed).integers(0, 1 << 30, shape, "<i4")


def write(path: Path, **form: Any) -> Path:
    """Write datasets of each layout, all of the same number of rows."""
    with h5py.File(path, "w", **form) as file:
        compact = h5p.create(h5p.DATASET_CREATE)
        compact.set_layout(h5d.COMPACT)
        space = h5s.create_simple((10,))
        made = h5py.Dataset(h5d.create(file.id, b"compact", h5t.STD_I16BE, space, compact))
        made[:] = np.arange(10)
        file["contiguous"] = noise(ROWS, 3, seed=1)
        file.create_dataset("chunks", data=noise(ROWS, 8), chunks=(64, 5))
        zipped = {"compression": "gzip", "shuffle": True, "fletcher32": True}
        file.create_dataset("filters", data=noise(ROWS, 16, seed=2), chunks=(50, 16), **zipped)
        table = np.zeros(ROWS, TABLE)
        table["id"], table["energy"] = np.arange(ROWS), np.arange(ROWS) / 7
        table["name"] = [f"n{number % 99}" for number in range(ROWS)]
        file.create_dataset("table", data=table, chunks=(100,), compression="lzf")
        sparse = file.create_dataset("fill", (ROWS,), "<f4", chunks=(100,), fillvalue=-1.5)
        sparse[300:320] = 3
        file.create_dataset("empty", (0, 4), "<i8", chunks=(10, 4), maxshape=(None, 4))
        file.create_dataset("never written", (ROWS,), "<i4", fillvalue=9)
        text = file.create_dataset("text", (50,), h5py.string_dtype(), chunks=(20,))
        text[:] = [
            f"Zeile {number} \N{LATIN SMALL LETTER O WITH DIAERESIS}" for number in range(50)
        ]
        file["group/scalar"] = 3.5
        file["group"].attrs["unit"] = "keV"
    return path


@dataclass(frozen=True)
class Remote:
    """A bucket of a server, and the proxy through which it is read."""

    server: S3Server
    bucket: str
    proxy: Proxy

    def put(self, file: Path | bytes, key: str = "data.h5") -> str:
        """Write an object; return its name."""
        store = s3_store(self.server, self.server.endpoint, self.bucket)
        store.put(key, file)
        return f"s3://{self.bucket}/{key}"

    def options(self, **more: Any) -> dict[str, Any]:
        """How the bucket is read: what goes wrong is known within a second or two."""
        return {
            "endpoint": self.proxy.endpoint,
            "region": self.server.region,
            "access_key_id": self.server.access_key,
            "secret_access_key": self.server.secret_key,
            "timeout_seconds": 5.0,
            "max_retries": 3,
            "retry_timeout_seconds": 10.0,
            **more,
        }

    def requests(self, suffix: str = "") -> list[Request]:
        """The requests since the last call, for objects whose names end with `suffix`."""
        log = self.proxy.take_log()
        return [one for one in log if one.path.split("?")[0].endswith(suffix)]
