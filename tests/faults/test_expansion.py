"""Small files that stand for much: what is made of them is bounded, and an error is named.

Law
---
1. Each file has some kB. One process opens it, and reads its attributes and a row: it takes less
   than `MOST_BYTES` and ends; what it raises is an error of ours that says why, or data are right.
2. Large structures that are meant go on working.
"""

from __future__ import annotations

import base64
import bz2
import json
import re
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fractal_heaps
import h5py
import hdf5plugin  # noqa: F401  (h5py stores only what some plugin knows)
import numpy as np
import pytest
from h5py import h5d, h5p, h5r, h5s, h5t
from processes import run_script

import multitables
from _multitables.select.region import RegionError, region_shape, region_steps

MOST_BYTES = 512 << 20
#: Prints for each file what comes of it, or which error.
SCRIPT = """
import sys, multitables
for path in sys.argv[1:]:
    try:
        with multitables.open(path) as file:
            dict(file['x'].attrs)
            value = file['x'][0]
            if path.endswith('region.h5'):
                file['t'].regionref.selection(value), file['t'][value]
            print(value.tobytes()[:64].hex() if hasattr(value, 'tobytes') else 'other')
    except multitables.MultitablesError as error:
        print(type(error).__name__, str(error).replace(chr(10), ' '))
peak = [line for line in open('/proc/self/status') if line.startswith('VmHWM')]
print(int(peak[0].split()[1]) << 10)  # ru_maxrss counts what the process was before exec, too
"""


def slab(shape: tuple[int, ...], stride: Any, count: Any, block: Any) -> Any:
    space = h5s.create_simple(shape)
    space.select_hyperslab((0,) * len(shape), count, stride, block)
    return space


def dataset(file: h5py.File, name: str, shape: Any, chunks: Any = None, kind: Any = None) -> None:
    made = h5p.create(h5p.DATASET_CREATE)
    if chunks:
        made.set_chunk(chunks)
    kind = kind or h5t.NATIVE_INT8
    h5d.create(file.id, name.encode(), kind, h5s.create_simple(shape), made)


def mapped(file: h5py.File, shape: Any, *mappings: tuple[Any, bytes, bytes, Any]) -> None:
    made = h5p.create(h5p.DATASET_CREATE)
    for shown, name, path, source in mappings:
        made.set_virtual(shown, name, path, source)
    h5d.create(file.id, b"x", h5t.NATIVE_INT8, h5s.create_simple(shape), made)


def pieces(file: h5py.File) -> None:
    n = 2**31
    dataset(file, "s", (n,), (1,))
    mapped(file, (n,), (slab((n,), (1,), (1,), (n,)), b".", b"s", slab((n,), (1,), (1,), (n,))))


def blocks(file: h5py.File) -> None:
    n = 2**28
    dataset(file, "s", (4 * n,), (1024,))
    shown, source = slab((5 * n,), (5,), (n,), (2,)), slab((4 * n,), (4,), (n,), (2,))
    mapped(file, (5 * n,), (shown, b".", b"s", source))


def blocks_of_other_shape(file: h5py.File) -> None:
    n = 2**28
    dataset(file, "s", (2, 4 * n), (1, 1024))
    shown = slab((5 * n, 2), (5, 1), (n, 1), (2, 1))
    mapped(file, (5 * n, 2), (shown, b".", b"s", slab((2, 4 * n), (1, 4), (1, n), (1, 2))))


def axes(file: h5py.File) -> None:
    source, shape = (1,) * 8 + (2,) + (1,) * 7, (2, 2) + (1,) * 30
    dataset(file, "s", source, (1,) * 16)
    one = (1,) * 32
    shown = slab(shape, one, one, (1, 2) + (1,) * 30)
    mapped(file, shape, (shown, b".", b"s", slab(source, one[:16], one[:16], source)))


def names(file: h5py.File) -> None:
    n, name = 20_000, b"./" + b"n" * 60_000  # written once
    mapped(
        file,
        (n,),
        *(
            (slab((n,), (1,), (1,), (1,)), name, b"d%d" % number, h5s.create_simple((1,)))
            for number in range(n)
        ),
    )


def region(file: h5py.File) -> None:
    n = 2**28
    dataset(file, "t", (4 * n,), (1024,))
    made = file.create_dataset("x", (1,), dtype=h5py.regionref_dtype)
    made[0] = h5r.create(file.id, b"t", h5r.DATASET_REGION, slab((4 * n,), (4,), (n,), (2,)))


HDF5: dict[str, tuple[Callable[[h5py.File], None], str]] = {
    "pieces": (pieces, "00"),
    "blocks": (blocks, "00"),
    "blocks_of_other_shape": (blocks_of_other_shape, "UnsupportedDatasetError .*too many blocks"),
    "axes": (axes, "00" * 2),
    "names": (names, "00"),
    "region": (region, "UnsupportedDatasetError .*536870912 elements that do not follow"),
    "chunks": (lambda file: dataset(file, "x", (2**60,), (1,)), "00"),
    "grid": (
        lambda file: dataset(file, "x", (2**60, 2**60), (2**16, 2**15)),
        "UnsupportedDatasetError .*2\\^63 chunks",
    ),
    "row": (lambda file: dataset(file, "x", (2, 2**58), (1, 1)), "SharedMemoryError .*larger than"),
}


def zarray(**changes: Any) -> str:
    plain = {"zarr_format": 2, "shape": [4], "chunks": [4], "dtype": "<i4", "compressor": None}
    return json.dumps({**plain, "filters": None, "fill_value": 0, "order": "C", **changes})


def deep(letter: str, n: int) -> str:
    return letter[0] * n + letter[1] * n


def references(
    array: str | None = None, place: Any = "0" * 16, attributes: str = "{}", **more: Any
) -> dict[str, Any]:
    dim = len(json.loads(array)["shape"]) if array and "shape" in array else 1
    key = f"x/{'.'.join('0' * dim)}"
    refs = {".zgroup": "{}", "x/.zarray": array or zarray(), "x/.zattrs": attributes, key: place}
    return {"version": 1, "refs": {**refs, **more.pop("refs", {})}, **more}


WRONG = "(Unsupported\\w+|FileOpen)Error "
REFERENCES: dict[str, tuple[Any, str]] = {
    "text": (references(zarray(dtype="|S2147483647")), WRONG + ".*2147483647 bytes"),
    "void": (references(zarray(dtype="|V2147483647", fill_value="")), WRONG + ".*bytes"),
    "fields": (references(zarray(dtype=[["a", "i1"]] * 20_000)), WRONG + ".*fields"),
    "commas": (references(zarray(dtype=",".join(["i4"] * 50_000))), WRONG + ".*of the type"),
    "nested": (references(zarray(dtype=json.loads(deep("[]", 400)))), WRONG),
    "templates": (
        references(place=["{{a}}" * 30_000, 0, 16], templates={"a": "y" * 200_000}),
        WRONG + ".*with its templates",
    ),
    "template": (references(place=["{{a}}", 0, 16], templates={"a": {}}), WRONG + ".*templates"),
    "infinite": (references(zarray(shape=[float("inf")])), WRONG + ".*inf"),
    "digits": (references(zarray(shape=[10**4000] * 2, chunks=[1] * 2)), WRONG + ".*the dims"),
    "grid": (references(zarray(shape=[2**62] * 30, chunks=[1] * 30)), WRONG + ".*2\\^63"),
    "dims": (references(zarray(shape=[2**62] * 4, chunks=[2**61] * 4)), WRONG + ".*2\\^63 bytes"),
    "key": (references(refs={"a/" * 20_000 + ".zarray": zarray()}), WRONG + ".*20001 parts"),
    "chunk": (references(refs={"a/" * 20_000 + "0": "x"}), WRONG + ".*20001 parts"),
    "attributes": (references(attributes='{"a":' + deep("[]", 900) + "}"), "30" * 4),
    "numbers": (references(attributes='{"a": [1e999, 12345678901234567890123]}'), "30" * 4),
    "long": (
        references(attributes=json.dumps({"a": ["a" * 170_000] + ["b"] * 40_000})),
        "30" * 4,
    ),
}


def outcomes(files: list[Path]) -> list[str]:
    run = run_script(SCRIPT, *files, seconds=60, flags=())
    assert run.returncode == 0, run.stderr
    *found, most = run.stdout.splitlines()
    assert int(most) < MOST_BYTES
    return found


def check(found: list[str], expected: list[str]) -> None:
    assert len(found) == len(expected)
    for got, pattern in zip(found, expected, strict=True):
        assert re.match(pattern, got), got


def test_files(tmp_path: Path) -> None:
    files = []
    for name, (make, _) in HDF5.items():
        files.append(tmp_path / f"{name}.h5")
        with h5py.File(files[-1], "w", libver="latest") as file:
            make(file)
        assert files[-1].stat().st_size < 3 << 20
    check(outcomes(files), [expected for _, expected in HDF5.values()])


def test_references(tmp_path: Path) -> None:
    files = []
    for name, (content, _) in REFERENCES.items():
        files.append(tmp_path / f"{name}.json")
        files[-1].write_text(json.dumps(content))
    check(outcomes(files), [expected for _, expected in REFERENCES.values()])


def test_references_deeper_than_json_may_be(tmp_path: Path) -> None:
    (tmp_path / "deep.json").write_text('{"version": 1, "refs": ' + deep("[]", 100_000) + "}")
    with pytest.raises(multitables.FileOpenError, match="no JSON"):
        multitables.open(tmp_path / "deep.json")


# ---- chunks that inflate

N = 1000


def inflating(path: Path, filters: list[Any], stored: bytes) -> None:
    """Store one chunk of `N` bytes as it is, behind filters: numbers, or with their values."""
    made = h5p.create(h5p.DATASET_CREATE)
    made.set_chunk((N,))
    for one in filters:
        made.set_filter(*(one[0], 1, one[1]) if isinstance(one, tuple) else (one, 1))
    with h5py.File(path, "w", libver="latest") as file:
        x = h5d.create(file.id, b"x", h5t.NATIVE_INT8, h5s.create_simple((N,)), made)
        x.write_direct_chunk((0,), stored)


def deflated_zeros(n_mib: int) -> bytes:
    """What zlib makes of zeros, each MiB like the first."""
    made = zlib.compressobj(9, wbits=-15)
    each = made.compress(bytes(1 << 20)) + made.flush(zlib.Z_FULL_FLUSH)
    sum_of_zeros = struct.pack(">HH", (n_mib << 20) % 65521, 1)
    return b"\x78\xda" + each * n_mib + b"\x03\x00" + sum_of_zeros


DEFLATE, FLETCHER, SHUFFLE, SZIP, BZIP2 = 1, 3, 2, (4, (141, 32, 8, N)), 307
LZF, BLOSC, LZ4, BITSHUFFLE, ZSTD, BLOSC2 = (
    32000,
    32001,
    32004,
    (32008, (0, 2, 1, 0, 2)),
    32015,
    32026,
)
#: A GiB of zeros as bzip2 makes 785 bytes of it, within six seconds that no run has to spend.
GIB = zlib.decompress(
    base64.b85decode(
        b"c-nJ{%CIzaj8qGb<l}sFpE17Af#CoH1BU{GL4&WG(*o6%Tn*Dl<wxa*zPv|G{7Htcpc5c@7O;vlteVRvDmf>*bn=TAxmpBF_}1}+2>|5%?Ck"
    )
)
TWICE = zlib.compress(deflated_zeros(256), 9)
#: As it says that it inflates to 2^31 bytes, 2^40 bytes, ...
SAYS: dict[Any, bytes] = {
    BLOSC: struct.pack("<BBBBIII", 2, 1, 2, 1, (1 << 31) - 100, 1 << 20, 16),
    BLOSC2: struct.pack("<BBBBIIIQQ", 5, 1, 5, 1, (1 << 31) - 100, 1 << 20, 32, 0, 0x10 << 56),
    LZ4: struct.pack(">QII", 1 << 40, 1 << 30, 100) + bytes(100),
    BITSHUFFLE: struct.pack(">QI", 1 << 40, 1 << 13) + bytes(100),
    ZSTD: b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 60) + bytes(50),
    SZIP: struct.pack("<I", 2**32 - 1) + bytes(900),
}


def by_snappy(n: int) -> bytes:
    """Return a chunk of blosc, whose one block snappy would inflate to `n` bytes."""
    size = bytes(n >> shift & 127 | 128 for shift in (0, 7, 14, 21)) + bytes([n >> 28])
    block = size + b"\xf0\x00" + bytes(20)
    table = struct.pack("<II", 20, len(block))
    return struct.pack("<BBBBIII", 2, 1, 0x50, 1, N, N, 24 + len(block)) + table + block


INFLATING: list[tuple[list[Any], bytes]] = [
    ([BZIP2], GIB), ([DEFLATE, BZIP2], GIB), ([BZIP2, BZIP2], bz2.compress(GIB)),
    ([DEFLATE, DEFLATE], TWICE), ([DEFLATE] * 3, zlib.compress(TWICE)),
    ([DEFLATE, FLETCHER, DEFLATE], TWICE), ([SHUFFLE, DEFLATE, DEFLATE], TWICE),
    ([LZF, DEFLATE], TWICE), *(([one], stored) for one, stored in SAYS.items()),
    *(([DEFLATE, one], stored) for one, stored in SAYS.items()),
    *(([BLOSC], by_snappy(n)) for n in (2**31 - 1, 2**32 - 1)),
]  # fmt: skip


def test_chunks_that_inflate(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.h5" for number in range(len(INFLATING))]
    for path, (filters, stored) in zip(files, INFLATING, strict=True):
        inflating(path, filters, stored)
        assert path.stat().st_size < 1 << 12
    check(outcomes(files), ["CorruptChunkError .*expected"] * len(files))


def packed(path: Path, name: str, n: int) -> None:
    """Store a chunk through a filter whose values then say that it gives `n` elements."""
    made = h5p.create(h5p.DATASET_CREATE)
    made.set_chunk((N,))
    if name == "nbit":
        made.set_filter(5, 1)
    else:
        made.set_scaleoffset(2, 0)  # of integers
    kind = h5t.NATIVE_INT8.copy()
    kind.set_precision(4)
    with h5py.File(path, "w", libver="earliest") as file:
        x = h5d.create(file.id, b"x", kind, h5s.create_simple((N,)), made)
        x.write(h5s.ALL, h5s.ALL, np.arange(N, dtype="i1") % 7)
    data = bytearray(path.read_bytes())
    at = data.index(struct.pack("<I", N), data.index(name.encode() + b"\0"))
    struct.pack_into("<I", data, at, n)
    path.write_bytes(data)


def test_packed_chunks(tmp_path: Path) -> None:
    """Of as many elements as there are, and of 2^32 - 1."""
    cases = [(name, n) for name in ("nbit", "scaleoffset") for n in (N, 2**31 - 1, 2**32 - 1)]
    files = [tmp_path / f"{name}_{n}.h5" for name, n in cases]
    for path, (name, n) in zip(files, cases, strict=True):
        packed(path, name, n)
    expected = ["00" if n == N else "CorruptChunkError .*expected" for _, n in cases]
    check(outcomes(files), expected)


# ---- heaps


def test_fractal_heaps(tmp_path: Path) -> None:
    powers, missing = "powers of two", "in the file at byte"
    made: list[tuple[dict[str, Any], str]] = [
        ({"width": 0}, powers), ({"width": 3}, powers), ({"width": 2**15}, missing),
        ({"start_bytes": 0}, powers), ({"start_bytes": 2**38}, powers), ({"bits": 1}, powers),
        ({"bits": 2**16 - 1}, powers), ({"bits": 64, "max_direct": 2**62}, "more bytes"),
        ({"max_direct": 2**63}, "FHDB"), ({"id_bytes": 2**16 - 1}, "id of 65535 bytes"),
        ({"rows": 2**16 - 1}, "at most 29 rows"), ({"rows": 30}, "at most 29 rows"),
        ({"rows": 0}, "within 1024 bytes"), ({"rows": 1}, "checksum"), ({"root": -1}, "checksum"),
        ({"root": 2**64 - 1}, "undefined"), ({"root": 2**62}, missing),
        ({"entries": "root"}, "elsewhere"), ({"entries": "heap"}, "checksum"),
        ({"entries": "nothing"}, missing),
    ]  # fmt: skip
    good, *files = [tmp_path / f"{number}.h5" for number in range(len(made) + 1)]
    fractal_heaps.write(good)
    for path, (damage, _) in zip(files, made, strict=True):
        path.write_bytes(good.read_bytes())
        fractal_heaps.damage(path, **damage)
    fractal_heaps.damage(good)  # whose checksum is what HDF5 wrote
    expected = ["00", *(f"CorruptFileError .*{text}" for _, text in made)]
    check(outcomes([good, *files]), expected)


def heap(path: Path, descriptor: dict[int, int] | None = None, **words: int) -> None:
    """Store elements of variable length, and change their descriptors or words of their heap."""
    with h5py.File(path, "w") as file:
        x = file.create_dataset("x", (3,), h5py.vlen_dtype("u1"))
        x[:] = [np.arange(16, dtype="u1")] * 3
        at = x.id.get_offset()
    data = bytearray(path.read_bytes())
    for number in range(3):
        for offset, value in (descriptor or {}).items():
            struct.pack_into("<Q" if offset == 4 else "<I", data, at + 16 * number + offset, value)
    for word, value in words.items():
        struct.pack_into("<Q", data, data.index(b"GCOL") + int(word[1:]), value)
    path.write_bytes(data)


def test_heaps(tmp_path: Path) -> None:
    """Of a descriptor: length, address and index; of a heap: its size, and that of its object."""
    made: list[tuple[dict[int, int], dict[str, int], str]] = [
        ({4: 2**62}, {}, "in the file at byte 4611686018"), ({4: 2**64 - 1}, {}, "undefined"),
        ({0: 2**32 - 1}, {}, "expected 4294967295 bytes"), ({12: 2**31}, {}, "object 2147483648"),
        ({12: 0}, {}, "object 0"), ({}, {"_8": 2**60}, "in the file"), ({}, {"_8": 17}, "object 1"),
        ({}, {"_24": 2**63}, "more bytes"), ({}, {"_24": 2**64 - 1}, "more bytes"),
    ]  # fmt: skip
    files = [tmp_path / f"{number}.h5" for number in range(len(made))]
    for path, (descriptor, words, _) in zip(files, made, strict=True):
        heap(path, descriptor, **words)
    check(outcomes(files), [f"CorruptFileError .*{text}" for *_, text in made])


def test_elements_that_share_their_bytes(tmp_path: Path) -> None:
    """78 kB whose rows would take 16 GiB in memory."""
    path, n = tmp_path / "x.h5", 1 << 18
    with h5py.File(path, "w") as file:
        one = file.create_dataset("one", (1,), h5py.vlen_dtype("u1"))
        one[0] = np.zeros(1 << 16, "u1")
        at = one.id.get_offset()
        file.create_dataset("x", (1, n), one.dtype, chunks=(1, n), compression="gzip")
    stored = zlib.compress(path.read_bytes()[at : at + 16] * n, 9)
    with h5py.File(path, "a") as file:
        file["x"].id.write_direct_chunk((0, 0), stored)
    assert path.stat().st_size < 1 << 17
    check(outcomes([path]), ["CorruptFileError .*elements of variable length within"])


UNLIMITED = 2**64 - 1


# ---- what is meant


def test_texts_of_references_are_as_they_are(tmp_path: Path) -> None:
    attributes = {"texts": ["a", "longer"], "mixed": ["a", 1, True], "n": [[1, 2], [3, 4]]}
    content = references(attributes=json.dumps({**attributes, "ragged": [["a"], ["b", "c"]]}))
    (tmp_path / "refs.json").write_text(json.dumps(content))
    with multitables.open(tmp_path / "refs.json") as file:
        found = file["x"].attrs
        assert found["texts"].tolist() == ["a", "longer"]
        assert found["mixed"].tolist() == ["a", "1", "True"]
        assert found["n"].tolist() == [[1, 2], [3, 4]]
        assert json.loads(found["ragged"]) == [["a"], ["b", "c"]]


@pytest.mark.parametrize(
    ("selection", "text"),
    [
        (("regular", [(0, 4, UNLIMITED, 2)]), "beyond"),
        (("regular", [(2**64 - 1, 1, 1, 1)]), "beyond"),
        (("regular", [(0, 1, 4, 2)]), "overlap"),
        (("regular", [(0, 0, 0, 1)]), "empty or overlap"),
        (("regular", [(0, 1, 1, 1)] * 2), "beyond"),
        (("points", 1, [2**63]), "beyond"),
        (("points", 2, [0, 0]), "beyond"),
        (("blocks", 1, [5, 4]), "before it begins"),
        (("blocks", 1, [0, 2**41]), "beyond"),
        (("blocks", 1, [0, 2**39, 2**39 + 2, 2**39 + 4]), "do not follow"),
    ],
)
def test_regions_that_lie(selection: Any, text: str) -> None:
    for question in (region_steps, region_shape):
        if question is region_steps or selection[0] != "regular" or text != "do not follow":
            with pytest.raises(RegionError, match=text):
                question(selection, (2**40,))


def test_a_large_box_is_no_list() -> None:
    selection = ("regular", [(1, 1, 1, 2**39), (0, 3, 2**20, 1)])
    shape = (2**40, 2**40)
    assert region_shape(selection, shape) == (2**39, 2**20)
    steps = region_steps(selection, shape)
    assert [step[-1] for step in steps] == [slice(1, 2**39 + 1), slice(0, 3 * 2**20 - 2, 3)]


def test_a_virtual_dataset_of_many_pieces(tmp_path: Path) -> None:
    n = 70_000  # beyond the largest number of two bytes, which is no end where a part starts
    with h5py.File(tmp_path / "many.h5", "w", libver="latest") as file:
        file["s"] = data = np.arange(n, dtype="i4")
        made, shown, source = (
            h5p.create(h5p.DATASET_CREATE),
            h5s.create_simple((n,)),
            h5s.create_simple((n,)),
        )
        for number in range(n):
            shown.select_hyperslab((number,), (1,))
            source.select_hyperslab((n - 1 - number,), (1,))
            made.set_virtual(shown, b".", b"s", source)
        h5d.create(file.id, b"x", h5t.STD_I32LE, h5s.create_simple((n,)), made)
    with multitables.open(tmp_path / "many.h5") as file:
        assert np.array_equal(file["x"][n - 10 :], data[9::-1])
