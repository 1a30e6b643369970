"""Check what multitables makes of files that the package versioned-hdf5 writes, of every kind.

The package pins one h5py, so it has an environment of its own::

    python3 -m venv /tmp/versioned
    /tmp/versioned/bin/pip install versioned-hdf5 multitables/
    /tmp/versioned/bin/python tools/versioned_files.py

``--keep FILE`` writes the file of mixed kinds that the tests have, compressed.

Law
---
1. The package says which version is meant, and h5py what is in it: each version by its name, its
   index and its time, each dataset by each entry point.
2. The package reads the files that tests/support/versioned.py writes as it reads its own.
"""

from __future__ import annotations

import argparse
import itertools
import lzma
import sys
import tempfile
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from versioned_hdf5 import VersionedHDF5File, delete_versions

import multitables

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "support"))
import versioned  # type: ignore[import-not-found]  # of the tests

BEGIN = datetime(2024, 3, 1, tzinfo=timezone.utc)
COMPRESSIONS = (None, "gzip", "lzf")
CHUNKS = (2**4, 2**12, 2**14)


def noise(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 1 << 40, shape)


def write_mixed(filename: Path) -> None:
    """Nested groups, edge chunks, sparse data, strings, attributes, branches, deleted versions."""
    with h5py.File(filename, "w") as file:
        package = VersionedHDF5File(file)
        for number in range(8):
            parent = {5: "r2", 6: "r4"}.get(number)
            stage = package.stage_version(
                f"r{number}", prev_version=parent, timestamp=BEGIN + timedelta(days=number)
            )
            with stage as group:
                (write_first if number == 0 else change)(group, number)
        delete_versions(package, ["r1", "r7"])


def write_first(group: Any, _: int) -> None:
    group.create_dataset("line", data=noise((100,)), chunks=(16,), compression="gzip")
    group.create_dataset("sub/grid", data=noise((30, 10)), chunks=(8, 4), compression="lzf")
    group.create_dataset("cube", data=noise((5, 6, 7)).astype("<f4"), chunks=(2, 6, 3))
    group.create_dataset("sparse", (1000,), "<i2", data=None, chunks=(64,), fillvalue=7)
    group.create_dataset("text", data=np.array([b"ab", b"cde"] * 9), chunks=(4,))
    group.create_dataset("words", data=np.array(["ab", "cde"] * 9, object), chunks=(4,))
    group["line"].attrs["unit"] = "V"


def change(group: Any, number: int) -> None:
    line = group["line"]
    line[20 + number] = -number
    line.resize((100 + (9 if number % 2 else -9) * number,))
    group["sub/grid"][number, number] = -number
    if number == 3:
        group["sparse"][200:210] = 1
        del group["text"]
    if number == 4:
        group["sub/grid"].resize((33, 11))


def write_published(filename: Path, compression: str | None, chunk: int) -> None:
    """As the package's published study writes: rows changed, inserted, deleted and appended."""
    random = np.random.default_rng(1)
    with h5py.File(filename, "w") as file:
        package = VersionedHDF5File(file)
        for number in range(12):
            with package.stage_version(f"r{number}", timestamp=BEGIN + timedelta(number)) as group:
                if number == 0:
                    for name in ("key0", "key1", "val"):
                        group.create_dataset(
                            f"data/{name}",
                            data=noise((5000,)),
                            chunks=(chunk,),
                            compression=compression,
                        )
                else:
                    keep = random.random(len(group["data/val"])) > 0.01
                    for name in ("key0", "key1", "val"):
                        rows = np.append(group[f"data/{name}"][keep], noise((70,), number))
                        group[f"data/{name}"].resize(rows.shape)
                        group[f"data/{name}"][:] = rows


def datasets_of(group: h5py.Group) -> Iterator[str]:
    names: list[str] = []
    group.visititems(
        lambda name, found: names.append(name) if isinstance(found, h5py.Dataset) else None
    )
    return iter(names)


def check(filename: Path) -> int:
    """Compare all versions of a file, and return how many comparisons there were."""
    n_checks = 0
    listed = multitables.versions(filename)
    with h5py.File(filename, "r") as file:
        package = VersionedHDF5File(file)
        groups = file["_version_data/versions"]
        assert set(listed) == {name for name in package if groups[name].attrs["committed"]}
        for index in itertools.count(1):  # the package's 0 is the current version, -1 its parent
            try:
                group = package[1 - index]
            except IndexError:
                break
            assert group.name == f"{groups.name}/{listed[-index].name}"
        for version in listed.values():
            assert package[version.time].name == f"{groups.name}/{listed[version.time].name}"
            n_checks += check_version(filename, package[version.name], version.name)
    return n_checks


def check_version(filename: Path, group: h5py.Group, version: str) -> int:
    n_checks = 0
    streamer = multitables.Streamer(filename)
    opened = multitables.open(filename, version=version)
    with multitables.Reader(filename, 1) as reader, streamer, opened:
        for path in datasets_of(group):
            want = group[path][()]
            np.testing.assert_array_equal(opened[path][()], want)
            n_checks += 1
            if want.dtype.hasobject:
                continue
            got = [*streamer.get_generator(path, 1, version=version)]
            np.testing.assert_array_equal(got, want)
            request = reader.request(reader.get_dataset(path, version)[:])
            np.testing.assert_array_equal(request.get(), want)
            batches = streamer.get_batches(path, 100, n_procs=1, version=version)
            np.testing.assert_array_equal(np.concatenate([*batches]), want)
            n_checks += 3
    return n_checks


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--keep", type=Path, help="write the tests' file")
    keep = parser.parse_args().keep
    with tempfile.TemporaryDirectory() as folder:
        filename = Path(folder, "mixed.h5")
        write_mixed(filename)
        print("mixed kinds:", check(filename), "comparisons")
        if keep:
            keep.write_bytes(lzma.compress(filename.read_bytes(), preset=9))
            print(f"{keep}: {keep.stat().st_size} bytes")
        for compression in COMPRESSIONS:
            for chunk in CHUNKS:
                filename = Path(folder, "published.h5")
                write_published(filename, compression, chunk)
                print(compression, chunk, check(filename), "comparisons")
        filename = Path(folder, "ours.h5")
        versioned.write_example(filename)
        print("the tests' own writer:", check(filename), "comparisons")


if __name__ == "__main__":
    main()
