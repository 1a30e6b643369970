"""What the engine multitables makes of files otherwise than the engine h5netcdf: a script.

Law
---
1. Prints JSON: for each file of `netcdf_files`, what differs, in words; nothing for the others.
2. Values, types, dimensions, attributes, encodings, and the order of names are compared, of each
   group and each way of opening it.

Usage: ``python netcdf_differences.py FOLDER``
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import netcdf_files
import numpy as np
import xarray

WAYS: tuple[dict[str, Any], ...] = (
    {}, {"decode_cf": False}, {"phony_dims": "sort"}, {"decode_vlen_strings": False},
)  # fmt: skip


def described(value: Any) -> Any:
    """Return what has to be equal of a value, its types included."""
    if isinstance(value, np.dtype):
        return str(value), str(value.metadata)
    if isinstance(value, np.ndarray):
        return described(value.dtype), value.shape, repr(value.tolist())
    if isinstance(value, np.generic):
        return described(value.dtype), repr(value)
    if isinstance(value, dict):
        return {name: described(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [described(one) for one in value]
    if isinstance(value, set):
        return sorted(value)
    return type(value).__name__, repr(value)


def parts(dataset: xarray.Dataset) -> Iterator[tuple[str, Any]]:
    """Yield all that is to be equal of a dataset."""
    yield "names", list(dataset.variables)
    yield "coordinates", sorted(map(str, dataset.coords))
    yield "sizes", dict(dataset.sizes)
    yield "attributes", list(described(dataset.attrs).items())
    yield "encoding", described(dataset.encoding)
    for name, variable in dataset.variables.items():
        yield f"dims of {name}", variable.dims
        yield f"type of {name}", described(variable.dtype)
        yield f"attributes of {name}", list(described(variable.attrs).items())
        encoding = dict(variable.encoding)
        if encoding.get("compression") == "unknown":  # so h5py says since 3.15, and nothing before
            del encoding["compression"], encoding["compression_opts"]
        yield f"encoding of {name}", described(encoding)
        yield f"values of {name}", described(np.asarray(variable.values))


def opened(path: Path, engine: str) -> dict[str, Any]:
    """Return all that is to be equal of a file, opened in each way."""
    found = {}
    for way in WAYS:
        options = {"phony_dims": "access", **way}
        groups = xarray.open_groups(path, engine=engine, **options)
        with xarray.open_dataset(path, engine=engine, **options) as dataset:
            groups["the root alone"] = dataset
            for group in [name for name in groups if name.startswith("/") and name != "/"]:
                groups[f"{group} alone"] = xarray.open_dataset(
                    path, engine=engine, group=group, **options
                )
                below = xarray.open_groups(path, engine=engine, group=group, **options)
                groups |= {f"{group} and {name}": one for name, one in below.items()}
            for name, one in groups.items():
                found |= {f"{way} {name}: {part}": value for part, value in parts(one)}
        for one in groups.values():
            one.close()
    return found


def main(folder: Path) -> None:
    """Print what differs."""
    warnings.simplefilter("ignore")
    differences = {}
    for name, write in netcdf_files.FILES.items():
        path = folder / f"{name}.nc"
        write(str(path))
        expected, got = (opened(path, engine) for engine in ("h5netcdf", "multitables"))
        differences[name] = [
            f"{part}: expected {expected.get(part)}, got {got.get(part)}"
            for part in {**expected, **got}
            if expected.get(part) != got.get(part)
        ]
    print(json.dumps(differences))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
