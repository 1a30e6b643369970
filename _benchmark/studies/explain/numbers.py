"""The numbers of an explanation: medians of the kept rows, and the limits that they make.

Law
---
1. Pure: its input is the rows and the JSON file's content.
2. It computes; `views` has the words and tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from _benchmark.analysis.advice import Bounds, Growing, Shape
from _benchmark.harness.results import Row
from _benchmark.harness.rounds import Summary, summary

COLUMNS = (
    *("study", "file", "path", "way", "quantity", "n_procs", "block_size", "cache", "round"),
    *("seconds", "decoded_bytes", "mb_per_s", "stored_mb_per_s"),
    *("fetch_seconds", "decode_seconds", "wait_seconds"),
)
# how a file is read (the column `way`): around the page cache, through it when warm, and neither
DIRECT, WARM, NEITHER = "direct", "warm", ""

#: mode, processes, block size: empty for the library's own
Case = tuple[str, int, str]


@dataclass(frozen=True)
class Found:
    """The kept rows, and what the JSON file says of the run."""

    rows: Sequence[Row]
    more: Mapping[str, Any]

    def of(self, quantity: str, column: str = "mb_per_s", **key: Any) -> Summary | None:
        """Median and spread of a quantity; None when there is no number."""
        wanted = {name: str(value) for name, value in key.items()}
        values = [
            float(row[column])
            for row in self.rows
            if row["quantity"] == quantity
            and all(row[name] == value for name, value in wanted.items())
            and row[column]
        ]
        return summary(values) if values else None

    def numbers(self, quantity: str, **key: str) -> list[int]:
        """The numbers of processes, requests or threads with which it was measured, rising."""
        return sorted(
            {
                int(row["n_procs"])
                for row in self.rows
                if row["quantity"] == quantity
                and all(row[name] == value for name, value in key.items())
            }
        )

    def rates(self, mode: str) -> dict[int, float]:
        """Processes -> the stream's median, with the library's own block size."""
        found = {}
        for n in self.numbers("stream", way=mode, block_size=""):
            one = self.of("stream", way=mode, block_size="", n_procs=n)
            if one:
                found[n] = one.median
        return found

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
    def native(self) -> bool:
        """Whether the library fetches and decodes it itself."""
        return "fetch and decode" not in self.more["left_out"]

    @property
    def is_stored(self) -> bool:
        """Whether there is anything to read, and not only a fill value."""
        return bool(self.more["dataset"]["stored_bytes"])

    def bounds(self, mode: str) -> Bounds | None:
        """What a stream in this mode cannot exceed; None where that cannot be told."""
        if not (self.native and self.is_stored and self.numbers("fetch and decode")):
            return None
        fixed: dict[str, float] = {}
        growing: dict[str, Growing] = {}
        hand_over = self.of("hand-over")
        if hand_over:
            fixed["hand-over"] = hand_over.median
        device = [self.of("device", n_procs=n) for n in self.numbers("device")]
        if mode == DIRECT:
            if not device:
                return None
            fixed["device"] = max(one.median for one in device if one)
        decoding = self._growing("fetch and decode")
        filtered = bool(self.more["dataset"]["filters"])
        if filtered:
            growing["decoding"] = decoding
        elif mode == WARM:
            growing["page cache"] = decoding  # there is nothing to decode, so this is fetching
        return Bounds(fixed, growing) if fixed or growing else None

    def _growing(self, quantity: str) -> Growing:
        numbers = self.numbers(quantity)
        medians = [one.median for n in numbers if (one := self.of(quantity, n_procs=n))]
        return Growing(medians[0], medians[-1], numbers[-1])

    def cases(self) -> list[Case]:
        """The streams that were measured, those of the library's own block size first."""
        cases = {
            (row["way"], int(row["n_procs"]), row["block_size"])
            for row in self.rows
            if row["quantity"] == "stream"
        }
        return sorted(cases, key=lambda case: (case[0], case[2] != "", case))

    def stream(self, case: Case, column: str = "mb_per_s") -> Summary | None:
        """Median and spread of one stream."""
        mode, n, block_size = case
        return self.of("stream", column, way=mode, n_procs=n, block_size=block_size)
