"""Fuzz the parts of the core that see bytes of others, for minutes in CI and for hours by hand.

Law
---
1. What is done with an input stands in core/fuzz/src, a body for each target; its corpus, in
   core/fuzz/corpus, is small and made here of files that h5py wrote.
2. With a nightly Rust libFuzzer guides the inputs, under AddressSanitizer; without one the same
   bodies run over the corpus and mutations of it. Which it was is printed.
3. An input that is a fault is kept, and its name is printed. Faults end the run with status 1, as
   does a body that does not compile; without Rust the status is 77.

Usage: ``PYTHONPATH=tests/support python tools/fuzz.py [--seconds N] [--seed N] [TARGET ...]``: each
target for so long; new inputs that reach more are kept beside the build, not in the repository.
``... tools/fuzz.py --seeds`` writes the corpus anew.
"""

from __future__ import annotations

import argparse
import io
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FUZZ = ROOT / "core" / "fuzz"
CORPUS = FUZZ / "corpus"
ANSWERS = ROOT / "core/crates/hdf5_format/tests/files.txt"
TARGETS = re.findall(r'^    \("(\w+)", ', (FUZZ / "src/lib.rs").read_text(), flags=re.M)
#: What cargo-fuzz would set: coverage for libFuzzer, and a sanitizer that the C code goes without.
FLAGS = (
    "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4"
    " -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table"
    " -Cllvm-args=-sanitizer-coverage-trace-compares --cfg fuzzing -Zsanitizer=address"
)
TRIPLE = "x86_64-unknown-linux-gnu"
MAX_INPUT_BYTES = 1 << 16
NOTHING_RUNS = 77


# ---- building and running ------------------------------------------------------------------


def cargo(toolchain: Sequence[str], binary: str, *arguments: str, **env: str) -> bool:
    """Build one of the drivers."""
    manifest = str(FUZZ / "Cargo.toml")
    command = ["cargo", *toolchain, "build", "--release", "--locked", "--manifest-path", manifest]
    command += ["--bin", binary, *arguments]
    return subprocess.run(command, env={**os.environ, **env}, check=False).returncode == 0


def target_folder() -> Path:
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "core" / "target")) / "fuzz"


def has_nightly() -> bool:
    found = subprocess.run(["cargo", "+nightly", "--version"], capture_output=True, check=False)
    return found.returncode == 0


def guided(target: str, seconds: int, seed: int, kept: Path) -> int:
    """Run a target under libFuzzer; new inputs go to the first folder."""
    found = kept / target
    found.mkdir(parents=True, exist_ok=True)
    binary = target_folder() / TRIPLE / "release/guided"
    command = [
        str(binary), f"-max_total_time={seconds}", f"-seed={seed}", f"-max_len={MAX_INPUT_BYTES}",
        "-rss_limit_mb=2048", "-timeout=20", "-print_final_stats=1", "-verbosity=0",
        f"-artifact_prefix={kept}/fault-{target}-", str(found), str(CORPUS / target),
    ]  # fmt: skip
    # A mapping of the core's is no leak, and memory that there is not is an error of its own.
    options = "detect_leaks=0:allocator_may_return_null=1"
    done = ran(command, seconds, MULTITABLES_FUZZ=target, ASAN_OPTIONS=options)
    count = re.search(r"number_of_executed_units: (\d+)", done.stdout)
    print(f"{target}: {count[1] if count else 'no'} inputs", flush=True)
    if done.returncode:
        print(done.stdout[-5000:])
    return done.returncode


def ran(command: list[str], seconds: int, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a driver; one that takes no end is a fault, too."""
    return subprocess.run(
        ["timeout", str(2 * seconds + 60), *command], env={**os.environ, **env},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", check=False,
    )  # fmt: skip


def mutated(target: str, seconds: int, seed: int, kept: Path) -> int:
    """Run a target over mutations of its corpus."""
    kept.mkdir(parents=True, exist_ok=True)
    binary = target_folder() / "release/mutated"
    fault = kept / f"fault-{target}-{seed}"
    command = [str(binary), target, str(CORPUS / target), str(fault), str(seconds), str(seed)]
    done = ran(command, seconds)
    print(done.stdout[-5000:], end="", flush=True)
    return done.returncode


def run(targets: Sequence[str], seconds: int, seed: int) -> int:
    if shutil.which("cargo") is None:
        print("no target can be built here: there is no cargo")
        return NOTHING_RUNS
    folder = str(target_folder())
    if has_nightly() and cargo(
        ["+nightly"], "guided", "--features", "libfuzzer", "--target", TRIPLE,
        RUSTFLAGS=FLAGS, CARGO_TARGET_DIR=folder,
    ):  # fmt: skip
        driver, how = guided, "libFuzzer and AddressSanitizer"
    elif cargo([], "mutated", CARGO_TARGET_DIR=folder):
        driver, how = mutated, "mutations only, as there is no nightly Rust"
    else:
        print("the targets do not compile")
        return 1
    print(f"fuzzing with {how}; seed {seed}", flush=True)
    kept = target_folder() / "inputs"
    # As many at a time as there are cores.
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        failed = pool.map(lambda target: driver(target, seconds, seed, kept), targets)
    faults = [target for target, status in zip(targets, failed, strict=True) if status]
    print(f"faults: {', '.join(faults) or 'none'} (inputs in {kept})")
    return bool(faults)


# ---- the corpus ----------------------------------------------------------------------------


def files(folder: Path) -> Iterator[Path]:
    """Yield small files of every layout, and one with objects of every kind."""
    from public_walk import FILES  # type: ignore[import-not-found]  # of the tests

    for name, build in FILES.items():
        path = folder / f"{name.replace(' ', '_')}.h5"
        build(path)
        yield path


def filter_seeds(folder: Path) -> Iterator[tuple[str, str, bytes]]:
    """Yield chunks as h5py stored them, with their filters."""
    import h5py
    import hdf5plugin
    import numpy as np

    from _multitables import _core

    ids = list(_core.native_filters())
    smooth = np.cumsum(np.random.default_rng(7).integers(0, 5, 600), dtype="<i4")
    blosc = [hdf5plugin.Blosc(cname=one, shuffle=n % 3) for n, one in enumerate(BLOSC_CODECS)]
    blosc2 = [hdf5plugin.Blosc2(cname=one, filters=n % 3) for n, one in enumerate(BLOSC_CODECS)]
    several = {"compression": "gzip", "shuffle": True, "fletcher32": True}
    made: list[dict[str, Any]] = [
        {"compression": "gzip"}, {"shuffle": True}, {"fletcher32": True}, {"compression": "lzf"},
        {"compression": "szip"}, {"scaleoffset": 0}, dict(hdf5plugin.BZip2()),
        dict(hdf5plugin.LZ4()), dict(hdf5plugin.Zstd()), dict(hdf5plugin.Bitshuffle()),
        dict(hdf5plugin.Bitshuffle(cname="none")), dict(hdf5plugin.Bitshuffle(cname="zstd")),
        *map(dict, blosc), *map(dict, blosc2), several,
        {"compression": "lzf", "shuffle": True}, {"scaleoffset": 0, "shuffle": True},
        {**hdf5plugin.Zstd(), "shuffle": True, "fletcher32": True},
    ]  # fmt: skip
    path = folder / "filters.h5"
    with h5py.File(path, "w") as file:
        for number, options in enumerate(made):
            x = file.create_dataset(str(number), data=smooth, chunks=(600,), **options)
            plist = x.id.get_create_plist()
            specs = [plist.get_filter(at) for at in range(plist.get_nfilters())]
            if any(spec[0] not in ids for spec in specs):
                continue
            mask, stored = x.id.read_direct_chunk((0,))
            head = struct.pack("B", len(specs) - 1)
            for number_of, _, values, _ in specs:
                head += struct.pack(
                    f"<BB{len(values)}I", ids.index(number_of), len(values), *values
                )
            head += x.nbytes.to_bytes(3, "little") + bytes([mask])
            target = "filter" if len(specs) == 1 else "pipeline"
            yield target, f"{number}-{specs[-1][0]}", head + stored
    groups = [[zlib.compress(bytes(smooth[at : at + 60])) for at in range(0, 240, 60)]]
    groups.append([zlib.compress(b"a" * 500, level) for level in (0, 1, 9)])
    for streams in groups:
        sizes = [(len(zlib.decompress(one)), len(one)) for one in streams]
        head = bytes([len(streams) - 2]) + b"".join(struct.pack("<HH", *size) for size in sizes)
        yield "deflate_group", str(len(streams)), head + b"".join(streams)


def picture_seeds() -> Iterator[tuple[str, str, bytes]]:
    """Yield pictures as Pillow writes them, with their sizes."""
    import numpy as np
    from PIL import Image

    pixels = np.random.default_rng(3).integers(0, 256, (9, 14, 4), "u1")
    options: list[tuple[str, str, dict[str, Any]]] = [
        *(("PNG", mode, {}) for mode in ("1", "L", "LA", "P", "RGB", "RGBA")),
        ("JPEG", "L", {}), ("JPEG", "RGB", {"progressive": True}),
        ("JPEG", "RGB", {"subsampling": "4:4:4", "restart_marker_rows": 1}),
    ]  # fmt: skip
    for number, (kind, mode, given) in enumerate(options):
        picture, made = Image.fromarray(pixels).convert(mode), io.BytesIO()
        picture.save(made, kind, **given)
        channels = {"1": 0, "L": 0, "RGBA": 2}.get(mode, 1)  # of the targets' CHANNELS
        head = struct.pack("<BHH", channels, picture.height, picture.width)
        yield "picture", f"{number}-{kind}-{mode}", head + made.getvalue()


#: Layouts of which plans of shuffled batches are kept.
SHUFFLED = ("btree_1", "contiguous")
BLOSC_CODECS: Any = ("blosclz", "lz4", "lz4hc", "zlib", "zstd")


def table_seeds(paths: Sequence[Path]) -> Iterator[tuple[str, str, bytes]]:
    """Yield tables, plans and requests of real calls, with the files' bytes in them."""
    import numpy as np

    import multitables
    from _multitables.index.chunk_index import SourceFile
    from _multitables.parent.random import pieces, service
    from _multitables.wire import plan_bytes

    found: list[tuple[str, bytes]] = []
    source = SourceFile.for_table

    def with_bytes(file: SourceFile, inline: bytes = b"", flags: int = 0) -> Any:
        return source(file, inline or Path(file.filename).read_bytes(), flags)

    def kept(module: Any, name: str, what: str) -> None:
        call = getattr(module, name)

        def keep(*args: Any, **options: Any) -> Any:
            made = call(*args, **options)
            found.append((what, getattr(made, "encoded", made)))
            return made

        setattr(module, name, keep)

    SourceFile.for_table = with_bytes  # type: ignore[method-assign,assignment]
    kept(plan_bytes, "made_table", "table")
    kept(plan_bytes, "encode_plan", "plan")
    kept(service, "encode_hyperslab", "words")
    kept(pieces, "encode_pieces", "words")
    for path in paths:
        with multitables.Streamer(path) as streamer, multitables.Reader(path, n_procs=1) as reader:
            with streamer.get_queue("/x", n_procs=1, remainder=True) as queue:
                for block in queue:
                    del block
            for shuffle in ("full", "chunks") if path.stem in SHUFFLED else ():
                cast: Any = {"dtype": "f2", "scale": ([3.0], 2.0)} if shuffle == "chunks" else {}
                with streamer.get_batches(
                    "/x", 5, shuffle=shuffle, seed=1, n_procs=1, **cast
                ) as batches:
                    for batch in batches:
                        del batch
            x = reader.get_dataset("/x")
            for key in (np.s_[2:9:3], np.s_[[1, 3, 8]], np.s_[..., 0]):
                reader.request(x[key]).get()
    placed = next(path for path in paths if path.stem == "btree_1")
    with (
        multitables.Streamer(placed) as streamer,
        streamer.get_batches(("/x", "/x"), 40, n_procs=1, crop=(2,), flip=0, into=1) as batches,
    ):
        for batch in batches:
            del batch
    table = b""
    for number, (what, encoded) in enumerate(found):
        if what == "words":
            head = struct.pack("<BBI", 0, 0, len(table))
            yield "request", str(number), head + table + encoded
        else:
            table = encoded if what == "table" else table
            yield what, str(number), encoded


def saved_seeds(folder: Path, paths: Sequence[Path]) -> Iterator[tuple[str, str, bytes]]:
    """Yield the saved index of each file, and one of some files; without what differs each time."""
    import multitables

    for path in paths:
        content = Path(multitables.index_file(path, progress=False)).read_bytes()
        yield "saved", path.stem, content[:24] + bytes(16) + content[40:]  # time and inode
    alike = []
    for name in "abc":
        alike.append(folder / f"{name}.h5")
        shutil.copy(paths[0], alike[-1])
    several = multitables.index_files(alike, to=folder / "all.mtidx", progress=False)
    content, named = Path(several).read_bytes(), os.fsencode(folder)
    yield "saved", "manifest", content.replace(named, b"x" * len(named))


def seeds() -> None:
    """Write the corpus anew; equal inputs are there once."""
    shutil.rmtree(CORPUS, ignore_errors=True)
    written: set[bytes] = set()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = list(files(folder))
        metadata = [("metadata", path.stem, path.read_bytes()) for path in paths]
        small = [path for path in paths if not re.match("objects|text|ragged", path.stem)]
        made = [*metadata, *filter_seeds(folder), *picture_seeds(), *table_seeds(small)]
        made += saved_seeds(folder, paths)
    for target, title, data in made:
        if data not in written:
            written.add(data)
            (CORPUS / target).mkdir(parents=True, exist_ok=True)
            (CORPUS / target / title).write_bytes(data)
    answers()


def answers() -> None:
    """Write what h5py says of the files of the corpus, for a test of the crate hdf5_format."""
    import h5py

    lines = []
    for path in sorted((CORPUS / "metadata").iterdir()):
        with h5py.File(path) as file:
            found: list[Any] = []
            file.visititems(lambda _, one, to=found: to.append(one))
            for x in (one for one in found if isinstance(one, h5py.Dataset)):
                plist = x.id.get_create_plist()
                ids = [plist.get_filter(at)[0] for at in range(plist.get_nfilters())]
                stored: list[tuple[int, int]] = []
                if x.chunks:
                    x.id.chunk_iter(lambda one, to=stored: to.append(one[2:]))
                chunks = [f"{offset}:{size}" for offset, size in stored]
                words = [x.shape or (), ids, chunks]
                dims, filters, places = (",".join(map(str, each)) or "-" for each in words)
                text = h5py.check_string_dtype(x.dtype)  # of which HDF5 says a pointer's size
                size = 16 if text and text.length is None else x.id.get_type().get_size()
                lines.append(f"{path.name} {x.name} {dims} {size} {filters} {places}\n")
    ANSWERS.write_text("".join(lines))


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(TARGETS))
    parser.add_argument("--seconds", type=int, default=3600, help="for each target")
    parser.add_argument("--seed", type=int, default=random.randrange(1, 1 << 30))
    parser.add_argument("--seeds", action="store_true", help="write the corpus anew")
    chosen = parser.parse_args()
    if unknown := set(chosen.targets) - set(TARGETS):
        parser.error(f"no such targets: {', '.join(sorted(unknown))}")
    if chosen.seeds:
        seeds()
        return 0
    return run(chosen.targets or TARGETS, chosen.seconds, chosen.seed)


if __name__ == "__main__":
    sys.exit(main())
