"""Units of loaders, the files that they read, and what an epoch of each has by NumPy.

Law
---
1. A unit's oracle is a loop over the whole data; it knows nothing of the library.
2. Each element of the data is its own number, so that a sample shows which elements it has.
"""

from __future__ import annotations

import itertools
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from naive_placing import placed
from naive_samples import NaiveClips, NaivePatches, patch
from processes import kill, readers
from versioned import Writer

from multitables import At, Clips, Patches, Ranges, Weights

N, SHAPE = 60, (6, 4)
X = np.arange(N * 24, dtype="<i4").reshape(N, *SHAPE)
Y = np.arange(N, dtype="<i8") * 7
#: Rows of the files of each kind; the same chunk of the first file is damaged.
LENGTHS = {"one": [N], "several": [26, 0, 34], "versions": [N], "virtual": [N]}
CHUNK, HURT = (5, 3, 4), (20, 3, 0)
LOST = X[20:25, 3:6]
INNER = np.s_[1:6, ::-1]
ORDERS = [None, "chunks", "window", "full"]
AT, BOXES = [50, 3, 3, 21, 0, 57], np.array([[3, 0, 1], [18, 2, 0], [3, 0, 1], [57, 1, 1]])
RANGES = [(0, 5), (19, 21), (30, 33), (24, 30), (25, 26), (7, 7)]
SEGMENTS = [20, 5, 0, 35]

#: The bytes of its arrays.
Sample = tuple[bytes, ...]


def key_of(*arrays: Any) -> Sample:
    return tuple(np.ascontiguousarray(one, "<i8").tobytes() for one in arrays)


def write(folder: Path, kind: str, damaged: bool) -> list[Path]:
    """Write the data as files of a kind."""
    names, begin = [], 0
    for number, length in enumerate(LENGTHS[kind]):
        names.append(folder / f"{kind}-{number}-{damaged}.h5")
        rows = slice(begin, begin + length)
        begin += length
        with h5py.File(names[-1], "w") as file:
            if kind == "versions":
                writer = Writer(file, compression="gzip")
                writer.commit("first", {"x": X, "y": Y})
                writer.commit("second", {"x": X + 10**6, "y": Y})
                continue
            name = "source" if kind == "virtual" else "x"
            x = file.create_dataset(
                name, data=X[rows], chunks=CHUNK, compression="gzip", maxshape=(None, *SHAPE)
            )
            file.create_dataset("y", data=Y[rows], chunks=(7,), maxshape=(None,))
            if kind == "virtual":
                layout = h5py.VirtualLayout(X.shape, X.dtype)
                layout[:40] = h5py.VirtualSource(x)[:40]
                layout[40:] = h5py.VirtualSource(x)[40:]
                file.create_virtual_dataset("x", layout)
            place = None if number else x.id.get_chunk_info_by_coord(HURT).byte_offset
            _write_groups(file)
        if damaged and place is not None:
            with names[-1].open("r+b") as raw:
                raw.seek(place + 9)
                raw.write(bytes(20))
    return names


def _write_groups(file: h5py.File) -> None:
    """Write the groups of items and of key blocks."""
    for number in range(12):
        file[f"items/{number:02}/x"] = X[number]
    file["keys/id"] = np.repeat(np.arange(20), np.arange(20) % 4)
    file["keys/v"] = np.arange(30) * 3
    file["lengths"] = np.arange(N) % 6 + 1


@dataclass(frozen=True)
class Unit:
    """A unit, the samples of an epoch, and which options it has."""

    name: str
    options: Callable[[str], dict[str, Any]]
    #: Of the data as `inner` selects it, and the rows of the files.
    samples: Callable[[np.ndarray, list[int]], list[Sample]]
    paths: Any = "x"
    #: Beside order, ranks and resume.
    has: tuple[str, ...] = ("damage", "inner", "files")

    def of_epoch(self, x: np.ndarray, lengths: list[int], seed: int, epoch: int) -> list[Sample]:
        """Return the samples of an epoch; most have those of all."""
        return self.samples(x, lengths)

    def loader(self, streamer: Any, case: Case, rank: int, world_size: int, size: int) -> Any:
        options: dict[str, Any] = {
            "shuffle": case.order, "n_procs": case.n_procs, "epochs": 2, "seed": case.seed,
            "rank": rank, "world_size": world_size, "skip_damaged": case.damaged,
            "share": case.share, **self.options(case.files),
        }  # fmt: skip
        if case.order == "window":
            options["window_rows"] = 16
        if case.inner:
            named = self.paths.items() if isinstance(self.paths, dict) else ()
            options["inner"] = {key: INNER for key, path in named if path == "x"} or INNER
        if case.files == "versions":
            options["version"] = "first"
        return streamer.get_batches(self.paths, size, **options)

    def split(self, batch: Any) -> list[Sample]:
        """Return the samples of a batch, one by one."""
        if isinstance(self.paths, dict):
            return [key_of(*each) for each in zip(*batch.values(), strict=True)]
        return [key_of(one) for one in batch]


@dataclass(frozen=True)
class Placed(Unit):
    """Samples whose rows of x are cropped, mirrored, and have their axes in another order."""

    #: As the oracle has them: `before` counts the axes of a sample before those of a row.
    placing: dict[str, Any] = field(default_factory=dict)
    #: Where the rows are twice in one array.
    twice: int | None = None

    def of_epoch(self, x: np.ndarray, lengths: list[int], seed: int, epoch: int) -> list[Sample]:
        shape = (-1, *self.shape(x))
        found = []
        for number, (first, *others) in enumerate(self.samples(x, lengths)):
            rows = np.frombuffer(first, "<i8").reshape(shape)
            rows = rows if self.placing["before"] else rows[0]
            made = placed(rows, seed, epoch, number, **self.placing)
            made = made if self.twice is None else np.stack([made, made], self.twice)
            found.append((*key_of(made), *others))
        return found

    def shape(self, x: np.ndarray) -> tuple[int, ...]:
        """Return that of a row."""
        along = isinstance(self.options("one").get("sample"), Clips) and "along" in self.name
        return x.shape[2:] if along else x.shape[1:]


@dataclass(frozen=True)
class Items(Unit):
    """Items of a collection."""

    def loader(self, streamer: Any, case: Case, rank: int, world_size: int, size: int) -> Any:
        order = "file" if case.order is None else "random"
        return streamer.get_collection(
            "/items/*/x", order=order, n_procs=case.n_procs, epochs=2, seed=case.seed, rank=rank,
            world_size=world_size, skip_damaged=case.damaged, share=case.share,
        )  # fmt: skip

    def split(self, batch: Any) -> list[Sample]:
        (array,) = batch.values()
        return [key_of(array)]


@dataclass(frozen=True)
class Keys(Unit):
    """Blocks of whole keys."""

    def loader(self, streamer: Any, case: Case, rank: int, world_size: int, size: int) -> Any:
        return streamer.get_columns(
            "/keys", ["v"], index="id", entries_per_block=size, epochs=2, n_procs=case.n_procs,
            rank=rank, world_size=world_size, share=case.share,
        )  # fmt: skip

    def split(self, batch: Any) -> list[Sample]:
        edges = batch.offsets
        return [key_of(batch["v"][low:high]) for low, high in itertools.pairwise(edges)]


def _clips(x: np.ndarray, lengths: list[int]) -> list[Sample]:
    naive = NaiveClips(lengths, {"x": [-1, 0, 1], "y": [0, 1, 2, 3]}, 2, 1, pads=True)
    return [
        key_of(naive.sample("x", x, clip, -1)[0], naive.sample("y", Y, clip, -1)[0])
        for clip in naive.starts()
    ]


def _along(x: np.ndarray, _: list[int]) -> list[Sample]:
    padded = np.concatenate([x, np.full_like(x[:, :2], -1)], axis=1)
    lengths = [row % x.shape[1] + 1 for row in range(N)]
    found = []
    for row, length in enumerate(lengths):
        for start in range(0, length, 2):
            made = [
                padded[row, at] if at < length else padded[row, -1] for at in (start, start + 2)
            ]
            found.append(key_of(made))
    return found


def _last(x: np.ndarray, _: list[int]) -> list[Sample]:
    return [key_of(x[row, :, at : at + 3]) for row in range(N) for at in range(x.shape[2] - 2)]


def _patches(pad: Any) -> Callable[[np.ndarray, list[int]], list[Sample]]:
    def all_of(x: np.ndarray, lengths: list[int]) -> list[Sample]:
        return list(map(key_of, NaivePatches(lengths, (4, 3), (3, 2), pad).all(x)))

    return all_of


def _drawn(x: np.ndarray, _: list[int]) -> list[Sample]:
    """Those that may be drawn."""
    return [key_of(x[row : row + 3]) for row in range(N - 2)]


def given(**options: Any) -> Callable[[str], dict[str, Any]]:
    return lambda _: options


PAIR = {"x": "x", "y": "y"}
UNITS = [
    Unit("rows", given(), lambda x, _: [key_of(*one) for one in zip(x, Y, strict=True)], PAIR),
    Unit(
        "clips",
        given(sample=Clips(3, before=1, stride=2, pad=-1, per_path={"y": range(4)})),
        _clips,
        PAIR,
    ),
    Unit(
        "segments",
        given(sample=Clips(4, lengths=SEGMENTS)),
        lambda x, _: [
            key_of(NaiveClips(SEGMENTS, {"x": [0, 1, 2, 3]}, 1, 1, pads=False).sample(
                "x", x, clip, None)[0])
            for clip in NaiveClips(SEGMENTS, {"x": [0, 1, 2, 3]}, 1, 1, pads=False).starts()
        ],
        has=("damage", "inner"),
    ),
    Unit(
        "along",
        lambda _: {
            "sample": Clips(2, axis=1, stride=2, every=2, pad=-1, lengths="lengths"),
        },
        _along,
        has=(),
    ),
    Unit("last axis", given(sample=Clips(3, axis=2)), _last),
    Unit(
        "at",
        given(sample=At(AT, [0, 2])),
        lambda x, _: [key_of(x[[at, at + 2]], Y[[at, at + 2]]) for at in AT],
        PAIR,
    ),
    Unit(
        "boxes",
        given(sample=At(BOXES, (3, 2, 2))),
        lambda x, _: [key_of(patch(x, at, (3, 2, 2), None)) for at in BOXES],
    ),
    Unit(
        "ranges",
        given(sample=Ranges(*zip(*RANGES, strict=True))),
        lambda x, _: [key_of(x[low:high], Y[low:high]) for low, high in RANGES],
        PAIR,
        has=("damage", "files"),
    ),
    Unit("patches", given(sample=Patches((4, 3), (3, 2))), _patches(None)),
    Unit("reflected", given(sample=Patches((4, 3), (3, 2), pad="reflect")), _patches("reflect")),
    Unit(
        "drawn",
        given(sample=Clips(3), weights=Weights(np.arange(N - 2) % 3), draws=40),
        _drawn,
        has=("damage", "inner"),
    ),
    Placed(
        "placed rows",
        given(crop=(3, 2), flip=("vertical", "horizontal"), channels={"x": "first"}),
        lambda x, _: [key_of(*one) for one in zip(x, Y, strict=True)],
        PAIR,
        placing={"crop": {0: 3, 1: 2}, "flip": (0, 1), "channels": "first", "before": 0},
    ),
    Placed(
        "rows in one array",
        given(crop={"x": 3, "again": 3}, flip=-1, into={"both": ("x", "again")}),
        lambda x, _: [key_of(*one) for one in zip(x, Y, strict=True)],
        {"x": "x", "y": "y", "again": "x"},
        placing={"crop": {0: 3, 1: 3}, "flip": (1,), "before": 0},
        twice=0,
    ),
    Placed(
        "placed clips",
        given(
            sample=Clips(3, before=1, stride=2, pad=-1, per_path={"y": range(4)}),
            crop={"x": (2, None)}, flip={"x": 1},
        ),
        _clips,
        PAIR,
        placing={"crop": {0: 2}, "flip": (1,), "before": 1},
    ),
    Placed(
        "placed along",
        given(sample=Clips(2, axis=1, stride=2), crop=(3,), flip=-1),
        lambda x, _: [
            key_of(x[row, [at, at + 2]]) for row in range(N) for at in range(x.shape[1] - 2)
        ],
        placing={"crop": {0: 3}, "flip": (0,), "before": 1},
    ),
    Items("items", given(), lambda x, _: [key_of(X[at]) for at in range(12)], has=()),
    Keys(
        "keys",
        given(),
        lambda x, _: [key_of(one) for one in np.split(np.arange(30) * 3, np.cumsum(
            [n % 4 for n in range(20)])[:-1]) if len(one)],
        has=(),
    ),
]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """One way through two epochs of a unit."""

    unit: Unit
    order: str | None
    files: str
    damaged: bool
    inner: bool
    n_procs: int
    seed: int
    #: Ranks and batch size, batches of each rank before the stop, then ranks and batch size again.
    before: tuple[int, int]
    taken: int
    after: tuple[int, int]
    kills: bool
    share: str | None = None

    @classmethod
    def drawn(cls, unit: Unit, order: str | None, draw: random.Random) -> Case:
        files = draw.choice(list(LENGTHS)) if "files" in unit.has else "one"
        damaged = "damage" in unit.has and files != "versions" and draw.random() < 0.5
        return cls(
            unit, order, files, damaged, "inner" in unit.has and draw.random() < 0.4,
            draw.choice([1, 1, 2]), draw.randrange(100),
            (draw.choice([1, 2, 3]), draw.choice([3, 7, 16])), draw.choice([0, 1, 3]),
            (draw.choice([1, 2]), draw.choice([4, 9])), draw.random() < 0.3,
        )  # fmt: skip

    def __str__(self) -> str:
        words = [self.unit.name, str(self.order), self.files]
        words += ["damaged"] * self.damaged + ["inner"] * self.inner + ["killed"] * self.kills
        return "-".join([*words, f"{self.before}x{self.taken}", f"{self.after}"])

    def wanted(self) -> Counter[Sample]:
        """The samples of two epochs."""
        x, lengths = X[:, INNER[0], INNER[1]] if self.inner else X, LENGTHS[self.files]
        both = [self.unit.of_epoch(x, lengths, self.seed, epoch) for epoch in range(2)]
        return Counter(itertools.chain(*both))

    def is_lost(self, sample: Sample) -> bool:
        """Whether a sample, whose first array is of x, has elements of the damaged chunk."""
        if not self.damaged:
            return False
        return bool(np.isin(np.frombuffer(sample[0], "<i8"), LOST).any())

    def run(self, streamer: Any) -> Counter[Sample]:
        """Return what two epochs delivered."""
        found, states = Counter[Sample](), []
        ranks, size = self.before
        for rank in range(ranks) if self.taken else ():
            with self.unit.loader(streamer, self, rank, ranks, size) as loader:
                iterator = iter(loader)
                # Behind the last one another iteration begins.
                n_batches = min(self.taken, len(loader))
                for number, batch in zip(range(n_batches), iterator, strict=False):
                    found.update(self.unit.split(batch))
                    if self.kills and not number:
                        list(map(kill, readers()))
                states.append(json.loads(json.dumps(loader.state_dict())))
        ranks, size = self.after
        for rank in range(ranks):
            with self.unit.loader(streamer, self, rank, ranks, size) as loader:
                if states:
                    loader.load_state_dict(states)
                for batch in loader:
                    found.update(self.unit.split(batch))
        return found


def cases(seed: int, count: int) -> Iterator[Case]:
    """Yield a case of each unit in each order in turn, the rest drawn."""
    draw = random.Random(seed)
    pairs = [(unit, order) for unit in UNITS for order in ORDERS]
    draw.shuffle(pairs)
    for number in range(count):
        yield Case.drawn(*pairs[number % len(pairs)], draw)


def write_all(folder: Path) -> dict[tuple[str, bool], Any]:
    """Write files of each kind, without and with damage; return their names."""
    kinds = [(kind, hurt) for kind in LENGTHS for hurt in (False, True)]
    written = {one: write(folder, *one) for one in kinds if one != ("versions", True)}
    return {one: names if len(names) > 1 else names[0] for one, names in written.items()}
