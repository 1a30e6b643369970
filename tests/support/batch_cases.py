"""Arguments of plans of batches, made up by Hypothesis.

Law
---
1. A case is what `get_batches` may ask for: any datasets of one length, any rows of them, and what
   a rank has of an epoch, or of what was left of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from plans import NATIVE, an_index

from _multitables import options
from _multitables.index.chunk_index import ChunkIndex
from _multitables.options import checked
from _multitables.plan.batch_plan import plan_batches
from _multitables.plan.reader_options import BatchOptions
from _multitables.plan.row_order import FILE_ORDER, OrderWords, order_of
from _multitables.plan.row_subset import subset_of
from _multitables.plan.sharding import Shard, shard_of
from _multitables.plan.stream_plan import ReadPlan

#: Of tests that plan a case each.
many = settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


def asked(**changes: Any) -> BatchOptions:
    """Options as `get_batches` checks them."""
    plain = {
        "batch_size": 10, "n_procs": 2, "shuffle": "window", "seed": 1, "epochs": 1,
        "start_epoch": 0, "drop_last": False, "rank": 0, "world_size": 1, "rows": None,
        "read_ahead": None, "transform": None, "window_rows": None, "even": False,
        "memory_limit_bytes": None, "skip_damaged": False, "version": None, "share": None,
    }  # fmt: skip
    return checked(BatchOptions, **{**plain, **changes})


@dataclass(frozen=True)
class Case:
    """Arguments of plan_batches."""

    indexes: tuple[ChunkIndex, ...]
    order: OrderWords
    ranges: tuple[tuple[int, int], ...]
    options: dict[str, Any]

    def plan(self, **changes: Any) -> ReadPlan:
        return plan_batches(
            self.indexes,
            order=self.order,
            ranges=self.ranges,
            native_filters=NATIVE,
            **{**self.options, **changes},
        )

    @property
    def laps(self) -> float:
        epochs = self.options["epochs"]
        return math.inf if epochs is None else float(epochs)


@st.composite
def a_subset(draw: st.DrawFn, n_rows: int) -> Any:
    kind = draw(st.sampled_from(["all", "all", "slice", "list"]))
    if kind == "slice":
        return slice(draw(st.integers(0, n_rows)), None, draw(st.integers(1, 4)))
    if kind == "list" and n_rows:
        return draw(st.lists(st.integers(0, n_rows - 1), max_size=40))
    return None


@st.composite
def some_ranges(draw: st.DrawFn, n_rows: int) -> tuple[tuple[int, int], ...]:
    """What a rank delivers: of an epoch, or of what was left of one; perhaps padded."""
    left = [(0, n_rows)]
    if draw(st.booleans()):
        cuts = sorted(draw(st.sets(st.integers(0, n_rows), max_size=8)))
        left = list(zip(cuts[::2], cuts[1::2], strict=False))
    world = draw(st.integers(1, 4))
    shard = Shard(
        draw(st.integers(1, 50)),
        draw(st.integers(0, world - 1)),
        world,
        draw(st.booleans()),
        draw(st.booleans()),
    )
    return tuple(shard_of(left, shard))


@st.composite
def a_case(draw: st.DrawFn) -> Case:
    n_rows = draw(st.one_of(st.integers(0, 40), st.integers(0, 600)))
    indexes = tuple(draw(st.lists(an_index(n_rows), min_size=1, max_size=3)))
    wanted = asked(
        batch_size=draw(st.integers(1, 80)),
        shuffle=draw(st.sampled_from(options.SHUFFLES)),
        seed=draw(st.integers(0, 2**63 - 1)),
        window_rows=draw(st.none() | st.integers(1, 200) | st.just(10**30)),
        memory_limit_bytes=draw(st.none() | st.integers(1, 1 << 24)),
    )
    order = order_of(indexes, subset_of(draw(a_subset(n_rows)), n_rows), wanted)
    order = replace(order, first_epoch=draw(st.integers(0, 9) | st.just(2**63 - 1)))
    options_ = {
        "batch_size": wanted.batch_size,
        "n_readers": draw(st.integers(1, 9)),
        "epochs": draw(st.sampled_from([1, 3, None])),
        "read_ahead": draw(st.none() | st.integers(1, 30)),
        "direct": draw(st.booleans()),
    }
    return Case(indexes, order, draw(some_ranges(order.n_rows)), options_)


def streams(case: Case) -> bool:
    """Rows in the order of the file are a plain stream's."""
    return case.order.shuffle == FILE_ORDER and case.order.step == 1 and len(case.ranges) <= 1
