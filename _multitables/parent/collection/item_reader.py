"""Requests items from readers, and builds items from the results.

Law
---
1. An item's datasets in the common table are one request, or part of one for several items. Scales
   that items share are another one, whose result is kept. Each dataset that is alone is one more,
   or is read here if readers do not read it.
2. A request that finds no memory is made later, and no part of an item is requested twice.
3. Kept scales are bounded: the oldest go first, and are read again when an item needs them.
4. When a request for several items fails, each item is requested again alone, because the others
   may be good. Its arrays are copied, because an item in use would keep the memory of all others.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from _multitables import _core
from _multitables.errors import (
    CorruptChunkError,
    CorruptChunkWarning,
    FileChangedError,
    MissingDatasetError,
    MissingFilterError,
    MultitablesError,
    StoreError,
    UnsupportedDatasetError,
)
from _multitables.index.joined.kept_source import KeptSource
from _multitables.index.types import hdf5_errors
from _multitables.parent.collection.alone import (
    Alone,
    RaggedDataset,
    RaggedRequest,
    ask_rows,
    open_alone,
    value_of,
)
from _multitables.parent.collection.item import Item, Scales
from _multitables.parent.collection.open_items import OpenedItems
from _multitables.parent.random.pieces import PieceError, Pieces, SharedTable
from _multitables.parent.random.request import Request
from _multitables.parent.random.service import Service
from _multitables.plan.collection import Layout, Members
from _multitables.remote.access import told_requests
from _multitables.select.selection import Selection

#: Kinds of failures for which a library may know a way.
UNKNOWN = "filter_unknown"


@dataclass
class Results:
    """A request for whole datasets, and their arrays when they are there."""

    numbers: list[int]
    layout: Layout
    #: Whether several items share it.
    is_joined: bool = False
    request: Request | None = None
    arrays: dict[int, Any] = field(default_factory=dict)


@dataclass
class Asked:
    """An item that readers work on."""

    item: int
    n_bytes: int
    members: Members
    scales: list[int]
    #: Datasets and scales that no other item has.
    own: list[int]
    #: What still has to be asked.
    todo: list[Callable[[int | None], None]] = field(default_factory=list)
    results: list[Results] = field(default_factory=list)
    #: Requests for datasets that are alone; of rows of any length without a row, the empty block.
    alone: dict[int, Request | RaggedRequest | Any] = field(default_factory=dict)
    #: Those that this process reads, and what it has read.
    here: list[int] = field(default_factory=list)
    values: dict[int, Any] = field(default_factory=dict)
    #: Errors that came before a request was made.
    failed: list[PieceError] = field(default_factory=list)


class ItemReader:
    """Reads the items of a collection, through the readers of one service."""

    def __init__(
        self,
        service: Service,
        file: KeptSource,
        opened: OpenedItems,
        core: _core.SharedTable,
        *,
        skip_damaged: bool,
        damaged: dict[int, CorruptChunkError],
        kept_bytes: int,
    ) -> None:
        self._service, self._file, self._opened = service, file, opened
        self._table = SharedTable(opened.survey, opened.table, core, opened.direct)
        self._skip_damaged = skip_damaged
        self._limit = kept_bytes
        #: Shared scale -> the results that have it.
        self._kept: OrderedDict[int, Results] = OrderedDict()
        self._alone: dict[int, Alone] = {}
        #: Datasets that turned out to need a library, and those that do not decode.
        self._by_library: set[int] = set()
        self.damaged = damaged

    def statistics(self) -> dict[str, Any]:
        """Return the statistics of the service, with the requests for metadata of objects."""
        files = self._opened.survey.files
        metadata = told_requests(file.fingerprint.access for file in files)
        return {**self._service.statistics(), **metadata}

    # ---- scales that all ranks of a node have

    @property
    def n_shared_bytes(self) -> int:
        """Bytes of the scales that items share, if they can be kept."""
        results = self._shared()
        return 0 if results is None else results.layout.n_bytes

    def read_shared(self) -> bytes:
        """Read the scales that items share. Return nothing if they cannot be kept or decoded."""
        results = self._shared()
        if results is None:
            return b""
        self._ask(results, None)
        if results.request is None or results.request.exception() is not None:
            return b""
        with results.request.get_unsafe() as view:
            return bytes(view)

    def keep_shared(self, memory: Any) -> None:
        """Keep the scales that `read_shared` has read, which lie in this memory."""
        results = self._shared()
        if results is not None:
            self._fill(results, np.frombuffer(memory, np.uint8))
            self._kept = OrderedDict((scale, results) for scale in results.numbers)

    def _shared(self) -> Results | None:
        if not 0 < self._opened.shared_bytes <= self._limit:
            return None
        return self._results(sorted(filter(self._is_together, self._opened.shared)))

    # ---- asking

    def begin(self, items: Sequence[int]) -> list[Asked]:
        """Plan one request for the datasets of several items; `ask` sends it."""
        begun = [self._begun(item) for item in items]
        self._plan(begun)
        return begun

    def _begun(self, item: int) -> Asked:
        opened = self._opened
        members, scales = opened.items.members(item), opened.scales_of(item)
        own = list(dict.fromkeys(members.objects.values()))
        own += [scale for scale in scales if scale not in opened.shared]
        return Asked(item, self.n_bytes(item), members, scales, own)

    @property
    def is_remote(self) -> bool:
        """Whether a store has any of the files."""
        return self._opened.survey.is_remote

    def n_bytes(self, item: int) -> int:
        """Return the bytes of an item's result, less those of datasets that are alone."""
        return self._opened.item_bytes[item]

    def ask(self, asked: Asked, tries: int | None) -> None:
        """Send the requests that are left; `_core.Exhausted` after `tries` without memory."""
        while asked.todo:
            asked.todo[0](tries)
            del asked.todo[0]

    def _plan(self, begun: Sequence[Asked]) -> None:
        """Plan the requests of items; the first item sends the request that all share."""
        together = [n for asked in begun for n in asked.own if self._is_together(n)]
        if together:
            results = self._results(together, is_joined=len(begun) > 1)
            begun[0].todo.append(partial(self._ask, results))
            for asked in begun:
                asked.results.append(results)
        for asked in begun:
            self._plan_others(asked)
        self._forget()

    def _plan_others(self, asked: Asked) -> None:
        """Plan requests for scales that items share, and for datasets that are alone."""
        shared, every = self._opened.shared, (*asked.own, *asked.scales)
        common = [s for s in asked.scales if s in shared and self._is_together(s)]
        gone = self.damaged.keys() | self._opened.lost.keys()
        alone = [n for n in every if not self._is_together(n) and n not in gone]
        for scale in common:
            if scale in self._kept:
                self._kept.move_to_end(scale)
        new = [scale for scale in common if scale not in self._kept]
        if new:
            results = self._results(new)
            asked.todo.append(partial(self._ask, results))
            for scale in new:
                self._kept[scale] = results
        asked.results += {id(self._kept[scale]): self._kept[scale] for scale in common}.values()
        for number in dict.fromkeys(alone):
            asked.todo.append(partial(self._ask_alone, asked, number))

    def _is_together(self, number: int) -> bool:
        alone = self._opened.is_alone(number) or number in self._by_library
        return not alone and number not in self.damaged

    def _results(self, numbers: list[int], is_joined: bool = False) -> Results:
        return Results(numbers, self._opened.layout(numbers), is_joined)

    def _ask(self, results: Results, tries: int | None) -> None:
        if results.layout.n_bytes:
            pieces = Pieces(self._table, results.layout)
            results.request = self._service.ask_pieces(pieces, tries)

    def _ask_alone(self, asked: Asked, number: int, tries: int | None) -> None:
        try:
            if number not in self._alone:
                file, path = self._file_of(number), self._opened.path_of(number)
                self._alone[number] = open_alone(self._service.queue, file, path)
            dataset = self._alone[number]
            if isinstance(dataset, RaggedDataset):
                asked.alone[number] = ask_rows(self._service, dataset, tries)
                return
        except MultitablesError as error:  # it is raised when the item is due
            asked.failed.append(PieceError(number, "", error))
            return
        if dataset is None:
            asked.here.append(number)
        else:
            whole = Selection(dataset)[...]
            asked.alone[number] = self._service.ask(whole, self._service.pool, tries)

    def _loses(self, number: int, error: BaseException) -> bool:
        """Note that a scale cannot be read; False if that is no reason to go on without it."""
        if self._opened.is_in_item(number) or isinstance(error, MissingFilterError):
            return False
        if not isinstance(error, UnsupportedDatasetError | MissingDatasetError):
            return False
        self._opened.lost[number] = error.happened
        return True

    def _file_of(self, number: int) -> KeptSource:
        """Return the file in which a dataset, or a scale, was found."""
        if not self._file.is_several:
            return self._file
        return self._file.one(self._opened.file_of(number))

    def _forget(self) -> None:
        """Keep no more than is allowed of scales that are shared."""
        sizes = self._opened.table.n_bytes, self._opened.table.number
        n_bytes = sum(int(sizes[0][sizes[1][scale]]) for scale in self._kept)
        while n_bytes > self._limit and len(self._kept) > 1:
            scale, _ = self._kept.popitem(last=False)
            n_bytes -= int(sizes[0][sizes[1][scale]])

    # ---- answers

    def done(self, asked: Asked) -> bool:
        """Whether all that was asked is answered."""
        requests = [one.request for one in asked.results if one.request is not None]
        return not asked.todo and all(one.done() for one in (*requests, *_alone(asked).values()))

    def item(self, asked: Asked) -> Item:
        """Wait for the answers, and return the item."""
        while True:
            self.ask(asked, None)
            failed = self._failed(asked)
            if failed is None:
                break
            self._go_on_without(asked, failed)
        arrays: dict[int, Any] = {}
        for results in asked.results:
            found = self._arrays(results)
            if results.is_joined:
                found = {n: found[n].copy() for n in asked.own if n in found}
            arrays.update(found)
        for number, request in asked.alone.items():
            if isinstance(request, Request):
                with request.get_unsafe() as view:
                    arrays[number] = view
            else:
                arrays[number] = request.block if isinstance(request, RaggedRequest) else request
        return self._made(asked.members, arrays | asked.values)

    def _made(self, members: Members, arrays: dict[int, Any]) -> Item:
        opened, objects = self._opened, members.objects
        found = {name: arrays[n] for name, n in objects.items() if n in arrays}
        scales, attrs, damaged = {}, {}, {}
        if opened.has_scales:
            for name in found:
                axes = enumerate(opened.axes(objects[name]))
                scales[name] = tuple(
                    Scales(
                        {scale: arrays[s] for scale, s in of_axis.items() if s in arrays},
                        self._missing(objects[name], axis, of_axis),
                    )
                    for axis, of_axis in axes
                )
        if opened.attributes:
            attrs = {name: opened.attributes.get(objects[name], {}) for name in found}
        if self.damaged:
            damaged = {n: self.damaged[one] for n, one in objects.items() if one in self.damaged}
        groups = opened.groups_of(objects.values()) if opened.group_attributes else {}
        return Item(members.key, found, scales, attrs, damaged, groups)

    def _missing(
        self, number: int, axis: int, scales: Mapping[str, int]
    ) -> dict[str, MultitablesError]:
        """Return why scales of an axis of a dataset are missing."""
        lost, filename = self._opened.lost, self._opened.survey.places[number].file.filename
        path = self._opened.path_of(number)
        missing: dict[str, MultitablesError] = {
            name: hdf5_errors.lost_scale(filename, path, axis, lost[scale])
            for name, scale in scales.items()
            if scale in lost
        }
        damaged = {n: self.damaged[scale] for n, scale in scales.items() if scale in self.damaged}
        return missing | damaged

    def _failed(self, asked: Asked) -> BaseException | None:
        for results in asked.results:
            if results.request is not None and not results.arrays:
                error = results.request.exception()
                if error is not None:
                    return error
        for number, request in _alone(asked).items():
            error = request.exception()
            if isinstance(error, CorruptChunkError):
                return PieceError(number, "", error)
            if error is not None:
                return error
        for number in asked.here:
            if number not in asked.values:
                try:
                    asked.values[number] = self._value(number)
                except (CorruptChunkError, UnsupportedDatasetError) as error:
                    return PieceError(number, "", error)
        return asked.failed[0] if asked.failed else None

    def _value(self, number: int) -> Any:
        value = value_of(self._file_of(number), self._opened.path_of(number))
        self._opened.survey.places[number].file.check_unchanged()
        return value

    def _go_on_without(self, asked: Asked, failed: BaseException) -> None:
        """Plan an item again without the dataset that failed, or raise its error."""
        error = failed.error if isinstance(failed, PieceError) else failed
        is_joined = any(results.is_joined for results in asked.results)
        if is_joined and not isinstance(error, StoreError | FileChangedError):
            self._again(asked)
            return
        if not isinstance(failed, PieceError):
            raise failed
        number = failed.number
        if failed.kind == UNKNOWN:
            self._by_library.add(number)
        elif self._skip_damaged and isinstance(error, CorruptChunkError):
            if number not in self.damaged:  # items that were asked before fail again
                self.damaged[number] = error
                warnings.warn(_left_out(error), stacklevel=2)
        elif not self._loses(number, error):
            raise error.with_traceback(None)
        for scale in [s for s, kept in self._kept.items() if number in kept.numbers]:
            del self._kept[scale]
        self._again(asked)

    def _again(self, asked: Asked) -> None:
        """Plan an item alone, from the beginning."""
        planned: tuple[Any, ...] = asked.results, asked.alone, asked.here, asked.values
        for one in (*planned, asked.failed, asked.todo):
            one.clear()
        self._plan([asked])

    def _arrays(self, results: Results) -> dict[int, Any]:
        if not results.arrays:
            view = None
            if results.request is not None:
                with results.request.get_unsafe() as view:
                    pass
            self._fill(results, view)
        return results.arrays

    def _fill(self, results: Results, view: Any) -> None:
        """Take the arrays out of the bytes of a result; None: no dataset has any."""
        survey, table = self._opened.survey, self._opened.table
        for one, begin in zip(results.numbers, results.layout.begins, strict=True):
            dtype, shape = survey.kinds[int(survey.kind[one])].dtype, survey.shape(one)
            if view is None or table.number[one] < 0:
                results.arrays[one] = np.empty(shape, dtype)
                continue
            n_bytes = int(table.n_bytes[table.number[one]])
            results.arrays[one] = view[begin : begin + n_bytes].view(dtype).reshape(shape)


def _alone(asked: Asked) -> dict[int, Request]:
    """Return the requests for datasets that are alone."""
    found = asked.alone.items()
    ragged = {number: one.request for number, one in found if isinstance(one, RaggedRequest)}
    return {number: one for number, one in found if isinstance(one, Request)} | ragged


def _left_out(error: CorruptChunkError) -> CorruptChunkWarning:
    return CorruptChunkWarning(
        error.happened,
        good="The dataset is left out of its item, and the run goes on",
        advice=error.advice,
        **error.values,
    )
