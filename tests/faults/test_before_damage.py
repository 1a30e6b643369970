"""What comes before a damaged chunk is delivered to the last block.

1. The oracle is arithmetic: blocks that end before the first damaged chunk's rows come, no more.
2. It holds for any chunks, blocks, readers, drivers and datasets side by side.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from processes import children

import multitables

ROWS = 1200
DRIVERS: dict[str, dict[str, Any]] = {"buffered": {}, "direct": {"DRIVER": "H5FD_DIRECT"}}


@dataclass(frozen=True)
class Layout:
    """A dataset of ROWS rows of 12 numbers, each its own place in it."""

    chunk_rows: int
    chunk_columns: int
    filters: str
    #: The row whose chunk is damaged; None: none is.
    bad_row: int | None
    unallocated: bool

    def rows(self, number: int) -> np.ndarray:
        """What is there, were it not damaged."""
        data = (np.arange(ROWS * 12, dtype="<i4") + number).reshape(ROWS, 12)
        if self.unallocated:
            data[: ROWS // 2] = 0
        return data

    @property
    def first_bad(self) -> int:
        """The first row that cannot be read."""
        if self.bad_row is None:
            return ROWS
        return self.bad_row // self.chunk_rows * self.chunk_rows

    def write(self, file: h5py.File, number: int) -> None:
        options = {"gzip": {"compression": "gzip"}, "fletcher32": {"fletcher32": True}}
        dataset = file.create_dataset(
            f"x{number}",
            (ROWS, 12),
            "<i4",
            chunks=(self.chunk_rows, self.chunk_columns),
            **options[self.filters],
        )
        start = ROWS // 2 if self.unallocated else 0
        dataset[start:] = self.rows(number)[start:]

    def damage(self, file: h5py.File, number: int) -> list[int]:
        """Byte offsets at which chunks begin that are to be damaged."""
        if self.bad_row is None:
            return []
        found = file[f"x{number}"].id
        infos = (found.get_chunk_info(i) for i in range(found.get_num_chunks()))
        return [one.byte_offset for one in infos if one.chunk_offset[0] == self.first_bad]


layouts = st.builds(
    Layout,
    st.sampled_from([2, 7, 64, 250, 500]),
    st.sampled_from([12, 12, 5]),
    st.sampled_from(["gzip", "fletcher32"]),
    st.none() | st.integers(ROWS // 2, ROWS - 1),
    st.booleans(),
)


def write(path: Path, members: list[Layout]) -> None:
    with h5py.File(path, "w") as file:
        for number, layout in enumerate(members):
            layout.write(file, number)
    with h5py.File(path, "r") as file:
        places = [at for number, one in enumerate(members) for at in one.damage(file, number)]
    with path.open("r+b") as raw:
        for place in places:
            raw.seek(place)
            raw.write(b"\x5a" * 6)


def delivered(path: Path, members: list[Layout], size: int, n_procs: int, driver: str) -> int:
    """How many rows come, each checked, before the error that must come."""
    names = [f"x{number}" for number in range(len(members))]
    want = [one.rows(number) for number, one in enumerate(members)]
    streamer = multitables.Streamer(path, **DRIVERS[driver])
    told: list[int] = []

    def read() -> None:
        with streamer.get_queue(names, n_procs=n_procs, block_size=size, remainder=True) as queue:
            for guard in queue:
                with guard as blocks:
                    for block, whole in zip(blocks, want, strict=True):
                        begin = sum(told)
                        np.testing.assert_array_equal(block, whole[begin : begin + len(block)])
                    told.append(len(blocks[0]))

    with pytest.raises(multitables.CorruptChunkError) as caught:
        read()
    # Of several in one task's reach, any is named.
    assert caught.value.rows[0] in {one.first_bad for one in members}
    return sum(told)


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    st.lists(layouts, min_size=1, max_size=3).filter(
        lambda members: any(one.bad_row is not None for one in members)
    ),
    st.sampled_from([1, 10, 64, 97]),
    st.integers(0, 3),
    st.sampled_from(list(DRIVERS)),
)
def test_every_block_before_the_damage(
    tmp_path: Path, members: list[Layout], size: int, n_procs: int, driver: str
) -> None:
    path = tmp_path / "damaged.h5"
    write(path, members)
    first = min(one.first_bad for one in members)
    assert delivered(path, members, size, n_procs, driver) == first // size * size
    assert children() == {}


@pytest.mark.parametrize("driver", DRIVERS)
@pytest.mark.parametrize("n_procs", [0, 1, 2])
def test_batches_in_order(h5: Path, driver: str, n_procs: int) -> None:
    layout = Layout(7, 12, "fletcher32", 900, unallocated=False)
    write(h5, [layout])
    rows = 0
    streamer = multitables.Streamer(h5, **DRIVERS[driver])
    with streamer.get_batches("x0", 5, n_procs=n_procs) as batches:
        steps = iter(batches)
        while True:
            try:
                batch = next(steps)
            except multitables.CorruptChunkError:
                break
            np.testing.assert_array_equal(batch, layout.rows(0)[rows : rows + len(batch)])
            rows += len(batch)
            del batch
    assert rows == layout.first_bad // 5 * 5
    # And on behind the damage.
    keep = np.ones(ROWS, bool)
    keep[:rows] = False
    keep[layout.first_bad : layout.first_bad + 7] = False
    with streamer.get_batches("x0", 5, n_procs=n_procs, rows=keep) as batches:
        rest = np.concatenate([batch.copy() for batch in batches])
    np.testing.assert_array_equal(rest, layout.rows(0)[keep])
