"""The classes of projects that train from HDF5, written anew: samples by number from open files.

Law
---
1. Each does the work of its project's class with h5py's calls alone. It takes the function that
   opens a file, so that another library's `open` runs in the same lines.
2. A file is held open, or opened for each sample, as the project has it. In a process of a
   DataLoader it is opened there.
3. It runs beside the loops: standard library and NumPy only.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

Open = Callable[[str], Any]
Sample = dict[str, Any]

SKIP, FRAMES = 5, 4
SPAN = SKIP * (FRAMES - 1) + 1
STEPS = 5  # of a window: four to predict from, and one to predict
FIELDS = {"density": "t0_fields/density", "velocity": "t1_fields/velocity"}
WINDOW = 4096
DETECTORS = {"H1": "H1/strain", "L1": "L1/strain"}
PATCH, STRIDE = (32, 128, 128), (16, 64, 64)
SEQUENCE = 10
DEMO = {
    "image": "obs/agentview_image",
    "position": "obs/robot0_eef_pos",
    "action": "actions",
    "reward": "rewards",
}
MOLECULE = {
    "numbers": "atomic_numbers",
    "positions": "geometry/positions",
    "gradients": "geometry/dft/gradients",
}


class Project(Protocol):
    """The face of a class that loaders use."""

    def __init__(self, opens: Open, files: Sequence[str]) -> None: ...

    def __len__(self) -> int: ...

    def __getitem__(self, number: int) -> Sample: ...


class _Held:
    """One file, which each process holds open."""

    def __init__(self, opens: Open, files: Sequence[str]) -> None:
        self._opens, self._filename = opens, files[0]
        self._held: Any = None

    @property
    def file(self) -> Any:
        if self._held is None:
            self._held = self._opens(self._filename)
        return self._held


class Clips(_Held):
    """Frames of an episode at a frame skip, and the action of each row between them."""

    def __init__(self, opens: Open, files: Sequence[str]) -> None:
        super().__init__(opens, files)
        with opens(self._filename) as file:
            lengths = file["ep_len"][:]
        firsts = np.cumsum(lengths) - lengths
        each = [first + np.arange(n - SPAN + 1) for first, n in zip(firsts, lengths, strict=True)]
        self.starts = np.concatenate(each)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, number: int) -> Sample:
        rows = slice(int(self.starts[number]), int(self.starts[number]) + SPAN)
        return {"pixels": self.file["pixels"][rows][::SKIP], "action": self.file["action"][rows]}


class _Reopened:
    """Several files, each opened for each of its samples; `ends` counts samples of files."""

    ends: Any

    def __init__(self, opens: Open, files: Sequence[str]) -> None:
        self._opens, self._files = opens, files

    def __len__(self) -> int:
        return int(self.ends[-1])

    def _place(self, number: int) -> tuple[int, int]:
        """The number of the file, and that of the sample in it."""
        at = int(np.searchsorted(self.ends, number, "right"))
        return at, number - (int(self.ends[at - 1]) if at else 0)


class Fluids(_Reopened):
    """Windows of steps of each trajectory."""

    def __init__(self, opens: Open, files: Sequence[str]) -> None:
        super().__init__(opens, files)
        n_samples = []
        for filename in files:
            with opens(filename) as file:
                n, steps = file[FIELDS["density"]].shape[:2]
            self.windows = steps - STEPS + 1
            n_samples.append(n * self.windows)
        self.ends = np.cumsum(n_samples)

    def window(self, number: int) -> tuple[int, int, slice]:
        """The file, the trajectory and the steps of a sample."""
        at, number = self._place(number)
        trajectory, start = divmod(number, self.windows)
        return at, trajectory, slice(start, start + STEPS)

    def __getitem__(self, number: int) -> Sample:
        at, *window = self.window(number)
        with self._opens(self._files[at]) as file:
            return {name: file[path][tuple(window)] for name, path in FIELDS.items()}


class Waves(_Reopened):
    """Windows of all channels that begin anywhere; an epoch has twice the recordings."""

    def __init__(self, opens: Open, files: Sequence[str]) -> None:
        super().__init__(opens, files)
        rng, starts, lengths = np.random.default_rng(1), [], []
        for filename in files:
            with opens(filename) as file:
                lengths.append(len(file[DETECTORS["H1"]]))
            starts.append(rng.integers(0, lengths[-1] - WINDOW + 1, 2 * lengths[-1] // WINDOW))
        self.ends = np.cumsum([len(one) for one in starts])
        self.starts = np.concatenate(starts)
        #: The same in the rows of all files, one behind the other.
        firsts = np.cumsum([0, *lengths[:-1]])
        self.rows = self.starts + np.repeat(firsts, [len(one) for one in starts])

    def __getitem__(self, number: int) -> Sample:
        at, _ = self._place(number)
        rows = slice(int(self.starts[number]), int(self.starts[number]) + WINDOW)
        with self._opens(self._files[at]) as file:
            return {name: file[path][rows] for name, path in DETECTORS.items()}


class Patches(_Reopened):
    """Boxes on a grid over each volume, and their labels."""

    def __init__(self, opens: Open, files: Sequence[str]) -> None:
        super().__init__(opens, files)
        self._boxes = []
        for filename in files:
            with opens(filename) as file:
                shape = file["raw"].shape
            axes = [
                [slice(start, start + extent) for start in range(0, n - extent + 1, stride)]
                for n, extent, stride in zip(shape, PATCH, STRIDE, strict=True)
            ]
            self._boxes.append([*itertools.product(*axes)])
        self.ends = np.cumsum([len(one) for one in self._boxes])

    def __getitem__(self, number: int) -> Sample:
        at, number = self._place(number)
        box = self._boxes[at][number]
        with self._opens(self._files[at]) as file:
            return {name: file[name][box] for name in ("raw", "label")}


class Robots(_Held):
    """Steps of a demonstration from each of its steps on; behind its end the last one again."""

    def __init__(self, opens: Open, files: Sequence[str]) -> None:
        super().__init__(opens, files)
        with opens(self._filename) as file:
            lengths = [len(file[f"data/demo_{at}/actions"]) for at in range(len(file["data"]))]
        self._index = [(at, start) for at, n in enumerate(lengths) for start in range(n)]

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, number: int) -> Sample:
        at, start = self._index[number]
        found = {}
        for name, path in DEMO.items():
            rows = self.file[f"data/demo_{at}/{path}"][start : start + SEQUENCE]
            padding = [(0, SEQUENCE - len(rows)), *[(0, 0)] * (rows.ndim - 1)]
            found[name] = np.pad(rows, padding, "edge")
        return found


class Molecules(_Held):
    """One configuration of a molecule: its atoms, their positions, and the forces on them."""

    def __init__(self, opens: Open, files: Sequence[str]) -> None:
        super().__init__(opens, files)
        self._index, self.firsts = list[tuple[str, int]](), dict[str, int]()
        with opens(self._filename) as file:
            for name, group in file.items():
                self.firsts[name] = len(self._index)
                n = len(group[MOLECULE["positions"]])
                self._index += [(name, configuration) for configuration in range(n)]

    def __len__(self) -> int:
        return len(self._index)

    def __getitem__(self, number: int) -> Sample:
        name, at = self._index[number]
        group = self.file[name]
        numbers, positions, gradients = (group[path] for path in MOLECULE.values())
        return {"numbers": numbers[:], "positions": positions[at], "gradients": gradients[at]}


PROJECTS: dict[str, type[Project]] = {
    "clips": Clips,
    "fluids": Fluids,
    "waves": Waves,
    "patches": Patches,
    "robots": Robots,
    "molecules": Molecules,
}
