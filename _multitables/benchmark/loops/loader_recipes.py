"""How the samples of a shape come as batches: this library's units, and loaders of other formats.

Law
---
1. A recipe yields batches of the samples in `picked`, in an order of its own: a dict of arrays
   whose first axis counts samples. Where samples differ in length, arrays have one behind the
   other, and ``lengths`` says how long each is.
2. Libraries that read no HDF5 get the same samples in their formats, written before the clock.
3. A unit that this release of the library does not have is an `AbsentError`.
4. It runs beside the loops: standard library, NumPy, and the recipe's library.
"""

from __future__ import annotations

import importlib
import io
import itertools
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from . import loader_classes, passes, refusals, store_options

#: A shape's class over h5py, numbers of samples or None for all, and the request.
Batches = Iterator[dict[str, Any]]
Picked = Any
Recipe = Callable[[Any, Any, Picked, dict[str, Any]], Batches]

IN_FLIGHT = 64
MANY = ("positions", "gradients")  # of a molecule, by its configurations


def _streamed(
    library: Any, picked: Picked, asked: dict[str, Any], path: Any, **options: Any
) -> Iterator[Any]:
    """Shuffled batches of one pass, of files or of their copies in a store."""
    options = {"shuffle": True, "rows": picked, "n_procs": asked["n_procs"], **options}
    store = {"storage_options": asked["store"]} if asked["objects"] else {}
    with (
        library.Streamer(asked["objects"] or asked["files"], **store) as streamer,
        streamer.get_batches(path, options.pop("batch", asked["batch"]), **options) as batches,
    ):
        yield from batches


# ---- this library


def _clips(library: Any, project: Any, picked: Picked, asked: dict[str, Any]) -> Batches:
    frames = range(0, loader_classes.SPAN, loader_classes.SKIP)
    sample = library.Clips(loader_classes.SPAN, lengths="/ep_len", per_path={"pixels": frames})
    paths = {"pixels": "/pixels", "action": "/action"}
    return _streamed(library, picked, asked, paths, sample=sample)


def _frames(library: Any, project: Any, picked: Picked, asked: dict[str, Any]) -> Batches:
    """The same number of rows as plain batches: the rate of a stream of rows."""
    options = {"batch": asked["batch"] * loader_classes.FRAMES, "epochs": loader_classes.FRAMES}
    for frames in _streamed(library, None, asked, "/pixels", **options):
        whole = len(frames) // loader_classes.FRAMES * loader_classes.FRAMES
        yield {"pixels": frames[:whole].reshape(-1, loader_classes.FRAMES, *frames.shape[1:])}


def _windows(library: Any, project: Any, picked: Picked, asked: dict[str, Any]) -> Batches:
    if not hasattr(library, "Patches"):
        raise refusals.AbsentError("this release has no Patches")
    sample = library.Patches((1, loader_classes.STEPS), stride=(1, 1))
    found = _streamed(library, picked, asked, loader_classes.FIELDS, sample=sample)
    return ({name: one[:, 0] for name, one in batch.items()} for batch in found)


def _requested(library: Any, project: Any, picked: Picked, asked: dict[str, Any]) -> Batches:
    """Windows as requests of a `Reader` for each file, some of them ahead."""
    rng, numbers = np.random.default_rng(0), np.arange(len(project)) if picked is None else picked
    readers = [library.Reader(filename, n_procs=1) for filename in asked["files"]]
    fields = [
        {name: reader.get_dataset(f"/{path}") for name, path in loader_classes.FIELDS.items()}
        for reader in readers
    ]

    def sent() -> Iterator[dict[str, Any]]:
        for number in rng.permutation(numbers).tolist():
            at, *window = project.window(number)
            yield {
                name: readers[at].request(one[tuple(window)]) for name, one in fields[at].items()
            }

    try:
        for requests in passes.ahead(sent(), IN_FLIGHT):
            yield {name: request.get()[np.newaxis] for name, request in requests.items()}
    finally:
        for reader in readers:
            reader.stop()


def _anywhere(library: Any, project: Any, picked: Picked, asked: dict[str, Any]) -> Batches:
    sample = library.At(project.rows, loader_classes.WINDOW)
    paths = {name: f"/{path}" for name, path in loader_classes.DETECTORS.items()}
    return _streamed(library, picked, asked, paths, sample=sample)


def _boxes(library: Any, project: Any, picked: Picked, asked: dict[str, Any]) -> Batches:
    if not hasattr(library, "Patches"):
        raise refusals.AbsentError("this release has no Patches")
    sample = library.Patches(loader_classes.PATCH, stride=loader_classes.STRIDE)
    paths = {"raw": "/raw", "label": "/label"}
    return _streamed(library, picked, asked, paths, sample=sample)


def _boxes_of_open(library: Any, project: Any, picked: Picked, asked: dict[str, Any]) -> Batches:
    """Patches by number, of one file behind the other, each file's in random order."""
    first, rng = 0, np.random.default_rng(0)
    for filename in asked["files"]:
        file = library.open(filename)
        if not hasattr(file["raw"], "patches"):
            raise refusals.AbsentError("datasets of this release have no patches")
        box = loader_classes.PATCH, loader_classes.STRIDE
        found = {name: file[name].patches(*box) for name in ("raw", "label")}
        n = len(found["raw"])
        numbers = np.arange(first, first + n)
        numbers = rng.permutation(numbers if picked is None else np.intersect1d(numbers, picked))
        for some in np.split(numbers - first, range(asked["batch"], len(numbers), asked["batch"])):
            yield {name: one[some] for name, one in found.items()}
        first += n


def _sequences(library: Any, project: Any, picked: Picked, asked: dict[str, Any]) -> Batches:
    sample = library.Clips(loader_classes.SEQUENCE, pad="edge")
    paths = {name: library.Joined(f"/data/*/{path}") for name, path in loader_classes.DEMO.items()}
    return _streamed(library, picked, asked, paths, sample=sample)


def _items(library: Any, project: Any, picked: Picked, asked: dict[str, Any]) -> Batches:
    """All configurations of a molecule come together, with its atoms once."""
    paths = {name: f"/*/{path}" for name, path in loader_classes.MOLECULE.items()}
    with library.Streamer(asked["files"][0]) as streamer:
        options = {"scales": False, "n_procs": asked["n_procs"]}
        for item in streamer.get_collection(paths, **options):
            numbers, found = item["numbers"], {name: item[name] for name in MANY}
            if picked is not None:
                of_item = picked - project.firsts[item.key]
                kept = of_item[(of_item >= 0) & (of_item < len(found["positions"]))]
                found = {name: one[kept] for name, one in found.items()}
            n = len(found["positions"])
            if n:
                flat = {name: one.reshape(-1, 3) for name, one in found.items()}
                lengths = np.full(n, len(numbers))
                yield {"numbers": np.tile(numbers, n), **flat, "lengths": lengths}


# ---- others, which read formats of their own


def _order(project: Any, picked: Picked) -> Any:
    numbers = np.arange(len(project)) if picked is None else picked
    return np.random.default_rng(0).permutation(numbers)


def _lance(_library: Any, project: Any, picked: Picked, asked: dict[str, Any]) -> Batches:
    """A row for each frame, of raw bytes; the rows of a batch are taken in one call."""
    lance, arrow, h5py = map(importlib.import_module, ("lance", "pyarrow", "h5py"))
    copy = f"{asked['files'][0]}.lance"
    if not os.path.exists(copy):

        def rows() -> Iterator[Any]:
            with h5py.File(asked["files"][0]) as file:
                for first in range(0, len(file["pixels"]), 256):
                    pixels = file["pixels"][first : first + 256]
                    actions = file["action"][first : first + 256].tolist()
                    columns = [[one.tobytes() for one in pixels], actions]
                    yield arrow.record_batch(columns, schema=schema)

        action = arrow.list_(arrow.float32(), 2)
        schema = arrow.schema([("pixels", arrow.large_binary()), ("action", action)])
        lance.write_dataset(rows(), f"{copy}.part", schema=schema)
        os.rename(f"{copy}.part", copy)
    store = None
    if asked["objects"]:
        copy = _uploaded(copy, f"{asked['objects'][0]}.lance", asked["store"])
        store = {**asked["store"], "allow_http": "true"}
    data = lance.dataset(copy, storage_options=store)
    order, span = _order(project, picked), loader_classes.SPAN
    for some in np.split(order, range(asked["batch"], len(order), asked["batch"])):
        firsts = project.starts[some]
        frames = (firsts[:, None] + np.arange(0, span, loader_classes.SKIP)).reshape(-1)
        actions = (firsts[:, None] + np.arange(span)).reshape(-1)
        table = data.take(frames.tolist(), columns=["pixels"])
        shape = (len(some), loader_classes.FRAMES, 224, 224, 3)
        taken = data.take(actions.tolist(), columns=["action"])["action"].combine_chunks()
        yield {
            "pixels": np.frombuffer(b"".join(table["pixels"].to_pylist()), "u1").reshape(shape),
            "action": taken.flatten().to_numpy().reshape(len(some), span, 2),
        }


def _uploaded(folder: str, url: str, store: dict[str, Any]) -> str:
    """Upload the files of a folder that are not there yet; return its URL."""
    to, key = store_options.obstore_of(url, store)
    obstore = importlib.import_module("obstore")
    there = {one["path"] for some in obstore.list(to, key) for one in some}
    for path in sorted(Path(folder).rglob("*")):
        name = f"{key}/{path.relative_to(folder).as_posix()}"
        if path.is_file() and name not in there:
            obstore.put(to, name, path)
    return url


def _cut(
    project: Any, asked: dict[str, Any], kind: str, write: Callable[[str, Iterator[Any]], None]
) -> str:
    """The folder of all samples in another format, written when it is not there yet."""
    folder = f"{asked['files'][0]}.{kind}"
    if not os.path.exists(folder):
        write(f"{folder}.part", ((number, project[number]) for number in range(len(project))))
        os.rename(f"{folder}.part", folder)
    return folder


def _gathered(samples: Iterator[Any], picked: Picked, asked: dict[str, Any]) -> Batches:
    """Batches of the samples that are picked, which come with their numbers."""
    wanted = None if picked is None else set(picked.tolist())
    found = (sample for number, sample in samples if wanted is None or number in wanted)
    while some := [*itertools.islice(found, asked["batch"])]:
        yield {name: np.stack([one[name] for one in some]) for name in some[0]}


def _webdataset(_library: Any, project: Any, picked: Picked, asked: dict[str, Any]) -> Batches:
    """Shards of clips that were cut before, each frame four times in them; a shuffling buffer."""
    webdataset = importlib.import_module("webdataset")

    def write(folder: str, samples: Iterator[Any]) -> None:
        os.makedirs(folder, exist_ok=True)
        with webdataset.ShardWriter(f"{folder}/%06d.tar", maxcount=250, verbose=0) as out:
            for number, sample in samples:
                arrays = {f"{name}.npy": one for name, one in sample.items()}
                out.write({"__key__": f"{number:09}", **arrays})

    folder = _cut(project, asked, "webdataset", write)
    shards = sorted(os.path.join(folder, one) for one in os.listdir(folder))
    data = webdataset.WebDataset(shards, shardshuffle=len(shards), seed=1).shuffle(1000)

    def samples() -> Iterator[Any]:
        for one in data:
            stored = {name: one[f"{name}.npy"] for name in ("pixels", "action")}
            arrays = {name: np.load(io.BytesIO(bits)) for name, bits in stored.items()}
            yield int(one["__key__"]), arrays

    return _gathered(samples(), picked, asked)


def _mosaic(_library: Any, project: Any, picked: Picked, asked: dict[str, Any]) -> Batches:
    """The same clips in shards of MDS, as its dataset shuffles them."""
    streaming = importlib.import_module("streaming")

    def write(folder: str, samples: Iterator[Any]) -> None:
        columns = {"number": "int", "pixels": "ndarray", "action": "ndarray"}
        with streaming.MDSWriter(out=folder, columns=columns, exist_ok=True) as out:
            for number, sample in samples:
                out.write({"number": number, **sample})

    folder = _cut(project, asked, "mds", write)
    options = {"shuffle": True, "shuffle_seed": 1, "batch_size": asked["batch"]}
    data = streaming.StreamingDataset(local=folder, **options)
    return _gathered(((one.pop("number"), one) for one in data), picked, asked)


#: Shape -> recipe -> what yields its batches.
RECIPES: dict[str, dict[str, Recipe]] = {
    "clips": {
        "unit": _clips,
        "rows": _frames,
        "lance": _lance,
        "webdataset": _webdataset,
        "mosaic": _mosaic,
    },
    "fluids": {"unit": _windows, "reader": _requested},
    "waves": {"unit": _anywhere},
    "patches": {"unit": _boxes, "by number": _boxes_of_open},
    "robots": {"unit": _sequences},
    "molecules": {"unit": _items},
}
