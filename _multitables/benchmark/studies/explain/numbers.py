"""The numbers of an explanation: medians of the kept rows, and the limits that they make.

Law
---
1. Pure: its input is the rows and the JSON file's content.
2. It computes; `views` has the words and tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from _multitables.benchmark.analysis import advice
from _multitables.benchmark.analysis.advice import Bounds, Growing, Shape, Verdict
from _multitables.benchmark.report.figures import Figures
from _multitables.benchmark.studies.frame import LABEL

KEYS = ("file", "path", "way", "n_procs", "block_size")
MORE = (
    *("seconds", "decoded_bytes", "stored_mb_per_s"),
    *("fetch_seconds", "decode_seconds", "wait_seconds"),
)
# how a file is read (the column `way`): around the page cache, through it when warm, and neither
DIRECT, WARM, NEITHER = "direct", "warm", ""
#: The contender that is a stream; all others are limits.
STREAM = LABEL


@dataclass(frozen=True)
class Found:
    """The kept rows, and what the JSON file says of the run."""

    figures: Figures
    more: Mapping[str, Any]

    def of(self, who: str | tuple[str, ...], **key: Any) -> Figures:
        """The rows of limits, or of streams."""
        return self.figures.where(contender=who, **key)

    def rates(self, way: str) -> dict[int, float]:
        """Processes -> the stream's median, with the library's own block size."""
        return _medians(self.of(STREAM, way=way, block_size=""))

    @property
    def cores(self) -> int:
        return int(self.more["cores"])

    @property
    def shape(self) -> Shape:
        """The dataset, as `advice` wants it."""
        dataset = self.more["dataset"]
        shape, chunks = dataset["shape"], dataset["chunks"]
        row_bytes = dataset["row_bytes"]
        chunk_bytes = row_bytes * chunks[0] if chunks else row_bytes
        for length, whole in zip(chunks[1:], shape[1:], strict=False):
            chunk_bytes = chunk_bytes * length // max(1, whole)
        return Shape(shape[0], row_bytes, chunks[0] if chunks else 1, chunk_bytes)

    @property
    def is_chunked(self) -> bool:
        """Whether it has chunks."""
        return bool(self.more["dataset"]["chunks"])

    @property
    def is_narrow(self) -> bool:
        """Whether its chunks hold parts of too many rows."""
        return advice.are_narrow(self.shape, self.is_chunked)

    @property
    def native(self) -> bool:
        """Whether the library fetches and decodes it itself."""
        return "fetch and decode" not in self.more.get("left_out", {})

    @property
    def is_stored(self) -> bool:
        """Whether there is anything to read, and not only a fill value."""
        return bool(self.more["dataset"]["stored_bytes"])

    def verdict(self, way: str) -> Verdict | None:
        """The bound of the stream; None where it is not known."""
        limits, rates = self._bounds(way), self.rates(way)
        return advice.judge(limits, rates) if limits and rates else None

    def _bounds(self, way: str) -> Bounds | None:
        decoding = _medians(self.of("fetch and decode"))
        device = _medians(self.of("device"))
        if not (self.native and self.is_stored and decoding) or (way == DIRECT and not device):
            return None
        fixed = {"device": max(device.values())} if way == DIRECT else {}
        hand_over = self.of("hand-over").median()
        if hand_over:
            fixed["hand-over"] = hand_over
        most = max(decoding)
        grows = Growing(decoding[min(decoding)], decoding[most], most)
        growing = {}
        if self.more["dataset"]["filters"]:
            growing["fetch and decode"] = grows
        elif way == WARM:
            growing["page cache"] = grows  # nothing has to be decoded, so this is fetching
        return Bounds(fixed, growing) if fixed or growing else None

    def block_sizes(self) -> dict[int, float]:
        """Block size -> the stream's median, where another than the library's own was tried."""
        sizes: dict[int, float] = {}
        for (way, n, block_size), one in self.of(STREAM).each("way", "n_procs", "block_size"):
            own = self.of(STREAM, way=way, n_procs=n, block_size="").median()
            other = one.median()
            if block_size and own and other:  # the last of them is the warm one
                sizes = {int(self.more["default_rows"]): own, int(block_size): other}
        return sizes


def _medians(figures: Figures) -> dict[int, float]:
    """Processes, requests or threads -> the median, rising."""
    found = [(int(n), rate) for (n,), one in figures.each("n_procs") if (rate := one.median())]
    return dict(sorted(found))
