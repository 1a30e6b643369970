"""A file as a fusion experiment writes it: shots of many signals, with the time bases they share.

Law
---
1. The same value gives the same datasets, whatever the order in which they are written.
2. Sizes of signals have a heavy tail. What is larger than 8 kB is compressed with deflate 4, the
   rest is stored contiguously.
3. Space is aggregated in pages, metadata in pages of its own.

This is how the study of Alcator C-Mod's data stored 500 shots of 62 signals, with an HDF5 file for
each order of writing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from _multitables.benchmark.data.workloads import kept, whole

MARK = "made_from"
#: The path of all signals: a wildcard for the shot, and one for the signal.
PATTERN = "/shots/*/signals/*"
FIRST_SHOT = 1_050_001
PAGE_BYTES = 8_000_000
PLAIN_BYTES = 8000
#: Sizes are median and spread of a lognormal distribution: some 60 kB are stored in the mean.
MEDIAN_VALUES = 8000
SPREAD = 1.6
MAX_VALUES = 250_000
TIME_BASES = 6
LAYOUTS = ("shot", "signal")


@dataclass(frozen=True)
class ShotsFile:
    """The file.

    Attributes
    ----------
    name : str
    n_shots, n_signals : int
    layout : str
        What is written together: all of a shot ("shot"), or a signal of all shots ("signal").
    """

    name: str
    n_shots: int
    n_signals: int
    layout: str
    seed: int = 0

    @property
    def needed_bytes(self) -> int:
        """Free bytes the file may need."""
        return self.n_shots * self.n_signals * 2**19 + 4 * PAGE_BYTES

    def lengths(self) -> Any:
        """Values of each time base; one for all shots, which differ by some percent."""
        random = np.random.default_rng(self.seed)
        found = random.lognormal(np.log(MEDIAN_VALUES), SPREAD, max(TIME_BASES, self.n_signals))
        return np.clip(found, 100, MAX_VALUES).astype(int)

    def time_base(self, signal: int) -> int:
        """The signal whose time base a signal has; every second one has its own."""
        return signal if signal % 2 else signal % (2 * TIME_BASES)

    def shot_of(self, number: int) -> str:
        """The name of a shot."""
        return str(FIRST_SHOT + number)

    def write(self, filename: str) -> None:
        """Write the file."""
        import h5py

        page = {"fs_strategy": "page", "fs_page_size": PAGE_BYTES}
        with h5py.File(filename, "w", libver="latest", **page) as file:
            file.attrs[MARK] = repr(self)
            for shot in range(self.n_shots):
                file.create_group(f"shots/{self.shot_of(shot)}/signals")
            for shot, signal in self._order():
                self._write_signal(file[f"shots/{self.shot_of(shot)}"], shot, signal)

    def _order(self) -> Iterator[tuple[int, int]]:
        shots, signals = range(self.n_shots), range(self.n_signals)
        if self.layout == "shot":
            return ((shot, signal) for shot in shots for signal in signals)
        return ((shot, signal) for signal in signals for shot in shots)

    def _write_signal(self, group: Any, shot: int, signal: int) -> None:
        base = self.time_base(signal)
        random = np.random.default_rng((self.seed, shot, base))
        n = int(self.lengths()[base] * random.uniform(0.9, 1.1))
        name = f"time{base:02}"
        if name not in group:
            _dataset(group, name, np.arange(n) / 20_000 - 0.1).make_scale("time")
        steps = np.random.default_rng((self.seed, shot, signal, 1)).standard_normal(n)
        values = np.round(np.cumsum(steps.astype("f4")) * 32) / 1024  # as a digitiser gives them
        made = _dataset(group["signals"], f"signal{signal:02}", values.astype("f4"))
        made.attrs["shot"], made.attrs["units"] = FIRST_SHOT + shot, "V"
        made.dims[0].attach_scale(group[name])


def _dataset(group: Any, name: str, values: Any) -> Any:
    filters = {"compression": "gzip", "compression_opts": 4} if values.nbytes > PLAIN_BYTES else {}
    return group.create_dataset(name, data=values, **filters)


def in_directory(shots: ShotsFile, directory: str) -> str:
    """The file in `directory`, written when it is not there yet.

    Raises
    ------
    FileExistsError
        A file of that name holds something else.
    """
    return kept(shots, os.path.join(directory, f"{shots.name}.h5"), _holds, _write)


def _write(shots: ShotsFile, filename: str) -> None:
    with whole(shots, filename) as part:
        shots.write(part)


def _holds(shots: ShotsFile, filename: str) -> bool:
    import h5py

    try:
        with h5py.File(filename, "r") as file:
            return bool(file.attrs.get(MARK) == repr(shots))
    except OSError:
        return False
