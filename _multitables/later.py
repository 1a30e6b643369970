"""Public names that are imported when they are first named.

Law
---
1. `LATER` says where each of them is: all but the errors and what `open` needs. The adapters, which
   need libraries, have a table of their own.
"""

from __future__ import annotations

import importlib
from typing import Any

from _multitables import adapters

#: Name in `multitables` -> its file.
LATER = {
    "ArrayDataset": "parent.random.dataset",
    "At": "plan.samples",
    "BatchIterator": "parent.batches.iteration",
    "Batches": "parent.batches.batches",
    "Clips": "plan.samples",
    "Collection": "parent.collection.collection",
    "Columns": "parent.columns.columns",
    "ColumnsBlock": "parent.columns.column_block",
    "Empty": "elements.empty",
    "EventLog": "parent.event_log",
    "ExternalLink": "parent.open.links",
    "FollowQueue": "parent.stream.stream_queue",
    "GroupBlock": "parent.columns.column_block",
    "HardLink": "parent.open.links",
    "Image": "index.types.image",
    "Item": "parent.collection.item",
    "ItemBatch": "parent.collection.item_batches",
    "ItemBatches": "parent.collection.item_batches",
    "ItemIterator": "parent.batches.iteration",
    "Joined": "tree",
    "Mixture": "parent.batches.mixture",
    "Patches": "plan.samples",
    "Ragged": "tree",
    "RaggedBlock": "parent.ragged.ragged_block",
    "RaggedQueue": "parent.stream.stream_queue",
    "Ranges": "plan.samples",
    "Reader": "parent.random_reader",
    "Reference": "index.types.references",
    "RegionReference": "index.types.references",
    "Request": "parent.random.request",
    "RequestPool": "parent.random.request_pool",
    "SoftLink": "parent.open.links",
    "Stage": "parent.random.stage",
    "StagePool": "parent.random.stage",
    "StreamQueue": "parent.stream.stream_queue",
    "Streamer": "parent.streamer",
    "TableDataset": "parent.random.dataset",
    "UserLink": "parent.open.links",
    "VLArrayDataset": "parent.random.dataset",
    "Version": "index.versions.version",
    "Versions": "parent.versions",
    "VersionsQueue": "parent.stream.stream_queue",
    "Weights": "plan.weights",
    "build_info": "parent.build_info",
    "index_file": "parent.index_file",
    "index_files": "parent.index_files",
    "is_hdf5": "parent.open.is_hdf5",
    "measure_limit": "parent.codec_limit",
    "read": "parent.open.read",
    "release_memory": "machine",
    "set_reader_command": "machine",
    "versions": "parent.versions",
}


def names() -> set[str]:
    """Return the names that can be had: adapters as far as their libraries are installed."""
    return {*LATER, *adapters.installed()}


def load(name: str) -> Any:
    """Return what has a public name.

    Raises
    ------
    AttributeError
        There is no such name.
    """
    if name not in LATER:
        return adapters.load(name)
    return getattr(importlib.import_module(f"_multitables.{LATER[name]}"), name)
